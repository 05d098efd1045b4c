import json
import re
import shutil
import subprocess
from html.parser import HTMLParser

import pytest

from data.build.dish_questions import generate, read_templates
from data.build.dish_terms import FOLDER
from data.build.translation_page import (
    apply_translation_checks,
    read_translation_checks,
    source_of,
    write_translation_page,
)
from data.dish_table import read_dishes
from data.errors import InputError

CHROMIUM = shutil.which("chromium")


@pytest.fixture(scope="module")
def made():
    dishes = read_dishes(FOLDER.parents[1] / "data" / "build" / "dishes.csv")[:30]
    return generate(dishes, read_templates(), photo_of=lambda dish: [f"images/{dish.row}.jpg"])


def saved(path, *checks, **changes):
    content = {"format": "translation checks", "version": 1, "set": "x", "checks": list(checks)} | changes
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def check_of(record, verdict, **changes):
    return {
        "question_id": record["question_id"],
        "source": source_of(record),
        "verdict": verdict,
        "question_en": record["question_en"],
        "choices_en": record.get("choices_en", []),
        "note": "",
    } | changes


class Outside(HTMLParser):
    """Collects what a page would load, and its fields."""

    def __init__(self):
        super().__init__()
        self.loads, self.articles, self.inputs = [], [], []

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.loads += [found[key] for key in ("src", "href", "action", "data") if key in found]
        if tag == "article":
            self.articles.append(found)
        if tag == "input" and "data-zh" in found:
            self.inputs.append((found["data-zh"], found["value"]))


def test_the_page_stands_alone_and_shows_every_text(tmp_path, made):
    records = [*made.textqa, *made.sivqa, *made.mivqa]
    write_translation_page(records, tmp_path / "page.html", "A <title> & more")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    page = Outside()
    page.feed(text)
    assert page.loads == [] and "http" not in text.split("<main>")[0].replace("http-equiv", "")
    assert [article["data-id"] for article in page.articles] == [record["question_id"] for record in records]
    pairs = [p for r in records if r["choices"] for p in zip(r["choices"], r["choices_en"], strict=True)]
    assert page.inputs == pairs
    assert "A &lt;title&gt; &amp; more" in text and "<title> & more" not in text


def test_markup_in_a_text_stays_text(tmp_path, made):
    evil = made.textqa[0] | {
        "question_en": "</textarea><script>alert(1)</script>",
        "choices_en": ['"><b>', "b", "c", "d"],
    }
    write_translation_page([evil], tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<script>alert" not in text and '"><b>' not in text


def test_corrections_are_applied(tmp_path, made):
    first, second, third, fourth = made.textqa[:4]
    picture = made.mivqa[0]
    path = saved(
        tmp_path / "checks.json",
        check_of(first, "ok"),
        check_of(second, "corrected", question_en="Better ?", choices_en=["a", "b", " c  c", "d"]),
        check_of(third, "bad", note="nonsense"),
        check_of(picture, "corrected", question_en="Which one?"),
    )
    checks = read_translation_checks(path)
    found = apply_translation_checks(made, checks)
    assert found.textqa[0] == first and found.textqa[2] == fourth and len(found.textqa) == len(made.textqa) - 1
    assert found.textqa[1] == second | {"question_en": "Better ?", "choices_en": ["a", "b", "c c", "d"]}
    assert found.mivqa[0] == picture | {"question_en": "Which one?"}
    assert found.sivqa == made.sivqa
    kept = apply_translation_checks(made, checks, on_bad="chinese_only").textqa[2]
    assert "question_en" not in kept and "choices_en" not in kept and kept["question"] == third["question"]


def test_a_verdict_on_other_wording_is_refused(tmp_path, made):
    record = made.textqa[0]
    for wrong, told in (
        (check_of(record, "ok", source="0" * 16), "other wording"),
        (check_of(record, "ok", question_id="textqa-0"), "not in the set"),
        (check_of(record, "corrected", choices_en=["a", "A ", "b", "c"]), "not four different"),
    ):
        checks = read_translation_checks(saved(tmp_path / "checks.json", wrong))
        with pytest.raises(InputError, match=told) as caught:
            apply_translation_checks(made, checks)
        assert record["question_id"] in str(caught.value) or "textqa-0" in str(caught.value)


def test_wrong_files_cost_one_line(tmp_path, made):
    good = check_of(made.textqa[0], "ok")
    path = tmp_path / "checks.json"
    cases = [
        (lambda: path.write_text("{"), "is not JSON"),
        (lambda: path.write_bytes(b"\xff\xfe\x00"), "is not JSON"),
        (lambda: path.write_text("[]"), "is no file of translation checks"),
        (lambda: saved(path, version=2), "is no file of translation checks"),
        (lambda: saved(path, checks={}), "is no list"),
        (lambda: saved(path, good, good), "stands there twice"),
        (lambda: saved(path, good | {"verdict": "maybe"}), "verdict must be one of"),
        (lambda: saved(path, good | {"question_en": " "}), "empty or too long"),
        (lambda: saved(path, good | {"choices_en": ["a"]}), "none or four"),
        (lambda: saved(path, {"question_id": 3}), "needs the texts"),
    ]
    for write, told in cases:
        write()
        with pytest.raises(InputError, match=told) as caught:
            read_translation_checks(path)
        assert "checks.json" in str(caught.value) and "\n" not in str(caught.value)
    with pytest.raises(InputError, match="cannot be read"):
        read_translation_checks(tmp_path / "none.json")


def test_a_set_without_english_has_no_page(tmp_path, made):
    bare = [{key: value for key, value in made.textqa[0].items() if not key.endswith("_en")}]
    with pytest.raises(InputError, match="no question has an English text"):
        write_translation_page(bare, tmp_path / "page.html")


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")
def test_a_browser_saves_what_the_reader_reads(tmp_path, made):
    records = [*made.textqa[:12], *made.mivqa[:2]]
    page = tmp_path / "page.html"
    write_translation_page(records, page)
    shared = next(
        (i, place) for i, record in enumerate(records[:12]) for place, zh in enumerate(record["choices"])
        if sum(zh in other["choices"] for other in records[:12]) > 1
    )  # fmt: skip
    act = f"""<script>
    judge(rows[13], "ok");
    const field = fields(rows[{shared[0]}])[{shared[1] + 1}];
    field.value = "Something else"; field.dispatchEvent(new Event("change", {{ bubbles: true }}));
    document.body.innerHTML = "";
    const out = document.createElement("pre"); document.body.append(out);
    out.textContent = JSON.stringify({{ format: "translation checks", version: 1, checks: checked() }});
    </script></body>"""
    page.write_text(page.read_text(encoding="utf-8").replace("</body>", act), encoding="utf-8")
    dom = subprocess.run(
        [str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}",
         "--dump-dom", page.as_uri()],
        capture_output=True, text=True, timeout=120, check=True,
    ).stdout  # fmt: skip
    found = re.search(r"<pre>(.*)</pre>", dom, re.S)
    assert found
    (tmp_path / "checks.json").write_text(
        found[1].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"), encoding="utf-8"
    )
    checks = read_translation_checks(tmp_path / "checks.json")
    changed = records[shared[0]]
    zh, en = changed["choices"][shared[1]], changed["choices_en"][shared[1]]
    alike = [r for r in records[:12] if (zh, en) in zip(r["choices"], r["choices_en"], strict=True)]
    assert len(alike) > 1
    assert {key: check.verdict for key, check in checks.items()} == {
        records[13]["question_id"]: "ok",
        **{record["question_id"]: "corrected" for record in alike},
    }
    result = apply_translation_checks(made, checks)
    for record in alike:
        after = next(r for r in result.textqa if r["question_id"] == record["question_id"])
        assert after["choices_en"][record["choices"].index(zh)] == "Something else"
