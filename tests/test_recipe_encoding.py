"""Encoded recipes: the same as cutting each recipe on its own, gathered without a loop, counted, kept once."""

import pickle
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from data.errors import InputError
from data.recipe_encoding import EncodedRecipes, RecipeEncoding, encode_recipes
from data.recipes import RecipeTable, open_table, write_table
from data.records import Recipe
from data.vocabulary import TextCutter, Vocabulary, WordRules, ingredient_elements

WORDS = ["</s>", "add", "the", "salt", ".", "olive_oil", "butter", "and", "stir", "2", "1/2", "cup", "cheese_sauce"]
VOCABULARY = Vocabulary(WORDS, np.random.default_rng(0).standard_normal((len(WORDS), 4)))
ROW = {word: line + 2 for line, word in enumerate(WORDS)}


def made_up(number: int) -> Recipe:
    rng = random.Random(number)
    names = ["salt", "olive oil", "butter", "unsalted butter", "unheard of", "cheese sauce", "page 3"]
    detected = tuple(rng.choices(names, k=rng.choice([0, 0, 1, 2, 5, 9])))
    some = [*WORDS[1:5], "olive oil", "unknown", "Butter,", "2 12 cup", "cheese sauce"]
    instructions = tuple(
        " ".join(rng.choices(some, k=rng.choice([0, 1, 3, 8]))) for _ in range(rng.choice([0, 1, 2, 7]))
    )
    valid = tuple(rng.random() < 0.8 for _ in detected)
    title = rng.choice(["", "Salt and butter", "nothing known here", "olive oil"])
    return Recipe(f"{number:010x}", title, detected, instructions, detected=detected, valid=valid)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> RecipeTable:
    folder = tmp_path_factory.mktemp("table")
    write_table(folder, map(made_up, range(60)))
    return open_table(folder)


def one(
    tmp_path: Path, recipe: Recipe, settings: RecipeEncoding | None = None, vocabulary=VOCABULARY
) -> EncodedRecipes:
    write_table(tmp_path / "table", [recipe])
    return encode_recipes(tmp_path, open_table(tmp_path / "table"), np.arange(1), vocabulary, settings)


def naive(recipe: Recipe, s: RecipeEncoding) -> tuple[list[int], list[list[int]], list[int]]:
    """What the batch should hold of one recipe."""
    names = ingredient_elements(recipe, VOCABULARY.rules, s.valid_only)
    ingredients = []
    for name in names:
        parts = name.split("_")
        runs = ["_".join(parts[a:b]) for a in range(len(parts)) for b in range(a + 1, len(parts) + 1)]
        runs = [run for run in runs if run in ROW] if s.partial_names else [run for run in [name] if run in ROW]
        if runs:
            longest = max(run.count("_") for run in runs)
            ingredients.append(ROW[[run for run in runs if run.count("_") == longest][-1]])
    cutter = TextCutter([name for name in names if name in ROW], VOCABULARY.rules)
    sentences = [
        [ROW[word] for word in cutter(text) if word in ROW][: s.max_words] or [1]
        for text in recipe.instructions[: s.max_instructions]
    ]
    title = [ROW[word] for word in cutter(recipe.title) if word in ROW][: s.max_words] or [1]
    return [*ingredients[: s.max_ingredients - 1], 1], sentences, title


SETTINGS = (
    RecipeEncoding(),
    RecipeEncoding(max_ingredients=3, max_instructions=2, max_words=3, partial_names=False),
    RecipeEncoding(max_ingredients=1, max_instructions=1, max_words=1, valid_only=False),
)


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("positions", [[0], [5, 3, 3, 59], list(range(60)), []])
def test_batches_equal_each_recipe_cut_alone(tmp_path, table, settings, positions):
    rows = np.random.default_rng(1).permutation(60)
    encoded = encode_recipes(tmp_path, table, rows, VOCABULARY, settings)
    assert len(encoded) == 60
    batch = encoded.text_batch(positions)
    wanted = [naive(table[int(rows[position])], settings) for position in positions]
    assert all(value.dtype == torch.int64 and len(value) in (len(positions), len(batch["sentences"]))
               for value in batch.values())  # fmt: skip
    sentence_total = 1 + sum(len(sentences) for _, sentences, _ in wanted)
    assert len(batch["sentences"]) == len(batch["sentence_count"]) == sentence_total
    assert batch["sentences"][0].tolist() == [1] + [0] * (batch["sentences"].shape[1] - 1)
    for name in ("ingredient_count", "sentence_count", "instruction_count", "title_count"):
        assert (batch[name] >= 1).all()

    def padded(values: torch.Tensor, count: torch.Tensor) -> list[int]:
        assert not values[count:].any()
        return values[:count].tolist()

    for i, (ingredients, sentences, title) in enumerate(wanted):
        assert padded(batch["ingredients"][i], batch["ingredient_count"][i]) == ingredients
        assert padded(batch["title"][i], batch["title_count"][i]) == title
        places = padded(batch["instructions"][i], batch["instruction_count"][i])
        found = [padded(batch["sentences"][place], batch["sentence_count"][place]) for place in places]
        assert found == (sentences or [[1]])
        assert int(batch["instruction_count"][i]) == encoded.instruction_counts[positions[i]]
        if not sentences:
            assert places == [0]
    for name in ("ingredients", "title", "instructions"):
        if len(positions):
            count = batch[name.removesuffix("s") + "_count"]
            assert batch[name].shape == (len(positions), int(count.max()))  # no wider than the longest


def test_positions_outside_are_refused(tmp_path, table):
    encoded = encode_recipes(tmp_path, table, np.arange(3), VOCABULARY)
    for positions in ([-1], [0, 3]):
        with pytest.raises(IndexError):
            encoded.text_batch(positions)


def test_words_are_the_right_rows(tmp_path):
    recipe = Recipe("a", "Butter", ("1 cup oil", "salt"), ("Add the Olive Oil.", "Stir 2 12 cup!"),
                    detected=("olive oil", "salt"), valid=(True, True))  # fmt: skip
    batch = one(tmp_path, recipe).text_batch([0])
    words = ["<pad>", "</i>", *WORDS]
    read = lambda rows: [words[row] for row in rows]  # noqa: E731
    assert read(batch["ingredients"][0]) == ["olive_oil", "salt", "</i>"]
    assert read(batch["sentences"][1]) == ["add", "the", "olive_oil", "."]
    assert read(batch["sentences"][2]) == ["stir", "2", "1/2", "cup"]
    assert read(batch["title"][0]) == ["butter"] and batch["instructions"].tolist() == [[1, 2]]


def test_a_name_the_vocabulary_lacks_leaves_its_words_in_the_text(tmp_path):
    recipe = Recipe("a", "", ("x",), ("add butter sauce",), detected=("butter sauce",), valid=(True,))
    batch = one(tmp_path, recipe).text_batch([0])
    assert batch["sentences"][1].tolist() == [ROW["add"], ROW["butter"]]
    assert batch["ingredients"].tolist() == [[ROW["butter"], 1]]
    dropped = one(tmp_path, recipe, RecipeEncoding(partial_names=False)).text_batch([0])
    assert dropped["ingredients"].tolist() == [[1]]


def test_raw_lines(tmp_path):
    recipe = Recipe("a", "", ("2 1/2 cups extra virgin olive oil, warm", "salt", "1 dash"), ("Heat olive oil",))
    raw = Vocabulary(WORDS, VOCABULARY.vectors, WordRules(source="raw"))
    encoded = one(tmp_path, recipe, vocabulary=raw)
    assert encoded.text_batch([0])["ingredients"].tolist() == [[ROW["olive_oil"], ROW["salt"], 1]]
    assert encoded.counts["partial_ingredients"] == 1
    with pytest.raises(InputError, match=r"none of the 1 recipes has detected ingredients; .* set text.source=raw"):
        one(tmp_path, recipe)


def test_what_is_unknown_or_cut_off_is_counted(tmp_path):
    known = Recipe("a", "", ("1", "2", "3"), ("add salt unknown .", "stir", "stir"), detected=("salt", "butter", "x y"),
                   valid=(True, True, True))  # fmt: skip
    nothing = Recipe("b", "", ("1",), ("nothing here",), detected=("zz",), valid=(True,))
    empty = Recipe("c", "", (), ())
    undetected = Recipe("d", "", ("salt",), ("salt",))
    write_table(tmp_path / "t", [known, nothing, empty, undetected])
    settings = RecipeEncoding(max_ingredients=2, max_instructions=2, max_words=2)
    counts = encode_recipes(tmp_path, open_table(tmp_path / "t"), np.arange(4), VOCABULARY, settings).counts
    assert counts == {
        "recipes": 4, "words": 8, "unknown_words": 3, "ingredients": 4, "unknown_ingredients": 2,
        "partial_ingredients": 0, "undetected": 1, "no_known_ingredient": 3, "no_known_instruction": 2,
        "no_instructions": 1, "truncated_ingredients": 1, "truncated_instructions": 1, "truncated_sentences": 1,
    }  # fmt: skip


def test_built_once_and_keyed_by_all_it_depends_on(tmp_path, table):
    rows = np.arange(20)
    first = encode_recipes(tmp_path, table, rows, VOCABULARY)
    stamp = (first.folder / "manifest.json").stat().st_mtime_ns
    assert encode_recipes(tmp_path, table, rows, VOCABULARY).folder == first.folder
    assert (first.folder / "manifest.json").stat().st_mtime_ns == stamp
    other = Vocabulary(WORDS, VOCABULARY.vectors[::-1])
    folders = {
        first.folder,
        encode_recipes(tmp_path, table, rows[::-1], VOCABULARY).folder,
        encode_recipes(tmp_path, table, rows, other).folder,
        encode_recipes(tmp_path, table, rows, VOCABULARY, RecipeEncoding(max_words=7)).folder,
    }
    assert len(folders) == 4


def test_damage_is_found_and_mended(tmp_path, table, caplog):
    encoded = encode_recipes(tmp_path, table, np.arange(20), VOCABULARY)
    wanted = encoded.text_batch(range(20))
    path = encoded.folder / "words.npy"
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    path.write_bytes(data)
    again = encode_recipes(tmp_path, table, np.arange(20), VOCABULARY)
    assert "words.npy" in caplog.text
    assert all(torch.equal(again.text_batch(range(20))[name], value) for name, value in wanted.items())
    path.write_bytes(data[:100])
    assert len(encode_recipes(tmp_path, table, np.arange(20), VOCABULARY)) == 20


def test_a_worker_is_sent_the_path_only(tmp_path, table):
    encoded = encode_recipes(tmp_path, table, np.arange(60), VOCABULARY)
    data = pickle.dumps(encoded)
    assert len(data) < 500
    again = pickle.loads(data)
    assert torch.equal(again.text_batch([4, 2])["sentences"], encoded.text_batch([4, 2])["sentences"])
    assert isinstance(encoded.arrays["words"].base, np.memmap)


def test_chunks_do_not_show(tmp_path, table, monkeypatch):
    one_chunk = encode_recipes(tmp_path / "a", table, np.arange(60), VOCABULARY)
    monkeypatch.setattr("data.recipe_encoding._CHUNK", 7)
    many = encode_recipes(tmp_path / "b", table, np.arange(60), VOCABULARY)
    for name, array in one_chunk.arrays.items():
        assert np.array_equal(array, many.arrays[name]), name


def test_no_recipes(tmp_path, table):
    encoded = encode_recipes(tmp_path, table, np.arange(0), VOCABULARY)
    assert len(encoded) == 0 and encoded.text_batch([])["sentences"].tolist() == [[1]]


def test_limits_are_checked():
    for name in ("max_ingredients", "max_instructions", "max_words"):
        with pytest.raises(InputError, match="1 or more"):
            replace(RecipeEncoding(), **{name: 0})
