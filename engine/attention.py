"""Where a reader looked: its attention over the recipe, as labels and as a picture."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import torch

from data.choice import ChoiceData
from data.encoding import step_text
from data.files import atomic_file
from data.records import PLACEHOLDER, Question
from models.metrics import predict

SHOWN_QUESTIONS = 4
SHOWN_ELEMENTS = 30
_SHORT = 40  # characters of a label in the picture


def query_of(question: Question, chosen: int) -> tuple[str, ...]:
    """What the reader asked with: the question's elements, or in ordering the order that was chosen."""
    return question.choices[chosen] if question.task == "visual_ordering" else question.question


def element_labels(question: Question, data: ChoiceData) -> list[str]:
    """One label for each element of the document the reader saw: numbered step texts, names of pictures below them."""
    labels = []
    for i, step in enumerate(question.context, 1):
        # Where evidence is weighed, a title may stand on an empty step too; else no element shows it.
        if step_text(step) or data.evidence is not None:
            labels.append(f"{i}. {' '.join(step_text(step).split())}")
        if data.multimodal and question.task == "textual_cloze":
            shown = step.images or ()
            labels += [f"   {name}" for name in (shown if data.images_per_step == "all" else shown[:1])]
    return labels


def like_weights(batch: dict[str, Any], model: Any) -> dict[str, Any]:
    """The batch in the precision of the model's weights, where no trainer hands it over."""
    dtype = next(model.parameters()).dtype
    return {k: v.to(dtype) if torch.is_tensor(v) and v.is_floating_point() else v for k, v in batch.items()}


def plot_attention(folder: Path, model: Any, data: ChoiceData, split: str, scores: np.ndarray, seed: int) -> str | None:
    """Draw `attention.png`: for two questions answered right and two answered wrong, drawn by the seed, a heat map.

    Rows are the document's elements in their order, columns the query's; a column sums to 100 %.

    Args:
        folder: run folder.
        model: `model(batch)` may return `attention`, (B, Q, T) or (B, K, Q, T); without it nothing is drawn.
        data: its `questions[split]` are the N questions.
        split: of the questions.
        scores: (N, K) of the questions.
        seed: of the choice among them, and of ties.

    Returns:
        The file's name, or None.
    """
    questions = data.questions[split]
    chosen = np.asarray(predict(scores, np.arange(len(questions)), seed))
    right = chosen == np.asarray([q.answer for q in questions])
    drawn = np.random.default_rng(seed).permutation(len(questions))
    half = SHOWN_QUESTIONS // 2
    rows = [*drawn[right[drawn]][:half], *drawn[~right[drawn]][:half]]
    panels = []
    model.eval()
    for row in map(int, rows):
        with torch.inference_mode():
            attention = model(like_weights(data.encoded[split].batch([row]), model)).get("attention")
        if attention is None:
            return None
        weights = attention[0].double().cpu().numpy()
        weights = weights[chosen[row]] if weights.ndim == 3 else weights  # ordering attends once for each order
        labels = element_labels(questions[row], data) or ["(no text)"]
        if weights.shape != (len(query_of(questions[row], 0)), len(labels)):
            return None  # of a model that attends to something else
        panels.append((questions[row], int(chosen[row]), weights, labels))
    if not panels:
        return None
    _draw(folder / "attention.png", panels)
    return "attention.png"


def _draw(path: Path, panels: list[tuple[Question, int, np.ndarray, list[str]]]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    lines = max(min(weights.shape[1], SHOWN_ELEMENTS) for _, _, weights, _ in panels)
    columns = min(2, len(panels))
    height = -(-len(panels) // columns) * (2.6 + 0.21 * lines)
    figure, axes = plt.subplots(
        -(-len(panels) // columns), columns, figsize=(6.2 * columns, height), layout="constrained", squeeze=False
    )
    for axis in axes.flat[len(panels) :]:
        axis.set_axis_off()
    top = max(float(weights.max()) for _, _, weights, _ in panels)
    image = None
    for axis, (question, chosen, weights, labels) in zip(axes.flat, panels, strict=False):
        shown = weights[:, :SHOWN_ELEMENTS].T  # (T, Q)
        image = axis.imshow(shown, cmap="Blues", vmin=0, vmax=top, aspect="auto")
        for t, q in np.ndindex(*shown.shape):
            colour = "white" if shown[t, q] > 0.6 * top else "0.25"
            axis.text(q, t, f"{shown[t, q] * 100:.0f}", ha="center", va="center", fontsize=7.5, color=colour)
        left_out = len(labels) - len(shown)
        axis.set_yticks(range(len(shown)), [_short(label) for label in labels[: len(shown)]], fontsize=8)
        axis.set_xticks(range(shown.shape[1]), [f"q{q + 1}" for q in range(shown.shape[1])], fontsize=9)
        axis.xaxis.tick_top()
        axis.tick_params(length=0)
        axis.spines[:].set_visible(False)
        verdict = "right" if chosen == question.answer else "wrong"
        axis.set_title(f"{_short(question.qid)}, answered {verdict}", fontsize=10, loc="left")
        said = [f"q{i}: {_short(text, 52)}" for i, text in enumerate(query_of(question, chosen), 1)]
        if question.task != "visual_ordering":
            said.append(f"chosen: {_short(' | '.join(question.choices[chosen]), 52)}")
            if verdict == "wrong":
                said.append(f"right: {_short(' | '.join(question.choices[question.answer]), 52)}")
        if left_out:
            said.append(f"{left_out} more elements are not shown")
        axis.set_xlabel("\n".join(said), fontsize=8, loc="left", linespacing=1.4)
    assert image is not None
    bar = figure.colorbar(image, ax=axes, shrink=0.5, aspect=30, pad=0.02)
    bar.ax.yaxis.set_major_formatter(lambda value, _: f"{value * 100:.0f} %")
    bar.outline.set_visible(False)  # pyright: ignore[reportCallIssue]
    figure.suptitle("attention over the recipe's steps, in % for each query element", fontsize=11)
    with atomic_file(path) as partial:
        figure.savefig(partial, dpi=120, format="png")
    plt.close(figure)


def _short(text: str, length: int = _SHORT) -> str:
    """A label of one line; a dollar sign would begin a formula."""
    indent = len(text) - len(text.lstrip())
    line = " ".join(text.replace(PLACEHOLDER, "?").split())
    line = line if len(line) <= length else line[: length - 1].rstrip() + "…"
    return " " * indent + re.sub(r"\$", r"\\$", line)
