"""Fetch and unpack the official RecipeQA files.

One GET with a Range header is all it takes, so this uses urllib of the standard library: no package to add, and the
HTTP client that comes with a tracker may go with it.
"""

import hashlib
import http.client
import json
import os
import re
import shutil
import stat
import struct
import time
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

from filelock import FileLock, Timeout
from tqdm import tqdm

from data.errors import InputError
from data.files import atomic_file

BASE_URL = "https://vision.cs.hacettepe.edu.tr/files/recipeqa/"
# Name -> size as the authors' site states it, and the folder an archive is unpacked to ("" is the root).
FILES = {
    "train.json": "150 MB",
    "val.json": "18 MB",
    "test.json": "18 MB",
    "images.zip": "2.3 GB",
    "recipes.zip": "400 MB",
}
UNPACK_TO = {"images.zip": "", "recipes.zip": "recipes"}

CHUNK = 1 << 20
DRIVE = re.compile(r"[A-Za-z]:")
WORTH_RETRYING = (408, 425, 429, 500, 502, 503, 504)


@dataclass(frozen=True)
class FileState:
    """Where one file stands: "fetched" now, "present" from before, or "missing"; `note` says why or what to do."""

    name: str
    state: str
    size: int = 0
    sha256: str = ""
    note: str = ""


@dataclass(frozen=True)
class DownloadReport:
    """The state of every file that was asked for."""

    root: Path
    files: tuple[FileState, ...]

    @property
    def missing(self) -> tuple[str, ...]:
        """Names of the files that are not there, or not usable."""
        return tuple(file.name for file in self.files if file.state == "missing")

    def __str__(self) -> str:
        lines = []
        for f in self.files:
            facts = f"{f.size:>13,} bytes  sha256 {f.sha256[:12]}" if f.state != "missing" else ""
            lines.append(f"{f.name:<12} {f.state:<8} {facts}{'  ' if facts and f.note else ''}{f.note}")
        if self.missing:
            lines.append(
                f"missing in {self.root}: {', '.join(self.missing)}; run again to go on, or put them there by hand"
            )
        return "\n".join(lines)


class _Failed(Exception):
    """Why a file could not be had, with the remedy; it ends in the report, so that the other files still come."""


def download(
    root: str | os.PathLike[str],
    files: Sequence[str] | None = None,
    base_url: str = BASE_URL,
    *,
    unpack: bool = True,
    retries: int = 5,
    timeout: float = 30.0,
    backoff: float = 1.0,
    max_bytes: int = 16 << 30,
) -> DownloadReport:
    """Fetch `files` (default: all five) into `root`, unpack the archives, and say what is there and what is missing.

    A file grows as `<name>.part` and takes its name when it is whole; a cut transfer goes on from where it stopped.
    The sha256 of a file is written to `checksums.json` the first time it is seen and compared from then on: the
    authors publish none. A file that is there already is only compared, never replaced.
    retries: attempts without any progress before a file is given up; waits of `backoff` * 1, 2, 4, ... seconds.
    timeout: seconds without a byte before an attempt counts as failed.
    InputError where nothing can be fetched at all: an unknown name, a bad URL, another download into `root`.
    """
    names = list(FILES if files is None else dict.fromkeys(files))
    for name in names:
        if name not in FILES:
            raise InputError(f"{name!r} is no official RecipeQA file; choose from {', '.join(FILES)}")
    if not base_url.startswith(("https://", "http://")):
        raise InputError(f"base_url={base_url!r} is no web address; it must start with https:// or http://")
    root = Path(root)
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{root}: cannot be made ({error.strerror}); choose another folder") from None
    lock = FileLock(root / ".download.lock")
    try:
        lock.acquire(blocking=False)
    except Timeout:
        raise InputError(f"{root}: another download into this folder is running; wait for it to end") from None
    except OSError as error:
        raise InputError(f"{root}: cannot be written to ({error.strerror}); choose another folder") from None
    try:
        checksums = _read_checksums(root)
        states = []
        for name in names:
            url = base_url.rstrip("/") + "/" + name
            try:
                state = _one_file(root, name, url, checksums, retries, timeout, backoff, max_bytes)
                if unpack and name in UNPACK_TO:
                    state = _unpack_once(root, state)
            except _Failed as failed:
                state = FileState(name, "missing", note=f"{failed} ({FILES[name]} expected from {url})")
            except InputError as error:  # from the archive
                state = FileState(name, "missing", note=str(error))
            except OSError as error:
                state = FileState(name, "missing", note=f"{error.strerror or error}; check {root / name}")
            states.append(state)
        return DownloadReport(root, tuple(states))
    finally:
        lock.release()


# ----------------------------------------------------------------------------------------------------------------
# One file


def _one_file(
    root: Path,
    name: str,
    url: str,
    checksums: dict[str, dict[str, Any]],
    retries: int,
    timeout: float,
    backoff: float,
    max_bytes: int,
) -> FileState:
    path, part = root / name, root / f"{name}.part"
    known = checksums.get(name)
    if path.exists():
        sha256 = _sha256(path)
        if known and sha256 != known["sha256"]:
            raise _Failed(
                "the file differs from the checksum recorded at its first use; delete it to fetch it again,"
                " or delete its entry in checksums.json if you changed it on purpose"
            )
        state = "present"
        _check_kind(path, name)
    else:
        for second_try in (False, True):
            _fetch(url, part, retries, timeout, backoff, max_bytes)
            try:
                _check_kind(part, name)
            except _Failed:
                _forget(part)
                raise
            sha256 = _sha256(part)
            if not known or sha256 == known["sha256"]:
                break
            # A resumed transfer may have been patched together wrongly: once more from the start, then give up.
            _forget(part)
            if second_try:
                raise _Failed(
                    "what the server sends differs from the checksum recorded at its first use;"
                    " delete its entry in checksums.json if you trust the new file"
                )
        _sync(part)
        part.replace(path)
        _forget(part)
        state = "fetched"
    size = path.stat().st_size
    if not known:
        checksums[name] = {"sha256": sha256, "size": size, "url": url}
        with atomic_file(root / "checksums.json") as table:
            table.write_text(json.dumps(checksums, indent=1) + "\n")
    return FileState(name, state, size, sha256)


def _fetch(url: str, part: Path, retries: int, timeout: float, backoff: float, max_bytes: int) -> None:
    """Bring `part` to its full length, going on from what is there; raise _Failed when it cannot be done."""
    idle, reason = 0, ""
    # A server that hands out a few bytes at each attempt would keep us for ever without the outer bound.
    for _ in range(50 * max(1, retries)):
        before = part.stat().st_size if part.exists() else 0
        wait = backoff * 2**idle
        try:
            _attempt(url, part, timeout, max_bytes)
            return
        except urllib.error.HTTPError as error:
            reason = f"the server answered {error.code} {error.reason}"
            if error.code not in WORTH_RETRYING:
                raise _Failed(f"{reason}; check the address, or fetch it by hand") from None
            after = error.headers.get("Retry-After", "")
            wait = max(wait, min(float(after), 60.0 * backoff)) if after.isdigit() else wait
        except (OSError, http.client.HTTPException, ValueError) as error:
            # ValueError: a malformed address in a redirect or a header that is no number
            reason = " ".join(str(getattr(error, "reason", None) or error or type(error).__name__).split())[:200]
        after_size = part.stat().st_size if part.exists() else 0
        idle = 0 if after_size > before else idle + 1
        if idle >= max(1, retries):
            break
        time.sleep(wait)
    raise _Failed(f"the transfer failed ({reason}); run again, it goes on from where it stopped")


def _attempt(url: str, part: Path, timeout: float, max_bytes: int) -> None:
    """One request. Returns when `part` is whole, raises otherwise; what has come stays in `part`."""
    validator = part.with_name(part.name + ".validator")
    have = part.stat().st_size if part.exists() else 0
    headers = {"User-Agent": "food-understanding", "Accept-Encoding": "identity"}
    # Without its ETag or date nobody can tell whether the rest still belongs to what is there.
    tag = validator.read_text(errors="replace").strip() if have and validator.exists() else ""
    if tag.isascii() and tag.isprintable() and tag:
        headers |= {"Range": f"bytes={have}-", "If-Range": tag}
    else:
        have = 0
    try:
        response = urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=timeout)
    except urllib.error.HTTPError as error:
        if error.code != 416:
            raise
        error.close()
        if error.headers.get("Content-Range", "").strip() == f"bytes */{have}":
            return
        _forget(part)
        raise OSError("the part on disk is longer than the file") from None
    with response:
        if url.startswith("https:") and not response.url.startswith("https:"):
            raise _Failed("the server redirects to an address without TLS; fetch it by hand if you trust it")
        length = response.headers.get("Content-Length")
        total = int(length) if length is not None else None
        if response.status == 206:
            span, _, whole = response.headers.get("Content-Range", "").removeprefix("bytes ").partition("/")
            if not span.startswith(f"{have}-") or not whole.isdigit():
                _forget(part)
                raise OSError("the server sent another part than the one asked for")
            total = int(whole)
        else:
            have = 0
            tag = response.headers.get("ETag") or response.headers.get("Last-Modified") or ""
            # A weak ETag may not be used in If-Range (RFC 9110, section 13.1.5).
            tag = response.headers.get("Last-Modified") or "" if tag.startswith("W/") else tag
            _forget(part)
            if tag:
                validator.write_text(tag)
        if total is not None:
            if total > max_bytes:
                raise _Failed(f"the server announces {total:,} bytes, more than max_bytes={max_bytes:,}")
            free = shutil.disk_usage(part.parent).free
            if total - have > free:
                raise _Failed(f"{total - have:,} bytes are to come and {free:,} are free on the disk; make room")
        name = part.name.removesuffix(".part")
        with (
            part.open("ab") as file,
            tqdm(
                desc=name, total=total, initial=have, unit="B", unit_scale=True, unit_divisor=1024, leave=False
            ) as bar,
        ):
            while chunk := response.read1(CHUNK):
                have += len(chunk)
                if have > max_bytes:
                    raise _Failed(f"more than max_bytes={max_bytes:,} bytes came; check the address")
                try:
                    file.write(chunk)
                    file.flush()
                except OSError as error:
                    raise _Failed(f"cannot be written ({error.strerror}); make room and run again") from None
                bar.update(len(chunk))
    if total is not None and have < total:
        raise OSError(f"the connection was cut at {have:,} of {total:,} bytes")
    if total is not None and have > total:
        _forget(part)
        raise OSError(f"{have:,} bytes came where {total:,} were announced")


def _forget(part: Path) -> None:
    part.unlink(missing_ok=True)
    part.with_name(part.name + ".validator").unlink(missing_ok=True)


def _check_kind(path: Path, name: str) -> None:
    """Refuse an error page or an empty file that came with status 200, before its checksum is taken for right."""
    with path.open("rb") as file:
        start = file.read(64).lstrip()
        file.seek(max(0, path.stat().st_size - 64))
        end = file.read().rstrip()
    if name.endswith(".zip") and not zipfile.is_zipfile(path):
        raise _Failed("what is there is no zip archive; delete it and fetch it again")
    if name.endswith(".json") and not (start.startswith(b"{") and end.endswith(b"}")):
        raise _Failed("what is there is no whole JSON object; delete it and fetch it again")


def _sha256(path: Path) -> str:
    digest, size = hashlib.sha256(), path.stat().st_size
    with (
        path.open("rb") as file,
        tqdm(
            desc=f"check {path.name}", total=size, unit="B", unit_scale=True, leave=False, disable=size < 1 << 28
        ) as bar,
    ):
        while chunk := file.read(CHUNK):
            digest.update(chunk)
            bar.update(len(chunk))
    return digest.hexdigest()


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _read_checksums(root: Path) -> dict[str, dict[str, Any]]:
    path = root / "checksums.json"
    try:
        known = json.loads(path.read_bytes())
        if not isinstance(known, dict) or any(not isinstance(v, dict) or "sha256" not in v for v in known.values()):
            raise ValueError("no table of checksums")
    except FileNotFoundError:
        return {}
    except (ValueError, OSError, RecursionError) as error:
        raise InputError(f"{path}: cannot be read ({error}); delete it to record the checksums anew") from None
    return known


# ----------------------------------------------------------------------------------------------------------------
# Archives


def _unpack_once(root: Path, state: FileState) -> FileState:
    """Unpack an archive unless the very same one was unpacked before and its files are still there."""
    archive, target = root / state.name, root / UNPACK_TO[state.name]
    marker = root / f".{state.name}.unpacked"
    if marker.exists() and marker.read_text().strip() == state.sha256:
        with zipfile.ZipFile(archive) as packed:
            members = [m for m in packed.infolist() if not m.is_dir()]
        if all(_size_of(target / m.filename) == m.file_size for m in members):
            return replace(state, note=f"{len(members):,} files unpacked before")
    n = unpack_zip(archive, target)
    marker.write_text(state.sha256 + "\n")
    return replace(state, note=f"{n:,} files unpacked")


def _size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return -1


def unpack_zip(
    archive: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    max_bytes: int = 32 << 30,
    max_files: int = 1_000_000,
    max_ratio: float = 100.0,
) -> int:
    """Unpack a zip archive of unknown origin below `target` and return the number of its files.

    The whole directory of the archive is judged before anything is written: InputError for a path that leaves the
    target, a link or device, an encrypted file, a name that occurs twice, or more than `max_bytes`, `max_files`
    or `max_ratio` (unpacked to packed size). Each file takes its name when it is whole and its CRC is right; files
    that are there already with the right size and CRC are kept, so that an interrupted run goes on.
    """
    archive, target = Path(archive), Path(target)
    try:
        with zipfile.ZipFile(archive) as packed:
            members = _judge(archive, packed, max_bytes, max_files, max_ratio)
            target.mkdir(parents=True, exist_ok=True)
            needed, free = sum(m.file_size for m in members), shutil.disk_usage(target).free
            if needed > free and not all((target / m.filename).exists() for m in members):
                raise InputError(f"{archive}: needs {needed:,} bytes and {free:,} are free on the disk; make room")
            checked_folders: set[Path] = set()
            for member in tqdm(members, desc=f"unpack {archive.name}", unit="file", leave=False):
                path = target / member.filename
                if path.parent not in checked_folders:
                    # A link that lies in the target from before would lead out of it.
                    if not path.parent.resolve().is_relative_to(target.resolve()):
                        raise InputError(f"{archive}: {path.parent} is a link that leaves {target}; remove the link")
                    path.parent.mkdir(parents=True, exist_ok=True)
                    checked_folders.add(path.parent)
                if not _is_there(path, member):
                    _unpack_member(packed, member, path)
    except (zipfile.BadZipFile, zlib.error, struct.error, EOFError, NotImplementedError, ValueError) as error:
        raise InputError(f"{archive}: damaged archive ({error}); delete it and fetch it again") from None
    except OSError as error:
        reason = error.strerror or error
        raise InputError(
            f"{archive}: cannot be unpacked to {target} ({reason}); check the disk, then run again"
        ) from None
    return len(members)


def _judge(
    archive: Path, packed: zipfile.ZipFile, max_bytes: int, max_files: int, max_ratio: float
) -> list[zipfile.ZipInfo]:
    """Regular files of the archive; InputError where one entry is not to be trusted."""

    def refuse(what: str) -> InputError:
        return InputError(f"{archive}: refused, {what}; nothing was unpacked, fetch the official archive")

    entries = packed.infolist()
    if len(entries) > max_files:
        raise refuse(f"{len(entries):,} entries are more than {max_files:,}")
    members, names, folders = [], set(), set()
    for entry in entries:
        # orig_filename: zipfile cuts the name at a NUL, which would hide what follows.
        name, shown = entry.orig_filename, repr(entry.orig_filename)[:80]
        pure = PurePosixPath(name)
        if not name.isprintable() or "\\" in name or pure.is_absolute() or ".." in pure.parts or DRIVE.match(name):
            raise refuse(f"the path {shown} is unsafe")
        kind = stat.S_IFMT(entry.external_attr >> 16)
        if kind not in (0, stat.S_IFREG, stat.S_IFDIR) or not pure.parts:
            raise refuse(f"{shown} is no regular file")
        if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise refuse(f"{shown} is packed by a method other than deflate")
        if entry.flag_bits & 1:
            raise refuse(f"{shown} is encrypted")
        if entry.is_dir() or kind == stat.S_IFDIR:
            folders.add(pure)
            continue
        if pure in names:
            raise refuse(f"{shown} occurs twice")
        names.add(pure)
        folders.update(pure.parents)
        members.append(entry)
    if clash := names & folders:
        raise refuse(f"{str(min(clash))[:80]!r} is both file and folder")
    total = sum(m.file_size for m in members)
    if total > max_bytes:
        raise refuse(f"it holds {total:,} bytes, more than {max_bytes:,}")
    packed_size = max(1, archive.stat().st_size)
    if total / packed_size > max_ratio:
        raise refuse(f"it unpacks to {total / packed_size:,.0f} times its size, more than {max_ratio:g}")
    return members


def _is_there(path: Path, member: zipfile.ZipInfo) -> bool:
    if path.is_symlink() or not path.is_file() or path.stat().st_size != member.file_size:
        return False
    crc = 0
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            crc = zlib.crc32(chunk, crc)
    return crc == member.CRC


def _unpack_member(packed: zipfile.ZipFile, member: zipfile.ZipInfo, path: Path) -> None:
    part = path.with_name(f".{path.name}.part")
    part.unlink(missing_ok=True)  # never write through a link
    try:
        with packed.open(member) as source, part.open("xb") as sink:
            shutil.copyfileobj(source, sink, CHUNK)  # zipfile stops at the declared size and checks the CRC
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
