"""Task 1: do by hand what DistributedSampler does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import TypedDict

from course_lib.tasks import toys
from course_lib.tasks.compared import Compared, compared
from course_lib.tasks.task import Miss, Trial, check, gate
from course_lib.tasks.toys import short


class Case(TypedDict):
    """The arguments of the answer, without the rank."""

    n: int
    epoch: int
    seed: int
    drop_last: bool
    world_size: int


ThisTrial = Trial[Case, list[int], dict[str, list[list[int]]]]

_CALL = (
    "shard_indices(n={n}, rank={rank}, world_size={world_size}, epoch={epoch}, seed={seed}, drop_last={drop_last}) "
    "gave "
)


class ShardIndices(Compared[Case, list[int], list[int]]):
    """Do by hand what `DistributedSampler` does."""

    name = "samplers.shard_indices"

    def cases(self, world_size: int, chance: Random) -> Iterator[Case]:
        """Yield sizes that divide, that do not, and fewer samples than ranks, with and without `drop_last`."""
        ragged = world_size * chance.randint(2, 5) + chance.randint(1, max(1, world_size - 1))
        seed = chance.randint(1, 10_000)
        plan = [
            (world_size * chance.randint(3, 6), 0, False),
            (ragged, 0, False),
            (ragged, chance.randint(1, 20), False),
            (ragged, chance.randint(1, 20), True),
            (1, chance.randint(1, 20), False),
            (max(1, world_size - 1), 0, False),
            (max(1, world_size - 1), 2, True),
            (chance.randint(50, 90), chance.randint(1, 20), chance.random() < 0.5),
        ]
        for n, epoch, drop_last in plan:
            yield {"n": n, "epoch": epoch, "seed": seed, "drop_last": drop_last, "world_size": world_size}

    def trial(self, answer: Callable[[int, int, int, int, int, bool], object], case: Case) -> list[int]:
        import os

        rank = int(os.environ["RANK"])
        return toys.whole_numbers(
            answer(case["n"], rank, case["world_size"], case["epoch"], case["seed"], case["drop_last"])
        )

    def oracle(self, case: Case, world_size: int) -> dict[str, list[list[int]]]:
        """Return the shards of torch's own DistributedSampler."""
        n, epoch, seed, drop_last = case["n"], case["epoch"], case["seed"], case["drop_last"]
        ranks = range(world_size)
        return {
            "right": [
                toys.dealt(n, world_size, rank, epoch, seed=seed, drop_last=drop_last) for rank in ranks
            ]
        }

    gives_lists = gate("Every rank gets a list of sample numbers.", _CALL + "{given}")

    @check("Every rank gets the same number of samples.")
    def same_count(self, trial: ThisTrial) -> Miss | None:
        """Unequal shards make a training loop hang."""
        lengths = [len(trial.seen[rank]) for rank in range(trial.world_size)]
        if len(set(lengths)) > 1:
            return Miss(
                f"with n={trial.case['n']}, ranks 0 to {trial.world_size - 1} got {short(lengths)} samples"
            )
        return None

    same_as_torch = compared(
        "The shards are those of torch's DistributedSampler, in the same order.",
        _CALL + "{seen}; DistributedSampler gives {right}",
    )
