"""`run`: call a function on real ranks from a plain cell or script."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from realranks.cells.foresight import foreseen
from realranks.cells.judge import refusing, show_and_check
from realranks.cells.refused import UsageError
from realranks.cells.show import View, register, this_cell
from realranks.doctor import with_diagnosis
from realranks.faults import Fault
from realranks.outcome.expect import Expectation
from realranks.outcome.outcome import Outcome
from realranks.outcome.progress import Progress
from realranks.ranks.kernel.gang import Gang
from realranks.watch.around import as_around


def pack_call(function: Callable[..., object], arguments: Sequence[object], faults: Sequence[Fault]) -> bytes:
    """Serialise a function with its arguments; functions from cells, closures and lambdas work, too.

    Raises:
        TypeError: something cannot be pickled; the message names it.
    """
    import cloudpickle

    try:
        return bytes(cloudpickle.dumps((function, tuple(arguments), tuple(faults))))
    except Exception as error:
        culprit = _unpicklable(function, arguments)
        raise TypeError(f"Cannot be sent to the ranks: {culprit} ({type(error).__name__}: {error})") from None


def _unpicklable(function: Callable[..., object], arguments: Sequence[object]) -> str:
    import inspect

    import cloudpickle

    def travels(thing: object) -> bool:
        try:
            cloudpickle.dumps(thing)
        except Exception:
            return False
        return True

    for number, argument in enumerate(arguments):
        if not travels(argument):
            return f"argument {number}, a {type(argument).__name__}"
    try:
        variables = inspect.getclosurevars(function)
    except TypeError:
        variables = None
    if variables is not None:
        for name, value in {**variables.globals, **variables.nonlocals}.items():
            if not travels(value):
                return f"`{name}`, a {type(value).__name__} that `{getattr(function, '__name__', 'the function')}` uses"
    return f"`{getattr(function, '__name__', function)}`"


def run_quietly(
    function: Callable[..., object],
    *arguments: object,
    ranks: int = 4,
    timeout: float = 30.0,
    faults: Sequence[Fault] = (),
    trace: bool = False,
    watch: bool = False,
    backend: str = "auto",
    init: bool = True,
    on_progress: Callable[[Progress], None] | None = None,
) -> Outcome:
    """Call `function(*arguments)` on every rank of a gang of its own; shows nothing, checks nothing.

    Args:
        function: any function, also one defined in a cell.
        arguments: what it is called with.
        ranks, timeout, faults, trace, watch, backend, init: as for `run`.
        on_progress: called now and then, with what can be shown so far.

    Raises:
        TypeError, GangError, BackendError: one clear line each.
    """
    payload = pack_call(function, arguments, faults)
    gang = Gang(ranks, backend=backend, init=init)
    try:
        around = as_around() if watch else None
        outcome = gang.call(
            payload, timeout=timeout, trace=trace, around=around, on_progress=on_progress
        ).settled()
    finally:
        gang.stop()
    return with_diagnosis(outcome)


def run(
    fn: Callable[..., object],
    *args: object,
    ranks: int = 4,
    timeout: float = 30.0,
    expect: str = "ok",
    faults: Sequence[Fault] = (),
    trace: bool = False,
    watch: bool = False,
    backend: str = "auto",
    init: bool = True,
) -> Outcome:
    """Call `fn(*args)` on `ranks` real ranks with a process group, and show what came of it.

    Args:
        fn: any function, also one defined in a cell.
        args: its arguments; they are pickled.
        ranks: how many.
        timeout: seconds until ranks that have not finished are stopped (a deadlock is proved long before).
        expect: `ok`, `raises`, `raises:ValueError`, `raises:0`, `died:2`, `hang`, `slow`; or `predicted`: what one of
            the answers of the `predict(...)` before says.
        faults: what breaks where (see `realranks.faults`).
        trace: record a timeline.
        watch: also look for silent faults, such as ranks whose weights drift apart.
        backend: `gloo` or `nccl`; with `auto` the machine decides.
        init: False leaves `init_process_group` to `fn`.

    Returns:
        The `Outcome`; `out.values[rank]` is what the function returned there.

    Raises:
        UnexpectedOutcome: it did not end as expected.
        UsageError: it cannot be run at all.
    """
    register()  # %load_ext has done it, where it was called
    with refusing():
        view = View()
        if not callable(fn):
            raise UsageError(
                f"run() needs a function to call on every rank, not {type(fn).__name__} {fn!r:.60}."
            )
        if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout > 0:
            raise UsageError(f"timeout={timeout!r} must be a positive number of seconds.")
        if isinstance(ranks, bool) or not isinstance(ranks, int):
            raise UsageError(f"ranks={ranks!r} must be a whole number.")
        if not all(isinstance(fault, Fault) for fault in faults):
            raise UsageError("faults= takes what realranks.faults makes, as in [kill(rank=1, at='step')].")
        absent = [fault.rank for fault in faults if fault.rank >= ranks]
        if absent:
            raise UsageError(
                f"A fault is meant for rank {absent[0]}, but there are only ranks 0 to {ranks - 1}."
            )
        name = getattr(fn, "__name__", "")
        expectation = (
            foreseen(f"run({name})", this_cell()) if expect == "predicted" else Expectation.parse(expect)
        )
        outcome = run_quietly(
            fn,
            *args,
            ranks=ranks,
            timeout=timeout,
            faults=faults,
            trace=trace,
            watch=watch,
            backend=backend,
            init=init,
            on_progress=view.progress,
        )
        return show_and_check(outcome, expectation, view)
