"""What answers questions without being trained here: requests go in, replies come out, errors are not answers."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from data.records import FoodQuestion

METHODS = ("generate", "logprob", "score")


@dataclass(frozen=True, slots=True)
class Turn:
    """One chat turn: texts, and images as places 0 to 3 in the request's `images`."""

    role: str  # system | user | assistant
    parts: tuple[str | int, ...]

    @property
    def text(self) -> str:
        """The turn's texts without its images."""
        return "".join(part for part in self.parts if isinstance(part, str))


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a backend can do, declared or probed; a prompt that needs more is rewritten or refused."""

    prefill: bool  # an assistant turn can be left open and is continued
    logprobs: bool
    max_images: int  # 0: text only
    interleaved: bool = True  # texts and images keep their order
    prompted: bool = True  # False: answers from the record itself, by scores


@dataclass(frozen=True, slots=True)
class Request:
    """One question as one prompt asks it, in one order of its options."""

    key: str  # hash of all that may change the answer; names the record in the log
    question: FoodQuestion  # options already in the order shown
    method: str  # one of METHODS
    turns: tuple[Turn, ...] = ()  # empty where the backend is not prompted
    images: tuple[str, ...] = ()  # absolute paths, in the order of the places in `turns`
    prefill: str = "none"  # none | continue | closed_turn | inline
    opening: str = ""  # what the prompt ends with, right before the letter: 图 or （ or (


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back. `error` is set where nothing did: such a request is asked again, and has no score."""

    response: str | None = None
    reasoning: str | None = None  # where the backend gives it apart from the response
    finish_reason: str | None = None  # stop | length | ... as the backend says
    usage: dict[str, int] | None = None  # prompt_tokens, completion_tokens
    scores: dict[str, float] | None = None  # letter -> log-probability (logprob) or similarity (score)
    letter_mass: float | None = None  # logprob: total probability of the four letters
    flags: tuple[str, ...] = ()  # such as not_in_top_k
    error: str | None = None  # one line, without secrets
    attempts: int = 1
    seconds: float = 0.0
    extra: dict[str, Any] = field(default_factory=dict)


class Backend(Protocol):
    """A model that answers. Its constructor takes the keys of its config and loads nothing."""

    kind: str  # transformers | openai | clip | ...

    def identity(self) -> dict[str, Any]:
        """All that may change an answer: model, revision, backend, version, generation and image settings.

        Plain values, no secret. Part of every request's key, and of the report's headline.
        """
        ...

    def capabilities(self) -> Capabilities:
        """Declared or probed once; may load the model or ask the server. InputError says what is not reachable."""
        ...

    def check(self, method: str) -> None:
        """InputError if the backend cannot answer by `method`."""
        ...

    def answer(self, requests: Sequence[Request]) -> Iterator[tuple[Request, Reply]]:
        """Answer all, in any order, each exactly once, as soon as it is there."""
        ...

    def close(self) -> None:
        """Free what is held; called whatever happens."""
        ...
