"""For how long a probe notes: a context manager around the learner's code.

It is a job's `around`, or `course_lib.observe()`, and wraps a handful of torch's functions. Used inside a rank; imports
torch when it is entered.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from course_lib.ranks.inside import worker
from course_lib.ranks.inside.on_terminate import last_words
from course_lib.ranks.inside.self_report import NOTED, PROGRESS, ddp_wrappers
from course_lib.watch.guard import guarded
from course_lib.watch.patches import patch
from course_lib.watch.probe import Probe, note_with
from course_lib.watch.weights import CheckPlan


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
            stack.enter_context(last_words(worker.CURRENT.channel))
        yield probe
        hooks.finish()


def _unwatch(probe: Probe) -> None:
    """What was noted stays to be told; the models get rid of their hooks."""
    note_with(None)
    PROGRESS.clear()
    for hook in probe.hooks:
        with contextlib.suppress(Exception):
            hook.remove()
