"""Task 1: start and end a process group, whatever has happened before."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import NotRequired, TypedDict

from course_lib.lessons.process_groups.tasks.bare import sum_of_ranks, timeout_seconds, without_group
from course_lib.tasks.compared import compared
from course_lib.tasks.task import Miss, Recognised, Task, Trial, WrongKind, check, gate
from realranks.outcome.fold import rank_list
from realranks.outcome.outcome import Outcome

#: A rank that cleans up alone is done in milliseconds; its peers wait for it no longer than this.
_PATIENCE = 4.0
#: Seconds that a group waits where nobody has asked for another timeout.
_DEFAULT = 1800.0
_NO_GROUP = "no process group after setup()"
#: A learner's line that calls a collective.
_COLLECTIVE = re.compile(r"\b(?:barrier|monitored_barrier|broadcast|(?:all_)?reduce|(?:all_)?gather)\(")


class Case(TypedDict):
    """A scene (see `describe`); which rank fails in it, and the name of the file by which it shows."""

    scene: str
    timeout: float
    failing: int
    mark: str


class Seen(TypedDict):
    """Observations of the scene.

    Attributes:
        alone: whether the failing rank could clean up alone. timeout: the group's, in seconds.
        sum: the ranks, added up over the last group. left: whether there was a group at the end.
        same: whether a second start, with another timeout, left the group as it was.
        begun_again: whether there was one after a new start.
    """

    alone: bool
    timeout: float
    sum: float
    left: bool
    same: NotRequired[bool]
    begun_again: NotRequired[bool]


ThisTrial = Trial[Case, Seen, None]


class Setup(Task[Case, Seen, None]):
    """Start and end a process group, whatever has happened before."""

    name = "process_groups.setup"
    world_sizes = (1, 2, 3)

    def cases(self, world_size: int, chance: Random) -> Iterator[Case]:
        """Yield a shutdown without a start, everything twice, a new start, and a rank that fails."""
        for scene in ("unbegun", "twice", "anew", "failure"):
            yield {
                "scene": scene,
                "timeout": chance.choice((9.0, 9.5, 10.0)),
                "failing": chance.randrange(world_size),
                "mark": f"mark-{chance.randrange(10**9)}",
            }

    def describe(self, case: Case) -> str:
        return {
            "twice": "everything called twice",
            "anew": "a second start after the end",
            "unbegun": "an end without a start",
            "failure": f"a failure on rank {case['failing']}",
        }[case["scene"]]

    def trial(self, answer: Callable[[float], object], case: Case) -> Seen:
        """Play one scene and note after each step whether there is a group and whether it works."""
        import torch.distributed as dist

        cleanup = sys.modules["__main__"].__dict__.get("cleanup")
        without_group()
        timeout = case["timeout"]
        if case["scene"] == "unbegun" and callable(cleanup):
            try:
                cleanup()
            except NotImplementedError:
                answer(timeout)  # where setup is a stub as well, nothing has been attempted
                raise
        answer(timeout)
        if not dist.is_initialized() or not callable(cleanup):
            raise WrongKind(_NO_GROUP if callable(cleanup) else "no function cleanup in the cell")
        seen: Seen = {"alone": True, "timeout": timeout_seconds(), "sum": 0.0, "left": False}
        if case["scene"] == "twice":
            first = dist.group.WORLD
            answer(timeout + 1)  # a group that is there keeps its own
            seen["same"] = dist.group.WORLD is first and timeout_seconds() == seen["timeout"]
            del first
        seen["sum"] = sum_of_ranks()
        if case["scene"] == "failure":
            seen["alone"] = _fail(case, cleanup)
        cleanup()
        if case["scene"] == "twice":
            cleanup()
        seen["left"] = dist.is_initialized()
        if case["scene"] in ("anew", "failure"):
            answer(timeout)
            seen["begun_again"] = dist.is_initialized()
            if seen["begun_again"]:
                seen["sum"] = sum_of_ranks()
                cleanup()
        return seen

    makes_group = gate(
        "setup(timeout) makes a process group, and there is a cleanup().",
        "on rank {rank} there is {given}, with {case}",
        # The first scene of every gang had one.
        lambda trial: (
            "own_flag"
            if _NO_GROUP in trial.wrong_kinds.values() and trial.case["scene"] != "unbegun"
            else None
        ),
    )

    holds_everyone = compared(
        "All ranks are in it: a sum over the group is the sum over all ranks.",
        "on {gang}, the sum of ranks was {seen:g} on rank {rank}",
        of="sum",
        right=lambda trial, _: sum(range(trial.world_size)),
    )

    @check("The group's timeout is the one asked for.")
    def has_timeout(self, trial: ThisTrial) -> Miss | None:
        wanted = trial.case["timeout"]
        for rank, seen in trial.seen.items():
            if abs(seen["timeout"] - wanted) > 1e-3:
                return Miss(
                    f"setup({wanted:g}) on rank {rank} made a group with a timeout of {seen['timeout']:g} s",
                    "timeout_ignored" if seen["timeout"] == _DEFAULT else None,
                )
        return None

    @check("A second setup() leaves the group as it is.")
    def keeps_group(self, trial: ThisTrial) -> Miss | None:
        made = [rank for rank, seen in trial.seen.items() if not seen.get("same", True)]
        if made:
            again = f"setup({trial.case['timeout']:g}) and setup({trial.case['timeout'] + 1:g})"
            return Miss(f"after {again}, {rank_list(made)} had another group, or timeout", "made_anew")
        return None

    @check("After cleanup() there is no process group.")
    def leaves_nothing(self, trial: ThisTrial) -> Miss | None:
        left = [rank for rank, seen in trial.seen.items() if seen["left"]]
        if left:
            return Miss(
                f"with {self.describe(trial.case)}, {rank_list(left)} still had one", "never_destroyed"
            )
        return None

    @check("After cleanup(), setup() makes a new one.")
    def begins_again(self, trial: ThisTrial) -> Miss | None:
        """As often as it is called."""
        none = [rank for rank, seen in trial.seen.items() if not seen.get("begun_again", True)]
        if none:
            return Miss(f"after setup(), cleanup() and setup(), {rank_list(none)} had no group", "own_flag")
        return None

    @check("cleanup() waits for nobody: a rank that has failed can call it alone.")
    def waits_for_nobody(self, trial: ThisTrial) -> Miss | None:
        """Seen by the ranks that had not failed."""
        if all(seen["alone"] for seen in trial.seen.values()):
            return None
        return Miss(
            f"cleanup() on rank {trial.case['failing']} did not return before the others called it, too",
            "waits_at_the_end",
        )

    def recognise_ending(self, outcome: Outcome, trials: Sequence[ThisTrial]) -> Recognised:
        messages = " ".join(error.message for error in outcome.errors.values())
        if "default process group twice" in messages:
            return "initialised_twice"
        if "Process group cannot be None" in messages:
            return "destroyed_twice"
        if "has not been initialized" in messages:  # raised by whatever was called without a group
            collective = any(_COLLECTIVE.search(error.traceback) for error in outcome.errors.values())
            return "waits_at_the_end" if collective else "destroyed_twice"
        calls = {waiting.call for waiting in outcome.waiting.values()}
        played = {trial.case["scene"] for trial in trials if trial.world_size == outcome.world_size}
        at_failure = {"twice", "anew", "unbegun"} <= played
        if at_failure and (calls & {"barrier", "all_reduce"} or "Timed out" in messages):
            return "waits_at_the_end"
        return None


def _fail(case: Case, cleanup: Callable[[], object]) -> bool:
    """Let one rank fail and clean up while the others wait; return whether it was done before they timed out."""
    mark = case["mark"]
    if int(os.environ["RANK"]) == case["failing"]:
        try:
            raise ArithmeticError("the loss is not a number")
        except ArithmeticError:
            cleanup()
        with open(mark, "w"):
            return True
    begun = time.monotonic()
    while not os.path.exists(mark):
        if time.monotonic() - begun > _PATIENCE:
            return False
        time.sleep(0.002)
    return True
