"""Image vectors down to 100 numbers, fitted on training pictures (the reducer is not stated by Yagcioglu et al. 2018).

Each reducer: `fit(X)`, `transform(X)`, `state_dict()` of plain values and tensors, `from_state_dict`, `digest()`. No
reducer is needed for `linear`: there the network learns the projection from the raw vectors.
"""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from threadpoolctl import threadpool_limits
from torch import nn
from tqdm import tqdm

from data.errors import InputError
from data.store import digest_of

CHUNK = 8192


class PCA:
    """Principal components. With fewer than `size` of them (few or flat pictures) the rest is padded with zeros.

    The covariance is summed in float64 in chunks, so a memory map of any length fits, and decomposed exactly. The sign
    of a component is such that its entry of largest magnitude is positive. One thread: same bits on each run.
    """

    def __init__(self, size: int = 100) -> None:
        self.size = size
        self.mean = np.empty(0, np.float32)  # (D,)
        self.components = np.empty((0, 0), np.float32)  # (size, D); zero rows where there was no further direction
        self.explained = np.empty(0, np.float32)  # (size,) share of the variance

    def fit(self, X: np.ndarray) -> "PCA":
        """Fit on (N, D) training vectors. InputError where there are none or one is not finite."""
        count, width = _check(X, "PCA")
        with threadpool_limits(1):
            mean = sum(X[i : i + CHUNK].sum(0, dtype=np.float64) for i in range(0, count, CHUNK)) / count
            covariance = np.zeros((width, width))
            for start in range(0, count, CHUNK):
                part = X[start : start + CHUNK].astype(np.float64) - mean
                covariance += part.T @ part
            values, vectors = np.linalg.eigh(covariance)
        values, vectors = np.maximum(values[::-1], 0), vectors.T[::-1]
        # Centred data of N rows span at most N - 1 directions; what is left is rounding.
        rank = min(self.size, count - 1, int((values > values[0] * 1e-10).sum()))
        chosen = vectors[:rank]
        largest = np.abs(chosen).argmax(1)
        chosen = chosen * np.sign(chosen[np.arange(rank), largest])[:, None]
        self.mean = np.asarray(mean, np.float32)
        self.components = np.zeros((self.size, width), np.float32)
        self.components[:rank] = chosen
        self.explained = np.zeros(self.size, np.float32)
        self.explained[:rank] = values[:rank] / max(values.sum(), 1e-30)
        return self

    def transform(self, X: np.ndarray) -> np.ndarray:
        """(N, D) -> (N, size) float32."""
        _check_width(X, len(self.mean), "PCA")
        out = np.empty((len(X), self.size), np.float32)
        with threadpool_limits(1):
            for i in range(0, len(X), CHUNK):
                out[i : i + CHUNK] = (X[i : i + CHUNK].astype(np.float32) - self.mean) @ self.components.T
        return out

    def state_dict(self) -> dict[str, Any]:
        """Plain values and tensors (opens under `weights_only=True`)."""
        arrays = {"mean": self.mean, "components": self.components, "explained": self.explained}
        return {"reducer": "pca", "size": self.size} | {k: torch.from_numpy(v.copy()) for k, v in arrays.items()}

    @classmethod
    def from_state_dict(cls, state: dict[str, Any]) -> "PCA":
        """The reducer of a checkpoint; InputError where the state is of another kind."""
        try:
            if state["reducer"] != "pca":
                raise ValueError(f"it is of {state['reducer']}")
            reducer = cls(state["size"])
            arrays = [state[name].numpy().copy() for name in ("mean", "components", "explained")]
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InputError(f"image reducer of the checkpoint: is no PCA ({error}); train again") from None
        reducer.mean, reducer.components, reducer.explained = arrays
        return reducer

    def digest(self) -> str:
        """Sha256 of kind, size and arrays."""
        return _digest("pca", self.size, self.mean, self.components)


class Autoencoder:
    """A small autoencoder, D -> hidden -> size -> hidden -> D, on inputs divided by their overall deviation.

    Trained by squared error with Adam on one thread, from its own seed: same bits on each run of one machine kind.
    """

    def __init__(
        self,
        size: int = 100,
        hidden: int = 256,
        epochs: int = 20,
        batch_size: int = 256,
        lr: float = 1e-3,
        seed: int = 1234,
    ) -> None:
        self.settings = {
            "size": size,
            "hidden": hidden,
            "epochs": epochs,
            "batch_size": batch_size,
            "lr": lr,
            "seed": seed,
        }
        self.size = size
        self.mean, self.scale = np.empty(0, np.float32), 1.0
        self.encoder: nn.Sequential | None = None

    def _networks(self, width: int) -> tuple[nn.Sequential, nn.Sequential]:
        hidden = int(self.settings["hidden"])
        encoder = nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, self.size))
        decoder = nn.Sequential(nn.Linear(self.size, hidden), nn.ReLU(), nn.Linear(hidden, width))
        return encoder, decoder

    def fit(self, X: np.ndarray) -> "Autoencoder":
        """Fit on (N, D) training vectors. InputError where there are none or one is not finite."""
        count, width = _check(X, "autoencoder")
        total = sum(X[i : i + CHUNK].sum(0, dtype=np.float64) for i in range(0, count, CHUNK))
        self.mean = np.asarray(total / count, np.float32)
        squares = sum(
            float(((X[i : i + CHUNK] - self.mean) ** 2).sum(dtype=np.float64)) for i in range(0, count, CHUNK)
        )
        self.scale = max((squares / (count * width)) ** 0.5, 1e-6)
        epochs, batch = int(self.settings["epochs"]), int(self.settings["batch_size"])
        with one_thread(), torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(self.settings["seed"]))
            self.encoder, decoder = self._networks(width)
            parameters = [*self.encoder.parameters(), *decoder.parameters()]
            optimizer = torch.optim.Adam(parameters, lr=float(self.settings["lr"]))
            for _ in tqdm(range(epochs), desc="autoencoder: fitting", unit=" epochs"):
                order = torch.randperm(count).numpy()
                for i in range(0, count, batch):
                    x = self._scaled(X[np.sort(order[i : i + batch])])
                    loss = nn.functional.mse_loss(decoder(self.encoder(x)), x)
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
        self.encoder.eval().requires_grad_(False)
        return self

    def _scaled(self, X: np.ndarray) -> torch.Tensor:
        return torch.from_numpy((X.astype(np.float32) - self.mean) / np.float32(self.scale))

    def transform(self, X: np.ndarray) -> np.ndarray:
        """(N, D) -> (N, size) float32."""
        _check_width(X, len(self.mean), "autoencoder")
        assert self.encoder is not None
        out = np.empty((len(X), self.size), np.float32)
        with one_thread(), torch.inference_mode():
            for i in range(0, len(X), CHUNK):
                out[i : i + CHUNK] = self.encoder(self._scaled(X[i : i + CHUNK])).numpy()
        return out

    def state_dict(self) -> dict[str, Any]:
        """Plain values and tensors (opens under `weights_only=True`)."""
        assert self.encoder is not None
        weights = {name: value.clone() for name, value in self.encoder.state_dict().items()}
        plain = {"reducer": "autoencoder", "settings": dict(self.settings), "scale": float(self.scale)}
        return {**plain, "mean": torch.from_numpy(self.mean.copy()), "encoder": weights}

    @classmethod
    def from_state_dict(cls, state: dict[str, Any]) -> "Autoencoder":
        """The reducer of a checkpoint; InputError where the state is of another kind."""
        try:
            if state["reducer"] != "autoencoder":
                raise ValueError(f"it is of {state['reducer']}")
            reducer = cls(**state["settings"])
            reducer.mean, reducer.scale = state["mean"].numpy().copy(), float(state["scale"])
            reducer.encoder, _ = reducer._networks(len(reducer.mean))
            reducer.encoder.load_state_dict(state["encoder"])
        except (KeyError, TypeError, ValueError, AttributeError, RuntimeError) as error:
            reason = str(error).split("\n")[0]
            raise InputError(f"image reducer of the checkpoint: is no autoencoder ({reason}); train again") from None
        reducer.encoder.eval().requires_grad_(False)
        return reducer

    def digest(self) -> str:
        """Sha256 of kind, settings and weights."""
        assert self.encoder is not None
        arrays = [value.numpy() for value in self.encoder.state_dict().values()]
        return _digest("autoencoder", [self.settings, float(self.scale)], self.mean, *arrays)


def _check(X: np.ndarray, what: str) -> tuple[int, int]:
    if X.ndim != 2 or not len(X):
        raise InputError(f"{what}: there are no training pictures to fit it on; check the image folder")
    for i in range(0, len(X), CHUNK):
        if not np.isfinite(X[i : i + CHUNK]).all():
            raise InputError(f"{what}: a training vector is not finite; compute the image features again")
    return X.shape[0], X.shape[1]


def _check_width(X: np.ndarray, width: int, what: str) -> None:
    if X.ndim != 2 or X.shape[1] != width:
        raise InputError(
            f"{what}: fitted on vectors of {width} numbers and given {X.shape}; use the same image features"
        )


def _digest(kind: str, settings: Any, *arrays: np.ndarray) -> str:
    content = hashlib.sha256(digest_of([kind, settings]).encode())
    for array in arrays:
        content.update(np.ascontiguousarray(array).tobytes())
    return content.hexdigest()


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread for each call of torch in here: the same bits for any number of cores, and no waiting at barriers."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
