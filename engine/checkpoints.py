"""Checkpoints: written atomically, read without running code, checked before use."""

import importlib.metadata
import os
import zipfile
from pathlib import Path
from typing import Any

import torch
from packaging.version import InvalidVersion, Version
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
            # Not by its name, which torch would write into the file.
            with atomic_file(path) as partial, open(partial, "wb") as file:
                torch.save(checkpoint, file)
        except (OSError, RuntimeError, InputError) as error:  # torch reports a failed write as RuntimeError
            reason = error if isinstance(error, OSError) else error.__cause__ or error.__context__ or error
            reason = getattr(reason, "strerror", None) or reason
            raise InputError(
                f"{path}: the checkpoint cannot be written ({reason}); the previous one is untouched. Free space "
                "or set hydra.run.dir= to another disk, then resume with ckpt_path="
            ) from error

    def load_checkpoint(self, path: Any, map_location: Any = None, weights_only: Any = True) -> dict[str, Any]:
        """Read a checkpoint as plain tensors and containers only."""
        return load_checkpoint(path)


def load_checkpoint(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read a checkpoint of this repository on the CPU, without executing anything in it.

    A run keeps two, best.ckpt and last.ckpt, and can be resumed from either. Nothing goes back to the other by itself:
    that would repeat epochs, or score another model, without being asked. The message names it if it is whole.

    Raises:
        InputError: no such file, damaged, holding objects other than tensors and containers, or not ours.
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f"{path}: no such checkpoint; runs keep theirs in runs/<data>/<model>/<time>/checkpoints/")
    try:
        return _read(path)
    except InputError as error:
        raise InputError(f"{error}; {another_checkpoint(path)}") from error.__cause__


def _read(path: Path) -> dict[str, Any]:
    try:
        with zipfile.ZipFile(path) as archive:
            damaged = archive.testzip()  # torch reads over a flipped byte without a word
        if damaged:
            raise zipfile.BadZipFile(f"{damaged} fails its checksum")
        checkpoint = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises half a dozen types for a damaged file
        reason = " ".join(str(error).split())[:160] or type(error).__name__
        raise InputError(
            f"{path}: not a checkpoint that can be read safely, truncated, damaged or of another program ({reason})"
        ) from error
    ours = isinstance(checkpoint, dict) and isinstance(checkpoint.get("state_dict"), dict)
    config = checkpoint.get("config") if ours else None
    if not isinstance(config, dict) or not isinstance(config.get("model"), dict):
        raise InputError(f"{path}: a checkpoint, but not one of this repository (it holds no config)")
    installed = importlib.metadata.version("pytorch-lightning")
    version = checkpoint.get("pytorch-lightning_version", installed)
    try:
        newer = Version(version).release[:2] > Version(installed).release[:2]
    except (InvalidVersion, TypeError):
        raise InputError(f"{path}: damaged (it was written with pytorch-lightning {version!r})") from None
    if newer:
        raise InputError(
            f"{path}: was written with pytorch-lightning {version}, newer than the {installed} that is installed; "
            "install that one"
        )
    return checkpoint


def another_checkpoint(path: Path) -> str:
    """What to do instead: the newest other checkpoint of the folder that is whole."""
    others = [other for other in path.parent.glob("*.ckpt") if other != path and other.is_file()]
    for other in sorted(others, key=lambda other: other.stat().st_mtime, reverse=True):
        try:
            found = _read(other)
        except InputError:
            continue
        return f"{other.name} beside it is whole (epoch {found.get('epoch')}): use ckpt_path={other}"
    return "there is no whole checkpoint beside it: train anew"
