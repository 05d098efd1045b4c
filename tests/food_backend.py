"""A model for tests that answers at once, and notes what it was asked."""

import os
import time
from collections.abc import Iterator, Sequence
from typing import Any

from data.records import LETTERS
from models.backend import Capabilities, Reply, Request


class Scripted:
    """Right in all but every `wrong_every`-th row; `says` is the form of the answer.

    `note`: file to which the key of every request is appended before it is answered.
    """

    kind = "scripted"

    def __init__(
        self,
        says: str = "答案是{letter}。",
        wrong_every: int = 3,
        fail_every: int = 0,
        delay: float = 0.0,
        note: str | None = None,
        prefill: bool = True,
        logprobs: bool = True,
        max_images: int = 4,
        interleaved: bool = True,
    ) -> None:
        self.says, self.wrong_every, self.fail_every, self.delay, self.note = says, wrong_every, fail_every, delay, note
        self.can = Capabilities(prefill, logprobs, max_images, interleaved)
        self.closed = False

    def identity(self) -> dict[str, Any]:
        return {"model": "scripted", "backend": "test", "version": "1", "says": self.says, "wrong": self.wrong_every}

    def capabilities(self) -> Capabilities:
        return self.can

    def check(self, method: str) -> None:
        pass

    def answer(self, requests: Sequence[Request]) -> Iterator[tuple[Request, Reply]]:
        for i, request in enumerate(reversed(requests)):  # any order is allowed
            if self.note:
                with open(self.note, "ab", buffering=0) as file:
                    file.write(request.key.encode() + b"\n")
            if self.delay:
                time.sleep(self.delay)
            if self.fail_every and i % self.fail_every == 0:
                yield request, Reply(error="HTTP 500: overloaded", attempts=7)
                continue
            wrong = self.wrong_every and request.question.row % self.wrong_every == 0
            place = (request.question.answer + bool(wrong)) % 4
            if request.method == "logprob":
                scores = {letter: float(-(k != place)) for k, letter in enumerate(LETTERS)}
                yield request, Reply(scores=scores, letter_mass=0.9)
            else:
                text = self.says.format(letter=LETTERS[place]).replace("<half>", "\ud83d")
                yield request, Reply(response=text, finish_reason="stop", usage={"completion_tokens": 5})

    def close(self) -> None:
        self.closed = True


def killed_after(seconds: float, function: Any) -> bool:
    """Run `function` in a forked child and kill it with SIGKILL after some seconds; whether it had ended by itself."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.setsid()
            function()
            status = 0
        finally:
            os._exit(status)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            assert os.waitstatus_to_exitcode(status) == 0
            return True
        time.sleep(0.002)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return False
