"""The numbers that ranks add up, or average, after an evaluation. Used inside a rank, within `watching`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from realranks.outcome.probe_notes import ProbeNotes, ReducedMetric
from realranks.watch.guard import Replace
from realranks.watch.lines import learners_line
from realranks.watch.loaders import Loaders

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

_P = ParamSpec("_P")
_R = TypeVar("_R")
_Collective = Callable[Concatenate["ProcessGroup", _P], _R]

#: Calls that are noted, the first, and the numbers in one.
_MAX_CALLS, _MAX_NUMBERS = 40, 8


class Metrics:
    """Those of one rank."""

    def __init__(self, notes: ProbeNotes, loaders: Loaders) -> None:
        self._notes = notes.metrics
        self._loaders = loaders

    def wrap(self, stack: ExitStack, replace: Replace, noting: Metrics) -> None:
        """Note them until the stack is closed; `noting` has these methods and never raises."""
        from torch.distributed import ProcessGroup

        def make(original: _Collective[_P, _R]) -> _Collective[_P, _R]:
            def collective(group: ProcessGroup, /, *arguments: _P.args, **options: _P.kwargs) -> _R:
                noting.reduced(group, arguments, options)
                return original(group, *arguments, **options)

            return collective

        for name in ("allreduce", "reduce"):
            replace(stack, ProcessGroup, name, make)

    def reduced(
        self, group: ProcessGroup, arguments: Iterable[object], options: Mapping[str, object]
    ) -> None:
        """Record a few numbers that all ranks add up, if the last batch of an evaluation was the newest one."""
        import torch.distributed as dist
        from torch.utils import _pytree

        evaluated = self._loaders.evaluation()
        if evaluated is None or len(self._notes) >= _MAX_CALLS or group.size() != dist.get_world_size():
            return
        given = (*arguments, *options.values())
        operation = next((value.reduceOp for value in given if hasattr(value, "reduceOp")), None)
        tensors = [each for each in _pytree.tree_leaves(given) if hasattr(each, "numel")]
        if (
            # `in` would compare them the other way round.
            any(operation == each for each in (dist.ReduceOp.SUM, dist.ReduceOp.AVG))
            and 0 < sum(each.numel() for each in tensors) <= _MAX_NUMBERS
            and all(each.device.type == "cpu" and not each.is_complex() for each in tensors)
        ):
            numbers = [float(number) for each in tensors for number in each.detach().flatten().tolist()]
            if all(map(math.isfinite, numbers)):
                self._notes.append(ReducedMetric(learners_line(), *evaluated, tuple(numbers)))
