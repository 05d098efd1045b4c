"""Makes multiple-choice questions of the four tasks, in the released schema, from whole recipes.

Yagcioglu et al. 2018 (EMNLP), sections 2.2 and 3: every question stands on four steps in increasing order and has one
right and three wrong choices. Wrong choices come from `distractors`, which may be replaced; `random_distractors` is
the paper's simplest form.
"""

import hashlib
import itertools
import json
import math
import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

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


# A distractor rule is handed all questions of a task that may lend each other their contents, and the seed. For each
# question, in the same order, it gives candidates (recipe id, text or image name) by falling preference. The builder
# takes the first three (one in coherence) that are admissible, so a rule need not check for equal contents.
Candidate = tuple[str, str]
Distractors = Callable[[Sequence[Asked], int], Iterable[Iterable[Candidate]]]


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


DISTRACTORS: dict[str, Distractors] = {"random": random_distractors}


def build_questions(
    recipes: Iterable[SourceRecipe],
    tasks: Sequence[str] = ("textual_cloze",),
    *,
    distractors: str | Distractors = "random",
    same_split: bool = True,
    questions_per_recipe: int = 1,
    text_field: Literal["title", "body"] = "title",
    seed: int = 1234,
    fractions: tuple[float, float, float] = (0.8, 0.1, 0.1),
    split_salt: str = "food-understanding",
    min_steps: int = 3,
    max_steps: int = 25,
    max_text_repeats: int = 2,
    max_shared_steps: float = 0.5,
    content_key: Callable[[str], Hashable] | None = None,
) -> tuple[dict[str, list[dict[str, Any]]], dict[str, Any]]:
    """Builds the questions of every split and a report of what was kept and left out.

    Nothing depends on the order of `recipes`. A recipe's split is a hash of its id; its steps and positions come from
    a generator seeded with (seed, recipe id, task, serial), so other recipes reach its questions only as wrong choices.

    Args:
        recipes: whole recipes with different ids.
        tasks: any of `data.records.TASKS`.
        distractors: name of a rule in `DISTRACTORS`, or a rule.
        same_split: wrong choices come from the split of the question only, so that no text or image of the test split
            is seen in training. The released set draws from its whole collection: False.
        questions_per_recipe: at most so many for a recipe and task, on different sets of four steps.
        text_field: what textual cloze asks for. `body` is for recipes without titles: the asked step leaves the
            context and its place is not marked; the ids of the others stay 1-based and gapless.
        seed: of every random choice but the split.
        fractions: of train, val and test.
        split_salt: another salt gives another split.
        min_steps: shorter recipes are left out (the paper: 3; a question needs 4 usable steps anyhow).
        max_steps: longer recipes are left out (the paper: 25).
        max_text_repeats: a text that stands in more recipes than this ("Serve hot.") is never asked for; numbers do
            not count, so that all forms of "Preheat the oven to 180 °C" are one text.
        max_shared_steps: a recipe that has more than this fraction of its longer steps in common with a recipe of
            another split is left out.
        content_key: key of an image name; images with equal keys look alike. They are never offered side by side.

    Returns:
        {split: records of the released schema, by task, then by a hash of the qid}, and counts by rule.

    Raises:
        InputError: a setting that does not fit, or two recipes with one id.
    """
    if isinstance(distractors, str):
        if distractors not in DISTRACTORS:
            raise InputError(f"distractors={distractors}: unknown rule; choose one of {', '.join(DISTRACTORS)}")
        distractors = DISTRACTORS[distractors]
    _check_settings(tasks, questions_per_recipe, text_field, fractions, min_steps, max_steps)
    image_key = content_key or (lambda name: name)

    report = Counter[str]()
    kept = _kept_recipes(recipes, report, split_salt, fractions, min_steps, max_steps, max_shared_steps)
    numbers = _recipe_numbers(kept)
    repeats = _text_repeats(kept, text_field)

    questions: dict[str, list[dict[str, Any]]] = {split: [] for split in SPLITS}
    for task in (task for task in TASKS if task in tasks):
        key = _text_key if task == "textual_cloze" else image_key
        asked: list[Asked] = []
        for recipe, split in kept:
            asked += _ask(
                recipe, split, task, questions_per_recipe, text_field, seed, repeats, max_text_repeats, key, report
            )
        groups = [[item for item in asked if item.split == split] for split in SPLITS] if same_split else [asked]
        for group in groups:
            for item, candidates in zip(group, _candidates(group, task, distractors, seed), strict=True):
                record = _record(item, candidates, numbers[item.recipe.recipe_id], text_field, seed, key)
                if record is None:
                    report[f"{task}: no admissible wrong choices"] += 1
                else:
                    questions[item.split].append(record)
    for records in questions.values():
        records.sort(key=lambda record: (TASK_NUMBERS[record["task"]], _digest(seed, "order", record["qid"])))
    counts = {
        task: {split: sum(record["task"] == task for record in questions[split]) for split in SPLITS} for task in tasks
    }
    recipe_counts = Counter(split for _, split in kept)
    return questions, {
        "questions": counts,
        "recipes": {split: recipe_counts[split] for split in SPLITS},
        "rules": dict(sorted(report.items())),
    }


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
    if text_field not in ("title", "body"):
        raise InputError(f"text_field={text_field}: must be title or body")
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
    return (step.title if text_field == "title" else step.body).strip()


def _text_repeats(kept: Sequence[tuple[SourceRecipe, str]], text_field: str) -> Counter[str]:
    """In how many recipes a text stands."""
    return Counter(
        key for recipe, _ in kept for key in sorted({_text_key(_text(step, text_field)) for step in recipe.steps})
    )


def _ask(
    recipe: SourceRecipe,
    split: str,
    task: str,
    questions_per_recipe: int,
    text_field: str,
    seed: int,
    repeats: Mapping[str, int],
    max_text_repeats: int,
    key: Callable[[str], Hashable],
    report: Counter[str],
) -> list[Asked]:
    """Chooses the steps, images and positions of a recipe's questions."""
    textual = task == "textual_cloze"
    contents = [
        ([text] if (text := _text(step, text_field)) and _text_key(text) else []) if textual else list(step.images)
        for step in recipe.steps
    ]
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
            elif repeats[keys[index]] > max_text_repeats:
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
            if steps not in taken and (textual or len({key(element) for element in elements}) == 4):
                taken.add(steps)
                position = steps.index(step) if task != "visual_ordering" else 0
                asked.append(Asked(recipe, split, task, serial, steps, position, elements))
                break
        else:
            report[f"{task}: questions left out, no further four steps that differ"] += 1
    return asked


def _candidates(
    group: Sequence[Asked], task: str, distractors: Distractors, seed: int
) -> Iterable[Iterable[Candidate]]:
    return distractors(group, seed) if task != "visual_ordering" else [()] * len(group)


def _record(
    item: Asked,
    candidates: Iterable[Candidate],
    number: int,
    text_field: str,
    seed: int,
    key: Callable[[str], Hashable],
) -> dict[str, Any] | None:
    """The question in the released schema; None where the candidates do not suffice."""
    textual = item.task == "textual_cloze"
    own = item.elements if not textual else tuple(_text(step, text_field) for step in item.recipe.steps)
    if not textual:
        own += tuple(image for step in item.recipe.steps for image in step.images)
    excluded = {key(content) for content in own}
    wrong: list[str] = []
    wanted = {"visual_ordering": 0, "visual_coherence": 1}.get(item.task, 3)
    for recipe_id, content in candidates:
        if len(wrong) == wanted:
            break
        content_key = key(content)
        if recipe_id != item.recipe.recipe_id and content.strip() and content_key and content_key not in excluded:
            wrong.append(content)
            excluded.add(content_key)
    if len(wrong) < wanted:
        return None

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

    hidden = item.steps[item.position] if textual and text_field == "body" else None
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
        "question_modality": [text_field] if textual else ["images"],
        "question": question,
        "task": item.task,
        "question_text": BODY_QUESTION_TEXT if hidden is not None else QUESTION_TEXT[item.task],
    }
