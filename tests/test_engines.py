"""Engines: the same results everywhere, files that survive a kill, workers that do not outlive their parent."""

import io
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from data.build.engines import LocalEngine, RayEngine, finished
from data.errors import InputError

ROOT = Path(__file__).resolve().parents[1]


def scaled(shared, shard):
    """What a shard is, times what is shared; a shard may also ask for a fault."""
    wish = shard if isinstance(shard, str) else ""
    if wish == "input":
        raise InputError("file.json: recipe 7 is wrong")
    if wish == "fault":
        raise ZeroDivisionError("a fault of ours")
    if wish == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if isinstance(shard, tuple):
        log, name, pause = shard
        with open(log, "a") as file:
            file.write(f"{name} {os.getpid()}\n")
        time.sleep(pause)
        shard = np.array([float(name)])
    return {"value": np.asarray(shard) * shared}


SHARDS = [np.arange(n) + 0.5 for n in (3, 0, 5, 1, 2, 8, 1)]


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_every_shard_is_worked_on_once(workers):
    found = dict(LocalEngine(workers).run(scaled, 2.0, SHARDS))
    assert sorted(found) == list(range(len(SHARDS)))
    for place, shard in enumerate(SHARDS):
        assert np.array_equal(found[place]["value"], shard * 2)
    assert list(LocalEngine(workers).run(scaled, 2.0, [])) == []


@pytest.mark.slow
def test_ray_gives_the_same():
    ray = pytest.importorskip("ray", reason="needs Ray: pip install ray")
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])  # its workers do not see the tests
    found = dict(RayEngine(cpus=2, in_flight=2).run(scaled, 2.0, SHARDS))
    assert sorted(found) == list(range(len(SHARDS)))
    assert all(np.array_equal(found[place]["value"], shard * 2) for place, shard in enumerate(SHARDS))
    with pytest.raises(InputError, match=r"^file.json: recipe 7 is wrong$"):
        list(RayEngine(cpus=2).run(scaled, 2.0, ["input"]))


def test_ray_is_told_to_be_installed(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(InputError, match=r'engine=ray: Ray is not installed; run pip install "ray'):
        list(RayEngine().run(scaled, 1.0, [1]))


def test_negative_workers_are_refused():
    with pytest.raises(InputError, match=r"engine\.workers=-1"):
        LocalEngine(-1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shard", "error", "message"),
    [
        ("input", InputError, "^file.json: recipe 7 is wrong$"),
        ("fault", ZeroDivisionError, "a fault of ours"),
        ("die", InputError, "one of 2 worker processes was killed.*smaller engine.workers"),
    ],
)
def test_what_goes_wrong_in_a_worker_is_told(shard, error, message):
    with pytest.raises(error, match=message):
        list(LocalEngine(2).run(scaled, 2.0, [shard, shard]))


class Counting:
    """An engine that counts, and may break off after some shards."""

    def __init__(self, stop=None):
        self.stop, self.worked = stop, []

    def run(self, function, shared, shards):
        for place, shard in reversed(list(enumerate(shards))):  # not in order
            if self.stop is not None and len(self.worked) >= self.stop:
                raise KeyboardInterrupt
            self.worked.append(shard)
            yield place, function(shared, shard)


def finish(folder, engine, shards=SHARDS):
    text = io.StringIO()
    found = finished(engine, scaled, lambda: 3.0, shards, folder, "scaling", Console(file=text))
    return [part["value"].tolist() for part in found], text.getvalue()


def test_finished_shards_are_not_worked_on_again(tmp_path):
    wanted = [(shard * 3).tolist() for shard in SHARDS]
    with pytest.raises(KeyboardInterrupt):
        finish(tmp_path / "work", Counting(stop=4))
    engine = Counting()
    values, text = finish(tmp_path / "work", engine)
    assert values == wanted and len(engine.worked) == 3 and "4 of 7 shards were done before" in text
    engine = Counting()
    assert finish(tmp_path / "work", engine) == (wanted, "") and engine.worked == []


@pytest.mark.parametrize("damage", ["cut", "flip", "empty"])
def test_damaged_and_half_written_shards_are_made_again(tmp_path, damage):
    wanted, _ = finish(tmp_path, Counting())
    path = tmp_path / "000002.npz"
    data = bytearray(path.read_bytes())
    if damage == "flip":
        middle = data.index(b"\x93NUMPY") + 130
        data[middle] ^= 255
    path.write_bytes(b"" if damage == "empty" else bytes(data[: len(data) // 2] if damage == "cut" else data))
    (tmp_path / ".000003.npz.999999999.abc.partial").write_bytes(b"half")
    engine = Counting()
    assert finish(tmp_path, engine)[0] == wanted and len(engine.worked) == 1
    assert [entry.name for entry in sorted(tmp_path.iterdir())] == [f"{place:06d}.npz" for place in range(7)]


PROGRAM = """
import sys
from pathlib import Path
from rich.console import Console
from data.build.engines import LocalEngine, finished
from tests.test_engines import scaled

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    shards = [(str(folder / "log"), str(number), 0.2) for number in range(30)]
    finished(LocalEngine(2), scaled, lambda: 3.0, shards, folder / "work", "scaling", Console())
"""


@pytest.mark.slow
def test_workers_end_with_a_parent_that_is_killed(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    parent = subprocess.Popen([sys.executable, program, tmp_path], env=environment, stderr=subprocess.DEVNULL)
    while len(list((tmp_path / "work").glob("0*.npz"))) < 3:
        assert parent.poll() is None
        time.sleep(0.05)
    parent.kill()
    parent.wait()
    workers = {int(line.split()[1]) for line in (tmp_path / "log").read_text().splitlines()}
    assert len(workers) == 2
    until = time.monotonic() + 20
    while any(Path(f"/proc/{worker}").exists() for worker in workers) and time.monotonic() < until:
        time.sleep(0.05)
    assert not any(Path(f"/proc/{worker}").exists() for worker in workers)

    done = len(list((tmp_path / "work").glob("0*.npz")))
    before = len((tmp_path / "log").read_text().splitlines())
    shards = [(str(tmp_path / "log"), str(number), 0.0) for number in range(30)]
    values, text = finish(tmp_path / "work", LocalEngine(1), shards)
    assert values == [[3.0 * number] for number in range(30)]
    assert f"{done} of 30 shards were done before" in text
    assert len((tmp_path / "log").read_text().splitlines()) - before == 30 - done
