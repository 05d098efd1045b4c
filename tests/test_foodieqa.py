"""FoodieQA files: every trap of the released schema, both layouts of the pictures, groups, names, the data module."""

import json
import os
import sys
import types
import unicodedata
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.errors import InputError
from data.food_names import CATEGORY_NAMES, NOT_GIVEN, is_category
from data.foodieqa import (
    FILES,
    FoodieQAData,
    check_expected,
    display_category,
    display_cuisine,
    display_type,
    merged_cuisine,
    normalised,
    published_dataset,
    read_file,
    read_release,
)
from data.records import FOOD_TASKS, FoodQuestion
from tests.made_up_foodieqa import (
    LAYOUTS,
    TYPES,
    made_up_records,
    picture_colours,
    picture_names,
    write_picture,
    write_records,
    write_release,
)


@pytest.fixture(scope="module")
def release(tmp_path_factory) -> Path:
    return write_release(tmp_path_factory.mktemp("release"), 24)


def one_record(folder: Path, task: str, **changes) -> Path:
    """A file whose second record has some keys changed (None: without the key); its pictures exist."""
    records = made_up_records(task, 3)
    for name in picture_names(records):
        write_picture(folder / "images" / name, name)
    for key, value in changes.items():
        if value is None:
            del records[1][key]
        else:
            records[1][key] = value
    return write_records(folder / FILES[task], records)


def complaint(path: Path, task: str, language: str = "zh") -> str:
    """The message of the error that reading raises: one line that names the file."""
    with pytest.raises(InputError) as caught:
        read_release(path, task, language)
    message = str(caught.value)
    assert "\n" not in message and str(path) in message
    return message


# ---- what is read ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", FOOD_TASKS)
def test_every_field_is_that_of_the_file(release, task):
    records = made_up_records(task, 24)
    questions = read_release(release, task, "zh")
    assert [question.row for question in questions] == list(range(24))
    for record, question in zip(records, questions, strict=True):
        assert question.question == record["question"] and question.language == "zh"
        assert str(question.answer) == record["answer"] and question.question_type == record["question_type"]
        assert question.question_id == record["question_id"] and question.task == task
        assert len(question.record_hash) == 32 and set(question.record_hash) <= set("0123456789abcdef")
        assert len(question.images) == {"mivqa": 4, "sivqa": 1, "textqa": 0}[task]
        assert all(Path(path).is_absolute() and Path(path).is_file() for path in question.images)
        if task != "mivqa":
            assert list(question.choices) == record["choices"] and question.food_name == record["food_name"]
    assert len({question.record_hash for question in questions}) == 24


def test_pictures_keep_the_order_of_the_options(release):
    from PIL import Image, ImageOps

    for record, question in zip(made_up_records("mivqa", 24), read_release(release, "mivqa", "zh"), strict=True):
        for name, path in zip(record["images"], question.images, strict=True):
            with Image.open(path) as picture:
                seen = ImageOps.exif_transpose(picture).convert("RGB")
            assert seen.size == (48, 32)
            for x, colour in zip((8, 40), picture_colours(name), strict=True):
                assert all(abs(a - b) < 12 for a, b in zip(seen.getpixel((x, 16)), colour, strict=True))


def test_multi_image_options_are_the_pictures_unless_the_file_has_text_options(release, tmp_path):
    questions = read_release(release, "mivqa", "zh")
    assert [question.row for question in questions if not question.image_options] == [5]
    assert questions[5].choices == ("清炒", "红烧", "白灼", "油炸") and len(questions[5].images) == 4
    for value in (["a", "b", "c", "d"], "a,b，c , d"):
        path = one_record(tmp_path, "mivqa", choices=value)
        assert read_release(path, "mivqa", "zh")[1].choices == ("a", "b", "c", "d")
    for value in ([], "", "  "):
        assert read_release(one_record(tmp_path, "mivqa", choices=value), "mivqa", "zh")[1].image_options


def test_multi_image_ids_repeat_and_rows_tell_the_questions_apart(release):
    questions = read_release(release, "mivqa", "zh")
    assert len({question.question_id for question in questions}) < len(questions)
    assert not any("question ids" in note for note in read_file(release / FILES["mivqa"], "mivqa", "zh").notes)


def test_english_takes_the_english_fields(release):
    questions = read_release(release, "sivqa", "en")
    records = made_up_records("sivqa", 24)
    assert [question.question for question in questions] == [record["question_en"] for record in records]
    assert [list(question.choices) for question in questions] == [record["choices_en"] for record in records]
    chinese = read_release(release, "sivqa", "zh")
    assert [q.record_hash for q in questions] == [q.record_hash for q in chinese]  # of the record, not of the language


def test_english_multi_image_questions_say_that_their_text_options_are_chinese(release):
    report = read_file(release / FILES["mivqa"], "mivqa", "en")
    assert report.questions[0].question == "Question 0 (0): which dish fits better?"
    assert any("1 questions have text options that the file gives in Chinese only" in note for note in report.notes)
    assert not any("Chinese only" in note for note in read_file(release / FILES["mivqa"], "mivqa", "zh").notes)


def test_released_text_questions_have_no_english_but_those_of_an_own_set_may(release, tmp_path):
    message = complaint(release / FILES["textqa"], "textqa", "en")
    assert "no English" in message and "data.language=zh" in message
    own = write_release(tmp_path, {"textqa": 8}, english_text=True)
    assert "Sample Roast Goose" in read_release(own, "textqa", "en")[0].question
    records = made_up_records("textqa", 8, english_text=True)
    del records[3]["choices_en"]
    assert "row 3" in complaint(write_records(tmp_path / FILES["textqa"], records), "textqa", "en")


def test_the_web_photo_is_shown_where_there_is_one_and_only_when_asked_for(release):
    plain = read_file(release / FILES["sivqa"], "sivqa", "zh")
    web = read_file(release / FILES["sivqa"], "sivqa", "zh", web_image=True)
    changed = [a.row for a, b in zip(plain.questions, web.questions, strict=True) if a.images != b.images]
    assert changed == [4, 5] and web.web_pictures == 2 and plain.web_pictures == 0
    assert web.questions[4].images[0].endswith("_web.jpg")
    assert [q.cluster for q in plain.questions] == [q.cluster for q in web.questions]
    assert any("2 of 24 questions show a web photo" in note for note in web.notes)


def test_clusters_are_photo_set_of_photos_and_dish(release):
    single, multi, text = (read_release(release, task, "zh") for task in ("sivqa", "mivqa", "textqa"))
    assert set(Counter(question.cluster for question in single).values()) == {2}
    by_set: dict[str, set] = {}
    for question in multi:
        by_set.setdefault(question.cluster, set()).add(tuple(question.images))
    assert len(by_set) == 8 and all(len(orders) > 1 for orders in by_set.values())  # the order does not matter
    assert {question.cluster for question in text} == {question.food_name for question in text}


def test_groups_are_cuisines_or_food_categories_never_both(release):
    multi = read_release(release, "mivqa", "zh")
    assert all(bool(question.cuisine) != bool(question.category) for question in multi)
    assert [(q.cuisine, q.category) for q in multi[::3]][:4] == [("川", ""), ("", "meat"), ("粤", ""), ("", "seafood")]
    single = read_release(release, "sivqa", "zh")
    assert single[0].cuisine == "川菜（四川，重庆）" and single[8].cuisine == ""  # no food_type in its meta-information
    assert read_release(release, "textqa", "zh")[0].cuisine == "川菜"


def test_more_keys_than_the_schema_has_are_ignored_and_a_generator_is_noticed(tmp_path):
    path = one_record(tmp_path, "textqa", generator={"version": 1, "seed": 3}, num_hops="multiple", anything=[1.5])
    report = read_file(path, "textqa", "zh")
    assert report.generated and report.hops == {1: True} and len(report.questions) == 3
    assert not read_file(one_record(tmp_path, "textqa"), "textqa", "zh").generated
    assert read_file(one_record(tmp_path, "textqa", multi_hop=False), "textqa", "zh").hops == {1: False}


def test_the_hash_is_that_of_the_content_not_of_its_spelling(tmp_path):
    records = made_up_records("textqa", 4)
    first = read_release(write_records(tmp_path / "a.json", records), "textqa", "zh")
    (tmp_path / "b.json").write_text(json.dumps([dict(reversed(r.items())) for r in records]), encoding="utf-8")
    second = read_release(tmp_path / "b.json", "textqa", "zh")
    assert [q.record_hash for q in first] == [q.record_hash for q in second]
    records[0]["answer"] = str((int(records[0]["answer"]) + 1) % 4)
    third = read_release(write_records(tmp_path / "a.json", records), "textqa", "zh")
    assert [a.record_hash == b.record_hash for a, b in zip(first, third, strict=True)] == [False, True, True, True]


# ---- bad records -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("answer", [2, "4", "A", "", "02", " 1", "-1", "１", 1.0, True, ["1"]])
def test_answers_are_the_strings_0_to_3(tmp_path, answer):
    message = complaint(one_record(tmp_path, "sivqa", answer=answer), "sivqa")
    assert "row 1" in message and "vqa-3" in message and "'answer'" in message and "correct it" in message


@pytest.mark.parametrize(
    ("task", "changes", "said"),
    [
        ("sivqa", {"answer": None}, "no key 'answer'"),
        ("sivqa", {"choices": ["a", "b", "c"]}, "3 options and must have 4"),
        ("sivqa", {"choices": ["a", "b", "c", "d", "e"]}, "5 options and must have 4"),
        ("sivqa", {"choices": "a,b,c,d"}, "is a string and must be a list"),
        ("sivqa", {"choices": ["a", "b", 3, "d"]}, "holds a number"),
        ("sivqa", {"choices": ["a", "b", "  ", "d"]}, "option 2 of 'choices' is empty"),
        ("sivqa", {"answer": "3", "choices": ["安徽", "b", "c", "安徽 "]}, "options 0 and 3 of 'choices' are equal"),
        ("sivqa", {"answer": "0", "choices": ["赣菜 (客家菜）", "赣菜 （客家菜)", "c", "d"]}, "options 0 and 1"),
        ("sivqa", {"answer": "0", "choices": ["Pork", "b", "pORK", "d"]}, "options 0 and 2"),
        ("sivqa", {"food_meta": None}, "no key 'food_meta'"),
        ("sivqa", {"food_meta": {"food_type": "川菜"}}, "food_meta: has no key 'food_file'"),
        ("sivqa", {"food_meta": {"food_file": "a.jpg", "food_type": 3}}, "'food_type' is a number"),
        ("sivqa", {"question": "  "}, "'question' is empty"),
        ("sivqa", {"question": None}, "no key 'question'"),
        ("sivqa", {"question_type": ""}, "'question_type' is empty"),
        ("sivqa", {"question_id": 7}, "'question_id' is a number"),
        ("textqa", {"cuisine_type": None}, "no key 'cuisine_type'"),
        ("textqa", {"food_name": None}, "no key 'food_name'"),
        ("textqa", {"question": "\ud800"}, "surrogate"),
        ("textqa", {"answer": "4"}, "I don't know"),
        ("mivqa", {"choices": None}, "no key 'choices'"),
        ("mivqa", {"choices": "a,b，c"}, "3 options and must have 4"),
        ("mivqa", {"choices": "a,b,c,b"}, "options 1 and 3"),
        ("mivqa", {"choices": {"A": "a"}}, "is an object"),
        ("mivqa", {"images": ["a.jpg", "b.jpg", "c.jpg"]}, "names 3 pictures and must name 4"),
        ("mivqa", {"answer": "3", "images": ["a.jpg", "b.jpg", "c.jpg", "a.jpg"]}, "there twice"),
        ("mivqa", {"ann_group": None}, "no key 'ann_group'"),
    ],
)
def test_a_bad_record_is_named_with_its_row_or_left_out(tmp_path, task, changes, said):
    path = one_record(tmp_path, task)
    records = json.loads(path.read_text(encoding="utf-8"))
    for key, value in changes.items():
        records[1].pop(key) if value is None else records[1].update({key: value})
    path.write_text(json.dumps(records), encoding="utf-8")  # escapes, which can spell half a surrogate pair
    message = complaint(path, task)
    assert "row 1, counted from 0" in message and said in message and "on_bad_record=skip" in message
    report = read_file(path, task, "zh", on_bad_record="skip")
    assert [question.row for question in report.questions] == [0, 2]
    assert report.skipped[0].row == 1 and "1 of 3 records left out" in report.notes[0]


def test_equal_wrong_options_stay_and_are_counted(tmp_path):
    path = one_record(tmp_path, "sivqa", answer="1", choices=["安徽", "b", "c", "安徽 "])
    report = read_file(path, "sivqa", "zh")
    assert len(report.questions) == 3 and any("equal wrong options" in note for note in report.notes)


@pytest.mark.parametrize("name", ["../a.jpg", "/etc/passwd", "x/../../a.jpg", "a\\b.jpg", "", "a\n.jpg", "a" * 300])
def test_picture_paths_may_not_leave_the_folder(tmp_path, name):
    path = one_record(tmp_path, "sivqa", food_meta={"food_file": name})
    assert "row 1" in complaint(path, "sivqa")


def test_links_may_not_leave_the_folder_but_the_folder_of_pictures_may_be_one(tmp_path):
    path = one_record(tmp_path / "a", "sivqa")
    picture = next((tmp_path / "a" / "images").rglob("*.jpeg"))
    picture.rename(tmp_path / "outside.jpeg")
    picture.symlink_to(tmp_path / "outside.jpeg")
    assert "by a link" in complaint(path, "sivqa")
    path = one_record(tmp_path / "b", "sivqa")
    (tmp_path / "b" / "images").rename(tmp_path / "disk")
    (tmp_path / "b" / "images").symlink_to(tmp_path / "disk")
    assert len(read_release(path, "sivqa", "zh")) == 3


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "empty"),
        (b" \n", "empty"),
        (b"[]", "its array is empty"),
        (b'{"data": []}', "holds an object and must hold one array"),
        (b"[{", "not valid JSON"),
        (b"[" * 100_000, "nested too deeply"),
        ("[\"川\"]".encode("gb18030"), "not UTF-8"),
        (b"version https://git-lfs.github.com/spec/v1", "Git LFS pointer"),
        (b"[3]", "the record is a number"),
        (b'[{"x": NaN}]', "not finite"),
        (b'[{"x": 1e999}]', "not finite"),
    ],
)  # fmt: skip
def test_files_that_are_none(tmp_path, content, said):
    path = tmp_path / "mivqa_tidy.json"
    path.write_bytes(content)
    assert said in complaint(path, "mivqa")


def test_a_byte_order_mark_and_a_missing_file(tmp_path):
    path = one_record(tmp_path, "textqa")
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert len(read_release(path, "textqa", "zh")) == 3
    assert "lyan62/FoodieQA" in complaint(tmp_path / "absent.json", "textqa")


def test_nothing_left_is_an_error_even_when_skipping(tmp_path):
    path = write_records(tmp_path / "textqa_tidy.json", [{}, 3])
    with pytest.raises(InputError, match="none of its 2 records can be used, the first because has no key"):
        read_file(path, "textqa", "zh", on_bad_record="skip")


def test_same_ids_and_same_records_are_allowed_and_told(tmp_path):
    records = made_up_records("textqa", 6)
    records[4]["question_id"] = records[2]["question_id"]
    records.append(records[1])
    report = read_file(write_records(tmp_path / "textqa_tidy.json", records), "textqa", "zh")
    assert len(report.questions) == 7
    assert any("1 question ids stand for several different records" in note for note in report.notes)
    assert any("1 records are there more than once" in note and "rows 1, 6" in note for note in report.notes)


@pytest.mark.parametrize(
    "arguments",
    [("foodqa", "zh"), ("mivqa", "de")],
)
def test_unknown_settings(release, arguments):
    with pytest.raises(InputError, match="is unknown"):
        read_release(release, *arguments)


# ---- layouts ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("task", ["mivqa", "sivqa"])
def test_every_layout_leads_to_the_same_pictures(release, tmp_path, layout, task):
    folder = write_release(tmp_path, 12, layout)
    report = read_file(folder / FILES[task], task, "zh")
    wanted = {"release": "images/<path>", "old": "<path>", "prefixed": "<path>", "flat": "images/**/<file name>"}
    assert report.layout == wanted[layout]
    assert any(f"found as {report.layout}" in note for note in report.notes)
    same = read_release(release, task, "zh")[:12]
    assert [[Path(p).name for p in q.images] for q in report.questions] == [
        [Path(p).name for p in q.images] for q in same
    ]


def test_the_folder_of_the_pictures_may_lie_anywhere(release, tmp_path):
    path = write_records(tmp_path / "own.json", made_up_records("mivqa", 12))
    for images in (release, release / "images"):
        assert len(read_release(path, "mivqa", "zh", images)) == 12
    assert "12 of 12" not in complaint(path, "mivqa") and "16 of 16 pictures" in complaint(path, "mivqa")


def test_all_missing_pictures_are_told_in_one_line(tmp_path):
    folder = write_release(tmp_path, {"mivqa": 12})
    names = picture_names(made_up_records("mivqa", 12))
    for name in names[:5]:
        (folder / "images" / name).unlink()
    message = complaint(folder / FILES["mivqa"], "mivqa")
    assert "5 of 16 pictures cannot be used" in message and "taken: images/<path>" in message
    assert all(name in message for name in names[:3]) and names[3] not in message and "…" in message
    report = read_file(folder / FILES["mivqa"], "mivqa", "zh", on_bad_record="skip")
    used = {name for record in made_up_records("mivqa", 12)[:6] for name in record["images"]} & set(names[:5])
    assert used and all(question.row >= 3 for question in report.questions)
    assert len(report.questions) + len(report.skipped) == 12


def test_a_file_name_that_occurs_twice_is_not_guessed(tmp_path):
    folder = write_release(tmp_path, {"sivqa": 8}, "flat")
    picture = next((folder / "images").glob("*.jpeg"))
    (folder / "images" / "again").mkdir()
    (folder / "images" / "again" / picture.name).write_bytes(picture.read_bytes())
    assert "is not unique (2 files of that name)" in complaint(folder / FILES["sivqa"], "sivqa")


@pytest.mark.parametrize("content", [b"", b"<html>not logged in</html>"])
def test_what_is_no_picture_is_told_before_anything_is_asked(tmp_path, content):
    folder = write_release(tmp_path, {"sivqa": 8})
    picture = next((folder / "images").rglob("*.png"))
    picture.write_bytes(content)
    message = complaint(folder / FILES["sivqa"], "sivqa")
    assert picture.name in message and ("is empty" in message or "no picture of a known kind" in message)


def test_one_layout_for_the_whole_file(tmp_path):
    folder = write_release(tmp_path, {"mivqa": 12})
    name = picture_names(made_up_records("mivqa", 12))[0]
    (folder / name).parent.mkdir()
    (folder / "images" / name).rename(folder / name)  # one picture in the other layout
    assert "1 of 16 pictures" in complaint(folder / FILES["mivqa"], "mivqa")


# ---- names and groups ------------------------------------------------------------------------------------------------


def test_every_published_group_and_type_has_an_english_name():
    for task in FOOD_TASKS:
        facts = published_dataset()[task]
        for raw in facts["cuisines"]:
            assert display_cuisine(raw).isascii() and not is_category(raw), raw
        for raw in facts["categories"]:
            assert is_category(raw) and display_category(raw).isascii()
        assert all(display_type(raw)[0].isupper() for raw in facts["types"])
        assert sum(facts["types"].values()) == facts["n"] and len(facts["types"]) == facts["question_types"]
        assert set(facts["types"]) == set(TYPES[task])
        groups = sum(facts["cuisines"].values()) + sum(facts["categories"].values())
        assert groups in (0, facts["n"])


@pytest.mark.parametrize(
    ("raw", "name"),
    [
        ("川菜（四川，重庆）", "Sichuan"),
        ("川", "Sichuan"),
        ("西北菜 （陕西，甘肃等地）", "Northwest"),
        ("黔菜 (贵州）", "Guizhou"),
        ("赣菜 (客家菜）", "Jiangxi"),
        ("上海本帮菜", "Shanghai"),
        ("沪菜", "Shanghai"),
        ("内蒙.赣.徽", "Inner Mongolia, Jiangxi, Anhui"),
        ("粤菜 ", "Cantonese"),
        ("Sichuan cuisine", "Sichuan"),
        ("Nordic", "Nordic"),
        ("鲁菜系", "Shandong"),
        ("未知菜", "未知菜"),
        ("", NOT_GIVEN),
    ],
)
def test_cuisines_in_english(raw, name):
    assert display_cuisine(raw) == name


def test_types_and_categories_in_english():
    assert display_type("region-2") == "Region" and display_type("warm-cold") == "Warm or cold"
    assert display_type("my_own-type") == "My own type" and display_type(" ") == NOT_GIVEN
    assert display_category("main-noodle") == "Noodles" and display_category("main-curry") == "Curry"
    assert is_category("bread") and is_category("海鲜") and not is_category("Hunan") and not is_category("藏")
    assert not is_category("") and all(map(is_category, CATEGORY_NAMES))


def test_the_authors_merge():
    assert {merged_cuisine(raw) for raw in ("上海", "上海菜", "上海本帮菜")} == {"上海菜"}
    assert merged_cuisine(" 北京菜 ") == "北京菜"


def test_counts_are_compared_with_the_published_ones():
    def questions(task: str, kinds: list[str]) -> list[FoodQuestion]:
        return [FoodQuestion(task, i, "0" * 32, str(i), "zh", "?", (), (), 0, kind) for i, kind in enumerate(kinds)]

    for task in FOOD_TASKS:
        kinds = list(Counter(published_dataset()[task]["types"]).elements())
        assert check_expected(questions(task, kinds)) == []
        assert check_expected(questions(task, kinds[1:])) == []  # another set
        (note,) = check_expected(questions(task, [kinds[-1], *kinds[1:]]))
        wanted = published_dataset()[task]["types"][kinds[0]]
        assert f"{kinds[0]} {wanted - 1} (published: {wanted})" in note and "\n" not in note
    assert check_expected([]) == []


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=12), st.sampled_from(["", " ", "\t", "　"]))
def test_options_are_compared_without_white_space_width_and_case(text, space):
    folded = normalised(text)
    assert normalised(space + text + space) == folded
    assert normalised(unicodedata.normalize("NFKC", text)) == folded
    assert normalised(text.casefold()) == normalised(text.casefold().casefold())


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=20))
def test_names_are_never_empty_and_stable(raw):
    for display in (display_cuisine, display_category, display_type):
        name = display(raw)
        assert name and name == display(raw)
    assert display_cuisine(display_cuisine(raw)) == display_cuisine(raw)


# ---- the data module -------------------------------------------------------------------------------------------------


def data(**keys) -> FoodieQAData:
    return FoodieQAData(**{"name": "foodieqa/multi_image", "task": "mivqa", **keys})


def test_the_module_reads_a_folder_once(release):
    module = data(root=str(release))
    module.prepare()
    first = module.questions
    module.setup("test")
    module.prepare()
    assert module.questions is first and len(first) == 24
    assert module.provenance().keys() == {"mivqa_tidy.json"} and len(module.provenance()["mivqa_tidy.json"]) == 64
    assert not module.is_demo and not module.is_release
    assert module.title == "mivqa_tidy.json, multi-image questions, Chinese"
    assert any("24 questions, while FoodieQA's multi-image file has 403" in note for note in module.notes)
    assert module.facts["n"] == 24 and module.facts["clusters"] == 8 and module.facts["layout"] == "images/<path>"
    assert json.dumps(module.facts) and str(release) not in json.dumps([module.facts, module.provenance()])


def test_batches_are_lists_of_questions_and_training_is_refused(release):
    import pytorch_lightning as pl

    module = data(root=str(release))
    batches = list(module.test_dataloader())
    assert all(isinstance(batch, list) for batch in batches)
    assert [question for batch in batches for question in batch] == module.questions
    assert isinstance(module, pl.LightningDataModule)
    with pytest.raises(InputError, match="evaluation only"):
        module.train_dataloader()


def test_a_trainer_tests_with_it(release):
    import pytorch_lightning as pl

    seen: list[int] = []

    class Counts(pl.LightningModule):
        def test_step(self, batch, index):
            seen.extend(question.row for question in batch)

    trainer = pl.Trainer(
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        accelerator="cpu",
    )
    trainer.test(Counts(), datamodule=data(root=str(release)), verbose=False)
    assert seen == list(range(24))


def test_the_whole_release_is_recognised_and_nothing_else(tmp_path):
    records = made_up_records("textqa", 705)
    for record, kind in zip(records, Counter(published_dataset()["textqa"]["types"]).elements(), strict=True):
        record["question_type"] = kind
    write_records(tmp_path / "textqa_tidy.json", records)
    keys = {"name": "foodieqa/text", "task": "textqa", "root": str(tmp_path)}
    module = FoodieQAData(**keys)
    module.prepare()
    assert module.is_release and module.title == "FoodieQA, text questions, Chinese" and module.notes == []
    part = FoodieQAData(**keys, limit=10)
    part.prepare()
    assert not part.is_release and len(part.questions) == 10 and "FoodieQA" not in part.title
    assert any("only the first 10 of 705" in note for note in part.notes)
    records[0]["generator"] = {"version": 1}
    write_records(tmp_path / "textqa_tidy.json", records)
    made = FoodieQAData(**keys)
    made.prepare()
    assert not made.is_release and "FoodieQA" not in made.title
    assert any("made by a question generator, not FoodieQA" in note for note in made.notes)
    del records[0]["generator"]
    records[0]["question_type"] = "flavor"
    write_records(tmp_path / "textqa_tidy.json", records)
    other = FoodieQAData(**keys)
    other.prepare()
    assert not other.is_release and any("other types" in note for note in other.notes)


def test_one_file_in_place_of_the_released_ones(release, tmp_path):
    path = write_records(tmp_path / "mine.json", made_up_records("mivqa", 6))
    module = data(file=str(path), images=str(release), limit=None)
    module.prepare()
    assert len(module.questions) == 6 and module.facts["file"] == "mine.json" and not module.is_demo
    assert len(data(file=str(path), root=str(release)).facts) > 10
    with pytest.raises(InputError, match=r"data\.file=.*no such file"):
        data(file=str(tmp_path / "absent.json")).prepare()


def test_bad_records_are_counted_when_skipped(tmp_path):
    records = made_up_records("textqa", 6)
    records[2]["answer"] = 2
    write_records(tmp_path / "textqa_tidy.json", records)
    keys = {"name": "foodieqa/text", "task": "textqa", "root": str(tmp_path)}
    with pytest.raises(InputError, match="row 2"):
        FoodieQAData(**keys).prepare()
    module = FoodieQAData(**keys, on_bad_record="skip")
    assert module.facts["skipped"] == 1 and module.facts["n"] == 5
    assert any("1 of 6 records left out" in note for note in module.notes)


def test_what_is_missing_is_named_with_the_way_to_get_it(release, tmp_path):
    with pytest.raises(InputError, match=r"no such folder; .*lyan62/FoodieQA.*accept its terms"):
        data(root=str(tmp_path / "absent")).prepare()
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError) as caught:
        data(root=str(tmp_path / "empty")).prepare()
    for word in ("mivqa_tidy.json", "lyan62/FoodieQA", "sivqa_tidy.json", "textqa_tidy.json", "images/", "terms"):
        assert word in str(caught.value)
    assert "\n" not in str(caught.value)
    os.symlink(release, tmp_path / "empty" / "FoodieQA")
    with pytest.raises(InputError, match=r"lies deeper; set data\.root=.*FoodieQA"):
        data(root=str(tmp_path / "empty")).prepare()


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"task": "vqa"}, "data.task=vqa"),
        ({"language": "fr"}, "data.language=fr"),
        ({"limit": 0}, "data.limit=0"),
        ({"limit": True}, "data.limit=True"),
        ({"on_bad_record": "ignore"}, "data.on_bad_record=ignore"),
        ({"web_image": "yes"}, "data.web_image=yes"),
        ({"photos": "p", "root": "r"}, "data.photos"),
    ],
)
def test_wrong_settings_are_refused_at_once(keys, said):
    with pytest.raises(InputError) as caught:
        data(**keys)
    assert said in str(caught.value)


def test_demo_questions_stand_in_and_are_not_called_foodieqa(tmp_path, monkeypatch):
    asked = []

    def build_demo(cache: Path, photos: Path | None) -> Path:
        asked.append((cache, photos))
        return write_release(cache / "demo", 6, english_text=True)

    module = types.ModuleType("data.build.demo_dishes")
    module.build_demo = build_demo  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "data.build.demo_dishes", module)
    demo = data(cache=str(tmp_path), photos=str(tmp_path / "photos"), language="en")
    demo.prepare()
    assert demo.is_demo and not demo.is_release and asked == [(tmp_path, tmp_path / "photos")]
    assert demo.title == "demo set, multi-image questions, English" and demo.facts["demo"]
    note = demo.notes[0]
    assert "not FoodieQA" in note and "lyan62/FoodieQA" in note and "\n" not in note
    assert not any("not comparable" in note for note in demo.notes)


@pytest.mark.parametrize(("option", "task"), [("multi_image", "mivqa"), ("single_image", "sivqa"), ("text", "textqa")])
def test_configs_build_the_module(option, task, release):
    from hydra.utils import instantiate

    from tests.runs import composed

    cfg = composed("evaluate", [f"data=foodieqa/{option}", f"data.root={release}"])
    module = instantiate(cfg.data)
    module.prepare()
    assert isinstance(module, FoodieQAData) and module.task == task and module.name == f"foodieqa/{option}"
    assert len(module.questions) == 24
    assert all(prompt.id.startswith(task) for prompt in cfg.prompts.all)


def test_the_printed_examples_of_the_release_are_read(shared, tmp_path):
    examples = json.loads((shared / "data" / "foodieqa" / "schema_examples.json").read_text(encoding="utf-8"))
    for task in FOOD_TASKS:
        record = examples[task]
        for name in picture_names([record]):
            write_picture(tmp_path / "images" / name, name)
        (question,) = read_release(write_records(tmp_path / FILES[task], [record]), task, "zh")
        assert question.answer == int(record["answer"]) and question.cuisine and not question.category
        assert display_cuisine(question.cuisine) == {"mivqa": "Fujian", "sivqa": "Xinjiang", "textqa": "Jiangsu"}[task]
