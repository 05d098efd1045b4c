"""The demo sets: built once, whole or not at all, in the release's schema, and saying what they are."""

import json
import logging
import shutil
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from PIL import Image

from data.build import demo_dishes
from data.build.demo_dishes import TABLE, build_demo, photo_names, read_photos
from data.build.demo_page import demo_page
from data.build.dish_questions import read_templates
from data.dish_table import read_dishes, write_dishes
from data.errors import InputError
from data.foodieqa import FoodieQAData
from data.records import FOOD_TASKS
from data.store import file_digest

TYPES = {  # question types of the paper's tables 6 and 7
    "sivqa": {"cuisine_type", "region-2", "cooking-skills", "flavor", "present", "main-ingredient"},
    "textqa": {"cuisine_type", "region-2", "cooking-skills", "flavor", "present", "main-ingredient", "warm-cold"},
    "mivqa": {"ingredients", "food-type", "taste", "cooking-skills", "color", "eating-habit", "plating", "region",
              "allergy", "amount"},
}  # fmt: skip


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo_dishes, "SIZE", 32)
        yield build_demo(tmp_path_factory.mktemp("cache"))


@pytest.fixture
def few(tmp_path, monkeypatch):
    """A demo set of a few dishes, quickly built; returns the cache."""
    table = tmp_path / "few.csv"
    write_dishes(read_dishes(TABLE)[:40:2], table)
    monkeypatch.setattr(demo_dishes, "TABLE", table)
    monkeypatch.setattr(demo_dishes, "SIZE", 24)
    return tmp_path / "cache"


def questions(folder: Path, task: str, language: str = "zh"):
    data = FoodieQAData("demo", task, language, root=str(folder))
    data.prepare()
    return data.questions


def records(folder: Path, task: str):
    return json.loads((folder / f"{task}_tidy.json").read_text())


# ---- over the dish table


@pytest.mark.parametrize("language", ["zh", "en"])
@pytest.mark.parametrize(("task", "least"), [("textqa", 300), ("sivqa", 150), ("mivqa", 100)])
def test_it_is_read_back_as_the_release_is(built, task, language, least):
    found = questions(built, task, language)
    assert len(found) >= least
    assert {question.question_type for question in found} >= TYPES[task]
    for question in found:
        assert len(question.images) == {"mivqa": 4, "sivqa": 1, "textqa": 0}[task]
        assert all(Path(path).is_file() for path in question.images)
        assert len(question.choices) == (0 if task == "mivqa" else 4)
    places = Counter(question.answer for question in found)
    assert all(abs(places[place] / len(found) - 0.25) < 0.08 for place in range(4))


def test_it_says_what_it_is(built):
    readme = (built / "README.md").read_text()
    assert "not FoodieQA" in readme and "rendered" in readme and "no photographs" in readme
    assert "data/build/dishes.md" in (built / "ATTRIBUTION").read_text()
    assert all("generator" in record for task in FOOD_TASKS for record in records(built, task))
    data = FoodieQAData("demo", "mivqa", root=str(built))
    data.prepare()
    assert any("not FoodieQA" in note for note in data.notes)


def test_pictures_are_plain_jpegs_whose_names_and_bytes_tell_nothing(built):
    dishes = read_dishes(TABLE)
    paths = sorted((built / "images").rglob("*.*"))
    assert len(paths) == len({path.name for path in paths}) == sum(len(photo_names(dish)) for dish in dishes)
    for path in paths:
        with Image.open(path) as picture:
            assert (picture.format, picture.mode, picture.size) == ("JPEG", "RGB", (32, 32))
            assert not picture.getexif() and not set(picture.info) - {
                "jfif",
                "jfif_version",
                "jfif_unit",
                "jfif_density",
            }
        assert len(path.stem) == 20 and set(path.stem) <= set("0123456789abcdef")


def test_a_third_of_the_dishes_has_a_second_picture_with_questions_of_its_own(built):
    dishes = read_dishes(TABLE)
    two = [dish for dish in dishes if len(photo_names(dish)) == 2]
    assert 0.2 < len(two) / len(dishes) < 0.47
    made = records(built, "sivqa")
    for dish in two[:5]:
        mine = [record for record in made if record["food_name"] == dish.dish_name.zh]
        shown = {record["food_meta"]["food_file"] for record in mine}
        assert shown == set(photo_names(dish)) and len({record["question_id"] for record in mine}) == len(mine)


def test_a_set_is_built_once(few, monkeypatch):
    folder = build_demo(few)
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    monkeypatch.setattr(demo_dishes, "generate", None)  # not called again
    assert build_demo(few) == folder
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before
    assert not list((few / "demo").glob(".*.building-*"))


def test_the_same_bytes_are_built_anywhere(few, tmp_path):
    one, other = build_demo(few), build_demo(tmp_path / "elsewhere")
    names = sorted(path.relative_to(one) for path in one.rglob("*") if path.is_file())
    assert one.name == other.name and len(names) > 20
    assert all((one / name).read_bytes() == (other / name).read_bytes() for name in names)


def test_other_dishes_or_pictures_are_another_set(few, tmp_path, monkeypatch):
    folder = build_demo(few)
    monkeypatch.setattr(demo_dishes, "SIZE", 25)
    larger = build_demo(few)
    monkeypatch.setattr(demo_dishes, "TABLE", tmp_path / "fewer.csv")
    write_dishes(read_dishes(TABLE)[:40:2][:-1], tmp_path / "fewer.csv")
    fewer = build_demo(few)
    assert len({folder, larger, fewer}) == 3 and all(path.is_dir() for path in (folder, larger, fewer))


def test_two_that_start_at_once_build_one_set(few, monkeypatch):
    calls = []
    real = demo_dishes.generate
    monkeypatch.setattr(demo_dishes, "generate", lambda *a, **k: calls.append(1) or real(*a, **k))
    with ThreadPoolExecutor(2) as pool:
        folders = list(pool.map(lambda _: build_demo(few), range(2)))
    assert folders[0] == folders[1] and len(calls) == 1


@pytest.mark.parametrize("damage", ["cut picture", "no picture", "changed questions", "no manifest"])
def test_a_damaged_set_is_built_anew(few, damage, caplog):
    folder = build_demo(few)
    picture = sorted((folder / "images").rglob("*.jpg"))[3]
    whole = picture.read_bytes(), (folder / "mivqa_tidy.json").read_bytes()
    if damage == "cut picture":
        picture.write_bytes(whole[0][:100])
    elif damage == "no picture":
        picture.unlink()
    elif damage == "changed questions":
        (folder / "mivqa_tidy.json").write_text("[]")
    else:
        (folder / "manifest.json").unlink()
    with caplog.at_level(logging.WARNING):
        assert build_demo(few) == folder
    assert (picture.read_bytes(), (folder / "mivqa_tidy.json").read_bytes()) == whole
    assert "computing it again" in caplog.text


def test_a_failed_build_leaves_nothing(few, monkeypatch):
    def fail(*_):
        raise InputError("the templates are wrong")

    monkeypatch.setattr(demo_dishes, "read_templates", fail)
    with pytest.raises(InputError, match="templates are wrong"):
        build_demo(few)
    assert not [path for path in (few / "demo").iterdir() if not path.name.endswith(".lock")]


# ---- over real photos


def test_photos_with_heuristic_labels(shared, tmp_path):
    source = shared / "data" / "foodieqa" / "howtocook_dishes"
    folder = build_demo(tmp_path, source)
    labels = json.loads((source / "dishes.json").read_text())
    by_name = {record["food_name"]: record for record in labels}
    assert {record["question_type"] for record in records(folder, "mivqa")} == {
        "ingredients",
        "cooking-skills",
        "food-type",
    }
    single = records(folder, "sivqa")
    assert {record["question_type"] for record in single} == {"main-ingredient", "cooking-skills", "cuisine_type"}
    asked = {"main-ingredient": "main_ingredient", "cooking-skills": "cooking_skills", "cuisine_type": "cuisine"}
    for record in single + records(folder, "textqa"):
        label = by_name[record["food_name"]][asked[record["question_type"]]]
        assert label is not None  # an unknown label is not asked
        right = record["choices"][int(record["answer"])]
        assert label in right or right in label or label in ("肉", "牛腩", "羊排", "猪蹄", "蛋")
    for task, language in (("mivqa", "zh"), ("mivqa", "en"), ("sivqa", "zh"), ("sivqa", "en"), ("textqa", "zh")):
        assert questions(folder, task, language)
    photos = {file_digest(path) for path in (folder / "images").rglob("*.jpg")}
    assert photos == {file_digest(source / record["photo"]) for record in labels}
    readme = (folder / "README.md").read_text()
    assert "heuristic and unchecked" in readme and "never for a reported number" in readme and "not FoodieQA" in readme
    assert "HowToCook" in (folder / "ATTRIBUTION").read_text()


def photo_folder(folder: Path, **changes):
    """A folder of twelve photographed dishes, the first of which is changed."""
    folder.mkdir()
    kinds = [("鸡", "炒", "川菜", "meat"), ("鱼", "清蒸", "粤菜", "seafood"), ("虾", "炸", "湘菜", "vegetable"),
             ("豆腐", "凉拌", "鲁菜", "dessert")]  # fmt: skip
    made = []
    for i in range(12):
        main, skill, cuisine, category = kinds[i % 4]
        Image.new("RGB", (40, 30), (20 * i, 100, 255 - 20 * i)).save(folder / f"{i}.jpg")
        made.append({"food_name": f"第{i}道", "photo": f"{i}.jpg", "main_ingredient": main, "cooking_skills": skill,
                     "cuisine": cuisine, "category": category})  # fmt: skip
    made[0] |= changes
    (folder / "dishes.json").write_text(json.dumps(made, ensure_ascii=False))
    return folder


def test_ones_own_photos(tmp_path):
    source = photo_folder(tmp_path / "mine")
    folder = build_demo(tmp_path / "cache", source)
    assert build_demo(tmp_path / "cache", source) == folder
    right = {record["food_name"]: record["choices"][int(record["answer"])] for record in records(folder, "sivqa")
             if record["question_type"] == "main-ingredient"}  # fmt: skip
    assert right["第0道"] == "鸡肉" and right["第3道"] == "豆腐"
    Image.new("RGB", (40, 30), (9, 9, 9)).save(source / "0.jpg")
    assert build_demo(tmp_path / "cache", source) != folder  # another photo, another set


def test_a_missing_label_is_neither_asked_nor_offered_as_wrong(tmp_path):
    source = photo_folder(tmp_path / "mine", main_ingredient=None, cooking_skills=None, cuisine=None, category=None)
    folder = build_demo(tmp_path / "cache", source)
    for task in ("sivqa", "textqa"):
        assert "第0道" not in {record["food_name"] for record in records(folder, task)}
    shown = {image for record in records(folder, "mivqa") for image in record["images"]}
    assert f"{demo_dishes.PHOTO_BATCH}/{file_digest(source / '0.jpg')[:20]}.jpg" not in shown


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"photo": "../0.jpg"}, "record 0: photo '../0.jpg' must be the name of a file"),
        ({"photo": "/etc/hostname"}, "must be the name of a file"),
        ({"photo": "link.jpg"}, "'link.jpg' is not in the folder"),
        ({"photo": "absent.jpg"}, "'absent.jpg' is not in the folder"),
        ({"photo": "damaged.jpg"}, "'damaged.jpg': cannot be decoded"),
        ({"photo": 7}, "'photo' must be a text"),
        ({"food_name": " "}, "'food_name' must be a text"),
        ({"food_name": "第1道"}, "food_name '第1道' stands there 2 times"),
        ({"photo": "1.jpg"}, "photo '1.jpg' stands there 2 times"),
        ({"main_ingredient": "石头"}, "main_ingredient '石头' is unknown; use null or one of"),
        ({"cuisine": 3}, "cuisine '3' is unknown"),
    ],
)
def test_a_wrong_record_costs_one_line(tmp_path, changes, message):
    folder = photo_folder(tmp_path / "mine", **changes)
    (tmp_path / "outside.jpg").write_bytes((folder / "1.jpg").read_bytes())
    (folder / "link.jpg").symlink_to(tmp_path / "outside.jpg")
    (folder / "damaged.jpg").write_bytes((folder / "1.jpg").read_bytes()[:200])
    with pytest.raises(InputError) as error:
        read_photos(folder)
    assert message in str(error.value) and "\n" not in str(error.value) and str(folder) in str(error.value)


@pytest.mark.parametrize("content", ["", "{}", "[]", "[1]", "[[" * 10_000, "\x00"])
def test_a_wrong_table_costs_one_line(tmp_path, content):
    (tmp_path / "dishes.json").write_text(content)
    with pytest.raises(InputError) as error:
        build_demo(tmp_path / "cache", tmp_path)
    assert "dishes.json" in str(error.value) and "\n" not in str(error.value)


def test_a_folder_without_a_table_says_what_is_needed(tmp_path):
    with pytest.raises(InputError, match=r"data\.photos needs a folder with dishes\.json"):
        build_demo(tmp_path / "cache", tmp_path / "nowhere")


def test_one_picture_under_two_names_is_refused(tmp_path):
    source = photo_folder(tmp_path / "mine")
    shutil.copyfile(source / "1.jpg", source / "0.jpg")
    with pytest.raises(InputError, match=r"0\.jpg, 1\.jpg are one picture"):
        build_demo(tmp_path / "cache", source)


def test_the_labels_are_asked_with_templates_that_exist():
    templates = read_templates()
    known = {template.template_id: template for template in (*templates.questions, *templates.multi_image)}
    for _, field, _, chosen in demo_dishes._LABELS:
        assert all(known[name].ask == (field,) for name in chosen)


# ---- the page


def test_the_page_shows_every_question_and_marks_the_right_option(few):
    folder = build_demo(few)
    page = demo_page(folder, thumbnail=16)
    text = page.read_text()
    made = [record for task in FOOD_TASKS for record in records(folder, task)]
    assert text.count("<div class=card ") == len(made)
    assert text.count(" class=right>") == len(made)
    assert "not FoodieQA" in text and "http" not in text and text.count("url(data:image/jpeg;base64,") > 15
    for record in made[::17]:
        assert record["question"] in text and record["question_id"] in text
    assert build_demo(few) == folder  # the page does not damage the set


def test_the_page_escapes_what_it_shows(few):
    folder = build_demo(few)
    made = records(folder, "textqa")
    made[0]["question"] = "<script>alert(1)</script>"
    made[0]["question_type"] = "'><b>"
    (folder / "textqa_tidy.json").write_text(json.dumps(made))
    text = demo_page(folder, thumbnail=16).read_text()
    assert "<script>alert" not in text and "'><b>" not in text and "&lt;script&gt;alert(1)" in text


def test_a_page_of_no_set_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"mivqa_tidy\.json: cannot be read"):
        demo_page(tmp_path)
