"""Ranks that meet in different collectives, or bring different things to the same one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from course_lib.doctor.alignment import out_of_step, threads_share
from course_lib.doctor.conditions import condition_of, rank_only_collective
from course_lib.doctor.counts import calls_of_line, done_by, without_backward
from course_lib.doctor.habits import against_the_habit
from course_lib.doctor.lessons import taught_in
from course_lib.doctor.loops import called_from, path_of
from course_lib.doctor.model_order import different_order, order_diagnosis
from course_lib.doctor.notes import notes_of
from course_lib.doctor.own_collectives import at_end_of_join, own_inside_join, own_meets
from course_lib.doctor.passes import extra_pass, join_on_some_ranks
from course_lib.doctor.uneven import uneven_batches
from course_lib.doctor.words import (
    capital,
    collective_text,
    fewer,
    lines_of,
    positions,
    rank_list,
    steps,
    verb,
    within_library,
)
from course_lib.outcome.outcome import Collective, DDPStage, Diagnosis, Outcome, Waiting
from course_lib.outcome.places import Frame
from course_lib.ranks.kernel.deadlock import brought, first_misfit
from course_lib.watch.majority import odd_ones

_SAME_ORDER = "every rank must issue the same collectives in the same order, with equal shapes and types."


@dataclass(frozen=True)
class Side:
    """The ranks that wait in one collective while others wait in another.

    Attributes:
        condition: on the rank, under which only these come there.
    """

    ranks: tuple[int, ...]
    collective: Collective
    waiting: Waiting | None
    condition: str | None

    def where(self) -> str:
        """The line they came from."""
        return self.collective.where or (self.waiting.where if self.waiting else "")

    def text(self) -> str:
        """What they are in, and where."""
        where = self.where()
        return collective_text(self.collective) + (
            f" at {where}{within_library(self.collective)}" if where else ""
        )


def different_collectives(outcome: Outcome) -> Diagnosis | None:
    """Ranks have joined the same position of a group's sequence with different collectives."""
    sides = _sides(outcome)
    return _judged(outcome, sides) if len(sides) >= 2 else None


def _judged(outcome: Outcome, sides: list[Side]) -> Diagnosis:
    threads = threads_share(outcome, sides[0].collective.group)
    if threads is not None:
        return threads
    odd = _odd_side(sides)
    one = odd or sides[0]
    others = max((side for side in sides if side is not one), key=lambda side: len(side.ranks))
    culprits = odd.ranks if odd is not None else ()
    sizes = partial(_sizes, sides)
    several, once = partial(_habit, True), partial(_habit, False)
    for rule in (
        _join,
        _extra_pass,
        _order,
        _shifted,
        several,
        _own,
        sizes,
        once,
        _lost_step,
        _only_under_a_condition,
    ):
        found = rule(outcome, one, others, culprits)
        if found is not None:
            return found
    met = ", ".join(
        f"{rank_list(side.ranks)} in {side.text()}{_how_often(outcome, side, one, others)}" for side in sides
    )
    all_odd = _odd(sides) or culprits
    return Diagnosis(
        "different_collectives",
        f"The ranks wait for each other in different collectives: {met}.",
        all_odd,
        positions(outcome, all_odd),
        advice=_SAME_ORDER,
        lesson=taught_in(13, 0),
    )


def _how_often(outcome: Outcome, side: Side, one: Side, other: Side) -> str:
    """From where a side came to a line that others have come to from elsewhere, and how often so far."""
    rest = other if side is one else one
    mine, came = path_of(side.collective), calls_of_line(outcome, side.collective)
    here, there = came.get(side.ranks[0], 0), came.get(rest.ranks[0], 0)
    if not here or not there or rest.collective.frames == side.collective.frames:
        return ""
    way = called_from(path_of(rest.collective), mine)
    return f"{way} ({steps(here, 'time')} so far, and {rank_list(rest.ranks)} {steps(there, 'time')})"


def _sides(outcome: Outcome) -> list[Side]:
    for waiting in outcome.waiting.values():
        if not waiting.mismatch or waiting.collective is None:
            continue
        group, seq = waiting.collective.group, waiting.collective.seq
        issued = {waiting.rank: waiting.collective, **waiting.mismatch}
        for rank, other in outcome.waiting.items():
            if other.collective is not None and (other.collective.group, other.collective.seq) == (
                group,
                seq,
            ):
                # It also knows what ranks brought for which the collective is over.
                issued = {**other.mismatch, rank: other.collective, **issued}
        full = {rank: _recorded(outcome, rank, record) for rank, record in sorted(issued.items())}
        return _sides_of(outcome, full, outcome.waiting)
    return []


def _sides_of(outcome: Outcome, met: Mapping[int, Collective], waiting: Mapping[int, Waiting]) -> list[Side]:
    """The ranks by what they brought."""
    ranks: dict[tuple[object, ...], list[int]] = {}
    for rank, record in met.items():
        key = (*brought(record), record.stage if record.op != "barrier" else "")
        ranks.setdefault(key, []).append(rank)
    sides = []
    for each in sorted(ranks.values()):
        record, seen = met[each[0]], waiting.get(each[0])
        sides.append(Side(tuple(each), record, seen, condition_of(outcome, each, record, seen)))
    return sides


def _recorded(outcome: Outcome, rank: int, record: Collective) -> Collective:
    """The same record with the line that issued it, which only the rank's own list has."""
    for own in outcome.recorded.get(rank, ()):
        if (own.group, own.seq) == (record.group, record.seq):
            return own
    return record


def aborted(outcome: Outcome, dead: tuple[int, ...]) -> Diagnosis | None:
    """gloo has ended ranks that received more than they expected: what did the ranks bring?"""
    met = _first_misfit(outcome)
    if met is None:
        return None
    sides = _sides_of(
        outcome,
        met,
        {rank: _stood_in(rank, outcome.last_places[rank]) for rank in dead if rank in outcome.last_places},
    )
    if len(sides) < 2:
        return None
    found = and_died(_judged(outcome, sides), dead)
    lines = {
        rank: f"{collective_text(r)} at {r.where or 'an unknown line'}{within_library(r)}"
        f"{' (died)' if rank in dead else ''}"
        for rank, r in sorted(met.items())
    }
    return replace(found, evidence=lines_of(lines, found.culprits))


def and_died(found: Diagnosis, dead: tuple[int, ...]) -> Diagnosis:
    """The same, and which ranks gloo has ended for it."""
    died = f" gloo aborts a rank that receives more than it expects: {rank_list(dead)} died."
    return replace(found, summary=found.summary + died)


def _stood_in(rank: int, stack: tuple[Frame, ...]) -> Waiting:
    return Waiting(rank, None, stack[-1].where() if stack else "", "", stack=stack)


def mismatch_in_passing(outcome: Outcome) -> Diagnosis | None:
    """Ranks that went on after a collective in which they brought different sizes or types: its result is garbage.

    gloo does not always notice. Read from the recorder alone; needs groups whose members agree on who they are.
    """
    met = _first_misfit(outcome)
    if met is None:
        return None
    return threads_share(outcome, next(iter(met.values())).group) or _garbage(met)


def _first_misfit(outcome: Outcome) -> dict[int, Collective] | None:
    """What each rank brought to the first collective that cannot have gone well; None when all of them fit."""
    recorded = {rank: outcome.recorded.get(rank, ()) for rank in outcome.ranks}
    return first_misfit(recorded, {rank: facts.all_groups() for rank, facts in outcome.facts.items()})


def _garbage(met: dict[int, Collective]) -> Diagnosis:
    ranks: dict[tuple[object, ...], list[int]] = {}
    for rank, record in met.items():
        ranks.setdefault(brought(record), []).append(rank)
    kind = "different_collectives"
    if len({record.op for record in met.values()}) == 1:
        alike = len({record.sizes for record in met.values()}) == 1
        kind = "different_dtypes" if alike else "different_sizes"
    texts = [
        f"{collective_text(met[each[0]])} at {met[each[0]].where or 'an unknown line'} on {rank_list(each)}"
        for each in ranks.values()
    ]
    return Diagnosis(
        kind,
        f"Nobody complained, but the ranks met in {' and '.join(texts)}: what came out is garbage.",
        (),
        lines_of({rank: f"{collective_text(r)} at {r.where}" for rank, r in sorted(met.items())}),
        advice=_SAME_ORDER,
        lesson=taught_in(13, 0),
    )


def _odd(sides: list[Side]) -> tuple[int, ...]:
    """The ranks of all sides but that of the majority; empty where there is none."""
    return odd_ones({rank: number for number, side in enumerate(sides) for rank in side.ranks})


def _guarded(sides: list[Side]) -> Side | None:
    """The side that alone stands under a condition on the rank: more than that its ranks are few."""
    guarded = [side for side in sides if side.condition is not None]
    return guarded[0] if len(guarded) == 1 else None


def _odd_side(sides: list[Side]) -> Side | None:
    """The side that did something else: the one that a condition on the rank has brought there, or the smaller one."""
    odd = _odd(sides)
    few = [side for side in sides if odd and set(side.ranks) <= set(odd)]
    return _guarded(sides) or min(few, key=lambda side: len(side.ranks), default=None)


def _join(outcome: Outcome, one: Side, other: Side, culprits: tuple[int, ...]) -> Diagnosis | None:
    joined = [side for side in (one, other) if side.collective.stage == DDPStage.JOIN]
    entered = {
        rank for rank, records in outcome.recorded.items() if any(r.stage == DDPStage.JOIN for r in records)
    }
    if len(joined) != 1:
        return None
    outside = other if joined[0] is one else one
    if entered.issuperset((*one.ranks, *other.ranks)):
        own = at_end_of_join(joined[0].collective.origin) and not outside.collective.stage
        return own_inside_join(outcome, joined[0].ranks) if own else None
    return join_on_some_ranks(outcome, joined[0].ranks, outside.ranks)


def _extra_pass(outcome: Outcome, one: Side, other: Side, culprits: tuple[int, ...]) -> Diagnosis | None:
    """Ranks are a pass of DDP's apart because some have made one more."""
    if (
        not (one.collective.stage and other.collective.stage)
        or one.collective.stage == other.collective.stage
    ):
        return None
    for side, rest in ((one, other), (other, one)):
        here, there = collective_text(side.collective), collective_text(rest.collective)
        since = (
            f"since then {rank_list(side.ranks)} {verb(side.ranks, 'is', 'are')} in {here} when "
            f"{rank_list(rest.ranks)} {verb(rest.ranks, 'is', 'are')} in {there}"
        )
        found = extra_pass(outcome, side.ranks, rest.ranks, since)
        if found is not None:
            return found
    return None


def _order(outcome: Outcome, one: Side, other: Side, culprits: tuple[int, ...]) -> Diagnosis | None:
    """DDP's own collectives meet, and the ranks have called different models."""
    of_ddp = one.collective.stage and other.collective.stage
    order = different_order(notes_of(outcome)) if of_ddp else None
    return order_diagnosis(order) if order is not None else None


def _shifted(outcome: Outcome, one: Side, other: Side, culprits: tuple[int, ...]) -> Diagnosis | None:
    """One side has left out what the other has issued: the collectives that meet are innocent."""
    if one.collective.stage or other.collective.stage:
        return None  # DDP's own: counted in passes elsewhere
    return out_of_step(outcome, one.collective.group, one.collective.seq, one.ranks, other.ranks)


def _habit(
    in_a_row: bool, outcome: Outcome, one: Side, other: Side, culprits: tuple[int, ...]
) -> Diagnosis | None:
    """One side has come past, or not come to, a collective of the script's own that the other is in: who did before?"""
    for own, rest in ((one, other), (other, one)):
        met = (own.ranks, own.collective), (rest.ranks, rest.collective)
        found = against_the_habit(outcome, *met, in_a_row)
        if found is not None:
            return found
    return None


def _sizes(
    sides: list[Side], outcome: Outcome, one: Side, other: Side, culprits: tuple[int, ...]
) -> Diagnosis | None:
    mine, theirs = one.collective, other.collective
    if len({(side.collective.op, side.collective.stage) for side in sides}) > 1:
        return None
    if not mine.stage and mine.frames != theirs.frames:
        return None  # not the same collective
    if mine.stage and one.where() != other.where():
        return Diagnosis(
            "different_order",
            f"{capital(rank_list(one.ranks))} {verb(one.ranks, 'uses', 'use')} the DDP models in another order than "
            f"{rank_list(other.ranks)}: {collective_text(mine)} at {one.where()} meets {collective_text(theirs)} at "
            f"{other.where()}.",
            (),
            positions(outcome),
            advice="call forward and backward of several DDP models in the same order on every rank.",
            lesson=taught_in(6),
        )
    what = "types" if len({side.collective.sizes for side in sides}) == 1 else "sizes"
    brings = ", ".join(
        f"{rank_list(side.ranks)} {verb(side.ranks, 'brings', 'bring')} {collective_text(side.collective)}"
        for side in (one, other, *(side for side in sides if side not in (one, other)))
    )
    guarded = _guarded(sides)
    odd = guarded.ranks if guarded is not None else ()
    return Diagnosis(
        f"different_{'dtypes' if what == 'types' else 'sizes'}",
        f"The ranks meet in the same collective with different {what}: {brings}.",
        odd,
        positions(outcome, odd),
        advice="give every rank a tensor of the same shape and dtype (exchange the sizes first, or pad).",
        lesson=taught_in(13, 0),
    )


def _own(outcome: Outcome, one: Side, other: Side, culprits: tuple[int, ...]) -> Diagnosis | None:
    """One side is in a collective of the script's own, the other one in a step that it has not begun."""
    own, ddps = (one, other) if not one.collective.stage else (other, one)
    if own.condition is not None or ddps.condition is not None:
        return None
    return own_meets(outcome, (own.ranks, own.collective), (ddps.ranks, ddps.collective))


def _lost_step(outcome: Outcome, one: Side, other: Side, culprits: tuple[int, ...]) -> Diagnosis | None:
    """One side is in a backward pass, the other one in something else: whose step is missing?"""
    in_backward = next((side for side in (one, other) if side.collective.stage == DDPStage.GRADIENTS), None)
    if in_backward is None or one.collective.stage == other.collective.stage:
        return None
    elsewhere = other if in_backward is one else one
    if not elsewhere.collective.stage and elsewhere.condition is not None:
        return None  # its own collective is one too many
    here, there = (done_by(outcome)[side.ranks[0]] for side in (in_backward, elsewhere))
    if in_backward.condition is not None and elsewhere.condition is None:
        return _extra_backward(outcome, in_backward, elsewhere)
    if (there.batches or math.inf) < (here.batches or 0) and there.forwards == there.backwards:
        reached = (
            f"batch {here.batches} in {collective_text(in_backward.collective)} at {in_backward.where()}"
        )
        return uneven_batches(
            outcome, elsewhere.ranks, in_backward.ranks, steps(there.batches or 0, "batch"), reached
        )
    return _missing_backward(outcome, in_backward, elsewhere)


def _extra_backward(outcome: Outcome, in_backward: Side, elsewhere: Side) -> Diagnosis:
    ranks, others = in_backward.ranks, elsewhere.ranks
    condition = in_backward.condition
    because = f" (the line stands under `{condition}`)" if condition else ""
    return Diagnosis(
        "extra_backward",
        f"{capital(rank_list(ranks))} {verb(ranks, 'is', 'are')} in a backward pass at {in_backward.where()}"
        f"{because} that {rank_list(others)} {verb(others, 'does', 'do')} not make: "
        f"{verb(others, 'it is', 'they are')} in {collective_text(elsewhere.collective)} at {elsewhere.where()}.",
        ranks,
        positions(outcome, ranks),
        advice="run backward() of a DDP model the same number of times on every rank, or under no_sync().",
        lesson=taught_in(6),
    )


def _missing_backward(outcome: Outcome, in_backward: Side, elsewhere: Side) -> Diagnosis:
    ranks, others = elsewhere.ranks, in_backward.ranks
    odd = ranks if without_backward(outcome, ranks[0]) else fewer(ranks, others)
    return Diagnosis(
        "missing_backward",
        f"{capital(rank_list(ranks))} {verb(ranks, 'has', 'have')} not made the backward pass in which "
        f"{rank_list(others)} {verb(others, 'waits', 'wait')} ({collective_text(in_backward.collective)} at "
        f"{in_backward.where()}): {verb(ranks, 'it is', 'they are')} already in {elsewhere.text()}.",
        odd,
        positions(outcome, odd),
        advice="every rank must make the same forward and backward passes in the same order. For a batch to be left "
        "out, multiply its loss by 0 or agree with an all_reduce first.",
        lesson=taught_in(6),
    )


def _only_under_a_condition(
    outcome: Outcome, one: Side, other: Side, culprits: tuple[int, ...]
) -> Diagnosis | None:
    for side, rest in ((one, other), (other, one)):
        condition = side.condition if rest.condition is None else None
        if condition is None:
            continue
        instead = (
            f"; {rank_list(rest.ranks)} {verb(rest.ranks, 'is', 'are')} in {collective_text(rest.collective)} at "
            f"{rest.where()}"
        )
        what = collective_text(side.collective)
        return rank_only_collective(outcome, side.ranks, side.where(), what, condition, instead)
    return None
