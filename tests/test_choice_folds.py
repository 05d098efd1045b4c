"""Folds of choice runs together: tables against a slow reference, and sweeps that do not fit are refused."""

import itertools
import json
import math
import random
import statistics
from pathlib import Path

import numpy as np
import pytest
import yaml
from omegaconf import DictConfig, OmegaConf
from rich.console import Console

from data.errors import InputError
from data.kinds import KINDS, kinds_of
from data.recipeqa import read_questions
from engine.choice_folds import score_choice_folds
from tests.made_up import made_up_questions, write_file
from tests.made_up_runs import config
from tests.runs import SMALL, run

FOLDS = 3
RECIPES = [f"r{i // 3}" for i in range(24)]  # 8 recipes of 3 questions


def answers_of(seed, n=24, skill=0.6):
    """Scores of n questions whose right answer is i % 4; about `skill` of them right, some tied."""
    rng = random.Random(f"answers {seed} {skill}")
    found = []
    for i in range(n):
        scores = [0.0] * 4
        scores[i % 4 if rng.random() < skill else (i + 1) % 4] = 1.0
        if rng.random() < 0.15:
            scores[(i + 2) % 4] = 1.0
        found.append(scores)
    return found


def credit_of(scores, answer):
    best = max(scores)
    return (scores[answer] == best) / sum(score == best for score in scores)


def write_fold(folder, qids, rows, scores, cfg, sha="a" * 64, compared=None, task="textual_cloze"):
    """A run folder as train.py leaves it: `rows` qid -> (recipe, answer), `scores` qid -> scores."""
    folder.mkdir(parents=True)
    lines = [
        {"qid": q, "recipe": rows[q][0], "task": task, "scores": scores[q], "prediction": 0, "answer": rows[q][1]}
        for q in qids
    ]
    (folder / "predictions.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    if compared is not None:
        lines = [{"qid": q, "scores": {name: found[q] for name, found in compared.items()}} for q in qids]
        (folder / "baselines.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    accuracy = sum(credit_of(scores[q], rows[q][1]) for q in qids) / len(qids)
    tasks = {task: {"accuracy": accuracy, "n": len(qids), "interval": [0, 1], "collapsed": 0.0, "table": []}}
    metrics = {"data": "made/cloze", "model": cfg["model"]["name"], "split": "test", "notes": [], "tasks": tasks}
    (folder / "metrics.json").write_text(json.dumps(metrics))
    (folder / "config.yaml").write_text(yaml.safe_dump(cfg))
    provenance = {"git": {}, "data": {"files": {"test": {"file": "t.json", "sha256": sha}}}}
    (folder / "provenance.json").write_text(json.dumps(provenance))


def write_sweep(folder, settings, rows=None, **given) -> DictConfig:
    """Jobs of all settings: (model, without, {seed: qid -> scores}), folds cut anew for each seed by recipe."""
    rows = rows or {f"q{i:02d}": (RECIPES[i], i % 4) for i in range(24)}
    job = itertools.count()
    for model, without, by_seed in settings:
        for seed, scores in by_seed.items():
            recipes = sorted({recipe for recipe, _ in rows.values()})
            random.Random(f"cut {seed}").shuffle(recipes)
            for fold in range(FOLDS):
                held = recipes[fold::FOLDS]
                qids = [q for q in rows if rows[q][0] in held]
                data = {"_target_": "data.choice.ChoiceData", "name": "made/cloze", "folds": FOLDS, "fold": fold}
                data["train_file"] = given.get("train_file")
                made = config(
                    seed, data=data, model={"name": model, "net": {"without": without}, "optimizer": {"lr": 1}}
                )
                compared = given["compared"](seed) if "compared" in given else None
                write_fold(folder / str(next(job)), qids, rows, scores, made, given.get("sha", "a" * 64), compared)
    return OmegaConf.create({"folds": str(folder), "output_dir": str(folder / "out"), "seed": 7})


def named(seed, skill=0.6):
    return {f"q{i:02d}": scores for i, scores in enumerate(answers_of(seed, skill=skill))}


def naive_interval(credit, recipes):
    """The clustered Wilson interval, with loops over questions."""
    n, mean = len(credit), sum(credit) / len(credit)
    groups = sorted(set(recipes))
    between = sum(sum(c - mean for c, r in zip(credit, recipes, strict=True) if r == g) ** 2 for g in groups)
    within = sum((c - mean) ** 2 for c in credit)
    effect = len(groups) / (len(groups) - 1) * between / (n / (n - 1) * within)
    m, z = n / max(effect, 1.0), 1.96
    centre, half = mean + z * z / (2 * m), z * math.sqrt(mean * (1 - mean) / m + (z / (2 * m)) ** 2)
    return (centre - half) / (1 + z * z / m), (centre + half) / (1 + z * z / m)


def naive_p(one, two, recipes):
    """Of all sign flips of whole recipes, the share as far from 0 as what was seen."""
    sums = [sum(a - b for a, b, r in zip(one, two, recipes, strict=True) if r == g) for g in sorted(set(recipes))]
    flips = [
        abs(sum(s * d for s, d in zip(signs, sums, strict=True))) for signs in itertools.product((1, -1), repeat=8)
    ]
    return sum(value >= abs(sum(sums)) - 1e-9 for value in flips) / len(flips)


def result_of(cfg, console=None):
    score_choice_folds(cfg, console or Console(width=160))
    return json.loads((Path(cfg.output_dir) / "folds.json").read_text())["sections"]


def test_tables_are_those_of_a_slow_reference(tmp_path, capsys):
    full = {seed: named(seed) for seed in (1, 2, 3)}
    less = {seed: named(seed, 0.35) for seed in (2, 3)}
    settings = [("reader", ["style"], less), ("reader", [], full), ("other", [], {1: named(9, 0.5)})]
    cfg = write_sweep(tmp_path / "sweep", settings)
    (section,) = result_of(cfg)
    first, second, third = section["systems"]
    assert [row["system"] for row in (first, second, third)] == [
        "reader (without=[])",
        "reader (without=[style])",
        "other",
    ]

    qids = [f"q{i:02d}" for i in range(24)]
    credits = {s: [credit_of(full[s][q], i % 4) for i, q in enumerate(qids)] for s in full}
    assert first["accuracy"] == pytest.approx(statistics.mean(map(statistics.mean, credits.values())))
    assert first["sd"] == pytest.approx(statistics.stdev(map(statistics.mean, credits.values())))
    mean = [statistics.mean(credits[s][i] for s in credits) for i in range(24)]
    assert first["interval"] == pytest.approx(naive_interval(mean, RECIPES))
    assert (first["n"], first["recipes"], first["seeds"], first["difference"]) == (24, 8, [1, 2, 3], None)

    lesser = [statistics.mean(credit_of(less[s][q], i % 4) for s in (2, 3)) for i, q in enumerate(qids)]
    common = [statistics.mean(credits[s][i] for s in (2, 3)) for i in range(24)]  # not seed 1, which only one has
    assert second["difference"] == pytest.approx(statistics.mean(lesser) - statistics.mean(common))
    exact = naive_p(lesser, common, RECIPES)
    assert second["p"] == pytest.approx(exact, abs=0.02) and 0.001 < exact < 0.9
    low, high = second["difference_interval"]
    assert low < second["difference"] < high
    assert third["sd"] is None and third["seeds"] == [1]
    ordered = sorted([second["p"], third["p"]])
    assert sorted([second["holm_p"], third["holm_p"]])[0] == pytest.approx(min(1, 2 * ordered[0]))

    human = next(row for row in section["published"] if row["system"].startswith("Human"))
    assert human["accuracy"] == 0.736 and human["n"] == 100 and "other questions" in human["note"]
    assert human["interval"] == pytest.approx([0.642, 0.813], abs=0.002)
    printed = capsys.readouterr().out
    assert "24 questions of 8 recipes, 3 folds" in printed and "Human, 2018" in printed
    out = tmp_path / "sweep" / "out"
    assert {p.name for p in out.iterdir()} == {"folds.json", "folds.md", "folds.png", "predictions_folds.jsonl"}
    rows = [json.loads(line) for line in (out / "predictions_folds.jsonl").read_text().splitlines()]
    assert len(rows) == 24 * 6 and {(r["setting"], r["seed"]) for r in rows if r["fold"] == 2} == {
        *((first["system"], s) for s in (1, 2, 3)),
        *((second["system"], s) for s in (2, 3)),
        ("other", 1),
    }


def test_baselines_are_pooled_and_transductive_ones_marked(tmp_path, capsys):
    systems = {"Hasty Student": 0.4, "tfidf_context, fitted on train": 0.5, "tfidf_context, transductive": 0.9}
    cfg = write_sweep(
        tmp_path / "sweep",
        [("reader", [], {1: named(1), 2: named(2)})],
        compared=lambda seed: (
            {name: named(f"{name}{seed}", skill) for name, skill in systems.items()}
            | ({"of one seed alone": named(5)} if seed == 1 else {})
        ),
    )
    (section,) = result_of(cfg)
    rows = {(row["system"], row["note"]): row for row in section["baselines"]}
    assert rows["chance", ""]["accuracy"] == 0.25 and len(rows) == 4
    for name, skill in systems.items():
        system, _, note = name.partition(", ")
        by_seed = [
            [credit_of(s, i % 4) for i, s in enumerate(answers_of(f"{name}{seed}", skill=skill))] for seed in (1, 2)
        ]
        row = rows[system.replace("_", " "), note]
        assert row["accuracy"] == pytest.approx(statistics.mean(map(statistics.mean, by_seed)))
        assert row["interval"] == pytest.approx(naive_interval(list(np.mean(by_seed, axis=0)), RECIPES))
    assert "credit" not in rows["Hasty Student", ""]
    assert "transductive" in capsys.readouterr().out


def test_kinds_of_question_beside_the_best_legal_rule(tmp_path):
    path = tmp_path / "train.json"
    write_file(path, made_up_questions("textual_cloze", 24, seed=1, per_recipe=3))
    questions, report = read_questions(path)
    rows = {q.qid: (q.recipe_id, q.answer) for q in questions}
    rng = random.Random(3)

    def scores(seed):
        rng.seed(f"{seed}")
        return {q: [rng.random() for _ in range(4)] for q in rows}

    compared = {name: scores(name) for name in ("Hasty Student", "good, transductive", "first_choice", "last_choice")}
    for q in rows:  # the transductive rule is right always, and stands nowhere
        compared["good, transductive"][q] = [float(k == rows[q][1]) for k in range(4)]
    given = {"train_file": str(path), "compared": lambda seed: compared}
    runs = {1: scores(1), 2: scores(2)}
    cfg = write_sweep(tmp_path / "sweep", [("reader", [], runs)], rows, sha=report.sha256, **given)
    (section,) = result_of(cfg)
    accuracy = {
        name: statistics.mean(credit_of(found[q], rows[q][1]) for q in rows) for name, found in compared.items()
    }
    best = max(("first_choice", "last_choice"), key=accuracy.__getitem__)
    for row in section["kinds"]:
        held = [q.qid for q in questions if kinds_of(q)[row["parting"]] == row["kind"]]
        assert row["n"] == len(held) > 0
        own, hasty, rule = row["systems"]
        assert [s["system"] for s in (own, hasty, rule)] == ["reader", "Hasty Student", best.replace("_", " ")]
        expected = statistics.mean(credit_of(runs[s][q], rows[q][1]) for q in held for s in runs)
        assert own["accuracy"] == pytest.approx(expected)
        credit = [statistics.mean(credit_of(runs[s][q], rows[q][1]) for s in runs) for q in held]
        recipes = [rows[q][0] for q in held]
        if len(set(recipes)) > 1 and len(set(credit)) > 1:
            assert own["interval"] == pytest.approx(naive_interval(credit, recipes))
        for system, name in ((hasty, "Hasty Student"), (rule, best)):
            assert system["accuracy"] == pytest.approx(
                statistics.mean(credit_of(compared[name][q], rows[q][1]) for q in held)
            )
    for parting in KINDS:  # every question is of one kind
        assert sum(row["n"] for row in section["kinds"] if row["parting"] == parting) == 24
    assert (tmp_path / "sweep" / "out" / "folds_kinds.png").is_file()
    assert "missing title" in (tmp_path / "sweep" / "out" / "folds.md").read_text()

    path.write_text(path.read_text() + "\n")  # another file than the one the runs read
    (section,) = result_of(cfg)
    assert "kinds" not in section and "has changed" in " ".join(section["notes"])


def edited(path, **changes):
    row = json.loads(path.read_text())
    path.write_text(json.dumps({**row, **changes}))


def missing(folder):
    for file in (folder / "4").iterdir():
        file.unlink()


def unfinished(folder):
    (folder / "1" / "metrics.json").unlink()


def double(folder):
    made = yaml.safe_load((folder / "1" / "config.yaml").read_text())
    made["data"]["fold"] = 0
    (folder / "1" / "config.yaml").write_text(yaml.safe_dump(made))


def overlapping(folder):
    for name in ("predictions.jsonl", "metrics.json"):
        (folder / "1" / name).write_bytes((folder / "0" / name).read_bytes())


def no_folds(folder):
    for path in folder.glob("*/config.yaml"):
        made = yaml.safe_load(path.read_text())
        made["data"]["folds"] = None
        path.write_text(yaml.safe_dump(made))


def other_questions(folder):
    """Seed 2 lost one question: a fold of it was made from a shorter file."""
    lines = (folder / "3" / "predictions.jsonl").read_text().splitlines(keepends=True)[1:]
    (folder / "3" / "predictions.jsonl").write_text("".join(lines))
    rows = [json.loads(line) for line in lines]
    accuracy = sum(credit_of(row["scores"], row["answer"]) for row in rows) / len(rows)
    tasks = {"textual_cloze": {"accuracy": accuracy, "n": len(rows), "interval": [0, 1], "collapsed": 0, "table": []}}
    edited(folder / "3" / "metrics.json", tasks=tasks)


def no_predictions(folder):
    (folder / "2" / "predictions.jsonl").unlink()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (missing, r"fold 1 of 3 of seed 2 is missing"),
        (unfinished, r"1: unfinished or failed, no metrics\.json"),
        (double, r"1: repeats fold 0 of seed 1 of 0"),
        (overlapping, r"1: question q\d+ is also in 0; folds must not overlap"),
        (no_folds, r"is no fold \(data\.folds=None\)"),
        (other_questions, r"seed 2 was asked other questions than other seeds \(such as q\d+\)"),
        (no_predictions, r"2: has no predictions\.jsonl for its \d+ questions"),
    ],
)
def test_folds_that_do_not_fit_are_refused_in_one_line(tmp_path, change, message):
    cfg = write_sweep(tmp_path / "sweep", [("reader", [], {1: named(1), 2: named(2)})])
    change(tmp_path / "sweep")
    with pytest.raises(InputError, match=message) as error:
        score_choice_folds(cfg, Console())
    assert "\n" not in str(error.value)


def test_settings_on_other_questions_are_refused(tmp_path):
    rows = {f"q{i:02d}": (RECIPES[i], i % 4) for i in range(23)}
    cfg = write_sweep(tmp_path / "sweep" / "a", [("reader", [], {1: named(1)})])
    write_sweep(tmp_path / "sweep" / "b", [("other", [], {1: named(1)})], rows)
    for path in (tmp_path / "sweep" / "b").iterdir():
        path.rename(tmp_path / "sweep" / "a" / str(10 + int(path.name)))
    with pytest.raises(InputError, match=r"jobs 10 and 0 were asked different questions \(such as q23\)"):
        score_choice_folds(cfg, Console())


def test_an_empty_folder_is_refused(tmp_path):
    with pytest.raises(InputError, match="holds no runs"):
        score_choice_folds(
            OmegaConf.create({"folds": str(tmp_path), "output_dir": str(tmp_path), "seed": 1}), Console()
        )


@pytest.mark.slow
def test_a_real_sweep_is_put_together(tmp_path):
    """Two folds trained and scored: what is pooled is what the runs' own tables say, weighted by their questions."""
    path = tmp_path / "train.json"
    write_file(path, made_up_questions("textual_cloze", 40, per_recipe=2))
    given = [*SMALL, "sanity=true", "data=recipeqa/textual_cloze", f"data.train_file={path}", "trainer.max_epochs=1"]
    for fold in range(2):
        folds = ["data.folds=2", f"data.fold={fold}", f"cache={tmp_path / 'cache'}"]
        run("train", tmp_path / "sweep" / str(fold), [*given, *folds])
    accuracy = run("evaluate", tmp_path / "all", [f"folds={tmp_path / 'sweep'}"])
    (section,) = json.loads((tmp_path / "all" / "folds.json").read_text())["sections"]
    tables = []
    for fold in range(2):
        (row,) = json.loads((tmp_path / "sweep" / str(fold) / "metrics.json").read_text())["tasks"].values()
        tables.append({(r["system"].replace("_", " "), r["note"]): r for r in row["table"] if r["kind"] != "published"})
    pooled = {
        (r["system"].replace("_", " "), r.get("note", "")): r for r in [*section["systems"], *section["baselines"]]
    }
    assert pooled.keys() == tables[0].keys() == tables[1].keys() and len(pooled) > 10
    for name, row in pooled.items():
        parts = [table[name] for table in tables]
        assert row["n"] == sum(part["n"] for part in parts) == 40
        assert row["accuracy"] == pytest.approx(sum(part["accuracy"] * part["n"] for part in parts) / 40)
    assert accuracy == section["systems"][0]["accuracy"]
    assert {row["parting"] for row in section["kinds"]} == set(KINDS)
