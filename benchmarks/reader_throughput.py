"""Throughput of the Impatient Reader, forward and backward, as ratios measured in one run.

    python benchmarks/reader_throughput.py [--rounds 7]

Every batch is timed with every variant in turn; the table gives medians over rounds of the ratios within a round, so
that a machine that slows down for a while slows all of them. One thread; processor time, so that other processes
count less. The questions are made up: random vectors, numbers of steps drawn from those of the
textual-cloze validation questions of RecipeQA.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from tqdm import tqdm

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from models.impatient_reader import ImpatientReader
from models.losses import CosineHinge

# Questions with 4, 5, ... 20 steps.
STEPS = (88, 144, 111, 64, 62, 33, 24, 9, 20, 6, 5, 4, 0, 0, 2, 1, 1)
VECTOR_SIZE, HIDDEN_SIZE, QUERY, CHOICES = 100, 256, 4, 4
MEGABATCH = 8  # batches that are sorted by length together, as the loader does


def make_batch(lengths: Tensor, generator: torch.Generator) -> dict[str, Tensor]:
    """Random vectors in the batch contract, the document padded to the longest."""
    n, longest = len(lengths), int(lengths.max())
    text = torch.randn(n * (longest + QUERY + CHOICES) + 1, VECTOR_SIZE, generator=generator)
    text[0] = 0
    rows = torch.arange(1, len(text)).view(n, -1)
    mask = torch.arange(longest) < lengths[:, None]
    return {
        "text": text,
        "image": torch.zeros(1, VECTOR_SIZE),
        "document": rows[:, :longest] * mask,
        "document_mask": mask,
        "query": rows[:, longest : longest + QUERY],
        "placeholder": torch.zeros(n, QUERY, dtype=torch.bool),
        "choices": rows[:, longest + QUERY :, None],
        "twins": torch.zeros(n, CHOICES, dtype=torch.bool),
        "answer": torch.randint(CHOICES, (n,), generator=generator),
    }


def one_by_one(reader: ImpatientReader, batch: dict[str, Tensor]) -> dict[str, Tensor]:
    """The same equations question by question, the way they are written; steps are still one product."""
    scores = []
    for b in range(len(batch["answer"])):
        document = batch["text"][batch["document"][b][batch["document_mask"][b]]]  # (T, D)
        y_d = reader.document_encoder(document[None])[0]
        y_q = reader.query_encoder(batch["text"][batch["query"][b]][None])[0]
        r = torch.zeros(y_d.shape[1])
        for i in range(len(y_q)):
            m = torch.tanh(reader.w_dm(y_d) + reader.w_rm(r) + reader.w_qm(y_q[i]))  # (T, M)
            s = reader.w_ms(m)[:, 0].softmax(dim=0)  # (T,)
            r = s @ y_d + torch.tanh(reader.w_rr(r))
        g = torch.tanh(reader.w_rg(r) + reader.w_qg(y_q[-1]))
        scores.append(torch.stack([cosine_similarity(g, batch["text"][c[0]], dim=0) for c in batch["choices"][b]]))
    return {"scores": torch.stack(scores)}


def lstm_alone(reader: ImpatientReader, batch: dict[str, Tensor]) -> Tensor:
    """The two encoders and nothing else."""
    document = reader.document_encoder(batch["text"][batch["document"]])
    return document.sum() + reader.query_encoder(batch["text"][batch["query"]]).sum()


class PackedEncoder(nn.Module):
    """The document encoder over a packed sequence."""

    def __init__(self, encoder: nn.Module) -> None:
        super().__init__()
        self.encoder, self.lengths = encoder, torch.zeros(0)

    def forward(self, inputs: Tensor) -> Tensor:
        """States (B, T, H), zero at the padding."""
        packed = pack_padded_sequence(inputs, self.lengths, batch_first=True, enforce_sorted=False)
        return pad_packed_sequence(self.encoder.stack[0](packed)[0], batch_first=True, total_length=inputs.shape[1])[0]


def seconds(step: Callable[[dict[str, Tensor]], Tensor], batch: dict[str, Tensor], model: nn.Module) -> float:
    """Forward and backward of one batch."""
    model.zero_grad(set_to_none=True)
    start = time.process_time()
    step(batch).backward()
    return time.process_time() - start


def measure(size: int, rounds: int) -> dict[str, list[float]]:
    """Seconds of each variant in each round."""
    generator = torch.Generator().manual_seed(size)
    reader = ImpatientReader(hidden_size=HIDDEN_SIZE)
    packed = ImpatientReader(hidden_size=HIDDEN_SIZE)
    packed.load_state_dict(reader.state_dict())
    packed.document_encoder = PackedEncoder(packed.document_encoder)
    hinge = CosineHinge()

    def run_packed(batch: dict[str, Tensor]) -> Tensor:
        packed.document_encoder.lengths = batch["document_mask"].sum(dim=1)
        return hinge(packed(batch), batch)

    steps = {
        "reader": lambda batch: hinge(reader(batch), batch),
        "loop": lambda batch: hinge(one_by_one(reader, batch), batch),
        "lstm": lambda batch: lstm_alone(reader, batch),
        "packed": run_packed,
    }
    variants = (
        *("loop, bucketed", "lstm, bucketed", "reader, bucketed"),
        *("packed, bucketed", "reader, random", "packed, random"),
    )
    found: dict[str, list[float]] = {}
    for _ in tqdm(range(rounds), desc=f"batch {size}", unit="round"):
        drawn = torch.multinomial(torch.tensor(STEPS).float(), MEGABATCH * size, replacement=True, generator=generator)
        lengths = drawn + 4
        random = [make_batch(part, generator) for part in lengths.split(size)]
        bucketed = [make_batch(part, generator) for part in lengths.sort().values.split(size)]
        assert torch.allclose(steps["reader"](bucketed[1]), steps["loop"](bucketed[1]), atol=1e-5)
        assert torch.allclose(steps["reader"](random[0]), steps["packed"](random[0]), atol=1e-5)
        spent = dict.fromkeys((*variants, "reader, every other"), 0.0)
        for i in range(MEGABATCH):
            for name in variants:
                step, kind = name.split(", ")
                if step == "loop" and i % 2 == 0:  # slow; every other batch still holds short and long questions
                    continue
                batch = bucketed[i] if kind == "bucketed" else random[i]
                took = seconds(steps[step], batch, packed if step == "packed" else reader)
                spent[name] += took
                if name == "reader, bucketed" and i % 2:
                    spent["reader, every other"] += took
        for name, value in spent.items():
            found.setdefault(name, []).append(value)
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    torch.manual_seed(0)
    found = {size: measure(size, rounds) for size in (32, 64)}
    print(f"| ratio of throughputs, median of {rounds} rounds (lowest to highest) | batch 32 | batch 64 |")
    print("|---|---|---|")
    for title, above, below in (  # a ratio of throughputs is the inverse one of seconds
        ("reader / loop over questions, same bucketed batches", "loop, bucketed", "reader, every other"),
        ("reader / its LSTM calls alone, bucketed", "lstm, bucketed", "reader, bucketed"),
        ("reader, bucketed / random batches", "reader, random", "reader, bucketed"),
        ("packed / padded, bucketed", "reader, bucketed", "packed, bucketed"),
        ("packed / padded, random batches", "reader, random", "packed, random"),
    ):
        cells = []
        for size in found:
            ratios = [a / b for a, b in zip(found[size][above], found[size][below], strict=True)]
            cells.append(f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")
        print(f"| {title} | {' | '.join(cells)} |")
    rates = " | ".join(f"{MEGABATCH * size / statistics.median(found[size]['reader, bucketed']):.0f}" for size in found)
    print(f"| reader, bucketed, questions per second on this machine | {rates} |")


if __name__ == "__main__":
    main()
