"""The data card of a set of multiple-choice questions: what is in it, where it is from, what gives its answers away.

Numbers stand beside those of RecipeQA (Yagcioglu et al. 2018, section 2.3) and, where one is given, of a second set.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from data.build.question_statistics import (
    NO_CATEGORY,
    ORDERS_AT_DISTANCE,
    Records,
    by_split,
    published_dataset,
    question_statistics,
    recipe_statistics,
)
from data.files import atomic_file
from data.records import TASKS, SourceRecipe
from engine.biases import LOOKS_AT, THRESHOLD, biases, leaks
from engine.card_figures import draw
from engine.scoring import CHANCE

Row = dict[str, Any]
SHOWN_CATEGORIES = 30
SHOWN_HUBS = 5

RULES = {
    "shortest_choice_characters": "shortest choice, characters",
    "shortest_choice_words": "shortest choice, words",
    "longest_choice_characters": "longest choice, characters",
    "longest_choice_words": "longest choice, words",
    "not_repeated_permutation": "an order that is offered once",
    **{f"always_position_{i}": f"always position {i}" for i in range(4)},
    "least_frequent_choice": "least frequent choice",
    "most_frequent_choice": "most frequent choice",
    "tfidf_question_titles": "TF-IDF, choice against the other texts of the question",
    "tfidf_context": "TF-IDF, choice against the context",
    "tfidf_context_log": "TF-IDF, choice against the context, log counts",
    "tfidf_best_step": "TF-IDF, choice against its best step, log counts",
    "tfidf_characters": "TF-IDF of characters, choice against the context, log counts",
}
LEAKS = {
    "name_recipe": "recipe in the image names",
    "name_step": "step in the image names",
    "qid_and_name_step": "step in the qid and the image names",
    "name_step_0": "step 0 in the image names",
    "name_not_step_0": "step 0 in the image names",
    "name_first_image": "image index 0 in the image names",
    "name_not_first_image": "image index other than 0 in the image names",
    "qid_missing_step": "TF-IDF, choice against the missing step that the qid names",
}
GIVEN_AWAY_BY = {
    "length": "the length of the choices",
    "orders": "orders that are offered twice",
    "position": "the position of the answer",
    "frequency": "how often a choice is offered",
    "words": "words that choice and recipe share",
}
SIZE_NAMES = {
    "steps": "steps",
    "title_tokens": "title tokens",
    "description_tokens": "description tokens",
    "images": "images",
    "title_tokens_per_step": "title tokens per step",
    "description_tokens_per_step": "description tokens per step",
    "images_per_step": "images per step",
}
DEFECTS = {
    "twins": "right choice stands twice",
    "alike": "… or twice but for case and punctuation",
    "equal_distractors": "two wrong choices are equal",
    "empty_choice": "an empty choice",
    "short_choices": "choices of at most 2 characters",
    "short_right_choices": "… of them right",
    "repeated_permutation": "a wrong order stands twice",
    "repeated_image": "a wrong image stands twice",
}


@dataclass(frozen=True)
class OtherSet:
    """A second set to show in columns of its own; without `recipes` its questions tell what they can."""

    title: str
    questions: Mapping[str, Records]
    recipes: Iterable[SourceRecipe] | None = None


def card(
    questions: Mapping[str, Records],
    recipes: Iterable[SourceRecipe] | None = None,
    *,
    title: str = "questions",
    cleaning: Mapping[str, int] | None = None,
    building: Mapping[str, int] | None = None,
    settings: Mapping[str, Any] | None = None,
    notes: Sequence[str] = (),
    threshold: float = THRESHOLD,
    other: OtherSet | None = None,
) -> Row:
    """Everything the card says, as plain values that JSON can hold.

    Args:
        questions: split (train, val, test) -> records as `data.build.questions.build_questions` makes them, or
            questions as `data.recipeqa.read_questions` reads them.
        recipes: all recipes the questions were made of, looked at once. None: what the questions themselves tell.
        title: what the set is, on one line.
        cleaning: rule -> recipes or steps that cleaning removed.
        building: rule -> what the builder left out (`rules` of its report).
        settings: plain values the set was made with.
        notes: sentences a reader should know (source, licence).
        threshold: a rule that understands nothing is too good where its 95 % interval is wholly above chance + this.
        other: a second set.

    Raises:
        InputError: no questions, an unknown split, a threshold out of range, recipes that do not fit the questions.
    """
    return {
        "threshold": threshold,
        "notes": list(notes),
        "set": _measured(title, questions, recipes, threshold),
        "other": _measured(other.title, other.questions, other.recipes, threshold) if other else None,
        "cleaning": dict(sorted((cleaning or {}).items())),
        "building": dict(sorted((building or {}).items())),
        "settings": json.loads(json.dumps(settings or {}, ensure_ascii=False, default=str)),
        "published": published_dataset(),
    }


def _measured(
    title: str, questions: Mapping[str, Records], recipes: Iterable[SourceRecipe] | None, threshold: float
) -> Row:
    own = by_split(questions)
    found = biases(own, threshold)
    return {
        "title": " ".join(title.split()),
        "verdict": verdict(found, threshold),
        "questions": question_statistics(own),
        "recipes": recipe_statistics(own, recipes),
        "biases": found,
        "leaks": leaks(own),
    }


def verdict(biases: Row, threshold: float) -> str:
    """One sentence: which tasks give their answers away, and by what.

    For each task and each thing a rule may look at, the best rule that exceeds the threshold in any split;
    transductive ones only where no other does.
    """
    limit = f"{100 * (CHANCE + threshold):g} %"
    parts = []
    for task in TASKS:
        best: dict[str, tuple[tuple[bool, float], str]] = {}
        for split, own in biases.items():
            for row in own.get(task, ()):
                kind, worth = row["looks_at"], (row["counted_in"] != "evaluated", row["accuracy"])
                if row["exceeds"] and (kind not in best or worth > best[kind][0]):
                    best[kind] = worth, f"{split}, n = {row['n']:,}"
        if best:
            shown = sorted(best.items(), key=lambda item: LOOKS_AT.index(item[0]))
            ways = [
                f"{100 * accuracy:.1f} % by {GIVEN_AWAY_BY[kind]} ({split}{'' if fair else ', transductive'})"
                for kind, ((fair, accuracy), split) in shown
            ]
            parts.append(f"{_name(task)} {_listed(ways)}")
    if not parts:
        return (
            f"No rule that understands nothing answers more than {limit} of any task (lower end of the 95 % interval)."
        )
    return f"Rules that understand nothing answer more than {limit}: {'; '.join(parts)}."


def _listed(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def _name(task: str) -> str:
    return task.replace("_", " ")


# ---- Markdown --------------------------------------------------------------------------------------------------------


def render(card: Row, figures: Sequence[str] = ()) -> str:
    """The card as Markdown.

    Args:
        card: of `card`.
        figures: names of the pictures that lie beside it.
    """
    lines = [f"# Data card: {_escape(card['set']['title'])}", "", f"**{_escape(card['set']['verdict'])}**", ""]
    lines += [*(f"- {_escape(note)}" for note in card["notes"]), ""] if card["notes"] else []
    if card["other"]:
        lines += [f"Beside it: {_escape(card['other']['title'])}. {_escape(card['other']['verdict'])}", ""]
    lines += [
        f"RecipeQA: {card['published']['paper']}. *cited*: given by others as the paper's, found in no primary text; "
        "*measured*: on the released validation questions.",
        "",
    ]
    for heading, part in (
        ("Questions", _counts_part),
        ("Recipes", _recipes_part),
        ("Categories", _categories_part),
        ("What cleaning and building did", _report_part),
        ("Bias report", _biases_part),
        ("Questions of each task", _tasks_part),
        ("Wrong choices that are used most", _hubs_part),
        ("Wrong orders", _orders_part),
        ("What names and numbers would give away", _leaks_part),
        ("Settings", _settings_part),
    ):
        if body := part(card):
            lines += [f"## {heading}", "", *body, ""]
    if figures:
        lines += ["## Figures", "", *(f"![{Path(name).stem}]({name})" for name in figures), ""]
    return "\n".join(lines).rstrip("\n") + "\n"


def _sets(card: Row) -> list[tuple[str, Row]]:
    """The set and the second one, with what the heads of their columns begin with."""
    return [("", card["set"]), *([("beside it: ", card["other"])] if card["other"] else [])]


def _columns(card: Row, task: str) -> list[tuple[str, Row, str]]:
    """(head, set, split) of every split that has questions of the task."""
    return [
        (f"{label}{split}, n = {found['questions'][split][task]['n']:,}", found, split)
        for label, found in _sets(card)
        for split in found["questions"]
        if task in found["questions"][split]
    ]


def _tasks(card: Row) -> list[str]:
    return [task for task in TASKS if _columns(card, task)]


def _counts_part(card: Row) -> list[str]:
    known = {(row["split"], row["task"]): row for row in card["published"]["questions"]}
    known |= {(row["split"], "recipes"): row for row in card["published"]["recipes"]}
    splits = [(label, found, split) for label, found in _sets(card) for split in found["questions"]]
    head = ["", *(f"{label}{split}" for label, _, split in splits)]
    head += [f"RecipeQA {split}" for split in ("train", "val", "test")]
    rows = []
    for task in (*TASKS, "all", "recipes"):
        cells = []
        for _, found, split in splits:
            own = found["questions"][split]
            n = found["recipes"][split]["n"] if task == "recipes" else None
            cells.append(n if n is not None else sum(r["n"] for name, r in own.items() if task in (name, "all")))
        of_paper = [known.get((split, task)) for split in ("train", "val", "test")]
        published = ["–" if row is None else f"{row['n']:,}{_trust(row)}" for row in of_paper]
        name = {"all": "all questions", "recipes": "recipes with questions"}.get(task, _name(task))
        rows.append([name, *(f"{n:,}" for n in cells), *published])
    lines, of_val = _table(head, rows), card["published"]["validation"]["recipes_with_questions"]
    lines += ["", f"RecipeQA's recipes are all of a split; of those of val only {of_val} have questions."]
    without = card["set"]["recipes"]["all"]["without_question"]
    return [*lines, *([f"{without:,} recipes have no question."] if without else [])]


def _trust(row: Row) -> str:
    return "" if row["confirmed"] else f" ({row['trust']})"


def _recipes_part(card: Row) -> list[str]:
    columns = []
    for label, found in _sets(card):
        groups = found["recipes"]
        whole = len(groups) == 2 and not groups["all"]["without_question"]  # one split, which is all there is
        columns += [(f"{label}{group}", own) for group, own in groups.items() if not (whole and group == "all")]
    known = {row["key"]: row for row in card["published"]["averages"]}
    whole_train = next(row for row in card["published"]["recipes"] if row["split"] == "train")
    rows = [["recipes", *(f"{own['n']:,}" for _, own in columns), f"{whole_train['n']:,}{_trust(whole_train)}"]]
    for key, name in SIZE_NAMES.items():
        cells = [_spread(own["sizes"][key]) for _, own in columns]
        rows.append([name, *cells, f"{known[key]['mean']:g}{_trust(known[key])}" if key in known else "–"])
    lines = _table(["", *(head for head, _ in columns), "RecipeQA train"], rows)
    return [
        *lines,
        "",
        "Mean over the recipes for which it is known (median; maximum). Tokens are runs of letters and digits, also "
        "cut where a lower-case letter meets an upper-case one; the paper's tokens are not defined.",
    ]


def _spread(found: Row | None) -> str:
    return "–" if found is None else f"{found['mean']:.2f} ({found['median']:.4g}; {round(found['max'], 2):,.6g})"


def _categories_part(card: Row) -> list[str]:
    """Categories of the recipes that have one, of the sets that have some."""
    sets = []
    for label, found in _sets(card):
        counts = {name: n for name, n in found["recipes"]["all"]["categories"].items() if name != NO_CATEGORY}
        if counts:
            sets.append((label, counts, found["recipes"]["all"]["n"]))
    names = list(dict.fromkeys(name for _, counts, _ in sets for name in counts))
    if not names:
        return []
    groups = [(name, [name]) for name in names[:SHOWN_CATEGORIES]]
    if rest := names[SHOWN_CATEGORIES:]:
        groups.append((f"{len(rest):,} others", rest))
    groups.append((NO_CATEGORY, []))
    rows = []
    for title, members in groups:
        cells = []
        for _, counts, n in sets:
            own = sum(counts.get(name, 0) for name in members) if members else n - sum(counts.values())
            cells.append(f"{own:,} ({100 * own / n:.1f} %)")
        rows.append([title, *cells])
    published = card["published"]["construction"]["categories"]
    lines = _table(["category", *(f"{label}recipes" for label, *_ in sets)], rows)
    return [*lines, "", f"{len(names):,} categories; RecipeQA has {published}."]


def _report_part(card: Row) -> list[str]:
    lines = []
    for what, rules in (("Cleaning", card["cleaning"]), ("Building the questions", card["building"])):
        if rules:
            lines += [*_table([what, "count"], [[k, f"{n:,}"] for k, n in rules.items()]), ""]
    return lines[:-1]


def _biases_part(card: Row) -> list[str]:
    published, limit = card["published"]["biases"], 100 * (CHANCE + card["threshold"])
    lines = [
        f"Accuracy in per cent with its 95 % interval (Wilson's, clustered by recipe); chance is {100 * CHANCE:g}. "
        f"**Bold**: the lower end is above {limit:g}. *Transductive* rules count in the very questions they answer: "
        "a warning about the file, no result to compare a model with.",
    ]
    for task in _tasks(card):
        columns = _columns(card, task)
        known = published[task]
        found = [{(r["rule"], r["counted_in"]): r for r in own["biases"][split][task]} for _, own, split in columns]
        keys = sorted(dict.fromkeys(key for own in found for key in own), key=lambda key: list(RULES).index(key[0]))
        rows = []
        for rule, counted_in in keys:
            cells = [_accuracy(own.get((rule, counted_in))) for own in found]
            value = known.get(rule) if counted_in != "training" else None
            rows.append([RULES[rule] + _reading(counted_in), *cells, "–" if value is None else f"{value:.1f}"])
        head = ["", *(head for head, *_ in columns), f"RecipeQA {published['split']} (measured), n = {known['n']}"]
        lines += ["", f"### {_name(task).capitalize()}", "", *_table(head, rows)]
    return lines


def _reading(counted_in: str | None) -> str:
    return {None: "", "training": " (counted in train)", "evaluated": " (transductive)"}[counted_in]


def _accuracy(row: Row | None) -> str:
    if row is None:
        return "–"
    low, high = row["interval"]
    text = f"{100 * row['accuracy']:.1f} ({100 * low:.1f}–{100 * high:.1f})"
    return f"**{text}**" if row.get("exceeds") else text


def _tasks_part(card: Row) -> list[str]:
    lines: list[str] = []
    for task in _tasks(card):
        columns = _columns(card, task)
        published = _published_cells(card["published"], task)
        found = [_task_cells(own["questions"][split][task]) for _, own, split in columns]
        rows = [[name, *(own.get(name, "–") for own in found), published.get(name, "–")] for name in found[0]]
        lines += [f"### {_name(task).capitalize()}", ""]
        lines += [*_table(["", *(head for head, *_ in columns), "RecipeQA val (measured)"], rows), ""]
    return [*lines, "Words are cut at white space."]


def _task_cells(row: Row) -> dict[str, str]:
    """Row title -> cell, of one task in one split."""
    n = row["n"]
    cells = {
        "recipes": f"{row['recipes']:,}",
        "recipes with 1, 2, 3, … questions": ", ".join(f"{k}: {v:,}" for k, v in row["recipes_by_questions"].items()),
        "right answer at position 0 / 1 / 2 / 3, %": " / ".join(f"{100 * k / n:.1f}" for k in row["answers"]),
        "steps of the context": _spread(row["steps"]),
        "words of the context": _spread(row["context_words"]),
        "empty bodies of steps": _of(row["empty_bodies"]),
    }
    if "empty_titles" in row:
        cells["empty titles of steps"] = _of(row["empty_titles"])
    if "images" in row:
        cells |= {
            "images of the context": _spread(row["images"]),
            "images of a step": _spread(row["images_per_step"]),
            "steps without image": _of(row["steps_without_image"]),
            "words of a right choice": _spread(row["right_choice_words"]),
            "words of a wrong choice": _spread(row["wrong_choice_words"]),
            "choices of one word": _of(row["one_word_choices"]),
        }
    for key, name in DEFECTS.items():
        if (value := row["defects"].get(key)) is not None:
            cells[name] = f"{value['n'] if isinstance(value, dict) else value:,}"
    return cells


def _published_cells(published: Row, task: str) -> dict[str, str]:
    """What is known of RecipeQA's validation questions, under the row titles of `_task_cells`."""
    known, defects = published["validation"], published["defects"]
    low, high = known["answer_position"]
    cells = {"right answer at position 0 / 1 / 2 / 3, %": f"{100 * low:g} to {100 * high:g} each"}
    if task == "textual_cloze":
        words, steps, images = known["context_words"], known["steps"], known["images_per_step"]
        cells |= {
            "steps of the context": f"{steps['mean']} (max {steps['max']})",
            "words of the context": f"{words['mean']} ({words['median']}; {words['max']:,})",
            "empty bodies of steps": _of(known["empty_bodies"]["textual_cloze"]),
            "images of the context": f"{known['images']['mean']}",
            "images of a step": f"{images['mean']} (max {images['max']})",
            "steps without image": f"{100 * known['steps_without_image']:.1f} %",
            "words of a right choice": f"{known['right_choice_words']}",
            "words of a wrong choice": f"{known['wrong_choice_words']}",
            "choices of one word": f"{100 * known['one_word_choices']:.1f} %",
        }
        keys = ("twins", "equal_distractors", "empty_choice", "short_choices", "short_right_choices")
        cells |= {DEFECTS[key]: str(defects[key]) for key in keys}
    elif task == "visual_ordering":
        cells[DEFECTS["repeated_permutation"]] = str(defects["repeated_permutation"][0])
    return cells


def _of(pair: Sequence[int]) -> str:
    part, whole = pair
    return f"{part:,} of {whole:,} ({100 * part / whole:.1f} %)" if whole else "–"


def _hubs_part(card: Row) -> list[str]:
    rows = []
    for task in _tasks(card):
        for head, found, split in _columns(card, task):
            if (hubs := found["questions"][split][task].get("hubs")) is None:
                continue
            most = ", ".join(f"{_quoted(text)} {wrong}× ({right})" for text, wrong, right in hubs["most"][:SHOWN_HUBS])
            rows.append([_name(task), head, most, f"{hubs['offered']:,}", f"{hubs['distinct']:,}"])
        if task == "textual_cloze":
            known = ", ".join(f"{_quoted(text)} {n}×" for text, n in card["published"]["hubs"]["most"])
            rows.append(
                [_name(task), f"RecipeQA val (measured), n = {card['published']['hubs']['n']}", known, "–", "–"]
            )
    if not rows:
        return []
    head = ["task", "split", "most used, times wrong (times right)", "wrong choices", "different ones"]
    return _table(head, rows, left=3)


def _quoted(text: str, limit: int = 60) -> str:
    text = " ".join(text.split())
    if not text:
        return "(empty)"
    return f"“{text if len(text) <= limit else text[: limit - 1].rstrip() + '…'}”"


def _orders_part(card: Row) -> list[str]:
    columns = _columns(card, "visual_ordering")
    if not columns:
        return []
    published = card["published"]
    found = [(head, own["questions"][split]["visual_ordering"]["orders"]) for head, own, split in columns]
    known = {"kendall": published["orders"]["kendall"], "repeated": published["defects"]["repeated_permutation"]}
    rows = []
    for head, orders in [*found, (f"RecipeQA val (measured), n = {known['repeated'][1]}", known)]:
        total = sum(orders["kendall"])
        shares = [f"{n:,} ({100 * n / total:.1f} %)" if total else "–" for n in orders["kendall"]]
        rows.append([head, *shares, _of(orders["repeated"])])
    expected = [f"{100 * n / sum(ORDERS_AT_DISTANCE):.1f} %" for n in ORDERS_AT_DISTANCE]
    rows.append(["uniform wrong orders", *expected, "–"])
    head = ["Kendall distance to the right order", *map(str, range(1, 7)), "questions with an order twice"]
    return _table(head, rows)


def _leaks_part(card: Row) -> list[str]:
    published = card["published"]["leaks"]
    lines = [
        "Accuracy in per cent of a model that saw image names, qids or the records of another task. None of them may "
        "reach a model, a cache key, a sort order or a tie-break.",
    ]
    for task in _tasks(card):
        columns = _columns(card, task)
        found = [own["leaks"][split][task] for _, own, split in columns]
        by_rule = [{row["rule"]: row for row in own["rows"]} for own in found]
        rows = []
        for rule in dict.fromkeys(rule for own in by_rule for rule in own):
            value = published.get(task, {}).get(rule)
            cells = [_accuracy(own.get(rule)) for own in by_rule]
            rows.append([LEAKS[rule], *cells, "–" if value is None else f"{value:g}"])
        for key, name in (("first_image", "index 0"), ("introduction", "step 0")):
            for side in ("right", "wrong") if key in found[0] else ():
                known = _published_share(published, key, side, task)
                cells = [_of(own[key][side]) for own in found]
                rows.append([f"{side} images with {name}", *cells, "–" if known is None else f"{100 * known:.1f} %"])
        for origin in found[0].get("from_recipe_of", ()):
            totals = [sum(own["from_recipe_of"].values()) for own in found]
            cells = [_of((own["from_recipe_of"][origin], n)) for own, n in zip(found, totals, strict=True)]
            rows.append([f"wrong images from {origin}", *cells, "–"])
        told = "titles that visual records show" if task == "textual_cloze" else "textual records list the images"
        known = "titles_shown_elsewhere" if task == "textual_cloze" else "steps_shown_elsewhere"
        last = _of(published[known]) + ("" if task == "textual_cloze" else ", all visual tasks")
        rows.append([told, *(_of(own["shown_elsewhere"]) for own in found), last])
        lines += ["", f"### {_name(task).capitalize()}", ""]
        lines += _table(["", *(head for head, *_ in columns), "RecipeQA val (measured)"], rows)
    return lines


def _published_share(published: Row, key: str, side: str, task: str) -> float | None:
    if key == "first_image":
        return published[key][side] if task == "visual_cloze" else None
    return published[key][task] if side == "wrong" else None


def _settings_part(card: Row) -> list[str]:
    if not card["settings"]:
        return []
    text = json.dumps(card["settings"], ensure_ascii=False, indent=1)
    return ["```json", *text.splitlines(), "```"]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> list[str]:
    """Markdown table; all but the first `left` columns hold numbers."""
    lines = ["| " + " | ".join(map(_escape, head)) + " |", "|" + "---|" * left + "--:|" * (len(head) - left)]
    return lines + ["| " + " | ".join(map(_escape, row)) + " |" for row in rows]


def _escape(text: str) -> str:
    """One line that neither ends its cell of a table nor holds markup of its own."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


# ---- files -----------------------------------------------------------------------------------------------------------


def write_card(folder: str | Path, card: Row) -> list[str]:
    """Write data_card.json, data_card.md and the figures into a folder; returns their names.

    Each file is whole or not there.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with atomic_file(folder / "data_card.json") as partial:
        text = json.dumps(card, ensure_ascii=False, indent=1) + "\n"
        partial.write_text(text, encoding="utf-8")
    figures = draw(card, folder)
    with atomic_file(folder / "data_card.md") as partial:
        partial.write_text(render(card, figures), encoding="utf-8")
    return ["data_card.json", "data_card.md", *figures]
