"""One command asks everything once, goes on where it was killed, and scores in the options' own order."""

import json
import random
from collections import Counter

import pytest
from omegaconf import OmegaConf

from data.errors import InputError
from engine.asking import best_letter, build_backend, check_asking, names_a_place, plan, score
from models.backend import Reply
from tests.food_backend import Scripted, killed_after
from tests.made_up_foodieqa import write_release
from tests.runs import ROOT, composed, run
from tests.test_prompts import question

TASKS = {"multi_image": "mivqa", "single_image": "sivqa", "text": "textqa"}


def given(folder, task, *overrides):
    """Overrides that score the scripted model on a made-up release in `folder`."""
    release = folder / "release"
    if not release.exists():
        write_release(release, n=12)
    return [
        f"hydra.searchpath=[file://{ROOT / 'tests' / 'conf'}]",
        f"data=foodieqa/{task}",
        f"data.root={release}",
        f"cache={folder / 'cache'}",
        "model=scripted",
        "logger=[]",
        *overrides,
    ]


def evaluated(folder, *overrides, task="text", out="run"):
    value = run("evaluate", folder / out, given(folder, task, *overrides))
    return value, json.loads((folder / out / "metrics.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("task", list(TASKS))
@pytest.mark.parametrize("language", ["zh", "en"])
def test_every_task_is_asked_by_four_prompts_and_scored(tmp_path, task, language):
    if (task, language) == ("text", "en"):
        with pytest.raises(InputError, match="English"):
            evaluated(tmp_path, f"data.language={language}", task=task)
        return
    value, _ = evaluated(tmp_path, f"data.language={language}", task=task)
    lines = [json.loads(line) for line in (tmp_path / "run" / "answers.jsonl").read_text().splitlines()]
    rows = {line["row"] for line in lines}
    assert len(lines) == 4 * len(rows) == len({line["key"] for line in lines})
    wrong = sum(row % 3 == 0 for row in rows)
    assert value == pytest.approx(1 - wrong / len(rows))
    assert {line["prompt_id"].split(".")[1] for line in lines} == {language}
    assert all(len(line["image_hashes"]) == {"mivqa": 4, "sivqa": 1, "textqa": 0}[TASKS[task]] for line in lines)
    assert "score" not in {key for line in lines for key in line} and "credit" not in lines[0]


def test_a_second_run_asks_nothing_and_says_the_same(tmp_path):
    note = tmp_path / "asked"
    first = evaluated(tmp_path, f"model.note={note}")
    asked = note.read_text().split()
    again = evaluated(tmp_path, f"model.note={note}", out="again")
    assert note.read_text().split() == asked and first == again
    for name in ("results.md", "predictions.jsonl", "answers.jsonl"):
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "again" / name).read_bytes()
    evaluated(tmp_path, "asking.fresh=true", f"model.note={note}", out="fresh")
    assert len(note.read_text().split()) == 2 * len(asked)


def test_killed_at_random_it_ends_as_if_it_had_not_been(tmp_path):
    note = tmp_path / "asked"
    slow = [f"model.note={note}", "model.delay=0.004"]
    whole = given(tmp_path / "whole", "single_image", "asking.permutation=circular")
    run("evaluate", tmp_path / "whole" / "run", whole)
    (tmp_path / "cut").mkdir()
    (tmp_path / "whole" / "release").rename(tmp_path / "cut" / "release")  # the same pictures at another place
    cut = given(tmp_path / "cut", "single_image", "asking.permutation=circular", *slow)
    rng, kills = random.Random(7), 0
    # The last kills fall into the report, which is drawn again; then the run is let through.
    while not killed_after(
        rng.uniform(0.2, 0.7) if kills < 8 else 60, lambda: run("evaluate", tmp_path / "cut" / "run", cut)
    ):
        kills += 1
        assert kills < 9
    assert kills == 8
    times = Counter(note.read_text().split())
    assert set(times.values()) <= {1, 2} and sum(n - 1 for n in times.values()) <= kills, "one request is in flight"
    for name in ("results.md", "predictions.jsonl"):
        assert (tmp_path / "cut" / "run" / name).read_bytes() == (tmp_path / "whole" / "run" / name).read_bytes()


def test_failures_are_no_answers_and_are_asked_again(tmp_path):
    with pytest.raises(InputError, match=r"10 of 48 requests got no answer \(HTTP 500: overloaded\)"):
        evaluated(tmp_path, "model.fail_every=5")
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text(encoding="utf-8"))
    assert metrics["missing"] > 0 and not metrics["complete"]
    text = (tmp_path / "run" / "results.md").read_text(encoding="utf-8")
    assert "incomplete" in text.lower() and "HTTP 500" in text
    value, metrics = evaluated(tmp_path, out="again")
    assert metrics["missing"] == 0 and value == pytest.approx(8 / 12)


def test_rotations_are_scored_in_the_options_own_order(tmp_path):
    value, _ = evaluated(tmp_path, "asking.permutation=circular", "model.wrong_every=0", task="multi_image")
    assert value == 1.0
    rows = [json.loads(line) for line in (tmp_path / "run" / "predictions.jsonl").read_text().splitlines()]
    assert all(row["choice"] == row["answer"] for row in rows)
    assert len({tuple(row["order"]) for row in rows}) == 4


def test_a_constant_letter_is_right_in_one_rotation_of_four(tmp_path):
    cfg = composed("evaluate", given(tmp_path, "text", "asking.permutation=circular", f"output_dir={tmp_path}/o"))
    from hydra.utils import instantiate

    data = instantiate(cfg.data)
    data.prepare()
    asked, _, left_out = plan(cfg, data, Scripted(), "generate")
    outcomes, failures = score(asked, {a.request.key: Reply(response="A") for a in asked}, cfg)
    rotated = [o for o in outcomes if not names_a_place(o.question)]
    assert not failures and sum(o.credit for o in rotated) == len(rotated) / 4
    assert left_out == sum(map(names_a_place, data.questions))


def test_the_key_changes_with_all_that_changes_the_answer(tmp_path):
    from hydra.utils import instantiate

    seen = {}
    cases = {
        "plain": [],
        "prefill": ["asking.prefill=inline"],
        "ablation": ["asking.ablation=dish_name"],
        "blank": ["asking.ablation=blank_image"],
        "other": ["asking.ablation=other_image"],
        "brackets": ["prompts.options_line='({letter}) {choice};'"],
        "language": ["data.language=en"],
        "system": ["prompts.system=Kurz."],
    }
    for name, overrides in cases.items():
        cfg = composed("evaluate", given(tmp_path, "single_image", *overrides, f"output_dir={tmp_path}/o"))
        data = instantiate(cfg.data)
        data.prepare()
        asked = plan(cfg, data, Scripted(), "generate")[0]
        seen[name] = {a.request.key for a in asked}
    for name in cases:
        if name == "prefill":  # the prompts without a begun answer are the same requests
            assert seen["plain"] != seen[name] and seen["plain"] & seen[name]
        elif name != "plain":
            assert not seen["plain"] & seen[name], name
    asked = plan(cfg, data, Scripted(wrong_every=5), "generate")[0]
    assert not seen["system"] & {a.request.key for a in asked}, "another model"


@pytest.mark.parametrize(
    ("overrides", "task", "words"),
    [
        (["asking.method=guess"], "text", "asking.method=guess"),
        (["asking.prefill=never"], "text", "asking.prefill=never"),
        (["asking.permutation=some"], "text", "asking.permutation=some"),
        (["asking.ablation=smell"], "text", "asking.ablation=smell"),
        (["asking.prefill=continue", "model.prefill=false"], "single_image", "cannot continue"),
        (["model.max_images=0"], "multi_image", "reads no pictures"),
        (["model.max_images=1"], "multi_image", "takes 1 pictures at most"),
        (["model.interleaved=false"], "multi_image", "prompts.index=0"),
        (["prompts.variant=mine"], "text", "prompts.variant=mine"),
        (["ckpt_path=x.ckpt"], "text", "ckpt_path=x.ckpt"),
        (["asking.fresh=a"], "text", "asking.fresh=a"),
        (["prompts.index=1.5"], "text", "prompts.index=1.5"),
        (["asking.ablation=blank_image"], "text", "have no photos"),
        (["asking.against=nowhere"], "text", "asking.against=nowhere"),
        (["prompts=sivqa"], "multi_image", "choose prompts=mivqa"),
    ],
)
def test_wrong_settings_are_named_before_anything_is_asked(tmp_path, overrides, task, words):
    with pytest.raises(InputError) as caught:
        evaluated(tmp_path, *overrides, task=task)
    assert words in str(caught.value)
    assert not (tmp_path / "cache" / "answers").exists()


def test_pictures_first_is_fine_where_the_server_moves_them_there(tmp_path):
    value, _ = evaluated(tmp_path, "prompts.index=0", "model.interleaved=false", task="multi_image")
    assert value is not None


def test_models_and_data_of_other_problems_are_told_apart(tmp_path):
    with pytest.raises(InputError, match="cannot answer these questions"):
        run("evaluate", tmp_path / "a", ["data=foodieqa/text", f"cache={tmp_path}", "logger=[]"])
    with pytest.raises(InputError, match="answers FoodieQA's questions only"):
        run("evaluate", tmp_path / "b", ["model=trivial/random", f"cache={tmp_path}", "logger=[]"])
    with pytest.raises(InputError, match="evaluation only"):
        run("train", tmp_path / "c", ["data=foodieqa/text", f"cache={tmp_path}", "logger=[]"])


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("图A和图B哪个更辣？", True),
        ("第一张图里有什么？", True),
        ("以上都不是", True),
        ("Which is spicier, picture 2 or picture 3?", True),
        ("None of the above", True),
        ("以上哪道菜不辣？", False),
        ("哪一道菜适合喜欢吃肠的人？", False),
        ("图片中的食物属于哪个菜系?", False),
        ("Which option is best for a diet?", False),
        ("The first step in cooking this dish is?", False),
    ],
)
def test_questions_that_name_a_position_are_found(text, named):
    assert names_a_place(question(question=text)) is named


def test_ties_share_the_point_and_are_broken_by_a_hash_not_by_position():
    chosen = Counter()
    for i in range(400):
        place, credit, tied = best_letter({"A": 1.0, "B": 1.0, "C": 1.0, "D": 1.0}, 2, f"key {i}")
        assert credit == 0.25 and tied
        chosen[place] += 1
    assert min(chosen.values()) > 60
    assert best_letter({"A": -1.0, "C": -0.5}, 2, "k") == (2, 1.0, False)
    assert best_letter({}, 2, "k") == (None, 0.0, False)
    with pytest.raises(InputError, match="no number"):
        best_letter({"A": float("nan")}, 0, "k")


def test_log_probabilities_are_asked_for_where_wished(tmp_path):
    value, _ = evaluated(tmp_path, "asking.method=logprob", "model.wrong_every=0")
    assert value == 1.0
    lines = [json.loads(line) for line in (tmp_path / "run" / "answers.jsonl").read_text().splitlines()]
    assert all(line["response"] is None and set(line["scores"]) == set("ABCD") for line in lines)


def test_what_was_asked_is_in_the_log_word_for_word(tmp_path):
    evaluated(tmp_path, "prompts.index=1", "asking.ablation=dish_name_only_textqa", task="single_image")
    lines = [json.loads(line) for line in (tmp_path / "run" / "answers.jsonl").read_text().splitlines()]
    assert len(lines) == 12, "one prompt, though it is of the text task"
    [[role, text]] = lines[0]["prompt"]
    assert (
        role == "user"
        and text.startswith("你是一个智能助手，请你回答以下选择题：样品")
        and lines[0]["image_hashes"] == []
    )


def test_half_a_character_in_a_reply_ends_no_report(tmp_path):
    value, _ = evaluated(tmp_path, "model.says='{letter} <half>'", "model.wrong_every=0")
    assert value == 1.0


def test_a_generated_set_of_the_released_size_is_not_the_release(tmp_path):
    release = tmp_path / "release"
    write_release(release, n=256)
    _, metrics = evaluated(tmp_path, "prompts.index=0", task="single_image")
    assert metrics["n"] == 256 and not any(row["same_questions"] for row in metrics["published"])


def test_the_published_parser_is_there_for_comparison(tmp_path):
    value, _ = evaluated(
        tmp_path, "asking.extraction=first_letter_random", "model.says='Answer {letter}'", "model.wrong_every=0"
    )
    truth = [json.loads(line)["answer"] for line in (tmp_path / "run" / "predictions.jsonl").read_text().splitlines()]
    assert value == pytest.approx(sum(a == 0 for a in truth) / len(truth)), "the A of Answer"


def test_settings_are_checked_as_composed():
    check_asking(composed("evaluate", ["data=foodieqa/text", "model=trivial/random"]))
    assert OmegaConf.select(composed("evaluate", []), "asking.permutation") == "off"


@pytest.mark.parametrize("name", ["vlm/transformers", "vlm/openai", "clip"])
def test_a_model_without_a_name_says_what_to_give(name):
    cfg = composed("evaluate", ["data=foodieqa/text", f"model={name}"])
    with pytest.raises(InputError, match=r"model\.(name|base_url)="):
        backend = build_backend(cfg)
        backend.capabilities()
