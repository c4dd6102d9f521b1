"""Silent faults: a script that ends well, and whose ranks have drifted apart; and errors that were swallowed.

Read from what the probe has noted (`watch.probe`); a run that was not watched has none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from course_lib.doctor.causes import cause_of
from course_lib.doctor.data import data_fault
from course_lib.doctor.errors import swallowed_complaint
from course_lib.doctor.lessons import taught_in
from course_lib.doctor.mismatches import mismatch_in_passing
from course_lib.doctor.notes import Notes, notes_of
from course_lib.doctor.outside import parameters_outside
from course_lib.doctor.words import capital, lines_of, positions, rank_list, steps
from course_lib.ranks.outcome import Diagnosis, Kind, Outcome


@dataclass(frozen=True)
class Difference:
    """The first tensor that was not the same on all ranks at some check.

    Attributes:
        at_least: by how much values differ; None where the samples do not tell.
        odd: the ranks that differ from the majority; empty where there is none.
    """

    step: int
    name: str
    at_least: float | None
    odd: tuple[int, ...]
    names: tuple[str, ...]


def swallowed_error(outcome: Outcome) -> Diagnosis | None:
    """A forward or backward pass raised on a rank, the script caught it and went on, and now the ranks do not fit."""
    if outcome.kind not in (Kind.HANG, Kind.RAISES, Kind.DIED):
        return None
    swallowed: dict[int, Mapping[str, str]] = {}
    for rank, notes in notes_of(outcome).items():
        failures = list(notes["failures"])
        error = outcome.errors.get(rank)
        if failures and error is not None and failures[-1]["type"] == error.type and len(failures) == 1:
            continue  # this very error has ended the rank
        lost = "closed by peer" in failures[0]["message"].lower() if failures else True
        if failures and not lost:
            swallowed[rank] = failures[0]
    if not swallowed or len(swallowed) == len(outcome.ranks):
        return None
    first = next(iter(swallowed.values()))
    memory = "memory" in first["message"].lower() or first["type"] in ("MemoryError", "OutOfMemoryError")
    what = f"ran out of memory ({first['type']})" if memory else f"got {first['type']}"
    others = [rank for rank in outcome.ranks if rank not in swallowed]
    return Diagnosis(
        "swallowed_error",
        f"{capital(rank_list(swallowed))} {what} in {first['in']}() at {first['where']}, caught it and went on: since "
        f"then {rank_list(swallowed)} and {rank_list(others)} are in different steps.",
        tuple(swallowed),
        positions(outcome, swallowed),
        advice="let the error end the rank, or let all ranks agree (one all_reduce) that this step is left out, and "
        "leave it out on all of them.",
        lesson=taught_in(11),
    )


def silent_fault(outcome: Outcome) -> Diagnosis | None:
    """What is wrong though every rank has ended well; None when nothing is, or nobody watched."""
    found = swallowed_complaint(outcome) or mismatch_in_passing(outcome)
    if found is not None:
        return found
    notes = notes_of(outcome)
    if len(notes) < 2:
        return None
    weights = _lasting(_differences(notes, "parameters"))
    if weights is not None:
        return _weights(outcome, notes, weights)
    buffers = _lasting(_differences(notes, "buffers"))
    if buffers is not None and not any(check["managed"] for n in notes.values() for check in n["weights"]):
        return _buffers(buffers)
    return parameters_outside(notes) or data_fault(notes)


def _differences(notes: Notes, part: str) -> list[tuple[int, Difference | None]]:
    """For every check that all ranks have made, in order: the first difference, or None."""
    by_key: dict[tuple[int, int], dict[int, Mapping[str, Any]]] = {}
    for rank, told in notes.items():
        for check in told["weights"]:
            by_key.setdefault((check["model"], check["step"]), {})[rank] = check[part]
    found = []
    for (_, step), parts in by_key.items():
        if len(parts) == len(notes):
            found.append((step, _first_difference(step, parts)))
    return found


def _lasting(checks: list[tuple[int, Difference | None]]) -> Difference | None:
    """The first difference, unless the ranks were made equal again later (averaging weights now and then)."""
    unequal = [difference for _, difference in checks if difference is not None]
    if not unequal or checks[-1][1] is None:
        return None
    first = next(place for place, (_, difference) in enumerate(checks) if difference is not None)
    if any(difference is None for _, difference in checks[first:]):
        return None
    return unequal[-1] if unequal[0].step == unequal[-1].step else _since(unequal)


def _since(unequal: list[Difference]) -> Difference:
    """The last difference, with the step at which it began."""
    last = unequal[-1]
    return Difference(
        unequal[0].step, unequal[0].name, last.at_least or unequal[0].at_least, last.odd, last.names
    )


def _first_difference(step: int, parts: Mapping[int, Mapping[str, Any]]) -> Difference | None:
    names = list(next(iter(parts.values())))
    differing = []
    for name in names:
        digests = {rank: part.get(name, [None, []]) for rank, part in parts.items()}
        if len({digest[0] for digest in digests.values()}) > 1:
            differing.append((name, digests))
    if not differing:
        return None
    name, digests = differing[0]
    gaps = [gap for _, each in differing if (gap := _gap(each)) is not None]
    return Difference(
        step, name, max(gaps, default=None), _odd_ranks(digests), tuple(n for n, _ in differing)
    )


def _odd_ranks(digests: Mapping[int, list[Any]]) -> tuple[int, ...]:
    by_sum: dict[Any, list[int]] = {}
    for rank, digest in digests.items():
        by_sum.setdefault(digest[0], []).append(rank)
    largest = max(by_sum.values(), key=len)
    if len(largest) * 2 <= len(digests):
        return ()
    return tuple(sorted(rank for ranks in by_sum.values() if ranks is not largest for rank in ranks))


def _gap(digests: Mapping[int, list[Any]]) -> float | None:
    rows = [[v for v in digest[1] if v is not None] for digest in digests.values()]
    columns = list(zip(*rows, strict=False))
    return max((max(column) - min(column) for column in columns), default=0.0) or None


def _weights(outcome: Outcome, notes: Notes, found: Difference) -> Diagnosis:
    cause = cause_of(outcome, notes, found.names, found.step == 0, found.odd)
    culprits = cause.culprits or (() if cause.kind == "gradients_changed" else found.odd)
    size = f" (by {found.at_least:.1g} or more)" if found.at_least is not None else ""
    since = (
        "at the end"
        if found.step < 0
        else "from the beginning"
        if found.step == 0
        else f"since step {found.step}"
    )
    texts = {
        rank: _counted(told) + (_unlike_settings(told, notes) if cause.kind == "optimizer_differs" else "")
        for rank, told in notes.items()
    }
    more = f" and {len(found.names) - 1} more" if len(found.names) > 1 else ""
    return Diagnosis(
        cause.kind,
        f"The ranks ended without an error, but their weights differ: {found.name}{more}{size}, {since}. "
        f"{cause.sentence}",
        culprits,
        lines_of(texts, culprits),
        advice=cause.advice,
        lesson=taught_in(*cause.lessons),
    )


def _counted(told: Mapping[str, Any]) -> str:
    counts = told["counts"]
    return (
        f"{steps(counts['forwards'], 'forward pass')}, {steps(counts['backwards'], 'backward pass')} with averaging, "
        f"{steps(counts['steps'], 'optimizer step')}"
    )


def _unlike_settings(told: Mapping[str, Any], notes: Notes) -> str:
    """Those of a rank's settings at the first step that are not the same everywhere: `, lr=0.1`."""
    everyones = [each["gradients"][0]["settings"] for each in notes.values() if each["gradients"]]
    own = told["gradients"][0]["settings"] if told["gradients"] else []
    unlike = {
        f"{name}={value}": None
        for groups in everyones
        for group, other in zip(own, groups, strict=False)
        for name, value in group.items()
        if other.get(name) != value
    }
    return "".join(f", {setting}" for setting in list(unlike)[:4])


def _buffers(found: Difference) -> Diagnosis:
    more = f" and {len(found.names) - 1} more" if len(found.names) > 1 else ""
    return Diagnosis(
        "buffers_drift",
        f"The weights are equal, but the buffers differ between ranks: {found.name}{more}. DDP was told not to "
        "synchronise buffers, so every rank keeps the statistics of its own data.",
        (),
        advice="leave forward_sync_buffers (broadcast_buffers) on, use SyncBatchNorm on GPUs, or average the buffers "
        "before evaluating and saving.",
        lesson=taught_in(9),
        warning=True,
    )
