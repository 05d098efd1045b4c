"""Prepared recipes of the *rank N* problem: an Arrow file that is mapped and never loaded whole.

A table is a folder

    recipes.arrow  Arrow IPC file, one row for each recipe, sorted by id, in record batches of a few thousand
    manifest.json  counts, class names, sha256 of each 64 MiB block, versions

The format is open (`pyarrow.ipc.open_file`), keys are the recipe ids themselves, and nothing in it is code.
"""

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from data.errors import InputError
from data.records import Recipe
from data.store import block_digests, digest_of, read_manifest, write_manifest

FORMAT = 1  # raised when a column changes its name, type or meaning
PARTITIONS = ("train", "val", "test")
BATCH = 4096  # recipes of a record batch
BATCH_CHARACTERS = 32_000_000  # a batch of long recipes ends earlier
MAX_ID = 200  # characters
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("title", pa.string()),
        ("partition", pa.string()),
        ("ingredients", pa.list_(pa.string())),
        ("detected", pa.list_(pa.string())),
        ("valid", pa.list_(pa.bool_())),
        ("instructions", pa.list_(pa.string())),
        ("images", pa.list_(pa.string())),
        ("class_id", pa.int64()),
        ("attribution", pa.string()),
    ]
)
_FAULTS = (OSError, ValueError, KeyError, pa.ArrowException)  # what a damaged Arrow file raises


# ---- writing ---------------------------------------------------------------------------------------------------------


def write_table(
    folder: Path, recipes: Iterable[Recipe], class_names: Sequence[str] = (), extra: dict[str, Any] | None = None
) -> None:
    """Write recipes, in whatever order they come, as a table sorted by id.

    Recipes are streamed: memory holds the ids and one record batch. `class_names[c]` is the name of class c, 0 the
    background. `extra` is kept in the manifest and belongs to no digest: plain values. InputError for an id that comes
    twice or a recipe that contradicts itself. The table is there when its manifest is, and that comes last.
    """
    write_batches(folder, _batches(recipes, folder), class_names, extra)


def write_batches(
    folder: Path,
    batches: Iterable[pa.RecordBatch],
    class_names: Sequence[str] = (),
    extra: dict[str, Any] | None = None,
) -> None:
    """As `write_table`, from record batches of `SCHEMA`."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=".table-", dir=folder))
    try:
        path = temporary / "recipes.arrow"
        ids, _ = sort_file(path, SCHEMA, batches, str(folder))
        write_manifest(
            temporary,
            {
                "kind": "recipes",
                "format": FORMAT,
                "recipes": len(ids),
                "class_names": list(class_names),
                "extra": extra or {},
                "sha256": {"recipes.arrow": block_digests(path)},
                "versions": {"pyarrow": pa.__version__},
            },
        )
        with suppress(FileNotFoundError):  # no reader shall see one table's manifest beside another's rows
            os.unlink(folder / "manifest.json")
        os.replace(path, folder / "recipes.arrow")
        os.replace(temporary / "manifest.json", folder / "manifest.json")
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _batches(recipes: Iterable[Recipe], folder: Path) -> Iterator[pa.RecordBatch]:
    rows: list[tuple[Any, ...]] = []
    characters = 0
    for number, recipe in enumerate(recipes, 1):
        fault = _fault(recipe)
        if fault:
            raise InputError(f"{folder}: recipe {number} (id {recipe.recipe_id[:80]!r}) {fault}")
        rows.append(
            (
                recipe.recipe_id,
                recipe.title,
                recipe.partition,
                recipe.ingredients,
                recipe.detected,
                recipe.valid,
                recipe.instructions,
                recipe.images,
                recipe.class_id,
                recipe.attribution,
            )
        )
        characters += sum(map(len, recipe.ingredients)) + sum(map(len, recipe.instructions)) + len(recipe.title)
        if len(rows) == BATCH or characters > BATCH_CHARACTERS:
            yield as_batch(rows, SCHEMA, str(folder))
            rows, characters = [], 0
    if rows:
        yield as_batch(rows, SCHEMA, str(folder))


def _fault(recipe: Recipe) -> str:
    """What is wrong with a recipe, or nothing."""
    if fault := id_fault(recipe.recipe_id):
        return fault
    if recipe.partition not in PARTITIONS:
        return f"has partition {recipe.partition[:40]!r}; it must be one of {', '.join(PARTITIONS)}"
    if len(recipe.detected) not in (0, len(recipe.ingredients)) or len(recipe.valid) != len(recipe.detected):
        n = f"{len(recipe.ingredients)}, {len(recipe.detected)} and {len(recipe.valid)}"
        return f"has {n} ingredients, detected names and validities; give one of each for each line, or none detected"
    if recipe.class_id < 0:
        return f"has class {recipe.class_id}; classes start at 0, the background"
    return ""


def id_fault(value: str) -> str:
    """What is wrong with a recipe id, or nothing."""
    if not value or len(value) > MAX_ID or not value.isprintable():
        return f"has no usable id; ids are 1 to {MAX_ID} printable characters"
    return ""


def as_batch(rows: Sequence[tuple[Any, ...]], schema: pa.Schema, what: str) -> pa.RecordBatch:
    """Rows as one record batch; InputError where a text holds what no file can."""
    try:
        arrays = [pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), schema, strict=True)]
        return pa.record_batch(arrays, schema=schema)
    except (UnicodeEncodeError, pa.ArrowException, TypeError, OverflowError) as error:
        reason = " ".join(str(error).split())[:120]
        first, last = rows[0][0], rows[-1][0]
        raise InputError(
            f"{what}: a recipe of {first!a} to {last!a} holds a wrong value ({reason}); correct it"
        ) from None


def sort_file(
    path: Path, schema: pa.Schema, batches: Iterable[pa.RecordBatch], what: str, keep_first: bool = False
) -> tuple[np.ndarray, list[tuple[str, int, int]]]:
    """Write record batches as an Arrow file whose rows are sorted by column `id`.

    They are written as they come; where they came in another order the file is written again in the right one, each
    batch gathered from the first file through a short-lived map, so memory stays that of one batch either way.
    Returns the sorted ids and the repeated ones as (id, row of arrival, row of arrival of the first); a repeated id is
    an InputError that starts with `what`, or with `keep_first` its later rows are left out.
    """
    seen: list[np.ndarray] = [np.empty(0, "U1")]
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, schema) as writer:
        for batch in batches:
            if batch.num_rows:
                writer.write_batch(batch)
                seen.append(np.array(batch.column("id").to_pylist()))
    ids = np.concatenate(seen)
    if (ids[1:] > ids[:-1]).all():
        return ids, []
    order = np.argsort(ids, kind="stable")
    again = np.flatnonzero(ids[order[1:]] == ids[order[:-1]]) + 1
    repeated = []
    for place in again:
        first = place
        while first and ids[order[first - 1]] == ids[order[place]]:
            first -= 1
        repeated.append((str(ids[order[place]]), int(order[place]), int(order[first])))
    if repeated and not keep_first:
        name, later, first = min(repeated, key=lambda entry: entry[1])
        raise InputError(f"{what}: record {later + 1} has the id {name!a} of record {first + 1}; remove one of the two")
    order = np.delete(order, again)
    partial = path.with_name(path.name + ".sorted")
    starts = batch_starts(path)
    with pa.OSFile(str(partial), "wb") as file, pa.ipc.new_file(file, schema) as writer:
        for start in range(0, len(order), BATCH):
            writer.write_batch(gather(path, order[start : start + BATCH], starts=starts))
    os.replace(partial, path)
    return ids[order], repeated


def batch_starts(path: Path) -> np.ndarray:
    """(batches + 1,) int64 first row of each record batch of an Arrow file, and the number of rows."""
    with pa.memory_map(str(path)) as mapped:
        file = pa.ipc.open_file(mapped)
        return np.cumsum([0] + [file.get_batch(k).num_rows for k in range(file.num_record_batches)])


def gather(
    path: Path, rows: np.ndarray, columns: Sequence[str] | None = None, starts: np.ndarray | None = None
) -> pa.RecordBatch:
    """Some rows of an Arrow file, in the order asked for, copied to memory; the map is closed again.

    A map that stays open would hold every page it has touched in the process's resident memory. `starts` are those of
    `batch_starts`, for whoever asks often.
    """
    starts = batch_starts(path) if starts is None else starts
    with pa.memory_map(str(path)) as mapped:
        file = pa.ipc.open_file(mapped)
        numbers = np.searchsorted(starts, rows, side="right") - 1
        order = np.argsort(numbers, kind="stable")  # of each batch its rows, then all back in the order asked for
        parts = []
        for number in np.unique(numbers):
            batch = file.get_batch(int(number))
            if columns is not None:
                batch = batch.select(list(columns))
            parts.append(batch.take(pa.array(rows[numbers == number] - starts[number])))
        back = np.empty(len(rows), np.int64)
        back[order] = np.arange(len(rows))
        if not parts:
            schema = file.schema if columns is None else pa.schema([file.schema.field(name) for name in columns])
            return pa.record_batch([pa.array([], field.type) for field in schema], schema=schema)
        whole = parts[0] if len(parts) == 1 else pa.concat_batches(parts)
        return whole if (order == np.arange(len(rows))).all() else whole.take(pa.array(back))


# ---- reading ---------------------------------------------------------------------------------------------------------


def open_table(folder: Path, verify: bool = True) -> "RecipeTable":
    """Open a table. InputError with file and remedy where it is absent, damaged or no table.

    Manifest, columns and counts are always checked; with `verify` also the checksum of each block.
    """
    return RecipeTable(folder, verify)


class RecipeTable:
    """Recipes sorted by id; row numbers are positions in that order. Loader workers are sent the path only."""

    def __init__(self, folder: Path, verify: bool = True) -> None:
        self.folder = Path(folder)
        path = self.folder / "recipes.arrow"
        manifest = read_manifest(self.folder)
        try:
            if manifest["kind"] != "recipes" or manifest["format"] != FORMAT:
                raise KeyError(f"kind {manifest['kind']!r}, format {manifest['format']!r}")
            count, sums = int(manifest["recipes"]), list(manifest["sha256"]["recipes.arrow"])
            self.class_names: list[str] = list(manifest["class_names"])
            self.extra: dict[str, Any] = dict(manifest["extra"])
        except (KeyError, TypeError, ValueError) as error:
            raise _damaged(self.folder / "manifest.json", f"is no manifest of recipes ({error})") from None
        try:
            if verify and block_digests(path) != sums:
                raise _damaged(path, "does not have the checksum of its manifest")
            file = pa.ipc.open_file(pa.memory_map(str(path)))
            if file.schema != SCHEMA:
                raise _damaged(path, "does not have the columns of a table of recipes")
            self._parts = [file.get_batch(k) for k in range(file.num_record_batches)]
        except _FAULTS as error:
            raise _damaged(path, f"cannot be read ({' '.join(str(error).split())[:120]})") from None
        self._starts = np.cumsum([0] + [part.num_rows for part in self._parts])
        if self._starts[-1] != count:
            raise _damaged(path, f"holds {self._starts[-1]} recipes and not {count}")
        # What the rows are, whenever and by whichever process they were written.
        self.digest: str = digest_of({"format": FORMAT, "sha256": sums, "class_names": self.class_names})

    def __reduce__(self):  # a loader's worker maps the file again
        return RecipeTable, (self.folder, False)

    def __len__(self) -> int:
        return int(self._starts[-1])

    def __getitem__(self, row: int) -> Recipe:
        part, place = self._place(row)
        return _recipe(part.slice(place, 1).to_pylist()[0])

    def _place(self, row: int) -> tuple[pa.RecordBatch, int]:
        row = int(row)
        row = row + len(self) if row < 0 else row
        if not 0 <= row < len(self):
            raise IndexError(f"row {row} of {len(self)} recipes")
        number = int(np.searchsorted(self._starts, row, side="right")) - 1
        return self._parts[number], row - int(self._starts[number])

    @cached_property
    def ids(self) -> np.ndarray:
        """(N,) strings, ascending."""
        return self._column("id", "U1")

    @cached_property
    def partitions(self) -> np.ndarray:
        """(N,) strings: train, val or test."""
        return self._column("partition", "U5")

    @cached_property
    def class_ids(self) -> np.ndarray:
        """(N,) int64, 0 = background."""
        return self._column("class_id", "int64")

    def _column(self, name: str, dtype: str) -> np.ndarray:
        parts = [np.array(part.column(name).to_pylist()) for part in self._parts]
        array = np.concatenate([np.empty(0, dtype), *parts])
        array.flags.writeable = False
        return array

    def rows(self, partition: str) -> np.ndarray:
        """(n,) int64 rows of one partition, ascending. InputError for an unknown name."""
        if partition not in PARTITIONS:
            raise InputError(f"partition {partition!r}: is unknown; use one of {', '.join(PARTITIONS)}")
        return np.flatnonzero(self.partitions == partition).astype(np.int64)

    def find(self, ids: Sequence[str]) -> np.ndarray:
        """(M,) int64 rows of some ids; -1 where the table has none."""
        if not len(ids) or not len(self):
            return np.full(len(ids), -1, np.int64)
        wanted = np.asarray(ids, dtype=str)
        rows = np.minimum(np.searchsorted(self.ids, wanted), len(self) - 1)
        return np.where(self.ids[rows] == wanted, rows, -1).astype(np.int64)

    def image_names(self, row: int) -> list[str]:
        """File names of a recipe's pictures, in file order."""
        part, place = self._place(row)
        return part.column("images")[place].as_py()

    def iter(self, rows: np.ndarray | Sequence[int] | None = None) -> Iterator[Recipe]:
        """Recipes of some rows in the order given (all where none are), read a few hundred at a time."""
        wanted = np.arange(len(self)) if rows is None else np.asarray(rows, np.int64)
        if len(wanted) and not 0 <= wanted.min() <= wanted.max() < len(self):
            raise IndexError(f"rows {wanted.min()} to {wanted.max()} of {len(self)} recipes")
        for start in range(0, len(wanted), 512):
            yield from map(_recipe, self.take(wanted[start : start + 512]).to_pylist())

    def take(self, rows: np.ndarray, columns: Sequence[str] | None = None) -> pa.RecordBatch:
        """Some rows, and of them some columns, as an Arrow record batch in memory."""
        return gather(self.folder / "recipes.arrow", np.asarray(rows, np.int64), columns, self._starts)

    def lengths(self, column: str) -> np.ndarray:
        """(N,) int64 number of elements of a list column (`images`, `instructions`, ...) in each row."""
        parts = [part.column(column).value_lengths().to_numpy(zero_copy_only=False) for part in self._parts]
        return np.concatenate([np.empty(0, np.int64), *parts]).astype(np.int64)


def _recipe(row: dict[str, Any]) -> Recipe:
    return Recipe(
        recipe_id=row["id"],
        title=row["title"],
        ingredients=tuple(row["ingredients"]),
        instructions=tuple(row["instructions"]),
        images=tuple(row["images"]),
        partition=row["partition"],
        detected=tuple(row["detected"]),
        valid=tuple(row["valid"]),
        class_id=row["class_id"],
        attribution=row["attribution"],
    )


def _damaged(path: Path, what: str) -> InputError:
    return InputError(f"{path}: {what}; delete the folder {path.parent} and prepare it again")
