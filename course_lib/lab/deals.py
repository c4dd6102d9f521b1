"""Lesson 03, on the ranks: what a sampler deals, data, and the harness of runs. Loads quickly: each rank imports it."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import TYPE_CHECKING, cast

from course_lib.data import load_digits

if TYPE_CHECKING:
    from torch import Tensor
    from torch.utils.data import Dataset, DistributedSampler, TensorDataset


def deal(samples: int, epoch: int, shuffle: bool, drop_last: bool, seed: int | None) -> list[int]:
    """Return the samples that this rank's DistributedSampler gives out in an epoch; runs on every rank.

    Args:
        seed: None: each rank's own number.
    """
    import torch.distributed as dist

    own = dist.get_rank() if seed is None else seed
    sampler = _sampler(samples, shuffle=shuffle, seed=own, drop_last=drop_last)
    sampler.set_epoch(epoch)
    return list(sampler)


def deal_all(settings: Iterable[tuple[int, int, bool, bool, int | None]]) -> list[list[int]]:
    """Call `deal` with one setting after the other; runs on every rank."""
    return [deal(*setting) for setting in settings]


def _sampler(samples: int, shuffle: bool, seed: int = 0, drop_last: bool = False) -> DistributedSampler[int]:
    from torch.utils.data import DistributedSampler

    # Of its data set it asks no more than the length.
    data_set = cast("Dataset[int]", range(samples))
    return DistributedSampler(data_set, shuffle=shuffle, seed=seed, drop_last=drop_last)


def equal_everywhere(tensor: Tensor) -> bool:
    """Return whether all ranks hold the same numbers; runs on every rank."""
    import torch
    import torch.distributed as dist

    others = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
    dist.all_gather(others, tensor)
    return all(torch.equal(tensor, other) for other in others)


def digits() -> tuple[TensorDataset, TensorDataset]:
    """Return the handwritten digits: 1,400 to train on, and the other 397."""
    import torch
    from torch.utils.data import TensorDataset

    images, labels = load_digits()
    pixels, targets = torch.from_numpy(images).float().flatten(1) / 16, torch.from_numpy(labels).long()
    return TensorDataset(pixels[:1400], targets[:1400]), TensorDataset(pixels[1400:], targets[1400:])


class Noise:
    """A data set of two samples: numbers from the global generators of torch, numpy and Python."""

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> dict[str, float]:
        import numpy as np
        import torch

        return {"torch": torch.rand(()).item(), "numpy": float(np.random.rand()), "random": random.random()}
