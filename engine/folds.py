"""All folds of a sweep over `data.fold` together: every recipe is scored once, by a model that has not seen it."""

from pathlib import Path
from typing import Any

import numpy as np
from omegaconf import DictConfig, OmegaConf
from rich.console import Console
from rich.table import Table

from data.errors import InputError
from engine.console import folder_name, say
from engine.embeddings import read_embeddings
from engine.runfolder import write_json
from models.metrics import wilson_interval
from models.ranks import DIRECTIONS, KS, chance, permutation_p_value, ranks

ROUNDS = 9999


def score_folds(cfg: DictConfig, console: Console) -> float:
    """Scores of a sweep's folds, each query ranked within its fold, with a permutation p-value.

    Under the null hypothesis embeddings know nothing of the pairing: within each fold the partners are exchanged at
    random, and the p-value is the share of exchanges (the observed one counted) whose mean reciprocal rank is as high.

    Returns:
        The median rank of image_to_recipe over all queries.

    Raises:
        InputError: no folds there, runs of other settings among them, or a recipe in two of them.
    """
    root, folder = Path(cfg.folds), Path(cfg.output_dir)
    runs = sorted(path.parent for path in root.glob("*/embeddings_test.npz"))
    if len(runs) < 2:
        raise InputError(
            f"folds={root}: holds {len(runs)} runs with embeddings_test.npz; give the folder of a sweep such as "
            "`python train.py -m data.folds=5 data.fold=0,1,2,3,4 ...`"
        )
    parts: list[tuple[np.ndarray, np.ndarray]] = []
    seen: dict[str, Path] = {}
    settings = None
    for run in runs:
        stored = read_embeddings(run / "embeddings_test.npz")
        own = _settings(run)
        if settings is not None and own != settings:
            raise InputError(
                f"{run}: has other settings than {runs[0]} besides the fold; give one sweep over data.fold"
            )
        settings = own
        for name in map(str, stored.ids):
            if name in seen:
                raise InputError(f"{run}: recipe {name} was also tested in {seen[name]}; folds must not overlap")
            seen[name] = run
        parts.append((np.asarray(stored.image, np.float64), np.asarray(stored.recipe, np.float64)))
    assert settings is not None
    wanted = settings["data"].get("folds")
    if wanted != len(runs):
        raise InputError(f"folds={root}: {len(runs)} runs, but data.folds={wanted}; let all folds of the sweep finish")
    result = fold_scores(parts, int(cfg.seed))
    sizes = [len(image) for image, _ in parts]
    name = f"{settings['model']['name']} on {settings['data']['name']}"
    within = f"ranked within folds of {min(sizes)} to {max(sizes)}"
    title = f"{name}: {sum(sizes)} pairs in {len(runs)} folds by recipe, {within}"
    console.print()
    console.print(_table(title, result))
    lines = []
    for direction in DIRECTIONS:
        p = result[direction]["p"]
        verdict = "tells partners from strangers" if p < 0.05 else "cannot be told from a random pairing"
        lines.append(f"{direction.replace('_', ' ')}: {verdict}, p = {p:.4g} ({ROUNDS} permutations within folds)")
    for line in lines:
        say(console, line)
    write_json(folder / "folds.json", {"settings": settings, "runs": [run.name for run in runs], **result})
    say(console, f"wrote folds.json into {folder_name(folder)}")
    return result["image_to_recipe"]["medR"]


def fold_scores(parts: list[tuple[np.ndarray, np.ndarray]], seed: int, rounds: int = ROUNDS) -> dict[str, Any]:
    """medR, R@K, mean reciprocal rank and p-value of each direction.

    `parts` are image (n, D) and recipe (n, D) of each fold.
    """
    ranked = [ranks(image, recipe) for image, recipe in parts]
    sizes = [len(image) for image, _ in parts]
    image, recipe = (np.concatenate(side) for side in zip(*parts, strict=True))
    folds = np.repeat(np.arange(len(parts)), sizes)
    found: dict[str, Any] = {}
    for direction in DIRECTIONS:
        own = np.concatenate([getattr(rank, direction) for rank in ranked])
        guesses = [chance(size) for size in sizes]
        p = permutation_p_value(image, recipe, rounds=rounds, seed=seed, groups=folds, direction=direction)
        found[direction] = {
            "medR": float(np.median(own)),
            **{f"R{k}": float((own <= k).mean()) for k in KS},
            **{f"R{k}_interval": list(map(float, wilson_interval(int((own <= k).sum()), len(own)))) for k in KS},
            "MRR": float((1 / own).mean()),
            "chance": {
                **{key: float(np.average([g[key] for g in guesses], weights=sizes)) for key in guesses[0]},
                "MRR": float(np.average([(1 / np.arange(1, n + 1)).mean() for n in sizes], weights=sizes)),
            },
            "p": p,
            "n": len(own),
        }
    return found


def _settings(run: Path) -> dict[str, Any]:
    """The config of a run without what tells one job of a sweep from another."""
    path = run / "config.yaml"
    if not path.is_file():
        raise InputError(f"{run}: has no config.yaml; give the folder of a sweep over data.fold")
    config: Any = OmegaConf.to_container(OmegaConf.load(path))
    kept = {key: config.get(key) for key in ("data", "text", "features", "model", "seed")}
    kept["data"] = {key: value for key, value in kept["data"].items() if key not in ("fold", "cache", "num_workers")}
    return kept


def _table(title: str, result: dict[str, Any]) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", header_style="bold")
    for name in ("direction", "medR", *(f"R@{k} %" for k in KS), "mean 1/rank", "p"):
        table.add_column(name, justify="left" if name == "direction" else "right")
    for direction in DIRECTIONS:
        row = result[direction]
        for name, values, p in ((direction.replace("_", " "), row, f"{row['p']:.4g}"), ("  chance", row["chance"], "")):
            cells = [f"{values['medR']:.1f}", *(f"{values[f'R{k}'] * 100:.1f}" for k in KS), f"{values['MRR']:.3f}", p]
            style = "dim" if values is row["chance"] else "bold green" if row["p"] < 0.05 else ""
            table.add_row(name, *cells, style=style)
    return table
