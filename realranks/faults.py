"""BREAK it on purpose: faults that strike a chosen rank at a chosen moment of `run(..., faults=[...])`.

    run(train, faults=[delay(rank=1, seconds=0.5, at="forward", nth=3), kill(rank=2, at="step", nth=10)])

The moments: `start` (before the function is called), `forward` (before a call of a top-level module), `step` (before
an optimizer's step), `collective` (before a call of a `torch.distributed` collective made in Python).
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, ParamSpec, TypeVar

if TYPE_CHECKING:
    from torch.utils.hooks import RemovableHandle

_P = ParamSpec("_P")
_R = TypeVar("_R")

Moment = Literal["start", "forward", "step", "collective"]
_MOMENTS = ("start", "forward", "step", "collective")
_COLLECTIVES = (
    "all_reduce",
    "all_gather",
    "all_gather_into_tensor",
    "all_gather_object",
    "all_to_all",
    "barrier",
    "broadcast",
    "broadcast_object_list",
    "gather",
    "reduce",
    "reduce_scatter",
    "scatter",
)


class InjectedFault(RuntimeError):
    """The exception that `fail` raises on the rank."""


class FaultError(ValueError):
    """A fault that cannot strike; shown as one clear line."""

    def _render_traceback_(self) -> list[str]:
        return [str(self)]


@dataclass(frozen=True)
class Fault:
    """A fault of a rank, and its moment (the `nth` time that moment comes, from 1)."""

    rank: int
    action: str
    at: Moment = "start"
    nth: int = 1
    amount: float = 0.0

    def __post_init__(self) -> None:
        """Refuse a moment or a count that cannot come."""
        if self.at not in _MOMENTS:
            raise FaultError(f"No moment {self.at!r}: choose {', '.join(_MOMENTS)}.")
        if self.nth < 1 or self.rank < 0:
            raise FaultError("`nth` counts from 1 and `rank` from 0.")

    def strike(self) -> None:
        """Do it, on the rank that runs this."""
        if self.action == "delay":
            time.sleep(self.amount)
        elif self.action == "kill":
            os.kill(os.getpid(), int(self.amount))
        elif self.action == "exit":
            os._exit(int(self.amount))
        else:
            raise InjectedFault(f"fault injected on rank {self.rank} at {self.at} {self.nth}")

    @contextlib.contextmanager
    def armed(self, rank: int, never_struck: list[str]) -> Iterator[None]:
        """Arm the fault within this block, if `rank` is its rank; add a sentence if it never struck."""
        if rank != self.rank:
            yield
            return
        seen = 0

        def count() -> None:
            nonlocal seen
            seen += 1
            if seen == self.nth:
                self.strike()

        try:
            with _moment(self.at, count):
                if self.at == "start":
                    count()
                yield
        finally:
            if seen < self.nth:
                never_struck.append(self._never_struck(seen))

    def _never_struck(self, seen: int) -> str:
        came = f"came {seen} times" if seen > 1 else "came once" if seen else "never came"
        note = " (collectives count that the code calls itself; those that DDP issues do not)"
        return (
            f"The fault on rank {self.rank} never struck: it waits for {self.at} number {self.nth}, and {self.at} "
            f"{came} on that rank{note if self.at == 'collective' else ''}."
        )


@contextlib.contextmanager
def _moment(at: Moment, count: Callable[[], None]) -> Iterator[None]:
    if at == "forward":
        from torch.nn.modules.module import register_module_forward_pre_hook

        depth = _TopLevel(count)
        handle = register_module_forward_pre_hook(depth.before)
        after = _after_hook(depth)
        try:
            yield
        finally:
            handle.remove()
            after.remove()
    elif at == "step":
        from torch.optim.optimizer import register_optimizer_step_pre_hook

        hook = register_optimizer_step_pre_hook(lambda *_: count())
        try:
            yield
        finally:
            hook.remove()
    elif at == "collective":
        with _counting_collectives(count):
            yield
    else:
        yield


class _TopLevel:
    """Counts calls of modules that are not made by another module."""

    def __init__(self, count: Callable[[], None]) -> None:
        self._count = count
        self._depth = 0

    def before(self, *_: object) -> None:
        self._depth += 1
        if self._depth == 1:
            self._count()

    def after(self, *_: object) -> None:
        self._depth -= 1


def _after_hook(depth: _TopLevel) -> RemovableHandle:
    from torch.nn.modules.module import register_module_forward_hook

    return register_module_forward_hook(depth.after, always_call=True)


@contextlib.contextmanager
def _counting_collectives(count: Callable[[], None]) -> Iterator[None]:
    import torch.distributed as dist

    originals = {name: getattr(dist, name) for name in _COLLECTIVES if hasattr(dist, name)}

    def counted(function: Callable[_P, _R]) -> Callable[_P, _R]:
        def call(*arguments: _P.args, **options: _P.kwargs) -> _R:
            count()
            return function(*arguments, **options)

        return call

    for name, function in originals.items():
        setattr(dist, name, counted(function))
    try:
        yield
    finally:
        for name, function in originals.items():
            setattr(dist, name, function)


def delay(rank: int, seconds: float, at: Moment = "start", nth: int = 1) -> Fault:
    """Make a rank sleep: a straggler."""
    return Fault(rank, "delay", at, nth, seconds)


def kill(rank: int, at: Moment = "start", nth: int = 1, signal_number: int = signal.SIGKILL) -> Fault:
    """Kill a rank's process with a signal, as the kernel's out-of-memory killer would."""
    return Fault(rank, "kill", at, nth, float(signal_number))


def exit_with(rank: int, code: int = 1, at: Moment = "start", nth: int = 1) -> Fault:
    """End a rank's process at once with an exit code."""
    return Fault(rank, "exit", at, nth, float(code))


def fail(rank: int, at: Moment = "start", nth: int = 1) -> Fault:
    """Raise `InjectedFault` in the rank's code."""
    return Fault(rank, "raise", at, nth)
