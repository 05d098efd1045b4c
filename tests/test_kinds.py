"""Kinds of textual-cloze questions on made-up ones whose kinds are known."""

import pytest

from data.kinds import KINDS, kinds_of
from data.records import PLACEHOLDER, Question, Step

BODIES = ("Chop the onions.", "Bake it for an hour.", "Whisk the eggs.", "Pour sauce over it.")


def question(choices=("Chopping", "Fry", "Boil", "Melt"), place=0, bodies=BODIES, answer=0):
    titles = tuple(PLACEHOLDER if i == place else f"title {i}" for i in range(4))
    return Question(
        qid="q",
        recipe_id="r",
        task="textual_cloze",
        split="val",
        context=tuple(Step(body=body) for body in bodies),
        question=titles,
        choices=tuple((choice,) for choice in choices),
        answer=answer,
    )


def test_every_kind_is_one_of_the_table():
    for name, kind in kinds_of(question()).items():
        assert kind in KINDS[name]
    assert list(kinds_of(question())) == list(KINDS)


@pytest.mark.parametrize(("place", "kind"), [(0, "first"), (1, "middle"), (2, "middle"), (3, "last")])
def test_which_title_is_missing(place, kind):
    assert kinds_of(question(place=place))["missing title"] == kind


@pytest.mark.parametrize(
    ("n", "kind"), [(3, "up to 4"), (4, "up to 4"), (5, "5 or 6"), (6, "5 or 6"), (7, "7 or more"), (20, "7 or more")]
)
def test_number_of_steps(n, kind):
    assert kinds_of(question(bodies=("Stir.",) * n))["steps"] == kind


@pytest.mark.parametrize(
    ("choices", "answer", "kind"),
    [
        (("Chopping", "Fry", "Boil", "Melt"), 0, "right one only"),  # by its stem
        (("Fry", "Baked Eggs", "Boil", "Chop the Rest"), 3, "right and wrong"),
        (("Fry", "Boil", "Baking", "Melt"), 0, "wrong one only"),
        (("Fry", "Boil", "Melt", "Steam"), 1, "neither"),
        (("The for an it", "Boil", "Melt", "Steam"), 0, "neither"),  # function words say nothing
        (("", "Boil", "Melt", "over the onion"), 0, "wrong one only"),
    ],
)
def test_words_that_a_step_says(choices, answer, kind):
    assert kinds_of(question(choices, answer=answer))["a word of a title is in a step"] == kind


@pytest.mark.parametrize(
    ("right", "words", "generic"),
    [
        ("Ingredients", "1", "yes"),
        ("INGREDIENTS!", "1", "yes"),
        ("Serve and Enjoy", "2 or 3", "yes"),
        ("Gather Your Ingredients", "2 or 3", "yes"),
        ("What You Need to Get Started", "4 or more", "yes"),
        ("Step 2", "2 or 3", "yes"),
        ("Enjoy the Cake", "2 or 3", "no"),
        ("Make Dough", "2 or 3", "no"),
        ("  ", "none", "no"),
        ("...", "1", "no"),
    ],
)
def test_the_right_title(right, words, generic):
    found = kinds_of(question((right, "Fry", "Boil", "Melt")))
    assert (found["words of the right title"], found["right title is generic"]) == (words, generic)


def test_defects():
    found = kinds_of(question(("Fry", "Boil ", "boil", ""), answer=1))
    assert (found["right title is offered twice"], found["a choice is empty"]) == ("yes", "yes")
    found = kinds_of(question(("Fry", "boil ", "boil", "Melt"), answer=0))  # two wrong ones alike are no defect here
    assert (found["right title is offered twice"], found["a choice is empty"]) == ("no", "no")
