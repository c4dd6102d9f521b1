"""Task 5: a stream that ranks and loader workers share, in full rounds."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from random import Random
from typing import NotRequired, TypedDict

from course_lib.tasks import toys
from course_lib.tasks.task import Miss, Recognised, Task, Trial, check, gate
from course_lib.tasks.toys import short
from realranks.outcome.outcome import Outcome

#: Rounds that may be read before the first sample comes out; there are more in every case where this is looked at.
ROUNDS_AHEAD = 4


class Case(TypedDict):
    """A stream, and the workers of each rank's loader."""

    samples: list[int]
    workers: int


class Seen(TypedDict):
    """The samples read, sorted; without workers also the second time, and how much was read for the first sample."""

    first: list[int]
    second: NotRequired[list[int]]
    ahead: NotRequired[int]


class Share(TypedDict):
    """The samples of a rank."""

    first: list[int]


ThisTrial = Trial[Case, Seen, dict[str, list[Share]]]


class CountedStream:
    """Samples that can only be read one after the other, from the beginning, as often as one likes."""

    def __init__(self, samples: Sequence[int]) -> None:
        self.reads = 0
        self._samples = tuple(samples)

    def __iter__(self) -> Iterator[int]:
        for sample in self._samples:
            self.reads += 1
            yield sample


class SplitStream(Task[Case, Seen, dict[str, list[Share]]]):
    """A stream that ranks and loader workers share, in full rounds."""

    name = "samplers.split_stream"
    world_sizes = (2, 3)
    seconds = 15.0  # loaders with workers start processes, and a laptop has few cores

    def cases(self, world_size: int, chance: Random) -> Iterator[Case]:
        """Yield workers and a rest, which separates most misconceptions; no workers; less than a round."""
        rest = chance.randint(1, world_size - 1)
        some = 2 if world_size > 2 else 3
        for workers, n in (
            (some, some * world_size * chance.randint(4, 6) + world_size + rest),
            (0, 2 * world_size * chance.randint(5, 8) + world_size),
            (0, world_size - 1),
        ):
            # Drawn numbers, in no order: a sample does not show which rank gets it.
            yield {"samples": chance.sample(range(1000), n), "workers": workers}

    def describe(self, case: Case) -> str:
        return _sizes(case)

    def trial(self, answer: Callable[[CountedStream, int, int], object], case: Case) -> Seen:
        """Read with a loader; without workers, read a second epoch too and count what the first sample cost."""
        from torch.utils.data import DataLoader, IterableDataset

        stream = CountedStream(case["samples"])
        dataset = answer(stream, int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))
        if not isinstance(dataset, IterableDataset):
            raise toys.wrong_kind(dataset)
        workers = case["workers"]
        # Forked workers need not import the answer's class, which is in no module.
        start = "fork" if workers else None
        loader: Iterable[object] = DataLoader(
            dataset, batch_size=None, num_workers=workers, multiprocessing_context=start
        )
        seen: Seen = {"first": sorted(toys.whole_numbers(loader))}
        if workers:
            return seen
        seen["second"] = toys.whole_numbers(loader)
        stream.reads = 0
        next(iter(dataset), None)
        return {**seen, "ahead": stream.reads}

    def oracle(self, case: Case, world_size: int) -> dict[str, list[Share]]:
        """Return one of the right ways to share."""
        full = case["samples"][: len(case["samples"]) // world_size * world_size]
        return {"right": [{"first": sorted(full[rank::world_size])} for rank in range(world_size)]}

    gives_stream = gate(
        "Every rank gets an IterableDataset, and a loader reads samples from it.",
        "with {case}, rank {rank} of {ranks} got {given}",
    )

    @check("No sample is read twice, by whichever rank and worker.")
    def nothing_twice(self, trial: ThisTrial) -> Miss | None:
        reads, ranks, workers = Counter(_together(trial)), trial.world_size, trial.case["workers"]
        twice = [sample for sample, count in reads.items() if count > 1]
        if not twice:
            return None
        everything = len(reads) >= len(trial.case["samples"]) // ranks * ranks
        often = set(reads.values())
        by_count = {workers: "workers_ignored", ranks: "ranks_ignored", ranks * workers: "nothing_split"}
        return Miss(
            f"{_where(trial)}, {len(twice)} samples were read more than once, such as {twice[0]}, "
            f"{reads[twice[0]]} times",
            by_count.get(often.pop()) if len(often) == 1 and everything else None,
        )

    @check("Every sample is read, except a rest that does not fill a round of one for each rank.")
    def nothing_missing(self, trial: ThisTrial) -> Miss | None:
        """Which ones are left out is free."""
        n = len(trial.case["samples"])
        missing = n - len(set(_together(trial)) & set(trial.case["samples"]))
        rest = n % trial.world_size
        if missing <= rest:
            return None
        of_readers = n % (trial.world_size * max(1, trial.case["workers"]))
        known = "too_much_dropped" if missing == of_readers and not self.nothing_twice(trial) else None
        return Miss(f"{_where(trial)}, {missing} samples were read by nobody; {rest} fill no round", known)

    @check("Every rank gets the same number of samples.")
    def same_count(self, trial: ThisTrial) -> Miss | None:
        """Unequal shares make a training loop hang."""
        lengths = [len(trial.seen[rank]["first"]) for rank in range(trial.world_size)]
        if len(set(lengths)) == 1:
            return None
        everything = sorted(_together(trial)) == sorted(trial.case["samples"])
        return Miss(
            f"{_where(trial)}, the ranks got {short(lengths)} samples", "rest_kept" if everything else None
        )

    @check("The next epoch reads as many samples again.")
    def again(self, trial: ThisTrial) -> Miss | None:
        """A loader is read once an epoch."""
        for rank, seen in trial.seen.items():
            first, second = seen["first"], seen.get("second", seen["first"])
            if len(first) != len(second):
                return Miss(
                    f"{_where(trial)}, rank {rank} read {len(first)} samples, and {len(second)} the second time",
                    None if second else "stream_used_up",
                )
        return None

    @check("Samples come out while the stream is read.")
    def lazily(self, trial: ThisTrial) -> Miss | None:
        """A few rounds may be read ahead."""
        n, ranks = len(trial.case["samples"]), trial.world_size
        for rank, seen in trial.seen.items():
            if seen.get("ahead", 0) > ROUNDS_AHEAD * ranks:
                observed = f"{seen['ahead']} of {n} samples were read before the first one came out"
                return Miss(f"on rank {rank} of {ranks}, {observed}", "all_in_memory")
        return None

    def recognise_ending(self, outcome: Outcome, trials: Sequence[ThisTrial]) -> Recognised:
        said = " ".join(error.message for error in outcome.errors.values())
        asked = ("has no len()", "is not subscriptable", "__len__", "__getitem__")
        return "like_a_list" if any(word in said for word in asked) else None


def _together(trial: ThisTrial) -> list[int]:
    """Return what all ranks read in the first epoch."""
    return [sample for rank in sorted(trial.seen) for sample in trial.seen[rank]["first"]]


def _sizes(case: Case) -> str:
    return f"n={len(case['samples'])}, num_workers={case['workers']}"


def _where(trial: ThisTrial) -> str:
    return f"with {_sizes(trial.case)} on {trial.world_size} ranks"
