"""The schedule of Salvador et al. 2017, section 3: one side of the network learns while the other stands still."""

import logging
from typing import Any

import pytorch_lightning as pl
from pytorch_lightning.callbacks import Callback

from data.errors import InputError
from models.retrieval import SIDES, RetrievalTask

log = logging.getLogger(__name__)


class AlternatingFreeze(Callback):
    """Freeze one side of a dual encoder, and change sides when validation goes stale.

    Which side is frozen, the best value and the count of stale validations are in the checkpoint, so a resumed run
    goes on with the same side (the reference implementation forgets all three).

    Args:
        first: side that is frozen first, `image` or `recipe`.
        first_patience: stale validations before the first change.
        patience: stale validations before each later change.
        monitor: logged value, lower is better.
        min_delta: improvement that counts.
    """

    def __init__(
        self,
        first: str = "image",
        first_patience: int = 1,
        patience: int = 3,
        monitor: str = "val/selection",
        min_delta: float = 0.0,
    ) -> None:
        if first not in SIDES:
            raise InputError(f"callbacks.freezing.first={first}: choose image or recipe")
        if first_patience < 1 or patience < 1:
            raise InputError("callbacks.freezing: first_patience and patience must be at least 1")
        self.frozen, self.first_patience, self.patience = first, first_patience, patience
        self.monitor, self.min_delta = monitor, min_delta
        self.best: float | None = None
        self.stale = self.changes = 0

    def state_dict(self) -> dict[str, Any]:
        return {"frozen": self.frozen, "best": self.best, "stale": self.stale, "changes": self.changes}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.frozen, self.best = state_dict["frozen"], state_dict["best"]
        self.stale, self.changes = state_dict["stale"], state_dict["changes"]

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        # Here and not earlier: under DDP the parameters must all be known to learn when the module is wrapped.
        assert isinstance(pl_module, RetrievalTask)
        pl_module.freeze_side(self.frozen)

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if trainer.sanity_checking or trainer.state.fn != "fit":
            return
        if self.monitor not in trainer.callback_metrics:
            raise InputError(f"callbacks.freezing.monitor={self.monitor}: nothing of that name is logged")
        value = float(trainer.callback_metrics[self.monitor])
        if self.best is None or value < self.best - self.min_delta:
            self.best, self.stale = value, 0
            return
        self.stale += 1
        if self.stale < (self.patience if self.changes else self.first_patience):
            return
        self.frozen = SIDES[1 - SIDES.index(self.frozen)]
        self.stale, self.changes = 0, self.changes + 1
        log.info("epoch %d: the %s side stands still from now on", trainer.current_epoch, self.frozen)
        assert isinstance(pl_module, RetrievalTask)
        pl_module.freeze_side(self.frozen)
