"""Retrieval sheets: the right cards in the right order, whatever titles, photos and scores look like."""

import base64
import io
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw
from rich.console import Console

from data.errors import InputError
from data.recipes import open_table, write_table
from data.records import Recipe
from engine.gallery import Gallery, rank_query
from engine.sheet import THUMBNAIL, _cut, _font, _wrap, one_line, retrieval_sheet

NASTY = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "مرق الدجاج بالكريمة والليمون",
    "Superlongword" * 60,
    "",
    "a\x00b\x1b[31m\u202eevil\u2066 \ud800 \n\n c",
    "北京烤鸭 🍜 &amp; friends",
    "word " * 400,
]


class Parts(HTMLParser):
    """Tags, attributes and texts of a page; fails on tags that do not close."""

    def __init__(self, page):
        super().__init__()
        self.open, self.tags, self.texts = [], [], []
        self.feed(page)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] != "style" and data.strip():
            self.texts.append(data.strip())


def unit(shape, seed=0):
    vectors = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def record(position):
    title = f"Recipe {position}"
    return Recipe(f"r{position}", title, tuple(f"{i} of {title}" for i in range(position % 7)), ("Cook.",), ("p.jpg",))


@pytest.fixture
def photos(tmp_path):
    def photo(position):
        path = tmp_path / f"{position}.jpg"
        if not path.exists():
            Image.new("RGB", (400 + position, 300), (10 * (position % 25), 90, 120)).save(path)
        return path

    return photo


def sheet(tmp_path, photos, count=12, k=5, queries=(0, 1, 2), image=None, recipe=None, **more):
    recipe = unit((count, 16)) if recipe is None else recipe
    image = recipe if image is None else image
    settings = {"record": record, "photo": photos, "title": "some data, test"} | more
    paths = tmp_path / "s.html", tmp_path / "s.png"
    retrieval_sheet(*paths, queries=queries, image=image, recipe=recipe, k=k, **settings)
    page = paths[0].read_text(encoding="utf-8")
    with Image.open(paths[1]) as picture:
        picture.load()
        return page, picture


def cards(page):
    """(classes, rank, score, title) of each answer."""
    pattern = (
        r'<article class="card ((?:photo|recipe)[^"]*)"><div class="score"><span>rank ([^<]*)</span><b>([^<]*)</b>'
        r'.*?<div class="title"[^>]*>([^<]*)</div>'
    )
    return re.findall(pattern, page, re.DOTALL)


def test_answers_are_the_nearest_in_order_with_their_scores(tmp_path, photos):
    image, recipe = unit((30, 8), 1), unit((30, 8), 2)
    page, _ = sheet(tmp_path, photos, image=image, recipe=recipe, queries=[4, 9], k=3)
    found = cards(page)
    expected = []
    for asked, gallery, kind in ((image, recipe, "recipe"), (recipe, image, "photo")):
        for query in (4, 9):
            scores = gallery @ asked[query]
            order = sorted(range(30), key=lambda j, s=scores: (-s[j], j))
            for rank, j in enumerate(order[:3], 1):
                expected.append((kind + " right" * (j == query), str(rank), f"{scores[j]:.3f}", f"Recipe {j}"))
            if query not in order[:3]:
                rank = str(order.index(query) + 1)
                expected.append((f"{kind} right beyond", rank, f"{scores[query]:.3f}", f"Recipe {query}"))
    assert found == expected
    assert any("beyond" in classes for classes, *_ in found)


def test_equal_scores_share_their_places(tmp_path, photos):
    vectors = np.tile(unit((1, 8)), (6, 1))
    page, _ = sheet(tmp_path, photos, image=vectors, recipe=vectors, queries=[4], k=2)
    assert [(rank, "right" in classes) for classes, rank, _, _ in cards(page)][:3] == [
        ("1–6", False),
        ("1–6", False),
        ("1–6", True),
    ]
    assert "first for 0, among the first 2 for 0; median rank 3.5" in page


def test_the_page_is_whole_and_asks_for_nothing(tmp_path, photos):
    page, picture = sheet(tmp_path, photos)
    parts = Parts(page)
    tags = {tag for tag, _ in parts.tags}
    assert not tags & {"script", "link", "iframe", "object", "base"}
    urls = [value for _, attrs in parts.tags for key, value in attrs.items() if key in ("src", "href", "srcset")]
    assert urls and all(url.startswith("data:image/jpeg;base64,") for url in urls)
    assert "http:" not in page and "https:" not in page and "url(" not in page and "@import" not in page
    assert len(page) < 400_000 and picture.mode == "RGB" and picture.width > 1000 and picture.height > 800


@pytest.mark.parametrize("title", NASTY, ids=range(len(NASTY)))
def test_titles_of_every_kind_are_shown_as_text(tmp_path, photos, title):
    def nasty(position):
        return Recipe("r", title, (title, "1 egg"), (title,), ("p.jpg",))

    page, picture = sheet(tmp_path, photos, count=3, k=2, queries=[0], record=nasty, title=title or "x")
    parts = Parts(page)
    assert {tag for tag, _ in parts.tags} <= {
        *("html", "head", "meta", "title", "style", "body", "header", "h1", "h2", "p", "section", "div", "article"),
        *("span", "b", "i", "img", "ul", "li"),
    }
    assert not [key for _, attrs in parts.tags for key in attrs if key.startswith("on")]
    assert not re.search("[\x00-\x09\x0b-\x1f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", page)
    shown = one_line(title) or "untitled"
    assert parts.texts.count(shown) >= 2
    assert picture.width < 1600 and picture.height < 1500


def test_no_text_leaves_its_card():
    probe = ImageDraw.Draw(Image.new("RGB", (10, 10)))
    for title in NASTY:
        for width in (30, 75, 178, 500):
            for most in (1, 2, 3):
                for size, bold in ((12, False), (14, True)):
                    lines = _wrap(title, _font(size, bold), width, most)
                    assert len(lines) <= most
                    assert all(probe.textlength(line, _font(size, bold)) <= width for line in lines)
    whole = "some words that are long enough for three lines"
    assert " ".join(_wrap(whole, _font(12), 120, 9)) == whole
    assert _cut("abc", _font(12), 500) == "abc" and _cut("abcdefghij", _font(12), 40).endswith("…")


@pytest.mark.parametrize(("count", "k"), [(1, 5), (3, 50), (12, 12), (40, 17)])
def test_more_neighbours_than_candidates_or_columns(tmp_path, photos, count, k):
    page, picture = sheet(tmp_path, photos, count=count, k=k, queries=[0])
    assert len(cards(page)) == 2 * min(k, count)
    assert picture.width < 1700
    assert f"against {count} recipe{'s' * (count > 1)}." in page


def test_pictures_that_cannot_be_shown_are_said_to_be_missing(tmp_path, photos):
    def photo(position):
        path = photos(position)
        if position == 0:
            return tmp_path / "absent.jpg"
        if position == 1:
            path.write_bytes(path.read_bytes()[:200])
        if position == 2:
            raise InputError("no such picture")
        return path

    page, _ = sheet(tmp_path, photo, count=4, k=4, queries=[0, 1, 2, 3])
    assert page.count("no picture to show") == 3 + 4 * 3  # as query, and as an answer to each recipe
    assert "rendered" not in page


def test_pictures_are_small_and_rendered_ones_are_labelled(tmp_path, photos):
    Image.effect_noise((3000, 2000), 90).convert("RGB").save(photos(0))
    page, picture = sheet(tmp_path, photos, count=1, k=1, queries=[0], rendered=True)
    (first, *_) = re.findall(r"base64,([^\"]+)", page)
    with Image.open(io.BytesIO(base64.b64decode(first))) as thumbnail:
        assert max(thumbnail.size) == THUMBNAIL and thumbnail.size == (256, 171)
    assert page.count('<span class="drawn">rendered</span>') == 2 and "Pictures are rendered, no photographs." in page
    plain, bare = sheet(tmp_path, photos, count=1, k=1, queries=[0])
    assert "rendered" not in plain
    assert picture.height == bare.height + 20  # the line that says so


def test_the_partner_is_green_in_the_png(tmp_path, photos):
    image, recipe = unit((20, 4), 5), unit((20, 4), 6)
    _, picture = sheet(tmp_path, photos, image=image, recipe=recipe, queries=[3], k=2)
    pixels = np.asarray(picture).reshape(-1, 3)
    assert (pixels == (0x1F, 0x8A, 0x4C)).all(1).sum() > 500


def test_same_input_gives_the_same_bytes(tmp_path, photos):
    sheet(tmp_path, photos)
    first = (tmp_path / "s.html").read_bytes(), (tmp_path / "s.png").read_bytes()
    sheet(tmp_path, photos)
    assert first == ((tmp_path / "s.html").read_bytes(), (tmp_path / "s.png").read_bytes())


def test_wrong_input_is_named(tmp_path, photos):
    good = unit((4, 8))
    bad = good.copy()
    bad[2, 3] = np.nan
    for change, message in (
        ({"image": unit((3, 8))}, "give N pairs"),
        ({"image": bad}, "NaN"),
        ({"k": 0}, "k=0"),
        ({"queries": [4]}, "query 4 of 4"),
        ({"queries": [-1]}, "query -1 of 4"),
    ):
        with pytest.raises(InputError, match=message):
            sheet(tmp_path, photos, **{"recipe": good, "queries": [0], **change})
    assert not (tmp_path / "s.html").exists()
    page, _ = sheet(tmp_path, photos, queries=[])
    assert "no queries" in page


@pytest.fixture
def table(tmp_path):
    write_table(tmp_path / "table", [record(i) for i in range(9)])
    return open_table(tmp_path / "table")


def printed(function, *args, **kwargs):
    stream = io.StringIO()
    rows = function(*args, console=Console(file=stream, width=100, highlight=False), **kwargs)
    return rows, stream.getvalue()


def test_one_photo_is_ranked_among_recipes(tmp_path, photos, table):
    vectors = unit((9, 8))
    gallery = Gallery([f"r{i}" for i in range(8)] + ["stranger[/]"], vectors)
    rows, text = printed(rank_query, tmp_path / "out", vectors[8], gallery, records=table, query_photo=photos(0), k=3)
    assert [row["rank"] for row in rows] == [1, 2, 3] and rows[0]["id"] == rows[0]["title"] == "stranger[/]"
    order = np.argsort(-(vectors @ vectors[8]), kind="stable")
    assert [row["id"] for row in rows[1:]] == [f"r{i}" for i in order[1:3]]
    assert rows[1]["title"] == f"Recipe {order[1]}" and rows[0]["score"] == pytest.approx(1, abs=1e-6)
    assert "stranger[/]" in text and "3 nearest of 9 recipes" in text and "0.jpg" in text
    page = (tmp_path / "out" / "query.html").read_text()
    Parts(page)
    assert len(cards(page)) == 3 and page.count("<img") == 1 and "right" not in {c for c, *_ in cards(page)}
    assert Image.open(tmp_path / "out" / "query.png").width > 700


def test_one_recipe_is_ranked_among_photos(tmp_path, photos, table):
    vectors = unit((9, 8))
    gallery = Gallery([f"r{i}" for i in range(9)], vectors)
    asked = Recipe("query", "My <b>pie</b>", ("1 apple",), ("Bake.",))
    shown = {"records": table, "photo": lambda name: photos(1), "query_recipe": asked}
    rows, text = printed(rank_query, tmp_path, vectors[4], gallery, k=20, rendered=True, **shown)
    assert len(rows) == 9 and rows[0]["id"] == "r4" and "9 nearest of 9 photos" in text
    page = (tmp_path / "query.html").read_text()
    assert page.count("<img") == 9 and page.count('class="drawn"') == 9 and "<b>pie" not in page

    def nowhere(name) -> Path:
        raise InputError("absent")

    printed(rank_query, tmp_path, vectors[4], gallery, records=table, photo=nowhere, query_recipe=asked, k=2)
    assert (tmp_path / "query.html").read_text().count("no picture to show") == 2


def test_an_empty_or_strange_gallery(tmp_path, photos):
    empty = Gallery([], np.empty((0, 8), np.float32))
    rows, text = printed(rank_query, tmp_path, unit((1, 8))[0], empty, query_photo=photos(0))
    assert rows == [] and "0 nearest of 0 recipes" in text
    assert "the gallery is empty" in (tmp_path / "query.html").read_text()
    gallery = Gallery(["a", "b"], unit((2, 8)))
    rows, _ = printed(rank_query, tmp_path, unit((1, 8))[0], gallery, query_photo=tmp_path / "absent.png")
    assert {row["title"] for row in rows} == {"a", "b"}
    with pytest.raises(InputError, match="8 dimensions"):
        printed(rank_query, tmp_path, unit((1, 4))[0], gallery, query_photo=photos(0))
