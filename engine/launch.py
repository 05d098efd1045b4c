"""Entry points: what happens around `main`. Imports nothing heavy, so that `--help` answers at once."""

import importlib
import os
import re
import sys
import threading
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any, NoReturn

from omegaconf import DictConfig, OmegaConf

from data.errors import InputError
from engine.runfolder import hide, learn_arguments, learn_secrets


def _run_folder(
    ckpt_path: str | None,
    data: str,
    model: str,
    kind: str,
    embeddings: str | None = None,
    folds: str | None = None,
    released: str | None = None,
) -> str:
    """Folder of this run: new for a fresh run; the checkpoint's own when one is resumed or evaluated.

    Embeddings of others are scored in a folder of their name, the folds of a sweep beside its jobs. A new folder is
    made here and now: of processes that ask at the same instant each gets its own, unless they are one job.
    """
    known = _shared_name() is not None or (kind == "train" and bool(ckpt_path))
    while True:
        now = datetime.now().strftime("%Y-%m-%d_%H-%M-%S-%f")
        folder = _folder_at(now, ckpt_path, data, model, kind, embeddings, folds, released)
        if known:
            return folder
        Path(folder).parent.mkdir(parents=True, exist_ok=True)
        try:
            Path(folder).mkdir()
        except FileExistsError:
            continue
        return folder


def _folder_at(
    now: str,
    ckpt_path: str | None,
    data: str,
    model: str,
    kind: str,
    embeddings: str | None,
    folds: str | None,
    released: str | None,
) -> str:
    if embeddings:
        return f"runs/embeddings/{Path(embeddings).stem}/{now}"
    if released:
        return f"runs/{data}/released/{now}"
    if folds:
        return str(Path(folds).absolute() / f"folds_{now}")
    if ckpt_path:
        folder = Path(ckpt_path).absolute().parent
        home = folder.parent if folder.name == "checkpoints" else folder
        return str(home if kind == "train" else home / f"{kind}_{now}")
    suffix = "" if kind == "train" else f"_{kind}"
    return f"runs/{data}/{file_label(model)}/{_shared_name() or now}{suffix}"


def _shared_name() -> str | None:
    """What names the run where Slurm or torchrun starts its processes: all of them must use one folder, also when
    the job is started again. None where Lightning starts them: it tells them the folder.
    """
    if "TORCHELASTIC_RUN_ID" in os.environ:
        name = os.environ["TORCHELASTIC_RUN_ID"]
        if name == "none":
            fail(
                InputError(
                    "torchrun: its processes share no name; add --standalone, or --rdzv-id=NAME on several nodes"
                )
            )
        return f"torchrun_{file_label(name)}"
    if "SLURM_STEP_ID" in os.environ and os.environ.get("SLURM_JOB_NAME") not in ("bash", "interactive"):
        job, task = os.environ.get("SLURM_ARRAY_JOB_ID"), os.environ.get("SLURM_ARRAY_TASK_ID")
        name = f"{job}_{task}" if job and task else os.environ["SLURM_JOB_ID"]
        return f"slurm_{name}.{os.environ['SLURM_STEP_ID']}"
    return None


def file_label(name: str | None) -> str:
    """A model's name as a name for files: of a folder its last part, of a hub name owner--name."""
    if name is None:
        return "model"
    text = Path(name).absolute().name if Path(name).is_dir() else str(name)
    return re.sub(r"[^\w.\-]+", "--", text).strip("-.") or "model"


def _food_set(task: str, root: str | None, file: str | None) -> str:
    """Name of a set of food questions: made here, of one's own file, or the benchmark."""
    kind = "questions_file" if file else "foodieqa" if root else "demo_dishes"
    return f"{kind}/{task}"


def _job_folder(sweep: str, number: int) -> str:
    from engine.sweep import job_folder

    return job_folder(sweep, number)


OmegaConf.register_new_resolver("run_folder", _run_folder, use_cache=True, replace=True)
OmegaConf.register_new_resolver("food_set", _food_set, replace=True)
OmegaConf.register_new_resolver("job_folder", _job_folder, replace=True)


def guarded(module: str, name: str, cfg: DictConfig) -> Any:
    """Import and run a command, `module.name(cfg)`.

    Wrong input ends in one line on stderr and status 1, a signal in 128 + its number.

    In a sweep a failed job is recorded and the others run; see engine.sweep.
    """
    from hydra.core.hydra_config import HydraConfig
    from hydra.types import RunMode

    learn_secrets(cfg)
    hide_output()
    single = not HydraConfig.initialized() or HydraConfig.get().mode != RunMode.MULTIRUN
    if not single and "output_dir" not in cfg:
        fail(InputError("-m: this command is no sweep; leave it out, and give several values as a list, such as [a,b]"))
    first = os.environ.get("LOCAL_RANK", "0") == "0"
    if not first:
        threading.Thread(target=_end_with, args=[os.getppid()], daemon=True).start()
    try:
        if first:
            print("» loading", flush=True)  # the libraries take seconds, and silence looks like a fault
        main: Callable[[DictConfig], Any] = getattr(importlib.import_module(module), name)
        _quieten()
        if not single or "FOOD_SWEEP_JOB" in os.environ:
            from engine.sweep import run_job

            return run_job(main, cfg)
        if name == "train" and not cfg.ckpt_path:  # other commands may have no output_dir
            last = Path(cfg.output_dir) / "checkpoints" / "last.ckpt"
            if last.is_file() and _shared_name():
                print(f"» this job was started before and goes on from {_short(last)}", flush=True)
                cfg.ckpt_path = str(last)
        return main(cfg)
    except InputError as error:
        fail(error)
    except KeyboardInterrupt:  # before training began; later it saves first
        print("stopped", file=sys.stderr)
        sys.exit(130)
    except BaseException as error:
        # Hydra wraps what a constructor raises; the cause is what the user can act on.
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, InputError):
            cause = cause.__cause__
        if single and cause is not None:
            fail(cause)
        if single and _is_of_the_user(error):
            fail(unknown_setting(error) or error)
        if type(error).__name__ == "Stopped":
            if not first:
                sys.exit(0)  # the first process says so; Lightning would kill it before, if this one seemed to fail
            signum, checkpoint = error.signum, error.checkpoint  # pyright: ignore[reportAttributeAccessIssue]
            if checkpoint is not None:
                print(f"stopped; go on with: python train.py ckpt_path={_short(checkpoint)}", file=sys.stderr)
            else:
                print("stopped before anything was trained", file=sys.stderr)
            sys.stdout.flush()
            sys.stderr.flush()
            sys.exit(128 + signum)
        raise


class _Hiding:
    """A stream of the terminal on which secrets never appear: Hydra prints the command line of a job that fails."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        self.stream.write(hide(text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def hide_output() -> None:
    """From here on neither stream of the terminal shows a secret, those of the command line among them."""
    learn_arguments(sys.argv[1:])
    for name in ("stdout", "stderr"):
        if not isinstance(getattr(sys, name), _Hiding):
            setattr(sys, name, _Hiding(getattr(sys, name)))


def _end_with(parent: int) -> None:
    """End this process of a training soon after the one that started it: it would wait for it in vain."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


def command_overrides() -> list[str]:
    """What the command line changed, such as `model=hasty_student`; empty outside a command."""
    from hydra.core.hydra_config import HydraConfig

    return list(HydraConfig.get().overrides.task) if HydraConfig.initialized() else []


def _quieten() -> None:
    """Keep the terminal for what the user can act on: Lightning's adverts and notes on its own code say nothing."""
    import logging
    import warnings

    for name in ("pytorch_lightning.utilities.rank_zero", "pytorch_lightning.trainer.connectors", "gensim"):
        logging.getLogger(name).setLevel(logging.ERROR)
    # Measured: gathering a batch takes under a millisecond, so loader workers would only cost memory.
    warnings.filterwarnings("ignore", message=".*does not have many workers.*")
    warnings.filterwarnings("ignore", message=".*Checkpoint directory .* exists and is not empty.*")
    warnings.filterwarnings("ignore", message=".*treespec, LeafSpec.*")
    warnings.filterwarnings("ignore", message=".*number of training batches.*smaller than the logging interval.*")


def _is_of_the_user(error: BaseException) -> bool:
    """Whether an error of a library is about a setting, or about a file of this machine, rather than a fault of ours.

    `HYDRA_FULL_ERROR=1` shows the traceback all the same, for those who write models.
    """
    if os.environ.get("HYDRA_FULL_ERROR"):
        return False
    settings = {"InstantiationException", "OmegaConfBaseException", "MisconfigurationException", "HydraException"}
    if any(base.__name__ in settings for base in type(error).__mro__):
        return True
    return isinstance(error, OSError) and error.filename is not None


def unknown_setting(error: BaseException) -> InputError | None:
    """What Hydra says of a setting that its target does not take, such as one left from another loss, with a remedy."""
    found = re.search(r"call to target '[\w.]*?(\w+)':\s*TypeError\(.*unexpected keyword argument '(\w+)'", str(error))
    if found is None:
        return None
    place = re.search(r"full_key: ([\w.]+)", str(error))
    key = f"{place[1]}.{found[2]}" if place else found[2]
    key = f"model.{key}" if key.partition(".")[0] in ("net", "loss", "optimizer", "scheduler") else key
    return InputError(f"{key}: {found[1]} takes no such setting; correct its name, or leave it out with ~{key}")


def fail(error: BaseException) -> NoReturn:
    """One line on stderr, exit status 1."""
    print(f"error: {' '.join(str(error).split())}", file=sys.stderr, flush=True)
    sys.exit(1)


def _short(path: Path) -> Path:
    try:
        return path.absolute().relative_to(Path.cwd())
    except ValueError:
        return path
