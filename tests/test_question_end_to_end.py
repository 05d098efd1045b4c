"""From recipes to scores: `prepare.py task=questions` on the default source, train.py and evaluate.py on its set."""

import json

import pytest

from data.build.question_set import verify
from data.recipeqa import read_questions
from data.records import TASKS
from tests.runs import SMALL, run

# The default source and every default but the size: few recipes, small pictures for the network that looks at them.
FEATURES = ["features.resize=36", "features.crop=32"]


def scores(folder) -> list[dict]:
    return [json.loads(line) for line in (folder / "predictions.jsonl").read_text(encoding="utf-8").splitlines()]


@pytest.mark.slow
def test_the_default_source_becomes_a_set_that_is_trained_on_and_scored(tmp_path, capsys):
    folder, cache = tmp_path / "set", [f"cache={tmp_path}/cache"]
    small = ["source.max_recipes=150", "text.epochs=2", "engine.workers=1", *FEATURES]
    run("prepare", tmp_path / "prepared", ["task=questions", f"out={folder}", *small, *cache])
    verify(folder)
    told = capsys.readouterr().out
    read = {split: read_questions(folder / f"{split}.json")[0] for split in ("train", "val", "test")}
    for task in TASKS:
        assert all(any(question.task == task for question in own) for own in read.values())
        assert f"train.py data=recipeqa/{task} data.root={folder}" in told
    assert json.loads((folder / "data_card.json").read_text())["set"]["verdict"] in " ".join(told.split())

    for task in ("textual_cloze", "visual_ordering"):
        data = [f"data=recipeqa/{task}", f"data.root={folder}", "features=efficientnet_lite0", *FEATURES, *cache]
        trained = tmp_path / task
        run("train", trained, [*data, *SMALL, "trainer.max_epochs=1"])
        asked = {question.qid: question.answer for question in read["test"] if question.task == task}
        checkpoint = trained / "checkpoints" / "best.ckpt"
        run("evaluate", trained / "again", [f"ckpt_path={checkpoint}", "trainer.accelerator=cpu", "sanity=false"])
        run("evaluate", trained / "student", ["model=hasty_student", *data, *SMALL[:3], "sanity=false"])
        for scored in (trained, trained / "again", trained / "student"):
            assert {row["qid"]: row["answer"] for row in scores(scored)} == asked, "every test question, none else"
        assert [row["scores"] for row in scores(trained)] == [row["scores"] for row in scores(trained / "again")]
