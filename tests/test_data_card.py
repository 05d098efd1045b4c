"""The data card: what it says, beside whom, and that nothing from outside breaks it."""

import json
import random
import re
import warnings
from dataclasses import replace

import pytest
from PIL import Image

from data import wikibooks
from data.build.questions import build_questions
from data.errors import InputError
from data.recipeqa import read_questions
from data.records import TASKS, SourceRecipe, SourceStep
from engine.card_figures import draw
from engine.data_card import OtherSet, card, render, verdict, write_card
from tests.made_up import made_up_questions, made_up_recipe

FIGURES = ["questions.png", "recipes.png", "categories.png", "biases.png", "wrong_choices.png"]


def source_recipes(n: int = 12, start: int = 0) -> list[SourceRecipe]:
    made = [made_up_recipe(number) for number in range(start, start + n)]
    return [
        SourceRecipe(
            recipe["recipe_id"],
            "t",
            ("soup", "cake", "")[i % 3],
            tuple(SourceStep(s["body"], s["title"], tuple(s["images"])) for s in recipe["steps"]),
        )
        for i, recipe in enumerate(made)
    ]


def made_up_set(n: int = 12, seed: int = 0) -> list[dict]:
    return [record for task in TASKS for record in made_up_questions(task, n, seed)]


def both_splits() -> dict[str, list[dict]]:
    return {"train": made_up_set(), "val": made_up_set(6, 1)}


def section(markdown: str, heading: str, level: int = 2) -> dict[str, list[str]]:
    """Rows of the first table below a heading: first cell -> the others."""
    part = markdown.split(f"\n{'#' * level} {heading}\n")[1]
    part = re.split(rf"\n#{{2,{level}}} ", part)[0]
    rows = [re.split(r"(?<!\\)\|", line)[1:-1] for line in part.splitlines() if line.startswith("|")]
    return {row[0].strip(): [cell.strip() for cell in row[1:]] for row in rows if not row[0].startswith("---")}


def check_tables(markdown: str) -> None:
    width = 0
    for line in markdown.splitlines():
        cells = len(re.split(r"(?<!\\)\|", line)) if line.startswith("|") else 0
        assert not (cells and width) or cells == width, line
        width = cells


@pytest.fixture(scope="module")
def small() -> dict:
    return card(
        both_splits(),
        [*source_recipes(), *source_recipes(6, 1_000_000)],
        title="made-up recipes",
        cleaning={"other language": 4, "fewer than 3 steps": 1_200},
        building={"recipes read": 18},
        settings={"seed": 1234, "fractions": (0.8, 0.2)},
        notes=["made up"],
        other=OtherSet("another set", {"test": made_up_set(5, 2)}),
    )


def test_the_card_is_plain_and_does_not_depend_on_the_order_of_the_recipes(small):
    assert json.loads(json.dumps(small, ensure_ascii=False)) == small
    recipes = [*source_recipes(), *source_recipes(6, 1_000_000)]
    random.Random(3).shuffle(recipes)
    again = card(both_splits(), iter(recipes), title="made-up recipes")
    assert json.dumps(again["set"]) == json.dumps(small["set"])


def test_counts_stand_beside_the_published_ones(small):
    text = render(small)
    check_tables(text)
    head = section(text, "Questions")[""]
    assert head == ["train", "val", "beside it: test", "RecipeQA train", "RecipeQA val", "RecipeQA test"]
    rows = section(text, "Questions")
    assert rows["textual cloze"] == ["12", "6", "5", "7,837", "961", "963"]
    assert rows["visual coherence"][3] == "7,118 (cited)"  # found in no primary text
    assert rows["all questions"] == ["48", "24", "20", "29,657", "3,562", "3,567"]
    assert rows["recipes with questions"][:3] == ["12", "6", "5"]
    sizes = section(text, "Recipes")
    assert sizes["steps"][-1] == "5.99 (cited)" and sizes["description tokens"][-1] == "443.01 (cited)"
    assert sizes[""] == ["all", "train", "val", "beside it: test", "RecipeQA train"]
    mean = sum(len(recipe.steps) for recipe in source_recipes()) / 12
    assert sizes["steps"][1].startswith(f"{mean:.2f} (")


def test_categories_cleaning_and_settings_are_told(small):
    text = render(small)
    assert section(text, "Categories") == {
        "category": ["recipes"],
        "cake": ["6 (33.3 %)"],
        "soup": ["6 (33.3 %)"],
        "(none given)": ["6 (33.3 %)"],
    }
    done = section(text, "What cleaning and building did")
    assert (
        done["fewer than 3 steps"] == ["1,200"] and done["other language"] == ["4"] and done["recipes read"] == ["18"]
    )
    settings = json.loads(text.split("```json\n")[1].split("```")[0])
    assert settings == {"seed": 1234, "fractions": [0.8, 0.2]} and "- made up" in text


def test_the_bias_table_shows_every_reading_beside_the_released_set(small):
    rows = section(render(small), "Textual cloze", 3)
    head = rows[""]
    assert head == ["train, n = 12", "val, n = 6", "beside it: test, n = 5", "RecipeQA val (measured), n = 961"]
    found = {(r["rule"], r["counted_in"]): r for r in small["set"]["biases"]["val"]["textual_cloze"]}
    shown = rows["least frequent choice (counted in train)"]
    assert shown[0] == "–" and shown[2] == "–" and shown[3] == "–"
    assert shown[1].startswith(f"{100 * found['least_frequent_choice', 'training']['accuracy']:.1f} (")
    assert rows["least frequent choice (transductive)"][3] == "47.7"
    assert rows["shortest choice, characters"][3] == "35.2"
    assert rows["TF-IDF, choice against the context (transductive)"][1] == "–"


def row(rule, looks_at, accuracy, exceeds, counted_in=None) -> dict:
    told = {"rule": rule, "looks_at": looks_at, "counted_in": counted_in}
    return {**told, "accuracy": accuracy, "n": 20, "exceeds": exceeds}


def test_the_verdict_names_task_way_and_split():
    found = {
        "train": {"textual_cloze": [row("a", "words", 0.9, True, "evaluated"), row("b", "length", 0.4, True)]},
        "val": {
            "textual_cloze": [row("a", "words", 0.5, True, "training"), row("b", "length", 0.35, False)],
            "visual_coherence": [row("c", "frequency", 0.41, True, "evaluated"), row("d", "position", 0.3, False)],
        },
    }
    assert verdict(found, 0.05) == (
        "Rules that understand nothing answer more than 30 %: textual cloze 40.0 % by the length of the choices (train,"
        " n = 20) and 50.0 % by words that choice and recipe share (val, n = 20); visual coherence 41.0 % by how often"
        " a choice is offered (val, n = 20, transductive)."
    )
    calm = {"val": {"textual_cloze": [row("b", "length", 0.6, False)]}}
    assert verdict(calm, 0.1).startswith("No rule that understands nothing answers more than 35 % of any task")


def test_the_verdict_is_the_first_sentence_and_follows_the_threshold():
    records = made_up_questions("textual_cloze", 60)
    for record in records:
        record["choice_list"] = [
            c if i == record["answer"] else f"{c} and more" for i, c in enumerate(record["choice_list"])
        ]
        record["choice_list"][record["answer"]] = "Mix"
    strict, lax = (card({"test": records}, threshold=threshold) for threshold in (0.05, 0.74))
    first = render(strict).split("\n\n")[1]
    assert first.startswith(
        "**Rules that understand nothing answer more than 30 %: textual cloze 100.0 % by the length"
    )
    assert "**100.0 (94.0–100.0)**" in render(strict)
    assert lax["set"]["verdict"].startswith("No rule that understands nothing answers more than 99 %")


def test_texts_from_outside_break_neither_tables_nor_figures(tmp_path):
    hostile = ["", "a | b\n# c", "$x_{", "<script>alert(1)</script>", "麻婆豆腐"]
    hostile += ["\U0001f35d", "\u0e01\u0e02", "\\", "`", "*" * 400]
    records = made_up_questions("textual_cloze", 16)
    for i, record in enumerate(records):
        wrong = (record["answer"] + 1) % 4
        record["choice_list"][wrong] = hostile[i % len(hostile)]
    recipes = [replace(r, category=hostile[i % len(hostile)]) for i, r in enumerate(source_recipes(16))]
    made = card({"val": records}, recipes, title="$a | b\n<b>", cleaning={"x | y": 1}, notes=["<i> | \n## z"])
    text = render(made)
    check_tables(text)
    assert "<script>" not in text and "\n# c" not in text and "\n## z" not in text and "(empty)" in text
    assert len(re.findall(r"^# ", text, re.MULTILINE)) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert draw(made, tmp_path) == FIGURES


def test_the_card_is_written_whole(small, tmp_path):
    names = write_card(tmp_path / "new" / "set", small)
    assert names == ["data_card.json", "data_card.md", *FIGURES]
    folder = tmp_path / "new" / "set"
    assert sorted(path.name for path in folder.iterdir()) == sorted(names)
    assert json.loads((folder / "data_card.json").read_text(encoding="utf-8")) == small
    text = (folder / "data_card.md").read_text(encoding="utf-8")
    for name in FIGURES:
        assert f"]({name})" in text
        with Image.open(folder / name) as image:
            assert image.width > 800 and len(set(image.convert("L").resize((64, 64)).getdata())) > 10


@pytest.mark.parametrize("task", TASKS)
def test_a_set_of_one_task_has_a_card(task, tmp_path):
    made = card({"val": made_up_questions(task, 4)})
    text = render(made)
    check_tables(text)
    assert ("## Wrong orders" in text) == (task == "visual_ordering")
    assert ("## Wrong choices that are used most" in text) == (task != "visual_ordering")
    assert "## Categories" not in text and "## What cleaning" not in text and "## Settings" not in text
    if task in ("textual_cloze", "visual_ordering"):  # the ones that lack a panel
        assert draw(made, tmp_path) == [name for name in FIGURES if name != "categories.png"]


def test_what_does_not_fit_is_said():
    with pytest.raises(InputError, match="no questions to describe"):
        card({"val": []})
    with pytest.raises(InputError, match="is not among the 3 recipes"):
        card({"val": made_up_set()}, source_recipes(3))
    with pytest.raises(InputError, match=r"threshold=0\.8"):
        card({"val": made_up_set(2)}, threshold=0.8)


def test_questions_from_wikibooks_beside_themselves_without_recipes():
    recipes = [
        replace(r, steps=tuple(replace(s, images=(f"{r.recipe_id}_{i}_0.jpg",)) for i, s in enumerate(r.steps, 1)))
        for r in wikibooks.read_recipes()[:240]
    ]
    questions, report = build_questions(recipes, TASKS, text_field="body")
    made = card(questions, recipes, building=report["rules"], other=OtherSet("the same", questions))
    own, other = made["set"], made["other"]
    assert (
        own["biases"] == other["biases"] and own["questions"] == other["questions"] and own["leaks"] == other["leaks"]
    )
    assert (
        own["recipes"]["all"]["n"] == 240
        and own["recipes"]["train"]["n"] == report["questions"]["visual_cloze"]["train"]
    )
    assert own["recipes"]["val"]["sizes"]["steps"] == other["recipes"]["val"]["sizes"]["steps"]
    defects = [d for own_task in own["questions"].values() for d in [own_task["textual_cloze"]["defects"]]]
    assert all(d["alike"]["n"] == d["empty_choice"]["n"] == d["equal_distractors"]["n"] == 0 for d in defects)
    assert all(found["visual_ordering"]["orders"]["repeated"][0] == 0 for found in own["questions"].values())
    for tasks in own["leaks"].values():
        assert tasks["visual_cloze"]["from_recipe_of"]["own recipe"] == 0
        assert tasks["textual_cloze"]["rows"] == []  # its body is asked
    frequency = [r for tasks in own["biases"].values() for r in tasks["textual_cloze"] if r["looks_at"] == "frequency"]
    assert frequency and not any(r["exceeds"] for r in frequency)  # rings offer each text as often as it is right
    check_tables(render(made))


def test_the_card_of_the_released_questions(shared, tmp_path):
    released = read_questions(shared / "data" / "recipeqa" / "val_open.json.gz")[0]
    made = card({"val": released}, title="RecipeQA, open part of val")
    assert made["set"]["verdict"] == (
        "Rules that understand nothing answer more than 30 %: textual cloze 35.9 % by the length of the choices (val, "
        "n = 574), 47.1 % by how often a choice is offered (val, n = 574, transductive) and 54.8 % by words that "
        "choice and recipe share (val, n = 574, transductive)."
    )
    text = render(made)
    check_tables(text)
    rows = section(text.split("## Bias report")[1], "Textual cloze", 3)
    assert rows["least frequent choice (transductive)"] == ["**47.1 (42.0–52.3)**", "47.7"]
    assert rows["shortest choice, characters"] == ["**35.9 (31.6–40.4)**", "35.2"]
    told = section(text.split("## Questions of each task")[1], "Textual cloze", 3)
    assert told["right choice stands twice"] == ["10", "11"]
    assert told["steps of the context"] == ["6.69 (6; 20)", "6.7 (max 20)"]
    leaked = section(text.split("## What names and numbers")[1], "Visual cloze", 3)
    assert leaked["recipe in the image names"][0].startswith("100.0 (")
    assert leaked["wrong images with step 0"] == ["225 of 1,521 (14.8 %)", "15.2 %"]
    assert section(text, "Recipes")["steps"] == ["6.48 (6; 20)", "5.99 (cited)"]
