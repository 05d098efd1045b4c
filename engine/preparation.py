"""`prepare.py`: the work ahead of training, as commands."""

from pathlib import Path
from typing import Any

from hydra.utils import instantiate
from omegaconf import DictConfig
from rich.console import Console

from data.checksums import check_sums, write_sums
from data.choice import training_texts
from data.errors import InputError
from data.recipe1m import find_lists
from data.retrieval import RetrievalData
from data.text import neighbour_table
from data.vocabulary import ingredient_elements
from engine.build import FOOD, RETRIEVAL
from engine.console import make_console, say

SHOWN = 20  # damaged files in the terminal
WORDS_AT_ONCE = 50_000  # recipes whose word vectors are made within minutes


def prepare(cfg: DictConfig) -> None:
    """Run one `task` of conf/prepare.yaml; InputError says what is missing or wrong."""
    if cfg.data._target_ == FOOD or cfg.task == "dish_questions":
        from engine.food_preparation import dish_questions, food_check, food_statistics, prepare_food

        tasks = {"all": prepare_food, "check": food_check, "statistics": food_statistics}
        tasks["dish_questions"] = dish_questions
    else:
        tasks = {"all": _everything, "download": _download, "check": _check, "neighbours": _neighbours}
        tasks["questions"] = _questions
    tasks["checksums"] = _write_checksums
    if cfg.task not in tasks:
        raise InputError(f"task={cfg.task}: for data={cfg.data.name} choose among {', '.join(tasks)}")
    if cfg.task == "check":
        _compare_checksums(cfg, make_console())
    tasks[cfg.task](cfg, make_console())


def _folders(cfg: DictConfig) -> list[Path]:
    """The folders of the user's own files that the config names."""
    found = [Path(str(cfg.data[key])) for key in ("root", "images") if cfg.data.get(key)]
    return [folder for folder in dict.fromkeys(found) if folder.is_dir()]


def _write_checksums(cfg: DictConfig, console: Console) -> None:
    """List the files as they are now, so that every later damage is told."""
    folders = _folders(cfg)
    if not folders:
        raise InputError("task=checksums: say of which folder with data.root=<folder>")
    for folder in folders:
        say(console, f"{folder / 'SHA256SUMS'}: {write_sums(folder)} files; compared when read, all by task=check")


def _compare_checksums(cfg: DictConfig, console: Console) -> None:
    """InputError after a list of the files that are not what SHA256SUMS says."""
    for folder in _folders(cfg):
        if not (folder / "SHA256SUMS").is_file():
            continue
        problems = check_sums(folder)
        for problem in problems[:SHOWN]:
            console.print(problem, markup=False, soft_wrap=True)
        if problems:
            raise InputError(
                f"{folder}: {len(problems)} files are absent or damaged, the first {SHOWN} are listed above; fetch "
                "them again, or run task=checksums if the change is on purpose"
            )
        say(console, f"{folder}: every file has its checksum")


def _questions(cfg: DictConfig, console: Console) -> None:
    from engine.question_preparation import make_questions

    make_questions(cfg, console)


def _everything(cfg: DictConfig, console: Console) -> None:
    data = instantiate(cfg.data)
    data.prepare()
    if isinstance(data, RetrievalData):
        say(console, f"recipes: {data.open().folder}")
    else:
        for split, path in data.files().items():
            say(console, f"{split}: {path}")
    say(console, data.summary())
    for note in data.notes:
        say(console, f"note: {note}")


def _download(cfg: DictConfig, console: Console) -> None:
    from data.build.download import download

    if not str(cfg.data.name).startswith("recipeqa/"):
        raise InputError(
            f"task=download: nothing to download for data={cfg.data.name}; choose data=recipeqa/textual_cloze"
        )
    if cfg.data.root is None:
        raise InputError("task=download: say where to with data.root=<folder>")
    report = download(Path(cfg.data.root))
    console.print(str(report))
    if report.missing:
        raise InputError(
            f"data.root={cfg.data.root}: still missing {', '.join(map(str, report.missing))}; run the same command "
            "again to go on, or put the files there by hand"
        )


def _check(cfg: DictConfig, console: Console) -> None:
    from data.build.check import check_recipeqa, render

    data = instantiate(cfg.data)
    if isinstance(data, RetrievalData):
        return _check_retrieval(data, console)
    images: Any = cfg.data.images or cfg.data.root
    report = check_recipeqa(data.files(), Path(images) if images else None)
    render(report, console)
    folder = Path(cfg.data.root) if cfg.data.root else None
    if folder is not None and (folder / "report.json").is_file() and (folder / "manifest.json").is_file():
        _check_made(folder, console)


def _check_made(folder: Path, console: Console) -> None:
    """What a question set made here promises of itself: checksums, splits without a common recipe, four choices."""
    from data.build.check_set import check_set

    problems = check_set(folder)["problems"]
    for problem in problems:
        console.print(problem, markup=False, soft_wrap=True)
    if problems:
        raise InputError(f"{folder}: {len(problems)} promises of the set are not kept, listed above; make it anew")
    say(console, f"{folder}: made here, and all that it promises holds")


def _check_retrieval(data: RetrievalData, console: Console) -> None:
    from data.build.check_recipes import check_recipes, render
    from data.build.released import Recipe1M

    source = data.source
    if not isinstance(source, Recipe1M):
        raise InputError(f"task=check: nothing to check for data={data.name}, its recipes are installed; use recipe1m")
    if data.root is None:
        source.table(None, data.cache)  # says what is needed
    vocabulary = source.vocabulary(data.root)
    if vocabulary is None:
        try:
            table = data.open()
            if len(table) <= WORDS_AT_ONCE:
                data.fit_words()
                vocabulary = data.vocabulary
            else:
                say(console, "coverage by made word vectors is left out of so many recipes; prepare.py makes them")
        except InputError:
            vocabulary = None  # the report says what is wrong with the files
    rules = data.text_settings.rules
    report = check_recipes(
        str(data.root),
        data.cache,
        plus=source.plus,
        ingredients=source.filters.ingredients,
        filters=source.filters,
        lists=find_lists(data.lists) if data.lists else None,
        vocabulary=vocabulary,
        elements=lambda recipe: ingredient_elements(recipe, rules),
    )
    if report["error"]:
        raise InputError(report["error"])
    render(report, console)


def _neighbours(cfg: DictConfig, console: Console) -> None:
    if cfg.data._target_ == RETRIEVAL:
        raise InputError(f"task=neighbours: looks into Doc2Vec, which data={cfg.data.name} does not use")
    data = instantiate(cfg.data)
    data.prepare(["train"])
    assert data.encoder is not None
    corpus = training_texts(data.read("train"))
    if cfg.text_query is None:
        console.print(neighbour_table(str(cfg.word), data.encoder.nearest_words(str(cfg.word), int(cfg.neighbours))))
    query = str(cfg.text_query or next((text for text in corpus if str(cfg.word) in text.lower()), corpus[0]))
    store = data.text_store(corpus)
    nearest = data.encoder.nearest_texts(query, corpus, store.array[store.rows(corpus)], int(cfg.neighbours))
    console.print(neighbour_table(query, nearest))
