"""Task 4: equal weights, different noise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import TYPE_CHECKING, TypedDict

from course_lib.tasks import toys
from course_lib.tasks.task import Miss, Task, Trial, check, gate
from course_lib.tasks.toys import short

if TYPE_CHECKING:
    from torch import nn


class Case(TypedDict):
    """The seeds of the calls: twice the first, once the next number, once the other."""

    seed: int
    other_seed: int


class Run(TypedDict):
    """The model's weights, and what each generator draws next."""

    weights: list[float]
    noise: dict[str, list[float]]


#: The `first` run, the same `again`, one with the `next` seed, and one with the `other`.
Seen = dict[str, Run]
ThisTrial = Trial[Case, Seen, None]


class SeedEverything(Task[Case, Seen, None]):
    """Equal weights, different noise."""

    name = "samplers.seed_everything"
    world_sizes = (1, 2, 4)

    def cases(self, world_size: int, chance: Random) -> Iterator[Case]:
        for _ in range(2):
            seed = chance.randint(1, 10_000)
            yield {"seed": seed, "other_seed": seed + 1000 + chance.randint(1, 10_000)}

    def describe(self, case: Case) -> str:
        return f"seed={case['seed']}"

    def trial(self, answer: Callable[[Callable[[], nn.Module], int], object], case: Case) -> Seen:
        """Return the weights and the next draws of three generators: twice with one seed, then with two others."""
        import random

        import numpy as np
        import torch

        others: list[object] = []

        def once(seed: int) -> Run:
            model = answer(toys.small_network, seed)
            weights: list[float] = []
            if isinstance(model, torch.nn.Module):
                weights = [w for p in model.parameters() for w in p.detach().flatten().tolist()]
            else:
                others.append(model)
            noise = {
                "torch": torch.rand(3).tolist(),
                "numpy": np.random.rand(3).tolist(),
                "random": [random.random() for _ in range(3)],
            }
            return {"weights": weights, "noise": noise}

        seed = case["seed"]
        seeds = {"first": seed, "again": seed, "next": seed + 1, "other": case["other_seed"]}
        seen = {name: once(seed) for name, seed in seeds.items()}
        if others:
            raise toys.wrong_kind(others[0])
        return seen

    gives_model = gate("Every rank gets the model.", "rank {rank} returned {given}")

    @check("All ranks start from the same weights.")
    def same_weights(self, trial: ThisTrial) -> Miss | None:
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
    def own_noise(self, trial: ThisTrial) -> Miss | None:
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
    def repeatable(self, trial: ThisTrial) -> Miss | None:
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
    def seed_matters(self, trial: ThisTrial) -> Miss | None:
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

    @check("With the next seed, no rank draws what another rank has drawn with this one.")
    def independent_runs(self, trial: ThisTrial) -> Miss | None:
        """Runs with neighbouring seeds can be compared."""
        for name in ("torch", "numpy", "random"):
            drawn = {tuple(seen["first"]["noise"][name]): rank for rank, seen in trial.seen.items()}
            for rank, seen in trial.seen.items():
                other = drawn.get(tuple(seen["next"]["noise"][name]), rank)
                if other != rank:
                    seed = trial.case["seed"]
                    return Miss(
                        f"with seed {seed + 1}, {name} drew on rank {rank} what it had drawn on rank {other} with "
                        f"seed {seed}",
                        "seeds_added",
                    )
        return None
