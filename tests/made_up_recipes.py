"""A made-up Recipe1M root, pixels and all, for every test that needs one without the real files.

The pictures show the ingredients: each one has a colour and a recipe's picture is one band for each. So a tiny network
can learn which picture belongs to which recipe, and one that learns nothing stays at chance.
"""

import json
import pickle
import random
from collections.abc import Mapping
from pathlib import Path

from PIL import Image, ImageDraw

from data.records import Recipe

COLOURS = {
    "butter": (250, 220, 90),
    "tomato": (210, 40, 30),
    "spinach": (30, 110, 40),
    "rice": (245, 245, 235),
    "cocoa": (70, 40, 20),
    "beetroot": (130, 10, 70),
    "carrot": (240, 130, 20),
    "blueberry": (50, 60, 150),
    "lime": (150, 210, 40),
    "red onion": (170, 70, 130),
    "soy sauce": (40, 20, 20),
    "cream cheese": (255, 250, 220),
}
DISHES = ("rice bowl", "baked pie", "cold soup", "warm salad")
ACTIONS = ("Chop", "Boil", "Fry", "Bake", "Stir", "Fold", "Season", "Chill")


def made_up_recipes(n: int | Mapping[str, int], seed: int = 0, images: int = 2) -> list[Recipe]:
    """Some recipes sorted by id, always the same for the same arguments.

    n: how many of each partition; a number is split 60 : 20 : 20. Each has 1 to `images` pictures, 2 to 5 different
    ingredients and, as its last line, one whose name was not detected; no two have the same ingredients while there
    are enough. Classes 1 to 4 are the dishes named in the titles; every fifth recipe is background.
    """
    if isinstance(n, int):
        n = {"train": n - 2 * (n // 5), "val": n // 5, "test": n // 5}
    rng = random.Random(f"recipes {seed}")
    recipes, used = [], set()
    for number, partition in enumerate(partition for partition, count in n.items() for _ in range(count)):
        for _ in range(100):
            names = tuple(rng.sample(sorted(COLOURS), rng.randint(2, 5)))
            if names not in used:
                break
        used.add(names)
        dish = rng.randrange(len(DISHES))
        steps = [f"{rng.choice(ACTIONS)} the {name} for {rng.randint(2, 40)} minutes." for name in names]
        lines = [f"{rng.randint(1, 9)} cups {name}" for name in names] + ["water as needed, see note"]
        recipes.append(
            Recipe(
                recipe_id=f"{rng.getrandbits(40):010x}",
                title=f"{names[0]} {DISHES[dish]} {number}".capitalize(),
                ingredients=tuple(lines),
                instructions=(*steps, f"Serve the {DISHES[dish]}."),
                images=tuple(f"{rng.getrandbits(40):010x}.jpg" for _ in range(rng.randint(1, images))),
                partition=partition,
                detected=(*names, lines[-1]),
                valid=(True,) * len(names) + (False,),
                class_id=0 if number % 5 == 0 else dish + 1,
                attribution=f"https://example.org/{number}",
            )
        )
    return sorted(recipes, key=lambda recipe: recipe.recipe_id)


def write_recipe1m(
    root: Path,
    n: int | Mapping[str, int] = 30,
    seed: int = 0,
    images: int = 2,
    layout: str = "partition",
    plus: bool = False,
    classes: bool = True,
    pixels: int = 64,
    folder: str = "images",
) -> list[Recipe]:
    """Write layer1, layer2 (or layer2+), det_ingrs, pictures and classes1M.pkl of made-up recipes, and return them.

    layout: `partition` (train/e/f/3/d/ef3d….jpg) or `flat` (e/f/3/d/ef3d….jpg), below `folder` ("" = the root itself).
    pixels: side of a picture, 0 = write none. See `made_up_recipes` for the rest.
    """
    root = Path(root)
    root.mkdir(parents=True, exist_ok=True)
    recipes = made_up_recipes(n, seed, images)
    write_layers(root, recipes, plus)
    if classes:
        with open(root / "classes1M.pkl", "wb") as file:  # two pickles, one after the other
            pickle.dump({recipe.recipe_id: recipe.class_id for recipe in recipes}, file, protocol=2)
            pickle.dump(dict(enumerate(("background", *DISHES))), file, protocol=2)
    for recipe in recipes if pixels else ():
        for number, name in enumerate(recipe.images):
            path = root / folder / (recipe.partition if layout == "partition" else "") / "/".join(name[:4]) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            picture(recipe, number, pixels).save(path, quality=92, subsampling=0)
    return recipes


def write_layers(root: Path, recipes: list[Recipe], plus: bool = False) -> None:
    """The three JSON files of some recipes, in the order given."""
    texts = [[{"text": line} for line in recipe.ingredients] for recipe in recipes]
    layer1 = [
        {
            "ingredients": lines,
            "url": recipe.attribution,
            "partition": recipe.partition,
            "title": recipe.title,
            "id": recipe.recipe_id,
            "instructions": [{"text": step} for step in recipe.instructions],
        }
        for recipe, lines in zip(recipes, texts, strict=True)
    ]
    layer2 = [
        {
            "id": recipe.recipe_id,
            "images": [{"id": name, "url": f"https://example.org/{name}"} for name in recipe.images],
        }
        for recipe in recipes
        if recipe.images
    ]
    detected = [
        {
            "valid": list(recipe.valid),
            "id": recipe.recipe_id,
            "ingredients": [{"text": name} for name in recipe.detected],
        }
        for recipe in recipes
    ]
    for name, records in (("layer1", layer1), ("layer2+" if plus else "layer2", layer2), ("det_ingrs", detected)):
        (root / f"{name}.json").write_text(json.dumps(records), encoding="utf-8")


def picture(recipe: Recipe, number: int, pixels: int) -> Image.Image:
    """One horizontal band for each detected ingredient; a recipe's pictures differ in brightness."""
    names = [name for name, valid in zip(recipe.detected, recipe.valid, strict=True) if valid]
    image = Image.new("RGB", (pixels, pixels))
    draw = ImageDraw.Draw(image)
    for i, name in enumerate(names):
        top, bottom = i * pixels // len(names), (i + 1) * pixels // len(names) - 1
        draw.rectangle((0, top, pixels, bottom), tuple(int(c * (1 - 0.1 * number)) for c in COLOURS[name]))
    return image
