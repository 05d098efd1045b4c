"""Run folders from strangers: found once, read without executing anything, left out with one line where damaged."""

import json
import os
import random

import pytest
import yaml

from data.errors import InputError
from engine.results import sections_of
from engine.run_records import clean, find_runs, read_runs, settings_of
from tests.made_up_runs import choice_run, config, food_run, retrieval_run, write_json


def test_runs_are_found_by_folder_pattern_list_and_file(tmp_path, monkeypatch):
    choice_run(tmp_path / "runs" / "a" / "1", [1, 0])
    choice_run(tmp_path / "runs" / "b" / "1", [1, 0])
    monkeypatch.chdir(tmp_path)
    both = find_runs("runs")
    assert [str(p) for p in both] == ["runs/a/1", "runs/b/1"]
    assert find_runs("runs/*/1") == both and find_runs(["runs/a", "runs/b/1/metrics.json", "runs"]) == both
    assert find_runs("runs/**/1") == both
    assert [str(p) for p in find_runs("runs/a")] == ["runs/a/1"]


@pytest.mark.parametrize("place", ["nothing", "no*thing", "empty"])
def test_no_run_is_an_input_error(tmp_path, monkeypatch, place):
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=r"runs=.*; (give|train)"):
        find_runs(place)


def test_links_in_a_circle_end_and_a_run_counts_once(tmp_path):
    run = choice_run(tmp_path / "a", [1, 0])
    os.symlink(tmp_path, run / "up")
    os.symlink(run / "self", run / "self")
    os.symlink(run, tmp_path / "again")
    assert find_runs([str(tmp_path), str(tmp_path / "again")]) == [run]


def test_what_a_run_keeps_in_its_folder_is_no_run(tmp_path):
    run = choice_run(tmp_path / "a", [1, 0])
    write_json((run / "wandb").mkdir() or run / "wandb" / "metrics.json", {})
    assert find_runs(str(tmp_path)) == [run]


def test_unfinished_runs_are_named_with_the_command_that_goes_on(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = choice_run(tmp_path / "a", [1, 0])
    (run / "metrics.json").unlink()
    found = read_runs(find_runs("a"))
    assert found.left_out == ["a: unfinished or failed, no metrics.json; run its command again"]
    (run / "checkpoints").mkdir()
    (run / "checkpoints" / "last.ckpt").touch()
    found = read_runs(find_runs("a"))
    assert "`python train.py ckpt_path=a/checkpoints/last.ckpt`" in found.left_out[0] and found.results == []
    run.rename(tmp_path / "$(rm x)")
    (line,) = read_runs(find_runs("$(rm x)")).left_out
    assert "`python train.py 'ckpt_path=$(rm x)/checkpoints/last.ckpt'`" in line


def spoiled(folder, change):
    metrics = json.loads((folder / "metrics.json").read_text())
    change(metrics)
    write_json(folder / "metrics.json", metrics)


CHOICE = ["tasks", "textual_cloze"]
SPOILERS = {
    "truncated": lambda f: (f / "metrics.json").write_text((f / "metrics.json").read_text()[:40]),
    "empty": lambda f: (f / "metrics.json").write_text(""),
    "a list": lambda f: (f / "metrics.json").write_text("[1]"),
    "deep": lambda f: (f / "metrics.json").write_text("[" * 100_000),
    "binary": lambda f: (f / "metrics.json").write_bytes(b"\x93NUMPY\xff\xfe"),
    "no tasks": lambda f: spoiled(f, lambda m: m.pop("tasks")),
    "tasks a number": lambda f: spoiled(f, lambda m: m.update(tasks={"textual_cloze": 3})),
    "unknown task": lambda f: spoiled(f, lambda m: m.update(tasks={"../../x": {}})),
    "accuracy text": lambda f: spoiled(f, lambda m: m["tasks"]["textual_cloze"].update(accuracy="high")),
    "accuracy nan": lambda f: spoiled(f, lambda m: m["tasks"]["textual_cloze"].update(accuracy=float("nan"))),
    "accuracy 2": lambda f: spoiled(f, lambda m: m["tasks"]["textual_cloze"].update(accuracy=2)),
    "n huge": lambda f: spoiled(f, lambda m: m["tasks"]["textual_cloze"].update(n=2_000_000_000)),
    "n small": lambda f: spoiled(f, lambda m: m["tasks"]["textual_cloze"].update(n=1)),
    "n true": lambda f: spoiled(f, lambda m: m["tasks"]["textual_cloze"].update(n=True)),
    "interval": lambda f: spoiled(f, lambda m: m["tasks"]["textual_cloze"].update(interval=[0.9, 0.1])),
    "changed accuracy": lambda f: spoiled(f, lambda m: m["tasks"]["textual_cloze"].update(accuracy=0.75)),
    "table": lambda f: spoiled(
        f, lambda m: m["tasks"]["textual_cloze"].update(table=[{"kind": "baseline", "accuracy": 1}])
    ),
    "no model": lambda f: spoiled(f, lambda m: m.pop("model")),
    "model a list": lambda f: spoiled(f, lambda m: m.update(model=["x"])),
    "predictions torn": lambda f: (f / "predictions.jsonl").write_text('{"qid": "q0'),
    "predictions list": lambda f: (f / "predictions.jsonl").write_text("[]\n"),
    "scores nan": lambda f: (f / "predictions.jsonl").write_text('{"qid": "q", "scores": [NaN, 1], "answer": 0}\n'),
    "answer outside": lambda f: (f / "predictions.jsonl").write_text('{"qid": "q", "scores": [0, 1], "answer": 7}\n'),
    "qid twice": lambda f: (f / "predictions.jsonl").write_text('{"qid": "q", "scores": [0, 1], "answer": 0}\n' * 2),
    "config text": lambda f: (f / "config.yaml").write_text("just text"),
    "config broken": lambda f: (f / "config.yaml").write_text("a: [1, {"),
    "config object": lambda f: (f / "config.yaml").write_text("a: !!python/object/apply:os.system ['touch /x']"),
    "config in a circle": lambda f: (f / "config.yaml").write_text("a: &a [*a]"),
    "config of aliases": lambda f: (f / "config.yaml").write_text(
        "a0: &a0 [x, x]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]\n" for i in range(1, 28))
    ),
    "provenance": lambda f: (f / "provenance.json").write_text("{"),
    "a pipe": lambda f: ((f / "metrics.json").unlink(), os.mkfifo(f / "metrics.json")),
    "a folder": lambda f: ((f / "metrics.json").unlink(), (f / "metrics.json").mkdir(), (f / "config.yaml").touch()),
}


@pytest.mark.parametrize("name", SPOILERS)
def test_a_spoiled_run_is_one_line_and_the_others_are_read(tmp_path, name):
    bad = choice_run(tmp_path / "bad", [1, 0, 1, 0])
    choice_run(tmp_path / "good", [1, 0])
    SPOILERS[name](bad)
    found = read_runs(find_runs(str(tmp_path)))
    assert [result.folder.name for result in found.results] == ["good"]
    (line,) = found.left_out
    assert "\n" not in line and str(bad) in line and ";" in line and len(line) < 700


def test_random_damage_never_raises(tmp_path):
    rng = random.Random(7)
    makers = [
        lambda f: choice_run(f, [1, 0, 0.5, 1]),
        lambda f: retrieval_run(f, [(1, 2), (3, 1), (2, 2)]),
        lambda f: food_run(f, [[1, 0, 1], [0, 0, 1]]),
    ]
    for i in range(90):
        folder = makers[i % 3](tmp_path / f"run{i}")
        path = rng.choice(sorted(p for p in folder.iterdir() if p.is_file()))
        content = bytearray(path.read_bytes())
        for _ in range(rng.randint(1, 4)):
            kind, at = rng.randrange(3), rng.randrange(max(1, len(content)))
            if kind == 0:
                del content[at : at + rng.randint(1, 60)]
            elif kind == 1:
                content[at : at + 1] = bytes([rng.randrange(256)])
            else:
                content[at:at] = rng.choice([b"null", b"-1", b"[]", b"{}", b'"x"', b"1e999", b"NaN"])
        path.write_bytes(bytes(content))
    found = read_runs(find_runs(str(tmp_path)))
    assert found.runs == 90 and len(found.left_out) + len(found.results) == 90
    assert len(found.left_out) > 20 and all("\n" not in line for line in found.left_out)


def test_a_config_is_not_resolved(tmp_path, monkeypatch):
    monkeypatch.setenv("PLANTED_SECRET", "s3cr3t-value")
    cfg = config(1, model={"name": "reader", "net": {"size": "${oc.env:PLANTED_SECRET}"}, "optimizer": {"lr": 1}})
    choice_run(tmp_path / "a", [1, 0], cfg=cfg)
    (result,) = read_runs(find_runs(str(tmp_path))).results
    assert result.settings["model.net.size"] == "${oc.env:PLANTED_SECRET}"


def test_keys_of_a_config_never_reach_a_report(tmp_path):
    cfg = config(1)
    cfg["model"]["api_key"] = "abc"
    assert not any("api_key" in key for key in settings_of(cfg))


def test_names_are_one_printable_line():
    assert clean("a\x1b[31mred\nline\u202e") == "a [31mred line"
    assert len(clean("x" * 500)) == 80
    assert clean("豆腐 tofu") == "豆腐 tofu"


def test_seed_place_and_speed_are_no_settings(tmp_path):
    one, two = config(1), config(2)
    two["data"] |= {"cache": "elsewhere", "num_workers": 8, "root": "/r"}
    two["trainer"] |= {"accelerator": "gpu"}
    assert settings_of(one) == settings_of(two)
    two["trainer"]["max_epochs"] = 4
    assert settings_of(one) != settings_of(two)


def test_training_settings_are_none_of_what_is_not_trained():
    rule = config(1, model={"name": "hasty_student"})
    other = config(1, model={"name": "hasty_student"}, trainer={"max_epochs": 50})
    assert settings_of(rule) == settings_of(other)


def test_an_evaluation_has_the_training_settings_of_its_run(tmp_path):
    home = choice_run(tmp_path / "a", [1, 0], cfg=config(1, trainer={"max_epochs": 7}))
    choice_run(home / "evaluate_x", [1, 0], cfg=config(1, trainer={"max_epochs": 100}))
    one, two = read_runs(find_runs(str(tmp_path))).results
    assert one.settings == two.settings


def test_unreadable_questions_count_as_wrong(tmp_path):
    run = choice_run(tmp_path / "a", [1, 1, 1])
    spoiled(run, lambda m: m["tasks"]["textual_cloze"].update(n=4, accuracy=0.75))
    (result,) = read_runs(find_runs(str(tmp_path))).results
    assert result.credit.tolist() == [1, 1, 1, 0] and len(result.items) == len(result.clusters) == 4


def test_runs_without_predictions_are_shown_and_not_compared(tmp_path):
    run = choice_run(tmp_path / "a", [1, 0])
    (run / "predictions.jsonl").unlink()
    (result,) = read_runs(find_runs(str(tmp_path))).results
    assert (
        result.value == 0.5 and not result.items and result.flags == ("no predictions.jsonl: not compared with others",)
    )


def test_two_runs_without_predictions_are_not_taken_for_the_same_questions(tmp_path):
    for seed, name in enumerate(("a", "b")):
        (choice_run(tmp_path / name, [1, 0], system=name, seed=seed) / "predictions.jsonl").unlink()
    (section,) = sections_of(read_runs(find_runs(str(tmp_path))).results, seed=1)
    assert len(section.entries) == 2 and not section.comparisons


def test_the_config_that_a_command_writes_is_read(tmp_path):
    cfg = config(3)
    choice_run(tmp_path / "a", [1, 0], seed=3, cfg=cfg)
    (result,) = read_runs(find_runs(str(tmp_path))).results
    assert result.seed == 3 and yaml.safe_load((tmp_path / "a" / "config.yaml").read_text()) == cfg
