"""Retrieval from files to sheets, on made-up recipes whose pictures show their ingredients."""

import json
from pathlib import Path

import numpy as np
import pytest

from data.errors import InputError
from engine.embeddings import read_embeddings
from tests.made_up_recipes import write_recipe1m
from tests.runs import composed, run

# A network and word vectors small enough for tests; image vectors of small pictures.
TINY = [
    "data=recipe1m",
    "model=im2recipe",
    "features.resize=64",
    "features.crop=64",
    "data.image_input=features",
    "text.min_count=1",
    "text.vector_size=16",
    "text.epochs=2",
    "model.net.embedding_size=32",
    "model.net.ingredient_hidden=16",
    "model.net.instruction_hidden=16",
    "model.net.sentence_hidden=16",
    "data.batch_size=16",
    "trainer.max_epochs=2",
    "trainer.accelerator=cpu",
    "trainer.enable_progress_bar=false",
    "logger=[]",
]


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("recipe1m")
    write_recipe1m(folder, {"train": 48, "val": 12, "test": 13})
    return folder


@pytest.fixture(scope="module")
def files(root) -> list[str]:
    return [f"data.root={root}", f"cache={root / 'cache'}"]


@pytest.fixture(scope="module")
def trained(root, files) -> Path:
    run("train", root / "run", [*TINY, *files])
    return root / "run"


def test_a_run_leaves_everything_behind(trained):
    names = {path.name for path in trained.iterdir()}
    wanted = (
        "metrics.json results.md ranks.csv embeddings_test.npz retrieval.html retrieval.png curves.png history.jsonl"
    )
    assert set(wanted.split()) <= names
    metrics = json.loads((trained / "metrics.json").read_text())
    assert {"image_to_recipe/medR", "recipe_to_image/R10"} <= metrics.keys()
    stored = read_embeddings(trained / "embeddings_test.npz")
    assert stored.image.shape == stored.recipe.shape == (13, 32)
    np.testing.assert_allclose(np.linalg.norm(stored.image, axis=1), 1, atol=1e-5)


def test_evaluate_repeats_the_numbers_and_reuses_the_embeddings(trained, files, capsys):
    medr = run("evaluate", trained / "again", [f"ckpt_path={trained / 'checkpoints' / 'best.ckpt'}", *files])
    assert "embeddings of" in capsys.readouterr().out
    assert medr == json.loads((trained / "metrics.json").read_text())["image_to_recipe/medR"]
    assert not (trained / "again" / "embeddings_test.npz").exists()


def test_evaluate_on_validation_makes_its_own_embeddings(trained, files):
    overrides = [f"ckpt_path={trained / 'checkpoints' / 'best.ckpt'}", "split=val", *files]
    run("evaluate", trained / "val", overrides)
    assert len(read_embeddings(trained / "val" / "embeddings_val.npz").ids) == 12


def test_a_photo_and_a_recipe_find_their_neighbours(trained, root, files, tmp_path, capsys):
    checkpoint = f"ckpt_path={trained / 'checkpoints' / 'best.ckpt'}"
    photo = sorted((root / "images" / "test").rglob("*.jpg"))[0]
    run("evaluate", tmp_path / "photo", [checkpoint, f"query={photo}", "k=3", *files])
    assert (tmp_path / "photo" / "query.html").is_file() and (tmp_path / "photo" / "query.png").is_file()
    recipe = tmp_path / "mine.json"
    recipe.write_text(json.dumps({"title": "Soup", "ingredients": ["2 eggs"], "instructions": ["Boil the egg."]}))
    run("evaluate", tmp_path / "recipe", [checkpoint, f"query={recipe}", "index=faiss", *files])
    assert (tmp_path / "recipe" / "query.png").is_file()
    assert "rank" in capsys.readouterr().out


def test_a_query_that_is_in_the_gallery_is_embedded_as_the_gallery_was(trained, root, files):
    """The photo of a test pair, given as a file, gets the vector that the split's embeddings hold."""
    from engine.build import build_data, build_model, load_weights
    from engine.checkpoints import load_checkpoint
    from engine.retrieval import embed_photo, embed_recipe

    checkpoint = load_checkpoint(trained / "checkpoints" / "best.ckpt")
    cfg = composed("evaluate", [*TINY, *files])
    data = build_data(cfg, checkpoint["RetrievalData"])
    data.prepare(["test"])
    model = build_model(cfg, data)
    load_weights(model, checkpoint, "best.ckpt")
    stored, table = read_embeddings(trained / "embeddings_test.npz"), data.open()
    for i in (0, 5):
        record = table[int(data.pairs["test"].rows[i])]
        found = embed_photo(model, data, data.pairs["test"].resolve(record.images[0]))
        np.testing.assert_allclose(found, stored.image[i], atol=2e-5)
        path = trained / f"query_{i}.json"
        lines = {"title": record.title, "ingredients": record.ingredients, "instructions": record.instructions}
        path.write_text(json.dumps(lines))
        if all(record.valid):
            np.testing.assert_allclose(embed_recipe(model, data, path)[0], stored.recipe[i], atol=2e-5)


def test_own_embeddings_are_scored_by_one_command(trained, tmp_path, capsys):
    run("evaluate", tmp_path, [f"embeddings={trained / 'embeddings_test.npz'}"])
    assert (
        json.loads((tmp_path / "metrics.json").read_text())["image_to_recipe/medR"]
        == (json.loads((trained / "metrics.json").read_text())["image_to_recipe/medR"])
    )
    assert "Salvador" not in capsys.readouterr().out


def test_published_rows_need_the_official_pairs(trained):
    assert "JE+SR" not in (trained / "results.md").read_text()


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["loss@model.loss.ranking=pairwise_cosine"], r"data\.mismatch=0\.8"),
        (["data.folds=3", "data.fold=3"], "numbered from 0"),
        (["data.limit=1"], "limit=1"),
        (["data.image_input=drawings"], "choose pixels or features or auto"),
        (["data.sentences=precomputed"], r"data\.source\.lmdb"),
        (["data.lists=nowhere"], "nowhere"),
        (["model.optimizer.lr=-1"], r"model\.optimizer"),
        (["model.net.use_ingredients=false", "model.net.use_instructions=false"], "nothing of the recipe"),
    ],
)
def test_wrong_settings_cost_one_line(files, tmp_path, overrides, message):
    with pytest.raises(Exception, match=message) as caught:
        run("train", tmp_path, [*TINY, *files, *overrides])
    cause = caught.value
    while cause is not None and not isinstance(cause, InputError):
        cause = cause.__cause__
    assert isinstance(cause, InputError) and "\n" not in str(cause)


def test_a_model_of_the_other_problem_is_refused(files, tmp_path):
    with pytest.raises(InputError, match="use model=im2recipe"):
        run("train", tmp_path, ["data=recipe1m", "model=impatient_reader", *files])
    with pytest.raises(InputError, match="use model=impatient_reader"):
        run("train", tmp_path, ["data=wikibooks/textual_cloze", "model=im2recipe"])


def test_without_files_it_says_how_to_get_them(tmp_path):
    with pytest.raises(InputError, match=r"layer1\.json.*request"):
        run("train", tmp_path, ["data=recipe1m", "model=im2recipe"])


@pytest.mark.parametrize("overrides", [["model.net.use_instructions=false"], ["model.net.use_title=true"]])
def test_ablations_train(files, tmp_path, overrides):
    run("train", tmp_path, [*TINY, *files, *overrides, "trainer.max_epochs=1", "sanity=false"])


def test_resume_equals_no_interruption_with_schedule_and_mismatches(files, tmp_path):
    """Pairwise loss with drawn mismatches, and a schedule that changes sides, cut after two of five epochs."""
    settings = [*TINY, *files, "sanity=false", "data.mismatch=0.8", "loss@model.loss.ranking=pairwise_cosine"]
    settings += ["callbacks=alternating", "callbacks.freezing.first_patience=1", "callbacks.freezing.patience=1"]
    run("train", tmp_path / "whole", [*settings, "trainer.max_epochs=5"])
    run("train", tmp_path / "cut", [*settings, "trainer.max_epochs=2"])
    last = tmp_path / "cut" / "checkpoints" / "last.ckpt"
    resumed = [f"ckpt_path={last}", "trainer.max_epochs=5", *files]
    run("train", tmp_path / "cut", resumed)
    import torch

    whole, cut = (
        torch.load(tmp_path / name / "checkpoints" / "last.ckpt", weights_only=True) for name in ("whole", "cut")
    )
    assert all(torch.equal(value, cut["state_dict"][key]) for key, value in whole["state_dict"].items())
    assert whole["callbacks"]["AlternatingFreeze"] == cut["callbacks"]["AlternatingFreeze"]
    assert whole["callbacks"]["AlternatingFreeze"]["changes"] >= 1
    assert (tmp_path / "whole" / "history.jsonl").read_text() == (tmp_path / "cut" / "history.jsonl").read_text()


def test_32_pairs_are_learnt_by_heart(files, tmp_path):
    settings = ["trainer=overfit", *TINY, "data.limit=32", "trainer.max_epochs=60", "sanity=false"]
    run("train", tmp_path, [*settings, *files, "data.batch_size=32", "model.optimizer.lr=0.01"])
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    assert metrics["image_to_recipe/medR"] == metrics["recipe_to_image/medR"] == 1


def test_every_loss_trains(files, tmp_path):
    for loss in ("triplet", "hard_triplet", "info_nce"):
        overrides = [f"loss@model.loss.ranking={loss}", "trainer.max_epochs=1", "sanity=false", "data.limit=20"]
        run("train", tmp_path / loss, [*TINY, *files, *overrides])


def test_pixels_through_a_whole_resnet(files, tmp_path):
    overrides = ["data.image_input=pixels", "model.net.weights=random", "trainer.max_epochs=1", "data.limit=4"]
    run("train", tmp_path, [*TINY, *files, *overrides, "sanity=false", "data.batch_size=4"])
    assert (tmp_path / "metrics.json").is_file()


def test_folds_are_scored_together(files, tmp_path, capsys):
    for fold in range(3):
        overrides = ["data.folds=3", f"data.fold={fold}", "trainer.max_epochs=1", "sanity=false"]
        run("train", tmp_path / "sweep" / str(fold), [*TINY, *files, *overrides])
    run("evaluate", tmp_path / "all", [f"folds={tmp_path / 'sweep'}"])
    found = json.loads((tmp_path / "all" / "folds.json").read_text())
    assert found["image_to_recipe"]["n"] == 48 + 12 + 13  # every pair once
    assert "permutations within folds" in capsys.readouterr().out


def test_trackers_get_numbers_and_the_sheet(trained, files, tmp_path):
    checkpoint = f"ckpt_path={trained / 'checkpoints' / 'best.ckpt'}"
    run("evaluate", tmp_path, [checkpoint, *files, "logger=[csv,tensorboard]"])
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    (events,) = (tmp_path / "tensorboard").rglob("events.out.tfevents.*")
    reader = EventAccumulator(str(events)).Reload()
    assert any("sheet" in tag for tag in reader.Tags()["images"])
    assert any("image_to_recipe/medR" in tag for tag in reader.Tags()["scalars"])
    rows = next((tmp_path / "csv").rglob("metrics.csv")).read_text()
    assert "image_to_recipe/medR" in rows


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["k=abc"], "k=abc"),
        (["ties=foo"], "ties=foo: choose mid"),
        (["index=foo"], "index=foo"),
        (["gallery=x.npz"], "give query= with it"),
        (["question=x.json"], "is nothing for data=recipe1m"),
        (["query=nowhere.jpg"], "no such file"),
    ],
)
def test_wrong_settings_of_evaluate(trained, files, tmp_path, overrides, message):
    with pytest.raises(InputError, match=message):
        run("evaluate", tmp_path, [f"ckpt_path={trained / 'checkpoints' / 'best.ckpt'}", *overrides, *files])


def test_a_query_of_unknown_words_is_refused(trained, files, tmp_path):
    recipe = tmp_path / "mine.json"
    recipe.write_text(json.dumps({"title": "Qqq", "ingredients": ["zzzqqq"], "instructions": ["qqqzzz wwwx"]}))
    with pytest.raises(InputError, match="knows none of its words"):
        run("evaluate", tmp_path, [f"ckpt_path={trained / 'checkpoints' / 'best.ckpt'}", f"query={recipe}", *files])


def test_the_sheet_goes_to_every_tracker(trained, files, tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "offline")
    checkpoint = f"ckpt_path={trained / 'checkpoints' / 'best.ckpt'}"
    run("evaluate", tmp_path, [checkpoint, *files, "logger=[wandb,mlflow]"])
    assert list((tmp_path / "mlruns").rglob("artifacts/pictures/retrieval.png"))
    assert list((tmp_path / "wandb").rglob("media/images/test/*.png"))
