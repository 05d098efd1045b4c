"""Rendered illustrations: one flat drawing for a recipe step, made from what the step says.

They stand in for photographs where a collection has none, and are called what they are: *rendered*. A drawing shows
the ingredients, the vessel and the action that its step names. It never sees which step of the recipe it is.
"""

import hashlib
import io
import math
import os
import random
import re
import tempfile
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path

from PIL import Image, ImageDraw
from tqdm import tqdm

from data.drawings import (
    CREAM,
    GLASS,
    GREEN,
    INGREDIENTS,
    IRON,
    RED,
    STEEL,
    WHITE,
    WOOD,
    Colour,
    Drawing,
    Pen,
    blend,
    bottle,
    bottle_milk,
    dark,
    drop,
    herb,
    jug,
    light,
    rgb,
    shaker,
    water,
)
from data.records import SourceRecipe

SUPERSAMPLING = 3
JPEG_QUALITY = 90
MAX_THINGS = 6

# ---------------------------------------------------------------------------------------------------- reading a step

# What the words of a step say about its picture: pattern, place, weight of the place, actions. At one position the
# first pattern that fits is taken, so phrases stand before their words; participles ("chopped onion") say nothing.
_CUES = [
    (r"baking (?:powder|soda)|boiling water over|steak knife|serving (?:bowl|spoon)s?|to taste", "", 0.0, ""),
    (r"(?:baking|cookie|sheet|muffin|cupcake|bun)[ -](?:sheet|tray|pan|tin|cup)s?|trays?|parchment", "tray", 2.3, ""),
    (r"(?:baking|casserole|pie|gratin|roasting|cake|loaf|tart|bread|square|springform|oven-?proof|greased|prepared) "
     r"(?:dish(?:es)?|pans?|tins?|plates?|mou?lds?|skillet)|ramekins?|mou?lds?", "dish", 2.3, ""),
    (r"dutch ovens?|stock ?pots?|saucepans?|sauce pans?|(?:pressure|slow|rice) cookers?|instant pot|double boiler",
     "pot", 2.4, ""),
    (r"frying pans?|skillets?|griddle|woks?|saut[ée] pan", "pan", 2.6, ""),
    (r"cutting board|bite-?sized?|into (?:thin |small )?(?:pieces|strips|cubes|slices|wedges)", "board", 1.2, ""),
    (r"food processor|blenders?|(?<!tomato )pur[ée]e|liquidi[sz]e|process|pulse", "blender", 3.2, ""),
    (r"(?:wire|cooling) racks?|racks?", "rack", 2.2, "cool"),
    (r"(?:let|allow) (?:it |them |the \w+ )?(?:to )?(?:cool|rest|stand|sit|set)|set aside|room temperature",
     "rack", 2.0, "cool"),
    (r"running water|cold water bath|wash(?:ing)?|rins(?:e|ing)", "tap", 2.7, ""),
    (r"(?:lightly )?floured (?:surface|board|work surface)|rolling pin|roll(?:ing)?(?: it| the \w+)? out",
     "dough", 3.0, "roll"),
    (r"roll(?:ing)? (?:the )?(?:dough|pastry)|cut out", "dough", 2.4, "roll"),
    (r"(?:in)?to (?:a |the |an? \w+ )?(?:glass|mug)(?:es|s)?|(?:glass|mug)(?:es|s)?|cocktail|shaker|drink",
     "glass", 2.6, "pour"),
    (r"stir[ -]fry(?:ing)?|deep[ -]fry|fry(?:ing)?|saut[ée](?:ing)?|sear(?:ing)?|deglaze|pan-fry", "pan", 3.0, "heat"),
    (r"(?:add|stir|mix|fold|whisk)(?:ing)? in", "bowl", 1.4, "spoon add"),
    (r"pre-?heat(?:ing)?", "oven", 3.6, ""),
    (r"bak(?:e|ing)|roast|broil(?:er)?", "oven", 3.0, ""),
    (r"ovens?", "oven", 1.8, ""),
    (r"refrigerat(?:e|or|ing)|fridge|chill(?:ing)?", "fridge", 3.4, "cool"),
    (r"freez(?:e|er|ing)", "freezer", 3.6, "cool"),
    (r"grill(?:ing)?|barbecue|charcoal|smoker|coals", "grill", 3.0, "heat"),
    (r"microwav(?:e|ing)", "microwave", 3.6, "heat"),
    (r"peel(?:ing)?", "board", 2.7, "peel"),
    (r"chop(?:ping)?|slic(?:e|ing)|cut(?:ting)?|dice|mince|trim|core|julienne|carve|shred|halve|debone|score|pit",
     "board", 2.5, ""),
    (r"grat(?:e|ing)|zest the", "grater", 3.0, ""),
    (r"blend(?:ing)? together", "bowl", 2.2, "spoon"),
    (r"blend(?:ing)?", "blender", 3.0, ""),
    (r"grind(?:ing)?|pound(?:ing)?|crush(?:ing)?|mortar|pestle", "mortar", 2.7, ""),
    (r"drain(?:ing)?|strain(?:ing)?|colander|sieve|strainer|cheesecloth|filter", "colander", 2.9, ""),
    (r"knead(?:ing)?", "dough", 3.2, "knead"),
    (r"(?:in)?to (?:small |\w+-?sized? )?(?:balls|patties|logs?)", "dough", 2.0, "shape"),
    (r"shape|flatten|form|stretch|divide|punch", "dough", 1.9, "shape"),
    (r"brown", "pan", 1.4, "heat"),
    (r"pans?|melt(?:ing)?|toast", "pan", 1.3, "heat"),
    (r"flip(?:ping)?|turn(?:ing)? (?:over|once|them|it|often)|both sides|(?:each|other|second) side",
     "pan", 1.2, "flip"),
    (r"boil(?:ing)?|blanch|parboil", "pot", 2.6, "boil heat"),
    (r"simmer(?:ing)?|poach|stew(?:ing)?", "pot", 2.6, "simmer heat"),
    (r"steam(?:er|ing)?", "pot", 2.2, "simmer heat cover"),
    (r"pots?|kettle|cauldron", "pot", 2.2, ""),
    (r"heat(?:ing)?|cook(?:ing)?|reduce|thickens?|flame|stove", "pot", 1.3, "heat"),
    (r"whisk(?:ing)?|beat(?:ing)?|whip|mixer|cream (?=the|together|butter)", "bowl", 2.3, "whisk"),
    (r"mash(?:ing)?", "bowl", 2.3, "mash"),
    (r"sift|sifting", "bowl", 2.3, "sift"),
    (r"combine|mix(?:ing)?|toss|dissolve|incorporate", "bowl", 2.2, "spoon"),
    (r"stir(?:ring)?|fold", "bowl", 1.2, "spoon"),
    (r"bowls?", "bowl", 2.0, ""),
    (r"marinate|soak(?:ing)?|coat|dredge|crack|dip", "bowl", 1.9, ""),
    (r"add(?:ing)?|put|throw|drop|return", "bowl", 0.8, "add"),
    (r"place|transfer", "bowl", 0.5, "add"),
    (r"pour(?:ing)?|ladle", "bowl", 0.8, "pour"),
    (r"season|taste", "bowl", 0.8, "sprinkle"),
    (r"separate|squeeze|rub|crumble|break|moisten", "bowl", 0.8, ""),
    (r"arrange|lay", "tray", 1.3, ""),
    (r"grease|brush|baste|glaze", "dish", 1.0, "brush"),
    (r"dish(?:es)?|layers?|line|spread|crust|fill", "dish", 1.3, ""),
    (r"serve|garnish|plates?|platter|enjoy|eat", "plate", 2.4, "serve"),
    (r"sprinkl(?:e|ing)|dust", "plate", 1.2, "sprinkle"),
    (r"top|drizzle|decorate|assemble|wrap|stuff|skewer|roll", "plate", 1.1, ""),
    (r"jars?|bottles?|airtight|containers?|store|ferment|preserve|seal", "jar", 2.4, ""),
    (r"cool|rest|rise|stand", "rack", 1.9, "cool"),
    (r"cover(?:ing)?|lid|foil|wrap", "", 0.0, "cover"),
    (r"hot|warm|immediately", "", 0.0, "hot"),
    (r"cold", "", 0.0, "cool"),
]  # fmt: skip
_CUE = re.compile(r"\b(?:" + "|".join(f"(?P<c{i}>{pattern})" for i, (pattern, *_) in enumerate(_CUES)) + r")\b")

# Names of things that hold the name of a food without being one.
_NO_FOOD = re.compile(
    r"\b(?:(?:loaf|cake|muffin|pie|casserole|cookie|bread|sauce|soup|salad|pizza|tart|rice|egg|jelly|cheese)[ -]?"
    r"(?:pans?|tins?|dish(?:es)?|plates?|sheets?|trays?|cutters?|mou?lds?|cookers?|bowls?|pots?|stones?|cups?|knife"
    r"|wash|slicer|cloth|machine)|(?:wine|milk|cocktail|beer|water) (?:glass(?:es)?|bath)"
    r"|coffee (?:grinder|filter|mug)s?|tea (?:towel|kettle)s?|butter knife|ice (?:bath|cream maker)"
    r"|(?:pea|egg|walnut|bean)-?sized?|(?:stock|crock) ?pots?"
    r"|(?:golden|lightly|deep|dark|nicely|well|until|is|are) brown(?:ed)?|ice[ -]cold"
    r"|cream (?=the|together|butter|until)|potato masher|garlic press|meat thermometer|meringue powder|water level)\b"
)
_FOOD = re.compile(
    r"\b(" + "|".join(re.escape(word) for word in sorted(INGREDIENTS, key=len, reverse=True)) + r")(?:e?s)?\b"
)
_TIME = re.compile(
    r"(\d+)(?:\s*½)?(?:\s*(?:–|-|to|or)\s*\d+)?[\s-]*(second|sec|minute|min|hour|hr|day|week)s?\b|\bovernight\b"
)
_TEMPERATURE = re.compile(r"(\d{2,3})\s*[°º˚]?\s*([cf])\b")


@dataclass(frozen=True, slots=True)
class Scene:
    """What a drawing shows."""

    place: str  # pot, pan, bowl, oven, ...
    things: tuple[str, ...]  # words of `INGREDIENTS`, in the order of the text, one for each kind
    actions: tuple[str, ...]
    minutes: float = 0.0  # 0 where the step names no time
    heat: float = 0.0  # oven temperature as a fraction of 250 °C, 0 where the step names none
    empty: bool = False  # an oven that is only heated

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for drawings that look alike: times, temperatures and the order of the things hardly show."""
        return self.place, tuple(sorted(INGREDIENTS[thing][0] for thing in self.things)), self.actions, self.empty


@lru_cache(maxsize=1 << 15)
def read_scene(step_text: str, ingredients: tuple[str, ...] = ()) -> Scene:
    """Finds out what a step shows: where it happens, with what, and what is done.

    Only what the step names is shown. `ingredients` (lines of the recipe's list) make its words more precise: "beans"
    are green where the list says "green beans".
    """
    text = step_text.lower()
    scores: dict[str, float] = {}
    actions: set[str] = set()
    seen: set[str] = set()
    for match in _CUE.finditer(text):
        cue = match.lastgroup or ""
        _, place, weight, does = _CUES[int(cue[1:])]
        actions.update(does.split())
        if place and cue not in seen:  # what is said early counts a little more
            seen.add(cue)
            scores[place] = scores.get(place, 0.0) + weight * (1.15 - 0.15 * match.start() / len(text))
    place = max(scores, key=lambda name: (round(scores[name], 6), name)) if scores else "bowl"

    things: dict[str, str] = {}  # kind -> word
    for match in _FOOD.finditer(_NO_FOOD.sub(" ", text)):
        word = _precise(match.group(1), ingredients)
        things.setdefault(INGREDIENTS[word][0], word)
    if (
        "beef" in things
        and {"mince", "chicken", "pork", "sausage", "fish"} & things.keys()
        and things["beef"] == "meat"
    ):
        del things["beef"]

    minutes = 0.0
    if match := _TIME.search(text):
        unit = match.group(2) or "day"
        minutes = float(match.group(1) or 1) * {"s": 1 / 60, "m": 1, "h": 60, "d": 1440, "w": 10080}[unit[0]]
    heat = 0.0
    if match := _TEMPERATURE.search(text):
        celsius = float(match.group(1)) if match.group(2) == "c" else (float(match.group(1)) - 32) / 1.8
        heat = min(1.0, max(0.1, celsius / 250))
    return Scene(place, tuple(things.values())[:MAX_THINGS], tuple(sorted(actions)), minutes, heat, "preheat" in text)


def _precise(word: str, lines: Iterable[str]) -> str:
    """The longest known name in the recipe's list that ends in the word; the word itself where there is none."""
    names = [name for line in lines for name in _names(line) if name.endswith(" " + word)]
    return max(names, key=len, default=word)


@lru_cache(maxsize=1 << 15)
def _names(line: str) -> tuple[str, ...]:
    return tuple(match.group(1) for match in _FOOD.finditer(line.lower()))


# ------------------------------------------------------------------------------------------------- vessels and tools

_BACKGROUNDS = [
    (rgb("fbe6d4"), rgb("e9b990")),
    (rgb("dff0ea"), rgb("a8d0c0")),
    (rgb("e6ecf7"), rgb("b4c3e0")),
    (rgb("fdf0cf"), rgb("ecc97e")),
    (rgb("f6e3e8"), rgb("dfb1bf")),
    (rgb("e9f2d9"), rgb("bfd398")),
    (rgb("efe6f5"), rgb("c7b4dc")),
    (rgb("e2f1f6"), rgb("a9cfdd")),
]
_ENAMEL = [rgb(code) for code in ("d8604f", "3f7f8c", "4a6fa5", "e0a13a", "6b8f5e", "8a6fa8", "59626f", "c77b95")]
_ORANGE, _YELLOW, _BLUE = rgb("f58a2c"), rgb("fcd34f"), rgb("7cc3ea")
_FOODY = rgb("e3b673")  # a mixture of things that the step does not name

_LIQUIDS = (bottle, bottle_milk, jug, water)

Inside = Callable[[Pen], None]


@dataclass(slots=True)
class _Set:
    """What one drawing has at hand: the frame, the scene, its colours, and its own dice."""

    pen: Pen
    scene: Scene
    wall: Colour
    table: Colour
    enamel: Colour
    dice: random.Random

    def things(self) -> list[tuple[Drawing, Colour]]:
        return [(INGREDIENTS[word][1], INGREDIENTS[word][2]) for word in self.scene.things]

    def filling(self, default: Colour) -> Colour:
        """Colour of what is in a vessel: the mean of its ingredients' colours."""
        colours = [INGREDIENTS[word][2] for word in self.scene.things]
        if not colours:
            return default
        r, g, b = (round(sum(channel) / len(colours)) for channel in zip(*colours, strict=True))
        return r, g, b

    def solids(self) -> list[tuple[Drawing, Colour]]:
        return [thing for thing in self.things() if thing[0] not in _LIQUIDS]

    def has(self, *actions: str) -> bool:
        return any(action in self.scene.actions for action in actions)


def _front(p: Pen, rx: float, ry: float, outline: Sequence[tuple[float, float]], fill: Colour) -> None:
    """The outside of an open vessel: from the front of its rim (an ellipse about the origin) to its foot."""
    rim = [(rx * math.cos(math.pi * i / 16), ry * math.sin(math.pi * i / 16)) for i in range(17)]
    p.poly([*rim, *outline], fill)


def _shadow(s: _Set, x: float, y: float, rx: float) -> None:
    s.pen.disc(x, y, rx, rx * 0.14, dark(s.table, 0.16))


def _layout(count: int, width: float, size: float) -> list[tuple[float, float, float]]:
    """Places (x, y, size) of so many things across a width; the back row first."""
    if count <= 3:
        step = min(width / max(count, 1), size * 2.1)
        return [((i - (count - 1) / 2) * step, 0.0, min(size, step / 1.75)) for i in range(count)]
    back = count // 2
    small = size * 0.84
    rows = [(back, -small * 1.15), (count - back, small * 0.35)]
    return [((i - (n - 1) / 2) * min(width / n, small * 2.05), y, small) for n, y in rows for i in range(n)]


def _place(s: _Set, things: Sequence[tuple[Drawing, Colour]], x: float, y: float, width: float, size: float) -> None:
    """Things side by side, standing about (x, y)."""
    for (drawing, colour), (dx, dy, k) in zip(things, _layout(len(things), width, size), strict=True):
        drawing(s.pen.at(x + dx, y + dy, k, s.dice.uniform(-9, 9)), colour)


def _tip(p: Pen, drawing: Drawing, colour: Colour) -> None:
    """A thing above a vessel: bottles and jugs are tipped and drip, shakers shake, the rest just falls."""
    if drawing in (bottle, bottle_milk):
        drawing(p.at(0.15, -0.2, 0.95, 128), colour)
        drop(p.at(-0.8, 0.62, 0.2), colour if drawing is bottle else dark(colour, 0.08))
        drop(p.at(-0.8, 1.12, 0.15), colour if drawing is bottle else dark(colour, 0.08))
    elif drawing in (jug, water):
        jug(p.at(0.2, -0.15, 0.9, -48), colour)
        drop(p.at(-0.85, 0.55, 0.22), colour)
        drop(p.at(-0.85, 1.1, 0.17), colour)
    elif drawing is shaker:
        shaker(p.at(0.1, -0.25, 0.85, 200), colour)
        for x, y in ((-0.4, 0.75), (0.0, 0.7), (-0.2, 1.05), (0.2, 1.0), (-0.45, 1.3), (0.0, 1.35)):
            p.disc(x, y, 0.08, 0.08, IRON if sum(colour) < 600 else WHITE)
    else:
        drawing(p, colour)


def _fall(s: _Set, things: Sequence[tuple[Drawing, Colour]], x: float, y: float, width: float) -> None:
    """Things on their way into a vessel, with lines of motion above them."""
    pale = blend(s.wall, dark(s.wall, 0.5), 0.45)
    for (drawing, colour), (dx, dy, k) in zip(things, _layout(len(things), width, 11), strict=True):
        if len(things) <= 3 and drawing not in (*_LIQUIDS, shaker):
            for shift in (-0.5, 0.0, 0.5):
                p = s.pen.at(x + dx + shift * k, y + dy - k * 1.15)
                p.line([(0, 0), (0, -(3.5 if shift else 5.5))], 0.9, pale)
        _tip(s.pen.at(x + dx, y + dy, k, s.dice.uniform(-12, 12)), drawing, colour)


def _flames(p: Pen, width: float, count: int) -> None:
    """A row of flames above the origin."""
    for i in range(count):
        x = (i - (count - 1) / 2) * width / count
        high = 1.0 if i % 2 else 0.8
        for k, colour in ((1.0, _ORANGE), (0.6, _YELLOW)):
            q = p.at(x, 0, k)
            q.poly([(-2.6, -2), (-1.4, -5.5 * high), (0, -9.5 * high), (1.6, -5 * high), (2.6, -2)], colour)
            q.disc(0, -1.8, 2.65, 2.3, colour)


def _stove(s: _Set, x: float, y: float) -> None:
    """A gas ring with its flames; vessels stand about 9 above it."""
    s.pen.box(x - 25, y, x + 25, y + 5.5, IRON, 2.5)
    s.pen.disc(x - 17, y + 2.8, 1.6, 1.6, rgb("e8e4da"))
    s.pen.disc(x + 17, y + 2.8, 1.6, 1.6, rgb("e8e4da"))
    _flames(s.pen.at(x, y + 0.5), 40, 6)


def _steam(s: _Set, x: float, y: float, count: int = 3) -> None:
    pale = blend(s.wall, WHITE, 0.8)
    for i in range(count):
        dx = x + (i - (count - 1) / 2) * 9
        high = 15 if i % 2 else 11
        points = [(dx + 1.8 * math.sin(j * 1.05), y - high * j / 8) for j in range(9)]
        s.pen.line(points, 2.1, pale)


def _bubbles(s: _Set, p: Pen, rx: float, ry: float, colour: Colour) -> None:
    for u, v, r in ((-0.6, 0.1, 1.9), (-0.2, -0.45, 1.4), (0.15, 0.35, 2.1), (0.5, -0.3, 1.7), (0.75, 0.2, 1.3)):
        p.disc(u * rx, v * ry, r, r * 0.85, light(colour, 0.55))
        p.disc(u * rx + 0.3, v * ry + 0.3, r * 0.6, r * 0.5, light(colour, 0.25))


def _swirl(s: _Set, x: float, y: float, rx: float) -> None:
    """Arrows of stirring around the upper end of a tool."""
    colour = blend(s.wall, dark(s.wall, 0.7), 0.65)
    for start, end in ((150, 300), (-30, 120)):
        s.pen.arc(x, y, rx, rx * 0.36, start, end, 1.3, colour)
        t = math.radians(end)
        q = s.pen.at(x + rx * math.cos(t), y + rx * 0.36 * math.sin(t), 1, 170 if end == 120 else -10)
        q.poly([(-2.6, -2), (2.4, 0), (-2.6, 2)], colour)


def _wooden_spoon(p: Pen) -> None:
    """A spoon with its bowl at the origin and its handle up."""
    p.line([(0, 0), (0, -36)], 2.5, WOOD)
    p.line([(-0.6, -2), (-0.6, -35)], 0.8, light(WOOD, 0.3))
    p.disc(0, 0, 4, 5.6, dark(WOOD, 0.12))
    p.disc(0, 0.4, 2.8, 4.2, light(WOOD, 0.15))


def _whisk(p: Pen) -> None:
    """A balloon whisk, wires down."""
    for rx in (5.6, 3.4, 1.1):
        for side in (-1, 1):
            p.line([(side * rx * math.sin(math.pi * i / 8), 5 - 19 * i / 8) for i in range(9)], 0.8, rgb("9aa6b1"))
    p.line([(0, -14), (0, -36)], 3.0, IRON)
    p.line([(0, -14), (0, -17)], 3.6, STEEL)


def _masher(p: Pen) -> None:
    p.line([(0, -4), (0, -22)], 1.6, STEEL)
    p.line([(0, -22), (0, -36)], 3.4, IRON)
    p.line([(-7, 2), (-7, -3), (0, -5), (7, -3), (7, 2)], 1.5, STEEL)
    p.line([(-9, 2), (-6, 5), (-3, 2), (0, 5), (3, 2), (6, 5), (9, 2)], 1.5, dark(STEEL, 0.15))


def _spatula(p: Pen) -> None:
    """A slotted turner, blade at the origin, handle up."""
    p.line([(0, -6), (0, -36)], 2.2, IRON)
    p.poly([(-5, -7), (5, -7), (6, 7), (-6, 7)], STEEL)
    for x in (-2.5, 0, 2.5):
        p.line([(x, -3.5), (x * 1.1, 3.5)], 0.9, dark(STEEL, 0.3))


def _knife(p: Pen) -> None:
    """A chef's knife along the x axis, edge down, tip to the left."""
    p.poly([(-24, 3.5), (-18, -1.5), (-8, -3.5), (8, -3.5), (8, 4.5), (-14, 4.5)], rgb("dfe5ea"))
    p.poly([(-24, 3.5), (-8, 2.2), (8, 2.2), (8, 4.5), (-14, 4.5)], rgb("b8c2cb"))
    p.box(8, -3.8, 25, 1.4, IRON, 2.2)
    for x in (12, 16.5, 21):
        p.disc(x, -1.2, 0.8, 0.8, STEEL)


def _rolling_pin(p: Pen) -> None:
    p.line([(-27, 0), (27, 0)], 3.2, dark(WOOD, 0.2))
    p.box(-19, -5, 19, 5, WOOD, 3)
    p.box(-18, -4, 18, -1, light(WOOD, 0.3), 1.5)


def _brush(p: Pen, colour: Colour) -> None:
    p.line([(0, -8), (0, -34)], 2.4, WOOD)
    p.box(-4, -10, 4, -4, STEEL, 1)
    p.poly([(-4, -4), (4, -4), (5, 6), (-5, 6)], rgb("f2e3c0"))
    p.poly([(-4.6, 2), (4.6, 2), (5, 6), (-5, 6)], colour)


def _fork(p: Pen) -> None:
    for x in (-2, 0, 2):
        p.line([(x, -12), (x, -5)], 0.9, rgb("a9b4be"))
    p.box(-2.6, -6.5, 2.6, -2, rgb("a9b4be"), 2)
    p.line([(0, -3), (0, 13)], 1.6, rgb("a9b4be"))


def _table_knife(p: Pen) -> None:
    p.poly([(-1.2, -12), (1.5, -10), (1.5, 1), (-1.2, 1)], rgb("c3ccd4"))
    p.line([(0.2, 1), (0.2, 13)], 1.7, rgb("a9b4be"))


def _sieve(p: Pen) -> None:
    p.line([(11, -1), (24, -5)], 1.8, IRON)
    p.half(0, 0, 11, 10, rgb("c9d2d9"))
    for x in (-6, -2, 2, 6):
        p.line([(x, 1), (x * 0.6, 8 - abs(x) * 0.3)], 0.5, dark(STEEL, 0.25))
    p.box(-12, -1.6, 12, 1.2, STEEL, 1.2)


def _stream(p: Pen, colour: Colour, length: float) -> None:
    """A jug tilted to the left; its liquid falls from the origin."""
    jug(p.at(15, -9, 12, -42), colour)
    p.line([(3.0, -11), (0.6, -6), (0, length)], 2.8, colour)
    p.line([(0.2, -3), (-0.4, length)], 0.9, light(colour, 0.5))


def _sprinkle(p: Pen, colour: Colour, grain: Colour) -> None:
    """A shaker upside down with its grains falling."""
    shaker(p.at(0, -10, 9, 205), colour)
    for i, (x, y) in enumerate(((-5, 3), (-1, 1), (3, 3), (-3, 8), (1, 7), (5, 8), (-6, 13), (-1, 13), (3, 13))):
        p.disc(x + 2, y, 0.9 + 0.2 * (i % 2), 0.9, grain)


def _lid(p: Pen, rx: float, colour: Colour) -> None:
    p.half(0, 0, rx, rx * 0.34, colour, up=True)
    p.half(-rx * 0.1, -0.5, rx * 0.6, rx * 0.2, light(colour, 0.25), up=True)
    p.box(-rx - 1, -1.2, rx + 1, 1.6, dark(colour, 0.2), 1.2)
    p.disc(0, -rx * 0.34 - 1.6, 3, 2.2, IRON)


def _clock(p: Pen, minutes: float) -> None:
    """A kitchen clock whose coloured sector is the time to wait; a full hour or more fills it."""
    p.disc(0.5, 0.8, 9.2, 9.2, rgb("c8bfb4"))
    p.disc(0, 0, 9, 9, rgb("e06a55"))
    p.disc(0, 0, 7.4, 7.4, WHITE)
    sweep = min(1.0, max(minutes, 2) / 60) * 360
    arc = [math.radians(-90 + sweep * i / 24) for i in range(25)]
    p.poly([(0, 0), *((6.3 * math.cos(t), 6.3 * math.sin(t)) for t in arc)], rgb("f7c9b9"))
    for angle in range(0, 360, 30):
        t = math.radians(angle)
        p.disc(6.4 * math.cos(t), 6.4 * math.sin(t), 0.5, 0.5, IRON)
    p.line([(0, 0), (0, -5.4)], 1.1, IRON)
    p.line([(0, 0), (4.6 * math.cos(arc[-1]), 4.6 * math.sin(arc[-1]))], 1.1, rgb("e06a55"))
    p.disc(0, 0, 1.1, 1.1, IRON)


def _thermometer(p: Pen, level: float) -> None:
    p.box(-2.8, -12, 2.8, 6, WHITE, 2.8)
    p.disc(0, 7, 5, 5, WHITE)
    p.disc(0, 7, 3.7, 3.7, RED)
    p.box(-1.3, 5 - 15 * level, 1.3, 7, RED, 1.2)
    for y in (-8, -5, -2, 1):
        p.line([(4, y), (6, y)], 0.8, IRON)


def _snowflake(p: Pen, colour: Colour) -> None:
    for angle in (0, 60, 120):
        q = p.at(0, 0, 1, angle)
        q.line([(0, -8), (0, 8)], 1.5, colour)
        for s in (-1, 1):
            q.line([(-2.4, s * 6.6), (0, s * 4.2), (2.4, s * 6.6)], 1.2, colour)


# --------------------------------------------------------------------------------------------------------- places


def _heated(s: _Set) -> bool:
    return s.has("heat", "boil", "simmer", "hot") or s.scene.place == "pan"


_FLUIDS = {
    "milk", "cream", "water", "broth", "juice", "oil", "palm oil", "butter", "wine", "white wine", "vinegar", "sauce",
    "tomato sauce", "soy sauce", "dressing", "beer", "soup", "honey", "coffee", "tea", "egg", "chocolate",
    "coconut milk",
}  # fmt: skip


def _pourable(s: _Set) -> tuple[Colour, list[tuple[Drawing, Colour]]]:
    """The colour of what is poured, the first liquid named, and the things that are left."""
    for i, word in enumerate(s.scene.things):
        if INGREDIENTS[word][0] in _FLUIDS:
            colour = _YELLOW if INGREDIENTS[word][0] == "egg" else INGREDIENTS[word][2]
            things = s.things()
            return colour, things[:i] + things[i + 1 :]
    return s.filling(_FOODY), s.things()


def _work_in(s: _Set, x: float, rim: float, rx: float, inside: Colour, body: Inside, back: Inside) -> None:
    """An open vessel with what goes into it: back, contents, tool, front, and what comes from above."""
    things = s.things()
    tool = next((name for name in ("whisk", "mash", "spoon") if s.has(name)), "")
    above = (s.has("add", "sprinkle", "pour", "sift") and not s.has("cover")) or len(things) > 3
    back(s.pen)
    if s.has("boil", "simmer"):
        _bubbles(s, s.pen.at(x, rim), rx * 0.85, rx * 0.2, inside)
    pouring = s.has("pour") and things
    shaking = s.has("sprinkle") and any(
        INGREDIENTS[word][1] in (shaker,) or "spice" in INGREDIENTS[word][0] for word in s.scene.things
    )
    falling = things if above and not pouring else []
    poured, rest = _pourable(s)
    if not above or pouring:
        kept = (rest if pouring else things)[:3]
        _place(s, kept, x - (4 if tool else 0), rim - 6, rx * 1.7 - (8 if tool else 0), 11.5)
    if tool:
        swing = s.dice.uniform(14, 26)
        q = s.pen.at(x + rx * 0.42, rim + 3, 1, swing)
        {"whisk": _whisk, "mash": _masher}.get(tool, _wooden_spoon)(q)
    body(s.pen)
    if tool and not falling:
        _swirl(s, x, rim - 17, rx * 0.62)
    if s.has("cover"):
        _lid(s.pen.at(x, rim - (9 if things else 4), 1, -8), rx, light(s.enamel, 0.1))
    elif pouring:
        _stream(s.pen.at(x - 4, rim - 18), poured, 17)
    elif falling:
        shift = -rx * 0.2 if tool else 0.0
        if s.has("sift"):
            _sieve(s.pen.at(x - 4, rim - 14))
            for i in range(7):
                s.pen.disc(x - 12 + i * 2.7, rim - 1 - (i % 3) * 2, 0.7, 0.7, WHITE)
            _place(s, falling, x - 4, rim - 26, rx * 1.7, 8.5)
        else:
            _fall(s, falling, x + shift, rim - (17 if len(falling) < 4 else 19), rx * (1.5 if tool else 1.9))
    elif shaking or (s.has("sprinkle") and not things):
        _sprinkle(s.pen.at(x - 6, rim - 16), WHITE, IRON)


def _pot(s: _Set) -> None:
    hot = _heated(s)
    x, base = 50.0, 73.0 if hot else 82.0
    rim, rx, ry = base - 27, 26.0, 6.4
    c, inside = s.enamel, blend(s.filling(rgb("e9c27c")), rgb("e2b877"), 0.35)
    _shadow(s, x, 84, 33)
    if hot:
        _stove(s, x, base + 8)

    def back(p: Pen) -> None:
        for side in (-1, 1):
            p.arc(x + side * 27, rim + 8, 6.5, 4.4, 90 if side < 0 else -90, 270 if side < 0 else 90, 2.6, dark(c, 0.3))
        p.disc(x, rim, rx + 1, ry + 0.9, light(c, 0.25))
        p.disc(x, rim, rx - 1, ry - 0.6, dark(c, 0.45))
        p.disc(x, rim + 1.2, rx - 2.2, ry - 1.6, inside)

    def body(p: Pen) -> None:
        q = p.at(x, rim)
        low = base - rim
        foot = [
            (-rx, 4),
            (-rx, low - 6),
            (-rx + 2, low - 1.5),
            (-rx + 6, low),
            (rx - 6, low),
            (rx - 2, low - 1.5),
            (rx, low - 6),
        ]
        _front(q, rx, ry, [*foot], c)
        q.poly(
            [(rx - 9, ry * 0.72), (rx, 0), (rx, low - 6), (rx - 2, low - 1.5), (rx - 6, low), (rx - 12, low)],
            dark(c, 0.16),
        )
        q.line([(-rx + 5, 8), (-rx + 5, low - 8)], 2.4, light(c, 0.4))
        q.arc(0, 0, rx, ry, 0, 180, 1.5, light(c, 0.3))

    if s.has("boil", "simmer", "hot") and not (s.things() and s.has("add", "pour", "sprinkle")):
        _steam(s, x, rim - 22 if s.things() else rim - 8, 3)
    _work_in(s, x, rim, rx, inside, body, back)


def _pan(s: _Set) -> None:
    x, rim, rx, ry = 44.0, 60.0, 30.0, 9.0
    inside = light(IRON, 0.1)
    _shadow(s, x + 3, 85, 36)
    _stove(s, x, 81)
    p = s.pen
    things = s.things()
    p.line([(x + 26, rim + 2), (x + 52, rim - 9)], 4.6, rgb("6b4a3a"))
    p.line([(x + 26, rim + 2), (x + 34, rim - 1.5)], 4.6, STEEL)
    p.disc(x, rim + 6, rx - 4, ry, dark(IRON, 0.3))
    _front(
        p.at(x, rim),
        rx,
        ry,
        [(-rx, 0), (-rx + 6, 8), (-rx + 14, 13), (rx - 14, 13), (rx - 6, 8), (rx, 0)],
        dark(IRON, 0.2),
    )
    p.disc(x, rim, rx, ry, light(IRON, 0.3))
    p.disc(x, rim + 0.4, rx - 1.8, ry - 1.2, inside)
    kinds = [INGREDIENTS[word][0] for word in s.scene.things]
    fat = next(
        (
            INGREDIENTS[word][2]
            for word, kind in zip(s.scene.things, kinds, strict=True)
            if kind in ("oil", "butter", "palm oil")
        ),
        None,
    )
    if fat:
        p.disc(x, rim + 1.4, rx - 7, ry - 3.4, light(fat, 0.2))
        p.disc(x - 8, rim + 0.2, 7, 1.6, light(fat, 0.6))
    elif not things:
        p.disc(x, rim + 1.2, rx - 6, ry - 3, _FOODY)
        for u, v in ((-12, 0), (-3, 2.4), (6, -1), (14, 1.6)):
            p.disc(x + u, rim + v + 0.6, 2.2, 1.4, dark(_FOODY, 0.25))
    lying = things
    if s.has("add", "pour") and len(things) <= 3 and things and not s.has("flip"):
        if s.has("pour"):
            poured, rest = _pourable(s)
            _place(s, rest[:3], x - 3, rim - 4, 44, 9.5)
            _stream(p.at(x - 2, rim - 18), poured, 18)
        else:
            _fall(s, things, x - (4 if s.has("spoon") else 0), rim - 22, 50)
            for i in range(6):
                colour = things[i % len(things)][1]
                p.disc(x - 17 + i * 6.6, rim + (1.8 if i % 2 else -1.4), 2.6, 1.8, colour)
        lying = []
    else:
        lying = [thing for thing in things if thing[0] not in _LIQUIDS]
        tipped = [thing for thing in things if thing[0] in _LIQUIDS]
        _fall(s, tipped[:3], x, rim - (18 if not lying else 27), 46)
    _place(s, lying, x - 1, rim - (5 if len(lying) <= 3 else 4), 50, 11)
    if s.has("flip"):
        _spatula(p.at(x + 13, rim - 2, 1, 32))
        p.arc(x - 4, rim - 17, 13, 8, 190, 340, 1.4, dark(s.wall, 0.45))
        p.at(x - 4 + 12.2, rim - 19.6, 1, 62).poly([(-2.6, -2.2), (2.8, 0), (-2.6, 2.2)], dark(s.wall, 0.45))
    elif s.has("spoon"):
        _wooden_spoon(p.at(x + 14, rim - 1, 1, 28))
        _swirl(s, x + 2, rim - 18, 14) if not s.has("add") else None
    if s.has("cover"):
        _lid(p.at(x, rim - 15, 1, -9), rx - 2, STEEL)
    elif not s.has("add", "pour", "flip") and lying == things:
        _steam(s, x - 6, rim - 18, 3)


def _bowl(s: _Set) -> None:
    x, rim, rx, ry, base = 50.0, 54.0, 29.0, 7.2, 82.0
    c = light(s.enamel, 0.25)
    inside = blend(s.filling(_FOODY), CREAM, 0.35)
    _shadow(s, x, 83.5, 26)

    def back(p: Pen) -> None:
        p.disc(x, rim, rx + 1, ry + 0.8, light(c, 0.55))
        p.disc(x, rim, rx - 1, ry - 0.6, dark(c, 0.25))
        p.disc(x, rim + 1.4, rx - 3, ry - 2.2, inside)

    def body(p: Pen) -> None:
        q = p.at(x, rim)
        low = base - rim
        curve = [(rx * math.cos(math.pi * i / 14), low * math.sin(math.pi * i / 14) ** 0.8) for i in range(15)]
        _front(q, rx, ry, curve[::-1], c)
        right = [(rx * math.cos(math.pi * i / 28), low * math.sin(math.pi * i / 28) ** 0.8) for i in range(10)]
        q.poly([*right, (rx * 0.42, low * 0.5), (rx * 0.78, ry * 0.6)], dark(c, 0.14))
        q.box(-11, low - 2.2, 11, low + 1.4, dark(c, 0.2), 1.5)
        q.arc(0, 2.5, rx - 4, low * 0.62, 120, 165, 2.2, light(c, 0.5))
        q.arc(0, 0, rx + 0.4, ry + 0.4, 0, 180, 1.6, light(c, 0.55))

    _work_in(s, x, rim, rx, inside, body, back)


def _oven(s: _Set) -> None:
    p = s.pen
    _shadow(s, 50, 90, 36)
    body, glow = rgb("e9e4dc"), blend(rgb("ffb347"), rgb("ff8a3c"), s.scene.heat)
    p.box(15, 18, 85, 90, dark(body, 0.18), 5)
    p.box(15, 16, 83, 88, body, 5)
    p.box(15, 16, 83, 29, s.enamel, 5)
    for x in (23, 33, 65, 75):
        p.disc(x, 22.5, 3.2, 3.2, WHITE)
        p.line([(x, 22.5), (x + 1.6, 20.4)], 1.0, IRON)
    p.box(43, 19.5, 55, 25.5, rgb("2f3640"), 1.5)
    p.disc(46, 22.5, 1, 1, _ORANGE)
    p.box(45 + 3.5, 21.8, 53, 23.2, _ORANGE, 0.6)
    p.line([(26, 34.5), (72, 34.5)], 2.4, rgb("a9b1b8"))
    p.box(21, 39, 77, 83, IRON, 4)
    p.box(23.5, 41.5, 74.5, 80.5, dark(glow, 0.3), 3)
    for k in range(4):
        p.disc(49, 63, 25 - k * 5.5, 18.5 - k * 4.2, blend(dark(glow, 0.3), light(glow, 0.35), 0.25 + k * 0.2))
    for x in (29, 39, 49, 59, 69):
        p.line([(x, 79), (x, 79)], 2.4, rgb("ff6a2a"))
    p.line([(24, 79), (74, 79)], 1.5, rgb("ff6a2a"))
    p.line([(24, 70), (74, 70)], 1.2, rgb("7c6a60"))
    things = s.things()
    empty = not things and s.scene.empty
    if things:
        p.poly([(29, 64), (69, 64), (65, 70), (33, 70)], rgb("8b949c"))
        p.line([(28, 64), (70, 64)], 1.8, rgb("c3ccd4"))
        _place(s, things[:4], 49, 58, 38, 9.5)
    elif not empty:
        p.poly([(30, 61), (68, 61), (64, 70), (34, 70)], light(s.enamel, 0.15))
        p.line([(29, 61), (69, 61)], 2, light(s.enamel, 0.45))
        p.half(49, 61, 17, 9, rgb("a9632c"), up=True)
        p.half(46, 60.5, 12, 6, rgb("c98543"), up=True)
    for x in (32, 49, 66):
        points = [(x + 1.3 * math.sin(j * 1.1), 54 - 11 * j / 8) for j in range(9)]
        if empty:
            p.line([(u, v + 8) for u, v in points], 1.7, light(glow, 0.5))
        elif x != 49 or not things:
            p.line(points, 1.2, light(glow, 0.5))


def _microwave(s: _Set) -> None:
    p = s.pen
    _shadow(s, 50, 84, 38)
    p.box(12, 36, 88, 82, rgb("d5d9dd"), 4)
    p.box(12, 34, 88, 80, rgb("eef0f1"), 4)
    p.box(17, 39, 67, 75, IRON, 3)
    p.box(20, 42, 64, 72, rgb("ffe7ad"), 2)
    p.box(71, 39, 84, 46, rgb("2f3640"), 1.5)
    for i in range(9):
        p.disc(73.5 + (i % 3) * 4, 52 + (i // 3) * 5, 1.3, 1.3, rgb("aab3bb"))
    p.disc(77.5, 71, 3, 3, s.enamel)
    p.disc(42, 70, 19, 2.6, rgb("cfe3ea"))
    things = s.things()
    if things:
        _place(s, things[:3], 42, 60, 36, 10)
    else:
        p.half(42, 60, 13, 10, light(s.enamel, 0.3))
        p.disc(42, 60, 13, 3, _FOODY)
    for x in (27, 42, 57):
        points = [(x - 4 + j, 47 + 1.4 * math.sin(j * 1.6)) for j in range(9)]
        p.line(points, 1.1, _ORANGE)


def _cold(s: _Set) -> None:
    """An open fridge or freezer."""
    p = s.pen
    frozen = s.scene.place == "freezer"
    body = light(s.enamel, 0.55) if not frozen else rgb("d9e6ee")
    _shadow(s, 48, 91, 34)
    p.box(20, 8, 66, 91, dark(body, 0.2), 5)
    p.box(23, 11, 63, 88, rgb("eaf6fb") if not frozen else rgb("cfe6f3"), 3)
    p.poly([(66, 10), (86, 16), (86, 94), (66, 90)], body)
    p.poly([(68, 14), (83, 18.5), (83, 90), (68, 87)], light(body, 0.5))
    for y in (36, 66):
        p.poly([(69, y), (82, y + 2), (82, y + 8), (69, y + 6)], dark(body, 0.1))
    p.box(71, 28, 74, 37, GREEN, 1)
    p.box(76.5, 29, 80, 38.5, rgb("f2b04a"), 1)
    for y in (36, 63):
        p.line([(23, y), (63, y)], 1.5, rgb("a9cbd9"))
    p.box(26, 74, 60, 86, rgb("bfe0ec"), 2)
    p.line([(37, 77), (49, 77)], 1.4, rgb("8fbccd"))
    things = s.things()
    if things:
        _place(s, things[:3], 43, 54, 35, 9)
    else:
        p.half(43, 50, 14, 12, light(s.enamel, 0.1))
        p.disc(43, 50, 14, 3, _FOODY)
        if s.has("cover"):
            p.disc(43, 49.4, 14.4, 3.2, rgb("dfe7ea"))
    _snowflake(p.at(43, 23.5, 1.05), rgb("5fb0dc"))
    if frozen:
        _snowflake(p.at(29, 20, 0.55), rgb("5fb0dc"))
        _snowflake(p.at(57, 28, 0.6), rgb("5fb0dc"))
        for x in (26, 33, 40, 47, 54, 60):
            p.poly([(x - 2.2, 11), (x + 2.2, 11), (x, 15 + (x % 3) * 1.5)], WHITE)


def _grill(s: _Set) -> None:
    p = s.pen
    _shadow(s, 50, 92, 30)
    for x in (-1, 1):
        p.line([(50 + x * 12, 70), (50 + x * 22, 92)], 2.6, dark(STEEL, 0.3))
    p.half(50, 58, 32, 20, s.enamel)
    p.half(56, 58, 24, 17, dark(s.enamel, 0.14))
    p.disc(50, 58, 32, 6, IRON)
    _flames(p.at(50, 58.5, 0.85), 56, 7)
    p.box(16, 55, 84, 57.4, dark(STEEL, 0.25), 1.2)
    for x in range(22, 82, 7):
        p.line([(x, 55.5), (x - 1.5, 59.5)], 1.1, dark(STEEL, 0.35))
    things = s.things()
    if things:
        _place(s, things[:4], 50, 45, 60, 11.5)
    else:
        INGREDIENTS["steak"][1](p.at(38, 47, 10), INGREDIENTS["steak"][2])
        INGREDIENTS["corn"][1](p.at(62, 46, 9, 40), INGREDIENTS["corn"][2])
    if s.has("brush"):
        _brush(p.at(66, 38, 0.9, 35), rgb("b5502d"))
    elif s.has("flip"):
        _spatula(p.at(70, 46, 0.95, 40))
    else:
        _steam(s, 50, 31, 3)


def _board(s: _Set) -> None:
    p = s.pen
    _shadow(s, 50, 86, 42)
    p.poly([(14, 62), (78, 62), (90, 82), (8, 82)], dark(WOOD, 0.16))
    p.poly([(14, 60), (78, 60), (90, 79), (8, 79)], light(WOOD, 0.22))
    for y, a, b in ((65, 20, 70), (70, 30, 80), (75, 14, 66)):
        p.line([(a, y), (b, y)], 0.8, WOOD)
    things = s.things() or [(_lump, _FOODY)]
    shown = things[:3]
    size = 15 if len(shown) == 1 else 12.5
    _place(s, shown, 40 if len(shown) < 3 else 43, 55, 26 * len(shown), size)
    colour = shown[0][1]
    cut = light(colour, 0.2)
    for i in range(5):
        x, y = 22 + i * 8.5, 73.5 + (i % 2) * 2.2
        p.disc(x, y + 0.8, 4.1, 2.6, dark(colour, 0.2))
        p.disc(x, y, 4.0, 2.5, colour)
        p.disc(x, y - 0.1, 3.0, 1.8, light(cut, 0.45))
    if s.has("peel"):
        p.line([(66, 44), (69, 50), (65, 55), (69, 60), (66, 65)], 2.4, dark(colour, 0.05))
    _knife(p.at(74, 52, 1.0, -58))
    for dx in (0, 4):
        p.arc(63 - dx, 40 - dx, 8, 8, 195, 255, 1.2, dark(s.wall, 0.4))


def _lump(p: Pen, c: Colour) -> None:
    p.disc(0, 0.2, 0.98, 0.66, dark(c, 0.16))
    p.disc(-0.05, 0.1, 0.9, 0.6, c)
    p.disc(-0.35, -0.15, 0.3, 0.14, light(c))


def _grater(s: _Set) -> None:
    p = s.pen
    _shadow(s, 54, 85, 32)
    p.arc(50, 24, 9, 8, 180, 360, 2.6, IRON)
    p.poly([(40, 25), (60, 25), (70, 80), (30, 80)], STEEL)
    p.poly([(55, 25), (60, 25), (70, 80), (60, 80)], dark(STEEL, 0.16))
    for row in range(6):
        for col in range(4):
            x, y = 43 - row * 1.2 + col * (3.6 + row * 0.5), 33 + row * 7.4
            p.disc(x, y, 1.5, 1.1, dark(STEEL, 0.4))
            p.arc(x, y, 1.5, 1.1, 180, 360, 0.6, WHITE)
    things = s.things() or [(_lump, _FOODY)]
    for i in range(12):
        x, y = 16 + (i * 7.3) % 30, 79 + (i % 4) * 1.6
        p.line([(x, y), (x + 3, y - 1.2)], 1.3, light(things[0][1], 0.15 * (i % 3)))
    _place(s, things[:1], 73, 46, 20, 13)
    _place(s, things[1:3], 80, 73, 26, 9)


def _blender(s: _Set) -> None:
    p = s.pen
    _shadow(s, 50, 90, 24)
    p.poly([(34, 90), (66, 90), (61, 70), (39, 70)], s.enamel)
    p.poly([(56, 90), (66, 90), (61, 70), (55, 70)], dark(s.enamel, 0.18))
    p.disc(50, 81, 4.4, 4.4, WHITE)
    p.line([(50, 81), (52.4, 78.4)], 1.3, IRON)
    p.line([(68, 31), (77, 34), (75, 57), (65, 62)], 3, rgb("bcd3dc"))
    p.poly([(30, 22), (70, 22), (63, 70), (37, 70)], GLASS)
    things, mixed = s.things(), s.filling(rgb("d9b27a"))
    top = 44 if things else 34
    p.poly([(33.5, top), (66.5, top), (61.8, 68), (38.2, 68)], blend(mixed, WHITE, 0.15))
    p.disc(50, top, 16.5, 2.6, light(mixed, 0.4))
    _place(s, things[:4], 50, 41 if len(things) < 4 else 43, 30, 8.2)
    for side in (-1, 1):
        p.line([(50, 66), (50 + side * 7, 62)], 1.7, rgb("9aa6b1"))
    p.box(28, 16, 72, 23, IRON, 2.5)
    p.box(43, 11, 57, 17, IRON, 2)
    p.line([(35, 28), (38, 52)], 1.7, WHITE)
    for side in (-1, 1):
        for d in (0, 4):
            p.arc(
                50 + side * (27 + d),
                79,
                4,
                6,
                -50 if side > 0 else 130,
                50 if side > 0 else 230,
                1.2,
                dark(s.wall, 0.4),
            )


def _mortar(s: _Set) -> None:
    p = s.pen
    stone = rgb("9aa0a6")
    _shadow(s, 48, 88, 28)
    p.disc(48, 54, 26, 7.5, light(stone, 0.4))
    p.disc(48, 54, 23.5, 6, dark(stone, 0.4))
    things = s.things()
    p.disc(48, 56, 20, 4.4, s.filling(_FOODY))
    _place(s, things[:4], 42, 46 if len(things) < 4 else 44, 34, 9.5)
    q = p.at(60, 52, 1, 32)
    q.line([(0, 2), (0, -32)], 5, light(stone, 0.1))
    q.disc(0, 2, 5, 6, light(stone, 0.1))
    q.line([(-1.2, 0), (-1.2, -31)], 1.2, light(stone, 0.5))
    f = p.at(48, 54)
    curve = [(26 * math.cos(math.pi * i / 14), 27 * math.sin(math.pi * i / 14) ** 0.7) for i in range(15)]
    _front(f, 26, 7.5, curve[::-1], stone)
    f.poly([(26, 0), (24, 13), (15, 24), (4, 27), (12, 16), (18, 5)], dark(stone, 0.16))
    p.box(34, 79, 62, 87, dark(stone, 0.1), 3)
    f.arc(0, 0, 26, 7.5, 0, 180, 1.6, light(stone, 0.4))


def _colander(s: _Set) -> None:
    p = s.pen
    _shadow(s, 50, 91, 28)
    rinse = s.scene.place == "tap"
    x, rim, rx, ry = 50.0, 48.0, 28.0, 7.0
    if rinse:
        p.line([(82, 60), (82, 18), (78, 12), (64, 12), (58, 15), (57, 20)], 6, STEEL)
        p.line([(81, 58), (81, 19), (77, 13)], 1.6, light(STEEL, 0.6))
        p.box(74, 26, 90, 31, rgb("9aa6b1"), 2)
    p.half(50, 76, 31, 14, light(s.enamel, 0.4))
    p.disc(50, 76, 31, 4.6, light(s.enamel, 0.6))
    p.disc(50, 76.6, 27, 3.2, _BLUE if rinse or not s.things() else blend(_BLUE, WHITE, 0.2))
    for side in (-1, 1):
        p.arc(
            x + side * 28.5, rim + 2, 5.5, 4, 90 if side < 0 else -90, 270 if side < 0 else 90, 2.2, dark(STEEL, 0.25)
        )
    p.disc(x, rim, rx + 1, ry + 0.8, light(STEEL, 0.5))
    p.disc(x, rim, rx - 1, ry - 0.8, dark(STEEL, 0.35))
    things = s.solids()
    if things:
        _place(s, things[:4], x, rim - (5 if len(things) < 4 else 2), 46, 11)
    else:
        for u, v in ((-13, 0), (-5, -2.5), (4, -1), (12, 0.6), (0, 2)):
            p.disc(x + u, rim + v, 6, 4, _FOODY)
            p.disc(x + u - 1, rim + v - 1, 4, 2.4, light(_FOODY))
    if rinse:
        for u in (-2.6, 0, 2.6):
            p.line([(57 + u, 22), (57 + u * 1.3, rim - 1)], 1.9, _BLUE if u else light(_BLUE, 0.5))
    f = p.at(x, rim)
    curve = [(rx * math.cos(math.pi * i / 14), 22 * math.sin(math.pi * i / 14) ** 0.8) for i in range(15)]
    _front(f, rx, ry, curve[::-1], STEEL)
    f.poly([(rx, 0), (25, 9), (16, 18), (6, 22), (12, 14), (20, 5)], dark(STEEL, 0.14))
    for row, (n, y) in enumerate(((7, 10), (5, 14.5), (3, 18.5))):
        for i in range(n):
            f.disc((i - (n - 1) / 2) * (5.6 - row * 0.3), y - abs(i - (n - 1) / 2) * 0.7, 1.1, 1.1, dark(STEEL, 0.5))
    f.arc(0, 0, rx + 0.5, ry + 0.3, 0, 180, 1.5, light(STEEL, 0.5))
    for u in (-8, 0, 8):
        drop(p.at(x + u, 73.5 - abs(u) * 0.25, 1.9), _BLUE)


def _dough(s: _Set) -> None:
    p = s.pen
    _shadow(s, 50, 87, 42)
    p.poly([(12, 62), (88, 62), (95, 84), (5, 84)], dark(WOOD, 0.14))
    p.poly([(12, 60), (88, 60), (95, 81), (5, 81)], light(WOOD, 0.25))
    for i in range(12):
        p.disc(14 + (i * 23) % 73, 64 + (i * 7) % 14, 1.2, 0.6, WHITE)
    c = rgb("f3dfb8")
    named = [thing for thing in s.things() if thing[0] is not INGREDIENTS["dough"][1]]
    rolls = s.has("roll") and not s.has("knead")
    if rolls:
        p.disc(47, 71, 33, 7.6, dark(c, 0.18))
        p.disc(47, 69.8, 33, 7.4, c)
        p.disc(40, 68.6, 18, 2.6, light(c, 0.6))
        _rolling_pin(p.at(50, 59, 1.15, -12))
        _place(s, named[:3], 48, 36, 60, 10.5)
    elif s.has("shape"):
        for x, y in ((26, 66), (44, 70), (62, 66), (78, 71)):
            p.disc(x, y + 1.2, 8, 6, dark(c, 0.18))
            p.disc(x - 0.4, y, 7.5, 5.7, c)
            p.disc(x - 2.6, y - 2, 2.4, 1.4, light(c, 0.7))
        _place(s, named[:3], 48, 44, 60, 11)
    else:
        p.disc(46, 64, 27, 14.5, dark(c, 0.16))
        p.disc(45, 62, 25.5, 13.5, c)
        p.arc(40, 60, 14, 7, 190, 310, 2, light(c, 0.7))
        p.arc(54, 64, 9, 5, 10, 140, 1.7, dark(c, 0.2))
        skin = rgb("eab58f")
        for side, x in ((-1, 33), (1, 60)):
            q = p.at(x, 50, 1, side * 24)
            q.line([(0, 2), (0, -22)], 9, s.enamel)
            q.line([(0, 2), (0, -6)], 8, skin)
            q.disc(0, 4, 5.6, 5, skin)
            for f in (-3.6, -1.2, 1.2, 3.6):
                q.line([(f, 5), (f * 1.15, 10)], 2.2, skin)
        _place(s, named[:3], 47, 19, 60, 8.5)


def _plate(s: _Set) -> None:
    p = s.pen
    x, y = 50.0, 62.0
    _shadow(s, x, 76, 35)
    p.disc(x, y + 2, 33, 14.5, rgb("d6d3cc"))
    p.disc(x, y, 33, 14, WHITE)
    p.disc(x, y, 30.5, 12.5, light(s.enamel, 0.35))
    p.disc(x, y, 28.5, 11.4, WHITE)
    p.disc(x, y + 0.6, 22.5, 8.4, rgb("f0ece4"))
    _fork(p.at(9.5, 60, 1.35))
    _table_knife(p.at(90, 60, 1.35))
    things = s.things()
    pouring = s.has("pour") and things
    poured, rest = _pourable(s) if pouring else (_FOODY, things)
    if rest:
        _place(s, rest, x, y - (9 if len(rest) <= 3 else 7), 48, 13 if len(rest) < 3 else 11.5)
    else:
        for u, v, r, c in ((-7, -3, 11, rgb("d9974f")), (8, -1, 9, rgb("e8c06a")), (1, 2, 8, rgb("b9653a"))):
            p.disc(x + u, y + v, r, r * 0.55, dark(c, 0.15))
            p.disc(x + u - 0.6, y + v - 1, r * 0.9, r * 0.47, c)
        herb(p.at(x + 3, y - 9, 6, 10), GREEN)
    if s.has("garnish"):
        for u in (-12, 3, 15):
            p.disc(x + u, y - 1 + abs(u) * 0.15, 1.4, 0.9, GREEN)
    if pouring:
        _stream(p.at(x + 4, y - 30), poured, 22)
    elif s.has("sprinkle"):
        _sprinkle(p.at(x + 20, y - 34, 0.9), WHITE, dark(s.wall, 0.6))
    elif s.has("hot"):
        _steam(s, x, y - 22, 3)
    elif s.has("cool"):
        _snowflake(p.at(x + 22, y - 33, 0.9), rgb("5fb0dc"))


def _glass(s: _Set) -> None:
    p = s.pen
    _shadow(s, 46, 86, 20)
    drink = _pourable(s)[0] if s.scene.things else rgb("f2b04a")
    things = s.things()
    if s.has("hot", "heat") or {"coffee", "tea", "cocoa"} & {INGREDIENTS[word][0] for word in s.scene.things}:
        p.arc(66, 62, 10, 10, -90, 90, 4.4, s.enamel)
        p.box(24, 44, 66, 85, s.enamel, 7)
        p.box(54, 44, 66, 85, dark(s.enamel, 0.14), 6)
        p.disc(45, 45, 21, 5, light(s.enamel, 0.35))
        p.disc(45, 45.4, 18, 3.7, drink)
        _steam(s, 45, 38, 3)
        _place(s, things[:2], 81, 70, 20, 9)
        return
    p.poly([(28, 28), (64, 28), (59, 86), (33, 86)], GLASS)
    p.poly([(30.6, 40), (61.4, 40), (57.2, 83), (34.8, 83)], drink)
    p.poly([(54, 40), (61.4, 40), (57.2, 83), (51, 83)], dark(drink, 0.12))
    p.disc(46, 40, 15.4, 2.8, light(drink, 0.4))
    for x, y, a in ((39, 47, -12), (50, 50, 18)):
        p.at(x, y, 1, a).box(-4.4, -4.4, 4.4, 4.4, light(drink, 0.6), 1.2)
    p.line([(50, 70), (60, 22), (68, 17)], 2.4, RED)
    p.line([(34, 46), (37, 74)], 1.5, WHITE)
    _place(s, things[:2], 78, 72, 30, 10.5)
    if s.has("pour"):
        _stream(p.at(42, 22, 0.75), drink, 20)


def _jar(s: _Set) -> None:
    p = s.pen
    _shadow(s, 48, 88, 24)
    things, c = s.solids(), s.filling(rgb("d9964a"))
    p.box(25, 30, 71, 88, GLASS, 9)
    p.box(28.5, 42, 67.5, 85, blend(c, WHITE, 0.1), 7)
    p.box(56, 42, 67.5, 85, dark(c, 0.1), 7)
    p.disc(48, 42, 19.5, 2.6, light(c, 0.45))
    _place(s, things[:4], 48, 62, 36, 9.5)
    if not things:
        p.box(33, 54, 63, 74, CREAM, 2)
        p.disc(48, 64, 6, 6, c)
    p.box(27, 17, 69, 30, s.enamel, 3)
    for x in range(31, 68, 5):
        p.line([(x, 20), (x, 28)], 0.9, dark(s.enamel, 0.22))
    p.line([(31, 46), (31, 76)], 1.8, WHITE)
    if s.has("cool"):
        _snowflake(p.at(83, 62, 0.9), rgb("5fb0dc"))


def _tray(s: _Set) -> None:
    p = s.pen
    _shadow(s, 50, 84, 44)
    p.poly([(17, 54), (83, 54), (94, 79), (6, 79)], dark(STEEL, 0.35))
    p.poly([(17, 52), (83, 52), (94, 76), (6, 76)], STEEL)
    p.poly([(20, 54), (80, 54), (88.5, 73.5), (11.5, 73.5)], rgb("f6efdf"))
    things = s.things()
    if things:
        shown = things[:3]
        spots = (
            [(31, 56), (50, 56), (69, 56), (25, 68), (50, 68), (75, 68)]
            if len(shown) > 1
            else [(35, 58), (64, 58), (29, 68), (50, 67), (71, 68)]
        )
        for i, (x, y) in enumerate(spots):
            drawing, colour = shown[i % len(shown)]
            drawing(p.at(x, y - 3, 8.4, s.dice.uniform(-10, 10)), colour)
    else:
        for x, y in ((33, 58), (50, 58), (67, 58), (27, 68), (50, 68), (73, 68)):
            p.disc(x, y + 1, 7, 3.6, dark(_FOODY, 0.2))
            p.disc(x, y, 6.8, 3.5, _FOODY)
            p.disc(x - 2, y - 1, 2, 0.9, light(_FOODY, 0.5))
    if s.has("brush"):
        _brush(p.at(58, 46, 0.95, 30), _YELLOW)
    elif s.has("sprinkle"):
        _sprinkle(p.at(50, 32, 1), WHITE, dark(s.wall, 0.6))


def _dish(s: _Set) -> None:
    x, rim, rx, ry, base = 50.0, 60.0, 35.0, 8.4, 81.0
    c, inside = light(s.enamel, 0.15), blend(s.filling(_FOODY), _FOODY, 0.4)
    _shadow(s, x, 83, 36)

    def back(p: Pen) -> None:
        for side in (-1, 1):
            p.disc(x + side * 36, rim + 1, 5, 2.6, dark(c, 0.12))
        p.disc(x, rim, rx + 1, ry + 0.8, light(c, 0.5))
        p.disc(x, rim, rx - 1, ry - 0.6, dark(c, 0.3))
        p.disc(x, rim + 1.6, rx - 3, ry - 2.2, inside)
        if s.has("brush"):
            _brush(p.at(x + 12, rim - 2, 1, 28), _YELLOW)

    def body(p: Pen) -> None:
        q = p.at(x, rim)
        low = base - rim
        _front(q, rx, ry, [(-rx, 0), (-rx + 4, low - 5), (-rx + 8, low), (rx - 8, low), (rx - 4, low - 5)], c)
        q.poly([(rx, 0), (rx - 4, low - 5), (rx - 8, low), (rx - 16, low), (rx - 10, ry * 0.7)], dark(c, 0.14))
        q.line([(-rx + 6, 7), (-rx + 8.5, low - 5)], 2, light(c, 0.5))
        q.arc(0, 0, rx + 0.4, ry + 0.4, 0, 180, 1.5, light(c, 0.5))

    _work_in(s, x, rim, rx, inside, body, back)


def _rack(s: _Set) -> None:
    """Food that cools or rests on a wire rack."""
    p = s.pen
    _shadow(s, 50, 85, 38)
    for x in (22, 78):
        p.line([(x, 70), (x, 84)], 2, dark(STEEL, 0.3))
    p.line([(13, 70), (87, 70)], 2.2, dark(STEEL, 0.25))
    for x in range(17, 87, 6):
        p.line([(x, 70), (x - 2, 74.5)], 1.0, dark(STEEL, 0.2))
    p.line([(11, 75), (89, 75)], 1.6, dark(STEEL, 0.2))
    things = s.things()
    if things:
        _place(s, things[:4], 50, 56 if len(things) <= 3 else 57, 62, 13)
    else:
        p.half(50, 69, 24, 22, rgb("d9974f"), up=True)
        p.half(46, 67, 16, 14, rgb("e9b470"), up=True)
        p.box(26, 66, 74, 69.6, dark(rgb("d9974f"), 0.2), 1.5)
    pale = blend(s.wall, rgb("8fc6e6"), 0.7)
    for i in range(3):
        x = 37 + i * 13
        p.line([(x + 1.8 * math.sin(j * 1.05), 38 - 11 * j / 8) for j in range(9)], 1.9, pale)


_PLACE_DRAWINGS: dict[str, Callable[[_Set], None]] = {
    "pot": _pot, "pan": _pan, "bowl": _bowl, "oven": _oven, "microwave": _microwave, "fridge": _cold,
    "freezer": _cold, "grill": _grill, "board": _board, "grater": _grater, "blender": _blender, "mortar": _mortar,
    "colander": _colander, "tap": _colander, "dough": _dough, "plate": _plate, "glass": _glass, "jar": _jar,
    "tray": _tray, "dish": _dish, "rack": _rack,
}  # fmt: skip


def draw(step_text: str, ingredients: Sequence[str] = (), size: int = 224) -> Image.Image:
    """Draws what a step says: a rendered illustration, RGB, `size` pixels square, the same bytes for the same text.

    Args:
        step_text: the text of the step; nothing else reaches the picture, its colours and layout either.
        ingredients: the recipe's ingredient list, which only helps to understand words of the step.
        size: edge in pixels.
    """
    scene = read_scene(step_text, tuple(ingredients))
    dice = random.Random(int.from_bytes(hashlib.sha256(step_text.encode()).digest()))
    wall, table = dice.choice(_BACKGROUNDS)
    enamel = dice.choice(_ENAMEL)
    edge = size * SUPERSAMPLING
    picture = Image.new("RGB", (edge, edge), wall)
    k = edge / 100
    frame = Pen(ImageDraw.Draw(picture), (k, 0.0, 0.0, k, 0.0, 0.0))
    frame.disc(dice.uniform(40, 60), dice.uniform(40, 50), 42, 42, blend(wall, WHITE, 0.5))
    frame.box(-1, 74, 101, 101, table)
    frame.box(-1, 74, 101, 75.2, light(table, 0.35))
    mirror = dice.random() < 0.5
    pen = frame.at(100 if mirror else 0, 0, 1, 0, mirror)
    _PLACE_DRAWINGS[scene.place](_Set(pen, scene, wall, table, enamel, dice))
    if scene.minutes:
        _clock(pen.at(86, 14, 1.0, 0, mirror), scene.minutes)
    if scene.heat:
        _thermometer(pen.at(9, 16, 1.0, 0, mirror), scene.heat)
    return picture.reduce(SUPERSAMPLING)


# ---------------------------------------------------------------------------------------------------- picture files


def image_name(recipe_id: str, index: int) -> str:
    """File name of the illustration of step `index` (0-based); it says that the picture is rendered."""
    return f"{recipe_id}-rendered_{index + 1}_0.jpg"


def illustrated(recipes: Iterable[SourceRecipe]) -> list[SourceRecipe]:
    """The recipes with the name of a rendered illustration in place of the images of every step."""
    return [
        replace(
            recipe,
            steps=tuple(
                replace(step, images=(image_name(recipe.recipe_id, index),)) for index, step in enumerate(recipe.steps)
            ),
        )
        for recipe in recipes
    ]


def scene_keys(recipes: Iterable[SourceRecipe]) -> dict[str, tuple[object, ...]]:
    """Image name -> a key that is equal for illustrations that look alike (`content_key` of the question builder)."""
    return {
        image_name(recipe.recipe_id, index): read_scene(step.body, recipe.ingredients).key
        for recipe in recipes
        for index, step in enumerate(recipe.steps)
    }


def drawing_version() -> str:
    """Eight hexadecimal digits that change when the drawings may change; part of the name of a picture folder."""
    sources = (Path(__file__), Path(__file__).with_name("drawings.py"))
    return hashlib.sha256(b"\0".join(source.read_bytes() for source in sources)).hexdigest()[:8]


def render_images(
    recipes: Iterable[SourceRecipe],
    folder: str | Path,
    names: Collection[str] | None = None,
    *,
    size: int = 224,
    processes: int = 2,
    notice: str = "",
) -> int:
    """Writes the illustrations that are not there yet, as JPEG files; each appears in one piece or not at all.

    Args:
        recipes: whole recipes; step texts and ingredient lists are read.
        folder: where the pictures go, with a README that says what they are.
        names: the pictures that are needed (other names are ignored); None for all.
        size: edge in pixels.
        processes: so many processes share the work where it is long.
        notice: the notice of the texts' origin and licence, for the README.

    Returns:
        The number of pictures written.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    readme = (
        "Rendered illustrations, no photographs: each was drawn by a program from the text of one recipe step\n"
        f"(data/illustrations.py, drawing version {drawing_version()}, {size} pixels).\n\n{notice}\n"
    )
    _write(folder / "README.txt", readme.encode())
    wanted = None if names is None else set(names)
    present = {entry.name for entry in os.scandir(folder)}
    jobs = [
        (str(folder / name), step.body, recipe.ingredients, size)
        for recipe in recipes
        for index, step in enumerate(recipe.steps)
        if (name := image_name(recipe.recipe_id, index)) not in present and (wanted is None or name in wanted)
    ]
    bar = tqdm(total=len(jobs), desc="drawing", unit="picture", disable=not jobs)
    with bar:
        if processes > 1 and len(jobs) > 2000:
            with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
                for _ in pool.map(_render, jobs, chunksize=64):
                    bar.update()
        else:
            for job in jobs:
                _render(job)
                bar.update()
    return len(jobs)


def _render(job: tuple[str, str, tuple[str, ...], int]) -> None:
    path, text, ingredients, size = job
    content = io.BytesIO()
    draw(text, ingredients, size).save(content, "JPEG", quality=JPEG_QUALITY)
    _write(Path(path), content.getvalue())


def _write(path: Path, content: bytes) -> None:
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
