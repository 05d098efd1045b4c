"""A dual encoder trained here on recipes and photos, asked the questions about images that it was never trained on."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from omegaconf import OmegaConf, open_dict

from data.errors import InputError
from data.photos import photo_batch
from data.recipe_encoding import EncodedRecipes, encode_recipes
from data.recipes import open_table, write_table
from data.records import LETTERS, FoodQuestion, Recipe
from data.retrieval import RetrievalData
from data.store import file_digest
from data.text import ingredient_name
from data.vocabulary import END_ROW
from engine.build import RETRIEVAL, build_data, build_model, load_weights
from engine.checkpoints import load_checkpoint
from engine.trust import require_allowed
from models.backend import Capabilities, Reply, Request
from models.clip import check_template, require_images, texts_of
from models.pretrained import pick_device

_SECTIONS = ("data", "text", "features", "reducer", "model", "seed")
_WINDOW = 64  # questions whose photos are embedded together


class TrainedDualEncoder:
    """`model=trained_dual_encoder`: a checkpoint of `im2recipe` or `recipe_transformer`, zero-shot on food questions.

    A text becomes a small recipe: title and ingredient line are the option (or the question, where the options are
    images), and its one instruction is question and option by the template. The option whose recipe lies nearest to the
    photo is chosen, by cosine similarity; over several photos the mean, as for CLIP. Words that the training recipes
    did not have are left out; an option of which nothing is known is flagged `unknown_words`.

    The networks that choose 1 of K (Impatient Reader, Hasty Student) are not offered: they read a recipe's steps with a
    gap and rank candidates for the gap. Their question is the same sentence for every item of a task, so they never
    learnt to read one, and a food question has no steps around it.

    Args:
        ckpt: `runs/.../checkpoints/best.ckpt` of a retrieval run.
        option_template: the instruction of a text option, of {question} and {option}.
        question_template: that of a question about image options, of {question}.
        batch_size: photos or recipes at a time; no part of the identity.
        device: `auto`, `cpu`, `cuda`.
        force: ask Chinese questions too, of whose words a model of English recipes knows next to none.
        cache: folder of everything computed.
    """

    kind = "trained"

    def __init__(
        self,
        ckpt: str,
        option_template: str = "{question} {option}",
        question_template: str = "{question}",
        batch_size: int = 32,
        device: str = "auto",
        force: bool = False,
        cache: str = "cache",
    ) -> None:
        check_template("option_template", option_template, {"question", "option"}, "option")
        check_template("question_template", question_template, {"question"}, "question")
        if not isinstance(batch_size, int) or batch_size < 1:
            raise InputError(f"model.batch_size={batch_size}: must be a whole number of at least 1")
        self.ckpt, self.force, self.cache = str(ckpt), force, cache
        self.option_template, self.question_template = option_template, question_template
        self.batch_size, self.device = batch_size, pick_device(device)
        self._identity: dict[str, Any] | None = None
        self._data: RetrievalData | None = None
        self._net: Any = None
        self._name = ""

    def identity(self) -> dict[str, Any]:
        """See `Backend`. The revision is a digest of the checkpoint, which holds the vocabulary too."""
        if self._identity is None:
            self._load()
            self._identity = {
                "backend": self.kind,
                "version": torch.__version__,
                "model": self._name,
                "revision": f"sha256:{file_digest(Path(self.ckpt))[:32]}",
                "device": self.device.type,
                "generation": {"option": self.option_template, "question": self.question_template},
            }
        return self._identity

    def capabilities(self) -> Capabilities:
        """No prompts: one score for each option."""
        self._load()
        return Capabilities(prefill=False, logprobs=False, max_images=4, prompted=False)

    def check(self, method: str) -> None:
        """InputError for any method but `score`."""
        if method != "score":
            raise InputError(f"asking.method={method}: model=trained_dual_encoder generates nothing, it only scores")

    def answer(self, requests: Sequence[Request]) -> Iterator[tuple[Request, Reply]]:
        """See `Backend`. A photo that cannot be read is the error of its questions.

        Raises:
            InputError: a question without images, or in Chinese; a checkpoint that is none of a retrieval run.
        """
        for request in requests:
            self.check(request.method)
            require_images(request.question, "trained_dual_encoder")
            if request.question.language != "en" and not self.force:
                raise InputError(
                    "model=trained_dual_encoder: was trained on English recipes; set data.language=en, or model.force="
                    "true to ask all the same"
                )
        if not requests:
            return
        self._load()
        texts, known = self._embed_texts([request.question for request in requests])
        for start in range(0, len(requests), _WINDOW):
            part = requests[start : start + _WINDOW]
            photos, errors = self._embed_photos(sorted({path for r in part for path in r.question.images}))
            for request in part:
                question = request.question
                fault = next((errors[path] for path in question.images if path in errors), None)
                if fault is not None:
                    yield request, Reply(error=fault)
                    continue
                keys = self._keys(question)
                similar = np.stack([texts[key] for key in keys]) @ np.stack([photos[p] for p in question.images]).T
                scores = similar[0] if question.image_options else similar.mean(1)
                flags = () if all(known[key] for key in keys) else ("unknown_words",)
                yield request, Reply(scores=dict(zip(LETTERS, scores.tolist(), strict=True)), flags=flags)

    def close(self) -> None:
        """Free the network's memory."""
        self._net = self._data = None
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    def _load(self) -> None:
        """Network and vocabulary of the checkpoint; the recipes it was trained on are not needed."""
        if self._net is not None:
            return
        checkpoint = load_checkpoint(self.ckpt)
        config = checkpoint["config"]
        if (config.get("data") or {}).get("_target_") != RETRIEVAL or RetrievalData.__qualname__ not in checkpoint:
            raise InputError(
                f"model.ckpt={self.ckpt}: a checkpoint of {config['model'].get('name')}, which does not rank "
                "recipes and photos; give one of model=im2recipe or model=recipe_transformer"
            )
        config = {key: config.get(key) for key in (*_SECTIONS, "trainer")}
        require_allowed(config, self.ckpt)
        cfg = OmegaConf.create(config)
        assert not isinstance(cfg, list)
        with open_dict(cfg):
            cfg.data.cache, cfg.model.compile = self.cache, False
            if "weights" in cfg.model.net:
                cfg.model.net.weights = "random"  # those of the checkpoint come over them; nothing is downloaded
        data = build_data(cfg, checkpoint[RetrievalData.__qualname__], self.ckpt)  # pyright: ignore[reportArgumentType]
        if data.sentences != "words":
            raise InputError(
                f"model.ckpt={self.ckpt}: reads precomputed sentence vectors, which new texts do not have; give one "
                "trained with data.sentences=words"
            )
        if data.image_input == "features" and not data.features.reads_files:
            raise InputError(f"model.ckpt={self.ckpt}: reads a file of image features, which has none of new photos")
        model = build_model(cfg, data)  # pyright: ignore[reportArgumentType]
        load_weights(model, checkpoint, self.ckpt)
        self._data, self._net, self._name = data, model.net.eval().to(self.device), str(cfg.model.name)

    def _keys(self, question: FoodQuestion) -> list[tuple[str, str]]:
        """Each text of a question: its subject, and the whole sentence."""
        subjects = [question.question] if question.image_options else list(question.choices)
        whole = texts_of(question, self.option_template, self.question_template)
        return [(subject.strip(), text) for subject, text in zip(subjects, whole, strict=True)]

    def _embed_texts(
        self, questions: Sequence[FoodQuestion]
    ) -> tuple[dict[tuple[str, str], np.ndarray], dict[tuple[str, str], bool]]:
        """Unit vectors (D,) float64 of all texts, and whether a word of theirs is known."""
        data = self._data
        assert data is not None and data.vocabulary is not None
        keys = sorted({key for question in questions for key in self._keys(question)})
        recipes = [_as_recipe(f"{i:08d}", *key) for i, key in enumerate(keys)]  # ids in the order of the rows
        vectors, known = {}, {}
        with TemporaryDirectory() as folder:
            write_table(Path(folder) / "texts", recipes)
            table = open_table(Path(folder) / "texts")
            encoded = encode_recipes(Path(folder), table, np.arange(len(keys)), data.vocabulary, data.encoding)
            for start in range(0, len(keys), self.batch_size):
                rows = np.arange(start, min(start + self.batch_size, len(keys)))
                found = self._run("embed_recipes", encoded.text_batch(rows))
                vectors |= dict(zip([keys[row] for row in rows], found, strict=True))
            known = {key: _knows(encoded, row) for row, key in enumerate(keys)}
        return vectors, known

    def _embed_photos(self, paths: Sequence[str]) -> tuple[dict[str, np.ndarray], dict[str, str]]:
        """Unit vectors (D,) float64 by path; errors of those that cannot be read."""
        found, errors = {}, {}
        for start in range(0, len(paths), self.batch_size):
            part = [Path(path) for path in paths[start : start + self.batch_size]]
            try:
                vectors = self._photos(part)
            except InputError:
                good = []  # look for the bad ones singly
                for path in part:
                    try:
                        self._photos([path])
                        good.append(path)
                    except InputError as error:
                        errors[str(path)] = str(error)
                part, vectors = good, self._photos(good) if good else np.empty((0, 0))
            found |= dict(zip(map(str, part), vectors, strict=True))
        return found, errors

    def _photos(self, paths: Sequence[Path]) -> np.ndarray:
        data = self._data
        assert data is not None
        if data.image_input == "features":
            batch = {"image": torch.from_numpy(data.features.extract(paths))}
        else:
            batch = {"pixels": photo_batch(paths)}
        return self._run("embed_images", batch)

    def _run(self, method: str, batch: dict[str, torch.Tensor]) -> np.ndarray:
        with torch.inference_mode():
            vectors = getattr(self._net, method)({key: value.to(self.device) for key, value in batch.items()})
        return vectors.double().cpu().numpy()


def _as_recipe(name: str, subject: str, text: str) -> Recipe:
    """A text as the network reads texts: a recipe of this title and ingredient, and one instruction."""
    found = " ".join(ingredient_name(subject))
    return Recipe(
        name, subject, (subject,), (text,), partition="test", detected=(found or subject,), valid=(bool(found),)
    )


def _knows(encoded: EncodedRecipes, row: int) -> bool:
    batch = encoded.text_batch(np.array([row]))
    return any(int(batch[key].max()) > END_ROW for key in ("ingredients", "sentences", "title"))
