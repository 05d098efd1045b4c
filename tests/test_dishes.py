"""Rendered dishes: deterministic, of what the recipe says, blind to all else, written atomically."""

import hashlib
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from data import dishes
from data.dishes import _DRAW, _PIECES, _PLAIN, draw_dish, photo_name, read_dish, render_dishes
from data.drawings import INGREDIENTS
from data.records import SourceRecipe, SourceStep


def recipe(title, ingredients=(), steps=("Serve.",), category="", name="some-dish"):
    return SourceRecipe(name, title, category, tuple(map(SourceStep, steps)), tuple(ingredients))


EXAMPLES = [
    recipe("Tomato Soup", ["6 tomatoes", "1 onion", "1 l stock"]),
    recipe("Chocolate Cake", ["200 g flour", "2 eggs", "cocoa powder"]),
    recipe("Lemonade", ["4 lemons", "sugar", "water"]),
    recipe("", [], []),
    recipe("北京 🍜 Ünïcode ½", ["½ 🍜"], ["– ünïcode –"]),
]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.title[:8])
@pytest.mark.parametrize("size", [224, 61])
def test_picture_is_deterministic(example, size):
    first, second = draw_dish(example, size), draw_dish(example, size)
    assert first.mode == "RGB" and first.size == (size, size)
    assert first.tobytes() == second.tobytes()
    assert len(np.unique(np.asarray(first).reshape(-1, 3), axis=0)) > 30


def test_bytes_do_not_depend_on_the_hash_seed(tmp_path):
    render_dishes(EXAMPLES[:1], tmp_path)
    here = hashlib.sha256((tmp_path / photo_name("some-dish")).read_bytes()).hexdigest()
    code = (
        "import hashlib, sys, pathlib; from data.dishes import *; from data.records import *;"
        "r = SourceRecipe('some-dish', 'Tomato Soup', '', (SourceStep('Serve.'),),"
        " ('6 tomatoes', '1 onion', '1 l stock'));"
        "p = pathlib.Path(sys.argv[1]); render_dishes([r], p);"
        "print(hashlib.sha256((p / photo_name('some-dish')).read_bytes()).hexdigest())"
    )
    for seed in ("1", "77"):
        run = subprocess.run(
            [sys.executable, "-c", code, str(tmp_path / seed)],
            capture_output=True,
            text=True,
            check=True,
            cwd=Path(dishes.__file__).parents[1],
            env={"PYTHONHASHSEED": seed},
        )
        assert run.stdout.strip() == here


@pytest.mark.parametrize(
    ("title", "form"),
    [
        ("Chicken Soup with Pasta", "soup"),
        ("Apple Pie II", "pie"),
        ("Pumpkin Bread", "loaf"),
        ("Curry Chicken", "stew"),
        ("Grilled Salmon", "main"),
        ("Spaghetti and Meatballs", "pasta"),
        ("Chicken and Corn Empanadas", "dumplings"),
        ("Charoset (Apple Salad)", "salad"),
        ("French Fries (Belgian)", "sticks"),
        ("Iced Tea", "drink"),
        ("Russian Tea", "mug"),
        ("Salad Dressing", "sauce"),
        ("Pancakes", "stack"),
        ("Cheese Omelette", "omelette"),
        ("Barbecue Chicken Rub", "powder"),
        ("Honey Garlic Chicken", "main"),
    ],
)
def test_the_title_says_what_kind_of_dish_it_is(title, form):
    assert read_dish(recipe(title)).form == form


def test_category_and_steps_speak_where_the_title_is_silent():
    assert read_dish(recipe("Kvardek", category="Soup recipes")).form == "soup"
    assert read_dish(recipe("Kvardek", steps=["Pour into a glass and serve."])).form == "drink"
    assert (
        read_dish(recipe("Kvardek", steps=["Bake in a springform pan."], category="Recipes for dessert")).form == "cake"
    )
    assert read_dish(recipe("Kvardek", category="Recipes for dessert")).form == "cup"
    assert read_dish(recipe("Kvardek")).form == "main"


def test_main_ingredients_show_and_others_hide():
    lines = ["500 g beef", "2 carrots", "1 tsp salt", "1 l water", "2 tbsp olive oil", "1 tbsp flour", "3 potatoes"]
    dish = read_dish(recipe("Kvardek Stew", lines))
    assert set(dish.kinds) == {"beef", "carrot", "potato"} and dish.kinds[0] == "beef"
    assert "egg" not in read_dish(recipe("Cookies", ["2 eggs", "200 g chocolate", "1 onion"])).kinds
    assert read_dish(recipe("Onion Cookies", ["2 eggs", "1 onion"])).kinds == ("onion",)
    assert len(read_dish(recipe("Stew", [f"1 {kind}" for kind in _PIECES])).kinds) == dishes.MAX_VISIBLE


def test_ingredients_colour_the_dish():
    def colour(*lines, title="Soup"):
        return np.array(read_dish(recipe(title, lines)).colour)

    plain, tomato, spinach = colour("water"), colour("1 kg tomatoes", "tomato paste"), colour("1 kg spinach")
    assert tomato[0] - tomato[1] > plain[0] - plain[1] + 40
    assert spinach[1] - spinach[0] > plain[1] - plain[0] + 20
    assert colour("100 g cocoa powder", title="Cake").sum() < colour("flour", title="Cake").sum() - 100


def test_garnish_is_what_the_recipe_strews_over_it():
    lines = ["1 chicken", "parsley", "1 lemon"]
    assert read_dish(recipe("Kvardek", lines, ["Cook.", "Garnish with parsley and serve."])).garnish == ("herbs",)
    assert read_dish(recipe("Kvardek", [*lines[:2], "lemon, for garnish"], ["Cook."])).garnish == ("lemon",)
    assert read_dish(recipe("Kvardek", lines, ["Cook."])).garnish == ()


def test_every_form_can_be_drawn_with_every_ingredient():
    assert set(_DRAW) == set(_PLAIN)
    kinds = sorted(_PIECES)
    for number, form in enumerate(sorted(_DRAW)):
        for shift in range(2):
            start = (number * 5 + shift * 37) % len(kinds)
            shown = tuple((kinds + kinds)[start : start + dishes.MAX_VISIBLE]) if shift else ()
            made = dishes.Dish(form, shown, (200, 120, 60), shown[:2])
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(dishes, "read_dish", lambda _, made=made: made)
                assert draw_dish(recipe("", name=f"{form}{shift}"), 48).size == (48, 48)
    assert {kind for kind, _, _ in INGREDIENTS.values()} >= set(_PIECES) | dishes._HIDDEN | set(dishes._TINTS)


def test_the_id_changes_the_table_and_not_the_dish():
    pictures = [np.asarray(draw_dish(replace(EXAMPLES[0], recipe_id=f"id-{i}"))) for i in range(12)]
    assert len({picture.tobytes() for picture in pictures}) == 12
    middles = np.array([picture[100:124, 100:124].reshape(-1, 3).mean(0) for picture in pictures])
    assert (middles[:, 0] > middles[:, 2] + 40).all()  # tomato red on every table
    corners = np.array([picture[:8, :8].reshape(-1, 3).mean(0) for picture in pictures])
    assert corners.std(0).max() > 15


def test_names_say_nothing_about_the_recipe():
    names = [photo_name(f"tomato-soup-{i}") for i in range(50)]
    assert len(set(names)) == 50 and all(len(name) == 24 and "tomato" not in name for name in names)


def test_only_missing_pictures_are_drawn(tmp_path):
    some = [replace(EXAMPLES[0], recipe_id=f"r{i}") for i in range(4)]
    wanted = [photo_name("r1"), photo_name("r2"), "unknown.jpg"]
    assert render_dishes(some, tmp_path, wanted, notice="CC BY-SA 4.0") == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["README.txt", *wanted[:2]])
    text = (tmp_path / "README.txt").read_text()
    assert "no photographs" in text and "CC BY-SA 4.0" in text and dishes.dish_version() in text
    before = (tmp_path / wanted[0]).read_bytes()
    assert render_dishes(some, tmp_path) == 2 and render_dishes(some, tmp_path) == 0
    assert (tmp_path / wanted[0]).read_bytes() == before
    with Image.open(tmp_path / wanted[0]) as picture:
        assert picture.format == "JPEG" and picture.size == (224, 224)


def test_a_failed_write_leaves_nothing(tmp_path, monkeypatch):
    def fail(*_args):
        raise KeyboardInterrupt

    monkeypatch.setattr(dishes, "draw_dish", fail)
    with pytest.raises(KeyboardInterrupt):
        render_dishes(EXAMPLES[:1], tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["README.txt"]


@pytest.mark.slow
def test_processes_draw_what_one_draws(tmp_path):
    many = [replace(EXAMPLES[i % 3], recipe_id=f"r{i}") for i in range(420)]
    assert render_dishes(many, tmp_path / "two", processes=2) == 420
    assert render_dishes(many[:20], tmp_path / "one", processes=1) == 20
    for path in (tmp_path / "one").glob("*.jpg"):
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes()


@pytest.mark.slow
def test_every_embedded_recipe_is_drawn():
    from data.wikibooks import read_recipes

    forms = {}
    for source in read_recipes():
        dish = read_dish(source)
        forms[dish.form] = forms.get(dish.form, 0) + 1
        assert draw_dish(source, 32).size == (32, 32)
    assert set(forms) == set(_DRAW) and max(forms.values()) < 700
