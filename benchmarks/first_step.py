"""A callback that notes when training takes its first step and what memory the process holds then."""

import json
import time
from pathlib import Path
from typing import Any

import pytorch_lightning as pl


def memory(pid: int | str = "self") -> dict[str, int]:
    """KiB of a process by /proc: VmHWM (highest resident so far, file pages included), RssAnon, RssFile, RssShmem."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    fields = dict(line.split(":", 1) for line in lines)
    return {name: int(fields[name].split()[0]) for name in ("VmHWM", "VmRSS", "RssAnon", "RssFile", "RssShmem")}


class FirstStep(pl.Callback):
    """Write {time, memory} when the first training step is done, to `path`."""

    def __init__(self, path: str) -> None:
        self.path = Path(path)

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if not self.path.exists():
            self.path.write_text(json.dumps({"time": time.time(), **memory()}))
