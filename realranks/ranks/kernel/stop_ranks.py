"""End the part of ranks that do not end by themselves.

The order is always the same: ask (SIGINT), free (shut gloo's connections), ask again, kill. What was killed costs the
gang; everything gentler keeps the ranks' Python state.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from realranks.outcome.outcome import RankState
from realranks.ranks.kernel.job import ANSWER_SECONDS_IF_PROVED, Run, collect, must_have_heard
from realranks.ranks.kernel.links import Link, Wires
from realranks.ranks.messages import Free, Freed

GRACE_SECONDS = 1.0
#: How long a rank may take to hear that it is to be freed; one that computes without giving up the GIL never does.
ANSWER_SECONDS = 2.0
#: One that uses GPUs first waits for the abort of NCCL's communicators (`freeing.ABORT_SECONDS`), then answers.
ANSWER_SECONDS_ON_GPUS = 3.0
#: How long a rank that uses GPUs may take to leave once it is freed. Shutting gloo's sockets down is done at once; an
#: abort of NCCL's communicators stops kernels and gives memory back first. How long that takes on a card is what the
#: steps `stop` and `again` of `make test-gpu` find out; until then this is a guess on the safe side.
LEAVE_SECONDS_ON_GPUS = 5.0
#: How often a rank is asked once more, a grace apart, when the machine has no core to spare.
_PATIENT_TURNS = 5


@dataclass(frozen=True)
class Patience:
    """Seconds to wait for ranks that are to be freed: until they answer, and until they leave."""

    to_answer: float
    to_leave: float


def patience(links: Iterable[Link], *, proved: bool) -> Patience:
    """Choose how long to wait for these ranks to answer and to leave.

    Args:
        links: their ends of the wires, which know who uses GPUs, also of a rank that has fallen silent.
        proved: whether it is proved that they are stuck.
    """
    on_gpus = any(link.uses_gpus for link in links)
    to_answer = ANSWER_SECONDS_ON_GPUS if on_gpus else ANSWER_SECONDS
    to_leave = LEAVE_SECONDS_ON_GPUS if on_gpus else GRACE_SECONDS / 2
    return Patience(ANSWER_SECONDS_IF_PROVED if proved else to_answer, to_leave)


def machine_is_busy() -> bool:
    """Check whether much more wants to run than the machine has cores for."""
    return os.getloadavg()[0] > 1.5 * (os.cpu_count() or 1)


def kill_on_broken_wires(run: Run) -> None:
    """Kill ranks that live but can never answer, because their code closed or overwrote the wire's descriptor."""
    for link in run.running():
        if link.channel.closed:
            since = run.wire_closed.setdefault(link.rank, run.seconds())
            if run.seconds() - since > GRACE_SECONDS:
                run.cut_off.add(link.rank)
                link.signal(signal.SIGKILL)


def end(wires: Wires, run: Run, why: str, free_first: bool = False) -> None:
    """Make every rank that still runs leave the learner's code."""
    for link in run.running():
        run.stopped_at[link.rank] = why
    used = {link.rank: link.processor_seconds() for link in run.running()}
    continued = [link for link in run.running() if link.is_stopped()]
    for link in continued:
        link.signal(signal.SIGCONT)
    # A collective that goes on must not be cut while it sends: gloo can miss the cut and wait for its own timeout.
    if continued and _wait(wires, run, GRACE_SECONDS / 2):
        return
    if not free_first:
        for link in run.running():
            link.interrupt()
        if _wait(wires, run, 0.1):
            return
    # Freeing one rank wakes its peers too; all of them are asked, so that none is left with half a connection.
    run.freed = True
    waits = patience(run.links, proved=run.proved)
    for cut_store in (False, True):
        freed = wires.ask(Free(store=cut_store), Freed, waits.to_answer, enough=lambda _: _all_left(run))
        if _wait(wires, run, waits.to_leave):
            return
        # A call into C that holds the GIL may end yet: a rank that keeps its variables for the next cell is asked on.
        unresponsive = [link.rank not in freed and must_have_heard(link, used) for link in run.running()]
        if all(unresponsive) and not run.job.repair:
            break
    else:
        # A rank that is proved to be stuck ignores further interrupts, so it is interrupted only once.
        for _ in range(1 if free_first else 3):
            for link in run.running():
                link.interrupt()
            if _wait(wires, run, GRACE_SECONDS / 2):
                return
        _wait_for_the_busy(wires, run, used)
    for link in run.running():
        run.killed.add(link.rank)
        link.kill()
    _wait(wires, run, 5.0)


def _was_at_work(run: Run, link: Link) -> bool:
    return link.rank in run.waiting and run.waiting[link.rank].state in (
        RankState.COMPUTING,
        RankState.SILENT,
    )


def _wait_for_the_busy(wires: Wires, run: Run, used: Mapping[int, float]) -> None:
    """Give ranks more time on an overloaded machine, where they may not have had a core to react."""
    for _ in range(_PATIENT_TURNS if run.job.repair and machine_is_busy() else 0):
        at_work = [link for link in run.running() if _was_at_work(run, link)]
        if all(must_have_heard(link, used) for link in at_work):
            return
        for link in run.running():
            link.interrupt()
        _wait(wires, run, GRACE_SECONDS)


def _all_left(run: Run) -> bool:
    collect(run)
    return not run.running()


def _wait(wires: Wires, run: Run, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while run.running() and time.monotonic() < deadline:
        wires.pump(deadline - time.monotonic())
        collect(run)
    return not run.running()
