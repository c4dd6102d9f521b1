"""Task 3: accumulation, 16 bits, clipping and a scaler in one loop."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import TYPE_CHECKING

from course_lib.lessons.accumulation.tasks.reduced import times_reduced
from course_lib.lessons.accumulation.tasks.scaled import (
    DECAY,
    EPOCHS,
    RATE,
    SCALE,
    Case,
    Trained,
    groups,
    micro_batch,
    network,
    trained,
)
from course_lib.tasks.compared import Compared, compared, gap, same_everywhere
from course_lib.tasks.precision import Tolerance
from course_lib.tasks.task import Miss, Recognised, Trial, check
from course_lib.tasks.weights import numbers
from realranks.outcome.outcome import Kind, Outcome

if TYPE_CHECKING:
    from torch import Tensor
    from torch.amp import GradScaler
    from torch.nn.parallel import DistributedDataParallel
    from torch.optim import Optimizer
    from torch.optim.lr_scheduler import LRScheduler

    Answer = Callable[
        [
            DistributedDataParallel,
            Optimizer,
            GradScaler,
            LRScheduler,
            list[tuple[Tensor, Tensor]],
            int,
            float,
        ],
        object,
    ]


class Seen(Trained):
    """Also the steps, the weights in the end, how often gradients were sent, and the types of the model's outputs."""

    steps: int
    weights: list[float]
    reduced: float
    types: list[str]


ThisTrial = Trial[Case, Seen, dict[str, list[Trained]]]
#: So many steps are not made.
_NEVER = 2000


def _is_sound(case: Case) -> bool:
    """Return whether nothing overflows."""
    return case["broken"][0] < 0


def _is_finite(seen: Seen) -> bool:
    """Return whether no step had an inf or nan in its gradients."""
    return all(math.isfinite(number) for gradient in seen["gradients"] for number in gradient)


def _skips_once(trial: ThisTrial) -> bool:
    """Return whether all ranks make every step except the one that must be skipped."""
    wanted = len(trial.oracle["right"][0]["gradients"])
    return all(_is_finite(seen) and len(seen["gradients"]) == wanted for seen in trial.seen.values())


def _scale_too_small(trial: ThisTrial, _rank: int) -> str | None:
    """Recognise a scale that is too small although only one step was skipped: each overflow halves it."""
    if _is_sound(trial.case) or not _skips_once(trial):
        return None
    least = min(min(seen["scales"]) for seen in trial.seen.values())
    return "unscaled_inside" if least < min(trial.oracle["right"][0]["scales"]) else None


def _scheduled(trial: ThisTrial, rank: int) -> str | None:
    """Recognise a scheduler that is not at its place: steps that are missing change later rates, too."""
    first = (trial.seen[rank]["rates"][:1], trial.oracle["right"][0]["rates"][:1])
    return "schedule" if _skips_once(trial) or (first[0] and first[0] != first[1]) else None


class AmpStep(Compared[Case, Seen, Trained]):
    """Accumulation, 16 bits, clipping and a scaler in one loop."""

    name = "accumulation.amp_step"
    world_sizes = (1, 2)
    tolerance = Tolerance(1e-2, 1e-2)

    def cases(self, world_size: int, chance: Random) -> Iterator[Case]:
        """Yield a short last group; clipping and a growing scale; then an overflow on one rank."""
        for every, count, max_norm, grows, broken in (
            (3, 7, 100.0, _NEVER, False),
            (3, 8, 0.1, 2, False),
            (2, 7, 100.0, _NEVER, True),
        ):
            yield {
                "seed": chance.randint(1, 10**6),
                "every": every,
                "count": count,
                "max_norm": max_norm,
                "grows": grows,
                # Not the last of its group: it is under no_sync.
                "broken": [chance.randrange(world_size), every] if broken else [-1, -1],
            }

    def describe(self, case: Case) -> str:
        rank, number = case["broken"]
        found = f"{case['count']} micro-batches, every={case['every']}, max_norm={case['max_norm']:g}"
        if case["grows"] < _NEVER:
            found += f", growth_interval={case['grows']}"
        return found if rank < 0 else f"{found}, an overflow on rank {rank} in micro-batch {number + 1}"

    def trial(self, answer: Answer, case: Case) -> Seen:
        import torch
        from torch.nn.parallel import DistributedDataParallel

        rank = int(os.environ["RANK"])
        net = network(case)
        ddp = DistributedDataParallel(net)
        optimizer = torch.optim.SGD(net.parameters(), lr=RATE)
        scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, DECAY)
        scaler = torch.amp.GradScaler("cpu", init_scale=SCALE, growth_interval=case["grows"])
        seen = Seen(gradients=[], rates=[], scales=[], steps=0, weights=[], reduced=0.0, types=[])

        def note(*_: object) -> None:
            seen["gradients"].append(numbers(p.grad for p in net.parameters() if p.grad is not None))
            seen["rates"].append(round(float(optimizer.param_groups[0]["lr"]), 4))

        optimizer.register_step_pre_hook(note)
        net.register_forward_hook(
            lambda _module, _inputs, output: seen["types"].append(str(output.dtype)[6:])
        )
        began = time.time_ns()
        for epoch in range(EPOCHS):
            shares = [micro_batch(case, epoch, rank, number) for number in range(case["count"])]
            answer(ddp, optimizer, scaler, scheduler, shares, case["every"], case["max_norm"])
            seen["scales"].append(scaler.get_scale())
        seen["steps"] = len(seen["gradients"])
        seen["weights"] = numbers(net.parameters())
        seen["reduced"] = times_reduced(net.parameters(), began)
        seen["types"] = sorted(set(seen["types"]))
        return seen

    def oracle(self, case: Case, world_size: int) -> dict[str, list[Trained]]:
        return {"right": [trained(case, world_size)] * world_size}

    in_16_bits = compared(
        "The model runs in float16.",
        "with {case}, the outputs on rank {rank} are of type {seen}",
        of="types",
        right=lambda *_: ["float16"],
        known="full_precision",
    )
    steps = compared(
        "Every group ends with one step of the optimizer, also one that is not full.",
        f"with {{case}}, rank {{rank}} made {{seen}} steps in {EPOCHS} epochs; it should be {{right}}",
        of="steps",
        right=lambda trial, _: len(trial.oracle["right"][0]["gradients"]),
        when=_is_sound,
    )
    same = same_everywhere(
        "In the end all ranks have the same weights.",
        "with {case}, the weights of rank {rank} are up to {gap:.2g} away from rank 0's",
        of="weights",
        known=lambda trial, rank: _scale_too_small(trial, rank) or "never_reduced",
    )
    right_gradients = compared(
        "Each step gets the gradient of one process that takes all samples of the group at once, clipped.",
        "with {case} on {gang}, the gradient of step {number} is off by up to {gap:.2g} on rank {rank}",
        of="gradients",
        each=True,
        when=_is_sound,
    )
    right_rates = compared(
        "The scheduler makes a step for each step of the optimizer.",
        "with {case}, rank {rank} made step {number} with the learning rate {seen}; it should be {right}",
        of="rates",
        each=True,
        when=_is_sound,
        known=_scheduled,
    )
    right_scales = compared(
        "The scale is adapted once for each group: good steps may double it.",
        "with {case}, the scale on rank {rank} is {seen} after epoch {number}; it should be {right}",
        of="scales",
        each=True,
        when=_is_sound,
    )

    @check("Gradients are sent once for each group.")
    def once(self, trial: ThisTrial) -> Miss | None:
        """In bytes; a few numbers more do not matter."""
        wanted = EPOCHS * len(groups(trial.case))
        for rank, seen in trial.seen.items():
            if seen["reduced"] > wanted + 0.5 * EPOCHS:
                return Miss(
                    f"with {self.describe(trial.case)}, rank {rank} sent them {seen['reduced']:.0f} times for {wanted} "
                    "groups",
                    "reduced_each_time",
                )
        return None

    @check(
        "A step with an overflow on one rank is skipped by all: the scale is halved, and the scheduler waits."
    )
    def overflow(self, trial: ThisTrial) -> Miss | None:
        """All of such a training is compared here."""
        if _is_sound(trial.case):
            return None
        right = trial.oracle["right"][0]
        for rank, seen in sorted(trial.seen.items()):
            said = f"with {self.describe(trial.case)}, rank {rank} of {trial.world_size}"
            if not _is_finite(seen):
                return Miss(f"{said} made a step with a gradient that is not finite", "not_by_scaler")
            if seen["steps"] != len(right["gradients"]):
                return Miss(
                    f"{said} made {seen['steps']} steps in {EPOCHS} epochs; it should be {len(right['gradients'])}"
                )
            for what, mine, wanted, known in (
                ("learning rates", seen["rates"], right["rates"], _scheduled(trial, rank)),
                ("scales", seen["scales"], right["scales"], _scale_too_small(trial, rank)),
                ("gradients", seen["gradients"], right["gradients"], None),
            ):
                if not self.alike(mine, wanted):
                    far = f"off by up to {gap(mine, wanted):.2g}"
                    return Miss(f"{said} made steps whose {what} are {far}", known)
        return None

    def recognise_ending(self, outcome: Outcome, trials: Sequence[ThisTrial]) -> Recognised:
        """Recognise a rank that skipped what the others wait for."""
        return "skipped_alone" if outcome.kind is Kind.HANG else None
