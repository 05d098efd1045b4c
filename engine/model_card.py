"""`MODEL_CARD.md` beside the checkpoints: what the model is, what it was trained on, how good it is, how to use it.

The sections follow Mitchell et al. 2019 (model cards for model reporting). All numbers are those of the run's files.
"""

import inspect
import json
from pathlib import Path
from typing import Any

import yaml
from torch import nn

from data.files import atomic_file
from engine.console import folder_name
from engine.food_report import Sheet
from engine.markup import escape_markdown, markdown
from engine.run_records import RANK_KEYS, clean
from engine.runfolder import redact
from models.ranks import DIRECTIONS

Row = dict[str, Any]
_NOT_FOR = (
    "Not for advice on allergies, diets or food safety: it was never tested on whether a dish is safe to eat, and the"
    " ingredients that it is told or shown may be incomplete."
)
# By the beginning of the data's name: what it is, its licence, what it is no measure of.
_DATA = {
    "wikibooks": (
        "Recipes of the Wikibooks Cookbook, which are installed with the project",
        "CC BY-SA 4.0; ATTRIBUTION.txt beside the prepared questions names every page",
        "Its pictures are rendered from the text, no photographs: what is learnt from them says nothing about photos.",
    ),
    "recipeqa": (
        "RecipeQA (Yagcioglu, Erdem, Erdem, Ikizler-Cinbis 2018, arXiv 1809.00812)",
        "of each recipe the one that its author chose (recipes.json of the release): research use with attribution",
        "English recipes of one website; the wrong choices are drawn by rule.",
    ),
    "recipe1m": (
        "Recipe1M (Salvador et al. 2017; Recipe1M+: Marin et al. 2021, arXiv 1810.06553)",
        "for research, on request of its makers; not to be passed on",
        "English recipes and photos of cooking websites.",
    ),
}
_OWN = ("Files of one's own", "not known to this project: say it here before you pass the model on", "")


def write_model_card(folder: Path, model: nn.Module, measured: bool = True) -> Path:
    """Write the card of the run in `folder` from its config.yaml, provenance.json and, if `measured`, metrics.json."""
    config = yaml.safe_load((folder / "config.yaml").read_text(encoding="utf-8"))
    provenance = json.loads((folder / "provenance.json").read_text(encoding="utf-8"))
    metrics = json.loads((folder / "metrics.json").read_text(encoding="utf-8")) if measured else None
    net = getattr(model, "net", model)
    lines = [f"# Model card: {_text(config['model']['name'])} on {_text(config['data']['name'])}", ""]
    lines += _description(net, sum(p.numel() for p in model.parameters()))
    lines += _training_data(config, provenance)
    lines += _protocol(config)
    lines += _numbers(metrics)
    lines += _use(folder, config)
    lines += _limits(config, metrics)
    lines += _provenance(config, provenance)
    with atomic_file(folder / "MODEL_CARD.md") as partial:
        partial.write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")
    return folder / "MODEL_CARD.md"


def _text(value: Any) -> str:
    """A value of a config as Markdown text, without secrets."""
    return escape_markdown(clean(str(redact(value)), 300))


def _description(net: nn.Module, parameters: int) -> list[str]:
    about = (inspect.getdoc(type(net)) or "").partition("\n\n")[0]
    lines = ["## Model", "", escape_markdown(about)] if about else ["## Model", ""]
    return [*lines, "", f"Class `{type(net).__module__}.{type(net).__qualname__}`, {parameters:,} parameters.", ""]


def _about_data(config: Row) -> tuple[str, str, str]:
    name = str(config["data"]["name"])
    given = [key for key in ("train_file", "val_file", "test_file") if config["data"].get(key)]
    if given:
        return _OWN
    return next((about for start, about in _DATA.items() if name.startswith(start)), _OWN)


def _training_data(config: Row, provenance: Row) -> list[str]:
    what, licence, _ = _about_data(config)
    data = provenance.get("data", {})
    lines = [
        "## Data",
        "",
        f"{escape_markdown(what)} (`data={_code(config['data']['name'])}`).",
        "",
        f"Licence: {licence}.",
    ]
    for key in ("questions", "pairs"):
        if isinstance(data.get(key), dict):
            counts = ", ".join(f"{split} {n:,}" for split, n in data[key].items())
            lines += ["", f"{key.capitalize()}: {counts}."]
    files = data.get("files")
    if isinstance(files, dict) and files:
        lines += ["", "| split | file | sha256 |", "|---|---|---|"]
        lines += [f"| {split} | {_text(f['file'])} | `{_code(f['sha256'])}` |" for split, f in sorted(files.items())]
    elif data.get("table"):
        lines += ["", f"sha256 of the table of recipes: `{_code(data['table'])}`."]
    return [*lines, ""]


def _protocol(config: Row) -> list[str]:
    trainer, callbacks = config["trainer"], config.get("callbacks") or {}
    best, stop = callbacks.get("best") or {}, callbacks.get("early_stopping") or {}
    optimizer = config["model"].get("optimizer") or {}
    lines = ["## Training and protocol", ""]
    lines.append(
        f"- seed {config['seed']}, at most {trainer.get('max_epochs')} epochs, batches of "
        f"{config['data'].get('batch_size')}"
    )
    if optimizer:
        name = str(optimizer.get("_target_", "")).rpartition(".")[2]
        lines.append(f"- {_text(name)}, learning rate {_text(optimizer.get('lr'))}")
    if best:
        lines.append(f"- the checkpoint with the best {_text(best.get('monitor'))} is `checkpoints/best.ckpt`")
    if stop:
        lines.append(
            f"- training ends after {stop.get('patience')} validations without a better {_text(stop.get('monitor'))}"
        )
    lines.append(
        "- scored once, on the test split, after that choice; ties at the top share the point (choices) or the rank"
    )
    return [*lines, "", "All settings: `config.yaml`.", ""]


def _numbers(metrics: Row | None) -> list[str]:
    if metrics is None:
        return ["## Results", "", "Not measured yet: training has not reached its end.", ""]
    lines = ["## Results", ""]
    for task, row in metrics.get("tasks", {}).items():
        title = f"{task.replace('_', ' ')}, {metrics['split']}: {row['n']} questions of {row['recipes']} recipes"
        sheet = Sheet(title, ("system", "accuracy %", "95 % interval", "n", "remark"), (0, 4))
        for other in row["table"]:
            if other["kind"] != "published":
                bounds = other["interval"]
                interval = "" if bounds is None else f"{bounds[0] * 100:.1f}–{bounds[1] * 100:.1f}"
                name, accuracy = other["system"].replace("_", " "), f"{other['accuracy'] * 100:.2f}"
                sheet.add(other["kind"], name, accuracy, interval, str(other["n"]), other["note"])
        sheet.remark = f"Intervals: {row['interval_kind']}."
        lines += [*markdown(sheet, level=3), "", *(f"- {escape_markdown(line)}" for line in row["verdict"]), ""]
    for name, pool in metrics.get("pools", {}).items():
        lines += [*markdown(_ranks(name, pool, metrics), level=3), ""]
    if "tasks" not in metrics:
        lines += [f"- {escape_markdown(line)}" for line in metrics.get("verdict", [])]
    lines += [f"- note: {escape_markdown(note)}" for note in metrics.get("notes", [])]
    while lines[-1] == "":
        lines.pop()
    return [*lines, "", "Published results beside these: `results.md`.", ""]


def _ranks(name: str, pool: Row, metrics: Row) -> Sheet:
    size = f"one pool of all {pool['size']:,}" if name == "all" else f"{pool['subsets']} pools of {pool['size']:,}"
    columns = ("query → answer", "medR", *(key.replace("R", "R@") + " %" for key in RANK_KEYS[1:]))
    sheet = Sheet(f"{metrics['split']}, {size} pairs", columns, (0,))
    for direction in DIRECTIONS:
        cells = []
        for key in RANK_KEYS:
            scale = 1 if key == "medR" else 100
            found = pool[direction][key]
            bounds = found["interval"]
            interval = "" if bounds is None else f" ({bounds[0] * scale:.1f}–{bounds[1] * scale:.1f})"
            cells.append(f"{found['mean'] * scale:.1f}{interval}")
        sheet.add("this run", direction.replace("_to_", " → "), *cells)
    chance = pool["chance"]
    cells = [f"{chance[key] * (1 if key == 'medR' else 100):.1f}" for key in RANK_KEYS]
    sheet.add("baseline", "chance", *cells)
    for row in pool.get("table", []):
        if row["kind"] == "baseline" and row["system"] != "chance":
            for direction in DIRECTIONS:
                values = [row[f"{direction}/{key}"] * (1 if key == "medR" else 100) for key in RANK_KEYS]
                sheet.add(
                    "baseline", f"{row['system']}, {direction.replace('_to_', ' → ')}", *(f"{v:.1f}" for v in values)
                )
    sheet.remark = "95 % intervals."
    return sheet


def _use(folder: Path, config: Row) -> list[str]:
    checkpoint = f"{_code(folder_name(folder))}/checkpoints/best.ckpt"
    lines = ["## Loading and scoring", "", "```bash", f"python evaluate.py ckpt_path={checkpoint}"]
    if config["data"].get("tasks"):
        lines += [f"python evaluate.py ckpt_path={checkpoint} data.test_file=NEW.json   # a new file, scored by itself"]
        lines += [f"python evaluate.py ckpt_path={checkpoint} question=one.json         # one question"]
    else:
        lines += [f"python evaluate.py ckpt_path={checkpoint} query=photo.jpg           # or query=recipe.json"]
    lines += [f"python train.py ckpt_path={checkpoint.replace('best.ckpt', 'last.ckpt')}   # trains on", "```", ""]
    lines += [
        "A checkpoint holds the weights, the resolved config and all that was fitted (word vectors, reduction of"
        " pictures, vocabulary), and is read with `torch.load(weights_only=True)`: nothing in it is executed.",
        "",
    ]
    return lines


def _limits(config: Row, metrics: Row | None) -> list[str]:
    task = (
        "multiple-choice questions on recipes" if config["data"].get("tasks") else "finding recipes by photos and back"
    )
    _, _, caution = _about_data(config)
    lines = [
        "## Intended use and limits",
        "",
        f"Research on {task}, and comparison on the same questions or pairs.",
        "",
    ]
    lines += [f"- {text}" for text in (caution, _NOT_FOR) if text]
    if config["data"].get("limit") is not None:
        lines.append(f"- Trained on a part of the data only (data.limit={config['data']['limit']}): for trying out.")
    collapsed = [t for t, row in (metrics or {}).get("tasks", {}).items() if row.get("collapsed", 0) > 0.01]
    lines += [
        f"- Collapsed on {task.replace('_', ' ')}: the scores of some questions are all equal." for task in collapsed
    ]
    return [*lines, ""]


def _provenance(config: Row, provenance: Row) -> list[str]:
    git, hardware = provenance.get("git", {}), provenance.get("hardware", {})
    changed = git.get("changed_files")
    state = "no repository" if git.get("commit") is None else f"commit `{_code(git['commit'])}`"
    state += f", {len(changed)} changed files" if changed else ""
    gpus = ", ".join(map(str, hardware.get("gpus") or [])) or "no GPU"
    packages = ", ".join(f"{name} {version}" for name, version in provenance.get("packages", {}).items())
    words = " ".join(str(redact(word)) for word in provenance.get("overrides", []))
    lines = ["## Provenance", "", f"- code: {state}", f"- overrides: `{_code(words) or 'none'}`"]
    lines += [f"- hardware: {_text(hardware.get('machine'))}, {hardware.get('cores')} cores, {_text(gpus)}"]
    return [*lines, f"- versions: {_text(packages)}", "", "Written by the run itself; `provenance.json` has the rest."]


def _code(text: Any) -> str:
    """Text between backticks."""
    return clean(str(text), 400).replace("`", "'").replace("|", "\\|")
