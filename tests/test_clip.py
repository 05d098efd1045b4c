"""Dual encoders against a slow loop: one image, one text, one cosine at a time."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from data.errors import InputError
from data.records import LETTERS, FoodQuestion
from models.backend import Capabilities, Reply, Request
from models.clip import DualEncoder
from models.pretrained import transformers_library
from tests.tiny_models import save_tiny, save_tiny_clip

KINDS = ("clip", "siglip", "chinese_clip")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    transformers_library()  # quiet
    return {kind: save_tiny_clip(tmp_path_factory.mktemp(kind), kind) for kind in KINDS}


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder, rng, paths = tmp_path_factory.mktemp("photos"), np.random.default_rng(0), []
    for i in range(7):
        size = (int(rng.integers(20, 90)), int(rng.integers(20, 90)), 3)
        pixels = rng.integers(0, 255, size, dtype=np.uint8) // (1 + i) + rng.integers(0, 99, 3, dtype=np.uint8)
        Image.fromarray(pixels.astype(np.uint8)).save(folder / f"{i}.png")
        paths.append(str(folder / f"{i}.png"))
    return paths


def questions(photos: list[str]) -> list[FoodQuestion]:
    options = ("川菜", " 粤菜 ", "赣菜 (客家菜）", "鲁菜")
    base = FoodQuestion("sivqa", 0, "0" * 32, "q", "zh", "属于哪个菜系?", options, (photos[0],), 1, "cuisine_type")
    many = tuple(photos[:4])
    return [
        base,
        replace(base, row=1, images=(photos[5],), choices=("A", "BC", "sweet", "hot pot")),
        replace(base, task="mivqa", row=2, question="哪个辣?", choices=(), images=many),
        replace(base, task="mivqa", row=3, question="哪个最不辣呢?", choices=(), images=tuple(photos[3:])),
        replace(base, task="mivqa", row=4, question="都是什么?", images=many),  # text options about four images
    ]


def requests(records: list[FoodQuestion]) -> list[Request]:
    return [Request(f"{q.task} {q.row} {q.images} {q.choices}", q, "score", images=q.images) for q in records]


def answered(model: DualEncoder, records: list[FoodQuestion]) -> list[Reply]:
    asked = requests(records)
    found = {request.key: reply for request, reply in model.answer(asked)}
    assert len(found) == len(asked)
    return [found[request.key] for request in asked]


class Slow:
    """The reference: the classes of the family themselves, no batch, no cache."""

    def __init__(self, folder: Path, kind: str) -> None:
        import transformers

        names = {"clip": "CLIP", "siglip": "Siglip", "chinese_clip": "ChineseCLIP"}
        self.kind = kind
        self.model = getattr(transformers, f"{names[kind]}Model").from_pretrained(folder).eval()
        self.processor = getattr(transformers, f"{names[kind]}Processor").from_pretrained(folder)

    def cosine(self, path: str, text: str) -> float:
        options: dict[str, Any] = {"padding": "max_length", "max_length": 40} if self.kind == "siglip" else {}
        tokens = self.processor.tokenizer(text, return_tensors="pt", **options)
        with Image.open(path) as picture:
            pixels = self.processor.image_processor(picture.convert("RGB"), return_tensors="pt")
        with torch.no_grad():  # the whole model, whose embeddings are of unit length
            output = self.model(**tokens, **pixels)
        return float((output.image_embeds[0].double() * output.text_embeds[0].double()).sum())

    def scores(self, q: FoodQuestion) -> list[float]:
        if not q.choices:
            return [self.cosine(path, q.question) for path in q.images]
        return [
            float(np.mean([self.cosine(path, f"{q.question} {choice.strip()}") for path in q.images]))
            for choice in q.choices
        ]


@pytest.mark.parametrize("kind", KINDS)
def test_scores_are_cosines_of_one_image_and_one_text(kind: str, folders: dict[str, Path], photos: list[str]) -> None:
    model, slow = DualEncoder(str(folders[kind]), batch_size=3), Slow(folders[kind], kind)
    assert model.capabilities() == Capabilities(prefill=False, logprobs=False, max_images=4, prompted=False)
    records = questions(photos)
    replies = answered(model, records)
    for record, reply in zip(records, replies, strict=True):
        assert reply.scores is not None and list(reply.scores) == list(LETTERS) and reply.error is None
        assert reply.flags == () and reply.response is None
        assert list(reply.scores.values()) == pytest.approx(slow.scores(record), abs=1e-5)
    assert np.ptp(list((replies[0].scores or {}).values())) > 1e-3  # not all alike, or the test would say nothing


def test_scores_follow_their_options_and_not_their_letters(folders: dict[str, Path], photos: list[str]) -> None:
    model, order = DualEncoder(str(folders["clip"])), (2, 0, 3, 1)
    records = questions(photos)
    plain, turned = answered(model, records), answered(model, [q.reordered(order) for q in records])
    for one, other in zip(plain, turned, strict=True):
        assert one.scores is not None and other.scores is not None
        shown = list(one.scores.values())
        assert list(other.scores.values()) == pytest.approx([shown[i] for i in order], abs=1e-6)


def test_templates_change_what_is_compared(folders: dict[str, Path], photos: list[str]) -> None:
    slow, records = Slow(folders["clip"], "clip"), questions(photos)[:3]
    model = DualEncoder(str(folders["clip"]), option_template="菜 {option}", question_template="问 {question}")
    found = answered(model, records)
    wanted = [slow.cosine(records[0].images[0], f"菜 {choice.strip()}") for choice in records[0].choices]
    assert list((found[0].scores or {}).values()) == pytest.approx(wanted, abs=1e-5)
    wanted = [slow.cosine(path, f"问 {records[2].question}") for path in records[2].images]
    assert list((found[2].scores or {}).values()) == pytest.approx(wanted, abs=1e-5)
    for settings in (
        {"option_template": "{question}"},
        {"option_template": "{option} {answer}"},
        {"option_template": "{option"},
        {"question_template": "{option}"},
        {"question_template": "{question.__class__}"},
    ):
        with pytest.raises(InputError, match="_template="):
            DualEncoder("x", **settings)


def test_a_long_question_loses_its_beginning_and_never_its_options(folders: dict[str, Path], photos: list[str]) -> None:
    record = replace(questions(photos)[0], question="很" * 300 + "属于哪个菜系?")
    model = DualEncoder(str(folders["clip"]))
    [reply] = answered(model, [record])
    assert reply.flags == ("text_truncated",) and reply.scores is not None
    assert len(set(reply.scores.values())) == 4
    texts = model._texts(record)
    assert all(text.endswith(choice.strip()) for text, choice in zip(texts, record.choices, strict=True))
    assert all(len(ids) <= 40 for ids in model._processor.tokenizer(texts)["input_ids"])
    assert texts[0].removesuffix(" 川菜") in record.question and len(texts[0]) > 10


def test_a_damaged_photo_is_an_error_of_its_question(
    folders: dict[str, Path], photos: list[str], tmp_path: Path
) -> None:
    (tmp_path / "bad.png").write_bytes(b"no picture")
    records = questions(photos)
    bad = replace(records[2], images=(*records[2].images[:3], str(tmp_path / "bad.png")), row=9)
    good, wrong, more = answered(DualEncoder(str(folders["clip"])), [records[0], bad, records[3]])
    assert wrong.error is not None and "bad.png" in wrong.error and wrong.scores is None
    assert good.scores is not None and more.scores is not None


def test_questions_without_images_and_other_methods_are_refused(folders: dict[str, Path], photos: list[str]) -> None:
    model = DualEncoder(str(folders["clip"]))
    text = replace(questions(photos)[0], task="textqa", images=(), row=7)
    with pytest.raises(InputError, match=r"textqa row 7: shows no image, and model=clip .*single_image") as caught:
        answered(model, [text])
    assert "\n" not in str(caught.value) and model._model is None
    for method in ("generate", "logprob"):
        with pytest.raises(InputError, match=f"asking.method={method}"):
            model.check(method)
    model.check("score")


def test_models_that_are_no_dual_encoders_are_refused(folders: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="LlamaConfig does not embed images and texts alike") as caught:
        DualEncoder(str(save_tiny("llama", tmp_path / "llama"))).capabilities()
    assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match="no such folder"):
        DualEncoder(str(tmp_path / "absent")).identity()
    half = shutil.copytree(folders["clip"], tmp_path / "half")
    for file in half.glob("*processor*"):
        file.unlink()
    with pytest.raises(InputError, match="its processor cannot be loaded"):
        DualEncoder(str(half)).capabilities()
    with pytest.raises(InputError, match="batch_size=0"):
        DualEncoder("x", batch_size=0)


def test_weights_that_would_be_random_are_refused(folders: dict[str, Path], photos: list[str], tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    folder = shutil.copytree(folders["clip"], tmp_path / "part")
    weights = load_file(folder / "model.safetensors")
    weights.pop("text_projection.weight")
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(InputError, match=r"lacks 1 weights .*text_projection"):
        answered(DualEncoder(str(folder)), questions(photos)[:1])


def test_identity_tells_settings_apart_and_names_no_folder(folders: dict[str, Path]) -> None:
    plain = DualEncoder(str(folders["clip"])).identity()
    json.dumps(plain)
    assert str(folders["clip"].parent) not in str(plain) and plain["backend"] == "clip"
    assert DualEncoder(str(folders["clip"]), batch_size=5).identity() == plain
    for settings in ({"option_template": "{option}"}, {"dtype": "bfloat16"}, {"image_longest_side": 20}):
        assert DualEncoder(str(folders["clip"]), **settings).identity() != plain
    other = DualEncoder(str(folders["siglip"])).identity()
    assert other["revision"] != plain["revision"]


def test_nothing_is_written_on_the_terminal(folders: dict[str, Path], photos: list[str], capfd: Any) -> None:
    model = DualEncoder(str(folders["clip"]))
    answered(model, [replace(questions(photos)[0], question="长" * 500)])
    model.close()
    captured = capfd.readouterr()
    assert captured.out == "" and captured.err == ""
