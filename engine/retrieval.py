"""The *rank N* problem around a model: embed once, score, compare, show."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from omegaconf import DictConfig, open_dict
from rich.console import Console
from tqdm import tqdm

from data.errors import InputError
from data.photos import load_pixels
from data.recipe_encoding import encode_recipes
from data.recipes import open_table, write_table
from data.records import Recipe
from data.retrieval import RetrievalData
from data.store import digest_of, file_digest
from data.text import ingredient_name
from data.vocabulary import END_ROW
from engine.build import build_data, build_model, load_weights, seed_all, tracking
from engine.console import folder_name, say
from engine.embeddings import read_embeddings, write_embeddings
from engine.gallery import Gallery, rank_query
from engine.report import plot_history
from engine.retrieval_report import publish_retrieval, score_embeddings
from engine.runfolder import plain, write_json, write_provenance
from engine.scoring import test_trainer
from engine.sheet import retrieval_sheet
from engine.trackers import log_results
from models.cca import CCA
from models.im2recipe import Im2Recipe
from models.losses import CosineHingeRanking
from models.ranks import DIRECTIONS, multiple_choice, retrieval_scores
from models.released import load_released, read_released, released_settings
from models.retrieval import RetrievalTask

SIZES = (1000, 10000)  # of the official protocol
SHEET_QUERIES = 10


def embed(cfg: DictConfig, model: RetrievalTask, data: RetrievalData, split: str) -> tuple[np.ndarray, np.ndarray]:
    """(N, D) float32 embeddings of the images and of the recipes of a split, in the order of its ids."""
    pairs = data.pairs[split]
    found: dict[str, np.ndarray] = {}
    loader = tqdm(data.loader(split, whole=True), desc="embedding", unit=" batches", leave=False)
    for part in test_trainer(cfg).predict(model, dataloaders=loader) or []:
        index = np.asarray(part["index"])  # pyright: ignore[reportArgumentType,reportCallIssue]
        for side in ("image", "recipe"):
            rows = np.asarray(part[side])  # pyright: ignore[reportArgumentType,reportCallIssue]
            found.setdefault(side, np.full((len(pairs), rows.shape[1]), np.nan, np.float32))[index] = rows
    return found["image"], found["recipe"]


def publish_split(
    cfg: DictConfig,
    folder: Path,
    data: RetrievalData,
    model: RetrievalTask,
    split: str,
    checkpoint: Path,
    loggers: Sequence[Any],
    console: Console,
    step: int = 0,
) -> dict[str, Any]:
    """Embed a split, score it by the protocol and write everything that a run leaves behind; returns the metrics."""
    pairs = data.pairs[split]
    image, recipe = embeddings_of(cfg, data, model, split, checkpoint, folder, console)
    result = score(cfg, pairs.ids, image, recipe)
    choices = [_ten_choices(folder, pairs.ids, image, recipe)] if len(pairs) >= 10 else []
    metrics = publish_retrieval(
        folder,
        result,
        system=str(cfg.model.name),
        data_name=str(data.name),
        split=split,
        official=result["official"] == "test",
        baselines=_baselines(cfg, data, split),
        notes=[*data.notes, *choices],
        loggers=loggers,
        console=console,
        step=step,
    )
    sheets = write_sheet(folder, data, split, image, recipe, int(cfg.seed))
    curves = plot_history(folder)
    log_results(loggers, {}, step, {f"{split}/sheet": sheets[1], "curves": folder / "curves.png"})
    shown = [f"embeddings_{split}.npz", "multiple_choice.json", *(path.name for path in sheets), curves]
    say(console, f"wrote {' '.join(name for name in shown if name)} into {folder_name(folder)}")
    return metrics


def _ten_choices(folder: Path, ids: np.ndarray, image: np.ndarray, recipe: np.ndarray) -> str:
    """The paper's comparison with people, the partner among ten: a task of its own, never mixed with the ranks."""
    found = multiple_choice(image, recipe, ids)
    write_json(folder / "multiple_choice.json", found)
    parts = []
    for direction in DIRECTIONS:
        low, high = found[direction]["interval"]
        shown = f"{found[direction]['accuracy']:.1%} ({low:.1%} to {high:.1%})"
        parts.append(f"{direction.replace('_', ' ')} {shown}")
    return f"one of ten, the task that people were given: {', '.join(parts)}; chance 10%, {found['n']} questions"


def score(cfg: DictConfig, ids: np.ndarray, image: np.ndarray, recipe: np.ndarray) -> dict[str, Any]:
    """The official pools where there are pairs enough for them, and all pairs as one pool."""
    sizes = [size for size in SIZES if size <= len(ids)]
    return retrieval_scores(image, recipe, ids, sizes=sizes, ties=str(cfg.get("ties", "mid")))


def _baselines(cfg: DictConfig, data: RetrievalData, split: str) -> list[dict[str, Any]]:
    """CCA on the same image vectors, fitted on the training pairs; only where image vectors are at hand."""
    if not cfg.sanity or data.image_input != "features" or data.sentences != "words":
        return []
    data.prepare(["train"])
    if len(data.pairs["train"]) < 10:
        return []
    model = CCA(seed=int(cfg.seed)).fit(*cca_inputs(data, "train"))
    image, counts = cca_inputs(data, split)
    found = score(cfg, data.pairs[split].ids, model.image(image), model.recipe(counts))
    return [{"system": "CCA on the same image vectors", "note": "fitted on train", "result": found}]


def evaluate_retrieval(
    cfg: DictConfig, data: RetrievalData, checkpoint: dict[str, Any], overrides: list[str], console: Console
) -> float | None:
    """Score a checkpoint on a split, or rank the gallery for one query; returns medR of image_to_recipe."""
    folder, origin = Path(cfg.output_dir), str(cfg.ckpt_path)
    data.prepare([cfg.split])
    model = build_model(cfg, data)
    load_weights(model, checkpoint, origin)
    if cfg.query:
        return _query(cfg, data, model, folder, console)
    config = plain(cfg)
    write_provenance(folder, config, overrides, data.provenance())
    with tracking(cfg, config) as loggers:
        metrics = publish_split(cfg, folder, data, model, str(cfg.split), Path(origin), loggers, console)
    return metrics["image_to_recipe/medR"]


def evaluate_released(cfg: DictConfig, overrides: list[str], console: Console) -> float:
    """Score a checkpoint of the public PyTorch code on a split; returns medR of image_to_recipe.

    It reads what it was trained on: the released words, ingredients and sentence vectors.
    """
    origin = Path(cfg.released)
    source = cfg.data.get("source") or {}
    if cfg.data.get("sentences") != "precomputed" or source.get("vocabulary") != "released":
        raise InputError(
            f"released={origin}: give it what it was trained on: data=recipe1m data.root=DIR model=im2recipe "
            "data.source.vocabulary=released data.sentences=precomputed data.source.lmdb=DIR"
        )
    with open_dict(cfg):
        cfg.model.name = "released"
        if cfg.data.image_input == "auto":
            cfg.data.image_input = "pixels"
    seed_all(cfg)
    state = read_released(origin)
    data = build_data(cfg)
    data.prepare([cfg.split])
    settings = released_settings(state, bool(cfg.legacy_index), str(origin))
    words = data.facts()["words"]
    if settings["words"] != words:
        raise InputError(
            f"{origin}: has words for {settings['words']} rows, vocab.bin for {words}; use the vocab.bin of its release"
            " (or the other legacy_index)"
        )
    net = Im2Recipe(**(settings | {"image_size": data.image_size, "weights": "random"}))
    for note in load_released(net, state, bool(cfg.legacy_index), str(origin)):
        data.note(note)
    folder = Path(cfg.output_dir)
    config = plain(cfg)
    write_provenance(folder, config, overrides, data.provenance())
    model = RetrievalTask(net, CosineHingeRanking(), torch.optim.Adam)
    with tracking(cfg, config) as loggers:
        metrics = publish_split(cfg, folder, data, model, str(cfg.split), origin, loggers, console)
    return metrics["image_to_recipe/medR"]


def _query(cfg: DictConfig, data: RetrievalData, model: RetrievalTask, folder: Path, console: Console) -> None:
    path, k = Path(cfg.query), int(cfg.k)
    if not path.is_file():
        raise InputError(f"query={path}: no such file; give a photo or a JSON file with a recipe")
    is_recipe = path.suffix.lower() == ".json"
    found = embed_recipe(model, data, path) if is_recipe else (embed_photo(model, data, path), None)
    vector, asked = found
    pairs = data.pairs[str(cfg.split)]
    if cfg.gallery:
        stored = read_embeddings(Path(cfg.gallery))
        ids, image, recipe = stored.ids, stored.image, stored.recipe
    else:
        ids = pairs.ids
        image, recipe = embeddings_of(cfg, data, model, str(cfg.split), Path(cfg.ckpt_path), folder, console)
    side = image if is_recipe else recipe
    if side.shape[1] != len(vector):
        raise InputError(f"gallery={cfg.gallery}: its vectors have {side.shape[1]} numbers, the query {len(vector)}")
    rank_query(
        folder,
        vector,
        Gallery(list(map(str, ids)), side, index=str(cfg.index)),
        records=data.open(),
        photo=pairs.resolve,
        query_photo=None if is_recipe else path,
        query_recipe=asked,
        k=k,
        console=console,
        rendered=bool(data.source.rendered),
    )


def embeddings_of(
    cfg: DictConfig,
    data: RetrievalData,
    model: RetrievalTask,
    split: str,
    checkpoint: Path,
    folder: Path,
    console: Console,
) -> tuple[np.ndarray, np.ndarray]:
    """Embeddings of a split: those that the checkpoint's run has written of the same data, or made now and kept."""
    home = checkpoint.absolute().parent.parent
    key = embedding_key(data, split, checkpoint)
    kept = home / f"embeddings_{split}.npz"
    if kept.is_file():
        try:
            stored = read_embeddings(kept)
        except InputError:  # damaged: made again
            stored = None
        if stored is not None and stored.meta.get("key") == key:
            say(console, f"embeddings of {folder_name(kept)}")
            return stored.image, stored.recipe
    image, recipe = embed(cfg, model, data, split)
    meta = {"key": key, "data": data.name, "split": split, "model": str(cfg.model.name)}
    write_embeddings(folder / kept.name, data.pairs[split].ids, image, recipe, meta)
    return image, recipe


def embedding_key(data: RetrievalData, split: str, checkpoint: Path) -> str:
    """What embeddings depend on: weights, recipes, and the order of the split."""
    return digest_of([file_digest(checkpoint), data.open().digest, split, list(map(str, data.pairs[split].ids))])


def score_file(cfg: DictConfig, console: Console) -> float:
    """Score embeddings made elsewhere by the official protocol; returns medR of image_to_recipe."""
    path = Path(cfg.embeddings)
    folder = Path(cfg.output_dir)
    with tracking(cfg, plain(cfg)) as loggers:
        metrics = score_embeddings(path, folder, ties=str(cfg.ties), loggers=loggers, console=console)
    return metrics["image_to_recipe/medR"]


def cca_inputs(data: RetrievalData, split: str) -> tuple[np.ndarray, Any]:
    """First image of each pair, (N, D) float32, and how often each word occurs in it, sparse (N, words)."""
    from scipy.sparse import csr_matrix

    pairs = data.pairs[split]
    assert pairs.vectors is not None and data.vocabulary is not None
    image = np.asarray(pairs.vectors.array[pairs.image_rows[pairs.image_offsets[:-1]]], np.float32)
    arrays, shape = pairs.text.arrays, (len(pairs), len(data.vocabulary) + 2)
    parts = [
        (arrays["ingredients"], arrays["ingredient_offsets"]),
        (arrays["words"], arrays["sentence_offsets"][arrays["instruction_offsets"]]),
        (arrays["title"], arrays["title_offsets"]),
    ]
    counts = sum((csr_matrix((np.ones(len(w)), w, o), shape=shape) for w, o in parts), csr_matrix(shape))
    return image, counts[:, 1:]  # the padding is no word


def write_sheet(
    folder: Path, data: RetrievalData, split: str, image: np.ndarray, recipe: np.ndarray, seed: int, k: int = 5
) -> tuple[Path, Path]:
    """`retrieval.html` and `retrieval.png`: ten seeded queries in each direction with their nearest neighbours."""
    pairs = data.pairs[split]
    chosen = np.random.default_rng(seed).permutation(len(pairs))[:SHEET_QUERIES]
    table = data.open()
    cache: dict[int, Recipe] = {}

    def record(position: int) -> Recipe:
        return cache.setdefault(position, table[int(pairs.rows[position])])

    paths = folder / "retrieval.html", folder / "retrieval.png"
    retrieval_sheet(
        *paths,
        queries=chosen,
        image=image,
        recipe=recipe,
        record=record,
        photo=lambda position: pairs.resolve(record(position).images[0]),
        k=k,
        title=f"{data.name}, {split}",
        rendered=bool(data.source.rendered),
    )
    return paths


# ---------------------------------------------------------------------------------------------------- single queries


def embed_photo(model: RetrievalTask, data: RetrievalData, path: Path) -> np.ndarray:
    """(D,) embedding of one photo."""
    if data.image_input == "features":
        if not data.features.reads_files:
            raise InputError("query: the model reads vectors from a file of features, which has none of a new photo")
        batch = {"image": torch.from_numpy(data.features.extract([path]))}
    else:
        batch = {"pixels": load_pixels(path, train=False)[None]}
    model.eval()
    with torch.inference_mode():
        return model.net.embed_images(batch)[0].float().numpy()  # pyright: ignore[reportCallIssue]


def embed_recipe(model: RetrievalTask, data: RetrievalData, path: Path) -> tuple[np.ndarray, Recipe]:
    """(D,) embedding of a recipe in a JSON file: title, ingredients, instructions (lists of lines)."""
    recipe = read_recipe(path)
    found = [" ".join(ingredient_name(line)) for line in recipe.ingredients]  # nobody has tagged its lines
    names = tuple(name or line for name, line in zip(found, recipe.ingredients, strict=True))
    recipe = replace(recipe, detected=names, valid=tuple(map(bool, found)))
    assert data.vocabulary is not None
    if data.sentences != "words":
        raise InputError("query: this model reads precomputed sentence vectors, which a new recipe does not have")
    with TemporaryDirectory() as folder:
        write_table(Path(folder) / "one", [recipe])
        table = open_table(Path(folder) / "one")
        encoded = encode_recipes(Path(folder), table, np.arange(1), data.vocabulary, data.encoding)
        batch = encoded.text_batch(np.arange(1))
    if all(int(batch[key].max()) <= END_ROW for key in ("ingredients", "sentences", "title")):
        raise InputError(f"query={path}: the model knows none of its words; it was trained on others")
    model.eval()
    with torch.inference_mode():
        return model.net.embed_recipes(batch)[0].float().numpy(), recipe  # pyright: ignore[reportCallIssue]


def read_recipe(path: Path) -> Recipe:
    """One recipe of a JSON file; lines may be strings or {"text": line}. InputError says what is wrong."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"query={path}: cannot be read ({error}); give a photo or a JSON file with a recipe") from None
    if not isinstance(found, dict) or not isinstance(found.get("title", ""), str):
        raise InputError(f'query={path}: give one object {{"title": ..., "ingredients": [...], "instructions": [...]}}')

    def lines(key: str) -> tuple[str, ...]:
        given = found.get(key, [])
        values = [value.get("text") if isinstance(value, dict) else value for value in given if isinstance(given, list)]
        texts = [value for value in values if isinstance(value, str)]
        if not isinstance(given, list) or len(texts) < len(values):
            raise InputError(f'query={path}: {key} must be a list of lines, or of {{"text": line}}')
        return tuple(text for text in texts if text.strip())

    recipe = Recipe("query", found.get("title", ""), lines("ingredients"), lines("instructions"), partition="test")
    if not recipe.ingredients and not recipe.instructions:
        raise InputError(f"query={path}: has neither ingredients nor instructions")
    return recipe
