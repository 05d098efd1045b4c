"""Recipes as words and ingredients, for networks that read words and not one vector a step (`models.prn`)."""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tqdm import tqdm

from data.encoding import step_text
from data.errors import InputError
from data.records import Question, Step
from data.text import Doc2VecEncoder

BLANK = 0  # the row of no word: zeros, no characters
BEGIN, END = 257, 258  # of a word's characters, which are its UTF-8 bytes plus 1; 0 is padding
CHARACTERS = 259


@dataclass(frozen=True)
class WordSettings:
    """How a recipe becomes words.

    Args:
        vectors: text file of word vectors, a word and its numbers on each line (GloVe), or None for the word vectors
            of the text encoder, which is fitted on the training recipes.
        text: `body`, or `title_and_body` of each step.
        max_words: of a recipe; what comes later is cut off.
        max_entities: ingredients of a recipe; further ones are left out.
        max_characters: bytes of a word that are read.
    """

    vectors: str | None = None
    text: str = "body"
    max_words: int = 4000
    max_entities: int = 61
    max_characters: int = 20

    def __post_init__(self) -> None:
        if self.text not in ("body", "title_and_body"):
            raise InputError(f"data.words.text={self.text}: is unknown; use body or title_and_body")
        if min(self.max_words, self.max_entities, self.max_characters) < 1:
            raise InputError("data.words: max_words, max_entities and max_characters must be 1 or more")


class WordVectors:
    """Vectors of words. A compound that has none ("olive_oil") has the mean of its known parts, else zeros."""

    def __init__(self, words: Sequence[str], array: np.ndarray) -> None:
        self.words, self.array = list(words), array
        self._row = {word: i for i, word in enumerate(self.words)}

    @property
    def size(self) -> int:
        """Length of a vector."""
        return self.array.shape[1]

    def of(self, words: Sequence[str]) -> np.ndarray:
        """(n, D) float32."""
        found = np.zeros((len(words), self.size), np.float32)
        for i, word in enumerate(words):
            parts = [word] if word in self._row else [part for part in word.split("_") if part in self._row]
            if parts:
                found[i] = self.array[[self._row[part] for part in parts]].mean(0)
        return found

    def state_dict(self) -> dict[str, Any]:
        """Plain lists and tensors: a checkpoint with it opens under `weights_only=True`."""
        return {"words": self.words, "vectors": torch.from_numpy(self.array.copy())}

    @classmethod
    def from_state_dict(cls, state: dict[str, Any]) -> "WordVectors":
        """The vectors of a checkpoint."""
        return cls(state["words"], state["vectors"].numpy().astype(np.float32))

    def digest(self) -> str:
        """Sha256 of words and vectors."""
        content = hashlib.sha256("\n".join(self.words).encode())
        content.update(np.ascontiguousarray(self.array).data)
        return content.hexdigest()


def read_vectors(path: Path, wanted: set[str]) -> WordVectors:
    """Those of the wanted words that a text file of vectors holds; of a word that stands there twice, the first.

    Raises:
        InputError: no such file, a line that is no word with numbers, or none of the words in it.
    """
    found: dict[str, np.ndarray] = {}
    size = None
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            for number, line in enumerate(tqdm(file, desc=f"reading {path.name}", unit=" words", leave=False), 1):
                word, *numbers = line.rstrip().split(" ")
                if number == 1 and len(numbers) == 1:  # word2vec's head: how many words, how many numbers
                    continue
                if size is None:
                    size = len(numbers)
                if len(numbers) != size or not size:
                    raise InputError(
                        f"{path}: line {number} has {len(numbers)} numbers after its word, not {size}; give a text "
                        "file of word vectors such as glove.6B.100d.txt"
                    )
                if word in wanted and word not in found:
                    try:
                        found[word] = np.asarray(numbers, np.float32)
                    except ValueError:
                        raise InputError(
                            f"{path}: line {number} holds what is no number; give a text file of word vectors"
                        ) from None
    except OSError as error:
        raise InputError(f"data.words.vectors={path}: cannot be read ({error}); give a text file of vectors") from None
    if not found:
        raise InputError(f"{path}: holds none of the {len(wanted)} words of the training recipes; give another file")
    words = sorted(found)
    return WordVectors(words, np.stack([found[word] for word in words]))


def fit_vectors(settings: WordSettings, encoder: Doc2VecEncoder, texts: Iterable[str]) -> WordVectors:
    """The vectors that a run works with: the encoder's, or those of the words of the training texts out of a file.

    A checkpoint carries them, so it scores a new file without the file of vectors; words that training never met are
    unknown then and now.
    """
    if settings.vectors is None:
        return WordVectors(encoder.words, encoder.word_vectors)
    words = {word for text in texts for word in encoder.tokens(text)}
    words |= {part for word in words for part in word.split("_")}
    return read_vectors(Path(settings.vectors), words)


@dataclass
class EncodedWords:
    """Words of N questions as arrays; questions on the same steps share them."""

    words: np.ndarray  # (sum,) rows of `vectors`
    steps: np.ndarray  # (steps + 1,) where each step begins in `words`; steps without a word are left out
    recipes: np.ndarray  # (recipes + 1,) where the steps of each recipe begin
    recipe: np.ndarray  # (N,) number of each question's recipe
    entities: np.ndarray  # (sum,) rows of `vectors`
    owners: np.ndarray  # (N + 1,) where each question's entities begin
    vectors: np.ndarray  # (V, D) float32; row 0 is zeros
    characters: np.ndarray  # (V, C) int16

    @property
    def lengths(self) -> np.ndarray:
        """(N,) words of each question's recipe, at least 1."""
        ends = self.steps[self.recipes]  # (recipes + 1,)
        return np.maximum(np.diff(ends)[self.recipe], 1)

    def batch(self, rows: np.ndarray) -> dict[str, torch.Tensor]:
        """What a network that reads words gets besides `EncodedQuestions.batch`.

        Returns:
            word: (V, D) float32, each distinct word of the batch once; row 0 is no word.
            character: (V, C) int64 bytes of each of them plus 1, between `BEGIN` and `END`; 0 is padding.
            recipe: (B, T) int64 rows of `word`, right-padded with 0.
            recipe_mask: (B, T) bool, True at words. A recipe without a word is one place with row 0.
            step_start, step_length: (B, S) int64, where each step stands in `recipe`; length 0 is padding.
            entities, entity_mask: (B, E), likewise as the recipe; no ingredient is one place with row 0.
        """
        first, last = self.recipes[self.recipe[rows]], self.recipes[self.recipe[rows] + 1]
        begin = self.steps[first]
        recipe, recipe_mask = _padded(self.words, begin, self.steps[last])
        entities, entity_mask = _padded(self.entities, self.owners[rows], self.owners[rows + 1])
        place = np.arange(max(int((last - first).max()), 1))[None, :]
        step = np.minimum(first[:, None] + place, len(self.steps) - 2)  # (B, S)
        real = place < (last - first)[:, None]
        used = np.unique(np.concatenate([[BLANK], recipe.ravel(), entities.ravel()]))
        return {
            "word": torch.from_numpy(self.vectors[used]),
            "character": torch.from_numpy(self.characters[used].astype(np.int64)),
            "recipe": torch.from_numpy(np.searchsorted(used, recipe)),
            "recipe_mask": torch.from_numpy(recipe_mask),
            "step_start": torch.from_numpy(np.where(real, self.steps[step] - begin[:, None], 0)),
            "step_length": torch.from_numpy(np.where(real, self.steps[step + 1] - self.steps[step], 0)),
            "entities": torch.from_numpy(np.searchsorted(used, entities)),
            "entity_mask": torch.from_numpy(entity_mask),
        }


def _padded(values: np.ndarray, start: np.ndarray, end: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Stretches of an array as rows, (B, T), and the mask of what is real; an empty stretch is one blank."""
    length = end - start
    place = np.arange(max(int(length.max()), 1))[None, :]
    real = place < length[:, None]
    rows = np.full(real.shape, BLANK, np.int64)
    rows[real] = values[(start[:, None] + place)[real]]
    return rows, place < np.maximum(length, 1)[:, None]


def encode_words(
    questions: Sequence[Question],
    settings: WordSettings,
    tokens: Callable[[str], list[str]],
    vectors: WordVectors,
    ingredients: Mapping[str, Sequence[Sequence[str]]],
) -> EncodedWords:
    """Turn the recipes of questions into arrays.

    Args:
        questions: records of any task.
        settings: what is read of a recipe.
        tokens: the words of a text, compounds of several words as one.
        vectors: of the words.
        ingredients: recipe id -> the words of each ingredient. Each becomes one compound, and counts once.
    """
    rows: dict[str, int] = {"": BLANK}

    def row(word: str) -> int:
        return rows.setdefault(word, len(rows))

    words: list[int] = []
    steps, recipes = [0], [0]
    known: dict[tuple[str, ...], int] = {}
    recipe = np.zeros(len(questions), np.int64)
    entities: list[int] = []
    owners = np.zeros(len(questions) + 1, np.int64)
    for i, question in enumerate(questions):
        texts = tuple(_text(step, settings.text) for step in question.context)
        if texts not in known:
            known[texts] = len(known)
            left = settings.max_words
            for text in texts:
                part = tokens(text)[:left]
                left -= len(part)
                if part:
                    words += [row(word) for word in part]
                    steps.append(len(words))
            recipes.append(len(steps) - 1)
        recipe[i] = known[texts]
        names = ["_".join(name) for name in ingredients.get(question.recipe_id, ())]
        entities += [row(name) for name in dict.fromkeys(filter(None, names))][: settings.max_entities]
        owners[i + 1] = len(entities)
    spelled = list(rows)
    characters = np.zeros((len(spelled), settings.max_characters + 2), np.int16)
    for i, word in enumerate(spelled[1:], 1):
        spelling = [BEGIN, *(byte + 1 for byte in word.encode()[: settings.max_characters]), END]
        characters[i, : len(spelling)] = spelling
    return EncodedWords(
        words=np.asarray(words, np.int32),
        steps=np.asarray(steps, np.int64),
        recipes=np.asarray(recipes, np.int64),
        recipe=recipe,
        entities=np.asarray(entities, np.int32),
        owners=owners,
        vectors=vectors.of(spelled),
        characters=characters,
    )


def _text(step: Step, text: str) -> str:
    return step.body if text == "body" else step_text(step)
