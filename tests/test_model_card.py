"""The card beside the checkpoints: the run's own numbers, how to use it, and no secret."""

import json

import pytest
import yaml
from torch import nn

from engine.model_card import write_model_card
from tests.made_up_runs import choice_run, config, retrieval_run, write_json
from tests.runs import SMALL, run, small_files

SECTIONS = [
    "Model",
    "Data",
    "Training and protocol",
    "Results",
    "Loading and scoring",
    "Intended use and limits",
    "Provenance",
]


class Net(nn.Module):
    """A net of `one` line (Someone 2020, section 3), (B, T) -> (B, K).

    Details that no card needs.
    """

    def __init__(self) -> None:
        super().__init__()
        self.map = nn.Linear(10, 5)


def choice_folder(folder, **given):
    cfg = config(7)
    cfg["data"] |= {"tasks": ["textual_cloze"], "batch_size": 64, "name": "recipeqa/textual_cloze"} | given
    cfg["callbacks"] = {
        "best": {"monitor": "val/accuracy"},
        "early_stopping": {"monitor": "val/accuracy", "patience": 9},
    }
    table = [
        {"system": "reader", "kind": "this run", "accuracy": 0.5, "n": 4, "interval": [0.1, 0.9], "note": ""},
        {"system": "chance", "kind": "baseline", "accuracy": 0.25, "n": 4, "interval": None, "note": ""},
        {"system": "Paper", "kind": "published", "accuracy": 0.99, "n": 9, "interval": None, "note": ""},
    ]
    choice_run(folder, [1, 0, 1, 0], cfg=cfg, notes=["a note"])
    metrics = json.loads((folder / "metrics.json").read_text())
    row = metrics["tasks"]["textual_cloze"]
    row |= {"table": table, "verdict": ["reader beats nobody"], "interval_kind": "Wilson 95 %", "recipes": 2}
    write_json(folder / "metrics.json", metrics)
    made = {
        "overrides": ["seed=7"],
        "git": {"commit": "c0ffee", "changed_files": [" M a.py"]},
        "packages": {"torch": "2.9"},
        "hardware": {"machine": "x86_64", "cores": 2, "gpus": []},
        "data": {
            "questions": {"train": 3000, "test": 4},
            "files": {"test": {"file": "test.json", "sha256": "ab" * 32}},
        },
    }
    write_json(folder / "provenance.json", made)
    return folder


def test_the_card_says_what_how_good_and_how_to_use(tmp_path):
    text = write_model_card(choice_folder(tmp_path / "r"), Net()).read_text()
    assert [line[3:] for line in text.splitlines() if line.startswith("## ")] == SECTIONS
    assert "A net of \\`one\\` line (Someone 2020, section 3)" in text and "Details" not in text
    assert "55 parameters" in text and "RecipeQA (Yagcioglu" in text and "research use with attribution" in text
    assert "| reader | 50.00 | 10.0–90.0 | 4 |  |" in text and "| chance | 25.00 |  | 4 |  |" in text
    assert "99.00" not in text, "published rows are in results.md"
    assert "reader beats nobody" in text and "note: a note" in text and "ab" * 32 in text
    assert "/r/checkpoints/best.ckpt data.test_file=NEW.json" in text and "allergies" in text
    assert "commit `c0ffee`, 1 changed files" in text and "torch 2.9" in text and "after 9 validations" in text


def test_before_the_end_there_are_no_numbers_not_even_old_ones(tmp_path):
    text = write_model_card(choice_folder(tmp_path / "r"), Net(), measured=False).read_text()
    assert "Not measured yet" in text and "50.00" not in text


def test_retrieval_has_both_directions(tmp_path):
    folder = retrieval_run(tmp_path / "r", [(1, 3), (2, 1), (9, 4), (2, 2)])
    cfg = yaml.safe_load((folder / "config.yaml").read_text())
    cfg["data"] |= {"name": "recipe1m", "batch_size": 64}
    (folder / "config.yaml").write_text(yaml.safe_dump(cfg))
    text = write_model_card(folder, Net()).read_text()
    assert "| image → recipe | 2.0 | 25.0 | 75.0 | 100.0 |" in text and "| recipe → image | 2.5 |" in text
    assert "query=photo.jpg" in text and "not to be passed on" in text


def test_own_files_have_no_licence_that_this_project_could_know(tmp_path):
    text = write_model_card(choice_folder(tmp_path / "r", test_file="mine.json"), Net()).read_text()
    assert "not known to this project" in text and "RecipeQA (Yagcioglu" not in text


def test_limits_and_collapse_are_said(tmp_path):
    folder = choice_folder(tmp_path / "r", limit=20)
    metrics = json.loads((folder / "metrics.json").read_text())
    metrics["tasks"]["textual_cloze"]["collapsed"] = 0.5
    write_json(folder / "metrics.json", metrics)
    text = write_model_card(folder, Net()).read_text()
    assert "data.limit=20" in text and "Collapsed on textual cloze" in text


@pytest.mark.slow
def test_training_writes_a_card_and_no_secret(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_API_KEY", "planted-0123456789")
    run("train", tmp_path / "run", [*small_files(tmp_path), *SMALL, "+note_token=planted-0123456789"])
    text = (tmp_path / "run" / "MODEL_CARD.md").read_text()
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert f"| {metrics['tasks']['textual_cloze']['accuracy'] * 100:.2f} |" in text and "planted" not in text
    assert "Impatient Reader (Hermann et al. 2015" in text
