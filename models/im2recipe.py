"""Dual encoder of photos and recipes (im2recipe, Salvador et al. 2017; Marin et al. 2021)."""

from collections.abc import Callable
from typing import Any
from urllib.error import URLError

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from data.errors import InputError
from data.weights import fill, read_weights

_FEW = 32  # rows of an LSTM on a CPU


class ResNet50(nn.Module):
    """torchvision's ResNet-50 up to its last pooling (He et al. 2016), (B, 3, H, W) uint8 -> (B, 2048).

    Input is RGB in 0..255, brought here to 0..1, less the ImageNet mean and divided by its deviation, so that a batch
    travels to the device as bytes.

    Args:
        weights: `IMAGENET1K_V1`, a local file of torchvision's weights, or `random`.

    Raises:
        InputError: the weights cannot be had, or the file is none of ResNet-50.
    """

    size = 2048
    mean: Tensor
    deviation: Tensor

    def __init__(self, weights: str = "IMAGENET1K_V1") -> None:
        super().__init__()
        try:
            from torchvision.models import ResNet50_Weights, resnet50
        except (ImportError, RuntimeError) as error:  # a torchvision built for another torch fails on import
            reason = " ".join(str(error).split())[:120]
            raise InputError(
                f"model: ResNet-50 needs torchvision ({reason}); install the release that fits this torch, or read "
                "image features in place of pixels"
            ) from None
        self.network = resnet50(weights=None)
        if weights == "IMAGENET1K_V1":
            try:
                state = ResNet50_Weights.IMAGENET1K_V1.get_state_dict(progress=True, check_hash=True)
            except (URLError, OSError, RuntimeError) as error:
                raise InputError(
                    f"ResNet-50 weights IMAGENET1K_V1: cannot be downloaded ({error}); give a local file by "
                    "model.net.weights=FILE, or read vectors of a frozen network by data.image_input=features"
                ) from None
            fill(self.network, state, weights, "model.net.weights")
        elif weights != "random":
            fill(self.network, read_weights(weights, "model.net.weights"), weights, "model.net.weights")
        self.network.fc = nn.Identity()  # type: ignore[assignment]
        self.network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        for name, values in (("mean", (0.485, 0.456, 0.406)), ("deviation", (0.229, 0.224, 0.225))):
            self.register_buffer(name, 255 * torch.tensor(values).view(1, 3, 1, 1), persistent=False)

    def forward(self, pixels: Tensor) -> Tensor:
        """Pooled features (B, 2048)."""
        pixels = (pixels.to(self.mean.dtype) - self.mean) / self.deviation
        return self.network(pixels.contiguous(memory_format=torch.channels_last))


class LastState(nn.Module):
    """Uni-directional LSTM read at the last real element, (N, T, D) and counts (N,) -> (N, H).

    Sequences are padded on the right and never packed: a state depends on what came before it only, so the padding
    changes nothing. On a CPU rows of similar length run together (`by_length`).
    """

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(input_size, hidden_size, batch_first=True)
        self.size = hidden_size

    def forward(self, inputs: Tensor, count: Tensor) -> Tensor:
        """Last states (N, H); counts are at least 1."""
        return by_length(self._read, inputs, count)

    def _read(self, inputs: Tensor, count: Tensor) -> Tensor:
        if inputs.device.type == "cpu":  # where the LSTM of some CPUs has no half precision
            with torch.autocast("cpu", enabled=False):
                states, _ = self.lstm(inputs.to(next(self.lstm.parameters()).dtype))
        else:
            states, _ = self.lstm(inputs)  # (N, T, H)
        return states.gather(1, (count - 1)[:, None, None].expand(-1, 1, self.size))[:, 0]


class LastStates(nn.Module):
    """Bi-directional LSTM, the last states of both directions side by side, (N, T, D) and counts (N,) -> (N, 2 H).

    The second direction is an LSTM over each sequence turned round within its own length, which needs no packing.
    """

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__()
        self.onward, self.back = LastState(input_size, hidden_size), LastState(input_size, hidden_size)
        self.size = 2 * hidden_size

    def forward(self, inputs: Tensor, count: Tensor) -> Tensor:
        """Last states (N, 2 H), of the first direction first."""
        place = torch.arange(inputs.shape[1], device=inputs.device)
        turned = (count[:, None] - 1 - place).clamp(min=0)  # (N, T); what stands behind the end is not read
        reverse = inputs.gather(1, turned[..., None].expand_as(inputs))
        return torch.cat([self.onward(inputs, count), self.back(reverse, count)], dim=1)


def by_length(read: Callable[[Tensor, Tensor], Tensor], inputs: Tensor, count: Tensor) -> Tensor:
    """`read(inputs, count)`, (N, T, ...) and (N,) -> (N, H), in groups of rows of similar length.

    The time of a padded sequence is that of the longest, and sentences of a recipe have 1 to 100 words. Groups are made
    on a CPU only: elsewhere the lengths would have to be fetched from the device, and one long launch is as good.

    Raises:
        ValueError: a count is 0 or beyond the padding.
    """
    if inputs.device.type != "cpu" or torch.compiler.is_compiling():
        return read(inputs, count)
    if not len(count) or int(count.min()) < 1 or int(count.max()) > inputs.shape[1]:
        raise ValueError(f"sequences of {sorted(set(count.tolist()))} elements in {inputs.shape[1]} columns")
    order = count.argsort(stable=True)
    parts, start, lengths = [], 0, count[order].tolist()
    for end in range(1, len(lengths) + 1):
        # A step over fewer rows than that takes as long, most of it to read the weights.
        if end == len(lengths) or (end - start >= _FEW and 2 * lengths[end] > 3 * lengths[start] and lengths[end] > 4):
            rows = order[start:end]
            parts.append(read(inputs[rows, : lengths[end - 1]], count[rows]))
            start = end
    return torch.cat(parts)[order.argsort(stable=True)]


class Im2Recipe(nn.Module):
    """Photos and recipes in one space (Salvador et al. 2017, section 3; Marin et al. 2021, section 4).

    - Image: ResNet-50, Linear, tanh, unit length.
    - Ingredients: trained word vectors, bi-directional LSTM, both last states.
    - Instructions: a vector for each sentence, LSTM, its last state. The vectors come from a sentence encoder trained
      along (an LSTM over words, its last state) or are precomputed (skip-instructions, as published).
    - Recipe: [instructions, ingredients, title] side by side, Linear, tanh, unit length.
    - Semantic head: one Linear of the embeddings, the same for both.

    Args:
        words: rows of the word table, N + 2: 0 is padding, 1 the end of a list, the word on line j at j + 2.
        word_size: size of the word vectors.
        classes: semantic classes, background included; 0 or 1 builds no head.
        image_size: None reads `pixels`; a number reads `image` features of that size from a frozen extractor.
        sentence_size: None trains a sentence encoder; a number reads `sentence_vectors` of that size.
        weights: of the ResNet-50: `IMAGENET1K_V1`, a local file, or `random`.
        embedding_size: of the joint space.
        ingredient_hidden: of each direction.
        instruction_hidden: of the LSTM over sentences.
        sentence_hidden: of the LSTM over words, where it is trained.
        title_hidden: of the LSTM over the words of the title.
        sentence_words: `shared` reads the words of sentences and titles in the table of the ingredients, `own` in a
            second one.
        title_encoder: `lstm`, or `mean` of the word vectors.
        use_ingredients: False leaves them out.
        use_instructions: False leaves them out.
        use_title: the published model has none.

    Raises:
        InputError: settings that do not fit, weights that cannot be had.
    """

    def __init__(
        self,
        *,
        words: int,
        word_size: int = 300,
        classes: int = 0,
        image_size: int | None = None,
        sentence_size: int | None = None,
        weights: str = "IMAGENET1K_V1",
        embedding_size: int = 1024,
        ingredient_hidden: int = 300,
        instruction_hidden: int = 1024,
        sentence_hidden: int = 512,
        title_hidden: int = 300,
        sentence_words: str = "shared",
        title_encoder: str = "lstm",
        use_ingredients: bool = True,
        use_instructions: bool = True,
        use_title: bool = False,
    ) -> None:
        super().__init__()
        _one_of("sentence_words", sentence_words, ("shared", "own"))
        _one_of("title_encoder", title_encoder, ("lstm", "mean"))
        if not (use_ingredients or use_instructions or use_title):
            raise InputError(
                "model: nothing of the recipe is used; set one of use_ingredients, use_instructions, use_title"
            )
        if words < 2:
            raise InputError(f"model: words={words} rows of the word table; it has two at least")
        self.cnn = ResNet50(weights) if image_size is None else None
        self.image_size = ResNet50.size if image_size is None else image_size
        self.sentence_size, self.word_size = sentence_size, word_size
        self.image_projection = nn.Linear(self.image_size, embedding_size)

        reads_words = use_title or (use_instructions and sentence_size is None)
        own = reads_words and sentence_words == "own"
        self.words = word_table(words, word_size) if use_ingredients or (reads_words and not own) else None
        self.text_words = word_table(words, word_size) if own else None

        size = 0
        self.sentences = self.instructions = self.ingredients = self.title = None
        if use_instructions:
            if sentence_size is None:
                self.sentences = LastState(word_size, sentence_hidden)
            self.instructions = LastState(sentence_size or sentence_hidden, instruction_hidden)
            size += instruction_hidden
        if use_ingredients:
            self.ingredients = LastStates(word_size, ingredient_hidden)
            size += self.ingredients.size
        if use_title:
            self.title = LastState(word_size, title_hidden) if title_encoder == "lstm" else MeanPool(word_size)
            size += self.title.size
        self.recipe_projection = nn.Linear(size, embedding_size)
        self.classifier = nn.Linear(embedding_size, classes) if classes > 1 else None

    def forward(self, batch: dict[str, Any]) -> dict[str, Tensor]:
        """Embed the photos and recipes of a batch.

        Args:
            batch: `pixels` (B, 3, H, W) uint8 or `image` (B, image_size); `ingredients` (B, I) and
                `ingredient_count` (B,); `instructions` (B, T) and `instruction_count` (B,), rows of `sentences` (S, W)
                with `sentence_count` (S,) or of `sentence_vectors` (S, sentence_size); `title` (B, L) and
                `title_count` (B,). What an ablation leaves out need not be there.

        Returns:
            `image` and `recipe`, (B, embedding_size) of unit length, and with a semantic head `image_logits` and
            `recipe_logits`, (B, classes).
        """
        output = {"image": self.embed_images(batch), "recipe": self.embed_recipes(batch)}
        if self.classifier is not None:
            output |= {f"{side}_logits": self.classifier(output[side]) for side in ("image", "recipe")}
        return output

    def embed_images(self, batch: dict[str, Any]) -> Tensor:
        """(B, embedding_size) of unit length, of the photos alone."""
        if self.cnn is None:
            features = batch["image"].to(self.image_projection.weight.dtype)
            check_size("image features", features, self.image_size, "image_size")
        else:
            features = self.cnn(batch["pixels"])
        return unit(torch.tanh(self.image_projection(features)))

    def embed_recipes(self, batch: dict[str, Any]) -> Tensor:
        """(B, embedding_size) of unit length, of the recipes alone."""
        ingredients, sentences, title = self._word_vectors(batch)
        parts = []
        if self.instructions is not None:
            if sentences is not None and self.sentences is not None:
                vectors = self.sentences(sentences, batch["sentence_count"])  # (S, sentence_hidden)
            else:
                vectors = batch["sentence_vectors"].to(self.recipe_projection.weight.dtype)
                check_size("sentence vectors", vectors, self.sentence_size or 0, "sentence_size")
            parts.append(self.instructions(F.embedding(batch["instructions"], vectors), batch["instruction_count"]))
        if self.ingredients is not None:
            parts.append(self.ingredients(ingredients, batch["ingredient_count"]))
        if self.title is not None:
            parts.append(self.title(title, batch["title_count"]))
        return unit(torch.tanh(self.recipe_projection(torch.cat(parts, dim=1))))

    def load_word_table(self, table: Tensor) -> None:
        """Start from trained word vectors, (words, word_size); row 0, the padding, stays zero."""
        for words in (self.words, self.text_words):
            if words is not None:
                load_word_table(words, table)

    def sides(self) -> dict[str, list[nn.Module]]:
        """The modules of the two sides that a schedule may freeze in turn; together every parameter once.

        As in the reference implementation the image side is the CNN alone: the layer above it and the semantic head
        train with the recipe. Where features are read there is no CNN, and the layer above them is the image side.
        """
        image: list[nn.Module] = [self.image_projection] if self.cnn is None else [self.cnn]
        return {"image": image, "recipe": [m for m in self.children() if m not in image]}

    def _word_vectors(self, batch: dict[str, Any]) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        """Vectors of ingredients (B, I, D), sentences (S, W, D) and title (B, L, D).

        Looked up at once for each table, because every look-up costs a gradient of the size of the table.
        """
        rows = (
            batch["ingredients"] if self.ingredients is not None else None,
            batch["sentences"] if self.sentences is not None else None,
            batch["title"] if self.title is not None else None,
        )
        if self.text_words is None:
            return tuple(look_up(self.words, rows))  # type: ignore[return-value]
        return (*look_up(self.words, rows[:1]), *look_up(self.text_words, rows[1:]))  # type: ignore[return-value]


class MeanPool(nn.Module):
    """Mean of the real elements, (N, T, D) and counts (N,) -> (N, D)."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def forward(self, inputs: Tensor, count: Tensor) -> Tensor:
        """Means (N, D)."""
        real = torch.arange(inputs.shape[1], device=inputs.device) < count[:, None]
        return torch.where(real[..., None], inputs, 0.0).sum(dim=1) / count[:, None]


def word_table(words: int, size: int) -> nn.Embedding:
    """Word vectors of about unit length, as trained ones are; row 0 is zero and gets no gradient."""
    table = nn.Embedding(words, size, padding_idx=0)
    nn.init.normal_(table.weight, std=size**-0.5)
    with torch.no_grad():
        table.weight[0] = 0
    return table


def load_word_table(words: nn.Embedding, table: Tensor) -> None:
    """Copy a table into an embedding of the same shape, row 0 as zeros; InputError for another shape."""
    if tuple(table.shape) != tuple(words.weight.shape):
        raise InputError(
            f"model: the word table has {tuple(table.shape)} rows and columns, the model {tuple(words.weight.shape)}; "
            "the vocabulary is another than the model was built for"
        )
    if not bool(torch.isfinite(table).all()):
        raise InputError("model: the word table is not finite; make the vocabulary again")
    with torch.no_grad():
        words.weight.copy_(table)
        words.weight[0] = 0


def look_up(words: nn.Embedding | None, rows: tuple[Tensor | None, ...]) -> list[Tensor | None]:
    """Vectors of several matrices of rows with one look-up; None stays None."""
    flat = [row.flatten() for row in rows if row is not None]
    if words is None or not flat:
        return [None] * len(rows)
    vectors = iter(words(torch.cat(flat)).split([len(row) for row in flat]))
    return [None if row is None else next(vectors).view(*row.shape, -1) for row in rows]


def unit(vectors: Tensor) -> Tensor:
    """Rows x / max(|x|, 1e-12), in single precision at least: half precision would tie ranks that differ."""
    exact = torch.promote_types(vectors.dtype, torch.float32)
    return F.normalize(vectors.to(exact), dim=1, eps=1e-12)


def check_size(what: str, vectors: Tensor, size: int, key: str) -> None:
    """InputError where vectors (N, D) have another size than the model was built for."""
    if vectors.shape[-1] != size:
        raise InputError(f"model: {what} have size {vectors.shape[-1]}, the model {key}={size}; make them the same")


def _one_of(key: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise InputError(f"model: {key}={value} is none of {', '.join(allowed)}")
