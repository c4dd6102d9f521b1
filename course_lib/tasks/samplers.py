"""Tasks of lesson 03: who gets which sample, anew in every epoch, and a score that counts nobody twice."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from typing import Any

from course_lib.ranks.fold import rank_list
from course_lib.ranks.outcome import Kind, Outcome
from course_lib.tasks import toys
from course_lib.tasks.sampler_models import accuracies, shards
from course_lib.tasks.task import Misconception, Miss, Model, Task, Trial, check, recognise_by_models
from course_lib.tasks.toys import is_odd, short

LESSON = "03_samplers"
_SHARDS = "lesson 03, Ten samples, four ranks"
_DROPPED = "lesson 03, drop_last: lose instead of repeat"
_EPOCHS = "lesson 03, Shuffling, and the call everybody forgets"
_LOADER = "lesson 03, Two samplers do not fit into one loader"
_SEEDS = "lesson 03, A seed of one's own"
_EVALUATE = "lesson 03, An accuracy that counts nobody twice"


def _shared_shards(trial: Trial) -> dict[int, list[int]]:
    """The samples each rank saw in epoch 0, in order."""
    return {
        rank: [i for batch in seen["epochs"][0] for i in batch] for rank, seen in sorted(trial.seen.items())
    }


class ShardIndices(Task):
    """Do by hand what `DistributedSampler` does."""

    name = "samplers.shard_indices"
    title = "Write the sampler yourself"
    signature = "shard_indices(n, rank, world_size, epoch, seed, drop_last)"
    lesson = LESSON
    hints = (
        "Every rank makes the same list of all n sample numbers and then takes its own part of it: nothing is sent.",
        "The same list everywhere comes from the same seed everywhere: torch.randperm(n, generator=g), with a "
        "generator seeded with seed + epoch.",
        "Every rank must get equally many, so make the list's length a multiple of world_size before it is dealt "
        "out: with drop_last cut its end off, else put its own beginning behind it - more than once, when there are "
        "fewer samples than ranks.",
        "Deal out like cards: rank, rank + world_size, rank + 2 * world_size, ... which is list[rank::world_size].",
    )
    misconceptions = (
        Misconception(
            "epoch_ignored",
            "The order is that of epoch 0 in every epoch: the shuffle must depend on the epoch, too.",
            _EPOCHS,
        ),
        Misconception(
            "seed_ignored",
            "The order is the same for every seed: the shuffle must depend on seed + epoch.",
            _EPOCHS,
        ),
        Misconception(
            "rank_in_seed",
            "Every rank shuffles with a seed of its own. The ranks then deal from different decks: some samples are "
            "seen twice, others by nobody, and no error says so.",
            _SEEDS,
        ),
        Misconception(
            "not_shuffled", "The samples are dealt out in their stored order: nothing is shuffled.", _EPOCHS
        ),
        Misconception(
            "contiguous_blocks",
            "Each rank gets a block of neighbours. DistributedSampler deals like cards: every world_size-th sample.",
            _SHARDS,
        ),
        Misconception(
            "no_padding",
            "The ranks get unequally many samples. In training, the ranks with fewer would finish early and the "
            "others wait for them in backward().",
            _SHARDS,
        ),
        Misconception(
            "padding_too_short",
            "The beginning is put behind the list only once. With fewer samples than ranks that is not enough: some "
            "ranks still get nothing.",
            _SHARDS,
        ),
        Misconception(
            "drop_last_ignored", "drop_last=True must cut the end off instead of padding.", _DROPPED
        ),
    )

    def cases(self, world_size: int, chance: Random) -> Iterator[dict[str, Any]]:
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

    def trial(self, answer: Callable[..., Any], case: Mapping[str, Any]) -> Any:
        """The rank's own shard, in order."""
        import os

        rank = int(os.environ["RANK"])
        return toys.whole_numbers(
            answer(case["n"], rank, case["world_size"], case["epoch"], case["seed"], case["drop_last"])
        )

    def oracle(self, case: Mapping[str, Any], world_size: int) -> Any:
        """The shards of torch's own DistributedSampler, and those of each misconception."""
        return shards(case["n"], world_size, case["epoch"], case["seed"], case["drop_last"])

    @check("Every rank gets a list of sample numbers.", gate=True)
    def gives_lists(self, trial: Trial) -> Miss | None:
        """Whole numbers, nothing else."""
        for rank, seen in trial.seen.items():
            if is_odd(seen):
                return Miss(f"{self._call(trial, rank)} gave {seen['odd']}")
        return None

    @check("Every rank gets equally many samples.")
    def equally_many(self, trial: Trial) -> Miss | None:
        """Unequal shards make a training loop hang."""
        lengths = [len(trial.seen[rank]) for rank in range(trial.world_size)]
        if len(set(lengths)) > 1:
            return Miss(
                f"with n={trial.case['n']}, ranks 0 to {trial.world_size - 1} got {short(lengths)} samples"
            )
        return None

    @check("The shards are those of torch's DistributedSampler, in the same order.")
    def same_as_torch(self, trial: Trial) -> Miss | None:
        """The oracle decides."""
        for rank, seen in trial.seen.items():
            right = trial.oracle["right"][rank]
            if seen != right:
                return Miss(
                    f"{self._call(trial, rank)} gave {short(seen)}; DistributedSampler gives {short(right)}"
                )
        return None

    def recognise(self, trials: Sequence[Trial]) -> str | None:
        """Which misconception gives exactly these shards?"""
        models = [
            Model(item.id, lambda trial, id_=item.id: trial.oracle["models"][id_])  # type: ignore[misc]
            for item in self.misconceptions
        ]
        return recognise_by_models(
            trials, lambda trial: trial.oracle["right"], models, lambda a, b: bool(a == b)
        )

    def _call(self, trial: Trial, rank: int) -> str:
        case = trial.case
        return (
            f"shard_indices(n={case['n']}, rank={rank}, world_size={trial.world_size}, epoch={case['epoch']}, "
            f"seed={case['seed']}, drop_last={case['drop_last']})"
        )


class MakeLoader(Task):
    """A loader for one epoch on one rank, with `set_epoch` where it belongs."""

    name = "samplers.make_loader"
    title = "A loader that shuffles anew in every epoch"
    signature = "make_loader(dataset, batch_size, epoch, seed)"
    lesson = LESSON
    hints = (
        "Let torch deal out the samples: DistributedSampler(dataset, ...) knows this rank and the world size itself.",
        "Give the sampler to DataLoader(dataset, batch_size=..., sampler=...), and no shuffle: the sampler shuffles.",
        "The sampler starts at epoch 0 for ever unless it is told: sampler.set_epoch(epoch), before the loader is "
        "iterated. The seed is the sampler's own argument; torch.manual_seed does not reach it.",
    )
    misconceptions = (
        Misconception(
            "set_epoch_forgotten",
            "Every epoch has the same order: without set_epoch the sampler stays in epoch 0.",
            _EPOCHS,
        ),
        Misconception(
            "not_shuffled",
            "The samples come in their stored order in every epoch: nothing shuffles them.",
            _EPOCHS,
        ),
        Misconception(
            "no_sampler",
            "Every rank goes through the whole data set. DataLoader alone knows nothing of ranks: without a "
            "DistributedSampler all of them do all the work.",
            _LOADER,
        ),
        Misconception(
            "same_shard",
            "All ranks get the same part of the data, and nobody gets the rest.",
            _SHARDS,
        ),
        Misconception(
            "rank_in_seed",
            "The sampler's seed differs between ranks. They then deal from different decks: some samples are seen "
            "twice, others by nobody, and no error says so.",
            _SEEDS,
        ),
        Misconception(
            "samples_dropped",
            "drop_last leaves the last samples out; here every sample is to be seen in every epoch.",
            _DROPPED,
        ),
        Misconception(
            "uneven_shards",
            "The ranks have unequally many batches. In training, the ranks with fewer would finish early and the "
            "others wait for them in backward().",
            _SHARDS,
        ),
        Misconception(
            "seed_ignored",
            "The seed changes nothing: it must reach the sampler (DistributedSampler(..., seed=seed)).",
            _EPOCHS,
        ),
        Misconception(
            "shuffle_and_sampler",
            "DataLoader takes a sampler or shuffle=True, not both: the sampler shuffles.",
            _LOADER,
        ),
    )

    def cases(self, world_size: int, chance: Random) -> Iterator[dict[str, Any]]:
        """One size that divides evenly, one that does not, one with fewer samples than ranks."""
        for n in (12 * world_size, 12 * world_size + max(1, world_size - 1), max(1, world_size - 1)):
            seed = chance.randint(0, 10_000)
            yield {"n": n, "batch_size": chance.choice((4, 5)), "seed": seed, "other_seed": seed + 11}

    def describe(self, case: Mapping[str, Any]) -> str:
        """What it is called with first."""
        return f"n={case['n']}, batch_size={case['batch_size']}, seed={case['seed']}"

    def trial(self, answer: Callable[..., Any], case: Mapping[str, Any]) -> Any:
        """Batches of epochs 0, 1 and 2, of epoch 1 once more, and of epoch 0 with another seed."""

        def epoch(number: int, seed: int) -> Any:
            loader = answer(toys.Numbers(case["n"]), case["batch_size"], number, seed)
            batches: list[list[int]] = []
            try:
                iterator = iter(loader)
            except TypeError:
                return toys.odd(loader)
            for batch in iterator:
                numbers = toys.flat_numbers(batch)
                if isinstance(numbers, dict):
                    return numbers
                batches.append(numbers)
                if len(batches) > toys.MAX_ITEMS:
                    return {"odd": f"more than {toys.MAX_ITEMS} batches"}
            return batches

        return {
            "epochs": [epoch(number, case["seed"]) for number in range(3)],
            "again": epoch(1, case["seed"]),
            "other_seed": epoch(0, case["other_seed"]),
        }

    @check("The loader gives batches of batch_size samples (the last one may be smaller).", gate=True)
    def gives_batches(self, trial: Trial) -> Miss | None:
        """The shape of what comes out."""
        size = trial.case["batch_size"]
        for rank, seen in trial.seen.items():
            for batches in (*seen["epochs"], seen["again"], seen["other_seed"]):
                if is_odd(batches):
                    return Miss(f"rank {rank} got {batches['odd']}")
                sizes = [len(batch) for batch in batches]
                if any(length != size for length in sizes[:-1]) or not all(
                    0 < length <= size for length in sizes
                ):
                    return Miss(f"with batch_size={size}, rank {rank} got batches of {short(sizes)} samples")
        return None

    @check("In every epoch the ranks together see every sample, and only padding twice.")
    def sees_everything(self, trial: Trial) -> Miss | None:
        """No sample is missing; no more extra ones than padding needs."""
        n, ranks = trial.case["n"], trial.world_size
        mine = _shared_shards(trial)
        together = [sample for shard in mine.values() for sample in shard]
        missing = sorted(set(range(n)) - set(together))
        extra = len(together) - len(set(together))
        padding = math.ceil(n / ranks) * ranks - n
        where = f"with n={n} on {_on(ranks)}"
        if ranks > 1 and n > 1 and all(sorted(set(shard)) == list(range(n)) for shard in mine.values()):
            return Miss(f"{where}, every rank went through all {n} samples", "no_sampler")
        if missing:
            observed = f"{where}, nobody saw {short(missing)} in epoch 0"
            if ranks > 1 and len({tuple(shard) for shard in mine.values()}) == 1 and mine[0]:
                return Miss(f"{observed}; all ranks saw {short(mine[0])}", "same_shard")
            if extra > padding:
                twice = sorted({sample for sample in together if together.count(sample) > 1})
                return Miss(f"{observed}, and {short(twice)} were seen more than once", "rank_in_seed")
            return Miss(observed, None if extra else "samples_dropped")
        if extra > padding:
            return Miss(f"{where}, {extra} samples were seen more than once; padding needs {padding}")
        return None

    @check("Every rank has equally many batches.")
    def equally_many(self, trial: Trial) -> Miss | None:
        """Unequal numbers of batches make a training loop hang."""
        counts = [len(trial.seen[rank]["epochs"][0]) for rank in range(trial.world_size)]
        lengths = [len(shard) for shard in _shared_shards(trial).values()]
        if len(set(counts)) > 1 or len(set(lengths)) > 1:
            return Miss(
                f"with n={trial.case['n']}, ranks 0 to {trial.world_size - 1} have {short(counts)} batches, "
                f"{short(lengths)} samples",
                "uneven_shards",
            )
        return None

    @check("The order changes from epoch to epoch.")
    def epochs_differ(self, trial: Trial) -> Miss | None:
        """On small data sets two orders may be equal by chance: those are not judged."""
        if trial.case["n"] < 12:
            return None
        same = [rank for rank, seen in trial.seen.items() if seen["epochs"][0] == seen["epochs"][1]]
        if len(same) < trial.world_size:
            return None
        first = _shared_shards(trial)[0]
        observed = f"rank 0 saw {short(first)} in epoch 0 and again in epoch 1 (n={trial.case['n']})"
        return Miss(observed, "not_shuffled" if first == sorted(first) else "set_epoch_forgotten")

    @check("The same epoch and seed give the same order again.")
    def repeatable(self, trial: Trial) -> Miss | None:
        """Runs can be repeated."""
        for rank, seen in trial.seen.items():
            if seen["epochs"][1] != seen["again"]:
                one, two = ([i for batch in run for i in batch] for run in (seen["epochs"][1], seen["again"]))
                return Miss(
                    f"epoch 1 on rank {rank} was {short(one)}, and {short(two)} when it was made again"
                )
        return None

    @check("Another seed gives another order.")
    def seed_matters(self, trial: Trial) -> Miss | None:
        """A seed that reaches nothing helps nobody."""
        if trial.case["n"] < 12:
            return None
        if any(seen["epochs"][0] != seen["other_seed"] for seen in trial.seen.values()):
            return None
        first = _shared_shards(trial)[0]
        seeds = f"{trial.case['seed']} and {trial.case['other_seed']}"
        shuffled = first != sorted(first)
        return Miss(f"rank 0 saw {short(first)} with seeds {seeds}", "seed_ignored" if shuffled else None)

    def recognise_ending(self, outcome: Outcome, trials: Sequence[Trial]) -> str | None:
        """torch itself refuses shuffle=True beside a sampler."""
        if any("mutually exclusive with shuffle" in error.message for error in outcome.errors.values()):
            return "shuffle_and_sampler"
        return None


class Evaluate(Task):
    """The exact accuracy over all ranks."""

    name = "samplers.evaluate"
    title = "An accuracy that counts nobody twice"
    signature = "evaluate(model, dataset)"
    lesson = LESSON
    hints = (
        "An accuracy is two numbers: how many were right, of how many. Numbers can be added over ranks; accuracies "
        "cannot be averaged unless every rank has equally many samples.",
        "DistributedSampler pads, and padded samples would count twice. Deal out the numbers yourself: "
        "range(rank, len(dataset), world_size) gives every sample to exactly one rank.",
        "Put both numbers into one tensor and all_reduce it once, after the loop: a rank with fewer samples has "
        "fewer batches, but every rank must reach the collective equally often - also a rank with no samples.",
    )
    misconceptions = (
        Misconception(
            "padding_counted",
            "The samples that DistributedSampler repeats to make the shards equal are counted twice.",
            _EVALUATE,
        ),
        Misconception(
            "mean_of_means",
            "The ranks' accuracies are averaged, but the ranks have unequally many samples: add up right answers and "
            "samples, then divide once.",
            _EVALUATE,
        ),
        Misconception(
            "summed_not_averaged",
            "The ranks' accuracies are added up: all_reduce sums, unless it is told otherwise.",
            _EVALUATE,
        ),
        Misconception(
            "not_reduced",
            "Every rank returns the accuracy of its own samples: nothing brings the counts together.",
            _EVALUATE,
        ),
        Misconception(
            "only_rank_0_knows",
            "Only rank 0 has the result. reduce(dst=0) leaves the others with leftovers: all_reduce gives it to all.",
            _EVALUATE,
        ),
        Misconception("samples_dropped", "drop_last leaves samples out of the score.", _DROPPED),
        Misconception(
            "everyone_does_everything",
            "The number is right, but every rank evaluates the whole data set: four ranks do the work of one.",
            _LOADER,
        ),
        Misconception(
            "rank_0_alone",
            "Rank 0 evaluates everything while the others wait: the work is not shared.",
            _EVALUATE,
        ),
        Misconception(
            "collective_per_batch",
            "There is a collective in the loop over batches, and a rank with fewer samples leaves the loop earlier: "
            "the others wait in a collective it never joins.",
            _EVALUATE,
        ),
    )

    def cases(self, world_size: int, chance: Random) -> Iterator[dict[str, Any]]:
        """Sizes that divide, that do not, and fewer samples than ranks; who is classified rightly is drawn."""
        for n in (
            world_size * chance.randint(4, 8),
            world_size * chance.randint(3, 9) + 1,
            world_size * chance.randint(20, 30) + max(1, world_size - 1),
            max(1, world_size - 1),
        ):
            labels = [chance.randrange(4) for _ in range(n)]
            # Hits and misses are mixed unevenly, so that the ranks' accuracies differ.
            hits = [chance.random() < (0.9 if index % world_size == 0 else 0.4) for index in range(n)]
            if n > 1:
                hits[0], hits[-1] = True, False
            winners = [label if hit else (label + 1) % 4 for label, hit in zip(labels, hits, strict=True)]
            features = [[2.0 if k == win else round(chance.random(), 3) for k in range(4)] for win in winners]
            yield {"features": features, "labels": labels}

    def describe(self, case: Mapping[str, Any]) -> str:
        """The size says enough."""
        return f"n={len(case['labels'])}"

    def trial(self, answer: Callable[..., Any], case: Mapping[str, Any]) -> Any:
        """What the rank says the accuracy is, and how many samples went through its model."""
        model, samples_seen = toys.counting_classifier()
        result = answer(model, toys.Labelled(case["features"], case["labels"]))
        return {"accuracy": toys.number(result), "samples": samples_seen()}

    def oracle(self, case: Mapping[str, Any], world_size: int) -> Any:
        """The accuracy found by one process, and the accuracies that misconceptions find."""
        model, _ = toys.counting_classifier()
        data = toys.Labelled(case["features"], case["labels"])
        hits = [
            int(model(features).argmax()) == label for features, label in (data[i] for i in range(len(data)))
        ]
        return accuracies(hits, world_size)

    @check("Every rank returns a number.", gate=True)
    def gives_number(self, trial: Trial) -> Miss | None:
        """A float, or a tensor with one element."""
        odd = {rank: seen["accuracy"] for rank, seen in trial.seen.items() if is_odd(seen["accuracy"])}
        if not odd:
            return None
        rank = min(odd)
        alone = trial.seen[0]["samples"] > 0 and all(trial.seen[other]["samples"] == 0 for other in odd)
        known = None if 0 in odd else ("rank_0_alone" if alone else "only_rank_0_knows")
        return Miss(f"on {_on(trial.world_size)}, {rank_list(odd)} returned {odd[rank]['odd']}", known)

    @check("Every rank returns the accuracy over the whole data set, each sample counted once.")
    def exact(self, trial: Trial) -> Miss | None:
        """As one process finds it."""
        right = trial.oracle["right"][0]
        wrong = {
            rank: seen["accuracy"] for rank, seen in trial.seen.items() if not _close(seen["accuracy"], right)
        }
        if not wrong:
            return None
        rank = min(wrong)
        observed = (
            f"with n={len(trial.case['labels'])} on {_on(trial.world_size)}, {rank_list(wrong)} returned "
            f"{wrong[rank]:.4f}; one process alone finds {right:.4f}"
        )
        return Miss(observed)

    @check("The ranks share the work: each sample goes through the model of one rank.")
    def shared(self, trial: Trial) -> Miss | None:
        """Counted in samples that went through the model; padding may go through it as long as it is not counted."""
        n, ranks = len(trial.case["labels"]), trial.world_size
        if ranks == 1 or n < 2 * ranks:
            return None
        samples = [trial.seen[rank]["samples"] for rank in range(ranks)]
        most = math.ceil(n / ranks)
        observed = f"with n={n} on {ranks} ranks, {short(samples)} samples went through the ranks' models"
        if all(count >= n for count in samples):
            return Miss(observed, "everyone_does_everything")
        if samples[0] >= n and not any(samples[1:]):
            return Miss(observed, "rank_0_alone")
        # Splits other than one by one are fine, as long as nobody does much more than a fair share.
        return Miss(observed) if max(samples) > 2 * most else None

    def recognise(self, trials: Sequence[Trial]) -> str | None:
        """Which misconception finds exactly these accuracies on all ranks?"""
        seen = [
            Trial(t.world_size, t.case, t.oracle, {rank: s["accuracy"] for rank, s in t.seen.items()})
            for t in trials
        ]
        names = {name for trial in trials for name in trial.oracle["models"]}
        models = [
            Model(item.id, lambda trial, name=name: trial.oracle["models"][name])  # type: ignore[misc]
            for item in self.misconceptions
            for name in sorted(names)
            if name.partition("/")[0] == item.id
        ]
        found = recognise_by_models(seen, lambda trial: trial.oracle["right"], models, _close)
        if found is None and all(_close(t.seen[0], t.oracle["right"][0]) for t in seen):
            others_know = all(_close(value, t.oracle["right"][0]) for t in seen for value in t.seen.values())
            return None if others_know else "only_rank_0_knows"
        return found

    def recognise_ending(self, outcome: Outcome, trials: Sequence[Trial]) -> str | None:
        """A wait that only comes with unequal shards is a collective in the loop."""
        if outcome.kind is Kind.HANG:
            waits = any(waiting.state == "blocked" for waiting in outcome.waiting.values())
            # The first case of every world size has equal shards.
            equal_went_well = any(t.world_size == outcome.world_size for t in trials)
            return "collective_per_batch" if waits and equal_went_well else None
        return self.recognise(trials)


def _on(ranks: int) -> str:
    return "1 rank" if ranks == 1 else f"{ranks} ranks"


def _close(a: Any, b: Any) -> bool:
    if is_odd(a) or is_odd(b):
        return False
    return (math.isnan(a) and math.isnan(b)) or abs(a - b) < 1e-5


class SeedEverything(Task):
    """Equal weights, different noise."""

    name = "samplers.seed_everything"
    title = "Equal weights, different noise"
    signature = "seed_everything(build_model, seed)"
    lesson = LESSON
    world_sizes = (1, 2, 4)
    hints = (
        "There are two phases: until the model is built, the ranks must draw the same numbers; from then on, "
        "different ones.",
        "torch.manual_seed(seed) before build_model(), and torch.manual_seed(something with the rank in it) after it.",
        "Augmentations also draw from numpy.random and from random: seed those two as well, per rank.",
    )
    misconceptions = (
        Misconception(
            "same_noise_everywhere",
            "All ranks draw the same random numbers: every rank augments and drops out in the same way, and the "
            "batch is less varied than it looks.",
            _SEEDS,
        ),
        Misconception(
            "different_init",
            "The ranks start from different weights. DDP would send rank 0's weights to all when it wraps the model; "
            "without it, gradients are averaged over different models.",
            _SEEDS,
        ),
        Misconception(
            "generator_forgotten",
            "There are three global generators - torch's, numpy's and Python's - and one of them was not seeded: "
            "what it draws cannot be repeated.",
            _SEEDS,
        ),
        Misconception("seed_ignored", "The seed changes nothing (on at least one rank).", _SEEDS),
    )

    def cases(self, world_size: int, chance: Random) -> Iterator[dict[str, Any]]:
        """Two seeds each."""
        for _ in range(2):
            seed = chance.randint(1, 10_000)
            yield {"seed": seed, "other_seed": seed + 1000 + chance.randint(1, 10_000)}

    def describe(self, case: Mapping[str, Any]) -> str:
        """The seed it is called with first."""
        return f"seed={case['seed']}"

    def trial(self, answer: Callable[..., Any], case: Mapping[str, Any]) -> Any:
        """The model's weights and what the three generators draw next: twice with one seed, once with another."""
        import random

        import numpy as np
        import torch

        def once(seed: int) -> Any:
            model = answer(toys.small_network, seed)
            if not isinstance(model, torch.nn.Module):
                return toys.odd(model)
            weights = [w for p in model.parameters() for w in p.detach().flatten().tolist()]
            noise = {
                "torch": torch.rand(3).tolist(),
                "numpy": np.random.rand(3).tolist(),
                "random": [random.random() for _ in range(3)],
            }
            return {"weights": weights, "noise": noise}

        return {"first": once(case["seed"]), "again": once(case["seed"]), "other": once(case["other_seed"])}

    @check("Every rank gets the model.", gate=True)
    def gives_model(self, trial: Trial) -> Miss | None:
        """A torch.nn.Module."""
        for rank, seen in trial.seen.items():
            for run in seen.values():
                if is_odd(run):
                    return Miss(f"rank {rank} returned {run['odd']}")
        return None

    @check("All ranks start from the same weights.")
    def same_weights(self, trial: Trial) -> Miss | None:
        """Bit by bit."""
        first = trial.seen[0]["first"]["weights"]
        for rank, seen in trial.seen.items():
            mine = seen["first"]["weights"]
            if mine != first:
                return Miss(
                    f"the first weight is {first[0]:.4f} on rank 0 and {mine[0]:.4f} on rank {rank}"
                    if mine and first and mine[0] != first[0]
                    else f"the weights of rank {rank} are not those of rank 0",
                    "different_init",
                )
        return None

    @check("Every rank draws its own random numbers: from torch, numpy and random.")
    def own_noise(self, trial: Trial) -> Miss | None:
        """No two ranks alike."""
        for name in ("torch", "numpy", "random"):
            drawn: dict[tuple[float, ...], int] = {}
            for rank, seen in trial.seen.items():
                numbers = tuple(seen["first"]["noise"][name])
                if numbers in drawn:
                    text = short([f"{x:.4f}" for x in numbers])
                    return Miss(
                        f"{name} drew {text} on ranks {drawn[numbers]} and {rank}", "same_noise_everywhere"
                    )
                drawn[numbers] = rank
        return None

    @check("The same seed gives the same weights and the same random numbers again.")
    def repeatable(self, trial: Trial) -> Miss | None:
        """Runs can be repeated."""
        for rank, seen in trial.seen.items():
            first, again = seen["first"], seen["again"]
            seed = trial.case["seed"]
            for name in ("torch", "numpy", "random"):
                one, two = first["noise"][name], again["noise"][name]
                if one != two:
                    return Miss(
                        f"on rank {rank}, {name} drew {one[0]:.4f} after seed {seed}, and {two[0]:.4f} the next time",
                        "generator_forgotten",
                    )
            if first["weights"] != again["weights"]:
                return Miss(f"on rank {rank}, seed {seed} gave other weights the next time")
        return None

    @check("Another seed gives other weights and other random numbers.")
    def seed_matters(self, trial: Trial) -> Miss | None:
        """On every rank."""
        for rank, seen in trial.seen.items():
            seeds = f"seeds {trial.case['seed']} and {trial.case['other_seed']}"
            if seen["first"]["weights"] == seen["other"]["weights"]:
                return Miss(f"rank {rank} has the same weights with {seeds}", "seed_ignored")
            for name in ("torch", "numpy", "random"):
                if seen["first"]["noise"][name] == seen["other"]["noise"][name]:
                    return Miss(
                        f"rank {rank} draws the same numbers from {name} with {seeds}", "seed_ignored"
                    )
        return None
