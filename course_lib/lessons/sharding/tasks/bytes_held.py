"""Task 1: how many bytes each rank must hold for weights, gradients and optimizer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import TypedDict

from course_lib.tasks import toys
from course_lib.tasks.compared import Compared, compared
from course_lib.tasks.precision import Tolerance
from course_lib.tasks.task import gate


class Case(TypedDict):
    """The arguments of the answer."""

    shapes: list[list[int]]
    ranks: int
    scheme: str
    mixed: bool


_SAID = "with {case}, rank {rank} is said to hold {seen:,.0f} bytes; it is {right:,.0f}"
_EXACT = Tolerance(1.0, 1e-9)


class BytesHeld(Compared[Case, float, float]):
    """Compute the bytes that each rank must hold for weights, gradients and optimizer."""

    name = "sharding.bytes_held"
    world_sizes = (1,)
    #: Up to a few bytes: who rounds, and where, is free.
    tolerance = Tolerance(16.0, 1e-6)

    def cases(self, world_size: int, chance: Random) -> Iterator[Case]:
        """Yield each scheme in both precisions, with rows that divide and rows that do not."""
        for scheme in ("ddp", "zero1", "fsdp"):
            for mixed in (False, True):
                ranks = chance.choice((4, 8, 16))
                rows, columns = ranks * chance.randint(3, 30), chance.randint(20, 90)
                shapes = [
                    [rows, columns],
                    [rows],
                    [rows + chance.randint(1, ranks - 1), rows],
                    [chance.randint(1, ranks - 1), 4],
                ]
                chance.shuffle(shapes)
                yield {"shapes": shapes, "ranks": ranks, "scheme": scheme, "mixed": mixed}

    def describe(self, case: Case) -> str:
        shapes = ", ".join(str(tuple(shape)) for shape in case["shapes"])
        return f"shapes=[{shapes}], ranks={case['ranks']}, scheme={case['scheme']!r}, mixed={case['mixed']}"

    def trial(self, answer: Callable[[list[tuple[int, ...]], int, str, bool], object], case: Case) -> float:
        shapes = [tuple(shape) for shape in case["shapes"]]
        return toys.number(answer(shapes, case["ranks"], case["scheme"], case["mixed"]))

    def oracle(self, case: Case, world_size: int) -> dict[str, list[float]]:
        """Count the bytes of tensors that are really cut."""
        return {name: [count] for name, count in _counts(case).items()}

    gives_number = gate("A number of bytes.", "with {case}, rank {rank} returned {given}")

    ddp = compared(
        "DDP: everything on every rank, and the buckets.",
        _SAID,
        within=_EXACT,
        when=lambda case: case["scheme"] == "ddp",
    )
    zero1 = compared(
        "ZeRO 1: as DDP, but the optimizer's bytes are divided.",
        _SAID,
        within=Tolerance(16.0, 1e-9),
        when=lambda case: case["scheme"] == "zero1",
    )
    fsdp = compared(
        "FSDP2: everything is cut, between rows.",
        _SAID,
        within=_EXACT,
        when=lambda case: case["scheme"] == "fsdp",
    )


def _counts(case: Case) -> dict[str, float]:
    """Return the bytes on rank 0, right and by misconception, without misconceptions about another scheme."""
    import torch

    scheme, ranks, mixed = case["scheme"], case["ranks"], case["mixed"]
    weight, gradient, optimizer = (2, 2, 12) if mixed else (4, 4, 8)
    tensors = [torch.empty(shape, dtype=torch.uint8) for shape in case["shapes"]]
    whole = sum(tensor.numel() for tensor in tensors)
    piece = sum(tensor.chunk(ranks)[0].numel() for tensor in tensors)

    def total(w: float, g: float, o: float, buckets: float) -> float:
        if scheme == "fsdp":
            return piece * (w + g + o)
        return whole * (w + g + buckets + (o / ranks if scheme == "zero1" else o))

    counts = {
        "right": total(weight, gradient, optimizer, gradient),
        "one_mean": total(weight, gradient, optimizer - 4, gradient),
        "no_buckets": total(weight, gradient, optimizer, 0),
        "no_fp32_copy": total(weight, gradient, 8, gradient),
    }
    if scheme == "ddp":
        counts["ddp_divides"] = whole * (weight + 2 * gradient + optimizer / ranks)
    if scheme == "zero1":
        counts["zero1_cuts_all"] = whole * (weight + gradient + optimizer) / ranks + whole * gradient
    if scheme == "fsdp":
        counts["rows_can_be_cut"] = whole * (weight + gradient + optimizer) / ranks
    return counts
