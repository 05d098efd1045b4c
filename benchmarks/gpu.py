"""What only a GPU shows: a training step of the Impatient Reader by precision, compilation and kind of padding.

    python benchmarks/gpu.py [--rounds 5] [--steps 20] [--batch 64]

Forward, backward and Adam on made-up batches of the published lengths that already lie on the GPU, sorted by length as
the loader sorts them. Every variant is timed in every round; the table gives milliseconds a step and the ratio to
fp32, padded. Without a GPU it says so and ends.
"""

import argparse
import statistics
import sys
import time
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import torch
from torch import Tensor

from benchmarks.reader_throughput import HIDDEN_SIZE, MEGABATCH, STEPS, PackedEncoder, make_batch
from models.impatient_reader import ImpatientReader
from models.losses import CosineHinge

Batch = dict[str, Tensor]


class Variant:
    """One way to take a step."""

    def __init__(self, device: torch.device, bf16: bool = False, compiled: bool = False, packed: bool = False) -> None:
        torch.manual_seed(0)
        self.reader = ImpatientReader(hidden_size=HIDDEN_SIZE, task="textual_cloze").to(device)
        self.encoder = PackedEncoder(self.reader.document_encoder) if packed else None
        if self.encoder is not None:
            self.reader.document_encoder = self.encoder  # pyright: ignore[reportAttributeAccessIssue]
        self.forward = torch.compile(self.reader, dynamic=True) if compiled else self.reader
        self.optimizer = torch.optim.Adam(self.reader.parameters())
        self.loss, self.device, self.bf16 = CosineHinge(), device, bf16

    def step(self, batch: Batch, lengths: Tensor) -> None:
        """Forward, backward, update."""
        if self.encoder is not None:
            self.encoder.lengths = lengths  # on the CPU, as packing wants them
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.bf16):
            loss = self.loss(self.forward(batch), batch)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


def measure(device: torch.device, rounds: int, steps: int, size: int) -> dict[str, list[float]]:
    """Milliseconds a step of each variant in each round."""
    generator = torch.Generator().manual_seed(0)
    drawn = torch.multinomial(torch.tensor(STEPS).float(), MEGABATCH * size, replacement=True, generator=generator)
    lengths = (drawn + 4).sort().values.split(size)
    batches = [{key: t.to(device) for key, t in make_batch(part, generator).items()} for part in lengths]
    variants = {
        "fp32, padded": Variant(device),
        "fp32, packed": Variant(device, packed=True),
        "bf16, padded": Variant(device, bf16=True),
        "bf16, packed": Variant(device, bf16=True, packed=True),
        "fp32, padded, compiled": Variant(device, compiled=True),
        "bf16, padded, compiled": Variant(device, bf16=True, compiled=True),
    }
    if device.type == "cpu":  # LSTMs do not train in half precision there, and compiling takes minutes
        variants = {name: variants[name] for name in ("fp32, padded", "fp32, packed")}
    found: dict[str, list[float]] = {name: [] for name in variants}
    for number in range(rounds + 1):  # the first one compiles and is not counted
        for name, variant in variants.items():
            _wait(device)
            start = time.perf_counter()
            for i in range(max(steps, len(batches))):
                variant.step(batches[i % len(batches)], lengths[i % len(batches)])
            _wait(device)
            if number:
                found[name].append(1e3 * (time.perf_counter() - start) / max(steps, len(batches)))
    return found


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def main() -> None:
    """Print the table, or one line where there is no GPU."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--cpu", action="store_true", help="try the script on a CPU; its numbers mean nothing there")
    arguments = parser.parse_args()
    if not torch.cuda.is_available() and not arguments.cpu:
        print("no GPU here: nothing was measured")
        return
    warnings.filterwarnings("ignore")
    device = torch.device("cpu" if arguments.cpu else "cuda")
    found = measure(device, arguments.rounds, arguments.steps, arguments.batch)
    where = "CPU" if arguments.cpu else torch.cuda.get_device_name()
    print(f"{where}, torch {torch.__version__}, batch {arguments.batch}\n")
    print(f"| median of {arguments.rounds} rounds (lowest to highest) | ms a step | step time / fp32, padded |")
    print("|---|---|---|")
    for name, values in found.items():
        ratios = [value / base for value, base in zip(values, found["fp32, padded"], strict=True)]
        cells = [(values, "{:.2f}"), (ratios, "{:.2f}")]
        shown = [f"{f.format(statistics.median(v))} ({f.format(min(v))} to {f.format(max(v))})" for v, f in cells]
        print(f"| {name} | {' | '.join(shown)} |")


if __name__ == "__main__":
    main()
