import gzip
import json

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer

from data.errors import InputError
from data.records import PLACEHOLDER, Question, Step
from models.metrics import expected_correct
from models.sanity import (
    AlwaysChoice,
    ChoiceLength,
    LeastFrequentChoice,
    NotRepeatedOrder,
    TfidfChoice,
    rules_for,
)

# Measured on the open validation questions, per cent (benchmark reference, sanity baselines).
VAL_OPEN = {
    "textual_cloze": {
        "chance": 25.0,
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


def question(choices, context=(), titles=(PLACEHOLDER,), answer=0, task="textual_cloze", qid="1000-1-0-1-2-3"):
    choices = tuple(c if isinstance(c, tuple) else (c,) for c in choices)
    return Question(qid, "soup", task, "val", tuple(Step(b) for b in context), tuple(titles), choices, answer)


@pytest.fixture(scope="module")
def val_open(shared):
    # Read here with nothing but json, so that this file does not depend on the reader it would share a fault with.
    with gzip.open(shared / "data" / "recipeqa" / "val_open.json.gz", "rt", encoding="utf-8") as file:
        records = json.load(file)["data"]
    return [
        question(
            [tuple(c) if isinstance(c, list) else c for c in r["choice_list"]],
            [s["body"] for s in r["context"]],
            r["question"],
            r["answer"],
            r["task"],
            r["qid"],
        )
        for r in records
    ]


@pytest.mark.parametrize("task", VAL_OPEN)
def test_rows_of_the_open_validation_questions(val_open, task):
    own = [q for q in val_open if q.task == task]
    answer = np.array([q.answer for q in own])
    found = {}
    for rule in rules_for(task, "evaluated"):
        if rule.fitted_on:
            rule.fit(val_open)
        found[rule.name] = 100 * float(expected_correct(rule.score(own), answer).mean())
    assert len(found) == len(rules_for(task, "evaluated"))  # no two rules share a name
    for name, expected in VAL_OPEN[task].items():
        assert found[name] == pytest.approx(expected, abs=0.06), name


WORDS = ("salt", "Flour", "butter-milk", "Bake", "bake", "at", "350", "degrees", "a", "I", "é", "stir,", "2", "cups")


def made_up(n, seed):
    rng = np.random.default_rng(seed)

    def text(low, high):
        return "  ".join(rng.choice(WORDS, size=rng.integers(low, high)))

    return [
        question(
            [text(1, 4) for _ in range(4)],
            [text(0, 9) for _ in range(rng.integers(1, 6))],
            [text(1, 4), PLACEHOLDER, text(1, 3), text(0, 3)],
        )
        for _ in range(n)
    ]


@pytest.mark.parametrize("characters", [False, True])
@pytest.mark.parametrize("log_tf", [False, True])
@pytest.mark.parametrize("against", ["titles", "context", "best_step"])
def test_tfidf_equals_a_loop_over_scikit_learn(against, log_tf, characters):
    fitted, scored = made_up(23, 0), made_up(7, 1)
    texts = sorted({s.body for q in fitted for s in q.context})
    texts += [t for q in fitted for t in q.question if t != PLACEHOLDER] + [c[0] for q in fitted for c in q.choices]
    kind = {"analyzer": "char_wb", "ngram_range": (3, 5)} if characters else {}
    reference = TfidfVectorizer(sublinear_tf=log_tf, **kind).fit(texts)
    expected = np.zeros((7, 4))
    for row, q in enumerate(scored):
        shown = {
            "titles": [" ".join(t for t in q.question if t != PLACEHOLDER)],
            "context": [" ".join(s.body for s in q.context)],
            "best_step": [s.body for s in q.context],
        }[against]
        for column, choice in enumerate(q.choices):
            cosine = reference.transform([choice[0]]) @ reference.transform(shown).T
            expected[row, column] = cosine.toarray().max()
    scores = TfidfChoice(against, log_tf, characters).fit(fitted).score(scored)
    np.testing.assert_allclose(scores, expected, atol=1e-12)
    assert scores.max() > 0.3


def test_tfidf_blocks_do_not_show():
    fitted = made_up(40, 2)
    many = [fitted[i % 40] for i in range(1100)]  # more than one block of questions and of pairs
    rule = TfidfChoice("best_step", characters=True).fit(fitted)
    np.testing.assert_array_equal(rule.score(many), rule.score(fitted)[np.arange(1100) % 40])


def test_equal_texts_tie_exactly_and_unknown_or_empty_texts_score_zero():
    context = ["Boil water with salt.", "Bake it at 350 degrees."]
    q = question(["Bake salt", "zzz", "", "Bake salt"], context)
    for rule in (TfidfChoice(), TfidfChoice(characters=True), TfidfChoice("best_step"), TfidfChoice("titles")):
        scores = rule.fit([question(["x1", "y1", "z1", "w1"], context)]).score([q])
        assert scores[0, 0] == scores[0, 3]
        assert scores[0, 1] == scores[0, 2] == 0
        assert np.isfinite(scores).all()


def test_texts_without_words_are_refused_in_one_line():
    with pytest.raises(InputError, match=r"^[^\n]*hold no word[^\n]*$"):
        TfidfChoice().fit([question(["", "", "", ""], ["", "?"])])


def test_lengths():
    q = question(["Mix", "Cut it up", "Fry it", "Oil"])
    assert ChoiceLength("characters").score([q]).tolist() == [[-3, -9, -6, -3]]
    assert ChoiceLength("words").score([q]).tolist() == [[-1, -3, -2, -1]]
    assert ChoiceLength("characters", longest=True).score([q]).tolist() == [[3, 9, 6, 3]]


def test_least_frequent_counts_the_tasks_apart_and_the_readings_differ():
    val = [
        question(["a.jpg", "b.jpg", "c.jpg", "d.jpg"], task="visual_cloze"),
        question(["a.jpg", "e.jpg", "f.jpg", "g.jpg"], task="visual_coherence"),
        question(["a.jpg", "b.jpg", "e.jpg", "f.jpg"], task="visual_cloze"),
    ]
    rule = LeastFrequentChoice().fit(val)
    assert rule.score(val).tolist() == [[-2, -2, -1, -1], [-1, -1, -1, -1], [-2, -2, -1, -1]]
    trained = LeastFrequentChoice("training").fit(val[:1])
    assert trained.fitted_on == "training"
    assert trained.score(val[2:]).tolist() == [[-1, -1, 0, 0]]


def test_repeated_permutations():
    p, q, r = ("a", "b"), ("b", "a"), ("c", "a")
    assert NotRepeatedOrder().score([question([p, q, p, r], task="visual_ordering")]).tolist() == [[0, 1, 0, 1]]


def test_chance_and_fixed_positions():
    qs = made_up(5, 3)
    assert float(expected_correct(AlwaysChoice().score(qs), np.zeros(5, dtype=int)).mean()) == 0.25
    assert AlwaysChoice(2).score(qs).argmax(axis=1).tolist() == [2] * 5
    assert [AlwaysChoice(p).name for p in (None, 0, 3)] == ["chance", "first_choice", "always_choice_3"]


@pytest.mark.parametrize("task", VAL_OPEN)
def test_both_readings_by_default(task):
    rows = [(rule.name, rule.fitted_on) for rule in rules_for(task)]
    assert len(set(rows)) == len(rows)
    counted = {name for name, reading in rows if reading}
    assert {(name, reading) for name in counted for reading in ("evaluated", "training")} <= set(rows)
    own = [(rule.name, rule.fitted_on) for rule in rules_for(task, "training")]
    assert own == [row for row in rows if row[1] != "evaluated"]


def test_no_questions_and_wrong_settings():
    for task in VAL_OPEN:
        for rule in rules_for(task, "training"):
            if rule.fitted_on:
                rule.fit(made_up(3, 4))
            assert rule.score([]).shape[0] == 0
            assert rule.fitted_on in (None, "training")
    for wrong in (lambda: TfidfChoice("title"), lambda: rules_for("cloze"), lambda: ChoiceLength("letters")):
        with pytest.raises(InputError):
            wrong()
