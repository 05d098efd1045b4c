"""One training step of Im2Recipe against the structure of the public im2recipe code, as ratios measured in one run.

    python benchmarks/retrieval_step.py [--rounds 5] [--batch 16]

A step is forward, pairwise cosine loss with semantic term, backward and Adam. Both read the same batches of made-up
recipes: 2 to 19 ingredients, 1 to 19 instructions with precomputed vectors of 1024 numbers, 30,167 words. The structure
of the public code: both sequences padded to 20, sorted and packed; a weighted cross-entropy; all parameters in one
Adam, a frozen side by learning rate 0, so that its gradients are computed and its BatchNorm runs in training mode. Ours
freezes by `requires_grad_(False)` and `eval()` and takes the fused Adam, whose update is the same.

Variants are timed in turn within each round; the table gives medians over rounds of the ratios within a round. One
thread; processor time.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import cosine_embedding_loss
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from tqdm import tqdm

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from models.im2recipe import Im2Recipe
from models.losses import PairwiseCosine, SemanticRegularisation

WORDS, CLASSES, SLOTS, SENTENCE = 30_169, 1048, 20, 1024


def make_batch(size: int, pixels: bool, generator: torch.Generator) -> dict[str, Tensor]:
    """Made-up recipes of about Recipe1M's lengths, 9 ingredients and 10 instructions in the mean."""

    def lengths(low: int, mean: float) -> Tensor:
        drawn = torch.poisson(torch.full((size,), mean), generator=generator)
        spread = torch.randint(-3, 4, (size,), generator=generator)
        return (drawn.long() + spread).clamp(low, SLOTS - 1)

    ingredient_count, instruction_count = lengths(2, 9.3), lengths(1, 9.8)
    real = torch.arange(int(ingredient_count.max())) < ingredient_count[:, None]
    ingredients = torch.randint(2, WORDS, real.shape, generator=generator) * real
    ingredients[torch.arange(size), ingredient_count - 1] = 1
    real = torch.arange(int(instruction_count.max())) < instruction_count[:, None]
    batch = {
        "ingredients": ingredients,
        "ingredient_count": ingredient_count,
        "instructions": real.flatten().cumsum(0).view_as(real) * real,
        "instruction_count": instruction_count,
        "sentence_vectors": torch.randn(int(instruction_count.sum()) + 1, SENTENCE, generator=generator),
        "match": torch.rand(size, generator=generator) < 0.2,
        "recipe_class": torch.randint(CLASSES, (size,), generator=generator),
        "image_class": torch.randint(CLASSES, (size,), generator=generator),
    }
    batch["sentence_vectors"][0] = 0
    if pixels:
        batch["pixels"] = torch.randint(256, (size, 3, 224, 224), generator=generator, dtype=torch.uint8)
    else:
        batch["image"] = torch.rand(size, 2048, generator=generator)
    return batch


class Packed(nn.Module):
    """The structure of the public code: every sequence at 20 slots, sorted by length, packed, sorted back."""

    def __init__(self, pixels: bool) -> None:
        super().__init__()
        self.cnn = None
        if pixels:
            from torchvision.models import resnet50

            self.cnn = nn.Sequential(*list(resnet50(weights=None).children())[:-1])
        self.words = nn.Embedding(WORDS, 300, padding_idx=0)
        self.ingredients = nn.LSTM(300, 300, bidirectional=True, batch_first=True)
        self.instructions = nn.LSTM(SENTENCE, 1024, batch_first=True)
        self.image = nn.Sequential(nn.Linear(2048, 1024), nn.Tanh())
        self.recipe = nn.Sequential(nn.Linear(1624, 1024), nn.Tanh())
        self.classifier = nn.Linear(1024, CLASSES)

    def forward(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        """Embeddings and logits; inputs as the loader of the public code lays them out."""
        vectors, count = batch["sentences at 20"], batch["instruction_count"]
        order = count.sort(descending=True).indices
        packed = pack_padded_sequence(vectors[order], count[order], batch_first=True)
        states, _ = pad_packed_sequence(self.instructions(packed)[0], batch_first=True)
        states = states[order.argsort()]
        instructions = states.gather(1, (count - 1)[:, None, None].expand(-1, 1, states.shape[2]))[:, 0]

        vectors, count = self.words(batch["ingredients at 20"]), batch["ingredient_count"]
        order = count.sort(descending=True).indices
        _, (last, _) = self.ingredients(pack_padded_sequence(vectors[order], count[order], batch_first=True))
        ingredients = last[:, order.argsort()].transpose(0, 1).flatten(1)

        features = batch["image"] if self.cnn is None else self.cnn(batch["scaled pixels"]).flatten(1)
        image, recipe = self.image(features), self.recipe(torch.cat([instructions, ingredients], dim=1))
        image, recipe = (x / x.norm(dim=1, keepdim=True).clamp(min=1e-12) for x in (image, recipe))
        logits = {"image_logits": self.classifier(image), "recipe_logits": self.classifier(recipe)}
        return {"image": image, "recipe": recipe, **logits}


def add_layout(batch: dict[str, Tensor]) -> None:
    """What the loader of the public code does, outside the time: 20 slots, normalised pixels."""
    size = len(batch["ingredients"])
    batch["ingredients at 20"] = torch.zeros(size, SLOTS, dtype=torch.long)
    batch["ingredients at 20"][:, : batch["ingredients"].shape[1]] = batch["ingredients"]
    batch["sentences at 20"] = torch.zeros(size, SLOTS, SENTENCE)
    batch["sentences at 20"][:, : batch["instructions"].shape[1]] = batch["sentence_vectors"][batch["instructions"]]
    if "pixels" in batch:
        mean, deviation = (torch.tensor(v).view(3, 1, 1) for v in ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))
        batch["scaled pixels"] = (batch["pixels"] / 255 - mean) / deviation


def take_over(net: Im2Recipe, packed: Packed) -> None:
    """Put the weights of one into the other."""
    state = packed.state_dict()
    names = {"words": "words", "instructions": "instructions.lstm", "image.0": "image_projection"}
    names |= {"recipe.0": "recipe_projection", "classifier": "classifier"}
    own = {}
    for name, value in state.items():
        module, _, parameter = name.rpartition(".")
        if module == "ingredients":
            side = "back" if parameter.endswith("_reverse") else "onward"
            own[f"ingredients.{side}.lstm.{parameter.removesuffix('_reverse')}"] = value
        elif module in names:
            own[f"{names[module]}.{parameter}"] = value
    own["words.weight"][0] = 0
    net.load_state_dict(own, strict=False)
    children = dict(
        zip("01234567", ("conv1", "bn1", "relu", "maxpool", "layer1", "layer2", "layer3", "layer4"), strict=True)
    )
    if net.cnn is not None:
        cnn = {k: v for k, v in state.items() if k.startswith("cnn.")}
        renamed = {f"{children[k.split('.')[1]]}.{k.split('.', 2)[2]}": v for k, v in cnn.items()}
        net.cnn.network.load_state_dict(renamed)


def seconds(step: Callable[[], object]) -> float:
    """Processor time of a call."""
    start = time.process_time()
    step()
    return time.process_time() - start


def measure(size: int, rounds: int, pixels: bool, frozen: bool) -> dict[str, list[float]]:
    """Seconds of each part of each variant in each round."""
    torch.manual_seed(0)
    packed = Packed(pixels)
    # The image size of features stands for the pooled output of a ResNet-50 that does not train.
    net = Im2Recipe(
        words=WORDS, classes=CLASSES, image_size=None if pixels else 2048, sentence_size=SENTENCE, weights="random"
    )
    take_over(net, packed)
    loss = SemanticRegularisation(PairwiseCosine())
    weight = torch.ones(CLASSES)
    weight[0] = 0
    entropy = nn.CrossEntropyLoss(weight=weight)

    def reference_loss(output: dict[str, Tensor], batch: dict[str, Tensor]) -> Tensor:
        cosine = cosine_embedding_loss(output["image"], output["recipe"], 2.0 * batch["match"] - 1, margin=0.1)
        image = entropy(output["image_logits"], batch["image_class"])
        return 0.98 * cosine + 0.01 * image + 0.01 * entropy(output["recipe_logits"], batch["recipe_class"])

    if pixels and frozen:
        for module in net.sides()["image"]:
            module.requires_grad_(False)
    vision = [] if packed.cnn is None else list(packed.cnn.parameters())
    ids = {id(p) for p in vision}
    base = [p for p in packed.parameters() if id(p) not in ids]
    groups = [{"params": base}] + ([{"params": vision, "lr": 0.0 if frozen else 1e-4}] if vision else [])
    optimizers = {
        "reference": torch.optim.Adam(groups, lr=1e-4),
        "ours": torch.optim.Adam([p for p in net.parameters() if p.requires_grad], lr=1e-4, fused=True),
    }
    models = {"reference": (packed, reference_loss), "ours": (net, loss)}
    generator = torch.Generator().manual_seed(size)
    found: dict[str, list[float]] = {}
    title = f"{'ResNet-50 ' + ('frozen' if frozen else 'trained') if pixels else 'text side'}, batch {size}"
    for number in tqdm(range(rounds + 1), desc=title, unit="round"):
        batch = make_batch(size, pixels, generator)
        add_layout(batch)
        if number == 0 and not pixels:  # the same function of the same weights
            for key, value in packed(batch).items():
                torch.testing.assert_close(net(batch)[key], value, atol=1e-5, rtol=0)
        for name, (model, criterion) in models.items():
            model.train()
            if name == "ours" and pixels and frozen:
                for module in net.sides()["image"]:
                    module.eval()
            optimizers[name].zero_grad(set_to_none=True)
            values: list[Tensor] = []
            forward = seconds(lambda m=model, c=criterion, b=batch, v=values: v.append(c(m(b), b)))
            backward = seconds(lambda v=values: v[0].backward())
            update = seconds(optimizers[name].step)
            if number:  # the first one makes the state of Adam
                for part, took in (("forward", forward), ("backward", backward), ("Adam", update)):
                    found.setdefault(f"{name} {part}", []).append(took)
                found.setdefault(name, []).append(forward + backward + update)
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batch", type=int, default=16)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    found = {
        f"text side, batch {arguments.batch}": measure(arguments.batch, arguments.rounds, False, True),
        f"text side, batch {8 * arguments.batch}": measure(8 * arguments.batch, arguments.rounds, False, True),
        f"ResNet-50 frozen, batch {arguments.batch // 2}": measure(arguments.batch // 2, 3, True, True),
    }
    parts = "forward | backward | Adam"
    print(f"| step | reference / ours, median (lowest to highest) | ours, ms | {parts} | reference, ms | {parts} |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for title, times in found.items():
        ratios = [a / b for a, b in zip(times["reference"], times["ours"], strict=True)]
        cells = [f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"]
        for name in ("ours", "reference"):
            for part in ("", " forward", " backward", " Adam"):
                cells.append(f"{1000 * statistics.median(times[name + part]):.0f}")
        print(f"| {title} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
