"""Questions as compact integer arrays, and batches gathered from them.

After encoding, no string is left: a question is a list of rows of the text and image vector tables. 36,786 questions
take about 10 MB this way, forked workers share them without copying, and names cannot reach a network.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from data.recipeqa import twins as twins_of
from data.records import PLACEHOLDER, TASKS, Question, Step

if TYPE_CHECKING:
    from data.evidence import EncodedEvidence
    from data.words import EncodedWords

# An element is one int32: text row r is r + 1, image row r is -(r + 1), 0 is the empty text.
EMPTY_TEXT = 0
ABSENT_IMAGE = np.iinfo(np.int32).min


def step_text(step: Step) -> str:
    """What the document shows of a step's text: title and body where the task shows both."""
    return "\n".join(part.strip() for part in (step.title, step.body) if part and part.strip())


def visible_texts(question: Question) -> list[str]:
    """Every text whose vector the question needs, in order, empty ones left out."""
    texts = [step_text(step) for step in question.context]
    if question.task == "textual_cloze":
        texts += [text for text in question.question if text != PLACEHOLDER]
        texts += [text for choice in question.choices for text in choice]
    return [text for text in texts if text.strip()]


def visible_images(question: Question, multimodal: bool) -> list[str]:
    """Every image name whose vector the question needs."""
    if question.task == "textual_cloze":
        return [name for step in question.context for name in step.images or ()] if multimodal else []
    names = [name for name in question.question if name != PLACEHOLDER] if question.task != "visual_ordering" else []
    return names + [name for choice in question.choices for name in choice]


@dataclass
class EncodedQuestions:
    """N questions as arrays. Shapes: document (sum T,), offsets (N + 1,), query (N, 4), choices (N, 4, 4)."""

    document: np.ndarray
    offsets: np.ndarray
    query: np.ndarray
    placeholder: np.ndarray
    choices: np.ndarray
    elements: np.ndarray  # (N,) elements of a choice: 1, or 4 in ordering
    twins: np.ndarray
    answer: np.ndarray
    task: np.ndarray  # (N,) index into TASKS
    text_vectors: np.ndarray  # (rows, D_text), memory-mapped
    image_vectors: np.ndarray  # (rows, D_image), memory-mapped; may have no row
    absent_image: np.ndarray  # (D_image,) the vector of no picture: zeros before reduction
    words: "EncodedWords | None" = None  # for networks that read words
    evidence: "EncodedEvidence | None" = None  # for networks that weigh evidence

    def __len__(self) -> int:
        return len(self.answer)

    def __getitem__(self, index: int) -> int:
        """A sample is its own index; `batch` gathers a whole batch at once."""
        return index

    @property
    def lengths(self) -> np.ndarray:
        """(N,) elements in each document, or words where words are read."""
        return np.diff(self.offsets) if self.words is None else self.words.lengths

    def batch(self, indices: Sequence[int]) -> dict[str, torch.Tensor | str]:
        """Gather a batch of questions of one task: the batch contract of the networks in `models`.

        Returns:
            task: name of the task.
            text: (N_t, D_text) float32, each distinct text once; row 0 is zeros, the empty text.
            image: (N_i, D_image) float32, each distinct image once; row 0 is the absent picture.
            document: (B, T) int64 rows of cat([text, image]), right-padded with 0.
            document_mask: (B, T) bool, True at elements; at least one a row, and they come first.
            query: (B, 4) int64 rows, likewise; zeros in visual ordering, where the orders themselves are the queries.
            placeholder: (B, 4) bool, where the query has the placeholder (row 0 of its table).
            choices: (B, K, E) int64 rows; E = 4 in visual ordering, else 1.
            twins: (B, K) bool, wrong choices that read like the right one.
            answer: (B,) int64.
            index: (B,) int64, number of the question in its split; for reports, no input of a network.
            Where words are read or evidence is weighed, also what `data.words.EncodedWords.batch` or
            `data.evidence.EncodedEvidence.batch` gives.
        """
        rows = np.asarray(indices, np.int64)
        starts = self.offsets[rows]
        lengths = self.offsets[rows + 1] - starts
        places = np.arange(int(lengths.max()))[None, :]
        mask = places < lengths[:, None]  # (B, T)
        documents = np.zeros(mask.shape, np.int32)
        documents[mask] = self.document[(starts[:, None] + places)[mask]]
        choices = self.choices[rows][:, :, : int(self.elements[rows[0]])]
        parts = [documents, self.query[rows], choices]
        used = np.unique(np.concatenate([part.ravel() for part in parts]))
        texts = used[used > 0]
        images = used[(used < 0) & (used != ABSENT_IMAGE)][::-1]  # -1, -2, ... = image rows 0, 1, ...

        text = np.zeros((1 + len(texts), self.text_vectors.shape[1]), np.float32)
        _gather(self.text_vectors, texts - 1, text[1:])
        image = np.empty((1 + len(images), len(self.absent_image)), np.float32)
        image[0] = self.absent_image
        if len(images):
            _gather(self.image_vectors, -images.astype(np.int64) - 1, image[1:])

        def place(part: np.ndarray) -> torch.Tensor:
            part = part.astype(np.int64)
            in_text = np.where(part > 0, np.searchsorted(texts, part) + 1, 0)
            in_image = len(text) + np.where(part == ABSENT_IMAGE, 0, np.searchsorted(-images, -part) + 1)
            return torch.from_numpy(np.where(part < 0, in_image, in_text))

        return {
            "task": TASKS[self.task[rows[0]]],
            "text": torch.from_numpy(text),
            "image": torch.from_numpy(image),
            "document": place(documents),
            "document_mask": torch.from_numpy(mask),
            "query": place(parts[1]),
            "placeholder": torch.from_numpy(self.placeholder[rows]),
            "choices": place(choices),
            "twins": torch.from_numpy(self.twins[rows]),
            "answer": torch.from_numpy(self.answer[rows]),
            "index": torch.from_numpy(rows),
            **(self.words.batch(rows) if self.words is not None else {}),
            **(self.evidence.batch(rows) if self.evidence is not None else {}),
        }


def _gather(table: np.ndarray, rows: np.ndarray, out: np.ndarray) -> None:
    """Rows of a table into their place, in one pass where no conversion is needed: half the time for 2048-d images."""
    if table.dtype == out.dtype:
        np.take(table, rows, axis=0, out=out, mode="clip")  # the default mode would go through a buffer
    else:
        out[:] = table[rows]


def encode(
    questions: Sequence[Question],
    text_rows: Callable[[Sequence[str]], np.ndarray],
    image_rows: Callable[[Sequence[str]], np.ndarray],
    text_vectors: np.ndarray,
    image_vectors: np.ndarray,
    absent_image: np.ndarray,
    multimodal: bool = False,
    images_per_step: str = "all",
) -> EncodedQuestions:
    """Turn questions into arrays.

    Args:
        questions: records of any of the four tasks.
        text_rows, image_rows: row numbers of texts and of image names in the two vector tables; -1: no such picture.
        text_vectors, image_vectors: the tables, (rows, D).
        absent_image: (D_image,) vector of the placeholder in the visual tasks.
        multimodal: in textual cloze, each step's images follow its text in the document (in step order).
        images_per_step: "all", or "first" for one image a step.
    """
    # One look-up for all questions: asking row by row would hash each string thousands of times.
    texts = sorted({text for q in questions for text in visible_texts(q)})
    names = sorted({name for q in questions for name in visible_images(q, multimodal)})
    text_codes = dict(zip(texts, (text_rows(texts) + 1).tolist(), strict=True)) if texts else {}
    image_codes: dict[str, int] = {}
    if names:
        rows = image_rows(names)
        # A picture that could not be read (row -1) is no picture.
        image_codes = dict(zip(names, np.where(rows < 0, ABSENT_IMAGE, -(rows + 1)).tolist(), strict=True))

    document: list[int] = []
    offsets = np.zeros(len(questions) + 1, np.int64)
    query = np.zeros((len(questions), 4), np.int32)
    placeholder = np.zeros((len(questions), 4), bool)
    choices = np.zeros((len(questions), 4, 4), np.int32)
    elements = np.ones(len(questions), np.int8)
    twins = np.zeros((len(questions), 4), bool)
    for i, q in enumerate(questions):
        textual = q.task == "textual_cloze"
        codes, absent = (text_codes, EMPTY_TEXT) if textual else (image_codes, ABSENT_IMAGE)
        for step in q.context:
            text = step_text(step)
            if text:  # a step is left out only if both title and body are empty
                document.append(text_codes[text])
            if multimodal and textual:
                shown = step.images or ()
                document += [image_codes[name] for name in (shown if images_per_step == "all" else shown[:1])]
        if len(document) == offsets[i]:  # no step says anything: one zero vector keeps the softmax defined
            document.append(EMPTY_TEXT)
        offsets[i + 1] = len(document)
        if q.task != "visual_ordering":
            for j, element in enumerate(q.question):
                placeholder[i, j] = element == PLACEHOLDER
                query[i, j] = absent if placeholder[i, j] else codes.get(element, EMPTY_TEXT)
        elements[i] = len(q.choices[0])
        twins[i] = twins_of(q)
        for k, choice in enumerate(q.choices):
            choices[i, k, : len(choice)] = [codes.get(element, EMPTY_TEXT) for element in choice]
    return EncodedQuestions(
        document=np.asarray(document, np.int32),
        offsets=offsets,
        query=query,
        placeholder=placeholder,
        choices=choices,
        elements=elements,
        twins=twins,
        answer=np.asarray([q.answer for q in questions], np.int64),
        task=np.asarray([TASKS.index(q.task) for q in questions], np.int8),
        text_vectors=text_vectors,
        image_vectors=image_vectors,
        absent_image=np.asarray(absent_image, np.float32),
    )
