"""How long training waits for its data: the loop of Lightning with the repository's loader and the default reader.

    python benchmarks/loader.py [--steps 150] [--rounds 3]

Questions are made up with the published distribution of lengths (textual cloze, batch 64). Two cases: text only, and
the worst one, multimodal with raw 2048-d image features that the network reduces (reducer=linear), where a batch
gathers thousands of rows from a memory map. Lightning's profiler adds up the time in the loader's `next`; first steps
(start of worker processes, first touch of the memory map) are reported apart. Rounds are interleaved.
"""

import argparse
import logging
import os
import statistics
import sys
import tempfile
import time
import warnings
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import pytorch_lightning as pl
import torch
from pytorch_lightning.profilers import Profiler
from tqdm import tqdm

from benchmarks.made_up import write_features, write_splits
from data.choice import ChoiceData
from data.images import ReleasedFeatures
from data.text import Doc2VecSettings
from models.choice import ChoiceTask
from models.impatient_reader import ImpatientReader
from models.losses import CosineHinge

QUESTIONS = {"train": {"textual_cloze": 4096}, "val": {"textual_cloze": 64}, "test": {"textual_cloze": 64}}
FEATURE_SIZE, BATCH = 2048, 64
WARM_UP = 3  # steps


class Waiting(Profiler):
    """Start and end of each `next` of the training loader, and of each batch."""

    def __init__(self) -> None:
        super().__init__()
        self.spans: dict[str, list[list[float]]] = {}

    def start(self, action_name: str) -> None:
        self.spans.setdefault(action_name, []).append([time.perf_counter()])

    def stop(self, action_name: str) -> None:
        self.spans[action_name][-1].append(time.perf_counter())

    def waits(self) -> list[list[float]]:
        """[start, end] of each wait for a batch."""
        (name,) = [name for name in self.spans if name.endswith("train_dataloader_next")]
        return self.spans[name]


def train(folder: Path, multimodal: bool, workers: int, steps: int) -> tuple[float, float, float]:
    """(share of the time spent waiting, ms a step, seconds of the first wait)."""
    data = ChoiceData(
        "made_up",
        ["textual_cloze"],
        # The loader does not see how vectors came about; these take no time.
        Doc2VecSettings(document="word_mean", epochs=1),
        features=ReleasedFeatures(folder / "features.pkl", FEATURE_SIZE) if multimodal else None,
        root=str(folder),
        modality="multimodal" if multimodal else "text",
        num_workers=workers,
        cache=str(folder / "cache"),
    )
    data.prepare(("train", "val"))
    reducer = {"image_size": FEATURE_SIZE, "image_reducer": "linear"} if multimodal else {}
    net = ImpatientReader(task="textual_cloze", **reducer)  # pyright: ignore[reportArgumentType]
    task = ChoiceTask(net, CosineHinge(), torch.optim.Adam)
    waiting = Waiting()
    trainer = pl.Trainer(
        accelerator="cpu",
        max_steps=steps + WARM_UP,
        limit_val_batches=0,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        use_distributed_sampler=False,
        profiler=waiting,
    )
    trainer.fit(task, datamodule=data)
    end = time.perf_counter()
    first, *spans = waiting.waits()
    spans = [span for span in spans[WARM_UP - 1 :] if len(span) == 2]
    whole = end - spans[0][0]
    return sum(b - a for a, b in spans) / whole, 1e3 * whole / steps, first[1] - first[0]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    cases = [(multimodal, workers) for multimodal in (False, True) for workers in (0, 2)]
    found: dict[tuple[bool, int], list[tuple[float, float, float]]] = {case: [] for case in cases}
    with tempfile.TemporaryDirectory(prefix="bench_loader_") as temporary:
        folder = Path(temporary)
        write_features(folder / "features.pkl", write_splits(folder, QUESTIONS), FEATURE_SIZE, "arrays")
        for _ in tqdm(range(arguments.rounds), unit="round"):
            for case in cases:
                found[case].append(train(folder, *case, arguments.steps))
    print(
        f"| median of {arguments.rounds} rounds (lowest to highest) | waiting, % of step time | ms a step | first, s |"
    )
    print("|---|---|---|---|")
    for (multimodal, workers), rounds in found.items():
        share, step, first = zip(*rounds, strict=True)
        title = "multimodal, raw 2048-d, reducer=linear" if multimodal else "text only"
        waits = f"{100 * statistics.median(share):.2f} ({100 * min(share):.2f} to {100 * max(share):.2f})"
        steps = f"{statistics.median(step):.0f} ({min(step):.0f} to {max(step):.0f})"
        print(f"| {title}, num_workers={workers} | {waits} | {steps} | {statistics.median(first):.2f} |")


if __name__ == "__main__":
    main()
