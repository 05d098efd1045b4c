"""Answers of people who verify questions, from records of the published verification tool.

The tool (lyan62/FoodieQA, `val-ui`) writes one JSON file for each answer, `vqa_<index>_<id>.json`. Its index counts
within one person's batch, so it names no question: an answer finds its question by content.
"""

import json
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PureWindowsPath
from typing import Any

from data.errors import InputError
from data.records import FOOD_TASKS, LETTERS, FoodQuestion
from data.store import digest_of

UNKNOWN = "4"  # the fifth answer of text questions: "I don't know"
MAX_FILES = 50_000
MAX_RECORD = 1 << 20  # bytes of one answer
MAX_FILE = 256 << 20  # of a file with many
_HOPS = {"single": False, "multiple": True}


@dataclass(frozen=True, slots=True)
class VerifiedQuestion:
    """A question as its verifiers saw it, with the right answer."""

    key: str  # task:row where the row is known, else a hash of the content
    row: int | None  # in the file of the task
    task: str
    question_id: str
    question_type: str
    question: str
    choices: tuple[str, ...]  # empty where the images are the options
    images: tuple[str, ...]  # as the record or the question names them
    answer: int  # 0 to 3
    record_hash: str = ""


@dataclass(frozen=True, slots=True)
class PersonsAnswer:
    """One person's answer to one question."""

    question: str  # key of its question
    person: str
    choice: int | None  # 0 to 3, chosen or guessed; None where no option was named
    knows: bool  # False: "I don't know"
    bad: bool  # flagged as a bad question
    multi_hop: bool | None  # None: not said
    rationale: str
    source: str  # file or place of the record


@dataclass(frozen=True, slots=True)
class Verification:
    """Answers of a task with the questions they belong to, and what of the records could not be used."""

    task: str
    questions: dict[str, VerifiedQuestion]  # by key
    answers: list[PersonsAnswer]  # one for each person and question, in the order of the questions' first answers
    repeated: int  # answers replaced by a later one of the same person to the same question
    unmatched: list[str]  # sources of answers to questions that are not among those given


def read_records(path: Path) -> list[dict[str, Any]]:
    """Answers in a folder of `vqa_*.json` (any depth), a JSON array or a JSONL file, in the order they were given.

    In a folder that is the order of the files' times of change. Each record carries its `source`.

    Raises:
        InputError: nothing is there, or a file is too large, no JSON, or no record.
    """
    path = Path(path)
    if path.is_dir():
        return list(_folder(path))
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_FILE + 1)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); give the folder of the tool's records") from None
    if len(data) > MAX_FILE:
        raise InputError(f"{path}: is larger than {MAX_FILE >> 20} MiB; give the folder of the tool's records")
    try:
        text = data.decode("utf-8-sig")
        records = json.loads(text) if text.lstrip().startswith("[") else [json.loads(x) for x in text.splitlines() if x]
    except (ValueError, RecursionError):
        raise InputError(f"{path}: is neither a JSON array nor JSON lines; export it again") from None
    for i, record in enumerate(records):
        if not isinstance(record, dict):
            raise InputError(f"{path}: record {i} is no object; remove it")
    return [{**record, "source": f"{path.name}: record {i}"} for i, record in enumerate(records)]


def read_verification(
    records: Sequence[Mapping[str, Any]], task: str, questions: Sequence[FoodQuestion] | None = None
) -> Verification:
    """Join answers with their questions; of several answers of one person to one question the last counts.

    Args:
        records: of the published tool; `row` (place of the question in its file) is used where a record has it.
        task: mivqa, sivqa or textqa.
        questions: the questions that were verified, in the language they were verified in, for their rows and right
            answers. None: the questions are taken from the records, which hold the right answer as `gt`.

    Raises:
        InputError: a record is not as the tool writes it, two records disagree on the right answer of a question, or
            no record belongs to any of the questions.
    """
    if task not in FOOD_TASKS:
        raise InputError(f"task={task}: is unknown; choose {', '.join(FOOD_TASKS)}")
    known = None if questions is None else _Known(questions, task)
    found: dict[str, VerifiedQuestion] = {}
    latest: dict[tuple[str, str], PersonsAnswer] = {}
    unmatched: list[str] = []
    repeated = 0
    for i, record in enumerate(records):
        source = str(record.get("source") or f"record {i}")
        asked = _asked(record, task, source, truth=known is None)
        if known is not None:
            matched = known.find(asked)
            if matched is None:
                unmatched.append(source)
                continue
            asked = matched
        before = found.setdefault(asked.key, asked)
        if before.answer != asked.answer:
            raise InputError(
                f"{source}: its right answer (gt) differs from another record of the same question; correct one"
            )
        given = _given(record, task, source, asked.key)
        repeated += (asked.key, given.person) in latest
        latest[asked.key, given.person] = given
    if records and not latest:
        raise InputError(
            f"none of the {len(records)} answers belongs to one of the {len(questions or ())} {task} questions; "
            "check the task, the file and its language"
        )
    return Verification(task, found, list(latest.values()), repeated, unmatched)


def says_unknown(rationale: str) -> bool:
    """Whether a rationale says "I don't know": any case, straight, curly or no apostrophe, 不知道, 不清楚."""
    text = "".join(letter for letter in unicodedata.normalize("NFKC", rationale).casefold() if letter.isalnum())
    return any(phrase in text for phrase in ("dontknow", "donotknow", "不知道", "不清楚"))


class _Known:
    """Questions by row and by content."""

    def __init__(self, questions: Sequence[FoodQuestion], task: str) -> None:
        self.rows: dict[int, VerifiedQuestion] = {}
        self.contents: dict[str, list[VerifiedQuestion]] = {}
        for q in questions:
            if q.task != task:
                raise InputError(f"row {q.row}: is a {q.task} question among the answers to {task}; check the task")
            verified = VerifiedQuestion(
                key=f"{task}:{q.row}",
                row=q.row,
                task=task,
                question_id=q.question_id,
                question_type=q.question_type,
                question=q.question.strip(),
                choices=tuple(q.choices),
                images=tuple(q.images),
                answer=q.answer,
                record_hash=q.record_hash,
            )
            self.rows[q.row] = verified
            for images in (True, False):
                self.contents.setdefault(_content(verified, images=images), []).append(verified)

    def find(self, asked: VerifiedQuestion) -> VerifiedQuestion | None:
        """The question with the row, else with the content; photos may have been renamed if all else is unique."""
        if asked.row is not None:
            found = self.rows.get(asked.row)
            return found if found and _content(found, images=False) == _content(asked, images=False) else None
        for images in (True, False):
            same = self.contents.get(_content(asked, images=images), [])
            if len(same) == 1:
                return same[0]
        return None


def _content(question: VerifiedQuestion, *, images: bool) -> str:
    names = [PureWindowsPath(name).name for name in question.images] if images else None
    texts = [_plain(question.question), *map(_plain, question.choices)]
    # Escaped lone surrogates are legal JSON, and no hash takes them.
    parts = json.dumps([question.task, question.question_id, texts, names])
    return digest_of(parts)


def _plain(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).split())


def _asked(record: Mapping[str, Any], task: str, source: str, *, truth: bool) -> VerifiedQuestion:
    question, choices, images = record.get("question"), record.get("choices"), record.get("images")
    if not isinstance(question, str) or not question.strip():
        raise InputError(f"{source}: has no question; is it a record of the verification tool?")
    if isinstance(choices, str):
        choices = [part for part in choices.replace("，", ",").split(",") if part.strip()]
    if choices is None:
        choices = []
    if not isinstance(choices, list) or not all(isinstance(choice, str) for choice in choices):
        raise InputError(f"{source}: choices is no list of texts; correct the record")
    if len(choices) != len(LETTERS) and (choices or task != "mivqa"):
        raise InputError(f"{source}: has {len(choices)} options and must have 4; check task={task}")
    images = [images] if isinstance(images, str) else images
    if images is None:
        images = []
    if not isinstance(images, list) or not all(isinstance(name, str) for name in images):
        raise InputError(f"{source}: images is no list of names; correct the record")
    row = record.get("row")
    if row is not None and (not isinstance(row, int) or isinstance(row, bool) or row < 0):
        raise InputError(f"{source}: row is {row!r:.20} and must be a place in the file, from 0")
    answer = str(record.get("gt", ""))
    if truth and answer not in tuple("0123"):
        raise InputError(f"{source}: gt is {answer[:20]!r} and must be 0 to 3; correct it, or give the questions")
    asked = VerifiedQuestion(
        key="",
        row=row,
        task=task,
        question_id=str(record.get("question_id") or ""),
        question_type=str(record.get("question_type") or ""),
        question=question.strip(),
        choices=tuple(choices),
        images=tuple(images),
        answer=int(answer) if answer in tuple("0123") else -1,
    )
    key = f"{task}:{row}" if row is not None else _content(asked, images=True)
    return replace(asked, key=key)


def _given(record: Mapping[str, Any], task: str, source: str, key: str) -> PersonsAnswer:
    person = record.get("session_id")
    if not isinstance(person, str) or not person.strip():
        raise InputError(f"{source}: has no session_id, so nobody can tell whose answer it is; correct the record")
    answer = str(record.get("user-answer", "")).strip()
    rationale = record.get("rationale")
    rationale = rationale if isinstance(rationale, str) else ""
    unknown = answer == UNKNOWN or (task != "textqa" and says_unknown(rationale))
    bad = str(record.get("bad_q") or "").strip().casefold() == "yes"
    if answer not in (*"0123", UNKNOWN) and not (answer == "" and (unknown or bad)):
        raise InputError(f"{source}: user-answer is {answer[:20]!r} and must be 0 to 4; correct or remove the record")
    return PersonsAnswer(
        question=key,
        person=person.strip(),
        choice=int(answer) if answer in tuple("0123") else None,
        knows=not unknown and answer != "",  # who flags a question may leave it unanswered
        bad=bad,
        multi_hop=_HOPS.get(str(record.get("num_hops") or "").strip().casefold()),
        rationale=rationale,
        source=source,
    )


def _folder(folder: Path) -> Iterator[dict[str, Any]]:
    paths = [path for path in folder.rglob("vqa_*.json") if path.is_file() and not path.is_symlink()]
    if not 1 <= len(paths) <= MAX_FILES:
        raise InputError(f"{folder}: holds {len(paths):,} files vqa_*.json; give the folder of the tool's records")
    for path in sorted(paths, key=lambda path: (path.stat().st_mtime_ns, path.as_posix())):
        try:
            with open(path, "rb") as file:
                data = file.read(MAX_RECORD + 1)
            record = json.loads(data.decode("utf-8-sig")) if len(data) <= MAX_RECORD else None
        except (OSError, ValueError, RecursionError):
            record = None
        if not isinstance(record, dict):
            raise InputError(f"{path}: is no JSON record of the verification tool; remove it")
        yield {**record, "source": str(path)}
