"""Memory and time of preparing a made-up Recipe1M root of a million recipes.

    python benchmarks/recipe_scale.py [--recipes 1000000] [--pictures 13] [--folder FOLDER] [--shuffled]

Texts are about as long as Recipe1M's (layer1.json of 1,029,720 recipes has 1.4 GB), picture names as many as
Recipe1M+'s (13 million); there are no pixels. The root is written by streaming, prepared in a process of its own,
prepared again after that was killed half-way (kill -9, once two of the three parts are complete), and opened once
more. Memory by /proc: highest VmHWM, which counts mapped pages too. One thread. Needs about 8 GB in FOLDER (a temporary
one by default) for a million recipes; all is removed at the end.
"""

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tqdm import tqdm

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

WORDS = [
    f"{a}{b}{c}" for a in "bdfgklmnprst" for b in ("a", "e", "i", "o", "ou") for c in ("n", "ster", "ck", "lt", "")
]
PREPARE = """
import sys, time
sys.path.insert(0, {project!r})
from data.recipe1m import build_recipe1m, select
start = time.perf_counter()
table = build_recipe1m({root!r}, {cache!r}, plus=True, classes="bigrams")
built = time.perf_counter() - start
kept = select(table).report.kept
peak = [line for line in open("/proc/self/status") if line.startswith("VmHWM")][0].split()[1]
print("RESULT", len(table), sum(kept.values()), built, time.perf_counter() - start - built, int(peak) / 2**20)
"""


def write_root(root: Path, n: int, pictures: int, shuffled: bool) -> None:
    """Write layer1, layer2+ and det_ingrs, record by record, and their lists of ids."""
    rng = random.Random(0)
    ids = [f"{int(i * (2**40 / n)) + rng.randrange(int(2**40 / n)):010x}" for i in range(n)]
    if shuffled:
        rng.shuffle(ids)
    lines = [" ".join(rng.choices(WORDS, k=rng.randint(2, 7))) for _ in range(5000)]
    steps = [" ".join(rng.choices(WORDS, k=rng.randint(4, 26))) for _ in range(5000)]
    with (
        open(root / "layer1.json", "w") as layer1,
        open(root / "layer2+.json", "w") as layer2,
        open(root / "det_ingrs.json", "w") as detected,
    ):
        files = layer1, layer2, detected
        for i, name in enumerate(tqdm(ids, desc="write the files", unit=" recipes")):
            k = rng.randint(2, 16)
            recipe = {
                "ingredients": [{"text": text} for text in rng.choices(lines, k=k)],
                "url": f"https://example.org/recipe/{' '.join(rng.choices(WORDS, k=4))}-{i}",
                "partition": rng.choices(("train", "val", "test"), (70, 15, 15))[0],
                "title": " ".join(rng.choices(WORDS, k=4)),
                "id": name,
                "instructions": [{"text": text} for text in rng.choices(steps, k=rng.randint(2, 15))],
            }
            hexes = [f"{rng.getrandbits(40):010x}.jpg" for _ in range(rng.randint(0, 2 * pictures))]
            images = [{"id": image, "url": f"https://example.org/photos/large/{image}"} for image in hexes]
            names = [{"text": " ".join(rng.choices(WORDS, k=2))} for _ in range(k)]
            records = recipe, {"id": name, "images": images}, {"valid": [True] * k, "id": name, "ingredients": names}
            for file, record in zip(files, records, strict=True):
                file.write(("[" if not i else ", ") + json.dumps(record))
        for file in files:
            file.write("]")


def prepare(root: Path, cache: Path, kill_after: str = "") -> dict[str, float]:
    """Run the preparation; with `kill_after`, kill it a moment after a part of that kind is complete."""
    program = PREPARE.format(project=str(ROOT), root=str(root), cache=str(cache))
    environment = os.environ | {"OMP_NUM_THREADS": "1", "ARROW_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
    start = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
    )
    if kill_after:
        while process.poll() is None:
            if list(cache.glob(f"recipe1m/parts/{kill_after}-*")):
                time.sleep(2)
                process.send_signal(signal.SIGKILL)
                break
            time.sleep(0.05)
        process.communicate()
        return {"wall": time.perf_counter() - start}
    output, _ = process.communicate()
    if process.returncode:
        raise SystemExit(f"the preparation ended with {process.returncode}")
    recipes, pairs, seconds, chosen, peak = output.split("RESULT", 1)[1].split()
    wall = time.perf_counter() - start
    return {"recipes": int(recipes), "pairs": int(pairs), "build": float(seconds), "select": float(chosen),
            "peak": float(peak), "wall": wall}  # fmt: skip


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipes", type=int, default=1_000_000)
    parser.add_argument("--pictures", type=int, default=13, help="mean number of a recipe's pictures")
    parser.add_argument("--shuffled", action="store_true", help="files in no order of ids")
    parser.add_argument("--folder", type=Path)
    args = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="recipe-scale-", dir=args.folder))
    try:
        write_root(folder, args.recipes, args.pictures, args.shuffled)
        sizes = {path.name: path.stat().st_size / 2**30 for path in sorted(folder.glob("*.json"))}
        whole = prepare(folder, folder / "whole")
        again = prepare(folder, folder / "whole")
        shutil.rmtree(folder / "whole")
        killed = prepare(folder, folder / "killed", kill_after="layer2")
        resumed = prepare(folder, folder / "killed")
        print(f"{args.recipes:,} recipes, {'shuffled' if args.shuffled else 'sorted'}: "
              + ", ".join(f"{name} {size:.2f} GiB" for name, size in sizes.items()))  # fmt: skip
        print("| preparation | seconds | highest resident memory, GiB |")
        print("|---|---|---|")
        print(f"| from the files | {whole['build']:.0f} | {whole['peak']:.2f} |")
        print(
            f"| again after a kill with two of three parts complete | {resumed['build']:.0f} | {resumed['peak']:.2f} |"
        )
        print(f"| opening the table, checksums included | {again['build']:.1f} | {again['peak']:.2f} |")
        saved = 1 - resumed["build"] / whole["build"]
        print(f"choosing the pairs: {whole['select']:.1f} s for {whole['pairs']:,} pairs. The kill came after "
              f"{killed['wall']:.0f} s; the restart saved {100 * saved:.0f} % of a full preparation.")  # fmt: skip
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
