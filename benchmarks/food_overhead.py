"""What the frame costs: the paper's whole grid with a model that answers in no time.

python benchmarks/food_overhead.py            403 and 256 questions in two languages, 705 in one, by four prompts
python benchmarks/food_overhead.py --http     the same against a local server that answers at once: pictures are sent
"""

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

# Sizes of the release (paper, tables 1 and 2): questions, photos.
SIZES = {"mivqa": (403, 389), "sivqa": (256, 103), "textqa": (705, 0)}
GRID = [("multi_image", "zh"), ("multi_image", "en"), ("single_image", "zh"), ("single_image", "en"), ("text", "zh")]
TYPES = ("ingredients", "flavor", "cuisine_type", "region-2")


def make_release(folder: Path, side: int) -> None:
    """Made-up questions of the release's number and schema on photos of `side` x 3/4 `side` pixels."""
    rng = random.Random(0)
    images = folder / "images"
    images.mkdir(parents=True)
    photos = [f"b/{i}.jpg" for i in range(389 + 103)]
    (images / "b").mkdir()
    for i, name in enumerate(photos):
        small = np.random.default_rng(i).integers(0, 255, (24, 32, 3), dtype=np.uint8)
        Image.fromarray(small).resize((side, side * 3 // 4), Image.Resampling.BICUBIC).save(images / name, quality=90)
    for task, (n, _) in SIZES.items():
        records = []
        for i in range(n):
            record = {"question": f"哪一道菜含有原料{i}？", "answer": str(i % 4), "question_type": TYPES[i % 4]}
            record["question_id"] = f"{task}-{i}"
            choices = [f"选择{i}之{k}" for k in "甲乙丙丁"]
            if task == "mivqa":
                record |= {"choices": "", "ann_group": "川", "images": rng.sample(photos[:389], 4)}
            elif task == "sivqa":
                meta = {"id": i, "food_name": f"菜{i % 103}", "food_type": "粤菜（广东等地）"}
                meta |= {"main_ingredient": [], "food_location": "餐馆", "food_file": photos[389 + i % 103]}
                record |= {"choices": choices, "food_name": meta["food_name"], "food_meta": meta}
                record["choices_en"] = [f"choice {i} {k}" for k in ("one", "two", "three", "four")]
            else:
                record |= {"choices": choices, "food_name": f"菜{i // 3}", "cuisine_type": "粤菜"}
            if task != "textqa":
                record["question_en"] = f"Which dish has ingredient {i}?"
            records.append(record)
        (folder / f"{task}_tidy.json").write_text(json.dumps(records, ensure_ascii=False), encoding="utf-8")


def main() -> None:
    """Print one line a command and the sums."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--http", action="store_true")
    parser.add_argument("--side", type=int, default=1024, help="longest side of the made-up photos")
    options = parser.parse_args()
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import engine.asking"], cwd=ROOT, env=environment, check=True)
    imports = time.perf_counter() - started
    print(f"importing the libraries alone: {imports:.1f} s")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_release(folder / "release", options.side)
        model = [f"hydra.searchpath=[file://{ROOT / 'tests' / 'conf'}]", "model=scripted"]
        server = None
        if options.http:
            from tests.food_server import FoodServer

            server = FoodServer()
            server.__enter__()
            model = ["model=vlm/openai", "model.name=instant", f"model.base_url={server.base_url}", "model.server=vllm"]
        total, requests = 0.0, 0
        print("| command | requests | seconds | less imports |\n|---|--:|--:|--:|")
        for task, language in GRID:
            command = [sys.executable, "evaluate.py", f"data=foodieqa/{task}", f"data.root={folder / 'release'}"]
            command += [f"data.language={language}", f"cache={folder / 'cache'}"]
            command += [f"hydra.run.dir={folder / task / language}"]
            started = time.perf_counter()
            subprocess.run([*command, *model], cwd=ROOT, env=environment, check=True, capture_output=True)
            seconds = time.perf_counter() - started
            count = len((folder / task / language / "answers.jsonl").read_text().splitlines())
            total, requests = total + seconds, requests + count
            print(f"| {task} {language} | {count} | {seconds:.1f} | {seconds - imports:.1f} |", flush=True)
        print(f"| all | {requests} | {total:.1f} | {total - len(GRID) * imports:.1f} |")
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20
        each = 1000 * (total - len(GRID) * imports) / requests
        print(f"\npeak memory of the largest process {peak:.2f} GiB; {each:.1f} ms a request")
        if server is not None:
            server.__exit__(None, None, None)


if __name__ == "__main__":
    main()
