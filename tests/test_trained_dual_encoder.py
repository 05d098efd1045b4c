"""A checkpoint of this repository on food questions: the vectors are those that evaluate.py query=... gives."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from data.errors import InputError
from data.records import LETTERS, FoodQuestion
from engine.build import build_data, build_model, load_weights
from engine.checkpoints import load_checkpoint
from engine.retrieval import embed_photo, embed_recipe
from engine.trained_dual_encoder import TrainedDualEncoder
from models.backend import Capabilities, Reply, Request
from tests.made_up_recipes import write_recipe1m
from tests.runs import composed, run

COMMON = [
    "data=recipe1m",
    "text.min_count=1",
    "text.vector_size=16",
    "text.epochs=1",
    "model.net.embedding_size=24",
    "data.batch_size=16",
    "trainer.max_epochs=1",
    "trainer.accelerator=cpu",
    "trainer.enable_progress_bar=false",
    "sanity=false",
    "logger=[]",
]
TOWER = (
    "{model_type: clip_vision_model, hidden_size: 16, intermediate_size: 16, num_hidden_layers: 1, "
    "num_attention_heads: 2, image_size: 224, patch_size: 112, projection_dim: 16}"
)
SYSTEMS = {
    "im2recipe": [
        "model=im2recipe",
        "features.resize=64",
        "features.crop=64",
        "data.image_input=features",
        "model.net.ingredient_hidden=16",
        "model.net.instruction_hidden=16",
        "model.net.sentence_hidden=16",
    ],
    "recipe_transformer": [
        "model=recipe_transformer",
        "data.image_input=pixels",
        "model.net.weights=random",
        f"model.net.image_config={TOWER}",
        "model.net.width=16",
        "model.net.heads=2",
        "model.net.layers=1",
    ],
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recipe1m")
    write_recipe1m(folder, {"train": 32, "val": 6, "test": 6})
    return folder


@pytest.fixture(scope="module")
def checkpoints(root: Path) -> Any:
    made: dict[str, Path] = {}

    def checkpoint(system: str) -> Path:
        if system not in made:
            overrides = [*COMMON, *SYSTEMS[system], f"data.root={root}", f"cache={root / 'cache'}"]
            run("train", root / system, overrides)
            made[system] = root / system / "checkpoints" / "last.ckpt"
        return made[system]

    return checkpoint


@pytest.fixture(scope="module")
def words(root: Path) -> list[str]:
    """Ingredients that the made-up recipes use, so that the model knows them."""
    layer = json.loads((root / "layer1.json").read_text())
    return sorted({line["text"] for recipe in layer for line in recipe["ingredients"]})[:6]


def records(root: Path, words: list[str], language: str = "en") -> list[FoodQuestion]:
    photos = [str(path) for path in sorted((root / "images" / "test").rglob("*.jpg"))[:4]]
    asked = f"What is made of {words[0]} and {words[4]}?"
    base = FoodQuestion("sivqa", 0, "0" * 32, "q", language, asked, tuple(words[:4]), (photos[0],), 1, "x")
    many = replace(base, task="mivqa", row=1, choices=(), images=tuple(photos))
    return [base, many, replace(base, task="mivqa", row=2, images=tuple(photos))]


def answered(model: TrainedDualEncoder, questions: list[FoodQuestion]) -> list[Reply]:
    asked = [Request(str(i), q, "score", images=q.images) for i, q in enumerate(questions)]
    found = {request.key: reply for request, reply in model.answer(asked)}
    assert len(found) == len(asked)
    return [found[request.key] for request in asked]


@pytest.mark.parametrize("system", [pytest.param("im2recipe", marks=pytest.mark.slow), "recipe_transformer"])
def test_scores_are_those_of_single_queries(
    system: str, checkpoints: Any, root: Path, words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = checkpoints(system)
    saved = load_checkpoint(path)
    cfg = composed("evaluate", [*COMMON, *SYSTEMS[system], f"data.root={root}", f"cache={root / 'cache'}"])
    data = build_data(cfg, saved["RetrievalData"])
    slow = build_model(cfg, data)
    load_weights(slow, saved, "last.ckpt")

    def recipe(subject: str, text: str) -> np.ndarray:
        file = tmp_path / "query.json"
        file.write_text(json.dumps({"title": subject, "ingredients": [subject], "instructions": [text]}))
        return embed_recipe(slow, data, file)[0]

    questions = records(root, words)
    asked = questions[0].question
    photos = [embed_photo(slow, data, Path(photo)) for photo in questions[1].images]
    options = [recipe(choice.strip(), f"{asked} {choice.strip()}") for choice in questions[0].choices]
    wanted = [
        [float(option @ photos[0]) for option in options],
        [float(recipe(asked, asked) @ photo) for photo in photos],
        [float(np.mean([option @ photo for photo in photos])) for option in options],
    ]
    monkeypatch.chdir(tmp_path)  # the recipes it was trained on are not needed
    model = TrainedDualEncoder(str(path), batch_size=3, cache=str(tmp_path / "cache"))
    assert model.capabilities() == Capabilities(prefill=False, logprobs=False, max_images=4, prompted=False)
    replies = answered(model, questions)
    for reply, scores in zip(replies, wanted, strict=True):
        assert reply.scores is not None and list(reply.scores) == list(LETTERS) and reply.flags == ()
        assert list(reply.scores.values()) == pytest.approx(scores, abs=2e-5)
    assert np.ptp(wanted[0]) > 1e-4
    identity = model.identity()
    assert identity["model"] == system and identity["revision"].startswith("sha256:")
    json.dumps(identity)
    model.close()
    assert model.identity() == identity


def test_damaged_photos_and_unknown_words_are_told_by_question(
    checkpoints: Any, root: Path, words: list[str], tmp_path: Path
) -> None:
    questions = records(root, words)
    (tmp_path / "bad.jpg").write_bytes(Path(questions[0].images[0]).read_bytes()[:200])
    bad = replace(questions[1], row=5, images=(str(tmp_path / "bad.jpg"), *questions[1].images[1:]))
    strange = replace(questions[0], row=6, question="Qqqq?", choices=(words[0], "zzzz", words[1], words[2]))
    model = TrainedDualEncoder(str(checkpoints("recipe_transformer")))
    good, wrong, more = answered(model, [questions[1], bad, strange])
    assert wrong.error is not None and "bad.jpg" in wrong.error and wrong.scores is None
    assert good.scores is not None and good.flags == ()
    assert more.scores is not None and more.flags == ("unknown_words",)


def test_chinese_and_imageless_questions_are_refused(checkpoints: Any, root: Path, words: list[str]) -> None:
    path = str(checkpoints("recipe_transformer"))
    chinese = records(root, words, "zh")
    with pytest.raises(InputError, match=r"was trained on English recipes; set data\.language=en") as caught:
        answered(TrainedDualEncoder(path), chinese)
    assert "\n" not in str(caught.value)
    assert all(reply.scores is not None for reply in answered(TrainedDualEncoder(path, force=True), chinese))
    with pytest.raises(InputError, match="shows no image, and model=trained_dual_encoder"):
        answered(TrainedDualEncoder(path), [replace(chinese[0], task="textqa", language="en", images=())])
    with pytest.raises(InputError, match=r"asking\.method=generate"):
        TrainedDualEncoder(path).check("generate")


def test_checkpoints_of_other_problems_are_refused(tmp_path: Path) -> None:
    other = {
        "state_dict": {},
        "config": {"model": {"name": "impatient_reader"}, "data": {"_target_": "data.choice.ChoiceData"}},
        "ChoiceData": {},
    }
    torch.save(other, tmp_path / "choice.ckpt")
    with pytest.raises(
        InputError, match=r"a checkpoint of impatient_reader, which does not rank .*im2recipe"
    ) as caught:
        TrainedDualEncoder(str(tmp_path / "choice.ckpt")).capabilities()
    assert "\n" not in str(caught.value)
    evil = {"_target_": "data.retrieval.RetrievalData", "source": {"_target_": "os.system", "command": "true"}}
    torch.save({**other, "config": {**other["config"], "data": evil}, "RetrievalData": {}}, tmp_path / "evil.ckpt")
    with pytest.raises(InputError, match=r"wants to build os\.system"):
        TrainedDualEncoder(str(tmp_path / "evil.ckpt")).capabilities()
    with pytest.raises(InputError, match="no such checkpoint"):
        TrainedDualEncoder(str(tmp_path / "absent.ckpt")).capabilities()
    with pytest.raises(InputError, match="option_template"):
        TrainedDualEncoder("x", option_template="{question}")
