import json
import os

import pytest
from omegaconf import OmegaConf

from engine import runfolder
from engine.runfolder import hide, learn_arguments, learn_secrets, plain, redact, redact_argument, write_provenance

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
    "accessToken": "S3CRET-20",
    "passwords": ["S3CRET-21", {"old": "S3CRET-22"}],
    "query": "http://h/p?x=1&access_token=S3CRET-23&y=2",
    "lines": {"headers": ["Authorization: S3CRET-24"]},
    "text": "sent with Bearer S3CRET-25-abcdefgh",
    "cloud": {"secret_access_key": "S3CRET-26"},
    "inside": "prefix ${oc.env:MY_API_KEY} suffix",
}


@pytest.fixture(autouse=True)
def _environment(monkeypatch):
    monkeypatch.setenv("MY_API_KEY", "S3CRET-9")
    monkeypatch.setattr(runfolder, "_learnt", set())


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
    harmless |= {"special_tokens": ["<s>", "</s>"], "key": "title", "max_tokens_key": "max_tokens", "secret": False}
    harmless |= {
        "api_key_env": "OPENAI_API_KEY",
        "folder": os.getcwd(),
        "at": "mail@host",
        "time": "12:30",
        "title": "Basic mayonnaise-with-egg",
        "net": "sk-learn-based-classifier",
    }
    assert redact(harmless) == harmless
    for argument in (
        "seed=1,2",
        "~logger",
        "+net.use_cls_token=true",
        "model.net={num_tokens: 5, use_cls_token: true}",
        "x=[1, 2]",
        "-m",
    ):
        assert redact_argument(argument) == argument


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


def test_a_password_of_digits_is_hidden():
    assert redact({"db": {"password": 12345678}, "api_key": 4.5}) == {
        "db": {"password": "<hidden>"},
        "api_key": "<hidden>",
    }


@pytest.mark.parametrize(
    "argument",
    [
        "+k={api_key: [S3CRET a, S3CRET b], d: {accessToken: 'S3CRET, with comma'}}",
        "+x=[{password: S3CRET}, {Authorization: Bearer S3CRET}]",
        "x='http://h/a?api_key=S3CRET&b=1'",
        "+model.api_key=S3CRET,S3CRET two",
        "https://S3CRET:S3CRET@host/",
        "broken={api_key: 'S3CRET ",
    ],
)
def test_arguments_lose_their_secrets_whole(argument):
    assert "S3CRET" not in redact_argument(argument) and "<hidden>" in redact_argument(argument)


def test_values_of_the_config_are_hidden_in_messages_too():
    learn_secrets(OmegaConf.create({"model": {"api_key": "S3CRET-1"}, "u": "http://me:S3CRET-2@h", "seed": 1}))
    learn_secrets(OmegaConf.create({"model": {"headers": {"x": "S3CRET-3"}}, "tokens": {"hf_token": "S3CRET-4"}}))
    message = hide("refused: S3CRET-1, me:S3CRET-2, S3CRET-3, S3CRET-4, S3CRET-9, hf_abcdefghijklmnopqr5t; seed 1")
    learn_arguments(["+x.api_key={S3CRET-7", "seed=123456", "model.token='S3CRET-8'"])
    assert (
        hide("LexerNoViableAlt: {S3CRET-7, and S3CRET-8, 123456") == "LexerNoViableAlt: <hidden>, and <hidden>, 123456"
    )
    assert "S3CRET" not in message and "hf_abc" not in message and message.endswith("; seed 1")


def test_what_hydra_writes_is_without_secrets_and_the_config_itself_stays(tmp_path):
    overrides = ["+x.api_key=S3CRET-1,S3CRET-2", "seed=1"]
    cfg = OmegaConf.create({**PLANTED, "hydra": {"overrides": {"task": overrides}}, "env": "${oc.env:MY_API_KEY}"})
    cfg.hydra.job = {"override_dirname": ",".join(overrides)}
    original = OmegaConf.to_yaml
    try:
        runfolder.HideSecrets().on_multirun_start(cfg)
        runfolder.HideSecrets().on_multirun_start(cfg)
        OmegaConf.save(cfg, tmp_path / "multirun.yaml")
        OmegaConf.save(OmegaConf.create(overrides), tmp_path / "overrides.yaml")
    finally:
        OmegaConf.to_yaml = original
    for path in tmp_path.iterdir():
        assert "S3CRET" not in path.read_text() and "seed=1" in path.read_text()
    assert cfg.hydra.overrides.task == overrides and cfg.api_key == "S3CRET-1"
