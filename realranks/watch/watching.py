"""For how long a probe notes: a context manager around the learner's code.

It is a job's `around`, or `realranks.observe()`, and wraps a handful of torch's functions. Used inside a rank; imports
torch when it is entered.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from realranks.ranks.inside import worker
from realranks.ranks.inside.on_terminate import report_on_terminate
from realranks.ranks.inside.self_report import NOTED, PROGRESS, ddp_wrappers
from realranks.watch.guard import guarded
from realranks.watch.patches import patch
from realranks.watch.probe import Probe, note_with
from realranks.watch.weights import CheckPlan


@contextlib.contextmanager
def watching(every: int = 50, waiting: bool = True) -> Iterator[Probe]:
    """Note what happens on this rank until the block is left.

    Args:
        every: weights and gradients are compared at steps 0-8, 16, 32, and then every so many steps.
        waiting: also sample, 10 to 50 times a second, whether the main thread waits for other ranks.
    """
    probe = Probe(CheckPlan(every))
    note_with(probe)
    NOTED.append(probe.to_record)
    PROGRESS.append(probe.progress)
    hooks = guarded(probe, probe.unseen, "DDP models")
    with contextlib.ExitStack() as stack:
        stack.callback(_unwatch, probe)
        for wrapper in ddp_wrappers():
            hooks.built(wrapper, found=True)
        patch(probe, stack)
        if waiting:
            stack.enter_context(probe.clock)
        if worker.CURRENT is not None:
            stack.enter_context(report_on_terminate(worker.CURRENT.channel))
        yield probe
        hooks.finish()


def _unwatch(probe: Probe) -> None:
    """Remove the hooks from the models; the notes stay for the outcome."""
    note_with(None)
    PROGRESS.clear()
    for hook in probe.hooks:
        with contextlib.suppress(Exception):
            hook.remove()
