"""Recipe1M's files: read, joined, filtered; and what happens when they are not as released."""

import dataclasses
import gzip
import io
import itertools
import json
import os
import pickle
import random
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import data.recipe1m
import data.recipes
from data.errors import InputError
from data.pickles import PickleFault, load_plain
from data.recipe1m import (
    OFFICIAL_PAIRS,
    Filters,
    build_recipe1m,
    find_lists,
    find_photos,
    read_classes,
    read_id_list,
    select,
    title_bigram_classes,
)
from data.recipes import open_table, write_table
from tests.made_up_recipes import DISHES, made_up_recipes, write_layers, write_recipe1m

KINDS = ("layer1", "layer2", "det_ingrs")


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch):
    monkeypatch.setattr(data.recipes, "BATCH", 8)
    monkeypatch.setattr(data.recipe1m, "BATCH", 8)


def load(root: Path, kind: str) -> list[dict]:
    return json.loads((root / f"{kind}.json").read_text())


def save(root: Path, kind: str, records: object) -> None:
    (root / f"{kind}.json").write_text(json.dumps(records))


# ---- reading and joining ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["sorted", "shuffled"])
@pytest.mark.parametrize("packed", [False, True])
def test_the_files_become_the_recipes(tmp_path, order, packed):
    recipes = write_recipe1m(tmp_path / "root", 41, pixels=0, images=5)
    for k, kind in enumerate(KINDS):
        records = load(tmp_path / "root", kind)
        if order == "shuffled":
            random.Random(k).shuffle(records)
        save(tmp_path / "root", kind, records)
        if packed:
            path = tmp_path / "root" / f"{kind}.json"
            (tmp_path / "root" / f"{kind}.json.gz").write_bytes(gzip.compress(path.read_bytes()))
            path.unlink()
    table = build_recipe1m(tmp_path / "root", tmp_path / "cache")
    assert list(table.iter()) == recipes
    assert table.class_names == ["background", *DISHES] and set(table.class_ids.tolist()) == {0, 1, 2, 3, 4}
    assert table.extra["classes"] == "file" and not any(table.extra["skipped"].values())


def test_recipes_without_pictures_or_detected_names(tmp_path):
    recipes = [
        dataclasses.replace(r, images=r.images if k % 3 else (), class_id=0) for k, r in enumerate(made_up_recipes(20))
    ]
    write_layers(tmp_path, recipes)
    assert list(build_recipe1m(tmp_path, tmp_path / "cache").iter()) == recipes
    (tmp_path / "det_ingrs.json").unlink()
    with pytest.raises(InputError, match=r"has no det_ingrs\.json \(.*361 MB.*How to get"):
        build_recipe1m(tmp_path, tmp_path / "cache")
    raw = list(build_recipe1m(tmp_path, tmp_path / "cache", ingredients="raw").iter())
    assert raw == [dataclasses.replace(r, detected=(), valid=()) for r in recipes]


def test_recipe1m_plus_has_its_own_picture_names(tmp_path):
    one = write_recipe1m(tmp_path, 10, pixels=0)
    more = [dataclasses.replace(r, images=(*r.images, f"{k:010x}.jpg")) for k, r in enumerate(one)]
    write_layers(tmp_path, more, plus=True)
    assert list(build_recipe1m(tmp_path, tmp_path / "cache", plus=True).iter()) == more
    assert list(build_recipe1m(tmp_path, tmp_path / "cache").iter()) == one


def test_missing_files_are_all_named_at_once(tmp_path):
    with pytest.raises(InputError) as error:
        build_recipe1m(tmp_path, tmp_path / "cache")
    text = str(error.value)
    for word in ("layer1.json (", "layer2.json (", "det_ingrs.json (", "classes1M.pkl", "remove1M.txt", "form"):
        assert word in text
    assert "\n" not in text and "http" not in text


def test_what_is_complete_is_not_read_again(tmp_path, monkeypatch):
    write_recipe1m(tmp_path, 20, pixels=0)
    first = build_recipe1m(tmp_path, tmp_path / "cache")

    def refuse(path):
        raise AssertionError(f"{path} read again")

    read = data.recipe1m.read_records
    monkeypatch.setattr(data.recipe1m, "read_records", refuse)
    assert build_recipe1m(tmp_path, tmp_path / "cache").digest == first.digest
    assert len(build_recipe1m(tmp_path, tmp_path / "cache", classes="none").class_names) == 1  # from the same parts
    monkeypatch.setattr(
        data.recipe1m, "read_records", lambda path: read(path) if path.name == "layer2.json" else refuse(path)
    )
    records = load(tmp_path, "layer2")
    save(tmp_path, "layer2", records[:-1])  # a changed file is seen, and the others' parts stay
    assert len(build_recipe1m(tmp_path, tmp_path / "cache").image_names(19)) == 0
    damaged = next((tmp_path / "cache" / "recipe1m" / "parts").glob("layer2-*/part.arrow"))
    damaged.write_bytes(damaged.read_bytes()[:-1])
    save(tmp_path, "layer2", records)
    build_recipe1m(tmp_path, tmp_path / "cache", classes="none")


def test_a_part_survives_a_kill_and_the_rest_goes_on(tmp_path, monkeypatch):
    write_recipe1m(tmp_path, 20, pixels=0)
    pid = os.fork()
    if not pid:  # dies while it reads the second file, as from kill -9
        read = data.recipe1m.read_records
        data.recipe1m.read_records = lambda path: os._exit(9) if path.name == "layer2.json" else read(path)
        build_recipe1m(tmp_path, tmp_path / "cache")
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 9
    read_again = []
    read = data.recipe1m.read_records
    monkeypatch.setattr(data.recipe1m, "read_records", lambda path: read_again.append(path.name) or read(path))
    assert len(build_recipe1m(tmp_path, tmp_path / "cache")) == 20
    assert read_again == ["layer2.json", "det_ingrs.json"]
    assert not list((tmp_path / "cache").rglob("*.building-*"))


# ---- bad input -------------------------------------------------------------------------------------------------------

BAD_RECORDS = {
    "no object": ("layer1", lambda r: 7, "a number and must be an object"),
    "no id": ("layer1", lambda r: r.pop("id"), "no key 'id'"),
    "number as id": ("layer2", lambda r: r.update(id=5), "'id' is a number"),
    "empty id": ("det_ingrs", lambda r: r.update(id=""), "no usable id"),
    "control character": ("det_ingrs", lambda r: r.update(id="a\x00b"), "no usable id"),
    "no title": ("layer1", lambda r: r.pop("title"), "no key 'title'"),
    "null title": ("layer1", lambda r: r.update(title=None), "'title' is null"),
    "partition": ("layer1", lambda r: r.update(partition="dev"), "partition 'dev'"),
    "ingredients": ("layer1", lambda r: r.update(ingredients={}), "'ingredients' is an object"),
    "ingredient text": ("layer1", lambda r: r["ingredients"].append({}), "entry 4 of 'ingredients': has no key 'text'"),
    "bare string": ("layer1", lambda r: r["instructions"].insert(0, "mix"), "entry 1 of 'instructions'"),
    "text is a list": ("layer1", lambda r: r["instructions"].append({"text": []}), "'text' is a list"),
    "too many": ("layer1", lambda r: r.update(instructions=[{"text": ""}] * 10_001), "10,001 entries"),
    "images": ("layer2", lambda r: r.update(images="a.jpg"), "'images' is a string"),
    "picture path": ("layer2", lambda r: r["images"].append({"id": "../../etc/passwd"}), "no plain file name"),
    "short picture": ("layer2", lambda r: r["images"].append({"id": "a"}), "no plain file name"),
    "valid": ("det_ingrs", lambda r: r.update(valid=[1] * len(r["valid"])), "'valid' holds"),
    "valid length": ("det_ingrs", lambda r: r["valid"].pop(), "'valid' entries"),
}


@pytest.mark.parametrize("name", BAD_RECORDS)
def test_bad_records(tmp_path, name):
    kind, change, words = BAD_RECORDS[name]
    recipes = [dataclasses.replace(r, ingredients=r.ingredients[-3:], detected=r.detected[-3:], valid=r.valid[-3:])
               for r in made_up_recipes({"train": 12})]  # fmt: skip
    write_layers(tmp_path, recipes)
    records = load(tmp_path, kind)
    changed = change(records[4])
    if changed == 7:
        records[4] = changed
    save(tmp_path, kind, records)
    with pytest.raises(InputError) as error:
        build_recipe1m(tmp_path, tmp_path / "cache", classes="none")
    text = str(error.value)
    assert words in text and f"{kind}.json: record 5 (id " in text and "on_bad_record=skip" in text and "\n" not in text
    table = build_recipe1m(tmp_path, tmp_path / "cache", classes="none", on_bad_record="skip")
    assert len(table) == (12 if kind == "layer2" else 11) and recipes[3].recipe_id in table.ids.tolist()
    assert table.extra["skipped"][f"bad records of {kind}.json"] == 1
    assert words in table.extra["skipped_records"][0]["reason"] and table.extra["skipped_records"][0]["record"] == 5


@pytest.mark.parametrize("kind", KINDS)
def test_repeated_ids(tmp_path, kind):
    recipes = write_recipe1m(tmp_path, 12, pixels=0)
    records = load(tmp_path, kind)
    records.insert(7, records[2])
    save(tmp_path, kind, records)
    with pytest.raises(InputError, match=rf"{kind}.json: record 8 has the id .* of record 3"):
        build_recipe1m(tmp_path, tmp_path / "cache")
    table = build_recipe1m(tmp_path, tmp_path / "cache", on_bad_record="skip")
    assert list(table.iter()) == recipes and table.extra["skipped"][f"bad records of {kind}.json"] == 1
    assert table.extra["skipped_records"][0]["record"] == 8


@pytest.mark.parametrize(
    ("absent_in", "kept", "words"),
    [
        ("layer1", 11, "belong to no recipe of layer1.json"),
        ("det_ingrs", 11, "have no entry in det_ingrs.json"),
        ("length", 11, "have another number of ingredients in det_ingrs.json"),
    ],
)
def test_files_that_disagree(tmp_path, absent_in, kept, words):
    recipes = write_recipe1m(tmp_path, 12, pixels=0)
    kind = "det_ingrs" if absent_in == "length" else absent_in
    records = load(tmp_path, kind)
    if absent_in == "length":
        records[5]["ingredients"].pop()
        records[5]["valid"].pop()
    else:
        del records[5]
    save(tmp_path, kind, records)
    with pytest.raises(InputError) as error:
        build_recipe1m(tmp_path, tmp_path / "cache")
    assert words in str(error.value) and f"(first: record 6, id {recipes[5].recipe_id})" in str(error.value)
    table = build_recipe1m(tmp_path, tmp_path / "cache", on_bad_record="skip")
    assert list(table.iter()) == [*recipes[:5], *recipes[6:]] and len(table) == kept
    assert sum(n for what, n in table.extra["skipped"].items() if words in what) == (2 if absent_in == "layer1" else 1)


@pytest.mark.parametrize("damage", ["truncated", "garbage", "object", "empty", "blank", "gzip", "text", "latin"])
@pytest.mark.parametrize("kind", KINDS)
def test_damaged_files(tmp_path, kind, damage):
    write_recipe1m(tmp_path, 12, pixels=0)
    path = tmp_path / f"{kind}.json"
    content = path.read_bytes()
    path.write_bytes(
        {
            "truncated": content[:-40],
            "garbage": content + b"[]",
            "object": b'{"item": 1}',
            "empty": b"",
            "blank": b"[]",
            "gzip": gzip.compress(content)[:-30],
            "text": b"<html>not found</html>",
            "latin": content.replace(b'"id": "', b'"x": "\xe9", "id": "', 1),
        }[damage]
    )
    for on_bad_record in ("raise", "skip"):
        with pytest.raises(InputError, match=rf"{kind}.json: ") as error:
            build_recipe1m(tmp_path, tmp_path / "cache", on_bad_record=on_bad_record)
        assert "\n" not in str(error.value)


def test_a_record_that_does_not_end_is_not_held(tmp_path, monkeypatch):
    monkeypatch.setattr(data.recipe1m, "MAX_RECORD", 200_000)
    write_recipe1m(tmp_path, 5, pixels=0)
    content = (tmp_path / "layer1.json").read_text()
    (tmp_path / "layer1.json").write_text(content[:-1] + ', {"id": "' + "x" * 1_000_000)
    with pytest.raises(InputError, match="is longer than"):
        build_recipe1m(tmp_path, tmp_path / "cache")


@pytest.mark.parametrize(("name", "value"), [("classes", "x"), ("ingredients", "x"), ("on_bad_record", "x")])
def test_unknown_settings(tmp_path, name, value):
    with pytest.raises(InputError, match=f"{name}=x"):
        build_recipe1m(tmp_path, tmp_path, **{name: value})


# ---- classes ---------------------------------------------------------------------------------------------------------


def pickles(*values: object, protocol: int = 2) -> bytes:
    return b"".join(pickle.dumps(value, protocol=protocol) for value in values)


class Gadget:
    def __reduce__(self):
        return os.system, ("touch /tmp/never",)


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4, 5])
def test_classes_are_two_pickles_in_one_file(tmp_path, protocol):
    path = tmp_path / "classes1M.pkl"
    path.write_bytes(pickles({"a": 0, "b": 2}, {0: "background", 1: "pie", 2: "soup"}, protocol=protocol))
    assert read_classes(path) == ({"a": 0, "b": 2}, ["background", "pie", "soup"])


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"junk",
        pickles({"a": 0}),
        pickles({"a": 0}, {0: "x"})[:-3],
        pickles({"a": 5}, {0: "x"}),
        pickles({"a": -1}, {0: "x"}),
        pickles({"a": True}, {0: "x", 1: "y"}),
        pickles({3: 0}, {0: "x"}),
        pickles({"a": 0}, {"x": 0}),
        pickles({"a": 0}, {10**9: "x"}),
        pickles([], {}),
        pickles(Gadget(), {0: "x"}),
        pickles({"a": 0}, Gadget()),
        pickles({"a": Gadget()}, {0: "x"}),
        b"\x80\x02}r\xff\xff\xff\x7f.",  # stores its one value under number 2^31 - 1
        b"c__builtin__\neval\n(S'1'\ntR.",
    ],
)
def test_class_files_that_are_none(tmp_path, content):
    path = tmp_path / "classes1M.pkl"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"classes1M.pkl: ") as error:
        read_classes(path)
    assert "\n" not in str(error.value) and not Path("/tmp/never").exists()


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4, 5])
def test_arrays_of_plain_pickles(protocol):
    value = {
        "a": np.arange(6, dtype="u2").reshape(2, 3),
        "b": [np.asfortranarray(np.arange(6.0).reshape(2, 3)), np.float32(2.5)],
        "c": np.zeros((0, 4), "f4"),
        "d": (1, "é", None, 2**70),
    }
    got = load_plain(io.BytesIO(pickle.dumps(value, protocol)), arrays=True)
    np.testing.assert_equal(got, value)
    assert got["a"].dtype == np.uint16 and got["c"].shape == (0, 4)
    with pytest.raises(PickleFault):
        load_plain(io.BytesIO(pickle.dumps(value, protocol)))


@pytest.mark.parametrize(
    "value", [np.array([None]), np.array(["a"]), np.array([1], ">i4"), np.dtype("f4"), np.ndarray, Gadget(), Counter()]
)
def test_pickles_that_are_not_plain(value):
    with pytest.raises(PickleFault):
        load_plain(io.BytesIO(pickle.dumps({"a": [value]}, 2)), arrays=True)


def naive_classes(titles, partitions, eligible, food101, candidates, most, above):
    """The rule of the reference implementation, one recipe after the other."""
    counts = Counter()
    for title, partition in zip(titles, partitions, strict=True):
        words = [w for w in title.lower().split() if w not in data.recipe1m.STOP_WORDS]
        if partition == "train":
            counts.update(itertools.pairwise(words))
    ranked = [" ".join(b) for b, _ in sorted(counts.items(), key=lambda e: (-e[1], e[0]))[:candidates]]
    classes, names = [0] * len(titles), ["background"]

    def attempt(name):
        here = [i for i, t in enumerate(titles) if eligible[i] and not classes[i] and name in t.lower()]
        found = Counter(partitions[i] for i in here)
        if found["train"] > above and found["val"] > 0 and found["test"] > 0:
            for i in here:
                classes[i] = len(names)
            names.append(name)

    for name in ranked:
        if len(names) - 1 == most:
            break
        if not set(name.split()) & data.recipe1m.BANNED:
            attempt(name)
    for name in food101:
        if name.replace("_", " ") not in ranked:
            attempt(name.replace("_", " "))
    return classes, names


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("most", [2, 1000])
def test_bigram_classes_equal_the_naive_rule(seed, most):
    rng = random.Random(seed)
    words = ["Apple", "pie", "easy", "soup", "the", "rice", "ice", "cream", "spice", "a"]
    titles = [" ".join(rng.choice(words) for _ in range(rng.randint(0, 5))) for _ in range(400)]
    partitions = np.array(rng.choices(["train", "val", "test"], [6, 1, 1], k=400))
    eligible = np.array([rng.random() < 0.7 for _ in titles])
    food = ["apple_pie", "cream", "baklava", "soup"]
    got, names = title_bigram_classes(titles, partitions, eligible, food, candidates=12, most=most, above=4)
    assert (got.tolist(), names) == naive_classes(titles, partitions, eligible, food, 12, most, 4)
    assert got.max() == len(names) - 1 and got.dtype == np.int64 and not got[~eligible].any()


def test_classes_from_titles_where_the_file_is_absent(tmp_path):
    write_recipe1m(tmp_path, 240, pixels=0, classes=False)
    table = build_recipe1m(tmp_path, tmp_path / "cache")
    assert table.extra["classes"] == "bigrams" and set(table.class_names) == {"background", *DISHES}
    for recipe in table.iter():
        assert table.class_names[recipe.class_id] in recipe.title
    with pytest.raises(InputError, match=r"has no classes1M.pkl"):
        build_recipe1m(tmp_path, tmp_path / "cache", classes="file")


def test_ban_list_is_short():
    assert len(data.recipe1m.BANNED) <= 46


# ---- pictures --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", ["partition", "flat"])
@pytest.mark.parametrize("folder", ["images", ""])
def test_both_layouts_of_pictures(tmp_path, layout, folder):
    recipes = write_recipe1m(tmp_path, 6, layout=layout, folder=folder, pixels=8)
    photos = find_photos(tmp_path)
    for recipe in recipes:
        for name in recipe.images:
            path = photos(recipe.partition, name)
            assert path.is_file() and path.name == name
            assert (recipe.partition in path.relative_to(tmp_path).parts) == (layout == "partition")
    assert pickle.loads(pickle.dumps(photos)) == photos
    with pytest.raises(InputError, match=r"has no picture 0/0/0/0/0000.jpg of val"):
        photos("val", "0000.jpg")
    for name in ("../../../../etc/passwd", "a/b/c/d.jpg", "abc", "abcd\\x.jpg", "....jpg"):
        with pytest.raises(InputError, match="no plain file name"):
            photos("val", name)


def test_roots_without_pictures(tmp_path):
    with pytest.raises(InputError, match="has no pictures"):
        find_photos(tmp_path)
    with pytest.raises(InputError, match="no such folder"):
        find_photos(tmp_path / "absent")


# ---- lists and filters -----------------------------------------------------------------------------------------------


def table_of(tmp_path, recipes):
    write_table(tmp_path / "table", recipes)
    return open_table(tmp_path / "table")


def varied(n: int = 120):
    rng = random.Random(5)
    recipes = []
    for recipe in made_up_recipes(n):
        k = rng.choice([0, 1, 3, 17, 18, 19, 20, 21, 30])
        detected = tuple(rng.choice(["butter", "rice", "lime", "", "cocoa", f"n{rng.randrange(40)}"]) for _ in range(k))
        recipes.append(
            dataclasses.replace(
                recipe,
                ingredients=tuple(f"{i} of {name}" for i, name in enumerate(detected)),
                detected=detected,
                valid=tuple(rng.random() < 0.8 for _ in detected),
                instructions=("stir",) * rng.choice([0, 1, 5, 19, 20, 21, 25]),
                images=recipe.images if rng.random() < 0.8 else (),
            )
        )
    return recipes


def test_official_rule(tmp_path):
    recipes = varied()
    removal = [r.recipe_id for r in random.Random(3).sample(recipes, 20)] + ["not there"]
    vocabulary = {"butter", "rice", *(f"n{i}" for i in range(30))}
    wanted = {"train": [], "val": [], "test": []}
    lines = {name: number for number, name in enumerate(removal)}
    for row, recipe in enumerate(recipes):
        indices = {name for name in recipe.detected if name and name in vocabulary}
        if len(recipe.instructions) >= 20 or len(indices) + 1 >= 20 or not recipe.images or lines.get(recipe.recipe_id):
            continue
        wanted[recipe.partition].append(row)
    chosen = select(table_of(tmp_path, recipes), Filters.official(), removal=removal, known=vocabulary.__contains__)
    assert {split: rows.tolist() for split, rows in chosen.rows.items()} == wanted
    assert any(wanted.values())


@pytest.mark.parametrize("limit", ["truncate", "drop"])
def test_right_rule_and_counts(tmp_path, limit):
    recipes = varied()
    removal = [r.recipe_id for r in recipes[::9]]
    removed, cut, wanted = Counter(), Counter(), []
    for row, recipe in enumerate(recipes):
        names = [n for n, good in zip(recipe.detected, recipe.valid, strict=True) if n and good and n != "rice"]
        assert Filters().names(recipe) == [
            n for n, good in zip(recipe.detected, recipe.valid, strict=True) if n and good
        ]
        if not recipe.images:
            removed["without picture"] += 1
        elif recipe.recipe_id in removal:
            removed["in the removal list"] += 1
        elif not recipe.instructions:
            removed["with too few instructions"] += 1
        elif not names:
            removed["with too few known ingredients"] += 1
        elif limit == "drop" and len(recipe.instructions) >= 20:
            removed["with too many instructions"] += 1
        elif limit == "drop" and len(names) + 1 >= 20:
            removed["with too many ingredients"] += 1
        else:
            wanted.append(row)
            cut["with too many instructions"] += len(recipe.instructions) > 20
            cut["with too many ingredients"] += len(names) + 1 > 20
    chosen = select(
        table_of(tmp_path, recipes), Filters(limit=limit), removal=removal, known=lambda name: name != "rice"
    )
    assert sorted(np.concatenate(list(chosen.rows.values())).tolist()) == wanted
    report = chosen.report
    assert {rule: sum(n.values()) for rule, n in report.removed.items() if sum(n.values())} == dict(removed)
    if limit == "truncate":
        assert {rule: sum(n.values()) for rule, n in report.cut.items()} == dict(cut)
    for split in ("train", "val", "test"):
        gone = sum(n[split] for n in report.removed.values())
        assert report.considered[split] == report.kept[split] + gone
    assert len(report.lines()) == 3


@pytest.mark.parametrize(
    ("switch", "changes"),
    [
        ({"require_image": False}, True),
        ({"min_instructions": 0}, True),
        ({"min_known_ingredients": 4}, True),
        ({"use_removal_list": False}, True),
        ({"skip_first_removal_line": True}, True),
        ({"ignore_valid": True}, True),
        ({"ingredients": "raw"}, True),
        ({"max_instructions": 5, "limit": "drop"}, True),
        ({"max_ingredients": 5, "limit": "drop"}, True),
        ({"max_ingredients": 5}, False),
    ],
)
def test_each_switch_does_something(tmp_path, switch, changes):
    recipes = varied()
    table = table_of(tmp_path, recipes)
    first = next(r.recipe_id for r in recipes if r.images and r.instructions and len(r.detected) > 5)
    args = {"removal": [first, recipes[7].recipe_id], "known": lambda name: not name.startswith("n")}
    before = select(table, Filters(), **args).rows
    after = select(table, dataclasses.replace(Filters(), **switch), **args).rows
    assert changes == any(before[split].tolist() != after[split].tolist() for split in before)


def test_a_set_of_ingredients_loses_repeats(tmp_path):
    recipe = dataclasses.replace(
        made_up_recipes(1)[0],
        ingredients=("1 rice", "2 rice", "lime") * 7,
        detected=("rice", "rice", "lime") * 7,
        valid=(True, False, True) * 7,
    )
    assert Filters().names(recipe) == ["rice", "lime"] * 7
    assert Filters(ignore_valid=True).names(recipe) == ["rice", "rice", "lime"] * 7
    assert Filters(unordered_ingredients=True).names(recipe) == ["lime", "rice"]
    assert Filters(ingredients="raw").names(recipe) == list(recipe.ingredients)
    table = table_of(tmp_path, [recipe])
    kept = [
        sum(map(len, select(table, Filters(limit="drop", ignore_valid=True, unordered_ingredients=u)).rows.values()))
        for u in (False, True)
    ]
    assert kept == [0, 1]


@pytest.mark.parametrize("setting", [{"limit": "x"}, {"ingredients": "x"}, {"max_instructions": 1}])
def test_filter_settings_are_checked(setting):
    with pytest.raises(InputError, match=r"filters."):
        Filters(**setting)


def test_given_lists_are_the_pairs(tmp_path):
    recipes = made_up_recipes(40)
    table = table_of(tmp_path, recipes)
    lists = {s: [r.recipe_id for r in recipes if r.partition == s][::-2] for s in ("train", "val", "test")}
    chosen = select(table, Filters.official(), lists=lists, removal=lists["train"])
    for split, rows in chosen.rows.items():
        assert table.ids[rows].tolist() == sorted(lists[split])
    assert chosen.report.listed and not chosen.report.removed
    for change, words in (
        ({"val": ["nowhere", *lists["val"]]}, r"val: 1 of \d+ ids \(nowhere.*not in the table"),
        ({"val": lists["test"]}, "of another partition"),
        ({"val": lists["val"] + lists["val"][:1]}, "twice"),
    ):
        with pytest.raises(InputError, match=words):
            select(table, lists=lists | change)
    bare = table_of(tmp_path / "b", [dataclasses.replace(r, images=()) for r in recipes])
    with pytest.raises(InputError, match="have no picture"):
        select(bare, lists=lists)


def test_an_empty_table_selects_nothing(tmp_path):
    table = table_of(tmp_path, [])
    assert all(len(rows) == 0 for rows in select(table, removal=["a"]).rows.values())
    with pytest.raises(InputError, match="not in the table"):
        select(table, lists={"val": ["a"]})


def test_lists_of_ids(tmp_path):
    (tmp_path / "a.txt").write_text("x\n\n y \r\n")
    assert read_id_list(tmp_path / "a.txt") == ["x", "y"]
    for content in (b"", b"\n\n", b"\xff\xfe\n", b"a" * 5000, gzip.compress(b"a\nb\n")[:-9]):
        (tmp_path / "b.txt").write_bytes(content)
        with pytest.raises(InputError, match=r"b.txt: "):
            read_id_list(tmp_path / "b.txt")
    with pytest.raises(InputError, match="cannot be read"):
        read_id_list(tmp_path / "absent")
    assert find_lists(tmp_path) is None
    (tmp_path / "val.txt").write_text("a\n")
    with pytest.raises(InputError, match=r"no train.txt, test.txt"):
        find_lists(tmp_path)


# ---- real files ------------------------------------------------------------------------------------------------------


def test_basedcooking(shared, tmp_path):
    root = shared / "data" / "recipe1m" / "basedcooking"
    table = build_recipe1m(root, tmp_path)
    assert {s: len(table.rows(s)) for s in ("train", "val", "test")} == {"train": 251, "val": 49, "test": 45}
    chosen = select(table)
    assert {s: len(rows) for s, rows in chosen.rows.items()} == {"train": 79, "val": 18, "test": 17}
    assert (
        int((table.lengths("instructions") >= 20).sum()) == 3 and int((table.lengths("ingredients") >= 20).sum()) == 5
    )
    photos = find_photos(root)
    assert sum(photos(r.partition, name).is_file() for r in table.iter() for name in r.images) == 134
    raw = {r["id"]: r for r in json.loads((root / "layer1.json").read_text())}
    for recipe in table.iter():
        assert recipe.title == raw[recipe.recipe_id]["title"] and recipe.attribution == raw[recipe.recipe_id]["url"]
        assert list(recipe.instructions) == [x["text"] for x in raw[recipe.recipe_id]["instructions"]]


def test_two_recipes_of_recipe1m(shared, tmp_path):
    table = build_recipe1m(shared / "data" / "recipe1m" / "recipe1m_one_aligned", tmp_path)
    assert table.ids.tolist() == ["000018c8a5", "00003a70b1"] and table.lengths("images").tolist() == [0, 3]
    assert table[1].ingredients[0] == "2 12 cups milk" and table[1].detected[0] == "milk"
    assert table[0].valid.count(False) == 3 and len(Filters().names(table[0])) == 11


def test_official_lists(shared):
    lists = find_lists(shared / "data" / "recipe1m" / "splits")
    assert lists is not None and {split: len(ids) for split, ids in lists.items()} == OFFICIAL_PAIRS
    removal = read_id_list(shared / "data" / "recipe1m" / "im2recipe_lists" / "remove1M.txt")
    assert len(removal) == 40_577 and removal[0] == "000507ca6b"
    assert {name for ids in lists.values() for name in ids} & set(removal) == {"000507ca6b"}
    assert "000507ca6b" in lists["val"]
