"""Ranks that meet in different collectives, or bring different things to the same one."""

from __future__ import annotations

from dataclasses import replace

from realranks.doctor import alignment
from realranks.doctor.counts import calls_of_line
from realranks.doctor.hang_table import Hang, Side, guarded, odd_of
from realranks.doctor.loops import called_from, loop_over_tensors, path_of
from realranks.doctor.sentences import diagnosis, text
from realranks.doctor.words import lines_of, located, rank_list, steps
from realranks.outcome.outcome import Collective, Diagnosis, Outcome
from realranks.ranks.kernel.deadlock import brought, first_misfit
from realranks.watch.majority import groups_of


def out_of_step(hang: Hang) -> Diagnosis | None:
    """Detect that one side has left out what the other has issued: the collectives that meet are innocent."""
    one, other = hang.one, hang.other
    met = one.met
    first = alignment.first_apart(hang.outcome, met.group, met.seq, one.ranks, other.ranks)
    if first == met.seq and (met.stage or other.met.stage):
        return None  # DDP's own: counted in passes elsewhere
    return alignment.out_of_step(hang.outcome, met.group, first, one.ranks, other.ranks)


def different_sizes(hang: Hang) -> Diagnosis | None:
    """Detect that all are in the same collective, with different sizes or types."""
    one, other, sides = hang.one, hang.other, hang.sides
    if len({(side.met.op, side.met.stage) for side in sides}) > 1:
        return None
    if not one.met.stage and one.met.frames != other.met.frames:
        return None  # not the same collective
    if one.met.stage and one.where != other.where:
        words = {"ranks": one.ranks, "what": one, "others": other.ranks, "theirs": other}
        return diagnosis("different_order.of_two", hang.outcome, **words)
    alike = len({side.met.sizes for side in sides}) == 1
    in_order = (one, other, *(side for side in sides if side not in (one, other)))
    brings = ", ".join(text("{ranks} {ranks:brings} ", ranks=side.ranks) + side.what for side in in_order)
    alone = guarded(sides)
    odd = alone.ranks if alone is not None else ()
    loop = None if alike or one.met.stage else loop_over_tensors(path_of(one.met))
    name = "different_dtypes" if alike else "different_sizes.in_a_loop" if loop else "different_sizes"
    return diagnosis(name, hang.outcome, odd, brings=brings, loop=loop)


def different_collectives(hang: Hang) -> Diagnosis:
    """Report that the sides are in collectives that do not match, where no rule explains why."""
    met = ", ".join(f"{rank_list(side.ranks)} in {side.text}{_how_often(hang, side)}" for side in hang.sides)
    alone = guarded(hang.sides)
    return diagnosis(
        "different_collectives", hang.outcome, odd_of(hang.sides) or (alone.ranks if alone else ()), met=met
    )


def _how_often(hang: Hang, side: Side) -> str:
    """Describe from where a side came to a line that others reached from elsewhere, and how often so far."""
    rest = hang.other if side is hang.one else hang.one
    mine, came = path_of(side.met), calls_of_line(hang.outcome, side.met)
    here, there = came.get(side.ranks[0], 0), came.get(rest.ranks[0], 0)
    if not here or not there or rest.met.frames == side.met.frames:
        return ""
    way = called_from(path_of(rest.met), mine)
    return f"{way} ({steps(here, 'time')} so far, and {rank_list(rest.ranks)} {steps(there, 'time')})"


def mismatch_in_passing(outcome: Outcome) -> Diagnosis | None:
    """Detect ranks that continued after a collective with different sizes or types: its result is garbage.

    gloo does not always notice. Read from the recorder alone; needs groups whose members agree on who they are.
    """
    met = misfit(outcome)
    if met is None:
        return None
    return alignment.threads_share(outcome, next(iter(met.values())).group) or _garbage(met)


def misfit(outcome: Outcome) -> dict[int, Collective] | None:
    """Return each rank's part in the first collective that cannot have succeeded; None if all match."""
    recorded = {rank: outcome.recorded.get(rank, ()) for rank in outcome.ranks}
    return first_misfit(recorded, {rank: facts.all_groups() for rank, facts in outcome.facts.items()})


def _garbage(met: dict[int, Collective]) -> Diagnosis:
    kind = "different_collectives"
    if len({record.op for record in met.values()}) == 1:
        alike = len({record.sizes for record in met.values()}) == 1
        kind = "different_dtypes" if alike else "different_sizes"
    sides = sorted(groups_of({rank: brought(record) for rank, record in met.items()}))
    texts = [text("{what} on {ranks}", what=met[ranks[0]], ranks=ranks) for ranks in sides]
    lines = lines_of({rank: located(r) for rank, r in sorted(met.items())})
    return replace(
        diagnosis("different_collectives.in_passing", None, (), lines, met=" and ".join(texts)), kind=kind
    )
