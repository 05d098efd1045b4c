"""Rates of the retrieval loader, as ratios measured in one run: photos decoded, texts gathered.

    python benchmarks/retrieval_loader.py [--rounds 5] [--photos FOLDER]

Photos: 200 JPEGs of 512 pixels on the long side, made from those of a folder or from random colours; to 224 pixels, by
`data.photos` and by Pillow. Texts: made-up recipes, gathered from encoded arrays and cut into words when asked for.
One thread; processor time, so that other processes count less; medians over rounds of the ratios within a round.
"""

import argparse
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from tqdm import tqdm

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from data.photos import load_pixels, photo_batch
from data.recipe_encoding import EncodedRecipes, encode_recipes
from data.recipes import RecipeTable, open_table, write_table
from data.records import Recipe
from data.vocabulary import TextCutter, Vocabulary, ingredient_elements

BATCH, PHOTOS, RECIPES, WORDS = 64, 200, 2000, 3000


def make_photos(folder: Path, source: Path | None) -> list[Path]:
    """JPEGs of 512 pixels on the long side, quality 85."""
    rng = np.random.default_rng(0)
    found = sorted(source.rglob("*.jpg")) if source else []
    paths = []
    for i in range(PHOTOS):
        if found:
            picture = Image.open(found[i % len(found)]).convert("RGB")
            scale = rng.uniform(0.8, 1)
            width, height = int(picture.width * scale), int(picture.height * scale)
            left, top = rng.integers(picture.width - width + 1), rng.integers(picture.height - height + 1)
            picture = picture.crop((int(left), int(top), int(left) + width, int(top) + height))
        else:
            picture = Image.fromarray(rng.integers(0, 256, (60, 80, 3), np.uint8))
        scale = 512 / max(picture.size)
        size = round(picture.width * scale), round(picture.height * scale)
        paths.append(folder / f"{i:03}.jpg")
        picture.resize(size, Image.Resampling.BICUBIC).save(paths[-1], quality=85)
    return paths


def by_pillow(path: Path) -> torch.Tensor:
    """Decode, resize to 256, crop the middle 224, as a script with Pillow does it."""
    picture = Image.open(path).convert("RGB")
    w, h = picture.size
    w, h = (256, int(256 * h / w)) if w < h else (int(256 * w / h), 256)
    picture = picture.resize((w, h), Image.Resampling.BILINEAR)
    left, top = round((w - 224) / 2), round((h - 224) / 2)
    return torch.from_numpy(np.array(picture.crop((left, top, left + 224, top + 224)))).permute(2, 0, 1)


def pillow_batch(paths: list[Path]) -> torch.Tensor:
    """A batch of them."""
    return torch.stack([by_pillow(path) for path in paths])


def make_recipes(folder: Path) -> tuple[RecipeTable, Vocabulary]:
    """Recipes of about 9 ingredients and 10 instructions of 14 words, and a vocabulary."""
    rng = random.Random(0)
    words = [f"w{i}" for i in range(WORDS)]
    names = [f"{a} {b}" for a, b in zip(rng.choices(words, k=400), rng.choices(words, k=400), strict=True)]

    def recipe(number: int) -> Recipe:
        detected = tuple(rng.choices(names, k=rng.randint(4, 14)))
        steps = (rng.choices([*words, *detected], k=rng.randint(6, 22)) for _ in range(rng.randint(4, 16)))
        instructions = tuple(" ".join(step) + "." for step in steps)
        title = " ".join(rng.choices(words, k=4))
        return Recipe(f"{number:010x}", title, detected, instructions, detected=detected, valid=(True,) * len(detected))

    write_table(folder, map(recipe, range(RECIPES)))
    known = [*words[:2500], *dict.fromkeys(name.replace(" ", "_") for name in names[:300])]
    vectors = np.random.default_rng(0).standard_normal((len(known), 300))
    return open_table(folder), Vocabulary(known, vectors)


def cut_batch(recipes: list[Recipe], positions: np.ndarray, vocabulary: Vocabulary) -> int:
    """What a `__getitem__` that cuts text does for a batch, without the padding."""
    total = 0
    for position in positions:
        recipe = recipes[position]
        names = ingredient_elements(recipe, vocabulary.rules)
        text = TextCutter([name for name in names if name in vocabulary], vocabulary.rules)
        rows = [vocabulary.rows(text(part))[:40] for part in (recipe.title, *recipe.instructions[:20])]
        total += len(vocabulary.rows(names)) + sum(map(len, rows))
    return total


def seconds(work: Callable[[], object]) -> float:
    """Processor time of one call."""
    start = time.process_time()
    work()
    return time.process_time() - start


def show(title: str, ratios: list[float], units: str, new: float, old: float) -> None:
    """One line of the table."""
    spread = f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
    print(f"| {title} | {spread} | {new:.4g} {units} against {old:.4g} |")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--photos", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths = make_photos(folder, arguments.photos)
        table, vocabulary = make_recipes(folder / "table")
        encoded: EncodedRecipes = encode_recipes(folder, table, np.arange(RECIPES), vocabulary)
        recipes = [table[row] for row in range(RECIPES)]
        draws = np.random.default_rng(1).integers(RECIPES, size=(30, BATCH))
        groups = [paths[i : i + BATCH] for i in range(0, PHOTOS, BATCH)]
        assert torch.equal(load_pixels(paths[0], decoder="pil"), by_pillow(paths[0]))
        works = {
            "pillow": lambda: [pillow_batch(group) for group in groups],
            "photos": lambda: [photo_batch(group) for group in groups],
            "training photos": lambda: [photo_batch(group, True, list(range(len(group)))) for group in groups],
            "cut": lambda: [cut_batch(recipes, positions, vocabulary) for positions in draws],
            "gathered": lambda: [encoded.text_batch(positions) for positions in draws],
        }
        found: dict[str, list[float]] = {name: [] for name in works}
        for _ in tqdm(range(arguments.rounds), desc="retrieval loader", unit="round"):
            for name, work in works.items():
                found[name].append(seconds(work))
    print(f"| median of {arguments.rounds} rounds (lowest to highest) | ratio | on this machine, one core |")
    print("|---|---|---|")
    for title, old, new, units, scale in (
        ("photos / Pillow's decode, resize, crop", "pillow", "photos", "photos/s", PHOTOS),
        ("training photos / Pillow's decode, resize, crop", "pillow", "training photos", "photos/s", PHOTOS),
    ):
        ratios = [a / b for a, b in zip(found[old], found[new], strict=True)]
        show(title, ratios, units, scale / statistics.median(found[new]), scale / statistics.median(found[old]))
    per = 1000 / draws.size
    ratios = [a / b for a, b in zip(found["cut"], found["gathered"], strict=True)]
    middle = {name: statistics.median(found[name]) * per for name in ("gathered", "cut")}
    show("text gathered / text cut when asked for", ratios, "ms a recipe", middle["gathered"], middle["cut"])


if __name__ == "__main__":
    main()
