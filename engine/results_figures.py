"""Figures of a report: accuracy with intervals and seeds, ranks of retrieval, differences of all pairs."""

import re
from pathlib import Path
from typing import Any

import numpy as np

from data.files import atomic_file
from engine.food_figures import shown_label
from engine.results import Entry, Section
from models.ranks import DIRECTIONS

OWN, BASELINE, PUBLISHED = "#1b6ca8", "0.45", "#e07b39"
SIDES = {DIRECTIONS[0]: ("image → recipe", OWN), DIRECTIONS[1]: ("recipe → image", "#4c956c")}
CHANCE = 0.25  # every question here has four options
MOST_ROWS = 80  # systems of one figure
MOST_SYSTEMS = 14  # rows of a matrix that can still be read
LONGEST = 60  # characters of a name


def draw(folder: Path, sections: list[Section]) -> dict[str, int]:
    """Write all figures as PNG and PDF; returns file name -> number of its section."""
    import matplotlib

    matplotlib.use("Agg")
    names: dict[str, int] = {}
    for number, section in enumerate(sections):
        label = re.sub(r"[^a-z0-9]+", "_", f"{section.data} {section.task} {section.split}".lower()).strip("_")[:60]
        figure = _ranks(section) if section.kind == "retrieval" else _accuracy(section)
        figures = {f"{number + 1}_{label}": figure, f"{number + 1}_{label}_differences": _differences(section)}
        for name, drawn in figures.items():
            if drawn is None:
                continue
            for kind in ("png", "pdf"):
                with atomic_file(folder / f"{name}.{kind}") as partial:
                    drawn.savefig(partial, format=kind, dpi=150)
                names[f"{name}.{kind}"] = number
            _close(drawn)
    return names


def _close(figure: Any) -> None:
    from matplotlib import pyplot as plt

    plt.close(figure)


def _accuracy(section: Section) -> Any:
    """One line a system: mean, 95 % interval, seeds as dots; baselines and published rows below, chance dashed."""
    from matplotlib import pyplot as plt

    baselines = [row for row in section.baselines if row["system"] != "chance"]
    published = sorted(section.published, key=lambda row: -row["value"])
    entries = section.entries[:MOST_ROWS]
    rows = len(entries) + len(baselines) + len(published)
    figure, axis = plt.subplots(figsize=(8.5, 1.5 + 0.27 * rows), layout="constrained")
    y, names = 0, []
    for entry in entries:
        _interval(axis, y, entry.interval, OWN)
        if len(entry.values) > 1:  # below the mean, which would hide them
            axis.plot(np.multiply(entry.values, 100), [y + 0.33] * len(entry.values), "o", ms=3.2, color=OWN, mew=0)
        face = OWN if entry.reference else "white"
        axis.plot(entry.mean * 100, y, "o", ms=7, color=OWN, mfc=face, zorder=3)
        seeds = f" ({len(entry.results)} seeds)" if len(entry.results) > 1 else ""
        names.append(_short(entry.system) + seeds)
        y += 1
    for row in baselines:
        _interval(axis, y, row["interval"], BASELINE)
        axis.plot(row["value"] * 100, y, "s", ms=5, color=BASELINE)
        names.append(_short(row["system"]))
        y += 1
    for row in published:
        _interval(axis, y, row["interval"], PUBLISHED, alpha=0.6)
        axis.plot(row["value"] * 100, y, "D", ms=5, color=PUBLISHED, mfc=PUBLISHED if row["same"] else "white")
        names.append(_short(row["system"]))
        y += 1
    axis.axvline(CHANCE * 100, color="0.5", linestyle="--", linewidth=1, zorder=0)
    _names(axis, names)
    axis.set(xlabel="accuracy, %", xlim=(0, 100))
    axis.set_title(_short(_title(section), 90), fontsize=10, loc="left")
    marks = [("o", OWN, OWN, "mean of a system here")]
    if any(len(e.results) > 1 for e in section.entries):
        marks.append(("o", OWN, "small", "one seed"))
    if any(not e.reference for e in section.entries):
        marks.append(("o", OWN, "white", "other questions"))
    marks += [("s", BASELINE, BASELINE, "baseline")] * bool(baselines)
    what = "published, best of four prompts" if section.kind == "food" else "published"
    for same, text in ((True, f"{what}, same questions"), (False, f"{what}, other questions")):
        if any(row["same"] is same for row in published):
            marks.append(("D", PUBLISHED, PUBLISHED if same else "white", text))
    for mark, colour, face, text in marks:
        size = 3.2 if face == "small" else 6
        axis.plot([], [], mark, color=colour, mfc=colour if face == "small" else face, ms=size, label=text)
    axis.plot([], [], color="0.5", linestyle="--", linewidth=1, label="chance")
    figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=8)
    return figure


def _ranks(section: Section) -> Any:
    """Median rank and R@10 in both directions, in the smallest pool; intervals of single runs, seeds as dots."""
    from matplotlib import pyplot as plt
    from matplotlib.ticker import ScalarFormatter

    pool = section.pools[0]
    entries = [e for e in section.entries if all(pool in r.pools for r in e.results)][:MOST_ROWS]
    others = [row for row in [*section.baselines, *section.published] if row.get("pool") == pool]
    names = [_short(e.system) + (f" ({len(e.results)} seeds)" if len(e.results) > 1 else "") for e in entries]
    names += [_short(row["system"]) for row in others]
    figure, axes = plt.subplots(1, 2, figsize=(10, 1.7 + 0.32 * len(names)), layout="constrained", sharey=True)
    for axis, key, scale in zip(axes, ("medR", "R10"), (1, 100), strict=True):
        for place, (direction, (label, colour)) in enumerate(SIDES.items()):
            shift = 0.26 * place - 0.13
            for y, entry in enumerate(entries):
                mean, _, interval = entry.rank(pool, direction, key)
                bounds = None if interval is None else (interval[0] * scale / 100, interval[1] * scale / 100)
                _interval(axis, y + shift, bounds, colour)
                values = [r.pools[pool][direction][key]["mean"] * scale for r in entry.results]
                if len(values) > 1:
                    axis.plot(values, [y + shift + 0.11] * len(values), "o", ms=2.6, color=colour, mew=0)
                face = colour if entry.reference else "white"
                axis.plot(mean * scale, y + shift, "o", ms=6, color=colour, mfc=face, zorder=3)
            for y, row in enumerate(others, len(entries)):
                if (value := row[f"{direction}/{key}"]) is not None:
                    mark = "D" if "source" in row else "s"
                    axis.plot(value * scale, y + shift, mark, ms=5, color=colour, mfc="white")
            if place == 0:
                chance = next(r.pools[pool]["chance"] for e in entries for r in e.results)
                axis.axvline(chance[key] * scale, color="0.5", linestyle="--", linewidth=1, zorder=0)
            axis.plot([], [], "o", color=colour, ms=6, label=label if key == "medR" else None)
        _names(axis, names)
    axes[1].tick_params(labelleft=False)
    axes[0].set(xlabel="median rank (lower is better)", xscale="log")
    axes[0].xaxis.set_major_formatter(ScalarFormatter())
    axes[0].xaxis.set_minor_formatter(ScalarFormatter())
    axes[0].tick_params(axis="x", which="minor", labelsize=7)
    axes[1].set(xlabel="R@10, %", xlim=(0, min(103, axes[1].get_xlim()[1] * 1.04)))
    if any(len(e.results) > 1 for e in entries):
        axes[0].plot([], [], "o", color="0.4", ms=2.6, label="one seed")
    if any("source" not in row for row in others):
        axes[0].plot([], [], "s", color="0.4", mfc="white", ms=5, label="baseline")
    if any("source" in row for row in others):
        axes[0].plot([], [], "D", color="0.4", mfc="white", ms=5, label="published")
    axes[0].plot([], [], color="0.5", linestyle="--", linewidth=1, label="chance")
    figure.suptitle(_short(f"{_title(section)}, pool {pool}", 110), fontsize=10, x=0.01, ha="left")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=5, frameon=False, fontsize=8)
    return figure


def _differences(section: Section) -> Any | None:
    """Row minus column for every pair on the same questions; bold where Holm's p is below 0.05."""
    from matplotlib import pyplot as plt

    found = {(row["a"], row["b"]): row for row in section.comparisons}
    used = {name for pair in found for name in pair}
    entries: list[Entry] = [e for e in section.entries if e.system in used][:MOST_SYSTEMS]
    if len(entries) < 2:
        return None
    retrieval = section.kind == "retrieval"
    scale = 1 if retrieval else 100
    values = np.full((len(entries), len(entries)), np.nan)
    p = np.full_like(values, np.nan)
    for i, a in enumerate(entries):
        for j, b in enumerate(entries):
            for key, sign in (((a.system, b.system), 1), ((b.system, a.system), -1)):
                if key in found:
                    values[i, j] = sign * found[key]["difference"] * scale
                    p[i, j] = found[key]["holm_p"]
    size = 0.62 * len(entries)
    figure, axis = plt.subplots(figsize=(5 + size, 1.6 + 0.6 * size), layout="constrained")
    most = np.nanmax(np.abs(values)) or 1
    image = axis.imshow(values, cmap="RdBu", vmin=-most, vmax=most, aspect="auto")
    for i, j in np.argwhere(~np.isnan(values)):
        clear = p[i, j] < 0.05
        colour = "white" if abs(values[i, j]) > 0.62 * most else "black"
        text = f"{values[i, j]:+.3f}" if retrieval else f"{values[i, j]:+.1f}"
        weight = "bold" if clear else "normal"
        axis.text(j, i, text.replace("-", "−"), ha="center", va="center", fontsize=8, color=colour, fontweight=weight)
    names = [f"{_short(e.system, 60)}  ({i})" for i, e in enumerate(entries, 1)]
    axis.set_xticks(range(len(names)), [f"({i})" for i in range(1, len(names) + 1)], fontsize=8)
    axis.set_yticks(range(len(names)), names, fontsize=8)
    axis.tick_params(length=0)
    axis.spines[:].set_visible(False)
    bar = figure.colorbar(image, ax=axis, shrink=0.8)
    bar.set_label("row − column, " + ("1 / rank" if retrieval else "points"), fontsize=8)
    bar.ax.tick_params(labelsize=8)
    figure.suptitle(_short(section.title, 60) + "\nbold: p < 0.05 after Holm", fontsize=9)
    return figure


def _title(section: Section) -> str:
    more = len(section.entries) > MOST_ROWS
    return section.title + (f", the first {MOST_ROWS} of {len(section.entries)} rows" if more else "")


def _interval(axis: Any, y: float, interval: Any, colour: str, alpha: float = 1.0) -> None:
    if interval is not None:
        axis.plot([interval[0] * 100, interval[1] * 100], [y, y], color=colour, linewidth=1.6, alpha=alpha)


def _names(axis: Any, names: list[str]) -> None:
    axis.set_yticks(range(len(names)), names, fontsize=8)
    axis.set_ylim(len(names) - 0.4, -0.6)  # the first row on top
    axis.spines[["top", "right", "left"]].set_visible(False)
    axis.tick_params(axis="y", length=0)
    axis.tick_params(axis="x", labelsize=8)
    axis.xaxis.label.set_size(9)
    axis.grid(axis="x", alpha=0.25)


def _short(text: str, longest: int = LONGEST) -> str:
    """A label that matplotlib shows as it is: no formula, no more letters than there is room for."""
    text = shown_label(text.replace("_", " "))
    text = text if len(text) <= longest else text[: longest - 1] + "…"
    return text.replace("$", r"\$")
