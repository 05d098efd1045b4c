"""Weight files of networks, read without running anything that lies in them."""

import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from data.errors import InputError


def read_weights(path: str | Path, setting: str) -> Any:
    """Content of a file of `torch.save`: tensors, numbers, strings and containers; nothing else is built or called.

    Args:
        path: the file; it may have been written by Python 2.
        setting: name of the setting that gave the path, for the messages.

    Raises:
        InputError: the file is absent, damaged, or asks for more than weights.
    """
    # Scores beside the weights may be NumPy numbers.
    scalar: Any = np.float64(0).__reduce__()[0]
    numbers: list[Any] = [np.dtype, type(np.dtype("float64")), type(np.dtype("float32")), type(np.dtype("int64"))]
    names: list[Any] = [(scalar, "numpy.core.multiarray.scalar"), (scalar, "numpy._core.multiarray.scalar")]
    try:
        with torch.serialization.safe_globals([*numbers, *names]), warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # that the encoding were not passed on; it is
            return torch.load(path, map_location="cpu", weights_only=True, encoding="latin1")
    except FileNotFoundError:
        raise InputError(f"{path}: the weights file is absent; check {setting}") from None
    except (pickle.UnpicklingError, RuntimeError, EOFError, OSError, ValueError, KeyError, IndexError, TypeError,
            AttributeError, ImportError, MemoryError, OverflowError) as error:  # fmt: skip
        reason = " ".join(str(error).split())[:120]
        raise InputError(f"{path}: is no file of weights alone ({reason}); give another {setting}") from None


def fill(network: nn.Module, state: Any, origin: str, setting: str) -> None:
    """Put a table of weights into a network; InputError where it is of another network."""
    if not isinstance(state, dict) or not all(isinstance(value, Tensor) for value in state.values()):
        raise InputError(f"{origin}: holds no table of weights; give another {setting}")
    try:
        network.load_state_dict(state)
    except RuntimeError as error:
        reason = " ".join(str(error).split())[:160]
        raise InputError(f"{origin}: are weights of another network ({reason}); give another {setting}") from None
