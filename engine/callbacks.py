"""Callbacks that make a run stop and resume honestly."""

import json
import logging
import math
import signal
from pathlib import Path
from types import FrameType
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import Callback, Checkpoint, EarlyStopping, ModelCheckpoint, TQDMProgressBar

from data.errors import InputError
from data.files import atomic_file

log = logging.getLogger(__name__)


class Stopped(BaseException):
    """A signal ended the run after its state was saved. The process exits with 128 + the signal's number."""

    def __init__(self, signum: int, checkpoint: Path | None) -> None:
        super().__init__(signum)
        self.signum, self.checkpoint = signum, checkpoint


class PatientEarlyStopping(EarlyStopping):
    """Early stopping whose patience is the config's, also after a resume (Lightning keeps the checkpoint's)."""

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        wanted = self.patience
        super().load_state_dict(state_dict)
        if self.patience != wanted:
            log.info(
                "early stopping: patience %d of the config replaces %d of the checkpoint (%d epochs without "
                "improvement so far)",
                wanted,
                self.patience,
                self.wait_count,
            )
        self.patience = wanted

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if self.wait_count >= self.patience:  # resumed after it had stopped: there is nothing left to do
            trainer.should_stop = True


class KeepBest(ModelCheckpoint):
    """`best.ckpt`, also of a run whose folder was moved: Lightning forgets the best score when the path changes."""

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        def here(path: str) -> str:
            return str(Path(str(self.dirpath)) / Path(path).name) if path else path

        state = {**state_dict, "dirpath": self.dirpath}
        for key in ("best_model_path", "kth_best_model_path", "last_model_path"):
            state[key] = here(state_dict.get(key, ""))
        state["best_k_models"] = {here(path): score for path, score in state_dict["best_k_models"].items()}
        super().load_state_dict(state)


class SaveLast(Checkpoint):
    """Keep `last.ckpt` exact: after every validation, every n steps in between, and when a signal asks to stop.

    Lightning moves `Checkpoint` callbacks behind all others, so the state saved includes theirs of the same moment.
    A signal never interrupts: the step (or the validation) in progress is finished first, because only there is the
    state of all parts consistent. A second signal ends the process at once; the file of before stays whole.

    Args:
        dirpath: folder of `last.ckpt`.
        every_n_steps: optimizer steps between saves inside an epoch; 0 saves after validation only.
    """

    def __init__(self, dirpath: str, every_n_steps: int = 0) -> None:
        self.path = Path(dirpath) / "last.ckpt"
        self.every_n_steps = every_n_steps
        self._signum = 0
        self._handlers: dict[int, Any] = {}
        self._saved_step = -1

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._saved_step = trainer.global_step  # a resumed state is in its checkpoint already
        # Here and not in setup: Lightning installs its own SIGTERM handler just before, which would end with status 0.
        for number in (signal.SIGTERM, signal.SIGINT):
            try:
                self._handlers[number] = signal.signal(number, self._on_signal)
            except ValueError:  # not in the main thread: the owner of the process handles its signals
                break

    def _on_signal(self, signum: int, frame: FrameType | None) -> None:
        if self._signum:
            raise Stopped(signum, self.path if self.path.is_file() else None)
        self._signum = signum
        print(f"\n{signal.Signals(signum).name}: finishing this step, then saving (again to stop now)", flush=True)

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        last = batch_idx + 1 >= trainer.num_training_batches
        if last and trainer.enable_validation:
            return  # validation follows; saved after it, so that a resume does not skip it
        due = self.every_n_steps and trainer.global_step % self.every_n_steps == 0
        # Only between optimizer steps: gradients accumulated so far are in no checkpoint.
        stepped = trainer.global_step != self._saved_step
        between = (batch_idx + 1) % trainer.accumulate_grad_batches == 0 or last
        if between and stepped and (due or self._signum):
            self._save(trainer)

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if trainer.sanity_checking or trainer.state.fn != "fit":
            return
        self._save(trainer)

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if not trainer.enable_validation:
            self._save(trainer)

    def on_exception(self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException) -> None:
        self._restore()

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._restore()
        if trainer.global_step != self._saved_step:  # `trainer.max_steps` ends inside an epoch, before any validation
            self._save(trainer)
        elif self._signum:  # arrived after the last save: nothing is lost, but the run was asked to stop
            raise Stopped(self._signum, self.path)

    def _restore(self) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        self._handlers = {}

    def _save(self, trainer: pl.Trainer) -> None:
        trainer.save_checkpoint(self.path)
        self._saved_step = trainer.global_step
        if self._signum:
            raise Stopped(self._signum, self.path)


class StopOnNaN(Callback):
    """Lightning trains on with NaN weights to the end; this stops at the first loss that is not finite."""

    def on_before_backward(self, trainer: pl.Trainer, pl_module: pl.LightningModule, loss: torch.Tensor) -> None:
        if not math.isfinite(loss.item()):
            raise InputError(
                f"step {trainer.global_step}: the loss is {loss.item()}, training stops; the last good state is in "
                "last.ckpt. Lower the learning rate, set trainer.gradient_clip_val=, or look for non-finite features "
                "with prepare.py task=check"
            )


class History(Callback):
    """One row for each validation, kept in the checkpoint, so that a resumed run has one curve; `history.jsonl`."""

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        self.rows: list[dict[str, float]] = []

    def state_dict(self) -> dict[str, Any]:
        return {"rows": self.rows}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.rows = list(state_dict["rows"])

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if trainer.sanity_checking or trainer.state.fn != "fit":
            return
        row = {"epoch": trainer.current_epoch, "step": trainer.global_step}
        row |= {k: float(v) for k, v in sorted(trainer.callback_metrics.items())}
        self.rows.append(row)
        with atomic_file(self.path) as partial:
            partial.write_text("".join(json.dumps(r) + "\n" for r in self.rows), encoding="utf-8")


class Progress(TQDMProgressBar):
    """Lightning's bar without the version number of a logger folder."""

    def get_metrics(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> dict[str, Any]:
        metrics = super().get_metrics(trainer, pl_module)
        metrics.pop("v_num", None)
        return metrics
