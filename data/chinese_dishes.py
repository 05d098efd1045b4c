"""Rendered pictures of Chinese dishes, drawn from the facts of the dish table.

They stand in for photographs in the demo set of food questions, and are called what they are: *rendered*. As on a
table, a picture shows the dishware, how the dish is served and arranged, its colour, its main and other visible
ingredients, and steam where it is eaten warm. Table, porcelain, arrangement and distance say nothing about the dish;
no name and no text is ever drawn.

`python -m data.chinese_dishes docs/demo_dishes.jpg` draws a sheet of 24 of them.
"""

import hashlib
import math
import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from PIL import Image, ImageDraw, ImageFilter

from data import chinese_pieces as cut
from data import chinese_serving, drawings
from data.chinese_pieces import Cut, cut_of
from data.chinese_serving import BROWN, FLOUR, Serving, read_serving
from data.dish_table import DishFacts, read_dishes
from data.drawings import CREAM, STEEL, WHITE, WOOD, Colour, Pen, blend, dark, light, rgb
from data.files import atomic_file

SUPERSAMPLING = 3
_DICE = "picture of a Chinese dish"  # what is drawn by lot depends on this, the dish's id and the variant

_BROTH_RED, _CLAY, _BAMBOO, _LOTUS = rgb("c8331c"), rgb("6d4a38"), rgb("d9b06a"), rgb("3f7d4a")
_JADE, _BLUE, _INK = rgb("cfe0d0"), rgb("3a62a8"), rgb("3a3a40")

# ------------------------------------------------------------------------------------------------------------ the frame


@dataclass(slots=True)
class _Scene:
    """What one picture has at hand: the canvas, the frame, the serving, its table and porcelain, its own dice."""

    picture: Image.Image
    pen: Pen
    serving: Serving
    top: Colour
    china: Colour
    rim: Colour
    dice: random.Random

    def jitter(self, amount: float) -> float:
        return self.dice.uniform(-amount, amount)

    def tinted(self, piece: Cut) -> Colour:
        """The colour of one piece: its own, with some of the dish's, and a little lighter or darker than the next."""
        colour = blend(piece.colour, self.serving.colour, piece.takes)
        shade = self.jitter(0.09)
        return dark(colour, shade) if shade > 0 else light(colour, -shade)

    def soft(self, p: Pen, x: float, y: float, rx: float, ry: float, colour: Colour, strength: float = 1.0) -> None:
        """A spot of colour that fades to its edge: shadow, shine, depth."""
        a, b, c, d, e, f = p.matrix
        px, py = a * x + b * y + e, c * x + d * y + f
        w, h = round(2 * math.hypot(a, c) * rx), round(2 * math.hypot(b, d) * ry)
        if w < 2 or h < 2:
            return
        mask = _fading(round(strength * 100)).resize((w, h), Image.Resampling.BILINEAR)
        self.picture.paste(colour, (round(px - w / 2), round(py - h / 2)), mask)


@cache
def _fading(percent: int) -> Image.Image:
    """(96, 96) mask: opaque in the middle, nothing at the edge."""
    size = 96
    mask = Image.new("L", (size, size))
    values = []
    for j in range(size):
        for i in range(size):
            r = math.hypot(2 * (i + 0.5) / size - 1, 2 * (j + 0.5) / size - 1)
            t = min(1.0, max(0.0, (1 - r) * 1.6))
            values.append(round(255 * percent / 100 * t * t * (3 - 2 * t)))
    mask.putdata(values)
    return mask


def _spots(s: _Scene, count: int, rx: float, ry: float) -> list[tuple[float, float]]:
    """So many places spread evenly over an ellipse about the origin, from back to front."""
    turn = s.dice.uniform(0, math.tau)
    spots = []
    for i in range(count):
        r = math.sqrt((i + 0.5) / max(count, 1))
        t = turn + i * 2.399963
        spots.append((rx * r * math.cos(t) + s.jitter(rx * 0.06), ry * r * math.sin(t) + s.jitter(ry * 0.06)))
    return sorted(spots, key=lambda spot: spot[1])


def _ring(count: int, rx: float, ry: float, turn: float = 0.0) -> list[tuple[float, float, float]]:
    """(x, y, angle in degrees) of places on an ellipse, from back to front; the angle points outwards."""
    places = []
    for i in range(count):
        t = math.radians(turn) + i * math.tau / count
        places.append((rx * math.cos(t), ry * math.sin(t), math.degrees(t)))
    return sorted(places, key=lambda place: place[1])


_UPRIGHT = {
    cut.belly_cube, cut.tofu, cut.half_egg, cut.oyster, cut.clam, cut.crab, cut.bok_choy, cut.ball, cut.fried_egg,
    cut.floret, cut.thin_mushroom, cut.dice, cut.chunk, cut.bone_chunk, cut.mushroom,
}  # fmt: skip


def _drop(s: _Scene, p: Pen, piece: Cut, x: float, y: float, scale: float = 1.0) -> None:
    """One piece, lying as it fell."""
    angle = s.jitter(22) if piece.draw in _UPRIGHT else s.dice.uniform(-180, 180)
    size = piece.size * scale * s.dice.uniform(1.02, 1.3)
    piece.draw(p.at(x, y, size, angle, s.dice.random() < 0.5), s.tinted(piece))


def _main_piece(s: _Scene) -> Cut:
    """The main ingredient; where it has no shape of its own, a plain piece of the dish's colour."""
    return s.serving.cuts[0] if s.serving.cuts else Cut("food", cut.slice_, s.serving.colour, 4.4, 0.0)


def _mixed(s: _Scene, cuts: Sequence[Cut], count: int) -> list[Cut]:
    """So many pieces, about half of them the first kind; each kind is there."""
    weights = [1.0 / (1 + i) ** 0.9 * (4.0 / max(piece.size, 1.2)) ** 0.6 for i, piece in enumerate(cuts)]
    bag = s.dice.choices(list(cuts), weights, k=max(count - len(cuts), 0)) + list(cuts)
    s.dice.shuffle(bag)
    return bag


def _heap(
    s: _Scene, p: Pen, cuts: Sequence[Cut], rx: float, ry: float, count: int, height: float = 6.0, scale: float = 1.0
) -> None:
    """Pieces in a heap, highest in the middle."""
    if not cuts:
        return
    spots = _spots(s, count, rx, ry)
    for (x, y), piece in zip(spots, _mixed(s, cuts, count), strict=False):
        lift = height * max(0.0, 1 - (x / rx) ** 2 - (y / ry) ** 2)
        _drop(s, p, piece, x, y - lift, scale)


def _strew(s: _Scene, p: Pen, rx: float, ry: float, height: float = 0.0, share: float = 1.0) -> None:
    """What is strewn over a dish at the end."""
    for piece in s.serving.strewn:
        count = max(3, round(share * (26 if piece.size < 1.4 else 13 if piece.size < 2.3 else 6)))
        for x, y in _spots(s, count, rx, ry):
            lift = height * max(0.0, 1 - (x / rx) ** 2 - (y / ry) ** 2)
            _drop(s, p, piece, x, y - lift)


def _shine(s: _Scene, p: Pen, rx: float, ry: float, count: int, strength: float = 0.5) -> None:
    """Light on something glossy."""
    for x, y in _spots(s, count, rx, ry):
        s.soft(p, x, y, s.dice.uniform(1.2, 2.6), s.dice.uniform(0.7, 1.2), WHITE, strength)


def _pool(s: _Scene, p: Pen, rx: float, ry: float, colour: Colour) -> None:
    """Sauce that spreads under a dish."""
    outline = []
    wave = [s.dice.uniform(0.93, 1.05) for _ in range(12)]
    for i in range(48):
        t = i * math.tau / 48
        k = wave[i // 4] + (wave[(i // 4 + 1) % 12] - wave[i // 4]) * (i % 4) / 4
        outline.append((rx * k * math.cos(t), ry * k * math.sin(t)))
    p.poly([(x, y + 0.9) for x, y in outline], dark(colour, 0.35))
    p.poly(outline, colour)
    s.soft(p, -rx * 0.3, -ry * 0.35, rx * 0.6, ry * 0.4, light(colour, 0.45), 0.55)


def _oil(s: _Scene, p: Pen, rx: float, ry: float, colour: Colour, count: int = 26) -> None:
    """Drops of oil on a broth."""
    for x, y in _spots(s, count, rx, ry):
        r = s.dice.uniform(0.5, 1.7)
        p.disc(x, y, r, r * 0.75, light(colour, 0.3))
        p.disc(x - r * 0.2, y - r * 0.2, r * 0.45, r * 0.3, light(colour, 0.65))


# ---------------------------------------------------------------------------------------------------------- the vessels

Surface = tuple[Pen, float, float]  # frame of the food with its origin in the middle, half width, half height


def _under(s: _Scene, x: float, y: float, rx: float, ry: float) -> None:
    """The shadow of a vessel on the table."""
    s.soft(s.pen, x + 2.5, y + 4.5, rx * 1.2, ry * 1.22, dark(s.top, 0.72), 0.85)


def _hoop(p: Pen, x: float, y: float, rx: float, ry: float, width: float, colour: Colour) -> None:
    """A smooth ellipse as a line."""
    for start in range(0, 360, 60):
        p.arc(x, y, rx, ry, start, start + 60, width, colour)


def _decor(s: _Scene, x: float, y: float, rx: float, ry: float) -> None:
    """A painted rim."""
    style = s.dice.randrange(3)
    if style == 0:
        _hoop(s.pen, x, y, rx, ry, 0.8, s.rim)
    elif style == 1:
        for px, py, angle in _ring(28, rx, ry):
            s.pen.at(x + px, y + py, 1, angle).disc(0, 0, 0.7, 1.4, s.rim)
    else:
        for px, py, angle in _ring(16, rx, ry):
            q = s.pen.at(x + px, y + py, 1, angle + 90)
            q.arc(0, 0, 2.2, 1.5, 180, 360, 0.55, s.rim)
            q.disc(0, 0.1, 0.5, 0.5, s.rim)


def _plate(s: _Scene, food: Colour) -> Surface:
    x, y, rx = 50.0, 51.0, 42.0 * s.serving.size
    ry = rx * 0.82
    _under(s, x, y, rx, ry)
    c = s.china
    s.pen.disc(x, y + 1.6, rx, ry, dark(c, 0.35))
    s.pen.disc(x, y, rx, ry, c)
    s.soft(s.pen, x - rx * 0.25, y - ry * 0.35, rx * 0.6, ry * 0.5, WHITE, 0.7)
    _decor(s, x, y, rx * 0.92, ry * 0.92)
    s.pen.disc(x, y + 0.4, rx * 0.8, ry * 0.79, dark(c, 0.13))
    s.pen.disc(x, y + 1.0, rx * 0.785, ry * 0.77, light(c, 0.2))
    return s.pen.at(x, y), rx * 0.74, ry * 0.7


def _deep_plate(s: _Scene, food: Colour) -> Surface:
    """A wide plate with a deep middle that holds sauce."""
    x, y, rx = 50.0, 50.0, 42.0
    ry = rx * 0.8
    _under(s, x, y + 3, rx, ry)
    c = s.china
    s.pen.disc(x, y + 4.5, rx * 0.97, ry * 0.97, dark(c, 0.4))
    s.pen.disc(x, y, rx, ry, c)
    s.soft(s.pen, x - rx * 0.25, y - ry * 0.35, rx * 0.6, ry * 0.5, WHITE, 0.7)
    _decor(s, x, y, rx * 0.92, ry * 0.92)
    s.pen.disc(x, y, rx * 0.82, ry * 0.8, dark(c, 0.3))
    s.pen.disc(x, y + 1.4, rx * 0.8, ry * 0.78, light(c, 0.2))
    s.pen.disc(x, y + 2.2, rx * 0.765, ry * 0.735, dark(food, 0.3))
    s.pen.disc(x, y + 2.6, rx * 0.75, ry * 0.715, food)
    s.soft(s.pen, x - 7, y - 4, rx * 0.6, ry * 0.5, light(food, 0.22), 0.8)
    return s.pen.at(x, y + 1.6), rx * 0.73, ry * 0.69


def _long_plate(s: _Scene, food: Colour) -> Surface:
    x, y, rx, ry = 50.0, 51.0, 46.0, 29.0
    _under(s, x, y, rx, ry)
    c = s.china
    s.pen.disc(x, y + 1.6, rx, ry, dark(c, 0.35))
    s.pen.disc(x, y, rx, ry, c)
    s.soft(s.pen, x - rx * 0.25, y - ry * 0.3, rx * 0.55, ry * 0.5, WHITE, 0.7)
    _decor(s, x, y, rx * 0.93, ry * 0.9)
    s.pen.disc(x, y + 0.4, rx * 0.84, ry * 0.78, dark(c, 0.13))
    s.pen.disc(x, y + 1.0, rx * 0.83, ry * 0.76, light(c, 0.2))
    return s.pen.at(x, y), rx * 0.8, ry * 0.68


def _round_vessel(
    s: _Scene, x: float, y: float, rx: float, depth: float, wall: Colour, lip: Colour, food: Colour
) -> Pen:
    """An open round vessel with its wall in sight, filled; returns the frame of the surface."""
    ry = rx * 0.78
    _under(s, x, y + depth * 0.55, rx * 0.94, ry * 0.98)
    low = ry * 0.86 + depth
    curve = []
    for i in range(33):  # a flat round bottom: an ellipse of a higher order
        u, w = math.cos(math.pi * i / 32), math.sin(math.pi * i / 32)
        curve.append((x + math.copysign(abs(u) ** 0.8, u) * rx * (1 - 0.1 * w), y + low * w**0.8))
    s.pen.poly([(x + rx, y), *curve, (x - rx, y)], dark(wall, 0.24))
    s.pen.poly([(x + rx * 0.9, y), *((x + (u - x) * 0.93 - rx * 0.05, y + (w - y) * 0.96) for u, w in curve)], wall)
    s.soft(s.pen, x - rx * 0.42, y + low * 0.74, rx * 0.3, depth * 0.34, light(wall, 0.5), 0.35)
    s.pen.disc(x, y, rx, ry, dark(lip, 0.12))
    s.pen.disc(x, y - 0.5, rx, ry, lip)
    s.pen.disc(x, y, rx * 0.945, ry * 0.935, dark(lip, 0.3))
    s.pen.disc(x, y + 1.3, rx * 0.925, ry * 0.905, dark(food, 0.34))
    s.pen.disc(x, y + 1.8, rx * 0.905, ry * 0.88, food)
    s.soft(s.pen, x - rx * 0.2, y - ry * 0.1, rx * 0.75, ry * 0.65, light(food, 0.22), 0.8)
    return s.pen.at(x, y + 1.6)


def _bowl(s: _Scene, food: Colour) -> Surface:
    rx, depth = 38.0 * s.serving.size, 14.0 * s.serving.size
    p = _round_vessel(s, 50, 46, rx, depth, s.china, light(s.china, 0.3), food)
    for i in range(15):  # a painted band on its outside
        t = math.pi * (i + 0.5) / 15
        x, y = 50 + rx * 0.9 * math.cos(t), 46 + (rx * 0.69 + depth * 0.5) * math.sin(t) ** 0.8
        s.pen.at(x, y, 1, 90 - math.degrees(t)).disc(0, 0, 1.5 * math.sin(t) + 0.3, 0.8, s.rim)
    return p, rx * 0.84, rx * 0.78 * 0.8


def _lid(s: _Scene, tone: Colour) -> None:
    """The lid, leaning at the upper right."""
    if not s.serving.lid:
        return
    q = s.pen.at(85, 15, 1, 24)
    s.soft(q, 2, 5, 25, 19, dark(s.top, 0.72), 0.8)
    q.disc(0, 1.4, 21, 16, dark(tone, 0.45))
    q.disc(0, 0, 21, 15.6, tone)
    s.soft(q, -5, -5, 14, 8, light(tone, 0.6), 0.8)
    _hoop(q, 0, 0, 17, 12.2, 0.8, dark(tone, 0.25))
    q.disc(0, 0.4, 5, 4, dark(tone, 0.4))
    q.disc(0, -0.8, 5, 3.8, light(tone, 0.16))


def _jar(s: _Scene, food: Colour) -> Surface:
    """A porcelain jar for stewing."""
    _lid(s, s.china)
    for side in (-1, 1):
        q = s.pen.at(50 + side * 33, 52)
        q.box(-4, -3, 4, 4, dark(s.china, 0.35), 3)
        q.box(-4, -3.6, 4, 2.6, s.china, 3)
    p = _round_vessel(s, 50, 44, 31, 27, s.china, light(s.china, 0.3), food)
    for i in range(13):
        t = math.pi * (i + 0.5) / 13
        s.pen.disc(50 + 27 * math.cos(t), 44 + 36 * math.sin(t) ** 0.8, 1.1, 1.1, s.rim)
    return p, 26.0, 19.4


def _steam_pot(s: _Scene, food: Colour) -> Surface:
    """A dark red clay pot with a chimney in its middle."""
    tone = rgb("8a4b38")
    _lid(s, tone)
    for side in (-1, 1):
        q = s.pen.at(50 + side * 37, 48)
        q.box(-5, -3, 5, 4, dark(tone, 0.4), 3)
        q.box(-5, -3.6, 5, 2.6, tone, 3)
    p = _round_vessel(s, 50, 46, 37, 21, tone, light(tone, 0.25), food)
    return p, 31.0, 22.6


def _chimney(p: Pen) -> None:
    tone = rgb("8a4b38")
    p.disc(0, 1.4, 8, 6, dark(tone, 0.5))
    p.poly([(-7.4, 0.6), (7.4, 0.6), (4, -13), (-4, -13)], tone)
    p.poly([(2, 0.6), (7.4, 0.6), (4, -13), (1.4, -13)], dark(tone, 0.25))
    p.disc(0, 0.6, 7.4, 4.8, tone)
    p.line([(-4.4, -1), (-2.4, -11)], 1.1, light(tone, 0.5))
    p.disc(0, -13, 4, 2.4, light(tone, 0.3))
    p.disc(0, -13, 2.6, 1.4, rgb("2d1a14"))


def _clay_pot(s: _Scene, food: Colour) -> Surface:
    glaze = _CLAY
    _lid(s, light(glaze, 0.12))
    for side in (-1, 1):
        q = s.pen.at(50 + side * 38, 47)
        q.box(-5.5, -3.6, 5.5, 4.2, dark(glaze, 0.4), 3.4)
        q.box(-5.5, -4.2, 5.5, 2.6, glaze, 3.2)
    p = _round_vessel(s, 50, 46, 37, 19, glaze, rgb("b98a62"), food)
    s.pen.disc(50, 45.5, 37, 28.9, rgb("a87a54"))
    s.pen.disc(50, 46, 35.2, 27.2, rgb("54392b"))
    s.pen.disc(50, 47.2, 34.2, 26, dark(food, 0.34))
    s.pen.disc(50, 47.8, 33.4, 25.1, food)
    s.soft(s.pen, 44, 44, 26, 18, light(food, 0.22), 0.8)
    return p, 31.0, 22.6


def _basin(s: _Scene, food: Colour) -> Surface:
    p = _round_vessel(s, 50, 47, 43, 13, STEEL, light(STEEL, 0.55), food)
    return p, 37.0, 28.0


def _wok(s: _Scene, food: Colour) -> Surface:
    """A dry pot: an iron pan with two ears on a little burner."""
    for side in (-1, 1):
        q = s.pen.at(50 + side * 41, 45)
        q.arc(0, 0, 5, 6, 0, 360, 2.6, dark(_INK, 0.1))
        q.arc(0, -0.7, 5, 6, 190, 350, 0.8, light(_INK, 0.4))
    q = s.pen.at(50, 84)
    q.disc(0, 4, 20, 6, dark(s.top, 0.55))
    for x in (-15, 15):
        q.line([(x, -8), (x * 1.15, 4)], 2.2, rgb("8f8a86"))
    for x, h in ((-4, 6), (4, 6), (0, 9)):
        q.poly([(x - 2.6, 2), (x, 2 - h), (x + 2.6, 2)], rgb("5a9be0"))
        q.poly([(x - 1.3, 2), (x, 3 - h * 0.6), (x + 1.3, 2)], rgb("f5c24a"))
    p = _round_vessel(s, 50, 45, 40, 18, _INK, rgb("62626a"), food)
    return p, 33.6, 25.0


def _iron_plate(s: _Scene, food: Colour) -> Surface:
    x, y = 50.0, 51.0
    _under(s, x, y, 46, 31)
    s.pen.box(x - 46, y - 26, x + 46, y + 30, dark(WOOD, 0.4), 14)
    s.pen.box(x - 46, y - 28, x + 46, y + 27, WOOD, 14)
    s.pen.disc(x, y + 1, 41, 24.5, dark(_INK, 0.5))
    s.pen.disc(x, y - 0.6, 41, 24, light(_INK, 0.14))
    s.pen.disc(x, y + 0.4, 37.5, 21.4, dark(_INK, 0.3))
    return s.pen.at(x, y), 33.0, 18.0


def _steamer(s: _Scene, food: Colour) -> Surface:
    x, y, rx, ry = 50.0, 48.0, 43.0, 35.0
    _under(s, x, y + 6, rx, ry)
    for dy, tone in ((12, dark(_BAMBOO, 0.42)), (9, dark(_BAMBOO, 0.24)), (3, dark(_BAMBOO, 0.1))):
        s.pen.disc(x, y + dy, rx, ry, tone)
    for dy in (6.5, 12.5):
        s.pen.arc(x, y + dy, rx, ry, 2, 178, 0.7, dark(_BAMBOO, 0.5))
    for side in (-24, 20):
        s.pen.box(x + side - 2.4, y + ry * 0.83, x + side + 2.4, y + ry * 0.83 + 13, light(_BAMBOO, 0.2), 0.5)
    s.pen.disc(x, y, rx, ry, _BAMBOO)
    s.pen.disc(x, y, rx * 0.975, ry * 0.97, light(_BAMBOO, 0.35))
    s.pen.disc(x, y, rx * 0.93, ry * 0.92, dark(_BAMBOO, 0.3))
    s.pen.disc(x, y + 2, rx * 0.9, ry * 0.88, dark(_BAMBOO, 0.45))
    for i in range(-8, 9):  # slats
        px = i * 4.55
        half = ry * 0.87 * math.sqrt(max(0.0, 1 - (px / (rx * 0.9)) ** 2))
        s.pen.box(x + px - 1.9, y + 2 - half, x + px + 1.9, y + 2 + half, light(_BAMBOO, 0.12 if i % 2 else 0.22))
    s.soft(s.pen, x, y + 2, rx * 0.9, ry * 0.86, rgb("f7ead0"), 0.65)
    return s.pen.at(x, y + 1), rx * 0.76, ry * 0.7


def _leaf(s: _Scene, food: Colour) -> Surface:
    """A lotus leaf on a plate."""
    p, _, _ = _plate(s, food)
    outline = []
    for i in range(120):
        t = i * math.tau / 120
        k = 1.0 + 0.035 * math.sin(7 * t) + 0.02 * math.sin(11 * t + 1)
        outline.append((40 * k * math.cos(t), 33 * k * math.sin(t)))
    p.poly([(x + 0.6, y + 1.6) for x, y in outline], dark(_LOTUS, 0.5))
    p.poly(outline, _LOTUS)
    s.soft(p, -8, -10, 26, 18, light(_LOTUS, 0.4), 0.7)
    for i in range(14):
        t = i * math.tau / 14
        p.line([(0, 0), (33 * math.cos(t), 27 * math.sin(t))], 0.7, light(_LOTUS, 0.35))
    return p, 26.0, 20.0


def _board(s: _Scene, food: Colour) -> Surface:
    x, y = 50.0, 51.0
    _under(s, x, y, 46, 32)
    tone = rgb("b57c49")
    s.pen.box(x - 45, y - 28, x + 45, y + 31, dark(tone, 0.4), 6)
    s.pen.box(x - 45, y - 30, x + 45, y + 28, tone, 6)
    for i in range(6):
        s.pen.line(
            [(x - 42, y - 24 + i * 10), (x - 10, y - 25 + i * 10), (x + 42, y - 23 + i * 10)], 0.5, dark(tone, 0.16)
        )
    s.soft(s.pen, x - 10, y - 12, 34, 20, light(tone, 0.4), 0.6)
    return s.pen.at(x, y - 1), 36.0, 22.0


def _tray(s: _Scene, food: Colour) -> Surface:
    x, y = 50.0, 51.0
    _under(s, x, y, 46, 34)
    s.pen.box(x - 46, y - 30, x + 46, y + 32, dark(STEEL, 0.4), 5)
    s.pen.box(x - 46, y - 31, x + 46, y + 30, light(STEEL, 0.5), 5)
    s.pen.box(x - 43, y - 28, x + 43, y + 27, dark(STEEL, 0.18), 4)
    s.pen.box(x - 42, y - 26.5, x + 42, y + 26.5, light(STEEL, 0.28), 4)
    s.soft(s.pen, x - 12, y - 8, 40, 20, WHITE, 0.7)
    return s.pen.at(x, y), 38.0, 23.0


def _basket(s: _Scene, food: Colour) -> Surface:
    """A flat bamboo basket lined with a leaf's green."""
    x, y, rx, ry = 50.0, 51.0, 43.0, 35.0
    _under(s, x, y, rx, ry)
    s.pen.disc(x, y + 3, rx, ry, dark(_BAMBOO, 0.45))
    s.pen.disc(x, y, rx, ry, dark(_BAMBOO, 0.12))
    _hoop(s.pen, x, y, rx * 0.97, ry * 0.965, 1.6, light(_BAMBOO, 0.3))
    s.pen.disc(x, y, rx * 0.93, ry * 0.92, _BAMBOO)
    for i in range(-8, 9):
        half = math.sqrt(max(0.0, 1 - (i / 8.6) ** 2))
        s.pen.line([(x - rx * 0.9 * half, y + i * 3.8), (x + rx * 0.9 * half, y + i * 3.8)], 0.7, dark(_BAMBOO, 0.22))
        s.pen.line([(x + i * 4.6, y - ry * 0.88 * half), (x + i * 4.6, y + ry * 0.88 * half)], 0.7, dark(_BAMBOO, 0.22))
    return s.pen.at(x, y), rx * 0.76, ry * 0.74


def _tube(s: _Scene, food: Colour) -> Surface:
    """A length of bamboo, split open."""
    x, y = 50.0, 52.0
    _under(s, x, y + 4, 47, 22)
    skin = rgb("8fae4e")
    s.pen.box(x - 46, y - 16, x + 46, y + 20, dark(skin, 0.42), 10)
    s.pen.box(x - 46, y - 17, x + 46, y + 16, skin, 10)
    s.pen.line([(x - 40, y + 11), (x + 30, y + 11)], 2.2, light(skin, 0.45))
    s.pen.box(x - 43, y - 14.5, x + 43, y + 6, rgb("efe0b4"), 9)
    s.pen.box(x - 41, y - 12.5, x + 41, y + 4.5, dark(food, 0.35), 8)
    s.pen.box(x - 41, y - 11, x + 41, y + 4.5, food, 8)
    for side in (-1, 1):
        s.pen.box(x + side * 45 - 2.2, y - 18.5, x + side * 45 + 2.2, y + 18, dark(skin, 0.18), 2)
    return s.pen.at(x, y - 4), 38.0, 6.5


VESSELS: dict[str, Callable[[_Scene, Colour], Surface]] = {
    "plate": _plate, "deep plate": _deep_plate, "long plate": _long_plate, "bowl": _bowl, "clay pot": _clay_pot,
    "jar": _jar, "steam pot": _steam_pot, "copper pot": _clay_pot, "basin": _basin, "wok": _wok,
    "iron plate": _iron_plate, "steamer": _steamer, "leaf": _leaf, "board": _board, "tray": _tray, "basket": _basket,
    "tube": _tube,
}  # fmt: skip
_DEEP = {"bowl", "clay pot", "basin", "wok", "jar", "steam pot", "copper pot", "deep plate"}


def _surface(s: _Scene, food: Colour | None = None) -> Surface:
    return VESSELS[s.serving.vessel](s, food or s.serving.colour)


# ------------------------------------------------------------------------------------------------------------ the forms


def _stir_fry(s: _Scene) -> None:
    """A heap of many pieces on a film of sauce."""
    v = s.serving
    p, rx, ry = _surface(s, dark(v.colour, 0.1))
    deep = v.vessel in _DEEP
    if not deep:
        s.soft(p, 0, 3, rx * 1.12, ry * 1.12, dark(v.colour, 0.4), 0.6)
        _pool(s, p, rx * 1.0, ry * 1.0, v.colour)
    _heap(s, p, v.cuts, rx * 0.94, ry * 0.92, 88, 9)
    _strew(s, p, rx * 0.74, ry * 0.7, 8)
    _shine(s, p, rx * 0.7, ry * 0.6, 8, 0.4)


def _braise(s: _Scene) -> None:
    """Large pieces in a thick sauce."""
    v = s.serving
    p, rx, ry = _surface(s)
    if v.vessel not in _DEEP:
        s.soft(p, 0, 3, rx * 1.15, ry * 1.15, dark(v.colour, 0.45), 0.6)
        _pool(s, p, rx * 1.02, ry * 1.02, v.colour)
    first = v.cuts[0].size if v.cuts else 4
    count = max(18, round(46 * (4.4 / max(first, 3)) ** 1.5))
    _heap(s, p, v.cuts, rx * 0.9, ry * 0.88, count, 7, 1.2)
    _shine(s, p, rx * 0.75, ry * 0.7, 12, 0.55)
    _strew(s, p, rx * 0.66, ry * 0.62, 7)


def _in_broth(s: _Scene) -> None:
    """A soup or a boiled dish: pieces that look out of a broth."""
    v = s.serving
    broth = v.colour if v.red_oil else blend(v.colour, rgb("f3ddb0"), 0.3)  # a clear broth is paler than its dish
    p, rx, ry = _surface(s, broth)
    _oil(s, p, rx * 0.9, ry * 0.9, rgb("e8632c") if v.red_oil else light(broth, 0.2), 40 if v.red_oil else 22)
    _heap(s, p, v.cuts, rx * 0.86, ry * 0.84, 46, 4, 1.12)
    for x, y in _spots(s, 12, rx * 0.92, ry * 0.9):  # the broth closes over some of them
        s.soft(p, x, y, s.dice.uniform(3, 5.5), s.dice.uniform(1.6, 3), broth, 0.75)
    _oil(s, p, rx * 0.8, ry * 0.8, rgb("ef7a35") if v.red_oil else light(broth, 0.3), 16)
    _strew(s, p, rx * 0.76, ry * 0.72, 3, 1.4)
    if v.vessel == "steam pot":
        _chimney(p)


def _clear_soup(s: _Scene) -> None:
    """A thin or thickened soup with small things in it."""
    v = s.serving
    p, rx, ry = _surface(s)
    _heap(s, p, v.cuts, rx * 0.8, ry * 0.78, 30, 1, 0.9)
    for x, y in _spots(s, 12, rx * 0.84, ry * 0.82):
        s.soft(p, x, y, s.dice.uniform(3, 6), s.dice.uniform(2, 3.4), v.colour, 0.8)
    _oil(s, p, rx * 0.84, ry * 0.82, light(v.colour, 0.25), 18)
    _strew(s, p, rx * 0.6, ry * 0.56)


def _noodle_nest(s: _Scene, p: Pen, rx: float, ry: float, tone: Colour, count: int, width: float) -> None:
    for i in range(count):
        t, r = s.dice.uniform(0, math.tau), math.sqrt(s.dice.random()) * 0.72
        q = p.at(rx * r * math.cos(t), ry * r * math.sin(t) - 3 * (1 - r), 1, s.jitter(60))
        start = s.dice.uniform(0, 360)
        shade = (tone, light(tone, 0.35), dark(tone, 0.16), tone)[i % 4]
        a, b = s.dice.uniform(rx * 0.2, rx * 0.42), s.dice.uniform(ry * 0.16, ry * 0.4)
        reach = s.dice.uniform(110, 230)
        q.arc(0, 0.5, a, b, start, start + reach, width, dark(tone, 0.42))
        q.arc(0, 0, a, b, start, start + reach, width * 0.78, shade)


def _noodles_in_broth(s: _Scene) -> None:
    v = s.serving
    p, rx, ry = _surface(s)
    _oil(s, p, rx * 0.92, ry * 0.92, rgb("e8632c") if v.red_oil else light(v.colour, 0.2), 30)
    tone = next((c.colour for c in v.cuts if c.name in ("noodles", "glass noodles")), rgb("f0dca0"))
    _noodle_nest(s, p, rx * 0.98, ry * 0.98, tone, 74, 1.6)
    rest = [c for c in v.cuts if c.name not in ("noodles", "glass noodles", "rice")]
    for i, piece in enumerate(rest[:4]):  # toppings side by side
        t = math.radians(-150 + i * 95 + s.jitter(12))
        q = p.at(rx * 0.46 * math.cos(t), ry * 0.46 * math.sin(t) - 2)
        if v.piece is cut.wonton and piece.draw in (cut.shrimp, cut.slice_):
            for x, y in _spots(s, 4, rx * 0.26, ry * 0.24):
                cut.wonton(q.at(x, y, 5.6, s.jitter(30)), rgb("fbf0d8"))
            continue
        _heap(s, q, [piece], rx * 0.27, ry * 0.25, 13 if piece.size < 3 else 7, 3)
    _strew(s, p, rx * 0.68, ry * 0.64, 2)
    if v.red_oil:
        _shine(s, p, rx * 0.8, ry * 0.8, 8, 0.4)


def _dry_noodles(s: _Scene) -> None:
    v = s.serving
    p, rx, ry = _surface(s, dark(v.colour, 0.15))
    if v.vessel not in _DEEP:
        _pool(s, p, rx, ry, v.colour)
    tone = next((c.colour for c in v.cuts if c.name in ("noodles", "glass noodles")), rgb("eed79a"))
    tone = blend(tone, v.colour, 0.22)
    wide = 3.0 if v.broad else 1.6
    _noodle_nest(s, p, rx * 1.02, ry * 1.02, tone, 92 if wide < 2 else 56, wide)
    for x, y in _spots(s, 12, rx * 0.7, ry * 0.66):  # sauce poured over
        s.soft(p, x, y - 2, s.dice.uniform(4, 8), s.dice.uniform(2.5, 5), v.colour, 0.85)
    rest = [c for c in v.cuts if c.name not in ("noodles", "glass noodles", "rice")]
    _heap(s, p.at(0, -2), rest, rx * 0.56, ry * 0.52, 5 + 7 * len(rest), 5, 0.9)
    _strew(s, p.at(0, -2), rx * 0.56, ry * 0.5, 5, 1.5)
    _shine(s, p, rx * 0.7, ry * 0.6, 6, 0.35)


def _grains(s: _Scene, p: Pen, rx: float, ry: float, tone: Colour, count: int, height: float) -> None:
    p.disc(0, 1.5, rx * 1.02, ry * 1.02, dark(tone, 0.4))
    p.disc(0, 0, rx, ry, dark(tone, 0.12))
    s.soft(p, -rx * 0.15, -ry * 0.3, rx * 0.8, ry * 0.7, light(tone, 0.4), 0.8)
    for i, (x, y) in enumerate(_spots(s, count, rx * 0.97, ry * 0.97)):
        lift = height * max(0.0, 1 - (x / rx) ** 2 - (y / ry) ** 2)
        shade = (light(tone, 0.5), tone, dark(tone, 0.14))[i % 3]
        p.at(x, y - lift, 1.7, s.dice.uniform(0, 180)).disc(0, 0, 0.8, 0.34, shade)


def _rice(s: _Scene) -> None:
    """Cooked or fried rice with what is mixed into it or lies on it."""
    v = s.serving
    plain = any(c.name == "cured meat" or c.name == "sausage" for c in v.cuts) and v.vessel in _DEEP
    tone = blend(rgb("fbf4e0"), v.colour, 0.1 if plain else 0.4)
    p, rx, ry = _surface(s, tone)
    k = 1.0 if v.vessel in _DEEP or v.vessel == "tube" else 1.06
    height = 0.0 if v.vessel == "tube" else 7.0
    _grains(s, p, rx * k, ry * k, tone, 330, height)
    rest = [c for c in v.cuts if c.name != "rice"]
    if plain:  # what was cooked on top lies side by side, under a sauce
        for x, y in _spots(s, 10, rx * 0.7, ry * 0.66):
            s.soft(p, x, y, s.dice.uniform(4, 8), s.dice.uniform(2, 4), v.colour, 0.55)
        for i, piece in enumerate(rest):
            t = math.radians(-90 + i * 360 / len(rest))
            _heap(s, p.at(rx * 0.42 * math.cos(t), ry * 0.42 * math.sin(t)), [piece], rx * 0.34, ry * 0.32, 10, 3)
    else:
        _heap(s, p, rest, rx * 0.86, ry * 0.82, 44, height, 0.85)
    _strew(s, p, rx * 0.64, ry * 0.6, height)


def _congee(s: _Scene) -> None:
    v = s.serving
    base = blend(rgb("f8f2e2"), v.colour, 0.25)
    p, rx, ry = _surface(s, base)
    for i, (x, y) in enumerate(_spots(s, 130, rx * 0.92, ry * 0.92)):
        p.at(x, y, 1.7, s.dice.uniform(0, 180)).disc(0, 0, 0.8, 0.42, light(base, 0.55) if i % 3 else dark(base, 0.1))
    for x, y in _spots(s, 14, rx * 0.8, ry * 0.8):
        s.soft(p, x, y, 5, 3, base, 0.6)
    rest = [c for c in v.cuts if c.name != "rice"]
    _heap(s, p, rest, rx * 0.46, ry * 0.44, 16, 2, 0.9)
    _strew(s, p, rx * 0.52, ry * 0.48)


def _custard(s: _Scene) -> None:
    """A smooth surface: steamed egg, milk pudding, soft bean curd."""
    v = s.serving
    p, rx, ry = _surface(s, v.colour)
    s.soft(p, -rx * 0.25, -ry * 0.3, rx * 0.6, ry * 0.45, WHITE, 0.6)
    p.arc(0, 0.6, rx * 0.86, ry * 0.84, 30, 150, 0.8, dark(v.colour, 0.12))
    rest = [c for c in v.cuts[1:] if c.name not in ("rice", "egg")]
    _heap(s, p, rest, rx * 0.34, ry * 0.3, 14, 1, 0.8)
    _strew(s, p, rx * 0.46, ry * 0.4, 0, 0.8)


def _sweet_soup(s: _Scene) -> None:
    """Balls, dumplings or wontons in a clear soup."""
    v = s.serving
    meat = next((c for c in v.cuts if c.draw in (cut.slice_, cut.fillet)), None)
    clear = blend(v.colour, rgb("f6ead0"), 0.55 if v.strewn or meat else 0.2)
    p, rx, ry = _surface(s, clear)
    _oil(s, p, rx * 0.9, ry * 0.9, light(clear, 0.3), 16)
    tone = rgb("fdf9f0") if meat is None or v.piece is cut.wonton else blend(meat.colour, v.colour, 0.5)
    rest = [c for c in v.cuts if c.name not in ("rice", "noodles") and c is not meat and c.size < 5]
    _heap(s, p, rest, rx * 0.84, ry * 0.8, 9, 0, 0.9)
    piece = v.piece or cut.ball
    for x, y in _spots(s, 8, rx * 0.7, ry * 0.66):
        piece(p.at(x, y, 6.4 * v.size**0.5, s.jitter(25)), tone)
    for x, y in _spots(s, 6, rx * 0.9, ry * 0.86):
        s.soft(p, x, y, 4, 2.2, clear, 0.5)
    _strew(s, p, rx * 0.8, ry * 0.76, 0, 0.8)


def _fish_body(p: Pen, length: float, tone: Colour, belly: Colour, slashes: bool = True) -> None:
    """A whole fish in profile, head to the left, about the origin; `length` is half its length."""
    q = p.at(0, 0, length)
    q.poly([(0.62, -0.02), (1.02, -0.34), (0.94, 0.0), (1.02, 0.3), (0.62, 0.1)], dark(tone, 0.3))
    for x in (0.76, 0.88):
        q.line([(0.7, 0.03), (x + 0.08, -0.18)], 0.012, dark(tone, 0.5))
        q.line([(0.7, 0.05), (x + 0.08, 0.2)], 0.012, dark(tone, 0.5))
    q.poly([(-0.35, -0.28), (-0.05, -0.5), (0.4, -0.32), (0.45, -0.16)], dark(tone, 0.34))
    for i in range(6):
        q.line([(-0.25 + i * 0.1, -0.26), (-0.12 + i * 0.1, -0.43 + abs(i - 1) * 0.03)], 0.012, dark(tone, 0.55))
    upper = [(-1.0, 0.02), (-0.86, -0.15), (-0.6, -0.28), (-0.2, -0.34), (0.2, -0.28), (0.5, -0.14), (0.72, -0.04)]
    lower = [(0.72, 0.08), (0.5, 0.17), (0.2, 0.3), (-0.2, 0.34), (-0.6, 0.26), (-0.86, 0.14)]
    outline = upper + lower
    q.poly([(x, y + 0.05) for x, y in outline], dark(tone, 0.5))
    q.poly(outline, tone)
    q.poly([(-0.86, 0.12), (-0.6, 0.1), (0.2, 0.1), (0.7, 0.05), *lower[1:-1], (-0.86, 0.14)], belly)
    q.poly([(-0.6, -0.24), (-0.2, -0.3), (0.2, -0.24), (0.5, -0.12), (0.2, -0.17), (-0.2, -0.22)], light(tone, 0.32))
    head = [(-1.0, 0.02), (-0.86, -0.15), (-0.64, -0.25), (-0.58, 0.0), (-0.64, 0.24), (-0.86, 0.13)]
    q.poly(head, dark(tone, 0.14))
    q.arc(-0.7, 0.0, 0.14, 0.22, -70, 70, 0.03, dark(tone, 0.45))
    q.line([(-1.0, 0.04), (-0.9, 0.06)], 0.025, dark(tone, 0.6))
    q.disc(-0.83, -0.06, 0.055, 0.06, WHITE)
    q.disc(-0.83, -0.06, 0.03, 0.034, rgb("2a2628"))
    q.poly([(-0.5, 0.06), (-0.26, 0.2), (-0.42, 0.24)], dark(tone, 0.34))
    if slashes:
        for x in (-0.38, -0.14, 0.1, 0.33):
            q.poly([(x, -0.23), (x + 0.13, 0.0), (x + 0.02, 0.18), (x + 0.07, 0.0)], dark(tone, 0.45))
            q.poly([(x + 0.03, -0.16), (x + 0.12, 0.0), (x + 0.05, 0.12), (x + 0.08, 0.0)], light(belly, 0.5))


def _whole_fish(s: _Scene) -> None:
    v = s.serving
    p, rx, ry = _surface(s)
    deep = v.vessel in _DEEP
    if not deep:
        _pool(s, p, rx * 0.98, ry * 1.0, v.colour)
    tone = blend(rgb("b9b3a6"), v.colour, 0.6 if not v.piece else 0.25)
    rest = [c for c in v.cuts if c.name != "fish"]
    if rest:
        for x, y, _ in _ring(18, rx * 0.84, ry * 0.8):
            _drop(s, p, s.dice.choice(rest), x, y, 0.9)
    q = p.at(0, 0, 1, -6 if not deep else -10)
    s.soft(q, 2, 4, rx * 1.0, ry * 0.7, dark(v.colour, 0.6), 0.7)
    _fish_body(q, rx * (0.98 if not deep else 0.94), tone, light(tone, 0.5))
    _strew(s, q.at(0, -2), rx * 0.5, ry * 0.26, 2)
    _shine(s, q, rx * 0.6, ry * 0.3, 7, 0.5)


def _squirrel_fish(s: _Scene) -> None:
    """A fish cut into quills and fried, head and tail raised, under a shining sauce."""
    v = s.serving
    p, rx, ry = _surface(s)
    _pool(s, p, rx * 0.98, ry, v.colour)
    gold = rgb("e9a43c")
    head = p.at(-rx * 0.8, -2, rx * 0.26, -8)
    head.poly([(-0.9, 0.3), (-0.5, -0.7), (0.4, -0.9), (0.9, -0.2), (0.8, 0.7), (-0.2, 0.8)], dark(gold, 0.45))
    head.poly(
        [(-0.85, 0.2), (-0.45, -0.66), (0.4, -0.85), (0.85, -0.2), (0.7, 0.55), (-0.2, 0.62)],
        blend(gold, v.colour, 0.3),
    )
    head.disc(-0.1, -0.3, 0.17, 0.17, WHITE)
    head.disc(-0.1, -0.3, 0.09, 0.09, rgb("2a2628"))
    head.poly([(-0.9, 0.25), (-0.3, 0.2), (-0.72, 0.52)], dark(gold, 0.6))
    tail = p.at(rx * 0.84, -5, rx * 0.22, 10)
    tail.poly([(-0.9, 0.7), (-0.5, -0.1), (0.4, -1.1), (0.4, -0.2), (1.0, 0.2), (-0.2, 0.9)], dark(gold, 0.35))
    tail.poly([(-0.8, 0.6), (-0.45, -0.05), (0.34, -0.95), (0.3, -0.16), (0.85, 0.18), (-0.2, 0.75)], gold)
    for row in range(5):
        y = -ry * 0.5 + row * ry * 0.26
        half = rx * 0.64 * math.sqrt(1 - ((row - 2) / 3.2) ** 2)
        n = 9
        for i in range(n):
            x = -half + 2 * half * i / (n - 1)
            q = p.at(x, y - 3 * math.cos(x / rx * 1.4), 4.6, s.jitter(14) + (i - 4) * 5)
            tone = blend(gold, v.colour, s.dice.uniform(0.35, 0.85))
            q.box(-0.62, -0.9, 0.62, 1.1, dark(tone, 0.45), 0.5)
            q.box(-0.6, -1.0, 0.56, 0.8, tone, 0.5)
            q.line([(-0.25, -0.7), (-0.25, 0.1)], 0.22, light(tone, 0.5))
    rest = [c for c in v.cuts if c.name != "fish"]
    _heap(s, p, rest, rx * 0.5, ry * 0.4, 16, 4, 0.9)
    _strew(s, p, rx * 0.5, ry * 0.4, 4)
    _shine(s, p, rx * 0.7, ry * 0.5, 14, 0.6)


def _fan(s: _Scene) -> None:
    """Cold slices laid in overlapping fans, a dip beside them."""
    v = s.serving
    p, rx, ry = _surface(s)
    main = _main_piece(s)
    sliced = (
        cut.fowl_slice
        if main.draw in (cut.bone_chunk,)
        else cut.belly_slice
        if main.draw is cut.belly_cube
        else main.draw
    )
    if sliced is cut.slice_:
        sliced = cut.cold_slice
    tone = blend(main.colour, v.colour, 0.5)
    if v.red_oil:
        _pool(s, p, rx, ry, blend(v.colour, _BROTH_RED, 0.5))
    for radius, count, size in ((0.78, 15, 7.4), (0.4, 9, 7.0)):
        for i in range(count):
            t = math.radians(152 + (i + 0.5) / count * 236)
            x, y = rx * radius * math.cos(t), ry * radius * math.sin(t)
            shade = s.jitter(0.07)
            angle = math.degrees(t) + (90 if sliced in (cut.cold_slice, cut.belly_slice) else 0)
            sliced(p.at(x, y, size, angle), dark(tone, shade) if shade > 0 else light(tone, -shade))
    dip = p.at(0, ry * 0.52)
    dip.disc(0, 1.2, 9, 6.8, dark(s.china, 0.35))
    dip.disc(0, 0, 9, 6.8, s.china)
    dip.disc(0, 0.4, 7.3, 5.2, rgb("5a2d1c"))
    dip.disc(-2, -1, 2.6, 1.3, rgb("9a5634"))
    rest = [c for c in v.cuts[1:]]
    _heap(s, p, rest, rx * 0.3, ry * 0.14, 8, 2, 0.9)
    _strew(s, p.at(0, -ry * 0.3), rx * 0.56, ry * 0.44)


def _cold_cuts(s: _Scene) -> None:
    """Chopped fowl or thin slices of meat laid in rows; red oil over them where the presentation says so."""
    v = s.serving
    oily = v.red_oil
    p, rx, ry = _surface(s, blend(v.colour, _BROTH_RED, 0.6) if oily else v.colour)
    if v.vessel not in _DEEP:
        _pool(s, p, rx * 0.98, ry * 0.98, blend(v.colour, rgb("c9924c"), 0.45))
    if oily:
        _oil(s, p, rx * 0.98, ry * 0.98, rgb("e8632c"), 30)
    main = _main_piece(s)
    rest = list(v.cuts[1:])
    fowl = main.draw not in (cut.belly_cube, cut.slice_, cut.cold_slice)
    skin = blend(main.colour, v.colour, 0.72)
    for row in range(3):
        y, n = (-0.5 + row * 0.5) * ry, 8 if row != 1 else 9
        half = rx * (0.66 if row != 1 else 0.78)
        for i in range(n):
            x = -half + 2 * half * i / (n - 1)
            shade = s.jitter(0.08)
            k = dark(skin, shade) if shade > 0 else light(skin, -shade)
            q = p.at(x, y - 5 * (1 - (x / rx) ** 2), rx * (0.118 if row != 1 else 0.124), (i - n / 2) * 3 + s.jitter(3))
            if fowl:
                cut.chopped_fowl(q, k)
            else:
                cut.thin_belly(q, k)
    if oily:
        for x, y in _spots(s, 16, rx * 0.8, ry * 0.72):
            s.soft(p, x, y - 2, s.dice.uniform(3, 6), s.dice.uniform(1.4, 3), _BROTH_RED, 0.7)
    elif not fowl:  # a sauce spooned over the middle
        for x, y in _spots(s, 7, rx * 0.4, ry * 0.5):
            s.soft(p, x, y - 3, s.dice.uniform(2, 5), s.dice.uniform(1.2, 2.6), rgb("b8452a"), 0.7)
    _heap(s, p.at(0, -3), rest, rx * 0.5, ry * 0.42, 12, 3, 0.9)
    _strew(s, p.at(0, -3), rx * 0.62, ry * 0.54, 3)
    _shine(s, p, rx * 0.72, ry * 0.6, 9, 0.5)


def _dome(s: _Scene) -> None:
    """Slices of pork belly turned out of their bowl, skin side up, over greens or taro."""
    v = s.serving
    p, rx, ry = _surface(s)
    _pool(s, p, rx * 1.05, ry * 1.05, v.colour)
    rest = [c for c in v.cuts[1:]]
    for x, y, _ in _ring(40, rx * 0.84, ry * 0.84) + _ring(30, rx * 0.7, ry * 0.7, 5):
        if rest:
            _drop(s, p, s.dice.choice(rest[:2]), x, y, 0.95)
    tone = blend(rgb("b2582f"), v.colour, 0.4)
    skin = blend(rgb("8a2f18"), v.colour, 0.3)
    for half, y in ((0.5, -0.3), (0.62, 0.02), (0.52, 0.34)):
        n = 9
        for i in range(n):
            x = -rx * half * 1.12 + 2.24 * rx * half * i / (n - 1)
            q = p.at(x, ry * y * 1.1 - 7 * (1 - (x / rx) ** 2), 1.18, (i - 4) * 4)
            q.box(-3.2, -5.6, 3.6, 7.2, dark(tone, 0.5), 1.6)
            q.box(-3.2, -6, 3.2, 6.4, tone, 1.6)
            q.box(-3.2, 1.2, 3.2, 6.4, blend(rgb("f0cfa4"), v.colour, 0.25), 1.4)
            q.box(-3.2, 3.4, 3.2, 6.4, tone, 1.4)
            q.box(-3.2, -6, 3.2, -1.4, skin, 1.6)
            q.line([(-1.6, -4.6), (1.4, -4.7)], 0.9, light(skin, 0.5))
    _strew(s, p.at(0, -4), rx * 0.5, ry * 0.42, 4)
    _shine(s, p.at(0, -4), rx * 0.5, ry * 0.4, 9, 0.6)


def _big_cubes(s: _Scene) -> None:
    """A few large cubes of glazed pork belly, tied, or knuckles."""
    v = s.serving
    p, rx, ry = _surface(s)
    if v.vessel not in _DEEP:
        _pool(s, p, rx * 0.98, ry * 0.98, v.colour)
    greens = [c for c in v.cuts if c.name in ("bok choy", "greens", "cabbage")]
    for x, y, angle in _ring(9, rx * 0.82, ry * 0.8):
        if greens:
            greens[0].draw(p.at(x, y, 5.2, angle - 90), greens[0].colour)
    tone = blend(rgb("b2582f"), v.colour, 0.4)
    for x, y in ((-0.32, -0.36), (0.34, -0.34), (-0.42, 0.2), (0.06, 0.08), (0.5, 0.24), (0.0, 0.5)):
        q = p.at(x * rx * 1.0, y * ry, 7.6, s.jitter(8))
        cut.belly_cube(q, tone)
        q.line([(0.0, -0.84), (0.0, 0.84)], 0.09, rgb("e6d3a0"))
    _shine(s, p, rx * 0.6, ry * 0.55, 9, 0.7)
    _strew(s, p, rx * 0.55, ry * 0.5, 2, 0.7)


def _balls(s: _Scene) -> None:
    """A few large meatballs in their broth or sauce."""
    v = s.serving
    p, rx, ry = _surface(s)
    if v.vessel not in _DEEP:
        _pool(s, p, rx, ry, v.colour)
    rest = sorted(v.cuts[1:], key=lambda c: c.draw not in (cut.bok_choy, cut.leaf, cut.cabbage))
    for x, y, angle in _ring(9, rx * 0.86, ry * 0.84, 12):
        if rest:
            piece = rest[0]
            turn = angle - 90 if piece.draw is cut.bok_choy else s.jitter(90)
            piece.draw(p.at(x, y, piece.size * 1.15, turn), s.tinted(piece))
    tone = v.cuts[0].colour if v.cuts and v.cuts[0].draw is cut.ball else blend(rgb("c98a64"), v.colour, 0.3)
    big = not (v.cuts and v.cuts[0].draw is cut.ball)
    places = (
        ((-0.3, -0.3), (0.34, -0.28), (-0.36, 0.3), (0.3, 0.34))
        if big
        else tuple((x / rx, y / ry) for x, y in _spots(s, 12, rx * 0.6, ry * 0.58))
    )
    for x, y in places:
        q = p.at(x * rx * 1.1, y * ry * 1.1, rx * 0.34 if big else 4.6, s.jitter(20))
        cut.ball(q, tone)
        if big:
            for _ in range(12):
                t, r = s.dice.uniform(0, math.tau), math.sqrt(s.dice.random()) * 0.75
                q.disc(
                    r * math.cos(t),
                    r * math.sin(t) * 0.9,
                    0.08,
                    0.06,
                    dark(tone, 0.25) if r > 0.3 else light(tone, 0.3),
                )
    _strew(s, p, rx * 0.6, ry * 0.55, 3, 0.8)
    _shine(s, p, rx * 0.6, ry * 0.55, 6, 0.5)


def _tofu(s: _Scene) -> None:
    """Cubes of tofu in their sauce."""
    v = s.serving
    p, rx, ry = _surface(s)
    if v.vessel not in _DEEP:
        _pool(s, p, rx * 1.02, ry * 1.02, v.colour)
    main = v.cuts[0] if v.cuts and "tofu" in v.cuts[0].name else cut_of("豆腐")
    assert main is not None
    for x, y in _spots(s, 36, rx * 0.88, ry * 0.86):
        lift = 6 * max(0.0, 1 - (x / rx) ** 2 - (y / ry) ** 2)
        main.draw(p.at(x, y - lift, 5.6, s.jitter(14)), blend(main.colour, v.colour, 0.1))
    for x, y in _spots(s, 16, rx * 0.74, ry * 0.7):
        s.soft(p, x, y - 4, s.dice.uniform(3, 6), s.dice.uniform(1.6, 3), v.colour, 0.85)
    _heap(s, p.at(0, -2), [c for c in v.cuts if "tofu" not in c.name], rx * 0.68, ry * 0.64, 34, 5, 0.85)
    _strew(s, p.at(0, -2), rx * 0.64, ry * 0.6, 5)
    _shine(s, p, rx * 0.7, ry * 0.6, 10, 0.5)


def _skewers(s: _Scene) -> None:
    v = s.serving
    p, rx, ry = _surface(s)
    cuts = [c for c in v.cuts if not c.small] or [cut_of("羊肉")]
    for i in range(6):
        q = p.at(s.jitter(1.5), -ry * 0.78 + i * ry * 0.32, 1, -7 + s.jitter(1.5))
        q.line([(-rx * 1.06, 0.5), (rx * 1.2, 0.5)], 1.0, dark(WOOD, 0.4))
        q.line([(-rx * 1.06, 0), (rx * 1.2, 0)], 0.8, light(WOOD, 0.3))
        for j in range(8):
            piece = cuts[0] if j % 3 or len(cuts) == 1 else cuts[1 + (j // 3) % (len(cuts) - 1)]
            assert piece is not None
            k = blend(piece.colour, v.colour, 0.35)
            body = cut.chunk if piece.draw in (cut.slice_, cut.rib, cut.bone_chunk) else piece.draw
            body = cut.square if body is cut.strip else body
            body(q.at(-rx * 0.82 + j * rx * 0.215, 0, 4.9, s.jitter(16)), dark(k, max(0.0, s.jitter(0.12))))
        for _ in range(16):  # cumin and chili
            q.disc(
                s.dice.uniform(-rx * 0.85, rx * 0.75),
                s.jitter(2.6),
                0.42,
                0.36,
                s.dice.choice((_BROTH_RED, CREAM, rgb("6b4a22"))),
            )
    _strew(s, p, rx * 0.7, ry * 0.6, 0, 0.7)


def _arranged(s: _Scene) -> None:
    """Buns, dumplings or cakes side by side."""
    v = s.serving
    p, rx, ry = _surface(s)
    piece = v.piece or cut.round_bun
    if piece in (cut.bread_disc, cut.flaky, cut.mooncake):
        places, size = [(-0.42, -0.36), (0.42, -0.34), (-0.5, 0.4), (0.46, 0.42), (0.0, 0.04)], 12.5
    elif piece in (cut.round_bun, cut.cut_bun):
        places, size = [(0.0, 0.06), *((x, y) for x, y, _ in _ring(6, 0.66, 0.66, 30))], 10.0
    elif piece is cut.ball:
        places, size = [(0.0, 0.0), *((x, y) for x, y, _ in _ring(5, 0.66, 0.66, 20))], 10.4
    else:
        places, size = [(0.0, 0.0), *((x, y) for x, y, _ in _ring(7, 0.7, 0.7, 12))], 9.2
    size *= v.size
    tone = v.colour
    for x, y in sorted(places, key=lambda place: place[1]):
        q = p.at(
            x * rx,
            y * ry,
            size * s.dice.uniform(0.97, 1.03),
            s.jitter(7) if piece is not cut.crescent else s.jitter(16),
        )
        s.soft(q, 0.1, 0.5, 1.2, 0.9, dark(tone, 0.7), 0.5)
        piece(q, tone)
        if piece in (cut.soup_bun, cut.round_bun) and v.red_oil:
            q.half(0, 0.62, 0.9, 0.3, rgb("b9712e"))
    _strew(s, p, rx * 0.66, ry * 0.62, 0, 0.8)


def _pan_fried(s: _Scene) -> None:
    """Dumplings or buns with crisp brown bottoms, side by side."""
    v = s.serving
    p, rx, ry = _surface(s)
    piece = v.piece or cut.crescent
    for row, n in enumerate((3, 4, 3)):
        for i in range(n):
            q = p.at((i - (n - 1) / 2) * rx * 0.5, (row - 1) * ry * 0.56 - 1, 8.4, s.jitter(6))
            s.soft(q, 0.1, 0.5, 1.25, 0.9, dark(v.colour, 0.7), 0.5)
            q.disc(0, 0.5, 1.02, 0.4, rgb("8f5520"))
            q.disc(0, 0.42, 1.02, 0.38, rgb("cf8c38"))
            piece(q.at(0, -0.12, 0.94), blend(rgb("fbf0d6"), v.colour, 0.22))
    for piece_ in v.strewn:
        for x, y in _spots(s, 46, rx * 0.8, ry * 0.74):
            piece_.draw(p.at(x, y - 3, piece_.size, s.dice.uniform(0, 180)), piece_.colour)
    scallion = cut_of("葱")
    for x, y in _spots(s, 16, rx * 0.76, ry * 0.7):
        if scallion is not None:
            scallion.draw(p.at(x, y - 3, 1.3, s.jitter(90)), scallion.colour)


def _pancakes(s: _Scene) -> None:
    """Flat cakes cut in wedges."""
    v = s.serving
    p, rx, ry = _surface(s)
    tone = v.colour
    for dy in (5, 2.5, 0):
        p.disc(0, dy + 1, rx * 0.86, ry * 0.84, dark(tone, 0.45))
        p.disc(0, dy - 0.4, rx * 0.86, ry * 0.82, dark(tone, 0.08))
    s.soft(p, -rx * 0.1, -ry * 0.15, rx * 0.75, ry * 0.7, light(tone, 0.35), 0.8)
    for x, y in _spots(s, 26, rx * 0.76, ry * 0.72):
        s.soft(p, x, y, s.dice.uniform(1.5, 4), s.dice.uniform(1, 2.4), rgb("9a5a22"), 0.6)
    for x, y in _spots(s, 24, rx * 0.74, ry * 0.7):
        p.at(x, y, 1, s.dice.uniform(0, 180)).disc(
            0, 0, 1.1, 0.6, rgb("5a9a40") if v.strewn or v.cuts else dark(tone, 0.2)
        )
    for angle in (0, 45, 90, 135):
        t = math.radians(angle + 20)
        p.line(
            [(-rx * 0.86 * math.cos(t), -ry * 0.82 * math.sin(t)), (rx * 0.86 * math.cos(t), ry * 0.82 * math.sin(t))],
            0.7,
            dark(tone, 0.5),
        )
    rest = [c for c in v.cuts if c.name not in ("noodles", "rice", "spring onion", "egg")]
    _heap(s, p, rest, rx * 0.6, ry * 0.55, 18, 2, 0.8)
    _strew(s, p, rx * 0.6, ry * 0.56, 0, 0.7)


def _filled_bread(s: _Scene) -> None:
    """Baked bread slit open and filled with chopped meat."""
    v = s.serving
    p, rx, ry = _surface(s)
    bread = rgb("ecd3a0")
    for x, y, angle in ((-0.34, -0.22, -10), (0.34, 0.26, 8)):
        q = p.at(x * rx * 1.06, y * ry * 1.1, 17.5 * v.size, angle)
        s.soft(q, 0.1, 0.4, 1.3, 1.0, dark(s.top, 0.6), 0.6)
        q.disc(0, 0.36, 1.0, 0.55, dark(bread, 0.4))
        q.disc(0, 0.28, 1.0, 0.55, bread)
        for _ in range(16):
            t = s.dice.uniform(-0.9, 0.9)
            for c in v.cuts[:2]:
                c.draw(
                    q.at(t, 0.2 + 0.32 * math.sqrt(1 - t * t) + s.jitter(0.06), 0.2, s.dice.uniform(0, 180)),
                    s.tinted(c),
                )
        q.disc(0, -0.12, 1.0, 0.56, dark(bread, 0.34))
        q.disc(0, -0.2, 1.0, 0.56, bread)
        q.disc(-0.1, -0.26, 0.7, 0.36, light(bread, 0.4))
        q.arc(0, -0.2, 0.62, 0.34, 0, 360, 0.06, rgb("b98546"))
        for a in range(0, 360, 40):
            t = math.radians(a)
            q.disc(0.3 * math.cos(t), -0.2 + 0.16 * math.sin(t), 0.07, 0.045, rgb("b07a3c"))
    _strew(s, p, rx * 0.6, ry * 0.5, 0, 0.6)


def _rolls(s: _Scene) -> None:
    """Rolls side by side: rice rolls with soy sauce, or crisp spring rolls."""
    v = s.serving
    p, rx, ry = _surface(s)
    crisp = v.piece is cut.fried
    tone = v.colour if crisp else blend(rgb("f7f1e4"), v.colour, 0.12)
    if not crisp:
        _pool(s, p, rx * 0.9, ry * 0.92, rgb("7a4a24"))
    inner = [c for c in v.cuts if c.name not in ("rice", "noodles")]
    for i in range(4 if not crisp else 5):
        n = 4 if not crisp else 5
        q = p.at(s.jitter(0.8), (i - (n - 1) / 2) * ry * (0.44 if not crisp else 0.36), 1, s.jitter(2))
        h = ry * 0.21 if not crisp else ry * 0.17
        q.box(-rx * 0.8, -h + 1.8, rx * 0.8, h + 1.8, dark(tone, 0.45), h)
        q.box(-rx * 0.8, -h, rx * 0.8, h, tone, h)
        if not crisp:
            for j in range(5):  # the filling shows through
                for c in inner[:2]:
                    s.soft(q, -rx * 0.6 + j * rx * 0.3 + s.jitter(2), s.jitter(h * 0.3), 3.4, h * 0.6, c.colour, 0.55)
            for x in (-0.45, 0.0, 0.45):
                q.line([(x * rx + 1, -h * 0.8), (x * rx - 1, h * 0.8)], 0.5, dark(tone, 0.3))
        else:
            for _ in range(9):
                s.soft(q, s.jitter(rx * 0.7), s.jitter(h * 0.5), 2.6, 1.1, dark(tone, 0.4), 0.5)
            q.disc(rx * 0.77, 0, h * 0.45, h * 0.8, dark(tone, 0.4))
            for c in inner[:2]:
                c.draw(q.at(rx * 0.77, s.jitter(1), h * 0.4), c.colour)
        q.line([(-rx * 0.66, -h * 0.5), (rx * 0.4, -h * 0.55)], h * 0.2, light(tone, 0.6))
    _strew(s, p, rx * 0.7, ry * 0.7, 0, 0.9)


def _squares(s: _Scene) -> None:
    """Cut cake: layered squares or diamonds."""
    v = s.serving
    p, rx, ry = _surface(s)
    tone = v.colour
    for x, y in ((-0.44, -0.4), (0.16, -0.46), (0.64, -0.2), (-0.62, 0.12), (-0.06, 0.06), (0.44, 0.34), (-0.2, 0.58)):
        q = p.at(x * rx, y * ry, rx / 26, s.jitter(6))
        q.box(-7.4, -1, 7.4, 7.6, dark(tone, 0.5), 1.2)
        q.box(-7.4, -1.4, 7.4, 6.2, dark(tone, 0.16), 1.2)
        q.box(-7.4, 1.6, 7.4, 2.8, dark(tone, 0.3))
        q.box(-7.4, -6.4, 7.4, 1.4, tone, 1.2)
        s.soft(q, -2, -3.5, 6, 2.6, light(tone, 0.6), 0.7)
        for c in [*v.cuts, *v.strewn][:3]:
            if c.name not in ("rice", "noodles") and c.size < 3.2:
                for _ in range(3):
                    c.draw(q.at(s.jitter(5), -3 + s.jitter(2.4), c.size * 0.7, s.jitter(90)), c.colour)


def _leaf_parcels(s: _Scene) -> None:
    """Rice in leaves: three wrapped pyramids and one open."""
    v = s.serving
    p, rx, ry = _surface(s)
    leaf_ = rgb("5f7d3c")
    for x, y, angle in ((-0.42, -0.3, -8), (0.4, -0.34, 10), (-0.4, 0.42, 4)):
        q = p.at(x * rx, y * ry, 12.5, angle)
        s.soft(q, 0.1, 0.5, 1.2, 0.8, dark(s.top, 0.6), 0.6)
        q.poly([(-1.0, 0.55), (0.0, -0.85), (1.05, 0.5), (0.25, 0.8)], dark(leaf_, 0.4))
        q.poly([(-1.0, 0.5), (0.0, -0.85), (0.2, 0.72)], leaf_)
        q.poly([(0.0, -0.85), (1.0, 0.45), (0.2, 0.72)], dark(leaf_, 0.2))
        for k in (0.2, 0.45):
            q.line([(0, -0.85 + k * 0.2), (-0.9 + k, 0.5)], 0.03, light(leaf_, 0.3))
        q.line([(-0.62, 0.0), (0.1, 0.16), (0.62, -0.04)], 0.08, rgb("e6d3a0"))
        q.line([(-0.3, -0.42), (0.06, -0.34), (0.3, -0.45)], 0.08, rgb("e6d3a0"))
    q = p.at(rx * 0.42, ry * 0.4, 13)
    q.poly([(-1.2, 0.6), (-0.4, -0.4), (0.5, -0.5), (1.25, 0.5), (0.4, 0.85)], light(leaf_, 0.2))
    tone = blend(rgb("f8efd8"), v.colour, 0.35)
    q.poly([(-0.75, 0.5), (0.0, -0.75), (0.8, 0.45), (0.1, 0.7)], dark(tone, 0.3))
    q.poly([(-0.7, 0.42), (0.0, -0.72), (0.12, 0.6)], tone)
    q.poly([(0.0, -0.72), (0.74, 0.4), (0.12, 0.6)], dark(tone, 0.12))
    for _ in range(50):
        q.at(s.jitter(0.5), 0.2 + s.jitter(0.36), 0.11, s.dice.uniform(0, 180)).disc(0, 0, 0.8, 0.36, light(tone, 0.5))
    for c in [c for c in v.cuts if c.name not in ("rice",)][:2]:
        c.draw(q.at(s.jitter(0.2), 0.26 + s.jitter(0.1), 0.28), c.colour)


def _whole_fowl(s: _Scene) -> None:
    """A whole bird, glossy, on its back."""
    v = s.serving
    p, rx, ry = _surface(s)
    tone = v.colour
    green = [c for c in v.cuts[1:]]
    for x, y, angle in _ring(16, rx * 0.92, ry * 0.92):
        if green:
            _drop(s, p, s.dice.choice(green), x, y, 0.95)
        else:
            cut.leaf(p.at(x, y, 4, angle), rgb("5f9c44"))
    q = p.at(1, 0, rx * 0.92, -6)
    s.soft(q, 0.05, 0.25, 1.1, 0.75, dark(tone, 0.7), 0.8)
    # neck and head
    q.line([(-0.6, -0.1), (-0.86, -0.3), (-0.78, -0.52)], 0.15, dark(tone, 0.3))
    q.line([(-0.6, -0.12), (-0.86, -0.32), (-0.78, -0.53)], 0.11, tone)
    q.disc(-0.72, -0.56, 0.13, 0.1, tone)
    q.poly([(-0.62, -0.58), (-0.42, -0.54), (-0.62, -0.5)], rgb("d9a040"))
    # body
    q.disc(-0.02, 0.06, 0.72, 0.5, dark(tone, 0.42))
    q.disc(-0.04, 0.0, 0.7, 0.48, tone)
    s.soft(q, -0.2, -0.2, 0.5, 0.26, light(tone, 0.6), 0.85)
    # wing
    q.poly([(-0.3, 0.1), (0.05, 0.0), (0.14, 0.2), (-0.1, 0.42), (-0.38, 0.34)], dark(tone, 0.34))
    q.poly([(-0.3, 0.08), (0.04, 0.0), (0.1, 0.16), (-0.12, 0.36), (-0.36, 0.28)], light(tone, 0.08))
    # legs
    for y, bend in ((0.18, 6), (-0.2, -10)):
        g = q.at(0.52, y, 1, bend)
        g.disc(0.0, 0.04, 0.36, 0.24, dark(tone, 0.42))
        g.disc(0.0, 0.0, 0.34, 0.22, blend(tone, light(tone), 0.3))
        g.line([(0.28, 0.0), (0.56, -0.04)], 0.12, dark(tone, 0.15))
        g.disc(0.58, -0.06, 0.07, 0.06, CREAM)
        s.soft(g, -0.08, -0.1, 0.2, 0.08, WHITE, 0.7)
    _shine(s, p, rx * 0.5, ry * 0.35, 6, 0.5)
    _strew(s, p, rx * 0.6, ry * 0.4, 0, 0.6)


def _carved_duck(s: _Scene) -> None:
    """Carved roast duck in overlapping slices, thin pancakes, spring onion and sauce."""
    v = s.serving
    p, rx, ry = _surface(s)
    tone = v.colour
    for row, (y, half) in enumerate(((-0.34, 0.66), (0.06, 0.72))):
        n = 11
        for i in range(n):
            x = -half + 2 * half * i / (n - 1)
            q = p.at(x * rx * 1.1, y * ry * 1.2 - 3 * (1 - x * x), 1.2, -12 + row * 4)
            q.disc(0.6, 1.4, 4.2, 6.4, dark(tone, 0.5))
            q.disc(0, 0, 4.2, 6.2, blend(rgb("f3d9bf"), tone, 0.15))
            q.half(0, -0.6, 4.2, 5.8, tone, up=True)
            q.disc(0, -0.6, 4.2, 1.6, tone)
            q.disc(-1.2, -3.2, 1.4, 1.8, light(tone, 0.5))
    for i in range(4):
        q = p.at(-rx * 0.52 + i * 1.0, ry * 0.66 - i * 1.6)
        q.disc(0, 1, 10, 6.6, dark(CREAM, 0.35))
        q.disc(0, 0, 10, 6.4, rgb("fbf1da"))
    q = p.at(rx * 0.06, ry * 0.72)
    q.disc(0, 1, 7, 5, dark(s.china, 0.3))
    q.disc(0, 0, 7, 5, s.china)
    q.disc(0, 0.3, 5.6, 3.8, rgb("4a1f14"))
    q.disc(-1.4, -0.7, 1.8, 0.8, rgb("8a4a34"))
    for i in range(7):
        cut.stick(
            p.at(rx * 0.56 + s.jitter(3), ry * 0.62 + i * 1.5 - 4, 4.4, s.jitter(12)),
            rgb("7dbb58") if i % 2 else rgb("dfe9c4"),
        )
    _shine(s, p.at(0, -4), rx * 0.6, ry * 0.3, 8, 0.6)


def _shellfish(s: _Scene) -> None:
    """Whole prawns, crabs or half shells, arranged."""
    v = s.serving
    p, rx, ry = _surface(s)
    main = _main_piece(s)
    tone = blend(main.colour, v.colour, 0.3)
    if v.vessel in _DEEP:
        _oil(s, p, rx * 0.95, ry * 0.95, light(v.colour, 0.2), 20)
    elif main.draw not in (cut.crab, cut.oyster):
        _pool(s, p, rx * 0.9, ry * 0.9, v.colour)
    rest = [c for c in v.cuts[1:]]
    if main.draw is cut.crab:
        places = [(-0.36, -0.22, 13.5), (0.4, 0.2, 13.5)]
        for x, y, size in places:
            q = p.at(x * rx, y * ry, size, s.jitter(12))
            s.soft(q, 0.1, 0.5, 1.2, 0.8, dark(tone, 0.7), 0.6)
            cut.crab(q, tone)
        _heap(s, p.at(0, 4), rest, rx * 0.8, ry * 0.7, 10, 0, 0.8)
    elif main.draw is cut.oyster:
        for x, y, angle in [(0.0, 0.0, 0.0), *_ring(6, rx * 0.64, ry * 0.64, 10)]:
            cut.oyster(p.at(x, y, 8.6, angle * 0.1 + s.jitter(14)), main.colour)
        _heap(s, p, rest, rx * 0.8, ry * 0.8, 10, 0, 0.6)
    elif main.draw is cut.shrimp and v.vessel not in _DEEP:
        for radius, count, size in ((0.74, 11, 7.4), (0.34, 5, 7.0)):
            for x, y, angle in _ring(count, rx * radius, ry * radius, 8):
                cut.shrimp(p.at(x, y, size, angle + 100), tone)
        _heap(s, p, rest, rx * 0.6, ry * 0.5, 8, 2, 0.8)
    else:
        count = 24 if main.size > 4.6 else 34
        _heap(s, p, [main], rx * 0.82, ry * 0.8, count, 8, 1.15)
        _heap(s, p.at(0, -3), rest, rx * 0.66, ry * 0.6, 20, 6, 0.9)
    _strew(s, p.at(0, -2), rx * 0.6, ry * 0.56, 4)
    _shine(s, p, rx * 0.7, ry * 0.65, 8, 0.5)


def _greens(s: _Scene) -> None:
    """Whole greens laid side by side."""
    v = s.serving
    p, rx, ry = _surface(s)
    _pool(s, p, rx * 0.92, ry * 0.92, v.colour if v.vessel in _DEEP else blend(v.colour, rgb("b8a04a"), 0.4))
    main = _main_piece(s)
    for i, (x, y) in enumerate(_spots(s, 30, rx * 0.6, ry * 0.7)):
        q = p.at(x, y - 3, 1, s.jitter(14) + (180 if i % 5 == 0 else 0))
        if main.draw is cut.bok_choy:
            cut.bok_choy(q.at(0, 0, 6.4, 80 + s.jitter(12)), s.tinted(main))
        else:
            cut.stalk_leaf(q.at(0, 0, 7.4), s.tinted(main))
    _heap(s, p.at(0, -3), v.cuts[1:], rx * 0.56, ry * 0.5, 16, 3, 0.9)
    _strew(s, p.at(0, -3), rx * 0.6, ry * 0.5, 3)
    _shine(s, p, rx * 0.7, ry * 0.6, 8, 0.5)


def _fried_pieces(s: _Scene) -> None:
    """Crisp pieces in a heap, dry or glazed."""
    v = s.serving
    p, rx, ry = _surface(s)
    main = _main_piece(s)
    s.soft(p, 0, 4, rx * 1.05, ry * 1.0, dark(v.colour, 0.6), 0.55)
    crust = Cut(main.name, cut.fried, blend(main.colour, v.colour, 0.75), 5.6, 0.0)
    _heap(s, p, [crust], rx * 0.9, ry * 0.86, 44, 9, 1.05)
    _heap(s, p.at(0, -3), v.cuts[1:], rx * 0.7, ry * 0.62, 9, 7, 0.85)
    _strew(s, p.at(0, -3), rx * 0.64, ry * 0.58, 7)
    _shine(s, p, rx * 0.66, ry * 0.56, 9, 0.45)


def _on_the_bone(s: _Scene) -> None:
    """Large joints with their bones, stacked."""
    v = s.serving
    p, rx, ry = _surface(s)
    if v.vessel in _DEEP:
        _oil(s, p, rx * 0.95, ry * 0.95, light(v.colour, 0.2), 20)
    else:
        s.soft(p, 0, 4, rx * 1.05, ry * 1.0, dark(v.colour, 0.6), 0.55)
    tone = blend((v.cuts[0].colour if v.cuts else rgb("9a5a3a")), v.colour, 0.45)
    for x, y in _spots(s, 15, rx * 0.74, ry * 0.7):
        lift = 7 * max(0.0, 1 - (x / rx) ** 2 - (y / ry) ** 2)
        cut.rib(p.at(x, y - lift, 9.4, s.dice.choice((-1, 1)) * s.dice.uniform(5, 60)), tone)
    _heap(s, p.at(0, -2), v.cuts[1:], rx * 0.74, ry * 0.7, 16, 5, 0.9)
    _strew(s, p.at(0, -2), rx * 0.62, ry * 0.56, 5)
    _shine(s, p, rx * 0.66, ry * 0.56, 9, 0.5)


_SHREDDED = {
    cut.chunk, cut.slice_, cut.bone_chunk, cut.coin, cut.dice, cut.strands, cut.grain, cut.cucumber, cut.square,
    cut.leaf, cut.strip,
}  # fmt: skip


def _shredded(s: _Scene) -> None:
    """A heap of fine shreds, strips or jelly, dressed."""
    v = s.serving
    p, rx, ry = _surface(s, blend(v.colour, _BROTH_RED, 0.35) if v.red_oil else v.colour)
    if v.vessel not in _DEEP:
        _pool(s, p, rx * 0.95, ry * 0.95, _BROTH_RED if v.red_oil else v.colour)
    fine = [
        replace(c, draw=cut.shred if c.draw in _SHREDDED else c.draw, size=min(c.size, 3.4), small=False)
        for c in v.cuts
    ]
    _heap(s, p, fine, rx * 0.8, ry * 0.78, 120, 10)
    if v.red_oil:
        for x, y in _spots(s, 10, rx * 0.6, ry * 0.5):
            s.soft(p, x, y - 5, s.dice.uniform(2, 5), s.dice.uniform(1.2, 2.4), _BROTH_RED, 0.7)
    _strew(s, p.at(0, -3), rx * 0.6, ry * 0.54, 7)
    _shine(s, p, rx * 0.66, ry * 0.56, 8, 0.45)


def _hot_pot(s: _Scene) -> None:
    """A pot with a divided broth on the table, raw food in small plates around it."""
    v = s.serving
    corners = [(13, 15), (87, 14), (12, 88), (88, 88)]
    cuts = [c for c in v.cuts if not c.small] or [cut_of("牛肉")]
    for i, (x, y) in enumerate(corners):
        _under(s, x, y, 16, 13)
        s.pen.disc(x, y + 1, 16, 13, dark(s.china, 0.3))
        s.pen.disc(x, y, 16, 13, s.china)
        s.pen.disc(x, y + 0.6, 12.4, 9.8, dark(s.china, 0.08))
        piece = cuts[i % len(cuts)]
        assert piece is not None
        if piece.draw is cut.slice_:  # raw meat is red
            piece = Cut(piece.name, cut.belly_slice, rgb("d4504a"), 4.4, 0.0)
        _heap(s, s.pen.at(x, y), [piece], 8.6, 6.6, 11, 3, 0.9)
    x, y, rx = 50.0, 50.0, 36.0
    ry = rx * 0.8
    white = rgb("f1e6cf")
    for side in (-1, 1):
        _hoop(s.pen, x + side * 38, y, 5, 6, 2.4, dark(_INK, 0.1))
    red = v.red_oil or v.colour[0] - v.colour[1] > 90
    divided = v.red_oil and v.mark != "grid"
    p = _round_vessel(
        s, x, y - 2, rx, 13, _INK, rgb("72727a"), (_BROTH_RED if v.red_oil else v.colour) if red else white
    )
    if divided:  # one half is mild
        left = []
        for i in range(33):
            t = math.pi / 2 + math.pi * i / 32
            left.append((rx * 0.9 * math.cos(t), ry * 0.88 * math.sin(t) + 0.4))
        wave = [(4.6 * math.sin(j / 12 * math.tau), -ry * 0.88 + j / 12 * ry * 1.76) for j in range(13)]
        p.poly([*left, *wave], white)
        s.soft(p, -15, -4, 14, 14, WHITE, 0.6)
        p.line(wave, 2.4, dark(STEEL, 0.3))
        p.line([(u - 0.4, w - 0.4) for u, w in wave], 1.4, light(STEEL, 0.5))
        halves = [(-14.5, rgb("f7efd9"), [cut_of("红枣"), cut_of("枸杞"), cut_of("葱")]),
                  (15.0, rgb("e8632c"), [cut_of("干辣椒"), cut_of("花椒"), cut_of("姜")])]  # fmt: skip
    elif red:
        hot = (
            [cut_of("干辣椒"), cut_of("花椒"), cut_of("姜")]
            if v.red_oil
            else [cut_of("番茄"), cut_of("葱"), cut_of("姜")]
        )
        halves = [(0.0, blend(v.colour, rgb("f08a3c"), 0.55), hot)]
    else:
        halves = [(0.0, rgb("fbf4e2"), [cut_of("枸杞"), cut_of("葱"), cut_of("姜")])]
    whole = cuts[0] is not None and cuts[0].draw is cut.fillet
    for centre, oil, pieces in halves:
        q = p.at(centre, 0)
        w = 11.5 if divided else 26.0
        _oil(s, q, w, ry * 0.74, oil, 26 if divided else 50)
        _heap(s, q, [c for c in pieces if c], w * 0.9, ry * 0.66, 12 if divided else 26, 0, 1.0)
        inside = [c for c in cuts if c]
        if whole:
            _fish_body(q.at(0, 0, 1, -8), 24, blend(rgb("b0a294"), v.colour, 0.3), rgb("e9d9c6"))
        else:
            _heap(s, q, inside[:3], w * 0.8, ry * 0.56, 7 if divided else 12, 0, 0.8)
        for bx, by in _spots(s, 8, w * 0.8, ry * 0.6):  # it boils
            r = s.dice.uniform(1.2, 2.2)
            q.disc(bx, by, r, r * 0.8, light(oil, 0.3))
            q.disc(bx, by + 0.2, r * 0.7, r * 0.5, oil)
            q.disc(bx - r * 0.3, by - r * 0.3, r * 0.28, r * 0.2, WHITE)
    if v.mark == "grid":
        for at in (-10.5, 10.5):
            for dy, k in ((0.7, dark(STEEL, 0.45)), (0.0, light(STEEL, 0.3))):
                reach = ry * 0.84
                p.line([(at, -reach + dy), (at, reach + dy)], 1.7, k)
                p.line([(-rx * 0.86, at * 0.8 + dy), (rx * 0.86, at * 0.8 + dy)], 1.7, k)


def _copper_pot(s: _Scene) -> None:
    """A copper pot with a chimney, clear broth around it, lamb in plates."""
    v = s.serving
    cuts = [c for c in v.cuts if not c.small] or [cut_of("羊肉")]
    for i, (x, y) in enumerate(((14, 18), (86, 18), (13, 88), (87, 88))):
        _under(s, x, y, 16, 13)
        s.pen.disc(x, y + 1, 16, 13, dark(s.china, 0.3))
        s.pen.disc(x, y, 16, 13, s.china)
        s.pen.disc(x, y + 0.6, 12.4, 9.8, dark(s.china, 0.08))
        piece = cuts[0] if i % 2 == 0 else cuts[(i // 2 + 1) % len(cuts)]
        assert piece is not None
        if piece.draw in (cut.slice_, cut.rib):
            piece = Cut(piece.name, cut.belly_slice, rgb("cf4a44"), 4.6, 0.0)
        _heap(s, s.pen.at(x, y), [piece], 8.6, 6.6, 11, 3, 0.9)
    copper = rgb("c98446")
    for side in (-1, 1):
        s.pen.at(50 + side * 37, 54).arc(0, 0, 4.5, 5.5, 0, 360, 2.0, dark(copper, 0.3))
    s.pen.poly([(40, 84), (60, 84), (66, 95), (34, 95)], dark(copper, 0.3))
    p = _round_vessel(s, 50, 54, 35, 18, copper, light(copper, 0.4), rgb("f3e9d2"))
    _oil(s, p, 28, 20, rgb("fbf6e6"), 24)
    for t in range(12):
        c = cuts[t % len(cuts)]
        assert c is not None
        a = t * math.tau / 12 + 0.2
        _drop(s, p, c, 22 * math.cos(a), 17 * math.sin(a), 0.8)
    p.disc(0, 1, 12, 9, dark(copper, 0.45))
    p.disc(0, 0, 11.4, 8.4, copper)
    p.poly([(-11, -1), (11, -1), (6, -34), (-6, -34)], copper)
    p.poly([(3, -1), (11, -1), (6, -34), (2, -34)], dark(copper, 0.25))
    p.line([(-5.6, -4), (-3.4, -30)], 1.6, light(copper, 0.55))
    p.disc(0, -34, 6, 3.4, light(copper, 0.3))
    p.disc(0, -34, 4.6, 2.4, rgb("3a2018"))
    p.disc(0, -33.4, 3, 1.3, rgb("e0622a"))
    _strew(s, p.at(0, 10), 24, 8, 0, 0.6)


def _roast_meat(s: _Scene) -> None:
    """Sliced roast meat in rows: glazed char siu, crackling."""
    v = s.serving
    p, rx, ry = _surface(s)
    tone = v.colour
    rest = v.cuts[1:]
    for x, y, _ in _ring(12, rx * 0.86, ry * 0.88):
        if rest:
            _drop(s, p, s.dice.choice(rest), x, y, 0.9)
    for row in range(3):
        y = -ry * 0.46 + row * ry * 0.46
        n = 8
        for i in range(n):
            x = (-0.7 + 1.4 * i / (n - 1)) * rx
            q = p.at(x, y - 3 * (1 - (x / rx) ** 2), 1.2, 12)
            q.box(-3.8, -5.4, 4.4, 6.6, dark(tone, 0.55), 2.4)
            q.box(-4, -6, 4, 5.8, dark(tone, 0.12), 2.4)
            q.box(-2.9, -4.8, 3.1, 4.7, blend(rgb("e8b08c"), tone, 0.25), 1.8)
            q.line([(-1, -3), (0.8, 0), (-0.6, 3)], 0.7, blend(rgb("f6dcc0"), tone, 0.1))
            q.line([(-3.4, -3.6), (-3.4, 3)], 0.8, light(tone, 0.5))
    _strew(s, p, rx * 0.6, ry * 0.5, 3, 0.8)
    _shine(s, p, rx * 0.6, ry * 0.5, 9, 0.5)


def _plate_of_noodles_and_chunks(s: _Scene) -> None:
    """Chunks of fowl and potatoes on belt noodles on a very large plate."""
    v = s.serving
    p, rx, ry = _surface(s)
    _pool(s, p, rx * 1.1, ry * 1.12, v.colour)
    belt = rgb("f0dca6")
    for x, y, angle in _ring(13, rx * 0.86, ry * 0.86, 9):
        q = p.at(x, y, 1, angle + 90)
        for dy in (2.2, -1.0):
            q.line([(-9, dy), (-3, dy - 1.6), (3, dy + 0.8), (9, dy - 0.8)], 3.6, dark(belt, 0.4))
            q.line([(-9, dy - 0.5), (-3, dy - 2.1), (3, dy + 0.3), (9, dy - 1.3)], 2.8, blend(belt, v.colour, 0.15))
    _heap(s, p, [c for c in v.cuts if c.name != "noodles"], rx * 0.78, ry * 0.76, 58, 8, 1.05)
    _strew(s, p.at(0, -3), rx * 0.64, ry * 0.6, 6)
    _shine(s, p, rx * 0.7, ry * 0.6, 10, 0.5)


def _dessert_bits(s: _Scene) -> None:
    """Pieces on shaved ice or in syrup: caramelised chunks with threads of sugar."""
    v = s.serving
    p, rx, ry = _surface(s)
    main = _main_piece(s)
    glazed = Cut(main.name, cut.chunk, blend(main.colour, v.colour, 0.5), 5.4, 0.0)
    _heap(s, p, [glazed], rx * 0.86, ry * 0.82, 38, 9)
    for _ in range(16):
        x, y = s.jitter(rx * 0.6), s.jitter(ry * 0.5) - 4
        p.line([(x, y), (x + s.jitter(10), y - s.dice.uniform(3, 10))], 0.4, rgb("f4c866"))
    _strew(s, p, rx * 0.6, ry * 0.5, 7)
    _shine(s, p.at(0, -4), rx * 0.6, ry * 0.5, 18, 0.7)


def _fish_head(s: _Scene) -> None:
    """A large fish head on its side under chopped chili."""
    v = s.serving
    p, rx, ry = _surface(s)
    _pool(s, p, rx * 1.06, ry * 1.06, blend(v.colour, rgb("a8562c"), 0.35))
    tone = rgb("a39c92")
    q = p.at(2, 0, rx * 0.98, -8)
    s.soft(q, 0.04, 0.16, 1.05, 0.8, dark(v.colour, 0.7), 0.7)
    outer = [(-0.98, 0.06), (-0.86, -0.2), (-0.6, -0.44), (-0.2, -0.6), (0.3, -0.62), (0.72, -0.5), (0.86, 0.0),
             (0.74, 0.5), (0.3, 0.66), (-0.3, 0.58), (-0.74, 0.34)]  # fmt: skip
    q.poly([(x, y + 0.06) for x, y in outer], dark(tone, 0.5))
    q.poly(outer, tone)
    q.poly([(0.62, -0.52), (0.72, -0.5), (0.86, 0.0), (0.74, 0.5), (0.6, 0.56), (0.74, 0.0)], rgb("f6e9dc"))  # the cut
    q.poly([(-0.8, -0.18), (-0.2, -0.54), (0.3, -0.56), (0.56, -0.44), (0.0, -0.36), (-0.5, -0.14)], light(tone, 0.34))
    q.poly([(-0.74, 0.34), (-0.3, 0.2), (0.3, 0.3), (0.6, 0.5), (0.3, 0.66), (-0.3, 0.58)], light(tone, 0.5))
    for k in (0.0, 0.09):
        q.arc(0.0 + k, 0.04, 0.34, 0.46, -80, 80, 0.035, dark(tone, 0.5))
    q.line([(-0.98, 0.08), (-0.8, 0.14), (-0.66, 0.1)], 0.04, dark(tone, 0.65))
    q.disc(-0.58, -0.12, 0.12, 0.12, light(tone, 0.2))
    q.disc(-0.58, -0.12, 0.1, 0.1, WHITE)
    q.disc(-0.58, -0.12, 0.055, 0.055, rgb("2a2628"))
    chili = cut_of("剁椒")
    assert chili is not None
    for x, y in _spots(s, 150, rx * 0.84, ry * 0.76):
        if math.hypot(x + rx * 0.58 - 2, (y + ry * 0.06) * 1.2) < rx * 0.2:
            continue  # the eye looks out
        size, red = s.dice.uniform(1.4, 2.4), s.dice.choice((v.colour, rgb("d8301f"), rgb("e2552a"), rgb("c8281a")))
        chili.draw(p.at(x, y - 3, size, s.dice.uniform(0, 360)), red)
    s.serving = replace(v, strewn=tuple(c for c in (*v.strewn, cut_of("葱")) if c is not None and c.name != "chili"))
    _strew(s, p.at(6, 0), rx * 0.6, ry * 0.56, 2, 0.7)
    _shine(s, p, rx * 0.7, ry * 0.6, 9, 0.5)


def _oyster_omelette(s: _Scene) -> None:
    """An uneven golden sheet of egg and starch with oysters in it."""
    v = s.serving
    p, rx, ry = _surface(s)
    tone = v.colour
    outline = []
    for i in range(44):
        t = i * math.tau / 44
        k = 1.0 + 0.05 * math.sin(i * 1.7) + s.jitter(0.03)
        outline.append((rx * k * math.cos(t), ry * k * math.sin(t)))
    p.poly([(x, y + 1.8) for x, y in outline], dark(tone, 0.5))
    p.poly(outline, blend(tone, rgb("b9702e"), 0.25))
    p.poly([(x * 0.95, y * 0.95 - 0.4) for x, y in outline], tone)
    for i, (x, y) in enumerate(_spots(s, 40, rx * 0.84, ry * 0.82)):
        shade = (light(tone, 0.5), rgb("fff3cf"), rgb("b9702e"))[i % 3]
        s.soft(p, x, y, s.dice.uniform(2, 5), s.dice.uniform(1.4, 3.2), shade, 0.6)
    _heap(s, p, [_main_piece(s)], rx * 0.72, ry * 0.7, 16, 2)
    _heap(s, p, [c for c in v.cuts[1:] if c.name not in ("egg", "rice")], rx * 0.76, ry * 0.72, 16, 1, 0.8)
    _strew(s, p, rx * 0.6, ry * 0.6)
    _shine(s, p, rx * 0.7, ry * 0.6, 8, 0.5)


def _wheel(s: _Scene) -> None:
    """Shreds of many colours in sectors round a heap of clear sheets."""
    v = s.serving
    p, rx, ry = _surface(s)
    tones = [rgb(code) for code in ("6fae4a", "ef8a2e", "f6cf55", "a84a5c", "3f352f", "f0e6cf", "9c5a3c", "8cc05a")]
    for sector in range(8):
        for _ in range(15):
            t = math.radians(sector * 45 + s.dice.uniform(3, 42))
            r = s.dice.uniform(0.62, 1.02)
            q = p.at(rx * 1.04 * r * math.cos(t), ry * 1.04 * r * math.sin(t), 4.0, math.degrees(t) + s.jitter(14))
            cut.shred(q, blend(tones[sector], light(tones[sector]), s.dice.random() * 0.4))
    sheet = blend(v.colour, rgb("f2f0ea"), 0.4)
    for i, (x, y) in enumerate(_spots(s, 26, rx * 0.46, ry * 0.44)):
        q = p.at(x, y - 5 * max(0.0, 1 - (x / rx / 0.5) ** 2 - (y / ry / 0.5) ** 2), 1, s.dice.uniform(0, 180))
        k = (sheet, light(sheet, 0.5), dark(sheet, 0.1))[i % 3]
        q.line([(-8, 1.4), (-2, -0.8), (3, 1.2), (8, -0.6)], 4.4, dark(k, 0.28))
        q.line([(-8, 0.8), (-2, -1.4), (3, 0.6), (8, -1.2)], 3.8, k)
        q.line([(-6, 0), (-2, -1.8), (2, -0.6)], 0.7, WHITE)
    s.soft(p, 0, -5, rx * 0.3, ry * 0.2, rgb("b98a52"), 0.75)  # sesame paste
    _strew(s, p.at(0, -4), rx * 0.32, ry * 0.3, 2, 0.6)


def _saucer(s: _Scene, x: float, y: float, r: float, piece: Cut | None, tone: Colour | None = None) -> None:
    """A small plate with one thing on it."""
    _under(s, x, y, r, r * 0.8)
    s.pen.disc(x, y + 1, r, r * 0.8, dark(s.china, 0.35))
    s.pen.disc(x, y, r, r * 0.8, s.china)
    _hoop(s.pen, x, y, r * 0.9, r * 0.72, 0.5, s.rim)
    s.pen.disc(x, y + 0.5, r * 0.76, r * 0.6, dark(s.china, 0.08))
    if piece is not None:
        if tone is not None:
            piece = replace(piece, colour=tone, takes=0.0)
        count = 16 if piece.draw in (cut.shred, cut.sprout, cut.leaf) else 9
        _heap(s, s.pen.at(x, y), [piece], r * 0.56, r * 0.42, count, r * 0.24, min(1.0, 3.2 / piece.size * r / 12))


def _saucers(s: _Scene) -> None:
    """Thin wrappers in the middle, many saucers of shreds around them."""
    v = s.serving
    shreds = cut_of("肉丝")
    assert shreds is not None
    greens = [(None, "4a9440"), (None, "7dbb58"), (shreds, "a9d080"), (cut_of("豆芽"), None),
              (shreds, "4f7f50"), (shreds, "e9876a"), (shreds, "6fae4a"), (cut_of("生菜"), None), (shreds, "ef8a2e"),
              (shreds, "8fc25c")]  # fmt: skip
    mine = [c for c in v.cuts if c.name not in FLOUR]
    for i, (x, y, _) in enumerate(_ring(10, 38, 36, 12)):
        piece, code = greens[i]
        if i % 3 == 0 and mine:
            piece, code = mine[(i // 3) % len(mine)], None
        _saucer(s, 50 + x, 50 + y, 12.4, piece or shreds, rgb(code) if code else None)
    x, y = 50, 49
    _under(s, x, y, 21, 17)
    s.pen.disc(x, y + 1.2, 21, 17, dark(s.china, 0.35))
    s.pen.disc(x, y, 21, 17, s.china)
    for i in range(6):
        s.pen.disc(x + s.jitter(1), y + 1.6 - i * 0.7, 16, 12.4, dark(rgb("fbf4e4"), 0.24))
        s.pen.disc(x + s.jitter(0.6), y + 1 - i * 0.7, 16, 12.2, rgb("fbf4e4"))
    s.soft(s.pen, x, y - 3, 9, 5, rgb("e9d2a0"), 0.5)
    q = s.pen.at(x + 1, y - 4, 1, -24)  # one that is rolled up
    q.poly([(-9, -4.4), (9, -5.4), (9, 4.4), (-7, 3.4)], dark(rgb("fbf4e4"), 0.22))
    q.poly([(-9, -4.6), (9, -5.6), (9, 3.4), (-7, 2.6)], rgb("fdf8ec"))
    for i in range(9):
        cut.shred(q.at(10 + s.jitter(1), -4.4 + i * 1.0, 2.6, s.jitter(20)), rgb(("6fae4a", "a9d080", "ef8a2e")[i % 3]))


def _bridge_noodles(s: _Scene) -> None:
    """A very large bowl of hot broth, raw toppings and noodles in dishes round it."""
    v = s.serving
    rest = [c for c in v.cuts if c.name not in FLOUR] or [cut_of("鱼片")]
    ring = [rest[0], cut_of("青菜"), rest[-1], cut_of("豆芽"), cut_of("火腿"), cut_of("韭菜")]
    for (x, y), piece in zip(((11, 26), (25, 8), (50, 3), (75, 8), (90, 26), (93, 50)), ring, strict=True):
        raw = rgb("f6c4b4") if piece is not None and piece.draw is cut.slice_ else None
        _saucer(s, x, y, 12.4, piece, raw)
    _under(s, 16, 84, 22, 15)
    s.pen.disc(16, 85, 22, 15.6, dark(s.china, 0.35))
    s.pen.disc(16, 83.6, 22, 15, s.china)
    _noodle_nest(s, s.pen.at(16, 83), 18, 11.4, rgb("fbf5e6"), 34, 1.3)
    p = _round_vessel(s, 55, 52, 32, 17, s.china, light(s.china, 0.3), v.colour)
    _oil(s, p, 26, 19, light(v.colour, 0.35), 34)
    for x, y in _spots(s, 3, 16, 10):
        rest[0] and rest[0].draw(p.at(x, y, 4.4, s.jitter(90)), WHITE)  # type: ignore[union-attr]
    scallion = cut_of("葱")
    assert scallion is not None
    for x, y in _spots(s, 16, 22, 15):
        _drop(s, p, scallion, x, y)


def _bread_soup(s: _Scene) -> None:
    """Torn bread, meat and vermicelli in a milky soup."""
    v = s.serving
    p, rx, ry = _surface(s)
    bread = cut_of("馍")
    assert bread is not None
    for x, y in _spots(s, 50, rx * 0.84, ry * 0.82):
        _drop(s, p, replace(bread, takes=0.35), x, y, 0.8)
    for x, y in _spots(s, 16, rx * 0.84, ry * 0.8):
        s.soft(p, x, y, s.dice.uniform(3, 6), s.dice.uniform(2, 3.4), v.colour, 0.8)
    others = [c for c in v.cuts if c.name != "bread"]
    _heap(s, p, others[1:], rx * 0.66, ry * 0.62, 14, 2, 0.9)
    for i in range(5):
        angle = -22 + i * 11
        q = p.at((i - 2) * rx * 0.17, -2, 6.6, angle)
        (cut.cold_slice if others and others[0].draw is cut.slice_ else cut.belly_slice)(
            q, others[0].colour if others else BROWN
        )
    s.serving = replace(v, strewn=(*v.strewn, *(c for c in (cut_of("香菜"), cut_of("葱")) if c)))
    _strew(s, p, rx * 0.56, ry * 0.5, 2, 0.6)


def _fruit_soup(s: _Scene) -> None:
    """A thick sweet purée with fruit, pulp and pearls on top."""
    v = s.serving
    p, rx, ry = _surface(s)
    q = p.at(0, 0, 1, 20)
    q.arc(0, 0, rx * 0.7, ry * 0.66, 190, 320, 1.8, rgb("fff3dc"))  # coconut milk
    q.arc(1, 2, rx * 0.5, ry * 0.44, 20, 150, 1.6, rgb("fff3dc"))
    _heap(s, p, [c for c in v.cuts if c.name != "rice"], rx * 0.5, ry * 0.46, 22, 5)
    _strew(s, p, rx * 0.66, ry * 0.62, 3, 1.5)
    cut.sprig(p.at(2, -6, 4.4), rgb("4a9a3c"))
    _shine(s, p, rx * 0.6, ry * 0.5, 6, 0.5)


def _thick_soup(s: _Scene) -> None:
    """A soup thickened with starch: opaque, with shreds and cubes stirred in."""
    v = s.serving
    p, rx, ry = _surface(s)
    _heap(s, p, v.cuts, rx * 0.78, ry * 0.76, 46, 1, 0.8)
    for x, y in _spots(s, 30, rx * 0.86, ry * 0.84):
        s.soft(p, x, y, s.dice.uniform(3, 6), s.dice.uniform(1.8, 3.2), v.colour, 0.75)
    for x, y in _spots(s, 40, rx * 0.8, ry * 0.78):
        p.disc(x, y, 0.4, 0.34, rgb("2f2420"))  # pepper
    _oil(s, p, rx * 0.5, ry * 0.46, rgb("d9702c"), 10)
    s.serving = replace(v, strewn=(*v.strewn, *(c for c in (cut_of("香菜"),) if c)))
    _strew(s, p, rx * 0.5, ry * 0.46, 0, 0.7)


def _stuffed_tofu(s: _Scene) -> None:
    """Browned cubes of tofu, each with a filling pressed into its top."""
    v = s.serving
    p, rx, ry = _surface(s, blend(v.colour, rgb("8a5226"), 0.5))
    for x, y in (
        (-0.5, -0.4),
        (0.0, -0.48),
        (0.5, -0.4),
        (-0.66, 0.02),
        (-0.2, -0.02),
        (0.26, 0.0),
        (0.7, 0.04),
        (-0.44, 0.44),
        (0.04, 0.46),
        (0.5, 0.42),
    ):
        q = p.at(x * rx * 1.04, y * ry * 1.04 - 2, 7.2, s.jitter(8))
        cut.tofu(q, blend(rgb("fbf0d4"), v.colour, 0.55))
        q.poly([(-0.85, -0.35), (0, -0.72), (0.85, -0.35), (0, -0.02)], blend(v.colour, rgb("b9762c"), 0.3))
        for u, w in ((-0.2, -0.36), (0.2, -0.36), (0.0, -0.48), (0.0, -0.26)):
            cut.crumb(q.at(u, w, 0.2, s.jitter(40)), rgb("b9846a"))
    _heap(s, p, [c for c in v.cuts if c.name not in ("tofu", "mince")], rx * 0.7, ry * 0.66, 6, 2, 0.9)
    s.serving = replace(v, strewn=(*v.strewn, *(c for c in (cut_of("葱"),) if c)))
    _strew(s, p, rx * 0.66, ry * 0.6, 2)
    _shine(s, p, rx * 0.7, ry * 0.6, 10, 0.55)


def _tofu_squares(s: _Scene) -> None:
    """Pieces of fermented tofu side by side: black and deep-fried, or golden with a white down."""
    v = s.serving
    p, rx, ry = _surface(s, blend(v.colour, rgb("7a3a1e"), 0.6))
    tone = v.colour
    if v.vessel not in _DEEP:
        _pool(s, p, rx * 0.9, ry * 0.9, blend(tone, rgb("9a4a22"), 0.5))
    places = [
        (-0.42, -0.42),
        (0.12, -0.5),
        (0.58, -0.24),
        (-0.58, 0.06),
        (-0.04, 0.02),
        (0.5, 0.3),
        (-0.3, 0.52),
        (0.18, 0.56),
    ]
    size = rx * 0.27
    for x, y in places:
        q = p.at(x * rx, y * ry - 2, size, s.jitter(12))
        q.box(-0.95, -0.5, 0.95, 0.95, dark(tone, 0.5), 0.16)
        q.box(-0.95, -0.72, 0.95, 0.55, tone, 0.16)
        q.box(-0.75, -0.6, 0.3, -0.25, light(tone, 0.28), 0.14)
        if v.mark == "mould":
            for _ in range(12):
                u, w = s.jitter(0.8), s.dice.uniform(-0.65, 0.4)
                q.line([(u, w), (u + s.jitter(0.16), w - 0.16)], 0.05, rgb("fdf8ec"))
        else:
            q.disc(0, -0.1, 0.26, 0.18, dark(tone, 0.5))
            q.disc(0.02, -0.08, 0.2, 0.13, rgb("c8331c"))
    s.serving = replace(v, strewn=(*v.strewn, *(c for c in (cut_of("辣椒"), cut_of("葱")) if c)))
    _strew(s, p.at(0, -2), rx * 0.66, ry * 0.6, 2, 0.7)
    _shine(s, p, rx * 0.6, ry * 0.55, 7, 0.4)


def _standing_rings(s: _Scene) -> None:
    """Rings of braised intestine, standing on end one by one."""
    v = s.serving
    p, rx, ry = _surface(s)
    _pool(s, p, rx * 0.9, ry * 0.9, v.colour)
    tone = blend(rgb("b5622f"), v.colour, 0.55)
    spots = [(0.0, -0.02), *((x, y) for x, y, _ in _ring(7, 0.58, 0.58, 20))]
    for x, y in sorted(spots, key=lambda spot: spot[1]):
        q = p.at(x * rx, y * ry - 2, 6.0, s.jitter(6))
        q.box(-0.85, -0.4, 0.85, 1.05, dark(tone, 0.45), 0.5)
        q.box(-0.85, -0.5, 0.8, 0.85, tone, 0.5)
        q.line([(-0.55, -0.1), (-0.55, 0.55)], 0.16, light(tone, 0.45))
        for r, k in (
            (0.85, light(tone, 0.22)),
            (0.62, dark(tone, 0.3)),
            (0.46, light(tone, 0.1)),
            (0.26, dark(tone, 0.55)),
        ):
            q.disc(0, -0.45, r, r * 0.62, k)
    herbs = cut_of("香菜")
    assert herbs is not None
    for x, y in _spots(s, 18, rx * 0.5, ry * 0.46):
        herbs.draw(p.at(x, y - 6, 1.3, s.dice.uniform(0, 360)), herbs.colour)
    _strew(s, p, rx * 0.6, ry * 0.55, 2, 0.6)
    _shine(s, p, rx * 0.65, ry * 0.6, 9, 0.6)


def _powdered_rolls(s: _Scene) -> None:
    """Pieces of a rice roll with a spiral of bean paste, dusted with bean flour."""
    v = s.serving
    p, rx, ry = _surface(s)
    tone, paste = v.colour, rgb("6e2f28")
    dust = blend(rgb("e0b566"), tone, 0.5)
    for x, y in _spots(s, 60, rx * 0.92, ry * 0.9):
        p.disc(x, y, s.dice.uniform(0.4, 1.3), s.dice.uniform(0.3, 0.8), dust)
    for x, y in (
        (-0.44, -0.42),
        (0.1, -0.5),
        (0.6, -0.28),
        (-0.62, 0.08),
        (-0.06, 0.04),
        (0.46, 0.24),
        (-0.3, 0.54),
        (0.2, 0.6),
    ):
        q = p.at(x * rx, y * ry, rx * 0.25, s.jitter(10))
        q.box(-1.0, -0.6, 1.0, 0.95, dark(dust, 0.45), 0.5)
        q.box(-1.0, -0.7, 1.0, 0.7, dust, 0.5)
        q.disc(0, 0.0, 0.86, 0.62, rgb("fbf3dc"))
        for r in (0.68, 0.4, 0.14):
            q.arc(0, 0.0, r, r * 0.7, 20, 330, 0.15, paste)
        for _ in range(14):
            q.disc(s.jitter(0.95), -0.62 + s.jitter(0.1), 0.08, 0.06, light(dust, 0.4))


def _jelly_domes(s: _Scene) -> None:
    """Little domes of clear grey jelly."""
    v = s.serving
    p, rx, ry = _surface(s)
    tone = v.colour
    for x, y in ((-0.46, -0.36), (0.44, -0.34), (0.0, 0.04), (-0.5, 0.46), (0.5, 0.46)):
        q = p.at(x * rx, y * ry, rx * 0.36)
        s.soft(q, 0.1, 0.4, 1.3, 0.8, dark(tone, 0.6), 0.6)
        q.disc(0, 0.22, 1.0, 0.68, dark(tone, 0.3))
        q.disc(0, 0.06, 0.98, 0.74, blend(tone, rgb("b9c0bd"), 0.4))
        for i in range(5):  # what is set in it
            q.line([(-0.5 + i * 0.22, 0.2), (-0.35 + i * 0.22, -0.05), (-0.5 + i * 0.24, -0.2)], 0.1, rgb("8a8378"))
        s.soft(q, -0.1, -0.1, 0.8, 0.6, light(tone, 0.6), 0.6)
        q.arc(-0.1, 0.0, 0.72, 0.52, 190, 280, 0.1, WHITE)
    _strew(s, p, rx * 0.66, ry * 0.62, 2, 0.9)


def _one_cube(s: _Scene) -> None:
    """One large cube of glazed pork belly in a jar of its own sauce."""
    v = s.serving
    p, rx, ry = _surface(s)
    tone, skin = blend(rgb("b2582f"), v.colour, 0.4), blend(rgb("9c3a1e"), v.colour, 0.3)
    q = p.at(0, -1, rx * 0.62, 4)
    s.soft(q, 0.1, 0.4, 1.4, 1.1, dark(v.colour, 0.7), 0.8)
    q.box(-0.95, -0.2, 0.95, 0.9, dark(tone, 0.5), 0.2)
    fat = blend(rgb("f6d9ae"), v.colour, 0.16)
    for y0, k in ((0.74, tone), (0.56, fat), (0.38, tone), (0.14, fat)):
        q.box(-0.95, -0.3, 0.95, y0, k, 0.16)
    q.poly([(-0.95, -0.16), (-0.7, -0.86), (0.74, -0.86), (0.95, -0.16)], dark(skin, 0.2))
    q.poly([(-0.92, -0.22), (-0.68, -0.84), (0.72, -0.84), (0.92, -0.22)], skin)
    s.soft(q, -0.2, -0.56, 0.6, 0.22, light(skin, 0.7), 0.8)
    string = rgb("ead7a4")
    q.line([(0.0, -0.85), (0.0, -0.18), (0.0, 0.8)], 0.06, string)
    q.line([(-0.82, -0.5), (0.84, -0.5)], 0.06, string)
    q.disc(0.0, -0.5, 0.08, 0.06, string)
    for x, angle in ((0.78, 60), (-0.8, -64)):
        cut.bok_choy(p.at(rx * x, ry * 0.2, 6, angle), rgb("4d9c3c"))
    _shine(s, p, rx * 0.6, ry * 0.5, 6, 0.5)


def _terrine(s: _Scene) -> None:
    """Slices of pink meat set in clear jelly, laid like tiles."""
    v = s.serving
    p, rx, ry = _surface(s)
    tone = v.colour
    for row in range(3):
        for i in range(6):
            q = p.at((-0.66 + i * 0.265) * rx, (-0.46 + row * 0.46) * ry - (1.5 if i % 2 else 0), 1.16, 8)
            q.box(-5.2, -5.4, 6.2, 6.8, dark(tone, 0.42), 0.8)
            q.box(-5.6, -6.2, 5.6, 5.6, rgb("d9b48a"), 0.8)
            q.box(-5.6, -4.0, 5.6, 5.6, rgb("f2d7c2"), 0.8)
            q.box(-5.6, -1.6, 5.6, 5.6, tone, 0.8)
            for u, w in ((-3.4, 1.6), (0.4, 3.4), (3.2, 0.6)):
                s.soft(q, u, w, 2.4, 1.3, light(tone, 0.6), 0.7)
            q.line([(-4.6, -5.2), (2.6, -5.2)], 0.7, rgb("fff3e0"))
    _saucer(s, 80, 24, 9.5, None)
    s.pen.disc(80, 24.6, 6.6, 5, rgb("3a1f18"))
    for _ in range(7):
        cut.shred(s.pen.at(80 + s.jitter(3), 24 + s.jitter(1.6), 1.8, s.dice.uniform(0, 180)), rgb("f0d88c"))
    _strew(s, p, rx * 0.5, ry * 0.46, 0, 0.4)


def _filled_lotus_root(s: _Scene) -> None:
    """Slices of lotus root whose holes are filled with rice, in a row under syrup."""
    v = s.serving
    p, rx, ry = _surface(s)
    _pool(s, p, rx * 0.98, ry * 0.96, blend(v.colour, rgb("b9622a"), 0.4))
    tone = blend(rgb("c98a5a"), v.colour, 0.5)
    for half, y in ((0.6, -0.42), (0.68, 0.02), (0.58, 0.46)):
        for i in range(6):
            q = p.at((-half + 2 * half * i / 5) * rx * 1.06, y * ry * 1.06, 7.8, s.jitter(10))
            cut.lotus_root(q, tone)
            q.disc(0, 0, 0.12, 0.1, rgb("fbf3e2"))
            for k in range(7):
                t = k * math.tau / 7
                q.at(0.52 * math.cos(t), 0.43 * math.sin(t), 1, math.degrees(t)).disc(0, 0, 0.19, 0.12, rgb("fbf3e2"))
    _strew(s, p, rx * 0.7, ry * 0.66, 0, 1.2)
    _shine(s, p, rx * 0.7, ry * 0.65, 14, 0.6)


def _cold_slices(s: _Scene) -> None:
    """Large thin slices, heaped and dressed with red oil."""
    v = s.serving
    p, rx, ry = _surface(s, blend(v.colour, _BROTH_RED, 0.6))
    if v.vessel not in _DEEP:
        _pool(s, p, rx * 1.02, ry * 1.02, _BROTH_RED)
    _oil(s, p, rx * 0.95, ry * 0.95, rgb("e8632c"), 30)
    flat = [replace(c, draw=cut.cold_slice, size=6.0, takes=0.15) if c.draw is cut.slice_ else c for c in v.cuts]
    _heap(s, p, flat, rx * 0.78, ry * 0.76, 44, 7)
    for x, y in _spots(s, 12, rx * 0.7, ry * 0.6):
        s.soft(p, x, y - 3, s.dice.uniform(2, 5), s.dice.uniform(1.2, 2.4), _BROTH_RED, 0.7)
    s.serving = replace(v, strewn=(*v.strewn, *(c for c in (cut_of("芝麻"), cut_of("香菜")) if c)))
    _strew(s, p.at(0, -3), rx * 0.6, ry * 0.54, 5)
    _shine(s, p, rx * 0.7, ry * 0.6, 9, 0.5)


FORMS: dict[str, Callable[[_Scene], None]] = {
    "stir-fry": _stir_fry, "braise": _braise, "in broth": _in_broth, "clear soup": _clear_soup,
    "noodles in broth": _noodles_in_broth, "dry noodles": _dry_noodles, "rice": _rice, "congee": _congee,
    "custard": _custard, "sweet soup": _sweet_soup, "whole fish": _whole_fish, "squirrel fish": _squirrel_fish,
    "fan": _fan, "cold cuts": _cold_cuts, "dome": _dome, "big cubes": _big_cubes, "balls": _balls, "tofu": _tofu,
    "skewers": _skewers, "arranged": _arranged, "pan-fried": _pan_fried, "pancakes": _pancakes,
    "filled bread": _filled_bread, "rolls": _rolls, "squares": _squares, "leaf parcels": _leaf_parcels,
    "whole fowl": _whole_fowl, "carved duck": _carved_duck, "shellfish": _shellfish, "greens": _greens,
    "fried pieces": _fried_pieces, "on the bone": _on_the_bone, "shredded": _shredded, "hot pot": _hot_pot,
    "copper pot": _copper_pot, "roast meat": _roast_meat, "belt noodles": _plate_of_noodles_and_chunks,
    "caramelised": _dessert_bits, "fish head": _fish_head, "oyster omelette": _oyster_omelette, "wheel": _wheel,
    "saucers": _saucers, "bridge noodles": _bridge_noodles, "bread soup": _bread_soup, "fruit soup": _fruit_soup,
    "thick soup": _thick_soup, "stuffed tofu": _stuffed_tofu, "tofu squares": _tofu_squares,
    "standing rings": _standing_rings, "powdered rolls": _powdered_rolls, "jelly domes": _jelly_domes,
    "one cube": _one_cube, "terrine": _terrine, "filled lotus root": _filled_lotus_root, "cold slices": _cold_slices,
}  # fmt: skip
_SIDE_DISHES = {"hot pot", "copper pot", "saucers", "bridge noodles"}  # fill the table: no chopsticks beside them

# ------------------------------------------------------------------------------------------------------------ the table

_TOPS = [
    rgb(code)
    for code in ("c79a6b", "9c6b45", "6b4a38", "dccbb0", "4a5560", "8fa39b", "b7c3c9", "7b2f2a", "e9dfce", "55624f")
]
_CHINA = [rgb(code) for code in ("fdfbf5", "fdfbf5", "f4efe2", "e4ece8", "eef2f4", "dfe8dc")]
_RIMS = [rgb(code) for code in ("3a62a8", "3a62a8", "b5432f", "5f8f6a", "c79a3f", "5a6a78")]


def _background(s: _Scene) -> None:
    """Wood, cloth, bamboo or stone under the dish."""
    p, top = s.pen, s.top
    style = s.dice.choice(("wood", "wood", "mat", "stone", "cloth"))
    if style == "wood":
        for i in range(-4, 12):
            tone = (top, dark(top, 0.06), light(top, 0.07))[s.dice.randrange(3)]
            p.box(-60, i * 12, 160, i * 12 + 12, tone)
            p.line([(-60, i * 12), (160, i * 12)], 0.5, dark(top, 0.25))
            for _ in range(2):
                x, y = s.dice.uniform(-20, 90), i * 12 + s.dice.uniform(2, 10)
                p.line([(x, y), (x + 14, y - 0.6), (x + 34, y + 0.3)], 0.3, dark(top, 0.12))
    elif style == "mat":
        straw = blend(top, rgb("d9bd84"), 0.6)
        p.box(-8, 0, 108, 101, dark(straw, 0.1))
        for i in range(52):
            p.box(-8, i * 2, 108, i * 2 + 1.4, light(straw, 0.14) if i % 2 else straw)
        for x in (8, 36, 64, 92):
            p.line([(x, 0), (x, 102)], 0.7, dark(straw, 0.3))
    elif style == "cloth":
        for i in range(-3, 12):
            p.line([(-60 + i * 20, -60), (60 + i * 20, 160)], 0.6, dark(top, 0.08))
            p.line([(60 + i * 20, -60), (-60 + i * 20, 160)], 0.6, dark(top, 0.08))
    else:
        for _ in range(90):
            r = s.dice.uniform(0.4, 1.6)
            p.disc(
                s.dice.uniform(-20, 120), s.dice.uniform(-20, 120), r, r * 0.7, dark(top, s.dice.uniform(0.04, 0.16))
            )
    s.soft(p, 30, 20, 90, 80, light(top, 0.5), 0.4)


def _chopsticks(s: _Scene) -> None:
    """A pair of chopsticks, always of one length, so that the size of a dish shows."""
    wood = s.dice.choice((rgb("7a3b2a"), rgb("3b2f2c"), rgb("c79a5f")))
    q = s.pen.at(95.5, 52 + s.jitter(6), 1, s.jitter(4))
    s.soft(q, 1.6, 3, 5, 48, dark(s.top, 0.6), 0.5)
    for x, tip in ((-1.4, -0.5), (1.6, 0.7)):
        q.line([(x, 40), (tip, -40)], 1.7, dark(wood, 0.4))
        q.line([(x - 0.3, 39.6), (tip - 0.2, -40)], 1.1, wood)
        q.line([(x - 0.1, 39), (x - 0.25, 28)], 1.2, rgb("d9a93f"))


def _steam(s: _Scene) -> None:
    """Wisps of steam over a warm dish."""
    w, h = s.picture.size
    small = 4
    mask = Image.new("L", (w // small, h // small))
    a, _, c, _, e, f = s.pen.matrix
    k = abs(a) / small
    draw = ImageDraw.Draw(mask)
    x0, y0 = (a * 50 + e) / small, (c * 50 + s.pen.matrix[3] * 34 + f) / small
    for i in range(4):
        x = x0 + (i - 1.5) * 13 * k + s.jitter(3) * k
        bend, lift = s.dice.uniform(2.0, 4.2) * s.dice.choice((-1, 1)), s.dice.uniform(26, 38)
        points = []
        for j in range(22):
            u = j / 21
            points.append((x + bend * k * math.sin(u * 5.2 + i) * (0.4 + u), y0 + (12 - lift * u - (i % 2) * 4) * k))
        for (px, py), (qx, qy), j in zip(points, points[1:], range(21), strict=False):
            strength = round(150 * math.sin(math.pi * (j + 1) / 22))
            draw.line([px, py, qx, qy], strength, max(1, round(2.6 * k)))
    mask = mask.filter(ImageFilter.GaussianBlur(1.7 * k)).resize((w, h), Image.Resampling.BILINEAR)
    s.picture.paste((255, 255, 255), (0, 0), mask)


def draw_food(dish: DishFacts, size: int = 320, variant: int = 0) -> Image.Image:
    """Draws a dish: a rendered picture, RGB, `size` pixels square, without text or metadata.

    Args:
        dish: its facts; only Chinese texts are read.
        size: edge in pixels.
        variant: another number gives another picture of the same dish: table, porcelain, arrangement and distance
            change, which all hang on a hash of the dish's id and this number; what the dish is does not.
    """
    dice = random.Random(int.from_bytes(hashlib.sha256(f"{_DICE} {dish.dish_id} {variant}".encode()).digest()))
    serving = read_serving(dish)
    top, china, rim = dice.choice(_TOPS), dice.choice(_CHINA), dice.choice(_RIMS)
    edge = size * SUPERSAMPLING
    picture = Image.new("RGB", (edge, edge), top)
    zoom = dice.uniform(0.96, 1.04) if variant % 2 == 0 else dice.uniform(0.88, 1.08)
    k = edge / 100 * zoom
    x, y = edge / 2 + dice.uniform(-2, 1) * edge / 100, edge / 2 + dice.uniform(-1, 2) * edge / 100
    frame = Pen(ImageDraw.Draw(picture), (k, 0.0, 0.0, k, x - 50 * k, y - 50 * k))
    pen = frame.at(100, 0, 1, 0, True) if dice.random() < 0.5 else frame
    s = _Scene(picture, pen, serving, top, china, rim, dice)
    _background(s)
    if serving.form not in _SIDE_DISHES:
        _chopsticks(s)
    FORMS[serving.form](s)
    if serving.warm:
        _steam(s)
    return picture.reduce(SUPERSAMPLING)


def drawing_version() -> str:
    """Eight hexadecimal digits that change when the pictures may change."""
    sources = (Path(__file__), Path(chinese_serving.__file__), Path(cut.__file__), Path(drawings.__file__))
    return hashlib.sha256(b"\0".join(source.read_bytes() for source in sources)).hexdigest()[:8]


def contact_sheet(pictures: Sequence[Image.Image], columns: int, gap: int = 6) -> Image.Image:
    """Pictures of one size side by side on white."""
    size = pictures[0].width
    rows = math.ceil(len(pictures) / columns)
    sheet = Image.new("RGB", (columns * (size + gap) + gap, rows * (size + gap) + gap), (250, 248, 244))
    for i, picture in enumerate(pictures):
        sheet.paste(picture, (gap + i % columns * (size + gap), gap + i // columns * (size + gap)))
    return sheet


def main(path: str, table: str = "data/build/dishes.csv") -> None:
    """Writes a sheet of 24 dishes, spread over the table, as a JPEG."""
    dishes = read_dishes(table)
    shown = [dishes[i * len(dishes) // 24] for i in range(24)]
    with atomic_file(path) as partial:
        contact_sheet([draw_food(dish, 208) for dish in shown], 6).save(partial, "JPEG", quality=82, optimize=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
