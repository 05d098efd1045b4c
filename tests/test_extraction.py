"""Answers read from replies: the table of `replies.py`, rules over generated replies, and the published parser."""

import json
import random
import string
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.errors import InputError
from data.records import LETTERS
from models import extraction, mentions
from models.extraction import REASONS, Extraction, bracketed_letter_random, extract, first_letter_random
from models.reply_text import normalise
from tests.replies import EN, IMAGES, REPLIES, SAME, TASTE, ZH

ROWS = [(group, *row) for group, rows in REPLIES.items() for row in rows]
STAGES = {"prefill_letter": "prefill", **{reason: reason for reason in REASONS[1:5]}}


def letter(found: Extraction) -> str | None:
    return None if found.answer is None else LETTERS[found.answer]


@pytest.mark.parametrize("group", REPLIES)
def test_table_of_replies(group):
    wrong = []
    for reply, expected, choices, *rest in REPLIES[group]:
        more: dict[str, Any] = dict(rest[0]) if rest else {}
        reason, flags = more.pop("reason", None), more.pop("flags", None)
        found = extract(reply, choices, image_options=not choices, **more)
        if letter(found) != expected or reason not in (None, found.reason) or flags not in (None, found.flags):
            wrong.append((reply, expected, found))
    assert not wrong


def test_the_table_is_large_and_in_both_languages():
    assert len(ROWS) > 800
    assert sum(1 for row in ROWS if row[1] and not row[1].isascii()) > 300
    assert sum(1 for row in ROWS if row[1] and row[1].isascii()) > 300
    assert sum(1 for row in ROWS if row[2] is None) > 200


def test_cases_that_come_with_the_benchmark_material(shared):
    cases = json.loads((shared / "data" / "foodieqa" / "extraction_cases.json").read_text(encoding="utf-8"))
    found = {}
    for case in cases:
        choices = [case["choices"][name] for name in LETTERS] if case["choices"] else []
        found[case["id"]] = letter(extract(case["response"], choices, image_options=not choices))
    assert found == {case["id"]: case["expected"] for case in cases}


def test_every_result_is_consistent():
    for _, reply, _, choices, *rest in ROWS:
        more = {key: value for key, value in (rest[0] if rest else {}).items() if key not in ("reason", "flags")}
        found = extract(reply, choices, image_options=not choices, **more)
        assert found.reason in REASONS
        if found.span is None:
            assert found.answer is None
            assert found.reason in REASONS[5:]
        else:
            assert found.answer is not None
            assert found.stage == STAGES[found.reason]
            assert 0 <= found.span[0] < found.span[1] <= len(reply)


def test_the_span_is_that_of_the_original():
    for reply, chosen in (
        ("\u200b答案是\r\n **Ｂ**。", "Ｂ"),
        ("<think>A</think> so, (C)", "C"),
        ("这是 川菜 。", "川菜"),
        ("℃ … 选D", "D"),
    ):
        found = extract(reply, ZH, image_options=False)
        assert found.span is not None
        assert reply[slice(*found.span)] == chosen


@pytest.mark.parametrize(
    ("reply", "stage"),
    [
        (None, "status"),
        ("", "status"),
        ("<think>A", "reasoning"),
        ("答案：B", "declared"),
        ("C) 咸香", "lone_letter"),
        ("咸香", "option_text"),
        ("B has more chili", "only_letter"),
        ("no idea", "none"),
    ],
)
def test_the_first_stage_that_yields_a_letter_decides(reply, stage):
    assert extract(reply, TASTE, image_options=False).stage == stage


def test_an_opening_is_continued_whatever_comes_later():
    found = extract("B) 川菜。……所以答案是C", ZH, image_options=False, opening="（")
    assert (found.answer, found.stage, found.flags) == (1, "prefill", ("contradicted",))
    assert letter(extract("B) 川菜。……所以答案是C", ZH, image_options=False)) == "C"


def test_an_echo_of_the_prompt_alone_answers_nothing():
    prompt = (
        "图片中的食物属于哪个菜系? 选项有: （A) 鲁菜\n（B) 川菜\n（C) 湘菜\n（D) 苏菜\n, 请从中选择一个正确答案，为（"
    )
    echoed = extract(prompt, ZH, image_options=False, opening="（", prompt=prompt)
    assert (echoed.answer, echoed.flags) == (None, ("echo_removed",))
    for space in ("", " ", "\n"):
        found = extract(prompt + space + "D) 苏菜", ZH, image_options=False, opening="（", prompt=prompt)
        assert (letter(found), found.stage, found.flags) == ("D", "prefill", ("echo_removed",))


def test_other_than_four_texts_are_refused_and_images_need_none():
    with pytest.raises(InputError, match="3 options"):
        extract("A", ZH[:3], image_options=False)
    assert letter(extract("图4", (), image_options=True)) == "D"
    assert extract("图4", ZH, image_options=False).answer is None


# ---- rules that hold for any reply -----------------------------------------------------------------------------------

PIECES = [
    *"ABCDEabcd1234()（）[]*$`\"'.,。，：:;?!\n \t→✅❌🍜",
    *(
        "答案是",
        "选",
        "不是",
        "图",
        "选项",
        "第二张",
        "the answer is ",
        "not ",
        "option ",
        " or ",
        "和",
        "或",
        "如果",
        "因此",
        "<think>",
    ),
    *(
        "</think>",
        "\\boxed{",
        "}",
        "川菜",
        "Sichuan cuisine",
        "无法判断",
        "cannot tell",
        "Human:",
        "Assistant:",
        "\u200b",
        "\ud800",
    ),
]
soup = st.lists(st.sampled_from(PIECES), max_size=14).map("".join)
anything = st.one_of(st.text(max_size=60), st.text(st.characters(exclude_categories=()), max_size=30), soup)


@settings(max_examples=300, deadline=None)
@given(anything, st.sampled_from([ZH, EN, SAME, IMAGES]), st.sampled_from(["", "图", "（", "Option ("]), anything)
def test_no_reply_raises_and_the_same_reply_gives_the_same_answer(reply, choices, opening, prompt):
    def read() -> Extraction:
        return extract(reply, choices, image_options=not choices, opening=opening, prompt=prompt, finish_reason="stop")

    found = read()
    assert found == read()
    assert found.reason in REASONS and found.answer in (None, 0, 1, 2, 3)


@settings(max_examples=200, deadline=None)
@given(st.one_of(soup, st.text(max_size=60)), st.sampled_from([ZH, EN, IMAGES]), st.sampled_from(["", "（"]))
def test_without_letters_digits_and_option_texts_there_is_no_answer(reply, choices, opening):
    plain = normalise(reply).text
    kept = "".join(
        c
        for c in plain
        if not c.isnumeric() and c.upper() not in set(LETTERS) and c not in "一二三四五六七八九十两末后"
    )
    for choice in ZH:
        kept = kept.replace(choice, "")
    found = extract(kept, choices, image_options=not choices, opening=opening)
    assert found.answer is None


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(LETTERS),
    st.lists(
        st.sampled_from(
            [
                ("**", "**"),
                ("`", "`"),
                ("(", ")"),
                ("（", "）"),
                ("[", "]"),
                ("【", "】"),
                ("$", "$"),
                ("“", "”"),
                ('"', '"'),
                ("「", "」"),
                (" ", " "),
                ("\n", "\n\n"),
                ("\\boxed{", "}"),
                ("\\text{", "}"),
                ("<answer>", "</answer>"),
                ("\u3000", ""),
                ("", "。"),
            ]
        ),
        max_size=4,
    ),
    st.sampled_from([ZH, EN, IMAGES]),
    st.sampled_from(["", "（", "图"]),
)
def test_wrappers_and_white_space_around_a_letter_change_nothing(name, wrappers, choices, opening):
    reply = name
    for before, after in wrappers:
        reply = before + reply + after
    assert letter(extract(reply, choices, image_options=not choices, opening=opening)) == name
    assert letter(extract(f"答案是{reply}", choices, image_options=not choices)) == name


WORDS = [
    "不是",
    "是",
    "答案是",
    "而是",
    "，",
    "。",
    "或",
    "和",
    "因此",
    "看起来像",
    "？",
    "这道菜",
    "\n",
    "无法判断",
    "正确答案是",
    "排除",
]


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(
        [
            ZH,
            ("赣菜 (客家菜）", "赣菜", "徽菜", "浙菜"),
            ("鲜甜", "鲜甜可口", "辣", "不辣"),
            ("pork", "pork chop", "pork ", "fish"),
        ]
    ),
    st.lists(st.one_of(st.integers(0, 3), st.sampled_from(WORDS)), min_size=1, max_size=8),
)
def test_reordering_the_options_never_changes_which_text_is_chosen(choices, pieces):
    reply = "".join(choices[piece] if isinstance(piece, int) else piece for piece in pieces)
    chosen = set()
    for order in permutations(range(4)):
        shown = [choices[i] for i in order]
        found = extract(reply, shown, image_options=False)
        chosen.add(None if found.answer is None else shown[found.answer])
    assert len(chosen) == 1


# ---- verdicts with distractors around them ---------------------------------------------------------------------------

BEFORE = {
    "zh": (
        "",
        "根据图片内容，",
        "A选项不符合，{o}选项也不符合。",
        "首先排除{o}。",
        "{o}和{p}看起来都有可能，但仔细看，",
        "不是{o}，",
        "这不像{ot}，",
        "富含维生素C。",
        "一开始我觉得是{o}，后来发现不对。",
        "选项{o}：不正确。选项{p}：不正确。\n",
        "我无法百分之百确定，但",
        "A. 一种\nB. 两种\nC. 三种\nD. 四种\n",
    ),
    "en": (
        "",
        "A dish like this is common. ",
        "Option {o} is incorrect. ",
        "We can rule out {o} and {p}. ",
        "{o} and {p} both look possible, but ",
        "It might be {o}, but ",
        "It is not {o}. ",
        "The food is rich in vitamin C. ",
        "Unlike {ot}, this dish is hot. ",
        "A) one\nB) two\nC) three\nD) four\n\n",
        "Compared to {o}, ",
        "I cannot be sure, but ",
    ),
}
VERDICT = {
    "zh": (
        "答案是{x}",
        "答案：{x}",
        "正确答案为（{x}）",
        "我选择{x}",
        "故选{x}",
        "所以应该选{x}",
        "正确答案是 **{x}. {xt}**",
        "选项{x}是正确的",
        "最终答案：\\boxed{{{x}}}",
        "【答案】{x}",
        "答案是{xt}（{x}）",
        "因此，选项{x}最符合题意",
        "综上，{x}",
        "最可能的答案是{x}",
        "选{x}，{xt}",
    ),
    "en": (
        "the answer is {x}",
        "The correct answer is ({x})",
        "Answer: {x}. {xt}",
        "I would select ({x}) {xt}",
        "I'd go with {x}",
        "Therefore, the correct answer is option ({x})",
        "Final Answer: {x}",
        "option {x} is the correct answer",
        "{x} is correct",
        "So, {x}",
        "ANSWER: ${x}$",
        "The final answer is $\\boxed{{{x}}}$",
        "my answer would be ({x}",
    ),
}
AFTER = {
    "zh": (
        "",
        "。",
        "。{o}不符合。",
        "，而不是{o}。",
        "。其他选项都不对。",
        "。\n\n解析：{ot}比较清淡。",
        "。选项{o}是{ot}，更清淡。",
    ),
    "en": (
        "",
        ".",
        "; {o} is wrong.",
        ", not {o}.",
        ". A dish from there is hot.",
        "\n\nExplanation: {ot} is mild.",
        ". Options {o} and {p} are incorrect.",
    ),
}


@pytest.mark.parametrize("language", ["zh", "en"])
def test_the_verdict_is_found_among_distractors(language):
    draw = random.Random(1)
    choices = ZH if language == "zh" else EN
    missed = []
    for verdict in VERDICT[language]:
        for before in BEFORE[language]:
            for after in AFTER[language]:
                x, o, p = draw.sample(range(4), 3)
                names = {"x": LETTERS[x], "o": LETTERS[o], "p": LETTERS[p], "xt": choices[x], "ot": choices[o]}
                reply = (before + verdict + after).format(**names)
                found = extract(reply, choices, image_options=False)
                if found.answer != x:
                    missed.append((reply, found))
    assert not missed


# ---- long replies ----------------------------------------------------------------------------------------------------

LONG = 200_000
HOSTILE = [
    *(
        "A ",
        "A\n",
        "A, ",
        "A和",
        "选A",
        "答案是",
        "answer is ",
        "((A",
        "* ",
        " ",
        "\n",
        "如果",
        "not ",
        "<think>",
        "<think></think>",
    ),
    *(
        "川菜",
        "\\boxed{",
        "~~",
        "x",
        "(A) 鲁菜 ",
        "A,B,C,D ",
        "\nHuman: ",
        "Question: x\n",
        "cannot ",
        "so the ",
        "最合适的",
        "图A, 图B, 图C, 图D",
    ),
    "A) 鲁菜\nB) 川菜\nC) 湘菜\nD) 苏菜\n",
]


@pytest.mark.slow
@pytest.mark.parametrize("piece", HOSTILE)
def test_hostile_replies_of_200_kb_are_read(piece):
    reply = (piece * (LONG // len(piece) + 1))[:LONG]
    assert extract(reply, ZH, image_options=False, opening="（", prompt="x" * 500).reason in REASONS


def test_effort_grows_with_the_length_and_no_faster(monkeypatch):
    """Counts calls instead of seconds: close looks at a mention are bounded, whatever the length of the reply."""
    looks = 0
    judge = mentions._stance

    def counted(*args: Any) -> str:
        nonlocal looks
        looks += 1
        return judge(*args)

    monkeypatch.setattr(mentions, "_stance", counted)
    for times in (2_000, 8_000):
        looks = 0
        extract("选A。" * times, ZH, image_options=False)
        assert 0 < looks <= 4 * mentions.MOST_MENTIONS


# ---- the published parser --------------------------------------------------------------------------------------------


def test_the_published_rule_takes_the_first_capital_letter():
    for reply, place in (("B", 1), ("Answer: B", 0), ("Beijing cuisine", 1), ("<think>D</think>C", 3), ("答案是C", 2)):
        assert first_letter_random(reply, seed=0) == (place, False)


def test_the_published_rule_guesses_evenly_from_its_seed():
    draw = random.Random(7)
    guesses = [first_letter_random("川菜", seed=0, rng=draw) for _ in range(4000)]
    assert all(guessed for _, guessed in guesses)
    counts = [sum(place == i for place, _ in guesses) for i in range(4)]
    assert min(counts) > 900
    assert first_letter_random("", seed=3) == first_letter_random("", seed=3)
    random.seed(11)
    assert first_letter_random("", seed=11)[0] == random.randint(0, 3)


def test_reseeding_for_each_answer_always_guesses_a():
    assert {first_letter_random(reply, seed=5, reseed=True) for reply in ("", "川菜", "湘菜")} == {(0, True)}


def test_variants_of_the_published_rule():
    capitals = string.ascii_uppercase
    assert first_letter_random("Option B", seed=0) == (1, False)
    assert first_letter_random("Option B", seed=0, letters=capitals)[1]
    assert first_letter_random("B Option", seed=0, letters=capitals) == (1, False)
    echo = "User: (A) x (B) y\nAssistant: A?\nAssistant: D"
    assert first_letter_random(echo, seed=0) == (0, False)
    assert first_letter_random(echo, seed=0, after_assistant=True) == (3, False)
    assert first_letter_random("（A) x 为（C", seed=0, after="为（") == (2, False)


def test_the_published_gpt4o_rule():
    for reply in ("(C)", "（C）", "C) x", "选C）", "A dish. (C)"):
        assert bracketed_letter_random(reply, seed=0) == (2, False)
    assert bracketed_letter_random("C", seed=0)[1]
    drawn = {bracketed_letter_random("(A) or (D)", seed=seed) for seed in range(20)}
    assert drawn == {(0, True), (3, True)}


def test_the_version_is_a_number_for_reports():
    assert isinstance(extraction.VERSION, int)
