"""Data order that is a function of (seed, epoch), and a loader that remembers its place.

A shuffled `DataLoader` cannot resume in mid-epoch: its order lives in a generator whose state nobody saves. Here the
order of an epoch is computed from two integers, so a checkpoint only needs the position, and the order is the same
for any number of workers.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Sampler


class BucketBatchSampler(Sampler[list[int]]):
    """Batches of questions of one group (task) and of like length.

    Each epoch is shuffled, cut into pools of `pool` batches, sorted by length inside a pool and cut into batches,
    whose order is shuffled again: padding stays small and batches stay random.

    Args:
        lengths: (N,) number of document elements of each question.
        groups: (N,) group of each question; a batch never mixes groups (tasks have choices of other shapes).
        batch_size: questions in a batch; the last batch of a group may be smaller.
        seed: with the epoch it fixes the order.
        shuffle: False gives one fixed order, sorted by length (evaluation).
        pool: batches in a pool; 1 means no bucketing.
        rank, world_size: share of this process; every rank gets the same number of batches, so that no rank waits
            for another at the end of an epoch. To fill up, the first batches are repeated in training; without
            shuffling the longest are halved, so that an evaluation sees each question once (unless there are fewer
            than processes).
    """

    def __init__(
        self,
        lengths: np.ndarray,
        groups: np.ndarray,
        batch_size: int,
        seed: int = 0,
        shuffle: bool = True,
        pool: int = 10,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        self.lengths, self.groups = np.asarray(lengths), np.asarray(groups)
        self.batch_size, self.seed, self.shuffle, self.pool = batch_size, seed, shuffle, pool
        self.rank, self.world_size = rank, world_size
        self.epoch = 0
        full = sum(-(-int((self.groups == g).sum()) // batch_size) for g in np.unique(self.groups))
        self._length = -(-full // world_size)

    def set_epoch(self, epoch: int) -> None:
        """Lightning calls this before each epoch."""
        self.epoch = epoch

    def __len__(self) -> int:
        return self._length

    def batches(self, epoch: int) -> list[list[int]]:
        """All batches of this rank in one epoch, in order."""
        rng = np.random.Generator(np.random.Philox(key=[self.seed & (2**64 - 1), epoch]))
        batches: list[list[int]] = []
        for group in np.unique(self.groups):
            members = np.flatnonzero(self.groups == group)
            pool = self.batch_size * self.pool if self.shuffle else len(members)
            if self.shuffle:
                members = rng.permutation(members)
            for start in range(0, len(members), max(pool, 1)):
                part = members[start : start + pool]
                if self.pool > 1 or not self.shuffle:
                    part = part[np.argsort(self.lengths[part], kind="stable")]
                batches += [part[i : i + self.batch_size].tolist() for i in range(0, len(part), self.batch_size)]
        if self.shuffle:
            batches = [batches[i] for i in rng.permutation(len(batches))]
        short = self._length * self.world_size - len(batches)
        while short > 0 and not self.shuffle and len(longest := max(batches, key=len)) > 1:
            place, half = batches.index(longest), len(longest) // 2  # evaluation: no question twice
            batches[place : place + 1] = [longest[:half], longest[half:]]
            short -= 1
        batches += [batches[i % len(batches)] for i in range(short)]
        return batches[self.rank :: self.world_size]

    def __iter__(self) -> Iterator[list[int]]:
        return iter(self.batches(self.epoch))


class _From(Sampler[list[int]]):
    """The rest of an epoch from a position on. Lightning announces the epoch to a batch sampler's `sampler`."""

    def __init__(self, batches: BucketBatchSampler) -> None:
        self.sampler = batches
        self.start = 0

    def __len__(self) -> int:
        return len(self.sampler)

    def __iter__(self) -> Iterator[list[int]]:
        return iter(self.sampler.batches(self.sampler.epoch)[self.start :])


class ResumableLoader(DataLoader):
    """A `DataLoader` whose `state_dict` is (epoch, batches handed out): Lightning stores and restores it."""

    def __init__(self, dataset: Any, batch_sampler: BucketBatchSampler, **kwargs: Any) -> None:
        self._place = _From(batch_sampler)
        super().__init__(dataset, batch_sampler=self._place, **kwargs)
        self._handed_out = 0
        self._resume: dict[str, int] | None = None

    def state_dict(self) -> dict[str, int]:
        """Epoch and position after the last batch that the training loop received."""
        return {"epoch": self._place.sampler.epoch, "position": self._handed_out}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Begin the next iteration at the stored position, if it is the same epoch."""
        self._resume = dict(state)

    def __iter__(self) -> Iterator[Any]:  # pyright: ignore[reportIncompatibleMethodOverride]
        resume, self._resume = self._resume, None
        same_epoch = resume is not None and resume["epoch"] == self._place.sampler.epoch
        self._handed_out = self._place.start = resume["position"] if resume is not None and same_epoch else 0
        for batch in super().__iter__():
            self._handed_out += 1
            yield batch


def resumable_loader(
    dataset: Any,
    sampler: type[BucketBatchSampler],
    lengths: np.ndarray,
    groups: np.ndarray,
    *,
    batch_size: int,
    seed: int,
    shuffle: bool,
    pool: int,
    num_workers: int,
    whole: bool = False,
) -> ResumableLoader:
    """Loader of a split whose batches `dataset.batch` gathers; `whole`: not only this process's share."""
    rank, world = 0, 1
    if not whole and torch.distributed.is_available() and torch.distributed.is_initialized():
        rank, world = torch.distributed.get_rank(), torch.distributed.get_world_size()
    return ResumableLoader(
        dataset,
        sampler(lengths, groups, batch_size, seed, shuffle, pool, rank, world),
        collate_fn=dataset.batch,
        num_workers=num_workers,
        persistent_workers=num_workers > 0,
        pin_memory=torch.cuda.is_available(),
    )


def step_seed(seed: int, epoch: int, batch: int) -> int:
    """Seed of one training step, so that dropout and drawn negatives do not depend on what ran before.

    The three numbers are mixed by Philox rather than added: neighbouring steps must not share streams.
    """
    words = np.random.Philox(key=[seed & (2**64 - 1), (epoch << 32) + batch]).random_raw(1)
    return int(words[0] & np.uint64(2**63 - 1))


def seed_step(seed: int, epoch: int, batch: int) -> None:
    """Seed torch's generators for one training step."""
    torch.manual_seed(step_seed(seed, epoch, batch))
