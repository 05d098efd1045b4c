"""Figures of folds put together: accuracy of every system, differences of settings, accuracy by kind of question."""

from pathlib import Path
from typing import Any

from data.files import atomic_file
from engine.results_figures import BASELINE, OWN, PUBLISHED, _interval, _names, _short

CHANCE = 25.0
_GREEN = "#4c956c"


def draw_systems(path: Path, section: dict[str, Any]) -> None:
    """Left: accuracy with 95 % intervals by system, seeds as dots. Right: differences to the first setting."""
    plt = _pyplot()
    legal = [row for row in section["baselines"] if row["interval"] and row["note"] != "transductive"]
    kinds = [(section["systems"], "o", OWN), (legal, "s", BASELINE), (section["published"], "D", PUBLISHED)]
    changed = [row for row in section["systems"] if row["difference"] is not None]
    rows = sum(len(part) for part, _, _ in kinds)
    height = 1.1 + 0.25 * max(rows, len(changed))
    if changed:
        figure, (left, right) = plt.subplots(1, 2, figsize=(13, height), layout="constrained")
    else:
        figure, left = plt.subplots(figsize=(7.5, height), layout="constrained")
        right = None
    names: list[str] = []
    for part, marker, colour in kinds:
        for row in part:
            y = len(names)
            _interval(left, y, row["interval"], colour)
            face = "white" if part is section["published"] else colour
            left.plot(row["accuracy"] * 100, y, marker, ms=5.5, color=colour, mfc=face, zorder=3)
            if len(row.get("of_seeds", ())) > 1:
                left.plot(
                    [100 * value for value in row["of_seeds"]],
                    [y + 0.33] * len(row["of_seeds"]),
                    "o",
                    ms=2.5,
                    color=colour,
                )
            names.append(_short(row["system"]))
    left.axvline(CHANCE, color="0.5", linestyle="--", linewidth=1, zorder=0)
    _names(left, names)
    left.set(xlabel="accuracy, % (95 % interval)", xlim=(0, 100))
    marks = [
        ("o", OWN, "setting, mean of its seeds"),
        ("s", BASELINE, "baseline"),
        ("D", "white", "published, other questions"),
    ]
    for marker, face, text in marks:
        left.plot([], [], marker, ms=5.5, color=PUBLISHED if face == "white" else face, mfc=face, label=text)
    left.plot([], [], "o", ms=2.5, color=OWN, label="one seed")
    if right is not None:
        for y, row in enumerate(changed):
            _interval(right, y, row["difference_interval"], OWN)
            right.plot(row["difference"] * 100, y, "o", ms=5.5, color=OWN, mfc=OWN if row["holm_p"] < 0.05 else "white")
        right.axvline(0, color="0.5", linestyle="--", linewidth=1, zorder=0)
        _names(right, [_within(row["system"], section["systems"][0]["system"]) for row in changed])
        right.set_ylim(left.get_ylim())  # lines as far apart as on the left
        right.set_xlabel("difference to the first, points (95 % interval)")
        left.plot([], [], "o", ms=5.5, color=OWN, mfc="white", label="right: p ≥ 0.05 after Holm")
    figure.legend(loc="outside lower center", ncols=5, frameon=False, fontsize=8)
    _save(figure, path)


def _within(name: str, first: str) -> str:
    """What differs from the first setting; the whole name where the system is another."""
    system, _, changes = name.partition(" (")
    return _short(changes.removesuffix(")") if changes and system == first.partition(" (")[0] else name)


def draw_kinds(path: Path, section: dict[str, Any]) -> None:
    """Accuracy with 95 % intervals by kind of question, of the first setting and what stands beside it."""
    plt = _pyplot()
    rows = section["kinds"]
    figure, axis = plt.subplots(figsize=(8.5, 1.2 + 0.36 * len(rows)), layout="constrained")
    systems = [found["system"] for found in rows[0]["systems"]]
    for place, (system, colour) in enumerate(zip(systems, (OWN, PUBLISHED, _GREEN), strict=False)):
        shift = 0.24 * (place - (len(systems) - 1) / 2)
        for y, row in enumerate(rows):
            found = row["systems"][place]
            _interval(axis, y + shift, found["interval"], colour, alpha=0.7)
            axis.plot(found["accuracy"] * 100, y + shift, "o", ms=4.5, color=colour)
        axis.plot([], [], "o", color=colour, label=_short(system))
    axis.axvline(CHANCE, color="0.5", linestyle="--", linewidth=1, zorder=0)
    _names(axis, [f"{row['parting']}: {row['kind']} (n = {row['n']})" for row in rows])
    for y in range(1, len(rows)):
        if rows[y]["parting"] != rows[y - 1]["parting"]:
            axis.axhline(y - 0.5, color="0.85", linewidth=0.8)
    axis.set(xlabel="accuracy, % (95 % interval)", xlim=(0, 100))
    figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=8)
    _save(figure, path)


def _pyplot() -> Any:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    return plt


def _save(figure: Any, path: Path) -> None:
    with atomic_file(path) as partial:
        figure.savefig(partial, dpi=110, format="png")
    _pyplot().close(figure)
