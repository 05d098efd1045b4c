"""`evaluate.py`: score a split, a file, or one question."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from omegaconf import DictConfig
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from data.choice import ChoiceData
from data.errors import InputError
from data.recipeqa import export_official, read_questions
from data.records import Question
from data.retrieval import RetrievalData
from engine.attention import element_labels, like_weights, plot_attention, query_of
from engine.build import (
    RETRIEVAL,
    build_data,
    build_model,
    is_trained,
    load_weights,
    seed_all,
    tracking,
    with_checkpoint_config,
)
from engine.checkpoints import load_checkpoint
from engine.choice_folds import score_choice_folds
from engine.console import folder_name, make_console, say
from engine.folds import score_folds
from engine.gallery import INDICES
from engine.launch import command_overrides
from engine.report import publish
from engine.retrieval import evaluate_released, evaluate_retrieval, score_file
from engine.runfolder import plain, write_json, write_provenance
from engine.scoring import by_task, network_scores, prediction_rows, test_trainer
from models.ranks import TIES


def evaluate(cfg: DictConfig) -> float | None:
    """Score a checkpoint, a system that is not trained, or embeddings made elsewhere.

    Returns the accuracy over all questions scored, or medR of image_to_recipe.

    Raises:
        InputError: wrong data, config or checkpoint.
    """
    console = make_console()
    overrides = command_overrides()
    _check_settings(cfg)
    if cfg.embeddings or cfg.folds or cfg.released:
        given = ["ckpt_path", "embeddings", "folds", "released"]
        if sum(bool(cfg[key]) for key in given) > 1:
            raise InputError(f"{' and '.join(key for key in given if cfg[key])}: give one of them")
        if cfg.released:
            return evaluate_released(cfg, overrides, console)
        if cfg.embeddings:
            return score_file(cfg, console)
        retrieval = any(Path(cfg.folds).glob("*/embeddings_test.npz"))
        return score_folds(cfg, console) if retrieval else score_choice_folds(cfg, console)
    checkpoint = None
    if cfg.ckpt_path:
        checkpoint = load_checkpoint(cfg.ckpt_path)
        cfg = with_checkpoint_config(cfg, checkpoint, overrides, training=False)
    elif is_trained(cfg):
        raise InputError(
            f"model={cfg.model.name} must be trained: give ckpt_path=runs/.../checkpoints/best.ckpt"
            + ("" if cfg.data._target_ == RETRIEVAL else ", or choose model=hasty_student, which needs no training")
        )
    if cfg.split not in ("val", "test"):
        raise InputError(f"split={cfg.split}: choose val or test")
    seed_all(cfg)
    origin = str(cfg.ckpt_path)
    kind = RetrievalData if cfg.data._target_ == RETRIEVAL else ChoiceData
    if checkpoint is not None and kind.__qualname__ not in checkpoint:  # Lightning's name for the data module's state
        raise InputError(
            f"{origin}: carries no vocabulary, so it cannot score by itself; use best.ckpt or last.ckpt of a run"
        )
    data = build_data(cfg, checkpoint[kind.__qualname__] if checkpoint is not None else None, origin)
    foreign = ("question", "export") if kind is RetrievalData else ("query", "gallery")
    for key in foreign:
        if cfg[key]:
            raise InputError(f"{key}={cfg[key]}: is nothing for data={cfg.data.name}; leave it out")
    if kind is RetrievalData:
        assert checkpoint is not None
        return evaluate_retrieval(cfg, data, checkpoint, overrides, console)
    if cfg.question:
        return _ask(cfg, data, checkpoint, origin, console)
    data.prepare([cfg.split])
    model = build_model(cfg, data)
    if checkpoint is not None:
        load_weights(model, checkpoint, origin)
        scores = network_scores(test_trainer(cfg), model, data, cfg.split)
    else:
        scores = _untrained_scores(model, data, cfg.split)
    folder = Path(cfg.output_dir)
    folder.mkdir(parents=True, exist_ok=True)
    if checkpoint is not None:
        plot_attention(folder, model, data, cfg.split, scores, int(cfg.seed))
    config = plain(cfg)
    write_provenance(folder, config, overrides, data.provenance())
    with tracking(cfg, config) as loggers:
        metrics = publish(cfg, folder, data, cfg.split, scores, loggers, console)
    if cfg.export:
        _export(cfg, folder, data, scores, console)
    return metrics[f"{cfg.split}/accuracy"]


def _check_settings(cfg: DictConfig) -> None:
    for key, allowed in (("ties", TIES), ("index", INDICES)):
        if cfg[key] not in allowed:
            raise InputError(f"{key}={cfg[key]}: choose {', '.join(allowed)}")
    if not isinstance(cfg.k, int) or cfg.k < 1:
        raise InputError(f"k={cfg.k}: must be a whole number of at least 1")
    if cfg.gallery and not cfg.query:
        raise InputError(f"gallery={cfg.gallery}: is what a query is ranked among; give query= with it")


def _untrained_scores(model: Any, data: ChoiceData, split: str) -> np.ndarray:
    """Scores of a system without weights, task by task; rules that count are given what they count first."""
    reading = getattr(model, "fitted_on", None)
    if reading is not None:
        if reading == "evaluated":
            data.note("transductive: the rule uses the evaluated file's own statistics; not to be compared with models")
        model.fit(data.read(split if reading == "evaluated" else "train"), data.vectors)
    questions = data.questions[split]
    scores = np.zeros((len(questions), 4))
    for rows in by_task(questions).values():
        scores[rows] = model.score([questions[i] for i in rows], data.vectors)
    return scores


def _export(cfg: DictConfig, folder: Path, data: ChoiceData, scores: np.ndarray, console: Console) -> None:
    """The order-based file of the official scorer; the order is read from the truth file now."""
    if cfg.export != "official":
        raise InputError(f"export={cfg.export}: choose official, or leave it out")
    truth = data.files().get(cfg.split)
    if truth is None:
        raise InputError(f"export=official: needs the file of the split {cfg.split}; give data.{cfg.split}_file=")
    rows = prediction_rows(data.questions[cfg.split], scores, int(cfg.seed))
    predictions: dict[str, int | None] = {row["qid"]: row["prediction"] for row in rows}
    predictions |= {record.qid: None for record in data.reports[cfg.split].skipped}  # unreadable: wrong
    write_json(folder / "official.json", export_official(predictions, truth))
    say(console, f"wrote official.json into {folder_name(folder)}")


def _ask(
    cfg: DictConfig, data: ChoiceData, checkpoint: dict[str, Any] | None, origin: str, console: Console
) -> float | None:
    """Answer one question of a file and show where the reader looked."""
    path = Path(cfg.question)
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(
            f"question={path}: cannot be read ({error}); give a JSON file with one question record"
        ) from None
    if isinstance(found, dict) and "data" not in found:
        single = Path(cfg.output_dir) / "question.json"
        write_json(single, {"data": [{"split": "test", "videos": [], **found}]})
        path = single
    try:
        questions, _ = read_questions(path)
    except InputError as error:
        raise InputError(str(error).replace(str(path), str(cfg.question))) from None
    if len(questions) != 1:
        raise InputError(f"question={path}: holds {len(questions)} questions; give exactly one")
    question = questions[0]
    if question.task not in data.tasks:
        raise InputError(
            f"question={cfg.question}: a {question.task} question, but the model answers {', '.join(data.tasks)}; give "
            "one of those, or another ckpt_path="
        )
    data.given["test"] = str(path)
    data.prepare(["test"])
    model = build_model(cfg, data)
    attention = None
    if checkpoint is not None:
        load_weights(model, checkpoint, origin)
        model.eval()
        with torch.inference_mode():
            output = model(like_weights(data.encoded["test"].batch([0]), model))
        scores = output["scores"][0].double().numpy()
        attention = output.get("attention")
    else:
        scores = model.score([question], data.vectors)[0]
    best = int(np.argmax(scores))
    table = Table(title=f"{question.task} {question.qid}", title_justify="left", header_style="bold")
    for column in ("choice", "score", "", "text or image"):
        table.add_column(column, justify="right" if column in ("choice", "score") else "left", overflow="fold")
    for k, choice in enumerate(question.choices):
        marks = " ".join(filter(None, ["chosen" if k == best else "", "right" if k == question.answer else ""]))
        table.add_row(
            str(k), f"{scores[k]:+.4f}", marks, escape(" | ".join(choice)), style="green" if k == best else ""
        )
    console.print(table)
    result = {"qid": question.qid, "scores": scores.tolist(), "prediction": best, "answer": question.answer}
    if attention is not None:
        weights = attention[0].double().numpy()
        weights = weights[best] if weights.ndim == 3 else weights  # ordering attends once for each order
        result["attention"] = weights.tolist()
        console.print(_attention_table(question, weights, data))
        shown = [" ".join(element.split()) for element in query_of(question, best)]
        for number, element in enumerate(shown, 1):
            console.print(f"q{number}: {escape(element[:100])}", style="dim")
    write_json(Path(cfg.output_dir) / "answer.json", result)
    return None


def _attention_table(question: Question, weights: np.ndarray, data: ChoiceData) -> Table:
    """One row for each document element, one column for each query element; weights (Q, T) in per cent."""
    labels = [label[:64] for label in element_labels(question, data)]
    table = Table(
        title="attention over the recipe, % for each query element", title_justify="left", header_style="bold"
    )
    table.add_column("step", overflow="ellipsis", no_wrap=True)
    for q in range(weights.shape[0]):
        table.add_column(f"q{q + 1}", justify="right")
    for t in range(weights.shape[1]):
        label = labels[t] if labels else "(no text)"
        cells = [
            f"[bold]{w * 100:.0f}[/bold]" if w == weights[q].max() else f"{w * 100:.0f}"
            for q, w in enumerate(weights[:, t])
        ]
        table.add_row(escape(label), *cells)
    return table
