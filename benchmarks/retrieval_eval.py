"""Evaluation of image–recipe retrieval against the reference procedure, as ratios measured in one run.

    python benchmarks/retrieval_eval.py [--pools 10] [--whole]

The reference procedure takes one query after the other: its scores against all candidates, a full sort, the list
reversed, the place of the partner in it; run for both directions, since it ranks one at a time. In the pools of 10,000
only some of its queries are timed and scaled by their number. Bare products are the same matrix product in one call
and nothing else. Each pool is timed with every variant in turn; the table gives medians over pools of the ratios
within a pool, so that a machine that slows down for a while slows all of them. Wall time, all cores, unit vectors of
1024 dimensions made up so that R@1 at 1k is about one half.

`--whole` also ranks 51,304 pairs in one pool, with normalising, and tells seconds and memory beside the embeddings.
"""

import argparse
import resource
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from tqdm import tqdm

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from models.ranks import official_draws, ranks, retrieval_scores

PAIRS, DIMENSION, NOISE = 51_304, 1024, 10.0
TIMED = 40  # queries of the reference procedure in a pool of 10,000, in each direction


def made_up(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Image and recipe embeddings (n, 1024), float32 of unit length."""
    rng = np.random.default_rng(0)
    image, recipe = np.empty((n, DIMENSION), np.float32), np.empty((n, DIMENSION), np.float32)
    for start in range(0, n, 1024):
        rows = slice(start, min(start + 1024, n))
        image[rows] = rng.standard_normal((rows.stop - start, DIMENSION), np.float32)
        recipe[rows] = image[rows] + NOISE * rng.standard_normal((rows.stop - start, DIMENSION), np.float32)
        for matrix in (image, recipe):
            matrix[rows] /= np.linalg.norm(matrix[rows], axis=1, keepdims=True)
    return image, recipe


def one_by_one(queries: np.ndarray, answers: np.ndarray, count: int) -> list[int]:
    """Ranks of the first `count` queries by a full sort for each."""
    found = []
    for i in range(count):
        scores = np.dot(queries[i], answers.T)
        order = np.argsort(scores)[::-1].tolist()
        found.append(order.index(i) + 1)
    return found


def seconds(run: Callable[[], object]) -> tuple[float, object]:
    """Wall time and what came out."""
    start = time.perf_counter()
    result = run()
    return time.perf_counter() - start, result


def measure(image: np.ndarray, recipe: np.ndarray, size: int, pools: int) -> dict[str, list[float]]:
    """Seconds of each variant for each pool; `differ` counts ranks that are not those of the reference procedure."""
    found: dict[str, list[float]] = {"bare": [], "ours": [], "reference": [], "differ": [], "R1": []}
    count = size if size <= 1000 else TIMED
    for rows in tqdm(official_draws(PAIRS)[size][:pools], desc=f"pools of {size}", unit="pool"):
        a, b = image[rows], recipe[rows]
        bare, _ = seconds(lambda a=a, b=b: a @ b.T)
        ours, own = seconds(lambda a=a, b=b: ranks(a, b))
        again, _ = seconds(lambda a=a, b=b: a @ b.T)
        spent, theirs = seconds(lambda a=a, b=b: (one_by_one(a, b, count), one_by_one(b, a, count)))
        found["bare"].append((bare + again) / 2)
        found["ours"].append(ours)
        found["reference"].append(spent * size / count)
        pairs = zip(own[:2], theirs, strict=True)  # type: ignore[index,call-overload]
        found["differ"].append(float(sum((mine[:count] != np.asarray(other)).sum() for mine, other in pairs)))
        found["R1"].append(float((own[0] <= 1).mean()))  # type: ignore[index]
    return found


def whole(image: np.ndarray, recipe: np.ndarray) -> None:
    """One pool of all pairs, with normalising and sorting by id."""
    with open("/proc/self/statm") as file:
        before = int(file.read().split()[1]) * resource.getpagesize()
    ids = [f"{i:010x}" for i in range(len(image))]
    spent, _ = seconds(lambda: retrieval_scores(image, recipe, ids, sizes=[], rounds=500))
    busy = resource.getrusage(resource.RUSAGE_SELF)
    peak = busy.ru_maxrss * 1024 - before
    print(
        f"| one pool of {len(image):,}: seconds, wall (processor) | {spent:.0f} ({busy.ru_utime + busy.ru_stime:.0f}) |"
    )
    print(f"| one pool of {len(image):,}: GiB beside the embeddings | {peak / 2**30:.2f} |")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pools", type=int, default=10, help="pools of each size that are timed")
    parser.add_argument("--whole", action="store_true", help="rank all pairs in one pool, nothing else")
    options = parser.parse_args()
    image, recipe = made_up(PAIRS)
    if options.whole:
        print("| measure | value |\n|---|---|")
        whole(image, recipe)
        return
    print(
        "| both directions, median over pools (lowest to highest) | pools of 1,000 | pools of 10,000 |\n|---|---|---|"
    )
    results = {size: measure(image, recipe, size, options.pools) for size in (1000, 10_000)}
    for title, above, below in (
        ("reference procedure / ours", "reference", "ours"),
        ("ours / bare product", "ours", "bare"),
    ):
        cells = []
        for found in results.values():
            ratios = [a / b for a, b in zip(found[above], found[below], strict=True)]
            cells.append(f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")
        print(f"| {title} | {' | '.join(cells)} |")
    for title, cell in (
        ("ours, ten pools, seconds", lambda found: f"{10 * statistics.median(found['ours']):.2f}"),
        ("ranks that differ from the reference procedure's", lambda found: f"{sum(found['differ']):.0f}"),
        ("R@1, image to recipe", lambda found: f"{statistics.mean(found['R1']):.1%}"),
    ):
        print(f"| {title} | {' | '.join(map(cell, results.values()))} |")


if __name__ == "__main__":
    main()
