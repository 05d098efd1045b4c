"""Composed config -> objects, and configs restored from checkpoints."""

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
from hydra.utils import get_object, instantiate
from omegaconf import DictConfig, OmegaConf, open_dict

from data.errors import InputError
from engine.trackers import Tracker
from engine.trust import require_allowed, require_no_address

RETRIEVAL = "data.retrieval.RetrievalData"
FOOD = "data.foodieqa.FoodieQAData"
# What a checkpoint fixes: without these, its weights mean nothing.
_FIXED = ("data", "text", "features", "reducer", "model", "seed")
# What may differ all the same: where files lie, and what changes no number.
_FREE = {
    "data.cache",
    "data.images",
    "data.ingredients",
    "data.lists",
    "data.limit",
    "data.num_workers",
    "data.on_bad_record",
    "data.overfit",
    "data.root",
    "data.test_file",
    "data.train_file",
    "data.val_file",
}
# How a network was trained to read: kept when it is given other data.
_READING = (
    "modality",
    "images_per_step",
    "words",
    "evidence",
    "encoder",
    "generate",
    "encoding",
    "image_input",
    "sentences",
    "batch_size",
    "pool",
    "seed",
)
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
    sections = [*_FIXED, *_TRAINING] if training else [*_FIXED]
    config = {key: checkpoint["config"].get(key) for key in sections}
    require_allowed(config, origin)  # before OmegaConf sees any of it
    old, new = str(checkpoint["config"].get("output_dir") or ""), str(cfg.output_dir)
    stored = OmegaConf.create(_moved(config, old, new))
    assert isinstance(stored, DictConfig)
    given = {override.lstrip("+~").partition("=")[0] for override in overrides}
    if training and "logger" not in given:
        loggers = OmegaConf.to_container(cfg.logger) if OmegaConf.is_config(cfg.get("logger")) else None
        require_no_address(config["logger"], loggers, origin)
    # A group put at a place, `loss@model.loss.ranking=triplet`, is an override of that place.
    keys = [override.lstrip("+~").partition("=")[0].rpartition("@")[2] for override in overrides]
    if "experiment" in keys:
        return cfg
    if "model" in keys and cfg.model.name != stored.model.name:
        raise InputError(
            f"{origin}: a checkpoint of model={stored.model.name}, not of model={cfg.model.name}; leave it out"
        )
    if "data" in keys and cfg.data._target_ != stored.data._target_:
        raise InputError(f"{origin}: was trained on data={stored.data.name}, another problem than data={cfg.data.name}")
    if "data" in keys and "tasks" in stored.data and not set(cfg.data.tasks) <= set(stored.data.tasks):
        raise InputError(
            f"{origin}: was trained on {', '.join(stored.data.tasks)}, and data={cfg.data.name} asks "
            f"{', '.join(cfg.data.tasks)}; choose data of the same task, or train anew"
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
                if section == "seed" and training and stored.seed != cfg.seed:
                    raise InputError(f"seed: fixed by the checkpoint {origin}; leave the override out, or train anew")
                merged[section] = cfg.get(section)
                if section == "data":  # other data, read the way the network was trained to read
                    for name in _READING:
                        if name in stored.data:
                            merged.data[name] = stored.data[name]
                if section in ("text", "features", "reducer"):
                    merged.data[section] = cfg.get(section)
                continue
            if section in _FIXED and key not in _FREE:
                if OmegaConf.select(stored, key) != OmegaConf.select(cfg, key):
                    raise InputError(f"{key}: fixed by the checkpoint {origin}; leave the override out, or train anew")
                continue
            OmegaConf.update(merged, key, OmegaConf.select(cfg, key))
        precision = str(checkpoint["config"].get("trainer", {}).get("precision", ""))
        if precision.startswith("64") and not training:  # single precision would not repeat its scores
            merged.trainer.precision = precision
        # Paths of the run and the cache belong to this command, not to the one that made the checkpoint.
        merged.data.cache = cfg.cache
    return merged


def _moved(value: Any, old: str, new: str) -> Any:
    if isinstance(value, dict):
        return {key: _moved(item, old, new) for key, item in value.items()}
    if isinstance(value, list):
        return [_moved(item, old, new) for item in value]
    if not isinstance(value, str) or not Path(old).is_absolute():
        return value
    for prefix in ("", "file:"):  # trackers name the folder as an address
        if value == prefix + old or value.startswith(f"{prefix}{old}/"):
            return prefix + new + value[len(prefix + old) :]
    return value


def build_data(cfg: DictConfig, fitted: dict[str, Any] | None = None, origin: str = "") -> Any:
    """The data module; `fitted`, of the checkpoint `origin`, is taken over instead of fitting anew."""
    problem = {"models.choice.ChoiceTask": "choice", "models.retrieval.RetrievalTask": "retrieval"}
    wanted = problem.get(str(cfg.model.get("_target_")), "choice")
    given = "retrieval" if cfg.data._target_ == RETRIEVAL else "choice"
    if cfg.data._target_ == FOOD:
        raise InputError(f"data={cfg.data.name}: may be used for evaluation only, never for training; use evaluate.py")
    if answers_requests(cfg):
        raise InputError(
            f"model={cfg.model.name}: answers FoodieQA's questions only; use data=foodieqa/text or another"
        )
    if wanted != given:
        other = "model=im2recipe" if given == "retrieval" else "model=impatient_reader"
        fit = "ranks recipes and photos" if given == "retrieval" else "asks to choose among answers"
        raise InputError(f"data={cfg.data.name} {fit}, which model={cfg.model.name} does not; use {other}")
    data = instantiate(cfg.data)
    if fitted is not None:
        data.restore(fitted, origin)
    return data


def build_model(cfg: DictConfig, data: Any, config: dict[str, Any] | None = None) -> Any:
    """The model of the config: a `ChoiceTask`, a `RetrievalTask`, or a system that is not trained."""
    settings = {key: value for key, value in cfg.model.items() if key != "name"}
    section = OmegaConf.create(settings)
    if is_trained(cfg):
        # What a network may want to know of the data; one that does not ask for it is not told.
        wanted = inspect.signature(get_object(section.net._target_)).parameters
        with open_dict(section):
            section.net.update({key: value for key, value in data.facts().items() if key in wanted})
            if cfg.data._target_ == RETRIEVAL:
                _fit_loss(section.loss, data)
    model = instantiate(section)
    if is_trained(cfg):
        model.seed, model.config = int(cfg.seed), config or {}
        if str(cfg.trainer.precision).startswith("64"):
            model.double()  # before any weights are loaded, which would be rounded to single precision
    return model


def _fit_loss(loss: DictConfig, data: Any) -> None:
    """What a loss needs of the data: classes for the semantic term, strangers for losses of single pairs."""
    if loss.get("weight") and data.facts()["classes"] < 2:
        loss.weight = 0.0
        data.note("these data have no semantic classes: the semantic term of the loss is off")
    ranking = loss.get("ranking") or loss
    if str(ranking._target_).endswith("PairwiseCosine") and not data.mismatch:
        raise InputError(
            "data.mismatch=0: the pairwise cosine loss would only ever see matching pairs and collapse; set "
            "data.mismatch=0.8 as published"
        )


@contextmanager
def tracking(cfg: DictConfig, config: dict[str, Any]) -> Iterator[list[Any]]:
    """The trackers of the config, told the config, and finished at the end whatever happens; `logger=[]` gives none."""
    history = Path(cfg.output_dir) / "history.jsonl" if cfg.ckpt_path else None  # of a run that is resumed
    chosen = {name: settings for name, settings in (cfg.get("logger") or {}).items() if settings is not None}
    loggers: list[Tracker] = []
    status = "failed"
    try:
        for name, settings in chosen.items():
            loggers.append(Tracker(str(name), settings, history))
            loggers[-1].log_hyperparams(config)
        yield loggers
        status = "success"
    finally:
        for logger in loggers:
            logger.close(status)


def seed_all(cfg: DictConfig) -> None:
    """Seed every generator of this process."""
    if not isinstance(cfg.seed, int) or not 0 <= cfg.seed < 2**32:
        raise InputError(f"seed={cfg.seed}: must be a whole number from 0 to 4294967295")
    pl.seed_everything(cfg.seed, workers=True, verbose=False)


def is_trained(cfg: DictConfig) -> bool:
    """Whether the model of the config is a network that must be trained."""
    return "net" in cfg.model


def answers_requests(cfg: DictConfig) -> bool:
    """Whether the model of the config answers questions through requests and replies (models/backend.py)."""
    return hasattr(get_object(str(cfg.model._target_)), "capabilities")


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
