"""Task 2: data that is prepared once on each machine."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import TypedDict

from course_lib.lessons.debugging.tasks.checkpoint import Patience
from course_lib.lessons.process_groups.tasks.bare import play_two_machines, sum_of_ranks, without_group
from course_lib.tasks.compared import compared
from course_lib.tasks.task import Miss, Recognised, Task, Trial, check

#: Seconds: the timeout of the default group, how long preparing takes where that is long, and what is allowed for it.
_GROUP, _SLOW, _ALLOWED = 2.0, 3.0, 30.0
#: How long a rank that has raised looks whether the others come back, too.
_PATIENCE = 5.0


class Case(TypedDict):
    """A scene (`quick`, `slow`, `fails`), the machine on which it fails, and a name for files of this trial."""

    scene: str
    machine: int
    mark: str


class Seen(TypedDict):
    """Observations of a rank.

    Attributes:
        calls: how often it has called `prepare`.
        raised: the type of what the answer raised; empty where it returned.
        ready: whether the data of its machine were there when the answer returned.
        sum: the ranks added up over the default group afterwards; -1 where that did not work.
        alone: whether it had raised, and others still waited some seconds later.
        patience: the shortest timeout that it has asked for.
    """

    calls: int
    raised: str
    ready: bool
    sum: float
    alone: bool
    patience: float | None


ThisTrial = Trial[Case, Seen, None]


class PrepareOnce(Task[Case, Seen, None]):
    """Data that is prepared once on each machine."""

    name = "cluster.prepare_once"
    world_sizes = (2, 4)
    seconds = 40.0

    def cases(self, world_size: int, chance: Random) -> Iterator[Case]:
        """Yield preparations that are quick, that outlast the default timeout, and that fail on one machine."""
        for scene in ("quick", "slow", "fails"):
            yield {"scene": scene, "machine": chance.randrange(2), "mark": f"data-{chance.randrange(10**9)}"}

    def describe(self, case: Case) -> str:
        return {
            "quick": "two machines",
            "slow": "preparing that takes longer than the default group's timeout",
            "fails": f"preparing that fails on machine {case['machine']}",
        }[case["scene"]]

    def trial(self, answer: Callable[[Callable[[], None], float], object], case: Case) -> Seen:
        """Call the answer on a rank of two machines, in a group with a short timeout."""
        import torch.distributed as dist

        without_group()
        play_two_machines(int(os.environ["WORLD_SIZE"]))
        dist.init_process_group("gloo", timeout=timedelta(seconds=60))
        dist.barrier()  # all are here before the timeout is short
        dist.distributed_c10d._set_pg_timeout(timedelta(seconds=_GROUP))
        machine = int(os.environ["GROUP_RANK"])
        data = Path(f"{case['mark']}-{machine}")
        seen: Seen = {"calls": 0, "raised": "", "ready": False, "sum": -1.0, "alone": False, "patience": None}

        def prepare() -> None:
            seen["calls"] += 1
            if case["scene"] == "slow":
                time.sleep(_SLOW)
            if case["scene"] == "fails" and machine == case["machine"]:
                raise EOFError("Compressed file ended before the end-of-stream marker was reached")
            data.touch()

        patience = Patience()
        try:
            with patience.noted():
                answer(prepare, _ALLOWED)
        except NotImplementedError:
            raise
        except Exception as error:
            seen["raised"] = type(error).__name__
        seen["ready"], seen["patience"] = data.exists(), patience.shortest
        if case["scene"] == "fails":
            seen["alone"] = not _all_are_back(case["mark"])
            without_group()  # ranks that still wait get an error
        elif not seen["raised"]:
            with contextlib.suppress(RuntimeError, ValueError):
                seen["sum"] = sum_of_ranks()
        return seen

    @check("prepare is called once on each machine.", gate=True)
    def once_per_machine(self, trial: ThisTrial) -> Miss | None:
        """By whichever rank of it."""
        half = max(1, trial.world_size // 2)
        for machine in range(trial.world_size // half):
            calls = sum(
                trial.seen[rank]["calls"]
                for rank in range(machine * half, (machine + 1) * half)
                if rank in trial.seen
            )
            if calls != 1:
                known = "every_rank" if calls == half > 1 else "once_per_job" if not calls else None
                return Miss(
                    f"on {trial.world_size} ranks, it was called {calls} times on machine {machine}", known
                )
        return None

    @check("Where nothing fails, it returns on every rank, however long preparing takes.", gate=True)
    def waits(self, trial: ThisTrial) -> Miss | None:
        """The timeout of the default group is shorter."""
        if trial.case["scene"] == "fails":
            return None
        for rank, seen in trial.seen.items():
            if seen["raised"]:
                known = "groups_timeout" if trial.case["scene"] == "slow" else None
                return Miss(f"with {self.describe(trial.case)}, rank {rank} raised {seen['raised']}", known)
            if seen["patience"] is not None and seen["patience"] < _ALLOWED:
                return Miss(
                    f"rank {rank} asked for a timeout of {seen['patience']:g} s; with timeout={_ALLOWED:g}, preparing "
                    "may take longer"
                )
        return None

    @check("It returns when the data of the rank's machine are there, not earlier.", gate=True)
    def comes_back_late_enough(self, trial: ThisTrial) -> Miss | None:
        if trial.case["scene"] == "fails":
            return None
        for rank, seen in trial.seen.items():
            if not seen["ready"]:
                return Miss(
                    f"with {self.describe(trial.case)}, rank {rank} went on without its data", "nobody_waits"
                )
        return None

    #: A timeout breaks a group for good, and so does a rank that has left out a collective.
    still_works = compared(
        "The default group works afterwards.",
        "with {case}, a sum over the ranks did not work on rank {rank}",
        of="sum",
        right=lambda trial, _: float(sum(range(trial.world_size))),
        when=lambda case: case["scene"] != "fails",
    )

    @check("Where preparing fails on one machine, it raises on every rank, soon.")
    def all_learn_of_it(self, trial: ThisTrial) -> Miss | None:
        """A rank that trains on would wait for those who have ended."""
        if trial.case["scene"] != "fails":
            return None
        case = self.describe(trial.case)
        for rank, seen in trial.seen.items():
            if not seen["raised"]:
                return Miss(f"with {case}, rank {rank} raised nothing", "failure_kept")
            if seen["alone"]:
                late = (
                    f"with {case}, rank {rank} raised, and others still waited {_PATIENCE:.0f} seconds later"
                )
                return Miss(late, "failure_hangs")
        return None

    def recognise(self, trials: Sequence[ThisTrial]) -> Recognised:
        # Each miss names its own misconception.
        return None


def _all_are_back(mark: str) -> bool:
    """Return whether the answer has ended on all ranks, at most some seconds after it has ended here."""
    Path(f"{mark}-back-{os.environ['RANK']}").touch()
    until = time.monotonic() + _PATIENCE
    while time.monotonic() < until:
        if len([*Path().glob(f"{mark}-back-*")]) == int(os.environ["WORLD_SIZE"]):
            return True
        time.sleep(0.02)
    return False
