"""Which recipes of a source are fit to be asked about, and the form of their texts.

Yagcioglu et al. 2018 (EMNLP), sections 2.1 and 2.2, and the data sheet of the release: other languages, unreadable
items and recipes of nothing but videos are left out, texts are normalised, recipes with fewer than 3 or more than 25
steps are left out, the narrative first step is dropped and explicit step numbers are stripped, in this order. Recipes
that nearly repeat another one go last; the release still has them. Nothing depends on the order of the recipes.
"""

import hashlib
import html
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from tqdm import tqdm

from data.build.fields import check_fields
from data.errors import InputError
from data.records import SourceRecipe

# What `clean` counts, in the order of the rules; a recipe is counted under the first rule that leaves it out.
READ = "recipes read"
NORMALISED = "texts changed: normalised"
EMPTY_STEP = "steps left out: neither text nor image"
VIDEO_ONLY = "recipes left out: only videos"
UNREADABLE = "recipes left out: unreadable"
LANGUAGE = "recipes left out: another language"
STEPS = "recipes left out: number of steps"
NARRATIVE = "steps left out: narrative first step"
NUMBERED = "texts changed: step number stripped"
REPEATED = "recipes left out: nearly the same as another recipe"
KEPT = "recipes kept"
RULES = (READ, NORMALISED, EMPTY_STEP, VIDEO_ONLY, UNREADABLE, LANGUAGE, STEPS, NARRATIVE, NUMBERED, REPEATED, KEPT)

SHINGLE = 3  # words
JUDGED = 20_000  # characters of a recipe that its language is judged by


@dataclass(frozen=True)
class CleaningSettings:
    """Which rules hold. InputError for a value that does not fit.

    language: ISO 639-1 code of the language wanted, as py3langid spells it; None takes all.
    min_language: a recipe stays if its whole text is of that language with at least this probability. Single steps
        are never judged: "1 cup sugar" comes out as anything.
    strip_non_ascii: as published. Off, because it turns "crème brûlée" into "crme brle", "350 °F" into "350 F" and a
        recipe in any other script into nothing.
    min_readable: a recipe stays if at least this fraction of its characters are letters or digits, white space aside,
        and at most one in a hundred are unprintable, private or the sign of a failed decoding.
    min_steps, max_steps: of a recipe as it was read, its narrative first step included (the paper: 3 and 25).
    first_step_is_narrative: the first step tells a story and is dropped; a property of the source.
    strip_step_numbers: "Step 3:", "3)" and "3." at the start of a title or body go.
    near_duplicates: of two recipes whose sets of three-word sequences have at least this Jaccard similarity one stays;
        None keeps both.
    """

    language: str | None = "en"
    min_language: float = 0.5
    strip_non_ascii: bool = False
    min_readable: float = 0.6
    min_steps: int = 3
    max_steps: int = 25
    first_step_is_narrative: bool = False
    strip_step_numbers: bool = True
    near_duplicates: float | None = 0.6

    def __post_init__(self) -> None:
        check_fields(self, "questions.cleaning")
        for name in ("min_language", "min_readable"):
            if not 0 <= getattr(self, name) <= 1:
                raise InputError(f"questions.cleaning.{name}={getattr(self, name)}: must be a number from 0 to 1")
        if not 1 <= self.min_steps <= self.max_steps:
            raise InputError(
                f"questions.cleaning.min_steps={self.min_steps}, max_steps={self.max_steps}: must be increasing from 1"
            )
        if self.near_duplicates is not None and not 0 < self.near_duplicates <= 1:
            raise InputError(
                f"questions.cleaning.near_duplicates={self.near_duplicates}: must be above 0 and at most 1, or null"
            )


def clean(
    recipes: Iterable[SourceRecipe], settings: CleaningSettings | None = None
) -> tuple[list[SourceRecipe], Counter[str]]:
    """The recipes that stay, in the order of their ids, and how often each of `RULES` applied.

    Image names are kept as they are. InputError for an id that comes twice or a language that nobody can tell.
    """
    settings = settings or CleaningSettings()
    counts: Counter[str] = Counter(dict.fromkeys(RULES, 0))
    speaks = _language_judge(settings.language) if settings.language else None
    seen: set[str] = set()
    kept: list[SourceRecipe] = []
    for recipe in tqdm(recipes, desc="clean", unit=" recipes", smoothing=0.1):
        if recipe.recipe_id in seen:
            raise InputError(f"recipe_id {recipe.recipe_id!r} occurs twice; give every recipe an id of its own")
        seen.add(recipe.recipe_id)
        counts[READ] += 1
        cleaned = _cleaned(recipe, settings, speaks, counts)
        if cleaned is not None:
            kept.append(cleaned)
    kept.sort(key=lambda recipe: recipe.recipe_id)
    if settings.near_duplicates is not None:
        gone = repeated(kept, settings.near_duplicates)
        counts[REPEATED] += len(gone)
        kept = [recipe for recipe in kept if recipe.recipe_id not in gone]
    counts[KEPT] = len(kept)
    return kept, counts


def _cleaned(
    recipe: SourceRecipe,
    settings: CleaningSettings,
    speaks: Callable[[str], float] | None,
    counts: Counter[str],
) -> SourceRecipe | None:
    """One recipe after every rule but that of near-duplicates; None where a rule leaves it out.

    Changes of texts and steps are counted for recipes that stay.
    """
    if _only_videos(recipe):
        counts[VIDEO_ONLY] += 1
        return None
    if unreadable(_whole_text(recipe), settings.min_readable):
        counts[UNREADABLE] += 1
        return None
    changes: Counter[str] = Counter()

    def normal(text: str) -> str:
        new = normalise(text, settings.strip_non_ascii)
        changes[NORMALISED] += new != text
        return new

    def unnumbered(text: str) -> str:
        new = strip_step_number(text) if settings.strip_step_numbers else text
        changes[NUMBERED] += new != text
        return new

    recipe = replace(
        recipe,
        title=normal(recipe.title),
        steps=tuple(replace(step, title=normal(step.title), body=normal(step.body)) for step in recipe.steps),
        ingredients=tuple(map(normal, recipe.ingredients)),
    )
    if speaks is not None and speaks(_whole_text(recipe)[:JUDGED]) < settings.min_language:
        counts[LANGUAGE] += 1
        return None
    numbered = tuple(replace(s, title=unnumbered(s.title), body=unnumbered(s.body)) for s in recipe.steps)
    steps = tuple(step for step in numbered if _has_words(f"{step.title} {step.body}") or step.images)
    changes[EMPTY_STEP] += len(numbered) - len(steps)
    if not settings.min_steps <= len(steps) <= settings.max_steps:
        counts[STEPS] += 1
        return None
    # Where the first step was empty it is gone already, and the second one is no narrative.
    if settings.first_step_is_narrative and steps[0] is numbered[0]:
        changes[NARRATIVE] += 1
        steps = steps[1:]
    counts.update(changes)
    return replace(recipe, steps=steps)


def _only_videos(recipe: SourceRecipe) -> bool:
    if not any(step.videos for step in recipe.steps):
        return False
    return not any(step.images or _has_words(step.body) for step in recipe.steps)


def _whole_text(recipe: SourceRecipe) -> str:
    texts = [recipe.title, *(text for step in recipe.steps for text in (step.title, step.body))]
    return "\n".join(text for text in texts if text)


def _has_words(text: str) -> bool:
    return re.search(r"\w", text) is not None


# ---- readable texts --------------------------------------------------------------------------------------------------


def unreadable(text: str, min_readable: float = 0.6) -> bool:
    """Whether a text is no text: no letters, too many other signs, or signs that no reader can see."""
    kinds: Counter[str] = Counter()
    for sign, count in Counter(text).items():
        if not sign.isspace():
            kinds["Cn" if sign == "\N{REPLACEMENT CHARACTER}" else unicodedata.category(sign)] += count
    letters = sum(count for kind, count in kinds.items() if kind[0] == "L")
    words = sum(count for kind, count in kinds.items() if kind[0] in "LMN")
    broken = sum(kinds[kind] for kind in ("Cc", "Cn", "Co", "Cs"))
    return not letters or words < min_readable * kinds.total() or broken > 0.01 * kinds.total()


# Signs that stand for a place or a power lose it in their plain form: 10³ is not 103, and ① may be a step number.
_KEPT_FORMS = ("<super>", "<sub>", "<circle>")
_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[a-zA-Z]{2,8}\d{0,2});")
# Invisible signs; the two joiners (U+200C, U+200D) are part of words in Persian and Hindi, and stay.
_INVISIBLE = re.compile(r"[\u0000-\u0008\u000e-\u001b\u007f-\u0084\u0086-\u009f\u00ad\u200b\u200e\u200f\u2060\ufeff]")
_FRACTION = re.compile(r"(?<=\d) ?(?=[¼½¾⅐-⅞])")


def normalise(text: str, strip_non_ascii: bool = False) -> str:
    """A text with one spelling for what looks alike, on one line, without invisible signs. Idempotent.

    Compatibility forms of Unicode (NFKC) become plain: ligatures, full-width letters, hard spaces, "℃". Raised,
    lowered and circled signs stay. A fraction is written out with a space before it, "3½" to "3 1/2", which plain
    NFKC would make "31⁄2". Character references of HTML become their character. Accents stay unless
    `strip_non_ascii`.
    """
    if "&" in text:
        text = _ENTITY.sub(lambda match: html.unescape(match.group()), text)
    if not text.isascii():
        text = _FRACTION.sub(" ", unicodedata.normalize("NFC", text))
        text = unicodedata.normalize("NFC", "".join(map(_plain, text))).replace("\N{FRACTION SLASH}", "/")
    if strip_non_ascii:
        text = text.encode("ascii", "ignore").decode()
    return " ".join(_INVISIBLE.sub("", text).split())


@lru_cache(4096)
def _plain(sign: str) -> str:
    form = unicodedata.decomposition(sign).partition(" ")[0]
    if not form.startswith("<") or form in _KEPT_FORMS:
        return sign
    return unicodedata.normalize("NFKC", sign)


# ---- step numbers ----------------------------------------------------------------------------------------------------

_NUMBER = r"(?:\d{1,2}|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve)"
_STEP = re.compile(
    rf"\s*(?i:steps?\s*(?:no\.?|\#)?\s*{_NUMBER}(?:\s*(?:of|to|and|[/&\-–])\s*{_NUMBER})?)"
    r"(?:\s*(?:[:.)\]\-–—]*[:)\]]|[.\-–—]+(?!\d))\s*|\s*$|\s+(?=[^\W\d_a-z]))"
    r"|\s*(?:第\s*[\d一二三四五六七八九十]{1,3}\s*步骤?|步[骤驟]\s*[\d一二三四五六七八九十]{1,3})\s*[:：、.)）,，]?\s*"
)
_BARE = re.compile(
    r"\s*(?:"
    r"\#?\s*(\d{1,2})\s*(?:[.)\]]|\.\))(?:\s*(?=[^\W\d_])|\s+(?=\S)|\s*$)|"  # 3. 3) 3.Mix, never 2.5
    r"[(\[]\s*(\d{1,2})\s*[)\]][:.]?\s*(?=[^\W\d_a-z])|"  # (3) Mix, never (2) cans
    r"(\d{1,2})\s*[:、]\s*(?=[^\W\d_])|"  # 3: Mix, never 3:1
    r"[①-⑳]\s*)"
)


def strip_step_number(text: str) -> str:
    """The text without an explicit step number at its start; a quantity is no step number.

    Gone are "Step 3:", "STEP 3 - ", "Step 3" alone or before a capital, "Step three:", "Steps 1-3:", "3)", "3.",
    "3: Mix", "(3) Mix", "①", "第3步", and a number behind the word ("Step 3: 3) Mix"). Numbers have at most two
    digits. "3 eggs", "2.5 cups", "1/2 cup", "2-3 minutes", "3:1", "(2) cans" and "350." stay, and so does a list
    inside a step, "1. Wash. 2. Cut."
    """
    match = _STEP.match(text)
    text = text[match.end() :] if match else text
    match = _BARE.match(text)
    return text[match.end() :] if match and not _begins_a_list(text, match) else text


def _begins_a_list(text: str, match: re.Match[str]) -> bool:
    """Whether the number that follows the matched one stands further on, with the same sign behind it."""
    number = next((int(group) for group in match.groups() if group), None)
    if number is None:
        return False
    sign = re.escape(match.group().rstrip()[-1])
    return re.search(rf"(?<!\d)(?<!\d[.,/]){number + 1}\s*{sign}(?!\d)", text[match.end() :]) is not None


# ---- language --------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _identifier() -> Any:
    try:
        from py3langid.langid import MODEL_FILE, LanguageIdentifier
    except ImportError:
        raise InputError(
            "questions.cleaning.language: needs the package py3langid (pip install py3langid); or set it to null to "
            "keep recipes of every language"
        ) from None
    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


def _language_judge(language: str) -> Callable[[str], float]:
    """A function from a text to the probability that it is of a language.

    py3langid, the kept-up heir of langid.py, which the authors used. InputError for a language it does not know.
    """
    identifier = _identifier()
    known = sorted(map(str, identifier.labels))
    if language not in known:
        raise InputError(f"questions.cleaning.language={language}: is unknown; use null or one of {', '.join(known)}")
    return lambda text: float(dict(identifier.rank(text))[language])


# ---- near-duplicates -------------------------------------------------------------------------------------------------

# A sign of Chinese or Japanese is a word here: nothing stands between their words.
_WORDS = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]|[^\W\d_\u3040-\u30ff\u3400-\u9fff]+")
_MIX = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9], np.uint64)


def repeated(recipes: Sequence[SourceRecipe], threshold: float) -> set[str]:
    """Ids of the recipes that go because a near-duplicate stays, whatever the order of the recipes.

    Recipes are taken in the order of a hash of their id; one that nearly repeats an earlier one that stayed goes.
    """
    order = sorted(recipes, key=lambda recipe: _digest(recipe.recipe_id))
    earlier: defaultdict[int, list[int]] = defaultdict(list)
    texts = [" ".join(f"{step.title} {step.body}" for step in recipe.steps) for recipe in order]
    for a, b, _ in near_duplicates(texts, threshold):
        earlier[b].append(a)
    gone: set[int] = set()
    for place in sorted(earlier):
        if not gone.issuperset(earlier[place]):
            gone.add(place)
    return {order[place].recipe_id for place in gone}


def near_duplicates(texts: Sequence[str], threshold: float) -> list[tuple[int, int, float]]:
    """All pairs (i, j, similarity) of texts, i < j, that share at least this much of their three-word sequences.

    Jaccard similarity of the sets of sequences, case, signs and numbers aside; exact (sequences are compared by 64
    bits). Texts without words are like none. Only pairs that share one of their rarest sequences are compared: of two
    sets of similarity t at least one common member is among the first n - ceil(t n) + 1 of each, the rarest first
    (Bayardo, Ma and Srikant 2007, WWW, section 3).
    """
    word_digests: dict[str, int] = {}
    sets = [_shingles(text, word_digests) for text in texts]
    groups: defaultdict[bytes, list[int]] = defaultdict(list)  # equal sets are compared once, with the others
    for row, shingles in enumerate(sets):
        if len(shingles):
            groups[shingles.tobytes()].append(row)
    firsts = [rows[0] for rows in groups.values()]
    members = {rows[0]: rows for rows in groups.values()}

    pairs = [(a, b, 1.0) for rows in groups.values() for k, a in enumerate(rows) for b in rows[k + 1 :]]
    for a, b in _candidates([sets[row] for row in firsts], threshold):
        a, b = firsts[int(a)], firsts[int(b)]
        common = len(np.intersect1d(sets[a], sets[b], assume_unique=True))
        similarity = common / (len(sets[a]) + len(sets[b]) - common)
        if similarity >= threshold:
            pairs += [(min(x, y), max(x, y), similarity) for x in members[a] for y in members[b]]
    return sorted(pairs)


def _shingles(text: str, word_digests: dict[str, int]) -> np.ndarray:
    """(n,) uint64 sorted hashes of the three-word sequences of a text; the words themselves where it has fewer."""
    words = [match.group() for match in _WORDS.finditer(text.lower())]
    for word in words:
        if word not in word_digests:
            word_digests[word] = int.from_bytes(
                hashlib.blake2b(word.encode("utf-8", "replace"), digest_size=8).digest()
            )
    digests = np.array([word_digests[word] for word in words], np.uint64)
    if len(digests) < SHINGLE:
        return np.unique(digests)
    with np.errstate(over="ignore"):
        windows = np.lib.stride_tricks.sliding_window_view(digests, SHINGLE)
        return np.unique((windows * _MIX).sum(axis=1, dtype=np.uint64))


def _candidates(sets: Sequence[np.ndarray], threshold: float) -> np.ndarray:
    """(P, 2) pairs of rows, the smaller first, whose rarest members meet and whose sizes allow the similarity."""
    if len(sets) < 2:
        return np.empty((0, 2), np.int64)
    sizes = np.array([len(members) for members in sets])
    everything = np.concatenate(sets)
    values, which, counts = np.unique(everything, return_inverse=True, return_counts=True)
    rank = np.empty(len(values), np.int64)
    rank[np.lexsort((values, counts))] = np.arange(len(values))
    ranks = rank[which]
    prefixes, owners = [], []
    start = 0
    for row, size in enumerate(sizes):
        own = np.sort(ranks[start : start + size])
        start += size
        # The slack keeps a rounding error of the product from cutting the prefix short.
        prefixes.append(own[: size - int(np.ceil(threshold * size - 1e-9)) + 1])
        owners.append(np.full(len(prefixes[-1]), row))
    tokens, rows = np.concatenate(prefixes), np.concatenate(owners)
    order = np.lexsort((rows, tokens))
    tokens, rows = tokens[order], rows[order]
    found = [np.empty(0, np.int64)]
    here, distance = np.arange(len(tokens)), 1  # places whose member the place `distance` further has, too
    while len(here):
        here = here[here + distance < len(tokens)]
        here = here[tokens[here] == tokens[here + distance]]
        a, b = rows[here], rows[here + distance]
        fits = np.minimum(sizes[a], sizes[b]) >= threshold * np.maximum(sizes[a], sizes[b]) - 1e-9
        found.append(np.unique(a[fits] * len(sizes) + b[fits]))
        distance += 1
    codes = np.unique(np.concatenate(found))
    return np.stack([codes // len(sizes), codes % len(sizes)], axis=1)


def _digest(recipe_id: str) -> bytes:
    return hashlib.sha256(b"near-duplicate\x1f" + recipe_id.encode()).digest()
