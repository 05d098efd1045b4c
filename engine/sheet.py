"""Retrieval sheets: queries with their nearest neighbours, as one self-contained HTML file and as a PNG."""

import base64
import html
import io
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageDraw, ImageFont

from data.errors import InputError
from data.files import atomic_file
from data.images import decode
from data.records import Recipe

THUMBNAIL = 256  # edge of the pictures in the HTML file
SHOWN_LINES = 4  # ingredients on a card
_BLOCK = 8192
_MAX_TEXT = 300  # characters of a title or line that reach a sheet


@dataclass(frozen=True)
class Card:
    """A recipe or a photo on a sheet."""

    title: str
    lines: tuple[str, ...] = ()  # ingredients
    photo: Path | None = None  # the card shows it where `is_photo`
    is_photo: bool = False
    rendered: bool = False  # the picture is drawn and no photograph


@dataclass(frozen=True)
class Hit:
    """One answer to a query."""

    card: Card
    score: float  # cosine
    rank: str  # "3", or "3–7" where equal scores share these places
    right: bool = False  # the true partner
    beyond: bool = False  # the true partner outside the nearest k


@dataclass(frozen=True)
class Row:
    """A query and its answers, best first; the true partner is the last one where it is beyond the nearest k."""

    query: Card
    hits: tuple[Hit, ...]
    candidates: int


@dataclass(frozen=True)
class Section:
    """Queries of one direction."""

    heading: str
    note: str
    rows: tuple[Row, ...]


# ------------------------------------------------------------------------------------------------------- what is shown


def retrieval_sheet(
    path_html: Path,
    path_png: Path,
    *,
    queries: Sequence[int] | np.ndarray,
    image: np.ndarray,
    recipe: np.ndarray,
    record: Callable[[int], Recipe],
    photo: Callable[[int], Path],
    k: int = 5,
    title: str = "",
    rendered: bool = False,
) -> None:
    """A sheet of some queries in both directions: the query, its k nearest with scores, the true partner in green.

    Args:
        path_html: self-contained page.
        path_png: the same as a picture.
        queries: positions of pairs, 0-based.
        image: (N, D) embeddings of the photos, unit length.
        recipe: (N, D) embeddings of the recipes, unit length; row i is the partner of photo i.
        record: the recipe at a position.
        photo: path of the photo at a position; an absent or damaged one is shown as such.
        k: neighbours; where there are fewer, all.
        title: heading, such as data and split.
        rendered: the pictures are drawn and no photographs.

    Raises:
        InputError: embeddings that do not pair up or are not finite, a position outside them, k below 1.
    """
    positions = [int(position) for position in queries]
    if image.ndim != 2 or image.shape != recipe.shape:
        raise InputError(f"retrieval sheet: embeddings of shape {image.shape} and {recipe.shape}; give N pairs")
    if k < 1:
        raise InputError(f"retrieval sheet: k={k} must be 1 or more")
    if positions and not 0 <= min(positions) <= max(positions) < len(image):
        raise InputError(
            f"retrieval sheet: query {max(positions, key=abs)} of {len(image)} pairs; give positions from 0"
        )

    def card(position: int, is_photo: bool) -> Card:
        found = record(position)
        path = _path(photo, position) if is_photo else None
        return Card(found.title, found.ingredients, path, is_photo, rendered and is_photo)

    sections = []
    for heading, asked, gallery, is_photo in (
        ("Photo → recipes", image, recipe, True),
        ("Recipe → photos", recipe, image, False),
    ):
        rows, ranks = [], []
        for position, scores in zip(positions, _cosines(asked, positions, gallery), strict=True):
            order = np.argsort(-scores, kind="stable")[:k]
            first, last = _places(scores, position)
            ranks.append((first + last) / 2)
            hits = [
                Hit(card(int(j), not is_photo), float(scores[j]), _span(*_places(scores, int(j))), int(j) == position)
                for j in order
            ]
            if position not in order:
                partner = card(position, not is_photo)
                hits.append(Hit(partner, float(scores[position]), _span(first, last), True, True))
            rows.append(Row(card(position, is_photo), tuple(hits), len(scores)))
        what = "recipe" if is_photo else "photo"
        sections.append(Section(heading, _summary(ranks, len(image), what, k), tuple(rows)))
    note = "The number on a card is its cosine similarity to the query; the true partner is outlined in green."
    if rendered:
        note += " Pictures are rendered, no photographs."
    write_sheet(path_html, path_png, sections, title or "Retrieval", note)


def write_sheet(path_html: Path, path_png: Path, sections: Sequence[Section], title: str, note: str) -> None:
    """Write a sheet as a self-contained HTML page and as a PNG; each file appears whole."""
    thumbnails = cache(_thumbnail)
    page = _page(sections, title, note, thumbnails)
    with atomic_file(path_html) as partial:
        partial.write_bytes(page.encode("utf-8", "replace"))
    picture = _picture(sections, title, note, thumbnails)
    with atomic_file(path_png) as partial:
        picture.save(partial, "PNG", compress_level=4)


def _path(photo: Callable[[int], Path], position: int) -> Path | None:
    try:
        return Path(photo(position))
    except (InputError, OSError):
        return None


def _cosines(asked: np.ndarray, positions: list[int], gallery: np.ndarray) -> list[np.ndarray]:
    """(N,) cosines of each query with the whole gallery, block by block."""
    if not positions:
        return []
    queries = np.asarray(asked[positions], np.float32)
    parts = [queries @ np.asarray(gallery[i : i + _BLOCK], np.float32).T for i in range(0, len(gallery), _BLOCK)]
    scores = np.concatenate(parts, 1)
    if not np.isfinite(scores).all():
        raise InputError("retrieval sheet: the embeddings hold NaN or infinity; check the checkpoint and the input")
    return list(scores)


def _places(scores: np.ndarray, j: int) -> tuple[int, int]:
    """First and last place that a candidate may take, 1-based; they differ where scores are equal."""
    above = int((scores > scores[j]).sum())
    return above + 1, above + int((scores == scores[j]).sum())


def _span(first: int, last: int) -> str:
    return f"{first:,}" if first == last else f"{first:,}–{last:,}"


def _summary(ranks: list[float], candidates: int, what: str, k: int) -> str:
    if not ranks:
        return "no queries"
    first, near = sum(rank == 1 for rank in ranks), sum(rank <= k for rank in ranks)
    median = f"{float(np.median(ranks)):,.1f}".removesuffix(".0")
    return (
        f"{len(ranks)} queries, each against {candidates:,} {what}{'s' if candidates != 1 else ''}. The true {what} "
        f"is first for {first}, among the first {min(k, candidates)} for {near}; median rank {median} in this sample."
    )


def one_line(text: str) -> str:
    """One line without control characters, of a length that a sheet can hold."""
    text = "".join(
        " " if c.isspace() else c
        for c in text[: 4 * _MAX_TEXT]
        if c.isspace() or unicodedata.category(c) not in ("Cc", "Cf", "Cs", "Cn")
    )
    text = " ".join(text.split())
    return text if len(text) <= _MAX_TEXT else text[: _MAX_TEXT - 1].rstrip() + "…"


def _thumbnail(path: Path | None) -> Image.Image | None:
    """A picture of at most `THUMBNAIL` pixels a side; None where there is none to show."""
    if path is None:
        return None
    try:
        pixels = decode(path)
    except InputError:
        return None
    picture = Image.fromarray(pixels.permute(1, 2, 0).contiguous().to(torch.uint8).numpy())
    width, height = picture.size
    scale = THUMBNAIL / max(width, height)
    size = max(1, round(width * min(scale, 1))), max(1, round(height * min(scale, 1)))
    return picture.resize(size, Image.Resampling.LANCZOS, reducing_gap=2.0)


# ---------------------------------------------------------------------------------------------------------------- HTML

_STYLE = """
:root { color-scheme: light; --ink: #22262b; --soft: #68707a; --line: #e3e0d9; --paper: #faf8f4; --green: #1f8a4c; }
* { box-sizing: border-box; }
body { margin: 0; padding: 24px clamp(12px, 3vw, 44px) 48px; background: var(--paper); color: var(--ink);
  font: 15px/1.45 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif; }
header, section { max-width: 1500px; margin: 0 auto; }
h1 { font-size: clamp(20px, 2.6vw, 28px); line-height: 1.2; margin: 0 0 6px; overflow-wrap: anywhere; }
h2 { font-size: clamp(17px, 2vw, 21px); margin: 36px 0 2px; }
p { margin: 0 0 12px; color: var(--soft); max-width: 80ch; }
.row { display: grid; grid-template-columns: minmax(150px, 210px) minmax(0, 1fr); gap: 12px 22px; padding: 16px 0;
  border-top: 1px solid var(--line); }
.hits { display: grid; grid-template-columns: repeat(auto-fill, minmax(176px, 1fr)); gap: 12px; align-content: start; }
.card { position: relative; background: #fff; border: 1px solid var(--line); border-radius: 10px; overflow: hidden;
  min-width: 0; display: flex; flex-direction: column; }
.query { border: 2px solid #c7b893; align-self: start; }
.right { border-color: var(--green); box-shadow: 0 0 0 2px var(--green); }
.beyond { border-style: dashed; }
.text { padding: 9px 11px 10px; flex: 1; min-width: 0; }
.title { font-weight: 600; line-height: 1.3; overflow-wrap: anywhere; overflow: hidden; display: -webkit-box;
  -webkit-box-orient: vertical; -webkit-line-clamp: 3; line-clamp: 3; }
.photo .title { font-weight: 500; font-size: 13px; -webkit-line-clamp: 2; line-clamp: 2; color: var(--soft); }
ul { margin: 6px 0 0; padding: 0; list-style: none; color: var(--soft); font-size: 13px; }
li { white-space: nowrap; overflow: hidden; text-overflow: ellipsis; }
.picture { aspect-ratio: 1; background: #efece5; display: flex; align-items: center; justify-content: center;
  position: relative; color: var(--soft); font-size: 13px; }
.picture img { width: 100%; height: 100%; object-fit: cover; display: block; }
.drawn { position: absolute; left: 6px; bottom: 6px; font-size: 11px; line-height: 1; padding: 4px 6px;
  border-radius: 5px; background: rgb(255 255 255 / 85%); color: #4a4f57; }
.score { display: flex; justify-content: space-between; gap: 8px; padding: 6px 11px; font-size: 13px;
  font-variant-numeric: tabular-nums; border-bottom: 1px solid var(--line); background: #fcfbf8; }
.score b { white-space: nowrap; }
.right .score { background: #e8f5ec; color: #14633a; }
.bar { height: 3px; background: #ece8df; }
.bar i { display: block; height: 3px; background: #b79b5b; }
.right .bar i { background: var(--green); }
.tag { font-size: 11px; letter-spacing: .06em; text-transform: uppercase; color: #8a7440; padding: 7px 11px 0; }
@media (max-width: 640px) {
  .row { grid-template-columns: minmax(0, 1fr); }
  .query { max-width: 240px; }
  .hits { grid-template-columns: repeat(2, minmax(0, 1fr)); }
}
@media print { body { background: #fff; } .row { break-inside: avoid; } }
"""

_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"  # nothing is fetched and nothing runs


def _page(
    sections: Sequence[Section], title: str, note: str, thumbnails: Callable[[Path | None], Image.Image | None]
) -> str:
    encoded: dict[Path | None, str] = {}

    def text(value: str) -> str:
        return html.escape(one_line(value), quote=True)

    def picture(card: Card) -> str:
        if card.photo not in encoded:
            encoded[card.photo] = _data_url(thumbnails(card.photo))
        url = encoded[card.photo]
        inside = (
            f'<img src="{url}" alt="{text(card.title)}" loading="lazy">' if url else "<span>no picture to show</span>"
        )
        drawn = '<span class="drawn">rendered</span>' if card.rendered and url else ""
        return f'<div class="picture">{inside}{drawn}</div>'

    def body(card: Card) -> str:
        name = f'<div class="title" dir="auto" title="{text(card.title)}">{text(card.title) or "untitled"}</div>'
        if card.is_photo:
            return f'{picture(card)}<div class="text">{name}</div>'
        lines = [f'<li dir="auto" title="{text(line)}">{text(line)}</li>' for line in card.lines[:SHOWN_LINES]]
        if len(card.lines) > SHOWN_LINES:
            lines.append(f"<li>+ {len(card.lines) - SHOWN_LINES} more</li>")
        return f'<div class="text">{name}<ul>{"".join(lines) or "<li>no ingredients</li>"}</ul></div>'

    def answer(hit: Hit) -> str:
        names = ["card", "photo" if hit.card.is_photo else "recipe", *(["right"] if hit.right else [])]
        names += ["beyond"] if hit.beyond else []
        share = max(0.0, min(1.0, hit.score)) * 100
        return (
            f'<article class="{" ".join(names)}">'
            f'<div class="score"><span>rank {hit.rank}</span><b>{hit.score:.3f}</b></div>'
            f'<div class="bar"><i style="width:{share:.1f}%"></i></div>{body(hit.card)}</article>'
        )

    parts = []
    for section in sections:
        rows = "".join(
            f'<div class="row"><article class="card query {"photo" if row.query.is_photo else "recipe"}">'
            f'<div class="tag">query</div>{body(row.query)}</article>'
            f'<div class="hits">{"".join(map(answer, row.hits)) or "<p>the gallery is empty</p>"}</div></div>'
            for row in section.rows
        )
        parts.append(f"<section><h2>{text(section.heading)}</h2><p>{text(section.note)}</p>{rows}</section>")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        f"<title>{text(title)}</title><style>{_STYLE}</style></head><body>"
        f'<header><h1 dir="auto">{text(title)}</h1><p>{text(note)}</p></header>{"".join(parts)}</body></html>\n'
    )


def _data_url(picture: Image.Image | None) -> str:
    if picture is None:
        return ""
    content = io.BytesIO()
    picture.save(content, "JPEG", quality=82)
    return "data:image/jpeg;base64," + base64.b64encode(content.getvalue()).decode()


# ----------------------------------------------------------------------------------------------------------------- PNG

_INK, _SOFT, _LINE, _PAPER, _WHITE = "#22262b", "#68707a", "#e3e0d9", "#faf8f4", "#ffffff"
_GREEN, _GOLD = "#1f8a4c", "#c7b893"
_MARGIN, _GAP, _CARD, _QUERY, _COLUMNS = 36, 14, 200, 214, 6
_HEAD = 31  # rank and score above a card


@cache
def _font(size: int, bold: bool = False) -> ImageFont.FreeTypeFont:
    import matplotlib

    name = "DejaVuSans-Bold.ttf" if bold else "DejaVuSans.ttf"
    return ImageFont.truetype(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / name, size)


def _wrap(text: str, font: ImageFont.FreeTypeFont, width: float, most: int) -> list[str]:
    """The text in at most so many lines of a width, cut with an ellipsis; words too long for a line are cut too."""
    lines, line = [], ""
    words = one_line(text).split(" ")
    while words:
        word = words.pop(0)
        tried = f"{line} {word}" if line else word
        if font.getlength(tried) <= width:
            line = tried
            continue
        if not line:  # one word wider than the line
            fits = max(1, _fitting(word, "", font, width))
            line, word = word[:fits], word[fits:]
        lines.append(line)
        line = ""
        if word:
            words.insert(0, word)
        if len(lines) == most:
            lines[-1] = _cut(lines[-1] + "…", font, width)
            return lines
    return [*lines, line] if line else lines


def _cut(text: str, font: ImageFont.FreeTypeFont, width: float) -> str:
    """The text with an ellipsis where it is wider than that."""
    if font.getlength(text) <= width:
        return text
    text = text.rstrip("… ")
    return text[: _fitting(text, "…", font, width)].rstrip() + "…"


def _fitting(text: str, end: str, font: ImageFont.FreeTypeFont, width: float) -> int:
    """How many first characters of a text fit into a width together with an ending."""
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        if font.getlength(text[:middle] + end) <= width:
            low = middle
        else:
            high = middle - 1
    return low


def _height(card: Card, width: int) -> int:
    if card.is_photo:
        return width + 12 + 17 * max(1, len(_wrap(card.title or "untitled", _font(12), width - 22, 2))) + 8
    title = max(1, len(_wrap(card.title or "untitled", _font(14, True), width - 22, 3)))
    lines = max(1, min(len(card.lines), SHOWN_LINES) + (len(card.lines) > SHOWN_LINES))
    return 12 + 19 * title + 6 + 17 * lines + 10


def _picture(
    sections: Sequence[Section], title: str, note: str, thumbnails: Callable[[Path | None], Image.Image | None]
) -> Image.Image:
    columns = max([1, *(min(_COLUMNS, len(row.hits)) for section in sections for row in section.rows)])
    width = 2 * _MARGIN + _QUERY + 24 + columns * (_CARD + _GAP) - _GAP
    width = max(width, 760)
    inner = width - 2 * _MARGIN
    blocks: list[tuple[str, object, int]] = []  # kind, what, height
    for text, font, colour, step in ((title, _font(25, True), _INK, 33), (note, _font(13), _SOFT, 20)):
        blocks += [("text", (line, font, colour), step) for line in _wrap(text, font, inner, 3)]
    for section in sections:
        blocks.append(("gap", None, 22))
        blocks.append(("text", (section.heading, _font(19, True), _INK), 28))
        blocks += [("text", (line, _font(13), _SOFT), 20) for line in _wrap(section.note, _font(13), inner, 3)]
        for row in section.rows:
            lines = [row.hits[i : i + columns] for i in range(0, len(row.hits), columns)]
            heights = [max(_HEAD + 3 + _height(hit.card, _CARD) for hit in line) for line in lines]
            answers = sum(heights) + _GAP * max(0, len(heights) - 1)
            blocks.append(("row", (row, lines, heights), max(24 + _height(row.query, _QUERY), answers) + 34))
    picture = Image.new("RGB", (width, 2 * _MARGIN + sum(height for _, _, height in blocks)), _PAPER)
    draw = ImageDraw.Draw(picture)
    y = _MARGIN
    for kind, what, height in blocks:
        if kind == "text":
            line, font, colour = what  # pyright: ignore[reportGeneralTypeIssues]
            draw.text((_MARGIN, y), line, colour, font)
        elif kind == "row":
            row, lines, heights = what  # pyright: ignore[reportGeneralTypeIssues]
            draw.line((_MARGIN, y + 8, width - _MARGIN, y + 8), _LINE)
            top = y + 24
            _draw_card(picture, row.query, _MARGIN, top, _QUERY, 24 + _height(row.query, _QUERY), thumbnails)
            if not row.hits:
                draw.text((_MARGIN + _QUERY + 24, top + 10), "the gallery is empty", _SOFT, _font(13))
            for line, tall in zip(lines, heights, strict=True):
                for i, hit in enumerate(line):
                    x = _MARGIN + _QUERY + 24 + i * (_CARD + _GAP)
                    _draw_card(picture, hit.card, x, top, _CARD, tall, thumbnails, hit)
                top += tall + _GAP
        y += height
    return picture


def _draw_card(
    picture: Image.Image,
    card: Card,
    x: int,
    y: int,
    width: int,
    height: int,
    thumbnails: Callable[[Path | None], Image.Image | None],
    hit: Hit | None = None,
) -> None:
    """A card with its upper left corner at (x, y)."""
    draw = ImageDraw.Draw(picture)
    right = hit is not None and hit.right
    edge, wide = (_GREEN, 3) if right else (_GOLD, 2) if hit is None else (_LINE, 1)
    box = (x, y, x + width - 1, y + height - 1)
    draw.rounded_rectangle(box, 10, _WHITE)
    top = y
    if hit is not None:
        tone, ink = ("#e8f5ec", "#14633a") if right else ("#fcfbf8", _INK)
        draw.rounded_rectangle((x, y, x + width - 1, y + _HEAD), 10, tone, corners=(True, True, False, False))
        score = f"{hit.score:.3f}"
        room = width - 30 - _font(13, True).getlength(score)
        draw.text((x + 11, y + 8), _cut(f"rank {hit.rank}", _font(12), room), ink, _font(12))
        draw.text((x + width - 11, y + 7), score, ink, _font(13, True), anchor="ra")
        draw.rectangle((x + 1, y + _HEAD, x + width - 2, y + _HEAD + 2), "#ece8df")
        share = max(0.0, min(1.0, hit.score))
        if share:
            bar = (x + 1, y + _HEAD, x + 1 + round((width - 3) * share), y + _HEAD + 2)
            draw.rectangle(bar, _GREEN if right else "#b79b5b")
        top += _HEAD + 3
    else:
        draw.text((x + 11, y + 6), "QUERY", "#8a7440", _font(10))
        top += 24
    if card.is_photo:
        inset = 2 if hit is None or right else 1
        square = width - 2 * inset
        thumbnail = thumbnails(card.photo)
        if thumbnail is None:
            draw.rectangle((x + inset, top, x + inset + square - 1, top + square - 1), "#efece5")
            draw.text((x + width / 2, top + square / 2), "no picture to show", _SOFT, _font(12), anchor="mm")
        else:
            side = min(thumbnail.size)
            left, up = (thumbnail.width - side) // 2, (thumbnail.height - side) // 2
            cropped = thumbnail.crop((left, up, left + side, up + side))
            picture.paste(cropped.resize((square, square), Image.Resampling.LANCZOS), (x + inset, top))
            if card.rendered:
                draw.rounded_rectangle((x + 8, top + square - 25, x + 72, top + square - 7), 5, "#f7f5f0")
                draw.text((x + 40, top + square - 16), "rendered", "#4a4f57", _font(11), anchor="mm")
        top += square + 10
        for line in _wrap(card.title or "untitled", _font(12), width - 22, 2):
            draw.text((x + 11, top), line, _SOFT, _font(12))
            top += 17
    else:
        top += 10
        for line in _wrap(card.title or "untitled", _font(14, True), width - 22, 3):
            draw.text((x + 11, top), line, _INK, _font(14, True))
            top += 19
        top += 6
        lines = [_cut(one_line(line), _font(12), width - 22) for line in card.lines[:SHOWN_LINES]]
        if len(card.lines) > SHOWN_LINES:
            lines.append(f"+ {len(card.lines) - SHOWN_LINES} more")
        for line in lines or ["no ingredients"]:
            draw.text((x + 11, top), line, _SOFT, _font(12))
            top += 17
    if hit is not None and hit.beyond:
        _dashes(draw, box)
    else:
        draw.rounded_rectangle(box, 10, None, edge, wide)


def _dashes(draw: ImageDraw.ImageDraw, box: tuple[int, int, int, int]) -> None:
    """A dashed green outline: the true partner that is not among the nearest."""
    x0, y0, x1, y1 = box
    for x in range(x0 + 4, x1 - 4, 12):
        draw.rectangle((x, y0, min(x + 7, x1), y0 + 2), _GREEN)
        draw.rectangle((x, y1 - 2, min(x + 7, x1), y1), _GREEN)
    for y in range(y0 + 4, y1 - 4, 12):
        draw.rectangle((x0, y, x0 + 2, min(y + 7, y1)), _GREEN)
        draw.rectangle((x1 - 2, y, x1, min(y + 7, y1)), _GREEN)
