"""The question builder: the rules of the four tasks, splits, stability and what leaks by chance."""

import itertools
import json
import random
import re
from collections import Counter, defaultdict
from dataclasses import replace

import pytest

from data.build import questions as module
from data.build.questions import SPLITS, build_questions, split_of, write_questions
from data.errors import InputError
from data.records import ORDERING_SENTENCE, PLACEHOLDER, TASK_NUMBERS, TASKS, SourceRecipe, SourceStep

ENDS = ("bar", "del", "fin", "gom", "kal", "mer", "nor", "pas", "rit", "sul")
WORDS = [start + end for start in ("ba", "ke", "li", "mo", "nu", "ra", "se", "ti", "vo", "za") for end in ENDS]


def made_up(count, seed=0, steps=(2, 9)):
    """Recipes of made-up words, so that hardly two texts are equal; some steps lack title or images."""
    dice = random.Random(seed)
    recipes = []
    for number in range(count):
        recipe_id = f"dish-{number}-{dice.randrange(10)}"
        made = []
        for index in range(dice.randint(*steps)):
            images = tuple(f"{recipe_id}_{index + 1}_{k}.jpg" for k in range(dice.choice((0, 1, 1, 2, 3))))
            title = " ".join(dice.choices(WORDS, k=dice.randint(1, 4))) if dice.random() < 0.95 else ""
            made.append(SourceStep(" ".join(dice.choices(WORDS, k=dice.randint(3, 30))), title, images))
        recipes.append(SourceRecipe(recipe_id, f"Dish {number}", "", tuple(made)))
    return recipes


def key(text):
    return " ".join(re.findall(r"[^\W\d_]+", text.lower()))


def check(record, recipes, text_field="title"):
    """The rules of the released files, written out without the builder's means."""
    recipe = recipes[record["recipe_id"]]
    number, _, *indices = record["qid"].split("-")
    indices = [int(index) for index in indices]
    assert int(number) == TASK_NUMBERS[record["task"]]
    assert indices == sorted(set(indices)) and len(indices) == 4 and indices[-1] < len(recipe.steps)
    assert len(record["choice_list"]) == 4 and record["answer"] in range(4)
    answer = record["choice_list"][record["answer"]]
    assert [step["id"] for step in record["context"]] == list(range(1, len(record["context"]) + 1))
    assert all(step["videos"] == [] for step in record["context"])
    steps = [recipe.steps[index] for index in indices]
    own_images = {image for step in recipe.steps for image in step.images}

    if record["task"] == "textual_cloze":
        texts = [step.title if text_field == "title" else step.body for step in steps]
        place = record["question"].index(PLACEHOLDER)
        assert record["question"] == [*texts[:place], PLACEHOLDER, *texts[place + 1 :]]
        assert answer == texts[place]
        assert len({key(choice) for choice in record["choice_list"]}) == 4
        assert all(choice.strip() for choice in record["choice_list"])
        shown = list(recipe.steps)
        if text_field == "body":
            del shown[indices[place]]
            others = {key(step.body) for step in recipe.steps}
            assert not others & {key(choice) for i, choice in enumerate(record["choice_list"]) if i != record["answer"]}
            assert answer not in [step["body"] for step in record["context"]]
        assert all(set(step) == {"body", "id", "videos", "images"} for step in record["context"])
        assert [(s["body"], tuple(s["images"])) for s in record["context"]] == [(s.body, s.images) for s in shown]
        return
    assert all(set(step) == {"body", "id", "videos", "title"} for step in record["context"])
    assert [(s["body"], s["title"]) for s in record["context"]] == [(s.body, s.title) for s in recipe.steps]
    if record["task"] == "visual_ordering":
        assert record["question"] == [ORDERING_SENTENCE]
        assert all(image in step.images for image, step in zip(answer, steps, strict=True))
        assert len({tuple(choice) for choice in record["choice_list"]}) == 4
        assert all(sorted(choice) == sorted(answer) for choice in record["choice_list"])
        return
    if record["task"] == "visual_cloze":
        place = record["question"].index(PLACEHOLDER)
        row = [*record["question"][:place], answer, *record["question"][place + 1 :]]
        assert len(set(record["choice_list"])) == 4
        strangers = [choice for i, choice in enumerate(record["choice_list"]) if i != record["answer"]]
        kept = list(range(4))
    else:
        assert record["question"] == record["choice_list"]
        row, strangers = record["question"], [answer]
        kept = [i for i in range(4) if i != record["answer"]]
    assert not own_images & set(strangers)
    assert all(row[i] in steps[i].images for i in kept)


@pytest.mark.parametrize("count", [61, 200])
@pytest.mark.parametrize("per_recipe", [1, 3])
def test_every_record_follows_the_rules(count, per_recipe):
    recipes = made_up(count, count)
    built, report = build_questions(recipes, TASKS, questions_per_recipe=per_recipe, fractions=(0.5, 0.25, 0.25))
    by_id = {recipe.recipe_id: recipe for recipe in recipes}
    seen, split_by_recipe, number_by_recipe = set(), {}, {}
    for split in SPLITS:
        for record in built[split]:
            check(record, by_id)
            assert record["split"] == split and record["qid"] not in seen
            seen.add(record["qid"])
            assert split_by_recipe.setdefault(record["recipe_id"], split) == split
            number = record["qid"].split("-")[1]
            assert number_by_recipe.setdefault(record["recipe_id"], number) == number
    assert len(set(number_by_recipe.values())) == len(number_by_recipe)
    for task in TASKS:
        counts = Counter(record["recipe_id"] for split in SPLITS for record in built[split] if record["task"] == task)
        assert sum(report["questions"][task].values()) == sum(counts.values()) > count // 3
        assert max(counts.values()) == per_recipe
        assert {record["answer"] for split in SPLITS for record in built[split] if record["task"] == task} == {
            0,
            1,
            2,
            3,
        }


def test_body_is_asked_where_there_are_no_titles():
    recipes = [
        replace(recipe, steps=tuple(SourceStep(step.body) for step in recipe.steps)) for recipe in made_up(150, 5)
    ]
    built, _ = build_questions(recipes, ("textual_cloze",), text_field="body", questions_per_recipe=2)
    by_id = {recipe.recipe_id: recipe for recipe in recipes}
    records = [record for split in SPLITS for record in built[split]]
    assert len(records) > 150
    for record in records:
        check(record, by_id, "body")
        assert record["question_modality"] == ["body"]
        assert record["question_text"] == module.BODY_QUESTION_TEXT
        assert len(by_id[record["recipe_id"]].steps) >= 4
    shortest = next(record for record in records if len(by_id[record["recipe_id"]].steps) == 4)
    assert len(shortest["context"]) == 3
    built, _ = build_questions(recipes, ("textual_cloze",), text_field="title")
    assert not any(built.values())


def test_wrong_choices_stay_in_the_split_unless_told_otherwise():
    recipes = made_up(200, 2)
    home = {image: recipe.recipe_id for recipe in recipes for step in recipe.steps for image in step.images}
    fractions = (0.5, 0.25, 0.25)

    def foreign(same_split):
        built, _ = build_questions(recipes, ("visual_cloze",), same_split=same_split, fractions=fractions)
        return [
            split_of(home[choice], fractions) != split
            for split in SPLITS
            for record in built[split]
            for choice in record["choice_list"]
        ]

    assert not any(foreign(True))
    assert sum(foreign(False)) > 0.3 * len(foreign(False))


def test_order_of_the_recipes_does_not_matter():
    recipes = made_up(80, 3)
    wanted, report = build_questions(recipes, TASKS, questions_per_recipe=2)
    random.Random(1).shuffle(recipes)
    assert build_questions(recipes, TASKS, questions_per_recipe=2) == (wanted, report)
    assert build_questions(recipes, TASKS, questions_per_recipe=2, seed=7)[0] != wanted


def test_a_new_recipe_moves_none_and_changes_few():
    recipes = made_up(151, 4)
    before, _ = build_questions(recipes[:150], TASKS)
    after, _ = build_questions(recipes, TASKS)
    old = {record["qid"]: record for split in SPLITS for record in before[split]}
    new = {record["qid"]: record for split in SPLITS for record in after[split]}
    assert old.keys() <= new.keys()
    assert all(old[qid]["split"] == new[qid]["split"] and old[qid]["answer"] == new[qid]["answer"] for qid in old)
    changed = [qid for qid in old if old[qid] != new[qid]]
    assert len(changed) <= 10  # three neighbours in each cloze task, one in coherence, and some that met an equal text


def test_split_is_a_salted_hash_with_the_wanted_fractions():
    ids = [f"recipe-{i}" for i in range(4001)]
    counts = Counter(split_of(recipe_id, (0.8, 0.1, 0.1)) for recipe_id in ids)
    assert abs(counts["train"] / 4001 - 0.8) < 0.03 and abs(counts["val"] / 4001 - 0.1) < 0.02
    assert set(counts) == set(SPLITS)
    moved = sum(split_of(i, (0.8, 0.1, 0.1)) != split_of(i, (0.8, 0.1, 0.1), "another") for i in ids)
    assert moved > 500
    assert {split_of(recipe_id, (1.0, 0.0, 0.0)) for recipe_id in ids} == {"train"}
    assert {split_of(recipe_id, (0.0, 0.0, 1.0)) for recipe_id in ids} == {"test"}


def test_chance_level_rules_do_not_beat_chance():
    recipes = made_up(1500, 6)
    built, _ = build_questions(recipes, ("textual_cloze", "visual_cloze"), fractions=(1.0, 0.0, 0.0))
    for task in ("textual_cloze", "visual_cloze"):
        records = [record for record in built["train"] if record["task"] == task]
        frequency = Counter(choice for record in records for choice in record["choice_list"])
        for rule in (frequency.__getitem__, len):
            for sign in (1, -1):
                hits = 0.0
                for record in records:
                    values = [sign * rule(choice) for choice in record["choice_list"]]
                    least = [i for i in range(4) if values[i] == min(values)]
                    hits += (record["answer"] in least) / len(least)
                assert abs(hits / len(records) - 0.25) < 4 * (0.25 * 0.75 / len(records)) ** 0.5
        assert abs(Counter(record["answer"] for record in records)[0] / len(records) - 0.25) < 0.05


def test_wrong_orders_are_uniform():
    built, _ = build_questions(made_up(1500, 8), ("visual_ordering",), fractions=(1.0, 0.0, 0.0))
    orders = Counter()
    for record in built["train"]:
        right = record["choice_list"].pop(record["answer"])
        orders.update(tuple(right.index(image) for image in order) for order in record["choice_list"])
    assert len(orders) == 23 and (0, 1, 2, 3) not in orders
    mean = sum(orders.values()) / 23
    assert all(abs(count - mean) < 5 * mean**0.5 for count in orders.values())


def test_distractor_rule_can_be_replaced():
    recipes = made_up(100, 9)
    calls = []

    def last_first(asked, seed):
        calls.append((len(asked), seed))
        candidates = [(item.recipe.recipe_id, item.content) for item in asked]
        return [sorted(candidates, reverse=True) for _ in asked]

    built, _ = build_questions(recipes, TASKS, distractors=last_first, seed=5, fractions=(1.0, 0.0, 0.0))
    assert len([call for call in calls if call[0]]) == 3 and {seed for _, seed in calls} == {5}
    wrong = Counter(
        choice
        for record in built["train"]
        if record["task"] == "textual_cloze"
        for i, choice in enumerate(record["choice_list"])
        if i != record["answer"]
    )
    assert len(wrong) <= 8  # always the same few, but for their own recipes and equal texts


def test_candidates_of_the_own_recipe_are_refused():
    def own_first(asked, _):
        contents = [(item.recipe.recipe_id, item.content) for item in asked]
        return [[(item.recipe.recipe_id, "never shown"), *contents] for item in asked]

    built, _ = build_questions(made_up(30), ("textual_cloze",), distractors=own_first, fractions=(1.0, 0.0, 0.0))
    assert len(built["train"]) > 10
    assert not any("never shown" in record["choice_list"] for record in built["train"])


def test_random_wrong_choices_are_not_chained():
    built, _ = build_questions(made_up(600, 13), ("textual_cloze",), fractions=(1.0, 0.0, 0.0))
    together = Counter(
        pair for record in built["train"] for pair in itertools.combinations(sorted(record["choice_list"]), 2)
    )
    assert sum(count > 1 for count in together.values()) < 0.05 * len(together)


def test_each_replaced_image_is_the_intruder_once():
    built, _ = build_questions(made_up(400, 14), ("visual_coherence",), fractions=(1.0, 0.0, 0.0))
    counts = Counter(image for record in built["train"] for image in record["choice_list"])
    assert set(counts.values()) == {1}  # so the least frequent image tells nothing


def test_title_and_body_are_asked_together():
    recipes = made_up(150, 21)
    built, _ = build_questions(recipes, ("textual_cloze",), text_field="both", questions_per_recipe=2)
    by_id = {recipe.recipe_id: recipe for recipe in recipes}
    rows = [record for split in SPLITS for record in built[split]]
    assert len(rows) > 100
    for record in rows:
        recipe = by_id[record["recipe_id"]]
        indices = [int(index) for index in record["qid"].split("-")[2:]]
        place = record["question"].index(PLACEHOLDER)
        texts = [f"{recipe.steps[index].title}\n{recipe.steps[index].body}" for index in indices]
        assert record["question"] == [*texts[:place], PLACEHOLDER, *texts[place + 1 :]]
        assert record["choice_list"][record["answer"]] == texts[place]
        assert all(all(choice.split("\n")) and choice.count("\n") == 1 for choice in record["choice_list"])
        bodies = [step.body for index, step in enumerate(recipe.steps) if index != indices[place]]
        assert [step["body"] for step in record["context"]] == bodies
        assert record["question_modality"] == ["title", "body"]


def test_collection_draws_every_step_of_other_recipes_equally_often():
    recipes = made_up(40, 22, steps=(5, 5))
    sums = Counter()
    for seed in range(60):
        built, _ = build_questions(
            recipes, ("textual_cloze",), distractors="collection", fractions=(1.0, 0.0, 0.0), seed=seed
        )
        for record in built["train"]:
            sums.update(choice for place, choice in enumerate(record["choice_list"]) if place != record["answer"])
    titles = Counter(step.title for recipe in recipes for step in recipe.steps if step.title)
    unique = [title for title, count in titles.items() if count == 1]
    mean = sum(sums[title] for title in unique) / len(unique)
    assert all(abs(sums[title] - mean) < 5 * mean**0.5 for title in unique)
    assert abs(mean - sum(sums.values()) / titles.total()) < 0.1 * mean


@pytest.mark.parametrize("rule", ["random", "collection"])
@pytest.mark.parametrize("matched", [False, True])
def test_limits_hold_and_order_does_not_matter(rule, matched):
    recipes = made_up(200, 23)
    settings = {"distractors": rule, "hub_limit": 2, "length_matched": matched, "fractions": (1.0, 0.0, 0.0)}
    tasks = ("textual_cloze", "visual_cloze", "visual_coherence")
    built, report = build_questions(recipes, tasks, **settings)
    for task in tasks:
        uses = Counter()
        for record in built["train"]:
            if record["task"] == task:
                wrong = [place for place in range(4) if (place == record["answer"]) == (task == "visual_coherence")]
                uses.update(record["choice_list"][place] for place in wrong)
        assert max(uses.values()) <= 2
        asked = report["questions"][task]["train"]
        left_out = report["rules"].get(f"{task}: no admissible wrong choices", 0)
        if rule == "random" and task != "visual_coherence":
            # Right choices are lent, twice each: that is three for two thirds; who has not enough gives all back.
            assert max(uses.values()) == 2 and abs(asked / (asked + left_out) - 2 / 3) < 0.05
        else:
            assert left_out == 0 < asked
    random.Random(4).shuffle(recipes)
    assert build_questions(recipes, tasks, **settings) == (built, report)


def test_lengths_are_matched_as_far_as_the_candidates_allow():
    recipes = made_up(900, 24)

    def places(**settings):
        built, _ = build_questions(
            recipes, ("textual_cloze",), text_field="body", fractions=(1.0, 0.0, 0.0), **settings
        )
        counts = Counter()
        for record in built["train"]:
            lengths = [len(choice) for choice in record["choice_list"]]
            right = lengths[record["answer"]]
            shorter, equal = sum(length < right for length in lengths), lengths.count(right)
            counts.update({rank: 1 / equal for rank in range(shorter, shorter + equal)})  # ties are shared
        return [counts[rank] / counts.total() for rank in range(4)]

    def long_first(asked, _):
        candidates = sorted(((item.recipe.recipe_id, item.content) for item in asked), key=lambda pair: -len(pair[1]))
        return [candidates[::8] for _ in asked]

    assert places(distractors=long_first)[0] > 0.5  # the right one is the shortest
    matched = places(distractors=long_first, length_matched=True)
    assert all(abs(share - 0.25) < 0.05 for share in matched), matched


def test_a_rule_tells_near_from_far():
    def rule(asked, _):
        for place, _item in enumerate(asked):
            others = [(item.recipe.recipe_id, item.content) for item in asked]
            near = others[(place + 1) % len(others) :][:1]
            yield module.Offer(near, (pair for pair in others if pair not in near))

    recipes = made_up(50, 25)
    for settings in ({}, {"hub_limit": 50}):
        _, report = build_questions(recipes, ("visual_cloze",), distractors=rule, fractions=(1.0, 0.0, 0.0), **settings)
        count = report["questions"]["visual_cloze"]["train"]
        assert count > 20
        assert report["rules"]["visual_cloze: wrong choices from outside the neighbourhood"] == 2 * count


def test_frequent_and_repeated_texts_are_not_asked():
    def serve(number):
        texts = [f"mix {WORDS[number]} flour", f"bake the {WORDS[number]} cake", f"cut {WORDS[number]}", "Serve hot."]
        return SourceRecipe(f"r{number}", "", "", tuple(SourceStep(text) for text in [*texts, "Bake at 350 F."]))

    recipes = [serve(number) for number in range(60)]
    repeated = SourceRecipe(
        "repeated", "", "", tuple(SourceStep(text) for text in ("same thing", "same thing", "a", "b"))
    )
    built, report = build_questions(
        [*recipes, repeated], ("textual_cloze",), text_field="body", questions_per_recipe=3, fractions=(1.0, 0.0, 0.0)
    )
    choices = Counter(choice for record in built["train"] for choice in record["choice_list"])
    assert choices["Serve hot."] == choices["Bake at 350 F."] == choices["same thing"] == 0
    assert any("Serve hot." in record["question"] for record in built["train"])
    assert report["rules"]["textual_cloze: steps not asked, text stands in many recipes"] == 120
    assert report["rules"]["textual_cloze: steps not asked, text occurs again in its recipe"] == 2
    built, _ = build_questions(
        recipes, ("textual_cloze",), text_field="body", questions_per_recipe=5, max_text_repeats=1000
    )
    assert any("Serve hot." in record["choice_list"] for record in built["train"])


def test_images_that_look_alike_are_never_side_by_side():
    recipes = made_up(150, 10)
    look = {image: hash_free % 12 for hash_free, image in enumerate(
        sorted(image for recipe in recipes for step in recipe.steps for image in step.images)
    )}  # fmt: skip
    built, report = build_questions(recipes, TASKS[1:], content_key=look.__getitem__, fractions=(1.0, 0.0, 0.0))
    assert sum(sum(counts.values()) for counts in report["questions"].values()) > 50
    for record in built["train"]:
        if record["task"] == "visual_ordering":
            assert len({look[image] for image in record["choice_list"][0]}) == 4
        else:
            shown = {*record["question"], *record["choice_list"]} - {PLACEHOLDER}
            assert len({look[image] for image in shown}) == len(shown)


def test_copies_and_lengths_are_left_out_and_counted():
    recipes = made_up(60, 11, steps=(5, 7))
    copy = replace(recipes[0], recipe_id="a-copy")
    near = [
        replace(
            recipe,
            recipe_id=f"near-{i}",
            steps=(*recipe.steps[:-1], SourceStep(f"quite another {WORDS[i]} end", "end")),
        )
        for i, recipe in enumerate(recipes[:40])
    ]
    short = SourceRecipe("short", "", "", (SourceStep("a"), SourceStep("b")))
    long = SourceRecipe("long", "", "", tuple(SourceStep(f"step of {word}") for word in WORDS[:30]))
    built, report = build_questions(
        [*recipes, copy, *near, short, long], ("textual_cloze",), fractions=(0.5, 0.25, 0.25)
    )
    assert report["rules"]["recipes left out: number of steps"] == 2
    assert report["rules"]["recipes left out: same steps as another recipe"] == 1
    dropped = report["rules"]["recipes left out: too many steps shared with another split"]
    assert 10 < dropped < 40
    homes = defaultdict(set)
    for split in SPLITS:
        for record in built[split]:
            for step in record["context"]:
                if len(step["body"]) > 60:
                    homes[step["body"]].add(split)
    assert max(map(len, homes.values())) == 1
    assert sum(report["recipes"].values()) == 60 + 40 - dropped


def test_too_few_recipes_give_no_question():
    built, report = build_questions(made_up(2, 12, steps=(5, 5)), TASKS[:2], fractions=(1.0, 0.0, 0.0))
    assert built["train"] == []
    assert report["rules"]["textual_cloze: no admissible wrong choices"] >= 1


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"tasks": ("textual",)}, "tasks=textual: unknown task"),
        ({"distractors": "nearest"}, "distractors=nearest: unknown rule; choose one of random"),
        ({"text_field": "name"}, "text_field=name"),
        ({"hub_limit": 0}, "hub_limit=0"),
        ({"hub_limit": "some"}, "hub_limit=some"),
        ({"fractions": (0.8, 0.1, 0.2)}, "fractions="),
        ({"fractions": (1.2, -0.1, -0.1)}, "fractions="),
        ({"questions_per_recipe": 0}, "questions_per_recipe=0"),
        ({"min_steps": 9, "max_steps": 8}, "min_steps=9"),
    ],
)
def test_wrong_settings_are_named(settings, message):
    with pytest.raises(InputError, match=re.escape(message)):
        build_questions(made_up(5), **settings)


def test_one_id_for_two_recipes_is_refused():
    recipes = made_up(5)
    with pytest.raises(InputError, match="occurs twice"):
        build_questions([*recipes, recipes[2]])


def test_files_are_written_in_one_piece(tmp_path, monkeypatch):
    recipes = [replace(recipe, title="Crêpe ½") for recipe in made_up(40)]
    built, _ = build_questions(recipes, TASKS)
    paths = write_questions(built, tmp_path / "new")
    assert [path.name for path in paths.values()] == ["train.json", "val.json", "test.json"]
    for split, path in paths.items():
        assert json.loads(path.read_text(encoding="utf-8")) == {"data": built[split]}
    content = paths["train"].read_bytes()

    def full(*_, **__):
        raise OSError("disk full")

    monkeypatch.setattr(module.json, "dump", full)
    with pytest.raises(OSError, match="disk full"):
        write_questions({"train": []}, tmp_path / "new")
    assert paths["train"].read_bytes() == content
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["test.json", "train.json", "val.json"]


def test_embedded_recipes_give_the_documented_counts():
    from data.wikibooks import read_recipes

    _, report = build_questions(read_recipes(), ("textual_cloze",), text_field="body", questions_per_recipe=3)
    assert report["recipes"] == {"train": 2354, "val": 291, "test": 293}
    assert report["questions"] == {"textual_cloze": {"train": 5648, "val": 699, "test": 687}}


def test_records_are_of_the_released_schema(shared):
    import gzip

    path = shared / "data" / "recipeqa" / "val_open.json.gz"
    released = json.loads(gzip.decompress(path.read_bytes()))["data"]
    built, _ = build_questions(made_up(100), TASKS)
    for task in TASKS:
        theirs = next(record for record in released if record["task"] == task)
        ours = next(record for record in built["train"] if record["task"] == task)
        assert ours.keys() == theirs.keys()
        assert ours["context_modality"] == theirs["context_modality"]
        assert ours["question_modality"] == theirs["question_modality"]
        assert ours["context"][0].keys() == theirs["context"][0].keys()
        assert [type(value) for value in ours.values()] == [type(ours[name]) for name in ours]
        assert all(type(ours[name]) is type(theirs[name]) for name in ours)
        if task == "visual_ordering":
            assert ours["question"] == theirs["question"]
