"""The paired comparison of two runs, against scipy and by its symmetries."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.errors import InputError
from engine.food_compare import cluster_bootstrap, compare_runs, mcnemar_exact, render_comparison, verdict_line
from engine.food_report import prediction_rows
from engine.runfolder import write_json, write_jsonl
from tests.food_outcomes import outcome, outcomes, question, right_place

PROMPTS = ["sivqa.zh.0.code", "sivqa.zh.1.code"]


def run(folder, found, name, **given):
    write_jsonl(folder / "predictions.jsonl", prediction_rows(found))
    write_json(folder / "metrics.json", {"model": name, "data": "made up", "settings": given})
    return folder


def first(n):
    """A system that is right in the first n rows."""
    return lambda q, order: right_place(q, order) if q.row < n else (right_place(q, order) + 1) % 4


@given(st.integers(0, 60), st.integers(0, 60))
@settings(max_examples=50, deadline=None)
def test_mcnemar_is_the_binomial_test(only_a, only_b):
    from scipy.stats import binomtest

    expected = binomtest(only_a, only_a + only_b, 0.5).pvalue if only_a + only_b else 1.0
    assert mcnemar_exact(only_a, only_b) == pytest.approx(expected)


def test_the_bootstrap_draws_clusters():
    rng = np.random.default_rng(0)
    alone = rng.choice([-1.0, 0.0, 1.0], size=400, p=[0.2, 0.5, 0.3])
    low, high = cluster_bootstrap(alone, np.arange(400))
    half = 1.96 * alone.std(ddof=1) / 20
    assert (low, high) == (pytest.approx(alone.mean() - half, abs=0.01), pytest.approx(alone.mean() + half, abs=0.01))
    # Every question twice: the same information, so the same width.
    twice = cluster_bootstrap(np.repeat(alone, 2), np.repeat(np.arange(400), 2))
    assert twice[1] - twice[0] == pytest.approx(high - low, rel=0.1)
    assert cluster_bootstrap(np.full(5, 0.25), list("aabbc")) == (0.25, 0.25)


def test_a_better_run_and_its_mirror(tmp_path):
    questions = [question(row, cluster=f"photo {row}") for row in range(60)]
    a = run(tmp_path / "a", outcomes(questions, first(45), PROMPTS), "Better", prefill=["continue"])
    b = run(tmp_path / "b", outcomes(questions, first(20), PROMPTS), "Worse", prefill=["inline"])
    found, mirror = compare_runs(a, b), compare_runs(b, a)
    for row in (*found["prompts"], found["pooled"]):
        assert (row["n"], row["only_a"], row["only_b"]) == (60, 25, 0) and row["difference"] == pytest.approx(25 / 60)
        assert row["mcnemar_p"] == pytest.approx(2 / 2**25) and row["permutation_p"] < 0.001
        assert row["interval"][0] > 0.25 and row["interval"][1] < 0.6
    assert mirror["pooled"]["difference"] == pytest.approx(-found["pooled"]["difference"])
    assert found["settings"] == {"prefill": [["continue"], ["inline"]]}
    assert verdict_line(found).startswith("Better beats Worse: +41.7 points")
    assert verdict_line(mirror).startswith("Worse loses to Better: -41.7 points")
    text = render_comparison(found)
    assert text.startswith("# Better (a) against Worse (b)") and "prefill: ['continue'] (a), ['inline'] (b)" in text
    assert [p["prompt"] for p in found["prompts"]] == PROMPTS and "mean of 2 prompts" in text
    json.dumps(found, allow_nan=False)


def test_a_run_against_itself_shows_no_difference(tmp_path):
    questions = [question(row) for row in range(20)]
    a = run(tmp_path / "a", outcomes(questions, first(9)), "Same")
    b = run(tmp_path / "b", outcomes(questions, first(9)), "Same")
    found = compare_runs(a, b)
    (row,) = found["prompts"]
    assert row["difference"] == 0 and row["interval"] == [0, 0] and row["mcnemar_p"] == row["permutation_p"] == 1
    assert found["pooled"] is None and "no difference that these questions could show" in verdict_line(found)
    assert "Same (a) and Same (b)" in verdict_line(found), "runs of one name are told apart"


def test_only_rows_and_prompts_of_both_and_only_the_files_own_order(tmp_path):
    questions = [question(row) for row in range(12)]
    other_order = [outcome(q, 0, PROMPTS[0], (1, 2, 3, 0)) for q in questions]
    a = run(tmp_path / "a", outcomes(questions, right_place, PROMPTS) + other_order, "A")
    b = run(tmp_path / "b", outcomes(questions[4:], first(0), PROMPTS[1:]), "B")
    found = compare_runs(a, b)
    (row,) = found["prompts"]
    assert (row["prompt"], row["n"], row["a"], row["b"]) == (PROMPTS[1], 8, 1, 0)
    assert found["notes"] == [f"{PROMPTS[1]}: 4 questions that only one run answered are left out"]


def test_shared_points_leave_mcnemar_undefined(tmp_path):
    questions = [question(row) for row in range(8)]
    a = run(tmp_path / "a", [outcome(q, q.answer, credit=0.5) for q in questions], "Ties")
    b = run(tmp_path / "b", outcomes(questions, right_place), "Whole")
    (row,) = compare_runs(a, b)["prompts"]
    assert row["mcnemar_p"] is None and row["difference"] == -0.5 and row["permutation_p"] > 0.05, "two clusters"
    assert "| – | – | – |" in render_comparison(compare_runs(a, b))


def test_a_system_without_prompts_is_compared_with_each_prompt(tmp_path):
    questions = [question(row) for row in range(12)]
    a = run(tmp_path / "a", outcomes(questions, right_place, PROMPTS), "Model")
    b = run(tmp_path / "b", outcomes(questions, lambda q, order: 0, ["none"]), "always A")
    assert [row["b"] for row in compare_runs(a, b)["prompts"]] == [0.25, 0.25]
    assert [row["a"] for row in compare_runs(b, a)["prompts"]] == [0.25, 0.25]


def test_predictions_alone_suffice(tmp_path):
    questions = [question(row) for row in range(4)]
    for name in ("a", "b"):
        write_jsonl(tmp_path / name / "predictions.jsonl", prediction_rows(outcomes(questions, right_place)))
    assert compare_runs(tmp_path / "a", tmp_path / "b")["a"]["name"] == "a"


def test_what_cannot_be_compared_is_one_line(tmp_path):
    questions = [question(row) for row in range(8)]
    good = run(tmp_path / "good", outcomes(questions, right_place), "Good")
    variants = {
        "task": [question(row, "mivqa") for row in range(8)],
        "language": [question(row, language="en") for row in range(8)],
        "is another question": [question(row, record_hash="f" * 32) for row in range(8)],
        "no question in common": [question(row) for row in range(20, 28)],
    }
    for match, changed in variants.items():
        bad = run(tmp_path / match.replace(" ", "_"), outcomes(changed, right_place), "Bad")
        _fails(good, bad, match)
    bad = run(tmp_path / "prompts", outcomes(questions, right_place, ["sivqa.zh.7.mine"]), "Bad")
    _fails(good, bad, "no prompt in common")
    _fails(good, tmp_path / "nowhere", "is absent; give the run folder")


def _fails(good, bad, match):
    with pytest.raises(InputError, match=match) as found:
        compare_runs(good, bad)
    assert "\n" not in str(found.value)


@pytest.mark.parametrize(
    ("line", "match"),
    [
        ('{"row": 1', "line 2 is no prediction"),
        ("[]", "line 2 is no prediction"),
        ('{"task": "sivqa"}', "line 2 is no prediction"),
        ("[" * 100_000, "line 2 is no prediction"),
    ],
)
def test_damaged_predictions_are_one_line(tmp_path, line, match):
    questions = [question(row) for row in range(4)]
    good = run(tmp_path / "good", outcomes(questions, right_place), "Good")
    bad = run(tmp_path / "bad", outcomes(questions[:1], right_place), "Bad")
    with open(bad / "predictions.jsonl", "a", encoding="utf-8") as file:
        file.write(line + "\n")
    _fails(good, bad, match)


def test_damaged_predictions_of_other_kinds(tmp_path):
    questions = [question(row) for row in range(4)]
    good = run(tmp_path / "good", outcomes(questions, right_place), "Good")
    bad = run(tmp_path / "bad", [outcome(questions[0], 0, credit=1.5)], "Bad")
    _fails(good, bad, "credit 1.5")
    (bad / "predictions.jsonl").write_bytes(b"\xff\xfe\n")
    _fails(good, bad, "is no text in UTF-8")
    (bad / "predictions.jsonl").write_text("")
    _fails(good, bad, "holds no tasks")
    run(bad, outcomes(questions, right_place), "Bad")
    (bad / "metrics.json").write_text("{")
    _fails(good, bad, "metrics.json: cannot be read")
