"""Recipes as ragged arrays of word rows: cut into words once, gathered into padded batches after that."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from itertools import chain
from pathlib import Path
from typing import BinaryIO

import numpy as np
import torch
from tqdm import tqdm

from data.errors import InputError
from data.records import Recipe
from data.store import block_digests, build_once, digest_of, read_manifest, write_manifest
from data.vocabulary import END_ROW, Table, TextCutter, Vocabulary, ingredient_elements, rows_digest

FORMAT = 1  # raised when the arrays or their meaning change
_CHUNK = 1024  # recipes written at a time

# Each ragged array is the flat rows and where each piece begins, with one more for the end.
_ARRAYS = {
    "ingredients": np.dtype("<i4"),
    "ingredient_offsets": np.dtype("<i8"),
    "words": np.dtype("<i4"),
    "sentence_offsets": np.dtype("<i8"),  # in words
    "instruction_offsets": np.dtype("<i8"),  # of each recipe, in sentences
    "title": np.dtype("<i4"),
    "title_offsets": np.dtype("<i8"),
}


@dataclass(frozen=True)
class RecipeEncoding:
    """Limits and rules of the encoded recipes; how words are cut is the vocabulary's (`WordRules`).

    `max_ingredients` counts the `</i>` at the end. What exceeds a limit is cut off and counted. `partial_names`: where
    the vocabulary lacks an ingredient ("unsalted_butter"), the longest run of its words that it has stands for it, of
    equally long ones the last ("butter"); off, the ingredient is dropped, as in the reference implementation.
    `valid_only` off takes raw lines that were not detected for names, which the reference implementation does.
    """

    max_ingredients: int = 20
    max_instructions: int = 20
    max_words: int = 40
    partial_names: bool = True
    valid_only: bool = True

    def __post_init__(self) -> None:
        if min(self.max_ingredients, self.max_instructions, self.max_words) < 1:
            raise InputError("data.encoding: max_ingredients, max_instructions and max_words must be 1 or more")


@dataclass(frozen=True)
class EncodedRecipes:
    """Encoded recipes, one for each position in the rows they were made of; arrays are read-only memory maps."""

    folder: Path
    arrays: dict[str, np.ndarray] = field(repr=False)
    counts: dict[str, int] = field(repr=False)

    def __len__(self) -> int:
        return len(self.arrays["instruction_offsets"]) - 1

    def __reduce__(self):  # a loader's worker maps the files again
        return open_encoded, (self.folder, False)

    @property
    def instruction_counts(self) -> np.ndarray:
        """(N,) int64 instructions of each recipe, 1 or more, as `text_batch` pads them."""
        return np.maximum(np.diff(self.arrays["instruction_offsets"]), 1)

    def text_batch(self, positions: Sequence[int] | np.ndarray) -> dict[str, torch.Tensor]:
        """The text of some recipes, B of them, as int64 tensors padded with 0 on the right.

        `ingredients` (B, I), each row ended by `</i>`; `sentences` (S, W), row 0 a dummy; `instructions` (B, T) rows of
        `sentences`; `title` (B, L); and `ingredient_count` (B,), `sentence_count` (S,), `instruction_count` (B,),
        `title_count` (B,), all 1 or more. A sentence or title without a known word is [1]; a recipe without
        instructions has one, the dummy.
        """
        a = self.arrays
        positions = np.asarray(positions, np.int64)
        if len(positions) and (positions.min() < 0 or positions.max() >= len(self)):
            raise IndexError(f"positions {positions.min()} to {positions.max()} of {len(self)} recipes")
        ingredients, ingredient_count = _gather(a["ingredients"], a["ingredient_offsets"], positions)
        title, title_count = _gather(a["title"], a["title_offsets"], positions)
        first = a["instruction_offsets"][positions]
        count = a["instruction_offsets"][positions + 1] - first
        total = int(count.sum())
        begin = np.cumsum(count) - count  # of each recipe's sentences in the batch
        sentences, sentence_count = _gather(
            a["words"], a["sentence_offsets"], np.arange(total) + np.repeat(first - begin, count), dummy=True
        )
        width = np.arange(max(int(count.max(initial=1)), 1))
        instructions = np.where(width < count[:, None], 1 + begin[:, None] + width, 0)
        batch = {
            "ingredients": ingredients,
            "ingredient_count": ingredient_count,
            "sentences": sentences,
            "sentence_count": sentence_count,
            "instructions": instructions,
            "instruction_count": np.maximum(count, 1),
            "title": title,
            "title_count": title_count,
        }
        return {name: torch.from_numpy(array) for name, array in batch.items()}


def _gather(
    flat: np.ndarray, offsets: np.ndarray, pieces: np.ndarray, dummy: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Some pieces of a ragged array as (n, longest) int64 and their lengths (n,); `dummy` puts [1] before them."""
    start = offsets[pieces]
    count = offsets[pieces + 1] - start
    if dummy:
        start, count = np.concatenate([[0], start]), np.concatenate([[1], count])
    inside = np.arange(max(int(count.max(initial=1)), 1)) < count[:, None]
    padded = np.zeros(inside.shape, np.int64)
    ends = np.cumsum(count)
    # Positions in `flat` of all elements in order, without a loop over pieces.
    at = np.arange(ends[-1] if len(ends) else 0) + np.repeat(start - (ends - count), count)
    if dummy:
        padded[inside] = np.concatenate([[END_ROW], flat[at[1:]]])
    else:
        padded[inside] = flat[at]
    return padded, count


# ---- encoding --------------------------------------------------------------------------------------------------------


def encode_recipes(
    cache: Path, table: Table, rows: np.ndarray, vocabulary: Vocabulary, settings: RecipeEncoding | None = None
) -> EncodedRecipes:
    """Encode the recipes of some rows of a table, kept under `cache/recipes/` by table, rows, vocabulary and settings.

    Streams: memory does not grow with the number of recipes. What was cut off or unknown is counted in `counts`.
    InputError where the vocabulary wants detected ingredients and not one recipe has any.
    """
    s = settings or RecipeEncoding()
    rows = np.asarray(rows, np.int64)
    key = {
        "table": table.digest,
        "rows": rows_digest(rows),
        "vocabulary": vocabulary.digest(),
        "settings": asdict(s),
        "format": FORMAT,
    }

    def load(folder: Path) -> EncodedRecipes:
        encoded = open_encoded(folder)
        if read_manifest(folder)["key"] != key:
            raise InputError(f"{folder}: holds other recipes than its name says; delete the folder")
        return encoded

    def write(folder: Path) -> None:
        encoder = _Encoder(vocabulary, s)
        files = {name: _GrowingArray(folder / f"{name}.npy", dtype) for name, dtype in _ARRAYS.items()}
        try:
            offsets = {name: np.zeros(1, np.int64) for name in _ARRAYS if name.endswith("offsets")}
            for name, zero in offsets.items():
                files[name].append(zero)
            chunk: list[_Encoded] = []

            def flush() -> None:
                for name, pieces in _ragged(chunk).items():
                    if name in offsets:  # lengths of the pieces
                        ends = offsets[name][-1] + np.cumsum(pieces, dtype=np.int64)
                        offsets[name] = ends[-1:] if len(ends) else offsets[name]
                        files[name].append(ends)
                    else:
                        files[name].append(pieces)
                chunk.clear()

            for recipe in tqdm(table.iter(rows), desc="encoding recipes", unit=" recipes", total=len(rows)):
                chunk.append(encoder(recipe))
                if len(chunk) == _CHUNK:
                    flush()
            flush()
        finally:
            for file in files.values():
                file.close()
        counts = {name: encoder.counts[name] for name in _COUNTS}
        if vocabulary.rules.source == "det_ingrs" and counts["recipes"] and counts["undetected"] == counts["recipes"]:
            raise InputError(
                f"source=det_ingrs: none of the {counts['recipes']} recipes has detected ingredients; give "
                "det_ingrs.json when the set is prepared, or set text.source=raw"
            )
        sums = {f"{name}.npy": block_digests(folder / f"{name}.npy") for name in _ARRAYS}
        write_manifest(folder, {"key": key, "counts": counts, "sha256": sums})

    return build_once(Path(cache) / "recipes" / digest_of(key)[:16], load, write)


def open_encoded(folder: Path, verify: bool = True) -> EncodedRecipes:
    """Open encoded recipes. InputError with file and remedy where they are absent or damaged."""
    folder = Path(folder)
    manifest = read_manifest(folder)
    arrays = {}
    for name, dtype in _ARRAYS.items():
        path = folder / f"{name}.npy"
        try:
            # An empty file cannot be mapped.
            array = np.load(path, mmap_mode="r" if path.stat().st_size > _HEADER else None, allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise InputError(f"{path}: cannot be read ({error}); delete the folder {folder}") from None
        if array.ndim != 1 or array.dtype != dtype:
            raise InputError(f"{path}: holds {array.dtype} {array.shape}; delete the folder {folder}")
        if verify and block_digests(path) != manifest["sha256"][path.name]:
            raise InputError(f"{path}: does not have the checksum of its manifest; delete the folder {folder}")
        arrays[name] = array.view(np.ndarray)  # a plain array over the map: indexing a memmap costs more
    return EncodedRecipes(folder, arrays, manifest["counts"])


_COUNTS = (
    "recipes",
    "words",
    "unknown_words",
    "ingredients",
    "unknown_ingredients",
    "partial_ingredients",
    "undetected",
    "no_known_ingredient",
    "no_known_instruction",
    "no_instructions",
    "truncated_ingredients",
    "truncated_instructions",
    "truncated_sentences",
)


@dataclass
class _Encoded:
    ingredients: list[int]
    sentences: list[list[int]]
    title: list[int]


class _Encoder:
    """One recipe after the other, counting what is unknown or cut off."""

    def __init__(self, vocabulary: Vocabulary, settings: RecipeEncoding) -> None:
        self.vocabulary, self.settings = vocabulary, settings
        self.counts: Counter[str] = Counter()

    def __call__(self, recipe: Recipe) -> _Encoded:
        s, count, vocabulary = self.settings, self.counts, self.vocabulary
        names = ingredient_elements(recipe, vocabulary.rules, s.valid_only)
        count["recipes"] += 1
        count["undetected"] += not recipe.detected and bool(recipe.ingredients)

        known = [row for name in names if (row := self.ingredient(name)) is not None]
        count["ingredients"] += len(names)
        count["unknown_ingredients"] += len(names) - len(known)
        count["no_known_ingredient"] += not known
        count["truncated_ingredients"] += len(known) >= s.max_ingredients
        ingredients = [*known[: s.max_ingredients - 1], END_ROW]

        # A name that is no word of the vocabulary stays apart: its words may be known.
        text = TextCutter([name for name in names if name in vocabulary], vocabulary.rules)
        sentences, any_known = [], False
        for instruction in recipe.instructions[: s.max_instructions]:
            words = text(instruction)
            rows = vocabulary.rows(words)
            count["words"] += len(words)
            count["unknown_words"] += len(words) - len(rows)
            count["truncated_sentences"] += len(rows) > s.max_words
            any_known |= bool(rows)
            sentences.append(rows[: s.max_words] or [END_ROW])
        count["no_instructions"] += not recipe.instructions
        count["no_known_instruction"] += not any_known
        count["truncated_instructions"] += len(recipe.instructions) > s.max_instructions
        title = vocabulary.rows(text(recipe.title))[: s.max_words] or [END_ROW]
        return _Encoded(ingredients, sentences, title)

    def ingredient(self, name: str) -> int | None:
        """Row of an ingredient or, with `partial_names`, of the longest known run of its words."""
        row = self.vocabulary.row(name)
        if row is not None or not self.settings.partial_names:
            return row
        words = name.split("_")
        for length in range(min(len(words) - 1, 8), 0, -1):
            for start in range(len(words) - length, -1, -1):
                row = self.vocabulary.row("_".join(words[start : start + length]))
                if row is not None:
                    self.counts["partial_ingredients"] += 1
                    return row
        return None


def _ragged(chunk: Sequence[_Encoded]) -> dict[str, np.ndarray]:
    """Flat rows, and under the names of the offsets the lengths of the pieces."""
    sentences = [sentence for recipe in chunk for sentence in recipe.sentences]
    return {
        "ingredients": _flat([recipe.ingredients for recipe in chunk]),
        "ingredient_offsets": np.array([len(recipe.ingredients) for recipe in chunk], np.int64),
        "words": _flat(sentences),
        "sentence_offsets": np.array([len(sentence) for sentence in sentences], np.int64),
        "instruction_offsets": np.array([len(recipe.sentences) for recipe in chunk], np.int64),
        "title": _flat([recipe.title for recipe in chunk]),
        "title_offsets": np.array([len(recipe.title) for recipe in chunk], np.int64),
    }


def _flat(pieces: Sequence[list[int]]) -> np.ndarray:
    return np.fromiter(chain.from_iterable(pieces), np.int32)


_HEADER = 128  # bytes of the header of a .npy file of one dimension


class _GrowingArray:
    """A .npy file of one dimension to which pieces are appended; its header is written again at the end."""

    def __init__(self, path: Path, dtype: np.dtype) -> None:
        self.file: BinaryIO = open(path, "wb")  # noqa: SIM115
        self.dtype, self.length = dtype, 0
        self._header()

    def _header(self) -> None:
        self.file.seek(0)
        header = {"descr": np.lib.format.dtype_to_descr(self.dtype), "fortran_order": False, "shape": (self.length,)}
        np.lib.format.write_array_header_1_0(self.file, header)
        if self.file.tell() != _HEADER:
            raise ValueError(f"header of {self.file.tell()} bytes")

    def append(self, values: np.ndarray) -> None:
        """Write some values."""
        self.file.write(values.astype(self.dtype, copy=False).tobytes())
        self.length += len(values)

    def close(self) -> None:
        """Write the length."""
        self._header()
        self.file.close()
