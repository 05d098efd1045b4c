"""Words and their vectors for image–recipe retrieval: word2vec (Mikolov et al. 2013), its files, its corpus.

Row scheme of every word table here (Salvador et al. 2017, released data): row 0 pads and is zero, row 1 is `</i>`,
which ends a list of ingredients, the word on line j of the vocabulary (from 0) has row j + 2. `Vocabulary` is the only
place that knows it.
"""

import contextlib
import hashlib
import json
import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import gensim
import numpy as np
import torch
from gensim.models import Word2Vec
from tqdm import tqdm

from data.errors import InputError
from data.records import Recipe
from data.store import block_digests, build_once, digest_of, read_manifest, write_manifest
from data.text import ingredient_name

PAD_ROW, END_ROW, FIRST_ROW = 0, 1, 2
END = "</i>"

# ---- words of a text -------------------------------------------------------------------------------------------------

_PUNCTUATION = ',.;()?!&%:*"'
_TOKEN = re.compile(rf"[{re.escape(_PUNCTUATION)}]|[^\s{re.escape(_PUNCTUATION)}]+")
# "2 12 cups": a number, a blank, two digits that make a common fraction. Not "12 eggs", "10 15 minutes", "1 120 g".
_LOST_SLASH = re.compile(r"(?<![\w./,-])(\d{1,2}) (?:(1)([23468])|(2)(3)|(3)([48])|(5)([68])|(7)(8))(?![\w./%-])")


_FRACTION = re.compile(r"\d+\s*[/⁄]\s*\d+")  # an amount; a slash between words parts two names


@dataclass(frozen=True)
class WordRules:
    """How a recipe becomes words; the corpus of the word vectors and the encoded recipes must share it.

    `source`: ingredient names are the valid ones of `det_ingrs` (what the recipe states as detected), or are found in
    the `raw` lines by rule. `joining`: a name of several words becomes one in the text where its `words` stand (the
    longest first, hyphens or not), or by plain `substring` replacement, as the reference implementation does ("corn
    oil" in "popcorn oil" too). `fractions`: "2 12 cups", which has lost its slash, becomes "2 1/2 cups".
    """

    source: str = "det_ingrs"
    lower_case: bool = True
    joining: str = "words"
    fractions: bool = True

    def __post_init__(self) -> None:
        if self.source not in ("det_ingrs", "raw"):
            raise InputError(f"source={self.source}: is unknown; use det_ingrs or raw")
        if self.joining not in ("words", "substring"):
            raise InputError(f"joining={self.joining}: is unknown; use words or substring")


# Those of the reference implementation, under which the released vocab.bin was made.
REFERENCE_RULES = WordRules(lower_case=False, joining="substring", fractions=False)


def restore_fractions(text: str) -> str:
    """Give back the slash of a fraction that follows a number: "2 12 cups" is "2 1/2 cups", "12 eggs" stay 12."""

    def fraction(match: re.Match[str]) -> str:
        whole, *digits = (group for group in match.groups() if group)
        return f"{whole} {'/'.join(digits)}"

    return _LOST_SLASH.sub(fraction, text)


def cut(text: str) -> list[str]:
    """The words of a text: cut at white space, with , . ; ( ) ? ! & % : * " as words of their own."""
    return _TOKEN.findall(text)


def ingredient_elements(recipe: Recipe, rules: WordRules, valid_only: bool = True) -> list[str]:
    """The ingredients of a recipe as single words ("olive_oil"), in order, with repeats.

    From `det_ingrs` the names that are marked valid, or all; from `raw` one name for each line in which the rule finds
    one.
    """
    if rules.source == "raw":
        found = (ingredient_name(_FRACTION.sub(" ", line)) for line in recipe.ingredients)
        return ["_".join(words) for words in found if words]
    texts = (text for text, valid in zip(recipe.detected, recipe.valid, strict=True) if valid or not valid_only)
    names = ("_".join(text.split()) for text in texts)
    return [name.lower() if rules.lower_case else name for name in names if name]


class TextCutter:
    """Cuts the texts of one recipe into words, each of some ingredient names as one word."""

    def __init__(self, names: Iterable[str], rules: WordRules) -> None:
        self.rules = rules
        names = [name for name in dict.fromkeys(names) if "_" in name]
        if rules.joining == "substring":
            self.replacements = [(name.replace("_", " "), name) for name in names]
            return
        self.by_first: dict[str, list[tuple[list[str], str]]] = {}
        for name in sorted(names, key=lambda name: -name.count("_")):
            parts = [part for word in cut(name.replace("_", " ")) for part in word.split("-") if part]
            if len(parts) > 1:
                self.by_first.setdefault(parts[0], []).append((parts, name))
        for compounds in self.by_first.values():
            compounds.sort(key=lambda compound: -len(compound[0]))

    def __call__(self, text: str) -> list[str]:
        """Words of a text."""
        if self.rules.fractions:
            text = restore_fractions(text)
        if self.rules.lower_case:
            text = text.lower()
        if self.rules.joining == "substring":
            for name, joined in self.replacements:
                text = text.replace(name, joined)
            return cut(text)
        words = cut(text)
        return self._join(words) if self.by_first else words

    def _join(self, words: list[str]) -> list[str]:
        joined, i, n = [], 0, len(words)
        by_first = self.by_first
        while i < n:
            word = words[i]
            compounds = by_first.get(word.split("-", 1)[0] if "-" in word else word)
            for parts, name in compounds or ():
                end = _match(words, i, parts)
                if end:
                    joined.append(name)
                    i = end
                    break
            else:
                joined.append(word)
                i += 1
        return joined


def _match(words: list[str], start: int, parts: list[str]) -> int:
    """Where the words that spell `parts` end, hyphens passed over; 0 where they do not."""
    k = 0
    for i in range(start, len(words)):
        for part in words[i].split("-"):
            if part:
                if k == len(parts) or part != parts[k]:
                    return 0
                k += 1
        if k == len(parts):
            return i + 1
    return 0


# ---- the corpus ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Word2VecSettings:
    """Settings of the word vectors; those of the reference implementation, but for `lower_case` and `joining`.

    Skip-gram with hierarchical softmax and no negative samples, window 10, 10 passes. `min_count` 10 suits hundreds of
    thousands of recipes; hundreds of recipes want 2 or 3. `source`, `lower_case`, `joining`, `fractions`: `WordRules`.
    """

    vector_size: int = 300
    window: int = 10
    epochs: int = 10
    min_count: int = 10
    sample: float = 1e-3
    alpha: float = 0.025
    min_alpha: float = 1e-4
    source: str = "det_ingrs"
    lower_case: bool = True
    joining: str = "words"
    fractions: bool = True
    seed: int = 1234

    def __post_init__(self) -> None:
        if min(self.vector_size, self.window, self.epochs, self.min_count) < 1:
            raise InputError("word2vec: vector_size, window, epochs and min_count must be 1 or more")
        _ = self.rules

    @property
    def rules(self) -> WordRules:
        """The rules of the words."""
        return WordRules(self.source, self.lower_case, self.joining, self.fractions)


class Table(Protocol):
    """What is read of a prepared set of recipes."""

    @property
    def digest(self) -> str: ...

    def iter(self, rows: Any) -> Iterator[Recipe]: ...


@dataclass(frozen=True)
class Word2VecCorpus:
    """One list of words for each recipe of some rows of a table, made anew in each pass."""

    table: Table
    rows: np.ndarray
    rules: WordRules

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[list[str]]:
        for recipe in self.table.iter(self.rows):
            text = TextCutter(ingredient_elements(recipe, self.rules), self.rules)
            yield [word for instruction in recipe.instructions for word in text(instruction)]

    @property
    def digest(self) -> str:
        """Of table, rows and rules, without a pass over the texts."""
        return digest_of([self.table.digest, rows_digest(self.rows), asdict(self.rules)])


def rows_digest(rows: np.ndarray) -> str:
    """Sha256 (hexadecimal) of some row numbers."""
    return hashlib.sha256(np.asarray(rows, "<i8").tobytes()).hexdigest()


def word2vec_corpus(table: Table, rows: np.ndarray, settings: Word2VecSettings | None = None) -> Word2VecCorpus:
    """The instructions of some recipes (give the rows of the training split) as the text to learn word vectors from.

    One text for each recipe, in which each of its own ingredient names is one word ("olive_oil").
    """
    return Word2VecCorpus(table, np.asarray(rows, np.int64), (settings or Word2VecSettings()).rules)


# ---- the vocabulary --------------------------------------------------------------------------------------------------


class Vocabulary:
    """Words in file order with their unit vectors; see the top of this file for the rows."""

    def __init__(self, words: Sequence[str], vectors: np.ndarray, rules: WordRules | None = None) -> None:
        """`vectors` (N, D) of the N words, of any length; `rules` say how the words were cut.

        InputError where a word comes twice, is `</i>`, or a vector is not finite.
        """
        vectors = np.asarray(vectors, np.float32)
        if vectors.ndim != 2 or len(vectors) != len(words) or vectors.shape[1] < 1 or not len(words):
            raise InputError(f"vocabulary: {len(words)} words and vectors of shape {vectors.shape} do not match")
        if not np.isfinite(vectors).all():
            bad = words[int(np.flatnonzero(~np.isfinite(vectors).all(1))[0])]
            raise InputError(f"vocabulary: the vector of {bad!r} is not finite; make the vectors again")
        self.words = list(words)
        self.rules = rules or WordRules()
        self._row = {word: FIRST_ROW + line for line, word in enumerate(self.words)}
        if len(self._row) != len(self.words):
            twice = next(word for line, word in enumerate(self.words) if self._row[word] != FIRST_ROW + line)
            raise InputError(f"vocabulary: the word {twice!r} comes twice; make the vocabulary again")
        if END in self._row:
            raise InputError(f"vocabulary: has the word {END}, the mark that ends a list; remove it")
        norms = np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)
        self.vectors = (vectors / np.maximum(norms, 1e-12)).astype(np.float32)
        self.vectors.flags.writeable = False

    def __len__(self) -> int:
        """Number of words, the two special rows not counted."""
        return len(self.words)

    def __contains__(self, word: str) -> bool:
        return word in self._row

    @property
    def size(self) -> int:
        """Length of a vector."""
        return self.vectors.shape[1]

    def table(self) -> np.ndarray:
        """(N + 2, D) float32: zeros, the vector of `</i>`, the words' unit vectors.

        `</i>` has no learnt vector; it gets a random unit vector, the same one for each D.
        """
        table = np.zeros((FIRST_ROW + len(self), self.size), np.float32)
        end = np.random.default_rng(END_ROW).standard_normal(self.size)
        table[END_ROW] = end / np.linalg.norm(end)
        table[FIRST_ROW:] = self.vectors
        return table

    def row(self, word: str) -> int | None:
        """Row of a word, None where it is unknown."""
        return self._row.get(word)

    def rows(self, words: Iterable[str]) -> list[int]:
        """Rows of the known ones among some words, in order."""
        get = self._row.get
        return [row for word in words if (row := get(word)) is not None]

    # -- saving

    def state_dict(self) -> dict[str, Any]:
        """Plain lists and a tensor: a checkpoint with it opens under `weights_only=True`."""
        vectors = torch.from_numpy(self.vectors.copy())
        return {"words": list(self.words), "vectors": vectors, "rules": asdict(self.rules)}

    @classmethod
    def from_state_dict(cls, state: dict[str, Any]) -> "Vocabulary":
        """The vocabulary of a checkpoint, to the same bits. InputError where the state is not one of this class."""
        try:
            words, vectors = list(state["words"]), state["vectors"].numpy()
            rules = WordRules(**state["rules"])
            if vectors.dtype != np.float32 or vectors.ndim != 2 or len(vectors) != len(words):
                raise ValueError(f"{len(words)} words, vectors {vectors.dtype} {vectors.shape}")
            if not all(isinstance(word, str) for word in words):
                raise ValueError("a word is no text")
            vocabulary = cls(words, vectors, rules)
        except (KeyError, TypeError, ValueError, AttributeError, InputError) as error:
            raise InputError(f"vocabulary of the checkpoint: cannot be read ({error}); train again") from None
        if np.abs(vocabulary.vectors - vectors).max() > 1e-5:
            raise InputError("vocabulary of the checkpoint: its vectors are not of unit length; train again")
        vocabulary.vectors = vectors.copy()  # dividing once more by a length of nearly 1 would change last bits
        vocabulary.vectors.flags.writeable = False
        return vocabulary

    def digest(self) -> str:
        """Sha256 (hexadecimal) of words, rules and vectors."""
        content = hashlib.sha256(digest_of(asdict(self.rules)).encode())
        content.update(json.dumps(self.words).encode())
        content.update(np.ascontiguousarray(self.vectors, "<f4").data)
        return content.hexdigest()


# ---- fitting ---------------------------------------------------------------------------------------------------------


def fit(
    corpus: Iterable[Sequence[str]], settings: Word2VecSettings | None = None, folder: Path | None = None
) -> Vocabulary:
    """Learn word vectors from lists of words; the same bits each time, since one thread does the work.

    The corpus is read once and spooled to a temporary file (in `folder`, or where the system has such files), so it
    is never whole in memory. InputError where fewer than two words occur
    `min_count` times.
    """
    s = settings or Word2VecSettings()
    with (
        tempfile.TemporaryFile(dir=folder) as file,
        tqdm(desc="word2vec, all passes", unit=" texts", smoothing=0.1) as bar,
    ):
        spool = _Spool(file, bar)
        count = sum(map(spool.add, corpus))
        bar.total = bar.n + (1 + s.epochs) * count
        model: Any = Word2Vec(
            vector_size=s.vector_size, window=s.window, min_count=s.min_count, sg=1, hs=1, negative=0,
            sample=s.sample, alpha=s.alpha, min_alpha=s.min_alpha, seed=s.seed, workers=1,
        )  # fmt: skip
        if count:
            with contextlib.suppress(RuntimeError):  # gensim's word for an empty vocabulary
                model.build_vocab(spool)
        # Of one word gensim makes no tree; its worker thread would die and this one wait for ever.
        if len(model.wv) < 2:
            raise InputError(
                f"word2vec: {'one' if len(model.wv) else 'no'} word occurs {s.min_count} times in the {count} training "
                "recipes that have a text; give more recipes or lower text.min_count"
            )
        model.train(spool, total_examples=count, total_words=model.corpus_total_words, epochs=s.epochs)
    return Vocabulary(model.wv.index_to_key, model.wv.vectors, s.rules)


def fit_cached(
    cache: Path,
    corpus: Iterable[Sequence[str]],
    settings: Word2VecSettings | None = None,
) -> Vocabulary:
    """`fit`, kept under `cache/word2vec/` by the content of corpus and settings.

    A `Word2VecCorpus` states its own digest; any other corpus is read once for one, so it must not be a generator.
    """
    s = settings or Word2VecSettings()
    if isinstance(corpus, Word2VecCorpus):
        if corpus.rules != s.rules:
            raise InputError(f"word2vec: the corpus was cut by {corpus.rules} and not by {s.rules}; use the same ones")
        content = corpus.digest
    else:
        hashed = hashlib.sha256()
        for words in corpus:
            hashed.update(json.dumps(list(words)).encode() + b"\n")
        content = hashed.hexdigest()
    key = {"corpus": content, "settings": asdict(s), "gensim": gensim.__version__, "format": 1}

    def load(folder: Path) -> Vocabulary:
        manifest = read_manifest(folder)
        for file, digests in manifest["sha256"].items():
            if not (folder / file).is_file() or block_digests(folder / file) != digests or manifest["key"] != key:
                raise InputError(f"{folder / file}: is absent or damaged; delete the folder {folder}")
        vectors = torch.from_numpy(np.load(folder / "vectors.npy", allow_pickle=False))
        words = json.loads((folder / "words.json").read_bytes())
        return Vocabulary.from_state_dict({"words": words, "vectors": vectors, "rules": asdict(s.rules)})

    def write(folder: Path) -> None:
        fitted = fit(corpus, s, folder)
        np.save(folder / "vectors.npy", fitted.vectors, allow_pickle=False)
        (folder / "words.json").write_text(json.dumps(fitted.words))
        sums = {file: block_digests(folder / file) for file in ("vectors.npy", "words.json")}
        write_manifest(folder, {"key": key, "sha256": sums})

    return build_once(Path(cache) / "word2vec" / digest_of(key)[:16], load, write)


class _Spool:
    """Lists of words in a file, one a line; words hold no white space, so its separators cannot occur in them."""

    def __init__(self, file: Any, bar: tqdm) -> None:
        self.file, self.bar = file, bar

    def add(self, words: Sequence[str]) -> bool:
        """Write a list; False where it is empty."""
        words = [word for word in words if word != END]
        text = " ".join(words)
        if text.split() != words:
            bad = next(word for word in words if word.split() != [word])
            raise InputError(f"word2vec: {bad!r} is no word (empty or with white space); cut the text into words first")
        self.file.write(text.encode("utf-8", "surrogatepass") + b"\n" if words else b"")
        self.bar.update()
        return bool(words)

    def __iter__(self) -> Iterator[list[str]]:
        self.file.seek(0)
        for line in self.file:
            self.bar.update()
            yield line[:-1].decode("utf-8", "surrogatepass").split(" ")


# ---- word2vec binaries -----------------------------------------------------------------------------------------------

_LONGEST_WORD = 1000  # bytes; the tool that writes these files stops at 100


def read_word2vec_bin(path: Path, rules: WordRules = REFERENCE_RULES) -> Vocabulary:
    """Read a vocabulary in word2vec's binary form, such as the released vocab.bin (30,167 words, 300 numbers each).

    Words keep the order of the file: that on line j gets row j + 2. `rules` are how its words were cut; by default
    those of the reference implementation. InputError that names the file where it is absent, empty, truncated, packed
    or of another form; the header is compared with the size of the file before anything is allocated.
    """
    path = Path(path)
    try:
        with open(path, "rb") as file:
            return _read_bin(file, path, rules)
    except OSError as error:
        raise InputError(f"{path}: the vocabulary cannot be read ({error.strerror}); check the path") from None


def _read_bin(file: BinaryIO, path: Path, rules: WordRules) -> Vocabulary:
    header = file.readline(64)
    start, size = len(header), file.seek(0, 2)
    if not size:
        raise InputError(f"{path}: the vocabulary is empty; get the file again")
    if header.startswith(b"\x1f\x8b"):
        raise InputError(f"{path}: the vocabulary is packed; unpack it with gunzip")
    fields = re.fullmatch(rb"(\d{1,9}) (\d{1,6})\s*\n", header)
    if not fields:
        raise InputError(f"{path}: is no word2vec binary (its first line is not 'words size'); get the file again")
    count, length = int(fields[1]), int(fields[2])
    least = count * (4 * length + 2)
    if not count or not length or not least <= size - start <= count * (4 * length + 2 + _LONGEST_WORD):
        raise InputError(
            f"{path}: its header says {count} words of {length} numbers, its {size} bytes do not hold that; it is "
            "truncated or no word2vec binary: get the file again"
        )
    file.seek(start)
    data = file.read()
    words, vectors, at = [], np.empty((count, length), np.float32), 0
    for line in range(count):
        at += data[at : at + 1] == b"\n"  # the original tool ends each vector with one, gensim does not
        end = data.find(b" ", at, at + _LONGEST_WORD + 1)
        if end < 0 or end + 1 + 4 * length > len(data):
            raise InputError(f"{path}: breaks off or is damaged at word {line + 1} of {count}; get the file again")
        words.append(data[at:end].decode("utf-8", "backslashreplace"))
        at = end + 1 + 4 * length
        vectors[line] = np.frombuffer(data, "<f4", length, end + 1)
    if data[at:].strip(b"\n"):
        raise InputError(f"{path}: goes on after its {count} words; it is damaged: get the file again")
    try:
        return Vocabulary(words, vectors, rules)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
