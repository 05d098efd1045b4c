"""Counts of questions and recipes, and what is published of RecipeQA itself."""

import itertools
import json
import random
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.build.question_statistics import (
    NO_CATEGORY,
    ORDERS_AT_DISTANCE,
    as_questions,
    by_split,
    hub_statistics,
    kendall_distance,
    order_statistics,
    published_dataset,
    question_statistics,
    recipe_statistics,
    size_of,
    sizes_of_questions,
    spread,
    wrong_contents,
)
from data.errors import InputError
from data.recipeqa import OFFICIAL_COUNTS, OFFICIAL_TOTALS, read_questions
from data.records import TASKS, Question, SourceRecipe, SourceStep
from tests.made_up import made_up_questions, made_up_recipe, write_file


def made_up_set(n: int = 12) -> list[dict]:
    return [record for task in TASKS for record in made_up_questions(task, n)]


def source_recipe(number: int, category: str = "") -> SourceRecipe:
    made = made_up_recipe(number)
    steps = tuple(SourceStep(s["body"], s["title"], tuple(s["images"])) for s in made["steps"])
    return SourceRecipe(made["recipe_id"], "t", category, steps)


def cloze(choices, answer=0, task="textual_cloze", qid="1000-1-0-1-2-3") -> Question:
    return Question(qid, "soup", task, "val", (), (), tuple((c,) for c in choices), answer)


def test_records_become_what_the_reader_makes_of_them(tmp_path):
    records = made_up_set()
    read, _ = read_questions(write_file(tmp_path / "val.json", records))
    assert as_questions(records) == read and as_questions(read) == read


def test_splits_come_in_their_order_and_unknown_ones_are_refused():
    records = made_up_set(2)
    assert list(by_split({"test": records, "val": [], "train": records})) == ["train", "test"]
    with pytest.raises(InputError, match="no questions to describe"):
        by_split({"val": []})
    with pytest.raises(InputError, match="'dev' is unknown"):
        by_split({"dev": records})


@given(st.lists(st.integers(0, 400), min_size=1, max_size=60), st.sampled_from([1, 2, 50]))
def test_spread_is_numpys_in_any_order(values, width):
    found = spread(values, width)
    assert found == spread(values[::-1], width)
    assert found["mean"] == pytest.approx(np.mean(values)) and found["sd"] == pytest.approx(np.std(values))
    assert found["p95"] == pytest.approx(np.percentile(values, 95)) and found["median"] == np.median(values)
    assert (found["n"], found["min"], found["max"]) == (len(values), min(values), max(values))
    assert {start: n for start, n in found["histogram"]} == Counter(value // width * width for value in values)


def test_size_of_a_recipe_counts_tokens_that_joined_words_hide():
    steps = (
        SourceStep("Chop theOnion, finely.", "Step one", ("a_1_0.jpg", "a_1_1.jpg")),
        SourceStep("", "Bake-off", ()),
    )
    size = size_of(SourceRecipe("a", "A", " Soup ", steps))
    assert (size.steps, size.title_tokens, size.description_tokens, size.images) == (2, 4, 4, 2)
    assert size.category == "Soup" and size.value("title_tokens_per_step") == 2 and size.value("images_per_step") == 1
    untitled = size_of(SourceRecipe("a", "A", "", (SourceStep("Stir."),)))
    assert untitled.title_tokens is None and untitled.category == NO_CATEGORY
    assert untitled.value("title_tokens_per_step") is None and untitled.value("images") == 0


def test_questions_tell_the_sizes_of_their_recipes():
    records = made_up_set()
    told = sizes_of_questions(as_questions(records))
    recipes = {recipe.recipe_id: recipe for recipe in map(source_recipe, range(12))}
    assert told == {name: size_of(recipe) for name, recipe in recipes.items()}
    only_textual = sizes_of_questions(as_questions(made_up_questions("textual_cloze", 3)))
    assert all(size.title_tokens is None and size.images for size in only_textual.values())
    only_visual = sizes_of_questions(as_questions(made_up_questions("visual_cloze", 3)))
    assert all(size.images is None and size.title_tokens for size in only_visual.values())


def test_the_longest_context_of_a_recipe_counts():
    question = as_questions(made_up_questions("textual_cloze", 1))[0]
    shorter = replace(question, qid="1000-9-0-1-2-3", context=question.context[1:])
    expected = sizes_of_questions([question])
    assert sizes_of_questions([shorter, question]) == sizes_of_questions([question, shorter]) == expected


def test_statistics_of_recipes_know_their_splits_and_no_order():
    train = as_questions(made_up_questions("textual_cloze", 5))
    val = as_questions(made_up_questions("visual_cloze", 4, seed=1))
    numbers = [*range(8), *range(1_000_000, 1_000_004)]
    recipes = [source_recipe(n, "soup" if n % 2 else "cake") for n in numbers]
    found = recipe_statistics({"train": train, "val": val}, iter(recipes))
    random.Random(1).shuffle(recipes)
    assert json.dumps(recipe_statistics({"train": train, "val": val}, recipes)) == json.dumps(found)
    assert [found[group]["n"] for group in ("all", "train", "val")] == [12, 5, 4]
    assert found["all"]["without_question"] == 3 and found["all"]["categories"] == {"cake": 6, "soup": 6}
    assert found["train"]["sizes"]["steps"]["mean"] == np.mean([len(made_up_recipe(n)["steps"]) for n in range(5)])


def test_recipes_must_fit_the_questions():
    questions = {"val": as_questions(made_up_questions("textual_cloze", 3))}
    with pytest.raises(InputError, match="has questions and is not among the 2 recipes"):
        recipe_statistics(questions, [source_recipe(0), source_recipe(1)])
    with pytest.raises(InputError, match="occurs twice"):
        recipe_statistics(questions, [source_recipe(0), source_recipe(0)])


@given(st.permutations("abcd"))
def test_kendall_distance_is_the_number_of_swaps_of_neighbours(order):
    left, swaps = list(order), 0
    for _ in range(4):  # bubble sort
        for i in range(3):
            if left[i] > left[i + 1]:
                left[i], left[i + 1] = left[i + 1], left[i]
                swaps += 1
    assert kendall_distance(order, "abcd") == swaps


def test_orders_at_their_distances():
    right = tuple("abcd")
    wrong = [order for order in itertools.permutations("abcd") if order != right]
    questions = [Question("q", "r", "visual_ordering", "val", (), (), (right, order, order), 0) for order in wrong]
    found = order_statistics(questions)
    assert found["kendall"] == [2 * n for n in ORDERS_AT_DISTANCE] and sum(ORDERS_AT_DISTANCE) == 23
    assert found["repeated"] == [23, 23]
    twice = Question("q", "r", "visual_ordering", "val", (), (), (right, right, wrong[0], wrong[1]), 0)
    assert sum(order_statistics([twice])["kendall"]) == 2  # the right order as a wrong one has no distance


def test_hubs_are_counted_among_wrong_choices():
    questions = [
        cloze(["Bake", "Mix ", "Stir", ""]),
        cloze(["Serve", "Mix", "Bake", ""]),
        cloze(["Mix", "a", "b", " "]),
    ]
    found = hub_statistics(questions)
    assert found["most"][:3] == [["", 3, 0], ["Mix", 2, 1], ["Bake", 1, 1]]
    assert (found["offered"], found["distinct"]) == (9, 6)
    assert found["times"] == [[1, 4], [2, 1], [3, 1]]
    intruder = cloze(["a_1_0.jpg", "b_0_0.jpg", "a_3_0.jpg", "a_4_0.jpg"], 1, "visual_coherence")
    assert wrong_contents(intruder) == ["b_0_0.jpg"] and hub_statistics([intruder])["most"] == [["b_0_0.jpg", 1, 0]]


def test_choices_that_differ_in_punctuation_read_alike():
    question = as_questions(made_up_questions("textual_cloze", 1))[0]
    wrong = (question.answer + 1) % 4
    right = question.choices[question.answer][0]

    def defects(text: str, answer_text: str = right) -> dict:
        texts = {wrong: text, question.answer: answer_text}
        choices = tuple((texts.get(i, choice[0]),) for i, choice in enumerate(question.choices))
        found = question_statistics({"val": [replace(question, choices=choices)]})
        return found["val"]["textual_cloze"]["defects"]

    assert defects("else")["alike"] == {"n": 0, "qids": []}
    found = defects(f"{right.upper()}!")
    assert found["twins"]["n"] == 0 and found["alike"] == {"n": 1, "qids": [question.qid]}
    found = defects(right.upper())
    assert found["twins"]["n"] == found["alike"]["n"] == 1
    assert defects("…", "!!")["alike"]["n"] == 0  # two texts without a word are different signs


def test_statistics_of_questions_are_those_of_the_records():
    records = made_up_set(20)
    found = question_statistics({"val": as_questions(records)})["val"]
    assert list(found) == list(TASKS) and json.loads(json.dumps(found)) == found
    for task, row in found.items():
        own = [record for record in records if record["task"] == task]
        assert row["n"] == 20 and row["answers"] == [sum(r["answer"] == i for r in own) for i in range(4)]
        words = [sum(len(step["body"].split()) for step in r["context"]) for r in own]
        assert row["context_words"]["mean"] == pytest.approx(np.mean(words))
        assert ("hubs" in row) == (task != "visual_ordering") and ("orders" in row) == (task == "visual_ordering")
    textual = [record for record in records if record["task"] == "textual_cloze"]
    right = [len(r["choice_list"][r["answer"]].split()) for r in textual]
    assert found["textual_cloze"]["right_choice_words"]["mean"] == pytest.approx(np.mean(right))
    assert found["textual_cloze"]["images"]["max"] == max(sum(len(s["images"]) for s in r["context"]) for r in textual)


def test_published_numbers_agree_with_one_another():
    published = published_dataset()
    n = {(row["split"], row["task"]): row["n"] for row in published["questions"]}
    for split, total in OFFICIAL_TOTALS.items():
        assert sum(n[split, task] for task in TASKS) == n[split, "all"] == total
        assert all(n[split, task] == count for task, count in OFFICIAL_COUNTS[split].items())
    assert sum(OFFICIAL_TOTALS.values()) == published["construction"]["questions"]
    recipes = {row["split"]: row["n"] for row in published["recipes"]}
    assert recipes["train"] + recipes["val"] + recipes["test"] == recipes["all"] == published["construction"]["recipes"]
    rows = [*published["questions"], *published["recipes"], *published["averages"]]
    assert all(row["confirmed"] is (row["trust"] != "cited") for row in rows)
    assert sum(published["orders"]["kendall"]) == 3 * published["biases"]["visual_ordering"]["n"]


# Counted once in the open part of the released validation questions; the whole of it is in conf/published.
OPEN = {
    "n": (574, 507, 517, 565),
    "recipes": (414, 361, 368, 383),
    "answers": ([145, 145, 135, 149], [125, 123, 136, 123], [127, 141, 126, 123], [139, 135, 140, 151]),
    "empty_bodies": ([51, 3841], [25, 3349], [41, 3464], [14, 3831]),
}


@pytest.fixture(scope="module")
def released(shared):
    return read_questions(shared / "data" / "recipeqa" / "val_open.json.gz")[0]


def test_the_released_questions_have_their_known_statistics(released):
    found = question_statistics({"val": released})["val"]
    for key, values in OPEN.items():
        assert tuple(found[task][key] for task in TASKS) == values, key
    textual, whole = found["textual_cloze"], published_dataset()
    known = whole["validation"]
    assert textual["context_words"]["mean"] == pytest.approx(516.4, abs=0.05)
    for key in ("mean", "median", "p95", "max"):  # 574 of the 961 questions
        assert textual["context_words"][key] == pytest.approx(known["context_words"][key], rel=0.06)
    assert textual["context_words"]["max"] == known["context_words"]["max"]
    assert {key: textual["steps"][key] for key in ("min", "max")} == {"min": 4, "max": 20}
    assert textual["steps"]["mean"] == pytest.approx(known["steps"]["mean"], abs=0.05)
    assert textual["images_per_step"]["mean"] == pytest.approx(known["images_per_step"]["mean"], abs=0.05)
    assert textual["images"]["mean"] == pytest.approx(known["images"]["mean"], abs=0.3)
    assert textual["right_choice_words"]["mean"] == pytest.approx(known["right_choice_words"], abs=0.05)
    assert textual["wrong_choice_words"]["mean"] == pytest.approx(known["wrong_choice_words"], abs=0.05)
    assert textual["one_word_choices"] == [377, 2296] and textual["steps_without_image"] == [182, 3841]
    assert textual["recipes_by_questions"] == {"1": 286, "2": 101, "3": 22, "4": 5}
    assert textual["hubs"]["most"][0] == ["Ingredients", 58, 41] and textual["hubs"]["distinct"] == 1141
    assert sum(found[task]["empty_titles"][0] for task in TASKS[1:]) == 10


def test_the_released_questions_have_their_known_defects(released):
    found = question_statistics({"val": released})["val"]
    defects = found["textual_cloze"]["defects"]
    assert [defects[key]["n"] for key in ("twins", "equal_distractors", "empty_choice")] == [10, 4, 4]
    assert "1000-742-0-2-3-5" in defects["twins"]["qids"] and defects["short_choices"] == 8
    assert found["visual_cloze"]["defects"]["repeated_image"] == 0
    ordering = found["visual_ordering"]
    assert ordering["orders"] == {"kendall": [211, 397, 459, 330, 222, 76], "repeated": [81, 565]}
    assert ordering["defects"]["repeated_permutation"] == 81
