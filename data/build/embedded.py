"""The embedded benchmarks, made of the Wikibooks Cookbook with rendered pictures: RecipeQA's four tasks, retrieval."""

import hashlib
import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from data import dishes, illustrations, wikibooks
from data import text as text_rules
from data.build import questions as builder
from data.checksums import NAME, read_sums, write_sums
from data.errors import InputError
from data.recipeqa import find_images
from data.recipes import RecipeTable, open_table, write_table
from data.records import Recipe, SourceRecipe
from data.store import build_once, digest_of, file_digest, read_manifest, write_manifest


class WikibooksQuestions:
    """Makes and keeps the files of the embedded data.

    Args:
        questions_per_recipe: at most so many for a recipe and task.
        max_recipes: only so many recipes, chosen by a hash of their id; None takes all.
        seed: of every choice of the builder but the split.
    """

    def __init__(self, questions_per_recipe: int = 2, max_recipes: int | None = None, seed: int = 1234) -> None:
        self.questions_per_recipe, self.max_recipes, self.seed = questions_per_recipe, max_recipes, seed

    @cached_property
    def recipes(self) -> list[SourceRecipe]:
        """The recipes with the name of one rendered picture for each step."""
        recipes = sorted(wikibooks.read_recipes(), key=lambda recipe: digest_of(recipe.recipe_id))[: self.max_recipes]
        return illustrations.illustrated(recipes)

    def files(self, cache: Path, tasks: Sequence[str]) -> dict[str, Path]:
        """`train.json`, `val.json`, `test.json` in the released schema, built once for these settings and this code."""
        settings: dict[str, Any] = {
            "source": wikibooks.SHA256,
            "tasks": sorted(tasks),
            "questions_per_recipe": self.questions_per_recipe,
            "max_recipes": self.max_recipes,
            "seed": self.seed,
            # The code is part of the key: a changed rule must never meet questions built by the old one.
            "code": [file_digest(Path(str(module.__file__))) for module in (builder, wikibooks)],
            "drawings": illustrations.drawing_version(),
        }

        def load(folder: Path) -> dict[str, Path]:
            manifest = read_manifest(folder)
            return {split: folder / name for split, name in manifest["files"].items()}

        def write(folder: Path) -> None:
            scenes = illustrations.scene_keys(self.recipes)
            made, report = builder.build_questions(
                self.recipes,
                tasks,
                questions_per_recipe=self.questions_per_recipe,
                text_field="body",
                seed=self.seed,
                content_key=scenes.__getitem__,  # drawings that look alike are never offered side by side
            )
            files = builder.write_questions(made, folder)
            self._notice(folder)
            (folder / "report.json").write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
            write_sums(folder)
            write_manifest(folder, {"settings": settings, "files": {s: path.name for s, path in files.items()}})

        return build_once(Path(cache) / "wikibooks" / digest_of(settings)[:16], load, write)

    def ingredients(self) -> dict[str, list[str]]:
        """Recipe id -> its lines of ingredients."""
        return {recipe.recipe_id: list(recipe.ingredients) for recipe in self.recipes}

    def draw(self, cache: Path, names: Sequence[str]) -> Callable[..., Path]:
        """Draw the named pictures that are not drawn yet; returns a resolver name -> path."""
        folder = Path(cache) / "rendered" / illustrations.drawing_version()
        illustrations.render_images(self.recipes, folder, names, notice=wikibooks.notice())
        _list_drawings(folder, names)
        return find_images(folder)

    def _notice(self, folder: Path) -> None:
        _write_notice(folder, self.recipes)


class WikibooksRecipes:
    """The embedded recipes as a table for retrieval, each with one rendered picture of its dish.

    Args:
        max_recipes: only so many recipes, chosen by a hash of their id; None takes all.
        seed: of the split into 70 % training, 15 % validation and 15 % test recipes.
    """

    rendered = True  # the pictures are no photographs, and every sheet says so

    def __init__(self, max_recipes: int | None = None, seed: int = 1234) -> None:
        self.max_recipes, self.seed = max_recipes, seed
        self.notes = ["the dish pictures are rendered from the recipes' texts; they are no photographs"]

    @cached_property
    def recipes(self) -> list[SourceRecipe]:
        """The whole recipes, in the order in which they are taken."""
        return sorted(wikibooks.read_recipes(), key=lambda recipe: digest_of(recipe.recipe_id))[: self.max_recipes]

    def table(self, root: str | None, cache: Path, on_bad_record: str = "raise") -> RecipeTable:
        """The table of the recipes, built once for these settings and this code; ATTRIBUTION.txt lies beside it.

        InputError where a folder of files is set, which these recipes do not have.
        """
        if root is not None:
            raise InputError(f"data.root={root}: the embedded recipes have no files; use data=recipe1m for yours")
        settings: dict[str, Any] = {
            "source": wikibooks.SHA256,
            "max_recipes": self.max_recipes,
            "seed": self.seed,
            "code": [file_digest(Path(str(m.__file__))) for m in (wikibooks, text_rules)]
            + [file_digest(Path(__file__))],
        }

        def load(folder: Path) -> RecipeTable:
            table = open_table(folder)
            if not (folder / "ATTRIBUTION.txt").is_file():
                raise InputError(f"{folder / 'ATTRIBUTION.txt'}: is absent; the recipes may not be used without it")
            return table

        def write(folder: Path) -> None:
            write_table(folder, self._records(), extra={"settings": settings})
            _write_notice(folder, self.recipes)

        return build_once(Path(cache) / "wikibooks_recipes" / digest_of(settings)[:16], load, write)

    def pairs(self, table: RecipeTable, root: str | None, lists: str | None) -> dict[str, np.ndarray]:
        """Rows of the table by split; every recipe has a picture. InputError where lists are set."""
        if lists is not None:
            raise InputError(f"data.lists={lists}: the embedded recipes have no lists; use data=recipe1m for yours")
        return {split: table.rows(split) for split in ("train", "val", "test")}

    def photos(self, root: str | None, cache: Path, names: Sequence[str]) -> "RenderedPhotos":
        """Draw the named pictures that are not drawn yet; returns a resolver (partition, name) -> path."""
        folder = Path(cache) / "rendered" / f"dishes-{dishes.dish_version()}"
        dishes.render_dishes(self.recipes, folder, names, notice=wikibooks.notice())
        _list_drawings(folder, names)
        return RenderedPhotos(folder)

    def _records(self) -> Iterator[Recipe]:
        group = similar_recipes(self.recipes)
        for recipe in self.recipes:
            found = [" ".join(text_rules.ingredient_name(line)) for line in recipe.ingredients]
            yield Recipe(
                recipe_id=recipe.recipe_id,
                title=recipe.title,
                ingredients=recipe.ingredients,
                instructions=tuple(step.body for step in recipe.steps),
                images=(dishes.photo_name(recipe.recipe_id),),
                partition=_partition(group[recipe.recipe_id], self.seed),
                detected=tuple(name or line for name, line in zip(found, recipe.ingredients, strict=True)),
                valid=tuple(bool(name) for name in found),
                attribution=recipe.attribution,
            )


@dataclass(frozen=True)
class RenderedPhotos:
    """Path of a rendered picture: `photos(partition, name)`."""

    folder: Path

    def __call__(self, partition: str, name: str) -> Path:
        """InputError for a name that is no file of the folder."""
        path = self.folder / name
        if Path(name).name != name or not path.is_file():
            raise InputError(f"{self.folder}: has no picture {name[:80]!r}; prepare the data again")
        return path


def similar_recipes(recipes: Sequence[SourceRecipe]) -> dict[str, str]:
    """Recipe id -> the smallest id of its group; near-duplicates are one group and belong into one split.

    Two recipes are near-duplicates if their titles differ in numbers, brackets and order of words only, if they name
    the same three or more ingredients, or if one shares half of its steps (of 40 characters or more) with the other.
    """
    first = {recipe.recipe_id: recipe.recipe_id for recipe in recipes}

    def root(name: str) -> str:
        while first[name] != name:
            name = first[name]
        return name

    def join(a: str, b: str) -> None:
        a, b = sorted((root(a), root(b)))
        first[b] = a

    seen: dict[tuple[str, ...], str] = {}
    shown_by: dict[str, list[str]] = defaultdict(list)
    long_steps: Counter[str] = Counter()
    for recipe in sorted(recipes, key=lambda recipe: recipe.recipe_id):
        name = recipe.recipe_id
        words = re.findall(r"\w+", re.sub(r"\([^)]*\)", " ", recipe.title.lower()))
        words = [word for word in words if not re.fullmatch(r"[ivx]+|\d+|recipe", word)]
        if words:
            join(name, seen.setdefault(("title", *sorted(words)), name))
        named = {" ".join(text_rules.ingredient_name(line)) for line in recipe.ingredients} - {""}
        if len(named) >= 3:
            join(name, seen.setdefault(("ingredients", *sorted(named)), name))
        for text in sorted({step.body.lower() for step in recipe.steps if len(step.body) >= 40}):
            shown_by[text].append(name)
            long_steps[name] += 1
    shared = Counter(pair for names in shown_by.values() for pair in combinations(names, 2))
    for (a, b), count in sorted(shared.items()):
        if 2 * count >= min(long_steps[a], long_steps[b]):
            join(a, b)
    return {name: root(name) for name in first}


def _partition(group: str, seed: int) -> str:
    share = int.from_bytes(hashlib.sha256(f"split {seed} {group}".encode()).digest()[:7]) / 2**56
    return "train" if share < 0.7 else "val" if share < 0.85 else "test"


def _list_drawings(folder: Path, names: Sequence[str]) -> None:
    """Checksums of new drawings, beside those of the earlier ones."""
    known = read_sums(folder / NAME) if (folder / NAME).is_file() else {}
    new = [name for name in names if name not in known and (folder / name).is_file()]
    if new:
        write_sums(folder, new)


def _write_notice(folder: Path, recipes: Sequence[SourceRecipe]) -> None:
    lines = [wikibooks.notice(), "", *wikibooks.attribution_lines(recipes)]
    (folder / "ATTRIBUTION.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
