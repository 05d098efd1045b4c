"""Losses of the *choose 1 of K* problem: modules of what the network returns and the batch."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from data.errors import InputError


class CosineHinge(nn.Module):
    """Hinge ranking loss over cosines (Yagcioglu et al. 2018, section 4).

    L(question) = sum over wrong choices a- of max(0, margin - cos(g, a+) + cos(g, a-)).

    Wrong choices whose text equals the right one's (twins) are no negatives. A question all of whose wrong choices
    are twins has loss 0 and still counts in the mean.

    Args:
        margin: 1.5 in RecipeQA, 0.1 in PRN (Amac et al. 2019).
        negatives: "all" wrong choices, or "one_random" of them, drawn anew at every call from torch's global
            generator, so that seeding it by step fixes the draw.
        reduction: "mean" or "sum" over the questions.
    """

    def __init__(self, margin: float = 1.5, negatives: str = "all", reduction: str = "mean") -> None:
        super().__init__()
        if negatives not in ("all", "one_random"):
            raise InputError(f"loss: negatives={negatives} is none of all, one_random")
        _check_reduction(reduction)
        self.margin, self.negatives, self.reduction = margin, negatives, reduction

    def forward(self, output: dict[str, Tensor], batch: dict[str, Any]) -> Tensor:
        """Scalar loss of `output["scores"]` (B, K) given `batch["answer"]` (B,) and `batch["twins"]` (B, K)."""
        scores, answer = output["scores"], batch["answer"]
        negative = _negatives(scores, batch)  # (B, K)
        if self.negatives == "one_random":
            draw = torch.rand(scores.shape, device=scores.device).masked_fill(~negative, -1.0)
            negative = negative & F.one_hot(draw.argmax(dim=1), scores.shape[1]).bool()
        right = scores.gather(1, answer[:, None])  # (B, 1)
        hinge = (self.margin - right + scores).clamp(min=0)  # (B, K)
        loss = hinge.masked_fill(~negative, 0.0).sum(dim=1)  # (B,)
        return loss.mean() if self.reduction == "mean" else loss.sum()


class CrossEntropy(nn.Module):
    """Softmax cross-entropy over the choices, scores divided by a temperature; twins are left out of the softmax.

    Not part of the published baseline. Cosines span [-1, 1], so a temperature well below 1 is needed to let the
    softmax become sharp.
    """

    def __init__(self, temperature: float = 0.1, reduction: str = "mean") -> None:
        super().__init__()
        if temperature <= 0:
            raise InputError(f"loss: temperature={temperature} must be above 0")
        _check_reduction(reduction)
        self.temperature, self.reduction = temperature, reduction

    def forward(self, output: dict[str, Tensor], batch: dict[str, Any]) -> Tensor:
        """Scalar loss of `output["scores"]` (B, K) given `batch["answer"]` (B,) and `batch["twins"]` (B, K)."""
        scores = output["scores"]
        twin = ~_negatives(scores, batch) & ~_one_hot(scores, batch)
        logits = (scores / self.temperature).masked_fill(twin, float("-inf"))
        return F.cross_entropy(logits, batch["answer"], reduction=self.reduction)


def _one_hot(scores: Tensor, batch: dict[str, Any]) -> Tensor:
    return F.one_hot(batch["answer"], scores.shape[1]).bool()  # (B, K)


def _negatives(scores: Tensor, batch: dict[str, Any]) -> Tensor:
    """True at the wrong choices that differ from the right one, (B, K)."""
    return ~_one_hot(scores, batch) & ~batch["twins"]


def _check_reduction(reduction: str) -> None:
    if reduction not in ("mean", "sum"):
        raise InputError(f"loss: reduction={reduction} is none of mean, sum")
