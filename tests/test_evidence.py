"""Evidence against a slow reference: dictionaries and loops, one pair of texts at a time."""

import io
import math
import random
import re
import unicodedata
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.utils import murmurhash3_32

from data.encoding import encode, step_text, visible_texts
from data.errors import InputError
from data.evidence import CHANNELS, STYLE_SIZE, Evidence, EvidenceSettings, stem, stems, style_of
from data.records import PLACEHOLDER, Question, Step

WORDS = ["baking", "mix", "the", "flour", "Flour", "eggs", "whisked", "oven", "pan", "cookies", "Serve", "stir"]
WORDS += ["stirring", "hot", "dough", "2", "cupBowl"]


def question(bodies, titles, choices, place=0, number=0, answer=0):
    """A textual-cloze question; `titles` are the three that are shown."""
    shown = (*titles[:place], PLACEHOLDER, *titles[place:])
    context = tuple(Step(body, images=()) for body in bodies)
    return Question(
        f"q{number}", f"r{number}", "textual_cloze", "train", context, shown, tuple((c,) for c in choices), answer
    )


def visual(bodies, titles, number=0):
    context = tuple(Step(body, title=title) for body, title in zip(bodies, titles, strict=True))
    names = tuple(f"a_{i}_0.jpg" for i in range(4))
    choices = tuple((name,) for name in names)
    return Question(f"v{number}", f"r{number}", "visual_coherence", "train", context, names, choices, 0)


def drawn(n, seed=0, steps=7, words=9):
    """Questions of random words."""
    rng = random.Random(seed)

    def text(most):
        return " ".join(rng.choice(WORDS) for _ in range(rng.randint(0, most)))

    return [
        question(
            [text(words) + rng.choice(["", ".", "!"]) for _ in range(rng.randint(1, steps))],
            [text(4) for _ in range(3)],
            [text(4) for _ in range(4)],
            rng.randrange(4),
            number,
            rng.randrange(4),
        )
        for number in range(n)
    ]


LONG = " ".join(WORDS[i % 16] + str(i % 90) for i in range(6000))
ODD = [
    question(["Mix flour.", "", "Bake it"], ["", "Bake", "   "], ["", "Mix", "Mix mix mixing", "?!"], 1, 100),
    question(["Only one step of baking"], ["Ingredients", "Baking", "Serve"], ["a", "b", "Step", "baking"], 3, 101),
    question(["zyxw vuts", "qqq"], ["unheard", "of", "words"], ["zyxw", "vuts", "pon", "qqq qqq"], 2, 102),
    question(
        ["Pure\u0301eAdd cre\u0300me bru\u0302le\u0301e 🍰", "面团 揉好", "ſtraße ÉclairÉclair"],
        ["Pur\u00e9e", "面团", "🍰"],
        ["cr\u00e8me br\u00fbl\u00e9e", "ÉCLAIR", "add", "ﬁlling"],
        0,
        103,
    ),
    question(
        ["Measuring cupBowlBeef Stock", "b_beef"], ["Bowl", "Cup", "Stock"], ["beef", "cup bowl", "x", "!"], 1, 104
    ),
    question([LONG, "mix"], ["Mix", "a", "b"], ["c", "d", "mix", "e"], 0, 105),
]
TRAINING = [*drawn(30), *ODD[:2], visual(["Whisk the eggs", "Chill", "", "Bake"], ["Eggs", "", "Wait", "Oven"], 200)]
SCORED = [*drawn(6, seed=1), *ODD]


@pytest.fixture(scope="module")
def fitted():
    return Evidence.fit(TRAINING)


# -- the reference


def ref_pieces(word):
    pieces, last = [], 0
    for i in range(1, len(word)):
        if word[i - 1].islower() and word[i].isupper():
            pieces.append(word[last:i])
            last = i
    return [piece.lower() for piece in (*pieces, word[last:])]


def ref_stems(text):
    found = re.findall(r"[^\W_]+", unicodedata.normalize("NFC", text))
    return [stem(piece) for word in found for piece in ref_pieces(word)]


def ref_grams(text, shortest=3, longest=5):
    counts = Counter()
    for word in unicodedata.normalize("NFC", text).split():
        for piece in ref_pieces(word):
            padded = f" {piece} "
            for n in range(shortest, longest + 1):
                if len(padded) <= n:
                    counts[padded] += 1
                    break
                for start in range(len(padded) - n + 1):
                    counts[padded[start : start + n]] += 1
    buckets = Counter()
    for gram, count in counts.items():
        buckets[abs(murmurhash3_32(gram.encode(), 0)) % 2**18] += count
    return buckets


class Reference:
    """Document frequencies of the distinct steps of some questions, and what follows from them."""

    def __init__(self, questions, opening=15, shortest=3, longest=5):
        self.bodies = {s.body.strip() for q in questions for s in q.context} - {""}
        self.opening, self.range = opening, (shortest, longest)
        self.df = Counter(w for b in self.bodies for w in set(ref_stems(b)))
        self.gram_df = Counter(g for b in self.bodies for g in ref_grams(b, *self.range))

    def idf(self, word):
        return math.log((1 + len(self.bodies)) / (1 + self.df[word])) + 1

    def gram_idf(self, gram):
        return math.log((1 + len(self.bodies)) / (1 + self.gram_df[gram])) + 1

    @staticmethod
    def cosine(a, b, idf):
        a, b = ({w: (1 + math.log(c)) * idf(w) for w, c in counts.items()} for counts in (a, b))
        norm = math.sqrt(sum(x * x for x in a.values())) * math.sqrt(sum(x * x for x in b.values()))
        return sum(x * b.get(w, 0.0) for w, x in a.items()) / norm if norm else 0.0

    def words(self, a, b):
        return self.cosine(Counter(ref_stems(a)), Counter(ref_stems(b)), self.idf)

    def characters(self, a, b):
        return self.cosine(ref_grams(a, *self.range), ref_grams(b, *self.range), self.gram_idf)

    def channels(self, q):
        titles = ["" if t == PLACEHOLDER else t for t in q.question] + [c[0] for c in q.choices]
        found = np.zeros((len(CHANNELS), len(titles), len(q.context)))
        read = [ref_stems(step.body) for step in q.context]
        for i, title in enumerate(titles):
            known = ref_stems(title)
            total = sum(map(self.idf, known))
            for t, step in enumerate(q.context):
                found[0, i, t], found[1, i, t] = self.words(title, step.body), self.characters(title, step.body)
                for word in known:
                    share = self.idf(word) / total
                    having = sum(word in other for other in read)
                    if word in read[t]:
                        found[2, i, t] += share
                        found[4, i, t] += share * math.log((len(read) + 1) / having) / math.log(len(read) + 1)
                    if word in read[t][: self.opening]:
                        found[3, i, t] += share
        return found

    def kinship(self, q):
        known = [t for t in q.question if t != PLACEHOLDER]
        rows = []
        for (choice,) in q.choices:
            alike = [[f(choice, title) for title in known] for f in (self.words, self.characters)]
            rows.append([x for part in alike for x in (sum(part) / 3, max(part))])
        return np.asarray(rows)


def numbers_of(encoded, i):
    return [encoded.evidence[i], encoded.style[i], encoded.words[i], encoded.steps[i]]


def equal(a, b):
    return all(np.array_equal(x, y) if isinstance(x, np.ndarray) else x == y for x, y in zip(a, b, strict=True))


# -- tests


def test_stems():
    assert [stem(w) for w in ("baking", "baked", "bakes", "bake")] == ["bak"] * 4
    assert [stem(w) for w in ("cookies", "candied", "stirring", "stir", "mixed", "rolls")] == [
        "cooky", "candy", "stir", "stir", "mix", "roll"
    ]  # fmt: skip
    assert [stem(w) for w in ("", "s", "ing", "red", "sing", "é", "面")] == ["", "s", "ing", "red", "sing", "é", "面"]
    assert stems("Measuring cupBowlBeef, Stock_2") == ["measur", "cup", "bowl", "beef", "stock", "2"]


def test_frequencies_are_those_of_the_distinct_training_steps(fitted):
    reference = Reference(TRAINING)
    assert fitted.steps == len(reference.bodies)
    assert set(fitted.idf) == set(reference.df)
    assert all(value == pytest.approx(reference.idf(word), rel=1e-12) for word, value in fitted.idf.items())
    assert fitted.unseen == pytest.approx(reference.idf("a word that no step has"))
    buckets = np.flatnonzero(fitted.characters < fitted.characters.max())
    assert set(buckets) == set(reference.gram_df)
    assert np.allclose(fitted.characters[buckets], [reference.gram_idf(b) for b in buckets], rtol=1e-6)


@pytest.mark.parametrize("settings", [{}, {"opening": 2, "shortest": 2, "longest": 2}, {"opening": 1, "longest": 3}])
def test_every_channel_and_kinship_number_equals_the_reference(settings):
    fitted = Evidence.fit(TRAINING, EvidenceSettings(**settings))
    reference = Reference(TRAINING, **settings)
    # In units of their deviations over the training questions.
    textual = [q for q in TRAINING if q.task == "textual_cloze"]
    raw = np.concatenate([reference.channels(q).reshape(len(CHANNELS), -1) for q in textual], axis=1)
    assert np.allclose(fitted.channel_scale, raw.std(axis=1), rtol=1e-5)
    kin = np.concatenate([reference.kinship(q) for q in textual])
    assert np.allclose(fitted.style_scale[-4:], kin.std(axis=0), rtol=1e-5)

    encoded = fitted.encode(SCORED)
    for i, q in enumerate(SCORED):
        channels = encoded.evidence[i] * fitted.channel_scale[:, None, None]
        assert np.allclose(channels, reference.channels(q), atol=2e-6), q.qid
        assert np.allclose(encoded.style[i, :, -4:] * fitted.style_scale[-4:], reference.kinship(q), atol=2e-6), q.qid
        assert not channels[:, q.question.index(PLACEHOLDER)].any()


def test_words_that_lost_their_line_break_and_either_form_of_an_accent_are_read_alike(fitted):
    joined, apart = "PuréeAdd flourBake", "Purée Add flour Bake"
    rows = fitted._tables(
        [question([joined, apart, unicodedata.normalize("NFD", apart)], ["a", "b", "c"], ["d", "e", "f", "g"])]
    )
    for part in (rows.words, rows.grams):
        first, second, third = (
            part[rows.rows([t])].toarray() for t in (joined, apart, unicodedata.normalize("NFD", apart))
        )
        assert np.array_equal(first, second) and np.array_equal(second, third)


def test_how_a_choice_is_written():
    plain = style_of("Mix it", ["Mix it"] * 3)
    assert len(plain) == STYLE_SIZE - 4
    assert plain[:2] == pytest.approx([math.log(3), math.log(7)])
    assert not plain[2:-2].any() and list(plain[-2:]) == [0, 1]  # as the titles shown, and one of them
    loud = style_of("STEP 1: Bake, the End!", ["mixing it.", "the oven", "a & b..."])
    # (choice, mean of the titles): share capitalised, all capitals, small initial, "!", ".", ":", step or digit, "...",
    # digit, first word in -ing, "&", opening "the", " the " inside, ","
    choice = [3 / 5, 0, 0, 1, 0, 1, 1, 0, 1, 0, 0, 0, 1, 1]
    titles = [0, 0, 1, 0, 2 / 3, 0, 0, 1 / 3, 0, 1 / 3, 1 / 3, 1 / 3, 0, 0]
    assert loud[6:-2:2] == pytest.approx(np.subtract(choice, titles))
    assert np.array_equal(loud[7:-2:2], np.abs(loud[6:-2:2]))
    words, characters = math.log(6), math.log(1 + len("STEP 1: Bake, the End!"))
    usual = math.log(1 + 7 / 3), math.log(1 + (10 + 8 + 8) / 3)
    away = words - usual[0]
    assert loud[:6] == pytest.approx([words, characters, abs(away), abs(characters - usual[1]), away, away**2])
    assert style_of(" ", ["a", "b", ""])[-2:].tolist() == [1, 1]
    assert np.isfinite(style_of("", ["", "", ""])).all()


def test_known_indicators_are_those_of_enough_training_choices():
    choices = ["Mix flour", "Mixing", "Serve", ""]
    training = [question(["Mix flour", "Bake"], ["a", "b", "c"], choices, place) for place in (0, 2)]
    fitted = Evidence.fit(training, EvidenceSettings(min_choices=2))
    slots = ("first", "middle")
    expected = {
        "mix",
        "flour",
        "serv",
        "mix …",
        "… flour",
        "… mix",
        "serv …",
        "… serv",
        "0 words",
        "1 words",
        "2 words",
    }
    expected |= {f"mix {slot}" for slot in slots} | {f"1 words {slot}" for slot in slots}
    assert set(fitted.vocabulary) == expected
    (rows,) = fitted.encode([question(["x"], ["a", "b", "c"], ["Mixed in", "zzz", "Flour mix", ""], 3)]).words
    known = [{fitted.vocabulary[row - 1] for row in choice} for choice in rows]
    assert known == [{"mix", "mix …", "2 words"}, {"1 words"}, {"flour", "mix", "… mix", "2 words"}, {"0 words"}]
    assert Evidence.fit(training, EvidenceSettings(min_choices=9)).vocabulary == []


def test_one_question_alone_among_all_and_in_any_order_has_the_same_numbers(fitted):
    encoded = fitted.encode(SCORED)
    backwards = fitted.encode(SCORED[::-1])
    for i, q in enumerate(SCORED):
        assert equal(numbers_of(fitted.encode([q]), 0), numbers_of(encoded, i))
        assert equal(numbers_of(backwards, len(SCORED) - 1 - i), numbers_of(encoded, i))


def test_the_sums_themselves_do_not_depend_on_other_questions(fitted):
    """Before they are rounded to float32: no last bit may turn a tie."""
    alone = fitted._channels(SCORED[0], fitted._tables(SCORED[:1]))
    among = fitted._channels(SCORED[0], fitted._tables(SCORED[::-1]))
    assert all(np.array_equal(a, b) for a, b in zip(alone, among, strict=True))


def test_more_questions_than_a_block_equal_smaller_parts(fitted, monkeypatch):
    many = [*drawn(40, seed=3, steps=2, words=3), *SCORED, visual(["Whisk", "Bake"], ["Eggs", "Oven"])]
    encoded = fitted.encode(many)
    monkeypatch.setattr("data.evidence._BLOCK", 7)
    assert all(equal(numbers_of(encoded, i), numbers) for i, numbers in enumerate(_each(fitted.encode(many))))
    parts = [*_each(fitted.encode(many[:11])), *_each(fitted.encode(many[11:]))]
    assert all(equal(numbers_of(encoded, i), numbers) for i, numbers in enumerate(parts))


def _each(encoded):
    return [numbers_of(encoded, i) for i in range(len(encoded.evidence))]


def test_permuting_the_choices_permutes_the_numbers(fitted):
    for q in SCORED:
        order = [2, 0, 3, 1]
        other = replace(q, choices=tuple(q.choices[k] for k in order), answer=order.index(q.answer))
        (a, b) = (fitted.encode([x]) for x in (q, other))
        assert np.array_equal(b.evidence[0][:, 4:], a.evidence[0][:, [4 + k for k in order]])
        assert np.array_equal(b.evidence[0][:, :4], a.evidence[0][:, :4])
        assert np.array_equal(b.style[0], a.style[0][order])
        assert b.words[0] == [a.words[0][k] for k in order]


def test_names_of_questions_recipes_and_images_reach_nothing(fitted):
    def renamed(q):
        context = tuple(
            replace(step, images=("xyz_9_9.jpg",)) if step.images is not None else step for step in q.context
        )
        return replace(q, qid=f"other {q.qid}", recipe_id=f"mix-baking-{q.recipe_id}", split="test", context=context)

    again = Evidence.fit([renamed(q) for q in TRAINING])
    assert again.digest() == fitted.digest()
    a, b = fitted.encode(SCORED), fitted.encode([renamed(q) for q in SCORED])
    assert all(equal(numbers_of(a, i), numbers_of(b, i)) for i in range(len(SCORED)))


def test_answers_reach_nothing(fitted):
    assert Evidence.fit([replace(q, answer=(q.answer + 1) % 4) for q in TRAINING]).digest() == fitted.digest()


def test_a_scored_question_changes_no_number_but_its_own(fitted):
    digest = fitted.digest()
    encoded = fitted.encode(SCORED)
    for changed in range(0, len(SCORED), 3):
        others = list(SCORED)
        others[changed] = question(["Flour flour mix"] * 3, ["Mix", "Bake", "x"], ["Serve", "the", "eggs", "dough"])
        again = fitted.encode(others)
        for i in range(len(SCORED)):
            assert equal(numbers_of(encoded, i), numbers_of(again, i)) is (i != changed)
    assert fitted.digest() == digest


def test_order_of_the_training_questions_changes_no_frequency_or_word(fitted):
    again = Evidence.fit(TRAINING[::-1])
    assert again.idf == fitted.idf and again.vocabulary == fitted.vocabulary and again.steps == fitted.steps
    assert np.array_equal(again.characters, fitted.characters)
    assert np.allclose(again.channel_scale, fitted.channel_scale, rtol=1e-6)


def test_questions_of_visual_tasks_lend_steps_and_have_no_numbers(fitted):
    assert "chill" in fitted.idf and "wait" not in fitted.idf  # a title is no step's text
    shown = visual(["Whisk", "", "Bake"], ["Eggs", "", "Oven"])
    encoded = fitted.encode([shown, SCORED[0]])
    assert encoded.evidence[0].shape == (len(CHANNELS), 0, 3)  # without an encoder nothing compares pictures and texts
    assert not encoded.style[0].any() and encoded.words[0] == [[], [], [], []]
    assert encoded.steps[0].tolist() == [0, -1, 1]
    only = Evidence.fit([shown])
    assert (only.channel_scale == 1).all() and (only.style_scale == 1).all() and only.vocabulary == []


def test_a_number_that_never_varies_keeps_its_scale():
    same = question(["x y", "z"], ["a", "b", "c"], ["d", "e", "f", "g"])
    fitted = Evidence.fit([same, same])
    assert (fitted.channel_scale == 1).all() and np.isfinite(fitted.encode([same]).style).all()


def test_a_checkpoint_carries_all_of_it(fitted):
    buffer = io.BytesIO()
    torch.save({"evidence": fitted.state_dict()}, buffer)
    buffer.seek(0)
    state = torch.load(buffer, weights_only=True)["evidence"]
    again = Evidence.from_state_dict(state)
    assert again.digest() == fitted.digest() and again.settings == fitted.settings and again.unseen == fitted.unseen
    a, b = fitted.encode(SCORED), again.encode(SCORED)
    assert all(equal(numbers_of(a, i), numbers_of(b, i)) for i in range(len(SCORED)))


@pytest.mark.parametrize(
    "part", ["settings", "stems", "idf", "steps", "characters", "vocabulary", "channel_scale", "style_scale"]
)
def test_the_digest_tells_a_change_of_any_part(fitted, part):
    state = fitted.state_dict()
    value = state[part]
    if part == "settings":
        state[part] = value | {"opening": 14}
    elif isinstance(value, torch.Tensor):
        state[part] = value.clone()
        state[part][3] += 1e-3
    else:
        state[part] = value + 1 if isinstance(value, int) else [*value[:-1], value[-1] + "x"]
    assert Evidence.from_state_dict(state).digest() != fitted.digest()


@pytest.mark.parametrize("key", ["opening", "min_choices", "shortest", "longest"])
@pytest.mark.parametrize("value", [0, -1, 2.5, "3", None])
def test_wrong_settings_are_said_in_one_line(key, value):
    with pytest.raises(InputError, match=rf"^data\.evidence\.{key}=") as error:
        EvidenceSettings(**{key: value})
    assert "\n" not in str(error.value)


def test_n_grams_shorter_than_the_shortest_and_training_without_a_word_are_refused():
    with pytest.raises(InputError, match=r"shortest=6: exceeds data\.evidence\.longest=5"):
        EvidenceSettings(shortest=6)
    for questions in ([], [question(["...", " "], ["a", "b", "c"], ["d", "e", "f", "g"])]):
        with pytest.raises(InputError, match="hold no word"):
            Evidence.fit(questions)


def test_a_batch_points_at_the_steps_of_the_document_and_pads_with_nothing(fitted):
    questions = [SCORED[0], ODD[0], ODD[1], question(["", "Mix", " ", "Bake"], ["a", "", "c"], ["d", "", "f", "Mix"])]
    texts = sorted({t for q in questions for t in visible_texts(q)})
    row = {text: i for i, text in enumerate(texts)}
    vectors = np.random.default_rng(0).normal(size=(len(texts), 3)).astype(np.float32)

    def rows(wanted):
        return np.asarray([row[text] for text in wanted], np.int64)

    no_image = np.zeros((0, 3), np.float32)
    encoded = encode(questions, rows, rows, vectors, no_image, np.zeros(3, np.float32))
    numbers = encoded.evidence = fitted.encode(questions)
    chosen = [3, 1, 2, 0]
    batch: dict[str, Any] = encoded.batch(chosen)
    longest = max(len(q.context) for q in questions)
    assert batch["evidence"].shape == (4, len(CHANNELS), 8, longest) and batch["evidence"].dtype == torch.float32
    assert batch["step"].shape == batch["step_mask"].shape == (4, longest) and batch["style"].shape == (
        4,
        4,
        STYLE_SIZE,
    )
    assert batch["indicators"].shape[:2] == (4, 4) and batch["indicators"].dtype == torch.int64
    for b, i in enumerate(chosen):
        steps = [step_text(step) for step in questions[i].context]
        assert batch["step_mask"][b].tolist() == [True] * len(steps) + [False] * (longest - len(steps))
        for t in range(longest):
            place = int(batch["step"][b, t])
            if t >= len(steps) or not steps[t]:
                assert place == -1
            else:
                assert batch["document_mask"][b, place]
                assert np.array_equal(batch["text"][batch["document"][b, place]].numpy(), vectors[row[steps[t]]])
        assert np.array_equal(batch["evidence"][b, :, :, : len(steps)].numpy(), numbers.evidence[i])
        assert not batch["evidence"][b, :, :, len(steps) :].any()
        assert np.array_equal(batch["style"][b].numpy(), numbers.style[i])
        for k in range(4):
            known = numbers.words[i][k]
            assert batch["indicators"][b, k].tolist() == known + [0] * (batch["indicators"].shape[2] - len(known))
    alone: dict[str, Any] = encoded.batch([2])
    assert alone["indicators"].shape[2] >= 1 and alone["evidence"].shape[3] == 1
