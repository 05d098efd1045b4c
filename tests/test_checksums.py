import hashlib
import json
import os
import shutil
import subprocess
import time

import numpy as np
import pytest
from PIL import Image

from data.checksums import NAME, check_sums, read_sums, verify_file, write_sums
from data.errors import InputError
from data.food_images import load_image
from data.images import decode
from data.recipeqa import read_questions
from tests.made_up import made_up_questions, write_file
from tests.runs import run


def picture(path, seed=0):
    draw = np.random.default_rng(seed)
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(draw.integers(0, 255, (48, 64, 3), np.uint8)).save(path, "JPEG", quality=90)
    return path


def change(path):
    """One byte in the middle, with the size and the time of before."""
    status, data = path.stat(), bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


@pytest.fixture
def folder(tmp_path):
    for seed in range(4):
        picture(tmp_path / "set" / "images" / "a" / f"{seed}.jpg", seed)
    write_file(tmp_path / "set" / "train.json", made_up_questions("textual_cloze", 4))
    (tmp_path / "set" / ".hidden").write_text("x")
    return tmp_path / "set"


def test_the_list_is_that_of_sha256sum(folder):
    assert write_sums(folder) == 5
    want = {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file() and path.name not in (NAME, ".hidden")
    }
    assert read_sums(folder / NAME) == want and check_sums(folder) == []
    if shutil.which("sha256sum"):
        assert subprocess.run(["sha256sum", "-c", "--quiet", NAME], cwd=folder).returncode == 0
        names = sorted(want)
        foreign = subprocess.run(["sha256sum", "-b", *names], cwd=folder, capture_output=True).stdout
        (folder / NAME).write_bytes(foreign)
        assert read_sums(folder / NAME) == want


@pytest.mark.parametrize("read", [decode, load_image])
def test_a_damaged_picture_is_told_when_it_is_read(folder, read):
    path = folder / "images" / "a" / "1.jpg"
    data = path.read_bytes()
    middle = len(data) // 2
    write_sums(folder)
    read(path)
    path.write_bytes(data[:middle] + bytes(64) + data[middle + 64 :])  # every decoder takes it
    time.sleep(0.01)
    with pytest.raises(InputError, match=r"1\.jpg: is damaged or another file") as error:
        read(path)
    assert "\n" not in str(error.value)
    (problem,) = check_sums(folder)
    assert "1.jpg" in problem
    path.unlink()
    assert "absent" in check_sums(folder)[0]
    read(picture(folder / "images" / "new.jpg", 9))  # what is not listed is not compared


def test_a_flipped_letter_in_a_file_of_questions_is_told(folder):
    path = folder / "train.json"
    write_sums(folder)
    read_questions(path)
    text = path.read_text()
    at = text.index('"body": "') + 9
    path.write_text(text[:at] + ("b" if text[at] == "a" else "a") + text[at + 1 :])
    json.loads(path.read_text())
    with pytest.raises(InputError, match=r"train\.json: is damaged"):
        read_questions(path)
    with pytest.raises(InputError, match=r"train\.json: is damaged"):
        verify_file(path)


def test_names_that_are_added_leave_the_others_as_they_were(folder):
    write_sums(folder / "images", ["a/0.jpg", "a/1.jpg"])
    change(folder / "images" / "a" / "0.jpg")
    assert write_sums(folder / "images", ["a/2.jpg"]) == 3
    assert [p.endswith("checksum") and "0.jpg" in p for p in check_sums(folder / "images")] == [True]


@pytest.mark.parametrize("damage", ["cut", "flip", "text", "binary", "empty line gone"])
def test_a_damaged_list_is_told(folder, damage):
    write_sums(folder)
    data = (folder / NAME).read_bytes()
    lines = data.splitlines(keepends=True)
    new = {
        "cut": data[: len(data) // 2],
        "flip": data[:200] + bytes([data[200] ^ 1]) + data[201:],
        "text": b"hello\n",
        "binary": b"\xff\xfe" + data,
        "empty line gone": b"".join(lines[:-1]),
    }[damage]
    (folder / NAME).write_bytes(new)
    with pytest.raises(InputError, match=NAME) as error:
        decode(folder / "images" / "a" / "0.jpg")
    assert "\n" not in str(error.value)


def test_the_commands(folder, tmp_path, capsys):
    common = ["data=recipeqa/textual_cloze", f"data.root={folder}", f"cache={tmp_path / 'cache'}"]
    run("prepare", tmp_path / "run", [*common, "task=checksums"])
    assert "5 files" in capsys.readouterr().out
    change(folder / "images" / "a" / "3.jpg")
    with pytest.raises(InputError, match="1 files are absent or damaged"):
        run("prepare", tmp_path / "run", [*common, "task=check"])
    assert "3.jpg" in capsys.readouterr().out
    with pytest.raises(InputError, match=r"data\.root"):
        run("prepare", tmp_path / "run", ["data=wikibooks/textual_cloze", "task=checksums"])
