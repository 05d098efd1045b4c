"""Flat drawings of ingredients, vessels and kitchen tools, the vocabulary of the rendered illustrations.

A drawing is a function of a `Pen`, whose coordinates run from -1 to 1 in both directions (y downwards), and where it
comes in kinds, of colours. `INGREDIENTS` maps the words of a recipe to drawings.
"""

import math
from collections.abc import Callable, Sequence
from functools import cache

from PIL import ImageDraw

Colour = tuple[int, int, int]
Point = tuple[float, float]

_CIRCLE = [(math.cos(2 * math.pi * i / 28), math.sin(2 * math.pi * i / 28)) for i in range(28)]


@cache
def rgb(code: str) -> Colour:
    """Colour of a hexadecimal code without its number sign."""
    return int(code[:2], 16), int(code[2:4], 16), int(code[4:], 16)


def blend(first: Colour, second: Colour, share: float) -> Colour:
    """Colour between two: `share` of the second."""
    a, b, c = (round(x + (y - x) * share) for x, y in zip(first, second, strict=True))
    return a, b, c


def dark(colour: Colour, share: float = 0.22) -> Colour:
    """The colour in shadow (towards a warm dark brown, not black)."""
    return blend(colour, (70, 40, 45), share)


def light(colour: Colour, share: float = 0.35) -> Colour:
    """The colour in light."""
    return blend(colour, (255, 255, 250), share)


WHITE, CREAM, STEEL, IRON, WOOD = rgb("fffdf8"), rgb("fdf3dc"), rgb("c3ccd4"), rgb("4a4f5c"), rgb("c98f58")
GREEN, LEAF, RED, BROWN, GLASS = rgb("6fae4a"), rgb("4b8f3c"), rgb("d94f3d"), rgb("9c6238"), rgb("dcedf2")


class Pen:
    """Draws filled shapes through an affine map: a local frame on the picture."""

    def __init__(self, draw: ImageDraw.ImageDraw, matrix: tuple[float, float, float, float, float, float]):
        self.draw, self.matrix = draw, matrix
        self.unit = math.hypot(matrix[0], matrix[2])  # pixels of one local unit

    def at(self, x: float, y: float, size: float = 1.0, angle: float = 0.0, mirror: bool = False) -> "Pen":
        """A frame whose origin lies at (x, y), `size` as large, turned clockwise by `angle` degrees."""
        a, b, c, d, e, f = self.matrix
        cos, sin = (
            (math.cos(math.radians(angle)) * size, math.sin(math.radians(angle)) * size) if angle else (size, 0.0)
        )
        k = -1.0 if mirror else 1.0
        return Pen(
            self.draw,
            (
                k * (a * cos + b * sin),
                b * cos - a * sin,
                k * (c * cos + d * sin),
                d * cos - c * sin,
                a * x + b * y + e,
                c * x + d * y + f,
            ),
        )

    def _map(self, points: Sequence[Point]) -> list[Point]:
        a, b, c, d, e, f = self.matrix
        return [(a * x + b * y + e, c * x + d * y + f) for x, y in points]

    def poly(self, points: Sequence[Point], fill: Colour) -> None:
        """A polygon."""
        self.draw.polygon(self._map(points), fill)

    def disc(self, x: float, y: float, rx: float, ry: float, fill: Colour) -> None:
        """An ellipse with its axes along the frame."""
        a, b, c, d, e, f = self.matrix
        if b == c == 0:
            px, py, sx, sy = a * x + e, d * y + f, abs(a) * rx, abs(d) * ry
            self.draw.ellipse((px - sx, py - sy, px + sx, py + sy), fill)
        else:
            self.poly([(x + rx * u, y + ry * v) for u, v in _CIRCLE], fill)

    def box(self, x0: float, y0: float, x1: float, y1: float, fill: Colour, radius: float = 0.0) -> None:
        """A rectangle with round corners."""
        r = min(radius, (x1 - x0) / 2, (y1 - y0) / 2)
        if not r:
            return self.poly([(x0, y0), (x1, y0), (x1, y1), (x0, y1)], fill)
        points = []
        for i, (u, v) in enumerate(_CIRCLE):
            points.append(((x1 - r if i < 7 or i >= 21 else x0 + r) + r * u, (y1 - r if i < 14 else y0 + r) + r * v))
        return self.poly(points, fill)

    def line(self, points: Sequence[Point], width: float, fill: Colour) -> None:
        """A line through the points with round ends."""
        mapped, w = self._map(points), max(1.0, width * self.unit)
        self.draw.line(mapped, fill, round(w), joint="curve")
        for x, y in (mapped[0], mapped[-1]):
            self.draw.ellipse((x - w / 2, y - w / 2, x + w / 2, y + w / 2), fill)

    def arc(
        self, x: float, y: float, rx: float, ry: float, start: float, end: float, width: float, fill: Colour
    ) -> None:
        """A part of an ellipse as a line; degrees, clockwise from the right."""
        angles = [math.radians(start + (end - start) * i / 10) for i in range(11)]
        self.line([(x + rx * math.cos(t), y + ry * math.sin(t)) for t in angles], width, fill)

    def half(self, x: float, y: float, rx: float, ry: float, fill: Colour, up: bool = False) -> None:
        """The lower (or upper) half of an ellipse."""
        k = -1 if up else 1
        self.poly(
            [(x + rx * math.cos(math.pi * i / 16), y + k * ry * math.sin(math.pi * i / 16)) for i in range(17)], fill
        )


# ---------------------------------------------------------------------------------------------- fruit and vegetables


def ball(p: Pen, c: Colour, ry: float = 0.92) -> None:
    """A round thing, lit from the upper left."""
    p.disc(0, 0, 0.92, ry, dark(c))
    p.disc(-0.08, -0.08, 0.82, ry - 0.1, c)
    p.disc(-0.35, -0.38, 0.22, 0.15, light(c))


def tomato(p: Pen, c: Colour) -> None:
    """A tomato with its green star."""
    ball(p, c, 0.84)
    for angle in (-160, -125, -90, -55, -20):
        q = p.at(0, -0.66, 1, angle + 90)
        q.poly([(-0.1, 0), (0, -0.42), (0.1, 0)], LEAF)
    p.disc(0, -0.66, 0.16, 0.1, LEAF)


def apple(p: Pen, c: Colour) -> None:
    """An apple or another fruit with stem and leaf."""
    p.disc(-0.32, 0.05, 0.6, 0.82, c)
    p.disc(0.32, 0.05, 0.6, 0.82, dark(c, 0.14))
    p.disc(-0.1, 0.1, 0.55, 0.74, c)
    p.disc(-0.5, -0.3, 0.14, 0.2, light(c))
    p.line([(0, -0.62), (0.08, -1)], 0.12, BROWN)
    leaf(p.at(0.38, -0.86, 0.34, 70), GREEN)


def citrus(p: Pen, c: Colour) -> None:
    """A whole lemon, lime or orange with half a one in front."""
    p.disc(-0.22, -0.18, 0.76, 0.64, dark(c, 0.12))
    p.disc(-0.28, -0.24, 0.66, 0.55, c)
    p.disc(-0.98, -0.2, 0.14, 0.12, c)
    p.disc(0.35, 0.3, 0.62, 0.62, c)
    p.disc(0.35, 0.3, 0.52, 0.52, CREAM)
    for angle in range(0, 360, 60):
        q = p.at(0.35, 0.3, 1, angle)
        q.poly([(0.06, 0.03), (0.42, -0.16), (0.46, 0.0), (0.42, 0.16)], light(c, 0.18))


def onion(p: Pen, c: Colour) -> None:
    """An onion, or a garlic bulb where white."""
    p.line([(0, -0.5), (-0.05, -0.98)], 0.2, c)
    p.disc(0, 0.15, 0.86, 0.76, dark(c, 0.18))
    p.disc(-0.07, 0.1, 0.76, 0.7, c)
    p.poly([(-0.45, -0.3), (0, -0.8), (0.45, -0.3)], c)
    for x in (-0.42, 0, 0.42):
        p.line([(x * 0.25, -0.55), (x, -0.05), (x * 1.05, 0.3), (x * 0.5, 0.72)], 0.06, dark(c, 0.25))
    p.line([(-0.15, 0.9), (0, 0.84), (0.15, 0.92)], 0.08, dark(c, 0.4))


def garlic(p: Pen, c: Colour) -> None:
    """A garlic bulb with a clove beside it."""
    p.line([(-0.1, -0.3), (-0.02, -0.98)], 0.22, c)
    for x, shade in ((-0.62, 0.1), (0.42, 0.2), (-0.1, 0.0)):
        p.disc(x, 0.2, 0.36, 0.6, dark(c, shade + 0.12))
        p.disc(x - 0.04, 0.18, 0.3, 0.55, dark(c, shade))
    p.poly([(-0.5, -0.2), (-0.1, -0.7), (0.3, -0.2)], c)
    p.line([(-0.1, -0.3), (-0.1, 0.6)], 0.05, rgb("b9a0b8"))
    p.at(0.68, 0.62, 0.34, 25).disc(0, 0, 0.7, 1, c)
    p.at(0.68, 0.62, 0.34, 25).line([(0.3, -0.5), (0.3, 0.5)], 0.2, rgb("d8c4d6"))


def potato(p: Pen, c: Colour) -> None:
    """A potato, or another lumpy root."""
    q = p.at(0, 0, 1, -18)
    q.disc(0, 0.04, 0.98, 0.7, dark(c, 0.18))
    q.disc(-0.06, -0.03, 0.9, 0.6, c)
    q.disc(-0.4, -0.25, 0.25, 0.12, light(c))
    for x, y in ((-0.3, 0.2), (0.25, -0.18), (0.5, 0.22), (0.02, 0.3)):
        q.disc(x, y, 0.07, 0.05, dark(c, 0.4))


def carrot(p: Pen, c: Colour) -> None:
    """A carrot with its green."""
    q = p.at(0, 0, 1, 38)
    for angle in (-28, 0, 28):
        q.at(0, -0.5, 1, angle).poly([(-0.08, 0), (-0.13, -0.45), (0, -0.72), (0.13, -0.45), (0.08, 0)], GREEN)
    q.poly([(-0.36, -0.48), (0.36, -0.48), (0.3, 0.05), (0.06, 1.05), (-0.06, 1.05), (-0.3, 0.05)], c)
    q.disc(0, -0.48, 0.36, 0.16, c)
    q.poly([(0.1, -0.5), (0.36, -0.48), (0.3, 0.05), (0.06, 1.05), (0.02, 1)], dark(c, 0.16))
    for y, x in ((-0.2, -0.3), (0.15, -0.22), (0.45, -0.14)):
        q.line([(x, y), (x + 0.24, y + 0.03)], 0.06, dark(c, 0.3))


def bell_pepper(p: Pen, c: Colour) -> None:
    """A bell pepper."""
    p.disc(0.42, 0.08, 0.48, 0.78, dark(c, 0.18))
    p.disc(-0.42, 0.08, 0.48, 0.78, c)
    p.disc(0, 0.12, 0.42, 0.82, dark(c, 0.07))
    p.disc(-0.5, -0.25, 0.1, 0.26, light(c))
    p.disc(0, -0.58, 0.36, 0.14, LEAF)
    p.line([(0, -0.6), (0.1, -0.98)], 0.18, LEAF)


def chili(p: Pen, c: Colour) -> None:
    """A hot pepper."""
    top = [(-0.62, -0.62), (-0.3, -0.78), (0.1, -0.5), (0.3, 0.0), (0.75, 0.78)]
    low = [(0.75, 0.78), (0.05, 0.55), (-0.35, 0.1), (-0.62, -0.3)]
    p.poly(top + low, c)
    p.poly([*low, (-0.5, -0.42), (-0.1, 0.05), (0.2, 0.4)], dark(c, 0.2))
    p.disc(-0.55, -0.58, 0.24, 0.2, LEAF)
    p.line([(-0.6, -0.62), (-0.85, -0.9)], 0.15, LEAF)


def long_vegetable(p: Pen, c: Colour) -> None:
    """A cucumber, courgette or another long one, with two slices cut off."""
    q = p.at(0, -0.1, 1, -32)
    q.box(-0.98, -0.3, 0.72, 0.3, dark(c, 0.18), 0.3)
    q.box(-0.98, -0.3, 0.72, 0.2, c, 0.25)
    q.line([(-0.7, -0.12), (0.4, -0.12)], 0.08, light(c, 0.3))
    for x, y in ((0.3, 0.62), (0.72, 0.36)):
        p.disc(x, y, 0.32, 0.32, c)
        p.disc(x, y, 0.25, 0.25, light(c, 0.72))
        for u, v in ((-0.08, -0.05), (0.08, -0.05), (0, 0.1)):
            p.disc(x + u, y + v, 0.035, 0.035, dark(c, 0.1))


def eggplant(p: Pen, c: Colour) -> None:
    """An aubergine."""
    q = p.at(0, 0, 1, 38)
    q.disc(0, 0.36, 0.56, 0.62, c)
    q.poly([(-0.3, -0.5), (0.3, -0.5), (0.54, 0.25), (-0.54, 0.25)], c)
    q.disc(-0.2, 0.3, 0.12, 0.34, light(c, 0.3))
    q.poly([(-0.38, -0.42), (-0.3, -0.66), (0.3, -0.66), (0.38, -0.42), (0.15, -0.52), (0, -0.3), (-0.15, -0.52)], LEAF)
    q.line([(0, -0.64), (0.1, -0.98)], 0.16, LEAF)


def root(p: Pen, c: Colour) -> None:
    """A long rough root: yam, cassava, ginger in small."""
    q = p.at(0, 0, 1, -30)
    q.poly([(-1, -0.1), (-0.7, -0.36), (0.5, -0.32), (1, -0.02), (0.6, 0.32), (-0.7, 0.3)], dark(c, 0.18))
    q.poly([(-0.95, -0.1), (-0.7, -0.34), (0.5, -0.3), (0.9, -0.05), (0.5, 0.18), (-0.7, 0.18)], c)
    q.disc(-0.84, -0.03, 0.16, 0.28, CREAM)
    for x in (-0.4, 0.0, 0.4):
        q.arc(x, -0.05, 0.07, 0.2, -70, 70, 0.04, dark(c, 0.38))


def ginger(p: Pen, c: Colour) -> None:
    """A knob of ginger."""
    for x, y, rx, ry, angle in (
        (-0.3, 0.15, 0.7, 0.34, -12),
        (0.5, -0.1, 0.46, 0.28, -50),
        (-0.2, -0.35, 0.28, 0.42, 20),
    ):
        q = p.at(x, y, 1, angle)
        q.disc(0.02, 0.05, rx, ry, dark(c, 0.2))
        q.disc(-0.02, -0.02, rx * 0.93, ry * 0.85, c)
    p.disc(0.72, -0.42, 0.15, 0.13, rgb("f3d98a"))
    for x in (-0.6, -0.2, 0.15):
        p.arc(x, 0.2, 0.08, 0.2, -60, 60, 0.05, dark(c, 0.35))


def corn(p: Pen, c: Colour) -> None:
    """An ear of corn."""
    q = p.at(0, 0, 1, 28)
    q.disc(0, -0.1, 0.42, 0.88, c)
    for y in range(4):
        for x in (-0.2, 0.02, 0.22):
            q.disc(x, -0.62 + y * 0.26, 0.09, 0.09, dark(c, 0.16))
    q.poly([(-0.52, -0.1), (-0.2, 0.3), (0, 1), (-0.4, 0.75)], GREEN)
    q.poly([(0.52, -0.1), (0.2, 0.3), (0, 1), (0.4, 0.75)], LEAF)


def stalks(p: Pen, c: Colour) -> None:
    """Celery, leek, spring onion, asparagus: stalks bound together."""
    q = p.at(0, 0, 1, 24)
    for x, angle in ((-0.3, -9), (0.3, 9), (0, 0)):
        s = q.at(x, 0, 1, angle)
        s.poly([(-0.13, 0.95), (0.13, 0.95), (0.16, -0.2), (0.3, -0.98), (-0.3, -0.98), (-0.16, -0.2)], c)
        s.poly([(-0.13, 0.95), (0.13, 0.95), (0.14, 0.3), (-0.14, 0.3)], light(c, 0.7))
        s.poly([(0.04, 0.3), (0.14, 0.3), (0.16, -0.2), (0.3, -0.98), (0.12, -0.98)], dark(c, 0.15))
    q.box(-0.48, 0.2, 0.48, 0.36, rgb("e8c46a"), 0.06)


def beans_green(p: Pen, c: Colour) -> None:
    """Pods."""
    for y, bend in ((-0.42, 0.25), (0.05, 0.3), (0.5, 0.2)):
        p.line([(-0.85, y + bend), (-0.3, y), (0.3, y - 0.05), (0.85, y + bend * 0.6)], 0.3, dark(c, 0.15))
        p.line([(-0.82, y + bend - 0.05), (-0.3, y - 0.05), (0.3, y - 0.1), (0.8, y + bend * 0.5)], 0.2, c)
        for x in (-0.45, 0.0, 0.45):
            p.disc(x, y - 0.03, 0.08, 0.08, light(c, 0.4))


def cabbage(p: Pen, c: Colour) -> None:
    """A head of cabbage or lettuce."""
    p.disc(0, 0.05, 0.95, 0.85, dark(c, 0.12))
    p.disc(-0.45, 0.1, 0.52, 0.72, c)
    p.disc(0.45, 0.1, 0.52, 0.72, c)
    p.disc(0, 0, 0.5, 0.8, light(c, 0.3))
    p.line([(0, 0.75), (0, -0.55)], 0.08, light(c, 0.8))
    for s in (-1, 1):
        p.line([(0, 0.3), (s * 0.25, -0.15)], 0.05, light(c, 0.8))
        p.line([(s * 0.55, 0.65), (s * 0.6, -0.2)], 0.06, light(c, 0.55))


def leafy(p: Pen, c: Colour) -> None:
    """Large leaves: spinach, kale, greens."""
    for x, angle, shade in ((-0.35, -32, 0.15), (0.38, 32, 0.2), (0, 0, 0.0)):
        q = p.at(x, 0.1, 1, angle)
        k = dark(c, shade) if shade else c
        q.disc(0, -0.3, 0.4, 0.6, k)
        q.disc(-0.18, -0.02, 0.24, 0.3, k)
        q.disc(0.18, -0.02, 0.24, 0.3, k)
        q.line([(0, 0.85), (0, -0.7)], 0.08, light(c, 0.6))
        q.line([(0, -0.1), (0.2, -0.35)], 0.05, light(c, 0.6))
        q.line([(0, -0.1), (-0.2, -0.35)], 0.05, light(c, 0.6))


def leaf(p: Pen, c: Colour) -> None:
    """One leaf along the y axis."""
    p.poly([(0, -1), (0.42, -0.45), (0.45, 0.2), (0, 0.8), (-0.45, 0.2), (-0.42, -0.45)], c)
    p.line([(0, -0.7), (0, 1)], 0.12, dark(c, 0.25))


def herb(p: Pen, c: Colour) -> None:
    """A sprig."""
    p.line([(-0.5, 0.95), (-0.1, 0.2), (0.15, -0.7)], 0.09, dark(c, 0.2))
    for x, y, angle, size in (
        (0.22, -0.72, 15, 0.36),
        (-0.3, -0.3, -55, 0.36),
        (0.42, -0.22, 65, 0.36),
        (-0.55, 0.28, -60, 0.34),
        (0.2, 0.4, 70, 0.34),
    ):
        leaf(p.at(x, y, size, angle), c)


def mushroom(p: Pen, c: Colour) -> None:
    """A mushroom."""
    p.box(-0.28, -0.1, 0.28, 0.92, rgb("f2e6d3"), 0.22)
    p.box(0.06, -0.1, 0.28, 0.92, rgb("e0cfb6"), 0.2)
    p.half(0, 0.12, 0.95, 0.95, c, up=True)
    p.disc(0, 0.12, 0.95, 0.16, dark(c, 0.3))
    p.disc(-0.35, -0.4, 0.2, 0.12, light(c))


def broccoli(p: Pen, c: Colour) -> None:
    """A floret of broccoli, or cauliflower where white."""
    p.poly([(-0.22, 0.95), (0.22, 0.95), (0.32, 0.1), (-0.32, 0.1)], light(LEAF, 0.45))
    for x, y, r in ((-0.55, -0.05, 0.38), (0.55, -0.05, 0.38), (-0.3, -0.48, 0.4), (0.32, -0.46, 0.4), (0, -0.1, 0.45)):
        p.disc(x, y + 0.05, r, r, dark(c, 0.18))
        p.disc(x - 0.03, y, r * 0.88, r * 0.88, c)
    for x, y in ((-0.4, -0.55), (0.2, -0.6), (-0.1, -0.2), (0.5, -0.1), (-0.6, -0.1)):
        p.disc(x, y, 0.08, 0.07, light(c, 0.3))


def pumpkin(p: Pen, c: Colour) -> None:
    """A pumpkin."""
    for x, rx, shade in (
        (-0.55, 0.42, 0.12),
        (0.55, 0.42, 0.22),
        (-0.28, 0.42, 0.04),
        (0.28, 0.42, 0.14),
        (0, 0.36, 0.0),
    ):
        p.disc(x, 0.15, rx, 0.74, dark(c, shade))
    p.line([(0, -0.5), (0.12, -0.9)], 0.2, LEAF)


def banana(p: Pen, c: Colour) -> None:
    """Two bananas or plantains."""
    for dy, shade in ((-0.18, 0.14), (0.12, 0.0)):
        k = dark(c, shade)
        outer = [(-0.95 + 0.19 * i, dy + 0.2 + 0.55 * math.sin(math.pi * i / 10)) for i in range(11)]
        inner = [(0.85 - 0.17 * i, dy - 0.02 + 0.2 * math.sin(math.pi * i / 10)) for i in range(11)]
        p.poly(outer + inner, k)
        p.disc(0.92, dy + 0.08, 0.1, 0.12, rgb("6b5a2e"))
        p.disc(-0.92, dy + 0.08, 0.08, 0.1, rgb("8a7a3a"))


def berries(p: Pen, c: Colour) -> None:
    """A handful of round berries."""
    for x, y in ((-0.5, 0.3), (0.5, 0.32), (-0.28, -0.3), (0.32, -0.28), (0, 0.2)):
        ball(p.at(x, y, 0.44), c)
    leaf(p.at(0.1, -0.78, 0.3, 40), GREEN)


def strawberry(p: Pen, c: Colour) -> None:
    """A strawberry."""
    p.poly([(-0.78, -0.3), (-0.4, -0.62), (0.4, -0.62), (0.78, -0.3), (0.5, 0.4), (0, 0.98), (-0.5, 0.4)], c)
    p.poly([(0.3, -0.6), (0.4, -0.62), (0.78, -0.3), (0.5, 0.4), (0, 0.98), (0.3, 0.2)], dark(c, 0.18))
    for x, y in ((-0.4, -0.15), (0, -0.2), (0.4, -0.15), (-0.22, 0.2), (0.2, 0.2), (0, 0.55)):
        p.disc(x, y, 0.05, 0.08, rgb("fbe29a"))
    for angle in (-60, -20, 20, 60):
        leaf(p.at(0, -0.68, 0.3, angle), GREEN)


def cherries(p: Pen, c: Colour) -> None:
    """A pair of cherries."""
    p.line([(-0.45, 0.3), (0.1, -0.9)], 0.08, LEAF)
    p.line([(0.5, 0.4), (0.1, -0.9)], 0.08, LEAF)
    leaf(p.at(0.45, -0.72, 0.34, 75), GREEN)
    ball(p.at(-0.45, 0.42, 0.48), c)
    ball(p.at(0.48, 0.5, 0.46), c)


def pineapple(p: Pen, c: Colour) -> None:
    """A pineapple."""
    for angle in (-40, -18, 0, 18, 40):
        leaf(p.at(0.9 * math.sin(math.radians(angle)) * 0.5, -0.68, 0.36, angle), LEAF)
    p.disc(0, 0.32, 0.6, 0.68, c)
    for i in range(-2, 3):
        p.line(
            [(i * 0.26 - 0.22, 0.32 - 0.48 + abs(i) * 0.08), (i * 0.26 + 0.2, 0.32 + 0.5 - abs(i) * 0.1)],
            0.05,
            dark(c, 0.3),
        )
        p.line(
            [(i * 0.26 + 0.22, 0.32 - 0.48 + abs(i) * 0.08), (i * 0.26 - 0.2, 0.32 + 0.5 - abs(i) * 0.1)],
            0.05,
            dark(c, 0.3),
        )


def coconut(p: Pen, c: Colour) -> None:
    """A coconut and a half."""
    ball(p.at(-0.28, -0.22, 0.72), rgb("7a5230"))
    p.disc(0.3, 0.3, 0.66, 0.62, rgb("6b4526"))
    p.disc(0.3, 0.27, 0.56, 0.52, c)
    p.disc(0.3, 0.33, 0.4, 0.36, rgb("e6e2da"))


def avocado(p: Pen, c: Colour) -> None:
    """Half an avocado."""
    for k, s in ((rgb("3f6b35"), 1.0), (rgb("dbe38b"), 0.86)):
        p.disc(0, 0.3, 0.66 * s, 0.66 * s, k)
        p.disc(0, -0.35, 0.42 * s, 0.62 * s, k)
    ball(p.at(0, 0.35, 0.36), rgb("8a5a34"))


def olives(p: Pen, c: Colour) -> None:
    """Olives with a red filling."""
    for x, y, angle in ((-0.42, -0.2, -25), (0.42, -0.3, 30), (0.02, 0.42, 0)):
        q = p.at(x, y, 0.5, angle)
        ball(q, c, 0.75)
        q.disc(0.7, 0, 0.2, 0.26, RED)


# ---------------------------------------------------------------------------------------------- meat, fish, egg, dairy


def steak(p: Pen, c: Colour) -> None:
    """A piece of red meat with its rim of fat."""
    outer = [
        (-0.95, 0.05),
        (-0.7, -0.6),
        (0.05, -0.75),
        (0.8, -0.5),
        (0.98, 0.1),
        (0.55, 0.55),
        (-0.1, 0.5),
        (-0.55, 0.75),
    ]
    p.poly([(x, y + 0.12) for x, y in outer], dark(c, 0.4))
    p.poly(outer, rgb("f6d9cf"))
    p.poly([(x * 0.84, y * 0.8) for x, y in outer], c)
    p.line([(-0.45, 0.05), (-0.05, -0.25), (0.4, -0.2)], 0.08, light(c, 0.55))
    p.line([(0.05, 0.2), (0.45, 0.1)], 0.07, light(c, 0.55))
    p.disc(-0.42, -0.2, 0.14, 0.14, WHITE)


def drumstick(p: Pen, c: Colour) -> None:
    """A chicken leg."""
    q = p.at(0, 0, 1, 40)
    q.box(-0.12, 0.3, 0.12, 0.9, CREAM, 0.1)
    q.disc(-0.14, 0.92, 0.15, 0.14, CREAM)
    q.disc(0.14, 0.92, 0.15, 0.14, CREAM)
    q.disc(0, -0.32, 0.62, 0.66, dark(c, 0.18))
    q.poly([(-0.55, -0.05), (0.55, -0.05), (0.17, 0.58), (-0.17, 0.58)], dark(c, 0.18))
    q.disc(-0.06, -0.36, 0.54, 0.57, c)
    q.poly([(-0.5, -0.1), (0.36, -0.1), (0.08, 0.5), (-0.15, 0.5)], c)
    q.disc(-0.25, -0.6, 0.16, 0.12, light(c))


def bacon(p: Pen, c: Colour) -> None:
    """Two wavy rashers."""
    for dy in (-0.4, 0.36):
        wave = [(-0.72 + 0.12 * i, dy + 0.1 * math.sin(i * 1.05)) for i in range(13)]
        p.line([(x, y + 0.04) for x, y in wave], 0.6, dark(c, 0.15))
        p.line(wave, 0.54, c)
        p.line([(x, y - 0.08) for x, y in wave], 0.14, rgb("f9dfcf"))
        p.line([(x, y + 0.16) for x, y in wave], 0.08, rgb("f3c9b6"))


def sausage(p: Pen, c: Colour) -> None:
    """Two sausages."""
    for dy, shade in ((-0.32, 0.12), (0.32, 0.0)):
        k = dark(c, shade)
        p.line([(-0.62, dy + 0.12), (0, dy - 0.08), (0.62, dy + 0.12)], 0.52, dark(k, 0.15))
        p.line([(-0.62, dy + 0.06), (0, dy - 0.13), (0.62, dy + 0.06)], 0.38, k)
        p.line([(-0.4, dy - 0.08), (0.1, dy - 0.2)], 0.08, light(k, 0.4))
        p.disc(-0.95, dy + 0.16, 0.1, 0.08, dark(k, 0.35))
        p.disc(0.95, dy + 0.16, 0.1, 0.08, dark(k, 0.35))


def ham(p: Pen, c: Colour) -> None:
    """A joint of pork."""
    p.disc(-0.15, 0, 0.8, 0.68, rgb("d98a6a"))
    p.line([(0.5, 0.2), (0.95, 0.5)], 0.22, CREAM)
    p.disc(-0.28, 0, 0.58, 0.56, rgb("f9dccf"))
    p.disc(-0.28, 0, 0.5, 0.48, c)
    p.disc(-0.28, 0, 0.15, 0.14, WHITE)


def mince(p: Pen, c: Colour) -> None:
    """Minced meat."""
    p.half(0, 0.62, 0.98, 1.15, dark(c, 0.15), up=True)
    for i, (x, y) in enumerate(
        (
            (-0.6, 0.35),
            (-0.2, 0.4),
            (0.25, 0.38),
            (0.65, 0.4),
            (-0.4, 0.02),
            (0.05, 0.05),
            (0.45, 0.05),
            (-0.12, -0.3),
            (0.2, -0.28),
        )
    ):
        p.arc(x, y, 0.2, 0.14, 200 + 40 * (i % 3), 420 + 40 * (i % 3), 0.13, light(c, 0.12 + 0.14 * (i % 2)))


def fish(p: Pen, c: Colour) -> None:
    """A fish."""
    p.poly([(0.45, 0), (0.98, -0.5), (0.86, 0), (0.98, 0.5)], dark(c, 0.2))
    p.poly([(-0.2, -0.4), (0.15, -0.78), (0.35, -0.3)], dark(c, 0.2))
    p.disc(-0.18, 0, 0.8, 0.48, c)
    p.half(-0.18, 0, 0.78, 0.47, light(c, 0.5))
    p.disc(-0.68, -0.12, 0.1, 0.1, WHITE)
    p.disc(-0.68, -0.12, 0.05, 0.05, IRON)
    p.arc(-0.42, 0, 0.12, 0.34, -70, 70, 0.05, dark(c, 0.35))
    for x in (-0.05, 0.2, 0.42):
        p.arc(x, -0.02, 0.08, 0.2, -70, 70, 0.04, dark(c, 0.2))


def shrimp(p: Pen, c: Colour) -> None:
    """A prawn."""
    p.arc(0, 0.08, 0.55, 0.52, -200, 100, 0.46, dark(c, 0.1))
    p.arc(0, 0.08, 0.6, 0.57, -195, 95, 0.26, c)
    for angle in (-160, -110, -60, -10, 40):
        x, y = math.cos(math.radians(angle)), math.sin(math.radians(angle))
        p.line([(x * 0.42, 0.08 + y * 0.4), (x * 0.78, 0.08 + y * 0.74)], 0.05, light(c, 0.55))
    p.poly([(-0.1, 0.6), (-0.62, 0.48), (-0.5, 0.72), (-0.66, 0.95), (-0.1, 0.75)], dark(c, 0.15))
    p.disc(-0.5, 0.1, 0.06, 0.06, IRON)
    p.line([(-0.6, -0.05), (-0.98, -0.4)], 0.04, dark(c, 0.2))


def crab(p: Pen, c: Colour) -> None:
    """A crab or lobster."""
    for s in (-1, 1):
        p.line([(s * 0.4, -0.1), (s * 0.8, -0.4)], 0.14, c)
        p.disc(s * 0.8, -0.58, 0.24, 0.28, c)
        p.poly([(s * 0.8, -0.62), (s * 0.7, -0.95), (s * 0.92, -0.95)], CREAM)
        for y in (0.2, 0.42, 0.62):
            p.line([(s * 0.4, y - 0.1), (s * 0.9, y)], 0.09, dark(c, 0.15))
    p.disc(0, 0.2, 0.66, 0.5, dark(c, 0.12))
    p.disc(0, 0.14, 0.62, 0.42, c)
    for s in (-1, 1):
        p.disc(s * 0.2, -0.28, 0.1, 0.12, IRON)


def clam(p: Pen, c: Colour) -> None:
    """A shell."""
    p.half(0, 0.55, 0.95, 1.35, c, up=True)
    for angle in (-50, -25, 0, 25, 50):
        p.line(
            [(0, 0.5), (0.85 * math.sin(math.radians(angle)), 0.5 - 1.1 * math.cos(math.radians(angle)))],
            0.05,
            dark(c, 0.28),
        )
    p.box(-0.25, 0.45, 0.25, 0.7, dark(c, 0.15), 0.08)


def egg(p: Pen, c: Colour) -> None:
    """An egg in its shell and a broken one with its yolk."""
    p.disc(0.34, 0.42, 0.66, 0.44, WHITE)
    p.disc(-0.02, 0.52, 0.4, 0.26, WHITE)
    p.disc(0.36, 0.38, 0.28, 0.24, rgb("f6b32c"))
    p.disc(0.28, 0.32, 0.1, 0.07, rgb("fde08a"))
    q = p.at(-0.34, -0.25, 1, -12)
    q.disc(0, 0.1, 0.5, 0.55, dark(c, 0.14))
    q.disc(0, -0.12, 0.42, 0.58, dark(c, 0.14))
    q.disc(-0.05, 0.07, 0.44, 0.5, c)
    q.disc(-0.05, -0.14, 0.36, 0.52, c)
    q.disc(-0.16, -0.25, 0.1, 0.18, light(c, 0.7))


def bottle_milk(p: Pen, c: Colour) -> None:
    """A milk bottle filled with milk, cream or buttermilk."""
    p.box(-0.3, -0.98, 0.3, -0.72, rgb("5b8fd0"), 0.08)
    p.poly(
        [
            (-0.24, -0.74),
            (0.24, -0.74),
            (0.26, -0.45),
            (0.52, -0.1),
            (0.52, 0.95),
            (-0.52, 0.95),
            (-0.52, -0.1),
            (-0.26, -0.45),
        ],
        GLASS,
    )
    p.poly([(-0.2, -0.4), (0.2, -0.4), (0.44, -0.05), (0.44, 0.87), (-0.44, 0.87), (-0.44, -0.05)], c)
    p.poly([(0.16, -0.4), (0.2, -0.4), (0.44, -0.05), (0.44, 0.87), (0.2, 0.87), (0.2, -0.05)], dark(c, 0.1))
    p.box(-0.34, 0.15, -0.24, 0.7, light(c, 0.9), 0.05)


def butter(p: Pen, c: Colour) -> None:
    """A stick of butter on its paper, one slice cut."""
    p.poly([(-1, 0.55), (0.5, 0.75), (1, 0.35), (-0.4, 0.2)], WHITE)
    p.poly([(-0.8, -0.1), (0.3, 0.05), (0.3, 0.6), (-0.8, 0.42)], c)
    p.poly([(-0.8, -0.1), (-0.35, -0.38), (0.72, -0.25), (0.3, 0.05)], light(c, 0.4))
    p.poly([(0.3, 0.05), (0.72, -0.25), (0.72, 0.28), (0.3, 0.6)], dark(c, 0.18))
    p.line([(-0.4, -0.04), (-0.4, 0.46)], 0.05, dark(c, 0.25))
    p.line([(-0.4, -0.04), (0.04, -0.33)], 0.05, dark(c, 0.12))


def cheese(p: Pen, c: Colour) -> None:
    """A wedge of cheese with holes."""
    p.poly([(-0.98, 0.0), (0.6, -0.68), (0.98, -0.05)], light(c, 0.35))
    p.poly([(-0.98, 0.0), (0.98, -0.05), (0.98, 0.68), (-0.98, 0.72)], c)
    p.poly([(0.6, 0.0), (0.98, -0.05), (0.98, 0.68), (0.6, 0.69)], dark(c, 0.12))
    for x, y, r in ((-0.5, 0.32, 0.16), (0.05, 0.45, 0.12), (0.22, 0.15, 0.1), (0.75, 0.35, 0.12)):
        p.disc(x, y, r, r, dark(c, 0.25))


def tub(p: Pen, c: Colour) -> None:
    """A tub of yoghurt or soft cheese with a swirl on top."""
    p.disc(0, -0.38, 0.6, 0.34, c)
    p.disc(0, -0.62, 0.36, 0.2, c)
    p.disc(0.06, -0.82, 0.16, 0.12, c)
    p.arc(0, -0.52, 0.4, 0.12, 10, 150, 0.06, dark(c, 0.12))
    p.poly([(-0.78, -0.3), (0.78, -0.3), (0.58, 0.92), (-0.58, 0.92)], rgb("7fb4d8"))
    p.poly([(0.35, -0.3), (0.78, -0.3), (0.58, 0.92), (0.25, 0.92)], rgb("6aa0c6"))
    p.box(-0.86, -0.4, 0.86, -0.18, WHITE, 0.1)


# ---------------------------------------------------------------------------------------------- from the store cupboard


def mound(p: Pen, c: Colour) -> None:
    """A heap of powder: spice, cocoa, breadcrumbs."""
    p.poly([(-0.98, 0.62), (-0.55, 0.15), (-0.15, -0.5), (0.05, -0.6), (0.3, -0.4), (0.6, 0.2), (0.98, 0.62)], c)
    p.disc(0, 0.62, 0.98, 0.24, c)
    p.poly([(0.05, -0.6), (0.3, -0.4), (0.6, 0.2), (0.98, 0.62), (0.5, 0.82), (0.25, 0.2)], dark(c, 0.18))
    for x, y in ((-0.4, 0.35), (-0.15, 0.05), (-0.6, 0.6), (0.05, 0.5), (-0.1, -0.3)):
        p.disc(x, y, 0.05, 0.05, light(c, 0.4))


def grains(p: Pen, c: Colour) -> None:
    """A heap of small grains: rice, oats, seeds, nuts, pulses."""
    p.poly([(-0.95, 0.6), (-0.45, -0.1), (0, -0.5), (0.45, -0.1), (0.95, 0.6)], dark(c, 0.2))
    p.disc(0, 0.6, 0.95, 0.22, dark(c, 0.2))
    rows = (
        (0.62, (-0.72, -0.38, -0.04, 0.32, 0.7)),
        (0.3, (-0.5, -0.16, 0.2, 0.52)),
        (0.0, (-0.3, 0.04, 0.34)),
        (-0.3, (-0.1, 0.16)),
    )
    for row, (y, xs) in enumerate(rows):
        for i, x in enumerate(xs):
            p.at(x, y, 1, 50 * ((i + row) % 3) - 40).disc(0, 0, 0.17, 0.11, light(c, 0.25 if (i + row) % 2 else 0.0))


def pulses(p: Pen, c: Colour) -> None:
    """A heap of beans, peas or chickpeas: larger than grains."""
    rows = ((0.55, (-0.66, -0.22, 0.24, 0.68)), (0.12, (-0.42, 0.02, 0.46)), (-0.3, (-0.18, 0.24)))
    for row, (y, xs) in enumerate(rows):
        for i, x in enumerate(xs):
            q = p.at(x, y, 1, 45 * ((i + row) % 3) - 45)
            q.disc(0.02, 0.03, 0.28, 0.21, dark(c, 0.25))
            q.disc(0, 0, 0.25, 0.18, c)
            q.disc(-0.08, -0.06, 0.08, 0.05, light(c, 0.55))


def sack(p: Pen, c: Colour) -> None:
    """A paper sack of flour, cornmeal or another meal, with a spoonful in front."""
    p.poly([(-0.62, -0.75), (0.5, -0.75), (0.62, 0.8), (-0.7, 0.8)], rgb("e6d3b1"))
    p.poly([(0.2, -0.75), (0.5, -0.75), (0.62, 0.8), (0.25, 0.8)], rgb("d4bd95"))
    p.poly([(-0.62, -0.75), (-0.5, -0.98), (0.4, -0.98), (0.5, -0.75)], rgb("c9b083"))
    for s in (-0.2, 0.0, 0.2):
        p.at(-0.08 + s, -0.1, 0.3, 60 * s * 2).disc(0, -0.3, 0.2, 0.62, rgb("c08d3e"))
    p.line([(-0.08, 0.35), (-0.08, -0.2)], 0.05, rgb("c08d3e"))
    p.half(0.42, 0.92, 0.55, 0.46, c, up=True)
    p.half(0.5, 0.92, 0.46, 0.3, dark(c, 0.08), up=True)


def sugar(p: Pen, c: Colour) -> None:
    """Sugar cubes on a little heap."""
    p.half(0, 0.8, 0.98, 0.55, dark(c, 0.06), up=True)
    for x, y in ((-0.42, 0.15), (0.42, 0.2), (0.02, -0.42)):
        p.poly([(x - 0.36, y - 0.15), (x, y + 0.02), (x, y + 0.5), (x - 0.36, y + 0.3)], c)
        p.poly([(x + 0.36, y - 0.15), (x, y + 0.02), (x, y + 0.5), (x + 0.36, y + 0.3)], dark(c, 0.16))
        p.poly([(x - 0.36, y - 0.15), (x, y - 0.32), (x + 0.36, y - 0.15), (x, y + 0.02)], light(c, 0.6))


def shaker(p: Pen, c: Colour) -> None:
    """A shaker of salt (white) or pepper and spice (colour inside)."""
    p.poly([(-0.38, -0.35), (0.38, -0.35), (0.58, 0.95), (-0.58, 0.95)], GLASS)
    p.poly([(-0.42, 0.05), (0.42, 0.05), (0.52, 0.88), (-0.52, 0.88)], c)
    p.poly([(0.2, 0.05), (0.42, 0.05), (0.52, 0.88), (0.28, 0.88)], dark(c, 0.15))
    p.half(0, -0.35, 0.46, 0.6, STEEL, up=True)
    p.box(-0.46, -0.42, 0.46, -0.22, dark(STEEL, 0.2), 0.06)
    for x, y in ((-0.2, -0.65), (0, -0.78), (0.2, -0.65)):
        p.disc(x, y, 0.06, 0.05, IRON)


def bottle(p: Pen, c: Colour) -> None:
    """A slim bottle: oil, vinegar, soy sauce, wine."""
    p.box(-0.16, -1.0, 0.16, -0.78, rgb("8c6a4a"), 0.05)
    p.poly(
        [
            (-0.14, -0.8),
            (0.14, -0.8),
            (0.15, -0.45),
            (0.42, -0.15),
            (0.42, 0.95),
            (-0.42, 0.95),
            (-0.42, -0.15),
            (-0.15, -0.45),
        ],
        c,
    )
    p.poly(
        [
            (0.05, -0.8),
            (0.14, -0.8),
            (0.15, -0.45),
            (0.42, -0.15),
            (0.42, 0.95),
            (0.2, 0.95),
            (0.2, -0.1),
            (0.06, -0.4),
        ],
        dark(c, 0.2),
    )
    p.box(-0.42, 0.15, 0.42, 0.65, rgb("f7efdc"), 0.03)
    p.disc(0, 0.4, 0.14, 0.17, c)
    p.line([(-0.28, -0.05), (-0.28, 0.08)], 0.08, light(c, 0.6))


def jar(p: Pen, c: Colour) -> None:
    """A jar: honey, jam, mustard, mayonnaise, paste."""
    p.box(-0.66, -0.6, 0.66, 0.92, GLASS, 0.24)
    p.box(-0.58, -0.3, 0.58, 0.85, c, 0.2)
    p.box(0.22, -0.3, 0.58, 0.85, dark(c, 0.14), 0.2)
    p.box(-0.6, -0.92, 0.6, -0.58, rgb("d86a55"), 0.1)
    p.box(-0.6, -0.7, 0.6, -0.58, rgb("b9523f"), 0.05)
    p.box(-0.46, -0.15, -0.34, 0.5, light(c, 0.6), 0.06)


def tin(p: Pen, c: Colour) -> None:
    """A small tin: baking powder, yeast, gelatine, bouillon."""
    p.box(-0.6, -0.7, 0.6, 0.85, c, 0.08)
    p.box(0.2, -0.7, 0.6, 0.85, dark(c, 0.15), 0.08)
    p.box(-0.6, -0.1, 0.6, 0.42, CREAM)
    p.disc(0, 0.16, 0.2, 0.2, c)
    p.box(-0.66, -0.9, 0.66, -0.62, STEEL, 0.08)


def jug(p: Pen, c: Colour) -> None:
    """A glass jug filled with a liquid."""
    p.arc(0.62, 0.0, 0.36, 0.45, -90, 90, 0.16, rgb("b9d3dc"))
    p.poly([(-0.75, -0.85), (0.66, -0.85), (0.56, 0.92), (-0.58, 0.92)], GLASS)
    p.poly([(-0.75, -0.85), (-0.98, -0.7), (-0.7, -0.45)], GLASS)
    p.poly([(-0.64, -0.3), (0.58, -0.3), (0.51, 0.84), (-0.53, 0.84)], c)
    p.disc(-0.03, -0.3, 0.61, 0.14, light(c, 0.35))
    p.poly([(0.22, -0.2), (0.58, -0.26), (0.51, 0.84), (0.2, 0.84)], dark(c, 0.1))
    for y in (0.05, 0.3, 0.55):
        p.line([(-0.5, y), (-0.28, y)], 0.06, WHITE)


def water(p: Pen, c: Colour) -> None:
    """A jug of water with a drop beside it."""
    jug(p.at(0.12, 0.08, 0.88), c)
    drop(p.at(-0.78, 0.35, 0.36), c)


def drop(p: Pen, c: Colour) -> None:
    """A drop."""
    p.poly([(0, -1.1), (0.55, 0.0), (-0.55, 0.0)], c)
    p.disc(0, 0.22, 0.62, 0.62, c)
    p.disc(-0.22, 0.3, 0.14, 0.22, light(c, 0.7))


def chocolate(p: Pen, c: Colour) -> None:
    """A bar of chocolate in its foil."""
    q = p.at(0, 0, 1, -14)
    q.box(-0.7, -0.95, 0.7, 0.9, c, 0.06)
    for i in range(2):
        for j in range(4):
            x, y = -0.58 + i * 0.62, -0.84 + j * 0.44
            q.box(x, y, x + 0.52, y + 0.34, light(c, 0.14), 0.05)
            q.box(x, y + 0.24, x + 0.52, y + 0.34, dark(c, 0.2), 0.04)
    q.poly(
        [(-0.76, 0.28), (-0.38, 0.12), (0, 0.28), (0.38, 0.12), (0.76, 0.28), (0.76, 0.98), (-0.76, 0.98)],
        rgb("d9dee3"),
    )
    q.box(-0.76, 0.5, 0.76, 0.98, RED, 0.03)


def nuts(p: Pen, c: Colour) -> None:
    """Three nuts."""
    for x, y, angle in ((-0.42, 0.3, -30), (0.45, 0.32, 25), (0.02, -0.35, 0)):
        q = p.at(x, y, 0.52, angle)
        q.poly([(0, -1.05), (0.6, -0.4), (-0.6, -0.4)], dark(c, 0.12))
        q.disc(0, 0.1, 0.72, 0.85, dark(c, 0.12))
        q.disc(-0.08, 0.06, 0.58, 0.72, c)
        for k in (-0.3, 0, 0.3):
            q.line([(k * 0.5, -0.6), (k, 0.1), (k * 0.7, 0.6)], 0.08, dark(c, 0.35))


def cinnamon(p: Pen, c: Colour) -> None:
    """Sticks of cinnamon or vanilla, bound."""
    q = p.at(0, 0, 1, -28)
    for y, shade in ((-0.26, 0.0), (0.26, 0.14), (0.0, 0.06)):
        q.box(-0.95, y - 0.17, 0.95, y + 0.17, dark(c, shade), 0.1)
        q.line([(-0.8, y), (0.8, y)], 0.05, dark(c, 0.45))
    q.box(-0.12, -0.5, 0.12, 0.5, rgb("e9d7b0"), 0.05)


def ice(p: Pen, c: Colour) -> None:
    """Ice cubes."""
    for x, y, angle in ((-0.4, 0.35, -10), (0.42, 0.3, 14), (0.0, -0.4, 24)):
        q = p.at(x, y, 0.48, angle)
        q.box(-0.9, -0.9, 0.9, 0.9, dark(c, 0.12), 0.22)
        q.box(-0.8, -0.8, 0.66, 0.66, c, 0.2)
        q.box(-0.6, -0.6, -0.1, -0.4, WHITE, 0.1)


def pasta(p: Pen, c: Colour) -> None:
    """A bundle of spaghetti."""
    q = p.at(0, 0, 1, 28)
    for i in range(7):
        x = (i - 3) * 0.13
        q.line([(x * 1.5, -0.92), (x * 0.75, 0), (x * 1.5, 0.92)], 0.1, c if i % 2 else dark(c, 0.15))
    q.box(-0.42, -0.16, 0.42, 0.16, rgb("cf5f4a"), 0.06)


def noodles(p: Pen, c: Colour) -> None:
    """A nest of noodles."""
    p.disc(0, 0.2, 0.95, 0.68, dark(c, 0.16))
    for rx, ry, k in ((0.84, 0.56, 0.0), (0.64, 0.42, 0.14), (0.44, 0.28, 0.0), (0.24, 0.14, 0.14)):
        p.disc(0, 0.1, rx, ry, dark(c, k + 0.12))
        p.disc(0, 0.06, rx - 0.05, ry - 0.05, dark(c, k))
    for s in (-1, 1):
        p.line([(s * 0.9, 0.4), (s * 0.6, 0.6), (s * 0.1, 0.64), (-s * 0.3, 0.85)], 0.09, c)


def loaf(p: Pen, c: Colour) -> None:
    """A loaf of bread, cut open."""
    p.box(-0.95, -0.2, 0.75, 0.7, dark(c, 0.2), 0.15)
    p.disc(-0.1, -0.22, 0.86, 0.42, c)
    p.box(-0.95, -0.25, 0.75, 0.6, c, 0.15)
    for x in (-0.6, -0.2, 0.2):
        p.line([(x, -0.5), (x + 0.16, -0.2)], 0.1, light(c, 0.5))
    p.disc(0.62, -0.2, 0.34, 0.3, dark(c, 0.2))
    p.box(0.34, -0.2, 0.92, 0.7, dark(c, 0.2), 0.1)
    p.disc(0.62, -0.18, 0.26, 0.22, rgb("fbeacb"))
    p.box(0.42, -0.18, 0.83, 0.62, rgb("fbeacb"), 0.08)


def flat_bread(p: Pen, c: Colour) -> None:
    """Tortillas, pancakes, flat loaves: discs in a stack."""
    for y in (0.45, 0.22, 0.0):
        p.disc(0, y + 0.08, 0.96, 0.44, dark(c, 0.22))
        p.disc(0, y, 0.96, 0.42, c)
    for x, y, r in ((-0.4, -0.08, 0.15), (0.15, 0.15, 0.18), (0.5, -0.1, 0.12), (-0.1, -0.2, 0.1)):
        p.disc(x, y, r, r * 0.5, dark(c, 0.2))


def dough(p: Pen, c: Colour) -> None:
    """A ball of dough."""
    p.disc(0, 0.22, 0.98, 0.66, dark(c, 0.16))
    p.disc(-0.05, 0.1, 0.9, 0.64, c)
    p.arc(-0.2, 0.05, 0.5, 0.32, 200, 320, 0.08, light(c, 0.7))
    p.arc(0.25, 0.2, 0.4, 0.24, 20, 140, 0.07, dark(c, 0.2))


def cake(p: Pen, c: Colour) -> None:
    """A slice of layer cake."""
    icing = rgb("f2a3b3")
    p.poly([(-0.95, -0.1), (0.5, -0.62), (0.95, -0.2)], light(icing, 0.35))
    p.poly([(-0.95, -0.1), (0.95, -0.2), (0.95, 0.72), (-0.95, 0.75)], c)
    p.poly([(-0.95, -0.1), (0.95, -0.2), (0.95, 0.02), (-0.95, 0.1)], icing)
    p.poly([(-0.95, 0.36), (0.95, 0.28), (0.95, 0.42), (-0.95, 0.5)], CREAM)
    ball(p.at(0.45, -0.58, 0.24), RED)


def ice_cream(p: Pen, c: Colour) -> None:
    """Scoops in a cup."""
    for x, y, k in ((-0.4, -0.22, rgb("f4a9b8")), (0.4, -0.22, rgb("a9744f")), (0.0, -0.55, c)):
        ball(p.at(x, y, 0.48), k)
    p.half(0, 0.0, 0.9, 0.75, rgb("bcd9e6"))
    p.half(0.25, 0.0, 0.62, 0.68, rgb("a3c6d6"))
    p.box(-0.08, 0.6, 0.08, 0.85, rgb("a3c6d6"))
    p.disc(0, 0.88, 0.45, 0.1, rgb("a3c6d6"))


def muffin(p: Pen, c: Colour) -> None:
    """A muffin."""
    p.poly([(-0.62, 0.05), (0.62, 0.05), (0.44, 0.95), (-0.44, 0.95)], rgb("e58b7b"))
    for x in (-0.36, 0.0, 0.36):
        p.line([(x, 0.1), (x * 0.75, 0.9)], 0.07, rgb("c96a5a"))
    for x, y, r in ((-0.42, -0.1, 0.4), (0.42, -0.1, 0.4), (0, -0.32, 0.5)):
        p.disc(x, y, r, r * 0.86, c)
    for x, y in ((-0.3, -0.3), (0.15, -0.5), (0.35, -0.15), (-0.05, -0.1)):
        p.disc(x, y, 0.08, 0.07, dark(c, 0.5))


def cookies(p: Pen, c: Colour) -> None:
    """Two biscuits with drops of chocolate."""
    for x, y in ((-0.34, -0.22), (0.34, 0.28)):
        p.disc(x, y + 0.06, 0.62, 0.6, dark(c, 0.25))
        p.disc(x, y, 0.6, 0.58, c)
        for u, v in ((-0.25, -0.15), (0.15, -0.28), (0.26, 0.12), (-0.1, 0.22), (0.0, -0.02)):
            p.disc(x + u, y + v, 0.09, 0.08, rgb("5a3522"))


def pie(p: Pen, c: Colour) -> None:
    """A pie in its dish."""
    p.poly([(-0.98, 0.0), (0.98, 0.0), (0.7, 0.62), (-0.7, 0.62)], rgb("8fb3c4"))
    p.disc(0, 0.0, 0.98, 0.46, dark(c, 0.2))
    p.disc(0, -0.06, 0.9, 0.4, c)
    for x in (-0.5, 0.0, 0.5):
        p.line([(x - 0.25, -0.3 + abs(x) * 0.2), (x + 0.2, 0.2 - abs(x) * 0.2)], 0.08, light(c, 0.5))
        p.line([(x + 0.25, -0.3 + abs(x) * 0.2), (x - 0.2, 0.2 - abs(x) * 0.2)], 0.08, light(c, 0.5))


def pizza(p: Pen, c: Colour) -> None:
    """A slice of pizza."""
    p.poly([(-0.85, -0.55), (0.85, -0.55), (0, 0.98)], rgb("f4c95a"))
    p.line([(-0.82, -0.62), (0, -0.78), (0.82, -0.62)], 0.32, rgb("cf8f46"))
    for x, y in ((-0.3, -0.2), (0.3, -0.22), (0, 0.3)):
        p.disc(x, y, 0.19, 0.17, RED)
    leaf(p.at(0.05, -0.02, 0.16, 60), LEAF)


def dumplings(p: Pen, c: Colour) -> None:
    """Dumplings or filled pockets."""
    for x, y in ((-0.4, -0.18), (0.42, -0.1), (0, 0.42)):
        q = p.at(x, y, 0.58)
        q.half(0, 0.5, 0.95, 1.05, c, up=True)
        q.half(0.2, 0.5, 0.75, 0.7, dark(c, 0.08), up=True)
        for i in range(-2, 3):
            q.line([(i * 0.3, -0.45 + abs(i) * 0.16), (i * 0.2, -0.15 + abs(i) * 0.1)], 0.08, dark(c, 0.3))


def balls(p: Pen, c: Colour) -> None:
    """Meatballs, dough balls, truffles."""
    for x, y in ((-0.45, 0.35), (0.45, 0.38), (0.0, -0.3)):
        ball(p.at(x, y, 0.5), c)


def patty(p: Pen, c: Colour) -> None:
    """A burger patty or cutlet."""
    p.disc(0, 0.2, 0.95, 0.52, dark(c, 0.25))
    p.disc(0, 0.05, 0.95, 0.5, c)
    for x in (-0.45, 0.0, 0.45):
        p.line([(x - 0.15, 0.22), (x + 0.15, -0.14)], 0.09, dark(c, 0.4))


def sandwich(p: Pen, c: Colour) -> None:
    """A burger or sandwich."""
    p.box(-0.85, 0.5, 0.85, 0.85, c, 0.18)
    p.box(-0.92, 0.24, 0.92, 0.5, rgb("8a4b2d"), 0.1)
    p.poly([(-0.95, 0.1), (0.95, 0.1), (0.7, 0.3), (0.4, 0.16), (0.1, 0.32), (-0.3, 0.16), (-0.65, 0.3)], rgb("f6c445"))
    p.line([(-0.8, 0.06), (-0.4, 0.12), (0, 0.04), (0.4, 0.12), (0.8, 0.05)], 0.16, GREEN)
    p.half(0, 0.02, 0.88, 0.85, c, up=True)
    for x, y in ((-0.35, -0.4), (0.05, -0.58), (0.4, -0.38), (0.0, -0.25)):
        p.disc(x, y, 0.07, 0.05, CREAM)


def tofu(p: Pen, c: Colour) -> None:
    """Cubes of tofu or another white block."""
    for x, y, s in ((-0.35, 0.1, 0.8), (0.5, 0.35, 0.6)):
        q = p.at(x, y, s)
        q.poly([(-0.7, -0.35), (0.05, -0.1), (0.05, 0.75), (-0.7, 0.45)], c)
        q.poly([(0.05, -0.1), (0.75, -0.4), (0.75, 0.4), (0.05, 0.75)], dark(c, 0.16))
        q.poly([(-0.7, -0.35), (0.0, -0.65), (0.75, -0.4), (0.05, -0.1)], light(c, 0.6))


def bowl_of(p: Pen, c: Colour) -> None:
    """A small bowl of sauce, dressing, soup or paste."""
    p.half(0, -0.1, 0.96, 0.95, rgb("f3efe6"))
    p.half(0.3, -0.1, 0.66, 0.9, rgb("dcd5c7"))
    p.disc(0, -0.1, 0.96, 0.34, rgb("fffdf6"))
    p.disc(0, -0.08, 0.82, 0.26, c)
    p.arc(-0.1, -0.08, 0.45, 0.12, 160, 300, 0.07, light(c, 0.45))
    p.box(-0.38, 0.76, 0.38, 0.92, rgb("dcd5c7"), 0.06)


def cup(p: Pen, c: Colour) -> None:
    """A cup of coffee or tea."""
    p.arc(0.62, 0.12, 0.3, 0.3, -90, 90, 0.16, rgb("e7dfd2"))
    p.poly([(-0.72, -0.4), (0.66, -0.4), (0.5, 0.66), (-0.55, 0.66)], WHITE)
    p.poly([(0.2, -0.4), (0.66, -0.4), (0.5, 0.66), (0.1, 0.66)], rgb("e9e2d6"))
    p.disc(-0.03, -0.4, 0.69, 0.2, WHITE)
    p.disc(-0.03, -0.38, 0.58, 0.14, c)
    p.disc(0, 0.8, 0.95, 0.16, rgb("d9d0c0"))


def skewer(p: Pen, c: Colour) -> None:
    """A kebab."""
    q = p.at(0, 0, 1, -35)
    q.line([(-1.1, 0), (1.1, 0)], 0.07, WOOD)
    for x, k in ((-0.62, c), (-0.22, rgb("e0b33c")), (0.18, c), (0.58, rgb("6fae4a"))):
        q.box(x - 0.18, -0.3, x + 0.18, 0.3, k, 0.1)


Drawing = Callable[[Pen, Colour], None]


def _table() -> dict[str, tuple[str, Drawing, Colour]]:
    """Word or phrase in the singular -> (kind, drawing, colour); words of one kind look alike."""
    # kind, drawing, colour, words
    rows: list[tuple[str, Drawing, str, str]] = [
        ("onion", onion, "d9a05a", "onion,white onion,yellow onion,brown onion,shallot"),
        ("red onion", onion, "a0527a", "red onion"),
        ("garlic", garlic, "f4ecdf", "garlic,garlic clove,clove of garlic"),
        ("tomato", tomato, "dd4a38", "tomato,cherry tomato,plum tomato"),
        ("carrot", carrot, "ee8a33", "carrot,parsnip"),
        ("potato", potato, "c99a5f", "potato,tater"),
        ("sweet potato", potato, "d6703f", "sweet potato"),
        ("bell pepper", bell_pepper, "d9443a", "bell pepper,red pepper,capsicum,red bell pepper"),
        ("green pepper", bell_pepper, "6aa845", "green pepper,green bell pepper"),
        ("chili", chili, "d33b2f",
            "chili,chile,chilli,chilie,red chili,hot pepper,scotch bonnet,habanero,cayenne pepper,cayenne,"
            "serrano,chipotle"),
        ("green chili", chili, "69a63f", "green chili,green chile,green chilli,jalapeño,jalapeno,poblano"),
        ("cucumber", long_vegetable, "5e9a48", "cucumber,pickle,gherkin"),
        ("zucchini", long_vegetable, "4f8a4a", "zucchini,courgette,summer squash"),
        ("eggplant", eggplant, "5d3a73", "eggplant,aubergine"),
        ("yam", root, "8a5f43", "yam,cassava,cocoyam,taro,yuca,horseradish"),
        ("ginger", ginger, "d7ae73", "ginger,galangal,turmeric root,ginger root"),
        ("corn", corn, "f3c544", "corn,sweetcorn,sweet corn,maize,hominy"),
        ("celery", stalks, "9cc46b", "celery,fennel,bok choy,rhubarb"),
        ("leek", stalks, "6fae55", "leek,green onion,spring onion,scallion,chive,lemongrass,asparagus"),
        ("green beans", beans_green, "63a343", "green bean,okra,snow pea,snap pea,pod,string bean"),
        ("cabbage", cabbage, "9cc66a", "cabbage,sauerkraut,brussels sprout,kimchi"),
        ("lettuce", cabbage, "86bf55", "lettuce,salad green,salad,arugula,rocket"),
        ("spinach", leafy, "4f9440",
            "spinach,kale,collard,chard,bitter leaf,bitterleaf,ugu,greens,vegetable,veggie,seaweed,nori"),
        ("herbs", herb, "5a9e46",
            "herb,parsley,basil,cilantro,mint,oregano,dill,sage,tarragon,marjoram,coriander leave,"
            "fresh coriander,celery leave,fenugreek leave,bouquet garni,thyme,rosemary,bay leaf,bay leave,bay,"
            "curry leave,scent leave,banana leave"),
        ("mushroom", mushroom, "c79f78", "mushroom,porcini,shiitake,truffle"),
        ("broccoli", broccoli, "5a9a43", "broccoli"),
        ("cauliflower", broccoli, "f2ead6", "cauliflower"),
        ("pumpkin", pumpkin, "e98a35", "pumpkin,squash,butternut squash"),
        ("beet", tomato, "8e2f55", "beet,beetroot,radish,turnip"),
        ("peas", pulses, "7db84a", "pea,green pea,lima bean,broad bean,fava bean,edamame,caper"),
        ("beans", pulses, "8c3b32",
            "bean,kidney bean,red bean,pinto bean,baked bean,black-eyed pea,black eyed pea,brown bean"),
        ("black beans", pulses, "3b3238", "black bean"),
        ("chickpeas", pulses, "e0bd78", "chickpea,garbanzo,chick pea,white bean,locust bean,soybean,split pea"),
        ("lentils", grains, "c98445", "lentil,dal,dhal,mung bean,mung dal"),
        ("apple", apple, "d5483d", "apple,crabapple"),
        ("pear", apple, "b9c452", "pear,quince,guava,fruit"),
        ("peach", apple, "f0a052", "peach,apricot,mango,mangoe,nectarine,persimmon,papaya"),
        ("lemon", citrus, "f5d23d", "lemon,lemon juice,lemon zest,citrus"),
        ("lime", citrus, "8fc544", "lime,lime juice,lime zest"),
        ("orange", citrus, "f29a2e", "orange,orange juice,orange zest,grapefruit,clementine,zest,peel of orange"),
        ("banana", banana, "f6d54a", "banana"),
        ("plantain", banana, "9fb448", "plantain"),
        ("strawberry", strawberry, "e2433f", "strawberry,strawberrie"),
        ("berries", berries, "8b3a78",
            "berry,berrie,blackberry,blackberrie,grape,plum,prune,raisin,currant,sultana,date,fig"),
        ("raspberry", berries, "d8405e", "raspberry,raspberrie,cranberry,cranberrie,pomegranate,lingonberry"),
        ("blueberry", berries, "4c5ea8", "blueberry,blueberrie"),
        ("cherry", cherries, "c22f3a", "cherry,cherrie"),
        ("pineapple", pineapple, "efbb3f", "pineapple"),
        ("coconut", coconut, "fbf8f0", "coconut"),
        ("watermelon", citrus, "e3514d", "watermelon,melon,cantaloupe"),
        ("avocado", avocado, "dbe38b", "avocado,avocadoe,guacamole"),
        ("olives", olives, "8a9a3c", "olive"),
        ("beef", steak, "b7413c",
            "beef,steak,meat,lamb,veal,goat,mutton,venison,roast beef,brisket,goat meat,tripe,liver"),
        ("chicken", drumstick, "d9974f",
            "chicken,chicken breast,chicken thigh,chicken leg,turkey,duck,poultry,hen,wing,drumstick"),
        ("pork", ham, "e79a92", "pork,ham,pork chop,prosciutto,pancetta,rib"),
        ("bacon", bacon, "b8493e", "bacon"),
        ("sausage", sausage, "b25a3f", "sausage,chorizo,hot dog,frankfurter,salami,pepperoni"),
        ("mince", mince, "b9534a",
            "ground beef,ground meat,mince,minced meat,hamburger meat,ground pork,ground turkey,ground lamb"),
        ("meatballs", balls, "8f5638", "meatball,truffles"),
        ("patty", patty, "8f5638", "patty,pattie,cutlet,burger,fritter,croquette"),
        ("fish", fish, "7fa6bd",
            "fish,cod,tuna,trout,tilapia,herring,mackerel,catfish,halibut,anchovy,anchovie,sardine,fish fillet,"
            "fillet,stockfish,eel"),
        ("salmon", fish, "e98e72", "salmon"),
        ("shrimp", shrimp, "f08f6c", "shrimp,prawn,crayfish"),
        ("crab", crab, "d8523f", "crab,lobster,crabmeat"),
        ("clams", clam, "c9a68c", "clam,mussel,oyster,scallop,squid,snail,seafood"),
        ("egg", egg, "efcfa6", "egg,egg white,egg yolk,yolk"),
        ("milk", bottle_milk, "fdfdfb", "milk,evaporated milk,condensed milk,soy milk,almond milk,buttermilk"),
        ("cream", bottle_milk, "fbeecb", "cream,whipping cream,heavy cream,double cream,half-and-half,creamer"),
        ("coconut milk", coconut, "fdfbf6", "coconut milk,coconut cream"),
        ("butter", butter, "f6d365", "butter,margarine,ghee,shortening,lard"),
        ("cheese", cheese, "f5bf42",
            "cheese,cheddar,parmesan,mozzarella,gruyere,feta,ricotta,paneer,cheddar cheese,parmesan cheese,"
            "swiss cheese,goat cheese"),
        ("yoghurt", tub, "fdfaf2",
            "yogurt,yoghurt,curd,sour cream,cream cheese,whipped cream,mascarpone,kefir,crème fraîche,labneh"),
        ("flour", sack, "fbf6ea", "flour,all-purpose flour,plain flour,semolina,masa,rice flour,dry ingredient"),
        ("cornmeal", sack, "f1cf6a", "cornmeal,polenta,grits,garri,besan,chickpea flour,gari,corn meal"),
        ("cornstarch", tin, "e9c33f", "cornstarch,corn starch,cornflour,starch,arrowroot,custard powder"),
        ("sugar", sugar, "fdfaf6",
            "sugar,white sugar,powdered sugar,icing sugar,caster sugar,sweetener,confectioners' sugar,"
            "granulated sugar"),
        ("brown sugar", sugar, "bd8648", "brown sugar,jaggery,palm sugar,muscovado"),
        ("salt", shaker, "ffffff", "salt,sea salt,garlic salt,msg"),
        ("pepper", shaker, "4b4445", "pepper,black pepper,peppercorn,white pepper,ground pepper"),
        ("spice", mound, "b9552b",
            "spice,paprika,chili powder,chile powder,chilli powder,seasoning,cayenne powder,garam masala,masala,"
            "allspice,clove,berbere,red pepper flake,chili flake,sumac,saffron,pepper flake"),
        ("curry powder", mound, "d9a02c", "curry powder,turmeric,curry,turmeric powder,mustard powder"),
        ("cumin", mound, "a8793f",
            "cumin,coriander,coriander powder,nutmeg,mace,cardamom,onion powder,garlic powder,ground coriander,"
            "five-spice powder,fenugreek,powder,ground cumin,cumin seed,coriander seed,asafoetida,anise,"
            "star anise,caraway"),
        ("cinnamon", cinnamon, "a8683a", "cinnamon,cinnamon stick"),
        ("vanilla", bottle, "5b3a26", "vanilla,vanilla extract,extract,vanilla essence,essence,almond extract"),
        ("oil", bottle, "e3b93a",
            "oil,olive oil,vegetable oil,canola oil,sunflower oil,cooking oil,cooking spray,sesame oil,"
            "peanut oil"),
        ("palm oil", bottle, "d9582b", "palm oil,red oil"),
        ("vinegar", bottle, "c9b48c",
            "vinegar,apple cider vinegar,rice vinegar,white vinegar,balsamic vinegar,mirin,fish sauce"),
        ("soy sauce", bottle, "4a2d23",
            "soy sauce,worcestershire sauce,worcestershire,tamari,oyster sauce,teriyaki sauce,teriyaki"),
        ("wine", bottle, "6d2440", "wine,red wine,sherry,marsala"),
        ("white wine", bottle, "cfd49a",
            "white wine,sake,champagne,gin,vodka,rum,brandy,tequila,whiskey,whisky,liqueur,alcohol,cognac,"
            "bourbon,liquor"),
        ("beer", jug, "e0a030", "beer,ale,cider,stout"),
        ("water", water, "8cc7e6",
            "water,ice water,hot water,cold water,boiling water,warm water,soda water,club soda"),
        ("broth", jug, "d9a55a",
            "broth,stock,chicken broth,chicken stock,beef broth,beef stock,vegetable broth,vegetable stock,"
            "bouillon,consommé"),
        ("juice", jug, "f2b04a", "juice,apple juice,pineapple juice,lemonade,soda,cola,coke,ginger ale"),
        ("tomato sauce", bowl_of, "cf3f2d",
            "tomato sauce,tomato paste,tomato purée,tomato puree,pasta sauce,salsa,ketchup,barbecue sauce,"
            "bbq sauce,marinara,hot sauce,enchilada sauce,passata"),
        ("sauce", bowl_of, "a8623a", "sauce,gravy,marinade,glaze,tamarind,stew,chutney,miso,tahini,hummus,caramel"),
        ("dressing", bowl_of, "f0dd9a",
            "dressing,mayonnaise,mayo,vinaigrette,aioli,batter,custard,pudding,frosting,icing,meringue"),
        ("soup", bowl_of, "d98f4a", "soup,porridge,chowder"),
        ("honey", jar, "eda52b", "honey,syrup,maple syrup,corn syrup,molasses,agave,treacle,golden syrup"),
        ("jam", jar, "b32f45", "jam,jelly,marmalade,preserve,cranberry sauce"),
        ("peanut butter", jar, "c08a4a", "peanut butter,nutella,nut butter"),
        ("mustard", jar, "d9ae2e", "mustard,dijon mustard,dijon"),
        ("chocolate", chocolate, "6b4029",
            "chocolate,chocolate chip,dark chocolate,milk chocolate,white chocolate,nesquik"),
        ("cocoa", mound, "6e4630", "cocoa,cocoa powder"),
        ("coffee", cup, "5b3a26", "coffee,espresso,coffee powder"),
        ("tea", cup, "c07f35", "tea,tea bag,tea leave"),
        ("nuts", nuts, "c08a52",
            "nut,almond,walnut,pecan,hazelnut,cashew,peanut,pistachio,groundnut,macadamia,pine nut,chestnut"),
        ("seeds", grains, "e8d6a8",
            "seed,sesame seed,sesame,poppy seed,mustard seed,sunflower seed,fennel seed,egusi,melon seed,"
            "chia seed,flaxseed"),
        ("oats", grains, "dcc08c",
            "oat,oatmeal,rolled oat,granola,cereal,muesli,barley,quinoa,bulgur,couscous,millet,wheat,bran,muesli"),
        ("rice", grains, "f6f2e6", "rice,basmati rice,white rice,brown rice,risotto,long-grain rice"),
        ("breadcrumbs", mound, "d3a25e", "breadcrumb,bread crumb,crumb,cracker crumb,panko,cracker,crouton,matzo meal"),
        ("pasta", pasta, "efcb6a",
            "pasta,spaghetti,linguine,macaroni,penne,fettuccine,lasagna,lasagne,vermicelli,spaghettini"),
        ("noodles", noodles, "efcf83", "noodle,ramen,udon,egg noodle"),
        ("bread", loaf, "c98543", "bread,baguette,bun,rolls,bread slice,biscuits dough"),
        ("tortilla", flat_bread, "efd59a", "tortilla,flatbread,pita,naan,chapati,roti,injera,wrapper,crêpe,crepe"),
        ("pancake", flat_bread, "dba257", "pancake,waffle,blini,omelette,omelet,dosa"),
        ("dough", dough, "f0d9ae", "dough,pastry,puff pastry,crust,pie crust,shortcrust pastry,fufu,filo,phyllo"),
        ("yeast", tin, "d96b4f", "yeast,dry yeast,active dry yeast"),
        ("baking powder", tin, "5f9ac2", "baking powder,baking soda,bicarbonate of soda,cream of tartar,bicarbonate"),
        ("gelatine", tin, "d9569a",
            "gelatin,gelatine,agar,jello,pectin,bouillon cube,stock cube,seasoning cube,maggi,maggi cube"),
        ("cake", cake, "e0b06a", "cake,sponge,cheesecake,brownie,tiramisu"),
        ("muffin", muffin, "d59a52", "muffin,cupcake,scone"),
        ("cookies", cookies, "d3a05c", "cookie,biscuit,wafer,shortbread,gingerbread,ladyfinger"),
        ("pie", pie, "dca654", "pie,tart,quiche,casserole,cobbler"),
        ("pizza", pizza, "f4c95a", "pizza"),
        ("dumplings", dumplings, "f1ddb6",
            "dumpling,ravioli,wonton,empanada,samosa,tamale,momo,gnocchi,pierogi,tortellini"),
        ("balls", balls, "d9b27a", "ball,doughnut,donut,bonbon"),
        ("sandwich", sandwich, "d9a050", "sandwich,hamburger,taco,burrito"),
        ("tofu", tofu, "fbf3df", "tofu,tempeh,seitan,marshmallow"),
        ("ice", ice, "cfe9f5", "ice,ice cube,crushed ice"),
        ("ice cream", ice_cream, "fbf0d2", "ice cream,gelato,sorbet,sherbet"),
        ("skewer", skewer, "a9573a", "skewer,kebab"),
    ]  # fmt: skip
    table: dict[str, tuple[str, Drawing, Colour]] = {}
    for kind, drawing, code, words in rows:
        for word in words.split(","):
            table.setdefault(word, (kind, drawing, rgb(code)))
    return table


INGREDIENTS = _table()
