"""Task 2: a loader for one epoch on one rank, with set_epoch where it belongs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from random import Random
from typing import TypedDict

from course_lib.tasks import toys
from course_lib.tasks.task import Miss, Recognised, Task, Trial, WrongKind, check, gate, recognise_by_message
from course_lib.tasks.toys import short
from realranks.outcome.outcome import Outcome


class Case(TypedDict):
    """The arguments of the answer; where `orders` is set, of several calls."""

    n: int
    batch_size: int
    seed: int
    other_seed: int
    orders: bool


#: The batches of an epoch: `0`, `1`, `1 again` and `other seed`.
Seen = dict[str, list[list[int]]]
ThisTrial = Trial[Case, Seen, None]


def _shared_shards(trial: ThisTrial, epoch: str = "0") -> dict[int, list[int]]:
    """Return the samples that each rank saw in an epoch, in order."""
    return {rank: [i for batch in seen[epoch] for i in batch] for rank, seen in sorted(trial.seen.items())}


class MakeLoader(Task[Case, Seen, None]):
    """A loader for one epoch on one rank, with `set_epoch` where it belongs."""

    name = "samplers.make_loader"
    seconds = 15.0  # loaders with workers start processes, and a laptop has few cores

    def cases(self, world_size: int, chance: Random) -> Iterator[Case]:
        for n in (12 * world_size, 12 * world_size + max(1, world_size - 1), max(1, world_size - 1)):
            seed = chance.randint(0, 10_000)
            # Orders are compared once: small data sets repeat one by chance, and loaders with workers are slow.
            orders = n == 12 * world_size
            yield {
                "n": n,
                "batch_size": chance.choice((4, 5)),
                "seed": seed,
                "other_seed": seed + 11,
                "orders": orders,
            }

    def describe(self, case: Case) -> str:
        return f"n={case['n']}, batch_size={case['batch_size']}, seed={case['seed']}"

    def trial(self, answer: Callable[[toys.Numbers, int, int, int], Iterable[object]], case: Case) -> Seen:
        """Return the batches of epochs 0, 1 and 1 again, and of 0 with another seed, if orders are compared."""

        def epoch(number: int, seed: int) -> list[list[int]]:
            loader = answer(toys.Numbers(case["n"]), case["batch_size"], number, seed)
            try:
                first = itertools.islice(loader, toys.MAX_ITEMS + 1)
            except TypeError:
                raise toys.wrong_kind(loader) from None
            batches = [toys.flat_numbers(batch) for batch in first]
            if len(batches) > toys.MAX_ITEMS:
                raise WrongKind(f"more than {toys.MAX_ITEMS} batches")
            size, sizes = case["batch_size"], [len(batch) for batch in batches]
            if {*sizes[:-1]} - {size} or not all(0 < length <= size for length in sizes):
                raise WrongKind(f"batches of {short(sizes)} samples")
            return batches

        seen = {"0": epoch(0, case["seed"])}
        if case["orders"]:
            seen["1"] = epoch(1, case["seed"])
            seen["1 again"] = epoch(1, case["seed"])
            seen["other seed"] = epoch(0, case["other_seed"])
        return seen

    gives_batches = gate(
        "The loader gives batches of batch_size samples (the last one may be smaller).",
        "with batch_size={batch_size}, rank {rank} got {given}",
    )

    @check("In every epoch the ranks together see every sample, and only padding twice.")
    def sees_everything(self, trial: ThisTrial) -> Miss | None:
        """No sample is missing; no more extra ones than padding needs."""
        epochs = ("0", "1") if trial.case["orders"] else ("0",)
        return next((miss for epoch in epochs if (miss := self._unseen(trial, epoch)) is not None), None)

    def _unseen(self, trial: ThisTrial, epoch: str) -> Miss | None:
        n, ranks = trial.case["n"], trial.world_size
        mine = _shared_shards(trial, epoch)
        together = [sample for shard in mine.values() for sample in shard]
        missing = sorted(set(range(n)) - set(together))
        extra = len(together) - len(set(together))
        padding = math.ceil(n / ranks) * ranks - n
        where = f"with n={n} on {toys.ranks_text(ranks)}"
        if ranks > 1 and n > 1 and all(sorted(set(shard)) == list(range(n)) for shard in mine.values()):
            return Miss(f"{where}, every rank went through all {n} samples", "no_sampler")
        if missing:
            observed = f"{where}, nobody saw {short(missing)} in epoch {epoch}"
            if ranks > 1 and len({tuple(shard) for shard in mine.values()}) == 1 and mine[0]:
                return Miss(f"{observed}; all ranks saw {short(mine[0])}", "same_shard")
            if extra > padding:
                twice = sorted({sample for sample in together if together.count(sample) > 1})
                return Miss(f"{observed}, and {short(twice)} were seen more than once", "rank_in_seed")
            all_short = all(len(shard) < math.ceil(n / ranks) for shard in mine.values())
            return Miss(observed, "samples_dropped" if all_short else None)
        if extra > padding:
            return Miss(f"{where}, {extra} samples were seen more than once; padding needs {padding}")
        return None

    @check("Every rank has the same number of batches.")
    def same_count(self, trial: ThisTrial) -> Miss | None:
        """Unequal numbers of batches make a training loop hang."""
        counts = [len(trial.seen[rank]["0"]) for rank in range(trial.world_size)]
        lengths = [len(shard) for shard in _shared_shards(trial).values()]
        if len(set(counts)) > 1 or len(set(lengths)) > 1:
            return Miss(
                f"with n={trial.case['n']}, ranks 0 to {trial.world_size - 1} have {short(counts)} batches, "
                f"{short(lengths)} samples",
                "uneven_shards",
            )
        return None

    @check("The order changes from epoch to epoch.")
    def epochs_differ(self, trial: ThisTrial) -> Miss | None:
        if not trial.case["orders"] or any(seen["0"] != seen["1"] for seen in trial.seen.values()):
            return None
        first = _shared_shards(trial)[0]
        observed = f"rank 0 saw {short(first)} in epoch 0 and again in epoch 1 (n={trial.case['n']})"
        return Miss(observed, "not_shuffled" if first == sorted(first) else "set_epoch_forgotten")

    @check("The same epoch and seed give the same order again.")
    def repeatable(self, trial: ThisTrial) -> Miss | None:
        for rank, seen in trial.seen.items():
            if trial.case["orders"] and seen["1"] != seen["1 again"]:
                one, two = ([i for batch in seen[run] for i in batch] for run in ("1", "1 again"))
                return Miss(
                    f"epoch 1 on rank {rank} was {short(one)}, and {short(two)} when it was made again"
                )
        return None

    @check("Another seed gives another order.")
    def seed_matters(self, trial: ThisTrial) -> Miss | None:
        """A seed that reaches nothing helps nobody."""
        if not trial.case["orders"] or any(seen["0"] != seen["other seed"] for seen in trial.seen.values()):
            return None
        first = _shared_shards(trial)[0]
        seeds = f"{trial.case['seed']} and {trial.case['other_seed']}"
        shuffled = first != sorted(first)
        return Miss(f"rank 0 saw {short(first)} with seeds {seeds}", "seed_ignored" if shuffled else None)

    def recognise_ending(self, outcome: Outcome, trials: Sequence[ThisTrial]) -> Recognised:
        return recognise_by_message(outcome, {"mutually exclusive with shuffle": "shuffle_and_sampler"})
