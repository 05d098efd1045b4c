"""Folds together: ranks against a naive count, a p-value that is small for pairs and even for strangers."""

from types import SimpleNamespace

import numpy as np
import pytest
from omegaconf import OmegaConf
from rich.console import Console

from data.errors import InputError
from engine.embeddings import write_embeddings
from engine.folds import fold_scores, score_folds


def parts(sizes, noise, seed=0):
    rng = np.random.default_rng(seed)
    made = []
    for n in sizes:
        image = rng.normal(size=(n, 8))
        recipe = image + noise * rng.normal(size=(n, 8))
        made.append(tuple(x / np.linalg.norm(x, axis=1, keepdims=True) for x in (image, recipe)))
    return made


def test_ranks_are_those_of_a_naive_count_within_each_fold():
    made = parts((5, 8, 3), 1.0)
    made[1][1][2] = made[1][1][4]  # two equal recipes: a tie
    found = fold_scores(made, 1, rounds=50)
    for direction in ("image_to_recipe", "recipe_to_image"):
        naive = []
        for image, recipe in made:
            a, b = (image, recipe) if direction == "image_to_recipe" else (recipe, image)
            for i in range(len(a)):
                scores = [float(a[i] @ b[j]) for j in range(len(b))]
                better = sum(s > scores[i] + 1e-12 for s in scores)
                equal = sum(abs(s - scores[i]) <= 1e-12 for s in scores) - 1
                naive.append(1 + better + equal / 2)
        assert found[direction]["medR"] == np.median(naive)
        assert found[direction]["R1"] == np.mean(np.asarray(naive) <= 1)
        assert found[direction]["MRR"] == pytest.approx(np.mean(1 / np.asarray(naive)))
        assert found[direction]["n"] == 16
        assert found[direction]["chance"]["medR"] == pytest.approx((5 * 3 + 8 * 4.5 + 3 * 2) / 16)


def test_p_is_small_for_pairs_and_even_for_strangers():
    assert fold_scores(parts((12, 12), 0.3), 1, rounds=999)["image_to_recipe"]["p"] == 0.001
    strangers = [fold_scores(parts((9, 8), 1e6, seed), 1, rounds=199)["image_to_recipe"]["p"] for seed in range(60)]
    assert 0.35 < np.mean(strangers) < 0.65
    assert np.mean(np.asarray(strangers) <= 0.1) < 0.25


def test_all_embeddings_equal_is_chance():
    same = np.ones((7, 4)) / 2
    found = fold_scores([(same, same), (same, same)], 1, rounds=99)["recipe_to_image"]
    assert found["medR"] == 4 and found["R1"] == 0 and found["p"] == 1


def sweep(tmp_path, folds=3, same_ids=False, other=False):
    for fold, (image, recipe) in enumerate(parts((6,) * folds, 0.2)):
        run = tmp_path / "sweep" / str(fold)
        run.mkdir(parents=True)
        ids = [f"{0 if same_ids else fold}-{i}" for i in range(6)]
        write_embeddings(run / "embeddings_test.npz", ids, image, recipe, {})
        config = {"data": {"name": "recipe1m", "folds": folds, "fold": fold}, "model": {"name": "im2recipe"}, "seed": 1}
        config["seed"] = 1 + (other and fold)
        OmegaConf.save(OmegaConf.create(config), run / "config.yaml")
    return OmegaConf.create({"folds": str(tmp_path / "sweep"), "output_dir": str(tmp_path / "out"), "seed": 1})


def test_a_sweep_is_read_and_the_table_printed(tmp_path, capsys):
    medr = score_folds(sweep(tmp_path), Console(width=110))
    assert medr == 1 and (tmp_path / "out" / "folds.json").is_file()
    printed = capsys.readouterr().out
    assert "18 pairs in 3 folds" in printed and "tells partners from strangers" in printed


@pytest.mark.parametrize(
    ("change", "message"),
    [({"same_ids": True}, "folds must not overlap"), ({"other": True}, "other settings")],
)
def test_folds_that_do_not_belong_together_are_refused(tmp_path, change, message):
    with pytest.raises(InputError, match=message):
        score_folds(sweep(tmp_path, **change), Console())


def test_missing_folds_are_named(tmp_path):
    cfg = sweep(tmp_path)
    (tmp_path / "sweep" / "1" / "embeddings_test.npz").unlink()
    with pytest.raises(InputError, match=r"2 runs, but data\.folds=3"):
        score_folds(cfg, Console())
    with pytest.raises(InputError, match="holds 0 runs"):
        score_folds(SimpleNamespace(folds=str(tmp_path / "none"), output_dir=str(tmp_path), seed=1), Console())
