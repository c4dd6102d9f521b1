"""Mystery 3: the network is down, say some."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from typing import Any

from course_lib.ranks.outcome import Kind, Outcome
from course_lib.tasks import toys
from course_lib.tasks.debugging import taught
from course_lib.tasks.debugging.mystery import Mystery, Solution
from course_lib.tasks.task import Misconception, Miss, Trial, check

#: How long the writing takes: longer than a patience that was raised by a little.
_SECONDS = 0.8


class Checkpoint(Mystery):
    """The network is down, say some."""

    name = "debugging.checkpoint"
    title = "Mystery 3: the network is down"
    signature = "checkpoint(writer, write, read)"
    place = 3
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
    hints = (
        "Two different errors. Which came first, and what was the rank that got the other one doing at that time?",
        "Writing takes longer than the group is willing to wait. It is honest work, and there is nothing to free.",
        "Give the group a timeout above the longest honest pause: minutes, not parts of a second.",
    )
    misconceptions = (
        Misconception(
            "witness",
            "A rank whose wait timed out is a witness: ask for whom it waited.",
            taught.TIMEOUTS,
        ),
        Misconception(
            "network_blamed",
            "A closed connection is no broken network. The ranks that had waited long enough closed it.",
            taught.FATES,
        ),
        Misconception(
            "read_too_early",
            "Nobody waits for the writer any more, and the others read what is not there yet.",
            taught.TIMEOUTS,
        ),
        Misconception(
            "still_too_short",
            "The group still gives up before the writer is done: a timeout belongs above the longest honest pause.",
            taught.TIMEOUTS,
        ),
    )

    def cases(self, world_size: int, chance: Random) -> Iterator[dict[str, Any]]:
        """Another writer than the lesson's."""
        yield {"writer": chance.choice((0, 2)), "key": f"written/{chance.randint(1, 10**9)}"}

    def describe(self, case: Mapping[str, Any]) -> str:
        """Who writes."""
        return f"rank {case['writer']} writing for {_SECONDS:g} s"

    def run_repaired(self, answer: Callable[..., Any], case: Mapping[str, Any]) -> Any:
        """What came back, and how often this rank has written."""
        from torch.distributed import distributed_c10d as c10d

        store = c10d._get_default_store()
        written: list[bool] = []

        def write() -> None:
            time.sleep(_SECONDS)
            written.append(True)
            store.set(case["key"], "the weights")

        def read() -> str:
            return "the weights" if store.check([case["key"]]) else "nothing"

        returned = answer(case["writer"], write, read)
        return {
            "returned": returned if isinstance(returned, str) else toys.odd(returned),
            "written": len(written),
        }

    @check("Only the writer writes, and once.")
    def writes_once(self, trial: Trial) -> Miss | None:
        """Counted."""
        for rank, seen in trial.seen.items():
            if seen["run"]["written"] != (rank == trial.case["writer"]):
                return Miss(
                    f"with rank {trial.case['writer']} as the writer, rank {rank} wrote {seen['run']['written']} times"
                )
        return None

    @check("Every rank returns what was written.")
    def reads(self, trial: Trial) -> Miss | None:
        """Not what was there before."""
        for rank, seen in trial.seen.items():
            returned = seen["run"]["returned"]
            if toys.is_odd(returned):
                return Miss(f"rank {rank} returned {returned['odd']}")
            if returned != "the weights":
                return Miss(
                    f"with {self.describe(trial.case)}, rank {rank} read before it was done", "read_too_early"
                )
        return None

    def recognise_ending(self, outcome: Outcome, trials: Sequence[Trial]) -> str | None:
        """Somebody has still lost patience."""
        late = any(
            "imed out" in error.message or "onnect" in error.message for error in outcome.errors.values()
        )
        return "still_too_short" if outcome.kind is Kind.RAISES and late else None
