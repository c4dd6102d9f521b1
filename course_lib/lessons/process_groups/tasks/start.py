"""Task 3: a start script with several faults, repaired."""

from __future__ import annotations

import gc
import os
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict
from unittest.mock import patch

from course_lib.lessons.process_groups.tasks.bare import play_two_machines, without_group
from course_lib.tasks import toys
from course_lib.tasks.compared import compared
from course_lib.tasks.precision import Tolerance
from course_lib.tasks.task import Miss, Recognised, Task, Trial, check
from realranks.outcome.fold import rank_list
from realranks.outcome.outcome import Outcome

if TYPE_CHECKING:
    from torch import nn

    Build = Callable[[], nn.Module]
    TrainFunction = Callable[[nn.Module], float]

#: Groups in which answers have wrapped a model. One that is dropped after it was destroyed, with a wrapper that was
#: kept for too long, can block the process in gloo's destructor: here it lives until the process ends.
_kept: list[object] = []
#: How often a rank looks whether a wrapper is gone: on a busy machine, somebody else's look may take seconds.
_LOOKS = 100


class Case(TypedDict):
    """The ranks on which the training raises, and by rank its input."""

    fails: list[int]
    inputs: list[int]


class Seen(TypedDict):
    """Observations around the training.

    Attributes:
        calls: how often `train` was called. initialised, rank, size, gradient: what the last call saw.
        raised: whether its exception came through. returned: what `start` returned.
        left: whether there was a group afterwards.
        held_at_destroy, held: whether somebody held the wrapper when the group was destroyed, and afterwards.
    """

    calls: int
    initialised: NotRequired[bool]
    rank: NotRequired[int]
    size: NotRequired[int]
    gradient: NotRequired[float]
    raised: bool
    returned: float | str | None
    held_at_destroy: bool
    left: bool
    held: bool


ThisTrial = Trial[Case, Seen, None]


class _TrainingFailed(Exception):
    """The failure of a training where the case wants it."""


class Start(Task[Case, Seen, None]):
    """A start script with several faults, repaired."""

    name = "process_groups.start"
    world_sizes = (4, 2)

    def cases(self, world_size: int, chance: Random) -> Iterator[Case]:
        """Yield a training that returns, one that raises everywhere, and one that raises on one rank."""
        for fails in ([], list(range(world_size)), [chance.randrange(world_size)]):
            yield {"fails": fails, "inputs": chance.sample(range(1, 50), world_size)}

    def describe(self, case: Case) -> str:
        if not case["fails"]:
            return "a training that goes well"
        alone = f" on rank {case['fails'][0]} alone" if len(case["fails"]) < len(case["inputs"]) else ""
        return f"a training that raises{alone}"

    def trial(self, answer: Callable[[Build, TrainFunction], object], case: Case) -> Seen:
        import torch
        import torch.distributed as dist
        from torch.distributed import distributed_c10d as c10d

        rank = int(os.environ["RANK"])
        without_group()
        play_two_machines(len(case["inputs"]))
        seen: Seen = {
            "calls": 0,
            "raised": False,
            "returned": None,
            "held_at_destroy": False,
            "left": False,
            "held": False,
        }
        wrappers: list[weakref.ref[nn.Module]] = []
        destroy = dist.destroy_process_group

        def is_held() -> bool:
            """Look several times: an inspection of this rank's stack keeps its frames alive for a moment."""
            for _ in range(_LOOKS):
                gc.collect()
                if all(wrapper() is None for wrapper in wrappers):
                    return False
                time.sleep(0.02)
            return True

        def noticed(*args: Any, **kwargs: Any) -> None:
            seen["held_at_destroy"] |= rank not in case["fails"] and is_held()
            destroy(*args, **kwargs)

        def build() -> nn.Module:
            return torch.nn.Linear(1, 1, bias=False)

        def train(model: nn.Module) -> float:
            _kept.append(getattr(model, "process_group", None))
            wrappers.append(weakref.ref(model))
            seen["calls"] += 1
            seen["initialised"] = dist.is_initialized()
            if not dist.is_initialized():
                return 0.0
            seen["rank"], seen["size"] = dist.get_rank(), dist.get_world_size()
            model(torch.full((1, 1), float(case["inputs"][rank]))).sum().backward()
            gradient = next(model.parameters()).grad
            assert gradient is not None
            seen["gradient"] = gradient.item()
            if rank in case["fails"]:
                raise _TrainingFailed("the loss is not a number")
            return float(case["inputs"][rank])

        with (
            patch.object(dist, "destroy_process_group", noticed),
            patch.object(c10d, "destroy_process_group", noticed),
        ):
            try:
                seen["returned"] = toys.number_or_text(answer(build, train))
            except _TrainingFailed:
                seen["raised"] = True
        seen["left"], seen["held"] = dist.is_initialized(), is_held()
        return seen

    @check("train is called once, in a process group of all processes.", gate=True)
    def trains_in_group(self, trial: ThisTrial) -> Miss | None:
        """With the rank and the world size that the launcher has given."""
        for rank, seen in trial.seen.items():
            if seen["calls"] != 1:
                return Miss(f"train was called {seen['calls']} times on rank {rank}")
            if not seen["initialised"]:
                return Miss(f"train was called without a process group on rank {rank}")
            if (seen["rank"], seen["size"]) != (rank, trial.world_size):
                return Miss(
                    f"RANK {rank} of {trial.world_size} was rank {seen['rank']} of {seen['size']} in its group"
                )
        return None

    #: The gradient of w * x is x: the mean of all inputs.
    averages = compared(
        "train gets a model whose gradients are averaged over all processes.",
        "the gradient was {seen:g} on rank {rank}, and the mean is {right:g}",
        of="gradient",
        right=lambda trial, _: sum(trial.case["inputs"]) / trial.world_size,
        within=Tolerance(0.0, 1e-5),
    )

    @check("start returns what train returns, and lets its exception pass.")
    def hands_on(self, trial: ThisTrial) -> Miss | None:
        for rank, seen in trial.seen.items():
            if rank in trial.case["fails"]:
                if not seen["raised"]:
                    return Miss(f"train raised on rank {rank}, and start did not")
            elif seen["returned"] != float(trial.case["inputs"][rank]):
                return Miss(
                    f"train returned {trial.case['inputs'][rank]} on rank {rank}, and start {_in_words(seen)}"
                )
        return None

    @check("Afterwards no process has a group, however train has ended.")
    def tidies_up(self, trial: ThisTrial) -> Miss | None:
        """On every rank, also after an exception."""
        left = [rank for rank, seen in trial.seen.items() if seen["left"]]
        if not left:
            return None
        some = "some_ranks_destroy" if len(left) < trial.world_size else None
        known = "lost_after_exception" if left == trial.case["fails"] else some
        return Miss(f"after {self.describe(trial.case)}, {rank_list(left)} still had one", known)

    @check("The wrapped model is gone when its group is destroyed.")
    def drops_the_model(self, trial: ThisTrial) -> Miss | None:
        """After an exception the traceback may hold it as long as somebody holds that, but nothing else may."""
        for rank, seen in trial.seen.items():
            if seen["held"]:
                return Miss(
                    f"after {self.describe(trial.case)}, something on rank {rank} still held the wrapped model",
                    "model_kept",
                )
            if seen["held_at_destroy"]:
                return Miss(
                    f"with {self.describe(trial.case)}, rank {rank} still held the wrapped model when it destroyed "
                    "the group",
                    "model_kept",
                )
        return None

    def recognise_ending(self, outcome: Outcome, trials: Sequence[ThisTrial]) -> Recognised:
        """Go by torch's own messages and by the rank and world size that each process asked for."""
        messages = " ".join(error.message for error in outcome.errors.values())
        if "device_ids" in messages:
            return "device_ids_on_cpu"
        asked = [facts.init for facts in outcome.facts.values() if facts.init is not None]
        ranks = [init.rank for init in asked]
        if any(init.world_size != outcome.world_size for init in asked):
            return "gpus_counted"
        if "NCCL" in messages or "CUDA" in messages:
            return "nccl_without_gpu"
        if len(set(ranks)) < len(ranks):
            return "option_not_given" if set(ranks) == {0} else "local_rank_as_rank"
        return None


def _in_words(seen: Seen) -> str:
    returned = seen["returned"]
    return returned if isinstance(returned, str) else f"{returned:g}"
