"""Ranks against a naive full comparison; the protocol's draws, directions, ties and bad input."""

import gzip
import random
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from data.errors import InputError
from models.ranks import (
    DIRECTIONS,
    TIES,
    RetrievalMetric,
    _count_torch,
    chance,
    draw_digest,
    inconsistencies,
    multiple_choice,
    official_draws,
    official_split,
    permutation_p_value,
    pool_name,
    ranks,
    retrieval_scores,
    summary,
)

LIMIT = timedelta(seconds=60)
SHARE = {"mid": 0.5, "pessimistic": 1.0, "optimistic": 0.0}


def unit(matrix: np.ndarray) -> np.ndarray:
    return (matrix / np.linalg.norm(matrix, axis=1, keepdims=True)).astype(np.float32)


def made_pairs(kind: str, n: int, dimension: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Random pairs; `grid` has whole numbers (many exact ties), `repeated` equal rows in odd places."""
    rng = np.random.default_rng([seed, n, dimension])
    image = rng.standard_normal((n, dimension))
    recipe = image + rng.standard_normal((n, dimension))
    if kind == "grid":
        return np.round(image).astype(np.float32), np.round(recipe).astype(np.float32)
    if kind == "repeated":
        image, recipe = image[rng.integers(0, (n + 1) // 2, n)], recipe[rng.integers(0, (n + 1) // 2, n)]
    if kind == "collapsed":
        image[:], recipe[:] = image[0], recipe[0]
    return unit(image), unit(recipe)


def naive(image: np.ndarray, recipe: np.ndarray, ties: str) -> np.ndarray:
    """(2, N), one query after the other, in double precision."""
    rows = []
    for queries, answers in ((image, recipe), (recipe, image)):
        found = []
        for i, query in enumerate(queries):
            scores = [round(float(np.dot(query.astype(np.float64), a.astype(np.float64))), 11) for a in answers]
            better = sum(s > scores[i] for s in scores)
            found.append(1 + better + SHARE[ties] * (sum(s == scores[i] for s in scores) - 1))
        rows.append(found)
    return np.asarray(rows)


@pytest.mark.parametrize("kind", ["random", "grid", "repeated", "collapsed"])
@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize(("n", "dimension"), [(1, 1), (1, 5), (2, 3), (3, 1), (7, 2), (65, 33), (97, 8)])
def test_ranks_are_those_of_one_query_after_the_other(kind: str, ties: str, n: int, dimension: int) -> None:
    image, recipe = made_pairs(kind, n, dimension)
    expected = naive(image, recipe, ties)
    for chunk in (1, 2, 13, 64, 512):
        found = ranks(image, recipe, ties, chunk)
        np.testing.assert_array_equal(np.stack(found[:2]), expected, err_msg=f"chunk {chunk}")
    better, equal = _count_torch(torch.from_numpy(image), torch.from_numpy(recipe), 13, None)
    np.testing.assert_array_equal(1 + better + SHARE[ties] * equal, expected)


def test_a_hundred_random_matrices_rank_as_a_naive_argsort() -> None:
    """Both directions; equal scores share the mean of their places."""
    rng = np.random.default_rng(0)
    tied = 0
    for trial in range(100):
        kind = ("random", "random", "grid", "repeated", "collapsed")[trial % 5]
        n, dimension, chunk = (int(rng.integers(1, top)) for top in (50, 10, 60))
        image, recipe = made_pairs(kind, n, dimension, seed=trial)
        found = ranks(image, recipe, chunk=chunk)
        tied += found.tied > 0
        for queries, answers, mine in ((image, recipe, found[0]), (recipe, image, found[1])):
            scores = np.round(queries.astype(np.float64) @ answers.astype(np.float64).T, 11)
            for i, row in enumerate(scores):
                places = 1 + np.flatnonzero(row[np.argsort(-row, kind="stable")] == row[i])
                assert mine[i] == places.mean(), (trial, kind, i)
    assert 40 <= tied <= 75


def test_ranks_take_tensors_halves_and_doubles() -> None:
    image, recipe = made_pairs("random", 50, 16)
    expected = ranks(image, recipe)
    found = ranks(torch.from_numpy(image).requires_grad_(), torch.from_numpy(recipe))
    np.testing.assert_array_equal(found.image_to_recipe, expected.image_to_recipe)
    half = ranks(image.astype(np.float16), recipe.astype(np.float16))
    wide = ranks(image.astype(np.float16).astype(np.float64), recipe.astype(np.float16).astype(np.float64))
    np.testing.assert_array_equal(half.recipe_to_image, wide.recipe_to_image)
    brain = ranks(torch.from_numpy(image).bfloat16(), torch.from_numpy(recipe).bfloat16())
    np.testing.assert_array_equal(
        brain.image_to_recipe, ranks(*(torch.from_numpy(m).bfloat16().double() for m in (image, recipe)))[0]
    )


def test_scores_closer_than_float32_resolves_are_told_apart() -> None:
    # cosines 1 - 2e-9 i: one float32 number, but different vectors in double precision.
    angle = np.sqrt(4e-9 * np.arange(40))
    recipe = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    image = np.tile([1.0, 0.0], (40, 1))
    assert len(np.unique((image @ recipe.T).astype(np.float32)[0])) < 5
    for chunk in (1, 7, 512):
        found = ranks(image, recipe, chunk=chunk)
        np.testing.assert_array_equal(found.image_to_recipe, np.arange(1, 41))
        np.testing.assert_array_equal(found.recipe_to_image, np.full(40, 20.5))


def test_equal_vectors_in_different_blocks_are_ties() -> None:
    image, recipe = made_pairs("random", 301, 257)
    image[[1, 150, 300]] = image[77]
    recipe[[1, 150, 300]] = recipe[77]
    for chunk in (1, 3, 100, 299, 512):
        found = ranks(image, recipe, chunk=chunk)
        for direction in (found.image_to_recipe, found.recipe_to_image):
            np.testing.assert_array_equal(direction[[1, 77, 150, 300]], direction[77])
        assert found.tied == pytest.approx(4 / 301)
        lowest, highest = ranks(image, recipe, "optimistic", chunk), ranks(image, recipe, "pessimistic", chunk)
        assert highest.image_to_recipe[77] - lowest.image_to_recipe[77] == 3


def test_collapsed_models_rank_like_chance() -> None:
    for n in (2, 11, 1000):
        image = np.tile(unit(np.ones((1, 12))), (n, 1))
        found = ranks(image, image)
        assert np.median(found.image_to_recipe) == np.median(found.recipe_to_image) == chance(n)["medR"] == (n + 1) / 2
        assert found.tied == 1
        assert np.median(ranks(image, image, "optimistic").image_to_recipe) == 1, "why `mid` is the default"


def test_direction_names_say_what_the_query_is() -> None:
    # Photo 0 looks like recipe 1 more than like its own; both recipes know their photos.
    image = np.array([[0.0, 1.0, 0.0], [0.0, 0.8, 0.6]])
    recipe = np.array([[0.6, 0.7, 0.0], [0.0, 0.8, 0.6]])
    found = ranks(image, recipe)
    assert found.image_to_recipe.tolist() == [2, 1]
    assert found.recipe_to_image.tolist() == [1, 1]
    metric = RetrievalMetric()
    metric.update(torch.from_numpy(image), torch.from_numpy(unit(recipe)), torch.arange(2))
    assert metric.compute()["image_to_recipe/R1"] == 0.5 and metric.compute()["recipe_to_image/R1"] == 1
    scores = retrieval_scores(image, recipe, ["a", "b"], "all", progress=False)["pools"]["all"]
    assert scores["image_to_recipe"]["medR"]["mean"] == 1.5 and scores["recipe_to_image"]["medR"]["mean"] == 1


def test_scores_agree_with_the_index_in_a_sorted_list() -> None:
    """The recipe `rank = predictions.index(truth) + 1`."""
    image, recipe = made_pairs("random", 60, 9)
    for direction, (queries, answers) in zip(DIRECTIONS, ((image, recipe), (recipe, image)), strict=True):
        rank = []
        for i, query in enumerate(queries):
            predictions = sorted(range(60), key=lambda j: -float(np.dot(query, answers[j])))
            rank.append(predictions.index(i) + 1)
        found = retrieval_scores(image, recipe, range(100, 160), "all", progress=False)["pools"]["all"][direction]
        assert found["medR"]["mean"] == np.median(rank)
        for k in (1, 5, 10):
            assert found[f"R{k}"]["mean"] == sum(r <= k for r in rank) / 60


def test_golden_draws() -> None:
    state = random.getstate()
    draws = official_draws(51_304, (1000, 10_000, 20_000))
    assert random.getstate() == state, "the global generator is left alone"
    assert draws[1000][:, 0].tolist() == [50997, 32738, 45098, 6711, 31996, 8818, 47189, 15475, 5929, 40062]
    assert draws[1000][0, :5].tolist() == [50997, 28883, 7657, 490, 5940]
    assert draws[1000][0, -5:].tolist() == [27747, 11221, 40961, 28346, 45941]
    assert draw_digest(draws[1000]) == "d57e12adb6f54e0f392665a186527e7614ee739da70ad89c658fda1931d9f849"
    assert draws[10_000][0, :5].tolist() == [39039, 12843, 31909, 1871, 47241]
    assert draws[10_000][0, -5:].tolist() == [26076, 2964, 5053, 36341, 466]
    assert draw_digest(draws[10_000]) == "1fc4186683eede6c268131cb20d0d2d3a2a5fc54a6876f233c0185212ca490bb"
    assert draws[20_000][0, :5].tolist() == [17800, 39078, 3397, 31355, 8152]
    assert draws[20_000][0, -5:].tolist() == [9175, 26829, 30656, 12307, 25527]
    alone = "f0f3efd28a92b927ac1b774fe93665b8fd043b067f646d1df5f877a77d579720"
    assert draw_digest(official_draws(51_304, (10_000,))[10_000]) == alone
    assert draw_digest(official_draws(51_304, fresh=True)[10_000]) == alone
    assert draw_digest(official_draws(51_264)[1000]) != draw_digest(draws[1000])
    assert all(len(np.unique(row)) == 1000 for row in draws[1000])


def test_draws_that_cannot_be_made() -> None:
    with pytest.raises(InputError, match=r"pools of 1,000 pairs cannot be drawn from 17 pairs.*sizes=all"):
        official_draws(17)
    with pytest.raises(InputError, match="at least 1"):
        official_draws(17, (0,))
    with pytest.raises(InputError, match="twice"):
        official_draws(17, (5, 5))


def test_official_lists_are_known_by_content(shared: Path) -> None:
    for name in ("train", "val", "test"):
        ids = gzip.decompress((shared / "data/recipe1m/splits" / f"{name}.txt.gz").read_bytes()).decode().split()
        assert official_split(ids[::-1]) == name
        assert official_split([*ids[:-1], "0" * 10]) is None
        assert official_split(ids[:-1]) is None
    drawn = official_draws(len(ids))[1000][0, :3]
    assert [sorted(ids)[i] for i in drawn] == ["fe726c5696", "8f165b6cbd", "25d9c6debd"]


def test_order_of_the_file_does_not_matter() -> None:
    image, recipe = made_pairs("random", 40, 8)
    ids = np.asarray([f"{i * 7919 % 1000:03d}" for i in range(40)])
    first = retrieval_scores(image, recipe, ids, (20,), progress=False)
    order = np.random.default_rng(1).permutation(40)
    second = retrieval_scores(image[order], recipe[order], ids[order], (20,), progress=False)
    assert first["pools"] == second["pools"]
    assert first["ids"].tolist() == sorted(ids)
    rows = first["draws"]["20"][3]
    expected = ranks(*(m[np.argsort(ids)][rows] for m in (image, recipe)))
    np.testing.assert_array_equal(first["ranks"]["20"]["image_to_recipe"][3], expected.image_to_recipe)
    unsorted = ranks(image[rows], recipe[rows])
    assert not np.array_equal(unsorted.image_to_recipe, expected.image_to_recipe)


def test_means_spread_and_chance_of_the_pools() -> None:
    image, recipe = made_pairs("random", 100, 12)
    result = retrieval_scores(image, recipe, range(100), (10, 31), subsets=4, progress=False)
    assert list(result["pools"]) == ["10", "31", "all"]
    draws = official_draws(100, (10, 31), 4)
    for size in (10, 31):
        pool = result["pools"][str(size)]
        assert pool["draw"] == {
            **{"seed": 1234, "n": 100, "size": size, "subsets": 4, "sha256": draw_digest(result["draws"][str(size)])},
            "after": [] if size == 10 else [10],
        }
        order = np.argsort([str(i) for i in range(100)])
        for direction in DIRECTIONS:
            single = [
                summary(getattr(ranks(image[order][rows], recipe[order][rows]), direction)) for rows in draws[size]
            ]
            for key in ("medR", "R1", "R5", "R10", "MRR"):
                values = [s[key] for s in single]
                assert pool[direction][key]["per_subset"] == values
                assert pool[direction][key]["mean"] == pytest.approx(np.mean(values))
                assert pool[direction][key]["sd"] == pytest.approx(np.std(values, ddof=1))
                low, high = pool[direction][key]["interval"]
                assert low <= pool[direction][key]["mean"] <= high
    assert result["pools"]["all"]["image_to_recipe"]["R1"]["sd"] is None
    assert result["pools"]["10"]["chance"] == {"medR": 5.5, "R1": 0.1, "R5": 0.5, "R10": 1.0}
    assert [pool_name(n) for n in (1000, 10_000, 1500, 17)] == ["1k", "10k", "1500", "17"]
    assert all(not pool["inconsistencies"] for pool in result["pools"].values())


def test_intervals_cover_what_they_are_for() -> None:
    """Of 40 samples from one population, about 95 % of the intervals hold its R@5 and medR."""
    rng = np.random.default_rng(0)

    def sample(n: int) -> tuple[np.ndarray, np.ndarray]:
        image = rng.standard_normal((n, 6))
        return unit(image), unit(image + 1.2 * rng.standard_normal((n, 6)))

    truth = [summary(ranks(*sample(40)).image_to_recipe) for _ in range(100)]
    inside = {"R5": 0, "medR": 0}
    for _ in range(40):
        pool = retrieval_scores(*sample(200), range(200), (40,), whole=False, rounds=100, progress=False)["pools"]["40"]
        for key in inside:
            low, high = pool["image_to_recipe"][key]["interval"]
            inside[key] += low <= np.mean([t[key] for t in truth]) <= high
    assert all(34 <= count <= 40 for count in inside.values()), inside


def test_even_pools_have_the_mean_of_the_two_middle_ranks() -> None:
    assert summary(np.array([1.0, 2, 3, 10]))["medR"] == 2.5
    assert summary(np.array([1.0, 2, 2, 3]))["R1"] == 0.25


def test_what_cannot_be_true() -> None:
    assert inconsistencies({"medR": 1.0, "R1": 0.5, "R5": 0.5, "R10": 0.9}) == []
    assert "count from 0" in inconsistencies({"medR": 1.0, "R1": 0.398})[0]
    assert "below 1" in inconsistencies({"medR": 0.5, "R1": 0.9})[0]
    assert "R@5 90.0% above R@10 80.0%" in inconsistencies({"R1": None, "R5": 0.9, "R10": 0.8})[0]


def test_bad_input_names_file_record_and_remedy() -> None:
    image, recipe = made_pairs("random", 6, 4)
    ids = list("fedcba")

    def score(image: np.ndarray, recipe: np.ndarray, ids: list) -> dict:
        return retrieval_scores(image, recipe, ids, "all", origin="mine.npz", progress=False)

    for value in (np.nan, np.inf):
        broken = recipe.copy()
        broken[1, 2] = value
        with pytest.raises(InputError, match=r"mine.npz: the recipe embedding of id 'e' is not finite"):
            score(image, broken, ids)
    broken = image.copy()
    broken[5] = 0
    with pytest.raises(InputError, match=r"image embedding of id 'a' is zero"):
        score(broken, recipe, ids)
    with pytest.raises(InputError, match=r"id 'e' is there more than once"):
        score(image, recipe, list("eedcba"))
    with pytest.raises(InputError, match=r"6 rows in `image` for 5 ids"):
        score(image, recipe, ids[:5])
    with pytest.raises(InputError, match=r"5 rows in `recipe` for 6 ids"):
        score(image, recipe[:5], ids)
    with pytest.raises(InputError, match="4 dimensions and recipes 3"):
        score(image, recipe[:, :3], ids)
    with pytest.raises(InputError, match="no pairs"):
        score(image[:0], recipe[:0], [])
    with pytest.raises(InputError, match="id is empty"):
        score(image, recipe, ["", *ids[1:]])
    with pytest.raises(InputError, match="matrix of floats"):
        score(image[0], recipe[0], ids)
    with pytest.raises(InputError, match="sizes=some"):
        retrieval_scores(image, recipe, ids, "some")
    for arguments in ({"ties": "none"}, {"chunk": 0}):
        with pytest.raises(ValueError, match=r"choose|at least"):
            ranks(image, recipe, **arguments)
    for a, b in ((image, recipe[:5]), (image[:, :3], recipe), (image[0], recipe[0]), (image[:0], recipe[:0])):
        with pytest.raises(ValueError, match="two equal"):
            ranks(a, b)
    broken = image.copy()
    broken[0, 0] = np.nan
    with pytest.raises(ValueError, match="finite"):
        ranks(broken, recipe)
    with pytest.raises(ValueError, match="finite"):
        _count_torch(torch.from_numpy(broken), torch.from_numpy(recipe), 4, None)


def test_lengths_do_not_matter_and_are_noted() -> None:
    image, recipe = made_pairs("random", 30, 8)
    length = np.exp(np.random.default_rng(0).uniform(-3, 3, (30, 1)))
    expected = retrieval_scores(image, recipe, range(30), "all", progress=False)
    assert expected["notes"] == []
    for scale in (1.0, 1e200, 1e-200):
        found = retrieval_scores(image, recipe * length * scale, range(30), "all", progress=False)
        assert found["pools"] == expected["pools"]
        assert "recipe embeddings were not of unit length" in found["notes"][0] and "normalised" in found["notes"][0]
    assert retrieval_scores(image.astype(np.float16), recipe, range(30), "all", progress=False)["notes"] == []


def test_collapse_is_seen_in_the_mean_cosine() -> None:
    rng = np.random.default_rng(0)
    narrow = np.ones((50, 8)) + 1e-3 * rng.standard_normal((50, 8))
    result = retrieval_scores(narrow, rng.standard_normal((50, 8)), range(50), "all", progress=False)
    assert result["mean_cosine"]["image"] > 0.999 and abs(result["mean_cosine"]["recipe"]) < 0.2
    side = unit(np.asarray(result["mean_cosine"]["recipe"] * np.ones((1, 1)) + rng.standard_normal((5, 3))))
    every = [float(a @ b) for i, a in enumerate(side) for j, b in enumerate(side) if i != j]
    found = retrieval_scores(side, side, range(5), "all", progress=False)["mean_cosine"]["image"]
    assert found == pytest.approx(np.mean(every), abs=1e-6)


def test_multiple_choice() -> None:
    image, recipe = made_pairs("random", 300, 64)
    found = multiple_choice(image, recipe, range(300))
    assert found["n"] == 300 and found["skipped"] == 0 and found["chance"] == 0.1
    for direction in DIRECTIONS:
        assert found[direction]["accuracy"] > 0.9
        low, high = found[direction]["interval"]
        assert low < found[direction]["accuracy"] <= high
    assert multiple_choice(image, recipe, range(300)) == found
    order = np.random.default_rng(0).permutation(300)
    assert multiple_choice(image[order], recipe[order], order) == found, "the order of the file does not matter"
    wrong = multiple_choice(image, np.roll(recipe, 1, axis=0), range(300))
    assert wrong["image_to_recipe"]["accuracy"] < 0.2, "the recipe of another photo is right one time in ten"
    collapsed = multiple_choice(np.ones((50, 4)), np.ones((50, 4)), range(50))
    assert collapsed["image_to_recipe"]["accuracy"] == pytest.approx(0.1), "ties share the point"
    assert multiple_choice(image[:10], recipe[:10], range(10))["n"] == 10
    with pytest.raises(InputError, match="fewer"):
        multiple_choice(image[:9], recipe[:9], range(9))


def test_multiple_choice_within_classes() -> None:
    # The class is all that the vectors know: with others of the class as candidates nothing helps.
    rng = np.random.default_rng(0)
    classes = np.repeat([1, 2, 3, 4, 0, 5], [40, 40, 40, 40, 40, 5])
    image = unit(np.eye(6)[classes] + 1e-6 * rng.standard_normal((205, 6)))
    recipe = unit(np.eye(6)[classes] + 1e-6 * rng.standard_normal((205, 6)))
    ids = rng.permutation(205)
    found = multiple_choice(image, recipe, ids, by_class=classes)
    assert found["n"] == 160 and found["skipped"] == 45
    assert (
        found["image_to_recipe"]["accuracy"] < 0.25 < multiple_choice(image, recipe, ids)["image_to_recipe"]["accuracy"]
    )
    with pytest.raises(InputError, match="every class"):
        multiple_choice(image[160:], recipe[160:], range(45), by_class=classes[160:])
    with pytest.raises(InputError, match="4 classes for 205 pairs"):
        multiple_choice(image, recipe, ids, by_class=[1, 2, 3, 4])


def test_permutation_test_knows_its_side() -> None:
    image, recipe = made_pairs("random", 40, 16)
    for statistic in ("MRR", "medR"):
        assert permutation_p_value(image, recipe, statistic, rounds=199) == 1 / 200
        assert permutation_p_value(image, -recipe, statistic, rounds=199) > 0.95, "worse than chance is no evidence"
        assert permutation_p_value(image, recipe, statistic, rounds=99, direction="recipe_to_image") == 0.01
    assert permutation_p_value(np.ones((9, 2)), np.ones((9, 2)), rounds=50) == 1
    assert permutation_p_value(image[:1], recipe[:1], rounds=50) == 1
    noise = np.random.default_rng(0)
    values = [
        permutation_p_value(unit(noise.standard_normal((12, 5))), unit(noise.standard_normal((12, 5))), rounds=99)
        for _ in range(60)
    ]
    assert 0.35 < np.mean(values) < 0.65, "uniform where there is nothing to find"
    with pytest.raises(ValueError, match="choose"):
        permutation_p_value(image, recipe, "R1")


def test_permutation_stays_within_groups() -> None:
    # Vectors that know the group only: chance within it, far above chance across it.
    groups = np.repeat(["a", "b", "c", "d"], 8)
    rng = np.random.default_rng(3)
    image = unit(np.repeat(np.eye(4), 8, axis=0) + 0.01 * rng.standard_normal((32, 4)))
    recipe = unit(np.repeat(np.eye(4), 8, axis=0) + 0.01 * rng.standard_normal((32, 4)))
    assert permutation_p_value(image, recipe, rounds=199) < 0.02
    assert permutation_p_value(image, recipe, rounds=199, groups=groups) > 0.05


def test_metric_is_the_function_over_batches() -> None:
    image, recipe = (torch.from_numpy(m) for m in made_pairs("random", 53, 8))
    expected = ranks(image, recipe)
    order = torch.from_numpy(np.random.default_rng(0).permutation(53))
    metric = RetrievalMetric()
    for rows in order.split(10):
        metric.update(image[rows] * 3, recipe[rows], rows + 5_000_000_000)
    metric.update(image[order[:7]], recipe[order[:7]], order[:7] + 5_000_000_000)  # filled up by a sampler
    found = metric.compute()
    assert found["n"] == 53 and not found["tied"]
    for direction in DIRECTIONS:
        for key, value in summary(getattr(expected, direction)).items():
            assert found[f"{direction}/{key}"] == pytest.approx(value, rel=1e-6)
    pooled = RetrievalMetric(pool=20, subsets=3)
    pooled.update(image, recipe, torch.arange(53))
    single = [summary(ranks(image[rows], recipe[rows])[1]) for rows in official_draws(53, (20,), 3)[20]]
    assert pooled.compute()["recipe_to_image/medR"] == pytest.approx(np.mean([s["medR"] for s in single]))
    short = RetrievalMetric(pool=1000)
    short.update(image, recipe, torch.arange(53))
    assert short.compute() == {k: pytest.approx(v) for k, v in found.items()}
    metric.reset()
    assert all(np.isnan(v) for k, v in metric.compute().items() if k != "n") and metric.compute()["n"] == 0
    metric.update(image[:1], recipe[:1], torch.tensor([3]))
    assert metric.compute()["image_to_recipe/medR"] == 1
    with pytest.raises(ValueError, match="pair 4 is not finite"):
        metric.update(torch.full((1, 8), torch.nan), recipe[:1], torch.tensor([4]))
    with pytest.raises(ValueError, match="are needed"):
        metric.update(image[:2], recipe[:2], torch.tensor([4]))
    with pytest.raises(ValueError, match="pool"):
        RetrievalMetric(pool=0)


def test_half_precision_batches_are_scaled_first() -> None:
    image, recipe = (torch.from_numpy(m).bfloat16() for m in made_pairs("random", 64, 16))
    metric = RetrievalMetric()
    metric.update(image, recipe, torch.arange(64))
    sides = [torch.nn.functional.normalize(m.float(), dim=1) for m in (image, recipe)]
    assert metric.compute()["image_to_recipe/MRR"] == pytest.approx(summary(ranks(*sides)[0])["MRR"])


SHARES = (
    [[*range(0, 41, 2)], [*range(1, 41, 2), 0, 2]],  # the last batch filled up
    [list(range(40, 27, -1)), list(range(28))],  # far from even
    [[], list(range(41))],  # one process saw nothing
)


def _one_process(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2, timeout=LIMIT)
    image, recipe = (torch.from_numpy(m) for m in made_pairs("repeated", 41, 8))
    found = []
    for shares in SHARES:
        metric = RetrievalMetric(pool=30, subsets=2)
        for rows in torch.tensor(shares[rank], dtype=torch.long).split(6):
            if len(rows):
                metric.update(image[rows], recipe[rows], rows)
        found.append(metric.compute())
    torch.save(found, f"{folder}/{rank}.pt")
    dist.destroy_process_group()


def test_two_processes_give_the_result_of_one(tmp_path: Path) -> None:
    # Forked, since importing everything again would take most of the test's time; conftest keeps torch at one thread.
    mp.start_processes(_one_process, args=(str(tmp_path),), nprocs=2, start_method="fork")
    image, recipe = (torch.from_numpy(m) for m in made_pairs("repeated", 41, 8))
    metric = RetrievalMetric(pool=30, subsets=2)
    metric.update(image, recipe, torch.arange(41))
    expected = metric.compute()
    assert expected["n"] == 41 and expected["tied"] > 0
    for rank in range(2):
        assert torch.load(tmp_path / f"{rank}.pt", weights_only=True) == [expected] * len(SHARES)
