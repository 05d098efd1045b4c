import pytest
import torch
from torch.nn.functional import linear

from data.errors import InputError
from models.im2recipe import Im2Recipe, LastState, LastStates, ResNet50
from models.losses import PairwiseCosine, SemanticRegularisation

SIZES = {"word_size": 6, "embedding_size": 9, "ingredient_hidden": 5, "instruction_hidden": 7, "sentence_hidden": 4}
SIZES |= {"title_hidden": 3}
WORDS = 23


def make(b, seed=0, sentence_size=None, image_size=8, ingredients=6, sentences=5, longest=9, extra=0, classes=4):
    """A batch of the contract with lengths from 1 on; `extra` columns of padding on every matrix."""
    g = torch.Generator().manual_seed(seed)

    def lengths(n, most):
        return torch.randint(1, most + 1, (n,), generator=g)

    def rows(count, low, high):
        matrix = torch.randint(low, high, (len(count), int(count.max()) + extra), generator=g)
        return matrix * (torch.arange(matrix.shape[1]) < count[:, None])

    ingredient_count, instruction_count, title_count = lengths(b, ingredients), lengths(b, sentences), lengths(b, 4)
    ingredient_rows = rows(ingredient_count, 2, WORDS)
    ingredient_rows[torch.arange(b), ingredient_count - 1] = 1
    total = int(instruction_count.sum()) + 1
    sentence_count = torch.cat([torch.ones(1, dtype=torch.long), lengths(total - 1, longest)])
    sentence_rows = rows(sentence_count, 2, WORDS)
    sentence_rows[0] = 0
    sentence_rows[0, 0] = 1
    instructions = torch.zeros(b, int(instruction_count.max()) + extra, dtype=torch.long)
    place = 1
    for i, n in enumerate(instruction_count.tolist()):
        instructions[i, :n] = torch.arange(place, place + n)
        place += n
    batch = {
        "ingredients": ingredient_rows,
        "ingredient_count": ingredient_count,
        "instructions": instructions,
        "instruction_count": instruction_count,
        "title": rows(title_count, 2, WORDS),
        "title_count": title_count,
        "match": torch.rand(b, generator=g) < 0.5,
        "recipe_class": torch.randint(0, classes, (b,), generator=g),
        "image_class": torch.randint(0, classes, (b,), generator=g),
        "index": torch.arange(b),
    }
    if sentence_size:
        batch["sentence_vectors"] = torch.randn(total, sentence_size, generator=g)
        batch["sentence_vectors"][0] = 0
    else:
        batch |= {"sentences": sentence_rows, "sentence_count": sentence_count}
    if image_size:
        batch["image"] = torch.rand(b, image_size, generator=g)
    else:
        batch["pixels"] = torch.randint(0, 256, (b, 3, 33, 40), generator=g, dtype=torch.uint8)
    return batch


def lstm_by_hand(lstm, sequence):
    """Gates one step at a time (Hochreiter and Schmidhuber 1997, with forget gate), the last state."""
    h, c = torch.zeros(lstm.hidden_size).to(sequence), torch.zeros(lstm.hidden_size).to(sequence)
    for x in sequence:
        gates = lstm.weight_ih_l0 @ x + lstm.bias_ih_l0 + lstm.weight_hh_l0 @ h + lstm.bias_hh_l0
        i, f, g, o = gates.chunk(4)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
    return h


def slow(net, batch, title_encoder="lstm"):
    """The published equations for one recipe after another, from the real elements only."""
    recipes, images = [], []
    text = net.text_words if net.text_words is not None else net.words
    for i in range(len(batch["index"])):
        parts = []
        if net.instructions is not None:
            vectors = []
            for row in batch["instructions"][i, : batch["instruction_count"][i]].tolist():
                if net.sentences is None:
                    vectors.append(batch["sentence_vectors"][row].to(net.recipe_projection.weight))
                else:
                    words = batch["sentences"][row, : batch["sentence_count"][row]]
                    vectors.append(lstm_by_hand(net.sentences.lstm, text.weight[words]))
            parts.append(lstm_by_hand(net.instructions.lstm, torch.stack(vectors)))
        if net.ingredients is not None:
            words = net.words.weight[batch["ingredients"][i, : batch["ingredient_count"][i]]]
            parts.append(lstm_by_hand(net.ingredients.onward.lstm, words))
            parts.append(lstm_by_hand(net.ingredients.back.lstm, words.flip(0)))
        if net.title is not None:
            words = text.weight[batch["title"][i, : batch["title_count"][i]]]
            parts.append(lstm_by_hand(net.title.lstm, words) if title_encoder == "lstm" else sum(words) / len(words))
        joint = linear(torch.cat(parts), net.recipe_projection.weight, net.recipe_projection.bias).tanh()
        recipes.append(joint / joint.norm().clamp(min=1e-12))
        joint = linear(batch["image"][i].to(joint), net.image_projection.weight, net.image_projection.bias).tanh()
        images.append(joint / joint.norm().clamp(min=1e-12))
    output = {"image": torch.stack(images), "recipe": torch.stack(recipes)}
    if net.classifier is not None:
        output |= {f"{k}_logits": v @ net.classifier.weight.T + net.classifier.bias for k, v in output.items()}
    return output


ABLATIONS = [
    {},
    {"sentence_size": 11},
    {"sentence_words": "own"},
    {"classes": 4},
    {"use_title": True},
    {"use_title": True, "title_encoder": "mean", "sentence_words": "own", "classes": 4},
    {"use_ingredients": False},
    {"use_instructions": False},
    {"use_instructions": False, "use_ingredients": False, "use_title": True},
    {"sentence_size": 11, "use_title": True, "sentence_words": "own"},
]


def build(settings, seed=0, **more):
    torch.manual_seed(seed)
    return Im2Recipe(words=WORDS, image_size=8, **SIZES, **settings, **more).double()


@pytest.mark.parametrize("settings", ABLATIONS, ids=str)
@pytest.mark.parametrize("b", [1, 2, 7])
def test_outputs_and_gradients_equal_the_equations_recipe_by_recipe(settings, b):
    net = build(settings)
    batch = make(b, seed=b, sentence_size=settings.get("sentence_size"))
    output, expected = net(batch), slow(net, batch, settings.get("title_encoder", "lstm"))
    assert set(output) == set(expected)
    for key, value in expected.items():
        torch.testing.assert_close(output[key], value, atol=1e-10, rtol=0)
    weights = {key: torch.randn(value.shape, dtype=torch.float64) for key, value in sorted(expected.items())}
    fast = torch.autograd.grad(sum((weights[k] * output[k]).sum() for k in weights), list(net.parameters()))
    naive = torch.autograd.grad(sum((weights[k] * expected[k]).sum() for k in weights), list(net.parameters()))
    for mine, theirs in zip(fast, naive, strict=True):
        torch.testing.assert_close(mine, theirs, atol=1e-9, rtol=0)


def test_single_precision_is_within_a_millionth():
    net = build({"use_title": True})
    batch = make(40, seed=3, longest=30, sentences=9, ingredients=19)
    exact = net(batch)
    output = net.float()(batch)
    for key, value in exact.items():
        assert output[key].dtype == torch.float32
        torch.testing.assert_close(output[key].double(), value, atol=1e-6, rtol=0)


def test_long_and_short_sentences_run_in_groups_and_come_back_in_order():
    torch.manual_seed(0)
    count = torch.cat([torch.full((70,), 3), torch.arange(1, 60), torch.full((40,), 17)])[torch.randperm(169)]
    inputs = torch.randn(len(count), 63, 5, dtype=torch.float64)
    for module in (LastState(5, 4).double(), LastStates(5, 4).double()):
        together = module(inputs, count)
        alone = torch.cat([module(inputs[i : i + 1, :n], count[i : i + 1]) for i, n in enumerate(count.tolist())])
        torch.testing.assert_close(together, alone, atol=1e-12, rtol=0)


def test_both_directions_equal_a_packed_bidirectional_lstm():
    torch.manual_seed(1)
    mine = LastStates(5, 4).double()
    theirs = torch.nn.LSTM(5, 4, batch_first=True, bidirectional=True).double()
    state = {k: v for k, v in mine.onward.lstm.state_dict().items()}
    theirs.load_state_dict(state | {f"{k}_reverse": v for k, v in mine.back.lstm.state_dict().items()})
    count = torch.tensor([3, 1, 7, 2, 7])
    inputs = torch.randn(5, 8, 5, dtype=torch.float64)
    packed = torch.nn.utils.rnn.pack_padded_sequence(inputs, count, batch_first=True, enforce_sorted=False)
    _, (last, _) = theirs(packed)
    torch.testing.assert_close(mine(inputs, count), torch.cat([last[0], last[1]], dim=1), atol=1e-12, rtol=0)


@pytest.mark.parametrize("settings", [{}, {"use_title": True, "title_encoder": "mean"}, {"sentence_size": 11}])
def test_padding_changes_nothing(settings):
    net = build(settings)
    plain = make(5, seed=4, sentence_size=settings.get("sentence_size"))
    padded = dict(plain)
    for key in ("ingredients", "instructions", "title", "sentences"):
        if key in plain:
            padded[key] = torch.nn.functional.pad(plain[key], (0, 3))
    torch.testing.assert_close(net(plain)["recipe"], net(padded)["recipe"], atol=1e-12, rtol=0)
    # What stands in the padding is not read either.
    for key, count in (("ingredients", "ingredient_count"), ("title", "title_count"), ("sentences", "sentence_count")):
        if key in padded:
            behind = torch.arange(padded[key].shape[1]) >= padded[count][:, None]
            padded[key] = torch.where(behind, 5, padded[key])
    torch.testing.assert_close(net(plain)["recipe"], net(padded)["recipe"], atol=1e-12, rtol=0)


def test_a_recipe_does_not_depend_on_its_batch():
    net = build({})
    batch = make(6, seed=5)
    whole = net(batch)["recipe"]
    keys = ("ingredients", "ingredient_count", "instructions", "instruction_count", "image")
    for i in range(6):
        one = batch | {key: batch[key][i : i + 1] for key in keys}
        torch.testing.assert_close(net(one)["recipe"], whole[i : i + 1], atol=1e-12, rtol=0)


def test_every_parameter_learns_and_the_padding_row_never_moves():
    net = build({"use_title": True, "classes": 4, "sentence_words": "own"})
    batch = make(8, seed=6)
    loss = SemanticRegularisation(PairwiseCosine())
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01, weight_decay=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        loss(net(batch), batch).backward()
        for name, parameter in net.named_parameters():
            assert parameter.grad is not None and parameter.grad.abs().sum() > 0, name
        optimizer.step()
    assert (net.words.weight[0] == 0).all() and (net.text_words.weight[0] == 0).all()
    assert (net.words.weight[1:].abs().sum(dim=1) > 0).all()


def test_embeddings_have_unit_length_and_images_or_recipes_come_alone():
    net = build({})
    batch = make(5, seed=7)
    output = net(batch)
    for side in ("image", "recipe"):
        torch.testing.assert_close(output[side].norm(dim=1), torch.ones(5, dtype=torch.float64))
    photo = net.embed_images({"image": batch["image"]})
    torch.testing.assert_close(photo, output["image"])
    recipe = net.embed_recipes({key: value for key, value in batch.items() if key != "image"})
    torch.testing.assert_close(recipe, output["recipe"])


def test_zero_projection_gives_zeros_and_no_nan():
    net = build({})
    torch.nn.init.zeros_(net.image_projection.weight)
    torch.nn.init.zeros_(net.image_projection.bias)
    output = net(make(2))["image"]
    assert (output == 0).all()
    output.sum().backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in net.parameters())


def test_the_word_table():
    net = build({"sentence_words": "own"})
    table = torch.randn(WORDS, SIZES["word_size"])
    net.load_word_table(table)
    for words in (net.words, net.text_words):
        torch.testing.assert_close(words.weight[1:].float(), table[1:])
        assert (words.weight[0] == 0).all() and words.weight.requires_grad
    for wrong in (table[:-2], table[:, :-1], table * float("nan")):
        with pytest.raises(InputError, match=r"^model: the word table [^\n]+$"):
            net.load_word_table(wrong)


@pytest.mark.parametrize("settings", ABLATIONS, ids=str)
def test_sides_hold_every_parameter_once(settings):
    net = build(settings)
    found = [p for modules in net.sides().values() for module in modules for p in module.parameters()]
    assert sorted(map(id, found)) == sorted(map(id, net.parameters()))
    assert net.sides()["image"] == [net.image_projection]


def test_pixels_go_through_a_resnet_with_imagenet_normalisation():
    from torchvision.models import resnet50

    torch.manual_seed(0)
    net = Im2Recipe(words=WORDS, weights="random", **SIZES).eval()
    batch = make(2, image_size=None)
    reference = resnet50(weights=None)
    reference.fc = torch.nn.Identity()
    reference.load_state_dict(net.cnn.network.state_dict())
    reference.eval()
    scaled = batch["pixels"].float() / 255
    mean, deviation = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    scaled = ((scaled.permute(0, 2, 3, 1) - mean) / deviation).permute(0, 3, 1, 2)
    with torch.no_grad():
        joint = net.image_projection(reference(scaled)).tanh()
        torch.testing.assert_close(net(batch)["image"], joint / joint.norm(dim=1, keepdim=True), atol=1e-5, rtol=0)
    assert net.sides()["image"] == [net.cnn]
    found = [p for modules in net.sides().values() for module in modules for p in module.parameters()]
    assert sorted(map(id, found)) == sorted(map(id, net.parameters()))
    assert not {"cnn.mean", "cnn.deviation"} & set(net.state_dict())


def test_weights_of_a_file_and_files_that_are_none(tmp_path, monkeypatch):
    from torchvision.models import resnet50

    torch.manual_seed(1)
    torch.save(resnet50(weights=None).state_dict(), tmp_path / "right.pth")
    loaded = ResNet50(str(tmp_path / "right.pth"))
    torch.testing.assert_close(loaded.network.conv1.weight, torch.load(tmp_path / "right.pth")["conv1.weight"])
    torch.save({"a": torch.zeros(2)}, tmp_path / "other.pth")
    torch.save([1, 2], tmp_path / "list.pth")
    torch.save({"a": Im2Recipe}, tmp_path / "code.pth")
    (tmp_path / "text.pth").write_text("not weights")
    for name in ("other", "list", "code", "text", "absent"):
        with pytest.raises(InputError, match=rf"{name}\.pth: [^\n]+model\.net\.weights$"):
            ResNet50(str(tmp_path / f"{name}.pth"))

    import torchvision.models

    def offline(*args, **kwargs):
        raise OSError("no route to host")

    monkeypatch.setattr(torchvision.models.ResNet50_Weights.IMAGENET1K_V1.__class__, "get_state_dict", offline)
    with pytest.raises(InputError, match=r"^ResNet-50 weights IMAGENET1K_V1: cannot be downloaded [^\n]+$"):
        Im2Recipe(words=WORDS)


@pytest.mark.parametrize(
    "settings",
    [
        {"use_ingredients": False, "use_instructions": False},
        {"sentence_words": "none"},
        {"title_encoder": "gru"},
        {"words": 1},
    ],
    ids=str,
)
def test_wrong_settings(settings):
    with pytest.raises(InputError, match=r"^model: [^\n]+$"):
        Im2Recipe(**({"words": WORDS, "image_size": 8} | SIZES | settings))


def test_wrong_batches():
    net = build({"sentence_size": 11})
    batch = make(3, sentence_size=11)
    with pytest.raises(InputError, match="image features have size 5, the model image_size=8"):
        net(batch | {"image": torch.zeros(3, 5)})
    with pytest.raises(InputError, match="sentence vectors have size 4, the model sentence_size=11"):
        net(batch | {"sentence_vectors": torch.zeros(40, 4)})
    with pytest.raises(ValueError, match="sequences of"):
        net(batch | {"ingredient_count": torch.tensor([1, 0, 2])})
    with pytest.raises(ValueError, match="sequences of"):
        net(batch | {"instruction_count": torch.tensor([1, 99, 2])})


def test_a_batch_of_background_has_a_finite_loss():
    net = build({"classes": 4})
    batch = make(3)
    batch["recipe_class"][:] = 0
    batch["image_class"][:] = 0
    loss = SemanticRegularisation(PairwiseCosine())(net(batch), batch)
    loss.backward()
    assert loss.isfinite() and all(p.grad.isfinite().all() for p in net.parameters() if p.grad is not None)


def test_autocast_returns_single_precision():
    net = build({}).float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output = net(make(4))
    for side in ("image", "recipe"):
        assert output[side].dtype == torch.float32
        torch.testing.assert_close(output[side].norm(dim=1), torch.ones(4), atol=1e-5, rtol=0)
