import collections
import pickle
import struct

import numpy as np
import pytest
import torch
from torch.nn.functional import normalize

from data.errors import InputError
from models.im2recipe import Im2Recipe
from models.released import load_released, read_released, released_settings

WORDS, D, INGREDIENT, SENTENCE, INSTRUCTION, CLASSES, JOINT = 12, 4, 3, 5, 6, 7, 8


class Port(torch.nn.Module):
    """The parts of the public code under its names, run for one recipe at a time."""

    def __init__(self, cnn=False, parallel=True):
        super().__init__()
        torch.manual_seed(0)
        if cnn:
            from torchvision.models import resnet50

            sequence = torch.nn.Sequential(*list(resnet50(weights=None).children())[:-1])
            self.visionMLP = torch.nn.ModuleDict({"module": sequence}) if parallel else sequence
        self.visual_embedding = torch.nn.Sequential(torch.nn.Linear(2048, JOINT), torch.nn.Tanh())
        self.recipe_embedding = torch.nn.Sequential(
            torch.nn.Linear(2 * INGREDIENT + INSTRUCTION, JOINT), torch.nn.Tanh()
        )
        self.stRNN_, self.ingRNN_ = torch.nn.Module(), torch.nn.Module()
        self.stRNN_.lstm = torch.nn.LSTM(SENTENCE, INSTRUCTION, batch_first=True)
        self.ingRNN_.irnn = torch.nn.LSTM(D, INGREDIENT, bidirectional=True, batch_first=True)
        self.ingRNN_.embs = torch.nn.Embedding(WORDS, D)
        self.semantic_branch = torch.nn.Linear(JOINT, CLASSES)

    def recipe(self, ingredients, vectors):
        states, _ = self.stRNN_.lstm(vectors[None])
        _, (last, _) = self.ingRNN_.irnn(self.ingRNN_.embs(ingredients)[None])
        joint = torch.cat([states[0, -1], last[0, 0], last[1, 0]])
        return normalize(self.recipe_embedding(joint)[None])


def save(path, state, **more):
    torch.save({"epoch": 220, "state_dict": state, "best_val": np.float64(4.7), **more}, path)
    return path


def build(state, **changes):
    return Im2Recipe(**(released_settings(state) | {"image_size": 2048} | changes))


@pytest.fixture
def released(tmp_path):
    port = Port()
    return port, save(tmp_path / "model.pth.tar", port.state_dict(), optimizer={"param_groups": [{"lr": 1e-4}]})


def test_the_settings_are_those_of_the_checkpoint(released):
    settings = released_settings(read_released(released[1]))
    assert settings == {
        "image_size": None, "use_title": False, "words": WORDS + 2, "word_size": D, "classes": CLASSES,
        "sentence_size": SENTENCE, "embedding_size": JOINT, "ingredient_hidden": INGREDIENT,
        "instruction_hidden": INSTRUCTION,
    }  # fmt: skip
    assert released_settings(read_released(released[1]), legacy_index=False)["words"] == WORDS


def test_embeddings_equal_those_of_the_public_code(released):
    port, path = released
    state = read_released(path)
    net = build(state)
    notes = load_released(net, state, origin=str(path))
    assert any("last two words" in note for note in notes) and any("CNN was left out" in note for note in notes)
    lists = [[5, 2, 1], [11, 1], [3, 4, 5, 6, 7, 1]]
    sentences = torch.randn(7, SENTENCE)
    sentences[0] = 0
    rows = [[1, 2, 3], [4], [5, 6]]
    batch = {
        "ingredients": torch.nn.utils.rnn.pad_sequence([torch.tensor(r) for r in lists], batch_first=True),
        "ingredient_count": torch.tensor([len(r) for r in lists]),
        "instructions": torch.nn.utils.rnn.pad_sequence([torch.tensor(r) for r in rows], batch_first=True),
        "instruction_count": torch.tensor([len(r) for r in rows]),
        "sentence_vectors": sentences,
        "image": torch.rand(3, 2048),
    }
    output = net(batch)
    for i in range(3):
        expected = port.recipe(torch.tensor(lists[i]), sentences[rows[i]])
        torch.testing.assert_close(output["recipe"][i : i + 1], expected, atol=1e-6, rtol=0)
        torch.testing.assert_close(output["recipe_logits"][i : i + 1], port.semantic_branch(expected))
    torch.testing.assert_close(output["image"], normalize(port.visual_embedding(batch["image"])))


def test_every_word_has_the_vector_the_public_code_reads_for_it(released):
    port, path = released
    state = read_released(path)
    net = build(state)
    load_released(net, state)
    for line in range(WORDS):
        number = line + 2  # in its data set and in ours
        mine = net.words.weight[number]
        if number < WORDS:
            torch.testing.assert_close(mine, port.ingRNN_.embs(torch.tensor(number)))
        else:
            with pytest.raises(IndexError):
                port.ingRNN_.embs(torch.tensor(number))
            assert (mine == 0).all()
    torch.testing.assert_close(net.words.weight[1], port.ingRNN_.embs(torch.tensor(1)))  # end of the list
    assert (net.words.weight[0] == 0).all()


def test_a_table_of_the_right_scheme(released):
    state = dict(read_released(released[1]))
    table = torch.randn(WORDS + 2, D)
    state["ingRNN_.embs.weight"] = table
    net = build(state, words=WORDS + 2)
    notes = load_released(net, state, legacy_index=False)
    torch.testing.assert_close(net.words.weight[1:], table[1:])
    assert not any("last two words" in note for note in notes)
    with pytest.raises(InputError, match=r"legacy_index=true needs 12 .*; set legacy_index=false$"):
        load_released(net, state, legacy_index=True)
    state = read_released(released[1])
    with pytest.raises(InputError, match=r"^file: .* 12 rows where legacy_index=false needs 14 .*legacy_index=true$"):
        load_released(build(state), state, legacy_index=False, origin="file")
    with pytest.raises(InputError, match="read the vocabulary it was trained with"):
        load_released(build(state, words=WORDS + 9), state)


@pytest.mark.parametrize("parallel", [True, False])
def test_the_cnn(tmp_path, parallel):
    port = Port(cnn=True, parallel=parallel)
    state = {k: v for k, v in port.state_dict().items() if not k.endswith("num_batches_tracked")}
    state = read_released(save(tmp_path / "model.pth.tar", state))
    net = Im2Recipe(weights="random", **released_settings(state)).eval()
    assert not any("CNN" in note for note in load_released(net, state))
    pixels = torch.randint(0, 256, (2, 3, 40, 40), dtype=torch.uint8)
    mean, deviation = (torch.tensor(v).view(1, 3, 1, 1) for v in ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]))
    vision = (port.visionMLP["module"] if parallel else port.visionMLP).eval()
    with torch.no_grad():
        features = vision((pixels / 255 - mean) / deviation).flatten(1)
        expected = normalize(port.visual_embedding(features))
        torch.testing.assert_close(net.embed_images({"pixels": pixels}), expected, atol=1e-5, rtol=0)


def test_wrong_checkpoints(released, tmp_path):
    state = read_released(released[1])
    one_line = r"^file: [^\n]+$"
    for changes in ({"embedding_size": 9}, {"ingredient_hidden": 2}, {"instruction_hidden": 2}, {"sentence_size": 2},
                    {"word_size": 2}, {"classes": 3}, {"image_size": 7}):  # fmt: skip
        with pytest.raises(InputError, match=one_line):
            load_released(build(state, **changes), state, origin="file")
    for changes in ({"sentence_size": None}, {"use_title": True}, {"use_ingredients": False}):
        with pytest.raises(InputError, match="precomputed sentence vectors"):
            load_released(build(state, **changes), state, origin="file")
    for name in ("stRNN_.lstm.bias_hh_l0", "semantic_branch.bias", "recipe_embedding.0.weight"):
        part = {k: v for k, v in state.items() if k != name}
        with pytest.raises(InputError, match=one_line):
            load_released(build(state), part, origin="file")
    with pytest.raises(InputError, match="has no place"):
        load_released(build(state), state | {"extra.weight": torch.zeros(1)}, origin="file")
    with pytest.raises(InputError, match="is not finite"):
        load_released(build(state), state | {"visual_embedding.0.bias": torch.full((JOINT,), float("nan"))})
    with pytest.raises(InputError, match="no whole checkpoint"):
        released_settings({"ingRNN_.embs.weight": torch.zeros(3, 2)})
    assert any("semantic head" in note for note in load_released(build(state, classes=0), state))

    torch.save({"state_dict": {"a": torch.zeros(1)}}, tmp_path / "other.pth")
    torch.save({"state_dict": {"a": "b"}}, tmp_path / "text.pth")
    torch.save([1], tmp_path / "list.pth")
    (tmp_path / "cut.pth").write_bytes(released[1].read_bytes()[:500])
    (tmp_path / "empty.pth").write_bytes(b"")
    for name in ("other", "text", "list", "cut", "empty", "absent"):
        with pytest.raises(InputError, match=rf"{name}\.pth: [^\n]+$"):
            read_released(tmp_path / f"{name}.pth")


def test_code_in_a_checkpoint_is_never_run(tmp_path):
    class Bomb:
        def __reduce__(self):
            return open, (str(tmp_path / "sentinel"), "w")

    torch.save({"state_dict": {}, "best_val": Bomb()}, tmp_path / "bomb.pth")
    (tmp_path / "plain.pth").write_bytes(pickle.dumps(Bomb()))
    for name in ("bomb", "plain"):
        with pytest.raises(InputError, match=rf"{name}\.pth: is no file of weights alone [^\n]+$"):
            read_released(tmp_path / f"{name}.pth")
    assert not (tmp_path / "sentinel").exists()


def test_a_file_written_by_python_2(tmp_path):
    """Names as byte strings and the layout of torch 0.4: magic number, version, system, content, storages."""
    table = torch.arange(8.0).view(4, 2)
    path = tmp_path / "old.pth.tar"
    state = collections.OrderedDict([("ingRNN_.embs.weight", table)])
    torch.save(
        {"epoch": 3, "state_dict": state, "best_val": np.float64(4.7)}, path, _use_new_zipfile_serialization=False
    )
    data = path.read_bytes()
    for name in (b"epoch", b"state_dict", b"best_val", b"ingRNN_.embs.weight"):
        new = b"X" + struct.pack("<I", len(name)) + name
        assert new in data
        data = data.replace(new, b"U" + bytes([len(name)]) + name)
    path.write_bytes(data)
    found = read_released(path)
    assert list(found) == ["ingRNN_.embs.weight"]
    torch.testing.assert_close(found["ingRNN_.embs.weight"], table)
