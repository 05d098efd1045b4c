"""Into and out of the annotation store: the released schema, dish facts, records of the published tools.

The truth meets the verifiers' answers only here. Formats: the tidy schema of the release, and the records that the
published tools wrote (lyan62/FoodieQA, `ui` for writing and `val-ui` for verifying multi-image questions).
"""

import hashlib
import json
import shutil
import uuid
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path, PureWindowsPath
from typing import Any

from annotation.forms import Settings, question_version
from annotation.store import MAX_UPLOAD, TOOL_VERSION, Event, Refused, State, Store, new_event
from annotation.work import standing
from data.dish_table import read_dishes, write_dishes
from data.errors import InputError
from data.files import atomic_file
from data.records import FOOD_TASKS
from data.verification import UNKNOWN, PersonsAnswer, Verification, VerifiedQuestion, read_records, says_unknown

MAX_FILES = 50_000  # record files of one folder
MAX_RECORD = 1 << 20  # bytes of one of them
EXPORTS = "exports"
_BATCH = 200  # events of one write
PHRASE = "I don't know"  # what verifiers of single-image questions were asked to write (paper, section 3.4.2)


# ---- out -------------------------------------------------------------------------------------------------------------


def tidy_record(state: State, question: str) -> dict[str, Any]:
    """One question in the released schema of its task; pictures are named as `export` writes them."""
    record = state.questions[question]
    images = [f"images/{photo}.jpg" for photo in record.get("photos", [])]
    if "record" in record:  # imported: what the schema does not know stays with it
        raw = {**record["record"], "answer": str(record["answer"])}
        if record["task"] == "mivqa":
            raw["images"] = images
        elif record["task"] == "sivqa":
            raw["food_meta"] = {**raw["food_meta"], "food_file": images[0]}
        return raw
    group = state.groups.get(record["group"], {"by": "cuisine", "value": "其他"})
    value = group["value"]
    return {
        "question": record["question"],
        "choices": list(record["choices"]) or "",
        "answer": str(record["answer"]),
        "question_type": record["question_type"],
        "question_id": record["question_id"],
        # The release names a cuisine by its short form, 川 for 川菜.
        "ann_group": value.removesuffix("菜") if group["by"] == "cuisine" else value,
        "images": images,
        "question_en": record["question_en"],
    }


def tidy_sets(state: State) -> dict[str, list[tuple[str, dict[str, Any]]]]:
    """Questions that stand, by task, as (id in the store, record) in the order of their rows."""
    sets: dict[str, list[tuple[str, dict[str, Any]]]] = {}
    for question in state.live_questions():
        sets.setdefault(state.questions[question]["task"], []).append((question, tidy_record(state, question)))
    return {task: sets[task] for task in FOOD_TASKS if task in sets}


def answer_record(state: State, question: str, row: int, event: Event) -> dict[str, Any]:
    """One answer with everything that is known of it, and the truth beside it; options in the question's own order."""
    payload, record = event.payload, state.questions[question]
    right = None if payload["choice"] is None else payload["choice"] == record["answer"]
    return {
        "task": record["task"],
        "row": row,
        "question_id": record["question_id"],
        "annotator": event.annotator,
        "choice": payload["choice"],
        "dont_know": payload["dont_know"],
        "guess": payload["guess"],
        "rationale": payload["rationale"],
        "hops": payload["hops"],
        "bad": payload["bad"],
        "bad_reason": payload["bad_reason"],
        "order": payload["order"],
        "shown": payload["shown"],
        "seconds": payload["seconds"],
        "time": event.time,
        "event": event.id,
        "tool": event.tool,
        "version": payload["version"],
        "answer": record["answer"],
        "right": right,
    }


def val_ui_record(tidy: Mapping[str, Any], task: str, event: Event) -> dict[str, Any]:
    """One answer as the published verification tool wrote it.

    That tool had a key for "I don't know" in text questions only. Elsewhere the phrase goes into the rationale and the
    guess is the answer; where nobody guessed, or flagged the question and gave no answer, it is `"4"` there as well.
    """
    payload = event.payload
    chosen = payload["choice"]
    answer, rationale = (UNKNOWN if chosen is None else str(chosen)), payload["rationale"]
    if payload["dont_know"] and task != "textqa":
        answer = UNKNOWN if payload["guess"] is None else str(payload["guess"])
        rationale = f"{PHRASE}. {rationale}".strip() if rationale else PHRASE
    record = {
        "question": tidy["question"],
        "choices": tidy["choices"],
        "user-answer": answer,
        "gt": tidy["answer"],
        "rationale": None if task == "textqa" else rationale,
        "bad_q": "Yes" if payload["bad"] else "No",
        "num_hops": payload["hops"],
        "question_id": tidy["question_id"],
        "session_id": f"val-{event.annotator.removeprefix('val-')}",
    }
    if task == "mivqa":
        return record | {"ann_group": tidy["ann_group"], "images": tidy["images"]}
    record["question_type"] = tidy["question_type"]
    if task == "sivqa":
        return record | {"images": tidy["food_meta"]["food_file"], "food_file": tidy["food_meta"]}
    return record | {"food_name": tidy["food_name"]}


def verification_records(state: State, task: str) -> list[dict[str, Any]]:
    """The answers that count for the questions of a task, as the published tool wrote them, with their `row`."""
    records = []
    for row, (question, tidy) in enumerate(tidy_sets(state).get(task, [])):
        for event in _in_time(state, question):
            records.append({**val_ui_record(tidy, task, event), "row": row})
    return records


def _in_time(state: State, question: str) -> list[Event]:
    return sorted(state.current_answers(question).values(), key=lambda event: (event.time, event.id))


def export(store: Store, settings: Settings, target: Path) -> dict[str, Any]:
    """Write all that was collected into a new folder; returns its manifest.

    `<task>_tidy.json` with `images/`, `dishes.json` and `dishes.csv`, `verification/<task>/vqa_<row>_<event>.json`
    (format of the published tool), `answers.jsonl` (everything that is known of an answer), `agreement/<task>/` (kept
    and dropped questions, disagreements, the report), `photos.json`, `manifest.json`. The folder appears whole or not
    at all.

    Raises:
        InputError: the folder exists, or cannot be written.
    """
    target = Path(target).absolute()
    if target.exists():
        raise InputError(f"{target}: exists; give a folder that does not")
    partial = target.with_name(f".{target.name}.{uuid.uuid4().hex[:8]}.partial")
    from models.agreement import write_validation

    try:
        partial.mkdir(parents=True)
        with store.reading() as state:
            manifest = _write(store, state, settings, partial)
        for task, report in agreement(store).items():
            write_validation(partial / "agreement" / task, report)
        partial.rename(target)
    except OSError as error:
        raise InputError(f"{target}: cannot be written ({error.strerror}); give another folder") from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return manifest


def _write(store: Store, state: State, settings: Settings, folder: Path) -> dict[str, Any]:
    sets = tidy_sets(state)
    answers: list[dict[str, Any]] = []
    photos: set[str] = set()
    for task, rows in sets.items():
        write_json(folder / f"{task}_tidy.json", [record for _, record in rows])
        for row, (question, tidy) in enumerate(rows):
            photos.update(state.questions[question].get("photos", []))
            for event in _in_time(state, question):
                answers.append(answer_record(state, question, row, event))
                name = f"vqa_{row}_{event.id}.json"
                write_json(folder / "verification" / task / name, val_ui_record(tidy, task, event))
    for photo in sorted(photos):
        (folder / "images").mkdir(exist_ok=True)
        shutil.copyfile(store.photo_path(photo), folder / "images" / f"{photo}.jpg")
    with atomic_file(folder / "answers.jsonl") as path, open(path, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(record, ensure_ascii=False) + "\n" for record in answers)
    dishes = [state.dishes[dish]["facts"] for dish in state.dishes if dish not in state.withdrawn]
    if dishes:
        write_json(folder / "dishes.json", dishes)
        write_dishes(read_dishes(folder / "dishes.json"), folder / "dishes.csv")
    write_json(folder / "photos.json", [_photo_record(state, photo) for photo in state.live_photos()])
    manifest = {
        "made": "collected with the annotation pages of this project; this is not the FoodieQA benchmark",
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "tool": TOOL_VERSION,
        "events": state.events,
        "questions": {task: len(rows) for task, rows in sets.items()},
        "standing": standing(state, settings),
        "answers": len(answers),
        "dishes": len(dishes),
        "images": len(photos),
        "annotators": {who: account["name"] for who, account in state.accounts.items()},
        "notes": list(store.notes),
    }
    write_json(folder / "manifest.json", manifest)
    return manifest


def _photo_record(state: State, photo: str) -> dict[str, Any]:
    keys = ("photo", "width", "height", "cuisine", "cuisine_other", "dish_name", "place", "consent")
    record = {key: state.photos[photo].get(key) for key in keys}
    record |= {"annotator": state.photos[photo]["annotator"], "time": state.photos[photo]["time"]}
    review = state.reviews.get(photo)
    judged = {key: review.payload[key] for key in ("category", "reason", "note")} if review else {}
    return record | {"verdict": state.verdict(photo), "reviewer": review.annotator if review else "", **judged}


def write_json(path: Path, value: Any) -> None:
    """A JSON file that people can read too."""
    with atomic_file(path) as partial:
        partial.write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def zip_folder(folder: Path) -> Path:
    """The folder as one zip file beside it."""
    path = folder.with_name(folder.name + ".zip")
    with atomic_file(path) as partial, zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(folder.rglob("*")):
            if file.is_file():
                archive.write(file, f"{folder.name}/{file.relative_to(folder)}")
    return path


def verification(state: State, task: str) -> Verification:
    """The answers that count for the questions of a task, joined with the right ones, under the people's names."""
    questions: dict[str, VerifiedQuestion] = {}
    answers: list[PersonsAnswer] = []
    for row, (identity, _) in enumerate(tidy_sets(state).get(task, [])):
        record, key = state.questions[identity], f"{task}:{row}"
        for event in _in_time(state, identity):
            payload = event.payload
            answers.append(
                PersonsAnswer(
                    question=key,
                    person=state.name(event.annotator),
                    choice=payload["guess"] if payload["dont_know"] else payload["choice"],
                    knows=payload["choice"] is not None,  # a flag without an answer is none
                    bad=payload["bad"],
                    multi_hop={"multiple": True, "single": False}.get(payload["hops"]),
                    rationale=payload["rationale"],
                    source=f"event {event.id}",
                )
            )
            questions[key] = VerifiedQuestion(
                key=key,
                row=row,
                task=task,
                question_id=record["question_id"],
                question_type=record["question_type"],
                question=record["question"],
                choices=tuple(record["choices"]),
                images=tuple(record.get("photos", [])),
                answer=record["answer"],
            )
    return Verification(task, questions, answers, repeated=0, unmatched=[])


def agreement(store: Store) -> dict[str, Any]:
    """`models.agreement.ValidationReport` of each task of which two people have answered a question."""
    from models.agreement import validate

    reports = {}
    for task in FOOD_TASKS:
        with store.reading() as state:
            found = verification(state, task)
        if max(Counter(answer.question for answer in found.answers).values(), default=0) >= 2:
            reports[task] = validate(found, None, title=f"{task} questions collected here (not FoodieQA)")
    return reports


# ---- in --------------------------------------------------------------------------------------------------------------


def import_tidy(
    store: Store, path: Path, task: str, language: str = "zh", images: Path | None = None, author: str = "import"
) -> int:
    """Take in the questions of one file of the released schema for verification; returns how many are new.

    Pictures are decoded and kept like uploads. Questions that are there already, by their content, are left as they
    are, so a second import adds nothing.

    Raises:
        InputError: the file or a picture is not as it should be; nothing of the file is taken in then.
    """
    from data.foodieqa import read_file

    path = Path(path)
    report = read_file(path, task, language, images)
    raw = json.loads(path.read_text(encoding="utf-8-sig"))
    payloads = []
    for question in report.questions:
        photos = [_keep(store, Path(image), f"{path}: row {question.row}") for image in question.images]
        source = {"file": path.name, "row": question.row, "record_hash": question.record_hash}
        payloads.append(
            {
                "question_id": f"import-{task}-{question.record_hash}",
                "task": task,
                "language": language,
                "photos": photos,
                "question": question.question.strip(),
                "choices": list(question.choices),
                "answer": question.answer,
                "question_type": question.question_type,
                "version": question_version(task, question.question.strip(), question.choices, photos),
                "record": raw[question.row],
                "source": source,
            }
        )
    return _add_questions(store, payloads, author)


def _keep(store: Store, picture: Path, where: str) -> str:
    try:
        with open(picture, "rb") as file:
            return store.keep_photo(file.read(MAX_UPLOAD + 1))[0]
    except OSError as error:
        raise InputError(f"{where}: the picture {picture} cannot be read ({error.strerror}); restore it") from None
    except Refused as refused:
        from annotation.words import message

        raise InputError(f"{where}: the picture {picture}: {message(refused, 'en')}") from None


def _add_questions(store: Store, payloads: Sequence[dict[str, Any]], author: str) -> int:
    added = 0
    for start in range(0, len(payloads), _BATCH):
        part = payloads[start : start + _BATCH]

        def build(state: State, part: Sequence[dict[str, Any]] = part) -> list[Event]:
            fresh = {p["question_id"]: p for p in part if p["question_id"] not in state.questions}
            return [new_event(author, "question", payload) for payload in fresh.values()]

        added += len(store.transact(build))
    return added


def import_ui(store: Store, folder: Path, images: Path) -> int:
    """Pages of the published writing tool (`image_data_<start>_<id>.json`): groups and their questions.

    `images` is the folder of the pictures; the pages name them by absolute paths of another machine, of which the
    longest end that lies in `images` is taken. Empty slots are dropped. Returns how many questions are new.
    """
    payloads = []
    for path, page in _records(folder, "image_data_*.json"):
        names, slots, session = page.get("images"), page.get("image_qa"), page.get("session_id")
        if (
            not isinstance(names, list)
            or len(names) != 4
            or not isinstance(slots, list)
            or not isinstance(session, str)
        ):
            raise InputError(f"{path}: is no page of four images with image_qa and session_id; remove it")
        photos = [_keep(store, _find(images, name, path), str(path)) for name in names]
        for slot, record in enumerate(slots):
            if isinstance(record, dict) and not str(record.get("question") or "").strip():
                continue
            question, choices, answer = _checked(record, f"{path}: question {slot}", "answer", "0123")
            if answer is None:
                raise InputError(f"{path}: question {slot}: has no answer; correct or remove it")
            page_hash = hashlib.sha256(f"{session} {photos}".encode()).hexdigest()[:32]
            tidy = {"question": question, "choices": choices or "", "answer": str(answer)}
            tidy |= {"question_type": str(record.get("question_type") or "other"), "question_id": f"{page_hash}_{slot}"}
            tidy |= {"ann_group": str(record.get("ann_group") or "其他"), "images": [], "question_en": ""}
            payloads.append((f"ui-{session}", _payload("mivqa", tidy, photos, choices, answer, path.name)))
    added = 0
    for author in dict.fromkeys(author for author, _ in payloads):
        added += _add_questions(store, [payload for who, payload in payloads if who == author], author)
    return added


def import_val_ui(store: Store, folder: Path, task: str, images: Path | None = None) -> tuple[int, int]:
    """Answers of the published verification tool (`vqa_<index>_<id>.json`), and the questions they belong to.

    A question is taken from its records where the store does not hold it yet. Two answers of one session to one
    question: the later file counts. Returns how many questions and answers are new.
    """
    with store.reading() as state:  # the same question may have come in as a file of the released schema
        known = {(q["task"], q["version"]): identity for identity, q in state.questions.items()}
    questions: dict[str, dict[str, Any]] = {}
    given: dict[tuple[str, str], dict[str, Any]] = {}
    for record in read_records(folder):
        path = record["source"]
        question, choices, truth = _checked(record, path, "gt", "0123")
        session = record.get("session_id")
        if truth is None or not isinstance(session, str) or not session:
            raise InputError(f"{path}: has no gt or no session_id; is it a record of the verification tool?")
        photos: list[str] = []
        if task != "textqa":
            names = record.get("images")
            names = [names] if isinstance(names, str) else names
            if not isinstance(names, list) or len(names) != (4 if task == "mivqa" else 1):
                raise InputError(f"{path}: names no images of a {task} question; check task")
            if images is None:
                raise InputError(f"{path}: names pictures; give their folder as images=FOLDER")
            photos = [_keep(store, _find(images, name, path), str(path)) for name in names]
        elif len(choices) != 4:
            raise InputError(f"{path}: has no four options; check task")
        payload = _payload(
            task, _tidy_of(record, task, question, choices, truth), photos, choices, truth, Path(path).name
        )
        identity = known.get((task, payload["version"]))
        if identity is None:
            identity = payload["question_id"]
            questions.setdefault(identity, payload)
        version, answer = payload["version"], str(record.get("user-answer") or "").strip()
        rationale = str(record.get("rationale") or "")
        unsure = answer == UNKNOWN or (task != "textqa" and says_unknown(rationale))
        if answer not in ("", *"01234"):
            raise InputError(f"{path}: user-answer is {answer[:20]!r} and must be 0 to 4; correct or remove the file")
        option = int(answer) if answer in tuple("0123") else None
        hops = str(record.get("num_hops") or "")
        given[session, identity] = {
            "question": identity,
            "version": version,
            "order": [0, 1, 2, 3],  # the published tool shuffles nothing
            "shown": "?" if unsure else answer,
            "choice": None if unsure else option,
            "dont_know": unsure,
            "guess": option if unsure else None,
            "rationale": rationale,
            "hops": hops if hops in ("single", "multiple") else "",
            "bad": record.get("bad_q") == "Yes",
            "bad_reason": "",
            "seconds": None,
            "imported": Path(path).name,
        }
    added = _add_questions(store, list(questions.values()), "import")
    new: list[Event] = []

    def build(state: State) -> list[Event]:
        assigned: dict[str, list[str]] = {}
        for (session, question), payload in given.items():
            who = session if session.startswith("val-") else f"val-{session}"
            before = state.answers.get(question, {}).get(who)
            if before is not None and before.payload == payload:
                continue
            new.append(new_event(who, "answer", payload))
            places = assigned.setdefault(question, list(state.assigned.get(question, [])))
            if who not in places:
                places.append(who)
        return [*new, new_event("", "assign", {"assigned": assigned})] if new else []

    store.transact(build)
    return added, len(new)


def _tidy_of(record: Mapping[str, Any], task: str, question: str, choices: list[str], truth: int) -> dict[str, Any]:
    """The question of an answer's record, in the released schema."""
    tidy: dict[str, Any] = {"question": question, "choices": choices or "", "answer": str(truth)}
    tidy |= {"question_type": str(record.get("question_type") or "other")}
    tidy |= {"question_id": str(record.get("question_id") or "")}
    if task == "mivqa":
        return tidy | {"ann_group": str(record.get("ann_group") or "其他"), "images": [], "question_en": ""}
    if task == "sivqa":
        meta = record.get("food_file")
        meta = dict(meta) if isinstance(meta, dict) else {}
        name = str(meta.get("food_name") or "")
        return tidy | {"food_name": name, "food_meta": meta, "question_en": "", "choices_en": []}
    name = str(record.get("food_name") or "")
    return tidy | {"food_name": name, "cuisine_type": str(record.get("cuisine_type") or "")}


def _payload(
    task: str, tidy: dict[str, Any], photos: list[str], choices: list[str], answer: int, file: str
) -> dict[str, Any]:
    version = question_version(task, tidy["question"], choices, photos)
    return {
        "question_id": f"import-{task}-{version}-{tidy['question_id'][-40:]}",
        "task": task,
        "language": "zh",
        "photos": photos,
        "question": tidy["question"],
        "choices": choices,
        "answer": answer,
        "question_type": tidy["question_type"],
        "version": version,
        "record": tidy,
        "source": {"file": file},
    }


def _records(folder: Path, pattern: str) -> Iterator[tuple[Path, dict[str, Any]]]:
    """The JSON objects of a folder in the order of their times of change; bounded, links are not followed."""
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError(f"{folder}: is no folder; give the folder of the tool's records")
    paths = [path for path in folder.rglob(pattern) if path.is_file() and not path.is_symlink()]
    if not 1 <= len(paths) <= MAX_FILES:
        raise InputError(f"{folder}: holds {len(paths):,} files {pattern}; give the folder of the tool's records")
    for path in sorted(paths, key=lambda path: (path.stat().st_mtime_ns, path.name)):
        try:
            with open(path, "rb") as file:
                data = file.read(MAX_RECORD + 1)
            record = json.loads(data.decode("utf-8-sig")) if len(data) <= MAX_RECORD else None
        except (OSError, ValueError, RecursionError):
            record = None
        if not isinstance(record, dict):
            raise InputError(f"{path}: is no JSON record of the tool; remove it")
        yield path, record


def _checked(record: Any, where: str, key: str, allowed: str) -> tuple[str, list[str], int | None]:
    """Question, options (none where the images are the options) and an index of a record of the published tools."""
    if not isinstance(record, dict) or not str(record.get("question") or "").strip():
        raise InputError(f"{where}: has no question; correct or remove it")
    choices = record.get("choices") or []
    if isinstance(choices, str):
        choices = [part.strip() for part in choices.replace("，", ",").split(",")] if choices.strip() else []
    if not isinstance(choices, list) or len(choices) not in (0, 4):
        raise InputError(f"{where}: has other than four options; correct or remove it")
    index = str(record.get(key) if record.get(key) is not None else "").strip()
    if index and index not in tuple(allowed):
        raise InputError(f"{where}: {key} is {index[:20]!r} and must be 0 to 3; correct or remove it")
    return str(record["question"]).strip(), [str(choice) for choice in choices], int(index) if index else None


def _find(root: Path, name: Any, where: Any) -> Path:
    """The picture of a record under `root`: the longest end of its path that is a file there."""
    parts = [part for part in PureWindowsPath(str(name)).parts if part not in ("/", "\\", "..", ".", "")]
    base = Path(root).resolve()
    for start in range(len(parts)):
        found = base.joinpath(*[part.replace(":", "") for part in parts[start:]])
        if found.is_file() and found.resolve().is_relative_to(base):
            return found
    raise InputError(f"{where}: the picture {str(name)[:200]} is not under {root}; give its folder as images=")
