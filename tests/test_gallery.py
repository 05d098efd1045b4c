"""The gallery: exact search to the last tie, FAISS beside it, and what is kept on disk."""

import builtins

import numpy as np
import pytest

from data.errors import InputError
from engine.gallery import Gallery


def unit(shape, seed=0):
    vectors = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def names(count):
    return [f"r{i:05d}" for i in range(count)]


def naive(queries, vectors, k):
    scores = np.stack([[np.float32((q.astype(float) * v.astype(float)).sum()) for v in vectors] for q in queries])
    rows = np.stack([sorted(range(len(vectors)), key=lambda j: (-row[j], j))[:k] for row in scores])
    return np.take_along_axis(scores, rows, 1), rows


@pytest.mark.parametrize("index", ["exact", "faiss"])
@pytest.mark.parametrize(("count", "size", "k"), [(1, 3, 1), (7, 5, 3), (65, 17, 64), (130, 33, 10), (300, 8, 1)])
def test_search_is_the_naive_one(index, count, size, k):
    vectors, queries = unit((count, size)), unit((5, size), seed=1)
    scores, rows = Gallery(names(count), vectors, index).search(queries, k)
    wanted_scores, wanted_rows = naive(queries, vectors, k)
    assert np.array_equal(rows, wanted_rows) and np.array_equal(scores, wanted_scores)
    assert scores.dtype == np.float32 and rows.dtype == np.int64


@pytest.mark.parametrize("index", ["exact", "faiss"])
def test_equal_vectors_tie_and_the_lower_row_comes_first(index, monkeypatch):
    monkeypatch.setattr("engine.gallery._BLOCK", 37)  # the copies lie in different blocks
    vectors = np.tile(unit((9, 64)), (23, 1))
    queries = unit((4, 64), seed=1)
    scores, rows = Gallery(names(len(vectors)), vectors, index).search(queries, 30)
    assert np.array_equal(rows, naive(queries, vectors, 30)[1])
    for row in range(4):
        assert (np.diff(scores[row]) <= 0).all() and len(np.unique(scores[row])) == 2
        assert list(rows[row][:23]) == sorted(rows[row][:23])


@pytest.mark.parametrize("index", ["exact", "faiss"])
def test_a_collapsed_gallery_is_answered_in_row_order(index):
    vectors = np.tile(unit((1, 16)), (500, 1))
    assert Gallery(names(500), vectors, index).search(unit((2, 16), 3), 7)[1].tolist() == [list(range(7))] * 2


def test_blocks_do_not_show(monkeypatch):
    vectors, queries = unit((1000, 24)), unit((300, 24), seed=2)
    whole = Gallery(names(1000), vectors).search(queries, 12)
    monkeypatch.setattr("engine.gallery._BLOCK", 61)
    monkeypatch.setattr("engine.gallery._QUERIES", 7)
    for a, b in zip(whole, Gallery(names(1000), vectors).search(queries, 12), strict=True):
        assert np.array_equal(a, b)


@pytest.mark.parametrize("index", ["exact", "faiss", "ivfpq"])
def test_more_asked_than_there_is(index):
    vectors = unit((6, 8))
    scores, rows = Gallery(names(6), vectors, index).search(vectors[:2], 50)
    assert scores.shape == rows.shape == (2, 6)
    assert sorted(rows[0]) == list(range(6)) and rows[0, 0] == 0 and rows[1, 0] == 1


@pytest.mark.parametrize("index", ["exact", "faiss", "ivfpq"])
def test_empty_gallery_and_no_queries(index, tmp_path):
    gallery = Gallery([], np.empty((0, 8), np.float32), index)
    assert gallery.search(unit((3, 8)), 5)[0].shape == (3, 0)
    gallery.save(tmp_path / "empty")
    assert len(Gallery.open(tmp_path / "empty")) == 0
    assert Gallery(names(4), unit((4, 8)), index).search(np.empty((0, 8), np.float32), 2)[1].shape == (0, 2)


def test_inverted_lists_find_most_and_score_what_they_find_exactly():
    centres = unit((60, 32), seed=4)
    drawn = centres[np.arange(6000) % 60] + 0.5 * unit((6000, 32), seed=5)
    vectors = (drawn / np.linalg.norm(drawn, axis=1, keepdims=True)).astype(np.float32)
    queries = vectors[::97] + 0.1 * unit((len(vectors[::97]), 32), seed=6)
    queries /= np.linalg.norm(queries, axis=1, keepdims=True)
    gallery = Gallery(names(6000), vectors, "ivfpq")
    scores, rows = gallery.search(queries, 10)
    exact_scores, exact_rows = Gallery(names(6000), vectors).search(queries, 10)
    recall = np.mean([len(set(a) & set(b)) / 10 for a, b in zip(rows, exact_rows, strict=True)])
    assert recall > 0.9
    assert (np.diff(scores, axis=1) <= 0).all()
    for i in range(len(queries)):  # the score of a found row is the one that the exact search gives it
        known = dict(zip(exact_rows[i].tolist(), exact_scores[i].tolist(), strict=True))
        for row, score in zip(rows[i].tolist(), scores[i].tolist(), strict=True):
            assert known.get(row, score) == score
            assert score == np.float32((queries[i].astype(float) * vectors[row].astype(float)).sum())
    again = Gallery(names(6000), vectors, "ivfpq").search(queries, 10)
    assert np.array_equal(again[1], rows)
    few = Gallery(names(6000), vectors, "ivfpq", probes=1).search(queries[:3], 200)
    assert (few[1] == -1).any() and np.isneginf(few[0][few[1] == -1]).all()


@pytest.mark.parametrize("index", ["exact", "faiss", "ivfpq"])
def test_saved_and_opened(index, tmp_path):
    vectors, queries = unit((200, 16)), unit((5, 16), seed=1)
    gallery = Gallery(names(200), vectors, index)
    gallery.save(tmp_path / "g")
    opened = Gallery.open(tmp_path / "g")
    assert isinstance(opened.vectors, np.memmap) and opened.ids == names(200) and opened.index == index
    for a, b in zip(gallery.search(queries, 9), opened.search(queries, 9), strict=True):
        assert np.array_equal(a, b)
    with pytest.raises(InputError, match="exists already"):
        gallery.save(tmp_path / "g")
    for name in ("vectors.npy", "ids.json", "manifest.json"):
        path = tmp_path / "g" / name
        content = path.read_bytes()
        path.write_bytes(content[:-3] + b"\x01" + content[-2:])
        with pytest.raises(InputError, match=name):
            Gallery.open(tmp_path / "g")
        path.write_bytes(content)
    (tmp_path / "g" / "ids.json").unlink()
    with pytest.raises(InputError, match=r"ids\.json: is absent"):
        Gallery.open(tmp_path / "g")
    with pytest.raises(InputError, match="is absent"):
        Gallery.open(tmp_path / "nothing")


def test_half_precision_is_searched_too():
    vectors = unit((50, 32)).astype(np.float16)
    assert Gallery(names(50), vectors).search(vectors[:6].astype(np.float32), 1)[1].ravel().tolist() == list(range(6))


def test_wrong_input_is_named():
    vectors = unit((5, 4))
    broken = vectors.copy()
    broken[3, 1] = np.nan
    with pytest.raises(InputError, match=r"gallery r00003: .*NaN"):
        Gallery(names(5), broken)
    with pytest.raises(InputError, match=r"gallery r00000: .*length 2 "):
        Gallery(names(5), vectors * 2)
    gallery = Gallery(names(5), vectors)
    with pytest.raises(InputError, match=r"query number 3: .*NaN"):
        gallery.search(broken, 1)
    with pytest.raises(InputError, match="4 dimensions"):
        gallery.search(unit((2, 6)), 1)
    with pytest.raises(InputError, match="k=0"):
        gallery.search(vectors, 0)
    with pytest.raises(InputError, match="4 ids"):
        Gallery(names(4), vectors)
    with pytest.raises(InputError, match="index=best"):
        Gallery(names(5), vectors, "best")
    with pytest.raises(InputError, match="float64"):
        Gallery(names(5), vectors.astype(float))
    with pytest.raises(InputError, match="code_size=3"):
        Gallery(names(5), vectors, "ivfpq", code_size=3)


def test_without_faiss_the_message_says_what_to_do(monkeypatch):
    real = builtins.__import__

    def refuse(name, *args, **kwargs):
        if name == "faiss":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(InputError, match="pip install faiss-cpu, or use index=exact"):
        Gallery(names(5), unit((5, 4)), "faiss")
    assert Gallery(names(5), unit((5, 4))).search(unit((1, 4)), 2)[1].shape == (1, 2)
