"""Vectors of texts and pictures by a pretrained encoder of the user's, kept in the cache."""

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from data.errors import InputError
from data.images import image_vectors
from data.store import build_store


class Encoder(Protocol):
    """What embeds texts, and pictures in the same space if it can; `models.clip.DualEncoder`, `models.sentences`."""

    def identity(self) -> dict[str, Any]:
        """All that the vectors depend on, as plain values."""
        ...

    def text_vectors(self, texts: Sequence[str]) -> np.ndarray:
        """(n, D) float32 of unit length; a text alone has the vector it has among others, up to rounding."""
        ...


class StoredEncoder:
    """An encoder behind the cache: each text and picture is looked at once.

    Args:
        encoder: of the user.
        cache: folder of everything computed.
        resolve: (names) -> where the picture of a name lies.
        on_bad: "raise" at a picture that cannot be read, or "skip": it has zeros.
    """

    def __init__(
        self,
        encoder: Any,
        cache: Path,
        resolve: Callable[[Sequence[str]], Callable[[str], Path]],
        on_bad: str = "raise",
    ) -> None:
        self.encoder, self.cache, self.resolve, self.on_bad = encoder, cache, resolve, on_bad
        try:
            self.identity = encoder.identity()
        except InputError as error:  # which names the key of systems that answer by themselves
            raise InputError(str(error).replace("model.name=", "data.encoder.path=", 1)) from None
        self._size = 0

    @property
    def size(self) -> int:
        """D."""
        if not self._size:
            self._size = self.encoder.text_vectors(["a"]).shape[1]
        return self._size

    def texts(self, texts: Sequence[str]) -> np.ndarray:
        """(n, D) float32; zeros for a text of white space."""
        found = np.zeros((len(texts), self.size), np.float32)
        said = [i for i, text in enumerate(texts) if text.strip()]
        wanted = sorted({texts[i] for i in said})
        if wanted:
            store = build_store(
                self.cache,
                "encoder_text",
                {"encoder": self.identity},
                wanted,
                lambda positions: self.encoder.text_vectors([wanted[int(i)] for i in positions]),
                self.size,
                description="encoder: texts",
                chunk=256,
            )
            found[said] = store.array[store.rows([texts[i] for i in said])]
        return found

    def pictures(self, names: Sequence[str]) -> np.ndarray:
        """(n, D) float32. InputError for an encoder of texts alone."""
        if not hasattr(self.encoder, "image_vectors"):
            raise InputError(
                "data.evidence.encoder: embeds texts alone, and this task shows pictures; give a dual encoder "
                "(_target_: models.clip.DualEncoder)"
            )
        kept = list(dict.fromkeys(names))
        vectors = image_vectors(_Looked(self), kept, self.resolve(kept), self.cache, on_bad=self.on_bad)
        return vectors.vectors(names)


class _Looked:
    """The encoder's image side as an extractor of features."""

    reads_files = True

    def __init__(self, stored: StoredEncoder) -> None:
        self._encoder, self._identity, self.size = stored.encoder, stored.identity, stored.size

    def settings(self) -> dict[str, Any]:
        return {"encoder": self._identity}

    def extract(self, paths: Sequence[Path], batch_size: int | None = None) -> np.ndarray:
        return self._encoder.image_vectors(paths)


def encoder_digest(encoder: Any) -> str:
    """Tells encoders apart in a checkpoint."""
    return hashlib.sha256(repr(sorted(encoder.identity().items())).encode()).hexdigest()
