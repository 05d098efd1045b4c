"""Exact nearest neighbours of texts and images, for wrong choices (Yagcioglu et al. 2018, sections 2.2 and 3).

Texts are compared by Word Mover's Distance (Kusner et al. 2015): the least cost of moving the words of one text onto
those of another, where a word weighs its share of the text and a way costs the Euclidean distance of two unit word
vectors. Millions of pairs are ruled out by lower bounds, the rest is solved by POT, and what comes out is what solving
every pair would give. Images are compared by the Euclidean distance of their features.
"""

import heapq
import math
import multiprocessing
import os
from collections import Counter, deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist
from threadpoolctl import threadpool_limits
from tqdm import tqdm

from data.errors import InputError

# Distances are rounded to so many decimals: the solver's own rounding, near 1e-15, must not decide between equals.
DECIMALS = 10
_SLACK = 10.0**-DECIMALS
MAX_ITERATIONS = 10_000_000
_FAR = np.finfo(np.float32).max
_TINY = np.float32(1e-30)
_WORDS_AT_A_TIME = 1 << 20  # of the texts that are bounded together
SAMPLES = 50  # solved pairs whose potentials are put to use
# Of Sinkhorn's algorithm on unit vectors. At 0.02 or with 20 rounds it costs more than the solutions that it saves, and
# below LONG word pairs a solution is as cheap.
TEMPERATURE, ROUNDS, LONG = 0.04, 8, 600
_PAIR_BYTES = 64 << 20  # of a block of image features in float32

Groups = Sequence[Hashable] | np.ndarray  # one for each text or image


@dataclass(frozen=True)
class Neighbours:
    """The k nearest of each query, nearest first; of equally near ones the lower id comes first.

    `ids` (Q, k) int64: places in the pool, -1 where fewer than k are admissible. `distances` (Q, k) float64, inf there.
    `computed` (Q,) int64: texts whose exact distance was worked out, and of images all that are admissible.
    `empty_queries`, `empty_pool`: texts without a known word; they have no neighbours and are none.
    """

    ids: np.ndarray
    distances: np.ndarray
    computed: np.ndarray
    empty_queries: int = 0
    empty_pool: int = 0

    def __len__(self) -> int:
        return len(self.ids)

    @staticmethod
    def joined(shards: Sequence["Neighbours"]) -> "Neighbours":
        """The shards' queries one after the other; at least one shard, all with one pool and one k."""
        return Neighbours(
            np.concatenate([shard.ids for shard in shards]),
            np.concatenate([shard.distances for shard in shards]),
            np.concatenate([shard.computed for shard in shards]),
            sum(shard.empty_queries for shard in shards),
            shards[0].empty_pool,
        )


# ---- texts -----------------------------------------------------------------------------------------------------------


class WordVectors:
    """Words and their vectors, brought to unit length; a word whose vector is all zeros counts as unknown."""

    def __init__(self, words: Sequence[str], vectors: np.ndarray) -> None:
        """`vectors` (V, D). InputError where they do not fit the words, a word occurs twice, or one is not finite."""
        exact = np.asarray(vectors, np.float64)
        if exact.ndim != 2 or len(exact) != len(words):
            raise InputError(f"word vectors: {len(words)} words but vectors of shape {exact.shape}; give one for each")
        if not np.isfinite(exact).all():
            word = words[int(np.flatnonzero(~np.isfinite(exact).all(1))[0])]
            raise InputError(f"word vectors: that of {word!r} is not finite; train the vectors again")
        norms = np.linalg.norm(exact, axis=1, keepdims=True)
        self.vectors = (exact / np.where(norms > 0, norms, 1)).astype(np.float32)
        self.index = {word: i for i, word in enumerate(words) if norms[i] > 0}
        if len(set(words)) != len(words):
            raise InputError(f"word vectors: {Counter(words).most_common(1)[0][0]!r} occurs twice; give each word once")

    def bag(self, tokens: Sequence[str]) -> tuple[tuple[int, int], ...]:
        """The known words of a text as (row, count), by row; counts without common factor, as only shares matter."""
        counts = Counter(self.index[token] for token in tokens if token in self.index)
        factor = math.gcd(*counts.values())
        return tuple((row, counts[row] // factor) for row in sorted(counts))


Solved = tuple[float, np.ndarray, np.ndarray]  # cost, and a potential of each word of either text


@cache
def solver() -> Callable[[np.ndarray, np.ndarray, np.ndarray], Solved]:
    """POT's network simplex without the checks around it, or `checked_emd` where this POT keeps it elsewhere.

    The checks cost more than the solver: of texts of 3 words 230 µs in 232, of 50 words 220 µs in 420.
    """
    try:
        from ot.lp.emd_wrap import emd_c

        def direct(p: np.ndarray, q: np.ndarray, costs: np.ndarray) -> Solved:
            _, cost, u, v, code = emd_c(p, q, costs, MAX_ITERATIONS, 1)
            if code != 1:
                raise ArithmeticError(f"POT ends with code {code} on costs of shape {costs.shape}")
            return float(cost), u, v

        half = np.full(2, 0.5)
        cost, u, v = direct(half, half, np.array([[1.0, 0.25], [0.25, 1.0]]))
        if cost == 0.25 and u.shape == v.shape == (2,):
            return direct
    except (ImportError, TypeError, ValueError, AttributeError, ArithmeticError):
        pass
    return checked_emd


def checked_emd(p: np.ndarray, q: np.ndarray, costs: np.ndarray) -> Solved:
    """Earth mover's distance by POT's public function; p (m,) and q (n,) sum to 1, costs (m, n); all float64."""
    import ot

    cost, log = ot.emd2(p, q, costs, numItermax=MAX_ITERATIONS, log=True)
    return float(cost), log["u"], log["v"]


class TextPool:
    """A pool of texts made ready once; `nearest` may then be asked for any shard of queries, in any process.

    Texts of the same known words in the same shares are one *bag*: each bag is bounded and solved once for a query,
    however many copies of it the pool holds. It pickles as plain arrays and the word list.
    """

    def __init__(self, texts: Sequence[Sequence[str]], words: WordVectors, groups: Groups | None = None) -> None:
        """`texts` are lists of tokens; `groups` names the recipe of each. InputError where their numbers differ."""
        if groups is not None and len(groups) != len(texts):
            raise InputError(f"neighbours: {len(texts)} texts in the pool but {len(groups)} groups; give one for each")
        self.words = words
        bags: dict[tuple[tuple[int, int], ...], list[int]] = {}
        for i, text in enumerate(texts):
            bags.setdefault(words.bag(text), []).append(i)
        self.empty = len(bags.pop((), []))
        self.size = len(bags)

        # Copies of bag b: ids[copies[b]:copies[b + 1]], increasing.
        self.ids = np.array([i for copies in bags.values() for i in copies], np.int64)
        self.copies = np.cumsum([0, *map(len, bags.values())])
        self.group_codes: dict[Hashable, int] = {}
        codes = [
            self.group_codes.setdefault(group, len(self.group_codes)) for group in (() if groups is None else groups)
        ]
        self.groups = np.array(codes, np.int64)[self.ids] if groups is not None else None
        if self.groups is not None:
            self.by_group = np.argsort(self.groups, kind="stable")
            self.group_starts = np.searchsorted(self.groups[self.by_group], np.arange(len(self.group_codes) + 1))
            self.bag_of = np.repeat(np.arange(self.size), np.diff(self.copies))

        # Words of bag b: columns starts[b]:starts[b + 1], their shares in `mass`.
        self.starts = np.cumsum([0, *map(len, bags)])
        rows = np.array([row for bag in bags for row, _ in bag], np.int64)
        counts = np.array([count for bag in bags for _, count in bag], np.int64)
        lengths = np.diff(self.starts)
        totals = np.add.reduceat(counts, self.starts[:-1]) if self.size else counts
        self.mass = counts / np.repeat(totals, lengths)
        self.vocabulary, columns = np.unique(rows, return_inverse=True)
        self.vectors = words.vectors[self.vocabulary]  # (U, D)
        self.columns = columns.astype(np.int32)
        # A sum of n products in float32 errs by n units in the last place at most, so shares that are smaller by more
        # than that give a bound that never lies above the true distance.
        self.margin = float(lengths.max(initial=0) + 8) * 2.0**-23
        lowered = (self.mass * (1 - self.margin)).astype(np.float32)
        shape = self.size, len(self.vocabulary)
        self.shares = csr_array((lowered, self.columns, self.starts.astype(np.int32)), shape=shape)

    def nearest(
        self,
        queries: Sequence[Sequence[str]],
        k: int,
        groups: Groups | None = None,
        *,
        copies: bool = True,
        progress: str = "",
    ) -> Neighbours:
        """The k nearest texts of each query: a function of its arguments alone, query by query.

        Args:
            queries: lists of tokens.
            k: at least 1.
            groups: of the queries; texts of the pool of the same group are no neighbours.
            copies: where False, of texts of the same known words only the admissible one of the lowest id is taken,
                so that a title that stands in hundreds of recipes is one neighbour and not hundreds.
            progress: what a progress bar says; no bar where empty.

        Raises:
            InputError: k below 1, or groups that do not fit.
        """
        if k < 1:
            raise InputError(f"neighbours: k={k} must be at least 1")
        if groups is not None and len(groups) != len(queries):
            raise InputError(f"neighbours: {len(queries)} queries but {len(groups)} groups; give one for each")
        if groups is not None and self.groups is None:
            raise InputError("neighbours: the queries have groups and the pool has none; give both")
        ids, distances = np.full((len(queries), k), -1, np.int64), np.full((len(queries), k), np.inf)
        computed, empty = np.zeros(len(queries), np.int64), 0
        with threadpool_limits(1), tqdm(total=len(queries), desc=progress, unit="text", disable=not progress) as bar:
            for i, tokens in enumerate(queries):
                bag = self.words.bag(tokens)
                empty += not bag
                if bag and self.size:
                    code = -1 if groups is None else self.group_codes.get(groups[i], -1)
                    search = _Search(self, bag, k, code, copies)
                    found, far = search.run()
                    ids[i, : len(found)], distances[i, : len(found)], computed[i] = found, far, search.computed
                bar.update()
        return Neighbours(ids, distances, computed, empty, self.empty)


class _Search:
    """The nearest texts of one query.

    Four lower bounds, each dearer and closer than the one before:

    1. All mass of a text moves to the nearest word of the query: one matrix product over the whole pool (relaxed WMD,
       Kusner et al. 2015, section 4).
    2. Mass that both texts have in a word stays there, since a detour is never shorter; what is left moves to the
       nearest *other* word of the query (Atasu and Mittelholzer 2019, section 3).
    3. By duality, any potentials of the query's words that are made feasible give a bound. Those of the texts solved
       first are good for the others too, which look much the same from the query.
    4. A few rounds of Sinkhorn's algorithm (Cuturi 2013) on one pair, made feasible. This costs a tenth of a solution
       where both texts are long, and rules out nine texts in ten.
    """

    def __init__(self, pool: TextPool, bag: tuple[tuple[int, int], ...], k: int, group: int, copies: bool) -> None:
        self.pool, self.k, self.group, self.all_copies = pool, k, group, copies
        rows, counts = np.array(bag, np.int64).T
        self.mass = counts / counts.sum()  # (m,)
        vectors = pool.words.vectors[rows]
        self.vectors = vectors.astype(np.float64)
        place = np.searchsorted(pool.vocabulary, rows)
        place[place == len(pool.vocabulary)] = 0
        known = np.flatnonzero(pool.vocabulary[place] == rows)  # query words that occur in the pool
        columns = place[known]
        self.position = np.full(len(pool.vocabulary), -1, np.int32)
        self.position[columns] = known

        # Ways (U, m) between words of the pool and of the query, none above the true one: for unit vectors of D
        # numbers a product in float32 errs by D units in the last place at most.
        self.ways = pool.vectors @ vectors.T
        self.ways *= -2
        self.ways += 2 - (vectors.shape[1] + 16) * 2.0**-23
        np.maximum(self.ways, 0, out=self.ways)
        np.sqrt(self.ways, out=self.ways)
        self.ways[columns, known] = 0
        self.nearest = self.ways.min(1)  # (U,)
        self.ways[columns, known] = 2  # from here on a word is no way to itself
        self.other = self.nearest.copy()
        self.other[columns] = self.ways[columns].min(1)

        self.available = np.diff(pool.copies)
        if group >= 0:
            members = pool.by_group[pool.group_starts[group] : pool.group_starts[group + 1]]
            np.subtract.at(self.available, pool.bag_of[members], 1)
        if not copies:
            self.available = np.minimum(self.available, 1)
        self.found: list[tuple[float, int]] = []
        self.best: list[tuple[float, int]] = []  # heap of (-distance, copies), farthest first
        self.copies_in_best = 0
        self.limit = np.inf  # distance of the k-th nearest so far
        # The closest bound so far of each bag; inf where it is solved or none of its copies may be taken.
        self.bounds = (pool.shares @ self.nearest).astype(np.float64)
        self.bounds[self.available == 0] = np.inf
        self.samples = deque[np.ndarray](maxlen=SAMPLES)  # potentials (m,) of its words, nan where none was needed
        self.potentials = np.zeros(len(bag), np.float32)  # their median
        self.feasible = self.other  # (U,) the largest potentials of the pool's words that these allow

    @property
    def computed(self) -> int:
        """How many exact distances were worked out."""
        return len(self.found)

    def run(self) -> tuple[np.ndarray, np.ndarray]:
        """Ids and distances of the k nearest, or of all admissible ones."""
        open_rows = np.flatnonzero(self.bounds < np.inf)
        seeds = min(max(256, 4 * self.k), len(open_rows))
        rows = open_rows[np.argpartition(self.bounds[open_rows], seeds - 1)[:seeds]] if seeds else open_rows
        for wanted in (self.k, self.k + SAMPLES, len(self.bounds)):
            self._bound(rows)
            near = rows[self.bounds[rows] <= self.limit + _SLACK]
            self._solve(near[np.argsort(self.bounds[near], kind="stable")], wanted)
            self._estimate_potentials()
            rows = np.flatnonzero(self.bounds <= min(self.limit + _SLACK, _FAR))
        return self._expanded()

    # -- bounds

    def _bound(self, rows: np.ndarray) -> None:
        """Raises the bounds of some rows to bounds 2 and 3."""
        pool = self.pool
        lengths = pool.starts[rows + 1] - pool.starts[rows]
        piece = np.cumsum(lengths) // _WORDS_AT_A_TIME
        for part, count in zip(_cut(rows, piece), _cut(lengths, piece), strict=True):
            starts = np.cumsum(count) - count
            flat = np.arange(count.sum()) + np.repeat(pool.starts[part] - starts, count)
            columns, left = pool.columns[flat], pool.mass[flat]
            position = self.position[columns]
            shared = np.flatnonzero(position >= 0)
            common = np.minimum(left[shared], self.mass[position[shared]])
            left[shared] -= common
            gain = left * self.feasible[columns]
            gain[shared] -= common * self.potentials[position[shared]]
            # The rounding of a potential moves the bound by less than 2^-20, as there is at most one unit of mass.
            dual = self.mass @ self.potentials + np.add.reduceat(gain, starts) - 2.0**-20
            relaxed = np.add.reduceat(left * self.other[columns], starts)
            self.bounds[part] = np.maximum(self.bounds[part], np.maximum(relaxed, dual))

    def _rest(self, row: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """What is left to move to a bag: words of the query, columns of the bag, and the mass of either."""
        pool = self.pool
        span = slice(pool.starts[row], pool.starts[row + 1])
        columns, theirs, ours = pool.columns[span], pool.mass[span], self.mass
        position = self.position[columns]
        shared = position >= 0
        if shared.any():
            # Shares are correctly rounded quotients, so that equal ones cancel to zero exactly.
            common = np.minimum(theirs[shared], ours[position[shared]])
            theirs, ours = theirs.copy(), ours.copy()
            theirs[shared] -= common
            ours[position[shared]] -= common
        here, there = np.flatnonzero(ours), np.flatnonzero(theirs)
        return here, columns[there], ours[here], theirs[there]

    def _sinkhorn(self, here: np.ndarray, columns: np.ndarray, p: np.ndarray, q: np.ndarray) -> float:
        """Bound 4 of one pair; any potentials give a bound, so nothing here has to converge."""
        ways = self.ways[columns][:, here]  # (n, m)
        kernel = np.exp(ways * np.float32(-1 / TEMPERATURE))
        ours, theirs = p.astype(np.float32), q.astype(np.float32)
        scale = np.exp((self.potentials[here] - self.potentials[here].max()) / np.float32(TEMPERATURE))
        for _ in range(ROUNDS):
            scale = ours / ((theirs / (kernel @ scale + _TINY)) @ kernel + _TINY)
        u = np.float32(TEMPERATURE) * np.log(scale + _TINY)
        v = (ways - u).min(1)
        u = (ways - v[:, None]).min(0)
        return float(u @ p + v @ q) - 2.0**-18

    # -- exact distances

    def _solve(self, rows: np.ndarray, wanted: int) -> None:
        """Works out distances in the order given until bounds pass the k-th nearest or `wanted` texts are found."""
        for row in rows.tolist():
            if self.bounds[row] > self.limit + _SLACK or len(self.found) >= wanted:
                return
            here, columns, p, q = self._rest(row)
            if len(p) * len(q) >= LONG and self.limit < np.inf:
                self.bounds[row] = max(self.bounds[row], self._sinkhorn(here, columns, p, q))
                if self.bounds[row] > self.limit + _SLACK:
                    continue
            self.bounds[row] = np.inf
            distance = round(self._distance(here, columns, p, q), DECIMALS)
            self.found.append((distance, row))
            copies = int(self.available[row])
            heapq.heappush(self.best, (-distance, copies))
            self.copies_in_best += copies
            while self.copies_in_best - self.best[0][1] >= self.k:
                self.copies_in_best -= heapq.heappop(self.best)[1]
            if self.copies_in_best >= self.k:
                self.limit = -self.best[0][0]

    def _distance(self, here: np.ndarray, columns: np.ndarray, p: np.ndarray, q: np.ndarray) -> float:
        """Word Mover's Distance of what is left to move."""
        if not len(p):
            return 0.0
        # Differences, and not products of the vectors: an entry has the same bits whatever it is computed with.
        costs = cdist(self.vectors[here], self.pool.vectors[columns])
        moved = float(p.sum())
        if len(p) == 1 or len(q) == 1:
            return float(p @ costs @ q) / moved
        cost, u, _ = solver()(p / moved, q / q.sum(), costs)
        u = (costs - (costs - u[:, None]).min(0)).min(1)
        sample = np.full(len(self.mass), np.nan)
        sample[here] = u - u @ p / moved + cost / 2  # free up to a constant, so each side is made to pay half
        self.samples.append(sample)
        return cost * moved

    def _estimate_potentials(self) -> None:
        """The median over the texts solved last, and what it says of the whole pool."""
        if not self.samples:
            return
        samples = np.array(self.samples)
        samples[0, np.isnan(samples).all(0)] = 0
        self.potentials = np.nanmedian(samples, axis=0).astype(np.float32)
        self.feasible = (self.ways - self.potentials).min(1)
        # Bound 3 without what bound 2 knows: here a word is a way of length 0 to itself, too. No potential is above 4
        # in size, and as for bound 1 the shares and their sums are off by the margin at most.
        feasible = self.feasible.copy()
        columns = np.flatnonzero(self.position >= 0)
        feasible[columns] = np.minimum(feasible[columns], -self.potentials[self.position[columns]])
        dual = self.pool.shares @ feasible + (self.mass @ self.potentials - 8 * self.pool.margin)
        self.bounds = np.maximum(self.bounds, dual)

    def _expanded(self) -> tuple[np.ndarray, np.ndarray]:
        """Bags as texts: every admissible copy has its bag's distance."""
        pool = self.pool
        ids, distances = [], []
        for distance, row in self.found:
            if distance > self.limit:
                continue
            span = slice(pool.copies[row], pool.copies[row + 1])
            copies = pool.ids[span]
            if self.group >= 0 and pool.groups is not None:
                copies = copies[pool.groups[span] != self.group]
            copies = copies[: self.k if self.all_copies else 1]
            ids.append(copies)
            distances.append(np.full(len(copies), distance))
        if not ids:
            return np.empty(0, np.int64), np.empty(0)
        every, far = np.concatenate(ids), np.concatenate(distances)
        order = np.lexsort((every, far))[: self.k]
        return every[order], far[order]


def _cut(values: np.ndarray, piece: np.ndarray) -> list[np.ndarray]:
    """The values of each piece; `piece` numbers the pieces, rising."""
    return np.split(values, np.flatnonzero(np.diff(piece)) + 1) if len(values) else []


def nearest_texts(
    queries: Sequence[Sequence[str]],
    pool: "Sequence[Sequence[str]] | TextPool",
    words: WordVectors,
    k: int,
    allowed: tuple[Groups, Groups] | None = None,
    *,
    copies: bool = True,
    workers: int = 1,
    shard: int = 64,
    progress: str = "",
) -> Neighbours:
    """The k texts of the pool nearest to each query by Word Mover's Distance over unit word vectors, exactly.

    What comes out has the same bits whatever `workers` and `shard` are. A text without a known word has no neighbours
    and is none; both kinds are counted.

    Args:
        queries: token lists.
        pool: token lists, or a `TextPool` made of them with the same words and the pool's groups.
        words: the words that are known, and their vectors.
        k: at least 1.
        allowed: a group of each query and a group of each text of the pool, say their recipes; a text is allowed for
            the queries of other groups only. None: every text is allowed.
        copies: see `TextPool.nearest`.
        workers: processes, one thread each. More than one are started afresh and are handed the pool once.
        shard: queries that a process takes at a time.
        progress: what a progress bar says; no bar where empty.

    Raises:
        InputError: a setting or a number of groups that does not fit, or a worker process that was ended from outside.
    """
    if workers < 1 or shard < 1:
        raise InputError(f"neighbours: workers={workers}, shard={shard}: must be at least 1")
    ours, theirs = (None, None) if allowed is None else allowed
    if not isinstance(pool, TextPool):
        pool = TextPool(pool, words, theirs)
    if workers == 1 or len(queries) <= shard:
        return pool.nearest(queries, k, ours, copies=copies, progress=progress)
    if ours is not None and len(ours) != len(queries):
        raise InputError(f"neighbours: {len(queries)} queries but {len(ours)} groups; give one for each")
    starts = range(0, len(queries), shard)
    asked = [(queries[i : i + shard], k, None if ours is None else ours[i : i + shard], copies) for i in starts]
    executor = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), _take_pool, (pool,))
    try:
        with tqdm(total=len(queries), desc=progress, unit="text", disable=not progress) as bar:
            found = []
            for part in executor.map(_nearest_in_worker, asked):
                found.append(part)
                bar.update(len(part))
    except BrokenProcessPool:
        raise InputError(
            "neighbours: a worker process was ended from outside, perhaps for want of memory; start again with fewer "
            "workers"
        ) from None
    finally:
        executor.shutdown(cancel_futures=True)
    return Neighbours.joined(found)


_pool_of_worker: list[TextPool] = []


def _take_pool(pool: TextPool) -> None:
    for backend in ("PYTORCH", "JAX", "TENSORFLOW", "CUPY"):  # POT would load each that is installed, and needs none
        os.environ[f"POT_BACKEND_DISABLE_{backend}"] = "1"
    _pool_of_worker[:] = [pool]


def _nearest_in_worker(asked: tuple[Any, int, Any, bool]) -> Neighbours:
    queries, k, groups, copies = asked
    return _pool_of_worker[0].nearest(queries, k, groups, copies=copies)


# ---- images ----------------------------------------------------------------------------------------------------------


def nearest_images(
    queries: np.ndarray,
    pool: np.ndarray,
    k: int,
    allowed: tuple[Groups, Groups] | None = None,
    *,
    workers: int = 1,
    block: int = 0,
    progress: str = "",
) -> Neighbours:
    """The k rows of the pool nearest to each query by Euclidean distance, exactly.

    A matrix product in float32 leaves the rows that its rounding cannot rule out; their distances are worked out again
    from differences in float64, so that equal rows tie and nothing depends on how the work was cut. Rows are read block
    by block: a memory map of float16 or float32 is never held whole.

    Args:
        queries: (Q, D) float, read as float32.
        pool: (N, D) float, read as float32; an array or a memory map.
        k: at least 1.
        allowed: a group of each query and of each row of the pool; rows of the query's own group are left out.
        workers: threads, one for each 1,024 queries at a time.
        block: rows of the pool that are compared at a time; 0: as many as fit 64 MiB.
        progress: what a progress bar says; no bar where empty.

    Raises:
        InputError: shapes or groups that do not fit, k or workers below 1, or a feature that is not finite.
    """
    if queries.ndim != 2 or pool.ndim != 2 or queries.shape[1] != pool.shape[1]:
        raise InputError(f"neighbours: features of shapes {queries.shape} and {pool.shape}; take both from one network")
    if k < 1 or workers < 1 or block < 0:
        raise InputError(f"neighbours: k={k}, workers={workers}, block={block}: must be at least 1, 1, and 0")
    width = queries.shape[1]
    block = block or max(1, _PAIR_BYTES // (4 * width + 4))
    parts = [
        _NearestRows(np.asarray(queries[i : i + 1024], np.float32), pool, k, own)
        for i, own in zip(range(0, len(queries), 1024), _own_rows(len(queries), len(pool), allowed), strict=True)
    ]
    for i, part in enumerate(parts):
        if not np.isfinite(part.queries).all():
            row = 1024 * i + int(np.flatnonzero(~np.isfinite(part.queries).all(1))[0])
            raise InputError(f"neighbours: features of query {row} are not finite; extract them again")
    bar = tqdm(total=len(pool), desc=progress, unit="image", disable=not progress)
    with threadpool_limits(1), ThreadPoolExecutor(workers) as executor, bar:
        for start in range(0, len(pool), block):
            # One column more, so that the product is already |row|² - 2 query·row.
            rows = np.empty((min(block, len(pool) - start), width + 1), np.float32)
            rows[:, :width] = pool[start : start + block]
            rows[:, width] = np.einsum("nd,nd->n", rows[:, :width], rows[:, :width], dtype=np.float64)
            if not np.isfinite(rows).all():
                row = start + int(np.flatnonzero(~np.isfinite(rows).all(1))[0])
                raise InputError(f"neighbours: features of image {row} of the pool are not finite; extract them again")
            list(executor.map(lambda part, start=start, rows=rows: part.see(start, rows), parts))
            bar.update(len(rows))
        found = list(executor.map(lambda part: part.result(), parts))
    if not found:
        return Neighbours(np.empty((0, k), np.int64), np.empty((0, k)), np.empty(0, np.int64))
    return Neighbours.joined(found)


def _own_rows(queries: int, rows: int, allowed: tuple[Groups, Groups] | None) -> list[tuple[np.ndarray, np.ndarray]]:
    """For each 1,024 queries, (query, row of the pool) of equal groups, by row."""
    starts = range(0, queries, 1024)
    if allowed is None:
        return [(np.empty(0, np.int64), np.empty(0, np.int64)) for _ in starts]
    ours, theirs = allowed
    if len(ours) != queries or len(theirs) != rows:
        raise InputError(
            f"neighbours: {queries} queries and {rows} images but {len(ours)} and {len(theirs)} groups; give one each"
        )
    members: dict[Hashable, list[int]] = {}
    for row, group in enumerate(theirs):
        members.setdefault(group, []).append(row)
    found = []
    for start in starts:
        pairs = [(i, row) for i, group in enumerate(ours[start : start + 1024]) for row in members.get(group, ())]
        table = np.array(sorted(pairs, key=lambda pair: pair[1]), np.int64).reshape(-1, 2)
        found.append((table[:, 0], table[:, 1]))
    return found


class _NearestRows:
    """The nearest rows so far of up to 1,024 queries."""

    def __init__(self, queries: np.ndarray, pool: np.ndarray, k: int, own: tuple[np.ndarray, np.ndarray]) -> None:
        self.queries, self.pool, self.k, self.own = queries, pool, k, own
        self.factors = np.hstack([-2 * queries, np.ones((len(queries), 1), np.float32)])
        self.lengths = np.linalg.norm(queries.astype(np.float64), axis=1)
        self.longest = 0.0  # length of the longest row of the pool so far
        # What may still be among the k nearest: query, row of the pool, and score |row|² - 2 query·row.
        self.query, self.row = np.empty(0, np.int64), np.empty(0, np.int64)
        self.score = np.empty(0, np.float64)
        self.kth = np.full(len(queries), np.inf)  # score of the k-th so far

    def _limits(self) -> np.ndarray:
        """Scores (n,) above which a row cannot be among the k nearest, whatever was rounded.

        A sum of D + 1 products in float32 errs by D + 1 units in the last place of the sum of their magnitudes at
        most; both the score and the k-th it is compared with have such an error.
        """
        error = (self.queries.shape[1] + 3) * 2.0**-24 * (2 * self.lengths * self.longest + self.longest**2)
        return self.kth + 2 * error

    def see(self, start: int, rows: np.ndarray) -> None:
        """Take the pool's rows `start` and following, with their squared lengths in the last column."""
        self.longest = max(self.longest, math.sqrt(float(rows[:, -1].max())) * (1 + 1e-6))
        scores = self.factors @ rows.T  # (n, rows)
        first, last = np.searchsorted(self.own[1], [start, start + len(rows)])
        scores[self.own[0][first:last], self.own[1][first:last] - start] = np.inf
        if not np.isfinite(self.kth).all() and len(rows) >= self.k:
            self.kth = np.minimum(self.kth, np.partition(scores, self.k - 1, axis=1)[:, self.k - 1])
        limits = np.minimum(np.nextafter(self._limits().astype(np.float32), np.float32(np.inf)), _FAR)
        query, row = np.nonzero(scores <= limits[:, None])
        self.query = np.concatenate([self.query, query])
        self.row = np.concatenate([self.row, row + start])
        self.score = np.concatenate([self.score, scores[query, row].astype(np.float64)])
        self._prune()

    def _prune(self) -> None:
        order = np.lexsort((self.row, self.score, self.query))
        self.query, self.row, self.score = self.query[order], self.row[order], self.score[order]
        starts = np.searchsorted(self.query, np.arange(len(self.queries)))
        rank = np.arange(len(self.query)) - starts[self.query]
        kth = rank == self.k - 1
        self.kth[self.query[kth]] = np.minimum(self.kth[self.query[kth]], self.score[kth])
        keep = self.score <= self._limits()[self.query]
        self.query, self.row, self.score = self.query[keep], self.row[keep], self.score[keep]
        # Many equal rows, as of one placeholder picture, cannot be told apart by their scores: only the k nearest stay.
        counts = np.bincount(self.query, minlength=len(self.queries))
        ends = np.cumsum(counts)
        keep = np.ones(len(self.query), bool)
        for i in np.flatnonzero(counts > 8 * self.k + 256).tolist():
            span = slice(ends[i] - counts[i], ends[i])
            keep[span] = np.isin(self.row[span], self._exactly(i, self.row[span])[0])
        self.query, self.row, self.score = self.query[keep], self.row[keep], self.score[keep]

    def _exactly(self, i: int, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The k of some rows nearest to query i and their distances, by distance and row."""
        rows = np.sort(rows)
        query = self.queries[i : i + 1].astype(np.float64)
        parts = (self.pool[rows[j : j + 1024]].astype(np.float32) for j in range(0, len(rows), 1024))
        far = [cdist(query, part.astype(np.float64))[0] for part in parts]
        distances = np.concatenate([np.empty(0), *far])
        order = np.argsort(distances, kind="stable")[: self.k]
        return rows[order], distances[order]

    def result(self) -> Neighbours:
        """The k nearest of each query."""
        shape = len(self.queries), self.k
        ids, distances = np.full(shape, -1, np.int64), np.full(shape, np.inf)
        starts = np.searchsorted(self.query, np.arange(len(self.queries) + 1))
        for i, (a, b) in enumerate(pairwise(starts.tolist())):
            rows, far = self._exactly(i, self.row[a:b])
            ids[i, : len(rows)], distances[i, : len(rows)] = rows, far
        return Neighbours(ids, distances, len(self.pool) - np.bincount(self.own[0], minlength=len(self.queries)))
