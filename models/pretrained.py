"""Pretrained models of Hugging Face transformers: found, loaded whole and without a word, and told apart."""

import hashlib
import os
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from data.errors import InputError
from data.store import digest_of

_SMALL = (".json", ".jinja", ".txt", ".model", ".py", ".tiktoken")
_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".gguf")
_MB = 1 << 20
_SAMPLES = 64  # of 16 KiB each, spread over a weights file
_DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16, "float32": torch.float32}


def transformers_library() -> Any:
    """The package, silenced: no bars, no advice on the terminal.

    Raises:
        InputError: it is not installed, or older than 5. An older one names weights otherwise: it loads what a newer
            one saved, sets part of it to random values and does no more than warn.
    """
    try:
        import huggingface_hub.utils
        import transformers
        import transformers.utils.logging
    except ImportError as error:
        raise InputError(f"model: needs transformers ({error}); pip install 'transformers>=5'") from None
    if int(transformers.__version__.split(".")[0]) < 5:
        raise InputError(
            f"model: transformers {transformers.__version__} is too old, 5 or newer is needed; "
            "pip install 'transformers>=5'"
        )
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    huggingface_hub.utils.logging.set_verbosity_error()
    return transformers


def is_local(path: str) -> bool:
    """Whether `path` is a folder here, and not a name on the hub.

    InputError where it can be neither: it looks like a path, and there is no such folder.
    """
    if Path(path).expanduser().is_dir():
        return True
    if Path(path).is_file():
        raise InputError(f"model.name={path}: is a file; give the folder with config.json and the weights")
    if path.startswith((".", "/", "~")) or not re.fullmatch(r"[\w.\-]+(/[\w.\-]+)?", path):
        raise InputError(f"model.name={path}: no such folder; give one with config.json, or a name on the hub")
    return False


def source_of(path: str) -> str:
    """What `from_pretrained` is given: the folder, or the name on the hub; see `is_local`."""
    return str(Path(path).expanduser()) if is_local(path) else path


@contextmanager
def loading(path: str, what: str) -> Iterator[None]:
    """Whatever goes wrong with a model's files becomes one line; `what` says which part of it is read."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except InputError:
        raise
    except torch.OutOfMemoryError:
        raise InputError(
            f"model.name={path}: {what} does not fit into the memory of the GPU; set model.dtype=bfloat16, "
            "model.device_map=auto or model.device=cpu"
        ) from None
    except Exception as error:  # of the hub, the file formats, the model's own code: a dozen types
        reason = one_line(error)
        if "couldn't connect" in reason or "offline" in reason.lower():
            raise InputError(
                f"model.name={path}: is no folder here, not in the cache, and the hub cannot be reached; give a local "
                "folder with config.json, tokenizer and weights"
            ) from None
        raise InputError(
            f"model.name={path}: {what} cannot be loaded ({reason}); give a whole folder (config.json, tokenizer, "
            "weights) or another model"
        ) from error


def one_line(error: BaseException, length: int = 200) -> str:
    """The message of an exception in one line."""
    return (" ".join(str(error).split()) or type(error).__name__)[:length]


def load_whole(auto_class: Any, path: str, device_map: Any = None, **options: Any) -> Any:
    """`auto_class.from_pretrained`, ready for inference.

    Raises:
        InputError: files that cannot be read; weights that the folder lacks, which transformers would set to random
            values; `device_map` without the package accelerate.
    """
    if device_map is not None:
        if find_spec("accelerate") is None:
            raise InputError(f"model.device_map={device_map}: needs accelerate; pip install accelerate")
        options["device_map"] = device_map
    with loading(path, "the model"):
        model, found = auto_class.from_pretrained(source_of(path), output_loading_info=True, **options)
        absent = [*found["missing_keys"], *(str(key) for key in found.get("mismatched_keys") or ())]
        if absent:
            raise InputError(
                f"model.name={path}: lacks {len(absent)} weights or has them in another shape ({sorted(absent)[0]}), "
                "and random ones in their place would guess; fetch the model again, or another version of it"
            )
    return model.eval()


def revision_of(path: str, revision: str | None) -> str:
    """What tells a model's files from others of the same name.

    Of the hub: the commit, once its config lies in the cache, else the revision asked for. Of a folder: sha256 of names
    and sizes of its files, of the small ones (config, tokenizer, template) whole, and of each weights file the first
    MiB and 64 samples of 16 KiB spread over the rest, so that 100 GB take a moment. An edit of single numbers between
    two samples is not seen; a training step is, since it changes numbers everywhere in what it trains.
    """
    if not is_local(path):
        from huggingface_hub import try_to_load_from_cache

        found = try_to_load_from_cache(path, "config.json", revision=revision or "main")
        match = re.search(r"[/\\]snapshots[/\\]([0-9a-f]{40})[/\\]", found) if isinstance(found, str) else None
        return match[1] if match else revision or "main"
    parts = []
    for file in sorted(Path(path).expanduser().iterdir()):
        if file.suffix in _SMALL + _WEIGHTS and file.is_file():
            parts.append([file.name, file.stat().st_size, _sampled(file, whole=file.suffix in _SMALL)])
    return f"sha256:{digest_of(parts)[:32]}"


def _sampled(file: Path, whole: bool) -> str:
    size, digest = file.stat().st_size, hashlib.sha256()
    with open(file, "rb") as stream:
        digest.update(stream.read(-1 if whole and size < 64 * _MB else _MB))
        step = max((size - _MB) // _SAMPLES, 1)
        for start in range(_MB, size, step) if not whole else ():
            stream.seek(start)
            digest.update(stream.read(1 << 14))
    return digest.hexdigest()


def pick_device(device: str) -> torch.device:
    """`auto` is the GPU where there is one; InputError for a device that is not there."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        found = torch.device(device)
    except RuntimeError:
        raise InputError(f"model.device={device}: choose auto, cpu, cuda or cuda:1") from None
    if found.type == "cuda" and (found.index or 0) >= torch.cuda.device_count():
        raise InputError(f"model.device={device}: there is no such GPU; choose auto or cpu")
    return found


def pick_dtype(dtype: str, device: torch.device) -> torch.dtype:
    """`auto` is bfloat16 on a GPU that has it (else float16), float32 elsewhere."""
    if dtype == "auto":
        if device.type != "cuda":
            return torch.float32
        return torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16
    if dtype not in _DTYPES:
        raise InputError(f"model.dtype={dtype}: choose auto, {', '.join(_DTYPES)}")
    return _DTYPES[dtype]


def display_name(path: str) -> str:
    """A model's name for reports: the hub's, or the folder's last part, never where it lies."""
    return Path(os.path.abspath(os.path.expanduser(path))).name if is_local(path) else path
