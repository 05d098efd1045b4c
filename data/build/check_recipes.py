"""Look over a Recipe1M root, files, texts and pictures, before anybody trains on it."""

import hashlib
import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from PIL import Image
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from tqdm import tqdm

from data.errors import InputError
from data.images import FORMATS, MAX_PIXELS, decode
from data.recipe1m import Filters, Photos, build_recipe1m, find_files, find_lists, find_photos, read_id_list, select
from data.recipe1m_lmdb import LmdbRecipes, find_lmdbs
from data.recipes import PARTITIONS, RecipeTable
from data.records import Recipe

ORIENTATION = 0x0112  # the EXIF field
LMDB_RECORDS = 500  # of each split that are compared field by field


class Words(Protocol):
    """What is asked of a vocabulary."""

    def __len__(self) -> int: ...

    def rows(self, words: Iterable[str], /) -> list[int]:
        """Rows of the known ones among some words."""
        ...


def check_recipes(
    root: str | Path,
    cache: str | Path,
    *,
    plus: bool = False,
    ingredients: str = "det_ingrs",
    filters: Filters | None = None,
    lists: Mapping[str, Sequence[str]] | None = None,
    vocabulary: Words | None = None,
    elements: Callable[[Recipe], list[str]] | None = None,
    pictures: int | None = None,
    cap: int = 20,
    workers: int = 4,
) -> dict[str, Any]:
    """Report on the files of a Recipe1M root, as plain containers ready for JSON.

    Nothing is raised for what is wrong inside: bad records and disagreements of the files are counted and listed, and
    what makes the whole unreadable is an `error`. Lists are cut after `cap` entries, counts are whole.
    lists: ids by split; by default those of root or root/splits, where they are.
    vocabulary: its coverage of the ingredients is reported; `elements(recipe)` gives a recipe's words as the
    vocabulary spells them (by default the names that `filters` take, lower case, joined by `_`).
    pictures: how many to decode, evenly spread over the recipes; None = all, 0 = none.
    """
    root, filters = Path(root), filters or Filters(ingredients=ingredients)
    report: dict[str, Any] = {"root": str(root), "error": None}
    try:
        files = find_files(root, plus, ingredients)
        table = build_recipe1m(root, cache, plus=plus, ingredients=ingredients, on_bad_record="skip")
        removal = read_id_list(files["remove1M"]) if "remove1M" in files else []
    except InputError as error:
        report["error"] = str(error)
        report["problems"] = [str(error)]
        return report
    report["files"] = {
        "records": table.extra["records"],
        "skipped": {what: n for what, n in table.extra["skipped"].items() if n},
        "listed": table.extra["skipped_records"][:cap],
        "classes": table.extra["classes"],
        "class_names": len(table.class_names) - 1,
    }
    report["lists"], lists = _check_lists(root, lists, removal, table, cap)
    chosen = select(table, filters, removal=removal)
    report["pairs"] = {
        "considered": chosen.report.considered,
        "removed": chosen.report.removed,
        "kept": chosen.report.kept,
        "cut": chosen.report.cut,
    }
    report["texts"], digests = _check_texts(table, filters, vocabulary, elements, cap)
    report["duplicates"] = _check_duplicates(table, digests, cap)
    report["pictures"] = _check_pictures(root, table, pictures, cap, workers)
    report["lmdb"] = _check_lmdbs(root, table, vocabulary, cap)
    report["problems"] = _problems(report)
    return report


def _check_lists(
    root: Path,
    lists: Mapping[str, Sequence[str]] | None,
    removal: Sequence[str],
    table: RecipeTable,
    cap: int,
) -> tuple[dict[str, Any], Mapping[str, Sequence[str]] | None]:
    """Split lists against each other, the removal list and the table."""
    report: dict[str, Any] = {"removal": len(removal), "splits": {}, "shared": {}}
    if lists is None:
        try:
            lists = find_lists(root) or find_lists(root / "splits")
        except InputError as error:
            return report | {"error": str(error)}, None
    gone, pictures = set(removal), table.lengths("images")
    for split, ids in (lists or {}).items():
        rows = table.find(list(ids))
        there = rows[rows >= 0]
        absent = [name for name, row in zip(ids, rows, strict=True) if row < 0]
        report["splits"][split] = {
            "ids": len(ids),
            "repeated": len(ids) - len(set(ids)),
            "not_in_table": len(absent),
            "absent": absent[:cap],
            "other_partition": int((table.partitions[there] != split).sum()),
            "without_picture": int((pictures[there] == 0).sum()),
            "to_be_removed": sorted(gone.intersection(ids))[:cap],
        }
    for a, b in itertools.combinations(lists or {}, 2):
        both = sorted(set((lists or {})[a]) & set((lists or {})[b]))
        report["shared"][f"{a} and {b}"] = {"ids": len(both), "listed": both[:cap]}
    return report, lists


def _check_texts(
    table: RecipeTable,
    filters: Filters,
    vocabulary: Words | None,
    elements: Callable[[Recipe], list[str]] | None,
    cap: int,
) -> tuple[dict[str, Any], np.ndarray]:
    """What is empty, by split, the vocabulary's coverage, and for each recipe a digest of title and ingredients."""
    words_of = elements or (lambda recipe: ["_".join(name.lower().split()) for name in filters.names(recipe)])
    empty = {split: Counter() for split in PARTITIONS}
    found = {split: Counter() for split in PARTITIONS}
    unknown: Counter[str] = Counter()
    digests = np.zeros(len(table), np.uint64)
    for row, recipe in enumerate(tqdm(table.iter(), "look at texts", len(table), unit=" recipes", smoothing=0.1)):
        count = empty[recipe.partition]
        count["recipes"] += 1
        count["with a picture"] += bool(recipe.images)
        count["pictures"] += len(recipe.images)
        count["empty title"] += not recipe.title.strip()
        count["no ingredients"] += not any(line.strip() for line in recipe.ingredients)
        count["an empty ingredient line"] += not all(line.strip() for line in recipe.ingredients)
        count["no name detected"] += bool(recipe.detected) and not any(recipe.valid)
        count["no instructions"] += not any(text.strip() for text in recipe.instructions)
        count["an empty instruction"] += not all(text.strip() for text in recipe.instructions)
        count["background class"] += not recipe.class_id
        if vocabulary is not None:
            words = words_of(recipe)
            missing = [word for word in words if not vocabulary.rows([word])]
            found[recipe.partition]["names"] += len(words)
            found[recipe.partition]["known"] += len(words) - len(missing)
            found[recipe.partition]["recipes without a known name"] += len(missing) == len(words)
            unknown.update(missing)
            if len(unknown) > 2_000_000:  # a vocabulary of another set: the rare ones may go
                unknown = Counter(dict(unknown.most_common(1_000_000)))
        content = "\n".join(_normalised(text) for text in (recipe.title, *recipe.ingredients))
        digests[row] = _digest(content)
    report: dict[str, Any] = {"splits": {split: dict(count) for split, count in empty.items()}, "vocabulary": None}
    if vocabulary is not None:
        ranked = sorted(unknown.items(), key=lambda entry: (-entry[1], entry[0]))
        report["vocabulary"] = {
            "words": len(vocabulary),
            "splits": {split: dict(count) for split, count in found.items()},
            "unknown": len(unknown),
            "most_frequent_unknown": [{"name": name, "times": n} for name, n in ranked[:cap]],
        }
    return report, digests


def _normalised(text: str) -> str:
    return " ".join("".join(c if c.isalnum() else " " for c in text.casefold()).split())


def _digest(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


def _check_duplicates(table: RecipeTable, digests: np.ndarray, cap: int) -> dict[str, Any]:
    """Recipes of the same normalised title and ingredients, and picture names that several recipes have."""
    lengths = table.lengths("images")
    owners = np.repeat(np.arange(len(table)), lengths)
    names = np.zeros(len(owners), np.uint64)
    place = 0
    for start in range(0, len(table), 4096):
        rows = np.arange(start, min(start + 4096, len(table)))
        for images in table.take(rows, ["images"]).column("images").to_pylist():
            for name in images:
                names[place] = _digest(name)
                place += 1
    report: dict[str, Any] = {}
    for what, keys, rows in (("recipes", digests, np.arange(len(table))), ("pictures", names, owners)):
        _, group, sizes = np.unique(keys, return_inverse=True, return_counts=True)
        parts = table.partitions[rows] if len(table) else np.empty(0, "U5")
        held = {split: np.bincount(group[parts == split], minlength=len(sizes)) for split in PARTITIONS}
        between = {f"{a} and {b}": (held[a] > 0) & (held[b] > 0) for a, b in itertools.combinations(PARTITIONS, 2)}
        crossing = np.logical_or.reduce(list(between.values()))
        listed = []
        order = np.argsort(group, kind="stable")
        ends = np.cumsum(sizes)
        for g in np.flatnonzero(crossing)[:cap]:
            members = rows[order[ends[g] - sizes[g] : ends[g]]][:cap]
            listed.append([{"id": str(table.ids[m]), "partition": str(table.partitions[m])} for m in members])
        report[what] = {
            "between": {pair: int(mask.sum()) for pair, mask in between.items()},
            "within": {split: int((held[split] > 1).sum()) for split in PARTITIONS},
            "listed": listed,
        }
    return report


def _check_pictures(root: Path, table: RecipeTable, most: int | None, cap: int, workers: int) -> dict[str, Any] | None:
    rows = np.flatnonzero(table.lengths("images"))
    if most == 0 or not len(rows):
        return None
    asked = int(table.lengths("images").sum())
    report: dict[str, Any] = {"root": str(root), "asked": asked}
    try:
        photos = find_photos(root)
    except InputError as error:
        return report | {"error": str(error)}
    step = 1.0 if most is None else max(asked / most, 1.0)
    kinds: Counter[str] = Counter()
    looked = absent = broken = 0
    missing: list[dict[str, str]] = []
    undecodable: list[dict[str, str]] = []
    bar = tqdm(total=asked if most is None else min(asked, most), desc="decode pictures", unit=" pictures")
    with ThreadPoolExecutor(workers) as pool:  # decoders run without the interpreter lock
        for block in _blocks(_spread(table, rows, step), 1024):
            for (recipe, name), (found, kind, reason) in zip(
                block, pool.map(_look, *_arguments(photos, block)), strict=True
            ):
                looked += 1
                entry = {"name": name, "id": recipe.recipe_id, "reason": reason}
                kinds.update(kind)
                if not found:
                    absent += 1
                    missing += [entry] if len(missing) < cap else []
                elif reason:
                    broken += 1
                    undecodable += [entry] if len(undecodable) < cap else []
            bar.update(len(block))
    bar.close()
    return report | {
        "looked_at": looked,
        "decoded": looked - absent - broken,
        "kinds": dict(sorted(kinds.items())),
        "missing": absent,
        "missing_pictures": missing,
        "undecodable": broken,
        "undecodable_pictures": undecodable,
    }


def _spread(table: RecipeTable, rows: np.ndarray, step: float) -> Iterator[tuple[Recipe, str]]:
    """Every picture, or one of `step`."""
    number, due = 0, 0.0
    for recipe in table.iter(rows):
        for name in recipe.images:
            if number >= due:
                due += step
                yield recipe, name
            number += 1


def _blocks(items: Iterable[tuple[Recipe, str]], size: int) -> Iterator[list[tuple[Recipe, str]]]:
    iterator = iter(items)
    while block := list(itertools.islice(iterator, size)):
        yield block


def _arguments(photos: Photos, block: list[tuple[Recipe, str]]) -> tuple[Any, ...]:
    return itertools.repeat(photos), [recipe.partition for recipe, _ in block], [name for _, name in block]


def _look(photos: Photos, partition: str, name: str) -> tuple[bool, list[str], str]:
    """Whether a picture is there, what kind it is, and why it cannot be used ("" where it can)."""
    try:
        path = photos(partition, name)
    except InputError as error:
        return False, [], str(error)
    kinds: list[str] = []
    try:
        with Image.open(path, formats=FORMATS) as image:
            kinds = [f"{image.format} {image.mode}"]
            if image.width * image.height > MAX_PIXELS:
                kinds.append("enormous")
            if image.getexif().get(ORIENTATION, 1) != 1:
                kinds.append("rotated by EXIF")
            if getattr(image, "n_frames", 1) > 1:
                kinds.append("animated")
    except Image.DecompressionBombError:
        kinds = ["enormous"]
    except Exception:  # a decoder given damaged bytes may fail with anything; `decode` tells the reason
        kinds = []
    try:
        decode(path)
    except InputError as error:
        return True, kinds, str(error).removeprefix(f"{path}: ")
    return True, kinds, ""


def _check_lmdbs(root: Path, table: RecipeTable, vocabulary: Words | None, cap: int) -> dict[str, Any] | None:
    """The released LMDBs against the layers and the vocabulary."""
    try:
        bases = find_lmdbs(root)
    except InputError as error:
        return {"error": str(error), "splits": {}}
    if not bases:
        return None
    return {"splits": {split: _check_lmdb(base, split, table, vocabulary, cap) for split, base in bases.items()}}


def _check_lmdb(
    base: LmdbRecipes, split: str, table: RecipeTable, vocabulary: Words | None, cap: int
) -> dict[str, Any]:
    rows = table.find(base.ids)
    pictured = set(table.ids[np.flatnonzero((table.partitions == split) & (table.lengths("images") > 0))].tolist())
    counts: Counter[str] = Counter()
    listed: list[dict[str, str]] = []
    highest = 0
    numbers = range(0, len(base), max(1, len(base) // LMDB_RECORDS))
    for number in tqdm(numbers, f"look at {split}_lmdb", unit=" records"):
        name, row = base.ids[number], int(rows[number])
        faults = []
        try:
            record = base.record(name)
        except InputError as error:
            counts["unreadable"] += 1
            faults.append(str(error))
        else:
            highest = max(highest, int(record.ingredients.max(initial=0)))
            if vocabulary is not None and record.ingredients.max(initial=0) >= len(vocabulary) + 2:
                faults.append("ingredient numbers beyond the vocabulary")
            if row >= 0:
                recipe = table[row]
                if not set(record.images) <= set(recipe.images):
                    faults.append("picture names that layer2 has not")
                if len(record.sentences) != len(recipe.instructions):
                    faults.append("another number of instructions than layer1")
                if record.class_id != recipe.class_id and table.extra["classes"] == "file":
                    faults.append("another class than classes1M")
            counts.update(faults)
        if faults and len(listed) < cap:
            listed.append({"id": name, "reason": "; ".join(faults)})
    return {
        "path": str(base.path),
        "keys": len(base),
        "not_in_table": int((rows < 0).sum()),
        "other_partition": int((table.partitions[rows[rows >= 0]] != split).sum()),
        "pairs_without_record": len(pictured - set(base.ids)),
        "looked_at": len(numbers),
        "highest_ingredient": highest,
        "faults": dict(sorted(counts.items())),
        "listed": listed,
    }


def _problems(report: Mapping[str, Any]) -> list[str]:
    """What has to be looked at before training, one line each; empty where all is well."""
    root = report["root"]
    lines = [f"{root}: {n:,} {what}; train with data.on_bad_record=skip, or fetch files of one release"
             for what, n in report["files"]["skipped"].items()]  # fmt: skip
    lists = report["lists"]
    if "error" in lists:
        lines.append(lists["error"])
    for split, found in lists["splits"].items():
        for key, what in (
            ("repeated", "are repeated"),
            ("not_in_table", "are in no file"),
            ("other_partition", "are of another partition"),
            ("without_picture", "have no picture"),
        ):
            if found[key]:
                lines.append(f"list of {split}: {found[key]:,} of {found['ids']:,} ids {what}")
        if found["to_be_removed"]:
            lines.append(f"list of {split}: {', '.join(found['to_be_removed'])} are in the removal list too")
    for pair, shared in lists["shared"].items():
        if shared["ids"]:
            lines.append(f"lists of {pair} share {shared['ids']:,} ids; what is scored in one is learnt in the other")
    for split, n in report["pairs"]["kept"].items():
        if not n:
            lines.append(f"{root}: no recipe of {split} is left after the filters")
    for split, count in report["texts"]["splits"].items():
        for what in ("empty title", "no ingredients", "no instructions"):
            if count.get(what):
                lines.append(f"{split}: {count[what]:,} of {count['recipes']:,} recipes have {_article(what)}")
    coverage = report["texts"]["vocabulary"]
    if coverage:
        for split, count in coverage["splits"].items():
            if count.get("names") and count["known"] < 0.8 * count["names"]:
                share = 100 * count["known"] / count["names"]
                lines.append(
                    f"{split}: the vocabulary knows {share:.1f} % of the ingredients; few recipes want a lower "
                    "text.min_count, other words another vocabulary"
                )
    for what, found in report["duplicates"].items():
        for pair, n in found["between"].items():
            if n:
                same = "title and ingredients" if what == "recipes" else "picture name"
                lines.append(f"{pair} share {n:,} {what} (same {same}); leave them out of one")
    pictures = report["pictures"]
    if pictures and "error" in pictures:
        lines.append(pictures["error"])
    elif pictures:
        for what in ("missing", "undecodable"):
            if pictures[what]:
                lines.append(f"{root}: {pictures[what]:,} of {pictures['looked_at']:,} pictures {what}")
    lmdb = report["lmdb"]
    if lmdb:
        lines += [lmdb["error"]] if "error" in lmdb else []
        for found in lmdb["splits"].values():
            for key, what in (
                ("not_in_table", "keys are in no layer file"),
                ("other_partition", "keys are of another partition"),
            ):
                if found[key]:
                    lines.append(f"{found['path']}: {found[key]:,} of {found['keys']:,} {what}")
            lines += [
                f"{found['path']}: {n:,} of {found['looked_at']:,} records looked at: {what}; it is of another release"
                for what, n in found["faults"].items()
            ]
    return lines


def _article(what: str) -> str:
    return f"an {what}" if what.startswith("empty") else what


# ----------------------------------------------------------------------------------------------------------------
# In the terminal


def render(report: Mapping[str, Any], console: Console | None = None) -> None:
    """Print what `check_recipes` found as tables, what needs attention last."""
    console = console or Console(highlight=False)
    if not report["error"]:
        files = report["files"]
        records = ", ".join(f"{kind} {n:,}" for kind, n in files["records"].items())
        source = {"file": "from classes1M.pkl", "bigrams": "from titles"}.get(files["classes"], "none")
        console.print(f"[bold]{escape(report['root'])}[/]", soft_wrap=True)
        console.print(f"records: {records}; classes: {files['class_names']:,} ({source})")
        console.print(_splits_table(report))
        console.print(_shared_table(report))
        coverage = report["texts"]["vocabulary"]
        if coverage and coverage["most_frequent_unknown"]:
            rows = [(entry["name"], f"{entry['times']:,}") for entry in coverage["most_frequent_unknown"]]
            console.print(_list_table("ingredients the vocabulary lacks", coverage["unknown"], ("name", "times"), rows))
        if files["listed"]:
            rows = [(b["file"], str(b["record"]), b["id"], b["reason"]) for b in files["listed"]]
            n = sum(files["skipped"].values())
            console.print(_list_table("records left out", n, ("file", "record", "id", "reason"), rows))
        pictures = report["pictures"]
        if pictures and "error" not in pictures:
            kinds = ", ".join(f"{kind} {n:,}" for kind, n in pictures["kinds"].items())
            console.print(
                escape(
                    f"pictures: {pictures['asked']:,} named, {pictures['looked_at']:,} looked at,"
                    f" {pictures['decoded']:,} decoded{f' ({kinds})' if kinds else ''},"
                    f" {pictures['missing']:,} missing, {pictures['undecodable']:,} cannot be decoded"
                )
            )
            rows = [(p["name"], p["id"], "missing") for p in pictures["missing_pictures"]]
            rows += [(p["name"], p["id"], p["reason"]) for p in pictures["undecodable_pictures"]]
            if rows:
                n = pictures["missing"] + pictures["undecodable"]
                console.print(_list_table("pictures", n, ("picture", "recipe", "reason"), rows))
        for split, found in (report["lmdb"] or {"splits": {}})["splits"].items():
            console.print(
                f"{split}_lmdb: {found['keys']:,} keys, {found['looked_at']:,} looked at,"
                f" {found['pairs_without_record']:,} recipes with a picture have no record"
            )
            rows = [(entry["id"], entry["reason"]) for entry in found["listed"]]
            if rows:
                console.print(_list_table(f"{split}_lmdb", sum(found["faults"].values()), ("id", "reason"), rows))
    for line in report["problems"]:
        console.print(f"[bold red]![/] {escape(line)}")
    if not report["problems"]:
        console.print("[green]nothing to mend[/]")


def _splits_table(report: Mapping[str, Any]) -> Table:
    """One column for each split: what its recipes have, lack, and what the filters leave."""
    table = Table(title="recipes", title_justify="left")
    table.add_column("")
    for split in PARTITIONS:
        table.add_column(split, justify="right")
    texts, pairs = report["texts"]["splits"], report["pairs"]
    names = list(dict.fromkeys(name for count in texts.values() for name in count))
    for name in names:
        table.add_row(name, *(f"{texts[split].get(name, 0):,}" for split in PARTITIONS))
    for rule, n in pairs["removed"].items():
        table.add_row(f"filtered: {rule}", *(f"{n[split]:,}" for split in PARTITIONS))
    for rule, n in pairs["cut"].items():
        table.add_row(f"kept and cut: {rule}", *(f"{n[split]:,}" for split in PARTITIONS))
    table.add_row("[bold]pairs[/]", *(f"{pairs['kept'][split]:,}" for split in PARTITIONS))
    coverage = report["texts"]["vocabulary"]
    if coverage:
        cells = [coverage["splits"][split] for split in PARTITIONS]
        shares = (f"{100 * c['known'] / c['names']:.1f}" if c.get("names") else "-" for c in cells)
        table.add_row("ingredients in the vocabulary, %", *shares)
        table.add_row("without a known ingredient", *(f"{c.get('recipes without a known name', 0):,}" for c in cells))
    for split, found in report["lists"]["splits"].items():
        table.add_row("ids in the list", *(f"{found['ids']:,}" if s == split else "" for s in PARTITIONS))
    return table


def _shared_table(report: Mapping[str, Any]) -> Table:
    table = Table(title="shared (recipes: same title and ingredients; pictures: same name)", title_justify="left")
    for column in ("", "recipes", "pictures"):
        table.add_column(column, justify="right" if column else "left")
    found = report["duplicates"]
    for pair in found["recipes"]["between"]:
        table.add_row(pair, *(f"{found[what]['between'][pair]:,}" for what in ("recipes", "pictures")))
    for split in PARTITIONS:
        table.add_row(f"within {split}", *(f"{found[what]['within'][split]:,}" for what in ("recipes", "pictures")))
    return table


def _list_table(title: str, n: int, columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> Table:
    shown = f"{n:,}" if n <= len(rows) else f"first {len(rows):,} of {n:,}"
    table = Table(title=f"{title} ({shown})", title_justify="left")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(escape(cell) for cell in row))
    return table
