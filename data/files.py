"""Files that are whole or not there: written beside the target, flushed, renamed; packed ones that stay bounded."""

import gzip
import io
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from data.errors import InputError

FREE, RATIO = 64 << 20, 100  # unpacked bytes that are always read; above, so many times the packed ones

_STALE = re.compile(r"^\.(?P<name>.+)\.(?P<pid>\d+)\.[^.]+\.partial$")


@contextmanager
def atomic_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path beside `path`; it takes the place of `path` only when the block ends well.

    The temporary file lies in the same folder, so that the last step is one rename on one file system, and both file
    and folder are flushed before and after it. Whatever happens, the previous file of that name stays whole.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.{os.getpid()}.", suffix=".partial", dir=path.parent)
    os.close(handle)
    partial = Path(name)
    try:
        yield partial
        os.chmod(partial, 0o644)
        with open(partial, "rb") as file:
            os.fsync(file.fileno())
        os.replace(partial, path)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    finally:
        partial.unlink(missing_ok=True)


def sweep_partial_files(folder: Path) -> None:
    """Remove what killed processes left half written; files of living processes stay."""
    for entry in folder.glob(".*.partial"):
        match = _STALE.match(entry.name)
        if match and not _alive(int(match["pid"])):
            entry.unlink(missing_ok=True)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def unpacked(raw: IO[bytes], path: Path) -> io.BufferedReader:
    """The content of an open gzip file, to be read piece by piece.

    InputError where more comes than 64 MiB and 100 times what was read of the file: JSON shrinks to a tenth, and a
    thousandfold is made to fill memory or disk. Errors of a damaged file are those of `gzip`.
    """
    return io.BufferedReader(_Unpacked(raw, path), 1 << 16)


class _Unpacked(io.RawIOBase):
    def __init__(self, raw: IO[bytes], path: Path) -> None:
        self._raw, self._path, self._count = raw, path, 0
        self._file = gzip.GzipFile(fileobj=raw)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "bytearray | memoryview") -> int:  # type: ignore[override]
        count = self._file.readinto(buffer)
        self._count += count
        if self._count > FREE and self._count > RATIO * self._raw.tell():
            raise InputError(
                f"{self._path}: unpacks to more than {RATIO} times its size, as no file of texts does; fetch it again"
            )
        return count
