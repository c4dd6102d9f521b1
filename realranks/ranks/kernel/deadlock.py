"""Prove a deadlock from what was seen, without waiting for any timeout.

The argument: when every rank that is still running has been blocked in a communication call in two statuses in a row,
asleep, without using its core and without issuing anything, when no thread of any rank wants a core and no byte is on
its way between them, then nothing moves; only another rank could set a blocked one free, and all of them stand still
or have left the code. So nothing will ever happen. Two are needed because a collective may be just about to end.

What is seen does not prove it, though nothing moves, as long as something that cannot be looked into might still act:
another thread of the learner's, a lock that a thread could release. These are the doubts (`doubts.py`). A standstill
with doubts that lasts is *probably* a deadlock. A wait that ends by itself (a short timeout, `time.sleep`, a child
process that works) is neither: silence alone (a straggler, a slow loader) proves nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from realranks.outcome.outcome import Collective, RankState, Waiting
from realranks.outcome.partners import Partners
from realranks.ranks import nccl_counts
from realranks.ranks.kernel.doubts import doubts_about
from realranks.ranks.status import RankStatus

_RECEIVING = ("recv", "irecv")


def issued_between(
    statuses: Mapping[int, RankStatus], started_ns: int, ended_ns: int
) -> dict[int, tuple[Collective, ...]]:
    """Return the collectives that each rank issued in a span of time."""
    return {
        rank: tuple(record for record in status.records if started_ns <= record.time_ns <= ended_ns)
        for rank, status in sorted(statuses.items())
    }


@dataclass(frozen=True)
class Standstill:
    """Nothing moves on any rank.

    Attributes:
        waiting: who waits where and for whom, of the ranks that still run.
        doubts: why this does not prove a deadlock, a clause each; none: it does.
        may_resume: True when a rank is likely to go on by itself (a short timeout, `time.sleep`, a child process): then
            a deadlock is not even probable.
    """

    waiting: Mapping[int, Waiting]
    doubts: tuple[str, ...] = ()
    may_resume: bool = False

    @property
    def proved(self) -> bool:
        """True when no rank can ever go on."""
        return not self.doubts and not self.may_resume


def describe(
    status: RankStatus,
    statuses: Mapping[int, RankStatus],
    state: RankState = RankState.BLOCKED,
    failed: frozenset[int] = frozenset(),
) -> Waiting:
    """Describe where a rank waits, for whom and in which collective, judged from all ranks' statuses.

    Args:
        failed: ranks that have left the code with an error: a collective of theirs that is not over never will be.
    """
    where, source = status.learners_line()
    under_way = [record for record in status.records if not record.done]
    collective = None
    missing: tuple[int, ...] = ()
    mismatch: dict[int, Collective] = {}
    for record in under_way:
        absent, other = _partners(record, status, statuses, failed)
        if absent or other or collective is None:
            collective, missing, mismatch = record, absent, other
        if absent or other:
            break
    if collective is None:
        missing = _absent(status, statuses) or _absent_on_gpus(status, statuses)
    return Waiting(
        status.rank,
        status.waiting_in,
        where,
        source,
        collective,
        missing,
        mismatch,
        state,
        status.stack,
        pause=status.pause,
        partners=status.partners,
        children=tuple(name for name, _ in status.children.values()),
    )


def _partners(
    record: Collective, status: RankStatus, statuses: Mapping[int, RankStatus], failed: frozenset[int]
) -> tuple[tuple[int, ...], dict[int, Collective]]:
    absent: list[int] = []
    other = {}
    root = _root(status, record)
    group, _, backend = record.group.partition("/")
    if backend:
        absent += nccl_counts.absent(
            record.seq, status.rank, status.members.get(group, ()), _issued(statuses, group)
        )
    for member in status.members.get(group, ()):
        if member == status.rank or member in absent:
            continue
        theirs = statuses.get(member)
        if not backend and (theirs is None or theirs.issued(group) < record.seq):
            absent.append(member)
            continue
        if theirs is None:
            continue
        met = next((r for r in theirs.records if r.group == record.group and r.seq == record.seq), None)
        if met is None:
            continue
        if not fit(record, met):
            other[member] = met
        elif member in failed and not met.done:
            absent.append(member)
        elif root is not None and _root(theirs, met) not in (None, root):
            other[member] = met
    return tuple(absent), other


def _issued(statuses: Mapping[int, RankStatus], group: str) -> dict[int, int | None]:
    """Return how many collectives each rank has issued on this group through NCCL, whose backend counts them."""
    return {rank: status.sequence.get(f"{group}/nccl") for rank, status in statuses.items()}


def _absent_on_gpus(status: RankStatus, statuses: Mapping[int, RankStatus]) -> tuple[int, ...]:
    """Find the ranks that never issued a collective which this rank's GPU has not finished."""
    if not status.waits_for_gpu:
        return ()
    for group, queue in status.queues.items():
        number = nccl_counts.open_number(queue)
        if number is not None:
            found = nccl_counts.absent(
                number, status.rank, status.members.get(group, ()), _issued(statuses, group)
            )
            if found:
                return found
    return ()


def _root(status: RankStatus, record: Collective) -> int | None:
    """Return the rank that this one takes for the root of the collective it is blocked in."""
    needed = status.partners
    if needed is None or needed.group != record.group or record.done:
        return None
    return needed.root


def _absent(status: RankStatus, statuses: Mapping[int, RankStatus]) -> tuple[int, ...]:
    """Find the ranks that a call without a record (send, recv, monitored_barrier) needs and that are not in it."""
    needed = status.partners
    if needed is None:
        return ()
    if needed.to is not None:
        return () if _receives(statuses.get(needed.to), needed, status.rank) else (needed.to,)
    if needed.source is not None:
        return () if _sends(statuses.get(needed.source), needed, status.rank) else (needed.source,)
    if needed.call in _RECEIVING:
        return ()
    return tuple(
        member
        for member in needed.members
        if member != status.rank and not _in_the_same_call(statuses.get(member), needed)
    )


def _receives(other: RankStatus | None, sent: Partners, rank: int) -> bool:
    """Check that the other rank is blocked in a receive that takes what this one sends."""
    theirs = other.partners if other is not None else None
    if theirs is None or not theirs.meets(sent):
        return False
    return theirs.source == rank or (theirs.call in _RECEIVING and theirs.source is None)


def _sends(other: RankStatus | None, wanted: Partners, rank: int) -> bool:
    """Check that the other rank is blocked in a send of what this one wants to receive."""
    theirs = other.partners if other is not None else None
    return theirs is not None and theirs.to == rank and theirs.meets(wanted)


def _in_the_same_call(other: RankStatus | None, needed: Partners) -> bool:
    theirs = other.partners if other is not None else None
    return theirs is not None and (theirs.call, theirs.group) == (needed.call, needed.group)


def fit(one: Collective, two: Collective) -> bool:
    """Check that two ranks do the same thing if they issue these under the same number of a group's sequence."""
    return brought(one) == brought(two)


def brought(record: Collective) -> tuple[object, ...]:
    """Return what must be equal on all ranks of a collective.

    Of a scatter, for instance, only the root has tensors to give.
    """
    if record.op in ("all_reduce", "reduce", "broadcast"):
        return record.op, record.sizes, record.dtypes
    if record.op == "all_gather" and "/" not in record.group:
        # NCCL sends pieces of different sizes, gloo does not. A scalar and one element are the same to both.
        return record.op, tuple(map(math.prod, record.sizes)), record.dtypes
    return (record.op,)


def first_misfit(
    recorded: Mapping[int, Iterable[Collective]], groups: Mapping[int, Mapping[str, Sequence[int]]]
) -> dict[int, Collective] | None:
    """Return each rank's part in the first collective that cannot have succeeded; None if all of them match.

    Args:
        recorded: the collectives by rank.
        groups: the members of each rank's groups, by name; ranks that do not agree on who is in a group are not
            compared.
    """
    issued = {rank: {(r.group, r.seq): r for r in records} for rank, records in recorded.items()}
    for rank, records in issued.items():
        for key, record in sorted(records.items(), key=lambda entry: entry[1].time_ns):
            name = record.group.partition("/")[0]
            members = groups.get(rank, {}).get(name, ())
            peers = [m for m in members if m in issued and groups.get(m, {}).get(name) == members]
            met = {peer: issued[peer][key] for peer in peers if key in issued[peer]}
            if any(not fit(record, theirs) for theirs in met.values()):
                return met
    return None


def judge(
    before: Mapping[int, RankStatus],
    now: Mapping[int, RankStatus],
    running: frozenset[int],
    stopped: frozenset[int] = frozenset(),
    failed: frozenset[int] = frozenset(),
) -> Standstill | None:
    """Find ranks without progress, and whether that proves that no rank can go on; None while anything moves.

    Args:
        before: an earlier status of every living rank.
        now: a later status of every living rank. With brief ones a proof is only a suspicion, because who waits for
            whom is not known then.
        running: ranks that have not left the code.
        stopped: those of them that a signal has stopped (SIGSTOP).
        failed: ranks that have left it with an error.
    """
    awake = running - stopped
    if not awake or not all(rank in before and rank in now for rank in awake):
        return None
    if not all(now[rank].same_place(before[rank]) for rank in awake):
        return None
    # CUDA may spin while it waits. Where NCCL's numbers name whom the GPU lacks, that is no sign of progress.
    spins = {rank for rank in awake if _absent_on_gpus(now[rank], now)}
    if not all(
        status.still_since(before[rank])
        for rank, status in now.items()
        if rank in before and rank not in spins
    ):
        return None
    waiting = {rank: describe(now[rank], now, _state(now[rank]), failed) for rank in sorted(awake)}
    for rank in stopped:
        waiting[rank] = Waiting(rank, None, "", "", state=RankState.STOPPED)
    doubts = doubts_about(now, awake, waiting)
    may_resume = any(now[rank].ends_by_itself for rank in awake) or any(doubt.likely for doubt in doubts)
    return Standstill(waiting, tuple(doubt.text for doubt in doubts), may_resume)


def _state(status: RankStatus) -> RankState:
    if status.waits_for_gpu:
        return RankState.GPU
    return RankState.BLOCKED if status.waiting_in is not None else RankState.ASLEEP
