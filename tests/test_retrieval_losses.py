import math
import socket

import pytest
import torch
import torch.multiprocessing as mp
from torch.nn.functional import cosine_embedding_loss, normalize

from data.errors import InputError
from models.losses import (
    BatchHardTriplet,
    CosineHingeRanking,
    InBatchTriplet,
    InfoNCE,
    PairwiseCosine,
    SemanticRegularisation,
)


def make(n, d=5, seed=0, twins=0.0, classes=4):
    g = torch.Generator().manual_seed(seed)
    raw = torch.randn(2, n, d, generator=g, dtype=torch.float64)
    twin = torch.rand(n, n, generator=g) < twins
    batch = {
        "match": torch.rand(n, generator=g) < 0.4,
        "twins": (twin | twin.T) & ~torch.eye(n, dtype=torch.bool),
        "image_class": torch.randint(0, classes, (n,), generator=g),
        "recipe_class": torch.randint(0, classes, (n,), generator=g),
    }
    logits = torch.randn(2, n, classes, generator=g, dtype=torch.float64)
    return raw, logits, batch


def embed(raw):
    return {"image": normalize(raw[0], dim=1), "recipe": normalize(raw[1], dim=1)}


def triplets(raw, batch, margin):
    """Hinges of each query: n lists of the image queries, then n of the recipe queries."""
    image, recipe, twins = normalize(raw[0], dim=1).tolist(), normalize(raw[1], dim=1).tolist(), batch["twins"].tolist()

    def cosine(i, j):
        return sum(a * b for a, b in zip(image[i], recipe[j], strict=True))

    n = len(image)
    of_images = [
        [max(0.0, margin - cosine(i, i) + cosine(i, j)) for j in range(n) if j != i and not twins[i][j]]
        for i in range(n)
    ]
    of_recipes = [
        [max(0.0, margin - cosine(j, j) + cosine(i, j)) for i in range(n) if i != j and not twins[i][j]]
        for j in range(n)
    ]
    return of_images + of_recipes


def naive_hinge(raw, batch, margin):
    return sum(map(sum, triplets(raw, batch, margin))) / (2 * raw.shape[1])


def naive_nonzero(raw, batch, margin):
    positive = [term for terms in triplets(raw, batch, margin) for term in terms if term > 0]
    return sum(positive) / len(positive) if positive else 0.0


def naive_all(raw, batch, margin):
    every = [term for terms in triplets(raw, batch, margin) for term in terms]
    return sum(every) / len(every) if every else 0.0


def naive_hard(raw, batch, margin):
    hardest = [max(terms) for terms in triplets(raw, batch, margin) if terms]
    return sum(hardest) / len(hardest) if hardest else 0.0


def naive_info_nce(raw, batch, temperature):
    cosines = (normalize(raw[0], dim=1) @ normalize(raw[1], dim=1).T).tolist()
    n, total = len(cosines), 0.0
    for q in range(n):
        for line in (cosines[q], [row[q] for row in cosines]):
            kept = [line[c] / temperature for c in range(n) if c == q or not batch["twins"][q, c]]
            total += math.log(sum(map(math.exp, kept))) - line[q] / temperature
    return total / (2 * n)


IN_BATCH = {
    "hinge": (lambda m: CosineHingeRanking(m), naive_hinge, (0.1, 0.7, 1.5)),
    "nonzero": (lambda m: InBatchTriplet(m), naive_nonzero, (0.05, 0.3, 1.0)),
    "all": (lambda m: InBatchTriplet(m, average="all"), naive_all, (0.05, 0.3, 1.0)),
    "hard": (lambda m: BatchHardTriplet(m), naive_hard, (0.05, 0.3, 1.0)),
    "info_nce": (lambda m: InfoNCE(m).double(), naive_info_nce, (0.05, 0.07, 0.9)),
}


@pytest.mark.parametrize("name", IN_BATCH)
@pytest.mark.parametrize("twins", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("n", [1, 2, 3, 8, 17])
def test_in_batch_losses_against_loops(name, n, twins):
    build, naive, settings = IN_BATCH[name]
    for value in settings:
        raw, _, batch = make(n, seed=n, twins=twins)
        raw.requires_grad_()
        loss = build(value)(embed(raw), batch)
        assert loss.shape == ()
        assert float(loss.detach()) == pytest.approx(naive(raw.detach(), batch, value), abs=1e-6)
        (gradient,) = torch.autograd.grad(loss, raw)
        assert gradient.isfinite().all()


@pytest.mark.parametrize("name", IN_BATCH)
def test_twins_may_be_left_out_and_get_no_push(name):
    build, _, settings = IN_BATCH[name]
    loss = build(settings[-1])
    raw, _, batch = make(2, seed=1)
    output = {side: value.requires_grad_() for side, value in embed(raw).items()}
    torch.testing.assert_close(loss(output, batch), loss(output, {}))
    pushed = torch.autograd.grad(loss(output, batch), output["image"])[0]
    assert (pushed.abs().sum(dim=1) > 0).all()
    batch["twins"][:] = True  # the diagonal too: a pair is its own positive whatever the mark says
    alone = loss(output, batch)
    assert float(alone.detach()) == pytest.approx(0, abs=1e-12)
    assert (torch.autograd.grad(alone, output["image"])[0].abs() < 1e-12).all()


@pytest.mark.parametrize("margin", [-0.2, 0.0, 0.1, 0.5])
@pytest.mark.parametrize("n", [1, 2, 9])
def test_pairwise_cosine(n, margin):
    raw, _, batch = make(n, seed=n)
    output = embed(raw)
    total = 0.0
    for image, recipe, match in zip(raw[0].tolist(), raw[1].tolist(), batch["match"].tolist(), strict=True):
        dot = sum(a * b for a, b in zip(image, recipe, strict=True))
        cosine = dot / math.sqrt(sum(a * a for a in image)) / math.sqrt(sum(b * b for b in recipe))
        total += 1 - cosine if match else max(0.0, cosine - margin)
    loss = PairwiseCosine(margin)(output, batch)
    assert float(loss) == pytest.approx(total / n, abs=1e-9)
    target = torch.where(batch["match"], 1, -1)
    torch.testing.assert_close(loss, cosine_embedding_loss(*output.values(), target, margin=margin))


@pytest.mark.parametrize("background", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("weight", [0.0, 0.01, 0.3])
def test_semantic_regularisation(weight, background):
    raw, logits, batch = make(8, seed=3)
    g = torch.Generator().manual_seed(1)
    batch["image_class"][torch.rand(8, generator=g) < background] = 0
    batch["recipe_class"][torch.rand(8, generator=g) < background] = 0
    logits.requires_grad_()
    output = embed(raw) | {"image_logits": logits[0], "recipe_logits": logits[1]}
    expected = (1 - 2 * weight) * float(PairwiseCosine()(output, batch))
    for side, scores in (("image", logits[0].tolist()), ("recipe", logits[1].tolist())):
        terms = [
            math.log(sum(map(math.exp, row))) - row[c]
            for row, c in zip(scores, batch[f"{side}_class"].tolist(), strict=True)
            if c
        ]
        expected += weight * (sum(terms) / len(terms) if terms else 0.0)
    loss = SemanticRegularisation(PairwiseCosine(), weight)(output, batch)
    assert float(loss.detach()) == pytest.approx(expected, abs=1e-6)
    (gradient,) = torch.autograd.grad(loss, logits)
    assert gradient.isfinite().all()
    if background == 1.0:
        assert (gradient == 0).all()


def test_without_a_semantic_head_the_ranking_loss_stands_alone():
    raw, _, batch = make(5)
    output = embed(raw)
    torch.testing.assert_close(
        SemanticRegularisation(PairwiseCosine(), 0.3)(output, batch), PairwiseCosine()(output, batch)
    )


@pytest.mark.parametrize(
    "loss",
    [
        PairwiseCosine(),
        CosineHingeRanking(),
        InBatchTriplet(),
        InBatchTriplet(average="all"),
        BatchHardTriplet(),
        InfoNCE(),
        SemanticRegularisation(BatchHardTriplet()),
    ],
    ids=lambda loss: type(loss).__name__,
)
def test_steps_lift_matching_pairs_above_the_others(loss):
    raw, logits, batch = make(12, d=8, seed=4)
    pairwise = isinstance(loss, PairwiseCosine)
    raw = raw.float().requires_grad_()
    optimizer = torch.optim.Adam([raw, *loss.parameters()], lr=0.05)
    same = torch.eye(12, dtype=torch.bool)

    def gap():
        cosines = (normalize(raw[0], dim=1) @ normalize(raw[1], dim=1).T).detach()
        return float(cosines[same].mean() - cosines[~same].mean())

    start = gap()
    for step in range(60):
        output = embed(raw)
        if pairwise:  # matches and mismatches in turn, as the loader draws them
            order = torch.roll(torch.arange(12), step % 12)
            output["image"] = output["image"][order]
            batch["match"] = torch.full((12,), step % 12 == 0)
        output |= {"image_logits": logits[0].float(), "recipe_logits": logits[1].float()}
        optimizer.zero_grad()
        loss(output, batch).backward()
        optimizer.step()
    assert gap() > start + 0.4


def test_the_temperature_is_learnt_within_its_ends():
    loss = InfoNCE(0.5)
    assert loss.temperature == pytest.approx(0.5)
    output = {"image": torch.eye(4), "recipe": torch.eye(4)}  # perfect: sharper is always better
    optimizer = torch.optim.SGD(loss.parameters(), lr=1e3)
    loss(output, {}).backward()
    assert loss.log_scale.grad < 0
    for _ in range(30):
        optimizer.zero_grad()
        loss(output, {}).backward()
        optimizer.step()
    assert loss.temperature == pytest.approx(0.01)
    output["recipe"] = torch.eye(4).roll(1, dims=0)  # all wrong: blunter is better
    optimizer.zero_grad()
    loss(output, {}).backward()
    optimizer.step()
    assert loss.temperature > 0.01
    assert not InfoNCE(learn=False).log_scale.requires_grad
    assert InfoNCE().temperature == pytest.approx(0.07)


@pytest.mark.parametrize("name", IN_BATCH)
def test_half_precision_does_not_reach_the_cosines(name):
    build, _, settings = IN_BATCH[name]
    raw, _, batch = make(9, d=64, seed=5)
    output = {side: value.float() for side, value in embed(raw).items()}
    loss = build(settings[0]).float()
    plain = loss(output, batch)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(loss(output, batch), plain, atol=1e-6, rtol=0)


def test_wrong_settings():
    for wrong in (
        lambda: CosineHingeRanking(0),
        lambda: InBatchTriplet(-0.3),
        lambda: InBatchTriplet(average="some"),
        lambda: BatchHardTriplet(0),
        lambda: PairwiseCosine(1.1),
        lambda: InfoNCE(0),
        lambda: InfoNCE(2),
        lambda: InfoNCE(0.005),
        lambda: SemanticRegularisation(PairwiseCosine(), 0.6),
    ):
        with pytest.raises(InputError, match=r"^loss: [^\n]+$"):
            wrong()


# ---- several processes -----------------------------------------------------------------------------------------------

SIZES = (3, 5)  # uneven, as the last batch of an epoch may be


def losses():
    names = [name for name in IN_BATCH if name != "info_nce"]
    built = {name: IN_BATCH[name][0](0.4) for name in names}
    built["info_nce"] = InfoNCE(0.3).double()
    built["semantic"] = SemanticRegularisation(BatchHardTriplet(), 0.2)
    return built


def network():
    torch.manual_seed(0)
    return torch.nn.ModuleDict({side: torch.nn.Linear(6, 4) for side in ("image", "recipe", "classes")}).double()


def run(net, inputs, batch, loss):
    joint = {side: normalize(net[side](x), dim=1) for side, x in zip(("image", "recipe"), inputs, strict=True)}
    joint |= {f"{side}_logits": net["classes"](x) for side, x in zip(("image", "recipe"), inputs, strict=True)}
    return loss(joint, batch)


def whole():
    """The batch of both processes together; twins are known within a process."""
    raw, _, batch = make(sum(SIZES), d=6, seed=7, twins=0.2)
    batch["twins"][: SIZES[0], SIZES[0] :] = False
    batch["twins"][SIZES[0] :, : SIZES[0]] = False
    return raw, batch


def process(rank, port, path):
    torch.set_num_threads(1)
    store = torch.distributed.TCPStore("127.0.0.1", port, len(SIZES), rank == 0)
    torch.distributed.init_process_group("gloo", store=store, rank=rank, world_size=len(SIZES))
    raw, batch = whole()
    rows = slice(sum(SIZES[:rank]), sum(SIZES[: rank + 1]))
    own = {key: value[rows, rows] if key == "twins" else value[rows] for key, value in batch.items()}
    found = {}
    for name, loss in losses().items():
        both = torch.nn.ModuleDict({"net": network(), "loss": loss})
        value = run(both["net"], raw[:, rows], own, loss)
        gradients = torch.autograd.grad(value, list(both.parameters()), allow_unused=True)
        flat = torch.cat(
            [
                torch.zeros(p.numel()) if g is None else g.flatten().double()
                for g, p in zip(gradients, both.parameters(), strict=True)
            ]
        )
        torch.distributed.all_reduce(flat)  # what DDP does
        mean = value.detach().clone()
        torch.distributed.all_reduce(mean)
        found[name] = mean / len(SIZES), flat / len(SIZES)
        loss.eval()
        found[f"{name} in validation"] = run(both["net"], raw[:, rows], own, loss).detach(), None
    torch.save(found, f"{path}/{rank}.pt")
    torch.distributed.destroy_process_group()


def test_two_processes_have_the_loss_and_gradients_of_one(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    mp.spawn(process, (port, str(tmp_path)), nprocs=len(SIZES))
    raw, batch = whole()
    found = [torch.load(tmp_path / f"{rank}.pt", weights_only=True) for rank in range(len(SIZES))]
    for name, loss in losses().items():
        both = torch.nn.ModuleDict({"net": network(), "loss": loss})
        value = run(both["net"], raw, batch, loss)
        gradients = torch.autograd.grad(value, list(both.parameters()), allow_unused=True)
        flat = torch.cat(
            [
                torch.zeros(p.numel()) if g is None else g.flatten().double()
                for g, p in zip(gradients, both.parameters(), strict=True)
            ]
        )
        assert flat.abs().sum() > 0
        for rank in range(len(SIZES)):
            mean, gradient = found[rank][name]
            torch.testing.assert_close(mean, value.detach(), atol=1e-10, rtol=0, msg=name)
            torch.testing.assert_close(gradient, flat, atol=1e-10, rtol=0, msg=name)
            rows = slice(sum(SIZES[:rank]), sum(SIZES[: rank + 1]))
            own = {key: item[rows, rows] if key == "twins" else item[rows] for key, item in batch.items()}
            alone = run(both["net"], raw[:, rows], own, loss).detach()
            torch.testing.assert_close(found[rank][f"{name} in validation"][0], alone, atol=1e-10, rtol=0)
