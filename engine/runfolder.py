"""What a run folder records: the composed config without secrets, and where the numbers came from."""

import importlib.metadata
import json
import os
import platform
import re
import subprocess
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from data.files import atomic_file

HIDDEN = "<hidden>"
# A word of the key must be one of these: `api_key` and `hf_token` are secrets, `num_tokens` and `use_cls_token_id`
# are not (a number or a switch is never hidden).
_WORDS = r"(?:api[_-]?key|token|password|passwd|passphrase|secret|credentials?|private_?key|authorization|bearer)"
_SECRET_KEY = re.compile(rf"(^|[_.\-]){_WORDS}$", re.IGNORECASE)
_INLINE = re.compile(
    rf"((?:[\w.\-]*[_.\-])?\b{_WORDS}\s*[:=]\s*)[^,}}\]\s]+", re.IGNORECASE
)  # {token: x} on a command line
_USER_INFO = re.compile(r"(?<=://)[^/\s]+(?=@)")  # up to the last @ before the path, whatever is in it


def redact(value: Any, key: str = "") -> Any:
    """A copy of nested containers in which secrets are replaced by `<hidden>`.

    A value is secret if its key names one (`api_key`, `hf_token`, `password`, ...) and it is text, or if it is the
    value of an environment variable so named; user and password inside a URL are hidden too.
    """
    secrets = {v for k, v in os.environ.items() if _SECRET_KEY.search(k) and len(v) >= 6}
    return _redact(value, key, secrets)


def _redact(value: Any, key: str, secrets: set[str]) -> Any:
    if isinstance(value, dict):
        if key.rpartition(".")[2] == "headers":  # of requests: whatever their names, their values are keys and cookies
            return {k: HIDDEN if isinstance(v, str) and v else v for k, v in value.items()}
        return {k: _redact(v, str(k), secrets) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_redact(v, key, secrets) for v in value]
    if isinstance(value, str):
        if _SECRET_KEY.search(key) and value:
            return HIDDEN
        for secret in secrets:
            value = value.replace(secret, HIDDEN)
        return _USER_INFO.sub(HIDDEN, value)
    return value


def redact_argument(argument: str) -> str:
    """A word of a command line, such as `key=value` or `key={token: value}`, without its secrets."""
    key, _, value = argument.partition("=")
    if value and re.search(r"(^|\.)headers(\.|$)", key):
        return f"{key}={HIDDEN}"
    hidden = _INLINE.sub(rf"\1{HIDDEN}", redact(value, key.lstrip("+~")))
    return f"{key}={hidden}" if value else argument


def plain(cfg: DictConfig) -> dict[str, Any]:
    """The composed config as plain containers, interpolations resolved, secrets hidden."""
    container = OmegaConf.to_container(cfg, resolve=True)
    assert isinstance(container, dict)
    return redact(container)


def write_json(path: Path, value: Any) -> None:
    """Write JSON atomically, readable by a person."""
    with atomic_file(path) as partial:
        partial.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def write_jsonl(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write one JSON object a line, atomically."""
    with atomic_file(path) as partial, open(partial, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def write_provenance(folder: Path, config: dict[str, Any], overrides: list[str], data: dict[str, Any]) -> None:
    """Write `config.yaml` and `provenance.json`: git state, versions, hardware, data hashes."""
    with atomic_file(folder / "config.yaml") as partial:
        OmegaConf.save(OmegaConf.create(config), partial)
    hidden = [redact_argument(override) for override in overrides]
    write_json(
        folder / "provenance.json",
        {"overrides": hidden, "git": git_state(), "packages": versions(), "hardware": hardware(), "data": data},
    )


def git_state() -> dict[str, Any]:
    """Commit and whether the tree differs from it; None where there is no repository."""

    def git(*arguments: str) -> str | None:
        try:
            root = Path(__file__).resolve().parents[1]
            answer = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, timeout=20)
        except (OSError, subprocess.TimeoutExpired):
            return None
        return answer.stdout.rstrip() if answer.returncode == 0 else None

    status = git("status", "--porcelain")
    return {"commit": git("rev-parse", "HEAD"), "changed_files": None if status is None else status.splitlines()}


def versions() -> dict[str, str]:
    """Versions of the packages whose behaviour the numbers depend on."""
    names = "torch torchvision pytorch-lightning torchmetrics hydra-core omegaconf gensim numpy scikit-learn wandb "
    names += "transformers httpx pillow"
    found = {"python": platform.python_version()}
    for name in names.split():
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def hardware() -> dict[str, Any]:
    """Processor, cores, and GPUs."""
    import torch

    gpus = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return {"machine": platform.machine(), "system": platform.system(), "cores": os.cpu_count(), "gpus": gpus}
