"""What a question shows, as numbers: how well each of its texts fits each step, how each choice is written.

`Evidence` counts words in the training recipes and in nothing else: document frequencies, the scale of every number
and the words of the choices come from the training split, and a question is encoded from itself alone. So scoring one
question gives what scoring it among all gives, and no recipe that is scored lends a count to itself.
"""

import hashlib
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any, cast

import numpy as np
import torch
from scipy import sparse
from sklearn.feature_extraction.text import HashingVectorizer
from tqdm import tqdm

from data.encoders import StoredEncoder
from data.encoding import step_text
from data.errors import InputError
from data.records import PLACEHOLDER, Question
from data.text import split_case, tokenise

# A number for each title and step in each of these ways; `Evidence._channels` says which.
CHANNELS = ("words", "characters", "coverage", "opening", "distinctive")
ENCODER = "encoder"
# Of a choice against the titles that the question shows.
KINSHIP = ("words mean", "words max", "characters mean", "characters max")
_SUFFIXES = ("ingly", "edly", "ings", "ing", "ies", "ied", "ers", "er", "es", "ed", "ly", "s")
_CHARACTER_BUCKETS = 2**18
_BLOCK = 1000  # questions encoded together; tables of a whole large file would fill gigabytes


@dataclass(frozen=True)
class EvidenceSettings:
    """How texts are compared.

    Args:
        opening: words that count as the beginning of a step.
        min_choices: a word of the choices is known if so many training choices have it.
        shortest, longest: characters in an n-gram.
    """

    opening: int = 15
    min_choices: int = 2
    shortest: int = 3
    longest: int = 5

    def __post_init__(self) -> None:
        for key in ("opening", "min_choices", "shortest", "longest"):
            value = getattr(self, key)
            if not isinstance(value, int) or value < 1:
                raise InputError(f"data.evidence.{key}={value}: must be a whole number of at least 1")
        if self.shortest > self.longest:
            raise InputError(f"data.evidence.shortest={self.shortest}: exceeds data.evidence.longest={self.longest}")


@lru_cache(maxsize=1 << 16)
def stem(word: str) -> str:
    """A word without its ending: `baking`, `baked` and `bakes` become `bak`. Crude, but fitted on nothing."""
    for suffix in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= 3:
            word = word[: -len(suffix)] + ("y" if suffix in ("ies", "ied") else "")
            break
    if len(word) > 3 and word[-1] == "e":
        word = word[:-1]
    if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "ls":
        word = word[:-1]
    return word


def stems(text: str) -> list[str]:
    """The stems of a text's words in order."""
    return [stem(word) for word in tokenise(text)]


class Evidence:
    """Compares a question's titles, or its pictures, with the recipe's steps; fitted on training questions.

    Without an encoder pictures cannot be compared, and the evidence on them is empty.

    Args:
        settings: how.
        idf: stem -> inverse document frequency, ln((1 + n) / (1 + df)) + 1, over the n distinct training steps.
        steps: n.
        characters: (buckets,) float32, the same of character n-grams, hashed.
        vocabulary: indicators of the choices (`_indicators`), in the order of their rows in a network from 1 on.
        encoder: of the user, whose cosines are one more kind of evidence (for pictures the only one), or None.
        channel_scale, style_scale: (C,), (S,) deviations of the training questions' numbers.
    """

    def __init__(
        self,
        settings: EvidenceSettings,
        idf: dict[str, float],
        steps: int,
        characters: np.ndarray,
        vocabulary: Sequence[str],
        encoder: StoredEncoder | None = None,
        channel_scale: np.ndarray | None = None,
        style_scale: np.ndarray | None = None,
    ) -> None:
        self.settings, self.idf, self.steps, self.characters = settings, idf, steps, characters
        self.unseen = math.log(1 + steps) + 1  # idf of a stem that no training step has
        self.vocabulary = list(vocabulary)
        self._rows = {indicator: row for row, indicator in enumerate(self.vocabulary, 1)}
        self._ngrams = _ngrams(settings)
        self.encoder = encoder
        self.channels = CHANNELS if encoder is None else (*CHANNELS, ENCODER)
        self.channel_scale = np.ones(len(self.channels), np.float32) if channel_scale is None else channel_scale
        self.style_scale = np.ones(STYLE_SIZE, np.float32) if style_scale is None else style_scale

    # -- fitting

    @classmethod
    def fit(
        cls,
        questions: Sequence[Question],
        settings: EvidenceSettings | None = None,
        tasks: Sequence[str] = ("textual_cloze",),
        encoder: StoredEncoder | None = None,
    ) -> "Evidence":
        """Fit on training questions.

        Those of all tasks lend their steps' texts, as any text of the split may; those of `tasks` scale the numbers.
        InputError where the questions hold no word.
        """
        s = settings or EvidenceSettings()
        bodies = list(dict.fromkeys(b for q in questions for step in q.context if (b := step.body.strip())))
        df: Counter[str] = Counter()
        for body in bodies:
            df.update(set(stems(body)))
        if not df:
            raise InputError(f"evidence: the {len(questions)} training questions hold no word; give other questions")
        idf = {w: math.log((1 + len(bodies)) / (1 + n)) + 1 for w, n in sorted(df.items())}
        grams = np.zeros(_CHARACTER_BUCKETS)
        for start in range(0, len(bodies), 4096):
            grams += np.bincount(_spelled(bodies[start : start + 4096], _ngrams(s)).indices, minlength=len(grams))
        characters = (np.log((1 + len(bodies)) / (1 + grams)) + 1).astype(np.float32)
        textual = [q for q in questions if q.task == "textual_cloze"]
        counts = Counter(i for q in textual for choice in q.choices for i in _indicators(choice[0], _slot(q)))
        vocabulary = sorted(i for i, n in counts.items() if n >= s.min_choices)
        fitted = cls(s, idf, len(bodies), characters, vocabulary, encoder)
        encoded = fitted.encode([q for q in questions if q.task in tasks], "evidence: scale")
        for c in range(len(fitted.channels)):
            values = np.concatenate([e[c].ravel() for e in encoded.evidence] or [np.zeros(0)])
            fitted.channel_scale[c] = _scale(values[:, None])[0] if len(values) else 1.0
        if textual and "textual_cloze" in tasks:
            written = [part for part, q in zip(encoded.style, encoded.tasks, strict=True) if q == "textual_cloze"]
            fitted.style_scale = _scale(np.concatenate(written))
        return fitted

    # -- encoding

    def encode(self, questions: Sequence[Question], description: str = "evidence") -> "EncodedEvidence":
        """Numbers of some questions, of any tasks."""
        shown = None if self.encoder is None else _cosines(questions, self.encoder)
        evidence, style, words, steps = [], [], [], []
        tables = self._tables(())
        for start, question in enumerate(tqdm(questions, desc=description, unit=" questions", leave=False)):
            if start % _BLOCK == 0:
                tables = self._tables([q for q in questions[start : start + _BLOCK] if q.task == "textual_cloze"])
            k = len(question.choices)
            steps.append(_document_positions(question))
            if question.task != "textual_cloze":
                channels = np.zeros((len(self.channels), 0, len(question.context)))
                if shown is not None:
                    channels = np.zeros((len(self.channels), *shown[start].shape))
                    channels[-1] = shown[start]
                evidence.append((channels / self.channel_scale[:, None, None]).astype(np.float32))
                style.append(np.zeros((k, STYLE_SIZE), np.float32))
                words.append([[] for _ in range(k)])
                continue
            channels, kinship = self._channels(question, tables)
            if shown is not None:
                channels = np.concatenate([channels, shown[start][None]])
            evidence.append((channels / self.channel_scale[:, None, None]).astype(np.float32))
            known = [t for t in question.question if t != PLACEHOLDER]
            written = [
                np.concatenate([style_of(choice[0], known), kin])
                for choice, kin in zip(question.choices, kinship, strict=True)
            ]
            style.append((np.stack(written) / self.style_scale).astype(np.float32))
            rows, slot = self._rows, _slot(question)
            words.append([[rows[i] for i in _indicators(c[0], slot) if i in rows] for c in question.choices])
        styles = np.stack(style) if style else np.zeros((0, 0, STYLE_SIZE), np.float32)
        return EncodedEvidence(evidence, styles, words, steps, [q.task for q in questions])

    def _channels(self, question: Question, tables: "_Tables") -> tuple[np.ndarray, np.ndarray]:
        """(C, 4 + K, T) of the question's four titles (the placeholder's are zeros), then the choices; (K, 4) kinship.

        words, characters: cosines of TF-IDF vectors with logarithmic counts.
        coverage: share of the title's idf whose stems the step has; opening: that the step's first words have.
        distinctive: coverage in which a stem counts the less, the more steps of this recipe have it.
        """
        titles = ["" if t == PLACEHOLDER else t for t in question.question] + [c[0] for c in question.choices]
        bodies = [step.body for step in question.context]
        title_stems, body_stems = [tables.stems[t] for t in titles], [tables.stems[b] for b in bodies]
        steps = len(bodies)
        of_titles, of_bodies = tables.rows(titles), tables.rows(bodies)
        words, characters = ((part[of_titles] @ part[of_bodies].T).toarray() for part in (tables.words, tables.grams))
        sets = [set(b) for b in body_stems]
        openings = [set(b[: self.settings.opening]) for b in body_stems]
        present = Counter(word for found in sets for word in found)
        rest = np.zeros((3, len(titles), steps))
        for i, title in enumerate(title_stems):
            weights = [self.idf.get(word, self.unseen) for word in title]
            total = sum(weights)
            if not total:
                continue
            rarity = [math.log((steps + 1) / max(present[word], 1)) / math.log(steps + 1) for word in title]
            for t in range(steps):
                for word, weight, rare in zip(title, weights, rarity, strict=True):
                    if word in sets[t]:
                        rest[0, i, t] += weight / total
                        rest[2, i, t] += weight * rare / total
                    if word in openings[t]:
                        rest[1, i, t] += weight / total
        known = [i for i, t in enumerate(question.question) if t != PLACEHOLDER]
        kin = [(part[of_titles[4:]] @ part[of_titles[known]].T).toarray() for part in (tables.words, tables.grams)]
        kinship = np.stack([f(part, axis=1) for part in kin for f in (np.mean, np.max)], axis=1)
        return np.stack([words, characters, *rest]), kinship

    def _tables(self, questions: Sequence[Question]) -> "_Tables":
        """Stems and TF-IDF rows of every text of some questions, each text once."""
        texts = {"": None}  # the placeholder reads as the empty text
        for q in questions:
            texts.update(dict.fromkeys([*(step.body for step in q.context), *q.question, *(c[0] for c in q.choices)]))
        read = {text: stems(text) for text in texts}
        words, column = _counts(list(read.values()))
        idf = np.asarray([self.idf.get(word, self.unseen) for word in column])
        grams = _spelled(list(texts), self._ngrams)
        return _Tables(read, _weighed(words, idf), _weighed(grams, self.characters))

    # -- what a checkpoint carries

    def state_dict(self) -> dict[str, Any]:
        """Plain containers and tensors."""
        return {
            "settings": asdict(self.settings),
            "stems": list(self.idf),
            "idf": torch.tensor(list(self.idf.values()), dtype=torch.float64),
            "steps": self.steps,
            "characters": torch.from_numpy(self.characters.copy()),
            "vocabulary": list(self.vocabulary),
            "channel_scale": torch.from_numpy(self.channel_scale.copy()),
            "style_scale": torch.from_numpy(self.style_scale.copy()),
        }

    @classmethod
    def from_state_dict(cls, state: dict[str, Any], encoder: StoredEncoder | None = None) -> "Evidence":
        """Inverse of `state_dict`; the encoder is handed over, for no checkpoint carries it."""
        idf = dict(zip(state["stems"], state["idf"].tolist(), strict=True))
        settings, scales = EvidenceSettings(**state["settings"]), (state["channel_scale"], state["style_scale"])
        arrays = [array.numpy() for array in (state["characters"], *scales)]
        return cls(settings, idf, state["steps"], arrays[0], state["vocabulary"], encoder, *arrays[1:])

    def digest(self) -> str:
        """Of everything fitted."""
        content = hashlib.sha256(repr([self.settings, self.idf, self.steps, self.vocabulary]).encode())
        for array in (self.characters, self.channel_scale, self.style_scale):
            content.update(np.ascontiguousarray(array).tobytes())
        return content.hexdigest()


class _Tables:
    """What is known of some texts: their stems, and rows of length 1 over stems and over hashed n-grams."""

    def __init__(self, stems: dict[str, list[str]], words: Any, grams: Any) -> None:
        self.stems, self.words, self.grams = stems, words, grams
        self._row = {text: row for row, text in enumerate(stems)}

    def rows(self, texts: Sequence[str]) -> np.ndarray:
        """Rows of some of the texts."""
        return np.asarray([self._row[text] for text in texts], np.int64)


@dataclass
class EncodedEvidence:
    """Numbers of N questions: evidence (C, E, T) of each, style (N, K, S), words [N][K][...], steps [N](T,)."""

    evidence: list[np.ndarray]
    style: np.ndarray
    words: list[list[list[int]]]
    steps: list[np.ndarray]
    tasks: list[str]

    def batch(self, indices: Sequence[int] | np.ndarray) -> dict[str, torch.Tensor]:
        """What a batch of questions of one task holds beside vectors.

        Returns:
            evidence: (B, C, E, T) float32, zeros beyond the last step. The elements are the question's four, then
                those of the choices, one choice after the other; none in visual tasks without an encoder.
            step: (B, T) int64 places of the steps in the document; -1 where a step is empty or there is none.
            step_mask: (B, T) bool, True at steps, empty ones too.
            style: (B, K, S) float32.
            indicators: (B, K, M) int64 rows of the network's table of indicators; 0 where there is none.
        """
        longest = max(len(self.steps[i]) for i in indices)
        channels, elements, _ = self.evidence[indices[0]].shape
        evidence = np.zeros((len(indices), channels, elements, longest), np.float32)
        step = np.full((len(indices), longest), -1, np.int64)
        mask = np.zeros((len(indices), longest), bool)
        choices = self.style.shape[1]
        most = max([1, *(len(row) for i in indices for row in self.words[i])])
        words = np.zeros((len(indices), choices, most), np.int64)
        for b, i in enumerate(indices):
            length = len(self.steps[i])
            evidence[b, :, :, :length] = self.evidence[i]
            step[b, :length], mask[b, :length] = self.steps[i], True
            for k, row in enumerate(self.words[i]):
                words[b, k, : len(row)] = row
        parts = {"evidence": evidence, "step": step, "step_mask": mask, "indicators": words}
        parts["style"] = self.style[np.asarray(indices)]
        return {key: torch.from_numpy(value) for key, value in parts.items()}


def _cosines(questions: Sequence[Question], encoder: StoredEncoder) -> list[np.ndarray]:
    """For each question (4 + K * E, T): the encoder's cosine of each element with each step's text."""
    elements = [_elements(q) for q in questions]
    steps = [[step_text(step) for step in q.context] for q in questions]
    texts = [t for part, q in zip(elements, questions, strict=True) if q.task == "textual_cloze" for t in part]
    read = dict.fromkeys([*texts, *(t for part in steps for t in part)])
    names = [n for part, q in zip(elements, questions, strict=True) if q.task != "textual_cloze" for n in part if n]
    said = dict(zip(read, encoder.texts(list(read)), strict=True))
    seen = dict(zip(dict.fromkeys(names), encoder.pictures(list(dict.fromkeys(names))), strict=True)) if names else {}
    nothing = np.zeros(encoder.size, np.float32)
    found = []
    for q, part, context in zip(questions, elements, steps, strict=True):
        vectors = said if q.task == "textual_cloze" else seen
        left = np.stack([vectors.get(element, nothing) if element else nothing for element in part])
        found.append(left @ np.stack([said[text] for text in context]).T)
    return found


def _elements(question: Question) -> list[str]:
    """The question's four elements ("" for the placeholder, and all in ordering), then those of the choices."""
    asked = ["" if e == PLACEHOLDER else e for e in question.question]
    if question.task == "visual_ordering":
        asked = [""] * 4
    return asked + [element for choice in question.choices for element in choice]


def _document_positions(question: Question) -> np.ndarray:
    """(T,) place of each step among those that say anything; -1 for an empty one."""
    spoken = np.asarray([bool(step_text(step)) for step in question.context])
    return np.where(spoken, np.cumsum(spoken) - 1, -1)


# -- how a choice is written


def _share(test: Callable[[str], bool]) -> Callable[[str], float]:
    return lambda text: _mean([float(test(word)) for word in text.split()])


_LOOKS: tuple[Callable[[str], float], ...] = (
    _share(lambda word: word[:1].isupper()),
    lambda text: float(text.isupper()),
    lambda text: float(text[:1].islower()),
    lambda text: float(text.rstrip().endswith("!")),
    lambda text: float(text.rstrip().endswith(".")),
    lambda text: float(":" in text),
    lambda text: float(bool(re.match(r"\s*(step|\d)", text.lower()))),
    lambda text: float("..." in text),
    lambda text: float(any(c.isdigit() for c in text)),
    lambda text: float(bool(text.split()) and text.split()[0].lower().endswith("ing")),
    lambda text: float("&" in text),
    lambda text: float(text.lower().startswith("the ")),
    lambda text: float(" the " in text.lower()),
    lambda text: float("," in text),
)
STYLE_SIZE = 6 + 2 * len(_LOOKS) + 2 + len(KINSHIP)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def style_of(choice: str, known: Sequence[str]) -> np.ndarray:
    """(STYLE_SIZE - 4,) how a choice is written, and how that differs from the titles which the question shows.

    Lengths in words and characters (logarithms; distances from the mean of the titles), case, punctuation, digits, an
    opening "the" or "-ing"; whether it is empty, or repeats a title that is shown.
    """
    lengths = math.log1p(len(choice.split())), math.log1p(len(choice))
    usual = math.log1p(_mean([len(t.split()) for t in known])), math.log1p(_mean([len(t) for t in known]))
    difference = lengths[0] - usual[0]
    found = [*lengths, abs(difference), abs(lengths[1] - usual[1]), difference, difference**2]
    for look in _LOOKS:
        away = look(choice) - _mean([look(t) for t in known])
        found += [away, abs(away)]
    said = choice.strip().lower()
    return np.asarray([*found, float(not said), float(said in [t.strip().lower() for t in known])])


def _slot(question: Question) -> str:
    """Whether the first, a middle or the last title is missing."""
    place = question.question.index(PLACEHOLDER)
    return "first" if place == 0 else "last" if place == len(question.question) - 1 else "middle"


def _indicators(choice: str, slot: str) -> Iterator[str]:
    """What is true of a choice by itself: its stems, also by the place of the missing title; its ends; its length."""
    found = stems(choice)
    for word in dict.fromkeys(found):
        yield word
        yield f"{word} {slot}"
    if found:
        yield f"{found[0]} …"
        yield f"… {found[-1]}"
    yield f"{min(len(found), 8)} words"
    yield f"{min(len(found), 8)} words {slot}"


def _ngrams(settings: EvidenceSettings) -> HashingVectorizer:
    return HashingVectorizer(
        analyzer="char_wb",
        ngram_range=(settings.shortest, settings.longest),
        n_features=_CHARACTER_BUCKETS,
        alternate_sign=False,
        norm=cast(str, None),  # the stubs do not know that it may be None
        lowercase=False,
    )


def _spelled(texts: Sequence[str], ngrams: HashingVectorizer) -> Any:
    """(n, buckets) counts of n-grams. They do not cross words, so each distinct word is spelled once."""
    # Bodies of the release have lost their line breaks: "Measuring cupBowl" is three words here as for Doc2Vec.
    pieces = [unicodedata.normalize("NFC", text).split() for text in texts]
    read = [[part.lower() for piece in text for part in split_case(piece)] for text in pieces]
    words, column = _counts(read)
    counts: Any = words @ ngrams.transform(list(column))
    counts.sum_duplicates()
    return counts


def _counts(texts: Sequence[Sequence[str]]) -> tuple[Any, dict[str, int]]:
    """Counts (n, V) of the words of some texts, and the column of each word; V is at least 1."""
    # In alphabetical order: sums over a text's words then run in one order, whatever other texts there are.
    column = {word: i for i, word in enumerate(sorted({word for text in texts for word in text} or {""}))}
    places = [column[word] for text in texts for word in text]
    ends = np.cumsum([0, *map(len, texts)])
    counts: Any = sparse.csr_matrix((np.ones(len(places)), places, ends), shape=(len(texts), len(column)))
    counts.sum_duplicates()
    return counts, column


def _weighed(counts: Any, idf: np.ndarray) -> Any:
    """TF-IDF rows with logarithmic counts, of length 1; an empty text stays zero."""
    counts.sort_indices()  # sums run in one order, so equal texts get equal numbers to the last bit
    counts.data = (1 + np.log(counts.data)) * idf[counts.indices]
    norm = np.sqrt(np.asarray(counts.multiply(counts).sum(axis=1)).ravel())
    counts.data /= np.repeat(np.where(norm > 0, norm, 1.0), np.diff(counts.indptr))
    return counts


def _scale(values: np.ndarray) -> np.ndarray:
    """Standard deviation of each column, 1 for a constant one."""
    deviation = values.std(axis=0)
    return np.where(deviation > 1e-6, deviation, 1.0).astype(np.float32)
