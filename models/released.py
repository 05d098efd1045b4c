"""Checkpoints of the public PyTorch code of im2recipe (torralba-lab/im2recipe-Pytorch), read into `Im2Recipe`."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from data.errors import InputError
from data.weights import read_weights
from models.im2recipe import Im2Recipe

# The CNN is stored as a sequence of ResNet-50's children.
_CHILDREN = {"0": "conv1", "1": "bn1", "4": "layer1", "5": "layer2", "6": "layer3", "7": "layer4"}
_GATES = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
_TABLE = "ingRNN_.embs.weight"
_RENAMED = {
    "visual_embedding.0.weight": "image_projection.weight",
    "visual_embedding.0.bias": "image_projection.bias",
    "recipe_embedding.0.weight": "recipe_projection.weight",
    "recipe_embedding.0.bias": "recipe_projection.bias",
    "semantic_branch.weight": "classifier.weight",
    "semantic_branch.bias": "classifier.bias",
    _TABLE: "words.weight",
    **{f"stRNN_.lstm.{gate}": f"instructions.lstm.{gate}" for gate in _GATES},
    **{f"ingRNN_.irnn.{gate}": f"ingredients.onward.lstm.{gate}" for gate in _GATES},
    **{f"ingRNN_.irnn.{gate}_reverse": f"ingredients.back.lstm.{gate}" for gate in _GATES},
}


def read_released(path: str | Path) -> dict[str, Tensor]:
    """The weights of a checkpoint file such as `model_e220_v-4.700.pth.tar`, by the names they have there.

    `module.`, which parallel training leaves in the names, is dropped. Optimiser and scores are not kept.

    Raises:
        InputError: the file is absent, damaged, asks for more than weights, or is a checkpoint of something else.
    """
    found = read_weights(path, "the checkpoint")
    state = found.get("state_dict", found) if isinstance(found, dict) else None
    if not isinstance(state, dict) or not all(isinstance(value, Tensor) for value in state.values()):
        raise InputError(f"{path}: holds no state_dict; give a checkpoint of im2recipe-Pytorch")
    state = {
        str(name).replace("visionMLP.module.", "visionMLP.").removeprefix("module."): state[name] for name in state
    }
    if _TABLE not in state:
        raise InputError(f"{path}: has no {_TABLE}; give a checkpoint of im2recipe-Pytorch")
    return state


def released_settings(state: dict[str, Tensor], legacy_index: bool = True, origin: str = "the checkpoint") -> dict:
    """Arguments of an `Im2Recipe` that takes these weights; see `load_released` for `legacy_index`."""
    try:
        rows, word_size = state[_TABLE].shape
        settings = {
            "words": rows + 2 if legacy_index else rows,
            "word_size": word_size,
            "classes": len(state["semantic_branch.bias"]) if "semantic_branch.bias" in state else 0,
            "sentence_size": state["stRNN_.lstm.weight_ih_l0"].shape[1],
            "embedding_size": len(state["recipe_embedding.0.bias"]),
            "ingredient_hidden": state["ingRNN_.irnn.weight_hh_l0"].shape[1],
            "instruction_hidden": state["stRNN_.lstm.weight_hh_l0"].shape[1],
        }
    except (KeyError, ValueError, IndexError) as error:
        raise InputError(f"{origin}: is no whole checkpoint of im2recipe-Pytorch ({error})") from None
    return {"image_size": None, "use_title": False, **settings}


def load_released(
    net: Im2Recipe, state: dict[str, Tensor], legacy_index: bool = True, origin: str = "the checkpoint"
) -> list[str]:
    """Put released weights into a network with precomputed sentence vectors.

    The public code numbers the word on line j (0-based) of the vocabulary j + 2, after padding and `</i>`, as we do,
    but its table has no rows for those two: it has N rows for N words, and number k reads row k, which was initialised
    with the vector of another word. The table was trained as it is read, so row k belongs to the word of number k. The
    words of the last two lines have no row there.

    Args:
        net: built with `released_settings`, or of the same sizes.
        state: of `read_released`.
        legacy_index: True for a table of N rows as the public code writes it: our row k is its row k, and the last two
            rows are zeros. False for a table of N + 2 rows.
        origin: file name for messages.

    Returns:
        What a user has to know: words without a vector, parts left out.

    Raises:
        InputError: a table of the other scheme, other sizes, or a network with parts the checkpoint has not.
    """
    if net.sentence_size is None or net.instructions is None or net.ingredients is None or net.title is not None:
        raise InputError(
            f"{origin}: was trained on ingredients and precomputed sentence vectors alone; build the model with "
            "sentence_size, use_ingredients and use_instructions, without title"
        )
    wanted, notes, given = net.state_dict(), [], {}
    for name, value in state.items():
        renamed = _RENAMED.get(name)
        if name.startswith("visionMLP."):
            _, child, rest = name.split(".", 2)
            renamed = f"cnn.network.{_CHILDREN.get(child, child)}.{rest}"
            if net.cnn is None:
                continue
        if name.startswith("semantic_branch.") and net.classifier is None:
            continue
        if renamed is None or renamed not in wanted:
            raise InputError(f"{origin}: {name} has no place in the model; is it a checkpoint of im2recipe-Pytorch?")
        given[renamed] = value
    if net.cnn is None:
        notes.append("its CNN was left out: the image features must come from that CNN")
    if net.classifier is None and "semantic_branch.weight" in state:
        notes.append("its semantic head was left out")

    given["words.weight"], note = _word_rows(given["words.weight"], len(wanted["words.weight"]), legacy_index, origin)
    notes += note
    for name, own in wanted.items():
        if name not in given and name.endswith("num_batches_tracked"):  # older than that count
            given[name] = torch.zeros_like(own)
        if name not in given:
            raise InputError(f"{origin}: has no weights for {name}; it is a checkpoint of another model")
        if given[name].shape != own.shape:
            sizes = f"{tuple(given[name].shape)}, the model {tuple(own.shape)}"
            raise InputError(f"{origin}: {name} is {sizes}; build the model with the sizes of the checkpoint")
        if not bool(torch.isfinite(given[name]).all()):
            raise InputError(f"{origin}: {name} is not finite; fetch the checkpoint again")
    net.load_state_dict(given)
    return notes


def _word_rows(table: Tensor, rows: int, legacy_index: bool, origin: str) -> tuple[Tensor, list[str]]:
    """The table in our scheme, (rows, word_size), with a note where words have no vector."""
    expected = rows - 2 if legacy_index else rows
    if table.ndim != 2 or len(table) != expected:
        other: Any = {rows: "set legacy_index=false", rows - 2: "set legacy_index=true"}.get(
            len(table) if table.ndim == 2 else -1, "read the vocabulary it was trained with"
        )
        raise InputError(
            f"{origin}: its word table has {len(table)} rows where legacy_index={str(legacy_index).lower()} needs "
            f"{expected} for a vocabulary of {rows - 2} words; {other}"
        )
    table = table.clone()
    table[0] = 0  # padding, which no state ever reads
    if not legacy_index:
        return table, []
    missing = f"the last two words of the vocabulary (rows {rows - 2} and {rows - 1}) have no vector in it: zeros"
    return torch.cat([table, table.new_zeros(2, table.shape[1])]), [missing]
