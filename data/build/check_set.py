"""Proves of a built set what its builder promises, from the files alone and by other means than the builder's."""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

from data.build.cleaning import near_duplicates
from data.build.question_set import verify
from data.build.questions import SPLITS
from data.recipeqa import question_images, read_questions
from data.records import Question

SIMILAR = 0.6  # of the texts of two recipes: from here on they are near-duplicates, where the cleaning names no bound
MARGIN = 0.05  # questions show a recipe without its titles or one of its bodies: their likeness is not quite the same
LISTED = 20


def check_set(folder: str | Path) -> dict[str, Any]:
    """Report on a folder of `data.build.question_set.build_set`, as plain containers ready for JSON.

    `problems` has one line for each promise that is not kept: checksums; records of the schema; splits without a
    common recipe, question or near-duplicate, and without a common image where wrong choices stay in their split;
    four different choices, none empty; no text more often a wrong choice than the limit.

    InputError where the folder holds no complete set.
    """
    folder = Path(folder)
    manifest = verify(folder)
    settings = manifest["key"]["settings"]
    questions = {split: read_questions(folder / f"{split}.json", split=split)[0] for split in SPLITS}
    problems: list[str] = []
    between: dict[str, Any] = {}
    duplicates = _near_duplicates(questions, (settings["cleaning"]["near_duplicates"] or SIMILAR) + MARGIN)
    for a, b in combinations(SPLITS, 2):
        shared = {
            "recipes": len(_recipes(questions[a]) & _recipes(questions[b])),
            "qids": len({q.qid for q in questions[a]} & {q.qid for q in questions[b]}),
            "images": len(_images(questions[a]) & _images(questions[b])),
            "near_duplicates": [pair for pair in duplicates if pair["splits"] == [a, b]],
        }
        between[f"{a} and {b}"] = {**shared, "near_duplicates": shared["near_duplicates"][:LISTED]}
        for what in ("recipes", "qids", *(["images"] if settings["same_split"] else [])):
            if shared[what]:
                problems.append(f"{folder}: {a} and {b} share {shared[what]:,} {what}; build the set again")
        if shared["near_duplicates"]:
            first = shared["near_duplicates"][0]
            problems.append(
                f"{folder}: {a} and {b} share {len(shared['near_duplicates']):,} near-duplicate recipes (first: "
                f"{' and '.join(first['recipes'])}); remove one of each pair, or clean with near-duplicates out"
            )
    defects, hubs = Counter[str](), dict.fromkeys(settings["tasks"], 0)
    for task in settings["tasks"]:
        groups = [[q for q in questions[split] if q.task == task] for split in SPLITS]
        if not settings["same_split"]:
            groups = [[q for group in groups for q in group]]
        for group in groups:
            for question in group:
                defects.update(f"{task}: {defect}" for defect in _defects(question))
            uses = Counter(choice for question in group for choice in _wrong(question))
            hubs[task] = max(hubs[task], *uses.values(), 0)
    for defect, count in sorted(defects.items()):
        problems.append(f"{folder}: {defect} in {count:,} questions; build the set again")
    for task, most in hubs.items():
        if isinstance(settings["hub_limit"], int) and task != "visual_ordering" and most > settings["hub_limit"]:
            problems.append(
                f"{folder}: {task} offers a wrong choice {most} times; hub_limit is {settings['hub_limit']}"
            )
    return {
        "questions": {split: len(questions[split]) for split in SPLITS},
        "recipes": {split: len(_recipes(questions[split])) for split in SPLITS},
        "between": between,
        "most_frequent_wrong_choice": hubs,
        "defects": dict(sorted(defects.items())),
        "problems": problems,
    }


def _near_duplicates(questions: Mapping[str, Sequence[Question]], threshold: float) -> list[dict[str, Any]]:
    """Pairs of recipes of different splits with texts so similar, the most similar first."""
    texts: dict[tuple[str, str], str] = {}  # the longest that is shown: where a body is asked, one is not
    for split in SPLITS:
        for question in questions[split]:
            text = " ".join(f"{step.title or ''} {step.body}" for step in question.context)
            texts[split, question.recipe_id] = max(texts.get((split, question.recipe_id), ""), text, key=len)
    names = list(texts)
    found = [
        {"recipes": [names[i][1], names[j][1]], "splits": [names[i][0], names[j][0]], "similarity": round(value, 3)}
        for i, j, value in near_duplicates(list(texts.values()), threshold)
        if names[i][0] != names[j][0]
    ]
    return sorted(found, key=lambda pair: (-pair["similarity"], pair["recipes"]))


def _recipes(questions: Sequence[Question]) -> set[str]:
    return {question.recipe_id for question in questions}


def _images(questions: Sequence[Question]) -> set[str]:
    return {name for question in questions for name in question_images(question)}


def _letters(text: str) -> str:
    """The words of a text, without case, numbers and signs."""
    return " ".join(re.findall(r"[^\W\d_]+", text.lower()))


def _wrong(question: Question) -> list[str]:
    """Wrong contents of a question, texts by their letters; in coherence the one image that is out of place."""
    if question.task == "visual_coherence":
        return list(question.choices[question.answer])
    wrong = [choice for place, choice in enumerate(question.choices) if place != question.answer]
    return [_letters(choice[0]) if question.task == "textual_cloze" else "\n".join(choice) for choice in wrong]


def _defects(question: Question) -> list[str]:
    choices = [_letters(c[0]) if question.task == "textual_cloze" else "\n".join(c) for c in question.choices]
    found = []
    if not all(choices):
        found.append("an empty choice")
    if len(set(choices)) < len(choices):
        found.append("two equal choices")
    if question.task == "visual_ordering":
        orders = defaultdict(int)
        for choice in question.choices:
            orders[tuple(sorted(choice))] += 1
        if len(orders) > 1 or len(set(question.choices[0])) < 4:
            found.append("orders that are not of the same four images")
    return found
