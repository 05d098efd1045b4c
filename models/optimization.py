"""Optimizer and learning-rate schedule of both task modules."""

from collections.abc import Callable, Iterable
from typing import Any

import pytorch_lightning as pl
import torch

from data.errors import InputError


def configure_optimizers(
    trainer: pl.Trainer,
    make_optimizer: Callable[[Iterable[Any]], torch.optim.Optimizer],
    make_scheduler: Callable[[torch.optim.Optimizer], Any] | None,
    parameters: Iterable[Any],
) -> Any:
    """What Lightning wants of `configure_optimizers`; the scheduler is stepped once an epoch.

    Raises:
        InputError: a setting that the optimizer refuses.
    """
    try:
        optimizer = make_optimizer(parameters)
    except (ValueError, TypeError) as error:
        raise InputError(f"model.optimizer: {error}; correct the value") from None
    if make_scheduler is None:
        return optimizer
    # Stepped by batches and not by "epoch": Lightning steps epoch schedules after validation, where a resumed run
    # would leave one out; in batches the step comes before it.
    batches = len(trainer.datamodule.train_dataloader())  # pyright: ignore[reportAttributeAccessIssue]
    schedule = {"scheduler": make_scheduler(optimizer), "interval": "step", "frequency": batches}
    return {"optimizer": optimizer, "lr_scheduler": schedule}
