"""A source of made-up recipes with texts that have neighbours, hubs and lengths, and image files."""

import hashlib
import io
import random
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from PIL import Image

from data.build.cleaning import CleaningSettings
from data.errors import InputError
from data.records import SourceRecipe, SourceStep

UNCLEANED = CleaningSettings(language=None, near_duplicates=None)  # made-up words are of no language
ENDS = ("bar", "del", "fin", "gom", "kal", "mer", "nor", "pas", "rit", "sul")
WORDS = [start + end for start in ("ba", "ke", "li", "mo", "nu", "ra", "se", "ti", "vo", "za") for end in ENDS]
HUBS = ("Ingredients", "Mix it", "Bake", "Enjoy!")


def picture(name):
    """The bytes of a small picture that no other name has."""
    pixels = np.frombuffer(hashlib.sha384(name.encode()).digest(), np.uint8).reshape(4, 4, 3)
    data = io.BytesIO()
    Image.fromarray(pixels).save(data, "PNG")
    return data.getvalue()


@dataclass
class MadeUpSource:
    """`order` shuffles the recipes; `folder` holds the images, if there are any."""

    count: int
    folder: Path | None = None
    seed: int = 0
    steps: tuple[int, int] = (4, 8)
    order: int | None = None
    first_step_is_narrative: bool = False
    name: str = "made_up"
    hubs: bool = True
    extra: list[SourceRecipe] = field(default_factory=list)
    look: dict[str, object] = field(default_factory=dict)

    def recipes(self):
        made = [self._recipe(number) for number in range(self.count)] + self.extra
        if self.order is not None:
            random.Random(self.order).shuffle(made)
        return iter(made)

    def image_path(self, name):
        if self.folder is None or not (self.folder / name).is_file():
            raise InputError(f"{name}: is absent")
        return self.folder / name

    def prepare_images(self, names):
        for name in sorted(names):
            if self.image_path(name).read_bytes() == b"damaged":
                raise InputError(f"{name}: is damaged")

    def image_key(self, name):
        return self.look.get(name, name)

    def provenance(self):
        return {"count": self.count, "seed": self.seed}

    def _recipe(self, number):
        dice = random.Random(f"{self.seed} {number}")
        recipe_id = f"dish-{number}"
        topic = dice.sample(WORDS, 12)  # a recipe has words of its own, so that its steps are alike
        steps = []
        for index in range(dice.randint(*self.steps)):
            title = " ".join(dice.choices(topic + WORDS[:20], k=dice.randint(1, 5))).capitalize()
            if self.hubs and dice.random() < 0.15:
                title = dice.choice(HUBS)
            body = " ".join(dice.choices(topic + WORDS, k=dice.randint(4, 40)))
            images = tuple(f"{recipe_id}_{index + 1}_{k}.jpg" for k in range(dice.choice((1, 1, 2))))
            if self.folder is not None:
                for image in images:
                    path = self.folder / image
                    if not path.is_file():
                        path.parent.mkdir(parents=True, exist_ok=True)
                        path.write_bytes(picture(image))
            steps.append(SourceStep(body, title, images if self.folder is not None else ()))
        return SourceRecipe(recipe_id, f"Dish {number}", "made up", tuple(steps), (), f"by cook {number}")


class HashedFeatures:
    """Features that are made of a file's bytes; a file that says so cannot be read."""

    size, reads_files = 6, True

    def settings(self):
        return {"extractor": "hashed bytes"}

    def extract(self, paths, batch_size=None):
        rows = []
        for path in paths:
            data = path.read_bytes()
            if data == b"damaged":
                raise InputError(f"{path}: the picture is damaged")
            values = np.frombuffer(hashlib.sha256(data).digest()[: self.size], np.uint8)
            rows.append(values.astype(np.float32) / 255)
        return np.array(rows, np.float32).reshape(len(paths), self.size)
