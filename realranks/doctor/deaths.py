"""Ranks whose processes died: exited, were killed, crashed, or were aborted by gloo for what they received."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from realranks.doctor.conditions import separating, under
from realranks.doctor.errors import swallowed_error
from realranks.doctor.hang_table import meeting, sides_by_collective
from realranks.doctor.hangs import first_matching_rule
from realranks.doctor.mismatches import misfit
from realranks.doctor.script_collectives import at_end_of_join, own_inside_join
from realranks.doctor.sentences import diagnosis
from realranks.doctor.words import (
    capital,
    lines_of,
    located,
    rank_list,
    verb,
    within_library,
)
from realranks.outcome.outcome import (
    EXIT_CUT_OFF,
    EXIT_HOST_GONE,
    Collective,
    Diagnosis,
    Ending,
    Outcome,
    Waiting,
    exit_text,
)
from realranks.outcome.places import Frame
from realranks.watch.majority import groups_of

_CRASHES = {-4, -6, -7, -8, -11}
#: Of a rank that has closed its own descriptors, gloo or the course notices first; for the learner it is one thing.
_BROUGHT_DOWN = _CRASHES | {EXIT_CUT_OFF}
#: What gloo says before it ends a rank that receives more bytes than it expects.
_GLOO_MISMATCH = re.compile(r"op\.preamble\.length <= op\.nbytes|doesn't match expected size")
#: What gloo says when its descriptor for waiting is gone.
_NO_DESCRIPTOR = re.compile(r"nfds != -1")


def died(outcome: Outcome) -> Diagnosis | None:
    """Detect a rank whose process ended before its part of the code did."""
    if not outcome.exits or (outcome.from_outside and outcome.waiting):
        return None  # `absences.rank_died` says who waits for it
    dead = tuple(outcome.exits)
    if EXIT_HOST_GONE in outcome.exits.values():
        with_host = [rank for rank, code in outcome.exits.items() if code == EXIT_HOST_GONE]
        names = sorted({outcome.hosts.get(rank, "") for rank in with_host})
        return diagnosis("host_gone", outcome, with_host, ranks=with_host, hosts=" and ".join(names))
    if any(_GLOO_MISMATCH.search(outcome.stderr.get(rank, "")) for rank in dead):
        found = _aborted_by_gloo(outcome, dead)
        if found is not None:
            return replace(found, advice=found.advice + _gone(outcome))
    codes = set(outcome.exits.values())
    kind = "rank_crashed" if codes & _BROUGHT_DOWN else "rank_killed" if min(codes) < 0 else "rank_exited"
    how = "; ".join(sorted({exit_text(code) for code in codes}))
    stack = outcome.last_places.get(dead[0]) if kind == "rank_crashed" else None
    place = f" at {stack[-1].where()}" if stack else ""
    words = {"how": how, "place": place, "noticed": _who_noticed(outcome, dead)}
    why = _why(outcome, codes) + _gone(outcome)
    return replace(diagnosis("rank_killed", outcome, dead, ranks=dead, why=why, **words), kind=kind)


def _who_noticed(outcome: Outcome, dead: tuple[int, ...]) -> str:
    """Describe in a clause how the death affected the other ranks; empty if none of them noticed."""
    left = [rank for rank in outcome.ranks if outcome.endings.get(rank) is Ending.FREED and rank not in dead]
    # A collective does not connect every rank with every other: some wait for one that has noticed, and is elsewhere.
    waiting = [rank for rank in left if rank in outcome.waiting]
    noticed = [rank for rank in left if rank not in waiting]
    if not noticed:
        return ""
    clause = f"; {rank_list(noticed)} noticed at once, because the connection broke"
    if waiting:
        clause += f"; {rank_list(waiting)} {verb(waiting, 'waits', 'wait')} for {rank_list(noticed)}"
    return clause


def _gone(outcome: Outcome) -> str:
    if outcome.what == "cell":
        return " The variables of all ranks are gone with it; the next %%ranks starts new ranks."
    return ""


def _why(outcome: Outcome, codes: Iterable[int]) -> str:
    codes = set(codes)
    closed = any(_NO_DESCRIPTOR.search(text) for text in outcome.stderr.values())
    if closed or EXIT_CUT_OFF in codes:
        return (
            "its code has closed, or written to, descriptors that are not its own (os.closerange does that): the "
            "connection to the notebook is one of them. Or it has replaced something of Python's own that every rank "
            "needs (builtins.len, for example)."
        )
    if -9 in codes:
        return "a SIGKILL that nobody sent on purpose is usually the system's out-of-memory killer."
    if any(_GLOO_MISMATCH.search(text) for text in outcome.stderr.values()):
        return (
            "gloo ends a rank that receives more than it expects: the ranks met in a collective with different sizes, "
            "types or operations. Every rank must issue the same ones."
        )
    if codes & _CRASHES:
        return "this is a crash in C++ code: look at the line, and at what it printed on stderr."
    if any(code < 0 for code in codes):
        return "look for who sends that signal: a scheduler, a limit, somebody else's kill."
    return "look for a call of os._exit, or what its stderr says."


def _aborted_by_gloo(outcome: Outcome, dead: tuple[int, ...]) -> Diagnosis | None:
    """Explain what gloo received that made it abort a rank."""
    return swallowed_error(outcome) or _aborted(outcome, dead) or _met_a_mismatch(outcome, dead)


def _aborted(outcome: Outcome, dead: tuple[int, ...]) -> Diagnosis | None:
    """Diagnose the collective in which some ranks received more than they expected, so that gloo aborted them."""
    met = misfit(outcome)
    if met is None:
        return None
    stacks = {rank: outcome.last_places[rank] for rank in dead if rank in outcome.last_places}
    stood = {r: Waiting(r, None, s[-1].where() if s else "", "", stack=s) for r, s in stacks.items()}
    sides = sides_by_collective(outcome, met, stood)
    found = first_matching_rule(meeting(outcome, sides)) if len(sides) > 1 else None
    if found is None:
        return None
    found = _and_died(found, dead)
    lines = {
        rank: f"{located(r)}{within_library(r)}{' (died)' if rank in dead else ''}"
        for rank, r in sorted(met.items())
    }
    return replace(found, evidence=lines_of(lines, found.culprits))


def _and_died(found: Diagnosis, dead: tuple[int, ...]) -> Diagnosis:
    """Add to the summary which ranks gloo has aborted because of the mismatch."""
    died = f" gloo aborts a rank that receives more than it expects: {rank_list(dead)} died."
    return replace(found, summary=found.summary + died)


def _met_a_mismatch(outcome: Outcome, dead: tuple[int, ...]) -> Diagnosis | None:
    """Describe where the aborted rank was, and where the others were."""
    stack = outcome.last_places.get(dead[0])
    under_way = {rank: _under_way(outcome, rank) for rank in outcome.ranks if rank not in dead}
    others = {rank: record for rank, record in under_way.items() if record is not None}
    if not stack or not others:
        return None
    at = stack[-1]
    if at_end_of_join(at):
        found = own_inside_join(outcome, dead)
        if found is not None:
            return _and_died(found, dead)
    elsewhere = {rank: record for rank, record in others.items() if _is_elsewhere(record.origin, at)}
    condition = separating([at.spot()], [(f.file, f.line) for r in elsewhere.values() for f in r.frames])
    kind, what = "different_collectives", "different collectives"
    culprits = dead if len(dead) < len(elsewhere) else ()
    if not elsewhere:
        kind, what = "different_sizes", "the same line with different sizes or types"
    elif condition is not None:
        kind, culprits = "rank_only_collective", dead
    texts = {rank: located(record) for rank, record in others.items()}
    brought = ", ".join(f"{rank_list(ranks)} in {texts[ranks[0]]}" for ranks in groups_of(texts))
    at_line = f"{at.where()}: {at.source.rstrip(':')}{under(condition)}"
    words = {"dead": dead, "Dead": capital(rank_list(dead)), "what": what, "at": at_line, "brought": brought}
    return replace(diagnosis("different_collectives.aborted", outcome, culprits, **words), kind=kind)


def _is_elsewhere(one: Frame | None, other: Frame) -> bool:
    return one is not None and (one.file, one.line) != (other.file, other.line)


def _under_way(outcome: Outcome, rank: int) -> Collective | None:
    open_ones = [record for record in outcome.recorded.get(rank, ()) if not record.done]
    if open_ones:
        return open_ones[0]
    records = outcome.recorded.get(rank, ())
    return records[-1] if records else None
