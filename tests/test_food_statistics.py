"""Statistics of a set of food questions: counts, Markdown beside published numbers, figures."""

import json
import warnings
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.build import food_statistics
from data.build.food_statistics import draw, render, shown_text, statistics, write_statistics
from data.errors import InputError
from data.food_names import ANSWER_NAMES, NOT_GIVEN, display_answer
from data.foodieqa import FILES, published_dataset, read_file, read_release
from data.records import FOOD_TASKS, FoodQuestion
from tests.made_up_foodieqa import TYPES, made_up_records, picture_names, write_records, write_release


@pytest.fixture(scope="module")
def release(tmp_path_factory) -> Path:
    return write_release(tmp_path_factory.mktemp("release"), {"mivqa": 48, "sivqa": 30, "textqa": 35})


@pytest.fixture(scope="module")
def questions(release) -> list[FoodQuestion]:
    return [question for task in FOOD_TASKS for question in read_release(release, task, "zh")]


def made(task: str, row: int = 0, **keys) -> FoodQuestion:
    given = {
        "question": "哪个？",
        "choices": ("a", "b", "c", "d"),
        "images": (),
        "answer": 0,
        "question_type": "flavor",
    }
    return FoodQuestion(task, row, "0" * 32, str(row), "zh", **(given | keys))


def cells(markdown: str, heading: str) -> dict[str, list[str]]:
    """Rows of the table under a heading: first cell -> the others."""
    part = markdown.split(f"## {heading}\n")[1].split("\n## ")[0]
    rows = [line.strip("|").split(" | ") for line in part.splitlines() if line.startswith("| ")]
    return {row[0].strip(): [cell.strip() for cell in row[1:]] for row in rows[1:]}


def test_numbers_are_those_of_the_records(questions):
    found = statistics(questions)["tasks"]
    assert list(found) == list(FOOD_TASKS)
    for task, n in (("mivqa", 48), ("sivqa", 30), ("textqa", 35)):
        records, own = made_up_records(task, n), found[task]
        assert own["n"] == n and own["language"] == "zh" and own["multi_hop"] is None
        assert own["mean_length"] == pytest.approx(sum(len(r["question"]) for r in records) / n)
        assert own["types"] == Counter(record["question_type"] for record in records)
        assert list(own["types"].values()) == sorted(own["types"].values(), reverse=True)
        for i in range(4):
            by_letter = sum(letters[i] for letters in own["letters"].values())
            assert by_letter == sum(record["answer"] == str(i) for record in records)
        wanted = Counter(
            (record["question_type"], record["choices"][int(record["answer"])].strip())
            for record in records
            if isinstance(record["choices"], list)
        )
        if task != "mivqa":
            assert wanted == {(kind, text): n for kind, pairs in own["answers"].items() for text, n in pairs}
    names = picture_names(made_up_records("mivqa", 48))
    assert found["mivqa"]["unique_images"] == len(names) == 64 and found["mivqa"]["clusters"] == 16
    assert found["sivqa"]["unique_images"] == found["sivqa"]["clusters"] == 15
    assert found["textqa"]["unique_images"] == 0 and found["textqa"]["dishes"] == found["textqa"]["clusters"] == 9
    assert json.loads(json.dumps(found, ensure_ascii=False)) == found


def test_only_questions_with_text_options_have_right_answers(questions):
    found = statistics(questions)["tasks"]["mivqa"]
    assert sum(n for pairs in found["answers"].values() for _, n in pairs) == 1  # the one with text options
    line = cells(
        render({"tasks": {"mivqa": found}}, "t"), "Right answers of the multi-image questions by type (figure 10)"
    )
    assert line["Ingredients"][-1] == f"an image {found['types']['ingredients']}"
    assert line["Eating habit"][-1].endswith(f"1, an image {found['types']['eating-habit'] - 1}")


def test_cuisines_and_categories_do_not_mix_and_shanghai_is_one(questions):
    found = statistics(questions)["tasks"]
    multi = found["mivqa"]
    assert sum(multi["cuisines"].values()) + sum(multi["categories"].values()) == 48
    assert "meat" in multi["categories"] and "川" in multi["cuisines"] and "上海菜" in multi["cuisines"]
    single = found["sivqa"]["cuisines"]
    assert single["上海菜"] == sum("上海" in r["food_meta"].get("food_type", "") for r in made_up_records("sivqa", 30))
    assert not any("本帮" in raw for raw in single)


def test_images_are_counted_once_by_the_cuisine_they_are_known_of():
    shared = ("/x/1.jpg", "/x/2.jpg", "/x/3.jpg", "/x/4.jpg")
    asked = [
        made("mivqa", 0, choices=(), images=shared, category="meat"),
        made("mivqa", 1, choices=(), images=shared[::-1], cuisine="川"),
        made("mivqa", 2, choices=(), images=("/x/5.jpg", *shared[:3]), category="meat"),
    ]
    found = statistics(asked)["tasks"]["mivqa"]
    assert found["regions"] == [{"name": "Sichuan", "images": 4}, {"name": NOT_GIVEN, "images": 1}]
    assert found["unique_images"] == 5
    dishes = [made("textqa", i, food_name=f"d{i // 2}", cuisine="粤菜") for i in range(6)]
    assert statistics(dishes)["tasks"]["textqa"]["regions"] == [{"name": "Cantonese", "dishes": 3}]


def test_multi_hop_is_told_where_it_is_recorded(release):
    records = made_up_records("textqa", 8)
    for row, hops in ((0, "multiple"), (1, "single"), (5, "single"), (7, "unclear")):
        records[row]["num_hops"] = hops
    report = read_file(write_records(release / "own.json", records), "textqa", "zh")
    found = statistics(report.questions, {"textqa": report.hops})
    assert found["tasks"]["textqa"]["multi_hop"] == {"recorded": 3, "share": pytest.approx(1 / 3)}
    assert cells(render(found, "t"), "Questions (tables 1 and 2)")["multi-hop (%)"] == ["33.3 (of 3)", "1.6"]
    assert statistics(report.questions, {"sivqa": report.hops})["tasks"]["textqa"]["multi_hop"] is None


@pytest.mark.parametrize("task", FOOD_TASKS)
def test_a_set_with_the_published_counts_gives_the_published_tables(task):
    facts = published_dataset()[task]
    groups = list(Counter(facts["cuisines"]).elements()) + list(Counter(facts["categories"]).elements())
    asked = []
    for row, kind in enumerate(Counter(facts["types"]).elements()):
        group = groups[row] if groups else ""
        side = "category" if group in facts["categories"] else "cuisine"
        asked.append(made(task, row, question_type=kind, answer=row % 4, **{side: group}))
    text = render(statistics(asked), "t")
    number = {"mivqa": 8, "sivqa": 7, "textqa": 6}[task]
    kind = {"mivqa": "Multi-image", "sivqa": "Single-image", "textqa": "Text"}[task]
    kinds = cells(text, f"{kind} questions by type (table {number})")
    for name, (_, n, share, published, published_share) in kinds.items():
        assert n == published and share == published_share, name
    assert len(kinds) == len(facts["types"]) + 1
    overview = cells(text, "Questions (tables 1 and 2)")
    assert (
        overview["questions"] == [str(facts["n"])] * 2 and overview["question types"] == [str(len(facts["types"]))] * 2
    )
    for heading in [line[3:] for line in text.splitlines() if line.endswith(("by cuisine", "by food category"))]:
        for name, (_, n, authors) in cells(text, heading).items():
            assert n == authors, name


def test_types_and_groups_that_only_one_side_has_are_shown():
    text = render(statistics([made("textqa", 0, question_type="price", cuisine="鲁菜")]), "t")
    kinds = cells(text, "Text questions by type (table 6)")
    assert kinds["Price"] == ["`price`", "1", "100.0", "–", "–"]
    assert kinds["Warm or cold"] == ["`warm-cold`", "0", "0.0", "71", "10.1"]
    assert cells(text, "Text questions by cuisine") == {"Shandong": ["鲁菜", "1", "–"]}
    text = render(statistics([made("sivqa", 0, cuisine="川菜")]), "t")
    assert cells(text, "Single-image questions by cuisine")["Sichuan"] == ["川菜", "1", "47"]
    assert cells(text, "Single-image questions by cuisine")["Shanghai"] == ["–", "0", "12"]


def test_english_questions_are_not_compared_in_length(release):
    found = statistics(read_release(release, "sivqa", "en"))
    overview = cells(render(found, "t"), "Questions (tables 1 and 2)")
    assert overview["language"] == ["English", "Chinese"] and overview["mean question length, characters"][1] == "–"
    assert found["tasks"]["sivqa"]["answers"]["cuisine_type"][0][0].endswith(("cuisine", "(Hakka)"))


def test_markdown_says_what_it_is_of_and_holds_no_broken_table():
    odd = made("textqa", choices=("a|b\n`c`", "b", "c", "d"), question_type="x|y")
    text = render(statistics([odd]), "demo | set", ["these are demo questions, not FoodieQA"])
    assert "demo \\| set" in text and "- note: these are demo questions, not FoodieQA" in text
    assert "a\\|b `c` 1" in text
    tables = [line.replace("\\|", "") for line in text.splitlines() if line.startswith("|")]
    widths = [line.count("|") for line in tables]
    for i, line in enumerate(tables):
        if line.startswith("|---"):
            assert widths[i - 1] == widths[i]
        elif i and not tables[i - 1].startswith("|---") and widths[i] != widths[i - 1]:
            assert tables[i + 1].startswith("|---")  # the head of the next table


def test_wrong_sets_are_refused():
    with pytest.raises(InputError, match="no questions"):
        statistics([])
    english = FoodQuestion("textqa", 1, "0" * 32, "1", "en", "?", ("a", "b", "c", "d"), (), 0, "flavor")
    with pytest.raises(InputError, match="one language"):
        statistics([made("textqa"), english])


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(TYPES["textqa"]), st.integers(0, 3), st.sampled_from("abcde")), min_size=1))
def test_every_question_is_counted_once(drawn):
    asked = [
        made("textqa", i, question_type=kind, answer=answer, food_name=dish, cluster=dish, cuisine="川菜")
        for i, (kind, answer, dish) in enumerate(drawn)
    ]
    found = statistics(asked)["tasks"]["textqa"]
    n = len(drawn)
    assert sum(found["types"].values()) == sum(map(sum, found["letters"].values())) == n
    assert sum(count for pairs in found["answers"].values() for _, count in pairs) == n
    assert found["clusters"] == found["dishes"] == sum(row["dishes"] for row in found["regions"])
    assert "nan" not in render({"tasks": {"textqa": found}}, "t")


# ---- figures ---------------------------------------------------------------------------------------------------------


def test_figures_are_drawn_with_and_without_a_chinese_font(questions, tmp_path, monkeypatch):
    from PIL import Image

    found = statistics(questions)
    wanted = ["question_types.png", "regions.png", "answer_letters.png", "answers_sivqa.png", "answers_textqa.png"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a glyph that no font has is a warning
        assert draw(found, tmp_path / "a", "demo set") == wanted
        monkeypatch.setattr(food_statistics, "cjk_font", lambda: None)
        assert draw(found, tmp_path / "b", "我的题目") == wanted
    for name in wanted:
        for folder in ("a", "b"):
            with Image.open(tmp_path / folder / name) as picture:
                assert picture.width >= 900 and picture.height >= 300
                assert len(picture.convert("RGB").getcolors(1 << 20) or ()) > 20  # not blank


def test_one_task_gets_its_own_figures(release, tmp_path):
    found = statistics(read_release(release, "mivqa", "zh"))
    assert draw(found, tmp_path) == ["question_types.png", "regions.png", "answer_letters.png"]


def test_labels_without_glyphs_are_replaced(monkeypatch):
    monkeypatch.setattr(food_statistics, "cjk_font", lambda: None)
    assert shown_text("川菜") == "(in Chinese)" and shown_text("Xi'an\nfood") == "Xi'an food"
    monkeypatch.setattr(food_statistics, "cjk_font", lambda: "Noto Sans CJK SC")
    assert shown_text("川菜") == "川菜"


def test_answers_in_english_for_figures():
    assert display_answer("勾芡 ") == "thicken with starch" and display_answer("粤菜 ") == "Cantonese"
    assert display_answer("西安") == "Xi'an" and display_answer("没有这个") == "没有这个"
    assert all(name.isascii() for name in ANSWER_NAMES.values())


def test_all_files_are_written(questions, tmp_path):
    names = write_statistics(tmp_path, statistics(questions), "demo set", ["not FoodieQA"])
    assert sorted(names) == sorted(path.name for path in tmp_path.iterdir())
    content = json.loads((tmp_path / "statistics.json").read_text(encoding="utf-8"))
    assert (
        content["title"] == "demo set" and content["notes"] == ["not FoodieQA"] and content["tasks"]["mivqa"]["n"] == 48
    )
    text = (tmp_path / "statistics.md").read_text(encoding="utf-8")
    assert all(f"({name})" in text for name in names if name.endswith(".png"))


def test_published_numbers_are_those_of_the_tables(shared):
    rows = json.loads((shared / "published" / "foodieqa.json").read_text(encoding="utf-8"))
    keys = {"mean_question_length": "mean_question_length", "n_question_types": "question_types"}
    keys |= {"multi_hop_share": "multi_hop", "n_unique_images": "unique_images", "n_images_used": "images_used"}
    groups = {"question_type": "types", "cuisine": "cuisines", "food_category": "categories", "food_type": "cuisines"}
    facts, seen = published_dataset(), Counter()
    for row in rows:
        task, metric = row["task"], row["metric"]
        if task not in FOOD_TASKS:
            continue
        if metric in keys:
            assert facts[task][keys[metric]] == row["value"]
        elif metric == "n_questions" and "group" in row:
            assert facts[task][groups[row["group_kind"]]][row["group"]] == row["value"]
        elif metric == "n_questions":
            assert facts[task]["in_domain" if "in-domain" in row["setting"] else "n"] == row["value"]
        else:
            continue
        seen[task, metric] += 1
    for task in FOOD_TASKS:
        counts = sum(len(facts[task][kind]) for kind in ("types", "cuisines", "categories"))
        assert seen[task, "n_questions"] == counts + 1 + (facts[task]["in_domain"] is not None)
    assert facts["images"] == {"collected": 502, "discarded": 113, "final": 389}
    assert set(FILES) == set(FOOD_TASKS)
