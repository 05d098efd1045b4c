"""Embeddings of one split in one file: ids and two matrices. What `evaluate.py` writes, and what others can bring."""

import json
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np

from data.errors import InputError
from data.files import atomic_file

FLOATS = ("float16", "float32", "float64")
_INFLATION = 50  # times; embeddings hardly compress, so a small file that becomes a large one is no such file
_HARMLESS = 2 << 30  # bytes that may be inflated whatever the ratio
_MOST_HEADER = 100_000  # bytes of text that describe an array

REMEDY = (
    "make it with: import numpy as np; np.savez('embeddings.npz', ids=np.array(ids, dtype=str), "
    "image=image.astype('float32'), recipe=recipe.astype('float32'))"
)
CONTENT = "`ids` (N,) text, `image` (N, D) and `recipe` (N, D) float16, float32 or float64, row i of both for ids[i]"


@dataclass(frozen=True, slots=True)
class Embeddings:
    """Row i of `image` and of `recipe` (N, D) belongs to the pair `ids[i]`; `meta` says where they come from."""

    ids: np.ndarray
    image: np.ndarray
    recipe: np.ndarray
    meta: dict[str, Any] = field(default_factory=dict)


def write_embeddings(
    path: Path, ids: Sequence[str] | np.ndarray, image: np.ndarray, recipe: np.ndarray, meta: dict[str, Any]
) -> None:
    """Write the embeddings of N pairs as an `.npz` that is whole or not there.

    Args:
        path: the file.
        ids: N different recipe ids.
        image: (N, D), stored as given (float16, float32 or float64).
        recipe: (N, D).
        meta: plain values (checkpoint, data, split, ...), stored as JSON.

    Raises:
        InputError: arrays that `read_embeddings` would refuse.
    """
    names = np.asarray([str(i) for i in ids], dtype=str)
    _check(Path(path), names, image, recipe)
    with atomic_file(path) as partial, open(partial, "wb") as file:
        np.savez(file, ids=names, image=image, recipe=recipe, meta=np.asarray(json.dumps(meta, sort_keys=True)))


def read_embeddings(path: Path) -> Embeddings:
    """Read an `.npz` with `ids`, `image`, `recipe`, or a folder with `ids.txt`, `image.npy`, `recipe.npy`.

    The folder's arrays are memory-mapped, the file's are read whole. Nothing is unpickled; an array is read only if
    its header agrees with its size in the archive. Values and lengths of the vectors are looked at where they are
    scored.

    Raises:
        InputError: anything else; the message says what the file must hold and how to make it.
    """
    path = Path(path)
    if not path.exists():
        raise InputError(f"{path}: no such file or folder; it must hold {CONTENT}; {REMEDY}")
    if path.is_dir():
        return _read_folder(path)
    try:
        with zipfile.ZipFile(path) as archive:
            return _read_archive(path, archive)
    except zipfile.BadZipFile as error:
        raise InputError(f"{path}: not a whole .npz file ({error}); it must hold {CONTENT}; {REMEDY}") from None
    except (
        ValueError,
        EOFError,
        OSError,
        NotImplementedError,
        RuntimeError,
        zlib.error,
    ) as error:  # damaged, encrypted
        reason = str(error).split("allow_pickle")[0].split("  ")[0].strip()[:160]  # numpy advises what is not safe
        raise InputError(f"{path}: cannot be read ({reason}); it must hold {CONTENT}; {REMEDY}") from None


def _read_archive(path: Path, archive: zipfile.ZipFile) -> Embeddings:
    members = {i.filename.removesuffix(".npy"): i for i in archive.infolist() if i.filename.endswith(".npy")}
    missing = [name for name in ("ids", "image", "recipe") if name not in members]
    if missing:
        has = ", ".join(sorted(members)[:8]) or "no arrays"
        raise InputError(f"{path}: has {has}, but no {' and no '.join(missing)}; it must hold {CONTENT}; {REMEDY}")
    arrays = {}
    for name in ("ids", "image", "recipe", "meta"):
        if name not in members:
            continue
        member = members[name]
        if member.file_size > _HARMLESS and member.file_size > _INFLATION * member.compress_size:
            raise InputError(
                f"{path}: `{name}` would grow from {member.compress_size:,} to {member.file_size:,} bytes; "
                "embeddings do not compress like that; store them with np.savez"
            )
        with archive.open(member) as file:
            shape, dtype, start = _header(path, name, file)
        if start + int(np.prod(shape, dtype=object)) * dtype.itemsize != member.file_size:
            raise InputError(
                f"{path}: `{name}` says {dtype} {shape}, which does not fit its {member.file_size:,} bytes; the file "
                "is damaged, write it again"
            )
        with archive.open(member) as file:
            arrays[name] = np.lib.format.read_array(file, allow_pickle=False)
    return _embeddings(path, arrays["ids"], arrays["image"], arrays["recipe"], _meta(arrays.get("meta")))


def _header(path: Path, name: str, file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype, int]:
    """Shape, element type and length of the header, without reading the array."""
    version = np.lib.format.read_magic(file)
    read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}.get(version)
    if read is None:
        raise InputError(f"{path}: `{name}` is in format {version} of numpy arrays; save it with plain text or floats")
    shape, _, dtype = read(file, max_header_size=_MOST_HEADER)
    if dtype.hasobject:
        raise InputError(
            f"{path}: `{name}` holds Python objects, which are not read for safety; it must hold {CONTENT}; {REMEDY}"
        )
    return shape, dtype, file.tell()


def _read_folder(path: Path) -> Embeddings:
    missing = [name for name in ("ids.txt", "image.npy", "recipe.npy") if not (path / name).is_file()]
    if missing:
        raise InputError(
            f"{path}: no {' and no '.join(missing)}; a folder of embeddings holds ids.txt (one id a line), image.npy "
            "and recipe.npy (np.save), rows in the order of the ids"
        )
    try:
        ids = (path / "ids.txt").read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise InputError(f"{path / 'ids.txt'}: not UTF-8 ({error}); one id a line") from None
    arrays = []
    for name in ("image.npy", "recipe.npy"):
        try:
            with open(path / name, "rb") as file:
                _header(path / name, name, file)
            arrays.append(np.load(path / name, mmap_mode="r", allow_pickle=False))
        except (ValueError, EOFError, OSError) as error:
            raise InputError(f"{path / name}: no array of floats ({error}); write it with np.save") from None
    return _embeddings(path, np.asarray(ids, dtype=str), arrays[0], arrays[1], {})


def _meta(array: np.ndarray | None) -> dict[str, Any]:
    """The JSON object of `meta`; anything else that is called so is somebody else's and left out."""
    if array is None or array.ndim or array.dtype.kind != "U":
        return {}
    try:
        found = json.loads(str(array))
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _embeddings(path: Path, ids: np.ndarray, image: np.ndarray, recipe: np.ndarray, meta: dict[str, Any]) -> Embeddings:
    if ids.dtype.kind == "S":
        try:
            ids = np.char.decode(ids, "utf-8")
        except UnicodeDecodeError:
            raise InputError(f"{path}: `ids` are bytes that are not UTF-8; {REMEDY}") from None
    elif ids.dtype.kind in "iu":
        ids = ids.astype(str)
    _check(path, ids, image, recipe)
    return Embeddings(ids, image, recipe, meta)


def _check(path: Path, ids: np.ndarray, image: np.ndarray, recipe: np.ndarray) -> None:
    if ids.dtype.kind != "U" or ids.ndim != 1:
        raise InputError(f"{path}: `ids` is {ids.dtype} {ids.shape}; it must hold {CONTENT}; {REMEDY}")
    for name, matrix in (("image", image), ("recipe", recipe)):
        if matrix.ndim != 2 or matrix.dtype.name not in FLOATS:
            raise InputError(f"{path}: `{name}` is {matrix.dtype} {matrix.shape}; it must hold {CONTENT}; {REMEDY}")
        if len(matrix) != len(ids):
            raise InputError(
                f"{path}: {len(matrix):,} rows in `{name}` for {len(ids):,} ids; row i of both matrices must belong to "
                "ids[i]"
            )
    if image.shape != recipe.shape:
        raise InputError(
            f"{path}: images have {image.shape[1]} dimensions and recipes {recipe.shape[1]}: no common space"
        )
    if 0 in image.shape:
        raise InputError(f"{path}: holds no pairs; {CONTENT}")
    values, first, counts = np.unique(ids, return_index=True, return_counts=True)
    if len(values) < len(ids):
        at = np.flatnonzero(counts > 1)[np.argmin(first[counts > 1])]
        raise InputError(
            f"{path}: id '{values[at]}' is there {counts[at]} times ({len(ids) - len(values):,} repeats in all); give "
            "each pair once"
        )
