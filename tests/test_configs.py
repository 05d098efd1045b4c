"""Every config composes, its targets exist and take its keys; the published settings are the defaults."""

import inspect

import pytest
from hydra.utils import get_object
from omegaconf import DictConfig, OmegaConf

from engine.trust import ALLOWED_TARGETS
from tests.runs import ROOT, composed

CONF = ROOT / "conf"


def options(group: str) -> list[str]:
    """Names of the files below a group, such as `recipeqa/textual_cloze`."""
    folder = CONF / group
    return sorted(str(p.relative_to(folder).with_suffix("")) for p in folder.rglob("*.yaml"))


FACTS = ("published", "templates")  # data that code reads, no groups
GROUPS = [path.name for path in sorted(CONF.iterdir()) if path.is_dir() and path.name not in FACTS]
# What needs no training, or allows none, so no checkpoint names it.
NEVER_IN_CHECKPOINTS = (
    *("models.sanity", "models.hasty_student", "models.constant", "models.clip", "models.vlm_"),
    *("engine.trained_dual_encoder", "data.foodieqa"),
)
# Groups of one script only.
SCRIPTS = {"asking": "evaluate", "source": "prepare", "questions": "prepare", "engine": "prepare"}
# Groups that stand at a place of a model or belong to some data only, and data sets that are the keys of others.
PLACES = {"loss": ["data=wikibooks/retrieval", "model=im2recipe"], "filters": ["data=recipe1m", "model=im2recipe"]}
# Files that override a plugin of Hydra's which an extra brings.
NEEDS = {
    ("sweep", "optuna"): ["hydra_plugins.hydra_optuna_sweeper"],
    ("cluster", "slurm"): ["hydra_plugins.hydra_submitit_launcher"],
    ("cluster", "slurm_local"): ["hydra_plugins.hydra_submitit_launcher"],
    ("cluster", "ray"): ["hydra_plugins.hydra_ray_launcher"],
}
BASES = [("data", "choice"), ("data", "retrieval"), ("data", "foodieqa/base")]
CASES = [(group, name) for group in GROUPS for name in options(group) if (group, name) not in BASES]


def chosen(group: str, name: str) -> list[str]:
    """Overrides that choose a file of a group, with what it goes with."""
    key = "loss@model.loss.ranking" if group == "loss" else group
    return [*PLACES.get(group, []), f"{key}={'[' + name + ']' if group == 'logger' else name}"]


def _bind(node: object, where: str = "") -> None:
    """Fail if a `_target_` does not exist or does not take the keys beside it."""
    if isinstance(node, dict):
        if "_target_" in node:
            target = get_object(node["_target_"])
            keys = {key for key in node if key not in ("_target_", "_partial_")}
            signature = inspect.signature(target)
            takes_all = any(p.kind is p.VAR_KEYWORD for p in signature.parameters.values())
            unknown = keys - signature.parameters.keys()
            assert takes_all or not unknown, f"{where}: {node['_target_']} does not take {unknown}"
        for key, value in node.items():
            _bind(value, f"{where}.{key}")
    elif isinstance(node, list):
        for value in node:
            _bind(value, where)


def _plain(cfg: DictConfig) -> dict:
    cfg.output_dir = "out"
    if "path" in cfg.features:
        cfg.features.path = "features.pkl"
    container = OmegaConf.to_container(cfg, resolve=True)
    container["model"].pop("name", None)
    return container


@pytest.mark.parametrize("script", ["train", "evaluate", "prepare"])
def test_scripts_compose(script):
    _bind(_plain(composed(script, [])))


@pytest.mark.parametrize(("group", "name"), CASES, ids=[f"{g}={n}" for g, n in CASES])
def test_every_config_composes_and_its_targets_take_its_keys(group, name):
    for package in NEEDS.get((group, name), []):
        pytest.importorskip(package, reason="needs an extra of pyproject.toml")
    _bind(_plain(composed(SCRIPTS.get(group, "train"), chosen(group, name))))


@pytest.mark.parametrize("script", sorted(path.stem for path in CONF.glob("*.yaml")))
def test_no_key_of_a_script_has_the_name_of_a_group(script):
    """`questions=mivqa` would be read as the choice of a file of the group and refused."""
    keys = set(OmegaConf.load(CONF / f"{script}.yaml")) - {"defaults"}
    assert not keys & {path.name for path in CONF.iterdir() if path.is_dir()}


def test_the_users_settings_are_the_defaults():
    cfg = composed("train", [])
    assert cfg.data.name == "wikibooks/textual_cloze"
    assert cfg.model.optimizer._target_ == "torch.optim.Adam" and cfg.model.optimizer.lr == 1e-3
    assert cfg.model.loss.margin == 1.5 and cfg.model.loss._target_ == "models.losses.CosineHinge"
    assert cfg.callbacks.early_stopping.patience == 10
    assert cfg.model.net.layers == 3 and cfg.data.batch_size == 64 and cfg.seed == 1234
    assert (cfg.model.net.hidden_size, cfg.model.net.attention_size, cfg.model.net.candidate_size) == (256, 256, 100)


def test_the_users_settings_are_the_defaults_of_im2recipe():
    cfg = composed("train", ["data=recipe1m", "model=im2recipe"])
    assert cfg.model.loss.ranking._target_ == "models.losses.CosineHingeRanking"
    assert cfg.model.loss.ranking.margin == 1.5 and cfg.model.loss.weight == 0.01
    assert cfg.model.optimizer._target_ == "torch.optim.Adam" and cfg.model.optimizer.lr == 1e-3
    assert cfg.callbacks.early_stopping.patience == 10 and cfg.callbacks.early_stopping.monitor == "val/selection"
    assert cfg.model.net.embedding_size == 1024 and cfg.model.net.ingredient_hidden == 300
    assert cfg.filters.limit == "truncate" and cfg.data.encoding.max_ingredients == 20


def test_the_papers_setting_of_im2recipe():
    cfg = composed("train", ["experiment=recipe1m/paper"])
    assert cfg.model.loss.ranking._target_ == "models.losses.PairwiseCosine" and cfg.model.loss.ranking.margin == 0.1
    assert cfg.data.mismatch == 0.8 and cfg.model.optimizer.lr == 1e-4 and cfg.data.image_input == "pixels"
    freezing = cfg.callbacks.freezing
    assert (freezing.first, freezing.first_patience, freezing.patience) == ("image", 1, 3)
    assert cfg.callbacks.early_stopping.monitor == "val/selection"


def test_official_filters_are_those_of_the_code():
    from dataclasses import asdict

    from data.recipe1m import Filters

    for name, wanted in (("default", Filters()), ("official", Filters.official())):
        written = OmegaConf.to_container(composed("train", ["data=recipe1m", f"filters={name}"]).filters)
        assert {key: value for key, value in written.items() if key != "_target_"} == asdict(wanted)


def test_retrieval_reads_what_its_data_need_and_the_other_problem_keeps_its_own():
    assert composed("train", []).text._target_ == "data.text.Doc2VecSettings"
    assert composed("train", []).callbacks.best.monitor == "val/accuracy"
    plus = composed("train", ["data=recipe1m_plus"])
    assert plus.data.source.plus and plus.data.name == "recipe1m_plus"
    assert composed("train", ["data=wikibooks/retrieval"]).data.image_input == "features"
    assert composed("train", ["data=recipe1m", "filters.ingredients=raw"]).text.source == "raw"


def test_resnet50_is_the_choice_for_photos_and_the_offline_weights_for_drawings():
    assert composed("train", ["data=recipeqa/visual_cloze"]).features._target_ == "data.images.ResNet50"
    assert composed("train", ["data=recipeqa/visual_cloze"]).features.weights == "IMAGENET1K_V1"
    assert composed("train", ["data=wikibooks/visual_cloze"]).features._target_ == "data.images.EfficientNetLite0"
    chosen = composed("train", ["data=recipeqa/visual_cloze", "features=efficientnet_lite0"])
    assert chosen.features._target_ == "data.images.EfficientNetLite0", "the command line wins over the data set"


def test_several_trackers_at_once():
    assert set(composed("train", ["logger=[csv,wandb]"]).logger) == {"csv", "wandb"}
    assert set(composed("train", ["logger=wandb"]).logger) == {"wandb"}


def test_every_target_a_checkpoint_may_name_exists():
    for target in ALLOWED_TARGETS:
        assert callable(get_object(target))


def test_targets_of_own_configs_are_allowed_in_checkpoints():
    from engine.trust import targets

    for group in ("model", "data", "features", "reducer", "text", "callbacks", "trainer", "logger", "loss", "filters"):
        for name in options(group):
            if (group, name) in BASES:
                continue
            container = _plain(composed("train", chosen(group, name)))
            found = {t for key in ("data", "model", "callbacks", "trainer", "logger") for t in targets(container[key])}
            untrained = {t for t in found if t.startswith(NEVER_IN_CHECKPOINTS)}
            assert found - untrained <= ALLOWED_TARGETS


def test_experiments_carry_what_the_paper_reports():
    for name in options("experiment"):
        text = (CONF / "experiment" / f"{name}.yaml").read_text()
        assert text.startswith("# @package _global_"), name
        ours = "Not a published setting" in text and "docs/" in text  # its figures are in the documentation
        assert ours or ("arXiv" in text and "published" in text), f"{name}: say paper and numbers"


def test_no_config_names_a_path_of_a_machine():
    for path in CONF.rglob("*.yaml"):
        for line in path.read_text().splitlines():
            value = line.partition("#")[0].partition(": ")[2].strip("'\" ")
            assert not (value.startswith(("/", "~")) and "/" in value[1:]), f"{path}: {line}"
