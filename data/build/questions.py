"""Makes multiple-choice questions of the four tasks, in the released schema, from whole recipes.

Yagcioglu et al. 2018 (EMNLP), sections 2.2 and 3: every question stands on four steps in increasing order and has one
right and three wrong choices. A rule (`Distractors`) proposes wrong choices for each question; the builder takes those
that are admissible, within the limits that are set. `random_distractors` and `collection_distractors` are the paper's
simplest forms, `data.build.question_set` has the adaptive neighbourhood.
"""

import hashlib
import itertools
import json
import math
import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from data.build.assignment import assign
from data.errors import InputError
from data.files import atomic_file
from data.records import (
    ORDERING_SENTENCE,
    PLACEHOLDER,
    QUESTION_TEXT,
    TASK_NUMBERS,
    TASKS,
    SourceRecipe,
    SourceStep,
)

SPLITS = ("train", "val", "test")
TEXT_FIELDS = ("title", "body", "both")
RULES = ("random", "collection")
HubLimit = int | str | None
BALANCED_HUBS = "balanced"
REACH = 100  # candidates of a question that are looked at where wrong choices are limited or matched
BODY_QUESTION_TEXT = "Choose the best text for the missing blank to correctly complete the recipe."


@dataclass(frozen=True, slots=True)
class Asked:
    """One question before it has its wrong choices."""

    recipe: SourceRecipe
    split: str
    task: str
    serial: int  # counts the questions of this recipe and task; part of the random seed
    steps: tuple[int, int, int, int]  # increasing 0-based indices into the whole recipe
    position: int  # which of the four is asked (cloze) or replaced (coherence); 0 in ordering
    elements: tuple[str, ...]  # the four texts or image names

    @property
    def content(self) -> str:
        """The text or image name that is asked or replaced."""
        return self.elements[self.position]


Candidate = tuple[str, str]  # recipe id, text or image name


@dataclass(frozen=True, slots=True)
class Offer:
    """Candidates of one question by falling preference: those a rule stands for, and those it falls back on."""

    near: Sequence[Candidate]
    far: Iterable[Candidate] = ()


# A distractor rule is handed all questions of a task that may lend each other their contents, and the seed. For each
# question, in the same order, it gives candidates by falling preference. The builder takes the first three (one in
# coherence) that are admissible, so a rule need not check for equal contents.
Distractors = Callable[[Sequence[Asked], int], Iterable[Iterable[Candidate] | Offer]]


def random_distractors(asked: Sequence[Asked], seed: int) -> Iterator[Iterator[Candidate]]:
    """Draws wrong choices uniformly among the right choices of the other questions, each equally often.

    Independent draws make the right choice the rarest of the four (in the released validation set the least frequent
    choice is right in 47.7 %), and a pool of all steps gives it away by its length. Here the questions are put on
    three rings, each ordered by a hash, and a question takes the content of its successor on each ring: every content
    is offered as a wrong choice exactly as often as three times it is the right one, and a new recipe changes the
    questions of its neighbours on the rings only.
    """
    rings = []
    for ring in range(3):
        keys = [_digest(seed, ring, item.task, item.recipe.recipe_id, item.serial) for item in asked]
        order = sorted(range(len(asked)), key=keys.__getitem__)
        place = [0] * len(asked)
        for position, item in enumerate(order):
            place[item] = position
        rings.append((order, place))

    def candidates(item: int) -> Iterator[Candidate]:
        for distance in range(1, len(asked)):
            for order, place in rings:
                other = asked[order[(place[item] + distance) % len(asked)]]
                yield other.recipe.recipe_id, other.content

    return (candidates(item) for item in range(len(asked)))


def collection_distractors(plan: "Plan", asked_only: bool = False) -> Distractors:
    """Draws wrong choices uniformly among all steps (or images) of the other recipes of the split or collection.

    A text that stands in many steps is drawn as often. `asked_only` draws among the right choices of the other
    questions.
    """

    def rule(asked: Sequence[Asked], seed: int) -> Iterator[Iterator[Candidate]]:
        pool = lenders(plan, asked, asked_only)
        return (draws(item, pool, seed) for item in asked)

    return rule


def draws(item: Asked, pool: Sequence[Candidate], seed: int) -> Iterator[Candidate]:
    """The whole pool in an order of the question's own, made no further than it is read."""
    generator = _generator(seed, "draws", item.recipe.recipe_id, item.task, item.serial)
    seen: set[int] = set()
    while 2 * len(seen) < len(pool):
        place = generator.randrange(len(pool))
        if place not in seen:
            seen.add(place)
            yield pool[place]
    rest = [place for place in range(len(pool)) if place not in seen]
    generator.shuffle(rest)
    yield from (pool[place] for place in rest)


@dataclass(frozen=True)
class Plan:
    """Recipes with their splits and what is asked of them, before any wrong choice is chosen."""

    kept: list[tuple[SourceRecipe, str]]  # in the order of a hash
    asked: dict[str, list[Asked]]  # by task
    text_field: str
    same_split: bool
    seed: int
    key: Callable[[str, str], Hashable]  # (task, text or image name) -> what makes two of them the same
    introductions: Mapping[str, Sequence[str]]  # recipe id -> images of its dropped first step
    report: Counter[str] = field(default_factory=Counter)

    def groups(self, task: str) -> list[list[Asked]]:
        """The questions of a task that may lend each other their contents: those of a split, or all."""
        asked = self.asked[task]
        if not self.same_split:
            return [asked] if asked else []
        return [group for split in SPLITS if (group := [item for item in asked if item.split == split])]


def lenders(plan: Plan, asked: Sequence[Asked], asked_only: bool) -> list[Candidate]:
    """What the questions of a group may be lent: the contents of all steps, or the right choices; in a fixed order."""
    if asked_only:
        return [(item.recipe.recipe_id, item.content) for item in asked]
    splits = {item.split for item in asked} if plan.same_split else set(SPLITS)
    pool: list[Candidate] = []
    for recipe, split in plan.kept:
        if split in splits:
            textual = asked[0].task == "textual_cloze"
            contents = [content for step in recipe.steps for content in _contents(step, textual, plan.text_field)]
            if not textual:
                contents += plan.introductions.get(recipe.recipe_id, ())
            pool += [(recipe.recipe_id, content) for content in contents]
    return pool


def build_questions(
    recipes: Iterable[SourceRecipe],
    tasks: Sequence[str] = ("textual_cloze",),
    *,
    distractors: str | Distractors = "random",
    hub_limit: HubLimit = None,
    length_matched: bool = False,
    **choices: Any,
) -> tuple[dict[str, list[dict[str, Any]]], dict[str, Any]]:
    """Builds the questions of every split and a report of what was kept and left out.

    Nothing depends on the order of `recipes`. A recipe's split is a hash of its id; its steps and positions come from
    a generator seeded with (seed, recipe id, task, serial), so other recipes reach its questions only as wrong choices.

    Args:
        recipes: whole recipes with different ids.
        tasks: any of `data.records.TASKS`.
        distractors: `random`, `collection`, or a rule.
        hub_limit: see `complete_questions`.
        length_matched: see `complete_questions`.
        choices: see `plan_questions`.

    Returns:
        {split: records of the released schema, by task, then by a hash of the qid}, and counts by rule.

    Raises:
        InputError: a setting that does not fit, or two recipes with one id.
    """
    if isinstance(distractors, str) and distractors not in RULES:
        raise InputError(f"distractors={distractors}: unknown rule; choose one of {', '.join(RULES)}")
    plan = plan_questions(recipes, tasks, **choices)
    if isinstance(distractors, str):
        distractors = random_distractors if distractors == "random" else collection_distractors(plan)
    return complete_questions(plan, distractors, hub_limit=hub_limit, length_matched=length_matched)


def plan_questions(
    recipes: Iterable[SourceRecipe],
    tasks: Sequence[str] = TASKS,
    *,
    same_split: bool = True,
    questions_per_recipe: int = 1,
    text_field: str = "title",
    seed: int = 1234,
    fractions: Sequence[float] = (0.8, 0.1, 0.1),
    split_salt: str = "food-understanding",
    min_steps: int = 3,
    max_steps: int = 25,
    max_text_repeats: int | None = 2,
    max_shared_steps: float = 0.5,
    content_key: Callable[[str], Hashable] | None = None,
    introductions: Mapping[str, Sequence[str]] | None = None,
) -> Plan:
    """Chooses recipes, splits, and the steps and positions of all questions.

    Args:
        recipes: whole recipes with different ids.
        tasks: any of `data.records.TASKS`.
        same_split: wrong choices come from the split of the question only, so that no text or image of the test split
            is seen in training. The released set draws from its whole collection: False.
        questions_per_recipe: at most so many for a recipe and task, on different sets of four steps.
        text_field: what textual cloze asks for: the `title` of a step, its `body`, or `both`, title and body in two
            lines. With the latter two the asked step leaves the context and its place is not marked; the ids of the
            others stay 1-based and gapless.
        seed: of every random choice but the split.
        fractions: of train, val and test.
        split_salt: another salt gives another split.
        min_steps: shorter recipes are left out (the paper: 3; a question needs 4 usable steps anyhow).
        max_steps: longer recipes are left out (the paper: 25).
        max_text_repeats: a text that stands in more recipes than this ("Serve hot.") is never asked for; numbers do
            not count, so that all forms of "Preheat the oven to 180 °C" are one text. None: every text is asked for.
        max_shared_steps: a recipe that has more than this fraction of its longer steps in common with a recipe of
            another split is left out.
        content_key: key of an image name; images with equal keys look alike. They are never offered side by side.
        introductions: recipe id -> images of its dropped first step, which may be wrong choices but are never right.

    Raises:
        InputError: a setting that does not fit, or two recipes with one id.
    """
    _check_settings(tasks, questions_per_recipe, text_field, fractions, min_steps, max_steps)
    image_key = content_key or (lambda name: name)

    def key(task: str, content: str) -> Hashable:
        return _text_key(content) if task == "textual_cloze" else image_key(content)

    report = Counter[str]()
    kept = _kept_recipes(recipes, report, split_salt, fractions, min_steps, max_steps, max_shared_steps)
    asked: dict[str, list[Asked]] = {}
    plan = Plan(kept, asked, text_field, same_split, seed, key, introductions or {}, report)
    repeats = _text_repeats(kept, text_field) if max_text_repeats is not None else Counter[str]()
    for task in (task for task in TASKS if task in tasks):
        asked[task] = []
        for recipe, split in kept:
            asked[task] += _ask(plan, recipe, split, task, questions_per_recipe, repeats, max_text_repeats or 0)
    return plan


def complete_questions(
    plan: Plan, rule: Distractors, *, hub_limit: HubLimit = None, length_matched: bool = False
) -> tuple[dict[str, list[dict[str, Any]]], dict[str, Any]]:
    """Gives the planned questions their wrong choices.

    Args:
        plan: of `plan_questions`.
        rule: proposes wrong choices; not asked for visual ordering.
        hub_limit: a text or image is at most so many times a wrong choice among the questions of a task (and of a
            split, where wrong choices stay in it). `balanced`: at most three times as often as it is the right choice
            (in coherence, with one wrong image, once), so that how often it is offered tells nothing. Who gets it is a
            matter of hashes and not of order. None: no limit.
        length_matched: of the wrong choices in textual cloze so many are shorter than the right one that it is
            equally often the shortest, second, third and longest, as far as the candidates allow.

    Returns:
        {split: records of the released schema, by task, then by a hash of the qid}, and counts by rule.

    Raises:
        InputError: a limit below 1.
    """
    if hub_limit not in (None, BALANCED_HUBS) and (not isinstance(hub_limit, int) or hub_limit < 1):
        raise InputError(f"hub_limit={hub_limit}: must be at least 1, {BALANCED_HUBS}, or null for no limit")
    report = Counter(plan.report)
    numbers = _recipe_numbers(plan.kept)
    questions: dict[str, list[dict[str, Any]]] = {split: [] for split in SPLITS}
    for task in plan.asked:
        for group in plan.groups(task):
            if task == "visual_ordering":
                chosen: Iterable[list[str]] = ([] for _ in group)
            elif hub_limit is None and not (length_matched and task == "textual_cloze"):
                chosen = _first_choices(plan, group, rule, report)
            else:
                chosen = _limited_choices(plan, group, rule, hub_limit, length_matched, report)
            for item, wrong in zip(group, chosen, strict=True):
                if len(wrong) < _WANTED[task]:
                    report[f"{task}: no admissible wrong choices"] += 1
                else:
                    questions[item.split].append(
                        _record(item, wrong, numbers[item.recipe.recipe_id], plan.text_field, plan.seed)
                    )
    for records in questions.values():
        records.sort(key=lambda record: (TASK_NUMBERS[record["task"]], _digest(plan.seed, "order", record["qid"])))
    counts = {
        task: {split: sum(record["task"] == task for record in questions[split]) for split in SPLITS}
        for task in plan.asked
    }
    recipe_counts = Counter(split for _, split in plan.kept)
    return questions, {
        "questions": counts,
        "recipes": {split: recipe_counts[split] for split in SPLITS},
        "rules": dict(sorted(report.items())),
    }


# ---- wrong choices ---------------------------------------------------------------------------------------------------

_WANTED = {"textual_cloze": 3, "visual_cloze": 3, "visual_coherence": 1, "visual_ordering": 0}
_FAR = "wrong choices from outside the neighbourhood"


def own_keys(plan: Plan, item: Asked) -> set[Hashable]:
    """Keys of the texts, or images, of the question's own recipe; none of them may be a wrong choice."""
    if item.task == "textual_cloze":
        own = [_text(step, plan.text_field) for step in item.recipe.steps]
    else:
        own = [image for step in item.recipe.steps for image in step.images]
        own += plan.introductions.get(item.recipe.recipe_id, ())
    return {plan.key(item.task, content) for content in [*own, *item.elements]}


def _admissible(
    plan: Plan, item: Asked, candidates: Iterable[Candidate], taken: set[Hashable]
) -> Iterator[tuple[Hashable, str]]:
    """(key, content) of the candidates of other recipes that are neither empty nor equal to a taken one or another."""
    for recipe_id, content in candidates:
        if recipe_id != item.recipe.recipe_id and content.strip():
            key = plan.key(item.task, content)
            if key and key not in taken:
                taken.add(key)
                yield key, content


def _offers(
    plan: Plan, group: Sequence[Asked], rule: Distractors
) -> Iterator[tuple[Asked, Iterator[tuple[Hashable, str]], Iterator[tuple[Hashable, str]]]]:
    """Each question with its admissible candidates, near and far; the far ones are to be read after the near ones."""
    for item, offer in zip(group, rule(group, plan.seed), strict=True):
        near, far = (offer.near, offer.far) if isinstance(offer, Offer) else (offer, ())
        taken = own_keys(plan, item)
        yield item, _admissible(plan, item, near, taken), _admissible(plan, item, far, taken)


def _first_choices(plan: Plan, group: Sequence[Asked], rule: Distractors, report: Counter[str]) -> Iterator[list[str]]:
    """The first admissible candidates of each question."""
    for item, near, far in _offers(plan, group, rule):
        inside = list(itertools.islice(near, _WANTED[item.task]))
        outside = list(itertools.islice(far, _WANTED[item.task] - len(inside)))
        if outside:
            report[f"{item.task}: {_FAR}"] += len(outside)
        yield [content for _, content in (*inside, *outside)]


def _limited_choices(
    plan: Plan, group: Sequence[Asked], rule: Distractors, limit: HubLimit, matched: bool, report: Counter[str]
) -> Iterator[list[str]]:
    """As many candidates of each question as it needs, none given out more often than its limit.

    First a stable assignment of the near ones, on both sides of the right choice's length where lengths are matched.
    Then whoever has not enough takes, in the order of a hash, what is left of its near and far ones; who still has not
    gives all of it back.
    """
    task = group[0].task
    wanted, matched = _WANTED[task], matched and task == "textual_cloze"
    right = Counter(plan.key(task, item.content) for item in group)
    offers = list(_offers(plan, group, rule))
    near = [dict(itertools.islice(offer, REACH)) for _, offer, _ in offers]  # key -> content, best first
    order = [_digest(plan.seed, "order", item.recipe.recipe_id, task, item.serial) for item in group]

    def capacity(key: Hashable) -> float:
        return math.inf if limit is None else wanted * right[key] if limit == BALANCED_HUBS else int(limit)

    def claim(place: int, key: Hashable) -> int:
        return int.from_bytes(_digest("claim", key, order[place])[:16])

    if matched:
        sides: list[tuple[list[Hashable], list[Hashable]]] = []  # shorter and longer candidates
        for item, hashed, pairs in zip(group, order, near, strict=True):
            sides.append(([], []))
            # Those of equal length come last: with them two choices share a rank.
            for key, content in sorted(pairs.items(), key=lambda pair: len(pair[1]) == len(item.content)):
                sides[-1][not _shorter(item, hashed, key, content)].append(key)
        ranks = _length_ranks([(len(shorter), len(longer)) for shorter, longer in sides], order)
        quotas = [quota for rank in ranks for quota in (rank, wanted - rank)]
        halves = assign(quotas, list(itertools.chain(*sides)), capacity, lambda half, key: claim(half // 2, key))
        held = [halves[place] + halves[place + 1] for place in range(0, len(halves), 2)]
    else:
        ranks: list[int] = []
        held = assign([wanted] * len(group), near, capacity, claim)
    uses = Counter[Hashable](itertools.chain(*held))

    chosen = [{key: near[place][key] for key in keys} for place, keys in enumerate(held)]
    for place in sorted(range(len(group)), key=order.__getitem__):
        own, (_, rest, far) = chosen[place], offers[place]
        offers[place] = group[place], iter(()), iter(())  # what was read goes
        if len(own) < wanted:
            inside = ((key, content, False) for key, content in itertools.chain(near[place].items(), rest))
            free = (
                candidate
                for candidate in itertools.chain(inside, ((key, content, True) for key, content in far))
                if candidate[0] not in own and uses[candidate[0]] < capacity(candidate[0])
            )
            side = partial(_shorter, group[place], order[place])
            shorter = ranks[place] - sum(side(key, content) for key, content in own.items()) if matched else None
            for key, content, is_far in _top_up(wanted - len(own), shorter, free, side):
                own[key] = content
                uses[key] += 1
                report[f"{task}: {_FAR}"] += is_far
        if len(own) < wanted:
            uses.subtract(own.keys())
            own.clear()
    yield from (list(contents.values()) for contents in chosen)


def _top_up(
    missing: int,
    shorter: int | None,
    candidates: Iterator[tuple[Hashable, str, bool]],
    is_shorter: Callable[[Hashable, str], bool],
) -> list[tuple[Hashable, str, bool]]:
    """The first candidates of which so many are shorter (None: any); of the wrong length where that takes too long."""
    taken: list[tuple[Hashable, str, bool]] = []
    spare: list[tuple[Hashable, str, bool]] = []
    room = {True: shorter or 0, False: missing - (shorter or 0)}
    while len(taken) < missing and len(spare) < REACH and (candidate := next(candidates, None)) is not None:
        side = shorter is not None and is_shorter(*candidate[:2])
        if room[side]:
            room[side] -= 1
            taken.append(candidate)
        else:
            spare.append(candidate)
    return taken + spare[: missing - len(taken)]


def _shorter(item: Asked, order: bytes, key: Hashable, content: str) -> bool:
    """Whether a candidate is shorter than the right choice; a hash decides on equal lengths."""
    difference = len(content) - len(item.content)
    return difference < 0 or (difference == 0 and _digest("side", key, order)[0] % 2 == 0)


def _length_ranks(sides: Sequence[tuple[int, int]], order: Sequence[bytes]) -> list[int]:
    """How many of three wrong choices shall be shorter, for each question: 0 to 3, each equally often if possible.

    `sides` are numbers of shorter and longer candidates. Questions that leave the least choice come first, so that
    the others make up for them.
    """
    possible = [[r for r in range(4) if r <= less and 3 - r <= more] or [min(3, less)] for less, more in sides]
    ranks, counts = [0] * len(sides), [0] * 4
    for place in sorted(range(len(sides)), key=lambda place: (len(possible[place]), order[place])):
        first = order[place][-1] % 4
        ranks[place] = min(possible[place], key=lambda r: (counts[r], (r - first) % 4))
        counts[ranks[place]] += 1
    return ranks


def write_questions(questions: Mapping[str, Sequence[Mapping[str, Any]]], folder: str | Path) -> dict[str, Path]:
    """Writes `{train,val,test}.json`, each in one piece or not at all; returns the paths."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    paths = {}
    for split, records in questions.items():
        paths[split] = folder / f"{split}.json"
        with atomic_file(paths[split]) as partial, open(partial, "w", encoding="utf-8") as file:
            json.dump({"data": list(records)}, file, ensure_ascii=False)
    return paths


def split_of(recipe_id: str, fractions: Sequence[float], salt: str = "food-understanding") -> str:
    """The split of a recipe: a salted hash of its id as a number in [0, 1), cut at the cumulated fractions."""
    value = int.from_bytes(_digest("split", salt, recipe_id)[:6]) / 2**48 * sum(fractions)
    bounds = list(itertools.accumulate(fractions))
    return next((split for split, bound in zip(SPLITS, bounds, strict=True) if value < bound), SPLITS[-1])


def _digest(*parts: object) -> bytes:
    return hashlib.sha256("\x1f".join(map(str, parts)).encode()).digest()


def _generator(*parts: object) -> random.Random:
    return random.Random(int.from_bytes(_digest(*parts)))


@lru_cache(1 << 17)
def _text_key(text: str) -> str:
    """The text without case, punctuation and numbers: what two texts share that nobody could tell apart."""
    return " ".join(re.findall(r"[^\W\d_]+", text.lower()))


def _check_settings(
    tasks: Sequence[str],
    questions_per_recipe: int,
    text_field: str,
    fractions: Sequence[float],
    min_steps: int,
    max_steps: int,
) -> None:
    if unknown := [task for task in tasks if task not in TASKS]:
        raise InputError(f"tasks={unknown[0]}: unknown task; choose from {', '.join(TASKS)}")
    if text_field not in TEXT_FIELDS:
        raise InputError(f"text_field={text_field}: must be one of {', '.join(TEXT_FIELDS)}")
    if questions_per_recipe < 1:
        raise InputError(f"questions_per_recipe={questions_per_recipe}: must be at least 1")
    if len(fractions) != 3 or min(fractions) < 0 or not math.isclose(sum(fractions), 1):
        raise InputError(f"fractions={tuple(fractions)}: must be three numbers of at least 0 with sum 1")
    if not 0 <= min_steps <= max_steps:
        raise InputError(f"min_steps={min_steps}, max_steps={max_steps}: must be increasing and not negative")


def _kept_recipes(
    recipes: Iterable[SourceRecipe],
    report: Counter[str],
    salt: str,
    fractions: Sequence[float],
    min_steps: int,
    max_steps: int,
    max_shared_steps: float,
) -> list[tuple[SourceRecipe, str]]:
    """Recipes of fitting length with their splits, without copies; in the order of a hash, not of the file."""
    ordered = sorted(recipes, key=lambda recipe: _digest("recipe", recipe.recipe_id))
    for first, second in itertools.pairwise(ordered):
        if first.recipe_id == second.recipe_id:
            raise InputError(f"recipe_id {first.recipe_id} occurs twice; give every recipe an id of its own")
    report["recipes read"] = len(ordered)
    kept: list[tuple[SourceRecipe, str]] = []
    seen: set[tuple[str, ...]] = set()
    holders: defaultdict[str, list[int]] = defaultdict(list)  # long step text -> rows of `kept`
    for recipe in ordered:
        texts = tuple(_text_key(f"{step.title} {step.body}") for step in recipe.steps)
        long_texts = sorted({text for text in texts if len(text) > 30})
        split = split_of(recipe.recipe_id, fractions, salt)
        shared = Counter(row for text in long_texts for row in holders[text] if kept[row][1] != split)
        if not min_steps <= len(recipe.steps) <= max_steps:
            report["recipes left out: number of steps"] += 1
        elif any(texts) and texts in seen:
            report["recipes left out: same steps as another recipe"] += 1
        elif shared and max(shared.values()) > max_shared_steps * len(long_texts):
            report["recipes left out: too many steps shared with another split"] += 1
        else:
            seen.add(texts)
            for text in long_texts:
                holders[text].append(len(kept))
            kept.append((recipe, split))
    return kept


def _recipe_numbers(kept: Sequence[tuple[SourceRecipe, str]]) -> dict[str, int]:
    """A number of up to ten digits for each recipe: a hash of its id, moved on where two fall together."""
    numbers: dict[str, int] = {}
    taken: set[int] = set()
    for recipe, _ in kept:
        number = int.from_bytes(_digest("number", recipe.recipe_id)[:8]) % 10**10
        while number in taken:
            number += 1
        taken.add(number)
        numbers[recipe.recipe_id] = number
    return numbers


def _text(step: SourceStep, text_field: str) -> str:
    """What textual cloze asks of a step; of `both` nothing where one is empty, as the form would give it away."""
    title, body = step.title.strip(), step.body.strip()
    if text_field == "both":
        return f"{title}\n{body}" if _text_key(title) and _text_key(body) else ""
    return title if text_field == "title" else body


def _contents(step: SourceStep, textual: bool, text_field: str) -> list[str]:
    """The texts or images of a step that a question may ask for or be lent."""
    if not textual:
        return list(step.images)
    text = _text(step, text_field)
    return [text] if text and _text_key(text) else []


def _text_repeats(kept: Sequence[tuple[SourceRecipe, str]], text_field: str) -> Counter[str]:
    """In how many recipes a text stands."""
    return Counter(
        key for recipe, _ in kept for key in sorted({_text_key(_text(step, text_field)) for step in recipe.steps})
    )


def _ask(
    plan: Plan,
    recipe: SourceRecipe,
    split: str,
    task: str,
    questions_per_recipe: int,
    repeats: Mapping[str, int],
    max_text_repeats: int,
) -> list[Asked]:
    """Chooses the steps, images and positions of a recipe's questions; no text of `repeats` above the limit."""
    textual, report, seed = task == "textual_cloze", plan.report, plan.seed
    contents = [_contents(step, textual, plan.text_field) for step in recipe.steps]
    usable = [index for index, content in enumerate(contents) if content]
    if len(usable) < 4:
        report[f"{task}: recipes with fewer than 4 usable steps"] += 1
        return []
    askable = usable
    if textual:
        keys = [_text_key(content[0]) if content else "" for content in contents]
        within = Counter(keys)
        askable = []
        for index in usable:
            if within[keys[index]] > 1:
                report["textual_cloze: steps not asked, text occurs again in its recipe"] += 1
            elif repeats.get(keys[index], 0) > max_text_repeats:
                report["textual_cloze: steps not asked, text stands in many recipes"] += 1
            else:
                askable.append(index)
        if not askable:
            report["textual_cloze: recipes without a step to ask"] += 1
            return []
    asked: list[Asked] = []
    taken: set[tuple[int, ...]] = set()
    first = _generator(seed, "asked steps", recipe.recipe_id, task).sample(askable, len(askable))
    for serial in range(min(questions_per_recipe, math.comb(len(usable), 4))):
        generator = _generator(seed, recipe.recipe_id, task, serial)
        step = first[serial % len(first)]  # questions of one recipe ask for different steps as long as there are some
        for _ in range(20):
            others = generator.sample([index for index in usable if index != step], 3)
            a, b, c, d = sorted([step, *others])
            steps = (a, b, c, d)
            elements = tuple(generator.choice(contents[index]) for index in steps)
            if steps not in taken and (textual or len({plan.key(task, element) for element in elements}) == 4):
                taken.add(steps)
                position = steps.index(step) if task != "visual_ordering" else 0
                asked.append(Asked(recipe, split, task, serial, steps, position, elements))
                break
        else:
            report[f"{task}: questions left out, no further four steps that differ"] += 1
    return asked


def _record(item: Asked, wrong: list[str], number: int, text_field: str, seed: int) -> dict[str, Any]:
    """The question in the released schema."""
    textual = item.task == "textual_cloze"
    generator = _generator(seed, "choices", item.recipe.recipe_id, item.task, item.serial)
    question: list[str] = list(item.elements)
    answer = generator.randrange(4)
    if item.task == "visual_ordering":
        question = [ORDERING_SENTENCE]
        right = tuple(item.elements)
        orders = [order for order in itertools.permutations(right) if order != right]
        choices: list[Any] = [list(order) for order in generator.sample(orders, 3)]
        choices.insert(answer, list(right))
    elif item.task == "visual_coherence":
        answer = item.position
        question[answer] = wrong[0]
        choices = list(question)
    else:
        question[item.position] = PLACEHOLDER
        choices = generator.sample(wrong, 3)
        choices.insert(answer, item.content)

    hidden = item.steps[item.position] if textual and text_field != "title" else None
    context: list[dict[str, Any]] = []
    for index, step in enumerate(item.recipe.steps):
        if index == hidden:
            continue
        entry: dict[str, Any] = {"body": step.body, "id": len(context) + 1, "videos": []}
        entry |= {"images": list(step.images)} if textual else {"title": step.title}
        context.append(entry)
    return {
        "recipe_id": item.recipe.recipe_id,
        "context_modality": ["body", "images" if textual else "title", "videos"],
        "split": item.split,
        "context": context,
        "choice_list": choices,
        "answer": answer,
        "qid": "-".join(map(str, (TASK_NUMBERS[item.task], number, *item.steps))),
        "question_modality": [*(("title", "body") if text_field == "both" else (text_field,))]
        if textual
        else ["images"],
        "question": question,
        "task": item.task,
        "question_text": BODY_QUESTION_TEXT if hidden is not None else QUESTION_TEXT[item.task],
    }
