import pytest
import torch

from data.errors import InputError
from models.losses import CosineHinge, CrossEntropy


def make(n, k, seed, twins=0.3):
    g = torch.Generator().manual_seed(seed)
    scores = (2 * torch.rand(n, k, generator=g) - 1).requires_grad_()
    answer = torch.randint(k, (n,), generator=g)
    twin = torch.rand(n, k, generator=g) < twins
    twin[torch.arange(n), answer] = False
    return scores, {"answer": answer, "twins": twin}


def naive_hinge(scores, batch, margin):
    losses = []
    for row, right, twin in zip(scores.tolist(), batch["answer"].tolist(), batch["twins"].tolist(), strict=True):
        terms = [max(0.0, margin - row[right] + row[k]) for k in range(len(row)) if k != right and not twin[k]]
        losses.append(terms)
    return losses


@pytest.mark.parametrize("margin", [0.1, 0.7, 1.5])
@pytest.mark.parametrize(("n", "k"), [(1, 2), (3, 4), (17, 4), (5, 7)])
def test_hinge_over_all_negatives(n, k, margin):
    scores, batch = make(n, k, seed=n)
    sums = [sum(terms) for terms in naive_hinge(scores, batch, margin)]
    mean = CosineHinge(margin)({"scores": scores}, batch)
    assert mean.shape == ()
    assert float(mean.detach()) == pytest.approx(sum(sums) / n, abs=1e-5)
    total = CosineHinge(margin, reduction="sum")({"scores": scores}, batch)
    assert float(total.detach()) == pytest.approx(sum(sums), abs=1e-4)


def test_one_random_draws_every_valid_negative_evenly_and_nothing_else():
    n, rounds = 6, 3000
    scores, batch = make(n, 4, seed=1, twins=0.0)
    batch["twins"][0, (batch["answer"][0] + 1) % 4] = True
    loss = CosineHinge(5.0, negatives="one_random", reduction="sum")  # a margin at which every term is above 0
    torch.manual_seed(0)
    counts = torch.zeros(n, 4)
    for _ in range(rounds):
        (gradient,) = torch.autograd.grad(loss({"scores": scores}, batch), scores)
        counts += gradient > 0
    right = torch.nn.functional.one_hot(batch["answer"], 4).bool()
    valid = ~right & ~batch["twins"]
    assert (counts[~valid] == 0).all()
    share = counts / rounds
    expected = valid / valid.sum(dim=1, keepdim=True)
    assert (share - expected).abs().max() < 0.05


def test_one_random_follows_the_global_seed():
    scores, batch = make(30, 4, seed=2)
    loss = CosineHinge(negatives="one_random")

    def draw(seed):
        torch.manual_seed(seed)
        return float(loss({"scores": scores}, batch).detach())

    assert draw(3) == draw(3)
    assert len({draw(seed) for seed in range(5)}) > 1


@pytest.mark.parametrize("negatives", ["all", "one_random"])
def test_a_question_of_twins_only_adds_nothing_but_counts(negatives):
    scores, batch = make(2, 4, seed=4, twins=0.0)
    whole = CosineHinge(negatives="all")({"scores": scores[1:]}, {key: value[1:] for key, value in batch.items()})
    batch["twins"][0] = True  # the right answer marked too: it is no negative either way
    loss = CosineHinge(negatives=negatives)({"scores": scores}, batch)
    if negatives == "all":
        torch.testing.assert_close(loss, whole / 2)
    (gradient,) = torch.autograd.grad(loss, scores)
    assert (gradient[0] == 0).all() and gradient.isfinite().all()
    batch["twins"][1] = True
    assert float(CosineHinge(negatives=negatives)({"scores": scores}, batch).detach()) == 0


# Two cosines differ by 2 at most, so that with a margin above 2 no term is flat.
@pytest.mark.parametrize("loss", [CosineHinge(2.5), CosineHinge(2.5, negatives="one_random"), CrossEntropy()], ids=repr)
def test_a_step_raises_the_right_score_and_lowers_the_others(loss):
    torch.manual_seed(0)
    scores, batch = make(40, 4, seed=5)
    loss({"scores": scores}, batch).backward()
    change = -scores.grad
    right = torch.nn.functional.one_hot(batch["answer"], 4).bool()
    valid = ~right & ~batch["twins"]
    moved = valid.any(dim=1)
    assert (change[right][moved] > 0).all()
    assert (change[valid] <= 0).all() and (change[valid] < 0).any()
    assert (change[batch["twins"]] == 0).all()


def test_hinge_vanishes_only_beyond_the_margin():
    scores = torch.tensor([[1.0, -0.5, -0.5, -0.6]])
    batch = {"answer": torch.tensor([0]), "twins": torch.zeros(1, 4, dtype=torch.bool)}
    assert float(CosineHinge(1.5)({"scores": scores}, batch)) == 0
    assert float(CosineHinge(1.6)({"scores": scores}, batch)) == pytest.approx(0.2)  # 0.1 + 0.1 + 0


@pytest.mark.parametrize("temperature", [0.05, 1.0])
def test_cross_entropy_against_its_definition(temperature):
    scores, batch = make(9, 5, seed=6)
    expected = 0.0
    for row, right, twin in zip(scores.detach().double(), batch["answer"].tolist(), batch["twins"], strict=True):
        logits = row / temperature
        expected += float(torch.logsumexp(logits[~twin], dim=0) - logits[right])
    loss = CrossEntropy(temperature)({"scores": scores}, batch)
    assert float(loss.detach()) == pytest.approx(expected / 9, abs=1e-5)
    batch["twins"][:] = True
    loss = CrossEntropy(temperature)({"scores": scores}, batch)
    assert float(loss.detach()) == 0
    assert torch.autograd.grad(loss, scores)[0].isfinite().all()


def test_wrong_settings():
    for wrong in (
        lambda: CosineHinge(negatives="two"),
        lambda: CosineHinge(reduction="none"),
        lambda: CrossEntropy(0),
        lambda: CrossEntropy(reduction="max"),
    ):
        with pytest.raises(InputError, match=r"^loss: [^\n]+$"):
            wrong()
