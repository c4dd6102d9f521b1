"""Task 3: a student in DDP, and a momentum teacher beside it."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from random import Random
from typing import TYPE_CHECKING, TypedDict

from course_lib.outcome.outcome import Outcome
from course_lib.tasks import toys
from course_lib.tasks.compared import Compared, compared
from course_lib.tasks.task import (
    Miss,
    Recognised,
    Trial,
    WrongKind,
    check,
    gate,
    recognise_by_message,
)
from course_lib.tasks.weights import ROUNDING, added, close, drawn, network, numbers

if TYPE_CHECKING:
    from torch import Tensor, nn

    Batch = tuple[Tensor, Tensor, Tensor]

#: By misconception; a slash and a variant may follow.
_WAYS = (
    "right",
    "copied_before",
    "momentum_reversed",
    "too_early",
    "never_follows",
    "half_the_loss/labels",
    "half_the_loss/target",
)


class Case(TypedDict):
    """So many steps, with batches of this size on every rank; and what the answer is called with."""

    seed: int
    batch: int
    steps: int
    lr: float
    momentum: float


class Seen(TypedDict):
    """The weights of both, whether the teacher is wrapped or has gradients, and whether it is the student itself."""

    student: list[float]
    teacher: list[float]
    wrapped: bool
    gradients: bool


class Both(TypedDict):
    """The weights of the student and of the teacher."""

    student: list[float]
    teacher: list[float]


ThisTrial = Trial[Case, Seen, dict[str, list[Both]]]


def _student(seed: int) -> nn.Module:
    return network(seed, 4, 5, 2)


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
        """A slow teacher and a fast one."""
        for low, high in ((0.6, 0.8), (0.85, 0.95)):
            yield {
                "seed": chance.randint(1, 10**6),
                "batch": chance.choice((3, 4, 5)),
                "steps": 4,
                "lr": 0.2,
                "momentum": round(chance.uniform(low, high), 2),
            }

    def describe(self, case: Case) -> str:
        """The momentum."""
        return f"momentum {case['momentum']}"

    def trial(self, answer: Callable[[nn.Module, list[Batch], float, float], object], case: Case) -> Seen:
        """The weights of both after training, and what the teacher is."""
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
            "wrapped": any(isinstance(part, DistributedDataParallel) for part in teacher.modules()),
            "gradients": any(p.grad is not None for p in teacher.parameters()),
        }

    def oracle(self, case: Case, world_size: int) -> dict[str, Callable[[], list[Both]]]:
        """What one process finds that has the samples of all ranks, and what misconceptions find."""
        return {way: partial(_alone, case, world_size, way) for way in _WAYS}

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
        "The student ends with the weights of one process that trains on the samples of all ranks.",
        "with {case} on {gang}, the student of rank {rank} is off by up to {gap:.2g}",
        of="student",
    )
    teacher_right = compared(
        "The teacher is the one that process has, on every rank.",
        "with {case} on {gang}, the teacher of rank {rank} is off by up to {gap:.2g}",
        of="teacher",
    )

    def recognise(self, trials: Sequence[ThisTrial]) -> Recognised:
        """What gives exactly these weights; without a name, students that are not the same on all ranks."""
        students = [[seen["student"] for seen in trial.seen.values()] for trial in trials]
        apart = any(not close(one, some[0]) for some in students for one in some)
        return super().recognise(trials) or ("not_averaged" if apart else None)

    def recognise_ending(self, outcome: Outcome, trials: Sequence[ThisTrial]) -> Recognised:
        """By what torch says."""
        texts = {
            "DistributedDataParallel is not needed": "teacher_in_ddp",
            "Expected to have finished reduction": "teacher_counted",
        }
        return recognise_by_message(outcome, texts)


def _alone(case: Case, world_size: int, way: str) -> list[Both]:
    """One process with one student and a teacher for each rank (equal ones, unless they were copied early)."""
    import torch

    mse = torch.nn.functional.mse_loss
    student = _student(case["seed"])
    teachers = [
        _student(case["seed"] + 17 * rank) if way == "copied_before" else copy.deepcopy(student)
        for rank in range(world_size)
    ]
    optimizer = torch.optim.SGD(student.parameters(), lr=case["lr"])
    share = {"momentum_reversed": case["momentum"], "never_follows": 0.0}.get(way, 1 - case["momentum"])

    def follow() -> None:
        with torch.no_grad():
            for teacher in teachers:
                for mine, its in zip(teacher.parameters(), student.parameters(), strict=True):
                    mine.lerp_(its, share)

    for parts in zip(*(_batches(case, rank) for rank in range(world_size)), strict=True):
        optimizer.zero_grad()
        for teacher, (x, noisy, y) in zip(teachers, parts, strict=True):
            output = student(noisy)
            parts_of_loss = {"labels": mse(output, y), "target": mse(output, teacher(x).detach())}
            wanted = way.partition("half_the_loss/")[2]
            loss = parts_of_loss[wanted] if wanted else added(parts_of_loss.values())
            (loss / world_size).backward()
        if way == "too_early":
            follow()
        optimizer.step()
        if way != "too_early":
            follow()
    weights = numbers(student.parameters())
    return [{"student": weights, "teacher": numbers(teacher.parameters())} for teacher in teachers]
