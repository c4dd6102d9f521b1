"""Mystery 1: it hangs after the last batch."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from random import Random
from typing import Any

from course_lib.tasks import toys
from course_lib.tasks.debugging import taught
from course_lib.tasks.debugging.mystery import OTHER_CAUSE, Mystery, Solution
from course_lib.tasks.task import Misconception, Miss, Trial, check
from course_lib.tasks.weights import ROUNDING, close, farthest, network, numbers

_SHOWN = (
    (0.4, 0.1, 0.7, 0.9, 0.3, 0.8, 0.2, 0.5),
    (0.6, 0.2, 0.9, -1.0, 0.1, 0.7, 0.3, 0.4),
    (0.5, -1.0, 0.8, 0.6, 0.2, -1.0, 0.9, 0.1),
)


class Epoch(Mystery):
    """It hangs after the last batch."""

    name = "debugging.epoch"
    title = "Mystery 1: after the last batch"
    signature = "epoch(ddp, optimizer, photographs)"
    place = 1
    still_hangs = "still_uneven"
    tolerance = ROUNDING
    solution = Solution(
        culprit=2,
        cause="fewer_batches",
        seen_doing={
            0: "it stands in backward(), in step 4, like rank 1",
            1: "it has a damaged photograph, but four batches all the same, and stands in backward() like rank 0",
        },
        refuted={
            "late": "the rank that the others wait for does not move: it waits, too",
            "one_rank": "all ranks call the same collectives, if they come to them",
            "skipped": "nothing in this script catches anything",
            "died": "all three ranks have a stack",
        },
        tempting={"late": "only_late"},
    )
    hints = (
        "Two ranks stand in backward(), one in the barrier below the loop. Which of them has made fewer steps?",
        "How many batches of two does each rank make of its eight photographs, once the damaged ones are out?",
        (
            "Before the loop, let the ranks agree on the number of steps: all_reduce with ReduceOp.MIN of the "
            "number of batches. Leave out what is left over."
        ),
    )
    misconceptions = (
        Misconception(
            "witness",
            "A rank that waits in backward() is a witness. Look for the rank that is not there.",
            taught.PATIENT,
        ),
        Misconception(
            "only_late",
            "A slow rank comes in the end. Two equal stacks, and all ranks waiting: nobody is on the way.",
            taught.PATIENT,
        ),
        Misconception(
            "leftovers_trained",
            "The ranks with more batches go on, and those without add zeros to the mean: that is what Join does. Asked "
            "for was to leave out what is left over.",
            "lesson 05, A rank runs out of batches",
        ),
        Misconception(
            "still_uneven",
            "The ranks still do different numbers of steps: whoever does one more waits for ever.",
            taught.RECORDER,
        ),
        OTHER_CAUSE,
    )

    def cases(self, world_size: int, chance: Random) -> Iterator[dict[str, Any]]:
        """The lesson's photographs, then others."""
        yield {"seed": chance.randint(1, 10**6), "photographs": [list(part) for part in _SHOWN]}
        drawn = [[chance.randint(1, 9) / 10 for _ in range(8)] for _ in range(world_size)]
        for position in chance.sample(range(8), 3):
            drawn[chance.randrange(2)][position] = -1.0
        for position in chance.sample(range(8), 4):
            drawn[0][position] = -1.0
        chance.shuffle(drawn)
        yield {"seed": chance.randint(1, 10**6), "photographs": drawn}

    def describe(self, case: Mapping[str, Any]) -> str:
        """How many batches each rank has."""
        return f"{toys.short([len(part) for part in _batches(case)])} batches"

    def run_repaired(self, answer: Callable[..., Any], case: Mapping[str, Any]) -> Any:
        """The weights after the epoch."""
        import torch
        from torch.nn.parallel import DistributedDataParallel

        ddp = DistributedDataParallel(network(case["seed"], 1, 1))
        optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
        answer(ddp, optimizer, list(case["photographs"][int(os.environ["RANK"])]))
        return numbers(ddp.parameters())

    def oracle(self, case: Mapping[str, Any], world_size: int) -> Any:
        """One process that sees all batches of a step: without those left over, and with Join's zeros for them."""
        everyones = _batches(case)
        fewest, most = (pick(len(part) for part in everyones) for pick in (min, max))
        return {
            "right": partial(_alone, case, everyones, fewest),
            "joined": partial(_alone, case, everyones, most),
        }

    @check("All ranks do as many steps as the one with the fewest batches, with the mean over all ranks.")
    def right(self, trial: Trial) -> Miss | None:
        """The weights tell."""
        for rank, seen in trial.seen.items():
            if not close(seen["run"], trial.oracle["right"]):
                gap = farthest(seen["run"], trial.oracle["right"])
                joined = close(seen["run"], trial.oracle["joined"])
                return Miss(
                    f"with {self.describe(trial.case)}, the weights of rank {rank} are off by up to {gap:.2g}",
                    "leftovers_trained" if joined else None,
                )
        return None


def _batches(case: Mapping[str, Any]) -> list[list[list[float]]]:
    usable = [[value for value in part if value >= 0] for part in case["photographs"]]
    return [[part[begin : begin + 2] for begin in range(0, len(part), 2)] for part in usable]


def _alone(case: Mapping[str, Any], everyones: list[list[list[float]]], steps: int) -> list[float]:
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
