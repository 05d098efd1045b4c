"""Compose and run commands in process: importing Lightning takes seconds, so few tests start a process."""

from collections.abc import Sequence
from pathlib import Path
from unittest import mock

from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from omegaconf import DictConfig

import engine.launch  # noqa: F401 (registers the resolver of run folders)
from tests.made_up import made_up_questions, write_file

ROOT = Path(__file__).resolve().parents[1]

# A network and a text encoder small enough for tests; dropout and drawn negatives use the random generator.
SMALL = [
    "text.epochs=2",
    "text.infer_epochs=2",
    "text.min_count=1",
    "model.net.hidden_size=16",
    "model.net.attention_size=16",
    "model.net.dropout=0.2",
    "model.loss.negatives=one_random",
    "model.scheduler={_target_: torch.optim.lr_scheduler.StepLR, _partial_: true, step_size: 1, gamma: 0.7}",
    "data.batch_size=8",
    "trainer.max_epochs=3",
    "trainer.accelerator=cpu",
    "sanity=false",
    "logger=[]",
    "trainer.enable_progress_bar=false",
]

# The same for the aligned reader, which has none of the network's sizes.
SMALL_READER = [o for o in SMALL if not o.startswith(("model.net", "model.loss", "model.scheduler"))]


def composed(name: str, overrides: Sequence[str]) -> DictConfig:
    """The config of `train`, `evaluate` or `prepare`."""
    GlobalHydra.instance().clear()
    with initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
        return compose(name, overrides=list(overrides))


def run(script: str, folder: Path, overrides: Sequence[str]) -> float | None:
    """Run a command's main function as the entry point would, in the run folder `folder`."""
    import engine.asking
    import engine.evaluation
    from engine.preparation import prepare
    from engine.training import train

    cfg = composed(script, [*overrides, f"output_dir={folder}"])
    food = cfg.data._target_ == "data.foodieqa.FoodieQAData"
    evaluate = engine.asking.evaluate if food else engine.evaluation.evaluate
    function = {"train": train, "evaluate": evaluate, "prepare": prepare}[script]
    given = [override for override in overrides if override not in SMALL or "ckpt_path" not in " ".join(overrides)]
    with (
        mock.patch("engine.training.command_overrides", return_value=given),
        mock.patch("engine.evaluation.command_overrides", return_value=given),
        mock.patch("engine.asking.command_overrides", return_value=given),
    ):
        return function(cfg)


def small_files(folder: Path, task: str = "textual_cloze", n: int = 40) -> list[str]:
    """Made-up training, validation and test files of one task; returns the overrides that name them."""
    overrides = [f"data=recipeqa/{task}", f"cache={folder / 'cache'}"]
    for seed, split in enumerate(("train", "val", "test")):
        path = folder / f"{split}.json"
        write_file(path, made_up_questions(task, n if split == "train" else 12, seed=seed, split=split))
        overrides.append(f"data.{split}_file={path}")
    return overrides
