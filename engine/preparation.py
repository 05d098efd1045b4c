"""`prepare.py`: the work ahead of training, as commands."""

from pathlib import Path
from typing import Any

from omegaconf import DictConfig
from rich.console import Console

from data.choice import training_texts
from data.errors import InputError
from data.text import neighbour_table
from engine.build import build_data
from engine.report import make_console, say


def prepare(cfg: DictConfig) -> None:
    """Run `task=all | download | check | neighbours`; InputError says what is missing or wrong."""
    tasks = {"all": _everything, "download": _download, "check": _check, "neighbours": _neighbours}
    if cfg.task not in tasks:
        raise InputError(f"task={cfg.task}: choose among {', '.join(tasks)}")
    tasks[cfg.task](cfg, make_console())


def _everything(cfg: DictConfig, console: Console) -> None:
    data = build_data(cfg)
    data.prepare()
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

    data = build_data(cfg)
    images: Any = cfg.data.images or cfg.data.root
    report = check_recipeqa(data.files(), Path(images) if images else None)
    render(report, console)


def _neighbours(cfg: DictConfig, console: Console) -> None:
    data = build_data(cfg)
    data.prepare(["train"])
    assert data.encoder is not None
    corpus = training_texts(data.read("train"))
    if cfg.text_query is None:
        console.print(neighbour_table(str(cfg.word), data.encoder.nearest_words(str(cfg.word), int(cfg.neighbours))))
    query = str(cfg.text_query or next((text for text in corpus if str(cfg.word) in text.lower()), corpus[0]))
    store = data.text_store(corpus)
    nearest = data.encoder.nearest_texts(query, corpus, store.array[store.rows(corpus)], int(cfg.neighbours))
    console.print(neighbour_table(query, nearest))
