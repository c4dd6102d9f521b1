"""Mystery 7: the others lose their connection to a rank that has said nothing."""

from __future__ import annotations

import os
import signal
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, TypedDict

from course_lib.lessons.debugging.tasks.mystery import Mystery, Seen, Solution
from course_lib.tasks import toys
from course_lib.tasks.compared import compared
from course_lib.tasks.task import Recognised, Trial
from course_lib.tasks.weights import ROUNDING
from realranks.outcome.outcome import Kind, Outcome

if TYPE_CHECKING:
    from torch import Tensor

_ROOM = 2


@dataclass
class Memory:
    """A machine's memory: a rank that holds more files at a time than there is room for is killed, as by Linux.

    Attributes:
        room: how many.
        files: the numbers in each file.
    """

    room: int
    files: Mapping[str, Sequence[float]]
    held: int = 0

    def read(self, file: str) -> Tensor:
        """Return the numbers of a file, which stay in memory as long as this tensor is referenced."""
        import torch

        self.held += 1
        if self.held > self.room:
            os.kill(os.getpid(), signal.SIGKILL)
        numbers = torch.tensor(self.files[file])
        weakref.finalize(numbers, self._release)
        return numbers

    def _release(self) -> None:
        self.held -= 1


class Case(TypedDict):
    """The numbers of each file, by rank."""

    files: list[dict[str, list[float]]]


#: What every rank returns: for `right`, and for a mean of the ranks' means or of the files'.
Oracle = dict[str, float]
ThisTrial = Trial[Case, Seen[float], Oracle]


def _mean_of_means(trial: ThisTrial, rank: int) -> str | None:
    near = any(abs(trial.seen[rank]["run"] - trial.oracle[way]) < 1e-4 for way in ("of_ranks", "of_files"))
    return "mean_of_means" if near else None


class MeanOfAll(Mystery[Case, float, Oracle]):
    """Two ranks lose their connection."""

    name = "debugging.mean_of_all"
    tolerance = ROUNDING
    solution = Solution(
        culprit=1,
        cause="died",
        seen_doing={
            0: "it has read its files, waits in all_reduce, and gets an error there, as rank 2 does",
            2: "it has read its files, waits in all_reduce, and gets an error there, as rank 0 does",
        },
        refuted={
            "network": "a connection that the other end has closed is no lost message: ask what became of that end",
            "late": "a rank that is slow keeps its connections open",
            "one_rank": "there is one collective, and all ranks call it if they come to it",
            "fewer_batches": "there are no batches here, and the rank that is missing has more files, not fewer",
            "skipped": "nothing in this script catches anything",
        },
        tempting={"network": "network_blamed"},
    )

    def cases(self, world_size: int, chance: Random) -> Iterator[Case]:
        for counts in ([4, 1, 2], [0, 3, 1]):
            chance.shuffle(counts)
            yield {
                "files": [
                    {
                        f"{rank}{number}": [chance.randint(-9, 9) / 2 for _ in range(chance.randint(1, 5))]
                        for number in range(count)
                    }
                    for rank, count in enumerate(counts)
                ]
            }

    def describe(self, case: Case) -> str:
        return f"{toys.short([len(part) for part in case['files']])} files"

    def run_repaired(
        self, answer: Callable[[list[str], Callable[[str], Tensor]], object], case: Case
    ) -> float:
        """Return the mean that the answer returned."""
        files = case["files"][int(os.environ["RANK"])]
        return toys.number(answer([*files], Memory(_ROOM, files).read))

    def oracle(self, case: Case, world_size: int) -> Oracle:
        ranks = [[number for part in files.values() for number in part] for files in case["files"]]
        parts = [part for files in case["files"] for part in files.values()]
        everything = [number for numbers in ranks for number in numbers]
        return {
            "right": _mean(everything),
            "of_ranks": sum(_mean(numbers) for numbers in ranks if numbers) / world_size,
            "of_files": _mean([_mean(part) for part in parts]),
        }

    mean_everywhere = compared(
        "Every rank returns the mean of all numbers in all files.",
        "with {case}, rank {rank} returned {seen:g}; the mean is {right:g}",
        of="run",
        right=lambda trial, _: trial.oracle["right"],
        known=_mean_of_means,
    )

    def recognise_ending(self, outcome: Outcome, trials: Sequence[ThisTrial]) -> Recognised:
        return "still_killed" if outcome.kind is Kind.DIED else None


def _mean(numbers: Sequence[float]) -> float:
    return sum(numbers) / len(numbers)
