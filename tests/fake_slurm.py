"""Enough of Slurm for submitit on one machine: `sbatch`, `srun`, `scontrol requeue`, `sacct`, in a folder for PATH.

`install` writes the commands. What they did lies in the same folder: `requeues` (arguments of scontrol), `pids` (a line
`task rank pid` for each process that srun started).
"""

import os
import re
import subprocess
import sys
from pathlib import Path

JOB = "4242"


def install(folder: Path) -> dict[str, str]:
    """Write the commands into a folder; returns an environment in which they are found."""
    for name in ("sbatch", "srun", "scontrol", "sacct"):
        command = folder / name
        command.write_text(f'#!/bin/sh\nexec {sys.executable} {Path(__file__).resolve()} {name} {folder} "$@"\n')
        command.chmod(0o755)
    return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}


def _append(path: Path, line: str) -> None:
    with open(path, "a") as file:
        file.write(line + "\n")


def sbatch(folder: Path, script: str) -> None:
    """Run the script in the background, for each task where it is an array, again as long as it is requeued."""
    flags = dict(re.findall(r"^#SBATCH --([\w-]+)=(.*)$", Path(script).read_text(), re.MULTILINE))
    last = re.sub(r"%.*", "", flags["array"].strip("'")).partition("-")[2] if "array" in flags else None
    for task in [""] if last is None else map(str, range(int(last) + 1)):
        subprocess.Popen(
            [sys.executable, __file__, "task", str(folder), script, task, flags["ntasks-per-node"]],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
    print(f"Submitted batch job {JOB}")


def task(folder: Path, script: str, number: str, processes: str) -> None:
    slurm = {"JOB_ID": str(int(JOB) + int(number or 0)), "NTASKS": processes, "NTASKS_PER_NODE": processes}
    slurm |= {"ARRAY_JOB_ID": JOB, "ARRAY_TASK_ID": number} if number else {}
    slurm |= {"NNODES": "1", "JOB_NUM_NODES": "1", "NODEID": "0", "JOB_NAME": "sweep"}
    slurm |= {"JOB_NODELIST": "localhost", "NODELIST": "localhost", "STEP_ID": "0"}
    environment = {**os.environ, **{f"SLURM_{key}": value for key, value in slurm.items()}}
    again = folder / f"again_{JOB}{'_' if number else ''}{number}"
    again.touch()
    while again.exists():
        again.unlink()
        subprocess.run(["bash", script], env=environment)


def srun(folder: Path, *arguments: str) -> None:
    """Start the processes of a task; the output goes where `--output` says."""
    outputs = {}
    words = list(arguments)
    while words[0].startswith("--"):
        flag = words.pop(0)
        if flag in ("--output", "--error"):
            outputs[flag] = words.pop(0)
    number = os.environ.get("SLURM_ARRAY_TASK_ID", "0")
    started = []
    for rank in range(int(os.environ["SLURM_NTASKS"])):
        names = {
            flag: path.replace("%A", JOB).replace("%j", JOB).replace("%a", number).replace("%t", str(rank))
            for flag, path in outputs.items()
        }
        environment = {**os.environ, "SLURM_PROCID": str(rank), "SLURM_LOCALID": str(rank)}
        with open(names["--output"], "a") as out, open(names["--error"], "a") as err:
            process = subprocess.Popen(words, env=environment, stdout=out, stderr=err)
        started.append(process)
        _append(folder / "pids", f"{number} {rank} {process.pid}")
    sys.exit(max(abs(process.wait()) for process in started))


def scontrol(folder: Path, *arguments: str) -> None:
    _append(folder / "requeues", " ".join(arguments))
    (folder / f"again_{arguments[1]}").touch()


def sacct(folder: Path, *arguments: str) -> None:
    print("JobID|State|NodeList")
    for name in (JOB, *(f"{JOB}_{number}" for number in range(8))):
        print(f"{name}|RUNNING|localhost")


if __name__ == "__main__":
    globals()[sys.argv[1]](Path(sys.argv[2]), *sys.argv[3:])
