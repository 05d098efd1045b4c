"""Dual encoder with a hierarchical transformer over the recipe and a pretrained vision transformer over the photo."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from data.errors import InputError
from models.im2recipe import MeanPool, by_length, check_size, load_word_table, look_up, unit, word_table


class VisionTower(nn.Module):
    """Image tower of Hugging Face transformers, (B, 3, S, S) uint8 -> (B, size): CLIP, SigLIP, ViT, DINOv2 and others.

    Of a two-tower model the vision part is taken. The vector is the tower's pooled output, and the state of the class
    token where it has no trained one (ViT). Pixels are brought to 0..1, less `mean`, divided by `deviation`.

    Args:
        image_model: name on the Hugging Face hub, or a local folder with `config.json` and the weights.
        weights: `pretrained`, or `random` for tests.
        image_config: with random weights, the tower's configuration itself (`model_type` and sizes); no file is read.
        image_mean: of the three channels; None reads `preprocessor_config.json` beside the weights.
        image_std: likewise.

    Raises:
        InputError: transformers is not installed, or the model cannot be had or is no image tower.
    """

    mean: Tensor
    deviation: Tensor

    def __init__(
        self,
        image_model: str,
        weights: str = "pretrained",
        image_config: Mapping[str, Any] | None = None,
        image_mean: Sequence[float] | None = None,
        image_std: Sequence[float] | None = None,
    ) -> None:
        super().__init__()
        if weights not in ("pretrained", "random"):
            raise InputError(f"model: weights={weights} is none of pretrained, random")
        if image_config is not None and weights != "random":
            raise InputError("model: image_config describes a tower of random weights; set weights=random or leave it")
        try:
            from transformers import AutoConfig, AutoModel
        except ImportError as error:
            raise InputError(
                f"model: image_model={image_model} needs transformers ({error}); pip install transformers"
            ) from None
        try:
            if image_config is not None:
                config = AutoConfig.for_model(**image_config)
            else:
                config = AutoConfig.from_pretrained(image_model)
            config = getattr(config, "vision_config", config)
            # ViT's pooler is no part of the published weights.
            extra = {"add_pooling_layer": False} if config.model_type in ("vit", "deit", "beit") else {}
            if weights == "random":
                self.network = AutoModel.from_config(config, **extra)
            else:
                self.network = _load(AutoModel, image_model, config=config, **extra)
            if (image_mean is None or image_std is None) and image_config is None:
                found = _preprocessor(image_model)
                image_mean, image_std = image_mean or found["image_mean"], image_std or found["image_std"]
        except Exception as error:  # of the network, the hub, the weights format or the tower's own code
            reason = " ".join(str(error).split())[:160]
            raise InputError(
                f"model: image_model={image_model} cannot be loaded ({reason}); without a network give a local folder "
                "with config.json, preprocessor_config.json and model.safetensors, or read image features instead"
            ) from None
        sizes = getattr(config, "hidden_sizes", None)
        self.size = sizes[-1] if sizes else getattr(config, "hidden_size", 0)
        self.pixel_size = getattr(config, "image_size", None)
        if getattr(self.network, "main_input_name", "") != "pixel_values" or not self.size:
            raise InputError(f"model: image_model={image_model} is no image tower; choose a CLIP, ViT or like model")
        for name, values in (("mean", image_mean or [0.5] * 3), ("deviation", image_std or [0.5] * 3)):
            if len(values) != 3:
                raise InputError(f"model: {name} of the pixels has {len(values)} numbers and not one for each colour")
            scaled = 255 * torch.tensor(list(values), dtype=torch.float32).view(1, 3, 1, 1)
            self.register_buffer(name, scaled, persistent=False)

    def forward(self, pixels: Tensor) -> Tensor:
        """Vectors (B, size); InputError where the pixels have another size than the tower takes."""
        if isinstance(self.pixel_size, int) and tuple(pixels.shape[2:]) != (self.pixel_size, self.pixel_size):
            raise InputError(
                f"model: the image tower takes {self.pixel_size} x {self.pixel_size} pixels and gets "
                f"{pixels.shape[2]} x {pixels.shape[3]}; set the size of the crop to it or choose another image_model"
            )
        output = self.network(pixel_values=(pixels.to(self.mean.dtype) - self.mean) / self.deviation)
        pooled = getattr(output, "pooler_output", None)
        return output.last_hidden_state[:, 0] if pooled is None else pooled.flatten(1)


class SequenceEncoder(nn.Module):
    """Transformer over a padded sequence, mean of its last states, (N, T, D) and counts (N,) -> (N, D).

    Sinusoidal positions (Vaswani et al. 2017, section 3.5) have no greatest length. Normalisation comes first in each
    layer, which trains without a warm-up.
    """

    def __init__(self, size: int, heads: int, layers: int, dropout: float) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(
            size, heads, 4 * size, dropout, activation="gelu", batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, layers, norm=nn.LayerNorm(size), enable_nested_tensor=False)
        self.pool = MeanPool(size)

    def forward(self, inputs: Tensor, count: Tensor) -> Tensor:
        """Vectors (N, D); counts are at least 1."""
        return by_length(self._read, inputs, count)

    def _read(self, inputs: Tensor, count: Tensor) -> Tensor:
        padding = torch.arange(inputs.shape[1], device=inputs.device) >= count[:, None]  # (N, T)
        states = self.encoder(inputs + sinusoids(*inputs.shape[1:], like=inputs), src_key_padding_mask=padding)
        return self.pool(states, count)


def sinusoids(length: int, size: int, like: Tensor) -> Tensor:
    """Positions (length, size): sines in the even columns, cosines in the odd ones (Vaswani et al. 2017)."""
    place = torch.arange(length, device=like.device, dtype=torch.float32)[:, None]
    rate = torch.exp(torch.arange(0, size, 2, device=like.device) * (-math.log(10_000.0) / size))
    return torch.stack([(place * rate).sin(), (place * rate).cos()], dim=2).flatten(1)[:, :size].to(like.dtype)


class RecipeTransformer(nn.Module):
    """Photos and recipes in one space, after the hierarchical transformers of Salvador et al. 2021 (section 3).

    - Title, ingredient list: a transformer over words or ingredients each, mean of the last states.
    - Instructions: a transformer over the words of each sentence, its mean; another one over the sentences, its mean.
    - Recipe: [title, ingredients, instructions] side by side, Linear, unit length.
    - Image: a pretrained tower (`VisionTower`), Linear, unit length.
    - Semantic head: one Linear of the embeddings, the same for both.

    Differs from the paper: an ingredient is one word of the vocabulary, positions are sinusoidal, normalisation comes
    first. The temperature of a contrastive loss belongs to the loss.

    Args:
        words: rows of the word table, N + 2: 0 is padding, 1 the end of a list, the word on line j at j + 2.
        word_size: size of the word vectors.
        classes: semantic classes, background included; 0 or 1 builds no head.
        image_size: None reads `pixels`; a number reads `image` features of that size from a frozen extractor.
        sentence_size: None trains the encoder of sentences; a number reads `sentence_vectors` of that size.
        image_model: see `VisionTower`, as for `weights`, `image_config`, `image_mean` and `image_std`.
        embedding_size: of the joint space.
        width: of the transformers.
        heads: of the transformers; divides `width`.
        layers: of each transformer.
        dropout: inside them.
        use_ingredients: False leaves them out.
        use_instructions: False leaves them out.
        use_title: False leaves it out.

    Raises:
        InputError: settings that do not fit, a model that cannot be had.
    """

    def __init__(
        self,
        *,
        words: int,
        word_size: int = 300,
        classes: int = 0,
        image_size: int | None = None,
        sentence_size: int | None = None,
        image_model: str = "openai/clip-vit-base-patch16",
        weights: str = "pretrained",
        image_config: Mapping[str, Any] | None = None,
        image_mean: Sequence[float] | None = None,
        image_std: Sequence[float] | None = None,
        embedding_size: int = 1024,
        width: int = 512,
        heads: int = 4,
        layers: int = 2,
        dropout: float = 0.1,
        use_ingredients: bool = True,
        use_instructions: bool = True,
        use_title: bool = True,
    ) -> None:
        super().__init__()
        if not (use_ingredients or use_instructions or use_title):
            raise InputError("model: nothing of the recipe is used; set use_ingredients, use_instructions or use_title")
        if words < 2:
            raise InputError(f"model: words={words} rows of the word table; it has two at least")
        if width % heads or layers < 1 or not 0 <= dropout < 1:
            raise InputError(
                f"model: heads={heads} must divide width={width}, layers={layers} be at least 1, dropout={dropout} in "
                "[0, 1)"
            )
        self.image_size, self.sentence_size = image_size, sentence_size
        self.tower = None
        if image_size is None:
            self.tower = VisionTower(image_model, weights, image_config, image_mean, image_std)
        self.image_projection = nn.Linear(image_size or self.tower.size, embedding_size)  # type: ignore[union-attr]

        def encoder(wanted: bool) -> SequenceEncoder | None:
            return SequenceEncoder(width, heads, layers, dropout) if wanted else None

        self.title, self.ingredients = encoder(use_title), encoder(use_ingredients)
        self.sentences = encoder(use_instructions and sentence_size is None)
        self.instructions = encoder(use_instructions)
        self.words = self.from_words = self.from_vectors = None
        if use_title or use_ingredients or self.sentences is not None:
            self.words = word_table(words, word_size)
            # Word vectors have unit length, positions have sqrt(width / 2).
            self.from_words = nn.Sequential(nn.Linear(word_size, width), nn.LayerNorm(width))
        if use_instructions and sentence_size is not None:
            self.from_vectors = nn.Sequential(nn.Linear(sentence_size, width), nn.LayerNorm(width))
        parts = use_title + use_ingredients + use_instructions
        self.recipe_projection = nn.Linear(parts * width, embedding_size)
        self.classifier = nn.Linear(embedding_size, classes) if classes > 1 else None

    def forward(self, batch: dict[str, Any]) -> dict[str, Tensor]:
        """Embed the photos and recipes of a batch; see `Im2Recipe.forward`, whose contract this is."""
        output = {"image": self.embed_images(batch), "recipe": self.embed_recipes(batch)}
        if self.classifier is not None:
            output |= {f"{side}_logits": self.classifier(output[side]) for side in ("image", "recipe")}
        return output

    def embed_images(self, batch: dict[str, Any]) -> Tensor:
        """(B, embedding_size) of unit length, of the photos alone."""
        if self.tower is None:
            features = batch["image"].to(self.image_projection.weight.dtype)
            check_size("image features", features, self.image_size or 0, "image_size")
        else:
            features = self.tower(batch["pixels"])
        return unit(self.image_projection(features))

    def embed_recipes(self, batch: dict[str, Any]) -> Tensor:
        """(B, embedding_size) of unit length, of the recipes alone."""
        rows = (
            batch["title"] if self.title is not None else None,
            batch["ingredients"] if self.ingredients is not None else None,
            batch["sentences"] if self.sentences is not None else None,
        )
        title, ingredients, sentences = (self._widen(vectors) for vectors in look_up(self.words, rows))
        parts = []
        if self.title is not None:
            parts.append(self.title(title, batch["title_count"]))
        if self.ingredients is not None:
            parts.append(self.ingredients(ingredients, batch["ingredient_count"]))
        if self.instructions is not None:
            if self.sentences is not None:
                vectors = self.sentences(sentences, batch["sentence_count"])  # (S, width)
            else:
                vectors = batch["sentence_vectors"].to(self.recipe_projection.weight.dtype)
                check_size("sentence vectors", vectors, self.sentence_size or 0, "sentence_size")
                vectors = self.from_vectors(vectors)  # type: ignore[misc]
            parts.append(self.instructions(F.embedding(batch["instructions"], vectors), batch["instruction_count"]))
        return unit(self.recipe_projection(torch.cat(parts, dim=1)))

    def load_word_table(self, table: Tensor) -> None:
        """Start from trained word vectors, (words, word_size); row 0, the padding, stays zero."""
        if self.words is not None:
            load_word_table(self.words, table)

    def sides(self) -> dict[str, list[nn.Module]]:
        """The modules of the two sides that a schedule may freeze in turn; see `Im2Recipe.sides`."""
        image: list[nn.Module] = [self.image_projection] if self.tower is None else [self.tower]
        return {"image": image, "recipe": [m for m in self.children() if m not in image]}

    def _widen(self, vectors: Tensor | None) -> Tensor | None:
        return None if vectors is None or self.from_words is None else self.from_words(vectors)


def _load(factory: Any, image_model: str, **settings: Any) -> Any:
    """A tower with published weights, all of them in single precision; OSError where some are not among them."""
    from transformers.utils import logging

    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()  # the text half of a two-tower model would be reported weight by weight
    try:
        network, found = factory.from_pretrained(
            image_model, dtype=torch.float32, output_loading_info=True, trust_remote_code=False, **settings
        )
    finally:
        logging.set_verbosity(verbosity)
    absent = sorted(map(str, (*found["missing_keys"], *found["mismatched_keys"])))
    if absent:
        raise OSError(f"its weights lack {len(absent)} of the tower, {absent[0]} the first")
    return network


def _preprocessor(image_model: str) -> dict[str, Any]:
    """Mean and deviation of the pixels a published tower was trained on."""
    from transformers.utils.hub import cached_file

    path = cached_file(image_model, "preprocessor_config.json")
    if path is None:
        raise OSError("it has no preprocessor_config.json; set image_mean and image_std")
    with open(path, encoding="utf-8") as file:
        found = json.load(file)
    if not isinstance(found, dict) or not {"image_mean", "image_std"} <= found.keys():
        raise OSError("its preprocessor_config.json has no image_mean and image_std; set them")
    return found
