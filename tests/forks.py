"""Commands in forks of this process: they die by signals and end with a status, and nothing is imported again."""

import contextlib
import ctypes
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from tests.runs import SMALL, composed


@dataclass
class Fork:
    """A child of this process whose output goes to a file."""

    pid: int
    output: Path
    status: int | None = None

    def poll(self) -> int | None:
        """Exit status, -N where signal N ended it, None while it lives."""
        if self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.status = os.waitstatus_to_exitcode(status) if pid else None
        return self.status

    def wait(self, seconds: float = 120.0) -> int:
        """Exit status; a child that takes longer is killed and an error."""
        end = time.monotonic() + seconds
        while self.poll() is None:
            if time.monotonic() > end:
                self.kill(signal.SIGKILL)
                raise TimeoutError(self.text())
            time.sleep(0.005)
        assert self.status is not None
        return self.status

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Send a signal if it still lives."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def text(self) -> str:
        """What it has written so far, stdout and stderr."""
        return self.output.read_text(encoding="utf-8", errors="replace") if self.output.exists() else ""


def fork(function: Callable[[], object], output: Path) -> Fork:
    """Run a function in a child. It exits as a script does: 0, 1 after an exception, or as `sys.exit` says."""
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        return Fork(pid, output)
    status = 1
    try:
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: when its parent is killed it ends too
        handle = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.dup2(handle, 1)
        os.dup2(handle, 2)
        # A test runner has replaced these, and what a child writes to its buffers would be lost.
        sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", closefd=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
        function()
        status = 0
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:
        with contextlib.suppress(OSError):  # its output may be full, which is what some tests are about
            traceback.print_exc()
    finally:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(status)  # never back into the caller: there would be two of it


def command(script: str, folder: Path, overrides: Sequence[str], output: Path | None = None) -> Fork:
    """`python <script>.py ...` in a fork, in the run folder `folder`, with the exit status of the entry point."""
    from engine.launch import guarded

    module = {"train": "engine.training", "evaluate": "engine.evaluation"}[script]

    def main() -> None:
        cfg = composed(script, [*overrides, f"output_dir={folder}"])
        given = [override for override in overrides if override not in SMALL or "ckpt_path" not in " ".join(overrides)]
        with mock.patch(f"{module}.command_overrides", return_value=given):
            guarded(module, script, cfg)

    return fork(main, output or Path(f"{folder}.log"))


def warm() -> None:
    """Import what commands need, once for all forks."""
    import gensim.models.doc2vec  # noqa: F401
    import matplotlib.pyplot  # noqa: F401
    import torch
    from torch._dynamo import OptimizedModule  # noqa: F401  (Lightning asks for it at the first fit)

    import engine.evaluation
    import engine.retrieval
    import engine.training  # noqa: F401

    torch.set_num_threads(1)
