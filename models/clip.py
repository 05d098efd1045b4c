"""Dual encoders of images and texts (CLIP, Chinese-CLIP, SigLIP) as systems that answer without a prompt."""

import string
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn.functional import normalize

from data.errors import InputError
from data.food_images import load_image
from data.records import LETTERS, FoodQuestion
from models.backend import Capabilities, Reply, Request
from models.pretrained import (
    display_name,
    load_whole,
    loading,
    one_line,
    pick_device,
    pick_dtype,
    revision_of,
    source_of,
    transformers_library,
)

_WINDOW = 128  # questions whose photos and texts are embedded together, each once


class DualEncoder:
    """`model=clip`: the option nearest by cosine similarity, image against text (Radford et al. 2021, section 3.1).

    - Text options (single-image questions): the image against question and option as one text, each option in turn.
      A question about several images takes the mean of its similarities.
    - Image options (multi-image questions): the question's text against each image.

    The similarities are the reply's `scores`, as they are, without the model's temperature. Where a text is longer than
    the model reads, the question loses its beginning, so that the option is not what is cut off (flag
    `text_truncated`).

    Args:
        path: a folder, or a name on the hub.
        revision: of the hub.
        option_template: text of an option, of {question} and {option}.
        question_template: text of a question about image options, of {question}.
        batch_size: images or texts at a time; no part of the identity.
        dtype: float32, or `auto`: bfloat16 on a GPU, which ties scores that differ in float32.
        device: `auto`, `cpu`, `cuda`, `cuda:1`.
        image_longest_side: photos are made smaller to this many pixels before the model's own processor sees them.
        local_files_only: never ask the hub.
    """

    kind = "clip"

    def __init__(
        self,
        path: str,
        revision: str | None = None,
        option_template: str = "{question} {option}",
        question_template: str = "{question}",
        batch_size: int = 32,
        dtype: str = "float32",
        device: str = "auto",
        image_longest_side: int = 1024,
        local_files_only: bool = False,
    ) -> None:
        check_template("option_template", option_template, {"question", "option"}, "option")
        check_template("question_template", question_template, {"question"}, "question")
        for key, value in (("batch_size", batch_size), ("image_longest_side", image_longest_side)):
            if not isinstance(value, int) or value < 1:
                raise InputError(f"model.{key}={value}: must be a whole number of at least 1")
        self.path, self.revision = str(path), revision
        self.option_template, self.question_template = option_template, question_template
        self.batch_size, self.image_longest_side = batch_size, image_longest_side
        self.device = pick_device(device)
        self.dtype = pick_dtype(dtype, self.device)
        self.hub: dict[str, Any] = {"local_files_only": local_files_only}
        if revision is not None:
            self.hub["revision"] = revision
        self._model: Any = None
        self._processor: Any = None
        self._identity: dict[str, Any] | None = None
        self._fitting: dict[tuple[str, ...], list[str]] = {}  # texts of a question, and what is read of them

    def identity(self) -> dict[str, Any]:
        """See `Backend`."""
        if self._identity is None:
            transformers = transformers_library()
            self._read()
            self._identity = {
                "backend": self.kind,
                "version": transformers.__version__,
                "torch": torch.__version__,
                "model": display_name(self.path),
                "revision": revision_of(self.path, self.revision),
                "dtype": str(self.dtype).removeprefix("torch."),
                "device": self.device.type,
                "generation": {"option": self.option_template, "question": self.question_template},
                "images": {"longest_side": self.image_longest_side},
            }
        return self._identity

    def capabilities(self) -> Capabilities:
        """No prompts: one score for each option."""
        self._read()
        return Capabilities(prefill=False, logprobs=False, max_images=4, prompted=False)

    def check(self, method: str) -> None:
        """InputError for any method but `score`."""
        if method != "score":
            raise InputError(f"asking.method={method}: model={self.kind} generates nothing, it only scores")

    def answer(self, requests: Sequence[Request]) -> Iterator[tuple[Request, Reply]]:
        """See `Backend`. A photo that cannot be read is the error of its questions.

        Raises:
            InputError: the model cannot be loaded; a question without images.
        """
        for request in requests:
            self.check(request.method)
            require_images(request.question, self.kind)
        if not requests:
            return
        self._load()
        for start in range(0, len(requests), _WINDOW):
            yield from self._window(requests[start : start + _WINDOW])

    def text_vectors(self, texts: Sequence[str]) -> np.ndarray:
        """(n, D) float32 of unit length, what is longer than the model reads cut off; see `data.encoders.Encoder`."""
        self._load()
        found = self.embed_texts(set(texts))
        return torch.stack([found[text] for text in texts]).numpy()

    def image_vectors(self, paths: Sequence[Path]) -> np.ndarray:
        """(n, D) float32 of unit length. InputError for a picture that cannot be read."""
        self._load()
        found, errors = self.embed_images({str(path) for path in paths})
        for error in errors.values():
            raise InputError(error)
        return torch.stack([found[str(path)] for path in paths]).numpy()

    def close(self) -> None:
        """Free the model's memory."""
        self._model = None
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    def _read(self) -> None:
        """Config and processor."""
        if self._processor is not None:
            return
        transformers = transformers_library()
        from transformers.models.auto.modeling_auto import MODEL_MAPPING

        source = source_of(self.path)
        with loading(self.path, "its config"):
            config = transformers.AutoConfig.from_pretrained(source, **self.hub)
        found = MODEL_MAPPING.get(type(config), None)
        if not (hasattr(found, "get_image_features") and hasattr(found, "get_text_features")):
            raise InputError(
                f"model.name={self.path}: a {type(config).__name__} does not embed images and texts alike; choose "
                "CLIP, Chinese-CLIP or SigLIP (for models that generate text model=vlm/transformers)"
            )
        with loading(self.path, "its processor"):
            processor = transformers.AutoProcessor.from_pretrained(source, **self.hub)
            if getattr(processor, "tokenizer", None) is None or getattr(processor, "image_processor", None) is None:
                raise ValueError("no processor of images and texts")
        text = getattr(config, "text_config", config)
        self._longest = int(getattr(text, "max_position_embeddings", 77))
        # SigLIP was trained on texts filled up to full length, and reads others otherwise.
        self._padding = "max_length" if config.model_type.startswith("siglip") else True
        self._processor = processor

    def _load(self) -> None:
        """The weights."""
        self._read()
        if self._model is None:
            transformers = transformers_library()
            model = load_whole(transformers.AutoModel, self.path, dtype=self.dtype, **self.hub)
            with loading(self.path, "the model"):
                self._model = model.to(self.device)

    def _window(self, requests: Sequence[Request]) -> Iterator[tuple[Request, Reply]]:
        images, errors = self.embed_images({path for r in requests for path in r.question.images})
        texts = self.embed_texts({text for r in requests for text in self._texts(r.question)})
        for request in requests:
            question = request.question
            fault = next((errors[path] for path in question.images if path in errors), None)
            if fault is not None:
                yield request, Reply(error=fault)
                continue
            shown = torch.stack([images[path] for path in question.images])  # (images, D)
            asked = torch.stack([texts[text] for text in self._texts(question)])  # (4, D) or (1, D)
            similar = asked.double() @ shown.double().T
            scores = similar[0] if question.image_options else similar.mean(1)
            whole = texts_of(question, self.option_template, self.question_template)
            flags = ("text_truncated",) if whole != self._texts(question) else ()
            yield request, Reply(scores=dict(zip(LETTERS, scores.tolist(), strict=True)), flags=flags)

    def _texts(self, question: FoodQuestion) -> list[str]:
        """The question's texts, made to fit."""
        texts = texts_of(question, self.option_template, self.question_template)
        key, left = tuple(texts), question.question.strip()
        if key not in self._fitting:
            while left and max(len(ids) for ids in self._processor.tokenizer(texts)["input_ids"]) > self._longest:
                left = left[len(left) // 8 + 1 :]
                texts = texts_of(replace(question, question=left), self.option_template, self.question_template)
            self._fitting[key] = texts
        return self._fitting[key]

    def embed_images(self, paths: Iterable[str]) -> tuple[dict[str, torch.Tensor], dict[str, str]]:
        """Unit vectors (D,) float32 on the CPU by path; errors of those that cannot be read."""
        found, errors, good = {}, {}, []
        for path in sorted(paths):
            try:
                good.append((path, load_image(path, self.image_longest_side)))
            except InputError as error:
                errors[path] = str(error)
        for start in range(0, len(good), self.batch_size):
            part = good[start : start + self.batch_size]
            inputs = self._prepared(images=[image for _, image in part])
            found |= dict(zip([path for path, _ in part], self._features("image", inputs), strict=True))
        return found, errors

    def embed_texts(self, texts: Iterable[str]) -> dict[str, torch.Tensor]:
        """Unit vectors (D,) float32 on the CPU by text."""
        ordered, found = sorted(texts, key=lambda text: (len(text), text)), {}
        for start in range(0, len(ordered), self.batch_size):
            part = ordered[start : start + self.batch_size]
            found |= dict(zip(part, self._features("text", self._prepared(text=part)), strict=True))
        return found

    def _prepared(self, **given: Any) -> dict[str, Any]:
        options: dict[str, Any] = {"return_tensors": "pt"}
        if "text" in given:
            options |= {"padding": self._padding, "truncation": True, "max_length": self._longest}
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                inputs = self._processor(**given, **options)
        except Exception as error:  # of the model's own processor
            raise InputError(f"model.name={self.path}: its processor refuses the input ({one_line(error)})") from error
        return {k: v.to(self.device, self.dtype if v.is_floating_point() else None) for k, v in inputs.items()}

    def _features(self, side: str, inputs: dict[str, Any]) -> torch.Tensor:
        try:
            with torch.inference_mode():
                output = getattr(self._model, f"get_{side}_features")(**inputs)
        except torch.OutOfMemoryError:
            self.close()
            raise InputError(
                f"model.batch_size={self.batch_size}: does not fit into the memory of the GPU; set a smaller one"
            ) from None
        vectors = output if isinstance(output, torch.Tensor) else output.pooler_output
        return normalize(vectors.float(), dim=-1).cpu()


def texts_of(question: FoodQuestion, option_template: str, question_template: str) -> list[str]:
    """The texts that are set against the images: one for each text option, or one for the question."""
    if question.image_options:
        return [question_template.format(question=question.question.strip())]
    choices = [choice.strip() for choice in question.choices]
    return [option_template.format(question=question.question.strip(), option=choice) for choice in choices]


def require_images(question: FoodQuestion, model: str) -> None:
    """InputError for a question that shows nothing: there is no image whose similarity could answer it."""
    if not question.images:
        raise InputError(
            f"{question.task} row {question.row}: shows no image, and model={model} compares images with texts; choose "
            "data=foodieqa/single_image or data=foodieqa/multi_image"
        )


def check_template(key: str, template: str, allowed: set[str], needed: str) -> None:
    """InputError for a template that lacks its field or has another one."""
    try:
        fields = {name for _, name, _, _ in string.Formatter().parse(template) if name is not None}
    except ValueError as error:
        raise InputError(f"model.{key}={template}: is no template ({error}); write {{{needed}}}") from None
    if needed not in fields or fields - allowed:
        names = " and ".join(f"{{{name}}}" for name in sorted(allowed))
        raise InputError(f"model.{key}={template}: must hold {{{needed}}}, and may hold {names} only")
