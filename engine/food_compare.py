"""Two runs on the same food questions, compared question by question."""

import json
import math
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from data.errors import InputError
from models.metrics import paired_permutation

LARGEST = 1 << 30  # bytes of a file of predictions
ROUNDS = 10_000
Row = dict[str, Any]


def compare_runs(folder_a: Path | str, folder_b: Path | str, seed: int = 0) -> Row:
    """Compare two run folders on the rows and prompts that both have, in the file's own order of options.

    For each prompt: McNemar's exact test (where every credit is 0 or 1), the paired permutation test over clusters, and
    the difference with a bootstrap interval over clusters. `pooled` does the same with the credits of a question
    averaged over the common prompts; a question counts there only if both runs have all of them.

    Returns:
        a, b (name, folder, data), task, language, n, prompts, pooled, settings (those that differ: [a, b]), notes.

    Raises:
        InputError: a folder without predictions, a damaged file, or runs that cannot be compared: another task,
            language or data, no common prompt or question.
    """
    runs = [read_food_predictions(Path(folder)) for folder in (folder_a, folder_b)]
    a, b = runs
    for key, word in (("task", "task"), ("language", "language")):
        if a[key] != b[key]:
            raise InputError(
                f"{b['path']}: {word} {b[key]}, and {a['path']} has {a[key]}; compare two runs of the same {word}"
            )
    shared = sorted(a["hashes"].keys() & b["hashes"].keys())
    other = [row for row in shared if a["hashes"][row] != b["hashes"][row]]
    if other:
        raise InputError(
            f"{b['path']}: row {other[0]} is another question than in {a['path']} ({len(other)} of {len(shared)} "
            "differ); compare runs on the same data"
        )
    prompts = _common_prompts(a, b)
    notes = []
    rows = []
    for name, (in_a, in_b) in prompts.items():
        both = sorted(a["credit"][in_a].keys() & b["credit"][in_b].keys())
        if not both:
            continue
        left = len(a["credit"][in_a].keys() | b["credit"][in_b].keys()) - len(both)
        if left:
            notes.append(f"{name}: {left} questions that only one run answered are left out")
        one, two = (np.asarray([run["credit"][p][row] for row in both]) for run, p in ((a, in_a), (b, in_b)))
        rows.append({"prompt": name, **_paired(one, two, [a["clusters"][row] for row in both], seed)})
    if not rows:
        raise InputError(f"{b['path']}: no question in common with {a['path']}; compare runs on the same data")
    used = [prompts[row["prompt"]] for row in rows]
    whole = [row for row in shared if all(row in a["credit"][in_a] and row in b["credit"][in_b] for in_a, in_b in used)]
    pooled = None
    if len(rows) > 1 and whole:
        one, two = (
            np.asarray([np.mean([run["credit"][pair[side]][row] for pair in used]) for row in whole])
            for side, run in enumerate(runs)
        )
        pooled = _paired(one, two, [a["clusters"][row] for row in whole], seed)
    apart = {
        key: [a["settings"].get(key), b["settings"].get(key)]
        for key in sorted(a["settings"].keys() | b["settings"].keys())
        if a["settings"].get(key) != b["settings"].get(key) and key != "system"
    }
    return {
        "a": {"name": a["name"], "folder": str(folder_a), "data": a["data"]},
        "b": {"name": b["name"], "folder": str(folder_b), "data": b["data"]},
        "task": a["task"],
        "language": a["language"],
        "n": len(shared),
        "prompts": rows,
        "pooled": pooled,
        "settings": apart,
        "notes": notes,
    }


def render_comparison(found: Row) -> str:
    """The comparison as Markdown: a table and one sentence."""
    a, b = _names(found)
    columns = ["prompt", "n", f"{a} %", f"{b} %", "difference", "95 % interval", "only a right", "only b right"]
    columns += ["McNemar p", "permutation p"]
    lines = [f"# {a} (a) against {b} (b)", "", "| " + " | ".join(columns) + " |", "|---|" + "--:|" * (len(columns) - 1)]
    rows = [*found["prompts"], *([{"prompt": "mean of the prompts", **found["pooled"]}] if found["pooled"] else [])]
    for row in rows:
        cells = [row["prompt"], str(row["n"]), f"{row['a'] * 100:.2f}", f"{row['b'] * 100:.2f}"]
        cells.append(f"{row['difference'] * 100:+.2f}")
        cells.append(f"{row['interval'][0] * 100:+.1f} to {row['interval'][1] * 100:+.1f}")
        cells += ["–" if row[key] is None else str(row[key]) for key in ("only_a", "only_b")]
        cells += ["–" if row["mcnemar_p"] is None else f"{row['mcnemar_p']:.3g}", f"{row['permutation_p']:.3g}"]
        lines.append("| " + " | ".join(cells) + " |")
    lines += ["", verdict_line(found), ""]
    lines += [f"- {name}: {x} (a), {y} (b)" for name, (x, y) in found["settings"].items()]
    lines += [f"- note: {note}" for note in found["notes"]]
    return "\n".join(lines).rstrip() + "\n"


def verdict_line(found: Row) -> str:
    """What the comparison allows to say, in one sentence."""
    row = found["pooled"] or found["prompts"][0]
    a, b = _names(found)
    k = len(found["prompts"])
    over = f"mean of {k} prompts" if found["pooled"] else f"prompt {found['prompts'][0]['prompt']}"
    low, high = row["interval"]
    shown = (
        f"{row['difference'] * 100:+.1f} points ({low * 100:+.1f} to {high * 100:+.1f}), p = "
        f"{row['permutation_p']:.3g}, {row['n']} questions, {over}"
    )
    if row["permutation_p"] >= 0.05:
        return f"{a} and {b}: {shown}: no difference that these questions could show"
    return f"{a} {'beats' if row['difference'] > 0 else 'loses to'} {b}: {shown}"


def mcnemar_exact(only_a: int, only_b: int) -> float:
    """Two-sided exact p-value of McNemar's test (1947): binomial on the questions that exactly one system has right."""
    n, k = only_a + only_b, min(only_a, only_b)
    return min(1.0, 2 * sum(math.comb(n, i) for i in range(k + 1)) / 2**n)


def cluster_bootstrap(
    difference: np.ndarray, clusters: np.ndarray | list, seed: int = 0, rounds: int = ROUNDS
) -> tuple[float, float]:
    """95 % percentile interval of the mean of some differences (N,), drawing whole clusters with replacement."""
    labels, member = np.unique(np.asarray(clusters), return_inverse=True)
    total = np.bincount(member, weights=difference, minlength=len(labels))
    size = np.bincount(member, minlength=len(labels)).astype(float)
    rng = np.random.default_rng(seed)
    means = []
    for start in range(0, rounds, 1000):
        count = min(1000, rounds - start)
        weight = rng.multinomial(len(labels), np.full(len(labels), 1 / len(labels)), size=count).astype(float)
        means.append((weight @ total) / (weight @ size))
    low, high = np.percentile(np.concatenate(means), [2.5, 97.5])
    return float(low), float(high)


def _paired(a: np.ndarray, b: np.ndarray, clusters: list[str], seed: int) -> Row:
    whole = bool(np.isin(a, (0, 1)).all() and np.isin(b, (0, 1)).all())
    only_a, only_b = (int((x > y).sum()) if whole else None for x, y in ((a, b), (b, a)))
    return {
        "n": len(a),
        "clusters": len(set(clusters)),
        "a": float(a.mean()),
        "b": float(b.mean()),
        "difference": float((a - b).mean()),
        "interval": list(cluster_bootstrap(a - b, clusters, seed)),
        "only_a": only_a,
        "only_b": only_b,
        "mcnemar_p": mcnemar_exact(only_a, only_b) if only_a is not None and only_b is not None else None,
        "permutation_p": paired_permutation(a, b, clusters, seed=seed, rounds=ROUNDS),
    }


def _names(found: Row) -> tuple[str, str]:
    """Names of the runs; two of one name are told apart by their folders."""
    a, b = found["a"]["name"], found["b"]["name"]
    if a == b:
        a, b = (f"{run['name']} ({Path(run['folder']).name})" for run in (found["a"], found["b"]))
    return a, b


def _common_prompts(a: Row, b: Row) -> dict[str, tuple[str, str]]:
    """Prompts of both runs. A system that reads no prompt is compared with every prompt of the other."""
    both = [prompt for prompt in a["credit"] if prompt in b["credit"]]
    if both:
        return {prompt: (prompt, prompt) for prompt in both}
    for mine, other, side in ((a, b, 0), (b, a, 1)):
        if list(mine["credit"]) == ["none"]:
            return {prompt: ("none", prompt) if side == 0 else (prompt, "none") for prompt in other["credit"]}
    raise InputError(
        f"{b['path']}: has prompts {', '.join(b['credit'])}, and {a['path']} has {', '.join(a['credit'])}; no prompt "
        "in common: give both runs the same prompts.variant"
    )


def read_food_predictions(folder: Path) -> Row:
    """Predictions of a run folder in the file's own order of options, and what metrics.json says about the run.

    Returns:
        path, task, language, name, data, settings; credit (prompt -> row -> credit), hashes and clusters (by row).

    Raises:
        InputError: predictions that are absent or damaged.
    """
    path = folder / "predictions.jsonl"
    if not path.is_file():
        raise InputError(f"{path}: is absent; give the run folder of an evaluation on food questions")
    if path.stat().st_size > LARGEST:
        raise InputError(f"{path}: has more than {LARGEST >> 30} GiB; it is no file of predictions")
    credit: dict[str, dict[int, float]] = defaultdict(dict)
    hashes: dict[int, str] = {}
    clusters: dict[int, str] = {}
    kinds: set[tuple[str, str]] = set()
    order: dict[str, int] = {}
    with open(path, encoding="utf-8") as file:
        try:
            for number, line in enumerate(file, 1):
                try:
                    row = json.loads(line)
                    prompt, place, value = str(row["prompt"]), int(row["row"]), float(row["credit"])
                    if not 0 <= value <= 1:
                        raise ValueError(f"credit {value}")
                    kinds.add((str(row["task"]), str(row["language"])))
                    hashes[place], clusters[place] = str(row["record_hash"]), str(row["cluster"])
                    own, order[prompt] = list(row["order"]) == [0, 1, 2, 3], int(row["index"])
                except (ValueError, KeyError, TypeError, RecursionError) as error:
                    raise InputError(
                        f"{path}: line {number} is no prediction on a food question ({error!r}); "
                        "run the evaluation again"
                    ) from None
                if own:
                    credit[prompt][place] = value
        except UnicodeDecodeError as error:
            raise InputError(f"{path}: is no text in UTF-8 ({error}); run the evaluation again") from None
    if len(kinds) != 1 or not credit:
        raise InputError(
            f"{path}: holds {len(kinds) or 'no'} tasks or languages, one is needed; run the evaluation again"
        )
    (task, language) = next(iter(kinds))
    about = _about(folder)
    return {
        "path": path,
        "task": task,
        "language": language,
        "name": str(about.get("model") or folder.name),
        "data": str(about.get("data", "")),
        "settings": about.get("settings") if isinstance(about.get("settings"), dict) else {},
        "credit": {prompt: credit[prompt] for prompt in sorted(credit, key=lambda p: (order[p], p))},
        "hashes": hashes,
        "clusters": clusters,
    }


def _about(folder: Path) -> Row:
    """metrics.json, or nothing where it is absent; the predictions alone can be compared."""
    path = folder / "metrics.json"
    if not path.is_file():
        return {}
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: cannot be read ({error}); run the evaluation again") from None
    return found if isinstance(found, dict) else {}
