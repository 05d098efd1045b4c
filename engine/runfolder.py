"""What a run folder records: the composed config without secrets, and where the numbers came from."""

import importlib.metadata
import json
import os
import platform
import re
import subprocess
from pathlib import Path
from typing import Any

from hydra.experimental.callback import Callback
from omegaconf import DictConfig, OmegaConf

from data.files import atomic_file

HIDDEN = "<hidden>"
# The last word of a key must be one of these: `api_key` and `hf_token` are secrets, `num_tokens` and `use_cls_token_id`
# are not.
_WORDS = (
    r"(?:(?:api|access|secret|private|auth|account)[_-]?keys?|token|pass[_-]?words?|passwd|pwd|passphrase|secrets?|"
    r"credentials?|authorization|bearer|cookie)"
)
_SECRET_KEY = re.compile(rf"(^|[_.\-]){_WORDS}$", re.IGNORECASE)
_SECRET_VARIABLE = re.compile(rf"(^|_)({_WORDS}|key|pass|pat|webhook)$", re.IGNORECASE)  # OPENAI_KEY, DB_PASS
_INLINE = re.compile(rf"((?:[\w.\-]*[_.\-])?\b{_WORDS}[\"']?\s*[:=]\s*)[^,}}\]]+", re.IGNORECASE)  # {token: x}
_QUERY = re.compile(rf"([?&](?:[\w.\-]*[_.\-])?{_WORDS}=)[^&\s'\"]+", re.IGNORECASE)
_USER_INFO = re.compile(r"(?<=://)[^/\s]+(?=@)")  # up to the last @ before the path, whatever is in it
_BARE = re.compile(r"\b(Bearer )[\w.~+/=-]{8,}|\b(?:hf_|sk-|gh[pousr]_|xox[abp]-)(?=[\w-]*\d)[\w-]{16,}")
_SHORTEST = 6  # a shorter value is hidden where its key stands; looked for everywhere it would hide harmless words
_learnt: set[str] = set()  # values of secret keys in the config of this process


def learn_secrets(cfg: Any) -> None:
    """Remember the values of secret keys in a config, so that `hide` finds them wherever they come up."""

    def walk(value: Any, secret: bool) -> None:
        if isinstance(value, dict):
            for key, item in value.items():
                walk(item, secret or key == "headers" or bool(_SECRET_KEY.search(_words(str(key)))))
        elif isinstance(value, list | tuple):
            for item in value:
                walk(item, secret)
        elif secret and isinstance(value, str) and len(value) >= _SHORTEST and not value.startswith("${"):
            _learnt.add(value)
        elif isinstance(value, str):
            _learnt.update(found for found in _USER_INFO.findall(value) if len(found) >= _SHORTEST)

    walk(OmegaConf.to_container(cfg, resolve=False) if OmegaConf.is_config(cfg) else cfg, False)


def learn_arguments(arguments: list[str]) -> None:
    """The same for `key=value` on a command line, which Hydra shows where it cannot read it."""
    for argument in arguments:
        key, _, value = argument.partition("=")
        if _SECRET_KEY.search(_words(key)) and not value.startswith("${"):
            _learnt.update(part for part in (value, value.strip("'\"{[]}")) if len(part) >= _SHORTEST)


def hide(text: str) -> str:
    """A text without the secrets of environment and config, user and password of addresses, and bearer tokens."""
    return _hide(text, _known())


def redact(value: Any, key: str = "") -> Any:
    """A copy of nested containers in which secrets are replaced by `<hidden>`.

    A value is secret if its key names one (`api_key`, `hf_token`, `password`, ...): text, and numbers too but under
    `token`, which counts as often as it unlocks. Secret anywhere: the value of an environment variable so named, user
    and password inside a URL, its query's keys, what follows `Bearer`.
    """
    return _redact(value, key, _known())


def _known() -> list[str]:
    found = {v for k, v in os.environ.items() if _SECRET_VARIABLE.search(k) and k not in ("PWD", "OLDPWD")}
    found = {value for value in found | _learnt if len(value) >= _SHORTEST}
    return sorted(found, key=len, reverse=True)  # the longer first: one secret may begin with another


def _hide(text: str, secrets: list[str]) -> str:
    for secret in secrets:
        text = text.replace(secret, HIDDEN)
    return _BARE.sub(rf"\1{HIDDEN}", _QUERY.sub(rf"\1{HIDDEN}", _USER_INFO.sub(HIDDEN, text)))


def _words(key: str) -> str:
    """Of accessToken access_Token."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", key)


def _redact(value: Any, key: str, secrets: list[str]) -> Any:
    named = bool(_SECRET_KEY.search(_words(key)))
    if isinstance(value, dict):
        if named or key.rpartition(".")[2] == "headers":  # of requests: whatever their names, they are keys and cookies
            return {k: HIDDEN if isinstance(v, str) and v else _redact(v, key, secrets) for k, v in value.items()}
        return {k: _redact(v, str(k), secrets) for k, v in value.items()}
    if isinstance(value, list | tuple):
        if key.rpartition(".")[2] == "headers":
            return [HIDDEN if isinstance(v, str) and v else _redact(v, key, secrets) for v in value]
        return [_redact(v, key, secrets) for v in value]
    if isinstance(value, str):
        return HIDDEN if named and value else _hide(value, secrets)
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return HIDDEN if named and number and not re.search(r"token$", key, re.IGNORECASE) else value


def redact_argument(argument: str) -> str:
    """A word of a command line, such as `key=value` or `key={token: value}`, without its secrets."""
    key, equals, value = argument.partition("=")
    if not equals:
        return hide(argument)
    name = key.lstrip("+~-")
    if value.lower() in ("true", "false", "null"):  # no secret, as in `redact`: use_cls_token=true
        return argument
    if value and (re.search(r"(^|\.)headers(\.|$)", name) or _SECRET_KEY.search(_words(name))):
        return f"{key}={HIDDEN}"
    hidden = _INLINE.sub(rf"\1{HIDDEN}", _nested(name, hide(value)))
    return f"{key}={hidden}"


def _nested(key: str, value: str) -> str:
    """Containers on the command line, `{api_key: [a, b]}`, read as Hydra does: a secret may go on over commas."""
    if not value.startswith(("{", "[")):
        return value
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    try:
        found = OverridesParser.create().parse_override(f"x={value}").value()
    except HydraException:
        return value
    hidden = redact(found, key)
    return value if hidden == found else json.dumps(hidden, ensure_ascii=False, default=str)


class HideSecrets(Callback):
    """Whatever Hydra writes goes without secrets: multirun.yaml, and `.hydra/` where somebody wants it.

    Hydra calls nothing between composing a sweep and writing it, and the jobs need the command line as it is; so what
    is hidden is the copy that goes to the file.
    """

    def on_run_start(self, config: DictConfig, **_: Any) -> None:
        """Before a single run."""
        _save_hidden()

    def on_multirun_start(self, config: DictConfig, **_: Any) -> None:
        """Before a sweep."""
        _save_hidden()


def _save_hidden() -> None:
    if getattr(OmegaConf.to_yaml, "hides", False):
        return
    write = OmegaConf.to_yaml  # `OmegaConf.save` goes through it too

    def to_yaml(cfg: Any, *, resolve: bool = False, sort_keys: bool = False) -> str:
        if OmegaConf.is_config(cfg):
            cfg = OmegaConf.create(_for_file(OmegaConf.to_container(cfg, resolve=resolve)))
        return write(cfg, resolve=resolve, sort_keys=sort_keys)

    to_yaml.hides = True  # type: ignore[attr-defined]
    OmegaConf.to_yaml = to_yaml  # type: ignore[method-assign]


def _for_file(found: Any) -> Any:
    """Hydra's config or list of overrides without secrets; interpolations stay, what they stand for is not written."""
    if isinstance(found, list):
        return [redact_argument(line) if isinstance(line, str) else line for line in found]
    hidden = redact(found)
    section = hidden.get("hydra") or {}
    for name, lines in (section.get("overrides") or {}).items():
        section["overrides"][name] = [redact_argument(line) for line in lines]
    names = (section.get("job") or {}).get("override_dirname")
    if names and _INLINE.search(names):
        section["job"]["override_dirname"] = HIDDEN  # all overrides in one text, commas inside and between them
    return hidden


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
