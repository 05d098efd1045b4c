"""Trackers: where metrics, pictures and tables of a run go, besides the run folder.

What each of them promises here: one run for one training, also after a kill and a resume; no step lost or doubled; no
failure of a tracker ends a training.
"""

import csv
import json
import logging
import math
import os
import sys
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from hydra.errors import InstantiationException
from hydra.utils import instantiate
from omegaconf import DictConfig
from pytorch_lightning.core.saving import save_hparams_to_yaml
from pytorch_lightning.loggers import CSVLogger, Logger, MLFlowLogger, TensorBoardLogger, WandbLogger
from pytorch_lightning.loggers.csv_logs import ExperimentWriter
from pytorch_lightning.utilities import rank_zero_only
from tqdm import tqdm

from data.errors import InputError
from engine.runfolder import redact, redact_argument

# (metric, step) -> every value that was logged for it. Steps are optimizer steps.
Known = dict[tuple[str, int], list[float]]
SHOWN_ROWS = 100  # of a table, where the tracker shows it as text
STEP = "trainer/global_step"  # wandb's x-axis, as Lightning calls it


class Tracker(Logger):
    """A Lightning logger that cannot end a run: the first failure is one line, then the run goes on without it.

    A tracker that failed is not tried again in this process, because each try may wait for a time-out. A resume tries
    again and hands in from `history.jsonl` what it has missed. What a killed run has logged after its last checkpoint
    is computed again by the resumed one; values that the tracker has already are not logged twice.

    Args:
        name: of the tracker in messages, such as `wandb`.
        settings: of the logger, with its `_target_`.
        history: `history.jsonl` of a run that is resumed.

    Raises:
        InputError: a setting that does not exist, or a package that is not there.
    """

    def __init__(self, name: str, settings: DictConfig, history: Path | None = None) -> None:
        super().__init__()
        self.label = name
        self.logger: Any = None
        self._known: Known = {}
        if rank_zero_only.rank == 0:  # pyright: ignore[reportFunctionMemberAccess]  # one process of several tracks
            self._survive(lambda: self._start(settings, history))

    def _start(self, settings: DictConfig, history: Path | None) -> None:
        try:
            self.logger = logger = instantiate(settings)
        except InstantiationException as error:
            cause = error.__cause__ or error
            if isinstance(cause, TypeError | ImportError):
                reason = " ".join(str(cause).split())
                raise InputError(
                    f"logger={self.label}: {reason}; compare conf/logger, or install its package"
                ) from None
            raise cause from None
        self._known = logger.known() if hasattr(logger, "known") else {}
        if history is not None and history.is_file():
            for line in history.read_text(encoding="utf-8").splitlines():
                row = json.loads(line)
                # The history counts steps that are done; Lightning numbers the last of them, from 0.
                step = row.pop("step") - 1
                self.log_metrics(row, step)
                for key, value in row.items():  # the step after the last checkpoint is in the history, and comes again
                    self._known.setdefault((key, step), []).append(value)

    def _survive(self, action: Callable[[], Any]) -> Any:
        try:
            return action()
        except InputError:
            raise
        except Exception as error:
            reason = " ".join(f"{type(error).__name__}: {redact(str(error))}".split())[:300]
            warn(f"tracker {self.label}: {reason}; the run goes on without it")
            self.logger = None

    def _do(self, method: str, *arguments: Any) -> None:
        """Call a method of the logger, if it is there and has it."""
        if hasattr(self.logger, method):
            self._survive(lambda: getattr(self.logger, method)(*arguments))

    @property
    def name(self) -> str | None:
        return self.label

    @property
    def version(self) -> str | int | None:
        return self.logger and self._survive(lambda: self.logger.version)

    @property
    def save_dir(self) -> str | None:
        return self.logger and self._survive(lambda: self.logger.save_dir)

    @property
    def experiment(self) -> Any:
        """The tracker's own object, for callbacks that know it; None once it has failed."""
        return self.logger and self._survive(lambda: self.logger.experiment)

    def log_hyperparams(self, params: Any, *args: Any, **kwargs: Any) -> None:
        self._do("log_hyperparams", params)

    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        if step is not None:
            new = {k: v for k, v in metrics.items() if not _among(float(v), self._known.get((k, step), []))}
            if not new.keys() - {"epoch"}:
                return
            metrics = new
        self._do("log_metrics", metrics, step)

    def log_picture(self, key: str, path: Path, step: int) -> None:
        """A PNG file, where the tracker takes pictures."""
        self._do("log_picture", key, path, step)

    def log_table(self, key: str, path: Path, step: int) -> None:
        """Rows of a `.jsonl` or `.csv` file, where the tracker takes tables."""
        self._do("log_table", key, path, step)

    def log_checkpoint(self, path: Path) -> None:
        """The best checkpoint, where the tracker keeps files and is set to (`best_checkpoint`)."""
        if getattr(self.logger, "best_checkpoint", False):
            self._do("log_checkpoint", path)

    def save(self) -> None:
        self._do("save")

    def finalize(self, status: str) -> None:
        """Nothing: Lightning calls this when fitting ends, and the test comes after."""

    def close(self, status: str) -> None:
        """End the tracker's run: `success` or `failed`."""
        self._do("finalize", status)


def log_results(
    loggers: Sequence[Any],
    metrics: Mapping[str, float],
    step: int,
    pictures: Mapping[str, Path] | None = None,
    tables: Mapping[str, Path] | None = None,
) -> None:
    """Hand numbers, pictures (PNG files) and tables (see `read_table`) to the trackers; a file may be missing."""
    for logger in loggers:
        if metrics:
            logger.log_metrics(metrics, step=step)
        for method, files in (("log_picture", pictures or {}), ("log_table", tables or {})):
            for key, path in files.items():
                if path.is_file() and hasattr(logger, method):
                    getattr(logger, method)(key, path, step)
        logger.save()


def warn(line: str) -> None:
    """One line on stderr that leaves a progress bar whole."""
    tqdm.write(f"warning: {line}", file=sys.stderr)


# --------------------------------------------------------------------------------------------------------------- csv


class CSV(CSVLogger):
    """`metrics.csv`, written at once, and gone on with after a resume (Lightning deletes it, or begins another)."""

    def __init__(self, save_dir: str, name: str = "csv", version: str = "", prefix: str = "") -> None:
        super().__init__(save_dir, name, version, prefix, flush_logs_every_n_steps=1)
        self._experiment = self._rows = _Rows(self.log_dir)

    def known(self) -> Known:
        found: Known = {}
        for row in self._rows.rows():
            for key, value in row.items():
                if key != "step" and value:
                    found.setdefault((key, int(row["step"])), []).append(float(value))
        return found


class _Rows(ExperimentWriter):
    def _check_log_dir_exists(self) -> None:
        path = Path(self.metrics_file_path)
        if path.is_file():
            text = path.read_bytes()
            whole = text[: text.rfind(b"\n") + 1]
            if whole != text:  # a line that a kill has cut
                path.write_bytes(whole)
            self.metrics_keys = list(self.rows()[0]) if self.rows() else []
            if not whole:
                path.unlink()

    def log_hparams(self, params: dict[str, Any]) -> None:
        super().log_hparams(params)
        save_hparams_to_yaml(str(Path(self.log_dir, self.NAME_HPARAMS_FILE)), self.hparams)

    def save(self) -> None:
        super(ExperimentWriter, self).save()  # the settings are written once, not with every row

    def rows(self) -> list[dict[str, str]]:
        path = Path(self.metrics_file_path)
        if not path.is_file():
            return []
        with path.open(encoding="utf-8", newline="") as file:
            return [row for row in csv.DictReader(file) if row.get("step")]


# ------------------------------------------------------------------------------------------------------- tensorboard


class TensorBoard(TensorBoardLogger):
    """Event files that are flushed with every call, so that a kill loses nothing that was logged."""

    def __init__(self, save_dir: str, name: str = "tensorboard", version: str = "", **settings: Any) -> None:
        super().__init__(save_dir, name, version, default_hp_metric=False, **settings)
        threading.excepthook = _quiet_writer
        self._earlier = sorted(Path(self.log_dir).glob("events.out.tfevents.*"))
        _ = self.experiment  # a setting that does not exist is found here

    def known(self) -> Known:
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

        found: Known = {}
        for path in self._earlier:
            events = EventAccumulator(str(path), size_guidance={"scalars": 0, "images": 1, "tensors": 1}).Reload()
            for key in events.Tags()["scalars"]:
                for event in events.Scalars(key):
                    found.setdefault((key, event.step), []).append(event.value)
        return found

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        super().log_metrics(metrics, step)  # pyright: ignore[reportArgumentType]
        self.experiment.flush()

    def log_picture(self, key: str, path: Path, step: int) -> None:
        from torchvision.io import ImageReadMode, read_image

        self.experiment.add_image(key, read_image(str(path), ImageReadMode.RGB), step)
        self.experiment.flush()

    def log_table(self, key: str, path: Path, step: int) -> None:
        columns, rows = read_table(path)
        lines = [columns, ["---"] * len(columns), *rows[:SHOWN_ROWS]]
        text = "\n".join("| " + " | ".join(str(v).replace("|", "\\|")[:200] for v in line) + " |" for line in lines)
        more = f"\n\n{len(rows) - SHOWN_ROWS} more rows in {path.name}" if len(rows) > SHOWN_ROWS else ""
        self.experiment.add_text(key, text + more, step)
        self.experiment.flush()


def _quiet_writer(failure: threading.ExceptHookArgs) -> None:
    """No traceback of TensorBoard's writing thread: the next call meets its error again and says it in one line."""
    if type(failure.thread).__name__ != "_AsyncWriterThread":
        threading.__excepthook__(failure)


# ------------------------------------------------------------------------------------------------------------- wandb


class Wandb(WandbLogger):
    """Weights & Biases. Rows go by their own axis, `trainer/global_step`, and never by a step that must increase."""

    def __init__(self, save_dir: str, best_checkpoint: bool, mode: str, **settings: Any) -> None:
        super().__init__(save_dir=save_dir, mode=mode, **settings)
        self._wandb_init.pop("anonymous")  # wandb warns of it, whatever its value
        self.best_checkpoint, self.mode = best_checkpoint, mode
        # Before the run begins, which makes a file of its own.
        self._earlier = [] if mode == "disabled" else sorted(Path(save_dir, "wandb").glob(f"*run-*-{self._id}/*.wandb"))
        self._continue_at: int | None = None

    def known(self) -> Known:
        found: Known = {}
        for path in self._earlier:
            for record in wandb_records(path):
                row = {item.key or "/".join(item.nested_key): item.value_json for item in record.history.item}
                if "_step" in row and self.mode != "online":
                    # Offline, this process begins at row 0 again, and rows must increase when all are uploaded.
                    self._continue_at = max(self._continue_at or 0, int(row["_step"]) + 1)
                for key, text in row.items():
                    value = json.loads(text)
                    if STEP in row and key != STEP and not key.startswith("_") and isinstance(value, int | float):
                        found.setdefault((key, int(row[STEP])), []).append(float(value))
        return found

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, Any], step: int | None = None) -> None:
        row = dict(metrics) if step is None else {**metrics, STEP: step}
        self.experiment.log(row, step=self._continue_at, commit=True)
        self._continue_at = None

    def log_picture(self, key: str, path: Path, step: int) -> None:
        import wandb

        self.log_metrics({key: wandb.Image(str(path))}, step)

    def log_table(self, key: str, path: Path, step: int) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        import wandb

        columns, rows = read_table(path)
        table = wandb.Table(columns=[*columns], data=[*rows], allow_mixed_types=True)
        self.log_metrics({key: table}, step)

    def log_checkpoint(self, path: Path) -> None:
        import wandb

        artifact = wandb.Artifact(f"checkpoint-{self._id}", type="model")
        # Training is over and the file stays: no copy is made of it.
        artifact.add_file(str(path), name=path.name, policy="immutable")
        self.experiment.log_artifact(artifact, aliases=["best"])

    @rank_zero_only
    def finalize(self, status: str) -> None:
        # Without the end all jobs of a sweep would share one run.
        self.experiment.finish(exit_code=0 if status == "success" else 1)


def wandb_logger(
    project: str,
    save_dir: str,
    offline: bool = True,
    best_checkpoint: bool = True,
    init_timeout: float = 30,
    finish_timeout: float = 120,
    **settings: Any,
) -> Any:
    """Weights & Biases, offline unless told otherwise; the run id lies in the run folder, so a resume finds it.

    `WANDB_MODE` in the environment wins over `offline`. No account is needed offline; `wandb sync` uploads later. A
    server that cannot be reached, or that refuses, makes the run an offline one.

    Args:
        project: of wandb.
        save_dir: run folder.
        offline: record into the run folder only.
        best_checkpoint: keep best.ckpt as an artifact.
        init_timeout: seconds to wait for the server at the start.
        finish_timeout: seconds to wait for the upload at the end; what is left can be uploaded by `wandb sync`.
        settings: of `wandb.init`.

    Raises:
        InputError: wandb is not installed, or does not know a setting.
    """
    try:
        import wandb
        from pydantic import ValidationError  # wandb's own, of its settings
        from wandb.errors import UsageError
    except ModuleNotFoundError as error:
        raise InputError(f"logger=wandb: {error}; install it with `pip install wandb`") from None
    folder = Path(save_dir)
    # An agent of a wandb sweep has named the run before it started the command.
    named = os.environ.get("WANDB_RUN_ID") if os.environ.get("WANDB_SWEEP_ID") else None
    run_id = _remembered(folder / "wandb_run_id") or named or uuid.uuid4().hex[:8]
    _remember(folder / "wandb_run_id", run_id)
    os.environ.setdefault("WANDB_SILENT", "true")

    def start(mode: str) -> Wandb:
        logger = Wandb(
            str(folder),
            best_checkpoint,
            mode,
            project=project,
            id=run_id,
            name=str(folder.relative_to(folder.parents[2])) if len(folder.parents) > 2 else folder.name,
            resume="allow" if mode == "online" else None,
            settings=wandb.Settings(init_timeout=init_timeout, finish_timeout=finish_timeout),
            **settings,
        )
        arguments = sys.argv
        sys.argv = [arguments[0], *map(redact_argument, arguments[1:])]  # wandb records the command line as it is
        try:
            _ = logger.experiment
        finally:
            sys.argv = arguments
        return logger

    mode = os.environ.get("WANDB_MODE") or ("offline" if offline else "online")
    try:
        try:
            return start(mode)
        except wandb.Error as error:
            if mode != "online":
                raise
            reason = " ".join(redact(str(error)).split())[:300]
            warn(f"tracker wandb: {reason}; it records offline, upload with: wandb sync {folder}/wandb/offline-run-*")
            wandb.teardown()  # its service holds on to the run that did not begin
            return start("offline")
    except (TypeError, UsageError, ValidationError) as error:
        raise InputError(f"logger=wandb: {' '.join(str(error).split())}; see the settings in conf/logger") from None


def wandb_records(path: Path) -> Iterator[Any]:
    """Records of wandb's file of a run, up to the end or to where a kill has cut it; wandb has no public reader.

    7 bytes of header, then blocks of 32 KiB of (checksum, length, type) and content; type 1 is a whole record, 2, 3 and
    4 are its first, middle and last part.
    """
    from wandb.proto import wandb_internal_pb2 as pb

    data = path.read_bytes()
    at, whole = 7, b""
    while at + 7 <= len(data):
        left = 32768 - at % 32768
        if left < 7:
            at += left
            continue
        length, kind = int.from_bytes(data[at + 4 : at + 6], "little"), data[at + 6]
        if kind not in (1, 2, 3, 4) or at + 7 + length > len(data):
            return
        whole += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):
            record = pb.Record()  # pyright: ignore[reportAttributeAccessIssue]
            record.ParseFromString(whole)
            yield record
            whole = b""


# ------------------------------------------------------------------------------------------------------------ mlflow


class MLflow(MLFlowLogger):
    """MLflow; of a resumed run, settings that changed are tags, because MLflow's parameters cannot change."""

    best_checkpoint = False
    resumed = False

    def known(self) -> Known:
        found: Known = {}
        if self.resumed:
            for key in self.experiment.get_run(self.run_id).data.metrics:
                for metric in self.experiment.get_metric_history(self.run_id, key):
                    found.setdefault((key, metric.step), []).append(metric.value)
        return found

    @rank_zero_only
    def log_hyperparams(self, params: Any) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        if self.resumed:
            from mlflow.entities import RunTag

            logged = self.experiment.get_run(self.run_id).data.params
            given = {key: str(value)[:250] for key, value in _flat(params)}
            changed = {k: v for k, v in given.items() if k in logged and logged[k] != v}
            self.experiment.log_batch(self.run_id, tags=[RunTag(f"resumed.{k}", v) for k, v in changed.items()])
            params = {key: value for key, value in given.items() if key not in logged}
        super().log_hyperparams(params)

    def log_picture(self, key: str, path: Path, step: int) -> None:
        self.experiment.log_artifact(self.run_id, str(path), "pictures")

    def log_table(self, key: str, path: Path, step: int) -> None:
        self.experiment.log_artifact(self.run_id, str(path), "tables")

    def log_checkpoint(self, path: Path) -> None:
        self.experiment.log_artifact(self.run_id, str(path), "checkpoints")


def mlflow_logger(
    experiment_name: str, save_dir: str, tracking_uri: str, best_checkpoint: bool = False, **settings: Any
) -> Any:
    """MLflow; the run id lies in the run folder, so a resume goes on with the same run.

    Args:
        experiment_name: of MLflow.
        save_dir: run folder.
        tracking_uri: `file:` and a folder, or the address of a server.
        best_checkpoint: copy best.ckpt to the artifacts.
        settings: of Lightning's MLFlowLogger.

    Raises:
        InputError: MLflow is not installed, or does not know a setting.
    """
    # MLflow has put its file store into maintenance and asks for this word; no other store needs neither a server nor
    # the whole of MLflow.
    os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
    # A server that is away costs seconds and not, as MLflow would have it, minutes.
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "20")
    logging.getLogger("pytorch_lightning.loggers.mlflow").setLevel(logging.ERROR)  # says that it makes an experiment
    note = Path(save_dir) / "mlflow_run_id"
    earlier = _remembered(note)
    try:
        logger = MLflow(experiment_name, tracking_uri=tracking_uri, run_id=earlier, **settings)
    except ModuleNotFoundError as error:
        raise InputError(f"logger=mlflow: {error}; install it with `pip install mlflow-skinny`") from None
    except Exception as error:
        if isinstance(error, TypeError) or getattr(error, "error_code", "") == "INVALID_PARAMETER_VALUE":
            raise InputError(
                f"logger=mlflow: {' '.join(str(error).split())}; see the settings in conf/logger"
            ) from None
        raise
    logger.best_checkpoint, logger.resumed = best_checkpoint, earlier is not None
    if logger.resumed:
        logger.experiment.update_run(logger.run_id, status="RUNNING")
    _remember(note, str(logger.run_id))
    return logger


def _flat(params: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in params.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{prefix}{key}/")
        else:
            yield f"{prefix}{key}", value


# ------------------------------------------------------------------------------------------------------------ common


def read_table(path: Path) -> tuple[list[str], list[list[Any]]]:
    """Columns and rows of a `.jsonl` or `.csv` file; values that are lists are written as JSON."""
    with path.open(encoding="utf-8", newline="") as file:
        if path.suffix == ".csv":
            columns, *rows = csv.reader(file)
            return columns, rows
        found = [json.loads(line) for line in file]
    columns = list(found[0]) if found else []
    shown = [[json.dumps(v) if isinstance(v, list | dict) else v for v in map(row.get, columns)] for row in found]
    return columns, shown


def _among(value: float, logged: list[float]) -> bool:
    """Whether a value was logged; some trackers keep single precision."""
    return any(math.isclose(value, v, rel_tol=1e-6) or (math.isnan(value) and math.isnan(v)) for v in logged)


def _remembered(note: Path) -> str | None:
    return note.read_text(encoding="utf-8").strip() if note.is_file() else None


def _remember(note: Path, run_id: str) -> None:
    note.parent.mkdir(parents=True, exist_ok=True)
    note.write_text(run_id + "\n", encoding="utf-8")
