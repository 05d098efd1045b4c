"""Pairs, folds and batches: nothing is lost silently, and what is drawn depends on the seed alone."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from hydra.utils import instantiate

from data.errors import InputError
from data.retrieval import RetrievalData
from tests.made_up_recipes import write_recipe1m
from tests.runs import composed
from tests.test_retrieval_training import TINY


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("pairs")
    write_recipe1m(folder, {"train": 30, "val": 8, "test": 9}, images=3)
    return folder


def made(root: Path, *overrides: str, cache: str = "cache") -> RetrievalData:
    return instantiate(composed("train", [*TINY, f"data.root={root}", f"cache={root / cache}", *overrides]).data)


def epoch(data: RetrievalData, number: int = 0, split: str = "train") -> list[dict]:
    loader = data.loader(split, shuffle=True)
    loader.batch_sampler.sampler.set_epoch(number)
    return list(loader)


def same(a: list[dict], b: list[dict]) -> bool:
    return len(a) == len(b) and all(
        x.keys() == y.keys() and all(torch.equal(x[k], y[k]) for k in x) for x, y in zip(a, b, strict=True)
    )


@pytest.mark.parametrize("image_input", ["features", "pixels"])
def test_batches_are_a_function_of_seed_and_epoch_whatever_the_workers(root, image_input):
    settings = [f"data.image_input={image_input}", "data.mismatch=0.5", "data.batch_size=7"]
    data, again, parallel = made(root, *settings), made(root, *settings), made(root, *settings, "data.num_workers=2")
    for each in (data, again, parallel):
        each.prepare(["train"])
    assert same(epoch(data), epoch(again)) and same(epoch(data, 3), epoch(parallel, 3))
    assert not same(epoch(data), epoch(data, 1))


def test_mismatches_are_another_recipes_and_as_many_as_asked(root):
    data = made(root, "data.mismatch=0.8")
    data.prepare(["train"])
    match, own, classes = [], [], data.pairs["train"].classes
    for number in range(30):
        for batch in epoch(data, number):
            match.append(batch["match"])
            own.append(batch["index"] == batch["image_index"])
            assert torch.equal(batch["image_class"], torch.from_numpy(classes[batch["image_index"].numpy()]))
    match, own = torch.cat(match), torch.cat(own)
    assert torch.equal(match, own)
    assert abs(match.float().mean() - 0.2) < 0.04


def test_evaluation_takes_the_first_photo_and_always_the_pair(root):
    data = made(root, "data.mismatch=0.8")
    data.prepare(["test"])
    pairs, table = data.pairs["test"], data.open()
    (batch,) = data.loader("test")
    assert batch["match"].all() and torch.equal(batch["index"], batch["image_index"])
    assert pairs.vectors is not None
    first = [table.image_names(int(row))[0] for row in pairs.rows[batch["index"].numpy()]]
    np.testing.assert_array_equal(batch["image"].numpy(), pairs.vectors.array[pairs.vectors.rows(first)])


def test_training_draws_among_the_first_photos(root):
    data = made(root, "data.images_per_recipe=2", "data.image_input=pixels")
    data.prepare(["train"])
    assert data.pairs["train"].names is not None
    assert max(map(len, data.pairs["train"].names)) == 2
    draws = [data.pairs["train"].batch([(number, 0)])["pixels"] for number in range(12)]
    assert len({tensor.numpy().tobytes() for tensor in draws}) > 2


def test_equal_words_and_equal_photos_are_no_negatives(tmp_path):
    import json

    write_recipe1m(tmp_path, {"train": 12, "val": 4, "test": 4}, images=1)
    layer, detected = (json.loads((tmp_path / name).read_text()) for name in ("layer1.json", "det_ingrs.json"))
    train = [i for i, record in enumerate(layer) if record["partition"] == "train"]
    a, b = train[0], train[5]
    for records, keys in ((layer, ("ingredients", "instructions")), (detected, ("ingredients", "valid"))):
        for key in keys:
            records[b][key] = records[a][key]
    (tmp_path / "layer1.json").write_text(json.dumps(layer))
    (tmp_path / "det_ingrs.json").write_text(json.dumps(detected))
    data = made(tmp_path)
    data.prepare(["train"])
    (batch,) = epoch(data)
    ids = [str(data.pairs["train"].ids[i]) for i in batch["index"]]
    i, j = ids.index(layer[a]["id"]), ids.index(layer[b]["id"])
    expected = torch.eye(12, dtype=torch.bool)
    expected[i, j] = expected[j, i] = True
    assert torch.equal(batch["twins"], expected)


def test_folds_test_every_pair_once_and_never_train_on_it(root):
    tested: Counter[str] = Counter()
    for fold in range(4):
        data = made(root, "data.folds=4", f"data.fold={fold}")
        ids = {split: set(map(str, data.open().ids[data.rows(split)])) for split in ("train", "val", "test")}
        assert not ids["train"] & ids["test"] and not ids["val"] & (ids["test"] | ids["train"])
        assert sum(map(len, ids.values())) == 47
        tested.update(ids["test"])
    assert len(tested) == 47 and set(tested.values()) == {1}


def test_words_of_evaluated_recipes_are_not_in_the_vocabulary(tmp_path):
    recipes = write_recipe1m(tmp_path, {"train": 12, "val": 4, "test": 4})
    path = tmp_path / "layer1.json"
    secret = next(r for r in recipes if r.partition == "test")
    path.write_text(path.read_text().replace(secret.instructions[0], "Xylophonise the whole quagga.", 1))
    data = made(tmp_path)
    data.prepare(["train", "test"])
    assert data.vocabulary is not None
    words = set(data.vocabulary.words)
    assert "quagga" not in words and len(words) > 10


def damage(root: Path, split: str) -> Path:
    path = sorted((root / "images" / split).rglob("*.jpg"))[0]
    path.write_bytes(path.read_bytes()[:120])
    return path


@pytest.mark.parametrize("image_input", ["features", "pixels"])
@pytest.mark.parametrize("fault", ["absent", "damaged"])
def test_bad_photos_stop_or_are_counted(tmp_path, image_input, fault):
    write_recipe1m(tmp_path, {"train": 10, "val": 4, "test": 5}, images=1)
    path = damage(tmp_path, "test")
    if fault == "absent":
        path.unlink()
    settings = [f"data.image_input={image_input}"]
    with pytest.raises(InputError, match=path.name):
        made(tmp_path, *settings).prepare()
    data = made(tmp_path, *settings, "data.on_bad_record=skip")
    data.prepare()
    assert len(data.pairs["test"]) == 4 and len(data.skipped["test"]) == 1
    assert any("1 test pairs left out" in note for note in data.notes)
    for batch in data.loader("test"):
        assert len(batch["index"]) == 4


def test_a_photo_without_recipe_parts_is_counted_and_still_a_pair(tmp_path):
    import json

    write_recipe1m(tmp_path, {"train": 10, "val": 4, "test": 5})
    path = tmp_path / "layer1.json"
    layer = json.loads(path.read_text())
    victim = next(record for record in layer if record["partition"] == "test")
    victim["instructions"] = []
    path.write_text(json.dumps(layer))
    data = made(tmp_path)
    data.prepare(["test"])
    assert len(data.pairs["test"]) == 4
    assert any("1 with too few instructions" in note for note in data.notes)
    kept = made(tmp_path, "filters.min_instructions=0")
    kept.prepare(["test"])
    assert len(kept.pairs["test"]) == 5
    assert all(torch.isfinite(v.float()).all() for batch in kept.loader("test") for v in batch.values())


def test_auto_takes_vectors_without_a_gpu_and_says_so(root, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    data = made(root, "data.image_input=auto")
    assert data.image_input == "features" and "no GPU" in data.notes[0]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert made(root, "data.image_input=auto").image_input == "pixels"


def test_a_checkpoint_of_other_words_is_refused(root):
    data = made(root)
    data.prepare(["train"])
    state = data.state_dict()
    other = made(root, "text.epochs=1")
    other.prepare(["train"])
    with pytest.raises(InputError, match="another vocabulary"):
        other.load_state_dict(state)
    state["vocabulary_digest"] = "0" * 64
    with pytest.raises(InputError, match="not the one it was trained with"):
        made(root).restore(state, "best.ckpt")


def test_a_photo_whose_header_is_long_is_a_photo(tmp_path):
    from PIL import Image

    write_recipe1m(tmp_path, {"train": 10, "val": 4, "test": 5}, images=1)
    path = sorted((tmp_path / "images" / "test").rglob("*.jpg"))[0]
    with Image.open(path) as picture:
        picture.save(path, icc_profile=bytes(200_000))  # before the size, and longer than what is read first
    data = made(tmp_path, "data.image_input=pixels")
    data.prepare(["test"])
    assert len(data.pairs["test"]) == 5
