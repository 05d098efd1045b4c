"""Agreement of verifiers: hand-made tables, scikit-learn, records as the published tool writes them."""

import json
import os
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.errors import InputError
from data.foodieqa import read_release
from data.records import FOOD_TASKS
from data.verification import read_records, read_verification, says_unknown
from models.agreement import (
    PUBLISHED,
    UNKNOWN,
    ValidationSettings,
    cohen_kappa,
    fill,
    kappa_over_people,
    kappas,
    pooled_kappa,
    render,
    validate,
    write_validation,
)
from tests.made_up_foodieqa import FILES, write_release

FAST = ValidationSettings(fills=200, bootstrap=200)


def record(question: int, person: str, answer: str, task: str = "textqa", **changes: Any) -> dict[str, Any]:
    """One answer as val-ui writes it; the right option of question q is q mod 4."""
    found: dict[str, Any] = {
        "question": f"哪一项是第{question}题的答案？",
        "choices": [f"甲{question}", f"乙{question}", f"丙{question}", f"丁{question}"],
        "user-answer": answer,
        "gt": str(question % 4),
        "rationale": None if task == "textqa" else "看颜色",
        "bad_q": "No",
        "num_hops": "single",
        "question_id": f"{task}-{question}",
        "session_id": f"val-{person}",
    }
    if task == "mivqa":
        found |= {"ann_group": "川", "choices": "", "images": [f"b/{question}_{i}.jpg" for i in range(4)]}
    elif task == "sivqa":
        name = f"b/{question}_a.jpg"
        found |= {"question_type": "flavor", "images": name, "food_file": {"food_file": name, "food_name": "x"}}
    else:
        found |= {"question_type": "region-2" if question % 2 else "flavor", "food_name": "x"}
    return found | changes


def pairs_of(answers: list[tuple[str, str]], task: str = "textqa") -> list[dict[str, Any]]:
    return [record(q, who, said, task) for q, both in enumerate(answers) for who, said in zip("ab", both, strict=True)]


# ---- kappa -----------------------------------------------------------------------------------------------------------


def test_kappa_of_a_table_counted_by_hand():
    # 10 questions, 7 alike. Pooled marginals: A 6/20, B 6/20, C 4/20, D 4/20; chance .09 + .09 + .04 + .04 = .26.
    a = [0, 0, 0, 1, 1, 1, 2, 2, 3, 3]
    b = [0, 0, 1, 1, 1, 2, 2, 0, 3, 3]
    assert pooled_kappa(a, b) == pytest.approx((0.7 - 0.26) / (1 - 0.26))
    # Cohen's own: A 3 and 3, B 3 and 3, C 2 and 2, D 2 and 2 of ten: the same marginals here.
    assert cohen_kappa(a, b) == pytest.approx((0.7 - 0.26) / (1 - 0.26))
    # With unlike marginals the two differ: chance .5 * .25 + .5 * .75 = .5 against .625^2 + .375^2.
    a, b = [0, 0, 1, 1], [0, 1, 1, 1]
    assert cohen_kappa(a, b) == pytest.approx((0.75 - 0.5) / 0.5)
    assert pooled_kappa(a, b) == pytest.approx((0.75 - 0.53125) / (1 - 0.53125))


def test_kappa_is_undefined_where_chance_agreement_is_one():
    for a, b in (([], []), ([2], [2]), ([1, 1, 1], [1, 1, 1])):
        assert cohen_kappa(a, b) is None
        assert pooled_kappa(a, b) is None
    assert np.isnan(kappas(np.array([[1, 1]]), np.array([[1, 1]])))[0]


def test_kappa_of_independent_answers_is_about_zero():
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 4, (2, 20_000))
    assert abs(pooled_kappa(a, b) or 1) < 0.02
    assert pooled_kappa(a, a) == pytest.approx(1)


choices = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=30)


@settings(max_examples=100, deadline=None)
@given(choices, st.data())
def test_order_free_kappa_ignores_which_answer_came_first(pairs, data):
    a, b = np.array(pairs).T
    swap = np.array(data.draw(st.lists(st.booleans(), min_size=len(a), max_size=len(a))))
    first, second = np.where(swap, b, a), np.where(swap, a, b)
    before, after = pooled_kappa(a, b), pooled_kappa(first, second)
    assert before == after if before is None else after == pytest.approx(before)


@settings(max_examples=100, deadline=None)
@given(choices)
def test_many_kappas_at_once_are_those_of_scikit_learn(pairs):
    a, b = np.array(pairs).T
    found = kappas(np.stack([a, b, a]), np.stack([b, a, a]))
    for got, want in zip(found, [pooled_kappa(a, b), pooled_kappa(a, b), pooled_kappa(a, a)], strict=True):
        assert np.isnan(got) if want is None else got == pytest.approx(want)


def test_kappa_over_people_is_that_of_each_two():
    rows = [("x", a, "y", b) for a, b in zip([0, 0, 1, 1], [0, 1, 1, 1], strict=True)]
    rows += [("z", b, "x", a) for a, b in zip([0, 1], [0, 1], strict=True)] + [("z", 2, "y", 2)]
    found = kappa_over_people(rows)
    assert found["mean"] == pytest.approx((0.5 + 1) / 2)
    assert found["weighted"] == pytest.approx((4 * 0.5 + 2 * 1) / 6)
    assert (found["pairs"], found["undefined"]) == (3, 1)
    swapped = [(other, b, person, a) for person, a, other, b in rows]
    assert kappa_over_people(swapped) == found
    assert kappa_over_people([]) == {"mean": None, "weighted": None, "pairs": 0, "undefined": 0}


def test_fills_touch_unknown_answers_only_and_draw_evenly():
    found = fill(np.array([3, UNKNOWN, 0], dtype=np.int8), 8000, np.random.default_rng(0))
    assert (found[:, 0] == 3).all() and (found[:, 2] == 0).all()
    shares = np.bincount(found[:, 1], minlength=4) / 8000
    assert np.abs(shares - 0.25).max() < 0.02


# ---- the whole, counted by hand --------------------------------------------------------------------------------------


def test_a_small_set_counted_by_hand():
    """Right: 0, 1, 2, 3, 0, 1, 2, 3. "4" is "I don't know"."""
    answers = [("0", "0"), ("1", "1"), ("2", "0"), ("3", "3"), ("0", "4"), ("4", "4"), ("2", "2"), ("1", "1")]
    records = pairs_of(answers)
    records[12]["bad_q"] = "Yes"  # question 6, one verifier
    found = validate(records, None, FAST, task="textqa").report
    assert (found["questions"], found["answers"], found["people"], found["bad"]) == (8, 16, 2, 1)
    assert (found["kept"], found["dropped"], found["unknown_answers"], found["disagreements"]) == (7, 1, 3, 3)
    scopes = found["scopes"]
    assert {name: row["n"] for name, row in scopes.items()} == {
        "before_drop": 8,
        "all": 7,
        "in_domain": 5,
        "both_know": 5,
        "agreed": 4,
    }
    # Without question 6: credits 1, 1, .5, 1, (1 + 1/4)/2, 1/4, 0.
    assert scopes["all"]["accuracy"] == pytest.approx((1 + 1 + 0.5 + 1 + 0.625 + 0.25 + 0) / 7)
    assert scopes["in_domain"]["accuracy"] == pytest.approx(3.5 / 5)
    # Both know: 00 11 20 33 11: pooled A 3/10, B 4/10, C 1/10, D 2/10.
    chance = 0.09 + 0.16 + 0.01 + 0.04
    assert scopes["both_know"]["kappa"] == pytest.approx((0.8 - chance) / (1 - chance))
    assert scopes["agreed"]["kappa"] == pytest.approx(1)
    assert scopes["all"]["kappa_sd"] > 0
    both = validate(records, None, replace(FAST, accuracy="both"), task="textqa").report["scopes"]["all"]
    assert both["accuracy"] == pytest.approx((1 + 1 + 0 + 1 + 0.25 + 1 / 16 + 0) / 7)
    assert both["accuracy_fill_mean"] == pytest.approx(both["accuracy"], abs=0.03)


def test_settings_decide_what_the_paper_leaves_open():
    records = pairs_of([("0", "0"), ("1", "4"), ("2", "2"), ("3", "0")])
    records[4]["bad_q"] = "yes"
    one_flag = validate(records, None, FAST, task="textqa").report
    both_flags = validate(records, None, replace(FAST, bad="all"), task="textqa").report
    assert (one_flag["bad"], both_flags["bad"]) == (1, 0)
    assert one_flag["scopes"]["in_domain"]["n"] == 2
    one_knows = validate(records, None, replace(FAST, in_domain="one"), task="textqa").report
    assert one_knows["scopes"]["in_domain"]["n"] == 3
    assert one_knows["scopes"]["both_know"]["n"] == 2
    filtered = validate(records, None, replace(FAST, agreement="yes"), task="textqa")
    assert [line["row"] for line in filtered.kept] == [None]
    assert sorted(reason for line in filtered.dropped for reason in line["reasons"]) == [
        'an "I don\'t know"',
        "answered differently",
        "bad question, flagged by val-a",
    ]


def test_the_agreement_filter_is_on_for_images_and_off_for_text():
    answers = [("0", "0"), ("1", "2"), ("2", "2")]
    for task, kept in (("mivqa", 2), ("sivqa", 3), ("textqa", 3)):
        assert validate(pairs_of(answers, task), None, FAST, task=task).report["kept"] == kept


def test_the_exact_accuracy_is_the_mean_over_fills():
    rng = np.random.default_rng(3)
    records = pairs_of([(str(a), str(b)) for a, b in rng.integers(0, 5, (40, 2))])
    row = validate(records, None, replace(FAST, fills=4000), task="textqa").report["scopes"]["all"]
    assert row["accuracy_fill_mean"] == pytest.approx(row["accuracy"], abs=4 * row["accuracy_fill_sd"] / 4000**0.5)
    assert row["accuracy_fill_sd"] > 0
    sure = validate(pairs_of([("0", "1")] * 1 + [("1", "1")]), None, FAST, task="textqa").report["scopes"]["all"]
    assert sure["accuracy_fill_sd"] == 0


def test_the_same_seed_gives_the_same_report_and_the_interval_holds_the_estimate():
    rng = np.random.default_rng(5)
    right = np.arange(80) % 4
    said = np.where(rng.random((2, 80)) < 0.7, right, rng.integers(0, 5, (2, 80)))
    records = pairs_of([(str(a), str(b)) for a, b in said.T])
    found = validate(records, None, FAST, task="textqa").report
    assert found == validate(records, None, FAST, task="textqa").report
    for name in ("all", "both_know"):
        row = found["scopes"][name]
        low, high = row["kappa_interval"]
        assert low < row["kappa"] < high
        assert 0.1 < high - low < 0.6
    assert found["scopes"]["all"]["kappa"] < found["scopes"]["both_know"]["kappa"]
    other = validate(records, None, replace(FAST, seed=1), task="textqa").report
    assert other["scopes"]["all"]["kappa"] != found["scopes"]["all"]["kappa"]
    assert other["scopes"]["both_know"]["kappa"] == found["scopes"]["both_know"]["kappa"]


def test_order_of_the_records_changes_no_figure():
    rng = np.random.default_rng(1)
    records = pairs_of([(str(a), str(b)) for a, b in rng.integers(0, 4, (30, 2))])
    found = validate(records, None, FAST, task="textqa").report
    swapped = [records[i + 1 - 2 * (i % 2)] for i in range(len(records))]
    again = validate(swapped, None, FAST, task="textqa").report
    for name, row in found["scopes"].items():
        for key in ("n", "kappa", "agreement", "accuracy", "kappa_people"):
            want = row[key] if isinstance(row[key], dict) or row[key] is None else pytest.approx(row[key])
            assert again["scopes"][name][key] == want


def test_groups_by_type_and_by_people():
    records = pairs_of([("0", "0"), ("1", "1"), ("2", "2"), ("3", "1")])
    records[6]["session_id"] = "val-c"
    found = validate(records, None, FAST, task="textqa").report
    assert {name: row["n"] for name, row in found["by_type"].items()} == {"flavor": 2, "region-2": 2}
    assert found["by_type"]["region-2"]["accuracy"] == pytest.approx(0.75)
    assert {name: row["n"] for name, row in found["by_people"].items()} == {"val-a / val-b": 3, "val-b / val-c": 1}
    assert any("2 pairs of people" in note for note in found["notes"])


def test_multi_hop_share():
    records = pairs_of([("0", "0")] * 1 + [("1", "1"), ("2", "2")], "mivqa")
    for i, hops in enumerate(("multiple", "multiple", "multiple", "single", "", "single")):
        records[i]["num_hops"] = hops
    found = validate(records, None, FAST, task="mivqa").report["multi_hop"]
    assert found == {"answers": 5, "share": 0.6, "questions": 2, "both": 0.5, "any": 1.0, "differ": 1}


def test_a_third_answer_and_a_lonely_one_are_reported_and_do_not_count():
    records = [*pairs_of([("0", "0"), ("1", "1")]), record(0, "c", "3"), record(7, "a", "3")]
    found = validate(records, None, FAST, task="textqa")
    assert (found.report["more_than_two"], found.report["incomplete"], found.report["two_answers"]) == (1, 1, 2)
    assert found.report["scopes"]["all"]["accuracy"] == 1
    assert found.dropped[0]["reasons"] == ["1 answer, two are needed"]


def test_disagreements_go_to_a_judge_without_the_right_answer():
    found = validate(pairs_of([("0", "0"), ("1", "2"), ("4", "2")]), None, FAST, task="textqa")
    assert [line["question"] for line in found.disagreements] == ["哪一项是第1题的答案？", "哪一项是第2题的答案？"]
    first = found.disagreements[0]
    assert [answer["choice"] for answer in first["answers"]] == ["B", "C"]
    assert not {"answer", "gt"} & set(first)
    assert [answer["knows"] for answer in found.disagreements[1]["answers"]] == [False, True]


# ---- records ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "unknown"),
    [
        *(("I don't know", True), ("I don’t know.", True), ("i dont know this dish", True), ("I DO NOT KNOW", True)),
        *(
            ("don`t know", True),
            ("不知道", True),
            ("我不太清楚", False),
            ("我不清楚这道菜", True),
            ("I don't know", True),
        ),
        *(("", False), ("I know this dish", False), ("知道", False), ("the chili is red", False)),
    ],
)
def test_i_do_not_know_is_matched_loosely(text, unknown):
    assert says_unknown(text) == unknown


def test_what_says_i_do_not_know_in_each_task():
    guess = record(1, "a", "1", "sivqa", rationale="I don’t know, a guess")
    found = read_verification([guess, record(2, "a", "4", "sivqa")], "sivqa")
    assert [(a.knows, a.choice) for a in found.answers] == [(False, 1), (False, None)]
    text = read_verification([record(1, "a", "1", rationale="I don't know"), record(2, "a", "4")], "textqa")
    assert [(a.knows, a.choice) for a in text.answers] == [(True, 1), (False, None)]


def test_a_bad_question_may_stay_unanswered():
    records = pairs_of([("0", "0"), ("1", "1")])
    records[2] |= {"bad_q": "Yes", "user-answer": ""}
    found = validate(records, None, replace(FAST, bad="all"), task="textqa").report
    assert (found["bad"], found["unknown_answers"], found["scopes"]["both_know"]["n"]) == (0, 1, 1)


@pytest.mark.parametrize("task", FOOD_TASKS)
def test_a_folder_of_the_published_tool_is_read(tmp_path, task):
    records = pairs_of([("0", "0"), ("1", "3"), ("2", "2")], task)
    for i, line in enumerate(records):
        folder = tmp_path / line["session_id"]
        folder.mkdir(exist_ok=True)
        path = folder / f"vqa_{i // 2}_{line['session_id']}.json"
        path.write_text(json.dumps(line, ensure_ascii=False), encoding="utf-8")
        os.utime(path, (1000 + i, 1000 + i))
    (tmp_path / "image_data_0_x.json").write_text("{}")
    found = read_records(tmp_path)
    assert [{key: value for key, value in line.items() if key != "source"} for line in found] == records
    lines = tmp_path / "all.jsonl"
    lines.write_text("\n".join(json.dumps(line) for line in records), encoding="utf-8")
    array = tmp_path / "all.json"
    array.write_text(json.dumps(records), encoding="utf-8")
    reports = [validate(read_records(path), None, FAST, task=task).report for path in (tmp_path, lines, array)]
    assert reports[0] == reports[1] == reports[2]
    assert reports[0]["two_answers"] == 3


def test_the_last_answer_of_a_person_counts():
    records = [record(0, "a", "3"), record(0, "b", "0"), record(0, "a", "0")]
    found = validate(records, None, FAST, task="textqa").report
    assert found["repeated"] == 1
    assert found["scopes"]["all"]["accuracy"] == 1
    assert any("replaced by a later one" in note for note in found["notes"])


@pytest.mark.parametrize("task", FOOD_TASKS)
def test_answers_find_their_questions_by_content_or_by_row(tmp_path, task):
    root = tmp_path / "release"
    write_release(root, {task: 12})
    questions = read_release(root / FILES[task], task, "zh")
    raw = json.loads((root / FILES[task]).read_text(encoding="utf-8"))
    records = []
    for row in (7, 2, 11):
        for who in "ab":
            line = raw[row]
            given = {key: line[key] for key in ("question", "choices", "question_id")}
            given |= {
                "user-answer": line["answer"],
                "session_id": who,
                "bad_q": "No",
                "num_hops": "single",
                "rationale": "x",
            }
            if task != "textqa":
                given["images"] = line["images"] if task == "mivqa" else line["food_meta"]["food_file"]
            records.append(given)
    stranger = record(1, "a", "1", task)
    found = validate([*records, stranger], questions, FAST)
    assert [line["row"] for line in found.kept] == [2, 7, 11]
    assert found.kept[0]["record_hash"] == questions[2].record_hash
    assert found.report["scopes"]["all"]["accuracy"] == 1
    assert found.report["unmatched"] == 1
    with_rows = [{**line, "row": row} for line, row in zip(records, (7, 7, 2, 2, 11, 11), strict=True)]
    assert validate(with_rows, questions, FAST).kept == found.kept
    wrong = [{**line, "row": 0} for line in records]
    with pytest.raises(InputError, match="none of the 6 answers belongs"):
        validate(wrong, questions, FAST)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"user-answer": "7"}, "user-answer is '7'"),
        ({"user-answer": ""}, "user-answer is ''"),
        ({"gt": "4"}, "gt is '4'"),
        ({"session_id": " "}, "no session_id"),
        ({"question": None}, "no question"),
        ({"choices": ["a", "b", "c"]}, "3 options"),
        ({"choices": ""}, "0 options"),
        ({"choices": 3}, "choices is no list"),
        ({"images": 3}, "images is no list"),
        ({"row": "1"}, "row is '1'"),
    ],
)
def test_a_wrong_record_is_named_in_one_line(changes, message):
    with pytest.raises(InputError, match=message) as error:
        read_verification([record(1, "a", "1") | changes | {"source": "vqa_1_x.json"}], "textqa")
    assert str(error.value).startswith("vqa_1_x.json")
    assert "\n" not in str(error.value)


def test_wrong_input_of_other_kinds(tmp_path):
    with pytest.raises(InputError, match="0 files"):
        read_records(tmp_path)
    (tmp_path / "vqa_0_a.json").write_text("[1]")
    with pytest.raises(InputError, match="no JSON record"):
        read_records(tmp_path)
    with pytest.raises(InputError, match="cannot be read"):
        read_records(tmp_path / "nothing.json")
    (tmp_path / "broken.json").write_text("[{")
    with pytest.raises(InputError, match="neither a JSON array"):
        read_records(tmp_path / "broken.json")
    (tmp_path / "numbers.json").write_text("[1]")
    with pytest.raises(InputError, match="record 0 is no object"):
        read_records(tmp_path / "numbers.json")
    with pytest.raises(InputError, match="differs from another record"):
        read_verification([record(1, "a", "1"), record(1, "b", "1", gt="2")], "textqa")
    with pytest.raises(InputError, match="task=cooking"):
        read_verification([], "cooking")
    for wrong in ({"bad": "some"}, {"in_domain": "none"}, {"agreement": "on"}, {"accuracy": "max"}, {"fills": 0}):
        with pytest.raises(InputError, match="validation: "):
            ValidationSettings(**wrong)  # pyright: ignore[reportArgumentType]


@settings(max_examples=100, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(
            ["question", "choices", "user-answer", "gt", "rationale", "bad_q", "session_id", "images", "row"]
        ),
        st.one_of(
            st.none(), st.integers(), st.text(max_size=5), st.lists(st.text(max_size=3), max_size=5), st.just({"a": 1})
        ),
    ),
    st.sampled_from(FOOD_TASKS),
)
def test_no_record_raises_anything_but_a_line_for_the_user(changes, task):
    try:
        validate([record(1, "a", "1", task) | changes, record(1, "b", "1", task)], None, FAST, task=task)
    except InputError as error:
        assert "\n" not in str(error)


# ---- what is written -------------------------------------------------------------------------------------------------


def test_the_report_shows_the_published_figures_as_other_questions():
    text = render(validate(pairs_of([("0", "0"), ("1", "2"), ("4", "2")]), None, FAST, task="textqa", title="made-up"))
    assert text.startswith("# Agreement of verifiers: made-up\n")
    assert "| 705 | 0.470 | 56.2 |" in text and "| 307 | 0.808 | 85.7 |" in text
    assert "other questions and other people" in text
    assert "(published, other questions: 135)" in text
    widths = {
        line.count("|")
        for line in text.splitlines()
        if line.startswith("| ") and "published" in text[: text.find(line)]
    }
    assert len(widths) <= 2


def test_published_figures():
    assert [PUBLISHED[task]["all"]["kappa"] for task in FOOD_TASKS] == [0.834, 0.556, 0.470]
    assert [PUBLISHED[task]["in_domain"]["kappa"] for task in ("sivqa", "textqa")] == [0.674, 0.808]
    assert [PUBLISHED[task]["dropped"] for task in FOOD_TASKS] == [87, 88, 135]


def test_published_figures_are_those_of_the_material(shared):
    rows = json.loads((shared / "published" / "foodieqa.json").read_text(encoding="utf-8"))
    found = 0
    for row in rows:
        if str(row["system"]).startswith("Human (two"):
            scope = "in_domain" if row["setting"].startswith("in-domain") else "all"
            ours = PUBLISHED[row["task"]][scope]
            if row["metric"] == "cohen_kappa":
                assert ours["kappa"] == row["value"]
            else:
                assert ours["accuracy"] == pytest.approx(row["value"] / 100)
            assert ours["n"] == row["n"]
            found += 1
    assert found == 10


def test_files_of_a_report(tmp_path):
    found = validate(pairs_of([("0", "0"), ("1", "2"), ("3", "3")], "mivqa"), None, FAST, task="mivqa")
    names = write_validation(tmp_path, found)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names)
    dropped = json.loads((tmp_path / "dropped.json").read_text(encoding="utf-8"))
    assert [line["reasons"] for line in dropped] == [["answered differently"]]
    report = json.loads((tmp_path / "agreement.json").read_text(encoding="utf-8"))
    assert report == json.loads(json.dumps(found.report))
    assert (tmp_path / "agreement.md").read_text(encoding="utf-8") == render(found)


def test_nothing_answered_twice_is_a_report_too():
    found = validate([record(0, "a", "0")], None, FAST, task="textqa")
    assert found.report["two_answers"] == 0
    assert all(row["kappa"] is None and row["accuracy"] is None for row in found.report["scopes"].values())
    assert "– " in render(found)


@pytest.mark.slow
def test_as_many_answers_as_the_release_has_with_the_default_settings():
    rng = np.random.default_rng(0)
    records = pairs_of([(str(a), str(b)) for a, b in rng.integers(0, 5, (705, 2))])
    row = validate(records, None, task="textqa").report["scopes"]["all"]
    assert abs(row["kappa"]) < 0.1


def test_swapping_places_for_all_combinations_of_two_questions():
    for first, second in product(product(range(4), repeat=2), repeat=2):
        a, b = zip(first, second, strict=True)
        swapped = pooled_kappa([first[1], second[0]], [first[0], second[1]])
        assert swapped == pooled_kappa(a, b) or swapped == pytest.approx(pooled_kappa(a, b))
