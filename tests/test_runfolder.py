import json

import pytest
from omegaconf import OmegaConf

from engine.runfolder import plain, redact, write_provenance

PLANTED = {
    "api_key": "S3CRET-1",
    "logger": {"wandb": {"apikey": "S3CRET-2", "entity": "lab"}},
    "hf_token": "S3CRET-3",
    "db": [{"password": "S3CRET-4"}],
    "url": "https://user:S3CRET-5@host/path",
    "aws": {"secret": "S3CRET-6", "credentials": "S3CRET-7"},
    "private_key": "S3CRET-8",
    "headers": {"authorization": "S3CRET-10", "bearer": "S3CRET-11", "x-custom": "S3CRET-12", "Cookie": "S3CRET-13"},
    "extra_body": {"api-key": "S3CRET-14", "x-api-key": "S3CRET-15"},
    "urls": ["http://S3CRET-16@h/p", "http://S3CRET-17:@h", "http://:S3CRET-18@h/p", "http://u:a@S3CRET-19@h/p"],
    "from_env": "${oc.env:MY_API_KEY}",
    "inside": "prefix ${oc.env:MY_API_KEY} suffix",
}


@pytest.fixture(autouse=True)
def _environment(monkeypatch):
    monkeypatch.setenv("MY_API_KEY", "S3CRET-9")


def test_secrets_reach_no_file(tmp_path):
    cfg = OmegaConf.create(PLANTED)
    config = plain(cfg)
    overrides = [
        "api_key=S3CRET-1",
        "url=https://user:S3CRET-5@host/path",
        "seed=3",
        "~logger",
        "x=S3CRET-9",
        "+k={bearer: S3CRET-13, a: 1}",
        "+model.headers={x-custom: S3CRET-14}",
        "model.headers.x-custom=S3CRET-15",
        "+model.extra_body={api-key: S3CRET-16}",
    ]
    write_provenance(tmp_path, config, overrides, {})
    for path in tmp_path.iterdir():
        assert "S3CRET" not in path.read_text(), path
    assert json.loads((tmp_path / "provenance.json").read_text())["overrides"][2:4] == ["seed=3", "~logger"]
    assert "host/path" in config["url"] and config["logger"]["wandb"]["entity"] == "lab"


def test_what_only_looks_like_a_secret_stays():
    harmless = {"num_tokens": 5, "use_cls_token": True, "tokeniser": "words", "token": None, "max_token": 7}
    assert redact(harmless) == harmless


def test_provenance_says_where_numbers_come_from(tmp_path):
    write_provenance(tmp_path, {"seed": 1}, [], {"name": "x"})
    found = json.loads((tmp_path / "provenance.json").read_text())
    assert found["packages"]["torch"] and found["hardware"]["cores"] and found["data"] == {"name": "x"}
    assert {"commit", "changed_files"} == found["git"].keys()


def test_what_is_scored_without_a_checkpoint_has_a_folder_of_its_name():
    from engine.launch import _run_folder

    assert _run_folder(None, "a/b", "m", "evaluate", "x/mine.npz").startswith("runs/embeddings/mine/")
    assert _run_folder(None, "a/b", "m", "evaluate", None, "runs/sweeps/1").rpartition("/")[0].endswith("runs/sweeps/1")
    assert _run_folder(None, "a/b", "m", "evaluate").startswith("runs/a/b/m/")
    assert _run_folder("runs/r/checkpoints/best.ckpt", "a/b", "m", "train").endswith("runs/r")
