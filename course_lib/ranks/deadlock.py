"""Prove a deadlock from what was seen, without waiting for any timeout.

The argument: when every rank that is still running has been blocked in a communication call for two looks in a row,
asleep, without using its core and without issuing anything, then only another rank could set it free; all others have
left the code or are gone; so nothing will ever happen. Two looks are needed because a collective may be just about to
end; a collective that all its members have joined, with equal operation and sizes, is under way and proves nothing, and
a wait with a short timeout of its own ends in torch's own error. Silence alone (a straggler, a slow loader) proves
nothing either.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from course_lib.ranks.cell import Frame, is_learners
from course_lib.ranks.outcome import Collective, Waiting

#: A blocked rank uses next to nothing; more than this between two looks means that it computes or moves data.
_CPU_SECONDS = 0.005


@dataclass(frozen=True)
class Look:
    """What one rank said of itself at one moment (see `answering.look`)."""

    rank: int
    stack: tuple[Frame, ...]
    waiting_in: str | None
    cpu_seconds: float
    other_threads: int
    sequence: Mapping[str, int]
    members: Mapping[str, tuple[int, ...]]
    records: tuple[Collective, ...]
    asleep: bool = True
    ends_by_itself: bool = False
    facts: Mapping[str, Any] = field(default_factory=dict)
    brief: bool = False  # without `records`, which cost the rank tens of milliseconds

    @classmethod
    def from_message(cls, rank: int, data: Mapping[str, Any]) -> Look:
        """Rebuild the look from what the rank sent."""
        return cls(
            rank=rank,
            stack=tuple(Frame(**frame) for frame in data["stack"]),
            waiting_in=data["waiting_in"],
            cpu_seconds=data["cpu_seconds"],
            other_threads=data["other_threads"],
            sequence=data["sequence"],
            members={name: tuple(ranks) for name, ranks in data["members"].items()},
            records=tuple(Collective.from_record(record) for record in data["records"]),
            asleep=data["asleep"],
            ends_by_itself=data["ends_by_itself"],
            facts=data.get("facts", {}),
            brief=data.get("brief", False),
        )

    def issued(self, group: str) -> int:
        """How many collectives of `group` this rank has issued."""
        return max((record.seq for record in self.records if record.group == group), default=0)

    def learners_line(self) -> tuple[str, str]:
        """Where in the learner's code the rank is, and the text of that line."""
        for frame in reversed(self.stack):
            if is_learners(frame.file):
                return frame.where(), frame.source
        return "", ""

    def same_place(self, other: Look) -> bool:
        """True when nothing moved between the two looks."""
        return (
            self.asleep
            and other.asleep
            and self.stack == other.stack
            and (self.brief or other.brief or self.records == other.records)
            and self.sequence == other.sequence
            and abs(self.cpu_seconds - other.cpu_seconds) < _CPU_SECONDS
        )


def describe(look: Look, looks: Mapping[int, Look], state: str = "blocked") -> Waiting:
    """Who waits where, for whom, in which collective, judged from all ranks' looks."""
    where, source = look.learners_line()
    under_way = [record for record in look.records if not record.done]
    collective = None
    missing: tuple[int, ...] = ()
    mismatch: dict[int, Collective] = {}
    for record in under_way:
        absent, other = _partners(record, look, looks)
        if absent or other or collective is None:
            collective, missing, mismatch = record, absent, other
        if absent or other:
            break
    return Waiting(
        look.rank, look.waiting_in, where, source, collective, missing, mismatch, state, look.stack
    )


def _partners(
    record: Collective, look: Look, looks: Mapping[int, Look]
) -> tuple[tuple[int, ...], dict[int, Collective]]:
    absent = []
    other = {}
    for member in look.members.get(record.group, ()):
        if member == look.rank:
            continue
        theirs = looks.get(member)
        if theirs is None or theirs.issued(record.group) < record.seq:
            absent.append(member)
            continue
        met = next((r for r in theirs.records if r.group == record.group and r.seq == record.seq), None)
        if met is not None and not fit(record, met):
            other[member] = met
    return tuple(absent), other


def fit(one: Collective, two: Collective) -> bool:
    """True when two ranks that issue these as the same number of a group's sequence do the same thing."""
    if one.op != two.op:
        return False
    if one.op in ("all_reduce", "reduce", "broadcast"):
        return one.sizes == two.sizes and one.dtypes == two.dtypes
    return True


def first_misfit(
    recorded: Mapping[int, Iterable[Collective]], groups: Mapping[int, Mapping[str, Sequence[int]]]
) -> dict[int, Collective] | None:
    """What each rank brought to the first collective that cannot have gone well; None when all of them fit.

    Args:
        recorded: the collectives by rank. groups: the members of each rank's groups, by name; ranks that do not agree
            on who is in a group are not compared.
    """
    issued = {rank: {(r.group, r.seq): r for r in records} for rank, records in recorded.items()}
    for rank, records in issued.items():
        for key, record in sorted(records.items(), key=lambda entry: entry[1].time_ns):
            members = groups.get(rank, {}).get(record.group, ())
            peers = [m for m in members if m in issued and groups.get(m, {}).get(record.group) == members]
            met = {peer: issued[peer][key] for peer in peers if key in issued[peer]}
            if any(not fit(record, theirs) for theirs in met.values()):
                return met
    return None


def judge(
    before: Mapping[int, Look],
    now: Mapping[int, Look],
    running: frozenset[int],
    stopped: frozenset[int] = frozenset(),
) -> dict[int, Waiting] | None:
    """The proof, or None: who waits for what, if it is certain that nobody can go on.

    Args:
        before, now: two looks at every living rank, some time apart. With brief looks the answer is only a suspicion:
            a collective that all have joined cannot be told from one that is waited for.
        running: ranks that have not left the code. stopped: those of them that a signal has stopped (SIGSTOP).
    """
    awake = running - stopped
    if not awake:
        return None
    for rank in awake:
        if rank not in before or rank not in now:
            return None
        if now[rank].waiting_in is None or not now[rank].same_place(before[rank]):
            return None
        if now[rank].ends_by_itself:
            return None
    if any(look.other_threads for look in now.values()):
        return None
    waiting = {rank: describe(now[rank], now) for rank in sorted(awake)}
    everyone_there = [w for w in waiting.values() if w.collective and not w.missing and not w.mismatch]
    if everyone_there and len(everyone_there) == len(waiting) and not stopped:
        return None
    for rank in stopped:
        waiting[rank] = Waiting(rank, None, "", "", state="stopped")
    return waiting
