"""Task 1: an exact accuracy over all ranks that may be read after every step."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import TYPE_CHECKING, Any, TypedDict

from course_lib.outcome.outcome import Kind, Outcome, RankState
from course_lib.tasks import toys
from course_lib.tasks.checkpoints.counting import CLASSES, Batch, Counts, Pair, counted, predictions
from course_lib.tasks.task import Miss, Recognised, Task, Trial, check, gate, recognise_by_name

if TYPE_CHECKING:
    from torch import Tensor


class Case(TypedDict):
    """By step and rank, a batch."""

    batches: list[list[Batch]]


class Step(TypedDict):
    """What was returned, and what the counter held after it."""

    pair: Pair
    counts: Counts


#: For `right` and for each misconception, by rank and by step.
Oracle = dict[str, list[list[Pair]]]
ThisTrial = Trial[Case, list[Step], Oracle]


class LogMetrics(Task[Case, list[Step], Oracle]):
    """An exact accuracy over all ranks that may be read after every step."""

    name = "checkpoints.log_metrics"
    world_sizes = (1, 2, 3)

    def cases(self, world_size: int, chance: Random) -> Iterator[Case]:
        """Steps with unequal batches, some of them empty, and a class that comes late or never."""
        for late in (3, CLASSES):
            batches = []
            for step in range(4):
                sizes = [chance.randint(3, 12) for _ in range(world_size)]
                if step == 2:
                    sizes[chance.randrange(world_size)] = 0
                batches.append([_batch(size, rank, step >= late, chance) for rank, size in enumerate(sizes)])
            yield {"batches": batches}

    def describe(self, case: Case) -> str:
        """The sizes of the batches."""
        sizes = [[len(batch["labels"]) for batch in step] for step in case["batches"]]
        return f"batches of {', '.join('/'.join(map(str, step)) for step in sizes)} samples"

    def trial(self, answer: Callable[[Tensor, Tensor, Tensor], object], case: Case) -> list[Step]:
        """What was returned in each step, and what the counter held after it."""
        import torch

        rank = int(os.environ["RANK"])
        counts = torch.zeros(CLASSES, 2, dtype=torch.int64)
        seen: list[tuple[object, Counts]] = []
        for step in case["batches"]:
            guesses = torch.tensor(step[rank]["guesses"], dtype=torch.int64)
            scores = torch.nn.functional.one_hot(guesses, CLASSES) * 2.0 - 0.5
            returned = answer(counts, scores, torch.tensor(step[rank]["labels"], dtype=torch.int64))
            seen.append((returned, counts.tolist()))
        return [{"pair": _pair(returned), "counts": held} for returned, held in seen]

    def oracle(self, case: Case, world_size: int) -> Oracle:
        """What one process finds that has all samples, and what misconceptions find."""
        return predictions(case["batches"], world_size)

    gives_numbers = gate(
        "Every rank returns two numbers.",
        known=lambda trial: "only_rank_0_knows" if 0 in trial.seen else None,
    )

    @check("The accuracy is that of all samples of all ranks so far, on every rank.")
    def accuracy(self, trial: ThisTrial) -> Miss | None:
        return _compared(trial, 0, "an accuracy")

    @check("The mean recall is that of all samples of all ranks so far, on every rank.")
    def recall(self, trial: ThisTrial) -> Miss | None:
        """Over the classes that have been seen."""
        return _compared(trial, 1, "a mean recall")

    @check("`counts` holds this rank's own counts, after every step.")
    def own_counts(self, trial: ThisTrial) -> Miss | None:
        for rank, seen in trial.seen.items():
            right = [[0, 0] for _ in range(CLASSES)]
            for number, step in enumerate(seen):
                batch = counted(trial.case["batches"][number][rank])
                right = [
                    [a + b for a, b in zip(x, y, strict=True)] for x, y in zip(right, batch, strict=True)
                ]
                if step["counts"] != right:
                    everyones = [counted(other) for other in trial.case["batches"][0]]
                    summed = [
                        [sum(cell) for cell in zip(*row, strict=True)] for row in zip(*everyones, strict=True)
                    ]
                    known = "counts_spoilt" if number == 0 and step["counts"] == summed else None
                    return Miss(
                        f"after step {number + 1} on {toys.ranks_text(trial.world_size)}, counts of rank {rank} is "
                        f"{step['counts']}; its own samples make {right}",
                        known,
                    )
        return None

    def recognise(self, trials: Sequence[ThisTrial]) -> Recognised:
        """Which misconception finds exactly these numbers?"""
        seen = [t.showing({r: [s["pair"] for s in x] for r, x in t.seen.items()}) for t in trials]
        if all(_equal(t.seen[0], t.oracle["right"][0]) for t in seen):
            alike = all(_equal(pairs, t.oracle["right"][0]) for t in seen for pairs in t.seen.values())
            return None if alike else "only_rank_0_knows"
        names = self.gravest_first(seen[0].oracle)
        return recognise_by_name(seen, names, lambda t, name: t.oracle[name], _equal)

    def recognise_ending(self, outcome: Outcome, trials: Sequence[ThisTrial]) -> Recognised:
        """Somebody waits: a rank had nothing to add and left."""
        if outcome.kind is Kind.HANG:
            waits = any(waiting.state == RankState.BLOCKED for waiting in outcome.waiting.values())
            return "empty_batch_leaves" if waits else None
        return self.recognise(trials)


def _batch(size: int, rank: int, with_last: bool, chance: Random) -> Batch:
    """Labels that are unevenly common from rank to rank, and guesses that are better for some classes."""
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


def _equal(a: Sequence[Pair], b: Sequence[Pair]) -> bool:
    """Lists of pairs, equal up to rounding; NaN equals itself."""
    return len(a) == len(b) and all(
        all(abs(p - q) < 1e-5 or (p != p and q != q) for p, q in zip(x, y, strict=True))
        for x, y in zip(a, b, strict=True)
    )


def _compared(trial: ThisTrial, which: int, name: str) -> Miss | None:
    for rank, seen in sorted(trial.seen.items()):
        for number, step in enumerate(seen):
            right = trial.oracle["right"][rank][number][which]
            if not abs(step["pair"][which] - right) < 1e-5:
                return Miss(
                    f"in step {number + 1} on {toys.ranks_text(trial.world_size)}, rank {rank} returned {name} of "
                    f"{step['pair'][which]:.4f}; one process alone finds {right:.4f}"
                )
    return None
