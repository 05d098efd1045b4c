"""The cleaning against what was published of it, rule by rule, and its freedom from order."""

import itertools
import json
import random
import sys
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.build import cleaning
from data.build.cleaning import (
    CleaningSettings,
    clean,
    near_duplicates,
    normalise,
    repeated,
    strip_step_number,
    unreadable,
)
from data.errors import InputError
from data.records import SourceRecipe, SourceStep

SOUP = (
    ("Chop", "Chop the onion and the carrots into small pieces."),
    ("Fry", "Fry the onion in butter until it is soft and clear."),
    ("Boil", "Add the carrots with a litre of stock and boil them for twenty minutes."),
    ("Serve", "Blend the soup until smooth and serve it with bread."),
)


def recipe(name="soup", steps=SOUP, **values):
    return SourceRecipe(name, "Carrot soup", "soup", tuple(SourceStep(body, title) for title, body in steps), **values)


def cleaned(*recipes, **values):
    kept, counts = clean(recipes, CleaningSettings(**values))
    assert set(counts) == set(cleaning.RULES)
    left_out = sum(count for rule, count in counts.items() if rule.startswith("recipes left out"))
    assert counts[cleaning.READ] == len(recipes) == counts[cleaning.KEPT] + left_out
    return kept, Counter({rule: n for rule, n in counts.items() if n and rule not in (cleaning.READ, cleaning.KEPT)})


# ---- one rule after the other ----------------------------------------------------------------------------------------


def test_a_sound_recipe_passes_unchanged():
    kept, counts = cleaned(recipe())
    assert kept == [recipe()] and not counts


def test_only_videos_go_and_videos_beside_text_or_image_stay():
    video = SourceStep("", "Watch", videos=("a.mp4",))
    only = SourceRecipe("video", "Soup", "", (video,) * 4)
    with_text = replace(recipe("text"), steps=(video, *recipe().steps))
    with_image = SourceRecipe("image", "Cook the soup slowly", "", (replace(video, images=("x_1_0.jpg",)),) * 4)
    kept, counts = cleaned(only, with_text, with_image, language=None, near_duplicates=None)
    assert [r.recipe_id for r in kept] == ["image", "text"] and counts == {cleaning.VIDEO_ONLY: 1}


@pytest.mark.parametrize(
    ("text", "bad"),
    [
        ("", True),
        ("1 2 3 4", True),
        ("?!?! ...... ---- a", True),
        ("\ufffd\ufffd a soup of carrots", True),
        ("a\x00\x01 soup of carrots with onions", True),
        ("\ue000 soup of carrots with onions", True),
        ("2 eggs, 1/2 cup of milk (250 ml) & salt!", False),
        ("将冬瓜放入碗中，放入 15g 盐。", False),
        ("Crème brûlée at 180 °C", False),
        ("नमक और पानी मिलाएं", False),
    ],
)
def test_unreadable(text, bad):
    assert unreadable(text) is bad


def test_unreadable_recipes_go():
    _, counts = cleaned(recipe("signs", [("", "&&&& **** ////")] * 4), replace(recipe("none", []), title=""), recipe())
    assert counts == {cleaning.UNREADABLE: 2}


def test_the_language_is_that_of_the_whole_recipe():
    german = [
        ("Teig", "Mehl, Milch und eine Prise Salz verrühren und zehn Minuten ruhen lassen."),
        ("Äpfel", "Die Äpfel schälen und in dünne Scheiben schneiden."),
        ("Backen", "Butter in der Pfanne schmelzen und den Teig von beiden Seiten goldbraun backen."),
    ]
    short = [("", "1 cup sugar"), ("", "Ragù alla bolognese"), *SOUP]
    kept, counts = cleaned(recipe("a", german), recipe("b", short))
    assert [r.recipe_id for r in kept] == ["b"] and counts == {cleaning.LANGUAGE: 1}
    kept, counts = cleaned(recipe("a", german), recipe("b", short), language="de")
    assert [r.recipe_id for r in kept] == ["a"]
    assert len(cleaned(recipe("a", german), recipe("b", short), language=None)[0]) == 2
    assert not cleaned(recipe("b", short), min_language=1.0)[0]
    with pytest.raises(InputError, match=r"language=klingon: is unknown; use null or one of .*en, "):
        clean([recipe()], CleaningSettings(language="klingon"))


def test_without_the_language_package_the_remedy_is_told(monkeypatch):
    cleaning._identifier.cache_clear()
    monkeypatch.setitem(sys.modules, "py3langid.langid", None)
    with pytest.raises(InputError, match=r"pip install py3langid.*set it to null"):
        clean([recipe()])
    assert len(cleaned(recipe(), language=None)[0]) == 1
    cleaning._identifier.cache_clear()


def test_real_recipes_by_language(shared):
    def whole(name):
        records = json.loads((shared / "data" / name / "recipes.json").read_text())["recipes"]
        return [recipe(r["recipe_id"], [(s["title"], s["body"]) for s in r["steps"]]) for r in records]

    chinese, english = whole("howtocook"), whole("rpi_projects")
    for language, wanted in (("en", english), ("zh", chinese)):
        kept, counts = cleaned(*chinese, *english, language=language)
        assert {r.recipe_id for r in kept} == {r.recipe_id for r in wanted}
        assert counts[cleaning.LANGUAGE] == 26 - len(wanted)


def test_the_embedded_recipes_are_english():
    from data.wikibooks import read_recipes

    recipes = [r for r in read_recipes()[::5] if 3 <= len(r.steps) <= 25]
    assert len(recipes) > 500 and len(cleaned(*recipes, near_duplicates=None)[0]) == len(recipes)


def test_too_few_and_too_many_steps_go():
    step = SOUP[0]
    names = {n: recipe(f"{n:02}", [*SOUP[:2], *([step] * n)][:n]) for n in (1, 2, 3, 25, 26)}
    kept, counts = cleaned(*names.values(), near_duplicates=None)
    assert [r.recipe_id for r in kept] == ["03", "25"] and counts == {cleaning.STEPS: 3}
    assert len(cleaned(*names.values(), min_steps=1, max_steps=26, near_duplicates=None)[0]) == 5


def test_steps_without_text_and_image_go_and_steps_with_one_of_them_stay():
    steps = (SourceStep(" . "), *recipe().steps, SourceStep("", images=("soup_6_0.jpg",)), SourceStep("", "Eat"))
    kept, counts = cleaned(replace(recipe(), steps=steps))
    assert len(kept[0].steps) == 6 and counts == {cleaning.EMPTY_STEP: 1, cleaning.NORMALISED: 1}
    two = replace(recipe("two"), steps=(*recipe().steps[:2], SourceStep("")))
    assert cleaned(two)[1] == {cleaning.STEPS: 1}


def test_the_narrative_first_step_goes_by_the_sources_setting():
    kept, counts = cleaned(recipe(), first_step_is_narrative=True)
    assert kept[0].steps == recipe().steps[1:] and counts == {cleaning.NARRATIVE: 1}
    # The limits count it, as published; and where the first step was empty, the second is no narrative.
    assert cleaned(recipe(steps=SOUP[:3]), first_step_is_narrative=True)[0][0].steps == recipe().steps[1:3]
    headless = replace(recipe(), steps=(SourceStep(""), *recipe().steps))
    assert cleaned(headless, first_step_is_narrative=True)[0][0].steps == recipe().steps


def test_step_numbers_go_by_the_setting_and_a_step_of_nothing_else_with_them():
    numbered = recipe(steps=[(f"Step {i}", f"{i}. {body}") for i, (_, body) in enumerate(SOUP, 1)])
    kept, counts = cleaned(numbered)
    assert [s.body for s in kept[0].steps] == [body for _, body in SOUP] and not any(s.title for s in kept[0].steps)
    assert counts == {cleaning.NUMBERED: 8}
    assert cleaned(numbered, strip_step_numbers=False)[0] == [numbered]
    assert len(cleaned(recipe(steps=[*SOUP, ("Step 5", "5.")]))[0][0].steps) == 4


def test_changes_are_counted_of_recipes_that_stay():
    assert cleaned(recipe(steps=[("Step 1", "½ cup")] * 2), language=None)[1] == {cleaning.STEPS: 1}


def test_settings_that_do_not_fit():
    for wrong in (
        {"min_language": 1.5},
        {"min_readable": -1},
        {"min_steps": 0},
        {"min_steps": 5, "max_steps": 4},
        {"near_duplicates": 0.0},
        {"near_duplicates": 1.5},
    ):
        with pytest.raises(InputError, match=rf"questions\.cleaning\.{next(iter(wrong))}="):
            CleaningSettings(**wrong)
    with pytest.raises(InputError, match="'soup' occurs twice"):
        clean([recipe(), recipe()])


# ---- texts -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "plain", "stripped"),
    [
        ("3½ cups and ¼ cup", "3 1/2 cups and 1/4 cup", None),
        ("3 ½ cups, 1⁄3", "3 1/2 cups, 1/3", None),
        ("creme\u0301 bru\u0302le\u0301e", "cremé brûlée", "crem brle"),
        ("10³ m²", "10³ m²", "10 m"),
        ("ﬁlling…", "filling...", None),
        ("350\u00a0°F,\r\n 180 ℃", "350 °F, 180 °C", "350 F, 180 C"),
        ("salt&nbsp;&amp; pepper &frac12; AT&T &unknown; R&D;", "salt & pepper 1/2 AT&T &unknown; R&D;", None),
        ("\u200bso\u00adup\ufeff \x07", "soup", None),
        ("می\u200cخواهم", "می\u200cخواهم", ""),
        ("水５㎏", "水5kg", "5kg"),
        ("① Pyrex™", "① Pyrex™", "Pyrex"),
    ],
)
def test_normalise(text, plain, stripped):
    assert normalise(text) == plain
    assert normalise(text, strip_non_ascii=True) == (plain if stripped is None else stripped)


@given(st.text(max_size=60))
@settings(max_examples=300)
def test_normalise_is_idempotent_where_no_reference_hides_another(text):
    once = normalise(text)
    assert once == " ".join(once.split())
    if "&" not in once:
        assert normalise(once) == once
    assert normalise(text, strip_non_ascii=True).isascii()


NUMBERED = {
    "Step 3: Mix": "Mix",
    "STEP 3 - Mix": "Mix",
    "step 3.Mix": "Mix",
    "Step 3": "",
    "Step #3) mix": "mix",
    "Step 3 Boil it": "Boil it",
    "Step three: go": "go",
    "Step Two": "",
    "Steps 1-3: Mix": "Mix",
    "Step 2 of 5: Mix": "Mix",
    "Step 1:2 eggs": "2 eggs",
    "Step 1: 2.5 cups": "2.5 cups",
    "Step 3: 3) Mix": "Mix",
    "3) Mix": "Mix",
    "3)Mix": "Mix",
    "3. Mix": "Mix",
    "3.Mix": "Mix",
    "3.": "",
    " 12. Mix": "Mix",
    "3.) Mix": "Mix",
    "#3. Mix": "Mix",
    "3: Mix": "Mix",
    "(3) Mix": "Mix",
    "1) 3 eggs": "3 eggs",
    "1. 1/2 cup milk": "1/2 cup milk",
    "第3步：切肉": "切肉",
    "第三步骤 切肉": "切肉",
    "步骤2:切肉": "切肉",
    "3、切肉": "切肉",
    "② 切肉": "切肉",
}
KEPT = [
    "3 eggs",
    "2.5 cups of milk",
    "1.5. of it",
    "1/2 cup",
    "2-3 minutes",
    "10 - 12 minutes",
    "3:1 ratio",
    "12:00",
    "(2) cans of beans",
    "350. Bake",
    "180.",
    "7-Up",
    "2% milk",
    "3 x 5 cm",
    "3rd layer",
    "Step 3 steps back",
    "Step 2.5 cups in",
    "Stepping 3: x",
    "Stepladder",
    "2、3个鸡蛋",
    "1...2...3...",
    "1,5 dl",
    "½ cup",
    "1. Wash the pears. 2. Cut them.",
    "1) Wash 2) Cut",
    "1.Bread2. Cheese",
    "",
]


@pytest.mark.parametrize(("text", "rest"), NUMBERED.items())
def test_step_numbers_are_stripped(text, rest):
    assert strip_step_number(text) == rest


@pytest.mark.parametrize("text", KEPT)
def test_quantities_and_lists_are_no_step_numbers(text):
    assert strip_step_number(text) == text


QUANTITIES = st.one_of(
    st.integers(0, 10**4).map(str),
    st.floats(0, 999, allow_nan=False).map(lambda x: f"{x:.1f}"),
    st.tuples(st.integers(1, 99), st.integers(1, 99)).map("{0[0]}/{0[1]}".format),
    st.tuples(st.integers(1, 99), st.integers(1, 99)).map("{0[0]}-{0[1]}".format),
    st.tuples(st.integers(1, 99), st.integers(1, 9)).map("{0[0]} 1/{0[1]}".format),
)


@given(QUANTITIES, st.sampled_from(["eggs", "cups of milk", "g flour", "Minutes later", "°C", "cm long"]))
def test_no_quantity_is_ever_eaten(quantity, unit):
    assert strip_step_number(f"{quantity} {unit}") == f"{quantity} {unit}"
    assert strip_step_number(f"Step 7: {quantity} {unit}") == f"{quantity} {unit}"
    assert strip_step_number(f"7) {quantity} {unit}") == f"{quantity} {unit}"


# ---- near-duplicates -------------------------------------------------------------------------------------------------


def triples(text):
    words = text.split()
    return {tuple(words[i : i + 3]) for i in range(max(len(words) - 2, 1))} if len(words) > 2 else set(words)


def all_pairs(texts, threshold):
    """Every pair by sets of words, with no index."""
    sets = [triples(text) for text in texts]
    found = []
    for i, j in itertools.combinations(range(len(texts)), 2):
        if sets[i] and sets[j]:
            similarity = len(sets[i] & sets[j]) / len(sets[i] | sets[j])
            if similarity >= threshold:
                found.append((i, j, similarity))
    return found


@given(
    st.lists(st.lists(st.sampled_from(["salt", "egg", "milk", "pan"]), max_size=9).map(" ".join), max_size=14),
    st.sampled_from([0.05, 1 / 3, 0.5, 0.6, 2 / 3, 0.8, 1.0]),
)
@settings(max_examples=300, deadline=None)
def test_pairs_are_those_of_comparing_everything(texts, threshold):
    assert near_duplicates(texts, threshold) == all_pairs(texts, threshold)


def test_pairs_of_long_texts_are_those_of_comparing_everything():
    generator = random.Random(3)
    vocabulary = ["".join(generator.choices("abcdefgh", k=4)) for _ in range(300)]
    texts = []
    for _ in range(40):
        words = generator.choices(vocabulary, k=generator.randrange(20, 90))
        texts.append(" ".join(words))
        for _ in range(generator.randrange(3)):
            words = [generator.choice(vocabulary) if generator.random() < 0.06 else word for word in words]
            texts.append(" ".join(words))
    for threshold in (0.3, 0.6, 0.9):
        pairs = all_pairs(texts, threshold)
        assert pairs and near_duplicates(texts, threshold) == pairs


def test_case_signs_and_numbers_do_not_count_and_chinese_signs_are_words():
    a, b = "Bake at 180 °C, for 20 minutes!", "bake at 350 °c for 45 minutes"
    assert near_duplicates([a, b], 1.0) == [(0, 1, 1.0)]
    zh = "将冬瓜放入碗中放入盐将冬瓜抹匀", "将冬瓜放入碗中放入糖将冬瓜抹匀"
    assert 0.5 < near_duplicates(zh, 0.3)[0][2] < 0.9
    assert near_duplicates(["", "", "1 2 3", "..."], 0.1) == []


def variants(count, seed=0):
    """Recipes of which some are near-duplicates in chains: each differs a little from the one before."""
    generator, made = random.Random(seed), []
    words = " ".join(body for _, body in SOUP).split()
    for i in range(count):
        words = list(words)
        for _ in range(3):
            words[generator.randrange(len(words))] = f"word{generator.choice('abcdefghij')}"
        made.append(recipe(f"soup-{i}", [("", " ".join(words[k::4])) for k in range(4)]))
    return made


def test_of_near_duplicates_one_stays_whatever_the_order():
    recipes = variants(30)
    gone = repeated(recipes, 0.5)
    assert 0 < len(gone) < 30
    for seed in range(5):
        random.Random(seed).shuffle(recipes)
        assert repeated(recipes, 0.5) == gone
    texts = {r.recipe_id: " ".join(f"{s.title} {s.body}" for s in r.steps) for r in recipes}
    stayed = [texts[name] for name in sorted(texts.keys() - gone)]
    assert not near_duplicates(stayed, 0.5), "two near-duplicates stayed"
    for name in gone:  # nobody goes without a reason
        assert near_duplicates([*stayed, texts[name]], 0.5)


def test_renaming_decides_who_stays():
    a, b = recipe("a"), recipe("b")
    stays = {clean([a, b])[0][0].recipe_id} | {clean([b, a])[0][0].recipe_id}
    assert len(stays) == 1
    many = {clean([replace(a, recipe_id=f"a{i}"), replace(b, recipe_id=f"b{i}")])[0][0].recipe_id[0] for i in range(9)}
    assert many == {"a", "b"}, "a hash of the id decides, not the order of the alphabet"


@given(st.randoms(use_true_random=False))
@settings(max_examples=15, deadline=None)
def test_nothing_depends_on_the_order(generator):
    recipes = [
        *variants(8),
        recipe("short", SOUP[:2]),
        recipe("zh", [("", "将冬瓜放入碗中，放入盐，将冬瓜抹匀，放置十分钟。")] * 4),
        recipe("empty", [("", "??")] * 4),
        recipe("numbered", [("Step 1", "½ " + body) for _, body in SOUP]),
    ]
    before = clean(recipes, CleaningSettings(near_duplicates=0.5))
    generator.shuffle(recipes)
    assert clean(iter(recipes), CleaningSettings(near_duplicates=0.5)) == before
