"""The data check: every planted fault is counted and named, and a sound root has none."""

import dataclasses
import io
import json
import pickle

import numpy as np
import pytest
from PIL import Image
from rich.console import Console

from data.build.check_recipes import check_recipes, render
from data.recipe1m import Filters, find_photos
from tests.made_up_recipes import COLOURS, made_up_recipes, write_layers, write_recipe1m
from tests.test_recipe1m_lmdb import value, write


class Words:
    def __init__(self, words):
        self.words = {word: k + 2 for k, word in enumerate(words)}

    def __len__(self):
        return len(self.words)

    def rows(self, words):
        return [self.words[word] for word in words if word in self.words]


ALL = Words([name.replace(" ", "_") for name in COLOURS])


def shown(report) -> str:
    console = Console(file=io.StringIO(), width=200)
    render(report, console)
    return console.file.getvalue()


def test_a_sound_root(tmp_path):
    recipes = write_recipe1m(tmp_path, 20)
    report = check_recipes(tmp_path, tmp_path / "cache", vocabulary=ALL, workers=1)
    assert report["problems"] == [] and "nothing to mend" in shown(report)
    n = sum(len(r.images) for r in recipes)
    assert report["pictures"]["decoded"] == report["pictures"]["asked"] == n
    assert report["pictures"]["kinds"] == {"JPEG RGB": n}
    assert sum(c["recipes"] for c in report["texts"]["splits"].values()) == 20
    coverage = report["texts"]["vocabulary"]["splits"]["train"]
    assert coverage["known"] == coverage["names"] == sum(sum(r.valid) for r in recipes if r.partition == "train")
    assert json.loads(json.dumps(report)) == report


def test_missing_files_are_one_problem(tmp_path):
    report = check_recipes(tmp_path, tmp_path / "cache")
    assert len(report["problems"]) == 1 and "layer1.json" in report["problems"][0] and "How to get" in shown(report)


def test_pictures_of_every_kind(tmp_path):
    recipes = write_recipe1m(tmp_path, 12, images=1)
    photos = find_photos(tmp_path)
    paths = [photos(r.partition, r.images[0]) for r in recipes]
    rng = np.random.default_rng(0)
    noise = Image.fromarray(rng.integers(0, 255, (40, 60, 3), np.uint8))
    paths[0].unlink()
    noise.save(paths[1], "JPEG")
    paths[1].write_bytes(paths[1].read_bytes()[:-500])
    paths[2].write_bytes(b"")
    paths[3].write_bytes(b"<html>")
    noise.convert("L").save(paths[4], "JPEG")
    noise.convert("CMYK").save(paths[5], "JPEG")
    Image.fromarray(rng.integers(0, 65535, (40, 60)).astype(np.uint16)).save(paths[6], "PNG")
    noise.save(paths[7], "GIF", save_all=True, append_images=[noise.rotate(90)])
    exif = Image.Exif()
    exif[0x0112] = 6
    noise.save(paths[8], "JPEG", exif=exif)
    Image.new("1", (18_000, 10_000)).save(paths[9], "PNG")  # 180 million pixels in 22 kB
    Image.new("1", (9_000, 9_000)).save(paths[10], "PNG")
    found = check_recipes(tmp_path, tmp_path / "cache", workers=2)
    pictures = found["pictures"]
    assert (pictures["missing"], pictures["undecodable"], pictures["decoded"]) == (1, 5, 6)
    assert pictures["missing_pictures"][0]["name"] == recipes[0].images[0]
    assert {p["id"] for p in pictures["undecodable_pictures"]} == {recipes[k].recipe_id for k in (1, 2, 3, 9, 10)}
    kinds = pictures["kinds"]
    for kind, n in {
        "JPEG L": 1,
        "JPEG CMYK": 1,
        "PNG I;16": 1,
        "animated": 1,
        "rotated by EXIF": 1,
        "enormous": 2,
    }.items():
        assert kinds[kind] == n, kind
    assert any("1 of 12 pictures missing" in line for line in found["problems"])
    assert any("5 of 12 pictures undecodable" in line for line in found["problems"])
    reasons = " ".join(p["reason"] for p in pictures["undecodable_pictures"])
    for words in ("the picture is damaged", "is empty", "is no picture of a known kind", "50 million pixels"):
        assert words in reasons, words
    assert all(r.images[0] in shown(found) for r in recipes[:4])
    few = check_recipes(tmp_path, tmp_path / "cache", pictures=4, workers=1)["pictures"]
    assert few["looked_at"] == 4 and few["asked"] == 12
    assert check_recipes(tmp_path, tmp_path / "cache", pictures=0)["pictures"] is None


def test_empty_texts_and_coverage(tmp_path):
    recipes = made_up_recipes({"train": 10})
    recipes[1] = dataclasses.replace(recipes[1], title=" ")
    recipes[2] = dataclasses.replace(recipes[2], instructions=())
    recipes[3] = dataclasses.replace(recipes[3], instructions=("", " \n"))
    recipes[4] = dataclasses.replace(recipes[4], ingredients=(), detected=(), valid=())
    recipes[5] = dataclasses.replace(recipes[5], valid=(False,) * len(recipes[5].valid))
    write_layers(tmp_path, recipes)
    report = check_recipes(tmp_path, tmp_path / "cache", vocabulary=Words(["butter", "rice"]), pictures=0)
    count = report["texts"]["splits"]["train"]
    assert (count["empty title"], count["no instructions"], count["an empty instruction"]) == (1, 2, 1)
    assert (count["no ingredients"], count["no name detected"]) == (1, 1)
    names = [name for r in recipes for name in Filters().names(r)]
    coverage = report["texts"]["vocabulary"]
    assert coverage["splits"]["train"]["names"] == len(names)
    assert coverage["splits"]["train"]["known"] == names.count("butter") + names.count("rice")
    worst = coverage["most_frequent_unknown"][0]
    assert worst["times"] == max(names.count(n) for n in COLOURS if n not in ("butter", "rice"))
    for words in (
        "1 of 10 recipes have an empty title",
        "2 of 10 recipes have no instructions",
        "knows",
        "no recipe of val",
    ):
        assert any(words in line for line in report["problems"]), words
    given = check_recipes(
        tmp_path, tmp_path / "cache", vocabulary=ALL, elements=lambda recipe: ["butter", "x"], pictures=0
    )
    assert given["texts"]["vocabulary"]["splits"]["train"]["known"] == 10


def test_duplicates_across_splits(tmp_path):
    recipes = made_up_recipes(30)
    by = {split: [k for k, r in enumerate(recipes) if r.partition == split] for split in ("train", "val", "test")}
    source, copy = recipes[by["train"][0]], by["test"][1]
    recipes[copy] = dataclasses.replace(
        recipes[copy],
        title=source.title.upper() + "!",
        ingredients=tuple(line.replace(",", " ;") for line in source.ingredients),
        detected=source.detected,
        valid=source.valid,
    )
    other = by["val"][0]
    recipes[other] = dataclasses.replace(recipes[other], images=(*recipes[other].images, source.images[0]))
    write_layers(tmp_path, recipes)
    found = check_recipes(tmp_path, tmp_path / "cache", pictures=0)["duplicates"]
    assert found["recipes"]["between"] == {"train and val": 0, "train and test": 1, "val and test": 0}
    assert found["pictures"]["between"] == {"train and val": 1, "train and test": 0, "val and test": 0}
    assert {m["id"] for m in found["recipes"]["listed"][0]} == {source.recipe_id, recipes[copy].recipe_id}
    assert found["recipes"]["within"] == {"train": 0, "val": 0, "test": 0}


def test_files_and_lists_that_disagree(tmp_path):
    recipes = write_recipe1m(tmp_path, 20, pixels=0)
    entries = json.loads((tmp_path / "det_ingrs.json").read_text())
    (tmp_path / "det_ingrs.json").write_text(json.dumps(entries[:-1]))
    lists = {s: [r.recipe_id for r in recipes[:-1] if r.partition == s] for s in ("train", "val", "test")}
    lists["val"] += [lists["test"][0], "nowhere"]
    (tmp_path / "splits").mkdir()
    for split, ids in lists.items():
        (tmp_path / "splits" / f"{split}.txt").write_text("\n".join(ids))
    (tmp_path / "remove1M.txt").write_text(f"{lists['train'][0]}\n{recipes[3].recipe_id}\n")
    report = check_recipes(tmp_path, tmp_path / "cache", pictures=0)
    assert report["files"]["skipped"] == {"records of layer1.json that have no entry in det_ingrs.json": 1}
    assert report["files"]["listed"][0]["id"] == recipes[-1].recipe_id
    val = report["lists"]["splits"]["val"]
    assert (val["not_in_table"], val["absent"], val["other_partition"]) == (1, ["nowhere"], 1)
    assert report["lists"]["shared"]["val and test"] == {"ids": 1, "listed": [lists["test"][0]]}
    assert lists["train"][0] in report["lists"]["splits"]["train"]["to_be_removed"]
    for words in ("have no entry in det_ingrs.json", "in no file", "share 1 ids", "in the removal list too"):
        assert any(words in line for line in report["problems"]), words
    (tmp_path / "splits" / "val.txt").unlink()
    assert any("no val.txt" in line for line in check_recipes(tmp_path, tmp_path / "cache", pictures=0)["problems"])


def test_lmdbs_against_the_layers(tmp_path):
    recipes = write_recipe1m(tmp_path, 20, pixels=0)
    train = [r for r in recipes if r.partition == "train"]
    records = {
        r.recipe_id: value(
            len(r.instructions),
            rows=(2, 5, 1),
            number=r.class_id + 1,
            imgs=[{"id": name, "url": ""} for name in r.images],
        )
        for r in train
    }
    write(tmp_path / "train_lmdb", records)
    report = check_recipes(tmp_path, tmp_path / "cache", vocabulary=ALL, pictures=0)
    found = report["lmdb"]["splits"]["train"]
    assert report["problems"] == [] and found["keys"] == found["looked_at"] == len(train)
    assert found["highest_ingredient"] == 5 and found["pairs_without_record"] == 0
    names = [r.recipe_id for r in train]
    records[names[0]] = value(
        len(train[0].instructions) + 1, number=train[0].class_id + 1, imgs=records[names[0]]["imgs"]
    )
    records[names[1]]["classes"] += 1
    records[names[2]]["imgs"].append({"id": "abcd.jpg"})
    records[names[3]]["ingrs"][0] = len(ALL) + 2
    records[names[4]] = value(intrs=np.zeros((1, 4), np.float32))
    records["zz"] = value()
    base = tmp_path / "other"
    write_recipe1m(base, 20, pixels=0)
    write(base / "train_lmdb", records)
    (base / "train_keys.pkl").write_bytes(pickle.dumps([*names, "zz"], 2))
    report = check_recipes(base, tmp_path / "cache", vocabulary=ALL, pictures=0)
    found = report["lmdb"]["splits"]["train"]
    assert found["not_in_table"] == 1 and found["faults"] == {
        "another class than classes1M": 1,
        "another number of instructions than layer1": 1,
        "ingredient numbers beyond the vocabulary": 1,
        "picture names that layer2 has not": 1,
        "unreadable": 1,
    }
    assert len(report["problems"]) == 6 and names[2] in shown(report)
    (base / "train_keys.pkl").write_bytes(pickle.dumps(["absent"], 2))
    assert "different releases" in check_recipes(base, tmp_path / "cache", pictures=0)["problems"][0]


@pytest.mark.parametrize("plus", [False, True])
def test_an_empty_selection_is_told(tmp_path, plus):
    write_layers(
        tmp_path, [dataclasses.replace(r, images=()) for r in made_up_recipes(3)] + made_up_recipes(1, 9), plus
    )
    report = check_recipes(tmp_path, tmp_path / "cache", plus=plus, pictures=0)
    assert sum("is left after the filters" in line for line in report["problems"]) == 2


def test_basedcooking(shared, tmp_path):
    report = check_recipes(shared / "data" / "recipe1m" / "basedcooking", tmp_path, workers=1)
    assert report["pictures"]["decoded"] == 134 and report["files"]["skipped"] == {}
    assert report["pairs"]["kept"] == {"train": 79, "val": 18, "test": 17}
    assert report["problems"] == []
