"""CCA against the textbook: correlations of planted directions, generalised eigenvalues, and pairs found again."""

import numpy as np
import pytest
from scipy.linalg import eigh
from scipy.sparse import csr_matrix

from data.errors import InputError
from models.cca import CCA, _whitening


def planted(n: int, seed: int) -> tuple[np.ndarray, csr_matrix]:
    """Word counts, and image vectors that are a noisy linear map of them."""
    rng = np.random.default_rng(seed)
    counts = rng.poisson(0.6, (n, 40))
    image = counts @ np.random.default_rng(99).normal(size=(40, 30)) + rng.normal(0, 1.0, (n, 30))
    return image.astype(np.float32), csr_matrix(counts)


def test_finds_planted_pairs_and_not_shuffled_ones():
    image, counts = planted(600, 0)
    model = CCA(components=20, words=39, ridge=0.01).fit(image, counts)
    image, counts = planted(101, 1)
    scores = model.image(image) @ model.recipe(counts).T
    ranks = 1 + (scores > np.diag(scores)[:, None]).sum(1)
    assert np.median(ranks) <= 2
    shuffled = np.roll(scores, 1, axis=1)
    assert np.median(1 + (shuffled > np.diag(shuffled)[:, None]).sum(1)) > 20


def test_correlations_solve_the_generalised_eigenvalue_problem():
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(200, 5)), rng.normal(size=(200, 4))
    y[:, 0] += x[:, 1]
    x, y = x - x.mean(0), y - y.mean(0)
    wx, wy = _whitening(x, 0.0), _whitening(y, 0.0)
    found = np.linalg.svd(wx.T @ (x.T @ y / 200) @ wy, compute_uv=False)
    cxx, cyy, cxy = x.T @ x / 200, y.T @ y / 200, x.T @ y / 200
    reference = np.sqrt(eigh(cxy @ np.linalg.solve(cyy, cxy.T), cxx, eigvals_only=True)[::-1][:4])
    np.testing.assert_allclose(found, reference, atol=1e-6)


def test_unit_length_few_pairs_and_empty_bags():
    image, counts = planted(7, 2)
    model = CCA().fit(image, counts)
    empty = csr_matrix((2, 40))
    np.testing.assert_allclose(np.linalg.norm(model.image(image), axis=1), 1, atol=1e-5)
    assert np.isfinite(model.recipe(empty)).all()
    with pytest.raises(InputError, match="at least 3"):
        CCA().fit(image[:2], counts[:2])
