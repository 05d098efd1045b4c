"""Questions made of training recipes: well formed, of these recipes alone, the same each time."""

from collections import Counter

import pytest

from data.generated import more_cloze
from data.recipeqa import read_questions, to_record
from data.records import PLACEHOLDER, Question, Step
from tests.made_up import made_up_questions, write_file


@pytest.fixture(scope="module")
def questions(tmp_path_factory):
    """Textual and visual questions of the same thirty recipes."""
    records = [r for task in ("textual_cloze", "visual_ordering", "visual_cloze") for r in made_up_questions(task, 30)]
    return read_questions(write_file(tmp_path_factory.mktemp("generated") / "train.json", records))[0]


def plain(text):
    return " ".join(text.lower().split())


def recipe(titles, name="a", bodies=None):
    """A visual question that shows some titles."""
    context = tuple(Step(f"body {i}" if bodies is None else bodies[i], title=t) for i, t in enumerate(titles))
    names = tuple(f"{name}_{i}_0.jpg" for i in range(4))
    return Question(f"q {name}", name, "visual_coherence", "train", context, names, tuple((n,) for n in names), 0)


def cloze(*wrong, answer=3):
    """A textual question that offers some wrong choices."""
    choices = [(text,) for text in wrong]
    choices.insert(answer, ("the right one",))
    shown = ("x", PLACEHOLDER, "y", "z")
    return Question("t", "other", "textual_cloze", "train", (Step("text", images=()),), shown, tuple(choices), answer)


def steps_of(question, titles):
    """Places of the question's titles in the recipe, the right choice in the blank."""
    shown = [question.choices[question.answer][0] if t == PLACEHOLDER else t for t in question.question]
    return [titles.index(title) for title in shown]


def test_questions_ask_for_titles_of_the_recipes_given_in_the_order_of_the_steps(questions):
    made = more_cloze(questions, 3, seed=5)
    shown = {q.recipe_id: q.context for q in questions if q.task != "textual_cloze"}
    wrong = {c[0] for q in questions if q.task == "textual_cloze" for k, c in enumerate(q.choices) if k != q.answer}
    assert Counter(q.recipe_id for q in made) == dict.fromkeys(shown, 3)
    assert list(dict.fromkeys(q.recipe_id for q in made)) == list(shown)
    assert len({q.qid for q in made} | {q.qid for q in questions}) == len(made) + len(questions)
    for q in made:
        titles = [step.title for step in shown[q.recipe_id]]
        assert [step.body for step in q.context] == [step.body for step in shown[q.recipe_id]]
        assert all(step.title is None and step.images is None for step in q.context)  # no title lies beside its step
        places = steps_of(q, titles)
        assert places == sorted(set(places)) and q.question.count(PLACEHOLDER) == 1
        others = [c[0] for k, c in enumerate(q.choices) if k != q.answer]
        assert set(others) <= wrong and len({plain(text) for text in others}) == 3
        assert not {plain(text) for text in others} & {plain(title) for title in titles}
    # Every place in the question and every place of the answer is drawn.
    assert {q.question.index(PLACEHOLDER) for q in made} == {q.answer for q in made} == {0, 1, 2, 3}


def test_they_are_questions_of_the_schema(questions, tmp_path):
    made = more_cloze(questions, 2, seed=5)
    again = read_questions(write_file(tmp_path / "made.json", [to_record(q) for q in made]))[0]
    assert [(q.question, q.choices, q.answer) for q in again] == [(q.question, q.choices, q.answer) for q in made]


def test_draws_depend_on_the_seed_the_recipe_and_the_pool_alone(questions):
    textual = [q for q in questions if q.task == "textual_cloze"]
    visual = [q for q in questions if q.task == "visual_ordering"]
    made = more_cloze([*textual, *visual], 2, seed=5)
    assert made == more_cloze([*textual, *visual], 2, seed=5)
    assert made == more_cloze(questions, 2, seed=5)  # a second visual question of a recipe adds none
    assert made != more_cloze(questions, 2, seed=6)
    by_recipe = {q.qid: q for q in made}
    for some in (visual[::-1], visual[3:9], visual[7:8]):
        found = more_cloze([*textual, *some], 2, seed=5)
        assert len(found) == 2 * len(some) and all(by_recipe[q.qid] == q for q in found)
    assert [q for q in more_cloze(questions, 4, seed=5) if q.qid in by_recipe] == made  # more add, and change none


def test_wrong_choices_come_from_the_wrong_choices_and_never_repeat_a_title_of_the_recipe():
    titles = ["Mix  It", "Bake", "Cool", "Serve", "  ", ""]
    pool = cloze("mix it", " BAKE ", "Grill", answer=1), cloze("Boil", "grill", "Fry", answer=0), cloze(" ", "cool", "")
    made = more_cloze([*pool, recipe(titles)], 60, seed=1)
    offered = {plain(c[0]) for q in made for k, c in enumerate(q.choices) if k != q.answer}
    assert len(made) == 60 and offered == {"grill", "boil", "fry"}
    assert {q.choices[q.answer][0] for q in made} == {"Mix  It", "Bake", "Cool", "Serve"}  # as written


def test_recipes_with_few_titles_or_a_pool_that_is_too_small_give_none():
    pool = cloze("one", "two", "three")
    assert len(more_cloze([pool, recipe(["a", "b", "c", "d"])], 2, seed=0)) == 2
    assert more_cloze([pool, recipe(["a", "b", "", " ", "c"])], 2, seed=0) == []
    assert more_cloze([cloze("one", "two", " TWO"), recipe(["a", "b", "c", "d"])], 2, seed=0) == []
    assert more_cloze([pool, recipe(["a", "b", "Three", "d"])], 2, seed=0) == []  # two are left
    assert more_cloze([recipe(["a", "b", "c", "d"])], 2, seed=0) == []
    assert more_cloze([pool], 2, seed=0) == []
    assert more_cloze([], 2, seed=0) == []
    some = more_cloze([pool, recipe(["a"], "short"), recipe(["a", "b", "c", "d"], "long")], 1, seed=0)
    assert [q.recipe_id for q in some] == ["long"]


def test_a_title_that_reads_like_the_blank_is_no_title():
    titles = [PLACEHOLDER, "a", "b", "c", "d", f" {PLACEHOLDER}"]
    made = more_cloze([cloze("one", "two", "three"), recipe(titles)], 20, seed=0)
    assert len(made) == 20 and all(q.question.count(PLACEHOLDER) == 1 for q in made)
    assert all(steps_of(q, titles) == sorted(steps_of(q, titles)) for q in made)


def test_two_steps_of_one_title_and_steps_without_text():
    titles = ["Mix", "mix", "Bake", "Bake"]
    made = more_cloze([cloze("one", "two", "three"), recipe(titles, bodies=["", "b", " ", ""])], 20, seed=0)
    assert len(made) == 20
    for q in made:
        assert [step.body for step in q.context] == ["", "b", " ", ""]
        shown = [q.choices[q.answer][0] if t == PLACEHOLDER else t for t in q.question]
        assert shown == titles


def test_none_are_asked_for(questions):
    assert more_cloze(questions, 0, seed=5) == []
