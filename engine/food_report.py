"""What a run on food questions says at its end: tables, files, figures, tracker entries."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from data.files import atomic_file
from data.records import LETTERS
from engine.console import folder_name, make_console, say
from engine.food_compare import compare_runs, render_comparison
from engine.food_figures import draw_food
from engine.food_published import published_food_rows
from engine.food_scores import cluster_of, percent, summarise
from engine.runfolder import write_json, write_jsonl
from engine.trackers import log_results
from models.answers import Outcome
from models.metrics import wilson_interval

__all__ = ["compare_runs", "prediction_rows", "publish_food", "render_comparison", "summarise"]
TASK_NAMES = {"mivqa": "multi-image questions", "sivqa": "single-image questions", "textqa": "text questions"}
LANGUAGE_NAMES = {"zh": "Chinese", "en": "English"}
Row = dict[str, Any]


def publish_food(
    folder: Path,
    summary: Row,
    outcomes: Sequence[Outcome],
    loggers: Sequence[Any] = (),
    console: Console | None = None,
    published: Sequence[Row] | None = None,
    step: int = 0,
) -> Row:
    """Print, write `metrics.json`, `results.md`, `predictions.jsonl` and the figures, and log to the trackers.

    Args:
        folder: run folder.
        summary: of `summarise`.
        outcomes: those it was made of.
        loggers: Lightning loggers; they get the scalars under `test/`, and the figures where they can take pictures.
        console: where the tables go.
        published: rows to set beside; by default those of the task, language and ablation.
        step: for the trackers' axis.

    Returns:
        What `metrics.json` holds: the summary with `published`, each row with its Wilson interval and whether it was
        measured on the same questions.
    """
    console = console or make_console()
    if published is None:
        published = published_food_rows(summary["task"], summary["language"], summary["ablation"])
    published = [_beside(row, summary) for row in published]
    metrics = {**summary, "published": published}
    sheets = _sheets(metrics)
    console.print()
    for line in _opening(metrics):
        console.print(line, soft_wrap=True)
    for sheet in sheets:
        console.print()
        console.print(sheet.table())
        if sheet.remark:
            console.print(f"[dim]{escape(sheet.remark)}[/dim]")
    console.print()
    for line in summary["verdict"]:
        say(console, line)
    for note in summary["notes"]:
        say(console, f"note: {note}")
    figures = draw_food(folder, summary, published)
    write_json(folder / "metrics.json", metrics)
    write_jsonl(folder / "predictions.jsonl", prediction_rows(outcomes))
    with atomic_file(folder / "results.md") as partial:
        partial.write_text(_markdown(metrics, sheets, figures), encoding="utf-8")
    scalars = tracked(summary)
    pictures = {f"figures/{name.removesuffix('.png')}": folder / name for name in figures}
    log_results(loggers, scalars, step, pictures, {"test/predictions": folder / "predictions.jsonl"})
    shown = ["metrics.json", "results.md", "predictions.jsonl", *figures]
    say(console, f"wrote {' '.join(shown)} into {folder_name(folder)}")
    return metrics


def prediction_rows(outcomes: Sequence[Outcome]) -> list[Row]:
    """`predictions.jsonl`: one object for each outcome; `choice` and `answer` count in the file's own order."""
    return [
        {
            "task": o.question.task,
            "language": o.question.language,
            "row": o.question.row,
            "record_hash": o.question.record_hash,
            "question_id": o.question.question_id,
            "cluster": cluster_of(o.question),
            "question_type": o.question.question_type,
            "prompt": o.prompt,
            "index": o.index,
            "order": list(o.order),
            "method": o.method,
            "choice": o.choice,
            "answer": o.question.answer,
            "credit": o.credit,
            "reason": o.reason,
            "flags": list(o.flags),
            "finish_reason": o.finish_reason,
            "letter_mass": o.letter_mass,
            "response": o.response,
        }
        for o in outcomes
    ]


def tracked(summary: Row) -> dict[str, float]:
    """Scalars for trackers; keys hold letters, digits, `_` and `/` only."""
    over = summary["over_prompts"]
    values: dict[str, float | None] = {
        "test/accuracy": over["mean"],
        "test/n": summary["n"],
        "test/missing": summary["missing"],
        "test/accuracy_sd": over["sd"],
        "test/accuracy_best": over["best"] and over["best"]["accuracy"],
    }
    for row in summary["prompts"]:
        name = f"test/prompt_{_slug(row['prompt'])}"
        values[f"{name}/accuracy"] = row["accuracy"]
        values[f"{name}/unread"] = row["failures"]["rate"]
        if row["published_parser"]:
            values[f"{name}/published_parser"] = row["published_parser"]["accuracy"]
    for row in (summary["positions"] or {"prompts": []})["prompts"]:
        if row["n"]:
            name = f"test/prompt_{_slug(row['prompt'])}"
            values[f"{name}/circular"] = row["circular"]["accuracy"]
            values[f"{name}/same_content"] = row["same_content_share"]
    for group in summary["groups"]:
        for row in group["rows"]:
            values[f"test/{group['attribute']}/{_slug(row['label'])}"] = row["accuracy"]
    return {key: float(value) for key, value in values.items() if value is not None}


def _slug(text: str) -> str:
    """A name as a tracker's key; letters of other scripts stay apart as their code points."""
    plain = "".join(c if c.isascii() else f"u{ord(c):x}" for c in text)
    return re.sub(r"[^a-z0-9]+", "_", plain.lower()).strip("_") or "none"


def _beside(row: Row, summary: Row) -> Row:
    """A published row with its interval and whether its questions are those of this run."""
    same = not summary["is_demo"] and row["n"] == summary["n"] and summary["settings"].get("is_release", True)
    return {
        **row,
        "interval": list(wilson_interval(row["accuracy"] / 100 * row["n"], row["n"])),
        "same_questions": same,
    }


# ------------------------------------------------------------------------------------------------------------- tables


@dataclass
class Sheet:
    """One table, for the terminal and for Markdown; rows are (kind, cells)."""

    title: str
    columns: tuple[str, ...]
    left: tuple[int, ...]  # columns of text; the others are numbers
    rows: list[tuple[str, list[str]]] = field(default_factory=list)
    remark: str = ""

    def add(self, kind: str, *cells: str) -> None:
        self.rows.append((kind, list(cells)))

    def table(self) -> Table:
        styles = {"this run": "bold green", "small": "dim", "published": "dim", "baseline": ""}
        table = Table(title=escape(self.title), title_justify="left", title_style="bold", header_style="bold")
        for i, name in enumerate(self.columns):
            table.add_column(name, justify="left" if i in self.left else "right", overflow="fold", no_wrap=i == 0)
        for i, (kind, cells) in enumerate(self.rows):
            ends = i + 1 == len(self.rows) or (
                self.rows[i + 1][0] != kind and "small" not in (kind, self.rows[i + 1][0])
            )
            table.add_row(*map(escape, cells), style=styles.get(kind, ""), end_section=ends)
        return table

    def markdown(self) -> list[str]:
        marks = ["---" if i in self.left else "--:" for i in range(len(self.columns))]
        lines = [f"## {self.title}", "", _md_row(self.columns), "|" + "|".join(marks) + "|"]
        lines += [_md_row(cells) for _, cells in self.rows]
        return [*lines, *(["", self.remark] if self.remark else [])]


def _md_row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def _sheets(metrics: Row) -> list[Sheet]:
    found = [_accuracy_sheet(metrics), _published_sheet(metrics), _replies_sheet(metrics), _positions_sheet(metrics)]
    found += [_group_sheet(group, metrics) for group in metrics["groups"]]
    return [sheet for sheet in found if sheet is not None]


def _interval(bounds: Sequence[float] | None) -> str:
    return "" if bounds is None else f"{bounds[0] * 100:.1f}–{bounds[1] * 100:.1f}"


def _count(value: float) -> str:
    """A number of right answers; a mean over prompts or ties may be broken."""
    return f"{value:.0f}" if abs(value - round(value)) < 1e-9 else f"{value:.1f}"


def _accuracy_sheet(metrics: Row) -> Sheet:
    """Prompts of this run, their mean and best, then trivial systems on the same questions."""
    over = metrics["over_prompts"]
    sheet = Sheet(
        f"Accuracy: {TASK_NAMES.get(metrics['task'], metrics['task'])} in "
        f"{LANGUAGE_NAMES.get(metrics['language'], metrics['language'])}, {metrics['n']} questions of "
        f"{metrics['clusters']} {metrics['cluster_name']}",
        ("system", "accuracy %", "95 % Wilson", "clustered", "n", "unread %", "note"),
        left=(0, 6),
    )
    for row in metrics["prompts"]:
        note = f"{row['missing']} without reply: {_interval(row['bounds'])} % of all" if row["missing"] else ""
        sheet.add("this run", row["label"], *_scores(row), percent(row["failures"]["rate"]), note)
    if over["k"] > 1:
        best, n = over["best"], metrics["n"]
        sheet.add(
            "this run", f"mean of {over['k']} prompts", *_scores({**over, "accuracy": over["mean"], "n": n}), "", ""
        )
        sheet.rows[-1][1][-1] = f"sd {over['sd'] * 100:.2f}"
        note = f"+{100 * best['above_mean']:.1f}; by chance +{100 * best['gain_of_choosing']:.1f}"
        cells = _scores({**best, "clustered": None, "n": n})
        sheet.add("this run", f"best of {over['k']}, chosen on the test set", *cells, "", note)
    for row in metrics["baselines"]:
        sheet.add("baseline", row["system"], *_scores(row), "", row["note"])
    sheet.remark = (
        "n: questions with a reply; unread: replies without a readable answer, counted as wrong; clustered: interval "
        f"by {metrics['cluster_name']}."
    )
    if over["k"] > 1:
        sheet.remark += f" By chance: what choosing among {over['k']} equally good prompts gains."
    return sheet


def _scores(row: Row) -> list[str]:
    return [percent(row["accuracy"], 2), _interval(row["interval"]), _interval(row["clustered"]), str(row["n"])]


def _published_sheet(metrics: Row) -> Sheet | None:
    """People and published systems, each with its mean over prompts where that is known."""
    rows = metrics["published"]
    if not rows:
        return None
    same = rows[0]["same_questions"]
    sheet = Sheet(
        f"Published, {'same' if same else 'other'} questions; systems: best of four prompts, chosen on the test set",
        ("system", "accuracy %", "95 % Wilson", "n", "mean of 4 ± sd", "guessed", "note"),
        left=(0, 6),
    )
    for row in rows:
        mean = f"{row['mean']:.1f} ± {row['sd']:.1f}" if "mean" in row else ""
        guessed = "" if row.get("guessed") is None else str(row["guessed"])
        note = "; ".join(filter(None, ["" if row["confirmed"] else "unconfirmed", row["note"]]))
        cells = [f"{row['accuracy']:.2f}", _interval(row["interval"]), str(row["n"]), mean, guessed, note]
        sheet.add("published", row["system"], *cells)
    sheet.remark = (
        "guessed: replies without a letter, of all four prompts, that the authors' parser answered at random."
    )
    if same:
        sheet.remark += " Same questions: as many; whether the file is the released one is not checked."
    return sheet


def _replies_sheet(metrics: Row) -> Sheet | None:
    """Replies of each prompt: letters, failures, truncations, and what the published parser would say."""
    rows = [row for row in metrics["prompts"] if row["n"]]
    if not rows:
        return None
    parsed = any(row["published_parser"] for row in rows)
    masses = any(row["letter_mass"] for row in rows)
    counts = {"unread": "unread", "truncated": "cut off"}
    counts |= {key: key for key in ("conflicts", "ties") if any(row[key] for row in rows)}
    columns = ["replies to", *LETTERS, "p even", *counts.values()]
    columns += ["first letter", "guessed"] if parsed else []
    columns += ["letter mass"] if masses else []
    sheet = Sheet("Replies: letters in per cent", tuple(columns), left=(0,))
    for row in rows:
        letters, parser, mass = row["letters"], row["published_parser"], row["letter_mass"]
        cells = [percent(count / row["n"]) for count in letters["answers"]]
        cells.append(_p(letters["p_uniform"]))
        cells += [str(row["failures"]["count"] if key == "unread" else row[key]) for key in counts]
        if parsed:
            cells += [percent(parser["accuracy"]), str(parser["guessed"])] if parser else ["", ""]
        if masses:
            cells.append(f"{mass['mean']:.2f}" if mass else "")
        sheet.add("this run", row["label"], *cells)
    truth = metrics["truth"]
    even = rows[0]["letters"]["p_truth_uniform"]
    spare = [""] * (len(columns) - 6)
    sheet.add("baseline", "the right answers", *(percent(t / sum(truth)) for t in truth), _p(even), *spare)
    reasons = Counter()
    for row in rows:
        reasons.update(row["failures"]["by_reason"])
    remarks = []
    if reasons:
        remarks.append("unread, by reason: " + ", ".join(f"{name} {n}" for name, n in reasons.most_common()) + ".")
    if parsed:
        remarks.append("first letter: accuracy in per cent by the published parser, which guesses where it finds none.")
    sheet.remark = " ".join(remarks)
    return sheet


def _p(value: float | None) -> str:
    return "–" if value is None else "<0.001" if value < 0.001 else f"{value:.2g}"


def _positions_sheet(metrics: Row) -> Sheet | None:
    """Accuracies over the orders of the options."""
    found = metrics["positions"]
    if not found:
        return None
    all_orders = found["orders"] > 4
    columns = ["order of the options", "n", "file's", "mean", "4 right"]
    columns += ["24 right"] if all_orders else []
    columns += ["same option", "same letter", "unread", *(f"at {letter}" for letter in LETTERS)]
    title = f"Order of the options: {found['orders']} orders, per cent of n questions"
    sheet = Sheet(title, tuple(columns), left=(0,))
    for row in found["prompts"]:
        if not row["n"]:
            continue
        cells = [str(row["n"])]
        cells += [f"{percent(row[key]['accuracy'])}" for key in ("vanilla", "mean", "circular")]
        cells += [percent(row["all_orders"]["accuracy"])] if all_orders else []
        cells += [percent(row["same_content_share"]), percent(row["same_letter_share"]), str(row["failed_in_any"])]
        cells += [percent(place["accuracy"], 0) for place in row["by_place"]]
        sheet.add("this run", row["label"], *cells)
    chance = ["", "25.0", "25.0", "0.4", *(["0.0"] if all_orders else []), "", "", "", *["25"] * 4]
    sheet.add("baseline", "chance", *chance)
    incomplete = sum(row["incomplete"] for row in found["prompts"])
    sheet.remark = (
        "4 right: right in all four rotations; unread: questions with an unread reply in some order, wrong there; "
        "at A: accuracy where A is right."
        + (f" {found['left_out']} questions name a place and were not rotated." if found["left_out"] else "")
        + (f" {incomplete} left out for want of a reply in some order." if incomplete else "")
    )
    return sheet


def _group_sheet(group: Row, metrics: Row) -> Sheet:
    """One attribute: right answers are means over the prompts, with those of the best prompt beside them."""
    k = metrics["over_prompts"]["k"]
    over = "mean of the prompts; " if k > 1 else ""
    columns = [group["name"], "n", "right", "accuracy %", "95 % Wilson", "clustered"]
    sheet = Sheet(
        f"By {group['name']}: {over}{group['n']} of {metrics['n']} questions"
        if group["n"] != metrics["n"]
        else f"By {group['name']}{f': {over[:-2]}' if over else ''}",
        tuple(columns + (["best prompt"] if k > 1 else [])),
        left=(0,),
    )
    for row in group["rows"]:
        cells = [row["label"], str(row["n"]), _count(row["right"]), percent(row["accuracy"])]
        cells += [_interval(row["interval"]), _interval(row["clustered"])]
        if k > 1:
            best = row["best"]
            cells.append(f"{_count(best['right'])}/{best['n']}")
        sheet.add("small" if row["small"] or "merged" in row else "this run", *cells)
    merged = {label for row in group["rows"] for label in row.get("merged", [])}
    if merged:
        small = [row for row in group["all"] if row["label"] in merged]
        sheet.remark = "other: " + ", ".join(f"{row['label']} {_count(row['right'])}/{row['n']}" for row in small)
    return sheet


# -------------------------------------------------------------------------------------------------------------- texts


def _opening(metrics: Row) -> list[str]:
    lines = [f"[bold]{escape(metrics['model'])}[/bold] on [bold]{escape(metrics['data'])}[/bold]"]
    if metrics["is_demo"]:
        lines.append(
            "[bold yellow]A demo set made from free sources: not FoodieQA, and no figure to quote.[/bold yellow]"
        )
    if not metrics["complete"]:
        errors = "; ".join(f"{error} ({count})" for error, count in metrics["errors"].items())
        lines.append(
            f"[bold red]INCOMPLETE: {metrics['missing']} requests got no reply"
            f"{escape(f': {errors}') if errors else ''}; accuracies are of the others only.[/bold red]"
        )
    shown = " · ".join(f"{name} {value}" for name, value in metrics["headline"].items())
    lines.append(f"[dim]{escape(shown)}[/dim]")
    return lines


def _markdown(metrics: Row, sheets: Sequence[Sheet], figures: Sequence[str]) -> str:
    lines = [f"# {metrics['model']} on {metrics['data']}", ""]
    if metrics["is_demo"]:
        lines += ["**A demo set made from free sources: not FoodieQA, and no figure to quote.**", ""]
    if not metrics["complete"]:
        lines += [
            f"**INCOMPLETE: {metrics['missing']} requests got no reply; accuracies are of the others only.**",
            "",
            *(f"- {error}: {count}" for error, count in metrics["errors"].items()),
            "",
        ]
    lines += [*(f"- {line}" for line in metrics["verdict"]), *(f"- note: {note}" for note in metrics["notes"]), ""]
    for i, sheet in enumerate(sheets):
        lines += [*sheet.markdown(), ""]
        if i == 0:
            lines += [*(f"![{name.removesuffix('.png')}]({name})" for name in figures if name == "accuracy.png"), ""]
    lines += [f"![{name.removesuffix('.png')}]({name})" for name in figures if name != "accuracy.png"]
    lines += ["", "## What was run", "", "| setting | value |", "|---|---|"]
    lines += [_md_row([name, value]) for name, value in metrics["headline"].items()]
    lines.append(_md_row(["questions", f"{metrics['n']}, digest {metrics['data_digest']}"]))
    remarks = [row for row in metrics["published"] if row["note"] or row["source"]]
    if remarks:
        lines += ["", "## Published rows", "", *_sources(remarks)]
    return "\n".join(lines).rstrip() + "\n"


def _sources(rows: Sequence[Row]) -> list[str]:
    by_source: dict[str, list[str]] = {}
    for row in rows:
        note = f" ({row['note']})" if row["note"] else ""
        by_source.setdefault(row["source"], []).append(f"{row['system']}{note}")
    return [f"- {source}: {', '.join(systems)}" for source, systems in by_source.items()]
