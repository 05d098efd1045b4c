"""Pickles of plain data from strangers, read without importing or calling anything they name.

Released features, class tables and LMDB records of the field are pickles. Here their operations are looked over first
(pickletools), and the few names an array needs are played by stand-ins that check shape, type and size.
"""

import os
import pickle
import pickletools
import re
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np

_PLAIN_OPERATIONS = (
    "PROTO FRAME STOP MARK POP POP_MARK MEMOIZE PUT BINPUT LONG_BINPUT GET BINGET LONG_BINGET "
    "NONE NEWTRUE NEWFALSE INT BININT BININT1 BININT2 LONG LONG1 FLOAT BINFLOAT "
    "STRING BINSTRING SHORT_BINSTRING UNICODE SHORT_BINUNICODE BINUNICODE BINBYTES SHORT_BINBYTES "
    "EMPTY_LIST LIST APPEND APPENDS EMPTY_DICT DICT SETITEM SETITEMS EMPTY_TUPLE TUPLE TUPLE1 TUPLE2 TUPLE3"
)
_PLAIN = frozenset(_PLAIN_OPERATIONS.split())
_ARRAYS = _PLAIN | {"GLOBAL", "STACK_GLOBAL", "REDUCE", "BUILD", "BYTEARRAY8", "BINBYTES8"}
_DTYPES = {code: np.dtype(f"<{code}") for code in ("u2", "u4", "u8", "i1", "u1", "i2", "i4", "i8", "f2", "f4", "f8")}


class PickleFault(ValueError):
    """Why a pickle is not read; the caller knows file and record."""


def load_plain(file: BinaryIO, arrays: bool = False) -> Any:
    """The next pickle of a seekable file: dicts, lists, tuples, strings, numbers; with `arrays` also numpy ones.

    Python 2's strings become str (latin-1). PickleFault where it is damaged or asks for anything else.
    """
    start = file.tell()
    try:
        _look_over(file, _ARRAYS if arrays else _PLAIN)
        file.seek(start)
        value = _Unpickler(file, encoding="latin1").load()
        return _without_stand_ins(value) if arrays else value
    except PickleFault:
        raise
    except (ValueError, EOFError, pickle.UnpicklingError, IndexError, KeyError, TypeError, AttributeError, MemoryError,
            OverflowError, RecursionError, NotImplementedError) as error:  # fmt: skip
        raise PickleFault(" ".join(f"{error}".split())[:120] or type(error).__name__) from None


_OPERATIONS = {operation.code.encode("latin1"): operation for operation in pickletools.opcodes}
_FLOATS = re.compile(rb"(?:G.{8})*", re.DOTALL)  # operations BINFLOAT in a row: half a billion in a file of features
_ROW = 9 * 4096


def _look_over(file: BinaryIO, allowed: frozenset[str]) -> None:
    memoised = 0
    while True:
        operation = _OPERATIONS.get(code := file.read(1))
        if operation is None:
            raise PickleFault("it is truncated" if not code else f"it holds the unknown operation {code!r}")
        name = operation.name
        if name not in allowed:
            raise PickleFault(f"it holds the operation {name}, which plain data does not need")
        argument = None if operation.arg is None else operation.arg.reader(file)  # type: ignore[attr-defined]
        if name == "STOP":
            return
        if name == "BINFLOAT":
            row = file.read(_ROW)
            whole = _FLOATS.match(row)
            file.seek((whole.end() if whole else 0) - len(row), os.SEEK_CUR)
        if name in ("PUT", "BINPUT", "LONG_BINPUT"):
            memoised += 1
            if isinstance(argument, int) and argument > memoised:  # would make the reader allocate a table of that size
                raise PickleFault(f"it stores under number {argument} after {memoised} values")


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        stand_in = _STAND_INS.get((module, name))
        if stand_in is None:
            raise PickleFault(f"it asks for {module}.{name}, which plain data does not need")
        return stand_in


class _Dtype:
    """Stands in for numpy.dtype: one of the number types, little endian."""

    def __init__(self, code: Any, *_: Any) -> None:
        if not isinstance(code, str) or code not in _DTYPES:
            raise PickleFault(f"it holds an array of type {str(code)[:20]!r}")
        self.dtype = _DTYPES[code]

    def __setstate__(self, state: Any) -> None:
        if not isinstance(state, tuple) or len(state) < 2 or state[1] not in ("<", "|", "="):
            raise PickleFault("it holds an array whose bytes are not in little-endian order")


class _Array:
    """Stands in for numpy.ndarray until `_without_stand_ins` puts the array in its place."""

    def __init__(self, *_: Any) -> None:
        self.value = np.empty(0)

    def __setstate__(self, state: Any) -> None:
        if not isinstance(state, tuple) or len(state) != 5:
            raise PickleFault("it holds an array in an unknown form")
        _, shape, dtype, fortran, content = state
        self.value = _array(content, dtype, shape, bool(fortran))


def _array(content: Any, dtype: Any, shape: Any, fortran: bool) -> np.ndarray:
    content = content.encode("latin1") if isinstance(content, str) else content
    if not isinstance(dtype, _Dtype) or not isinstance(content, bytes | bytearray):
        raise PickleFault("it holds an array of something other than numbers")
    if not isinstance(shape, tuple) or not all(isinstance(n, int) and n >= 0 for n in shape) or len(shape) > 4:
        raise PickleFault("it holds an array of no usable shape")
    size = dtype.dtype.itemsize
    for n in shape:
        size *= n
    if size != len(content):
        raise PickleFault(f"it holds an array of shape {shape} with {len(content)} bytes and not {size}")
    return np.frombuffer(bytes(content), dtype.dtype).reshape(shape, order="F" if fortran else "C")


def _reconstruct(*_: Any) -> _Array:
    return _Array()


def _scalar(dtype: Any, content: Any = b"") -> Any:
    return _array(content, dtype, (), False).item()


def _frombuffer(content: Any, dtype: Any, shape: Any, order: Any) -> _Array:
    array = _Array()
    array.value = _array(content, dtype, shape, order == "F")
    return array


def _encode(text: Any, encoding: Any = "latin1") -> bytes:
    if not isinstance(text, str) or encoding != "latin1":
        raise PickleFault("it holds bytes in an unknown encoding")
    return text.encode("latin1")


def _no_bytes(*content: Any) -> bytes:
    if content:
        raise PickleFault("it makes bytes of something")
    return b""


_STAND_INS: dict[tuple[str, str], Any] = {
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Dtype,
    ("_codecs", "encode"): _encode,
    ("__builtin__", "bytes"): _no_bytes,  # empty bytes in the protocols of Python 2
    ("collections", "OrderedDict"): dict,
}
for _core in ("core", "_core"):
    _STAND_INS[f"numpy.{_core}.multiarray", "_reconstruct"] = _reconstruct
    _STAND_INS[f"numpy.{_core}.multiarray", "scalar"] = _scalar
    _STAND_INS[f"numpy.{_core}.numeric", "_frombuffer"] = _frombuffer


def _without_stand_ins(value: Any) -> Any:
    """The same containers with arrays in place of their stand-ins; each container once, however often it occurs."""
    if isinstance(value, _Array):
        return value.value
    if isinstance(value, _Dtype) or callable(value):
        raise PickleFault("it holds a name and no data")
    for container in _containers(value):
        for key, entry in list(container.items() if isinstance(container, dict) else enumerate(container)):
            if isinstance(entry, _Array):
                container[key] = entry.value
    return value


_LEAVES = frozenset((float, int, str, bool, bytes, type(None)))


def _containers(value: Any) -> Iterator[Any]:
    seen: set[int] = set()
    left = [value]
    while left:
        item = left.pop()
        if isinstance(item, dict | list | tuple) and id(item) not in seen:
            seen.add(id(item))
            entries = item.values() if isinstance(item, dict) else item
            if _LEAVES.issuperset(map(type, entries)):  # rows of numbers, half a billion of them
                continue
            left.extend(entries)
            if not isinstance(item, tuple):
                yield item
        elif isinstance(item, _Dtype) or callable(item):
            raise PickleFault("it holds a name and no data")
