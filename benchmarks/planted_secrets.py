"""Twelve planted secrets, looked for in everything that runs, sweeps and errors leave behind.

python benchmarks/planted_secrets.py [--keep FOLDER]

A training with all four trackers, an evaluation of it, a sweep of which one job fails with a secret in its traceback
(its `.hydra` folders switched on), a run that ends in an error naming an address with a password, and a command line
that Hydra cannot read. Looked through: every file below their folders, byte by byte, and both streams of the terminal.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.runs import ROOT, SMALL, small_files

SECRETS = {
    "WANDB_API_KEY of the environment": "a1Planted" * 4 + "0123",
    "HF_TOKEN of the environment": "a2Planted-hf-token",
    "interpolated from the environment": "a3Planted-from-env",
    "key on the command line": "a4Planted-cli",
    "nested key": "a5Planted-nested",
    "user and password of a URL": "a6Planted-url",
    "item of a list": "a7Planted-item",
    "header": "a8Planted-header",
    "key in the query of a URL": "a9Planted-query",
    "bearer token in a text": "b1Planted-bearer",
    "in an error message": "b2Planted-message",
    "in the traceback of a job that fails": "b3Planted-traceback",
}
KEPT = {"use_cls_token": "true", "num_tokens": "77123"}  # must stay readable


def main() -> None:
    """Print where each secret was found; exit status 1 if any was."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", help="a folder for the runs, which stays")
    keep = parser.parse_args().keep
    with tempfile.TemporaryDirectory() as name:
        folder = Path(keep or name)
        folder.mkdir(parents=True, exist_ok=True)
        sys.exit(_look(folder))


def _look(folder: Path) -> int:
    s = list(SECRETS.values())
    environment = {**os.environ, "WANDB_MODE": "offline", "WANDB_API_KEY": s[0], "HF_TOKEN": s[1]}
    environment |= {"SERVICE_SECRET": s[2], "OTHER_PASSWORD": s[11], "OMP_NUM_THREADS": "1"}
    planted = [
        "+service.from_env=${oc.env:SERVICE_SECRET}",
        f"+service.api_key={s[3]}",
        f"+service.deep.er.password={s[4]}",
        f"+service.url='https://me:{s[5]}@host/path'",
        f"+service.passwords=[{s[6]},{s[6]}x]",
        f"+service.headers={{x-custom: {s[7]}}}",
        f"+service.address='https://host/path?access_token={s[8]}&page=1'",
        f"+service.note='sent with Bearer {s[9]}'",
        *(f"+service.{key}={value}" for key, value in KEPT.items()),
    ]
    (folder / "data").mkdir(exist_ok=True)
    files = small_files(folder / "data")
    common = [
        *files,
        *(o for o in SMALL if not o.startswith("logger") and "max_epochs" not in o),
        "trainer.max_epochs=1",
    ]
    trackers = "logger=[csv,tensorboard,wandb,mlflow]"
    train, evaluate = [sys.executable, "train.py"], [sys.executable, "evaluate.py"]
    good = next(o for o in files if o.startswith("data.train_file")).partition("=")[2]
    environment |= {"TRAIN_good": good, "TRAIN_bad": f"/nowhere/{s[11]}/train.json"}
    by_job = ["data.train_file='${oc.env:TRAIN_${service.pick}}'", "+service.pick=good,bad"]
    without = [o for o in common if not o.startswith("data.train_file")]
    message = f"data.train_file='https://me:{s[10]}@host/train.json'"
    commands = {
        "training": [*train, *common, *planted, trackers, f"hydra.run.dir={folder / 'run'}"],
        "evaluation": [*evaluate, *files, *planted, trackers, f"ckpt_path={folder / 'run'}/checkpoints/best.ckpt"],
        "sweep with a failing job": [*train, "-m", *without, *planted, "logger=csv", *by_job],
        "error": [*train, *without, *planted, message, f"hydra.run.dir={folder / 'error'}"],
    }
    commands["unreadable command line"] = [*train, f"+service.api_key={{{s[3]}", f"+service.note='Bearer {s[9]}"]
    commands["evaluation"] += ["sanity=false"]
    commands["sweep with a failing job"] += [f"hydra.sweep.dir={folder / 'sweep'}", "hydra.output_subdir=.hydra"]
    for name, command in commands.items():
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True)
        print(f"{name}: exit status {done.returncode}", flush=True)
        (folder / f"{name}.out").write_bytes(done.stdout)
        (folder / f"{name}.err").write_bytes(done.stderr)
    print("\n| secret | found in |\n|---|---|")
    contents = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    found = 0
    for what, secret in SECRETS.items():
        places = [str(path.relative_to(folder)) for path, data in contents.items() if secret.encode() in data]
        places += [str(path.relative_to(folder)) for path in folder.rglob("*") if secret in path.name]
        found += len(places)
        print(f"| {what} | {', '.join(places) or 'nothing'} |")
    config = (folder / "run" / "config.yaml").read_text()
    kept = all(f"{key}: {value}" in config for key, value in KEPT.items())
    size = sum(map(len, contents.values())) / 2**20
    print(f"\n{len(contents)} files, {size:.1f} MiB; what only looks like a secret was {'kept' if kept else 'HIDDEN'}")
    return int(found > 0 or not kept)


if __name__ == "__main__":
    main()
