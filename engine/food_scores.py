"""Outcomes of multiple-choice questions on food -> every number that a report states; nothing is printed here."""

import itertools
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from data.food_names import display_category, display_cuisine, display_type
from data.records import LETTERS, FoodQuestion
from data.store import digest_of
from models.answers import Outcome
from models.metrics import clustered_wilson, paired_permutation, wilson_interval

CHANCE = 0.25  # every question has four options and one right answer
IDENTITY = (0, 1, 2, 3)
ROTATIONS = tuple(tuple((i + k) % 4 for i in range(4)) for k in range(4))
ORDERS = tuple(itertools.permutations(range(4)))
ATTRIBUTES = {"question_type": "question type", "cuisine": "cuisine", "category": "food category"}
_DISPLAY = {"question_type": display_type, "cuisine": display_cuisine, "category": display_category}
_CUT = ("length", "max_tokens")  # finish reasons of a reply that hit its limit
Row = dict[str, Any]


def summarise(
    outcomes: Sequence[Outcome],
    questions: Sequence[FoodQuestion],
    failed: Sequence[tuple[str, int, tuple[int, ...], str]] = (),
    *,
    identity: Mapping[str, Any],
    settings: Mapping[str, Any],
    data_title: str,
    is_demo: bool,
    notes: Sequence[str] = (),
) -> Row:
    """Everything a report on one task says, as plain values that JSON can hold.

    Accuracy is right / n with n = the questions that got a reply; a reply without a readable answer is wrong and is
    counted. A question without any reply leaves the run incomplete: `complete` is False, the prompt carries `bounds`,
    the accuracy if all missing ones were wrong or right.

    Args:
        outcomes: of one method; any order; each (prompt, row, order) once.
        questions: all that were asked, of one task and language.
        failed: (prompt id, row, order, error) of requests that got no reply.
        identity: of the backend: model, revision, backend, version, generation settings.
        settings: `system` (name for the table), `method`, `prompt_variant`, `prefill`, `ablation`, `permutation`,
            `left_out_of_rotation`, `extraction`, `extractor_version`, `seed`, `min_n` (groups below it are merged).
        data_title: name of the data set.
        is_demo: whether it is a generated set, which is never FoodieQA.
        notes: sentences that readers of the numbers should know.

    Returns:
        `test/accuracy` is the mean over prompts of the accuracy in the file's own order of options, None without any
        reply. All shares and accuracies are in [0, 1].

    Raises:
        ValueError: no questions, several tasks, languages or methods, an outcome given twice or of no question asked.
    """
    _check(outcomes, questions)
    seed, minimum = int(settings.get("seed", 0)), int(settings.get("min_n", 10))
    ids = _prompt_ids(outcomes, failed)
    own = {(o.prompt, o.question.row): o for o in outcomes if o.order == IDENTITY}
    credit = np.full((len(ids), len(questions)), np.nan)  # (prompts, questions)
    for i, prompt in enumerate(ids):
        for j, question in enumerate(questions):
            if (found := own.get((prompt, question.row))) is not None:
                credit[i, j] = found.credit
    clusters = np.asarray([cluster_of(q) for q in questions])
    prompts = [
        _prompt_row(prompt, ids[prompt], [own.get((prompt, q.row)) for q in questions], questions, clusters, seed)
        for prompt in ids
    ]
    over = _over_prompts(prompts, credit, clusters, seed)
    best = [row["prompt"] for row in prompts].index(over["best"]["prompt"]) if over["best"] else 0
    missing = sum(row["missing"] for row in prompts) + sum(order != IDENTITY for _, _, order, _ in failed)
    first = questions[0]
    summary: Row = {
        "test/accuracy": over["mean"],
        "test/n": len(questions),
        "task": first.task,
        "language": first.language,
        "data": data_title,
        "is_demo": bool(is_demo),
        "data_digest": digest_of([[q.row, q.record_hash] for q in questions])[:32],
        "model": str(settings.get("system") or identity.get("model") or "model"),
        "method": outcomes[0].method if outcomes else str(settings.get("method", "")),
        "ablation": str(settings.get("ablation", "none")),
        "headline": _headline(identity, settings),
        "n": len(questions),
        "clusters": len(np.unique(clusters)),
        "cluster_name": {"mivqa": "sets of photos", "sivqa": "photos", "textqa": "dishes"}.get(first.task, "clusters"),
        "complete": missing == 0,
        "missing": missing,
        "errors": dict(Counter(error for *_, error in failed).most_common(10)),
        "min_n": minimum,
        "prompts": prompts,
        "over_prompts": over,
        "truth": _counts([q.answer for q in questions]),
        "positions": _positions(outcomes, failed, ids, settings, questions),
        "groups": [_groups(a, questions, credit, best, minimum) for a in ATTRIBUTES if _has(questions, a)],
        "cross": _cross(questions, credit, minimum),
        "baselines": baselines(questions),
        "identity": _plain(dict(identity)),
        "settings": _plain(dict(settings)),
        "notes": list(notes),
    }
    for row in [*prompts, *(summary["positions"] or {"prompts": []})["prompts"]]:
        row["label"] = prompt_name(row["prompt"]) if row["prompt"] != "none" else summary["model"]
    summary["verdict"] = _verdict(summary, credit, clusters, questions, seed)
    return summary


# ------------------------------------------------------------------------------------------------------------- checks


def _check(outcomes: Sequence[Outcome], questions: Sequence[FoodQuestion]) -> None:
    if not questions:
        raise ValueError("no question was asked")
    for what, values in (
        ("tasks", {q.task for q in questions}),
        ("languages", {q.language for q in questions}),
        ("methods", {o.method for o in outcomes}),
    ):
        if len(values) > 1:
            raise ValueError(f"several {what} in one report: {', '.join(sorted(values))}")
    rows = {q.row: q.record_hash for q in questions}
    if len(rows) != len(questions):
        raise ValueError("a row of the file was asked twice")
    seen = set()
    for o in outcomes:
        key = (o.prompt, o.question.row, o.order)
        if key in seen:
            raise ValueError(f"prompt {o.prompt}, row {o.question.row}, order {o.order}: two outcomes")
        if rows.get(o.question.row) != o.question.record_hash:
            raise ValueError(f"row {o.question.row}: an outcome of a question that was not asked")
        seen.add(key)


def cluster_of(question: FoodQuestion) -> str:
    """The question's cluster; one that has none is a cluster of its own."""
    return question.cluster or f"\0{question.task} {question.row}"


def _prompt_ids(outcomes: Sequence[Outcome], failed: Sequence[tuple[str, int, tuple[int, ...], str]]) -> dict[str, int]:
    """Prompts in their order, with their index; one that only failed goes behind the others."""
    found = {o.prompt: o.index for o in outcomes}
    found |= {prompt: len(found) for prompt, *_ in failed if prompt not in found}
    return dict(sorted(found.items(), key=lambda item: (item[1], item[0])))


def _headline(identity: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, str]:
    """What was run, label -> value, in the order a reader asks for it."""
    order = (
        "method",
        "prompt_variant",
        "prefill",
        "ablation",
        "permutation",
        "extraction",
        "extractor_version",
        "seed",
    )
    found = {key: settings.get(key) for key in order}
    found |= {key: value for key, value in settings.items() if key not in (*order, "system", "min_n")}
    flat: dict[str, str] = {}
    for name, value in [*found.items(), *identity.items()]:
        if value is None or value == "" or value == [] or value == {}:
            continue
        if isinstance(value, Mapping):
            text = ", ".join(f"{k} {v}" for k, v in value.items() if v is not None)
        else:
            text = ", ".join(map(str, value)) if isinstance(value, list | tuple | set) else str(value)
        flat.setdefault(name.replace("_", " "), text)
    return flat


def _plain(value: Any) -> Any:
    """Nested values as JSON can hold them."""
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple | set):
        return [_plain(v) for v in value]
    return value if isinstance(value, str | int | float | bool | None) else str(value)


# ------------------------------------------------------------------------------------------------------------ prompts


def score_row(credit: np.ndarray, clusters: np.ndarray) -> Row:
    """n, right, accuracy and both intervals of some credits (N,); None where there is nothing to count."""
    n, right = len(credit), float(credit.sum())
    return {
        "n": n,
        "right": right,
        "accuracy": right / n if n else None,
        "interval": list(wilson_interval(right, n)) if n else None,
        "clustered": list(clustered_wilson(credit, clusters)) if n else None,
    }


def _prompt_row(
    prompt: str,
    index: int,
    found: Sequence[Outcome | None],
    questions: Sequence[FoodQuestion],
    clusters: np.ndarray,
    seed: int,
) -> Row:
    """One prompt's numbers in the file's own order of options."""
    answered = [o for o in found if o is not None]
    held = np.asarray([o is not None for o in found])
    row: Row = {"prompt": prompt, "index": index, "asked": len(questions), "missing": len(questions) - len(answered)}
    row |= score_row(np.asarray([o.credit for o in answered]), clusters[held])
    if row["missing"]:
        row["bounds"] = [row["right"] / len(questions), (row["right"] + row["missing"]) / len(questions)]
    unread = Counter(o.reason for o in answered if o.shown is None)
    count = sum(unread.values())
    row["failures"] = {"count": count, "rate": count / len(answered) if answered else None, "by_reason": dict(unread)}
    row["reasons"] = dict(Counter(o.reason for o in answered).most_common())
    row["flags"] = dict(Counter(flag for o in answered for flag in o.flags).most_common())
    row["truncated"] = sum(o.finish_reason in _CUT or "truncated" in (o.reason, *o.flags) for o in answered)
    row["conflicts"] = sum("conflict" in o.flags for o in answered)
    row["ties"] = sum(0 < o.credit < 1 or "tie" in o.flags for o in answered)
    masses = [o.letter_mass for o in answered if o.letter_mass is not None]
    row["letter_mass"] = (
        {"mean": float(np.mean(masses)), "below_half": float(np.mean(np.asarray(masses) < 0.5))} if masses else None
    )
    row["letters"] = _letters(answered)
    row["published_parser"] = published_parser(answered, seed)
    return row


def _counts(places: Sequence[int | None]) -> list[int]:
    """How often each of the four places occurs."""
    return [sum(place == letter for place in places) for letter in range(4)]


def _letters(answered: Sequence[Outcome]) -> Row:
    """Letters among the answers, as shown, and among the truths of the same questions; right answers by true letter."""
    answers = _counts([o.shown for o in answered])
    places = [o.order.index(o.question.answer) for o in answered]
    truth = _counts(places)
    right = [float(sum(o.credit for o, p in zip(answered, places, strict=True) if p == k)) for k in range(4)]
    given, all_ = sum(answers), len(answered)
    distance = 0.5 * sum(abs(a / given - t / all_) for a, t in zip(answers, truth, strict=True)) if given else None
    return {
        "answers": answers,
        "truth": truth,
        "right": right,
        "p_uniform": uniform_p(answers),
        "p_truth_uniform": uniform_p(truth),
        "distance_to_truth": distance,  # total variation: share of the answers that would have to move
    }


def uniform_p(counts: Sequence[int]) -> float | None:
    """p-value that four counts come from four equally likely letters; None without any.

    Chi-square with three degrees of freedom, or the exact multinomial test where fewer than five are expected of each.
    """
    n = sum(counts)
    if n == 0:
        return None
    if n >= 20:
        x = sum((c - n / 4) ** 2 for c in counts) / (n / 4)
        return min(1.0, math.erfc(math.sqrt(x / 2)) + math.sqrt(2 * x / math.pi) * math.exp(-x / 2))

    def ways(split: Sequence[int]) -> int:
        found = math.factorial(n)
        for count in split:
            found //= math.factorial(count)
        return found

    observed, total = ways(counts), 0
    for a in range(n + 1):
        for b in range(n + 1 - a):
            for c in range(n + 1 - a - b):
                if (w := ways((a, b, c, n - a - b - c))) <= observed:
                    total += w
    return total / 4**n


def published_parser(answered: Sequence[Outcome], seed: int) -> Row | None:
    """What the published rule makes of the same replies: the first letter A to D anywhere, else a guess.

    One seeded guess for each reply without a letter; `expected` counts each of them 1/4. None unless replies were
    generated. For comparison only: the rule takes the A of `Answer: B` and hides failures.
    """
    if not answered or answered[0].method != "generate":
        return None
    from models.extraction import first_letter_random

    right = guesses = read = 0
    for o in answered:
        drawn = int(digest_of([seed, o.prompt, o.question.row, list(o.order)])[:8], 16)
        shown, guessed = first_letter_random(o.response or "", seed=drawn)
        hit = o.order[shown] == o.question.answer
        right += hit
        guesses += guessed
        read += hit and not guessed
    n = len(answered)
    return {
        "accuracy": right / n,
        "right": right,
        "n": n,
        "guessed": guesses,
        "expected": (read + guesses / 4) / n,
        "interval": list(wilson_interval(right, n)),
    }


def _over_prompts(prompts: Sequence[Row], credit: np.ndarray, clusters: np.ndarray, seed: int) -> Row:
    """Mean, sd and best over prompts. The interval is of the mean: credits of a question averaged over prompts."""
    rows = [row for row in prompts if row["accuracy"] is not None]
    if not rows:
        return {"k": 0, "mean": None, "sd": None, "interval": None, "clustered": None, "best": None}
    values = [row["accuracy"] for row in rows]
    per_question, held = _per_question(credit)
    both = score_row(per_question[held], clusters[held])
    top = rows[int(np.argmax(values))]
    mean = float(np.mean(values))
    gain = gain_of_best(len(rows), min(row["n"] for row in rows), mean, seed)
    best = {
        "prompt": top["prompt"],
        "index": top["index"],
        "accuracy": top["accuracy"],
        "interval": top["interval"],
        "above_mean": top["accuracy"] - mean,
        "gain_of_choosing": gain,
        "note": f"best of {len(rows)}, chosen on the test set" if len(rows) > 1 else "the only prompt",
    }
    return {
        "k": len(rows),
        "mean": mean,
        "sd": float(np.std(values, ddof=1)) if len(rows) > 1 else None,
        "interval": both["interval"],
        "clustered": both["clustered"],
        "best": best,
    }


def gain_of_best(k: int, n: int, accuracy: float, seed: int = 0, draws: int = 20_000) -> float:
    """How much the best of k equally good, independent prompts exceeds their accuracy on n questions, by simulation.

    Prompts asked on the same questions are not independent, so the true gain of choosing is rather smaller.
    """
    if k < 2 or n < 1:
        return 0.0
    drawn = np.random.default_rng(seed).binomial(n, min(max(accuracy, 0.0), 1.0), size=(draws, k))
    return float(drawn.max(axis=1).mean() / n - accuracy)


def _per_question(credit: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Credit of each question averaged over the prompts that got a reply, and which questions have one; (N,) each."""
    held = ~np.isnan(credit)
    count = held.sum(axis=0)
    total = np.where(held, credit, 0.0).sum(axis=0)
    return total / np.maximum(count, 1), count > 0


# ---------------------------------------------------------------------------------------------------------- positions


def _positions(
    outcomes: Sequence[Outcome],
    failed: Sequence[tuple[str, int, tuple[int, ...], str]],
    ids: Mapping[str, int],
    settings: Mapping[str, Any],
    questions: Sequence[FoodQuestion],
) -> Row | None:
    """How much the order of the options matters; None where all were asked in one order only.

    Counted on the questions that got a reply in every order. `circular`: right in all four rotations; `all_orders`: in
    all 24. A reply without a readable answer in any order makes the question wrong there.
    """
    orders = {o.order for o in outcomes}
    if len(orders) < 2:
        return None
    wanted = ORDERS if len(orders) > len(ROTATIONS) else ROTATIONS
    clusters = {q.row: cluster_of(q) for q in questions}
    # A question asked in its own order only was left out of the rotation: it names a position.
    rotated = {(o.prompt, o.question.row) for o in outcomes if o.order != IDENTITY}
    rotated |= {(prompt, row) for prompt, row, order, _ in failed if order != IDENTITY}
    rows: list[Row] = []
    for prompt in ids:
        by_row: dict[int, dict[tuple[int, ...], Outcome]] = {}
        for o in outcomes:
            if o.prompt == prompt:
                by_row.setdefault(o.question.row, {})[o.order] = o
        tried = {row for name, row in rotated if name == prompt}
        whole = {
            row: found for row, found in by_row.items() if row in tried and all(order in found for order in wanted)
        }
        rows.append({"prompt": prompt, "incomplete": len(tried) - len(whole), **_position_row(whole, wanted, clusters)})
    left_out = settings.get("left_out_of_rotation")
    if left_out is None:
        several = {row for _, row in rotated}
        left_out = sum(q.row not in several for q in questions)
    return {
        "orders": len(wanted),
        "left_out": left_out if isinstance(left_out, int) else len(left_out),
        "chance_circular": CHANCE ** len(ROTATIONS),
        "prompts": rows,
    }


def _position_row(
    whole: Mapping[int, Mapping[tuple[int, ...], Outcome]],
    wanted: Sequence[tuple[int, ...]],
    clusters: Mapping[int, str],
) -> Row:
    if not whole:
        return {"n": 0}
    labels = np.asarray([clusters[row] for row in whole])
    found = [[by_order[order] for order in wanted] for by_order in whole.values()]  # N lists of one outcome an order
    credit = np.asarray([[o.credit for o in row] for row in found])  # (N, orders)
    cycle = [wanted.index(order) for order in ROTATIONS]
    every = [o for row in found for o in row]
    same = [len({o.choice for o in row}) == 1 and row[0].choice is not None for row in found]
    stuck = [len({o.shown for o in row}) == 1 and row[0].shown is not None for row in found]
    letters = _letters(every)
    row: Row = {
        "n": len(found),
        "vanilla": score_row(credit[:, wanted.index(IDENTITY)], labels),
        "mean": score_row(credit.mean(axis=1), labels),
        "circular": score_row((credit[:, cycle] == 1).all(axis=1).astype(float), labels),
        "all_orders": None,
        "failed_in_any": sum(any(o.shown is None for o in row) for row in found),
        "failures": sum(o.shown is None for o in every),
        "same_content": sum(same),
        "same_content_share": float(np.mean(same)),
        "same_letter": sum(stuck),
        "same_letter_share": float(np.mean(stuck)),
        "letters": letters,
        "by_place": [
            {"letter": letter, "n": n, "right": right, "accuracy": right / n if n else None}
            for letter, n, right in zip(LETTERS, letters["truth"], letters["right"], strict=True)
        ],
    }
    if len(wanted) > len(ROTATIONS):
        row["all_orders"] = score_row((credit == 1).all(axis=1).astype(float), labels)
    return row


# ------------------------------------------------------------------------------------------------------------- groups


def _has(questions: Sequence[FoodQuestion], attribute: str) -> bool:
    return any(getattr(q, attribute).strip() for q in questions)


def _groups(attribute: str, questions: Sequence[FoodQuestion], credit: np.ndarray, best: int, minimum: int) -> Row:
    """Accuracy by one attribute: `all` groups, and `rows` where those below the minimum are one.

    Groups with one English name are one group. Questions that lack the attribute are in none: cuisines and food
    categories of multi-image questions are disjoint sets. Right answers are means over the prompts; `best` are those of
    the best prompt, which is what the paper shows.
    """
    per_question, held = _per_question(credit)
    labels = np.asarray([_DISPLAY[attribute](getattr(q, attribute)) for q in questions])
    given = np.asarray([bool(getattr(q, attribute).strip()) for q in questions])
    clusters = np.asarray([cluster_of(q) for q in questions])

    def counted(label: str, member: np.ndarray) -> Row:
        chosen = member & held
        top = credit[best][chosen & ~np.isnan(credit[best])]
        return {
            "label": label,
            "spelled": sorted({getattr(questions[i], attribute).strip() for i in np.flatnonzero(member).tolist()}),
            **score_row(per_question[chosen], clusters[chosen]),
            "best": {"n": len(top), "right": float(top.sum()), "accuracy": float(top.mean()) if len(top) else None},
            "small": int(chosen.sum()) < minimum,
        }

    everything = [counted(str(label), given & (labels == label)) for label in np.unique(labels[given])]
    everything.sort(key=lambda row: (-row["n"], row["label"]))
    rows, small = [row for row in everything if not row["small"]], [row for row in everything if row["small"]]
    if len(small) > 1 and rows:
        rows.append(counted(f"other (n<{minimum})", given & np.isin(labels, [row["label"] for row in small])))
        rows[-1]["merged"] = [row["label"] for row in small]
    else:
        rows += small
    return {
        "attribute": attribute,
        "name": ATTRIBUTES[attribute],
        "n": int(given.sum()),
        "rows": rows,
        "all": everything,
    }


def _cross(questions: Sequence[FoodQuestion], credit: np.ndarray, minimum: int) -> Row | None:
    """Right answers (mean over prompts) and n, cuisines and food categories by question type; None without either.

    Question types below the minimum are one column, as in the tables.
    """
    per_question, held = _per_question(credit)
    types = [display_type(q.question_type) for q in questions]
    counts = Counter(types)
    small = {label for label, n in counts.items() if n < minimum}
    other = f"other (n<{minimum})"
    merged = small if 1 < len(small) < len(counts) else set()
    columns = [label for label, _ in counts.most_common() if label not in merged]
    columns += [other] if merged else []
    blocks = []
    for attribute in ("cuisine", "category"):
        labels = [getattr(q, attribute).strip() and _DISPLAY[attribute](getattr(q, attribute)) for q in questions]
        names = [label for label, _ in Counter(filter(None, labels)).most_common()]
        n, right = np.zeros((len(names), len(columns)), int), np.zeros((len(names), len(columns)))
        for i, label in enumerate(labels):
            if label and held[i]:
                cell = names.index(label), columns.index(types[i] if types[i] in columns else other)
                n[cell] += 1
                right[cell] += per_question[i]
        if names:
            block = {"attribute": attribute, "name": ATTRIBUTES[attribute], "rows": names}
            blocks.append({**block, "n": n.tolist(), "right": right.tolist()})
    return {"columns": columns, "blocks": blocks} if blocks else None


# ---------------------------------------------------------------------------------------------------------- baselines


def baselines(questions: Sequence[FoodQuestion]) -> list[Row]:
    """Trivial systems on the very questions: chance, a constant letter, lengths of options, majority by type.

    Ties count at their expected value. The rule by type is fitted on the questions it is scored on, and marked so.
    """
    clusters = np.asarray([cluster_of(q) for q in questions])
    answers = np.asarray([q.answer for q in questions])
    rows: list[Row] = [
        {"system": "chance", "n": len(questions), "right": len(questions) * CHANCE, "accuracy": CHANCE, "note": ""}
        | {"interval": None, "clustered": None}
    ]

    def add(system: str, credit: np.ndarray, note: str = "") -> None:
        rows.append({"system": system, **score_row(credit, clusters), "note": note})

    for place, letter in enumerate(LETTERS):
        add(f"always {letter}", (answers == place).astype(float))
    texts = [q for q in questions if not q.image_options]
    if texts:
        note = (
            "" if len(texts) == len(questions) else f"{len(questions) - len(texts)} questions without texts by chance"
        )
        for system, pick in (("longest option", max), ("shortest option", min)):
            add(system, np.asarray([_by_length(q, pick) for q in questions]), note)
    majority: dict[str, int] = {}
    for kind in {q.question_type for q in questions}:
        majority[kind] = int(np.argmax(_counts([q.answer for q in questions if q.question_type == kind])))
    credit = np.asarray([float(q.answer == majority[q.question_type]) for q in questions])
    add("majority letter by question type", credit, "fitted on these")
    return rows


def _by_length(question: FoodQuestion, pick: Any) -> float:
    if question.image_options:
        return CHANCE
    lengths = [len(choice.strip()) for choice in question.choices]
    chosen = pick(lengths)
    return (lengths[question.answer] == chosen) / lengths.count(chosen)


# ------------------------------------------------------------------------------------------------------------ verdict


def prompt_name(prompt: str) -> str:
    """A prompt's id for people: `mivqa.zh.0.paper` is `prompt 0 (paper)`."""
    found = re.fullmatch(r"[a-z]+\.[a-z]+\.(\d+)\.(.+)", prompt)
    return f"prompt {found[1]} ({found[2]})" if found else prompt


def percent(value: float | None, digits: int = 1) -> str:
    """A share as per cent, or a dash."""
    return "–" if value is None else f"{100 * value:.{digits}f}"


def _verdict(
    summary: Row, credit: np.ndarray, clusters: np.ndarray, questions: Sequence[FoodQuestion], seed: int
) -> list[str]:
    """What the numbers allow to say, in sentences."""
    over, name = summary["over_prompts"], summary["model"]
    lines = []
    if not summary["complete"]:
        lines.append(
            f"incomplete: {summary['missing']} requests got no reply, so accuracies are of the others only; "
            "run again to ask them"
        )
    if over["mean"] is None:
        return lines
    prompts = [row for row in summary["prompts"] if row["n"]]
    unread, replies = sum(row["failures"]["count"] for row in prompts), sum(row["n"] for row in prompts)
    cut = sum(row["truncated"] for row in prompts)
    if unread > replies / 5:
        remedy = "more new tokens (model.max_new_tokens, model.max_tokens), or " if cut > replies / 5 else ""
        lines.append(
            f"{unread} of {replies} replies could not be read, so these accuracies say more about the form of the "
            f"replies than about food: try {remedy}asking.method=logprob, where the model gives it"
        )
    low, high = over["clustered"]
    shown = f"{percent(over['mean'])} % ({percent(low)} to {percent(high)}) against 25 %"
    words = (
        "beats chance" if low > CHANCE else "is worse than chance" if high < CHANCE else "cannot be told from chance"
    )
    mean = f"mean over {over['k']} prompts " if over["k"] > 1 else ""
    lines.append(f"{name} {words}: {mean}{shown}")
    if over["k"] > 1:
        best = over["best"]
        lines.append(
            f"the best prompt, {prompt_name(best['prompt'])}, has {percent(best['accuracy'])} %: {best['note']}, "
            f"{100 * best['above_mean']:.1f} points above the mean; choosing among {over['k']} equally good prompts "
            f"gains {100 * best['gain_of_choosing']:.1f} points"
        )
    lines += _against_trivial(summary, credit, clusters, questions, seed)
    if unread:
        reasons = Counter()
        for row in prompts:
            reasons.update(row["failures"]["by_reason"])
        shown = ", ".join(f"{reason} {count}" for reason, count in reasons.most_common())
        lines.append(f"no answer could be read in {unread} of {replies} replies, counted as wrong: {shown}")
    if cut:
        lines.append(f"{cut} of {replies} replies were cut off by the limit of new tokens")
    lines += _letter_lines(prompts)
    lines += _parser_lines(prompts, str(summary["settings"].get("extraction", "")))
    if summary["positions"]:
        lines += [
            f"{row['label']}: right in all four rotations {percent(row['circular']['accuracy'])} % "
            f"(chance 0.4), in the file's order {percent(row['vanilla']['accuracy'])} %; the same option in all orders "
            f"in {percent(row['same_content_share'])} % of {row['n']} questions"
            for row in summary["positions"]["prompts"]
            if row["n"]
        ]
    return lines


def _against_trivial(
    summary: Row, credit: np.ndarray, clusters: np.ndarray, questions: Sequence[FoodQuestion], seed: int
) -> list[str]:
    """Paired comparison with the best constant letter, over clusters."""
    constant = max(
        (row for row in summary["baselines"] if row["system"].startswith("always")), key=lambda r: r["accuracy"]
    )
    per_question, held = _per_question(credit)
    place = LETTERS.index(constant["system"][-1])
    rule = np.asarray([float(q.answer == place) for q in questions])
    p = paired_permutation(per_question[held], rule[held], clusters[held], seed=seed, rounds=2000)
    mean, name = float(per_question[held].mean()), summary["model"]
    against = f"{constant['system']} ({percent(constant['accuracy'])} %, p = {p:.2g})"
    if p >= 0.05:
        lines = [f"{name} and {against}: no difference that these questions could show"]
    else:
        lines = [f"{name} {'beats' if mean > rule[held].mean() else 'loses to'} {against}"]
    lines += [
        f"a trivial rule scores as high or higher: {row['system']} {percent(row['accuracy'])} %"
        + (", fitted on these very questions" if row["system"].startswith("majority") else "")
        for row in summary["baselines"]
        if not row["system"].startswith("always") and row["system"] != "chance" and row["accuracy"] >= mean
    ]
    return lines


def _letter_lines(prompts: Sequence[Row]) -> list[str]:
    lines = []
    for row in prompts:
        answers, given = row["letters"]["answers"], sum(row["letters"]["answers"])
        if not given:
            continue
        top = int(np.argmax(answers))
        if answers[top] == given and given >= 5:
            lines.append(f"{row['label']}: every answer is {LETTERS[top]}")
        elif (row["letters"]["p_uniform"] or 1.0) < 0.001 and answers[top] / given > 0.4:
            share, truth = answers[top] / given, row["letters"]["truth"][top] / sum(row["letters"]["truth"])
            lines.append(
                f"{row['label']}: {percent(share, 0)} % of the answers are {LETTERS[top]}, which is "
                f"right in {percent(truth, 0)} %"
            )
    return lines


def _parser_lines(prompts: Sequence[Row], extraction: str) -> list[str]:
    if extraction == "first_letter_random":
        guessed = sum(row["reasons"].get("guessed", 0) for row in prompts)
        return [f"answers were read by the published parser, which guessed {guessed} of them: no honest figure"]
    lines = []
    for row in prompts:
        parser = row["published_parser"]
        if parser and (parser["guessed"] or abs(parser["accuracy"] - row["accuracy"]) > 1e-9):
            lines.append(
                f"{row['label']}: the published parser would say {percent(parser['accuracy'])} % "
                f"instead of {percent(row['accuracy'])} %, {parser['guessed']} of {parser['n']} answers guessed"
            )
    return lines
