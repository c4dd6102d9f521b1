"""Task 3: the exact accuracy over all ranks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import TYPE_CHECKING, TypedDict

from course_lib.tasks import toys
from course_lib.tasks.compared import Compared
from course_lib.tasks.task import Miss, Recognised, Trial, check, gate
from course_lib.tasks.toys import short
from realranks.outcome.fold import rank_list
from realranks.outcome.outcome import Kind, Outcome, RankState

if TYPE_CHECKING:
    from torch import nn


_SIZES = 4  # cases of each world size


class Case(TypedDict):
    """A data set; a sample counts as its largest feature says."""

    features: list[list[float]]
    labels: list[int]


class Seen(TypedDict):
    """The return value, and how many samples went through the rank's model."""

    accuracy: float
    samples: int


class Score(TypedDict):
    """The right accuracy."""

    accuracy: float


ThisTrial = Trial[Case, Seen, dict[str, list[Score]]]


def _only_rank_0(trial: ThisTrial) -> str | None:
    """Recognise that other ranks give no number: rank 0 knows theirs, or has done all the work."""
    if 0 in trial.wrong_kinds:
        return None
    return "rank_0_alone" if trial.seen[0]["samples"] >= len(trial.case["labels"]) else "only_rank_0_knows"


class Evaluate(Compared[Case, Seen, Score]):
    """The exact accuracy over all ranks."""

    name = "samplers.evaluate"

    def cases(self, world_size: int, chance: Random) -> Iterator[Case]:
        """Yield sizes that divide, that do not, and fewer samples than ranks; the right predictions are drawn."""
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

    def describe(self, case: Case) -> str:
        return f"n={len(case['labels'])}"

    def trial(self, answer: Callable[[nn.Module, toys.Labelled], object], case: Case) -> Seen:
        model, samples_seen = toys.counting_classifier()
        result = answer(model, toys.Labelled(case["features"], case["labels"]))
        return {"accuracy": toys.number(result), "samples": samples_seen()}

    def oracle(self, case: Case, world_size: int) -> dict[str, list[Score]]:
        model, _ = toys.counting_classifier()
        data = toys.Labelled(case["features"], case["labels"])
        hits = [
            int(model(features).argmax()) == label for features, label in (data[i] for i in range(len(data)))
        ]
        return {"right": [{"accuracy": sum(hits) / len(hits)}] * world_size}

    gives_number = gate("Every rank returns a number.", "on {gang}, {who} returned {given}", _only_rank_0)

    @check("Every rank returns the accuracy over the whole data set, each sample counted once.")
    def exact(self, trial: ThisTrial) -> Miss | None:
        right = trial.oracle["right"][0]["accuracy"]
        wrong = {
            rank: s["accuracy"] for rank, s in trial.seen.items() if not self.alike(s["accuracy"], right)
        }
        if not wrong:
            return None
        rank = min(wrong)
        observed = (
            f"with n={len(trial.case['labels'])} on {toys.ranks_text(trial.world_size)}, {rank_list(wrong)} returned "
            f"{wrong[rank]:.6g}; one process alone finds {right:.6g}"
        )
        return Miss(observed, None if 0 in wrong else "only_rank_0_knows")

    @check("The ranks share the work: each sample goes through the model of one rank.")
    def shared(self, trial: ThisTrial) -> Miss | None:
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
        # Splits other than one by one are fine, as long as nobody does much more than a fair share; so is padding.
        return Miss(observed) if max(samples) > 2 * most or sum(samples) > n + 2 * ranks else None

    def recognise_ending(self, outcome: Outcome, trials: Sequence[ThisTrial]) -> Recognised:
        """Recognise a hang on unequal shards: a collective in the loop, or an empty rank that left."""
        if outcome.kind is Kind.HANG:
            waits = any(waiting.state == RankState.BLOCKED for waiting in outcome.waiting.values())
            # The first case of every world size has equal shards, and only the last one a rank without any sample.
            went_well = sum(t.world_size == outcome.world_size for t in trials)
            known = "empty_rank_leaves" if went_well == _SIZES - 1 else "collective_per_batch"
            return known if waits and went_well else None
        return None
