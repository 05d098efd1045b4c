"""Files that are whole or not there: written beside the target, flushed, renamed; packed ones that stay bounded."""

import errno
import fcntl
import gzip
import io
import os
import re
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from data.errors import InputError

FREE, RATIO = 64 << 20, 100  # unpacked bytes that are always read; above, so many times the packed ones

_STARTED = time.time()
# What only writing can meet; Python tells no file name with them.
_UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
_STALE = re.compile(r"^\.(?P<name>.+)\.(?P<pid>\d+)\.[^.]+\.partial$")


@contextmanager
def atomic_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path beside `path`; it takes the place of `path` only when the block ends well.

    The temporary file lies in the same folder, so that the last step is one rename on one file system, and both file
    and folder are flushed before and after it. Whatever happens, the previous file of that name stays whole.

    Raises:
        InputError: the disk is full or broken, or a quota is used up.
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
    except OSError as error:
        if error.errno not in _UNWRITABLE or error.filename not in (None, str(partial)):
            raise
        raise InputError(
            f"{path}: cannot be written ({error.strerror}); the file of before is untouched. Free space, or write to "
            "another disk"
        ) from error
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def sole_writer(folder: Path) -> Iterator[None]:
    """Keep other processes out of a folder for the length of the block.

    The lock is the operating system's: it dies with this process and, unlike `flock`, is not handed on to the children
    of a fork, such as the workers of a loader, which live on for a while when this process is killed.

    Raises:
        InputError: another process is in.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / ".lock", "a") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            raise InputError(
                f"{folder}: another process is writing into it; wait for its end or stop it, or begin another run"
            ) from None
        except OSError:  # a file system without locks
            pass
        yield


def sweep_partial_files(folder: Path) -> None:
    """Remove what killed processes left half written; files of living processes stay.

    In a container every process may have the same number: a file of this number that is older than this process is
    of a dead one.
    """
    for entry in folder.glob(".*.partial"):
        match = _STALE.match(entry.name)
        if match is None:
            continue
        try:
            older = int(match["pid"]) == os.getpid() and entry.stat().st_mtime < _STARTED
        except FileNotFoundError:  # its writer has just finished
            continue
        if older or not _alive(int(match["pid"])):
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
    thousandfold is made to fill memory or disk; or where 64 KiB of zeros follow, which `gzip` would pass over byte by
    byte for minutes. Errors of a damaged file are those of `gzip`.
    """
    size = raw.seek(0, os.SEEK_END)
    raw.seek(max(0, size - (1 << 16)))
    if size > 1 << 16 and not any(raw.read(1 << 16)):
        raise InputError(f"{path}: ends in zeros, so it is a damaged gzip file; fetch it again")
    raw.seek(0)
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
