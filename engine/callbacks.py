"""Callbacks that make a run stop and resume honestly."""

import json
import logging
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
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


@contextmanager
def stopping(checkpoint: Path) -> Iterator[None]:
    """Let SIGTERM and Ctrl-C end the block as `Stopped`: before and after training, when nothing is left to be saved.

    Training itself has handlers of its own, which finish the step (`SaveLast`). Signals that a cluster sends for other
    purposes (SIGUSR1, SIGUSR2) are left alone.
    """

    def stop(signum: int, frame: FrameType | None) -> None:
        raise Stopped(signum, checkpoint if checkpoint.is_file() else None)

    before: dict[int, Any] = {}
    try:
        for number in (signal.SIGTERM, signal.SIGINT):
            before[number] = signal.signal(number, stop)
    except ValueError:  # not in the main thread: the owner of the process handles its signals
        pass
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


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
    """`best.ckpt`, also of a run whose folder was moved: Lightning forgets the best score when the path changes.

    Where the file is gone, its score is forgotten too: the next validation is the best so far.
    """

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        best = Path(str(self.dirpath)) / Path(state_dict.get("best_model_path", "")).name
        if best.suffix and not best.is_file():
            log.warning("%s is gone: the best checkpoint is chosen anew from here on", best)
            return

        def here(path: str) -> str:
            return str(Path(str(self.dirpath)) / Path(path).name) if path else path

        state = {**state_dict, "dirpath": self.dirpath}
        for key in ("best_model_path", "kth_best_model_path", "last_model_path"):
            state[key] = here(state_dict.get(key, ""))
        state["best_k_models"] = {here(path): score for path, score in state_dict["best_k_models"].items()}
        super().load_state_dict(state)
        self.current_score = state_dict.get("current_score")  # Lightning saves it and forgets to load it


class SaveLast(Checkpoint):
    """Keep `last.ckpt` exact: after every validation, every n steps in between, and when a signal asks to stop.

    Lightning moves `Checkpoint` callbacks behind all others, so the state saved includes theirs of the same moment.
    A signal never interrupts: the step (or the validation) in progress is finished first, because only there is the
    state of all parts consistent. A second signal ends the process at once; the file of before stays whole.
    Where the run folder was deleted or moved meanwhile, the state is saved in a new one and the run stops.

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
        self._folder: int | None = None  # descriptor of the run folder: it stays that folder, whatever its name

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        home = self.path.parent.parent
        self._folder = os.open(home, os.O_RDONLY) if home.is_dir() else None
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
        if between and stepped and (self._asked(trainer) or due):
            self._save(trainer)

    def _asked(self, trainer: pl.Trainer) -> int:
        """The signal to stop, or 0. Several processes agree, or they would wait for each other: a signal reaches them
        at different steps, or one of them only.
        """
        if trainer.world_size > 1:
            signum = torch.tensor(self._signum, device=trainer.strategy.root_device)
            torch.distributed.all_reduce(signum, torch.distributed.ReduceOp.MAX)
            return int(signum)
        return self._signum

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
        elif signum := self._asked(trainer):  # arrived after the last save: nothing is lost, but it was asked to stop
            raise Stopped(signum, self.path)

    def _restore(self) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        self._handlers = {}
        if self._folder is not None:
            os.close(self._folder)
            self._folder = None

    def _save(self, trainer: pl.Trainer) -> None:
        trainer.save_checkpoint(self.path)
        self._saved_step = trainer.global_step
        home = self.path.parent.parent
        if self._folder is not None and not os.path.samestat(os.fstat(self._folder), os.stat(home)):
            raise InputError(
                f"{home}: the run folder was deleted or moved while the run went on; the state of step "
                f"{trainer.global_step} was saved in a new one. Move it back, or go on with ckpt_path={self.path}"
            )
        if signum := self._asked(trainer):
            raise Stopped(signum, self.path)


class StopOnNaN(Callback):
    """Stop at the first number that is not finite, where Lightning trains on with NaN weights to the end.

    Looked at: inputs of each batch, the loss, the gradients before each update, the loss of each batch of validation,
    and the metrics that early stopping and checkpoints are chosen by. Nothing is saved after it: last.ckpt is the last
    good state. The message names step and batch, the file every question or recipe of it.

    Args:
        path: JSON file for the rows of the batch, or None.
    """

    def __init__(self, path: str | None = None) -> None:
        self.path = Path(path) if path else None
        self._rows: list[Any] = []  # of the batches since the last update

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        if batch_idx % trainer.accumulate_grad_batches == 0:
            self._rows = []
        self._rows.append(_rows(batch))
        self._check_inputs(trainer, "train", batch)

    def on_before_backward(self, trainer: pl.Trainer, pl_module: pl.LightningModule, loss: torch.Tensor) -> None:
        if not loss.isfinite():
            self._stop(trainer, "train", f"the loss is {loss.item()}", self._rows[-1:])

    def on_before_optimizer_step(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, optimizer: torch.optim.Optimizer
    ) -> None:
        if getattr(trainer.precision_plugin, "scaler", None) is not None:
            return  # half precision: infinite gradients are expected, and its scaler leaves the step out
        gradients = [(name, p.grad) for name, p in pl_module.named_parameters() if p.grad is not None]
        if not torch.nn.utils.get_total_norm([gradient for _, gradient in gradients]).isfinite():
            name = next((name for name, gradient in gradients if not gradient.isfinite().all()), "all together")
            self._stop(trainer, "train", f"the gradient of {name} is not finite", self._rows)

    def on_validation_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        self._check_inputs(trainer, "val", batch)

    def on_validation_batch_end(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        if isinstance(outputs, torch.Tensor) and not outputs.isfinite().all():
            self._stop(trainer, "val", f"the validation loss is {outputs.item()}", [_rows(batch)])

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        monitored = {getattr(callback, "monitor", None) for callback in trainer.callbacks}  # pyright: ignore[reportAttributeAccessIssue]
        for name, value in trainer.callback_metrics.items():
            if (name in monitored or name.endswith("loss")) and not torch.as_tensor(value).isfinite().all():
                self._stop(trainer, "val", f"{name} is {float(value)}", [])

    def _check_inputs(self, trainer: pl.Trainer, split: str, batch: Any) -> None:
        for name, value in batch.items() if isinstance(batch, dict) else ():
            if isinstance(value, torch.Tensor) and value.is_floating_point() and not value.isfinite().all():
                self._stop(trainer, split, f"the input {name} is not finite", [_rows(batch)])

    def _stop(self, trainer: pl.Trainer, split: str, what: str, rows: list[Any]) -> None:
        found = [int(row) for part in rows for row in part]
        names = getattr(trainer.datamodule, "names", None)  # pyright: ignore[reportAttributeAccessIssue]
        names = names(split, found) if names is not None else [f"row {row}" for row in found]
        shown = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
        if self.path is not None:
            text = json.dumps({"step": trainer.global_step, "split": split, "what": what, "batch": names}, indent=1)
            with atomic_file(self.path) as partial:
                partial.write_text(text + "\n", encoding="utf-8")
            shown += f" (all in {self.path.name})" if len(names) > 8 else ""
        raise InputError(
            f"step {trainer.global_step}: {what}{f' in the {split} batch {shown}' if names else ''}; training stops, "
            "the last good state is in last.ckpt. Lower the learning rate, set trainer.gradient_clip_val=, or look for "
            "wrong features with prepare.py task=check"
        )


def _rows(batch: Any) -> Any:
    """Rows of the split that a batch holds, where it says so."""
    return batch.get("index", ()) if isinstance(batch, dict) else ()


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
