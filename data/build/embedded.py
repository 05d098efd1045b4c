"""The embedded benchmark: RecipeQA's four tasks made of the Wikibooks Cookbook, with rendered pictures."""

import json
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from data import illustrations, wikibooks
from data.build import questions as builder
from data.recipeqa import find_images
from data.records import SourceRecipe
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
            write_manifest(folder, {"settings": settings, "files": {s: path.name for s, path in files.items()}})

        return build_once(Path(cache) / "wikibooks" / digest_of(settings)[:16], load, write)

    def ingredients(self) -> dict[str, list[str]]:
        """Recipe id -> its lines of ingredients."""
        return {recipe.recipe_id: list(recipe.ingredients) for recipe in self.recipes}

    def draw(self, cache: Path, names: Sequence[str]) -> Callable[..., Path]:
        """Draw the named pictures that are not drawn yet; returns a resolver name -> path."""
        folder = Path(cache) / "rendered" / illustrations.drawing_version()
        illustrations.render_images(self.recipes, folder, names, notice=wikibooks.notice())
        return find_images(folder)

    def _notice(self, folder: Path) -> None:
        lines = [wikibooks.notice(), "", *wikibooks.attribution_lines(self.recipes)]
        (folder / "ATTRIBUTION.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
