"""The LightningDataModule of the *choose 1 of K* problem: files -> records -> vectors -> batches."""

import hashlib
import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytorch_lightning as pl
from torch.utils.data import DataLoader

from data.encoders import StoredEncoder, encoder_digest
from data.encoding import EncodedQuestions, encode, visible_images, visible_texts
from data.errors import InputError
from data.evidence import Evidence, EvidenceSettings
from data.generated import more_cloze
from data.images import ImageVectors, image_vectors
from data.recipeqa import OFFICIAL_COUNTS, ReadReport, find_images, fold_of_recipes, read_questions, split_by_recipe
from data.records import PLACEHOLDER, TASKS, Question
from data.reducers import ByContent, fit_cached
from data.sampler import BucketBatchSampler, resumable_loader
from data.store import VectorStore, build_store
from data.text import Doc2VecEncoder, Doc2VecSettings, ingredient_name, ingredient_names, tokenise
from data.words import WordSettings, WordVectors, encode_words, fit_vectors

log = logging.getLogger(__name__)
SPLITS = ("train", "val", "test")


class Vectors:
    """Vectors of texts and images by their content, for systems that work on records (`models.hasty_student`)."""

    def __init__(self, encoder: Doc2VecEncoder, texts: VectorStore, images: ImageVectors | None) -> None:
        self.encoder, self._texts, self._images = encoder, texts, images

    def text_rows(self, texts: Sequence[str]) -> np.ndarray:
        """(n,) rows of the text table."""
        return self._texts.rows(texts)

    def text(self, texts: Sequence[str]) -> np.ndarray:
        """(n, D) float32; zeros for a text of white space."""
        found = np.zeros((len(texts), self.encoder.size), np.float32)
        known = [i for i, text in enumerate(texts) if text.strip()]
        if known:
            found[known] = self._texts.array[self._texts.rows([texts[i] for i in known])]
        return found

    def image(self, names: Sequence[str]) -> np.ndarray:
        """(n, D) float32, not reduced. InputError where the run has no image features."""
        if self._images is None:
            raise InputError("this task needs image features; choose features=resnet50 or features=efficientnet_lite0")
        return self._images.vectors(names)


class ChoiceData(pl.LightningDataModule):
    """Questions of one task, or of several for multi-task training, with all their vectors.

    Nothing is inferred while training: `prepare` computes every vector once, into the cache, and training reads rows
    of memory-mapped arrays. What is fitted (Doc2Vec, the image reducer) is fitted on the training split only and
    travels in the checkpoint (`state_dict`), so that a checkpoint can score a new file by itself.

    Args:
        name: of the data in run folders and tables, such as `recipeqa/textual_cloze`.
        tasks: which of the four tasks' questions are used.
        builder: makes the files when none are given (the embedded data), or None.
        root: folder with the released files and images, or None.
        train_file: single file in place of the root's; `val_file`, `test_file` likewise.
        images: folder of the pictures; by default looked for below `root`.
        ingredients: JSON file {recipe id: [ingredient, ...]} whose compounds become single words, or None.
        val_fraction: share of the training recipes that becomes validation where there is no validation file.
        folds: cut the training file into so many folds by recipe, in place of all other files; `fold` is tested, and of
            the others `val_fraction` of the recipes validate.
        fold: from 0.
        text: settings of the text encoder, which is fitted on the training texts.
        features: image feature extractor, or None for text only.
        reducer: reduces image features to the size of the text vectors, fitted on the training images; None gives the
            raw features to the network, which reduces them by a linear layer trained with it.
        modality: `text`, or `multimodal`: images of the steps in the document of textual cloze.
        images_per_step: `all` or `first`.
        words: how recipes become words, for a network that reads words; None where none does.
        evidence: how texts are compared, for a network that reads evidence; None where none does.
        encoder: a pretrained encoder of texts, or of texts and pictures, whose cosines are one more kind of evidence
            (`data.encoders.Encoder`), or None.
        generate: questions made of each training recipe that shows its titles, besides its own; 0 makes none, and so
            does a run without textual cloze.
        read_others: whether the records of other tasks in a validation or test file are read. They lend document
            frequencies to the transductive rules, and nothing to a model.
        batch_size: questions in a batch.
        num_workers: loader processes; gathering a batch takes well under a millisecond, so 0 is usually best.
        pool: batches that are sorted by length together.
        seed: of the validation split and of the data order.
        overfit: validate and test on the (few) training questions, to see whether a model can learn at all.
        on_bad_record: `raise`, or `skip` to count and list.
        limit: for debugging: keep the first so many questions of each split.
        cache: folder of everything computed.
    """

    def __init__(
        self,
        name: str,
        tasks: Sequence[str],
        text: Doc2VecSettings,
        features: Any = None,
        reducer: Any = None,
        builder: Any = None,
        root: str | None = None,
        train_file: str | None = None,
        val_file: str | None = None,
        test_file: str | None = None,
        images: str | None = None,
        ingredients: str | None = None,
        val_fraction: float = 0.15,
        folds: int | None = None,
        fold: int = 0,
        modality: str = "text",
        images_per_step: str = "all",
        words: WordSettings | None = None,
        evidence: EvidenceSettings | None = None,
        encoder: Any = None,
        generate: int = 0,
        read_others: bool = True,
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
        unknown = [task for task in tasks if task not in TASKS]
        if unknown:
            raise InputError(f"data.tasks: unknown task {unknown[0]!r}; choose among {', '.join(TASKS)}")
        if not isinstance(text, Doc2VecSettings):
            raise InputError("text: questions need text=doc2vec; word vectors are for data of retrieval")
        if not isinstance(read_others, bool):
            raise InputError(f"data.read_others={read_others}: must be true or false")
        if modality not in ("text", "multimodal"):
            raise InputError(f"data.modality={modality}: choose text or multimodal")
        if not 0 < val_fraction < 1:
            raise InputError(f"data.val_fraction={val_fraction}: must lie between 0 and 1")
        if images_per_step not in ("all", "first"):
            raise InputError(f"data.images_per_step={images_per_step}: choose all or first")
        least = {
            "batch_size": (batch_size, 1),
            "pool": (pool, 1),
            "num_workers": (num_workers, 0),
            "generate": (generate, 0),
        }
        if folds is not None:
            least["folds"] = (folds, 2)
        if limit is not None:
            least["limit"] = (limit, 1)
        for key, (value, bound) in least.items():
            if not isinstance(value, int) or value < bound:
                raise InputError(f"data.{key}={value}: must be a whole number of at least {bound}")
        if folds is not None and (not isinstance(fold, int) or not 0 <= fold < folds):
            raise InputError(f"data.fold={fold}: there are {folds} folds, numbered from 0")
        if evidence is not None and modality == "multimodal" and "textual_cloze" in tasks:
            raise InputError("data.modality=multimodal: evidence is of texts alone; choose data.modality=text")
        self.folds, self.fold = folds, fold
        self.name, self.tasks = name, tuple(tasks)
        self.text_settings, self.features, self.reducer = text, features, reducer
        self.builder, self.root, self.images, self.ingredients = builder, root, images, ingredients
        self.given = {"train": train_file, "val": val_file, "test": test_file}
        self.val_fraction, self.seed, self.overfit, self.on_bad_record = val_fraction, seed, overfit, on_bad_record
        self.multimodal, self.images_per_step = modality == "multimodal", images_per_step
        self.words: WordSettings | None = words
        self.word_vectors: WordVectors | None = None
        self.evidence_settings, self.read_others = evidence, read_others
        self.generate = generate if "textual_cloze" in tasks else 0
        self.evidence: Evidence | None = None
        self.pretrained = encoder
        self.batch_size, self.num_workers, self.pool = batch_size, num_workers, pool
        self.limit, self.cache = limit, Path(cache)

        self.notes: list[str] = []  # what a reader of the table must know: "tested on validation", shared recipes
        self.questions: dict[str, list[Question]] = {}  # evaluated splits only; training keeps just its arrays
        self.unreadable: dict[str, dict[str, int]] = {}  # split -> task -> records left out, which count as wrong
        self.reports: dict[str, ReadReport] = {}
        self.encoded: dict[str, EncodedQuestions] = {}
        self.encoder: Doc2VecEncoder | None = None
        self.fitted_reducer: Any = None  # fitted reducer, or None: text only, or a linear layer of the network
        self.vectors: Vectors
        self._read: dict[Path, tuple[list[Question], ReadReport]] = {}

    # ------------------------------------------------------------------ files

    def files(self) -> dict[str, Path]:
        """The file of each split that exists: the given ones, or else the builder's or the root's.

        As soon as a training or validation file is given, nothing else is mixed in: validation then comes out of the
        training file and testing falls back on validation.
        """
        given = {split: Path(path) for split, path in self.given.items() if path}
        for split, path in given.items():
            if not path.is_file():
                raise InputError(
                    f"data.{split}_file={path}: no such file; give the path of a file in RecipeQA's schema"
                )
        if "train" in given or "val" in given:
            return given
        if self.builder is not None:
            return self.builder.files(self.cache, self.tasks) | given
        if self.root is None:
            if given:
                return given
            raise InputError(
                f"data={self.name}: no files. Fetch them with `python prepare.py task=download data={self.name} "
                "data.root=<folder>` and name them with data.root=<folder>, or give data.train_file="
            )
        found = {}
        for split in SPLITS:
            for ending in (".json", ".json.gz"):
                path = Path(self.root) / f"{split}{ending}"
                if path.is_file():
                    found.setdefault(split, path)
        if not found and not given:
            raise InputError(
                f"data.root={self.root}: holds none of train.json, val.json, test.json (also .json.gz); fetch them "
                f"with `python prepare.py task=download data={self.name} data.root={self.root}`"
            )
        return found | given

    def read(self, split: str) -> list[Question]:
        """Questions of a split, of all tasks in its file. Fills `notes`, `unreadable` and `reports`."""
        files = self.files()
        source = "train" if self.overfit else split
        if self.folds is not None and "train" in files:  # a test file that is named all the same is tested
            files = {
                name: path for name, path in files.items() if name == "train" or (name == "test" and self.given["test"])
            }
        if source == "test" and "test" not in files and self.folds is None:
            source = "val"
            self.note("no test file: tested on the validation questions, which also chose the checkpoint")
        divided = "val" not in files and "train" in files  # validation comes out of the training file
        part = source if divided and (source in ("train", "val") or "test" not in files) else None
        path = files.get("train" if part else source)
        if path is None:
            raise InputError(f"data={self.name}: no file for the {source} split; give data.{source}_file=<file>")
        wanted = TASKS if self.read_others or path == files.get("train") else self.tasks
        if path not in self._read:
            self._read[path] = read_questions(path, wanted, on_bad_record=self.on_bad_record)
        questions, report = self._read[path]
        if report.skipped:
            self.note(
                f"{path.name}: {len(report.skipped)} bad records left out; where they are scored they count as wrong"
            )
        read = {task: sum(q.task == task for q in questions) for task in TASKS}
        self.unreadable[split] = {t: 0 if part or t not in wanted else report.tasks.get(t, 0) - read[t] for t in TASKS}
        self.reports[split] = report
        if part is not None and self.folds is not None:
            held = fold_of_recipes(questions, self.folds, self.fold, self.seed)
            self.note(f"fold {self.fold} of {self.folds}, by recipe, is kept from training and validation")
            if part == "test":
                return [q for q in questions if q.recipe_id in held]
            questions = [q for q in questions if q.recipe_id not in held]
        if part is not None:
            train, val = split_by_recipe(questions, self.val_fraction, self.seed)
            questions = train if part == "train" else val
            self.note(f"no validation file: {self.val_fraction:.0%} of the training recipes, split by recipe, validate")
        return questions

    def of_tasks(self, questions: Sequence[Question], split: str) -> list[Question]:
        """Those of the chosen tasks. InputError if there is none."""
        found = [q for q in questions if q.task in self.tasks]
        if not found:
            raise InputError(
                f"{self.reports[split].path}: no readable {' or '.join(self.tasks)} question for the {split} split; "
                "choose another data= or another file"
            )
        return found[: self.limit]

    def names(self, split: str, rows: Sequence[int]) -> list[str]:
        """Qids of some questions of a split, for messages; training questions are read again."""
        questions = self.questions.get(split)
        if not questions:
            read = self.read(split)
            questions = self.of_tasks(read, split) + (self._generated(read) if split == "train" else [])
        return [questions[row].qid for row in rows]

    def _generated(self, training: Sequence[Question]) -> list[Question]:
        """Questions made of the training recipes; at most `limit`, like those that are read."""
        return more_cloze(training, self.generate, self.seed)[: self.limit]

    def all_questions(self, split: str) -> list[Question] | None:
        """Questions of all tasks of a split's file, None if this run has no such file."""
        try:
            return self.read(split)
        except InputError:
            return None

    def official_split(self, split: str) -> str | None:
        """Which official split was read whole, if it was one."""
        report = self.reports.get(split)
        whole = report is not None and self.limit is None and not self.overfit
        return report.official_split if report is not None and whole else None

    def check_official(self, split: str) -> None:
        """Say so where a file's split field is that of a released file, but its counts are not."""
        report = self.reports.get(split)
        if report is None or not str(self.name).startswith("recipeqa/") or len(report.splits) != 1:
            return
        (named,) = report.splits
        if named in OFFICIAL_COUNTS and report.official_split is None:
            counts = [
                f"{report.tasks.get(task, 0)} of {OFFICIAL_COUNTS[named][task]} {task}"
                for task in self.tasks
                if task in OFFICIAL_COUNTS[named]
            ]
            self.note(f"{Path(report.path).name} is not the official {named} file: {', '.join(counts)} questions")

    def note(self, note: str) -> None:
        """Keep a sentence that must stand below every table of this run."""
        if note not in self.notes:
            self.notes.append(note)

    # ---------------------------------------------------------------- vectors

    def prepare(self, splits: Sequence[str] = SPLITS) -> None:
        """Read the splits, fit what is not fitted, compute what is not in the cache, encode the questions.

        May be called again with further splits; does nothing for those that are ready.
        """
        splits = [split for split in splits if split not in self.encoded]
        if not splits:
            return
        read = {split: self.read(split) for split in splits}
        asked = {split: self.of_tasks(questions, split) for split, questions in read.items()}
        if self.encoder is None:
            self._fit_text(read.get("train") or self.read("train"))
        assert self.encoder is not None
        if self.words is not None and self.word_vectors is None:
            self._fit_words(self.words, self.encoder, read.get("train") or self.read("train"))
        if "train" in asked and self.generate:
            asked["train"] = [*asked["train"], *self._generated(read["train"])]
        if self.evidence_settings is not None and self.evidence is None:
            training = read.get("train") or self.read("train")
            made = self._generated(training)
            self.evidence = Evidence.fit([*training, *made], self.evidence_settings, self.tasks, self._stored_encoder())
        texts = list(dict.fromkeys(t for questions in asked.values() for q in questions for t in visible_texts(q)))
        store = self.text_store(texts)
        images = self._prepare_images(asked)
        self.vectors = Vectors(self.encoder, store, images)
        table, absent = self._image_table(images)
        for split, questions in asked.items():
            self.encoded[split] = encode(
                questions,
                store.rows,
                images.rows if images is not None else _no_rows,
                store.array,
                table,
                absent,
                self.multimodal,
                self.images_per_step,
            )
            if self.words is not None and self.word_vectors is not None:
                names, tokens = self._ingredients(questions), self.encoder.tokens
                self.encoded[split].words = encode_words(questions, self.words, tokens, self.word_vectors, names)
            if self.evidence is not None:
                self.encoded[split].evidence = self.evidence.encode(questions, f"evidence: {split}")
        self.questions |= {split: questions for split, questions in asked.items() if split != "train"}
        if "train" in read and not self.overfit:
            trained = {q.recipe_id for q in asked["train"]}
            for split, place, lost in (
                ("test", "test", "this is no test of"),
                ("val", "validation", "nothing is chosen on"),
            ):
                shared = {q.recipe_id for q in asked.get(split, ())} & trained
                if shared:
                    self.note(f"{len(shared)} of the {place} recipes also occur in training: {lost} unseen recipes")
        if self.limit is not None:
            self.note(f"data.limit={self.limit}: only the first so many questions of each split")
        self._read.clear()  # 30,000 recipes' texts; only their rows are needed from here on

    def text_store(self, texts: Sequence[str]) -> VectorStore:
        """Vectors of some texts, from the cache or inferred now; the encoder must be fitted."""
        encoder = self.encoder
        assert encoder is not None
        return build_store(
            self.cache,
            "text",
            encoder.settings_dict(),
            texts,
            lambda positions: encoder.encode([texts[int(i)] for i in positions]),
            encoder.size,
            description="text vectors",
        )

    def _fit_text(self, questions: Sequence[Question]) -> None:
        lines: list[str] = []
        lists = self._ingredient_lists()
        for recipe in sorted({q.recipe_id for q in questions} & lists.keys()):
            lines += lists[recipe]
        names = ingredient_names(lines)
        self.encoder = Doc2VecEncoder.fit_cached(self.cache, training_texts(questions), self.text_settings, names)

    def _ingredient_lists(self) -> dict[str, list[str]]:
        """Recipe id -> names of its ingredients out of the given file, or else the lines of the builder's recipes."""
        if self.ingredients:
            return _read_ingredients(Path(self.ingredients))
        return self.builder.ingredients() if self.builder is not None else {}

    def _ingredients(self, questions: Sequence[Question]) -> dict[str, list[list[str]]]:
        """Recipe id -> the words of each of its ingredients, for the recipes of some questions."""
        lists, recipes = self._ingredient_lists(), {q.recipe_id for q in questions}
        # A file holds names, a builder lines such as "2 cups flour, sifted".
        words = (lambda name: tokenise(name, False)) if self.ingredients else ingredient_name
        found = {recipe: [words(str(name)) for name in lists[recipe]] for recipe in recipes & lists.keys()}
        without = sum(not any(found.get(recipe, ())) for recipe in recipes)
        if without:
            self.note(f"{without} of {len(recipes)} recipes of a split have no ingredient (data.ingredients)")
        return found

    def _fit_words(self, words: WordSettings, encoder: Doc2VecEncoder, questions: Sequence[Question]) -> None:
        names = self._ingredients(questions).values()
        texts = [*training_texts(questions), *(" ".join(name) for part in names for name in part)]
        self.word_vectors = fit_vectors(words, encoder, texts)

    def _same_encoder(self, state: dict[str, Any], origin: str) -> None:
        own = encoder_digest(self.pretrained) if self.pretrained is not None else None
        if own != state.get("encoder_digest"):
            raise InputError(f"{origin}: was trained with another encoder, or without one; give data.encoder as it was")

    def _stored_encoder(self) -> StoredEncoder | None:
        if self.pretrained is None:
            return None
        return StoredEncoder(self.pretrained, self.cache, self._resolver, self.on_bad_record)

    def _prepare_images(self, asked: dict[str, list[Question]]) -> ImageVectors | None:
        """Raw vectors of every image of the questions; fits the reducer where it is not fitted."""
        names = {split: self._image_names(questions) for split, questions in asked.items()}
        if not any(names.values()):
            return None
        if self.features is None:
            raise InputError("this task needs image features; choose features=resnet50 or features=efficientnet_lite0")
        fits = self.fitted_reducer is None and not self.reduces_in_network
        if fits and "train" not in names:
            names["train"] = self._image_names(self.of_tasks(self.read("train"), "train"))
        wanted = list(dict.fromkeys(name for part in names.values() for name in part))
        resolve = self._resolver(wanted) if self.features.reads_files else Path
        images = image_vectors(self.features, wanted, resolve, self.cache, on_bad=self.on_bad_record)
        if images.bad:
            self.note(f"{len(images.bad)} pictures are absent or damaged and count as no picture: {images.bad[0][1]}")
        if fits:
            rows = np.sort(images.rows(list(dict.fromkeys(names["train"]))))
            content = hashlib.sha256(images.store.digests[rows[rows >= 0]].tobytes()).hexdigest()
            material = {"pictures": content, "absent": int((rows < 0).sum()), "features": self.features.settings()}
            self.fitted_reducer = fit_cached(self.cache, self.reducer, ByContent(images.array, rows), material)
        return images

    def _image_names(self, questions: Sequence[Question]) -> list[str]:
        return [name for question in questions for name in visible_images(question, self.multimodal)]

    def _resolver(self, names: Sequence[str]) -> Any:
        """Where the pictures lie; drawn first where the data's are rendered."""
        if self.images:
            return find_images(self.images)
        if self.builder is not None and not any(self.given.values()):
            return self.builder.draw(self.cache, names)
        if self.root is None:
            raise InputError(f"data={self.name}: no pictures; give their folder with data.images=<folder>")
        return find_images(self.root)

    def _image_table(self, images: ImageVectors | None) -> tuple[np.ndarray, np.ndarray]:
        """Vectors of all images as the network gets them, (rows, D), and that of the absent picture, (D,)."""
        if images is None:
            size = self.image_size or self.text_settings.vector_size
            return np.zeros((0, size), np.float32), np.zeros(size, np.float32)
        absent = np.zeros((1, images.size), np.float32)
        if self.reduces_in_network:
            return images.array, absent[0]
        reducer, raw = self.fitted_reducer, images.store
        reduced = build_store(
            self.cache,
            "reduced",
            {"reducer": reducer.digest(), "features": self.features.settings()},
            [digest.decode() for digest in raw.digests],
            lambda positions: reducer.transform(np.asarray(raw.array[positions], np.float32)),
            reducer.size,
            description="reduced image vectors",
        )
        # A store orders rows by the digest of the key, so the reduced rows lie in another order than the raw ones.
        order = reduced.rows([digest.decode() for digest in raw.digests])
        return np.ascontiguousarray(reduced.array[order]), reducer.transform(absent)[0]

    @property
    def reduces_in_network(self) -> bool:
        """Whether raw image features go to the network, which reduces them by a trained linear layer."""
        return self.reducer is None

    @property
    def image_size(self) -> int | None:
        """Length of the image vectors in a batch; None where a run looks at no image."""
        if self.tasks == ("textual_cloze",) and not self.multimodal:
            return None
        if self.features is None:
            return None
        return self.features.size if self.reduces_in_network else self.reducer.size

    def facts(self) -> dict[str, Any]:
        """What a network may want to know of the data."""
        return {
            "image_size": self.image_size,
            "image_reducer": "linear" if self.reduces_in_network and self.image_size else "none",
            "task": self.tasks[0] if len(self.tasks) == 1 else "all",
            "channels": list(self.evidence.channels) if self.evidence is not None else None,
            "indicators": len(self.evidence.vocabulary) if self.evidence is not None else 0,
            "word_size": self.word_vectors.size if self.word_vectors is not None else None,
        }

    # ---------------------------------------------------- what a checkpoint carries

    def state_dict(self) -> dict[str, Any]:
        """Everything fitted, as plain tensors and containers."""
        assert self.encoder is not None
        state: dict[str, Any] = {"text": self.encoder.state_dict(), "text_digest": self.encoder.digest()}
        if self.fitted_reducer is not None:
            state |= {"reducer": self.fitted_reducer.state_dict(), "reducer_digest": self.fitted_reducer.digest()}
        if self.image_size is not None:
            state["features"] = self.features.settings()
        if self.words is not None and self.words.vectors is not None and self.word_vectors is not None:
            state |= {"words": self.word_vectors.state_dict(), "words_digest": self.word_vectors.digest()}
        if self.evidence is not None:
            state |= {"evidence": self.evidence.state_dict(), "evidence_digest": self.evidence.digest()}
        if self.pretrained is not None:
            state["encoder_digest"] = encoder_digest(self.pretrained)
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Called by Lightning on a resume: what was fitted must be what the checkpoint was trained with."""
        own = self.state_dict()
        fitted = {
            "text_digest": "vocabulary",
            "words_digest": "word vectors",
            "evidence_digest": "evidence",
            "encoder_digest": "encoder",
            "reducer_digest": "image reducer",
            "features": "features",
        }
        for key, what in fitted.items():
            if own.get(key) != state_dict.get(key):
                raise InputError(
                    f"the checkpoint was trained with another {what} than data={self.name} gives now (other training "
                    "file, text or image settings); resume with the same data, or train anew"
                )

    def restore(self, state: dict[str, Any], origin: str) -> None:
        """Take over what a checkpoint carries instead of fitting it; InputError if it is damaged or does not fit."""
        try:
            encoder = Doc2VecEncoder.from_state_dict(state["text"])
            digest, features = state["text_digest"], state.get("features")
            if "reducer" in state:
                self.fitted_reducer = type(self.reducer).from_state_dict(state["reducer"])
            if "words" in state:
                self.word_vectors = WordVectors.from_state_dict(state["words"])
            elif self.words is not None:  # those of the encoder
                self.word_vectors = WordVectors(encoder.words, encoder.word_vectors)
            if self.evidence_settings is not None:
                self.evidence = Evidence.from_state_dict(state["evidence"], self._stored_encoder())
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise InputError(f"{origin}: carries no usable text encoder ({error!r}); train anew") from None
        if encoder.digest() != digest:
            raise InputError(f"{origin}: its vocabulary is not the one it was trained with; use another checkpoint")
        if self.evidence is not None and self.evidence.digest() != state.get("evidence_digest"):
            raise InputError(f"{origin}: its evidence is not what it was trained with; use another checkpoint")
        self._same_encoder(state, origin)
        if features is not None and self.features is not None and self.features.settings() != features:
            raise InputError(
                f"{origin}: was trained on features {features}, not on {self.features.settings()}; choose its features="
            )
        self.encoder = encoder

    # ---------------------------------------------------------------- loaders

    def setup(self, stage: str) -> None:
        """Everything is prepared before the trainer starts, so that errors and progress come early; else now."""
        self.prepare(("train", "val") if stage == "fit" else ("test",))

    def loader(self, split: str, shuffle: bool = False, whole: bool = False) -> DataLoader:
        """Loader of a split; in training, order and place survive a resume. `whole`: not only this process's share."""
        encoded = self.encoded[split]
        return resumable_loader(
            encoded,
            BucketBatchSampler,
            encoded.lengths,
            encoded.task,
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

    def summary(self) -> str:
        """How many questions each split has, for the first lines of a run."""
        counts = ", ".join(f"{len(self.encoded[s])} {s}" for s in SPLITS if s in self.encoded)
        return f"{counts} questions of {self.name}"

    def provenance(self) -> dict[str, Any]:
        """Name and sha256 of each file read, counts, and digests of what was fitted."""
        files = {s: {"file": Path(r.path).name, "sha256": r.sha256} for s, r in sorted(self.reports.items())}
        counts = {split: len(encoded) for split, encoded in self.encoded.items()}
        state = {key: value for key, value in self.state_dict().items() if key.endswith("digest") or key == "features"}
        skipped = {s: [f"{b.qid}: {b.reason}" for b in r.skipped] for s, r in self.reports.items() if r.skipped}
        return {"name": self.name, "files": files, "questions": counts, "skipped": skipped, **state}


def training_texts(questions: Sequence[Question]) -> list[str]:
    """What Doc2Vec is fitted on: bodies and titles of the training questions, each once, in a fixed order.

    Wrong choices are among them as the right ones are: were only right answers known words, a model would learn to tell
    them by that. Each text counts once, so how often a text is offered (a leak of the released set) teaches nothing.
    """
    texts: dict[str, None] = {}
    for question in questions:
        for step in question.context:
            texts.update(dict.fromkeys(filter(None, (step.title, step.body))))
        if question.task == "textual_cloze":
            texts.update((text, None) for text in question.question if text != PLACEHOLDER)
            texts.update((choice[0], None) for choice in question.choices)
    return [text for text in texts if text.strip()]


def _read_ingredients(path: Path) -> dict[str, list[str]]:
    try:
        lists = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"data.ingredients={path}: cannot be read ({error}); give a JSON file or null") from None
    if not isinstance(lists, dict) or not all(isinstance(names, list) for names in lists.values()):
        raise InputError(f"data.ingredients={path}: must hold {{recipe id: [ingredient, ...]}}")
    return lists


def _no_rows(names: Sequence[str]) -> np.ndarray:
    raise AssertionError(f"{len(names)} images asked of a run that looks at none")
