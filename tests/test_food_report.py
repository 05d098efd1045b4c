"""What a run on food questions leaves behind: terminal, Markdown, JSON, pictures, trackers."""

import json
import random

import pytest
from PIL import Image
from rich.console import Console

from engine.food_figures import draw_food, shown_label
from engine.food_published import published_food_rows
from engine.food_report import compare_runs, publish_food, render_comparison, summarise, tracked
from engine.food_scores import ROTATIONS
from engine.trackers import CSV, TensorBoard
from tests.food_outcomes import IDENTITY, outcomes, question, right_place

TYPES = {
    "mivqa": ["ingredients", "taste", "region", "smell"],
    "sivqa": ["flavor", "present"],
    "textqa": ["flavor", "warm-cold"],
}


def made(task="sivqa", n=40, prompts=2, orders=(IDENTITY,), failed=(), is_demo=False, language="zh", **settings):
    """Outcomes of a mediocre system and their summary."""
    rng = random.Random(0)
    questions = []
    for row in range(n):
        group = (
            {"cuisine": ["川", "粤", "湘"][row % 3]}
            if task != "mivqa" or row % 2
            else {"category": "bbq", "cuisine": ""}
        )
        kind = TYPES[task][row % len(TYPES[task])]
        questions.append(question(row, task, question_type=kind, language=language, **group))
    ids = [f"{task}.{language}.{i}.code" for i in range(prompts)]

    def choose(q, order):
        return rng.choice([right_place(q, order), right_place(q, order), 0, None])

    lost = {(row, order) for _, row, order, _ in failed}
    found = [o for o in outcomes(questions, choose, ids, orders) if (o.question.row, o.order) not in lost]
    values = {"method": "generate", "prompt_variant": "code", "prefill": ["continue"], "ablation": "none", "seed": 0}
    values |= {"permutation": "off", "extraction": "cascade", "min_n": 10, "system": "A model", **settings}
    names = {"mivqa": "multi_image", "sivqa": "single_image", "textqa": "text"}
    return found, summarise(
        found,
        questions,
        list(failed),
        identity={"model": "owner/model", "revision": "abc", "generation": {"max_new_tokens": 16}},
        settings=values,
        data_title="demo_dishes/text" if is_demo else f"foodieqa/{names[task]}",
        is_demo=is_demo,
        notes=["a note on the data"],
    )


@pytest.fixture
def terminal():
    return Console(record=True, width=110, highlight=False, file=open("/dev/null", "w", encoding="utf-8"))


def test_everything_is_written_and_readable(tmp_path, terminal):
    found, summary = made(orders=ROTATIONS)
    metrics = publish_food(tmp_path, summary, found, console=terminal)
    figures = ["accuracy", "groups", "heatmap", "letters", "rotations"]
    names = {"metrics.json", "results.md", "predictions.jsonl", *(f"{name}.png" for name in figures)}
    assert {path.name for path in tmp_path.iterdir()} == names
    for name in figures:
        with Image.open(tmp_path / f"{name}.png") as picture:
            picture.load()
            assert min(picture.size) > 300 and len(picture.convert("RGB").getcolors(1 << 24)) > 20
    stored = json.loads((tmp_path / "metrics.json").read_text(encoding="utf-8"), parse_constant=pytest.fail)
    assert stored == json.loads(json.dumps(metrics)) and stored["test/accuracy"] == summary["test/accuracy"]
    rows = [json.loads(line) for line in (tmp_path / "predictions.jsonl").read_text(encoding="utf-8").splitlines()]
    assert len(rows) == len(found) == 40 * 2 * 4
    wanted = {"task", "row", "record_hash", "question_id", "prompt", "order", "choice", "answer", "credit", "reason"}
    assert wanted | {"flags", "response"} <= rows[0].keys()
    assert all(row["credit"] == (row["choice"] == row["answer"]) for row in rows), "choices in the file's own order"
    text = terminal.export_text()
    for piece in (
        "A model on foodieqa/single_image",
        "method generate",
        "prompt 1 (code)",
        "best of 2, chosen on the test set",
    ):
        assert piece in text
    assert "Order of the options: 4 orders" in text and "By cuisine" in text and "note: a note on the data" in text
    assert max(map(len, text.splitlines())) <= 400
    again = compare_runs(tmp_path, tmp_path)
    assert again["pooled"]["difference"] == 0 and "mean of the prompts" in render_comparison(again)


def test_markdown_holds_the_same_numbers_and_what_was_run(tmp_path, terminal):
    found, summary = made()
    publish_food(tmp_path, summary, found, console=terminal)
    text = (tmp_path / "results.md").read_text(encoding="utf-8")
    for row in summary["prompts"]:
        low, high = row["interval"]
        assert f"| {100 * row['accuracy']:.2f} | {100 * low:.1f}–{100 * high:.1f} |" in text
    for piece in ("| revision | abc |", "| prefill | continue |", "| method | generate |", "![accuracy](accuracy.png)"):
        assert piece in text
    assert "arXiv 2406.11030, table 3" in text and "INCOMPLETE" not in text and "demo" not in text
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert all(line.endswith("|") for line in rows)


def test_published_rows_are_of_the_same_questions_only_in_the_release(tmp_path, terminal):
    found, summary = made("textqa", n=705, prompts=1)
    rows = publish_food(tmp_path / "whole", summary, found, console=terminal)["published"]
    assert all(row["same_questions"] for row in rows) and rows[0]["system"] == "human"
    (qwen,) = [row for row in rows if row["system"] == "Qwen2-7B-instruct"]
    assert [round(100 * bound, 1) for bound in qwen["interval"]] == [64.7, 71.6]
    found, summary = made("textqa", n=705, prompts=1, is_demo=True)
    rows = publish_food(tmp_path / "demo", summary, found, console=terminal)["published"]
    assert not any(row["same_questions"] for row in rows), "as many questions, yet others"
    found, summary = made("textqa", n=30, prompts=1)
    rows = publish_food(tmp_path / "part", summary, found, console=terminal)["published"]
    assert not any(row["same_questions"] for row in rows)
    assert "Published, other questions" in (tmp_path / "part" / "results.md").read_text(encoding="utf-8")


def test_published_rows_follow_the_setting(tmp_path, terminal):
    found, summary = made(ablation="dish_name")
    rows = publish_food(tmp_path / "named", summary, found, console=terminal)["published"]
    assert [row["system"] for row in rows] == ["Yi-VL-34B", "Yi-VL-6B", "Idefics2-8B"]
    found, summary = made(ablation="blank_image")
    assert publish_food(tmp_path / "blank", summary, found, console=terminal)["published"] == []
    given = published_food_rows("sivqa", "zh")[:1]
    assert len(publish_food(tmp_path / "given", summary, found, console=terminal, published=given)["published"]) == 1


def test_a_demo_set_is_never_called_the_benchmark(tmp_path, terminal):
    found, summary = made("textqa", is_demo=True)
    publish_food(tmp_path, summary, found, console=terminal)
    markdown, shown = (tmp_path / "results.md").read_text(encoding="utf-8"), terminal.export_text()
    for text in (markdown, shown):
        assert "not FoodieQA" in text and "demo_dishes" in text
        assert "on foodieqa" not in text.lower()


def test_an_incomplete_run_says_so_everywhere(tmp_path, terminal):
    lost = [("sivqa.zh.0.code", row, IDENTITY, "HTTP 503: overloaded") for row in range(3)]
    found, summary = made(prompts=1, failed=lost)
    publish_food(tmp_path, summary, found, console=terminal)
    text = (tmp_path / "results.md").read_text(encoding="utf-8")
    assert "INCOMPLETE: 3 requests" in text and "HTTP 503: overloaded: 3" in text and "3 without reply" in text
    assert "INCOMPLETE: 3 requests" in terminal.export_text()
    assert json.loads((tmp_path / "metrics.json").read_text())["complete"] is False


def test_no_reply_at_all_still_leaves_a_report(tmp_path, terminal):
    questions = [question(row) for row in range(3)]
    failed = [("sivqa.zh.0.code", row, IDENTITY, "refused") for row in range(3)]
    about = {"identity": {}, "settings": {"system": "m"}, "data_title": "foodieqa/single_image", "is_demo": False}
    summary = summarise([], questions, failed, **about)
    metrics = publish_food(tmp_path, summary, [], console=terminal)
    assert metrics["test/accuracy"] is None and "INCOMPLETE: 3" in (tmp_path / "results.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("task", ["mivqa", "sivqa", "textqa"])
def test_figures_of_every_task(tmp_path, task):
    _, summary = made(task, prompts=1)
    assert draw_food(tmp_path, summary, []) == ["accuracy.png", "groups.png", "heatmap.png", "letters.png"]


def test_figures_leave_out_what_is_not_there(tmp_path):
    questions = [question(row, cuisine="") for row in range(4)]
    about = {"identity": {}, "settings": {"system": "always A"}, "data_title": "d", "is_demo": True}
    found = outcomes(questions, lambda q, order: 0, ["none"], method="score", reason="scores")
    assert draw_food(tmp_path, summarise(found, questions, **about), []) == [
        "accuracy.png",
        "groups.png",
        "letters.png",
    ]


def test_labels_without_glyphs_become_code_points(monkeypatch):
    monkeypatch.setattr("engine.food_figures._cjk_fonts", lambda: ())
    assert shown_label("Sichuan") == "Sichuan" and shown_label("畲") == "U+7572" and shown_label("Ürümqi") == "Ürümqi"
    monkeypatch.setattr("engine.food_figures._cjk_fonts", lambda: ("Noto Sans CJK SC",))
    assert shown_label("畲") == "畲"


def test_trackers_get_scalars_and_pictures(tmp_path, terminal):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    loggers = [CSV(str(tmp_path)), TensorBoard(str(tmp_path))]
    found, summary = made(orders=ROTATIONS, prompts=1)
    publish_food(tmp_path / "run", summary, found, loggers, terminal)
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert events.Scalars("test/accuracy")[0].value == pytest.approx(summary["test/accuracy"])
    names = ("accuracy", "groups", "heatmap", "letters", "rotations")
    assert set(events.Tags()["images"]) == {f"figures/{name}" for name in names}
    assert "test/accuracy" in (tmp_path / "csv" / "metrics.csv").read_text()


def test_keys_that_every_tracker_takes():
    import re

    _, summary = made("mivqa", orders=ROTATIONS)
    scalars = tracked(summary)
    assert all(re.fullmatch(r"[a-zA-Z0-9_/]+", key) for key in scalars) and len(scalars) > 12
    assert all(isinstance(value, float) for value in scalars.values())
    assert scalars["test/accuracy"] == summary["test/accuracy"] and "test/prompt_mivqa_zh_1_code/circular" in scalars
