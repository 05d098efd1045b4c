"""The LMDBs that were released with Recipe1M: `{train,val,test}_lmdb` and `{split}_keys.pkl`.

A key is a recipe id as latin-1 bytes, its value a pickle {'ingrs': (20,) uint16, 'intrs': (n, 1024) float32, 'classes':
int from 1, 'imgs': [{'id', 'url'}, ...]} (Salvador et al. 2017; names as in the files). Ingredient numbers are rows of
the word table: 0 the padding, 1 the end mark `</i>`, line + 2 of vocab.txt for a word.
"""

import io
import os
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lmdb
import numpy as np

from data.checksums import verify_file
from data.errors import InputError
from data.pickles import PickleFault, load_plain
from data.recipes import id_fault

MAX_VALUE = 64 << 20  # bytes of one record; the released ones have about 25 kB
MAX_KEYS = 1 << 30  # bytes of the list of keys
SENTENCE_SIZE = 1024
MAX_HASHED = 1 << 30  # bytes of a database that is compared with SHA256SUMS when opened; larger ones by task=check


@dataclass(frozen=True)
class LmdbRecord:
    """One recipe: `ingredients` (m,) int64 rows of the word table without padding, `sentences` (n, 1024) float32."""

    recipe_id: str
    ingredients: np.ndarray
    sentences: np.ndarray
    class_id: int  # 0 = background: the stored number less 1
    images: tuple[str, ...]


class LmdbRecipes:
    """Records of one split. Opened read-only and without a lock file; loader workers open it again."""

    def __init__(self, path: str | Path, keys: str | Path | None = None) -> None:
        """Open `path` (a folder with data.mdb, or one file); `keys` is the pickle of ids in file order.

        Without `keys` the ids are those of the database, sorted. InputError where a file is absent or damaged, or a
        key is not in the database (the two are of different releases).
        """
        self.path, self.keys = Path(path), None if keys is None else Path(keys)
        if not self.path.exists():
            raise InputError(f"{self.path}: no such database; unpack the released archive of the split")
        self._base, self._process = _open(self.path), os.getpid()
        self.ids: list[str] = self._database_ids() if self.keys is None else _read_keys(self.keys)
        if self.keys is not None:
            self._compare()

    def __reduce__(self):
        return LmdbRecipes, (self.path, self.keys)

    def __len__(self) -> int:
        return len(self.ids)

    def _begin(self) -> Any:
        if self._process != os.getpid():  # a map must not cross a fork
            self._base, self._process = _open(self.path), os.getpid()
        return self._base.begin()

    def _database_ids(self) -> list[str]:
        try:
            with self._begin() as transaction:
                return [key.decode("latin1") for key in transaction.cursor().iternext(keys=True, values=False)]
        except lmdb.Error as error:
            raise InputError(f"{self.path}: is damaged ({error}); unpack the released archive again") from None

    def _compare(self) -> None:
        missing = sorted(set(self.ids) - set(self._database_ids()))
        if missing:
            raise InputError(
                f"{self.keys}: {len(missing):,} of {len(self.ids):,} keys are not in {self.path} (first: "
                f"{missing[0]}); the two are of different releases, fetch both again"
            )

    def record(self, recipe_id: str) -> LmdbRecord:
        """One recipe by its id. InputError where it is absent or not as released."""
        try:
            with self._begin() as transaction:
                value = transaction.get(recipe_id.encode("latin1"))
        except UnicodeEncodeError:
            value = None
        except lmdb.Error as error:
            raise InputError(f"{self.path}: is damaged at {recipe_id} ({error}); unpack it again") from None
        if value is None:
            raise InputError(
                f"{self.path}: has no recipe {recipe_id!a}; it is the database of another split or release"
            )
        try:
            return _record(recipe_id, bytes(value))
        except PickleFault as error:
            raise InputError(f"{self.path}: recipe {recipe_id}: {error}; unpack the released archive again") from None

    def __iter__(self) -> Iterator[LmdbRecord]:
        return map(self.record, self.ids)


# A process may open a database once; it closes with its last reader. After a fork the inherited one is closed first.
_environments: "weakref.WeakValueDictionary[str, Any]" = weakref.WeakValueDictionary()
_opened_by: dict[str, int] = {}


def _open(path: Path) -> Any:
    key = os.path.realpath(path)
    base = _environments.get(key)
    if base is not None and _opened_by[key] != os.getpid():
        base.close()
        base = None
    if base is None:
        try:
            base = lmdb.open(str(path), subdir=path.is_dir(), readonly=True, lock=False, readahead=False)
        except lmdb.Error as error:
            raise InputError(f"{path}: is no LMDB ({error}); unpack the released archive again") from None
        file = path / "data.mdb" if path.is_dir() else path
        if file.stat().st_size < (base.info()["last_pgno"] + 1) * base.stat()["psize"]:
            base.close()  # reading a page that is not there would end the process by a signal
            raise InputError(f"{file}: is truncated; unpack the released archive again")
        if file.stat().st_size <= MAX_HASHED:
            verify_file(file)
        _environments[key], _opened_by[key] = base, os.getpid()
    return base


def _record(recipe_id: str, value: bytes) -> LmdbRecord:
    if len(value) > MAX_VALUE:
        raise PickleFault(f"has {len(value):,} bytes, more than {MAX_VALUE:,}")
    raw = load_plain(io.BytesIO(value), arrays=True)
    if not isinstance(raw, dict):
        raise PickleFault("is no table of fields")
    missing = [name for name in ("ingrs", "intrs", "classes", "imgs") if name not in raw]
    if missing:
        raise PickleFault(f"has no {', '.join(missing)}")
    rows, sentences, number, pictures = raw["ingrs"], raw["intrs"], raw["classes"], raw["imgs"]
    if not isinstance(rows, np.ndarray) or rows.ndim != 1 or rows.dtype.kind not in "iu":
        raise PickleFault("has ingredients that are no list of numbers")
    if not isinstance(sentences, np.ndarray) or sentences.ndim != 2 or sentences.dtype.kind != "f":
        raise PickleFault("has instructions that are no matrix of numbers")
    if sentences.shape[1] != SENTENCE_SIZE:
        raise PickleFault(f"has instruction vectors of {sentences.shape[1]} numbers and not {SENTENCE_SIZE}")
    if not np.isfinite(sentences).all():
        raise PickleFault("has an instruction vector that is not finite")
    if type(number) is not int or number < 1:
        raise PickleFault(f"has class {str(number)[:20]}; stored classes start at 1")
    if not isinstance(pictures, list) or not all(
        isinstance(p, dict) and isinstance(p.get("id"), str) for p in pictures
    ):
        raise PickleFault("has pictures that are no list of names")
    rows = rows.astype(np.int64)
    if (rows < 0).any():
        raise PickleFault("has an ingredient of a negative number")
    return LmdbRecord(
        recipe_id=recipe_id,
        ingredients=rows[rows > 0],  # the padding goes
        sentences=sentences.astype(np.float32),
        class_id=number - 1,
        images=tuple(p["id"] for p in pictures),
    )


def _read_keys(path: Path) -> list[str]:
    try:
        if path.stat().st_size > MAX_KEYS:
            raise InputError(f"{path}: has more than {MAX_KEYS >> 20} MiB; check that it is the right file")
        verify_file(path)
        with open(path, "rb") as file:
            keys: Any = load_plain(file, arrays=True)
    except PickleFault as error:
        raise InputError(f"{path}: is no plain pickle of keys ({error}); fetch it again") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); check the path") from None
    if not isinstance(keys, list) or not keys:
        raise InputError(f"{path}: holds no list of keys; fetch it again")
    ids = []
    for number, key in enumerate(keys, 1):
        key = key.decode("latin1") if isinstance(key, bytes) else key
        if not isinstance(key, str) or id_fault(key):
            raise InputError(f"{path}: key {number} is no recipe id; fetch it again")
        ids.append(key)
    if len(set(ids)) != len(ids):
        raise InputError(f"{path}: holds a key twice; fetch it again")
    return ids


def find_lmdbs(root: str | Path) -> dict[str, LmdbRecipes]:
    """The databases of a folder by split, with their keys where those are there; empty where there is none."""
    found: dict[str, LmdbRecipes] = {}
    for split in ("train", "val", "test"):
        path, keys = Path(root) / f"{split}_lmdb", Path(root) / f"{split}_keys.pkl"
        if path.exists():
            found[split] = LmdbRecipes(path, keys if keys.is_file() else None)
    return found
