"""Nearest texts and images: equal to brute force, ties included, whatever the workers and shards."""

import hashlib
import math
import os
import signal
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import ot
import pytest
from gensim.models import KeyedVectors
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

from data.build import neighbours
from data.build.neighbours import (
    DECIMALS,
    Groups,
    Neighbours,
    TextPool,
    WordVectors,
    checked_emd,
    nearest_images,
    nearest_texts,
    solver,
)
from data.errors import InputError

VOCABULARY = [f"w{i}" for i in range(60)]


@pytest.fixture(scope="module")
def words() -> WordVectors:
    """60 words in 12 dimensions that lie in 8 heaps."""
    rng = np.random.default_rng(0)
    return WordVectors(VOCABULARY, rng.normal(size=(8, 12))[rng.integers(8, size=60)] + 0.4 * rng.normal(size=(60, 12)))


def one_hot(n: int) -> WordVectors:
    """Words that are all equally far from each other: nothing but ties."""
    return WordVectors(VOCABULARY[:n], np.eye(n))


def texts(count: int, longest: int, seed: int, vocabulary: Sequence[str] = VOCABULARY) -> list[list[str]]:
    """Token lists of 1 to `longest` words, frequent ones first."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        draws = rng.random(int(rng.integers(1, longest + 1)))
        found.append([vocabulary[int(len(vocabulary) * draw**2)] for draw in draws])
    return found


def plain_wmd(a: Sequence[str], b: Sequence[str], words: WordVectors) -> float:
    """Word Mover's Distance as it is defined: all words of both texts, every weight, POT's public function."""
    known = [[words.index[token] for token in text if token in words.index] for text in (a, b)]
    if not all(known):
        return math.inf
    (rows, p), (columns, q) = (np.unique(text, return_counts=True) for text in known)
    vectors = words.vectors.astype(np.float64)
    cost: Any = ot.emd2(p / p.sum(), q / q.sum(), cdist(vectors[rows], vectors[columns]))
    return float(cost)


def brute_force(
    queries: Sequence[Sequence[str]],
    pool: Sequence[Sequence[str]],
    words: WordVectors,
    k: int,
    allowed: tuple[Groups, Groups] | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Every pair solved and sorted by distance and id."""
    ids, distances = np.full((len(queries), k), -1), np.full((len(queries), k), np.inf)
    for i, query in enumerate(queries):
        pairs = []
        for j, text in enumerate(pool):
            if allowed is None or allowed[0][i] != allowed[1][j]:
                distance = round(plain_wmd(query, text, words), DECIMALS)
                pairs += [(distance, j)] if distance < math.inf else []
        for rank, (distance, j) in enumerate(sorted(pairs)[:k]):
            ids[i, rank], distances[i, rank] = j, distance
    return ids, distances


def assert_same(found: Neighbours, expected: tuple[np.ndarray, np.ndarray]) -> None:
    assert found.ids.dtype == np.int64
    assert found.distances.dtype == np.float64
    np.testing.assert_array_equal(found.ids, expected[0])
    np.testing.assert_allclose(found.distances, expected[1], rtol=0, atol=2 * 10.0**-DECIMALS)


def digest(found: Neighbours) -> str:
    arrays = found.ids, found.distances, found.computed
    whole = b"".join(array.tobytes() for array in arrays) + bytes([found.empty_queries, found.empty_pool])
    return hashlib.sha256(whole).hexdigest()


# ---- texts: equal to brute force


@pytest.mark.parametrize("k", [1, 3, 10, 200])
@pytest.mark.parametrize("longest", [1, 3, 30])
def test_equals_brute_force(words: WordVectors, longest: int, k: int) -> None:
    pool, queries = texts(120, longest, 1), texts(8, longest, 2)
    allowed = np.arange(8) % 7, [i % 11 for i in range(120)]
    assert_same(nearest_texts(queries, pool, words, k), brute_force(queries, pool, words, k))
    assert_same(nearest_texts(queries, pool, words, k, allowed), brute_force(queries, pool, words, k, allowed))


@settings(max_examples=60, deadline=None)
@given(
    pool=st.lists(st.lists(st.sampled_from([*VOCABULARY[:5], "unknown"]), max_size=5), max_size=12),
    queries=st.lists(st.lists(st.sampled_from([*VOCABULARY[:6], "unknown"]), max_size=5), max_size=3),
    k=st.integers(1, 14),
    grouped=st.booleans(),
)
def test_equals_brute_force_where_most_distances_tie(
    pool: list[list[str]], queries: list[list[str]], k: int, grouped: bool
) -> None:
    words = one_hot(6)
    allowed = ([i % 2 for i in range(len(queries))], [i % 3 for i in range(len(pool))]) if grouped else None
    found = nearest_texts(queries, pool, words, k, allowed)
    assert_same(found, brute_force(queries, pool, words, k, allowed))
    assert found.empty_pool == sum(not set(text) & set(VOCABULARY[:6]) for text in pool)
    assert found.empty_queries == sum(not set(text) & set(VOCABULARY[:6]) for text in queries)


def test_words_of_equal_vectors_tie_exactly() -> None:
    """Two words with one vector are 0 apart, which 2 - 2 a·b would miss by 1e-8."""
    rng = np.random.default_rng(3)
    vectors = rng.normal(size=(4, 100))
    vectors[1] = 3 * vectors[0]
    words = WordVectors(["salt", "seasalt", "pepper", "sugar"], vectors)
    pool = [["seasalt"], ["salt"], ["pepper"], ["seasalt", "salt"]]
    found = nearest_texts([["salt"], ["salt", "seasalt", "pepper"]], pool, words, 4)
    assert found.ids[0].tolist() == [0, 1, 3, 2]
    assert found.distances[0, :3].tolist() == [0, 0, 0]
    assert len(set(found.distances[1])) == 2  # all but pepper are one and the same distance away


def test_equals_gensim(words: WordVectors) -> None:
    """Gensim solves on the union of both vocabularies in single precision."""
    pool, queries = texts(80, 20, 4), texts(6, 20, 5)
    vectors = KeyedVectors(12)
    vectors.add_vectors(VOCABULARY, words.vectors)
    found = nearest_texts(queries, pool, words, 10)
    for query, ids, distances in zip(queries, found.ids, found.distances, strict=True):
        theirs = np.array([vectors.wmdistance(query, text) for text in pool])
        np.testing.assert_allclose(np.sort(theirs)[:10], distances, atol=1e-6)
        np.testing.assert_allclose(theirs[ids], distances, atol=1e-6)


def test_bounds_rule_out_most_of_a_pool_and_nothing_else(words: WordVectors) -> None:
    pool, queries = texts(3000, 25, 6), texts(3, 25, 7)
    found = nearest_texts(queries, pool, words, 5)
    assert_same(found, brute_force(queries, pool, words, 5))
    assert found.computed.max() < 1500  # a search that solves every pair would be right and useless


@pytest.mark.parametrize("seed", range(6))
def test_no_bound_lies_above_the_distance(words: WordVectors, seed: int) -> None:
    pool = TextPool(texts(300, 40, 10 + seed), words)
    search = neighbours._Search(pool, words.bag(texts(1, 60, 20 + seed)[0]), 20, -1, True)
    rests = [search._rest(row) for row in range(pool.size)]
    exact = np.array([search._distance(*rest) for rest in rests])  # also gathers potentials
    rows = np.arange(pool.size)
    relaxed = search.bounds.copy()
    search._bound(rows)
    kept_in_place = search.bounds.copy()
    search._estimate_potentials()
    dual_of_all = search.bounds.copy()
    search._bound(rows)
    dual = search.bounds
    sinkhorn = np.array([search._sinkhorn(*rest) if len(rest[0]) else 0 for rest in rests])
    for bound in (relaxed, kept_in_place, dual_of_all, dual, sinkhorn):
        assert (bound <= exact + 1e-12).all()
    # Each earns its cost: it is closer than what there was before.
    assert relaxed.sum() < kept_in_place.sum() <= dual_of_all.sum() < dual.sum() < sinkhorn.sum()
    assert sinkhorn.sum() > 0.95 * exact.sum()


def test_sinkhorn_of_potentials_that_fail_decides_nothing(words: WordVectors) -> None:
    """Potentials that say nothing, or overflow, cost time and no neighbour."""
    pool = TextPool(texts(100, 40, 30), words)
    search = neighbours._Search(pool, words.bag(texts(1, 60, 31)[0]), 20, -1, True)
    rest = search._rest(0)
    exact = search._distance(*rest)
    for value in (1e4, -1e4, 1e30, np.inf, np.nan):
        search.potentials[rest[0][0]] = value
        with np.errstate(all="ignore"):
            assert not search._sinkhorn(*rest) > exact


@pytest.mark.parametrize(("name", "value"), [("_WORDS_AT_A_TIME", 50), ("LONG", 1), ("LONG", 10**9), ("SAMPLES", 3)])
def test_how_pairs_are_ruled_out_changes_nothing(
    words: WordVectors, monkeypatch: pytest.MonkeyPatch, name: str, value: int
) -> None:
    pool, queries = texts(400, 40, 8), texts(4, 60, 9)
    whole = nearest_texts(queries, pool, words, 10)
    monkeypatch.setattr(neighbours, name, value)
    found = nearest_texts(queries, pool, words, 10)
    assert found.ids.tobytes() == whole.ids.tobytes()
    assert found.distances.tobytes() == whole.distances.tobytes()


# ---- texts: odd input


def test_texts_without_a_known_word_have_no_neighbours_and_are_none(words: WordVectors) -> None:
    pool = [["unknown"], ["w1"], [], ["w2", "unknown"]]
    found = nearest_texts([["unknown"], [], ["w1"]], pool, words, 4)
    assert found.ids.tolist() == [[-1] * 4, [-1] * 4, [1, 3, -1, -1]]
    assert np.isinf(found.distances[:2]).all()
    assert (found.empty_queries, found.empty_pool) == (2, 2)
    assert found.computed.tolist() == [0, 0, 2]


def test_identical_and_single_word_texts(words: WordVectors) -> None:
    pool = [["w3"], ["w4"], ["w3", "w4"], ["w4", "w3"], ["w3"] * 9]
    found = nearest_texts([["w3"], ["w4", "w3", "w4", "w3"]], pool, words, 5)
    assert found.ids[0].tolist() == [0, 4, 2, 3, 1]
    far = float(np.linalg.norm(words.vectors[3].astype(float) - words.vectors[4]))
    np.testing.assert_allclose(found.distances[0], [0, 0, far / 2, far / 2, far], atol=1e-9)
    assert found.ids[1].tolist()[:2] == [2, 3]
    assert found.distances[1].tolist()[:2] == [0, 0]


@pytest.mark.parametrize("pool", [[], [[]], [["unknown"]]])
def test_empty_pool(words: WordVectors, pool: list[list[str]]) -> None:
    found = nearest_texts([["w1"], ["w2"]], pool, words, 3)
    assert (found.ids == -1).all()
    assert np.isinf(found.distances).all()
    assert found.empty_pool == len(pool)


def test_no_queries(words: WordVectors) -> None:
    found = nearest_texts([], [["w1"]], words, 3)
    assert found.ids.shape == found.distances.shape == (0, 3)
    assert len(found) == 0


def test_all_of_a_pool_excluded(words: WordVectors) -> None:
    found = nearest_texts([["w1"], ["w1"]], [["w1"], ["w2"]], words, 2, (["a", "b"], ["a", "a"]))
    assert found.ids.tolist() == [[-1, -1], [0, 1]]


def test_copies_are_solved_once_and_all_come_out(words: WordVectors) -> None:
    different = texts(30, 6, 11)
    pool = [text for text in different for _ in range(20)]
    found = nearest_texts(different[:4], pool, words, 50)
    assert_same(found, brute_force(different[:4], pool, words, 50))
    assert found.computed.max() <= 30


def test_copies_of_the_own_group_do_not_hide_those_of_others(words: WordVectors) -> None:
    pool = [["w1"], ["w1"], ["w2"], ["w1"]]
    found = nearest_texts([["w1"]], pool, words, 4, (["a"], ["a", "b", "b", "c"]))
    assert found.ids[0].tolist() == [1, 3, 2, -1]


def test_without_copies_each_text_is_one_neighbour(words: WordVectors) -> None:
    pool = [["w1"], ["w1"], ["w2"], ["w1"], ["w3"], ["w2"], ["w1", "w1"]]
    allowed = ["a"], ["a", "b", "b", "c", "d", "e", "f"]
    found = nearest_texts([["w1"]], pool, words, 4, allowed, copies=False)
    expected = brute_force([["w1"]], [pool[i] for i in (1, 2, 4)], words, 3)
    assert found.ids[0].tolist() == [*np.array([1, 2, 4])[expected[0][0]].tolist(), -1]
    many = [text for text in texts(100, 8, 12) for _ in range(9)]
    once = nearest_texts(many[:50:9], many, words, 10, copies=False)
    bags = [words.bag(text) for text in many]
    for row in once.ids:
        assert len({bags[i] for i in row}) == 10
        assert all(bags.index(bags[i]) == i for i in row)


def test_zero_vectors_are_unknown_words() -> None:
    words = WordVectors(["a", "b", "c"], np.array([[1.0, 0], [0, 0], [0, 2]]))
    found = nearest_texts([["a", "b"]], [["b"], ["c", "b"]], words, 2)
    assert found.ids.tolist() == [[1, -1]]
    assert found.distances[0, 0] == pytest.approx(math.sqrt(2))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda w: nearest_texts([["w1"]], [["w1"]], w, 0), "k=0"),
        (lambda w: nearest_texts([["w1"]], [["w1"]], w, 1, workers=0), "workers=0"),
        (lambda w: nearest_texts([["w1"]], [["w1"]], w, 1, shard=0), "shard=0"),
        (lambda w: nearest_texts([["w1"]], [["w1"]], w, 1, (["a"], [])), "1 texts in the pool but 0 groups"),
        (lambda w: nearest_texts([["w1"]], [["w1"]], w, 1, ([], ["a"])), "1 queries but 0 groups"),
        (lambda w: nearest_texts([["w1"]] * 9, [["w1"]], w, 1, ([], ["a"]), workers=2, shard=2), "9 queries but 0"),
        (lambda w: TextPool([["w1"]], w).nearest([["w1"]], 1, ["a"]), "the pool has none"),
        (lambda _: WordVectors(["a"], np.ones((2, 3))), "1 words but vectors of shape"),
        (lambda _: WordVectors(["a", "a"], np.ones((2, 3))), "'a' occurs twice"),
        (lambda _: WordVectors(["a", "b"], np.array([[1, 0], [np.nan, 1]])), "'b' is not finite"),
    ],
)
def test_wrong_input_is_one_line(words: WordVectors, call, message: str) -> None:
    with pytest.raises(InputError) as error:
        call(words)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


# ---- texts: the solver


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 100_000), m=st.integers(1, 40), n=st.integers(1, 40))
def test_the_direct_solver_agrees_with_the_public_one(seed: int, m: int, n: int) -> None:
    assert solver() is not checked_emd  # with this POT the direct one is in use
    rng = np.random.default_rng(seed)
    p, q = rng.random(m) + 1e-3, rng.random(n) + 1e-3
    p, q = p / p.sum(), q / q.sum()
    costs = cdist(rng.normal(size=(m, 5)), rng.normal(size=(n, 5)))
    direct, public = solver()(p, q, costs), checked_emd(p, q, costs)
    assert direct[0] == pytest.approx(public[0], abs=1e-9)
    for cost, u, v in (direct, public):
        assert u @ p + v @ q == pytest.approx(cost, abs=1e-9)


@pytest.mark.parametrize("fault", ["absent", "other arguments", "wrong answer", "fewer results"])
def test_another_pot_falls_back_to_the_public_function(
    words: WordVectors, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    pool, queries = texts(150, 20, 13), texts(4, 20, 14)
    expected = nearest_texts(queries, pool, words, 5)
    emd_wrap = ot.lp.emd_wrap
    if fault == "absent":
        monkeypatch.delattr(emd_wrap, "emd_c")
    elif fault == "other arguments":
        monkeypatch.setattr(emd_wrap, "emd_c", lambda p, q, costs: None)
    elif fault == "wrong answer":
        monkeypatch.setattr(emd_wrap, "emd_c", lambda *_: (None, 0.5, np.zeros(2), np.zeros(2), 1))
    else:
        monkeypatch.setattr(emd_wrap, "emd_c", lambda *_: (None, 0.25))
    solver.cache_clear()
    try:
        assert solver() is checked_emd
        found = nearest_texts(queries, pool, words, 5)
    finally:
        monkeypatch.undo()
        solver.cache_clear()
    np.testing.assert_array_equal(found.ids, expected.ids)
    np.testing.assert_allclose(found.distances, expected.distances, atol=1e-9)


# ---- texts: shards and workers


def test_same_bytes_for_any_shards_and_workers(words: WordVectors) -> None:
    pool, queries = [*texts(300, 20, 15), []], [*texts(23, 20, 16), []]
    groups = [i % 5 for i in range(24)], [i % 9 for i in range(301)]
    expected = digest(nearest_texts(queries, pool, words, 7, groups))
    ready = TextPool(pool, words, groups[1])
    for size in (1, 5, 24):
        shards = [ready.nearest(queries[i : i + size], 7, groups[0][i : i + size]) for i in range(0, 24, size)]
        assert digest(Neighbours.joined(shards)) == expected
    assert digest(nearest_texts(queries, ready, words, 7, groups, workers=2, shard=3)) == expected


def test_order_of_the_queries_and_other_queries_change_nothing(words: WordVectors) -> None:
    pool, queries = texts(200, 12, 17), texts(10, 12, 18)
    forth, back = (nearest_texts(order, pool, words, 6) for order in (queries, queries[::-1]))
    np.testing.assert_array_equal(forth.ids, back.ids[::-1])
    np.testing.assert_array_equal(forth.computed, back.computed[::-1])


class _Deadly(WordVectors):
    """Ends the process that looks a word up, unless it is the one that made it."""

    def __init__(self) -> None:
        super().__init__(["a"], np.ones((1, 2)))
        self.maker = os.getpid()

    def bag(self, tokens: Sequence[str]) -> tuple[tuple[int, int], ...]:
        if os.getpid() != self.maker:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().bag(tokens)


def test_a_killed_worker_ends_the_search_with_one_line() -> None:
    with pytest.raises(InputError, match="a worker process was ended from outside"):
        nearest_texts([["a"]] * 8, [["a"]], _Deadly(), 1, workers=2, shard=1)


# ---- images


def images_by_hand(
    queries: np.ndarray, pool: np.ndarray, k: int, allowed: tuple[Groups, Groups] | None = None
) -> tuple[np.ndarray, np.ndarray]:
    ids, distances = np.full((len(queries), k), -1), np.full((len(queries), k), np.inf)
    for i, query in enumerate(queries.astype(np.float64)):
        far = np.sqrt(((pool.astype(np.float64) - query) ** 2).sum(1))
        order = [j for j in np.argsort(far, kind="stable") if allowed is None or allowed[0][i] != allowed[1][j]][:k]
        ids[i, : len(order)], distances[i, : len(order)] = order, far[order]
    return ids, distances


@pytest.mark.parametrize(
    ("block", "k", "grouped", "kind"), product([1, 7, 64, 0], [1, 5, 500], [False, True], [np.float32, np.float16])
)
def test_images_equal_brute_force(block: int, k: int, grouped: bool, kind: type) -> None:
    rng = np.random.default_rng(block + k)
    pool, queries = (np.maximum(rng.normal(size=(n, 24)), 0).astype(kind) for n in (230, 9))
    pool[50:70] = pool[3]  # copies
    queries[0] = pool[3]
    allowed = ([i % 4 for i in range(9)], [i % 6 for i in range(230)]) if grouped else None
    found = nearest_images(queries, pool, k, allowed, block=block)
    expected = images_by_hand(queries, pool, k, allowed)
    np.testing.assert_array_equal(found.ids, expected[0])
    np.testing.assert_allclose(found.distances, expected[1], rtol=1e-12)


def test_images_of_large_norm_that_lie_close_are_told_apart() -> None:
    """In float32 all scores of these are the same number."""
    rng = np.random.default_rng(1)
    pool = (1000 + 1e-4 * rng.normal(size=(300, 16))).astype(np.float32)
    found = nearest_images(pool[:5], pool, 4, block=40)
    np.testing.assert_array_equal(found.ids, images_by_hand(pool[:5], pool, 4)[0])


def test_a_pool_of_one_picture_only_is_cut_by_id() -> None:
    pool = np.ones((5000, 3), np.float32)
    found = nearest_images(np.zeros((2, 3), np.float32), pool, 3, block=700)
    assert found.ids.tolist() == [[0, 1, 2]] * 2
    assert found.computed.tolist() == [5000, 5000]


def test_what_is_kept_is_bounded_however_many_rows_are_equal() -> None:
    pool, none = np.ones((5000, 3), np.float32), np.empty(0, np.int64)
    part = neighbours._NearestRows(np.zeros((2, 3), np.float32), pool, 3, (none, none))
    for start in range(0, 5000, 700):
        rows = pool[start : start + 700]
        part.see(start, np.hstack([rows, (rows**2).sum(1, keepdims=True)]))
        assert len(part.row) <= 2 * (8 * 3 + 256)


def test_images_equal_faiss() -> None:
    faiss = pytest.importorskip("faiss", reason="needs the extra `retrieval`")
    rng = np.random.default_rng(2)
    pool, queries = (np.maximum(rng.normal(size=(n, 64)), 0).astype(np.float32) for n in (4000, 40))
    index = faiss.IndexFlatL2(64)
    index.add(pool)
    squares, ids = index.search(queries, 20)
    found = nearest_images(queries, pool, 20)
    np.testing.assert_allclose(found.distances, np.sqrt(squares), rtol=1e-4)
    np.testing.assert_array_equal(found.ids, ids)


def test_images_from_a_memory_map_by_threads_have_the_same_bytes(tmp_path) -> None:
    rng = np.random.default_rng(3)
    pool, queries = (rng.random((n, 32)).astype(np.float16) for n in (900, 2100))
    np.save(tmp_path / "features.npy", pool)
    mapped = np.load(tmp_path / "features.npy", mmap_mode="r")
    one = nearest_images(queries, pool, 6)
    assert (one.ids[:, 0] >= 0).all()
    for workers, block in ((1, 100), (3, 64)):
        many = nearest_images(queries, mapped, 6, workers=workers, block=block)
        assert many.ids.tobytes() == one.ids.tobytes()
        assert many.distances.tobytes() == one.distances.tobytes()
        assert many.computed.tobytes() == one.computed.tobytes()


@pytest.mark.parametrize("sizes", [(0, 4), (3, 0)])
def test_no_images(sizes: tuple[int, int]) -> None:
    found = nearest_images(np.ones((sizes[0], 5)), np.ones((sizes[1], 5)), 2)
    assert found.ids.shape == (sizes[0], 2)
    assert (found.ids == -1).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: nearest_images(np.ones((2, 3)), np.ones((2, 4)), 1), "take both from one network"),
        (lambda: nearest_images(np.ones((2, 3)), np.ones((2, 3)), 0), "k=0"),
        (lambda: nearest_images(np.ones((2, 3)), np.ones((2, 3)), 1, ([1], [1, 2])), "1 and 2 groups"),
        (lambda: nearest_images(np.ones((2, 3)), np.array([[1, 1, 1], [1, np.nan, 1]]), 1), "image 1 of the pool"),
        (lambda: nearest_images(np.array([[1, 1], [np.inf, 1]]), np.ones((2, 2)), 1), "query 1"),
    ],
)
def test_wrong_images_are_one_line(call, message: str) -> None:
    with pytest.raises(InputError) as error:
        call()
    assert message in str(error.value)
    assert "\n" not in str(error.value)
