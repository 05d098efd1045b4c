"""What two verifiers of a question tell: bad questions, agreement beyond chance, human accuracy.

Source: Li et al. 2024 (FoodieQA, arXiv 2406.11030), sections 3.3.2, 3.4.2, 3.5 and 4.2, table 1. The authors released
no code for any of it. What they do not state is a setting here.
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from data.errors import InputError
from data.files import atomic_file
from data.food_names import display_type
from data.records import LETTERS, FoodQuestion
from data.verification import PersonsAnswer, Verification, VerifiedQuestion, read_verification
from models.metrics import wilson_interval

OPTIONS = len(LETTERS)
UNKNOWN = -1  # in arrays of choices: "I don't know", to be filled at random
FEW = 10  # questions below which a kappa is no finding
Row = dict[str, Any]

# Table 1 and sections 3.3.2, 3.4.2, 3.5 of the paper: other questions and other people than those of any report here.
PUBLISHED: dict[str, dict[str, Any]] = {
    "mivqa": {"dropped": 87, "multi_hop": 0.253, "all": {"n": 403, "kappa": 0.834, "accuracy": 0.916}},
    "sivqa": {
        "dropped": 88,
        "multi_hop": 0.734,
        "all": {"n": 256, "kappa": 0.556, "accuracy": 0.744},
        "in_domain": {"n": 168, "kappa": 0.674, "accuracy": 0.818},
    },
    "textqa": {
        "dropped": 135,
        "multi_hop": 0.016,
        "all": {"n": 705, "kappa": 0.470, "accuracy": 0.562},
        "in_domain": {"n": 307, "kappa": 0.808, "accuracy": 0.857},
    },
}
_SCOPES = {
    "before_drop": "all questions, bad ones too",
    "all": "without bad questions",
    "in_domain": "in-domain",
    "both_know": 'without "I don\'t know"',
    "agreed": "after the agreement filter",
}


@dataclass(frozen=True, slots=True)
class ValidationSettings:
    """What the paper leaves open, with the defaults of this project."""

    bad: str = "any"  # any | all: how many verifiers must flag a question for it to be dropped
    in_domain: str = "both"  # both | one: how many verifiers must know the answer
    agreement: str = "auto"  # auto (multi-image only, as published) | yes | no: keep only questions answered alike
    accuracy: str = "mean"  # mean of the two answers | both: both right
    fills: int = 1000  # random fills of "I don't know"
    bootstrap: int = 1000  # resamples of the questions, for the intervals of kappa; 0: none
    seed: int = 0

    def __post_init__(self) -> None:
        for name, allowed in (
            ("bad", ("any", "all")),
            ("in_domain", ("both", "one")),
            ("agreement", ("auto", "yes", "no")),
            ("accuracy", ("mean", "both")),
        ):
            if getattr(self, name) not in allowed:
                raise InputError(f"validation: {name}={getattr(self, name)} is none of {', '.join(allowed)}")
        if self.fills < 1 or self.bootstrap < 0:
            raise InputError(f"validation: fills={self.fills}, bootstrap={self.bootstrap}; use at least 1 and 0")


@dataclass(frozen=True)
class ValidationReport:
    """The outcome; `report` holds plain values, the lists are what the files hold."""

    report: Row
    kept: list[Row] = field(default_factory=list)
    dropped: list[Row] = field(default_factory=list)  # with `reasons`
    disagreements: list[Row] = field(default_factory=list)  # for a third judge: without the right answer


@dataclass(frozen=True, slots=True)
class _Pair:
    """A question with the two answers that count."""

    question: VerifiedQuestion
    first: PersonsAnswer
    second: PersonsAnswer
    bad: bool

    @property
    def known(self) -> int:
        return self.first.knows + self.second.knows

    @property
    def filled(self) -> tuple[int, int]:
        return _filled(self.first), _filled(self.second)


def validate(
    records: Sequence[Mapping[str, Any]] | Verification,
    questions: Sequence[FoodQuestion] | None,
    settings: ValidationSettings | None = None,
    *,
    task: str = "",
    title: str = "",
) -> ValidationReport:
    """Filter verified questions and measure how far their verifiers agree and are right.

    Two answers of each question count, the first two people's; a question with fewer is reported and left out.

    Args:
        records: of the published verification tool (`data.verification.read_records`), or already joined.
        questions: those that were verified; None: taken from the records.
        settings: what the paper leaves open.
        task: mivqa, sivqa or textqa; not needed where `questions` or joined answers name it.
        title: what the questions are called in the report.

    Raises:
        InputError: a record or a setting is wrong.
    """
    settings = settings or ValidationSettings()
    if isinstance(records, Verification):
        found = records
    else:
        task = task or (questions[0].task if questions else "")
        found = read_verification(records, task, questions)
    answered: dict[str, list[PersonsAnswer]] = {}
    for answer in found.answers:
        answered.setdefault(answer.question, []).append(answer)
    pairs: list[_Pair] = []
    incomplete: list[Row] = []
    # By row; questions without one stay in the order in which they were answered.
    for key in sorted(answered, key=lambda key: found.questions[key].row or 0):
        question, given = found.questions[key], answered[key]
        if len(given) < 2:
            incomplete.append(_line(question, [f"{len(given)} answer, two are needed"]))
        else:
            flags = [answer.bad for answer in given]
            bad = any(flags) if settings.bad == "any" else all(flags)
            pairs.append(_Pair(question, given[0], given[1], bad))
    agreement = settings.agreement == "yes" or (settings.agreement == "auto" and found.task == "mivqa")
    kept, dropped = _sieve(pairs, agreement)
    sets = _sets(pairs, settings)
    by_type = _by(sets["all"], lambda pair: [pair.question.question_type or "not given"])
    by_people = _by(sets["all"], lambda pair: [_people(pair)])
    report: Row = {
        "title": title or f"{found.task} questions",
        "task": found.task,
        "settings": asdict(settings) | {"agreement_filter": agreement},
        "questions": len(answered),
        "answers": len(found.answers),
        "people": len({answer.person for answer in found.answers}),
        "two_answers": len(pairs),
        "incomplete": len(incomplete),
        "more_than_two": sum(len(given) > 2 for given in answered.values()),
        "repeated": found.repeated,
        "unmatched": len(found.unmatched),
        "bad": sum(pair.bad for pair in pairs),
        "kept": len(kept),
        "dropped": len(dropped) + len(incomplete),
        "unknown_answers": sum(2 - pair.known for pair in sets["all"]),
        "scopes": {name: _score(members, settings) for name, members in sets.items()},
        "multi_hop": _multi_hop(sets["all"]),
        "by_type": {name: _group(members, settings) for name, members in by_type.items()},
        "by_people": {name: _group(members, settings) for name, members in by_people.items()},
        "published": PUBLISHED[found.task],
        "notes": _notes(found, pairs, agreement),
    }
    disagreements = [_for_judge(pair) for pair in sets["all"] if not _alike(pair)]
    report["disagreements"] = len(disagreements)
    return ValidationReport(report, kept, [*dropped, *incomplete], disagreements)


def cohen_kappa(first: Sequence[int] | np.ndarray, second: Sequence[int] | np.ndarray) -> float | None:
    """Cohen's kappa of two raters over the four options; None where nothing is rated or chance agreement is 1.

    Args:
        first, second: (N,) options 0 to 3 of the two raters.
    """
    from sklearn.metrics import cohen_kappa_score

    a, b = np.asarray(first), np.asarray(second)
    if not len(a) or len(np.unique(np.concatenate([a, b]))) < 2:
        return None
    return float(cohen_kappa_score(a, b, labels=list(range(OPTIONS))))


def pooled_kappa(first: Sequence[int] | np.ndarray, second: Sequence[int] | np.ndarray) -> float | None:
    """Kappa that does not know which answer came first: Cohen's over both orders of every pair.

    Verifiers change from question to question, so "rater 1" is a mere place. Pooled over both orders the two
    marginals are equal, and the result is Scott's pi (1955).
    """
    a, b = np.asarray(first), np.asarray(second)
    return cohen_kappa(np.concatenate([a, b]), np.concatenate([b, a]))


def kappa_over_people(pairs: Sequence[tuple[str, int, str, int]]) -> Row:
    """Cohen's kappa of each two people, averaged: plainly, and weighted by their common questions.

    Args:
        pairs: (person, option, other person, option) for each question.

    Returns:
        mean, weighted (None where no two people's kappa is defined), pairs, undefined (numbers of pairs of people).
    """
    common: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for person, choice, other, others in pairs:
        if person > other:
            person, choice, other, others = other, others, person, choice
        common.setdefault((person, other), []).append((choice, others))
    defined: list[tuple[float, int]] = []
    for both in common.values():
        kappa = cohen_kappa([choice for choice, _ in both], [choice for _, choice in both])
        if kappa is not None:
            defined.append((kappa, len(both)))
    values, sizes = [kappa for kappa, _ in defined], [n for _, n in defined]
    return {
        "mean": float(np.mean(values)) if defined else None,
        "weighted": float(np.average(values, weights=sizes)) if defined else None,
        "pairs": len(common),
        "undefined": len(common) - len(defined),
    }


def kappas(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Order-free kappa of many fillings or resamples at once: (R, N) and (R, N) to (R,), NaN: undefined."""
    n = first.shape[1]
    agree = (first == second).mean(axis=1)
    marginal = np.stack([(first == k).sum(axis=1) + (second == k).sum(axis=1) for k in range(OPTIONS)], axis=1) / (
        2 * n
    )
    chance = (marginal**2).sum(axis=1)
    undefined = (marginal == 1).any(axis=1)
    return np.where(undefined, np.nan, (agree - chance) / np.where(undefined, 1, 1 - chance))


def fill(choices: np.ndarray, rounds: int, rng: np.random.Generator) -> np.ndarray:
    """(rounds, N) copies of choices (N,) in which each "I don't know" (-1) is one of the four options, drawn evenly."""
    filled = np.repeat(choices[None, :], rounds, axis=0)
    holes = choices == UNKNOWN
    filled[:, holes] = rng.integers(0, OPTIONS, size=(rounds, int(holes.sum())), dtype=filled.dtype)
    return filled


def write_validation(folder: Path, found: ValidationReport) -> list[str]:
    """Write `kept.json`, `dropped.json`, `disagreements.json`, `agreement.json`, `agreement.md`; returns the names."""
    files = {
        "kept.json": found.kept,
        "dropped.json": found.dropped,
        "disagreements.json": found.disagreements,
        "agreement.json": found.report,
    }
    for name, value in files.items():
        with atomic_file(Path(folder) / name) as path:
            path.write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    with atomic_file(Path(folder) / "agreement.md") as path:
        path.write_text(render(found), encoding="utf-8")
    return [*files, "agreement.md"]


def render(found: ValidationReport) -> str:
    """The report as Markdown."""
    report, published = found.report, found.report["published"]
    settings = report["settings"]
    lines = [
        f"# Agreement of verifiers: {report['title']}",
        "",
        f"{report['two_answers']} questions with two answers by {report['people']} people; "
        f"{report['bad']} bad ({settings['bad']} verifier{'s' if settings['bad'] == 'all' else ''} flagged), "
        f"{report['kept']} kept, {report['dropped']} dropped, {report['disagreements']} disagreements.",
        "",
        "| questions | n | agree % | κ | 95 % | κ, people | accuracy % | 95 % | published n | κ | accuracy % |",
        "| --- " + "| ---: " * 10 + "|",
    ]
    for name, row in report["scopes"].items():
        theirs = published.get(name, {})
        lines.append(
            _table_row(
                [
                    _SCOPES[name],
                    str(row["n"]),
                    _percent(row["agreement"]),
                    _kappa(row["kappa"], row["kappa_sd"]),
                    _range(row["kappa_interval"], 1, 2),
                    _kappa(row["kappa_people"]["weighted"]),
                    _percent(row["accuracy"]),
                    _range(row["accuracy_interval"], 100, 1),
                    str(theirs.get("n", "–")),
                    _kappa(theirs.get("kappa")),
                    _percent(theirs.get("accuracy")),
                ]
            )
        )
    lines += [
        "",
        "The published columns are of other questions and other people (arXiv 2406.11030, table 1).",
        "κ is order-free: Cohen's over both orders of each pair of answers (Scott's π). "
        '"κ, people" is Cohen\'s of each two people over questions that both know, weighted by their number.',
        f'An "I don\'t know" counts as a random option: mean ± standard deviation of κ over {settings["fills"]} fills '
        f"(seed {settings['seed']}); in the accuracy it counts 1/4, which is exact. "
        f"Accuracy: {'mean of the two answers' if settings['accuracy'] == 'mean' else 'both answers right'}; "
        f"in-domain: {'both verifiers know' if settings['in_domain'] == 'both' else 'one verifier knows'}.",
        "",
        f"Bad questions dropped: {report['bad']} (published, other questions: {published['dropped']}).",
        _hop_line(report["multi_hop"], published["multi_hop"]),
    ]
    for title, key, names in (("type", "by_type", display_type), ("people", "by_people", str)):
        if report[key]:
            lines += ["", f"| {title} | n | agree % | κ | accuracy % |", "| --- | ---: | ---: | ---: | ---: |"]
            for name, row in report[key].items():
                few = f" (n < {FEW})" if row["n"] < FEW else ""
                cells = [
                    names(name) + few,
                    str(row["n"]),
                    _percent(row["agreement"]),
                    _kappa(row["kappa"], row["kappa_sd"]),
                ]
                lines.append(_table_row([*cells, _percent(row["accuracy"])]))
    lines += ["", *(f"- note: {note}" for note in report["notes"])] if report["notes"] else []
    return "\n".join(lines).rstrip() + "\n"


def _filled(answer: PersonsAnswer) -> int:
    return answer.choice if answer.knows and answer.choice is not None else UNKNOWN


def _alike(pair: _Pair) -> bool:
    """Whether both know and chose the same option."""
    return pair.known == 2 and pair.filled[0] == pair.filled[1]


def _people(pair: _Pair) -> str:
    return " / ".join(sorted((pair.first.person, pair.second.person)))


def _sieve(pairs: Sequence[_Pair], agreement: bool) -> tuple[list[Row], list[Row]]:
    """Questions that stand and those that fall, with every reason."""
    kept: list[Row] = []
    dropped: list[Row] = []
    for pair in pairs:
        reasons: list[str] = []
        if pair.bad:
            who = [answer.person for answer in (pair.first, pair.second) if answer.bad]
            reasons.append(f"bad question, flagged by {', '.join(who) or 'another verifier'}")
        if agreement and not _alike(pair):
            reasons.append("answered differently" if pair.known == 2 else 'an "I don\'t know"')
        if reasons:
            dropped.append(_line(pair.question, reasons))
        else:
            kept.append(_line(pair.question) | {"in_domain": pair.known == 2})
    return kept, dropped


def _sets(pairs: Sequence[_Pair], settings: ValidationSettings) -> dict[str, list[_Pair]]:
    good = [pair for pair in pairs if not pair.bad]
    needed = 2 if settings.in_domain == "both" else 1
    return {
        "before_drop": list(pairs),
        "all": good,
        "in_domain": [pair for pair in good if pair.known >= needed],
        "both_know": [pair for pair in good if pair.known == 2],
        "agreed": [pair for pair in good if _alike(pair)],
    }


def _arrays(pairs: Sequence[_Pair]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """First and second choices (-1: does not know) and right answers, each (N,) int8."""
    both = np.array([pair.filled for pair in pairs], dtype=np.int8).reshape(-1, 2)
    right = np.array([pair.question.answer for pair in pairs], dtype=np.int8)
    return both[:, 0], both[:, 1], right


def _group(pairs: Sequence[_Pair], settings: ValidationSettings) -> Row:
    """n, agreement, kappa and accuracy of some questions, "I don't know" filled."""
    first, second, right = _arrays(pairs)
    row: Row = {"n": len(pairs), "agreement": None, "kappa": None, "kappa_sd": None, "accuracy": None}
    if not len(pairs):
        return row
    credit = _credit(first, second, right, settings.accuracy)
    row["accuracy"] = float(credit.mean())
    if not (first == UNKNOWN).any() and not (second == UNKNOWN).any():
        row["agreement"] = float((first == second).mean())
        row["kappa"] = pooled_kappa(first, second)
        row["kappa_sd"] = None if row["kappa"] is None else 0.0
        return row
    rng = np.random.default_rng(settings.seed)
    a, b = fill(first, settings.fills, rng), fill(second, settings.fills, rng)
    row["agreement"] = float((a == b).mean())
    found = kappas(a, b)
    defined = found[~np.isnan(found)]
    if len(defined):
        row["kappa"], row["kappa_sd"] = float(defined.mean()), float(defined.std())
    return row


def _score(pairs: Sequence[_Pair], settings: ValidationSettings) -> Row:
    """`_group` with intervals, the spread of the accuracy over fills, and kappa of people."""
    row = _group(pairs, settings)
    first, second, right = _arrays(pairs)
    credit = _credit(first, second, right, settings.accuracy)
    spread = _fill_spread(first, second, right, settings) if len(pairs) else None
    low, high = wilson_interval(float(credit.sum()), len(credit))
    people = [
        (pair.first.person, int(a), pair.second.person, int(b))
        for pair, a, b in zip(pairs, first, second, strict=True)
        if a != UNKNOWN and b != UNKNOWN
    ]
    return row | {
        "kappa_interval": _interval(first, second, settings),
        "accuracy_interval": [low, high] if len(pairs) else None,
        "accuracy_fill_mean": spread and spread[0],
        "accuracy_fill_sd": spread and spread[1],
        "unknown": int((first == UNKNOWN).sum() + (second == UNKNOWN).sum()),
        "kappa_people": kappa_over_people(people),
    }


def _credit(first: np.ndarray, second: np.ndarray, right: np.ndarray, mode: str) -> np.ndarray:
    """Expected credit of each question, (N,); an unknown answer is right with probability 1/4."""
    a, b = (np.where(x == UNKNOWN, 1 / OPTIONS, x == right).astype(float) for x in (first, second))
    return (a + b) / 2 if mode == "mean" else a * b


def _fill_spread(
    first: np.ndarray, second: np.ndarray, right: np.ndarray, settings: ValidationSettings
) -> tuple[float, float]:
    rng = np.random.default_rng([settings.seed, 1])
    a, b = (fill(x, settings.fills, rng) == right for x in (first, second))
    accuracy = ((a.mean(axis=1) + b.mean(axis=1)) / 2) if settings.accuracy == "mean" else (a & b).mean(axis=1)
    return float(accuracy.mean()), float(accuracy.std())


def _interval(first: np.ndarray, second: np.ndarray, settings: ValidationSettings) -> list[float] | None:
    """95 % percentile interval of kappa over resampled questions, each resample with a fill of its own.

    None without questions, or where kappa is undefined in more than one resample of twenty.
    """
    n, rounds = len(first), settings.bootstrap
    if n < 2 or not rounds:
        return None
    rng = np.random.default_rng([settings.seed, 2])
    drawn = rng.integers(0, n, size=(rounds, n))
    found = kappas(
        np.take_along_axis(fill(first, rounds, rng), drawn, axis=1),
        np.take_along_axis(fill(second, rounds, rng), drawn, axis=1),
    )
    defined = found[~np.isnan(found)]
    if len(defined) < 0.95 * rounds:
        return None
    return [float(x) for x in np.percentile(defined, [2.5, 97.5])]


def _multi_hop(pairs: Sequence[_Pair]) -> Row:
    """Shares of answers and of questions that are judged multi-hop; people may differ, and the paper names no rule."""
    said = [[a.multi_hop for a in (p.first, p.second) if a.multi_hop is not None] for p in pairs]
    votes = [vote for both in said for vote in both]
    full = [both for both in said if len(both) == 2]
    return {
        "answers": len(votes),
        "share": sum(votes) / len(votes) if votes else None,
        "questions": len(full),
        "both": sum(all(both) for both in full) / len(full) if full else None,
        "any": sum(any(both) for both in full) / len(full) if full else None,
        "differ": sum(both[0] != both[1] for both in full),
    }


def _by(pairs: Sequence[_Pair], names: Callable[[_Pair], Sequence[str]]) -> dict[str, list[_Pair]]:
    """Questions by name, the largest group first."""
    groups: dict[str, list[_Pair]] = {}
    for pair in pairs:
        for name in names(pair):
            groups.setdefault(name, []).append(pair)
    return dict(sorted(groups.items(), key=lambda item: (-len(item[1]), item[0])))


def _line(question: VerifiedQuestion, reasons: Sequence[str] = ()) -> Row:
    line: Row = {
        "task": question.task,
        "row": question.row,
        "key": question.key,
        "record_hash": question.record_hash,
        "question_id": question.question_id,
        "question_type": question.question_type,
        "question": question.question,
    }
    return line | ({"reasons": list(reasons)} if reasons else {})


def _for_judge(pair: _Pair) -> Row:
    question = pair.question
    return _line(question) | {
        "choices": list(question.choices),
        "images": list(question.images),
        "answers": [
            {
                "person": answer.person,
                "choice": None if answer.choice is None else LETTERS[answer.choice],
                "knows": answer.knows,
                "rationale": answer.rationale,
            }
            for answer in (pair.first, pair.second)
        ],
    }


def _notes(found: Verification, pairs: Sequence[_Pair], agreement: bool) -> list[str]:
    notes = []
    if found.repeated:
        notes.append(f"{found.repeated} answers were replaced by a later one of the same person to the same question")
    if found.unmatched:
        shown = ", ".join(found.unmatched[:3])
        notes.append(f"{len(found.unmatched)} answers belong to no question given, such as {shown}")
    together = Counter(_people(pair) for pair in pairs)
    if together and len(together) > 1:
        notes.append(f"answers come from {len(together)} pairs of people, so first and second are mere places")
    if agreement:
        notes.append(
            "questions are kept only where both answers are alike, so kappa of what is kept is 1 by construction; "
            "the published .834 cannot be of such a set"
        )
    alone = sum(answer.choice is not None and not answer.knows for answer in found.answers)
    if alone:
        notes.append(f'{alone} guesses beside an "I don\'t know" do not count: a random option does, as published')
    return notes


def _hop_line(found: Row, published: float) -> str:
    if found["share"] is None:
        return f"Multi-hop: not judged (published, other questions: {_percent(published)} %)."
    line = f"Multi-hop: {_percent(found['share'])} % of {found['answers']} judgements"
    if found["questions"]:
        line += f"; both say so for {_percent(found['both'])} %, one of two at least for {_percent(found['any'])} %"
    return line + f" (published, other questions: {_percent(published)} %)."


def _table_row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f}"


def _kappa(value: float | None, spread: float | None = None) -> str:
    if value is None:
        return "–"
    return f"{value:.3f}" + (f" ± {spread:.3f}" if spread else "")


def _range(interval: Sequence[float] | None, scale: float, digits: int) -> str:
    return "–" if interval is None else f"{scale * interval[0]:.{digits}f} to {scale * interval[1]:.{digits}f}"
