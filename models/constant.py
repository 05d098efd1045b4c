"""Systems that answer without reading the question. A model that does not beat them has shown nothing.

None is asked by a prompt: each gives a score to every letter as shown, and letters it cannot tell apart get equal
scores, which count at their expected value.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from data.errors import InputError
from data.records import LETTERS, FoodQuestion
from data.store import digest_of
from models.backend import Capabilities, Reply, Request

CHOICES = ("position", "random", "shortest", "longest", "majority")
Rule = Callable[[FoodQuestion], Sequence[float]]


class Trivial:
    """One rule, chosen by `choose`:

    - position: always the letter of `position` (0 is A); with `position=None` all alike, which scores chance exactly.
    - random: a draw from `seed` and what the question shows, so it depends neither on the order of the questions nor
      on which of them are asked, and each rotation of the options has a draw of its own.
    - shortest, longest: of the options' texts, in characters without outer white space. Options that are photos have
      no length and are all alike.
    - majority: the letter that is right most often, among all questions or (`by_type`) those of one question type.
      *Transductive*: it reads the evaluated answers, a warning about the file and no result to compare a model with.
      It is cross-fitted: the questions of a question's own cluster (same photo, set of photos, or dish) do not count
      for it, so no question's own answer is used. Where letters are balanced this leaves it below chance, since each
      right answer is missing from the count that would find it.

    Raises:
        InputError: no such rule or position.
    """

    kind = "trivial"

    def __init__(self, choose: str, position: int | None = None, by_type: bool = False, seed: int = 0) -> None:
        if choose not in CHOICES:
            raise InputError(f"model.choose={choose}: choose {', '.join(CHOICES)}")
        if position is not None and position not in range(len(LETTERS)):
            raise InputError(f"model.position={position}: must be from 0 to {len(LETTERS) - 1}, or null for chance")
        self.choose, self.position, self.by_type, self.seed = choose, position, by_type, seed

    def identity(self) -> dict[str, Any]:
        """The rule and what it depends on."""
        found: dict[str, Any] = {"kind": self.kind, "backend": self.kind, "model": self.choose}
        if self.choose == "position":
            found["position"] = self.position
        if self.choose == "random":
            found["seed"] = self.seed
        if self.choose == "majority":
            found |= {"by_type": self.by_type, "transductive": True}
        return found

    def capabilities(self) -> Capabilities:
        """No prompt is needed, and any number of images is as good as none."""
        return Capabilities(prefill=False, logprobs=False, max_images=len(LETTERS), interleaved=True, prompted=False)

    def check(self, method: str) -> None:
        """InputError for any method but `score`."""
        if method != "score":
            raise InputError(f"model=trivial/...: answers by scores of its rule only, not by asking.method={method}")

    def answer(self, requests: Sequence[Request]) -> Iterator[tuple[Request, Reply]]:
        """Scores of the four letters.

        `majority` counts over the requests: give all of them. A question that comes in several orders counts once, in
        the order of its first request.
        """
        rule = self._rule(requests)
        for request in requests:
            scores = dict(zip(LETTERS, map(float, rule(request.question)), strict=True))
            yield request, Reply(scores=scores, finish_reason="stop")

    def close(self) -> None:
        """Nothing is held."""

    def _rule(self, requests: Sequence[Request]) -> Rule:
        if self.choose == "position":
            return lambda question: [float(i == self.position) for i in range(len(LETTERS))]
        if self.choose == "random":
            return self._random
        if self.choose == "majority":
            first = {_key(request.question): request.question for request in reversed(requests)}
            return _majority(list(first.values()), self.by_type)
        sign = 1.0 if self.choose == "longest" else -1.0
        return lambda question: [sign * len(text.strip()) for text in question.choices] or [0.0] * len(LETTERS)

    def _random(self, question: FoodQuestion) -> list[float]:
        shown = list(question.choices) or [Path(path).name for path in question.images]
        key = digest_of([self.seed, *_key(question), question.record_hash, shown])
        draw = hashlib.sha256(key.encode()).digest()[0] % len(LETTERS)  # 256 is a multiple of 4, so all are alike
        return [float(i == draw) for i in range(len(LETTERS))]


def _majority(questions: Sequence[FoodQuestion], by_type: bool) -> Rule:
    """How often each letter is right in the other clusters."""

    def group(question: FoodQuestion) -> str:
        return question.question_type if by_type else ""

    def cluster(question: FoodQuestion) -> object:
        return question.cluster or _key(question)  # without one it stands alone

    every = Counter((q.task, group(q), q.answer) for q in questions)
    own = Counter((q.task, group(q), cluster(q), q.answer) for q in questions)

    def rule(question: FoodQuestion) -> list[float]:
        task, kind, place = question.task, group(question), cluster(question)
        return [every[task, kind, i] - own[task, kind, place, i] for i in range(len(LETTERS))]

    return rule


def _key(question: FoodQuestion) -> tuple[str, str, int]:
    return question.task, question.language, question.row
