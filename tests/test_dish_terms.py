from dataclasses import replace

import pytest

from data.build.dish_terms import FOLDER, Vocabulary, read_terms
from data.dish_table import Bilingual, read_dishes
from data.errors import InputError


@pytest.fixture(scope="module")
def terms():
    return read_terms()


@pytest.fixture(scope="module")
def dishes():
    return {dish.dish_name.zh: dish for dish in read_dishes(FOLDER.parents[1] / "data" / "build" / "dishes.csv")}


@pytest.mark.parametrize(
    ("field", "one", "other"),
    [
        ("region", "安徽 ", "安徽"),
        ("region", "四川", "成都"),
        ("region", "西南", "自贡"),
        ("region", "江南", "上海"),
        ("region", "四川", "重庆"),
        ("region", "新疆", "南疆"),
        ("cuisine_type", "粤", "粤菜"),
        ("cuisine_type", "沪菜", "上海本帮菜"),
        ("cuisine_type", "客家菜", "赣菜 (客家菜）"),
        ("cuisine_type", "粤菜", "潮州菜"),
        ("cuisine_type", "粤菜", "客家菜"),
        ("flavor", "麻辣", "辣"),
        ("flavor", "麻辣鲜香", "麻辣"),
        ("flavor", "鱼香", "酸甜"),
        ("flavor", "咸鲜", "鲜辣"),
        ("cooking_techniques", "炒", "爆炒"),
        ("cooking_techniques", "炖", "煨"),
        ("main_ingredient", "大米", "米饭"),
        ("main_ingredient", "五花肉", "肉"),
    ],
)
def test_what_cannot_be_told_apart_conflicts(terms, field, one, other):
    words = terms.of(field)
    assert words.conflicts(one, other) and words.conflicts(other, one)


@pytest.mark.parametrize(
    ("field", "one", "other"),
    [
        ("region", "成都", "自贡"),
        ("province", "四川", "湖南"),
        ("cuisine_type", "川菜", "湘菜"),
        ("flavor", "麻辣", "香甜"),
        ("cooking_techniques", "炒", "蒸"),
        ("main_ingredient", "豆腐", "鸡肉"),
    ],
)
def test_siblings_may_stand_side_by_side(terms, field, one, other):
    words = terms.of(field)
    assert not words.conflicts(one, other) and not words.conflicts(other, one)


def test_neighbours(terms):
    assert terms.of("cuisine_type").is_near("川菜", "湘菜")
    assert not terms.of("cuisine_type").is_near("川菜", "东北菜")
    assert terms.of("region").is_near("成都", "自贡")
    assert not terms.of("region").is_near("成都", "上海")


def test_a_dish_holds_kinds_and_leaves_the_doubtful_open(terms, dishes):
    mapo = dishes["麻婆豆腐"]
    inside = ("main_ingredient", "key_ingredients")
    assert terms.holds(mapo, inside, "牛肉类") is True
    assert terms.holds(mapo, inside, "水产") is False
    assert terms.holds(mapo, ("region", "province"), "西南") is True
    assert terms.holds(mapo, ("region", "province"), "重庆") is None
    assert terms.holds(mapo, ("flavor",), "酸甜") is False
    # Noodles with chilli oil may well be called spicy, though their row says salty and savoury.
    assert terms.holds(dishes["牛肉面"], ("flavor",), "鲜辣") is None


def test_an_ingredient_that_is_placed_nowhere_proves_no_absence(terms, dishes):
    tofu = replace(dishes["麻婆豆腐"], key_ingredients=(Bilingual("某某"),) * 3)
    assert terms.holds(tofu, ("main_ingredient", "key_ingredients"), "肉") is None
    assert terms.holds(dishes["地三鲜"], ("main_ingredient", "key_ingredients"), "肉") is False


def test_words_that_give_a_value_away(terms):
    assert {"京", "北京"} <= set(terms.of("cuisine_type").tells("京菜"))
    assert "鸡" in terms.of("main_ingredient").tells("鸡肉")


def test_every_ingredient_and_place_of_the_table_is_placed(terms, dishes):
    for field in ("main_ingredient", "key_ingredients", "region", "province"):
        words = terms.of(field)
        assert not {v.zh for dish in dishes.values() for v in dish.values(field) if not words.is_known(v.zh)}, field


def test_closure_of_any_depth():
    words = Vocabulary("v", contains={"a": ("b",), "b": ("c",), "c": ("d",)}, same=(("d", "e"),))
    assert words.is_within("e", "a") and words.conflicts("a", "e") and not words.is_within("a", "e")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("places: {contains: {甲: [乙], 乙: [甲]}}", "lie in each other"),
        ("places: {contains: {甲: [甲]}}", "lie in each other"),
        ("places: {same: [[甲, 乙], [乙, 丙]]}", "stands in two sets"),
        ("places: {sames: []}", "unknown key sames"),
        ("places: {same: 甲}", "must be a list"),
        ("places: {near: [[1]]}", "is no text"),
        ("places: {shares: {甲: 2}}", "above 0, at most 1"),
        ("places: {all_placed: 1}", "true or false"),
        ("- a", "holds no mapping"),
        ("a: [", "no YAML"),
        ("places: !!python/object/apply:os.getcwd []", "no YAML"),
        ("categories: {}", "in two files"),
    ],
)
def test_wrong_terms_cost_one_line(tmp_path, text, told):
    for name in ("places.yaml", "terms.yaml"):
        (tmp_path / name).write_text((FOLDER / name).read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "places.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=told) as caught:
        read_terms(tmp_path)
    assert "\n" not in str(caught.value)
