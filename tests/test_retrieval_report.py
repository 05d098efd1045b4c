"""What the retrieval report claims: numbers, comparable rows, sentences, files."""

import csv
import gzip
import hashlib
import io
import json
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from data.errors import InputError
from engine.embeddings import write_embeddings
from engine.retrieval_report import publish_retrieval, published_retrieval_rows, score_embeddings
from models.ranks import DIRECTIONS, draw_digest, inconsistencies, official_draws, retrieval_scores

PICTURES = ("test_files_and_trackers_hold_the_scores", "test_one_pool_and_the_smallest_sets")


@pytest.fixture(autouse=True)
def _no_picture(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing takes longer than all the rest; two tests do it."""
    if request.node.name not in PICTURES:
        monkeypatch.setattr("engine.retrieval_report.plot_ranks", lambda *_: "ranks.png")


class Logger:
    def __init__(self) -> None:
        self.metrics: dict[str, float] = {}
        self.step = self.saved = 0

    def log_metrics(self, metrics: dict[str, float], step: int) -> None:
        self.metrics, self.step = metrics, step

    def save(self) -> None:
        self.saved += 1


def pairs(n: int, noise: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray, list[str]]:
    rng = np.random.default_rng(seed)
    image = rng.standard_normal((n, 12)).astype(np.float32)
    recipe = image + noise * rng.standard_normal((n, 12)).astype(np.float32)
    return image, recipe, [f"r{i:05d}" for i in range(n)]


def scored(n: int, noise: float, sizes: list[int] | str = "all", seed: int = 0) -> dict:
    return retrieval_scores(*pairs(n, noise, seed), sizes=sizes, rounds=100, progress=False)


def published(folder: Path, result: dict, official: bool = False, **more) -> tuple[dict, str]:
    console = Console(width=110, record=True, file=io.StringIO())
    metrics = publish_retrieval(
        folder, result, system="my_model", data_name="made", split="test", official=official, console=console, **more
    )
    return metrics, console.export_text()


def test_files_and_trackers_hold_the_scores(tmp_path: Path) -> None:
    result = scored(60, 1.0, [20])
    logger = Logger()
    metrics, text = published(tmp_path, result, loggers=[logger], step=7, notes=["rendered pictures"])
    for direction in DIRECTIONS:
        for key in ("medR", "R1", "R5", "R10"):
            for name in ("20", "all"):
                value = result["pools"][name][direction][key]["mean"]
                assert metrics["pools"][name][f"{direction}/{key}"] == value
                assert logger.metrics[f"test/{name}/{direction}/{key}"] == value
            first = result["pools"]["20"][direction][key]["mean"]
            assert metrics[f"{direction}/{key}"] == logger.metrics[f"test/{direction}/{key}"] == first
    assert not any("@" in key for key in logger.metrics), "a character that MLflow refuses"
    assert all(isinstance(value, float) for value in logger.metrics.values())
    assert logger.step == 7 and logger.saved == 1 and logger.metrics["test/n"] == 60
    stored = json.loads((tmp_path / "metrics.json").read_text())
    assert stored == json.loads(json.dumps(metrics)) and stored["pool"] == "20" and stored["ties"] == "mid"
    assert metrics["notes"][0] == "rendered pictures" and "not of unit length" in metrics["notes"][1]
    assert "note: rendered pictures" in text and "10 pools of 20" in text and "one pool of all 60" in text
    assert {f.name for f in tmp_path.iterdir()} == {
        *("metrics.json", "results.md", "ranks.csv", "draws.json", "ranks.png")
    }
    rows = list(csv.DictReader((tmp_path / "ranks.csv").open()))
    assert [row["id"] for row in rows] == result["ids"].tolist()
    for direction in DIRECTIONS:
        assert [float(row[direction]) for row in rows] == result["ranks"]["all"][direction][0].tolist()
    draws = json.loads((tmp_path / "draws.json").read_text())
    assert draws["ids_sha256"] == hashlib.sha256("\n".join(result["ids"]).encode()).hexdigest()
    assert draws["20"]["rows"] == official_draws(60, [20])[20].tolist()
    assert draws["20"]["draw"]["sha256"] == draw_digest(np.asarray(draws["20"]["rows"]))
    assert (tmp_path / "ranks.png").stat().st_size > 10_000


def test_one_pool_and_the_smallest_sets(tmp_path: Path) -> None:
    for n in (1, 2, 3):
        metrics, text = published(tmp_path / str(n), scored(n, 0.1))
        assert metrics["pool"] == "all" and metrics["image_to_recipe/medR"] >= 1 and "one pool of all" in text
        assert not (tmp_path / str(n) / "draws.json").exists()


def test_tables_fit_a_log_file(tmp_path: Path) -> None:
    _, text = published(tmp_path, scored(60, 1.0, [20]), baselines=[row("CCA on the same image vectors", 2.0)])
    assert max(len(line.rstrip()) for line in text.splitlines() if line.startswith(("│", "┃", "┏"))) <= 110
    assert "…" not in text, "no cell is cut"


def row(system: str, noise: float, seed: int = 1) -> dict:
    return {"system": system, "note": "fitted on train", "result": scored(60, noise, [20], seed)}


def test_sentences_follow_the_intervals(tmp_path: Path) -> None:
    def said(image: np.ndarray, recipe: np.ndarray) -> str:
        result = retrieval_scores(image, recipe, range(len(image)), "all", rounds=100, progress=False)
        return published(tmp_path, result)[1]

    image, recipe, _ = pairs(80, 1.0)
    text = said(image, recipe)
    assert "my_model beats chance: image → recipe medR" in text and "against 40.5" in text
    assert "collapsed" not in text and "tied with" not in text
    assert "ranks like random" in said(image, pairs(80, 1.0, seed=5)[0])
    assert "worse than chance" in said(image, -recipe)
    flat = np.ones((80, 3))
    text = said(flat, flat)
    assert "ranks like random" in text and "100.0% of the queries are tied" in text
    assert "collapsed: two different image embeddings have a mean cosine of 1.0000" in text


def test_comparisons_are_paired_and_say_when_they_cannot_tell(tmp_path: Path) -> None:
    result = scored(60, 1.0, [20])
    _, text = published(tmp_path, result, baselines=[row("worse", 4.0), row("twin", 1.0, seed=0), row("better", 0.1)])
    assert "my_model beats worse: mean reciprocal rank" in text
    assert "my_model loses to better: mean reciprocal rank" in text
    assert "my_model and twin" in text and "no difference that these pairs could show" in text
    table = json.loads((tmp_path / "metrics.json").read_text())["pools"]["20"]["table"]
    assert [r["system"] for r in table] == ["my_model", "chance", "worse", "twin", "better"]
    other = {"system": "of other pairs", "result": scored(59, 1.0, [20])}
    assert "of other pairs:" not in published(tmp_path, result, baselines=[other])[1]


def test_impossible_numbers_are_called_out(tmp_path: Path) -> None:
    result = scored(60, 1.0)
    result["pools"]["all"]["inconsistencies"] = ["image_to_recipe: medR 0.5 is below 1, the best rank"]
    assert "impossible numbers: image_to_recipe: medR 0.5" in published(tmp_path, result)[1]


def test_published_rows_stand_beside_the_official_pairs_only(tmp_path: Path) -> None:
    result = scored(1200, 1.5, [1000])
    _, text = published(tmp_path, result, official=False)
    assert "JE+SR" not in text
    metrics, text = published(tmp_path, result, official=True)
    assert "JE+SR (im2recipe), 2017" in text and "unconfirmed" in text and "ranks from 0" in text
    rows = {r["system"]: r for r in metrics["pools"]["1k"]["table"]}
    assert rows["JE+SR (im2recipe), 2017"]["image_to_recipe/R1"] == 0.24
    assert rows["JE+SR (im2recipe), 2017"]["recipe_to_image/medR"] == 5.1
    assert rows["SAN, 2017"]["recipe_to_image/medR"] is None
    assert "table" not in metrics["pools"]["all"], "papers have no such pool"
    markdown = (tmp_path / "results.md").read_text()
    assert "- AdaMine, 2018: ranks from 0: add 1" in markdown


def test_published_rows_are_those_of_the_collected_facts(shared: Path) -> None:
    facts = json.loads((shared / "published" / "recipe1m.json").read_text())
    names = {"R1": "R@1", "R5": "R@5", "R10": "R@10"}
    seen = 0
    for setting in ("1k", "10k"):
        for direction in DIRECTIONS:
            expected = [f for f in facts if f["setting"] == setting and f["direction"] == direction]
            found = published_retrieval_rows(setting, direction)
            assert len(found) == len(expected)
            for ours, fact in zip(found, expected, strict=True):
                assert fact["split"] == "test" and fact["benchmark"] == "Recipe1M"
                for key in ("system", "year", "medR", "medR_base", "R1", "R5", "R10", "source", "confirmed"):
                    assert ours[key] == fact[names.get(key, key)], (setting, direction, ours["system"], key)
                assert ours["note"] == fact.get("note", "")
            seen += len(found)
    assert seen == len(facts) == 114


def test_only_ranks_from_0_are_inconsistent_among_the_published_rows() -> None:
    odd = set()
    for setting in ("1k", "10k"):
        for direction in DIRECTIONS:
            for found in published_retrieval_rows(setting, direction):
                shares = {k: found[k] / 100 for k in ("R1", "R5", "R10") if found[k] is not None}
                if inconsistencies({"medR": found["medR"], **shares}):
                    odd.add((setting, found["system"], found["medR_base"]))
    assert odd == {("1k", "AdaMine", 0)}
    published_retrieval_rows("1k", "image_to_recipe")[0]["medR"] = 0
    assert published_retrieval_rows("1k", "image_to_recipe")[0]["medR"] == 15.7, "a caller's change stays there"
    for setting, direction in (("5k", "image_to_recipe"), ("1k", "R1")):
        with pytest.raises(InputError, match="choose 1k or 10k and image_to_recipe or"):
            published_retrieval_rows(setting, direction)


def test_own_embeddings_are_scored_from_a_file(tmp_path: Path) -> None:
    image, recipe, ids = pairs(1100, 1.5)
    path = tmp_path / "mine.npz"
    write_embeddings(path, ids, image.astype(np.float16), recipe.astype(np.float16), {"split": "val"})
    console = Console(width=110, record=True, file=io.StringIO())
    metrics = score_embeddings(path, tmp_path / "out", console=console)
    text = console.export_text()
    assert list(metrics["pools"]) == ["1k", "all"] and metrics["model"] == "mine" and metrics["split"] == "val"
    assert "pools of 10,000 are left out: there are 1,100 pairs" in text
    assert "published results are left out" in text and not metrics["official"]
    assert metrics["image_to_recipe/medR"] == metrics["pools"]["1k"]["image_to_recipe/medR"]
    few = score_embeddings(path, tmp_path / "out", sizes=[50], ties="pessimistic", system="other", console=console)
    assert list(few["pools"]) == ["50", "all"] and few["ties"] == "pessimistic" and few["model"] == "other"
    with pytest.raises(InputError, match="pools of 10,000 pairs cannot be drawn from 1,100 pairs"):
        score_embeddings(path, tmp_path / "out", sizes=[10_000], console=console)
    image[3] = np.nan
    write_embeddings(path, ids, image, recipe, {})
    with pytest.raises(InputError, match=r"mine.npz: the image embedding of id 'r00003' is not finite"):
        score_embeddings(path, tmp_path / "out", console=console)


@pytest.mark.slow
def test_official_pairs_are_seen_from_their_ids(tmp_path: Path, shared: Path) -> None:
    text = gzip.decompress((shared / "data/recipe1m/splits/test.txt.gz").read_bytes()).decode()
    ids = np.random.default_rng(0).permutation(text.split())
    image, recipe, _ = pairs(len(ids), 1.0)
    write_embeddings(tmp_path / "any.npz", ids, image, recipe, {})
    metrics = score_embeddings(tmp_path / "any.npz", tmp_path / "out", console=Console(file=io.StringIO()))
    assert metrics["official"] and metrics["data"] == "recipe1m" and metrics["split"] == "test"
    digests = {name: pool["draw"]["sha256"] for name, pool in metrics["pools"].items()}
    assert digests["1k"] == "d57e12adb6f54e0f392665a186527e7614ee739da70ad89c658fda1931d9f849"
    assert digests["10k"] == "1fc4186683eede6c268131cb20d0d2d3a2a5fc54a6876f233c0185212ca490bb"
    assert any("JE+SR" in row["system"] for row in metrics["pools"]["10k"]["table"])


@pytest.mark.parametrize(("n", "says"), [(2, "not distinguishable"), (3, "not distinguishable"), (12, "beats chance")])
def test_a_perfect_rank_of_two_pairs_is_no_evidence(n, says):
    from engine.retrieval_report import _verdict
    from models.ranks import retrieval_scores

    vectors = np.eye(n, 16, dtype=np.float32)
    result = retrieval_scores(vectors, vectors, [f"{i:03d}" for i in range(n)], sizes="all", progress=False)
    assert says in _verdict("perfect", result)[0]


def test_strangers_beat_chance_as_seldom_as_the_level_says():
    from engine.retrieval_report import _verdict
    from models.ranks import retrieval_scores

    rng, said = np.random.default_rng(0), 0
    for _ in range(150):
        image, recipe = rng.normal(size=(2, 40, 8))
        result = retrieval_scores(image, recipe, [f"{i:03d}" for i in range(40)], sizes="all", rounds=0, progress=False)
        said += "beats chance: image" in _verdict("strangers", result)[0]
    assert said <= 12  # 2.5 % of 150 is 4
