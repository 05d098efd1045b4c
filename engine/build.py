"""Composed config -> objects, and configs restored from checkpoints."""

from typing import Any

from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf, open_dict

from data.choice import ChoiceData
from data.errors import InputError
from engine.trust import require_allowed

# What a checkpoint fixes: without these, its weights mean nothing.
_FIXED = ("data", "text", "features", "reducer", "model", "seed")
# What a resumed training takes over as well, unless the command line says otherwise.
_TRAINING = ("trainer", "callbacks", "logger")


def with_checkpoint_config(
    cfg: DictConfig, checkpoint: dict[str, Any], overrides: list[str], training: bool
) -> DictConfig:
    """The checkpoint's config with this command's overrides on top.

    An override is taken from the composed config at its own key: `data=x` replaces the whole group, `data.test_file=x`
    one value. `experiment=` replaces everything.
    """
    origin = str(cfg.ckpt_path)
    # The run folder may have been moved since: paths into it follow.
    old, new = str(checkpoint["config"].get("output_dir") or ""), str(cfg.output_dir)
    stored = OmegaConf.create(_moved(checkpoint["config"], old, new))
    assert isinstance(stored, DictConfig)
    sections = [*_FIXED, *_TRAINING] if training else [*_FIXED]
    require_allowed({key: checkpoint["config"].get(key) for key in sections}, origin)
    keys = [override.lstrip("+~").partition("=")[0].partition("@")[0] for override in overrides]
    if "experiment" in keys:
        return cfg
    if "model" in keys and cfg.model.name != stored.model.name:
        raise InputError(
            f"{origin}: a checkpoint of model={stored.model.name}, not of model={cfg.model.name}; leave it out"
        )
    merged = cfg.copy()
    with open_dict(merged):
        for section in sections:
            merged[section] = stored.get(section)
        for key in keys:
            section, *rest = key.split(".")
            if section not in sections:
                continue
            if not rest:
                merged[section] = cfg.get(section)
                if section in ("text", "features", "reducer"):
                    merged.data[section] = cfg.get(section)
                continue
            if section == "model" and (not training or rest[0] == "net"):
                if OmegaConf.select(stored, key) != OmegaConf.select(cfg, key):
                    raise InputError(f"{key}: fixed by the checkpoint {origin}; leave the override out, or train anew")
                continue
            OmegaConf.update(merged, key, OmegaConf.select(cfg, key))
        # Paths of the run and the cache belong to this command, not to the one that made the checkpoint.
        merged.data.cache = cfg.cache
    return merged


def _moved(value: Any, old: str, new: str) -> Any:
    if isinstance(value, dict):
        return {key: _moved(item, old, new) for key, item in value.items()}
    if isinstance(value, list):
        return [_moved(item, old, new) for item in value]
    return value.replace(old, new) if old and isinstance(value, str) else value


def build_data(cfg: DictConfig, fitted: dict[str, Any] | None = None, origin: str = "") -> ChoiceData:
    """The data module; `fitted`, of the checkpoint `origin`, is taken over instead of fitting anew."""
    data = instantiate(cfg.data)
    if fitted is not None:
        data.restore(fitted, origin)
    return data


def build_model(cfg: DictConfig, data: ChoiceData, config: dict[str, Any] | None = None) -> Any:
    """The model of the config: a `ChoiceTask`, or a system that is not trained."""
    settings = {key: value for key, value in cfg.model.items() if key != "name"}
    section = OmegaConf.create(settings)
    if is_trained(cfg):
        with open_dict(section):
            section.net.image_size = data.image_size
            section.net.image_reducer = "linear" if data.reduces_in_network and data.image_size else "none"
            section.net.task = data.tasks[0] if len(data.tasks) == 1 else "all"
    model = instantiate(section)
    if is_trained(cfg):
        model.seed, model.config = int(cfg.seed), config or {}
    return model


def build_loggers(cfg: DictConfig) -> list[Any]:
    """The trackers of the config; `logger=[]` gives none."""
    return [instantiate(logger) for logger in (cfg.get("logger") or {}).values() if logger is not None]


def is_trained(cfg: DictConfig) -> bool:
    """Whether the model of the config is a network that must be trained."""
    return "net" in cfg.model


def load_weights(model: Any, checkpoint: dict[str, Any], origin: str) -> None:
    """Load a checkpoint's weights, or say in one line that it is of another model."""
    try:
        model.load_state_dict(checkpoint["state_dict"])
    except RuntimeError as error:
        reason = " ".join(str(error).split())[:200]
        raise InputError(
            f"{origin}: the weights are of another model than {checkpoint['config']['model'].get('name')} as this "
            f"version builds it ({reason}); use the checkpoint's own model, or train anew"
        ) from error
