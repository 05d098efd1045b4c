"""Recipes as words: what a batch holds, where vectors come from, and whole runs of the networks that read them."""

import json

import numpy as np
import pytest

from data.encoding import encode
from data.errors import InputError
from data.recipeqa import read_questions
from data.records import TASKS, Question, Step
from data.text import Doc2VecEncoder, Doc2VecSettings
from data.words import BEGIN, END, WordSettings, WordVectors, encode_words, fit_vectors, read_vectors
from tests.made_up import image_names, made_up_questions, write_file, write_images
from tests.runs import composed, run, small_files

KNOWN = WordVectors(["butter", "oil", "olive", "slice", "the"], np.arange(15, dtype=np.float32).reshape(5, 3) + 1)


def tokens(text):
    return text.lower().replace("olive oil", "olive_oil").split()


def question(bodies, recipe="r", titles=None):
    steps = tuple(Step(body, title) for body, title in zip(bodies, titles or [None] * len(bodies), strict=True))
    return Question("q", recipe, "visual_cloze", "val", steps, ("a", "b", "c", "d"), (("a",),) * 4, 0)


MANY = [
    question(["Slice the butter", "", "Heat olive oil"], "a"),
    question(["", " "], "b"),
    question(["Slice the butter", "", "Heat olive oil"], "a"),
    question(["the"], "c"),
    question(["one two three four", "five six"], "d"),
]
ENTITIES = {
    "a": [["butter"], ["olive", "oil"], ["butter"], []],
    "b": [["dark", "brown", "sugar"]],
    "c": [],
    "x": [["no"]],
}


def spell(row):
    return bytes(int(c) - 1 for c in row if c not in (0, BEGIN, END)).decode()


@pytest.mark.parametrize("rows", [[0, 1, 2, 3, 4], [3], [1], [4, 0], [2, 1, 2]])
def test_a_batch_holds_the_words_of_the_recipes(rows):
    """Every word of every question, looked up the slow way."""
    encoded = encode_words(MANY, WordSettings(max_words=5), tokens, KNOWN, ENTITIES)
    batch = encoded.batch(np.asarray(rows))
    read = [spell(row) for row in batch["character"].tolist()]
    assert len(set(read)) == len(read) and read[0] == "" and not batch["word"][0].any()
    for word, vector in zip(read, batch["word"].numpy(), strict=True):
        assert np.array_equal(vector, KNOWN.of([word])[0])
    assert batch["recipe"].shape == batch["recipe_mask"].shape and batch["entities"].shape == batch["entity_mask"].shape
    for b, row in enumerate(rows):
        steps, left = [], 5
        for step in MANY[row].context:
            part = tokens(step.body)[:left]
            left -= len(part)
            steps += [part] if part else []
        words = [word for part in steps for word in part]
        mask = batch["recipe_mask"][b]
        assert [read[i] for i in batch["recipe"][b][mask].tolist()] == (words or [""])
        assert mask[: max(len(words), 1)].all() and not batch["recipe"][b][~mask].any()
        length, start = batch["step_length"][b].tolist(), batch["step_start"][b].tolist()
        assert length == [len(part) for part in steps] + [0] * (len(length) - len(steps))
        assert [words[s : s + n] for s, n in zip(start, length, strict=True) if n] == steps
        names = list(dict.fromkeys("_".join(name) for name in ENTITIES.get(MANY[row].recipe_id, []) if name))
        assert [read[i] for i in batch["entities"][b][batch["entity_mask"][b]].tolist()] == (names or [""])
        assert encoded.lengths[row] == max(len(words), 1)
    assert len(encoded.recipes) - 1 == 4  # two questions on the same steps share them


def test_limits_and_titles():
    settings = WordSettings(text="title_and_body", max_entities=2, max_characters=3)
    names = {"a": [[name] for name in ("salt", "égg", "rye")]}
    batch = encode_words([question(["butter", ""], "a", ["The", ""])], settings, tokens, KNOWN, names).batch(
        np.array([0])
    )
    read = [spell(row) for row in batch["character"].tolist()]
    assert [read[i] for i in batch["recipe"][0].tolist()] == ["the", "but"]
    assert [read[i] for i in batch["entities"][0].tolist()] == ["sal", "ég"]  # of bytes: é has two


def test_vectors_of_compounds_and_unknown_words():
    found = KNOWN.of(["oil", "olive_oil", "extra_virgin_olive_oil", "rye", "rye_bread"])
    assert np.array_equal(found[0], KNOWN.array[1])
    assert np.array_equal(found[1], KNOWN.array[[1, 2]].mean(0)) and np.array_equal(found[2], found[1])
    assert not found[3:].any()
    again = WordVectors.from_state_dict(KNOWN.state_dict())
    assert again.digest() == KNOWN.digest() != WordVectors(KNOWN.words, KNOWN.array + 1).digest()


def test_a_file_of_vectors(tmp_path):
    path = tmp_path / "glove.txt"
    path.write_text("4 2\nthe 1 2\nbutter 0.5 -1e-3\nthe 9 9\nunused 1 1\n")
    found = read_vectors(path, {"the", "butter", "rye"})
    assert found.words == ["butter", "the"]
    assert np.array_equal(found.array, np.asarray([[0.5, -1e-3], [1, 2]], np.float32))
    encoder = Doc2VecEncoder.fit(["the butter", "butter the"], Doc2VecSettings(min_count=1, epochs=1, vector_size=4))
    assert fit_vectors(WordSettings(), encoder, []).array is encoder.word_vectors
    assert fit_vectors(WordSettings(str(path)), encoder, ["The butter."]).words == ["butter", "the"]
    assert fit_vectors(WordSettings(str(path)), encoder, ["the"]).words == ["the"]  # never more than training met
    for text, wanted, message in (
        ("the 1 2\nbutter 1\n", {"the"}, "line 2 has 1 numbers"),
        ("the 1 x\n", {"the"}, "line 1 holds what is no number"),
        ("the 1 2\n", {"rye"}, "none of the 1 words"),
        ("", {"rye"}, "none of the 1 words"),
        (None, {"rye"}, "cannot be read"),
    ):
        path.unlink(missing_ok=True)
        if text is not None:
            path.write_text(text)
        with pytest.raises(InputError, match=rf"^[^\n]*{message}[^\n]*$"):
            read_vectors(path, wanted)


@pytest.mark.parametrize("wrong", [{"text": "all"}, {"max_words": 0}, {"max_entities": 0}], ids=str)
def test_wrong_settings_take_one_line(wrong):
    with pytest.raises(InputError, match=r"^data\.words[^\n]+$"):
        WordSettings(**wrong)


def test_the_hook_adds_words_to_a_batch_and_sorts_by_them(tmp_path):
    path = tmp_path / "q.json"
    write_file(path, made_up_questions("visual_cloze", 6))
    questions, _ = read_questions(path)

    def rows(keys):
        return np.arange(len(keys))

    encoded = encode(questions, rows, rows, np.zeros((999, 3)), np.zeros((999, 3)), np.zeros(3))
    plain = encoded.batch([2, 0])
    encoded.words = encode_words(questions, WordSettings(), tokens, KNOWN, {})
    both = encoded.batch([2, 0])
    assert both.keys() - plain.keys() == encoded.words.batch(np.array([2, 0])).keys()
    assert encoded.lengths.tolist() == [sum(len(tokens(step.body)) for step in q.context) for q in questions]


@pytest.mark.parametrize(
    ("name", "memory", "task"),
    [
        ("prn", "relational", "visual_cloze"),
        ("bidaf", "none", "multi_task"),
        ("bidaf_static_memory", "static", "multi_task"),
    ],
)
def test_rows_of_the_paper(name, memory, task):
    """One of each kind; tests/test_configs.py composes all."""
    cfg = composed("train", [f"experiment=recipeqa/{name}_{task}"])
    assert cfg.model.name == name and cfg.model.net.memory == memory
    assert tuple(cfg.data.tasks) == (TASKS[1:] if task == "multi_task" else (task,))
    assert cfg.model.loss.margin == 0.1 and cfg.model.optimizer.lr == 1e-4 and cfg.data.batch_size == 32
    assert cfg.trainer.gradient_clip_val == 5.0 and cfg.callbacks.best.monitor == "val/loss"
    assert cfg.callbacks.early_stopping.patience == 10 and cfg.reducer is None
    assert cfg.data.words._target_ == "data.words.WordSettings"


def test_a_reducer_on_the_command_line_wins_over_the_networks():
    assert composed("train", ["data=wikibooks/visual", "model=prn", "reducer=pca"]).data.reducer.size == 100


# ---- whole runs ------------------------------------------------------------------------------------------------------

SMALL = [
    "text.epochs=2", "text.infer_epochs=2", "text.min_count=1", "text.vector_size=6",
    "model.net.hidden_size=6", "model.net.character_filters=6", "model.net.layers=1",
    "model.net.output_sizes=[16,8]", "model.net.image_sizes=[16,8]", "data.batch_size=8",
    "trainer.max_epochs=2", "trainer.accelerator=cpu", "sanity=false", "logger=[]",
    "trainer.enable_progress_bar=false", "features=efficientnet_lite0", "features.crop=64", "features.resize=64",
]  # fmt: skip


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Made-up files of all visual tasks, their pictures and ingredients; no weights are downloaded."""
    folder = tmp_path_factory.mktemp("words")
    small_files(folder, "visual_cloze", 20)
    names, recipes = [], {}
    for seed, split in enumerate(("train", "val", "test")):
        records = [
            r for task in TASKS[1:] for r in made_up_questions(task, 16 if seed == 0 else 6, seed=seed, split=split)
        ]
        write_file(folder / f"{split}.json", records)
        names += image_names(records)
        recipes |= {
            r["recipe_id"]: ["butter", "olive oil", "dark_brown sugar"][: 1 + i % 3] for i, r in enumerate(records)
        }
    write_images(folder / "images-qa" / "train" / "images-qa", names)
    (folder / "ingredients.json").write_text(json.dumps(recipes))
    return folder


def given(folder, data="recipeqa/visual", cache=None):
    paths = [f"data.{split}_file={folder}/{split}.json" for split in ("train", "val", "test")]
    where = [f"data.images={folder}", f"data.ingredients={folder}/ingredients.json", f"cache={cache or folder}/cache"]
    return [f"data={data}", *paths, *where]


def scores(folder):
    return {r["qid"]: r["scores"] for r in map(json.loads, (folder / "predictions.jsonl").read_text().splitlines())}


@pytest.mark.slow
def test_a_run_with_a_file_of_vectors_scores_again_without_it(files, tmp_path):
    """All three tasks in one network; the checkpoint carries the vectors and scores each question the same alone."""
    vectors = tmp_path / "glove.txt"
    words = ["slice", "butter", "the", "olive", "oil", "bowl", "minutes"]
    rng = np.random.default_rng(0)
    vectors.write_text("".join(f"{w} {' '.join(f'{x:.4f}' for x in rng.normal(size=6))}\n" for w in words))
    run("train", tmp_path / "run", [*given(files), "model=prn", *SMALL, f"data.words.vectors={vectors}"])
    trained = scores(tmp_path / "run")
    assert len(trained) == 18  # of all three tasks
    vectors.unlink()
    best = f"ckpt_path={tmp_path}/run/checkpoints/best.ckpt"
    records = json.loads((files / "test.json").read_text())["data"]
    for i in (0, 8, 17):
        write_file(tmp_path / "one.json", [records[i]])
        overrides = [*given(files)[1:], best, f"data.test_file={tmp_path}/one.json", "logger=[]", "sanity=false"]
        run("evaluate", tmp_path / f"one_{i}", overrides)
        (alone,) = scores(tmp_path / f"one_{i}").values()
        assert np.allclose(alone, trained[records[i]["qid"]], atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("model", ["prn", "bidaf"])
def test_names_of_images_recipes_and_questions_change_no_score(model, files, tmp_path):
    """The leaks of this data set: image names, their order and the qid must reach nothing. One seed gives one run."""
    import hashlib
    import shutil

    def renamed(name):
        stem = hashlib.sha256(name.encode()).hexdigest()[:12]
        return f"x{stem}_{int(stem[:4], 16)}_{int(stem[4:8], 16)}.jpg"

    other = tmp_path / "b"
    pictures = "images-qa/train/images-qa"
    (other / pictures).mkdir(parents=True)
    for path in (files / pictures).iterdir():
        shutil.copy(path, other / pictures / renamed(path.name))

    def walk(value):
        if isinstance(value, list):
            return [walk(v) for v in value]
        return renamed(value) if isinstance(value, str) and value.endswith(".jpg") else value

    new_names = {}
    for split in ("train", "val", "test"):
        records = json.loads((files / f"{split}.json").read_text())["data"]
        for i, record in enumerate(records):
            record["qid"] = f"{record['qid'].split('-')[0]}-{90_000 + i}-0-1-2-3"
            new_names[record["recipe_id"]] = "z" + hashlib.sha256(record["recipe_id"].encode()).hexdigest()[:8]
            record["recipe_id"] = new_names[record["recipe_id"]]
        write_file(other / f"{split}.json", [{k: walk(v) for k, v in r.items()} for r in records])
    lists = json.loads((files / "ingredients.json").read_text())
    (other / "ingredients.json").write_text(json.dumps({new_names.get(k, k): v for k, v in lists.items()}))
    task = "recipeqa/visual_ordering"
    run("train", tmp_path / "run_a", [*given(files, task), f"model={model}", *SMALL])
    run("train", tmp_path / "run_b", [*given(other, task), f"model={model}", *SMALL])
    a, b = (np.asarray(list(scores(tmp_path / f"run_{x}").values())) for x in "ab")
    assert a.std() > 0 and np.allclose(a, b, atol=1e-5)
    run("train", tmp_path / "run_c", [*given(files, task), f"model={model}", *SMALL])
    assert np.array_equal(a, np.asarray(list(scores(tmp_path / "run_c").values())))
    # The checkpoint scores the file again, and one question alone, with the word vectors of its text encoder.
    best = [f"ckpt_path={tmp_path}/run_c/checkpoints/best.ckpt", "logger=[]", "sanity=false"]
    run("evaluate", tmp_path / "again", [*given(files, task)[1:], *best])
    assert np.allclose(a, np.asarray(list(scores(tmp_path / "again").values())), atol=1e-6)
    record = next(r for r in json.loads((files / "test.json").read_text())["data"] if r["task"] == task.split("/")[1])
    (tmp_path / "one.json").write_text(json.dumps(record))
    run("evaluate", tmp_path / "asked", [*given(files, task)[4:], *best, f"question={tmp_path}/one.json"])
    asked = json.loads((tmp_path / "asked" / "answer.json").read_text())
    assert np.allclose(asked["scores"], scores(tmp_path / "again")[record["qid"]], atol=1e-6)


def test_text_only_data_are_refused_in_one_line(tmp_path):
    with pytest.raises(Exception) as error:
        run("train", tmp_path / "run", [*small_files(tmp_path, n=8), "model=bidaf", *SMALL[:4]])
    found = error.value
    while not isinstance(found, InputError):  # Hydra puts an error of its own around it, the commands take that off
        assert found.__cause__ is not None, found
        found = found.__cause__
    assert "visual tasks only" in str(found) and "\n" not in str(found)
