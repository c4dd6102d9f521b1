"""Task 4: rank 0 evaluates in the middle of training, and nothing else notices."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import TYPE_CHECKING, TypedDict

from course_lib.lessons.alternation.tasks.wrapped import Usage, Watched
from course_lib.tasks import toys
from course_lib.tasks.compared import compared
from course_lib.tasks.task import Miss, Recognised, Task, Trial, WrongKind, check, gate
from course_lib.tasks.toys import short
from course_lib.tasks.weights import ROUNDING, close, drawn, farthest, network, numbers
from realranks.outcome.outcome import DDPStage, Kind, Outcome

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.nn.parallel import DistributedDataParallel
    from torch.optim import Optimizer

    Batch = tuple[Tensor, Tensor]


class Case(TypedDict):
    """So many batches, an evaluation after `every` so many of them, and whether the BatchNorm is in eval mode."""

    seed: int
    steps: int
    every: int
    frozen: bool


class Seen(Usage):
    """Rank 0's return value; the running statistics; whether each part was and is in train mode."""

    losses: list[float]
    statistics: list[float]
    modes: list[tuple[bool, bool]]


class Oracle(TypedDict):
    """The losses, also as they would be in train mode; the weights; rank 0's running statistics."""

    losses: list[float]
    losses_in_train_mode: list[float]
    weights: list[float]
    statistics: list[float]


ThisTrial = Trial[Case, Seen, Oracle]


def _network(case: Case) -> nn.Sequential:
    """Return a network whose BatchNorm, in eval mode or not, has seen data of another kind."""
    net = network(case["seed"], 4, 5, 2, norm=True)
    mean, variance = (net[1].get_buffer(name) for name in ("running_mean", "running_var"))
    mean += drawn(case["seed"] + 5, 5) / 2
    variance += drawn(case["seed"] + 6, 5).square()
    net[1].train(not case["frozen"])
    return net


def _batches(case: Case, rank: int) -> list[Batch]:
    seeds = [case["seed"] + 1000 * step + 10 * rank for step in range(case["steps"])]
    return [(drawn(seed + 1, 6, 4) + 0.5, drawn(seed + 2, 6, 2)) for seed in seeds]


def _validation(case: Case) -> Batch:
    return drawn(case["seed"] + 7, 9, 4), drawn(case["seed"] + 8, 9, 2)


def _statistics(norm: nn.Module) -> list[float]:
    return numbers((norm.get_buffer("running_mean"), norm.get_buffer("running_var")))


def _of_mode(seen: Seen) -> str | None:
    """Return the misconception that has changed the mode of some part."""
    for was, is_now in seen["modes"]:
        if was != is_now:
            return "left_in_eval_mode" if was else "norm_thawed"
    return None


def _of_weights(trial: ThisTrial, rank: int) -> str | None:
    seen = trial.seen[rank]
    if seen["backwards"] > seen["averages"] or not seen["wrapper"]:
        return "trained_around_the_wrapper"
    return _of_mode(trial.seen[0])


class TrainAndEvaluate(Task[Case, Seen, Oracle]):
    """Rank 0 evaluates in the middle of training, and nothing else notices."""

    name = "alternation.train_and_evaluate"
    world_sizes = (1, 2, 3)
    tolerance = ROUNDING

    def cases(self, world_size: int, chance: Random) -> Iterator[Case]:
        """Yield evaluations after every step, where buckets are rebuilt in between, and after every second one."""
        for every, steps, frozen in ((1, 3, False), (2, 5, False), (1, 3, True)):
            yield {"seed": chance.randint(1, 10**6), "steps": steps, "every": every, "frozen": frozen}

    def describe(self, case: Case) -> str:
        frozen = ", the BatchNorm in eval mode" if case["frozen"] else ""
        return f"{case['steps']} batches, every={case['every']}{frozen}"

    def trial(
        self,
        answer: Callable[[DistributedDataParallel, Optimizer, list[Batch], Batch, int], object],
        case: Case,
    ) -> Seen:
        import torch

        model = Watched(_network(case))
        modes = [part.training for part in model.module.modules()]
        optimizer = torch.optim.SGD(model.ddp.parameters(), lr=0.1)
        batches = _batches(case, int(os.environ["RANK"]))
        result = answer(model.ddp, optimizer, batches, _validation(case), case["every"])
        losses, count = [], case["steps"] // case["every"]
        if os.environ["RANK"] == "0":
            losses = toys.numbers(result)
            if len(losses) != count:
                raise WrongKind(
                    f"{len(losses)} losses; with {self.describe(case)} there are {count} evaluations"
                )
        return {
            "losses": losses,
            "statistics": _statistics(model.module[1]),
            "modes": [(was, part.training) for was, part in zip(modes, model.module.modules(), strict=True)],
            **model.seen(),
        }

    def oracle(self, case: Case, world_size: int) -> Oracle:
        return _train_alone(case, world_size)

    def reference(self, oracle: Oracle) -> object:
        return [oracle["losses"], oracle["weights"], oracle["statistics"]]

    gives_losses = gate("Rank 0 returns a loss for each evaluation.", "rank {rank} returned {given}")

    @check("Every rank calls the wrapper equally often.")
    def equally_often(self, trial: ThisTrial) -> Miss | None:
        """A forward that only one rank makes is right by accident at best."""
        calls = [trial.seen[rank]["wrapper"] for rank in range(trial.world_size)]
        if len(set(calls)) > 1:
            return Miss(
                f"ranks 0 to {trial.world_size - 1} called it {short(calls)} times", "wrapper_on_one_rank"
            )
        return None

    weights = compared(
        "The weights are those of a training without evaluations.",
        "the weights of rank {rank} of {ranks} are off by up to {gap:.2g}",
        of="weights",
        right=lambda trial, _: trial.oracle["weights"],
        known=_of_weights,
    )

    @check("The losses are those of the model in eval mode.")
    def right_losses(self, trial: ThisTrial) -> Miss | None:
        seen = trial.seen[0]["losses"]
        for number, (mine, right) in enumerate(zip(seen, trial.oracle["losses"], strict=True)):
            if not abs(mine - right) < 1e-3:
                return Miss(
                    f"evaluation {number} on rank 0 of {trial.world_size} gave {mine:.4f}; it is {right:.4f}",
                    self._of_losses(trial),
                )
        return None

    @check("Rank 0's running statistics come from training batches only.")
    def statistics(self, trial: ThisTrial) -> Miss | None:
        """Those of its BatchNorm, after the last step."""
        seen = trial.seen[0]
        gap = farthest(seen["statistics"], trial.oracle["statistics"])
        if gap > 1e-3:
            known = _of_mode(seen)
            if self._trained_alone(trial):
                known = "trained_around_the_wrapper"
            elif known is None and close(seen["weights"], trial.oracle["weights"]):
                known = "evaluated_in_train_mode"  # which changes no gradient
            return Miss(f"on rank 0 of {trial.world_size} they are off by up to {gap:.2g}", known)
        return None

    @check("Every part of the model is left in the mode that it had.")
    def modes(self, trial: ThisTrial) -> Miss | None:
        for rank, seen in trial.seen.items():
            known = _of_mode(seen)
            if known:
                modes = "eval", "train"
                if known == "norm_thawed":
                    modes = "train", "eval"
                return Miss(
                    "with {} on rank {} of {}, a part is in {} mode that was in {} mode".format(
                        self.describe(trial.case), rank, trial.world_size, *modes
                    ),
                    known,
                )
        return None

    def _trained_alone(self, trial: ThisTrial) -> bool:
        return not trial.seen[0]["wrapper"]

    def _of_losses(self, trial: ThisTrial) -> str | None:
        seen = trial.seen[0]
        if self._trained_alone(trial):
            return "trained_around_the_wrapper"
        if _of_mode(seen):
            return _of_mode(seen)
        in_train_mode = trial.oracle["losses_in_train_mode"]
        if all(abs(a - b) < 1e-3 for a, b in zip(seen["losses"], in_train_mode, strict=True)):
            return "evaluated_in_train_mode"
        return None

    def recognise_ending(self, outcome: Outcome, trials: Sequence[ThisTrial]) -> Recognised:
        """Recognise a broadcast of buffers that meets another collective: it hangs, or gloo aborts a rank."""
        if outcome.kind is Kind.DIED:
            return "wrapper_on_one_rank"
        if outcome.kind is Kind.HANG:
            under_way = [waiting.collective for waiting in outcome.waiting.values() if waiting.collective]
            by_ddp = any(collective.stage in (DDPStage.BUFFERS, DDPStage.REBUILD) for collective in under_way)
            return "wrapper_on_one_rank" if by_ddp else None
        return None


def _train_alone(case: Case, world_size: int) -> Oracle:
    """Train one process on averages over the ranks' batches, with the statistics of rank 0's."""
    import copy

    import torch

    loss_of = torch.nn.functional.mse_loss
    net = _network(case)
    norm = net[1]  # in eval mode it has the statistics that it was given, whatever its momentum
    assert isinstance(norm, torch.nn.BatchNorm1d)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    inputs, targets = _validation(case)
    losses, in_train_mode = [], []
    for step, parts in enumerate(zip(*(_batches(case, rank) for rank in range(world_size)), strict=True)):
        optimizer.zero_grad()
        for rank, (x, y) in enumerate(parts):
            norm.momentum = 0.0 if rank else 0.1  # the statistics of other ranks than 0 do not survive
            (loss_of(net(x), y) / world_size).backward()
        optimizer.step()
        if (step + 1) % case["every"] == 0:
            with torch.no_grad():
                losses.append(loss_of(copy.deepcopy(net).eval()(inputs), targets).item())
                in_train_mode.append(loss_of(copy.deepcopy(net).train()(inputs), targets).item())
    return {
        "losses": losses,
        "losses_in_train_mode": in_train_mode,
        "weights": numbers(net.parameters()),
        "statistics": _statistics(norm),
    }
