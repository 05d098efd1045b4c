"""What gives the answers of a set away: rules that understand nothing, and what names and numbers would tell.

The rules are those of `models.sanity`. A row of `biases` uses what a model may see; a row of `leaks` uses names of
images, numbers of records or other tasks' records, which no model may see.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from data.build.question_statistics import wrong_contents
from data.errors import InputError
from data.recipeqa import IMAGE_NAME
from data.records import PLACEHOLDER, Question, Step
from engine.scoring import CHANCE, assess, by_task
from models.sanity import AlwaysChoice, ChoiceLength, LeastFrequentChoice, NotRepeatedOrder, TfidfChoice, rules_for

Row = dict[str, Any]
Asked = Sequence[Question]
THRESHOLD = 0.05
LOOKS_AT = ("length", "orders", "position", "frequency", "words")  # what a rule uses; the order of the rows


# ---- rules -----------------------------------------------------------------------------------------------------------


def biases(questions: Mapping[str, Asked], threshold: float = THRESHOLD) -> Row:
    """Accuracy of every rule that answers without understanding, by split and task.

    Rules that count something count it in the training split, where there is one. Choices are also counted in the
    evaluated split itself, and words are where there is no training split or it is the one evaluated: such a row is
    *transductive*, a warning about the file and no result to compare a model with.

    Args:
        questions: split -> questions of all tasks.
        threshold: a row `exceeds` where the lower end of its 95 % interval is above chance by more than this.

    Returns:
        split -> task -> rows of `rule`, `looks_at` (one of `LOOKS_AT`), `counted_in` (None, "training", or
        "evaluated": transductive), `accuracy`, `n`, `interval` (95 %, Wilson's, clustered by recipe), `exceeds`. Ties
        share the point.

    Raises:
        InputError: a threshold that no rule could pass.
    """
    if not 0 <= threshold < 1 - CHANCE:
        raise InputError(f"threshold={threshold}: is added to chance; set it to at least 0 and below {1 - CHANCE}")
    tasks = {split: _by_task(own) for split, own in questions.items()}
    found: Row = {split: {task: [] for task in own} for split, own in tasks.items()}

    def add(split: str, task: str, rule: str, looks_at: str, scores: np.ndarray, counted_in: str | None = None) -> None:
        row = {"rule": rule, "looks_at": looks_at, "counted_in": counted_in, **_accuracy(tasks[split][task], scores)}
        row["exceeds"] = row["interval"][0] > CHANCE + threshold
        found[split][task].append(row)

    for split, own in tasks.items():
        for task, asked in own.items():
            for position in range(4):
                name = f"always_position_{position}"
                add(split, task, name, "position", AlwaysChoice(position).score(asked))
            if task == "textual_cloze":
                for rule in (
                    ChoiceLength(unit, longest) for longest in (False, True) for unit in ("characters", "words")
                ):
                    add(split, task, rule.name, "length", rule.score(asked))
            if task == "visual_ordering":
                add(split, task, NotRepeatedOrder.name, "orders", NotRepeatedOrder().score(asked))
    for rule, split, counted_in in _counting_rules(questions):
        for task, asked in tasks[split].items():
            if isinstance(rule, LeastFrequentChoice) and task != "visual_ordering":
                scores = rule.score(asked)
                add(split, task, rule.name, "frequency", scores, counted_in)
                add(split, task, "most_frequent_choice", "frequency", -scores, counted_in)
            elif isinstance(rule, TfidfChoice) and task == "textual_cloze":
                add(split, task, rule.name, "words", rule.score(asked), counted_in)
    for own in found.values():
        for rows in own.values():
            rows.sort(key=lambda row: LOOKS_AT.index(row["looks_at"]))  # stable
    return found


def _counting_rules(questions: Mapping[str, Asked]) -> Iterator[tuple[LeastFrequentChoice | TfidfChoice, str, str]]:
    """Every rule that counts, fitted, with each split that it is scored on and where it counted."""
    textual = any(q.task == "textual_cloze" for own in questions.values() for q in own)
    for source, own in questions.items():
        rules: list[LeastFrequentChoice | TfidfChoice] = [LeastFrequentChoice()]
        if textual and (source == "train" or "train" not in questions):
            rules += [rule for rule in rules_for("textual_cloze", "training") if isinstance(rule, TfidfChoice)]
        for rule in rules:
            rule.fit(own)
            for split in questions if source == "train" else (source,):
                yield rule, split, "evaluated" if split == source else "training"


def _by_task(questions: Asked) -> dict[str, list[Question]]:
    return {task: [questions[i] for i in rows] for task, rows in by_task(questions).items()}


def _accuracy(questions: Asked, scores: np.ndarray) -> Row:
    found = assess(questions, scores)
    return {key: found[key] for key in ("accuracy", "n", "interval")}


# ---- names and numbers -----------------------------------------------------------------------------------------------


def leaks(questions: Mapping[str, Asked]) -> Row:
    """What would answer the questions if a model saw it: image names, qids, records of other tasks; by split and task.

    Returns:
        split -> task -> `rows` (`rule`, `accuracy`, `n`, `interval`; what a reader of names would score),
        `first_image` and `introduction` (shares of right and wrong images with index 0, and of step 0:
        {right: [such, all], wrong: …}), `shown_elsewhere` ([questions that another task's record of the recipe
        answers, those with such a record]), `from_recipe_of` (where the wrong images are from: own recipe, this
        split, another split, a recipe without questions; counts).
    """
    split_of = {recipe: split for split, own in questions.items() for q in own for recipe in _recipes_shown(q)}
    found: Row = {}
    for split, own in questions.items():
        titles = {q.recipe_id: q.context for q in own if q.task != "textual_cloze"}
        listed = {q.recipe_id for q in own if q.task == "textual_cloze"}
        found[split] = {}
        for task, asked in _by_task(own).items():
            rows = [{"rule": name, **_accuracy(asked, scores)} for name, scores in _reading_names(asked, task, own)]
            row: Row = {"rows": rows}
            if task == "textual_cloze":
                row["shown_elsewhere"] = _titles_shown(asked, titles)
            else:
                row["shown_elsewhere"] = [sum(q.recipe_id in listed for q in asked), len(asked)]
            if task in ("visual_cloze", "visual_coherence"):
                row |= _image_shares(asked)
                row["from_recipe_of"] = _origins(asked, split, split_of)
            found[split][task] = row
    return found


def _reading_names(asked: Asked, task: str, own: Asked) -> Iterator[tuple[str, np.ndarray]]:
    """Rules that read names, with their scores (N, 4)."""
    if task == "textual_cloze":
        told = [(i, missing) for i, q in enumerate(asked) if (missing := _missing_step(q)) is not None]
        if told:
            scores = np.zeros((len(asked), 4))  # a question that asks for the body has no missing step to read
            narrowed = [replace(asked[i], context=(missing,)) for i, missing in told]
            scores[[i for i, _ in told]] = TfidfChoice("context").fit(own).score(narrowed)
            yield "qid_missing_step", scores
        return
    rules: dict[str, Callable[[Question], list[float]]] = {
        "visual_cloze": {
            "name_recipe": _cloze_recipe,
            "name_step": _cloze_step,
            "qid_and_name_step": _cloze_qid,
            "name_not_step_0": lambda q: [float(step != 0) for _, step, _ in _choice_names(q)],
            "name_first_image": lambda q: [float(k == 0) for *_, k in _choice_names(q)],
        },
        "visual_coherence": {
            "name_recipe": _coherence_recipe,
            "name_step": _coherence_step,
            "name_step_0": lambda q: [float(step == 0) for _, step, _ in _choice_names(q)],
            "name_not_first_image": lambda q: [float(k != 0) for *_, k in _choice_names(q)],
        },
        "visual_ordering": {"name_step": _ordering_step},
    }[task]
    for name, rule in rules.items():
        yield name, np.array([rule(q) for q in asked])


def name_parts(name: str) -> tuple[str, int, int]:
    """Recipe, step and index of an image name; ("", -1, -1) of a name that tells nothing."""
    match = IMAGE_NAME.fullmatch(name)
    return (match[1], int(match[2]), int(match[3])) if match else ("", -1, -1)


def _choice_names(question: Question) -> list[tuple[str, int, int]]:
    return [name_parts(choice[0]) for choice in question.choices]


def _cloze_recipe(question: Question) -> list[float]:
    shown = {name_parts(name)[0] for name in question.question if name != PLACEHOLDER}
    return [float(recipe in shown and recipe != "") for recipe, *_ in _choice_names(question)]


def _cloze_step(question: Question) -> list[float]:
    """The step between those of the neighbours of the gap."""
    steps = [name_parts(name)[1] for name in question.question]
    gap = question.question.index(PLACEHOLDER)
    before, after = steps[gap - 1] if gap else 0, steps[gap + 1] if gap < 3 else 10**9
    return [float(before < step < after) for _, step, _ in _choice_names(question)]


def _cloze_qid(question: Question) -> list[float]:
    missing = asked_steps(question)[question.question.index(PLACEHOLDER)]
    return [float(step == missing + 1) for _, step, _ in _choice_names(question)]


def _coherence_recipe(question: Question) -> list[float]:
    """The recipe that fewest of the images are of."""
    recipes = [recipe for recipe, *_ in _choice_names(question)]
    return [-float(recipes.count(recipe)) for recipe in recipes]


def _coherence_step(question: Question) -> list[float]:
    """The image without which the steps increase."""
    steps = [step for _, step, _ in _choice_names(question)]
    return [float(_increasing(steps[:i] + steps[i + 1 :])) for i in range(len(steps))]


def _ordering_step(question: Question) -> list[float]:
    return [float(_increasing([name_parts(name)[1] for name in choice])) for choice in question.choices]


def _increasing(steps: Sequence[int]) -> bool:
    return all(a < b for a, b in itertools.pairwise(steps))


def asked_steps(question: Question) -> tuple[int, ...]:
    """The 0-based steps of the recipe that a question stands on, which its qid tells."""
    return tuple(map(int, question.qid.split("-")[-4:]))


def _missing_step(question: Question) -> Step | None:
    """The step whose title is asked, which the qid and the gap tell; None where its body is asked.

    A question that asks for a body, alone or behind its title, shows three others and lacks the asked step.
    """
    steps, gap = asked_steps(question), question.question.index(PLACEHOLDER)
    if max(steps) >= len(question.context):
        return None
    places = [step - (step > steps[gap]) for step in steps]
    bodies = [question.context[place].body.strip() for i, place in enumerate(places) if i != gap]
    shown = [text.strip() for text in question.question if text != PLACEHOLDER]
    if any(bodies) and all(text.endswith(body) for text, body in zip(shown, bodies, strict=True)):
        return None
    return question.context[steps[gap]]


def _titles_shown(asked: Asked, visual: Mapping[str, Sequence[Step]]) -> list[int]:
    """[hidden titles that a visual record of the recipe shows, hidden titles that can be looked up there]."""
    answered = checked = 0
    for question in asked:
        place = asked_steps(question)[question.question.index(PLACEHOLDER)]
        context = visual.get(question.recipe_id, ())
        if place < len(context) and _missing_step(question) is not None:
            checked += 1
            answered += (context[place].title or "").strip() == question.choices[question.answer][0].strip()
    return [answered, checked]


def _image_shares(asked: Asked) -> Row:
    """Shares of images with index 0 and of step 0, right (those of the recipe) and wrong."""
    wrong = [name_parts(name) for q in asked for name in wrong_contents(q)]
    if asked[0].task == "visual_cloze":
        right = [name_parts(q.choices[q.answer][0]) for q in asked]
    else:
        right = [name_parts(choice[0]) for q in asked for i, choice in enumerate(q.choices) if i != q.answer]
    sides = {"right": right, "wrong": wrong}
    return {
        "first_image": {side: [sum(k == 0 for *_, k in names), len(names)] for side, names in sides.items()},
        "introduction": {side: [sum(step == 0 for _, step, _ in names), len(names)] for side, names in sides.items()},
    }


def _recipes_shown(question: Question) -> set[str]:
    """Recipes in the names of the images that are the question's own; one, but it need not be the `recipe_id`."""
    if question.task == "visual_coherence":
        names = [choice[0] for i, choice in enumerate(question.choices) if i != question.answer]
    elif question.task == "textual_cloze":
        names = [name for step in question.context for name in step.images or ()]
    else:
        names = list(question.choices[question.answer])
    return {name_parts(name)[0] for name in names}


def _origins(asked: Asked, split: str, split_of: Mapping[str, str]) -> dict[str, int]:
    found: dict[str, int] = dict.fromkeys(("own recipe", "this split", "another split", "no recipe with questions"), 0)
    for question in asked:
        own = _recipes_shown(question)
        for recipe in (name_parts(name)[0] for name in wrong_contents(question)):
            if recipe in own:
                found["own recipe"] += 1
            elif recipe not in split_of:
                found["no recipe with questions"] += 1
            else:
                found["this split" if split_of[recipe] == split else "another split"] += 1
    return found
