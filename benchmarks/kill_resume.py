"""Kill training at random moments, resume it, and compare every bit with a run that nobody killed.

    python benchmarks/kill_resume.py [--points 20] [--seed 0] [--workers 0] [--epochs 12] [key=value ...]

Each point starts a small run of about 60 steps, sends SIGKILL at a random moment between its start and its end (every
fourth: while a checkpoint is being written), starts it again with `ckpt_path=.../last.ckpt`, or from nothing where
there is none yet, kills every third once more, and lets it finish. Compared with the run that was left alone: weights
and optimizer of both checkpoints, schedules, counters of early stopping and freezing, the loops' counters, the curve,
the metrics, the predictions, and the rows of the CSV tracker. Processes are forked from one that has imported
everything. `--signals` sends SIGTERM and SIGINT in place of SIGKILL; the exit status must be 143 and 130.
"""

import argparse
import csv
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tests.forks import Fork, command, warm
from tests.made_up_recipes import write_recipe1m
from tests.runs import SMALL, small_files

READER = [
    *SMALL,
    "trainer.max_epochs=12",
    "callbacks.last.every_n_steps=3",
    "callbacks.early_stopping.patience=9",
    "logger=[csv]",
    "trainer.log_every_n_steps=1",
]
DUAL_ENCODER = [
    "data=recipe1m",
    "model=im2recipe",
    "features.resize=64",
    "features.crop=64",
    "data.image_input=features",
    "data.mismatch=0.8",
    "loss@model.loss.ranking=pairwise_cosine",
    "callbacks=alternating",
    "callbacks.freezing.first_patience=1",
    "callbacks.freezing.patience=1",
    "callbacks.last.every_n_steps=2",
    "text.min_count=1",
    "text.vector_size=16",
    "text.epochs=2",
    "model.net.embedding_size=32",
    "model.net.ingredient_hidden=16",
    "model.net.instruction_hidden=16",
    "model.net.sentence_hidden=16",
    "data.batch_size=16",
    "trainer.max_epochs=15",
    "trainer.accelerator=cpu",
    "trainer.enable_progress_bar=false",
    "trainer.log_every_n_steps=1",
    "sanity=false",
    "logger=[csv]",
]


def files(model: str, folder: Path) -> list[str]:
    """Made-up data of a model; the overrides that describe the whole run."""
    if model == "reader":
        return [*small_files(folder), *READER]
    write_recipe1m(folder, {"train": 64, "val": 12, "test": 13})
    return [f"data.root={folder}", f"cache={folder / 'cache'}", *DUAL_ENCODER]


def contents(folder: Path) -> dict[str, Any]:
    """Everything a run leaves behind that must not depend on whether it was interrupted."""
    found: dict[str, Any] = {}
    for name in ("last", "best"):
        state = torch.load(folder / "checkpoints" / f"{name}.ckpt", weights_only=True)
        for key in ("state_dict", "optimizer_states", "lr_schedulers", "loops", "epoch", "global_step"):
            found[f"{name} {key}"] = state[key]
        for key, value in state["callbacks"].items():  # paths are the run folder's own
            plain = {k: v for k, v in value.items() if k != "dirpath" and "path" not in k and k != "best_k_models"}
            found[f"{name} {key.partition('{')[0]}"] = plain
    for name in ("history.jsonl", "metrics.json", "predictions.jsonl", "ranks.csv"):
        if (folder / name).is_file():
            found[name] = (folder / name).read_bytes()
    if (folder / "embeddings_test.npz").is_file():
        with np.load(folder / "embeddings_test.npz") as arrays:
            found["embeddings"] = {key: torch.from_numpy(arrays[key]) for key in ("image", "recipe")}
    found["csv rows"] = csv_rows(folder)
    return found


def csv_rows(folder: Path) -> list[tuple[str, ...]]:
    """(step, metric, value) of all CSV files of the tracker, in order; a row that is there twice counts twice."""
    rows = []
    for path in folder.glob("csv/**/metrics.csv"):
        with open(path, newline="") as file:
            for row in csv.DictReader(file):
                rows += [(row["step"], key, value) for key, value in row.items() if value and key not in ("step",)]
    return sorted(rows, key=lambda row: (int(row[0]), *row[1:]))


def differences(a: Any, b: Any, place: str = "") -> list[str]:
    """Names of the parts that differ."""
    if isinstance(a, torch.Tensor):
        return [] if isinstance(b, torch.Tensor) and torch.equal(a, b) else [place]
    if isinstance(a, dict) and isinstance(b, dict):
        keys = dict.fromkeys([*a, *b])
        return [d for k in keys for d in differences(a.get(k), b.get(k), f"{place}/{k}" if place else str(k))]
    if isinstance(a, list | tuple) and isinstance(b, list | tuple) and len(a) == len(b):
        return [d for i, (x, y) in enumerate(zip(a, b, strict=True)) for d in differences(x, y, f"{place}[{i}]")]
    return [] if type(a) is type(b) and a == b else [place]


def start(folder: Path, overrides: list[str]) -> Fork:
    """A run in this folder, resumed where it has a checkpoint."""
    last = folder / "checkpoints" / "last.ckpt"
    return command("train", folder, [*overrides, f"ckpt_path={last}"] if last.is_file() else overrides)


def interrupt(fork: Fork, folder: Path, delay: float, number: int, saving: bool = False) -> bool:
    """Send a signal after some seconds, or after that at the first sight of a half-written checkpoint."""
    end = time.monotonic() + delay
    while time.monotonic() < end and fork.poll() is None:
        time.sleep(0.001)
    while saving and fork.poll() is None and not any((folder / "checkpoints").glob(".*.partial")):
        pass
    if fork.poll() is not None:
        return False
    fork.kill(number)
    return True


def one_point(folder: Path, overrides: list[str], draw: random.Random, seconds: float, number: int, point: int) -> str:
    """Interrupt a run, once or twice, and let it finish; what it was, for messages. InputError texts are faults."""
    story = []
    for attempt in range(2 if point % 3 == 2 else 1):
        saving = point % 4 == 3 and attempt == 0
        while True:
            delay = draw.uniform(0, seconds * (0.7 if saving else 1))
            fork = start(folder, overrides)
            hit = interrupt(fork, folder, delay, number, saving)
            status = fork.wait()
            if hit and status != 0:
                break
            if status != 0:
                raise RuntimeError(fork.text())
            if attempt:  # it was resumed near its end
                return ", ".join(story)
            shutil.rmtree(folder)  # it had finished before the signal
        wanted = {signal.SIGKILL: -9, signal.SIGTERM: 143, signal.SIGINT: 130}[signal.Signals(number)]
        where = "in a save" if saving else f"at {delay:.2f} s"
        if status != wanted or "Traceback" in fork.text():
            raise RuntimeError(f"status {status}, not {wanted}, {where}: {fork.text()[-2000:]}")
        story.append(where)
    fork = start(folder, overrides)
    if fork.wait() != 0:
        raise RuntimeError(f"{story}: {fork.text()[-2000:]}")
    return ", ".join(story)


def points(model: str, count: int, seed: int, root: Path, number: int = signal.SIGKILL, *more: str) -> list[str]:
    """What went wrong at `count` random moments; an empty list is the promise kept."""
    draw = random.Random(seed)
    overrides = [*files(model, root), *more]
    warming = start(root / "first", overrides)  # fills the cache
    assert warming.wait() == 0, warming.text()
    begin = time.monotonic()
    whole = start(root / "whole", overrides)
    assert whole.wait() == 0, whole.text()
    seconds = time.monotonic() - begin
    expected = contents(root / "whole")
    steps = expected["last global_step"]
    print(f"{model}: {steps} steps, {seconds:.1f} s uninterrupted, {len(expected['csv rows'])} tracker values")
    assert not differences(expected, contents(root / "first")), "two whole runs differ"
    wrong = []
    for point in range(count):
        folder = root / f"point_{point}"
        story = one_point(folder, overrides, draw, seconds, number, point)
        found = differences(expected, contents(folder))
        left = [path.name for path in folder.rglob(".*.partial")]
        print(
            f"  {point + 1}/{count} {story}: {'identical' if not found else ', '.join(found)} {left or ''}", flush=True
        )
        if found or left:
            wrong.append(f"{story}: {found} {left}")
        shutil.rmtree(folder)
    return wrong


def early_stopping(root: Path, epochs: Sequence[int]) -> list[str]:
    """Kill a run that will stop early right after each of these epochs; what ended otherwise than the whole run."""
    overrides = [*files("reader", root), "trainer.max_epochs=60", "callbacks.early_stopping.patience=12"]
    overrides += ["model.optimizer.lr=0.02", "logger=[]"]
    whole = start(root / "whole", overrides)
    assert whole.wait() == 0, whole.text()
    expected = contents(root / "whole")
    stopped = len(expected["history.jsonl"].splitlines())
    best = expected["best epoch"]
    print(f"early stopping: best epoch {best}, stopped after {stopped} epochs of 60")
    assert max(epochs) < stopped < 60, "the run must stop by itself, and after the last kill"
    wrong = []
    for epoch in epochs:
        folder = root / f"epoch_{epoch}"
        fork = start(folder, overrides)
        curve = folder / "history.jsonl"
        while fork.poll() is None and not (curve.is_file() and len(curve.read_bytes().splitlines()) >= epoch):
            time.sleep(0.0005)
        fork.kill()
        fork.wait()
        if start(folder, overrides).wait() != 0:
            wrong.append(f"epoch {epoch}: cannot be resumed")
        elif found := differences(expected, contents(folder)):
            wrong.append(f"epoch {epoch}: {found}")
        shutil.rmtree(folder)
    return wrong


def main() -> None:
    """Print one line for each point and the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=20)
    parser.add_argument("--model", nargs="+", default=["reader", "dual_encoder"])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--signals", action="store_true")
    parser.add_argument("--epochs", type=int, default=12, help="of early stopping that are interrupted; 0: none")
    parser.add_argument("overrides", nargs="*", help="more settings of all runs, such as logger=[]")
    arguments = parser.parse_args()
    warm()
    rows = []
    if arguments.epochs:
        with tempfile.TemporaryDirectory(prefix="bench_early_") as folder:
            wrong = early_stopping(Path(folder), range(1, arguments.epochs + 1))
        print(*wrong, sep="\n")
        rows.append(
            f"| early stopping, killed after each epoch | {arguments.epochs - len(wrong)} of {arguments.epochs} |"
        )
    for number in (signal.SIGTERM, signal.SIGINT) if arguments.signals else (signal.SIGKILL,):
        for model in arguments.model:
            with tempfile.TemporaryDirectory(prefix="bench_kill_") as folder:
                more = [f"data.num_workers={arguments.workers}", *arguments.overrides]
                wrong = points(model, arguments.points, arguments.seed, Path(folder), number, *more)
            same = arguments.points - len(wrong)
            rows.append(f"| {model.replace('_', ' ')}, {number.name} | {same} of {arguments.points} |")
    print("| resumed bit-identically | |")
    print("|---|---|")
    print("\n".join(rows))


if __name__ == "__main__":
    main()
