"""What only a process shows: exit codes, one-line errors, signals, sweeps. Few, because imports take seconds."""

import signal
import subprocess
import sys
import time

import pytest

from tests.runs import ROOT, SMALL, small_files


def _start(script, *overrides, cwd=ROOT):
    command = [sys.executable, str(ROOT / f"{script}.py"), *overrides]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=cwd)


def test_help_answers_without_the_heavy_imports():
    code = """
import runpy, sys
sys.argv = ["train.py", "--help"]
try:
    runpy.run_path("train.py", run_name="__main__")
finally:
    print("HEAVY", sorted({"torch", "pytorch_lightning", "gensim", "sklearn"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert "HEAVY []" in done.stdout, done.stdout[-2000:] + done.stderr
    assert "model: " in done.stdout and "impatient_reader" in done.stdout


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["data.colour=red"], ["data.colour", "not in struct"]),
        (["model=nobody"], ["nobody"]),
        (["ckpt_path=nowhere.ckpt"], ["error: nowhere.ckpt: no such checkpoint"]),
        (["data.modality=audio"], ["error: data.modality=audio"]),
        (["output_dir=LICENSE"], ["error:", "LICENSE"]),
    ],
)
def test_wrong_input_ends_with_status_1_and_no_traceback(overrides, words, tmp_path):
    process = _start("train", *overrides, f"hydra.run.dir={tmp_path}")
    out, err = process.communicate(timeout=120)
    assert process.returncode == 1
    assert all(word in err for word in words), err
    assert "Traceback" not in out + err


@pytest.mark.slow
def test_a_signal_saves_and_the_run_goes_on_from_there(tmp_path):
    settings = [o for o in SMALL if "max_epochs" not in o]
    overrides = [*small_files(tmp_path), *settings, f"hydra.run.dir={tmp_path}/run"]
    process = _start("train", *overrides, "trainer.max_epochs=2000", "callbacks.early_stopping.patience=5000")
    last = tmp_path / "run" / "checkpoints" / "last.ckpt"
    for _ in range(1200):
        if last.exists():
            break
        time.sleep(0.1)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 128 + signal.SIGTERM, err
    assert "finishing this step" in out and "go on with: python train.py ckpt_path=" in err and "Traceback" not in err
    from engine.checkpoints import load_checkpoint

    epoch = load_checkpoint(last)["epoch"]
    process = _start("train", f"ckpt_path={last}", f"trainer.max_epochs={epoch + 3}")
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert (tmp_path / "run" / "metrics.json").is_file(), "the resumed run goes on in its own folder"


@pytest.mark.slow
def test_a_sweep_gives_each_job_its_folder(tmp_path):
    overrides = ["-m", *small_files(tmp_path), *SMALL, "seed=1,2", f"hydra.sweep.dir={tmp_path}/sweep"]
    process = _start("train", *overrides)
    _, err = process.communicate(timeout=240)
    assert process.returncode == 0, err
    assert {p.name for p in (tmp_path / "sweep").iterdir() if p.is_dir()} == {"0", "1"}
    assert all((tmp_path / "sweep" / job / "metrics.json").is_file() for job in "01")
