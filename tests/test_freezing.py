"""The alternating schedule: who learns when, what stands still, and that its state is kept."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from data.errors import InputError
from engine.freezing import AlternatingFreeze
from models.losses import InfoNCE
from models.retrieval import RetrievalTask


class Pair(nn.Module):
    """An image side with BatchNorm and a recipe side."""

    def __init__(self) -> None:
        super().__init__()
        self.image_side = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
        self.recipe_side = nn.Linear(4, 4)

    def sides(self):
        return {"image": [self.image_side], "recipe": [self.recipe_side]}

    def forward(self, batch):
        return {
            side: nn.functional.normalize(getattr(self, f"{side}_side")(batch[side]), dim=1)
            for side in ("image", "recipe")
        }


def task(**settings) -> RetrievalTask:
    torch.manual_seed(0)
    return RetrievalTask(Pair(), InfoNCE(), lambda groups: torch.optim.Adam(groups, lr=0.1), **settings)


def step(module: RetrievalTask, optimizer: torch.optim.Optimizer) -> None:
    batch = {"image": torch.randn(6, 4), "recipe": torch.randn(6, 4), "index": torch.arange(6)}
    module.train()
    module._trainer = SimpleNamespace(current_epoch=0)  # type: ignore[assignment]
    module.on_train_batch_start(batch, 0)
    optimizer.zero_grad()
    module.loss(module(batch), batch).backward()
    optimizer.step()


def snapshot(module: nn.Module) -> dict[str, torch.Tensor]:
    return {key: value.clone() for key, value in module.state_dict().items()}


@pytest.mark.parametrize("side", ["image", "recipe"])
def test_a_frozen_side_keeps_weights_moments_and_statistics(side):
    module = task()
    optimizer = module.make_optimizer(module.parameters())
    step(module, optimizer)  # both learn: moments exist
    module.freeze_side(side)
    frozen, other = module.net.sides()[side][0], module.net.sides()["recipe" if side == "image" else "image"][0]
    before, moving = snapshot(frozen), snapshot(other)
    moments = {id(p): optimizer.state[p]["exp_avg"].clone() for p in frozen.parameters()}
    for _ in range(3):
        step(module, optimizer)
    assert all(torch.equal(value, before[key]) for key, value in frozen.state_dict().items())
    assert all(torch.equal(optimizer.state[p]["exp_avg"], moments[id(p)]) for p in frozen.parameters())
    assert any(not torch.equal(value, moving[key]) for key, value in other.state_dict().items())
    module.freeze_side(None)
    step(module, optimizer)
    assert any(not torch.equal(value, before[key]) for key, value in frozen.state_dict().items())


def test_statistics_move_where_asked_as_in_the_reference_implementation():
    module = task(frozen_batchnorm="train")
    optimizer = module.make_optimizer(module.parameters())
    module.freeze_side("image")
    before = snapshot(module.net.image_side)
    step(module, optimizer)
    after = module.net.image_side.state_dict()
    assert torch.equal(after["0.weight"], before["0.weight"])
    assert not torch.equal(after["1.running_mean"], before["1.running_mean"])


def validate(schedule: AlternatingFreeze, module: RetrievalTask, value: float) -> str:
    trainer = SimpleNamespace(
        sanity_checking=False,
        state=SimpleNamespace(fn="fit"),
        callback_metrics={"val/selection": torch.tensor(value)},
        current_epoch=0,
    )
    schedule.on_validation_end(trainer, module)  # type: ignore[arg-type]
    return schedule.frozen


def test_sides_change_after_one_stale_validation_and_then_after_three():
    schedule, module = AlternatingFreeze(), task()
    schedule.on_train_start(SimpleNamespace(), module)  # type: ignore[arg-type]
    assert not any(p.requires_grad for p in module.net.image_side.parameters())
    values = [9, 8, 8, 7, 7, 7, 7, 6, 6, 6, 6]
    sides = [validate(schedule, module, value) for value in values]
    assert sides == ["image"] * 2 + ["recipe"] * 4 + ["image"] * 4 + ["recipe"]
    assert not any(p.requires_grad for p in module.net.recipe_side.parameters())


def test_a_resumed_schedule_goes_on_where_it_was():
    values = [9, 8, 8, 7, 7, 7, 7, 6, 6, 6, 6, 5]
    whole, module = AlternatingFreeze(), task()
    expected = [validate(whole, module, value) for value in values]
    for cut in range(len(values)):
        first, second = AlternatingFreeze(), AlternatingFreeze()
        sides = [validate(first, module, value) for value in values[:cut]]
        second.load_state_dict(first.state_dict())
        assert sides + [validate(second, module, value) for value in values[cut:]] == expected


@pytest.mark.parametrize("wrong", [{"first": "vision"}, {"patience": 0}, {"first_patience": 0}])
def test_wrong_settings_are_refused(wrong):
    with pytest.raises(InputError, match=r"callbacks\.freezing"):
        AlternatingFreeze(**wrong)


def test_the_image_side_has_its_rate_and_the_temperature_does_not_decay():
    module = task(image_lr_scale=0.1)
    module.make_optimizer = lambda groups: torch.optim.AdamW(groups, lr=0.2, weight_decay=0.5)
    module._trainer = SimpleNamespace()  # type: ignore[assignment]
    optimizer = module.configure_optimizers()
    rate = {id(p): group["lr"] for group in optimizer.param_groups for p in group["params"]}
    decay = {id(p): group["weight_decay"] for group in optimizer.param_groups for p in group["params"]}
    assert set(rate) == {id(p) for p in module.parameters()}
    assert {rate[id(p)] for p in module.net.image_side.parameters()} == {0.2 * 0.1}
    assert {rate[id(p)] for p in module.net.recipe_side.parameters()} == {0.2}
    assert [decay[id(p)] for p in module.loss.parameters()] == [0.0]
    assert {decay[id(p)] for p in module.net.parameters()} == {0.5}
