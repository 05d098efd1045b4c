"""`train.py`: fit, test, write."""

from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from hydra.utils import instantiate
from lightning_fabric.plugins.environments.slurm import SLURMEnvironment
from omegaconf import DictConfig, open_dict
from pytorch_lightning.callbacks import ModelCheckpoint, ProgressBar
from pytorch_lightning.utilities import rank_zero_only
from rich.console import Console

from data.errors import InputError
from data.files import sole_writer, sweep_partial_files
from data.retrieval import RetrievalData
from engine.attention import plot_attention
from engine.build import (
    build_data,
    build_model,
    is_trained,
    load_weights,
    seed_all,
    tracking,
    with_checkpoint_config,
)
from engine.callbacks import Stopped, stopping
from engine.checkpoints import AtomicCheckpointIO, another_checkpoint, load_checkpoint
from engine.console import folder_name, make_console, say
from engine.launch import command_overrides
from engine.model_card import write_model_card
from engine.report import publish
from engine.retrieval import publish_split
from engine.runfolder import plain, write_provenance
from engine.scoring import network_scores, test_trainer
from engine.sweep import NothingToTrain


def train(cfg: DictConfig) -> float | None:
    """Fit a model, test its best checkpoint; returns the best value that the checkpoint was chosen by.

    Raises:
        InputError: wrong data, config or checkpoint, a loss that is not finite, a disk that is full.
        Stopped: a signal asked to stop; the state is in last.ckpt.
    """
    folder = Path(cfg.output_dir)
    checkpoints = folder / "checkpoints"
    if getattr(rank_zero_only, "rank", 0):  # one process of several owns the folder
        return _train(cfg)
    with sole_writer(folder), stopping(checkpoints / "last.ckpt"):
        for place in (folder, checkpoints):
            sweep_partial_files(place)
        return _train(cfg)


def _train(cfg: DictConfig) -> float | None:
    console = make_console()
    overrides = command_overrides()
    checkpoint = None
    if cfg.ckpt_path:
        checkpoint = load_checkpoint(cfg.ckpt_path)
        cfg = with_checkpoint_config(cfg, checkpoint, overrides, training=True)
    if not is_trained(cfg):
        raise NothingToTrain(
            f"model={cfg.model.name} needs no training; score it with: python evaluate.py model={cfg.model.name}"
        )
    if str(cfg.trainer.precision).startswith(("16", "bf16")) and not torch.cuda.is_available():
        raise InputError(
            f"trainer.precision={cfg.trainer.precision}: LSTMs train in half precision on a GPU only; use 32-true"
        )
    folder = Path(cfg.output_dir)
    seed_all(cfg)

    say(console, f"run folder {folder_name(folder)}")
    data = build_data(cfg)
    data.prepare()
    with open_dict(cfg):  # `auto` is settled here: a checkpoint must be read the same way on every machine
        if isinstance(data, RetrievalData):
            cfg.data.image_input = data.image_input
    config = plain(cfg)
    if checkpoint is not None:
        state = type(data).__qualname__  # Lightning keeps the data module's state under its class name
        needed = {state: dict, "loops": dict, "callbacks": dict, "optimizer_states": list}
        needed["pytorch-lightning_version"] = str
        missing = [key for key, kind in needed.items() if not isinstance(checkpoint.get(key) or None, kind)]
        if missing:
            raise InputError(
                f"{cfg.ckpt_path}: holds no {missing[0]}, so nothing can be resumed; "
                f"{another_checkpoint(Path(cfg.ckpt_path))}"
            )
        data.load_state_dict(checkpoint[state])
    write_provenance(folder, config, overrides, data.provenance())
    model = build_model(cfg, data, config)
    if checkpoint is None and isinstance(data, RetrievalData):
        assert data.vocabulary is not None
        model.net.load_word_table(torch.from_numpy(data.vocabulary.table()))
    say(console, f"{cfg.model.name}: {sum(p.numel() for p in model.parameters()):,} parameters; {data.summary()}")
    write_model_card(folder, model, measured=False)  # a run that is stopped leaves checkpoints, and they have a card

    callbacks = [instantiate(c) for c in cfg.callbacks.values() if c is not None]
    if not cfg.trainer.enable_progress_bar:
        callbacks = [c for c in callbacks if not isinstance(c, ProgressBar)]
    with tracking(cfg, config) as loggers:
        trainer = instantiate(
            cfg.trainer,
            callbacks=callbacks,
            logger=loggers or False,
            # Nobody but submitit, or Slurm itself, requeues: Lightning would do it a second time.
            plugins=[
                AtomicCheckpointIO(),
                *([SLURMEnvironment(auto_requeue=False)] if SLURMEnvironment.detect() else []),
            ],
        )
        return _fit_and_test(cfg, folder, data, model, trainer, loggers, checkpoint, console)


def _fit_and_test(
    cfg: DictConfig,
    folder: Path,
    data: Any,
    model: Any,
    trainer: pl.Trainer,
    loggers: list[Any],
    checkpoint: dict[str, Any] | None,
    console: Console,
) -> float | None:
    if checkpoint is not None:
        load_weights(model, checkpoint, str(cfg.ckpt_path))  # says in one line what Lightning says in fifty
    trainer.fit(model, datamodule=data, ckpt_path=cfg.ckpt_path)
    if trainer.received_sigterm:  # arrived before training began, when nothing could be saved yet
        raise Stopped(15, None)

    if not trainer.is_global_zero:
        return None  # one process tests, exactly and alone
    keeper = next((c for c in trainer.callbacks if isinstance(c, ModelCheckpoint)), None)  # pyright: ignore[reportAttributeAccessIssue]
    best_score = keeper.best_model_score if keeper is not None else None
    best = folder / "checkpoints" / ("last.ckpt" if best_score is None else "best.ckpt")
    if not best.is_file():
        raise InputError(
            f"{folder_name(folder)}: not one step was trained; look at trainer.max_epochs and "
            "trainer.limit_train_batches"
        )
    load_weights(model, load_checkpoint(best), str(best))
    for logger in loggers:
        logger.log_checkpoint(best)
    chosen = "" if best_score is None or keeper is None else f" ({keeper.monitor} {best_score:.4f})"
    if isinstance(data, RetrievalData):
        say(console, f"testing {folder_name(best)}{chosen}")
        publish_split(cfg, folder, data, model, "test", best, loggers, console, trainer.global_step)
    else:
        scores = network_scores(test_trainer(cfg), model, data, "test")
        say(console, f"tested {folder_name(best)}{chosen}")
        plot_attention(folder, model, data, "test", scores, int(cfg.seed))
        publish(cfg, folder, data, "test", scores, loggers, console, trainer.global_step)
    write_model_card(folder, model)
    return float(best_score) if isinstance(best_score, torch.Tensor) else None
