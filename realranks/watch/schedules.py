"""The learning rate schedules of a rank: for how many steps each was made, and how many steps it has made.

Used inside a rank, within `watching`.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from realranks.outcome.probe_notes import ProbeNotes, ScheduleNotes
from realranks.watch.guard import Replace
from realranks.watch.lines import learners_line, learners_path
from realranks.watch.optimizers import Optimizers

if TYPE_CHECKING:
    from torch.optim.lr_scheduler import LRScheduler

_P = ParamSpec("_P")
_R = TypeVar("_R")

_MAX_SCHEDULES = 8
#: Where a schedule that ends says when.
_LENGTHS = {
    "OneCycleLR": "total_steps",
    "CosineAnnealingLR": "T_max",
    "PolynomialLR": "total_iters",
    "ReduceLROnPlateau": "patience",
}


class Schedules:
    """Those of this rank, counted as they are made."""

    def __init__(self, notes: ProbeNotes, optimizers: Optimizers) -> None:
        self._notes = notes
        self._optimizers = optimizers
        self._found: dict[weakref.ref[LRScheduler], ScheduleNotes] = {}
        self._rates: weakref.WeakKeyDictionary[LRScheduler, float] = weakref.WeakKeyDictionary()
        self._parts: weakref.WeakSet[LRScheduler] = weakref.WeakSet()  # and those without an end

    def wrap(self, stack: ExitStack, replace: Replace, noting: Schedules) -> None:
        """Note them until the stack is closed; `noting` has these methods and never raises."""
        from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau, SequentialLR

        def make(original: Callable[_P, _R]) -> Callable[_P, _R]:
            def step(*arguments: _P.args, **options: _P.kwargs) -> _R:
                done = original(*arguments, **options)
                noting.stepped(arguments[0])  # type: ignore[arg-type]
                return done

            return step

        for owner in (LRScheduler, SequentialLR, ReduceLROnPlateau):
            replace(stack, owner, "step", make)

    def stepped(self, schedule: LRScheduler) -> None:
        """Record a schedule's step; a schedule makes its first when it is created, unless it is composed of others."""
        for part in getattr(schedule, "_schedulers", ()):
            self._parts.add(part)
            self._found.pop(weakref.ref(part), None)
        rate = float(schedule.get_last_lr()[0]) if hasattr(schedule, "get_last_lr") else 0.0
        before, self._rates[schedule] = self._rates.get(schedule, rate), rate
        known = self._found.get(weakref.ref(schedule))
        length = length_of(schedule)
        if length is None and known is not None:
            length = known.length
            if known.steps > length and rate != before:
                self._parts.add(schedule)  # what its functions enclose is no end
                self._found.pop(weakref.ref(schedule))
        elif length is None and rate < before:
            length = longest_number(schedule)
        if length is not None and schedule not in self._parts:
            self._found[weakref.ref(schedule)] = self._note(schedule, length, rate)
        self._notes.schedules = list(self._found.values())[:_MAX_SCHEDULES]

    def _note(self, schedule: LRScheduler, length: int, rate: float) -> ScheduleNotes:
        known = self._found.get(weakref.ref(schedule))
        steps = self._optimizers.of(schedule.optimizer).steps
        where = known.where if known is not None else learners_line()
        visits = known.visits + (steps > known.optimizer_steps) if known is not None else 1
        name = type(schedule).__name__
        path = (known.stepped_from or tuple(learners_path())) if known is not None else ()
        return ScheduleNotes(name, length, int(schedule.last_epoch), steps, where, visits, path, rate)


def length_of(schedule: object) -> int | None:
    """Return the number of steps after which a schedule ends; None if it has no end, or does not say."""
    length = getattr(schedule, _LENGTHS.get(type(schedule).__name__, ""), None)
    for each in getattr(schedule, "lr_lambdas", ()):
        # As transformers makes them.
        keywords = getattr(each, "keywords", None)
        length = keywords.get("num_training_steps") if isinstance(keywords, Mapping) else None
    if type(schedule).__name__ == "SequentialLR":
        last = length_of(schedule._schedulers[-1])  # type: ignore[attr-defined]
        length = schedule._milestones[-1] + last if last is not None else None  # type: ignore[attr-defined]
    return length if type(length) is int and length > 0 else None


def longest_number(schedule: object) -> int | None:
    """Return the largest whole number that the functions of a schedule enclose, if it has not got there yet.

    For one that falls, this is its end: `min(1, step / total)`, with `total` from the function around it.
    """
    cells = [
        cell
        for each in getattr(schedule, "lr_lambdas", ())
        for cell in getattr(each, "__closure__", None) or ()
    ]
    longest = max((cell.cell_contents for cell in cells if type(cell.cell_contents) is int), default=0)
    return longest if longest >= int(getattr(schedule, "last_epoch", 0)) > 0 else None
