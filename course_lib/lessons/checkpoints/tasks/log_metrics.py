"""Task 1: an exact accuracy over all ranks that may be read after every step."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import TYPE_CHECKING, Any, TypedDict

from course_lib.lessons.checkpoints.tasks.counting import (
    CLASSES,
    Batch,
    Counts,
    Pair,
    added,
    counted,
    scores_of,
)
from course_lib.tasks import toys
from course_lib.tasks.compared import Compared, compared
from course_lib.tasks.task import Miss, Recognised, Trial, check, gate
from realranks.outcome.outcome import Kind, Outcome, RankState

if TYPE_CHECKING:
    from torch import Tensor


class Case(TypedDict):
    """Batches by step and rank."""

    batches: list[list[Batch]]


class Returned(TypedDict):
    """The scores returned after each step."""

    accuracy: list[float]
    recall: list[float]


class Seen(Returned):
    """The scores, and the counter's state after each step."""

    counts: list[Counts]


ThisTrial = Trial[Case, Seen, dict[str, list[Returned]]]


_SAID = (
    "in step {number} on {gang}, rank {rank} returned %s of {seen:.4f}; one process alone finds {right:.4f}"
)


class LogMetrics(Compared[Case, Seen, Returned]):
    """An exact accuracy over all ranks that may be read after every step."""

    name = "checkpoints.log_metrics"
    world_sizes = (1, 2, 3)

    def cases(self, world_size: int, chance: Random) -> Iterator[Case]:
        """Yield steps with unequal batches, some of them empty, and a class that comes late or never."""
        for late in (3, CLASSES):
            batches = []
            for step in range(4):
                sizes = [chance.randint(3, 12) for _ in range(world_size)]
                if step == 2:
                    sizes[chance.randrange(world_size)] = 0
                batches.append([_batch(size, rank, step >= late, chance) for rank, size in enumerate(sizes)])
            yield {"batches": batches}

    def describe(self, case: Case) -> str:
        sizes = [[len(batch["labels"]) for batch in step] for step in case["batches"]]
        return f"batches of {', '.join('/'.join(map(str, step)) for step in sizes)} samples"

    def trial(self, answer: Callable[[Tensor, Tensor, Tensor], object], case: Case) -> Seen:
        import torch

        rank = int(os.environ["RANK"])
        counts = torch.zeros(CLASSES, 2, dtype=torch.int64)
        given: list[object] = []
        held_counts: list[Counts] = []
        for step in case["batches"]:
            guesses = torch.tensor(step[rank]["guesses"], dtype=torch.int64)
            scores = torch.nn.functional.one_hot(guesses, CLASSES) * 2.0 - 0.5
            given.append(answer(counts, scores, torch.tensor(step[rank]["labels"], dtype=torch.int64)))
            held_counts.append(counts.tolist())
        return {**_returned([_pair(one) for one in given]), "counts": held_counts}

    def oracle(self, case: Case, world_size: int) -> dict[str, list[Returned]]:
        by_step = [added([counted(batch) for batch in step]) for step in case["batches"]]
        so_far = itertools.accumulate(by_step, lambda *both: added(both))
        return {"right": [_returned([scores_of(counts) for counts in so_far])] * world_size}

    gives_numbers = gate(
        "Every rank returns two numbers.",
        known=lambda trial: "only_rank_0_knows" if 0 in trial.seen else None,
    )

    accuracy = compared(
        "The accuracy is that of all samples of all ranks so far, on every rank.",
        _SAID % "an accuracy",
        of="accuracy",
        each=True,
        # Ranks are looked at in their order: if another rank is the first that is wrong, rank 0 is right.
        known=lambda _, rank: "only_rank_0_knows" if rank else None,
    )
    #: Over the classes that have been seen.
    recall = compared(
        "The mean recall is that of all samples of all ranks so far, on every rank.",
        _SAID % "a mean recall",
        of="recall",
        each=True,
    )

    @check("`counts` holds this rank's own counts, after every step.")
    def own_counts(self, trial: ThisTrial) -> Miss | None:
        for rank, seen in trial.seen.items():
            right = [[0, 0] for _ in range(CLASSES)]
            for number, counts in enumerate(seen["counts"]):
                batch = counted(trial.case["batches"][number][rank])
                right = [
                    [a + b for a, b in zip(x, y, strict=True)] for x, y in zip(right, batch, strict=True)
                ]
                if counts != right:
                    return Miss(
                        f"after step {number + 1} on {toys.ranks_text(trial.world_size)}, counts of rank {rank} is "
                        f"{counts}; its own samples make {right}"
                    )
        return None

    def recognise_ending(self, outcome: Outcome, trials: Sequence[ThisTrial]) -> Recognised:
        """Recognise a rank that had nothing to add and left the others waiting."""
        if outcome.kind is Kind.HANG:
            waits = any(waiting.state == RankState.BLOCKED for waiting in outcome.waiting.values())
            return "empty_batch_leaves" if waits else None
        return None


def _batch(size: int, rank: int, with_last: bool, chance: Random) -> Batch:
    """Draw labels whose frequencies differ between ranks, and guesses that are better for some classes."""
    labels = [
        chance.choices(range(CLASSES), [4 if label == rank else 1 for label in range(3)] + [2 * with_last])[0]
        for _ in range(size)
    ]
    return {
        "labels": labels,
        "guesses": [
            label if chance.random() < 0.9 - 0.2 * label else (label + 1) % CLASSES for label in labels
        ],
    }


def _pair(returned: Any) -> Pair:
    try:
        first, second = returned
    except (TypeError, ValueError):
        raise toys.wrong_kind(returned) from None
    return [toys.number(first), toys.number(second)]


def _returned(pairs: Sequence[Pair]) -> Returned:
    return {"accuracy": [pair[0] for pair in pairs], "recall": [pair[1] for pair in pairs]}
