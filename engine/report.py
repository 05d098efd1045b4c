"""What a run says at its end: tables, files, figures, tracker entries."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from omegaconf import DictConfig
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from data.choice import ChoiceData
from data.files import atomic_file
from data.recipeqa import published_rows
from engine.console import folder_name, say
from engine.runfolder import write_json, write_jsonl
from engine.scoring import CHANCE, Row, assess, baseline_rows, by_task, compare, prediction_rows
from engine.trackers import log_results
from models.metrics import wilson_interval


def publish(
    cfg: DictConfig,
    folder: Path,
    data: ChoiceData,
    split: str,
    scores: np.ndarray,
    loggers: Sequence[Any],
    console: Console,
    step: int = 0,
) -> dict[str, Any]:
    """Score, compare, print, write `metrics.json`, `predictions.jsonl`, `results.md` and log to the trackers.

    `baselines.jsonl` holds the scores of the table's other systems for each question, in the order of the predictions,
    so that runs can be put together (`engine.choice_folds`) without fitting anything again.

    Args:
        cfg: composed config (`model.name`, `data.name`, `seed`, `sanity`, `transductive`).
        folder: run folder.
        data: the data module; `data.questions[split]` are the N questions.
        split: which split the scores belong to.
        scores: (N, 4).
        loggers: Lightning loggers.
        console: where the tables go.
        step: optimizer step, for the trackers' axis.
    """
    data.check_official(split)
    questions = data.questions[split]
    system = str(cfg.model.name)
    metrics: dict[str, Any] = {"data": str(data.name), "model": system, "split": split, "notes": list(data.notes)}
    metrics["tasks"] = {}
    markdown = [f"# {system} on {data.name}, {split}", ""]
    tracked: dict[str, float] = {}
    write_jsonl(folder / "predictions.jsonl", prediction_rows(questions, scores, int(cfg.seed)))
    tasks = by_task(questions)
    compared: list[Row] = [{"qid": q.qid, "scores": {}} for q in questions]
    for task, rows in tasks.items():
        asked = [questions[i] for i in rows]
        own = assess(asked, scores[rows], data.unreadable[split].get(task, 0))
        own |= {"system": system, "kind": "this run", "note": ""}
        others = baseline_rows(data, split, task, bool(cfg.get("transductive", True)), system) if cfg.sanity else []
        for row in others:
            name = f"{row['system']}, {row['note']}" if row["note"] else row["system"]
            for i, of_question in zip(rows, row["scores"], strict=True):
                compared[i]["scores"][name] = [float(score) for score in of_question]
        verdict = _verdict(own, others, asked, scores[rows], int(cfg.seed))
        chance = {
            "system": "chance",
            "kind": "baseline",
            "accuracy": CHANCE,
            "n": own["n"],
            "interval": None,
            "note": "",
        }
        published = _published(data, split, task, own["n"])
        table = [own, chance, *({k: v for k, v in row.items() if k != "scores"} for row in others), *published]
        metrics["tasks"][task] = {**own, "verdict": verdict, "table": table}
        file = f" ({Path(data.reports[split].path).name})" if any(data.given.values()) else ""
        title = f"{task}: {data.name}, {split}{file}, {own['n']} questions of {own['recipes']} recipes"
        console.print()
        console.print(_terminal_table(title, table))
        for line in verdict:
            say(console, line)
        markdown += [*_markdown_table(title, table), "", *(f"- {line}" for line in verdict), ""]
        prefix = split if len(tasks) == 1 else f"{split}/{task}"
        tracked[f"{prefix}/accuracy"] = own["accuracy"]
        tracked[f"{prefix}/n"] = float(own["n"])
    if len(tasks) > 1:
        values = [metrics["tasks"][task] for task in tasks]
        metrics["mean_over_tasks"] = float(np.mean([v["accuracy"] for v in values]))
        metrics["mean_over_questions"] = float(
            np.average([v["accuracy"] for v in values], weights=[v["n"] for v in values])
        )
        tracked |= {f"{split}/accuracy": metrics["mean_over_questions"]}
        over_tasks, over_questions = metrics["mean_over_tasks"], metrics["mean_over_questions"]
        line = f"mean over tasks {over_tasks:.2%}, mean over questions {over_questions:.2%}"
        say(console, line)
        markdown += [line, ""]
    for note in data.notes:
        say(console, f"note: {note}")
        markdown.append(f"- note: {note}")
    if cfg.sanity:
        write_jsonl(folder / "baselines.jsonl", compared)
    metrics[f"{split}/accuracy"] = tracked[f"{split}/accuracy"]
    write_json(folder / "metrics.json", metrics)
    with atomic_file(folder / "results.md") as partial:
        partial.write_text("\n".join(markdown) + "\n", encoding="utf-8")
    curves = plot_history(folder)
    pictures = {"curves": folder / "curves.png", f"{split}/attention": folder / "attention.png"}
    log_results(loggers, tracked, step, pictures, {f"{split}/predictions": folder / "predictions.jsonl"})
    attention = "attention.png" if pictures[f"{split}/attention"].is_file() else None
    names = ("metrics.json", "predictions.jsonl", "results.md", curves, attention)
    shown = " ".join(name for name in names if name)
    say(console, f"wrote {shown} into {folder_name(folder)}")
    return metrics


def _verdict(own: Row, others: list[Row], asked: Sequence[Any], scores: np.ndarray, seed: int) -> list[str]:
    """What the numbers allow to say, in sentences."""
    low, high = own["interval"]
    name = own["system"]
    interval = f"{own['accuracy']:.1%} (95 % interval {low:.1%} to {high:.1%})"
    if low > CHANCE:
        lines = [f"{name} beats chance: {interval} against {CHANCE:.0%}"]
    elif high < CHANCE:
        lines = [f"{name} is worse than chance: {interval} against {CHANCE:.0%}"]
    else:
        lines = [f"{name} is not distinguishable from chance: {interval} against {CHANCE:.0%}"]
    if own["collapsed"] > 0.01:
        lines.append(f"collapsed: all four scores are equal in {own['collapsed']:.1%} of the questions")
    for row in others:
        if row["kind"] != "baseline" or row["system"] == name or name == "hasty_student":
            continue
        found = compare(asked, scores, row["scores"], seed)
        against = (
            f"{row['system']} ({row['accuracy']:.1%}): {found['difference'] * 100:+.1f} points, p = {found['p']:.3g}"
        )
        if found["p"] >= 0.05:
            lines.append(f"{name} and {against}: no difference that these questions could show")
        else:
            lines.append(f"{name} {'beats' if found['difference'] > 0 else 'loses to'} {against}")
    legal = [row for row in others if row["note"] != "transductive" and row["kind"] == "sanity"]
    best = max(legal, key=lambda row: row["accuracy"], default=None)
    if best is not None and best["accuracy"] > own["accuracy"]:
        lines.append(f"a trivial rule scores higher: {best['system']} {best['accuracy']:.1%}")
    return lines


def _published(data: ChoiceData, split: str, task: str, n: int) -> list[Row]:
    """The published rows of a task, marked whether they were measured on the questions just scored."""
    official = data.official_split(split)
    found = []
    for row in published_rows(task):
        same = official is not None and row["split"] == official and row["n"] == n
        accuracy = row["accuracy"] / 100
        interval = list(wilson_interval(accuracy * row["n"], row["n"])) if row["n"] else None
        note = "" if row["confirmed"] else "unconfirmed"
        found.append(
            {
                "system": f"{row['system']}, {row['year']}",
                "kind": "published",
                "accuracy": accuracy,
                "interval": interval,
                "n": row["n"],
                "same_questions": same,
                "note": "; ".join(filter(None, [note, "same questions" if same else "other questions", row["split"]])),
                "source": row["source"],
            }
        )
    return found


def _cells(row: Row) -> list[str]:
    interval = "" if row["interval"] is None else f"{row['interval'][0] * 100:.1f}–{row['interval'][1] * 100:.1f}"
    return [
        row["system"].replace("_", " "),
        f"{row['accuracy'] * 100:.2f}",
        interval,
        "?" if row["n"] is None else str(row["n"]),
        row["note"],
    ]


_COLUMNS = ("system", "accuracy %", "95 % interval", "n", "note")


def _terminal_table(title: str, rows: list[Row]) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", header_style="bold")
    for name in _COLUMNS:
        table.add_column(name, justify="left" if name in ("system", "note") else "right", overflow="fold")
    styles = {"this run": "bold green", "published": "dim"}
    for i, row in enumerate(rows):
        ends = i + 1 == len(rows) or rows[i + 1]["kind"] != row["kind"]
        table.add_row(*map(escape, _cells(row)), style=styles.get(row["kind"], ""), end_section=ends)
    return table


def _markdown_table(title: str, rows: list[Row]) -> list[str]:
    lines = [f"## {title}", "", "| " + " | ".join(_COLUMNS) + " |", "|---|--:|--:|--:|---|"]
    return lines + ["| " + " | ".join(_cells(row)) + " |" for row in rows]


def plot_history(folder: Path) -> str | None:
    """Draw `curves.png` from `history.jsonl`: losses left, accuracies or ranks right. Returns its name."""
    path = folder / "history.jsonl"
    if not path.is_file():
        return None
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt
    from matplotlib.ticker import MaxNLocator

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
    epochs = [row["epoch"] + 1 for row in rows]
    marker = "o" if len(rows) < 40 else None
    for key, label, colour in (("train/loss", "training", "#1b6ca8"), ("val/loss", "validation", "#e07b39")):
        if all(key in row for row in rows):
            left.plot(epochs, [row[key] for row in rows], marker=marker, markersize=3, label=label, color=colour)
    left.set(xlabel="epoch", ylabel="loss", title="loss")
    left.legend(frameon=False)
    if any("val/accuracy" in row for row in rows):
        _draw_accuracies(right, epochs, rows, marker)
    else:
        _draw_ranks(right, epochs, rows, marker)
    for axis in (left, right):
        axis.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        axis.set_xlim(0.5, max(epochs) + 0.5)
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(alpha=0.25)
    with atomic_file(folder / "curves.png") as partial:
        figure.savefig(partial, dpi=150, format="png")
    plt.close(figure)
    return "curves.png"


def _draw_accuracies(axis: Any, epochs: list[int], rows: list[Row], marker: str | None) -> None:
    from matplotlib.ticker import PercentFormatter

    keys = sorted({key for row in rows for key in row if key.endswith("accuracy")})
    for key in keys:
        name = key.removeprefix("val/").removesuffix("/accuracy").replace("accuracy", "validation")
        axis.plot(epochs, [row.get(key, float("nan")) for row in rows], marker=marker, markersize=3, label=name)
    axis.axhline(CHANCE, color="0.5", linestyle="--", linewidth=1, label="chance")
    values = [row["val/accuracy"] for row in rows]
    best = int(np.argmax(values))
    _point_at(axis, epochs[best], values[best], f"best {values[best]:.1%}")
    axis.set(xlabel="epoch", ylabel="accuracy", title="accuracy on validation")
    axis.yaxis.set_major_formatter(PercentFormatter(1))
    axis.margins(y=0.2)
    axis.legend(frameon=False)


def _draw_ranks(axis: Any, epochs: list[int], rows: list[Row], marker: str | None) -> None:
    """Median ranks of both directions, lower is better."""
    from matplotlib.ticker import ScalarFormatter

    for direction, colour in (("image_to_recipe", "#1b6ca8"), ("recipe_to_image", "#e07b39")):
        values = [row.get(f"val/{direction}/medR", float("nan")) for row in rows]
        label = direction.replace("_", " ")
        axis.plot(epochs, values, marker=marker, markersize=3, label=label, color=colour)
    best = int(np.argmin([row["val/selection"] for row in rows]))
    value = rows[best]["val/image_to_recipe/medR"]
    _point_at(axis, epochs[best], value, f"best {value:g}", below=True)
    axis.set(xlabel="epoch", ylabel="median rank", title="median rank on validation", yscale="log")
    axis.yaxis.set_major_formatter(ScalarFormatter())
    axis.yaxis.set_minor_formatter(ScalarFormatter())
    axis.margins(y=0.2)
    axis.legend(frameon=False)


def _point_at(axis: Any, x: float, y: float, text: str, below: bool = False) -> None:
    place = dict(textcoords="offset points", xytext=(0, -13 if below else 7), ha="center", fontsize=8)
    axis.annotate(text, (x, y), **place)
