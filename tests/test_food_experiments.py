"""Experiment files for the cells of the FoodieQA paper whose model can still be run."""

import pytest
import yaml

from engine.food_published import published_food_rows
from tests.runs import ROOT, composed

EXPERIMENTS = sorted(path.stem for path in (ROOT / "conf" / "experiment" / "foodieqa").glob("*.yaml"))
SYSTEMS = {
    "idefics2": "Idefics2-8B",
    "mantis": "Mantis-8B",
    "gpt4o": "GPT-4o",
    "qwen2_7b": "Qwen2-7B-instruct",
    "llama3_8b_chinese": "Llama3-8B-Chinese",
    "mistral_7b": "Mistral-7B-Instruct-v0.3",
    "phi3_medium": "Phi-3-medium-4k-instruct",
    "yi_6b": "Yi-6B",
    "yi_34b": "Yi-34B",
}
TASKS = {"multi_image": "mivqa", "single_image": "sivqa", "text": "textqa"}


def test_one_experiment_for_each_cell_that_can_be_run():
    cells = {
        f"{name}_{task}_{lang}"
        for name in ("idefics2", "mantis", "gpt4o")
        for task in list(TASKS)[:2]
        for lang in ("zh", "en")
    }
    cells |= {f"{name}_text_zh" for name in list(SYSTEMS)[3:]}
    cells |= {f"idefics2_single_image_zh_{ablation}" for ablation in ("dish_name", "dish_name_only_textqa")}
    assert set(EXPERIMENTS) == cells
    models = (ROOT / "docs" / "foodieqa_models.md").read_text(encoding="utf-8")
    assert all(f"`{name}`" in models for name in EXPERIMENTS)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_experiments_carry_the_papers_figure_and_say_what_they_are(name):
    path = ROOT / "conf" / "experiment" / "foodieqa" / f"{name}.yaml"
    text = path.read_text(encoding="utf-8")
    written = yaml.safe_load(text)
    cfg = composed("evaluate", [f"experiment=foodieqa/{name}"])
    system = next(SYSTEMS[key] for key in sorted(SYSTEMS, key=len, reverse=True) if name.startswith(key))
    task = next(key for key in TASKS if f"_{key}_" in name)
    assert (cfg.data.task, cfg.data.language) == (TASKS[task], written["data"]["language"])
    ablation = written["asking"].get("ablation", "none")
    (row,) = [r for r in published_food_rows(cfg.data.task, cfg.data.language, ablation) if r["system"] == system]
    comment = " ".join(line.removeprefix("#").strip() for line in text.splitlines() if line.startswith("#"))
    assert f"published: {row['accuracy']:.2f} %" in comment and f"{row['n']} questions" in comment
    assert cfg.model.name == written["model"]["name"] and cfg.prompts.variant == written["prompts"]["variant"]
    variants = {item["id"].split(".")[3] for item in cfg.prompts["all"] if f".{cfg.data.language}." in item["id"]}
    assert cfg.prompts.variant in variants


def test_experiments_win_over_the_defaults_of_asking():
    for name in EXPERIMENTS:
        written = yaml.safe_load((ROOT / "conf" / "experiment" / "foodieqa" / f"{name}.yaml").read_text("utf-8"))
        cfg = composed("evaluate", [f"experiment=foodieqa/{name}"])
        assert {key: cfg.asking[key] for key in written["asking"]} == written["asking"], name
