"""The published results on FoodieQA, as rows that a report sets beside its own."""

from functools import lru_cache
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from data.errors import InputError
from data.records import FOOD_TASKS

Row = dict[str, Any]


@lru_cache(maxsize=1)
def _published() -> dict[str, Any]:
    from omegaconf import OmegaConf

    path = Path(__file__).resolve().parents[1] / "conf" / "published" / "foodieqa.yaml"
    return OmegaConf.to_container(OmegaConf.load(path))  # type: ignore[return-value]


def published_food_rows(task: str, language: str, ablation: str = "none") -> list[Row]:
    """Published accuracies of one task, language and setting: people, then each system's best of four prompts.

    Source: Li et al. 2024 (arXiv 2406.11030), tables 1, 3, 4 and 5, and the repository's README.

    Args:
        task: mivqa, sivqa or textqa.
        language: zh or en.
        ablation: `none`, `dish_name` (name and photo, table 5) or `dish_name_only_textqa` (no photo, table 4). Other
            settings were not published and have no rows.

    Returns:
        Dicts of system, kind (`human` or `best of four`), accuracy (per cent), n, confirmed, source, note, and where
        the four prompts are known `mean`, `sd` (per cent, over prompts) and `guessed` (replies without a letter that
        the authors' parser answered at random, all four prompts together; None: not known). Highest accuracy first.

    Raises:
        InputError: another task or language.
    """
    if task not in FOOD_TASKS or language not in ("zh", "en"):
        raise InputError(f"no published results for {task} in {language}; choose {', '.join(FOOD_TASKS)}, in zh or en")
    published = _published()
    n = published["questions"][task]
    rows: list[Row] = []
    if ablation == "none":
        rows += _human(task, language)
        for block in published["best_of_four"]:
            if (block["task"], block["language"]) == (task, language):
                source = published["sources"][block["source"]]
                rows += [_best(system, n, source, found) for system, found in block["systems"].items()]
    elif (task, language) == ("sivqa", "zh"):
        found = {row["system"]: row for row in published["ablations"] if row["ablation"] == ablation}
        rows = [
            _best(system, n, published["sources"][row["source"]], {**row, "accuracy": max(row["accuracy"])})
            for system, row in found.items()
        ]
    for row in rows:
        if row["kind"] != "human":
            row |= _over_prompts(task, language, ablation, row)
    return sorted(rows, key=lambda row: (row["kind"] != "human", -row["accuracy"]))


def published_prompt_rows(task: str, language: str, ablation: str = "none") -> list[Row]:
    """Accuracies of single prompts as the authors' notebooks print them, replies without a letter guessed.

    Returns:
        Dicts of system, accuracy (four, per cent), right (four), guessed (four, or None), n, scoring (`first` or
        `second`, of the same replies), source.
    """
    published = _published()
    n = published["questions"][task]
    return [
        {
            "system": row["system"],
            "accuracy": [100 * right / n for right in row["right"]],
            "right": row["right"],
            "guessed": row["guessed"],
            "n": n,
            "scoring": row.get("scoring", "first"),
            "source": f"{published['sources'][row['source']]}, cell {row['cell']}",
        }
        for row in published["prompts"]
        if (row["task"], row["language"], row["ablation"]) == (task, language, ablation)
    ]


def published_ablations(system: str, ablation: str) -> list[float]:
    """Accuracies of prompts 0 to 3 in per cent, single images in Chinese (tables 4 and 5 of the paper).

    Raises:
        InputError: not published.
    """
    for row in _published()["ablations"]:
        if (row["system"], row["ablation"]) == (system, ablation):
            return list(row["accuracy"])
    raise InputError(f"no published results for {system}, {ablation}; see conf/published/foodieqa.yaml")


def published_groups(task: str, by: str) -> list[Row]:
    """Right answers of each system's best prompt by group, questions in Chinese (figures 8 and 9 of the paper).

    Args:
        task: mivqa or sivqa.
        by: question_type, cuisine or category (the last two of mivqa only).

    Returns:
        Dicts of system, figure and groups, which maps a group as the files spell it to (right, n).
    """
    published = _published()
    sizes = published["group_sizes"].get(task, {}).get(by, {})
    return [
        {
            "system": row["system"],
            "figure": row["figure"],
            "groups": {group: (right, n) for (group, n), right in zip(sizes.items(), row["right"], strict=True)},
        }
        for row in published["groups"]
        if (row["task"], row["by"]) == (task, by)
    ]


def _human(task: str, language: str) -> list[Row]:
    """People's accuracy on all questions: table 3, or figure 7 for text."""
    rows = [
        row
        for row in _published()["human"]
        if (row["task"], row["language"], row["questions"]) == (task, language, "all")
        and row["source"] in ("table3", "figure7")
    ]
    return [
        {
            "system": "human",
            "kind": "human",
            "accuracy": row["accuracy"],
            "n": row["n"],
            "confirmed": row["confirmed"],
            "source": _published()["sources"][row["source"]],
            "note": row.get("note", ""),
        }
        for row in rows
    ]


def _best(system: str, n: int, source: str, found: Row) -> Row:
    return {
        "system": system,
        "kind": "best of four",
        "accuracy": found["accuracy"],
        "n": n,
        "confirmed": True,
        "source": source,
        "note": found.get("note", ""),
    }


def _over_prompts(task: str, language: str, ablation: str, row: Row) -> Row:
    """Mean and sd over the four prompts: the paper's own table, else the scoring that holds the published best."""
    tables = [
        found["accuracy"]
        for found in _published()["ablations"]
        if (task, language) == ("sivqa", "zh") and (found["system"], found["ablation"]) == (row["system"], ablation)
    ]
    printed = [found for found in published_prompt_rows(task, language, ablation) if found["system"] == row["system"]]
    printed.sort(key=lambda found: abs(max(found["accuracy"]) - row["accuracy"]))
    values = tables[0] if tables else printed[0]["accuracy"] if printed else None
    if values is None:
        return {}
    guessed = printed[0]["guessed"] if printed else None
    return {"mean": mean(values), "sd": stdev(values), "guessed": None if guessed is None else sum(guessed)}
