"""Hasty Student: answers from the question and its choices, without the recipe."""

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from data.errors import InputError
from data.records import PLACEHOLDER, Question


class Vectors(Protocol):
    """Where an untrained system gets its vectors from; rows in the order asked for."""

    def text(self, texts: list[str]) -> np.ndarray:
        """(n, D) float32; zeros for a text without known words."""
        ...

    def image(self, names: list[str]) -> np.ndarray:
        """(n, D) float32."""
        ...


class HastyStudent:
    """Untrained baseline of RecipeQA (Yagcioglu et al. 2018, section 4; after Tapaswi et al. 2016).

    textual_cloze, visual_cloze: cosine of a choice with the question's elements, the placeholder left out.
    visual_coherence: Euclidean distance of an image to the other three; the intruder is the farthest.
    visual_ordering: minus the sum of the distances between consecutive images.

    The paper names no aggregation over the three elements of a cloze question; `aggregate` is "mean" or "max". In
    coherence the mean is taken always.

    Equal choices get equal scores to the last bit, and so does an order with its reverse: every pair of elements is
    compared once, and sums run over sorted terms. Ties can then be counted at their expected value.
    """

    def __init__(self, aggregate: str = "mean") -> None:
        if aggregate not in ("mean", "max"):
            raise InputError(f"model: aggregate={aggregate} is none of mean, max")
        self.aggregate = aggregate

    def score(self, questions: Sequence[Question], vectors: Vectors) -> np.ndarray:
        """Scores (N, K) float64 of the questions, which may mix tasks; the highest is the choice.

        Raises:
            InputError: a question has another number of choices than the first, or (cloze) no element but the
                placeholder.
        """
        if not questions:
            return np.zeros((0, 0))
        k = len(questions[0].choices)
        for q in questions:
            if len(q.choices) != k:
                raise InputError(f"question {q.qid}: {len(q.choices)} choices where others have {k}; score it apart")
        scores = np.zeros((len(questions), k))
        for task, score in (
            ("textual_cloze", self._cloze),
            ("visual_cloze", self._cloze),
            ("visual_coherence", _coherence),
            ("visual_ordering", _ordering),
        ):
            rows = [row for row, q in enumerate(questions) if q.task == task]
            if rows:
                lookup = vectors.text if task == "textual_cloze" else vectors.image
                scores[rows] = score([questions[row] for row in rows], lookup)
        return scores

    def _cloze(self, questions: list[Question], lookup: Callable[[list[str]], np.ndarray]) -> np.ndarray:
        elements = [[e for e in q.question if e != PLACEHOLDER] for q in questions]
        for q, known in zip(questions, elements, strict=True):
            if not known:
                raise InputError(f"question {q.qid}: nothing to compare the choices with but the placeholder")
        ids, table = _table(
            [e for known in elements for e in known] + [c[0] for q in questions for c in q.choices], lookup
        )
        counts = np.array([len(known) for known in elements])
        choices = ids[counts.sum() :].reshape(len(questions), -1)  # (N, K)
        # Elements padded to the longest question with the last one's id; the padding is masked below.
        width = counts.max()
        real = np.arange(width) < counts[:, None]  # (N, W)
        padded = np.zeros(real.shape, dtype=np.int64)
        padded[real] = ids[: counts.sum()]
        cosine = _pairwise(table, choices[:, :, None], padded[:, None, :], _cosine)  # (N, K, W)
        if self.aggregate == "max":
            return np.where(real[:, None], cosine, -np.inf).max(axis=2)
        return _ordered_sum(np.where(real[:, None], cosine, 0.0)) / counts[:, None]


def _coherence(questions: list[Question], lookup: Callable[[list[str]], np.ndarray]) -> np.ndarray:
    k = len(questions[0].choices)
    ids, table = _table([c[0] for q in questions for c in q.choices], lookup)
    images = ids.reshape(-1, k)  # (N, K)
    distance = _pairwise(table, images[:, :, None], images[:, None, :], _euclidean)  # (N, K, K), zero diagonal
    return _ordered_sum(distance) / (k - 1)


def _ordering(questions: list[Question], lookup: Callable[[list[str]], np.ndarray]) -> np.ndarray:
    k = len(questions[0].choices)
    ids, table = _table([e for q in questions for c in q.choices for e in c], lookup)
    orders = ids.reshape(len(questions), k, -1)  # (N, K, E)
    return -_ordered_sum(_pairwise(table, orders[..., :-1], orders[..., 1:], _euclidean))


def _table(names: list[str], lookup: Callable[[list[str]], np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Row of each name in the table of the distinct ones, and that table as float64."""
    first: dict[str, int] = {}
    ids = np.array([first.setdefault(name, len(first)) for name in names], dtype=np.int64)
    return ids, np.asarray(lookup(list(first)), dtype=np.float64)


def _pairwise(
    table: np.ndarray, left: np.ndarray, right: np.ndarray, measure: Callable[[np.ndarray, np.ndarray], np.ndarray]
) -> np.ndarray:
    """A symmetric measure of broadcast pairs of rows; each unordered pair is computed once, so equals stay equal."""
    left, right = np.broadcast_arrays(left, right)
    code = np.minimum(left, right) * len(table) + np.maximum(left, right)
    distinct, where = np.unique(code, return_inverse=True)
    values = np.empty(len(distinct))
    block = max(1, (1 << 22) // max(1, table.shape[1]))  # 32 MB a side
    for start in range(0, len(distinct), block):
        a, b = np.divmod(distinct[start : start + block], len(table))
        values[start : start + block] = measure(table[a], table[b])
    return values[where].reshape(code.shape)


def _cosine(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Row-wise cosine; 0 where either vector is zero."""
    norm = np.sqrt((a * a).sum(axis=1)) * np.sqrt((b * b).sum(axis=1))
    return (a * b).sum(axis=1) / np.where(norm > 0, norm, 1.0)


def _euclidean(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.sqrt(((a - b) ** 2).sum(axis=1))


def _ordered_sum(terms: np.ndarray) -> np.ndarray:
    """Sum over the last axis from the smallest term up: the same to the last bit whatever the order they came in."""
    return np.sort(terms, axis=-1).sum(axis=-1)
