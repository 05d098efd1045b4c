"""Outcomes: what a request's reply means, in the options' own order."""

from dataclasses import dataclass

from data.records import FoodQuestion


@dataclass(frozen=True, slots=True)
class Outcome:
    """One answered request, scored. The report is computed from these and nothing else."""

    question: FoodQuestion  # options in the file's own order
    prompt: str  # id of the prompt, such as mivqa.zh.0.paper; "none" where the system is not prompted
    index: int  # of the prompt, from 0
    order: tuple[int, ...]  # option order[i] was shown at place i; (0, 1, 2, 3) is the file's own
    method: str  # generate | logprob | score
    shown: int | None  # place that was chosen, as shown: letter A is 0; None: no answer could be read
    credit: float  # 1 right, 0 wrong, a share where right and wrong options tie in the scores
    reason: str  # reason code of the extraction, or `scores`
    flags: tuple[str, ...] = ()
    response: str | None = None
    finish_reason: str | None = None
    letter_mass: float | None = None

    @property
    def choice(self) -> int | None:
        """The option chosen, counted in the file's own order."""
        return None if self.shown is None else self.order[self.shown]
