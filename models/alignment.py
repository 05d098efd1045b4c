"""Monotone alignment of a question's elements with a recipe's steps, summed over exactly, by dynamic programming."""

import torch
from torch import Tensor

NEVER = -1e30  # a log weight below any other; -inf would make gradients of empty sums undefined


def log_partition(emission: Tensor, mask: Tensor) -> Tensor:
    """Logarithm of the sum over all alignments of exp(sum of the emissions of an alignment's pairs).

    An alignment puts element 1 on a step, element 2 on a later one, and so on. Where a recipe has fewer steps than
    elements, neighbours may share a step.

    Args:
        emission: (N, L, T) log weight of element i on step t.
        mask: (N, T) True at steps; at least one a row, and they come first.

    Returns:
        (N,)
    """
    weight, strict = _prepared(emission, mask)
    return torch.logsumexp(_forward(weight, strict)[-1], dim=1)


def posterior(emission: Tensor, mask: Tensor) -> Tensor:
    """(N, L, T) logarithm of the probability that element i stands on step t, over all alignments.

    The forward–backward algorithm (Rabiner 1989, section III) with uniform transitions to later steps.
    """
    weight, strict = _prepared(emission, mask)
    before = torch.stack(_forward(weight, strict), dim=1)  # (N, L, T)
    # The same from behind, on reversed elements and steps; an element's own weight is in both sums.
    after = torch.stack(_forward(weight.flip(1, 2), strict), dim=1).flip(1, 2)
    return torch.log_softmax((before + after - weight).masked_fill(~mask[:, None, :], 2 * NEVER), dim=2)


def _prepared(emission: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    strict = mask.sum(dim=1) >= emission.shape[1]  # (N,)
    # Half precision holds no such weight, and is too coarse for the differences of sums.
    emission = emission.to(torch.promote_types(emission.dtype, torch.float32))
    return emission.masked_fill(~mask[:, None, :], NEVER), strict[:, None]


def _forward(weight: Tensor, strict: Tensor) -> list[Tensor]:
    """For each element (N, T): log weight of all ways to place it here and those before it at earlier steps."""
    reached = [weight[:, 0]]
    for i in range(1, weight.shape[1]):
        here = torch.logcumsumexp(reached[-1], dim=1)
        earlier = torch.cat([torch.full_like(here[:, :1], NEVER), here[:, :-1]], dim=1)
        reached.append(weight[:, i] + torch.where(strict, earlier, here))
    return reached
