"""Figures of a data card: questions, recipes, categories, biases, wrong choices."""

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from data.build.food_statistics import cjk_font
from data.build.question_statistics import NO_CATEGORY, ORDERS_AT_DISTANCE
from data.files import atomic_file
from data.records import TASKS
from engine.scoring import CHANCE

Row = dict[str, Any]

_INK, _GREY = "#222831", "#8a8f98"
_SPLIT_COLOURS = {"train": "#1b6ca8", "val": "#e07b39", "test": "#4c956c"}
_OWN, _OTHER = "#1b6ca8", "#e07b39"
_POSITIONS = ("#1b6ca8", "#7fb3d5", "#f2c49b", "#e07b39")
_STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.edgecolor": _GREY,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "xtick.color": _INK,
    "ytick.color": _INK,
}
SHOWN_CATEGORIES = 24
SHORT_RULES = {
    "shortest_choice_characters": "shortest (characters)",
    "shortest_choice_words": "shortest (words)",
    "longest_choice_characters": "longest (characters)",
    "longest_choice_words": "longest (words)",
    "not_repeated_permutation": "order offered once",
    "least_frequent_choice": "least frequent",
    "most_frequent_choice": "most frequent",
    "tfidf_question_titles": "TF-IDF, question",
    "tfidf_context": "TF-IDF, context",
    "tfidf_context_log": "TF-IDF, context, log",
    "tfidf_best_step": "TF-IDF, best step",
    "tfidf_characters": "TF-IDF, characters",
}


def draw(card: Row, folder: str | Path) -> list[str]:
    """Draw the figures of a card (`engine.data_card.card`) as PNG; returns their names."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    figures = {
        "questions.png": (_draw_questions, "Questions"),
        "recipes.png": (_draw_recipes, "Recipes"),
        "categories.png": (_draw_categories, "Categories"),
        "biases.png": (_draw_biases, "Rules that understand nothing"),
        "wrong_choices.png": (_draw_wrong_choices, "Wrong choices"),
    }
    drawn = []
    with plt.rc_context({**_STYLE, "font.family": _families()}):
        for name, (function, heading) in figures.items():
            if (figure := function(card)) is None:
                continue
            figure.suptitle(
                f"{heading}  ·  {_shown(card['set']['title'], 90)}\n", x=0.01, ha="left", fontsize=11, color="0.35"
            )
            with atomic_file(folder / name) as partial:
                figure.savefig(partial, dpi=150, format="png")
            plt.close(figure)
            drawn.append(name)
    return drawn


def _shown(text: str, limit: int = 34) -> str:
    """A text from outside as a figure can show it; a dollar sign would begin a formula."""
    text = " ".join(text.split())
    if any(ord(letter) not in _glyphs() for letter in text):
        return "(no font for it)"
    return (text if len(text) <= limit else text[: limit - 1].rstrip() + "…").replace("$", r"\$")


def _families() -> list[str]:
    return ["DejaVu Sans", *filter(None, [cjk_font()])]  # the first comes with matplotlib


@lru_cache(maxsize=1)
def _glyphs() -> frozenset[int]:
    """Code points that the fonts of the figures have."""
    from matplotlib import font_manager

    fonts = [font_manager.get_font(font_manager.findfont(name)) for name in _families()]
    return frozenset().union(*(font.get_charmap() for font in fonts))


def _name(task: str) -> str:
    return task.replace("_", " ").capitalize()


def _tasks(found: Row) -> list[str]:
    return [task for task in TASKS if any(task in own for own in found["questions"].values())]


def _sets(card: Row) -> list[tuple[str, str, Row]]:
    """(label, colour, set) of the set itself and of the second one."""
    other = [(_shown(card["other"]["title"]), _OTHER, card["other"])] if card["other"] else []
    return [("this set" if other else "", _OWN, card["set"]), *other]


# ---- questions -------------------------------------------------------------------------------------------------------


def _draw_questions(card: Row) -> Any:
    """Number of questions and places of the right answers."""
    from matplotlib import pyplot as plt

    found = card["set"]
    bars = [
        (task, split) for task in _tasks(found) for split in found["questions"] if task in found["questions"][split]
    ]
    size = (10, 1.6 + 0.3 * len(bars))
    figure, (left, right) = plt.subplots(1, 2, figsize=size, layout="constrained", sharey=True)
    rows = [found["questions"][split][task] for task, split in bars]
    places = _spaced([task for task, _ in bars])
    left.barh(places, [row["n"] for row in rows], color=[_SPLIT_COLOURS[split] for _, split in bars], height=0.8)
    for place, row in zip(places, rows, strict=True):
        _behind(left, row["n"], place, f"{row['n']:,}")
    left.set_yticks(places, [f"{_name(task)}, {split}" for task, split in bars])
    left.set(title="questions", ylim=(max(places) + 0.6, -0.6), xlim=(0, 1.15 * max(row["n"] for row in rows)))
    left.tick_params(axis="y", length=0)
    left.grid(axis="x", alpha=0.25)
    starts = [0.0] * len(rows)
    for position, colour in enumerate(_POSITIONS):
        shares = [100 * row["answers"][position] / row["n"] for row in rows]
        right.barh(places, shares, left=starts, color=colour, height=0.8, label=f"position {position}")
        for place, share, start in zip(places, shares, starts, strict=True):
            if share >= 8:
                ink = "white" if position in (0, 3) else _INK
                right.text(start + share / 2, place, f"{share:.1f}", ha="center", va="center", fontsize=8, color=ink)
        starts = [start + share for start, share in zip(starts, shares, strict=True)]
    for x in (25, 50, 75):
        right.axvline(x, color=_INK, linewidth=0.8, linestyle=":", alpha=0.7)
    right.set(title="position of the right answer, %", xlim=(0, 100))
    right.tick_params(axis="y", length=0)
    figure.legend(*right.get_legend_handles_labels(), loc="outside lower right", ncols=4, frameon=False)
    return figure


def _spaced(groups: Sequence[str]) -> list[float]:
    """Places of bars from top to bottom, with a gap between groups."""
    places, place = [], 0.0
    for i, group in enumerate(groups):
        place += 0 if i == 0 else 1 if groups[i - 1] == group else 1.5
        places.append(place)
    return places


def _behind(axis: Any, value: float, place: float, text: str) -> None:
    axis.annotate(
        text, (value, place), xytext=(4, 0), textcoords="offset points", va="center", fontsize=8, color="0.35"
    )


# ---- recipes ---------------------------------------------------------------------------------------------------------

_SIZES = {
    "steps": "steps of a recipe",
    "images": "images of a recipe",
    "title_tokens": "title tokens of a recipe",
    "description_tokens": "description tokens of a recipe",
}


def _draw_recipes(card: Row) -> Any:
    """Sizes of the recipes, the means cited for RecipeQA beside them."""
    from matplotlib import pyplot as plt

    sets = [(label, colour, found["recipes"]["all"]["sizes"]) for label, colour, found in _sets(card)]
    keys = [key for key in _SIZES if any(sizes[key] for *_, sizes in sets)]
    figure, axes = plt.subplots(2, 2, figsize=(10, 6), layout="constrained", squeeze=False)
    published = {row["key"]: row["mean"] for row in card["published"]["averages"]}
    for axis in axes.flat[len(keys) :]:
        axis.set_axis_off()
    for axis, key in zip(axes.flat, keys, strict=False):
        known = [(label, colour, sizes[key]) for label, colour, sizes in sets if sizes[key]]
        top = 1.02 * max(found["p95"] for *_, found in known) * 1.35 + known[0][2]["width"]
        for label, colour, found in known:
            _draw_histogram(axis, found, colour, top, label, filled=colour == _OWN)
        axis.axvline(published[key], color=_INK, linewidth=1, linestyle=":", label="mean cited for RecipeQA")
        axis.set(title=_SIZES[key], ylabel="% of the recipes", xlim=(0, top), ylim=(0, None))
        axis.grid(axis="y", alpha=0.25)
        beyond = sum(n for found in known for start, n in found[2]["histogram"] if start >= top)
        text = "\n".join(f"{label + ': ' if label else ''}mean {found['mean']:.1f}" for label, _, found in known)
        text += f"\n{beyond:,} larger not shown" if beyond else ""
        axis.text(0.98, 0.95, text, transform=axis.transAxes, ha="right", va="top", fontsize=8, color="0.35")
    handles, labels = axes.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    return figure


def _draw_histogram(axis: Any, found: Row, colour: str, top: float, label: str, filled: bool) -> None:
    width, total = found["width"], found["n"]
    counts = dict(map(tuple, found["histogram"]))
    starts = [start * width for start in range(int(top // width) + 1)]
    heights = [100 * counts.get(start, 0) / total for start in starts]
    # A bar of width 1 holds one whole number and stands on it.
    shift = 0.5 if width == 1 else 0
    if filled:
        places = [start + width / 2 - shift for start in starts]
        axis.bar(places, heights, width=0.94 * width, color=colour, label=label or "recipes")
    else:
        edges = [start - shift for start in [*starts, starts[-1] + width]]
        axis.stairs(heights, edges, color=colour, linewidth=1.6, label=label)


def _draw_categories(card: Row) -> Any | None:
    """Shares of the categories among the recipes that have one; None where fewer than two are known."""
    from matplotlib import pyplot as plt

    sets = []
    for label, colour, found in _sets(card):
        counts = {name: n for name, n in found["recipes"]["all"]["categories"].items() if name != NO_CATEGORY}
        if counts:
            sets.append((label, colour, counts))
    names = list(dict.fromkeys(name for *_, counts in sets for name in counts))
    if len(names) < 2:
        return None
    shown, rest = names[:SHOWN_CATEGORIES], names[SHOWN_CATEGORIES:]
    labels = [_shown(name) for name in shown] + ([f"{len(rest):,} others"] if rest else [])
    figure, axis = plt.subplots(figsize=(8, 1.5 + 0.27 * len(labels)), layout="constrained")
    height, top = 0.8 / len(sets), 0.0
    for i, (label, colour, counts) in enumerate(sets):
        values = [counts.get(name, 0) for name in shown]
        values += [sum(counts.get(name, 0) for name in rest)] if rest else []
        shares = [100 * n / sum(counts.values()) for n in values]
        places = [place + (i - (len(sets) - 1) / 2) * height for place in range(len(values))]
        axis.barh(places, shares, color=colour, height=0.9 * height, label=label)
        for place, share, n in zip(places, shares, values, strict=True):
            _behind(axis, share, place, f"{n:,}")
        top = max(top, *shares)
    axis.set_yticks(range(len(labels)), labels)
    axis.set(xlabel="% of the recipes that have a category", ylim=(len(labels) - 0.4, -0.6), xlim=(0, 1.12 * top))
    axis.tick_params(axis="y", length=0)
    axis.grid(axis="x", alpha=0.25)
    if len(sets) > 1:
        axis.legend(frameon=False, loc="lower right")
    return figure


# ---- biases ----------------------------------------------------------------------------------------------------------


def _draw_biases(card: Row) -> Any:
    """Accuracy and interval of each rule, a panel for each task; hollow marks are of the second set."""
    from matplotlib import pyplot as plt
    from matplotlib.lines import Line2D

    tasks = _tasks(card["set"])
    groups = {task: _rule_groups(card, task) for task in tasks}
    heights = [len(groups[task]) + 1.2 for task in tasks]
    figure, axes = plt.subplots(
        len(tasks),
        1,
        figsize=(9, 1.4 + 0.3 * sum(heights)),
        layout="constrained",
        squeeze=False,
        sharex=True,
        gridspec_kw={"height_ratios": heights},
    )
    limit = 100 * (CHANCE + card["threshold"])
    splits = [split for split in _SPLIT_COLOURS if split in card["set"]["questions"]]
    top = limit
    for axis, task in zip(axes[:, 0], tasks, strict=True):
        names = list(groups[task])
        for place, rows in enumerate(groups[task].values()):
            for i, (split, own, row) in enumerate(rows):
                y = place + (i - (len(rows) - 1) / 2) * 0.8 / max(len(rows), 2)
                low, high = (100 * bound for bound in row["interval"])
                colour = _SPLIT_COLOURS[split] if own else _INK
                axis.plot([low, high], [y, y], color=colour, linewidth=1.2, alpha=0.8, solid_capstyle="butt")
                face = colour if own and row["counted_in"] != "evaluated" else "white"
                marker = "o" if own else "D"
                axis.plot(100 * row["accuracy"], y, marker, color=colour, markerfacecolor=face, markersize=4.5)
                top = max(top, high)
        axis.axvspan(limit, 100, color="#c0392b", alpha=0.06, linewidth=0)
        axis.axvline(100 * CHANCE, color=_INK, linewidth=0.9, linestyle=":")
        axis.set_yticks(range(len(names)), names)
        axis.set(ylim=(len(names) - 0.4, -0.6))
        axis.set_title(_name(task), loc="left")
        axis.tick_params(axis="y", length=0)
        axis.grid(axis="x", alpha=0.25)
    axes[-1, 0].set(xlabel="accuracy, % (95 % interval)", xlim=(0, min(100, top + 3)))
    handles = [
        Line2D([], [], marker="o", linestyle="", color=_SPLIT_COLOURS[split], markersize=5, label=split)
        for split in splits
    ]
    handles.append(
        Line2D(
            [], [], marker="o", linestyle="", color=_GREY, markerfacecolor="white", markersize=5, label="transductive"
        )
    )
    if card["other"]:
        label = _shown(card["other"]["title"])
        handles.append(
            Line2D([], [], marker="D", linestyle="", color=_INK, markerfacecolor="white", markersize=5, label=label)
        )
    handles.append(Line2D([], [], color=_INK, linestyle=":", label="chance"))
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False)
    return figure


def _rule_groups(card: Row, task: str) -> dict[str, list[tuple[str, bool, Row]]]:
    """Rule -> (split, whether of the set itself, row); a rule that counts in train comes before its other reading."""
    found: dict[str, list[tuple[str, bool, Row]]] = {}
    for own, measured in ((True, card["set"]), (False, card["other"])):
        for split, tasks in measured["biases"].items() if measured else ():
            for row in tasks.get(task, ()):
                if row["rule"] in SHORT_RULES:  # positions have a figure of their own
                    found.setdefault(SHORT_RULES[row["rule"]], []).append((split, own, row))
    return {name: found[name] for name in SHORT_RULES.values() if name in found}


# ---- wrong choices ---------------------------------------------------------------------------------------------------


def _draw_wrong_choices(card: Row) -> Any:
    """Most used wrong titles, how often wrong choices are used, and distances of wrong orders, of the largest split."""
    from matplotlib import pyplot as plt
    from matplotlib.patches import Patch

    sets = [(label, colour, _largest_split(found)) for label, colour, found in _sets(card)]
    panels: list[tuple[Any, Any]] = []
    if "textual_cloze" in sets[0][2]:
        panels.append((_draw_hubs, sets[0]))
    if any("hubs" in row for *_, own in sets for row in own.values()):
        panels.append((_draw_uses, sets))
    if any("visual_ordering" in own for *_, own in sets):
        panels.append((_draw_orders, [found for found in sets if "visual_ordering" in found[2]]))
    figure, axes = plt.subplots(
        1, len(panels), figsize=(1 + 4.2 * len(panels), 4.4), layout="constrained", squeeze=False
    )
    for axis, (function, found) in zip(axes[0], panels, strict=True):
        function(axis, found)
    if len(sets) > 1:
        handles = [Patch(color=colour, label=label) for label, colour, _ in sets]
        figure.legend(handles=handles, loc="outside lower center", ncols=2, frameon=False)
    return figure


def _largest_split(found: Row) -> Row:
    return max(found["questions"].values(), key=lambda own: sum(row["n"] for row in own.values()))


def _draw_hubs(axis: Any, found: tuple[str, str, Row]) -> None:
    label, colour, own = found
    most = own["textual_cloze"]["hubs"]["most"]
    names = [f"“{_shown(text, 26)}”" if text else "(empty)" for text, *_ in most]
    wrong, right = [n for _, n, _ in most], [n for *_, n in most]
    places = range(len(names))
    axis.barh(places, wrong, color=colour, height=0.72, label="wrong")
    axis.plot(right, places, "D", color="white", markeredgecolor=_INK, markersize=5, label="right", clip_on=False)
    axis.set_yticks(places, names)
    title = "most used wrong texts" + (f" of {label}" if label else "")
    axis.set(title=title, xlabel="times offered", ylim=(len(names) - 0.4, -0.6), xlim=(0, 1.1 * max(*wrong, *right, 1)))
    axis.xaxis.get_major_locator().set_params(integer=True)
    axis.tick_params(axis="y", length=0)
    axis.grid(axis="x", alpha=0.25)
    axis.legend(frameon=False, loc="lower right")


def _draw_uses(axis: Any, found: Sequence[tuple[str, str, Row]]) -> None:
    """Share of the wrong choices whose content is offered at least so often in the split."""
    from matplotlib.lines import Line2D

    styles: dict[str, Any] = {"textual_cloze": "-", "visual_cloze": "--", "visual_coherence": ":"}
    highest = 2
    for _, colour, own in found:
        for task, style in styles.items():
            if task not in own:
                continue
            left = offered = own[task]["hubs"]["offered"]
            x, y = [1], [100.0]
            for times, contents in own[task]["hubs"]["times"]:
                x.append(times)
                y.append(100 * left / offered)
                left -= times * contents
            axis.step([*x, x[-1]], [*y, 0.0], style, where="pre", color=colour, linewidth=1.6)
            highest = max(highest, x[-1])
    title, label = "how often wrong choices are offered", "% of the wrong choices"
    axis.set(title=title, xlabel="so many times or more", ylabel=label, ylim=(0, 104), xscale="log")
    axis.set_xlim(0.93, 1.2 * highest)
    ticks = [digit * 10**power for power in range(6) for digit in (1, 2, 5) if digit * 10**power <= 1.2 * highest]
    axis.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    axis.set_xticks([], minor=True)
    axis.grid(alpha=0.25)
    shown = [task for task in styles if any(task in own for *_, own in found)]
    handles = [Line2D([], [], color="0.35", linestyle=styles[task], label=_name(task)) for task in shown]
    axis.legend(handles=handles, frameon=False, loc="upper right")


def _draw_orders(axis: Any, found: Sequence[tuple[str, str, Row]]) -> None:
    width = 0.8 / len(found)
    for i, (_, colour, own) in enumerate(found):
        kendall = own["visual_ordering"]["orders"]["kendall"]
        places = [distance + (i - (len(found) - 1) / 2) * width for distance in range(1, 7)]
        axis.bar(places, [100 * n / max(sum(kendall), 1) for n in kendall], width=0.92 * width, color=colour)
    expected = [100 * n / sum(ORDERS_AT_DISTANCE) for n in ORDERS_AT_DISTANCE]
    axis.plot(range(1, 7), expected, "D", color="white", markeredgecolor=_INK, markersize=6, label="uniform orders")
    axis.set(title="wrong orders", xlabel="Kendall distance to the right order", ylabel="% of the wrong orders")
    axis.margins(y=0.18)
    axis.set_ylim(bottom=0)
    axis.grid(axis="y", alpha=0.25)
    axis.legend(frameon=False, loc="upper right")
