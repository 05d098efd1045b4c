"""Rendered pictures of finished dishes: served food, drawn from what a recipe says.

They stand in for photographs where a collection has none, and are called what they are: *rendered*. As in life, a
picture shows the kind of dish, its colour and its main ingredients, cut and cooked; salt, water, flour and most spices
do not show, and table, crockery, arrangement and distance say nothing about the recipe.
"""

import hashlib
import io
import math
import os
import random
import re
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

from PIL import Image, ImageDraw
from tqdm import tqdm

from data import drawings as d
from data.drawings import (
    CREAM,
    GLASS,
    GREEN,
    INGREDIENTS,
    STEEL,
    WHITE,
    WOOD,
    Colour,
    Drawing,
    Pen,
    blend,
    dark,
    light,
    rgb,
)
from data.files import atomic_file
from data.records import SourceRecipe

SUPERSAMPLING = 3
JPEG_QUALITY = 90
MAX_VISIBLE = 6
_DICE = "dish picture"  # what is drawn by lot depends on this and the recipe's id

# ------------------------------------------------------------------------------------------------- what kind of dish

# Word of a title, category or last step -> form. The last word of the head of a title decides ("apple pie cake" is a
# cake); of two words at one place the longer.
_FORM_WORDS = {
    "soup": "soup chowder bisque gazpacho borscht broth stock ramen pho consommé minestrone sinigang avgolemono ukha",
    "stew": "stew curry chili goulash gumbo ragout ragù fricassee fricassée tagine tajine wat wot dal "
            "dahl dhal masala korma vindaloo maffé mafé domoda stroganoff cacciatore bourguignon vin "
            "étouffée shakshuka ratatouille sambar rasam adobo bhaji sabzi beans egusi kitfo shiro lentils peas "
            "chickpeas mole pozole tibs bolognese sloppy korma okra cholent feijoada tikka",
    "porridge": "porridge oatmeal grits congee cereal muesli polenta mush pap granola kheer polenta ogi",
    "salad": "salad slaw coleslaw tabbouleh tabouleh fattoush ceviche charoset greens",
    "sauce": "sauce dressing gravy dip salsa guacamole hummus pesto chutney ketchup mayonnaise aioli vinaigrette paste "
             "spread marinade glaze relish mustard puree purée topping filling icing frosting buttercream custard "
             "tzatziki raita syrup zhug batter mayo tapenade pâté pate baba ganoush caramel ganache butter ghee "
             "yogurt yoghurt curd bartha roux sambal harissa chimichurri fondue crème béchamel",
    "powder": "rub mix seasoning spice powder salt sugar berbere blend coloring flour",
    "pasta": "pasta spaghetti noodle macaroni linguine fettuccine penne mein vermicelli tagliatelle carbonara alfredo "
             "ziti spaetzle orzo primavera mac noodles spaghettini rigatoni farfalle",
    "rice": "rice risotto biryani pilaf paella pilau pulao couscous jollof quinoa pongal bulgur jambalaya sushi bog "
            "upma khichdi nasi plov poha",
    "drink": "soda drink juice lemonade smoothie milkshake shake lassi punch cocktail water cola beer ale cider "
             "margarita mojito martini sangria sangría wine nog eggnog cordial kvass liqueur vodka rum limeade float "
             "daiquiri colada slush slushy milk horchata kombucha mead infusion ade spritzer beverage",
    "mug": "tea coffee chai cocoa espresso latte cappuccino toddy glögg",
    "jar": "jam jelly preserves marmalade pickle pickles sauerkraut kimchi compote oil vinegar extract canned "
           "starter yeast ",
    "pie": "pie tart quiche galette cobbler crumble crisp tartlet pies tarts crust flan tourtière strudel clafoutis",
    "cake": "cake cheesecake gateau torte gingerbread tiramisu pavlova sponge fruitcake trifle babka",
    "muffins": "muffin cupcake scone popover biscuit yorkshire bun roll profiterole puff cups puffs brioche "
               "pastry croissant",
    "loaf": "bread loaf baguette challah focaccia cornbread meatloaf sourdough panettone stuffing stollen",
    "stack": "pancake waffle flatbread tortilla crêpe crepe naan roti chapati pita injera dosa blini latke lefse "
             "paratha arepa puri lahm matzo uttapam lepinja hotcake griddlecake lahoh bhatura kulcha injeras",
    "cookies": "cookie cracker shortbread snickerdoodle macaroon macaron biscotti wafer meringue gingersnap "
               "wafers lace crisps savoiardi",
    "squares": "brownie fudge bar square blondie flapjack barfi burfi toffee candy brittle halwa halva nougat "
               "caramels marshmallow lokum slice baklava kugel pone",
    "bake": "casserole bake lasagne lasagna gratin moussaka shepherd's enchilada parmesan parmigiana stuffed scalloped "
            "strata hotdish pastitsio dauphinoise",
    "pizza": "pizza calzone manakish flammkuchen lahmacun",
    "sandwich": "sandwich burger hamburger cheeseburger sliders slider toastie panini melt sub blt "
                "reuben hoagie",
    "wraps": "taco burrito wrap quesadilla fajita rolls gyro shawarma enchiladas taquito hotdog "
             "lumpia kolache dogs dolma cannoli sarma",
    "toast": "toast bruschetta crostini canapé melts rarebit crouton",
    "dumplings": "dumpling ravioli wonton samosa pierogi momo gyoza gnocchi tortellini tamale kreplach pelmeni manti "
                 "potsticker knish pirozhki pasty pasties turnover empanada",
    "balls": "ball meatball truffle doughnut donut falafel fritter croquette kofta köfte laddu "
             "bonbon arancini beignet akara nugget matzah gulab jamun bites poppers balls vada pakora bunuelo",
    "patties": "patty cutlet schnitzel rissole tikki falafels ",
    "skewers": "skewer kebab kabob satay suya yakitori shashlik souvlaki brochette kabab",
    "cup": "pudding mousse sorbet gelato parfait sundae sherbet granita blancmange "
           "affogato semifreddo dessert jello junket syllabub posset fool",
    "omelette": "omelet omelette frittata scramble ",
    "swallow": "fufu swallow ugali eba amala banku kenkey fufuo dough tuwo nshima sadza",
    "sticks": "fries chips wedges churros straws sticks popcorn nachos",
    "main": "chicken steak salmon rib wing chop breast fish beef roast loin ham tenderloin turkey pork lamb cod "
            "sausage tilapia halibut drumstick brisket duck trout lobster scallop shrimp prawn oyster crab "
            "bratwurst potato egg tofu eggplant vegetable asparagus yam plantain corn mushroom zucchini meat ribs "
            "bacon veal goat sirloin mignon pollo cauliflower broccoli carrot cabbage kibbeh ribeye chile pepper "
            "kidney tongue roulade gravlax herring duckling goose quail rabbit",
}  # fmt: skip
_FORMS = {word: form for form, words in _FORM_WORDS.items() for word in words.split()}
_FORMS |= {
    "french fries": "sticks", "ice cream": "cup", "panna cotta": "cup", "sweet potato": "main", "hot chocolate": "mug",
    "pad thai": "pasta", "lo mein": "pasta", "hash brown": "patties", "crab cake": "patties", "fish cake": "patties",
    "rice cake": "patties", "rice pudding": "porridge", "bread pudding": "bake", "yorkshire pudding": "muffins",
    "pot pie": "pie", "shepherd's pie": "bake", "cottage pie": "bake", "mac and cheese": "pasta", "hot dog": "wraps",
    "spring roll": "wraps", "egg roll": "wraps", "cinnamon roll": "muffins", "stir fry": "stew", "stir-fry": "stew",
    "fried rice": "rice", "fried chicken": "main", "soda bread": "loaf", "banana bread": "loaf", "salad dressing":
    "sauce", "ice tea": "drink", "iced tea": "drink", "iced coffee": "drink", "peanut butter": "sauce", "hot pot":
    "soup", "potato chip": "sticks", "chocolate chip": "cookies", "puff puff": "balls", "hush puppy": "balls",
    "pound cake": "loaf", "cream cheese": "sauce", "cheese sauce": "sauce", "whipped cream": "cup", "spice mix":
    "powder", "pasta sauce": "sauce", "rice and beans": "rice", "baked beans": "stew", "green beans": "main",
    "deviled egg": "main", "short rib": "main", "potato salad": "salad", "mashed potato": "sauce", "sweet roll":
    "muffins", "dinner roll": "muffins", "egg salad": "salad", "turkish delight": "squares", "tuna melt": "sandwich",
    "french toast": "stack", "ginger beer": "drink", "root beer": "drink", "cream puff": "muffins", "pie crust": "pie",
    "buffalo wing": "main", "egg nog": "drink", "oil": "jar", "pickled": "jar",
}  # fmt: skip
_FORM = re.compile(
    r"\b(" + "|".join(re.escape(word) for word in sorted(_FORMS, key=lambda w: (-len(w), w))) + r")(?:e?s)?\b"
)
# What the steps say about the vessel, where the title says nothing: pattern, form.
_STEP_FORMS = [
    (r"\bskewers?\b", "skewers"),
    (r"\b(?:muffin|cupcake|bun) (?:tins?|pans?|tray|cups?)\b", "muffins"),
    (r"\bloaf (?:pans?|tins?)\b|\bknead.*\bloa(?:f|ves)\b", "loaf"),
    (r"\bpie (?:plate|dish|pan|crust|shell|tin)s?\b|\btart (?:pan|tin)\b", "pie"),
    (r"\bpizza\b", "pizza"),
    (r"\b(?:cake|springform|bundt|tube) (?:pan|tin)s?\b|\bcake\b", "cake"),
    (r"\bcookie (?:sheet|cutter)s?\b|\bcookies\b", "cookies"),
    (r"\b(?:cocktail|highball|tall|wine|drinking) glass(?:es)?\b|\bdrink\b|\binto (?:a |the )?glass(?:es)?\b", "drink"),
    (r"\bmugs?\b|\bcups of tea\b", "mug"),
    (r"\b(?:sterili[sz]ed|airtight|glass|canning) (?:jar|bottle|container)s?\b|\bjars?\b", "jar"),
    (r"\bcut into (?:\w+ )?(?:squares|bars|diamonds)\b", "squares"),
    (r"\bdumplings?\b", "dumplings"),
    (r"\b(?:into|form|shape)\b[^.]{0,40}\bballs?\b", "balls"),
    (r"\bpatt(?:y|ies)\b", "patties"),
    (r"\btortillas?\b|\bwrap\b", "wraps"),
    (r"\b(?:baking|casserole|gratin|lasagn[ae]) dish\b", "bake"),
    (r"\bsoup\b|\bladle\b", "soup"),
    (r"\bspaghetti\b|\bal dente\b|\bnoodles\b", "pasta"),
    (r"\bcooked rice\b|\brice is (?:cooked|tender)\b", "rice"),
    (r"\bslices? of (?:bread|toast)\b", "sandwich"),
    (r"\blettuce\b|\btoss\b", "salad"),
    (r"\bsimmer\b|\bstew\b", "stew"),
    (r"\bfreez(?:e|er)\b|\bchill(?:ed)? (?:until|for)\b", "cup"),
    (r"\bknead\b", "stack"),
]  # fmt: skip
_STEP_FORM = [(re.compile(pattern), form) for pattern, form in _STEP_FORMS]
_FOOD = re.compile(
    r"\b(" + "|".join(re.escape(word) for word in sorted(INGREDIENTS, key=lambda w: (-len(w), w))) + r")(?:e?s)?\b"
)

_ALSO = {
    "stew",
    "soup",
    "salad",
    "pasta",
    "rice",
    "sandwich",
    "wraps",
    "skewers",
    "pie",
    "pizza",
    "bake",
    "dumplings",
    "patties",
    "balls",
    "omelette",
}
# Forms whose crumb or cream hides all but what is baked in or laid on top, and what that is.
_SWEET = {"cake", "muffins", "loaf", "cookies", "squares", "stack", "cup", "drink", "mug", "pie", "balls"}
_SHOWN_IN_CRUMB = {
    "nuts", "chocolate", "coconut", "seeds", "oats", "herbs", "berries", "raspberry", "blueberry", "cherry",
    "strawberry", "banana", "apple", "pear", "peach", "pineapple", "ice cream", "yoghurt", "watermelon", "olives",
    "cheese", "ice",
}  # fmt: skip
_CRUMB = _SWEET - {"pie", "balls"}
_SHOWS_EGG = {"salad", "sandwich", "rice", "toast"}

# Kinds of `INGREDIENTS` that a served dish hides; some of them colour it (`_TINTS`).
_HIDDEN = {
    "garlic", "ginger", "flour", "cornmeal", "cornstarch", "sugar", "brown sugar", "salt", "pepper", "spice",
    "curry powder", "cumin", "cinnamon", "vanilla", "oil", "palm oil", "vinegar", "soy sauce", "wine", "white wine",
    "beer", "water", "broth", "juice", "milk", "coconut milk", "tomato sauce", "sauce", "dressing", "soup", "mustard",
    "cocoa", "coffee", "tea", "yeast", "baking powder", "gelatine", "dough", "cake", "pie", "pizza", "peanut butter",
    "cookies", "muffin", "sandwich", "skewer", "pancake", "cream", "butter", "breadcrumbs", "honey", "jam", "balls",
}  # fmt: skip
# How much a kind colours what it is mixed into: colour once cooked, strength beside the plain colour's 1.
_TINTS: dict[str, tuple[str, float]] = {
    "tomato": ("d4492f", 1.6), "tomato sauce": ("c93c26", 3), "chocolate": ("5a3522", 4), "cocoa": ("4f2d1d", 5),
    "coffee": ("5b3a26", 3), "tea": ("b8742e", 2), "curry powder": ("dc9f27", 2.4), "spinach": ("5f8c3c", 1.6),
    "milk": ("fbf3e2", 1.4), "cream": ("fbf0d8", 1.8), "coconut milk": ("fbf5e6", 1.8), "coconut": ("faf4e6", 0.8),
    "soy sauce": ("5a3424", 1.6), "egg": ("f5d470", 0.7), "butter": ("f6dc8a", 0.4), "brown sugar": ("a8703a", 1.2),
    "carrot": ("ea8a35", 0.8), "pumpkin": ("e0832f", 3), "sweet potato": ("d6703f", 1.6), "beef": ("7a4630", 1.0),
    "mince": ("7d4a32", 1.0), "lentils": ("c07c3c", 2), "beet": ("9a2f5a", 4), "strawberry": ("e0566a", 2.2),
    "raspberry": ("d0405e", 2.2), "blueberry": ("6a5aa8", 2), "berries": ("8a4a78", 1.0), "cherry": ("b83246", 1.4),
    "broth": ("d9a55a", 1.0), "wine": ("7a2c3c", 1.2), "palm oil": ("d9682b", 2.4), "peanut butter": ("b98446", 2),
    "spice": ("c25a2c", 1.2), "honey": ("d9972f", 0.7), "mustard": ("d9ae2e", 0.8), "yoghurt": ("fbf6ea", 1.5),
    "cheese": ("f3c35a", 0.8), "potato": ("ecd08a", 0.6), "corn": ("f2cb55", 0.7), "peas": ("8ab54e", 0.9),
    "broccoli": ("6f9c4a", 0.8), "herbs": ("7aa04e", 0.25), "avocado": ("b9cf6a", 2.6), "lime": ("c9dc84", 0.6),
    "lemon": ("f6e07a", 0.7), "orange": ("f4ab48", 1.3), "juice": ("f2b04a", 1.2), "banana": ("f3dd90", 0.8),
    "peach": ("f3ac5c", 1.2), "apple": ("ecc86e", 0.5), "pineapple": ("f2ca58", 1.0), "beans": ("8f4a38", 1.0),
    "black beans": ("4b3a3c", 1.6), "chickpeas": ("e3c284", 0.9), "jam": ("b32f45", 1.6), "beer": ("d99a3a", 1.0),
    "mushroom": ("b89878", 0.8), "cornmeal": ("f0cc66", 1.2), "bell pepper": ("d9633a", 0.5), "chili": ("cf4a2c", 0.7),
    "green chili": ("8fae4c", 0.6), "eggplant": ("9a7a6a", 0.6), "nuts": ("c39a64", 0.4), "water": ("cfe6ee", 0.15),
    "ice cream": ("fbf0d2", 1.5), "leek": ("a5c47a", 0.3), "cabbage": ("c3d692", 0.4), "cinnamon": ("a8683a", 0.6),
    "oats": ("dcc08c", 0.8), "white wine": ("e6dfae", 0.3), "watermelon": ("e76a62", 2.2), "red onion": ("b87a92", 0.2),
    "dressing": ("f3e2ac", 0.8), "sauce": ("8f5636", 0.8), "ginger": ("e0b878", 0.2), "cucumber": ("b8d48e", 0.5),
}  # fmt: skip

# The plain colour of a form and how strong the ingredients' colours are in it.
_PLAIN: dict[str, tuple[str, float]] = {
    "soup": ("e2b163", 1.3), "stew": ("b9743c", 0.9), "porridge": ("f0e2c0", 0.8), "salad": ("a9c46a", 0.4),
    "sauce": ("dfb066", 2.2), "powder": ("c08a4c", 1.2), "pasta": ("d8a04a", 1.2), "rice": ("f6f0de", 0.35),
    "drink": ("f3d79a", 2.4), "mug": ("a9683a", 1.4), "jar": ("d99a4a", 1.8), "pie": ("dca04e", 1.4),
    "cake": ("e3b26a", 0.45), "muffins": ("d9a050", 0.4), "loaf": ("c98543", 0.35), "stack": ("dda95a", 0.3),
    "cookies": ("d6a35a", 0.4), "squares": ("d3a060", 0.8), "bake": ("dc9f45", 0.7), "pizza": ("d4492f", 0.5),
    "sandwich": ("d9a050", 0.2), "wraps": ("ecd09a", 0.2), "toast": ("c98a48", 0.2), "dumplings": ("f1ddb6", 0.2),
    "balls": ("b8793c", 0.4), "patties": ("a8652f", 0.3), "skewers": ("a9673a", 0.3), "cup": ("f6e6bc", 1.8),
    "omelette": ("f3c94a", 0.15), "swallow": ("f3e6c6", 0.4), "sticks": ("edb848", 0.2), "main": ("c98a48", 0.9),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Dish:
    """What a dish picture shows."""

    form: str  # soup, plate, cake, ...: a key of `_PLAIN`
    kinds: tuple[str, ...]  # visible ingredients by kind, the most telling first
    colour: Colour  # of what is mixed, cooked or baked together
    garnish: tuple[str, ...] = ()  # kinds strewn over it at the end


def read_dish(recipe: SourceRecipe) -> Dish:
    """Finds out what a recipe's finished dish looks like, from title, category, ingredients and last steps."""
    title = recipe.title.lower().replace("’", "'")
    steps = [step.body.lower() for step in recipe.steps]
    form = _form(title, recipe.category.lower(), steps)
    weights: dict[str, float] = {}  # kind -> how much it tells
    for position, line in enumerate(recipe.ingredients):
        for kind in _kinds(line.lower().split("(")[0]):
            weights.setdefault(kind, 1.0 - 0.03 * min(position, 20))
    named = _kinds(title)
    for kind in named:
        weights[kind] = weights.get(kind, 0.5) + 1.5
    last = " ".join(steps[-2:])
    garnish = [kind for kind in _kinds(last) if kind in weights and kind in _GARNISHES] if "garnish" in last else []
    garnish += [
        k
        for k in _GARNISHES
        if k not in garnish and any("garnish" in x and k in _kinds(x.lower()) for x in recipe.ingredients)
    ]
    if "beef" in weights and weights.keys() & {"mince", "chicken", "pork", "fish", "sausage"} and "meat" in title:
        del weights["beef"]
    kinds = [kind for kind in weights if kind in _PIECES and (kind in named or _visible(kind, form))]
    kinds.sort(key=lambda kind: (-weights[kind] - _PIECES[kind][3], kind))
    plain, strength = _PLAIN[form]
    parts = [(rgb(plain), 1.0)]
    for kind in weights:
        if kind in _TINTS:
            code, tint = _TINTS[kind]
            parts.append((rgb(code), tint * strength * (1.8 if kind in named else weights[kind])))
    total = sum(weight for _, weight in parts)
    r, g, b = (round(sum(colour[i] * weight for colour, weight in parts) / total) for i in range(3))
    return Dish(form, tuple(kinds[:MAX_VISIBLE]), (r, g, b), tuple(garnish[:2]))


def _visible(kind: str, form: str) -> bool:
    if kind in ("egg", "ice", "cheese"):
        return form in {"egg": _SHOWS_EGG, "ice": {"drink"}, "cheese": _PLAIN.keys() - _CRUMB}[kind]
    if kind in ("lemon", "lime", "orange"):  # mostly juice and zest
        return form in ("drink", "jar")
    if kind == "cucumber" and form == "drink":
        return True
    return kind in _SHOWN_IN_CRUMB if form in _CRUMB else kind not in _HIDDEN


def _form(title: str, category: str, steps: list[str]) -> str:
    head = re.split(r"\(|,| with | in | on | from | for | à |:", title)[0]
    for text in (re.split(r" and | & ", head)[0], head, title, re.sub(r"recipes?|dessert", "", category)):
        found = [_FORMS[match.group(1)] for match in _FORM.finditer(text)]
        if found and found[-1] != "main":
            return found[-1]
        if dishes := [form for form in found if form in _ALSO]:  # "curry chicken" is a curry, a "honey steak" no honey
            return dishes[-1]
    if _FORM.search(title):
        return "main"
    text = " ".join(steps)
    found = [form for pattern, form in _STEP_FORM if pattern.search(text)]
    if "dessert" in category:
        return next((form for form in found if form in _SWEET), "cup")
    return found[0] if found else "main"


def _kinds(text: str) -> list[str]:
    """Kinds of the foods a text names, in its order."""
    found: dict[str, None] = {}
    for match in _FOOD.finditer(text):
        found.setdefault(INGREDIENTS[match.group(1)][0])
    return list(found)


# --------------------------------------------------------------------------------- pieces: ingredients as they are cut


def _dice(p: Pen, c: Colour) -> None:
    p.box(-0.75, -0.55, 0.75, 0.85, dark(c, 0.25), 0.2)
    p.box(-0.75, -0.75, 0.75, 0.5, c, 0.2)
    p.box(-0.5, -0.6, 0.2, -0.25, light(c, 0.35), 0.15)


def _chunk(p: Pen, c: Colour) -> None:
    p.poly([(-0.95, 0.15), (-0.5, -0.7), (0.4, -0.8), (0.95, -0.1), (0.6, 0.75), (-0.4, 0.85)], dark(c, 0.3))
    p.poly([(-0.85, 0.0), (-0.5, -0.7), (0.4, -0.8), (0.85, -0.2), (0.5, 0.45), (-0.4, 0.5)], c)
    p.poly([(-0.5, -0.4), (-0.1, -0.62), (0.3, -0.55), (-0.2, -0.25)], light(c, 0.3))


def _coin(p: Pen, c: Colour) -> None:
    p.disc(0, 0.12, 0.9, 0.85, dark(c, 0.28))
    p.disc(0, 0, 0.9, 0.82, c)
    p.disc(0, 0, 0.45, 0.4, light(c, 0.25))


def _slice(p: Pen, c: Colour) -> None:
    """A slice with a rind and pale flesh: cucumber, courgette, aubergine."""
    p.disc(0, 0.1, 0.95, 0.88, dark(c, 0.2))
    p.disc(0, 0, 0.95, 0.86, c)
    p.disc(0, 0, 0.78, 0.7, light(c, 0.75))
    for angle in range(0, 360, 72):
        t = math.radians(angle)
        p.disc(0.35 * math.cos(t), 0.3 * math.sin(t), 0.09, 0.07, light(c, 0.35))


def _tomato(p: Pen, c: Colour) -> None:
    p.disc(0, 0.1, 0.98, 0.9, dark(c, 0.2))
    p.disc(0, 0, 0.96, 0.88, c)
    for angle in (20, 110, 200, 290):
        q = p.at(0, 0, 1, angle)
        q.disc(0.48, 0, 0.26, 0.2, rgb("ee8a66"))
        q.disc(0.5, 0, 0.09, 0.06, rgb("f7dc92"))


def _wheel(p: Pen, c: Colour) -> None:
    """A slice of citrus."""
    p.disc(0, 0, 1, 0.94, c)
    p.disc(0, 0, 0.86, 0.8, CREAM)
    for angle in range(0, 360, 60):
        p.at(0, 0, 1, angle).poly([(0.1, 0), (0.62, -0.3), (0.76, 0), (0.62, 0.3)], light(c, 0.15))


def _ring(p: Pen, c: Colour) -> None:
    p.arc(0, 0, 0.72, 0.6, 0, 360, 0.24, c)
    p.arc(0, 0, 0.4, 0.32, 20, 330, 0.16, light(c, 0.4))


def _strip(p: Pen, c: Colour) -> None:
    p.line([(-0.95, 0.15), (-0.3, -0.12), (0.35, -0.05), (0.95, 0.2)], 0.5, dark(c, 0.2))
    p.line([(-0.9, 0.05), (-0.3, -0.2), (0.35, -0.12), (0.9, 0.1)], 0.3, c)


def _stick(p: Pen, c: Colour) -> None:
    p.line([(-1.5, 0.12), (1.5, 0.12)], 0.5, dark(c, 0.22))
    p.line([(-1.5, 0), (1.5, 0)], 0.38, c)
    p.line([(-1.2, -0.08), (0.6, -0.08)], 0.1, light(c, 0.4))


def _shred(p: Pen, c: Colour) -> None:
    p.line([(-1, 0.2), (-0.3, -0.2), (0.4, 0.1), (1, -0.25)], 0.3, c)
    p.line([(-0.7, 0.5), (0.1, 0.3), (0.8, 0.55)], 0.24, light(c, 0.35))


def _bean(p: Pen, c: Colour) -> None:
    p.disc(0, 0.08, 0.8, 0.55, dark(c, 0.28))
    p.disc(0, 0, 0.76, 0.48, c)
    p.disc(-0.25, -0.15, 0.25, 0.12, light(c, 0.5))


def _pea(p: Pen, c: Colour) -> None:
    p.disc(0, 0.06, 0.62, 0.6, dark(c, 0.25))
    p.disc(-0.04, -0.04, 0.52, 0.5, c)
    p.disc(-0.2, -0.22, 0.16, 0.12, light(c, 0.55))


def _grain(p: Pen, c: Colour) -> None:
    p.disc(0, 0, 0.6, 0.26, c)


def _crumb(p: Pen, c: Colour) -> None:
    for x, y, r in ((-0.4, 0.1, 0.5), (0.35, -0.15, 0.45), (0.15, 0.4, 0.4)):
        p.disc(x, y + 0.08, r, r * 0.8, dark(c, 0.25))
        p.disc(x, y, r * 0.85, r * 0.65, c)


def _wedge(p: Pen, c: Colour) -> None:
    """A wedge of fruit: skin on the outside, pale flesh."""
    p.half(0, -0.3, 1, 0.95, c)
    p.half(0, -0.3, 0.85, 0.72, light(c, 0.6))


def _leaf(p: Pen, c: Colour) -> None:
    d.leaf(p, c)


def _frill(p: Pen, c: Colour) -> None:
    """A leaf of salad."""
    outline = [
        (math.cos(i * math.pi / 8) * (1.0 if i % 2 else 0.8), math.sin(i * math.pi / 8) * (0.8 if i % 2 else 0.66))
        for i in range(16)
    ]
    p.poly([(x, y + 0.1) for x, y in outline], dark(c, 0.2))
    p.poly(outline, c)
    p.line([(-0.7, 0.1), (0.6, -0.1)], 0.1, light(c, 0.5))
    p.line([(-0.1, 0.02), (0.2, 0.4)], 0.07, light(c, 0.5))
    p.line([(-0.1, 0.0), (0.15, -0.45)], 0.07, light(c, 0.5))


def _mushroom(p: Pen, c: Colour) -> None:
    """A slice of mushroom."""
    k = light(c, 0.45)
    p.box(-0.28, -0.1, 0.28, 0.9, k, 0.15)
    p.half(0, 0.1, 0.95, 0.85, c, up=True)
    p.half(0, 0.1, 0.78, 0.64, k, up=True)
    p.box(-0.2, -0.2, 0.2, 0.8, k, 0.15)


def _half_egg(p: Pen, c: Colour) -> None:
    p.disc(0, 0.1, 0.8, 0.98, rgb("d9d2c6"))
    p.disc(0, 0, 0.8, 0.96, WHITE)
    p.disc(0, 0.12, 0.46, 0.48, rgb("f4ad2a"))
    p.disc(-0.12, 0.0, 0.16, 0.14, rgb("fbd46a"))


def _fillet(p: Pen, c: Colour) -> None:
    """A cooked fillet of fish."""
    p.poly([(-1, 0.1), (-0.7, -0.45), (0.3, -0.6), (1, -0.25), (1, 0.2), (0.3, 0.5), (-0.7, 0.5)], dark(c, 0.25))
    p.poly([(-1, 0.0), (-0.7, -0.5), (0.3, -0.65), (1, -0.3), (1, 0.08), (0.3, 0.35), (-0.7, 0.35)], c)
    for x in (-0.55, -0.1, 0.35, 0.75):
        p.line([(x - 0.12, -0.45), (x + 0.05, -0.1), (x - 0.08, 0.28)], 0.06, light(c, 0.5))


def _bone_meat(p: Pen, c: Colour) -> None:
    """A roasted leg of a fowl."""
    d.drumstick(p, c)


def _seared(p: Pen, c: Colour) -> None:
    """A seared piece of meat with the marks of a grill."""
    outer = [
        (-0.95, 0.1),
        (-0.75, -0.5),
        (0.0, -0.72),
        (0.8, -0.5),
        (0.98, 0.05),
        (0.6, 0.55),
        (-0.1, 0.5),
        (-0.6, 0.65),
    ]
    p.poly([(x, y + 0.14) for x, y in outer], dark(c, 0.5))
    p.poly(outer, c)
    p.poly([(-0.75, -0.35), (0.0, -0.6), (0.7, -0.42), (0.0, -0.35)], light(c, 0.2))
    for x in (-0.55, -0.1, 0.35):
        p.line([(x - 0.1, 0.4), (x + 0.3, -0.45)], 0.1, dark(c, 0.55))


def _slices_of_roast(p: Pen, c: Colour) -> None:
    for x in (0.4, 0.0, -0.4):
        p.disc(x, 0.06, 0.52, 0.72, dark(c, 0.35))
        p.disc(x - 0.04, 0, 0.5, 0.68, light(c, 0.15))
        p.disc(x - 0.06, 0, 0.4, 0.56, c)


def _shell(p: Pen, c: Colour) -> None:
    p.half(0, 0.3, 0.9, 1.0, rgb("4d4a5c"), up=True)
    p.disc(0, 0.25, 0.72, 0.3, rgb("d9d3d6"))
    p.disc(0.05, 0.22, 0.42, 0.2, c)


def _dollop(p: Pen, c: Colour) -> None:
    p.disc(0, 0.12, 1.0, 0.78, dark(c, 0.12))
    p.disc(0, 0, 0.95, 0.7, c)
    p.disc(0.05, -0.18, 0.6, 0.42, light(c, 0.5))
    p.disc(0.12, -0.32, 0.26, 0.2, WHITE)


def _nut(p: Pen, c: Colour) -> None:
    p.poly([(0, -1), (0.55, -0.1), (0.4, 0.7), (0, 0.9), (-0.4, 0.7), (-0.55, -0.1)], dark(c, 0.2))
    p.poly([(0, -0.9), (0.42, -0.1), (0.3, 0.6), (-0.35, 0.65), (-0.48, -0.1)], c)
    p.line([(0, -0.6), (0, 0.5)], 0.12, dark(c, 0.35))


def _chip(p: Pen, c: Colour) -> None:
    p.disc(0, 0.1, 0.6, 0.55, dark(c, 0.35))
    p.disc(0, 0, 0.56, 0.48, c)
    p.disc(-0.14, -0.14, 0.18, 0.12, light(c, 0.3))


def _tube(p: Pen, c: Colour) -> None:
    """A piece of short pasta."""
    p.line([(-0.8, 0.12), (0.8, 0.12)], 0.66, dark(c, 0.2))
    p.line([(-0.8, 0), (0.8, 0)], 0.52, c)
    p.disc(0.92, 0, 0.16, 0.24, dark(c, 0.4))
    p.line([(-0.6, -0.12), (0.5, -0.12)], 0.1, light(c, 0.4))


def _squiggle(p: Pen, c: Colour) -> None:
    p.line([(-1.2, 0.3), (-0.7, -0.3), (-0.1, 0.3), (0.5, -0.3), (1.1, 0.25)], 0.26, dark(c, 0.16))
    p.line([(-1.2, 0.2), (-0.7, -0.38), (-0.1, 0.2), (0.5, -0.38), (1.1, 0.17)], 0.16, c)


def _cube(p: Pen, c: Colour) -> None:
    p.poly([(-0.8, -0.4), (0, -0.1), (0, 0.8), (-0.8, 0.5)], c)
    p.poly([(0, -0.1), (0.8, -0.4), (0.8, 0.5), (0, 0.8)], dark(c, 0.16))
    p.poly([(-0.8, -0.4), (0, -0.75), (0.8, -0.4), (0, -0.1)], light(c, 0.55))


def _pile(p: Pen, c: Colour) -> None:
    """A heap of grains, as a side of rice."""
    p.disc(0, 0.12, 1.0, 0.72, dark(c, 0.2))
    p.disc(0, 0, 0.96, 0.68, dark(c, 0.06))
    for i in range(30):
        t, r = i * 2.4, math.sqrt((i + 0.5) / 30)
        p.at(0.84 * r * math.cos(t), -0.06 + 0.56 * r * math.sin(t), 0.17, i * 67).disc(0, 0, 0.75, 0.36, light(c, 0.4))


def _mash(p: Pen, c: Colour) -> None:
    """A heap of mashed or creamed vegetables."""
    p.disc(0, 0.14, 1.0, 0.74, dark(c, 0.2))
    p.disc(0, 0, 0.97, 0.68, c)
    for y in (-0.28, 0.02, 0.3):
        p.arc(0, y, 0.62, 0.2, 190, 350, 0.1, light(c, 0.4))


# kind -> piece in a mixture, colour (None: the drawing's), size, how telling, big piece on a plate
_PIECES: dict[str, tuple[Drawing, Colour | None, float, float, Drawing]] = {
    "onion": (_ring, rgb("f1e3c0"), 2.8, -0.3, _ring), "red onion": (_ring, rgb("a65a86"), 3.0, 0.0, _ring),
    "tomato": (_tomato, rgb("d9432f"), 4.2, 0.3, _tomato), "carrot": (_coin, rgb("ee8a33"), 3.2, 0.2, d.carrot),
    "potato": (_chunk, rgb("efcf7c"), 4.2, 0.3, _chunk), "sweet potato": (_chunk, rgb("df7a3c"), 4.2, 0.3, _chunk),
    "bell pepper": (_strip, rgb("d9443a"), 3.6, 0.1, _strip),
    "green pepper": (_strip, rgb("6aa845"), 3.6, 0.1, _strip), "chili": (_ring, rgb("d33b2f"), 2.4, -0.1, d.chili),
    "green chili": (_ring, rgb("69a63f"), 2.4, -0.1, d.chili), "cucumber": (_slice, rgb("5e9a48"), 3.8, 0.2, _slice),
    "zucchini": (_slice, rgb("4f8a4a"), 3.8, 0.2, _slice), "eggplant": (_slice, rgb("5d3a73"), 4.4, 0.3, _slice),
    "yam": (_chunk, rgb("f0dfb4"), 4.4, 0.3, _chunk), "corn": (_pea, rgb("f5c838"), 2.2, 0.2, d.corn),
    "celery": (_ring, rgb("a9cc74"), 2.6, -0.1, _stick), "leek": (_ring, rgb("76b358"), 2.2, -0.1, _stick),
    "green beans": (_stick, rgb("63a343"), 2.8, 0.2, _stick), "cabbage": (_shred, rgb("b5d283"), 4.0, 0.1, _shred),
    "lettuce": (_frill, rgb("86bf55"), 6.5, 0.1, _frill), "spinach": (_leaf, rgb("4f8f40"), 3.4, 0.2, _mash),
    "herbs": (_leaf, rgb("4f963c"), 1.9, -0.2, d.herb), "mushroom": (_mushroom, rgb("b58e68"), 3.8, 0.3, _mushroom),
    "broccoli": (d.broccoli, rgb("5a9a43"), 4.4, 0.4, d.broccoli),
    "cauliflower": (d.broccoli, rgb("f2ead6"), 4.4, 0.4, d.broccoli),
    "pumpkin": (_chunk, rgb("e98a35"), 4.2, 0.4, _chunk), "beet": (_coin, rgb("8e2f55"), 3.8, 0.4, _coin),
    "peas": (_pea, rgb("7db84a"), 2.0, 0.1, _pile), "beans": (_bean, rgb("8c3b32"), 2.9, 0.3, _bean),
    "black beans": (_bean, rgb("3b3238"), 2.7, 0.3, _bean), "chickpeas": (_pea, rgb("e0bd78"), 2.6, 0.3, _pea),
    "lentils": (_grain, rgb("a9692f"), 2.0, 0.2, _pile), "apple": (_wedge, rgb("cf4a3a"), 3.8, 0.3, _wedge),
    "pear": (_wedge, rgb("b9c452"), 3.8, 0.3, _wedge), "peach": (_wedge, rgb("f0943f"), 3.8, 0.3, _wedge),
    "lemon": (_wheel, rgb("f5d23d"), 4.4, -0.1, _wheel), "lime": (_wheel, rgb("8fc544"), 4.0, -0.1, _wheel),
    "orange": (_wheel, rgb("f29a2e"), 4.6, 0.1, _wheel), "banana": (_coin, rgb("f6e3a0"), 3.4, 0.3, _coin),
    "plantain": (_coin, rgb("e3ad3e"), 3.8, 0.4, _coin),
    "strawberry": (d.strawberry, rgb("e2433f"), 3.8, 0.4, d.strawberry),
    "berries": (_pea, rgb("6b2f5c"), 2.6, 0.2, d.berries), "raspberry": (_pea, rgb("d8405e"), 2.8, 0.3, d.berries),
    "blueberry": (_pea, rgb("4c5ea8"), 2.8, 0.3, d.berries), "cherry": (_pea, rgb("b8232f"), 3.0, 0.3, d.cherries),
    "pineapple": (_chunk, rgb("f6cc4c"), 3.6, 0.3, _chunk), "coconut": (_shred, rgb("fffaf0"), 2.6, 0.1, _shred),
    "watermelon": (_dice, rgb("e8585a"), 3.8, 0.4, _dice), "avocado": (_wedge, rgb("8aa84a"), 4.2, 0.4, d.avocado),
    "olives": (_ring, rgb("55603a"), 2.4, 0.1, _ring), "beef": (_chunk, rgb("7a4630"), 4.6, 0.5, _seared),
    "chicken": (_chunk, rgb("d99a4c"), 4.6, 0.6, _bone_meat),
    "pork": (_chunk, rgb("d08a68"), 4.6, 0.5, _slices_of_roast), "bacon": (_strip, rgb("b0443a"), 3.6, 0.2, d.bacon),
    "sausage": (_coin, rgb("b25a3f"), 3.8, 0.5, d.sausage), "mince": (_crumb, rgb("855036"), 3.0, 0.3, _crumb),
    "meatballs": (d.ball, rgb("8f5638"), 5.0, 0.6, d.ball), "patty": (d.patty, rgb("8f5638"), 6.0, 0.4, d.patty),
    "fish": (_fillet, rgb("ecd3a6"), 5.0, 0.6, _fillet), "salmon": (_fillet, rgb("ee8f6c"), 5.0, 0.6, _fillet),
    "shrimp": (d.shrimp, rgb("f08f6c"), 4.6, 0.6, d.shrimp), "crab": (d.crab, rgb("d8523f"), 5.0, 0.5, d.crab),
    "clams": (_shell, rgb("efb06a"), 4.4, 0.5, _shell), "egg": (_half_egg, rgb("efcfa6"), 4.2, -0.2, _half_egg),
    "cheese": (_shred, rgb("f6c64e"), 3.0, -0.1, _shred), "yoghurt": (_dollop, rgb("fdfaf2"), 5.0, -0.1, _dollop),
    "rice": (_grain, rgb("fbf7ea"), 2.2, 0.0, _pile), "pasta": (_tube, rgb("efcb6a"), 3.4, 0.2, _squiggle),
    "noodles": (_squiggle, rgb("efcf83"), 4.4, 0.3, _squiggle), "bread": (_dice, rgb("c98a48"), 3.4, 0.0, d.loaf),
    "tortilla": (_wedge, rgb("e0b35c"), 5.0, 0.0, _wedge), "nuts": (_nut, rgb("c08a52"), 2.6, 0.0, _nut),
    "seeds": (_grain, rgb("e8d6a8"), 1.6, -0.2, _grain), "oats": (_grain, rgb("dcc08c"), 2.2, 0.0, _pile),
    "chocolate": (_chip, rgb("5a3522"), 2.2, 0.2, _chip), "tofu": (_cube, rgb("fbf0d8"), 4.2, 0.5, _cube),
    "dumplings": (d.dumplings, rgb("f1ddb6"), 6.0, 0.3, d.dumplings), "ice": (d.ice, rgb("cfe9f5"), 6.0, -0.2, d.ice),
    "ice cream": (d.ball, rgb("fbf0d2"), 6.0, 0.1, d.ball),
}  # fmt: skip
_GARNISHES = ("herbs", "leek", "lemon", "lime", "nuts", "seeds", "cheese", "egg", "orange", "cherry", "coconut")
_MAINS = (
    "meatballs",
    "patty",
    "shrimp",
    "salmon",
    "fish",
    "sausage",
    "chicken",
    "beef",
    "pork",
    "crab",
    "clams",
    "tofu",
    "mince",
    "bacon",
    "egg",
)

# --------------------------------------------------------------------------------------------------- table and vessels

_TABLES = [
    rgb(code)
    for code in (
        "d9b48a",
        "b98a5e",
        "e8ddcb",
        "c9d3d6",
        "8fa3ad",
        "6f5a4c",
        "d8c3c9",
        "b9c7a9",
        "47525c",
        "efe6d8",
        "a9bccb",
        "caa27a",
    )
]
_CHINA = [
    rgb(code)
    for code in (
        "fffdf8",
        "fffdf8",
        "f4ead8",
        "dfe9ee",
        "cfd9c8",
        "e6cfc4",
        "4d6275",
        "3d4148",
        "b9534a",
        "e3b04f",
        "7fa6a3",
    )
]
_CLOTHS = [rgb(code) for code in ("d8604f", "3f7f8c", "4a6fa5", "e0a13a", "6b8f5e", "f7f1e6", "8a6fa8")]

Piece = tuple[Drawing, Colour, float]


@dataclass(slots=True)
class _Table:
    """What one picture has at hand: the frame, the dish, its crockery, and its own dice."""

    pen: Pen
    dish: Dish
    top: Colour
    china: Colour
    cloth: Colour
    dice: random.Random

    def pieces(self, most: int = MAX_VISIBLE) -> list[Piece]:
        """The visible ingredients as cut pieces; now and then one has sunk."""
        shown = [kind for kind in self.dish.kinds if self.dice.random() < 0.9][:most]
        return [self.piece(kind) for kind in shown]

    def piece(self, kind: str) -> Piece:
        drawing, colour, size, _, _ = _PIECES[kind]
        return drawing, colour or WHITE, size

    def jitter(self, amount: float) -> float:
        return self.dice.uniform(-amount, amount)


def _spots(s: _Table, count: int, rx: float, ry: float) -> list[tuple[float, float]]:
    """So many places spread evenly over an ellipse about the origin, from back to front."""
    turn = s.dice.uniform(0, math.tau)
    spots = []
    for i in range(count):
        r = math.sqrt((i + 0.5) / max(count, 1))
        t = turn + i * 2.399963
        spots.append((rx * r * math.cos(t) + s.jitter(rx * 0.05), ry * r * math.sin(t) + s.jitter(ry * 0.05)))
    return sorted(spots, key=lambda spot: spot[1])


def _strew(s: _Table, p: Pen, pieces: list[Piece], rx: float, ry: float, count: int) -> None:
    """Pieces mixed over an ellipse; the first kinds come more often."""
    if not pieces:
        return
    spots = _spots(s, count, rx, ry)
    bag = [pieces[min(int(s.dice.triangular(0, len(pieces), 0)), len(pieces) - 1)] for _ in spots]
    for i, piece in enumerate(pieces):  # each kind is there at least twice
        for j in range(min(2, count)):
            bag[s.dice.randrange(len(bag)) if count > 8 else (i + j) % len(bag)] = piece
    for (x, y), (drawing, colour, size) in zip(spots, bag, strict=True):
        shade = s.jitter(0.1)
        colour = dark(colour, shade) if shade > 0 else light(colour, -shade)
        angle = s.dice.uniform(-180, 180) if drawing in _FREE else s.jitter(25)
        drawing(p.at(x, y, size * s.dice.uniform(0.85, 1.15), angle), colour)


_FREE = {_grain, _leaf, _ring, _strip, _stick, _shred, _bean, _tube, _squiggle, _nut, _wheel, _tomato, _frill, d.shrimp}


def _garnish(s: _Table, p: Pen, rx: float, ry: float, count: int = 9) -> None:
    """What is strewn over at the end: what the recipe says, else now and then some green."""
    kinds = s.dish.garnish
    for kind in kinds:
        drawing, colour, size = s.piece(kind)
        few = 1 if kind in ("lemon", "lime", "orange", "egg", "cherry") else count
        for x, y in _spots(s, few, rx * 0.8, ry * 0.8):
            drawing(p.at(x, y, size * (0.8 if few > 1 else 1.0), s.dice.uniform(-180, 180)), colour)


def _shadow(s: _Table, x: float, y: float, rx: float, ry: float) -> None:
    s.pen.disc(x + 1.2, y + 2.4, rx * 1.02, ry * 1.02, dark(s.top, 0.3))


def _plate_at(s: _Table, x: float, y: float, rx: float, ry: float) -> None:
    """An empty plate seen from above at a slant."""
    c = s.china
    _shadow(s, x, y, rx, ry)
    s.pen.disc(x, y + 1, rx, ry, dark(c, 0.22))
    s.pen.disc(x, y, rx, ry, c)
    s.pen.disc(x, y, rx * 0.97, ry * 0.965, light(c, 0.4))
    s.pen.disc(x, y, rx * 0.94, ry * 0.93, c)
    s.pen.disc(x, y + 0.4, rx * 0.76, ry * 0.74, dark(c, 0.1))
    s.pen.disc(x, y + 0.9, rx * 0.75, ry * 0.72, light(c, 0.12))


def _bowl_at(s: _Table, x: float, y: float, rx: float, ry: float, food: Colour) -> Pen:
    """A bowl filled to the brim with something; returns the frame of its surface."""
    c = s.china
    _shadow(s, x, y + 3, rx, ry)
    s.pen.disc(x, y + 4, rx * 0.97, ry * 0.98, dark(c, 0.3))
    s.pen.disc(x, y, rx, ry, c)
    s.pen.disc(x, y, rx * 0.95, ry * 0.94, light(c, 0.45))
    s.pen.disc(x, y + 0.4, rx * 0.9, ry * 0.88, dark(c, 0.32))
    s.pen.disc(x, y + 1.2, rx * 0.88, ry * 0.85, dark(food, 0.2))
    s.pen.disc(x, y + 1.0, rx * 0.85, ry * 0.81, food)
    return s.pen.at(x, y + 1.0)


def _surface(s: _Table, p: Pen, rx: float, ry: float, food: Colour) -> None:
    """Light on something moist: a few pale and dark patches."""
    for _ in range(7):
        t, r = s.dice.uniform(0, math.tau), s.dice.uniform(0.1, 0.75)
        q = p.at(rx * r * math.cos(t), ry * r * math.sin(t), 1, s.jitter(20))
        size = s.dice.uniform(0.1, 0.22)
        tone = light(food, 0.16) if s.dice.random() < 0.6 else dark(food, 0.1)
        q.disc(0, 0, rx * size, ry * size * 0.6, tone)


def _spoon(p: Pen, c: Colour) -> None:
    p.line([(0, 0), (0, 34)], 2.2, dark(c, 0.15))
    p.disc(0, -3, 4.4, 6.6, dark(c, 0.2))
    p.disc(-0.3, -3.2, 3.7, 5.8, c)
    p.disc(-0.9, -4.6, 1.6, 2.8, light(c, 0.5))


def _fork(p: Pen, c: Colour) -> None:
    for x in (-2.4, 0, 2.4):
        p.line([(x, -10), (x, -3)], 1.0, c)
    p.box(-3, -4, 3, 1, c, 2.4)
    p.line([(0, 0), (0, 34)], 1.9, c)


def _cutlery(s: _Table, tool: Callable[[Pen, Colour], None] = _fork) -> None:
    side = s.dice.choice((-1, 1))
    if s.dice.random() < 0.7:
        metal = s.dice.choice((STEEL, STEEL, WOOD, rgb("d9b45f")))
        tool(s.pen.at(50 + side * 45.5, 44 + s.jitter(6), 0.9, s.jitter(7)), metal)


# ----------------------------------------------------------------------------------------------------------- the forms


def _soup(s: _Table) -> None:
    food = s.dish.colour
    stew = s.dish.form == "stew"
    _cutlery(s, _spoon)
    rx = 37.0 if stew else 36.0
    p = _bowl_at(s, 50, 50, rx, rx * 0.86, food)
    x, y = rx * 0.8, rx * 0.66
    _surface(s, p, x, y, food)
    pieces = s.pieces(6 if stew else 5)
    _strew(s, p, pieces, x * 0.86, y * 0.84, s.dice.randint(40, 52) if stew else s.dice.randint(18, 28))
    if not stew:  # the broth closes over some
        for _ in range(7):
            t, r = s.dice.uniform(0, math.tau), math.sqrt(s.dice.random())
            p.disc(x * 0.8 * r * math.cos(t), y * 0.8 * r * math.sin(t), 1.6, 1.0, light(food, 0.5))
    if s.dice.random() < 0.35:
        p.arc(s.jitter(6), s.jitter(4), x * 0.4, y * 0.4, 20, 300, 1.4, light(food, 0.55))
    _garnish(s, p, x * 0.7, y * 0.7)


def _porridge(s: _Table) -> None:
    food = s.dish.colour
    _cutlery(s, _spoon)
    p = _bowl_at(s, 50, 50, 36, 31, food)
    for _ in range(60):
        t, r = s.dice.uniform(0, math.tau), math.sqrt(s.dice.random())
        tone = light(food, 0.35) if s.dice.random() < 0.6 else dark(food, 0.12)
        p.at(28 * r * math.cos(t), 23 * r * math.sin(t), 1.6, s.dice.uniform(0, 180)).disc(0, 0, 0.9, 0.5, tone)
    _strew(s, p, s.pieces(3), 17, 13, 14)
    _garnish(s, p, 18, 14)


def _salad(s: _Table) -> None:
    _cutlery(s)
    p = _bowl_at(s, 50, 50, 39, 34, s.dish.colour)
    green = {"lettuce", "spinach", "cabbage"} & set(s.dish.kinds)
    if green or not s.dish.kinds:
        kind = min(green) if green else "lettuce"
        drawing, colour, size = s.piece(kind)
        for x, y in _spots(s, 22, 30, 24):
            drawing(p.at(x, y, size * 1.1, s.dice.uniform(-180, 180)), blend(colour, light(colour), s.dice.random()))
    _strew(s, p, s.pieces(), 27, 22, 46)
    _garnish(s, p, 22, 17)


def _sauce(s: _Table) -> None:
    food = s.dish.colour
    rx = s.dice.uniform(25, 30)
    if s.dice.random() < 0.5:
        _plate_at(s, 50, 51, 41, 35)
        named = "tortilla" if "tortilla" in s.dish.kinds else "bread"
        colour = rgb("e8b95a") if named == "tortilla" else rgb("d29a55")
        for i in range(9):
            t = i * math.tau / 9 + s.jitter(0.15)
            s.pen.at(50 + 33 * math.cos(t), 51 + 28 * math.sin(t), 6, math.degrees(t) + 90).poly(
                [(-1, 0.6), (1, 0.6), (0, -0.9)], blend(colour, light(colour), s.dice.random() * 0.5)
            )
    p = _bowl_at(s, 50, 51, rx, rx * 0.86, food)
    for k, tone in ((0.62, light(food, 0.14)), (0.4, dark(food, 0.08)), (0.22, light(food, 0.22))):
        p.arc(
            s.jitter(1), s.jitter(1), rx * k, rx * k * 0.84, s.dice.uniform(0, 180), s.dice.uniform(260, 400), 2.0, tone
        )
    chunky = s.pieces(4)
    small = [(drawing, blend(colour, food, 0.25), size * 0.6) for drawing, colour, size in chunky]
    _strew(s, p, small, rx * 0.62, rx * 0.52, s.dice.randint(10, 18))
    _garnish(s, p, rx * 0.5, rx * 0.4, 6)


def _powder(s: _Table) -> None:
    food = s.dish.colour
    p = _bowl_at(s, 50, 49, 28, 24, dark(food, 0.1))
    p.disc(0, -1, 20, 15, food)
    p.disc(-2, -4, 13, 9, light(food, 0.15))
    p.disc(-3, -6, 6, 4, light(food, 0.3))
    for _ in range(90):
        t, r = s.dice.uniform(0, math.tau), math.sqrt(s.dice.random())
        tone = s.dice.choice((dark(food, 0.3), light(food, 0.4), rgb("b9552b"), rgb("4b4445"), food))
        p.disc(22 * r * math.cos(t), 18 * r * math.sin(t), 0.55, 0.5, tone)
    _spoon(s.pen.at(76, 62, 0.8, -40), WOOD)
    for i, kind in enumerate(s.dish.kinds[:3]):
        drawing, colour, size = s.piece(kind)
        drawing(s.pen.at(16 + i * 11, 84 + s.jitter(3), size * 1.2, s.jitter(40)), colour)


def _main(s: _Table) -> None:
    """A plate with a main piece, its sides and a sauce."""
    _cutlery(s)
    _plate_at(s, 50, 50, 41, 36)
    kinds = [kind for kind in s.dish.kinds if s.dice.random() < 0.93] or list(s.dish.kinds)
    main = next((kind for kind in kinds[:4] if kind in _MAINS), kinds[0] if kinds else None)
    sides = [kind for kind in kinds if kind != main][:4]
    p = s.pen.at(50, 50)
    sauce = s.dish.colour
    turn = s.dice.uniform(0, 360)
    if s.dice.random() < 0.75:
        q = p.at(s.jitter(3), s.jitter(3), 1, s.jitter(30))
        q.disc(0, 1, 24, 18, dark(sauce, 0.12))
        q.disc(0, 0, 23, 17, sauce)
        q.disc(-6, -5, 10, 6, light(sauce, 0.18))
    for i, kind in enumerate(sides):
        drawing, colour, size, _, big = _PIECES[kind]
        t = math.radians(turn + i * 360 / max(len(sides), 3))
        q = p.at(19 * math.cos(t), 15 * math.sin(t))
        if big in (_pile, _mash):
            big(q.at(0, 0, 10), colour or WHITE)
        else:
            _strew(s, q, [(drawing, colour or WHITE, size)], 8.5, 7, 8)
    if main is None:
        c = sauce
        for x, y, r in ((-7, -3, 12), (8, -1, 10), (1, 5, 9)):
            p.disc(x, y + 1.5, r, r * 0.7, dark(c, 0.3))
            p.disc(x, y, r, r * 0.68, light(c, 0.1))
    else:
        drawing, colour, size, _, big = _PIECES[main]
        colour = blend(colour or WHITE, sauce, 0.15)
        if main in ("mince", "bacon", "egg", "shrimp", "clams", "tofu", "meatballs") or main not in _MAINS:
            _strew(s, p, [(drawing, colour, size * 1.2)], 14, 11, 13)
        else:
            count = s.dice.choice((1, 2, 3)) if main != "salmon" else s.dice.choice((1, 2))
            k = {1: 17.0, 2: 13.0, 3: 11.0}[count]
            for i in range(count):
                q = p.at((i - (count - 1) / 2) * k * 1.05, (i % 2) * 4 - 2, k, s.jitter(25), s.dice.random() < 0.5)
                big(q, colour)
    if s.dice.random() < 0.4 and not s.dish.garnish:
        d.herb(p.at(s.jitter(10), -8, 5, s.jitter(40)), GREEN)
    _garnish(s, p, 17, 13)


def _pasta(s: _Table) -> None:
    _cutlery(s)
    _plate_at(s, 50, 50, 41, 36)
    p = s.pen.at(50, 49)
    noodle = rgb("f0d07a") if "noodles" not in s.dish.kinds else rgb("ecc98a")
    sauce = s.dish.colour
    p.disc(0, 2, 27, 22, dark(noodle, 0.3))
    p.disc(0, 1, 26, 21, dark(noodle, 0.14))
    if s.dice.random() < 0.3 and "noodles" not in s.dish.kinds:
        _strew(s, p, [(_tube, noodle, 4.2)], 23, 18, 60)
    else:
        for i in range(64):
            t, r = s.dice.uniform(0, math.tau), math.sqrt(s.dice.random()) * 0.85
            q = p.at(20 * r * math.cos(t), 15 * r * math.sin(t), 1, s.dice.uniform(0, 360))
            start = s.dice.uniform(0, 360)
            tone = (noodle, light(noodle, 0.25), dark(noodle, 0.14))[i % 3]
            q.arc(0, 0, s.dice.uniform(5, 10), s.dice.uniform(3, 7), start, start + s.dice.uniform(120, 240), 1.3, tone)
    q = p.at(s.jitter(3), s.jitter(2) - 1, 1, s.jitter(40))
    q.poly(
        [
            (
                15 * math.cos(i * math.pi / 9) * (1 + 0.16 * (i % 3 - 1)),
                11 * math.sin(i * math.pi / 9) * (1 + 0.16 * (i % 3 - 1)),
            )
            for i in range(18)
        ],
        sauce,
    )
    q.disc(-3, -3, 7, 4, light(sauce, 0.18))
    _strew(s, q, [piece for piece in s.pieces() if piece[0] not in (_tube, _squiggle)], 16, 12, 20)
    _garnish(s, q, 12, 9)


def _rice(s: _Table) -> None:
    _cutlery(s)
    grain = blend(s.dish.colour, rgb("fbf7ea"), 0.35)
    if s.dice.random() < 0.5:
        p = _bowl_at(s, 50, 50, 37, 32, dark(grain, 0.1))
        rx, ry = 29.0, 24.0
    else:
        _plate_at(s, 50, 50, 41, 36)
        p = s.pen.at(50, 49)
        rx, ry = 26.0, 21.0
        p.disc(0, 1.6, rx + 1, ry + 1, dark(grain, 0.25))
        p.disc(0, 0, rx, ry, dark(grain, 0.1))
    for i in range(190):
        t, r = s.dice.uniform(0, math.tau), math.sqrt(s.dice.random())
        tone = (light(grain, 0.45), grain, dark(grain, 0.1))[i % 3]
        p.at(rx * r * math.cos(t), ry * r * math.sin(t), 1.9, s.dice.uniform(0, 180)).disc(0, 0, 0.75, 0.32, tone)
    _strew(s, p, [piece for piece in s.pieces() if piece[0] is not _grain], rx * 0.8, ry * 0.78, 26)
    _garnish(s, p, rx * 0.6, ry * 0.6)


def _drink(s: _Table) -> None:
    p, c = s.pen, s.dish.colour
    kinds = s.dish.kinds
    shape = s.dice.choice(("tumbler", "tall", "stem"))
    p.box(-30, 66, 130, 130, dark(s.top, 0.14))
    p.box(-30, 66, 130, 67, light(s.top, 0.2))
    shade = dark(s.top, 0.34)
    if shape == "stem":
        p.disc(51, 86, 17, 4, shade)
        p.line([(50, 60), (50, 84)], 2.2, light(GLASS, 0.2))
        p.disc(50, 85, 13, 3.4, dark(GLASS, 0.08))
        p.half(50, 26, 24, 37, GLASS)
        p.half(50, 31, 21.5, 30, c)
        p.half(57, 31, 14, 28, dark(c, 0.1))
        p.disc(50, 31, 21.5, 4.6, light(c, 0.35))
        top, rx = 26.0, 24.0
    else:
        w, low, high = (19.0, 84.0, 30.0) if shape == "tumbler" else (14.0, 88.0, 14.0)
        p.disc(51, low + 1, w * 1.15, 4, shade)
        p.poly([(50 - w, high), (50 + w, high), (50 + w * 0.8, low), (50 - w * 0.8, low)], GLASS)
        fill = high + 8
        p.poly(
            [(50 - w + 1.8, fill), (50 + w - 1.8, fill), (50 + w * 0.8 - 1.4, low - 3), (50 - w * 0.8 + 1.4, low - 3)],
            c,
        )
        p.poly(
            [(50 + w * 0.4, fill), (50 + w - 1.8, fill), (50 + w * 0.8 - 1.4, low - 3), (50 + w * 0.3, low - 3)],
            dark(c, 0.12),
        )
        p.disc(50, fill, w - 1.8, 3.4, light(c, 0.4))
        p.line([(50 - w * 0.72, high + 14), (50 - w * 0.62, low - 12)], 1.6, WHITE)
        top, rx = high, w
    if "ice" in kinds or s.dice.random() < 0.3:
        for x, y in ((-6, 10), (5, 13), (-2, 20)):
            p.at(50 + x, top + y, 1, s.jitter(25)).box(-4, -4, 4, 4, light(c, 0.6), 1.4)
    fruit = [
        kind
        for kind in kinds
        if kind
        in (
            "lemon",
            "lime",
            "orange",
            "strawberry",
            "cherry",
            "pineapple",
            "banana",
            "raspberry",
            "blueberry",
            "watermelon",
            "apple",
            "peach",
            "cucumber",
        )
    ]
    if fruit:
        drawing, colour, _ = s.piece(fruit[0])
        drawing(p.at(50 + rx * 0.86, top + 2, 8, s.jitter(20)), colour)
        for i, kind in enumerate(fruit[:3]):
            drawing, colour, _ = s.piece(kind)
            drawing(p.at(20 + i * 9, 84 + s.jitter(3), 6, s.jitter(30)), colour)
    if "herbs" in kinds:
        d.herb(p.at(50 - rx * 0.4, top - 3, 7, s.jitter(20)), GREEN)
    if {"yoghurt", "ice cream", "cream"} & set(kinds) and s.dice.random() < 0.8:
        _dollop(p.at(50, top + 3, rx * 0.72), rgb("fffaf0"))
    if s.dice.random() < 0.5:
        p.line([(52, top + 26), (60, top - 10), (67, top - 14)], 2.2, s.cloth)


def _mug(s: _Table) -> None:
    c = s.dish.colour
    x, y = 48.0, 50.0
    _shadow(s, x, y + 4, 36, 30)
    s.pen.disc(x, y + 3, 37, 30, dark(s.china, 0.2))
    s.pen.disc(x, y + 2, 36, 29, s.china)
    s.pen.disc(x, y + 3, 26, 20, dark(s.china, 0.14))
    s.pen.arc(x + 26, y - 2, 9, 6, -100, 110, 4, dark(s.china, 0.16))
    p = _bowl_at(s, x, y - 1, 25, 21, c)
    if s.dice.random() < 0.5:
        foam = light(c, 0.5)
        p.disc(0, 0, 19, 15, foam)
        p.disc(2, 1, 12, 9, light(c, 0.7))
        p.arc(0, 0, 14, 11, 200, 340, 1.6, c)
    else:
        p.arc(-3, -2, 13, 9, 170, 290, 1.6, light(c, 0.4))
    for i, kind in enumerate(
        k for k in s.dish.kinds if k in ("lemon", "herbs", "orange", "lime", "chocolate", "apple")
    ):
        drawing, colour, size = s.piece(kind)
        drawing(p.at(-6 + i * 8, 5 - i * 4, size * 1.2, s.jitter(60)), colour)
    _spoon(s.pen.at(84, 50, 0.8, 20), STEEL)


def _jar(s: _Table) -> None:
    p, c = s.pen, s.dish.colour
    p.box(-30, 68, 130, 130, dark(s.top, 0.14))
    p.box(-30, 68, 130, 69, light(s.top, 0.2))
    p.disc(51, 88, 27, 4.4, dark(s.top, 0.36))
    p.box(25, 27, 75, 89, GLASS, 10)
    p.box(28, 36, 72, 86, c, 8)
    p.box(58, 36, 72, 86, dark(c, 0.12), 8)
    pieces = [(drawing, blend(colour, c, 0.2), size * 1.15) for drawing, colour, size in s.pieces(4)]
    _strew(s, p.at(50, 61), pieces, 18, 21, 22)
    p.box(27, 12, 73, 27, s.cloth, 3)
    for x in range(31, 72, 5):
        p.line([(x, 15), (x, 25)], 0.9, dark(s.cloth, 0.2))
    p.line([(31, 42), (31, 74)], 1.8, WHITE)
    for i, kind in enumerate(s.dish.kinds[:2]):
        drawing, colour, size = s.piece(kind)
        drawing(p.at(13 + i * 74, 86, size * 1.4, s.jitter(25)), colour)


def _pie(s: _Table) -> None:
    c, crust = s.dish.colour, rgb("dca654")
    _shadow(s, 50, 52, 41, 36)
    tin = s.dice.choice((rgb("8fb3c4"), STEEL, s.cloth, rgb("f4ead8")))
    s.pen.disc(50, 53, 41, 36, dark(tin, 0.2))
    s.pen.disc(50, 51, 41, 35.5, tin)
    for i in range(30):
        t = i * math.tau / 30
        s.pen.disc(50 + 37.5 * math.cos(t), 50.5 + 32 * math.sin(t), 4.4, 3.8, crust if i % 2 else dark(crust, 0.12))
    p = s.pen.at(50, 50.5)
    p.disc(0, 0.5, 35, 29.5, dark(crust, 0.25))
    p.disc(0, 1, 33.5, 28, c)
    _surface(s, p, 30, 25, c)
    style = s.dice.choice(("open", "lattice", "closed")) if "quiche" not in s.dish.form else "open"
    if style == "closed":
        p.disc(0, 0, 34, 28.5, crust)
        p.disc(-6, -6, 20, 15, light(crust, 0.2))
        for angle in range(0, 360, 72):
            q = p.at(0, 0, 1, angle)
            q.line([(9, 0), (18, 0)], 2.4, dark(c, 0.1))
        _strew(s, p, s.pieces(2), 9, 7, 5)
        # A slice is cut out, so that the filling shows.
        t0 = s.dice.uniform(0, math.tau)
        fan = [(0.0, 0.0), *((33 * math.cos(t0 + i * 0.16), 27.5 * math.sin(t0 + i * 0.16)) for i in range(7))]
        p.poly(fan, dark(c, 0.18))
        t = t0 + 0.48
        _strew(s, p.at(19 * math.cos(t), 16 * math.sin(t)), s.pieces(4), 8, 7, 9)
        return
    _strew(s, p, s.pieces(5), 28, 23, 44 if style == "open" else 34)
    if style == "lattice":
        for i in range(-2, 3):
            half = math.sqrt(max(0.0, 1 - (i * 12 / 34) ** 2))
            for angle in (45, -45):
                q = p.at(0, 0, 1, angle)
                reach = 31 * half * (0.93 if i else 0.95)
                q.line([(-reach, i * 11.4), (reach, i * 11.4)], 4.6, dark(crust, 0.14))
                q.line([(-reach, i * 11.4 - 0.5), (reach, i * 11.4 - 0.5)], 3.2, light(crust, 0.1))
    _garnish(s, p, 20, 16)


def _cake(s: _Table) -> None:
    """A round cake on a stand, one slice gone so that its inside shows."""
    p, crumb = s.pen, s.dish.colour
    frosted = s.dice.random() < 0.55
    coat = s.dice.choice((rgb("fff6e6"), rgb("f9dfe3"), light(crumb, 0.45), dark(crumb, 0.3), rgb("fff6e6")))
    coat = coat if frosted else dark(crumb, 0.14)
    _shadow(s, 50, 74, 40, 16)
    p.disc(50, 76, 40, 15, dark(s.china, 0.2))
    p.disc(50, 74, 40, 15, s.china)
    rx, ry, top, low = 31.0, 12.5, 42.0, 71.0
    p.disc(50, low, rx, ry, dark(coat, 0.22))
    p.box(50 - rx, top, 50 + rx, low, dark(coat, 0.1))
    p.box(50 + rx * 0.5, top, 50 + rx, low, dark(coat, 0.2))
    for i in range(3):  # soft shade from the right
        p.box(50 - rx, top, 50 - rx + 6 - i * 2, low, light(coat, 0.08 * (i + 1)))
    p.disc(50, top, rx, ry, coat)
    p.disc(47, top - 1, rx * 0.8, ry * 0.76, light(coat, 0.2))
    # The cut: two faces from the centre to the rim.
    left, right = (50 - 15.0, top + 10.8), (50 + 15.0, top + 10.8)
    high = low - top
    filling = rgb("fff6e6") if s.dice.random() < 0.5 else blend(crumb, rgb("d0405e"), 0.6)
    for x, y, tone in ((*left, crumb), (*right, dark(crumb, 0.14))):
        p.poly([(50, top), (x, y), (x, y + high), (50, top + high)], tone)
        if frosted:
            for share in (0.33, 0.66):
                p.poly(
                    [
                        (50, top + high * share),
                        (x, y + high * share),
                        (x, y + high * share + 2.2),
                        (50, top + high * share + 2.2),
                    ],
                    filling,
                )
            p.poly([(50, top), (x, y), (x, y + 2.4), (50, top + 2.4)], coat)
    p.poly(
        [(50, top + high), left_low := (left[0], left[1] + high), (50, left[1] + high + 2.4), (right[0], left_low[1])],
        dark(s.china, 0.12),
    )
    bits = [(drawing, colour, size * 0.45) for drawing, colour, size in s.pieces(3)]
    for side in (-1, 1):
        for i in range(5):
            if bits:
                drawing, colour, size = bits[i % len(bits)]
                drawing(p.at(50 + side * (3 + i * 2.2), top + 8 + (i * 11) % 20, size, s.jitter(90)), colour)
    for i, (drawing, colour, size) in enumerate(bits * 4):
        t = math.pi + i * math.pi / max(1, len(bits) * 4 - 1)
        drawing(p.at(50 + 25 * math.cos(t), top + 9 * math.sin(t) + 1, size * 2, s.jitter(30)), colour)


def _muffins(s: _Table) -> None:
    c = s.dish.colour
    _plate_at(s, 50, 60, 42, 29)
    paper = s.cloth if s.dice.random() < 0.5 else None
    bits = [(drawing, colour, size * 0.55) for drawing, colour, size in s.pieces(3)]
    for x, y, k in ((36, 44, 14), (64, 46, 14), (26, 63, 15.5), (52, 64, 16), (76, 65, 15)):
        if s.dice.random() < 0.12:
            continue
        q = s.pen.at(x + s.jitter(1.5), y, k)
        if paper:
            q.poly([(-0.72, 0.1), (0.72, 0.1), (0.52, 0.8), (-0.52, 0.8)], dark(paper, 0.1))
            for u in (-0.42, -0.14, 0.14, 0.42):
                q.line([(u, 0.15), (u * 0.75, 0.75)], 0.06, light(paper, 0.25))
        else:
            q.disc(0, 0.3, 0.82, 0.5, dark(c, 0.35))
        q.disc(0, 0.05, 0.88, 0.52, dark(c, 0.22))
        q.disc(0, -0.08, 0.86, 0.56, c)
        q.disc(-0.2, -0.25, 0.4, 0.2, light(c, 0.3))
        _strew(s, s.pen.at(x, y - k * 0.1), bits, k * 0.6, k * 0.34, 6)


def _loaf(s: _Table) -> None:
    p, c = s.pen, s.dish.colour
    p.box(8, 32, 92, 82, dark(s.top, 0.35), 5)
    p.box(8, 29, 92, 79, WOOD, 5)
    for y in (38, 49, 60, 71):
        p.line([(10, y), (90, y + s.jitter(1))], 0.7, dark(WOOD, 0.14))
    crust, crumb = dark(c, 0.1), light(c, 0.5)
    q = p.at(50, 50, 1, s.jitter(5))
    q.box(-33, -16, 22, 20, dark(crust, 0.35), 13)
    q.box(-33, -19, 22, 16, crust, 13)
    q.box(-30, -17, 16, -2, light(crust, 0.18), 8)
    for x in (-24, -12, 0, 10):
        q.line([(x - 3, -15), (x + 3, 2)], 2.4, light(crust, 0.5))
    bits = [(drawing, colour, size * 0.5) for drawing, colour, size in s.pieces(3)]
    for x in (20, 33):
        r = q.at(x, 4 + (x - 20) * 0.2)
        r.box(-9, -19, 9, 17, dark(crust, 0.3), 8)
        r.box(-9.6, -19.6, 8.2, 16, crust, 8)
        r.box(-7.8, -17.6, 6.4, 14, crumb, 7)
        for _ in range(14):
            r.disc(s.dice.uniform(-6, 5), s.dice.uniform(-15, 11), 0.8, 0.6, dark(crumb, 0.16))
        _strew(s, r.at(-0.7, -2), bits, 5.4, 12, 7)
    _strew(s, q.at(-8, -8), [(drawing, colour, size * 0.8) for drawing, colour, size in bits], 18, 6, 6)


def _stack(s: _Table) -> None:
    c = s.dish.colour
    _cutlery(s)
    _plate_at(s, 50, 56, 42, 33)
    layers = s.dice.randint(3, 6)
    rx = s.dice.uniform(26, 32)
    for i in range(layers):
        y = 62 - i * 4.6
        x = 50 + s.jitter(1.4)
        s.pen.disc(x, y + 3, rx, rx * 0.62, dark(c, 0.38))
        s.pen.disc(x, y + 1.4, rx, rx * 0.62, light(c, 0.35))
        s.pen.disc(x, y, rx, rx * 0.62, c)
    p = s.pen.at(50, 62 - (layers - 1) * 4.6)
    for _ in range(9):
        t, r = s.dice.uniform(0, math.tau), s.dice.uniform(0.1, 0.8)
        p.disc(
            rx * r * math.cos(t),
            rx * 0.56 * r * math.sin(t),
            s.dice.uniform(1.5, 4),
            s.dice.uniform(1, 2.4),
            dark(c, 0.16),
        )
    _strew(s, p, s.pieces(4), rx * 0.6, rx * 0.34, 12)
    _garnish(s, p, rx * 0.5, rx * 0.3, 6)


def _cookies(s: _Table) -> None:
    c = s.dish.colour
    _plate_at(s, 50, 51, 43, 37)
    bits = [(drawing, colour, size * 0.6) for drawing, colour, size in s.pieces(3)]
    size = s.dice.uniform(10, 12.5)
    for x, y in ((34, 32), (58, 30), (76, 44), (24, 52), (48, 50), (70, 64), (36, 70), (54, 74)):
        if s.dice.random() < 0.1:
            continue
        q = s.pen.at(x + s.jitter(2), y + s.jitter(2))
        q.disc(0.6, 1.6, size, size * 0.9, dark(c, 0.42))
        q.disc(0, 0, size, size * 0.88, c)
        q.disc(-1, -1.4, size * 0.78, size * 0.64, light(c, 0.16))
        for _ in range(4):
            q.disc(s.jitter(size * 0.6), s.jitter(size * 0.5), 0.9, 0.7, dark(c, 0.2))
        _strew(s, q, bits, size * 0.62, size * 0.54, 7)


def _squares(s: _Table) -> None:
    c = s.dish.colour
    _plate_at(s, 50, 53, 43, 36)
    bits = [(drawing, colour, size * 0.55) for drawing, colour, size in s.pieces(3)]
    coat = s.dice.choice((light(c, 0.2), dark(c, 0.25), c))
    for x, y in ((35, 36), (60, 34), (26, 54), (50, 52), (74, 52), (40, 70), (64, 69)):
        if s.dice.random() < 0.1:
            continue
        q = s.pen.at(x + s.jitter(1.5), y + s.jitter(1.5), 1, s.jitter(8))
        q.box(-9.6, 0, 9.6, 9.5, dark(c, 0.32), 1.4)
        q.box(-9.6, 3.5, 9.6, 5.5, dark(c, 0.2))
        q.box(-9.6, -8, 9.6, 4, coat, 1.4)
        q.box(-8, -7, 4, -3, light(coat, 0.16), 1.4)
        _strew(s, q.at(0, -2), bits, 7, 4.4, 6)


def _bake(s: _Table) -> None:
    """A baking dish with a golden top, a helping taken out."""
    c = s.dish.colour
    top = blend(c, rgb("eab04c"), 0.5)
    dish = s.dice.choice((s.cloth, rgb("f4ead8"), rgb("b9534a"), rgb("4d6275")))
    p = s.pen.at(50, 51, 1, s.jitter(8))
    p.box(-42, -27, 42, 33, dark(s.top, 0.3), 9)
    for side in (-1, 1):
        p.box(side * 43 - 4, -8, side * 43 + 4, 8, dark(dish, 0.15), 3)
    p.box(-41, -29, 41, 30, dark(dish, 0.25), 8)
    p.box(-41, -30, 41, 28, dish, 8)
    p.box(-37.5, -26.5, 37.5, 24.5, dark(dish, 0.35), 6)
    p.box(-36.5, -25, 36.5, 24, top, 6)
    for _ in range(26):
        tone = s.dice.choice((dark(top, 0.22), light(top, 0.25), rgb("b9702f"), light(top, 0.4)))
        p.disc(s.jitter(33), s.jitter(21), s.dice.uniform(1.5, 5), s.dice.uniform(1, 3), tone)
    _strew(s, p, s.pieces(5), 31, 20, 34)
    x = s.dice.choice((-20, 20))
    p.box(x - 12, 2, x + 12, 20, dark(c, 0.25), 4)
    p.box(x - 12, 4, x + 12, 20, c, 4)
    _strew(s, p.at(x, 12), s.pieces(4), 9, 6, 8)
    _garnish(s, p, 24, 15)


def _pizza(s: _Table) -> None:
    p, crust = s.pen.at(50, 50, 1, s.dice.uniform(0, 360)), rgb("d9a050")
    _shadow(s, 50, 50, 43, 43)
    p.disc(0, 0, 43, 43, dark(WOOD, 0.12))
    p.disc(0, 0, 39, 39, dark(crust, 0.18))
    p.disc(0, 0, 38, 38, crust)
    p.disc(0, 0, 33, 33, rgb("c93c26") if "tomato" in s.dish.kinds or s.dice.random() < 0.7 else light(crust, 0.4))
    cheese = rgb("f7d37a")
    for x, y in _spots(s, 30, 30, 30):
        p.disc(
            x, y, s.dice.uniform(3.5, 6.5), s.dice.uniform(3, 5.5), blend(cheese, rgb("e8a648"), s.dice.random() * 0.5)
        )
    _strew(s, p, [piece for piece in s.pieces() if piece[1] != _PIECES["cheese"][1]], 27, 27, 34)
    _garnish(s, p, 22, 22)
    for angle in range(0, 180, 45):
        p.at(0, 0, 1, angle).line([(-39, 0), (39, 0)], 0.7, dark(crust, 0.4))


def _sandwich(s: _Table) -> None:
    """Two layered halves on a plate, seen from the side."""
    _plate_at(s, 50, 70, 44, 21)
    c = blend(s.dish.colour, rgb("d9a050"), 0.6)
    pieces = s.dish.kinds
    round_bun = s.dice.random() < 0.5
    p = s.pen.at(50, 62)
    p.box(-29, 3, 29, 13, dark(c, 0.18), 5)
    p.box(-29, 1, 29, 10, c, 4)
    y = 1.0
    for kind in pieces[:5][::-1]:
        colour = _PIECES[kind][1] or WHITE
        if kind in ("lettuce", "spinach", "cabbage", "herbs", "cucumber"):
            for i in range(9):
                p.disc(-28 + i * 7, y - 1.5, 5, 2.6, colour if i % 2 else light(colour, 0.3))
            y -= 3.6
        elif kind == "cheese":
            p.poly([(-31, y), (31, y), (31, y - 3), (-31, y - 3)], colour)
            p.poly([(-18, y), (-6, y), (-12, y + 5)], colour)
            y -= 3.0
        elif kind in _MAINS:
            p.box(-31, y - 7, 31, y, dark(colour, 0.18), 3.4)
            p.box(-31, y - 7.6, 31, y - 2, colour, 3)
            y -= 7.6
        else:
            for i in range(5):
                p.box(-28 + i * 12, y - 3.4, -18 + i * 12, y, colour if i % 2 else light(colour, 0.15), 1.6)
            y -= 3.6
    if not pieces:
        p.box(-31, y - 7, 31, y, s.dish.colour, 3)
        y -= 7
    if round_bun:
        p.half(0, y + 1, 31, 25, dark(c, 0.1), up=True)
        p.half(-3, y, 27, 21, light(c, 0.12), up=True)
        for _ in range(14):
            t = s.dice.uniform(0.2, math.pi - 0.2)
            r = s.dice.uniform(0.3, 0.85)
            p.disc(28 * r * math.cos(t), y - 3 - 19 * r * math.sin(t), 1.0, 0.6, CREAM)
    else:
        p.box(-30, y - 10, 30, y, dark(c, 0.12), 4)
        p.box(-30, y - 11, 30, y - 3, c, 4)
        p.line([(0, y - 13), (0, y - 24)], 1.2, WOOD)
        d.ball(p.at(0, y - 14, 3), GREEN)
    _strew(s, s.pen.at(82, 72), [s.piece(k) for k in pieces[-2:]], 7, 4, 5)


def _wraps(s: _Table) -> None:
    _plate_at(s, 50, 52, 43, 37)
    c = s.dish.colour
    count = s.dice.choice((2, 3, 4))
    pieces = [(drawing, colour, size * 0.6) for drawing, colour, size in s.pieces(5)]
    for i in range(count):
        q = s.pen.at(50 + s.jitter(2), 52 + (i - (count - 1) / 2) * 46 / (count + 1) * 1.1, 1, -14 + s.jitter(4))
        h = 22 / count + 3.5
        q.box(-29, -h + 2, 29, h + 2, dark(c, 0.3), h)
        q.box(-29, -h, 29, h, c, h)
        q.box(-25, -h * 0.75, 14, -h * 0.25, light(c, 0.3), h * 0.3)
        for _ in range(6):
            q.disc(s.jitter(20), s.jitter(h * 0.6), 2.2, 1.0, dark(c, 0.16))
        q.disc(28, 0, h * 0.55, h * 0.92, dark(c, 0.2))
        q.disc(28, 0, h * 0.42, h * 0.74, s.dish.colour if not pieces else dark(pieces[0][1], 0.2))
        _strew(s, q.at(28, 0), pieces, h * 0.34, h * 0.6, 6)
    _garnish(s, s.pen.at(50, 52), 22, 14)


def _toast(s: _Table) -> None:
    _plate_at(s, 50, 52, 43, 37)
    crust = rgb("b9793c")
    for x, y in ((32, 38), (66, 42), (42, 68)):
        q = s.pen.at(x, y, 1, s.jitter(25))
        q.box(-15, -10, 15, 13, dark(crust, 0.3), 6)
        q.box(-15, -12, 15, 11, crust, 6)
        q.box(-12.6, -9.8, 12.6, 8.8, light(crust, 0.4), 5)
        q.disc(0, -1, 10, 7.4, s.dish.colour)
        _strew(s, q.at(0, -1), [(a, b, c * 0.8) for a, b, c in s.pieces(5)], 9, 6, 12)
    _garnish(s, s.pen.at(50, 52), 20, 16)


def _dumplings(s: _Table) -> None:
    _plate_at(s, 50, 52, 43, 37)
    c = s.dish.colour
    for x, y in ((30, 36), (52, 32), (72, 42), (26, 56), (50, 52), (70, 62), (42, 71)):
        q = s.pen.at(x + s.jitter(2), y + s.jitter(1), 10.5, s.jitter(25))
        q.half(0, 0.62, 1.02, 1.2, dark(c, 0.3), up=True)
        q.half(0, 0.5, 1.0, 1.1, c, up=True)
        q.half(-0.1, 0.42, 0.7, 0.75, light(c, 0.35), up=True)
        for i in range(-3, 4):
            q.line([(i * 0.28, -0.5 + abs(i) * 0.13), (i * 0.2, -0.2 + abs(i) * 0.08)], 0.08, dark(c, 0.25))
    _garnish(s, s.pen.at(50, 52), 24, 18)
    _strew(s, s.pen.at(50, 54), [(a, b, k * 0.6) for a, b, k in s.pieces(3)], 28, 22, 10)


def _balls(s: _Table) -> None:
    c = s.dish.colour
    _plate_at(s, 50, 52, 43, 37)
    flat = s.dish.form == "patties"
    bits = [(drawing, blend(colour, c, 0.2), size * 0.45) for drawing, colour, size in s.pieces(3)]
    spots = (
        [(34, 36), (58, 34), (24, 54), (48, 54), (72, 50), (36, 70), (60, 70)]
        if not flat
        else [(36, 38), (64, 40), (30, 62), (60, 66)]
    )
    for x, y in spots:
        k = (15 if flat else 9.5) * s.dice.uniform(0.92, 1.08)
        q = s.pen.at(x + s.jitter(1.5), y + s.jitter(1.5))
        q.disc(0.8, 1.8, k, k * (0.72 if flat else 0.94), dark(c, 0.45))
        q.disc(0, 0, k, k * (0.68 if flat else 0.92), c)
        q.disc(-k * 0.2, -k * 0.2, k * 0.6, k * (0.3 if flat else 0.5), light(c, 0.18))
        for _ in range(5):
            q.disc(s.jitter(k * 0.6), s.jitter(k * 0.5), 0.9, 0.7, dark(c, 0.28))
        _strew(s, q, bits, k * 0.6, k * 0.44, 5)
    _garnish(s, s.pen.at(50, 52), 22, 16)


def _skewers(s: _Table) -> None:
    _plate_at(s, 50, 52, 44, 37)
    pieces = s.pieces(4) or [(_chunk, s.dish.colour, 4.0)]
    for i in range(3):
        q = s.pen.at(50, 36 + i * 15, 1, -16 + s.jitter(3))
        q.line([(-44, 0), (44, 0)], 1.2, WOOD)
        for j in range(7):
            drawing, colour, _ = pieces[(i + j) % len(pieces)]
            drawing(q.at(-28 + j * 9.2, 0, 6.2, s.jitter(25)), blend(colour, rgb("8a4b2d"), 0.18))
    _garnish(s, s.pen.at(50, 52), 24, 16)


def _cup(s: _Table) -> None:
    """A glass cup of pudding, mousse or ice cream."""
    p, c = s.pen, s.dish.colour
    p.box(-30, 72, 130, 130, dark(s.top, 0.14))
    p.box(-30, 72, 130, 73, light(s.top, 0.2))
    p.disc(51, 88, 22, 4.4, dark(s.top, 0.36))
    scoops = s.dice.random() < 0.5
    if scoops:
        tones = [c, light(c, 0.4), dark(c, 0.12)]
        for (x, y), tone in zip(((36, 44), (64, 44), (50, 32)), tones, strict=True):
            d.ball(p.at(x, y, 16), tone)
    p.poly([(20, 46), (80, 46), (62, 74), (38, 74)], GLASS)
    p.poly([(24, 48), (76, 48), (61, 71), (39, 71)], c)
    p.poly([(58, 48), (76, 48), (61, 71), (53, 71)], dark(c, 0.1))
    if not scoops:
        p.disc(50, 47, 27.5, 7, light(c, 0.25))
        _dollop(p.at(50, 41, 14), rgb("fffaf0") if s.dice.random() < 0.6 else light(c, 0.5))
    p.box(46, 74, 54, 84, dark(GLASS, 0.06))
    p.disc(50, 86, 17, 4, dark(GLASS, 0.1))
    p.line([(29, 51), (41, 69)], 1.6, WHITE)
    pieces = s.pieces(3)
    for i, (drawing, colour, size) in enumerate((pieces * 3)[:6]):
        drawing(
            p.at(31 + i * 7.6, 38 + (i % 2) * 6 - (7 if scoops and 1 < i < 4 else 0), size * 1.15, s.jitter(40)), colour
        )
    if s.dice.random() < 0.4:
        d.herb(p.at(56, 26, 7, s.jitter(20)), GREEN)


def _omelette(s: _Table) -> None:
    _cutlery(s)
    _plate_at(s, 50, 51, 42, 36)
    p, c = s.pen.at(50, 50, 1, s.jitter(30)), s.dish.colour
    if s.dice.random() < 0.5:
        p.half(0, -9, 31, 28, dark(c, 0.3))
        p.half(0, -11, 31, 27, c)
        p.half(-2, -10, 24, 18, light(c, 0.25))
        q = p.at(0, -10)
        _strew(s, q, s.pieces(5), 27, 2.4, 16)
        _strew(s, p.at(0, 2), s.pieces(4), 17, 7, 8)
    else:
        p.disc(0, 1.6, 29, 24, dark(c, 0.28))
        p.disc(0, 0, 29, 23.5, c)
        for x, y in _spots(s, 24, 25, 20):
            p.disc(x, y, s.dice.uniform(3, 6), s.dice.uniform(2, 4), light(c, s.dice.uniform(0.05, 0.4)))
        _strew(s, p, s.pieces(5), 23, 18, 26)
    _garnish(s, p, 18, 13)


def _swallow(s: _Table) -> None:
    """A smooth ball of dough beside a little bowl of soup or powder."""
    _plate_at(s, 50, 53, 43, 37)
    c = s.dish.colour
    for x, y, k in ((42, 54, 23.0), (72, 42, 11.0)):
        q = s.pen.at(x, y, k)
        q.disc(0.05, 0.14, 1, 0.86, dark(c, 0.3))
        q.disc(0, 0, 1, 0.86, c)
        q.disc(-0.2, -0.22, 0.6, 0.42, light(c, 0.4))
        q.arc(0.1, 0.2, 0.6, 0.4, 20, 120, 0.05, dark(c, 0.14))
    _strew(s, s.pen.at(68, 70), s.pieces(3), 9, 7, 9)


def _sticks(s: _Table) -> None:
    _plate_at(s, 50, 52, 43, 37)
    c = blend(s.dish.colour, rgb("edb848"), 0.3)
    thing = next((kind for kind in s.dish.kinds if kind in ("sweet potato", "plantain", "zucchini", "carrot")), None)
    c = blend(c, _PIECES[thing][1] or c, 0.6) if thing else c
    thin = s.dice.random() < 0.6
    for x, y in _spots(s, 34, 27, 20):
        q = s.pen.at(50 + x, 51 + y, 1, s.dice.uniform(0, 180))
        if thin:
            q.box(-12, -1.2, 12, 3.2, dark(c, 0.35), 1)
            q.box(-12, -2.2, 12, 2, blend(c, light(c), s.dice.random() * 0.6), 1)
        else:
            q.disc(0, 1.2, 8.5, 6, dark(c, 0.35))
            q.disc(0, 0, 8.5, 5.8, blend(c, light(c), s.dice.random() * 0.5))
    _strew(s, s.pen.at(50, 50), [p for p in s.pieces(5) if p[0] is not _chunk], 20, 14, 14)
    _garnish(s, s.pen.at(50, 50), 18, 13)


_DRAW: dict[str, Callable[[_Table], None]] = {
    "soup": _soup, "stew": _soup, "porridge": _porridge, "salad": _salad, "sauce": _sauce, "powder": _powder,
    "pasta": _pasta, "rice": _rice, "drink": _drink, "mug": _mug, "jar": _jar, "pie": _pie, "cake": _cake,
    "muffins": _muffins, "loaf": _loaf, "stack": _stack, "cookies": _cookies, "squares": _squares, "bake": _bake,
    "pizza": _pizza, "sandwich": _sandwich, "wraps": _wraps, "toast": _toast, "dumplings": _dumplings, "balls": _balls,
    "patties": _balls, "skewers": _skewers, "cup": _cup, "omelette": _omelette, "swallow": _swallow, "sticks": _sticks,
    "main": _main,
}  # fmt: skip


def _background(s: _Table) -> None:
    """Wood, cloth or stone around the dish."""
    p, top = s.pen, s.top
    style = s.dice.choice(("plain", "wood", "wood", "cloth", "stone"))
    if style == "wood":
        for i in range(-3, 14):
            tone = (top, dark(top, 0.05), light(top, 0.07))[s.dice.randrange(3)]
            p.box(-40, i * 11, 140, i * 11 + 11, tone)
            p.line([(-40, i * 11), (140, i * 11)], 0.5, dark(top, 0.2))
    elif style == "cloth":
        q = p.at(50 + s.jitter(20), 50 + s.jitter(20), 1, s.dice.uniform(-35, 35))
        q.box(-46, -34, 46, 34, s.cloth, 2)
        for i in range(-4, 5):
            if i % 2:
                q.box(i * 10 - 2.4, -34, i * 10 + 2.4, 34, light(s.cloth, 0.25))
                q.box(-46, i * 8 - 1.2, 46, i * 8 + 1.2, light(s.cloth, 0.25))
    elif style == "stone":
        for _ in range(70):
            p.disc(
                s.dice.uniform(-20, 120),
                s.dice.uniform(-20, 120),
                s.dice.uniform(0.4, 1.4),
                s.dice.uniform(0.4, 1.0),
                dark(top, s.dice.uniform(0.05, 0.2)),
            )


def draw_dish(recipe: SourceRecipe, size: int = 224) -> Image.Image:
    """Draws the finished dish of a recipe: a rendered picture, RGB, `size` pixels square.

    The same recipe gives the same picture. What is drawn by lot (table, crockery, arrangement, distance) hangs on a
    hash of the recipe's id; no text is ever drawn.
    """
    dish = read_dish(recipe)
    dice = random.Random(int.from_bytes(hashlib.sha256(f"{_DICE} {recipe.recipe_id}".encode()).digest()))
    top, china, cloth = dice.choice(_TABLES), dice.choice(_CHINA), dice.choice(_CLOTHS)
    edge = size * SUPERSAMPLING
    picture = Image.new("RGB", (edge, edge), top)
    zoom = dice.uniform(0.88, 1.14)
    k = edge / 100 * zoom
    x, y = edge / 2 + dice.uniform(-4, 4) * edge / 100, edge / 2 + dice.uniform(-4, 4) * edge / 100
    frame = Pen(ImageDraw.Draw(picture), (k, 0.0, 0.0, k, x - 50 * k, y - 50 * k))
    pen = frame.at(100, 0, 1, 0, True) if dice.random() < 0.5 else frame
    s = _Table(pen, dish, top, china, cloth, dice)
    _background(s)
    _DRAW[dish.form](s)
    return picture.reduce(SUPERSAMPLING)


# ------------------------------------------------------------------------------------------------------- picture files


def photo_name(recipe_id: str) -> str:
    """File name of a recipe's picture; a hash, so that it says nothing about the dish."""
    return hashlib.sha256(f"photo of {recipe_id}".encode()).hexdigest()[:20] + ".jpg"


def dish_version() -> str:
    """Eight hexadecimal digits that change when the pictures may change; part of the name of a picture folder."""
    sources = (Path(__file__), Path(d.__file__))
    return hashlib.sha256(b"\0".join(source.read_bytes() for source in sources)).hexdigest()[:8]


def render_dishes(
    recipes: Iterable[SourceRecipe],
    folder: str | Path,
    names: Collection[str] | None = None,
    *,
    size: int = 224,
    processes: int = 2,
    notice: str = "",
) -> int:
    """Writes the dish pictures that are not there yet, as JPEG files; each appears in one piece or not at all.

    Args:
        recipes: whole recipes.
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
        "Rendered pictures of dishes, no photographs: each was drawn by a program from the text of one recipe\n"
        f"(data/dishes.py, version {dish_version()}, {size} pixels).\n\n{notice}\n"
    )
    with atomic_file(folder / "README.txt") as partial:
        partial.write_text(readme, encoding="utf-8")
    wanted = None if names is None else set(names)
    present = {entry.name for entry in os.scandir(folder)}
    jobs = [
        (recipe, folder / name, size)
        for recipe in recipes
        if (name := photo_name(recipe.recipe_id)) not in present and (wanted is None or name in wanted)
    ]
    with tqdm(total=len(jobs), desc="drawing", unit="picture", disable=not jobs) as bar:
        if processes > 1 and len(jobs) > 400:
            with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
                for _ in pool.map(_render, jobs, chunksize=32):
                    bar.update()
        else:
            for job in jobs:
                _render(job)
                bar.update()
    return len(jobs)


def _render(job: tuple[SourceRecipe, Path, int]) -> None:
    recipe, path, size = job
    content = io.BytesIO()
    draw_dish(recipe, size).save(content, "JPEG", quality=JPEG_QUALITY)
    with atomic_file(path) as partial:
        partial.write_bytes(content.getvalue())
