"""Made-up run folders, as the commands write them, for tests of reports."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from models.metrics import clustered_wilson


def config(seed: int = 1, **given: Any) -> dict[str, Any]:
    """A small config of a trained reader; `given` replaces sections."""
    made = {
        "seed": seed,
        "output_dir": f"runs/{seed}",
        "data": {"_target_": "data.choice.ChoiceData", "name": "made/textual_cloze", "modality": "text", "limit": None},
        "model": {
            "name": "reader",
            "net": {"_target_": "models.x.X", "hidden_size": 8},
            "optimizer": {"lr": 0.1},
        },
        "trainer": {"max_epochs": 3, "accelerator": "cpu"},
        "callbacks": {"best": {"dirpath": f"/somewhere/{seed}"}},
    }
    return made | given


def choice_run(
    folder: Path,
    right: Sequence[float],
    system: str = "reader",
    seed: int = 1,
    data: str = "made/textual_cloze",
    task: str = "textual_cloze",
    split: str = "test",
    per_recipe: int = 2,
    offset: int = 0,
    cfg: dict[str, Any] | None = None,
    official: bool = False,
    table: Sequence[dict[str, Any]] = (),
    **metrics: Any,
) -> Path:
    """A run that got question i right (1), wrong (0), or shares the point with one other choice (0.5)."""
    folder.mkdir(parents=True)
    rows = []
    for i, credit in enumerate(right):
        answer = i % 4
        scores = [0.0] * 4
        scores[answer if credit else (answer + 1) % 4] = 1.0
        if credit == 0.5:
            scores[(answer + 1) % 4] = 1.0
        qid = f"q{i + offset:04d}"
        recipe = f"r{(i + offset) // per_recipe}"
        row = {"qid": qid, "recipe": recipe, "task": task, "scores": scores, "prediction": 0, "answer": answer}
        rows.append(row)
    (folder / "predictions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    accuracy = sum(right) / len(right)
    low, high = clustered_wilson(list(right), [row["recipe"] for row in rows])
    own = {"accuracy": accuracy, "n": len(right), "interval": [low, high], "collapsed": 0.0, "recipes": 1}
    published = [{"system": "x", "kind": "published", "same_questions": True}] if official else []
    tasks = {task: {**own, "table": [*table, *published]}}
    write_json(
        folder / "metrics.json", {"data": data, "model": system, "split": split, "notes": [], "tasks": tasks} | metrics
    )
    made = cfg if cfg is not None else config(seed)
    (folder / "config.yaml").write_text(yaml.safe_dump(made))
    provenance = {"git": {"changed_files": []}, "data": {"files": {split: {"file": "t.json", "sha256": "a" * 64}}}}
    write_json(folder / "provenance.json", provenance)
    return folder


def retrieval_run(
    folder: Path,
    ranks: Sequence[tuple[float, float]],
    system: str = "im2recipe",
    seed: int = 1,
    loss: str = "models.losses.CosineHingeRanking",
    official: bool = False,
    pools: Sequence[str] = ("all",),
) -> Path:
    """A retrieval run with these ranks (image to recipe, recipe to image) of every pair."""
    folder.mkdir(parents=True)
    n = len(ranks)
    pool: dict[str, Any] = {"size": n, "subsets": 1, "chance": {"medR": (n + 1) / 2, "R1": 1 / n, "R5": 5 / n}}
    pool["chance"]["R10"] = min(1.0, 10 / n)
    for side, direction in enumerate(("image_to_recipe", "recipe_to_image")):
        own = sorted(pair[side] for pair in ranks)
        median = (own[(n - 1) // 2] + own[n // 2]) / 2
        cells = {"medR": median} | {f"R{k}": sum(rank <= k for rank in own) / n for k in (1, 5, 10)}
        pool[direction] = {key: {"mean": value, "sd": None, "interval": None} for key, value in cells.items()}
    metrics = {"data": "recipe1m" if official else "made/retrieval", "model": system, "split": "test", "n": n}
    metrics |= {"ties": "mid", "official": official, "notes": [], "pools": dict.fromkeys(pools, pool)}
    write_json(folder / "metrics.json", metrics)
    lines = [f"{i:04d},{a},{b}" for i, (a, b) in enumerate(ranks)]
    (folder / "ranks.csv").write_text("\n".join(["id,image_to_recipe,recipe_to_image", *lines]) + "\n")
    model = {"name": system, "loss": {"ranking": {"_target_": loss}}, "optimizer": {"lr": 0.1}}
    data = {"_target_": "data.retrieval.RetrievalData", "name": metrics["data"]}
    (folder / "config.yaml").write_text(yaml.safe_dump(config(seed, model=model, data=data)))
    write_json(folder / "provenance.json", {"git": {}, "data": {}})
    return folder


def food_run(
    folder: Path,
    right: Sequence[Sequence[float]],
    model: str = "m/some-model",
    task: str = "sivqa",
    language: str = "zh",
    demo: bool = False,
    ablation: str = "none",
    **metrics: Any,
) -> Path:
    """An evaluation on food questions: credits of each prompt, (prompts, questions)."""
    folder.mkdir(parents=True)
    n = len(right[0])
    prompts = [{"prompt": f"{task}.{language}.{i}.code", "accuracy": sum(row) / n} for i, row in enumerate(right)]
    made = {
        "data": "demo set" if demo else "FoodieQA, single-image questions, Chinese",
        "model": model,
        "task": task,
        "language": language,
        "ablation": ablation,
        "is_demo": demo,
        "complete": True,
        "n": n,
        "settings": {"is_release": not demo, "extraction": "cascade", "permutation": "off"},
        "prompts": prompts,
        "over_prompts": {"clustered": [0.1, 0.9]},
        "baselines": [{"system": "chance", "accuracy": 0.25, "n": n, "interval": None, "note": ""}],
        "published": [{"system": "human", "same_questions": not demo}],
        "notes": [],
    }
    write_json(folder / "metrics.json", made | metrics)
    with open(folder / "predictions.jsonl", "w") as file:
        for i, row in enumerate(right):
            for j, credit in enumerate(row):
                line = {
                    "task": task,
                    "language": language,
                    "row": j,
                    "record_hash": f"{j:032x}",
                    "cluster": f"c{j // 3}",
                }
                line |= {"prompt": prompts[i]["prompt"], "index": i, "order": [0, 1, 2, 3], "credit": credit}
                file.write(json.dumps(line) + "\n")
    data = {"_target_": "data.foodieqa.FoodieQAData", "name": f"foodieqa/{task}"}
    cfg = {
        "seed": 1,
        "data": data,
        "model": {"name": model},
        "asking": {"ablation": ablation},
        "prompts": {"variant": "code"},
    }
    (folder / "config.yaml").write_text(yaml.safe_dump(cfg))
    return folder


def write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value))
