"""Scores -> numbers: one path for trained networks and for systems that need no training."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytorch_lightning as pl
from omegaconf import DictConfig
from tqdm import tqdm

from data.choice import ChoiceData
from data.records import TASKS, Question
from models.choice import ChoiceTask
from models.hasty_student import HastyStudent
from models.metrics import clustered_wilson, collapsed, expected_correct, paired_permutation, predict, wilson_interval
from models.sanity import rules_for

CHANCE = 0.25  # every question of every task has four choices and one right answer
Row = dict[str, Any]


def test_trainer(cfg: DictConfig) -> pl.Trainer:
    """A trainer on one device: several would repeat questions to fill up, so their numbers would not be exact."""
    return pl.Trainer(
        accelerator=cfg.trainer.accelerator,
        devices=1,
        precision=cfg.trainer.precision,
        logger=False,
        enable_checkpointing=False,
        enable_model_summary=False,
        enable_progress_bar=False,
    )


def network_scores(trainer: pl.Trainer, module: ChoiceTask, data: ChoiceData, split: str) -> np.ndarray:
    """(N, 4) scores of a trained network for all questions of a split, in the order of the file."""
    scores = np.full((len(data.questions[split]), 4), np.nan)
    loader = tqdm(data.loader(split, whole=True), desc="scoring", unit=" batches", leave=False)
    for part in trainer.predict(module, dataloaders=loader) or []:
        scores[np.asarray(part["index"])] = np.asarray(part["scores"])  # pyright: ignore[reportArgumentType,reportCallIssue]
    return scores


def by_task(questions: Sequence[Question]) -> dict[str, np.ndarray]:
    """Rows of each task's questions, tasks in their fixed order."""
    tasks = np.asarray([q.task for q in questions])
    return {task: np.flatnonzero(tasks == task) for task in TASKS if (tasks == task).any()}


def assess(questions: Sequence[Question], scores: np.ndarray, unreadable: int = 0) -> Row:
    """Accuracy of one task with its 95 % interval.

    Args:
        questions: the N questions, of one task.
        scores: (N, K); ties at the top share the point (the expected value of guessing among them).
        unreadable: questions of the file that could not be read: they count as wrong.

    Returns:
        accuracy, n, interval, interval_kind, recipes, collapsed (share of questions whose scores are all equal).
    """
    answer = np.asarray([q.answer for q in questions])
    credit = np.concatenate([expected_correct(scores, answer).numpy(), np.zeros(unreadable)])
    clusters = _clusters(questions, unreadable)
    recipes = len(np.unique(clusters))
    shared = recipes < len(credit)
    low, high = clustered_wilson(credit, clusters) if shared else wilson_interval(float(credit.sum()), len(credit))
    return {
        "accuracy": float(credit.mean()),
        "n": len(credit),
        "interval": [float(low), float(high)],
        "interval_kind": "Wilson 95 %, clustered by recipe" if shared else "Wilson 95 %",
        "recipes": recipes,
        "collapsed": float(collapsed(scores)),
    }


def compare(questions: Sequence[Question], scores: np.ndarray, other: np.ndarray, seed: int) -> Row:
    """Difference in accuracy of two systems on the same questions and its p-value (paired, permuted by recipe)."""
    answer = np.asarray([q.answer for q in questions])
    a, b = expected_correct(scores, answer).numpy(), expected_correct(other, answer).numpy()
    p = paired_permutation(a, b, _clusters(questions), seed=seed)
    return {"difference": float(a.mean() - b.mean()), "p": float(p)}


def baseline_rows(data: ChoiceData, split: str, task: str, transductive: bool, scored: str = "") -> list[Row]:
    """Chance, Hasty Student and the trivial rules on one task's questions, each with `scores` (N, 4).

    Rules that count something are fitted on the training questions where the run has them; with `transductive` they
    are also fitted on the evaluated file itself, and marked so. The system `scored` itself is left out.
    """
    questions = [q for q in data.questions[split] if q.task == task]
    unreadable = data.unreadable[split].get(task, 0)
    rows: list[Row] = []
    material: dict[str, Any] = {}

    def add(system: str, kind: str, scores: np.ndarray, note: str = "") -> None:
        rows.append(
            {"system": system, "kind": kind, "note": note, "scores": scores, **assess(questions, scores, unreadable)}
        )

    if scored != "hasty_student":
        add("Hasty Student", "baseline", HastyStudent().score(questions, data.vectors))
    for rule in tqdm(rules_for(task), desc="baselines", unit=" rules", leave=False):
        if rule.name == "chance":
            continue  # known without counting
        note = ""
        if rule.fitted_on is not None:
            if rule.fitted_on == "evaluated" and not transductive:
                continue
            if rule.fitted_on not in material:
                material[rule.fitted_on] = data.all_questions(split if rule.fitted_on == "evaluated" else "train")
            if material[rule.fitted_on] is None:  # the training file is not at hand
                continue
            rule.fit(material[rule.fitted_on], data.vectors)
            note = "transductive" if rule.fitted_on == "evaluated" else "fitted on train"
        add(rule.name, "sanity", rule.score(questions, data.vectors), note)
    return rows


def prediction_rows(questions: Sequence[Question], scores: np.ndarray, seed: int) -> list[Row]:
    """`predictions.jsonl`: qid, recipe, task, scores, prediction (ties broken by a seeded rule), answer."""
    chosen = predict(scores, np.arange(len(questions)), seed)
    return [
        {
            "qid": q.qid,
            "recipe": q.recipe_id,
            "task": q.task,
            "scores": [float(s) for s in row],
            "prediction": int(p),
            "answer": q.answer,
        }
        for q, row, p in zip(questions, scores, chosen, strict=True)
    ]


def _clusters(questions: Sequence[Question], unreadable: int = 0) -> np.ndarray:
    names = [q.recipe_id for q in questions] + [f"\0unreadable {i}" for i in range(unreadable)]
    return np.unique(np.asarray(names), return_inverse=True)[1]
