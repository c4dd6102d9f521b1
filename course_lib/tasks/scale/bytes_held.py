"""Task 4: how many bytes each rank must hold for weights, gradients and optimizer."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import TypedDict

from course_lib.tasks import toys
from course_lib.tasks.task import Miss, Recognised, Task, Trial, check, gate, recognise_by_name


class Case(TypedDict):
    """What the answer is called with."""

    shapes: list[list[int]]
    ranks: int
    scheme: str
    mixed: bool


#: For `right` and for each misconception, the bytes on rank 0.
Oracle = dict[str, float]
ThisTrial = Trial[Case, float, Oracle]


class BytesHeld(Task[Case, float, Oracle]):
    """How many bytes each rank must hold for weights, gradients and optimizer."""

    name = "scale.bytes_held"
    world_sizes = (1,)

    def cases(self, world_size: int, chance: Random) -> Iterator[Case]:
        """Each scheme, in both precisions, with rows that divide and rows that do not."""
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
        """A case as a call."""
        shapes = ", ".join(str(tuple(shape)) for shape in case["shapes"])
        return f"shapes=[{shapes}], ranks={case['ranks']}, scheme={case['scheme']!r}, mixed={case['mixed']}"

    def trial(self, answer: Callable[[list[tuple[int, ...]], int, str, bool], object], case: Case) -> float:
        """The number of bytes."""
        shapes = [tuple(shape) for shape in case["shapes"]]
        return toys.number(answer(shapes, case["ranks"], case["scheme"], case["mixed"]))

    def oracle(self, case: Case, world_size: int) -> Oracle:
        """Counted from tensors that are really cut; and what each misconception gives."""
        return _counts(case)

    #: A float or an int.
    gives_number = gate("A number of bytes.", "with {case}, rank {rank} returned {given}")

    @check("DDP: everything on every rank, and the buckets.")
    def ddp(self, trial: ThisTrial) -> Miss | None:
        return self._miss(trial, "ddp")

    @check("ZeRO 1: as DDP, but the optimizer's bytes are divided.")
    def zero1(self, trial: ThisTrial) -> Miss | None:
        """Up to a few bytes: who rounds, and where, is free. Elsewhere there is nothing to round."""
        return self._miss(trial, "zero1")

    @check("FSDP2: everything is cut, between rows.")
    def fsdp(self, trial: ThisTrial) -> Miss | None:
        return self._miss(trial, "fsdp")

    def recognise(self, trials: Sequence[ThisTrial]) -> Recognised:
        """Which misconception gives exactly these numbers?"""
        names = [item.id for item in self.misconceptions]
        return recognise_by_name(trials, names, lambda trial, name: [trial.oracle[name]], _equal)

    def _miss(self, trial: ThisTrial, scheme: str) -> Miss | None:
        seen, right = trial.seen[0], trial.oracle["right"]
        few = 16.0 if scheme == "zero1" else 1.0
        if trial.case["scheme"] != scheme or abs(seen - right) <= max(few, 1e-9 * right):
            return None
        return Miss(
            f"with {self.describe(trial.case)}, rank 0 is said to hold {seen:,.0f} bytes; it is {right:,.0f}"
        )


def _equal(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=1e-6, abs_tol=16)


def _counts(case: Case) -> dict[str, float]:
    """Bytes on rank 0, right and by misconception; one that is about another scheme gives what is right."""
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

    right = total(weight, gradient, optimizer, gradient)
    wrong = {
        "one_mean": total(weight, gradient, optimizer - 4, gradient),
        "no_buckets": total(weight, gradient, optimizer, 0),
        "no_fp32_copy": total(weight, gradient, 8, gradient),
    }
    if scheme == "ddp":
        wrong["ddp_divides"] = whole * (weight + 2 * gradient + optimizer / ranks)
    if scheme == "zero1":
        wrong["zero1_cuts_all"] = whole * (weight + gradient + optimizer) / ranks + whole * gradient
    if scheme == "fsdp":
        wrong["rows_can_be_cut"] = whole * (weight + gradient + optimizer) / ranks
    names = ("ddp_divides", "zero1_cuts_all", "rows_can_be_cut")
    return {"right": right, **dict.fromkeys(names, right), **wrong}
