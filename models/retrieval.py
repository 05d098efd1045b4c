"""The Lightning module of the *rank N* problem: any dual encoder, any loss, ranks in both directions."""

import logging
from collections.abc import Callable, Iterable
from typing import Any

import pytorch_lightning as pl
import torch
from torch import nn
from torchmetrics import MeanMetric

from data.errors import InputError
from data.sampler import seed_step
from models.optimization import configure_optimizers
from models.ranks import RetrievalMetric, mean_cosine

log = logging.getLogger(__name__)
Batch = dict[str, Any]
SIDES = ("image", "recipe")


class RetrievalTask(pl.LightningModule):
    """Train a dual encoder, `net(batch) -> {"image": (B, D), "recipe": (B, D), ...}` of unit length.

    Args:
        net: the network; `net.sides()` names the modules of the image and of the recipe side, which a schedule freezes.
        loss: `loss(output, batch) -> scalar`; may hold parameters (a learnt temperature).
        optimizer: partial of a torch optimizer, called with groups of parameters.
        scheduler: partial of a torch learning-rate scheduler stepped once an epoch, or None.
        image_lr_scale: the image side learns at this share of the rate.
        frozen_batchnorm: `eval` keeps the statistics of a frozen side's BatchNorm still, `train` lets them move as the
            reference implementation does.
        val_pool: candidates that a validation query is ranked among; None takes all.
        compile: compile the network.

    Logged: `train/loss` (mean since the last validation), `val/loss`, `val/<direction>/medR`, `R1`, `R5`, `R10`, and
    `val/selection`, the number that early stopping and the best checkpoint look at: medR of image_to_recipe, lower by
    a quarter of its R@1, which decides between equal medians, and by a thousandth of recipe_to_image's R@1, which
    decides where that is equal too.
    """

    seed: int = 0
    config: dict[str, Any]

    def __init__(
        self,
        net: nn.Module,
        loss: nn.Module,
        optimizer: Callable[[Iterable[Any]], torch.optim.Optimizer],
        scheduler: Callable[[torch.optim.Optimizer], Any] | None = None,
        image_lr_scale: float = 1.0,
        frozen_batchnorm: str = "eval",
        val_pool: int | None = 1000,
        compile: bool = False,
    ) -> None:
        super().__init__()
        if frozen_batchnorm not in ("eval", "train"):
            raise InputError(f"model.frozen_batchnorm={frozen_batchnorm}: choose eval or train")
        if image_lr_scale < 0:
            raise InputError(f"model.image_lr_scale={image_lr_scale}: must not be below 0")
        self.net, self.loss = net, loss
        self.make_optimizer, self.make_scheduler = optimizer, scheduler
        self.image_lr_scale, self.frozen_batchnorm = image_lr_scale, frozen_batchnorm
        if compile:
            net.compile(dynamic=True)
        self.config = {}
        self.frozen: str | None = None  # side whose parameters stand still, set by the schedule
        self.train_loss = MeanMetric(nan_strategy="disable")
        self.train_loss.persistent(True)
        self.val_loss = MeanMetric(nan_strategy="disable")
        self.val_ranks = RetrievalMetric(pool=val_pool)

    def forward(self, batch: Batch) -> dict[str, torch.Tensor]:
        """Embeddings of unit length, and what else the network has (class logits)."""
        return self.net(batch)

    def freeze_side(self, side: str | None) -> None:
        """Let one side stand still: no gradients, so that Adam's moments stand still too. None thaws both."""
        self.frozen = side
        for name in SIDES:
            for module in self.net.sides()[name]:  # pyright: ignore[reportCallIssue]
                module.requires_grad_(name != side)

    def on_train_batch_start(self, batch: Batch, batch_idx: int) -> None:
        seed_step(self.seed, self.current_epoch, batch_idx)
        if self.frozen is not None and self.frozen_batchnorm == "eval":
            for module in self.net.sides()[self.frozen]:  # pyright: ignore[reportCallIssue]
                module.eval()  # again at each step: Lightning restores the training mode after a validation

    def training_step(self, batch: Batch, batch_idx: int) -> torch.Tensor:
        loss = self.loss(self(batch), batch)
        self.train_loss.update(loss.detach(), weight=len(batch["index"]))
        return loss

    def on_validation_epoch_start(self) -> None:
        self.val_ranks.reset()

    def validation_step(self, batch: Batch, batch_idx: int) -> torch.Tensor:
        output = self(batch)
        loss = self.loss(output, batch)
        self.val_loss.update(loss, weight=len(batch["index"]))
        if loss.isfinite():  # else a callback stops the run; what is no number cannot be ranked
            self.val_ranks.update(output["image"], output["recipe"], batch["index"])
        return loss

    def on_validation_epoch_end(self) -> None:
        if self.train_loss.update_called:
            self.log("train/loss", self.train_loss.compute(), prog_bar=True)
        self.train_loss.reset()
        self.log("val/loss", self.val_loss.compute())
        self.val_loss.reset()
        found = {key: torch.as_tensor(value, dtype=torch.float32) for key, value in self.val_ranks.compute().items()}
        for side, rows in zip(SIDES, self.val_ranks.pairs()[1:], strict=True):
            alike = mean_cosine(rows.cpu().numpy())
            if alike is not None and alike > 0.99:
                log.warning(
                    "epoch %d: collapsed, two different %s embeddings of validation have a mean cosine of %.4f",
                    self.current_epoch,
                    side,
                    alike,
                )
        self.val_ranks.reset()
        for key, value in found.items():
            self.log(f"val/{key}", value, prog_bar=key == "image_to_recipe/medR")
        ties = found["image_to_recipe/R1"] / 4 + found["recipe_to_image/R1"] / 1000
        self.log("val/selection", found["image_to_recipe/medR"] - ties)

    def predict_step(self, batch: Batch, batch_idx: int) -> dict[str, torch.Tensor]:
        """Rows of the split and both embeddings, float32 on the CPU."""
        output = self(batch)
        return {"index": batch["index"].cpu(), **{side: output[side].float().cpu() for side in SIDES}}

    def configure_optimizers(self) -> Any:
        image = {id(p) for module in self.net.sides()["image"] for p in module.parameters()}  # pyright: ignore[reportCallIssue]
        groups: list[dict[str, Any]] = [
            {"params": [p for p in self.net.parameters() if (id(p) in image) == wanted]} for wanted in (False, True)
        ]
        groups.append({"params": list(self.loss.parameters()), "weight_decay": 0.0})  # a temperature does not decay

        def scaled(parts: Iterable[Any]) -> torch.optim.Optimizer:
            optimizer = self.make_optimizer(parts)
            for group in optimizer.param_groups:
                if any(id(p) in image for p in group["params"]):
                    group["lr"] *= self.image_lr_scale
            return optimizer

        parts = [group for group in groups if group["params"]]
        return configure_optimizers(self.trainer, scaled, self.make_scheduler, parts)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint["config"] = self.config
