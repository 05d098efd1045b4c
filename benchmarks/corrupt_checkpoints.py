"""Damage the newest checkpoint in many ways and resume from it: one clear line each, naming the file and the remedy.

    python benchmarks/corrupt_checkpoints.py [--mutations 200] [--seed 0]

A small run leaves best.ckpt and last.ckpt. last.ckpt is then truncated, has bits flipped, blocks zeroed, is emptied,
filled with noise, written as another version, or loses a part; `python train.py ckpt_path=.../last.ckpt` runs in a
fork. Right is status 1, one line on stderr that names last.ckpt and proposes best.ckpt, and no traceback. Bits that no
reader looks at (padding, dates) leave the content as it was: such a file may also be resumed. At the end best.ckpt is
used as proposed, and must lead to the same weights as the run that was never disturbed.
"""

import argparse
import collections
import io
import random
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks.kill_resume import contents, differences
from tests.forks import command, warm
from tests.runs import SMALL, small_files

KINDS = ("truncate", "flip", "zero", "empty", "noise", "version", "part")
PARTS = ("loops", "optimizer_states", "callbacks", "state_dict", "config", "ChoiceData", "pytorch-lightning_version")


def mutate(whole: bytes, kind: str, draw: random.Random) -> bytes:
    """The bytes of a damaged checkpoint."""
    if kind == "truncate":
        return whole[: draw.randrange(1, len(whole))]
    if kind == "flip":
        data = bytearray(whole)
        for _ in range(draw.randint(1, 20)):
            data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        return bytes(data)
    if kind == "zero":
        size = min(4096, len(whole) // 2)
        start = draw.randrange(len(whole) - size)
        return whole[:start] + bytes(size) + whole[start + size :]
    if kind == "noise":
        return draw.randbytes(draw.randint(1, len(whole)))
    if kind == "empty":
        return b""
    state: dict[str, Any] = torch.load(io.BytesIO(whole), weights_only=True)
    if kind == "version":
        state["pytorch-lightning_version"] = draw.choice(["99.0.0", "2.99.1", "", "newest", None, 7, [2, 6]])
    else:
        name = draw.choice(PARTS)
        if draw.random() < 0.5:
            del state[name]
        else:
            state[name] = draw.choice([None, 3, "x", [], {}])
    buffer = io.BytesIO()
    torch.save(state, buffer)
    return buffer.getvalue()


def unharmed(path: Path, reference: dict[str, Any]) -> bool:
    """Whether the file still reads as the same content."""
    try:
        return not differences(torch.load(path, weights_only=True), reference)
    except Exception:
        return False


def mutations(root: Path, count: int, seed: int) -> tuple[collections.Counter[str], list[str]]:
    """How often each outcome was met, and what went wrong."""
    draw, found, wrong = random.Random(seed), collections.Counter[str](), []
    overrides = [*small_files(root), *SMALL]
    run = root / "run"
    assert command("train", run, [*overrides, "trainer.max_epochs=5"]).wait() == 0
    expected = contents(run)
    shutil.rmtree(run)
    assert command("train", run, overrides).wait() == 0  # cut after three epochs
    folder = run / "checkpoints"
    whole, last = (folder / "last.ckpt").read_bytes(), folder / "last.ckpt"
    reference = torch.load(last, weights_only=True)
    resume = [*overrides, f"ckpt_path={last}", "trainer.max_epochs=5"]
    for number in tqdm(range(count), desc="mutations", leave=False):
        kind = KINDS[number % len(KINDS)]
        last.write_bytes(mutate(whole, kind, draw))
        if unharmed(last, reference):
            found[f"{kind}: content unharmed"] += 1
            continue
        fork = command("train", run, resume, root / "log")
        status, text = fork.wait(), fork.text()
        errors = [line for line in text.splitlines() if line.startswith("error: ")]
        right = status == 1 and "Traceback" not in text and len(errors) == 1 and "last.ckpt" in errors[0]
        if right and "best.ckpt" in errors[0]:
            found[f"{kind}: one line, best.ckpt proposed"] += 1
        else:
            wrong.append(f"{kind}, status {status}: {text[-1500:]}")
    best = folder / "best.ckpt"
    fork = command("train", run, [*overrides, f"ckpt_path={best}", "trainer.max_epochs=5"])
    if fork.wait() != 0 or (parts := differences(expected, contents(run))):
        wrong.append(f"resuming from best.ckpt: {parts if fork.status == 0 else fork.text()[-1500:]}")
    return found, wrong


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mutations", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    warm()
    with tempfile.TemporaryDirectory(prefix="bench_corrupt_") as folder:
        found, wrong = mutations(Path(folder), arguments.mutations, arguments.seed)
    print(f"| {arguments.mutations} damaged checkpoints | |")
    print("|---|---|")
    for outcome, count in sorted(found.items()):
        print(f"| {outcome} | {count} |")
    print(f"| wrong | {len(wrong)} |")
    print("\n".join(wrong), file=sys.stderr)


if __name__ == "__main__":
    main()
