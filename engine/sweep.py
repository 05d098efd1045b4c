"""Sweeps: a record in every job's folder, so that a restart repeats nothing, and one table of all jobs at the end.

Hydra runs the jobs. What is added: a failed job stops and hides no other; `job.json` says what became of each; the
same command with `hydra.sweep.dir=` of an earlier sweep goes on with it.
"""

import atexit
import json
import logging
import math
import os
import shlex
import signal
import subprocess
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from filelock import FileLock, Timeout
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import ChoiceSweep, Glob, IntervalSweep, Override
from hydra.experimental.callback import Callback
from omegaconf import DictConfig, ListConfig, OmegaConf, flag_override

from data.errors import InputError
from data.files import atomic_file
from engine.launch import fail

# Overrides of the sweep itself: two jobs that differ in nothing else are the same job.
_OF_THE_SWEEP = ("sweep", "cluster")
# In the environment of a job that has a process of its own (several devices).
OWN_PROCESS = "FOOD_SWEEP_JOB"


class NothingToTrain(InputError):
    """A system that is scored without training: in a sweep over experiments it is skipped, it has not failed."""


# ---- one job -------------------------------------------------------------------------------------------------------


def job_overrides() -> list[str]:
    """What tells this job from others, without secrets."""
    from engine.runfolder import redact_argument

    given = map(str, HydraConfig.get().overrides.task)
    kept = [text for text in given if text.lstrip("+").partition("=")[0].partition(".")[0] not in _OF_THE_SWEEP]
    return list(map(redact_argument, kept))


def job_folder(sweep: str, number: int) -> str:
    """Folder of a job inside the sweep's: the one that holds a job with the same overrides, else its number.

    After a restart with other values (or more trials) a number may be taken by another job: `3-1`, `3-2`, ... follow.
    """
    overrides = sorted(job_overrides())
    for record in records(Path(sweep)):
        if sorted(record["overrides"]) == overrides:
            return record["folder"].name
    name, turn = str(number), 0
    while (taken := _read(Path(sweep) / name)) is not None and sorted(taken["overrides"]) != overrides:
        turn += 1
        name = f"{number}-{turn}"
    return name


def run_job(main: Callable[[DictConfig], Any], cfg: DictConfig) -> Any:
    """Run one job of a sweep and record what became of it; a finished one is returned from disk.

    An interrupted training goes on from its `last.ckpt`. A failure leaves its traceback in `error.log` and gives
    None, which Optuna counts as a failed trial; so Hydra goes on with the other jobs.
    """
    from engine.runfolder import hide, write_json

    folder = Path(cfg.output_dir)
    overrides = job_overrides()
    record: dict[str, Any] = {"overrides": overrides, "status": "running", "score": None, "metric": None, "reason": ""}
    if "callbacks" in cfg and HydraConfig.get().job.config_name == "train":
        record["metric"] = OmegaConf.select(cfg, "callbacks.best.monitor")

    def write(**changes: Any) -> None:
        record.update(changes)
        if _rank() == 0:
            write_json(folder / "job.json", record)

    with _alone(folder, cfg), _preemption() as requeue:
        before = _read(folder)
        if before is not None and before["status"] == "finished":
            _say(f"job {folder.name} was finished before: {' '.join(overrides)}")
            return before["score"]
        last = folder / "checkpoints" / "last.ckpt"
        if last.is_file() and HydraConfig.get().job.config_name == "train":
            cfg.ckpt_path = str(last)
            _say(f"job {folder.name} goes on from its last.ckpt: {' '.join(overrides)}")
        else:
            _say(f"job {folder.name}: {' '.join(overrides)}")
        start = time.time()
        write(started=time.strftime("%Y-%m-%d %H:%M:%S"))
        try:
            if _starts_processes(cfg):
                return _in_own_process(folder)["score"]
            score = main(cfg)
        except NothingToTrain as error:
            write(status="skipped", reason=_one_line(error))
            return None
        except Exception as error:
            if _rank() != 0:
                raise  # the first process records; it learns of this one's end from its status
            reason = hide(_one_line(_cause(error)))
            with open(folder / "error.log", "a", encoding="utf-8") as log:
                log.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')}\n{hide(traceback.format_exc())}\n")
            write(status="failed", reason=reason, seconds=round(time.time() - start, 1))
            print(f"job {folder.name} failed: {reason}", file=sys.stderr, flush=True)
            return None
        except BaseException as error:
            write(status="stopped", reason=_one_line(error), seconds=round(time.time() - start, 1))
            requeue()
            raise
        score = float(score) if isinstance(score, int | float) and math.isfinite(score) else None
        write(status="finished", score=score, seconds=round(time.time() - start, 1))
        return score


@contextmanager
def _alone(folder: Path, cfg: DictConfig) -> Iterator[None]:
    """Hold the job's folder; whoever else wants to run the same job waits, and finds it finished. The lock dies with
    its holder. The processes of one training share it.
    """
    if _rank() != 0 or _starts_processes(cfg):  # the process that trains holds it
        yield
        return
    lock = FileLock(folder / ".job.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        _say(f"job {folder.name} is run by another process already; waiting for it")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _starts_processes(cfg: DictConfig) -> bool:
    """Whether Lightning would start further processes, with the command line of this one, which is that of all jobs."""
    if HydraConfig.get().job.config_name != "train" or OWN_PROCESS in os.environ or "SLURM_NTASKS" in os.environ:
        return False
    return cfg.trainer.devices != 1 or cfg.trainer.num_nodes != 1


def _in_own_process(folder: Path) -> Any:
    """A training of several processes as a run of its own, whose end, whatever it is, does not end the sweep."""
    script = Path(__file__).resolve().parents[1] / f"{HydraConfig.get().job.config_name}.py"
    command = [sys.executable, str(script), *HydraConfig.get().overrides.task, f"hydra.run.dir='{folder}'"]

    def stop(signum: int, frame: FrameType | None) -> None:
        sys.exit(128 + signum)

    before = signal.signal(signal.SIGTERM, stop)
    process = subprocess.Popen(command, env={**os.environ, OWN_PROCESS: "1"})
    try:
        process.wait()
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait()
        signal.signal(signal.SIGTERM, before)
    record = _read(folder) or {"status": "running"}
    if record["status"] == "running":
        raise InputError(f"{_short(folder)}: its process ended with status {process.returncode}; see its output above")
    return record


@contextmanager
def _preemption() -> Iterator[Callable[[], None]]:
    """Under submitit: the signal that announces the end of the time or a preemption saves first, then requeues.

    submitit alone requeues (Lightning's own requeueing is off, see `engine.training`), but its handler ends the process
    at once. This one asks the training to stop as SIGTERM does, which finishes the step and saves; the function that
    is yielded, called after that, lets submitit requeue.
    """
    arrived: list[int] = []
    if "SUBMITIT_EXECUTOR" not in os.environ:
        yield lambda: None
        return
    number = getattr(signal, "SIG" + os.environ.get("SUBMITIT_PREEMPT_SIGNAL", "USR2"))
    idle, submitits = signal.getsignal(signal.SIGTERM), signal.getsignal(number)

    def on_signal(signum: int, frame: FrameType | None) -> None:
        assert callable(submitits)
        arrived.append(signum)
        if signal.getsignal(signal.SIGTERM) == idle:  # nothing is being trained, so there is nothing to save
            submitits(signum, frame)
        elif len(arrived) == 1:
            os.kill(os.getpid(), signal.SIGTERM)

    def requeue() -> None:
        if arrived and callable(submitits):
            submitits(arrived[0], None)
            sys.exit(1)  # processes other than the first, which requeues

    if callable(submitits):
        signal.signal(number, on_signal)
    try:
        yield requeue
    finally:
        if callable(submitits):
            signal.signal(number, submitits)


def _rank() -> int:
    return int(os.environ.get("RANK") or os.environ.get("SLURM_PROCID") or os.environ.get("LOCAL_RANK") or 0)


def _cause(error: BaseException) -> BaseException:
    """Hydra wraps what a constructor raises; the cause is what the user can act on."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, InputError):
        cause = cause.__cause__
    return cause or error


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return text if isinstance(error, InputError) else f"{type(error).__name__}: {text}"[:300]


# ---- the whole sweep -----------------------------------------------------------------------------------------------


def records(sweep: Path) -> list[dict[str, Any]]:
    """The records of all jobs in a sweep's folder, in the order of their numbers, each with its `folder`."""
    found = [record for path in sweep.glob("*/job.json") if (record := _read(path.parent)) is not None]
    return sorted(found, key=lambda record: [int(p) if p.isdigit() else -1 for p in record["folder"].name.split("-")])


def _read(folder: Path) -> dict[str, Any] | None:
    path = folder / "job.json"
    if not path.is_file():
        return None
    try:
        record = {**json.loads(path.read_text(encoding="utf-8")), "folder": folder}
        if not {"status", "score", "metric", "reason"} <= record.keys():
            raise ValueError("it lacks a key")
        if not isinstance(record["overrides"], list) or not all(isinstance(text, str) for text in record["overrides"]):
            raise ValueError("its overrides are no list of texts")
        return record
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise InputError(f"{path}: not the record of a job ({error}); remove it to run the job again") from error


class Sweep(Callback):
    """What happens before the first and after the last job of `-m`.

    Hydra calls `on_multirun_end` only if nothing was raised; a sweep that is stopped reports as the process exits.
    """

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        folder = Path(str(config.hydra.sweep.dir)).absolute()
        try:
            check_overrides(config)
            folder.mkdir(parents=True, exist_ok=True)
            records(folder)
        except OSError as error:
            fail(InputError(f"hydra.sweep.dir={folder}: cannot be made ({error.strerror}); give another folder"))
        except InputError as error:
            fail(error)
        with flag_override(config, ["readonly", "struct"], [False, False]):
            # Jobs compose anew from these, perhaps in another process, later and elsewhere.
            config.hydra.overrides.hydra.append(f"hydra.sweep.dir='{folder}'")
            config.hydra.sweep.dir = str(folder)
            given = [_expand(text, config) for text in config.hydra.overrides.task]
            hidden = [text for text in given if _is_secret(text)]  # Optuna would write them into its study
            config.hydra.overrides.hydra += hidden
            config.hydra.overrides.task = [text for text in given if text not in hidden]
            if is_study(config):
                resume_study(config)
        atexit.register(_report_at_exit, folder, config)

    def on_multirun_end(self, config: DictConfig, **kwargs: Any) -> None:
        atexit.unregister(_report_at_exit)
        if report(Path(str(config.hydra.sweep.dir)), config):
            sys.exit(1)


def check_overrides(config: DictConfig) -> None:
    """InputError, before the first job, where an override makes no sense in a sweep."""
    for override in map(OverridesParser.create().parse_override, config.hydra.overrides.task):
        key, value = override.key_or_group, override.value()
        if key == "output_dir":  # the second job would take the first's result for its own
            raise InputError("output_dir: each job of a sweep has its own; name the sweep's with hydra.sweep.dir=")
        if isinstance(value, IntervalSweep):
            if not is_study(config):
                raise InputError(f"{key}: an interval has no end without a search; add sweep=optuna, or give values")
            assert value.start is not None and value.end is not None
            if value.start > value.end:
                raise InputError(
                    f"{key}: the interval starts at {value.start}, above its end {value.end}; exchange them"
                )
        if key in ("sweep.trials", "sweep.parallel") and (type(value) is not int or value < 1):
            raise InputError(f"{key}={value}: must be a whole number of at least 1")
        if key == "callbacks.best.mode" and is_study(config) and value not in ("max", "min"):
            raise InputError(f"{key}={value}: choose max or min; a study has one direction")


def _report_at_exit(folder: Path, config: DictConfig) -> None:
    try:
        report(folder, config)
    except (InputError, OSError) as error:
        print(f"error: {_one_line(error)}", file=sys.stderr)
    arguments = [text for text in sys.argv[1:] if not text.startswith("hydra.sweep.dir=")]
    command = shlex.join(["python", sys.argv[0], *arguments, f"hydra.sweep.dir={_short(folder)}"])
    print(f"go on with: {_redacted(command)}", file=sys.stderr)


def _state(job: dict[str, Any]) -> str:
    """The status of a job; where its process is gone without a word, `killed`."""
    if job["status"] != "running":
        return job["status"]
    try:
        with FileLock(job["folder"] / ".job.lock", timeout=0):
            return "killed"
    except Timeout:
        return "running"


def report(folder: Path, config: DictConfig) -> int:
    """Print the table of all jobs, write `sweep.md` and `sweep.json`; returns how many did not finish."""
    from rich.markup import escape
    from rich.table import Table

    from engine.console import make_console, say
    from engine.runfolder import write_json

    jobs = [{**job, "status": _state(job)} for job in records(folder)]
    console = make_console()
    if not jobs:
        say(console, "the sweep has no jobs; are its lists of values empty?")
        return 1
    common = [text for text in jobs[0]["overrides"] if len(jobs) > 1 and all(text in job["overrides"] for job in jobs)]
    metric = next((str(job["metric"]) for job in jobs if job["metric"]), "score")
    rows = [
        (
            job["folder"].name,
            " ".join(text for text in job["overrides"] if text not in common) or "(no overrides)",
            job["status"],
            "" if job["score"] is None else f"{job['score']:.4f}",
            job["reason"],
        )
        for job in jobs
    ]
    counts = {
        status: sum(job["status"] == status for job in jobs) for status in dict.fromkeys(j["status"] for j in jobs)
    }
    summary = f"{len(jobs)} jobs: " + ", ".join(f"{n} {status}" for status, n in counts.items())
    table = Table(title=f"{_short(folder)}: {summary}", title_justify="left", title_style="bold", header_style="bold")
    names = ("job", "overrides", "status", metric, "reason")
    for name in names:
        table.add_column(name, justify="right" if name == metric else "left", overflow="fold")
    styles = {"failed": "red", "killed": "red", "stopped": "yellow", "running": "yellow", "skipped": "dim"}
    for row in rows:
        table.add_row(*map(escape, row), style=styles.get(row[2], ""))
    console.print()
    if common:
        say(console, f"common to all: {' '.join(common)}")
    console.print(table)

    def cell(text: str) -> str:
        return text.replace("|", "\\|")

    lines = [f"# {folder.name}: {summary}", "", *([f"Common to all: `{' '.join(common)}`", ""] if common else [])]
    lines += ["| " + " | ".join([*names, "folder"]) + " |", "|" + "---|" * (len(names) + 1)]
    lines += [
        "| " + " | ".join(map(cell, [*row, str(_short(job["folder"]))])) + " |"
        for row, job in zip(rows, jobs, strict=True)
    ]
    best = write_best(folder, config, jobs) if is_study(config) else None
    if best:
        lines += ["", f"The best configuration: `{best}`"]
    with atomic_file(folder / "sweep.md") as partial:
        partial.write_text("\n".join(lines) + "\n", encoding="utf-8")
    entries = [{**job, "folder": str(_short(job["folder"]))} for job in jobs]
    write_json(folder / "sweep.json", {"jobs": entries, "counts": counts, "best": best})
    say(console, f"wrote sweep.md and sweep.json into {_short(folder)}")
    if best:
        say(console, f"the best configuration: {best}")
    return sum(job["status"] not in ("finished", "skipped") for job in jobs)


def _expand(text: str, config: DictConfig) -> str:
    """`experiment=glob(recipeqa/*)` as a list: Hydra's own glob does not look into the folders of a group."""
    if "glob(" not in text:
        return text
    override = OverridesParser.create().parse_override(text)
    pattern = override.value()
    if not isinstance(pattern, Glob):
        return text
    names = {
        str(path.relative_to(folder).with_suffix(""))
        for folder in _group_folders(override.key_or_group, config)
        for path in folder.rglob("*.yaml")
    }
    chosen = pattern.filter(sorted(names))
    if not chosen:
        print(f"error: {text}: matches none of the group's files", file=sys.stderr)
        sys.exit(1)
    return f"{override.get_key_element()}={','.join(chosen)}"


def _group_folders(group: str, config: DictConfig) -> list[Path]:
    sources = [source for source in config.hydra.runtime.config_sources if source.schema == "file"]
    folders = [Path(source.path) / group for source in sources]
    return [folder for folder in folders if folder.is_dir()]


def _keys_of(script: str, config: DictConfig) -> set[str]:
    files = [Path(source.path) / f"{script}.yaml" for source in config.hydra.runtime.config_sources]
    return {str(key) for path in files if path.is_file() for key in OmegaConf.load(path)}


def _short(path: Path) -> Path:
    try:
        return path.absolute().relative_to(Path.cwd())
    except ValueError:
        return path


def _is_secret(text: str) -> bool:
    from engine.runfolder import redact_argument

    return redact_argument(text) != text


def _redacted(command: str) -> str:
    from engine.runfolder import redact_argument

    return shlex.join(map(redact_argument, shlex.split(command)))


def _say(line: str) -> None:
    if _rank() == 0 and OWN_PROCESS not in os.environ:  # said by the process that started this one
        print(f"» {line}", flush=True)


# ---- Optuna --------------------------------------------------------------------------------------------------------


def is_study(config: DictConfig) -> bool:
    """Whether the sweep is searched by Optuna (`sweep=optuna`)."""
    return str(config.hydra.sweeper._target_).endswith("OptunaSweeper")


def resume_study(config: DictConfig) -> None:
    """Take up a study that lies in the sweep's folder: what did not finish is asked again, `n_trials` counts all.

    The sampler's seed moves on with the number of trials, or a resumed study would draw its first trials again.
    """
    sweeper = config.hydra.sweeper
    if not (Path(str(config.hydra.sweep.dir)) / "study.db").is_file():
        return
    import optuna
    from optuna.distributions import CategoricalDistribution
    from optuna.trial import TrialState

    optuna.logging.set_verbosity(logging.WARNING)
    place = Path(str(config.hydra.sweep.dir)) / "study.db"
    try:
        study = optuna.load_study(study_name=sweeper.study_name, storage=sweeper.storage)
        trials = study.get_trials()
    except Exception as error:  # of SQLite, SQLAlchemy or Optuna
        fail(
            InputError(f"{place}: holds no study ({type(error).__name__}); remove it, or give another hydra.sweep.dir=")
        )
    if study.direction.name.lower() != str(sweeper.direction):
        fail(InputError(f"{place}: its study does not {sweeper.direction}; give another hydra.sweep.dir="))
    for override in map(OverridesParser.create().parse_override, config.hydra.overrides.task):
        value = override.value()
        given = [str(item) for item in value.list] if isinstance(value, ChoiceSweep) else None
        for trial in trials:
            asked = trial.distributions.get(override.key_or_group)
            kept = [str(item) for item in asked.choices] if isinstance(asked, CategoricalDistribution) else None
            if asked is not None and given != kept:
                fail(
                    InputError(
                        f"{override.key_or_group}: the study in {place} chooses among other values; keep them, or give "
                        "another hydra.sweep.dir="
                    )
                )
    for trial in trials:
        if trial.state == TrialState.RUNNING:  # its process is gone
            study.tell(trial.number, state=TrialState.FAIL)
    complete = [trial.params for trial in trials if trial.state == TrialState.COMPLETE]
    waiting = [t.system_attrs.get("fixed_params") for t in trials if t.state == TrialState.WAITING]
    again: list[dict[str, Any]] = []
    for trial in trials:
        settled = trial.state in (TrialState.COMPLETE, TrialState.WAITING) or trial.params in complete
        if not settled and trial.params and trial.params not in [*waiting, *again]:
            again.append(trial.params)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # Optuna calls it experimental
                study.enqueue_trial(trial.params)
    sweeper.n_trials = max(int(sweeper.n_trials) - len(complete), 0)
    if sweeper.sampler.get("seed") is not None:
        sweeper.sampler.seed = int(sweeper.sampler.seed) + len(trials)


def write_best(folder: Path, config: DictConfig, jobs: list[dict[str, Any]]) -> str | None:
    """Write the best job as `experiment/best.yaml` of the sweep's folder; returns the command that runs it.

    What an experiment file cannot say stands in the command: `~key`, and keys that the script's own file sets after it.
    """
    from engine.runfolder import HIDDEN

    finished = [job for job in jobs if job["status"] == "finished" and job["score"] is not None]
    if not finished:
        return None
    sign = -1 if str(config.hydra.sweeper.direction) == "maximize" else 1
    best = min(finished, key=lambda job: sign * job["score"])
    script = str(config.hydra.job.config_name)
    parser = OverridesParser.create()
    defaults: list[Any] = []
    values = OmegaConf.create({})
    rest: list[str] = []
    for text in best["overrides"]:
        if HIDDEN in text:
            rest.append(text)
            continue
        override = parser.parse_override(text)
        key = override.key_or_group
        if override.is_delete() or key in _keys_of(script, config):
            rest.append(text)
        elif key == "experiment":
            defaults.insert(0, str(override.value()))
        elif _group_folders(key, config):
            place = key if override.package is None else f"{key}@{override.package}"
            defaults.append({f"{'' if override.is_add() else 'override '}/{place}": _value(override)})
        else:
            OmegaConf.update(values, key, _value(override), force_add=True)
    content = OmegaConf.to_container(values)
    assert isinstance(content, dict)
    text = OmegaConf.to_yaml(OmegaConf.create({"defaults": [*defaults, "_self_"], **content}))
    name = f"{best['metric'] or 'score'} {best['score']:.6g}"
    with atomic_file(folder / "experiment" / "best.yaml") as partial:
        partial.write_text(
            f"# @package _global_\n# Job {best['folder'].name} of the sweep {folder.name}: {name}.\n{text}", "utf-8"
        )
    return shlex.join(["python", f"{script}.py", "--config-dir", str(_short(folder)), "experiment=best", *rest])


def _value(override: Override) -> Any:
    value = override.value()
    return OmegaConf.to_container(value) if isinstance(value, DictConfig | ListConfig) else value
