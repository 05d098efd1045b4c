"""The commands of the README with a real tiny model that sees colours, on files of the released schema.

The photos are colour tiles, so the right answers are known: all of them come out right through both backends, and
chance is what remains when the pictures are shuffled. Order, labels, opening, padding and truth are right, or this
fails.
"""

import json

import numpy as np
import pytest
from PIL import Image

from tests.food_server import FoodServer
from tests.runs import ROOT, run
from tests.test_vlm_openai import SeeingModel

COLOURS = {"red": (200, 30, 30), "green": (30, 180, 40), "blue": (30, 40, 200), "yellow": (220, 210, 40)}
N = 48


def write_tiles(folder, shuffled=False):
    """A release of multi-image questions; with `shuffled` the pictures change places after the truth is written."""
    rng, records = np.random.default_rng(3), []
    (folder / "images").mkdir(parents=True)
    for row in range(N):
        names = rng.permutation(list(COLOURS)).tolist()
        images = []
        for place, name in enumerate(names):
            pixels = np.clip(np.array(COLOURS[name]) + rng.integers(-25, 25, (28, 28, 3)), 0, 255).astype(np.uint8)
            images.append(f"t/{row}_{place}.png")
            (folder / "images" / "t").mkdir(exist_ok=True)
            Image.fromarray(pixels).save(folder / "images" / images[-1])
        asked = int(rng.integers(4))
        if shuffled:
            images = [images[i] for i in rng.permutation(4)]
        record = {"question": f"{names[asked]}?", "question_en": f"{names[asked]}?", "choices": "", "images": images}
        record |= {"answer": str(asked), "question_type": "color", "question_id": f"q_{row % 3}", "ann_group": "川"}
        records.append(record)
    (folder / "mivqa_tidy.json").write_text(json.dumps(records), encoding="utf-8")
    return folder


def scored(folder, *overrides, release=None):
    release = release or write_tiles(folder / "release")
    given = [
        f"hydra.searchpath=[file://{ROOT / 'tests' / 'conf'}]",
        *(
            "data=foodieqa/multi_image",
            f"data.root={release}",
            "prompts=tiles",
            f"cache={folder / 'cache'}",
            "logger=[]",
        ),
        *overrides,
    ]
    value = run("evaluate", folder / "run", given)
    return value, json.loads((folder / "run" / "metrics.json").read_text(encoding="utf-8"))


def local(shared):
    return ["model=vlm/transformers", f"model.name={shared}/fixtures/tiny_seeing", "model.max_new_tokens=1"]


@pytest.mark.parametrize("method", ["generate", "logprob"])
def test_every_tile_is_named_and_in_every_rotation(shared, tmp_path, method):
    value, metrics = scored(tmp_path, *local(shared), f"asking.method={method}", "asking.permutation=circular")
    assert value == 1.0 and metrics["complete"]
    assert all(row["circular"]["accuracy"] == 1.0 for row in metrics["positions"]["prompts"])


def test_shuffled_pictures_leave_chance(shared, tmp_path):
    release = write_tiles(tmp_path / "release", shuffled=True)
    value, _ = scored(tmp_path, *local(shared), release=release)
    assert 0.05 < value < 0.5


@pytest.mark.slow
@pytest.mark.parametrize("method", ["generate", "logprob"])
def test_every_tile_is_named_over_http(shared, tmp_path, method):
    seeing = SeeingModel(shared / "fixtures" / "tiny_seeing")
    with FoodServer(seeing.generate, seeing.letters, faults={"500": 0.3}) as server:
        model = ["model=vlm/openai", f"model.base_url={server.base_url}", "model.backoff=0.01", "model.logprobs=true"]
        value, metrics = scored(tmp_path, *model, f"asking.method={method}", "model.api_key=sk-planted-secret")
    assert value == 1.0 and metrics["complete"] and server.failures["500"] > 0
    for path in (tmp_path / "run").rglob("*"):
        assert not path.is_file() or b"sk-planted-secret" not in path.read_bytes(), path
    for path in (tmp_path / "cache").rglob("*.jsonl"):
        assert b"sk-planted-secret" not in path.read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("task", ["multi_image", "single_image"])
def test_the_demo_set_runs_with_no_download(shared, tmp_path, task):
    given = [f"data=foodieqa/{task}", *local(shared), "data.limit=10", f"cache={tmp_path / 'cache'}", "logger=[csv]"]
    value = run("evaluate", tmp_path / "run", given)
    assert value is not None and 0 <= value <= 1
    text = (tmp_path / "run" / "results.md").read_text(encoding="utf-8")
    assert "not FoodieQA" in text and "GPT-4o" in text
    assert {"accuracy.png", "groups.png", "letters.png"} <= {p.name for p in (tmp_path / "run").iterdir()}


def test_two_models_are_compared_on_the_same_questions(shared, tmp_path):
    release = write_tiles(tmp_path / "release")
    scored(tmp_path / "a", *local(shared), release=release)
    scored(tmp_path / "b", "model=trivial/always_a", f"asking.against={tmp_path / 'a' / 'run'}", release=release)
    text = (tmp_path / "b" / "run" / "comparison.md").read_text(encoding="utf-8")
    assert "loses to" in text and "tiny_seeing" in text
