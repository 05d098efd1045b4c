import json
import os
import pickle
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from data import store as store_module
from data.errors import InputError
from data.store import block_digests, build_store, digest_of, key_digests, open_store

ROOT = Path(__file__).resolve().parents[1]
SIZE = 7


def vectors_of(keys):
    return np.array([[float(ord(c) % 13) for c in (key * SIZE)[:SIZE]] for key in keys], np.float32).reshape(-1, SIZE)


class Counting:
    def __init__(self, keys):
        self.keys, self.asked = keys, []

    def __call__(self, positions):
        self.asked += [self.keys[i] for i in positions]
        return vectors_of([self.keys[i] for i in positions])


def build(root, keys, settings=None, compute=None, **more):
    compute = compute or Counting(keys)
    return build_store(root, "test", settings or {"a": 1}, keys, compute, SIZE, chunk=5, **more), compute


def keys_of(n, start=0):
    return [f"key {i}" for i in range(start, start + n)]


@pytest.mark.parametrize("n", [0, 1, 5, 13])
def test_rows_give_back_what_was_computed(tmp_path, n):
    keys = keys_of(n)
    store, compute = build(tmp_path, keys)
    assert sorted(compute.asked) == sorted(keys)
    assert store.array.shape == (n, SIZE) and store.array.dtype == np.float32
    np.testing.assert_array_equal(store.array[store.rows(keys)], vectors_of(keys))
    again, compute = build(tmp_path, list(reversed(keys)))
    assert compute.asked == [] and again.folder == store.folder


def test_repeated_keys_are_stored_once(tmp_path):
    store, _ = build(tmp_path, ["b", "a", "b"])
    assert len(store) == 2
    np.testing.assert_array_equal(store.array[store.rows(["b", "a", "b"])], vectors_of(["b", "a", "b"]))


def test_row_order_says_nothing_about_names(tmp_path):
    keys = [f"recipe_{step}_0.jpg" for step in range(200)]
    rows = build(tmp_path, keys)[0].rows(keys)
    assert sorted(rows.tolist()) == list(range(200))
    assert abs(np.corrcoef(rows, np.arange(200))[0, 1]) < 0.2
    assert rows.tolist() == np.argsort(np.argsort(key_digests(keys))).tolist()


@pytest.mark.parametrize("size", [1, 7, 100])
def test_blocks_are_the_store_read_once(tmp_path, size):
    keys = [str(i) for i in range(23)]
    for dtype in ("float32", "float16"):
        store = build_store(tmp_path, "k", {}, keys, lambda p: np.outer(p, np.ones(3)), 3, dtype)
        starts, blocks = zip(*store.blocks(size), strict=True)
        assert list(starts) == list(range(0, 23, size))
        np.testing.assert_array_equal(np.concatenate(blocks), store.array)
    assert list(build_store(tmp_path, "k", {}, [], lambda p: np.zeros((0, 3)), 3).blocks()) == []


def test_unknown_key_and_store_of_another_set(tmp_path):
    store, _ = build(tmp_path, keys_of(4))
    for keys in (["nobody"], ["key 1", "zzz"]):
        with pytest.raises(InputError, match="another set"):
            store.rows(keys)
    with pytest.raises(InputError, match="another set"):
        build(tmp_path, [])[0].rows(["x"])


def test_a_changed_setting_or_dtype_is_another_store(tmp_path):
    keys = keys_of(3)
    folders = {build(tmp_path, keys, settings)[0].folder for settings in ({"a": 1}, {"a": 2}, {"a": "1"}, {"a": 1.5})}
    folders.add(build(tmp_path, keys, dtype="float16")[0].folder)
    assert len(folders) == 5
    # Even under a forged name the manifest is believed, not the folder.
    first = build(tmp_path, keys, {"a": 1})[0].folder
    second = build(tmp_path, keys, {"a": 2})[0].folder
    for file in second.iterdir():
        file.write_bytes((first / file.name).read_bytes())
    store, compute = build(tmp_path, keys, {"a": 2})
    assert len(compute.asked) == 3 and store.manifest["settings"]["a"] == 2


def test_known_rows_of_sibling_stores_are_copied(tmp_path):
    build(tmp_path, keys_of(6))
    build(tmp_path, keys_of(6, start=4))
    build(tmp_path, keys_of(30, start=20), {"a": 2})
    store, compute = build(tmp_path, keys_of(25))
    assert sorted(compute.asked) == sorted(keys_of(15, start=10))
    np.testing.assert_array_equal(store.array[store.rows(keys_of(25))], vectors_of(keys_of(25)))


def test_damaged_sibling_is_not_copied_from(tmp_path):
    first, _ = build(tmp_path, keys_of(6))
    flip(first.folder / "vectors.npy", -1)
    store, compute = build(tmp_path, keys_of(7))
    assert len(compute.asked) == 7
    np.testing.assert_array_equal(store.array[store.rows(keys_of(7))], vectors_of(keys_of(7)))


def flip(path, at):
    data = bytearray(path.read_bytes())
    data[at] ^= 4
    path.write_bytes(data)


DAMAGES = {
    "truncate": lambda path: path.write_bytes(path.read_bytes()[:-3]),
    "flip in the middle": lambda path: flip(path, path.stat().st_size // 2),
    "flip at the end": lambda path: flip(path, -2),
    "flip in the head": lambda path: flip(path, 8),
    "empty": lambda path: path.write_bytes(b""),
    "absent": lambda path: path.unlink(),
    "longer": lambda path: path.write_bytes(path.read_bytes() + b"more"),
    "noise": lambda path: path.write_bytes(b"\x93NUMPY nothing of the kind"),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("file", ["vectors.npy", "keys.npy", "manifest.json"])
def test_damage_is_named_and_repaired(tmp_path, file, damage):
    keys = keys_of(9)
    folder = build(tmp_path, keys)[0].folder
    DAMAGES[damage](folder / file)
    with pytest.raises(InputError) as error:
        open_store(folder)
    assert str(folder / file) in str(error.value) and "prepare it again" in str(error.value)
    assert "\n" not in str(error.value)
    store, compute = build(tmp_path, keys)
    assert len(compute.asked) == 9
    np.testing.assert_array_equal(store.array[store.rows(keys)], vectors_of(keys))
    open_store(folder)
    assert not [path for path in folder.parent.iterdir() if ".building-" in path.name]


WRONG = [
    ("vectors.npy", np.zeros((9, SIZE))),
    ("vectors.npy", np.zeros((8, SIZE), "f4")),
    ("keys.npy", np.zeros(9, "S31")),
]


@pytest.mark.parametrize("name,array", WRONG)
def test_wrong_dtype_or_shape(tmp_path, name, array):
    folder = build(tmp_path, keys_of(9))[0].folder
    np.save(folder / name, array)
    with pytest.raises(InputError, match=f"{name}: holds"):
        open_store(folder, verify=False)


def test_checksums_are_a_setting(tmp_path):
    folder = build(tmp_path, keys_of(9))[0].folder
    flip(folder / "vectors.npy", -1)
    open_store(folder, verify=False)
    assert build(tmp_path, keys_of(9), verify=False)[1].asked == []


def test_checksums_by_block(tmp_path, monkeypatch):
    monkeypatch.setattr(store_module, "BLOCK", 100)
    folder = build(tmp_path, keys_of(29))[0].folder
    data = (folder / "vectors.npy").read_bytes()
    assert len(block_digests(folder / "vectors.npy")) == -(-len(data) // 100)
    open_store(folder)
    flip(folder / "vectors.npy", 350)
    with pytest.raises(InputError, match="checksum"):
        open_store(folder)


def test_failed_computation_leaves_nothing(tmp_path):
    def compute(positions):
        raise InputError("picture 7: is damaged")

    with pytest.raises(InputError, match="picture 7"):
        build(tmp_path, keys_of(3), compute=compute)
    assert [path.name for path in tmp_path.rglob("*") if path.is_file() and path.suffix != ".lock"] == []
    with pytest.raises(InputError, match="not finite"):
        build(tmp_path, keys_of(3), compute=lambda positions: np.full((len(positions), SIZE), np.nan))
    with pytest.raises(InputError, match="float16"):
        build(tmp_path, keys_of(3), compute=lambda positions: np.full((len(positions), SIZE), 1e6), dtype="float16")
    with pytest.raises(ValueError, match="computed"):
        build(tmp_path, keys_of(3), compute=lambda positions: np.zeros((len(positions), SIZE + 1)))
    assert len(build(tmp_path, keys_of(3))[0]) == 3


def test_full_disk_is_one_line(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(store_module.os, "fsync", full)
    with pytest.raises(InputError, match="disk is full"):
        build(tmp_path, keys_of(3))
    monkeypatch.undo()
    assert len(build(tmp_path, keys_of(3))[0]) == 3


def test_a_worker_gets_the_path_and_not_the_vectors(tmp_path):
    store, _ = build(tmp_path, keys_of(1000))
    sent = pickle.dumps(store)
    assert len(sent) < 1000
    np.testing.assert_array_equal(pickle.loads(sent).array, store.array)
    assert not store.array.flags.writeable


def test_digest_of_settings():
    assert digest_of({"a": 1, "b": [1, 2]}) == digest_of({"b": [1, 2], "a": 1})
    assert len({digest_of(value) for value in ({"a": 1}, {"a": "1"}, {"a": None}, {"a": True}, ["a", 1])}) == 5


# ---- several processes -----------------------------------------------------------------------------------------------

BUILDER = """
import sys, time, numpy as np
from pathlib import Path
sys.path.insert(0, {root!r})
from data.store import build_store
folder, calls, wait = Path(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3])
keys = ["key %d" % i for i in range(40)]
def compute(positions):
    with open(calls, "a") as file:
        file.write("".join("%d\\n" % p for p in positions))
    time.sleep(wait)
    return np.repeat(positions[:, None], {size}, 1)
store = build_store(folder, "race", {{"a": 1}}, keys, compute, {size}, chunk=4)
assert (store.array[store.rows(keys)] == np.arange(40)[:, None]).all()
print("right")
"""


def start(root, wait=0.02):
    code = BUILDER.format(root=str(ROOT), size=SIZE)
    arguments = [sys.executable, "-c", code, str(root), str(root / "calls"), str(wait)]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("count", [2, 4])
def test_racing_processes_all_end_right_and_one_computes(tmp_path, count):
    builders = [start(tmp_path) for _ in range(count)]
    for builder in builders:
        out, err = builder.communicate(timeout=60)
        assert out == "right\n", err
    assert sorted(map(int, (tmp_path / "calls").read_text().split())) == list(range(40))


def wait_for(condition, seconds=30):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_a_killed_builder_leaves_no_lock_and_its_rest_is_swept(tmp_path):
    draw = random.Random(5)
    for _ in range(3):
        (tmp_path / "calls").unlink(missing_ok=True)
        builder = start(tmp_path, wait=0.05)
        wait_for(lambda: (tmp_path / "calls").exists())
        time.sleep(draw.random() * 0.3)
        os.kill(builder.pid, signal.SIGKILL)
        builder.communicate()
    assert [path for path in tmp_path.rglob(".*.building-*") if path.is_dir()]
    other = next(tmp_path.glob("race/*")) / ".0123456789abcdef.building-xyz"  # left by the builder of another set
    other.mkdir()
    begin = time.monotonic()
    out, err = start(tmp_path, wait=0).communicate(timeout=60)
    assert out == "right\n", err
    assert time.monotonic() - begin < 20
    assert not list(tmp_path.rglob(".*.building-*"))


def test_one_waits_for_another_that_is_killed(tmp_path):
    first = start(tmp_path, wait=0.5)
    wait_for(lambda: (tmp_path / "calls").exists())
    second = start(tmp_path, wait=0)
    time.sleep(1)
    assert second.poll() is None
    os.kill(first.pid, signal.SIGKILL)
    first.communicate()
    out, err = second.communicate(timeout=60)
    assert out == "right\n" and "waiting" in err


@pytest.mark.slow
def test_memory_at_250_000_rows(tmp_path):
    code = f"""
import sys, resource, numpy as np
sys.path.insert(0, {str(ROOT)!r})
from pathlib import Path
from data.store import build_store
keys = [format(i, "064x") for i in range(250_000)]
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
build = lambda: build_store(Path({str(tmp_path)!r}), "k", {{}}, keys, lambda p: np.ones((len(p), 256)), 256, "float16")
store = build()
store.rows(keys)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    # 122 MiB of vectors, of which only the parts being written, hashed (64 MiB) and mapped are resident.
    assert int(out.stdout) < 400, out.stderr


def test_manifest_is_readable(tmp_path):
    folder = build(tmp_path, keys_of(3))[0].folder
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["shape"] == [3, SIZE] and manifest["settings"]["a"] == 1 and manifest["versions"]["numpy"]
