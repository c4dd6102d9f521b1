"""A probe whose hooks raise: what surrounds a script instead of `realranks.watch.watching`, in the ranks.

Each hook is left alone `spared` times first, so that it also fails in the middle of what it keeps books of.
"""

import contextlib
import functools

from realranks.watch import probe
from realranks.watch.exchanges import Exchanges
from realranks.watch.files import Files
from realranks.watch.gathered import Gathered
from realranks.watch.loaders import Loaders
from realranks.watch.metrics import Metrics
from realranks.watch.optimizers import Optimizers
from realranks.watch.waiting import WaitingClock
from realranks.watch.watching import watching
from realranks.watch.worker_draws import WorkerDraws

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
        "looked_at_copies",
        "leaving",
        "finish",
        "to_record",
    ),
    Loaders: ("beginning", "begun", "drawn", "given", "ended", "trained", "evaluated"),
    Gathered: ("given",),
    Exchanges: ("message", "with_root", "stranger"),
    Metrics: ("reduced",),
    Files: ("saved", "opened"),
    Optimizers: ("of", "touched"),
    WaitingClock: ("sample",),
    WorkerDraws: ("before", "after", "collect"),
}
NAMES = [name for names in HOOKS.values() for name in names]
#: Kept to the end of the process. With a DDP model, the last reference to its group may go; gloo then joins a thread
#: with the GIL held, and that thread may wait for it: without any probe, 2 of 120 such scripts hung (torch 2.13).
_GROUPS = []


class FaultyHookError(Exception):
    """What a hook raises here."""


@contextlib.contextmanager
def failing(hooks, spared=0, **options):
    """Watch the script with a probe that raises at these hooks."""
    from torch.nn.parallel import DistributedDataParallel

    build = DistributedDataParallel.__init__

    @functools.wraps(build)
    def built(wrapper, *arguments, **settings):
        build(wrapper, *arguments, **settings)
        _GROUPS.append(wrapper.process_group)

    with contextlib.ExitStack() as stack:
        stack.callback(setattr, DistributedDataParallel, "__init__", build)
        DistributedDataParallel.__init__ = built
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
