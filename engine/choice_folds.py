"""All folds of a sweep on multiple-choice questions: each is scored once, by a model that has not seen its recipe."""

import json
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from omegaconf import DictConfig, OmegaConf
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from tqdm import tqdm

from data.errors import InputError
from data.files import atomic_file
from data.kinds import KINDS, kinds_of
from data.recipeqa import published_rows, read_questions
from data.records import TASKS, Question
from engine.choice_folds_figures import draw_kinds, draw_systems
from engine.console import folder_name, say
from engine.results import cluster_bootstraps, deviation
from engine.run_records import Result, read_runs
from engine.runfolder import write_json, write_jsonl
from engine.scoring import CHANCE
from models.metrics import clustered_wilson, expected_correct, holm, paired_permutation, wilson_interval

Row = dict[str, Any]
HASTY = "Hasty Student"
TRANSDUCTIVE = "transductive"


@dataclass
class Setting:
    """One system with one choice of settings, on one task; N questions in ascending order of their qids."""

    system: str
    settings: Row
    qids: tuple[str, ...] = ()
    recipes: tuple[str, ...] = ()
    credit: dict[int, np.ndarray] = field(default_factory=dict)  # seed -> (N,)
    runs: dict[int, list[Path]] = field(default_factory=dict)  # seed -> folder of each fold
    name: str = ""

    @property
    def mean_credit(self) -> np.ndarray:
        """(N,) over all seeds."""
        return np.mean(list(self.credit.values()), axis=0)


def score_choice_folds(cfg: DictConfig, console: Console) -> float:
    """Put together the runs of a sweep over `data.fold`, by settings and seed; print and write tables and figures.

    Returns:
        The accuracy of the setting with most seeds on the first task.

    Raises:
        InputError: no runs there, folds that are missing or double, or settings that were asked different questions.
    """
    root, folder = Path(cfg.folds), Path(cfg.output_dir)
    found = sorted((path.parent for path in root.glob("*/config.yaml")), key=_number)
    if not found:
        raise InputError(
            f"folds={root}: holds no runs; give the folder of a sweep such as "
            "`python train.py -m data.folds=5 data.fold=0,1,2,3,4 ...`"
        )
    read = read_runs(found, lambda runs: tqdm(runs, desc="reading", unit=" runs", leave=False))
    if read.left_out:
        raise InputError(read.left_out[0])
    sections, markdown, predictions = [], ["# All folds together", ""], []
    for task in [task for task in TASKS if any(r.task == task for r in read.results)]:
        settings = settings_of_folds([r for r in read.results if r.task == task], root)
        section = section_of(task, settings, int(cfg.seed))
        files = {r.file for r in read.results if r.task == task}
        questions, reason = _questions(found[0], files) if task == "textual_cloze" else (None, "")
        if reason:
            section["notes"].append(reason)
        if questions is not None:
            section["kinds"] = kind_rows(settings[0], questions, section["baselines"])
        _print(console, section)
        markdown += _markdown(section)
        suffix = "" if len({r.task for r in read.results}) == 1 else f"_{task}"
        draw_systems(folder / f"folds{suffix}.png", section)
        if questions is not None:
            draw_kinds(folder / f"folds_kinds{suffix}.png", section)
        predictions += _predictions(settings, task)
        for row in section["baselines"]:
            row.pop("credit", None)
        sections.append(section)
    write_json(folder / "folds.json", {"sections": sections})
    write_jsonl(folder / "predictions_folds.jsonl", predictions)
    with atomic_file(folder / "folds.md") as partial:
        partial.write_text("\n".join(markdown) + "\n", encoding="utf-8")
    say(console, f"wrote folds.json folds.md folds*.png predictions_folds.jsonl into {folder_name(folder)}")
    return sections[0]["systems"][0]["accuracy"]


# ------------------------------------------------------------------------------------------------------------- pooling


def settings_of_folds(results: Sequence[Result], root: Path) -> list[Setting]:
    """The runs of one task by settings, that of most seeds first, else in the order of the jobs; folds pooled.

    Raises:
        InputError: a fold of some seed is missing or there twice, a question is in two folds, or two settings or seeds
            were asked different questions.
    """
    groups: dict[str, dict[tuple[int, int], Result]] = defaultdict(dict)
    for result in results:
        settings = {key: value for key, value in result.settings.items() if key != "data.fold"}
        fold, folds = result.settings.get("data.fold"), result.settings.get("data.folds")
        if type(folds) is not int or type(fold) is not int or result.seed is None:
            raise InputError(f"{result.folder}: is no fold (data.folds={folds}); give a sweep over data.fold alone")
        group = groups[json.dumps([result.system, result.data, result.file, settings], sort_keys=True)]
        place = result.seed, fold
        if place in group:
            raise InputError(
                f"{result.folder}: repeats fold {fold} of seed {result.seed} of {group[place].folder.name} with the "
                "same settings; remove one of the two"
            )
        group[place] = result
    made = []
    for group in groups.values():
        first = next(iter(group.values()))
        setting = Setting(first.system, {k: v for k, v in first.settings.items() if k != "data.fold"})
        for seed in sorted({seed for seed, _ in group}):
            _pool(setting, seed, group, root)
        made.append(setting)
    made.sort(key=lambda setting: -len(setting.credit))  # stable: the order of the jobs within equal counts
    for setting in made:
        if setting.qids != made[0].qids:
            odd = min(set(setting.qids) ^ set(made[0].qids))
            one, two = (next(iter(s.runs.values()))[0].name for s in (setting, made[0]))
            raise InputError(
                f"folds={root}: the settings of jobs {one} and {two} were asked different questions (such as {odd}); "
                "give one sweep on one file"
            )
    _name(made)
    return made


def _pool(setting: Setting, seed: int, group: dict[tuple[int, int], Result], root: Path) -> None:
    """Add all folds of one seed to a setting."""
    folds = setting.settings["data.folds"]
    missing = [fold for fold in range(folds) if (seed, fold) not in group]
    if missing:
        of = next(iter(group.values())).folder.name
        raise InputError(
            f"folds={root}: fold {', '.join(map(str, missing))} of {folds} of seed {seed} is missing (settings of job "
            f"{of}); go on with the sweep until all are there"
        )
    parts = [group[seed, fold] for fold in range(folds)]
    where: dict[str, tuple[str, float, Path]] = {}
    for part in parts:
        if len(part.items) != part.n:
            raise InputError(f"{part.folder}: has no predictions.jsonl for its {part.n} questions; score the run again")
        for qid, recipe, credit in zip(part.items, part.clusters, part.credit, strict=True):
            if qid in where:
                raise InputError(
                    f"{part.folder}: question {qid} is also in {where[qid][2].name}; folds must not overlap"
                )
            where[qid] = recipe, float(credit), part.folder
    qids = tuple(sorted(where))
    if setting.qids and qids != setting.qids:
        odd = min(set(qids) ^ set(setting.qids))
        raise InputError(
            f"folds={root}: seed {seed} was asked other questions than other seeds (such as {odd}); give one file"
        )
    setting.qids, setting.recipes = qids, tuple(where[qid][0] for qid in qids)
    setting.credit[seed] = np.asarray([where[qid][1] for qid in qids])
    setting.runs[seed] = [part.folder for part in parts]


def _name(settings: list[Setting]) -> None:
    """The first of each system by all that differs among its settings, the others by what differs from the first."""
    by_system: dict[str, list[Setting]] = defaultdict(list)
    for setting in settings:
        by_system[setting.system].append(setting)
    for system, same in by_system.items():
        values = [_shown(setting.settings) for setting in same]
        keys = [key for key in sorted(set().union(*values)) if len({found.get(key) for found in values}) > 1]
        for setting, found in zip(same, values, strict=True):
            own = [key for key in keys if setting is same[0] or found.get(key) != values[0].get(key)]
            parts = dict.fromkeys(f"{key.rpartition('.')[2]}={found.get(key, 'none')}" for key in own)
            setting.name = f"{system} ({', '.join(parts)})" if parts else system


def _shown(settings: Row) -> dict[str, str]:
    """Flat settings as text, a list as one value."""
    lists: dict[str, list[str]] = {key.removesuffix(".length"): [] for key in settings if key.endswith(".length")}
    shown = {}
    for key, value in settings.items():
        of_list = re.fullmatch(r"(.+)\.(\d+|length)", key)
        if of_list is None or of_list[1] not in lists:
            shown[key] = str(value)
        elif of_list[2] != "length":
            lists[of_list[1]].append(str(value))
    return shown | {key: f"[{','.join(values)}]" for key, values in lists.items()}


# -------------------------------------------------------------------------------------------------------------- tables


def section_of(task: str, settings: Sequence[Setting], seed: int) -> Row:
    """All that is said of one task: rows of the settings, of the baselines and of what is published.

    A setting's interval is that of the mean credit over its seeds, clustered by recipe; its difference to the first
    setting is taken over the seeds that both have, with the p-value of a paired permutation of recipes, and the same
    after Holm's correction for all settings of the table.
    """
    first = settings[0]
    systems = []
    for setting in tqdm(settings, desc="comparing", unit=" settings", leave=False):
        values = [float(credit.mean()) for credit in setting.credit.values()]
        row: Row = {
            "system": setting.name,
            "accuracy": float(np.mean(values)),
            "sd": deviation(values),
            "interval": list(map(float, clustered_wilson(setting.mean_credit, np.asarray(setting.recipes)))),
            "n": len(setting.qids),
            "recipes": len(set(setting.recipes)),
            "seeds": sorted(setting.credit),
            "of_seeds": values,
            "difference": None,
        }
        common = sorted(first.credit.keys() & setting.credit.keys())
        if setting is not first and common:
            own, other = (np.mean([s.credit[seed] for seed in common], axis=0) for s in (setting, first))
            low, high = cluster_bootstraps((own - other)[:, None], first.recipes, seed)
            row["difference"] = float((own - other).mean())
            row["difference_interval"] = [float(low[0]), float(high[0])]
            row["p"] = paired_permutation(own, other, np.asarray(first.recipes), seed=seed)
        systems.append(row)
    tested = [row for row in systems if row["difference"] is not None]
    for row, adjusted in zip(tested, holm([row["p"] for row in tested]), strict=True):
        row["holm_p"] = float(adjusted)
    folds = first.settings["data.folds"]
    return {
        "task": task,
        "folds": folds,
        "systems": systems,
        "baselines": baseline_rows(settings),
        "published": _published(task),
        "notes": [
            f"{folds} folds by recipe: each question is scored by a model from whose training and statistics its "
            "recipe is absent; accuracy is the mean over seeds, the 95 % interval is clustered by recipe",
            f"{TRANSDUCTIVE} rows use the scored fold's own statistics and are no systems to compare with",
        ],
    }


def baseline_rows(settings: Sequence[Setting]) -> list[Row]:
    """Chance and the baselines of the runs' own tables, pooled over folds as the settings are, each with `credit`.

    Out of the first setting whose runs wrote `baselines.jsonl`, over the seeds for which all folds have it.
    """
    n = len(settings[0].qids)
    rows: list[Row] = [{"system": "chance", "accuracy": CHANCE, "interval": None, "n": n, "note": ""}]
    for setting in settings:
        found: dict[str, list[np.ndarray]] = defaultdict(list)
        for runs in setting.runs.values():
            if all((run / "baselines.jsonl").is_file() for run in runs):
                for name, credit in _baseline_credit(runs, setting.qids).items():
                    found[name].append(credit)
        if not found:
            continue
        seeds = max(map(len, found.values()))
        for name, credits in found.items():
            if len(credits) < seeds:
                continue  # not in every run
            system, _, note = name.partition(", ")
            credit = np.mean(credits, axis=0)
            interval = list(map(float, clustered_wilson(credit, np.asarray(setting.recipes))))
            row: Row = {"system": system.replace("_", " "), "accuracy": float(credit.mean()), "interval": interval}
            rows.append(row | {"n": n, "note": note, "credit": credit})
        break
    return rows


def _baseline_credit(runs: Sequence[Path], qids: Sequence[str]) -> dict[str, np.ndarray]:
    """(N,) credit of each baseline that answered all questions, from the folds of one seed."""
    answers = {row["qid"]: row["answer"] for run in runs for row in _lines(run / "predictions.jsonl")}
    scores: dict[str, dict[str, list[float]]] = defaultdict(dict)
    for run in runs:
        for row in _lines(run / "baselines.jsonl"):
            for name, of_question in row["scores"].items():
                scores[name][row["qid"]] = of_question
    answer = np.asarray([answers[qid] for qid in qids])
    return {
        name: expected_correct(np.asarray([found[qid] for qid in qids]), answer).numpy()
        for name, found in scores.items()
        if all(qid in found for qid in qids)
    }


def _published(task: str) -> list[Row]:
    rows = []
    for row in published_rows(task):
        accuracy, n = row["accuracy"] / 100, row["n"]
        interval = list(map(float, wilson_interval(accuracy * n, n))) if n else None
        note = "; ".join(filter(None, ["" if row["confirmed"] else "unconfirmed", "other questions", row["split"]]))
        rows.append(
            {
                "system": f"{row['system']}, {row['year']}",
                "accuracy": accuracy,
                "interval": interval,
                "n": n,
                "note": note,
            }
        )
    return rows


def kind_rows(setting: Setting, questions: Sequence[Question], baselines: Sequence[Row]) -> list[Row]:
    """Accuracy by kind of question (`data.kinds`), with Hasty Student's and the best legal trivial rule's beside it."""
    known = {q.qid: kinds_of(q) for q in questions}
    kinds = [known[qid] for qid in setting.qids]
    legal = [row for row in baselines if "credit" in row and row["note"] != TRANSDUCTIVE and row["system"] != HASTY]
    compared = [row for row in baselines if row["system"] == HASTY and "credit" in row]
    compared += sorted(legal, key=lambda row: -row["accuracy"])[:1]
    rows = []
    for parting, values in KINDS.items():
        for value in values:
            held = np.asarray([i for i, of in enumerate(kinds) if of[parting] == value], int)
            if not len(held):
                continue
            recipes = np.asarray(setting.recipes)[held]
            row: Row = {"parting": parting, "kind": value, "n": len(held), "systems": []}
            for system, credit in [(setting.name, setting.mean_credit)] + [
                (r["system"], r["credit"]) for r in compared
            ]:
                interval = list(map(float, clustered_wilson(credit[held], recipes)))
                row["systems"].append({"system": system, "accuracy": float(credit[held].mean()), "interval": interval})
            rows.append(row)
    return rows


# --------------------------------------------------------------------------------------------------------------- files


def _questions(run: Path, files: set[str]) -> tuple[list[Question] | None, str]:
    """The questions of the file that was cut into folds, or why the kinds of question are left out."""
    config: Any = OmegaConf.to_container(OmegaConf.load(run / "config.yaml"))
    data = config["data"]
    named = [data.get("train_file")] if data.get("train_file") else []
    if not named and data.get("root"):
        named = [str(Path(data["root"]) / name) for name in ("train.json", "train.json.gz")]
    path = next((Path(name) for name in named if Path(name).is_file()), None)
    if path is None:
        return None, "kinds of question are left out: the file that the runs read is not where they read it"
    questions, report = read_questions(path, ["textual_cloze"], on_bad_record="skip")
    if files != {report.sha256}:
        return None, f"kinds of question are left out: {path.name} has changed since the runs read it"
    return questions, ""


def _predictions(settings: Sequence[Setting], task: str) -> list[Row]:
    return [
        {"setting": setting.name, "seed": seed, "fold": fold, **row}
        for setting in settings
        for seed, runs in setting.runs.items()
        for fold, run in enumerate(runs)
        for row in _lines(run / "predictions.jsonl")
        if row["task"] == task
    ]


def _lines(path: Path) -> list[Row]:
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def _number(run: Path) -> list[int]:
    return [int(part) if part.isdigit() else -1 for part in run.name.split("-")]


# ------------------------------------------------------------------------------------------------------------ printing


_COLUMNS = ("setting", "accuracy %", "± seeds", "95 % interval", "n", "seeds", "difference", "p", "p (Holm)")
_OTHERS = ("beside it", "accuracy %", "95 % interval", "n", "note")


def _cells(row: Row) -> list[str]:
    untested = row["difference"] is None
    return [
        row["system"],
        f"{row['accuracy'] * 100:.2f}",
        "" if row["sd"] is None else f"{row['sd'] * 100:.2f}",
        _interval(row["interval"]),
        str(row["n"]),
        str(len(row["seeds"])),
        *(["", "", ""] if untested else [f"{row['difference'] * 100:+.2f}", f"{row['p']:.4f}", f"{row['holm_p']:.4f}"]),
    ]


def _other_cells(row: Row) -> list[str]:
    n = "?" if row["n"] is None else str(row["n"])
    return [row["system"], f"{row['accuracy'] * 100:.2f}", _interval(row["interval"]), n, row["note"]]


def _interval(bounds: Sequence[float] | None) -> str:
    return "" if bounds is None else f"{bounds[0] * 100:.1f}–{bounds[1] * 100:.1f}"


def _title(section: Row) -> str:
    row = section["systems"][0]
    return f"{section['task']}: {row['n']} questions of {row['recipes']} recipes, {section['folds']} folds"


def _kind_cells(row: Row) -> list[str]:
    found = [f"{s['accuracy'] * 100:.1f} ({_interval(s['interval'])})" for s in row["systems"]]
    return [row["parting"], row["kind"], str(row["n"]), *found]


def _kind_columns(section: Row) -> list[str]:
    return ["questions by", "kind", "n", *(s["system"] for s in section["kinds"][0]["systems"])]


def _print(console: Console, section: Row) -> None:
    console.print()
    console.print(_table(_title(section), _COLUMNS, [[*map(_cells, section["systems"])]], ("setting",)))
    beside = [[*map(_other_cells, section[part])] for part in ("baselines", "published")]
    console.print(_table("", _OTHERS, beside, ("beside it", "note")))
    if section.get("kinds"):
        cells = list(map(_kind_cells, section["kinds"]))
        by_parting = [[row for row in cells if row[0] == parting] for parting in KINDS]
        title = f"accuracy % (95 % interval) by kind of question, {section['task']}"
        console.print(_table(title, _kind_columns(section), by_parting, ("questions by", "kind")))
    for note in section["notes"]:
        say(console, f"note: {note}")


def _table(title: str, columns: Sequence[str], parts: Sequence[list[list[str]]], left: Sequence[str]) -> Table:
    table = Table(title=title or None, title_justify="left", title_style="bold", header_style="bold")
    for name in columns:
        table.add_column(escape(name), justify="left" if name in left else "right", overflow="fold")
    for part in parts:
        for i, cells in enumerate(part, 1):
            table.add_row(*map(escape, cells), end_section=i == len(part))
    return table


def _markdown(section: Row) -> list[str]:
    lines = [f"## {_title(section)}", "", *_markdown_table(_COLUMNS, map(_cells, section["systems"]), ("setting",)), ""]
    beside = map(_other_cells, [*section["baselines"], *section["published"]])
    lines += [*_markdown_table(_OTHERS, beside, ("beside it", "note")), ""]
    if section.get("kinds"):
        cells = map(_kind_cells, section["kinds"])
        lines += [*_markdown_table(_kind_columns(section), cells, ("questions by", "kind")), ""]
    return [*lines, *(f"- {note}" for note in section["notes"]), ""]


def _markdown_table(columns: Sequence[str], rows: Any, left: Sequence[str]) -> list[str]:
    rule = "|".join("---" if name in left else "--:" for name in columns)
    return ["| " + " | ".join(columns) + " |", f"|{rule}|", *("| " + " | ".join(cells) + " |" for cells in rows)]
