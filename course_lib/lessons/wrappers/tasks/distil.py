"""Task 3: a student with a BatchNorm in DDP, and a momentum teacher beside it."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from random import Random
from typing import TYPE_CHECKING, TypedDict

from course_lib.tasks import toys
from course_lib.tasks.compared import Compared, compared
from course_lib.tasks.task import (
    Miss,
    Recognised,
    Trial,
    WrongKind,
    check,
    gate,
)
from course_lib.tasks.weights import ROUNDING, close, drawn, network, numbers

if TYPE_CHECKING:
    from torch import Tensor, nn

    Batch = tuple[Tensor, Tensor, Tensor]


class Case(TypedDict):
    """So many steps, with batches of this size on every rank; and what the answer is called with."""

    seed: int
    batch: int
    steps: int
    lr: float
    momentum: float


class Seen(TypedDict):
    """The weights of both, the teacher's running statistics, and whether it is wrapped or has gradients."""

    student: list[float]
    teacher: list[float]
    statistics: list[float]
    wrapped: bool
    gradients: bool


class Both(TypedDict):
    """The weights of the student and of the teacher, and the teacher's running statistics."""

    student: list[float]
    teacher: list[float]
    statistics: list[float]


ThisTrial = Trial[Case, Seen, dict[str, list[Both]]]


def _student(seed: int) -> nn.Module:
    """Return a network with a BatchNorm, whose running statistics are drawn, too."""
    net = network(seed, 4, 5, 2, norm=True)
    for place, statistic in enumerate(_statistics(net)):
        statistic.copy_(drawn(seed + 1 + place, *statistic.shape).abs() + 0.5)
    return net


def _statistics(net: nn.Module) -> list[Tensor]:
    return [buffer for buffer in net.buffers() if buffer.is_floating_point()]


def _batches(case: Case, rank: int) -> list[Batch]:
    found = []
    for step in range(case["steps"]):
        seed = case["seed"] + 1000 * step + 10 * rank
        x = drawn(seed + 1, case["batch"], 4)
        found.append((x, x + 0.3 * drawn(seed + 2, case["batch"], 4), drawn(seed + 3, case["batch"], 2)))
    return found


class Distil(Compared[Case, Seen, Both]):
    """A student in DDP, and a momentum teacher beside it."""

    name = "wrappers.distil"
    world_sizes = (1, 2, 3)
    tolerance = ROUNDING

    def cases(self, world_size: int, chance: Random) -> Iterator[Case]:
        for low, high in ((0.6, 0.8), (0.85, 0.95)):
            yield {
                "seed": chance.randint(1, 10**6),
                "batch": chance.choice((3, 4, 5)),
                "steps": 4,
                "lr": 0.2,
                "momentum": round(chance.uniform(low, high), 2),
            }

    def describe(self, case: Case) -> str:
        return f"momentum {case['momentum']}"

    def trial(self, answer: Callable[[nn.Module, list[Batch], float, float], object], case: Case) -> Seen:
        import torch
        from torch.nn.parallel import DistributedDataParallel

        rank = int(os.environ["RANK"])
        student = _student(case["seed"] + 17 * rank)
        teacher = answer(student, _batches(case, rank), case["lr"], case["momentum"])
        if not isinstance(teacher, torch.nn.Module):
            raise toys.wrong_kind(teacher)
        if teacher is student:
            raise WrongKind("the student itself")
        weights = numbers(student.parameters()), numbers(teacher.parameters())
        if len(weights[0]) != len(weights[1]):
            raise WrongKind(f"a model with {len(weights[1])} numbers; the student has {len(weights[0])}")
        return {
            "student": weights[0],
            "teacher": weights[1],
            "statistics": numbers(_statistics(teacher)),
            "wrapped": any(isinstance(part, DistributedDataParallel) for part in teacher.modules()),
            "gradients": any(p.grad is not None for p in teacher.parameters()),
        }

    def oracle(self, case: Case, world_size: int) -> dict[str, list[Both]]:
        return {"right": [_train_alone(case, world_size)] * world_size}

    gives_teacher = gate(
        "distil(...) returns the teacher, a model like the student.", "rank {rank} returned {given}"
    )

    @check("The teacher is not in DDP, and has no gradients.")
    def plain(self, trial: ThisTrial) -> Miss | None:
        for rank, seen in trial.seen.items():
            if seen["wrapped"]:
                return Miss(f"on rank {rank} it is a DistributedDataParallel", "teacher_in_ddp")
            if seen["gradients"]:
                return Miss(f"on rank {rank} its parameters have gradients", "teacher_gets_gradients")
        return None

    student_right = compared(
        "The student ends with the weights that one process finds for all ranks.",
        "with {case} on {gang}, the student of rank {rank} is off by up to {gap:.2g}",
        of="student",
    )
    teacher_right = compared(
        "The teacher is the one that process has, on every rank.",
        "with {case} on {gang}, the teacher of rank {rank} is off by up to {gap:.2g}",
        of="teacher",
    )

    statistics_right = compared(
        "The teacher has rank 0's running statistics of the student, on every rank.",
        "with {case} on {gang}, the running statistics of rank {rank}'s teacher are off by up to {gap:.2g}",
        of="statistics",
    )

    def recognise(self, trials: Sequence[ThisTrial]) -> Recognised:
        """Detect students that differ between ranks."""
        students = [[seen["student"] for seen in trial.seen.values()] for trial in trials]
        differ = any(not close(one, some[0]) for some in students for one in some)
        return "not_averaged" if differ else None


def _train_alone(case: Case, world_size: int) -> Both:
    """Train one process, whose student keeps the running statistics of rank 0's samples."""
    import torch

    mse = torch.nn.functional.mse_loss
    student = _student(case["seed"])
    teacher = copy.deepcopy(student).eval()
    optimizer = torch.optim.SGD(student.parameters(), lr=case["lr"])
    for parts in zip(*(_batches(case, rank) for rank in range(world_size)), strict=True):
        optimizer.zero_grad()
        for x, noisy, y in reversed(parts):  # rank 0 comes last
            _take_over(_statistics(student), _statistics(teacher))  # each forward in DDP begins with rank 0's
            output = student(noisy)
            loss = mse(output, y) + mse(output, teacher(x).detach())
            (loss / world_size).backward()
        optimizer.step()
        _take_over(_statistics(teacher), _statistics(student))
        with torch.no_grad():
            for mine, its in zip(teacher.parameters(), student.parameters(), strict=True):
                mine.lerp_(its, 1 - case["momentum"])
    return {
        "student": numbers(student.parameters()),
        "teacher": numbers(teacher.parameters()),
        "statistics": numbers(_statistics(teacher)),
    }


def _take_over(old: Iterable[Tensor], new: Iterable[Tensor]) -> None:
    for mine, its in zip(old, new, strict=True):
        mine.copy_(its)
