import numpy as np
import pytest
import torch

from data.sampler import BucketBatchSampler, ResumableLoader, step_seed


def _sampler(n=103, batch_size=8, **kwargs):
    rng = np.random.default_rng(0)
    return BucketBatchSampler(rng.integers(4, 21, n), rng.integers(0, 3, n), batch_size, **kwargs)


@pytest.mark.parametrize("n", [1, 7, 8, 9, 103])
@pytest.mark.parametrize("shuffle", [True, False])
def test_every_question_once_and_one_group_a_batch(n, shuffle):
    sampler = _sampler(n, shuffle=shuffle)
    batches = sampler.batches(0)
    assert len(batches) == len(sampler)
    assert sorted(i for batch in batches for i in batch) == list(range(n))
    assert all(len({int(sampler.groups[i]) for i in batch}) == 1 for batch in batches)
    assert max(map(len, batches)) <= 8


def test_order_depends_on_seed_and_epoch_only():
    a, b = _sampler(seed=5), _sampler(seed=5)
    a.batches(0)  # asking for one epoch leaves no trace in another
    assert a.batches(3) == b.batches(3)
    assert a.batches(3) != a.batches(4)
    assert a.batches(3) != _sampler(seed=6).batches(3)


def test_buckets_hold_less_padding_than_random_batches():
    def fill(sampler):
        lengths = [sampler.lengths[batch] for batch in sampler.batches(0)]
        return sum(x.sum() for x in lengths) / sum(x.max() * len(x) for x in lengths)

    assert fill(_sampler(2000, pool=10)) > fill(_sampler(2000, pool=1)) + 0.1


def test_ranks_share_an_epoch_with_equal_numbers_of_batches():
    whole = {i for batch in _sampler().batches(1) for i in batch}
    ranks = [_sampler(rank=r, world_size=4) for r in range(4)]
    shares = [r.batches(1) for r in ranks]
    assert len({len(share) for share in shares}) == 1
    assert {i for share in shares for batch in share for i in batch} == whole


class _Squares(torch.utils.data.Dataset):
    def __len__(self):
        return 103

    def __getitem__(self, i):
        return i


@pytest.mark.parametrize("workers", [0, 1, 2])
@pytest.mark.parametrize("position", [0, 1, 5, 14])
def test_loader_goes_on_where_it_stopped(workers, position):
    def loader():
        return ResumableLoader(_Squares(), _sampler(seed=1), num_workers=workers, collate_fn=list)

    first = loader()
    first.batch_sampler.sampler.set_epoch(2)
    seen = []
    for batch in first:
        if len(seen) == position:
            break
        seen.append(batch)
    state = {"epoch": 2, "position": position}
    if position:
        assert first.state_dict()["epoch"] == 2
    second = loader()
    second.batch_sampler.sampler.set_epoch(2)
    second.load_state_dict(state)
    assert seen + list(second) == _sampler(seed=1).batches(2)
    assert second.state_dict() == {"epoch": 2, "position": len(_sampler())}
    assert list(second) == _sampler(seed=1).batches(2), "the place is used once"


def test_state_of_another_epoch_starts_from_the_front():
    loader = ResumableLoader(_Squares(), _sampler(seed=1), collate_fn=list)
    loader.load_state_dict({"epoch": 0, "position": 3})
    loader.batch_sampler.sampler.set_epoch(1)
    assert list(loader) == _sampler(seed=1).batches(1)


def test_step_seeds_differ():
    seeds = {step_seed(s, e, b) for s in (0, 1) for e in range(30) for b in range(30)}
    assert len(seeds) == 2 * 30 * 30
    assert step_seed(7, 3, 2) == step_seed(7, 3, 2)


@pytest.mark.parametrize("n", [4, 21, 23, 40, 103])
@pytest.mark.parametrize("world_size", [2, 3, 4])
def test_ranks_evaluate_each_question_once(n, world_size):
    ranks = [_sampler(n, shuffle=False, rank=r, world_size=world_size) for r in range(world_size)]
    assert len({len(sampler.batches(0)) for sampler in ranks} | {len(sampler) for sampler in ranks}) == 1
    batches = [batch for sampler in ranks for batch in sampler.batches(0)]
    assert sorted(i for batch in batches for i in batch) == list(range(n)) and max(map(len, batches)) <= 8
    assert all(len({int(ranks[0].groups[i]) for i in batch}) == 1 for batch in batches)
