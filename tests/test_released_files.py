"""What else was released with Recipe1M: skip-instruction vectors in LMDBs, word vectors in a binary file."""

from pathlib import Path

import numpy as np
import pytest
import torch

from data.errors import InputError
from tests.made_up_recipes import write_recipe1m
from tests.runs import run
from tests.test_recipe1m_lmdb import value, write
from tests.test_retrieval_data import made
from tests.test_retrieval_training import TINY
from tests.test_vocabulary import binary


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("released")
    recipes = write_recipe1m(folder, {"train": 20, "val": 6, "test": 7})
    rng = np.random.default_rng(0)
    for split in ("train", "val", "test"):
        records = {
            r.recipe_id: value(intrs=rng.normal(size=(len(r.instructions), 1024)).astype(np.float32))
            for r in recipes
            if r.partition == split
        }
        write(folder / f"{split}_lmdb", records)
    words = ["</s>", "butter", "tomato", "rice", "red_onion", "cocoa"]
    (folder / "vocab.bin").write_bytes(binary(words, rng.normal(size=(len(words), 16)).astype(np.float32)))
    return folder


def test_precomputed_sentences_are_batched_as_they_were_stored(root):
    data = made(root, "data.sentences=precomputed", f"data.source.lmdb={root}")
    data.prepare(["test"])
    (batch,) = data.loader("test")
    assert "sentences" not in batch and batch["sentence_vectors"].dtype == torch.float32
    assert (batch["sentence_vectors"][0] == 0).all()
    pairs = data.pairs["test"]
    for row, position in enumerate(batch["index"].tolist()):
        stored = pairs.precomputed.recipes.record(str(pairs.ids[position])).sentences
        count = int(batch["instruction_count"][row])
        assert count == len(stored)
        found = batch["sentence_vectors"][batch["instructions"][row, :count]]
        np.testing.assert_array_equal(found.numpy(), stored)
        assert (batch["instructions"][row, count:] == 0).all()


@pytest.mark.parametrize("workers", [0, 2])
def test_a_model_trains_on_precomputed_sentences(root, tmp_path, workers):
    overrides = ["data.sentences=precomputed", f"data.source.lmdb={root}", f"data.num_workers={workers}"]
    files = [f"data.root={root}", f"cache={root / 'cache'}", "trainer.max_epochs=1", "sanity=false"]
    run("train", tmp_path, [*TINY, *files, *overrides])
    assert (tmp_path / "metrics.json").is_file()


def test_an_lmdb_of_another_release_is_refused(root, tmp_path):
    write(tmp_path / "test_lmdb", {"0000000000": value()})
    data = made(root, "data.sentences=precomputed", f"data.source.lmdb={tmp_path}")
    with pytest.raises(InputError, match="another release"):
        data.prepare(["test"])


def test_the_released_words_keep_their_rows(root):
    data = made(root, "data.source.vocabulary=released")
    data.prepare(["test"])
    assert data.vocabulary is not None
    assert data.vocabulary.words[0] == "</s>" and data.vocabulary.rows(["butter", "cocoa"]) == [3, 7]
    assert data.facts()["words"] == 8 and data.facts()["word_size"] == 16


def test_official_filters_ask_which_ingredients_have_a_vector(root):
    data = made(root, "filters=official", "data.source.vocabulary=released", "filters.min_known_ingredients=1")
    kept = sum(len(data.rows(split)) for split in ("train", "val", "test"))
    everything = made(root, "filters=official")
    assert kept < sum(len(everything.rows(split)) for split in ("train", "val", "test"))


def test_the_lmdbs_own_ingredients_go_with_the_released_words(root):
    data = made(root, "data.sentences=precomputed", f"data.source.lmdb={root}", "data.source.vocabulary=released")
    data.prepare(["test"])
    (batch,) = data.loader("test")
    assert (batch["ingredients"] == torch.tensor([7, 2, 5, 1])).all() and (batch["ingredient_count"] == 4).all()


def test_a_word_beyond_the_released_ones_is_refused(root, tmp_path):
    data = made(root, "data.sentences=precomputed", f"data.source.lmdb={tmp_path}", "data.source.vocabulary=released")
    ids = data.open().ids[data.rows("test")]
    write(tmp_path / "test_lmdb", {str(name): value(rows=(8, 1)) for name in ids})
    data.prepare(["test"])
    with pytest.raises(InputError, match=r"has the word 8, but vocab\.bin has 8 rows"):
        list(data.loader("test"))


@pytest.fixture(scope="module")
def port(root):
    """A checkpoint as the public code writes it: 6 words, so a table of 6 rows."""
    from tests import test_released

    with pytest.MonkeyPatch.context() as patch:
        for name, size in (("WORDS", 6), ("D", 16), ("SENTENCE", 1024)):
            patch.setattr(test_released, name, size)
        state = test_released.Port(cnn=True).state_dict()
    return test_released.save(root / "model.pth.tar", state)


def test_a_released_checkpoint_is_scored_by_the_protocol(root, port, tmp_path):
    import json

    settings = ["data=recipe1m", "model=im2recipe", f"data.root={root}", f"cache={root / 'cache'}", "sanity=false"]
    settings += ["data.source.vocabulary=released", "data.sentences=precomputed", f"data.source.lmdb={root}"]
    settings += ["trainer.accelerator=cpu", "data.image_input=pixels", f"released={port}", "logger=[]"]
    medr = run("evaluate", tmp_path / "run", settings)
    assert medr == json.loads((tmp_path / "run" / "metrics.json").read_text())["image_to_recipe/medR"]
    assert "last two words" in (tmp_path / "run" / "results.md").read_text()
    with pytest.raises(InputError, match="legacy_index"):
        run("evaluate", tmp_path / "other", [*settings, "legacy_index=false"])
    with pytest.raises(InputError, match="give it what it was trained on"):
        run("evaluate", tmp_path / "none", [f"released={port}", "data=recipe1m", f"data.root={root}"])
