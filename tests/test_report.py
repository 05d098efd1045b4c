"""What the tables claim: which published rows are comparable, and the sentences below them."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from data.recipeqa import read_questions
from engine.report import _published, _verdict, plot_history
from engine.scoring import assess, compare
from tests.made_up import made_up_questions, write_file


def _data(official):
    return SimpleNamespace(official_split=lambda split: official)


def test_only_the_whole_official_file_is_the_same_questions():
    def same(official, n):
        return {
            row["system"] for row in _published(_data(official), "test", "textual_cloze", n) if row["same_questions"]
        }

    assert same(None, 963) == set()
    assert same("test", 962) == set()
    found = same("test", 963)
    assert "Impatient Reader (text only), 2018" in found and "Human, 2018" not in found
    assert not any("GPT-4o" in name for name in found), "another sample of the questions"
    assert not any("LXMERT" in name for name in found), "700 of the 963"


@pytest.fixture(scope="module")
def questions(tmp_path_factory):
    path = tmp_path_factory.mktemp("q") / "q.json"
    write_file(path, made_up_questions("textual_cloze", 120, seed=4, per_recipe=3))
    return read_questions(path)[0]


def _scores(questions, right):
    """Scores that give the right answer in the first `right` questions and a wrong one in the others."""
    scores = np.zeros((len(questions), 4))
    for i, q in enumerate(questions):
        scores[i, q.answer if i < right else (q.answer + 1) % 4] = 1
    return scores


def _say(questions, right, others=()):
    own = {**assess(questions, _scores(questions, right)), "system": "model", "kind": "this run", "note": ""}
    return _verdict(own, list(others), questions, _scores(questions, right), 0)


def test_sentences_follow_the_interval(questions):
    assert "beats chance" in _say(questions, 80)[0]
    assert "not distinguishable from chance" in _say(questions, 32)[0]
    assert "worse than chance" in _say(questions, 5)[0]


def test_comparison_is_paired_and_says_when_it_cannot_tell(questions):
    def other(right):
        scores = _scores(questions, right)
        return {
            "system": "Hasty Student",
            "kind": "baseline",
            "note": "",
            "scores": scores,
            **assess(questions, scores),
        }

    assert any("beats Hasty Student" in line for line in _say(questions, 100, [other(30)]))
    assert any("loses to Hasty Student" in line for line in _say(questions, 30, [other(100)]))
    assert any("no difference that these questions could show" in line for line in _say(questions, 61, [other(60)]))
    found = compare(questions, _scores(questions, 100), _scores(questions, 30), 0)
    assert found["difference"] == pytest.approx(70 / 120) and found["p"] < 0.01


def test_a_trivial_rule_above_the_model_is_named_unless_it_is_transductive(questions):
    scores = _scores(questions, 110)
    rule = {
        "system": "tfidf",
        "kind": "sanity",
        "note": "fitted on train",
        "scores": scores,
        **assess(questions, scores),
    }
    assert any("trivial rule scores higher: tfidf" in line for line in _say(questions, 60, [rule]))
    assert not any("trivial" in line for line in _say(questions, 60, [{**rule, "note": "transductive"}]))


def test_a_collapsed_model_is_called_out(questions):
    flat = np.zeros((len(questions), 4))
    own = {**assess(questions, flat), "system": "model", "kind": "this run", "note": ""}
    assert own["accuracy"] == 0.25
    assert any("collapsed" in line for line in _verdict(own, [], questions, flat, 0))


@pytest.mark.parametrize("epochs", [1, 2, 60])
def test_curves_are_drawn_for_any_number_of_epochs(epochs, tmp_path):
    rows = [{"epoch": e, "train/loss": 1 / (e + 1), "val/loss": 1.0, "val/accuracy": 0.3} for e in range(epochs)]
    (tmp_path / "history.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert plot_history(tmp_path) == "curves.png" and (tmp_path / "curves.png").stat().st_size > 10_000
