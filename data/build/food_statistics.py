"""What a set of food questions is made of, beside what the FoodieQA paper says of its own (tables 2, 6 to 8).

For any set of the schema: FoodieQA itself, demo questions, a set of one's own. Published numbers stand beside those of
another set for orientation only.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from data.errors import InputError
from data.files import atomic_file
from data.food_names import (
    NOT_GIVEN,
    display_answer,
    display_category,
    display_cuisine,
    display_type,
    merged_cuisine,
)
from data.foodieqa import KINDS, LANGUAGES, published_dataset
from data.records import FOOD_TASKS, LETTERS, FoodQuestion

TABLES = {"textqa": "table 6", "sivqa": "table 7", "mivqa": "table 8"}
SHOWN_ANSWERS = 6  # right answers shown by type; the others are counted together

_INK, _GREY = "#222831", "#8a8f98"
_TASK_COLOURS = {"mivqa": "#1b6ca8", "sivqa": "#e07b39", "textqa": "#4c956c"}
_LETTER_COLOURS = ("#1b6ca8", "#7fb3d5", "#f2c49b", "#e07b39")
Row = dict[str, Any]


# ---- numbers ---------------------------------------------------------------------------------------------------------


def statistics(questions: Iterable[FoodQuestion], hops: Mapping[str, Mapping[int, bool]] | None = None) -> Row:
    """Numbers of a set of questions, for each task in it; plain values that JSON can hold.

    Args:
        questions: of one task or of several, each task in one language.
        hops: task -> row -> whether verifiers said that the question needs several steps, for those that say so
            (`FoodieQAData.hops`); the release itself does not carry it.

    Returns:
        `tasks`: task -> `n`, `language`, `mean_length` (characters), `types` (raw type -> questions, most frequent
        first), `unique_images`, `clusters`, `dishes`, `multi_hop` (`share` of the `recorded` ones; None where nothing
        is recorded), `cuisines` (as the authors merge them -> questions), `categories` (-> questions), `regions`
        (rows of English `name` and `images` or, for text questions,
            `dishes`; figure 5), `letters` (type -> how often the
        right answer is A, B, C, D; figure 10), `answers` (type -> [right answer, questions], most frequent first; none
        where images are the options).

    Raises:
        InputError: no questions, or one task in two languages.
    """
    by_task: dict[str, list[FoodQuestion]] = {task: [] for task in FOOD_TASKS}
    for question in questions:
        by_task[question.task].append(question)
    tasks = {
        task: _task_statistics(asked, dict((hops or {}).get(task, {}))) for task, asked in by_task.items() if asked
    }
    if not tasks:
        raise InputError("there are no questions to count; check data.file and data.root")
    return {"tasks": tasks}


def _task_statistics(questions: Sequence[FoodQuestion], hops: Mapping[int, bool]) -> Row:
    task, languages = questions[0].task, sorted({question.language for question in questions})
    if len(languages) > 1:
        raise InputError(f"{task}: questions in {' and '.join(languages)} together; count one language at a time")
    recorded = [hops[question.row] for question in questions if question.row in hops]
    letters: dict[str, list[int]] = defaultdict(lambda: [0] * len(LETTERS))
    answers: dict[str, Counter[str]] = defaultdict(Counter)
    for question in questions:
        letters[question.question_type][question.answer] += 1
        if not question.image_options:
            answers[question.question_type][question.choices[question.answer].strip()] += 1
    types = _counts(question.question_type for question in questions)
    return {
        "n": len(questions),
        "language": languages[0],
        "mean_length": sum(len(question.question.strip()) for question in questions) / len(questions),
        "types": types,
        "unique_images": len({path for question in questions for path in question.images}),
        "clusters": len({question.cluster for question in questions}),
        "dishes": len({question.food_name for question in questions if question.food_name}),
        "multi_hop": {"recorded": len(recorded), "share": sum(recorded) / len(recorded)} if recorded else None,
        "cuisines": _counts(merged_cuisine(question.cuisine) for question in questions if question.cuisine),
        "categories": _counts(question.category for question in questions if question.category),
        "regions": _regions(questions),
        "letters": {kind: letters[kind] for kind in types},
        "answers": {kind: [list(pair) for pair in _ranked(answers[kind])] for kind in types if answers[kind]},
    }


def _ranked(counter: Counter[str]) -> list[tuple[str, int]]:
    """Most frequent first, equals by name."""
    return sorted(counter.items(), key=lambda pair: (-pair[1], pair[0]))


def _counts(values: Iterable[str]) -> dict[str, int]:
    return dict(_ranked(Counter(values)))


def _regions(questions: Sequence[FoodQuestion]) -> list[Row]:
    """Images (dishes, where there are none) by cuisine: the region they are from.

    A multi-image question of a food category says nothing of the cuisine of its photos. A photo that is also in a
    question of a cuisine is counted there, the others are `NOT_GIVEN`.
    """
    unit = "dishes" if questions[0].task == "textqa" else "images"
    region: dict[str, str] = {}
    for question in questions:
        name = display_cuisine(question.cuisine)
        for item in (question.food_name,) if unit == "dishes" else question.images:
            if region.get(item, NOT_GIVEN) == NOT_GIVEN:
                region[item] = name
    counts = _counts(region.values())
    names = sorted(counts, key=lambda name: name == NOT_GIVEN)  # stable: the most frequent first, what is unknown last
    return [{"name": name, unit: counts[name]} for name in names]


# ---- Markdown --------------------------------------------------------------------------------------------------------


def render(statistics: Row, title: str, notes: Sequence[str] = ()) -> str:
    """The statistics as Markdown, FoodieQA's published numbers beside them.

    Args:
        statistics: of `statistics`.
        title: what the questions are (`FoodieQAData.title`).
        notes: sentences that a reader should know (`FoodieQAData.notes`).
    """
    tasks, published = statistics["tasks"], published_dataset()
    lines = [f"# Statistics of the questions: {_escape(title)}", ""]
    lines += [*(f"- note: {note}" for note in notes), ""] if notes else []
    lines += [f"Published: FoodieQA itself ({published['source']}).", ""]
    lines += ["## Questions (tables 1 and 2)", "", *_overview(tasks, published), ""]
    for task, found in tasks.items():
        lines += [f"## {_heading(task)} by type ({TABLES[task]})", "", *_type_table(found, published[task]), ""]
    for task, found in tasks.items():
        unit = "Dishes" if task == "textqa" else "Images"
        rows = [[row["name"], *_share(row[unit.lower()], found["regions"], unit.lower())] for row in found["regions"]]
        lines += [f"## {unit} of the {KINDS[task]} questions by region (figure 5)", ""]
        lines += [*_table(["region", unit.lower(), "%"], rows), ""]
        for kind, display in (("cuisines", display_cuisine), ("categories", display_category)):
            if found[kind]:
                lines += [f"## {_heading(task)} by {'cuisine' if kind == 'cuisines' else 'food category'}", ""]
                lines += [*_group_table(found[kind], published[task][kind], display), ""]
    for task, found in tasks.items():
        lines += [f"## Right answers of the {KINDS[task]} questions by type (figure 10)", "", *_answers(found), ""]
    return "\n".join(lines).rstrip("\n") + "\n"


def _heading(task: str) -> str:
    return f"{KINDS[task].capitalize()} questions"


def _overview(tasks: Row, published: Row) -> list[str]:
    head = [""]
    rows: list[list[str]] = [
        ["questions"],
        ["language"],
        ["mean question length, characters"],
        ["question types"],
        ["multi-hop (%)"],
        ["unique images"],
        ["clusters (set of photos, photo, dish)"],
    ]
    for task, found in tasks.items():
        known = published[task]
        head += [KINDS[task], "published"]
        chinese = found["language"] == "zh"
        hop = found["multi_hop"]
        hop_text = "not recorded" if hop is None else f"{hop['share']:.1%}".rstrip("%")
        hop_text += f" (of {hop['recorded']})" if hop and hop["recorded"] < found["n"] else ""
        images = known["unique_images"]
        if images is not None and known["images_used"] != images:
            images = f"{images} (text: {known['images_used']})"
        cells = [
            (found["n"], known["n"]),
            (LANGUAGES[found["language"]], "Chinese"),
            (f"{found['mean_length']:.1f}", known["mean_question_length"] if chinese else None),
            (len(found["types"]), known["question_types"]),
            (hop_text, known["multi_hop"]),
            (found["unique_images"] or None, images),
            (found["clusters"], None),
        ]
        for row, pair in zip(rows, cells, strict=True):
            row += ["–" if value is None else str(value) for value in pair]
    return _table(head, rows)


def _type_table(found: Row, known: Row) -> list[str]:
    rows = []
    for kind in {**found["types"], **known["types"]}:
        n, wanted = found["types"].get(kind, 0), known["types"].get(kind)
        shares = [f"{100 * n / found['n']:.1f}", f"{100 * wanted / known['n']:.1f}" if wanted else "–"]
        rows.append([display_type(kind), f"`{kind}`", str(n), shares[0], str(wanted or "–"), shares[1]])
    total = ["all", "", str(found["n"]), "100.0", str(known["n"]), "100.0"]
    return _table(["type", "in the file", "questions", "%", "published", "published %"], [*rows, total], left=2)


def _group_table(found: dict[str, int], known: dict[str, int], display: Callable[[str], str]) -> list[str]:
    """Groups by English name: what one file calls 川 is 川菜（四川，重庆） in another."""
    own, theirs, spelled = Counter[str](), Counter[str](), defaultdict[str, list[str]](list)
    for raw, n in known.items():
        theirs[display(raw)] += n
    for raw, n in found.items():
        own[display(raw)] += n
        spelled[display(raw)].append(raw)
    names = [name for name, _ in _ranked(own)] + [name for name, _ in _ranked(theirs) if name not in own]
    rows = [[name, ", ".join(spelled[name]) or "–", str(own[name]), str(theirs[name] or "–")] for name in names]
    return _table(["group", "in the file", "questions", "counts of the authors"], rows, left=2)


def _answers(found: Row) -> list[str]:
    rows = []
    for kind, letters in found["letters"].items():
        answers = found["answers"].get(kind, [])
        shown = [f"{text} {n}" for text, n in answers[:SHOWN_ANSWERS]]
        rest = len(answers) - SHOWN_ANSWERS
        shown += [f"and {rest} others {sum(n for _, n in answers[SHOWN_ANSWERS:])}"] if rest > 0 else []
        by_image = sum(letters) - sum(n for _, n in answers)
        shown += [f"an image {by_image}"] if by_image else []
        rows.append([display_type(kind), *map(str, letters), ", ".join(shown)])
    totals = [str(sum(letters[i] for letters in found["letters"].values())) for i in range(len(LETTERS))]
    rows.append(["all", *totals, ""])
    head = ["type", *LETTERS, "most frequent right answers"]
    lines = _table(head, rows)
    lines[1] = "|---|" + "--:|" * len(LETTERS) + "---|"
    return lines


def _share(n: int, rows: list[Row], unit: str) -> list[str]:
    return [str(n), f"{100 * n / sum(row[unit] for row in rows):.1f}"]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> list[str]:
    """Markdown table; all but the first `left` columns hold numbers."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * left + "--:|" * (len(head) - left)]
    return lines + ["| " + " | ".join(map(_escape, row)) + " |" for row in rows]


def _escape(text: str) -> str:
    """One line that does not end its cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")


# ---- figures ---------------------------------------------------------------------------------------------------------


def draw(statistics: Row, folder: Path, title: str = "") -> list[str]:
    """Draw the statistics as PNG files into a folder; returns their names.

    question_types.png (tables 6 to 8 as shares, published ones marked), regions.png (figure 5), answer_letters.png and,
    where options are texts, answers_<task>.png (figure 10).
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    tasks, drawn = statistics["tasks"], []
    fonts = ["DejaVu Sans", *([font] if (font := cjk_font()) else [])]  # the second one for what the first has not
    style: dict[Any, Any] = {
        "font.family": fonts,
        "font.size": 9,
        "axes.titlesize": 10,
        "axes.titleweight": "bold",
        "axes.titlelocation": "left",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.edgecolor": "0.6",
        "axes.axisbelow": True,
        "text.color": _INK,
        "axes.labelcolor": _INK,
        "xtick.color": "0.3",
        "ytick.color": _INK,
    }
    figures = {
        "question_types.png": (_draw_types, "Question types"),
        "regions.png": (_draw_regions, "Regions"),
        "answer_letters.png": (_draw_letters, "Places of the right answers"),
    }
    with plt.rc_context(style):
        for name, (function, heading) in figures.items():
            drawn.append(_save(folder / name, function(tasks), heading, title))
        for task, found in tasks.items():
            if found["answers"] and task != "mivqa":
                drawn.append(_save(folder / f"answers_{task}.png", _draw_answers(task, found), "Right answers", title))
    return drawn


def _save(path: Path, figure: Any, heading: str, title: str) -> str:
    from matplotlib import pyplot as plt

    text = f"{heading}  ·  {shown_text(title)}" if title else heading
    figure.suptitle(text + "\n", x=0.01, ha="left", fontsize=11, color="0.35")
    with atomic_file(path) as partial:
        figure.savefig(partial, dpi=150, format="png")
    plt.close(figure)
    return path.name


@lru_cache(maxsize=1)
def cjk_font() -> str | None:
    """Name of an installed font with Chinese glyphs, or None."""
    from matplotlib import font_manager

    known = ("Noto Sans CJK SC", "Noto Sans CJK JP", "Source Han Sans SC", "WenQuanYi Zen Hei", "PingFang SC", "SimHei")
    found = {font.name for font in font_manager.fontManager.ttflist}
    return next((name for name in known if name in found), None)


def shown_text(text: str, other: str = "(in Chinese)") -> str:
    """A text as a figure here can show it: `other` in place of one whose glyphs no font has."""
    if cjk_font() or all(ord(letter) < 0x2E80 for letter in text):
        return " ".join(text.split())
    return other


def _panels(heights: Sequence[int], width: float = 5.2) -> tuple[Any, list[Any]]:
    """Panels side by side, as many bars high as the longest needs."""
    from matplotlib import pyplot as plt

    size = (max(width * len(heights), 6.4), 1.5 + 0.27 * max(heights))
    figure, axes = plt.subplots(1, len(heights), figsize=size, layout="constrained", squeeze=False)
    return figure, list(axes[0])


def _bars(axis: Any, names: Sequence[str], values: Sequence[float], texts: Sequence[str], colours: Any) -> None:
    """Bars from top to bottom, each with its number behind it."""
    places = list(range(len(names)))
    axis.barh(places, values, color=colours, height=0.72)
    for place, value, text in zip(places, values, texts, strict=True):
        axis.annotate(
            text, (value, place), xytext=(4, 0), textcoords="offset points", va="center", fontsize=8, color="0.35"
        )
    axis.set_yticks(places, names)
    axis.set_ylim(len(names) - 0.4, -0.6)
    axis.tick_params(axis="y", length=0)
    axis.grid(axis="x", alpha=0.25)


def _draw_types(tasks: Row) -> Any:
    figure, axes = _panels([len(found["types"]) for found in tasks.values()])
    for axis, (task, found) in zip(axes, tasks.items(), strict=True):
        known = published_dataset()[task]
        kinds = list(found["types"])
        shares = [100 * n / found["n"] for n in found["types"].values()]
        wanted = [100 * known["types"].get(kind, 0) / known["n"] for kind in kinds]
        names = [f"{shown_text(display_type(kind))} ({found['types'][kind]})" for kind in kinds]
        _bars(axis, names, shares, [""] * len(kinds), _TASK_COLOURS[task])
        known_places = [place for place, share in enumerate(wanted) if share]
        axis.plot(
            [wanted[place] for place in known_places],
            known_places,
            "D",
            color="white",
            markeredgecolor=_INK,
            markersize=5,
            label="published share in FoodieQA",
        )
        axis.set(title=f"{_heading(task)}, n = {found['n']:,}", xlabel="% of the questions")
        axis.set_xlim(0, 1.05 * max(*shares, *wanted))
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", frameon=False)
    return figure


def _draw_regions(tasks: Row) -> Any:
    figure, axes = _panels([len(found["regions"]) for found in tasks.values()])
    for axis, (task, found) in zip(axes, tasks.items(), strict=True):
        unit = "dishes" if task == "textqa" else "images"
        rows = found["regions"]
        total = sum(row[unit] for row in rows)
        colours = [_TASK_COLOURS[task] if row["name"] != NOT_GIVEN else "#c9ced6" for row in rows]
        texts = [f"{row[unit]}  ({row[unit] / total:.0%})" for row in rows]
        _bars(axis, [shown_text(row["name"]) for row in rows], [row[unit] for row in rows], texts, colours)
        axis.set(title=f"{_heading(task)}: {total:,} {unit} by region", xlabel=unit)
        axis.set_xlim(0, 1.22 * max(row[unit] for row in rows))
        axis.xaxis.get_major_locator().set_params(integer=True)
    return figure


def _draw_letters(tasks: Row) -> Any:
    """Where the right answer stands, by type: stacked shares, a quarter each where a set is even."""
    figure, axes = _panels([len(found["letters"]) + 1 for found in tasks.values()])
    for axis, (task, found) in zip(axes, tasks.items(), strict=True):
        rows = {"All": [sum(row[i] for row in found["letters"].values()) for i in range(len(LETTERS))]}
        names = ["All", *(shown_text(display_type(kind)) for kind in found["letters"])]
        counts = [*rows.values(), *found["letters"].values()]
        left = [0.0] * len(counts)
        for i, colour in enumerate(_LETTER_COLOURS):
            shares = [100 * row[i] / sum(row) for row in counts]
            axis.barh(range(len(counts)), shares, left=left, color=colour, height=0.72, label=LETTERS[i])
            for place, (share, start, row) in enumerate(zip(shares, left, counts, strict=True)):
                if share >= 8:
                    ink = "white" if i in (0, 3) else _INK
                    axis.text(start + share / 2, place, row[i], ha="center", va="center", fontsize=7.5, color=ink)
            left = [start + share for start, share in zip(left, shares, strict=True)]
        for x in (25, 50, 75):
            axis.axvline(x, color=_INK, linewidth=0.8, linestyle=":", alpha=0.7)
        axis.set_yticks(range(len(names)), names)
        axis.set_ylim(len(names) - 0.4, -0.6)
        axis.set_xlim(0, 100)
        axis.tick_params(axis="y", length=0)
        axis.set(title=f"{_heading(task)}, n = {found['n']:,}", xlabel="place of the right answer, % (questions)")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    return figure


def _draw_answers(task: str, found: Row) -> Any:
    """The most frequent right answers of every type."""
    from matplotlib import pyplot as plt

    kinds = list(found["answers"])
    columns = min(3, len(kinds))
    lines = -(-len(kinds) // columns)
    size = (4.6 * columns if columns > 1 else 6.4, 0.6 + lines * (0.75 + 0.25 * (SHOWN_ANSWERS + 1)))
    figure, axes = plt.subplots(lines, columns, figsize=size, layout="constrained", squeeze=False)
    for axis in axes.flat[len(kinds) :]:
        axis.set_axis_off()
    for axis, kind in zip(axes.flat, kinds, strict=False):
        counted: Counter[str] = Counter()  # one bar for what has one English name
        for i, (text, n) in enumerate(found["answers"][kind], 1):
            counted[shown_text(display_answer(text), f"answer {i} (in Chinese)")] += n
        answers = _ranked(counted)
        rest = answers[SHOWN_ANSWERS:]
        names = [_shortened(name) for name, _ in answers[:SHOWN_ANSWERS]]
        values = [n for _, n in answers[:SHOWN_ANSWERS]]
        colours = [_TASK_COLOURS[task]] * len(values)
        if rest:
            names.append(f"{len(rest)} others")
            values.append(sum(n for _, n in rest))
            colours.append("#c9ced6")
        _bars(axis, names, values, [str(n) for n in values], colours)
        axis.set_ylim(SHOWN_ANSWERS + 0.6, -0.6)
        axis.set_xlim(0, 1.15 * max(values))
        axis.xaxis.get_major_locator().set_params(integer=True, nbins=5)
        axis.set_title(f"{shown_text(display_type(kind))}, n = {sum(values):,}")
    figure.supxlabel(f"right answers of the {KINDS[task]} questions", fontsize=9)
    return figure


def _shortened(text: str, limit: int = 26) -> str:
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"


# ---- files -----------------------------------------------------------------------------------------------------------


def write_statistics(folder: Path, statistics: Row, title: str, notes: Sequence[str] = ()) -> list[str]:
    """Write statistics.json, statistics.md and the figures into a folder; returns their names."""
    with atomic_file(folder / "statistics.json") as partial:
        content = {"title": title, "notes": list(notes), **statistics}
        partial.write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    figures = draw(statistics, folder, title)
    text = (
        render(statistics, title, notes) + "\n" + "\n".join(f"![{Path(name).stem}]({name})" for name in figures) + "\n"
    )
    with atomic_file(folder / "statistics.md") as partial:
        partial.write_text(text, encoding="utf-8")
    return ["statistics.json", "statistics.md", *figures]
