"""Rendered Chinese dishes: the same for the same facts, different for different dishes, of what the facts say."""

import hashlib
import random
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from data import chinese_dishes, chinese_pieces
from data.build.demo_dishes import TABLE
from data.chinese_dishes import FORMS, VESSELS, contact_sheet, draw_food
from data.chinese_pieces import PIECES, cut_of
from data.chinese_serving import Serving, read_serving
from data.dish_table import Bilingual, read_dishes

DISHES = read_dishes(TABLE)
BY_NAME = {dish.dish_name.zh: dish for dish in DISHES}


@pytest.fixture(scope="module")
def pictures():
    return {dish.dish_name.zh: draw_food(dish, 120) for dish in DISHES}


def middle(picture: Image.Image) -> np.ndarray:
    w, h = picture.size
    return np.asarray(picture.crop((w // 4, h // 4, w * 3 // 4, h * 3 // 4)), float)


def test_every_dish_of_the_table_is_drawn_as_a_plain_picture(pictures):
    assert len(pictures) >= 60
    for picture in pictures.values():
        assert picture.mode == "RGB" and picture.size == (120, 120)
        assert not picture.info and not picture.getexif()
        assert len(np.unique(np.asarray(picture).reshape(-1, 3), axis=0)) > 200


def test_the_same_dish_gives_the_same_bytes_whatever_the_hash_seed():
    here = hashlib.sha256(draw_food(BY_NAME["麻婆豆腐"], 64, 1).tobytes()).hexdigest()
    code = (
        "import hashlib; from data.chinese_dishes import *; from data.build.demo_dishes import TABLE;"
        "dish = next(d for d in read_dishes(TABLE) if d.dish_name.zh == '麻婆豆腐');"
        "print(hashlib.sha256(draw_food(dish, 64, 1).tobytes()).hexdigest())"
    )
    root = Path(chinese_dishes.__file__).parents[1]
    environment = {"PYTHONHASHSEED": "77", "PYTHONUTF8": "1"}
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=root, env=environment)
    assert run.stdout.strip() == here, run.stderr


def test_dishes_can_be_told_apart(pictures):
    small = np.stack([middle(picture.resize((48, 48))).ravel() for picture in pictures.values()])
    distance = np.abs(small[:, None] - small[None]).mean(-1)
    np.fill_diagonal(distance, np.inf)
    assert distance.min() > 8  # levels of 255
    assert np.median(distance[np.isfinite(distance)]) > 35


def test_a_second_picture_shows_the_same_dish_on_another_table(pictures):
    names = list(pictures)[::7]
    others = {name: draw_food(BY_NAME[name], 120, 1) for name in names}
    assert all(pictures[name].tobytes() != others[name].tobytes() for name in names)
    same = np.mean([np.abs(middle(pictures[name]).mean((0, 1)) - middle(others[name]).mean((0, 1))) for name in names])
    mixed = [np.abs(middle(pictures[a]).mean((0, 1)) - middle(others[b]).mean((0, 1))) for a, b in pairwise(names)]
    assert same < np.mean(mixed) / 2  # the colour of a dish stays


def test_the_colour_of_the_facts_is_that_of_the_picture(pictures):
    def mean(colour):
        found = [middle(pictures[d.dish_name.zh]).mean((0, 1)) for d in DISHES if d.color[0].zh == colour]
        return np.mean(found, 0)

    red, white, golden, brown = mean("红"), mean("白"), mean("金黄"), mean("酱红")
    assert red[0] - red[1] > white[0] - white[1] + 35
    assert white.sum() > brown.sum() + 150
    assert golden[1] > red[1] + 30 and golden[0] - golden[2] > white[0] - white[2] + 30


def test_a_changed_colour_vessel_or_main_ingredient_changes_the_picture_and_its_origin_does_not():
    dish = BY_NAME["宫保鸡丁"]
    drawn = draw_food(dish, 64).tobytes()
    seen = {
        "color": (Bilingual("翠绿"),),
        "dishware": Bilingual("砂锅"),
        "main_ingredient": (Bilingual("虾仁"),),
        "key_ingredients": tuple(map(Bilingual, ("黄瓜", "木耳", "香菜"))),
        "presentation_style": Bilingual("大碗盛装，浸在汤汁里"),
        "serving_temperature": "cold",
    }
    for name, value in seen.items():
        assert draw_food(replace(dish, **{name: value}), 64).tobytes() != drawn, name
    hidden = {
        "region": (Bilingual("某地"),),
        "province": (Bilingual("某省"),),
        "cuisine_type": (Bilingual("某菜系"),),
        "flavor": (Bilingual("酸"),),
        "eating_habits": (),
        "reference_links": (),
        "row": 999,
    }
    assert draw_food(replace(dish, **hidden), 64).tobytes() == drawn


def test_warm_dishes_steam():
    for name in ("东坡肉", "羊肉串", "蟹黄汤包"):
        warm, cold = (draw_food(replace(BY_NAME[name], serving_temperature=t), 120) for t in ("warm", "cold"))
        difference = np.asarray(warm, int) - np.asarray(cold, int)
        assert difference.max() > 20 and difference.min() >= 0  # only lighter


def test_a_shared_dish_is_larger_than_a_portion():
    def covered(name):
        serving = read_serving(BY_NAME[name])
        return serving.size

    assert covered("大盘鸡") > covered("地三鲜") > covered("青团")
    assert covered("水煮牛肉") > covered("牛肉面") > covered("担担面")


@pytest.mark.parametrize(
    ("name", "form", "vessel"),
    [
        ("麻婆豆腐", "tofu", "deep plate"),
        ("毛肚火锅", "hot pot", "wok"),
        ("涮羊肉", "copper pot", "copper pot"),
        ("西湖醋鱼", "whole fish", "long plate"),
        ("松鼠鳜鱼", "squirrel fish", "long plate"),
        ("叫花鸡", "whole fowl", "leaf"),
        ("虾饺", "arranged", "steamer"),
        ("羊肉串", "skewers", "tray"),
        ("牛肉面", "noodles in broth", "bowl"),
        ("热干面", "dry noodles", "bowl"),
        ("扬州炒饭", "rice", "plate"),
        ("莲藕排骨汤", "in broth", "clay pot"),
        ("汽锅鸡", "in broth", "steam pot"),
        ("梅菜扣肉", "dome", "deep plate"),
        ("驴打滚", "powdered rolls", "plate"),
        ("锅包肉", "fried pieces", "plate"),
        ("地三鲜", "stir-fry", "plate"),
    ],
)
def test_a_dish_is_served_as_it_is(name, form, vessel):
    serving = read_serving(BY_NAME[name])
    assert (serving.form, serving.vessel) == (form, vessel)


def test_main_ingredients_are_known_pieces_or_part_of_a_form_of_their_own():
    shapeless = {"糯米粉", "米浆", "面粉", "黄米面", "沙虫"}  # dough, batter, jelly: the form shows them
    unknown = {value.zh for dish in DISHES for value in dish.main_ingredient if cut_of(value.zh) is None}
    assert unknown <= shapeless


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("五花肉", "pork belly"),
        ("番茄", "tomato"),
        ("茄子", "aubergine"),
        ("鸡蛋面", "noodles"),
        ("榛蘑", "mushroom"),
        ("猪肉末", "mince"),
        ("辣椒面", "ground chili"),
        ("萝卜干", "dried radish"),
        ("辣椒油", None),
        ("鸡汤", None),
        ("糯米粉", None),
        ("盐", None),
        ("", None),
    ],
)
def test_words_of_ingredients(word, name):
    found = cut_of(word)
    assert (found and found.name) == name


def test_every_form_is_drawn_in_any_vessel_with_any_pieces():
    dice, cuts = random.Random(0), [piece for _, piece in PIECES]
    for form in FORMS:
        for vessel in dice.sample(sorted(VESSELS), 3):
            some = tuple(dice.sample(cuts, dice.randint(1, 4)))
            serving = Serving(form, vessel, (190, 90, 50), some, some[:1], dice.random() < 0.5, True, 1.0, True)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(chinese_dishes, "read_serving", lambda _, made=serving: made)
                assert draw_food(DISHES[0], 16).size == (16, 16), (form, vessel)
    for form in FORMS:  # nothing known of what is in it
        with pytest.MonkeyPatch.context() as patch:
            serving = Serving(form, "plate", (190, 90, 50))
            patch.setattr(chinese_dishes, "read_serving", lambda _, made=serving: made)
            assert draw_food(DISHES[0], 16).size == (16, 16), form


def test_all_forms_and_vessels_that_the_rules_name_can_be_drawn():
    from data.chinese_serving import _DISHWARE, _RULES

    assert {form for _, _, form in _RULES} <= FORMS.keys()
    assert {vessel for _, vessel, _ in _DISHWARE} | {"leaf"} <= VESSELS.keys()


@settings(max_examples=20, deadline=None)
@given(st.text(max_size=12), st.text(max_size=12), st.text(max_size=8), st.sampled_from(DISHES))
def test_unknown_words_still_make_a_picture(presentation, ingredient, vessel, dish):
    strange = replace(
        dish,
        presentation_style=Bilingual(presentation),
        main_ingredient=(Bilingual(ingredient),),
        color=(Bilingual(vessel),),
        dishware=Bilingual(vessel),
    )
    assert draw_food(strange, 24).size == (24, 24)


def test_the_sheet_shows_all_pictures(tmp_path, pictures):
    some = list(pictures.values())[:7]
    sheet = contact_sheet(some, 3, 4)
    assert sheet.size == (3 * 124 + 4, 3 * 124 + 4)
    assert sheet.crop((4, 4, 124, 124)).tobytes() == some[0].tobytes()
    chinese_dishes.main(str(tmp_path / "sheet.jpg"), str(TABLE))
    assert 50_000 < (tmp_path / "sheet.jpg").stat().st_size < 250_000


def test_the_version_follows_the_sources(tmp_path, monkeypatch):
    before = chinese_dishes.drawing_version()
    changed = tmp_path / "pieces.py"
    changed.write_bytes(Path(chinese_pieces.__file__).read_bytes() + b"\n")
    monkeypatch.setattr(chinese_pieces, "__file__", str(changed))
    assert chinese_dishes.drawing_version() != before
