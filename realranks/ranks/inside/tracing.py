"""Record what a rank does during one job with torch's own profiler, as plain events.

Used inside a rank (`--trace`). Times are nanoseconds of the machine's clock, so ranks of one machine share them. The
profiler records operators and collectives, but neither where `backward()` begins and ends nor the calls that block
until a collective is done; while a trace is taken, those are wrapped in ranges of names that begin with `course: `.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import time
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import ParamSpec, Protocol, TypeVar

from realranks.outcome.trace import BACKWARD, COMMUNICATION, RANGES, SYNCHRONIZE, TRACED, WAIT, TraceEvent
from realranks.ranks.inside.flight_recorder import recorded_collectives

_P = ParamSpec("_P")
_R = TypeVar("_R")

_SHORTEST_NS = 1_000
_MAX_EVENTS = 20_000
#: How long collectives that are still under way at the end may take to be in the trace.
_FINISHING_SECONDS = 0.5

_WRAPPED = (
    ("torch.autograd", "_engine_run_backward", BACKWARD),
    ("torch._C._distributed_c10d", "Work.wait", WAIT),
    ("torch.futures", "Future.wait", WAIT),
    ("torch._C._distributed_c10d", "Reducer._rebuild_buckets", SYNCHRONIZE),
    ("torch.distributed", "_broadcast_coalesced", SYNCHRONIZE),
    ("torch.distributed", "_verify_params_across_processes", SYNCHRONIZE),
)

#: What holds other events of interest; every other event is taken for an operator.
_HOLDERS = frozenset({"DistributedDataParallel.forward", *RANGES})


class Tracer:
    """A context manager around the learner's code; afterwards `events()` has what happened."""

    def __init__(self) -> None:
        from torch.profiler import ProfilerActivity, profile

        # Shapes come with dtypes, which tell a bucket's all-reduce from that of DDP's map of used parameters.
        self._profile = profile(activities=[ProfilerActivity.CPU], record_shapes=True)
        self._stack = contextlib.ExitStack()
        self._entered_ns = 0

    def __enter__(self) -> Tracer:
        from torch.profiler import record_function

        self._entered_ns = time.time_ns()
        self._stack.enter_context(self._profile)
        self._stack.callback(_let_finish, self._entered_ns)
        self._stack.enter_context(_ranges())
        self._stack.enter_context(record_function(TRACED))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, traceback)

    def events(self) -> list[TraceEvent]:
        """Return `name`, `start_ns`, `duration_ns` and `thread` of each recorded event, in order of time.

        Collectives also have `dtypes`, and all-reduces `issued_ns`: a thread of the backend works on them, perhaps
        later. Operators inside operators are left out; of more than 20,000 events the first are kept.
        """
        profiler = self._profile.profiler
        assert profiler is not None
        assert profiler.kineto_results is not None
        recorded = [
            event
            for event in profiler.kineto_results.events()
            if event.duration_ns() >= _SHORTEST_NS and not event.name().startswith("PyTorch Profiler")
        ]
        recorded.sort(key=lambda event: (event.start_ns(), -event.duration_ns()))
        issued = _issued(recorded, self._entered_ns)
        return [_as_data(event, issued) for event in _outermost(recorded)][:_MAX_EVENTS]


def _let_finish(since_ns: int) -> None:
    """Wait until the backend has done what was issued, or half a second.

    gloo wakes who waits for a collective a moment before it tells the profiler that the collective has ended
    (`AsyncWork::finishWorkGloo`): what has no end when the profiler stops is not in the trace.
    """
    until = time.monotonic() + _FINISHING_SECONDS
    while time.monotonic() < until and not all(one["done"] for one in recorded_collectives(since_ns)):
        time.sleep(0.001)


class _Recorded(Protocol):
    """The part of a profiler event that is used here."""

    def name(self) -> str: ...
    def start_ns(self) -> int: ...
    def duration_ns(self) -> int: ...
    def start_thread_id(self) -> int: ...
    def dtypes(self) -> list[str]: ...
    def shapes(self) -> list[list[int]]: ...


def _as_data(event: _Recorded, issued: dict[int, int]) -> TraceEvent:
    data: TraceEvent = {
        "name": event.name(),
        "start_ns": event.start_ns(),
        "duration_ns": event.duration_ns(),
        "thread": event.start_thread_id(),
    }
    if event.name().startswith(COMMUNICATION):
        data["dtypes"] = [dtype for dtype in event.dtypes() if dtype]
    if id(event) in issued:
        data["issued_ns"] = issued[id(event)]
    return data


def _issued(events: Sequence[_Recorded], since_ns: int) -> dict[int, int]:
    """Match each all-reduce, by the id of its event, with the time it was issued.

    Two threads of gloo take what was issued from one queue, so all-reduces may begin in another order than that in
    which they were issued; the flight recorder has the sizes in the latter.
    """
    issues = [event.start_ns() for event in events if event.name() == "c10d::allreduce_"]
    flights = [event for event in events if event.name() in ("gloo:all_reduce", "nccl:all_reduce")]
    recorded = [one["sizes"] for one in recorded_collectives(since_ns) if one["op"] == "all_reduce"]
    sizes: list[object] = [*recorded] if len(recorded) == len(issues) else [None] * len(issues)
    found: dict[int, int] = {}
    for start_ns, size in zip(issues, sizes, strict=True):
        for number, flight in enumerate(flights):
            if flight.start_ns() >= start_ns and size in (None, flight.shapes()):
                found[id(flights.pop(number))] = start_ns
                break
    return found


def _outermost(events: Sequence[_Recorded]) -> Iterator[_Recorded]:
    """Leave out operators that run inside another operator of the same thread."""
    covered: dict[int, int] = {}
    for event in events:
        name, thread = event.name(), event.start_thread_id()
        if name in _HOLDERS or name.startswith(COMMUNICATION):
            yield event
        elif event.start_ns() >= covered.get(thread, 0):
            covered[thread] = event.start_ns() + event.duration_ns()
            yield event


@contextlib.contextmanager
def _ranges() -> Iterator[None]:
    """Record the calls of `_WRAPPED` as ranges within this block."""
    with contextlib.ExitStack() as undo:
        for module, path, name in _WRAPPED:
            *owners, attribute = path.split(".")
            # What a later torch has moved is not recorded; that is no reason to fail.
            with contextlib.suppress(ImportError, AttributeError):
                owner = functools.reduce(getattr, owners, importlib.import_module(module))
                # A method of a C++ class taken through the class would not become a method again when put back.
                original = inspect.getattr_static(owner, attribute)
                setattr(owner, attribute, _recorded(getattr(owner, attribute), name))
                undo.callback(setattr, owner, attribute, original)
        yield


def _recorded(function: Callable[_P, _R], name: str) -> Callable[_P, _R]:
    from torch.profiler import record_function

    @functools.wraps(function)
    def call(*arguments: _P.args, **options: _P.kwargs) -> _R:
        with record_function(name):
            return function(*arguments, **options)

    return call
