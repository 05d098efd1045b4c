"""Monotone alignment against a sum over every alignment, written out."""

import itertools

import numpy as np
import pytest
import torch

from models.alignment import log_partition, posterior

GRID = [(elements, steps) for elements in range(1, 5) for steps in range(1, 9)]


def alignments(elements, steps):
    """Every way to put the elements on the steps: each later than the one before, or not earlier where steps lack."""
    ways = itertools.product(range(steps), repeat=elements)
    if steps >= elements:
        return [way for way in ways if all(a < b for a, b in itertools.pairwise(way))]
    return [way for way in ways if all(a <= b for a, b in itertools.pairwise(way))]


def brute(emission):
    """Log partition, and probability (L, T) of each element on each step, of one question: emission (L, T) float64."""
    elements, steps = emission.shape
    ways = alignments(elements, steps)
    weights = np.asarray([sum(emission[i, t] for i, t in enumerate(way)) for way in ways])
    log_sum = np.logaddexp.reduce(weights)
    share = np.zeros((elements, steps))
    for way, weight in zip(ways, weights, strict=True):
        for i, t in enumerate(way):
            share[i, t] += np.exp(weight - log_sum)
    return log_sum, share


def random_emission(elements, steps, scale, seed=0, dtype=torch.float64):
    g = torch.Generator().manual_seed(seed + 100 * elements + steps)
    return scale * torch.randn(3, elements, steps, generator=g, dtype=dtype)


def whole(emission):
    return torch.ones(emission.shape[0], emission.shape[2], dtype=torch.bool)


@pytest.mark.parametrize("scale", [0.0, 1e-6, 1.0, 30.0, 1e4, 1e6])
def test_sums_and_shares_are_those_of_all_alignments(scale):
    for elements, steps in GRID:
        emission = random_emission(elements, steps, scale)
        sums, shares = log_partition(emission, whole(emission)), posterior(emission, whole(emission)).exp()
        for n in range(3):
            log_sum, share = brute(emission[n].numpy())
            assert float(sums[n]) == pytest.approx(log_sum, rel=1e-12, abs=1e-9), (elements, steps)
            assert np.allclose(shares[n].numpy(), share, atol=1e-8), (elements, steps)


@pytest.mark.parametrize("shift", [-3e4, -2e3, 2e3, 3e4])
def test_a_shift_of_all_emissions_moves_the_sum_and_no_share(shift):
    """However low a step's weight, absent steps and impossible orders stay below it."""
    for elements, steps in GRID:
        emission = torch.cat([random_emission(elements, steps, 1.0), torch.zeros(3, elements, 3).double()], dim=2)
        mask = whole(emission)
        mask[:, steps:] = False
        moved = emission + shift
        assert torch.allclose(
            log_partition(moved, mask), log_partition(emission, mask) + elements * shift, rtol=1e-12, atol=1e-6
        )
        assert torch.allclose(posterior(moved, mask).exp(), posterior(emission, mask).exp(), atol=1e-6)


@pytest.mark.parametrize("scale", [1.0, 50.0])
def test_float32_is_close_to_the_exact_sum(scale):
    for elements, steps in GRID:
        emission = random_emission(elements, steps, scale).float()
        sums, shares = log_partition(emission, whole(emission)), posterior(emission, whole(emission)).exp()
        for n in range(3):
            log_sum, share = brute(emission[n].double().numpy())
            assert float(sums[n]) == pytest.approx(log_sum, rel=1e-5, abs=1e-5)
            assert np.allclose(shares[n].numpy(), share, atol=1e-4)


def test_half_precision_is_summed_in_float32():
    emission = random_emission(4, 8, 3.0).half()
    mask = whole(emission)
    assert torch.equal(log_partition(emission, mask), log_partition(emission.float(), mask))
    assert torch.equal(posterior(emission.bfloat16(), mask), posterior(emission.bfloat16().float(), mask))


@pytest.mark.parametrize("elements", [1, 2, 3, 4])
def test_questions_of_different_lengths_in_one_batch_are_scored_as_alone(elements):
    lengths = [1, 8, 3, 4, 2, 5, 7, 6]
    g = torch.Generator().manual_seed(elements)
    emission = 5 * torch.randn(len(lengths), elements, 11, generator=g)
    mask = torch.arange(11) < torch.tensor(lengths)[:, None]
    filled = torch.where(mask[:, None], emission, 1e5 * torch.randn(emission.shape, generator=g))  # what lies beyond
    sums, shares = log_partition(filled, mask), posterior(filled, mask).exp()
    for n, length in enumerate(lengths):
        alone = emission[n : n + 1, :, :length]
        assert float(sums[n]) == pytest.approx(float(log_partition(alone, whole(alone))), rel=1e-6, abs=1e-6)
        assert torch.allclose(shares[n, :, :length], posterior(alone, whole(alone)).exp()[0], atol=1e-6)
        assert not shares[n, :, length:].any()


@pytest.mark.parametrize("scale", [0.0, 1.0, 30.0, 1e4])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_shares_sum_to_one_and_are_the_gradient_of_the_sum(scale, dtype):
    for elements, steps in GRID:
        emission = torch.cat([random_emission(elements, steps, scale, dtype=dtype)] * 2, dim=2).requires_grad_()
        mask = whole(emission)
        mask[1:, steps:] = False
        (slope,) = torch.autograd.grad(log_partition(emission, mask).sum(), emission)
        shares = posterior(emission, mask).exp()
        tolerance = 1e-4 if dtype == torch.float32 else 1e-9
        tolerance *= max(1.0, scale / 30)  # sums of numbers this large are that coarse
        assert torch.allclose(shares.sum(2), torch.ones_like(shares.sum(2)), atol=1e-5)
        assert torch.allclose(slope, shares, atol=tolerance), (elements, steps, (slope - shares).abs().max())


@pytest.mark.parametrize(("elements", "steps", "present"), [(1, 3, 2), (3, 3, 3), (3, 6, 4), (4, 5, 3), (4, 3, 1)])
def test_gradients_equal_finite_differences(elements, steps, present):
    emission = random_emission(elements, steps, 1.0)[:2].requires_grad_()
    mask = whole(emission)
    mask[1, present:] = False
    assert torch.autograd.gradcheck(lambda e: log_partition(e, mask), (emission,))
    assert torch.autograd.gradcheck(lambda e: posterior(e, mask).exp(), (emission,))


@pytest.mark.parametrize("scale", [0.0, 1.0, 1e3, 1e5])
def test_gradients_are_finite_everywhere(scale):
    for elements, steps in GRID:
        emission = random_emission(elements, steps, scale, dtype=torch.float32).requires_grad_()
        mask = whole(emission)
        mask[2, 1:] = False
        place = posterior(emission, mask)
        for value in (log_partition(emission, mask), place.exp(), torch.logsumexp(place + emission, dim=2)):
            (slope,) = torch.autograd.grad(value.square().sum(), emission, retain_graph=True)
            assert torch.isfinite(value).all() and torch.isfinite(slope).all()
            assert not slope[2, :, 1:].any()
