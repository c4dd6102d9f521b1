"""Task 5: the check that finds gradients which are not the same on all ranks."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from random import Random
from typing import TYPE_CHECKING, Any, TypedDict

from course_lib.tasks import toys
from course_lib.tasks.compared import Compared, compared
from course_lib.tasks.task import Miss, Trial, check, gate
from course_lib.tasks.weights import drawn, network

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn.parallel import DistributedDataParallel

_SIZES = (4, 3, 5, 2)
_HOW = ("equal", "two_backwards", "reversed", "nudged", "slightly", "nan", "missing")
_NAMES = [f"{layer}.{kind}" for layer in (0, 2, 4) for kind in ("weight", "bias")]


class Case(TypedDict):
    """A change of the gradients of the parameters with the numbers `odd`, on one rank.

    In `equal`, it is done on all ranks: they have none.
    """

    seed: int
    how: str
    odd: list[int]
    rank: int


#: Whether the gradients are still what they were (`kept`) and, by the case's `how`, the names: differences of each kind
#: are overlooked independently.
Seen = dict[str, Any]
ThisTrial = Trial[Case, Seen, dict[str, list[Seen]]]


def _changed(gradient: Tensor | None, how: str) -> Tensor | None:
    if how == "missing" or gradient is None:
        return None
    if how == "reversed":
        return gradient.flatten().flip(0).view_as(gradient).clone()
    changed = gradient.clone()
    flat = changed.view(-1)
    place = flat.abs().argmax() if how == "slightly" else -1  # the largest number: `allclose` overlooks it
    flat[place] += {"nudged": 0.05, "nan": math.nan}.get(how, 2.5e-7)
    return changed


class Disagreeing(Compared[Case, Seen, Seen]):
    """The check that finds gradients which are not the same on all ranks."""

    name = "alternation.disagreeing"
    world_sizes = (1, 2, 3)

    def cases(self, world_size: int, chance: Random) -> Iterator[Case]:
        """Yield equal gradients, those of two backward passes, and one rank that hardly differs."""
        for how in _HOW:
            if how == "nan" and world_size == 1:
                continue  # all ranks have it: that is left to lesson 09
            odd = sorted(chance.sample(range(6), 2))
            # The last rank and one in the middle differ somewhere, whatever is drawn. gloo's MIN and MAX lose a NaN of
            # rank 0.
            fixed = {"nudged": world_size // 2, "reversed": world_size - 1, "nan": 0}
            rank = fixed.get(how, chance.randrange(world_size))
            yield {"seed": chance.randint(1, 10**6), "how": how, "odd": odd, "rank": rank}

    def describe(self, case: Case) -> str:
        names = " and ".join(_NAMES[index] for index in case["odd"])
        return {
            "equal": f"equal gradients, and none of {names} on any rank",
            "two_backwards": "two forwards and then two backwards",
            "nudged": f"one number in the gradients of {names} changed on rank {case['rank']}",
            "slightly": f"one number in the gradients of {names} changed by 0.00000025 on rank {case['rank']}",
            "reversed": f"the gradients of {names} reversed on rank {case['rank']}",
            "nan": f"NaN in the gradients of {names} on rank {case['rank']}",
            "missing": f"no gradients of {names} on rank {case['rank']}, and zeros on the others",
        }[case["how"]]

    def trial(self, answer: Callable[[DistributedDataParallel], object], case: Case) -> Seen:
        import torch

        model = torch.nn.parallel.DistributedDataParallel(network(case["seed"], *_SIZES))
        rank = int(os.environ["RANK"])
        outputs = [model(drawn(case["seed"] + number + 10 * rank, 4, 4)) for number in (1, 2)]
        losses = [(output - 1).square().mean() for output in outputs]
        if case["how"] == "two_backwards":
            for loss in losses:
                loss.backward()
        else:
            (losses[0] + losses[1]).backward()
            for index in case["odd"]:
                parameter = list(model.parameters())[index]
                if case["how"] == "equal":
                    parameter.grad = None
                elif rank == case["rank"]:
                    parameter.grad = _changed(parameter.grad, case["how"])
                elif case["how"] == "missing" and parameter.grad is not None:
                    parameter.grad.zero_()  # where None is taken for zeros, nothing differs
        before = [None if p.grad is None else p.grad.clone() for p in model.parameters()]
        names = toys.parameter_names(answer(model), _NAMES)
        after = [p.grad for p in model.parameters()]
        kept = all(
            old is new if old is None or new is None else old.allclose(new, rtol=0, atol=0, equal_nan=True)
            for old, new in zip(before, after, strict=True)
        )
        return {case["how"]: names, "kept": kept}

    def oracle(self, case: Case, world_size: int) -> dict[str, list[Seen]]:
        odd = [] if world_size == 1 or case["how"] == "equal" else case["odd"]
        names = _NAMES if odd and case["how"] == "two_backwards" else [_NAMES[index] for index in odd]
        return {"right": [{case["how"]: sorted(names), "kept": True}] * world_size}

    gives_names = gate("Every rank returns a list of names.", "rank {rank} returned {given}")

    unchanged = compared(
        "The gradients are still what they were.",
        "with {case}, the check has changed gradients on rank {rank} of {ranks}",
        of="kept",
        known="gradients_changed",
    )

    @check("All ranks return the same names.")
    def same(self, trial: ThisTrial) -> Miss | None:
        how = trial.case["how"]
        first = trial.seen[0][how]
        for rank, seen in trial.seen.items():
            if seen[how] != first:
                return Miss(
                    f"with {self.describe(trial.case)}, rank 0 of {trial.world_size} returned {first}, and rank {rank} "
                    f"{seen[how]}",
                    "own_view",
                )
        return None

    @check("Every rank returns the names of the parameters whose gradients differ between ranks.")
    def right(self, trial: ThisTrial) -> Miss | None:
        how = trial.case["how"]
        for rank, seen in trial.seen.items():
            right = trial.oracle["right"][rank][how]
            if seen[how] != right:
                return Miss(
                    f"with {self.describe(trial.case)}, rank {rank} of {trial.world_size} returned {seen[how]}; it "
                    f"should be {right}"
                )
        return None
