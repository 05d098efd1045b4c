"""Text as vectors: tokens, ingredient compounds, Doc2Vec (Le and Mikolov 2014; Yagcioglu et al. 2018, section 4)."""

import contextlib
import hashlib
import itertools
import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gensim
import numpy as np
import torch
from gensim.models import KeyedVectors
from gensim.models.doc2vec import Doc2Vec, TaggedDocument, train_document_dbow, train_document_dm
from rich.table import Table
from tqdm import tqdm

from data.errors import InputError
from data.store import block_digests, build_once, digest_of, read_manifest, write_manifest

# ---- tokens ----------------------------------------------------------------------------------------------------------

_WORD = re.compile(r"[^\W_]+")


def tokenise(text: str, split_case_joins: bool = True) -> list[str]:
    """Lower-case words of a text, cut at whatever is no letter or digit.

    The released bodies have lost their line breaks ("Measuring cupBowlBeef Stock"), so a word is also cut where a
    lower-case letter meets an upper-case one. Letters of every script are letters.
    """
    words = _WORD.findall(unicodedata.normalize("NFC", text))
    if split_case_joins:
        words = [part for word in words for part in split_case(word)]
    return [word.lower() for word in words]


def split_case(word: str) -> list[str]:
    """A word cut where a lower-case letter meets an upper-case one."""
    if word.islower() or word.isupper() or word.istitle():  # nearly all words; "Éa" is title case too
        return [word]
    cuts = [0, *(i for i in range(1, len(word)) if word[i - 1].islower() and word[i].isupper()), len(word)]
    return [word[a:b] for a, b in itertools.pairwise(cuts)]


class IngredientJoiner:
    """Joins the words of a known ingredient: "olive oil" becomes `olive_oil` (Yagcioglu et al. 2018, section 4).

    `ingredients` are names in any of the forms "olive oil", "olive_oil", "olive-oil". Of two names that begin at the
    same word the longer one wins.
    """

    def __init__(self, ingredients: Iterable[str] = ()) -> None:
        names = sorted({tuple(tokenise(name, split_case_joins=False)) for name in ingredients})
        self.ingredients = [" ".join(words) for words in names if len(words) > 1]
        self._by_first: dict[str, list[tuple[str, ...]]] = {}
        for words in sorted((words for words in names if len(words) > 1), key=len, reverse=True):
            self._by_first.setdefault(words[0], []).append(words)

    def join(self, words: Sequence[str]) -> list[str]:
        """The words with each known compound as one."""
        joined, i = [], 0
        while i < len(words):
            for compound in self._by_first.get(words[i], ()):
                if tuple(words[i : i + len(compound)]) == compound:
                    joined.append("_".join(compound))
                    i += len(compound)
                    break
            else:
                joined.append(words[i])
                i += 1
        return joined


# Words of an ingredient line that are amount, unit, size, state or glue and no part of the name.
_NOT_NAME = frozenset(
    """
    cup cups c tablespoon tablespoons tbsp tbs tbl teaspoon teaspoons tsp ts ounce ounces oz fluid fl pound
    pounds lb lbs gram grams g kg kilogram kilograms mg ml l cl dl liter liters litre litres pint pints quart
    quarts qt pt gallon gallons inch inches cm mm stick sticks can cans tin tins jar jars package packages
    packet packets pkg bag bags box boxes bottle bottles bunch bunches clove cloves slice slices piece pieces
    pinch pinches dash dashes drop drops handful handfuls sprig sprigs stalk stalks head heads leaf leaves sheet
    sheets knob cube cubes part parts scoop scoops splash sprinkle can container dozen each x small medium large
    big extra heaped heaping level rounded scant about approximately approx around few some several more less
    plus half quarter whole optional fresh freshly finely coarsely roughly thinly chopped minced diced sliced
    grated shredded crushed peeled ground melted softened beaten cooked uncooked dried drained rinsed packed
    sifted cold warm hot boiling cool lukewarm room temperature good quality ripe raw frozen thawed cubed halved
    quartered seeded pitted trimmed washed toasted divided separated to taste for of a an the or and with in at
    into your choice favorite any one two three four five six seven eight nine ten
    """.split()  # noqa: SIM905
)


def ingredient_name(line: str) -> list[str]:
    """Words of the ingredient that a line names; empty where the line is all amounts and units.

    "2 cups (480 ml) extra virgin olive oil, divided" gives virgin, olive, oil: the line up to its first comma or
    bracket, less amounts, units and states at both ends.
    """
    line = re.sub(r"\([^)]*\)", " ", line)
    head = re.split(r"[,;:(/]| - | – |\bor\b|\band\b", line, maxsplit=1)[0]
    words = tokenise(head, split_case_joins=False)
    while words and (words[0] in _NOT_NAME or not words[0].isalpha()):
        words.pop(0)
    while words and (words[-1] in _NOT_NAME or not words[-1].isalpha()):
        words.pop()
    return words


def ingredient_names(lines: Iterable[str], min_count: int = 2, max_words: int = 3) -> list[str]:
    """Compound ingredient names that occur in at least `min_count` ingredient lines, sorted.

    Names as `ingredient_name` finds them, of two to `max_words` words.
    """
    counts: Counter[str] = Counter()
    for line in lines:
        words = ingredient_name(line)
        if 2 <= len(words) <= max_words and all(word.isalpha() and word not in ("of", "or", "and") for word in words):
            counts[" ".join(words)] += 1
    return sorted(name for name, count in counts.items() if count >= min_count)


# ---- Doc2Vec ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Doc2VecSettings:
    """Settings of the text encoder; the paper states only the 100 dimensions.

    `document` says what a text's vector is: `inferred` by Doc2Vec, or the `word_mean` of its unit word vectors.
    `infer_epochs` and `infer_alpha` hold for all texts, training texts too. At gensim's rate of 0.025 the vector of a
    step of 16 words has hardly left its start after 40 epochs, hence 0.1.
    """

    vector_size: int = 100
    dm: int = 1
    dm_mean: int = 1
    dbow_words: int = 0
    window: int = 5
    min_count: int = 2
    negative: int = 5
    sample: float = 1e-3
    alpha: float = 0.025
    min_alpha: float = 1e-4
    epochs: int = 40
    infer_epochs: int = 40
    infer_alpha: float = 0.1
    document: str = "inferred"
    split_case_joins: bool = True
    seed: int = 1234

    def __post_init__(self) -> None:
        if self.document not in ("inferred", "word_mean"):
            raise InputError(f"text.document={self.document}: is unknown; use inferred or word_mean")
        if self.negative < 1 or min(self.vector_size, self.window, self.epochs, self.infer_epochs) < 1:
            raise InputError("text: vector_size, window, negative, epochs and infer_epochs must be 1 or more")


class _Draws:
    """The random numbers of gensim's inner loops as a pure function of a seed.

    gensim asks its `random` for three small draws in each pass over a text; with numpy's generator they cost more than
    the arithmetic on a text of 16 words, and its `infer_vector` starts from Python's `hash`, which changes from one
    process to the next. Here all come from SHAKE-128 of the seed, some blocks at a time.
    """

    def __init__(self, seed: bytes, window: int, integers: int, windows: int) -> None:
        self._seed, self._window, self._sizes, self._block = seed, window, (integers, windows), 0
        self._refill()

    def _refill(self) -> None:
        integers, windows = self._sizes
        raw = hashlib.shake_128(self._block.to_bytes(8, "little") + self._seed).digest(4 * integers + 2 * windows)
        self._integers = (np.frombuffer(raw, "<u4", integers) >> 8).tolist()  # below 2^24, as gensim asks
        self._windows = (np.frombuffer(raw, "<u2", windows, 4 * integers) % self._window).tolist()
        self._i = self._w = 0
        self._block += 1

    def randint(self, _low: int, _high: int, size: int | None = None) -> int | list[int]:
        """One integer below 2^24, or `size` reductions of the window; gensim asks for nothing else."""
        if size is None:
            if self._i == len(self._integers):
                self._refill()
            self._i += 1
            return self._integers[self._i - 1]
        if self._w + size > len(self._windows):
            self._sizes = (self._sizes[0], max(self._sizes[1], size))
            self._refill()
        self._w += size
        return self._windows[self._w - size : self._w]


class Doc2VecEncoder:
    """Fitted Doc2Vec as plain arrays: every text is encoded alone and the same way, to the same bits each time.

    The bits hold from run to run and process to process on one kind of CPU and set of packages; the arithmetic is
    gensim's compiled code, whose sums another CPU may take in another order.
    """

    def __init__(
        self,
        settings: Doc2VecSettings,
        ingredients: Sequence[str],
        words: Sequence[str],
        word_vectors: np.ndarray,
        hidden: np.ndarray,
        cumulative: np.ndarray,
        keep: np.ndarray,
    ) -> None:
        """Take the arrays of a fit; use `fit`, `fit_cached` or `from_state_dict`.

        `word_vectors` (V, D) and `hidden` (V, D) float32: input and output vectors of the words; `cumulative` (V,)
        uint32: cumulative distribution of the negatives; `keep` (V,) uint32: how likely a frequent word is kept.
        """
        self.settings = settings
        self.joiner = IngredientJoiner(ingredients)
        self.words = list(words)
        self.word_vectors, self.hidden, self.cumulative, self.keep = word_vectors, hidden, cumulative, keep
        norms = np.linalg.norm(word_vectors, axis=1, keepdims=True)
        self.unit_vectors = word_vectors / np.maximum(norms, 1e-12)
        self._wv: Any = KeyedVectors(settings.vector_size)
        self._wv.index_to_key = self.words
        self._wv.key_to_index = {word: i for i, word in enumerate(self.words)}
        self._wv.vectors = word_vectors
        self._wv.vectors_lockf = np.ones(1, np.float32)
        self._wv.expandos = {"sample_int": keep}

    @property
    def size(self) -> int:
        """Length of a vector."""
        return self.settings.vector_size

    def tokens(self, text: str) -> list[str]:
        """The words of a text as the encoder sees them, known or not."""
        return self.joiner.join(tokenise(text, self.settings.split_case_joins))

    # -- fitting

    @classmethod
    def fit(
        cls, texts: Sequence[str], settings: Doc2VecSettings | None = None, ingredients: Sequence[str] = ()
    ) -> "Doc2VecEncoder":
        """Fit on some texts (those of the training split, and no others), in the order given.

        One worker, so the result depends on texts, settings and ingredients alone. InputError where no word occurs
        `min_count` times.
        """
        s = settings or Doc2VecSettings()
        joiner = IngredientJoiner(ingredients)
        words = [joiner.join(tokenise(text, s.split_case_joins)) for text in texts]
        documents = [TaggedDocument(part, [i]) for i, part in enumerate(part for part in words if part)]
        model: Any = Doc2Vec(
            vector_size=s.vector_size, dm=s.dm, dm_mean=s.dm_mean, dbow_words=s.dbow_words, window=s.window,
            min_count=s.min_count, negative=s.negative, sample=s.sample, alpha=s.alpha, min_alpha=s.min_alpha,
            epochs=s.epochs, seed=s.seed, workers=1,
        )  # fmt: skip
        with contextlib.suppress(RuntimeError):  # gensim's word for an empty vocabulary
            model.build_vocab(documents)
        if not documents or not len(model.wv):
            raise InputError(
                f"text encoder: no word occurs {s.min_count} times in the {len(texts)} training texts; give more "
                "training text or lower text.min_count"
            )
        model.random = _Draws(f"fit {s.seed}".encode(), s.window, 1 << 14, 1 << 18)
        with tqdm(total=s.epochs, desc="Doc2Vec: fitting", unit=" epochs") as bar:
            model.train(documents, total_examples=len(documents), epochs=s.epochs, callbacks=[_EpochBar(bar)])
        keep = np.array(model.wv.expandos["sample_int"], np.uint32)
        arrays = model.wv.vectors, model.syn1neg, np.array(model.cum_table, np.uint32), keep
        return cls(s, ingredients, model.wv.index_to_key, *arrays)

    @classmethod
    def fit_cached(
        cls,
        root: Path,
        texts: Sequence[str],
        settings: Doc2VecSettings | None = None,
        ingredients: Sequence[str] = (),
    ) -> "Doc2VecEncoder":
        """`fit`, kept under `root/doc2vec/` by the content of texts, settings and ingredients."""
        s = settings or Doc2VecSettings()
        content = hashlib.sha256()
        for text in texts:
            content.update(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest())
        key = {
            "texts": content.hexdigest(),
            "settings": asdict(s),
            "ingredients": IngredientJoiner(ingredients).ingredients,
            "gensim": gensim.__version__,
            "format": 1,
        }
        names = ("word_vectors", "hidden", "cumulative", "keep")

        def load(folder: Path) -> "Doc2VecEncoder":
            manifest = read_manifest(folder)
            for file, digests in manifest["sha256"].items():
                if not (folder / file).is_file() or block_digests(folder / file) != digests or manifest["key"] != key:
                    raise InputError(f"{folder / file}: is absent or damaged; delete the folder {folder}")
            with np.load(folder / "arrays.npz", allow_pickle=False) as arrays:
                parts = [arrays[name] for name in names]
            return cls(s, ingredients, json.loads((folder / "words.json").read_bytes()), *parts)

        def write(folder: Path) -> None:
            fitted = cls.fit(texts, s, ingredients)
            np.savez(folder / "arrays.npz", **{name: getattr(fitted, name) for name in names})
            (folder / "words.json").write_text(json.dumps(fitted.words))
            sums = {file: block_digests(folder / file) for file in ("arrays.npz", "words.json")}
            write_manifest(folder, {"key": key, "sha256": sums})

        return build_once(Path(root) / "doc2vec" / digest_of(key)[:16], load, write)

    # -- encoding

    def settings_dict(self) -> dict[str, Any]:
        """What the vectors of a text depend on, as a cache key."""
        return {"encoder": "doc2vec", "digest": self.digest(), "gensim": gensim.__version__, "inference": 1}

    def encode(self, texts: Sequence[str], threads: int = 2) -> np.ndarray:
        """(n, D) float32; zeros for a text without a known word. No text's vector depends on another text."""
        vectors = np.zeros((len(texts), self.size), np.float32)
        known = self._wv.key_to_index
        words = [[word for word in self.tokens(text) if word in known] for text in texts]
        if self.settings.document == "word_mean":
            for i, part in enumerate(words):
                if part:
                    vectors[i] = self.unit_vectors[[known[word] for word in part]].mean(0)
            return vectors
        parts = (
            [range(start, len(texts), threads) for start in range(threads)] if len(texts) > 64 else [range(len(texts))]
        )
        if len(parts) == 1:
            self._infer(words, parts[0], vectors)
        else:  # the compiled loop releases the interpreter's lock for most of its time
            with ThreadPoolExecutor(threads) as pool:
                list(pool.map(lambda part: self._infer(words, part, vectors), parts))
        return vectors

    def _infer(self, words: list[list[str]], rows: Iterable[int], out: np.ndarray) -> None:
        s = self.settings
        model = SimpleNamespace(  # what gensim's compiled loops read of a model
            hs=0, negative=s.negative, sample=s.sample, cbow_mean=s.dm_mean, layer1_size=s.vector_size,
            dv=SimpleNamespace(vector_size=s.vector_size, vectors=out, vectors_lockf=np.ones(1, np.float32)),
            wv=self._wv, workers=1, window=s.window, dm_tag_count=1, syn1neg=self.hidden, cum_table=self.cumulative,
            shrink_windows=True,
        )  # fmt: skip
        alphas = np.linspace(s.infer_alpha, s.min_alpha, s.infer_epochs).tolist()
        fixed: dict[str, Any] = {"learn_words": False, "learn_hidden": False, "doctags_lockf": np.ones(1, np.float32)}
        buffers = [np.zeros(s.vector_size, np.float32) for _ in range(2 if s.dm else 1)]
        train = train_document_dm if s.dm else train_document_dbow
        for row in rows:
            if not words[row]:
                continue
            # The draws depend on the known words alone, so texts of the same words have the same vector.
            seed = hashlib.sha256(f"{s.seed} {' '.join(words[row])}".encode()).digest()
            length = min(len(words[row]), 10_000)
            model.random = _Draws(seed, s.window, 2 * s.infer_epochs, length * s.infer_epochs)
            vector = np.zeros((1, s.vector_size), np.float32)
            for alpha in alphas:
                train(model, words[row], [0], alpha, *buffers, doctag_vectors=vector, **fixed)
            out[row] = vector[0]

    # -- saving

    def state_dict(self) -> dict[str, Any]:
        """Plain lists, numbers and tensors: a checkpoint with it opens under `weights_only=True`."""
        arrays = {"word_vectors": self.word_vectors, "hidden": self.hidden}
        counts = {"cumulative": self.cumulative.astype(np.int64), "keep": self.keep.astype(np.int64)}
        tensors = {name: torch.from_numpy(array.copy()) for name, array in (arrays | counts).items()}
        plain = {"settings": asdict(self.settings), "ingredients": self.joiner.ingredients, "words": self.words}
        return plain | tensors

    @classmethod
    def from_state_dict(cls, state: dict[str, Any]) -> "Doc2VecEncoder":
        """The encoder of a checkpoint. InputError where the state is not one of this class."""
        try:
            settings = Doc2VecSettings(**state["settings"])
            floats = [state[name].numpy().astype(np.float32) for name in ("word_vectors", "hidden")]
            counts = [state[name].numpy().astype(np.uint32) for name in ("cumulative", "keep")]
            words, ingredients = list(state["words"]), list(state["ingredients"])
            if any(array.shape != (len(words), settings.vector_size) for array in floats):
                raise ValueError("word vectors and words do not match")
            if any(array.shape != (len(words),) for array in counts):
                raise ValueError("word counts and words do not match")
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InputError(f"text encoder of the checkpoint: cannot be read ({error}); train again") from None
        return cls(settings, ingredients, words, *floats, *counts)

    def digest(self) -> str:
        """Sha256 of settings, vocabulary and arrays."""
        plain = [asdict(self.settings), self.joiner.ingredients, self.words]
        content = hashlib.sha256(digest_of(plain).encode())
        for array in (self.word_vectors, self.hidden, self.cumulative, self.keep):
            content.update(np.ascontiguousarray(array).data)
        return content.hexdigest()

    # -- neighbours, as the authors show them

    def nearest_words(self, word: str, k: int = 10) -> list[tuple[str, float]]:
        """The k words nearest by cosine. InputError for a word the encoder does not know."""
        name = "_".join(tokenise(word, split_case_joins=False))
        name = name if name in self._wv.key_to_index else word.lower()
        if name not in self._wv.key_to_index:
            raise InputError(
                f"{word!r}: is not among the {len(self.words)} words of the text encoder; try another word"
            )
        scores = self.unit_vectors @ self.unit_vectors[self._wv.key_to_index[name]]
        order = [i for i in np.argsort(-scores, kind="stable") if self.words[i] != name][:k]
        return [(self.words[i], float(scores[i])) for i in order]

    def nearest_texts(
        self, text: str, corpus: Sequence[str], vectors: np.ndarray, k: int = 10
    ) -> list[tuple[str, float]]:
        """The k texts of a corpus nearest by cosine, itself and repeats left out; `vectors` (n, D) are the corpus'."""
        query = self.encode([text])[0]
        norms = np.linalg.norm(vectors, axis=1) * np.linalg.norm(query)
        scores = vectors @ query / np.maximum(norms, 1e-12)
        nearest: dict[str, float] = {}
        for i in np.argsort(-scores, kind="stable"):
            if corpus[i] != text:
                nearest.setdefault(str(corpus[i]), float(scores[i]))
            if len(nearest) == k:
                break
        return list(nearest.items())


def neighbour_table(query: str, neighbours: Sequence[tuple[str, float]]) -> Table:
    """A table for the terminal of what lies nearest to a word or text."""
    table = Table(title=f"nearest to {query!r}")
    table.add_column("cosine", justify="right")
    table.add_column("neighbour", overflow="fold")
    for name, score in neighbours:
        table.add_row(f"{score:.3f}", name)
    return table


class _EpochBar:
    """gensim calls these at its own pace; the bar moves after each epoch."""

    def __init__(self, bar: tqdm) -> None:
        self.bar = bar

    def on_epoch_end(self, _model: Doc2Vec) -> None:
        self.bar.update()

    def on_epoch_begin(self, _model: Doc2Vec) -> None: ...

    def on_train_begin(self, _model: Doc2Vec) -> None: ...

    def on_train_end(self, _model: Doc2Vec) -> None: ...
