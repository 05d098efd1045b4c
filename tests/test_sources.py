"""Each source against hand-made files and the real ones: what is read, what is refused, what is counted."""

import gzip
import json
import random
import re
from pathlib import Path

import pytest
from PIL import Image

from data.build import sources
from data.build.cleaning import CleaningSettings, clean
from data.build.questions import build_questions, write_questions
from data.build.sources import Jsonl, Recipe1M, Released, Wikibooks
from data.errors import InputError
from data.recipeqa import read_questions
from data.recipeqa import write_questions as write_released
from data.records import PLACEHOLDER, TASKS, Question, SourceStep, Step

DOCS = Path(__file__).resolve().parents[1] / "docs" / "own_benchmark.md"


# ---- JSONL -----------------------------------------------------------------------------------------------------------


def line(name="soup", **values):
    steps = [{"title": f"Step of {name}", "body": f"Cook {name} {i}.", "images": [], "videos": []} for i in range(3)]
    return {"recipe_id": name, "title": name.title(), "category": "soup", "steps": steps} | values


def folder(tmp_path, *lines, name="recipes.jsonl"):
    text = "\n".join(entry if isinstance(entry, str) else json.dumps(entry, ensure_ascii=False) for entry in lines)
    (tmp_path / name).write_text(text + "\n", encoding="utf-8")
    return tmp_path


def picture(path, size=(8, 8), kind="JPEG"):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, (200, 30, 30)).save(path, kind)
    return path


def test_a_whole_record(tmp_path):
    picture(tmp_path / "a b.png", kind="PNG")
    picture(tmp_path / "images" / "below" / "c.jpg")
    steps = [
        {"title": "One", "body": "Cut.", "images": ["a b.png", "below/c.jpg"], "videos": ["v.mp4"]},
        {"body": "Boil."},
        {"images": ["images/below/c.jpg"]},
    ]
    record = line("käse-1", steps=steps, ingredients=["1 egg"], licence="CC0", attribution="Jo", titel="x")
    source = Jsonl(folder(tmp_path, record))
    (recipe,) = source.recipes()
    assert recipe.steps == (
        SourceStep("Cut.", "One", ("käse-1_1_0.jpg", "käse-1_1_1.jpg"), ("v.mp4",)),
        SourceStep("Boil."),
        SourceStep("", "", ("käse-1_3_0.jpg",)),
    )
    assert (recipe.title, recipe.category, recipe.ingredients) == ("Käse-1", "soup", ("1 egg",))
    assert recipe.attribution == "Jo; CC0"
    assert source.image_path("käse-1_1_0.jpg") == tmp_path / "a b.png"
    assert (
        source.image_key("käse-1_1_1.jpg") == source.image_key("käse-1_3_0.jpg") != source.image_key("käse-1_1_0.jpg")
    )
    source.prepare_images(["käse-1_1_0.jpg", "käse-1_3_0.jpg"])
    told = source.provenance()
    assert told["counts"] == {"recipes with the key 'titel', which is not read": 1} and told["licences"] == {"CC0": 1}
    assert told["recipes"] == 1 and len(told["files"]["recipes.jsonl"]) == 64
    json.dumps(told)
    assert str(tmp_path) not in json.dumps(told), "no path of a machine goes into what is published"


def test_files_of_a_folder_are_one_set_whatever_their_order(tmp_path):
    records = [line(f"r{i}") for i in range(20)]
    wanted = list(Jsonl(folder(tmp_path, *records)).recipes())
    assert [r.recipe_id for r in wanted] == sorted(r.recipe_id for r in wanted)
    for seed in range(3):
        other = tmp_path / str(seed)
        other.mkdir()
        random.Random(seed).shuffle(records)
        folder(other, *records[:5], name="z.jsonl")
        folder(other, "\ufeff" + json.dumps(records[5]), "", *records[6:9], name="a.jsonl")
        text = "\r\n".join(map(json.dumps, records[9:]))
        (other / "m.jsonl.gz").write_bytes(gzip.compress(text.encode()))
        (other / "notes.txt").write_text("no recipes")
        assert list(Jsonl(other).recipes()) == wanted
    assert list(Jsonl(tmp_path / "recipes.jsonl").recipes()) == wanted


def test_a_recipe_without_an_id_gets_one_from_its_content(tmp_path):
    record = {key: value for key, value in line("Crème  Brûlée!").items() if key != "recipe_id"}
    first, second = Jsonl(folder(tmp_path, record, {**record, "category": "x"})).recipes()
    assert re.fullmatch(r"crème-brûlée-[0-9a-f]{12}", first.recipe_id) and first.recipe_id != second.recipe_id
    again = Jsonl(folder(tmp_path, line("other"), dict(reversed(record.items())), {**record, "category": "x"}))
    assert {first.recipe_id, second.recipe_id} < {r.recipe_id for r in again.recipes()}
    nameless = {"steps": [{"body": "煮"}], "title": "！"}
    assert next(Jsonl(folder(tmp_path, nameless)).recipes()).recipe_id.startswith("recipe-")


def test_repeated_lines_and_repeated_ids(tmp_path):
    same, other, third = line("a"), line("a", title="B"), line("a", title="C")
    source = Jsonl(folder(tmp_path, same, line("b"), same))
    assert [r.recipe_id for r in source.recipes()] == ["a", "b"]
    assert source.counts == {"recipes repeated word for word": 1}
    with pytest.raises(InputError, match=r"recipes.jsonl: line 2: has the recipe_id of the recipe at .*line 1; give"):
        list(Jsonl(folder(tmp_path, same, other)).recipes())
    results = set()
    for order in ([same, other, third, same], [third, same, same, other], [other, third, same, same]):
        source = Jsonl(folder(tmp_path, *order), on_bad_record="skip")
        results.add((next(source.recipes()).title, *sorted(source.counts.items())))
    assert len(results) == 1, "who stays and what is counted depends on the order of lines"
    assert dict(next(iter(results))[1:]) == {"bad recipes left out": 2, "recipes repeated word for word": 1}


BAD = {
    "[1, 2]": "is a list and must be an object",
    "{": "is no JSON",
    '{"steps": NaN}': "is no JSON",
    "[" * 100_000: "is nested too deeply",
    '{"title": "x"}': "has no key 'steps'",
    '{"steps": null}': "'steps' is null and must be a list",
    '{"steps": []}': "has no steps; add them",
    '{"steps": ["x"]}': "step 1: is a string and must be an object",
    '{"steps": [{}, {"body": 3}]}': "step 2: 'body' is a number and must be a string",
    '{"steps": [{"images": "a.jpg"}]}': "step 1: 'images' is a string and must be a list",
    '{"steps": [{"images": [""]}]}': "step 1: 'images' holds an empty string",
    '{"steps": [{"body": "\\ud800"}]}': "half a surrogate pair",
    '{"title": true, "steps": [{}]}': "'title' is a boolean",
    '{"recipe_id": "", "steps": [{}]}': "recipe_id '' must be",
    '{"recipe_id": "../x", "steps": [{}]}': "recipe_id '../x' must be",
    '{"recipe_id": "a/b", "steps": [{}]}': "recipe_id 'a/b' must be",
    '{"recipe_id": "a ", "steps": [{}]}': "recipe_id 'a ' must be",
    '{"recipe_id": 7, "steps": [{}]}': "'recipe_id' is a number",
    json.dumps({"recipe_id": "é" * 101, "steps": [{}]}): "1 to 200 bytes",
    json.dumps({"steps": [{}] * 1001}): "'steps' has 1,001 entries, more than 1,000",
    json.dumps({"steps": [{"images": ["a"] * 101}]}): "step 1: 'images' has 101 entries",
    json.dumps({"steps": [{"body": "x" * (5 << 20)}]}): "is longer than 4 MiB",
    '{"steps": [{"images": ["no.jpg"]}]}': "step 1: picture 'no.jpg' is not in the folder",
    '{"steps": [{"images": ["../a.jpg"]}]}': "picture '../a.jpg' is no path inside",
    '{"steps": [{"images": ["/etc/hosts"]}]}': "is no path inside",
    '{"steps": [{"images": ["a\\\\b.jpg"]}]}': "is no path inside",
    '{"steps": [{"images": ["a//b.jpg"]}]}': "is no path inside",
    '{"steps": [{"images": ["\\u0000.jpg"]}]}': "is no path inside",
    json.dumps({"steps": [{"images": ["x" * 5000]}]}): "is not in the folder",
    '{"steps": [{"images": ["link.jpg"]}]}': "is a link that leaves the folder",
    '{"steps": [{"images": ["text.jpg"]}]}': "picture 'text.jpg' cannot be opened",
    '{"steps": [{"images": ["empty.jpg"]}]}': "cannot be opened",
    '{"steps": [{"images": ["huge.png"]}]}': "has more than 50 million pixels",
}


@pytest.mark.parametrize("bad", BAD, ids=lambda text: text[:30])
def test_a_bad_line_is_named_or_skipped_and_counted(bad, tmp_path):
    root = tmp_path / "mine"
    root.mkdir()
    picture(tmp_path / "outside.jpg")
    (root / "link.jpg").symlink_to(tmp_path / "outside.jpg")
    (root / "text.jpg").write_text("no picture at all")
    (root / "empty.jpg").touch()
    if "huge" in bad:
        Image.new("1", (8000, 7000)).save(root / "huge.png")
    folder(root, line("good"), bad, line("last"))
    with pytest.raises(InputError) as error:
        list(Jsonl(root).recipes())
    message = str(error.value)
    assert f"{root / 'recipes.jsonl'}: line 2: " in message and BAD[bad] in message and "\n" not in message
    assert message.endswith("or set source.on_bad_record=skip to leave such recipes out") and len(message) < 400
    source = Jsonl(root, on_bad_record="skip")
    assert [r.recipe_id for r in source.recipes()] == ["good", "last"]
    assert source.provenance()["counts"] == {"bad recipes left out": 1} and BAD[bad] in source.skipped[0]


def test_a_folder_that_cannot_be_read(tmp_path):
    with pytest.raises(InputError, match=r"source\.root: give the folder"):
        Jsonl(None)
    with pytest.raises(InputError, match="no such folder"):
        Jsonl(tmp_path / "absent")
    with pytest.raises(InputError, match=r"has no recipes\.jsonl"):
        Jsonl(tmp_path)
    with pytest.raises(InputError, match="on_bad_record=ignore: is unknown; use one of raise, skip"):
        Jsonl(folder(tmp_path, line()), on_bad_record="ignore")
    with pytest.raises(InputError, match="holds no usable recipe"):
        list(Jsonl(folder(tmp_path, ""), on_bad_record="skip").recipes())
    (tmp_path / "recipes.jsonl").write_bytes(b'{"steps": "\xff"}\n')
    with pytest.raises(InputError, match="line 1: is no UTF-8"):
        list(Jsonl(tmp_path).recipes())
    (tmp_path / "recipes.jsonl").unlink()
    (tmp_path / "x.jsonl.gz").write_bytes(gzip.compress(json.dumps(line()).encode() * 50)[:-20])
    with pytest.raises(InputError, match="truncated or damaged gzip"):
        list(Jsonl(tmp_path).recipes())


def test_a_document_of_recipes(tmp_path):
    document = {"licence": "CC0", "attribution": "all of us", "recipes": [line("b", attribution="Jo"), line("a")]}
    (tmp_path / "recipes.json").write_text(json.dumps(document))
    assert [r.attribution for r in Jsonl(tmp_path).recipes()] == ["all of us; CC0", "Jo; CC0"]
    (tmp_path / "recipes.json").write_text(json.dumps({"recipes": [line("b"), 3]}))
    with pytest.raises(InputError, match=r"recipes.json: recipe 2: is a number"):
        list(Jsonl(tmp_path).recipes())
    for text in ("[]", "{", '{"recipes": 3}'):
        (tmp_path / "recipes.json").write_text(text)
        with pytest.raises(InputError, match=r"recipes\.json: (must be|is no JSON)"):
            list(Jsonl(tmp_path).recipes())


def test_pictures_that_are_gone_or_damaged_later(tmp_path):
    picture(tmp_path / "a.jpg")
    source = Jsonl(folder(tmp_path, line(steps=[{"images": ["a.jpg"]}])))
    list(source.recipes())
    (tmp_path / "a.jpg").write_bytes(b"x")
    with pytest.raises(InputError, match=r"a\.jpg: cannot be opened"):
        source.prepare_images(["soup_1_0.jpg"])
    (tmp_path / "a.jpg").unlink()
    for name in ("soup_1_0.jpg", "soup_1_1.jpg", "../a.jpg"):
        with pytest.raises(InputError, match="has no picture"):
            source.image_path(name)
    assert list(Jsonl(folder(tmp_path, line()), check_images=False).recipes())


@pytest.mark.parametrize(("name", "language", "recipes", "steps", "images"), [
    ("rpi_projects", "en", 17, 143, 288),
    ("howtocook", "zh", 9, 98, 68),
])  # fmt: skip
def test_real_how_tos(name, language, recipes, steps, images, shared):
    source = Jsonl(shared / "data" / name, first_step_is_narrative=name == "rpi_projects")
    read = list(source.recipes())
    names = [image for recipe in read for step in recipe.steps for image in step.images]
    assert (len(read), sum(len(r.steps) for r in read), len(names)) == (recipes, steps, images)
    own = [re.fullmatch(rf"{re.escape(r.recipe_id)}_{i}_\d+\.jpg", source.image_path(image).name)
           for r in read for i, step in enumerate(r.steps, 1) for image in step.images]  # fmt: skip
    assert all(own), "these files are named by recipe and step, as ours are"
    distinct = {source.image_key(image) for image in names}
    assert len(distinct) == {"rpi_projects": 278, "howtocook": 68}[name]
    narrative = source.first_step_is_narrative
    kept, counts = clean(read, CleaningSettings(language=language, first_step_is_narrative=narrative))
    assert len(kept) == recipes and counts["steps left out: narrative first step"] == (17 if narrative else 0)
    questions, _ = build_questions(kept, TASKS[1:], content_key=source.image_key)
    made = [record for records in questions.values() for record in records]
    assert {record["task"] for record in made} == set(TASKS[1:]) and len(made) >= 2 * recipes
    shown = {
        name
        for record in made
        for choice in record["choice_list"]
        for name in ([choice] if isinstance(choice, str) else choice)
    }
    first = {name for name in shown if name.rsplit("_", 2)[1] == "1"}
    assert not first if narrative else first, "images of the dropped first step are not asked for"


# ---- the page --------------------------------------------------------------------------------------------------------


def block(name):
    """A code block of the page by the comment in front of it."""
    return re.search(rf"<!-- {re.escape(name)} -->\n```\w+\n(.*?)```", DOCS.read_text(), re.DOTALL)[1]


def test_the_ten_recipes_of_the_page_become_questions_of_every_task_and_split(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "recipes.jsonl").write_text(block("recipes.jsonl"), encoding="utf-8")
    exec(compile(block("draw.py"), "draw.py", "exec"), {})
    source = Jsonl("mine")
    recipes, counts = clean(source.recipes())
    assert len(recipes) == 10 == counts["recipes kept"] and not source.counts
    questions, report = build_questions(
        recipes, TASKS, text_field="title", same_split=False, content_key=source.image_key
    )
    assert report["recipes"] == {"train": 6, "val": 2, "test": 2}, "as the page says"
    for path in write_questions(questions, tmp_path / "out").values():
        read, _ = read_questions(path)
        assert {q.task for q in read} == set(TASKS)
        source.prepare_images({name for q in read if q.task != "textual_cloze" for c in q.choices for name in c})


def test_the_example_and_the_tables_of_the_page_hold(tmp_path):
    example = json.loads(re.search(r"```\n(\{\"recipe_id\".*?)```", DOCS.read_text(), re.DOTALL)[1])
    assert set(example) | {"license"} == set(sources._RECIPE_KEYS)
    assert {key for step in example["steps"] for key in step} == set(sources._STEP_KEYS)
    for name in ("lemon-toast-1.jpg", "a.jpg", "b.png"):
        picture(tmp_path / name)
    source = Jsonl(folder(tmp_path, example))
    assert list(source.recipes()) and not source.counts
    for key, value in re.findall(r"`(\w+)=([\w.]+)`", DOCS.read_text().partition("## What the cleaning")[2]):
        if key in CleaningSettings.__annotations__ and value not in ("true", "null", "zh"):
            assert str(getattr(CleaningSettings(), key)).lower() == value, key


# ---- the embedded cookbook -------------------------------------------------------------------------------------------


def test_wikibooks_draws_what_it_names(tmp_path):
    source = Wikibooks(tmp_path, max_recipes=12)
    recipes = list(source.recipes())
    assert len(recipes) == 12 and [r.recipe_id for r in recipes] == sorted(r.recipe_id for r in recipes)
    assert {r.recipe_id for r in recipes} < {r.recipe_id for r in Wikibooks(tmp_path, max_recipes=20).recipes()}
    names = [image for recipe in recipes for step in recipe.steps for image in step.images]
    assert len(names) == sum(len(recipe.steps) for recipe in recipes)
    source.prepare_images(names[:2])
    assert len(list(tmp_path.rglob("*.jpg"))) == 2
    with Image.open(source.image_path(names[-1])) as image:
        assert image.size == (224, 224)
    assert source.image_key(names[0]) == source.image_key(names[0])
    for name in ("x_1_0.jpg", "../x_1_0.jpg"):
        with pytest.raises(InputError, match="no step has the picture"):
            source.image_path(name)
    assert "CC BY-SA 4.0" in source.provenance()["notice"] and source.provenance()["recipes"] == 12
    with pytest.raises(InputError, match="max_recipes=0"):
        Wikibooks(tmp_path, max_recipes=0)


# ---- Recipe1M --------------------------------------------------------------------------------------------------------


def test_instructions_of_recipe1m_are_step_bodies(shared, tmp_path):
    source = Recipe1M(shared / "data" / "recipe1m" / "basedcooking", tmp_path, categories="bigrams")
    recipes = list(source.recipes())
    assert len(recipes) == 345
    raw = {r["id"]: r for r in json.loads((source.root / "layer1.json").read_text())}
    for recipe in recipes:
        own = raw[recipe.recipe_id]
        assert recipe.steps == tuple(SourceStep(text["text"]) for text in own["instructions"])
        assert recipe.title == own["title"] and own["url"] in recipe.attribution
    few = Recipe1M(source.root, tmp_path, max_recipes=40)
    assert {r.recipe_id for r in few.recipes()} < set(raw) and few.provenance()["recipes"] == 40
    assert set(few.provenance()["files"]) == {"layer1.json", "layer2.json"}
    with pytest.raises(InputError, match=r"tasks=\[textual_cloze\]"):
        source.image_path("x.jpg")


def test_bad_recipe1m_folders(tmp_path):
    with pytest.raises(InputError, match=r"source\.root: give the folder of layer1"):
        Recipe1M(None)
    with pytest.raises(InputError, match=r"has no layer1\.json"):
        list(Recipe1M(tmp_path).recipes())
    with pytest.raises(InputError, match="categories=all: is unknown"):
        Recipe1M(tmp_path, categories="all")


# ---- released questions ----------------------------------------------------------------------------------------------

TITLES = ("Bread", "Peel", "Butter", "Toast", "Enjoy")
IMAGES = tuple(tuple(f"toast_{i}_{k}.jpg" for k in range(i % 3)) for i in range(1, 6))  # step 3 has none
CONTEXT = tuple(f"Body {i}." for i in range(5))


def released(task, places=(0, 1, 3, 4), qid=None, **changes):
    """A question about the made-up recipe, as the release states it."""
    number = {"textual_cloze": 1, "visual_cloze": 2, "visual_coherence": 3, "visual_ordering": 4}[task]
    textual = task == "textual_cloze"
    bodies = changes.pop("bodies", CONTEXT)
    titles = changes.pop("titles", TITLES)
    context = tuple(
        Step(body, images=images) if textual else Step(body, title=title)
        for body, title, images in zip(bodies, titles, changes.pop("images", IMAGES), strict=False)
    )
    own = tuple(titles[i] if textual else f"toast_{i + 1}_0.jpg" for i in places)
    if task == "visual_ordering":
        question, answer = ("sentence",), 1
        choices = (own[::-1], own, own[1:] + own[:1], own[2:] + own[:2])
    elif task == "visual_coherence":
        question, answer = (*own[:2], "other_0_0.jpg", own[3]), 2
        choices = tuple((name,) for name in question)
    else:
        wrong = "Wrong" if textual else "wrong_0_0.jpg"
        question, answer = (own[0], PLACEHOLDER, *own[2:]), 3
        choices = (*((wrong.replace("_", f"{i}_", 1),) for i in range(3)), (own[1],))
    qid = qid or f"{number}000-77-" + "-".join(map(str, places))
    return Question(qid, "toast", task, "val", context, question, choices, answer)


def joined(tmp_path, *questions, **values):
    write_released(tmp_path / "val.json", questions)
    source = Released(tmp_path, **values)
    (recipe,) = source.recipes()
    return source, recipe


def counted(source, start):
    return {key.partition(": ")[2]: n for key, n in source.counts.items() if key.startswith(start) and n}


def test_titles_and_images_of_all_tasks_meet(tmp_path):
    source, recipe = joined(tmp_path, released("textual_cloze"), released("visual_cloze"))
    assert recipe.steps == tuple(SourceStep(*parts) for parts in zip(CONTEXT, TITLES, IMAGES, strict=True))
    assert (recipe.title, recipe.category, source.first_step_is_narrative) == ("toast", "", False)
    assert source.origins["toast"]["records"] == {"textual_cloze": 1, "visual_cloze": 1}
    assert source.origins["toast"]["steps"][0] == {"title": "context", "images": "context"}
    assert not counted(source, "contradictions") and source.counts["steps with an image"] == 4


def test_textual_records_alone_give_the_titles_that_they_show_where_the_qid_says(tmp_path):
    source, recipe = joined(tmp_path, released("textual_cloze"))
    assert [step.title for step in recipe.steps] == ["Bread", "Peel", "", "Toast", "Enjoy"]
    assert [step.images for step in recipe.steps] == list(IMAGES)
    assert counted(source, "step titles from") == {"question": 4, "none": 1}
    _, recipe = joined(tmp_path, released("textual_cloze"), released("textual_cloze", (1, 2, 3, 4)))
    assert [step.title for step in recipe.steps] == list(TITLES)


@pytest.mark.parametrize("task", TASKS[1:])
def test_visual_records_alone_give_the_images_of_the_recipe_and_no_intruder(task, tmp_path):
    source, recipe = joined(tmp_path, released(task))
    wanted = {0: ("toast_1_0.jpg",), 1: ("toast_2_0.jpg",), 3: ("toast_4_0.jpg",), 4: ("toast_5_0.jpg",)}
    if task == "visual_coherence":
        del wanted[3]  # where the intruder stands
    assert {i: step.images for i, step in enumerate(recipe.steps) if step.images} == wanted
    assert [step.title for step in recipe.steps] == list(TITLES)
    assert source.origins["toast"]["steps"][0]["images"] == "questions"


def test_contradictions_are_counted_and_most_records_win_in_any_order(tmp_path):
    other = ("Body 0!", *CONTEXT[1:])
    records = [
        released("visual_cloze", (0, 1, 2, 3), bodies=other),
        released("visual_ordering", (0, 1, 2, 3)),
        released("visual_ordering", (0, 1, 2, 4), titles=("Loaf", *TITLES[1:])),
        released("textual_cloze", (0, 1, 2, 3), images=(("toast_1_3.jpg",), *IMAGES[1:])),
        released("textual_cloze", (0, 1, 2, 4), bodies=(*CONTEXT[:4], "Body 4.", "Body 5."), titles=(*TITLES, "More"),
                 images=(*IMAGES, ())),
    ]  # fmt: skip
    seen = set()
    for seed in range(4):
        random.Random(seed).shuffle(records)
        source, recipe = joined(tmp_path, *records)
        seen.add((recipe, *sorted(source.counts.items())))
    assert len(seen) == 1, "the order of the records shows"
    assert len(recipe.steps) == 5 and recipe.steps[0].body == "Body 0." and recipe.steps[0].title == "Bread"
    assert counted(source, "contradictions") == {
        "number of steps": 1,
        "bodies": 1,
        "titles": 1,
        "image lists": 1,
        "an image of a visual record is not in the step's list": 1,  # step 3 has no image in its list
    }


def test_a_qid_or_image_that_fits_no_step_is_counted_and_places_nothing(tmp_path):
    odd = [released("textual_cloze", qid=qid) for qid in ("7", "1000-77-0-1-3-9", "1000-77-1-0-3-4")]
    source, recipe = joined(tmp_path, *odd)
    assert not any(step.title for step in recipe.steps)
    assert source.counts["records whose qid names no four steps of the recipe"] == 3
    shifted = released("visual_cloze", qid="2000-77-1-2-3-4")
    source, recipe = joined(tmp_path, shifted)
    assert counted(source, "contradictions") == {"an image of a visual record is named for another step": 2}
    assert [len(step.images) for step in recipe.steps] == [0, 0, 0, 1, 1]


def test_the_open_validation_questions_give_603_recipes_without_contradiction(shared):
    root = shared / "data" / "recipeqa"
    source = Released(root / "val_open.json.gz", ingredients=root / "recipeqa_ingredients_new.json")
    recipes = list(source.recipes())
    assert len(recipes) == 603 and not counted(source, "contradictions")
    counts = source.provenance()["counts"]
    assert counts["steps"] == 3910 and counts["records read"] == 2163
    assert [counts[f"steps with {what}"] for what in ("a body", "a title", "an image")] == [3855, 3785, 3487]
    assert counted(source, "step titles from") == {"context": 3555, "question": 238, "none": 117}
    assert counted(source, "step images from") == {"context": 2683, "questions": 936, "none": 291}
    assert all(recipe.ingredients for recipe in recipes)
    # What the files hold of a recipe is in it again, place by place.
    by_id = {recipe.recipe_id: recipe for recipe in recipes}
    for question in read_questions(root / "val_open.json.gz")[0]:
        for step, own in zip(question.context, by_id[question.recipe_id].steps, strict=True):
            assert step.body == own.body
            assert step.title is None or step.title == own.title
            assert step.images is None or step.images == own.images


def test_bad_files_of_released_questions(shared, tmp_path):
    with pytest.raises(InputError, match=r"source\.root: give a RecipeQA file"):
        Released(None)
    with pytest.raises(InputError, match="no such file or folder"):
        Released(tmp_path / "absent")
    with pytest.raises(InputError, match=r"has no \.json"):
        Released(tmp_path)
    source, _ = joined(tmp_path, released("visual_cloze"))
    with pytest.raises(InputError, match=r"set source\.images"):
        source.image_path("toast_1_0.jpg")
    assert source.image_key("toast_1_0.jpg") == "toast_1_0.jpg"
    (tmp_path / "i.json").write_text('{"toast": "egg"}')
    with pytest.raises(InputError, match=r"must hold \{recipe id"):
        joined(tmp_path, released("visual_cloze"), ingredients=tmp_path / "i.json")
    photos = Released(
        shared / "data" / "recipeqa" / "val_open.json.gz", shared / "data" / "recipeqa" / "images_prn_site"
    )
    name = "minnesota-cookies_2_0.jpg"
    photos.prepare_images([name])
    assert photos.image_path(name).is_file() and len(str(photos.image_key(name))) == 64
    with pytest.raises(InputError, match="has no image"):
        photos.image_path("toast_1_0.jpg")


def test_bad_records_of_a_release_are_skipped_and_counted(tmp_path):
    write_released(tmp_path / "val.json", [released("visual_cloze"), released("textual_cloze")])
    document = json.loads((tmp_path / "val.json").read_text())
    document["data"][1]["answer"] = 9
    (tmp_path / "val.json").write_text(json.dumps(document))
    with pytest.raises(InputError, match="answer is 9"):
        list(Released(tmp_path).recipes())
    source = Released(tmp_path, on_bad_record="skip")
    assert len(list(source.recipes())) == 1 and source.counts["bad records left out"] == 1
