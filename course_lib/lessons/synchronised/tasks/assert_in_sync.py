"""Task 1: an alarm that rings on all ranks alike, and says what differs and where."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import TYPE_CHECKING, TypedDict

from course_lib.tasks.task import Miss, Recognised, Task, Trial, check, recognise_by_blindness
from realranks.outcome.fold import rank_list
from realranks.outcome.outcome import Kind, Outcome

if TYPE_CHECKING:
    from torch import Tensor, nn

_PARAMETERS = ("encoder.weight", "head.weight", "head.bias")
_MEANS, _COUNTER = "norm.running_mean", "norm.num_batches_tracked"
#: What is done to the model; the first two leave it equal on all ranks.
_WAYS = ("equal", "nan", "nudged", "permuted", "buffer", "counter", "two")


class Place(TypedDict):
    """A tensor of a rank's model."""

    tensor: str
    rank: int


class Case(TypedDict):
    """A change (see `_WAYS`) of some tensors."""

    seed: int
    how: str
    odd: list[Place]


class Seen(TypedDict):
    """The error's message, and whether the model is unchanged."""

    message: str | None
    kept: bool


ThisTrial = Trial[Case, Seen, bool]


def _model(seed: int) -> nn.Module:
    """Return Linear, BatchNorm, Linear; all numbers are multiples of 1/64: their sums are exact in any order."""
    import torch
    from torch import nn

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder, self.norm, self.head = nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Linear(5, 3)

    net, generator = Net(), torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, tensor in net.state_dict().items():
            if name != _COUNTER:
                tensor.copy_(
                    torch.randperm(64, generator=generator)[: tensor.numel()].view_as(tensor) / 64 + 0.5
                )
    return net


def _changed(tensor: Tensor, how: str) -> None:
    """Change it in place: all of it reversed, or its last element."""
    flat = tensor.view(-1) if tensor.dim() else tensor.view(1)
    if how == "permuted":
        flat.copy_(flat.flip(0))
    elif how == "counter":
        flat[-1] += 1
    else:
        flat[-1] += {"nudged": 2e-6, "nan": float("nan")}.get(how, 0.25)


class AssertInSync(Task[Case, Seen, bool]):
    """An alarm that rings on all ranks alike, and says what differs and where."""

    name = "synchronised.assert_in_sync"
    world_sizes = (1, 2, 3)

    def cases(self, world_size: int, chance: Random) -> Iterator[Case]:
        """Yield equal models, and all ways in which one tensor on one rank can differ from rank 0's."""
        for number, how in enumerate(_WAYS if world_size > 1 else _WAYS[:2], world_size):
            name = _PARAMETERS[number % len(_PARAMETERS)]  # each is nudged or put into another order once
            odd: list[Place] = [
                {
                    "tensor": {"buffer": _MEANS, "counter": _COUNTER}.get(how, name),
                    "rank": chance.randrange(1, max(2, world_size)),
                }
            ]
            if how == "two":
                odd.append({"tensor": _MEANS, "rank": 1})
            yield {"seed": chance.randint(1, 10**6), "how": how, "odd": [] if how == "equal" else odd}

    def describe(self, case: Case) -> str:
        places = " and ".join(f"{odd['tensor']} of rank {odd['rank']}" for odd in case["odd"])
        return {
            "equal": "a model that is the same on all ranks",
            "nan": "a model that has the same NaN on all ranks",
            "nudged": f"one number of {places} changed by 0.000002",
            "permuted": f"{places} in another order",
        }.get(case["how"], f"{places} changed")

    def trial(self, answer: Callable[[nn.Module], object], case: Case) -> Seen:
        import torch

        model = _model(case["seed"])
        tensors = model.state_dict()
        for odd in case["odd"]:
            if case["how"] == "nan" or odd["rank"] == int(os.environ["RANK"]):
                _changed(tensors[odd["tensor"]], case["how"])
        before = {name: tensor.clone() for name, tensor in tensors.items()}
        message = None
        try:
            answer(model)
        except Exception as error:
            if "closed by peer" in str(error) or "Connection" in str(error):
                raise
            message = f"{type(error).__name__}: {error}"[:2000]
        kept = all(
            torch.equal(old.nan_to_num(7.0), model.state_dict()[name].nan_to_num(7.0))
            for name, old in before.items()
        )
        return {"message": message, "kept": kept}

    def oracle(self, case: Case, world_size: int) -> bool:
        return case["how"] not in _WAYS[:2]

    @check("The model is still what it was.")
    def unchanged(self, trial: ThisTrial) -> Miss | None:
        for rank, seen in trial.seen.items():
            if not seen["kept"]:
                return Miss(
                    f"with {self.describe(trial.case)}, the model of rank {rank} was changed", "repaired"
                )
        return None

    @check("Nothing is raised where all ranks have the same model.")
    def silent(self, trial: ThisTrial) -> Miss | None:
        for rank, seen in trial.seen.items():
            if not trial.oracle and seen["message"] is not None:
                return Miss(f"with {self.describe(trial.case)}, rank {rank} raised {seen['message'][:200]}")
        return None

    @check("Every rank raises where one rank differs.")
    def rings(self, trial: ThisTrial) -> Miss | None:
        quiet = [rank for rank, seen in sorted(trial.seen.items()) if seen["message"] is None]
        if trial.oracle and quiet:
            return Miss(
                f"with {self.describe(trial.case)}, {rank_list(quiet)} of {trial.world_size} raised nothing",
                "own_view" if len(quiet) < trial.world_size else None,
            )
        return None

    @check("The error names a tensor that differs, and a rank where it is not that of rank 0.")
    def named(self, trial: ThisTrial) -> Miss | None:
        """Such as `head.bias` and `rank 2`; where several differ, any of them."""
        for rank, seen in trial.seen.items():
            message = seen["message"]
            if message is None:
                continue  # that it raised nothing was said before
            if trial.oracle and not any(_names(message, odd) for odd in trial.case["odd"]):
                return Miss(f"with {self.describe(trial.case)}, rank {rank} raised {message[:200]}")
        return None

    @check("The error says the same on every rank.")
    def alike(self, trial: ThisTrial) -> Miss | None:
        messages = {seen["message"] for seen in trial.seen.values()}
        if trial.oracle and len(messages) > 1 and None not in messages:
            rank = _other(trial)
            first, other = (str(trial.seen[each]["message"])[:150] for each in (0, rank))
            return Miss(
                f"with {self.describe(trial.case)}, rank 0 raised {first}; rank {rank} raised {other}"
            )
        return None

    def recognise(self, trials: Sequence[ThisTrial]) -> Recognised:
        if any(not seen["kept"] for trial in trials for seen in trial.seen.values()):
            return "repaired"
        rang = [t.with_seen({r: s["message"] is not None for r, s in t.seen.items()}) for t in trials]
        if any(trial.oracle and len(set(trial.seen.values())) > 1 for trial in rang):
            return "own_view"
        wrong = {t.case["how"] for t in rang if any(seen != t.oracle for seen in t.seen.values())}
        right = {t.case["how"] for t in rang if all(seen == t.oracle for seen in t.seen.values())}
        if wrong & right:
            return None  # it depends on something else
        found = recognise_by_blindness(wrong, right, _BLIND)
        names = (found,) if isinstance(found, str) else found or ()
        return tuple(dict.fromkeys(name.partition("/")[0] for name in names))

    def recognise_ending(self, outcome: Outcome, trials: Sequence[ThisTrial]) -> Recognised:
        """Recognise ranks that raised at the first difference while the others wait."""
        if outcome.kind not in (Kind.HANG, Kind.DIED):
            return self.recognise(trials)
        went_well = [trial.case["how"] for trial in trials if trial.world_size == outcome.world_size]
        return "own_view" if went_well[:2] == list(_WAYS[:2]) else None


#: For each misconception the differences that it does not see (or, with NaN, sees where there is none).
_BLIND = {
    "sums_compared": ("permuted",),
    "sums_compared/roughly": ("permuted", "nudged"),
    "tolerance": ("nudged",),
    "buffers_forgotten": ("buffer", "counter"),
    "integers_forgotten": ("counter",),
    "nan_differs": ("nan",),
}


def _other(trial: ThisTrial) -> int:
    return next(rank for rank, seen in trial.seen.items() if seen["message"] != trial.seen[0]["message"])


def _names(message: str, odd: Place) -> bool:
    """Return whether the message has the tensor's name and the rank, as in `rank 2`, `ranks [1, 2]` or `rank=2`."""
    ranks = re.findall(r"[Rr]anks?\W*((?:\d+\W+(?:and\W+)?)*\d+)", message)
    return (
        odd["tensor"] in message
        and str(odd["rank"]) in " ".join(ranks).replace(",", " ").replace("]", " ").split()
    )
