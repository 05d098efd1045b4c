"""Every tracker of conf/logger, alone and together, read back with its own reader; no account, no network."""

import csv
import json

import pytest

from tests.runs import SMALL, run, small_files

SETTINGS = [o for o in SMALL if not o.startswith("logger")]


@pytest.fixture(scope="module")
def tracked(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tracked")
    patch = pytest.MonkeyPatch()
    patch.setenv("WANDB_MODE", "offline")
    patch.setenv("WANDB_API_KEY", "S3CRET" * 7)
    trackers = "logger=[csv,tensorboard,wandb,mlflow]"
    run("train", folder / "run", [*small_files(folder), *SETTINGS, trackers, "trainer.log_every_n_steps=1"])
    yield folder / "run"
    patch.undo()


def test_csv(tracked):
    (path,) = tracked.glob("csv/version_0/metrics.csv")
    rows = list(csv.DictReader(path.open()))
    assert sum(bool(row["val/accuracy"]) for row in rows) == 3
    accuracy = json.loads((tracked / "metrics.json").read_text())["test/accuracy"]
    assert [float(row["test/accuracy"]) for row in rows if row["test/accuracy"]] == [pytest.approx(accuracy)]


def test_tensorboard(tracked):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(tracked / "tensorboard"))
    events.Reload()
    assert len(events.Scalars("val/accuracy")) == 3 and len(events.Scalars("test/accuracy")) == 1


def test_mlflow(tracked):
    from mlflow.tracking import MlflowClient

    client = MlflowClient(tracking_uri=f"file:{tracked}/mlruns")
    (experiment,) = [e for e in client.search_experiments() if e.name == "recipeqa/textual_cloze"]
    (found,) = client.search_runs([experiment.experiment_id])
    assert len(client.get_metric_history(found.info.run_id, "val/accuracy")) == 3
    assert "test/accuracy" in found.data.metrics and found.data.params["seed"] == "1234"


def _wandb_records(data: bytes):
    """Records of an offline file: 7 bytes of header, then blocks of 32 KiB of (checksum, length, type) and content.

    Type 1 is a whole record; 2, 3 and 4 are its first, middle and last part. wandb has no public reader any more.
    """
    assert data[:4] == b":W&B"
    at, whole = 7, b""
    while at + 7 <= len(data):
        left = 32768 - at % 32768
        if left < 7:
            at += left
            continue
        length, kind = int.from_bytes(data[at + 4 : at + 6], "little"), data[at + 6]
        whole += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):
            yield whole
            whole = b""


def test_wandb_offline_is_one_run_and_carries_no_secret(tracked):
    from wandb.proto import wandb_internal_pb2 as pb

    (path,) = tracked.glob("wandb/offline-run-*/run-*.wandb")
    keys = []
    for data in _wandb_records(path.read_bytes()):
        record = pb.Record()
        record.ParseFromString(data)
        keys += [item.key or "/".join(item.nested_key) for item in record.history.item]
    assert keys.count("val/accuracy") == 3 and keys.count("test/accuracy") == 1
    assert (tracked / "wandb_run_id").read_text().strip() in path.name
    for file in tracked.rglob("*"):
        if file.is_file():
            assert b"S3CRET" not in file.read_bytes(), file


def test_a_resumed_run_is_the_same_wandb_run(tracked):
    before = (tracked / "wandb_run_id").read_text()
    resume = [*SETTINGS, f"ckpt_path={tracked}/checkpoints/last.ckpt", "trainer.max_epochs=4", "logger=wandb"]
    run("train", tracked, [*small_files(tracked.parent), *resume])
    assert (tracked / "wandb_run_id").read_text() == before
    runs = sorted(path.name for path in tracked.glob("wandb/offline-run-*/run-*.wandb"))
    assert len(set(runs)) == 1
