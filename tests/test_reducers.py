import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA as SklearnPCA

from data import reducers
from data.errors import InputError
from data.reducers import PCA, Autoencoder, ByContent, fit_cached


def made_up(n, width=40, seed=0):
    draw = np.random.default_rng(seed)
    return (draw.normal(size=(n, 7)) @ draw.normal(size=(7, width)) + 0.1 * draw.normal(size=(n, width)) + 3).astype(
        "f4"
    )


@pytest.mark.parametrize("chunk", [7, 8192])
@pytest.mark.parametrize("size", [1, 5, 11])
def test_pca_is_scikit_learns(size, chunk, monkeypatch):
    monkeypatch.setattr(reducers, "CHUNK", chunk)
    X = made_up(123)
    ours, theirs = PCA(size).fit(X), SklearnPCA(size, svd_solver="full").fit(X.astype("f8"))
    got, want = ours.transform(X), theirs.transform(X)
    signs = np.sign((got * want).sum(0))
    np.testing.assert_allclose(got * signs, want, atol=2e-3)
    np.testing.assert_allclose(ours.explained, theirs.explained_variance_ratio_, rtol=1e-3)
    assert got.dtype == np.float32


def test_sign_is_fixed():
    components = PCA(6).fit(made_up(90)).components
    assert (components[np.arange(6), np.abs(components).argmax(1)] > 0).all()


@pytest.mark.parametrize("n", [1, 2, 5, 12])
def test_few_pictures_are_padded_with_zeros(n):
    X = made_up(n)
    out = PCA(12).fit(X).transform(made_up(3, seed=1))
    assert out.shape == (3, 12) and np.isfinite(out).all()
    assert (out[:, : n - 1] != 0).all() and not out[:, n - 1 :].any()


def test_flat_pictures_have_no_direction():
    assert not PCA(4).fit(np.ones((9, 6), "f4")).transform(np.ones((2, 6), "f4")).any()


def small(**more):
    return Autoencoder(**{"size": 7, "hidden": 16, "epochs": 30, "batch_size": 32, **more})


def test_autoencoder_learns_and_is_deterministic():
    X = made_up(200)
    first, second = small().fit(X), small().fit(X)
    assert first.digest() == second.digest()
    np.testing.assert_array_equal(first.transform(X), second.transform(X))
    assert small(seed=2).fit(X).digest() != first.digest()
    # What it keeps tells the input better than its untrained self does.
    errors = []
    for reducer in (small(epochs=0).fit(X), first):
        Z = np.c_[reducer.transform(X), np.ones(200)]
        errors.append(((Z @ np.linalg.lstsq(Z, X, rcond=None)[0] - X) ** 2).mean())
    assert errors[1] < 0.7 * errors[0]


def test_the_callers_random_state_is_left_alone():
    torch.manual_seed(3)
    wanted = torch.rand(1)
    torch.manual_seed(3)
    small(epochs=1).fit(made_up(40))
    assert torch.rand(1) == wanted


@pytest.mark.parametrize("make", [lambda: PCA(7), small])
def test_state_goes_through_a_checkpoint(make, tmp_path):
    X = made_up(60)
    reducer = make().fit(X)
    torch.save(reducer.state_dict(), tmp_path / "a.ckpt")
    again = type(reducer).from_state_dict(torch.load(tmp_path / "a.ckpt", weights_only=True))
    np.testing.assert_array_equal(again.transform(X), reducer.transform(X))
    assert again.digest() == reducer.digest()
    assert not np.array_equal(reducer.transform(np.zeros((1, 40), "f4")), np.zeros((1, 7)))  # the placeholder's vector


def test_rows_do_not_depend_on_each_other():
    X = made_up(50)
    for reducer in (PCA(5).fit(X), small(epochs=1).fit(X)):
        np.testing.assert_allclose(reducer.transform(X)[3:4], reducer.transform(X[3:4]), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("make", [lambda: PCA(7), small])
def test_wrong_input(make):
    with pytest.raises(InputError, match="no training pictures"):
        make().fit(np.empty((0, 40), "f4"))
    bad = made_up(20)
    bad[3, 4] = np.nan
    with pytest.raises(InputError, match="not finite"):
        make().fit(bad)
    with pytest.raises(InputError, match="same image features"):
        make().fit(made_up(20)).transform(np.zeros((2, 39), "f4"))


def test_state_of_another_reducer():
    pca, auto = PCA(3).fit(made_up(20)), small(epochs=1).fit(made_up(20))
    with pytest.raises(InputError, match="train again"):
        PCA.from_state_dict(auto.state_dict())
    with pytest.raises(InputError, match="train again"):
        Autoencoder.from_state_dict(pca.state_dict())
    broken = auto.state_dict()
    broken["encoder"].pop("0.bias")
    with pytest.raises(InputError, match="train again"):
        Autoencoder.from_state_dict(broken)


def test_memory_map_is_read_in_chunks(tmp_path):
    np.save(tmp_path / "x.npy", made_up(100))
    X = np.load(tmp_path / "x.npy", mmap_mode="r")
    np.testing.assert_array_equal(PCA(5).fit(X).transform(X), PCA(5).fit(made_up(100)).transform(made_up(100)))


@pytest.mark.parametrize("reducer", [PCA(6), Autoencoder(6, hidden=8, epochs=2)])
def test_a_fit_is_kept_and_read_back(reducer, tmp_path, monkeypatch):
    """The second time nothing is fitted; other settings, other vectors or a damaged file are."""
    X = made_up(50)
    first = fit_cached(tmp_path, reducer, X, {"pictures": "a"})
    fits = []
    monkeypatch.setattr(type(reducer), "fit", lambda self, X: fits.append(1) or first)
    again = fit_cached(tmp_path, reducer, X, {"pictures": "a"})
    assert not fits and again.digest() == first.digest() == type(reducer).from_state_dict(first.state_dict()).digest()
    np.testing.assert_array_equal(again.transform(X), first.transform(X))
    fit_cached(tmp_path, reducer, X, {"pictures": "b"})
    fit_cached(tmp_path, type(reducer)(5), X, {"pictures": "a"})
    assert len(fits) == 2
    for file in tmp_path.rglob("reducer.pt"):
        file.write_bytes(file.read_bytes()[:-1])
    assert fit_cached(tmp_path, reducer, X, {"pictures": "a"}).digest() == first.digest()
    assert len(fits) == 3


@pytest.mark.parametrize("make", [lambda: PCA(6), lambda: Autoencoder(6, hidden=8, epochs=1)])
def test_fit_does_not_see_the_order_of_rows(make):
    """Rows of a table in an order of their content, an absent picture (row -1) as zeros."""
    X, order = made_up(60), np.random.default_rng(3).permutation(60)
    rows = np.append(np.arange(5, 45), -1)
    chosen = np.vstack([X[5:45], np.zeros((1, X.shape[1]), "f4")])
    expected = chosen[np.lexsort(chosen.T[:16])]
    shuffled = np.empty_like(X)
    shuffled[order] = X
    views = [ByContent(X, rows), ByContent(shuffled, np.append(order[5:45], -1)[::-1])]
    for view in views:
        np.testing.assert_array_equal(view[0 : len(view)], expected)
        np.testing.assert_array_equal(view[np.array([2, 7])], expected[[2, 7]])
    assert make().fit(views[0]).digest() == make().fit(views[1]).digest() == make().fit(expected).digest()
