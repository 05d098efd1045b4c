"""Losses of both problems, *choose 1 of K* and *rank N*: modules of what the network returns and the batch."""

import math
from typing import Any

import torch
import torch.distributed as dist
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


# ---- rank N ----------------------------------------------------------------------------------------------------------

# A loss of the *rank N* problem reads the embeddings of a network, `output["image"]` and `output["recipe"]`, (B, D) of
# unit length. The in-batch losses take every other item of the batch as a negative, so they want batches in which each
# image is its own recipe's (`match` all true). Pairs that `batch["twins"]` (B, B) marks, of the same recipe or the same
# picture, are never negatives of each other.
#
# In training over several processes the batch is that of all of them together: each process computes the loss of the
# whole batch, and DDP's mean of the gradients is then the gradient of that one loss. Elsewhere, validation included,
# where processes may hold different numbers of batches, a loss is of the batch at hand.


class PairwiseCosine(nn.Module):
    """Cosine loss of matching and mismatching pairs (Salvador et al. 2017, section 4.2).

    1 - cos where `batch["match"]` (B,), max(0, cos - margin) elsewhere; mean over the batch.
    """

    def __init__(self, margin: float = 0.1) -> None:
        super().__init__()
        if not -1 <= margin <= 1:
            raise InputError(f"loss: margin={margin} is no cosine; choose one in [-1, 1]")
        self.margin = margin

    def forward(self, output: dict[str, Tensor], batch: dict[str, Any]) -> Tensor:
        """Scalar loss of the pairs (image, recipe) of the same row."""
        sign = 2.0 * batch["match"] - 1.0  # (B,)
        return F.cosine_embedding_loss(_exact(output["image"]), _exact(output["recipe"]), sign, margin=self.margin)


class CosineHingeRanking(nn.Module):
    """Hinge ranking loss over the cosines of a batch, in both directions (Kiros et al. 2014, section 2.3).

    L(query) = sum over the other items of max(0, margin - cos(query, own) + cos(query, other)), the form of
    `CosineHinge` with the batch in place of the choices; mean over the queries of both directions.
    """

    def __init__(self, margin: float = 1.5) -> None:
        super().__init__()
        self.margin = _positive("margin", margin)

    def forward(self, output: dict[str, Tensor], batch: dict[str, Any]) -> Tensor:
        """Scalar loss; 0 for a batch of one."""
        hinge, _ = _hinge(*_cosines(output, batch, self.training), self.margin)  # (2, N, N)
        return hinge.sum(dim=2).mean()


class InBatchTriplet(nn.Module):
    """Triplet loss over all negatives of a batch, in both directions.

    Margin and directions of Salvador et al. 2021, section 3.3; the mean over the triplets that are not yet at the
    margin is that of Carvalho et al. 2018 (adaptive mining, section 3.2).

    Args:
        margin: 0.3 as published.
        average: "nonzero" triplets only, or "all".
    """

    def __init__(self, margin: float = 0.3, average: str = "nonzero") -> None:
        super().__init__()
        if average not in ("nonzero", "all"):
            raise InputError(f"loss: average={average} is none of nonzero, all")
        self.margin, self.average = _positive("margin", margin), average

    def forward(self, output: dict[str, Tensor], batch: dict[str, Any]) -> Tensor:
        """Scalar loss; 0 for a batch of one and where every triplet is beyond the margin."""
        hinge, negative = _hinge(*_cosines(output, batch, self.training), self.margin)  # (2, N, N)
        count = (hinge > 0).sum() if self.average == "nonzero" else negative.sum()
        return hinge.sum() / count.clamp(min=1)


class BatchHardTriplet(nn.Module):
    """Triplet loss over the hardest negative of each query, in both directions (Hermans et al. 2017, section 2).

    Used for recipes by ACME (Wang et al. 2019), margin 0.3; mean over the queries that have a negative.
    """

    def __init__(self, margin: float = 0.3) -> None:
        super().__init__()
        self.margin = _positive("margin", margin)

    def forward(self, output: dict[str, Tensor], batch: dict[str, Any]) -> Tensor:
        """Scalar loss; 0 for a batch of one."""
        hinge, negative = _hinge(*_cosines(output, batch, self.training), self.margin)  # (2, N, N)
        return hinge.amax(dim=2).sum() / negative.any(dim=2).sum().clamp(min=1)


class InfoNCE(nn.Module):
    """Cross-entropy of the batch in both directions, cosines over a learnt temperature (Radford et al. 2021, 2.3).

    The temperature is a parameter of the loss, log(1 / temperature), kept in [lowest, 1]: 0.01 is where CLIP stops it,
    because a sharper softmax made its training unstable. Exclude it from weight decay where the optimiser has any.

    Args:
        temperature: at the start.
        learn: False keeps it.
        lowest: least temperature.
    """

    def __init__(self, temperature: float = 0.07, learn: bool = True, lowest: float = 0.01) -> None:
        super().__init__()
        if not 0 < lowest <= temperature <= 1:
            raise InputError(f"loss: temperature={temperature} must be in [lowest={lowest}, 1] and lowest above 0")
        self.log_scale = nn.Parameter(torch.tensor(-math.log(temperature)), requires_grad=learn)
        self.most = -math.log(lowest)

    @property
    def temperature(self) -> float:
        """As it stands now."""
        return math.exp(-min(max(float(self.log_scale.detach()), 0.0), self.most))

    def forward(self, output: dict[str, Tensor], batch: dict[str, Any]) -> Tensor:
        """Scalar loss; 0 for a batch of one."""
        cosines, negative = _cosines(output, batch, self.training)
        # The parameter itself is moved back: clamped in the graph it would have no gradient beyond the ends.
        with torch.no_grad():
            self.log_scale.clamp_(0, self.most)
        own = torch.eye(len(cosines), dtype=torch.bool, device=cosines.device)
        logits = (cosines * self.log_scale.exp()).masked_fill(~(negative | own), float("-inf"))
        target = torch.arange(len(logits), device=logits.device)
        return (F.cross_entropy(logits, target) + F.cross_entropy(logits.T, target)) / 2


class SemanticRegularisation(nn.Module):
    """A ranking loss and the classification of both embeddings (Salvador et al. 2017, section 4.3).

    (1 - 2 w) ranking + w CE(image) + w CE(recipe). Class 0, the background, has weight 0, and an item of it adds
    nothing; a batch of background alone has classification loss 0, where a weighted mean would be 0 / 0. Of a network
    without a semantic head (data without classes) it is the ranking loss alone.

    Args:
        ranking: any other loss of this file.
        weight: w; 0.01 as published (the paper's 0.02 is both terms together).
    """

    def __init__(self, ranking: nn.Module, weight: float = 0.01) -> None:
        super().__init__()
        if not 0 <= weight <= 0.5:
            raise InputError(f"loss: weight={weight} of the semantic term must be in [0, 0.5]")
        self.ranking, self.weight = ranking, weight

    def forward(self, output: dict[str, Tensor], batch: dict[str, Any]) -> Tensor:
        """Scalar loss of the embeddings and of `image_logits`, `recipe_logits` (B, C)."""
        ranking = self.ranking(output, batch)
        if "image_logits" not in output:
            return ranking
        total = (1 - 2 * self.weight) * ranking
        for side in ("image", "recipe"):
            total = total + self.weight * self._classification(output[f"{side}_logits"], batch[f"{side}_class"])
        return total

    def _classification(self, logits: Tensor, target: Tensor) -> Tensor:
        """Mean cross-entropy over the items that have a class; logits (B, C), target (B,)."""
        loss = F.cross_entropy(_exact(logits), target, ignore_index=0, reduction="none").sum()
        count = (target != 0).sum().to(loss.dtype)
        if _across_processes(self.training):
            # The mean over processes of these terms is the term of their batches together.
            dist.all_reduce(count)
            return loss * dist.get_world_size() / count.clamp(min=1)
        return loss / count.clamp(min=1)


def _cosines(output: dict[str, Tensor], batch: dict[str, Any], training: bool) -> tuple[Tensor, Tensor]:
    """Cosines of every image (row) with every recipe (column), and which of them are negatives; (N, N) each."""
    image, recipe = _exact(output["image"]), _exact(output["recipe"])
    twins = batch.get("twins")
    if _across_processes(training):
        own_size = torch.tensor([len(image)], device=image.device)
        sizes = [torch.empty_like(own_size) for _ in range(dist.get_world_size())]
        dist.all_gather(sizes, own_size)
        counts = [int(size) for size in sizes]
        image, recipe = _gather(image, counts), _gather(recipe, counts)
        twins = None if twins is None else _gather_twins(twins, counts)
    with torch.autocast(image.device.type, enabled=False):  # half precision would blur the ranks
        cosines = image @ recipe.T
    negative = ~torch.eye(len(cosines), dtype=torch.bool, device=cosines.device)
    if twins is not None:
        negative &= ~twins
    return cosines, negative


def _exact(values: Tensor) -> Tensor:
    return values.to(torch.promote_types(values.dtype, torch.float32))


def _hinge(cosines: Tensor, negative: Tensor, margin: float) -> tuple[Tensor, Tensor]:
    """Hinges of all triplets, image queries first, then recipe queries, 0 where there is no triplet; (2, N, N) each."""
    both = torch.stack([cosines, cosines.T])  # (2, queries, candidates)
    negatives = torch.stack([negative, negative.T])
    own = cosines.diagonal()[None, :, None]
    return (margin - own + both).clamp(min=0).masked_fill(~negatives, 0.0), negatives


def _positive(key: str, value: float) -> float:
    if not value > 0:
        raise InputError(f"loss: {key}={value} must be above 0")
    return value


def _across_processes(training: bool) -> bool:
    return training and dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


class _AllGather(torch.autograd.Function):
    """Rows of all processes in the order of their ranks; the gradient is summed over the processes."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, counts: list[int]) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx.counts = counts
        padded = rows.new_zeros(max(counts), *rows.shape[1:])  # collectives want equal shapes
        padded[: len(rows)] = rows
        parts = [torch.empty_like(padded) for _ in counts]
        dist.all_gather(parts, padded)
        return torch.cat([part[:count] for part, count in zip(parts, counts, strict=True)])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:  # pyright: ignore[reportIncompatibleMethodOverride]
        gradient = gradient.contiguous().clone()
        dist.all_reduce(gradient)
        start = sum(ctx.counts[: dist.get_rank()])
        return gradient[start : start + ctx.counts[dist.get_rank()]], None


def _gather(rows: Tensor, counts: list[int]) -> Tensor:
    return _AllGather.apply(rows, counts)  # type: ignore[return-value]


def _gather_twins(twins: Tensor, counts: list[int]) -> Tensor:
    """(N, N) from the (B, B) of each process; twins are known within a process only."""
    widest = max(counts)
    rows = F.pad(twins.to(torch.uint8), (0, widest - twins.shape[1]))
    blocks = _gather(rows, counts).split(counts)
    return torch.block_diag(*[block[:, :count] for block, count in zip(blocks, counts, strict=True)]).bool()
