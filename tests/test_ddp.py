"""Two processes (gloo) answer questions: every question is scored once, and the job ends when one of them does."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.made_up import made_up_questions, write_file
from tests.runs import ROOT, SMALL, run

TWO = ["trainer=ddp", "trainer.devices=2", "trainer.max_epochs=2"]


def files(folder):
    overrides = ["data=recipeqa/textual_cloze", f"cache={folder / 'cache'}"]
    for seed, (split, n) in enumerate({"train": 37, "val": 23, "test": 21}.items()):  # uneven shares
        path = folder / f"{split}.json"
        write_file(path, made_up_questions("textual_cloze", n, seed=seed, split=split))
        overrides.append(f"data.{split}_file={path}")
    return overrides


def left_of(folder):
    """Processes whose command line names the folder."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if str(folder).encode() in entry.read_bytes():
                found.append(entry.parent.name)
        except OSError:
            continue
    return found


@pytest.mark.slow
def test_21_questions_on_two_processes_are_21(tmp_path):
    given = [*files(tmp_path), *SMALL]
    folder = tmp_path / "run"
    command = [sys.executable, "train.py", *given, *TWO, f"hydra.run.dir={folder}"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.count("run folder") == 1, "one process speaks"
    rows = [json.loads(line) for line in (folder / "predictions.jsonl").read_text().splitlines()]
    assert len(rows) == 21 == len({row["qid"] for row in rows})
    metrics = json.loads((folder / "metrics.json").read_text())
    assert metrics["tasks"]["textual_cloze"]["n"] == 21
    history = [json.loads(line) for line in (folder / "history.jsonl").read_text().splitlines()]
    assert len(history) == 2
    best = max(history, key=lambda row: row["val/accuracy"])
    alone = run(
        "evaluate",
        tmp_path / "alone",
        [f"ckpt_path={folder / 'checkpoints' / 'best.ckpt'}", "split=val", "sanity=false", "logger=[]"],
    )
    assert best["val/accuracy"] == pytest.approx(alone, abs=1e-6), "validated to the numbers of one process"


@pytest.mark.slow
def test_a_signal_to_one_process_stops_all_at_the_same_step(tmp_path):
    command = [sys.executable, "train.py", *files(tmp_path), *SMALL, *TWO, f"hydra.run.dir={tmp_path / 'run'}"]
    command += ["trainer.max_epochs=5000", "callbacks.early_stopping.patience=9999"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    last = tmp_path / "run" / "checkpoints" / "last.ckpt"
    while not last.is_file():
        assert process.poll() is None
        time.sleep(0.1)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM and b"go on with" in err and b"Traceback" not in err
    assert not left_of(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("fault", os.environ.get("FAULTS", "raise:1 kill:0").split())
def test_a_process_that_ends_badly_ends_the_job(fault, tmp_path):
    command = [sys.executable, "-m", "tests.faulty_rank", *files(tmp_path), *SMALL, *TWO, "data.batch_size=4"]
    command.append(f"hydra.run.dir={tmp_path / 'run'}")
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "FAULT": fault}
    done = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    end = time.monotonic()
    assert done.returncode != 0
    if fault.startswith("raise"):
        assert "raises" in done.stderr.decode()
    while left_of(tmp_path):
        assert time.monotonic() < end + 60, left_of(tmp_path)
        time.sleep(0.2)
