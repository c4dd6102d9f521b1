"""A probe whose hooks raise: what surrounds a script instead of `course_lib.watch.watching`, in the ranks.

Each hook is left alone `spared` times first, so that it also fails in the middle of what it keeps books of.
"""

import contextlib

from course_lib.watch import probe
from course_lib.watch.exchanges import Exchanges
from course_lib.watch.gathered import Gathered
from course_lib.watch.loaders import Loaders
from course_lib.watch.optimizers import Optimizers
from course_lib.watch.waiting import WaitingClock
from course_lib.watch.watching import watching

#: Everything that is called from the script's own calls, by the class that has it.
HOOKS = {
    probe.Probe: (
        "built",
        "forward",
        "looked_at",
        "returned",
        "entering",
        "backward",
        "reduced",
        "step",
        "stepped",
        "failed",
        "leaving",
        "finish",
        "to_record",
    ),
    Loaders: ("beginning", "begun", "drawn", "given", "ended", "trained", "evaluated"),
    Gathered: ("given",),
    Exchanges: ("message", "with_root", "stranger"),
    Optimizers: ("of", "touched"),
    WaitingClock: ("sample",),
}
NAMES = [name for names in HOOKS.values() for name in names]


class FaultyHookError(Exception):
    """What a hook raises here."""


@contextlib.contextmanager
def failing(hooks, spared=0, **options):
    """Watch the script with a probe that raises at these hooks."""
    with contextlib.ExitStack() as stack:
        for owner, names in HOOKS.items():
            for name in set(names) & set(hooks):
                stack.callback(setattr, owner, name, vars(owner)[name])
                setattr(owner, name, _failing(vars(owner)[name], spared))
        stack.enter_context(watching(**options))
        yield


def _failing(hook, spared):
    calls = 0

    def fail(*arguments, **options):
        nonlocal calls
        calls += 1
        if calls > spared:
            raise FaultyHookError(f"call {calls} of {hook.__name__}")
        return hook(*arguments, **options)

    return fail
