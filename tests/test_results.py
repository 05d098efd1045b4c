"""Rows over seeds, intervals, paired tests, flags: against slow references computed here."""

import itertools
import math
import random
import statistics

import numpy as np
import pytest
from scipy.stats import binomtest, norm

from engine.published_tables import EXPERIMENTS, food_experiments, rebuild
from engine.results import cluster_bootstraps, sections_of
from engine.run_records import find_runs, read_runs
from models.metrics import holm
from tests.made_up_runs import choice_run, config, food_run, retrieval_run


def sections(folder, seed=0):
    found = read_runs(find_runs(str(folder)))
    assert found.left_out == []
    return sections_of(found.results, seed)


def bits(n, share, seed):
    rng = random.Random(seed)
    return [float(rng.random() < share) for _ in range(n)]


def rows(section):
    return {entry.system: entry for entry in section.entries}


def test_holm_is_the_step_down_rule():
    rng = random.Random(5)
    for m in (1, 2, 7, 30):
        p = [round(rng.random() ** 4, 2) for _ in range(m)]  # rounded: ties are among them
        adjusted = holm(p)
        for alpha in (0.01, 0.05, 0.3):
            rejected, order = set(), sorted(range(m), key=lambda i: p[i])
            for step, i in enumerate(order):  # reject while p_(k) <= alpha / (m - k + 1)
                if p[i] * (m - step) > alpha + 1e-12:
                    break
                rejected.add(i)
            assert {i for i in range(m) if adjusted[i] <= alpha + 1e-12} == rejected
        assert all(adjusted >= np.asarray(p)) and adjusted.max() <= 1
    assert holm([]).shape == (0,)


def test_seeds_are_one_row_with_mean_deviation_and_a_clustered_interval(tmp_path):
    right = [bits(60, 0.5, seed) for seed in (1, 2, 3)]
    for seed, credit in enumerate(right, 1):
        choice_run(tmp_path / f"s{seed}", credit, seed=seed)
    (section,) = sections(tmp_path)
    (entry,) = section.entries
    shares = [sum(credit) / 60 for credit in right]
    assert len(entry.results) == 3 and entry.values == pytest.approx(shares)
    assert entry.mean == pytest.approx(statistics.mean(shares)) and entry.sd == pytest.approx(statistics.stdev(shares))

    # The interval by hand: credits averaged over seeds, design effect of recipes of two questions, Wilson.
    mean = [statistics.mean(three) for three in zip(*right, strict=True)]
    centre = statistics.mean(mean)
    residual = [value - centre for value in mean]
    groups = [residual[i] + residual[i + 1] for i in range(0, 60, 2)]
    effect = 30 / 29 * sum(g * g for g in groups) / (60 / 59 * sum(r * r for r in residual))
    n, z = 60 / max(effect, 1), 1.96
    middle = (centre + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(centre * (1 - centre) / n + z * z / (4 * n * n))
    assert entry.interval == pytest.approx((middle - half, middle + half))


def test_one_run_has_its_own_interval_and_no_deviation(tmp_path):
    choice_run(tmp_path / "a", bits(40, 0.5, 1))
    (section,) = sections(tmp_path)
    assert section.entries[0].sd is None
    assert section.entries[0].interval == pytest.approx(section.entries[0].first.interval)


def test_other_settings_are_other_rows_named_by_what_differs(tmp_path):
    for size, seed in itertools.product((8, 16), (1, 2)):
        net = {"_target_": "models.x.X", "hidden_size": size}
        cfg = config(seed, model={"name": "reader", "net": net, "optimizer": {"lr": 0.1}})
        choice_run(tmp_path / f"h{size}_{seed}", bits(30, 0.4, seed), seed=seed, cfg=cfg)
    (section,) = sections(tmp_path)
    assert {e.system: len(e.results) for e in section.entries} == {
        "reader (hidden_size=8)": 2,
        "reader (hidden_size=16)": 2,
    }


def test_a_seed_run_twice_counts_once_and_is_told(tmp_path):
    choice_run(tmp_path / "a", bits(30, 0.4, 1), seed=1)
    choice_run(tmp_path / "b", bits(30, 0.4, 1), seed=1)
    choice_run(tmp_path / "c", bits(30, 0.4, 2), seed=2)
    (section,) = sections(tmp_path)
    assert len(section.entries) == 1 and len(section.entries[0].results) == 2
    assert section.notes == ["reader, seed 1: 2 runs of the same settings with the same result"]


def test_paired_tests_agree_with_slow_references(tmp_path):
    a, b = bits(40, 0.7, 1), bits(40, 0.45, 2)
    choice_run(tmp_path / "a", a, system="first", per_recipe=4)
    choice_run(tmp_path / "b", b, system="second", per_recipe=4)
    (section,) = sections(tmp_path)
    (row,) = section.comparisons
    assert (row["a"], row["b"], row["clusters"]) == ("first", "second", 10)
    only_a = sum(x > y for x, y in zip(a, b, strict=True))
    only_b = sum(x < y for x, y in zip(a, b, strict=True))
    assert (row["only_a"], row["only_b"]) == (only_a, only_b)
    assert row["mcnemar_p"] == pytest.approx(binomtest(only_a, only_a + only_b).pvalue)
    differences = [sum(a[i : i + 4]) - sum(b[i : i + 4]) for i in range(0, 40, 4)]
    flips = [
        abs(sum(s * d for s, d in zip(signs, differences, strict=True)))
        for signs in itertools.product((1, -1), repeat=10)
    ]
    exact = sum(f >= abs(sum(differences)) - 1e-9 for f in flips) / len(flips)
    assert row["p"] == pytest.approx(exact, abs=0.015) and row["holm_p"] == pytest.approx(row["p"])
    assert row["difference"] == pytest.approx(sum(differences) / 40)


def test_bootstrap_draws_whole_clusters():
    rng = np.random.default_rng(3)
    clusters = [f"c{i // 5}" for i in range(200)]
    shared = np.repeat(rng.normal(size=40), 5)
    values = np.stack([shared, rng.normal(size=200)], axis=1)
    low, high = cluster_bootstraps(values, clusters, seed=1)
    slow = random.Random(2)
    for column in range(2):
        by_cluster = [values[i : i + 5, column].mean() for i in range(0, 200, 5)]
        means = sorted(statistics.fmean(slow.choices(by_cluster, k=40)) for _ in range(4000))
        assert (low[column], high[column]) == pytest.approx((means[100], means[3899]), abs=0.03)
    # Five equal values in a cluster are one observation: far wider than 200 independent ones would be.
    assert high[0] - low[0] > 1.6 * 2 * norm.ppf(0.975) * shared.std() / math.sqrt(200)
    alone = cluster_bootstraps(values[:, :1], clusters, seed=1)
    assert (alone[0][0], alone[1][0]) == (low[0], high[0]), "the same draws for every pair"


def test_holm_is_over_the_pairs_of_one_section(tmp_path):
    for i, share in enumerate((0.3, 0.5, 0.9)):
        choice_run(tmp_path / str(i), bits(80, share, i), system=f"s{i}")
    (section,) = sections(tmp_path)
    p = {(r["a"], r["b"]): r["p"] for r in section.comparisons}
    assert len(p) == 3
    ordered = sorted(section.comparisons, key=lambda r: r["p"])
    running = 0.0
    for k, row in enumerate(ordered):
        running = max(running, min(1.0, row["p"] * (3 - k)))
        assert row["holm_p"] == pytest.approx(running)


def test_many_pairs_keep_a_p_that_can_be_small(tmp_path, monkeypatch):
    monkeypatch.setattr("engine.results.ROUNDS", 1000)
    for i in range(12):  # 66 pairs: 1,000 rounds would allow no adjusted p below 66 / 1,001
        choice_run(tmp_path / str(i), bits(40, 0.1 if i else 1.0, i), system=f"s{i:02d}")
    (section,) = sections(tmp_path)
    assert len(section.comparisons) == 66 and min(r["holm_p"] for r in section.comparisons) < 66 / 1001


def test_hundreds_of_rows_are_compared_with_the_highest_only(tmp_path, monkeypatch):
    monkeypatch.setattr("engine.results.MOST_PAIRS", 5)
    for i in range(4):
        choice_run(tmp_path / str(i), bits(20, 0.2 * i + 0.1, i), system=f"s{i}")
    (section,) = sections(tmp_path)
    best = section.entries[0].system
    assert len(section.comparisons) == 3 and all(best in (r["a"], r["b"]) for r in section.comparisons)
    assert "4 rows: compared with the highest only" in section.notes[-1]


def test_only_the_same_questions_are_compared(tmp_path):
    choice_run(tmp_path / "a", bits(30, 0.5, 1), system="a")
    choice_run(tmp_path / "b", bits(30, 0.5, 2), system="b")
    choice_run(tmp_path / "c", bits(30, 0.5, 3), system="c", offset=7)
    choice_run(tmp_path / "d", bits(20, 0.5, 3), system="d", cfg=config(1, data={"limit": 20}))
    (section,) = sections(tmp_path)
    assert [(r["a"], r["b"]) for r in section.comparisons] in ([("a", "b")], [("b", "a")])
    found = rows(section)
    assert found["a"].reference and "other questions" in found["c"].flags
    assert found["d"].flags == ["data.limit=20", "other n"]


def test_seeds_with_questions_of_their_own_have_no_interval_and_no_test(tmp_path):
    choice_run(tmp_path / "a", bits(30, 0.5, 1), seed=1)
    choice_run(tmp_path / "b", bits(30, 0.5, 2), seed=2, offset=30)
    choice_run(tmp_path / "h", bits(30, 0.5, 3), system="hasty")
    (section,) = sections(tmp_path)
    entry = rows(section)["reader"]
    assert entry.sd is not None and entry.interval is None and section.comparisons == []
    assert any("own questions" in flag for flag in entry.flags)


def test_a_checkpoint_scored_on_a_second_file_is_a_row_of_its_own(tmp_path):
    choice_run(tmp_path / "a", bits(30, 0.5, 1))
    choice_run(tmp_path / "a" / "evaluate_1", bits(20, 0.5, 2), offset=50)
    (section,) = sections(tmp_path)
    assert sorted(e.first.n for e in section.entries) == [20, 30] and len(rows(section)) == 2


def test_ties_share_the_point_and_are_no_matter_for_mcnemar(tmp_path):
    choice_run(tmp_path / "a", [1, 0.5, 0, 1], system="a")
    choice_run(tmp_path / "b", [0, 0.5, 0, 1], system="b")
    (section,) = sections(tmp_path)
    assert rows(section)["a"].mean == 0.625 and section.comparisons[0]["mcnemar_p"] is None
    assert section.comparisons[0]["difference"] == pytest.approx(0.25)


def test_flags_say_what_is_not_comparable(tmp_path):
    cfg = config(1, data={"limit": None, "modality": "multimodal", "builder": {"_target_": "x.WikibooksQuestions"}})
    cfg["trainer"] = {"limit_train_batches": 0.1}
    choice_run(tmp_path / "a", [1, 0], cfg=cfg, data="wikibooks/textual_cloze", notes=["transductive: x"])
    choice_run(tmp_path / "v", [1, 0], split="val")
    food_run(tmp_path / "f", [[1, 0, 0], [0, 0, 0]], demo=True, complete=False, missing=3)
    flags = {s.title.partition(":")[2].partition(",")[0].strip(): s.entries[0].flags for s in sections(tmp_path)}
    assert flags["wikibooks/textual_cloze"] == ["trained on part of the batches", "transductive", "rendered pictures"]
    assert flags["made/textual_cloze"] == ["split val"]
    assert flags["demo set"] == ["demo set", "incomplete: 3 answers missing", "2 of 4 prompts"]


def test_food_rows_are_means_over_prompts(tmp_path):
    right = [bits(30, share, i) for i, share in enumerate((0.2, 0.4, 0.6, 0.8))]
    food_run(tmp_path / "a", right, model="a")
    food_run(tmp_path / "b", [bits(30, 0.1, 9 + i) for i in range(4)], model="b")
    (section,) = sections(tmp_path)
    entry = rows(section)["a"]
    assert entry.mean == pytest.approx(statistics.mean(sum(row) / 30 for row in right))
    assert entry.first.best == max(sum(row) / 30 for row in right)
    (row,) = section.comparisons
    assert row["clusters"] == 10 and row["mcnemar_p"] is None and row["difference"] > 0.2


def test_retrieval_rows_and_reciprocal_ranks(tmp_path):
    rng = random.Random(0)
    runs = [[(rng.randint(1, 20), rng.randint(1, 20)) for _ in range(20)] for _ in range(3)]
    for seed in (1, 2):
        retrieval_run(tmp_path / f"s{seed}", runs[seed - 1], seed=seed)
    retrieval_run(tmp_path / "nce", runs[2], loss="models.losses.InfoNCE")
    (section,) = sections(tmp_path)
    entry = rows(section)["im2recipe (ranking=CosineHingeRanking)"]
    medians = [statistics.median(pair[0] for pair in ranks) for ranks in runs[:2]]
    mean, sd, interval = entry.rank("all", "image_to_recipe", "medR")
    assert mean == pytest.approx(statistics.mean(medians)) and sd == pytest.approx(statistics.stdev(medians))
    assert interval is None
    reciprocal = [statistics.mean((1 / a + 1 / b) / 2 for a, b in ranks) for ranks in runs]
    (row,) = section.comparisons
    gap = statistics.mean(reciprocal[:2]) - reciprocal[2]
    assert abs(row["difference"]) == pytest.approx(abs(gap)) and row["mcnemar_p"] is None


def test_table_2_holds_own_cells_and_commands_for_the_others(tmp_path):
    cfg = config(1, model={"name": "hasty_student"}, data={"limit": None})
    for i, official in enumerate((True, False)):
        task = ("visual_cloze", "visual_ordering")[i]
        place = tmp_path / task
        choice_run(place, [1, 0, 0, 1], "hasty_student", data=f"recipeqa/{task}", task=task, cfg=cfg, official=official)
    rebuilt = rebuild(sections(tmp_path))
    sheet = rebuilt.sheets[0]
    cells = {row[0]: dict(zip(sheet.columns[1:], row[1:], strict=True)) for _, row in sheet.rows}
    hasty = cells["Hasty Student"]
    assert hasty["visual cloze, published"] == "27.35" and hasty["visual cloze, here"] == "50.0"
    assert hasty["visual ordering, here"] == "50.0†", "not on the published questions"
    assert hasty["textual cloze, here"] == "–" and cells["Human"]["textual cloze, here"] == ""
    commands = dict(rebuilt.missing)
    wanted = "python evaluate.py experiment=recipeqa/hasty_student_textual_cloze data.root=DIR"
    assert commands["table 2, Hasty Student, textual cloze"] == wanted
    assert "table 2, Hasty Student, visual cloze" not in commands and len(commands) == 7


def test_other_questions_never_fill_the_papers_table(tmp_path):
    cfg = config(1, model={"name": "hasty_student"})
    choice_run(tmp_path / "w", [1, 0], "hasty_student", data="wikibooks/textual_cloze", cfg=cfg)
    choice_run(tmp_path / "f", [1, 1], "first_choice", data="wikibooks/textual_cloze", cfg=cfg)
    choice_run(tmp_path / "t", [1, 1], "tfidf_context", data="wikibooks/textual_cloze", cfg=cfg)
    rebuilt = rebuild(sections(tmp_path))
    here = [row[1:][1::2] for _, row in rebuilt.sheets[0].rows]
    assert {cell for cells in here for cell in cells} == {"–", ""}
    assert ("this run", ["hasty student", "50.0", "–", "–", "–"]) in rebuilt.sheets[1].rows
    commands = dict(rebuilt.missing)
    command = "python evaluate.py data=wikibooks/visual_cloze model="
    assert commands["wikibooks, hasty student, visual cloze"] == command + "hasty_student"
    assert commands["wikibooks, first choice, visual cloze"] == command + "sanity/first_choice"
    assert not any("tfidf" in cell for cell in commands), "a rule for texts is none for pictures"


def test_retrieval_tables_know_the_published_setting_by_its_loss(tmp_path):
    ranks = [(1 + i % 7, 1 + i % 5) for i in range(30)]
    retrieval_run(tmp_path / "a", ranks, loss="models.losses.PairwiseCosine", official=True, pools=("1k", "all"))
    rebuilt = rebuild(sections(tmp_path))
    one, ten = rebuilt.sheets
    own = {cells[0]: cells[1:] for kind, cells in one.rows if kind == "this run"}
    assert own["JE+SR (im2recipe), experiment=recipe1m/paper, here"][0] == "4.0"
    published = {cells[0]: cells[1:] for kind, cells in one.rows if kind == "published"}
    assert published["JE+SR (im2recipe), 2017"][:4] == ["5.2", "24.0", "51.0", "65.0"]
    assert all(set(cells[1:]) == {"–"} for kind, cells in ten.rows if kind == "this run")
    assert ("Recipe1M 10k, JE+SR (im2recipe), experiment=recipe1m/paper" in dict(rebuilt.missing)) is True


def test_foodieqa_tables_take_the_release_only_and_know_models_by_name(tmp_path):
    right = [bits(40, 0.5, i) for i in range(4)]
    food_run(tmp_path / "a", right, model="HuggingFaceM4/idefics2-8b")
    food_run(tmp_path / "b", right, model="HuggingFaceM4/idefics2-8b", ablation="dish_name")
    food_run(tmp_path / "demo", right, model="HuggingFaceM4/idefics2-8b", task="mivqa", demo=True)
    rebuilt = rebuild(sections(tmp_path))
    three, _, four, five = rebuilt.sheets
    row = next(cells for _, cells in three.rows if cells[0] == "Idefics2-8B")
    shares = [sum(r) / 40 for r in right]
    cell = f"{max(shares) * 100:.2f} ({statistics.mean(shares) * 100:.2f})"
    assert row[three.columns.index("sivqa zh, here")] == cell and row[three.columns.index("mivqa zh, here")] == "–"
    named = next(cells for _, cells in four.rows if cells[1] == "photo and dish name")
    assert named[3::2] == [f"{share * 100:.2f}" for share in shares] and named[2] == "40.23"
    assert [cells[2] for _, cells in five.rows] == ["49.61", "73.83", "50.39", "75.39", "44.53", "40.23"]
    commands = dict(rebuilt.missing)
    assert (
        commands["FoodieQA, table 3, Idefics2-8B, mivqa zh"].split()[2] == "experiment=foodieqa/idefics2_multi_image_zh"
    )
    assert "no experiment file" in commands["FoodieQA, table 3, Qwen-VL-12B, sivqa en"]


def test_every_command_names_an_experiment_that_exists():
    rebuilt = rebuild([], "all")
    assert rebuilt.sheets[0].title.startswith("RecipeQA, table 2 ")
    named = {
        word.partition("=")[2] for _, line in rebuilt.missing for word in line.split() if word.startswith("experiment=")
    }
    assert len(named) > 30 and all((EXPERIMENTS / f"{name}.yaml").is_file() for name in named)
    assert {system for system, *_ in food_experiments()} >= {"GPT-4o", "Idefics2-8B", "Qwen2-7B-instruct"}
