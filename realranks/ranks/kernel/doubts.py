"""Why a standstill of all ranks does not prove a deadlock: who might still act, and what cannot be seen."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from realranks.outcome.fold import rank_list
from realranks.outcome.outcome import NOT_ARRIVED, PauseKind, Waiting
from realranks.outcome.places import is_learners
from realranks.ranks.status import RankStatus

_STORE_CALLS = ("get", "wait")


@dataclass(frozen=True)
class Doubt:
    """One reason.

    Attributes:
        text: a clause.
        likely: a rank is so likely to go on that a deadlock is not even probable.
    """

    text: str
    likely: bool = False


def doubts_about(
    now: Mapping[int, RankStatus], awake: Collection[int], waiting: Mapping[int, Waiting]
) -> list[Doubt]:
    """List every reason to doubt that these ranks can never go on.

    Args:
        now: the last status of every living rank.
        awake: ranks that have not left the code, without those that a signal has stopped.
        waiting: who waits where and for whom, of all that have not left it.
    """
    here = {rank: now[rank] for rank in sorted(awake)}
    return [
        *_on_the_way(now),
        *_sleepers(here, waiting),
        *_threads(now),
        *_children(now, here),
        *_unrecorded_waits(here, waiting),
        *_unseen_traffic(here, waiting),
    ]


def _on_the_way(statuses: Mapping[int, RankStatus]) -> Iterator[Doubt]:
    """Yield a doubt for bytes sent to other machines: lost ones are retransmitted for minutes."""
    senders = [rank for rank, status in sorted(statuses.items()) if status.unconfirmed]
    if senders:
        yield Doubt(f"what {rank_list(senders)} {NOT_ARRIVED}")


def _sleepers(awake: Mapping[int, RankStatus], waiting: Mapping[int, Waiting]) -> Iterator[Doubt]:
    """Yield a doubt for ranks that sleep outside of communication calls."""
    for rank, status in awake.items():
        if status.waiting_in is not None:
            continue
        call, kind = status.pause or ("", PauseKind.OTHER)
        missing = waiting[rank].missing
        if kind == PauseKind.GPU and missing:
            yield Doubt(
                f"whether the GPU of rank {rank} waits for {rank_list(missing)} or still computes is not told"
            )
        elif kind == PauseKind.GPU:
            yield Doubt(f"rank {rank} waits in {call} for its GPU, which may still compute", likely=True)
        else:
            what = f"sleeps in {call}, which is no communication" if call else "sleeps"
            yield Doubt(f"rank {rank} {what}", likely=kind != PauseKind.LOCK)


def _threads(statuses: Mapping[int, RankStatus]) -> Iterator[Doubt]:
    """Yield a doubt for the learner's other threads, one per name."""
    by_name: dict[str, list[tuple[int, str]]] = {}
    for rank, status in sorted(statuses.items()):
        for name, kind in status.threads:
            by_name.setdefault(name, []).append((rank, kind))
    for name, seen in by_name.items():
        yield Doubt(
            f"thread {name!r} of {rank_list(rank for rank, _ in seen)} lives and might still act",
            likely=any(kind not in (PauseKind.LOCK, "communication") for _, kind in seen),
        )


def _children(statuses: Mapping[int, RankStatus], awake: Mapping[int, RankStatus]) -> Iterator[Doubt]:
    """Yield a doubt for child processes that may set a store key for which a rank waits."""
    parents = {rank: status for rank, status in sorted(statuses.items()) if status.children}
    if parents and any(_needs_a_store(status) for status in awake.values()):
        for rank, status in parents.items():
            names = ", ".join(sorted({name for name, _ in status.children.values()}))
            yield Doubt(
                f"a process that rank {rank} has started ({names}) lives and might set the key", likely=True
            )


def _needs_a_store(status: RankStatus) -> bool:
    """Check for a wait for a store key in the learner's own line; an open record would mean a wait for a Work."""
    return (
        status.partners is None
        and status.waiting_in in _STORE_CALLS
        and is_learners(status.stack[-1].file)
        and all(record.done for record in status.records)
    )


def _unrecorded_waits(awake: Mapping[int, RankStatus], waiting: Mapping[int, Waiting]) -> Iterator[Doubt]:
    """Yield a doubt for waits of ranks on GPUs without a recorded collective: they may be NCCL's.

    torch records those elsewhere. With TORCH_NCCL_BLOCKING_WAIT the rank sleeps in them as in one of gloo's, also if
    all ranks have joined and their GPUs only have to compute what comes before.
    """
    for rank, status in awake.items():
        wait = waiting[rank]
        if status.uses_gpus and not status.brief and wait.call is not None and wait.collective is None:
            yield Doubt(f"no record tells what rank {rank} waits for: a GPU may still compute", likely=True)


def _unseen_traffic(awake: Mapping[int, RankStatus], waiting: Mapping[int, Waiting]) -> Iterator[Doubt]:
    """Yield a doubt for data that may be in flight once all ranks have joined the collective."""
    if all(wait.collective and not wait.missing and not wait.mismatch for wait in waiting.values()):
        for rank, status in awake.items():
            if not status.seen_through:
                yield Doubt(f"the system does not tell what rank {rank} still sends or receives")
