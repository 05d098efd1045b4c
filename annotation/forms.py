"""What people send, checked on the server and turned into events: photos, verdicts, dish facts, groups, questions.

Every function takes the store, the settings and the account of who sends, and raises `Refused` with all that is
missing; nothing a browser has checked is trusted. Fields are those of the paper (Li et al. 2024, sections 3.2 to 3.4).
"""

import hashlib
import json
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from omegaconf import DictConfig, OmegaConf

from annotation.facts import check_facts
from annotation.store import Event, Refused, State, Store, name_key, new_event
from data.errors import InputError
from data.records import FOOD_TASKS, LETTERS

MAX_TEXT = 2000  # characters of one field
SLOTS = 3  # question slots of one page
MIN_QUESTIONS = 2  # of a page (paper: two to three)
PHOTOS_AT_ONCE = 8
LEAST_SIDE = 64  # pixels of an uploaded photo
VERDICTS = ("accept", "reject")

Labels = dict[str, dict[str, str]]  # stored value -> language -> shown name


@dataclass(frozen=True, slots=True)
class Settings:
    """What a project of annotation agrees on; read from conf/annotate.yaml. The tables exist only there."""

    language: str  # zh | en: of the sign-in page and of the addresses without a language
    auth: str  # pin | none
    admin: str  # name of the account that sees progress, truth and exports
    verifiers: int  # per question
    blind: bool  # who uploaded or judged a question's photo does not verify it
    active_days: float  # a verifier not seen for so long gives the unanswered share back
    rationale: tuple[str, ...]  # tasks whose answers need a rationale
    hops: tuple[str, ...]  # tasks whose answers need the single/multi-hop judgement
    question_types: Labels
    cuisines: Labels
    categories: Labels
    places: Labels
    rejections: Labels  # reasons to reject a photo


def read_settings(cfg: DictConfig) -> Settings:
    """The settings of a composed config; InputError names the key that is wrong."""
    plain: Any = OmegaConf.to_container(cfg, resolve=True)
    for key, allowed in (("language", ("zh", "en")), ("auth", ("pin", "none"))):
        if plain.get(key) not in allowed:
            raise InputError(f"{key}={plain.get(key)}: is unknown; use {' or '.join(allowed)}")
    for key in ("question_types", "cuisines", "categories", "places", "rejections"):
        table = plain.get(key)
        good = isinstance(table, dict) and len(table) >= 2
        if not good or not all(isinstance(row, dict) and row.get("zh") and row.get("en") for row in table.values()):
            raise InputError(f"{key}: needs two or more values, each with the names zh and en; see conf/annotate.yaml")
        plain[key] = {str(value): {code: str(row[code]) for code in ("zh", "en")} for value, row in table.items()}
    for key in ("rationale", "hops"):
        if not isinstance(plain.get(key), list) or not set(plain[key]) <= set(FOOD_TASKS):
            raise InputError(f"{key}={plain.get(key)}: is a list of tasks out of {', '.join(FOOD_TASKS)}")
        plain[key] = tuple(plain[key])
    if not isinstance(plain.get("verifiers"), int) or not 1 <= plain["verifiers"] <= 10:
        raise InputError(f"verifiers={plain.get('verifiers')}: must be from 1 to 10; the paper has 2")
    if not isinstance(plain.get("active_days"), int | float) or not plain["active_days"] > 0:
        raise InputError(f"active_days={plain.get('active_days')}: must be more than 0 days; 7 is usual")
    if not str(plain.get("admin") or "").strip():
        raise InputError("admin: is empty; give the name of the account that administers, such as admin=admin")
    return Settings(**{name: plain[name] for name in Settings.__dataclass_fields__})


# ---- fields ----------------------------------------------------------------------------------------------------------


class Reading:
    """Fields of one form, checked one after the other; `problems` collects what is wrong with any of them."""

    def __init__(self) -> None:
        self.problems: list[tuple[str, dict[str, Any]]] = []

    def text(self, value: Any, label: str, required: bool = True) -> str:
        text = "" if value is None else str(value).strip()
        text = text.encode("utf-8", "replace").decode()  # lone surrogates of a broken client
        if len(text) > MAX_TEXT:
            self.problems.append(("long", {"label": label, "limit": MAX_TEXT}))
        elif required and not text:
            self.problems.append(("missing", {"label": label}))
        return text

    def one_of(self, value: Any, allowed: Iterable[str], label: str, required: bool = True) -> str:
        if value in (None, "") and not required:
            return ""
        if not isinstance(value, str) or value not in tuple(allowed):  # a tuple: "AB" is a part of "ABCD"
            self.problems.append(("missing", {"label": label}))
            return ""
        return value

    def done(self) -> None:
        if self.problems:
            raise Refused.of(self.problems)


def _mine_or_admin(owner: str, annotator: str, is_admin: bool) -> None:
    if owner != annotator and not is_admin:
        raise Refused("not_yours")


# ---- photos (section 3.2) --------------------------------------------------------------------------------------------


def submit_photos(
    store: Store, settings: Settings, annotator: str, files: Sequence[bytes], fields: Mapping[str, Any]
) -> tuple[list[str], int]:
    """Photos of one dish with cuisine, dish name, place served and consent.

    Returns the ids that are new, and how many of the photos were there before (these stay as they are).
    """
    read = Reading()
    cuisine = read.one_of(fields.get("cuisine"), settings.cuisines, "cuisine")
    other = read.text(fields.get("cuisine_other"), "cuisine_other", required=cuisine == "其他")
    dish = read.text(fields.get("dish_name"), "dish_name")
    place = read.one_of(fields.get("place"), settings.places, "place")
    if not 1 <= len(files) <= PHOTOS_AT_ONCE:
        read.problems.append(("photo_count", {"limit": PHOTOS_AT_ONCE}))
    if fields.get("consent") is not True:
        read.problems.append(("consent", {}))
    read.done()
    kept = [store.keep_photo(data, LEAST_SIDE) for data in files]  # all are decoded before any is recorded
    fresh: list[str] = []
    for identity, width, height in kept:
        payload = {"photo": identity, "width": width, "height": height, "cuisine": cuisine, "cuisine_other": other}
        payload |= {"dish_name": dish, "place": place, "consent": True}

        def unknown(state: State, identity: str = identity) -> None:
            if identity in state.photos and identity not in state.withdrawn:
                raise Refused("photo_known")

        try:
            store.append(annotator, "photo", payload, unknown)
            fresh.append(identity)
        except Refused as refused:
            if refused.key != "photo_known":
                raise
    return fresh, len(kept) - len(fresh)


def withdraw_photo(store: Store, annotator: str, photo: str, is_admin: bool = False) -> None:
    """Take a photo back; its groups and questions no longer count either."""

    def check(state: State) -> None:
        if photo not in state.photos or photo in state.withdrawn:
            raise Refused("gone")
        _mine_or_admin(state.photos[photo]["annotator"], annotator, is_admin)

    store.append(annotator, "withdraw", {"item": photo}, check)


def review_photo(
    store: Store, settings: Settings, annotator: str, photo: str, fields: Mapping[str, Any], is_admin: bool = False
) -> None:
    """Accept a photo into a food category, or reject it for a reason (blurry, off-centre, another dish ...)."""
    read = Reading()
    verdict = read.one_of(fields.get("verdict"), VERDICTS, "verdict")
    category = read.one_of(fields.get("category"), settings.categories, "category", required=verdict == "accept")
    reason = read.one_of(fields.get("reason"), settings.rejections, "reason", required=verdict == "reject")
    note = read.text(fields.get("note"), "note", required=reason == "other" and verdict == "reject")
    read.done()

    def check(state: State) -> None:
        if photo not in state.photos or photo in state.withdrawn:
            raise Refused("gone")
        if state.photos[photo]["annotator"] == annotator and not is_admin:
            raise Refused("own_photo")

    payload = {"photo": photo, "verdict": verdict, "category": category if verdict == "accept" else ""}
    store.append(annotator, "review", {**payload, "reason": reason, "note": note}, check)


# ---- dish facts (section 3.3) ----------------------------------------------------------------------------------------


def save_dish(store: Store, annotator: str, dish: str | None, typed: Mapping[str, str]) -> str:
    """The facts of one dish, new or edited; returns its id.

    What was typed is kept beside the checked row of the table, so that the form shows it again as it was.
    """
    identity = dish or "d" + uuid.uuid4().hex[:12]
    form = f"dish/{dish or 'new'}"

    def build(state: State) -> list[Event]:
        if dish and (dish not in state.dishes or dish in state.withdrawn):
            raise Refused("gone")
        others = [d["facts"] for key, d in state.dishes.items() if key != dish and key not in state.withdrawn]
        payload = {"dish": identity, "typed": dict(typed), "facts": check_facts(typed, others)}
        events = [new_event(annotator, "dish", payload)]
        if (annotator, form) in state.drafts:
            events.append(new_event(annotator, "draft", {"form": form, "fields": {}}))
        return events

    store.transact(build)
    return identity


def withdraw_dish(store: Store, annotator: str, dish: str, is_admin: bool = False) -> None:
    """Take a dish out of the table."""

    def check(state: State) -> None:
        if dish not in state.dishes or dish in state.withdrawn:
            raise Refused("gone")
        _mine_or_admin(state.dishes[dish]["annotator"], annotator, is_admin)

    store.append(annotator, "withdraw", {"item": dish}, check)


# ---- groups (section 3.4.1) ------------------------------------------------------------------------------------------


def ungrouped(state: State, by: str, value: str) -> list[str]:
    """Accepted photos of one cuisine or food category (`by`) that no standing group of that kind holds yet."""
    groups = [state.groups[group] for group in state.live_groups()]
    taken = {photo for group in groups if group["by"] == by for photo in group["photos"]}
    return [p for p in state.live_photos("accept") if p not in taken and photo_value(state, p, by) == value]


def photo_value(state: State, photo: str, by: str) -> str:
    """Cuisine (from the upload) or food category (from the review) of an accepted photo."""
    return state.photos[photo]["cuisine"] if by == "cuisine" else state.reviews[photo].payload["category"]


def make_group(store: Store, annotator: str, by: str, value: str, photos: Sequence[str]) -> str:
    """Four accepted photos of one cuisine or category as the material of one page of questions; returns its id."""
    if by not in ("cuisine", "category"):
        raise Refused("missing", label="group_by")
    if len(photos) != 4 or len(set(photos)) != 4:
        raise Refused("four_photos", count=len(set(photos)))
    identity = "g" + uuid.uuid4().hex[:12]

    def check(state: State) -> None:
        if not set(photos) <= set(ungrouped(state, by, value)):
            raise Refused("photo_taken")

    payload = {"group": identity, "by": by, "value": value, "photos": list(photos)}
    store.append(annotator, "group", payload, check)
    return identity


def split_group(store: Store, annotator: str, group: str, is_admin: bool = False) -> None:
    """Take a group apart again, as long as no question was written for it."""

    def check(state: State) -> None:
        if group not in state.live_groups():
            raise Refused("gone")
        _mine_or_admin(state.groups[group]["annotator"], annotator, is_admin)
        if any(state.questions[q].get("group") == group for q in state.live_questions()):
            raise Refused("group_used")

    store.append(annotator, "withdraw", {"item": group}, check)


# ---- questions -------------------------------------------------------------------------------------------------------


def question_version(task: str, question: str, choices: Sequence[str], images: Sequence[str]) -> str:
    """Digest of what a verifier sees. The right answer is no part of it: correcting it keeps the verifiers' answers."""
    text = json.dumps([task, question, list(choices), list(images)], ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def page_id(group: str, author: str) -> str:
    """32 hexadecimal digits for the page of one author on one group, as in the released ids `<page>_<slot>`."""
    return hashlib.sha256(f"{group} {author}".encode()).hexdigest()[:32]


def is_empty(slot: Mapping[str, Any]) -> bool:
    """Whether nobody has typed anything into a question slot."""
    typed = [slot.get("question"), slot.get("question_en"), *(slot.get("choices") or ())]
    return not any(str(text or "").strip() for text in typed) and not slot.get("answer")


def write_questions(
    store: Store, settings: Settings, annotator: str, group: str, slots: Sequence[Mapping[str, Any]]
) -> list[str]:
    """The page of one author on one group of four photos: two or three questions; returns their ids.

    A slot holds `question`, `question_en` (optional), `kind` (`images`: the photos are the options; `texts`), `choices`
    (four texts), `answer` (a letter), `question_type`. Empty slots are dropped; saving the page again replaces it, and
    a slot emptied since takes its question back.
    """
    read = Reading()
    records: dict[int, dict[str, Any]] = {}
    for number, slot in enumerate(slots[:SLOTS], start=1):
        if is_empty(slot):
            continue
        fields = Reading()
        kind = fields.one_of(slot.get("kind"), ("images", "texts"), "kind")
        record: dict[str, Any] = {
            "question": fields.text(slot.get("question"), "question"),
            "question_en": fields.text(slot.get("question_en"), "question_en", required=False),
            "choices": [],
        }
        if kind == "texts":
            given = list(slot.get("choices") or ())[:4]
            given += [""] * (4 - len(given))
            record["choices"] = [fields.text(text, f"option_{LETTERS[i]}") for i, text in enumerate(given)]
            if len({_comparable(text) for text in record["choices"] if text}) < sum(map(bool, record["choices"])):
                fields.problems.append(("options_equal", {}))
        answer = fields.one_of(slot.get("answer"), LETTERS, "answer")
        record["answer"] = LETTERS.index(answer) if answer else 0
        record["question_type"] = fields.one_of(slot.get("question_type"), settings.question_types, "question_type")
        read.problems += [("in_slot", {"number": number, "reason": problem}) for problem in fields.problems]
        records[number - 1] = record
    if len(records) < MIN_QUESTIONS:
        read.problems.append(("questions_few", {"count": len(records), "least": MIN_QUESTIONS}))
    texts = [_comparable(record["question"]) for record in records.values()]
    if len(set(texts)) < len(texts):
        read.problems.append(("questions_equal", {}))
    read.done()

    page = page_id(group, annotator)

    def build(state: State) -> list[Event]:
        if group not in state.live_groups():
            raise Refused("gone")
        photos, events = state.groups[group]["photos"], []
        for slot in range(SLOTS):
            identity = f"{page}_{slot}"
            if slot in records:
                record = records[slot]
                version = question_version("mivqa", record["question"], record["choices"], photos)
                payload = {"question_id": identity, "task": "mivqa", "language": "zh", "group": group}
                payload |= {"photos": photos, "version": version, **record}
                events.append(new_event(annotator, "question", payload))
            elif identity in state.questions and identity not in state.withdrawn:
                events.append(new_event(annotator, "withdraw", {"item": identity}))
        if (annotator, f"write/{group}") in state.drafts:
            events.append(new_event(annotator, "draft", {"form": f"write/{group}", "fields": {}}))
        return events

    store.transact(build)
    return [f"{page}_{slot}" for slot in records]


def _comparable(text: str) -> str:
    """A text for comparison: the rule of the benchmark's options, strip, NFKC, case folding."""
    return name_key(text)


def withdraw_question(store: Store, annotator: str, question: str, is_admin: bool = False) -> None:
    """Take a question back; its answers stay in the log and no longer count."""

    def check(state: State) -> None:
        if question not in state.live_questions():
            raise Refused("gone")
        _mine_or_admin(state.questions[question]["annotator"], annotator, is_admin)

    store.append(annotator, "withdraw", {"item": question}, check)


def written_page(state: State, group: str, author: str) -> list[dict[str, Any]]:
    """The slots of an author's page as `write_questions` takes them: a draft where there is one, else what was saved.

    Always `SLOTS` of them; empty dicts where nothing was written.
    """
    draft = state.drafts.get((author, f"write/{group}"))
    if draft is not None:
        slots = [dict(slot) for slot in draft.get("slots", [])[:SLOTS]]
        return slots + [{}] * (SLOTS - len(slots))
    return saved_page(state, group, author)


def saved_page(state: State, group: str, author: str) -> list[dict[str, Any]]:
    """The slots of an author's page as they were saved last."""
    page, slots = page_id(group, author), []
    for slot in range(SLOTS):
        record = state.questions.get(f"{page}_{slot}")
        if record is None or f"{page}_{slot}" in state.withdrawn:
            slots.append({})
            continue
        slots.append(
            {
                "question": record["question"],
                "question_en": record["question_en"],
                "kind": "texts" if record["choices"] else "images",
                "choices": record["choices"],
                "answer": LETTERS[record["answer"]],
                "question_type": record["question_type"],
            }
        )
    return slots


def save_draft(
    store: Store,
    annotator: str,
    form: str,
    fields: Mapping[str, Any],
    finished: Callable[[State], bool] = lambda state: False,
) -> bool:
    """Keep a form that is not finished; returns whether there was anything new.

    Where `finished(state)` says that the store holds the same as a saved form, or the mapping is empty, the draft is
    forgotten instead: leaving a field and pressing the button arrive at the same moment, in either order.
    """
    text = json.dumps(fields, ensure_ascii=False)
    if len(form) > 200 or len(text) > 60_000:
        raise Refused("too_long")

    def build(state: State) -> list[Event]:
        kept = {} if finished(state) else json.loads(text)
        if state.drafts.get((annotator, form), {}) == kept:
            return []
        return [new_event(annotator, "draft", {"form": form, "fields": kept})]

    return any(event.payload["fields"] for event in store.transact(build))


def same_slots(one: Sequence[Mapping[str, Any]], other: Sequence[Mapping[str, Any]]) -> bool:
    """Whether two pages of questions say the same, whatever an unused option field or an absent key holds."""

    def plain(slot: Mapping[str, Any]) -> list[Any]:
        texts = slot.get("kind") == "texts"
        choices = [str(text or "").strip() for text in slot.get("choices") or ()] if texts else []
        names = ("question", "question_en", "answer", "question_type")
        return [*(str(slot.get(name) or "").strip() for name in names), *choices, texts]

    return [plain(slot) for slot in one] == [plain(slot) for slot in other]
