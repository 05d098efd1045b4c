"""Search in a gallery of embeddings: exact by default, approximate for galleries past memory limits."""

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from tqdm import tqdm

from data.errors import InputError
from data.recipes import RecipeTable
from data.records import Recipe
from data.store import block_digests, read_manifest, write_manifest
from engine.console import folder_name, make_console, say
from engine.sheet import Card, Hit, Row, Section, one_line, write_sheet

INDICES = ("exact", "faiss", "ivfpq")
FORMAT = 1
_BLOCK = 8192  # gallery rows of one matrix product
_QUERIES = 256  # queries of one matrix product: 256 x 8192 scores are 8 MB
_TRAINING_ROWS = 200_000


class Gallery:
    """Unit vectors with an id each, and the search for the nearest by cosine.

    Scores are dot products summed in double precision and rounded to float32, so equal vectors have equal scores
    wherever they lie; the order is score descending, then row ascending. The fast product in float32, or FAISS, only
    proposes candidates.

    Args:
        ids: N names.
        vectors: (N, D) float32 or float16 of unit length; an array or a memory map, which is never loaded whole.
        index: `exact` (blocked matrix product), `faiss` (IndexFlatIP, same answers), or `ivfpq` (inverted lists with
            product quantisation, Jégou et al. 2011; what it finds is re-ranked exactly from `vectors`).
        lists: inverted lists of `ivfpq`; 0 takes about 4 sqrt(N).
        probes: lists that a query visits; 0 takes an eighth of them, at least 8.
        code_size: bytes of a quantised vector; 0 takes the divisor of D nearest to D / 8, at most 64.
        rerank: candidates re-ranked for each query, as a multiple of k, at least 100.
        seed: of the training of `ivfpq`.

    Raises:
        InputError: shapes that do not fit, a vector that is not finite or not of unit length, FAISS missing.
    """

    def __init__(
        self,
        ids: Sequence[str],
        vectors: np.ndarray,
        index: str = "exact",
        *,
        lists: int = 0,
        probes: int = 0,
        code_size: int = 0,
        rerank: int = 10,
        seed: int = 1234,
    ) -> None:
        if index not in INDICES:
            raise InputError(f"index={index}: is unknown; use one of {', '.join(INDICES)}")
        if vectors.ndim != 2 or len(vectors) != len(ids):
            raise InputError(f"gallery: {len(ids)} ids and vectors of shape {vectors.shape}; give one row for each id")
        if vectors.dtype not in (np.float32, np.float16):
            raise InputError(f"gallery: the vectors are {vectors.dtype}; save them as float32")
        self.ids, self.vectors, self.index = list(map(str, ids)), vectors, index
        self.settings = {"lists": lists, "probes": probes, "code_size": code_size, "rerank": rerank, "seed": seed}
        for start in range(0, len(vectors), _BLOCK):
            check_unit_length(vectors[start : start + _BLOCK], self.ids[start : start + _BLOCK], "gallery")
        self._faiss: Any = None
        if index != "exact" and len(vectors):
            self._faiss = _flat(vectors) if index == "faiss" else _ivfpq(vectors, self.settings)

    def __len__(self) -> int:
        return len(self.ids)

    def search(self, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """The k nearest of each query.

        Args:
            queries: (Q, D) of unit length.
            k: how many; where the gallery has fewer, all of them.

        Returns:
            Scores (Q, K) float32, descending, and rows (Q, K) int64, with K = min(k, N). Where `ivfpq` finds fewer,
            the rest has score -inf and row -1.
        """
        if k < 1:
            raise InputError(f"k={k}: must be 1 or more")
        queries = np.asarray(queries, np.float32)
        if queries.ndim != 2 or queries.shape[1] != self.vectors.shape[1]:
            raise InputError(
                f"queries of shape {queries.shape} against a gallery of {self.vectors.shape[1]} dimensions; "
                "embed both with one checkpoint"
            )
        check_unit_length(queries, [f"number {i}" for i in range(len(queries))], "query")
        k = min(k, len(self))
        scores, rows = np.full((len(queries), k), -np.inf, np.float32), np.full((len(queries), k), -1, np.int64)
        for start in range(0, len(queries) if k else 0, _QUERIES):
            part = queries[start : start + _QUERIES]
            found = self._exact(part, k) if self.index == "exact" else self._indexed(part, k)
            for i, candidates in enumerate(found):
                # One row after another in double precision: no blocking of a matrix product shows in the last bit.
                vectors = self.vectors[candidates].astype(np.float64)
                exact = (vectors * part[i].astype(np.float64)).sum(1).astype(np.float32)
                order = np.lexsort((candidates, -exact))[:k]
                scores[start + i, : len(order)], rows[start + i, : len(order)] = exact[order], candidates[order]
        return scores, rows

    def _slack(self) -> float:
        """Twice the largest error of a float32 product of unit vectors (Higham 2002, section 3.1), tie included."""
        return 2 * (self.vectors.shape[1] + 2) * 2.0**-23

    def _exact(self, queries: np.ndarray, k: int) -> list[np.ndarray]:
        """For each query the sorted rows that may be among its k nearest."""
        slack = self._slack()
        rows = [np.empty(0, np.int64) for _ in queries]
        kept = [np.empty(0, np.float32) for _ in queries]
        floor = np.full(len(queries), -np.inf, np.float32)  # the k-th best so far, less the slack
        for start in range(0, len(self), _BLOCK):
            block = np.asarray(self.vectors[start : start + _BLOCK], np.float32)
            products = queries @ block.T
            for i in range(len(queries)):
                here = np.flatnonzero(products[i] >= floor[i])
                if not len(here):
                    continue
                values = np.concatenate([kept[i], products[i, here]])
                names = np.concatenate([rows[i], here + start])
                if len(values) > k:
                    floor[i] = np.partition(values, len(values) - k)[len(values) - k] - slack
                    stay = values >= floor[i]
                    values, names = values[stay], names[stay]
                kept[i], rows[i] = values, names
        return rows

    def _indexed(self, queries: np.ndarray, k: int) -> list[np.ndarray]:
        """Candidates of FAISS for each query, sorted; exact ones where its list may have cut a tie."""
        if self.index == "ivfpq":
            count = min(len(self), max(100, int(self.settings["rerank"]) * k))
            _, found = self._faiss.search(queries, count)
            return [np.sort(row[row >= 0]) for row in found]
        count = min(len(self), k + 64)
        products, found = self._faiss.search(queries, count)
        candidates = [np.sort(row[row >= 0]) for row in found]
        if count < len(self):
            unsafe = np.flatnonzero(products[:, -1] >= products[:, k - 1] - self._slack())
            for i, rows in zip(unsafe, self._exact(queries[unsafe], k), strict=True):
                candidates[i] = rows
        return candidates

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write ids, vectors and index into a new folder that appears whole; `Gallery.open` maps it.

        InputError where the folder exists.
        """
        folder = Path(folder)
        if folder.exists():
            raise InputError(f"{folder}: exists already; delete it or choose another folder for the gallery")
        folder.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}.building-", dir=folder.parent))
        try:
            shape = (len(self), self.vectors.shape[1])
            if len(self):
                out = np.lib.format.open_memmap(temporary / "vectors.npy", "w+", self.vectors.dtype, shape)
                for start in range(0, len(self), _BLOCK):
                    out[start : start + _BLOCK] = self.vectors[start : start + _BLOCK]
                out.flush()
                del out
            else:
                np.save(temporary / "vectors.npy", np.empty(shape, self.vectors.dtype), allow_pickle=False)
            (temporary / "ids.json").write_text(json.dumps(self.ids), encoding="utf-8")
            if self._faiss is not None:
                _import_faiss().write_index(self._faiss, str(temporary / "index.faiss"))
            sums = {path.name: block_digests(path) for path in sorted(temporary.iterdir())}
            manifest = {"format": FORMAT, "index": self.index, "settings": self.settings, "shape": list(shape)}
            write_manifest(temporary, {**manifest, "sha256": sums})
            os.chmod(temporary, 0o755)
            os.rename(temporary, folder)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise

    @classmethod
    def open(cls, folder: str | os.PathLike[str]) -> "Gallery":
        """Open a saved gallery with its vectors memory-mapped; every file must have the digest of the manifest.

        InputError names the file where one is absent, damaged, or not what the manifest says.
        """
        folder = Path(folder)
        manifest = read_manifest(folder)
        try:
            sums, shape, index = dict(manifest["sha256"]), tuple(manifest["shape"]), str(manifest["index"])
            settings = {name: int(manifest["settings"][name]) for name in manifest["settings"]}
            wanted = {"vectors.npy", "ids.json"} | ({"index.faiss"} if index != "exact" and shape[0] else set())
            if manifest["format"] != FORMAT or index not in INDICES or set(sums) != wanted or len(shape) != 2:
                raise ValueError("another format")
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"{folder / 'manifest.json'}: is not that of a gallery ({error}); save it again") from None
        for name, digests in sorted(sums.items()):
            if not (folder / name).is_file() or block_digests(folder / name) != digests:
                raise InputError(f"{folder / name}: is absent or damaged; delete {folder} and save the gallery again")
        gallery = cls.__new__(cls)  # the vectors were checked when they were saved, and the digests hold
        gallery.ids = json.loads((folder / "ids.json").read_bytes())
        gallery.vectors = np.load(folder / "vectors.npy", mmap_mode="r" if shape[0] else None, allow_pickle=False)
        if gallery.vectors.shape != shape or len(gallery.ids) != shape[0]:
            raise InputError(
                f"{folder}: {len(gallery.ids)} ids and vectors of shape {gallery.vectors.shape}; save again"
            )
        gallery.index, gallery.settings, gallery._faiss = index, settings, None
        if "index.faiss" in sums:
            gallery._faiss = _import_faiss().read_index(str(folder / "index.faiss"))
        return gallery


def rank_query(
    folder: Path,
    vector: np.ndarray,
    gallery: Gallery,
    *,
    records: RecipeTable | None = None,
    photo: Callable[[str], Path] | None = None,
    query_photo: Path | None = None,
    query_recipe: Recipe | None = None,
    k: int = 10,
    console: Console | None = None,
    rendered: bool = False,
) -> list[dict[str, Any]]:
    """Rank a gallery for one query: prints a table, writes `query.html` and `query.png` into a folder.

    Args:
        folder: where the sheet goes.
        vector: (D,) embedding of the query, unit length.
        gallery: embeddings of recipes where the query is a photo, of photos where it is a recipe.
        records: table that knows the recipes of the gallery; an id that it does not have is shown by itself.
        photo: name of a photo -> path, for the pictures of a gallery of photos.
        query_photo: the query, or
        query_recipe: the query.
        k: neighbours; where there are fewer, all.
        console: where the table goes.
        rendered: the gallery's pictures are drawn and no photographs.

    Returns:
        One row for each neighbour, best first: rank, score (cosine), id, title.
    """
    if (query_photo is None) == (query_recipe is None):
        raise ValueError("give a photo or a recipe as the query")
    scores, rows = gallery.search(np.asarray(vector)[None], k)
    found = [(float(score), gallery.ids[row]) for score, row in zip(scores[0], rows[0], strict=True) if row >= 0]
    known: dict[str, Recipe] = {}
    if records is not None:
        places = records.find([name for _, name in found])
        known = {name: records[int(place)] for (_, name), place in zip(found, places, strict=True) if place >= 0}
    hits, neighbours = [], []
    for rank, (score, name) in enumerate(found, 1):
        recipe = known.get(name)
        title = recipe.title if recipe else name
        path = None
        if query_recipe is not None and recipe is not None and recipe.images and photo is not None:
            with suppress(InputError, OSError):  # the sheet says where a picture cannot be shown
                path = Path(photo(recipe.images[0]))
        lines = recipe.ingredients if recipe else ()
        card = Card(title, lines, path, query_recipe is not None, rendered and query_recipe is not None)
        hits.append(Hit(card, score, str(rank)))
        neighbours.append({"rank": rank, "score": score, "id": name, "title": title})

    kind = "photo" if query_recipe is not None else "recipe"
    asked = query_photo.name if query_photo is not None else query_recipe.title if query_recipe is not None else ""
    size = f"{len(gallery):,} {kind}{'' if len(gallery) == 1 else 's'}"
    heading = f"{len(found)} nearest of {size}"
    if gallery.index == "ivfpq":
        heading += " (approximate search)"
    console = console or make_console()
    console.print()
    console.print(escape(f"{one_line(asked) or 'query'}: {heading}"), style="bold", soft_wrap=True)
    table = Table(header_style="bold")
    for column, justify in (("rank", "right"), ("cosine", "right"), (kind, "left"), ("id", "left")):
        table.add_column(column, justify=justify, overflow="fold")  # pyright: ignore[reportArgumentType]
    for row in neighbours:
        name, title = one_line(row["id"]), one_line(row["title"])
        table.add_row(str(row["rank"]), f"{row['score']:.3f}", escape(title), escape(name) if name != title else "")
    console.print(table)

    query = Card(query_photo.name, photo=query_photo, is_photo=True) if query_photo is not None else None
    if query_recipe is not None:
        query = Card(query_recipe.title, query_recipe.ingredients)
    assert query is not None
    section = Section(heading, "", (Row(query, tuple(hits), len(gallery)),))
    note = "The number on a card is its cosine similarity to the query."
    if rendered and query_recipe is not None:
        note += " Pictures are rendered, no photographs."
    write_sheet(folder / "query.html", folder / "query.png", [section], asked or "query", note)
    say(console, f"wrote query.html query.png into {folder_name(folder)}")
    return neighbours


def check_unit_length(vectors: np.ndarray, names: Sequence[str], what: str) -> None:
    """InputError for the first vector of some (n, D) that is not finite or not of unit length (to 1 %)."""
    norms = np.linalg.norm(np.asarray(vectors, np.float32), axis=1)
    bad = np.flatnonzero(~(np.abs(norms - 1) < 0.01))  # NaN compares as False
    if len(bad):
        row = int(bad[0])
        if not np.isfinite(vectors[row]).all():
            fault = "holds NaN or infinity; check the checkpoint and the input"
        else:
            fault = f"has length {norms[row]:.4g} and not 1; divide each vector by its norm"
        raise InputError(f"{what} {names[row]}: its vector {fault}")


def _import_faiss() -> Any:
    try:
        import faiss
    except ImportError:
        raise InputError("index: FAISS is not installed; pip install faiss-cpu, or use index=exact") from None
    return faiss


def _flat(vectors: np.ndarray) -> Any:
    index = _import_faiss().IndexFlatIP(vectors.shape[1])
    for start in range(0, len(vectors), _BLOCK):
        index.add(np.ascontiguousarray(vectors[start : start + _BLOCK], np.float32))
    return index


def _ivfpq(vectors: np.ndarray, settings: dict[str, int]) -> Any:
    faiss = _import_faiss()
    count, size = vectors.shape
    # FAISS wants some 39 rows for each centroid; small galleries get fewer lists and coarser codes, not a failure.
    lists = settings["lists"] or max(1, min(round(4 * count**0.5), count // 39))
    divisors = [d for d in range(1, size + 1) if size % d == 0 and d <= 64]
    code_size = settings["code_size"] or min(divisors, key=lambda d: (abs(d - min(size / 8, 64)), d))
    if size % code_size:
        raise InputError(f"gallery.code_size={code_size}: must divide the {size} dimensions; use {divisors[-1]}")
    if lists > count:
        raise InputError(f"gallery.lists={lists}: more lists than the {count} vectors; use {max(1, count // 39)}")
    bits = max(1, min(8, int(np.log2(count))))
    index = faiss.IndexIVFPQ(faiss.IndexFlatIP(size), size, lists, code_size, bits, faiss.METRIC_INNER_PRODUCT)
    index.cp.seed = index.pq.cp.seed = settings["seed"]
    index.cp.min_points_per_centroid = index.pq.cp.min_points_per_centroid = 1  # no warnings for small galleries
    dice = np.random.default_rng(settings["seed"])
    rows = np.sort(dice.choice(count, min(count, _TRAINING_ROWS), replace=False))
    index.train(np.ascontiguousarray(vectors[rows], np.float32))
    for start in tqdm(range(0, count, _BLOCK), desc="indexing", unit="block", disable=count < 20 * _BLOCK):
        index.add(np.ascontiguousarray(vectors[start : start + _BLOCK], np.float32))
    index.nprobe = min(lists, settings["probes"] or max(8, lists // 8))
    return index
