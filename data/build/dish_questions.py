"""Makes questions of FoodieQA's three kinds, in its tidy schema, from the meta-information on dishes.

Li et al. 2024 (EMNLP), sections 3.4.2, 3.5 and appendix A: templates for each question type, the dish named in text
questions and replaced by "the food in the picture" in single-image ones, wrong options from the same field of other
dishes. The paper draws these at random and has people drop the bad questions; here a wrong option is offered only
where the table of relations (`dish_terms`) says that it is wrong. A multi-image question asks which one of four dishes
has a property.

A generated set is never FoodieQA, and says so wherever it is written.
"""

import hashlib
import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import combinations
from pathlib import Path
from typing import Any, Literal

from data.build.dish_terms import FOLDER, Terms, Vocabulary, load_yaml, read_terms
from data.dish_table import FIELDS, Bilingual, DishFacts, normal
from data.errors import InputError
from data.files import atomic_file
from data.records import FOOD_TASKS, LETTERS

VERSION = 1  # raised when the same table, templates and settings give other questions
OPTIONS = 4
_POOL = 5  # so many admissible wrong options are weighed against each other for their lengths
_DIGITS = 8  # of the number in a question's id
_FAR = 1.6  # an option that is so many times as long or as short as the next one gives itself away ...
_FAR_LEAST = {"zh": 3, "en": 8}  # ... where the difference is at least so many characters
_KEYS = {
    "id", "type", "tasks", "ask", "also", "among", "values", "options", "relation", "share", "wrong_share", "own", "zh",
    "en",
}  # fmt: skip
_GENERIC = {
    "a", "an", "the", "of", "in", "on", "at", "to", "by", "with", "and", "or", "from", "for", "its", "it", "is", "as",
    "one", "over", "under", "without", "up", "out", "cuisine", "dish", "dishes", "style", "food", "meat",
}  # fmt: skip

PhotoOf = Callable[[DishFacts], Sequence[str]]
Translate = Callable[[str], str] | Literal["table"] | None

NOTHING_TO_ASK = "nothing_to_ask"
TOO_FEW_DISTRACTORS = "too_few_distractors"
NAME_LEAKS_ANSWER = "name_leaks_answer"
NAME_IN_QUESTION = "name_in_question"
LENGTH_LEAKS_ANSWER = "length_leaks_answer"
ASKED_SELDOM = "asked_seldom"
NO_PHOTO = "no_photo"
REASONS = {
    NOTHING_TO_ASK: "the dish has no value of this field that may be asked",
    TOO_FEW_DISTRACTORS: "fewer than three options, or three dishes, that are surely wrong",
    NAME_LEAKS_ANSWER: "the dish's name, in either language, holds the answer",
    NAME_IN_QUESTION: "the dish's name occurs in a question that must not name it",
    LENGTH_LEAKS_ANSWER: "the right option would be the longest or the shortest by far",
    ASKED_SELDOM: "its value is so common that only a part of its dishes is asked for it (shares in terms.yaml)",
    NO_PHOTO: "the dish has no photo",
}


# --------------------------------------------------------------------------------------------------------- templates


@dataclass(frozen=True)
class Template:
    """One form of a question; the keys are explained in `conf/templates/dishes.yaml`."""

    template_id: str
    question_type: str
    tasks: tuple[str, ...]
    ask: tuple[str, ...]
    zh: str
    en: str
    also: tuple[str, ...] = ()
    among: str | None = None
    values: tuple[Bilingual, ...] = ()
    dish_options: bool = False
    relation: Literal["has", "lacks"] = "has"
    share: float = 1.0
    wrong_share: float = 1.0
    own: bool = False


@dataclass(frozen=True)
class Templates:
    """All templates with the terms that their wrong options are judged by."""

    questions: tuple[Template, ...]  # of text and single-image questions
    multi_image: tuple[Template, ...]
    subject: Bilingual  # stands for the dish in single-image questions
    groups: Mapping[str, str]  # food category -> group of a multi-image question
    terms: Terms


def read_templates(folder: str | Path = FOLDER) -> Templates:
    """Reads `dishes.yaml`, `places.yaml` and `terms.yaml` of a folder.

    Raises:
        InputError: naming file, template and remedy.
    """
    folder = Path(folder)
    terms = read_terms(folder)
    path = folder / "dishes.yaml"
    content = load_yaml(path)
    subject, groups = _bilingual(f"{path}: subject", content.get("subject")), content.get("groups", {})
    if not isinstance(groups, dict):
        raise InputError(f"{path}: groups: must map food categories to groups: correct it")
    lists = [
        tuple(_template(path, item, terms, kind == "multi_image") for item in _entries(str(path), content, kind))
        for kind in ("questions", "multi_image")
    ]
    for identifier, count in Counter(template.template_id for some in lists for template in some).items():
        if count > 1:
            raise InputError(f"{path}: template {identifier}: stands there {count} times: give each its own id")
    groups = {str(category): str(group) for category, group in groups.items()}
    return Templates(lists[0], lists[1], subject, groups, terms)


def _bilingual(where: str, item: Any) -> Bilingual:
    if isinstance(item, dict):
        zh, en = item.get("zh"), item.get("en")
        if isinstance(zh, str) and isinstance(en, str) and zh.strip() and en.strip():
            return Bilingual(zh, en)
    raise InputError(f"{where}: needs zh and en: fill them in")


def _entries(where: str, item: Mapping[str, Any], key: str) -> list[Any]:
    value = item.get(key) or []
    if not isinstance(value, list):
        raise InputError(f"{where}: {key}: must be a list: correct it")
    return value


def _template(path: Path, item: Any, terms: Terms, multi_image: bool) -> Template:
    identifier = item.get("id") if isinstance(item, dict) else None
    where = f"{path}: template {identifier}"
    if not isinstance(item, dict) or not isinstance(identifier, str) or not _KEYS.issuperset(item):
        raise InputError(f"{where}: must be a mapping with an id and no keys but {', '.join(sorted(_KEYS))}")
    if not all(isinstance(item.get(key), str) and item[key].strip() for key in ("type", "zh", "en")):
        raise InputError(f"{where}: needs type, zh and en: fill them in")
    ask, also = (tuple(map(str, _entries(where, item, key))) for key in ("ask", "also"))
    unknown = [name for name in (*ask, *also) if name not in terms.fields or name not in FIELDS]
    if not ask or unknown:
        raise InputError(f"{where}: ask: {unknown[0] if unknown else 'empty'}: name a field that terms.yaml lists")
    if len({terms.fields[name] for name in (*ask, *also)}) > 1:
        raise InputError(f"{where}: ask and also: their fields have different vocabularies: split the template")
    tasks = tuple(_entries(where, item, "tasks")) or (("mivqa",) if multi_image else ("textqa", "sivqa"))
    dish_options = item.get("options", "values") == "dishes"
    if item.get("options", "values") not in ("values", "dishes") or item.get("relation", "has") not in ("has", "lacks"):
        raise InputError(f"{where}: options must be values or dishes, relation has or lacks: correct it")
    known = {"mivqa"} if multi_image else {"textqa", "sivqa"}
    if not known.issuperset(tasks) or (dish_options and tasks != ("textqa",)):
        raise InputError(
            f"{where}: tasks: {', '.join(tasks)}: give textqa and sivqa, with options: dishes textqa alone"
        )
    values = tuple(_bilingual(f"{where}: values", value) for value in _entries(where, item, "values"))
    if not values and (item.get("relation") == "lacks" or dish_options):
        raise InputError(f"{where}: values: name what is lacking, or the value asked for: fill them in")
    placeholder = "" if dish_options else "{value}" if multi_image else "{dish}"
    for language in ("zh", "en"):
        braces = set(re.findall(r"\{[^}]*\}", item[language]))
        fixed = multi_image and bool(item.get("values"))
        if not braces <= {placeholder} or (placeholder and not braces and not fixed):
            raise InputError(f"{where}: {language}: needs {placeholder or 'no placeholder'} and no other: correct it")
    among, shares = item.get("among"), [item.get(key, 1.0) for key in ("share", "wrong_share")]
    if among is not None and among not in terms.of(ask[0]).groups:
        raise InputError(f"{where}: among: {among} is no group of {terms.fields[ask[0]]}: correct it")
    if not all(isinstance(share, int | float) and 0 < share <= 1 for share in shares):
        raise InputError(f"{where}: share and wrong_share: give numbers above 0, at most 1")
    return Template(
        template_id=identifier,
        question_type=item["type"],
        tasks=tasks,
        ask=ask,
        zh=item["zh"],
        en=item["en"],
        also=also,
        among=among,
        values=values,
        dish_options=dish_options,
        relation=item.get("relation", "has"),
        share=float(shares[0]),
        wrong_share=float(shares[1]),
        own=bool(item.get("own", False)),
    )


# ----------------------------------------------------------------------------------------------------------- results


@dataclass(frozen=True)
class Settings:
    """What may be chosen.

    Args:
        seed: of every choice.
        distractors: `random` as published; `near` prefers neighbours of the right option (or dishes of the same kind,
            or cuisine), which are harder; `far` avoids them.
        templates_per_type: so many questions for a dish and question type; None for one of each template.
        multi_image_per_dish: so many multi-image questions have a given dish as their answer, each of another type.
    """

    seed: int = 0
    distractors: Literal["random", "near", "far"] = "random"
    templates_per_type: int | None = 1
    multi_image_per_dish: int = 3

    def __post_init__(self) -> None:
        if self.distractors not in ("random", "near", "far"):
            raise InputError(f"distractors={self.distractors}: is unknown: choose random, near or far")
        if self.templates_per_type is not None and self.templates_per_type < 1:
            raise InputError(f"templates_per_type={self.templates_per_type}: give 1 or more, or null for all")
        if self.multi_image_per_dish < 0:
            raise InputError(f"multi_image_per_dish={self.multi_image_per_dish}: give 0 or more")


@dataclass(frozen=True, slots=True)
class NotAsked:
    """A question that was not made, and why (a key of `REASONS`)."""

    task: str
    dish_name: str
    source_row: int
    template_id: str
    question_type: str
    reason: str


@dataclass(frozen=True)
class GeneratedSet:
    """Questions in the tidy schema, one list for each task, each sorted by the number in the question's id."""

    mivqa: tuple[dict[str, Any], ...]
    sivqa: tuple[dict[str, Any], ...]
    textqa: tuple[dict[str, Any], ...]
    not_asked: tuple[NotAsked, ...]
    settings: Settings
    dishes: int

    def records(self, task: str) -> tuple[dict[str, Any], ...]:
        """The records of one of `FOOD_TASKS`."""
        return {"mivqa": self.mivqa, "sivqa": self.sivqa, "textqa": self.textqa}[task]

    def write(self, folder: str | Path) -> None:
        """Writes `<task>_tidy.json` for each task that has questions, and `REPORT.md`."""
        folder = Path(folder)
        for task in FOOD_TASKS:
            if self.records(task):
                with atomic_file(folder / f"{task}_tidy.json") as partial:
                    text = json.dumps(self.records(task), ensure_ascii=False, indent=1)
                    partial.write_text(text + "\n", encoding="utf-8")
        with atomic_file(folder / "REPORT.md") as partial:
            partial.write_text(self.report(), encoding="utf-8")

    def report(self) -> str:
        """Markdown: how many questions of which type, how they are biased, what was not asked and why."""
        lines = [
            "# Generated questions on Chinese dishes",
            "",
            f"Made by rule from meta-information on {self.dishes} dishes (generator version {VERSION}, seed "
            f"{self.settings.seed}, distractors {self.settings.distractors}). **This is not FoodieQA**: a score on it "
            "says nothing about a score on FoodieQA.",
        ]
        for task in FOOD_TASKS:
            records = self.records(task)
            if not records:
                continue
            lines += [
                "",
                f"## {task}: {len(records)} questions",
                "",
                "| question type | n | not asked |",
                "|---|---|---|",
            ]
            missing = Counter(item.question_type for item in self.not_asked if item.task == task)
            counts = Counter(record["question_type"] for record in records)
            lines += [f"| {kind} | {counts[kind]} | {missing[kind]} |" for kind in sorted(counts | missing)]
            lines += ["", "Answers that do without the question (25 % would be no bias):", ""]
            lines += ["| rule | right, % |", "|---|---|"]
            lines += [f"| {rule} | {value:.1%} |".replace("%", "") for rule, value in biases(records)["rules"].items()]
        lines += ["", "## Not asked", "", "| task | reason | n | meaning |", "|---|---|---|---|"]
        reasons = Counter((item.task, item.reason) for item in self.not_asked)
        lines += [f"| {task} | {reason} | {n} | {REASONS[reason]} |" for (task, reason), n in sorted(reasons.items())]
        return "\n".join(lines) + "\n"


# --------------------------------------------------------------------------------------------------------- generation


def generate(
    dishes: Iterable[DishFacts],
    templates: Templates,
    settings: Settings | None = None,
    photo_of: PhotoOf | None = None,
    translate: Translate = "table",
) -> GeneratedSet:
    """Makes text questions, and single- and multi-image ones where dishes have photos.

    Every choice depends on the seed, the dish, the template and the candidates themselves, never on the order of the
    rows: a dish more leaves all other questions with their ids and answer places, and changes their wrong options only
    where it is drawn as one.

    Args:
        dishes: with different `dish_id`s, as `read_dishes` gives them.
        templates: as `read_templates` gives them.
        settings: by default `Settings()`.
        photo_of: the image names of a dish, relative to the set's folder; empty where it has none. None makes text
            questions only.
        translate: where the English comes from: `table` takes the English of dish table and templates, a function is
            called with a Chinese text (questions and options separately, as the paper did; each text once), None makes
            records without English.

    Raises:
        InputError: an English text that the table lacks; photos shared by two dishes; two dishes of one name.
    """
    maker = _Maker(tuple(dishes), templates, settings or Settings(), photo_of, translate)
    made: dict[str, list[dict[str, Any]]] = {task: [] for task in FOOD_TASKS}
    for dish in maker.dishes:
        made["textqa"] += maker.text_questions(dish)
        if photo_of is not None:
            made["sivqa"] += maker.single_image_questions(dish)
            made["mivqa"] += maker.multi_image_questions(dish)
    for task, prefix in (("textqa", "textqa"), ("sivqa", "vqa"), ("mivqa", "mivqa")):
        made[task] = _numbered(made[task], prefix)
    order = {task: place for place, task in enumerate(FOOD_TASKS)}
    not_asked = sorted(maker.not_asked, key=lambda item: (order[item.task], item.template_id, item.dish_name))
    return GeneratedSet(
        mivqa=tuple(made["mivqa"]),
        sivqa=tuple(made["sivqa"]),
        textqa=tuple(made["textqa"]),
        not_asked=tuple(not_asked),
        settings=maker.settings,
        dishes=len(maker.dishes),
    )


def _digest(*parts: Any) -> int:
    return int.from_bytes(hashlib.sha256("\0".join(map(str, parts)).encode()).digest())


def _numbered(records: list[dict[str, Any]], prefix: str) -> list[dict[str, Any]]:
    """Gives each record the id that its `key` says; a number that is taken already moves on by one."""
    taken: set[int] = set()
    numbered = []
    for record in sorted(records, key=lambda record: record["key"]):
        number = record["key"] % 10**_DIGITS
        while number in taken:
            number = (number + 1) % 10**_DIGITS
        taken.add(number)
        del record["key"]
        record["question_id"] = f"{prefix}-{number}"
        numbered.append((number, record))
    return [record for _, record in sorted(numbered, key=lambda pair: pair[0])]


class _Unfit(Exception):
    """A question that is not asked; the argument is a key of `REASONS`."""


@dataclass
class _English:
    """Where English texts come from; the empty text where there are none."""

    translate: Translate
    cache: dict[str, str] = field(default_factory=dict)

    def of(self, text: Bilingual) -> str:
        if self.translate is None:
            return ""
        if self.translate == "table":
            return text.en
        if text.zh not in self.cache:
            english = self.translate(text.zh)
            if not isinstance(english, str) or not english.strip():
                raise InputError(f"translation of {text.zh!r} is empty: correct the translation function")
            self.cache[text.zh] = " ".join(english.split())
        return self.cache[text.zh]

    def sentence(self, zh: str, en: str) -> str:
        english = self.of(Bilingual(zh, en))
        return english[:1].upper() + english[1:]


class _Maker:
    def __init__(
        self,
        dishes: tuple[DishFacts, ...],
        templates: Templates,
        settings: Settings,
        photo_of: PhotoOf | None,
        translate: Translate,
    ) -> None:
        self.dishes = tuple(sorted(dishes, key=lambda dish: dish.dish_id))
        self.templates, self.settings, self.terms = templates, settings, templates.terms
        self.english = _English(translate)
        self.not_asked: list[NotAsked] = []
        self._held: dict[tuple[str, tuple[str, ...], str], bool | None] = {}
        self._value_lists: dict[str, list[Bilingual]] = {}
        if len({dish.dish_id for dish in self.dishes}) < len(self.dishes):
            raise InputError("dish table: two dishes have one name: keep one row for each dish")
        if translate == "table":
            self._check_english()
        self.photos: dict[str, list[str]] = {}
        if photo_of is not None:
            self.photos = {dish.dish_id: list(dict.fromkeys(photo_of(dish))) for dish in self.dishes}
            for photo, count in Counter(name for names in self.photos.values() for name in names).items():
                if count > 1:
                    raise InputError(f"photo {photo} belongs to {count} dishes: give each dish photos of its own")

    def _check_english(self) -> None:
        used = {name for t in (*self.templates.questions, *self.templates.multi_image) for name in t.ask}
        for dish in self.dishes:
            for name in ("dish_name", *sorted(used)):
                if not all(value.en for value in dish.values(name)):
                    raise InputError(
                        f"dish table, row {dish.row} ({dish.dish_name.zh}), field {name}_en: missing: fill it in, or "
                        "give a translation function, or none for questions without English"
                    )

    def _digest(self, *parts: Any) -> int:
        return _digest(self.settings.seed, *parts)

    def _holds(self, dish: DishFacts, fields: tuple[str, ...], value: str) -> bool | None:
        key = (dish.dish_id, fields, value)
        if key not in self._held:
            self._held[key] = self.terms.holds(dish, fields, value)
        return self._held[key]

    def _drawn(self, share: float, what: str, dish: DishFacts) -> bool:
        """Whether a dish belongs to the part that is drawn by lot for something."""
        return self._digest("share", what, dish.dish_id) % 10**6 < share * 10**6

    # ---- which templates

    def _chosen(self, dish: DishFacts, task: str, rotation: int = 0) -> Iterator[list[Template]]:
        """For each question type, the templates in the order in which they are tried for this dish."""
        by_type: dict[str, list[Template]] = defaultdict(list)
        for template in self.templates.multi_image if task == "mivqa" else self.templates.questions:
            if task in template.tasks and self._drawn(template.share, template.question_type, dish):
                by_type[template.question_type].append(template)
        for templates in by_type.values():
            templates.sort(key=lambda t: self._digest("template", dish.dish_id, t.template_id))
            turn = rotation % len(templates)
            yield templates[turn:] + templates[:turn]

    def _made(self, dish: DishFacts, task: str, photo: str = "", rotation: int = 0) -> list[dict[str, Any]]:
        """The questions of one dish, and photo, on templates of all types."""
        made = []
        for templates in self._chosen(dish, task, rotation):
            count, failures = 0, []
            for template in templates:
                if count == self.settings.templates_per_type:
                    break
                try:
                    made.append(self._question(dish, template, task, photo))
                    count += 1
                except _Unfit as unfit:
                    failures.append((template, str(unfit)))
            wanted = len(templates) if self.settings.templates_per_type is None else self.settings.templates_per_type
            for template, reason in failures[: max(0, wanted - count)]:
                self._note(task, dish, template, reason)
        return made

    def _note(self, task: str, dish: DishFacts, template: Template, reason: str) -> None:
        self.not_asked.append(
            NotAsked(task, dish.dish_name.zh, dish.row, template.template_id, template.question_type, reason)
        )

    def text_questions(self, dish: DishFacts) -> list[dict[str, Any]]:
        return self._made(dish, "textqa")

    def single_image_questions(self, dish: DishFacts) -> list[dict[str, Any]]:
        photos = self.photos[dish.dish_id]
        if not photos:
            for templates in self._chosen(dish, "sivqa"):
                self._note("sivqa", dish, templates[0], NO_PHOTO)
        return [record for turn, photo in enumerate(photos) for record in self._made(dish, "sivqa", photo, turn)]

    # ---- text options

    def _question(self, dish: DishFacts, template: Template, task: str, photo: str) -> dict[str, Any]:
        find = self._dish_options if template.dish_options else self._value_options
        name, options = find(dish, template, task)
        subject = self.templates.subject if task == "sivqa" else dish.dish_name
        zh = template.zh.replace("{dish}", subject.zh)
        en = self.english.sentence(zh, template.en.replace("{dish}", subject.en))
        if task == "sivqa":
            shown = [normal(text) for text in (zh, en, *(t for o in options for t in (o.zh, self.english.of(o))))]
            names = [normal(text) for item in dish.names for text in item if text]
            if any(hidden in text for hidden in names for text in shown):
                raise _Unfit(NAME_IN_QUESTION)
        place = self._digest("place", dish.dish_id, template.template_id) % OPTIONS
        truth, wrong = options[0], sorted(options[1:], key=lambda o: self._digest("order", dish.dish_id, o.zh))
        ordered = [*wrong[:place], truth, *wrong[place:]]
        key = self._digest("id", task, dish.dish_id, template.template_id, photo)
        record: dict[str, Any] = {
            "question": zh,
            "choices": [option.zh for option in ordered],
            "answer": str(place),
            "question_type": template.question_type,
            "food_name": dish.dish_name.zh,
        }
        if task == "textqa":
            record["cuisine_type"] = dish.cuisine_type[0].zh
        record["question_id"] = ""
        if task == "sivqa":
            record["food_meta"] = {
                "main_ingredient": [item.zh for item in dish.main_ingredient],
                "id": _digest("photo", photo) % 10**_DIGITS,
                "food_name": dish.dish_name.zh,
                "food_type": dish.cuisine_type[0].zh,
                "food_location": "",
                "food_file": photo,
            }
        if en:
            record |= {"question_en": en, "choices_en": [self.english.of(option) for option in ordered]}
        return record | {"generator": self._generator(dish, template, name), "key": key}

    def _generator(self, dish: DishFacts, template: Template, name: str) -> dict[str, Any]:
        return {
            "version": VERSION,
            "seed": self.settings.seed,
            "template_id": template.template_id,
            "field": name,
            "source_row": dish.row,
            "distractors": self.settings.distractors,
        }

    def _value_options(self, dish: DishFacts, template: Template, task: str) -> tuple[str, list[Bilingual]]:
        """The field asked, and four options, the right one first."""
        asked = [(name, value) for name in template.ask for value in self._askable(dish, name, template)]
        asked.sort(key=lambda pair: self._digest("value", dish.dish_id, template.template_id, *pair[1]))
        reason = NOTHING_TO_ASK
        for name, truth in asked:
            words = self.terms.of(name)
            if not self._drawn(words.asked_share(truth.zh), truth.zh, dish):
                reason = ASKED_SELDOM
                continue
            if task == "textqa" and self._told_by(dish, words, truth):
                reason = NAME_LEAKS_ANSWER
                continue
            try:
                return name, self._with_wrong_values(dish, template, name, truth)
            except _Unfit as unfit:
                reason = str(unfit)
        raise _Unfit(reason)

    def _askable(self, dish: DishFacts, name: str, template: Template) -> list[Bilingual]:
        words = self.terms.of(name)
        return [
            value
            for value in dish.values(name)
            if words.may_be_asked(value.zh, template.among)
            and (not template.values or any(words.is_same(value.zh, wanted.zh) for wanted in template.values))
        ]

    def _told_by(self, dish: DishFacts, words: Vocabulary, value: Bilingual) -> bool:
        """Whether a dish's name, in either language, gives a value away."""
        name = normal(dish.dish_name.zh)
        if any(word in name for word in words.tells(value.zh)):
            return True
        return not _stems(self.english.of(value)).isdisjoint(_stems(self.english.of(dish.dish_name)))

    def _with_wrong_values(self, dish: DishFacts, template: Template, name: str, truth: Bilingual) -> list[Bilingual]:
        words = self.terms.of(name)
        fields = (*template.ask, *template.also)
        found: dict[str, Bilingual] = {}
        for other in self._others(dish, template):
            candidates = self._askable(other, name, template)
            if not candidates:
                continue
            # One value of each dish: an option is offered about as often as it is right.
            draw = self._digest("pick", dish.dish_id, template.template_id, other.dish_id)
            candidate = candidates[draw % len(candidates)]
            if (
                words.key(candidate.zh) not in found
                and self._holds(dish, fields, candidate.zh) is False
                and not self._told_by(dish, words, candidate)
            ):
                found[words.key(candidate.zh)] = candidate
        wrong = list(found.values())
        return self._best(dish, template, truth, self._pools(wrong, lambda item: words.is_near(item.zh, truth.zh)))

    def _others(self, dish: DishFacts, template: Template) -> list[DishFacts]:
        others = [other for other in self.dishes if other.dish_id != dish.dish_id]
        others.sort(key=lambda other: self._digest("other", dish.dish_id, template.template_id, other.dish_id))
        return others

    def _pools(self, items: list[Any], is_near: Callable[[Any], bool]) -> list[list[Any]]:
        """Pools of wrong options by falling preference; the last one is everything."""
        mode = self.settings.distractors
        if mode == "random":
            return [items]
        first = [item for item in items if is_near(item) == (mode == "near")]
        return [first, first + [item for item in items if item not in first]]

    def _dish_options(self, dish: DishFacts, template: Template, task: str) -> tuple[str, list[Bilingual]]:
        """The field asked, and four dishes by name, the right one first: it has the value, the others do not."""
        name = template.ask[0]
        words = self.terms.of(name)
        wanted = [value for value in template.values if self._holds(dish, template.ask, value.zh)]
        if not wanted:
            raise _Unfit(NOTHING_TO_ASK)

        def told(other: DishFacts) -> bool:
            return any(self._told_by(other, words, value) for value in self._all_values(name))

        if told(dish):
            raise _Unfit(NAME_LEAKS_ANSWER)
        wrong = [
            other
            for other in self._others(dish, template)
            if self._holds(other, template.ask, wanted[0].zh) is False and not told(other)
        ]
        drawn = [other for other in wrong if self._drawn(template.wrong_share, template.question_type, other)]
        pools = [*self._pools(drawn, lambda other: _alike(dish, other)), wrong]
        pools = [[other.dish_name for other in pool] for pool in pools]
        return name, self._best(dish, template, dish.dish_name, pools, lengths=False)

    def _all_values(self, name: str) -> list[Bilingual]:
        if name not in self._value_lists:
            self._value_lists[name] = sorted({value for dish in self.dishes for value in dish.values(name)})
        return self._value_lists[name]

    def _best(
        self, dish: DishFacts, template: Template, truth: Bilingual, pools: list[list[Bilingual]], lengths: bool = True
    ) -> list[Bilingual]:
        """The right option and three wrong ones of the first pool that holds three which go together.

        Among the first of a pool those are taken that bring the length of the right option nearest to a place drawn
        by lot among the four, in both languages, so that neither "the longest" nor "the shortest" is a good guess.
        Names of dishes (`lengths` false) are of any length.
        """
        targets = [self._digest("length", language, dish.dish_id, template.template_id) % OPTIONS for language in "ze"]
        reason = TOO_FEW_DISTRACTORS
        for pool in pools:
            first, found = self._compatible(truth, pool), []
            for wrong in combinations(first, OPTIONS - 1):
                options = [truth, *wrong]
                shown = self._shown(options)
                if any(_inside_another(texts) for texts in shown):
                    continue
                if not lengths:
                    return options
                sizes = [[len(text) for text in texts] for texts in shown]
                if any(_far(row, language) for row, language in zip(sizes, ("zh", "en"), strict=False)):
                    reason = LENGTH_LEAKS_ANSWER
                    continue
                found.append((sum(abs(_rank(row) - t) for row, t in zip(sizes, targets, strict=False)), options))
            if found:
                return min(found, key=lambda pair: pair[0])[1]
        raise _Unfit(reason)

    def _compatible(self, truth: Bilingual, pool: list[Bilingual]) -> list[Bilingual]:
        """The first of a pool of which each may stand beside the right option and beside two more."""
        fit = [option for option in pool if not any(_inside_another(texts) for texts in self._shown([truth, option]))]
        for option in fit[: _POOL - 2]:
            beside = [o for o in fit if o != option and not any(map(_inside_another, self._shown([option, o])))]
            if len(beside) < OPTIONS - 2:
                fit.remove(option)
        return fit[:_POOL]

    def _shown(self, options: Sequence[Bilingual]) -> list[list[str]]:
        """The options' texts in Chinese and, where there is any, English."""
        texts = [[option.zh for option in options], [self.english.of(option) for option in options]]
        return texts if texts[1][0] else texts[:1]

    # ---- image options

    def multi_image_questions(self, dish: DishFacts) -> list[dict[str, Any]]:
        """Questions of different types that have a dish as their answer."""
        if not self.photos[dish.dish_id]:
            return []
        kinds = sorted(
            self._chosen(dish, "mivqa"), key=lambda ts: self._digest("type", dish.dish_id, ts[0].question_type)
        )
        made: list[dict[str, Any]] = []
        for templates in kinds:
            if len(made) == self.settings.multi_image_per_dish:
                break
            failures = []
            for template in templates:
                try:
                    made.append(self._image_question(dish, template))
                    break
                except _Unfit as unfit:
                    failures.append((template, str(unfit)))
            else:
                self._note("mivqa", dish, *failures[0])
        return made

    def _image_question(self, dish: DishFacts, template: Template) -> dict[str, Any]:
        value, wrong = self._wrong_dishes(dish, template)
        place = self._digest("place", dish.dish_id, template.template_id) % OPTIONS
        wrong = sorted(wrong, key=lambda other: self._digest("order", dish.dish_id, other.dish_id))
        four = [*wrong[:place], dish, *wrong[place:]]
        images = []
        for shown in four:
            photos = self.photos[shown.dish_id]
            draw = self._digest("photo", dish.dish_id, template.template_id, shown.dish_id)
            images.append(photos[draw % len(photos)])
        zh = template.zh.replace("{value}", value.zh)
        en = self.english.sentence(zh, template.en.replace("{value}", value.en))
        generator = self._generator(dish, template, "+".join(template.ask))
        return {
            "question": zh,
            "choices": "",
            "answer": str(place),
            "question_type": template.question_type,
            "question_id": "",
            "ann_group": self._group(four),
            "images": images,
            **({"question_en": en} if en else {}),
            "generator": generator | {"relation": template.relation, "value": value.zh},
            "key": self._digest("id", "mivqa", dish.dish_id, template.template_id),
        }

    def _wrong_dishes(self, dish: DishFacts, template: Template) -> tuple[Bilingual, list[DishFacts]]:
        """The value asked for, and three dishes of which the opposite holds for sure."""
        fields, has = (*template.ask, *template.also), template.relation == "has"
        values = list(template.values)
        if not values:
            values = [value for name in template.ask for value in self._askable(dish, name, template)]
        values = [value for value in values if self._holds(dish, fields, value.zh) is has]
        if not values:
            raise _Unfit(NOTHING_TO_ASK)
        values.sort(key=lambda value: self._digest("value", dish.dish_id, template.template_id, *value))
        others = [other for other in self._others(dish, template) if self.photos[other.dish_id]]
        for value in values:
            wrong = [other for other in others if self._holds(other, fields, value.zh) is (not has)]
            if len(wrong) >= OPTIONS - 1:
                return value, self._pools(wrong, lambda other: _alike(dish, other))[-1][: OPTIONS - 1]
        raise _Unfit(TOO_FEW_DISTRACTORS)

    def _group(self, dishes: Sequence[DishFacts]) -> str:
        """The food category that four dishes share, else their cuisine, else 其他."""
        groups = {self.templates.groups.get(dish.food_category.zh, dish.dish_id) for dish in dishes}
        if len(groups) == 1:
            return groups.pop()
        cuisines = set.intersection(*({value.zh for value in dish.cuisine_type} for dish in dishes))
        return min(cuisines).removesuffix("菜") if cuisines else "其他"


def _alike(one: DishFacts, other: DishFacts) -> bool:
    return one.food_category == other.food_category or not set(one.cuisine_type).isdisjoint(other.cuisine_type)


@lru_cache(maxsize=1 << 14)
def _stems(text: str) -> frozenset[str]:
    """The words of an English text that carry meaning, without their endings."""
    stems = set()
    for word in re.findall(r"[a-z]+", text.casefold().replace("'", "")):
        if word in _GENERIC:
            continue
        for ending, instead in (("ied", "y"), ("ies", "y"), ("ing", ""), ("ed", ""), ("es", ""), ("s", ""), ("e", "")):
            if word.endswith(ending) and len(word) - len(ending) >= 3:
                word = word.removesuffix(ending) + instead
                break
        stems.add(word.removesuffix("e"))
    return frozenset(stems)


def _inside_another(texts: Sequence[str]) -> bool:
    plain = [normal(text) for text in texts]
    return any(one in other or other in one for one, other in combinations(plain, 2))


def _rank(lengths: Sequence[int]) -> float:
    """How many of the others are shorter than the first; those of equal length count half."""
    first, rest = lengths[0], lengths[1:]
    return sum(length < first for length in rest) + sum(length == first for length in rest) / 2


def _far(lengths: Sequence[int], language: str) -> bool:
    first, rest, least = lengths[0], lengths[1:], _FAR_LEAST[language]
    longest = first > _FAR * max(rest) and first - max(rest) >= least
    return longest or (first * _FAR < min(rest) and min(rest) - first >= least)


# -------------------------------------------------------------------------------------------------------------- biases


def biases(records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What share of the questions of one task is answered without reading them; 0.25 is no bias.

    Returns:
        `n`; `positions`: right answers at each of the four places; `rules`: the accuracy of "always A" to "always D",
        of the longest and the shortest option (characters, Chinese and English), and of the option that in the other
        half of the questions (every second one) is offered most often, offered least often, right most often: a text
        among the questions of its type, a picture among all. Counting in the other half keeps a question from telling
        on itself. A rule that leaves several options counts the chance to draw the right one.
    """
    positions = [0] * OPTIONS
    rules: dict[str, list[float]] = defaultdict(list)
    offered: dict[tuple[int, str], Counter[str]] = defaultdict(Counter)
    right: dict[tuple[int, str], Counter[str]] = defaultdict(Counter)
    shown = []
    for row, record in enumerate(records):
        pictures = not record["choices"]
        options = list(record["images"] if pictures else record["choices"])
        half = (row % 2, "" if pictures else record["question_type"])
        plain = list(map(normal, options))
        shown.append((half, options, plain))
        positions[int(record["answer"])] += 1
        offered[half].update(plain)
        right[half][plain[int(record["answer"])]] += 1
    for record, ((half, kind), options, plain) in zip(records, shown, strict=True):
        answer, elsewhere = int(record["answer"]), (1 - half, kind)
        for place, letter in enumerate(LETTERS):
            rules[f"always {letter}"].append(float(place == answer))
        if record["choices"]:
            for language, texts in (("zh", options), ("en", record.get("choices_en"))):
                if texts:
                    rules[f"longest option, {language}"].append(_chance([len(text) for text in texts], answer))
                    rules[f"shortest option, {language}"].append(_chance([-len(text) for text in texts], answer))
        counts = [offered[elsewhere][option] for option in plain]
        rules["option offered most often elsewhere"].append(_chance(counts, answer))
        rules["option offered least often elsewhere"].append(_chance([-count for count in counts], answer))
        counts = [right[elsewhere][option] for option in plain]
        rules["option right most often elsewhere"].append(_chance(counts, answer))
    return {
        "n": len(shown),
        "positions": positions,
        "rules": {rule: sum(values) / len(values) for rule, values in rules.items()},
    }


def _chance(scores: Sequence[float], answer: int) -> float:
    best = max(scores)
    return 1 / scores.count(best) if scores[answer] == best else 0.0
