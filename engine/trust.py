"""Configs that come out of a checkpoint are code: Hydra would build whatever they name."""

from collections.abc import Iterator
from typing import Any

from data.errors import InputError

# Names, not packages: torch and pytorch_lightning contain functions that load and execute files.
ALLOWED_TARGETS = frozenset(
    (
        "data.choice.ChoiceData",
        "data.evidence.EvidenceSettings",
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
        "data.words.WordSettings",
        "engine.callbacks.History",
        "engine.callbacks.PatientEarlyStopping",
        "engine.callbacks.Progress",
        "engine.callbacks.SaveLast",
        "engine.callbacks.StopOnNaN",
        "engine.freezing.AlternatingFreeze",
        "engine.trackers.CSV",
        "engine.trackers.TensorBoard",
        "engine.trackers.mlflow_logger",
        "engine.trackers.wandb_logger",
        "models.aligned_reader.AlignedReader",
        "models.choice.ChoiceTask",
        "models.clip.DualEncoder",
        "models.sentences.SentenceEncoder",
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
        "models.prn.PRN",
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
_LARGEST = 100_000  # values of a config: ours have a few hundred


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
    """Raise InputError unless a config from a checkpoint is plain, resolved, and names only targets of the list.

    Plain: dicts, lists, texts, numbers; OmegaConf turns a tuple into a list and would build what hides in it. Resolved:
    `${oc.env:NAME}` would read this machine's environment, and `${oc.decode:...}` could make any `_target_`.
    """
    left, seen = [config], 0
    while left:
        value = left.pop()
        seen += 1
        if isinstance(value, dict) and all(isinstance(key, str | int) for key in value):
            if "_target_" in value and str(value["_target_"]) not in ALLOWED_TARGETS:
                raise InputError(
                    f"{origin}: its config wants to build {str(value['_target_'])[:80]}, which is not on the list of "
                    "allowed targets; if it is your own model, add its name to ALLOWED_TARGETS in engine/trust.py"
                )
            left.extend(value.values())
        elif isinstance(value, list):
            left.extend(value)
        elif isinstance(value, str):
            if "${" in value:
                raise InputError(
                    f"{origin}: its config holds the interpolation {value[:80]}, which would be resolved on this "
                    "machine; checkpoints of this repository hold none: train anew, or get it from whom you trust"
                )
        elif not isinstance(value, int | float | None):
            raise InputError(
                f"{origin}: its config holds a {type(value).__name__}, and must be of dicts, lists, texts and numbers; "
                "checkpoints of this repository are: train anew, or get it from whom you trust"
            )
        if seen > _LARGEST:
            raise InputError(f"{origin}: its config holds more than {_LARGEST:,} values; it is none of this repository")


def require_no_address(config: Any, given: Any, origin: str) -> None:
    """Raise InputError if trackers of a checkpoint would send keys and results to an address that nobody gave here.

    `config` is the checkpoint's section, `given` the same one as composed by this command.
    """
    known = set(_texts(given))
    for text in _texts(config):
        if "://" in text and not text.startswith("file:") and text not in known:
            raise InputError(
                f"{origin}: its tracker would be told at {text.partition('?')[0].rpartition('@')[2][:80]}; give the "
                "address on the command line if you trust it, or leave the tracker out by logger=csv"
            )


def _texts(config: Any) -> Iterator[str]:
    if isinstance(config, dict | list):
        for value in config.values() if isinstance(config, dict) else config:
            yield from _texts(value)
    elif isinstance(config, str):
        yield config
