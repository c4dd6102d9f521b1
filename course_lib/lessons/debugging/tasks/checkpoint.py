"""Mystery 3: the network is down, say some."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from random import Random
from typing import ParamSpec, TypedDict, TypeVar
from unittest.mock import patch

from course_lib.lessons.debugging.tasks.mystery import Mystery, Seen, Solution
from course_lib.tasks import toys
from course_lib.tasks.compared import compared
from course_lib.tasks.task import Miss, Recognised, Trial, check
from realranks.outcome.outcome import Kind, Outcome

_P = ParamSpec("_P")
_R = TypeVar("_R")

#: How long the writing takes: next to nothing, and longer than somebody who guesses would sleep.
_SECONDS = (0.1, 1.8)
#: A group that is less patient than this will give up one day: checkpoints of real models take minutes.
_PATIENT = 30.0
#: A group that is more patient than this would as well wait for ever.
_FOR_EVER = 24 * 3600.0
#: A wait must not be a sleep: on a rank that reads, each sleep is cut to this.
_NAP = 0.2


class Case(TypedDict):
    """The writer, its seconds, and the key of the store under which it shows."""

    writer: int
    seconds: float
    key: str


class Run(TypedDict):
    """The return value, how often this rank has written, and the timeouts that it has asked for."""

    returned: str
    is_text: bool
    written: int
    patience: float | None
    longest: float | None


ThisTrial = Trial[Case, Seen[Run], None]


class Checkpoint(Mystery[Case, Run, None]):
    """The network is down, say some."""

    name = "debugging.checkpoint"
    solution = Solution(
        culprit=1,
        cause="late",
        seen_doing={
            0: "it came to the barrier at once, waited, and said truly that its wait timed out",
            2: "it came to the barrier at once, waited, and said truly that its wait timed out",
        },
        refuted={
            "network": "a connection that the other end has closed is no lost message: the others had given up",
            "died": "all three ranks have printed something after the barrier",
            "one_rank": "all three ranks call the barrier",
            "fewer_batches": "there are no batches here",
            "skipped": "the exception comes after the barrier was called, not before",
        },
        tempting={"network": "network_blamed"},
    )

    def cases(self, world_size: int, chance: Random) -> Iterator[Case]:
        for writer, seconds in zip(chance.sample((0, 2), 2), _SECONDS, strict=True):
            yield {"writer": writer, "seconds": seconds, "key": f"written/{chance.randint(1, 10**9)}"}

    def describe(self, case: Case) -> str:
        return f"rank {case['writer']} writing for {case['seconds']:g} s"

    def run_repaired(
        self, answer: Callable[[int, Callable[[], None], Callable[[], str]], object], case: Case
    ) -> Run:
        """Return what the answer returned, and how often this rank has written."""
        from torch.distributed import distributed_c10d as c10d

        store = c10d._get_default_store()
        written: list[bool] = []
        sleep, patience = time.sleep, Patience()

        def write() -> None:
            sleep(case["seconds"])
            written.append(True)
            store.set(case["key"], "the weights")

        def read() -> str:
            return "the weights" if store.check([case["key"]]) else "nothing"

        with patience.noted(), patch("time.sleep", lambda seconds: sleep(min(seconds, _NAP))):
            returned = answer(case["writer"], write, read)
        return {
            "returned": returned if isinstance(returned, str) else toys.described(returned),
            "is_text": isinstance(returned, str),
            "written": len(written),
            "patience": patience.shortest,
            "longest": patience.longest,
        }

    writes_once = compared(
        "Only the writer writes, and once.",
        "with rank {writer} as the writer, rank {rank} wrote {seen} times",
        of=("run", "written"),
        right=lambda trial, rank: int(rank == trial.case["writer"]),
    )

    @check("Every rank returns what was written.")
    def reads(self, trial: ThisTrial) -> Miss | None:
        for rank, seen in trial.seen.items():
            returned = seen["run"]["returned"]
            if not seen["run"]["is_text"]:
                return Miss(f"rank {rank} returned {returned}")
            if returned != "the weights":
                return Miss(
                    f"with {self.describe(trial.case)}, rank {rank} read before it was done", "read_too_early"
                )
        return None

    @check("No group gives up during an honest pause, however long it is.")
    def is_patient(self, trial: ThisTrial) -> Miss | None:
        """By the timeouts that were asked for."""
        for rank, seen in trial.seen.items():
            if seen["run"]["patience"] is not None and seen["run"]["patience"] < _PATIENT:
                return Miss(
                    f"rank {rank} asked for a timeout of {seen['run']['patience']:g} s: enough for "
                    f"{self.describe(trial.case)}, not for a checkpoint that takes {_PATIENT:g} s",
                    "still_too_short",
                )
        return None

    @check("No group waits for ever.")
    def ends_some_day(self, trial: ThisTrial) -> Miss | None:
        """By the timeouts that were asked for."""
        for rank, seen in trial.seen.items():
            longest = seen["run"]["longest"]
            if longest is not None and longest > _FOR_EVER:
                return Miss(
                    f"rank {rank} asked for a timeout of {longest / 86400:,.0f} days: if the writer has died, nobody "
                    "hears of it"
                )
        return None

    def recognise_ending(self, outcome: Outcome, trials: Sequence[ThisTrial]) -> Recognised:
        """Recognise a timeout that is still too short."""
        late = any(
            "imed out" in error.message or "onnect" in error.message for error in outcome.errors.values()
        )
        return "still_too_short" if outcome.kind is Kind.RAISES and late else None


class Patience:
    """Notes the shortest and the longest timeout that are asked for, in seconds."""

    def __init__(self) -> None:
        self.asked_for: list[float] = []

    @property
    def shortest(self) -> float | None:
        """The shortest timeout that was asked for, in seconds; None without any."""
        return min(self.asked_for, default=None)

    @property
    def longest(self) -> float | None:
        """The longest timeout that was asked for, in seconds; None without any."""
        return max(self.asked_for, default=None)

    @contextlib.contextmanager
    def noted(self) -> Iterator[None]:
        """Note the timeout of every group and barrier that is made within this block."""
        import torch.distributed as dist
        from torch.distributed import distributed_c10d as c10d

        def noting(function: Callable[_P, _R]) -> Callable[_P, _R]:
            def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
                for value in (*args, *kwargs.values()):
                    if isinstance(value, timedelta):
                        self.asked_for.append(value.total_seconds())
                return function(*args, **kwargs)

            return call

        with contextlib.ExitStack() as stack:
            for name in ("new_group", "monitored_barrier"):
                for module in (dist, c10d):
                    stack.enter_context(patch.object(module, name, noting(getattr(module, name))))
            yield
