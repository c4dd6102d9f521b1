"""Task 2: one generation of evolution, on all ranks, after which DDP is still true."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from random import Random
from typing import TYPE_CHECKING, TypedDict

from course_lib.tasks import toys
from course_lib.tasks.task import Miss, Recognised, Task, Trial, check, gate
from course_lib.tasks.weights import farthest, numbers
from realranks.outcome.outcome import Kind, Outcome

if TYPE_CHECKING:
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel

_GENERATIONS = 3
#: So many numbers of noise tell how strong it is, and of what kind: of so many normal ones, one is surely above 1.9
#: times their standard deviation (uniform ones never are).
_ENOUGH, _TAIL = 200, 1.9
#: More numbers of a mutant's noise are not equal by chance.
_REPEATED = 4


class Case(TypedDict):
    """A model that nearly every mutant improves (`grow`), that none does (`settled`), or that all equal (`plateau`).

    `lift`: what is added to the fitness.
    """

    seed: int
    how: str
    lift: float
    sigma: float
    generations: int


class Mutant(TypedDict):
    """Something that `fitness` was asked about."""

    weights: list[float]
    fitness: float


class Generation(TypedDict):
    """The model before, what was tried, what was returned, and the model afterwards.

    Attributes:
        in_place: whether it has the parameters that DDP knows. gradients: those of a step after it.
    """

    parent: list[float]
    parent_fitness: float
    tried: list[Mutant]
    returned: float
    after: list[float]
    after_fitness: float
    in_place: bool
    gradients: list[float]


ThisTrial = Trial[Case, list[Generation], None]


def _close(a: Sequence[float], b: Sequence[float]) -> bool:
    return all(abs(x - y) <= 1e-5 for x, y in zip(a, b, strict=True))


class Mutate(Task[Case, list[Generation], None]):
    """One generation of evolution, on all ranks, after which DDP is still true."""

    name = "synchronised.mutate"
    world_sizes = (1, 2, 3)

    def cases(self, world_size: int, chance: Random) -> Iterator[Case]:
        """Yield a model that nearly every mutant improves, one that none does, and one that all equal."""
        for how, lift in (("grow", 0.0), ("settled", 0.0), ("plateau", 0.0), ("grow", -100.0)):
            yield {
                "seed": chance.randint(1, 10**6),
                "how": how,
                "lift": lift,
                "sigma": round(chance.uniform(0.2, 0.6), 2),
                "generations": _GENERATIONS if how == "grow" else 1,
            }

    def describe(self, case: Case) -> str:
        found = {
            "grow": "a model that is easily improved",
            "settled": "a model at its best",
            "plateau": "a fitness that is the same for every module",
        }[case["how"]]
        return f"{found}, whose fitness is below 0" if case["lift"] else found

    def trial(
        self,
        answer: Callable[[DistributedDataParallel, Callable[[nn.Module], float], float, int], object],
        case: Case,
    ) -> list[Generation]:
        import torch

        rank = int(os.environ["RANK"])
        torch.manual_seed(case["seed"])
        net = toys.small_network()
        if case["how"] == "grow":
            with torch.no_grad():
                for parameter in net.parameters():
                    parameter.mul_(0.01)
        model = torch.nn.parallel.DistributedDataParallel(net)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        known = list(net.parameters())
        probe = torch.randn(8, 4)
        with torch.no_grad():
            settled = net(probe).clone()
        tried: list[Mutant] = []

        def score(module: nn.Module) -> float:
            if case["how"] == "plateau":
                return 1.0
            with torch.no_grad():
                outputs = module(probe)
                if case["how"] == "grow":
                    return float(outputs.square().mean()) + case["lift"]
                return -float((outputs - settled).square().mean())

        def fitness(module: nn.Module) -> float:
            """Rate a module: larger is better."""
            value = score(module)
            tried.append({"weights": numbers(module.parameters()), "fitness": value})
            return value

        generations: list[Generation] = []
        returned: list[object] = []
        for generation in range(case["generations"]):
            tried.clear()
            parent, best = numbers(net.parameters()), score(net)
            # The third generation has the seed of the first.
            returned.append(answer(model, fitness, case["sigma"], case["seed"] + 1 + generation % 2))
            same = [a is b for a, b in zip(known, model.module.parameters(), strict=False)]
            record: Generation = {
                "parent": parent,
                "parent_fitness": best,
                "tried": list(tried[:50]),
                "returned": 0.0,
                "after": numbers(model.module.parameters()),
                "after_fitness": score(model.module),
                "in_place": all(same) and len(same) == len(known),
                "gradients": [],
            }
            optimizer.zero_grad()
            model(torch.randn(4, 4, generator=torch.Generator().manual_seed(rank))).square().mean().backward()
            record["gradients"] = [
                x
                for p in model.module.parameters()
                for x in ([] if p.grad is None else p.grad.flatten().tolist())
            ]
            optimizer.step()
            generations.append(record)
            if not record["in_place"]:
                break  # DDP would complain in the next forward
        for record, value in zip(generations, returned, strict=True):
            record["returned"] = toys.number(value)
        return generations

    gives_number = gate("Every rank returns a number.")

    @check("The model's parameters are those that DDP and the optimizer know.", gate=True)
    def in_place(self, trial: ThisTrial) -> Miss | None:
        for rank, seen in trial.seen.items():
            if not all(record["in_place"] for record in seen):
                return Miss(
                    f"on rank {rank} of {trial.world_size}, the model has new parameters",
                    "replaced_parameters",
                )
        return None

    @check("Every rank tries one mutant, and no two ranks the same.")
    def own_mutants(self, trial: ThisTrial) -> Miss | None:
        """What fitness was called with, the model as it was apart."""
        for number in range(len(trial.seen[0])):
            mutants: dict[tuple[float, ...], int] = {}
            for rank, seen in sorted(trial.seen.items()):
                mine = {tuple(one["weights"]) for one in _mutants(seen[number])}
                if len(mine) != 1:
                    return Miss(
                        f"in generation {number + 1} rank {rank} of {trial.world_size} asked for the fitness of "
                        f"{len(mine)} mutants"
                    )
                (weights,) = mine
                if weights in mutants:
                    return Miss(
                        f"in generation {number + 1} ranks {mutants[weights]} and {rank} tried the same mutant",
                        "same_mutant",
                    )
                mutants[weights] = rank
        return None

    @check("A mutant differs from the model in every number, by noise of strength sigma.")
    def strength(self, trial: ThisTrial) -> Miss | None:
        sigma = trial.case["sigma"]
        for rank, seen in trial.seen.items():
            for record in seen:
                for mutant in _mutants(record):
                    gaps = [a - b for a, b in zip(mutant["weights"], record["parent"], strict=True)]
                    repeated = len(gaps) - len({round(gap, 5) for gap in gaps})
                    found = (sum(gap * gap for gap in gaps) / len(gaps)) ** 0.5
                    if not 0.4 * sigma < found < 2 * sigma or not all(gaps):
                        return Miss(
                            f"with sigma={sigma}, the mutant of rank {rank} differs in "
                            f"{sum(gap != 0 for gap in gaps)} of {len(gaps)} numbers, by {found:.2f} on average"
                        )
                    if repeated > _REPEATED:
                        return Miss(
                            f"{repeated} of the {len(gaps)} numbers that rank {rank} added to the weights are those of "
                            "other weights"
                        )
        return None

    @check("The noise is normal, with the standard deviation sigma.")
    def normal(self, trial: ThisTrial) -> Miss | None:
        """All noise of all ranks and generations together, where that is enough."""
        sigma = trial.case["sigma"]
        noise = [gap for seen in trial.seen.values() for record in seen for gap in _noise(record)]
        if len(noise) < _ENOUGH:
            return None
        deviation = math.sqrt(sum(gap * gap for gap in noise) / len(noise))
        largest = max(map(abs, noise))
        if not 0.75 * sigma < deviation < 1.3 * sigma or largest < _TAIL * deviation:
            return Miss(
                f"with sigma={sigma}, the {len(noise)} numbers that {toys.ranks_text(trial.world_size)} added to "
                f"weights deviate by {deviation:.2f}, and none by more than {largest:.2f}"
            )
        return None

    @check("The seed decides the noise: another seed gives other noise, the same seed the same.")
    def seeded(self, trial: ThisTrial) -> Miss | None:
        """The third generation has the seed of the first."""
        for rank, seen in trial.seen.items():
            noises = [_noise(record) for record in seen]
            if len(noises) < _GENERATIONS or not all(noises):
                continue
            if _close(noises[0], noises[1]):
                return Miss(f"on rank {rank} of {trial.world_size}, another seed gave the same noise")
            if not _close(noises[0], noises[2]):
                return Miss(f"on rank {rank} of {trial.world_size}, the same seed gave other noise")
        return None

    @check("Afterwards all ranks have the same weights.")
    def shared(self, trial: ThisTrial) -> Miss | None:
        """Bit by bit, in every generation."""
        for number in range(len(trial.seen[0])):
            for rank, seen in sorted(trial.seen.items()):
                if seen[number]["after"] != trial.seen[0][number]["after"]:
                    gap = farthest(seen[number]["after"], trial.seen[0][number]["after"])
                    return Miss(
                        f"after generation {number + 1} the weights of rank {rank} differ from rank 0's by {gap:.2g}",
                        "not_shared",
                    )
        return None

    @check("The model is the fittest mutant, or what it was if no mutant is fitter.")
    def fittest(self, trial: ThisTrial) -> Miss | None:
        if self.shared(trial):
            return None  # there is no such thing as the model
        for number in range(len(trial.seen[0])):
            record = trial.seen[0][number]
            mutants = {r: _mutants(s[number]) for r, s in sorted(trial.seen.items())}
            if not all(mutants.values()):
                continue
            # The first of the fittest is the best one: an equal mutant is not fitter than the model.
            rivals: dict[str, Mutant] = {
                "the model as it was": {"weights": record["parent"], "fitness": record["parent_fitness"]},
                **{f"rank {r}'s mutant": max(m, key=_fitness) for r, m in mutants.items()},
            }
            best = max(rivals, key=lambda name: _fitness(rivals[name]))
            if _close(record["after"], rivals[best]["weights"]):
                continue
            is_now = [name for name, one in rivals.items() if _close(record["after"], one["weights"])]
            mean = [
                sum(x) / trial.world_size
                for x in zip(*(m[0]["weights"] for m in mutants.values()), strict=True)
            ]
            known = self._chosen(is_now, best)
            if not is_now and _close(record["after"], mean):
                is_now, known = ["the mean of the mutants"], "averaged"
            return Miss(
                f"with {self.describe(trial.case)} on {toys.ranks_text(trial.world_size)}, {best} is the fittest "
                f"({rivals[best]['fitness']:.3f}); the model is {is_now[0] if is_now else 'none of them'} now "
                f"({record['after_fitness']:.3f})",
                known,
            )
        return None

    def _chosen(self, is_now: Sequence[str], best: str) -> str | None:
        if not is_now or is_now[0] == "the model as it was":
            return None
        return "gets_worse" if best == "the model as it was" else None

    @check("Every rank returns the fitness of the model that all have now.")
    def returned_fitness(self, trial: ThisTrial) -> Miss | None:
        for rank, seen in trial.seen.items():
            for number, record in enumerate(seen):
                if _mistaken(record):
                    return Miss(
                        f"in generation {number + 1} rank {rank} returned {record['returned']:.4f}; the model's "
                        f"fitness is {record['after_fitness']:.4f}"
                    )
        return None

    @check("Training goes on: the next backward gives the same gradients on all ranks.")
    def trains(self, trial: ThisTrial) -> Miss | None:
        for number in range(len(trial.seen[0])):
            for rank, seen in sorted(trial.seen.items()):
                if seen[number]["gradients"] != trial.seen[0][number]["gradients"]:
                    return Miss(
                        f"after generation {number + 1} the gradients of rank {rank} are not those of rank 0"
                    )
        return None

    def recognise(self, trials: Sequence[ThisTrial]) -> Recognised:
        """Detect that rank 0's mutant or the least fit one always wins, or that ranks return their own fitness."""
        unfair = [trial for trial in trials if self.fittest(trial) is not None and trial.world_size > 1]
        changes = [_choice(trial, number) for trial in unfair for number in range(len(trial.seen[0]))]
        found = [change for change in changes if change is not None]
        if found and len(found) == len(changes) and all(chosen == 0 for chosen, _ in found):
            return "rank_0_wins"
        if found and all(chosen == least for chosen, least in found):
            return "least_fit"
        # A rank whose mutant has won, or that is alone, returns its own by accident.
        rounds = [
            gang
            for trial in trials
            if trial.world_size > 1
            for gang in zip(*trial.seen.values(), strict=True)
        ]
        mistaken = [gang for gang in rounds if any(map(_mistaken, gang))]
        return "own_fitness" if mistaken and all(map(_returns_own, chain(*mistaken))) else None

    def recognise_ending(self, outcome: Outcome, trials: Sequence[ThisTrial]) -> Recognised:
        return "winner_alone" if outcome.kind is Kind.HANG else None


def _choice(trial: ThisTrial, number: int) -> tuple[int, int] | None:
    """Return whose mutant the model is after a generation, and whose was the least fit; None if it is no mutant."""
    mutants = {rank: _mutants(seen[number]) for rank, seen in sorted(trial.seen.items())}
    if len(mutants) < 2 or not all(mutants.values()):
        return None
    after = trial.seen[0][number]["after"]
    chosen = [rank for rank, tried in mutants.items() if _close(after, tried[0]["weights"])]
    least = min(mutants, key=lambda rank: _fitness(mutants[rank][0]))
    return (chosen[0], least) if chosen else None


def _mistaken(record: Generation) -> bool:
    return abs(record["returned"] - record["after_fitness"]) > 1e-4 * max(1.0, abs(record["after_fitness"]))


def _returns_own(record: Generation) -> bool:
    mine = [one["fitness"] for one in _mutants(record)]
    return bool(mine) and abs(record["returned"] - mine[0]) < 1e-4


def _noise(record: Generation) -> list[float]:
    """Return what was added to the weights to make the first mutant; nothing where there was none."""
    for mutant in _mutants(record):
        return [a - b for a, b in zip(mutant["weights"], record["parent"], strict=True)]
    return []


def _fitness(tried: Mutant) -> float:
    return tried["fitness"]


def _mutants(record: Generation) -> list[Mutant]:
    """Return what was tried, without the model as it was."""
    return [one for one in record["tried"] if one["weights"] != record["parent"]]
