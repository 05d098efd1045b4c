"""Configs that come out of a checkpoint are code: Hydra would build whatever they name."""

from collections.abc import Iterator
from typing import Any

from data.errors import InputError

# Names, not packages: torch and pytorch_lightning contain functions that load and execute files.
ALLOWED_TARGETS = frozenset(
    (
        "data.choice.ChoiceData",
        "data.images.EfficientNetLite0",
        "data.images.ReleasedFeatures",
        "data.images.ResNet50",
        "data.reducers.Autoencoder",
        "data.reducers.PCA",
        "data.text.Doc2VecSettings",
        "data.build.embedded.WikibooksQuestions",
        "data.build.embedded.WikibooksRecipes",
        "data.build.released.Recipe1M",
        "data.recipe1m.Filters",
        "data.recipe_encoding.RecipeEncoding",
        "data.retrieval.RetrievalData",
        "data.vocabulary.Word2VecSettings",
        "engine.callbacks.History",
        "engine.callbacks.PatientEarlyStopping",
        "engine.callbacks.Progress",
        "engine.callbacks.SaveLast",
        "engine.callbacks.StopOnNaN",
        "engine.freezing.AlternatingFreeze",
        "engine.trackers.mlflow_logger",
        "engine.trackers.wandb_logger",
        "models.choice.ChoiceTask",
        "models.impatient_reader.ImpatientReader",
        "models.im2recipe.Im2Recipe",
        "models.losses.BatchHardTriplet",
        "models.losses.CosineHinge",
        "models.losses.CosineHingeRanking",
        "models.losses.CrossEntropy",
        "models.losses.InBatchTriplet",
        "models.losses.InfoNCE",
        "models.losses.PairwiseCosine",
        "models.losses.SemanticRegularisation",
        "models.recipe_transformer.RecipeTransformer",
        "models.retrieval.RetrievalTask",
        "pytorch_lightning.Trainer",
        "pytorch_lightning.callbacks.ModelCheckpoint",
        "engine.callbacks.KeepBest",
        "pytorch_lightning.loggers.CSVLogger",
        "pytorch_lightning.loggers.TensorBoardLogger",
        "torch.optim.Adam",
        "torch.optim.AdamW",
        "torch.optim.SGD",
        "torch.optim.lr_scheduler.CosineAnnealingLR",
        "torch.optim.lr_scheduler.ExponentialLR",
        "torch.optim.lr_scheduler.StepLR",
    )
)


def targets(config: Any) -> Iterator[str]:
    """Every `_target_` in nested containers."""
    if isinstance(config, dict):
        if "_target_" in config:
            yield str(config["_target_"])
        for value in config.values():
            yield from targets(value)
    elif isinstance(config, list):
        for value in config:
            yield from targets(value)


def require_allowed(config: Any, origin: str) -> None:
    """Raise InputError if a config from a checkpoint names a target that is not on the list."""
    for target in targets(config):
        if target not in ALLOWED_TARGETS:
            raise InputError(
                f"{origin}: its config wants to build {target}, which is not on the list of allowed targets; if it is "
                "your own model, add its name to ALLOWED_TARGETS in engine/trust.py"
            )
