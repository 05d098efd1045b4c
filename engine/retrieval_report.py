"""What a retrieval run says at its end: both directions beside chance, baselines and the papers."""

import csv
import hashlib
import json
import math
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from data.errors import InputError
from data.files import atomic_file
from engine.console import folder_name, make_console, say
from engine.embeddings import read_embeddings
from engine.runfolder import write_json
from engine.trackers import log_results
from models.metrics import paired_permutation
from models.ranks import DIRECTIONS, KS, SEED, is_official, official_split, pool_name, retrieval_scores

KEYS = ("medR", *(f"R{k}" for k in KS))
SIZES = (1000, 10_000)  # of the official protocol
_ARROWS = {"image_to_recipe": "image → recipe", "recipe_to_image": "recipe → image"}
_COLOURS = ("#1b6ca8", "#e07b39", "#4c956c", "#8d5a97")
Result = dict[str, Any]


@lru_cache(maxsize=1)
def _published() -> dict[str, Any]:
    from omegaconf import OmegaConf

    path = Path(__file__).resolve().parents[1] / "conf" / "published" / "recipe1m.yaml"
    return OmegaConf.to_container(OmegaConf.load(path))  # type: ignore[return-value]


def published_retrieval_rows(setting: str, direction: str) -> list[dict[str, Any]]:
    """Published results on the Recipe1M test pairs: dicts of system, year, medR, R1, R5, R10 (per cent), source, ...

    Values that a paper does not give are None. `confirmed` is False where no primary text was found, and such a row is
    no fact to compare with. `medR_base` is 0 where the ranks behind medR count from 0.

    Args:
        setting: `1k` or `10k`.
        direction: `image_to_recipe` or `recipe_to_image`.

    Raises:
        InputError: another setting or direction.
    """
    published = _published()
    if setting not in published or direction not in DIRECTIONS:
        raise InputError(
            f"no published results for {setting} {direction}; choose {' or '.join(published)} and "
            f"{' or '.join(DIRECTIONS)}"
        )
    return [{"medR_base": 1, "note": "", **row} for row in published[setting][direction]]


def publish_retrieval(
    folder: Path,
    result: Result,
    *,
    system: str,
    data_name: str,
    split: str,
    official: bool,
    baselines: Sequence[dict[str, Any]] = (),
    notes: Sequence[str] = (),
    loggers: Sequence[Any] = (),
    console: Console | None = None,
    step: int = 0,
) -> dict[str, Any]:
    """Print, write `metrics.json`, `results.md`, `ranks.csv`, `draws.json`, `ranks.png` and log to the trackers.

    Args:
        folder: run folder.
        result: of `models.ranks.retrieval_scores`.
        system: name of what was scored.
        data_name: and of the data.
        split: and of the split.
        official: whether the pairs are the official test pairs of Recipe1M; only then are published rows shown.
        baselines: other systems on the same pairs, dicts of system, note and result.
        notes: sentences that readers of the numbers should know.
        loggers: Lightning loggers.
        console: where the tables go.
        step: optimizer step, for the trackers' axis.

    Returns:
        What `metrics.json` holds. R1, R5, R10 and tied are shares. `image_to_recipe/medR` and so on are those of
        `pool`, the smallest drawn pool (1k in the official protocol) or all pairs; every pool has its own beneath
        `pools`.
    """
    console = console or make_console()
    headline = next(iter(result["pools"]))
    notes = [*notes, *result["notes"]]
    metrics: dict[str, Any] = {"data": data_name, "model": system, "split": split, "n": result["n"], "pool": headline}
    metrics |= {"ties": result["ties"], "official": official, "mean_cosine": result["mean_cosine"], "notes": notes}
    metrics |= _flat(result["pools"][headline])
    tracked = {f"{split}/{key}": value for key, value in _flat(result["pools"][headline]).items()}
    tracked[f"{split}/n"] = float(result["n"])
    title = f"{system}: {data_name}, {split}, {result['n']:,} pairs"
    console.print()
    console.print(_own_table(title, result))
    markdown = [f"# {system} on {data_name}, {split}", "", *_own_markdown(result), ""]
    metrics["pools"] = {}
    footnotes: dict[str, str] = {}
    for name, pool in result["pools"].items():
        metrics["pools"][name] = {**_flat(pool), **pool}
        tracked |= {f"{split}/{name}/{key}": value for key, value in _flat(pool).items()}
        published = _published_rows(name) if official and name != "all" else []
        others = _baseline_rows(name, baselines)
        if not published and not others:
            continue
        table = [_row(system, "this run", pool), _chance_row(pool), *others, *published]
        metrics["pools"][name]["table"] = table
        title = f"{_pool_title(name, pool)}: i→r the image is the query, r→i the recipe; R@K in per cent"
        console.print()
        console.print(_comparison_table(title, table))
        markdown += [f"## {_pool_title(name, pool)}", "", *_comparison_markdown(table), ""]
        footnotes |= {row["system"]: row["remark"] for row in table if row.get("remark")}
    verdict = [*_verdict(system, result), *_against(system, result, baselines)]
    metrics["verdict"] = verdict
    for line in verdict:
        say(console, line)
    for note in notes:
        say(console, f"note: {note}")
    markdown += [*(f"- {line}" for line in verdict), *(f"- note: {note}" for note in notes)]
    if footnotes:
        markdown += ["", "Remarks on published rows:", "", *(f"- {name}: {text}" for name, text in footnotes.items())]
    write_json(folder / "metrics.json", metrics)
    with atomic_file(folder / "results.md") as partial:
        partial.write_text("\n".join(markdown) + "\n", encoding="utf-8")
    written = ["metrics.json", "results.md", _write_ranks(folder, result), _write_draws(folder, result)]
    written.append(plot_ranks(folder, result, system))
    log_results(
        loggers, tracked, step, {f"{split}/ranks": folder / "ranks.png"}, {f"{split}/ranks_table": folder / "ranks.csv"}
    )
    say(console, f"wrote {' '.join(name for name in written if name)} into {folder_name(folder)}")
    return metrics


def score_embeddings(
    path: Path,
    folder: Path,
    *,
    ties: str = "mid",
    sizes: Sequence[int] | str | None = None,
    seed: int = SEED,
    system: str | None = None,
    loggers: Sequence[Any] = (),
    console: Console | None = None,
    step: int = 0,
) -> dict[str, Any]:
    """Score embeddings that were made anywhere by the official protocol; see `engine.embeddings` for the file.

    Whether they are of an official list of Recipe1M is seen from their ids, not from the file's name.

    Args:
        path: `.npz` file or folder.
        folder: where the results go.
        ties: see `models.ranks.ranks`.
        sizes: pool sizes, `all` for one pool of all pairs; None for the official sizes, as far as there are pairs.
        seed: of the draws.
        system: name for the table, else the `model` of the file's notes, else the file's name.
        loggers: as for `publish_retrieval`, as are `console` and `step`.

    Raises:
        InputError: a file that is no such file, or vectors that cannot be scored.
    """
    path = Path(path)
    stored = read_embeddings(path)
    n, notes = len(stored.ids), []
    if sizes is None:
        sizes = [size for size in SIZES if size <= n]
        for size in SIZES:
            if size > n:
                notes.append(f"pools of {size:,} are left out: there are {n:,} pairs")
    official = official_split(stored.ids)
    meta = {key: value for key, value in stored.meta.items() if isinstance(value, str)}
    if official is None:
        notes.append(
            "published results are left out: they are about the 51,304 official test pairs, and these are others"
        )
    elif official != "test":
        notes.append(f"these are the official {official} pairs; published results are about the test pairs")
    result = retrieval_scores(
        stored.image, stored.recipe, stored.ids, sizes=sizes, seed=seed, ties=ties, origin=str(path)
    )
    return publish_retrieval(
        folder,
        result,
        system=system or meta.get("model") or path.stem,
        data_name="recipe1m" if official else meta.get("data") or path.name,
        split=official or meta.get("split") or "all",
        official=is_official(stored.ids),
        notes=notes,
        loggers=loggers,
        console=console,
        step=step,
    )


def _flat(pool: Result) -> dict[str, float]:
    """`image_to_recipe/medR` and so on, means over pools; keys that every tracker accepts."""
    values = {f"{d}/{key}": pool[d][key]["mean"] for d in DIRECTIONS for key in (*KEYS, "MRR")}
    return values | {"tied": pool["tied"]}


def _pool_title(name: str, pool: Result) -> str:
    if name == "all":
        return f"one pool of all {pool['size']:,}"
    return f"{pool['subsets']} pools of {pool['size']:,}"


# -------------------------------------------------------------------------------------------------------- sentences


def _verdict(system: str, result: Result) -> list[str]:
    """What the numbers allow to say, in sentences.

    Chance is excluded by the mean rank, whose distribution under random pairing is known for any number of pairs: each
    rank is even on 1..N, and the ranks of one pool are at most as spread as independent ones. Fewer than five pairs can
    come out perfect by accident more often than in one case of forty.
    """
    lines = []
    for name, pool in result["pools"].items():
        guess, size = pool["chance"]["medR"], pool["size"]
        queries = len(np.unique(result["draws"][name]))
        deviation = math.sqrt((size**2 - 1) / 12 / queries)  # of the mean rank
        said: dict[str, list[str]] = {}
        for direction in DIRECTIONS:
            found = pool[direction]["medR"]
            low, high = found["interval"] or (found["mean"], found["mean"])
            away = (float(result["ranks"][name][direction].mean()) - guess) / deviation if queries >= 5 else 0.0
            if away < -1.96:
                word = "beats chance"
            elif away > 1.96:
                word = "is worse than chance (are the rows of both matrices paired?)"
            else:
                word = "ranks like random, not distinguishable from chance"
            p = math.erfc(abs(away) / math.sqrt(2))
            text = f"{_ARROWS[direction]} medR {found['mean']:.1f} ({low:.1f} to {high:.1f}; mean rank p = {p:.2g})"
            said.setdefault(word, []).append(text)
        for word, texts in said.items():
            lines.append(f"{_pool_title(name, pool)}: {system} {word}: {', '.join(texts)} against {guess:.1f}")
        lines += [f"{_pool_title(name, pool)}: impossible numbers: {line}" for line in pool["inconsistencies"][:3]]
        if pool["tied"] > 0.01:
            lines.append(
                f"{_pool_title(name, pool)}: {pool['tied']:.1%} of the queries are tied with other candidates; "
                f"ties={result['ties']} decides their ranks"
            )
    for side, value in result["mean_cosine"].items():
        if value is not None and value > 0.99:
            lines.append(f"collapsed: two different {side} embeddings have a mean cosine of {value:.4f}")
    return lines


def _against(system: str, result: Result, baselines: Sequence[dict[str, Any]]) -> list[str]:
    """Paired comparisons, query by query in the first pool, mean reciprocal ranks of both directions."""
    name = next(iter(result["pools"]))
    lines = []
    for row in baselines:
        other = row["result"]
        if name not in other["pools"] or not np.array_equal(other["ids"], result["ids"]):
            continue
        if not np.array_equal(other["draws"][name], result["draws"][name]):
            continue
        a, b = (np.mean([(1 / r["ranks"][name][d]).ravel() for d in DIRECTIONS], axis=0) for r in (result, other))
        p = paired_permutation(a, b, result["draws"][name].ravel(), seed=result["seed"], rounds=2000)
        against = f"{row['system']}: mean reciprocal rank {a.mean():.3f} against {b.mean():.3f}, p = {p:.3g}"
        if p >= 0.05:
            lines.append(f"{system} and {against}: no difference that these pairs could show")
        else:
            lines.append(f"{system} {'beats' if a.mean() > b.mean() else 'loses to'} {against}")
    return lines


# ----------------------------------------------------------------------------------------------------------- tables


def _row(system: str, kind: str, pool: Result, note: str = "") -> dict[str, Any]:
    values = {f"{d}/{key}": pool[d][key]["mean"] for d in DIRECTIONS for key in KEYS}
    return {"system": system, "kind": kind, "note": note, **values}


def _chance_row(pool: Result) -> dict[str, Any]:
    values = {f"{d}/{key}": pool["chance"][key] for d in DIRECTIONS for key in KEYS}
    return {"system": "chance", "kind": "baseline", "note": "", **values}


def _baseline_rows(name: str, baselines: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        _row(row["system"], "baseline", row["result"]["pools"][name], row.get("note", ""))
        for row in baselines
        if name in row["result"]["pools"]
    ]


def _published_rows(name: str) -> list[dict[str, Any]]:
    """One row for each system, both directions side by side; none for pool sizes that papers do not use."""
    if name not in map(pool_name, SIZES):
        return []
    rows: dict[str, dict[str, Any]] = {}
    for direction in DIRECTIONS:
        for found in published_retrieval_rows(name, direction):
            system = found["system"] + (f", {found['year']}" if found["year"] else "")
            notes = [] if found["confirmed"] else ["unconfirmed"]
            notes += ["ranks from 0"] if found["medR_base"] == 0 else []
            row = rows.setdefault(
                system,
                {
                    "system": system,
                    "kind": "published",
                    "note": ", ".join(notes),
                    "confirmed": found["confirmed"],
                    "medR_base": found["medR_base"],
                    "remark": found["note"],
                    "source": found["source"],
                    **{f"{d}/{key}": None for d in DIRECTIONS for key in KEYS},
                },
            )
            for key in KEYS:
                value = found[key]
                row[f"{direction}/{key}"] = value if value is None or key == "medR" else value / 100
    return list(rows.values())


def _number(key: str, value: float | None) -> str:
    if value is None:
        return "–"
    if key != "medR":
        value *= 100
        if 0 < value < 0.05:
            return f"{value:.1g}"  # chance in a large pool
    return f"{value:.1f}"


def _own_cells(key: str, found: dict[str, Any]) -> tuple[str, str]:
    """Mean with the standard deviation over pools, and the interval."""
    value = _number(key, found["mean"])
    if found["sd"] is not None:
        value += f" ± {_number(key, found['sd'])}"
    interval = "" if found["interval"] is None else "–".join(_number(key, bound) for bound in found["interval"])
    return value, interval


_OWN = ("pools", "query → answer", "medR", *(f"R@{k} %" for k in KS), "tied %")


def _own_rows(result: Result) -> list[list[tuple[str, str]]]:
    """Cells of (value, interval) for every pool and direction, then chance, for each pool."""
    rows = []
    for name, pool in result["pools"].items():
        for direction in DIRECTIONS:
            cells = [(_pool_title(name, pool), ""), (_ARROWS[direction], "95 % interval")]
            cells += [_own_cells(key, pool[direction][key]) for key in KEYS]
            rows.append([*cells, (f"{pool['tied'] * 100:.1f}", "")])
        guess = [(_number(key, pool["chance"][key]), "") for key in KEYS]
        rows.append([(_pool_title(name, pool), ""), ("chance", ""), *guess, ("", "")])
    return rows


def _own_table(title: str, result: Result) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", header_style="bold")
    for name in _OWN:
        table.add_column(name, justify="left" if name in _OWN[:2] else "right", no_wrap=name not in _OWN[:1])
    last = ""
    for cells in _own_rows(result):
        is_chance = cells[1][0] == "chance"
        first = "" if cells[0][0] == last else cells[0][0]
        last = cells[0][0]
        lines = [first, *(f"{value}\n[dim]{interval}[/dim]" if interval else value for value, interval in cells[1:])]
        table.add_row(*lines, style="dim" if is_chance else "bold green", end_section=is_chance)
    return table


def _own_markdown(result: Result) -> list[str]:
    lines = ["| " + " | ".join(_OWN) + " |", "|---|---|--:|--:|--:|--:|--:|"]
    for cells in _own_rows(result):
        texts = [value + (f" ({interval})" if interval and i > 1 else "") for i, (value, interval) in enumerate(cells)]
        lines.append("| " + " | ".join(texts) + " |")
    return [*lines, "", "Mean ± standard deviation over pools (95 % interval of the mean)."]


def _comparison_table(title: str, rows: list[dict[str, Any]]) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", header_style="bold")
    table.add_column("\nsystem", overflow="fold")
    for direction in DIRECTIONS:
        for key in KEYS:
            head = {"image_to_recipe": "i→r", "recipe_to_image": "r→i"}[direction]
            table.add_column(
                f"{head}\n{key.replace('R', 'R@') if key != 'medR' else key}", justify="right", no_wrap=True
            )
    table.add_column("\nnote", overflow="fold")
    styles = {"this run": "bold green", "published": "dim"}
    for i, row in enumerate(rows):
        ends = i + 1 == len(rows) or rows[i + 1]["kind"] != row["kind"]
        cells = [row["system"].replace("_", " "), *_numbers(row), row["note"]]
        table.add_row(*map(escape, cells), style=styles.get(row["kind"], ""), end_section=ends)
    return table


def _comparison_markdown(rows: list[dict[str, Any]]) -> list[str]:
    names = [
        f"{'i→r' if d == DIRECTIONS[0] else 'r→i'} {k if k == 'medR' else k.replace('R', 'R@')}"
        for d in DIRECTIONS
        for k in KEYS
    ]
    lines = ["| system | " + " | ".join(names) + " | note |", "|---|" + "--:|" * len(names) + "---|"]
    return lines + ["| " + " | ".join([row["system"], *_numbers(row), row["note"]]) + " |" for row in rows]


def _numbers(row: dict[str, Any]) -> list[str]:
    return [_number(key, row[f"{d}/{key}"]) for d in DIRECTIONS for key in KEYS]


# ------------------------------------------------------------------------------------------------------------ files


def _write_ranks(folder: Path, result: Result) -> str | None:
    """`ranks.csv`: the rank of every pair's partner among all pairs, in both directions."""
    if "all" not in result["ranks"]:
        return None
    columns = [result["ranks"]["all"][d][0] for d in DIRECTIONS]
    with atomic_file(folder / "ranks.csv") as partial, open(partial, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["id", *DIRECTIONS])
        for name, *rank in zip(result["ids"].tolist(), *columns, strict=True):
            writer.writerow([name, *(f"{r:g}" if r < 1e5 else f"{r:.1f}" for r in rank)])
    return "ranks.csv"


def _write_draws(folder: Path, result: Result) -> str | None:
    """`draws.json`: the rows of every pool; row i is the i-th id in ascending order. One pool a line."""
    drawn = {name: rows for name, rows in result["draws"].items() if name != "all"}
    if not drawn:
        return None
    digest = hashlib.sha256("\n".join(result["ids"].tolist()).encode()).hexdigest()
    parts = []
    for name, rows in drawn.items():
        head = json.dumps(result["pools"][name]["draw"])
        lines = ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows.tolist())
        parts.append(f'"{name}": {{"draw": {head}, "rows": [\n{lines}]}}')
    with atomic_file(folder / "draws.json") as partial:
        partial.write_text(f'{{"ids_sha256": "{digest}",\n' + ",\n".join(parts) + "}\n", encoding="utf-8")
    return "draws.json"


def plot_ranks(folder: Path, result: Result, system: str) -> str:
    """Draw `ranks.png`: recall at every K for each pool size, chance dashed. Returns its name."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt
    from matplotlib.ticker import FuncFormatter, PercentFormatter

    figure, axes = plt.subplots(1, 2, figsize=(10, 4.1), layout="constrained", sharey=True)
    for axis, direction in zip(axes, DIRECTIONS, strict=True):
        for (name, pool), colour in zip(result["pools"].items(), _COLOURS * 9, strict=False):
            size = pool["size"]
            k = np.unique(np.round(np.geomspace(1, size, 200)).astype(int)) if size > 1 else np.array([1])
            ordered = np.sort(result["ranks"][name][direction].ravel())
            recall = np.searchsorted(ordered, k, side="right") / len(ordered)
            marker = "o" if len(k) == 1 else None
            axis.plot(k, recall, color=colour, marker=marker, markersize=3, label=_pool_title(name, pool))
            axis.plot(k, k / size, color=colour, linestyle="--", linewidth=1, alpha=0.6)
        axis.set(xscale="log", xlabel="K", title=_ARROWS[direction], ylim=(0, 1.02))
        axis.set_xlim(left=1)
        axis.xaxis.set_major_formatter(FuncFormatter(lambda k, _: f"{k:,.0f}"))
        axis.yaxis.set_major_formatter(PercentFormatter(1))
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(alpha=0.25)
    axes[0].set_ylabel("partner among the first K")
    axes[0].plot([], [], color="0.5", linestyle="--", linewidth=1, label="chance")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=5, frameon=False)
    figure.suptitle(system.replace("_", " "), fontsize=11)
    with atomic_file(folder / "ranks.png") as partial:
        figure.savefig(partial, dpi=150, format="png")
    plt.close(figure)
    return "ranks.png"
