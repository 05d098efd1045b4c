"""The Lightning module of the *choose 1 of K* problem: any network, any ranking loss, one metric."""

import logging
from collections.abc import Callable, Iterable
from typing import Any

import pytorch_lightning as pl
import torch
from torch import nn
from torchmetrics import MeanMetric

from data.sampler import seed_step
from models.metrics import ChoiceAccuracy, collapsed
from models.optimization import configure_optimizers

log = logging.getLogger(__name__)
Batch = dict[str, Any]


class ChoiceTask(pl.LightningModule):
    """Train a network that scores K choices, `net(batch) -> {"scores": (B, K), ...}`.

    Args:
        net: the network; it knows nothing of Lightning, files or config.
        loss: `loss(output, batch) -> scalar`.
        optimizer: partial of a torch optimizer, called with the parameters.
        scheduler: partial of a torch learning-rate scheduler stepped once an epoch, or None (the published setting).
        compile: compile the network (worth it on GPU only: 1.08x was measured on CPU, after 12 s).

    Logged: `train/loss` (mean since the last validation), `val/loss`, `val/accuracy` and, where several tasks are
    trained together, `val/<task>/accuracy`.
    """

    # Set after building: seed of the run (each step is seeded from it, so that a resumed run draws the same numbers)
    # and what a checkpoint must carry to be used without this process: the composed config.
    seed: int = 0
    config: dict[str, Any]

    def __init__(
        self,
        net: nn.Module,
        loss: nn.Module,
        optimizer: Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer],
        scheduler: Callable[[torch.optim.Optimizer], Any] | None = None,
        compile: bool = False,
    ) -> None:
        super().__init__()
        self.net, self.loss = net, loss
        self.make_optimizer, self.make_scheduler = optimizer, scheduler
        if compile:
            net.compile(dynamic=True)  # in place: the names of the weights stay those of the network
        self.config = {}
        # Persistent: a run resumed in mid-epoch must report the mean over the whole epoch.
        self.train_loss = MeanMetric(nan_strategy="disable")
        self.train_loss.persistent(True)
        self.val_loss = MeanMetric(nan_strategy="disable")
        self.val_accuracy = ChoiceAccuracy()
        self.val_collapsed = MeanMetric(nan_strategy="disable")
        self.val_task_accuracy: dict[str, ChoiceAccuracy] = {}

    def forward(self, batch: Batch) -> dict[str, torch.Tensor]:
        """Scores of the choices, and what else the network has (attention over the document)."""
        return self.net(batch)

    def on_train_batch_start(self, batch: Batch, batch_idx: int) -> None:
        seed_step(self.seed, self.current_epoch, batch_idx)

    def training_step(self, batch: Batch, batch_idx: int) -> torch.Tensor:
        """One step; the loss is a sum or mean over the batch as the loss module says."""
        loss = self.loss(self(batch), batch)
        self.train_loss.update(loss.detach(), weight=len(batch["answer"]))
        return loss

    def on_validation_epoch_start(self) -> None:
        if self.trainer.world_size > 1:  # all processes add up the same tasks, also those of which one has no batch
            for task in self.trainer.datamodule.tasks:  # pyright: ignore[reportAttributeAccessIssue]
                self.val_task_accuracy.setdefault(task, ChoiceAccuracy().to(self.device))

    def validation_step(self, batch: Batch, batch_idx: int) -> torch.Tensor:
        # A loss may draw negatives. The same ones at every validation, whatever a loader's start or a resume has drawn.
        seed_step(self.seed, 0, batch_idx)
        output = self(batch)
        size = len(batch["answer"])
        loss = self.loss(output, batch)
        self.val_loss.update(loss, weight=size)
        if not loss.isfinite():  # scores that are no numbers cannot be ranked; a callback stops the run
            return loss
        self.val_collapsed.update(collapsed(output["scores"]), weight=size)
        self.val_accuracy.update(output["scores"], batch["answer"])
        task = self.val_task_accuracy.setdefault(batch["task"], ChoiceAccuracy().to(self.device))
        task.update(output["scores"], batch["answer"])
        return loss

    def on_validation_epoch_end(self) -> None:
        # Logged here and not at the end of the training epoch: a checkpoint written after validation then contains
        # everything of the epoch, and nothing of it is logged again after a resume.
        if self.train_loss.update_called:
            self.log("train/loss", self.train_loss.compute(), prog_bar=True)
        self.train_loss.reset()
        self.log("val/loss", self.val_loss.compute())
        self.val_loss.reset()
        share = float(self.val_collapsed.compute())
        self.val_collapsed.reset()
        if share > 0.01:
            log.warning(
                "epoch %d: collapsed, all scores are equal in %.1f %% of the validation questions",
                self.current_epoch,
                100 * share,
            )
        self.log("val/accuracy", self.val_accuracy.compute(), prog_bar=True)
        self.val_accuracy.reset()
        for task, accuracy in sorted(self.val_task_accuracy.items()):
            if len(self.val_task_accuracy) > 1:
                self.log(f"val/{task}/accuracy", accuracy.compute())
            accuracy.reset()

    def predict_step(self, batch: Batch, batch_idx: int) -> dict[str, torch.Tensor]:
        """Rows of the split and scores of their choices, in float64 on the CPU."""
        return {"index": batch["index"].cpu(), "scores": self(batch)["scores"].double().cpu()}

    def configure_optimizers(self) -> Any:
        # A network may name groups of its parameters that are trained with a rate or an L2 of their own.
        groups = getattr(self.net, "parameter_groups", self.parameters)()
        return configure_optimizers(self.trainer, self.make_optimizer, self.make_scheduler, groups)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint["config"] = self.config
