"""Task 1: do by hand what DistributedSampler does."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import TypedDict

from course_lib.tasks import toys
from course_lib.tasks.samplers import taught
from course_lib.tasks.samplers.predictions import shards
from course_lib.tasks.task import Misconception, Miss, Recognised, Task, Trial, check, recognise_by_name
from course_lib.tasks.toys import is_odd, short


class Case(TypedDict):
    """What the answer is called with, the rank apart."""

    n: int
    epoch: int
    seed: int
    drop_last: bool
    world_size: int


#: For `right` and for each misconception, the shard of each rank.
Oracle = dict[str, list[list[int]]]
ThisTrial = Trial[Case, list[int], Oracle]


class ShardIndices(Task[Case, list[int], Oracle]):
    """Do by hand what `DistributedSampler` does."""

    name = "samplers.shard_indices"
    title = "Write the sampler yourself"
    signature = "shard_indices(n, rank, world_size, epoch, seed, drop_last)"
    lesson = taught.LESSON
    place = 1
    hints = (
        "Every rank makes the same list of all n sample numbers and then takes its own part of it: nothing is sent.",
        (
            "The same list everywhere comes from the same seed everywhere: torch.randperm(n, generator=g), with a "
            "generator seeded with seed + epoch."
        ),
        (
            "Every rank must get the same number, so make the list's length a multiple of world_size before it is "
            "dealt out: with drop_last cut its end off, else put its own beginning behind it - more than once, when "
            "there are fewer samples than ranks."
        ),
        "Deal out like cards: rank, rank + world_size, rank + 2 * world_size, ... which is list[rank::world_size].",
    )
    misconceptions = (
        Misconception(
            "epoch_ignored",
            "The order is that of epoch 0 in every epoch: the shuffle must depend on the epoch, too.",
            taught.EPOCHS,
        ),
        Misconception(
            "seed_ignored",
            "The order is the same for every seed: the shuffle must depend on seed + epoch.",
            taught.EPOCHS,
        ),
        Misconception(
            "rank_in_seed",
            "Every rank shuffles with a seed of its own. The ranks then deal from different decks: some samples are "
            "seen twice, others by nobody, and no error says so.",
            taught.SEEDS,
        ),
        Misconception(
            "not_shuffled",
            "The samples are dealt out in their stored order: nothing is shuffled.",
            taught.EPOCHS,
        ),
        Misconception(
            "contiguous_blocks",
            "Each rank gets a block of neighbours. DistributedSampler deals like cards: every world_size-th sample.",
            taught.SHARDS,
        ),
        Misconception(
            "no_padding",
            "The ranks get different numbers of samples. In training, the ranks with fewer would finish early and the "
            "others wait for them in backward().",
            taught.SHARDS,
        ),
        Misconception(
            "padding_too_short",
            "The beginning is put behind the list only once. With fewer samples than ranks that is not enough: some "
            "ranks still get nothing.",
            taught.SHARDS,
        ),
        Misconception(
            "drop_last_ignored", "drop_last=True must cut the end off instead of padding.", taught.DROPPED
        ),
    )

    def cases(self, world_size: int, chance: Random) -> Iterator[Case]:
        """Sizes that divide, that do not, and fewer samples than ranks; with and without drop_last."""
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
        """The rank's own shard, in order."""
        import os

        rank = int(os.environ["RANK"])
        return toys.whole_numbers(
            answer(case["n"], rank, case["world_size"], case["epoch"], case["seed"], case["drop_last"])
        )

    def oracle(self, case: Case, world_size: int) -> Oracle:
        """The shards of torch's own DistributedSampler, and those of each misconception."""
        return shards(case["n"], world_size, case["epoch"], case["seed"], case["drop_last"])

    @check("Every rank gets a list of sample numbers.", gate=True)
    def gives_lists(self, trial: ThisTrial) -> Miss | None:
        for rank, seen in trial.seen.items():
            if is_odd(seen):
                return Miss(f"{self._call(trial, rank)} gave {seen['odd']}")
        return None

    @check("Every rank gets the same number of samples.")
    def equally_many(self, trial: ThisTrial) -> Miss | None:
        """Unequal shards make a training loop hang."""
        lengths = [len(trial.seen[rank]) for rank in range(trial.world_size)]
        if len(set(lengths)) > 1:
            return Miss(
                f"with n={trial.case['n']}, ranks 0 to {trial.world_size - 1} got {short(lengths)} samples"
            )
        return None

    @check("The shards are those of torch's DistributedSampler, in the same order.")
    def same_as_torch(self, trial: ThisTrial) -> Miss | None:
        for rank, seen in trial.seen.items():
            right = trial.oracle["right"][rank]
            if seen != right:
                return Miss(
                    f"{self._call(trial, rank)} gave {short(seen)}; DistributedSampler gives {short(right)}"
                )
        return None

    def recognise(self, trials: Sequence[ThisTrial]) -> Recognised:
        """Which misconception gives exactly these shards?"""
        names = [item.id for item in self.misconceptions]
        # Of a few samples there are few orders: alone, one would fit something by chance.
        return recognise_by_name(trials, names, lambda trial, name: trial.oracle[name], alone=False)

    def _call(self, trial: ThisTrial, rank: int) -> str:
        case = trial.case
        return (
            f"shard_indices(n={case['n']}, rank={rank}, world_size={trial.world_size}, epoch={case['epoch']}, "
            f"seed={case['seed']}, drop_last={case['drop_last']})"
        )
