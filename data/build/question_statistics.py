"""What a set of multiple-choice questions and its recipes are made of, counted as the RecipeQA paper counts its own.

Yagcioglu et al. 2018 (EMNLP), section 2.3. For any set of the schema: RecipeQA itself, or one built from other recipes.
"""

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from data.errors import InputError
from data.recipeqa import SPLITS, data_report, twins
from data.records import TASKS, Question, SourceRecipe, Step
from data.text import tokenise

Row = dict[str, Any]
Records = Sequence[Mapping[str, Any]] | Sequence[Question]

# Kendall distances 1 to 6 of a uniform wrong order of four to the right one, of 23.
ORDERS_AT_DISTANCE = (3, 5, 6, 5, 3, 1)
SHOWN_HUBS = 10
SHOWN_QIDS = 20
NO_CATEGORY = "(none given)"

# What a recipe is measured by, and the width of the bars it is drawn with.
SIZES = {
    "steps": 1,
    "title_tokens": 5,
    "description_tokens": 50,
    "images": 2,
    "title_tokens_per_step": 1,
    "description_tokens_per_step": 10,
    "images_per_step": 1,
}


# ---- records ---------------------------------------------------------------------------------------------------------


def as_questions(records: Records) -> list[Question]:
    """Records of the released schema, as `build_questions` makes them, as `Question`; what is one already stays.

    Files from outside are read and checked by `data.recipeqa.read_questions`.
    """
    contexts: dict[tuple[Step, ...], tuple[Step, ...]] = {}  # several questions stand on one recipe
    return [r if isinstance(r, Question) else _question(r, contexts) for r in records]


def _question(record: Mapping[str, Any], contexts: dict[tuple[Step, ...], tuple[Step, ...]]) -> Question:
    textual = record["task"] == "textual_cloze"
    context = tuple(
        Step(s["body"], images=tuple(s["images"])) if textual else Step(s["body"], title=s["title"])
        for s in record["context"]
    )
    return Question(
        qid=record["qid"],
        recipe_id=record["recipe_id"],
        task=record["task"],
        split=record["split"],
        context=contexts.setdefault(context, context),
        question=tuple(record["question"]),
        choices=tuple((c,) if isinstance(c, str) else tuple(c) for c in record["choice_list"]),
        answer=record["answer"],
    )


def by_split(questions: Mapping[str, Records]) -> dict[str, list[Question]]:
    """The questions of every split that has some, in the order train, val, test.

    Raises:
        InputError: another split, or no question at all.
    """
    if unknown := [split for split in questions if split not in SPLITS]:
        raise InputError(f"split {unknown[0]!r} is unknown; name the splits {', '.join(SPLITS)}")
    found = {split: as_questions(questions[split]) for split in SPLITS if questions.get(split)}
    if not found:
        raise InputError("there are no questions to describe; build some, or give a file that holds some")
    return found


@lru_cache(maxsize=1)
def published_dataset() -> Row:
    """What is known of RecipeQA itself, with trust: `conf/published/recipeqa_dataset.yaml`. Not to be changed."""
    from omegaconf import OmegaConf

    path = Path(__file__).resolve().parents[2] / "conf" / "published" / "recipeqa_dataset.yaml"
    return OmegaConf.to_container(OmegaConf.load(path))  # type: ignore[return-value]


# ---- recipes ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RecipeSize:
    """How large one recipe is. None where it is not known: titles hidden in every question, images in every one."""

    steps: int
    title_tokens: int | None
    description_tokens: int
    images: int | None
    category: str

    def value(self, key: str) -> float | None:
        """One of `SIZES`."""
        total = getattr(self, key.removesuffix("_per_step"))
        return total / self.steps if key.endswith("_per_step") and total is not None and self.steps else total


def size_of(recipe: SourceRecipe) -> RecipeSize:
    """Size of a whole recipe; its titles are unknown where no step has one."""
    titles = [len(tokenise(step.title)) for step in recipe.steps if step.title.strip()]
    return RecipeSize(
        steps=len(recipe.steps),
        title_tokens=sum(titles) if titles else None,
        description_tokens=sum(len(tokenise(step.body)) for step in recipe.steps),
        images=sum(len(step.images) for step in recipe.steps),
        category=recipe.category.strip() or NO_CATEGORY,
    )


def sizes_of_questions(questions: Iterable[Question]) -> dict[str, RecipeSize]:
    """Recipe id -> the size that its questions tell, for a set that comes without its recipes.

    Bodies are in every context, images in those of textual cloze, titles in those of the visual tasks. Of several
    contexts of one recipe the longest counts: one that asks for a body lacks that step.
    """
    textual: dict[str, tuple[Step, ...]] = {}
    visual: dict[str, tuple[Step, ...]] = {}
    for question in questions:
        seen = textual if question.task == "textual_cloze" else visual
        if len(question.context) > len(seen.get(question.recipe_id, ())):
            seen[question.recipe_id] = question.context
    sizes = {}
    for recipe_id in sorted({*textual, *visual}):
        with_images, with_titles = textual.get(recipe_id), visual.get(recipe_id)
        context = max(with_images or (), with_titles or (), key=len)
        sizes[recipe_id] = RecipeSize(
            steps=len(context),
            title_tokens=sum(len(tokenise(s.title or "")) for s in with_titles) if with_titles else None,
            description_tokens=sum(len(tokenise(s.body)) for s in context),
            images=sum(len(s.images or ()) for s in with_images) if with_images else None,
            category=NO_CATEGORY,
        )
    return sizes


def recipe_statistics(questions: Mapping[str, Sequence[Question]], recipes: Iterable[SourceRecipe] | None) -> Row:
    """Sizes and categories of the recipes: of `all`, and of those that have questions in each split.

    Args:
        questions: split -> questions.
        recipes: all recipes that the questions were made of, in any order; each is looked at once. None: what the
            questions themselves tell.

    Returns:
        `all` and split -> `n`, `without_question` (of `all` only), `sizes` (key of `SIZES` -> spread, None where
        nothing is known), `categories` (-> recipes, most frequent first).

    Raises:
        InputError: two recipes with one id, or a question whose recipe is not there.
    """
    asked = {split: {q.recipe_id for q in own} for split, own in questions.items()}
    if recipes is None:
        sizes = sizes_of_questions(itertools.chain(*questions.values()))
    else:
        sizes = {}
        for recipe in recipes:
            if recipe.recipe_id in sizes:
                raise InputError(f"recipe {recipe.recipe_id} occurs twice; give every recipe an id of its own")
            sizes[recipe.recipe_id] = size_of(recipe)
        if missing := sorted(set().union(*asked.values()) - sizes.keys()):
            raise InputError(
                f"recipe {missing[0]} has questions and is not among the {len(sizes):,} recipes"
                f" ({len(missing):,} such); give the recipes that the questions were made of"
            )
    found = {"all": _recipes_row(list(sizes.values()))}
    found["all"]["without_question"] = len(sizes.keys() - set().union(*asked.values()))
    found |= {split: _recipes_row([sizes[name] for name in sorted(ids)]) for split, ids in asked.items()}
    return found


def _recipes_row(sizes: Sequence[RecipeSize]) -> Row:
    spreads: Row = {}
    for key, width in SIZES.items():
        known = [value for size in sizes if (value := size.value(key)) is not None]
        spreads[key] = spread(known, width) if known else None
    return {"n": len(sizes), "sizes": spreads, "categories": _counts(size.category for size in sizes)}


def spread(values: Sequence[float], width: float = 1) -> Row:
    """`n`, `mean`, `sd`, `min`, `median`, `p95`, `max`, and a histogram: [start of a bar of `width`, values in it]."""
    array = np.sort(np.asarray(values, np.float64))  # sums in one order, whatever the order of the recipes
    bars = Counter(math.floor(value / width) for value in array.tolist())
    return {
        "n": len(array),
        "mean": float(array.mean()),
        "sd": float(array.std()),
        "min": float(array[0]),
        "median": float(np.median(array)),
        "p95": float(np.percentile(array, 95)),
        "max": float(array[-1]),
        "width": width,
        "histogram": [[bar * width, bars[bar]] for bar in sorted(bars)],
    }


def _counts(values: Iterable[str]) -> dict[str, int]:
    """Most frequent first, equals by name."""
    return dict(sorted(Counter(values).items(), key=lambda pair: (-pair[1], pair[0])))


# ---- questions -------------------------------------------------------------------------------------------------------


def question_statistics(questions: Mapping[str, Sequence[Question]]) -> Row:
    """Counts, lengths and defects of the questions, as split -> task -> numbers; plain values that JSON can hold.

    Each has `n`, `recipes`, `answers` (right ones at position 0 to 3), `recipes_by_questions`, `steps` and
    `context_words` (spreads; words are cut at white space), `empty_bodies` ([such steps, all steps]) and `defects`.
    Textual cloze has `images`, `images_per_step` (spreads), `steps_without_image`, `right_choice_words`,
    `wrong_choice_words` (spreads), `one_word_choices`; the visual tasks have `empty_titles`. All but ordering have
    `hubs`, ordering has `orders`.
    """
    return {
        split: {task: _task_statistics(asked, task) for task in TASKS if (asked := [q for q in own if q.task == task])}
        for split, own in questions.items()
    }


def _task_statistics(questions: Sequence[Question], task: str) -> Row:
    report = data_report(questions)["tasks"][task]
    steps = sum(len(q.context) for q in questions)
    row: Row = {
        "n": len(questions),
        "recipes": report["recipes"],
        "answers": report["answers"],
        "recipes_by_questions": report["recipes_by_questions"],
        "steps": spread([len(q.context) for q in questions]),
        "context_words": spread([sum(len(s.body.split()) for s in q.context) for q in questions], 50),
        "empty_bodies": [report["empty_bodies"], steps],
        "defects": _defects(report, questions),
    }
    if task == "textual_cloze":
        images = [[len(s.images or ()) for s in q.context] for q in questions]
        right = [len(q.choices[q.answer][0].split()) for q in questions]
        wrong = [len(text.split()) for q in questions for text in wrong_contents(q)]
        row |= {
            "images": spread([sum(counts) for counts in images]),
            "images_per_step": spread(list(itertools.chain(*images))),
            "steps_without_image": [report["steps_without_image"], steps],
            "right_choice_words": spread(right),
            "wrong_choice_words": spread(wrong),
            "one_word_choices": [sum(n == 1 for n in right + wrong), len(right + wrong)],
        }
    else:
        row["empty_titles"] = [report["empty_titles"], steps]
    if task == "visual_ordering":
        row["orders"] = order_statistics(questions)
    else:
        row["hubs"] = hub_statistics(questions)
    return row


def _defects(report: Row, questions: Sequence[Question]) -> Row:
    """Known defects of the released set: counts, and lists of qids as {n, qids} (the first of them)."""
    keys = ("twins", "equal_distractors", "empty_choice", "short_choices", "short_right_choices")
    found: Row = {key: report[key] for key in (*keys, "repeated_permutation", "repeated_image") if key in report}
    if questions[0].task == "textual_cloze":
        found["alike"] = [q.qid for q in questions if _reads_alike(q)]
    return {
        key: {"n": len(value), "qids": value[:SHOWN_QIDS]} if isinstance(value, list) else value
        for key, value in found.items()
    }


def _reads_alike(question: Question) -> bool:
    """Whether a wrong choice is the right one but for case, punctuation and spaces; more than `twins` are."""
    right = tokenise(question.choices[question.answer][0], split_case_joins=False)
    others = (tokenise(text, split_case_joins=False) for text in wrong_contents(question))
    return any(twins(question)) or (bool(right) and right in others)


def wrong_contents(question: Question) -> list[str]:
    """Texts or image names that are offered and wrong; in visual coherence that is the right choice, the intruder."""
    wrong = question.task != "visual_coherence"
    return [choice[0] for i, choice in enumerate(question.choices) if (i != question.answer) == wrong]


def hub_statistics(questions: Sequence[Question]) -> Row:
    """How often one content is offered as a wrong one: near everything are few texts, and they give answers away.

    Returns:
        `offered` wrong contents, `distinct` of them, `most` ([content, times wrong, times right] of the most used),
        `times` ([times, contents that are offered so often]). Texts are compared without outer white space.
    """
    wrong = Counter(content.strip() for q in questions for content in wrong_contents(q))
    right = Counter(q.choices[q.answer][0].strip() for q in questions if q.task != "visual_coherence")
    most = sorted(wrong.items(), key=lambda pair: (-pair[1], pair[0]))[:SHOWN_HUBS]
    times = Counter(wrong.values())
    return {
        "offered": wrong.total(),
        "distinct": len(wrong),
        "most": [[content, n, right[content]] for content, n in most],
        "times": [[n, times[n]] for n in sorted(times)],
    }


def order_statistics(questions: Sequence[Question]) -> Row:
    """Wrong orders of visual ordering: `kendall` (counts at distance 1 to 6 from the right order), and `repeated`.

    Three distinct wrong orders, or three uniform ones with replacement, are at these distances in the shares
    `ORDERS_AT_DISTANCE` of 23. `repeated`: [questions that offer a wrong order twice, questions].
    """
    kendall = [0] * 6
    repeated = 0
    for question in questions:
        right = question.choices[question.answer]
        wrong = [choice for i, choice in enumerate(question.choices) if i != question.answer]
        repeated += len(set(wrong)) < len(wrong)
        for order in wrong:
            distance = kendall_distance(order, right)
            if 1 <= distance <= 6:  # 0: the right order stands twice, a defect of its own
                kendall[distance - 1] += 1
    return {"kendall": kendall, "repeated": [repeated, len(questions)]}


def kendall_distance(order: Sequence[str], right: Sequence[str]) -> int:
    """Number of pairs that stand the other way round; both hold the same different names."""
    place = {name: i for i, name in enumerate(right)}
    return sum(place[a] > place[b] for a, b in itertools.combinations(order, 2))
