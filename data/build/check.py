"""Look over question files and their images before anybody trains on them."""

import io
import itertools
import os
from collections import Counter
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from PIL import Image
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from tqdm import tqdm

from data.checksums import verify
from data.errors import InputError
from data.images import FORMATS, MAX_BYTES
from data.recipeqa import data_report, find_images, question_images, read_questions
from data.records import TASKS, Question

MAX_PIXELS = 50_000_000  # a photo has a few million; more is a decompression bomb
LONG_TEXT = 10  # words: shorter bodies ("Enjoy!") recur in recipes that have nothing to do with each other


def check_recipeqa(
    files: Mapping[str, str | os.PathLike[str]],
    images: str | os.PathLike[str] | None = None,
    *,
    cap: int = 20,
    workers: int = 4,
) -> dict[str, Any]:
    """Report on the files of a data set, by split, and on their images, as plain containers ready for JSON.

    Nothing is raised for what is wrong inside: a file that cannot be read is an `error` of its split, bad records are
    counted and listed. Lists are cut after `cap` entries, counts are whole.
    images: the folder of the images; each one that a question shows is looked up and decoded. None leaves it out.
    """
    report: dict[str, Any] = {"files": {}, "between": {}, "images": None}
    questions: dict[str, list[Question]] = {}
    for split, path in files.items():
        try:
            questions[split], read = read_questions(path, on_bad_record="skip")
        except InputError as error:
            report["files"][split] = {"path": str(path), "error": str(error)}
            continue
        report["files"][split] = {
            "path": str(path),
            "sha256": read.sha256,
            "records": read.records,
            "stated_splits": read.splits,
            "official": read.official_split,
            "bad": len(read.skipped),
            "bad_records": [{"record": s.record, "qid": s.qid, "reason": s.reason} for s in read.skipped[:cap]],
            "report": data_report(questions[split]),
        }
    for a, b in itertools.combinations(questions, 2):
        report["between"][f"{a} and {b}"] = _between(questions[a], questions[b], cap)
    if images is not None:
        report["images"] = _check_images(images, list(itertools.chain(*questions.values())), cap, workers)
    report["problems"] = _problems(report)
    return report


def _between(a: Iterable[Question], b: Iterable[Question], cap: int) -> dict[str, Any]:
    """What two splits share: it is scored in one and learnt in the other."""

    def texts(questions: Iterable[Question]) -> set[str]:
        bodies = {step.body for q in questions for step in q.context}
        words = (body.casefold().split() for body in bodies)
        return {" ".join(w) for w in words if len(w) >= LONG_TEXT}

    recipes = sorted({q.recipe_id for q in a} & {q.recipe_id for q in b})
    qids = sorted({q.qid for q in a} & {q.qid for q in b})
    return {
        "recipes": len(recipes),
        "recipe_ids": recipes[:cap],
        "qids": len(qids),
        "qid_list": qids[:cap],
        "texts": len(texts(a) & texts(b)),
    }


def _check_images(root: str | os.PathLike[str], questions: list[Question], cap: int, workers: int) -> dict[str, Any]:
    asked_by: dict[str, str] = {}  # the first question that shows an image
    for q in questions:
        for name in question_images(q):
            asked_by.setdefault(name, q.qid)
    report: dict[str, Any] = {"root": str(root), "asked": len(asked_by)}
    try:
        find = find_images(root)
    except InputError as error:
        return report | {"error": str(error)}
    paths, missing, undecodable = [], [], []
    for name, qid in asked_by.items():
        try:
            paths.append(find(name))
        except InputError:
            missing.append({"name": name, "qid": qid})
    modes: Counter[str] = Counter()
    with ThreadPoolExecutor(workers) as pool:  # Pillow decodes without the interpreter lock
        looks = pool.map(_look, paths, chunksize=16)
        for path, (mode, reason) in zip(paths, tqdm(looks, "decode images", len(paths), unit="image"), strict=True):
            if reason:
                undecodable.append({"name": path.name, "qid": asked_by[path.name], "reason": reason})
            else:
                modes[mode] += 1
    return report | {
        "decoded": len(paths) - len(undecodable),
        "modes": dict(sorted(modes.items())),
        "missing": len(missing),
        "missing_images": missing[:cap],
        "undecodable": len(undecodable),
        "undecodable_images": undecodable[:cap],
    }


def _look(path: Path) -> tuple[str, str]:
    """Colour mode of an image, and why it cannot be used ("" where it can)."""
    try:
        if path.stat().st_size > MAX_BYTES:
            return "", f"more than {MAX_BYTES >> 20} MiB"
        data = path.read_bytes()
        verify(path, data)
        with Image.open(io.BytesIO(data), formats=FORMATS) as image:  # not PostScript
            if image.width * image.height > MAX_PIXELS:
                return "", f"{image.width} x {image.height} pixels are more than {MAX_PIXELS:,}"
            image.load()
            return image.mode, ""
    except Exception as error:  # a decoder given damaged bytes may fail with anything
        return "", " ".join(f"{type(error).__name__}: {error}".split())[:160]


def _problems(report: Mapping[str, Any]) -> list[str]:
    """What has to be looked at before training, one line each; empty where all is well."""
    lines = []
    for split, f in report["files"].items():
        if "error" in f:
            lines.append(f["error"])
        elif f["bad"]:
            lines.append(f"{f['path']}: {f['bad']:,} bad records; correct them, or train with on_bad_record=skip")
        elif not f["report"]["questions"]:
            lines.append(f"{f['path']}: the {split} file holds no question")
    for pair, shared in report["between"].items():
        if shared["recipes"]:
            lines.append(f"{pair} share {shared['recipes']:,} recipes; split by recipe")
        if shared["qids"]:
            lines.append(f"{pair} share {shared['qids']:,} qids")
    images = report["images"]
    if images and "error" in images:
        lines.append(images["error"])
    elif images:
        for what in ("missing", "undecodable"):
            if images[what]:
                lines.append(f"{images['root']}: {images[what]:,} of {images['asked']:,} images {what}")
    return lines


# ----------------------------------------------------------------------------------------------------------------
# In the terminal


def render(report: Mapping[str, Any], console: Console | None = None) -> None:
    """Print what `check_recipeqa` found as tables, what needs attention last."""
    console = console or Console(highlight=False)
    for split, f in report["files"].items():
        if "error" in f:
            continue
        official = f"the official {f['official']} file by its counts" if f["official"] else "not an official file"
        bad = f", {f['bad']:,} of them bad" if f["bad"] else ""
        console.print(f"[bold]{escape(split)}[/]: {escape(f['path'])}", soft_wrap=True)
        console.print(
            f"{f['records']:,} records{bad}, {f['report']['recipes']:,} recipes, {official}, sha256 {f['sha256'][:12]}"
        )
        if f["report"]["tasks"]:
            console.print(_tasks_table(f["report"]["tasks"]))
        if f["bad"]:
            rows = [(str(b["record"]), b["qid"], b["reason"]) for b in f["bad_records"]]
            console.print(_list_table("bad records", f["bad"], ("record", "qid", "reason"), rows))
    if report["between"]:
        table = Table(
            title=f"shared between splits (texts: step bodies of {LONG_TEXT} words or more)", title_justify="left"
        )
        for column in ("", "recipes", "qids", "texts"):
            table.add_column(column, justify="left" if not column else "right")
        for pair, shared in report["between"].items():
            table.add_row(pair, *(f"{shared[k]:,}" for k in ("recipes", "qids", "texts")))
        console.print(table)
    images = report["images"]
    if images and "error" not in images:
        modes = ", ".join(f"{mode} {n:,}" for mode, n in images["modes"].items())
        console.print(
            escape(
                f"images in {images['root']}: {images['asked']:,} shown by questions, {images['decoded']:,} decoded"
                f"{f' ({modes})' if modes else ''}, {images['missing']:,} missing,"
                f" {images['undecodable']:,} cannot be decoded"
            )
        )
        rows = [(i["name"], i["qid"], "missing") for i in images["missing_images"]]
        rows += [(i["name"], i["qid"], i["reason"]) for i in images["undecodable_images"]]
        if rows:
            n = images["missing"] + images["undecodable"]
            console.print(_list_table("images", n, ("image", "first asked by", "reason"), rows))
    for line in report["problems"]:
        console.print(f"[bold red]![/] {escape(line)}")
    if not report["problems"]:
        console.print("[green]nothing to mend[/]")


def _tasks_table(tasks: Mapping[str, Any]) -> Table:
    """One column for each task, one row for each count."""
    table = Table(title="questions and known defects (counted, never repaired)", title_justify="left")
    table.add_column("")
    columns = [tasks[task] for task in TASKS if task in tasks]
    for task in TASKS:
        if task in tasks:
            table.add_column(task.replace("_", "\n"), justify="right")

    def counted(key: str, r: Mapping[str, Any]) -> str:
        if key not in r:
            return "-"
        return f"{len(r[key]) if isinstance(r[key], list) else r[key]:,}"

    table.add_row("questions", *(f"{r['questions']:,}" for r in columns))
    table.add_row("recipes", *(f"{r['recipes']:,}" for r in columns))
    for i in range(4):
        table.add_row(f"answer at {i}, %", *(f"{100 * r['answers'][i] / r['questions']:.1f}" for r in columns))
    table.add_row("steps, mean", *(f"{r['steps']['mean']}" for r in columns))
    table.add_row("steps, min to max", *(f"{r['steps']['min']} to {r['steps']['max']}" for r in columns))
    for label, key in (
        ("right choice occurs twice", "twins"),
        ("two distractors equal", "equal_distractors"),
        ("an empty choice", "empty_choice"),
        ("choices of at most 2 characters", "short_choices"),
        ("... of them right", "short_right_choices"),
        ("a wrong image offered twice", "repeated_image"),
        ("a wrong order offered twice", "repeated_permutation"),
        ("steps without text", "empty_steps"),
        ("steps with empty body", "empty_bodies"),
        ("steps with empty title", "empty_titles"),
        ("steps without image", "steps_without_image"),
    ):
        if any(key in r for r in columns):
            table.add_row(label, *(counted(key, r) for r in columns))
    return table


def _list_table(title: str, n: int, columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> Table:
    shown = f"{n:,}" if n <= len(rows) else f"first {len(rows):,} of {n:,}"
    table = Table(title=f"{title} ({shown})", title_justify="left")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(escape(cell) for cell in row))
    return table
