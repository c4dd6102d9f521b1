"""Mystery 6: nothing hangs, and it does not add up."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from typing import TypedDict

from course_lib.lessons.debugging.tasks.mystery import Mystery, Seen, Solution
from course_lib.tasks import toys
from course_lib.tasks.task import Miss, Recognised, Trial, check, gate
from realranks.outcome.outcome import Kind, Outcome

_SHOWN = (
    ("cat", "dog", "cat", "bird", "cat", "dog"),
    ("cat", "cat", "dog", "cat", "dog", "bird"),
    ("bird", "cat", "cat", "dog", "cat", "cat"),
)


class Case(TypedDict):
    """Labels by rank."""

    labels: list[list[str]]


class Run(TypedDict):
    """The counts returned, by label."""

    totals: dict[str, float]


class Oracle(TypedDict):
    """All labels counted; and by rank, each rank's k-th labels added up."""

    totals: dict[str, int]
    mixed: list[dict[str, int]]


ThisTrial = Trial[Case, Seen[Run], Oracle]


class Totals(Mystery[Case, Run, Oracle]):
    """Nothing hangs, and it does not add up."""

    name = "debugging.totals"
    solution = Solution(
        culprit=2,
        cause="order",
        seen_doing={
            0: "it goes through cat, dog, bird, as rank 1 does",
            1: "it goes through cat, dog, bird, as rank 0 does",
        },
        refuted={
            "types": "every tensor is one whole number, on all ranks: that is why nobody complains",
            "fewer_batches": "all ranks have six labels",
            "one_rank": "all ranks call all_reduce three times",
            "network": "the sum over all labels is right, so nothing was lost",
            "late": "no rank has waited in vain",
            "skipped": "nothing in this script catches anything",
        },
        tempting={"types": "types_blamed"},
    )

    def cases(self, world_size: int, chance: Random) -> Iterator[Case]:
        yield {"labels": [list(part) for part in _SHOWN]}
        kinds = chance.sample(["ant", "bee", "cow", "elk", "fox", "gnu"], 4)
        labels = [[kind] * chance.randint(1, 5) for kind in kinds for _ in range(world_size)]
        parts = [[label for some in labels[rank::world_size] for label in some] for rank in range(world_size)]
        for rank, kind in ((0, kinds[0]), (chance.choice((1, 2)), kinds[1])):
            parts[rank] = [label for label in parts[rank] if label != kind]
        for part in parts:
            chance.shuffle(part)
        yield {"labels": parts}

    def describe(self, case: Case) -> str:
        return "; ".join(", ".join(dict.fromkeys(part)) for part in case["labels"])

    def run_repaired(self, answer: Callable[[list[str]], object], case: Case) -> Run:
        """Return the totals as plain numbers."""
        totals = answer(list(case["labels"][int(os.environ["RANK"])]))
        if not isinstance(totals, Mapping) or not all(isinstance(label, str) for label in totals):
            raise toys.wrong_kind(totals)
        return {"totals": {label: toys.number(count) for label, count in totals.items()}}

    def oracle(self, case: Case, world_size: int) -> Oracle:
        parts = [Counter(part) for part in case["labels"]]
        mixed = [sum(counts) for counts in zip(*(part.values() for part in parts), strict=False)]
        return {
            "totals": dict(sum(parts, Counter())),
            "mixed": [dict(zip(part, mixed, strict=False)) for part in parts],
        }

    gives_counts = gate("Every rank returns a dictionary of counts.", "rank {rank} returned {given}")

    @check("The counts are right, for all labels that any rank has seen.")
    def counts(self, trial: ThisTrial) -> Miss | None:
        for rank, seen in trial.seen.items():
            totals, right = seen["run"]["totals"], trial.oracle["totals"]
            if totals == right:
                continue
            wrong = next(
                label for label in sorted({*right, *totals}) if totals.get(label) != right.get(label)
            )
            mixed = totals == trial.oracle["mixed"][rank]
            lacking = all(right[label] == count for label, count in totals.items() if label in right)
            return Miss(
                f"with the labels {self.describe(trial.case)}, rank {rank} counted {totals.get(wrong, 0):g} of "
                f"{wrong}; there are {right.get(wrong, 0)}",
                "still_mixed" if mixed else "own_labels" if lacking else None,
            )
        return None

    def recognise_ending(self, outcome: Outcome, trials: Sequence[ThisTrial]) -> Recognised:
        """Recognise ranks that have seen different labels and wait for each other."""
        if outcome.kind is not Kind.HANG:
            return None
        mixed = any(trial.seen[0]["run"] == {"totals": trial.oracle["mixed"][0]} for trial in trials)
        return "still_mixed" if mixed else "own_labels"
