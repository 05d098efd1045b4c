"""The check of a built set: quiet where all is well, and one line for each promise that somebody broke."""

import json
import shutil

import pytest

from data.build.check_set import check_set
from data.checksums import write_sums
from data.errors import InputError
from data.store import file_digest, read_manifest, write_manifest
from tests.made_up_source import MadeUpSource
from tests.test_question_set import HALVES, build


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sound")
    source = MadeUpSource(80, folder / "images", hubs=False)
    tasks = ("textual_cloze", "visual_cloze", "visual_ordering")
    build(source, folder / "set", folder, distractors="random", tasks=tasks, hub_limit=3)
    return folder / "set"


@pytest.fixture
def copy(sound, tmp_path):
    """A copy of the set and a function that changes its files and signs them again."""
    folder = tmp_path / "set"
    shutil.copytree(sound, folder)

    def change(edit, *splits):
        data = {split: json.loads((folder / f"{split}.json").read_bytes())["data"] for split in splits}
        edit(*data.values())
        for split, records in data.items():
            (folder / f"{split}.json").write_text(json.dumps({"data": records}))
        write_sums(folder, [f"{split}.json" for split in data])
        manifest = read_manifest(folder)
        for name in manifest["sha256"]:
            manifest["sha256"][name] = file_digest(folder / name)
        write_manifest(folder, manifest)
        return check_set(folder)

    return change


def of(records, task):
    return next(record for record in records if record["task"] == task)


def test_a_sound_set_has_no_problems(sound):
    report = check_set(sound)
    assert report["problems"] == [] and report["defects"] == {}
    assert report["most_frequent_wrong_choice"]["textual_cloze"] == 3
    assert sum(report["recipes"].values()) > 70


def test_files_must_be_those_of_the_manifest(sound, tmp_path):
    shutil.copytree(sound, tmp_path / "set")
    with open(tmp_path / "set" / "train.json", "a") as file:
        file.write(" ")
    with pytest.raises(InputError, match=r"train.json: is absent or does not have its checksum"):
        check_set(tmp_path / "set")
    (tmp_path / "set" / "manifest.json").unlink()
    with pytest.raises(InputError, match=r"manifest.json: is absent"):
        check_set(tmp_path / "set")


def test_recipes_and_images_in_two_splits(copy):
    def edit(train, val):
        moved = dict(of(train, "visual_cloze"), split="val")
        val.append(moved | {"qid": moved["qid"].replace("2000-", "2000-9", 1)})

    problems = check(copy(edit, "train", "val"))
    assert any("train and val share 1 recipes" in line for line in problems)
    assert any("train and val share 7 images" in line for line in problems)
    assert any("near-duplicate" in line for line in problems)


def test_near_duplicates_in_two_splits(copy):
    def edit(train, test):
        theirs, ours = of(train, "textual_cloze"), of(test, "textual_cloze")
        ours["context"] = [
            dict(step, body=" ".join(other["body"].split()[:-1]), images=[])
            for step, other in zip(theirs["context"], theirs["context"], strict=True)
        ]
        test[:] = [r for r in test if r["recipe_id"] != ours["recipe_id"] or r is ours]

    report = copy(edit, "train", "test")
    (pair,) = report["between"]["train and test"]["near_duplicates"]
    assert pair["splits"] == ["train", "test"] and 0.65 < pair["similarity"] < 1
    assert any("train and test share 1 near-duplicate recipes" in line for line in report["problems"])


def test_choices_that_are_empty_equal_or_no_orders(copy):
    def edit(train):
        textual = [record for record in train if record["task"] == "textual_cloze"]
        textual[0]["choice_list"][(textual[0]["answer"] + 1) % 4] = " - 12 "
        right = textual[1]["choice_list"][textual[1]["answer"]]
        textual[1]["choice_list"][(textual[1]["answer"] + 1) % 4] = right.upper() + "!"
        order = of(train, "visual_ordering")
        order["choice_list"][(order["answer"] + 1) % 4] = order["choice_list"][(order["answer"] + 2) % 4]

    report = copy(edit, "train")
    assert report["defects"] == {
        "textual_cloze: an empty choice": 1,
        "textual_cloze: two equal choices": 1,
        "visual_ordering: two equal choices": 1,
    }
    assert sum("build the set again" in line for line in report["problems"]) == 3


def test_hubs_above_the_limit(copy):
    def edit(train):
        for record in [record for record in train if record["task"] == "textual_cloze"][:4]:
            record["choice_list"][(record["answer"] + 1) % 4] = "Ingredients"

    report = copy(edit, "train")
    assert [line.split(": ")[-1] for line in report["problems"]] == [
        "textual_cloze offers a wrong choice 4 times; hub_limit is 3"
    ]


def check(report):
    return report["problems"]


def test_splits_are_those_that_were_asked_for(sound):
    shares = check_set(sound)["recipes"]
    assert all(
        abs(shares[split] / sum(shares.values()) - part) < 0.15 for split, part in zip(shares, HALVES, strict=True)
    )
