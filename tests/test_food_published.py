"""Published figures on FoodieQA: the file agrees with the collected facts, and the reader hands on what it should."""

import json
import re
from collections import Counter

import pytest
import yaml

from data.errors import InputError
from engine.food_published import published_food_rows, published_groups, published_prompt_rows
from tests.runs import ROOT

ABLATIONS = {
    "image only": "none",
    "one prompt": "none",
    "dish name and image": "dish_name",
    "dish name only, no image": "dish_name_only_textqa",
}
# Two cells of the authors' notebook read files of Mantis-8B-Idefics2; the collected facts call them Idefics2-8B.
MANTIS = {("sivqa", "en", 12), ("mivqa", "en", 48)}


@pytest.fixture(scope="module")
def published():
    return yaml.safe_load((ROOT / "conf" / "published" / "foodieqa.yaml").read_text(encoding="utf-8"))


def _collected(rows):
    """Every accuracy of the collected facts in one form: (kind, task, language, system, ablation, place, numbers)."""
    for row in rows:
        if row["metric"] != "accuracy":
            continue
        setting, system = row["setting"], row["system"]
        key = (row["task"], row["language"])
        cell = re.search(r"cell (\d+)", row["source"])
        if system.startswith("Human"):
            where = "in-domain" if setting.startswith("in-domain") else "all"
            source = re.search(r"table \d|figure \d", row["source"])[0].replace(" ", "")
            yield ("human", *key, where, source, row["value"], row["n"], row["confirmed"])
        elif setting == "constant answer":
            for language in row["language"].split("/"):
                yield "constant", row["task"], language, row["n_right"], row["n"]
        elif setting == "zero-shot, best of four prompts":
            prompt = row["prompt"] if isinstance(row["prompt"], int) else None
            yield "best", *key, system, prompt, row["value"], row["n"]
        elif "group" in row:
            group = "other" if row["group"].startswith("other (") else row["group"]
            by = {"food_category": "category"}.get(row["group_kind"], row["group_kind"])
            yield "group", row["task"], by, system, group, row["n_right"], row["n"]
        elif cell:
            name = "Mantis-8B" if (*key, int(cell[1])) in MANTIS else system
            setting = setting.split(", as scored")[0].split(", second")[0]
            numbers = row["n_right"], row.get("n_unparsed"), row["n"]
            yield "prompt", *key, name, ABLATIONS[setting], int(cell[1]), row["prompt"], *numbers
            assert abs(100 * row["n_right"] / row["n"] - row["value"]) < 0.006
        else:
            table = re.search(r"table \d", row["source"])[0].replace(" ", "")
            yield "table", *key, system, ABLATIONS[setting], table, row["prompt"], row["value"], row["n"]


def _ours(published):
    n = published["questions"]
    for row in published["human"]:
        source = row["source"], row["accuracy"], row["n"], row["confirmed"]
        yield ("human", row["task"], row["language"], row["questions"], *source)
    for row in published["constant"]:
        for language in row["languages"]:
            yield "constant", row["task"], language, row["right"], n[row["task"]]
    for block in published["best_of_four"]:
        for system, found in block["systems"].items():
            task = block["task"]
            yield "best", task, block["language"], system, found.get("prompt"), found["accuracy"], n[task]
    for row in published["ablations"]:
        for prompt, value in enumerate(row["accuracy"]):
            yield "table", "sivqa", "zh", row["system"], row["ablation"], row["source"], prompt, value, n["sivqa"]
    for row in published["prompts"]:
        guessed = row["guessed"] or [None] * 4
        for prompt, (right, unread) in enumerate(zip(row["right"], guessed, strict=True)):
            key = row["task"], row["language"], row["system"], row["ablation"], row["cell"]
            yield "prompt", *key, prompt, right, unread, n[row["task"]]
    for row in published["groups"]:
        sizes = published["group_sizes"][row["task"]][row["by"]]
        for (group, size), right in zip(sizes.items(), row["right"], strict=True):
            yield "group", row["task"], row["by"], row["system"], group, right, size


def test_every_accuracy_of_the_collected_facts_is_here_and_no_other(shared, published):
    facts = json.loads((shared / "published" / "foodieqa.json").read_text(encoding="utf-8"))
    collected, ours = Counter(_collected(facts)), Counter(_ours(published))
    assert sum(collected.values()) > 300
    assert ours == collected


def test_groups_add_up_to_the_best_prompt_of_the_model(published):
    for task, by in (("mivqa", "question_type"), ("sivqa", "question_type")):
        for row in published_groups(task, by):
            right = sum(r for r, _ in row["groups"].values())
            n = sum(size for _, size in row["groups"].values())
            printed = [p for p in published_prompt_rows(task, "zh") if p["system"] == row["system"]]
            assert n == published["questions"][task]
            assert right in {max(p["right"]) for p in printed}, (task, row["system"])
    both = [sum(n for _, n in published_groups("mivqa", by)[0]["groups"].values()) for by in ("cuisine", "category")]
    assert both == [238, 165]


def test_rows_of_a_cell_people_first_then_the_best():
    rows = published_food_rows("mivqa", "zh")
    assert [row["kind"] for row in rows[:2]] == ["human", "best of four"]
    assert [(row["system"], row["accuracy"]) for row in rows[:3]] == [
        ("human", 91.69),
        ("GPT-4o", 86.35),
        ("GPT-4V", 78.92),
    ]
    (idefics,) = [row for row in rows if row["system"] == "Idefics2-8B"]
    assert (idefics["n"], round(idefics["mean"], 1), round(idefics["sd"], 1), idefics["guessed"]) == (403, 44.2, 7.1, 0)
    (mantis,) = [row for row in rows if row["system"] == "Mantis-8B"]
    assert (round(mantis["mean"], 1), round(mantis["sd"], 1), mantis["guessed"]) == (33.8, 10.5, 457)
    assert all("mean" not in row for row in rows if row["system"].startswith("GPT"))
    assert all(row["confirmed"] and row["source"] for row in rows)


def test_means_over_prompts_that_the_benchmarks_spec_states():
    for task, language, system, mean, sd in (
        ("mivqa", "en", "Idefics2-8B", 38.5, 4.1),
        ("mivqa", "en", "Mantis-8B", 36.6, 5.7),
        ("mivqa", "zh", "Phi-3-vision-4.2B", 27.1, 1.3),
        ("sivqa", "zh", "Phi-3-vision-4.2B", 39.5, 3.7),
        ("textqa", "zh", "GPT-4", 42.9, 20.5),
        ("textqa", "zh", "Phi-3-medium-4k-instruct", 32.9, 8.6),
        ("textqa", "zh", "Llama3-8B-Chinese", 46.5, 0.6),
    ):
        (row,) = [row for row in published_food_rows(task, language) if row["system"] == system]
        assert (row["mean"], row["sd"]) == (pytest.approx(mean, abs=0.05), pytest.approx(sd, abs=0.06)), system


def test_ablations_of_tables_4_and_5():
    named = {row["system"]: row["accuracy"] for row in published_food_rows("sivqa", "zh", "dish_name")}
    assert named == {"Yi-VL-34B": 79.3, "Yi-VL-6B": 76.17, "Idefics2-8B": 42.19}
    (only,) = published_food_rows("sivqa", "zh", "dish_name_only_textqa")
    assert only["accuracy"] == 37.11 and only["guessed"] == 56 + 60 + 3
    for task, language, ablation in (
        ("sivqa", "en", "dish_name"),
        ("sivqa", "zh", "blank_image"),
        ("sivqa", "zh", "dish_name_only"),
        ("textqa", "en", "none"),
    ):
        assert published_food_rows(task, language, ablation) == []


def test_people_in_english_carry_the_dagger():
    human = published_food_rows("sivqa", "en")[-1]
    assert published_food_rows("sivqa", "en")[0]["kind"] == "human" and human["kind"] == "best of four"
    assert "dagger" in published_food_rows("sivqa", "en")[0]["note"]


def test_another_task_or_language_is_one_line():
    for task, language in (("vqa", "zh"), ("mivqa", "de")):
        with pytest.raises(InputError, match="choose mivqa, sivqa, textqa, in zh or en"):
            published_food_rows(task, language)
