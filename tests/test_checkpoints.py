import os
import pickle
import subprocess
import sys

import pytest
import torch

from data.errors import InputError
from data.files import atomic_file, sweep_partial_files
from engine.checkpoints import AtomicCheckpointIO, load_checkpoint
from engine.trust import require_allowed, require_no_address

GOOD = {"state_dict": {"w": torch.arange(5.0)}, "config": {"model": {"name": "m"}}}


def test_round_trip(tmp_path):
    path = tmp_path / "a" / "best.ckpt"
    AtomicCheckpointIO().save_checkpoint(GOOD, path)
    assert torch.equal(load_checkpoint(path)["state_dict"]["w"], GOOD["state_dict"]["w"])
    assert [p.name for p in path.parent.iterdir()] == ["best.ckpt"]
    assert path.stat().st_mode & 0o777 == 0o644


def test_a_failed_write_keeps_the_old_file_and_leaves_nothing(tmp_path):
    path = tmp_path / "last.ckpt"
    AtomicCheckpointIO().save_checkpoint(GOOD, path)
    before = path.read_bytes()
    with pytest.raises(ValueError), atomic_file(path) as partial:
        partial.write_bytes(b"half")
        raise ValueError
    assert path.read_bytes() == before and len(list(tmp_path.iterdir())) == 1


def test_leftovers_of_killed_writers_are_swept_and_others_stay(tmp_path):
    dead = subprocess.Popen([sys.executable, "-c", "pass"])
    dead.wait()
    gone = tmp_path / f".last.ckpt.{dead.pid}.abc.partial"
    alive = tmp_path / f".last.ckpt.{os.getpid()}.abc.partial"
    other = tmp_path / ".something.partial"
    for path in (gone, alive, other):
        path.write_bytes(b"x")
    sweep_partial_files(tmp_path)
    assert not gone.exists() and alive.exists() and other.exists()


class _Evil:
    def __reduce__(self):
        return (os.system, ("touch EVIL",))


def test_what_is_no_checkpoint_is_one_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    AtomicCheckpointIO().save_checkpoint(GOOD, tmp_path / "good.ckpt")
    whole = (tmp_path / "good.ckpt").read_bytes()
    at = whole.index(b"state_dict") + 3
    cases = {
        "empty": b"",
        "text": b"hello",
        "truncated": whole[: len(whole) // 2],
        "pickle": pickle.dumps(_Evil()),
        "zeros": bytes(1000),
        "flipped": whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :],
    }
    for name, content in cases.items():
        (tmp_path / name).write_bytes(content)
    torch.save({"state_dict": {}, "evil": _Evil(), "config": {}}, tmp_path / "evil.ckpt")
    torch.save({"weights": torch.zeros(2)}, tmp_path / "foreign.ckpt")
    torch.save([1, 2], tmp_path / "list.ckpt")
    torch.save({"state_dict": {}, "config": None}, tmp_path / "none.ckpt")
    torch.save({"state_dict": [], "config": {"model": {}}}, tmp_path / "weights.ckpt")
    (tmp_path / "folder.ckpt").mkdir()
    made = ("evil.ckpt", "foreign.ckpt", "list.ckpt", "none.ckpt", "weights.ckpt", "folder.ckpt", "absent.ckpt")
    for name in (*cases, *made):
        with pytest.raises(InputError, match=name.replace(".", r"\.")) as error:
            load_checkpoint(tmp_path / name)
        assert "\n" not in str(error.value)
    assert not (tmp_path / "EVIL").exists()


@pytest.mark.parametrize(
    "target",
    ["os.system", "torch.hub.load", "pytorch_lightning.cli.instantiate_class", "builtins.exec", "hydra.utils.call"],
)
def test_a_config_from_a_checkpoint_builds_only_what_is_listed(target):
    config = {"model": {"net": {"_target_": "models.impatient_reader.ImpatientReader"}, "loss": [{"_target_": target}]}}
    with pytest.raises(InputError, match=target):
        require_allowed(config, "x.ckpt")


_EVIL = {"_target_": "os.system", "command": "true"}
_NET = {"_target_": "models.impatient_reader.ImpatientReader"}


@pytest.mark.parametrize(
    "config",
    [
        {"model": ({"net": _EVIL},)},  # OmegaConf makes lists of tuples, and Hydra builds what is in lists
        {"model": {"net": "${oc.decode:'{_target_: os.system, command: \"true\"}'}"}},
        {"model": {"net": _NET, "name": "${oc.env:HOME}"}},
        {"model": {"net": {**_NET, "size": "x ${oc.env:HOME,none}"}}},
        {"model": {"net": {"_target_": "${evil}"}}},
        {"model": {"net": {"_target_": ["os.system"]}}},
        {"model": {"net": {"_target_": {"_target_": "os.system"}}}},
        {"model": {"net": [[[_EVIL]]]}},
        {"model": {"net": torch.zeros(2)}},
        {"model": {(1, 2): _EVIL}},
        {"model": [1] * 200_000},
    ],
)
def test_configs_that_are_not_plain_are_refused(config):
    with pytest.raises(InputError, match=r"x\.ckpt") as error:
        require_allowed(config, "x.ckpt")
    assert "\n" not in str(error.value) and len(str(error.value)) < 400


def test_a_config_of_any_depth_is_walked_to_its_end():
    config = _EVIL
    for _ in range(5000):
        config = {"a": config}
    with pytest.raises(InputError, match=r"os\.system"):
        require_allowed(config, "x.ckpt")


def test_trackers_of_a_checkpoint_get_no_address_that_nobody_gave():
    stored = {"mlflow": {"tracking_uri": "https://elsewhere/x", "save_dir": "runs"}, "csv": {"save_dir": "file:///a"}}
    with pytest.raises(InputError, match="elsewhere"):
        require_no_address(stored, {"csv": {}}, "x.ckpt")
    require_no_address(stored, {"mlflow": {"tracking_uri": "https://elsewhere/x"}}, "x.ckpt")
    require_no_address({"mlflow": {"tracking_uri": "file:/runs/mlruns"}, "x": None}, None, "x.ckpt")
