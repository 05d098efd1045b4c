"""Vectors that are computed once: content-keyed, checksummed, memory-mapped.

A store is a folder

    root / kind / <digest of the settings> / <digest of the set of keys> /
        vectors.npy    (N, size), rows in order of the digest of their key
        keys.npy       (N,) S32, the first 32 hexadecimal digits of sha256(key), sorted
        manifest.json  settings, shape, dtype, sha256 of each 64 MiB block, versions

so a changed setting, text or picture has another folder and a stale one is never read. Row order is that of digests:
it says nothing about names, which leak the answers of the visual tasks.
"""

import errno
import hashlib
import json
import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import numpy as np
from filelock import FileLock, Timeout
from tqdm import tqdm

from data.errors import InputError

log = logging.getLogger(__name__)

FORMAT = 1  # raised when the layout of a store or the meaning of its rows changes
BLOCK = 64 * 2**20
KEY_DIGITS = 32  # 128 bits: two of 10^6 keys share a digest with probability 10^-27
T = TypeVar("T")
Compute = Callable[[np.ndarray], np.ndarray]


def digest_of(value: Any) -> str:
    """Sha256 (hexadecimal) of plain settings: dicts, lists, strings, numbers, booleans, None."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def file_digest(path: Path) -> str:
    """Sha256 (hexadecimal) of a file's bytes."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def key_digests(keys: Sequence[str]) -> np.ndarray:
    """(N,) S32: what identifies each key in a store."""
    names = (hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:KEY_DIGITS] for key in keys)
    return np.fromiter(names, dtype=f"S{KEY_DIGITS}", count=len(keys))


@dataclass(frozen=True)
class VectorStore:
    """An open store: `array` (N, size) read-only memory map, `digests` (N,) sorted digests of the keys."""

    folder: Path
    array: np.ndarray = field(repr=False)
    digests: np.ndarray = field(repr=False)
    manifest: dict[str, Any] = field(repr=False)

    def __len__(self) -> int:
        return len(self.digests)

    def __reduce__(self):  # a loader's worker maps the file again; it is not sent the vectors
        return open_store, (self.folder, False)

    def blocks(self, size: int = 8192) -> Iterator[tuple[int, np.ndarray]]:
        """(first row, vectors) of the whole store, block by block.

        Read and not mapped: pages of a map that a pass has touched stay in the process's resident memory.
        """
        with open(self.folder / "vectors.npy", "rb") as file:
            file.seek(getattr(self.array, "offset", 0))
            for start in range(0, len(self), size):
                count = min(size, len(self) - start)
                values = np.fromfile(file, self.array.dtype, count * self.array.shape[1])
                yield start, values.reshape(count, -1)

    def find(self, digests: np.ndarray) -> np.ndarray:
        """(M,) int64 rows of some key digests; -1 where the store has none."""
        rows = np.searchsorted(self.digests, digests)
        rows = np.minimum(rows, max(len(self) - 1, 0))
        found = self.digests[rows] == digests if len(self) else np.zeros(len(digests), bool)
        return np.where(found, rows, -1).astype(np.int64)

    def rows(self, keys: Sequence[str]) -> np.ndarray:
        """(M,) int64 rows of some keys. InputError for a key the store does not hold."""
        rows = self.find(key_digests(keys))
        if len(rows) and rows.min() < 0:
            missing = np.flatnonzero(rows < 0)
            raise InputError(
                f"{self.folder}: has no vector for {len(missing)} of {len(keys)} keys (first: {keys[missing[0]]!r}); "
                "it is a feature file of another set: prepare the vectors of this one"
            )
        return rows


def build_store(
    root: Path,
    kind: str,
    settings: dict[str, Any],
    keys: Sequence[str],
    compute: Compute,
    size: int,
    dtype: str = "float32",
    description: str = "vectors",
    chunk: int = 4096,
    verify: bool = True,
) -> VectorStore:
    """Open the vectors of some keys, after computing those that no store of the same settings holds.

    `keys` are stable strings that stand for the content (a sha256 of a text, say); repeats are stored once.
    `compute(positions)` gets an int64 array of at most `chunk` positions in `keys` and returns (len(positions), size)
    finite numbers. `settings` must name all else the numbers depend on. With `verify` the checksums of a store that
    exists are compared; a damaged one is computed again. Two processes that build the same store at once both end
    with it and one computes. Errors of `compute` pass through and leave nothing behind.
    """
    digests, first = np.unique(key_digests(keys), return_index=True)  # sorted: the order of the rows
    settings = {**settings, "format": FORMAT, "size": size, "dtype": dtype}
    family = Path(root) / kind / digest_of(settings)[:16]
    target = family / hashlib.sha256(digests.tobytes()).hexdigest()[:16]

    def load(folder: Path) -> VectorStore:
        store = open_store(folder, verify)
        if store.manifest["settings"] != settings or not np.array_equal(store.digests, digests):
            raise InputError(f"{folder}: holds other vectors than its name says; delete the folder")
        return store

    def write(folder: Path) -> None:
        known = _siblings(family, target, settings)
        source = np.full(len(digests), -1, np.int16)
        row = np.zeros(len(digests), np.int64)
        for number, store in enumerate(known):
            rows = store.find(digests)
            new = (rows >= 0) & (source < 0)
            source[new], row[new] = number, rows[new]

        blocks = _Blocks(folder / "vectors.npy")
        with blocks, tqdm(total=len(digests), desc=description, unit=" vectors", smoothing=0.1) as bar:
            header = {"descr": np.lib.format.dtype_to_descr(np.dtype(dtype)), "fortran_order": False}
            np.lib.format.write_array_header_1_0(blocks, {**header, "shape": (len(digests), size)})  # type: ignore
            for start in range(0, len(digests), chunk):
                part = slice(start, start + chunk)
                vectors = np.empty((len(source[part]), size), dtype)
                for number in np.unique(source[part]):
                    here = source[part] == number
                    if number >= 0:
                        vectors[here] = known[number].array[row[part][here]]
                    else:
                        vectors[here] = _computed(compute, first[part][here].astype(np.int64), size, dtype, description)
                blocks.write(vectors.tobytes())
                bar.update(len(vectors))
        with _Blocks(folder / "keys.npy") as names:
            np.lib.format.write_array(names, digests, allow_pickle=False)  # type: ignore
        manifest = {
            "kind": kind,
            "description": description,
            "settings": settings,
            "shape": [len(digests), size],
            "dtype": dtype,
            "block": BLOCK,
            "sha256": {"vectors.npy": blocks.digests, "keys.npy": names.digests},
            "versions": {"numpy": np.__version__},
        }
        write_manifest(folder, manifest)

    return build_once(target, load, write)


def open_store(folder: Path, verify: bool = True) -> VectorStore:
    """Open a store. InputError with the file and the remedy where it is absent, damaged or not a store.

    Shape, dtype and manifest are always checked; with `verify` also the checksum of each block.
    """
    folder = Path(folder)
    manifest = read_manifest(folder)
    arrays = []
    try:
        shape, size = tuple(manifest["shape"]), tuple(manifest["shape"])[:1]
        wanted = {"vectors.npy": (shape, np.dtype(manifest["dtype"])), "keys.npy": (size, np.dtype(f"S{KEY_DIGITS}"))}
        sums = {name: list(manifest["sha256"][name]) for name in wanted}
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged(folder / "manifest.json", f"is not the manifest of a store ({error})") from None
    for name, (shape, dtype) in wanted.items():
        path = folder / name
        try:
            array = np.load(path, mmap_mode="r" if shape[0] else None, allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise _damaged(path, f"cannot be read ({error})") from None
        if array.shape != shape or array.dtype != dtype:
            raise _damaged(path, f"holds {array.dtype} {array.shape} and not {dtype} {shape}")
        if verify and block_digests(path) != sums[name]:
            raise _damaged(path, "does not have the checksum of its manifest")
        arrays.append(array)
    vectors, digests = arrays
    return VectorStore(folder, vectors, np.asarray(digests), manifest)


def _computed(compute: Compute, positions: np.ndarray, size: int, dtype: str, description: str) -> np.ndarray:
    vectors = np.asarray(compute(positions))
    if vectors.shape != (len(positions), size):
        raise ValueError(f"{description}: computed {vectors.shape} and not {(len(positions), size)}")
    with np.errstate(over="ignore"):  # told below
        vectors = vectors.astype(dtype, copy=False)
    if not np.isfinite(vectors).all():
        raise InputError(
            f"{description}: a vector is not finite in {dtype}; check the model's weights and the features"
        )
    return vectors


def _siblings(family: Path, target: Path, settings: dict[str, Any]) -> list[VectorStore]:
    """Sound stores of the same settings; a damaged one is passed over."""
    stores = []
    for folder in sorted(path for path in family.iterdir() if path.is_dir() and not path.name.startswith(".")):
        if folder != target:
            try:
                store = open_store(folder)
            except InputError as error:
                log.warning("%s", error)
                continue
            if store.manifest["settings"] == settings:
                stores.append(store)
    return stores[:30_000]


# ---- folders that are written once, whoever comes first --------------------------------------------------------------


def build_once(target: Path, load: Callable[[Path], T], write: Callable[[Path], None]) -> T:
    """Load a folder, or write it and load it; of several processes only one writes.

    `load(folder)` raises InputError where the folder is damaged or absent; then `write(folder)` fills an empty folder
    beside the target that takes its name when it is complete and on disk. The lock is the operating system's and dies
    with its holder; a temporary folder whose lock is free has no living builder and is swept.
    """
    if target.is_dir():
        try:
            return load(target)
        except InputError as error:
            log.warning("%s; computing it again", error)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with _lock(target):
            if target.is_dir():  # another process may have built it while this one waited
                try:
                    return load(target)
                except InputError:
                    pass
            _sweep(target)
            temporary = Path(tempfile.mkdtemp(prefix=_prefix(target), dir=target.parent))
            try:
                write(temporary)
                os.chmod(temporary, 0o755)
                _publish(temporary, target)
            finally:
                shutil.rmtree(temporary, ignore_errors=True)
            return load(target)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            remedy = "the disk is full: free space or set another folder"
        elif error.errno in (errno.EACCES, errno.EROFS, errno.EPERM):
            remedy = "the folder cannot be written: set another folder"
        else:
            raise
        raise InputError(f"{target}: cannot be stored ({error.strerror}); {remedy}") from None


def write_manifest(folder: Path, manifest: dict[str, Any]) -> None:
    """Write manifest.json with a checksum of itself."""
    with _Blocks(folder / "manifest.json") as file:
        file.write((json.dumps({**manifest, "checksum": digest_of(manifest)}, indent=1) + "\n").encode())


def read_manifest(folder: Path) -> dict[str, Any]:
    """Read manifest.json and check it against its own checksum; InputError where it is absent or damaged."""
    path = folder / "manifest.json"
    if not path.is_file():
        raise InputError(f"{path}: is absent, so {folder} is no complete store; prepare it again")
    try:
        manifest = json.loads(path.read_bytes())
        sound = manifest.pop("checksum") == digest_of(manifest)
    except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
        raise _damaged(path, f"cannot be read ({error})") from None
    if not sound:
        raise _damaged(path, "does not have the checksum it states")
    return manifest


def block_digests(path: Path) -> list[str]:
    """Sha256 of each 64 MiB block of a file."""
    with open(path, "rb") as file:
        return [hashlib.sha256(block).hexdigest() for block in iter(lambda: file.read(BLOCK), b"")]


class _Blocks:
    """A file that is written from start to end, hashed by block on the way and forced to disk at the end.

    Plain writes: a full disk is an error here, while a memory map would end the process by a signal.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.digests = path, []
        self._hash, self._filled = hashlib.sha256(), 0

    def __enter__(self) -> "_Blocks":
        self._file: BinaryIO = open(self.path, "wb")
        return self

    def write(self, data: bytes) -> int:
        self._file.write(data)
        view = memoryview(data)
        while len(view):
            piece = view[: BLOCK - self._filled]
            self._hash.update(piece)
            self._filled += len(piece)
            view = view[len(piece) :]
            if self._filled == BLOCK:
                self._close_block()
        return len(data)

    def _close_block(self) -> None:
        self.digests.append(self._hash.hexdigest())
        self._hash, self._filled = hashlib.sha256(), 0

    def __exit__(self, *error: object) -> None:
        if self._filled:
            self._close_block()
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
        finally:
            self._file.close()


def _damaged(path: Path, what: str) -> InputError:
    return InputError(f"{path}: {what}; delete the folder {path.parent} and prepare it again")


def _prefix(target: Path) -> str:
    return f".{target.name}.building-"


@contextmanager
def _lock(target: Path) -> Iterator[None]:
    lock = FileLock(target.parent / f".{target.name}.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        log.warning("%s: another process is computing it; waiting for that one", target)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _sweep(target: Path) -> None:
    """Remove what killed builders left in the target's parent folder; the caller holds the target's lock."""
    for path in sorted(target.parent.glob(".*.building-*")):
        name = path.name[1:].split(".building-")[0]
        if name == target.name:
            shutil.rmtree(path, ignore_errors=True)
            continue
        lock = FileLock(target.parent / f".{name}.lock")
        try:
            lock.acquire(timeout=0)
        except Timeout:
            continue  # its builder lives
        try:
            shutil.rmtree(path, ignore_errors=True)
        finally:
            lock.release()


def _publish(temporary: Path, target: Path) -> None:
    """Give a complete folder its name; a damaged folder of that name goes."""
    for path in [*sorted(temporary.rglob("*")), temporary]:
        _sync(path)
    if target.exists():
        os.rename(target, Path(tempfile.mkdtemp(prefix=_prefix(target), dir=target.parent)) / "damaged")
    os.rename(temporary, target)
    _sync(target.parent)
    _sweep(target)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
