"""FoodieQA as released: read, check, group; the user's own copy, or demo questions in the same schema.

Li et al., "FoodieQA: A Multimodal Dataset for Fine-Grained Understanding of Chinese Food Culture", EMNLP 2024 (arXiv
2406.11030). Three files, each one array of records: multi-image (MIVQA), single-image (SIVQA) and text (TextQA)
questions with four options. The data set is gated and may be used for evaluation only, so nothing of it is shipped.
"""

import hashlib
import json
import os
import reprlib
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path, PurePosixPath
from typing import Any

import pytorch_lightning as pl
from torch.utils.data import DataLoader

from data.checksums import verify
from data.errors import InputError
from data.food_names import display_category as display_category
from data.food_names import display_cuisine as display_cuisine
from data.food_names import display_type as display_type
from data.food_names import is_category
from data.food_names import merged_cuisine as merged_cuisine
from data.records import FOOD_TASKS, FoodQuestion
from data.store import digest_of

FILES = {"mivqa": "mivqa_tidy.json", "sivqa": "sivqa_tidy.json", "textqa": "textqa_tidy.json"}
LANGUAGES = {"zh": "Chinese", "en": "English"}
KINDS = {"mivqa": "multi-image", "sivqa": "single-image", "textqa": "text"}
HOW_TO_GET = (
    "FoodieQA is the gated dataset lyan62/FoodieQA on Hugging Face: accept its terms there (research and evaluation "
    "only), unpack FoodieQA.zip, and set data.root to the folder that then holds images/, mivqa_tidy.json, "
    "sivqa_tidy.json and textqa_tidy.json"
)

MAX_BYTES = 256 << 20  # the largest released file has less than 1 MB
MAX_PICTURES = 200_000  # files looked through for a picture by its name alone
_HASH_DIGITS = 32
_BATCH = 16

_short = reprlib.Repr()
_short.maxstring = _short.maxother = _short.maxlong = 80


# ---- reading ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Skipped:
    """A record that was left out: its row in the file (from 0), its question id where it has one, and why."""

    row: int
    question_id: str
    reason: str


@dataclass(frozen=True)
class ReadReport:
    """What a file held and what was read of it."""

    path: Path
    sha256: str  # of the file's bytes
    records: int
    questions: tuple[FoodQuestion, ...]
    skipped: tuple[Skipped, ...]
    layout: str  # where the pictures lie, empty for text questions
    pictures: int  # distinct picture files
    web_pictures: int  # questions that show a web photo of the dish in place of the collected one
    generated: bool  # whether a record says that a question generator made it
    hops: dict[int, bool]  # row -> whether the question needs several steps, where the record says so
    notes: tuple[str, ...]


def read_release(path: Path, task: str, language: str, images_root: Path | None = None) -> list[FoodQuestion]:
    """Questions of one released file, or of a file of one's own in that schema, in file order.

    Args:
        path: the file, or the folder that holds the three released files.
        task: one of `FOOD_TASKS`.
        language: `zh` or `en`.
        images_root: folder of the pictures, by default that of the file.

    Raises:
        InputError: see `read_file`, which also tells what else is worth knowing of the file.
    """
    path = Path(path)
    return list(read_file(path / FILES[_task(task)] if path.is_dir() else path, task, language, images_root).questions)


def read_file(
    path: Path,
    task: str,
    language: str,
    images_root: Path | None = None,
    web_image: bool = False,
    on_bad_record: str = "raise",
) -> ReadReport:
    """Read and check one file of the released schema; keys beyond the schema are allowed.

    Args:
        path: one JSON array of records, UTF-8.
        task: one of `FOOD_TASKS`.
        language: `zh`, or `en` for `question_en` and `choices_en`. The released text questions have no English.
        images_root: folder of the pictures, by default that of the file.
        web_image: show the web photo (`food_meta.web_file`) of the single-image questions that have one.
        on_bad_record: `raise` stops at the first bad record, `skip` leaves them out and lists them.

    Raises:
        InputError: a file that cannot be read or is no array of records; a record that is not as released (answer
            other than "0" to "3", other than four options, two right ones, absent keys); pictures that are missing, no
            pictures, or outside `images_root`, all in one message. The message names file, row and remedy.
    """
    _task(task)
    if language not in LANGUAGES:
        raise InputError(f"data.language={language}: is unknown; choose {' or '.join(LANGUAGES)}")
    if on_bad_record not in ("raise", "skip"):
        raise InputError(f"data.on_bad_record={on_bad_record}: is unknown; choose raise or skip")
    records, sha256 = _load(Path(path))
    with_english = any(isinstance(record, dict) and "question_en" in record for record in records)
    if language == "en" and task == "textqa" and not with_english:
        raise InputError(
            f"{path}: has no English text questions, as released (translated dish names give answers away); set "
            "data.language=zh, or give a file of your own with question_en and choices_en"
        )
    read: list[FoodQuestion] = []
    skipped: list[Skipped] = []
    for row, record in enumerate(records):
        try:
            read.append(_question(record, row, task, language, web_image))
        except _Bad as bad:
            if on_bad_record == "raise":
                raise InputError(
                    f"{path}: row {row}, counted from 0 (question_id {_question_id(record)}): {bad}, or set "
                    "data.on_bad_record=skip to leave such records out"
                ) from None
            skipped.append(Skipped(row, _question_id(record), str(bad)))
    names = list(dict.fromkeys(name for question in read for name in question.images))
    pictures = _Pictures(Path(images_root) if images_root is not None else Path(path).parent, names)
    if pictures.faults and on_bad_record == "raise":
        raise InputError(f"{path}: {pictures.complaint()}")
    questions = []
    for question in read:
        faults = [f"{name} {pictures.faults[name]}" for name in question.images if name in pictures.faults]
        if faults:
            skipped.append(Skipped(question.row, question.question_id, f"picture {faults[0]}"))
        else:
            questions.append(replace(question, images=tuple(pictures.found[name] for name in question.images)))
    if not questions:
        reason = f", the first because {skipped[0].reason}" if skipped else ""
        raise InputError(f"{path}: none of its {len(records)} records can be used{reason}; check the file")
    skipped.sort(key=lambda bad: bad.row)
    web = sum(web_image and bool(_web_file(records[question.row])) for question in questions)
    return ReadReport(
        path=Path(path),
        sha256=sha256,
        records=len(records),
        questions=tuple(questions),
        skipped=tuple(skipped),
        layout=pictures.layout if names else "",
        pictures=len({name for question in questions for name in question.images}),
        web_pictures=web,
        generated=any("generator" in records[question.row] for question in questions),
        hops={q.row: hop for q in questions if (hop := _multi_hop(records[q.row])) is not None},
        notes=tuple(_notes(Path(path).name, questions, records, skipped, pictures if names else None, web, web_image)),
    )


class _Bad(Exception):
    """What is wrong with one record and its remedy; the reader adds file, row and question id."""


def _task(task: str) -> str:
    if task not in FOOD_TASKS:
        raise InputError(f"data.task={task}: is unknown; choose one of {', '.join(FOOD_TASKS)}")
    return task


def _load(path: Path) -> tuple[list[Any], str]:
    """The records of a file and the sha256 of its bytes."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; {HOW_TO_GET}") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{path}: cannot be read ({reason}); give a JSON file in the released schema") from None
    if len(content) > MAX_BYTES:
        raise InputError(f"{path}: is larger than {MAX_BYTES >> 20} MiB, so it is no file of questions; check the path")
    sha256 = hashlib.sha256(content).hexdigest()
    verify(path, sha256)
    if not content.strip():
        raise InputError(f"{path}: the file is empty; fetch it again")
    try:
        top = json.loads(content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is not UTF-8 (byte {error.start:,}); save it as UTF-8 or fetch it again") from None
    except RecursionError:
        raise InputError(f"{path}: is nested too deeply to be a file of questions; check the path") from None
    except ValueError as error:  # JSONDecodeError, an int of thousands of digits
        reason = " ".join(str(error).split())[:120]
        hint = (
            "it is a Git LFS pointer, fetch the file itself" if content.startswith(b"version https://git-lfs") else ""
        )
        raise InputError(
            f"{path}: is not valid JSON ({reason}); {hint or 'it is truncated or damaged, fetch it again'}"
        ) from None
    if not isinstance(top, list):
        raise InputError(f"{path}: holds {_kind(top)} and must hold one array of records; check that it is the file")
    if not top:
        raise InputError(f"{path}: its array is empty; fetch the file again")
    return top, sha256


def _kind(value: object) -> str:
    names = {dict: "an object", list: "a list", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")


def _question_id(record: object) -> str:
    found = record.get("question_id") if isinstance(record, dict) else None
    if isinstance(found, str) and found:
        return found if found.isascii() and found.isprintable() and len(found) <= 80 else _short.repr(found)
    return "unknown"


def _get(record: dict[str, Any], key: str, kind: type, where: str = "") -> Any:
    if key not in record:
        raise _Bad(f"{where}has no key {key!r}; restore it")
    value = record[key]
    if type(value) is not kind:
        wanted = {str: "a string", list: "a list", dict: "an object"}[kind]
        raise _Bad(f"{where}{key!r} is {_kind(value)} and must be {wanted}; correct it")
    return value


def _text(record: dict[str, Any], key: str, where: str = "") -> str:
    value = _get(record, key, str, where)
    if not value.strip():
        raise _Bad(f"{where}{key!r} is empty; fill it in")
    return value


def _strings(values: list[Any], key: str) -> list[str]:
    for value in values:
        if type(value) is not str:
            raise _Bad(f"{key!r} holds {_kind(value)} and must hold strings; correct it")
    return values


def _question(record: Any, row: int, task: str, language: str, web_image: bool) -> FoodQuestion:
    """Check one record; its picture paths stay as the file spells them."""
    if not isinstance(record, dict):
        raise _Bad(f"the record is {_kind(record)} and must be an object; remove it")
    try:
        record_hash = digest_of(record)[:_HASH_DIGITS]
    except UnicodeEncodeError:
        raise _Bad("holds half a surrogate pair, which is no character; correct the encoding") from None
    except (ValueError, RecursionError):
        raise _Bad("holds a number that is not finite, or is nested too deeply; correct it") from None
    question_id = _get(record, "question_id", str)
    question = _get(record, "question", str)
    if language == "en":
        question = _text(record, "question_en")
    elif not question.strip():
        raise _Bad("'question' is empty; fill it in")
    answer = _answer(record, task)
    cuisine = category = food_name = ""
    if task == "mivqa":
        choices = _image_choices(record, language, answer)
        images = _strings(_get(record, "images", list), "images")
        if len(images) != 4:
            raise _Bad(f"'images' names {len(images)} pictures and must name 4; correct it")
        if not choices and [PurePosixPath(name) for name in images].count(PurePosixPath(images[answer])) > 1:
            raise _Bad("the right one of its four pictures is there twice, so two options are right; correct it")
        cluster = "\n".join(sorted(images))
        group = _get(record, "ann_group", str)
        cuisine, category = ("", group) if is_category(group) else (group, "")
    else:
        choices = _four(_strings(_get(record, "choices", list), "choices"), "choices", answer)
        if language == "en":
            choices = _four(_strings(_get(record, "choices_en", list), "choices_en"), "choices_en", answer)
        food_name = _get(record, "food_name", str)
        images, cluster = [], food_name.strip()
        if task == "textqa":
            cuisine = _get(record, "cuisine_type", str)
        else:
            meta = _get(record, "food_meta", dict)
            photo = cluster = _text(meta, "food_file", "food_meta: ")
            if "generator" in record and food_name.strip():  # several pictures of one dish, as one drew them
                cluster = food_name.strip()
            images = [_web_file(record) or photo if web_image else photo]
            cuisine = _get(meta, "food_type", str, "food_meta: ") if "food_type" in meta else ""
    for name in images:
        _check_name(name)
    return FoodQuestion(
        task=task,
        row=row,
        record_hash=record_hash,
        question_id=question_id,
        language=language,
        question=question,
        choices=tuple(choices),
        images=tuple(images),
        answer=answer,
        question_type=_text(record, "question_type"),
        food_name=food_name,
        cuisine=cuisine,
        category=category,
        cluster=cluster,
    )


def _answer(record: dict[str, Any], task: str) -> int:
    if "answer" not in record:
        raise _Bad("has no key 'answer'; restore it")
    answer = record["answer"]
    if type(answer) is not str or answer not in ("0", "1", "2", "3"):
        hint = ' ("4" is a verifier\'s "I don\'t know")' if task == "textqa" and answer == "4" else ""
        raise _Bad(
            f'\'answer\' is {_short.repr(answer)}{hint} and must be one of the strings "0", "1", "2", "3", the '
            "place of the right option; correct it"
        )
    return int(answer)


def _image_choices(record: dict[str, Any], language: str, answer: int) -> list[str]:
    """Text options of a multi-image question; none where the four pictures are the options."""
    if "choices" not in record:
        raise _Bad("has no key 'choices'; restore it")
    choices = _split(record["choices"], "choices", answer)
    if language == "en" and choices and "choices_en" in record:  # the release has no English of these options
        choices = _split(record["choices_en"], "choices_en", answer)
    return choices


def _split(value: Any, key: str, answer: int) -> list[str]:
    """Options that were typed as one line with commas between them, or are a list already."""
    if isinstance(value, str):
        value = [part.strip() for part in value.replace("，", ",").split(",")] if value.strip() else []
    if not isinstance(value, list):
        raise _Bad(f"{key!r} is {_kind(value)} and must be a string or a list; correct it")
    return _four(_strings(value, key), key, answer) if value else []


def _four(choices: list[str], key: str, answer: int) -> list[str]:
    """Four options, none empty, one of them right. Equal wrong ones exist in the release and stay."""
    if len(choices) != 4:
        raise _Bad(f"{key!r} has {len(choices)} options and must have 4; correct it")
    seen: dict[str, int] = {}
    for i, choice in enumerate(choices):
        plain = normalised(choice)
        if not plain:
            raise _Bad(f"option {i} of {key!r} is empty; fill it in")
        if plain in seen and answer in (seen[plain], i):
            raise _Bad(
                f"options {seen[plain]} and {i} of {key!r} are equal ({_short.repr(choice)}) and one is the answer, so "
                "two are right; correct one"
            )
        seen.setdefault(plain, i)
    return choices


def normalised(text: str) -> str:
    """A text as options are compared: without outer white space, NFKC, case folded."""
    return unicodedata.normalize("NFKC", text).strip().casefold()


def _check_name(name: str) -> None:
    path = PurePosixPath(name)
    plain = name.strip() and name.isprintable() and "\\" not in name and len(name.encode()) <= 1024
    if not plain or path.is_absolute() or ".." in path.parts or any(len(part.encode()) > 255 for part in path.parts):
        raise _Bad(f"picture path {_short.repr(name)} is no relative path inside the folder of pictures; correct it")


def _web_file(record: Any) -> str:
    meta = record.get("food_meta")
    found = meta.get("web_file") if isinstance(meta, dict) else None
    return found if isinstance(found, str) and found.strip() else ""


def _multi_hop(record: dict[str, Any]) -> bool | None:
    """Whether verifiers said that a question needs several steps; None where the record does not tell."""
    if isinstance(record.get("multi_hop"), bool):
        return record["multi_hop"]
    return {"multiple": True, "single": False}.get(str(record.get("num_hops")))


def _notes(
    file: str,
    questions: list[FoodQuestion],
    records: list[Any],
    skipped: list[Skipped],
    pictures: "_Pictures | None",
    web: int,
    web_image: bool,
) -> list[str]:
    """What a reader of the numbers should know of the file."""
    notes = []
    if skipped:
        notes.append(
            f"{file}: {len(skipped)} of {len(records)} records left out, the first one row {skipped[0].row}: "
            f"{skipped[0].reason}"
        )
    if pictures is not None:
        notes.append(f"{file}: {len(pictures.found)} pictures found as {pictures.layout}")
    task = questions[0].task
    by_id: dict[str, set[str]] = defaultdict(set)
    for question in questions:
        by_id[question.question_id].add(question.record_hash)
    repeated = sorted(name for name, hashes in by_id.items() if len(hashes) > 1)
    if task != "mivqa" and repeated:  # ids of multi-image questions repeat by design
        notes.append(
            f"{file}: {len(repeated)} question ids stand for several different records (first: "
            f"{_short.repr(repeated[0])}); rows tell them apart"
        )
    twice = [hash for hash, n in Counter(question.record_hash for question in questions).items() if n > 1]
    if twice:
        rows = [question.row for question in questions if question.record_hash == twice[0]]
        notes.append(
            f"{file}: {len(twice)} records are there more than once and count each time (first: rows "
            f"{', '.join(map(str, rows[:4]))})"
        )
    alike = sum(_has_equal_options(question) for question in questions)
    if alike:
        notes.append(f"{file}: {alike} questions have equal wrong options; an answer by such a text is not counted")
    if web_image:
        notes.append(f"{file}: {web} of {len(questions)} questions show a web photo of the dish (data.web_image=true)")
    untranslated = sum(
        question.language == "en" and bool(question.choices) and "choices_en" not in records[question.row]
        for question in questions
    )
    if untranslated:
        notes.append(f"{file}: {untranslated} questions have text options that the file gives in Chinese only")
    return notes


def _has_equal_options(question: FoodQuestion) -> bool:
    options = [normalised(choice) for choice in question.choices] or question.images
    return len(set(options)) < len(options) and len(question.choices) + len(question.images) > 1


# ---- pictures --------------------------------------------------------------------------------------------------------


class _Pictures:
    """Where the pictures of one file lie: one layout for all of them.

    `found` maps the paths of the records to absolute paths, `faults` those without a readable picture to the reason.
    """

    def __init__(self, root: Path, names: Sequence[str]) -> None:
        self.root = root.absolute()
        self.faults: dict[str, str] = {}
        places = {"<path>": self.root, "images/<path>": self.root / "images"}
        self._inside = [place.resolve() for place in places.values()]  # images/ may be a link to another disk
        found = {
            layout: {name: str(place / name) for name in names if _is_file(place / name)}
            for layout, place in places.items()
        }
        self.layout, best = max(found.items(), key=lambda item: len(item[1]))  # the first of equals
        if len(best) < len(names):
            alone = {name: paths[0] for name in names if len(paths := self._by_name.get(_file_name(name), [])) == 1}
            if len(alone) > len(best):
                self.layout, best = "images/**/<file name>", alone
        for name in names:
            if fault := self._fault(name, best.get(name)):
                self.faults[name] = fault
        self.found = {name: path for name, path in best.items() if name not in self.faults}

    @cached_property
    def _by_name(self) -> dict[str, list[str]]:
        """File name -> paths below images/, or below the root where it is the folder of pictures itself."""
        place = self.root / "images"
        files: dict[str, list[str]] = defaultdict(list)
        count = 0
        for folder, _, names in os.walk(place if place.is_dir() else self.root):
            count += len(names)
            if count > MAX_PICTURES:
                return {}
            for name in names:
                files[name].append(os.path.join(folder, name))
        return files

    def _fault(self, name: str, path: str | None) -> str:
        if path is None:
            several = len(self._by_name.get(_file_name(name), [])) if "**" in self.layout else 0
            return f"is not unique ({several} files of that name)" if several > 1 else "is missing"
        real = Path(path).resolve()
        if not any(real.is_relative_to(place) for place in self._inside):
            return "leads out of the folder of pictures by a link"
        return _header_fault(Path(path))

    def complaint(self) -> str:
        """One line on all pictures without a file, or whose file is no picture."""
        shown = [f"{_short.repr(name)} {fault}" for name, fault in list(self.faults.items())[:3]]
        total = len(self.found) + len(self.faults)
        more = ", …" if len(self.faults) > len(shown) else ""
        return (
            f"{len(self.faults)} of {total} pictures cannot be used (looked for as <path>, images/<path> and "
            f"images/**/<file name> in {self.root}, taken: {self.layout}): {', '.join(shown)}{more}; complete the "
            "folder, set data.images to the folder of the pictures, or leave such questions out by "
            "data.on_bad_record=skip"
        )


def _file_name(name: str) -> str:
    return PurePosixPath(name).name


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        return False


def _header_fault(path: Path) -> str:
    """Why a file is no picture that can be shown, judged by its header; nothing where it is one."""
    from data.images import read_header

    try:
        with path.open("rb") as file:
            head = file.read(1 << 16)
            try:
                read_header(head, path)
            except InputError:  # profiles and thumbnails may push the size further back
                read_header(head + file.read(), path)
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    except InputError as error:
        return str(error).removeprefix(f"{path}: ").split(";")[0].removeprefix("the picture ")
    return ""


# ---- published counts ------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def published_dataset() -> dict[str, Any]:
    """What the paper says of the data set itself, by task: `conf/published/foodieqa_dataset.yaml`."""
    from omegaconf import OmegaConf

    path = Path(__file__).resolve().parents[1] / "conf" / "published" / "foodieqa_dataset.yaml"
    return OmegaConf.to_container(OmegaConf.load(path))["dataset"]  # type: ignore[index]


def check_expected(questions: Sequence[FoodQuestion]) -> list[str]:
    """Differences from the released file of that task, as sentences; none where there are none.

    Judged only where the number of questions is that of the release: any other file is another set.
    """
    if not questions:
        return []
    task = questions[0].task
    published = published_dataset()[task]
    if len(questions) != published["n"]:
        return []
    wanted, found = Counter(published["types"]), Counter(question.question_type for question in questions)
    different = [
        f"{kind} {found[kind]} (published: {wanted[kind]})" for kind in wanted | found if wanted[kind] != found[kind]
    ]
    if not different:
        return []
    return [f"{len(questions)} questions as in FoodieQA's {KINDS[task]} file, but other types: {', '.join(different)}"]


# ---- the data module -------------------------------------------------------------------------------------------------


class FoodieQAData(pl.LightningDataModule):
    """The questions of one task in one language, for evaluation.

    Args:
        name: of the data in run folders and tables, such as `foodieqa/multi_image`.
        task: one of `FOOD_TASKS`.
        language: `zh` or `en`.
        root: folder of the release; without it and without `file`, demo questions are made and used.
        file: one file of the released schema in place of the release's own.
        images: folder of the pictures, by default the root, or the folder of `file`.
        web_image: show the web photo of a single-image question that has one, in place of the collected photo.
        limit: for debugging: only the first so many questions.
        on_bad_record: `raise`, or `skip` to leave bad records out, counted and noted.
        photos: folder of real photos for the demo questions; without it pictures are rendered.
        cache: folder of everything computed.
    """

    def __init__(
        self,
        name: str,
        task: str,
        language: str = "zh",
        root: str | None = None,
        file: str | None = None,
        images: str | None = None,
        web_image: bool = False,
        limit: int | None = None,
        on_bad_record: str = "raise",
        photos: str | None = None,
        cache: str = "cache",
    ) -> None:
        super().__init__()
        _task(task)
        if language not in LANGUAGES:
            raise InputError(f"data.language={language}: is unknown; choose {' or '.join(LANGUAGES)}")
        if on_bad_record not in ("raise", "skip"):
            raise InputError(f"data.on_bad_record={on_bad_record}: is unknown; choose raise or skip")
        if not isinstance(web_image, bool):
            raise InputError(f"data.web_image={web_image}: choose true or false")
        if limit is not None and (type(limit) is not int or limit < 1):
            raise InputError(f"data.limit={limit}: must be a whole number of at least 1")
        if photos is not None and (root is not None or file is not None):
            raise InputError("data.photos: is for the demo questions, which data.root or data.file replaces; drop one")
        self.name, self.task, self.language = name, task, language
        self.root, self.file, self.images = (Path(p).expanduser() if p else None for p in (root, file, images))
        self.photos, self.cache = Path(photos).expanduser() if photos else None, Path(cache)
        self.web_image, self.limit, self.on_bad_record = web_image, limit, on_bad_record
        self.notes: list[str] = []  # sentences that belong below every table of these questions
        self.questions: list[FoodQuestion] = []
        self.report: ReadReport | None = None

    @property
    def is_demo(self) -> bool:
        """Whether demo questions stand in for a release that was not given. They are never called FoodieQA."""
        return self.root is None and self.file is None

    @property
    def is_release(self) -> bool:
        """Whether all questions of the released file are used, by their number and types; then, and only then, may
        published results stand beside one's own. A file of the same counts is taken for the released one.
        """
        report = self.report
        if report is None or self.is_demo or report.generated or report.skipped or self.limit is not None:
            return False
        return len(self.questions) == published_dataset()[self.task]["n"] and not check_expected(self.questions)

    @property
    def title(self) -> str:
        """What the questions are, for tables and figures."""
        kind = f"{KINDS[self.task]} questions, {LANGUAGES[self.language]}"
        if self.is_demo:
            return f"demo set, {kind}"
        if self.is_release:
            return f"FoodieQA, {kind}"
        return f"{self.report.path.name if self.report else self.name}, {kind}"

    @property
    def facts(self) -> dict[str, Any]:
        """Plain facts about the questions, for a report's headline."""
        report = self._prepared()
        return {
            "name": self.name,
            "title": self.title,
            "task": self.task,
            "language": self.language,
            "demo": self.is_demo,
            "generated": report.generated,
            "release": self.is_release,
            "file": report.path.name,
            "sha256": report.sha256,
            "records": report.records,
            "n": len(self.questions),
            "skipped": len(report.skipped),
            "layout": report.layout,
            "pictures": report.pictures,
            "web_pictures": report.web_pictures,
            "clusters": len({question.cluster for question in self.questions}),
        }

    @property
    def hops(self) -> dict[int, bool]:
        """Row -> whether the question needs several steps, for the records that say so; for the statistics."""
        return self._prepared().hops

    def provenance(self) -> dict[str, str]:
        """File name -> sha256 of the files that were read."""
        report = self._prepared()
        return {report.path.name: report.sha256}

    def prepare(self) -> None:
        """Read the questions, once; makes the demo questions where no files are given."""
        if self.report is not None:
            return
        path = self._path()
        images = self.images or (self.root if self.root is not None else path.parent)
        report = read_file(path, self.task, self.language, images, self.web_image, self.on_bad_record)
        self.report, self.questions = report, list(report.questions)
        if self.is_demo:
            self._note(f"these are demo questions made for trying things out, not FoodieQA; {HOW_TO_GET}")
        elif report.generated:
            self._note(f"{path.name}: made by a question generator, not FoodieQA")
        for note in report.notes:
            self._note(note)
        if not self.is_demo and not report.generated:
            published = published_dataset()[self.task]["n"]
            for note in check_expected(self.questions):
                self._note(f"{path.name}: {note}")
            if len(self.questions) != published:
                self._note(
                    f"{path.name}: {len(self.questions)} questions, while FoodieQA's {KINDS[self.task]} file has "
                    f"{published}: results are not comparable with published ones"
                )
        if self.limit is not None and self.limit < len(self.questions):
            self._note(f"data.limit={self.limit}: only the first {self.limit} of {len(self.questions)} questions")
            self.questions = self.questions[: self.limit]

    def prepare_data(self) -> None:
        """Lightning's hook of one process: make the demo questions."""
        if self.report is None:
            self._path()

    def setup(self, stage: str | None = None) -> None:
        """Lightning's hook of every process: read the questions."""
        self.prepare()

    def test_dataloader(self) -> DataLoader:
        """Batches of questions, lists of `FoodQuestion`, in file order."""
        self.prepare()
        return DataLoader(self.questions, batch_size=_BATCH, collate_fn=list)  # type: ignore[arg-type]

    def predict_dataloader(self) -> DataLoader:
        """The same as for testing."""
        return self.test_dataloader()

    def transfer_batch_to_device(self, batch: Any, device: Any, dataloader_idx: int) -> Any:
        """Questions hold no tensors; Lightning's own transfer fails on frozen records."""
        return batch

    def train_dataloader(self) -> DataLoader:
        """None: FoodieQA's terms allow evaluation only. InputError says so."""
        raise InputError(
            f"data={self.name}: FoodieQA may be used for evaluation only, by its terms; use evaluate.py, and train on "
            "other data such as data=recipeqa/all"
        )

    def _path(self) -> Path:
        """The file of the questions. InputError says where it should be and how to get it."""
        if self.file is not None:
            if not self.file.is_file():
                raise InputError(
                    f"data.file={self.file}: no such file; give a JSON file in the released schema, or data.root for "
                    "the released files"
                )
            return self.file
        if self.root is None:
            from data.build.demo_dishes import build_demo

            return build_demo(self.cache, self.photos) / FILES[self.task]
        path = self.root / FILES[self.task]
        if path.is_file():
            return path
        if not self.root.is_dir():
            raise InputError(f"data.root={self.root}: no such folder; {HOW_TO_GET}")
        below = sorted(self.root.glob(f"*/{FILES[self.task]}"))
        if below:
            raise InputError(f"data.root={self.root}: {FILES[self.task]} lies deeper; set data.root={below[0].parent}")
        raise InputError(f"data.root={self.root}: holds no {FILES[self.task]}; {HOW_TO_GET}")

    def _prepared(self) -> ReadReport:
        self.prepare()
        assert self.report is not None
        return self.report

    def _note(self, note: str) -> None:
        if note not in self.notes:
            self.notes.append(note)
