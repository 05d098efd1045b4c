"""Rendered illustrations: deterministic, of what the step says, written atomically."""

import hashlib
import inspect
import itertools
import re
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image, ImageDraw

from data import illustrations
from data.drawings import INGREDIENTS, Pen
from data.illustrations import draw, illustrated, image_name, read_scene, render_images, scene_keys
from data.records import SourceRecipe, SourceStep

STEPS = [
    "Preheat the oven to 350°F (180°C).",
    "Chop the onions and carrots into small pieces.",
    "In a large bowl, whisk together the flour, sugar and salt.",
    "Heat the oil in a frying pan and fry the chicken until golden.",
    "Bring the water to a boil in a large pot and add the pasta.",
    "Bake for 30 minutes.",
    "Refrigerate overnight.",
    "Drain the potatoes.",
    "Serve hot with rice.",
    "Roll out the dough on a floured surface.",
    "Pour the milk into a glass with ice.",
    "Blend the strawberries and bananas in a blender.",
    "",
    "Ünïcode ½ – 北京 🍜",
]


def recipe(steps, recipe_id="some-dish"):
    return SourceRecipe(recipe_id, "", "", tuple(SourceStep(text) for text in steps))


@pytest.mark.parametrize("text", STEPS)
@pytest.mark.parametrize("size", [224, 61])
def test_picture_is_deterministic(text, size):
    first, second = draw(text, (), size), draw(text, (), size)
    assert first.mode == "RGB" and first.size == (size, size)
    assert first.tobytes() == second.tobytes()
    assert len(np.unique(np.asarray(first).reshape(-1, 3), axis=0)) > 20


def test_picture_does_not_depend_on_the_hash_seed():
    code = (
        "import hashlib; from data.illustrations import draw;"
        f"print(hashlib.sha256(b''.join(draw(t).tobytes() for t in {STEPS!r})).hexdigest())"
    )
    here = hashlib.sha256(b"".join(draw(text).tobytes() for text in STEPS)).hexdigest()
    for seed in ("1", "77"):
        run = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            cwd=illustrations.Path(illustrations.__file__).parents[1],
            env={"PYTHONHASHSEED": seed, "PYTHONIOENCODING": "utf-8"},
        )
        assert run.stdout.strip() == here


@pytest.mark.parametrize(
    ("text", "place", "kinds", "actions"),
    [
        ("Preheat the oven to 350°F.", "oven", [], []),
        ("Bake for 30 minutes until golden brown.", "oven", [], []),
        ("Chop the onions, and slice the mushrooms.", "board", ["onion", "mushroom"], []),
        ("Whisk the eggs with the milk in a bowl.", "bowl", ["egg", "milk"], ["whisk"]),
        ("Heat olive oil in a skillet and sauté the garlic.", "pan", ["oil", "garlic"], ["heat"]),
        ("Bring the chicken stock to a boil.", "pot", ["broth"], ["boil"]),
        ("Put the casserole dish in the refrigerator.", "fridge", [], []),
        ("Drain the pasta in a colander.", "colander", ["pasta"], []),
        ("Rinse the rice under running water.", "tap", ["rice", "water"], []),
        ("Add the coconut milk and brown sugar to the saucepan.", "pot", ["coconut milk", "brown sugar"], ["add"]),
        ("Serve immediately.", "plate", [], ["hot"]),
        ("Knead the dough for 10 minutes.", "dough", ["dough"], ["knead"]),
        ("Purée the tomatoes in a blender.", "blender", ["tomato"], []),
        ("Store in an airtight container.", "jar", [], []),
        ("Grill the steaks over hot charcoal.", "grill", ["beef"], []),
        ("Let cool on a wire rack.", "rack", [], ["cool"]),
        ("Spread the batter in a greased loaf pan.", "dish", ["dressing"], []),
        ("Pour the lemonade into a glass.", "glass", ["juice"], ["pour"]),
        ("Add chopped onion.", "bowl", ["onion"], ["add"]),
    ],
)
def test_scene_shows_what_the_step_says(text, place, kinds, actions):
    scene = read_scene(text)
    assert scene.place == place
    assert [INGREDIENTS[word][0] for word in scene.things] == kinds
    assert set(actions) <= set(scene.actions)


def test_time_and_temperature():
    assert read_scene("Cook for 20–25 minutes.").minutes == 20
    assert read_scene("Marinate for 2 hours.").minutes == 120
    assert read_scene("Chill overnight.").minutes == 1440
    assert read_scene("Mix well.").minutes == 0
    assert read_scene("Bake at 482°F.").heat == pytest.approx(read_scene("Bake at 250 °C.").heat) == 1


def test_ingredient_list_makes_words_precise_but_adds_none():
    lines = ("1 lb green beans, trimmed", "2 red bell peppers", "3 eggs")
    plain, informed = read_scene("Add the beans."), read_scene("Add the beans.", lines)
    assert [INGREDIENTS[word][0] for word in plain.things] == ["beans"]
    assert [INGREDIENTS[word][0] for word in informed.things] == ["green beans"]
    assert read_scene("Mix everything.", lines).things == ()


def test_nothing_but_the_step_reaches_the_picture():
    assert list(inspect.signature(draw).parameters) == ["step_text", "ingredients", "size"]
    texts = ["Serve.", "Add the rice."]
    names = [image_name("dish", index) for index in range(2)]
    assert draw(texts[1]).tobytes() == draw(texts[1], ("1 cup rice",)).tobytes()
    assert scene_keys([recipe(texts, "dish")])[names[1]] == scene_keys([recipe(texts[::-1], "dish")])[names[0]]


def test_every_ingredient_has_its_own_look():
    pictures = {}
    for kind, drawing, colour in INGREDIENTS.values():
        if kind not in pictures:
            picture = Image.new("RGB", (96, 96), (250, 235, 215))
            drawing(Pen(ImageDraw.Draw(picture), (40, 0, 0, 40, 48, 48)), colour)
            pictures[kind] = np.asarray(picture, dtype=float)
    blank = np.full((96, 96, 3), (250, 235, 215), dtype=float)
    for kind, picture in pictures.items():
        assert np.abs(picture - blank).mean() > 3, kind
        edge = np.concatenate([picture[0], picture[-1], picture[:, 0], picture[:, -1]])
        assert (edge == (250, 235, 215)).all(), f"{kind} is larger than its frame allows"
    alike = [
        (first, second)
        for first, second in itertools.combinations(pictures, 2)
        if np.abs(pictures[first] - pictures[second]).mean() < 0.35
    ]
    assert set(alike) <= {("coconut", "coconut milk"), ("wine", "vanilla"), ("vanilla", "soy sauce")}


def test_every_place_is_drawn_with_and_without_things():
    for place, drawing in illustrations._PLACE_DRAWINGS.items():
        looks = set()
        for words in ((), ("carrot",), ("egg", "flour", "milk"), ("rice", "onion", "fish", "butter", "salt", "oil")):
            for actions in (
                (),
                ("add",),
                ("cover", "whisk"),
                ("pour", "spoon"),
                ("flip", "sprinkle"),
                ("brush", "hot"),
            ):
                picture = Image.new("RGB", (150, 150), (250, 235, 215))
                pen = Pen(ImageDraw.Draw(picture), (1.5, 0, 0, 1.5, 0, 0))
                scene = illustrations.Scene(place, words, actions)
                stage = illustrations._Set(
                    pen, scene, (250, 235, 215), (230, 190, 150), (90, 120, 160), illustrations.random.Random(0)
                )
                drawing(stage)
                looks.add(picture.tobytes())
        assert len(looks) >= 3, place


def test_files_are_written_once_and_named_rendered(tmp_path):
    recipes = illustrated([recipe(STEPS, "some-dish"), recipe(STEPS[:3], "other-dish")])
    names = [name for item in recipes for step in item.steps for name in step.images]
    assert all(re.fullmatch(r"(.*)_(\d+)_(\d+)\.jpg", name) and "-rendered_" in name for name in names)
    assert render_images(recipes, tmp_path, names[:5], notice="CC BY-SA 4.0") == 5
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*names[:5], "README.txt"])
    readme = (tmp_path / "README.txt").read_text()
    assert "endered" in readme and "CC BY-SA 4.0" in readme
    before = (tmp_path / names[0]).stat().st_mtime_ns
    assert render_images(recipes, tmp_path, names) == len(names) - 5
    assert (tmp_path / names[0]).stat().st_mtime_ns == before
    assert render_images(recipes, tmp_path) == 0
    shown = np.asarray(Image.open(tmp_path / names[1]).convert("RGB"), dtype=float)
    assert np.abs(shown - np.asarray(draw(STEPS[1]), dtype=float)).mean() < 4


def test_failure_leaves_no_half_file(tmp_path, monkeypatch):
    def broken(*_):
        raise OSError("disk full")

    monkeypatch.setattr(illustrations.os, "replace", broken)
    with pytest.raises(OSError, match="disk full"):
        illustrations._write(tmp_path / "a.jpg", b"x")
    assert list(tmp_path.iterdir()) == []


def test_keys_are_equal_for_pictures_that_look_alike():
    first, second = recipe(["Bake for 20 minutes.", "Serve hot."]), recipe(["Bake for 35 minutes.", "Serve"], "b")
    keys = scene_keys([first, second])
    assert keys["some-dish-rendered_1_0.jpg"] == keys["b-rendered_1_0.jpg"]
    assert keys["some-dish-rendered_2_0.jpg"] != keys["b-rendered_2_0.jpg"]
    assert scene_keys([replace(first, recipe_id="c")])["c-rendered_1_0.jpg"] == keys["b-rendered_1_0.jpg"]
