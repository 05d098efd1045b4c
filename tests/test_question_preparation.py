"""`prepare.py task=questions` as the page docs/own_benchmark.md has it, and what it says when something is wrong."""

import json
import re

import pytest

from data.errors import InputError
from data.recipeqa import read_questions
from tests.runs import ROOT, run

SMALL = ["questions.same_split=false", "questions.tasks=[textual_cloze]", "questions.images=false", "engine.workers=1"]


def ten_recipes(folder):
    """The page's own recipes, without their pictures."""
    page = (ROOT / "docs" / "own_benchmark.md").read_text(encoding="utf-8")
    lines = re.search(r"<!-- recipes.jsonl -->\n```json\n(.*?)```", page, re.DOTALL)[1]
    folder.mkdir(parents=True, exist_ok=True)
    records = [json.loads(line) for line in lines.splitlines()]
    for record in records:
        for step in record["steps"]:
            step.pop("images", None)
    (folder / "recipes.jsonl").write_text("\n".join(map(json.dumps, records)) + "\n", encoding="utf-8")
    return folder


def made(tmp_path, *overrides, out="set"):
    given = ["task=questions", "source=jsonl", f"source.root={ten_recipes(tmp_path / 'mine')}", *SMALL, *overrides]
    run("prepare", tmp_path / "run", [*given, f"out={tmp_path / out}", f"cache={tmp_path / 'cache'}", "text.epochs=2"])
    return tmp_path / out


def test_ten_recipes_become_a_set_with_its_card(tmp_path, capsys):
    folder = made(tmp_path, "questions.distractors=random")
    for split in ("train", "val", "test"):
        questions, report = read_questions(folder / f"{split}.json")
        assert questions and not report.skipped and {q.split for q in questions} == {split}
    text = (folder / "data_card.md").read_text(encoding="utf-8")
    assert "shortest choice" in text.lower() and "RecipeQA" in text and "biases.png" in text
    told = capsys.readouterr().out
    assert f"python train.py data=recipeqa/textual_cloze data.root={folder}" in told
    assert re.search(r"textual_cloze\W+6\W+2\W+2\W", told) and re.search(r"recipes\W+6\W+2\W+2\W", told)
    assert made(tmp_path, "questions.distractors=random") == folder, "made once"
    assert "holds this very set already" in capsys.readouterr().out


def test_a_made_set_is_checked_and_a_changed_one_found(tmp_path, capsys):
    folder = made(tmp_path, "questions.distractors=random")
    check = ["task=check", "data=recipeqa/textual_cloze", f"data.root={folder}"]
    run("prepare", tmp_path / "run", check)
    assert "all that it promises holds" in capsys.readouterr().out
    (folder / "test.json").write_bytes((folder / "val.json").read_bytes())
    with pytest.raises(InputError):
        run("prepare", tmp_path / "run", check)


def test_a_set_of_other_settings_is_not_overwritten(tmp_path):
    made(tmp_path, "questions.distractors=random")
    with pytest.raises(InputError, match=r"out="):
        made(tmp_path, "questions.distractors=random", "questions.seed=7")


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["questions.distractors=magic"], "questions.distractors=magic"),
        (["questions.k_lo=9", "questions.k_hi=10"], "k_hi"),
        (["source.root=/nowhere/at/all"], "/nowhere/at/all"),
        (["questions.distractors=neighbourhood", "questions.same_split=true"], "recipes"),
        (["questions.cleaning.language=zz"], "language"),
        (["questions.cleaning.language=zh"], "another language: 10)"),
        (["questions.k_lo=two"], "questions.k_lo=two: must be a whole number"),
        (["questions.cleaning.min_steps=few"], "questions.cleaning.min_steps=few: must be a whole number"),
        (["engine.workers=all"], "engine.workers=all: must be a whole number"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(tmp_path, overrides, words):
    with pytest.raises(Exception) as caught:
        made(tmp_path, *overrides)
    error = caught.value if isinstance(caught.value, InputError) else caught.value.__cause__
    assert isinstance(error, InputError) and words in str(error)
    assert not (tmp_path / "set").exists()


def test_what_shared_readers_say_names_the_keys_of_this_command(tmp_path):
    (tmp_path / "val.json").write_text('{"data": [{"task": "textual_cloze"}]}', encoding="utf-8")
    with pytest.raises(InputError, match=r"record 1 .*source\.on_bad_record=skip"):
        made(tmp_path, "source=recipeqa", f"source.root={tmp_path / 'val.json'}")


def test_a_set_is_not_put_below_a_file(tmp_path):
    (tmp_path / "note").write_text("mine", encoding="utf-8")
    with pytest.raises(InputError, match="note is a file"):
        made(tmp_path, "questions.distractors=random", out="note/set")


def test_the_first_reason_is_told_where_no_recipe_is_left(tmp_path):
    (tmp_path / "recipes.jsonl").write_text("{}\n[]\n", encoding="utf-8")
    with pytest.raises(Exception, match=r"2 left out; the first: .*line 1"):
        made(tmp_path, f"source.root={tmp_path / 'recipes.jsonl'}", "source.on_bad_record=skip")


def test_questions_need_a_place(tmp_path):
    with pytest.raises(InputError, match="out: give the folder"):
        run("prepare", tmp_path, ["task=questions", "source=jsonl", f"source.root={ten_recipes(tmp_path / 'm')}"])
