"""Rules that understand nothing, and what names would give away."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from data.build.question_statistics import as_questions, published_dataset
from data.errors import InputError
from data.recipeqa import read_questions
from data.records import PLACEHOLDER, TASKS, Question, Step
from engine.biases import LOOKS_AT, asked_steps, biases, leaks, name_parts
from models.metrics import wilson_interval
from tests.made_up import made_up_questions


def cloze(choices, number=1, answer=0, split="val", body="Whisk the eggs.", titles=("A", PLACEHOLDER, "C", "D")):
    context = tuple(Step(f"{body} {i}", images=()) for i in range(5))
    qid = f"1000-{number}-0-1-2-3"
    return Question(
        qid, f"soup-{number}", "textual_cloze", split, context, titles, tuple((c,) for c in choices), answer
    )


def rows_of(found, split="val", task="textual_cloze") -> dict:
    return {(row["rule"], row["counted_in"]): row for row in found[split][task]}


def made_up_set(n=30, seed=0) -> list[Question]:
    return as_questions([record for task in TASKS for record in made_up_questions(task, n, seed)])


def test_a_set_whose_right_choice_is_shortest_says_so():
    questions = [cloze(["Mix", "Mix it well", f"Bake it {i} times", "Stir it long"], i) for i in range(60)]
    rows = rows_of(biases({"val": questions}))
    for unit in ("characters", "words"):
        assert (
            rows[f"shortest_choice_{unit}", None]["accuracy"] == 1 and rows[f"shortest_choice_{unit}", None]["exceeds"]
        )
        assert rows[f"longest_choice_{unit}", None]["accuracy"] == 0
    assert rows["always_position_0", None]["accuracy"] == 1 and rows["always_position_1", None]["accuracy"] == 0
    assert rows["shortest_choice_words", None]["n"] == 60
    assert rows["shortest_choice_words", None]["interval"] == pytest.approx(wilson_interval(60, 60))


def test_ties_share_the_point():
    questions = [cloze(["ab", "cd", "efg", "hij"], i, answer=i % 4) for i in range(8)]
    assert rows_of(biases({"val": questions}))["shortest_choice_characters", None]["accuracy"] == 0.25


def test_choices_are_counted_in_training_and_in_the_split_itself():
    # In train "Bake" is offered in every question and "Fry" once; val knows it the other way round.
    train = [cloze(["Bake", f"a{i}", f"b{i}", f"c{i}"], i, split="train") for i in range(30)]
    train.append(cloze(["Fry", "x", "y", "z"], 99, split="train"))
    val = [cloze(["Fry", "Bake", "Fry", "Fry"], 200 + i) for i in range(20)]
    found = biases({"train": train, "val": val})
    rows = rows_of(found)
    assert rows["least_frequent_choice", "training"]["accuracy"] == pytest.approx(1 / 3)
    assert rows["most_frequent_choice", "training"]["accuracy"] == 0
    assert rows["least_frequent_choice", "evaluated"]["accuracy"] == 0
    assert rows["most_frequent_choice", "evaluated"]["accuracy"] == pytest.approx(1 / 3)
    own = rows_of(found, "train")
    assert ("most_frequent_choice", "training") not in own and own["most_frequent_choice", "evaluated"][
        "accuracy"
    ] > 0.9


def test_words_are_counted_in_training_where_there_is_one():
    questions = made_up_set()
    other = made_up_set(seed=1)
    alone = biases({"val": questions})
    both = biases({"train": other, "val": questions})
    words = [key for key in rows_of(alone) if key[0].startswith("tfidf")]
    assert len(words) == 5 and {counted for _, counted in words} == {"evaluated"}
    assert {c for name, c in rows_of(both) if name.startswith("tfidf")} == {"training"}
    assert {c for name, c in rows_of(both, "train") if name.startswith("tfidf")} == {"evaluated"}


def test_words_shared_with_the_context_give_the_answer():
    questions = [cloze(["Whisk eggs", f"Fry {i}", f"Boil {i}", f"Cut {i}"], i) for i in range(40)]
    row = rows_of(biases({"val": questions}))["tfidf_context", "evaluated"]
    assert row["accuracy"] == 1 and row["looks_at"] == "words" and row["exceeds"]


def test_repeated_orders_give_answers_away():
    right, wrong = tuple("abcd"), tuple("dcba")
    questions = [
        Question(
            f"4000-{i}-0-1-2-3",
            f"r{i}",
            "visual_ordering",
            "val",
            (Step("x", ""),),
            ("s",),
            (wrong, right, wrong, wrong),
            1,
        )
        for i in range(30)
    ]
    row = rows_of(biases({"val": questions}), task="visual_ordering")["not_repeated_permutation", None]
    assert row["accuracy"] == 1 and row["exceeds"]


@pytest.mark.parametrize(("threshold", "exceeds"), [(0.0, True), (0.3, True), (0.5, False)])
def test_the_threshold_is_for_the_lower_end(threshold, exceeds):
    # 70 of 100 right: 95 % interval 60.4 to 78.1 %
    short = [["a", "bb", "cc", "dd"]] * 70 + [["aa", "b", "cc", "dd"]] * 30
    questions = [cloze(choices, i) for i, choices in enumerate(short)]
    row = rows_of(biases({"val": questions}, threshold))["shortest_choice_characters", None]
    assert row["accuracy"] == pytest.approx(0.7) and row["interval"][0] == pytest.approx(0.604, abs=1e-3)
    assert row["exceeds"] is exceeds


@pytest.mark.parametrize("threshold", [-0.1, 0.75, float("nan")])
def test_a_threshold_that_no_rule_can_pass_is_refused(threshold):
    with pytest.raises(InputError, match="threshold="):
        biases({"val": made_up_set(2)}, threshold)


def test_questions_of_one_recipe_widen_the_interval():
    apart = [cloze(["a", "bb", "cc", "dd"] if i % 4 < 2 else ["aa", "b", "cc", "dd"], i) for i in range(80)]
    together = [replace(q, recipe_id=f"r{i % 4}") for i, q in enumerate(apart)]
    rule = ("shortest_choice_characters", None)
    low, high = rows_of(biases({"val": apart}))[rule]["interval"]
    clustered = rows_of(biases({"val": together}))[rule]["interval"]
    assert clustered[0] < low and clustered[1] > high


def test_rows_stand_in_one_order_and_are_plain():
    found = biases({"train": made_up_set(), "test": made_up_set(5, seed=1)})
    assert json.loads(json.dumps(found)) == found and list(found) == ["train", "test"]
    for own in found.values():
        assert list(own) == list(TASKS)
        for rows in own.values():
            kinds = [LOOKS_AT.index(row["looks_at"]) for row in rows]
            assert kinds == sorted(kinds) and len({(r["rule"], r["counted_in"]) for r in rows}) == len(rows)


def test_tasks_that_are_not_there_have_no_rows():
    only = {
        "train": as_questions(made_up_questions("visual_ordering", 5)),
        "val": as_questions(made_up_questions("visual_cloze", 5, 1)),
    }
    found = biases(only)
    assert list(found["train"]) == ["visual_ordering"] and list(found["val"]) == ["visual_cloze"]
    assert ("least_frequent_choice", "training") in rows_of(found, task="visual_cloze")


# ---- names -----------------------------------------------------------------------------------------------------------


def leak_rows(questions, task) -> dict:
    return {row["rule"]: row["accuracy"] for row in leaks({"val": questions})["val"][task]["rows"]}


def test_image_names_of_the_release_give_everything_away():
    questions = made_up_set()
    assert leak_rows(questions, "visual_cloze")["name_recipe"] == 1
    assert leak_rows(questions, "visual_coherence")["name_recipe"] == 1
    assert leak_rows(questions, "visual_ordering") == {"name_step": 1}
    assert 0.4 < leak_rows(questions, "visual_coherence")["name_step"] <= 1
    assert 0.5 < leak_rows(questions, "visual_cloze")["qid_and_name_step"] <= 1
    # One of the three wrong choices of made-up cloze questions is of step 0, and so is every intruder.
    assert leak_rows(questions, "visual_cloze")["name_not_step_0"] == pytest.approx(1 / 3)
    assert leak_rows(questions, "visual_coherence")["name_step_0"] == 1


def test_names_that_say_nothing_give_nothing_away():
    def opaque(names):
        return tuple(n if n == PLACEHOLDER else f"{len(n)}x.jpg" for n in names)

    questions = [
        replace(q, question=opaque(q.question), choices=tuple(map(opaque, q.choices)))
        for q in made_up_set()
        if q.task in ("visual_cloze", "visual_coherence")
    ]
    for task in ("visual_cloze", "visual_coherence"):
        assert set(leak_rows(questions, task).values()) == {0.25}, task
    assert name_parts("7x.jpg") == ("", -1, -1) and name_parts("a_b-1_10_2.jpg") == ("a_b-1", 10, 2)


def test_shares_of_first_images_and_introductions():
    questions = made_up_set()
    found = leaks({"val": questions})["val"]
    assert found["visual_cloze"]["introduction"] == {"right": [0, 30], "wrong": [30, 90]}
    assert found["visual_coherence"]["introduction"] == {"right": [0, 90], "wrong": [30, 30]}
    right = [q.choices[q.answer][0] for q in questions if q.task == "visual_cloze"]
    zero = sum(bool(re.search(r"_0\.jpg$", name)) for name in right)
    assert found["visual_cloze"]["first_image"] == {"right": [zero, 30], "wrong": [90, 90]}


def test_where_wrong_images_are_from():
    one, two = as_questions(made_up_questions("visual_cloze", 2))
    train = as_questions(made_up_questions("visual_coherence", 1, seed=3))[0]
    of_train = train.choices[(train.answer + 1) % 4][0]
    of_val = two.choices[two.answer][0]
    own = next(name for name in one.question if name != PLACEHOLDER)
    names = iter([of_train, of_val, own])
    choices = tuple(c if i == one.answer else (next(names),) for i, c in enumerate(one.choices))
    found = leaks({"train": [train], "val": [replace(one, choices=choices), two]})["val"]["visual_cloze"]
    assert found["from_recipe_of"] == {
        "own recipe": 1,
        "this split": 1,
        "another split": 1,
        "no recipe with questions": 3,
    }


def test_other_records_of_a_recipe_show_what_a_question_hides():
    found = leaks({"val": made_up_set(10)})["val"]
    assert found["textual_cloze"]["shown_elsewhere"] == [10, 10]
    assert found["visual_ordering"]["shown_elsewhere"] == [10, 10]
    alone = leaks({"val": [q for q in made_up_set(10) if q.task in TASKS[:1]]})["val"]
    assert alone["textual_cloze"]["shown_elsewhere"] == [0, 0]
    visual = leaks({"val": [q for q in made_up_set(10) if q.task == "visual_cloze"]})["val"]
    assert visual["visual_cloze"]["shown_elsewhere"] == [0, 10]


@pytest.mark.parametrize("titled", [False, True])
def test_a_question_for_a_body_has_no_missing_step_to_read(titled):
    bodies = ["Chop it.", "Fry it.", "Boil it.", "Eat it.", "Wash up."]
    texts = [f"Part {i}\n{body}" if titled else body for i, body in enumerate(bodies)]
    shown = Question(
        "1000-1-0-1-2-3", "r", "textual_cloze", "val",
        tuple(Step(body, images=()) for i, body in enumerate(bodies) if i != 1),
        (texts[0], PLACEHOLDER, texts[2], texts[3]), (("Fry it.",), ("x",), ("y",), ("z",)), 0,
    )  # fmt: skip
    found = leaks({"val": [shown]})["val"]["textual_cloze"]
    assert found["rows"] == [] and found["shown_elsewhere"] == [0, 0]
    last = replace(shown, qid="1000-1-0-2-3-4", question=(texts[0], texts[2], texts[3], PLACEHOLDER))
    assert leaks({"val": [last]})["val"]["textual_cloze"]["rows"] == []
    title = replace(shown, question=("Chopping", PLACEHOLDER, "Boiling", "Eating"))
    assert [row["rule"] for row in leaks({"val": [title]})["val"]["textual_cloze"]["rows"]] == ["qid_missing_step"]


def test_the_qid_names_the_steps():
    for question in made_up_set(3):
        steps = asked_steps(question)
        assert list(steps) == sorted(steps) and len(steps) == 4 and max(steps) < len(question.context)


# ---- the released questions ------------------------------------------------------------------------------------------

# Per cent of the open part of the validation questions (benchmark reference, sections 9 and 10).
OPEN = {
    "textual_cloze": {
        "shortest_choice_characters": 35.9,
        "shortest_choice_words": 35.1,
        "longest_choice_characters": 19.4,
        "tfidf_question_titles": 35.9,
        "tfidf_context": 48.2,
        "tfidf_context_log": 49.6,
        "tfidf_best_step": 54.8,
        "tfidf_characters": 51.1,
        "least_frequent_choice": 47.1,
    },
    "visual_cloze": {"least_frequent_choice": 25.5},
    "visual_coherence": {"least_frequent_choice": 33.1},
    "visual_ordering": {"not_repeated_permutation": 28.6},
}


@pytest.fixture(scope="module")
def released(shared):
    return {"val": read_questions(shared / "data" / "recipeqa" / "val_open.json.gz")[0]}


def test_the_biases_of_the_released_questions_come_out(released):
    found, whole = biases(released)["val"], published_dataset()["biases"]
    for task, known in OPEN.items():
        rows = {row["rule"]: row for row in found[task]}
        for rule, value in known.items():
            assert 100 * rows[rule]["accuracy"] == pytest.approx(value, abs=0.06), rule
            low, high = rows[rule]["interval"]
            assert low < whole[task][rule] / 100 < high, rule  # what the whole file has
    exceeding = {(task, row["looks_at"]) for task, rows in found.items() for row in rows if row["exceeds"]}
    assert exceeding == {("textual_cloze", kind) for kind in ("length", "frequency", "words")}


def test_the_leaks_of_the_released_questions_come_out(released):
    found = leaks(released)["val"]
    rows = {task: {row["rule"]: row["accuracy"] for row in own["rows"]} for task, own in found.items()}
    assert 100 * rows["textual_cloze"]["qid_missing_step"] == pytest.approx(60.8, abs=0.06)
    assert rows["visual_cloze"]["name_recipe"] == rows["visual_coherence"]["name_recipe"] == 1
    assert rows["visual_ordering"]["name_step"] == 1
    assert found["visual_cloze"]["first_image"] == {"right": [277, 507], "wrong": [601, 1521]}
    assert found["visual_cloze"]["introduction"] == {"right": [0, 507], "wrong": [225, 1521]}
    assert found["visual_coherence"]["introduction"] == {"right": [0, 1551], "wrong": [91, 517]}
    assert found["visual_cloze"]["from_recipe_of"]["own recipe"] == 0
    assert found["textual_cloze"]["shown_elsewhere"] == [510, 510]
    assert np.sum([found[task]["shown_elsewhere"] for task in TASKS[1:]], axis=0).tolist() == [1186, 1589]
