"""Task 3: a student with a BatchNorm in DDP, and a momentum teacher beside it."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
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
    recognise_by_message,
)
from course_lib.tasks.weights import ROUNDING, added, close, drawn, network, numbers
from realranks.outcome.outcome import Outcome

if TYPE_CHECKING:
    from torch import Tensor, nn

    Batch = tuple[Tensor, Tensor, Tensor]


@dataclass(frozen=True)
class Way:
    """A way to train student and teacher.

    Attributes:
        before: every rank copies the student before DDP makes all equal. own_start: DDP leaves its running statistics.
        share: the student's share in the teacher's weights, from the momentum. early: before the optimizer's step.
        first_copies: after the first step the teacher's weights are the student's.
        statistics: what the teacher takes over of the student's running statistics after a step: those of `rank 0`,
            its `own` rank's, or the `mean` of all (`mean, of the student too`: it goes on with that); `nothing`, or
            `nothing, until the end`; on `rank 0 alone`; or a share, as of the weights: of `rank 0, a share`, of
            its `own, a share`.
        mode: the teacher's, `eval` or `train`. terms: the parts of the loss.
    """

    before: bool = False
    own_start: bool = False
    share: Callable[[float], float] = lambda momentum: 1 - momentum
    early: bool = False
    first_copies: bool = False
    statistics: str = "rank 0"
    mode: str = "eval"
    terms: tuple[str, ...] = ("labels", "target")


#: By misconception; a slash and a variant may follow.
_WAYS = {
    "right": Way(),
    "copied_before": Way(before=True),
    "copied_before + buffers_left": Way(before=True, statistics="nothing"),
    "copied_before + own_statistics": Way(before=True, statistics="own"),
    "copied_before + teacher_in_train_mode": Way(before=True, statistics="nothing", mode="train"),
    "teacher_in_train_mode": Way(statistics="nothing", mode="train"),
    "teacher_in_train_mode/copied": Way(mode="train"),
    "teacher_in_train_mode + own_statistics": Way(statistics="own", mode="train"),
    "buffers_left": Way(statistics="nothing"),
    "buffers_left/until the end": Way(statistics="nothing, until the end"),
    "buffers_left/on other ranks": Way(statistics="rank 0 alone"),
    "buffers_left + too_early": Way(statistics="nothing", early=True),
    "buffers_left + momentum_reversed": Way(statistics="nothing", share=lambda momentum: momentum),
    "own_statistics": Way(statistics="own"),
    "own_statistics/at the start": Way(own_start=True),
    "statistics_follow": Way(statistics="rank 0, a share"),
    "statistics_follow + own_statistics": Way(statistics="own, a share"),
    "statistics_averaged": Way(statistics="mean"),
    "statistics_averaged/student": Way(statistics="mean, of the student too"),
    "no_momentum": Way(share=lambda _: 1.0),
    "no_momentum + own_statistics": Way(share=lambda _: 1.0, statistics="own"),
    "first_update_copies": Way(first_copies=True),
    "first_update_copies + own_statistics": Way(first_copies=True, statistics="own"),
    "momentum_reversed": Way(share=lambda momentum: momentum),
    "too_early": Way(early=True),
    "never_follows": Way(share=lambda _: 0.0),
    "never_follows/nothing": Way(share=lambda _: 0.0, statistics="nothing"),
    "half_the_loss/labels": Way(terms=("labels",)),
    "half_the_loss/target": Way(terms=("target",)),
}


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

    def oracle(self, case: Case, world_size: int) -> dict[str, Callable[[], list[Both]]]:
        return {name: partial(_train_alone, case, world_size, way) for name, way in _WAYS.items()}

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
        """Name the misconception that gives exactly these weights; else detect students that differ between ranks."""
        students = [[seen["student"] for seen in trial.seen.values()] for trial in trials]
        students_differ = any(not close(one, some[0]) for some in students for one in some)
        return super().recognise(trials) or ("not_averaged" if students_differ else None)

    def recognise_ending(self, outcome: Outcome, trials: Sequence[ThisTrial]) -> Recognised:
        texts = {
            "DistributedDataParallel is not needed": "teacher_in_ddp",
            "Expected to have finished reduction": "teacher_counted",
            "can't be cast to the desired output type Long": "statistics_follow",
            "expected dtype long": "statistics_follow",
        }
        return recognise_by_message(outcome, texts)


def _train_alone(case: Case, world_size: int, way: Way) -> list[Both]:
    """Train one process with one student, and for each rank a teacher and the student's running statistics there."""
    import torch

    mse = torch.nn.functional.mse_loss
    student = _student(case["seed"])
    teachers = [
        _student(case["seed"] + 17 * rank) if way.before else copy.deepcopy(student)
        for rank in range(world_size)
    ]
    for rank, teacher in enumerate(teachers):
        teacher.train(way.mode == "train")
        if way.own_start:
            _take_over(_statistics(teacher), _statistics(_student(case["seed"] + 17 * rank)))
    optimizer = torch.optim.SGD(student.parameters(), lr=case["lr"])
    share = way.share(case["momentum"])

    def follow(share: float) -> None:
        with torch.no_grad():
            for teacher in teachers:
                for mine, its in zip(teacher.parameters(), student.parameters(), strict=True):
                    mine.lerp_(its, share)

    for step, parts in enumerate(zip(*(_batches(case, rank) for rank in range(world_size)), strict=True)):
        weight = 1.0 if way.first_copies and step == 0 else share
        optimizer.zero_grad()
        start = _copies(_statistics(student))
        ends = []
        for teacher, (x, noisy, y) in zip(teachers, parts, strict=True):
            _take_over(_statistics(student), start)  # each forward in DDP begins with rank 0's
            output = student(noisy)
            ends.append(_copies(_statistics(student)))
            terms = {"labels": mse(output, y), "target": mse(output, teacher(x).detach())}
            (added(terms[term] for term in way.terms) / world_size).backward()
        mean = [added(some) / world_size for some in zip(*ends, strict=True)]
        if way.statistics == "mean, of the student too":
            ends = [mean] * world_size
        _take_over(_statistics(student), ends[0])
        if way.early:
            follow(weight)
        optimizer.step()
        if not way.early:
            follow(weight)
        whose, _, partly = way.statistics.partition(", ")
        for rank, (teacher, own) in enumerate(zip(teachers, ends, strict=True)):
            left = _statistics(teacher)
            alone = left if rank else own
            taken = {"rank 0": ends[0], "own": own, "mean": mean, "rank 0 alone": alone}.get(whose, left)
            _take_over(left, taken, share if partly == "a share" else 1.0)
    if way.statistics == "nothing, until the end":
        for teacher in teachers:
            _take_over(_statistics(teacher), _statistics(student))
    weights = numbers(student.parameters())
    return [
        {"student": weights, "teacher": numbers(one.parameters()), "statistics": numbers(_statistics(one))}
        for one in teachers
    ]


def _copies(tensors: Iterable[Tensor]) -> list[Tensor]:
    return [tensor.clone() for tensor in tensors]


def _take_over(old: Iterable[Tensor], new: Iterable[Tensor], share: float = 1.0) -> None:
    for mine, its in zip(old, new, strict=True):
        mine.copy_((1 - share) * mine + share * its)
