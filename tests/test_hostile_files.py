"""Pickles, checkpoints, arrays and texts from strangers: nothing in them runs, and none fills memory or stack."""

import contextlib
import functools
import gzip
import importlib.machinery
import io
import json
import operator
import os
import pickle
import runpy
import shutil
import subprocess
import timeit
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from data.errors import InputError
from data.files import unpacked
from data.images import ReleasedFeatures
from data.pickles import load_plain
from data.recipe1m import Photos, read_classes, read_records
from data.recipe1m_lmdb import LmdbRecipes
from data.recipeqa import read_questions
from data.weights import read_weights
from engine.checkpoints import load_checkpoint
from engine.embeddings import read_embeddings


class Calls:
    """Pickles as a call of `function`."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call

    def __call__(self):
        """Never called: pickle wants something callable where a call's result is called."""


class Builds:
    """Pickles as a call whose result is then given a state."""

    def __init__(self, function, arguments, state):
        self.call = function, arguments, state

    def __reduce__(self):
        return self.call


def payloads(folder: Path) -> dict[str, bytes]:
    """Each of these makes the file `sentinel` when it is unpickled by Python's own reader."""
    sentinel = folder / "sentinel"
    command, code = f"touch {sentinel}", f"open({str(sentinel)!r}, 'w').close()"
    script = folder / "script.py"
    script.write_text(code)
    (folder / "hub").mkdir(exist_ok=True)
    (folder / "hub" / "hubconf.py").write_text(f"{code}\ndef entry():\n    return 1\n")
    source = folder / "source"
    source.write_text("x")
    os_system = pickle.dumps(Calls(os.system, command))
    objects = np.empty(1, object)
    objects[0] = Calls(os.system, command)
    np.save(folder / "objects.npy", objects, allow_pickle=True)
    torch.save(Calls(os.system, command), folder / "inner.pt")
    calls = {
        "os.system": Calls(os.system, command),
        "eval": Calls(eval, code),
        "exec": Calls(exec, code),
        "compile and exec": Calls(exec, Calls(compile, code, "x", "exec")),
        "subprocess.run": Calls(subprocess.check_call, ["touch", str(sentinel)]),
        "subprocess.getoutput": Calls(subprocess.getoutput, command),
        "os.popen and read": Calls(operator.methodcaller("read"), Calls(os.popen, command)),
        "torch.hub": Calls(functools.partial(torch.hub.load, source="local"), str(folder / "hub"), "entry"),
        "torch.load": Calls(functools.partial(torch.load, weights_only=False), folder / "inner.pt"),
        "runpy": Calls(runpy.run_path, str(script)),
        "numpy.load": Calls(np.load, str(folder / "objects.npy"), None, True),
        "importlib": Calls(
            operator.methodcaller("load_module"), Calls(importlib.machinery.SourceFileLoader, "x_hostile", str(script))
        ),
        "getattr chain": Calls(Calls(getattr, Calls(__import__, "os"), "system"), command),
        "attrgetter": Calls(Calls(Calls(operator.attrgetter, "system"), Calls(__import__, "os")), command),
        "functools.partial": Calls(Calls(functools.partial, os.system, command)),
        "functools.reduce": Calls(functools.reduce, eval, [code, {}]),
        "map": Calls(list, Calls(map, os.system, [command])),
        "open": Calls(open, str(sentinel), "w"),
        "shutil": Calls(shutil.copyfile, str(source), str(sentinel)),
        "timeit": Calls(timeit.timeit, code, "pass", timeit.default_timer, 1),
        "nested pickle": Calls(pickle.loads, os_system),
        "hidden in an array's state": Builds(np.ndarray, ((1,),), (1, (1,), np.dtype("O"), False, [Calls(exec, code)])),
    }
    made = {name: pickle.dumps(call, 2) for name, call in calls.items()}
    made["opcode INST"] = b"(S'" + command.encode() + b"'\nios\nsystem\n."
    made["opcode OBJ"] = b"(cos\nsystem\nS'" + command.encode() + b"'\no."
    made["nt or posix"] = b"cposix\nsystem\n(S'" + command.encode() + b"'\ntR."
    return made


def _zip_with_pickle(path: Path, payload: bytes) -> None:
    """A file of torch.save whose pickle is the payload."""
    torch.save({"state_dict": {}}, path)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, payload if name.endswith("data.pkl") else content)


def _array_header(shape: str = "(1,)", kind: str = "|O") -> bytes:
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117).encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header


def read_everywhere(folder: Path, payload: bytes) -> int:
    """Give a pickle to every reader of files from strangers; how many there were. Fails unless each refuses it."""
    (folder / "x.pkl").write_bytes(payload)
    (folder / "two.pkl").write_bytes(pickle.dumps({"a": 1}) + payload)
    _zip_with_pickle(folder / "x.ckpt", payload)
    (folder / "old.ckpt").write_bytes(payload)
    array = _array_header() + payload
    (folder / "x.npy").write_bytes(array)
    (folder / "embeddings").mkdir(exist_ok=True)
    (folder / "embeddings" / "ids.txt").write_text("a\n")
    for name in ("image.npy", "recipe.npy"):
        (folder / "embeddings" / name).write_bytes(array)
    with zipfile.ZipFile(folder / "x.npz", "w") as archive:
        for name in ("ids.npy", "image.npy", "recipe.npy"):
            archive.writestr(name, array)
    readers = [
        lambda: read_classes(folder / "x.pkl"),
        lambda: read_classes(folder / "two.pkl"),
        lambda: LmdbRecipes(folder / "base", folder / "x.pkl"),
        lambda: load_plain(io.BytesIO(payload), arrays=True),
        lambda: ReleasedFeatures(folder / "x.pkl").extract([Path("a.jpg")]),
        lambda: load_checkpoint(folder / "x.ckpt"),
        lambda: load_checkpoint(folder / "old.ckpt"),
        lambda: read_weights(folder / "x.ckpt", "features.weights"),
        lambda: read_weights(folder / "old.ckpt", "features.weights"),
        lambda: read_embeddings(folder / "x.npz"),
        lambda: read_embeddings(folder / "embeddings"),
    ]
    for read in readers:
        with pytest.raises((InputError, ValueError)) as error:
            read()
        assert "\n" not in str(error.value)
    return len(readers)


def test_no_pickle_runs_anything(tmp_path):
    from tests.test_recipe1m_lmdb import value, write

    write(tmp_path / "base", {"0" * 10: value()})
    sentinel = tmp_path / "sentinel"
    made = payloads(tmp_path)
    assert len(made) >= 20
    for name, payload in made.items():
        with contextlib.suppress(TypeError, AttributeError, ValueError):  # of what a payload leaves behind
            pickle.loads(payload)  # so that it is known to work
        assert sentinel.exists(), name
        sentinel.unlink()
        read_everywhere(tmp_path, payload)
        assert not sentinel.exists(), name


def test_arrays_with_forged_types_are_no_arrays():
    """NumPy's own reader takes a type's fields from the file, so that bytes become pointers to Python objects."""
    forged = Builds(np.dtype, ("V8", False, True), (3, "|", None, ("a",), {"a": (np.dtype("O"), 0)}, 8, 1, 0))
    array = Builds(np.empty(0).__reduce__()[0], (np.ndarray, (0,), b"b"), (1, (1,), forged, False, b"\1" * 8))
    with pytest.raises(ValueError, match="holds an array"):
        load_plain(io.BytesIO(pickle.dumps({"a.jpg": array}, 2)), arrays=True)


def test_lists_in_lists_do_not_grow(tmp_path):
    row = [0.5] * 10_000
    for _ in range(3):
        row = [row] * 10_000  # 10^16 numbers if they were told
    (tmp_path / "x.pkl").write_bytes(pickle.dumps({"a.jpg": row}))
    with pytest.raises(InputError, match=r"a\.jpg"):
        ReleasedFeatures(tmp_path / "x.pkl").extract([Path("a.jpg")])
    (tmp_path / "y.pkl").write_bytes(pickle.dumps({"a.jpg": [row] * 2048}))
    with pytest.raises(InputError, match=r"a\.jpg"):
        ReleasedFeatures(tmp_path / "y.pkl").extract([Path("a.jpg")])


def test_a_gzip_file_that_grows_a_thousandfold_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("data.files.FREE", 1 << 20)
    bomb = gzip.compress(b'{"data": [' + b" " * (8 << 20), 9)
    (tmp_path / "train.json.gz").write_bytes(bomb)
    with pytest.raises(InputError, match=r"train\.json\.gz: unpacks to more than 100 times"):
        read_questions(tmp_path / "train.json.gz")
    (tmp_path / "layer1.json").write_bytes(gzip.compress(b"[" + b'{"id": "a"},' * (1 << 20), 9))
    with pytest.raises(InputError, match=r"layer1\.json: unpacks to more than 100 times"):
        for _ in read_records(tmp_path / "layer1.json"):
            pass
    (tmp_path / "test.json.gz").write_bytes(gzip.compress(b"{}") + bytes(1 << 24))
    with pytest.raises(InputError, match=r"test\.json\.gz: ends in zeros"):
        read_questions(tmp_path / "test.json.gz")
    text = json.dumps({"data": [os.urandom(20).hex() for _ in range(60_000)]}).encode()
    with io.BytesIO(gzip.compress(text)) as raw:
        assert unpacked(raw, tmp_path).read() == text  # what is no bomb comes whole


@pytest.mark.parametrize("opening", ["[", '{"data": [', '[{"id": ', '{"a": '])
def test_json_of_any_depth_is_one_line(tmp_path, opening):
    from data.foodieqa import read_file

    path = tmp_path / "deep.json"
    path.write_text(opening * 200_000)
    for read in (read_questions, lambda p: list(read_records(p)), lambda p: read_file(p, "textqa", "en")):
        with pytest.raises(InputError, match=r"deep\.json") as error:
            read(path)
        assert "\n" not in str(error.value)


def test_a_picture_of_182_million_pixels_is_refused_by_its_header(tmp_path, monkeypatch):
    from annotation.store import Refused, clean_photo
    from data.build import check, check_recipes, demo_dishes, sources
    from data.food_images import data_uri, load_image
    from data.images import decode, read_header
    from data.photos import load_pixels

    def chunk(kind, data):
        return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")

    rows = zlib.compress(bytes((13_500 // 8 + 2) * 13_500), 9)
    head = (13_500).to_bytes(4, "big") * 2 + bytes([1, 0, 0, 0, 0])
    path = tmp_path / "b" / "o" / "m" / "b" / "bomb.png"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b""))
    monkeypatch.setattr(Image.Image, "load", lambda self: pytest.fail("was decoded"))
    monkeypatch.setattr("PIL.ImageFile.ImageFile.load", lambda self: pytest.fail("was decoded"))
    monkeypatch.setattr("data.images.decode_image", lambda *_: pytest.fail("was decoded"))
    for refuse in (
        lambda: decode(path),
        lambda: decode(path, "pil"),
        lambda: read_header(path.read_bytes(), path),
        lambda: load_pixels(path),
        lambda: load_image(path),
        lambda: data_uri(path),
        lambda: demo_dishes._check_photo(str(path), path),
    ):
        with pytest.raises(InputError, match=r"bomb\.png"):
            refuse()
    with pytest.raises(Refused):
        clean_photo(path.read_bytes())
    assert check._look(path)[1] and sources._header_fault(path)
    assert "pixels" in check_recipes._look(Photos(tmp_path, ((tmp_path, False),)), "train", path.name)[2]
