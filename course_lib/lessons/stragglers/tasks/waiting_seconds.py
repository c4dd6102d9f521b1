"""Task 1: how long a rank waits for others in its backward."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import TYPE_CHECKING, TypedDict

from course_lib.tasks import toys
from course_lib.tasks.task import Miss, Recognised, Task, Trial, WrongKind, check, gate

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn.parallel import DistributedDataParallel

#: How late the late rank is, and how far from the truth an answer may be. The truth is measured in the same backward,
#: so a busy machine changes both; what it does in between is what the tolerance is for.
_LATE, _TOLERANCE = 0.16, 0.06
#: A busy machine may spoil a measurement: then it is made again, and the best one counts.
_ATTEMPTS, _GOOD_ENOUGH = 3, 0.03
#: No backward takes so many seconds: what is returned is something else.
_FAR_TOO_LONG = 10.0
_PLACES = {
    "start": "begins its backward {:.2f} s late",
    "middle": "computes {:.2f} s longer in its backward",
}


class Case(TypedDict):
    """The late rank, its seconds, and the place: at the `start` of its backward or in the `middle`."""

    place: str
    rank: int
    late: float
    seed: int


class Seen(TypedDict):
    """The return value and the truth; a gradient; and how far the worst of all ranks is off."""

    said: float
    truth: float
    gradient: float | None
    worst: float


ThisTrial = Trial[Case, Seen, None]


class WaitingSeconds(Task[Case, Seen, None]):
    """Measure how long a rank waits for others in its backward."""

    name = "stragglers.waiting_seconds"
    world_sizes = (1, 2, 3)

    def cases(self, world_size: int, chance: Random) -> Iterator[Case]:
        """Yield a rank that is late in its backward, which most misconceptions overlook, and before it."""
        for place in ("middle", "start"):
            late = round(_LATE * chance.uniform(0.9, 1.1), 3) if world_size > 1 else 0.0
            seed = chance.randint(1, 10**6)
            yield {"place": place, "rank": chance.randrange(world_size), "late": late, "seed": seed}

    def describe(self, case: Case) -> str:
        return f"rank {case['rank']} {_PLACES[case['place']].format(case['late'])}"

    def trial(self, answer: Callable[[DistributedDataParallel, Tensor], object], case: Case) -> Seen:
        tries: list[tuple[float | str, Seen]] = []
        while len(tries) < _ATTEMPTS and not any(seen["worst"] <= _GOOD_ENOUGH for _, seen in tries):
            tries.append(_measure(answer, case))
        said, seen = min(tries, key=lambda one: one[1]["worst"])
        if isinstance(said, str):
            raise WrongKind(said)
        return {**seen, "said": said}

    gives_seconds = gate("Every rank returns a number of seconds.")

    @check("The backward is DDP's: afterwards all ranks have the mean gradients.", gate=True)
    def averages(self, trial: ThisTrial) -> Miss | None:
        """Seen in a gradient of which every rank has another one on its own."""
        right = (trial.world_size + 1) / 2
        for rank, seen in trial.seen.items():
            if seen["gradient"] is None or abs(seen["gradient"] - right) > 1e-4:
                found = "none" if seen["gradient"] is None else f"{seen['gradient']:g}"
                observed = (
                    f"rank {rank} of {trial.world_size} has a gradient of {found} where the mean is {right:g}"
                )
                return Miss(observed, "not_averaged")
        return None

    @check("Ranks that stand waiting for a late one say how long.")
    def sees_waiting(self, trial: ThisTrial) -> Miss | None:
        """Compared with the moments at which the ranks' last gradients were there."""
        return self._wrong(trial, [rank for rank in trial.seen if rank != trial.case["rank"]])

    @check("The rank that all wait for has hardly waited itself.")
    def sees_work(self, trial: ThisTrial) -> Miss | None:
        """Neither has a rank that is alone."""
        return self._wrong(trial, [trial.case["rank"]])

    def _wrong(self, trial: ThisTrial, ranks: Sequence[int]) -> Miss | None:
        for rank in ranks:
            said, truth = trial.seen[rank]["said"], trial.seen[rank]["truth"]
            if not abs(said - truth) <= _TOLERANCE:
                return Miss(
                    f"on {toys.ranks_text(trial.world_size)}, {self.describe(trial.case)}; rank {rank} waited "
                    f"{truth:.2f} s and said {said:.2f}"
                )
        return None

    def recognise(self, trials: Sequence[ThisTrial]) -> Recognised:
        """Go by which rank reports much and which little; a busy machine may blur one report."""
        reports = [
            (trial.case["place"], rank == trial.case["rank"], seen["said"] > trial.case["late"] / 2)
            for trial in trials
            if trial.world_size > 1
            for rank, seen in trial.seen.items()
        ]
        if any(seen["said"] > _FAR_TOO_LONG for trial in trials for seen in trial.seen.values()):
            return None
        misfits = {
            id_: sum(pattern[place][late] != much for place, late, much in reports)
            for id_, pattern in _PATTERNS.items()
        }
        nearest = min(misfits, key=lambda id_: misfits[id_])
        clear = list(misfits.values()).count(misfits[nearest]) == 1
        return nearest if clear and nearest != "right" and misfits[nearest] <= 1 else None


#: For each place: whether the other ranks report much, whether the late rank does.
_PATTERNS: dict[str, dict[str, tuple[bool, bool]]] = {
    "right": {"start": (True, False), "middle": (True, False)},
    "whole_backward": {"start": (True, False), "middle": (True, True)},
    "time_until_ready": {"start": (False, False), "middle": (False, True)},
    "after_backward": {"start": (False, False), "middle": (False, False)},
    "before_backward": {"start": (True, False), "middle": (False, False)},
}


def _measure(
    answer: Callable[[DistributedDataParallel, Tensor], object], case: Case
) -> tuple[float | str, Seen]:
    """Return what the answer returned, and one backward; all ranks learn how far off the worst of them is."""
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    rank, late = dist.get_rank(), case["late"]
    torch.manual_seed(case["seed"])
    layers = [torch.nn.Linear(8, 8) for _ in range(4)]

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            # Registered in another order than they are used in: the first parameter's gradient is not the last one.
            self.layers = torch.nn.ModuleList(layers[number] for number in (3, 1, 0, 2))

        def forward(self, x: Tensor) -> Tensor:
            for layer in layers:
                x = layer(x)
            return x

    ddp = DistributedDataParallel(Net())
    ready = [0.0]
    for parameter in ddp.parameters():
        # Called as soon as the gradient is computed, also where an answer does without the reducer.
        parameter.register_hook(lambda _: ready.__setitem__(0, time.monotonic()))
    if rank == case["rank"] and case["place"] == "middle":
        # In the middle: gradients of later layers are there already, those of earlier ones are not.
        layers[1].register_full_backward_hook(lambda *_: time.sleep(late))
    loss = (rank + 1) * ddp(torch.ones(4, 8)).sum(1).mean()
    dist.barrier()
    if rank == case["rank"] and case["place"] == "start":
        time.sleep(late)
    said = toys.number_or_text(answer(ddp, loss))
    # The clock is the machine's, so the ranks' readings can be compared.
    times = torch.tensor([ready[0] or time.monotonic()], dtype=torch.float64)
    everyones = [torch.empty_like(times) for _ in range(dist.get_world_size())]
    dist.all_gather(everyones, times)
    truth = max(other.item() for other in everyones) - times.item()
    off = torch.tensor([1e3 if isinstance(said, str) else abs(said - truth)], dtype=torch.float64)
    dist.all_reduce(off, op=dist.ReduceOp.MAX)
    bias = layers[-1].bias.grad
    gradient = None if bias is None else bias[0].item()
    return said, {"said": 0.0, "truth": truth, "gradient": gradient, "worst": off.item()}
