"""Prompts are the benchmark's own strings; rendering moves nothing but what it is told to move."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf

from data.errors import InputError
from data.records import FoodQuestion
from models.backend import Turn
from models.prompts import PREFILLS, options_block, read_prompts, render
from tests.runs import ROOT

SECTIONS = {
    task: OmegaConf.to_container(OmegaConf.load(ROOT / f"conf/prompts/{task}.yaml"))
    for task in ("mivqa", "sivqa", "textqa")
}
SECTIONS["sivqa"].pop("defaults")


def question(task="sivqa", language="zh", **changes):
    images = tuple(f"/p/{i}.jpg" for i in range({"mivqa": 4, "sivqa": 1, "textqa": 0}[task]))
    values = dict(
        task=task,
        row=3,
        record_hash="0" * 32,
        question_id="q",
        language=language,
        question=" 图片中的食物属于以下哪个菜系? ",
        choices=() if task == "mivqa" else ("川菜", " 粤菜 ", "湘菜", "苏菜"),
        images=images,
        answer=1,
        question_type="cuisine_type",
        food_name="示例烧鹅",
    )
    return FoodQuestion(**{**values, **changes})


def prompts(task, language, **changes):
    return read_prompts({**SECTIONS[task], **changes}, task, language)


def test_every_string_is_the_published_one(shared):
    published = json.loads((shared / "data/foodieqa/prompts.json").read_text(encoding="utf-8"))
    ours = {}
    for task, section in SECTIONS.items():
        for item in section["all"]:
            language, variant = item["id"].split(".")[1], item["id"].split(".")[3]
            found = read_prompts(
                {**section, "variant": variant, "index": int(item["id"].split(".")[2])}, task, language
            )
            ours[item["id"]] = found[0]
    assert set(ours) == {item["id"] for item in published["prompts"]} and len(ours) == 54
    for item in published["prompts"]:
        turns = [Turn(t["role"], tuple(p.get("text", p.get("image")) for p in t["parts"])) for t in item["turns"]]
        assert list(ours[item["id"]].turns) == turns, item["id"]
        assert [list(edit) for edit in ours[item["id"]].edits] == item["question_edit"], item["id"]
        assert ours[item["id"]].options_line == published["options_line"]


@pytest.mark.parametrize("task", ["mivqa", "sivqa", "textqa"])
@pytest.mark.parametrize("language", ["zh", "en"])
def test_there_are_four_prompts_for_each_task_and_language(task, language):
    for variant in {item["id"].split(".")[3] for item in SECTIONS[task]["all"] if f".{language}." in item["id"]}:
        assert len(prompts(task, language, variant=variant)) == 4
    assert [p.index for p in prompts(task, language)] == [0, 1, 2, 3]


def test_the_extra_prompts_are_asked_by_name_only():
    assert [p.index for p in prompts("mivqa", "zh", variant="code_qwen")] == [0, 1, 2, 4]
    assert [p.index for p in prompts("sivqa", "zh", index=[4, 0, 4])] == [4, 0]


def test_options_are_shown_as_in_the_code():
    shown = render(prompts("sivqa", "zh")[0], question())
    assert shown.turns == (
        Turn(
            "user",
            (
                0,
                "图片中的食物属于以下哪个菜系? 选项有: （A) 川菜\n（B) 粤菜\n（C) 湘菜\n（D) 苏菜\n"
                ", 请根据上图从所提供的选项中选择一个正确答案，为（",
            ),
        ),
    )
    assert shown.opening == "（" and shown.prefill == "none" and shown.images == ("/p/0.jpg",)


def test_edits_touch_the_question_only():
    first, _, third, _ = prompts("mivqa", "zh", variant="code_qwen")
    asked = question("mivqa", question="以下哪道菜不辣？")
    assert "问题：以上哪道菜不辣？" in render(first, asked).turns[0].text
    assert "根据以下四张图" in render(third, asked).turns[0].text, "the prompt's own words stay"


def test_braces_in_a_question_are_text():
    asked = question(question="{options} 图片中的食物?", choices=("{question}", "b", "c", "d"))
    text = render(prompts("sivqa", "zh")[0], asked).turns[0].text
    assert text.startswith("{options} 图片中的食物? 选项有: （A) {question}\n")


@pytest.mark.parametrize("prefill", PREFILLS[1:])
def test_the_assistant_turn_is_continued_folded_in_or_closed(prefill):
    shown = render(prompts("sivqa", "en")[3], question(language="en"), prefill)
    assert shown.opening == "(" and shown.prefill == prefill
    if prefill == "inline":
        assert len(shown.turns) == 1
        text = shown.turns[0].text
        assert text.startswith("Human: ") and text.endswith("as your answer.Assistant: I would select (")
        assert shown.turns[0].parts[1] == 0, "the photo stays where it was"
    else:
        assert [turn.role for turn in shown.turns] == ["user", "assistant"]


def test_inline_is_chinese_in_chinese():
    shown = render(prompts("sivqa", "zh")[2], question(), "inline")
    assert shown.turns[0].text.startswith("用户：") and shown.turns[0].text.endswith(
        "智能助手：我从所提供的选项中选择一个正确答案，为（"
    )


def test_separate_turns_stay_separate():
    shown = render(prompts("mivqa", "zh", variant="code_idefics2")[1], question("mivqa"))
    assert [turn.parts for turn in shown.turns[:2]] == [(0, "图A"), (1, "图B")] and len(shown.turns) == 5


@pytest.mark.parametrize(
    ("task", "language", "index", "ends"),
    [("mivqa", "zh", 3, "答案为：图"), ("mivqa", "en", 3, "the answer is: Option ("), ("textqa", "zh", 2, "为（")],
)
def test_chat_form_cuts_texts_that_play_both_parts(task, language, index, ends):
    found = prompts(task, language, chat_form=True, index=index)[0]
    assert [turn.role for turn in found.turns] == ["user", "assistant"]
    whole = prompts(task, language, index=index)[0]
    assert found.turns[1].text.endswith(ends)
    joined = "".join(turn.text for turn in found.turns)
    for word in ("Human: ", "Assistant: ", "\n智能助手："):
        assert word not in joined
    assert len(whole.turns) == 1


def test_a_system_turn_comes_first():
    shown = render(prompts("textqa", "zh", system="你是一个智能助手。")[1], question("textqa"))
    assert shown.turns[0] == Turn("system", ("你是一个智能助手。",))


def test_text_options_with_four_photos_are_listed():
    text = render(prompts("mivqa", "zh")[0], question("mivqa", choices=("都辣", "两道", "一道", "没有"))).turns[0].text
    assert "选项有: （A) 都辣\n（B) 两道\n（C) 一道\n（D) 没有, 答案为：图" in text


def test_ablations_name_the_dish_or_hide_the_photo():
    prompt = prompts("sivqa", "zh")[0]
    named = render(prompt, question(), ablation="dish_name")
    assert named.turns[0].text.startswith("示例烧鹅属于") and named.images == ("/p/0.jpg",)
    hidden = render(prompt, question(), ablation="dish_name_only")
    assert hidden.images == () and all(isinstance(part, str) for turn in hidden.turns for part in turn.parts)
    assert hidden.turns[0].text == named.turns[0].text
    bare = render(prompt, question(), ablation="no_options").turns[0].text
    assert "川菜" not in bare and "（A)" not in bare
    silent = render(prompt, question(question="这道菜?"), ablation="dish_name")
    assert silent.turns[0].text.startswith("这道菜?"), "no place for the name: as it is"
    other = render(prompts("textqa", "zh")[0], question(), ablation="dish_name_only_textqa")
    assert other.images == () and "请根据从所提供的选项中" in other.turns[0].text


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"language": "en"}, "in Chinese only"),
        ({"food_name": ""}, "no food_name"),
    ],
)
def test_a_name_that_cannot_be_shown_is_refused(changes, words):
    with pytest.raises(InputError, match=words):
        render(prompts("sivqa", "zh")[0], question(**changes), ablation="dish_name")
    with pytest.raises(InputError, match="only single-image"):
        render(prompts("textqa", "zh")[0], question("textqa"), ablation="dish_name")


@pytest.mark.parametrize(
    ("item", "words"),
    [
        ({"id": "mine", "turns": [{"user": "{question}"}]}, "id must read"),
        ({"id": "textqa.zh.0.x", "turns": [{"user": "{question}"}]}, "does not hold {options}"),
        ({"id": "textqa.zh.0.x", "turns": [{"user": "{options}"}]}, "does not hold {question}"),
        ({"id": "textqa.zh.0.x", "turns": [{"user": "{question}{options}{answer}"}]}, "unknown field {answer}"),
        ({"id": "textqa.zh.0.x", "turns": [{"bot": "{question}{options}"}]}, "role bot"),
        ({"id": "sivqa.zh.0.x", "turns": [{"user": "{question}{options}"}]}, "each of its 1 photos"),
        ({"id": "mivqa.zh.0.x", "turns": [{"user": "<img1><img2><img3><img3>{question}"}]}, "each of its 4 photos"),
        ({"id": "textqa.zh.0.x", "turns": [{"assistant": "a"}, {"user": "{question}{options}"}]}, "must end in"),
    ],
)
def test_wrong_prompts_are_named(item, words):
    task = item["id"].split(".")[0] if "." in item["id"] else "textqa"
    with pytest.raises(InputError) as caught:
        read_prompts({"all": [item], "variant": "x"}, task, "zh")
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("section", "words"),
    [
        ({"all": None}, "must be a list of prompts"),
        ({"all": ["x"]}, "must be a list of prompts"),
        ({"all": [{"id": "textqa.zh.0.x", "turns": [{"user": "{question}{options}"}]}] * 2}, "is there twice"),
        ({"all": [{"id": "mivqa.zh.0.x", "turns": [{"user": "<img5>{question}"}]}]}, "<img5> names no photo"),
        (
            {"all": [{"id": "textqa.zh.0.x", "turns": [{"user": "{question}{options}"}], "edit": ["ab"]}]},
            "list of pairs",
        ),
    ],
)
def test_wrong_files_of_prompts_are_named(section, words):
    with pytest.raises(InputError) as caught:
        read_prompts({**section, "variant": "x"}, "textqa", "zh")
    assert words in str(caught.value)


def test_a_file_of_ones_own_needs_no_options_line():
    item = {"id": "textqa.zh.0.x", "turns": [{"user": "{question}{options}"}]}
    [prompt] = read_prompts({"all": [item], "variant": "x"}, "textqa", "zh")
    assert prompt.options_line == "（{letter}) {choice}\n"


def test_unknown_choices_list_what_there_is():
    with pytest.raises(InputError, match=r"choose code_idefics2, code_phi3, paper, readme"):
        prompts("mivqa", "en", variant="code_qwen")
    with pytest.raises(InputError, match=r"prompts.index=7"):
        prompts("textqa", "zh", index=7)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.text(max_size=8), min_size=4, max_size=4), st.permutations(range(4)))
def test_reordering_moves_options_and_answer_together(choices, order):
    asked = question(choices=tuple(choices))
    moved = asked.reordered(tuple(order))
    assert moved.choices[moved.answer] == choices[asked.answer]
    assert options_block(moved.choices, "{letter}|{choice}\n").count("\n") >= 4


def test_images_move_with_the_answer_where_they_are_the_options():
    asked = question("mivqa", answer=2)
    moved = asked.reordered((1, 2, 3, 0))
    assert moved.images[moved.answer] == asked.images[2] and moved.answer == 1
    texts = question("mivqa", choices=("a", "b", "c", "d")).reordered((1, 2, 3, 0))
    assert texts.images == asked.images and texts.choices == ("b", "c", "d", "a")
