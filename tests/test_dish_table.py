import csv
import dataclasses
import io
import json
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.build.dish_terms import FOLDER
from data.dish_table import COLUMNS, FIELDS, SEVERAL, SINGLE, Bilingual, read_dishes, write_dishes
from data.errors import InputError

TABLE = FOLDER.parents[1] / "data" / "build" / "dishes.csv"

ROW = {
    "food_category": "素菜",
    "dish_name": "甲菜",
    "dish_name_en": "Jia",
    "alternative_names": "甲；又名甲",
    "main_ingredient": "豆腐",
    "main_ingredient_traits": "嫩; 白",
    "key_ingredients": "葱；姜；蒜",
    "flavor": "咸鲜；嫩滑",
    "flavor_en": "salty; silky",
    "presentation_style": "堆在盘中",
    "color": "白",
    "serving_temperature": "热",
    "dishware": "圆盘",
    "region": "成都",
    "province": "四川",
    "cuisine_type": "川菜",
    "cooking_techniques": "切；炒；焖",
    "eating_habits": "",
    "reference_links": "https://example.org/甲菜；http://example.org/b",
}


def as_csv(*rows):
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


@pytest.fixture
def reading(tmp_path):
    def read(content, name="dishes.csv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return read_dishes(path)

    return read


def test_one_row_becomes_seventeen_fields(reading):
    (dish,) = reading(as_csv(ROW))
    assert len(FIELDS) == 17
    assert dish.dish_name == Bilingual("甲菜", "Jia")
    assert dish.alternative_names == (Bilingual("甲"), Bilingual("又名甲"))
    assert dish.flavor == (Bilingual("咸鲜", "salty"), Bilingual("嫩滑", "silky"))
    assert dish.main_ingredient_traits.zh == "嫩; 白"  # one text: its semicolon separates nothing
    assert dish.serving_temperature == "warm"
    assert dish.reference_links == ("https://example.org/甲菜", "http://example.org/b")
    assert (dish.row, dish.eating_habits) == (2, ())
    with pytest.raises(dataclasses.FrozenInstanceError):
        dish.row = 3


def test_byte_order_mark_and_line_ends_are_tolerated(reading):
    plain = reading(as_csv(ROW))
    assert reading(as_csv(ROW).replace("\r\n", "\n").encode("utf-8-sig")) == plain


def test_json_with_lists_reads_like_csv(reading):
    record = {key: value.split("；") if key in SEVERAL else value for key, value in ROW.items()}
    record |= {"flavor_en": ["salty", "silky"], "reference_links": ROW["reference_links"].split("；")}
    record["eating_habits"] = None
    assert reading(json.dumps([record]), "dishes.json") == reading(as_csv(ROW))
    assert reading(json.dumps([ROW]), "dishes.json") == reading(as_csv(ROW))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"flavor": " "}, "row 2, field flavor: missing"),
        ({"flavor": ""}, "field flavor: missing"),
        ({"serving_temperature": "滚烫"}, "unknown temperature '滚烫'"),
        ({"serving_temperature": ""}, "unknown temperature"),
        ({"cooking_techniques": "炒；焖"}, "cooking_techniques: 2 values: give three"),
        ({"key_ingredients": "葱；姜；蒜；盐"}, "key_ingredients: 4 values: give three"),
        ({"cooking_techniques": "炒；炒；焖"}, "stands there twice"),
        ({"flavor_en": "salty"}, "field flavor_en: 1 texts for 2"),
        ({"color": "白" * 301}, "301 characters"),
        ({"color": "；".join("一二三四五六七八九十甲乙丙")}, "13 values: give at most 12"),
        ({"color": "白\x07"}, "control or replacement character"),
        ({"color": "�"}, "control or replacement character"),
        ({"reference_links": ""}, "reference_links: missing"),
        ({"reference_links": "javascript:alert(1)"}, "is no web address"),
        ({"reference_links": "https://localhost/a"}, "is no web address"),
        ({"reference_links": "https://user:pass@example.org/"}, "is no web address"),
        ({"reference_links": "https://[::1/"}, "is no web address"),
        ({"reference_links": "https://example.org:99999/"}, "is no web address"),
        ({"reference_links": "https://example.org/a b"}, "is no web address"),
    ],
)
def test_wrong_fields_are_named_in_one_line(reading, change, told):
    with pytest.raises(InputError) as caught:
        reading(as_csv(ROW | change))
    message = str(caught.value)
    assert told in message and "row 2" in message and "dishes.csv" in message and "\n" not in message


@pytest.mark.parametrize(
    ("content", "name", "told"),
    [
        (as_csv(ROW).encode("gb18030"), "dishes.csv", "is not UTF-8"),
        (as_csv(ROW), "dishes.txt", "unknown kind of table"),
        ("", "dishes.csv", "holds no dish"),
        (as_csv(ROW).replace("flavor,", "flavour,"), "dishes.csv", "did you mean flavor?"),
        (as_csv({k: v for k, v in ROW.items() if k != "color"}), "dishes.csv", "field color is missing"),
        (as_csv(ROW).rstrip() + ",x\n", "dishes.csv", "row 2: 20 cells under 19 columns"),
        (as_csv(ROW).replace("甲菜", '"甲"菜'), "dishes.csv", "not CSV"),
        ('{"dish_name": "甲"}', "dishes.json", "give one array"),
        ("[3]", "dishes.json", "row 1: a int"),
        ("[" * 100_000, "dishes.json", "not JSON"),
        (json.dumps([ROW | {"color": 3}]), "dishes.json", "field color: not a text"),
        (json.dumps([ROW | {"dish_name": ["甲", "乙"]}]), "dishes.json", "field dish_name: 2 values: give one"),
        (json.dumps([ROW | {"serving_temperature": ["热"]}]), "dishes.json", "unknown temperature"),
    ],
)
def test_wrong_files_are_named_in_one_line(reading, content, name, told):
    with pytest.raises(InputError) as caught:
        reading(content, name)
    assert told in str(caught.value) and name in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("second", "told"),
    [
        ({"dish_name": "甲菜", "alternative_names": ""}, "row 3, field dish_name: 甲菜 is a dish of row 2"),
        ({"dish_name": "又名甲", "alternative_names": ""}, "row 3, field dish_name"),
        ({"dish_name": "乙", "alternative_names": "甲菜 "}, "row 3, field alternative_names"),
        ({"dish_name": "乙", "alternative_names": "丙", "dish_name_en": "JIA"}, "row 3, field dish_name_en"),
    ],
)
def test_no_dish_twice_even_under_another_name(reading, second, told):
    with pytest.raises(InputError, match=told):
        reading(as_csv(ROW, ROW | {"dish_name_en": "Yi"} | second))


def test_a_missing_file_costs_one_line(tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        read_dishes(tmp_path / "none.csv")


words = st.text(st.characters(categories=("L", "N")), min_size=1, max_size=6)


@settings(max_examples=25, deadline=None)
@given(names=st.lists(words, min_size=1, max_size=5, unique_by=lambda name: name.casefold()), value=words)
def test_what_is_written_reads_back(tmp_path_factory, names, value):
    folder = tmp_path_factory.mktemp("tables")
    rows = [ROW | {"dish_name": f"菜{i}{n}", "alternative_names": "", "dish_name_en": "", "color": value}
            for i, n in enumerate(names)]  # fmt: skip
    (folder / "a.csv").write_text(as_csv(*rows), encoding="utf-8")
    dishes = read_dishes(folder / "a.csv")
    write_dishes(dishes, folder / "b.csv")
    assert read_dishes(folder / "b.csv") == dishes


def test_the_table_of_the_demo_set_is_whole():
    dishes = read_dishes(TABLE)
    assert len(dishes) >= 66
    for dish in dishes:
        for name in FIELDS:
            assert getattr(dish, name), f"{dish.dish_name.zh}: {name}"
        for name in SINGLE + SEVERAL:
            assert all(value.en for value in dish.values(name)), f"{dish.dish_name.zh}: {name}_en"
    counts = {name: Counter(v.zh for dish in dishes for v in dish.values(name)) for name in SINGLE + SEVERAL}
    assert len(counts["cuisine_type"]) >= 12 and len(counts["food_category"]) >= 8
    assert len(counts["province"]) >= 20 and len(counts["presentation_style"]) >= 8
    assert Counter(dish.serving_temperature for dish in dishes)["cold"] >= 12
    with TABLE.open(encoding="utf-8") as file:
        assert tuple(next(csv.reader(file))) == COLUMNS


def test_a_value_has_one_english_form_and_an_english_form_one_value():
    dishes = read_dishes(TABLE)
    for name in (*SINGLE, *SEVERAL):
        if name in ("dish_name", "alternative_names", "main_ingredient_traits"):
            continue
        pairs = {value for dish in dishes for value in dish.values(name)}
        assert len(pairs) == len({pair.zh for pair in pairs}) == len({pair.en.casefold() for pair in pairs}), name
