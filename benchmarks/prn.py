"""Cost of PRN and the BiDAF rows beside the Impatient Reader: parameters, and CPU time of a training step as a ratio.

    python -m benchmarks.prn

Batches are made up in the sizes of RecipeQA: 372 words in seven steps, eight entities, 2048 image features. The time is
that of this process on one thread, so that other work on the machine shows little.
"""

import time

import numpy as np
import torch

from models.impatient_reader import ImpatientReader
from models.losses import CosineHinge
from models.prn import PRN

WORDS, STEPS, ENTITIES, WORD, IMAGE, BATCH = 372, 7, 8, 100, 2048, 32


def made_up_batch(task: str, seed: int = 0) -> dict:
    """A batch as `data.encoding` and `data.words` give it, of recipes of one length."""
    rng = torch.Generator().manual_seed(seed)
    elements = 4 if task == "visual_ordering" else 1
    images = 1 + BATCH * 8
    length = WORDS // STEPS
    start = torch.arange(STEPS).expand(BATCH, -1) * length
    steps = torch.full((BATCH, STEPS), length)
    choices = torch.randint(1, images, (BATCH, 4, elements), generator=rng) + 1
    return {
        "task": task,
        "text": torch.zeros(1, WORD),
        "image": torch.randn(images, IMAGE, generator=rng),
        "query": torch.randint(1, images, (BATCH, 4), generator=rng) + 1,
        "choices": choices,
        "word": torch.randn(2000, WORD, generator=rng),
        "character": torch.randint(1, 257, (2000, 22), generator=rng),
        "recipe": torch.randint(1, 2000, (BATCH, STEPS * length), generator=rng),
        "recipe_mask": torch.ones(BATCH, STEPS * length, dtype=torch.bool),
        "step_start": start,
        "step_length": steps,
        "entities": torch.randint(1, 2000, (BATCH, ENTITIES), generator=rng),
        "entity_mask": torch.ones(BATCH, ENTITIES, dtype=torch.bool),
        "document": torch.zeros(BATCH, STEPS, dtype=torch.long),
        "document_mask": torch.ones(BATCH, STEPS, dtype=torch.bool),
        "placeholder": torch.zeros(BATCH, 4, dtype=torch.bool),
        "twins": torch.zeros(BATCH, 4, dtype=torch.bool),
        "answer": torch.zeros(BATCH, dtype=torch.long),
    }


def step_seconds(net: torch.nn.Module, batch: dict, repeats: int = 3) -> float:
    """Median CPU seconds of forward and backward, after one step that is not counted."""
    hinge, seconds = CosineHinge(0.1), []
    for _ in range(repeats + 1):
        began = time.process_time()
        net.zero_grad()
        hinge(net(batch), batch).backward()
        seconds.append(time.process_time() - began)
    return float(np.median(seconds[1:]))


def main() -> None:
    """Print the table, a row for each network and kind of task."""
    torch.set_num_threads(1)
    print(f"{'task':18} {'network':22} {'parameters':>11} {'s a step':>9} {'to the reader':>14}")
    for task in ("visual_cloze", "visual_ordering"):
        batch = made_up_batch(task)
        torch.manual_seed(0)
        reader = ImpatientReader(task=task, image_size=IMAGE, image_reducer="linear")
        nets = {"Impatient Reader": reader} | {
            name: PRN(memory=memory, task=task, word_size=WORD, image_size=IMAGE)
            for name, memory in (("BiDAF", "none"), ("BiDAF, static memory", "static"), ("PRN", "relational"))
        }
        base = 0.0
        for name, net in nets.items():
            seconds = step_seconds(net, batch)
            base = base or seconds
            count = sum(p.numel() for p in net.parameters())
            print(f"{task:18} {name:22} {count:11,} {seconds:9.2f} {seconds / base:13.1f}x", flush=True)


if __name__ == "__main__":
    main()
