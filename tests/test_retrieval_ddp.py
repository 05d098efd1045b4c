"""Two processes (gloo) train, and validate to the numbers of one."""

import json
import os
import subprocess
import sys

import pytest

from tests.made_up_recipes import write_recipe1m
from tests.runs import ROOT, run
from tests.test_retrieval_training import TINY


@pytest.mark.slow
@pytest.mark.parametrize("schedule", ["retrieval", "alternating"])
def test_two_processes_validate_as_one(tmp_path, schedule):
    write_recipe1m(tmp_path, {"train": 45, "val": 13, "test": 11})  # uneven shares
    files = [f"data.root={tmp_path}", f"cache={tmp_path / 'cache'}"]
    run("prepare", tmp_path / "prepare", [*TINY, *files])
    strategy = "ddp" if schedule == "retrieval" else "ddp_find_unused_parameters_true"
    command = [sys.executable, "train.py", *TINY, *files, f"callbacks={schedule}", "sanity=false", "data.batch_size=5"]
    command += ["trainer.devices=2", f"trainer.strategy={strategy}", f"hydra.run.dir={tmp_path / 'run'}"]
    command += ["trainer.max_epochs=3"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr[-2000:]
    history = [json.loads(line) for line in (tmp_path / "run" / "history.jsonl").read_text().splitlines()]
    assert len(history) == 3 and (tmp_path / "run" / "metrics.json").is_file()
    best = min(history, key=lambda row: row["val/selection"])
    checkpoint = f"ckpt_path={tmp_path / 'run' / 'checkpoints' / 'best.ckpt'}"
    run("evaluate", tmp_path / "val", [checkpoint, "split=val", "sanity=false", *files])
    alone = json.loads((tmp_path / "val" / "metrics.json").read_text())
    for key in ("image_to_recipe/medR", "recipe_to_image/medR", "image_to_recipe/R5"):
        assert best[f"val/{key}"] == pytest.approx(alone[key], abs=1e-6)
