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


#: By the case's scheme: mistakes about one have nothing to do with the others.
Held = dict[str, float]

_SAID = "with {case}, rank {rank} is said to hold {seen:,.0f} bytes; it is {right:,.0f}"
_EXACT = Tolerance(1.0, 1e-9)


class BytesHeld(Compared[Case, Held, Held]):
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

    def trial(self, answer: Callable[[list[tuple[int, ...]], int, str, bool], object], case: Case) -> Held:
        shapes = [tuple(shape) for shape in case["shapes"]]
        held = toys.number(answer(shapes, case["ranks"], case["scheme"], case["mixed"]))
        return {case["scheme"]: held}

    def oracle(self, case: Case, world_size: int) -> dict[str, list[Held]]:
        """Count the bytes of tensors that are really cut."""
        return {"right": [{case["scheme"]: _count(case)}]}

    gives_number = gate("A number of bytes.", "with {case}, rank {rank} returned {given}")

    ddp = compared(
        "DDP: everything on every rank, and the buckets.",
        _SAID,
        within=_EXACT,
        of="ddp",
        when=lambda case: case["scheme"] == "ddp",
    )
    zero1 = compared(
        "ZeRO 1: as DDP, but the optimizer's bytes are divided.",
        _SAID,
        within=Tolerance(16.0, 1e-9),
        of="zero1",
        when=lambda case: case["scheme"] == "zero1",
    )
    fsdp = compared(
        "FSDP2: everything is cut, between rows.",
        _SAID,
        within=_EXACT,
        of="fsdp",
        when=lambda case: case["scheme"] == "fsdp",
    )


def _count(case: Case) -> float:
    """Return the bytes on rank 0."""
    import torch

    weight, gradient, optimizer = (2, 2, 12) if case["mixed"] else (4, 4, 8)
    tensors = [torch.empty(shape, dtype=torch.uint8) for shape in case["shapes"]]
    if case["scheme"] == "fsdp":
        return sum(tensor.chunk(case["ranks"])[0].numel() for tensor in tensors) * (
            weight + gradient + optimizer
        )
    divisor = case["ranks"] if case["scheme"] == "zero1" else 1
    return sum(tensor.numel() for tensor in tensors) * (weight + 2 * gradient + optimizer / divisor)
