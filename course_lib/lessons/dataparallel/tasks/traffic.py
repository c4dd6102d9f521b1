"""Bytes that devices send in a training step: counted while copies are made."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from torch import Tensor


class Case(TypedDict):
    """A step of the scheme `dp` or `ddp`; weights and the parts of a sample are in bytes."""

    scheme: str
    devices: int
    samples: int
    weights: int
    sample_in: int
    sample_out: int


def counted(case: Case) -> list[float]:
    """Count the bytes that each device sends by copying real tensors, as a step does."""
    sent = _data_parallel(case) if case["scheme"] == "dp" else _ring(case)
    return [float(sent[device]) for device in range(case["devices"])]


def _data_parallel(case: Case) -> Counter[int]:
    import torch

    sent: Counter[int] = Counter()

    def move(tensor: Tensor, source: int, target: int) -> None:
        sent[source] += tensor.nbytes if source != target else 0

    weights = torch.empty(case["weights"], dtype=torch.uint8)
    inputs = torch.empty(case["samples"], case["sample_in"], dtype=torch.uint8)
    for device, part in enumerate(inputs.chunk(case["devices"])):
        output = torch.empty(len(part), case["sample_out"], dtype=torch.uint8)
        move(part, 0, device)
        move(weights, 0, device)
        move(output, device, 0)
        move(torch.empty_like(output), 0, device)  # its gradient
        move(torch.empty_like(weights), device, 0)  # their gradients
    return sent


def _ring(case: Case) -> Counter[int]:
    """Count the bytes of a ring all-reduce: n - 1 rounds that add up, n - 1 rounds that distribute."""
    import torch

    n = case["devices"]
    sent: Counter[int] = Counter()
    gradients = [torch.full((case["weights"] // 4,), float(rank + 1)) for rank in range(n)]
    pieces = [list(gradient.chunk(n)) for gradient in gradients]
    for lap, adds in ((0, True), (1, False)):
        for turn in range(n - 1):
            going = [(rank, (rank - turn + lap) % n) for rank in range(n)]
            mail = [pieces[rank][which].clone() for rank, which in going]
            for (rank, which), piece in zip(going, mail, strict=True):
                sent[rank] += piece.nbytes
                target = pieces[(rank + 1) % n][which]
                target.add_(piece) if adds else target.copy_(piece)
    if any((gradient != n * (n + 1) / 2).any() for gradient in gradients):
        raise AssertionError("the ring does not add up")
    return sent
