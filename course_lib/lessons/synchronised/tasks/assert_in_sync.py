"""Task 1: an alarm that rings on all ranks alike, and says what differs and where."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from random import Random
from typing import TYPE_CHECKING, Any, TypedDict

from course_lib.tasks.task import Miss, Task, Trial, check
from realranks.outcome.fold import rank_list

if TYPE_CHECKING:
    from torch import Tensor, nn

_PARAMETERS = ("encoder.weight", "head.weight", "head.bias")
_MEANS, _COUNTER = "norm.running_mean", "norm.num_batches_tracked"
#: What is done to the model; the first two leave it equal on all ranks.
_WAYS = ("equal", "nan", "buffer", "nudged", "permuted", "counter", "two")


class Place(TypedDict):
    """A tensor of a rank's model."""

    tensor: str
    rank: int


class Case(TypedDict):
    """A change (see `_WAYS`) of some tensors."""

    seed: int
    how: str
    odd: list[Place]


#: The error's `message`, whether the model is unchanged (`kept`) and, by the case's `how`, whether anything was raised:
#: differences of each kind are overlooked independently.
Seen = dict[str, Any]
ThisTrial = Trial[Case, Seen, dict[str, list[Seen]]]


def _differs(case: Case) -> bool:
    return case["how"] not in _WAYS[:2]


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


class AssertInSync(Task[Case, Seen, dict[str, list[Seen]]]):
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
        return {"message": message, "kept": kept, case["how"]: message is not None}

    def oracle(self, case: Case, world_size: int) -> dict[str, list[Seen]]:
        return {"right": [{case["how"]: _differs(case), "kept": True}] * world_size}

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
            if not _differs(trial.case) and seen["message"] is not None:
                return Miss(f"with {self.describe(trial.case)}, rank {rank} raised {seen['message'][:200]}")
        return None

    @check("Every rank raises where one rank differs.")
    def rings(self, trial: ThisTrial) -> Miss | None:
        quiet = [rank for rank, seen in sorted(trial.seen.items()) if seen["message"] is None]
        if _differs(trial.case) and quiet:
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
            if _differs(trial.case) and not any(_names(message, odd) for odd in trial.case["odd"]):
                return Miss(f"with {self.describe(trial.case)}, rank {rank} raised {message[:200]}")
        return None

    @check("The error says the same on every rank.")
    def alike(self, trial: ThisTrial) -> Miss | None:
        messages = {seen["message"] for seen in trial.seen.values()}
        if _differs(trial.case) and len(messages) > 1 and None not in messages:
            rank = _other(trial)
            first, other = (str(trial.seen[each]["message"])[:150] for each in (0, rank))
            return Miss(
                f"with {self.describe(trial.case)}, rank 0 raised {first}; rank {rank} raised {other}"
            )
        return None


def _other(trial: ThisTrial) -> int:
    return next(rank for rank, seen in trial.seen.items() if seen["message"] != trial.seen[0]["message"])


def _names(message: str, odd: Place) -> bool:
    """Return whether the message has the tensor's name and the rank, as in `rank 2`, `ranks [1, 2]` or `rank=2`."""
    ranks = re.findall(r"[Rr]anks?\W*((?:\d+\W+(?:and\W+)?)*\d+)", message)
    return (
        odd["tensor"] in message
        and str(odd["rank"]) in " ".join(ranks).replace(",", " ").replace("]", " ").split()
    )
