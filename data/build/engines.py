"""Where the heavy part of a build runs: shards of work as pure functions, on this machine or on a Ray cluster.

An engine is handed a function, what all shards share and the shards, and gives back what each makes. It decides where
and in what order, never what comes out. `finished` keeps each shard's result as a file, so that a build that was killed
goes on where it was.
"""

import contextlib
import importlib.util
import logging
import multiprocessing
import multiprocessing.connection
import os
import threading
import zipfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from rich.console import Console
from threadpoolctl import threadpool_limits
from tqdm import tqdm

from data.build.fields import check_fields
from data.errors import InputError
from data.files import atomic_file, sweep_partial_files

log = logging.getLogger(__name__)

Arrays = dict[str, np.ndarray]
# function(shared, shard); importable by name, and its result a function of its arguments alone.
Function = Callable[[Any, Any], Arrays]


class Engine(Protocol):
    """What `finished` asks of an engine."""

    def run(self, function: Function, shared: Any, shards: Sequence[Any]) -> Iterator[tuple[int, Arrays]]:
        """(place of the shard, its result), as they come; a bounded number of shards is under way at a time."""
        ...


@dataclass(frozen=True)
class LocalEngine:
    """Processes on this machine; `workers=0` takes as many as there are cores, 1 works in this process."""

    workers: int = 0

    def __post_init__(self) -> None:
        check_fields(self, "engine")
        if self.workers < 0:
            raise InputError(f"engine.workers={self.workers}: must be 0 (one for each core) or more")

    def run(self, function: Function, shared: Any, shards: Sequence[Any]) -> Iterator[tuple[int, Arrays]]:
        """See `Engine`. InputError where a worker dies."""
        workers = min(self.workers or _cores(), len(shards))
        if workers <= 1:
            for place, shard in enumerate(shards):
                with threadpool_limits(1):
                    result = function(shared, shard)
                yield place, result
            return
        context = multiprocessing.get_context("spawn")  # a fork of a process with threads may hang
        pool = ProcessPoolExecutor(workers, context, _start_worker, (function, shared))
        try:
            running: dict[Future[Arrays], int] = {}
            for place, shard in enumerate(shards):
                running[pool.submit(_work, shard)] = place
                if len(running) > 2 * workers:
                    yield from _done(running)
            while running:
                yield from _done(running)
        except BrokenProcessPool:
            raise InputError(
                f"engine=local: one of {workers} worker processes was killed, most likely for want of memory; start "
                "again with a smaller engine.workers, what is done is kept"
            ) from None
        finally:
            pool.shutdown(cancel_futures=True)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _done(running: dict[Future[Arrays], int]) -> Iterator[tuple[int, Arrays]]:
    done, _ = wait(running, return_when=FIRST_COMPLETED)
    for future in done:
        place = running.pop(future)
        yield place, future.result()


_job: tuple[Function, Any] | None = None  # of a worker process


def _start_worker(function: Function, shared: Any) -> None:
    global _job
    _job = function, shared
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A worker whose parent was killed would wait for work forever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        multiprocessing.connection.wait([parent.sentinel])
        os._exit(1)


def _work(shard: Any) -> Arrays:
    assert _job is not None
    function, shared = _job
    with threadpool_limits(1):  # processes are the threads, and a sum must not depend on their number
        return function(shared, shard)


@dataclass(frozen=True)
class RayEngine:
    """Tasks on a Ray cluster, or on a Ray that is started here and ended with the build.

    Args:
        address: of a cluster (`auto`, `ray://host:port`); None takes the one of RAY_ADDRESS, or starts one here. The
            cache folder must be one that all its nodes see: features are mapped from files and not sent.
        cpus: of the Ray that is started here; None takes all cores.
        in_flight: so many tasks are submitted at a time; None: twice the number of the cluster's CPUs.
    """

    address: str | None = None
    cpus: int | None = None
    in_flight: int | None = None

    def __post_init__(self) -> None:
        check_fields(self, "engine")
        for name in ("cpus", "in_flight"):
            if (value := getattr(self, name)) is not None and value < 1:
                raise InputError(f"engine.{name}={value}: must be at least 1, or null")

    def run(self, function: Function, shared: Any, shards: Sequence[Any]) -> Iterator[tuple[int, Arrays]]:
        """See `Engine`. InputError where Ray is not installed, not reached, or loses a task for good."""
        if importlib.util.find_spec("ray") is None:
            raise InputError('engine=ray: Ray is not installed; run pip install "ray>=2.50", or use engine=local')
        import ray  # pyright: ignore[reportMissingImports] (an extra of its own)
        from ray.exceptions import RayError, RayTaskError  # pyright: ignore[reportMissingImports]

        with self._cluster(ray):
            task = ray.remote(num_cpus=1, max_retries=3)(_one_thread)
            try:
                everything = ray.put(shared)
                running: dict[Any, int] = {}
                limit = self.in_flight or 2 * max(1, int(ray.cluster_resources().get("CPU", 1)))
                for place, shard in enumerate(shards):
                    running[task.remote(function, everything, shard)] = place
                    if len(running) >= limit:
                        yield _first(ray, running)
                while running:
                    yield _first(ray, running)
            except RayTaskError as error:  # what the function itself raised
                if isinstance(error.cause, InputError):
                    raise InputError(str(error.cause)) from None
                raise
            except RayError as error:
                reason = " ".join(str(error).split())[:200]
                raise InputError(f"engine=ray: a task was lost ({reason}); start again, what is done is kept") from None

    @contextlib.contextmanager
    def _cluster(self, ray: Any) -> Iterator[None]:
        if ray.is_initialized():
            yield
            return
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # leaves CUDA_VISIBLE_DEVICES as it is
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        package = Path(__file__).resolve().parents[1]  # the nodes run this very code
        settings: dict[str, Any] = {"runtime_env": {"py_modules": [str(package)]}, "log_to_driver": False}
        if self.address or os.environ.get("RAY_ADDRESS"):
            settings["address"] = self.address or os.environ["RAY_ADDRESS"]
        else:
            settings |= {"num_cpus": self.cpus, "include_dashboard": False}
        try:
            ray.init(logging_level=logging.ERROR, **settings)
        except (ConnectionError, ValueError, RuntimeError, OSError) as error:
            reason = " ".join(str(error).split())[:200]
            raise InputError(f"engine=ray: cannot be started or reached ({reason}); check engine.address") from None
        try:
            yield
        finally:
            ray.shutdown()


def _first(ray: Any, running: dict[Any, int]) -> tuple[int, Arrays]:
    (done,), _ = ray.wait(list(running), num_returns=1)
    return running.pop(done), ray.get(done)


def _one_thread(function: Function, shared: Any, shard: Any) -> Arrays:
    with threadpool_limits(1):
        return function(shared, shard)


def finished(
    engine: Engine,
    function: Function,
    shared: Callable[[], Any],
    shards: Sequence[Any],
    folder: Path,
    description: str,
    console: Console,
) -> list[Arrays]:
    """What `function` makes of each shard, in order; a shard whose file lies in `folder` is not worked on again.

    The folder's name must be a digest of all that the results depend on, how the work is cut into shards included.
    `shared` is called only where something is left to do. A file is there whole or not at all; a damaged one is made
    again.
    """
    folder.mkdir(parents=True, exist_ok=True)
    sweep_partial_files(folder)
    paths = [folder / f"{place:06d}.npz" for place in range(len(shards))]
    known = [place for place, path in enumerate(paths) if _read(path) is not None]
    left = sorted(set(range(len(shards))) - set(known))
    if known and left:
        console.print(f"» {description}: {len(known):,} of {len(shards):,} shards were done before")
    if left:
        with tqdm(total=len(shards), initial=len(known), desc=description, unit="shard") as bar:
            for place, result in engine.run(function, shared(), [shards[place] for place in left]):
                with atomic_file(paths[left[place]]) as partial, open(partial, "wb") as file:
                    np.savez(file, **result)  # type: ignore[arg-type]
                bar.update()
    results = [_read(path) for path in paths]
    if any(result is None for result in results):
        raise InputError(f"{folder}: a finished shard is gone or damaged; start again")
    return [result for result in results if result is not None]


def _read(path: Path) -> Arrays | None:
    if not path.is_file():
        return None
    try:
        with np.load(path, allow_pickle=False) as arrays:  # a zip file: every member has a checksum
            return {name: arrays[name] for name in arrays.files}
    except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile) as error:
        log.warning("%s: is damaged (%s); computing it again", path, error)
        path.unlink(missing_ok=True)
        return None
