"""Kill a process while it saves checkpoints, many times, and look at what is left; then let the disk run full.

    python benchmarks/kill_save.py [--kills 200] [--mib 8] [--seed 0]

A fork saves one checkpoint after the other under the same name and is killed after a random while. What lies there then
must be whole and no older than the last save that had returned; half-written files of dead processes are gone after the
next start. For comparison the same with a plain `torch.save` onto the file. The full disk is RLIMIT_FSIZE, below which
writing fails as it does on a full disk; with --tmpfs FOLDER (a small mounted file system) it is a real one.
"""

import argparse
import os
import random
import resource
import struct
import sys
import tempfile
import time
from pathlib import Path

import torch
from tqdm import tqdm

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from data.errors import InputError
from data.files import sweep_partial_files
from engine.checkpoints import AtomicCheckpointIO, load_checkpoint
from tests.forks import fork


def checkpoint(number: int, mib: float) -> dict[str, object]:
    """A checkpoint of about that size whose numbers are all the same."""
    weights = torch.full((int(mib * 2**18),), number, dtype=torch.int32)
    return {"state_dict": {"w": weights}, "config": {"model": {"name": "m"}}}


def kills(folder: Path, count: int, mib: float, seed: int, plain: bool = False) -> dict[str, int]:
    """How many of the files were damaged, older than the last save that returned, or left half written."""
    draw, path = random.Random(seed), folder / "last.ckpt"
    done = os.open(folder / "done", os.O_RDWR | os.O_CREAT)  # number of the last save that returned
    found = {"damaged": 0, "lost": 0, "killed in a save": 0, "left after the next start": 0}

    def save_for_ever(first: int) -> None:
        number = first
        while True:
            number += 1
            if plain:
                torch.save(checkpoint(number, mib), path)
            else:
                AtomicCheckpointIO().save_checkpoint(checkpoint(number, mib), path)
            os.pwrite(done, struct.pack("q", number), 0)

    AtomicCheckpointIO().save_checkpoint(checkpoint(0, mib), path)
    for i in tqdm(range(count), desc="kills", leave=False):
        first = (i + 1) * 1_000_000
        os.pwrite(done, struct.pack("q", first), 0)
        child = fork(lambda first=first: save_for_ever(first), folder / "log")
        while struct.unpack("q", os.pread(done, 8, 0))[0] == first:
            assert child.poll() is None, child.text()
            time.sleep(0.001)
        time.sleep(draw.random() * 0.1)
        child.kill()
        child.wait()
        (returned,) = struct.unpack("q", os.pread(done, 8, 0))
        found["killed in a save"] += bool(list(folder.glob(".*.partial")))
        try:
            values = load_checkpoint(path)["state_dict"]["w"]
        except InputError:
            found["damaged"] += 1
            AtomicCheckpointIO().save_checkpoint(checkpoint(first, mib), path)
            continue
        found["damaged"] += not bool(values.eq(values[0]).all())
        found["lost"] += int(values[0]) < returned
        sweep_partial_files(folder)
        found["left after the next start"] += bool(list(folder.glob(".*.partial")))
    os.close(done)
    return found


def full_disk(folder: Path, mib: float, limit: bool = True) -> str:
    """What is said when there is no room for a second checkpoint; raises if the first one changed or a file is left."""
    path = folder / "last.ckpt"
    AtomicCheckpointIO().save_checkpoint(checkpoint(1, mib), path)
    before = path.read_bytes()

    def save() -> None:
        if limit:
            resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, 2**20))
        try:
            AtomicCheckpointIO().save_checkpoint(checkpoint(2, 2 * mib), path)
        except InputError as error:
            print(error)

    with tempfile.TemporaryDirectory(prefix="bench_log_") as logs:
        child = fork(save, Path(logs) / "log")
        assert child.wait() == 0, child.text()
        said = child.text().strip()
    assert said.startswith(str(path)) and "\n" not in said, said
    assert path.read_bytes() == before, "the previous checkpoint changed"
    assert [p.name for p in folder.iterdir()] == ["last.ckpt"], list(folder.iterdir())
    return said


def tiny_tmpdir(folder: Path, mib: float) -> None:
    """A save while $TMPDIR names a folder that does not exist, where Lightning's own way fails."""

    def save() -> None:
        os.environ["TMPDIR"] = str(folder / "nowhere")
        tempfile.tempdir = str(folder / "nowhere")
        AtomicCheckpointIO().save_checkpoint(checkpoint(3, mib), folder / "tmpdir.ckpt")

    child = fork(save, folder / "log")
    assert child.wait() == 0, child.text()
    assert int(load_checkpoint(folder / "tmpdir.ckpt")["state_dict"]["w"][0]) == 3


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--mib", type=float, default=8)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tmpfs", type=Path, help="an empty folder on a small file system, e.g. of 12 MiB")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    for name, plain in (("AtomicCheckpointIO", False), ("torch.save onto the file", True)):
        count = arguments.kills if not plain else min(40, arguments.kills)
        with tempfile.TemporaryDirectory(prefix="bench_save_") as folder:
            rows.append((f"{name}, {count} kills", kills(Path(folder), count, arguments.mib, arguments.seed, plain)))
    print(f"| {arguments.mib:g} MiB | {' | '.join(rows[0][1])} |")
    print("|---" + "|---" * len(rows[0][1]) + "|")
    for name, found in rows:
        print(f"| {name} | {' | '.join(map(str, found.values()))} |")
    with tempfile.TemporaryDirectory(prefix="bench_full_") as folder:
        print("full disk (limit of file size):", full_disk(Path(folder), arguments.mib).replace(folder, "…"))
    if arguments.tmpfs:
        print("full disk:", full_disk(arguments.tmpfs, arguments.mib, limit=False))
    with tempfile.TemporaryDirectory(prefix="bench_tmpdir_") as folder:
        tiny_tmpdir(Path(folder), arguments.mib)
        print("a temporary folder that cannot be used: saved all the same")


if __name__ == "__main__":
    main()
