"""The embedded data end to end, on few recipes: the default command, all four tasks, the real questions beside it."""

import json

import pytest

from data.build.embedded import WikibooksQuestions
from data.recipeqa import read_questions
from data.records import TASKS
from tests.runs import SMALL, run


def test_files_are_built_once_and_name_their_sources(tmp_path):
    builder = WikibooksQuestions(max_recipes=80)
    files = builder.files(tmp_path, ["textual_cloze"])
    before = {path: path.stat().st_mtime_ns for path in files.values()}
    assert WikibooksQuestions(max_recipes=80).files(tmp_path, ["textual_cloze"]) == files
    assert {path: path.stat().st_mtime_ns for path in files.values()} == before
    assert WikibooksQuestions(max_recipes=81).files(tmp_path, ["textual_cloze"]) != files
    notice = (files["train"].parent / "ATTRIBUTION.txt").read_text()
    assert "CC BY-SA 4.0" in notice and notice.count("en.wikibooks.org/wiki/Cookbook:") == 80


def test_splits_share_no_recipe_and_no_choice(tmp_path):
    files = WikibooksQuestions(max_recipes=400).files(tmp_path, ["textual_cloze"])
    read = {split: read_questions(path)[0] for split, path in files.items()}
    for a, b in (("train", "val"), ("train", "test"), ("val", "test")):
        assert not {q.recipe_id for q in read[a]} & {q.recipe_id for q in read[b]}
        texts = [{c[0].strip().lower() for q in read[s] for c in q.choices} for s in (a, b)]
        assert not texts[0] & texts[1]


def test_the_asked_step_is_not_in_its_context(tmp_path):
    files = WikibooksQuestions(max_recipes=200).files(tmp_path, ["textual_cloze"])
    for q in read_questions(files["train"])[0]:
        assert q.choices[q.answer][0] not in [step.body for step in q.context]


@pytest.mark.parametrize("task", [TASKS[0], *(pytest.param(t, marks=pytest.mark.slow) for t in TASKS[1:])])
def test_each_task_trains_and_is_scored(task, tmp_path):
    overrides = [f"data=wikibooks/{task}", f"cache={tmp_path}/cache", "data.builder.max_recipes=60"]
    run("train", tmp_path / "run", [*overrides, *SMALL, "sanity=true", "trainer.max_epochs=2"])
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())["tasks"][task]
    assert any(word in metrics["verdict"][0] for word in ("chance",))
    assert {"chance", "Hasty Student"} <= {row["system"] for row in metrics["table"]}
    published = [row for row in metrics["table"] if row["kind"] == "published"]
    assert published and not any(row["same_questions"] for row in published)
    if task != "textual_cloze":
        drawn = list((tmp_path / "cache" / "rendered").rglob("*.jpg"))
        assert drawn and all("-rendered_" in path.name for path in drawn)


@pytest.mark.slow
def test_the_real_questions_train_the_reader_and_another_file_is_scored_whole(shared, tmp_path):
    from tests.made_up import made_up_questions, write_file

    write_file(tmp_path / "other.json", made_up_questions("textual_cloze", 30, seed=9, split="test"))
    overrides = ["data=recipeqa/textual_cloze", f"data.train_file={shared}/data/recipeqa/val_open.json.gz"]
    overrides += [f"data.test_file={tmp_path}/other.json", f"cache={tmp_path}/cache", "sanity=true"]
    run("train", tmp_path / "run", [*overrides, *SMALL, "sanity=true", "data.batch_size=64"])
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert metrics["tasks"]["textual_cloze"]["n"] == 30
    assert any("not the official test file" in note for note in metrics["notes"])


def test_the_model_of_the_documentation_trains(tmp_path, monkeypatch):
    """The example of docs/own_model.md is run as it is printed there."""
    import re
    import sys
    import types

    from omegaconf import OmegaConf, open_dict

    from engine.training import train
    from tests.runs import ROOT, composed, small_files

    page = (ROOT / "docs" / "own_model.md").read_text()
    (code,) = re.findall(r"```python\n(# models/bag\.py.*?)```", page, re.DOTALL)
    (config,) = re.findall(r"```yaml\n(# conf/model/bag\.yaml.*?)```", page, re.DOTALL)
    module = types.ModuleType("models.bag")
    exec(code, module.__dict__)
    monkeypatch.setitem(sys.modules, "models.bag", module)
    monkeypatch.setattr("models.bag", module, raising=False)
    settings = [o for o in SMALL if not o.startswith("model.")]
    cfg = composed("train", [*small_files(tmp_path), *settings, f"output_dir={tmp_path}/run"])
    with open_dict(cfg):
        cfg.model = OmegaConf.create(config)
    assert train(cfg) is not None
    assert json.loads((tmp_path / "run" / "metrics.json").read_text())["model"] == "bag"
