"""The append-only log of requests and replies: what was asked is never asked again, whatever killed the run."""

import fcntl
import json
import math
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from io import RawIOBase
from pathlib import Path
from typing import Any

from data.errors import InputError
from models.backend import Reply, Request

FORMAT = 1


@dataclass
class Found:
    """What a log holds for the requests looked for."""

    replies: dict[str, Reply] = field(default_factory=dict)  # key -> last good reply
    failed: set[str] = field(default_factory=set)  # keys of which only errors are recorded
    torn: int = 0  # lines that a killed process left half written


class AnswerLog:
    """One JSONL file: a header with the identity of the model, then one line for each reply.

    A line holds the request, its key and the reply, never a score: scores are computed from the log, so a better
    extractor needs no new run. Errors are lines too, but no answers. Several processes may append at once.
    """

    def __init__(self, path: Path, identity: dict[str, Any]) -> None:
        self.path, self.identity = path, identity
        self._file: RawIOBase | None = None

    def read(self, keys: Iterable[str]) -> Found:
        """The last good reply to each of these keys.

        Raises:
            InputError: no log of this kind, or one of another model or other settings; the difference is named.
        """
        wanted, found = set(keys), Found()
        if not self.path.exists():
            return found
        errors = set()
        try:
            with open(self.path, "rb") as file:
                for number, line in enumerate(file):
                    record = _parsed(line)
                    if number == 0 and record is not None:
                        self._check_header(record)
                    elif record is None:
                        found.torn += 1
                    elif record.get("key") in wanted:
                        reply = _reply(record)
                        if reply is None:
                            found.torn += 1
                        elif reply.error is not None:
                            errors.add(record["key"])
                        else:
                            found.replies[record["key"]] = reply
        except OSError as error:
            raise InputError(
                f"{self.path}: cannot be read ({error.strerror}); remove it, or give asking.log="
            ) from None
        found.failed = errors - set(found.replies)
        return found

    def _check_header(self, header: dict[str, Any]) -> None:
        if header.get("format") != FORMAT or "identity" not in header:
            raise InputError(f"{self.path}: is no log of answers of this version; give another asking.log=")
        differs = difference(header["identity"], self.identity)
        if differs:
            raise InputError(f"{self.path}: was written with other settings: {differs}; give another asking.log=")

    def append(self, request: Request, reply: Reply, about: dict[str, Any]) -> None:
        """Write one line and hand it to the system, which keeps it even if this process is killed next."""
        record = {
            "key": request.key,
            "task": request.question.task,
            "row": request.question.row,
            "record_hash": request.question.record_hash,
            "question_id": request.question.question_id,
            "language": request.question.language,
            "method": request.method,
            "prefill_mode": request.prefill,
            **about,
            "response": reply.response,
            "reasoning": reply.reasoning,
            "finish_reason": reply.finish_reason,
            "usage": reply.usage,
            "scores": _plain_scores(reply.scores),
            "letter_mass": reply.letter_mass,
            "flags": list(reply.flags),
            "error": reply.error,
            "attempts": reply.attempts,
            "seconds": round(reply.seconds, 3),
            "time": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        self._write(record)

    def _write(self, record: dict[str, Any]) -> None:
        # Escaped, so that whatever a model says, lone halves of characters included, is one line of valid UTF-8.
        line = (json.dumps(record, allow_nan=False) + "\n").encode()
        try:
            file = self._file or self._open()
            fcntl.flock(file, fcntl.LOCK_EX)
            try:
                file.write(line)
            finally:
                fcntl.flock(file, fcntl.LOCK_UN)
        except OSError as error:
            raise InputError(
                f"{self.path}: cannot be written ({error.strerror}); what was answered so far is kept, the same "
                "command goes on there"
            ) from None

    def _open(self) -> RawIOBase:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = open(self.path, "ab", buffering=0)  # noqa: SIM115 (closed by close)
        fcntl.flock(self._file, fcntl.LOCK_EX)
        size = os.fstat(self._file.fileno()).st_size
        if size == 0:
            self._file.write((json.dumps({"format": FORMAT, "identity": self.identity}) + "\n").encode())
        else:
            with open(self.path, "rb") as file:
                file.seek(size - 1)
                if file.read(1) != b"\n":  # a torn last line must not swallow the next one
                    self._file.write(b"\n")
        fcntl.flock(self._file, fcntl.LOCK_UN)
        return self._file

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def difference(old: Any, new: Any, where: str = "") -> str:
    """The first setting in which two nested containers differ, as text; empty if they are equal."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(set(old) | set(new)):
            found = difference(old.get(key), new.get(key), f"{where}.{key}" if where else str(key))
            if found:
                return found
        return ""
    return "" if old == new else f"{where} is {old!r} there and {new!r} here"


def _parsed(line: bytes) -> dict[str, Any] | None:
    if not line.endswith(b"\n"):
        return None
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) else None


def _reply(record: dict[str, Any]) -> Reply | None:
    try:
        scores = record["scores"]
        return Reply(
            response=record["response"],
            reasoning=record["reasoning"],
            finish_reason=record["finish_reason"],
            usage=record["usage"],
            scores=None
            if scores is None
            else {str(k): -math.inf if v is None else float(v) for k, v in scores.items()},
            letter_mass=record["letter_mass"],
            flags=tuple(record["flags"]),
            error=record["error"],
            attempts=record["attempts"],
            seconds=record["seconds"],
        )
    except (KeyError, TypeError, AttributeError, ValueError):
        return None


def _plain_scores(scores: dict[str, float] | None) -> dict[str, float | None] | None:
    """JSON knows no infinity: minus infinity, a letter that cannot come, is written as null."""
    return None if scores is None else {k: v if math.isfinite(v) else None for k, v in scores.items()}
