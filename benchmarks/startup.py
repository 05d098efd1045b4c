"""How long commands take to start, and what the frame costs beside a bare loop.

    python benchmarks/startup.py [--rounds 5] [--epochs 2]

Start-up: `python train.py --help`, and `python train.py` (the embedded default, cache filled before) from the start of
the process to the end of its first training step. Overhead: epochs of the default run with Lightning, callbacks,
checkpoints and a CSV log, against a loop of the same batches, steps and validations without any of them; ratios of
wall and of processor time within a round, the order of the two alternates. Processor time leaves the disk out, and
other work on the machine too.
"""

import argparse
import contextlib
import json
import logging
import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
ROOT = Path(__file__).resolve().parents[1]


def command(*overrides: str) -> float:
    """Seconds of `python train.py ...`."""
    start = time.time()
    subprocess.run([sys.executable, "train.py", *overrides], cwd=ROOT, check=True, capture_output=True)
    return time.time() - start


def first_step(folder: Path) -> float:
    """Seconds from the start of `python train.py` to the end of its first step."""
    mark = folder / "first_step.json"
    mark.unlink(missing_ok=True)
    start = time.time()
    command(
        "trainer.max_epochs=1",
        "trainer.limit_train_batches=1",
        "trainer.limit_val_batches=1",
        "sanity=false",
        f"+callbacks.first_step={{_target_: benchmarks.first_step.FirstStep, path: {mark}}}",
        f"hydra.run.dir={folder / 'run'}",
    )
    return json.loads(mark.read_text())["time"] - start


def frame_and_bare(folder: Path, epochs: int, rounds: int) -> list[dict[str, tuple[float, float]]]:
    """(wall, processor) seconds of the same training in the `frame` and `bare`, for each round."""
    import pytorch_lightning as pl
    import torch
    from hydra import compose, initialize_config_dir
    from hydra.utils import instantiate

    import engine.launch  # noqa: F401  (its resolver of run folders)
    from engine.build import build_data, build_model, tracking
    from engine.checkpoints import AtomicCheckpointIO

    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
    found = []
    with initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
        cfg = compose(
            "train", [f"trainer.max_epochs={epochs}", f"output_dir={folder / 'frame'}", "trainer.accelerator=cpu"]
        )
    data = build_data(cfg)
    data.prepare(("train", "val"))

    def frame() -> None:
        model = build_model(cfg, data)
        callbacks = [instantiate(callback) for callback in cfg.callbacks.values()]
        with tracking(cfg, {}) as loggers:
            trainer: pl.Trainer = instantiate(
                cfg.trainer, callbacks=callbacks, logger=loggers, plugins=[AtomicCheckpointIO()]
            )
            trainer.fit(model, datamodule=data)

    def bare() -> None:
        model = build_model(cfg, data)
        optimizer = model.make_optimizer(model.parameters())
        train, val = data.train_dataloader(), data.val_dataloader()
        for _ in range(epochs):
            model.train()
            for batch in train:
                loss = model.loss(model(batch), batch)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            model.eval()
            with torch.no_grad():
                for batch in val:
                    model.loss(model(batch), batch)

    for number in range(rounds):
        spent = {}
        for kind in (frame, bare) if number % 2 else (bare, frame):
            pl.seed_everything(cfg.seed, verbose=False)
            start = time.perf_counter(), time.process_time()
            kind()
            spent[kind.__name__] = time.perf_counter() - start[0], time.process_time() - start[1]
        found.append(spent)
    return found


def _cell(values: list[float], form: str) -> str:
    middle, low, high = (form.format(f(values)) for f in (statistics.median, min, max))
    return f"{middle} ({low} to {high})"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=2)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench_startup_") as temporary:
        folder = Path(temporary)
        first_step(folder)  # fills the cache
        helps, steps = [], []
        for _ in range(arguments.rounds):
            helps.append(command("--help"))
            steps.append(first_step(folder))
        with contextlib.redirect_stdout(sys.stderr):  # progress bars
            pairs = frame_and_bare(folder, arguments.epochs, arguments.rounds)
    print(f"| median of {arguments.rounds} rounds (lowest to highest) | |")
    print("|---|---|")
    print(f"| `python train.py --help`, s | {_cell(helps, '{:.2f}')} |")
    print(f"| `python train.py`, start to first step, warm cache, s | {_cell(steps, '{:.1f}')} |")
    for place, what in enumerate(("wall", "processor")):
        ratios = _cell([pair["frame"][place] / pair["bare"][place] for pair in pairs], "{:.2f}")
        print(f"| training for {arguments.epochs} epoch(s), frame / bare loop, {what} time | {ratios} |")
    print(f"| the same, seconds in the frame | {_cell([pair['frame'][0] for pair in pairs], '{:.1f}')} |")


if __name__ == "__main__":
    main()
