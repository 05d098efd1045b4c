"""Local models: right answers from a model that sees, and the same numbers as a slow loop from random ones."""

import json
import math
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from data.errors import InputError
from data.food_images import load_image
from data.records import LETTERS, FoodQuestion
from models import pretrained
from models.backend import Capabilities, Reply, Request, Turn
from models.vlm_transformers import TransformersModel
from tests.tiny_models import CHATML, save_tiny

COLOURS = {"red": (200, 30, 30), "green": (30, 180, 40), "blue": (30, 40, 200), "yellow": (220, 210, 40)}


def answered(model: TransformersModel, requests: Sequence[Request]) -> dict[str, Reply]:
    """Replies by key; every request exactly once."""
    found = [(request.key, reply) for request, reply in model.answer(requests)]
    assert sorted(key for key, _ in found) == sorted(request.key for request in requests)
    return dict(found)


def best(reply: Reply) -> int:
    assert reply.scores is not None and list(reply.scores) == list(LETTERS)
    return LETTERS.index(max(reply.scores, key=reply.scores.__getitem__))


# ---------------------------------------------------------------------------------------------- a model that is right


@pytest.fixture(scope="module")
def tiles(tmp_path_factory: pytest.TempPathFactory) -> list[FoodQuestion]:
    """Forty questions: which of four tiles has the named colour?"""
    folder, rng, questions = tmp_path_factory.mktemp("tiles"), np.random.default_rng(5), []
    for row in range(40):
        names, paths = rng.permutation(list(COLOURS)).tolist(), []
        for place, name in enumerate(names):
            pixels = np.clip(np.array(COLOURS[name]) + rng.integers(-25, 25, (28, 28, 3)), 0, 255).astype(np.uint8)
            paths.append(str(folder / f"{row}_{place}.png"))
            Image.fromarray(pixels).save(paths[-1])
        asked = int(rng.integers(4))
        question = f"{names[asked]}?"
        record = FoodQuestion("mivqa", row, f"{row:032x}", "q", "zh", question, (), tuple(paths), asked, "color")
        questions.append(record)
    return questions


def tile_request(question: FoodQuestion, method: str = "generate", form: str = "labelled") -> Request:
    labelled: tuple[str | int, ...] = (0, "图A", 1, "图B", 2, "图C", 3, "图D")
    start = {"labelled": labelled, "images_first": (0, 1, 2, 3, "图A图B图C图D")}[form]
    turns = (Turn("user", (*start, f"{question.question} 答案为：图")),)
    key = f"{question.row} {method} {form} {question.images}"
    return Request(key, question, method, turns, question.images, "none", "图")


@pytest.fixture(scope="module")
def seeing(shared: Path) -> TransformersModel:
    return TransformersModel(str(shared / "fixtures" / "tiny_seeing"), batch_size=48, max_new_tokens=1)


@pytest.mark.parametrize("method", ["generate", "logprob"])
def test_a_seeing_model_is_right_about_every_tile(
    seeing: TransformersModel, tiles: list[FoodQuestion], method: str
) -> None:
    """One batch, padded on the left because longer prompts are in it."""
    requests = [tile_request(question, method) for question in tiles]
    long = replace(tiles[0], question="red? green? blue? yellow? red? green? blue? yellow? red?", row=99)
    replies = answered(seeing, [tile_request(long, method), *requests])
    for question, request in zip(tiles, requests, strict=True):
        reply = replies[request.key]
        if method == "generate":
            assert reply.response == LETTERS[question.answer] and reply.finish_reason == "length"
            assert reply.usage is not None and reply.usage["completion_tokens"] == 1
        else:
            assert best(reply) == question.answer
            assert reply.response is None and reply.letter_mass is not None and 0.2 < reply.letter_mass <= 1


def test_rotated_tiles_are_right_with_their_truth_and_wrong_without(
    seeing: TransformersModel, tiles: list[FoodQuestion]
) -> None:
    for shift in (1, 2, 3):
        rotated = [question.reordered(tuple((i + shift) % 4 for i in range(4))) for question in tiles]
        replies = answered(seeing, [tile_request(question, "logprob") for question in rotated])
        said = [best(replies[tile_request(question, "logprob").key]) for question in rotated]
        assert said == [question.answer for question in rotated]
        assert all(letter != question.answer for letter, question in zip(said, tiles, strict=True))


def test_images_out_of_their_places_are_answered_at_random(
    seeing: TransformersModel, tiles: list[FoodQuestion]
) -> None:
    requests = [tile_request(question, "logprob", "images_first") for question in tiles]
    replies = answered(seeing, requests)
    assert sum(best(replies[r.key]) == r.question.answer for r in requests) < 24
    # Places of images count, not the order of the paths: the same question with both reversed.
    turned = [
        replace(
            tile_request(question),
            turns=(Turn("user", (3, "图A", 2, "图B", 1, "图C", 0, f"图D{question.question} 答案为：图")),),
            images=question.images[::-1],
        )
        for question in tiles
    ]
    replies = answered(seeing, turned)
    assert all(replies[r.key].response == LETTERS[r.question.answer] for r in turned)


def test_a_damaged_photo_is_an_error_of_its_own_question_only(
    seeing: TransformersModel, tiles: list[FoodQuestion], tmp_path: Path
) -> None:
    (tmp_path / "bad.png").write_bytes(Path(tiles[1].images[0]).read_bytes()[:900])
    bad = replace(tiles[1], images=(str(tmp_path / "bad.png"), *tiles[1].images[1:]))
    requests = [tile_request(question) for question in (tiles[0], bad, tiles[2])]
    replies = answered(seeing, requests)
    error = replies[requests[1].key].error
    assert error is not None and "bad.png: the picture is damaged" in error and "\n" not in error
    assert replies[requests[1].key].response is None
    for request in (requests[0], requests[2]):
        assert replies[request.key].response == LETTERS[request.question.answer]


# ------------------------------------------------------------------------------------------ random models of families

FAMILIES = ("llava", "idefics2", "qwen2_vl")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Folder of a tiny model by family and settings, written once."""
    made: dict[Any, Path] = {}

    def folder(family: str, **settings: Any) -> str:
        key = family, *sorted(settings.items())
        if key not in made:
            made[key] = save_tiny(family, tmp_path_factory.mktemp(family), **settings)
        return str(made[key])

    return folder


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    folder, rng = tmp_path_factory.mktemp("photos"), np.random.default_rng(2)
    paths = []
    for i, size in enumerate(((60, 90), (90, 60), (40, 40), (120, 50))):
        Image.fromarray(rng.integers(0, 255, (*size, 3), dtype=np.uint8)).save(folder / f"{i}.png")
        paths.append(str(folder / f"{i}.png"))
    return tuple(paths)


CHOICES = ("川菜", "粤菜", "湘菜和川菜", "鲁菜")


def request(
    text: str, images: tuple[str, ...] = (), method: str = "generate", prefill: str = "none", begun: str | None = None
) -> Request:
    task = {0: "textqa", 1: "sivqa"}.get(len(images), "mivqa")
    choices = () if len(images) == 4 else CHOICES
    question = FoodQuestion(task, 0, "0" * 32, "q", "zh", text, choices, images, 0, "taste")
    parts: tuple[str | int, ...] = ("看", *(p for i in range(len(images)) for p in (i, f"图{LETTERS[i]}\n")), text)
    turns = [Turn("user", parts), *([] if begun is None else [Turn("assistant", (begun,))])]
    last = turns[-1].text
    opening = next((o for o in ("图", "（", "(") if last.endswith(o)), "")
    return Request(f"{text} {len(images)} {method} {begun}", question, method, tuple(turns), images, prefill, opening)


def slow_log_probability(model: TransformersModel, one: Request, added: str) -> float:
    """Log-probability that a prompt goes on with a text: one unpadded pass, no cache, token by token."""
    row = model._row(one)
    images = [load_image(path) for path in row.images]

    def encoded(text: str) -> dict[str, torch.Tensor]:
        if model.kind_of_model == "text":
            return dict(model._reader([text], return_tensors="pt", add_special_tokens=False))
        return dict(model._reader(text=[text], images=[images] if images else None, return_tensors="pt"))

    short, long = encoded(row.text)["input_ids"][0].tolist(), encoded(row.text + added)
    ids = long["input_ids"][0].tolist()
    if ids[: len(short)] != short:
        return -math.inf  # such a text does not follow the tokens of the prompt
    long.pop("token_type_ids", None)
    with torch.no_grad():
        expected = model._model(**long).logits[0].float().log_softmax(-1)
    return sum(float(expected[i - 1, ids[i]]) for i in range(len(short), len(ids)))


def slow_letter(model: TransformersModel, one: Request, letter: str, before: Sequence[str]) -> float:
    return float(np.logaddexp.reduce([slow_log_probability(model, one, form + letter) for form in before]))


@pytest.mark.parametrize("family", FAMILIES)
def test_families_answer_batches_as_one_question_alone(family: str, tiny: Any, photos: tuple[str, ...]) -> None:
    texts = ["哪个更辣？答案为：图", "A?", "根据以上四张图回答问题，请从给定选项ABCD中选择一个最合适的答案。答案为：图"]
    shown = [photos, photos[:1], ()]
    requests = [request(text, images, m) for text in texts for images in shown for m in ("generate", "logprob")]
    alone = TransformersModel(tiny(family), batch_size=1, max_new_tokens=6)
    together = TransformersModel(tiny(family), batch_size=4, max_new_tokens=6)
    assert together.capabilities() == Capabilities(prefill=True, logprobs=True, max_images=4, interleaved=True)
    one, many = answered(alone, requests), answered(together, requests)
    for r in requests:
        assert many[r.key].response == one[r.key].response and many[r.key].usage == one[r.key].usage
        if r.method == "logprob":
            for letter in LETTERS:
                assert many[r.key].scores[letter] == pytest.approx(one[r.key].scores[letter], abs=1e-3)
                wanted = slow_letter(alone, r, letter, ["", " ", "（", "(", *(["图"] if r.opening else [])])
                assert one[r.key].scores[letter] == pytest.approx(wanted, abs=5e-3)
            mass = sum(math.exp(score) for score in one[r.key].scores.values())
            assert one[r.key].letter_mass == pytest.approx(mass)
        else:
            assert one[r.key].usage["prompt_tokens"] > 10 + 4 * len(r.images)
    assert len({one[r.key].response for r in requests if r.method == "generate"}) > 3


def test_images_change_the_answer(tiny: Any, photos: tuple[str, ...]) -> None:
    model = TransformersModel(tiny("qwen2_vl"))
    r = request("哪个更辣？答案为：图", photos, "logprob")
    turned = replace(r, key="turned", images=photos[::-1])
    replies = answered(model, [r, turned])
    assert replies[r.key].scores != pytest.approx(replies["turned"].scores, abs=1e-3)


def test_settings_of_the_processor_reach_it_and_misspelt_ones_are_named(tiny: Any, photos: tuple[str, ...]) -> None:
    r = request("?", photos)
    plain = answered(TransformersModel(tiny("qwen2_vl"), max_new_tokens=1), [r])[r.key].usage
    fewer = {"min_pixels": 56 * 56, "max_pixels": 56 * 56}
    small = answered(TransformersModel(tiny("qwen2_vl"), max_new_tokens=1, processor=fewer), [r])[r.key].usage
    assert plain is not None and small is not None and small["prompt_tokens"] < plain["prompt_tokens"]
    plain = answered(TransformersModel(tiny("idefics2"), max_new_tokens=1), [r])[r.key].usage
    split = TransformersModel(tiny("idefics2"), max_new_tokens=1, processor={"do_image_splitting": True})
    more = answered(split, [r])[r.key].usage
    assert plain is not None and more is not None and more["prompt_tokens"] > plain["prompt_tokens"]
    with pytest.raises(InputError, match=r"model\.processor\.max_pixel: .* has no such setting; it has .*max_pixels"):
        TransformersModel(tiny("qwen2_vl"), processor={"max_pixel": 3}).capabilities()


# -------------------------------------------------------------------------------------------------- prompts as texts


def test_every_prefill_mode_renders_as_it_should(tiny: Any) -> None:
    model = TransformersModel(tiny("llama"))
    assert model.capabilities() == Capabilities(prefill=True, logprobs=True, max_images=0)

    def text(prefill: str, begun: str | None = "我选择（") -> str:
        return model._row(request("问？", prefill=prefill, begun=begun)).text

    asked = "<|im_start|>user\n看问？<|im_end|>\n"
    assert text("continue") == f"{asked}<|im_start|>assistant\n我选择（"
    assert text("closed_turn") == f"{asked}<|im_start|>assistant\n我选择（<|im_end|>\n<|im_start|>assistant\n"
    assert text("none", None) == text("inline", None) == f"{asked}<|im_start|>assistant\n"
    with pytest.raises(InputError, match="ends in an assistant turn"):
        text("inline")
    advised = TransformersModel(tiny("llama"), system="简短")
    advised.capabilities()
    assert advised._row(request("问？")).text == f"<|im_start|>system\n简短<|im_end|>\n{asked}<|im_start|>assistant\n"
    given = replace(request("问？"), turns=(Turn("system", ("长",)), Turn("user", ("问",))))
    assert advised._row(given).text.startswith("<|im_start|>system\n长<|im_end|>\n<|im_start|>user")


def test_a_base_model_reads_the_inline_form(tiny: Any, photos: tuple[str, ...]) -> None:
    model = TransformersModel(tiny("gpt2", template=False))
    assert not model.capabilities().prefill
    assert model._row(request("问？")).text == "看问？"
    assert model._row(request("问？", prefill="continue", begun="我选择（")).text == "用户：看问？智能助手：我选择（"
    english = request("Q?", prefill="continue", begun="I choose (")
    english = replace(english, question=replace(english.question, language="en"))
    assert model._row(english).text == "Human: 看Q?Assistant: I choose ("
    with pytest.raises(InputError, match="no turn to close"):
        model._row(request("问？", prefill="closed_turn", begun="我选择（"))
    seeing = TransformersModel(tiny("llava"), chat_template="none", max_new_tokens=2)
    r = request("图", photos)
    assert not seeing.capabilities().prefill and seeing.capabilities().interleaved
    assert seeing._row(r).text == "看<image>图A\n<image>图B\n<image>图C\n<image>图D\n图"
    assert answered(seeing, [r])[r.key].response is not None


MODES = [("continue", "我选择（"), ("continue", "答案为：图"), ("closed_turn", "我选择（"), ("none", None)]


@pytest.mark.parametrize("family", ["llama", "gpt2"])
@pytest.mark.parametrize(("prefill", "begun"), MODES)
def test_letters_of_text_models_equal_a_slow_loop(family: str, prefill: str, begun: str | None, tiny: Any) -> None:
    """GPT-2 has absolute positions: an answer that counted the padding would be another one."""
    model = TransformersModel(tiny(family), batch_size=3)
    texts = ["短？", "问题很长很长很长很长很长很长很长很长很长，对吗（", "请从给定选项ABCD中选择一个（"]
    requests = [request(text, method="logprob", prefill=prefill, begun=begun) for text in texts]
    replies = answered(model, requests)
    for r in requests:
        before = ["", " "]
        if prefill != "continue" or r.opening == "图":
            before += ["（", "("]
        for letter in LETTERS:
            wanted = slow_letter(model, r, letter, before)
            assert replies[r.key].scores[letter] == pytest.approx(wanted, abs=5e-3)
        assert replies[r.key].flags == ()


def test_generation_in_a_padded_batch_with_absolute_positions(tiny: Any) -> None:
    requests = [request("问" * n + "（") for n in (1, 9, 30)]
    many = answered(TransformersModel(tiny("gpt2"), batch_size=3, max_new_tokens=5), requests)
    one = answered(TransformersModel(tiny("gpt2"), batch_size=1, max_new_tokens=5), requests)
    assert {k: r.response for k, r in many.items()} == {k: r.response for k, r in one.items()}
    assert len({r.response for r in one.values()}) > 1


def test_an_opening_that_merges_with_its_letter_is_scored_along(tiny: Any) -> None:
    """The tokenizer has 图A to 图D as tokens of their own: after 图 no letter ever follows."""
    model = TransformersModel(tiny("llama", letters_apart=False))
    r = request("哪个？", method="logprob", prefill="continue", begun="答案为：图")
    reply = answered(model, [r])[r.key]
    tokenizer = model._reader
    prompt = model._row(r).text
    ids = [tokenizer(prompt + letter, add_special_tokens=False).input_ids for letter in LETTERS]
    short = tokenizer(prompt, add_special_tokens=False).input_ids
    assert ids[0][: len(short)] != short
    shared = min(next(i for i, (a, b) in enumerate(zip(x, short, strict=False)) if a != b) for x in ids)
    with torch.no_grad():
        for letter, one in zip(LETTERS, ids, strict=True):
            expected = model._model(torch.tensor([one])).logits[0].log_softmax(-1)
            wanted = sum(float(expected[i - 1, one[i]]) for i in range(shared, len(one)))
            forms = [f" {letter}", f"（{letter}", f"({letter}"]
            other = [tokenizer(prompt + form, add_special_tokens=False).input_ids for form in forms]
            for form in other:
                if form[:shared] == short[:shared] and form != one:
                    expected = model._model(torch.tensor([form])).logits[0].log_softmax(-1)
                    more = sum(float(expected[i - 1, form[i]]) for i in range(shared, len(form)))
                    wanted = float(np.logaddexp(wanted, more))
            assert reply.scores is not None and reply.scores[letter] == pytest.approx(wanted, abs=5e-3)
    assert reply.flags == ("opening_merged",)


@pytest.mark.parametrize("scored", ["text_sum", "text_mean"])
def test_option_texts_can_be_scored_in_place_of_letters(scored: str, tiny: Any, photos: tuple[str, ...]) -> None:
    model = TransformersModel(tiny("llama"), scored=scored, batch_size=3)
    requests = [request(text, method="logprob", prefill="continue", begun="是") for text in ("短？", "长" * 20)]
    replies = answered(model, requests)
    for r in requests:
        sums = [slow_log_probability(model, r, choice) for choice in CHOICES]
        counts = [len(model._reader("是" + c).input_ids) - len(model._reader("是").input_ids) for c in CHOICES]
        assert replies[r.key].extra["text_sum"] == pytest.approx(sums, abs=5e-3)
        wanted = sums if scored == "text_sum" else [s / n for s, n in zip(sums, counts, strict=True)]
        assert list((replies[r.key].scores or {}).values()) == pytest.approx(wanted, abs=5e-3)
        assert replies[r.key].letter_mass is None
    with pytest.raises(InputError, match="the options are images"):
        answered(TransformersModel(tiny("llava"), scored=scored), [request("?", photos, "logprob")])


def test_answers_end_where_the_model_ends_them(tiny: Any, tmp_path: Path) -> None:
    r = request("问？")
    long = answered(TransformersModel(tiny("llama"), max_new_tokens=8), [r])[r.key]
    assert long.finish_reason == "length" and long.usage is not None and long.usage["completion_tokens"] == 8
    model = TransformersModel(tiny("llama"), max_new_tokens=8)
    model._read()
    model._load()
    ids = model._tokenizer(model._row(r).text, return_tensors="pt", add_special_tokens=False)
    third = int(model._model.generate(ids["input_ids"], max_new_tokens=3, do_sample=False)[0, -1])
    folder = shutil.copytree(tiny("llama"), tmp_path / "ending")
    settings = json.loads((folder / "generation_config.json").read_text())
    settings |= {"eos_token_id": [2, third]}
    (folder / "generation_config.json").write_text(json.dumps(settings))
    short = answered(TransformersModel(str(folder), max_new_tokens=8), [r])[r.key]
    assert short.finish_reason == "stop" and short.usage is not None and short.usage["completion_tokens"] <= 3
    assert long.response is not None and short.response is not None and long.response.startswith(short.response)


def test_generation_settings_of_the_model_are_not_heard(tiny: Any, tmp_path: Path) -> None:
    """Some instruct models ask to be sampled, or punish what the prompt has said, such as an option letter."""
    requests = [request("问" * n) for n in range(1, 5)]
    plain = answered(TransformersModel(tiny("llama")), requests)
    folder = shutil.copytree(tiny("llama"), tmp_path / "wishes")
    settings = json.loads((folder / "generation_config.json").read_text())
    settings |= {"do_sample": True, "temperature": 9.0, "repetition_penalty": 90.0, "suppress_tokens": list(range(200))}
    (folder / "generation_config.json").write_text(json.dumps(settings))
    found = answered(TransformersModel(str(folder)), requests)
    assert {k: r.response for k, r in found.items()} == {k: r.response for k, r in plain.items()}
    model = TransformersModel(str(folder))
    model._read()
    with pretrained.loading("x", "x"):
        import transformers

        own = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
    inputs = model._tokenizer(model._row(requests[0]).text, return_tensors="pt", add_special_tokens=False)
    heard = own.generate(inputs["input_ids"], do_sample=False, max_new_tokens=16)[0, inputs["input_ids"].shape[1] :]
    assert model._tokenizer.decode(heard, skip_special_tokens=True) != plain[requests[0].key].response


def test_special_tokens_are_no_part_of_the_answer(tiny: Any) -> None:
    model = TransformersModel(tiny("llama"), max_new_tokens=1)
    r = request("问？")
    model._read()
    model._load()
    with torch.no_grad():  # whatever it reads, it says <|im_start|>
        model._model.lm_head.weight.zero_()
        model._model.lm_head.weight[3] = 1
        model._model.lm_head.weight[5:] = -1
        model._model.model.norm.weight.fill_(1)
    forced = answered(model, [r])[r.key]
    assert "<|" not in (forced.response or "")


def test_drawn_answers_repeat_with_their_seed(tiny: Any) -> None:
    requests = [request(f"问{i}？") for i in range(4)]

    def draw(seed: int) -> list[str | None]:
        model = TransformersModel(tiny("llama"), do_sample=True, temperature=1.0, seed=seed, batch_size=4)
        return [reply.response for _, reply in sorted(answered(model, requests).items())]

    state = torch.random.get_rng_state()
    assert draw(1) == draw(1) != draw(2)
    assert torch.equal(state, torch.random.get_rng_state())
    with pytest.raises(InputError, match=r"model\.temperature=None"):
        TransformersModel("x", do_sample=True)


# -------------------------------------------------------------------------------------------------------- what it is


def test_identity_tells_models_and_settings_apart_and_names_no_folder(tiny: Any, tmp_path: Path) -> None:
    folder = shutil.copytree(tiny("llama"), tmp_path / "some model")

    def identity(**settings: Any) -> dict[str, Any]:
        return TransformersModel(str(folder), **settings).identity()

    plain = identity()
    json.dumps(plain)
    assert plain["model"] == "some model" and str(tmp_path) not in str(plain)
    assert plain["backend"] == "transformers" and plain["version"].startswith("5.")
    assert (plain["dtype"], plain["device"]) == ("float32", "cpu") or torch.cuda.is_available()
    assert identity() == plain == identity(batch_size=3)
    changes: list[dict[str, Any]] = [
        *({"max_new_tokens": 5}, {"dtype": "bfloat16"}, {"image_longest_side": 9}, {"system": "x"}),
        *({"chat_template": "none"}, {"chat_template": CHATML + " "}, {"scored": "text_sum"}),
        *({"do_sample": True, "temperature": 1.0}, {"attn_implementation": "eager"}),
    ]
    seen = [plain, *(identity(**change) for change in changes)]
    weights = folder / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    seen.append(identity())
    assert all(a != b for i, a in enumerate(seen) for b in seen[:i])


def test_large_weights_files_are_sampled_everywhere(tmp_path: Path) -> None:
    content = np.random.default_rng(0).integers(0, 255, 5 << 20, dtype=np.uint8)
    (tmp_path / "model.safetensors").write_bytes(content.tobytes())
    before = pretrained.revision_of(str(tmp_path), None)
    content[2 << 20 :: 1024] ^= 1  # as a training step would: everywhere in a later part
    (tmp_path / "model.safetensors").write_bytes(content.tobytes())
    assert pretrained.revision_of(str(tmp_path), None) != before


def test_nothing_is_written_on_the_terminal(tiny: Any, photos: tuple[str, ...], capfd: Any, recwarn: Any) -> None:
    model = TransformersModel(tiny("qwen2_vl"), processor={"max_pixels": 56 * 56}, max_new_tokens=2)
    answered(model, [request("问", photos), request("问", photos, "logprob")])
    model.close()
    captured = capfd.readouterr()
    assert captured.out == "" and captured.err == ""
    assert not [warning for warning in recwarn if "transformers" in warning.filename]


def test_templates_that_move_images_or_refuse_turns_are_noticed(tiny: Any, tmp_path: Path) -> None:
    first = (
        "{% for m in messages %}{% for p in m.content if p.type == 'image' %}<image>{% endfor %}"
        "{% for p in m.content if p.type == 'text' %}{{ p.text }}{% endfor %}{% endfor %}"
    )
    assert not TransformersModel(tiny("llava"), chat_template=first).capabilities().interleaved
    closing = CHATML.replace("IMAGE", "<image>").replace("<|im_end|>", "{{ '' }}").replace("{{ part.text }}", "x")
    assert not TransformersModel(tiny("llava"), chat_template=closing).capabilities().prefill
    strict = "{% if messages | length > 1 %}{{ raise_exception('roles must alternate') }}{% endif %}" + CHATML
    model = TransformersModel(tiny("llama"), chat_template=strict)
    r = replace(request("问"), turns=(Turn("user", ("一",)), Turn("user", ("二",))))
    with pytest.raises(InputError, match=r"refuses the prompt .*roles must alternate"):
        answered(model, [r])
    assert model._model is None  # said before minutes of loading
    (tmp_path / "own.jinja").write_text("{{ messages[0].content }}!")
    own = TransformersModel(tiny("llama"), chat_template=str(tmp_path / "own.jinja"))
    own.capabilities()
    assert own._row(request("问")).text == "看问!"
    thinking = TransformersModel(
        tiny("llama"), chat_template="{{ messages[0].content }}{{ mood }}", chat_template_kwargs={"mood": "calm"}
    )
    thinking.capabilities()
    assert thinking._row(request("问")).text == "看问calm"


# ------------------------------------------------------------------------------------------------------------ errors


def _one_line(caught: Any) -> None:
    assert "\n" not in str(caught.value)


def test_wrong_settings_are_named() -> None:
    for settings, message in (
        ({"kind_of_model": "video"}, "kind_of_model=video"),
        ({"scored": "words"}, "scored=words"),
        ({"batch_size": 0}, "batch_size=0"),
        ({"max_new_tokens": 0}, "max_new_tokens=0"),
        ({"dtype": "float8"}, "dtype=float8"),
        ({"device": "toaster"}, "device=toaster"),
        ({"device": "cuda:77"}, "device=cuda:77"),
    ):
        with pytest.raises(InputError, match=message) as caught:
            TransformersModel("x", **settings)  # type: ignore[arg-type]
        _one_line(caught)
    with pytest.raises(InputError, match="generate or logprob"):
        TransformersModel("x").check("score")


def test_folders_that_are_no_models_are_named(tiny: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(path: Path | str, message: str, **settings: Any) -> None:
        with pytest.raises(InputError, match=message) as caught:
            answered(TransformersModel(str(path), **settings), [request("问")])
        _one_line(caught)
        assert Path(path).name in str(caught.value)

    refused(tmp_path / "absent", "no such folder")
    (tmp_path / "file").write_text("x")
    refused(tmp_path / "file", "is a file")
    (tmp_path / "empty").mkdir()
    refused(tmp_path / "empty", "its config cannot be loaded")
    no_weights = shutil.copytree(tiny("llama"), tmp_path / "no_weights")
    (no_weights / "model.safetensors").unlink()
    refused(no_weights, "the model cannot be loaded")
    no_words = shutil.copytree(tiny("llama"), tmp_path / "no_words")
    (no_words / "tokenizer.json").unlink()
    refused(no_words, "its tokenizer cannot be loaded")
    cut = shutil.copytree(tiny("llama"), tmp_path / "cut")
    (cut / "model.safetensors").write_bytes((cut / "model.safetensors").read_bytes()[:5000])
    refused(cut, "the model cannot be loaded")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    refused("nobody/nothing", "not in the cache, and the hub cannot be reached", local_files_only=True)
    monkeypatch.setattr(pretrained, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"model\.device_map=auto: needs accelerate"):
        answered(TransformersModel(tiny("llama"), device_map="auto"), [request("问")])


def test_weights_that_would_be_random_are_refused(tiny: Any, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    folder = shutil.copytree(tiny("llama"), tmp_path / "part")
    weights = load_file(folder / "model.safetensors")
    weights.pop("model.layers.1.mlp.up_proj.weight")
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(InputError, match=r"lacks 1 weights .*up_proj"):
        answered(TransformersModel(str(folder)), [request("问")])


def test_a_text_model_says_that_it_sees_nothing(tiny: Any, photos: tuple[str, ...]) -> None:
    with pytest.raises(InputError, match="the model is text-only, and the prompt shows 4 images") as caught:
        answered(TransformersModel(tiny("llama")), [request("问", photos)])
    _one_line(caught)
    with pytest.raises(InputError, match=r"model\.processor: the model is text-only"):
        TransformersModel(tiny("llama"), processor={"max_pixels": 1}).capabilities()


def test_too_little_memory_and_too_long_prompts_say_what_to_set(
    tiny: Any, photos: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = TransformersModel(tiny("llama"), batch_size=5)
    answered(model, [request("问")])

    def full(**_: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory.\nTried to allocate 7 GiB")

    monkeypatch.setattr(model._model, "generate", full)
    with pytest.raises(InputError, match=r"model\.batch_size=5: does not fit .* smaller model\.batch_size") as caught:
        answered(model, [request("问")])
    _one_line(caught)
    assert model._model is None
    with pytest.raises(InputError, match="is longer than the model's 2048"):
        answered(TransformersModel(tiny("llava")), [request("问" * 2000, photos)])


def test_a_processor_that_refuses_is_quoted_in_one_line(
    tiny: Any, photos: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = TransformersModel(tiny("llava"))
    model._read()

    def one_image(*_: Any, images: Any = (), **__: Any) -> None:
        raise ValueError(f"takes one image,\nnot {len(images[0])}")

    monkeypatch.setattr(type(model._reader), "__call__", one_image)
    with pytest.raises(InputError, match=r"refuses a prompt with 4 images \(takes one image, not 4\)") as caught:
        answered(model, [request("问", photos)])
    _one_line(caught)


def test_an_old_transformers_is_refused(tiny: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import transformers

    monkeypatch.setattr(transformers, "__version__", "4.57.1")
    with pytest.raises(InputError, match=r"transformers 4\.57\.1 is too old, 5 or newer"):
        TransformersModel(tiny("llama")).capabilities()
