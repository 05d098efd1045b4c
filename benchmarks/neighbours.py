"""Nearest texts and images at the size of RecipeQA: rates, exactness, growth and memory.

    python benchmarks/neighbours.py [texts] [growth] [gensim] [images] [all-images] [--queries 100] [--rounds 3]

Text: steps of the Wikibooks Cookbook, cut and strung together, with words changed at random, to 19,779 recipes of 6.1
steps whose titles and bodies have the lengths of RecipeQA's. 5 % of the titles are "ingredients" and 13 % are one of
60, as in the released set. Word vectors: word2vec with 100 dimensions, trained on all of it. Images: sparse features
of 2,048 numbers around 2,000 centres, a memory map of float16.

Some queries are timed in one process, in processor time, and scaled by their number. The pairs per second of gensim and
ours come from the same queries and the same pool, in turns.
"""

import argparse
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from gensim.models import KeyedVectors, Word2Vec
from tqdm import tqdm

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from data import wikibooks
from data.build.neighbours import TextPool, WordVectors, nearest_images
from data.text import tokenise

RECIPES, QUESTIONS, K = 19_779, 9_761, 50
IMAGES, IMAGE_QUESTIONS, FEATURES = 250_000, 8_834, 2_048
# Shares of titles with 1, 2, ... 10 words among the titles of RecipeQA's validation questions.
TITLE_LENGTHS = np.array([0.215, 0.194, 0.29, 0.133, 0.074, 0.036, 0.024, 0.013, 0.006, 0.015])
CHANGED, FORMS = 0.12, 6  # share of words that are changed, and forms that a word is changed into


class Corpus:
    """Titles and bodies (token lists) of the steps of made-up recipes, the recipe of each, and word vectors."""

    def __init__(self, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        sources = [
            [word for step in recipe.steps for word in tokenise(step.body)] for recipe in wikibooks.read_recipes()
        ]
        sources = [words for words in sources if len(words) > 12]
        steps = np.clip(3 + rng.gamma(1.5, 2.36, RECIPES), 3, 25).astype(int)
        self.recipes = np.repeat(np.arange(RECIPES), steps)
        frequent = [sources[i][:2] for i in rng.integers(len(sources), size=60)]
        self.texts: dict[str, list[list[str]]] = {"titles": [], "bodies": []}
        lengths = np.clip(rng.lognormal(3.95, 0.87, len(self.recipes)), 3, 1700).astype(int)  # 75 in the mean
        for length in tqdm(lengths, desc="text", unit="step"):
            body: list[str] = []
            while len(body) < length:
                words = sources[int(rng.integers(len(sources)))]
                start = int(rng.integers(len(words) - 8))
                body += words[start : start + int(rng.integers(8, 60))]
            body = body[:length]
            for i in np.flatnonzero(rng.random(length) < CHANGED):
                body[i] += str(int(rng.integers(FORMS)))
            self.texts["bodies"].append(body)
            kind = rng.random()
            if kind < 0.05:
                title = ["ingredients"]
            elif kind < 0.18:
                title = frequent[int(60 * rng.random() ** 3)]
            else:
                title = body[: 1 + int(rng.choice(len(TITLE_LENGTHS), p=TITLE_LENGTHS))]
            self.texts["titles"].append(title)
        self.gensim: KeyedVectors = Word2Vec(
            [*self.texts["bodies"], *self.texts["titles"]], vector_size=100, min_count=2, epochs=2, seed=1, workers=1
        ).wv
        self.words = WordVectors([str(word) for word in self.gensim.index_to_key], self.gensim.vectors)

    def pool(self, kind: str, recipes: int = RECIPES) -> TextPool:
        """The titles or bodies of the first recipes."""
        count = int(np.searchsorted(self.recipes, recipes))
        return TextPool(self.texts[kind][:count], self.words, self.recipes[:count].tolist())

    def queries(self, kind: str, count: int, recipes: int = RECIPES) -> tuple[list[list[str]], list[int]]:
        """A step of each of some recipes, and these recipes."""
        rng = np.random.default_rng(1)
        chosen = np.sort(rng.choice(recipes, count, replace=False))
        first, last = np.searchsorted(self.recipes, [chosen, chosen + 1])
        places = first + (rng.random(count) * (last - first)).astype(int)
        return [self.texts[kind][i] for i in places], chosen.tolist()


def cpu(run: Callable[[], Any]) -> tuple[float, Any]:
    """Processor time and what came out."""
    start = time.process_time()
    result = run()
    return time.process_time() - start, result


def spread(values: list[float]) -> str:
    """Median and range, three digits each."""
    middle, low, high = (f"{float(f'{x:.3g}'):,g}" for x in (statistics.median(values), min(values), max(values)))
    return f"{middle} ({low} to {high})"


def peak() -> str:
    """The most memory this process has held."""
    return f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.1f} GiB"


def texts(corpus: Corpus, queries: int, rounds: int) -> None:
    """Rate and share of pairs solved over the whole pool."""
    print(f"\n| {queries} queries, k = {K}, {rounds} rounds | titles | bodies |\n|---|---|---|")
    rows: dict[str, list[str]] = {}
    for kind in ("titles", "bodies"):
        built, pool = cpu(partial(corpus.pool, kind))
        asked, groups = corpus.queries(kind, queries)
        found, spent = pool.nearest(asked[:2], K, groups[:2]), []
        for _ in range(rounds):
            seconds, found = cpu(partial(pool.nearest, asked, K, groups))
            spent.append(seconds / queries)
        cells = {
            "texts in the pool": f"{len(corpus.recipes):,}",
            "distinct texts": f"{pool.size:,}",
            "known words": f"{len(pool.vocabulary):,}",
            "known words of a text, mean": f"{len(pool.mass) / pool.size:.1f}",
            "to make the pool ready, s": f"{built:.0f}",
            "ms a query, one process": spread([1000 * x for x in spent]),
            "pairs solved a query, mean (95th percentile)": f"{found.computed.mean():.0f} "
            f"({np.percentile(found.computed, 95):.0f})",
            f"{QUESTIONS:,} queries in two processes, minutes, scaled": spread(
                [(built + x * QUESTIONS / 2) / 60 for x in spent]
            ),
            "peak memory of this process, the corpus included": peak(),
        }
        for name, cell in cells.items():
            rows.setdefault(name, []).append(cell)
    for name, row in rows.items():
        print(f"| {name} | {' | '.join(row)} |")


def growth(corpus: Corpus, queries: int, rounds: int) -> None:
    """Cost of a query as the pool grows."""
    sizes = (2_500, 5_000, 10_000, RECIPES)
    print(f"\n| recipes; {queries} queries, the same ones; ms a query, pairs solved | titles | bodies |\n|---|---|---|")
    rows: dict[int, list[str]] = {size: [] for size in sizes}
    for kind in ("titles", "bodies"):
        asked, groups = corpus.queries(kind, queries, sizes[0])
        pools = {size: corpus.pool(kind, size) for size in sizes}
        spent: dict[int, list[float]] = {size: [] for size in sizes}
        solved = {}
        for _ in range(rounds):
            for size, pool in pools.items():
                seconds, found = cpu(partial(pool.nearest, asked, K, groups))
                spent[size].append(1000 * seconds / queries)
                solved[size] = found.computed.mean()
        for size in sizes:
            rows[size].append(f"{spread(spent[size])}; {solved[size]:.0f}")
    for size, row in rows.items():
        print(f"| {size:,} | {' | '.join(row)} |")


def every_pair(vectors: KeyedVectors, query: list[str], texts: list[list[str]]) -> np.ndarray:
    """Distance by gensim of the query and each text."""
    return np.array([vectors.wmdistance(query, text) for text in texts])


def beside_gensim(corpus: Corpus, rounds: int) -> None:
    """Pairs per second beside gensim's brute force, and whether both find the same."""
    print(f"\n| {rounds} queries, each with the whole pool, k = {K}; pairs a second | titles | bodies |\n|---|---|---|")
    rows: dict[str, list[str]] = {}
    for kind in ("titles", "bodies"):
        pool, texts = corpus.pool(kind), corpus.texts[kind]
        bags = [corpus.words.bag(text) for text in texts]
        asked, _ = corpus.queries(kind, rounds + 1)
        pool.nearest(asked[:1], K)
        rates: dict[str, list[float]] = {"gensim": [], "ours": []}
        differ = 0
        for query in tqdm(asked[1:], desc=f"gensim, {kind}"):
            bag = corpus.words.bag(query)
            brute, theirs = cpu(partial(every_pair, corpus.gensim, query, texts))
            ours, found = cpu(partial(pool.nearest, [query], K))
            rates["gensim"].append(len(texts) / brute)
            rates["ours"].append(len(texts) / ours)
            theirs[[bool(bag) and other == bag for other in bags]] = 0  # gensim's answer for equal words is inf
            differ += int((abs(theirs[found.ids[0]] - found.distances[0]) > 1e-5).sum())
            differ += int((abs(np.sort(theirs)[:K] - found.distances[0]) > 1e-5).sum())
        rows.setdefault("gensim, every pair", []).append(spread(rates["gensim"]))
        rows.setdefault("ours", []).append(spread(rates["ours"]))
        ratios = [a / b for a, b in zip(rates["ours"], rates["gensim"], strict=True)]
        rows.setdefault("ours / gensim", []).append(spread(ratios))
        rows.setdefault("neighbours that differ from gensim's by more than 1e-5", []).append(str(differ))
    for name, row in rows.items():
        print(f"| {name} | {' | '.join(row)} |")


def features(path: Path) -> np.ndarray:
    """A memory map of float16 features, and their rows in float32 for the queries."""
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((2_000, FEATURES), np.float32)
    array = np.lib.format.open_memmap(path, "w+", np.float16, (IMAGES, FEATURES))
    for start in tqdm(range(0, IMAGES, 5_000), desc="features"):
        noise = rng.standard_normal((min(5_000, IMAGES - start), FEATURES), np.float32)
        array[start : start + len(noise)] = np.maximum(centres[rng.integers(2_000, size=len(noise))] + noise - 0.3, 0)
    array.flush()
    return np.load(path, mmap_mode="r")


def images(queries: int, rounds: int, whole: bool) -> None:
    """Rate of exact image neighbours, beside FAISS, and the most memory held."""
    import faiss

    faiss.omp_set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        pool = features(Path(folder) / "features.npy")
        rows = np.linspace(0, IMAGES - 1, IMAGE_QUESTIONS).astype(int)
        groups = [int(row) // 16 for row in rows], [i // 16 for i in range(IMAGES)]
        if whole:
            start = time.perf_counter()
            spent, _ = cpu(
                lambda: nearest_images(pool[rows].astype(np.float32), pool, K, groups, workers=2, progress="images")
            )
            print(
                f"| {IMAGE_QUESTIONS:,} queries, {IMAGES:,} images, two threads | {spent:.0f} s of processor time, ",
                end="",
            )
            print(f"{time.perf_counter() - start:.0f} s of wall time, peak memory {peak()} |")
            return
        some = rows[:: IMAGE_QUESTIONS // queries][:queries]
        asked = pool[some].astype(np.float32)
        seconds: dict[str, list[float]] = {"ours": [], "FAISS": []}
        index = faiss.IndexFlatL2(FEATURES)
        for start in range(0, IMAGES, 10_000):
            index.add(pool[start : start + 10_000].astype(np.float32))
        differ = 0
        for _ in range(rounds):
            ours, found = cpu(lambda: nearest_images(asked, pool, K))
            theirs, (squares, _) = cpu(lambda: index.search(asked, K))
            seconds["ours"].append(ours)
            seconds["FAISS"].append(theirs)
            other = found.distances > 0  # of equal rows FAISS says up to 0.1: 0 is a difference of large numbers there
            differ += int((abs(found.distances - np.sqrt(np.maximum(squares, 0)))[other] > 1e-3).sum())
        print(f"\n| {queries:,} of {IMAGE_QUESTIONS:,} queries, {IMAGES:,} images, k = {K}, one thread | |\n|---|---|")
        for name, values in seconds.items():
            scaled = [x / queries * IMAGE_QUESTIONS / 2 for x in values]
            print(f"| {name}: all queries on two cores, s of processor time a core, scaled | {spread(scaled)} |")
        ratios = [a / b for a, b in zip(seconds["FAISS"], seconds["ours"], strict=True)]
        print(f"| FAISS / ours | {spread(ratios)} |")
        print(f"| distances above 0 that differ from FAISS's by more than 0.001 | {differ} |")


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=["texts", "growth", "gensim", "images"])
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    if {"texts", "growth", "gensim"} & set(options.parts):
        corpus = Corpus()
        if "texts" in options.parts:
            texts(corpus, options.queries, options.rounds)
        if "growth" in options.parts:
            growth(corpus, options.queries, options.rounds)
        if "gensim" in options.parts:
            beside_gensim(corpus, options.rounds)
    if "images" in options.parts:
        images(1024, options.rounds, whole=False)
    if "all-images" in options.parts:
        images(1024, 1, whole=True)


if __name__ == "__main__":
    main()
