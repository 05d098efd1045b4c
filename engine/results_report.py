"""`report.py`: collects runs, writes one report as Markdown, CSV and LaTeX with figures, and prints its tables."""

import csv
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, ListConfig
from rich.markup import escape
from rich.table import Table
from tqdm import tqdm

from data.errors import InputError
from data.files import atomic_file
from engine.console import folder_name, make_console, say
from engine.food_report import Sheet
from engine.markup import escape_markdown, latex_document, markdown
from engine.published_tables import MISSING, Rebuilt, rank_cell, rank_head, rebuild
from engine.results import Entry, Section, sections_of
from engine.results_figures import draw
from engine.run_records import RANK_KEYS, Found, find_runs, read_runs, shown
from models.ranks import DIRECTIONS

TABLES = ("auto", "all", "none")
MOST_PAIRS = 28  # comparisons that report.md shows of a section; comparisons.csv has all
SOURCE = "; source: "  # before what only the files show of a remark
Row = dict[str, Any]


def report(cfg: DictConfig) -> None:
    """Write `report.md`, `report.csv`, `comparisons.csv`, `report.tex` and the figures into one new folder.

    Raises:
        InputError: no run found, none of them readable, or a setting that does not exist.
    """
    console = make_console()
    if cfg.tables not in TABLES:
        raise InputError(f"tables={cfg.tables}: choose {', '.join(TABLES)}")
    if type(cfg.seed) is not int or cfg.seed < 0:
        raise InputError(f"seed={cfg.seed}: must be a whole number of at least 0")
    if not cfg.runs:
        raise InputError("runs=: is empty; give a run folder, a folder of runs, a pattern, or a list of them")
    places = [str(place) for place in cfg.runs] if isinstance(cfg.runs, ListConfig) else str(cfg.runs)
    folders = find_runs(places)
    found = read_runs(folders, lambda rows: tqdm(rows, desc="reading", unit=" runs", leave=False))
    for line in found.left_out:
        say(console, f"left out: {line}")
    if not found.results:
        raise InputError(f"runs={cfg.runs}: none of the {found.runs} runs can be read (see the lines above)")
    sections = sections_of(
        found.results, cfg.seed, lambda pairs: tqdm(pairs, desc="comparing", unit=" pairs", leave=False)
    )
    rebuilt = rebuild(sections, cfg.tables)
    folder = new_folder(cfg.out)
    figures = draw(folder, sections)
    sheets = {id(section): sheets_of(section) for section in sections}
    for section in sections:
        for sheet in sheets[id(section)]:
            console.print()
            console.print(terminal(sheet))
        if section.kind == "retrieval":
            for entry in section.entries:
                say(console, f"{_plain(entry.system)}: {'; '.join(entry.flags) or 'no remarks'}")
        for line in sentences(section):
            say(console, line)
    for sheet in rebuilt.sheets:
        if any(kind == "this run" and set(cells[1:]) - {MISSING} for kind, cells in sheet.rows):
            console.print()
            console.print(terminal(sheet))
    if rebuilt.sheets:
        say(console, f"the papers' tables are in report.md; cells without a run: {len(rebuilt.missing)}, with commands")
    write_report(folder, found, sections, sheets, rebuilt, figures)
    names = ["report.md", "report.csv", "comparisons.csv", "report.tex", *(n for n in figures if n.endswith(".png"))]
    say(console, f"{found.runs - len(found.left_out)} runs read, {len(found.left_out)} left out")
    say(console, f"wrote {' '.join(names)} into {folder_name(folder)}")


def new_folder(out: str | None) -> Path:
    """`out`, or a folder of this moment; two reports at once never share one."""
    if out is not None:
        folder = Path(out)
        if folder.exists() and not folder.is_dir():
            raise InputError(f"out={out}: is no folder; give the name of one")
        folder.mkdir(parents=True, exist_ok=True)
        return folder
    while True:
        folder = Path("runs/reports") / datetime.now().strftime("%Y-%m-%d_%H-%M-%S-%f")
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        return folder


# ------------------------------------------------------------------------------------------------------------- tables


def sheets_of(section: Section) -> list[Sheet]:
    """The tables of one section: one, or one for each pool of a retrieval task."""
    if section.kind == "retrieval":
        return [_rank_sheet(section, pool) for pool in section.pools]
    return [_accuracy_sheet(section)]


def _accuracy_sheet(section: Section) -> Sheet:
    food = section.kind == "food"
    columns = ["system", "seeds", "accuracy %", "sd", "95 % interval", "n", "p"]
    columns += ["best prompt"] if food else []
    sheet = Sheet(section.title, (*columns, "remarks"), (0, len(columns)))
    best = next((e for e in section.entries if e.reference), None)
    for entry in section.entries:
        cells = [_plain(entry.system), str(len(entry.results)), _percent(entry.mean), _points(entry.sd)]
        cells += [_bounds(entry.interval), str(entry.first.n), _against(section, best, entry)]
        cells += [_percent(max(r.best for r in entry.results if r.best is not None))] if food else []
        sheet.add("this run", *cells, "; ".join(entry.flags))
    for row in section.baselines:
        cells = [_plain(row["system"]), "", _percent(row["value"]), "", _bounds(row["interval"]), str(row["n"]), ""]
        sheet.add("baseline", *cells, *([""] if food else []), _from(row))
    for row in section.published:
        same = "same questions" if row["same"] else "other questions"
        value = row.get("mean") if food else row["value"]
        cells = [_plain(row["system"]), "", _percent(value), "", "" if food else _bounds(row["interval"])]
        cells += ["?" if row["n"] is None else str(row["n"]), ""]
        cells += [_percent(row["best"])] if food else []
        sheet.add("published", *cells, "; ".join(filter(None, [same, row["note"]])) + SOURCE + row["source"])
    sheet.remark = _remark(section, best)
    return sheet


def _rank_sheet(section: Section, pool: str) -> Sheet:
    size = max(r.pools[pool]["size"] for e in section.entries for r in e.results if pool in r.pools)
    subsets = max(r.pools[pool]["subsets"] for e in section.entries for r in e.results if pool in r.pools)
    heads = [rank_head(d, k) for d in DIRECTIONS for k in RANK_KEYS]
    title = f"{section.title}; {f'one pool of all {size:,}' if pool == 'all' else f'{subsets} pools of {size:,}'}"
    sheet = Sheet(title, ("system", "seeds", *heads, "p", "remarks"), (0, len(heads) + 3))
    best = next((e for e in section.entries if e.reference), None)
    for entry in section.entries:
        if not all(pool in r.pools for r in entry.results):
            continue
        cells = [_rank_with_interval(entry, pool, d, k) for d in DIRECTIONS for k in RANK_KEYS]
        name, seeds = _plain(entry.system), str(len(entry.results))
        sheet.add("this run", name, seeds, *cells, _against(section, best, entry), "; ".join(entry.flags))
    chance = next(r.pools[pool]["chance"] for e in section.entries for r in e.results if pool in r.pools)
    sheet.add("baseline", "chance", "", *[_rank(chance[k], k) for _ in DIRECTIONS for k in RANK_KEYS], "", "")
    for row in [*section.baselines, *section.published]:
        if row["pool"] == pool:
            cells = [_rank(row[f"{d}/{k}"], k) for d in DIRECTIONS for k in RANK_KEYS]
            published = "source" in row
            remark = row["note"] + SOURCE + row["source"] if published else _from(row)
            sheet.add("published" if published else "baseline", _plain(row["system"]), "", *cells, "", remark)
    sheet.remark = "i→r: the image is the query. R@K in %. " + _remark(section, best)
    return sheet


def _from(row: Row) -> str:
    return "" if row["system"] == "chance" else "baseline in a run's own table"


def _remark(section: Section, best: Entry | None) -> str:
    parts = []
    if best is not None and section.comparisons:
        what = "mean reciprocal ranks among all pairs" if section.kind == "retrieval" else "credits"
        parts.append(
            f"p: paired permutation of {what} against {_plain(best.system)} on the same questions, Holm-corrected for "
            f"{len(section.comparisons)} pairs."
        )
    if any(len(e.results) > 1 for e in section.entries):
        parts.append("sd: over seeds; intervals are about other questions, not about other seeds.")
    return " ".join(parts)


def _against(section: Section, best: Entry | None, entry: Entry) -> str:
    if best is None or entry is best:
        return ""
    names = {best.system, entry.system}
    row = next((r for r in section.comparisons if {r["a"], r["b"]} == names), None)
    return "" if row is None else f"{row['holm_p']:.2g}"


def terminal(sheet: Sheet) -> Table:
    """A table for the terminal: numbers are not broken, sources are left to the files, in wide tables intervals too."""
    table = Table(title=escape(sheet.title), title_justify="left", title_style="bold", header_style="bold")
    styles = {"this run": "bold green", "published": "dim"}
    wide = len(sheet.columns) > 9
    stacked = wide or (len(sheet.columns) > 8 and "remarks" not in sheet.columns)  # else no room for the first column
    kept = [i for i, name in enumerate(sheet.columns) if not (wide and name == "remarks")]
    for i in kept:
        name = sheet.columns[i].replace(", ", "\n")
        table.add_column(
            name.replace(" ", "\n") if stacked else name,
            justify="left" if i in sheet.left else "right",
            no_wrap=i not in sheet.left,
            min_width=None if i else 10 if stacked and not wide else 22,
        )
    for row, (kind, cells) in enumerate(sheet.rows):
        ends = row + 1 == len(sheet.rows) or sheet.rows[row + 1][0] != kind
        texts = [cells[i].partition(SOURCE)[0] for i in kept]
        if wide:
            texts = [text if i in sheet.left else text.partition(" ")[0] for i, text in zip(kept, texts, strict=True)]
        table.add_row(*map(escape, texts), style=styles.get(kind, ""), end_section=ends)
    return table


def comparison_sheet(section: Section) -> Sheet | None:
    """All pairs on the same questions, the smallest p first."""
    if not section.comparisons:
        return None
    retrieval = section.kind == "retrieval"
    scale, digits = (1, 3) if retrieval else (100, 1)
    unit = "mean reciprocal rank" if retrieval else "points"
    columns = (
        "a",
        "b",
        "n",
        f"a − b, {unit}",
        "95 % interval",
        "only a right",
        "only b right",
        "McNemar p",
        "p",
        "Holm p",
    )
    sheet = Sheet(f"{section.title}: pairs", columns, (0, 1))
    for row in sorted(section.comparisons, key=lambda r: (r["p"], -abs(r["difference"])))[:MOST_PAIRS]:
        low, high = (bound * scale for bound in row["interval"])
        cells = [_plain(row["a"]), _plain(row["b"]), str(row["n"]), f"{row['difference'] * scale:+.{digits}f}"]
        cells += [f"{low:+.{digits}f} to {high:+.{digits}f}"]
        cells += ["–" if row[key] is None else str(row[key]) for key in ("only_a", "only_b")]
        cells += [
            "–" if row["mcnemar_p"] is None else f"{row['mcnemar_p']:.2g}",
            f"{row['p']:.2g}",
            f"{row['holm_p']:.2g}",
        ]
        sheet.add("this run", *cells)
    groups = section.comparisons[0]["clusters"]
    sheet.remark = (
        f"p: permutation of whole recipes, dishes or photos ({groups} of {section.comparisons[0]['n']}), "
        f"{section.comparisons[0]['rounds']:,} rounds; "
        f"Holm: for all {len(section.comparisons)} pairs. McNemar's exact test takes questions as independent."
    )
    if len(section.comparisons) > MOST_PAIRS:
        sheet.remark += f" The first {MOST_PAIRS} of {len(section.comparisons)}; comparisons.csv has all."
    return sheet


def sentences(section: Section) -> list[str]:
    """What the tests allow to say about the highest row."""
    best = next((e for e in section.entries if e.reference), None)
    lines = list(section.notes)
    for row in section.comparisons:
        if best is None or best.system not in (row["a"], row["b"]):
            continue
        other = row["b"] if row["a"] == best.system else row["a"]
        sign = 1 if row["a"] == best.system else -1
        value = row["difference"] * sign
        gap = f"{value:+.3f} in mean reciprocal rank" if section.kind == "retrieval" else f"{value * 100:+.1f} points"
        if row["holm_p"] < 0.05:
            verb = "beats" if value > 0 else "loses to"
            lines.append(f"{_plain(best.system)} {verb} {_plain(other)}: {gap}, p = {row['holm_p']:.2g} (Holm)")
        else:
            lines.append(
                f"{_plain(best.system)} and {_plain(other)}: {gap}, p = {row['holm_p']:.2g} (Holm): no difference that "
                "these questions could show"
            )
    return lines


def _plain(system: str) -> str:
    return system.replace("_", " ")


def _percent(value: float | None) -> str:
    return "" if value is None else f"{value * 100:.2f}"


def _points(value: float | None) -> str:
    return "" if value is None else f"{value * 100:.2f}"


def _bounds(interval: Sequence[float] | None, scale: float = 100) -> str:
    return "" if interval is None else f"{interval[0] * scale:.1f}–{interval[1] * scale:.1f}"


def _rank(value: float | None, key: str) -> str:
    if value is None or value != value:
        return "–"
    return f"{value:.1f}" if key == "medR" else f"{value * 100:.1f}"


def _rank_with_interval(entry: Entry, pool: str, direction: str, key: str) -> str:
    interval = entry.rank(pool, direction, key)[2]
    shown_bounds = "" if interval is None or key != "medR" else f" ({_bounds(interval, 1)})"
    return rank_cell(entry, pool, direction, key) + shown_bounds


# -------------------------------------------------------------------------------------------------------------- files


def write_report(
    folder: Path,
    found: Found,
    sections: list[Section],
    sheets: dict[int, list[Sheet]],
    rebuilt: Rebuilt,
    figures: dict[str, int],
) -> None:
    """All files but the figures, each whole or not there; `figures` maps a file to the section it is about."""
    with atomic_file(folder / "report.md") as partial:
        partial.write_text(_markdown(found, sections, sheets, rebuilt, figures), encoding="utf-8")
    tables = [sheet for section in sections for sheet in sheets[id(section)]]
    tables += [sheet for section in sections if (sheet := comparison_sheet(section)) is not None]
    with atomic_file(folder / "report.tex") as partial:
        partial.write_text(latex_document([*tables, *rebuilt.sheets]), encoding="utf-8")
    _write_csv(folder / "report.csv", csv_rows(sections))
    _write_csv(folder / "comparisons.csv", _comparison_rows(sections))


def _markdown(
    found: Found,
    sections: list[Section],
    sheets: dict[int, list[Sheet]],
    rebuilt: Rebuilt,
    figures: dict[str, int],
) -> str:
    read = found.runs - len(found.left_out)
    lines = ["# Results", "", f"{read} runs, {len(found.left_out)} left out.", ""]
    lines += [f"- left out: {escape_markdown(line)}" for line in found.left_out] + [""] * bool(found.left_out)
    for number, section in enumerate(sections):
        for sheet in sheets[id(section)]:
            lines += [*markdown(sheet), ""]
        lines += [f"- {escape_markdown(line)}" for line in sentences(section)] + [""]
        for name in figures:
            if figures[name] == number and name.endswith(".png"):
                lines += [f"![{escape_markdown(section.title)}]({name})", ""]
        pairs = comparison_sheet(section)
        lines += [*markdown(pairs, level=3), ""] if pairs is not None else []
        lines += ["Runs:", ""]
        for entry in section.entries:
            places = ", ".join(f"`{shown(r.folder).replace('`', ' ')}`" for r in entry.results)
            lines.append(f"- {escape_markdown(_plain(entry.system))}: {places}")
        lines.append("")
    if rebuilt.sheets:
        lines += ["# The papers' tables", ""]
        for sheet in rebuilt.sheets:
            lines += [*markdown(sheet), ""]
    if rebuilt.missing:
        lines += ["## Missing cells", "", "| cell | command |", "|---|---|"]
        lines += [f"| {escape_markdown(cell)} | `{command.replace('|', ' ')}` |" for cell, command in rebuilt.missing]
    return "\n".join(lines).rstrip() + "\n"


def csv_rows(sections: list[Section]) -> list[Row]:
    """One row for each system, task and metric, published rows and baselines too; shares in [0, 1], medR as a rank."""
    rows: list[Row] = []
    for section in sections:
        place = {"problem": section.kind, "data": section.data, "split": section.split, "task": section.task}
        for entry in section.entries:
            own = {
                **place,
                "system": entry.system,
                "kind": "run",
                "seeds": len(entry.results),
                "n": entry.first.n,
                "comparable": entry.reference,
                "official": entry.first.official,
                "remarks": "; ".join(entry.flags),
                "source": " ".join(str(r.folder) for r in entry.results),
            }
            if section.kind != "retrieval":
                low, high = entry.interval or (None, None)
                value = {"metric": "accuracy", "value": entry.mean, "sd": entry.sd, "low": low, "high": high}
                rows.append(own | value)
                continue
            for pool in section.pools:
                if all(pool in r.pools for r in entry.results):
                    for direction in DIRECTIONS:
                        for key in RANK_KEYS:
                            mean, sd, interval = entry.rank(pool, direction, key)
                            low, high = interval or (None, None)
                            cell = {"metric": f"{pool}/{direction}/{key}", "value": mean, "sd": sd}
                            rows.append(own | cell | {"low": low, "high": high})
        for row in [*section.baselines, *section.published]:
            published = "source" in row
            other = {
                **place,
                "system": row["system"],
                "kind": "published" if published else "baseline",
                "n": row.get("n"),
                "comparable": row.get("same", True),
                "remarks": row.get("note", ""),
                "source": row.get("source", ""),
            }
            if section.kind != "retrieval":
                low, high = row["interval"] or (None, None)
                rows.append(other | {"metric": "accuracy", "value": row["value"], "low": low, "high": high})
            else:
                rows += [
                    other | {"metric": f"{row['pool']}/{d}/{k}", "value": row[f"{d}/{k}"]}
                    for d in DIRECTIONS
                    for k in RANK_KEYS
                    if row[f"{d}/{k}"] is not None
                ]
    return rows


_COLUMNS = ["problem", "data", "split", "task", "system", "kind", "metric", "value", "sd", "low", "high", "seeds", "n"]
_COLUMNS += ["comparable", "official", "remarks", "source"]


def _comparison_rows(sections: list[Section]) -> list[Row]:
    return [
        {"data": section.data, "split": section.split, "task": section.task}
        | {key: value for key, value in row.items() if key not in ("interval", "rounds")}
        | {"low": row["interval"][0], "high": row["interval"][1]}
        for section in sections
        for row in section.comparisons
    ]


_PAIR_COLUMNS = ["data", "split", "task", "a", "b", "n", "clusters", "difference", "low", "high", "only_a", "only_b"]
_PAIR_COLUMNS += ["mcnemar_p", "p", "holm_p"]


def _write_csv(path: Path, rows: list[Row]) -> None:
    columns = _COLUMNS if path.name == "report.csv" else _PAIR_COLUMNS
    with atomic_file(path) as partial, open(partial, "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns, restval="", lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow({key: _no_formula(value) for key, value in row.items()})


def _no_formula(value: Any) -> Any:
    """A name that a spreadsheet would run as a formula is marked as text."""
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@"):
        return f"'{value}"
    return value
