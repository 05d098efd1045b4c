"""Any set of runs as tables: means over seeds, intervals, paired tests, published rows beside them, what differs."""

import itertools
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from data.recipeqa import published_rows
from data.records import FOOD_TASKS, TASKS
from engine.food_compare import mcnemar_exact
from engine.food_published import published_food_rows
from engine.retrieval_report import SIZES, published_retrieval_rows
from engine.run_records import CHANGED, RANK_KEYS, Result, clean
from models.metrics import clustered_wilson, holm, paired_permutation, wilson_interval
from models.ranks import DIRECTIONS, pool_name

Row = dict[str, Any]
ROUNDS = 10_000  # of permutations and of the bootstrap
MOST_PAIRS = 500  # of one table, beyond which only the highest row is compared
MOST_KEYS = 3  # settings that a name shows


@dataclass(eq=False)
class Entry:
    """A row of a table: one system, all its seeds."""

    system: str
    results: list[Result]
    reference: bool = True  # measured on the questions that most rows of its section share
    flags: list[str] = field(default_factory=list)

    @property
    def first(self) -> Result:
        return self.results[0]

    @property
    def values(self) -> list[float]:
        """Accuracy of each seed; of retrieval nothing."""
        return [r.value for r in self.results if r.value is not None]

    @property
    def same_questions(self) -> bool:
        return len({r.questions for r in self.results}) == 1 and bool(self.first.questions)

    @property
    def mean(self) -> float:
        return float(np.mean(self.values))

    @property
    def sd(self) -> float | None:
        return deviation(self.values)

    @property
    def credit(self) -> np.ndarray:
        """(N,) credit of each question, averaged over seeds; empty where they were asked other questions."""
        return np.mean([r.credit for r in self.results], axis=0) if self.same_questions else np.zeros(0)

    @property
    def interval(self) -> tuple[float, float] | None:
        """95 % interval of the mean for other questions of the same kind; seeds are in `sd`.

        The run's own where there is one seed. For several the credits of a question are averaged, and the Wilson
        interval is clustered by recipe; None where the seeds were asked different questions.
        """
        if len(self.results) == 1:
            return self.first.interval
        if self.first.kind == "retrieval" or not self.same_questions:
            return None
        return clustered_wilson(self.credit, np.asarray(self.first.clusters))

    def rank(self, pool: str, direction: str, key: str) -> tuple[float, float | None, tuple[float, float] | None]:
        """Mean and deviation over seeds of one cell of a retrieval table, and the interval of a single run."""
        cells = [r.pools[pool][direction][key] for r in self.results]
        values = [cell["mean"] for cell in cells]
        bounds = cells[0]["interval"] if len(cells) == 1 else None
        return float(np.mean(values)), deviation(values), (bounds[0], bounds[1]) if bounds else None


@dataclass
class Section:
    """What was measured on one task of one data set."""

    kind: str
    data: str
    task: str
    split: str
    entries: list[Entry]
    baselines: list[Row]
    published: list[Row]
    comparisons: list[Row] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def title(self) -> str:
        n = Counter(e.first.n for e in self.entries if e.reference).most_common(1)[0][0]
        noun = "pairs" if self.kind == "retrieval" else "questions"
        what = "retrieval" if self.kind == "retrieval" else self.task.replace("_", " ")
        where = self.data if self.kind == "food" else f"{self.data}, {self.split}"
        return f"{what}: {where}, {n:,} {noun}"

    @property
    def pools(self) -> list[str]:
        """Pools of any run here, the smallest first."""
        sizes = {name: pool["size"] for e in self.entries for r in e.results for name, pool in r.pools.items()}
        return sorted(sizes, key=lambda name: (name == "all", sizes[name]))


def deviation(values: Sequence[float]) -> float | None:
    """Sample standard deviation (n - 1); None of a single value."""
    return float(np.std(values, ddof=1)) if len(values) > 1 else None


def sections_of(
    results: Iterable[Result], seed: int = 0, progress: Callable[[list[Any]], Iterable[Any]] = iter
) -> list[Section]:
    """Tables of all results: one for each data set, split and task.

    Args:
        results: in any order.
        seed: of the permutation tests and the bootstrap.
        progress: wraps the list of pairs that are compared, for a bar.
    """
    places: dict[tuple[str, ...], list[Result]] = defaultdict(list)
    for result in results:
        places[(result.kind, result.data, result.task, result.split)].append(result)
    sections = []
    for (kind, data, task, split), found in sorted(places.items(), key=lambda item: _order(item[0])):
        notes: list[str] = []
        entries = _entries(found, notes)
        if changed := sum(CHANGED in r.flags for r in found):
            notes.append(f"{changed} of {len(found)} runs were made by code with {CHANGED}")
        rows = _baselines(entries), _published(kind, task, entries)
        sections.append(Section(kind, data, task, split, entries, *rows, notes=notes))
    pairs = [(section, a, b) for section in sections for a, b in _pairs(section)]
    # The smallest p that permutations can give is 1 / (rounds + 1), which the correction multiplies.
    sizes = Counter(id(section) for section, _, _ in pairs)
    for section, a, b in progress(pairs):
        section.comparisons.append(compare_entries(a, b, seed, max(ROUNDS, 100 * sizes[id(section)])))
    for section in sections:
        _add_intervals(section, seed)
        for row, adjusted in zip(section.comparisons, holm([r["p"] for r in section.comparisons]), strict=True):
            row["holm_p"] = float(adjusted)
    return sections


def _order(place: tuple[str, ...]) -> tuple[Any, ...]:
    kind, data, task, split = place
    tasks = [*TASKS, *FOOD_TASKS, "retrieval"]
    return ["choice", "retrieval", "food"].index(kind), data, tasks.index(task.split("/")[0]), task, split


# -------------------------------------------------------------------------------------------------------------- rows


def _entries(found: list[Result], notes: list[str]) -> list[Entry]:
    """Runs that differ only in their seed are one row; the highest first."""
    digests = Counter(r.questions for r in found if r.questions)
    most = max(digests, key=lambda d: (digests[d], max(r.n for r in found if r.questions == d)), default="")
    groups: dict[str, list[Result]] = defaultdict(list)
    for result in found:
        groups[json.dumps([result.system, result.settings, sorted(result.pools)], sort_keys=True)].append(result)
    entries = []
    for members in groups.values():
        for part in _apart(members):
            entries.append(Entry(part[0].system, _newest(part, notes)))
    _name(entries)
    reference = [r for e in entries for r in e.results if r.questions == most]
    for entry in entries:
        entry.reference = entry.same_questions and entry.first.questions == most
        entry.flags = _flags(entry, reference)
    entries.sort(key=_best_first)
    return entries


def _apart(members: list[Result]) -> list[list[Result]]:
    """One system's results; apart where one seed answered several sets of questions (a checkpoint scored twice)."""
    sets: dict[int | None, set[str]] = defaultdict(set)
    for result in members:
        sets[result.seed].add(result.questions)
    if all(len(found) == 1 for found in sets.values()):
        return [members]
    parts: dict[str, list[Result]] = defaultdict(list)
    for result in members:
        parts[result.questions].append(result)
    return list(parts.values())


def _newest(members: list[Result], notes: list[str]) -> list[Result]:
    """One result a seed, the newest; in order of seeds."""
    by_seed: dict[int | None, list[Result]] = defaultdict(list)
    for result in sorted(members, key=lambda r: (r.modified, str(r.folder))):
        by_seed[result.seed].append(result)
    for seed, same in by_seed.items():
        if len(same) > 1:
            values = {r.value if r.value is not None else json.dumps(r.pools, sort_keys=True) for r in same}
            agree = "with the same result" if len(values) == 1 else "with different results, the newest counts"
            notes.append(f"{same[0].system}, seed {seed}: {len(same)} runs of the same settings {agree}")
    return [same[-1] for _, same in sorted(by_seed.items(), key=lambda item: (item[0] is None, item[0] or 0))]


def _name(entries: list[Entry]) -> None:
    """Tell rows of one name apart by the settings that differ, else by their folders."""
    by_name: dict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        by_name[entry.system].append(entry)
    for name, same in by_name.items():
        if len(same) == 1:
            continue
        settings = [{k: v for k, v in e.first.settings.items() if k != "folder"} for e in same]
        keys = [k for k in sorted(set().union(*settings)) if len({json.dumps(s.get(k, "–")) for s in settings}) > 1]
        parents = {k.rpartition(".")[0] for k in keys if k.endswith("._target_")}
        keys = [k for k in keys if k.endswith("._target_") or k.rpartition(".")[0] not in parents]
        for entry, found in zip(same, settings, strict=True):
            own = [key for key in keys if found.get(key) is not None]
            parts = [_setting(key, found[key]) for key in own[:MOST_KEYS]]
            parts += [f"{len(own) - MOST_KEYS} more"] if len(own) > MOST_KEYS else []
            entry.system = f"{name} ({', '.join(parts)})" if parts else name
    shown = Counter(entry.system for entry in entries)
    for entry in entries:
        if shown[entry.system] > 1:
            entry.system += f" [{clean(entry.first.folder.name, 40)}, n={entry.first.n}]"
    shown = Counter(entry.system for entry in entries)
    for entry in entries:  # folders of one name, as evaluations of several checkpoints at once are
        if shown[entry.system] > 1:
            entry.system += f" [{clean(str(entry.first.folder.parent), 60)}]"


def _setting(key: str, value: Any) -> str:
    if key.endswith("._target_"):
        return f"{key.split('.')[-2]}={str(value).rpartition('.')[2]}"
    return clean(f"{key.rpartition('.')[2]}={value}", 40)


def _best_first(entry: Entry) -> tuple[Any, ...]:
    if entry.first.kind != "retrieval":
        return not entry.reference, -entry.mean, entry.system
    pool = next(iter(entry.first.pools))
    return not entry.reference, entry.rank(pool, DIRECTIONS[0], "medR")[0], entry.system


def _flags(entry: Entry, reference: list[Result]) -> list[str]:
    """What makes a row differ from the others or from the benchmark."""
    flags = [flag for flag in dict.fromkeys(f for r in entry.results for f in r.flags) if flag != CHANGED]
    first = entry.first
    if len(entry.results) > 1 and not entry.same_questions:
        flags.append("each seed has its own questions: no interval, no test")
    elif reference and not entry.reference and first.questions:
        flags.append("other n" if first.n != reference[0].n else "other questions")
    files = {r.file for r in reference if r.file}
    if (
        entry.reference
        and first.file
        and files
        and first.file not in Counter(r.file for r in reference).most_common(1)[0]
    ):
        flags.append("other file of the same questions")
    if first.split != "test" and first.split != "all":
        flags.append(f"split {first.split}")
    return flags


def _baselines(entries: list[Entry]) -> list[Row]:
    """Chance, the best trivial rule and named baselines of the runs' own tables, unless they are rows themselves."""
    rows: dict[tuple[str, str], Row] = {}
    own = {e.first.system.replace("_", " ").lower() for e in entries}
    for entry in entries:
        if not entry.reference:
            continue
        for result in entry.results:
            for row in result.others:
                name = row["system"].lower()
                if name not in own and not (name.startswith("tfidf") and "sanity" in own):
                    rows.setdefault((name, row.get("pool", "")), row)
    found = list(rows.values())
    trivial = sorted(
        (r for r in found if r.get("kind") == "trivial" and r["system"] != "chance"), key=lambda r: -r["value"]
    )
    rest = [r for r in found if r.get("kind") != "trivial" or r["system"] == "chance"]
    return rest + [{**r, "system": f"best trivial rule: {r['system']}"} for r in trivial[:1]]


def _published(kind: str, task: str, entries: list[Entry]) -> list[Row]:
    """Published rows of the task, marked whether they were measured on the same questions as the runs."""
    same = any(e.first.official and e.reference for e in entries)
    if kind == "choice":
        n = entries[0].first.n
        return [
            {
                "system": f"{row['system']}, {row['year']}",
                "value": row["accuracy"] / 100,
                "interval": _share_interval(row["accuracy"] / 100, row["n"]),
                "n": row["n"],
                "same": same and row["split"] == entries[0].first.split and row["n"] == n,
                "note": "; ".join(filter(None, ["" if row["confirmed"] else "unconfirmed", row["split"]])),
                "source": row["source"],
            }
            for row in published_rows(task)
        ]
    if kind == "food":
        name, language, *ablation = task.split("/")
        return [
            {
                "system": row["system"],
                "value": row["accuracy"] / 100,
                "mean": row["accuracy"] / 100 if row["kind"] == "human" else row.get("mean") and row["mean"] / 100,
                "best": None if row["kind"] == "human" else row["accuracy"] / 100,
                "interval": _share_interval(row["accuracy"] / 100, row["n"]),
                "n": row["n"],
                "same": same,
                "note": "; ".join(
                    filter(None, ["" if row["kind"] == "human" else "best of four prompts", row["note"]])
                ),
                "source": row["source"],
            }
            for row in published_food_rows(name, language, ablation[0] if ablation else "none")
        ]
    rows: list[Row] = []
    for pool in [pool_name(size) for size in SIZES] if same else []:
        by_system: dict[str, Row] = {}
        for direction in DIRECTIONS:
            for found in published_retrieval_rows(pool, direction):
                name = f"{found['system']}, {found['year']}"
                note = "; ".join(
                    filter(
                        None,
                        [
                            "" if found["confirmed"] else "unconfirmed",
                            "ranks from 0" if found["medR_base"] == 0 else "",
                        ],
                    )
                )
                row = by_system.setdefault(
                    name,
                    {"system": name, "pool": pool, "same": True, "note": note, "source": found["source"]}
                    | {f"{d}/{k}": None for d in DIRECTIONS for k in RANK_KEYS},
                )
                for key in RANK_KEYS:
                    value = found[key]
                    row[f"{direction}/{key}"] = value if value is None or key == "medR" else value / 100
        rows += by_system.values()
    return rows


def _share_interval(share: float, n: int | None) -> tuple[float, float] | None:
    return wilson_interval(share * n, n) if n else None


# -------------------------------------------------------------------------------------------------------- comparisons


def _pairs(section: Section) -> list[tuple[Entry, Entry]]:
    """Rows to be compared: all pairs, or where these are too many the highest row with each other one."""
    pairs = [pair for pair in itertools.combinations(section.entries, 2) if _comparable(*pair)]
    if len(pairs) > MOST_PAIRS:
        best = next((e for e in section.entries if e.reference), section.entries[0])
        pairs = [pair for pair in pairs if best in pair]
        section.notes.append(
            f"{len(section.entries)} rows: compared with the highest only, which was chosen by its score"
        )
    return pairs


def _comparable(a: Entry, b: Entry) -> bool:
    """Whether both answered the very same questions of the same file."""
    return a.same_questions and b.same_questions and a.first.questions == b.first.questions


def compare_entries(a: Entry, b: Entry, seed: int = 0, rounds: int = ROUNDS) -> Row:
    """Paired comparison on the same questions, clustered by recipe (photo, dish).

    Returns:
        a, b; n, clusters; difference of the means; p of the permutation test over clusters; and, where both are right
        or wrong without shares (one seed, one prompt, no ties), only_a and only_b with the exact p of McNemar's test,
        which takes the questions as independent. `sections_of` adds `interval`, of the bootstrap over clusters, and
        `holm_p`, adjusted for all pairs of the section.
    """
    one, two, clusters = a.credit, b.credit, np.asarray(a.first.clusters)
    whole = bool(np.isin(one, (0, 1)).all() and np.isin(two, (0, 1)).all()) and a.first.kind != "retrieval"
    only_a, only_b = (int((x > y).sum()) if whole else None for x, y in ((one, two), (two, one)))
    return {
        "a": a.system,
        "b": b.system,
        "n": len(one),
        "clusters": len(np.unique(clusters)),
        "difference": float((one - two).mean()),
        "only_a": only_a,
        "only_b": only_b,
        "mcnemar_p": mcnemar_exact(only_a, only_b) if only_a is not None and only_b is not None else None,
        "p": paired_permutation(one, two, clusters, seed=seed, rounds=rounds),
        "rounds": rounds,
    }


def _add_intervals(section: Section, seed: int) -> None:
    """95 % bootstrap intervals of all differences; the draws of one set of questions serve all its pairs."""
    entries = {entry.system: entry for entry in section.entries}
    by_set: dict[str, list[Row]] = defaultdict(list)
    for row in section.comparisons:
        by_set[entries[row["a"]].first.questions].append(row)
    for rows in by_set.values():
        differences = np.stack([entries[row["a"]].credit - entries[row["b"]].credit for row in rows], axis=1)
        low, high = cluster_bootstraps(differences, entries[rows[0]["a"]].first.clusters, seed)
        for i, row in enumerate(rows):
            row["interval"] = float(low[i]), float(high[i])


def cluster_bootstraps(
    differences: np.ndarray, clusters: Sequence[str], seed: int = 0, rounds: int = ROUNDS
) -> tuple[np.ndarray, np.ndarray]:
    """95 % percentile intervals of the column means of (N, P) values, drawing whole clusters with replacement.

    Returns:
        (P,) lower and (P,) upper bounds.
    """
    labels, member = np.unique(np.asarray(clusters), return_inverse=True)
    size = np.bincount(member, minlength=len(labels)).astype(float)
    total = np.zeros((len(labels), differences.shape[1]))
    np.add.at(total, member, differences)
    rng = np.random.default_rng(seed)
    means = []
    step = max(1, min(1000, 50_000_000 // len(labels)))  # draws held at once: 400 MB of them
    for start in range(0, rounds, step):
        drawn = rng.integers(0, len(labels), size=(min(step, rounds - start), len(labels)))
        weight = np.stack([np.bincount(row, minlength=len(labels)) for row in drawn]).astype(float)
        means.append((weight @ total) / (weight @ size)[:, None])
    low, high = np.percentile(np.concatenate(means), [2.5, 97.5], axis=0)
    return low, high
