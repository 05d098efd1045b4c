"""A command with the real configs and callbacks whose jobs take no time: `python -m tests.sweep_app -m seed=1,2`."""

import os
import signal
import sys
import time
from pathlib import Path

import hydra
from omegaconf import DictConfig

from data.errors import InputError
from engine.launch import guarded
from engine.sweep import NothingToTrain
from tests.runs import ROOT


def job(cfg: DictConfig) -> float | None:
    """Score, or do what `SEED_<seed>` in the environment says; each call leaves a line in the job's folder."""
    with open(Path(cfg.output_dir) / "calls", "a") as calls:
        calls.write(f"{cfg.ckpt_path}\n")
    plan = os.environ.get(f"SEED_{cfg.seed}", "")
    if plan == "wrong":
        raise InputError("nowhere.json: no such file; give another")
    if plan == "crash":
        raise ZeroDivisionError("a fault of ours, with https://user:S3CRET@host")
    if plan == "skip":
        raise NothingToTrain("needs no training")
    if plan == "interrupt":
        raise KeyboardInterrupt
    if plan == "train" and not cfg.ckpt_path:  # until SIGTERM, then save and stop, as engine.callbacks.SaveLast does
        asked: list[int] = []
        signal.signal(signal.SIGTERM, lambda number, frame: asked.append(number))
        rank = os.environ.get("SLURM_PROCID", "0")
        (Path(cfg.output_dir) / f"training{rank}").touch()
        while not asked:
            time.sleep(0.02)
        (Path(cfg.output_dir) / "checkpoints").mkdir(exist_ok=True)
        (Path(cfg.output_dir) / "checkpoints" / "last.ckpt").touch()
        sys.exit(128 + asked[0])
    if plan == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    return -abs(cfg.model.optimizer.lr - 0.003) if "optimizer" in cfg.model else float(cfg.seed)


@hydra.main(version_base="1.3", config_path=str(ROOT / "conf"), config_name="train")
def main(cfg: DictConfig) -> float | None:
    return guarded("tests.sweep_app", "job", cfg)


if __name__ == "__main__":
    sys.modules["tests.sweep_app"] = sys.modules["__main__"]
    main()
