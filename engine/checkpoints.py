"""Checkpoints: written atomically, read without running code, checked before use."""

import os
import zipfile
from pathlib import Path
from typing import Any

import torch
from pytorch_lightning.plugins.io import TorchCheckpointIO

from data.errors import InputError
from data.files import atomic_file, sweep_partial_files


class AtomicCheckpointIO(TorchCheckpointIO):
    """Lightning stages checkpoints in the temporary folder and copies them over the previous good one, which a full
    disk destroys. This writes beside the target and renames.
    """

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
        """Write a checkpoint; a full disk is reported as InputError and leaves the previous file as it was."""
        try:
            sweep_partial_files(Path(path).parent)
            with atomic_file(path) as partial:
                torch.save(checkpoint, partial)
        except (OSError, RuntimeError) as error:  # torch reports a failed write as RuntimeError
            raise InputError(
                f"{path}: the checkpoint cannot be written ({error}); the previous one is untouched. "
                "Free space or set hydra.run.dir= to another disk, then resume with ckpt_path="
            ) from error

    def load_checkpoint(self, path: Any, map_location: Any = None, weights_only: Any = True) -> dict[str, Any]:
        """Read a checkpoint as plain tensors and containers only."""
        return load_checkpoint(path)


def load_checkpoint(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read a checkpoint of this repository on the CPU, without executing anything in it.

    Raises:
        InputError: no such file, damaged, holding objects other than tensors and containers, or not ours.
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f"{path}: no such checkpoint; runs keep theirs in runs/<data>/<model>/<time>/checkpoints/")
    try:
        with zipfile.ZipFile(path) as archive:
            damaged = archive.testzip()  # torch reads over a flipped byte without a word
        if damaged:
            raise zipfile.BadZipFile(f"{damaged} fails its checksum")
        checkpoint = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises half a dozen types for a damaged file
        reason = str(error).strip().splitlines()[0][:160] if str(error).strip() else type(error).__name__
        raise InputError(
            f"{path}: not a checkpoint that can be read safely, truncated or of another program ({reason}); "
            "use another checkpoint of the run (best.ckpt, last.ckpt)"
        ) from error
    ours = isinstance(checkpoint, dict) and isinstance(checkpoint.get("state_dict"), dict)
    config = checkpoint.get("config") if ours else None
    if not isinstance(config, dict) or not isinstance(config.get("model"), dict):
        raise InputError(f"{path}: a checkpoint, but not one of this repository (it holds no config); train one first")
    return checkpoint
