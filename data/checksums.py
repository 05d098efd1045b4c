"""SHA256SUMS: what the files of a folder were when they were good, in the form of the command `sha256sum`.

No decoder is a check: of a JPEG with 4 KiB of zeros inside, Pillow and torchvision make a picture without a word
(benchmarks/README.md). Where the folder of a file, or one above it, holds SHA256SUMS, every picture and every file of
questions that it lists is compared when it is read; `prepare.py task=check` compares all that it lists.
"""

import hashlib
import os
import re
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path

from tqdm import tqdm

from data.errors import InputError
from data.files import atomic_file

NAME = "SHA256SUMS"
MAX_BYTES = 1 << 30  # of the list: 130 bytes a file
LEVELS = 8  # folders upwards in which the list is looked for; Recipe1M keeps pictures six below its root
_LINE = re.compile(r"([0-9a-f]{64}) [ *](.+)")
_HEAD = re.compile(r"# \d+ files, sha256 of the lines below: ([0-9a-f]{64})")


def write_sums(folder: str | os.PathLike[str], names: Iterable[str] | None = None) -> int:
    """Write the list of a folder; returns how many files it has.

    With `names`, relative to the folder, these are added to those listed before, which stay as they are; without, all
    files below the folder are listed anew but hidden ones. InputError for a name no line can hold.
    """
    folder = Path(folder)
    if names is None:
        sums: dict[str, str] = {}
        paths = (path for path in folder.rglob("*") if path.is_file() and path != folder / NAME)
        relative = sorted(path.relative_to(folder).as_posix() for path in paths)
        names = [name for name in relative if not any(part.startswith(".") for part in name.split("/"))]
    else:
        sums = dict(read_sums(folder / NAME)) if (folder / NAME).is_file() else {}
        names = sorted(names)
    for name in names:
        if not name.isprintable() or "\\" in name:
            raise InputError(f"{folder}: the file name {name!a} cannot be listed in {NAME}; rename it")
    with ThreadPoolExecutor(2) as pool:  # hashing and reading go on without the interpreter lock
        digests = pool.map(_digest, [folder / name for name in names])
        bar = tqdm(digests, "checksums", len(names), unit=" files", disable=len(names) < 1000)
        sums.update(zip(names, bar, strict=True))
    body = "".join(f"{digest}  {name}\n" for name, digest in sorted(sums.items())).encode()
    head = f"# {len(sums)} files, sha256 of the lines below: {hashlib.sha256(body).hexdigest()}\n"
    with atomic_file(folder / NAME) as partial:
        partial.write_bytes(head.encode() + body)
    _list_above.cache_clear()
    return len(sums)


def read_sums(path: Path) -> dict[str, str]:
    """File name -> sha256 of a list. InputError where it is damaged; one made by `sha256sum` has no sum of itself."""
    try:
        status = path.stat()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); {_anew(path)}") from None
    return _read(path, status.st_size, status.st_mtime_ns)


def verify(path: Path, digest: str | bytes) -> None:
    """Compare a file with the list of its folder or of one above; what no list names passes.

    `digest`: sha256 of its content in hexadecimal, or the content itself.
    """
    found = listed(path)
    if found is None:
        return
    known, listing = found
    if known != (hashlib.sha256(digest).hexdigest() if isinstance(digest, bytes) else digest):
        raise InputError(
            f"{path}: is damaged or another file than that of {listing}; fetch it again, or list it anew by "
            "prepare.py task=checksums if you changed it on purpose"
        )


def verify_file(path: Path) -> None:
    """The same for a file that is hashed here, once, and only where a list names it."""
    if listed(path) is not None:
        verify(path, _digest(path))


def listed(path: Path) -> tuple[str, Path] | None:
    """The checksum that a list gives for a file, and the list; None where none names it."""
    path = Path(os.path.abspath(path))
    listing = _list_above(path.parent)
    if listing is None or path.name == NAME:
        return None
    known = read_sums(listing).get(path.relative_to(listing.parent).as_posix())
    return None if known is None else (known, listing)


def check_sums(folder: str | os.PathLike[str]) -> list[str]:
    """One line for each listed file that is absent or differs, for a folder that holds a list."""
    folder = Path(folder)
    sums = read_sums(folder / NAME)

    def look(item: tuple[str, str]) -> str:
        path = folder / item[0]
        if not path.is_file():
            return f"{path}: is listed in {NAME} and absent"
        return "" if _digest(path) == item[1] else f"{path}: does not have its checksum"

    with ThreadPoolExecutor(2) as pool:
        looks = tqdm(pool.map(look, sums.items()), "compare checksums", len(sums), unit=" files")
        return [problem for problem in looks if problem]


@lru_cache(maxsize=1 << 16)  # folders, not files
def _list_above(folder: Path) -> Path | None:
    for above in [folder, *folder.parents][:LEVELS]:
        if (above / NAME).is_file():
            return above / NAME
    return None


@lru_cache(maxsize=8)
def _read(path: Path, size: int, changed: int) -> dict[str, str]:
    if size > MAX_BYTES:
        raise InputError(f"{path}: has more than {MAX_BYTES >> 20} MiB; {_anew(path)}")
    try:
        content = path.read_bytes()
        lines = content.decode().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read ({error}); {_anew(path)}") from None
    sums: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        head = _HEAD.fullmatch(line) if number == 1 else None
        if head and hashlib.sha256(content[content.index(b"\n") + 1 :]).hexdigest() != head[1]:
            raise InputError(f"{path}: is damaged, it does not have the checksum of its first line; {_anew(path)}")
        if line.startswith("#") or not line.strip():
            continue
        match = _LINE.fullmatch(line)
        if not match:
            raise InputError(f"{path}: line {number} is no checksum and name; {_anew(path)}")
        sums[os.path.normpath(match[2])] = match[1]
    return sums


def _anew(path: Path) -> str:
    return f"restore it, or remove it and list {path.parent} anew by prepare.py task=checksums"


def _digest(path: Path) -> str:
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); check the path") from None
