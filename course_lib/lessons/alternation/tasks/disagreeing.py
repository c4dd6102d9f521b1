"""Task 5: the check that finds gradients which are not the same on all ranks."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import TYPE_CHECKING, TypedDict

from course_lib.tasks import toys
from course_lib.tasks.compared import compared
from course_lib.tasks.task import Miss, Recognised, Task, Trial, check, gate, recognise_by_blindness
from course_lib.tasks.weights import drawn, network
from realranks.outcome.outcome import Kind, Outcome

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn.parallel import DistributedDataParallel

_SIZES = (4, 3, 5, 2)
_HOW = ("equal", "two_backwards", "nudged", "slightly", "reversed", "nan", "missing")
_NAMES = [f"{layer}.{kind}" for layer in (0, 2, 4) for kind in ("weight", "bias")]


class Case(TypedDict):
    """A change of the gradients of the parameters with the numbers `odd`, on one rank.

    In `equal`, it is done on all ranks: they have none.
    """

    seed: int
    how: str
    odd: list[int]
    rank: int


class Seen(TypedDict):
    """The names returned, and whether the gradients are still what they were."""

    names: list[str]
    kept: bool


ThisTrial = Trial[Case, Seen, list[str]]


def _changed(gradient: Tensor | None, how: str) -> Tensor | None:
    if how == "missing" or gradient is None:
        return None
    if how == "reversed":
        return gradient.flatten().flip(0).view_as(gradient).clone()
    changed = gradient.clone()
    last = changed.view(-1)[-1:]
    last += {"nudged": 0.05, "nan": math.nan}.get(how, last * 3e-7 + 1e-12)  # also where it is 0
    return changed


class Disagreeing(Task[Case, Seen, list[str]]):
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
            fixed = {"nudged": world_size - 1, "reversed": world_size // 2, "nan": 0}
            rank = fixed.get(how, chance.randrange(world_size))
            yield {"seed": chance.randint(1, 10**6), "how": how, "odd": odd, "rank": rank}

    def describe(self, case: Case) -> str:
        names = " and ".join(_NAMES[index] for index in case["odd"])
        return {
            "equal": f"equal gradients, and none of {names} on any rank",
            "two_backwards": "two forwards and then two backwards",
            "nudged": f"one number in the gradients of {names} changed on rank {case['rank']}",
            "slightly": f"one number in the gradients of {names} changed in its last digit on rank {case['rank']}",
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
        return {"names": names, "kept": kept}

    def oracle(self, case: Case, world_size: int) -> list[str]:
        if world_size == 1 or case["how"] == "equal":
            return []
        if case["how"] == "two_backwards":
            return sorted(_NAMES)
        return sorted(_NAMES[index] for index in case["odd"])

    gives_names = gate("Every rank returns a list of names.", "rank {rank} returned {given}")

    unchanged = compared(
        "The gradients are still what they were.",
        "with {case}, the check has changed gradients on rank {rank} of {ranks}",
        of="kept",
        right=lambda *_: True,
        known="gradients_changed",
    )

    @check("Every rank returns the names of the parameters whose gradients differ between ranks.")
    def right(self, trial: ThisTrial) -> Miss | None:
        """The same names on all ranks."""
        for rank, seen in trial.seen.items():
            if seen["names"] != trial.oracle:
                return Miss(
                    f"with {self.describe(trial.case)}, rank {rank} of {trial.world_size} returned {seen['names']}; "
                    f"it should be {trial.oracle}"
                )
        return None

    def recognise(self, trials: Sequence[ThisTrial]) -> Recognised:
        if any(not seen["kept"] for trial in trials for seen in trial.seen.values()):
            return "gradients_changed"
        plain = [t.with_seen({rank: s["names"] for rank, s in t.seen.items()}) for t in trials]
        if any(len({tuple(names) for names in trial.seen.values()}) > 1 for trial in plain):
            return "own_view"
        equal = [t for t in plain if t.world_size > 1 and t.case["how"] == "equal"]
        if any(len(t.seen[0]) == len(_NAMES) - len(t.case["odd"]) for t in equal):
            return "no_values"
        wrong = [t for t in plain if any(names != t.oracle for names in t.seen.values())]
        some = [t for t in wrong if any(t.seen.values())]
        if any(t.case["how"] != "slightly" or not {*t.oracle}.issuperset(t.seen[0]) for t in some):
            return None  # something was named, but not what differs; a tolerance may let one of two through
        missed = {trial.case["how"] for trial in wrong}
        seen = {t.case["how"] for t in plain if t.oracle and t not in wrong}
        if seen & missed - {"slightly"}:
            return None  # it depends on the rank that differs; a tolerance lets some through
        found = recognise_by_blindness(missed, seen, _BLIND)
        names = (found,) if isinstance(found, str) else found or ()
        return tuple(dict.fromkeys(name.partition("/")[0] for name in names))

    def recognise_ending(self, outcome: Outcome, trials: Sequence[ThisTrial]) -> Recognised:
        """Recognise a missing gradient: only its case lets the ranks part, after every other case went through."""
        ways = [trial.case["how"] for trial in trials if trial.world_size == outcome.world_size]
        if ways == list(_HOW[:-1]) and outcome.kind is not Kind.OK:
            return "missing_gradient"
        return self.recognise(trials)


#: For each misconception the differences that it does not see.
_BLIND = {
    "weights_compared": _HOW,
    "only_norms": ("reversed",),
    "only_norms/roughly": ("reversed", "slightly"),
    "tolerance": ("slightly",),
    "missing_gradient": ("missing",),
    "nan_passed": ("nan",),
}
