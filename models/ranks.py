"""Ranks of the true partner in image–recipe retrieval, the protocol of Recipe1M over them, and their uncertainty.

Direction names say what the query is: `image_to_recipe` ranks recipes for a photo, `recipe_to_image` photos for a
recipe. Ranks count from 1, so medR = 1 needs R@1 of at least one half. R@K are shares in [0, 1].
"""

import hashlib
import random
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torchmetrics import Metric
from torchmetrics.utilities import dim_zero_cat
from tqdm import tqdm

from data.errors import InputError
from models.metrics import clustered_wilson, wilson_interval

DIRECTIONS = ("image_to_recipe", "recipe_to_image")
KS = (1, 5, 10)
SEED = 1234  # of the reference implementation's draws
TIES = ("mid", "pessimistic", "optimistic")

# The official pair lists of Recipe1M by content: number of pairs, sha256 of the sorted ids joined by line feeds.
OFFICIAL_SPLITS = {
    "train": (238_408, "a55da8e0c236b2dc0d5aa7aed1e8f47b39321b6f0a10b81cd8f27749063ff913"),
    "val": (51_119, "2aa0c95855c22238772c9ca4c7e139750e4e12d5578aae6368004abd6efb37d1"),
    "test": (51_304, "379033c62a82083aefe432d22d8e3888fc309a63f45d4a0cc38dbbf3dd2cc704"),
}

Matrix = np.ndarray | Tensor


class Ranks(NamedTuple):
    """Rank of the true partner of each of the N queries, (N,) float64 for each direction; share of tied queries."""

    image_to_recipe: np.ndarray
    recipe_to_image: np.ndarray
    tied: float


def ranks(
    image: Matrix,
    recipe: Matrix,
    ties: str = "mid",
    chunk: int | None = None,
    tick: Callable[[int], Any] | None = None,
) -> Ranks:
    """Rank every query's partner in both directions from one matrix product.

    rank = 1 + number of strictly better candidates + a share of the equal ones. The product is computed in blocks of
    rows in float32; scores that are too close for float32 to tell apart (as after another order of summation, in
    another block or on another device) are compared again in float64. So the ranks are a function of the vectors
    alone: equal for every `chunk` and device, and equal vectors are equal scores wherever they lie. What still differs
    by less than the rounding of float64 is a tie.

    Args:
        image: (N, D), row i is the partner of row i of `recipe`; cosine similarity wants rows of unit length.
        recipe: (N, D).
        ties: `mid` counts half of the equal candidates (the expected rank under an even draw), `pessimistic` all,
            `optimistic` none (a collapsed model then has medR 1; only to reproduce others).
        chunk: rows of one block, None for up to 512 and blocks of 64 MiB; memory beside the embeddings is about three
            blocks of chunk * N float32.
        tick: called with the number of queries done after each block.

    Raises:
        ValueError: shapes that do not fit, no pairs, values that are not finite, or an unknown tie rule.
    """
    if ties not in TIES:
        raise ValueError(f"ties={ties}: choose from {', '.join(TIES)}")
    if image.ndim != 2 or image.shape != recipe.shape or 0 in image.shape:
        raise ValueError(f"images {tuple(image.shape)} and recipes {tuple(recipe.shape)}: two equal (N, D) are needed")
    if chunk is None:
        chunk = max(64, min(512, (64 << 20) // (4 * len(image))))
    if chunk < 1:
        raise ValueError(f"chunk={chunk}: at least one row")
    if isinstance(image, Tensor) and isinstance(recipe, Tensor) and image.device.type == "cuda":
        better, equal = _count_torch(image.detach(), recipe.detach(), chunk, tick)
    else:
        better, equal = _count_numpy(_array(image), _array(recipe), chunk, tick)
    share = {"mid": 0.5, "pessimistic": 1.0, "optimistic": 0.0}[ties]
    both = 1.0 + better + share * equal
    return Ranks(both[0], both[1], float((equal > 0).mean()))


def _array(matrix: Matrix) -> np.ndarray:
    if isinstance(matrix, Tensor):
        matrix = matrix.detach().cpu()
        return (matrix if matrix.dtype in (torch.float16, torch.float32, torch.float64) else matrix.float()).numpy()
    return matrix if matrix.dtype.kind == "f" else matrix.astype(np.float64)


def _rounding(precision: float, dimension: int) -> float:
    """How far two ways of summing one inner product may lie apart, relative to the product of the norms.

    Random-walk growth with a wide margin; `precision` is the spacing of floats at 1.
    """
    return precision / 2 * (2 * dimension**0.5 + 16)


def _count_numpy(
    image: np.ndarray, recipe: np.ndarray, chunk: int, tick: Callable[[int], Any] | None
) -> tuple[np.ndarray, np.ndarray]:
    """(2, N) strictly better and (2, N) equal candidates; row 0 image_to_recipe, row 1 recipe_to_image."""
    n, dimension = image.shape
    chunk = min(chunk, n)
    with np.errstate(over="ignore"):
        left, right = image.astype(np.float32, copy=False), recipe.astype(np.float32, copy=False)
        norms = np.stack([np.sqrt(np.einsum("nd,nd->n", m, m)) for m in (left, right)]).astype(np.float64)  # (2, N)
    if not np.isfinite(norms).all() or norms.max() > 1e15:
        raise ValueError("embeddings are not finite, or too large to multiply; normalise them")
    own = np.einsum("nd,nd->n", left, right)  # (N,) float32: good enough to tell which scores are near it
    exact = None  # (N,) float64, where it is needed
    scale = norms * norms.max(axis=1)[::-1, None]  # (2, N): query's norm times the largest candidate's
    near = (own - _rounding(2.0**-23, dimension) * scale, own + _rounding(2.0**-23, dimension) * scale)
    near = tuple(bound.astype(np.float32) for bound in near)  # (low, high), each (2, N)
    tie = _rounding(2.0**-52, dimension) * scale  # (2, N)
    better, equal = np.zeros((2, n), np.int64), np.zeros((2, n), np.int64)
    product = np.empty((chunk, n), np.float32)
    for start in range(0, n, chunk):
        rows = np.arange(start, min(start + chunk, n))
        scores = np.matmul(left[rows[0] : rows[-1] + 1], right.T, out=product[: len(rows)])
        scores[rows - start, rows] = -np.inf  # a query's own partner is no rival
        above, within = _tally(scores, rows, near)
        better[0, rows] += above[0][: len(rows)]
        better[1] += above[1]
        unclear = sum(int(count.sum()) for count in within)
        if unclear > scores.size // 32:
            # So many that products in float64 are cheaper than single pairs: a model that is nearly collapsed.
            better[0, rows] -= above[0]
            better[1] -= above[1]
            if exact is None:
                parts = (slice(i, i + 256) for i in range(0, n, 256))
                exact = np.concatenate([_products(image[part], recipe[part]) for part in parts])
            for panel in range(0, n, 4096):
                wide = (
                    image[rows[0] : rows[-1] + 1].astype(np.float64) @ recipe[panel : panel + 4096].astype(np.float64).T
                )
                inside = rows[(rows >= panel) & (rows < panel + 4096)]
                wide[inside - start, inside - panel] = -np.inf
                columns = np.arange(panel, panel + wide.shape[1])
                above, within = _tally(wide, rows, (exact - tie, exact + tie), columns)
                better[0, rows] += above[0]
                better[1, columns] += above[1]
                equal[0, rows] += within[0]
                equal[1, columns] += within[1]
        elif unclear:
            at = np.flatnonzero(within[0])
            part = scores[at]
            i, j = np.nonzero((part >= near[0][0, rows[at], None]) & (part <= near[1][0, rows[at], None]))
            _settle(0, rows[at[i]], j, image, recipe, tie, better, equal)
            at = np.flatnonzero(within[1])
            part = scores[:, at]
            i, j = np.nonzero((part >= near[0][1, at]) & (part <= near[1][1, at]))
            _settle(1, rows[i], at[j], image, recipe, tie, better, equal)
        if tick is not None:
            tick(len(rows))
    return better, equal


def _tally(
    scores: np.ndarray, rows: np.ndarray, bounds: tuple[np.ndarray, np.ndarray], columns: np.ndarray | None = None
) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Scores above the upper and between the two bounds, counted along rows and along columns.

    `bounds` (low, high) are (2, N): row 0 holds those of the rows' queries, row 1 those of the columns'. Works on few
    rows at a time, which stay in the cache. Flags are added up as bytes, eight to a word, and up to 255 of them cannot
    overflow.
    """
    columns = np.arange(scores.shape[1]) if columns is None else columns
    low, high = bounds[0][1, columns], bounds[1][1, columns]
    along_rows, along_columns = np.zeros((2, len(rows)), np.int64), np.zeros((2, len(columns)), np.int64)
    words = -(-len(columns) // (8 * 255))  # groups of 255 words in a row
    flags = np.zeros((32, words * 8 * 255), bool)  # False beyond the last column
    for start in range(0, len(rows), len(flags)):
        part = scores[start : start + len(flags)]
        inside = slice(start, start + len(part))
        mask, whole = flags[: len(part), : len(columns)], flags[: len(part)]
        for which, compare, bound in ((0, np.greater, bounds[1]), (1, np.greater_equal, bounds[0])):
            compare(part, bound[0, rows[inside], None], out=mask)
            bytewise = np.add.reduce(whole.view(np.uint64).reshape(len(part), words, 255), axis=2)
            along_rows[which, inside] = bytewise.view(np.uint8).sum(axis=1, dtype=np.int64)
            compare(part, (high, low)[which], out=mask)
            along_columns[which] += np.add.reduce(mask.view(np.uint8), axis=0, dtype=np.uint8)
    above = along_rows[0], along_columns[0]
    return above, (along_rows[1] - along_rows[0], along_columns[1] - along_columns[0])


def _settle(
    direction: int,
    i: np.ndarray,
    j: np.ndarray,
    image: np.ndarray,
    recipe: np.ndarray,
    tie: np.ndarray,
    better: np.ndarray,
    equal: np.ndarray,
) -> None:
    """Compare single pairs (image i, recipe j) with the query's own score in float64 and add to the counts."""
    query = i if direction == 0 else j
    for start in range(0, len(i), 256):
        part = slice(start, start + 256)
        own = _products(image[query[part]], recipe[query[part]])
        gap = _products(image[i[part]], recipe[j[part]]) - own
        limit = tie[direction, query[part]]
        np.add.at(better[direction], query[part][gap > limit], 1)
        np.add.at(equal[direction], query[part][np.abs(gap) <= limit], 1)


def _products(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """(n,) inner products of paired rows in float64; a few hundred rows at a time stay in the cache."""
    return np.einsum("nd,nd->n", a.astype(np.float64), b.astype(np.float64))


def _count_torch(
    image: Tensor, recipe: Tensor, chunk: int, tick: Callable[[int], Any] | None
) -> tuple[np.ndarray, np.ndarray]:
    """`_count_numpy` on the device of the tensors."""
    n, dimension = image.shape
    device = image.device
    norms = torch.stack([_in_rows_torch(lambda a: (a * a).sum(1).sqrt(), m) for m in (image, recipe)])
    if not bool(norms.isfinite().all()) or float(norms.max()) > 1e15:
        raise ValueError("embeddings are not finite, or too large to multiply; normalise them")
    own = _in_rows_torch(lambda a, b: (a * b).sum(1), image, recipe)  # (N,) float64
    scale = norms * norms.amax(dim=1).flip(0)[:, None]
    slack = _rounding(2.0**-23, dimension) * scale
    low, high = (own - slack).float(), (own + slack).float()  # (2, N)
    tie = _rounding(2.0**-52, dimension) * scale
    left, right = image.float(), recipe.float()
    better = torch.zeros(2, n, dtype=torch.long, device=device)
    equal = torch.zeros_like(better)
    # Reduced-precision products would make everything near; autocast and TF32 are for training.
    precision = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        with torch.no_grad(), torch.autocast(device.type, enabled=False):
            for start in range(0, n, chunk):
                stop = min(start + chunk, n)
                scores = left[start:stop] @ right.T
                rows = torch.arange(start, stop, device=device)
                scores[rows - start, rows] = -torch.inf  # a query's own partner is no rival
                above = scores > high[0, start:stop, None], scores > high[1]
                near = (scores >= low[0, start:stop, None]) & ~above[0], (scores >= low[1]) & ~above[1]
                if int(near[0].sum() + near[1].sum()) > scores.numel() // 32:
                    wide = image[start:stop].double() @ recipe.double().T
                    wide[rows - start, rows] = -torch.inf
                    gaps = wide - own[start:stop, None], wide - own
                    limits = tie[0, start:stop, None], tie[1]
                    above = gaps[0] > limits[0], gaps[1] > limits[1]
                    within = gaps[0].abs() <= limits[0], gaps[1].abs() <= limits[1]
                    equal[0, start:stop] += within[0].sum(1)
                    equal[1] += within[1].sum(0)
                else:
                    for direction in (0, 1):
                        i, j = near[direction].nonzero(as_tuple=True)
                        i = i + start
                        query = i if direction == 0 else j
                        for part in torch.arange(len(i), device=device).split(65536):
                            products = (image[i[part]].double() * recipe[j[part]].double()).sum(1)
                            gap, limit = products - own[query[part]], tie[direction, query[part]]
                            better[direction].index_add_(0, query[part], (gap > limit).long())
                            equal[direction].index_add_(0, query[part], (gap.abs() <= limit).long())
                better[0, start:stop] += above[0].sum(1)
                better[1] += above[1].sum(0)
                if tick is not None:
                    tick(stop - start)
    finally:
        torch.set_float32_matmul_precision(precision)
    return better.cpu().numpy(), equal.cpu().numpy()


def _in_rows_torch(function: Callable[..., Tensor], *matrices: Tensor) -> Tensor:
    parts = zip(*(m.split(4096) for m in matrices), strict=True)
    return torch.cat([function(*(part.double() for part in group)) for group in parts])


def official_draws(
    n: int, sizes: Sequence[int] = (1000, 10_000), subsets: int = 10, seed: int = SEED, fresh: bool = False
) -> dict[int, np.ndarray]:
    """The random pools of the reference implementation: rows of the pairs sorted by recipe id.

    `random.sample(range(n), size)` for every subset of every size in turn, from one generator; within a subset without
    replacement, so subsets overlap. The sizes before a size therefore change its draws: ten of 10,000 after ten of
    1,000 are others than ten of 10,000 alone.

    Args:
        n: number of pairs; with another number the same indices mean other pairs, and most draws are others.
        sizes: in the order of drawing.
        subsets: for each size.
        seed: of a generator of its own; the global one is left alone.
        fresh: start again from the seed for each size.

    Returns:
        {size: (subsets, size) int64}.

    Raises:
        InputError: a size is larger than n, or no positive number.
    """
    generator = random.Random(seed)
    draws: dict[int, np.ndarray] = {}
    if len(set(sizes)) < len(sizes):
        raise InputError(f"pool sizes {list(sizes)}: one of them is there twice")
    for size in sizes:
        if size < 1 or subsets < 1:
            raise InputError(f"{subsets} pools of {size} pairs: both must be at least 1")
        if size > n:
            raise InputError(
                f"pools of {size:,} pairs cannot be drawn from {n:,} pairs; score smaller pools, or sizes=all for one "
                "pool of all pairs"
            )
        if fresh:
            generator = random.Random(seed)
        draws[size] = np.asarray([generator.sample(range(n), size) for _ in range(subsets)], dtype=np.int64)
    return draws


def draw_digest(draws: np.ndarray) -> str:
    """sha256 of all indices in order of drawing, joined by commas; compares draws of two programs."""
    return hashlib.sha256(",".join(map(str, draws.ravel().tolist())).encode()).hexdigest()


def official_split(ids: Sequence[str] | np.ndarray) -> str | None:
    """`train`, `val` or `test` where the ids are exactly those of an official list of Recipe1M, else None.

    Decided by content: the number of ids and the digest of the sorted list.
    """
    names = [name for name, (count, _) in OFFICIAL_SPLITS.items() if count == len(ids)]
    if not names:
        return None
    digest = hashlib.sha256("\n".join(sorted(map(str, ids))).encode()).hexdigest()
    return next((name for name in names if OFFICIAL_SPLITS[name][1] == digest), None)


def is_official(ids: Sequence[str] | np.ndarray) -> bool:
    """Whether these are the official test pairs of Recipe1M, the only ones that published results are about."""
    return official_split(ids) == "test"


def pool_name(size: int) -> str:
    """`1k` for 1000, `10k` for 10000, the number itself where it is no whole thousand."""
    return f"{size // 1000}k" if size % 1000 == 0 else str(size)


def chance(size: int) -> dict[str, float]:
    """Expected scores of a random order of `size` candidates: medR (size + 1) / 2, R@K K / size."""
    return {"medR": (size + 1) / 2} | {f"R{k}": min(1.0, k / size) for k in KS}


def summary(rank: np.ndarray) -> dict[str, float]:
    """Scores of one pool: medR (mean of the two middle ranks where their number is even), R1, R5, R10, MRR."""
    values = {"medR": float(np.median(rank))} | {f"R{k}": float((rank <= k).mean()) for k in KS}
    return values | {"MRR": float((1 / rank).mean())}


def inconsistencies(scores: dict[str, Any]) -> list[str]:
    """What cannot be true of scores with ranks from 1: medR at most 1 with R@1 below one half, R@K that falls with K.

    Takes `medR`, `R1`, `R5`, `R10` (shares; those that are missing or None are not checked).
    """
    found = []
    med, first = scores.get("medR"), scores.get("R1")
    if med is not None and first is not None and med <= 1 and first < 0.5:
        found.append(f"medR {med:g} with R@1 {first:.1%}: half of the ranks cannot be 1; these ranks count from 0")
    if med is not None and med < 1:
        found.append(f"medR {med:g} is below 1, the best rank")
    recalls = [(k, scores[f"R{k}"]) for k in KS if scores.get(f"R{k}") is not None]
    for (k, low), (larger, high) in pairwise(recalls):
        if low > high:
            found.append(f"R@{k} {low:.1%} above R@{larger} {high:.1%}")
    return found


def retrieval_scores(
    image: np.ndarray,
    recipe: np.ndarray,
    ids: Sequence[str] | np.ndarray,
    sizes: Sequence[int] | str = (1000, 10_000),
    whole: bool = True,
    subsets: int = 10,
    seed: int = SEED,
    ties: str = "mid",
    fresh: bool = False,
    rounds: int = 500,
    origin: str = "embeddings",
    progress: bool = True,
) -> dict[str, Any]:
    """Both directions by the protocol of Recipe1M (Salvador et al. 2017, section 4; Marin et al. 2021).

    The pairs are sorted by id, both matrices with them; the vectors are scaled to unit length and compared by inner
    product; each pool's median rank and recalls are averaged over the pools of one size.

    Two kinds of spread are given, and they answer different questions. `sd` is the standard deviation over the pools
    (None for a single one). `interval` is for the mean and says how far it could be off for other pairs of the same
    kind: the pools overlap, so their sd says nothing about that. For R@K it is a Wilson interval with the effective
    number of queries (a query that is in several pools counts as one cluster), for medR and MRR the percentiles of a
    bootstrap over queries; both take the candidates as given. Two systems scored on the same pools differ by less than
    these intervals suggest; compare them query by query.

    Args:
        image: (N, D); row i is the partner of row i of `recipe` and has the id `ids[i]`.
        recipe: (N, D).
        ids: N different recipe ids.
        sizes: pool sizes in the order of drawing, see `official_draws`; `all` for one pool of all pairs only.
        whole: also rank in one pool of all pairs.
        subsets: pools of each size.
        seed: of draws and bootstrap.
        ties: see `ranks`.
        fresh: see `official_draws`.
        rounds: of the bootstrap; 0 leaves the intervals of medR and MRR out.
        origin: file or run the embeddings come from, for messages.
        progress: show a bar on the terminal.

    Returns:
        n, dimension, ties, seed, official (name of the official list or None), notes, mean_cosine (of two different
        images, of two different recipes; near 1 means collapse), and
        `pools` {name: {size, subsets, draw {seed, n, size, subsets, after, sha256}, chance, tied, inconsistencies, and
        for each direction {medR, R1, R5, R10, MRR: {mean, sd, interval, per_subset}}}}; all plain values. Beside
        these, arrays: `ids` (N,) sorted, `draws` {name: (subsets, size)} and
        `ranks` {name: {direction: (subsets, size)}}.

    Raises:
        InputError: ids that repeat or do not fit the rows, vectors that are not finite or zero, too few pairs.
    """
    ids, left, right, notes = sorted_pairs(image, recipe, ids, origin)
    n = len(ids)
    after: dict[str, list[int]] = {}
    draws: dict[str, np.ndarray] = {}
    if isinstance(sizes, str):
        if sizes != "all":
            raise InputError(f"sizes={sizes}: give a list of pool sizes, or all")
    else:
        for size, drawn in official_draws(n, sizes, subsets, seed, fresh).items():
            draws[pool_name(size)] = drawn
            after[pool_name(size)] = [] if fresh else [s for s in sizes[: list(sizes).index(size)]]
    if whole or isinstance(sizes, str):
        draws["all"] = np.arange(n)[None]
    pools: dict[str, Any] = {}
    per_query: dict[str, dict[str, np.ndarray]] = {}
    total = sum(d.size for d in draws.values())
    with tqdm(total=total, desc="ranking", unit=" queries", leave=False, disable=not progress) as bar:
        for name, drawn in draws.items():
            entire = name == "all"
            found = [
                ranks(*((left, right) if entire else (left[rows], right[rows])), ties=ties, tick=bar.update)
                for rows in drawn
            ]
            size = drawn.shape[1]
            draw = {"seed": None if entire else seed, "n": n, "size": size, "subsets": len(drawn)}
            draw |= {"after": after.get(name, []), "sha256": draw_digest(drawn)}
            pool: dict[str, Any] = {"size": size, "subsets": len(drawn), "draw": draw, "chance": chance(size)}
            pool["tied"] = float(np.mean([f.tied for f in found]))
            pool["inconsistencies"] = []
            per_query[name] = {d: np.stack([getattr(f, d) for f in found]) for d in DIRECTIONS}
            for direction in DIRECTIONS:
                rank = per_query[name][direction]
                pool[direction] = _over_pools(rank, drawn, seed, rounds)
                for one in map(summary, rank):
                    pool["inconsistencies"] += [f"{direction}: {line}" for line in inconsistencies(one)]
            pools[name] = pool
    return {
        "n": n,
        "dimension": left.shape[1],
        "ties": ties,
        "seed": seed,
        "official": official_split(ids),
        "notes": notes,
        "mean_cosine": {"image": mean_cosine(left), "recipe": mean_cosine(right)},
        "pools": pools,
        "ids": ids,
        "draws": draws,
        "ranks": per_query,
    }


def sorted_pairs(
    image: np.ndarray, recipe: np.ndarray, ids: Sequence[str] | np.ndarray, origin: str = "embeddings"
) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[str]]:
    """Ids in ascending order, both matrices in that order and of unit length (float32), and what had to be done.

    Raises:
        InputError: see `retrieval_scores`; the message names `origin` and the id.
    """
    names = np.asarray([str(i) for i in ids])
    for what, matrix in (("image", image), ("recipe", recipe)):
        if matrix.ndim != 2 or matrix.dtype.kind not in "fiu":
            raise InputError(f"{origin}: `{what}` is {matrix.dtype} {matrix.shape}; give a matrix of floats (N, D)")
        if len(matrix) != len(names):
            raise InputError(
                f"{origin}: {len(matrix):,} rows in `{what}` for {len(names):,} ids; each id needs one row"
            )
    if image.shape != recipe.shape:
        raise InputError(
            f"{origin}: images have {image.shape[1]} dimensions and recipes {recipe.shape[1]}: no common space"
        )
    if 0 in image.shape:
        raise InputError(f"{origin}: no pairs to score")
    order = np.argsort(names, kind="stable")
    names = names[order]
    again = np.flatnonzero(names[1:] == names[:-1])
    if len(again):
        raise InputError(
            f"{origin}: id '{names[again[0]]}' is there more than once ({len(again):,} repeats in all); each pair may "
            "be given once, as when the last batch is filled up with repeated ones"
        )
    if not names[0]:
        raise InputError(f"{origin}: an id is empty")
    notes: list[str] = []
    sides = [
        _unit(matrix, order, names, what, origin, notes) for what, matrix in (("image", image), ("recipe", recipe))
    ]
    return names, sides[0], sides[1], notes


def _unit(
    matrix: np.ndarray, order: np.ndarray, names: np.ndarray, what: str, origin: str, notes: list[str]
) -> np.ndarray:
    """Rows in the given order, unit length, float32; notes how many were not of unit length before."""
    unit = np.empty(matrix.shape, np.float32)
    off, worst = 0, 1.0
    for start in range(0, len(order), 256):
        rows = matrix[order[start : start + 256]].astype(np.float64)
        bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
        if len(bad):
            raise InputError(
                f"{origin}: the {what} embedding of id '{names[start + bad[0]]}' is not finite (NaN or infinite); "
                "leave the pair out or repair what made it"
            )
        largest = np.abs(rows).max(axis=1, keepdims=True)  # so that squares neither overflow nor vanish
        zero = np.flatnonzero(largest[:, 0] == 0)
        if len(zero):
            raise InputError(
                f"{origin}: the {what} embedding of id '{names[start + zero[0]]}' is zero, it has no direction; leave "
                "the pair out or repair what made it"
            )
        rows /= largest
        norm = np.sqrt(_products(rows, rows))[:, None]
        unit[start : start + len(rows)] = rows / norm
        length = (norm * largest)[:, 0]
        differs = np.abs(length - 1) > 0.01  # float16 and bfloat16 keep lengths that well
        off += int(differs.sum())
        furthest = length[np.argmax(np.abs(np.log(length)))]
        worst = furthest if abs(np.log(furthest)) > abs(np.log(worst)) else worst
    if off:
        notes.append(
            f"{off:,} of {len(order):,} {what} embeddings were not of unit length (up to {worst:.3g}): normalised"
        )
    return unit


def mean_cosine(unit: np.ndarray) -> float | None:
    """Mean cosine of two different rows of a matrix of unit rows, None for a single row."""
    n = len(unit)
    if n < 2:
        return None
    total = sum(unit[start : start + 1024].sum(axis=0, dtype=np.float64) for start in range(0, n, 1024))
    return float((np.dot(total, total) - n) / (n * (n - 1)))


def _over_pools(rank: np.ndarray, drawn: np.ndarray, seed: int, rounds: int) -> dict[str, Any]:
    """Mean, sd over pools, interval and single values of each statistic; rank and drawn are (subsets, size)."""
    single = [summary(one) for one in rank]
    queries, member = np.unique(drawn, return_inverse=True)
    member = member.reshape(drawn.shape)
    intervals = _bootstrap(rank, member, len(queries), seed, rounds)
    result = {}
    for key in single[0]:
        values = [s[key] for s in single]
        if key in intervals:
            interval = intervals[key]
        elif key in ("medR", "MRR"):
            interval = None
        else:
            hit = (rank <= int(key[1:])).ravel().astype(np.float64)
            if len(rank) == 1:
                interval = wilson_interval(float(hit.sum()), len(hit))
            else:
                interval = clustered_wilson(hit, member.ravel())
        result[key] = {
            "mean": float(np.mean(values)),
            "sd": float(np.std(values, ddof=1)) if len(values) > 1 else None,
            "interval": None if interval is None else [float(interval[0]), float(interval[1])],
            "per_subset": values,
        }
    return result


def _bootstrap(
    rank: np.ndarray, member: np.ndarray, queries: int, seed: int, rounds: int
) -> dict[str, tuple[float, float]]:
    """95 % percentile intervals of the mean over pools of medR and of MRR; queries are drawn with replacement.

    A query carries its ranks in all pools with it. `member` (subsets, size) are numbers of queries.
    """
    if not rounds:
        return {}
    rng = np.random.default_rng(seed)
    order = np.argsort(rank, axis=1, kind="stable")
    ranked, member = np.take_along_axis(rank, order, 1), np.take_along_axis(member, order, 1)
    reciprocal = 1 / ranked
    values = np.empty((rounds, 2))
    for r in range(rounds):
        weight = np.bincount(rng.integers(0, queries, queries), minlength=queries)[member]  # (subsets, size)
        reach = np.cumsum(weight, axis=1)
        total = reach[:, -1]
        use = total > 0
        lower = (2 * reach >= total[:, None]).argmax(axis=1)
        upper = (2 * reach > total[:, None]).argmax(axis=1)
        pool = np.arange(len(rank))
        median = (ranked[pool, lower] + ranked[pool, upper]) / 2
        mean = (weight * reciprocal).sum(axis=1) / np.maximum(total, 1)
        values[r] = (median[use].mean(), mean[use].mean()) if use.any() else (np.nan, np.nan)
    low, high = np.nanpercentile(values, [2.5, 97.5], axis=0)
    return {"medR": (float(low[0]), float(high[0])), "MRR": (float(low[1]), float(high[1]))}


def multiple_choice(
    image: np.ndarray,
    recipe: np.ndarray,
    ids: Sequence[str] | np.ndarray,
    choices: int = 10,
    seed: int = SEED,
    by_class: Sequence[int] | np.ndarray | None = None,
    origin: str = "embeddings",
) -> dict[str, Any]:
    """Choose the partner among `choices` candidates, the task that people were given (Salvador et al. 2017, section 4).

    Every pair is a query once in each direction. The other candidates are drawn evenly from the other pairs, without
    replacement, and are the same pairs in both directions; with `by_class` from the pairs of the query's own class, as
    in the course- and dish-specific variants. A tie at the top shares the point.

    Args:
        image: (N, D), as for `retrieval_scores`; so are `recipe`, `ids` and `origin`.
        choices: candidates of a query, its partner among them.
        seed: of the draws, which depend on it, the sorted ids and the classes only.
        by_class: (N,) class of each pair; pairs of class 0 (background) and of classes with fewer than `choices`
            pairs are not asked and counted in `skipped`.

    Returns:
        n, skipped, choices, chance, notes, and for each direction {accuracy, interval (Wilson 95 %)}.

    Raises:
        InputError: as `retrieval_scores`, or fewer pairs (of one class) than choices.
    """
    if choices < 2:
        raise InputError(f"{choices} choices: at least 2 are needed")
    names, left, right, notes = sorted_pairs(image, recipe, ids, origin)
    n = len(names)
    if by_class is None:
        groups = [np.arange(n)]
    else:
        classes = np.asarray(by_class)
        if classes.shape != (n,):
            raise InputError(f"{origin}: {classes.size:,} classes for {n:,} pairs")
        classes = classes[np.argsort([str(i) for i in ids], kind="stable")]
        groups = [np.flatnonzero(classes == c) for c in np.unique(classes) if c != 0]
    generator = random.Random(seed)
    table = []  # candidates of each query, the partner first
    for group in groups:
        if len(group) < choices:
            continue
        for at, query in enumerate(group.tolist()):
            # A draw from the others: places from the query's own on mean the next one.
            others = generator.sample(range(len(group) - 1), choices - 1)
            table.append([query, *(int(group[o + (o >= at)]) for o in others)])
    if not table:
        where = "all pairs together" if by_class is None else "every class"
        raise InputError(
            f"{origin}: {choices} choices, but {where} has fewer pairs ({n:,} in all); ask for fewer choices"
        )
    rows = np.asarray(table)  # (n, choices)
    result: dict[str, Any] = {"n": len(rows), "skipped": n - len(rows), "choices": choices, "chance": 1 / choices}
    result |= {"seed": seed, "by_class": by_class is not None, "notes": notes}
    tie = _rounding(2.0**-52, left.shape[1])
    for direction, (query, answer) in zip(DIRECTIONS, ((left, right), (right, left)), strict=True):
        credit = 0.0
        for part in np.array_split(rows, max(1, len(rows) // 512)):
            scores = np.einsum("nd,nkd->nk", query[part[:, 0]].astype(np.float64), answer[part].astype(np.float64))
            best = scores[:, 1:].max(axis=1)
            equal = 1 + (np.abs(scores[:, 1:] - scores[:, :1]) <= tie).sum(axis=1)
            credit += float(((scores[:, 0] >= best - tie) / equal).sum())
        interval = wilson_interval(credit, len(rows))
        result[direction] = {"accuracy": credit / len(rows), "interval": list(interval)}
    return result


def permutation_p_value(
    image: np.ndarray,
    recipe: np.ndarray,
    statistic: str = "MRR",
    rounds: int = 1000,
    seed: int = SEED,
    groups: Sequence[Any] | np.ndarray | None = None,
    direction: str | None = None,
) -> float:
    """p-value against the hypothesis that which recipe belongs to which photo does not matter.

    Partners are exchanged at random; p = (1 + exchanges that score at least as well) / (1 + rounds) (Phipson and Smyth
    2010), so it is never 0. For small sets: the ranks of all N x N pairs are held in memory.

    Args:
        image: (N, D), unit length, row i the partner of row i of `recipe`.
        recipe: (N, D).
        statistic: `MRR` (mean reciprocal rank) or `medR`; the mean over both directions.
        rounds: number of exchanges.
        seed: of the exchanges.
        groups: (N,) labels, such as folds: ranks and exchanges stay within a group.
        direction: one of `DIRECTIONS` in place of both.

    Raises:
        ValueError: unknown statistic or direction, or more than 20,000 pairs in a group.
    """
    if statistic not in ("MRR", "medR") or direction not in (None, *DIRECTIONS):
        raise ValueError(f"statistic={statistic}, direction={direction}: choose MRR or medR, and None or a direction")
    labels = np.zeros(len(image), int) if groups is None else np.unique(np.asarray(groups), return_inverse=True)[1]
    members = [np.flatnonzero(labels == g) for g in range(labels.max() + 1)]
    if max(map(len, members)) > 20_000:
        raise ValueError(f"{max(map(len, members)):,} pairs: too many for a table of all ranks")
    tables = []
    for rows in members:
        scores = image[rows].astype(np.float64) @ recipe[rows].astype(np.float64).T
        scores = np.round(scores, 12)  # equal vectors are ties whatever the order of summation
        both = (_all_ranks(scores), _all_ranks(scores.T).T)
        tables.append([t for d, t in zip(DIRECTIONS, both, strict=True) if direction in (None, d)])

    def score(partner: list[np.ndarray]) -> float:
        """Larger is better."""
        per_direction = []
        for d in range(len(tables[0])):
            rank = np.concatenate([t[d][np.arange(len(p)), p] for t, p in zip(tables, partner, strict=True)])
            per_direction.append((1 / rank).mean() if statistic == "MRR" else -np.median(rank))
        return float(np.mean(per_direction))

    observed = score([np.arange(len(rows)) for rows in members]) - 1e-12
    rng = np.random.default_rng(seed)
    as_good = sum(score([rng.permutation(len(rows)) for rows in members]) >= observed for _ in range(rounds))
    return (1 + as_good) / (1 + rounds)


def _all_ranks(scores: np.ndarray) -> np.ndarray:
    """(N, N): mid-rank of every column within its row."""
    ordered = np.sort(scores, axis=1)
    ranked = np.empty_like(scores)
    for i, row in enumerate(scores):
        better = len(row) - np.searchsorted(ordered[i], row, side="right")
        equal = len(row) - better - np.searchsorted(ordered[i], row, side="left")
        ranked[i] = 1 + better + (equal - 1) / 2
    return ranked


class RetrievalMetric(Metric):
    """medR, R@K and mean reciprocal rank in both directions over all pairs seen, or over random pools of them.

    The state is the pairs themselves with their index, so the result depends neither on batches nor on how pairs are
    spread over processes; a pair that came twice (samplers fill up the last batch) counts once. The vectors are scaled
    to unit length in float32 first, so half precision is safe.

    Args:
        pool: pairs of a pool, None for one pool of all. Where fewer pairs were seen (a validation that is cut short)
            all are one pool.
        subsets: pools; drawn as `official_draws` does from the pairs in the order of their indices.
        seed: of the draws.
        ties: see `ranks`.
    """

    is_differentiable = False
    full_state_update = False

    image: list[Tensor]
    recipe: list[Tensor]
    index: list[Tensor]

    def __init__(
        self, pool: int | None = None, subsets: int = 10, seed: int = SEED, ties: str = "mid", **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        if ties not in TIES or (pool is not None and pool < 1) or subsets < 1:
            raise ValueError(f"ties={ties}, pool={pool}, subsets={subsets}")
        self.pool, self.subsets, self.seed, self.ties = pool, subsets, seed, ties
        # Flat float32 throughout: a process that saw nothing sends an empty vector, and it must fit the others.
        for name in ("image", "recipe", "index"):
            self.add_state(name, [], dist_reduce_fx="cat")

    @property
    def update_called(self) -> bool:
        """Always true: no pair is a legal state of one process of several."""
        return True

    def update(self, image: Tensor, recipe: Tensor, index: Tensor) -> None:
        """Take a batch: image (B, D), recipe (B, D), index (B,) int64, the row of the pair in its split."""
        if image.ndim != 2 or image.shape != recipe.shape or index.shape != image.shape[:1]:
            raise ValueError(
                f"images {tuple(image.shape)}, recipes {tuple(recipe.shape)}, indices {tuple(index.shape)}: "
                "(B, D), (B, D) and (B,) are needed"
            )
        index = index.detach().long()
        for name, matrix in (("image", image), ("recipe", recipe)):
            bad = ~matrix.detach().isfinite().all(dim=1)
            if bool(bad.any()):
                raise ValueError(f"the {name} embedding of pair {int(index[bad][0])} is not finite")
        self.image.append(image.detach().float().flatten())
        self.recipe.append(recipe.detach().float().flatten())
        high, low = index.div(2**20, rounding_mode="floor"), index.remainder(2**20)  # exact in float32
        self.index.append(torch.stack([high, low], dim=1).float().flatten())

    def pairs(self) -> tuple[Tensor, Tensor, Tensor]:
        """All pairs in the order of their indices, each once: index (N,), image and recipe (N, D) of unit length."""
        if not len(self.index):
            empty = torch.zeros(0, 1, device=self.device)
            return torch.zeros(0, dtype=torch.long, device=self.device), empty, empty
        parts = dim_zero_cat(self.index).view(-1, 2).long()
        index = parts[:, 0] * 2**20 + parts[:, 1]
        index, order = index.sort(stable=True)
        first = torch.ones_like(index, dtype=torch.bool)
        first[1:] = index[1:] != index[:-1]
        sides = []
        for state in (self.image, self.recipe):
            rows = dim_zero_cat(state).view(len(order), -1) if len(order) else torch.zeros(0, 1, device=self.device)
            sides.append(torch.nn.functional.normalize(rows[order[first]], dim=1))
        return index[first], sides[0], sides[1]

    def compute(self) -> dict[str, Tensor]:
        """Scalars `image_to_recipe/medR`, `/R1`, `/R5`, `/R10`, `/MRR`, the same for `recipe_to_image`, `tied`, `n`.

        NaN where nothing was seen; recalls are shares.
        """
        index, image, recipe = self.pairs()
        n = len(index)
        keys = [f"{direction}/{key}" for direction in DIRECTIONS for key in ("medR", *(f"R{k}" for k in KS), "MRR")]
        values = dict.fromkeys([*keys, "tied"], float("nan"))
        if n:
            if image.device.type != "cuda":
                image, recipe = image.cpu(), recipe.cpu()
            drawn = [None]
            if self.pool is not None and self.pool < n:
                drawn = list(official_draws(n, (self.pool,), self.subsets, self.seed)[self.pool])
            found = []
            for rows in drawn:
                at = slice(None) if rows is None else torch.from_numpy(rows).to(image.device)
                one = ranks(image[at], recipe[at], self.ties)
                scores = {f"{d}/{key}": value for d in DIRECTIONS for key, value in summary(getattr(one, d)).items()}
                found.append(scores | {"tied": one.tied})
            values = {key: float(np.mean([f[key] for f in found])) for key in values}
        values["n"] = float(n)
        return {key: torch.tensor(value, dtype=torch.float32, device=self.device) for key, value in values.items()}
