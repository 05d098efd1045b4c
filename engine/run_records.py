"""Run folders read back for a report. They may come from anyone: nothing in them is executed, resolved or trusted."""

import contextlib
import csv
import glob
import hashlib
import json
import math
import os
import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from data.errors import InputError
from data.records import FOOD_TASKS, TASKS
from engine.food_compare import read_food_predictions
from models.metrics import expected_correct
from models.ranks import DIRECTIONS, KS

SMALL_FILE, LARGE_FILE = 32 << 20, 1 << 30  # bytes: of a metrics.json or a config.yaml, of a file of predictions
CHANGED = "uncommitted changes"
MOST_UNREADABLE = 100_000  # questions that count as wrong
MOST_LEAVES, DEEPEST = 20_000, 30  # of a config: aliases let a small YAML file stand for an enormous one
RANK_KEYS = ("medR", *(f"R{k}" for k in KS))
_PRUNED = {"checkpoints", "wandb", "mlruns", "tensorboard", "reports", "__pycache__"}
_SHARE_TOLERANCE = 1e-6
Row = dict[str, Any]

# What a system is. Where files lie, how fast they are read and what is printed is no part of it.
_SECTIONS = ("data", "text", "features", "reducer", "model", "trainer", "callbacks")
_FOOD_SECTIONS = ("data", "model", "prompts", "asking")
_NO_SETTING = re.compile(
    r"(^|\.)(seed|cache|num_workers|compile)$|^data\.(root|images|lists|name|train_file|val_file|test_file|photos|file)$"
    r"|^callbacks\..*\b(path|dirpath)$|^callbacks\.(progress|history)\."
    r"|^trainer\.(accelerator|devices|enable_progress_bar|enable_model_summary|default_root_dir|num_nodes|strategy|logger)$"
    r"|^asking\.(log|fresh|against)$|^model\.name$|(^|\.)(api_key|base_url|_partial_)$"
)


@dataclass(frozen=True)
class Result:
    """What one run measured on one task.

    Items are what the score is a mean over: qids, rows of food questions, or pairs. `credit` (N,) in [0, 1] belongs to
    `items` in ascending order; of retrieval it is the reciprocal rank of the partner, mean of both directions.
    """

    folder: Path
    kind: str  # choice | food | retrieval
    task: str
    data: str
    split: str
    system: str
    seed: int | None
    settings: Row  # flat; what tells this system from others of its name
    n: int
    value: float | None  # accuracy, a share; None of retrieval
    interval: tuple[float, float] | None
    items: tuple[str, ...] = ()
    credit: np.ndarray = field(default_factory=lambda: np.zeros(0))
    clusters: tuple[str, ...] = ()
    questions: str = ""  # digest of items and their answers; equal for the same questions only
    file: str = ""  # sha256 of the scored file
    official: bool = False  # measured on the very questions of published rows
    prompts: tuple[float, ...] = ()  # food: accuracy of each prompt
    best: float | None = None  # food: of the best prompt, chosen on the scored questions
    pools: Row = field(default_factory=dict)  # retrieval: name -> direction -> key -> {mean, interval}
    others: tuple[Row, ...] = ()  # baselines of the run's own table: system, value, interval, n
    flags: tuple[str, ...] = ()
    modified: float = 0.0


@dataclass
class Found:
    """The runs of some folders, and what was left out, each with one line."""

    results: list[Result] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    unfinished: list[Path] = field(default_factory=list)
    runs: int = 0


class _Unfit(Exception):
    """Why a run cannot be read; one line that names the file."""


def find_runs(places: str | list[str]) -> list[Path]:
    """Run folders below some folders, or named by patterns, each once, in order of their names.

    A run folder holds `metrics.json`, or a `config.yaml` beside which it is still missing. Links below a given folder
    are not followed, so a link to a folder above ends nowhere.

    Raises:
        InputError: a place that does not exist, or no run in any.
    """
    places = [places] if isinstance(places, str) else [str(place) for place in places]
    found: dict[Path, Path] = {}
    for place in places:
        roots = [place] if os.path.lexists(place) else sorted(glob.glob(place, recursive=True))
        if not roots:
            raise InputError(f"runs={place}: no such folder; give a run folder, a folder of runs, or a pattern")
        for root in map(Path, roots):
            start = root.parent if root.name in ("metrics.json", "config.yaml") else root
            for folder in _below(start):
                found.setdefault(folder.resolve(), folder)
    if not found:
        raise InputError(
            f"runs={', '.join(places)}: holds no run (no metrics.json, no config.yaml); train or score one"
        )
    return sorted(found.values())


def _below(start: Path) -> list[Path]:
    folders = []
    for folder, below, files in os.walk(start, followlinks=False):
        below[:] = sorted(name for name in below if name not in _PRUNED and not name.startswith("."))
        if "metrics.json" in files or ("config.yaml" in files and "provenance.json" in files):
            folders.append(Path(folder))
    return folders


def read_runs(folders: list[Path], progress: Any = iter) -> Found:
    """Every run that can be read; the others are named with the reason, and no file stops the rest."""
    found = Found(runs=len(folders))
    for folder in progress(folders):
        if not (folder / "metrics.json").exists():
            last = folder / "checkpoints" / "last.ckpt"
            path = shlex.quote(f"ckpt_path={shown(last)}")  # a folder's name may hold what a shell would run
            remedy = f"go on with `python train.py {path}`"
            found.left_out.append(
                f"{shown(folder)}: unfinished or failed, no metrics.json; "
                + (remedy if last.is_file() else "run its command again")
            )
            found.unfinished.append(folder)
            continue
        try:
            found.results += read_run(folder)
        except _Unfit as error:
            found.left_out.append(str(error))
        except (OSError, ValueError, TypeError, KeyError, AttributeError, IndexError, RecursionError) as error:
            what = f"{type(error).__name__}: {clean(str(error), 120)}"
            found.left_out.append(f"{shown(folder)}/metrics.json: is no record of a run here ({what}); score it again")
    return found


def read_run(folder: Path) -> list[Result]:
    """The results of one run folder, one for each task."""
    metrics = _json(folder / "metrics.json")
    config, flags = _config(folder)
    provenance = _json(folder / "provenance.json") if (folder / "provenance.json").is_file() else {}
    flags += _common_flags(config, metrics, provenance)
    common: Row = {
        "folder": folder,
        "seed": config.get("seed") if type(config.get("seed")) is int else None,
        "system": clean(_text(metrics, "model", folder)),
        "settings": settings_of(config) if config else {"folder": str(folder)},
        "modified": (folder / "metrics.json").stat().st_mtime,
    }
    if isinstance(metrics.get("tasks"), dict):
        return _choice(folder, metrics, config, provenance, common, flags)
    if metrics.get("task") in FOOD_TASKS:
        return [_food(folder, metrics, provenance, common, flags)]
    if isinstance(metrics.get("pools"), dict):
        return [_retrieval(folder, metrics, config, provenance, common, flags)]
    raise _Unfit(f"{shown(folder)}/metrics.json: has neither tasks nor pools; score the run again")


# ---------------------------------------------------------------------------------------------------------- three kinds


def _choice(folder: Path, metrics: Row, config: Row, provenance: Row, common: Row, flags: list[str]) -> list[Result]:
    predictions = _choice_predictions(folder / "predictions.jsonl")
    data, split = clean(_text(metrics, "data", folder)), clean(_text(metrics, "split", folder))
    files = _dict(_dict(_dict(provenance, "data"), "files"), split)
    multimodal = _dict(config, "data").get("modality") == "multimodal"
    results = []
    for task, row in metrics["tasks"].items():
        if task not in TASKS:
            raise _Unfit(f"{shown(folder)}/metrics.json: {clean(str(task), 40)} is no task; score the run again")
        own = list(flags)
        n, accuracy = _count(row["n"], folder), _share(row["accuracy"], folder)
        held = sorted(p for p in predictions if p[1] == task)
        if len(held) > n:
            raise _Unfit(f"{shown(folder)}/predictions.jsonl: {len(held)} predictions for n={n}; score the run again")
        unread = n - len(held) if held else 0  # without a prediction: could not be read, and count as wrong
        if unread > MOST_UNREADABLE:
            raise _Unfit(f"{shown(folder)}/predictions.jsonl: {len(held)} predictions for n={n}; score the run again")
        credit = np.zeros(len(held) + unread)
        items = [p[0] for p in held] + [f"\0unreadable {i}" for i in range(unread)]
        if held:
            scores, answers = np.asarray([p[3] for p in held]), np.asarray([p[2] for p in held])
            credit[: len(held)] = expected_correct(scores, answers).numpy()
        if not held:
            own.append("no predictions.jsonl: not compared with others")
        elif abs(float(credit.mean()) - accuracy) > _SHARE_TOLERANCE:
            raise _Unfit(
                f"{shown(folder)}/predictions.jsonl: gives {credit.mean():.4f} for {task}, metrics.json "
                f"{accuracy:.4f}; one of the two was changed, score the run again"
            )
        clusters = tuple([p[4] or p[0] for p in held] + items[len(held) :]) if items else ()
        if held and not any(p[4] for p in held):
            own.append("recipes unknown: tests take questions as independent")
        rendered = "wikibooks" in str(_dict(config, "data").get("builder", "")).lower() or data.startswith("wikibooks")
        if rendered and (task != "textual_cloze" or multimodal):
            own.append("rendered pictures")
        table = [r for r in row.get("table", []) if isinstance(r, dict)]
        results.append(
            Result(
                kind="choice",
                task=task,
                data=data,
                split=split,
                n=n,
                value=accuracy,
                interval=_interval(row.get("interval")),
                items=tuple(items),
                credit=credit,
                clusters=clusters,
                questions=_digest([[p[0], p[2]] for p in held] + [n]) if held else "",
                file=clean(str(files.get("sha256", ""))),
                official=any(r.get("same_questions") is True for r in table if r.get("kind") == "published"),
                others=tuple(_baselines(table, folder)),
                flags=tuple(own + (["collapsed"] if _number(row.get("collapsed", 0)) > 0.01 else [])),
                **common,
            )
        )
    if not results:
        raise _Unfit(f"{shown(folder)}/metrics.json: holds no task; score the run again")
    return results


def _choice_predictions(path: Path) -> list[tuple[str, str, int, tuple[float, ...], str]]:
    """(qid, task, answer, scores, recipe) of each line; nothing where the file is absent."""
    if not path.is_file():
        return []
    rows, seen = [], set()
    for number, row in _lines(path):
        try:
            scores = tuple(float(value) for value in row["scores"])
            qid, answer = row["qid"], row["answer"]
            if not isinstance(qid, str) or type(answer) is not int or not 0 <= answer < len(scores):
                raise ValueError("qid or answer")
            if any(map(math.isnan, scores)) or qid in seen:
                raise ValueError("a score is NaN" if qid not in seen else "a qid for the second time")
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise _Unfit(
                f"{shown(path)}: line {number} is no prediction ({clean(str(error), 60)}); score again"
            ) from None
        seen.add(qid)
        rows.append((qid, str(row.get("task")), answer, scores, str(row.get("recipe") or "")))
    if len({len(row[3]) for row in rows}) > 1:
        raise _Unfit(f"{shown(path)}: questions differ in their number of scores; score the run again")
    return rows


def _food(folder: Path, metrics: Row, provenance: Row, common: Row, flags: list[str]) -> Result:
    over, settings = _dict(metrics, "over_prompts"), _dict(metrics, "settings")
    prompts = [_share(row["accuracy"], folder) for row in metrics["prompts"] if row["accuracy"] is not None]
    if not prompts:
        raise _Unfit(f"{shown(folder)}/metrics.json: no prompt has an answer; run the evaluation again")
    n, ablation = _count(metrics["n"], folder), clean(str(metrics.get("ablation", "none")))
    if metrics.get("is_demo") is True:
        flags.append("demo set")
    elif settings.get("is_release") is not True:
        flags.append("not the released file")
    if metrics.get("complete") is not True:
        flags.append(f"incomplete: {_number(metrics.get('missing', 0)):g} answers missing")
    if settings.get("extraction") == "first_letter_random":
        flags.append("replies without a letter guessed")
    if settings.get("permutation", "off") != "off":
        flags.append("options rotated too")
    if len(prompts) not in (1, 4) or (len(prompts) == 1 and metrics["prompts"][0].get("prompt") != "none"):
        flags.append(f"{len(prompts)} of 4 prompts")
    items, credit, clusters, questions = [], [], [], ""
    if (folder / "predictions.jsonl").is_file():
        try:
            read = read_food_predictions(folder)
        except InputError as error:
            raise _Unfit(clean(str(error), 300)) from None
        by_row: dict[int, list[float]] = {}
        for found in read["credit"].values():
            for row, value in found.items():
                by_row.setdefault(row, []).append(value)
        for row in sorted(by_row, key=lambda row: read["hashes"][row]):
            items.append(f"{read['hashes'][row]} {row}")
            credit.append(float(np.mean(by_row[row])))
            clusters.append(read["clusters"][row])
        questions = _digest(items)
    else:
        flags.append("no predictions.jsonl: not compared with others")
    same = [row for row in metrics.get("published", []) if isinstance(row, dict) and row.get("same_questions") is True]
    files = [value for value in _dict(provenance, "data").values() if isinstance(value, str)]
    return Result(
        kind="food",
        task=f"{metrics['task']}/{metrics['language']}" + ("" if ablation == "none" else f"/{ablation}"),
        data=clean(_text(metrics, "data", folder)),
        split="test",
        n=n,
        value=float(np.mean(prompts)),
        interval=_interval(over.get("clustered") or over.get("interval")),
        items=tuple(items),
        credit=np.asarray(credit),
        clusters=tuple(clusters),
        questions=questions,
        file=clean(files[0]) if files else "",
        official=bool(same),
        prompts=tuple(prompts),
        best=max(prompts),
        others=tuple(_baselines(metrics.get("baselines", []), folder, kind="baseline")),
        flags=tuple(flags),
        **common,
    )


def _retrieval(folder: Path, metrics: Row, config: Row, provenance: Row, common: Row, flags: list[str]) -> Result:
    pools: Row = {}
    for name, pool in metrics["pools"].items():
        sides: Row = {"size": _count(pool["size"], folder), "subsets": _count(pool["subsets"], folder), "chance": {}}
        for key in RANK_KEYS:
            sides["chance"][key] = _number(_dict(pool, "chance").get(key, math.nan))
        for direction in DIRECTIONS:
            sides[direction] = {}
            for key in RANK_KEYS:
                cell = pool[direction][key]
                value = _number(cell["mean"])
                if not math.isfinite(value) or value < 0 or (key != "medR" and value > 1):
                    raise _Unfit(f"{shown(folder)}/metrics.json: {direction} {key} is {value}; score the run again")
                bounds = cell.get("interval")
                sides[direction][key] = {"mean": value, "interval": [float(b) for b in bounds] if bounds else None}
        pools[clean(str(name))] = sides
    if not pools:
        raise _Unfit(f"{shown(folder)}/metrics.json: holds no pool; score the run again")
    if metrics.get("ties", "mid") != "mid":
        flags.append(f"ties {clean(str(metrics['ties']))}")
    source = _dict(_dict(config, "data"), "source")
    if source.get("rendered") is True or str(metrics.get("data", "")).startswith("wikibooks"):
        flags.append("rendered pictures")
    items, credit = _ranks(folder / "ranks.csv")
    if not items:
        flags.append("no ranks.csv: not compared with others")
    others: list[Row] = []
    for name, pool in metrics["pools"].items():
        for row in pool.get("table", []):
            if isinstance(row, dict) and row.get("kind") == "baseline" and row.get("system") != "chance":
                values = {f"{d}/{k}": _number(row.get(f"{d}/{k}", math.nan)) for d in DIRECTIONS for k in RANK_KEYS}
                others.append({"system": clean(str(row["system"])), "pool": clean(str(name)), **values})
    return Result(
        kind="retrieval",
        task="retrieval",
        data=clean(_text(metrics, "data", folder)),
        split=clean(_text(metrics, "split", folder)),
        n=_count(metrics["n"], folder),
        value=None,
        interval=None,
        items=items,
        credit=credit,
        clusters=items,
        questions=_digest(list(items)) if items else "",
        file=clean(str(_dict(provenance, "data").get("table", ""))),
        official=metrics.get("official") is True,
        pools=pools,
        others=tuple(others),
        flags=tuple(flags),
        **common,
    )


def _ranks(path: Path) -> tuple[tuple[str, ...], np.ndarray]:
    """Ids in ascending order and the reciprocal rank of each, mean of both directions; none without the file."""
    if not path.is_file():
        return (), np.zeros(0)
    _check_size(path, LARGE_FILE)
    found: dict[str, float] = {}
    with open(path, encoding="utf-8", newline="") as file:
        for number, row in enumerate(csv.DictReader(file), 2):
            try:
                ranks = [float(row[direction]) for direction in DIRECTIONS]
                if row["id"] in found or not all(rank >= 1 and math.isfinite(rank) for rank in ranks):
                    raise ValueError("an id for the second time, or a rank below 1")
                found[row["id"]] = sum(1 / rank for rank in ranks) / len(ranks)
            except (KeyError, TypeError, ValueError) as error:
                raise _Unfit(
                    f"{shown(path)}: line {number} holds no ranks ({clean(str(error), 60)}); score again"
                ) from None
    ids = sorted(found)
    return tuple(ids), np.asarray([found[name] for name in ids])


def _baselines(table: list[Any], folder: Path, kind: str = "") -> list[Row]:
    """Chance, baselines and legal trivial rules of a run's own table."""
    rows = []
    for row in table:
        if not isinstance(row, dict) or (kind or row.get("kind")) not in ("baseline", "sanity"):
            continue
        note = str(row.get("note") or "")
        if "transductive" in note or "these very questions" in note or row.get("accuracy") is None:
            continue
        rows.append(
            {
                "system": clean(str(row["system"])).replace("_", " "),
                "kind": "trivial" if kind or row.get("kind") == "sanity" else "baseline",
                "value": _share(row["accuracy"], folder),
                "interval": _interval(row.get("clustered") or row.get("interval")),
                "n": _count(row["n"], folder),
            }
        )
    return rows


# ------------------------------------------------------------------------------------------------- settings and flags


def settings_of(config: Row) -> Row:
    """What makes a system, as flat keys: everything but the seed, paths and what changes no number."""
    flat: Row = {}
    food = str(_dict(config, "data").get("_target_", "")).startswith("data.foodieqa.")
    for section in _FOOD_SECTIONS if food else _SECTIONS:
        if section in config:
            _flatten(config[section], section, flat, 0)
    trained = any(key.startswith("model.optimizer.") for key in flat)
    left = () if trained else ("trainer.", "callbacks.")  # nothing there touches what is not trained
    return {
        key: value for key, value in sorted(flat.items()) if not _NO_SETTING.search(key) and not key.startswith(left)
    }


def _flatten(value: Any, key: str, flat: Row, depth: int) -> None:
    if depth > DEEPEST or len(flat) > MOST_LEAVES:
        raise _Unfit("config.yaml: is nested too deeply or too large; give the run's own config.yaml")
    if isinstance(value, dict):
        for name, inner in value.items():
            _flatten(inner, f"{key}.{name}", flat, depth + 1)
    elif isinstance(value, list):
        for i, inner in enumerate(value):
            _flatten(inner, f"{key}.{i}", flat, depth + 1)
        flat[f"{key}.length"] = len(value)
    else:
        flat[key] = value if isinstance(value, int | float | bool | None) else str(value)


def _config(folder: Path) -> tuple[Row, list[str]]:
    """The config of the run; an evaluation of a checkpoint has the training settings of the run that it lies in.

    Read as plain YAML: interpolations, which could read the environment, stay text.
    """
    path = folder / "config.yaml"
    if not path.is_file():
        return {}, ["no config.yaml: settings unknown"]
    config = _yaml(path)
    trained = _dict(config, "model").get("optimizer") is not None
    home = folder.parent / "config.yaml"
    if folder.name.startswith("evaluate_") and trained and home.is_file():
        config = {**config, **{k: v for k, v in _yaml(home).items() if k in ("trainer", "callbacks")}}
    return config, []


def _yaml(path: Path) -> Row:
    _check_size(path, SMALL_FILE)
    try:
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        found = yaml.load(path.read_text(encoding="utf-8"), Loader=loader)  # a safe loader: builds plain values only
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise _Unfit(f"{shown(path)}: cannot be read ({clean(str(error), 120)}); the run is left out") from None
    if not isinstance(found, dict):
        raise _Unfit(f"{shown(path)}: is no config; the run is left out")
    try:
        _flatten(found, "config", {}, 0)
    except _Unfit:
        raise _Unfit(f"{shown(path)}: is nested too deeply or too large; the run is left out") from None
    return found


def _common_flags(config: Row, metrics: Row, provenance: Row) -> list[str]:
    data, trainer = _dict(config, "data"), _dict(config, "trainer")
    flags = []
    if data.get("limit") is not None:
        flags.append(f"data.limit={clean(str(data['limit']), 20)}")
    if data.get("overfit") is True:
        flags.append("data.overfit")
    part = trainer.get("limit_train_batches")
    if trainer.get("fast_dev_run") or (part is not None and part != 1 and part != 1.0):
        flags.append("trained on part of the batches")
    maximum = _dict(data, "source").get("max_recipes") or _dict(data, "builder").get("max_recipes")
    if maximum is not None:
        flags.append(f"max_recipes={clean(str(maximum), 20)}")
    notes = [str(note) for note in metrics.get("notes", []) if isinstance(note, str)]
    if any("transductive" in note for note in notes):
        flags.append("transductive")
    if any("no test file" in note for note in notes):
        flags.append("tested on validation")
    if any("no validation file" in note for note in notes):
        flags.append("validated on part of the training file")
    if _dict(provenance, "git").get("changed_files"):
        flags.append(CHANGED)
    return flags


# ---------------------------------------------------------------------------------------------------- untrusted values


def clean(text: str, longest: int = 80) -> str:
    """One printable line: no control characters, line ends or direction marks, cut where it is long."""
    plain = "".join(c if c.isprintable() else " " for c in text)
    plain = " ".join(plain.split())
    return plain if len(plain) <= longest else plain[: longest - 1] + "…"


def shown(path: Path) -> str:
    """A path relative to where the command was given, as one printable line."""
    with contextlib.suppress(ValueError):
        path = path.absolute().relative_to(Path.cwd())
    return clean(str(path), 300)


def _check_size(path: Path, most: int) -> None:
    if path.stat().st_size > most:
        raise _Unfit(f"{shown(path)}: has more than {most >> 20} MiB; the run is left out")


def _json(path: Path) -> Row:
    if not path.is_file():  # a pipe would be waited for
        raise _Unfit(f"{shown(path)}: is no plain file; the run is left out")
    _check_size(path, SMALL_FILE)
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise _Unfit(f"{shown(path)}: cannot be read ({clean(str(error), 120)}); the run is left out") from None
    if not isinstance(found, dict):
        raise _Unfit(f"{shown(path)}: is no object; the run is left out")
    return found


def _lines(path: Path) -> Any:
    _check_size(path, LARGE_FILE)
    with open(path, encoding="utf-8") as file:
        number = 0
        try:
            for number, line in enumerate(file, 1):
                row = json.loads(line)
                if not isinstance(row, dict):
                    raise ValueError("no object")
                yield number, row
        except (ValueError, RecursionError) as error:
            raise _Unfit(
                f"{shown(path)}: line {number} cannot be read ({clean(str(error), 60)}); the run is left out"
            ) from None


def _dict(value: Any, key: str) -> Row:
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}


def _text(metrics: Row, key: str, folder: Path) -> str:
    value = metrics.get(key)
    if not isinstance(value, str) or not value.strip():
        raise _Unfit(f"{shown(folder)}/metrics.json: {key} is no text; the run is left out")
    return value


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{clean(str(value), 40)} is no number")
    return float(value)


def _share(value: Any, folder: Path) -> float:
    number = _number(value)
    if not 0 <= number <= 1:
        raise _Unfit(f"{shown(folder)}/metrics.json: accuracy {number} is no share; the run is left out")
    return number


def _count(value: Any, folder: Path) -> int:
    if type(value) is not int or not 0 < value < 1 << 31:
        raise _Unfit(f"{shown(folder)}/metrics.json: n={clean(str(value), 40)} is no count; the run is left out")
    return value


def _interval(value: Any) -> tuple[float, float] | None:
    if value is None:
        return None
    low, high = (_number(bound) for bound in value)
    if not 0 <= low <= high <= 1:
        raise ValueError(f"{low} to {high} is no interval")
    return low, high


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:32]
