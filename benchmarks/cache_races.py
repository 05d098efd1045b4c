"""Let 2 and then 4 processes build the same cache at once, kill one of them in every other round.

    python benchmarks/cache_races.py [--rounds 50] [--seed 0]

A round is right if every builder that was not killed ends with the right vectors, each vector is computed once (a
killed builder's share twice), exactly one valid store is left and nothing half built, the wait after a kill is under
5 s, and a reader that opened the store over and over meanwhile met it absent or whole, never short.
"""

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from tqdm import tqdm

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from data.store import build_store, open_store
from tests.forks import Fork, fork

KEYS = [f"key {i}" for i in range(60)]
SIZE, CHUNK = 512, 6


def build(root: Path) -> None:
    """Build or open the store, slowly, noting each vector that is computed and whose it was."""

    def compute(positions: np.ndarray) -> np.ndarray:
        with open(root / "calls", "a") as file:
            file.write("".join(f"{p}\n" for p in positions))
        time.sleep(0.01)
        return np.repeat(positions[:, None], SIZE, 1)

    store = build_store(root, "race", {"a": 1}, KEYS, compute, SIZE, chunk=CHUNK)
    assert (store.array[store.rows(KEYS)] == np.arange(len(KEYS))[:, None]).all()


def read(root: Path) -> None:
    """Open the store again and again until told to stop; every one must be whole."""
    opened, last = 0, False
    while not last:
        last = (root / "stop").exists()  # once more after the end, when it must be there
        for folder in (path for path in root.glob("race/*/*") if path.is_dir() and not path.name.startswith(".")):
            store = open_store(folder)
            assert (store.array[store.rows(KEYS)] == np.arange(len(KEYS))[:, None]).all()
            opened += 1
    assert opened


def one_round(root: Path, builders: int, kill_after: float | None) -> str | None:
    """What went wrong, or None."""
    reader = fork(lambda: read(root), root / "reader.log")
    running: list[Fork] = [fork(lambda: build(root), root / f"{i}.log") for i in range(builders)]
    takeover, victim = 0.0, None
    if kill_after is not None:
        while not (root / "calls").exists():
            time.sleep(0.001)
        time.sleep(kill_after)
        # Whoever computes holds the lock: its log says nothing, those of the others say that they wait.
        holders = [f for f in running if f.poll() is None and "waiting" not in f.text()]
        if holders:
            victim = holders[0]
            victim.kill()
            before, begin = len((root / "calls").read_text().split()), time.monotonic()
            while len((root / "calls").read_text().split()) <= before and time.monotonic() < begin + 10:
                if all(f.poll() is not None for f in running):
                    break
                time.sleep(0.001)
            takeover = time.monotonic() - begin
    for builder in running:
        status = builder.wait()
        if builder is not victim and status != 0:
            return f"a builder ended with {status}: {builder.text()[-800:]}"
    (root / "stop").touch()
    if reader.wait() != 0:
        return f"a reader met a store that was not whole: {reader.text()[-800:]}"
    stores = [path for path in root.glob("race/*/*") if path.is_dir()]
    if len(stores) != 1 or len(open_store(stores[0])) != len(KEYS):
        return f"left behind: {[path.name for path in stores]}"
    calls = [int(line) for line in (root / "calls").read_text().split()]
    most = 2 if victim is not None and victim.status == -9 else 1
    counts = np.bincount(calls, minlength=len(KEYS))
    if counts.min() < 1 or counts.max() > most:
        return f"vectors were computed {counts.min()} to {counts.max()} times"
    return f"the lock was taken over after {takeover:.1f} s" if takeover > 5 else None


def rounds(root: Path, count: int, seed: int) -> list[str]:
    """What went wrong in `count` rounds: 2 builders in the first half, then 4; every other round has a kill."""
    draw, wrong = random.Random(seed), []
    for number in tqdm(range(count), desc="rounds", leave=False):
        folder = root / str(number)
        folder.mkdir()
        builders = 2 if number < (count + 1) // 2 else 4
        error = one_round(folder, builders, draw.random() * 0.15 if number % 2 else None)
        if error:
            wrong.append(f"round {number}, {builders} builders: {error}")
    return wrong


def main() -> None:
    """Print the figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench_races_") as folder:
        wrong = rounds(Path(folder), arguments.rounds, arguments.seed)
    print(f"cache races: {arguments.rounds - len(wrong)} of {arguments.rounds} right")
    print("\n".join(wrong), file=sys.stderr)


if __name__ == "__main__":
    main()
