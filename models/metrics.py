"""Accuracy of choices with ties at their expected value, its intervals, and the comparison of two systems."""

from math import sqrt

import numpy as np
import torch
from torch import Tensor
from torchmetrics import Metric


def expected_correct(scores: Tensor | np.ndarray, answer: Tensor | np.ndarray) -> Tensor:
    """Expected credit of each question when ties at the top are broken by an even draw.

    1 / (number of choices that share the top score) where the right answer is one of them, else 0.

    Args:
        scores: (N, K), finite or infinite.
        answer: (N,), index of the right choice.

    Returns:
        (N,) float64 (float32 on devices without it).

    Raises:
        ValueError: a score is NaN; the message names the rows.
    """
    hit, tied = _top(scores, answer)
    return hit.to(_wide(hit.device)) / tied


def predict(scores: Tensor | np.ndarray, seed_keys: Tensor | np.ndarray, seed: int = 0) -> Tensor:
    """One choice for each question: the best score, ties broken evenly and reproducibly.

    Rule: the K positions are put in an order that is a function of (seed, key of the question) only, by sorting
    splitmix64 hashes of (seed, key, position); among the choices that share the top score the first in that order is
    taken. Keys are row numbers of the split. They must not be made of qids or names, which give answers away.

    Args:
        scores: (N, K).
        seed_keys: (N,) integers, unique for each question.
        seed: changes every order.

    Returns:
        (N,) int64.
    """
    scores = _checked(scores).detach().cpu()
    keys = torch.as_tensor(seed_keys).detach().cpu().numpy().astype(np.uint64)
    with np.errstate(over="ignore"):
        stream = _splitmix64(keys ^ _splitmix64(np.array([seed], dtype=np.int64).astype(np.uint64)))
        position = np.arange(1, scores.shape[1] + 1, dtype=np.uint64)
        rank = _splitmix64(stream[:, None] + position * np.uint64(0x9E3779B97F4A7C15))  # (N, K)
    tied = (scores == scores.amax(dim=1, keepdim=True)).numpy()
    # The top bit is cleared so that no hash reaches the sentinel of the choices that are out.
    return torch.from_numpy(np.where(tied, rank >> np.uint64(1), np.iinfo(np.uint64).max).argmin(axis=1))


def collapsed(scores: Tensor | np.ndarray) -> float:
    """Share of the questions whose scores are all equal; NaN without questions. High values mean a dead model."""
    scores = _checked(scores)
    if not len(scores):
        return float("nan")
    return float((scores == scores[:, :1]).all(dim=1).double().mean())


def wilson_interval(correct: float, n: float, z: float = 1.96) -> tuple[float, float]:
    """Wilson score interval of a share (Wilson 1927), 95 % for z = 1.96.

    `correct` may be fractional (ties at their expected value) and `n` too (an effective sample size). Without
    questions nothing is known: (0, 1).
    """
    if n <= 0:
        return 0.0, 1.0
    share = correct / n
    if not -1e-12 <= share <= 1 + 1e-12:
        raise ValueError(f"{correct} correct of {n} is no share")
    share = min(max(share, 0.0), 1.0)
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    # At the ends the bound is the end itself; rounding must not leave it outside.
    low = 0.0 if share == 0 else max(0.0, centre - half)
    high = 1.0 if share == 1 else min(1.0, centre + half)
    return low, high


def effective_n(credit: Tensor | np.ndarray, clusters: Tensor | np.ndarray | list) -> float:
    """Number of independent questions that would fix the mean as well as these clustered ones do.

    n / design effect (Kish 1965); the design effect is the cluster-robust variance of the mean,
    G/(G-1) sum over clusters of (sum of residuals)^2 / n^2, over the variance n/(n-1) sum of residuals^2 / n^2 of
    independent questions. It is not taken below 1, so clustering never narrows an interval. Where the credits do
    not vary the design effect is unknown and every cluster counts once.

    Args:
        credit: (N,) in [0, 1].
        clusters: (N,) labels (recipe of the question); any values numpy can sort.
    """
    credit = torch.as_tensor(credit).detach().cpu().numpy().astype(np.float64)
    n = len(credit)
    if n == 0:
        return 0.0
    member, groups = _cluster_rows(clusters, n)
    residual = credit - credit.mean()
    spread = float(residual @ residual)
    if groups == 1 or spread <= 1e-12 * n:
        return float(groups)
    of_cluster = np.bincount(member, weights=residual, minlength=groups)
    design_effect = groups / (groups - 1) * float(of_cluster @ of_cluster) / (n / (n - 1) * spread)
    return n / max(design_effect, 1.0)


def clustered_wilson(
    credit: Tensor | np.ndarray, clusters: Tensor | np.ndarray | list, z: float = 1.96
) -> tuple[float, float]:
    """Wilson interval of the mean credit with `effective_n` in place of the number of questions.

    With one question per cluster this is `wilson_interval` itself. Several questions on one recipe are not
    independent, and the plain interval would be too narrow.
    """
    values = torch.as_tensor(credit).detach().cpu().double()
    n = effective_n(values, clusters)
    return wilson_interval(float(values.mean()) * n if n else 0.0, n, z)


def paired_permutation(
    credit_a: Tensor | np.ndarray,
    credit_b: Tensor | np.ndarray,
    clusters: Tensor | np.ndarray | list,
    seed: int = 0,
    rounds: int = 10_000,
) -> float:
    """Two-sided p-value that two systems differ on the same questions: sign flips of whole clusters.

    Under the null hypothesis the labels of the two systems are exchangeable within a recipe. The statistic is the
    summed difference of the credits; p = (1 + flips at least as far from 0) / (1 + rounds) (Phipson and Smyth 2010),
    so it is never 0.

    Raises:
        ValueError: the arrays differ in length.
    """
    a = torch.as_tensor(credit_a).detach().cpu().numpy().astype(np.float64)
    b = torch.as_tensor(credit_b).detach().cpu().numpy().astype(np.float64)
    if a.shape != b.shape:
        raise ValueError(f"paired test of {len(a)} against {len(b)} credits")
    member, groups = _cluster_rows(clusters, len(a))
    difference = np.bincount(member, weights=a - b, minlength=groups)
    difference = difference[np.abs(difference) > 1e-9]  # a cluster without a difference has nothing to flip
    observed = abs(difference.sum()) - 1e-9  # sums of thirds and halves are equal up to rounding only
    rng = np.random.default_rng(seed)
    extreme = 0
    for start in range(0, rounds, 1000):
        signs = rng.integers(0, 2, size=(min(1000, rounds - start), len(difference)), dtype=np.int8)
        extreme += int((np.abs((2.0 * signs - 1.0) @ difference) >= observed).sum())
    return (1 + extreme) / (1 + rounds)


def holm(p: np.ndarray | list[float]) -> np.ndarray:
    """p-values adjusted for a family of tests, so that one false alarm among all stays as rare as one test's.

    Holm's step-down rule (1979): the k-th smallest of m is multiplied by m - k + 1, no adjusted value is below a
    smaller one's, none above 1. Holds for tests of any dependence, as those of systems on the same questions are.
    """
    values = np.asarray(p, dtype=np.float64)
    order = np.argsort(values, kind="stable")
    stepped = np.maximum.accumulate(values[order] * (len(values) - np.arange(len(values))))
    adjusted = np.empty_like(values)
    adjusted[order] = np.minimum(stepped, 1.0)
    return adjusted


class ChoiceAccuracy(Metric):
    """Mean of `expected_correct` over all questions seen; NaN before the first.

    The state is a tally of whole numbers: how many questions were missed (entry 0), how many have the right answer
    alone at the top (1), tied with one other (2), and so on. Sums of whole numbers are exact, so the result depends
    neither on the order of the batches nor on how questions are spread over processes.
    """

    higher_is_better = True
    is_differentiable = False
    full_state_update = False

    tally: Tensor

    def __init__(self, max_choices: int = 16, **kwargs) -> None:
        super().__init__(**kwargs)
        self.add_state("tally", torch.zeros(max_choices + 1, dtype=torch.long), dist_reduce_fx="sum")

    @property
    def update_called(self) -> bool:
        """Always true: no question is a legal state, and torchmetrics would warn about it."""
        return True

    def update(self, scores: Tensor, answer: Tensor) -> None:
        """Count a batch: scores (B, K), answer (B,)."""
        if scores.shape[1] >= len(self.tally):
            raise ValueError(f"{scores.shape[1]} choices, more than max_choices={len(self.tally) - 1}")
        hit, tied = _top(scores, answer)
        self.tally += torch.bincount(hit * tied, minlength=len(self.tally))

    def compute(self) -> Tensor:
        """Scalar in [0, 1]."""
        tally = self.tally.tolist()
        n = sum(tally)
        credit = sum(count / tied for tied, count in enumerate(tally) if tied)
        value = credit / n if n else float("nan")
        return torch.tensor(value, dtype=_wide(self.tally.device), device=self.tally.device)


def _top(scores: Tensor | np.ndarray, answer: Tensor | np.ndarray) -> tuple[Tensor, Tensor]:
    """Whether the answer has the top score, and how many choices have it; (N,) int64 each."""
    scores = _checked(scores)
    answer = torch.as_tensor(answer, device=scores.device)
    if answer.shape != scores.shape[:1]:
        raise ValueError(f"{tuple(answer.shape)} answers for scores of shape {tuple(scores.shape)}")
    top = scores == scores.amax(dim=1, keepdim=True)  # (N, K)
    return top.gather(1, answer[:, None].long())[:, 0].long(), top.sum(dim=1)


def _checked(scores: Tensor | np.ndarray) -> Tensor:
    scores = torch.as_tensor(scores)
    bad = scores.isnan().any(dim=1)
    if bool(bad.any()):
        rows = bad.nonzero().flatten().tolist()
        more = f" and {len(rows) - 10} more" if len(rows) > 10 else ""
        raise ValueError(f"NaN scores in rows {rows[:10]}{more} of {len(scores)}")
    return scores


def _wide(device: torch.device) -> torch.dtype:
    return torch.float32 if device.type == "mps" else torch.float64


def _cluster_rows(clusters: Tensor | np.ndarray | list, n: int) -> tuple[np.ndarray, int]:
    """Clusters numbered from 0, (N,), and how many there are."""
    labels, member = np.unique(np.asarray(clusters), return_inverse=True)
    if member.shape != (n,):
        raise ValueError(f"{member.size} cluster labels for {n} questions")
    return member, len(labels)


def _splitmix64(x: np.ndarray) -> np.ndarray:
    """Mixing step of the splitmix64 generator (Steele et al. 2014), uint64 to uint64."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
