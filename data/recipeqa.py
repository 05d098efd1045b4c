"""RecipeQA as released: read, check, write, report, score.

Yagcioglu, Erdem, Erdem and Ikizler-Cinbis, "RecipeQA: A Challenge Dataset for Multimodal Comprehension of Cooking
Recipes", EMNLP 2018 (arXiv 1809.00812). One file holds one split with all four tasks: {"data": [record, ...]}.
"""

import gzip
import hashlib
import json
import os
import re
import reprlib
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import IO, Any

from data.checksums import verify
from data.errors import InputError
from data.files import atomic_file, unpacked
from data.records import ORDERING_SENTENCE, PLACEHOLDER, QUESTION_TEXT, TASKS, Question, Step

SPLITS = ("train", "val", "test")

# Questions of each official file by task (published totals; counts from the released files). The training counts of
# visual coherence and visual ordering are known only as the rest of the published total, so they are not listed.
OFFICIAL_COUNTS: dict[str, dict[str, int]] = {
    "train": {"textual_cloze": 7837, "visual_cloze": 7144},
    "val": {"textual_cloze": 961, "visual_cloze": 842, "visual_coherence": 830, "visual_ordering": 929},
    "test": {"textual_cloze": 963, "visual_cloze": 848, "visual_coherence": 851, "visual_ordering": 905},
}
OFFICIAL_TOTALS = {"train": 29657, "val": 3562, "test": 3567}

IMAGE_NAME = re.compile(r"(.*)_([0-9]+)_([0-9]+)\.jpg")
UNANSWERED = -1  # equals no answer, so the official scorer counts it as wrong

_short = reprlib.Repr()
_short.maxstring = _short.maxother = _short.maxlong = 60


# ----------------------------------------------------------------------------------------------------------------
# Reading


@dataclass(frozen=True)
class Skipped:
    """A record that was left out: its number in the file (from 1), its qid where it has a readable one, and why."""

    record: int
    qid: str
    reason: str


@dataclass(frozen=True)
class ReadReport:
    """What a file held and what was read of it."""

    path: str
    sha256: str  # of the file as it lies on disk
    records: int  # all records of the file, of every task
    read: int  # questions returned
    tasks: dict[str, int]  # records by task, before `tasks=` chose and before bad ones were left out
    splits: dict[str, int]  # records by the file's own split field
    skipped: tuple[Skipped, ...] = ()

    @property
    def official_split(self) -> str | None:
        """The split whose official file this is by its split field and its counts; None for any other file.

        Says nothing about the content beyond that: a file of the same counts is taken for the official one.
        """
        if len(self.splits) != 1:
            return None
        (split,) = self.splits
        if split not in OFFICIAL_COUNTS or self.records != OFFICIAL_TOTALS[split]:
            return None
        same = all(self.tasks.get(task, 0) == n for task, n in OFFICIAL_COUNTS[split].items())
        return split if same else None


def read_questions(
    path: str | os.PathLike[str],
    tasks: Iterable[str] | None = None,
    on_bad_record: str = "raise",
    split: str | None = None,
    max_bytes: int = 4 << 30,
) -> tuple[list[Question], ReadReport]:
    """Read and check a RecipeQA file (`.json`, or gzip-compressed).

    tasks: read only the questions of these tasks; records of the others are counted and not checked further.
    on_bad_record: "raise" stops at the first bad record, "skip" leaves bad ones out and lists them in the report.
    split: the split the questions shall belong to, in place of the one the file states.
    max_bytes: refuse a file that is larger than this once decompressed.

    Keys that no model may use or that say nothing (`videos`, the modality lists, `question_text`) are not required,
    and what a task hides (titles in textual cloze, images in the visual tasks) is dropped where a file shows it.
    InputError for anything that is not as released; the message names file, record, qid and remedy.
    """
    if on_bad_record not in ("raise", "skip"):
        raise InputError(f"on_bad_record={on_bad_record!r} is unknown; set it to raise or skip")
    if split is not None and split not in SPLITS:
        raise InputError(f"split={split!r} is unknown; set it to one of {', '.join(SPLITS)}")
    wanted = _wanted_tasks(tasks)
    raw_records, sha256 = _load(Path(path), max_bytes)
    questions: list[Question] = []
    skipped: list[Skipped] = []
    seen_tasks: Counter[str] = Counter()
    seen_splits: Counter[str] = Counter()
    first_record: dict[str, int] = {}
    shared: dict[Any, Any] = {}  # equal texts, steps and contexts are kept once: recipes recur in up to 20 questions
    for number, raw in enumerate(raw_records, 1):
        raw_records[number - 1] = None  # lets the raw record go as soon as it is converted
        try:
            task = _task(raw)
            seen_tasks[task] += 1
            stated = raw.get("split")
            if isinstance(stated, str):
                seen_splits[stated] += 1
            if task not in wanted:
                continue
            question = _question(raw, task, split, shared)
            if question.qid in first_record:
                raise _Bad(f"its qid is that of record {first_record[question.qid]}; remove one of the two")
        except _Bad as bad:
            qid = _qid(raw)
            if on_bad_record == "raise":
                raise InputError(
                    f"{path}: record {number} (qid {qid}): {bad}, or set data.on_bad_record=skip to leave such "
                    "records out"
                ) from None
            skipped.append(Skipped(number, qid, str(bad)))
            continue
        first_record[question.qid] = number
        questions.append(question)
    return questions, ReadReport(
        path=str(path),
        sha256=sha256,
        records=len(raw_records),
        read=len(questions),
        tasks={task: seen_tasks[task] for task in TASKS if task in seen_tasks},
        splits=dict(sorted(seen_splits.items())),
        skipped=tuple(skipped),
    )


class _Bad(Exception):
    """What is wrong with one record and its remedy; the reader adds file, number and qid."""


def _wanted_tasks(tasks: Iterable[str] | None) -> tuple[str, ...]:
    if tasks is None:
        return TASKS
    wanted = (tasks,) if isinstance(tasks, str) else tuple(tasks)
    for task in wanted:
        if task not in TASKS:
            raise InputError(f"task {task!r} is unknown; choose from {', '.join(TASKS)}")
    return wanted


def _load(path: Path, max_bytes: int) -> tuple[list[Any], str]:
    """Raw records of a file and the sha256 of its bytes on disk."""
    try:
        with path.open("rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
            verify(path, sha256)
            file.seek(0)
            compressed = path.suffix == ".gz" or file.read(2) == b"\x1f\x8b"
            file.seek(0)
            content = _read_at_most(unpacked(file, path) if compressed else file, max_bytes, path)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(f"{path}: truncated or damaged gzip file ({error}); fetch it again") from None
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; check the path or download it (prepare.py task=download)") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{path}: cannot be read ({reason}); give the path of a .json or .json.gz file") from None
    if not content.strip():
        raise InputError(f"{path}: the file is empty; fetch it again")
    try:
        top = json.loads(content)
    except RecursionError:
        raise InputError(f"{path}: nested too deeply to be RecipeQA; check that it is the right file") from None
    except ValueError as error:  # JSONDecodeError, UnicodeDecodeError, an int of thousands of digits
        reason = " ".join(str(error).split())[:120]
        raise InputError(
            f"{path}: not valid JSON ({reason}); the file is truncated or damaged, fetch it again"
        ) from None
    if not isinstance(top, dict) or "data" not in top:
        raise InputError(f'{path}: has no top-level "data"; a RecipeQA file is {{"data": [record, ...]}}')
    if not isinstance(top["data"], list):
        raise InputError(
            f'{path}: "data" is no list of records but {_kind(top["data"])}; check that it is the right file'
        )
    return top["data"], sha256


def _read_at_most(file: IO[bytes], max_bytes: int, path: Path) -> bytes:
    chunks, size = [], 0
    while chunk := file.read(1 << 20):
        size += len(chunk)
        if size > max_bytes:
            raise InputError(
                f"{path}: larger than {max_bytes:,} bytes once decompressed; raise max_bytes if that is right"
            )
        chunks.append(chunk)
    return b"".join(chunks)


def _kind(value: object) -> str:
    names = {dict: "an object", list: "a list", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")


def _qid(raw: object) -> str:
    qid = raw.get("qid") if isinstance(raw, dict) else None
    if isinstance(qid, str) and qid:
        return qid if qid.isascii() and qid.isprintable() and len(qid) <= 80 else _short.repr(qid)
    return "unknown"


def _get(raw: dict[str, Any], key: str, kind: type, where: str = "") -> Any:
    if key not in raw:
        raise _Bad(f"{where}has no key {key!r}; restore it")
    value = raw[key]
    if type(value) is not kind:
        wanted = {str: "a string", list: "a list"}[kind]
        raise _Bad(f"{where}{key!r} is {_kind(value)} and must be {wanted}; correct it")
    if kind is str:
        _encodable(value, f"{where}{key!r}")
    return value


def _encodable(text: str, what: str) -> None:
    """Refuse halves of surrogate pairs: JSON can spell them, no file or hash can hold them."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise _Bad(f"{what} holds half a surrogate pair, which is no character; correct the encoding") from None


def _task(raw: object) -> str:
    if not isinstance(raw, dict):
        raise _Bad(f"the record is {_kind(raw)} and must be an object; remove it")
    task = _get(raw, "task", str)
    if task not in TASKS:
        raise _Bad(f"task {_short.repr(task)} is unknown; it must be one of {', '.join(TASKS)}")
    return task


def _question(raw: dict[str, Any], task: str, split: str | None, shared: dict[Any, Any]) -> Question:
    """Check one record and turn it into a Question; raise _Bad at the first thing that is wrong."""
    qid, recipe_id, stated = (_get(raw, key, str) for key in ("qid", "recipe_id", "split"))
    if not qid.strip() or not recipe_id.strip():
        raise _Bad(f"{'recipe_id' if qid.strip() else 'qid'} is empty; give it one")
    if split is None and stated not in SPLITS:
        raise _Bad(f"split {_short.repr(stated)} is unknown; it must be one of {', '.join(SPLITS)}")
    context = _context(_get(raw, "context", list), task, shared)
    question = tuple(_strings(_get(raw, "question", list), "question"))
    choices = _choices(_get(raw, "choice_list", list), task)
    answer = raw.get("answer")
    if "answer" not in raw:
        raise _Bad("has no key 'answer'; restore it")
    if type(answer) is not int or not 0 <= answer <= 3:
        raise _Bad(f"answer is {_short.repr(answer)} and must be one of the integers 0, 1, 2, 3; correct it")
    _check_question(question, choices, task)
    return Question(
        qid=qid,
        recipe_id=shared.setdefault(recipe_id, recipe_id),
        task=task,
        split=split or stated,
        context=context,
        question=tuple(shared.setdefault(q, q) for q in question),
        choices=tuple(tuple(shared.setdefault(e, e) for e in choice) for choice in choices),
        answer=answer,
    )


def _context(raw_steps: list[Any], task: str, shared: dict[Any, Any]) -> tuple[Step, ...]:
    if not raw_steps:
        raise _Bad("context has no steps; a question needs the recipe it asks about")
    steps = []
    for i, raw in enumerate(raw_steps, 1):
        if not isinstance(raw, dict):
            raise _Bad(f"step {i} is {_kind(raw)} and must be an object; correct it")
        if type(raw.get("id")) is not int or raw["id"] != i:
            raise _Bad(f"step {i} of the context has id {_short.repr(raw.get('id'))}; number the steps 1, 2, 3, ...")
        body = _get(raw, "body", str, f"step {i}: ")
        body = shared.setdefault(body, body)
        if task == "textual_cloze":
            images = []
            for name in _strings(_get(raw, "images", list, f"step {i}: "), f"step {i}: images"):
                _check_image_name(name)
                images.append(shared.setdefault(name, name))
            step = Step(body, images=tuple(images))
        else:
            title = _get(raw, "title", str, f"step {i}: ")
            step = Step(body, title=shared.setdefault(title, title))
        steps.append(shared.setdefault(step, step))
    if all(step.is_empty for step in steps):
        raise _Bad("every step of the context is empty; remove the record")
    context = tuple(steps)
    return shared.setdefault(context, context)


def _strings(values: list[Any], what: str) -> list[str]:
    for value in values:
        if type(value) is not str:
            raise _Bad(f"{what} holds {_kind(value)} and must hold strings; correct it")
        _encodable(value, what)
    return values


def _check_image_name(name: str) -> None:
    if ".." in name or "/" in name or "\\" in name or not name.isprintable():
        raise _Bad(f"image name {_short.repr(name)} is no plain file name; correct it")
    if not IMAGE_NAME.fullmatch(name) or len(name.encode()) > 255:
        raise _Bad(f"image name {_short.repr(name)} is not <recipe_id>_<step>_<k>.jpg; correct it")


def _choices(raw: list[Any], task: str) -> list[list[str]]:
    """Choices as lists of E elements: E = 4 in visual ordering, else 1."""
    if len(raw) != 4:
        raise _Bad(f"choice_list has {len(raw)} choices and must have 4; correct it")
    if task != "visual_ordering":
        choices = [[choice] for choice in _strings(raw, "choice_list")]
    else:
        choices = []
        for choice in raw:
            if type(choice) is not list:
                raise _Bad(f"choice_list holds {_kind(choice)} and must hold lists of 4 image names; correct it")
            choices.append(_strings(choice, "choice_list"))
        names = sorted(choices[0])
        if len(set(names)) != 4 or any(sorted(choice) != names for choice in choices):
            raise _Bad("choice_list must hold 4 orders of the same 4 images; correct it")
    if task != "textual_cloze":
        for choice in choices:
            for name in choice:
                _check_image_name(name)
    return choices


def _check_question(question: tuple[str, ...], choices: list[list[str]], task: str) -> None:
    size, placeholders = (1 if task == "visual_ordering" else 4), (1 if task.endswith("cloze") else 0)
    if len(question) != size:
        raise _Bad(f"question has {len(question)} elements and must have {size} in {task}; correct it")
    if question.count(PLACEHOLDER) != placeholders:
        raise _Bad(
            f"question holds {question.count(PLACEHOLDER)} {PLACEHOLDER} and must hold {placeholders}; correct it"
        )
    if task in ("visual_cloze", "visual_coherence"):
        for name in question:
            if name != PLACEHOLDER:
                _check_image_name(name)
    if task == "visual_coherence" and question != tuple(choice[0] for choice in choices):
        raise _Bad("question and choice_list differ; in visual_coherence they are the same four images")


# ----------------------------------------------------------------------------------------------------------------
# Writing


def to_record(question: Question) -> dict[str, Any]:
    """The released file's record of a question; `videos` is empty, as in the files, whose videos nobody has."""
    textual = question.task == "textual_cloze"
    context = []
    for i, step in enumerate(question.context, 1):
        shown: dict[str, Any] = {"images": list(step.images or ())} if textual else {"title": step.title or ""}
        context.append({"body": step.body, "id": i, "videos": [], **shown})
    ordering = question.task == "visual_ordering"
    return {
        "recipe_id": question.recipe_id,
        "context_modality": ["body", "images" if textual else "title", "videos"],
        "split": question.split,
        "context": context,
        "choice_list": [list(choice) if ordering else choice[0] for choice in question.choices],
        "answer": question.answer,
        "qid": question.qid,
        "question_modality": ["title" if textual else "images"],
        "question": list(question.question) or [ORDERING_SENTENCE],
        "task": question.task,
        "question_text": QUESTION_TEXT[question.task],
    }


def write_questions(path: str | os.PathLike[str], questions: Iterable[Question]) -> Path:
    """Write a released-schema file, compressed where the name ends in .gz; same questions, same bytes.

    The file appears under its name only when it is whole.
    """
    path = Path(path)
    with atomic_file(path) as part, part.open("wb") as raw:
        # No name and no time in the gzip header, so that equal content gives equal bytes.
        file = gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) if path.suffix == ".gz" else raw
        file.write(b'{"data": [')
        for i, question in enumerate(questions):
            file.write((",\n" if i else "\n").encode() + json.dumps(to_record(question)).encode())
        file.write(b"\n]}\n")
        if file is not raw:
            file.close()
    return path


# ----------------------------------------------------------------------------------------------------------------
# Defects


def twins(question: Question) -> tuple[bool, ...]:
    """True at the wrong choices that read like the right one; (K,). Such a question has no answer from its text.

    Titles that differ only in case or outer white space read the same; image names are compared as they are.
    """
    textual = question.task == "textual_cloze"
    read = [tuple(e.strip().lower() for e in choice) if textual else choice for choice in question.choices]
    return tuple(i != question.answer and choice == read[question.answer] for i, choice in enumerate(read))


def data_report(questions: Sequence[Question]) -> dict[str, Any]:
    """Count what a file holds and the known defects of the data set, by task; plain containers, ready for JSON.

    Defects are counted, never repaired: each question stays in the score. Lists of qids are in file order.
    """
    report: dict[str, Any] = {
        "questions": len(questions),
        "recipes": len({q.recipe_id for q in questions}),
        "tasks": {},
    }
    for task in TASKS:
        own = [q for q in questions if q.task == task]
        if own:
            report["tasks"][task] = _task_report(own, task)
    own_steps = [step for q in questions for step in q.context]
    report["empty_bodies"] = sum(not step.body.strip() for step in own_steps)
    report["questions_with_empty_body"] = sum(any(not s.body.strip() for s in q.context) for q in questions)
    report["empty_titles"] = sum(step.title is not None and not step.title.strip() for step in own_steps)
    report["non_ascii_bodies"] = sum(not step.body.isascii() for step in own_steps)
    return report


def _task_report(questions: list[Question], task: str) -> dict[str, Any]:
    per_recipe = Counter(Counter(q.recipe_id for q in questions).values())
    steps = [len(q.context) for q in questions]
    report: dict[str, Any] = {
        "questions": len(questions),
        "recipes": len({q.recipe_id for q in questions}),
        "answers": [sum(q.answer == i for q in questions) for i in range(4)],
        "recipes_by_questions": {str(n): per_recipe[n] for n in sorted(per_recipe)},
        "steps": {"min": min(steps), "mean": round(sum(steps) / len(steps), 2), "max": max(steps)},
        "twins": [q.qid for q in questions if any(twins(q))],
        "empty_bodies": sum(not step.body.strip() for q in questions for step in q.context),
        "empty_steps": sum(step.is_empty for q in questions for step in q.context),
    }
    if task != "textual_cloze":
        report["empty_titles"] = sum(not (step.title or "").strip() for q in questions for step in q.context)
    if task == "textual_cloze":
        images = [len(step.images or ()) for q in questions for step in q.context]
        report["images_per_step"] = {"mean": round(sum(images) / len(images), 2), "max": max(images)}
        report["steps_without_image"] = images.count(0)
        report["equal_distractors"] = [q.qid for q in questions if _repeated_distractor(q)]
        report["empty_choice"] = [q.qid for q in questions if any(not choice[0].strip() for choice in q.choices)]
        report["short_choices"] = sum(len(choice[0]) <= 2 for q in questions for choice in q.choices)
        report["short_right_choices"] = sum(len(q.choices[q.answer][0]) <= 2 for q in questions)
    elif task == "visual_ordering":
        report["repeated_permutation"] = sum(_repeated_distractor(q) for q in questions)
    else:
        report["repeated_image"] = sum(_repeated_distractor(q) for q in questions)
    return report


def _repeated_distractor(question: Question) -> bool:
    wrong = [choice for i, choice in enumerate(question.choices) if i != question.answer]
    return len(set(wrong)) < len(wrong)


def report_text(report: Mapping[str, Any]) -> str:
    """`data_report` as lines to read in a terminal or a log."""
    lines = [f"{report['questions']:,} questions of {report['recipes']:,} recipes"]
    for task, r in report["tasks"].items():
        answers = " / ".join(f"{100 * n / r['questions']:.1f}" for n in r["answers"])
        lines.append(f"{task}: {r['questions']:,} questions of {r['recipes']:,} recipes")
        lines.append(f"  answer at position 0 / 1 / 2 / 3   {answers} %")
        by = ", ".join(f"{n}: {recipes:,}" for n, recipes in r["recipes_by_questions"].items())
        lines.append(f"  recipes by number of questions     {by}")
        lines.append(
            f"  steps, min / mean / max            {r['steps']['min']} / {r['steps']['mean']} / {r['steps']['max']}"
        )
        lines.append(f"  right choice occurs twice          {_count_and_names(r['twins'])}")
        if "equal_distractors" in r:
            lines.append(f"  two distractors equal              {_count_and_names(r['equal_distractors'])}")
            lines.append(f"  an empty choice                    {_count_and_names(r['empty_choice'])}")
            short = f"{r['short_choices']:,}, of them right {r['short_right_choices']:,}"
            lines.append(f"  choices of at most 2 characters    {short}")
            lines.append(f"  steps without image                {r['steps_without_image']:,}")
        if "repeated_permutation" in r:
            lines.append(f"  a wrong order offered twice        {r['repeated_permutation']:,}")
        if "repeated_image" in r:
            lines.append(f"  a wrong image offered twice        {r['repeated_image']:,}")
    lines.append(f"empty bodies {report['empty_bodies']:,} (in {report['questions_with_empty_body']:,} questions)")
    lines.append(f"empty titles {report['empty_titles']:,}; bodies with non-ASCII text {report['non_ascii_bodies']:,}")
    return "\n".join(lines)


def _count_and_names(qids: list[str], most: int = 3) -> str:
    rest = f", and {len(qids) - most:,} more" if len(qids) > most else ""
    return f"{len(qids):,}" + (f" ({', '.join(qids[:most])}{rest})" if qids else "")


# ----------------------------------------------------------------------------------------------------------------
# Splitting and images


def fold_of_recipes(questions: Sequence[Question], folds: int, fold: int, seed: int) -> set[str]:
    """The recipes of one of several folds of like size; where a recipe falls depends on all ids and the seed.

    All tasks of a recipe fall together: its visual records show the titles that its textual records hide.
    """
    recipes = sorted(
        {q.recipe_id for q in questions}, key=lambda r: hashlib.sha256(f"{seed}:fold:{r}".encode()).digest()
    )
    if len(recipes) < folds:
        raise InputError(f"data.folds={folds}: the file holds {len(recipes)} recipes; ask for fewer folds")
    return set(recipes[fold::folds])


def split_by_recipe(questions: Sequence[Question], fraction: float, seed: int) -> tuple[list[Question], list[Question]]:
    """Part `questions` into (train, val) so that no recipe is on both sides; about `fraction` of the recipes to val.

    A recipe's side depends on its id and the seed alone, so all tasks of a file part alike, read together or apart:
    the visual records of a recipe show the titles that its textual records hide.
    """
    if not 0 < fraction < 1:
        raise InputError(f"val_fraction={fraction} leaves one side empty; set it between 0 and 1")

    def place(recipe_id: str) -> float:
        return int.from_bytes(hashlib.sha256(f"{seed}:{recipe_id}".encode()).digest()[:7]) / 2**56

    places = {recipe_id: place(recipe_id) for recipe_id in sorted({q.recipe_id for q in questions})}
    if len(places) < 2:
        raise InputError(
            f"training file: its {len(places)} recipe cannot be split into training and validation; "
            "give more recipes, or data.val_file="
        )
    val = {recipe_id for recipe_id, p in places.items() if p < fraction}
    in_order = sorted(places, key=lambda recipe_id: places[recipe_id])
    if not val:
        val = {in_order[0]}
    elif len(val) == len(places):
        val.remove(in_order[-1])
    return [q for q in questions if q.recipe_id not in val], [q for q in questions if q.recipe_id in val]


@dataclass(frozen=True)
class ImageFolders:
    """Finds an image by its name; call it with the name, and the qid for the message."""

    root: Path
    folders: tuple[Path, ...]

    def __call__(self, name: str, qid: str | None = None) -> Path:
        """Path of the image; InputError where it is in none of the folders or outside the root."""
        who = f" (qid {qid})" if qid else ""
        try:
            _check_image_name(name)
        except _Bad as bad:
            raise InputError(f"{self.root}: {bad}{who}") from None
        for folder in self.folders:
            path = folder / name
            if path.is_file():
                if not path.resolve().is_relative_to(self.root.resolve()):
                    raise InputError(f"{path}: a link that leaves {self.root}{who}; put the file itself there")
                return path
        raise InputError(
            f"{self.root}: has no image {name}{who} in any of {len(self.folders)} folders;"
            " unpack images.zip there (prepare.py task=download) or set data.images to the folder that holds it"
        )


def find_images(root: str | os.PathLike[str], split: str | None = None) -> ImageFolders:
    """Resolver of image names below `root`, in every layout in circulation.

    `images-qa/{split}/images-qa/`, the same below `images/`, and one flat folder. Distractors come from the whole
    collection, so all splits are searched, `split` first.
    """
    root = Path(root)
    if not root.is_dir():
        raise InputError(f"{root}: no such folder; set data.images to the folder of the unpacked images.zip")
    splits = [s for s in SPLITS if s == split] + [s for s in SPLITS if s != split]
    candidates = []
    for top in (root, root / "images-qa", root / "images" / "images-qa", root / "images"):
        candidates += [folder for s in splits for folder in (top / s / "images-qa", top / s)]
        candidates.append(top)
    inside = root.resolve()
    folders = (folder for folder in candidates if folder.is_dir() and folder.resolve().is_relative_to(inside))
    return ImageFolders(root, tuple(dict.fromkeys(folders)))


def question_images(question: Question) -> list[str]:
    """Names of the images a question shows, each once, in order of appearance."""
    names: dict[str, None] = {}
    for step in question.context:
        names.update(dict.fromkeys(step.images or ()))
    if question.task != "textual_cloze":
        names.update((name, None) for choice in question.choices for name in choice)
        if question.task != "visual_ordering":
            names.update((name, None) for name in question.question if name != PLACEHOLDER)
    return list(names)


# ----------------------------------------------------------------------------------------------------------------
# Official scoring and published results


def official_score(truth: Iterable[Mapping[str, Any]], predictions: Mapping[str, Sequence[Any]]) -> dict[str, float]:
    """Accuracy by task in 0..1, as the authors' evaluate.py computes it.

    Predictions are matched with the truth by file order within the task; a list that is too short or too long is
    accepted, and the divisor is the number of truths; a task that is not predicted scores 0; a name is cut at its
    first dot. A string never equals a number. Where theirs fails with KeyError (a task that the truth has not),
    this one raises InputError.
    """
    answers: dict[str, list[int]] = {}
    for record in truth:
        answers.setdefault(record["task"], []).append(int(record["answer"]))
    scores: dict[str, float] = {task: 0.0 for task in TASKS}
    for name, predicted in predictions.items():
        task = name.split(".")[0]
        if task not in answers:
            raise InputError(f"predictions of task {name!r}, which the truth file has not; remove them")
        right = sum(p == a for p, a in zip(predicted, answers[task], strict=False))
        scores[task] = right / len(answers[task])
    return scores


def export_official(
    predictions: Mapping[str, int | None], truth_path: str | os.PathLike[str], tasks: Iterable[str] | None = None
) -> dict[str, list[int]]:
    """Predictions by qid -> the lists in file order that the authors' evaluate.py reads.

    tasks: the tasks to export; by default those of which at least one question is predicted. Each must be predicted
    whole: InputError with the numbers missing and extra otherwise. A question that was not answered is given as None
    and written as -1, which equals no answer. Records left out as bad at reading must be given so, too: the official
    divisor counts them.
    """
    raw_records, _ = _load(Path(truth_path), 4 << 30)
    in_file: list[tuple[str, str]] = []
    for number, raw in enumerate(raw_records, 1):
        try:
            in_file.append((_task(raw), _get(raw, "qid", str)))
        except _Bad as bad:
            raise InputError(f"{truth_path}: record {number} (qid {_qid(raw)}): {bad}") from None
    exported = set(_wanted_tasks(tasks)) if tasks is not None else {t for t, qid in in_file if qid in predictions}
    asked = {qid for task, qid in in_file if task in exported}
    missing, extra = len(asked - predictions.keys()), len(predictions.keys() - asked)
    if missing or extra or not asked:
        raise InputError(
            f"{truth_path}: predictions do not fit its questions, {missing:,} missing and {extra:,} extra of"
            f" {len(asked):,}; predict the whole file, with None where there is no answer"
        )
    lists: dict[str, list[int]] = {task: [] for task in TASKS if task in exported}
    for task, qid in in_file:
        if task in exported:
            lists[task].append(_prediction(predictions[qid], qid))
    return lists


def _prediction(value: Any, qid: str) -> int:
    if value is None:
        return UNANSWERED
    try:  # numpy and torch integers have __index__, floats and strings have not
        prediction = value.__index__()
    except (AttributeError, TypeError):
        raise InputError(f"prediction of qid {qid} is {_short.repr(value)}; give an integer 0..3 or None") from None
    if not UNANSWERED <= prediction <= 3:
        raise InputError(f"prediction of qid {qid} is {prediction}; give an integer 0..3 or None")
    return prediction


@lru_cache(maxsize=1)
def _published() -> dict[str, Any]:
    from omegaconf import OmegaConf

    path = Path(__file__).resolve().parents[1] / "conf" / "published" / "recipeqa.yaml"
    return OmegaConf.to_container(OmegaConf.load(path))  # type: ignore[return-value]


def published_rows(task: str) -> list[dict[str, Any]]:
    """Published results of a task, or of "average": dicts of system, year, accuracy (per cent), split, n, source, ...

    n is the number of questions scored, None where it is not known; `confirmed` is False where no primary text was
    found, and such a row is no fact to compare with.
    """
    published = _published()
    if task not in published:
        raise InputError(f"no published results for task {task!r}; choose from {', '.join(published)}")
    return [dict(row) for row in published[task]]
