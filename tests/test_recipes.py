"""The prepared table of recipes: what is written is read, sorted, and damage is named."""

import dataclasses
import json
import os
import pickle
import random

import numpy as np
import pyarrow as pa
import pytest

import data.recipes
from data.errors import InputError
from data.recipes import open_table, write_table
from data.records import Recipe
from tests.made_up_recipes import made_up_recipes


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch):
    monkeypatch.setattr(data.recipes, "BATCH", 7)


@pytest.mark.parametrize("n", [0, 1, 6, 7, 8, 40])
@pytest.mark.parametrize("shuffled", [False, True])
def test_what_is_written_is_read_sorted_by_id(tmp_path, n, shuffled):
    recipes = made_up_recipes(n)
    given = list(recipes)
    if shuffled:
        random.Random(0).shuffle(given)
    write_table(tmp_path, iter(given), ["background", "pie"], {"source": "made up"})
    table = open_table(tmp_path)
    assert len(table) == n and [table[i] for i in range(n)] == recipes == list(table.iter())
    assert table.ids.tolist() == sorted(r.recipe_id for r in recipes)
    assert table.partitions.tolist() == [r.partition for r in recipes]
    assert table.class_ids.tolist() == [r.class_id for r in recipes] and table.class_ids.dtype == np.int64
    assert table.lengths("images").tolist() == [len(r.images) for r in recipes]
    assert (table.class_names, table.extra) == (["background", "pie"], {"source": "made up"})
    for partition in ("train", "val", "test"):
        assert [r.partition for r in table.iter(table.rows(partition))] == [partition] * len(table.rows(partition))
    assert sorted(os.listdir(tmp_path)) == ["manifest.json", "recipes.arrow"]


def test_rows_in_any_order_repeated_and_found_by_id(tmp_path):
    recipes = made_up_recipes(50)
    write_table(tmp_path, recipes)
    table = open_table(tmp_path)
    rows = np.random.default_rng(0).integers(0, 50, 120)
    assert list(table.iter(rows)) == [recipes[i] for i in rows]
    assert table.take(rows, ["title"]).column("title").to_pylist() == [recipes[i].title for i in rows]
    assert table.find([recipes[i].recipe_id for i in rows]).tolist() == rows.tolist()
    assert table.find(["zzzz", "", recipes[3].recipe_id, recipes[3].recipe_id + "a"]).tolist() == [-1, -1, 3, -1]
    assert table.image_names(4) == list(recipes[4].images) and table[-1] == recipes[-1]
    for row in (50, -51):
        with pytest.raises(IndexError):
            table[row]
    with pytest.raises(IndexError):
        list(table.iter([50]))


def test_odd_texts_survive(tmp_path):
    odd = Recipe("é id", "", (), (), attribution="x\x00y")
    long = Recipe("z", "t" * 100_000, ("½ cup",) * 300, ("🍅",) * 300, detected=("",) * 300, valid=(False,) * 300)
    write_table(tmp_path, [long, odd])
    assert list(open_table(tmp_path).iter()) == [long, odd]  # "z" sorts before "é"


def test_the_digest_is_that_of_the_content(tmp_path):
    recipes = made_up_recipes(20)
    changed = [dataclasses.replace(recipes[0], title="other"), *recipes[1:]]
    digests = []
    for k, (given, names) in enumerate([(recipes, ()), (recipes, ()), (changed, ()), (recipes, ("a",))]):
        write_table(tmp_path / str(k), given, names, {"k": k})
        digests.append(open_table(tmp_path / str(k)).digest)
    assert digests[0] == digests[1] and len(set(digests)) == 3


def test_a_table_is_sent_to_workers_as_its_path(tmp_path):
    write_table(tmp_path, made_up_recipes(30))
    table = open_table(tmp_path)
    sent = pickle.dumps(table)
    assert len(sent) < 500 and pickle.loads(sent)[7] == table[7]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"recipe_id": ""}, "no usable id"),
        ({"recipe_id": "a\nb"}, "no usable id"),
        ({"recipe_id": "a" * 201}, "no usable id"),
        ({"partition": "dev"}, "partition 'dev'"),
        ({"detected": ("butter",)}, "detected names"),
        ({"valid": ()}, "validities"),
        ({"class_id": -1}, "class -1"),
        ({"title": "\ud800"}, "wrong value"),
    ],
)
def test_recipes_that_contradict_themselves(tmp_path, change, words):
    recipes = made_up_recipes(5)
    recipes[3] = dataclasses.replace(recipes[3], **change)
    with pytest.raises(InputError, match=words) as error:
        write_table(tmp_path, recipes)
    assert "\n" not in str(error.value) and not os.listdir(tmp_path)


def test_repeated_ids_are_refused_with_both_records(tmp_path):
    recipes = made_up_recipes(12)
    random.Random(1).shuffle(recipes)
    with pytest.raises(InputError, match=rf"record 13 has the id '{recipes[4].recipe_id}' of record 5"):
        write_table(tmp_path, [*recipes, recipes[4]])


def test_a_failed_write_leaves_the_old_table(tmp_path):
    write_table(tmp_path, made_up_recipes(5))

    def broken():
        yield made_up_recipes(3, seed=1)[0]
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError):
        write_table(tmp_path, broken())
    assert list(open_table(tmp_path).iter()) == made_up_recipes(5)
    write_table(tmp_path, made_up_recipes(9, seed=2))
    assert len(open_table(tmp_path)) == 9


@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "foreign", "absent", "no manifest", "manifest", "other"])
def test_damage_is_one_line_with_a_remedy(tmp_path, damage):
    write_table(tmp_path, made_up_recipes(30))
    path, manifest = tmp_path / "recipes.arrow", tmp_path / "manifest.json"
    content = path.read_bytes()
    if damage == "cut":
        path.write_bytes(content[:-100])
    elif damage == "flip":
        path.write_bytes(content[:2000] + bytes([content[2000] ^ 1]) + content[2001:])
    elif damage == "empty":
        path.write_bytes(b"")
    elif damage == "foreign":
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, pa.schema([("a", pa.int8())])):
            pass
    elif damage == "absent":
        path.unlink()
    elif damage == "no manifest":
        manifest.unlink()
    elif damage == "manifest":
        manifest.write_text(manifest.read_text().replace('"recipes": 30', '"recipes": 31'))
    else:
        manifest.write_text(json.dumps({"kind": "x", "checksum": "y"}))
    with pytest.raises(InputError, match="prepare it again") as error:
        open_table(tmp_path)
    assert str(tmp_path) in str(error.value) and "\n" not in str(error.value)
    if damage in ("cut", "empty", "foreign", "absent"):  # seen without the checksums as well
        with pytest.raises(InputError, match="prepare it again"):
            open_table(tmp_path, verify=False)
