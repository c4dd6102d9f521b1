"""Mystery 1: it always hangs on the last file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from random import Random
from typing import TYPE_CHECKING, TypedDict

from course_lib.lessons.debugging.tasks.mystery import Mystery, Seen, Solution
from course_lib.tasks.compared import compared
from course_lib.tasks.task import Trial
from course_lib.tasks.weights import ROUNDING, close, drawn, network, numbers

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn.parallel import DistributedDataParallel
    from torch.optim import Optimizer

_FILES = "ABCD"


class Case(TypedDict):
    """The rank that cannot read a file, and the file's letter."""

    seed: int
    rank: int
    file: str


#: For `right` and for each misconception, the weights.
Oracle = dict[str, list[float]]
ThisTrial = Trial[Case, Seen[list[float]], Oracle]


def _content(case: Case, rank: int, file: str) -> Tensor:
    return drawn(case["seed"] + 10 * rank + _FILES.index(file), 3, 2)


def _half_left_out(trial: ThisTrial, rank: int) -> str | None:
    ways = ("zeros", "filled", "mean_of_others")
    return "half_left_out" if any(close(trial.seen[rank]["run"], trial.oracle[way]) for way in ways) else None


class TrainFiles(Mystery[Case, list[float], Oracle]):
    """It always hangs on the last file."""

    name = "debugging.train_files"
    still_hangs = "still_shifted"
    tolerance = ROUNDING
    solution = Solution(
        culprit=1,
        cause="skipped",
        seen_doing={
            0: "it is in its fourth step, as it should be, and waits",
            2: "it is in its fourth step, as it should be, and waits",
        },
        refuted={
            "fewer_batches": "every rank has the same four files",
            "late": "the rank that is missing has left the function",
            "died": "all three processes are alive: rank 1 has printed that it is done with file D",
            "one_rank": "all ranks run the same lines, and no line asks for the rank",
        },
        tempting={"fewer_batches": "data_blamed"},
    )

    def cases(self, world_size: int, chance: Random) -> Iterator[Case]:
        for rank, file in ((1, "B"), (chance.choice((0, 2)), chance.choice("AC"))):
            yield {"seed": chance.randint(1, 10**6), "rank": rank, "file": file}

    def describe(self, case: Case) -> str:
        return f"file {case['file']} unreadable on rank {case['rank']}"

    def run_repaired(
        self,
        answer: Callable[[DistributedDataParallel, Optimizer, str, Callable[[str], Tensor]], object],
        case: Case,
    ) -> list[float]:
        """Return the weights after all files."""
        import torch
        from torch.nn.parallel import DistributedDataParallel

        rank = int(os.environ["RANK"])

        def read(file: str) -> Tensor:
            if (rank, file) == (case["rank"], case["file"]):
                raise OSError("the disk is asleep")
            return _content(case, rank, file)

        ddp = DistributedDataParallel(network(case["seed"], 2, 1))
        answer(ddp, torch.optim.SGD(ddp.parameters(), lr=0.1), _FILES, read)
        return numbers(ddp.parameters())

    def oracle(self, case: Case, world_size: int) -> dict[str, Callable[[], list[float]]]:
        ways = {"right": 0.0, "zeros": 1 / world_size, "mean_of_others": 1 / (world_size - 1)}
        filled = partial(_train_alone, case, world_size, 1 / world_size, filled=True)
        return {
            **{way: partial(_train_alone, case, world_size, share) for way, share in ways.items()},
            "filled": filled,
        }

    right = compared(
        "A file that one rank cannot read is left out by all ranks; all others are trained on.",
        "with {case}, the weights of rank {rank} are off by up to {gap:.2g}",
        of="run",
        right=lambda trial, _: trial.oracle["right"],
        known=_half_left_out,
    )


def _train_alone(case: Case, world_size: int, share: float, filled: bool = False) -> list[float]:
    """Return the weights of one process.

    The broken file's step gives `share` to each rank that can read it; `filled`: others train on zeros.
    """
    import torch

    net = network(case["seed"], 2, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for file in _FILES:
        optimizer.zero_grad()
        for rank in range(world_size):
            weight = 1 / world_size if file != case["file"] else share
            if (rank, file) == (case["rank"], case["file"]):
                if filled:
                    (net(torch.zeros(3, 2)).square().mean() * weight).backward()
            elif weight:
                (net(_content(case, rank, file)).square().mean() * weight).backward()
        optimizer.step()
    return numbers(net.parameters())
