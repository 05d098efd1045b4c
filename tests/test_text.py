import hashlib
import io
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console

from data.errors import InputError
from data.text import (
    Doc2VecEncoder,
    Doc2VecSettings,
    IngredientJoiner,
    ingredient_names,
    neighbour_table,
    tokenise,
)

ROOT = Path(__file__).resolve().parents[1]
SMALL = Doc2VecSettings(vector_size=12, epochs=5, infer_epochs=5, sample=1e-2)
WORDS = "butter margarine flour sugar oven bake mix stir add the and until olive oil salt pepper onion fry pan".split()  # noqa: SIM905


def texts_of(n, seed=0):
    draw = np.random.default_rng(seed)
    return [" ".join(draw.choice(WORDS, size=draw.integers(1, 30))) + f" odd{i}" for i in range(n)]


@pytest.fixture(scope="module")
def encoder():
    return Doc2VecEncoder.fit(texts_of(120), SMALL, ["olive oil"])


@pytest.mark.parametrize(
    "text,words",
    [
        ("Mix, peel & butter!", ["mix", "peel", "butter"]),
        ("Measuring cupBowlBeef StockBacon", ["measuring", "cup", "bowl", "beef", "stock", "bacon"]),
        ("BBQ 350F 1/2 cup", ["bbq", "350f", "1", "2", "cup"]),
        ("olive_oil don't", ["olive", "oil", "don", "t"]),
        ("Crème brûlée, jalapeño; 米饭", ["crème", "brûlée", "jalapeño", "米饭"]),
        ("cre\u0300meÉclair", ["crème", "éclair"]),
        ("  \n ...", []),
        ("", []),
    ],
)
def test_tokens(text, words):
    assert tokenise(text) == words


def test_case_joins_are_a_setting():
    assert tokenise("cupBowl", split_case_joins=False) == ["cupbowl"]
    assert tokenise("iPhone McCoy aBcD") == ["i", "phone", "mc", "coy", "a", "bc", "d"]


def test_ingredients_are_joined_longest_first():
    joiner = IngredientJoiner(["olive oil", "extra-virgin_olive oil", "Salt", "oil spray"])
    words = tokenise("Extra virgin olive oil, olive oil spray and olives, salt oil")
    assert joiner.join(words) == ["extra_virgin_olive_oil", "olive_oil", "spray", "and", "olives", "salt", "oil"]
    assert joiner.join([]) == [] and IngredientJoiner().join(["a", "b"]) == ["a", "b"]
    # One compound, whichever way a list spells it.
    for name in ("olive oil", "olive_oil", "olive-oil", "Olive Oil"):
        assert IngredientJoiner([name]).join(["olive", "oil"]) == ["olive_oil"]


def test_ingredient_names_from_recipe_lines():
    lines = [
        "2 cups (480 ml) virgin olive oil, divided",
        "1 tbsp virgin olive oil",
        "1½ teaspoons baking powder",
        "Baking powder",
        "3 cloves garlic, minced",
        "100 g freshly grated parmesan cheese for topping",
        "salt or sea salt",
        "1 lb ground beef",
    ]
    assert ingredient_names(lines) == ["baking powder", "virgin olive oil"]
    assert "parmesan cheese" not in ingredient_names(lines, min_count=1)  # "for topping" makes it another name
    assert ingredient_names([]) == []


def test_released_ingredient_file(shared):
    names = json.loads((shared / "data/recipeqa/recipeqa_ingredients_new.json").read_text())
    joiner = IngredientJoiner(name for recipe in names.values() for name in recipe)
    assert joiner.join(tokenise("Stir the baking powder into the cream cheese")) == [
        "stir", "the", "baking_powder", "into", "the", "cream_cheese",
    ]  # fmt: skip


def test_every_text_is_encoded_alone(encoder):
    texts = texts_of(120) + texts_of(40, seed=9)
    vectors = encoder.encode(texts)
    assert vectors.shape == (160, 12) and vectors.dtype == np.float32 and np.isfinite(vectors).all()
    order = np.random.default_rng(3).permutation(160)
    np.testing.assert_array_equal(encoder.encode([texts[i] for i in order]), vectors[order])
    for i in (0, 7, 159):
        np.testing.assert_array_equal(encoder.encode([texts[i]])[0], vectors[i])
    for threads in (1, 2, 3):
        np.testing.assert_array_equal(encoder.encode(texts, threads=threads), vectors)
    assert np.linalg.norm(vectors, axis=1).min() > 0


@pytest.mark.parametrize("text", ["", "   ", "@placeholder", "unheard of xyzzy", "odd3"])
def test_text_without_a_known_word_is_zero(encoder, text):
    assert not encoder.encode([text, "butter"])[0].any()


def test_same_words_same_vector(encoder):
    first, second, third = encoder.encode(["Add butter!", "add BUTTER xyzzy", "butter add"])
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first, third)


@pytest.mark.parametrize("more", [{"dm": 0}, {"dm": 0, "dbow_words": 1}, {"document": "word_mean"}, {"sample": 0.0}])
def test_other_settings(more):
    fitted = Doc2VecEncoder.fit(texts_of(80), replace(SMALL, **more))
    vectors = fitted.encode(texts_of(80))
    assert np.isfinite(vectors).all() and vectors.any(1).all()
    if "document" in more:
        known = [word for word in tokenise(texts_of(80)[0]) if word in fitted.words]
        mean = np.mean([fitted.unit_vectors[fitted.words.index(word)] for word in known], axis=0)
        np.testing.assert_allclose(vectors[0], mean, atol=1e-6)


def reference_inference(encoder, words):
    """PV-DM with the rest of the model fixed (Le and Mikolov 2014, section 2.2), a word and a sample at a time."""
    s = encoder.settings
    index = [encoder.words.index(word) for word in words]
    seed = hashlib.sha256(f"{s.seed} {' '.join(words)}".encode()).digest()
    raw = hashlib.shake_128(bytes(8) + seed).digest(8 * s.infer_epochs + 2 * s.infer_epochs * len(words))
    integers = [int.from_bytes(raw[4 * i : 4 * i + 4], "little") >> 8 for i in range(2 * s.infer_epochs)]
    rest = raw[8 * s.infer_epochs :]
    windows = [int.from_bytes(rest[2 * i : 2 * i + 2], "little") % s.window for i in range(len(rest) // 2)]
    vector = np.zeros(s.vector_size)
    for epoch in range(s.infer_epochs):
        alpha = s.infer_alpha + (s.min_alpha - s.infer_alpha) * epoch / (s.infer_epochs - 1)
        state = integers[2 * epoch] * 2**24 + integers[2 * epoch + 1]
        for i, target in enumerate(index):
            reach = s.window - windows[epoch * len(words) + i]
            context = [j for k, j in enumerate(index) if k != i and abs(k - i) <= reach]
            hidden = (encoder.word_vectors[context].sum(0) + vector) / (len(context) + 1)
            step = np.zeros(s.vector_size)
            for sample in range(1 + s.negative):
                drawn = target
                if sample:
                    drawn = np.searchsorted(encoder.cumulative, (state >> 16) % encoder.cumulative[-1])
                    state = (state * 25214903917 + 11) % 2**48
                    if drawn == target:
                        continue
                truth = 1.0 if sample == 0 else 0.0
                # gensim reads the logistic function from a table of 1,000 steps over -6..6, rounded down.
                place = int((encoder.hidden[drawn] @ hidden + 6) * 83)
                step += alpha * (truth - 1 / (1 + np.exp(6 - place * 0.012))) * encoder.hidden[drawn]
            vector += step
    return vector


@pytest.mark.parametrize(
    "text", ["butter", "stir the flour and sugar", "Add salt and olive oil. Fry onion until ready"]
)
def test_inference_is_the_reference_one(text):
    fitted = Doc2VecEncoder.fit(texts_of(120), replace(SMALL, sample=0.0), ["olive oil"])
    words = [word for word in fitted.tokens(text) if word in fitted.words]
    wanted = reference_inference(fitted, words)
    np.testing.assert_allclose(fitted.encode([text])[0], wanted, atol=1e-3 * np.abs(wanted).max())


def test_checkpoint_opens_without_pickle_and_scores_the_same(encoder, tmp_path):
    torch.save({"text": encoder.state_dict()}, tmp_path / "a.ckpt")
    again = Doc2VecEncoder.from_state_dict(torch.load(tmp_path / "a.ckpt", weights_only=True)["text"])
    texts = [*texts_of(30, seed=4), "Fry onion in oliveOil and olive oil"]
    np.testing.assert_array_equal(again.encode(texts), encoder.encode(texts))
    assert again.digest() == encoder.digest() and again.settings == encoder.settings


@pytest.mark.parametrize("break_it", [
    lambda s: s.pop("hidden"), lambda s: s["words"].append("more"), lambda s: s.update(settings={"colour": 1}),
    lambda s: s.update(word_vectors=s["word_vectors"][:, :3]), lambda s: s.update(keep=s["keep"][:-1]),
])  # fmt: skip
def test_state_of_another_kind(encoder, break_it):
    state = encoder.state_dict()
    state["words"] = list(state["words"])
    break_it(state)
    with pytest.raises(InputError, match="train again"):
        Doc2VecEncoder.from_state_dict(state)


def test_digest_sees_every_part(encoder):
    others = [
        Doc2VecEncoder.fit(texts_of(120), replace(SMALL, infer_epochs=6), ["olive oil"]),
        Doc2VecEncoder.fit(texts_of(120), replace(SMALL, seed=2), ["olive oil"]),
        Doc2VecEncoder.fit(texts_of(120), SMALL, ["olive oil", "baking powder"]),
        Doc2VecEncoder.fit(texts_of(121), SMALL, ["olive oil"]),
    ]
    assert len({encoder.digest(), *(other.digest() for other in others)}) == 5
    assert Doc2VecEncoder.fit(texts_of(120), SMALL, ["olive_oil"]).digest() == encoder.digest()


def test_same_bits_in_every_process(encoder):
    code = f"""
import sys, hashlib
sys.path[:0] = [{str(ROOT)!r}, {str(ROOT / "tests")!r}]
from test_text import SMALL, texts_of
from data.text import Doc2VecEncoder
encoder = Doc2VecEncoder.fit(texts_of(120), SMALL, ["olive oil"])
print(encoder.digest(), hashlib.sha256(encoder.encode(texts_of(100, seed=5)).tobytes()).hexdigest())
"""
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONHASHSEED": seed}
        )
        for seed in ("0", "1", "random")
    ]
    printed = {process.communicate(timeout=120)[0] for process in processes}
    assert len(printed) == 1 and printed.pop().startswith(encoder.digest())


def test_fitted_encoder_is_cached_by_content(tmp_path, monkeypatch):
    texts = texts_of(60)
    first = Doc2VecEncoder.fit_cached(tmp_path, texts, SMALL)
    assert not [path for path in tmp_path.rglob("*") if path.suffix in (".pkl", ".pickle", ".model")]
    with monkeypatch.context() as patch:
        patch.setattr(Doc2VecEncoder, "fit", lambda *_: pytest.fail("fitted again"))
        second = Doc2VecEncoder.fit_cached(tmp_path, texts, SMALL)
    assert first.digest() == second.digest()
    Doc2VecEncoder.fit_cached(tmp_path, texts, replace(SMALL, seed=2))
    Doc2VecEncoder.fit_cached(tmp_path, texts, SMALL, ["olive oil"])
    Doc2VecEncoder.fit_cached(tmp_path, texts[1:], SMALL)
    assert len([path for path in (tmp_path / "doc2vec").iterdir() if path.is_dir()]) == 4
    for file in ("arrays.npz", "words.json"):
        for path in (tmp_path / "doc2vec").rglob(file):
            path.write_bytes(path.read_bytes()[:-7])
        assert Doc2VecEncoder.fit_cached(tmp_path, texts, SMALL).digest() == first.digest()


@pytest.mark.parametrize("texts", [[], ["", "  "], ["one two", "three four"]])
def test_nothing_to_fit_on(texts):
    with pytest.raises(InputError, match=r"min_count"):
        Doc2VecEncoder.fit(texts, SMALL)


def test_wrong_settings():
    for wrong in ({"document": "mean"}, {"negative": 0}, {"infer_epochs": 0}):
        with pytest.raises(InputError):
            replace(SMALL, **wrong)


def test_nearest_words_and_texts(encoder):
    neighbours = encoder.nearest_words("butter", 4)
    scores = encoder.unit_vectors @ encoder.unit_vectors[encoder.words.index("butter")]
    assert [word for word, _ in neighbours] == [encoder.words[i] for i in np.argsort(-scores)[1:5]]
    assert encoder.nearest_words("Olive oil", 2)[0][1] <= 1
    with pytest.raises(InputError, match="xyzzy"):
        encoder.nearest_words("xyzzy")
    corpus = [*texts_of(50), "", "salt salt", "salt salt"]
    vectors = encoder.encode(corpus)
    found = encoder.nearest_texts("salt", corpus, vectors, 60)
    assert len(found) == 52 and len({text for text, _ in found}) == 52  # repeats once
    assert [score for _, score in found] == sorted((score for _, score in found), reverse=True)
    assert "salt" not in [text for text, _ in encoder.nearest_texts("salt", ["salt", "oil"], vectors[:2], 5)]
    console = Console(file=io.StringIO(), width=80)
    console.print(neighbour_table("butter", neighbours))
    assert neighbours[0][0] in console.file.getvalue()
