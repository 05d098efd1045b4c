"""Sentence embeddings by a pretrained transformer of the user's."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from data.errors import InputError
from models.pretrained import (
    display_name,
    load_whole,
    loading,
    one_line,
    pick_device,
    revision_of,
    source_of,
    transformers_library,
)


class SentenceEncoder:
    """Mean of a transformer's last hidden states over the words of a text, of unit length (Reimers and Gurevych 2019).

    Args:
        path: a folder, or a name on the hub; an encoder such as BERT, or a Sentence-Transformers model without further
            layers.
        revision: of the hub.
        max_length: tokens of a text that are read.
        batch_size: texts at a time; no part of the identity.
        device: `auto`, `cpu`, `cuda`.
        local_files_only: never ask the hub.
    """

    def __init__(
        self,
        path: str,
        revision: str | None = None,
        max_length: int = 256,
        batch_size: int = 32,
        device: str = "auto",
        local_files_only: bool = False,
    ) -> None:
        for key, value in (("max_length", max_length), ("batch_size", batch_size)):
            if not isinstance(value, int) or value < 1:
                raise InputError(f"data.encoder.{key}={value}: must be a whole number of at least 1")
        self.path, self.revision, self.max_length, self.batch_size = str(path), revision, max_length, batch_size
        self.device = pick_device(device)
        self.hub: dict[str, Any] = {"local_files_only": local_files_only}
        if revision is not None:
            self.hub["revision"] = revision
        self._model: Any = None
        self._tokenizer: Any = None

    def identity(self) -> dict[str, Any]:
        """See `data.encoders.Encoder`."""
        self._load()
        return {
            "kind": "sentences",
            "model": display_name(self.path),
            "revision": revision_of(self.path, self.revision),
            "max_length": self.max_length,
            "transformers": transformers_library().__version__,
        }

    def text_vectors(self, texts: Sequence[str]) -> np.ndarray:
        """(n, D) float32 of unit length; zeros where a text has no token."""
        self._load()
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        found: list[np.ndarray] = [np.zeros(0)] * len(texts)
        for start in range(0, len(order), self.batch_size):
            rows = order[start : start + self.batch_size]
            inputs = self._tokenizer(
                [texts[i] for i in rows], padding=True, truncation=True, max_length=self._longest, return_tensors="pt"
            ).to(self.device)
            with torch.inference_mode():
                states = self._model(**inputs).last_hidden_state.float()  # (B, T, D)
            mask = inputs["attention_mask"][:, :, None]
            mean = (states * mask).sum(1) / mask.sum(1).clamp(min=1)
            for i, vector in zip(rows, torch.nn.functional.normalize(mean, dim=1).cpu().numpy(), strict=True):
                found[i] = vector
        return np.stack(found)

    def _load(self) -> None:
        if self._model is not None:
            return
        transformers = transformers_library()
        source = source_of(self.path)
        with loading(self.path, "its tokenizer"):
            self._tokenizer = transformers.AutoTokenizer.from_pretrained(source, **self.hub)
        if self._tokenizer.pad_token is None:
            raise InputError(f"data.encoder.path={self.path}: its tokenizer cannot fill up; give an encoder like BERT")
        model = load_whole(transformers.AutoModel, self.path, dtype=torch.float32, **self.hub).to(self.device)
        if getattr(model.config, "is_encoder_decoder", False):
            raise InputError(f"data.encoder.path={self.path}: is no encoder of texts; give an encoder like BERT")
        places = getattr(model.config, "max_position_embeddings", None) or self.max_length
        self._longest = min(self.max_length, places)
        try:
            with torch.inference_mode():
                probe = self._tokenizer(["a"], return_tensors="pt").to(self.device)
                model(**probe).last_hidden_state.shape  # noqa: B018 (whether there is one)
        except Exception as error:  # of the model's own code
            raise InputError(
                f"data.encoder.path={self.path}: does not embed texts ({one_line(error)}); give an encoder like BERT"
            ) from error
        self._model = model
