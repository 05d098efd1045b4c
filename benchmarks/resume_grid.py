"""Kill training at chosen places, once to three times in one epoch, and compare it with a run that nobody killed.

    python benchmarks/resume_grid.py [--places mid-epoch train-end val-end] [--workers 0 2] [--times 1 2 3] [key=...]

A reader trains for three epochs of five steps and saves after every step that no validation follows. In the second
epoch SIGKILL ends it at the place: after a step that was saved (mid-epoch), after the epoch's last step and before its
validation (train-end, the last save is one step old), or after the validation that was saved (val-end). Before the
second and third resume it was killed mid-epoch as well, after the first and the second step of the epoch. Compared: the
questions of every step, in their order, those of repeated steps too, and everything that kill_resume.py compares.
"""

import argparse
import itertools
import json
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks.kill_resume import READER, contents, differences
from engine.callbacks import SaveLast
from models.choice import ChoiceTask
from tests.forks import command, warm
from tests.runs import small_files

STEPS = 5  # of an epoch: 40 questions in batches of 8
PLACES = {"mid-epoch": STEPS + 3, "train-end": 2 * STEPS, "val-end": 2 * STEPS}  # steps done when it is killed there
SETTINGS = [*READER, "trainer.max_epochs=3", "callbacks.last.every_n_steps=1", "logger=[]"]


def one_start(folder: Path, overrides: list[str], place: str = "", step: int = -1) -> None:
    """Start or resume the run and kill it at a place after `step` steps; without a place it must end by itself."""
    step_of = ChoiceTask.training_step
    after_batch, after_validation = SaveLast.on_train_batch_end, SaveLast.on_validation_end

    def training_step(self: ChoiceTask, batch: dict[str, Any], index: int) -> Any:
        with open(folder / "steps.jsonl", "a") as file:
            file.write(json.dumps([self.trainer.global_step, batch["index"].tolist()]) + "\n")
        return step_of(self, batch, index)

    def on_train_batch_end(self: SaveLast, trainer: Any, *arguments: Any) -> None:
        after_batch(self, trainer, *arguments)
        if place in ("mid-epoch", "train-end") and trainer.global_step == step:
            os.kill(os.getpid(), signal.SIGKILL)

    def on_validation_end(self: SaveLast, trainer: Any, module: Any) -> None:
        after_validation(self, trainer, module)
        if place == "val-end" and trainer.global_step == step:
            os.kill(os.getpid(), signal.SIGKILL)

    last = folder / "checkpoints" / "last.ckpt"
    with (  # a fork keeps them
        mock.patch.object(ChoiceTask, "training_step", training_step),
        mock.patch.object(SaveLast, "on_train_batch_end", on_train_batch_end),
        mock.patch.object(SaveLast, "on_validation_end", on_validation_end),
    ):
        child = command("train", folder, [*overrides, f"ckpt_path={last}"] if last.is_file() else overrides)
    status = child.wait()
    if status != (-signal.SIGKILL if place else 0):
        raise RuntimeError(f"{place or 'the end'}: status {status}: {child.text()[-2000:]}")


def questions(folder: Path) -> tuple[dict[int, list[int]], list[int]]:
    """The questions of each step, and the steps that were done again; a step done again with others is an error."""
    found: dict[int, list[int]] = {}
    again = []
    for line in (folder / "steps.jsonl").read_text().splitlines():
        step, rows = json.loads(line)
        if step in found:
            again.append(step)
            if rows != found[step]:
                raise RuntimeError(f"step {step}: {rows}, and before the resume {found[step]}")
        found[step] = rows
    return found, again


def grid(root: Path, cells: Iterable[tuple[str, int, int]], *more: str) -> list[str]:
    """What differs in the cells (place, workers, times killed in the epoch); an empty list is the promise kept."""
    overrides = [*small_files(root), *SETTINGS, *more]
    one_start(root / "first", overrides)  # fills the cache
    one_start(root / "whole", overrides)
    expected, (order, _) = contents(root / "whole"), questions(root / "whole")
    assert list(order) == list(range(3 * STEPS)) and order[0] != order[STEPS] != order[2 * STEPS]
    wrong = []
    for place, workers, times in cells:
        name = f"{place}, {workers} workers, resume {times}"
        folder = root / name.replace(" ", "_").replace(",", "")
        own = [*overrides, f"data.num_workers={workers}"]
        for earlier in range(1, times):
            one_start(folder, own, "mid-epoch", STEPS + earlier)
        one_start(folder, own, place, PLACES[place])
        one_start(folder, own)
        try:
            found, again = questions(folder)
            parts = differences({**expected, "questions": order}, {**contents(folder), "questions": found})
            if again != ([2 * STEPS - 1] if place == "train-end" else []):
                parts.append(f"steps {again} done again")
        except RuntimeError as error:
            parts = [str(error)]
        print(f"{name}: {', '.join(parts) or 'identical'}", flush=True)
        wrong += [f"{name}: {part}" for part in parts]
        shutil.rmtree(folder)
    return wrong


def main() -> None:
    """Print one line for each cell; exit status 1 if any differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--places", nargs="+", default=list(PLACES), choices=list(PLACES))
    parser.add_argument("--workers", type=int, nargs="+", default=[0, 2])
    parser.add_argument("--times", type=int, nargs="+", default=[1, 2, 3], choices=(1, 2, 3))
    parser.add_argument("overrides", nargs="*", help="more settings of all runs")
    arguments = parser.parse_args()
    warm()
    cells = list(itertools.product(arguments.places, arguments.workers, arguments.times))
    with tempfile.TemporaryDirectory(prefix="bench_grid_") as folder:
        wrong = grid(Path(folder), cells, *arguments.overrides)
    print(f"{len(cells) - len({line.split(': ')[0] for line in wrong})} of {len(cells)} identical")
    sys.exit(int(bool(wrong)))


if __name__ == "__main__":
    main()
