"""Words of recipes, word2vec, its files; the row scheme, where the port of the reference implementation is two off."""

import io
import itertools
import json
import random
import struct
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch

from data.errors import InputError
from data.records import Recipe
from data.store import digest_of
from data.vocabulary import (
    END,
    REFERENCE_RULES,
    TextCutter,
    Vocabulary,
    Word2VecSettings,
    WordRules,
    cut,
    fit,
    fit_cached,
    ingredient_elements,
    read_word2vec_bin,
    restore_fractions,
    word2vec_corpus,
)

SMALL = Word2VecSettings(vector_size=12, window=3, epochs=3, min_count=2)
LIVELY = replace(SMALL, sample=0)  # of few words, subsampling leaves too little


@dataclass
class Listed:
    """A table whose recipes are a list."""

    recipes: list[Recipe]
    passes: int = 0

    @property
    def digest(self) -> str:
        return digest_of([repr(recipe) for recipe in self.recipes])

    def iter(self, rows):
        self.passes += 1
        return (self.recipes[int(row)] for row in rows)


def recipe(*instructions: str, detected=(), valid=None, ingredients=(), title="", number=0) -> Recipe:
    valid = (True,) * len(detected) if valid is None else valid
    lines = tuple(ingredients) or tuple(detected)
    return Recipe(f"{number:010x}", title, lines, instructions, detected=tuple(detected), valid=tuple(valid))


def corpus_of(count: int, seed: int = 0) -> list[list[str]]:
    rng = random.Random(seed)
    words = [f"word{i}" for i in range(30)]
    return [rng.choices(words, k=rng.randrange(1, 20)) for _ in range(count)]


# ---- words -----------------------------------------------------------------------------------------------------------


def test_punctuation_is_set_off_and_nothing_else():
    text = 'Add 1/2 cup all-purpose flour(sifted), don\'t stir; "wait"... 50% & more: ok?! a*b'
    padded = text
    for mark in ',.;()?!&%:*"':
        padded = padded.replace(mark, f" {mark} ")
    assert cut(text) == padded.split()
    for odd in ("", " \t\n ", "crème\u00a0fraîche", "小麦粉。", "a\x1fb\x85c\u3000d", "...", "🍕.🍕"):
        padded = odd
        for mark in ',.;()?!&%:*"':
            padded = padded.replace(mark, f" {mark} ")
        assert cut(odd) == padded.split()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Heat the olive oil.", "heat the olive_oil ."),
        ("extra virgin olive oil", "extra_virgin_olive_oil"),  # the longest name wins
        ("virgin olive oil, olive oil", "virgin olive_oil , olive_oil"),
        ("olive oils; oil olive", "olive oils ; oil olive"),  # whole words
        ("popcorn oil and corn oil", "popcorn oil and corn_oil"),
        ("all-purpose flour, all purpose flour", "all_-_purpose_flour , all_-_purpose_flour"),
        ("all - purpose flour", "all_-_purpose_flour"),
        ("Olive\tOIL olive", "olive_oil olive"),
        ("half & half", "half_&_half"),
        ("olive", "olive"),
        ("", ""),
    ],
)
def test_names_become_one_word(text, words):
    names = ["olive_oil", "extra_virgin_olive_oil", "corn_oil", "all_-_purpose_flour", "half_&_half", "salt"]
    assert TextCutter(names, WordRules())(text) == words.split()
    assert TextCutter(reversed(names), WordRules())(text) == words.split()


def test_joining_against_a_naive_search():
    rng = random.Random(3)
    letters = ["a", "b", "c"]
    for _ in range(300):
        names = ["_".join(rng.choices(letters, k=rng.randrange(1, 5))) for _ in range(rng.randrange(5))]
        words = rng.choices(letters, k=rng.randrange(12))
        expected, i = [], 0
        while i < len(words):
            for length in range(len(words) - i, 0, -1):
                if length > 1 and "_".join(words[i : i + length]) in names:
                    break
            else:
                length = 1
            expected.append("_".join(words[i : i + length]))
            i += length
        assert TextCutter(names, WordRules())(" ".join(words)) == expected


def test_substring_joining_is_the_plain_replacement():
    rules = replace(REFERENCE_RULES, fractions=False)
    cutter = TextCutter(["olive_oil", "extra_olive_oil", "corn_oil"], rules)
    assert cutter("Extra olive oil, popcorn oils. Olive oil") == [
        "Extra",
        "olive_oil",
        ",",
        "popcorn_oils",
        ".",
        "Olive",
        "oil",
    ]


@pytest.mark.parametrize(
    ("text", "fixed"),
    [
        ("2 12 cups milk", "2 1/2 cups milk"),
        ("12 eggs", "12 eggs"),
        ("1 34 tsp, 1 23 c", "1 3/4 tsp, 1 2/3 c"),
        ("10 18", "10 1/8"),
        ("2 15 ounce cans", "2 15 ounce cans"),  # fifteenths are no fraction of a cup
        ("2 125 g", "2 125 g"),
        ("2.5 12", "2.5 12"),
        ("bake 12 12 minutes", "bake 12 1/2 minutes"),
        ("2 1/2", "2 1/2"),
        ("400 12", "400 12"),
        ("2\t12", "2\t12"),
    ],
)
def test_fractions(text, fixed):
    assert restore_fractions(text) == fixed


def test_ingredient_elements():
    found = recipe(detected=("Olive oil", "2 cups (see note)", "salt", "salt"), valid=(True, False, True, True))
    assert ingredient_elements(found, WordRules()) == ["olive_oil", "salt", "salt"]  # order and repeats stay
    assert ingredient_elements(found, WordRules(lower_case=False))[0] == "Olive_oil"
    assert ingredient_elements(found, WordRules(), valid_only=False)[1] == "2_cups_(see_note)"
    lines = ("1/2 cup extra virgin olive oil, divided", "1 ½ cups milk", "2 1/4 cups plain flour/bread flour", "3 cups")
    raw = recipe(ingredients=lines)
    assert ingredient_elements(raw, WordRules(source="raw"))[0] == "virgin_olive_oil"
    assert ingredient_elements(raw, WordRules(source="raw"))[2] == "plain_flour"
    assert len(ingredient_elements(raw, WordRules(source="raw"))) == 3  # the line without a name has none
    assert ingredient_elements(raw, WordRules()) == []


def test_unknown_rules_are_refused():
    for bad in ({"source": "det"}, {"joining": "word"}):
        with pytest.raises(InputError, match="is unknown; use"):
            WordRules(**bad)
        with pytest.raises(InputError, match="is unknown; use"):
            Word2VecSettings(**bad)
    with pytest.raises(InputError, match="1 or more"):
        Word2VecSettings(window=0)


def test_corpus_is_read_anew_in_each_pass_and_uses_each_recipes_own_names():
    table = Listed(
        [
            recipe("Fry the olive oil.", "Serve.", detected=("olive oil", "corn oil"), valid=(True, False)),
            recipe("Not in the split."),
            recipe("olive oil corn oil", detected=("corn oil",)),
        ]
    )
    corpus = word2vec_corpus(table, np.array([2, 0]))
    expected = [["olive", "oil", "corn_oil"], ["fry", "the", "olive_oil", ".", "serve", "."]]
    assert [list(corpus), list(corpus)] == [expected, expected] and len(corpus) == 2
    assert word2vec_corpus(table, np.array([0, 2])).digest != corpus.digest
    assert word2vec_corpus(table, np.array([2, 0]), Word2VecSettings(lower_case=False)).digest != corpus.digest


# ---- rows ------------------------------------------------------------------------------------------------------------


def vocabulary_of(count: int, size: int = 5, seed: int = 0) -> Vocabulary:
    vectors = np.random.default_rng(seed).standard_normal((count, size)).astype(np.float32) * 3
    return Vocabulary([f"w{i}" for i in range(count)], vectors)


def unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def test_the_word_of_line_j_has_row_j_plus_2():
    vectors = np.random.default_rng(1).standard_normal((7, 3)).astype(np.float32) * 4
    words = ["</s>", "the", "salt", "olive_oil", "crème", "a.b", "last"]
    vocabulary = Vocabulary(words, vectors)
    table = vocabulary.table()
    assert table.shape == (9, 3) and table.dtype == np.float32 and len(vocabulary) == 7
    assert not table[0].any() and abs(np.linalg.norm(table[1]) - 1) < 1e-6
    for line, word in enumerate(words):
        assert vocabulary.rows([word]) == [line + 2] and vocabulary.row(word) == line + 2
        np.testing.assert_allclose(table[line + 2], unit(vectors[line]), atol=1e-6)
    assert vocabulary.rows(["last", "unknown", END, "", "</s>", "last"]) == [8, 2, 8]
    assert "salt" in vocabulary and END not in vocabulary
    assert max(vocabulary.rows(words)) == len(table) - 1  # the last word is inside the table


def test_a_zero_vector_stays_zero():
    assert not Vocabulary(["a", "b"], np.array([[0, 0], [3, 4]], np.float32)).table()[2].any()


@pytest.mark.parametrize(
    ("words", "vectors", "message"),
    [
        (["a", "b", "a"], np.ones((3, 2)), "'a' comes twice"),
        (["a"], np.ones((2, 2)), "do not match"),
        ([], np.ones((0, 2)), "do not match"),
        (["a"], np.ones((1, 0)), "do not match"),
        (["a"], np.ones(1), "do not match"),
        (["a", "b"], np.array([[1.0], [np.nan]]), "'b' is not finite"),
        (["a", END], np.ones((2, 2)), "remove it"),
    ],
)
def test_what_is_no_vocabulary(words, vectors, message):
    with pytest.raises(InputError, match=message):
        Vocabulary(words, vectors)


def test_a_checkpoint_gives_the_same_bits_back():
    vocabulary = Vocabulary(["a", "crème_fraîche", "\ud800"], np.random.rand(3, 7).astype(np.float32), REFERENCE_RULES)
    file = io.BytesIO()
    torch.save({"vocabulary": vocabulary.state_dict()}, file)
    file.seek(0)
    again = Vocabulary.from_state_dict(torch.load(file, weights_only=True)["vocabulary"])
    assert again.words == vocabulary.words and again.rules == REFERENCE_RULES
    assert again.vectors.tobytes() == vocabulary.vectors.tobytes() and again.digest() == vocabulary.digest()
    vocabulary.state_dict()["vectors"].zero_()  # a copy
    assert again.digest() == vocabulary.digest()


@pytest.mark.parametrize(
    "change",
    [
        lambda s: s.pop("words"),
        lambda s: s.update(words=s["words"][:-1]),
        lambda s: s.update(words=[*s["words"][:-1], s["words"][0]]),
        lambda s: s.update(words=[*s["words"][:-1], 3]),
        lambda s: s.update(vectors=s["vectors"].double()),
        lambda s: s.update(vectors=s["vectors"][:, 0]),
        lambda s: s.update(vectors=s["vectors"] * 2),
        lambda s: s.update(vectors=[1, 2]),
        lambda s: s["vectors"].fill_(float("nan")),
        lambda s: s.update(rules={"joining": "never"}),
        lambda s: s.update(rules={"surprise": 1}),
        lambda s: s.update(rules=None),
    ],
)
def test_a_damaged_state_is_refused(change):
    state = vocabulary_of(4).state_dict()
    change(state)
    with pytest.raises(InputError, match=r"vocabulary of the checkpoint: .*; train again$"):
        Vocabulary.from_state_dict(state)


def test_digest_depends_on_all():
    base = vocabulary_of(4)
    swapped = Vocabulary([*base.words[1:], base.words[0]], base.vectors)
    ruled = Vocabulary(base.words, base.vectors, REFERENCE_RULES)
    digests = {v.digest() for v in (base, vocabulary_of(4, seed=1), swapped, ruled, vocabulary_of(3))}
    assert len(digests) == 5


# ---- fitting ---------------------------------------------------------------------------------------------------------


def test_fit_is_the_same_each_time_and_near_words_are_near():
    rng = random.Random(0)
    groups = [["beef", "pork", "lamb"], ["sugar", "honey", "syrup"]]
    corpus = [[rng.choice(group), *rng.sample([f"{i}{k}" for k in range(5)], 3)]
              for _ in range(300) for i, group in enumerate(groups)]  # fmt: skip
    one, two = fit(corpus, LIVELY), fit(iter(corpus), LIVELY)
    assert one.digest() == two.digest() and one.words == two.words
    assert fit(corpus, replace(LIVELY, seed=9)).digest() != one.digest()
    table = one.table()
    beef, pork, sugar = (table[one.rows([word])[0]] for word in ("beef", "pork", "sugar"))
    assert beef @ pork > beef @ sugar
    np.testing.assert_allclose(np.linalg.norm(one.vectors, axis=1), 1, atol=1e-6)


def test_fit_uses_gensims_word2vec_with_hierarchical_softmax():
    from gensim.models import Word2Vec

    corpus = corpus_of(60)
    model = Word2Vec(corpus, vector_size=12, window=3, min_count=2, sg=1, hs=1, negative=0, sample=1e-3, workers=1,
                     epochs=3, seed=1234)  # fmt: skip
    fitted = fit(corpus, SMALL)
    assert fitted.words == model.wv.index_to_key
    np.testing.assert_allclose(fitted.vectors, unit(model.wv.vectors), atol=1e-5)


def test_the_defaults_are_the_references():
    s = Word2VecSettings()
    assert (s.vector_size, s.window, s.epochs, s.min_count) == (300, 10, 10, 10)


@pytest.mark.parametrize("corpus", [[], [[]], [["once"], ["only"]], [[END, END, END]]])
def test_nothing_to_learn_from(corpus):
    with pytest.raises(InputError, match="no word occurs 2 times"):
        fit(corpus, SMALL)


def test_one_word_and_odd_words():
    with pytest.raises(InputError, match="one word occurs 2 times"):  # gensim waits for ever
        fit([["salt", "salt"]], LIVELY)
    odd = ["crème", "小麦粉", "\ud800", "🍕", "a_b", "</s>"]
    assert sorted(fit([odd, odd, [END]], SMALL).words) == sorted(odd)
    for bad in ("olive oil", "", "a\nb", "a\u3000b"):
        with pytest.raises(InputError, match="is no word"):
            fit([["a", bad]] * 3, SMALL)


def test_cached_once_and_keyed_by_content(tmp_path):
    corpus = corpus_of(40)
    first = fit_cached(tmp_path, corpus, SMALL)
    assert first.digest() == fit_cached(tmp_path, corpus, SMALL).digest()
    assert len(list((tmp_path / "word2vec").glob("[!.]*"))) == 1
    fit_cached(tmp_path, corpus[1:], SMALL)
    fit_cached(tmp_path, corpus, replace(SMALL, seed=2))
    folders = sorted((tmp_path / "word2vec").glob("[!.]*"))
    assert len(folders) == 3 and sorted(p.name for p in folders[0].iterdir()) == [
        "manifest.json", "vectors.npy", "words.json",
    ]  # fmt: skip


def test_cached_by_the_tables_digest_and_mended_when_damaged(tmp_path, caplog):
    table = Listed([recipe("salt and pepper", "pepper and salt", number=i) for i in range(5)])
    corpus = word2vec_corpus(table, np.arange(5), SMALL)
    first = fit_cached(tmp_path, corpus, SMALL)
    passes = table.passes
    assert fit_cached(tmp_path, corpus, SMALL).digest() == first.digest() and table.passes == passes
    (words,) = tmp_path.glob("word2vec/*/words.json")
    words.write_text(json.dumps(["x"]))
    assert fit_cached(tmp_path, corpus, SMALL).digest() == first.digest() and "damaged" in caplog.text
    with pytest.raises(InputError, match="use the same ones"):
        fit_cached(tmp_path, corpus, replace(SMALL, lower_case=False))


# ---- word2vec binaries -----------------------------------------------------------------------------------------------


def binary(words: list[str], vectors: np.ndarray, newline: bytes = b"\n") -> bytes:
    head = f"{len(words)} {vectors.shape[1]}\n".encode()
    return head + b"".join(
        word.encode() + b" " + struct.pack(f"<{len(row)}f", *row) + newline
        for word, row in zip(words, vectors, strict=True)
    )


@pytest.mark.parametrize(("count", "size", "newline"), itertools.product((1, 2, 7), (1, 3, 300), (b"\n", b"")))
def test_binary_words_keep_their_line(tmp_path, count, size, newline):
    words = ["</s>", "the", "olive_oil", "crème", "x" * 100, ".", "last"][:count]
    vectors = np.random.default_rng(count).standard_normal((count, size)).astype(np.float32)
    vectors.view(np.uint8)[0, :2] = [0x20, 0x0A]  # bytes of numbers may look like a space or a line end
    path = tmp_path / "vocab.bin"
    path.write_bytes(binary(words, vectors, newline))
    vocabulary = read_word2vec_bin(path)
    assert vocabulary.words == words and vocabulary.rules == REFERENCE_RULES
    assert vocabulary.rows([words[0], words[-1]]) == [2, count + 1]
    np.testing.assert_allclose(vocabulary.table()[[2, count + 1]], unit(vectors[[0, -1]]), atol=1e-6)
    assert vocabulary.table().shape == (count + 2, size)


def test_binary_of_gensim(tmp_path):
    from gensim.models import KeyedVectors

    vectors = np.random.rand(5, 4).astype(np.float32)
    kept = KeyedVectors(4)
    kept.add_vectors(["</s>", "b", "ç", "d_e", "f"], vectors)
    kept.save_word2vec_format(str(tmp_path / "v.bin"), binary=True)
    read = read_word2vec_bin(tmp_path / "v.bin", WordRules())
    assert read.words == kept.index_to_key and read.rules == WordRules()
    np.testing.assert_allclose(read.vectors, unit(vectors), atol=1e-6)


GOOD = binary(["</s>", "a", "b"], np.arange(1, 13, dtype=np.float32).reshape(3, 4))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is empty"),
        (b"\x1f\x8b\x08" + GOOD, "packed"),
        (b"PK\x03\x04 whatever", "no word2vec binary"),
        (b"3\n" + GOOD[4:], "no word2vec binary"),
        (b"-3 4\n" + GOOD[4:], "no word2vec binary"),
        (b"999999999 300\n" + GOOD[4:], "do not hold that"),
        (b"3 999999\n" + GOOD[4:], "do not hold that"),
        (b"99999999999999999999 300\n" + GOOD[4:], "no word2vec binary"),
        (b"0 4\n", "do not hold that"),
        (b"3 0\n" + GOOD[4:], "do not hold that"),
        (GOOD[:-20], "do not hold that|breaks off"),
        (GOOD[:-2], "breaks off"),
        (GOOD[:6], "do not hold that"),
        (GOOD + b"more", "goes on"),
        (b"2 4\n" + GOOD[4:], "goes on"),
        (GOOD.replace(b"\nb ", b"\na "), "'a' comes twice"),
        (GOOD.replace(struct.pack("<f", 12), struct.pack("<f", float("nan"))), "'b' is not finite"),
        (b"the 0.1 0.2\nsalt 0.3 0.4\n", "no word2vec binary"),
    ],
)
def test_damaged_binaries_are_named(tmp_path, data, message):
    path = tmp_path / "vocab.bin"
    path.write_bytes(data)
    with pytest.raises(InputError, match=message) as error:
        read_word2vec_bin(path)
    assert str(path) in str(error.value) and "\n" not in str(error.value)


def test_every_truncation_is_an_input_error(tmp_path):
    path = tmp_path / "vocab.bin"
    for length in range(len(GOOD) - 1):  # the last byte is a line end that need not be there
        path.write_bytes(GOOD[:length])
        with pytest.raises(InputError):
            read_word2vec_bin(path)


def test_absent_binary(tmp_path):
    for path in (tmp_path / "none.bin", tmp_path):
        with pytest.raises(InputError, match=r"the vocabulary cannot be read .*; check the path"):
            read_word2vec_bin(path)


def test_real_recipes(shared: Path):
    folder = shared / "data/recipe1m/recipe1m_one_aligned"
    layer = {entry["id"]: entry for entry in json.loads((folder / "layer1.json").read_text())}
    found = json.loads((folder / "det_ingrs.json").read_text())
    recipes = []
    for entry in found:
        texts = tuple(item["text"] for item in entry["ingredients"])
        steps = (item["text"] for item in layer[entry["id"]]["instructions"])
        recipes.append(recipe(*steps, detected=texts, valid=entry["valid"]))
    names = ingredient_elements(recipes[0], WordRules())
    assert len(names) == 11 and "all_-_purpose_flour" in names and "unsalted_butter" in names
    fitted = fit(word2vec_corpus(Listed(recipes), np.arange(len(recipes))), SMALL)
    assert "the" in fitted and "The" not in fitted
