"""What clusters and disks do to a run: kills, signals, numbers that are none, full disks, folders that vanish.

Small counts of what benchmarks/kill_resume.py, resume_grid.py, kill_save.py, corrupt_checkpoints.py and cache_races.py
do at length.
"""

import json
import logging
import os
import resource
import shutil
import signal
import time
from pathlib import Path
from unittest import mock

import pytest
import torch

from benchmarks import cache_races, corrupt_checkpoints, kill_resume, kill_save, resume_grid
from data.errors import InputError
from data.files import atomic_file, sole_writer, sweep_partial_files
from engine import callbacks, launch
from engine.checkpoints import load_checkpoint
from models.choice import ChoiceTask
from tests.forks import Fork, command, fork, warm
from tests.runs import SMALL, run, small_files


@pytest.fixture(scope="module", autouse=True)
def _warm() -> None:
    warm()


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> list[str]:
    return small_files(tmp_path_factory.mktemp("files"))


@pytest.fixture(scope="module")
def whole(files, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("whole") / "run"
    run("train", folder, [*files, *SMALL])
    return folder


def wait_for(condition, fork: Fork, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert fork.poll() is None and time.monotonic() < end, fork.text()
        time.sleep(0.002)


# ---- kills -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("model", ["reader", "dual_encoder"])
def test_killed_anywhere_and_resumed_it_ends_the_same(model, tmp_path):
    assert kill_resume.points(model, 2, 1, tmp_path, signal.SIGKILL, "trainer.max_epochs=4") == []


@pytest.mark.slow
def test_killed_twice_in_one_epoch_no_question_is_skipped_or_asked_twice(tmp_path):
    assert resume_grid.grid(tmp_path, [("train-end", 2, 2), ("val-end", 2, 1)]) == []


@pytest.mark.slow
def test_early_stopping_stops_at_the_same_epoch_wherever_it_was_killed(tmp_path):
    assert kill_resume.early_stopping(tmp_path, [2, 5]) == []


@pytest.mark.slow
def test_damaged_checkpoints_cost_one_line_that_names_a_whole_one(tmp_path):
    found, wrong = corrupt_checkpoints.mutations(tmp_path, 8, 3)
    assert wrong == [] and sum(found.values()) == 8


def test_kills_in_a_save_lose_nothing_and_leave_nothing(tmp_path):
    found = kill_save.kills(tmp_path, 4, 1, 0)
    assert found["damaged"] == found["lost"] == found["left after the next start"] == 0


def test_a_full_disk_and_an_unusable_temporary_folder(tmp_path):
    (tmp_path / "full").mkdir()
    assert "File too large" in kill_save.full_disk(tmp_path / "full", 2)
    kill_save.tiny_tmpdir(tmp_path, 0.1)


def test_races_for_a_cache(tmp_path):
    assert cache_races.rounds(tmp_path, 2, 0) == []


def test_leftovers_of_this_process_number_from_before_it_began_are_swept(tmp_path):
    old, new = (tmp_path / f".last.ckpt.{os.getpid()}.{name}.partial" for name in ("a", "b"))
    old.touch()
    os.utime(old, (1, 1))
    new.touch()
    sweep_partial_files(tmp_path)
    assert not old.exists() and new.exists()


# ---- folders ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_fifty_runs_at_the_same_instant_have_fifty_folders(tmp_path, monkeypatch):
    """The clock stands still for the first draws of all processes, so only exclusive creation keeps them apart."""
    monkeypatch.chdir(tmp_path)
    begin = time.monotonic() + 0.3

    class Clock(launch.datetime):
        draws = 0

        @classmethod
        def now(cls, tz=None):
            cls.draws += 1
            return launch.datetime(2026, 1, 1, 0, 0, 0, cls.draws)

    def name():
        with mock.patch.object(launch, "datetime", Clock):
            time.sleep(max(0, begin - time.monotonic()))
            print(launch._run_folder(None, "d", "m", "train"))

    forks = [fork(name, tmp_path / f"{i}.log") for i in range(50)]
    assert all(child.wait() == 0 for child in forks)
    names = {child.text().strip() for child in forks}
    assert len(names) == 50 and all((tmp_path / name).is_dir() for name in names)


def test_two_processes_never_write_into_one_run(tmp_path):
    def hold():
        with sole_writer(tmp_path / "run"):
            fork(lambda: time.sleep(3), tmp_path / "grandchild")  # as a loader's worker: outlives a kill for a while
            (tmp_path / "in").touch()
            time.sleep(60)

    child = fork(hold, tmp_path / "log")
    wait_for((tmp_path / "in").exists, child)
    with pytest.raises(InputError, match="another process is writing"), sole_writer(tmp_path / "run"):
        pass
    child.kill()
    child.wait()
    with sole_writer(tmp_path / "run"):
        pass


@pytest.mark.slow
@pytest.mark.parametrize("how", ["deleted", "moved"])
def test_a_run_folder_that_vanishes_is_reported_and_the_state_saved(how, files, whole, tmp_path, monkeypatch):
    folder = tmp_path / "run"
    original = callbacks.History.on_validation_end

    def on_validation_end(self, trainer, module):
        if trainer.current_epoch == 1 and folder.is_dir():
            shutil.rmtree(folder) if how == "deleted" else folder.rename(tmp_path / "elsewhere")
        original(self, trainer, module)

    monkeypatch.setattr(callbacks.History, "on_validation_end", on_validation_end)
    with pytest.raises(InputError, match=r"run folder was deleted or moved .*last\.ckpt") as error:
        run("train", folder, [*files, *SMALL])
    assert "\n" not in str(error.value)
    monkeypatch.undo()
    last = folder / "checkpoints" / "last.ckpt"
    run("train", folder, [*files, *SMALL, f"ckpt_path={last}"])
    weights, expected = (torch.load(p, weights_only=True) for p in (last, whole / "checkpoints" / "last.ckpt"))
    assert all(torch.equal(value, expected["state_dict"][key]) for key, value in weights["state_dict"].items())
    assert (folder / "history.jsonl").read_text() == (whole / "history.jsonl").read_text()
    assert (folder / "checkpoints" / "best.ckpt").is_file() and (folder / "config.yaml").is_file()


def test_a_full_disk_is_an_input_error_of_every_file(tmp_path, monkeypatch):
    path = tmp_path / "history.jsonl"
    path.write_text("before")

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    said = r"history\.jsonl: cannot be written \(No space left on device\)"
    with pytest.raises(InputError, match=said), atomic_file(path) as partial:
        partial.write_text("after")
    assert path.read_text() == "before" and len(list(tmp_path.iterdir())) == 1
    with pytest.raises(FileNotFoundError), atomic_file(path):  # not of writing: somebody else's
        (tmp_path / "absent").read_text()


@pytest.mark.slow
def test_a_disk_that_fills_up_ends_the_run_in_one_line(files, whole, tmp_path):
    limit = 10_000  # bytes of a file: room for the curve and the log, not for a checkpoint
    folder = tmp_path / "run"
    shutil.copytree(whole, folder)
    last = folder / "checkpoints" / "last.ckpt"
    before = last.read_bytes()
    given = [*files, *SMALL, f"ckpt_path={last}", "trainer.max_epochs=6"]

    def main():
        from tests.runs import composed

        cfg = composed("train", [*given, f"output_dir={folder}"])
        original = callbacks.SaveLast.on_train_start

        def on_train_start(self, trainer, module):
            original(self, trainer, module)
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

        with (
            mock.patch.object(callbacks.SaveLast, "on_train_start", on_train_start),
            mock.patch("engine.training.command_overrides", return_value=["ckpt_path", "trainer.max_epochs=6"]),
        ):
            launch.guarded("engine.training", "train", cfg)

    child = fork(main, tmp_path / "log")
    assert child.wait() == 1
    (said,) = [line for line in (tmp_path / "log").read_bytes().decode().splitlines() if line.startswith("error: ")]
    assert "cannot be written" in said and "Traceback" not in child.text()
    assert last.read_bytes() == before and not list(folder.rglob(".*.partial"))
    run("train", folder, given)


# ---- signals ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("where", ["loading", "training", "validation", "test"])
def test_signals_end_cleanly_wherever_they_arrive(where, number, files, whole, tmp_path, monkeypatch):
    """The named place is made slow, and the signal is sent while the process is in it."""
    folder, there = tmp_path / "run", tmp_path / "there"

    def slow(original, seconds):
        def call(*args, **kwargs):
            there.touch()
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                time.sleep(0.01)
            return original(*args, **kwargs)

        return call

    import engine.training
    from data.choice import ChoiceData

    place = {
        "loading": (ChoiceData, "prepare", 30),
        "training": (ChoiceTask, "training_step", 0.3),
        "validation": (ChoiceTask, "validation_step", 0.3),
        "test": (engine.training, "network_scores", 30),
    }
    owner, name, seconds = place[where]
    monkeypatch.setattr(owner, name, slow(getattr(owner, name), seconds))
    child = command("train", folder, [*files, *SMALL], tmp_path / "log")
    wait_for(there.exists, child)
    child.kill(number)
    assert child.wait(60) == 128 + number, child.text()
    assert "Traceback" not in child.text()
    monkeypatch.undo()
    last = folder / "checkpoints" / "last.ckpt"
    if where == "loading":
        assert not last.exists() and "before anything was trained" in child.text()
        return
    assert "go on with: python train.py ckpt_path=" in child.text()
    run("train", folder, [*files, *SMALL, f"ckpt_path={last}"])
    for name in ("history.jsonl", "predictions.jsonl", "metrics.json"):
        assert (folder / name).read_bytes() == (whole / name).read_bytes(), name


# ---- numbers that are none -------------------------------------------------------------------------------------------


def _spoil(monkeypatch, what: str, at: int) -> list[list[int]]:
    """Let one number be NaN or infinite at the `at`-th training step (or the second validation); rows of that batch."""
    rows: list[list[int]] = []
    training, validation = ChoiceTask.training_step, ChoiceTask.validation_step
    start = callbacks.StopOnNaN.on_train_batch_start
    calls = {"train": 0, "val": 0}

    def on_train_batch_start(self, trainer, module, batch, batch_idx):
        if what == "input" and trainer.global_step == at:
            rows.append(batch["index"].tolist())
            batch["text"][0, 0] = float("inf")
        start(self, trainer, module, batch, batch_idx)

    def training_step(self, batch, batch_idx):
        loss = training(self, batch, batch_idx)
        if calls["train"] == at and what in ("loss", "gradient"):
            rows.append(batch["index"].tolist())
            if what == "loss":
                loss = loss * float("nan")
            else:
                weight = next(self.net.parameters())
                weight.register_hook(lambda gradient: torch.full_like(gradient, float("inf")))
        calls["train"] += 1
        return loss

    def validation_step(self, batch, batch_idx):
        loss = validation(self, batch, batch_idx)
        calls["val"] += 1
        if what == "validation" and self.current_epoch == 1:
            rows.append(batch["index"].tolist())
            return loss * float("inf")
        return loss

    def compute(self):
        return torch.tensor(float("nan"))

    monkeypatch.setattr(ChoiceTask, "training_step", training_step)
    monkeypatch.setattr(ChoiceTask, "validation_step", validation_step)
    monkeypatch.setattr(callbacks.StopOnNaN, "on_train_batch_start", on_train_batch_start)
    if what == "metric":
        from models.metrics import ChoiceAccuracy

        original = ChoiceAccuracy.compute
        monkeypatch.setattr(
            ChoiceAccuracy, "compute", lambda self: compute(self) if calls["train"] > at else original(self)
        )
    return rows


@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "message", "step"),
    [
        ("loss", "the loss is nan in the train batch", 7),
        ("gradient", r"the gradient of net\.\S+ is not finite in the train batch", 7),
        ("input", "the input text is not finite in the train batch", 7),
        ("validation", "the validation loss is inf in the val batch", 10),
        ("metric", "val/accuracy is nan", 10),
    ],
)
def test_a_number_that_is_none_stops_the_run_and_names_the_batch(what, message, step, files, tmp_path, monkeypatch):
    rows = _spoil(monkeypatch, what, 7)
    with pytest.raises(InputError, match=f"^step {step}: {message}") as error:
        run("train", tmp_path / "run", [*files, *SMALL])
    assert "\n" not in str(error.value)
    state = load_checkpoint(tmp_path / "run" / "checkpoints" / "last.ckpt")
    assert state["global_step"] == 5
    assert all(value.isfinite().all() for value in state["state_dict"].values())
    found = json.loads((tmp_path / "run" / "not_finite.json").read_text())
    split = "train" if step == 7 else "val"
    path = next(entry.partition("=")[2] for entry in files if entry.startswith(f"data.{split}_file="))
    qids = [record["qid"] for record in json.loads(Path(path).read_text())["data"]]
    assert found["step"] == step and found["batch"] == [qids[row] for row in (rows[-1] if rows else [])]
    assert all(qid in str(error.value) for qid in found["batch"][:8])


@pytest.mark.slow
def test_retrieval_names_recipes(tmp_path, monkeypatch):
    from models.retrieval import RetrievalTask

    overrides = kill_resume.files("dual_encoder", tmp_path)
    original, rows = RetrievalTask.training_step, []

    def training_step(self, batch, batch_idx):
        loss = original(self, batch, batch_idx)
        if self.global_step == 5:
            rows.extend(batch["index"].tolist())
            return loss * float("nan")
        return loss

    monkeypatch.setattr(RetrievalTask, "training_step", training_step)
    with pytest.raises(InputError, match="step 5: the loss is nan"):
        run("train", tmp_path / "run", [*overrides, "logger=[]"])
    found = json.loads((tmp_path / "run" / "not_finite.json").read_text())["batch"]
    known = sorted(r["id"] for r in json.loads((tmp_path / "layer1.json").read_text()) if r["partition"] == "train")
    assert found == [known[row] for row in rows]


# ---- collapse --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_model_that_collapses_is_called_out_while_it_trains(files, tmp_path, monkeypatch, caplog):
    from models.impatient_reader import ImpatientReader

    original = ImpatientReader.forward

    def forward(self, batch):
        return {**original(self, batch), "scores": original(self, batch)["scores"] * 0}

    monkeypatch.setattr(ImpatientReader, "forward", forward)
    with caplog.at_level(logging.WARNING):
        run("train", tmp_path / "run", [*files, *SMALL, "trainer.max_epochs=2"])
    said = [r.message for r in caplog.records if "collapsed" in r.message]
    assert len(said) == 2 and "100.0 % of the validation questions" in said[0]


@pytest.mark.slow
def test_embeddings_that_collapse_are_called_out_while_they_train(tmp_path, monkeypatch, caplog):
    from models.im2recipe import Im2Recipe

    overrides = [*kill_resume.files("dual_encoder", tmp_path), "logger=[]", "trainer.max_epochs=1"]
    with caplog.at_level(logging.WARNING):
        run("train", tmp_path / "sound", overrides)
    assert not [r for r in caplog.records if "collapsed" in r.message and "image" in r.message]
    caplog.clear()
    original = Im2Recipe.forward

    def forward(self, batch):
        output = original(self, batch)
        flat = torch.zeros_like(output["image"])
        flat[:, 0] = 1
        return {**output, "image": flat + 0 * output["image"]}

    monkeypatch.setattr(Im2Recipe, "forward", forward)
    with caplog.at_level(logging.WARNING):
        run("train", tmp_path / "flat", overrides)
    said = [r.message for r in caplog.records if "collapsed" in r.message and "image" in r.message]
    assert len(said) == 1 and "two different image embeddings" in said[0] and "1.0000" in said[0]
