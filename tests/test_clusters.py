"""Launchers: submitit's local executor, a Slurm that is played by scripts, Ray; ranks that die."""

import os
import signal
import subprocess
import sys
import time

import pytest

from engine import sweep
from tests import fake_slurm
from tests.runs import ROOT


def wait_for(condition, process, seconds=120):
    for _ in range(seconds * 20):
        if condition():
            return
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    raise AssertionError("it did not come")


def start(*overrides, environment=None):
    command = [sys.executable, "-m", "tests.sweep_app", "-m", *overrides]
    return subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def ended(process):
    out, err = process.communicate(timeout=180)
    return process.returncode, out, err


@pytest.mark.slow
def test_submitit_runs_the_jobs_and_a_failed_one_stops_no_other(tmp_path):
    pytest.importorskip("submitit", reason="needs the extra `slurm`")
    environment = {**os.environ, "SEED_1": "crash"}
    folder = f"hydra.sweep.dir={tmp_path}"
    status, out, err = ended(start("cluster=slurm_local", "seed=1,2", folder, environment=environment))
    assert status == 1 and "1 failed, 1 finished" in out, err
    failed, finished = sweep.records(tmp_path)
    assert "ZeroDivisionError" in (failed["folder"] / "error.log").read_text() and finished["status"] == "finished"


@pytest.mark.slow
def test_a_preempted_slurm_job_saves_and_is_requeued_once(tmp_path):
    pytest.importorskip("submitit", reason="needs the extra `slurm`")
    slurm = tmp_path / "slurm"
    slurm.mkdir()
    environment = {**fake_slurm.install(slurm), "SEED_2": "train"}
    folder = tmp_path / "sweep"
    overrides = ["cluster=slurm", "trainer=ddp", "trainer.devices=2", "seed=1,2", f"hydra.sweep.dir={folder}"]
    process = start(*overrides, environment=environment)
    wait_for(lambda: all((folder / "1" / f"training{rank}").exists() for rank in "01"), process)
    for line in (slurm / "pids").read_text().splitlines():
        task, _, pid = line.split()
        if task == "1":  # Slurm sends it to every process
            os.kill(int(pid), signal.SIGUSR2)
    status, out, err = ended(process)
    assert status == 0 and "2 finished" in out, err
    assert (slurm / "requeues").read_text() == "requeue 4242_1\n"
    first, second = sweep.records(folder)
    assert [first["overrides"][-1], second["overrides"][-1]] == ["seed=1", "seed=2"]
    calls = (folder / "1" / "calls").read_text().splitlines()
    last = str(folder / "1" / "checkpoints" / "last.ckpt")
    assert set(calls) == {"None", last} and calls.count("None") == 2, "both processes began once, then went on"


@pytest.mark.slow
def test_a_local_ray_runs_the_jobs(tmp_path):
    pytest.importorskip("hydra_plugins.hydra_ray_launcher", reason="needs the extra `ray_launcher`")
    environment = {**os.environ, "SEED_1": "crash"}
    limits = ["+hydra.launcher.ray.init.num_cpus=2", "+hydra.launcher.ray.init.include_dashboard=false"]
    limits += ["+hydra.launcher.ray.init.object_store_memory=200000000"]
    status, out, err = ended(
        start("cluster=ray", "seed=1,2", *limits, f"hydra.sweep.dir={tmp_path}", environment=environment)
    )
    assert status == 1 and "1 failed, 1 finished" in out, err
