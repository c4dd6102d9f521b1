"""Mystery 2: it hangs after the last batch."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from random import Random
from typing import TYPE_CHECKING, TypedDict

from course_lib.lessons.debugging.tasks.mystery import Mystery, Seen, Solution
from course_lib.tasks import toys
from course_lib.tasks.compared import compared
from course_lib.tasks.task import Trial
from course_lib.tasks.weights import ROUNDING, close, network, numbers

if TYPE_CHECKING:
    from torch.nn.parallel import DistributedDataParallel
    from torch.optim import Optimizer

_SHOWN = (
    (0.4, 0.1, 0.7, 0.9, 0.3, 0.8, 0.2, 0.5),
    (0.6, 0.2, 0.9, -1.0, 0.1, 0.7, 0.3, 0.4),
    (0.5, -1.0, 0.8, 0.6, 0.2, -1.0, 0.9, 0.1),
)
_SHOWN_STEPS = 3
#: Seconds that one rank takes after its last step.
_LATE = 0.4


class Case(TypedDict):
    """Photographs by rank (those below zero are damaged); the rank that is late after its steps; a store's key."""

    seed: int
    photographs: list[list[float]]
    late: int
    key: str


class Run(TypedDict):
    """The weights, and whether it ended no earlier than all ranks were through with their steps."""

    weights: list[float]
    waited: bool


#: For `right` and for each misconception, the weights.
Oracle = dict[str, list[float]]
ThisTrial = Trial[Case, Seen[Run], Oracle]


def _other_steps(trial: ThisTrial, rank: int) -> str | None:
    weights, names = trial.seen[rank]["run"]["weights"], ("leftovers_trained", "number_written_in")
    return next((name for name in names if close(weights, trial.oracle[name])), None)


class Epoch(Mystery[Case, Run, Oracle]):
    """It hangs after the last batch."""

    name = "debugging.epoch"
    still_hangs = "still_uneven"
    tolerance = ROUNDING
    solution = Solution(
        culprit=2,
        cause="fewer_batches",
        seen_doing={
            0: "it is waiting in backward(), in step 4, like rank 1",
            1: "it has a damaged photograph, but four batches all the same, and is waiting in backward() like rank 0",
        },
        refuted={
            "late": "the rank that the others wait for does not move: it waits, too",
            "one_rank": "all ranks call the same collectives, if they come to them",
            "skipped": "nothing in this script catches anything",
            "died": "all three ranks have a stack",
        },
        tempting={"late": "only_late"},
    )

    def cases(self, world_size: int, chance: Random) -> Iterator[Case]:
        yield _with_late_rank([list(part) for part in _SHOWN], chance)
        drawn = [[chance.randint(1, 9) / 10 for _ in range(8)] for _ in range(world_size)]
        # Of one rank's, three are left: a batch and a half. This time it is not rank 2's.
        for part, damaged in zip(drawn, (5, 1), strict=False):
            for position in chance.sample(range(8), damaged):
                part[position] = -1.0
        fewest, *others = drawn
        chance.shuffle(others)
        others.insert(chance.randrange(2), fewest)
        yield _with_late_rank(others, chance)

    def describe(self, case: Case) -> str:
        return f"{toys.short([len(part) for part in _batches(case)])} batches"

    def run_repaired(
        self, answer: Callable[[DistributedDataParallel, Optimizer, list[float]], object], case: Case
    ) -> Run:
        """Return the weights after the epoch, and whether it ended before all ranks had made their steps."""
        import torch
        from torch.distributed import distributed_c10d as c10d
        from torch.nn.parallel import DistributedDataParallel

        rank, store = int(os.environ["RANK"]), c10d._get_default_store()
        fewest = min(len(part) for part in _batches(case))
        steps: list[int] = []

        def stepped(*_: object) -> None:
            steps.append(len(steps) + 1)
            if steps[-1] == fewest:
                time.sleep(_LATE if rank == case["late"] else 0.0)
                store.set(f"{case['key']}/{rank}", "through")

        ddp = DistributedDataParallel(network(case["seed"], 1, 1))
        optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
        optimizer.register_step_post_hook(stepped)
        answer(ddp, optimizer, list(case["photographs"][rank]))
        waited = store.check([f"{case['key']}/{case['late']}"]) or len(steps) < fewest
        return {"weights": numbers(ddp.parameters()), "waited": waited}

    def oracle(self, case: Case, world_size: int) -> dict[str, Callable[[], list[float]]]:
        """Train one process on as many batches of a step as there should be, and as misconceptions make.

        A rank whose batches are all used adds zeros: with Join, and with an empty batch.
        """
        everyones = _batches(case)
        fewest, most = (pick(len(part) for part in everyones) for pick in (min, max))
        steps = {"right": fewest, "leftovers_trained": most, "number_written_in": _SHOWN_STEPS}
        return {name: partial(_train_alone, case, everyones, count) for name, count in steps.items()}

    right = compared(
        "All ranks do as many steps as the one with the fewest batches, with the mean over all ranks.",
        "with {case}, the weights of rank {rank} are off by up to {gap:.2g}",
        of=("run", "weights"),
        right=lambda trial, _: trial.oracle["right"],
        known=_other_steps,
    )

    #: One rank takes its time after its last step.
    waits = compared(
        "It returns on no rank before all ranks are through with their steps.",
        "with {case}, rank {rank} returned while rank {late} was still in its last step",
        of=("run", "waited"),
        right=lambda *_: True,
    )


def _with_late_rank(photographs: list[list[float]], chance: Random) -> Case:
    late, key = chance.randrange(len(photographs)), f"through/{chance.randint(1, 10**9)}"
    seed = chance.randint(1, 10**6)
    return {"seed": seed, "photographs": photographs, "late": late, "key": key}


def _batches(case: Case) -> list[list[list[float]]]:
    usable = [[value for value in part if value >= 0] for part in case["photographs"]]
    return [[part[begin : begin + 2] for begin in range(0, len(part), 2)] for part in usable]


def _train_alone(case: Case, everyones: list[list[list[float]]], steps: int) -> list[float]:
    import torch

    net = network(case["seed"], 1, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(steps):
        optimizer.zero_grad()
        for part in everyones:
            if step < len(part):
                batch = torch.tensor(part[step]).view(-1, 1)
                (net(batch).square().mean() / len(everyones)).backward()
        optimizer.step()
    return numbers(net.parameters())
