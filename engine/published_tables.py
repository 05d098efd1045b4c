"""The papers' tables rebuilt from the runs that exist: published and own numbers side by side, missing cells named."""

from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from data.recipeqa import published_rows
from data.records import TASKS
from engine.food_published import published_food_rows
from engine.food_report import Sheet
from engine.results import Entry, Section
from engine.retrieval_report import published_retrieval_rows
from engine.run_records import RANK_KEYS
from models.ranks import DIRECTIONS
from models.sanity import rules_for

MISSING = "–"
CONF = Path(__file__).resolve().parents[1] / "conf"
EXPERIMENTS = CONF / "experiment"
_TASK_NAMES = {task: task.replace("_", " ") for task in TASKS}
_TABLE_2 = ("Human", "Hasty Student", "Impatient Reader (text only)", "Impatient Reader (multimodal)")
_ABLATIONS = {"none": "photo", "dish_name": "photo and dish name", "dish_name_only_textqa": "dish name, no photo"}
_FOOD_DATA = {"mivqa": "foodieqa/multi_image", "sivqa": "foodieqa/single_image", "textqa": "foodieqa/text"}
# Which experiment of Recipe1M a run is: its network and its ranking loss.
_RECIPE1M = {
    "paper": ("JE+SR (im2recipe), experiment=recipe1m/paper", "im2recipe", "PairwiseCosine"),
    "default": ("im2recipe, cosine hinge, experiment=recipe1m/default", "im2recipe", "CosineHingeRanking"),
    "strong": ("recipe transformer, experiment=recipe1m/strong", "recipe_transformer", "InfoNCE"),
}


@dataclass
class Rebuilt:
    """Tables, and for each missing cell its name and the command that would fill it."""

    sheets: list[Sheet] = field(default_factory=list)
    missing: list[tuple[str, str]] = field(default_factory=list)


def rebuild(sections: list[Section], which: str = "auto") -> Rebuilt:
    """Tables of the papers. `which`: auto (of the problems that some run is about), all, none."""
    kinds = {section.kind for section in sections}
    found = Rebuilt()
    if which == "none":
        return found
    if which == "all" or "choice" in kinds:
        _recipeqa(sections, found)
        for family in sorted({s.data.partition("/")[0] for s in sections if s.kind == "choice"} - {"recipeqa"}):
            _family(sections, family, found)
    if which == "all" or "retrieval" in kinds:
        _recipe1m(sections, found)
    if which == "all" or "food" in kinds:
        _foodieqa(sections, found)
    return found


def share(entry: Entry) -> str:
    """Mean accuracy in per cent with the deviation over seeds; † where it is not of the benchmark's own questions."""
    sd = "" if entry.sd is None else f" ± {entry.sd * 100:.1f}"
    return f"{entry.mean * 100:.1f}{sd}" + ("" if entry.first.official else "†")


def _chosen(entries: list[Entry]) -> Entry | None:
    """The row for a cell, where several settings fit; never by its score, which would be a choice on the test set."""
    return min(entries, key=lambda e: (not e.first.official, -len(e.results), str(e.first.folder)), default=None)


_DAGGER = "† not on the questions of the published row: see the flags of the row above."


# ----------------------------------------------------------------------------------------------------------- RecipeQA


def _recipeqa(sections: list[Section], found: Rebuilt) -> None:
    """Table 2 of Yagcioglu et al. 2018 (arXiv 1809.00812); systems of other papers and one's own below."""
    columns = ("system", *(f"{_TASK_NAMES[t]}, {what}" for t in TASKS for what in ("published", "here")))
    sheet = Sheet("RecipeQA, table 2 (arXiv 1809.00812): accuracy in %", columns, (0,))
    own = [s for s in sections if s.kind == "choice" and s.data.startswith("recipeqa/") and s.split == "test"]
    used: set[int] = set()
    for system in _TABLE_2:
        cells = []
        for task in TASKS:
            row = next((r for r in published_rows(task) if r["system"] == system and r["year"] == 2018), None)
            cells.append(MISSING if row is None else f"{row['accuracy']:.2f}")
            if system == "Human" or row is None:
                cells.append("")
                continue
            entry = _chosen(
                [e for s in own if s.task == task and _single(s) for e in s.entries if _is(e, system, task)]
            )
            cells.append(MISSING if entry is None else share(entry))
            if entry is None:
                found.missing.append((f"table 2, {system}, {_TASK_NAMES[task]}", _recipeqa_command(system, task)))
            else:
                used.add(id(entry))
        sheet.add("published", system, *cells)
    others: dict[str, dict[str, Entry]] = {}
    for section in own:
        for entry in section.entries:
            if id(entry) not in used:
                name = entry.system.replace("_", " ") + ("" if _single(section) else f" on {section.data}")
                others.setdefault(name, {})[section.task] = entry
    for name, by_task in others.items():
        cells = [cell for t in TASKS for cell in ("", share(by_task[t]) if t in by_task else MISSING)]
        sheet.add("this run", name, *cells)
    sheet.remark = (
        "Published: 963, 848, 851 and 905 test questions; people: 100 validation questions of each task. Chance: 25."
    )
    if any("†" in cell for _, cells in sheet.rows for cell in cells):
        sheet.remark += " " + _DAGGER
    found.sheets.append(sheet)


def _single(section: Section) -> bool:
    """Trained and tested on one task, as the paper's rows are."""
    return section.data == f"recipeqa/{section.task}"


def _is(entry: Entry, system: str, task: str) -> bool:
    if system == "Hasty Student":
        return entry.first.system == "hasty_student"
    modality = entry.first.settings.get("data.modality")
    wanted = "text" if "text only" in system else "multimodal"
    # The visual tasks show pictures whatever the modality, which is about the document of textual cloze.
    return entry.first.system == "impatient_reader" and (modality == wanted or (task != TASKS[0] and wanted != "text"))


def _recipeqa_command(system: str, task: str) -> str:
    if system == "Hasty Student":
        return f"python evaluate.py experiment=recipeqa/hasty_student_{task} data.root=DIR"
    name = "text" if "text only" in system else f"multimodal_{task}"
    return f"python train.py experiment=recipeqa/impatient_reader_{name} data.root=DIR"


def _family(sections: list[Section], family: str, found: Rebuilt) -> None:
    """The same layout for questions that are not RecipeQA's: systems by tasks, nothing published."""
    own = [s for s in sections if s.kind == "choice" and s.data.partition("/")[0] == family and s.split == "test"]
    rows: dict[tuple[str, str], dict[str, Entry]] = {}
    for section in own:
        joint = "" if section.data == f"{family}/{section.task}" else section.data
        for entry in section.entries:
            if entry.reference:
                rows.setdefault((entry.system, joint), {})[section.task] = entry
    sheet = Sheet(f"{family}: accuracy in %, other questions than RecipeQA's", ("system", *_TASK_NAMES.values()), (0,))
    for (system, joint), by_task in rows.items():
        name = system.replace("_", " ") + (f" on {joint}" if joint else "")
        cells = [share(by_task[t]).rstrip("†") if t in by_task else MISSING for t in TASKS]
        sheet.add("this run", name, *cells)
        first = next(iter(by_task.values()))
        if joint or system != first.first.system:  # a row with settings of its own has no such name
            continue
        script = "train.py" if _trained(first) else "evaluate.py"
        for task in TASKS:
            # A command is for pasting into a shell: only names of the project's own configs get into one.
            rule = f"sanity/{system}" if system in {r.name for r in rules_for(task)} else system
            if task not in by_task and rule in _options("model") and f"{family}/{task}" in _options("data"):
                command = f"python {script} data={family}/{task} model={rule}"
                found.missing.append((f"{family}, {name}, {_TASK_NAMES[task]}", command))
    if rows:
        sheet.remark = "Nothing published is about these questions."
        found.sheets.append(sheet)


@lru_cache(maxsize=2)
def _options(group: str) -> frozenset[str]:
    folder = CONF / group
    return frozenset(str(path.relative_to(folder).with_suffix("")) for path in folder.rglob("*.yaml"))


def _trained(entry: Entry) -> bool:
    return any(key.startswith("model.optimizer.") for key in entry.first.settings)


# ----------------------------------------------------------------------------------------------------------- Recipe1M


def _recipe1m(sections: list[Section], found: Rebuilt) -> None:
    """Median ranks and R@K of both directions in the official pools, the layout of every paper since 2017."""
    entries = [e for s in sections if s.kind == "retrieval" for e in s.entries if e.first.official]
    columns = ("system", *(rank_head(d, k) for d in DIRECTIONS for k in RANK_KEYS))
    for pool, size in (("1k", "1,000"), ("10k", "10,000")):
        sheet = Sheet(f"Recipe1M test, ten pools of {size}: medR, and R@K in %", columns, (0,))
        for system, row in _published_ranks(pool).items():
            sheet.add("published", system, *row)
        used: set[int] = set()
        for name, (title, model, loss) in _RECIPE1M.items():
            ours = [e for e in entries if pool in e.first.pools and _experiment(e) == (model, loss)]
            used |= {id(e) for e in ours}
            for entry in ours:
                sheet.add("this run", f"{title}, here", *_ranks(entry, pool))
            if not ours:
                sheet.add("this run", f"{title}, here", *[MISSING] * 8)
                found.missing.append(
                    (f"Recipe1M {pool}, {title}", f"python train.py experiment=recipe1m/{name} data.root=DIR")
                )
        for entry in entries:
            if id(entry) not in used and pool in entry.first.pools:
                sheet.add("this run", f"{entry.system.replace('_', ' ')}, here", *_ranks(entry, pool))
        sheet.remark = "i→r: the image is the query. Sources and remarks: conf/published/recipe1m.yaml."
        found.sheets.append(sheet)


def _experiment(entry: Entry) -> tuple[str, str]:
    loss = str(entry.first.settings.get("model.loss.ranking._target_", "")).rpartition(".")[2]
    return entry.first.system, loss


def _published_ranks(pool: str) -> dict[str, list[str]]:
    rows: dict[str, list[str]] = {}
    for place, direction in enumerate(DIRECTIONS):
        for found in published_retrieval_rows(pool, direction):
            marks = (f", {found['year']}" if found["year"] else "") + ("" if found["confirmed"] else " (unconfirmed)")
            marks += "" if found["medR_base"] else " (ranks from 0)"
            cells = rows.setdefault(found["system"] + marks, [MISSING] * 8)
            for i, key in enumerate(RANK_KEYS):
                if found[key] is not None:
                    cells[place * 4 + i] = f"{found[key]:.1f}"
    return rows


def _ranks(entry: Entry, pool: str) -> list[str]:
    return [rank_cell(entry, pool, d, k) for d in DIRECTIONS for k in RANK_KEYS]


def rank_cell(entry: Entry, pool: str, direction: str, key: str) -> str:
    """Mean ± deviation over seeds; R@K in per cent."""
    if any(pool not in r.pools for r in entry.results):
        return MISSING
    mean, sd, _ = entry.rank(pool, direction, key)
    scale = 1 if key == "medR" else 100
    return f"{mean * scale:.1f}" + ("" if sd is None else f" ± {sd * scale:.1f}")


def rank_head(direction: str, key: str) -> str:
    """Head of a column: i→r medR, r→i R@10."""
    return f"{'i→r' if direction == DIRECTIONS[0] else 'r→i'} {key if key == 'medR' else key.replace('R', 'R@')}"


# ----------------------------------------------------------------------------------------------------------- FoodieQA


@lru_cache(maxsize=1)
def food_experiments() -> dict[tuple[str, str, str, str], tuple[str, str]]:
    """(published system, task, language, ablation) -> (experiment, model's name), of conf/experiment/foodieqa.

    A file's first comment begins with the paper's name of the system.
    """
    from omegaconf import OmegaConf

    found = {}
    tasks = {data: task for task, data in _FOOD_DATA.items()}
    for path in sorted((EXPERIMENTS / "foodieqa").glob("*.yaml")):
        comment = next(line for line in path.read_text(encoding="utf-8").splitlines()[1:] if line.startswith("# "))
        config: Any = OmegaConf.to_container(OmegaConf.load(path))
        data = next(d["override /data"] for d in config["defaults"] if isinstance(d, dict) and "override /data" in d)
        ablation = config["asking"].get("ablation", "none")
        key = (comment[2:].partition(",")[0], tasks[data], config["data"]["language"], ablation)
        found[key] = (f"foodieqa/{path.stem}", config["model"]["name"])
    return found


def _foodieqa(sections: list[Section], found: Rebuilt) -> None:
    """Tables 3, 4 and 5 and the list of text models of Li et al. 2024 (arXiv 2406.11030)."""
    own = [s for s in sections if s.kind == "food"]
    cells = [("mivqa", "zh"), ("mivqa", "en"), ("sivqa", "zh"), ("sivqa", "en")]
    _best_of_four("FoodieQA, table 3 (arXiv 2406.11030): accuracy in %", cells, own, found)
    name = "FoodieQA, text questions (figure 7 of arXiv 2406.11030): accuracy in %"
    _best_of_four(name, [("textqa", "zh")], own, found)
    _by_prompt("table 4", ["Idefics2-8B"], ["dish_name_only_textqa", "dish_name"], own, found)
    _by_prompt("table 5", ["Yi-VL-6B", "Yi-VL-34B", "Idefics2-8B"], ["none", "dish_name"], own, found)


def _best_of_four(title: str, cells: list[tuple[str, str]], own: list[Section], found: Rebuilt) -> None:
    columns = ("system", *(f"{t} {lang}, {what}" for t, lang in cells for what in ("published", "here")))
    sheet = Sheet(title, columns, (0,))
    rows = {(t, lang): {r["system"]: r for r in published_food_rows(t, lang)} for t, lang in cells}
    systems = list(dict.fromkeys(name for found_rows in rows.values() for name in found_rows))
    systems.sort(key=lambda name: name != "human")
    used: set[int] = set()
    for system in systems:
        line = []
        for task, language in cells:
            row = rows[(task, language)].get(system)
            line.append(MISSING if row is None else f"{row['accuracy']:.2f}")
            if system == "human" or row is None:
                line.append("")
                continue
            entry = _food_entry(own, system, task, language, "none")
            line.append(MISSING if entry is None else _best(entry))
            if entry is None:
                where = f"{title.partition(' (')[0]}, {system}, {task} {language}"
                found.missing.append((where, _food_command(system, task, language, "none")))
            else:
                used.add(id(entry))
        sheet.add("published", system, *line)
    others: dict[str, dict[tuple[str, str], Entry]] = {}
    for section in own:
        task, language, *ablation = section.task.split("/")
        for entry in section.entries:
            if (task, language) in cells and not ablation and id(entry) not in used and entry.first.official:
                others.setdefault(entry.system, {})[(task, language)] = entry
    for system, by_cell in others.items():
        sheet.add(
            "this run", system, *(c for key in cells for c in ("", _best(by_cell[key]) if key in by_cell else MISSING))
        )
    sheet.remark = (
        "Published: the best of four prompts, chosen on the test questions; here: the best prompt (mean of all)."
    )
    found.sheets.append(sheet)


def _by_prompt(table: str, systems: list[str], ablations: list[str], own: list[Section], found: Rebuilt) -> None:
    from engine.food_published import published_ablations

    columns = ("system", "shown", *(f"prompt {i}, {what}" for i in range(4) for what in ("published", "here")))
    sheet = Sheet(
        f"FoodieQA, {table} (arXiv 2406.11030): single-image questions, Chinese, accuracy in %", columns, (0, 1)
    )
    for system in systems:
        for ablation in ablations:
            published = published_ablations(system, ablation)
            entry = _food_entry(own, system, "sivqa", "zh", ablation)
            ours = entry.first.prompts if entry is not None and len(entry.first.prompts) == 4 else None
            cells = [
                f"{published[i]:.2f}" if j == 0 else MISSING if ours is None else f"{ours[i] * 100:.2f}"
                for i in range(4)
                for j in (0, 1)
            ]
            sheet.add("published", system, _ABLATIONS[ablation], *cells)
            if ours is None:
                where = f"FoodieQA, {table}, {system}, {_ABLATIONS[ablation]}"
                found.missing.append((where, _food_command(system, "sivqa", "zh", ablation)))
    found.sheets.append(sheet)


def _food_entry(own: list[Section], system: str, task: str, language: str, ablation: str) -> Entry | None:
    """The row of this system on the release itself, by the model's name in its experiment."""
    names = {system.lower()} | {
        model.rpartition("/")[2].lower() for (name, *_), (_, model) in food_experiments().items() if name == system
    }
    place = f"{task}/{language}" + ("" if ablation == "none" else f"/{ablation}")
    entries = [e for section in own if section.task == place for e in section.entries]
    return _chosen([e for e in entries if e.first.official and e.first.system.rpartition("/")[2].lower() in names])


def _best(entry: Entry) -> str:
    best = max(r.best for r in entry.results if r.best is not None)
    return f"{best * 100:.2f} ({entry.mean * 100:.2f})"


def _food_command(system: str, task: str, language: str, ablation: str) -> str:
    experiment = food_experiments().get((system, task, language, ablation))
    if experiment is not None:
        return f"python evaluate.py experiment={experiment[0]} data.root=DIR"
    command = (
        f"python evaluate.py data={_FOOD_DATA[task]} data.language={language} model=vlm/transformers model.name=NAME"
    )
    return (
        command
        + ("" if ablation == "none" else f" asking.ablation={ablation}")
        + " data.root=DIR  # no experiment file yet"
    )
