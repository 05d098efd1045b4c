"""Recipe1M and Recipe1M+ as released: read, join, filter (Salvador et al. 2017; Marin et al. 2021).

The released files are JSON and pickles of up to gigabytes. Each JSON file is streamed once into a part, an Arrow file
sorted by recipe id; the parts are joined into the table of `data.recipes`. A part that is complete is not made again,
so a killed preparation goes on where it was. The parts stay in the cache; they may be deleted once the table is there.
"""

import gzip
import hashlib
import logging
import re
import reprlib
import zlib
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import IO, Any

import ijson
import numpy as np
import pyarrow as pa
from tqdm import tqdm

from data.checksums import verify_file
from data.errors import InputError
from data.files import unpacked
from data.pickles import PickleFault, load_plain
from data.recipes import (
    BATCH,
    BATCH_CHARACTERS,
    MAX_ID,
    PARTITIONS,
    SCHEMA,
    RecipeTable,
    as_batch,
    gather,
    id_fault,
    open_table,
    sort_file,
    write_batches,
)
from data.records import Recipe
from data.store import block_digests, build_once, digest_of, read_manifest, write_manifest

log = logging.getLogger(__name__)

FORMAT = 1
OFFICIAL_PAIRS = {"train": 238_408, "val": 51_119, "test": 51_304}
MAX_RECORD = 16 << 20  # bytes of JSON between two records; the longest recipes have some ten thousand
MAX_DEPTH = 1000  # of a record; unpaired brackets in texts count too
MAX_ITEMS = 10_000  # lines, instructions or pictures of one recipe
MAX_PICKLE = 1 << 30
MAX_LINES = 20_000_000  # of a list of ids
LISTED = 1000  # bad records a part lists one by one; all are counted

# Released name -> what is told of a file that is missing.
FILES = {
    "layer1.json": "recipe texts, 1.4 GB, in the archive of layers",
    "layer2.json": "picture names of Recipe1M, in the same archive",
    "layer2+.json": "picture names of Recipe1M+, 2.5 GiB",
    "det_ingrs.json": "detected ingredient names, 361 MB; filters.ingredients=raw does without it",
    "classes1M.pkl": "semantic classes, 26 MB; without it they are made from the titles (data.source.classes=bigrams)",
    "remove1M.txt": "ids that occur twice, 446 kB, part of the public im2recipe code",
}
HOW_TO_GET = (
    "the Recipe1M authors hand their files to research institutions on request: fill in the form on the im2recipe "
    "project page, unpack the files into one folder with the pictures in images/, and set data.root to it"
)

_short = reprlib.Repr()
_short.maxstring = _short.maxother = _short.maxlong = 60
_NAMES = pa.list_(pa.string())
_PARTS = {
    "layer1": pa.schema(
        [
            ("id", pa.string()),
            ("record", pa.int64()),
            ("title", pa.string()),
            ("partition", pa.string()),
            ("ingredients", _NAMES),
            ("instructions", _NAMES),
            ("attribution", pa.string()),
        ]
    ),
    "layer2": pa.schema([("id", pa.string()), ("record", pa.int64()), ("images", _NAMES)]),
    "det_ingrs": pa.schema(
        [("id", pa.string()), ("record", pa.int64()), ("detected", _NAMES), ("valid", pa.list_(pa.bool_()))]
    ),
}


class _Bad(Exception):
    """What is wrong with one record and its remedy; the reader adds file, number and id."""


# ---- one JSON file ---------------------------------------------------------------------------------------------------


class _Stream:
    """What the parser reads from: tells how far it is, and stops at a record that does not end."""

    def __init__(self, raw: IO[bytes], path: Path) -> None:
        packed = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        self._file = unpacked(raw, path) if packed else raw
        self._path = path
        self._begun = False
        self.since_record = self.depth = 0
        self.number = 0

    def read(self, size: int = -1) -> bytes:
        if size == 0:  # the parser asks for nothing once, to see whether it gets bytes
            return b""
        data = self._file.read(size)
        self._begun, begun = True, self._begun
        if not begun and data.strip() and not data.lstrip().startswith(b"["):
            raise InputError(f"{self._path}: holds no list of records; check that it is the right file")
        # The parser copies the path to each value: nested a hundred thousand deep, a small file would take hours.
        self.depth += data.count(b"[") + data.count(b"{") - data.count(b"]") - data.count(b"}")
        if self.depth > MAX_DEPTH:
            raise InputError(
                f"{self._path}: record {self.number + 1} is nested too deeply; check that it is the right file"
            )
        self.since_record += len(data)
        if self.since_record > MAX_RECORD:
            raise InputError(
                f"{self._path}: record {self.number + 1} is longer than {MAX_RECORD >> 20} MiB; "
                "check that it is the right file"
            )
        return data


def read_records(path: Path) -> Iterator[tuple[int, Any]]:
    """(number from 1, record) of a JSON list of records, streamed; plain or gzip-compressed.

    InputError where the file is absent, damaged, truncated, or no list.
    """
    number = 0
    try:
        with open(path, "rb") as raw:
            stream = _Stream(raw, path)
            size = path.stat().st_size
            with tqdm(total=size, desc=f"read {path.name}", unit="B", unit_scale=True, smoothing=0.1) as bar:
                for record in ijson.items(stream, "item", buf_size=1 << 16, use_float=True):
                    number += 1
                    stream.number, stream.since_record, stream.depth = number, 0, 0
                    if number % 1024 == 0:
                        bar.update(raw.tell() - bar.n)
                    yield number, record
                bar.update(size - bar.n)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(f"{path}: truncated or damaged gzip file ({error}); fetch it again") from None
    except ijson.JSONError as error:
        reason = " ".join(str(error).split())[:80]
        raise InputError(
            f"{path}: not valid JSON near record {number + 1} ({reason}); it is truncated or damaged, fetch it again"
        ) from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: no UTF-8 near record {number + 1}; it is damaged, fetch it again") from None
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; {HOW_TO_GET}") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); check the path") from None
    if not number:
        raise InputError(f"{path}: holds no list of records; check that it is the right file")


def _get(raw: Any, key: str, kind: type, where: str = "") -> Any:
    if not isinstance(raw, dict):
        raise _Bad(f"{where or 'the record '}is {_kind(raw)} and must be an object")
    if key not in raw:
        raise _Bad(f"{where}has no key {key!r}; restore it")
    if type(raw[key]) is not kind:
        wanted = {str: "a string", list: "a list", bool: "a boolean"}[kind]
        raise _Bad(f"{where}{key!r} is {_kind(raw[key])} and must be {wanted}; correct it")
    return raw[key]


def _kind(value: object) -> str:
    names = {dict: "an object", list: "a list", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")


def _list(raw: Any, key: str) -> list[Any]:
    values = _get(raw, key, list)
    if len(values) > MAX_ITEMS:
        raise _Bad(f"{key!r} has {len(values):,} entries, more than {MAX_ITEMS:,}; check the record")
    return values


def _texts(raw: Any, key: str, part: str = "text") -> list[str]:
    values = _list(raw, key)
    try:
        texts = [value[part] for value in values]
        if set(map(type, texts)) <= {str}:
            return texts
    except (KeyError, TypeError, IndexError):
        pass
    return [_get(value, part, str, f"entry {i} of {key!r}: ") for i, value in enumerate(values, 1)]


def _id(raw: Any) -> str:
    value = _get(raw, "id", str)
    if fault := id_fault(value):
        raise _Bad(fault)
    return value


def _layer1_row(number: int, raw: Any) -> tuple[Any, ...]:
    name = _id(raw)
    partition = _get(raw, "partition", str)
    if partition not in PARTITIONS:
        raise _Bad(f"partition {_short.repr(partition)} is unknown; it must be one of {', '.join(PARTITIONS)}")
    url = raw.get("url")
    url = url if isinstance(url, str) and len(url) <= 2000 else ""
    texts = _texts(raw, "ingredients"), _texts(raw, "instructions")
    return name, number, _get(raw, "title", str), partition, *texts, url


def _layer2_row(number: int, raw: Any) -> tuple[Any, ...]:
    name = _id(raw)
    images = _texts(raw, "images", "id")
    for image in images:
        if not _PLAIN_NAME(image) and (fault := _image_fault(image)):
            raise _Bad(fault)
    return name, number, images


_PLAIN_NAME = re.compile(r"[0-9A-Za-z_-]{4,200}\.[A-Za-z]{1,5}").fullmatch


def _image_fault(name: str) -> str:
    if "/" in name or "\\" in name or ".." in name or not name.isprintable() or not 4 <= len(name.encode()) <= 255:
        return f"picture name {_short.repr(name)} is no plain file name of at least four characters; correct it"
    return ""


def _det_ingrs_row(number: int, raw: Any) -> tuple[Any, ...]:
    name = _id(raw)
    detected, valid = _texts(raw, "ingredients"), _list(raw, "valid")
    if not set(map(type, valid)) <= {bool}:
        raise _Bad("'valid' holds something other than true and false; correct it")
    if len(valid) != len(detected):
        raise _Bad(f"has {len(detected)} ingredients and {len(valid)} 'valid' entries; correct it")
    return name, number, detected, valid


_ROWS: dict[str, Callable[[int, Any], tuple[Any, ...]]] = {
    "layer1": _layer1_row,
    "layer2": _layer2_row,
    "det_ingrs": _det_ingrs_row,
}


# ---- parts -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Part:
    """One released file as an Arrow file sorted by id; `bad` are the records left out (first ones listed)."""

    path: Path  # of the Arrow file
    source: Path  # of the released file
    records: int
    bad: int
    bad_records: list[dict[str, Any]] = field(repr=False)

    def ids(self) -> np.ndarray:
        """(N,) strings, ascending."""
        return self.column("id")

    def column(self, name: str) -> np.ndarray:
        """One plain column, whole."""
        with pa.memory_map(str(self.path)) as mapped:
            file = pa.ipc.open_file(mapped)
            parts = [np.array(file.get_batch(k).column(name).to_pylist()) for k in range(file.num_record_batches)]
        return np.concatenate(parts) if parts else np.empty(0, "U1")

    def lengths(self, name: str) -> np.ndarray:
        """(N,) int64 lengths of a list column."""
        with pa.memory_map(str(self.path)) as mapped:
            file = pa.ipc.open_file(mapped)
            parts = [
                file.get_batch(k).column(name).value_lengths().to_numpy(zero_copy_only=False)
                for k in range(file.num_record_batches)
            ]
            return np.concatenate([np.empty(0, np.int64), *parts]).astype(np.int64)


def file_state(path: Path) -> dict[str, Any]:
    """What a file is recognised by: sha256 up to 64 MiB; above, size, time of change and sha256 of both ends."""
    with open(path, "rb") as file:
        status = path.stat()
        if status.st_size <= 64 << 20:
            return {"sha256": hashlib.file_digest(file, "sha256").hexdigest()}
        ends = hashlib.sha256(file.read(1 << 20))
        file.seek(-(1 << 20), 2)
        ends.update(file.read(1 << 20))
        return {"size": status.st_size, "mtime_ns": status.st_mtime_ns, "ends": ends.hexdigest()}


def make_part(cache: Path, kind: str, source: Path, on_bad_record: str = "raise") -> Part:
    """A released file (`kind` layer1, layer2 or det_ingrs) as a part, from the cache or read now.

    on_bad_record: "raise" stops at the first bad record or repeated id, "skip" leaves them out (of a repeated id the
    later ones) and counts them.
    """
    schema, row = _PARTS[kind], _ROWS[kind]
    key = {"kind": kind, "format": FORMAT, "on_bad_record": on_bad_record, "file": file_state(source)}

    def load(folder: Path) -> Part:
        manifest = read_manifest(folder)
        path = folder / "part.arrow"
        try:
            if manifest["key"] != key or manifest["sha256"] != block_digests(path):
                raise InputError(f"{path}: is damaged; delete the folder {folder} and prepare it again")
        except (KeyError, OSError) as error:
            raise InputError(f"{path}: is damaged ({error}); delete the folder and prepare it again") from None
        return Part(path, source, manifest["records"], manifest["bad"], manifest["bad_records"])

    def write(folder: Path) -> None:
        verify_file(source)
        bad: list[dict[str, Any]] = []
        numbers = array("q")  # of the records kept
        count = 0

        def report(record: int, name: str, reason: str) -> None:
            nonlocal count
            count += 1
            if len(bad) < LISTED:
                bad.append({"file": source.name, "record": record, "id": name, "reason": reason})

        def batches() -> Iterator[pa.RecordBatch]:
            rows, characters = [], 0
            for number, raw in read_records(source):
                try:
                    new = row(number, raw)
                except _Bad as error:
                    name = raw.get("id") if isinstance(raw, dict) else None
                    name = name if isinstance(name, str) and not id_fault(name) else "unknown"
                    if on_bad_record == "raise":
                        raise _bad_record(source, number, name, str(error)) from None
                    report(number, name, str(error))
                    continue
                rows.append(new)
                numbers.append(number)
                characters += _characters(new)
                if len(rows) == BATCH or characters > BATCH_CHARACTERS:
                    yield as_batch(rows, schema, str(source))
                    rows, characters = [], 0
            if rows:
                yield as_batch(rows, schema, str(source))

        path = folder / "part.arrow"
        ids, repeated = sort_file(path, schema, batches(), str(source), keep_first=on_bad_record == "skip")
        for name, record, first in repeated:
            report(numbers[record], name, f"has the id of record {numbers[first]}")
        manifest = {"key": key, "records": len(ids), "bad": count, "bad_records": bad, "sha256": block_digests(path)}
        write_manifest(folder, manifest)

    return build_once(Path(cache) / "recipe1m" / "parts" / f"{kind}-{digest_of(key)[:16]}", load, write)


def _characters(row: tuple[Any, ...]) -> int:
    count = 0
    for value in row:
        if isinstance(value, str):
            count += len(value)
        elif isinstance(value, list) and value and isinstance(value[0], str):
            count += sum(map(len, value))
    return count


def _bad_record(source: Path, number: int, name: str, reason: str) -> InputError:
    remedy = "or set data.on_bad_record=skip to leave such records out"
    return InputError(f"{source}: record {number} (id {name}): {reason}, {remedy}")


# ---- the table -------------------------------------------------------------------------------------------------------


def find_files(root: Path, plus: bool = False, ingredients: str = "det_ingrs") -> dict[str, Path]:
    """The released files below `root` (or root/layers, as one archive unpacks) by stem, plain or `.gz`.

    Keys: layer1, layer2, det_ingrs (not where `ingredients` is "raw"), and where they are there classes1M, remove1M,
    food101. InputError that lists everything that is missing.
    """
    root = Path(root)
    names = {"layer1": ["layer1.json"], "layer2": ["layer2+.json" if plus else "layer2.json"]}
    if ingredients != "raw":
        names["det_ingrs"] = ["det_ingrs.json"]
    optional = {
        "classes1M": ["classes1M.pkl"],
        "remove1M": ["remove1M.txt"],
        "food101": ["food101_classes_renamed.txt"],
    }
    found = {}
    for key, choices in (names | optional).items():
        places = [
            folder / (name + end) for folder in (root, root / "layers") for name in choices for end in ("", ".gz")
        ]
        place = next((path for path in places if path.is_file()), None)
        if place is not None:
            found[key] = place
    missing = [names[key][0] for key in names if key not in found]
    if missing:
        listed = "; ".join(f"{name} ({FILES[name]})" for name in missing)
        also = "; ".join(
            f"{choices[0]} ({FILES[choices[0]]})"
            for key, choices in optional.items()
            if key not in found and choices[0] in FILES
        )
        more = f"; optional: {also}" if also else ""
        raise InputError(f"{root}: has no {listed}{more}. How to get them: {HOW_TO_GET}")
    return found


def build_recipe1m(
    root: str | Path,
    cache: str | Path,
    *,
    plus: bool = False,
    ingredients: str = "det_ingrs",
    classes: str = "auto",
    on_bad_record: str = "raise",
    verify: bool = True,
) -> RecipeTable:
    """All recipes of a Recipe1M root as a table, from the cache or prepared now. Nothing is filtered: see `select`.

    plus: read layer2+.json (Recipe1M+) in place of layer2.json.
    ingredients: "det_ingrs" joins the detected names; "raw" does without that file, and `detected` is empty.
    classes: "file" (classes1M.pkl), "bigrams" (`title_bigram_classes`), "none", or "auto": file where it is there.
    on_bad_record: "raise", or "skip": bad records, repeated ids and ids that one file alone knows are left out,
    counted and listed in `table.extra["skipped"]`.
    verify: compare the checksums of a table that exists (seconds for 2 GB).

    The table is kept under a key of the settings and of the files (`file_state`: sha256 up to 64 MiB, above that size,
    time of change and both ends), so a replaced file is seen. Memory stays below 1 GB at a million recipes.
    """
    for name, value, known in (
        ("ingredients", ingredients, ("det_ingrs", "raw")),
        ("classes", classes, ("auto", "file", "bigrams", "none")),
        ("on_bad_record", on_bad_record, ("raise", "skip")),
    ):
        if value not in known:
            raise InputError(f"{name}={value}: is unknown; use one of {', '.join(known)}")
    files = find_files(Path(root), plus, ingredients)
    if classes == "auto":
        classes = "file" if "classes1M" in files else "bigrams"
    if classes == "file" and "classes1M" not in files:
        raise InputError(f"{root}: has no classes1M.pkl ({FILES['classes1M.pkl']}). How to get it: {HOW_TO_GET}")
    kinds = [kind for kind in _PARTS if kind in files]
    used = [*kinds, *{"file": ["classes1M"], "bigrams": ["food101"]}.get(classes, [])]
    key = {
        "format": FORMAT,
        "ingredients": ingredients,
        "classes": classes,
        "on_bad_record": on_bad_record,
        "files": {name: file_state(files[name]) for name in used if name in files},
    }

    def write(folder: Path) -> None:
        parts = {kind: make_part(Path(cache), kind, files[kind], on_bad_record) for kind in kinds}
        join = _Join(parts, on_bad_record)
        if classes == "file":
            class_of, names = read_classes(files["classes1M"])
            class_ids = np.fromiter((class_of.get(str(name), 0) for name in join.ids), np.int64, len(join.ids))
            del class_of
        elif classes == "bigrams":
            food = read_class_names(files["food101"]) if "food101" in files else []
            class_ids, names = title_bigram_classes(*join.for_classes(), food)
        else:
            class_ids, names = np.zeros(len(join.ids), np.int64), ["background"]
        extra = {
            "source": "recipe1m+" if plus else "recipe1m",
            "root": str(root),
            "ingredients": ingredients,
            "classes": classes,
            "records": {kind: part.records + part.bad for kind, part in parts.items()},
            "skipped": join.skipped,
            "skipped_records": join.listed,
        }
        write_batches(folder, join.batches(class_ids), names, extra)

    target = Path(cache) / "recipe1m" / digest_of(key)[:16]
    return build_once(target, lambda folder: open_table(folder, verify), write)


class _Join:
    """The parts side by side: for each recipe of layer1 the rows of the others, -1 where there is none."""

    def __init__(self, parts: Mapping[str, Part], on_bad_record: str) -> None:
        self.parts, self.skip = parts, on_bad_record == "skip"
        self.listed = [entry for part in parts.values() for entry in part.bad_records][:LISTED]
        self.skipped = {f"bad records of {part.source.name}": part.bad for part in parts.values()}
        layer1 = parts["layer1"]
        self.ids = layer1.ids()
        kept = np.ones(len(self.ids), bool)
        self.rows: dict[str, np.ndarray] = {}
        for kind in ("layer2", "det_ingrs"):
            if kind not in parts:
                continue
            part = parts[kind]
            ids = part.ids()
            rows = _find(ids, self.ids)
            unknown = np.flatnonzero(_find(self.ids, ids) < 0)
            self._report(part, unknown, f"belong to no recipe of {layer1.source.name}")
            if kind == "det_ingrs":
                lone = np.flatnonzero(rows < 0)
                self._report(layer1, lone, f"have no entry in {part.source.name}")
                lengths = np.append(part.lengths("detected"), -1)[rows]
                uneven = np.flatnonzero((rows >= 0) & (lengths != layer1.lengths("ingredients")))
                self._report(layer1, uneven, f"have another number of ingredients in {part.source.name}")
                kept[lone] = kept[uneven] = False
            self.rows[kind] = rows
        self.row = np.flatnonzero(kept)
        self.ids = self.ids[kept]
        self.rows = {kind: rows[kept] for kind, rows in self.rows.items()}

    def _report(self, part: Part, rows: np.ndarray, what: str) -> None:
        """Raise for rows in which the files disagree, or count and list them."""
        if not len(rows):
            return
        shown = rows[: LISTED - len(self.listed)] if self.skip else rows[:1]
        entries = gather(part.path, shown, ["id", "record"]).to_pylist()
        if not self.skip:
            raise InputError(
                f"{part.source}: {len(rows):,} records {what} (first: record {entries[0]['record']}, id "
                f"{entries[0]['id']}); use files of one release, or set data.on_bad_record=skip to leave them out"
            )
        self.skipped[f"records of {part.source.name} that {what}"] = len(rows)
        self.listed += [{"file": part.source.name, **entry, "reason": f"they {what}"} for entry in entries]

    def for_classes(self) -> tuple[list[str], np.ndarray, np.ndarray]:
        """Titles, partitions and who may have a class, in the order of the table."""
        layer1 = self.parts["layer1"]
        titles, partitions, few = [], [], []
        for rows in _chunks(self.row):
            batch = gather(layer1.path, rows, ["title", "partition", "ingredients", "instructions"])
            titles += batch.column("title").to_pylist()
            partitions += batch.column("partition").to_pylist()
            lengths = [batch.column(name).value_lengths().to_numpy() for name in ("ingredients", "instructions")]
            few.append((lengths[0] < 20) & (lengths[1] < 20))
        pictures = np.append(self.parts["layer2"].lengths("images"), 0)[self.rows["layer2"]] > 0
        return titles, np.array(partitions, dtype="U5"), pictures & np.concatenate([np.empty(0, bool), *few])

    def batches(self, class_ids: np.ndarray) -> Iterator[pa.RecordBatch]:
        """The joined recipes as record batches of the table."""
        start = 0
        bar = tqdm(total=len(self.row), desc="join recipes", unit=" recipes", smoothing=0.1)
        for rows in _chunks(self.row):
            part = slice(start, start + len(rows))
            columns = _columns(gather(self.parts["layer1"].path, rows))
            columns["images"] = self._side("layer2", "images", part)
            columns["detected"] = self._side("det_ingrs", "detected", part)
            columns["valid"] = self._side("det_ingrs", "valid", part)
            columns["class_id"] = pa.array(class_ids[part], pa.int64())
            yield pa.record_batch([columns[field.name] for field in SCHEMA], schema=SCHEMA)
            start += len(rows)
            bar.update(len(rows))
        bar.close()

    def _side(self, kind: str, column: str, part: slice) -> pa.Array:
        """A list column of a side file; an empty list where it has no row."""
        kind_of = SCHEMA.field(column).type
        if kind not in self.parts:
            return pa.array([[]] * (min(part.stop, len(self.row)) - part.start), kind_of)
        rows = self.rows[kind][part]
        there = np.flatnonzero(rows >= 0)
        found = gather(self.parts[kind].path, rows[there], [column]).column(column)
        where = np.full(len(rows), len(there))
        where[there] = np.arange(len(there))
        return pa.concat_arrays([found, pa.array([[]], kind_of)]).take(pa.array(where))


def _columns(batch: pa.RecordBatch) -> dict[str, pa.Array]:
    return {name: batch.column(name) for name in batch.schema.names}


def _chunks(rows: np.ndarray) -> Iterator[np.ndarray]:
    for start in range(0, len(rows), BATCH):
        yield rows[start : start + BATCH]


def _find(ids: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """(M,) rows of `wanted` in the sorted `ids`, -1 where absent."""
    if not len(ids):
        return np.full(len(wanted), -1, np.int64)
    rows = np.minimum(np.searchsorted(ids, wanted), len(ids) - 1)
    return np.where(ids[rows] == wanted, rows, -1)


# ---- classes ---------------------------------------------------------------------------------------------------------


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Words that say nothing of the dish: a bigram that holds one is no class. The authors' own list of 46 was not
# published with the paper, so classes made here differ from classes1M.pkl in the rarer names.
BANNED = _words(
    "recipe recipes style easy quick simple best perfect favorite favourite famous homemade delicious amazing ultimate "
    "super ever good great old fashioned mom moms mother grandma grandmas healthy light low fat free gluten sugarless "
    "slow cooker crock pot microwave minute minutes ingredient ingredients cup version copycat ii"
)
STOP_WORDS = _words(
    "a about all an and any are as at be but by can de do for from had has have her his how i if in into is it its la "
    "le me my no not of off on or our out over s so some t than that the their them then there these they this to too "
    "under up very was we were what when which who will with without you your"
)


def title_bigram_classes(
    titles: Sequence[str],
    partitions: np.ndarray,
    eligible: np.ndarray,
    food101: Sequence[str] = (),
    *,
    candidates: int = 2000,
    most: int = 1000,
    above: int = 20,
) -> tuple[np.ndarray, list[str]]:
    """Semantic classes from frequent bigrams of titles (Salvador et al. 2017, section 3.4; reference implementation).

    Of the training titles, lower case and without stop words, the `candidates` most common bigrams are tried in turn,
    but those with a banned word; equal counts in alphabetic order. A recipe has the class if it is eligible (has
    pictures, fewer than 20 instructions and ingredients), still background, and its title in lower case holds the
    bigram as a substring. The class is kept if more than `above` training recipes and at least one of validation and
    of test have it; after `most` classes come the names of `food101` that were no candidates, by the same rule.
    Returns (N,) int64 class ids, 0 = background, and the names.
    """
    lowered = [title.lower() for title in titles]
    counts: Counter[str] = Counter()
    for title, partition in zip(lowered, partitions, strict=True):
        if partition == "train":
            words = [word for word in re.findall(r"\w+", title) if word not in STOP_WORDS]
            counts.update(f"{a} {b}" for a, b in pairwise(words))
    common = sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))[:candidates]
    bigrams = [bigram for bigram, _ in common]
    foods = [name.replace("_", " ").lower() for name in food101]
    tried = [(bigram, most) for bigram in bigrams if BANNED.isdisjoint(bigram.split())]
    tried += [(name, most + len(foods)) for name in foods if name not in set(bigrams)]

    classes = np.zeros(len(titles), np.int64)
    names = ["background"]
    rows = np.flatnonzero(eligible)
    texts = [lowered[i] for i in rows]
    del lowered
    around: dict[
        str, array[int]
    ] = {}  # the characters at a space -> titles that have them: few, and all that may match
    for i, text in enumerate(texts):
        for place in dict.fromkeys(re.findall(r"(?=(. .))", text, re.DOTALL)):
            around.setdefault(place, array("l")).append(i)
    parts = np.asarray(partitions)[rows]
    free = np.ones(len(rows), bool)
    for name, limit in tqdm(tried, desc="classes of titles", unit=" names"):
        if len(names) > limit:
            continue
        space = name.find(" ")
        places = around.get(name[space - 1 : space + 2], ()) if space > 0 else range(len(texts))
        here = np.array([i for i in places if free[i] and name in texts[i]], np.int64)
        train, val, test = (int((parts[here] == split).sum()) for split in PARTITIONS)
        if train > above and val and test:
            classes[rows[here]] = len(names)
            free[here] = False
            names.append(name)
    return classes, names


def read_class_names(path: Path) -> list[str]:
    """Names of Food-101, one a line, words joined by `_`."""
    try:
        lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read ({error}); fetch it again") from None
    return [line for line in lines if line]


def read_classes(path: Path) -> tuple[dict[str, int], list[str]]:
    """classes1M.pkl: class of each recipe id, 0 = background, and the names; the two pickles of the one file."""
    try:
        if path.stat().st_size > MAX_PICKLE:
            raise InputError(f"{path}: has more than {MAX_PICKLE >> 20} MiB; check that it is the right file")
        verify_file(path)
        with open(path, "rb") as file:
            class_of, names = load_plain(file), load_plain(file)
    except PickleFault as error:
        raise InputError(
            f"{path}: is not the two plain pickles of class ids and names ({error}); fetch it again"
        ) from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); check the path") from None
    if not isinstance(class_of, dict) or not isinstance(names, dict) or not names:
        raise InputError(f"{path}: holds no table of classes and names; fetch it again")
    if (
        not all(type(c) is int and type(name) is str for c, name in names.items())
        or not 0 <= min(names) <= max(names) < 100_000
    ):
        raise InputError(f"{path}: its names are no table of text by class number; fetch it again")
    for name, c in class_of.items():
        if type(name) is not str or type(c) is not int or (c != 0 and c not in names) or c < 0:
            raise InputError(f"{path}: recipe {_short.repr(name)} has class {_short.repr(c)}, which has no name")
    return class_of, [names.get(c, "background" if c == 0 else "") for c in range(max(names) + 1)]


# ---- pictures --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Photos:
    """Path of a recipe's picture: `photos(partition, name)`. `folders` are tried in turn."""

    root: Path
    folders: tuple[tuple[Path, bool], ...]  # folder, and whether it is divided into train, val and test

    def __call__(self, partition: str, name: str) -> Path:
        """InputError for a name that is no plain file name, or a picture that is not there."""
        if fault := _image_fault(name):
            raise InputError(f"{self.root}: {fault}")
        below = Path(*name[:4], name)
        for folder, divided in self.folders:
            path = folder / partition / below if divided else folder / below
            if path.is_file():
                return path
        raise InputError(f"{self.root}: has no picture {'/'.join(name[:4])}/{name} of {partition}; fetch its archive")


def find_photos(root: str | Path) -> Photos:
    """Find the pictures below root or root/images.

    Recipe1M keeps them as `<partition>/e/f/3/d/ef3d….jpg` and Recipe1M+ without the partition; both may be there.
    InputError where neither is.
    """
    root = Path(root)
    if not root.is_dir():
        raise InputError(f"{root}: no such folder; set data.root to the folder of the Recipe1M files")
    folders = []
    for top in (root / "images", root):
        if any((top / partition).is_dir() for partition in PARTITIONS):
            folders.append((top, True))
        if top.is_dir() and any(len(path.name) == 1 and path.is_dir() for path in top.iterdir()):
            folders.append((top, False))
    if not folders:
        raise InputError(
            f"{root}: has no pictures, neither as train/e/f/3/d/ef3d….jpg nor as e/f/3/d/ef3d….jpg, in it or in "
            "its folder images; unpack their archives there"
        )
    return Photos(root, tuple(folders))


# ---- lists of ids ----------------------------------------------------------------------------------------------------


def read_id_list(path: Path) -> list[str]:
    """Recipe ids of a text file, one a line, plain or gzip-compressed; empty lines are passed over."""
    ids: list[str] = []
    verify_file(path)
    try:
        with open(path, "rb") as raw:
            packed = raw.read(2) == b"\x1f\x8b"
            raw.seek(0)
            lines = unpacked(raw, path) if packed else raw
            number = 0
            while line := lines.readline(4 * MAX_ID + 3):
                number += 1
                name = line.decode("utf-8").strip()
                if not name:
                    continue
                if id_fault(name) or number > MAX_LINES:
                    raise InputError(f"{path}: line {number} is no recipe id; the file must hold one id a line")
                ids.append(name)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(f"{path}: truncated or damaged gzip file ({error}); fetch it again") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read ({error}); check the path") from None
    if not ids:
        raise InputError(f"{path}: holds no ids; fetch it again")
    return ids


def find_lists(folder: str | Path) -> dict[str, list[str]] | None:
    """The split lists train.txt, val.txt and test.txt (or .txt.gz) of a folder; None where it has none of them."""
    found: dict[str, list[str]] = {}
    missing = []
    for split in PARTITIONS:
        paths = [path for end in ("", ".gz") if (path := Path(folder) / f"{split}.txt{end}").is_file()]
        if paths:
            found[split] = read_id_list(paths[0])
        else:
            missing.append(f"{split}.txt")
    if found and missing:
        raise InputError(f"{folder}: has lists of some splits but no {', '.join(missing)}; complete or remove them")
    return found or None


# ---- filters ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Filters:
    """Which recipes become pairs. Defaults do what was meant; `official()` does what the reference implementation does.

    max_instructions, max_ingredients: room for instructions, and for ingredients with their end mark `</i>`.
    limit: "truncate" keeps longer recipes (whoever encodes them cuts them) and counts them; "drop" leaves out recipes
    that fill the room, as the reference: instructions >= max_instructions, or ingredients + 1 >= max_ingredients.
    min_known_ingredients: the reference counts the end mark, so that its test for none never fires (0 here).
    skip_first_removal_line: the reference looks up line numbers, and line 0 is false: the first id stays in.
    ignore_valid: the reference takes raw lines, those not detected, for names.
    unordered_ingredients: the reference makes a set of them: repeats are lost (and the order; here it is alphabetic).
    ingredients: "det_ingrs", or "raw" for the lines of layer1.
    """

    max_instructions: int = 20
    max_ingredients: int = 20
    limit: str = "truncate"
    require_image: bool = True
    min_instructions: int = 1
    min_known_ingredients: int = 1
    use_removal_list: bool = True
    skip_first_removal_line: bool = False
    ignore_valid: bool = False
    unordered_ingredients: bool = False
    ingredients: str = "det_ingrs"

    def __post_init__(self) -> None:
        if self.limit not in ("truncate", "drop"):
            raise InputError(f"filters.limit={self.limit}: is unknown; use truncate or drop")
        if self.ingredients not in ("det_ingrs", "raw"):
            raise InputError(f"filters.ingredients={self.ingredients}: is unknown; use det_ingrs or raw")
        for name in ("max_instructions", "max_ingredients"):
            if getattr(self, name) < 2:
                raise InputError(f"filters.{name}={getattr(self, name)}: must be at least 2")

    @classmethod
    def official(cls) -> "Filters":
        """The rule that made the published pairs."""
        return cls(
            limit="drop",
            min_instructions=0,
            min_known_ingredients=0,
            skip_first_removal_line=True,
            ignore_valid=True,
            unordered_ingredients=True,
        )

    def names(self, recipe: Recipe) -> list[str]:
        """The ingredients of a recipe that these filters take: names, or lines where none were detected."""
        return _names(self, recipe.ingredients, recipe.detected, recipe.valid)


def _names(filters: Filters, lines: Sequence[str], detected: Sequence[str], valid: Sequence[bool]) -> list[str]:
    if filters.ingredients == "raw" or not detected:
        names = [line for line in lines if line]
    else:
        names = [name for name, good in zip(detected, valid, strict=True) if name and (good or filters.ignore_valid)]
    return sorted(set(names)) if filters.unordered_ingredients else names


@dataclass(frozen=True)
class FilterReport:
    """Recipes by split: looked at, removed by each rule (the first that holds), kept; and kept ones that are cut."""

    considered: dict[str, int]
    removed: dict[str, dict[str, int]]
    kept: dict[str, int]
    cut: dict[str, dict[str, int]]
    listed: bool  # the pairs are those of given lists, and no rule removed any

    def lines(self) -> list[str]:
        """The report in words, one line each."""
        lines = []
        for split in PARTITIONS:
            gone = ", ".join(f"{n[split]:,} {rule}" for rule, n in self.removed.items() if n[split])
            cut = ", ".join(f"{n[split]:,} {rule}" for rule, n in self.cut.items() if n[split])
            way = "by the list" if self.listed else f"removed: {gone or 'none'}"
            lines.append(
                f"{split}: {self.kept[split]:,} of {self.considered[split]:,} recipes, {way}"
                + (f"; will be cut: {cut}" if cut else "")
            )
        return lines


@dataclass(frozen=True)
class Selection:
    """Rows of the table by split, ascending and so sorted by id, and how they were chosen."""

    rows: dict[str, np.ndarray]
    report: FilterReport


def select(
    table: RecipeTable,
    filters: Filters | None = None,
    *,
    lists: Mapping[str, Sequence[str]] | None = None,
    removal: Sequence[str] = (),
    known: Callable[[str], bool] | None = None,
) -> Selection:
    """The recipes of each split that become pairs.

    lists: ids by split; then the pairs are exactly these, and an id that the table lacks, has in another partition or
    has without picture is an InputError.
    removal: ids of remove1M.txt in file order. known: whether an ingredient, as the file spells it, has a vector;
    without it every name counts as known.
    """
    filters = filters or Filters()
    partitions, pictures = table.partitions, table.lengths("images")
    rows: dict[str, np.ndarray] = {}
    if lists is not None:
        rows = {split: _listed_rows(table, split, lists.get(split, ()), pictures) for split in PARTITIONS}
        checked = np.zeros(len(table), bool)
        checked[np.concatenate(list(rows.values()))] = True
    else:
        checked = pictures > 0 if filters.require_image else np.ones(len(table), bool)
    steps = table.lengths("instructions")
    full = np.zeros(len(table), np.int64)  # ingredients with their end mark
    enough = np.zeros(len(table), bool)
    for chunk in _chunks(np.flatnonzero(checked)):
        batch = table.take(chunk, ["ingredients", "detected", "valid"])
        columns = (batch.column(name).to_pylist() for name in ("ingredients", "detected", "valid"))
        for row, lines, detected, valid in zip(chunk, *columns, strict=True):
            names = _names(filters, lines, detected, valid)
            if known is not None:
                names = [name for name in names if known(name)]
            full[row] = len(names) + 1
            enough[row] = len(names) >= filters.min_known_ingredients
    long = {
        "with too many instructions": steps > filters.max_instructions,
        "with too many ingredients": full > filters.max_ingredients,
    }
    rules: dict[str, np.ndarray] = {}
    if lists is None:
        if filters.limit == "drop":
            long["with too many instructions"] = steps >= filters.max_instructions
            long["with too many ingredients"] = full >= filters.max_ingredients
        if filters.require_image:
            rules["without picture"] = pictures == 0
        if filters.use_removal_list and len(removal):
            gone = table.find(list(removal[1:] if filters.skip_first_removal_line else removal))
            rules["in the removal list"] = np.zeros(len(table), bool)
            rules["in the removal list"][gone[gone >= 0]] = True
        rules["with too few instructions"] = steps < filters.min_instructions
        rules["with too few known ingredients"] = checked & ~enough
        if filters.limit == "drop":
            rules |= long
        kept = np.ones(len(table), bool)
        removed = {}
        for rule, mask in rules.items():
            removed[rule] = _by_split(partitions[mask & kept])
            kept &= ~mask
        rows = {split: np.flatnonzero(kept & (partitions == split)) for split in PARTITIONS}
    else:
        removed = {}
    chosen = np.zeros(len(table), bool)
    chosen[np.concatenate(list(rows.values()))] = True
    report = FilterReport(
        considered=_by_split(partitions),
        removed=removed,
        kept={split: len(rows[split]) for split in PARTITIONS},
        cut={rule: _by_split(partitions[mask & chosen]) for rule, mask in long.items()},
        listed=lists is not None,
    )
    return Selection(rows, report)


def _by_split(partitions: np.ndarray) -> dict[str, int]:
    return {split: int((partitions == split).sum()) for split in PARTITIONS}


def _listed_rows(table: RecipeTable, split: str, ids: Sequence[str], pictures: np.ndarray) -> np.ndarray:
    rows = table.find(list(ids))
    name = f"the list of {split}"
    if len(set(ids)) != len(ids):
        twice = next(value for value, n in Counter(ids).items() if n > 1)
        raise InputError(f"{name}: holds {twice} twice; remove one of the two")
    for wrong, what in (
        (rows < 0, "are not in the table; use the files the list was made for, or data.lists=null"),
        (table.partitions[rows] != split if len(table) else rows < 0, "are of another partition; correct the list"),
        (pictures[rows] == 0 if len(table) else rows < 0, "have no picture; add layer2 entries or correct the list"),
    ):
        if wrong.any():
            first = ", ".join(np.asarray(ids)[wrong][:5].tolist())
            raise InputError(f"{name}: {int(wrong.sum()):,} of {len(ids):,} ids ({first}, …) {what}")
    return np.sort(rows)
