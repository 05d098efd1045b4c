"""The embedded recipes for retrieval: one table, splits without near-duplicates, names that tell nothing."""

import re
from collections import Counter

import numpy as np
import pytest
from PIL import Image

from data.build.embedded import WikibooksRecipes, similar_recipes
from data.errors import InputError
from data.recipes import open_table
from data.records import SourceRecipe, SourceStep
from data.wikibooks import read_recipes


@pytest.fixture(scope="module", autouse=True)
def read_once():
    """The texts are cleaned once for this file."""
    recipes = read_recipes()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("data.wikibooks.read_recipes", lambda: list(recipes))
        yield


@pytest.fixture(scope="module")
def whole(read_once, tmp_path_factory):
    return WikibooksRecipes().table(None, tmp_path_factory.mktemp("cache"))


def source(name, title, ingredients=(), steps=()):
    return SourceRecipe(name, title, "", tuple(SourceStep(text) for text in steps), tuple(ingredients))


def test_the_table_holds_every_recipe(whole):
    recipes = {recipe.recipe_id: recipe for recipe in read_recipes()}
    assert list(whole.ids) == sorted(recipes) and len(whole) == 3128
    for row in (0, 17, 1000, 3127):
        made, recipe = whole[row], recipes[whole.ids[row]]
        assert (made.title, made.ingredients) == (recipe.title, recipe.ingredients)
        assert made.instructions == tuple(step.body for step in recipe.steps)
        assert len(made.detected) == len(made.valid) == len(made.ingredients)
        assert made.attribution == recipe.attribution and made.class_id == 0
    notice = (whole.folder / "ATTRIBUTION.txt").read_text()
    assert "CC BY-SA 4.0" in notice and notice.count("en.wikibooks.org/wiki/Cookbook:") == 3128


def test_detected_names_are_the_lines_without_amounts(whole):
    recipe = whole[int(whole.find(["sangria"])[0])]
    assert recipe.detected[:4] == ("red wine", "peaches", "apple", "banana") and all(recipe.valid)
    names = [
        name for recipe in whole.iter() for name, valid in zip(recipe.detected, recipe.valid, strict=True) if valid
    ]
    assert len(names) > 24_000
    assert sum(any(c.isdigit() for c in name) for name in names) / len(names) < 0.01
    for recipe in whole.iter():
        for line, name, valid in zip(recipe.ingredients, recipe.detected, recipe.valid, strict=True):
            assert name and (valid or name == line)


def test_picture_names_are_unlike_the_recipes(whole):
    names = [name for row in range(len(whole)) for name in whole.image_names(row)]
    assert len(set(names)) == len(whole) and all(re.fullmatch(r"[0-9a-f]{20}\.jpg", name) for name in names)


def test_splits_have_their_shares_and_share_no_near_duplicate(whole):
    counts = Counter(whole.partitions.tolist())
    assert {name: round(count / len(whole), 2) for name, count in counts.items()} == {
        "train": pytest.approx(0.7, abs=0.03),
        "val": pytest.approx(0.15, abs=0.03),
        "test": pytest.approx(0.15, abs=0.03),
    }
    partition = dict(zip(whole.ids.tolist(), whole.partitions.tolist(), strict=True))
    titles: dict[str, set[str]] = {}
    lists: dict[tuple[str, ...], set[str]] = {}
    for recipe in whole.iter():
        title = re.sub(r" +[IVX]+$| *\(.*\)", "", recipe.title).strip().lower()
        titles.setdefault(title, set()).add(recipe.partition)
        if len(recipe.ingredients) > 2:
            lists.setdefault(tuple(sorted(set(recipe.detected))), set()).add(recipe.partition)
    assert len(titles) < len(whole) and all(len(found) == 1 for found in titles.values())
    assert all(len(found) == 1 for found in lists.values())
    pancakes = ["banana-nutmeg-pancakes", "corn-pancakes", "lemon-poppy-seed-pancakes", "orange-cardamom-pancakes"]
    assert len({partition[name] for name in pancakes}) == 1  # the same method with another flavour


def test_the_split_hangs_on_the_seed_and_not_on_the_number(whole, tmp_path):
    some = WikibooksRecipes(max_recipes=300).table(None, tmp_path)
    assert len(some) == 300
    kept = {name: part for name, part in zip(whole.ids.tolist(), whole.partitions.tolist(), strict=True)}
    same = [kept[name] == part for name, part in zip(some.ids.tolist(), some.partitions.tolist(), strict=True)]
    assert sum(same) >= 285  # a group whose smallest id is left out may move
    other = WikibooksRecipes(max_recipes=300, seed=5).table(None, tmp_path)
    assert other.partitions.tolist() != some.partitions.tolist()


def test_the_table_is_built_once_and_again_where_damaged(tmp_path):
    table = WikibooksRecipes(max_recipes=40).table(None, tmp_path)
    before = (table.folder / "recipes.arrow").stat().st_mtime_ns
    again = WikibooksRecipes(max_recipes=40).table(None, tmp_path)
    assert again.folder == table.folder and again.digest == table.digest
    assert (table.folder / "recipes.arrow").stat().st_mtime_ns == before
    (table.folder / "ATTRIBUTION.txt").unlink()
    assert WikibooksRecipes(max_recipes=40).table(None, tmp_path).digest == table.digest
    assert (table.folder / "ATTRIBUTION.txt").is_file()
    assert open_table(table.folder).digest == table.digest


def test_photos_are_drawn_when_asked_for(tmp_path):
    builder = WikibooksRecipes(max_recipes=12)
    table = builder.table(None, tmp_path)
    names = [table.image_names(row)[0] for row in range(5)]
    find = builder.photos(None, tmp_path, names)
    with Image.open(find("train", names[3])) as picture:
        assert picture.size == (224, 224) and picture.format == "JPEG"
    assert len(list(find.folder.glob("*.jpg"))) == 5
    with pytest.raises(InputError, match="has no picture"):
        find("train", table.image_names(7)[0])
    with pytest.raises(InputError, match="has no picture"):
        find("train", "../README.txt")
    assert "rendered" in builder.notes[0].lower() and builder.rendered


def test_a_folder_or_lists_are_refused(tmp_path):
    builder = WikibooksRecipes(max_recipes=3)
    with pytest.raises(InputError, match=r"data\.root=.*data=recipe1m"):
        builder.table(str(tmp_path), tmp_path)
    table = builder.table(None, tmp_path)
    with pytest.raises(InputError, match=r"data\.lists=.*data=recipe1m"):
        builder.pairs(table, None, str(tmp_path))
    pairs = builder.pairs(table, None, None)
    assert sorted(np.concatenate(list(pairs.values())).tolist()) == [0, 1, 2]


def test_similar_recipes():
    steps = [f"a step of more than forty characters, number {i} of all" for i in range(6)]
    groups = similar_recipes(
        [
            source("a", "Apple Pie I", ["1 apple"]),
            source("b", "Pie (Sweet) Apple 2", ["3 nuts"]),
            source("c", "Cider", ["2 cups flour", "1 egg", "milk, cold"], steps[:2]),
            source("d", "Batter", ["1 cup milk", "200 g flour", "4 large egg"]),
            source("e", "Soup", ["water"], steps[1:5]),
            source("f", "Tea", ["water"], [steps[5], "short", "Serve."]),
            source("g", "Toast", ["bread"], ["short", "Serve."]),
            source("h", "IV", ["salt"]),
            source("i", "X", ["salt"]),
        ]
    )
    assert groups == {"a": "a", "b": "a", "c": "c", "d": "c", "e": "c", "f": "f", "g": "g", "h": "h", "i": "i"}
