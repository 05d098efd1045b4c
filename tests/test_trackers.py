"""Every tracker of conf/logger, alone and together, read back with its own reader; no account, no network."""

import csv
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pytorch_lightning.loggers import Logger

from data.errors import InputError
from engine.build import tracking
from engine.trackers import Tracker, log_results, read_table, wandb_records
from tests.runs import ROOT, SMALL, composed, run, small_files

SETTINGS = [o for o in SMALL if not o.startswith("logger")]
ALL = "logger=[csv,tensorboard,wandb,mlflow]"
PICTURES = ("curves", "test/attention")


@pytest.fixture(scope="module", autouse=True)
def offline():
    patch = pytest.MonkeyPatch()
    patch.setenv("WANDB_MODE", "offline")
    patch.setenv("WANDB_API_KEY", "S3CRET" * 7)
    yield
    patch.undo()


@pytest.fixture(scope="module")
def tracked(tmp_path_factory, offline):
    folder = tmp_path_factory.mktemp("tracked")
    run("train", folder / "run", [*small_files(folder), *SETTINGS, ALL, "trainer.log_every_n_steps=1"])
    return folder / "run"


def read_csv(folder):
    """{metric: {step: values}} of a run, as each of the four readers below."""
    found = {}
    for row in csv.DictReader((folder / "csv/metrics.csv").open(newline="")):
        for key, value in row.items():
            if value and key != "step":
                found.setdefault(key, {}).setdefault(int(row["step"]), []).append(float(value))
    return found


def events_of(folder):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    return EventAccumulator(str(folder / "tensorboard"), size_guidance={"scalars": 0}).Reload()


def read_tensorboard(folder):
    events, found = events_of(folder), {}
    for key in events.Tags()["scalars"]:
        for event in events.Scalars(key):
            found.setdefault(key, {}).setdefault(event.step, []).append(event.value)
    return found


def mlflow_run(folder):
    from mlflow.tracking import MlflowClient

    client = MlflowClient(tracking_uri=f"file:{folder}/mlruns")
    experiments = [e.experiment_id for e in client.search_experiments()]
    (found,) = client.search_runs(experiments)
    return client, found


def read_mlflow(folder):
    client, mine = mlflow_run(folder)
    found = {}
    for key in mine.data.metrics:
        for metric in client.get_metric_history(mine.info.run_id, key):
            found.setdefault(key, {}).setdefault(metric.step, []).append(metric.value)
    return found


def wandb_files(folder):
    """Files of a run's attempts; wandb's own process may still be writing when `finish` returns."""
    files = sorted(folder.glob("wandb/offline-run-*/run-*.wandb"))
    for _ in range(600):
        if any(record.WhichOneof("record_type") == "exit" for record in wandb_records(files[-1])):
            break
        time.sleep(0.1)
    return files


def wandb_rows(folder):
    for path in wandb_files(folder):
        for record in wandb_records(path):
            if record.WhichOneof("record_type") == "history":
                yield {i.key or "/".join(i.nested_key): json.loads(i.value_json) for i in record.history.item}


def read_wandb(folder):
    found = {}
    for row in wandb_rows(folder):
        for key, value in row.items():
            if not key.startswith("_") and key != "trainer/global_step" and isinstance(value, int | float):
                found.setdefault(key, {}).setdefault(row["trainer/global_step"], []).append(value)
    return found


READERS = {"csv": read_csv, "tensorboard": read_tensorboard, "wandb": read_wandb, "mlflow": read_mlflow}


@pytest.mark.parametrize("name", READERS)
def test_every_number_of_the_run_is_there_once(name, tracked):
    found = READERS[name](tracked)
    history = [json.loads(line) for line in (tracked / "history.jsonl").read_text().splitlines()]
    assert len(history) == 3
    for key in ("train/loss", "val/loss", "val/accuracy"):
        # Lightning numbers the last step, from 0; the history counts the steps that are done.
        assert found[key] == {row["step"] - 1: [pytest.approx(row[key], rel=1e-6)] for row in history}
    accuracy = json.loads((tracked / "metrics.json").read_text())["test/accuracy"]
    assert found["test/accuracy"] == {history[-1]["step"]: [pytest.approx(accuracy)]}


def test_configs_are_kept(tracked):
    import yaml

    for name in ("csv", "tensorboard"):
        text = (tracked / name / "hparams.yaml").read_text()
        assert yaml.safe_load(text)["model"]["net"]["hidden_size"] == 16
    _, mine = mlflow_run(tracked)
    assert mine.data.params["seed"] == "1234" and mine.data.params["model/net/hidden_size"] == "16"
    assert mine.info.status == "FINISHED"
    config = {}
    for record in wandb_records(wandb_files(tracked)[0]):
        for item in [*record.config.update, *record.run.config.update]:
            config[item.key] = json.loads(item.value_json)
    assert config["model"]["net"]["hidden_size"] == 16 and config["seed"] == 1234


def test_pictures_and_tables(tracked):
    rows = [json.loads(line) for line in (tracked / "predictions.jsonl").read_text().splitlines()]
    events = events_of(tracked)
    for key in PICTURES:
        (image,) = events.Images(key)
        name = key.split("/")[-1]
        assert image.encoded_image_string.startswith(b"\x89PNG") and image.width > 1000, key
        assert (image.width, image.height) == _size(tracked / f"{name}.png")
    (text,) = [e.tensor_proto.string_val[0].decode() for e in events.Tensors("test/predictions/text_summary")]
    assert rows[0]["qid"] in text and len(text.splitlines()) == 2 + len(rows)

    client, mine = mlflow_run(tracked)
    for folder, name in (("pictures", "curves.png"), ("pictures", "attention.png"), ("tables", "predictions.jsonl")):
        path = client.download_artifacts(mine.info.run_id, f"{folder}/{name}")
        assert Path(path).read_bytes() == (tracked / name).read_bytes()

    logged = {key: value for row in wandb_rows(tracked) for key, value in row.items()}
    files = wandb_files(tracked)[0].parent / "files"
    for key in PICTURES:
        name = key.split("/")[-1]
        assert (files / logged[f"{key}/path"]).read_bytes() == (tracked / f"{name}.png").read_bytes()
    table = json.loads((files / logged["test/predictions/path"]).read_text())
    assert [row[table["columns"].index("qid")] for row in table["data"]] == [row["qid"] for row in rows]


def _size(path):
    from PIL import Image

    with Image.open(path) as image:
        return image.size


def test_best_checkpoint_is_an_artifact(tracked):
    from engine.trackers import mlflow_logger

    records = list(wandb_records(wandb_files(tracked)[0]))
    (artifact,) = [r.artifact for r in records if r.artifact.type == "model"]
    (entry,) = artifact.manifest.contents
    best = tracked / "checkpoints" / "best.ckpt"
    assert entry.path == "best.ckpt" and entry.size == best.stat().st_size and Path(entry.local_path) == best
    assert "best" in artifact.aliases
    client, mine = mlflow_run(tracked)
    assert [a.path for a in client.list_artifacts(mine.info.run_id)] == ["pictures", "tables"]  # off unless asked for
    logger = mlflow_logger("x", str(tracked), f"file:{tracked}/mlruns", best_checkpoint=True)
    logger.log_checkpoint(best)
    assert client.list_artifacts(mine.info.run_id, "checkpoints")[0].file_size == best.stat().st_size
    logger.finalize("success")


def test_no_secret_is_recorded(tracked):
    assert len(wandb_files(tracked)) == 1
    assert (tracked / "wandb_run_id").read_text().strip() in wandb_files(tracked)[0].name
    for file in tracked.rglob("*"):
        if file.is_file():
            assert b"S3CRET" not in file.read_bytes(), file


def test_a_run_that_goes_on_is_the_same_run(tracked):
    before = (tracked / "wandb_run_id").read_text(), (tracked / "mlflow_run_id").read_text()
    resume = [*SETTINGS, ALL, f"ckpt_path={tracked}/checkpoints/last.ckpt", "trainer.max_epochs=4"]
    run("train", tracked, [*small_files(tracked.parent), *resume])
    assert ((tracked / "wandb_run_id").read_text(), (tracked / "mlflow_run_id").read_text()) == before
    assert len({path.name for path in wandb_files(tracked)}) == 1
    for read in READERS.values():
        assert {step: len(values) for step, values in read(tracked)["val/loss"].items()} == {4: 1, 9: 1, 14: 1, 19: 1}
    _, mine = mlflow_run(tracked)
    assert mine.data.params["trainer/max_epochs"] == "3" and mine.data.tags["resumed.trainer/max_epochs"] == "4"


# ------------------------------------------------------------------------------------------- kills, without a training


def _history(folder, steps):
    rows = [{"epoch": i, "step": step, "val/loss": 1 / step} for i, step in enumerate(steps)]
    (folder / "history.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return [(row["step"] - 1, {"epoch": row["epoch"], "val/loss": row["val/loss"]}) for row in rows]


def _trackers(folder, *names, ckpt_path="x"):
    cfg = composed("train", [f"logger=[{','.join(names)}]", f"output_dir={folder}", f"ckpt_path={ckpt_path}"])
    return tracking(cfg, {"seed": 1})


@pytest.mark.parametrize("name", READERS)
def test_what_a_kill_has_lost_or_doubled(name, tmp_path):
    with _trackers(tmp_path, name) as (tracker,):
        for step, row in _history(tmp_path, [5, 10, 15, 20]):
            if step not in (9, 19):  # these never arrived
                tracker.log_metrics(row, step=step)
    time.sleep(1.01 * (name == "wandb"))  # wandb names folders by the second
    # The checkpoint is of step 10, so 15 and 20 come again; then something that differs: another measurement.
    with _trackers(tmp_path, name) as (tracker,):
        for step, row in _history(tmp_path, [5, 10, 15, 20])[2:]:
            tracker.log_metrics(row, step=step)
        tracker.log_metrics({"epoch": 3, "val/loss": 0.5}, step=24)
        tracker.log_metrics({"epoch": 3, "val/loss": 0.25}, step=24)
    found = READERS[name](tmp_path)["val/loss"]
    expected = {4: [0.2], 9: [0.1], 14: [1 / 15], 19: [0.05], 24: [0.5, 0.25]}
    assert found == {step: [pytest.approx(v) for v in values] for step, values in expected.items()}


def test_wandb_rows_increase_over_a_resume(tmp_path):
    for attempt in range(2):
        time.sleep(1.01 * attempt)  # wandb names folders by the second
        with _trackers(tmp_path, "wandb") as (tracker,):
            for step, row in _history(tmp_path, [5, 10]):
                tracker.log_metrics(row, step=step)
            tracker.log_metrics({"x": float(attempt)}, step=7)
    assert [row["_step"] for row in wandb_rows(tmp_path)] == [0, 1, 2, 3]


def test_a_row_that_a_kill_has_cut(tmp_path):
    with _trackers(tmp_path, "csv") as (tracker,):
        tracker.log_metrics({"val/loss": 0.5}, step=4)
    with (tmp_path / "csv/metrics.csv").open("a") as file:
        file.write("9,0.1")
    with _trackers(tmp_path, "csv") as (tracker,):
        tracker.log_metrics({"val/loss": 0.125, "val/accuracy": 0.75}, step=9)
    assert read_csv(tmp_path) == {"val/loss": {4: [0.5], 9: [0.125]}, "val/accuracy": {9: [0.75]}}


def test_a_fresh_training_takes_nothing_from_an_old_history(tmp_path):
    _history(tmp_path, [5])
    with _trackers(tmp_path, "csv", ckpt_path="null"):
        pass
    assert not (tmp_path / "csv/metrics.csv").exists()


# ---------------------------------------------------------------------------------------------------------- failures


class Failing(Logger):
    """Fails at one of its calls."""

    def __init__(self, at):
        self.at = at
        self._call("init")

    def _call(self, name):
        if name == self.at:
            raise ConnectionError("http://user:S3CRETpassword@host is away")

    name = version = None

    def log_metrics(self, metrics, step=None):
        self._call("log_metrics")

    def log_hyperparams(self, params):
        self._call("log_hyperparams")

    def log_picture(self, key, path, step):
        self._call("log_picture")

    def save(self):
        self._call("save")

    def finalize(self, status):
        self._call("finalize")


@pytest.mark.parametrize("at", ["init", "log_hyperparams", "log_metrics", "log_picture", "save", "finalize"])
def test_a_tracker_that_fails_is_one_line_and_the_others_go_on(at, tmp_path, capsys):
    failing = f"+logger.mine={{_target_: tests.test_trackers.Failing, at: {at}}}"
    (tmp_path / "p.png").write_bytes(b"")
    with tracking(composed("train", ["logger=csv", failing, f"output_dir={tmp_path}"]), {}) as trackers:
        for step in range(3):
            log_results(trackers, {"val/loss": 0.5}, step, {"p": tmp_path / "p.png"})
    assert read_csv(tmp_path)["val/loss"] == {0: [0.5], 1: [0.5], 2: [0.5]}
    assert capsys.readouterr().err.splitlines() == [
        "warning: tracker mine: ConnectionError: http://<hidden>@host is away; the run goes on without it"
    ]


@pytest.mark.slow
def test_a_training_goes_on_without_its_trackers(tmp_path, capsys):
    failing = "+logger={{{0}: {{_target_: tests.test_trackers.Failing, at: {1}}}}}"
    given = [failing.format("mine", "log_metrics"), "trainer.max_epochs=1"]
    run("train", tmp_path / "run", [*small_files(tmp_path), *SETTINGS, "logger=[]", *given])
    assert "test/accuracy" in json.loads((tmp_path / "run/metrics.json").read_text())
    assert capsys.readouterr().err.count("warning: tracker mine") == 1


def test_a_full_disk(tmp_path, capsys):
    (tmp_path / "csv").mkdir()
    (tmp_path / "csv/metrics.csv").symlink_to("/dev/full")
    (tmp_path / "mlruns").write_bytes(b"")  # where a folder should be
    with _trackers(tmp_path, "csv", "mlflow", "tensorboard") as trackers:
        for tracker in trackers:
            tracker.log_metrics({"val/loss": 0.5}, step=1)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2 and {line.split()[2] for line in lines} == {"csv:", "mlflow:"}, lines
    assert "No space left on device" in "".join(lines)
    assert read_tensorboard(tmp_path)["val/loss"] == {1: [0.5]}


def test_a_full_disk_under_tensorboard(tmp_path, capsys, monkeypatch):
    from tensorboard.summary.writer.record_writer import RecordWriter

    with _trackers(tmp_path, "tensorboard") as (tracker,):
        monkeypatch.setattr(RecordWriter, "write", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left")))
        for step in range(3):
            tracker.log_metrics({"val/loss": 0.5}, step=step)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("warning: tracker tensorboard: OSError: [Errno 28] No space left")


@pytest.mark.parametrize("name", READERS)
def test_a_misspelt_setting_stops_before_training(name, tmp_path):
    cfg = composed("train", [f"logger={name}", f"+logger.{name}.projct=x", f"output_dir={tmp_path}"])
    with pytest.raises(InputError, match=f"logger={name}: .*projct.*conf/logger"), tracking(cfg, {}):
        pass


@pytest.mark.parametrize(
    ("name", "setting"),
    [
        ("wandb", "project=a/b"),
        ("wandb", "init_timeout=soon"),
        ("mlflow", "tracking_uri=foo://x"),
        ("csv", "_target_=engine.trackers.CSW"),
    ],
)
def test_a_wrong_setting_stops_before_training(name, setting, tmp_path):
    cfg = composed("train", [f"logger={name}", f"logger.{name}.{setting}", f"output_dir={tmp_path}"])
    with pytest.raises(InputError, match=f"^logger={name}: "), tracking(cfg, {}):
        pass


@pytest.mark.parametrize("name", ["wandb", "tensorboard", "mlflow"])
def test_a_package_that_is_not_there(name, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    monkeypatch.setattr("pytorch_lightning.loggers.mlflow._MLFLOW_AVAILABLE", False)
    for flag in ("_TENSORBOARD_AVAILABLE", "_TENSORBOARDX_AVAILABLE"):
        monkeypatch.setattr(f"lightning_fabric.loggers.tensorboard.{flag}", False)
    with pytest.raises(InputError, match=f"^logger={name}: "), _trackers(tmp_path, name):
        pass


def test_only_the_first_process_tracks(tmp_path, monkeypatch):
    from pytorch_lightning.utilities import rank_zero_only

    monkeypatch.setattr(rank_zero_only, "rank", 1)
    with _trackers(tmp_path, "csv", "mlflow") as trackers:
        for tracker in trackers:
            tracker.log_metrics({"val/loss": 0.5}, step=1)
    assert isinstance(tracker, Tracker) and tracker.logger is None and not list(tmp_path.iterdir())


def test_tables(tmp_path):
    (tmp_path / "a.csv").write_text("id,rank\nx,1\n")
    assert read_table(tmp_path / "a.csv") == (["id", "rank"], [["x", "1"]])
    (tmp_path / "b.jsonl").write_text('{"qid": "ä|b", "scores": [0.5, 1]}\n{"qid": null, "scores": []}\n')
    assert read_table(tmp_path / "b.jsonl") == (["qid", "scores"], [["ä|b", "[0.5, 1]"], [None, "[]"]])


# --------------------------------------------------------------------------------------------------- whole processes

KILLED = """
import os, signal, sys
from engine import callbacks
from tests.runs import run
original = callbacks.SaveLast._save
def save(self, trainer):
    if trainer.global_step == 15:  # metrics of the third epoch are logged, and no checkpoint has them
        os.kill(os.getpid(), signal.SIGKILL)
    original(self, trainer)
callbacks.SaveLast._save = save
run("train", sys.argv[1], sys.argv[2:])
"""


@pytest.mark.slow
def test_kill_and_resume_is_one_run_with_every_step_once(tmp_path):
    folder, files = tmp_path / "run", small_files(tmp_path)
    given = [*files, *SETTINGS, ALL, "trainer.max_epochs=4"]
    killed = subprocess.run([sys.executable, "-c", KILLED, str(folder), *given], cwd=ROOT, capture_output=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert [row["step"] for row in map(json.loads, (folder / "history.jsonl").open())] == [5, 10, 15]
    run("train", folder, [*given, f"ckpt_path={folder}/checkpoints/last.ckpt"])
    history = [json.loads(line) for line in (folder / "history.jsonl").read_text().splitlines()]
    assert len(history) == 4
    for name, read in READERS.items():
        found = read(folder)
        for key in ("train/loss", "val/loss", "val/accuracy", "epoch"):
            expected = {row["step"] - 1: [pytest.approx(row[key], rel=1e-6)] for row in history}
            assert found[key] == expected, (name, key)
        assert list(found["test/accuracy"]) == [20] and len(found["test/accuracy"][20]) == 1
    assert len({path.name for path in wandb_files(folder)}) == 1 and len(wandb_files(folder)) == 2
    rows = [row["_step"] for row in wandb_rows(folder)]
    assert rows == sorted(set(rows))
    assert mlflow_run(folder)[1].info.status == "FINISHED"


@pytest.mark.slow
def test_a_server_that_is_away(tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("WANDB_MODE")
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")  # nobody listens there
    settings = ["logger=[wandb,mlflow]", "logger.wandb.offline=false", "logger.wandb.init_timeout=3"]
    settings += ["logger.mlflow.tracking_uri=http://127.0.0.1:9", f"output_dir={tmp_path}"]
    with tracking(composed("train", settings), {}) as (first, second):
        first.log_metrics({"val/loss": 0.5}, step=4)
        second.log_metrics({"val/loss": 0.5}, step=4)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2 and lines[0].startswith("warning: tracker wandb: ") and "it records offline" in lines[0]
    assert lines[1].startswith("warning: tracker mlflow: ") and lines[1].endswith("the run goes on without it")
    assert read_wandb(tmp_path)["val/loss"] == {4: [0.5]}


@pytest.mark.slow
def test_each_job_of_a_sweep_is_a_run(tmp_path):
    for job in range(2):
        with _trackers(tmp_path / str(job), "wandb") as (tracker,):
            tracker.log_metrics({"val/loss": float(job)}, step=4)
    names = [path.name for job in range(2) for path in wandb_files(tmp_path / str(job))]
    assert len(set(names)) == 2
    assert [read_wandb(tmp_path / str(job))["val/loss"] for job in range(2)] == [{4: [0.0]}, {4: [1.0]}]
