"""Image vectors down to 100 numbers, fitted on training pictures (the reducer is not stated by Yagcioglu et al. 2018).

Each reducer: `fit(X)`, `transform(X)`, `state_dict()` of plain values and tensors, `from_state_dict`, `digest()`. No
reducer is needed for `linear`: there the network learns the projection from the raw vectors.
"""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from threadpoolctl import threadpool_limits
from torch import nn
from tqdm import tqdm

from data.errors import InputError
from data.store import block_digests, build_once, digest_of, read_manifest, write_manifest

CHUNK = 8192
R = TypeVar("R", "PCA", "Autoencoder")


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

    def settings(self) -> dict[str, Any]:
        """What a fit depends on besides the vectors: a cache key of plain values."""
        return {"reducer": "pca", "size": self.size}

    def fit(self, X: "np.ndarray | ByContent") -> "PCA":
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
        self._settings = {
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
        hidden = int(self._settings["hidden"])
        encoder = nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, self.size))
        decoder = nn.Sequential(nn.Linear(self.size, hidden), nn.ReLU(), nn.Linear(hidden, width))
        return encoder, decoder

    def settings(self) -> dict[str, Any]:
        """What a fit depends on besides the vectors: a cache key of plain values."""
        return {"reducer": "autoencoder", **self._settings}

    def fit(self, X: "np.ndarray | ByContent") -> "Autoencoder":
        """Fit on (N, D) training vectors. InputError where there are none or one is not finite."""
        count, width = _check(X, "autoencoder")
        total = sum(X[i : i + CHUNK].sum(0, dtype=np.float64) for i in range(0, count, CHUNK))
        self.mean = np.asarray(total / count, np.float32)
        squares = sum(
            float(((X[i : i + CHUNK] - self.mean) ** 2).sum(dtype=np.float64)) for i in range(0, count, CHUNK)
        )
        self.scale = max((squares / (count * width)) ** 0.5, 1e-6)
        epochs, batch = int(self._settings["epochs"]), int(self._settings["batch_size"])
        with one_thread(), torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(self._settings["seed"]))
            self.encoder, decoder = self._networks(width)
            parameters = [*self.encoder.parameters(), *decoder.parameters()]
            optimizer = torch.optim.Adam(parameters, lr=float(self._settings["lr"]))
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
        plain = {"reducer": "autoencoder", "settings": dict(self._settings), "scale": float(self.scale)}
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
        return _digest("autoencoder", [self._settings, float(self.scale)], self.mean, *arrays)


class ByContent:
    """Rows of a table in an order of their content, read only where they are sliced.

    Names, and so the order of rows in a store, must not change even the rounding of a fit. All training vectors of
    RecipeQA take 1.6 GB, which need not be in memory twice, or at all, beside the mapped file.
    """

    ndim = 2

    def __init__(self, table: np.ndarray, rows: np.ndarray) -> None:
        """Take some rows of a table (N, D); row -1 stands for zeros. Nothing is read yet."""
        self._table, self._rows = table, rows
        self.shape = (len(rows), table.shape[1])

    def __len__(self) -> int:
        return len(self._rows)

    @cached_property
    def _ordered(self) -> np.ndarray:
        start = np.where(self._rows[:, None] < 0, 0, self._table[self._rows, :16])  # enough to tell pictures apart
        return self._rows[np.lexsort(start.T)]

    def __getitem__(self, chosen: slice | np.ndarray) -> np.ndarray:
        rows = self._ordered[chosen]
        vectors = np.asarray(self._table[rows])
        vectors[rows < 0] = 0
        return vectors


def fit_cached(root: Path, reducer: R, X: "np.ndarray | ByContent", vectors: dict[str, Any]) -> R:
    """`reducer.fit(X)`, kept under `root/reducer/`; `vectors` names what X holds, as plain values.

    A fit on RecipeQA's training pictures takes minutes, and nothing of it changes from run to run.
    """
    versions = {"numpy": np.__version__, "torch": torch.__version__}
    key = {"settings": reducer.settings(), "vectors": vectors, "versions": versions, "format": 1}

    def load(folder: Path) -> R:
        manifest = read_manifest(folder)
        file = folder / "reducer.pt"
        if not file.is_file() or manifest.get("sha256") != block_digests(file) or manifest.get("key") != key:
            raise InputError(f"{file}: is absent or damaged; delete the folder {folder}")
        return type(reducer).from_state_dict(torch.load(file, weights_only=True))

    def write(folder: Path) -> None:
        torch.save(reducer.fit(X).state_dict(), folder / "reducer.pt")
        write_manifest(folder, {"key": key, "sha256": block_digests(folder / "reducer.pt")})

    return build_once(Path(root) / "reducer" / digest_of(key)[:16], load, write)


def _check(X: "np.ndarray | ByContent", what: str) -> tuple[int, int]:
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
