"""Recipe1M and Recipe1M+ as a source of pairs: table, splits, photos, and what else was released with them."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

from data.errors import InputError
from data.recipe1m import (
    Filters,
    build_recipe1m,
    find_files,
    find_lists,
    find_photos,
    read_id_list,
    select,
)
from data.recipe1m_lmdb import SENTENCE_SIZE, LmdbRecipes
from data.recipes import RecipeTable
from data.vocabulary import END_ROW, Vocabulary, read_word2vec_bin


class Recipe1M:
    """Reads a root of released files.

    Args:
        filters: which recipes become pairs, where no lists are given.
        plus: Recipe1M+ (layer2+.json) in place of Recipe1M.
        classes: `file`, `bigrams`, `none` or `auto`; see `data.recipe1m.build_recipe1m`.
        vocabulary: `made` of the training recipes, or `released`: vocab.bin of the root.
        lmdb: folder of the released LMDBs, for precomputed sentence vectors.
    """

    rendered = False

    def __init__(
        self,
        filters: Filters | None = None,
        plus: bool = False,
        classes: str = "auto",
        vocabulary: str = "made",
        lmdb: str | None = None,
    ) -> None:
        if vocabulary not in ("made", "released"):
            raise InputError(f"data.source.vocabulary={vocabulary}: choose made or released")
        self.filters = filters or Filters()
        self.plus, self.classes, self.made, self.lmdb = plus, classes, vocabulary == "made", lmdb
        self.notes: list[str] = []

    def table(self, root: str | None, cache: Path, on_bad_record: str = "raise") -> RecipeTable:
        """All recipes of the root, nothing filtered; prepared once."""
        if root is None:
            find_files(Path("data.root"), self.plus, self.filters.ingredients)  # says what is needed and how to get it
            raise InputError("data.root: give the folder of the Recipe1M files")
        table = build_recipe1m(
            root,
            cache,
            plus=self.plus,
            ingredients=self.filters.ingredients,
            classes=self.classes,
            on_bad_record=on_bad_record,
        )
        skipped = {what: count for what, count in table.extra.get("skipped", {}).items() if count}
        if skipped:
            self.notes.append("left out: " + ", ".join(f"{count:,} {what}" for what, count in skipped.items()))
        return table

    def pairs(self, table: RecipeTable, root: str | None, lists: str | None) -> dict[str, np.ndarray]:
        """Rows of the table by split: those of the official lists where they are given, else of the filters."""
        assert root is not None
        given = None
        if lists is not None:
            given = find_lists(lists)
            if given is None:
                raise InputError(f"data.lists={lists}: holds no train.txt, val.txt, test.txt (also .txt.gz)")
        files = find_files(Path(root), self.plus, self.filters.ingredients)
        removal = read_id_list(files["remove1M"]) if "remove1M" in files else []
        vocabulary = self.vocabulary(root)
        known = None
        if vocabulary is not None:
            known = lambda name: name.replace(" ", "_") in vocabulary  # noqa: E731
        selection = select(table, self.filters, lists=given, removal=removal, known=known)
        self.notes += [line for line in selection.report.lines() if "removed: none" not in line or "cut" in line]
        return selection.rows

    def photos(self, root: str | None, cache: Path, names: Sequence[str]) -> Callable[[str, str], Path]:
        """(partition, name) -> path, in either layout."""
        assert root is not None
        return find_photos(root)

    def vocabulary(self, root: str | None) -> Vocabulary | None:
        """The released word vectors, or None where they are made of the training recipes."""
        return None if self.made else read_word2vec_bin(Path(str(root)) / "vocab.bin")

    def precomputed(self, split: str, ids: Sequence[str], words: int) -> "PrecomputedSentences":
        """Skip-instruction vectors of the recipes of a split, out of its released LMDB.

        With the released vocabulary, of which `words` is the number of rows, the LMDB's ingredients are taken too.
        """
        if self.lmdb is None:
            raise InputError(
                "data.sentences=precomputed: give the folder of the released LMDBs by data.source.lmdb=FOLDER "
                "(train_lmdb, val_lmdb, test_lmdb), or use data.sentences=words"
            )
        path = Path(self.lmdb) / f"{split}_lmdb"
        return PrecomputedSentences(LmdbRecipes(path), list(map(str, ids)), None if self.made else words)

    def provenance(self) -> dict[str, Any]:
        """Settings that the pairs depend on."""
        return {"plus": self.plus, "filters": asdict(self.filters)}


class PrecomputedSentences:
    """Sentence vectors of the recipes of a split, read when a batch asks for them.

    With `words`, the rows of the released word table, also their ingredients as numbers of its rows.
    """

    def __init__(self, recipes: LmdbRecipes, ids: list[str], words: int | None = None) -> None:
        known = set(recipes.ids)
        missing = [name for name in ids if name not in known]
        if missing:
            raise InputError(
                f"{recipes.path}: lacks {len(missing):,} of {len(ids):,} recipes ({missing[0]}, …); it is of another "
                "release than the layers, use the lists and LMDBs of one release"
            )
        self.recipes, self.ids, self.words = recipes, ids, words

    def batch(self, positions: Sequence[int] | np.ndarray) -> dict[str, torch.Tensor]:
        """`sentence_vectors` (S, 1024), row 0 zeros, `instructions` (B, T) rows of it, `instruction_count` (B,).

        With `words` also `ingredients` (B, I) and `ingredient_count` (B,). InputError for a row that the released
        words do not have.
        """
        records = [self.recipes.record(self.ids[int(position)]) for position in positions]
        parts = [record.sentences for record in records]
        counts = np.asarray([max(1, len(part)) for part in parts])
        rows = np.zeros((len(parts), int(counts.max())), np.int64)
        start = 1
        for i, part in enumerate(parts):
            rows[i, : len(part)] = np.arange(start, start + len(part))
            start += len(part)
        table = np.concatenate([np.zeros((1, SENTENCE_SIZE), np.float32), *parts]).astype(np.float32)
        batch = {
            "sentence_vectors": torch.from_numpy(table),
            "instructions": torch.from_numpy(rows),
            "instruction_count": torch.from_numpy(counts),
        }
        if self.words is not None:
            batch |= self._ingredients([record.ingredients for record in records], positions)
        return batch

    def _ingredients(self, lists: list[np.ndarray], positions: Sequence[int] | np.ndarray) -> dict[str, torch.Tensor]:
        assert self.words is not None
        rows = np.zeros((len(lists), max(1, *map(len, lists))), np.int64)
        for i, numbers in enumerate(lists):
            if len(numbers) and numbers.max() >= self.words:
                raise InputError(
                    f"{self.recipes.path}: recipe {self.ids[int(positions[i])]} has the word {numbers.max()}, but "
                    f"vocab.bin has {self.words} rows; use the vocab.bin and LMDBs of one release"
                )
            rows[i, : len(numbers)] = numbers
        counts = np.maximum([len(numbers) for numbers in lists], 1)
        rows[np.asarray([len(numbers) == 0 for numbers in lists]), 0] = END_ROW
        return {"ingredients": torch.from_numpy(rows), "ingredient_count": torch.from_numpy(counts)}
