"""The sides of a hang, with their places and waits, computed once for all rules about hangs (`hangs`).

A side is a set of ranks that wait in one call, have left the code, or never ran it. It imports no rule.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from realranks.doctor.conditions import condition_of
from realranks.doctor.words import at_line, blocked_in, call_of, collective_text, within_library
from realranks.outcome.outcome import Collective, DDPStage, Kind, Outcome, Waiting
from realranks.ranks.kernel.deadlock import brought
from realranks.watch.majority import odd_ones

IN_A_PASS = (DDPStage.GRADIENTS, DDPStage.BUFFERS, DDPStage.REBUILD)


class Situation(enum.Flag):
    """The relation of the sides to each other."""

    MEET = enum.auto()  # they have brought different collectives to one number of a group's sequence
    LEFT = enum.auto()  # one waits for ranks that have left the code
    IDLE = enum.auto()  # one waits for ranks of which some were never in it
    CIRCLE = enum.auto()  # all wait, each for others that do, too
    ALONE = enum.auto()  # all wait in the same call, and for no rank
    OTHER = enum.auto()  # some wait for what no rank in particular has to do


@dataclass(frozen=True)
class Side:
    """Ranks that are in the same place.

    Attributes:
        collective: what they are in, if they wait in one. waiting: the wait of the first of them, if it waits.
        condition: on the rank, under which only these come there.
        stages: by rank that waits in a collective, what DDP has issued it for.
        came: those of them, and of the other ranks, that wait in the collective or for which it is over.
    """

    ranks: tuple[int, ...]
    collective: Collective | None = None
    waiting: Waiting | None = None
    condition: str | None = None
    stages: Mapping[int, DDPStage] = field(default_factory=dict)
    came: tuple[int, ...] = ()

    @property
    def met(self) -> Collective:
        """The collective, where every side is in one."""
        assert self.collective is not None
        return self.collective

    @property
    def where(self) -> str:
        """The line they came from."""
        return (self.collective.where if self.collective else "") or (
            self.waiting.where if self.waiting else ""
        )

    @property
    def what(self) -> str:
        """The collective or call they are in."""
        if self.collective is not None:
            return collective_text(self.collective)
        return call_of(self.waiting) if self.waiting is not None else ""

    def __str__(self) -> str:
        return self.what + at_line(self.where)

    @property
    def text(self) -> str:
        """The collective or call they are in, with its line, also within a library."""
        return f"{self}{within_library(self.met)}" if self.where else self.what


@dataclass(frozen=True)
class Hang:
    """The sides of ranks that get no further.

    Attributes:
        blocked: the ranks that wait.
        one, other: the side that did something else, as far as that is known, and the largest of the others. Where
            ranks have left, `one` are all that wait, and `other` those that have left.
    """

    outcome: Outcome
    situation: Situation
    sides: tuple[Side, ...]
    one: Side
    other: Side
    blocked: Mapping[int, Waiting]

    @property
    def pairs(self) -> tuple[tuple[Side, Side], ...]:
        """Each of the two sides with the other one; a side that waits for ranks that have left comes alone."""
        pairs = ((self.one, self.other), (self.other, self.one))
        return tuple(pair for pair in pairs if pair[0].waiting is not None or pair[0].collective is not None)

    @property
    def when_they_met(self) -> Outcome:
        """The outcome without what ranks have issued after their sides met: gloo lets some of them go on."""
        recorded = dict(self.outcome.recorded)
        for side in self.sides:
            for rank in side.ranks:
                numbers = [(record.group, record.seq) for record in recorded.get(rank, ())]
                if (met := (side.met.group, side.met.seq)) in numbers:
                    recorded[rank] = recorded[rank][: numbers.index(met) + 1]
        return replace(self.outcome, recorded=recorded)

    @property
    def first(self) -> Waiting:
        """The wait of the first rank that waits."""
        return next(iter(self.blocked.values()))


def hang_of(outcome: Outcome) -> Hang | None:
    """Build the table of sides from an outcome; None if no rank waits for another."""
    sides = _sides_by_place(outcome) if outcome.from_outside else _sides_that_meet(outcome)
    if len(sides) > 1:
        return meeting(outcome, sides)
    blocked = blocked_in(outcome)
    if outcome.kind is not Kind.HANG or not blocked:
        return None
    missing = sorted({rank for waiting in blocked.values() for rank in waiting.missing})
    gone = [rank for rank in missing if rank not in blocked]
    one = _waiting_side(outcome, blocked, gone)
    other = Side(tuple(gone), condition=_last_condition(outcome, gone))
    return Hang(outcome, _situation(outcome, blocked, missing, gone), (one, other), one, other, blocked)


def meeting(outcome: Outcome, sides: list[Side]) -> Hang:
    """Build the table for sides that are in different collectives; side `one` did something else."""
    one = _odd_side(sides) or sides[0]
    other = max((side for side in sides if side is not one), key=lambda side: len(side.ranks))
    return Hang(outcome, Situation.MEET, tuple(sides), one, other, blocked_in(outcome))


def to_a_rank(waiting: Waiting) -> bool:
    """Check for send() or recv(), which name the rank they wait for."""
    named = waiting.partners is not None and waiting.partners.call in ("send", "isend", "recv", "irecv")
    return named or any(word in (waiting.call or "") for word in ("send", "recv"))


def _situation(
    outcome: Outcome, blocked: Mapping[int, Waiting], missing: list[int], gone: list[int]
) -> Situation:
    if gone:
        return Situation.LEFT if set(gone) <= set(outcome.ranks) else Situation.IDLE
    if missing:
        # A rank that waits for a store's key, say, waits for no rank in particular: that is no circle.
        known = all(w.missing or w.collective is not None or to_a_rank(w) for w in blocked.values())
        return Situation.CIRCLE if known else Situation.OTHER
    return Situation.ALONE if len(set(map(call_of, blocked.values()))) == 1 else Situation.OTHER


def _waiting_side(outcome: Outcome, blocked: Mapping[int, Waiting], gone: list[int]) -> Side:
    first, came = next(iter(blocked.values())), set(blocked)
    if first.collective is not None:
        number = (first.collective.group, first.collective.seq)
        for rank, records in outcome.recorded.items():
            if rank not in gone and any((record.group, record.seq) == number for record in records):
                came.add(rank)
    stages = {rank: w.collective.stage for rank, w in blocked.items() if w.collective is not None}
    condition = condition_of(outcome, came, first.collective, first)
    return Side(tuple(blocked), first.collective, first, condition, stages, tuple(sorted(came)))


def _last_condition(outcome: Outcome, gone: list[int]) -> str | None:
    """Return the condition on the rank around the last collective of one of these ranks."""
    last = (outcome.recorded[rank][-1] for rank in gone if outcome.recorded.get(rank))
    return next(filter(None, (condition_of(outcome, gone, record, None) for record in last)), None)


def _sides_that_meet(outcome: Outcome) -> list[Side]:
    for waiting in outcome.waiting.values():
        if not waiting.mismatch or waiting.collective is None:
            continue
        number = (waiting.collective.group, waiting.collective.seq)
        issued = {waiting.rank: waiting.collective, **waiting.mismatch}
        for rank, other in outcome.waiting.items():
            if other.collective is not None and (other.collective.group, other.collective.seq) == number:
                # It also knows what ranks brought for which the collective is over.
                issued = {**other.mismatch, rank: other.collective, **issued}
        full = {rank: _recorded(outcome, rank, record) for rank, record in sorted(issued.items())}
        return sides_by_collective(outcome, full, outcome.waiting)
    return []


def sides_by_collective(
    outcome: Outcome, met: Mapping[int, Collective], waiting: Mapping[int, Waiting]
) -> list[Side]:
    """Group the ranks by the collective they issued: operation, sizes, types, and purpose for DDP."""
    ranks: dict[tuple[object, ...], list[int]] = {}
    for rank, record in met.items():
        key = (*brought(record), record.stage if record.op != "barrier" else "")
        ranks.setdefault(key, []).append(rank)
    sides = []
    for each in map(tuple, sorted(ranks.values())):
        record, seen = met[each[0]], waiting.get(each[0])
        condition = condition_of(outcome, each, record, seen)
        sides.append(Side(each, record, seen, condition, dict.fromkeys(each, record.stage), each))
    return sides


def _sides_by_place(outcome: Outcome) -> list[Side]:
    """Group the ranks by the lines through which they came to their collectives, if all wait in one group.

    An external look sees neither the number of a collective nor its size. But once nothing moves, ranks that wait in
    one group at different lines are not in the same collective.
    """
    blocked = blocked_in(outcome)
    issued = {rank: w.collective for rank, w in blocked.items() if w.collective is not None}
    if len(issued) < len(outcome.waiting) or len({record.group for record in issued.values()}) != 1:
        return []
    if any(waiting.missing for waiting in blocked.values()):
        return []
    ranks: dict[tuple[object, ...], list[int]] = {}
    for rank, record in issued.items():
        ranks.setdefault((record.op, record.stage, record.frames), []).append(rank)
    sides = []
    for each in map(tuple, sorted(ranks.values())):
        record, seen = issued[each[0]], blocked[each[0]]
        condition = condition_of(outcome, each, record, seen)
        sides.append(Side(each, record, seen, condition, dict.fromkeys(each, record.stage), each))
    return sides


def _recorded(outcome: Outcome, rank: int, record: Collective) -> Collective:
    """Find the rank's own record of this collective, which also has the line that issued it."""
    for own in outcome.recorded.get(rank, ()):
        if (own.group, own.seq) == (record.group, record.seq):
            return own
    return record


def odd_of(sides: Collection[Side]) -> tuple[int, ...]:
    """Return the ranks outside the majority's side; empty if there is no majority."""
    return odd_ones({rank: number for number, side in enumerate(sides) for rank in side.ranks})


def guarded(sides: Collection[Side]) -> Side | None:
    """Return the only side under a condition on the rank, which is better evidence than being in the minority."""
    found = [side for side in sides if side.condition is not None]
    return found[0] if len(found) == 1 else None


def _odd_side(sides: Collection[Side]) -> Side | None:
    """Return the side at fault: the one under a condition on the rank, or else the smaller one."""
    odd = odd_of(sides)
    few = [side for side in sides if odd and set(side.ranks) <= set(odd)]
    return guarded(sides) or min(few, key=lambda side: len(side.ranks), default=None)
