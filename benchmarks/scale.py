"""Memory and start-up of `train.py` at the size of RecipeQA: 36,786 questions of all four tasks, 250,000 pictures.

    python benchmarks/scale.py [--rounds 3] [--reducers pca linear] [--folder FOLDER]

Questions and features are made up: as many questions of each task as the released files have, 2048 numbers for each
picture, in a feature file (features=released). The first run computes text vectors, the feature store and the reducer
into a cache and is timed apart; every later one finds them there. Training is multimodal on all tasks, so that every
picture is used, and stops after one step, two batches of validation and the whole test. Text vectors are means of word
vectors here: how they were computed does not show once they are in the cache.

Memory by /proc, polled 20 times a second: `anonymous` is what the process itself has allocated (highest RssAnon);
`resident` is the highest VmHWM, which also counts pages of mapped files (libraries, vector stores) that the system
takes back whenever it needs the room. Needs about 8 GB in FOLDER (a temporary one by default, removed at the end).
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks.first_step import memory
from benchmarks.made_up import RECIPEQA, write_features, write_splits

ROOT = Path(__file__).resolve().parents[1]
PICTURES, FEATURE_SIZE = 250_000, 2048
GIB = 2**20  # in KiB


def train(folder: Path, reducer: str) -> dict[str, float]:
    """Run `train.py` once: seconds to the first step and in all, GiB of memory at the first step and at most."""
    mark = folder / "first_step.json"
    mark.unlink(missing_ok=True)
    command = [
        sys.executable,
        "train.py",
        "data=recipeqa/all",
        f"data.root={folder}",
        "data.modality=multimodal",
        "features=released",
        f"features.path={folder / 'features.pkl'}",
        f"reducer={reducer}",
        "text.document=word_mean",
        "text.epochs=1",
        f"cache={folder / 'cache'}",
        "trainer.max_epochs=1",
        "trainer.limit_train_batches=1",
        "trainer.limit_val_batches=2",
        "sanity=false",
        f"+callbacks.first_step={{_target_: benchmarks.first_step.FirstStep, path: {mark}}}",
        f"hydra.run.dir={folder / 'run'}",
    ]
    peak = {"VmHWM": 0, "RssAnon": 0}
    with tempfile.TemporaryFile() as output:
        start = time.time()
        process = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT)
        while process.poll() is None:
            try:
                now = memory(process.pid)
                peak = {name: max(value, now[name]) for name, value in peak.items()}
            except (OSError, KeyError):  # it is just ending
                pass
            time.sleep(0.05)
        whole = time.time() - start
        if process.returncode:
            output.seek(0)
            sys.exit(output.read().decode()[-2000:])
    shutil.rmtree(folder / "run")
    first = json.loads(mark.read_text())
    return {
        "first step": first["time"] - start,
        "whole": whole,
        "resident at first step": first["VmHWM"] / GIB,
        "resident": peak["VmHWM"] / GIB,
        "anonymous": peak["RssAnon"] / GIB,
    }


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--reducers", nargs="+", default=["pca", "linear"])
    parser.add_argument("--folder", type=Path)
    arguments = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    folder = Path(tempfile.mkdtemp(prefix="bench_scale_", dir=arguments.folder))
    try:
        pictures = write_splits(folder, RECIPEQA, PICTURES)
        write_features(folder / "features.pkl", pictures, FEATURE_SIZE, "arrays")
        prepared = {reducer: train(folder, reducer) for reducer in arguments.reducers}
        found: dict[str, list[dict[str, float]]] = {reducer: [] for reducer in arguments.reducers}
        for _ in range(arguments.rounds):
            for reducer in arguments.reducers:
                found[reducer].append(train(folder, reducer))
    finally:
        shutil.rmtree(folder)
    questions = sum(sum(tasks.values()) for tasks in RECIPEQA.values())
    print(f"{questions:,} questions, {len(pictures):,} pictures of {FEATURE_SIZE} numbers (float32)\n")
    print(f"| median of {arguments.rounds} runs (lowest to highest) | {' | '.join(arguments.reducers)} |")
    print("|---|" + "---|" * len(found))
    for title, key, form in (
        ("start to first step, warm cache, s", "first step", "{:.0f}"),
        ("start to end (two batches of validation, whole test), s", "whole", "{:.0f}"),
        ("most anonymous memory, GiB", "anonymous", "{:.2f}"),
        ("most resident memory with file pages, GiB", "resident", "{:.2f}"),
        ("the same up to the first step, GiB", "resident at first step", "{:.2f}"),
    ):
        cells = []
        for runs in found.values():
            values = [run[key] for run in runs]
            middle, low, high = (form.format(f(values)) for f in (statistics.median, min, max))
            cells.append(f"{middle} ({low} to {high})")
        print(f"| {title} | {' | '.join(cells)} |")
    print(f"| first run, nothing cached: start to first step, s | {_cells(prepared, 'first step', '{:.0f}')} |")
    print(f"| first run: most anonymous memory, GiB | {_cells(prepared, 'anonymous', '{:.2f}')} |")


def _cells(runs: dict[str, dict[str, float]], key: str, form: str) -> str:
    return " | ".join(form.format(run[key]) for run in runs.values())


if __name__ == "__main__":
    main()
