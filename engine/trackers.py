"""Trackers that need more than a `_target_`: one run for one training, also after a resume."""

import os
import sys
import uuid
from pathlib import Path
from typing import Any

from data.errors import InputError
from engine.runfolder import redact_argument


def wandb_logger(project: str, save_dir: str, offline: bool = True, **settings: Any) -> Any:
    """Weights & Biases, offline unless told otherwise; the run id lies in the run folder, so a resume finds it.

    `WANDB_MODE` in the environment wins over `offline`. No account is needed offline; `wandb sync` uploads later.
    """
    from pytorch_lightning.loggers import WandbLogger

    folder = Path(save_dir)
    run_id = _remembered(folder / "wandb_run_id") or uuid.uuid4().hex[:8]
    _remember(folder / "wandb_run_id", run_id)
    mode = os.environ.get("WANDB_MODE") or ("offline" if offline else "online")
    os.environ.setdefault("WANDB_SILENT", "true")
    try:
        logger = WandbLogger(
            project=project,
            save_dir=str(folder),
            id=run_id,
            name=str(folder.relative_to(folder.parents[2])) if len(folder.parents) > 2 else folder.name,
            resume="allow" if mode == "online" else None,
            offline=mode != "online",
            log_model=False,
            **settings,
        )
        arguments = sys.argv
        sys.argv = [arguments[0], *map(redact_argument, arguments[1:])]  # wandb records the command line as it is
        try:
            _ = logger.experiment
        finally:
            sys.argv = arguments
        return logger
    except ModuleNotFoundError as error:
        raise InputError(f"logger=wandb: {error}; install it with `pip install wandb`") from error


def mlflow_logger(experiment_name: str, save_dir: str, tracking_uri: str, **settings: Any) -> Any:
    """MLflow; the run id lies in the run folder, so a resume goes on with the same run."""
    # MLflow has put its file store into maintenance and asks for this word; no other store needs neither a server nor
    # the whole of MLflow.
    os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
    from pytorch_lightning.loggers import MLFlowLogger

    note = Path(save_dir) / "mlflow_run_id"
    try:
        logger = MLFlowLogger(experiment_name, tracking_uri=tracking_uri, run_id=_remembered(note), **settings)
    except ModuleNotFoundError as error:
        raise InputError(f"logger=mlflow: {error}; install it with `pip install mlflow-skinny`") from error
    _remember(note, str(logger.run_id))
    return logger


def log_image(logger: Any, key: str, path: Path, step: int) -> None:
    """A picture to whichever tracker can take one."""
    from pytorch_lightning.loggers import MLFlowLogger, TensorBoardLogger, WandbLogger

    if isinstance(logger, WandbLogger):
        logger.log_image(key, [str(path)], step=step)
    elif isinstance(logger, TensorBoardLogger):
        from torchvision.io import ImageReadMode, read_image

        logger.experiment.add_image(key, read_image(str(path), ImageReadMode.RGB), step)
        logger.experiment.flush()
    elif isinstance(logger, MLFlowLogger):
        logger.experiment.log_artifact(logger.run_id, str(path))


def _remembered(note: Path) -> str | None:
    return note.read_text(encoding="utf-8").strip() if note.is_file() else None


def _remember(note: Path, run_id: str) -> None:
    note.parent.mkdir(parents=True, exist_ok=True)
    note.write_text(run_id + "\n", encoding="utf-8")
