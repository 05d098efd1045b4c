"""The check of a data set: counts, overlaps, images that are absent or damaged, and a rendering a person can read."""

import io
import json
from pathlib import Path

import pytest
from made_up import image_names, made_up_questions, write_file, write_images
from PIL import Image
from rich.console import Console

from data.build import check as module
from data.build.check import check_recipeqa, render
from data.records import TASKS


def all_tasks(n: int, seed: int, **settings) -> list[dict]:
    return [record for task in TASKS for record in made_up_questions(task, n, seed, **settings)]


def rendered(report: dict, width: int = 80) -> str:
    console = Console(file=io.StringIO(), width=width, highlight=False)
    render(report, console)
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_a_sound_data_set(tmp_path: Path) -> None:
    train, val = all_tasks(6, 1, split="train"), all_tasks(3, 2)
    files = {"train": write_file(tmp_path / "train.json", train), "val": write_file(tmp_path / "val.json.gz", val)}
    names = image_names(train + val)
    write_images(tmp_path / "images", names, size=8)
    report = check_recipeqa(files, tmp_path / "images")
    json.dumps(report)
    assert report["problems"] == []
    assert report["files"]["train"]["records"] == 24 and report["files"]["val"]["stated_splits"] == {"val": 12}
    shared = report["between"]["train and val"]
    assert (shared["recipes"], shared["qids"]) == (0, 0)
    images = report["images"]
    assert (images["asked"], images["decoded"], images["missing"]) == (len(set(names)), len(set(names)), 0)
    assert images["modes"] == {"RGB": images["asked"]}
    text = rendered(report)
    assert "nothing to mend" in text and "24 records, 6 recipes, not an official file" in text
    assert max(map(len, text.replace(str(files["train"]), "").replace(str(files["val"]), "").splitlines())) <= 80


def test_overlaps(tmp_path: Path) -> None:
    train, val = all_tasks(6, 1), all_tasks(4, 2)
    shared_record = train[0]
    val[0]["context"][0]["body"] = "  ".join(train[1]["context"][0]["body"].upper().split())
    train[1]["context"][1]["body"] = val[1]["context"][1]["body"] = "Enjoy it all!"
    train[1]["context"][0]["body"] += " one two three four five six seven"
    val[0]["context"][0]["body"] += "  One TWO three four five six seven"
    files = {
        "train": write_file(tmp_path / "train.json", train),
        "val": write_file(tmp_path / "val.json", val),
        "test": write_file(tmp_path / "test.json", [*all_tasks(2, 3), shared_record]),
    }
    report = check_recipeqa(files)
    assert report["between"]["train and val"] == {
        "recipes": 0, "recipe_ids": [], "qids": 0, "qid_list": [], "texts": 1
    }  # fmt: skip
    pair = report["between"]["train and test"]
    assert pair["recipe_ids"] == [shared_record["recipe_id"]] and pair["qid_list"] == [shared_record["qid"]]
    assert report["between"]["val and test"]["recipes"] == 0 and report["images"] is None
    assert report["problems"] == ["train and test share 1 recipes; split by recipe", "train and test share 1 qids"]
    assert "train and test" in rendered(report)


def test_bad_files_and_records_are_listed_not_raised(tmp_path: Path) -> None:
    records = all_tasks(10, 1)
    for record in records[:25]:
        record["answer"] = 4
    records[30]["qid"] = records[29]["qid"]
    (tmp_path / "cut.json").write_text('{"data": [')
    files = {
        "train": write_file(tmp_path / "train.json", records),
        "val": tmp_path / "cut.json",
        "test": tmp_path / "no.json",
    }
    report = check_recipeqa(files, tmp_path / "nowhere", cap=5)
    train = report["files"]["train"]
    assert train["bad"] == 26 and len(train["bad_records"]) == 5 and train["bad_records"][0]["record"] == 1
    assert check_recipeqa(files)["files"]["train"]["bad"] == 26
    assert "not valid JSON" in report["files"]["val"]["error"] and "no such file" in report["files"]["test"]["error"]
    problems = "\n".join(report["problems"])
    assert "26 bad records" in problems and "cut.json" in problems and "no.json" in problems and "nowhere" in problems
    text = rendered(report, 200)
    assert "bad records (first 5 of 26)" in text and "answer is 4" in text and "cut.json: not valid JSON" in text


def test_nothing_at_all_and_no_question(tmp_path: Path) -> None:
    assert rendered(check_recipeqa({})).strip() == "nothing to mend"
    report = check_recipeqa({"val": write_file(tmp_path / "val.json", [])})
    assert report["problems"] == [f"{tmp_path / 'val.json'}: the val file holds no question"] and rendered(report)


def test_images_absent_damaged_or_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    records = all_tasks(3, 1)
    path, folder = write_file(tmp_path / "val.json", records), tmp_path / "images"
    names = image_names(records)
    write_images(folder, names, size=40)
    (folder / names[0]).unlink()
    whole = (folder / names[1]).read_bytes()
    (folder / names[1]).write_bytes(whole[: len(whole) // 2])
    (folder / names[2]).write_bytes(b"")
    (folder / names[3]).write_text("<html>not found</html>")
    Image.new("L", (40, 40)).save(folder / names[4])
    Image.new("RGB", (90, 90)).save(folder / names[5])
    monkeypatch.setattr(module, "MAX_PIXELS", 5000)
    images = check_recipeqa({"val": path}, folder)["images"]
    assert images["missing_images"] == [{"name": names[0], "qid": records[0]["qid"]}] and images["missing"] == 1
    assert [i["name"] for i in images["undecodable_images"]] == [names[1], names[2], names[3], names[5]]
    assert "90 x 90 pixels" in images["undecodable_images"][3]["reason"]
    assert images["decoded"] == len(names) - 5 and images["modes"] == {"L": 1, "RGB": len(names) - 6}
    report = check_recipeqa({"val": path}, folder, cap=2, workers=1)
    assert len(report["images"]["undecodable_images"]) == 2 and report["images"]["undecodable"] == 4
    text = rendered(report, 160)
    assert "images (first 3 of 5)" in text and f"4 of {len(names)} images undecodable" in text


def test_texts_of_the_files_cannot_write_markup(tmp_path: Path) -> None:
    records = all_tasks(1, 1)
    records[0].update(qid="[bold]x[/bold]", answer="[/]")
    report = check_recipeqa({"val": write_file(tmp_path / "[red]val.json", records)})
    text = rendered(report, 160)
    assert "[bold]x[/bold]" in text and "'[/]'" in text and "[red]val.json" in text


def test_real_questions(shared: Path) -> None:
    path = shared / "data" / "recipeqa" / "val_open.json.gz"
    report = check_recipeqa({"val": path}, shared / "data" / "recipeqa" / "images_prn_site")
    assert report["files"]["val"]["bad"] == 0 and report["images"]["asked"] == report["images"]["missing"] == 8782
    lines = {line.split("│")[1].strip(): line for line in rendered(report, 200).splitlines() if line.startswith("│")}
    assert lines["right choice occurs twice"].split("│")[2].strip() == "10"
    assert lines["a wrong order offered twice"].split("│")[5].strip() == "81"
