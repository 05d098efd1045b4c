"""A run that is stopped and resumed ends like one that was not: weights, optimizer, history, predictions, to a bit."""

import json
import os
import signal
from pathlib import Path

import pytest
import torch

from engine import callbacks
from engine.callbacks import Stopped
from tests.runs import SMALL, run, small_files


def _contents(folder: Path):
    checkpoint = torch.load(folder / "checkpoints" / "last.ckpt", weights_only=True)
    history = (folder / "history.jsonl").read_text()
    predictions = (folder / "predictions.jsonl").read_text()
    best = torch.load(folder / "checkpoints" / "best.ckpt", weights_only=True)
    return checkpoint, best, history, predictions


def _same(a, b):
    if isinstance(a, torch.Tensor):
        return torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_same(a[k], b[k]) for k in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(_same, a, b))
    return a == b


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    files = small_files(folder)
    run("train", folder / "run", [*files, *SMALL])
    return files, _contents(folder / "run")


def _stop_after(monkeypatch, steps):
    """Send SIGTERM to this process at the end of some training steps, counted over the whole training."""
    original = callbacks.SaveLast.on_train_batch_end

    def on_train_batch_end(self, trainer, *args):
        if trainer.global_step in steps:
            steps.remove(trainer.global_step)
            os.kill(os.getpid(), signal.SIGTERM)
        original(self, trainer, *args)

    monkeypatch.setattr(callbacks.SaveLast, "on_train_batch_end", on_train_batch_end)


# 40 questions in batches of 8 make 5 steps an epoch: 5 and 10 end one, where validation follows.
@pytest.mark.parametrize("steps", [[1], [3], [5], [7, 8, 12], [10], [14], [2, 4]])
def test_resume_equals_no_interruption(steps, uninterrupted, tmp_path, monkeypatch):
    files, (last, best, history, predictions) = uninterrupted
    folder = tmp_path / "run"
    stops = len(steps)
    _stop_after(monkeypatch, list(steps))
    with pytest.raises(Stopped):
        run("train", folder, [*files, *SMALL])
    for i in range(stops):
        resume = [*files, *SMALL, f"ckpt_path={folder}/checkpoints/last.ckpt"]
        if i + 1 < stops:
            with pytest.raises(Stopped):
                run("train", folder, resume)
        else:
            run("train", folder, resume)
    last_2, best_2, history_2, predictions_2 = _contents(folder)
    assert _same(last["state_dict"], last_2["state_dict"])
    assert _same(last["optimizer_states"], last_2["optimizer_states"])
    assert last_2["optimizer_states"][0]["param_groups"][0]["lr"] == pytest.approx(1e-3 * 0.7**3)
    assert _same(best["state_dict"], best_2["state_dict"])
    assert history == history_2
    assert predictions == predictions_2


def test_same_seed_same_bits_and_another_seed_others(uninterrupted, tmp_path):
    files, (last, _, history, predictions) = uninterrupted
    run("train", tmp_path / "again", [*files, *SMALL])
    again = _contents(tmp_path / "again")
    assert _same(last["state_dict"], again[0]["state_dict"]) and history == again[2] and predictions == again[3]
    run("train", tmp_path / "other", [*files, *SMALL, "seed=7"])
    assert not _same(last["state_dict"], _contents(tmp_path / "other")[0]["state_dict"])


def test_each_epoch_has_an_order_of_its_own(uninterrupted, tmp_path, monkeypatch):
    from models.choice import ChoiceTask

    files, _ = uninterrupted
    seen: list[tuple[int, list[int]]] = []
    original = ChoiceTask.training_step

    def training_step(self, batch, batch_idx):
        seen.append((self.current_epoch, batch["index"].tolist()))
        return original(self, batch, batch_idx)

    monkeypatch.setattr(ChoiceTask, "training_step", training_step)
    run("train", tmp_path / "run", [*files, *SMALL])
    epochs = [[batch for e, batch in seen if e == epoch] for epoch in range(3)]
    assert all(sorted(i for batch in epoch for i in batch) == list(range(40)) for epoch in epochs)
    assert epochs[0] != epochs[1] != epochs[2]


def test_workers_do_not_change_a_bit(uninterrupted, tmp_path):
    files, (last, _, history, _) = uninterrupted
    run("train", tmp_path / "run", [*files, *SMALL, "data.num_workers=2"])
    again = _contents(tmp_path / "run")
    # The loss of validation draws negatives too, and starting a loader draws from the same generator.
    assert _same(last["state_dict"], again[0]["state_dict"]) and history == again[2]


def test_saving_between_validations_changes_nothing(uninterrupted, tmp_path):
    files, (last, _, history, _) = uninterrupted
    run("train", tmp_path / "run", [*files, *SMALL, "callbacks.last.every_n_steps=2"])
    again = _contents(tmp_path / "run")
    assert _same(last["state_dict"], again[0]["state_dict"]) and history == again[2]


def test_early_stopping_counts_over_a_resume_and_takes_the_new_patience(uninterrupted, tmp_path):
    files, _ = uninterrupted
    folder = tmp_path / "run"
    frozen = [*files, *SMALL, "model.optimizer.lr=0.0"]  # nothing improves: stops after 1 + patience validations
    run("train", folder, [*frozen, "callbacks.early_stopping.patience=4", "trainer.max_epochs=3"])
    resume = [*frozen, "trainer.max_epochs=50", f"ckpt_path={folder}/checkpoints/last.ckpt"]
    run("train", folder, [*resume, "callbacks.early_stopping.patience=6"])
    rows = [json.loads(line) for line in (folder / "history.jsonl").read_text().splitlines()]
    assert [row["epoch"] for row in rows] == list(range(7))


def test_a_loss_that_is_not_finite_stops_the_run(uninterrupted, tmp_path, monkeypatch):
    from data.errors import InputError
    from models.losses import CosineHinge

    files, _ = uninterrupted
    original = CosineHinge.forward
    calls = []

    def broken(self, output, batch):
        calls.append(self.training)
        loss = original(self, output, batch)
        return loss * float("nan") if sum(calls) == 8 else loss

    monkeypatch.setattr(CosineHinge, "forward", broken)
    with pytest.raises(InputError, match="step 7: the loss is nan"):
        run("train", tmp_path / "run", [*files, *SMALL])
    state = torch.load(tmp_path / "run" / "checkpoints" / "last.ckpt", weights_only=True)
    assert state["global_step"] == 5
    assert all(value.isfinite().all() for value in state["state_dict"].values() if isinstance(value, torch.Tensor))
