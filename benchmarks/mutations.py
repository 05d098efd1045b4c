"""200 mutated files of prepared sets: which end in one line that names the file, which pass without a word.

python benchmarks/mutations.py [--rounds 1]

Twenty files, ten mutations each: 2 cut short, 4 with one flipped bit, 2 of another kind, 1 with 256 MiB of zeros
behind it, 1 empty. Raw files are read once with SHA256SUMS in their folder and once without; stores, tables, galleries
and checkpoints carry their own checksums. Each is read in a process of its own, as a damaged database can end one.

`told`: InputError, one line, with the name of the file or of the database's folder. `equal`: what was read is what the
whole file gives. `silent`: it is not. `fault`: any other exception, several lines, a process that was killed.
"""

import argparse
import gzip
import hashlib
import io
import multiprocessing
import os
import pickle
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tqdm import tqdm

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from data import checksums
from data.checksums import NAME, write_sums
from data.errors import InputError
from data.food_images import load_image
from data.foodieqa import FILES, read_file
from data.images import ReleasedFeatures, decode
from data.recipe1m import make_part, read_classes, read_id_list
from data.recipe1m_lmdb import LmdbRecipes
from data.recipeqa import read_questions
from data.recipes import open_table, write_table
from data.store import build_store, open_store
from engine.checkpoints import AtomicCheckpointIO, load_checkpoint
from engine.gallery import Gallery
from tests.made_up import made_up_questions, write_file
from tests.made_up_foodieqa import write_release
from tests.made_up_recipes import write_recipe1m
from tests.test_recipe1m_lmdb import value, write

HUGE = 256 << 20
Reader = Callable[[], Any]


def make(root: Path) -> dict[str, tuple[Path, Reader]]:
    """All files below `root`, and how each is read; the value that a reader returns is pickled and compared."""
    raw, own = root / "raw", root / "own"
    recipes = write_recipe1m(raw / "recipe1m", 40, pixels=0)
    food = write_release(raw / "food", 12)
    train = write_file(raw / "recipeqa" / "train.json", made_up_questions("textual_cloze", 30))
    packed = raw / "recipeqa" / "val.json.gz"
    packed.write_bytes(gzip.compress(train.read_bytes(), mtime=0))
    (raw / "recipe1m" / "test.txt").write_text("".join(f"{recipe.recipe_id}\n" for recipe in recipes))
    write(raw / "base", {recipe.recipe_id: value() for recipe in recipes})
    (raw / "base" / "lock.mdb").unlink(missing_ok=True)
    (raw / "keys.pkl").write_bytes(pickle.dumps([recipe.recipe_id for recipe in recipes], 2))
    features = {f"{i}.jpg": np.random.default_rng(i).random(64, np.float32) for i in range(40)}
    (raw / "features.pkl").write_bytes(pickle.dumps(features, 4))
    (raw / "features.json").write_text("{" + ", ".join(f'"{k}": {v.tolist()}' for k, v in features.items()) + "}")
    from PIL import Image

    noise = Image.fromarray(np.random.default_rng(0).integers(0, 255, (200, 300, 3), np.uint8))
    noise.save(raw / "a.jpg", quality=90)
    noise.save(raw / "a.png")
    vectors = np.random.default_rng(1).random((500, 16), np.float32)
    store = build_store(own, "x", {}, list(map(str, range(500))), lambda rows: vectors[rows], 16).folder
    write_table(own / "table", recipes)
    Gallery(list(map(str, range(500))), vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).save(own / "gallery")
    weights = {"state_dict": {"w": torch.rand(5000)}, "config": {"model": {"name": "m"}}}
    AtomicCheckpointIO().save_checkpoint(weights, own / "best.ckpt")

    def part(kind: str) -> Reader:
        def read() -> bytes:
            with tempfile.TemporaryDirectory(dir=root) as cache:
                return make_part(Path(cache), kind, raw / "recipe1m" / f"{kind}.json").path.read_bytes()

        return read

    def looked_up(name: str) -> Reader:
        def read() -> np.ndarray:
            extractor = ReleasedFeatures(raw / name, 64)
            extractor.settings()
            return extractor.extract([Path(key) for key in features])

        return read

    def from_store() -> Any:
        found = open_store(store)
        return np.asarray(found.array), found.digests

    def from_table() -> Any:
        found = open_table(own / "table")
        return [found[i] for i in range(len(found))]

    def from_gallery() -> Any:
        found = Gallery.open(own / "gallery")
        return np.asarray(found.vectors), found.ids

    base, layers = raw / "base" / "data.mdb", raw / "recipe1m"
    text = food / FILES["textqa"]
    return {
        "RecipeQA questions": (train, lambda: read_questions(train)[0]),
        "RecipeQA questions, packed": (packed, lambda: read_questions(packed)[0]),
        "FoodieQA questions": (text, lambda: read_file(text, "textqa", "zh").questions),
        "Recipe1M layer1": (layers / "layer1.json", part("layer1")),
        "Recipe1M layer2": (layers / "layer2.json", part("layer2")),
        "Recipe1M det_ingrs": (layers / "det_ingrs.json", part("det_ingrs")),
        "Recipe1M classes": (layers / "classes1M.pkl", lambda: read_classes(layers / "classes1M.pkl")),
        "list of ids": (layers / "test.txt", lambda: read_id_list(layers / "test.txt")),
        "LMDB": (base, lambda: list(LmdbRecipes(raw / "base"))),
        "LMDB keys": (raw / "keys.pkl", lambda: LmdbRecipes(raw / "base", raw / "keys.pkl").ids),
        "released features": (raw / "features.pkl", looked_up("features.pkl")),
        "released features, JSON": (raw / "features.json", looked_up("features.json")),
        "picture, JPEG": (raw / "a.jpg", lambda: decode(raw / "a.jpg").numpy()),
        "picture, PNG": (raw / "a.png", lambda: np.asarray(load_image(raw / "a.png"))),
        "vectors of a store": (store / "vectors.npy", from_store),
        "keys of a store": (store / "keys.npy", from_store),
        "manifest of a store": (store / "manifest.json", from_store),
        "table of recipes": (own / "table" / "recipes.arrow", from_table),
        "gallery": (own / "gallery" / "vectors.npy", from_gallery),
        "checkpoint": (own / "best.ckpt", lambda: load_checkpoint(own / "best.ckpt")["state_dict"]["w"].numpy()),
    }


def mutations(data: bytes, other: bytes, dice: random.Random) -> list[tuple[str, bytes | None]]:
    """Ten of them; None stands for the file with zeros behind it."""
    flipped = []
    for _ in range(4):
        changed = bytearray(data)
        changed[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
        flipped.append(("one bit flipped", bytes(changed)))
    cuts = [("cut short", data[: int(len(data) * dice.uniform(0.05, 0.98))]) for _ in range(2)]
    return [
        *cuts,
        *flipped,
        ("another kind", other),
        ("another kind", b'{"x": [1, null]}\n'),
        ("huge", None),
        ("empty", b""),
    ]


def outcome(read: Reader, name: str, whole: Any) -> tuple[str, str]:
    """What comes of reading, and why."""
    kind, what = in_a_process(read, name)
    return ("equal" if what == whole else "silent", "") if kind == "value" else (kind, str(what))


def in_a_process(read: Reader, name: str) -> tuple[str, Any]:
    """("value", digest of what was read), or "told" or "fault" and why."""
    receive, send = multiprocessing.Pipe(False)

    def child() -> None:
        sys.stderr = sys.stdout = io.StringIO()
        try:
            answer = ("value", hashlib.sha256(pickle.dumps(read())).digest())
        except InputError as error:
            text = str(error)
            answer = ("told" if name in text and "\n" not in text else "fault", text)
        except BaseException as error:
            answer = ("fault", f"{type(error).__name__}: {error}"[:200])
        send.send(answer)

    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    send.close()
    try:
        kind, what = receive.recv()
    except EOFError:
        process.join()
        return "fault", f"ended with {process.exitcode}"
    process.join()
    return kind, what


def main() -> None:
    """Print the table and what was not told."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=1)
    rounds = parser.parse_args().rounds
    count: Counter[tuple[str, str, str]] = Counter()
    bad: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        files = make(root)
        names = list(files)
        for listed in (True, False):
            (root / "raw" / NAME).unlink(missing_ok=True)
            checksums._list_above.cache_clear()
            if listed:
                write_sums(root / "raw")
            for place, name in enumerate(tqdm(names, "listed" if listed else "not listed")):
                path, read = files[name]
                if not listed and not path.is_relative_to(root / "raw"):
                    continue
                data, status = path.read_bytes(), path.stat()
                kind, whole = in_a_process(read, path.name)  # a process that has decoded must not be forked
                assert kind == "value", whole
                dice = random.Random(f"{name} {rounds}")
                for _ in range(rounds):
                    for kind, content in mutations(data, files[names[place - 1]][0].read_bytes(), dice):
                        path.write_bytes(data if content is None else content)
                        if content is None:
                            os.truncate(path, len(data) + HUGE)
                        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
                        found, why = outcome(read, "base" if path.name == "data.mdb" else path.name, whole)
                        group = "raw, listed" if listed else "raw, not listed"
                        count[group if path.is_relative_to(root / "raw") else "own checksums", kind, found] += 1
                        if found in ("silent", "fault"):
                            bad.append(f"{'listed' if listed else 'not listed'}, {name}, {kind}: {found} {why}")
                    path.write_bytes(data)
                    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    kinds = ("cut short", "one bit flipped", "another kind", "huge", "empty")
    print("| | mutation | told | equal | silent | fault |\n|---|---|--:|--:|--:|--:|")
    for group in ("raw, listed", "own checksums", "raw, not listed"):
        for kind in kinds:
            row = [count[group, kind, found] for found in ("told", "equal", "silent", "fault")]
            print(f"| {group} | {kind} | " + " | ".join(map(str, row)) + " |")
    print("\n" + "\n".join(bad))


if __name__ == "__main__":
    main()
