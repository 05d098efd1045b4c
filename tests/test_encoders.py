"""A pretrained encoder of the user's as evidence: vectors, cosines of titles and of pictures with steps, whole runs."""

import json

import numpy as np
import pytest
import torch

from data.choice import ChoiceData
from data.encoders import StoredEncoder
from data.errors import InputError
from data.evidence import CHANNELS, ENCODER, Evidence
from data.records import PLACEHOLDER, Question, Step
from models.aligned_reader import AlignedReader, _of_arrangements
from models.sentences import SentenceEncoder
from tests.made_up import image_names, write_images
from tests.runs import SMALL_READER, run, small_files
from tests.tiny_models import save_tiny_clip, tiny_tokenizer

TEXTS = ["Whisk the eggs", "Bake", "", "Serve with a slice of lemon and some of the butter", "Bake"]


def save_tiny_bert(folder, **more):
    import transformers as t

    tokenizer = tiny_tokenizer(model_max_length=64)
    torch.manual_seed(0)
    config = t.BertConfig(
        vocab_size=len(tokenizer), hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2,
        max_position_embeddings=64, **more,
    )  # fmt: skip
    t.BertModel(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    return save_tiny_bert(tmp_path_factory.mktemp("bert"))


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    return save_tiny_clip(tmp_path_factory.mktemp("clip"))


def stored(encoder, folder):
    return StoredEncoder(encoder, folder, lambda names: lambda name: folder / name)


def test_a_sentence_is_the_mean_of_its_words_states(bert):
    import transformers as t

    found = SentenceEncoder(str(bert), batch_size=2).text_vectors([text for text in TEXTS if text])
    tokenizer, model = t.AutoTokenizer.from_pretrained(bert), t.AutoModel.from_pretrained(bert).eval()
    for text, vector in zip([text for text in TEXTS if text], found, strict=True):
        with torch.no_grad():
            states = model(**tokenizer([text], return_tensors="pt")).last_hidden_state[0]
        mean = states.mean(0)
        assert np.allclose(vector, (mean / mean.norm()).numpy(), atol=1e-5)


def test_texts_are_embedded_once_and_empty_ones_are_zeros(bert, tmp_path):
    encoder = SentenceEncoder(str(bert))
    asked = []
    inner = encoder.text_vectors
    encoder.text_vectors = lambda texts: asked.extend(texts) or inner(texts)
    first = stored(encoder, tmp_path).texts(TEXTS)
    again = stored(encoder, tmp_path).texts(TEXTS)
    assert np.array_equal(first, again) and not first[2].any() and np.array_equal(first[1], first[4])
    assert sorted(t for t in asked if t != "a") == sorted({t for t in TEXTS if t})  # "a" asks for the size


@pytest.mark.parametrize("settings", [{"max_length": 0}, {"batch_size": 0}])
def test_wrong_settings_are_one_line(bert, settings):
    with pytest.raises(InputError, match=f"data.encoder.{next(iter(settings))}=0"):
        SentenceEncoder(str(bert), **settings)


def test_what_is_no_encoder_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"data.encoder.path=.*nothing: no such folder"):
        stored(SentenceEncoder(str(tmp_path / "nothing")), tmp_path)


def textual():
    steps = tuple(Step(body) for body in ("Whisk the eggs", "", "Bake it", "Serve with lemon", "Eat"))
    choices = (("Bake",), ("",), ("Eat",), ("Lemon",))
    return Question("q", "r", "textual_cloze", "train", steps, ("Eggs", PLACEHOLDER, "Oven", ""), choices, 0)


def test_titles_are_compared_with_steps(bert, tmp_path):
    encoder = SentenceEncoder(str(bert))
    fitted = Evidence.fit([textual()], encoder=stored(encoder, tmp_path))
    assert fitted.channels == (*CHANNELS, ENCODER)
    encoded = fitted.encode([textual()]).evidence[0]
    assert encoded.shape == (len(CHANNELS) + 1, 8, 5)
    titles = ["Eggs", "", "Oven", "", "Bake", "", "Eat", "Lemon"]
    for i, title in enumerate(titles):
        for t, step in enumerate(textual().context):
            if title and step.body:
                left, right = encoder.text_vectors([title, step.body])
                assert encoded[-1, i, t] * fitted.channel_scale[-1] == pytest.approx(float(left @ right), abs=1e-5)
            else:
                assert encoded[-1, i, t] == 0
    # The other kinds are what they are without an encoder.
    plain = Evidence.fit([textual()]).encode([textual()]).evidence[0]
    assert np.array_equal(encoded[:-1], plain)
    again = Evidence.from_state_dict(fitted.state_dict(), stored(encoder, tmp_path))
    assert again.digest() == fitted.digest()
    assert np.array_equal(again.encode([textual()]).evidence[0], encoded)


@pytest.mark.parametrize("task", ["visual_cloze", "visual_coherence", "visual_ordering"])
def test_evidence_follows_the_arrangement_of_each_choice(task):
    elements = 4 if task == "visual_ordering" else 1
    evidence = torch.arange(4 + 4 * elements, dtype=torch.float32).view(1, -1, 1).expand(2, -1, 3)
    place = torch.tensor([[False, True, False, False], [False, False, False, True]])
    batch = {
        "task": task,
        "choices": torch.zeros(2, 4, elements, dtype=torch.long),
        "placeholder": place if task == "visual_cloze" else torch.zeros(2, 4, dtype=torch.bool),
    }
    found = _of_arrangements(evidence, batch)[..., 0]
    for b in range(2):
        for k in range(4):
            if task == "visual_cloze":
                wanted = [4 + k if place[b, i] else i for i in range(4)]
            elif task == "visual_coherence":
                wanted = [4 + j for j in range(4) if j != k]
            else:
                wanted = [4 + 4 * k + j for j in range(4)]
            assert found[b, k].tolist() == wanted


def test_pictures_need_an_encoder_of_pictures(bert, tmp_path):
    with pytest.raises(InputError, match="embeds texts alone"):
        stored(SentenceEncoder(str(bert)), tmp_path).pictures(["a_1_0.jpg"])


def test_without_names_its_channel():
    assert "pictures.encoder" in dict(AlignedReader(image_size=8, channels=(*CHANNELS, ENCODER)).named_parameters())
    assert "pictures.encoder" not in dict(AlignedReader(image_size=8).named_parameters())
    AlignedReader(without=[ENCODER])


@pytest.mark.slow
def test_runs_with_encoders(bert, clip, tmp_path):
    files = small_files(tmp_path / "text")
    bert_config = f"data.encoder={{_target_: models.sentences.SentenceEncoder, path: {bert}}}"
    run("train", tmp_path / "a", [*files, "model=aligned_reader", bert_config, *SMALL_READER])
    checkpoint = f"ckpt_path={tmp_path}/a/checkpoints/best.ckpt"
    run("evaluate", tmp_path / "e", [checkpoint, "sanity=false", "logger=[]"])
    assert (tmp_path / "e" / "predictions.jsonl").read_text() == (tmp_path / "a" / "predictions.jsonl").read_text()

    files = small_files(tmp_path / "picture", "visual_cloze", 24)
    names = []
    for split in ("train", "val", "test"):
        names += image_names(json.loads((tmp_path / "picture" / f"{split}.json").read_text())["data"])
    write_images(tmp_path / "picture" / "images-qa" / "train" / "images-qa", names)
    files += [f"data.images={tmp_path}/picture", "features=efficientnet_lite0"]
    clip_config = f"data.encoder={{_target_: models.clip.DualEncoder, path: {clip}}}"
    run("train", tmp_path / "b", [*files, "model=aligned_reader", clip_config, *SMALL_READER])
    scores = [json.loads(x)["scores"] for x in (tmp_path / "b" / "predictions.jsonl").read_text().splitlines()]
    assert np.isfinite(scores).all()
    with pytest.raises(InputError, match="embeds texts alone"):
        run("train", tmp_path / "c", [*files, "model=aligned_reader", bert_config, *SMALL_READER])


def test_another_encoder_is_refused(bert, tmp_path):
    from data.text import Doc2VecSettings

    encoder = SentenceEncoder(str(bert))
    data = ChoiceData("x", ["textual_cloze"], Doc2VecSettings(), encoder=None)
    with pytest.raises(InputError, match="another encoder"):
        data._same_encoder({"encoder_digest": "other"}, "a.ckpt")
    data.pretrained = encoder
    with pytest.raises(InputError, match="another encoder"):
        data._same_encoder({}, "a.ckpt")
