import json
import math

import pytest
import torch

from data.errors import InputError
from models.losses import InfoNCE, SemanticRegularisation
from models.recipe_transformer import RecipeTransformer, SequenceEncoder, VisionTower, sinusoids
from tests.test_im2recipe import WORDS, make

TOWER = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2}
TOWER |= {"image_size": 32, "patch_size": 16}
SIZES = {"word_size": 6, "embedding_size": 10, "width": 8, "heads": 2, "layers": 2, "words": WORDS}


@pytest.fixture(autouse=True)
def _offline(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


def build(**settings):
    torch.manual_seed(0)
    return RecipeTransformer(**({"image_size": 8} | SIZES | settings)).double().eval()


def encoder_by_hand(encoder, x):
    """Pre-norm transformer layers written out for one sequence (T, D) without padding, then the mean."""
    length, size = x.shape
    place = []
    for t in range(length):
        angles = [t / 10000 ** (2 * (d // 2) / size) for d in range(size)]
        place.append([math.cos(angle) if d % 2 else math.sin(angle) for d, angle in enumerate(angles)])
    x = x + torch.tensor(place, dtype=torch.float32).to(x.dtype)

    def norm(layer, v):
        return (v - v.mean(-1, keepdim=True)) / (
            v.var(-1, unbiased=False, keepdim=True) + layer.eps
        ).sqrt() * layer.weight + layer.bias

    for layer in encoder.encoder.layers:
        attention, heads = layer.self_attn, layer.self_attn.num_heads
        q, k, v = (norm(layer.norm1, x) @ attention.in_proj_weight.T + attention.in_proj_bias).chunk(3, dim=1)
        mixed = []
        for h in range(heads):
            part = slice(h * size // heads, (h + 1) * size // heads)
            weights = (q[:, part] @ k[:, part].T / math.sqrt(size // heads)).softmax(dim=1)
            mixed.append(weights @ v[:, part])
        x = x + torch.cat(mixed, dim=1) @ attention.out_proj.weight.T + attention.out_proj.bias
        inner = norm(layer.norm2, x) @ layer.linear1.weight.T + layer.linear1.bias
        inner = inner * 0.5 * (1 + torch.erf(inner / math.sqrt(2)))
        x = x + inner @ layer.linear2.weight.T + layer.linear2.bias
    return norm(encoder.encoder.norm, x).mean(dim=0)


def slow(net, batch):
    """One recipe after another, from the real elements only."""
    recipes = []
    for i in range(len(batch["index"])):
        parts = []
        for key, encoder in (("title", net.title), ("ingredients", net.ingredients)):
            if encoder is not None:
                count = batch[f"{key.rstrip('s')}_count"][i]
                parts.append(encoder_by_hand(encoder, net.from_words(net.words.weight[batch[key][i, :count]])))
        if net.instructions is not None:
            vectors = []
            for row in batch["instructions"][i, : batch["instruction_count"][i]].tolist():
                if net.sentences is None:
                    vectors.append(net.from_vectors(batch["sentence_vectors"][row].double()))
                else:
                    words = batch["sentences"][row, : batch["sentence_count"][row]]
                    vectors.append(encoder_by_hand(net.sentences, net.from_words(net.words.weight[words])))
            parts.append(encoder_by_hand(net.instructions, torch.stack(vectors)))
        joint = net.recipe_projection.weight @ torch.cat(parts) + net.recipe_projection.bias
        recipes.append(joint / joint.norm())
    joint = batch["image"].double() @ net.image_projection.weight.T + net.image_projection.bias
    return {"image": joint / joint.norm(dim=1, keepdim=True), "recipe": torch.stack(recipes)}


ABLATIONS = [
    {},
    {"sentence_size": 11},
    {"use_title": False},
    {"use_ingredients": False, "use_title": False},
    {"use_instructions": False},
    {"sentence_size": 11, "use_ingredients": False, "use_title": False},
]


@pytest.mark.parametrize("settings", ABLATIONS, ids=str)
@pytest.mark.parametrize("b", [1, 2, 7])
def test_outputs_equal_the_equations_recipe_by_recipe(settings, b):
    net = build(**settings)
    batch = make(b, seed=b, sentence_size=settings.get("sentence_size"), extra=b % 3)
    output = net(batch)
    for side, value in slow(net, batch).items():
        torch.testing.assert_close(output[side], value, atol=1e-6, rtol=0)


def test_odd_widths_and_long_sequences():
    assert sinusoids(600, 7, torch.zeros(1)).shape == (600, 7)
    torch.manual_seed(0)
    encoder = SequenceEncoder(6, 3, 1, 0.0).double().eval()
    count = torch.cat([torch.tensor([1, 700]), torch.randint(1, 40, (90,))])
    inputs = torch.randn(92, 700, 6, dtype=torch.float64)
    together = encoder(inputs, count)
    alone = torch.cat([encoder(inputs[i : i + 1, :n], count[i : i + 1]) for i, n in enumerate(count.tolist())])
    torch.testing.assert_close(together, alone, atol=1e-9, rtol=0)


def test_what_stands_in_the_padding_is_not_read():
    net = build()
    batch = make(5, seed=4, extra=2)
    other = dict(batch)
    for key, count in (("ingredients", "ingredient_count"), ("title", "title_count"), ("sentences", "sentence_count")):
        other[key] = torch.where(torch.arange(batch[key].shape[1]) >= batch[count][:, None], 5, batch[key])
    torch.testing.assert_close(net(batch)["recipe"], net(other)["recipe"], atol=1e-12, rtol=0)


@pytest.mark.parametrize("kind", ["clip_vision_model", "vit", "dinov2", "siglip_vision_model", "pixels of features"])
def test_every_parameter_learns_and_pairs_are_found(kind):
    pixels = kind != "pixels of features"
    settings = {"image_size": None, "weights": "random", "image_config": TOWER | {"model_type": kind}} if pixels else {}
    net = build(**settings, classes=4, dropout=0.0).float().train()
    batch = make(6, seed=6)
    batch["pixels"] = torch.randint(0, 256, (6, 3, 32, 32), dtype=torch.uint8)
    loss = SemanticRegularisation(InfoNCE())
    optimizer = torch.optim.Adam([*net.parameters(), *loss.parameters()], lr=0.01)
    # The class token of DINOv2 stands for masked patches, which we have none of; SigLIP's key bias cancels in softmax.
    idle = ("mask_token", "k_proj.bias", "key.bias")
    for step in range(30):
        optimizer.zero_grad()
        loss(net(batch), batch).backward()
        for name, parameter in net.named_parameters():
            if step == 0 and not name.endswith(idle):
                assert parameter.grad is not None and parameter.grad.abs().sum() > 0, name
        optimizer.step()
    output = net.eval()(batch)
    cosines = output["image"] @ output["recipe"].T
    assert (cosines.argmax(dim=0) == torch.arange(6)).all() and (cosines.argmax(dim=1) == torch.arange(6)).all()
    assert (net.words.weight[0] == 0).all()
    found = [p for modules in net.sides().values() for module in modules for p in module.parameters()]
    assert sorted(map(id, found)) == sorted(map(id, net.parameters()))
    assert net.sides()["image"] == [net.tower if pixels else net.image_projection]


def save(kind, folder, mean=(0.4, 0.5, 0.6)):
    """A real class with random weights as its authors save it, and its vision vectors by their own code."""
    from transformers import CLIPConfig, CLIPModel, ViTConfig, ViTForImageClassification

    torch.manual_seed(0)
    if kind == "clip":
        text = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2}
        text |= {"vocab_size": 30, "bos_token_id": 0, "eos_token_id": 1}
        config = CLIPConfig(vision_config=TOWER | {"projection_dim": 8}, text_config=text, projection_dim=8)
        model = CLIPModel(config).eval()

        def reference(pixels):
            return model.vision_model(pixels).pooler_output
    else:
        model = ViTForImageClassification(ViTConfig(**TOWER)).eval()

        def reference(pixels):
            return model.vit(pixels).last_hidden_state[:, 0]

    model.half().save_pretrained(folder)  # published weights are often in half precision
    model.float()
    (folder / "preprocessor_config.json").write_text(json.dumps({"image_mean": mean, "image_std": [0.2, 0.3, 0.4]}))
    return reference


@pytest.mark.parametrize("kind", ["clip", "vit"])
def test_published_towers_load_from_a_local_folder(kind, tmp_path):
    reference = save(kind, tmp_path)
    tower = VisionTower(str(tmp_path)).eval()
    pixels = torch.randint(0, 256, (3, 3, 32, 32), dtype=torch.uint8)
    mean, deviation = (torch.tensor(v).view(1, 3, 1, 1) for v in ([0.4, 0.5, 0.6], [0.2, 0.3, 0.4]))
    with torch.no_grad():
        torch.testing.assert_close(tower(pixels), reference((pixels / 255 - mean) / deviation), atol=1e-5, rtol=0)
        mine = VisionTower(str(tmp_path), image_mean=[0.1, 0.2, 0.3], image_std=[0.5] * 3).eval()
        mean, deviation = torch.tensor([0.1, 0.2, 0.3]).view(1, 3, 1, 1), 0.5
        torch.testing.assert_close(mine(pixels), reference((pixels / 255 - mean) / deviation), atol=1e-5, rtol=0)
    assert all(p.dtype == torch.float32 for p in tower.parameters())
    assert tower.size == 16 and tower.pixel_size == 32
    with pytest.raises(InputError, match="takes 32 x 32 pixels and gets 33 x 32"):
        tower(torch.zeros(1, 3, 33, 32, dtype=torch.uint8))


def test_towers_that_cannot_be_had(tmp_path):
    one_line = r"^model: image_model=[^\n]+$"
    with pytest.raises(InputError, match=one_line):
        VisionTower("openai/clip-vit-base-patch16")
    with pytest.raises(InputError, match=one_line):
        VisionTower(str(tmp_path / "absent"))
    with pytest.raises(InputError, match="is no image tower"):
        VisionTower("x", "random", image_config={"model_type": "bert", "hidden_size": 16, "num_hidden_layers": 1,
                                                 "num_attention_heads": 2, "intermediate_size": 8})  # fmt: skip
    save("vit", tmp_path)
    (tmp_path / "preprocessor_config.json").write_text("{}")
    with pytest.raises(InputError, match="no image_mean and image_std"):
        VisionTower(str(tmp_path))
    (tmp_path / "preprocessor_config.json").unlink()
    with pytest.raises(InputError, match=one_line):
        VisionTower(str(tmp_path))
    (tmp_path / "model.safetensors").write_bytes(b"\x08\0\0\0\0\0\0\0{}      ")
    with pytest.raises(InputError, match=one_line):
        VisionTower(str(tmp_path), image_mean=[0.5] * 3, image_std=[0.5] * 3)
    (tmp_path / "model.safetensors").write_bytes(b"cut")
    with pytest.raises(InputError, match=one_line):
        VisionTower(str(tmp_path), image_mean=[0.5] * 3, image_std=[0.5] * 3)


def test_the_word_table():
    net = build()
    table = torch.randn(WORDS, 6)
    net.load_word_table(table)
    torch.testing.assert_close(net.words.weight[1:].float(), table[1:])
    assert (net.words.weight[0] == 0).all()
    with pytest.raises(InputError, match="the word table"):
        net.load_word_table(table[1:])


@pytest.mark.parametrize(
    "settings",
    [
        {"use_ingredients": False, "use_instructions": False, "use_title": False},
        {"heads": 3},
        {"layers": 0},
        {"dropout": 1.0},
        {"words": 0},
        {"image_size": None, "weights": "some"},
        {"image_size": None, "image_config": {"model_type": "vit"}},
        {"image_size": None, "weights": "random", "image_config": {"model_type": "no such"}},
    ],
    ids=str,
)
def test_wrong_settings(settings):
    with pytest.raises(InputError, match=r"^model: [^\n]+$"):
        build(**settings)


def test_wrong_batches():
    net = build(sentence_size=11)
    batch = make(3, sentence_size=11)
    with pytest.raises(InputError, match="image features have size 5"):
        net(batch | {"image": torch.zeros(3, 5)})
    with pytest.raises(InputError, match="sentence vectors have size 4"):
        net(batch | {"sentence_vectors": torch.zeros(40, 4)})
    with pytest.raises(ValueError, match="sequences of"):
        net(batch | {"title_count": torch.tensor([1, 0, 2])})


def test_autocast_returns_single_precision():
    net = build().float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output = net(make(4))
    for side in ("image", "recipe"):
        assert output[side].dtype == torch.float32
        torch.testing.assert_close(output[side].norm(dim=1), torch.ones(4), atol=1e-5, rtol=0)
