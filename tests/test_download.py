"""Downloads from a local server that cuts, lies and forgets; archives made to do harm."""

import hashlib
import io
import json
import os
import random
import re
import stat
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from filelock import FileLock

from data.build import download as module
from data.build.download import FILES, download, unpack_zip
from data.errors import InputError


class Handler(BaseHTTPRequestHandler):
    """Serves `server.content` by name; `server.plan` holds what goes wrong at the next requests of a name."""

    def do_GET(self) -> None:
        server, name = self.server, self.path.strip("/")
        server.seen.append((name, self.headers.get("Range"), self.headers.get("If-Range")))  # type: ignore[attr-defined]
        plan = server.plan.get(name, [])  # type: ignore[attr-defined]
        trouble = plan.pop(0) if plan else None
        content = server.content.get(name)  # type: ignore[attr-defined]
        if trouble == "drop":
            self.connection.close()
            return
        if isinstance(trouble, int) and trouble >= 400:
            self.send_response(trouble)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        if trouble == "redirect":
            self.send_response(302)
            self.send_header("Location", f"/{name}")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        if content is None:
            self.send_error(404)
            return
        tag = f'"{hashlib.sha256(content).hexdigest()[:12]}"'
        start, asked = 0, re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        if asked and trouble != "no range" and self.headers.get("If-Range") == tag:
            start = int(asked[1])
            if start >= len(content):
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{len(content)}")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            self.send_response(206)
            shown = start + 1 if trouble == "wrong range" else start
            self.send_header("Content-Range", f"bytes {shown}-{len(content) - 1}/{len(content)}")
        else:
            self.send_response(200)
        body = content[start:]
        if trouble == "flip":
            body = bytes([body[0]]) + bytes([body[1] ^ 1]) + body[2:]
        if trouble != "no length":
            self.send_header("Content-Length", str(len(body) if trouble != "huge" else 10**18))
        if trouble != "no tag":
            self.send_header("ETag", tag)
        self.end_headers()
        if isinstance(trouble, float):  # cut after this share of what is left
            self.wfile.write(body[: int(len(body) * trouble)])
            self.wfile.flush()
            self.connection.close()
            return
        if trouble == "hang":
            self.wfile.write(body[:10])
            self.wfile.flush()
            server.hang.wait(5)  # type: ignore[attr-defined]
            return
        self.wfile.write(body)

    def log_message(self, *_) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("no_proxy", "*")
    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.daemon_threads = True
    http.content, http.plan, http.seen, http.hang = {}, {}, [], threading.Event()  # type: ignore[attr-defined]
    http.url = f"http://127.0.0.1:{http.server_address[1]}/"  # type: ignore[attr-defined]
    http.handle_error = lambda *_: None  # type: ignore[method-assign]
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield http
    http.hang.set()  # type: ignore[attr-defined]
    http.shutdown()
    thread.join()
    http.server_close()


def json_bytes(size: int = 300_000, seed: int = 0) -> bytes:
    return b'{"data": "' + bytes(random.Random(seed).choices(range(97, 123), k=size)) + b'"}\n'


def zip_bytes(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def get(server, root: Path, *names: str, **settings):
    return download(root, names or None, server.url, **{"backoff": 0.0, "retries": 3, "timeout": 2.0, **settings})


def leftovers(root: Path) -> list[str]:
    return sorted(p.name for p in root.rglob("*") if ".part" in p.name)


# --- downloads ---------------------------------------------------------------------------------------------------


def test_all_files(server, tmp_path: Path) -> None:
    for i, name in enumerate(("train.json", "val.json", "test.json")):
        server.content[name] = json_bytes(seed=i)
    server.content["images.zip"] = zip_bytes({"images-qa/val/images-qa/a_1_0.jpg": b"1", "images-qa/readme": b"2"})
    server.content["recipes.zip"] = zip_bytes({"recipes.json": b"{}"})
    report = get(server, tmp_path / "deep" / "root")
    root = report.root
    assert not report.missing and [f.state for f in report.files] == ["fetched"] * 5
    assert [f.name for f in report.files] == list(FILES)
    for name, content in server.content.items():
        assert (root / name).read_bytes() == content
    assert (root / "images-qa/val/images-qa/a_1_0.jpg").read_bytes() == b"1"
    assert (root / "recipes/recipes.json").read_bytes() == b"{}" and not leftovers(root)
    recorded = json.loads((root / "checksums.json").read_text())
    for name, content in server.content.items():
        assert recorded[name]["sha256"] == hashlib.sha256(content).hexdigest()
        assert recorded[name]["size"] == len(content) and recorded[name]["url"] == server.url + name
    assert "images.zip   fetched" in str(report) and "2 files unpacked" in str(report) and "missing" not in str(report)

    server.seen.clear()
    again = get(server, root)
    assert [f.state for f in again.files] == ["present"] * 5 and server.seen == []
    assert "2 files unpacked before" in str(again)
    (root / "images-qa" / "readme").unlink()
    assert "2 files unpacked" in str(get(server, root)) and (root / "images-qa" / "readme").read_bytes() == b"2"


def test_cut_connections_are_resumed(server, tmp_path: Path) -> None:
    content = server.content["val.json"] = json_bytes()
    server.plan["val.json"] = [0.3, 0.5, "drop", 503, 0.2]
    report = get(server, tmp_path, "val.json")
    assert report.files[0].state == "fetched" and (tmp_path / "val.json").read_bytes() == content
    ranges = [r for _, r, _ in server.seen]
    size = len(content)
    first = int(size * 0.3)
    second = first + int((size - first) * 0.5)
    third = second + int((size - second) * 0.2)
    assert ranges == [None, *(f"bytes={n}-" for n in (first, second, second, second, third))]
    assert not leftovers(tmp_path)


def test_a_killed_download_goes_on_at_the_next_run(server, tmp_path: Path) -> None:
    content = server.content["val.json"] = json_bytes()
    server.plan["val.json"] = [0.5, "drop", "drop"]
    report = get(server, tmp_path, "val.json", retries=2)
    assert report.missing == ("val.json",) and not (tmp_path / "val.json").exists()
    assert "run again, it goes on from where it stopped" in report.files[0].note
    assert "missing in" in str(report) and "18 MB expected from http://127.0.0.1" in str(report)
    assert get(server, tmp_path, "val.json").missing == ()
    assert server.seen[-1][1] == f"bytes={int(len(content) * 0.5)}-" and (tmp_path / "val.json").read_bytes() == content


def test_a_file_that_changed_meanwhile_is_not_patched_together(server, tmp_path: Path) -> None:
    server.content["val.json"] = json_bytes(seed=1)
    server.plan["val.json"] = [0.5, "drop"]
    get(server, tmp_path, "val.json", retries=1)
    server.plan["val.json"] = []
    new = server.content["val.json"] = json_bytes(seed=2)
    assert get(server, tmp_path, "val.json").missing == () and (tmp_path / "val.json").read_bytes() == new


@pytest.mark.parametrize("trouble", ["no range", "wrong range", "no tag"])
def test_servers_that_cannot_resume(server, tmp_path: Path, trouble: str) -> None:
    content = server.content["val.json"] = json_bytes()
    server.plan["val.json"] = [0.5, trouble, trouble]
    assert get(server, tmp_path, "val.json").missing == () and (tmp_path / "val.json").read_bytes() == content
    (tmp_path / "test.json.part").write_bytes(b"of unknown origin")
    server.content["test.json"] = content
    assert get(server, tmp_path, "test.json").missing == () and (tmp_path / "test.json").read_bytes() == content


def test_part_that_is_whole_or_too_long(server, tmp_path: Path) -> None:
    content = server.content["val.json"] = json_bytes()
    server.plan["val.json"] = [0.5]
    get(server, tmp_path, "val.json", retries=1)
    for odd in (content, content + b"more"):
        (tmp_path / "val.json").unlink(missing_ok=True)
        (tmp_path / "val.json.part").write_bytes(odd)
        (tmp_path / "val.json.part.validator").write_text(f'"{hashlib.sha256(content).hexdigest()[:12]}"')
        assert get(server, tmp_path, "val.json").missing == () and (tmp_path / "val.json").read_bytes() == content
    (tmp_path / "val.json").unlink()
    (tmp_path / "val.json.part").write_bytes(content[:50])
    (tmp_path / "val.json.part.validator").write_bytes(b'"x"\r\nEvil: 1\xff')
    assert get(server, tmp_path, "val.json").missing == () and (tmp_path / "val.json").read_bytes() == content


def test_without_announced_length(server, tmp_path: Path) -> None:
    content = server.content["val.json"] = json_bytes()
    server.plan["val.json"] = ["no length"]
    assert get(server, tmp_path, "val.json").missing == () and (tmp_path / "val.json").read_bytes() == content


def test_time_out(server, tmp_path: Path) -> None:
    content = server.content["val.json"] = json_bytes()
    server.plan["val.json"] = ["hang"]
    assert get(server, tmp_path, "val.json", timeout=0.3).missing == ()
    assert (tmp_path / "val.json").read_bytes() == content and server.seen[-1][1] == "bytes=10-"


def test_back_off(server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr(module.time, "sleep", waits.append)
    server.content["val.json"] = json_bytes()
    server.plan["val.json"] = [503] * 9
    assert get(server, tmp_path, "val.json", backoff=0.5, retries=4).missing == ("val.json",)
    assert waits == [0.5, 1.0, 2.0] and len(server.seen) == 4


def test_what_is_absent_is_reported_and_the_rest_comes(server, tmp_path: Path) -> None:
    server.content["val.json"] = json_bytes()
    report = get(server, tmp_path, "train.json", "val.json", "images.zip")
    assert report.missing == ("train.json", "images.zip") and (tmp_path / "val.json").exists()
    assert "answered 404" in report.files[0].note and len([n for n, *_ in server.seen if n == "train.json"]) == 1
    assert "\n" not in report.files[0].note and not leftovers(tmp_path)


def test_error_pages_are_no_files(server, tmp_path: Path) -> None:
    server.content.update({"val.json": b"<html>moved</html>", "images.zip": b"<html>moved</html>", "test.json": b""})
    report = get(server, tmp_path, "val.json", "images.zip", "test.json")
    assert report.missing == ("val.json", "images.zip", "test.json") and not (tmp_path / "checksums.json").exists()
    assert not leftovers(tmp_path) and not (tmp_path / "val.json").exists()


def test_checksums(server, tmp_path: Path) -> None:
    content = server.content["val.json"] = json_bytes(seed=1)
    get(server, tmp_path, "val.json")
    path = tmp_path / "val.json"
    path.write_bytes(content[:-5] + b'abc"}')
    report = get(server, tmp_path, "val.json")
    assert report.missing == ("val.json",) and "differs from the checksum recorded" in report.files[0].note
    assert path.read_bytes() == content[:-5] + b'abc"}', "the user's file is left alone"

    path.unlink()
    server.plan["val.json"] = ["flip"]
    server.seen.clear()
    assert get(server, tmp_path, "val.json").missing == () and len(server.seen) == 2, "one damaged transfer is redone"
    assert path.read_bytes() == content

    path.unlink()
    server.content["val.json"] = json_bytes(seed=2)
    server.seen.clear()
    report = get(server, tmp_path, "val.json")
    assert report.missing == ("val.json",) and "what the server sends differs" in report.files[0].note
    assert len(server.seen) == 2 and not path.exists() and not leftovers(tmp_path)


def test_a_file_put_there_by_hand_is_recorded(server, tmp_path: Path) -> None:
    (tmp_path / "val.json").write_bytes(json_bytes())
    report = get(server, tmp_path, "val.json")
    assert report.files[0].state == "present" and server.seen == []
    assert json.loads((tmp_path / "checksums.json").read_text())["val.json"]["size"] == len(json_bytes())
    (tmp_path / "test.json").mkdir()
    assert get(server, tmp_path, "test.json").missing == ("test.json",)


def test_limits(server, tmp_path: Path) -> None:
    server.content["val.json"] = json_bytes()
    for plan in ([], ["no length"]):
        server.plan["val.json"] = plan
        report = get(server, tmp_path, "val.json", max_bytes=1000)
        assert "max_bytes=1,000" in report.files[0].note and not (tmp_path / "val.json").exists()
    server.plan["val.json"] = ["huge"]
    report = get(server, tmp_path, "val.json", max_bytes=10**19)
    assert "free on the disk; make room" in report.files[0].note
    server.plan["val.json"] = ["redirect"] * 40
    assert get(server, tmp_path, "val.json").missing == ("val.json",), "endless redirects end"


def test_wrong_settings(server, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"'vocab\.json' is no official"):
        get(server, tmp_path, "vocab.json")
    for url in ("file:///etc/", "ftp://x/", "x"):
        with pytest.raises(InputError, match="must start with https"):
            download(tmp_path, ["val.json"], url)
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be made"):
        get(server, tmp_path / "file", "val.json")
    (tmp_path / "checksums.json").write_text("{")
    with pytest.raises(InputError, match=r"checksums\.json: cannot be read .*delete it"):
        get(server, tmp_path, "val.json")
    with FileLock(tmp_path / ".download.lock"), pytest.raises(InputError, match="another download"):
        get(server, tmp_path, "val.json")


# --- archives ----------------------------------------------------------------------------------------------------


def entry(name: str, mode: int = 0) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo("placeholder")
    info.filename = name
    info.external_attr = mode << 16
    return info


def write_zip(path: Path, *entries: tuple[zipfile.ZipInfo | str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for info, content in entries:
            archive.writestr(info, content)
    return path


EVIL = {
    "the path '../evil.txt' is unsafe": [(entry("../evil.txt"), b"x")],
    "the path 'a/../../evil.txt' is unsafe": [(entry("a/../../evil.txt"), b"x")],
    "the path '/tmp/evil.txt' is unsafe": [(entry("/tmp/evil.txt"), b"x")],
    "the path 'C:/evil.txt' is unsafe": [(entry("C:/evil.txt"), b"x")],
    "is unsafe": [(entry("a\\..\\evil.txt"), b"x")],
    "the path 'a\\nb' is unsafe": [(entry("a\nb"), b"x")],
    "'link' is no regular file": [(entry("link", stat.S_IFLNK | 0o777), b"/etc/passwd")],
    "'device' is no regular file": [(entry("device", stat.S_IFCHR | 0o666), b"")],
    "'pipe' is no regular file": [(entry("pipe", stat.S_IFIFO | 0o666), b"")],
    "'a.txt' occurs twice": [("a.txt", b"1"), ("a.txt", b"2")],
    "'./a.txt' occurs twice": [("a.txt", b"1"), (entry("./a.txt"), b"2")],
    "'a' is both file and folder": [("a", b"1"), ("a/b", b"2")],
    "6 entries are more than 4": [(f"{i}.txt", b"") for i in range(5)],
    "it holds 2,004 bytes, more than 1,999": [("a.txt", os.urandom(1000)), ("b.txt", os.urandom(1000))],
    "times its size, more than 5": [("a.txt", b"0" * 1990)],
}


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("expected", EVIL)
def test_evil_archives_are_refused_before_anything_is_written(tmp_path: Path, expected: str) -> None:
    path = write_zip(tmp_path / "evil.zip", ("good.txt", b"good"), *EVIL[expected])
    with pytest.raises(InputError) as caught:
        unpack_zip(path, tmp_path / "out", max_files=4, max_bytes=1999, max_ratio=5)
    assert expected in str(caught.value) and "\n" not in str(caught.value) and "evil.zip" in str(caught.value)
    assert [p.name for p in tmp_path.iterdir()] == ["evil.zip"]


def test_encrypted_and_odd_methods(tmp_path: Path) -> None:
    path = write_zip(tmp_path / "x.zip", ("a.txt", b"abc"))
    raw = path.read_bytes()
    at = raw.index(b"PK\1\2")
    path.write_bytes(raw[: at + 8] + bytes([raw[at + 8] | 1]) + raw[at + 9 :])
    with pytest.raises(InputError, match="is encrypted"):
        unpack_zip(path, tmp_path / "out")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("a.txt", b"abc")
    with pytest.raises(InputError, match="other than deflate"):
        unpack_zip(path, tmp_path / "out")


def test_links_in_the_target_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "out").mkdir()
    os.symlink(tmp_path / "outside", tmp_path / "out" / "a")
    with pytest.raises(InputError, match="is a link that leaves"):
        unpack_zip(write_zip(tmp_path / "x.zip", ("a/b/c.txt", b"abc")), tmp_path / "out")
    assert not list((tmp_path / "outside").iterdir())
    (tmp_path / "outside" / "file").write_bytes(b"old")
    os.symlink(tmp_path / "outside" / "file", tmp_path / "out" / "c.txt")
    unpack_zip(write_zip(tmp_path / "y.zip", ("c.txt", b"new")), tmp_path / "out")
    assert (tmp_path / "outside" / "file").read_bytes() == b"old" and (
        tmp_path / "out" / "c.txt"
    ).read_bytes() == b"new"


def test_interrupted_unpacking_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {f"d/{i}.bin": os.urandom(50) for i in range(9)}
    path = tmp_path / "x.zip"
    path.write_bytes(zip_bytes(files))
    real, written = module._unpack_member, []

    def dies(packed, member, target):
        if len(written) == 4:
            raise KeyboardInterrupt
        written.append(member.filename)
        real(packed, member, target)

    monkeypatch.setattr(module, "_unpack_member", dies)
    with pytest.raises(KeyboardInterrupt):
        unpack_zip(path, tmp_path / "out")
    (tmp_path / "out" / "d" / "0.bin").write_bytes(os.urandom(50))  # same size, other content
    written.clear()
    monkeypatch.setattr(module, "_unpack_member", lambda *a: (written.append(a[1].filename), real(*a)))
    assert unpack_zip(path, tmp_path / "out") == 9
    assert written == ["d/0.bin"] + [f"d/{i}.bin" for i in range(4, 9)]
    assert {f"d/{p.name}": p.read_bytes() for p in (tmp_path / "out" / "d").iterdir()} == files


def test_damaged_archives(tmp_path: Path) -> None:
    """300 damaged archives: unpacked with the right content, or InputError."""
    files = {f"d{i % 2}/{i}.txt": bytes(random.Random(i).choices(b"abcd", k=200)) for i in range(5)}
    whole, refused = zip_bytes(files), 0
    for i in range(300):
        rng, content = random.Random(i), bytearray(whole)
        if i % 3 == 0:
            del content[rng.randrange(len(content)) :]
        else:
            for _ in range(1 if i % 3 == 1 else 8):
                content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        path, out = tmp_path / "x.zip", tmp_path / f"out{i}"
        path.write_bytes(content)
        try:
            unpack_zip(path, out)
        except InputError as error:
            refused += 1
            assert "\n" not in str(error) and "x.zip" in str(error)
        contents = [p.read_bytes() for p in out.rglob("*") if p.is_file()]
        assert all(c in files.values() for c in contents), "no damaged file is ever left under a name"
    assert refused > 200
    assert {p.name for p in tmp_path.iterdir() if not p.name.startswith("out")} == {"x.zip"}


def test_an_evil_archive_from_the_server_is_reported(server, tmp_path: Path) -> None:
    server.content["images.zip"] = write_zip(tmp_path / "evil.zip", (entry("../evil.txt"), b"x")).read_bytes()
    server.content["val.json"] = json_bytes()
    report = get(server, tmp_path / "root", "images.zip", "val.json")
    assert report.missing == ("images.zip",) and "is unsafe; nothing was unpacked" in report.files[0].note
    assert report.files[1].state == "fetched" and not (tmp_path / "evil.txt").exists()
