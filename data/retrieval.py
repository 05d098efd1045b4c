"""The LightningDataModule of the *rank N* problem: recipes with photos -> words and pixels -> batches."""

import hashlib
import logging
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch
from torch.utils.data import DataLoader

from data.errors import InputError
from data.images import ImageVectors, image_vectors, read_header
from data.photos import photo_batch
from data.recipe_encoding import EncodedRecipes, RecipeEncoding, encode_recipes
from data.recipes import RecipeTable
from data.sampler import BucketBatchSampler, resumable_loader, step_seed
from data.store import digest_of
from data.vocabulary import Vocabulary, Word2VecSettings, fit_cached, word2vec_corpus

log = logging.getLogger(__name__)
SPLITS = ("train", "val", "test")


class RetrievalData(pl.LightningDataModule):
    """Pairs of recipe and photo, split as the benchmark or by folds.

    Words are looked up once and lie in memory-mapped arrays; photos are read as pixels by the loader, or once ahead as
    vectors of a frozen network. The vocabulary is made of the training recipes only and travels in the checkpoint.

    Args:
        name: of the data in run folders and tables, such as `recipe1m`.
        source: where recipes and photos come from, given the root and the cache: `.table(root, cache) -> RecipeTable`,
            `.pairs(table, root, lists) -> rows by split`, `.photos(root, cache, names) -> resolver`, `.notes`, and
            where it has them `.vocabulary(root)`, `.precomputed(...)`.
        text: settings of the word vectors, which are fitted on the training recipes.
        encoding: which words of a recipe are kept.
        root: folder of the source's files, or None.
        lists: folder of the official lists of pairs, or None.
        features: extractor of image vectors, for `image_input=features`.
        image_input: `pixels` (the network looks at photos itself), `features` (vectors of a frozen network, computed
            once), or `auto`: pixels where there is a GPU.
        sentences: `words` (a sentence encoder is trained) or `precomputed` (vectors of the source, such as the
            official skip-instructions).
        mismatch: share of training items whose photo is another recipe's, for losses of single pairs.
        images_per_recipe: training draws among so many first photos; evaluation takes the first.
        val_fraction: share of the training recipes that validates where the source has no validation recipes.
        folds: cut all pairs into so many folds by recipe in place of the source's splits; `fold` is tested.
        batch_size: pairs in a batch; in-batch losses rank among them.
        num_workers: loader processes; worth having for pixels only.
        pool: batches that are sorted by the number of instructions together.
        seed: of folds, order, crops and mismatches.
        overfit: validate and test on the (few) training pairs.
        on_bad_record: `raise`, or `skip` pairs whose photo cannot be read: they are counted and named.
        limit: for debugging: the first so many pairs of each split.
        cache: folder of everything computed.
    """

    def __init__(
        self,
        name: str,
        source: Any,
        text: Word2VecSettings,
        encoding: RecipeEncoding,
        features: Any = None,
        root: str | None = None,
        lists: str | None = None,
        image_input: str = "auto",
        sentences: str = "words",
        mismatch: float = 0.0,
        images_per_recipe: int = 5,
        val_fraction: float = 0.15,
        folds: int | None = None,
        fold: int = 0,
        batch_size: int = 64,
        num_workers: int = 0,
        pool: int = 10,
        seed: int = 1234,
        overfit: bool = False,
        on_bad_record: str = "raise",
        limit: int | None = None,
        cache: str = "cache",
    ) -> None:
        super().__init__()
        chosen = {
            "image_input": (image_input, ("pixels", "features", "auto")),
            "sentences": (sentences, ("words", "precomputed")),
            "on_bad_record": (on_bad_record, ("raise", "skip")),
        }
        for key, (value, allowed) in chosen.items():
            if value not in allowed:
                raise InputError(f"data.{key}={value}: choose {' or '.join(allowed)}")
        if not 0 <= mismatch < 1:
            raise InputError(f"data.mismatch={mismatch}: a share of at least 0 and below 1")
        if not 0 < val_fraction < 1:
            raise InputError(f"data.val_fraction={val_fraction}: must lie between 0 and 1")
        least = {"batch_size": (batch_size, 1), "pool": (pool, 1), "num_workers": (num_workers, 0), "fold": (fold, 0)}
        least["images_per_recipe"] = (images_per_recipe, 1)
        if limit is not None:
            least["limit"] = (limit, 2)
        if folds is not None:
            least["folds"] = (folds, 2)
        for key, (value, bound) in least.items():
            if not isinstance(value, int) or value < bound:
                raise InputError(f"data.{key}={value}: must be a whole number of at least {bound}")
        if batch_size < 2 and not mismatch:
            raise InputError("data.batch_size=1: losses that rank among the batch need at least 2 pairs")
        if folds is not None and fold >= folds:
            raise InputError(f"data.fold={fold}: there are {folds} folds, numbered from 0")
        self.notes: list[str] = []
        if image_input == "auto":
            image_input = "pixels" if torch.cuda.is_available() else "features"
            if image_input == "features":
                self.note(
                    "no GPU: the image side is a layer on vectors of a frozen network (features=); "
                    "data.image_input=pixels trains a whole ResNet-50"
                )
        if image_input == "features" and features is None:
            raise InputError("data.image_input=features: choose features=efficientnet_lite0 or features=resnet50")
        self.root, self.lists = root, lists
        self.name, self.source, self.text_settings, self.encoding = name, source, text, encoding
        self.features, self.image_input, self.sentences = features, image_input, sentences
        self.mismatch, self.images_per_recipe, self.val_fraction = mismatch, images_per_recipe, val_fraction
        self.folds, self.fold, self.seed, self.overfit = folds, fold, seed, overfit
        self.batch_size, self.num_workers, self.pool = batch_size, num_workers, pool
        self.on_bad_record, self.limit, self.cache = on_bad_record, limit, Path(cache)

        self.table: RecipeTable | None = None
        self.vocabulary: Vocabulary | None = None
        self.pairs: dict[str, RetrievalSplit] = {}
        self.skipped: dict[str, list[str]] = {}
        self.class_names: list[str] | None = None  # those of a checkpoint, where one was restored

    # ----------------------------------------------------------------- splits

    def open(self) -> RecipeTable:
        """The table of recipes, prepared by the source when first asked for."""
        if self.table is None:
            self.table = self.source.table(self.root, self.cache, self.on_bad_record)
            self._pairs = self.source.pairs(self.table, self.root, self.lists)
            for note in self.source.notes:
                self.note(note)
        assert self.table is not None
        return self.table

    def rows(self, split: str) -> np.ndarray:
        """(n,) rows of the table that are pairs of a split, in order of their ids. InputError if there are none."""
        table = self.open()
        if self.folds is not None:
            paired = np.sort(np.concatenate(list(self._pairs.values())))
            order = paired[np.argsort([digest_of([self.seed, str(i)]) for i in table.ids[paired]], kind="stable")]
            test = np.sort(order[self.fold :: self.folds])
            rest = np.setdiff1d(order, test)
            self.note(f"fold {self.fold} of {self.folds}, by recipe; the source's own splits are not used")
            parts = {"test": test, **self._validation(rest)}
        else:
            parts = dict(self._pairs)
            if not len(parts["val"]):
                parts |= self._validation(parts["train"])
                self.note(f"no validation recipes: {self.val_fraction:.0%} of the training recipes validate")
            if not len(parts["test"]):
                parts["test"] = parts["val"]
                self.note("no test recipes: tested on the validation recipes, which also chose the checkpoint")
        found = parts["train" if self.overfit else split]
        if self.limit is not None:
            self.note(f"data.limit={self.limit}: only the first so many pairs of each split")
            found = found[: self.limit]
        if len(found) < 2:
            raise InputError(
                f"data={self.name}: {len(found)} pairs in the {split} split, ranking needs at least 2 "
                f"({'; '.join(self.notes) or 'look at data.root, data.lists and data.folds'})"
            )
        return found

    def _validation(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        """Training and validation rows out of training rows, by a hash of the recipe id."""
        ids = self.open().ids
        order = rows[np.argsort([digest_of([self.seed, "validation", str(i)]) for i in ids[rows]], kind="stable")]
        cut = max(1, round(len(order) * self.val_fraction))
        return {"val": np.sort(order[:cut]), "train": np.sort(order[cut:])}

    def note(self, note: str) -> None:
        """Keep a sentence that must stand below every table of this run."""
        if note not in self.notes:
            self.notes.append(note)

    # ---------------------------------------------------------------- prepare

    def prepare(self, splits: Sequence[str] = SPLITS) -> None:
        """Read the table, make the vocabulary, look up words, and compute image vectors; once, into the cache."""
        splits = [split for split in splits if split not in self.pairs]
        if not splits:
            return
        table = self.open()
        if self.sentences == "precomputed" and not hasattr(self.source, "precomputed"):
            raise InputError(f"data.sentences=precomputed: data={self.name} has no sentence vectors; use words")
        if self.vocabulary is None:
            self.fit_words()
        assert self.vocabulary is not None
        rows = {split: self.rows(split) for split in splits}
        shown = {
            split: [table.image_names(int(r))[: self.images_per_recipe if split == "train" else 1] for r in part]
            for split, part in rows.items()
        }
        resolve = self._resolver(rows, shown)
        vectors = None
        if self.image_input == "features":
            vectors = self._vectors(shown, resolve)
        for split, part in rows.items():
            good = self._readable(split, shown[split], vectors, resolve)
            names = [shown[split][i] for i in good]
            text = encode_recipes(self.cache, table, part[good], self.vocabulary, self.encoding)
            ids = table.ids[part[good]]
            precomputed = None
            if self.sentences == "precomputed":
                precomputed = self.source.precomputed(split, ids, len(self.vocabulary) + 2)
            self.pairs[split] = RetrievalSplit(
                ids=ids,
                rows=part[good],
                classes=np.asarray(table.class_ids)[part[good]],
                text=text,
                precomputed=precomputed,
                names=names,
                vectors=vectors,
                resolve=resolve,
                training=split == "train" and not self.overfit,
                mismatch=self.mismatch if split == "train" else 0.0,
                seed=self.seed,
            )

    def fit_words(self) -> None:
        """The vocabulary: the released one where it is chosen, else made of the training recipes, once."""
        released = getattr(self.source, "vocabulary", None)
        self.vocabulary = released(self.root) if released is not None else None
        if self.vocabulary is None:
            table = self.open()
            # Training recipes without a photo have words too; whatever is validated or tested is left out.
            rows = np.arange(len(table)) if self.folds is not None else table.rows("train")
            rows = self.rows("train") if self.overfit else np.setdiff1d(rows, [*self.rows("val"), *self.rows("test")])
            corpus = word2vec_corpus(table, rows, self.text_settings)
            self.vocabulary = fit_cached(self.cache, corpus, self.text_settings)

    def _resolver(self, rows: dict[str, np.ndarray], shown: dict[str, list[Any]]) -> Callable[[str], Path]:
        table = self.open()
        names = list(dict.fromkeys(name for part in shown.values() for group in part for name in group))
        partition = {
            name: str(table.partitions[int(row)])
            for split, part in shown.items()
            for row, group in zip(rows[split], part, strict=True)
            for name in group
        }
        find = self.source.photos(self.root, self.cache, names)
        return _Located(find, partition)

    def _vectors(self, shown: dict[str, list[Any]], resolve: Callable[[str], Path]) -> ImageVectors:
        names = list(dict.fromkeys(name for part in shown.values() for group in part for name in group))
        if not self.features.reads_files:
            resolve = Path
        return image_vectors(self.features, names, resolve, self.cache, on_bad=self.on_bad_record)

    def _readable(
        self, split: str, shown: list[Any], vectors: ImageVectors | None, resolve: Callable[[str], Path]
    ) -> np.ndarray:
        """Positions of the pairs whose first photo can be read; the others are named in `skipped` and in a note."""
        bad: list[tuple[int, str]] = []
        if vectors is not None:
            first = vectors.rows([group[0] for group in shown])
            bad = [(int(i), f"{shown[i][0]}: absent or damaged") for i in np.flatnonzero(first < 0)]
        else:
            for i, group in enumerate(shown):
                try:
                    path = resolve(group[0])
                    with open(path, "rb") as file:
                        head = file.read(65536)
                        try:
                            read_header(head, path)
                        except InputError:  # profiles and thumbnails may push the size further back
                            read_header(head + file.read(), path)
                except (OSError, InputError) as error:
                    if self.on_bad_record == "raise":
                        raise InputError(f"{error}; or leave such pairs out by data.on_bad_record=skip") from None
                    bad.append((i, str(error)))
        if bad:
            self.skipped[split] = [reason for _, reason in bad]
            self.note(f"{len(bad)} {split} pairs left out, their photo cannot be read: {bad[0][1]}, …")
        return np.setdiff1d(np.arange(len(shown)), [i for i, _ in bad])

    @property
    def image_size(self) -> int | None:
        """Length of the image vectors, or None where the network looks at pixels."""
        return self.features.size if self.image_input == "features" else None

    def facts(self) -> dict[str, Any]:
        """What a network may want to know of the data."""
        assert self.vocabulary is not None
        return {
            "words": len(self.vocabulary.words) + 2,
            "word_size": self.vocabulary.size,
            "classes": len(self.open().class_names if self.class_names is None else self.class_names),
            "image_size": self.image_size,
            "sentence_size": None if self.sentences == "words" else 1024,
        }

    # ---------------------------------------------------- what a checkpoint carries

    def state_dict(self) -> dict[str, Any]:
        """The vocabulary, and digests of what the weights depend on."""
        assert self.vocabulary is not None
        state: dict[str, Any] = {
            "vocabulary": self.vocabulary.state_dict(),
            "vocabulary_digest": self.vocabulary.digest(),
            "class_names": list(self.open().class_names),
        }
        if self.image_input == "features":
            state["features"] = self.features.settings()
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Called by Lightning on a resume: the vocabulary must be the one that was trained with."""
        own = self.state_dict()
        for key, what in (
            ("vocabulary_digest", "vocabulary"),
            ("features", "image features"),
            ("class_names", "list of classes"),
        ):
            if own.get(key) != state_dict.get(key):
                raise InputError(
                    f"the checkpoint was trained with another {what} than data={self.name} gives now (other recipes, "
                    "text or image settings); resume with the same data, or train anew"
                )

    def restore(self, state: dict[str, Any], origin: str) -> None:
        """Take over a checkpoint's vocabulary; InputError if it is damaged or does not fit."""
        try:
            vocabulary = Vocabulary.from_state_dict(state["vocabulary"])
            digest, features = state["vocabulary_digest"], state.get("features")
        except (KeyError, TypeError, AttributeError) as error:
            raise InputError(f"{origin}: carries no usable vocabulary ({error!r}); train anew") from None
        if vocabulary.digest() != digest:
            raise InputError(f"{origin}: its vocabulary is not the one it was trained with; use another checkpoint")
        if features is not None and self.image_input == "features" and self.features.settings() != features:
            raise InputError(
                f"{origin}: was trained on features {features}, not on {self.features.settings()}; choose its features="
            )
        self.vocabulary = vocabulary
        self.class_names = list(state["class_names"])

    # ---------------------------------------------------------------- loaders

    def setup(self, stage: str) -> None:
        """Everything is prepared before the trainer starts, so that errors and progress come early; else now."""
        self.prepare(("train", "val") if stage == "fit" else ("test",))

    def loader(self, split: str, shuffle: bool = False, whole: bool = False) -> DataLoader:
        """Loader of a split; in training, order and place survive a resume. `whole`: not only this process's share."""
        pairs = self.pairs[split]
        return resumable_loader(
            pairs,
            _EpochBatches,
            pairs.lengths,
            np.zeros(len(pairs), np.int8),
            batch_size=self.batch_size,
            seed=self.seed,
            shuffle=shuffle,
            pool=self.pool,
            num_workers=self.num_workers,
            whole=whole,
        )

    def train_dataloader(self) -> DataLoader:
        return self.loader("train", shuffle=True)

    def val_dataloader(self) -> DataLoader:
        return self.loader("val")

    # ----------------------------------------------------------------- reports

    def names(self, split: str, rows: Sequence[int]) -> list[str]:
        """Recipe ids of some pairs of a split, for messages."""
        return [str(self.pairs[split].ids[row]) for row in rows]

    def summary(self) -> str:
        """How many pairs each split has, for the first lines of a run."""
        counts = ", ".join(f"{len(self.pairs[s]):,} {s}" for s in SPLITS if s in self.pairs)
        assert self.vocabulary is not None
        what = "pixels" if self.image_input == "pixels" else self.features.settings()["extractor"]
        return f"{counts} pairs of {self.name}, {len(self.vocabulary.words):,} words, images as {what}"

    def provenance(self) -> dict[str, Any]:
        """Digests of the table and the vocabulary, counts, and what was left out."""
        assert self.vocabulary is not None
        found: dict[str, Any] = {
            "name": self.name,
            "table": self.open().digest,
            "vocabulary_digest": self.vocabulary.digest(),
            "pairs": {split: len(pairs) for split, pairs in self.pairs.items()},
            "skipped": self.skipped,
        }
        return found | getattr(self.source, "provenance", dict)()


class RetrievalSplit:
    """The pairs of one split: what a batch needs, and nothing else.

    A sample is (epoch, position): crops, the photo among several and mismatches are functions of the seed and these
    two, so they do not depend on the number of loader processes or on what ran before.
    """

    def __init__(
        self,
        ids: np.ndarray,
        rows: np.ndarray,
        classes: np.ndarray,
        text: EncodedRecipes,
        precomputed: Any,
        names: list[Sequence[str]],
        vectors: ImageVectors | None,
        resolve: Callable[[str], Path],
        training: bool,
        mismatch: float,
        seed: int,
    ) -> None:
        self.ids, self.rows, self.classes, self.text, self.precomputed = ids, rows, classes, text, precomputed
        self.resolve, self.training, self.mismatch, self.seed = resolve, training, mismatch, seed
        self.names: list[list[str]] | None = None
        self.vectors = vectors
        if vectors is None:
            self.names = [list(group) for group in names]
        else:  # damaged photos beyond the first are no choice
            found = vectors.rows([name for group in names for name in group])
            ends = np.cumsum([len(group) for group in names])
            parts = [part[part >= 0] for part in np.split(found, ends[:-1])]
            self.image_rows = np.concatenate(parts)
            self.image_offsets = np.concatenate([[0], np.cumsum([len(part) for part in parts])])

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, key: tuple[int, int]) -> tuple[int, int]:
        """A sample is its own key; `batch` gathers a whole batch at once."""
        return key

    @property
    def lengths(self) -> np.ndarray:
        """(N,) instructions of each recipe."""
        return self.text.instruction_counts

    def batch(self, keys: Sequence[tuple[int, int]]) -> dict[str, torch.Tensor]:
        """Gather a batch: the batch contract of the dual encoders in `models`.

        Returns:
            ingredients (B, I), ingredient_count (B,), sentences (S, W), sentence_count (S,) or sentence_vectors (S, D),
            instructions (B, T), instruction_count (B,), title (B, L), title_count (B,): see `data.recipe_encoding`.
            pixels: (B, 3, 224, 224) uint8, or image: (B, D) float32.
            match: (B,) bool, False where the photo is another recipe's.
            twins: (B, B) bool, pairs that are no negatives of each other: the same words, or the same photo.
            recipe_class, image_class: (B,) int64, 0 = background.
            index, image_index: (B,) int64, position in the split of the recipe and of the recipe whose photo it is;
                for reports and masks, no input of a network.
        """
        positions = np.asarray([position for _, position in keys], np.int64)
        shown, draws = positions.copy(), np.zeros(len(keys), np.uint64)
        if self.training:
            for i, (epoch, position) in enumerate(keys):
                rng = np.random.Generator(np.random.Philox(key=step_seed(self.seed, int(epoch), int(position))))
                if self.mismatch and rng.random() < self.mismatch:
                    other = int(rng.integers(len(self) - 1))
                    shown[i] = other + (other >= position)  # never its own
                draws[i] = rng.integers(2**63)
        words = self.text_keys[positions]
        batch = dict(self.text.text_batch(positions))
        if self.precomputed is not None:
            batch = {key: value for key, value in batch.items() if not key.startswith("sentence")}
            batch |= self.precomputed.batch(positions)
        images, photos = self._images(shown, draws)
        batch |= images
        twins = (words[:, None] == words) | (photos[:, None] == photos)
        batch |= {
            "twins": torch.from_numpy(twins),
            "match": torch.from_numpy(shown == positions),
            "recipe_class": torch.from_numpy(self.classes[positions].astype(np.int64)),
            "image_class": torch.from_numpy(self.classes[shown].astype(np.int64)),
            "index": torch.from_numpy(positions),
            "image_index": torch.from_numpy(shown),
        }
        return batch

    @cached_property
    def text_keys(self) -> np.ndarray:
        """(N,) uint64 of what is read of each recipe: equal for equal words."""
        arrays = self.text.arrays
        words, sentences, steps = arrays["words"], arrays["sentence_offsets"], arrays["instruction_offsets"]
        names, ends = arrays["ingredients"], arrays["ingredient_offsets"]
        keys = np.empty(len(self), np.uint64)
        for i in range(len(self)):
            digest = hashlib.blake2b(names[ends[i] : ends[i + 1]].tobytes(), digest_size=8)
            digest.update(b"|" + words[sentences[steps[i]] : sentences[steps[i + 1]]].tobytes())
            keys[i] = int.from_bytes(digest.digest())
        return keys

    def _images(self, shown: np.ndarray, draws: np.ndarray) -> tuple[dict[str, torch.Tensor], np.ndarray]:
        """The input of the image side, and a key of each photo."""
        if self.vectors is not None:
            first = self.image_offsets[shown]
            count = (self.image_offsets[shown + 1] - first).astype(np.uint64)
            rows = self.image_rows[first + (draws % count).astype(np.int64)]
            return {"image": torch.from_numpy(np.ascontiguousarray(self.vectors.array[rows], np.float32))}, rows
        assert self.names is not None
        groups = [self.names[int(position)] for position in shown]
        names = [group[int(draw) % len(group)] for group, draw in zip(groups, draws, strict=True)]
        pixels = photo_batch([self.resolve(name) for name in names], self.training, draws.tolist())
        return {"pixels": pixels}, np.asarray(names)


class _EpochBatches(BucketBatchSampler):
    """Batches of (epoch, position)."""

    def batches(self, epoch: int) -> list[Any]:  # pyright: ignore[reportIncompatibleMethodOverride]
        return [[(epoch, i) for i in batch] for batch in super().batches(epoch)]


class _Located:
    """Name of a photo -> path; a class so that loader processes can be given it."""

    def __init__(self, find: Callable[..., Path], partition: dict[str, str]) -> None:
        self.find, self.partition = find, partition

    def __call__(self, name: str) -> Path:
        return self.find(self.partition.get(name, ""), name)
