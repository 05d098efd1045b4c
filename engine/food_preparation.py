"""`prepare.py` for questions on food: the demo set, a set's own statistics, and a set of one's own dishes."""

import tempfile
from pathlib import Path

from hydra.utils import instantiate
from omegaconf import DictConfig
from rich.console import Console

from data.build.food_statistics import statistics, write_statistics
from data.dish_table import DishFacts, normal
from data.errors import InputError
from data.foodieqa import FoodieQAData
from data.records import FOOD_TASKS
from engine.console import folder_name, say

_PICTURES = {".jpg", ".jpeg", ".png", ".webp"}


def prepare_food(cfg: DictConfig, console: Console) -> None:
    """Read the questions, after making the demo set where no root is given; say what is there.

    Raises:
        InputError: what is wrong with the files.
    """
    data: FoodieQAData = instantiate(cfg.data)
    data.prepare()
    say(console, f"{data.title}: {len(data.questions)} questions")
    if data.is_demo and not cfg.data.file:
        from data.build.demo_dishes import build_demo
        from data.build.demo_page import demo_page

        folder = build_demo(Path(cfg.cache), Path(cfg.data.photos) if cfg.data.photos else None)
        say(console, f"demo set: {folder}")
        say(console, f"all of it to look at: {demo_page(folder)}")
    for note in data.notes:
        say(console, f"note: {note}")


def food_check(cfg: DictConfig, console: Console) -> None:
    """Read one task's file record by record, list all that is wrong, then its statistics.

    Raises:
        InputError: at the end, if records are wrong; at once, if the file or its pictures cannot be read.
    """
    data: FoodieQAData = instantiate(cfg.data, on_bad_record="skip")
    data.prepare()
    report = data.report
    for skipped in report.skipped if report is not None else ():
        console.print(f"row {skipped.row} ({skipped.question_id}): {skipped.reason}", markup=False, soft_wrap=True)
    for note in data.notes:
        say(console, f"note: {note}")
    wrong = len(report.skipped) if report is not None else 0
    if wrong:
        raise InputError(
            f"{data.title}: {wrong} of {wrong + len(data.questions)} records are wrong, listed above; correct them, or "
            "leave them out with data.on_bad_record=skip"
        )
    say(console, f"{data.title}: all {len(data.questions)} records are as they should be")


def food_statistics(cfg: DictConfig, console: Console) -> None:
    """Statistics of the set as the paper gives them: of all three tasks where their files are there."""
    chosen: FoodieQAData = instantiate(cfg.data)
    chosen.prepare()
    found, hops, notes = list(chosen.questions), {chosen.task: chosen.hops}, list(chosen.notes)
    for task in FOOD_TASKS if not cfg.data.file else ():
        if task == chosen.task:
            continue
        other: FoodieQAData = instantiate(cfg.data, task=task, name=task)
        try:
            other.prepare()
        except InputError as error:
            notes.append(f"{task} is left out: {error}")
            continue
        found += other.questions
        hops[task] = other.hops
        notes += [note for note in other.notes if note not in notes]
    folder = Path(cfg.output_dir)
    title = "demo dishes" if chosen.is_demo else str(cfg.data.root or cfg.data.file)
    written = write_statistics(folder, statistics(found, hops), title, notes)
    console.print((folder / "statistics.md").read_text(encoding="utf-8"), markup=False, soft_wrap=True)
    say(console, f"wrote {' '.join(written)} into {folder_name(folder)}")


def dish_questions(cfg: DictConfig, console: Console) -> None:
    """Make questions in FoodieQA's schema from a table of dishes, with the page to check their English.

    Raises:
        InputError: no table, a folder that is there already, photos of no dish, wrong corrections.
    """
    from data.build.dish_questions import Settings, generate, read_templates
    from data.build.translation_page import apply_translation_checks, read_translation_checks, write_translation_page
    from data.dish_table import read_dishes

    if not cfg.dishes.table:
        raise InputError("dishes.table: give the table of dishes, CSV or JSON; data/build/dishes.csv shows its columns")
    if not cfg.out:
        raise InputError("out: give the folder to be made")
    out = Path(cfg.out)
    if out.exists():
        raise InputError(f"out={out}: is there already; give a new folder, or remove it")
    dishes = read_dishes(cfg.dishes.table)
    settings = Settings(
        seed=int(cfg.seed),
        distractors=str(cfg.dishes.distractors),  # pyright: ignore[reportArgumentType] (checked by Settings)
        templates_per_type=cfg.dishes.templates_per_type,
        multi_image_per_dish=int(cfg.dishes.multi_image_per_dish),
    )
    photos = photos_by_dish(Path(cfg.dishes.photos), dishes) if cfg.dishes.photos else {}
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent) as name:
        part = Path(name) / "set"
        part.mkdir()
        names = _copy_photos(photos, part / "images")
        made = generate(
            dishes, read_templates(), settings, (lambda dish: names.get(dish.dish_id, [])) if names else None
        )
        if cfg.dishes.corrections:
            made = apply_translation_checks(made, read_translation_checks(cfg.dishes.corrections))
        made.write(part)
        records = [record for task in FOOD_TASKS for record in made.records(task)]
        if not records:
            raise InputError(f"{cfg.dishes.table}: not one question can be made of {len(dishes)} dishes; give more")
        write_translation_page(records, part / "translations.html", "Check the English")
        part.rename(out)
    console.print((out / "REPORT.md").read_text(encoding="utf-8"), markup=False, soft_wrap=True)
    say(console, f"wrote {' '.join(sorted(p.name for p in out.iterdir()))} into {folder_name(out)}")
    say(console, f"check the English on {out / 'translations.html'}, then give its file as dishes.corrections=")
    say(console, f"ask a model: python evaluate.py data=foodieqa/text data.file={out / 'textqa_tidy.json'} model=...")


def photos_by_dish(folder: Path, dishes: list[DishFacts]) -> dict[str, list[Path]]:
    """Photos of each dish by its id: files named `麻婆豆腐.jpg`, `麻婆豆腐_2.jpg`, or in a folder of that name.

    Raises:
        InputError: no such folder, no photo in it, or one that bears no dish's name.
    """
    if not folder.is_dir():
        raise InputError(f"dishes.photos={folder}: no such folder; give the folder of the dishes' photos")
    known = {normal(name.zh): dish.dish_id for dish in dishes for name in (dish.dish_name, *dish.alternative_names)}
    found: dict[str, list[Path]] = {}
    for path in sorted(folder.rglob("*")):
        if path.suffix.lower() not in _PICTURES or not path.is_file():
            continue
        stem = path.stem.rpartition("_")[0] if path.stem.rpartition("_")[2].isdigit() else path.stem
        dish = (
            known.get(normal(path.stem)) or known.get(normal(stem or path.stem)) or known.get(normal(path.parent.name))
        )
        if dish is None:
            raise InputError(f"{path}: bears the name of no dish in the table; rename it, or add the dish")
        found.setdefault(dish, []).append(path)
    if not found:
        raise InputError(f"dishes.photos={folder}: holds no picture ({', '.join(sorted(_PICTURES))})")
    return found


def _copy_photos(photos: dict[str, list[Path]], folder: Path) -> dict[str, list[str]]:
    """Photos under names that say nothing of the dish, upright and without what a camera adds."""
    from data.food_images import encode_jpeg, load_image
    from data.store import digest_of, file_digest

    names: dict[str, list[str]] = {}
    for dish, paths in photos.items():
        for path in paths:
            name = f"photos/{digest_of([dish, file_digest(path)])[:20]}.jpg"
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(encode_jpeg(load_image(str(path), 1024), 95))
            if name not in names.setdefault(dish, []):
                names[dish].append(name)
    return names
