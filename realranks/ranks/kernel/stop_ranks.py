"""End the part of ranks that do not end by themselves, and say where they were.

The order is always the same: ask (SIGINT), free (shut gloo's connections), ask again, kill. What was killed costs the
gang; everything gentler keeps the ranks' Python state.
"""

from __future__ import annotations

import linecache
import os
import re
import signal
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from realranks.outcome.outcome import PauseKind, RankState, Waiting
from realranks.outcome.places import Frame, is_learners
from realranks.ranks.kernel import deadlock
from realranks.ranks.kernel.event_loop import Wires
from realranks.ranks.kernel.gil_blocked import wants_to_run
from realranks.ranks.kernel.job import Run, collect
from realranks.ranks.kernel.rank_handle import Link
from realranks.ranks.messages import Free, Freed
from realranks.ranks.process import STACK_SIGNAL
from realranks.ranks.status import RankStatus

GRACE_SECONDS = 1.0
#: How long a rank may take to hear that it is to be freed; one that computes without giving up the GIL never does.
ANSWER_SECONDS = 2.0
#: One that is proved to be stuck has just answered: only the question before can keep it from hearing. Reading the
#: first stacks takes a second of a core, and much longer on a machine that has none to spare. Whoever is asked what it
#: does has as long.
ANSWER_SECONDS_IF_PROVED = 20.0
#: One that uses GPUs first waits for the abort of NCCL's communicators (`freeing.ABORT_SECONDS`), then answers.
ANSWER_SECONDS_ON_GPUS = 3.0
#: How long a rank that uses GPUs may take to leave once it is freed. Shutting gloo's sockets down is done at once; an
#: abort of NCCL's communicators stops kernels and gives memory back first. How long that takes on a card is what the
#: steps `stop` and `again` of `make test-gpu` find out; until then this is a guess on the safe side.
LEAVE_SECONDS_ON_GPUS = 5.0
#: How often a rank is asked once more, a grace apart, when the machine has no core to spare, and the processor seconds
#: after which it must have heard.
_PATIENT_TURNS = 5
#: Of a rank that is asked, and has not answered, no thread has wanted a core so many times in a row: none will answer.
_ASLEEP = 4
_HEARD_SECONDS = 2.0


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


def get_all_statuses(wires: Wires, run: Run) -> dict[int, RankStatus]:
    """Ask all ranks for their status, and wait for those that may not have had a core to answer on."""
    used: dict[int, float] = {}
    asleep: Counter[int] = Counter()

    def given_up(link: Link) -> bool:
        used.setdefault(link.rank, link.processor_seconds())
        wants_a_core = not link.here or link.pid is None or wants_to_run(link.pid)
        asleep[link.rank] = 0 if wants_a_core else asleep[link.rank] + 1
        halted = link.rank in run.locked or link.is_stopped() or link.is_unresponsive
        return halted or asleep[link.rank] >= _ASLEEP or _must_have_heard(link, used)

    def enough(silent: Sequence[Link]) -> bool:
        return min(map(given_up, silent))  # all of them are looked at each time

    return wires.get_statuses(ANSWER_SECONDS_IF_PROVED, detail=True, enough=enough)


def see_where(wires: Wires, run: Run) -> None:
    """Record where each late rank is before it is ended."""
    statuses = get_all_statuses(wires, run)
    run.details = statuses
    for link in run.running():
        if link.rank in statuses:
            status = statuses[link.rank]
            waiting = deadlock.describe(status, statuses, state_of(status), failed_ranks(run))
            run.waiting[link.rank] = replace(waiting, seconds=_seconds_of(waiting, run))
        else:
            run.waiting[link.rank] = of_unanswering(wires, run, link)


def of_unanswering(wires: Wires, run: Run, link: Link) -> Waiting:
    """Describe a rank that does not answer, from its process state and its stack."""
    if link.is_stopped():
        return Waiting(link.rank, None, "", "", state=RankState.STOPPED)
    if link.is_unresponsive:
        return Waiting(link.rank, None, "", "", state=RankState.UNHEARD)
    stack = _stack_from_signal(wires, link)
    where, source = (stack[-1].where(), stack[-1].source) if stack else ("", "")
    state = RankState.LOCKED if link.rank in run.locked else RankState.SILENT
    return Waiting(link.rank, None, where, source, state=state, stack=stack)


def state_of(status: RankStatus) -> RankState:
    """Classify what a rank that must be ended is doing, for `Waiting.state`."""
    if status.pause is not None and status.pause[1] == PauseKind.GPU:
        return RankState.GPU  # CUDA spins or sleeps while it waits: being awake does not tell
    if not status.asleep:
        return RankState.COMPUTING
    return (
        RankState.BLOCKED
        if status.waiting_in is not None
        else RankState.ASLEEP
        if status.pause
        else RankState.COMPUTING
    )


def failed_ranks(run: Run) -> frozenset[int]:
    """Return the ranks that have left the code with an error."""
    return frozenset(rank for rank, done in run.done.items() if done.error is not None)


def _seconds_of(waiting: Waiting, run: Run) -> float | None:
    """Return how long a rank has been waiting in its collective."""
    if waiting.state != RankState.BLOCKED or waiting.collective is None:
        return None
    return (time.time_ns() - max(waiting.collective.time_ns, run.started_ns)) / 1e9


def see_details(wires: Wires, run: Run) -> None:
    """Ask for the lines behind a proved deadlock, and whatever else the ranks can report."""
    statuses = get_all_statuses(wires, run)
    run.details = statuses
    for rank, waiting in run.waiting.items():
        if rank in statuses and waiting.state == RankState.BLOCKED:
            run.waiting[rank] = deadlock.describe(statuses[rank], statuses, failed=failed_ranks(run))


def _stack_from_signal(wires: Wires, link: Link) -> tuple[Frame, ...]:
    """Return the learner's frames of the thread that holds the GIL, as faulthandler prints them (innermost first)."""
    link.signal(STACK_SIGNAL)
    deadline = time.monotonic() + 0.5
    # faulthandler writes frame by frame; the outermost one is always <module>.
    while link.outermost not in link.stack_dump.text() and time.monotonic() < deadline:
        wires.pump(deadline - time.monotonic())
    return main_stack(link)


def main_stack(link: Link) -> tuple[Frame, ...]:
    """Return the learner's frames of the main thread from faulthandler's text, the outermost first."""
    frames = []
    dump = link.stack_dump.text()
    for thread in re.split(r"\n\s*\n|\n(?=Thread 0x|Current thread 0x)", dump):
        if link.outermost in thread:
            for file, line, function in re.findall(r'File "(.*?)", line (\d+) in (\S+)', thread):
                if is_learners(file):
                    source = linecache.getline(file, int(line)).strip()
                    frames.append(Frame(file, int(line), function, source))
    return tuple(reversed(frames))


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
        unresponsive = [link.rank not in freed and _must_have_heard(link, used) for link in run.running()]
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


def _must_have_heard(link: Link, used: Mapping[int, float]) -> bool:
    """Check for a rank that has run so long since the first request that another one would not help.

    Args:
        used: the processor seconds of each rank when it was asked first.
    """
    return link.processor_seconds() - used[link.rank] >= _HEARD_SECONDS


def _wait_for_the_busy(wires: Wires, run: Run, used: Mapping[int, float]) -> None:
    """Give ranks more time on an overloaded machine, where they may not have had a core to react."""
    for _ in range(_PATIENT_TURNS if run.job.repair and machine_is_busy() else 0):
        at_work = [link for link in run.running() if _was_at_work(run, link)]
        if all(_must_have_heard(link, used) for link in at_work):
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
