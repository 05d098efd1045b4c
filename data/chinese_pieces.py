"""Flat drawings of what lies in a Chinese dish: ingredients as they are cut, cooked and strewn.

A piece is a function of a `Pen` (coordinates from -1 to 1, y downwards, light from the upper left) and a colour.
`PIECES` maps the Chinese words of a dish's ingredients to pieces.
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass

from data import drawings
from data.drawings import CREAM, GREEN, LEAF, WHITE, Colour, Pen, blend, dark, light, rgb

Piece = Callable[[Pen, Colour], None]

_SKIN, _FAT, _BONE = rgb("8e3b22"), rgb("f3d9b8"), rgb("f4ead6")

# ---------------------------------------------------------------------------------------------------- cuts of all kinds


def _smooth(*points: drawings.Point, times: int = 2) -> list[drawings.Point]:
    """A closed outline with its corners cut, so that it looks cooked and not carpentered."""
    outline = list(points)
    for _ in range(times):
        rounder = []
        for (ax, ay), (bx, by) in zip(outline, [*outline[1:], outline[0]], strict=True):
            rounder += [(0.75 * ax + 0.25 * bx, 0.75 * ay + 0.25 * by), (0.25 * ax + 0.75 * bx, 0.25 * ay + 0.75 * by)]
        outline = rounder
    return outline


_CHUNK = (
    _smooth((-1.05, 0.25), (-0.6, -0.85), (0.45, -0.95), (1.05, -0.1), (0.75, 0.95), (-0.45, 1.05)),
    _smooth((-1.0, 0.05), (-0.6, -0.85), (0.45, -0.95), (1.02, -0.2), (0.6, 0.6), (-0.45, 0.65)),
    _smooth((-0.65, -0.4), (-0.25, -0.72), (0.35, -0.7), (-0.05, -0.25)),
)
_SLICE = _smooth((-1.1, 0.1), (-0.7, -0.6), (0.1, -0.75), (0.9, -0.55), (1.1, 0.05), (0.6, 0.6), (-0.3, 0.5))
_FILLET = _smooth((-1.1, 0.1), (-0.8, -0.6), (0.2, -0.75), (1.12, -0.32), (1.0, 0.3), (0.2, 0.6), (-0.8, 0.56))
_FOWL = (
    _smooth((-1.0, 0.3), (-0.8, -0.6), (-0.1, -0.95), (0.6, -0.7), (1.05, 0.1), (0.6, 0.95), (-0.6, 0.9), times=1),
    _smooth((-1.0, 0.25), (0.2, 0.1), (1.0, 0.15), (0.55, 0.78), (-0.55, 0.74), times=1),
    _smooth(
        (-1.02, 0.2), (-0.8, -0.62), (-0.1, -0.97), (0.6, -0.72), (1.03, 0.05), (0.3, 0.22), (-0.35, 0.46), times=1
    ),
    _smooth((-0.6, -0.35), (-0.1, -0.76), (0.2, -0.7), (-0.2, -0.3)),
)
_CRUST = _smooth(
    *(
        (math.cos(i * math.pi / 6) * (1.12 if i % 2 else 0.86), math.sin(i * math.pi / 6) * (0.86 if i % 2 else 0.66))
        for i in range(12)
    )
)


def dice(p: Pen, c: Colour) -> None:
    """A small cube with rounded edges."""
    p.box(-0.8, -0.55, 0.8, 0.85, dark(c, 0.32), 0.3)
    p.box(-0.8, -0.75, 0.8, 0.5, c, 0.3)
    p.box(-0.55, -0.62, 0.25, -0.25, light(c, 0.38), 0.18)


def chunk(p: Pen, c: Colour) -> None:
    """An uneven piece."""
    low, top, shine = _CHUNK
    p.poly(low, dark(c, 0.36))
    p.poly(top, c)
    p.poly(shine, light(c, 0.36))


def slice_(p: Pen, c: Colour) -> None:
    """A thin slice of meat that curls a little."""
    p.poly([(x, y + 0.14) for x, y in _SLICE], dark(c, 0.4))
    p.poly(_SLICE, c)
    p.line([(-0.62, -0.3), (0.05, -0.42), (0.62, -0.28)], 0.13, light(c, 0.34))
    p.line([(-0.5, 0.12), (0.1, 0.02), (0.6, 0.12)], 0.06, dark(c, 0.2))


def shred(p: Pen, c: Colour) -> None:
    """A shred as of meat, potato or bamboo shoot."""
    p.line([(-1.5, 0.32), (-0.5, -0.02), (0.5, 0.04), (1.5, -0.14)], 0.44, dark(c, 0.34))
    p.line([(-1.5, 0.2), (-0.5, -0.14), (0.5, -0.08), (1.5, -0.26)], 0.34, c)
    p.line([(-1.1, 0.03), (-0.4, -0.22), (0.5, -0.17)], 0.1, light(c, 0.4))


def strip(p: Pen, c: Colour) -> None:
    """A curved strip of pepper."""
    p.line([(-0.95, 0.25), (-0.3, -0.05), (0.35, 0.02), (0.95, 0.3)], 0.5, dark(c, 0.28))
    p.line([(-0.95, 0.12), (-0.3, -0.18), (0.35, -0.1), (0.95, 0.18)], 0.38, c)
    p.line([(-0.5, -0.16), (0.2, -0.22)], 0.1, light(c, 0.5))


def square(p: Pen, c: Colour) -> None:
    """A bent square of pepper."""
    p.poly([(-0.8, -0.5), (0.7, -0.65), (0.9, 0.6), (0, 0.85), (-0.9, 0.7)], dark(c, 0.3))
    p.poly([(-0.8, -0.6), (0.7, -0.75), (0.85, 0.4), (0, 0.62), (-0.85, 0.5)], c)
    p.poly([(-0.6, -0.4), (-0.1, -0.5), (-0.2, 0.3), (-0.62, 0.24)], light(c, 0.35))


def coin(p: Pen, c: Colour) -> None:
    """A round slice of carrot, sausage or radish."""
    p.disc(0, 0.14, 0.92, 0.84, dark(c, 0.34))
    p.disc(0, 0, 0.92, 0.8, c)
    p.disc(0, 0, 0.62, 0.52, light(c, 0.2))
    p.disc(-0.3, -0.3, 0.22, 0.14, light(c, 0.5))


def stick(p: Pen, c: Colour) -> None:
    """A straight section of a bean, a stalk or a cucumber."""
    p.line([(-1.3, 0.16), (1.3, 0.16)], 0.54, dark(c, 0.32))
    p.line([(-1.3, 0), (1.3, 0)], 0.44, c)
    p.line([(-1.1, -0.1), (0.8, -0.1)], 0.12, light(c, 0.45))


def crumb(p: Pen, c: Colour) -> None:
    """Minced meat."""
    for x, y, r in ((-0.4, 0.1, 0.5), (0.35, -0.15, 0.45), (0.15, 0.42, 0.4)):
        p.disc(x, y + 0.12, r, r * 0.8, dark(c, 0.36))
        p.disc(x, y, r * 0.88, r * 0.68, c)
        p.disc(x - 0.14, y - 0.14, r * 0.3, r * 0.2, light(c, 0.35))


def grain(p: Pen, c: Colour) -> None:
    """A grain: rice, sesame."""
    p.disc(0, 0.1, 0.66, 0.32, dark(c, 0.25))
    p.disc(0, 0, 0.62, 0.28, c)


def pea(p: Pen, c: Colour) -> None:
    """A small ball: pea, corn, lotus seed, red bean."""
    p.disc(0, 0.1, 0.66, 0.64, dark(c, 0.3))
    p.disc(-0.03, -0.03, 0.58, 0.56, c)
    p.disc(-0.22, -0.24, 0.18, 0.14, light(c, 0.6))


# ----------------------------------------------------------------------------------------------------- meat and poultry


def belly_cube(p: Pen, c: Colour) -> None:
    """A cube of braised pork belly: skin, fat and lean in layers."""
    p.box(-0.9, -0.3, 0.9, 0.95, dark(c, 0.55), 0.2)
    for y0, y1, tone in (
        (-0.35, 0.8, dark(c, 0.12)),
        (-0.35, 0.52, blend(_FAT, c, 0.35)),
        (-0.35, 0.22, c),
        (-0.35, -0.02, blend(_FAT, c, 0.28)),
    ):
        p.box(-0.9, y0, 0.9, y1, tone, 0.16)
    top = blend(_SKIN, c, 0.35)
    p.poly([(-0.9, -0.25), (-0.62, -0.85), (0.95, -0.85), (0.9, -0.25)], dark(top, 0.1))
    p.poly([(-0.84, -0.3), (-0.6, -0.82), (0.86, -0.82), (0.82, -0.3)], top)
    p.poly([(-0.55, -0.5), (-0.45, -0.72), (0.3, -0.72), (0.2, -0.5)], light(top, 0.5))


def belly_slice(p: Pen, c: Colour) -> None:
    """A slice of pork belly: a rind, streaks of fat and lean."""
    bend = [(-1.1, 0.12), (-0.4, -0.06), (0.4, -0.04), (1.1, 0.14)]

    def band(y: float, width: float, tone: Colour) -> None:
        p.line([(x, v + y) for x, v in bend], width, tone)

    band(0.16, 0.84, dark(c, 0.5))
    band(0.0, 0.8, c)
    band(-0.28, 0.2, _SKIN)
    band(-0.1, 0.2, blend(_FAT, c, 0.15))
    band(0.2, 0.16, blend(_FAT, c, 0.3))
    band(-0.36, 0.05, light(_SKIN, 0.5))


def rib(p: Pen, c: Colour) -> None:
    """A short piece of rib with its bone."""
    q = p.at(0, 0, 1, -18)
    q.line([(-1.15, 0.05), (1.15, 0.05)], 0.36, dark(_BONE, 0.2))
    q.line([(-1.15, 0), (1.15, 0)], 0.28, _BONE)
    for x in (-1.18, 1.18):
        q.disc(x, 0, 0.12, 0.17, rgb("c9855c"))
    q.box(-0.85, -0.55, 0.85, 0.72, dark(c, 0.4), 0.4)
    q.box(-0.85, -0.66, 0.85, 0.5, c, 0.4)
    q.line([(-0.5, -0.4), (0.35, -0.42)], 0.2, light(c, 0.4))
    q.line([(-0.45, 0.1), (0.5, 0.14)], 0.07, dark(c, 0.25))


def bone_chunk(p: Pen, c: Colour) -> None:
    """A chopped piece of fowl: skin above, pale meat and a bone at the cut."""
    low, flesh, skin, shine = _FOWL
    p.poly(low, dark(c, 0.42))
    p.poly(flesh, blend(CREAM, c, 0.3))
    p.poly(skin, c)
    p.disc(0.12, 0.58, 0.19, 0.14, dark(_BONE, 0.25))
    p.disc(0.12, 0.57, 0.11, 0.08, rgb("b9735a"))
    p.poly(shine, light(c, 0.36))
    p.line([(0.1, -0.1), (0.55, -0.3)], 0.07, dark(c, 0.2))
    p.line([(-0.45, 0.12), (-0.1, -0.02)], 0.07, dark(c, 0.2))


def fowl_slice(p: Pen, c: Colour) -> None:
    """A slice of roast or poached fowl with its skin on top."""
    p.box(-0.55, -0.95, 0.6, 1.02, dark(c, 0.45), 0.3)
    p.box(-0.6, -0.98, 0.55, 0.92, blend(rgb("f6e4cd"), c, 0.22), 0.3)
    p.box(-0.6, -0.98, -0.1, 0.92, c, 0.24)
    p.line([(-0.44, -0.65), (-0.44, 0.4)], 0.13, light(c, 0.5))


def chopped_fowl(p: Pen, c: Colour) -> None:
    """A chopped strip of fowl on its skin side: skin on top, pale meat and a bone where it was cut."""
    p.poly([(-0.92, -1.3), (0.98, -1.3), (1.05, 1.55), (0.7, 1.8), (-0.6, 1.8), (-0.98, 1.55)], dark(c, 0.5))
    flesh = blend(rgb("fbeedd"), c, 0.16)
    p.poly([(-0.92, 0.9), (0.92, 0.9), (0.94, 1.4), (0.62, 1.62), (-0.62, 1.62), (-0.94, 1.4)], flesh)
    p.disc(0.1, 1.28, 0.24, 0.18, dark(_BONE, 0.2))
    p.disc(0.1, 1.27, 0.14, 0.1, rgb("b9604c"))
    p.poly([(-0.95, 1.0), (-0.92, -1.0), (-0.62, -1.3), (0.6, -1.3), (0.9, -1.0), (0.92, 1.0), (0.0, 1.12)], c)
    p.line([(-0.92, 0.98), (0.0, 1.1), (0.9, 0.98)], 0.12, dark(c, 0.25))
    p.line([(-0.5, -0.85), (-0.5, 0.35)], 0.26, light(c, 0.5))
    for x, y in ((0.3, -0.6), (0.45, 0.2), (0.1, 0.6), (0.6, -0.15)):
        p.disc(x, y, 0.07, 0.06, dark(c, 0.16))


def thin_belly(p: Pen, c: Colour) -> None:
    """A wide thin slice of boiled pork: rind, white fat, pale lean."""
    p.poly([(-0.9, -1.5), (1.0, -1.4), (1.05, 1.6), (-0.85, 1.7)], dark(c, 0.34))
    p.poly([(-0.95, -1.55), (0.92, -1.45), (0.95, 1.45), (-0.9, 1.55)], rgb("fbf3e6"))
    p.poly([(-0.95, -1.55), (0.92, -1.45), (0.92, -1.2), (-0.95, -1.28)], rgb("d9a878"))
    p.poly([(-0.95, -0.1), (0.94, -0.3), (0.95, 1.45), (-0.9, 1.55)], blend(rgb("d9a48e"), c, 0.25))
    p.line([(-0.7, 0.7), (0.1, 0.5), (0.8, 0.62)], 0.16, rgb("f6e0d2"))
    p.line([(-0.7, -0.8), (0.5, -0.86)], 0.16, WHITE)


def sausage(p: Pen, c: Colour) -> None:
    """A slanted slice of cured sausage, specked with fat."""
    p.disc(0.04, 0.14, 1.0, 0.68, dark(c, 0.5))
    p.disc(0, 0, 1.0, 0.66, dark(c, 0.2))
    p.disc(0, 0, 0.88, 0.56, c)
    for x, y in ((-0.5, -0.1), (-0.1, -0.3), (0.3, -0.1), (0.55, 0.12), (0.05, 0.2), (-0.35, 0.25)):
        p.disc(x, y, 0.12, 0.08, rgb("f3d3bd"))


def fried(p: Pen, c: Colour) -> None:
    """A crisp fried piece."""
    p.poly([(x, y + 0.2) for x, y in _CRUST], dark(c, 0.42))
    p.poly(_CRUST, c)
    for x, y in ((-0.4, -0.15), (0.1, -0.3), (0.42, 0.05), (-0.1, 0.2)):
        p.disc(x, y, 0.2, 0.13, light(c, 0.36))
        p.disc(x + 0.12, y + 0.12, 0.13, 0.08, dark(c, 0.18))


def cold_slice(p: Pen, c: Colour) -> None:
    """A thin slice of cooked beef with its veins."""
    p.disc(0.08, 0.1, 0.95, 0.72, dark(c, 0.5))
    p.disc(0, 0, 0.95, 0.7, c)
    for x, y, a in ((-0.3, -0.1, 20), (0.2, 0.12, -30), (0.42, -0.2, 60)):
        p.at(x, y, 1, a).arc(0, 0, 0.24, 0.12, 10, 200, 0.07, light(c, 0.5))


def tripe(p: Pen, c: Colour) -> None:
    """Tripe, fungus or another dark frilled piece."""
    outer = [
        (math.cos(i * math.pi / 9) * (1.0 if i % 2 else 0.72), math.sin(i * math.pi / 9) * (0.8 if i % 2 else 0.58))
        for i in range(18)
    ]
    p.poly([(x, y + 0.15) for x, y in outer], dark(c, 0.35))
    p.poly(outer, c)
    p.arc(-0.05, 0, 0.5, 0.34, 170, 330, 0.12, light(c, 0.3))
    p.disc(0.15, 0.12, 0.28, 0.18, dark(c, 0.25))


def ring(p: Pen, c: Colour) -> None:
    """A ring: spring onion, chili, intestine, squid."""
    p.arc(0, 0.12, 0.68, 0.56, 0, 360, 0.36, dark(c, 0.3))
    p.arc(0, 0, 0.68, 0.56, 0, 360, 0.32, c)
    p.arc(0, -0.02, 0.6, 0.48, 190, 290, 0.12, light(c, 0.5))


def kidney(p: Pen, c: Colour) -> None:
    """A scored and curled piece: kidney, squid."""
    p.box(-0.9, -0.5, 0.9, 0.72, dark(c, 0.35), 0.5)
    p.box(-0.9, -0.62, 0.9, 0.55, c, 0.5)
    for x in (-0.55, -0.18, 0.18, 0.55):
        p.line([(x - 0.12, -0.5), (x + 0.12, 0.42)], 0.08, dark(c, 0.32))
    p.line([(-0.6, -0.08), (0.6, -0.08)], 0.07, dark(c, 0.25))
    p.line([(-0.6, -0.44), (0.2, -0.46)], 0.1, light(c, 0.5))


# ---------------------------------------------------------------------------------------------- fish and all from water


def fillet(p: Pen, c: Colour) -> None:
    """A slice of fish, white with its flakes."""
    p.poly([(x, y + 0.14) for x, y in _FILLET], dark(c, 0.34))
    p.poly(_FILLET, c)
    for x in (-0.5, -0.05, 0.4):
        p.arc(x - 0.2, -0.04, 0.3, 0.42, -50, 50, 0.07, dark(c, 0.15))
    p.line([(-0.6, -0.36), (0.2, -0.46)], 0.1, WHITE)


def shrimp(p: Pen, c: Colour) -> None:
    """A prawn with its head, tail and feelers."""
    for i in range(6):  # the rings of its body, from tail to head
        t = math.radians(70 - i * 44)
        x, y, r = 0.52 * math.cos(t), 0.06 + 0.5 * math.sin(t), 0.24 + 0.045 * i
        p.disc(x + 0.03, y + 0.09, r, r * 0.95, dark(c, 0.34))
    for i in range(6):
        t = math.radians(70 - i * 44)
        x, y, r = 0.52 * math.cos(t), 0.06 + 0.5 * math.sin(t), 0.24 + 0.045 * i
        p.disc(x, y, r, r * 0.95, c if i % 2 else light(c, 0.16))
        p.disc(x - r * 0.2, y - r * 0.3, r * 0.4, r * 0.28, light(c, 0.5))
    p.poly([(0.05, 0.6), (0.3, 0.5), (0.2, 1.02), (-0.02, 0.86), (-0.28, 1.0)], dark(c, 0.18))
    p.poly([(-0.66, 0.2), (-0.3, 0.36), (-0.72, 0.72)], dark(c, 0.1))
    p.disc(-0.6, 0.1, 0.09, 0.09, rgb("2f2a2e"))
    p.line([(-0.66, 0.3), (-1.1, 0.62), (-1.25, 1.0)], 0.06, dark(c, 0.2))


def peeled_shrimp(p: Pen, c: Colour) -> None:
    """A peeled shrimp, curled."""
    p.arc(0, 0.12, 0.5, 0.46, -190, 70, 0.56, dark(c, 0.28))
    p.arc(0, 0, 0.5, 0.46, -190, 70, 0.5, c)
    p.arc(0, 0, 0.62, 0.58, -150, -30, 0.12, light(c, 0.6))
    for angle in (-150, -100, -50, 0):
        x, y = math.cos(math.radians(angle)), math.sin(math.radians(angle))
        p.line([(x * 0.38, y * 0.34), (x * 0.66, y * 0.6)], 0.07, dark(c, 0.16))


def crab(p: Pen, c: Colour) -> None:
    """A whole crab from above."""
    for s in (-1, 1):
        for y, reach in ((-0.1, 1.0), (0.14, 1.06), (0.38, 1.0), (0.6, 0.85)):
            p.line([(s * 0.5, y), (s * 0.82, y - 0.08), (s * reach, y + 0.24)], 0.13, dark(c, 0.22))
        p.line([(s * 0.5, -0.25), (s * 0.86, -0.42), (s * 0.78, -0.72)], 0.2, c)
        p.disc(s * 0.7, -0.82, 0.26, 0.22, c)
        p.poly([(s * 0.62, -0.86), (s * 0.38, -1.04), (s * 0.5, -0.72)], c)
        p.disc(s * 0.74, -0.88, 0.1, 0.07, light(c, 0.5))
    p.disc(0, 0.2, 0.72, 0.58, dark(c, 0.4))
    p.disc(0, 0.1, 0.72, 0.56, c)
    p.disc(-0.16, -0.12, 0.36, 0.2, light(c, 0.34))
    p.arc(0, 0.1, 0.4, 0.3, 20, 160, 0.08, dark(c, 0.25))
    for s in (-1, 1):
        p.disc(s * 0.16, -0.44, 0.07, 0.08, rgb("2f2a2e"))


def clam(p: Pen, c: Colour) -> None:
    """An open clam with its meat."""
    p.disc(0, 0.14, 1.0, 0.74, dark(c, 0.5))
    p.half(0, 0.05, 1.0, 0.9, c, up=True)
    for angle in (-55, -28, 0, 28, 55):
        t = math.radians(angle)
        p.line([(0, -0.02), (0.86 * math.sin(t), -0.78 * math.cos(t))], 0.06, dark(c, 0.25))
    p.half(0, 0.0, 0.98, 0.8, light(c, 0.6))
    p.disc(0, 0.22, 0.6, 0.3, rgb("f1b878"))
    p.disc(-0.12, 0.15, 0.25, 0.1, rgb("fbe0b4"))


def oyster(p: Pen, c: Colour) -> None:
    """An oyster or scallop in its half shell under garlic."""
    outline = [
        (math.cos(i * math.pi / 8) * (1.0 if i % 2 else 0.9), math.sin(i * math.pi / 8) * (0.86 if i % 2 else 0.76))
        for i in range(16)
    ]
    p.poly([(x, y + 0.2) for x, y in outline], rgb("56504f"))
    p.poly(outline, rgb("8c857f"))
    p.disc(0, -0.02, 0.8, 0.64, rgb("e9e4dc"))
    p.disc(0, 0.05, 0.58, 0.42, c)
    for i in range(9):
        t = i * 2.4
        p.disc(0.44 * math.cos(t) * (i / 9), 0.05 + 0.3 * math.sin(t) * (i / 9), 0.1, 0.08, rgb("f6e6ae"))
    for x, y in ((-0.22, -0.1), (0.25, 0.05), (0.02, 0.22)):
        p.disc(x, y, 0.09, 0.07, GREEN)


def eel(p: Pen, c: Colour) -> None:
    """A section of eel or sea cucumber, dark and glossy."""
    p.line([(-0.85, 0.18), (0, 0.02), (0.85, 0.2)], 0.8, dark(c, 0.45))
    p.line([(-0.85, 0.05), (0, -0.12), (0.85, 0.06)], 0.66, c)
    p.line([(-0.7, -0.12), (0.3, -0.24)], 0.16, light(c, 0.42))
    for x in (-0.5, -0.05, 0.4):
        p.line([(x, -0.3), (x + 0.1, 0.2)], 0.06, dark(c, 0.3))


def spiky(p: Pen, c: Colour) -> None:
    """A sea cucumber with its warts."""
    bend = [(-1.0, 0.12), (-0.35, -0.06), (0.35, -0.06), (1.0, 0.12)]
    for i in range(9):  # warts stand out along its edge
        x = -1.1 + i * 0.275
        y = 0.12 * (abs(x)) ** 1.5 - 0.06
        p.disc(x, y - 0.4, 0.12, 0.16, dark(c, 0.1))
        p.disc(x + 0.1, y + 0.44, 0.12, 0.14, dark(c, 0.45))
    p.line([(x, y + 0.12) for x, y in bend], 0.9, dark(c, 0.45))
    p.line(bend, 0.82, c)
    for i in range(7):
        x = -0.9 + i * 0.3
        p.disc(x, 0.1 * abs(x) - 0.1, 0.09, 0.08, light(c, 0.3))
        p.disc(x + 0.15, 0.1 * abs(x) + 0.14, 0.08, 0.07, light(c, 0.16))
    p.line([(-0.8, -0.2), (-0.2, -0.32), (0.4, -0.31)], 0.12, light(c, 0.6))


# ----------------------------------------------------------------------------------------------- tofu, egg, dough, rice


def tofu(p: Pen, c: Colour) -> None:
    """A soft cube seen from a corner."""
    p.poly([(-0.85, -0.35), (0, -0.05), (0, 0.95), (-0.85, 0.6)], dark(c, 0.08))
    p.poly([(0, -0.05), (0.85, -0.35), (0.85, 0.6), (0, 0.95)], dark(c, 0.24))
    p.poly([(-0.85, -0.35), (0, -0.72), (0.85, -0.35), (0, -0.02)], light(c, 0.5))
    p.line([(-0.5, -0.38), (0, -0.58)], 0.09, WHITE)


def scrambled(p: Pen, c: Colour) -> None:
    """A curd of scrambled egg."""
    for x, y, rx, ry in ((-0.4, 0.1, 0.6, 0.5), (0.35, -0.08, 0.62, 0.5), (0.0, -0.3, 0.5, 0.36)):
        p.disc(x, y + 0.14, rx, ry, dark(c, 0.26))
        p.disc(x, y, rx, ry * 0.92, c)
        p.disc(x - 0.14, y - 0.14, rx * 0.45, ry * 0.32, light(c, 0.55))


def half_egg(p: Pen, c: Colour) -> None:
    """Half a boiled egg; where dark, of a preserved one."""
    p.disc(0.05, 0.12, 0.8, 0.96, dark(c, 0.35))
    p.disc(0, 0, 0.8, 0.94, c)
    yolk = rgb("f4ad2a") if sum(c) > 500 else rgb("51613f")
    p.disc(0, 0.1, 0.46, 0.48, dark(yolk, 0.12))
    p.disc(-0.03, 0.06, 0.4, 0.42, yolk)
    p.disc(-0.14, -0.08, 0.14, 0.12, light(yolk, 0.55))


def fried_egg(p: Pen, c: Colour) -> None:
    """A fried egg."""
    outline = [
        (math.cos(i * math.pi / 7) * (1.0 if i % 3 else 0.84), math.sin(i * math.pi / 7) * (0.86 if i % 3 else 0.7))
        for i in range(14)
    ]
    p.poly([(x, y + 0.1) for x, y in outline], rgb("c98f4a"))
    p.poly(outline, WHITE)
    p.disc(0.05, 0.02, 0.38, 0.34, rgb("eea024"))
    p.disc(-0.02, -0.04, 0.32, 0.28, rgb("f9bd3c"))
    p.disc(-0.12, -0.12, 0.1, 0.07, rgb("fde9a8"))


def ball(p: Pen, c: Colour) -> None:
    """A ball of meat, fish paste, rice flour or dough."""
    p.disc(0.06, 0.14, 0.95, 0.9, dark(c, 0.4))
    p.disc(0, 0, 0.95, 0.88, c)
    p.disc(-0.18, -0.2, 0.6, 0.5, light(c, 0.22))
    p.disc(-0.34, -0.38, 0.22, 0.15, light(c, 0.7))


def sesame_ball(p: Pen, c: Colour) -> None:
    """A ball rolled in sesame."""
    ball(p, c)
    for i in range(26):
        t, r = i * 2.4, math.sqrt((i + 0.5) / 26) * 0.8
        p.at(r * math.cos(t), r * math.sin(t) * 0.92 - 0.02, 0.17, i * 67).disc(0, 0, 0.72, 0.4, CREAM)


def soup_bun(p: Pen, c: Colour) -> None:
    """A small steamed bun with its whirl of pleats."""
    p.disc(0, 0.2, 0.96, 0.8, dark(c, 0.26))
    p.disc(0, 0, 0.96, 0.86, c)
    p.disc(-0.1, -0.1, 0.76, 0.64, light(c, 0.5))
    for i in range(14):
        q = p.at(0, -0.14, 1, i * 360 / 14)
        q.line([(0.14, 0.04), (0.4, 0.0), (0.66, 0.14)], 0.05, dark(c, 0.22))
    p.disc(0, -0.16, 0.17, 0.14, dark(c, 0.18))
    p.disc(0, -0.2, 0.1, 0.08, c)


def crescent(p: Pen, c: Colour) -> None:
    """A crescent dumpling with its pleated edge."""
    p.half(0, 0.5, 1.05, 1.1, dark(c, 0.3), up=True)
    p.disc(0, 0.48, 1.05, 0.26, dark(c, 0.3))
    p.half(0, 0.42, 1.02, 1.04, c, up=True)
    p.disc(0, 0.42, 1.02, 0.22, c)
    p.half(-0.12, 0.34, 0.7, 0.62, light(c, 0.5), up=True)
    for i in range(-4, 5):
        p.line([(i * 0.22, -0.56 + abs(i) * 0.12), (i * 0.16, -0.22 + abs(i) * 0.08)], 0.07, dark(c, 0.24))


def crystal(p: Pen, c: Colour) -> None:
    """A shrimp dumpling whose thin skin lets the pink filling through."""
    crescent(p, blend(c, rgb("f6e0d6"), 0.5))
    p.half(0, 0.36, 0.72, 0.62, blend(c, rgb("f2a48c"), 0.6), up=True)
    p.half(-0.1, 0.3, 0.5, 0.36, blend(c, rgb("f8c8b6"), 0.6), up=True)
    p.line([(-0.5, -0.12), (-0.2, -0.36)], 0.1, WHITE)


def open_dumpling(p: Pen, c: Colour) -> None:
    """An open dumpling (shaomai): thin skin, filling and a dot of roe on top."""
    p.poly([(-0.6, -0.4), (0.6, -0.4), (0.78, 0.6), (0.4, 0.92), (-0.4, 0.92), (-0.78, 0.6)], dark(c, 0.2))
    p.poly([(-0.62, -0.45), (0.5, -0.45), (0.62, 0.55), (0.25, 0.82), (-0.4, 0.82), (-0.74, 0.55)], c)
    for x in (-0.5, -0.25, 0.0, 0.25, 0.5):
        p.line([(x * 0.95, -0.3), (x * 1.15, 0.6)], 0.06, dark(c, 0.22))
    p.disc(0, -0.45, 0.7, 0.36, light(c, 0.5))
    p.disc(0, -0.45, 0.54, 0.26, rgb("d99a7c"))
    p.disc(0, -0.48, 0.2, 0.13, rgb("ee7d2f"))


def wonton(p: Pen, c: Colour) -> None:
    """A wonton in soup, its skin spread like a tail."""
    p.poly([(-0.2, 0.2), (-1.1, 0.55), (-0.9, 0.0), (-1.15, -0.35), (-0.2, -0.25)], dark(c, 0.12))
    p.poly([(-0.2, 0.12), (-1.0, 0.42), (-0.85, -0.04), (-1.05, -0.34), (-0.2, -0.25)], light(c, 0.4))
    p.disc(0.25, 0.1, 0.75, 0.62, dark(c, 0.22))
    p.disc(0.22, 0, 0.72, 0.58, light(c, 0.3))
    p.disc(0.28, 0.04, 0.44, 0.34, blend(c, rgb("e09a80"), 0.55))
    p.arc(0.2, -0.05, 0.5, 0.36, 190, 290, 0.09, WHITE)


def round_bun(p: Pen, c: Colour) -> None:
    """A steamed bun seen from the side."""
    p.disc(0, 0.5, 1.0, 0.36, dark(c, 0.35))
    p.half(0, 0.5, 0.98, 1.22, dark(c, 0.12), up=True)
    p.half(-0.08, 0.46, 0.86, 1.1, c, up=True)
    p.disc(0, 0.48, 0.98, 0.26, dark(c, 0.12))
    p.disc(-0.3, -0.2, 0.32, 0.2, light(c, 0.7))
    for i in range(-3, 4):
        p.line([(0, -0.68), (i * 0.16, -0.4 + abs(i) * 0.06)], 0.05, dark(c, 0.25))


def cut_bun(p: Pen, c: Colour) -> None:
    """A bun that has burst open on top and shows its red filling (char siu bao)."""
    p.disc(0, 0.5, 1.0, 0.36, dark(c, 0.3))
    p.half(0, 0.5, 0.98, 1.15, c, up=True)
    p.disc(0, 0.48, 0.98, 0.26, dark(c, 0.1))
    for angle in (-58, 0, 58):
        q = p.at(0, -0.12, 1, angle)
        q.poly([(-0.3, 0.0), (0, -0.56), (0.3, 0.0)], light(c, 0.7))
    p.disc(0, -0.16, 0.34, 0.22, rgb("8f2f22"))
    p.disc(-0.06, -0.2, 0.18, 0.1, rgb("c65a3a"))


def flaky(p: Pen, c: Colour) -> None:
    """A round flaky cake with a red stamp's dot and sesame."""
    p.disc(0, 0.26, 0.98, 0.72, dark(c, 0.45))
    p.disc(0, 0.12, 0.98, 0.74, dark(c, 0.14))
    p.disc(0, -0.04, 0.96, 0.7, c)
    for k in (0.78, 0.56, 0.34):
        p.arc(0, -0.04, 0.96 * k, 0.7 * k, 200, 350, 0.05, light(c, 0.45))
    p.disc(0, -0.05, 0.14, 0.1, rgb("c8402f"))


def mooncake(p: Pen, c: Colour) -> None:
    """A moulded cake with a flower relief."""
    outline = [
        (math.cos(i * math.pi / 12) * (1.0 if i % 2 else 0.9), math.sin(i * math.pi / 12) * (0.84 if i % 2 else 0.74))
        for i in range(24)
    ]
    p.poly([(x, y + 0.26) for x, y in outline], dark(c, 0.45))
    p.poly(outline, c)
    p.disc(0, -0.04, 0.7, 0.56, light(c, 0.2))
    for i in range(6):
        q = p.at(0, -0.04, 1, i * 60)
        q.disc(0.34, 0, 0.2, 0.12, dark(c, 0.2))
    p.disc(0, -0.04, 0.14, 0.11, dark(c, 0.3))


def bread_disc(p: Pen, c: Colour) -> None:
    """A flat baked bread with a stamped middle and sesame (nang, shaobing)."""
    p.disc(0, 0.12, 1.0, 0.86, dark(c, 0.42))
    p.disc(0, 0, 1.0, 0.84, c)
    p.disc(0, 0.01, 0.78, 0.64, light(c, 0.24))
    for ring_, count in ((0.2, 6), (0.48, 11), (0.7, 16)):
        for i in range(count):
            t = i * math.tau / count
            p.disc(ring_ * math.cos(t), ring_ * 0.83 * math.sin(t), 0.035, 0.03, dark(c, 0.42))
    for i in range(18):
        t, r = i * 2.4, math.sqrt((i + 0.5) / 18) * 0.86
        p.at(r * math.cos(t), r * 0.83 * math.sin(t), 0.07, i * 50).disc(0, 0, 0.9, 0.5, CREAM)


# ----------------------------------------------------------------------------------------------------------- vegetables


def bok_choy(p: Pen, c: Colour) -> None:
    """A small head of greens: white stalks, green leaves."""
    for x, angle in ((-0.22, -16), (0.22, 16), (0, 0)):
        q = p.at(x, 0, 1, angle)
        q.disc(0, -0.45, 0.34, 0.55, dark(c, 0.22))
        q.disc(-0.04, -0.48, 0.28, 0.48, c)
        q.line([(0, -0.6), (0, 0.2)], 0.07, light(c, 0.6))
    p.poly([(-0.34, 0.1), (0.34, 0.1), (0.42, 0.75), (0.2, 1.0), (-0.2, 1.0), (-0.42, 0.75)], rgb("dcebc0"))
    p.poly([(0.08, 0.1), (0.34, 0.1), (0.42, 0.75), (0.2, 1.0)], rgb("bfd79b"))
    p.line([(-0.14, 0.25), (-0.18, 0.85)], 0.07, WHITE)


def stalk_leaf(p: Pen, c: Colour) -> None:
    """A long leaf with its stalk, lying: water spinach, lettuce, Chinese broccoli."""
    p.line([(-1.7, 0.14), (0.2, 0.04)], 0.32, dark(c, 0.25))
    p.line([(-1.7, 0.0), (0.2, -0.08)], 0.24, light(c, 0.35))
    outline = [(0.0, 0.0), (0.45, -0.5), (1.1, -0.52), (1.75, -0.05), (1.1, 0.42), (0.45, 0.45)]
    p.poly([(x, y + 0.12) for x, y in outline], dark(c, 0.36))
    p.poly(outline, c)
    p.line([(0.1, 0), (1.4, -0.05)], 0.09, light(c, 0.5))


def leaf(p: Pen, c: Colour) -> None:
    """A crumpled leaf of cabbage or spinach."""
    outline = [
        (math.cos(i * math.pi / 8) * (1.0 if i % 2 else 0.8), math.sin(i * math.pi / 8) * (0.76 if i % 2 else 0.62))
        for i in range(16)
    ]
    p.poly([(x, y + 0.14) for x, y in outline], dark(c, 0.34))
    p.poly(outline, c)
    p.line([(-0.7, 0.08), (0.6, -0.1)], 0.12, light(c, 0.55))
    p.line([(-0.1, 0.0), (0.2, 0.34)], 0.07, light(c, 0.5))
    p.line([(-0.1, 0.0), (0.15, -0.4)], 0.07, light(c, 0.5))


def cabbage(p: Pen, c: Colour) -> None:
    """A piece of Chinese cabbage: white rib, pale green edge."""
    leaf(p, blend(c, rgb("f6f4da"), 0.35))
    p.poly([(-0.8, 0.2), (-0.2, -0.16), (0.5, -0.1), (0.3, 0.2), (-0.4, 0.34)], rgb("f8f6e6"))


def sprig(p: Pen, c: Colour) -> None:
    """A sprig of coriander."""
    p.line([(-0.7, 0.7), (0.0, 0.05), (0.4, -0.5)], 0.11, dark(c, 0.12))
    for x, y, r in ((0.42, -0.55, 0.36), (-0.12, -0.38, 0.3), (0.5, 0.1, 0.3), (-0.42, 0.14, 0.24)):
        for i in range(3):
            t = math.radians(i * 120 - 90)
            p.disc(x + r * 0.55 * math.cos(t), y + r * 0.55 * math.sin(t), r * 0.55, r * 0.5, dark(c, 0.1 * i))
        p.disc(x, y, r * 0.3, r * 0.26, light(c, 0.3))


def scallion(p: Pen, c: Colour) -> None:
    """A ring of spring onion."""
    p.arc(0, 0.08, 0.62, 0.5, 0, 360, 0.32, dark(c, 0.3))
    p.disc(0, 0, 0.66, 0.54, c)
    p.disc(0, 0, 0.42, 0.33, light(c, 0.62))
    p.disc(0.03, 0.02, 0.2, 0.15, dark(c, 0.1))


def scallion_shred(p: Pen, c: Colour) -> None:
    """Long curled shreds of spring onion."""
    for dy, bend, tone in ((-0.25, 0.5, c), (0.1, -0.4, light(c, 0.65)), (0.35, 0.35, dark(c, 0.12))):
        p.line([(-1.5, dy), (-0.5, dy - bend * 0.5), (0.5, dy + bend * 0.3), (1.5, dy - bend * 0.4)], 0.2, tone)


def scallion_section(p: Pen, c: Colour) -> None:
    """A finger-long section of spring onion, white to green."""
    p.line([(-1.1, 0.14), (1.1, 0.14)], 0.5, dark(c, 0.3))
    p.line([(-1.1, 0), (1.1, 0)], 0.42, c)
    p.line([(-1.1, 0), (-0.1, 0)], 0.42, blend(c, rgb("f6f4e0"), 0.8))
    p.line([(-1.0, -0.1), (0.9, -0.1)], 0.1, light(c, 0.6))


def dried_chili(p: Pen, c: Colour) -> None:
    """A section of dried chili."""
    p.line([(-0.9, 0.2), (0.0, 0.02), (0.9, 0.26)], 0.5, dark(c, 0.5))
    p.line([(-0.9, 0.08), (0.0, -0.1), (0.9, 0.14)], 0.42, c)
    p.line([(-0.6, -0.06), (0.25, -0.16)], 0.12, light(c, 0.5))
    p.disc(0.98, 0.15, 0.13, 0.18, dark(c, 0.55))


def long_chili(p: Pen, c: Colour) -> None:
    """A whole small chili with its stalk."""
    p.poly([(-0.9, 0.0), (-0.4, -0.36), (0.4, -0.22), (1.15, 0.42), (0.3, 0.3), (-0.5, 0.4)], dark(c, 0.3))
    p.poly([(-0.9, -0.06), (-0.4, -0.4), (0.4, -0.26), (1.1, 0.34), (0.3, 0.16), (-0.5, 0.22)], c)
    p.line([(-0.5, -0.2), (0.3, -0.12)], 0.12, light(c, 0.55))
    p.line([(-0.85, -0.05), (-1.2, -0.24)], 0.16, LEAF)


def pepper_ring(p: Pen, c: Colour) -> None:
    """A ring of fresh chili with its seeds."""
    p.disc(0, 0.1, 0.8, 0.64, dark(c, 0.3))
    p.disc(0, 0, 0.78, 0.62, c)
    p.disc(0, 0, 0.5, 0.38, light(c, 0.5))
    for x, y in ((-0.18, -0.06), (0.16, -0.08), (0.0, 0.14)):
        p.disc(x, y, 0.1, 0.08, CREAM)


def peppercorn(p: Pen, c: Colour) -> None:
    """Sichuan pepper, burst open."""
    p.disc(0, 0.06, 0.55, 0.52, dark(c, 0.35))
    p.disc(0, 0, 0.5, 0.46, c)
    p.disc(0.08, 0.02, 0.2, 0.2, dark(c, 0.6))


def peanut(p: Pen, c: Colour) -> None:
    """A roasted peanut."""
    p.disc(-0.34, 0.12, 0.56, 0.52, dark(c, 0.36))
    p.disc(0.38, 0.12, 0.52, 0.48, dark(c, 0.36))
    p.disc(-0.34, 0, 0.54, 0.48, c)
    p.disc(0.38, 0, 0.5, 0.44, c)
    p.line([(-0.7, 0.02), (0.7, 0.02)], 0.08, dark(c, 0.24))
    p.disc(-0.45, -0.2, 0.2, 0.12, light(c, 0.6))


def walnut(p: Pen, c: Colour) -> None:
    """A walnut, cashew or chestnut."""
    p.disc(0, 0.12, 0.82, 0.74, dark(c, 0.36))
    p.disc(0, 0, 0.8, 0.7, c)
    p.arc(0, 0, 0.4, 0.34, 30, 330, 0.12, dark(c, 0.28))
    p.disc(-0.3, -0.3, 0.2, 0.12, light(c, 0.55))


def lotus_root(p: Pen, c: Colour) -> None:
    """A slice of lotus root with its holes."""
    p.disc(0.04, 0.14, 0.98, 0.86, dark(c, 0.32))
    p.disc(0, 0, 0.98, 0.84, dark(c, 0.1))
    p.disc(0, 0, 0.88, 0.74, light(c, 0.3))
    p.disc(0, 0, 0.12, 0.1, dark(c, 0.5))
    for i in range(7):
        t = i * math.tau / 7
        p.at(0.52 * math.cos(t), 0.43 * math.sin(t), 1, math.degrees(t)).disc(0, 0, 0.2, 0.13, dark(c, 0.5))


def cucumber(p: Pen, c: Colour) -> None:
    """A slice of cucumber."""
    p.disc(0, 0.12, 0.95, 0.84, dark(c, 0.25))
    p.disc(0, 0, 0.95, 0.82, c)
    p.disc(0, 0, 0.8, 0.68, light(c, 0.72))
    for i in range(6):
        t = i * math.tau / 6
        p.disc(0.34 * math.cos(t), 0.28 * math.sin(t), 0.09, 0.06, light(c, 0.35))


def smashed(p: Pen, c: Colour) -> None:
    """A smashed piece of cucumber: dark skin and pale torn flesh."""
    p.poly([(-0.95, 0.3), (-0.6, -0.55), (0.5, -0.6), (0.98, 0.1), (0.4, 0.75), (-0.5, 0.8)], dark(c, 0.35))
    p.poly([(-0.9, 0.25), (-0.6, -0.1), (0.6, -0.15), (0.92, 0.08), (0.36, 0.62), (-0.5, 0.66)], light(c, 0.72))
    p.poly([(-0.9, 0.12), (-0.6, -0.58), (0.5, -0.62), (0.95, 0.02), (0.4, -0.08), (-0.4, 0.0)], c)
    p.line([(-0.5, -0.42), (0.3, -0.46)], 0.1, light(c, 0.45))


def aubergine(p: Pen, c: Colour) -> None:
    """A soft wedge of aubergine: purple skin, brown flesh."""
    p.line([(-1.0, 0.2), (0, 0.05), (1.0, 0.2)], 0.8, dark(c, 0.4))
    p.line([(-1.0, 0.12), (0, -0.02), (1.0, 0.12)], 0.62, rgb("c9995c"))
    p.line([(-1.0, -0.12), (0, -0.26), (1.0, -0.12)], 0.3, c)
    p.line([(-0.6, -0.24), (0.2, -0.32)], 0.09, light(c, 0.5))


def tomato(p: Pen, c: Colour) -> None:
    """A wedge of tomato."""
    p.poly([(-1.0, -0.1), (0, 0.85), (1.0, -0.1), (0, 0.1)], dark(c, 0.3))
    p.half(0, -0.25, 1.0, 0.95, c)
    p.half(0, -0.25, 0.78, 0.62, light(c, 0.28))
    for x in (-0.4, 0.0, 0.4):
        p.disc(x, -0.08, 0.09, 0.07, rgb("f7dc92"))
    p.disc(0, -0.25, 0.98, 0.1, light(c, 0.45))


def mushroom(p: Pen, c: Colour) -> None:
    """A shiitake cap with its star cut."""
    p.disc(0, 0.16, 0.95, 0.76, dark(c, 0.42))
    p.disc(0, 0, 0.95, 0.76, c)
    p.disc(-0.15, -0.14, 0.6, 0.42, light(c, 0.14))
    for angle in (0, 60, 120):
        q = p.at(0, -0.02, 1, angle)
        q.line([(-0.52, 0), (0.52, 0)], 0.11, light(c, 0.62))


def thin_mushroom(p: Pen, c: Colour) -> None:
    """Needle mushrooms."""
    for i in range(5):
        x = -0.5 + i * 0.24
        p.line([(x, 0.9), (x * 1.2, -0.6)], 0.14, dark(c, 0.12 + 0.06 * (i % 2)))
        p.disc(x * 1.2, -0.7, 0.16, 0.13, light(c, 0.3))


def sprout(p: Pen, c: Colour) -> None:
    """A bean sprout."""
    p.line([(-1.3, 0.3), (-0.4, -0.1), (0.5, 0.12), (1.0, -0.1)], 0.26, dark(c, 0.16))
    p.line([(-1.3, 0.22), (-0.4, -0.18), (0.5, 0.04), (1.0, -0.18)], 0.18, light(c, 0.4))
    p.disc(1.15, -0.2, 0.26, 0.2, rgb("e7c65a"))


def bamboo_shoot(p: Pen, c: Colour) -> None:
    """A slice of bamboo shoot with its comb."""
    p.poly([(-0.7, 0.85), (-0.55, -0.4), (0, -0.95), (0.6, -0.4), (0.75, 0.85)], dark(c, 0.3))
    p.poly([(-0.7, 0.7), (-0.55, -0.48), (0, -1.0), (0.55, -0.48), (0.68, 0.7)], c)
    for y in (-0.35, 0.0, 0.35):
        p.line([(-0.4, y), (0.4, y)], 0.1, dark(c, 0.2))
    p.line([(-0.42, -0.3), (-0.5, 0.5)], 0.09, light(c, 0.6))


def floret(p: Pen, c: Colour) -> None:
    """A floret of cauliflower or broccoli."""
    drawings.broccoli(p, c)


def strands(p: Pen, c: Colour) -> None:
    """A tangle of vermicelli."""
    for i in range(5):
        q = p.at(0.1 * math.cos(i * 2.4), 0.1 * math.sin(i * 2.4), 1, i * 73)
        q.arc(0, 0, 0.9, 0.6, i * 30, i * 30 + 230, 0.2, dark(c, 0.22))
        q.arc(0, -0.04, 0.9, 0.6, i * 30, i * 30 + 230, 0.13, light(c, 0.3))


def pickled(p: Pen, c: Colour) -> None:
    """Chopped pickled or dried greens."""
    for x, y, a in ((-0.4, 0.0, 20), (0.4, 0.1, -35), (0.0, -0.3, 70), (0.05, 0.4, 5)):
        q = p.at(x, y, 1, a)
        q.line([(-0.4, 0.06), (0.4, 0.06)], 0.28, dark(c, 0.4))
        q.line([(-0.4, 0), (0.4, 0)], 0.2, c)


def garlic(p: Pen, c: Colour) -> None:
    """Minced garlic."""
    for x, y in ((-0.4, 0.1), (0.3, -0.2), (0.2, 0.4)):
        p.box(x - 0.3, y - 0.2, x + 0.3, y + 0.3, dark(c, 0.24), 0.12)
        p.box(x - 0.3, y - 0.26, x + 0.3, y + 0.2, c, 0.12)


def clove(p: Pen, c: Colour) -> None:
    """A whole clove of garlic."""
    p.disc(0.04, 0.12, 0.56, 0.86, dark(c, 0.3))
    p.disc(0, 0, 0.54, 0.84, c)
    p.line([(-0.18, -0.4), (-0.22, 0.3)], 0.12, light(c, 0.7))


def ginger(p: Pen, c: Colour) -> None:
    """A slice of ginger."""
    p.disc(0.02, 0.1, 0.85, 0.6, dark(c, 0.4))
    p.disc(0, 0, 0.82, 0.58, c)
    p.disc(0, 0, 0.66, 0.44, light(c, 0.3))
    p.arc(0, 0, 0.4, 0.25, 0, 360, 0.06, dark(c, 0.12))


def jujube(p: Pen, c: Colour) -> None:
    """A red date."""
    p.disc(0, 0.12, 0.92, 0.62, dark(c, 0.42))
    p.disc(0, 0, 0.9, 0.6, c)
    p.line([(-0.5, -0.1), (0.0, 0.08), (0.45, -0.04)], 0.08, dark(c, 0.4))
    p.disc(-0.35, -0.26, 0.24, 0.1, light(c, 0.5))


def goji(p: Pen, c: Colour) -> None:
    """A goji berry."""
    p.disc(0, 0.08, 0.66, 0.36, dark(c, 0.35))
    p.disc(0, 0, 0.64, 0.34, c)
    p.disc(-0.2, -0.1, 0.2, 0.09, light(c, 0.6))


def sponge(p: Pen, c: Colour) -> None:
    """A spongy cube of wheat gluten with its pores."""
    dice(p, c)
    for x, y in ((-0.45, -0.1), (0.1, -0.4), (0.4, 0.05), (-0.1, 0.2), (0.5, -0.5), (-0.55, 0.35), (0.3, 0.35)):
        p.disc(x, y, 0.13, 0.1, dark(c, 0.4))


def tea_leaf(p: Pen, c: Colour) -> None:
    """A pair of tea leaves."""
    for angle in (-32, 32):
        q = p.at(0, 0.5, 1, angle)
        q.poly([(0, 0.4), (-0.28, -0.3), (0, -1.3), (0.28, -0.3)], dark(c, 0.2))
        q.poly([(0, 0.3), (-0.2, -0.3), (0, -1.2), (0.16, -0.3)], c)


def soft_oyster(p: Pen, c: Colour) -> None:
    """A shucked oyster: grey, soft, with its dark frill."""
    p.disc(0.04, 0.12, 0.98, 0.66, dark(c, 0.6))
    p.disc(0, 0, 0.92, 0.6, c)
    p.disc(0.1, 0.06, 0.5, 0.3, light(c, 0.45))
    p.arc(0, 0, 0.86, 0.55, 20, 150, 0.14, dark(c, 0.5))
    p.disc(-0.3, -0.2, 0.24, 0.12, light(c, 0.7))


def snow_ear(p: Pen, c: Colour) -> None:
    """White fungus: pale and frilled."""
    tripe(p, light(c, 0.2))
    p.arc(0.2, 0.2, 0.4, 0.26, 200, 330, 0.1, WHITE)


def crisp(p: Pen, c: Colour) -> None:
    """A fried dough stick's slice or a crisp."""
    p.disc(0, 0.12, 0.9, 0.7, dark(c, 0.35))
    p.disc(0, 0, 0.88, 0.68, c)
    p.disc(0, 0, 0.6, 0.44, light(c, 0.5))
    p.disc(-0.15, 0.05, 0.2, 0.14, dark(c, 0.15))
    p.disc(0.2, -0.1, 0.16, 0.1, dark(c, 0.12))


# ---------------------------------------------------------------------------------------------------------------- words


@dataclass(frozen=True, slots=True)
class Cut:
    """How an ingredient shows in a dish."""

    name: str  # equal for ingredients that look alike
    draw: Piece
    colour: Colour
    size: float  # in hundredths of the picture's edge, half across
    takes: float = 0.25  # how much of the dish's colour it takes on, 0 to 1
    small: bool = False  # strewn over a dish and not part of its bulk


# pattern of Chinese words, name, piece, colour, size, takes, small. The first pattern that is found decides.
_ROWS: list[tuple[str, str, Piece, str, float, float, bool]] = [
    ("鸡蛋面|面条|宽面|米线|(?<![糯大])米粉|河粉|拉面|[粉面凉]皮", "noodles", strands, "f0dca0", 4.6, 0.15, False),
    ("馍|饼(?!干)|馕", "bread", dice, "e3c48c", 3.0, 0.1, False),
    ("黑芝麻", "black sesame", grain, "3a332f", 1.0, 0.0, True),
    ("鹌鹑蛋", "quail egg", ball, "fbf3e0", 3.0, 0.0, False),
    ("午餐肉", "luncheon meat", square, "e59a8c", 3.8, 0.0, False),
    ("花胶|鱼肚", "fish maw", tripe, "f1dfb4", 4.4, 0.05, False),
    ("鲍", "abalone", kidney, "c49a5e", 5.2, 0.15, False),
    ("黄花菜", "daylily buds", shred, "b98a3a", 2.8, 0.0, False),
    ("烤麸", "wheat gluten", sponge, "a9703c", 4.8, 0.3, False),
    ("饵块|年糕|糍粑", "rice cake", slice_, "fbf6e8", 4.6, 0.0, False),
    ("腊鱼|腊鸡|腊鸭", "cured fish", slice_, "96482a", 4.6, 0.2, False),
    ("木姜子", "litsea", peppercorn, "6a7a3a", 1.2, 0.0, True),
    ("脆哨|油渣", "crisp pork", dice, "b9762e", 2.2, 0.0, False),
    ("西米", "sago", pea, "f4ecdc", 1.1, 0.0, True),
    ("柚", "pomelo", grain, "f3b0a0", 1.5, 0.0, True),
    ("茶", "tea leaves", tea_leaf, "5c8a3a", 2.2, 0.0, True),
    ("辣椒面|辣椒粉", "ground chili", grain, "b92a1a", 0.9, 0.0, True),
    ("孜然", "cumin", grain, "7a5a2a", 0.8, 0.0, True),
    ("豆瓣|豆豉", "black bean", pea, "3a2a26", 1.3, 0.0, True),
    ("花椒|藤椒|麻椒", "sichuan pepper", peppercorn, "8a3f2e", 1.3, 0.0, True),
    ("干辣椒|辣椒干|糊辣|干红椒", "dried chili", dried_chili, "96190f", 3.0, 0.0, True),
    ("泡椒|野山椒", "pickled chili", long_chili, "d9503a", 3.2, 0.0, True),
    ("青椒|尖椒|绿椒|螺丝椒|青辣椒|青红椒", "green pepper", square, "4f9a3c", 3.4, 0.0, False),
    ("彩椒|甜椒|红椒|灯笼椒", "red pepper", square, "d8392c", 3.4, 0.0, False),
    ("剁椒|小米辣|小米椒|鲜辣椒|朝天椒|二荆条|辣椒(?!油|粉|酱)|指天椒", "chili", pepper_ring, "d8301f", 2.2, 0.0, True),
    ("葱丝", "spring onion", scallion_shred, "6fae4a", 3.2, 0.0, True),
    ("大葱|葱段|京葱", "spring onion", scallion_section, "8cbc58", 3.2, 0.1, False),
    ("洋葱", "onion", strip, "e3c7cf", 3.2, 0.15, False),
    ("葱(?!油)", "spring onion", scallion, "58a03c", 1.6, 0.0, True),
    ("姜", "ginger", ginger, "ecd28a", 2.4, 0.1, True),
    ("蒜苗|青蒜|蒜苔|蒜薹|韭菜|韭黄|蒜叶", "garlic leaves", stick, "4e9a3e", 2.6, 0.0, False),
    ("蒜蓉|蒜泥|蒜末|蒜茸", "garlic", garlic, "f6ebc4", 1.7, 0.05, True),
    ("蒜", "garlic", clove, "f6ebcf", 2.0, 0.15, True),
    ("香菜|芫荽|薄荷|紫苏|九层塔|罗勒|香草|鱼腥草|折耳根|荆芥|苦菊", "herbs", sprig, "4a9a3c", 2.6, 0.0, True),
    ("芝麻(?!酱|油)", "sesame", grain, "fbefd0", 1.0, 0.0, True),
    ("花生(?!酱|油)", "peanut", peanut, "d7a164", 2.3, 0.0, False),
    ("核桃|腰果|栗子|板栗|杏仁|松子|松仁|瓜子|果仁|坚果|榛子|榛仁", "nuts", walnut, "c48a4c", 2.3, 0.05, False),
    ("枸杞", "goji", goji, "d8331f", 1.3, 0.0, True),
    ("红枣|大枣|蜜枣", "jujube", jujube, "8f2a22", 2.8, 0.0, False),
    ("桂圆|龙眼|莲子|百合|白果|银杏|芡实", "lotus seed", pea, "f3e4be", 2.0, 0.05, False),
    ("银耳|雪耳", "white fungus", snow_ear, "f4ecd4", 4.2, 0.0, False),
    ("木耳|云耳", "wood ear", tripe, "3c2f2e", 3.4, 0.0, False),
    ("金针菇", "needle mushroom", thin_mushroom, "f4ead0", 4.2, 0.05, False),
    ("香菇|冬菇|花菇|松茸|牛肝菌|菌|菇|蘑|鸡枞", "mushroom", mushroom, "8a5d3c", 3.8, 0.1, False),
    ("黄瓜|青瓜", "cucumber", cucumber, "4d9440", 3.4, 0.0, False),
    ("胡萝卜|红萝卜", "carrot", coin, "ef8a2e", 2.6, 0.0, False),
    ("萝卜干", "dried radish", dice, "c99a4c", 1.8, 0.1, False),
    ("白萝卜|萝卜", "radish", chunk, "f3efdd", 3.6, 0.3, False),
    ("土豆|马铃薯|洋芋", "potato", chunk, "ecc868", 3.8, 0.2, False),
    ("红薯|地瓜|南瓜", "pumpkin", chunk, "eb9a3a", 3.8, 0.05, False),
    ("山药|芋头|荔浦芋|香芋|莴|茭白|马蹄|荸荠", "taro", chunk, "e6dccf", 3.6, 0.15, False),
    ("莲藕|藕(?!粉)", "lotus root", lotus_root, "efdcc0", 4.6, 0.15, False),
    ("番茄|西红柿", "tomato", tomato, "dd4030", 3.8, 0.0, False),
    ("茄", "aubergine", aubergine, "57316e", 4.2, 0.0, False),
    ("冬瓜|丝瓜|葫芦|瓠|节瓜", "gourd", chunk, "cfe0b4", 3.8, 0.1, False),
    ("苦瓜", "bitter melon", ring, "79b84c", 3.2, 0.0, False),
    ("菠萝|凤梨|芒果|木瓜|橙|桃", "pineapple", chunk, "f7cb45", 3.2, 0.0, False),
    ("玉米", "corn", pea, "f5c535", 1.7, 0.0, False),
    ("豌豆(?!粉|尖)|青豆|毛豆|蚕豆|豆瓣米", "peas", pea, "76b843", 1.8, 0.0, False),
    ("红豆|赤豆|芸豆|绿豆(?!粉|芽)|黄豆(?!酱)|黑豆", "beans", pea, "8a352c", 1.7, 0.0, False),
    ("四季豆|豆角|豇豆|扁豆|芸豆角|刀豆|荷兰豆", "green beans", stick, "4f9a3c", 3.4, 0.0, False),
    ("豆芽|银芽", "bean sprouts", sprout, "f3edd6", 3.4, 0.05, False),
    ("笋", "bamboo shoots", bamboo_shoot, "eed9a0", 3.8, 0.15, False),
    ("酸菜|梅干菜|梅菜|霉干菜|芽菜|榨菜|咸菜|雪菜|雪里蕻|泡菜|腌菜|酸豆角", "pickled greens",
     pickled, "6b6a32", 3.0, 0.0, False),
    ("花菜|菜花|花椰菜", "cauliflower", floret, "f1e8cf", 4.2, 0.1, False),
    ("西兰花", "broccoli", floret, "4f9a3e", 4.2, 0.0, False),
    ("小白菜|上海青|油菜|青菜|菜心|小青菜|娃娃菜心|鸡毛菜", "bok choy", bok_choy, "4d9c3c", 5.2, 0.0, False),
    ("大白菜|白菜|娃娃菜|包菜|卷心菜|圆白菜|甘蓝", "cabbage", cabbage, "b4d27c", 4.4, 0.08, False),
    ("空心菜|芥蓝|菠菜|油麦菜|生菜|豌豆尖|豆苗|茼蒿|蕨菜|莼菜|芥菜|蔬菜|时蔬|菜叶|[香西]?芹|马兰|地皮菜", "greens",
     leaf, "4a9440", 3.8, 0.0, False),
    ("海带|紫菜|海苔", "seaweed", leaf, "35503c", 3.6, 0.0, False),
    ("粉丝|粉条|宽粉|红薯粉|苕粉", "glass noodles", strands, "dcd0c0", 4.6, 0.25, False),
    ("面筋|油豆腐|豆泡|豆腐泡", "tofu puffs", fried, "d9a24a", 3.8, 0.1, False),
    ("臭豆腐", "fried tofu", tofu, "4c443f", 4.6, 0.0, False),
    ("腐竹|豆皮|千张|百叶|豆干|香干|豆腐皮|干丝|豆腐干|腐皮", "bean curd sheet", shred, "eed79c", 3.6, 0.2, False),
    ("豆腐|豆花", "tofu", tofu, "fbf3df", 4.4, 0.06, False),
    ("皮蛋|松花蛋", "preserved egg", half_egg, "5a4a3c", 3.6, 0.0, False),
    ("咸蛋黄|蛋黄", "egg yolk", ball, "f0a02c", 2.2, 0.0, False),
    ("鸡蛋|鸭蛋|蛋(?!糕|挞)", "egg", scrambled, "f7cc4a", 3.8, 0.05, False),
    ("糖桂花|桂花", "osmanthus", grain, "f2b52e", 0.9, 0.0, True),
    ("腊肠|香肠", "sausage", sausage, "a8382a", 3.6, 0.0, False),
    ("火腿|云腿", "ham", square, "c8523f", 2.6, 0.0, False),
    ("咸肉|腊肉|培根|叉烧|烟肉", "cured meat", belly_slice, "a84a36", 4.2, 0.0, False),
    ("虾仁|河虾仁|虾肉", "shelled shrimp", peeled_shrimp, "f4a987", 3.6, 0.0, False),
    ("小龙虾|龙虾|大虾|明虾|对虾|基围虾|虾(?!酱|米|皮)", "shrimp", shrimp, "ea6a42", 5.4, 0.1, False),
    ("虾米|虾皮|开洋|海米", "dried shrimp", peeled_shrimp, "eea06a", 1.8, 0.0, True),
    ("蟹", "crab", crab, "e2632e", 9.0, 0.0, False),
    ("生蚝|扇贝|带子", "oysters", oyster, "e8d9b8", 6.4, 0.0, False),
    ("海蛎|牡蛎|蚵", "shucked oysters", soft_oyster, "b9b3a2", 3.4, 0.0, False),
    ("蛤|花甲|蚬|贝|蛏|螺|文蛤|田螺", "clams", clam, "b59b84", 3.8, 0.0, False),
    ("鱿鱼|墨鱼|乌贼|章鱼|海蜇", "squid", kidney, "f3dcd2", 3.8, 0.15, False),
    ("海参", "sea cucumber", spiky, "3b332e", 5.2, 0.0, False),
    ("鳝|鳗|鳅", "eel", eel, "54402f", 4.2, 0.1, False),
    ("鱼丸|鱼圆|鱼蛋", "fish balls", ball, "faf3e2", 4.0, 0.05, False),
    ("鱼|鳊|鲈|鲤|鳜|鲫|鳕", "fish", fillet, "f4e8d4", 4.8, 0.15, False),
    ("鸭血|猪血|血旺|毛血", "blood curd", tofu, "6d2b26", 4.0, 0.0, False),
    ("毛肚|牛肚|百叶肚|羊肚|肚", "tripe", tripe, "7d6f63", 4.0, 0.15, False),
    ("腰花|猪腰|胗|郡肝", "kidney", kidney, "9c5a48", 3.8, 0.15, False),
    ("肥肠|大肠|肠(?!粉)", "intestine", ring, "cf9a6c", 3.2, 0.3, False),
    ("肝|心|肺|下水|羊杂|牛杂|杂碎|蹄筋|牛筋", "offal", slice_, "8a4a3a", 3.8, 0.1, False),
    ("排骨|肋排|小排|仔排", "ribs", rib, "a8522f", 5.0, 0.35, False),
    ("猪蹄|猪脚|蹄花|猪手|肘|蹄膀", "trotter", belly_cube, "a85a36", 5.0, 0.3, False),
    ("五花肉|东坡肉|扣肉|肥肉", "pork belly", belly_cube, "b25c38", 5.0, 0.3, False),
    ("肉末|肉糜|肉馅|肉臊|绞肉|碎肉|猪肉末|臊子", "mince", crumb, "8a4d32", 2.6, 0.15, False),
    ("肉丝|里脊丝|鸡丝", "shreds of meat", shred, "c98a66", 3.2, 0.35, False),
    ("里脊|猪柳|梅花肉|猪瘦肉|瘦肉|肉片|猪肉|腿肉|猪颈", "pork", slice_, "c68462", 4.0, 0.35, False),
    ("牛腩|牛腱|牛尾|牛骨", "beef brisket", chunk, "8a4a30", 4.6, 0.2, False),
    ("牛", "beef", slice_, "7d4430", 4.2, 0.1, False),
    ("羊排|羊腿|羊骨|羊蝎子|全羊", "lamb on the bone", rib, "9a5a3a", 5.4, 0.15, False),
    ("羊", "lamb", slice_, "8f5038", 4.0, 0.1, False),
    ("鸡爪|凤爪|鸡翅|鸭翅|鸡腿|鸭脖|鸭掌|鹅掌", "feet and wings", bone_chunk, "d39a5c", 4.6, 0.4, False),
    ("鸡胸|鸡脯|鸡肉丁|鸡丁", "diced chicken", dice, "e0ad74", 3.2, 0.35, False),
    ("鸡(?!精|油|汤)|乌骨", "chicken", bone_chunk, "e2b068", 4.6, 0.4, False),
    ("鸭|鹅|鸽", "duck", bone_chunk, "a85a2e", 4.8, 0.35, False),
    ("兔|驴|鹿|蛇|蛙|甲鱼|龟", "game", bone_chunk, "c08a5c", 4.4, 0.35, False),
    ("糯米|大米|米饭|籼米|粳米|小米|黑米|西米|糍粑|年糕|米", "rice", grain, "fbf6e6", 1.8, 0.1, False),
    ("米线|米粉|河粉|面条|面|粉(?!丝|条)", "noodles", strands, "f0dca0", 4.6, 0.15, False),
    ("肉", "pork", slice_, "c68462", 4.0, 0.35, False),
    ("椰", "coconut", shred, "fffaf0", 2.0, 0.0, True),
    ("油条|脆|馓子|薄脆", "crisp", crisp, "d99c44", 2.8, 0.0, False),
    ("葡萄干|果脯|蜜饯|山楂", "dried fruit", pea, "7b2f2a", 1.6, 0.0, False),
]  # fmt: skip

PIECES: list[tuple[re.Pattern[str], Cut]] = [
    (re.compile(pattern), Cut(name, draw, rgb(code), size, takes, small))
    for pattern, name, draw, code, size, takes, small in _ROWS
]


_HIDDEN = re.compile(
    r"糯米粉|大米粉|红薯粉(?!条|丝)|黄米面|黄豆粉|澄面|荷叶|艾草|蛋清|猪皮冻|老母鸡|干贝|大地鱼|沙虫|三七|韭菜花|猪肥肉|花刀"
    r"|(?:油|酱|精|盐|糖|醋|酒|汁|水|汤|露|浆|腐乳|南乳|香料|八角|桂皮|香叶|砂仁|卤料)$|(?:面|淀|椒|五香|胡椒)粉$|胡椒$"
)


def cut_of(word: str) -> Cut | None:
    """How an ingredient shows; None where it does not (salt, oil, stock) or is not known."""
    if _HIDDEN.search(word) and not re.search("辣椒粉|辣椒面", word):
        return None
    return next((cut for pattern, cut in PIECES if pattern.search(word)), None)
