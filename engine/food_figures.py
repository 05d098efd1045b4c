"""The pictures of a report on food questions: PNG files that say what was asked and how sure the numbers are."""

import textwrap
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from data.files import atomic_file
from data.records import LETTERS
from engine.food_scores import CHANCE

BLUE, ORANGE, GREEN, GREY, PALE, INK = "#1b6ca8", "#e07b39", "#4c956c", "#8a8f98", "#c9ced6", "#222831"
Row = dict[str, Any]


def draw_food(folder: Path, summary: Row, published: Sequence[Row]) -> list[str]:
    """Draw every figure that the numbers allow into `folder`; returns the file names.

    accuracy.png (prompts beside published systems), groups.png (bars by attribute), heatmap.png (cuisine or food
    category by question type), letters.png, and where options were permuted rotations.png.

    Args:
        folder: run folder.
        summary: of `engine.food_scores.summarise`.
        published: rows of `engine.food_published.published_food_rows`, with `same_questions`.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    drawn = []
    for name, draw in (
        ("accuracy.png", lambda: _accuracy(summary, published)),
        ("groups.png", lambda: _group_bars(summary)),
        ("heatmap.png", lambda: _heat_map(summary)),
        ("letters.png", lambda: _letter_bars(summary)),
        ("rotations.png", lambda: _rotations(summary)),
    ):
        with plt.rc_context(_style()):
            figure = draw()
            if figure is None:
                continue
            with atomic_file(folder / name) as partial:
                figure.savefig(partial, dpi=150, format="png")
            plt.close(figure)
        drawn.append(name)
    return drawn


def _style() -> Any:
    return {
        "font.size": 9,
        "font.family": [*_cjk_fonts(), "DejaVu Sans"][::-1],
        "axes.edgecolor": "0.6",
        "axes.titlesize": 10,
        "axes.titleweight": "bold",
        "axes.titlelocation": "left",
        "axes.labelcolor": INK,
        "text.color": INK,
        "xtick.color": "0.3",
        "ytick.color": INK,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "figure.facecolor": "white",
    }


@lru_cache(maxsize=1)
def _cjk_fonts() -> tuple[str, ...]:
    """A font with Chinese glyphs, where this machine has one."""
    from matplotlib import font_manager

    known = ("Noto Sans CJK SC", "Noto Sans CJK JP", "Source Han Sans SC", "WenQuanYi Zen Hei", "PingFang SC", "SimHei")
    found = {font.name for font in font_manager.fontManager.ttflist}
    return tuple(name for name in known if name in found)[:1]


def shown_label(label: str) -> str:
    """A label as a figure can draw it: one with glyphs that no font here has becomes its code points."""
    if label.isascii() or _cjk_fonts() or all(ord(letter) < 0x2E80 for letter in label):
        return label
    return " ".join(f"U+{ord(letter):04X}" for letter in label[:6])


def _titled(figure: Any, summary: Row, text: str) -> Any:
    """Title and what was asked at the top left, in room of their own."""
    demo = "" if not summary["is_demo"] else " (a demo set, not FoodieQA)"
    line = f"{summary['model']} on {summary['data']}{demo}, {summary['n']} questions"
    height = figure.get_figheight()
    figure.get_layout_engine().set(rect=(0, 0, 1, 1 - 0.55 / height))
    figure.text(0.01, 1 - 0.08 / height, text, ha="left", va="top", fontsize=12, fontweight="bold")
    shown = figure.text(0.01, 1 - 0.32 / height, line, ha="left", va="top", fontsize=8.5, color="0.4")
    fitting = int(figure.get_figwidth() * 14)  # signs of this size to the width
    line = "\n".join(textwrap.wrap(line, fitting))
    shown.set_text(line)
    if not summary["complete"]:
        shown.set_text(f"{line}  ·  INCOMPLETE: {summary['missing']} requests without reply")
        shown.set_color("#b0413e")
    return figure


def _percent_axis(axis: Any, which: str = "x") -> None:
    from matplotlib.ticker import PercentFormatter

    (axis.xaxis if which == "x" else axis.yaxis).set_major_formatter(PercentFormatter(1, decimals=0))
    axis.grid(axis=which, alpha=0.25, linewidth=0.7)
    axis.set_axisbelow(True)
    axis.tick_params(length=0)


# ----------------------------------------------------------------------------------------------------------- accuracy


def _accuracy(summary: Row, published: Sequence[Row]) -> Any:
    """One line for each prompt, their mean, and the published systems below; chance and people as upright lines."""
    from matplotlib import pyplot as plt
    from matplotlib.lines import Line2D

    prompts = [row for row in summary["prompts"] if row["accuracy"] is not None]
    if not prompts:
        return None
    over, best = summary["over_prompts"], summary["over_prompts"]["best"]
    lines: list[Row] = [
        {
            "label": row["label"],
            "x": row["accuracy"],
            "inner": row["interval"],
            "outer": row["clustered"],
            "colour": BLUE,
            "text": f"{row['accuracy']:.1%}  n={row['n']}"
            + (f", unread {row['failures']['rate']:.1%}" if row["failures"]["count"] else ""),
            "best": len(prompts) > 1 and row["prompt"] == best["prompt"],
        }
        for row in prompts
    ]
    if over["k"] > 1:
        lines.append(
            {
                "label": f"mean of {over['k']} prompts",
                "x": over["mean"],
                "inner": over["interval"],
                "outer": over["clustered"],
                "colour": ORANGE,
                "text": f"{over['mean']:.1%} ± {over['sd'] * 100:.1f} sd",
            }
        )
    human = next((row for row in published if row["kind"] == "human"), None)
    for row in published:
        if row["kind"] != "human":
            lines.append(
                {
                    "label": row["system"],
                    "x": row["accuracy"] / 100,
                    "inner": row["interval"],
                    "outer": None,
                    "colour": GREY,
                    "mean": row["mean"] / 100 if "mean" in row else None,
                    "text": f"{row['accuracy']:.2f}%  n={row['n']}",
                }
            )
    own = len(prompts) + (over["k"] > 1)
    figure, axis = plt.subplots(figsize=(8.4, 1.75 + 0.3 * len(lines)), layout="constrained")
    gap = 0.7  # between this run and the published systems
    for i, line in enumerate(lines):
        y = i + (gap if i >= own else 0)
        line["y"] = y
        if line["outer"] is not None:
            axis.plot(line["outer"], (y, y), color=line["colour"], linewidth=1.2, alpha=0.75, solid_capstyle="butt")
        axis.plot(line["inner"], (y, y), color=line["colour"], linewidth=3.6, alpha=0.45, solid_capstyle="butt")
        if line.get("mean") is not None:
            axis.plot(line["mean"], y, marker="|", markersize=9, color="0.35", markeredgewidth=1.4)
        axis.plot(line["x"], y, "o", color=line["colour"], markersize=5.5)
        ends = [line["x"], *line["inner"], *(line["outer"] or []), *([line["mean"]] if line.get("mean") else [])]
        before = line["x"] > 0.62  # no room behind
        axis.annotate(
            line["text"],
            (min(ends) if before else max(ends), y),
            textcoords="offset points",
            xytext=(-6 if before else 6, 0),
            ha="right" if before else "left",
            va="center",
            fontsize=7.8,
            color="0.35",
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6, "alpha": 0.85},
        )
        if line.get("best"):
            axis.plot(line["x"], y, marker="*", markersize=12, color=line["colour"], markeredgecolor="white")
    top = max(line["y"] for line in lines) + 0.7
    axis.set_ylim(top, -0.9)
    axis.set_xlim(0, 1)
    axis.axvline(CHANCE, color="0.45", linestyle="--", linewidth=1)
    axis.annotate("chance", (CHANCE, -0.85), ha="center", va="bottom", fontsize=7.5, color="0.4", annotation_clip=False)
    if human:
        axis.axvline(human["accuracy"] / 100, color=GREEN, linestyle="-.", linewidth=1.2)
        axis.annotate(
            f"people {human['accuracy']:.1f}%" + ("" if human["same_questions"] else ", other questions"),
            (human["accuracy"] / 100, -0.85),
            ha="center",
            va="bottom",
            fontsize=7.5,
            color=GREEN,
            annotation_clip=False,
        )
    if len(lines) > own:
        same = any(row["same_questions"] for row in published)
        axis.axhline(own - 0.5 + gap / 2, color="0.85", linewidth=0.8)
        axis.annotate(
            f"published, best of four prompts, {'same' if same else 'OTHER'} questions",
            (0.995, own - 0.5 + gap / 2),
            textcoords="offset points",
            xytext=(0, -3),
            ha="right",
            va="top",
            fontsize=7.3,
            style="italic",
            color="0.45",
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6},
        )
    axis.set_yticks([line["y"] for line in lines], [line["label"] for line in lines])
    for label, line in zip(axis.get_yticklabels(), lines, strict=True):
        label.set_color("0.45" if line["colour"] == GREY else INK)
    _percent_axis(axis)
    handles = [
        Line2D([], [], color=BLUE, linewidth=3.6, alpha=0.45, label="95 % Wilson interval"),
        Line2D([], [], color=BLUE, linewidth=1.2, alpha=0.75, label=f"clustered by {summary['cluster_name']}"),
    ]
    if over["k"] > 1:
        handles.append(
            Line2D([], [], color=BLUE, marker="*", markersize=9, linestyle="", label="best, chosen on the test set")
        )
    if any(line.get("mean") is not None for line in lines):
        handles.append(
            Line2D([], [], color="0.35", marker="|", linestyle="", markersize=9, label="published mean of four prompts")
        )
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False, fontsize=7.5)
    return _titled(figure, summary, "Accuracy by prompt")


# ------------------------------------------------------------------------------------------------------------- groups


def _group_bars(summary: Row) -> Any:
    """Bars with intervals for every question type, cuisine and food category; small groups grey."""
    from matplotlib import pyplot as plt

    panels = [group for group in summary["groups"] if any(row["n"] for row in group["all"])]
    if not panels:
        return None
    counts = [sum(row["n"] > 0 for row in group["all"]) for group in panels]
    height = 1.45 + 0.27 * max(*counts, 4)
    figure = plt.figure(figsize=(0.6 + 4.1 * len(panels), height), layout="constrained")
    columns = figure.add_gridspec(1, len(panels), wspace=0.03)
    for i, (group, count) in enumerate(zip(panels, counts, strict=True)):
        column = columns[i]
        spare = max(*counts, 4) - count  # bars are equally thick in all panels
        cell = column.subgridspec(2, 1, height_ratios=[count, spare + 1e-3], hspace=0)[0] if spare else column
        _bars(figure.add_subplot(cell), group, summary)
    over = summary["over_prompts"]["k"]
    what = "Accuracy by " + ", ".join(group["name"] for group in panels)
    return _titled(figure, summary, f"{what}: mean of {over} prompts" if over > 1 else what)


def _bars(axis: Any, group: Row, summary: Row) -> None:
    rows = [row for row in group["all"] if row["n"]]
    y = np.arange(len(rows))
    axis.barh(y, [row["accuracy"] for row in rows], color=[PALE if r["small"] else BLUE for r in rows], height=0.66)
    for i, row in enumerate(rows):
        ink = "0.5" if row["small"] else INK
        axis.plot(row["interval"], (i, i), color=ink, linewidth=1)
        for end in row["interval"]:
            axis.plot((end, end), (i - 0.13, i + 0.13), color=ink, linewidth=1)
        axis.annotate(
            f"{row['accuracy']:.0%}",
            (row["interval"][1], i),
            textcoords="offset points",
            xytext=(4, 0),
            va="center",
            fontsize=7.6,
            color="0.55" if row["small"] else INK,
            annotation_clip=False,
        )
    axis.axvline(CHANCE, color="0.45", linestyle="--", linewidth=1)
    axis.set(xlim=(0, 1.09), ylim=(len(rows) - 0.4, -0.6))
    axis.set_xticks(np.arange(0, 1.01, 0.25))
    axis.set_yticks(y, [f"{_wrapped(row['label'])}  ({row['n']})" for row in rows], fontsize=8.5)
    for label, row in zip(axis.get_yticklabels(), rows, strict=True):
        label.set_color("0.55" if row["small"] else INK)
        label.set_linespacing(0.85)
    _percent_axis(axis)
    grey = f", grey: n<{summary['min_n']}" if any(row["small"] for row in rows) else ""
    axis.set_title(f"{_capital(group['name'])} (n){grey}")


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _wrapped(label: str, width: int = 18) -> str:
    import textwrap

    return "\n".join(textwrap.wrap(shown_label(label), width)[:2])


def _heat_map(summary: Row) -> Any:
    """Accuracy in every cell of cuisine (or food category) by question type, with n; no question: blank."""
    from matplotlib import pyplot as plt
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import LinearSegmentedColormap, TwoSlopeNorm

    cross = summary["cross"]
    if not cross:
        return None
    blocks, columns, minimum = cross["blocks"], cross["columns"], max(summary["min_n"], 1)
    rows = sum(len(block["rows"]) for block in blocks)
    figure, axes = plt.subplots(
        len(blocks),
        1,
        figsize=(3.3 + 0.66 * max(len(columns), 4), 2.0 + 0.33 * rows + 0.25 * len(blocks)),
        layout="constrained",
        sharex=True,
        squeeze=False,
        height_ratios=[len(block["rows"]) for block in blocks],
    )
    scale = [(0, "#b8442c"), (0.5, "#f4ece4"), (0.72, "#7db4da"), (1, "#0f4c78")]
    shades = ScalarMappable(TwoSlopeNorm(CHANCE, 0, 1), LinearSegmentedColormap.from_list("accuracy", scale))
    for axis, block in zip(axes[:, 0], blocks, strict=True):
        n, right = np.asarray(block["n"], float), np.asarray(block["right"])
        colours = shades.to_rgba(right / np.maximum(n, 1))
        # Few questions say little: their colour fades into the ground.
        weight = np.where(n > 0, 0.3 + 0.7 * np.minimum(n / minimum, 1), 0)[..., None]
        colours[..., :3] = 1 - weight * (1 - colours[..., :3])
        axis.imshow(colours, aspect="auto", interpolation="nearest")
        for i, j in zip(*np.nonzero(n), strict=True):
            axis.text(
                j,
                i,
                f"{100 * right[i, j] / n[i, j]:.0f}%\nn={n[i, j]:.0f}",
                ha="center",
                va="center",
                fontsize=6.6,
                linespacing=0.95,
                color="white" if colours[i, j, :3] @ (0.3, 0.59, 0.11) < 0.5 else INK,
                fontweight="bold" if n[i, j] >= minimum else "normal",
            )
        labels = [f"{_wrapped(name, 24)}  ({n[i].sum():.0f})" for i, name in enumerate(block["rows"])]
        axis.set_yticks(range(len(labels)), labels, fontsize=8.5, linespacing=0.85)
        axis.set_xticks(range(len(columns)), [shown_label(name) for name in columns], rotation=35, ha="right")
        axis.set_xticks(np.arange(-0.5, len(columns)), minor=True)
        axis.set_yticks(np.arange(-0.5, len(labels)), minor=True)
        axis.grid(which="minor", color="white", linewidth=2)
        axis.tick_params(which="both", length=0)
        axis.spines[:].set_visible(False)
        axis.set_title(f"{_capital(block['name'])} (n)")
    bar = figure.colorbar(shades, ax=axes[:, 0].tolist(), fraction=0.03, pad=0.015, aspect=30)
    bar.ax.set_yscale("linear")
    bar.set_ticks([0, CHANCE, 0.5, 0.75, 1], labels=["0%", "25% chance", "50%", "75%", "100%"])
    bar.outline.set_visible(False)
    bar.ax.tick_params(length=0, labelsize=7.5)
    bar.set_label(f"accuracy; colours fade below n={minimum}", fontsize=7.5)
    names = " and ".join(block["name"] for block in blocks)
    return _titled(figure, summary, f"Accuracy by {names} × question type")


# ------------------------------------------------------------------------------------------------- letters, rotations


def _letter_bars(summary: Row) -> Any:
    """Letters among the answers of each prompt beside the truth; dashed: an even share."""
    from matplotlib import pyplot as plt

    prompts = [row for row in summary["prompts"] if row["n"]]
    if not prompts:
        return None
    figure, axes = plt.subplots(
        1,
        len(prompts),
        figsize=(max(2.3 * len(prompts) + 0.8, 4.6), 3.3),
        layout="constrained",
        sharey=True,
        squeeze=False,
    )
    for axis, row in zip(axes[0], prompts, strict=True):
        _letter_panel(axis, row["letters"]["answers"], row["letters"]["truth"], row["n"])
        p = row["letters"]["p_uniform"]
        axis.set_title(row["label"], fontsize=8.5)
        unread = f"unread {row['failures']['rate']:.1%}; " if row["failures"]["count"] else ""
        axis.set_xlabel(f"{unread}even: p {_p_text(p)}", fontsize=7.5)
    axes[0, 0].legend(frameon=False, fontsize=7.5, loc="upper right")
    return _titled(figure, summary, "Letters among the answers and the truth")


def _p_text(p: float | None) -> str:
    return "–" if p is None else "< 0.001" if p < 0.001 else f"= {p:.2g}"


def _letter_panel(axis: Any, answers: Sequence[int], truth: Sequence[int], n: int) -> None:
    from matplotlib.patheffects import withStroke

    x = np.arange(4)
    axis.bar(x - 0.2, np.asarray(answers) / n, width=0.38, color=BLUE, label="answers")
    axis.bar(x + 0.2, np.asarray(truth) / n, width=0.38, color=PALE, label="truth")
    for place, count in enumerate(answers):
        axis.annotate(
            str(count),
            (place - 0.2, count / n),
            textcoords="offset points",
            xytext=(0, 2),
            ha="center",
            fontsize=6.8,
            path_effects=[withStroke(linewidth=1.6, foreground="white")],
        )
    axis.axhline(CHANCE, color="0.45", linestyle="--", linewidth=1)
    axis.set_xticks(x, LETTERS)
    _percent_axis(axis, "y")
    axis.margins(y=0.2)


def _rotations(summary: Row) -> Any:
    """What the order of the options does: accuracies, accuracy by the right option's place, letters over all orders."""
    from matplotlib import pyplot as plt

    if not summary["positions"]:
        return None
    rows = [row for row in summary["positions"]["prompts"] if row["n"]]
    if not rows:
        return None
    figure, axes = plt.subplots(
        1, 3, figsize=(11, 3.6 + 0.12 * len(rows)), layout="constrained", width_ratios=[1.5, 1, 1]
    )
    names = ["file's order", "mean of orders", "right in all 4"]
    keys = ["vanilla", "mean", "circular"]
    if summary["positions"]["orders"] > 4:
        names.append("right in all 24")
        keys.append("all_orders")
    colours = [BLUE, ORANGE, GREEN, "#8d5a97", "#b0413e", "#5c6b73"]
    wide = 0.8 / len(rows)
    for i, row in enumerate(rows):
        x = np.arange(len(keys)) + (i - (len(rows) - 1) / 2) * wide
        y = np.asarray([row[key]["accuracy"] for key in keys])
        ends = np.asarray([row[key]["clustered"] for key in keys]).T
        colour = colours[i % len(colours)]
        axes[0].bar(x, y, width=wide * 0.9, color=colour, label=row["label"], alpha=0.85)
        axes[0].errorbar(x, y, yerr=np.abs(ends - y), fmt="none", ecolor=INK, elinewidth=0.9, capsize=2)
        place = [p["accuracy"] for p in row["by_place"]]
        axes[1].plot(range(4), place, marker="o", markersize=4, color=colour, label=row["label"])
        given = row["n"] * summary["positions"]["orders"]
        axes[2].plot(range(4), np.asarray(row["letters"]["answers"]) / given, marker="o", markersize=4, color=colour)
    for axis in axes:
        axis.axhline(CHANCE, color="0.45", linestyle="--", linewidth=1)
        _percent_axis(axis, "y")
        axis.set_ylim(0, 1)
    axes[0].set_xticks(range(len(keys)), names)
    axes[0].set_title("Accuracy (95 %, clustered)")
    for axis, title in ((axes[1], "Accuracy by place of the right option"), (axes[2], "Letters among the answers")):
        axis.set_xticks(range(4), LETTERS)
        axis.set_xlim(-0.4, 3.4)
        axis.set_title(title)
    axes[2].set_ylim(0, max(0.55, max(max(line.get_ydata()) for line in axes[2].get_lines()) * 1.15))
    figure.legend(
        *axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(rows), frameon=False, fontsize=8
    )
    sizes = sorted({row["n"] for row in rows})
    n = f"{sizes[0]}–{sizes[-1]}" if len(sizes) > 1 else str(sizes[0])
    left = summary["positions"]["left_out"]
    text = f"Order of the options: {summary['positions']['orders']} orders of {n} questions"
    return _titled(figure, summary, text + (f", {left} left out as they name a place" if left else ""))
