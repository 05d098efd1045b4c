"""Numbers of a report on food questions, against hand counts, scipy and what the paper's authors printed."""

import itertools
import json
import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.food_published import published_groups
from engine.food_scores import ORDERS, ROTATIONS, baselines, gain_of_best, prompt_name, summarise, uniform_p
from tests.food_outcomes import IDENTITY, outcome, outcomes, question, right_place

FOUR = [f"sivqa.zh.{i}.code" for i in range(4)]


def summary(found, questions, failed=(), **given):
    values = {
        "method": "generate",
        "ablation": "none",
        "extraction": "cascade",
        "seed": 0,
        "min_n": 10,
        "system": "toy",
    }
    about = {"identity": {"model": "toy"}, "data_title": "foodieqa/single_image", "is_demo": False}
    about |= {key: given.pop(key) for key in list(given) if key in (*about, "notes")}
    result = summarise(found, questions, failed, settings={**values, **given}, **about)
    json.dumps(result, allow_nan=False)  # plain, and never NaN
    return result


def test_right_wrong_and_unread_of_one_prompt():
    questions = [question(row) for row in range(12)]
    places = [0, 1, 2, 3, 0, 1, 2, 0, 0, 0, None, None]  # rows 0 to 6 right, 8 right
    found = [outcome(q, place) for q, place in zip(questions, places, strict=True)]
    found[-1] = outcome(questions[-1], None, reason="refusal", finish_reason="length")
    found[0] = outcome(questions[0], 0, flags=("conflict",))
    result = summary(found, questions)
    (row,) = result["prompts"]
    assert (row["n"], row["right"], row["accuracy"]) == (12, 8, pytest.approx(8 / 12))
    assert row["failures"] == {
        "count": 2,
        "rate": pytest.approx(2 / 12),
        "by_reason": {"no_candidate": 1, "refusal": 1},
    }
    assert (row["truncated"], row["conflicts"], row["ties"], row["missing"]) == (1, 1, 0, 0)
    assert row["letters"]["answers"] == [5, 2, 2, 1] and row["letters"]["truth"] == [3, 3, 3, 3]
    assert row["letters"]["right"] == [3, 2, 2, 1]
    assert result["test/accuracy"] == row["accuracy"] and result["complete"]
    assert result["over_prompts"]["sd"] is None and result["over_prompts"]["best"]["gain_of_choosing"] == 0
    assert result["clusters"] == 3 and result["positions"] is None
    assert any("no answer could be read in 2 of 12" in line for line in result["verdict"])


def test_mean_sd_and_best_over_prompts():
    questions = [question(row) for row in range(40)]
    right = {FOUR[0]: 10, FOUR[1]: 30, FOUR[2]: 20, FOUR[3]: 28}
    found = [
        outcome(q, q.answer if q.row < right[prompt] else (q.answer + 1) % 4, prompt)
        for q in questions
        for prompt in FOUR
    ]
    over = summary(found, questions)["over_prompts"]
    values = np.asarray(list(right.values())) / 40
    assert over["mean"] == pytest.approx(values.mean()) and over["sd"] == pytest.approx(values.std(ddof=1))
    assert over["best"]["prompt"] == FOUR[1] and over["best"]["note"] == "best of 4, chosen on the test set"
    assert over["best"]["above_mean"] == pytest.approx(0.75 - values.mean())
    assert over["best"]["gain_of_choosing"] == pytest.approx(gain_of_best(4, 40, values.mean()))
    # The published sd is that of a sample: 44.2 ± 7.1 over Idefics2's four prompts.
    authors = np.asarray([145, 199, 205, 163]) / 403
    assert (100 * authors.mean(), 100 * authors.std(ddof=1)) == (
        pytest.approx(44.2, abs=0.05),
        pytest.approx(7.1, abs=0.05),
    )


def test_the_gain_of_choosing_is_what_the_benchmarks_spec_simulated():
    for n, points in ((403, 2.6), (256, 3.2), (705, 1.9)):
        assert 100 * gain_of_best(4, n, 0.5) == pytest.approx(points, abs=0.06)
    assert gain_of_best(1, 403, 0.5) == 0 and gain_of_best(4, 403, 1.0) == 0


@given(st.lists(st.integers(0, 60), min_size=4, max_size=4).filter(lambda c: sum(c) >= 20))
@settings(max_examples=40, deadline=None)
def test_even_letters_by_chi_square(counts):
    from scipy.stats import chisquare

    assert uniform_p(counts) == pytest.approx(chisquare(counts).pvalue, abs=1e-9)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=6))
@settings(max_examples=30, deadline=None)
def test_even_letters_exactly_where_there_are_few(letters):
    counts = [letters.count(k) for k in range(4)]

    def weight(split):
        return math.factorial(len(letters)) / math.prod(math.factorial(c) for c in split)

    every = [[draw.count(k) for k in range(4)] for draw in itertools.product(range(4), repeat=len(letters))]
    expected = np.mean([weight(split) <= weight(counts) * (1 + 1e-12) for split in every])
    assert uniform_p(counts) == pytest.approx(expected)


def test_no_letters_no_p():
    assert uniform_p([0, 0, 0, 0]) is None


def test_ties_share_the_point_and_are_counted():
    questions = [question(row) for row in range(4)]
    found = [outcome(q, q.answer, credit=0.5, method="logprob", reason="scores", letter_mass=0.25) for q in questions]
    (row,) = summary(found, questions, method="logprob")["prompts"]
    assert row["accuracy"] == 0.5 and row["ties"] == 4 and row["published_parser"] is None
    assert row["letter_mass"] == {"mean": 0.25, "below_half": 1.0}


# ---- what is missing -------------------------------------------------------------------------------------------------


def test_without_replies_the_run_is_incomplete_and_says_so():
    questions = [question(row) for row in range(10)]
    found = outcomes(questions[:8], right_place)
    failed = [(FOUR[0], row, IDENTITY, "HTTP 503") for row in (8, 9)]
    result = summary(found, questions, failed)
    (row,) = result["prompts"]
    assert not result["complete"] and result["missing"] == 2 and result["errors"] == {"HTTP 503": 2}
    assert (row["n"], row["asked"], row["accuracy"], row["bounds"]) == (8, 10, 1.0, [0.8, 1.0])
    assert result["verdict"][0].startswith("incomplete: 2 requests got no reply")
    assert sum(group["n"] for group in result["groups"][0]["all"]) == 8


def test_a_question_that_was_never_asked_is_missing_too():
    questions = [question(row) for row in range(10)]
    assert summary(outcomes(questions[:9], right_place), questions)["missing"] == 1


def test_nothing_but_failures():
    questions = [question(row) for row in range(3)]
    result = summary([], questions, [(FOUR[0], row, IDENTITY, "refused") for row in range(3)])
    assert result["test/accuracy"] is None and not result["complete"] and result["missing"] == 3


def test_wrong_input_is_refused():
    questions = [question(row) for row in range(4)]
    found = outcomes(questions, right_place)
    for broken, match in (
        ((found + found[:1], questions), "two outcomes"),
        ((found, questions[:3]), "was not asked"),
        ((found, [*questions[:3], question(3, "textqa")]), "several tasks"),
        ((found, [*questions[:3], question(3, language="en")]), "several languages"),
        (([*found[:3], outcome(questions[3], 0, method="logprob")], questions), "several methods"),
        ((found, [*questions, questions[0]]), "asked twice"),
        (([], []), "no question"),
    ):
        with pytest.raises(ValueError, match=match):
            summary(*broken)


# ---- positions -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("orders", [ROTATIONS, ORDERS], ids=["circular", "all"])
def test_a_system_that_knows_is_right_in_every_order(orders):
    questions = [question(row) for row in range(12)]
    result = summary(outcomes(questions, right_place, orders=orders), questions)
    (row,) = result["positions"]["prompts"]
    assert result["positions"]["orders"] == len(orders) and result["test/accuracy"] == 1
    assert [row[key]["accuracy"] for key in ("vanilla", "mean", "circular")] == [1, 1, 1]
    assert (row["all_orders"] is None) == (len(orders) == 4)
    assert (row["same_content_share"], row["same_letter"], row["failed_in_any"], row["incomplete"]) == (1, 0, 0, 0)
    assert row["letters"]["answers"] == [12 * len(orders) // 4] * 4


def test_a_constant_letter_is_right_by_chance_and_never_in_all_rotations():
    questions = [question(row, answer=0) for row in range(12)]
    result = summary(outcomes(questions, lambda q, order: 0, orders=ROTATIONS), questions)
    (row,) = result["positions"]["prompts"]
    assert (row["vanilla"]["accuracy"], row["mean"]["accuracy"], row["circular"]["accuracy"]) == (1, 0.25, 0)
    assert (row["same_content_share"], row["same_letter_share"]) == (0, 1)
    assert [place["accuracy"] for place in row["by_place"]] == [1, 0, 0, 0]


def test_an_unread_reply_in_one_rotation_spoils_the_question_and_is_counted():
    questions = [question(row) for row in range(4)]
    bad = ROTATIONS[2]
    found = outcomes(questions, lambda q, o: None if q.row == 0 and o == bad else right_place(q, o), orders=ROTATIONS)
    (row,) = summary(found, questions)["positions"]["prompts"]
    assert (row["circular"]["right"], row["failed_in_any"], row["failures"], row["same_content"]) == (3, 1, 1, 3)
    assert row["vanilla"]["accuracy"] == 1 and row["mean"]["accuracy"] == pytest.approx(15 / 16)


def test_questions_not_rotated_and_questions_without_a_reply_stay_out():
    questions = [question(row) for row in range(6)]
    found = outcomes(questions[:1], right_place) + outcomes(questions[1:], right_place, orders=ROTATIONS)
    lost = [o for o in found if o.question.row == 5 and o.order == ROTATIONS[1]]
    kept = [o for o in found if o not in lost]
    result = summary(kept, questions, [(FOUR[0], 5, ROTATIONS[1], "timeout")])
    (row,) = result["positions"]["prompts"]
    assert (row["n"], row["incomplete"], result["positions"]["left_out"], result["missing"]) == (4, 1, 1, 1)
    assert result["prompts"][0]["n"] == 6, "the file's own order has all"
    assert summary(found, questions, left_out_of_rotation=1)["positions"]["left_out"] == 1


@given(st.lists(st.sampled_from([0, 1, 2, 3, None]), min_size=16, max_size=16), st.randoms(use_true_random=False))
@settings(max_examples=25, deadline=None)
def test_circular_never_exceeds_any_order_and_the_order_of_outcomes_means_nothing(shown, rng):
    questions = [question(row) for row in range(4)]
    chosen = {(row, order): shown[4 * row + i] for row in range(4) for i, order in enumerate(ROTATIONS)}
    found = outcomes(questions, lambda q, o: chosen[q.row, o], orders=ROTATIONS)
    result = summary(found, questions)
    (row,) = result["positions"]["prompts"]
    assert row["circular"]["accuracy"] <= min(row["vanilla"]["accuracy"], row["mean"]["accuracy"])
    assert row["circular"]["right"] <= row["same_content"]
    shuffled = list(found)
    rng.shuffle(shuffled)
    again = summary(shuffled, questions)
    assert again["positions"] == result["positions"] and again["test/accuracy"] == result["test/accuracy"]


# ---- groups and baselines --------------------------------------------------------------------------------------------


def _of_the_paper():
    """Outcomes with the right answers of Idefics2's best prompt in Chinese, by type and by cuisine or category."""
    (types,) = [row for row in published_groups("mivqa", "question_type") if row["system"] == "Idefics2-8B"]
    split = {"other": [("other", 2, 2), ("expense", 1, 1), ("smell", 1, 1), ("history", 0, 1)]}
    kinds = [
        (name, is_right)
        for group, (right, n) in types["groups"].items()
        for name, r, k in split.get(group, [(group, right, n)])
        for is_right in [True] * r + [False] * (k - r)
    ]
    labels = {True: [], False: []}
    for by in ("cuisine", "category"):
        (row,) = [row for row in published_groups("mivqa", by) if row["system"] == "Idefics2-8B"]
        for group, (right, n) in row["groups"].items():
            labels[True] += [(by, group)] * right
            labels[False] += [(by, group)] * (n - right)
    rng = random.Random(0)
    for part in labels.values():
        rng.shuffle(part)
    questions, found = [], []
    for row, (kind, is_right) in enumerate(kinds):
        by, group = labels[is_right].pop()
        given = {"cuisine": "", "category": "", by: group}
        q = question(row, "mivqa", question_type=kind, cluster=f"photos {row}", **given)
        questions.append(q)
        found.append(outcome(q, q.answer if is_right else (q.answer + 1) % 4, "mivqa.zh.2.code_idefics2"))
    return found, questions


def test_groups_of_the_paper():
    found, questions = _of_the_paper()
    result = summary(found, questions)
    (row,) = result["prompts"]
    assert (row["right"], row["n"]) == (205, 403) and 100 * row["accuracy"] == pytest.approx(50.87, abs=0.005)
    assert [round(100 * bound, 1) for bound in row["interval"]] == [46.0, 55.7]
    assert row["clustered"] == pytest.approx(row["interval"]), "one question a cluster: the same interval"
    types, cuisines, categories = result["groups"]
    assert [g["attribute"] for g in result["groups"]] == ["question_type", "cuisine", "category"]
    counted = {r["label"]: (r["right"], r["n"]) for r in types["rows"]}
    wanted = {
        "Amount": (8, 11),
        "Plating": (15, 23),
        "Food type": (37, 60),
        "Ingredients": (53, 119),
        "Color": (15, 36),
    }
    wanted |= {"Taste": (21, 50), "Region": (6, 15), "Allergy": (7, 12), "Eating habit": (14, 27)}
    assert counted == {**wanted, "Cooking skills": (25, 45), "other (n<10)": (4, 5)}
    assert sum(right for right, _ in counted.values()) == 205 and len(counted) == 11
    assert types["rows"][-1]["merged"] and len(types["all"]) == 14
    assert (cuisines["n"], categories["n"]) == (238, 165), "two disjoint sets, two tables"
    assert sum(r["right"] for r in cuisines["all"]) == 123 and sum(r["right"] for r in categories["all"]) == 82
    (barbecue,) = [r for r in categories["all"] if r["spelled"] == ["bbq"]]
    assert (barbecue["right"], barbecue["n"], barbecue["small"]) == (4, 5, True)
    assert [round(100 * bound, 1) for bound in barbecue["interval"]] == [37.6, 96.4]
    cells = [np.asarray(block["n"]) for block in result["cross"]["blocks"]]
    assert [int(part.sum()) for part in cells] == [238, 165] and result["cross"]["columns"][-1] == "other (n<10)"
    rights = sum(np.asarray(block["right"]).sum() for block in result["cross"]["blocks"])
    assert rights == pytest.approx(205)


@pytest.mark.parametrize(("right", "n", "low", "high"), [(120, 256, 40.9, 53.0), (481, 705, 64.7, 71.6)])
def test_intervals_of_the_papers_figures(right, n, low, high):
    questions = [question(row) for row in range(n)]
    found = [outcome(q, q.answer if q.row < right else (q.answer + 1) % 4) for q in questions]
    row = summary(found, questions)["prompts"][0]
    assert [round(100 * bound, 1) for bound in row["interval"]] == [low, high]
    assert row["clustered"][1] - row["clustered"][0] > row["interval"][1] - row["interval"][0]


def test_groups_are_means_over_prompts_with_the_best_prompt_beside():
    questions = [question(row, question_type="flavor" if row < 12 else "present") for row in range(24)]
    found = outcomes(questions, right_place, FOUR[:1])
    found += outcomes(questions, lambda q, o: q.answer if q.row < 12 else (q.answer + 1) % 4, FOUR[1:2])
    (types, _) = summary(found, questions)["groups"]
    assert {r["label"]: (r["right"], r["best"]["right"]) for r in types["rows"]} == {
        "Flavor": (12, 12),
        "Presentation": (6, 12),
    }


def test_spellings_of_one_cuisine_are_one_group_and_a_single_small_group_keeps_its_name():
    kinds = ["上海菜"] * 6 + ["上海本帮菜"] * 6 + ["川菜"] * 3
    questions = [question(row, cuisine=kind) for row, kind in enumerate(kinds)]
    (_, cuisines) = summary(outcomes(questions, right_place), questions)["groups"]
    assert [(r["label"], r["n"], r["small"]) for r in cuisines["rows"]] == [
        ("Shanghai", 12, False),
        ("Sichuan", 3, True),
    ]
    assert cuisines["rows"][0]["spelled"] == ["上海本帮菜", "上海菜"] and "merged" not in cuisines["rows"][-1]


def test_where_every_group_is_small_none_is_merged():
    questions = [question(row, question_type="flavor" if row % 2 else "present") for row in range(8)]
    result = summary(outcomes(questions, right_place, ["none"]), questions)
    assert [row["label"] for row in result["groups"][0]["rows"]] == ["Flavor", "Presentation"]
    assert result["cross"]["columns"] == ["Presentation", "Flavor"]
    assert result["prompts"][0]["label"] == "toy", "a system without prompts goes by its name"


def test_questions_without_a_cuisine_are_in_no_group():
    questions = [question(row, cuisine="") for row in range(4)]
    result = summary(outcomes(questions, right_place), questions)
    assert [group["attribute"] for group in result["groups"]] == ["question_type"] and result["cross"] is None


def test_baselines_on_the_very_rows():
    choices = {0: ("长长长", "短", "中中", "中中"), 1: ("短", "长长", "长长", "短")}
    questions = [question(row, choices=choices[row % 2], answer=0) for row in range(4)]
    rows = {row["system"]: row for row in baselines(questions)}
    assert [rows[f"always {letter}"]["accuracy"] for letter in "ABCD"] == [1, 0, 0, 0]
    assert rows["longest option"]["accuracy"] == 0.5 and rows["shortest option"]["accuracy"] == 0.25
    assert rows["chance"]["accuracy"] == 0.25 and rows["majority letter by question type"]["note"]
    pictures = [question(row, "mivqa") for row in range(4)]
    assert not any("option" in row["system"] for row in baselines(pictures))
    mixed = [*pictures[:3], question(3, "mivqa", choices=("甲", "乙乙", "丙丙丙", "丁丁丁丁"))]
    longest = next(row for row in baselines(mixed) if row["system"] == "longest option")
    assert longest["right"] == 1.75 and "3 questions without texts" in longest["note"]


def test_what_a_trivial_rule_reaches_is_said():
    questions = [question(row, answer=3) for row in range(40)]
    result = summary(outcomes(questions, lambda q, order: 3), questions)
    assert any("always D" in line and "no difference" in line for line in result["verdict"])
    assert any("scores as high or higher: longest option" in line for line in result["verdict"])
    assert any("every answer is D" in line for line in result["verdict"])


# ---- the published parser --------------------------------------------------------------------------------------------


def test_the_published_parser_stands_beside_the_honest_figure():
    questions = [question(row) for row in range(40)]
    found = [outcome(q, q.answer, response=f"Answer: {'ABCD'[q.answer]}") for q in questions[:20]]
    found += [outcome(q, None, response="不知道") for q in questions[20:]]
    result = summary(found, questions)
    (row,) = result["prompts"]
    parser = row["published_parser"]
    assert row["accuracy"] == 0.5 and (parser["guessed"], parser["n"]) == (20, 40)
    assert parser["expected"] == pytest.approx((5 + 20 / 4) / 40), "the A of `Answer` is right in a quarter"
    assert summary(found, questions) == result, "guesses are seeded"
    assert any("20 of 40 answers guessed" in line for line in result["verdict"])


def test_a_run_read_by_the_published_parser_is_called_no_honest_figure():
    questions = [question(row) for row in range(8)]
    found = outcomes(questions, right_place, reason="guessed")
    result = summary(found, questions, extraction="first_letter_random")
    assert any("guessed 8 of them: no honest figure" in line for line in result["verdict"])


def test_prompts_have_names_for_people():
    assert prompt_name("mivqa.zh.2.code_idefics2") == "prompt 2 (code_idefics2)" and prompt_name("none") == "none"
