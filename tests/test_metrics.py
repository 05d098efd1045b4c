import math
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from models.metrics import (
    ChoiceAccuracy,
    clustered_wilson,
    collapsed,
    effective_n,
    expected_correct,
    paired_permutation,
    predict,
    wilson_interval,
)

# Few distinct scores, so that most questions have ties; infinities too.
SCORES = st.sampled_from([-math.inf, -1.0, 0.0, 0.25, 0.5, math.inf])
ROWS = st.integers(2, 6).flatmap(
    lambda k: st.lists(
        st.tuples(st.lists(SCORES, min_size=k, max_size=k), st.integers(0, k - 1)), min_size=1, max_size=9
    )
)


def naive_credit(scores, answer):
    top = [k for k, s in enumerate(scores) if s == max(scores)]
    return 1 / len(top) if answer in top else 0.0


@given(ROWS)
@settings(max_examples=200, deadline=None)
def test_credit_predictions_and_accuracy_with_ties(rows):
    scores = torch.tensor([s for s, _ in rows], dtype=torch.float64)
    answer = torch.tensor([a for _, a in rows])
    expected = [naive_credit(s, a) for s, a in rows]
    assert expected_correct(scores, answer).tolist() == pytest.approx(expected)
    assert expected_correct(scores.numpy(), answer.numpy()).tolist() == pytest.approx(expected)
    chosen = predict(scores, torch.arange(len(rows)))
    assert all(s[c] == max(s) for (s, _), c in zip(rows, chosen.tolist(), strict=True))
    metric = ChoiceAccuracy()
    for start in range(0, len(rows), 2):
        metric.update(scores[start : start + 2], answer[start : start + 2])
    assert float(metric.compute()) == pytest.approx(math.fsum(expected) / len(rows), abs=1e-12)
    assert collapsed(scores) == pytest.approx(sum(len(set(s)) == 1 for s, _ in rows) / len(rows))


def test_nan_scores_are_refused_with_their_rows():
    scores = torch.zeros(30, 4)
    scores[3, 1] = scores[17, 0] = math.nan
    answer = torch.zeros(30, dtype=torch.long)
    for call in (
        lambda: expected_correct(scores, answer),
        lambda: predict(scores, answer),
        lambda: collapsed(scores),
        lambda: ChoiceAccuracy().update(scores, answer),
    ):
        with pytest.raises(ValueError, match=r"rows \[3, 17\] of 30"):
            call()
    with pytest.raises(ValueError, match="20 more of 30"):
        expected_correct(torch.full((30, 4), math.nan), answer)


def test_answers_of_another_length_are_refused():
    with pytest.raises(ValueError, match="answers"):
        expected_correct(torch.zeros(3, 4), torch.zeros(2, dtype=torch.long))


def test_broken_ties_are_even_reproducible_and_follow_the_key_alone():
    n = 20_000
    flat = torch.zeros(n, 4)
    keys = torch.arange(n)
    chosen = predict(flat, keys)
    assert (torch.bincount(chosen, minlength=4) / n - 0.25).abs().max() < 0.015
    # Neighbouring keys are no neighbours in the choice.
    assert abs(float((chosen[1:] == chosen[:-1]).double().mean()) - 0.25) < 0.015
    order = torch.randperm(n, generator=torch.Generator().manual_seed(0))
    assert torch.equal(predict(flat[order], keys[order]), chosen[order])
    assert torch.equal(predict(flat, keys), chosen)
    assert not torch.equal(predict(flat, keys, seed=1), chosen)
    # Of two that tie the one that comes first in the order of all four, as the rule says.
    half = flat.clone()
    half[:, 2:] = -1
    first = chosen < 2
    assert torch.equal(predict(half, keys)[first], chosen[first])
    # Pinned: a changed rule changes published predictions.
    assert predict(torch.zeros(12, 4), torch.arange(12)).tolist() == PINNED


PINNED = [1, 3, 0, 3, 1, 2, 0, 2, 1, 3, 1, 2]


def test_no_questions():
    empty = torch.zeros(0, 4)
    none = torch.zeros(0, dtype=torch.long)
    assert expected_correct(empty, none).shape == (0,)
    assert predict(empty, none).shape == (0,)
    assert math.isnan(collapsed(empty))
    assert wilson_interval(0, 0) == (0.0, 1.0)
    assert clustered_wilson(np.zeros(0), []) == (0.0, 1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        metric = ChoiceAccuracy()
        assert math.isnan(float(metric.compute()))
        metric.update(empty, none)
        assert math.isnan(float(metric.compute()))


def test_accuracy_resets_merges_and_is_exact_in_any_order():
    rng = np.random.default_rng(0)
    scores = torch.from_numpy(rng.integers(0, 3, size=(1000, 4)).astype(np.float32))
    answer = torch.from_numpy(rng.integers(0, 4, size=1000))
    results = set()
    for seed in range(5):
        order = torch.randperm(1000, generator=torch.Generator().manual_seed(seed))
        metric = ChoiceAccuracy()
        other = ChoiceAccuracy()  # a second process: the states are summed
        for i, part in enumerate(order.split(33 + seed)):
            (other if i % 3 == 0 else metric).update(scores[part], answer[part])
        metric.tally += other.tally
        results.add(float(metric.compute()))
    assert len(results) == 1
    assert results.pop() == pytest.approx(float(expected_correct(scores, answer).mean()), abs=1e-12)
    metric = ChoiceAccuracy()
    step = metric(scores[:10], answer[:10])  # forward: value of the batch, and counted
    assert float(step) == pytest.approx(float(expected_correct(scores[:10], answer[:10]).mean()))
    metric.reset()
    assert math.isnan(float(metric.compute()))
    with pytest.raises(ValueError, match="max_choices=3"):
        ChoiceAccuracy(max_choices=3).update(scores, answer)


@pytest.mark.parametrize(("correct", "n"), [(0, 10), (3, 10), (10, 10), (26.5, 97), (0.25, 1), (250, 1000)])
def test_wilson_interval_solves_its_equation(correct, n):
    """Its ends are the shares p at which the observed share lies z standard errors of p away."""
    z, share = 1.96, correct / n
    low, high = wilson_interval(correct, n)
    assert 0 <= low <= share <= high <= 1
    for p in (low, high):
        if 0 < p < 1:
            assert abs(share - p) == pytest.approx(z * math.sqrt(p * (1 - p) / n), rel=1e-9)


def test_wilson_interval_known_values_and_errors():
    # Newcombe 1998, table I: 81/263 -> 0.2553 to 0.3662; 0/20 -> 0 to 0.1611.
    assert wilson_interval(81, 263, 1.959964) == pytest.approx((0.2553, 0.3662), abs=5e-5)
    assert wilson_interval(0, 20, 1.959964) == pytest.approx((0.0, 0.1611), abs=5e-5)
    for wrong in (11, -1):
        with pytest.raises(ValueError, match="share"):
            wilson_interval(wrong, 10)


def clustered(groups, size, correlation, seed):
    """0/1 credits whose members copy their cluster's draw with a probability."""
    rng = np.random.default_rng(seed)
    of_group = rng.random(groups) < 0.4
    label = np.repeat(np.arange(groups), rng.integers(1, size + 1, size=groups))
    own = rng.random(len(label)) < 0.4
    copy = rng.random(len(label)) < correlation
    return np.where(copy, of_group[label], own).astype(float), label


def test_single_questions_per_cluster_give_the_plain_interval():
    credit, _ = clustered(80, 1, 0.0, 0)
    credit[:10] = 0.5
    names = [f"recipe-{i}" for i in range(80)]
    assert effective_n(credit, names) == pytest.approx(80)
    assert clustered_wilson(credit, names) == pytest.approx(wilson_interval(credit.sum(), 80))


@pytest.mark.parametrize(("size", "correlation"), [(2, 0.9), (5, 0.7), (5, 0.0), (9, 1.0)])
def test_clustered_interval_against_a_bootstrap_of_clusters(size, correlation):
    credit, label = clustered(400, size, correlation, size)
    rng = np.random.default_rng(1)
    sums, counts = np.bincount(label, credit), np.bincount(label)
    drawn = rng.integers(0, 400, size=(4000, 400))
    error = (sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1)).std()
    low, high = clustered_wilson(credit, label)
    assert (high - low) / (2 * 1.96) == pytest.approx(error, rel=0.12)
    plain = wilson_interval(credit.sum(), len(credit))
    assert high - low >= plain[1] - plain[0] - 1e-12
    if correlation > 0.5 and size > 2:
        assert high - low > 1.3 * (plain[1] - plain[0])


def test_copies_of_a_question_add_nothing():
    credit, _ = clustered(60, 1, 0.0, 3)
    copies, label = np.repeat(credit, 7), np.repeat(np.arange(60), 7)
    assert effective_n(copies, label) == pytest.approx(60, rel=0.03)
    assert effective_n(np.ones(420), label) == 60  # no spread: each cluster counts once
    assert effective_n(credit, [0] * 60) == 1
    assert clustered_wilson(np.ones(420), label) == wilson_interval(60, 60)
    with pytest.raises(ValueError, match="cluster labels"):
        effective_n(credit, [0, 1])


def test_paired_permutation_against_all_sign_flips():
    rng = np.random.default_rng(4)
    a, b = rng.random(24).round(1), rng.random(24).round(1)
    label = np.repeat(np.arange(8), 3)
    difference = np.bincount(label, a - b)
    flips = np.array([[1 if i >> g & 1 else -1 for g in range(8)] for i in range(256)])
    exact = (np.abs(flips @ difference) >= abs(difference.sum()) - 1e-9).mean()
    p = paired_permutation(a, b, label, seed=0, rounds=20_000)
    assert p == pytest.approx(exact, abs=0.015)
    assert p == paired_permutation(b, a, label, seed=0, rounds=20_000)
    assert p == paired_permutation(a, b, [f"r{i:02}" for i in label], seed=0, rounds=20_000)
    assert p != paired_permutation(a, b, label, seed=1, rounds=20_000)


def test_paired_permutation_extremes():
    n = 200
    same = np.full(n, 0.5)
    assert paired_permutation(same, same, np.arange(n)) == 1.0
    p = paired_permutation(np.ones(n), np.zeros(n), np.arange(n), rounds=999)
    assert p == 1 / 1000
    # 200 questions on one recipe are one observation: nothing can be concluded.
    assert paired_permutation(np.ones(n), np.zeros(n), np.zeros(n)) == 1.0
    with pytest.raises(ValueError, match="200 against 3"):
        paired_permutation(same, same[:3], np.arange(n))


def test_paired_permutation_keeps_its_level():
    """Two systems of equal skill: p below 0.05 in about 5 % of the samples."""
    rng = np.random.default_rng(5)
    below = 0
    for sample in range(200):
        credit = rng.random((2, 60)) < 0.4
        below += paired_permutation(credit[0], credit[1], np.arange(60) // 2, seed=sample, rounds=400) < 0.05
    assert below <= 20
