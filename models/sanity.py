"""Rules that answer without understanding. A model that does not beat them has shown nothing.

Rules that count words or choices have two readings. `fitted_on="evaluated"` counts in the evaluated file itself: such
a row is *transductive*, a warning about the file and no result to compare a model with. `fitted_on="training"` counts
in the training questions. In both, `fit` takes the questions of all tasks of the file.

Every rule has `name`, `fitted_on` (None where it counts nothing), `fit(questions, vectors)` where it counts, and
`score(questions, vectors) -> (N, K)` float64. Choices that a rule cannot tell apart get equal scores.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import cast

import numpy as np
from scipy import sparse
from sklearn.feature_extraction.text import CountVectorizer

from data.errors import InputError
from data.records import PLACEHOLDER, TASKS, Question


@dataclass
class AlwaysChoice:
    """Always the same position; with `position=None` every choice alike, whose expected accuracy is chance."""

    position: int | None = None
    fitted_on: None = field(default=None, init=False)

    @property
    def name(self) -> str:
        """Row title in a table."""
        if self.position is None:
            return "chance"
        return "first_choice" if self.position == 0 else f"always_choice_{self.position}"

    def score(self, questions: Sequence[Question], vectors: object = None) -> np.ndarray:
        """Scores (N, K)."""
        scores = np.zeros((len(questions), _choices(questions)))
        if self.position is not None and len(questions):
            scores[:, self.position] = 1.0
        return scores


@dataclass
class ChoiceLength:
    """The shortest or longest choice, in `unit` "characters" or "words"."""

    unit: str = "characters"
    longest: bool = False
    fitted_on: None = field(default=None, init=False)

    def __post_init__(self) -> None:
        _one_of("unit", self.unit, ("characters", "words"))

    @property
    def name(self) -> str:
        """Row title in a table."""
        return f"{'longest' if self.longest else 'shortest'}_choice_{self.unit}"

    def score(self, questions: Sequence[Question], vectors: object = None) -> np.ndarray:
        """Scores (N, K): the length, negated for the shortest."""
        length = len if self.unit == "characters" else (lambda text: len(text.split()))
        sign = 1.0 if self.longest else -1.0
        return np.array([[sign * length(c[0]) for c in q.choices] for q in questions]).reshape(
            len(questions), _choices(questions)
        )


@dataclass
class LeastFrequentChoice:
    """The choice that is offered least often in the questions of the task it was fitted on.

    Distractors are nearest neighbours of many questions at once, right answers seldom are, so popularity alone
    gives many answers away.
    """

    fitted_on: str = "evaluated"
    counts: dict[str, Counter[str]] = field(default_factory=dict, init=False, repr=False)
    name = "least_frequent_choice"

    def __post_init__(self) -> None:
        _one_of("fitted_on", self.fitted_on, ("evaluated", "training"))

    def fit(self, questions: Sequence[Question], vectors: object = None) -> "LeastFrequentChoice":
        """Count the choices of each task."""
        self.counts = {task: Counter() for task in TASKS}
        for q in questions:
            self.counts[q.task].update(e for c in q.choices for e in c)
        return self

    def score(self, questions: Sequence[Question], vectors: object = None) -> np.ndarray:
        """Scores (N, K): minus the count, 0 for what was never seen."""
        rows = [[-float(self.counts[q.task][c[0]]) for c in q.choices] for q in questions]
        return np.array(rows).reshape(len(questions), _choices(questions))


@dataclass
class NotRepeatedOrder:
    """Visual ordering: any permutation that is offered once.

    Wrong orders are drawn with replacement and differ from the right one, so a repeated order is wrong.
    """

    fitted_on: None = field(default=None, init=False)
    name = "not_repeated_permutation"

    def score(self, questions: Sequence[Question], vectors: object = None) -> np.ndarray:
        """Scores (N, K): 1 for a choice offered once, else 0."""
        rows = [[float(q.choices.count(c) == 1) for c in q.choices] for q in questions]
        return np.array(rows).reshape(len(questions), _choices(questions))


@dataclass
class TfidfChoice:
    """Cosine of the TF-IDF vectors of a choice and of what the question shows.

    Document frequencies come from the distinct step bodies of all tasks of the file, plus the titles and choices of
    its textual-cloze questions with repeats. Weights and norm are scikit-learn's defaults: idf = ln((1 + n) /
    (1 + df)) + 1, rows of length 1.

    Args:
        against: "titles" of the question, the whole "context", or its "best_step".
        log_tf: 1 + ln(term frequency) in place of the frequency.
        characters: 3- to 5-grams of characters inside words instead of words.
        fitted_on: "evaluated" or "training".
    """

    against: str = "context"
    log_tf: bool = False
    characters: bool = False
    fitted_on: str = "evaluated"

    def __post_init__(self) -> None:
        _one_of("against", self.against, ("titles", "context", "best_step"))
        _one_of("fitted_on", self.fitted_on, ("evaluated", "training"))

    @property
    def name(self) -> str:
        """Row title in a table."""
        if self.characters:
            return "tfidf_characters" if (self.against, self.log_tf) == ("context", True) else repr(self)
        names = {
            ("titles", False): "tfidf_question_titles",
            ("context", False): "tfidf_context",
            ("context", True): "tfidf_context_log",
            ("best_step", True): "tfidf_best_step",
        }
        return names.get((self.against, self.log_tf), repr(self))

    def fit(self, questions: Sequence[Question], vectors: object = None) -> "TfidfChoice":
        """Document frequencies of the file's texts.

        Raises:
            InputError: the texts hold no word.
        """
        texts = list(dict.fromkeys(s.body for q in questions for s in q.context))
        for q in questions:
            if q.task == "textual_cloze":
                texts += [t for t in q.question if t != PLACEHOLDER] + [c[0] for c in q.choices]
        try:
            self.terms, self.idf = _frequencies(tuple(texts), self.characters)
        except ValueError as error:
            raise InputError(
                f"model {self.name}: the {len(texts)} texts it is fitted on hold no word; give it questions with text"
            ) from error
        return self

    def score(self, questions: Sequence[Question], vectors: object = None) -> np.ndarray:
        """Scores (N, K), cosines in [0, 1]."""
        k = _choices(questions)
        scores = np.zeros((len(questions), k))
        for start in range(0, len(questions), 1024):
            block = questions[start : start + 1024]
            scores[start : start + 1024] = self._score(block, k)
        return scores

    def _score(self, questions: Sequence[Question], k: int) -> np.ndarray:
        shown = [
            [t for t in q.question if t != PLACEHOLDER] if self.against == "titles" else [s.body for s in q.context]
            for q in questions
        ]
        parts, part = _distinct([t for texts in shown for t in texts])
        owner = np.repeat(np.arange(len(questions)), [len(texts) for texts in shown])  # question of each shown text
        counts = self._count(parts)
        if self.against == "best_step":
            evidence = part
        else:  # the texts of a question joined into one: their counts add up
            joined = sparse.csr_matrix((np.ones(len(part)), (owner, part)), shape=(len(questions), len(parts)))
            counts, evidence, owner = joined @ counts, np.arange(len(questions)), np.arange(len(questions))
        choices, choice = _distinct([c[0] for q in questions for c in q.choices])
        slot = (owner[:, None] * k + np.arange(k)).ravel()  # a row of `choice` for each pair of evidence and choice
        evidence = np.repeat(evidence, k)
        weights, of_choice = self._weigh(counts), self._weigh(self._count(choices))
        scores = np.zeros(len(questions) * k)
        for start in range(0, len(slot), 4096):
            at, row = slot[start : start + 4096], evidence[start : start + 4096]
            cosine = np.asarray(weights[row].multiply(of_choice[choice[at]]).sum(axis=1)).ravel()
            np.maximum.at(scores, at, cosine)
        return scores.reshape(len(questions), k)

    def _count(self, texts: list[str]) -> sparse.csr_matrix:
        """Term counts (n, V) over the fitted terms."""
        if not self.characters or not texts:
            return cast(sparse.csr_matrix, self.terms.transform(texts))
        words, word = _distinct([w for text in texts for w in _split(text)])
        owner = np.repeat(np.arange(len(texts)), [len(_split(text)) for text in texts])
        counts = sparse.csr_matrix((np.ones(len(word)), (owner, word)), shape=(len(texts), len(words)))
        return cast(sparse.csr_matrix, counts @ cast(sparse.csr_matrix, self.terms.transform(words)))

    def _weigh(self, counts: sparse.csr_matrix) -> sparse.csr_matrix:
        """TF-IDF rows of length 1; a text without a known term stays zero."""
        weights = sparse.csr_matrix(counts, dtype=np.float64)
        weights.sort_indices()  # sums run in one order, so equal texts get equal cosines to the last bit
        if self.log_tf:
            weights.data = 1 + np.log(weights.data)
        weights.data *= self.idf[weights.indices]
        norm = np.sqrt(np.asarray(weights.multiply(weights).sum(axis=1)).ravel())
        weights.data /= np.repeat(norm, np.diff(weights.indptr))
        return weights


# Anything with `name`, `fitted_on` and `score` that the tables show beside a model.
Rule = AlwaysChoice | ChoiceLength | LeastFrequentChoice | NotRepeatedOrder | TfidfChoice


def rules_for(task: str, fitted_on: str | None = None) -> list[Rule]:
    """Every rule that applies to a task, chance first.

    Rules that count something come in the reading `fitted_on`, or in both where it is None; those of one reading
    stand together, so that what they count is counted once.
    """
    _one_of("task", task, TASKS)
    rules: list[Rule] = [AlwaysChoice(), AlwaysChoice(0)]
    if task == "visual_ordering":
        return [*rules, NotRepeatedOrder()]
    if task == "textual_cloze":
        rules += [ChoiceLength("characters"), ChoiceLength("words"), ChoiceLength("characters", longest=True)]
    for reading in ("evaluated", "training") if fitted_on is None else (fitted_on,):
        if task == "textual_cloze":
            rules += [
                TfidfChoice("titles", fitted_on=reading),
                TfidfChoice("context", fitted_on=reading),
                TfidfChoice("context", log_tf=True, fitted_on=reading),
                TfidfChoice("best_step", log_tf=True, fitted_on=reading),
                TfidfChoice("context", log_tf=True, characters=True, fitted_on=reading),
            ]
        rules.append(LeastFrequentChoice(reading))
    return rules


@lru_cache(maxsize=2)  # rules that differ in what they compare share the counting, words and characters
def _frequencies(texts: tuple[str, ...], characters: bool) -> tuple[CountVectorizer, np.ndarray]:
    """Terms of the texts and their inverse document frequencies (V,)."""
    # The stubs know neither of a function as analyzer nor of the result's type.
    words = CountVectorizer(analyzer=cast(str, _split)) if characters else CountVectorizer()
    counts = cast(sparse.csr_matrix, words.fit_transform(texts))
    terms, spelling = words, None
    if characters:
        # n-grams do not cross words, so those of each distinct word are found once and multiplied out.
        terms = CountVectorizer(analyzer="char_wb", ngram_range=(3, 5))
        spelling = cast(sparse.csr_matrix, terms.fit_transform(words.get_feature_names_out()))
    df = np.zeros(len(terms.vocabulary_))
    for start in range(0, len(texts), 4096):  # in blocks: all n-gram counts of a large file would fill gigabytes
        block = counts[start : start + 4096]
        block = block if spelling is None else block @ spelling
        df += np.bincount(block.indices, minlength=len(df))
    return terms, np.log((1 + len(texts)) / (1 + df)) + 1


def _split(text: str) -> list[str]:
    return text.lower().split()


def _distinct(texts: list[str]) -> tuple[list[str], np.ndarray]:
    """The distinct texts in order of appearance, and which of them each text is."""
    first: dict[str, int] = {}
    rows = np.array([first.setdefault(text, len(first)) for text in texts], dtype=np.int64)
    return list(first), rows


def _choices(questions: Sequence[Question]) -> int:
    return len(questions[0].choices) if questions else 0


def _one_of(key: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise InputError(f"model: {key}={value} is none of {', '.join(allowed)}")
