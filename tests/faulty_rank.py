"""`train.py` with a process that raises or is killed: `FAULT=raise:1 python -m tests.faulty_rank ...`."""

import os
import signal
from typing import Any

import hydra

import train
from tests.runs import ROOT


def break_rank() -> None:
    """Patch the training step of the process that `FAULT` names."""
    from models.choice import ChoiceTask

    kind, _, rank = os.environ["FAULT"].partition(":")
    original = ChoiceTask.training_step

    def training_step(self: Any, batch: Any, batch_idx: int) -> Any:
        if batch_idx == 2 and os.environ.get("LOCAL_RANK", "0") == rank:
            if kind == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            raise RuntimeError(f"rank {rank} raises")
        return original(self, batch, batch_idx)

    ChoiceTask.training_step = training_step


if __name__ == "__main__":
    break_rank()
    main = hydra.main(version_base="1.3", config_path=str(ROOT / "conf"), config_name="train")
    main(train.main.__wrapped__)()  # type: ignore[attr-defined]
