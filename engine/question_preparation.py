"""`prepare.py task=questions`: a benchmark of the four tasks from any recipes, with its data card."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf
from rich.console import Console
from rich.table import Column, Table

from data.build.question_set import build_set
from data.build.sources import Recipe1M, Released, Wikibooks
from data.errors import InputError
from data.recipeqa import read_questions
from data.records import TASKS, SourceRecipe
from engine.console import folder_name, say
from engine.data_card import OtherSet, card, write_card


def make_questions(cfg: DictConfig, console: Console) -> None:
    """Read `source`, clean, ask, and write the question set and its card to `out`.

    Raises:
        InputError: no `out`, a wrong setting, recipes that do not suffice.
    """
    if not cfg.out:
        raise InputError("out: give the folder to be made")
    source = instantiate(cfg.source)
    wanted = OmegaConf.to_container(cfg.questions, resolve=True)
    assert isinstance(wanted, dict)
    if wanted["text_field"] == "auto":
        wanted["text_field"] = "body" if isinstance(source, Wikibooks | Recipe1M) else "title"
    if isinstance(source, Recipe1M) and "visual_cloze" in wanted["tasks"]:
        wanted["tasks"] = ["textual_cloze"]
        say(console, "recipe1m has no pictures of steps: textual cloze only")
    if isinstance(source, Released) and source.images is None and wanted["images"]:
        wanted["images"] = False
        say(console, "source.images is not given: the set names pictures and holds none")
    settings = instantiate(wanted, _convert_="all")

    def describe(
        folder: Path,
        kept: Sequence[tuple[SourceRecipe, str]],
        made: Mapping[str, Sequence[Any]],
        report: dict[str, Any],
    ) -> None:
        say(console, "writing the data card")
        content = card(
            made,
            [recipe for recipe, _ in kept],
            title=f"questions from {source.name}",
            cleaning=report["cleaning"],
            building=report["rules"],
            settings={str(key): value for key, value in wanted.items() if key != "_target_"},
            notes=[f"{name}: {value}" for name, value in source.provenance().items() if isinstance(value, str | int)],
            other=_released_questions(source),
        )
        write_card(folder, content)

    out = Path(cfg.out)
    there = (out / "manifest.json").is_file()
    try:
        build_set(
            source,
            out,
            settings,
            Path(cfg.cache),
            instantiate(cfg.engine),
            console,
            text=instantiate(cfg.text),
            extractor=instantiate(cfg.features),
            on_bad_image=str(cfg.on_bad_image),
            describe=describe,
        )
    except InputError as error:
        raise InputError(_keys_here(str(error))) from None
    lite = "EfficientNet" in cfg.features._target_  # train.py takes ResNet-50 for these tasks where it is told nothing
    features = " features=efficientnet_lite0" if lite else ""
    _say_what_was_made(out, not there, features, console)


def _say_what_was_made(out: Path, made: bool, features: str, console: Console) -> None:
    """Questions by task and split, what the cleaning left out, the verdict, and how to go on."""
    content = json.loads((out / "data_card.json").read_text(encoding="utf-8"))
    questions = content["set"]["questions"]
    tasks = [task for task in TASKS if any(task in own for own in questions.values())]
    table = Table("questions", *([Column(split, justify="right") for split in questions]), title_justify="left")
    for task in tasks:
        table.add_row(task, *(f"{own[task]['n']:,}" if task in own else "–" for own in questions.values()))
    table.add_row("recipes", *(f"{content['set']['recipes'][split]['n']:,}" for split in questions))
    console.print(table)
    for rule, n in content["cleaning"].items():
        if n and "left out" in rule:
            say(console, f"{rule}: {n:,}")
    say(console, content["set"]["verdict"])
    if made:
        say(console, f"wrote {' '.join(sorted(p.name for p in out.iterdir()))} into {folder_name(out)}")
    else:
        say(console, f"{folder_name(out)} holds this very set already, whole and unchanged")
    say(console, f"look at {folder_name(out / 'data_card.md')}")
    for task in tasks:
        if task == "textual_cloze" or (out / "images").is_dir():
            given = f"data=recipeqa/{task} data.root={folder_name(out)}{'' if task == 'textual_cloze' else features}"
            say(console, f"train: python train.py {given}")


def _keys_here(message: str) -> str:
    """A message of readers that train.py uses too, with the keys that this command has."""
    for key, here in (
        ("count it as absent by data.on_bad_record=skip", "leave it out by on_bad_image=skip"),
        ("data.on_bad_record", "source.on_bad_record"),
        ("data.root", "source.root"),
    ):
        message = message.replace(key, here)
    return message


def _released_questions(source: Any) -> OtherSet | None:
    """What recipes rebuilt from released questions are compared with: those questions."""
    if not isinstance(source, Released):
        return None
    found: dict[str, list[Any]] = {}
    for path in source.files:
        for question in read_questions(path, on_bad_record=source.on_bad_record)[0]:
            found.setdefault(question.split, []).append(question)
    return OtherSet("the released questions", found)
