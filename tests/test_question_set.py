"""The whole builder: same bytes whatever the engine, kills and orders; neighbourhoods; limits; what it refuses."""

import itertools
import json
import os
import re
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from data.build import question_set as module
from data.build.engines import LocalEngine, RayEngine
from data.build.question_set import BALANCED, RELEASED, SetSettings, build_set, verify
from data.build.questions import SPLITS, split_of
from data.errors import InputError
from data.records import PLACEHOLDER, TASKS, SourceRecipe, SourceStep
from data.text import Doc2VecSettings
from tests.made_up_source import UNCLEANED, WORDS, HashedFeatures, MadeUpSource, picture
from tests.test_questions import check, key

ROOT = Path(__file__).resolve().parents[1]
TEXT = Doc2VecSettings(vector_size=16, epochs=3)
HALVES = (0.5, 0.25, 0.25)


def build(source, out, cache, engine=None, *, extractor=None, on_bad_image="raise", describe=None,
          **settings):  # fmt: skip
    settings = SetSettings(**{"cleaning": UNCLEANED, "tasks": ("textual_cloze",), "fractions": HALVES, **settings})
    return build_set(
        source, out, settings, cache, engine or LocalEngine(1), Console(quiet=True), text=TEXT, extractor=extractor,
        on_bad_image=on_bad_image, describe=describe,
    )  # fmt: skip


def contents(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def records(folder, task=None, splits=SPLITS):
    found = [r for split in splits for r in json.loads((folder / f"{split}.json").read_bytes())["data"]]
    return [record for record in found if task in (None, record["task"])]


def wrong(record):
    if record["task"] == "visual_coherence":
        return [record["choice_list"][record["answer"]]]
    return [choice for place, choice in enumerate(record["choice_list"]) if place != record["answer"]]


def bias(rows, value):
    """How often, in per cent, the choice of least `value` is right, ties shared; and three standard errors of 25 %."""
    hits = 0.0
    for record in rows:
        values = [value(choice) for choice in record["choice_list"]]
        least = [place for place in range(4) if values[place] == min(values)]
        hits += (record["answer"] in least) / len(least)
    return 100 * hits / len(rows), 300 * (0.25 * 0.75 / len(rows)) ** 0.5


def frequency(rows):
    return Counter(choice for record in rows for choice in record["choice_list"]).__getitem__


# ---- the set as a whole ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A set of all tasks and what it is made of."""
    folder = tmp_path_factory.mktemp("whole")
    source = MadeUpSource(90, folder / "images")
    report = build(source, folder / "set", folder / "cache", extractor=HashedFeatures(), tasks=TASKS)
    return folder, source, report


def test_all_tasks_follow_the_rules(whole):
    folder, source, report = whole
    by_id = {recipe.recipe_id: recipe for recipe in source.recipes()}
    home = {image: r.recipe_id for r in by_id.values() for step in r.steps for image in step.images}
    for split in SPLITS:
        rows = records(folder / "set", splits=[split])
        assert {task: sum(row["task"] == task for row in rows) for task in TASKS} == {
            task: report["questions"][task][split] for task in TASKS
        }
        for row in rows:
            check(row, by_id)
            assert row["split"] == split == split_of(row["recipe_id"], HALVES)
            if row["task"] != "textual_cloze":
                shown = itertools.chain(*row["choice_list"]) if row["task"] == "visual_ordering" else row["choice_list"]
                assert {split_of(home[image], HALVES) for image in shown} == {split}
    assert all(count > 5 for counts in report["questions"].values() for count in counts.values())
    assert report["cleaning"]["recipes read"] == 90


def test_the_folder_is_whole(whole):
    folder, _, report = whole
    out = folder / "set"
    shown = {image for row in records(out, "textual_cloze") for step in row["context"] for image in step["images"]}
    shown |= {choice for row in records(out, "visual_cloze") for choice in row["choice_list"]}
    assert shown <= {path.name for path in (out / "images").iterdir()} and len(shown) > 100
    assert all((out / "images" / name).read_bytes() == picture(name) for name in shown)
    manifest = verify(out)
    assert set(manifest["sha256"]) == {
        "ATTRIBUTION.txt",
        "report.json",
        "train.json",
        "val.json",
        "test.json",
    }
    assert manifest["images"] == len(list((out / "images").iterdir()))
    assert manifest["source"] == {"name": "made_up", "count": 90, "seed": 0}
    assert manifest["counts"] == report["questions"] == json.loads((out / "report.json").read_bytes())["questions"]
    assert "Dish 7 (dish-7): by cook 7\n" in (out / "ATTRIBUTION.txt").read_text()
    assert [path.name for path in folder.iterdir() if path.name.startswith(".set.b")] == []


def test_our_reader_and_the_check_find_nothing_wrong(whole):
    from data.build.check_set import check_set

    report = check_set(whole[0] / "set")
    assert report["problems"] == []
    assert report["questions"] == {split: len(records(whole[0] / "set", splits=[split])) for split in SPLITS}
    assert all(shared["recipes"] == shared["images"] == shared["qids"] == 0 for shared in report["between"].values())


def test_a_set_that_is_there_is_left_alone_and_a_damaged_one_made_again(whole, tmp_path):
    folder, source, report = whole
    before = contents(folder / "set")
    times = {path: path.stat().st_mtime_ns for path in (folder / "set").rglob("*")}

    def again():
        return build(source, folder / "set", folder / "cache", extractor=HashedFeatures(), tasks=TASKS)

    assert again() == report
    assert {path: path.stat().st_mtime_ns for path in (folder / "set").rglob("*")} == times
    (folder / "set" / "val.json").write_bytes(before["val.json"][:-100])
    with pytest.raises(InputError, match=r"val.json: is absent or does not have its checksum"):
        verify(folder / "set")
    assert again() == report
    assert contents(folder / "set") == before


@pytest.mark.parametrize(
    ("workers", "order"),
    [(1, 3), pytest.param(2, None, marks=pytest.mark.slow), pytest.param(2, 5, marks=pytest.mark.slow)],
)
def test_workers_and_order_do_not_matter(whole, tmp_path, workers, order):
    folder, source, _ = whole
    shuffled = replace(source, order=order)
    build(shuffled, tmp_path / "set", tmp_path / "cache", LocalEngine(workers), extractor=HashedFeatures(), tasks=TASKS)
    assert contents(tmp_path / "set") == contents(folder / "set")


@pytest.mark.slow
def test_ray_gives_the_same_bytes(whole, tmp_path):
    pytest.importorskip("ray", reason="needs Ray: pip install ray")
    folder, source, _ = whole
    build(source, tmp_path / "set", tmp_path / "cache", RayEngine(cpus=2), extractor=HashedFeatures(), tasks=TASKS)
    assert contents(tmp_path / "set") == contents(folder / "set")


PROGRAM = """
import sys
from pathlib import Path

if __name__ == "__main__":  # a worker that is started afresh reads this file, too
    from data.build import question_set
    from data.build.engines import LocalEngine
    from tests.made_up_source import HashedFeatures, MadeUpSource
    from tests.test_question_set import build

    question_set.TEXTS = question_set.IMAGES = 2  # many shards, so that the kill falls between two
    folder, workers = Path(sys.argv[1]), int(sys.argv[2])
    source = MadeUpSource(90, Path(sys.argv[3]))
    tasks = ("textual_cloze", "visual_cloze", "visual_coherence", "visual_ordering")
    build(source, folder / "set", folder / "cache", LocalEngine(workers), extractor=HashedFeatures(), tasks=tasks)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("workers", "kills"), [(1, (2, 30)), (2, (3, 20, 60))])
def test_a_build_that_is_killed_goes_on_and_ends_with_the_same_bytes(whole, tmp_path, workers, kills):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, program, tmp_path, str(workers), whole[0] / "images"]

    def shards():
        return len(list((tmp_path / "cache" / "question_set").glob("*/0*.npz")))

    for number in kills:
        process = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        while shards() < number:
            assert process.poll() is None, "the build was over before it could be killed"
            time.sleep(0.002)
        process.kill()
        process.wait()
        assert not (tmp_path / "set").exists()
    done = {path: path.stat().st_mtime_ns for path in (tmp_path / "cache" / "question_set").glob("*/0*.npz")}
    subprocess.run(command, env=environment, check=True, capture_output=True)
    assert all(path.stat().st_mtime_ns == stamp for path, stamp in done.items()) and shards() > len(done)
    made, wanted = contents(tmp_path / "set"), contents(whole[0] / "set")
    assert made == wanted


def test_a_fault_leaves_nothing_behind(tmp_path):
    def full(*_):
        raise OSError(28, "No space left on device")

    with pytest.raises(InputError, match=r"set: cannot be stored .*the disk is full"):
        build(MadeUpSource(40), tmp_path / "set", tmp_path / "cache", distractors="random", describe=full)
    assert (
        sorted(path.name for path in tmp_path.iterdir() if not path.name.endswith(".lock"))
        == ["cache"][: (tmp_path / "cache").exists()]
    )


def test_described_files_belong_to_the_set(tmp_path):
    def describe(folder, kept, made, report):
        assert {split for _, split in kept} == set(SPLITS) and made["train"][0]["choice_list"]
        (folder / "card.md").write_text(f"{len(kept)} recipes, {report['recipes']['train']} to train on")

    build(MadeUpSource(40), tmp_path / "set", tmp_path / "cache", distractors="random", describe=describe)
    assert "card.md" in verify(tmp_path / "set")["sha256"]
    (tmp_path / "set" / "card.md").write_text("something else")
    with pytest.raises(InputError, match=r"card.md: is absent or does not have its checksum"):
        verify(tmp_path / "set")


# ---- neighbourhoods --------------------------------------------------------------------------------------------------


def ranks(folder, source, settings):
    """For each question the rank of its wrong choices among all other texts, by brute force over every pair."""
    import ot
    from scipy.spatial.distance import cdist

    from data.build.neighbours import WordVectors
    from data.build.questions import plan_questions

    plan = plan_questions(source.recipes(), ("textual_cloze",), fractions=HALVES, max_text_repeats=None, min_steps=0)
    encoder = module._encoder(plan, TEXT, folder / "cache")
    words = WordVectors(encoder.words, encoder.word_vectors)

    def distance(a, b):
        bags = [dict(words.bag(encoder.tokens(text))) for text in (a, b)]
        if not all(bags):
            return None
        mass = [np.array(list(bag.values()), float) / sum(bag.values()) for bag in bags]
        rows = [words.vectors[list(bag)].astype(np.float64) for bag in bags]
        return round(float(ot.emd2(*mass, cdist(*rows))), 9)

    by_id = {recipe.recipe_id: recipe for recipe in source.recipes()}
    for row in records(folder / "set", "textual_cloze", ["val", "test"]):
        right = row["choice_list"][row["answer"]]
        own = {key(step.title) for step in by_id[row["recipe_id"]].steps}
        titles = {}
        for recipe, split in plan.kept:
            if split == row["split"] or not settings.get("same_split", True):
                titles |= {key(step.title): step.title for step in recipe.steps if key(step.title) not in own}
        far = {name: distance(right, title) for name, title in titles.items()}
        # Texts of the same words are one neighbour, and what has the right choice's words is none.
        levels = sorted({d for d in far.values() if d})
        bags = {(d, words.bag(encoder.tokens(titles[name]))) for name, d in far.items() if d}
        counts = Counter(d for d, _ in bags)
        first = {d: 1 + sum(counts[e] for e in levels if e < d) for d in levels}
        last = {d: first[d] + counts[d] - 1 for d in levels}
        yield row, [(first.get(far[key(w)]), last.get(far[key(w)])) for w in wrong(row)], sum(counts.values())


def test_wrong_choices_come_from_the_band(tmp_path):
    source = MadeUpSource(60, hubs=False)
    report = build(source, tmp_path / "set", tmp_path / "cache", k_lo=3, k_hi=12)
    seen, places = 0, Counter()
    for row, found, most in ranks(tmp_path, source, {}):
        assert most > 20
        for low, high in found:
            assert low <= 12 and high >= 3, (row["qid"], found)
            places[low] += 1
            seen += 1
    assert seen > 60 and len(places) == 10  # all ranks of the band occur
    assert not any("outside" in rule for rule in report["rules"])


def test_the_whole_collection_lends_where_it_may(tmp_path):
    source = MadeUpSource(60, hubs=False)
    build(source, tmp_path / "set", tmp_path / "cache", same_split=False)
    home = {step.title: split_of(recipe.recipe_id, HALVES) for recipe in source.recipes() for step in recipe.steps}
    foreign = [home[w] != row["split"] for row in records(tmp_path / "set") for w in wrong(row)]
    assert sum(foreign) > 0.3 * len(foreign)


def test_texts_without_a_known_word_get_wrong_choices_from_anywhere(tmp_path):
    odd = SourceRecipe("odd", "Odd", "", tuple(SourceStep("qx", f"Zq{word}") for word in ("ab", "cd", "ef", "gh")))
    report = build(MadeUpSource(40, extra=[odd]), tmp_path / "set", tmp_path / "cache", fractions=(1.0, 0.0, 0.0))
    assert report["rules"]["textual_cloze: right choices without neighbours"] == 1
    assert report["rules"]["textual_cloze: wrong choices from outside the neighbourhood"] == 3
    (row,) = [row for row in records(tmp_path / "set") if row["recipe_id"] == "odd"]
    assert len({key(choice) for choice in row["choice_list"]}) == 4


def test_images_come_from_the_band_and_never_equal(whole):
    folder, source, _ = whole
    extractor = HashedFeatures()
    recipes = list(source.recipes())
    for task in ("visual_cloze", "visual_coherence"):
        for row in records(folder / "set", task, ["val"]):
            names = [n for r in recipes if split_of(r.recipe_id, HALVES) == "val" and r.recipe_id != row["recipe_id"]
                     for step in r.steps for n in step.images]  # fmt: skip
            features = extractor.extract([folder / "images" / name for name in names])
            if task == "visual_cloze":
                rights = [row["choice_list"][row["answer"]]]
            else:  # the replaced image is shown nowhere: any of its step
                step = next(r for r in recipes if r.recipe_id == row["recipe_id"]).steps[
                    int(row["qid"].split("-")[2 + row["answer"]])
                ]
                rights = list(step.images)
            placed = []
            for right in rights:
                query = extractor.extract([folder / "images" / right])[0]
                order = np.argsort(((features - query) ** 2).sum(1), kind="stable")
                rank = {names[place]: number + 1 for number, place in enumerate(order)}
                placed.append(all(4 <= rank[w] <= 51 for w in wrong(row)))  # one off for ties in rounding
            assert any(placed)


def test_images_of_the_first_step_are_wrong_choices_only_if_told(tmp_path):
    source = MadeUpSource(40, tmp_path / "images", first_step_is_narrative=True, steps=(5, 8))
    for told in (False, True):
        build(
            source, tmp_path / f"set{told}", tmp_path / "cache", tasks=("visual_cloze",), distractors="collection",
            step0_images=told,
        )  # fmt: skip
        rows = records(tmp_path / f"set{told}")
        first = [choice for row in rows for choice in wrong(row) if "_1_" in choice]
        assert bool(first) == told
        assert not any("_1_" in row["choice_list"][row["answer"]] for row in rows)
        assert not any("_1_" in name for row in rows for name in row["question"])


def test_images_that_look_alike_are_one(tmp_path):
    source = MadeUpSource(50, tmp_path / "images")
    names = sorted(image for recipe in source.recipes() for step in recipe.steps for image in step.images)
    look = {name: place % 40 for place, name in enumerate(names)}
    build(
        replace(source, look=look), tmp_path / "set", tmp_path / "cache", extractor=HashedFeatures(),
        tasks=TASKS[1:], fractions=(1.0, 0.0, 0.0), k_lo=1, k_hi=30,
    )  # fmt: skip
    rows = records(tmp_path / "set")
    assert len(rows) > 50
    for row in rows:
        if row["task"] != "visual_ordering":
            shown = {*row["question"], *row["choice_list"]} - {PLACEHOLDER}
            assert len({look[image] for image in shown}) == len(shown)


def test_bad_images_are_named_or_left_out(tmp_path):
    source = MadeUpSource(40, tmp_path / "images")
    list(source.recipes())
    recipes = list(source.recipes())
    source.recipes = lambda: iter(recipes)  # the files are not made again
    bad = sorted(path for path in (tmp_path / "images").iterdir())[::9]
    bad[0].unlink()
    for path in bad[1:]:
        path.write_bytes(b"damaged")
    settings = {"extractor": HashedFeatures(), "tasks": TASKS[1:], "fractions": (1.0, 0.0, 0.0)}
    with pytest.raises(InputError, match=r"is absent|damaged"):
        build(source, tmp_path / "set", tmp_path / "cache", **settings)
    report = build(source, tmp_path / "set", tmp_path / "cache", on_bad_image="skip", **settings)
    assert report["cleaning"]["images left out: cannot be read"] == len(bad)
    text = (tmp_path / "set" / "train.json").read_text()
    assert not any(f'"{path.name}"' in text for path in bad)


# ---- what a choice gives away ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("distractors", ["collection", "neighbourhood"])
@pytest.mark.parametrize("limit", [1, 2])
def test_no_text_is_lent_more_often_than_the_limit(tmp_path, distractors, limit):
    source = MadeUpSource(80)
    settings = {"distractors": distractors, "fractions": (1.0, 0.0, 0.0)}
    build(source, tmp_path / "free", tmp_path / "cache", **settings)
    build(source, tmp_path / "set", tmp_path / "cache", hub_limit=limit, **settings)
    free, rows = records(tmp_path / "free"), records(tmp_path / "set")
    assert max(Counter(key(w) for row in free for w in wrong(row)).values()) > limit
    assert max(Counter(key(w) for row in rows for w in wrong(row)).values()) == limit
    assert len(rows) == len(free) == 80  # there are texts enough for all


def test_balanced_hubs_are_lent_as_often_as_they_are_right(tmp_path):
    source = MadeUpSource(60, tmp_path / "images")
    build(
        source, tmp_path / "set", tmp_path / "cache", extractor=HashedFeatures(), fractions=(1.0, 0.0, 0.0),
        tasks=("visual_cloze", "visual_coherence"), **BALANCED,
    )  # fmt: skip
    for task, most in (("visual_cloze", 3), ("visual_coherence", 1)):
        uses = Counter(w for row in records(tmp_path / "set", task) for w in wrong(row))
        assert set(uses.values()) == {most}  # exactly: every right choice is lent as often


MEASURES = {"shortest": len, "longest": lambda choice: -len(choice), "fewest words": lambda choice: len(choice.split())}


def biases(rows):
    count = frequency(rows)
    measures = {**MEASURES, "least frequent": count, "most frequent": lambda choice: -count(choice)}
    return {name: bias(rows, measure)[0] - 25 for name, measure in measures.items()}, bias(rows, len)[1]


@pytest.mark.slow
def test_biases_of_made_up_recipes_are_seen_and_removed(tmp_path):
    source, one = MadeUpSource(700), {"fractions": (1.0, 0.0, 0.0)}
    build(source, tmp_path / "released", tmp_path / "cache", LocalEngine(2), **one, **RELEASED)
    build(source, tmp_path / "balanced", tmp_path / "cache", LocalEngine(2), **one, **BALANCED)
    found, error = biases(records(tmp_path / "released"))
    assert found["shortest"] > error and found["longest"] < -error and found["most frequent"] > error
    rows = records(tmp_path / "balanced")
    found, error = biases(rows)
    assert len(rows) > 690 and all(abs(value) < error for value in found.values()), found


@pytest.mark.slow
def test_biases_of_wikibooks_are_seen_and_removed(tmp_path):
    from data import wikibooks
    from data.store import digest_of

    class Cookbook(MadeUpSource):
        def recipes(self):
            return iter(sorted(wikibooks.read_recipes(), key=lambda recipe: digest_of(recipe.recipe_id))[:1200])

    source, one = Cookbook(0), {"fractions": (1.0, 0.0, 0.0), "text_field": "auto"}
    build(source, tmp_path / "released", tmp_path / "cache", LocalEngine(2), **one, **RELEASED)
    build(source, tmp_path / "balanced", tmp_path / "cache", LocalEngine(2), **one, **BALANCED)
    assert records(tmp_path / "released")[0]["question_modality"] == ["body"]
    found, error = biases(records(tmp_path / "released"))
    assert found["least frequent"] > 3 * error and found["most frequent"] < -3 * error
    rows = records(tmp_path / "balanced")
    found, error = biases(rows)
    assert len(rows) > 1000 and all(abs(value) < error for value in found.values()), found


# ---- bad input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"distractors": "nearest"},
            "questions.distractors=nearest: is unknown; choose one of random, collection, neigh",
        ),
        ({"pool": "all"}, "questions.pool=all"),
        ({"k_lo": 0}, "questions.k_lo=0"),
        ({"k_lo": 5, "k_hi": 6}, "questions.k_lo=5, questions.k_hi=6"),
        ({"tasks": ()}, "questions.tasks=[]"),
        ({"tasks": ("ordering",)}, "questions.tasks=ordering: is unknown; choose one of textual_cloze"),
        ({"tasks": "textual_cloze"}, "questions.tasks=textual_cloze: must be a list of texts"),
        ({"k_lo": "two"}, "questions.k_lo=two: must be a whole number"),
        ({"k_hi": 20.5}, "questions.k_hi=20.5: must be a whole number"),
        ({"k_lo": None}, "questions.k_lo=None: must be a whole number"),
        ({"same_split": 1}, "questions.same_split=1: must be true or false"),
        ({"fractions": (0.5, 0.5)}, "questions.fractions=[0.5, 0.5]: must be three numbers"),
        ({"fractions": (0.9, "a", 0.1)}, "questions.fractions=(0.9, 'a', 0.1): must be a list of numbers"),
        ({"questions_per_recipe": 0}, "questions.questions_per_recipe=0: must be at least 1"),
        ({"max_shared_steps": -1}, "questions.max_shared_steps=-1: must be from 0 to 1"),
        ({"max_text_repeats": True}, "questions.max_text_repeats=True: must be a whole number or null"),
        ({"text_field": "name"}, "text_field=name"),
        ({"hub_limit": 0, "distractors": "random"}, "hub_limit=0"),
        ({"hub_limit": "few", "distractors": "random"}, "hub_limit=few"),
        ({"hub_limit": "balanced"}, "questions.hub_limit=balanced: lends only what is right elsewhere"),
        ({"tasks": ("visual_cloze",)}, "the visual tasks need image features"),
    ],
)
def test_wrong_settings_are_named(tmp_path, settings, message):
    with pytest.raises(InputError, match=re.escape(message)):
        build(MadeUpSource(40), tmp_path / "set", tmp_path / "cache", **settings)
    assert not (tmp_path / "set").exists()


def test_too_few_recipes_are_told_how_many_are_needed(tmp_path):
    for distractors in ("random", "collection", "neighbourhood"):
        with pytest.raises(InputError) as raised:
            build(
                MadeUpSource(10, steps=(4, 4)), tmp_path / "set", tmp_path / "cache", distractors=distractors,
                fractions=(0.8, 0.1, 0.1),
            )  # fmt: skip
        message = str(raised.value)
        assert message.startswith("made_up: 10 recipes are too few for textual_cloze: ") and "\n" not in message
        need = int(re.search(r"give about (\d+) recipes, set questions.same_split=false,", message)[1])
        report = build(
            MadeUpSource(need, steps=(4, 4)), tmp_path / distractors, tmp_path / "cache", distractors=distractors,
            fractions=(0.8, 0.1, 0.1),
        )  # fmt: skip
        assert min(report["questions"]["textual_cloze"].values()) > 0


def test_ten_recipes_are_enough_where_all_may_lend(tmp_path):
    report = build(
        MadeUpSource(10, tmp_path / "images"), tmp_path / "set", tmp_path / "cache", extractor=HashedFeatures(),
        tasks=TASKS, same_split=False, fractions=(1.0, 0.0, 0.0),
    )  # fmt: skip
    assert {task: counts["train"] for task, counts in report["questions"].items()} == dict.fromkeys(TASKS, 10)


def test_recipes_without_images_or_titles_are_told(tmp_path):
    with pytest.raises(
        InputError, match=r"made_up: none of 30 recipes has four steps with different images.*visual_ord"
    ):
        build(MadeUpSource(30), tmp_path / "set", tmp_path / "cache", tasks=("visual_ordering",))
    bare = [SourceRecipe(f"b{n}", "", "", tuple(SourceStep(f"{word} {n}") for word in WORDS[:5])) for n in range(30)]
    with pytest.raises(InputError, match=r"different texts to ask for.*or set questions.text_field"):
        build(MadeUpSource(0, extra=bare), tmp_path / "set", tmp_path / "cache")
    with pytest.raises(InputError, match="the cleaning left none of its recipes"):
        build(MadeUpSource(5, steps=(1, 2)), tmp_path / "set", tmp_path / "cache")


def test_folders_of_others_are_not_touched(tmp_path):
    out = tmp_path / "set"
    out.mkdir()
    (out / "thesis.txt").write_text("years of work")
    with pytest.raises(InputError, match="exists and is no question set"):
        build(MadeUpSource(40), out, tmp_path / "cache", distractors="random")
    assert (out / "thesis.txt").read_text() == "years of work"
    (out / "thesis.txt").unlink()
    build(MadeUpSource(40), out, tmp_path / "cache", distractors="random")  # an empty one is taken
    before = contents(out)
    with pytest.raises(InputError, match="holds a set of other recipes, settings"):
        build(MadeUpSource(40), out, tmp_path / "cache", distractors="random", seed=2)
    with pytest.raises(InputError, match="holds a set of other recipes, settings"):
        build(MadeUpSource(41), out, tmp_path / "cache", distractors="random")
    assert contents(out) == before


def test_image_names_stay_in_the_folder(tmp_path):
    source = MadeUpSource(30, tmp_path / "images")
    recipes = list(source.recipes())
    evil = replace(recipes[0], steps=tuple(replace(s, images=("../../evil_1_0.jpg",)) for s in recipes[0].steps))
    source.recipes = lambda: iter([evil, *recipes[1:]])
    with pytest.raises(InputError, match=r"evil_1_0.jpg' is no plain file name"):
        build(source, tmp_path / "set", tmp_path / "cache", distractors="random", fractions=(1.0, 0.0, 0.0))
