"""Errors of ranks for which torch's message has a known meaning (`meanings`), and errors that a script has caught."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from realranks.doctor.complaints import closer
from realranks.doctor.loops import NO_ERRORS
from realranks.doctor.meanings import MEANINGS, Meaning
from realranks.doctor.notes import Notes, notes_of
from realranks.doctor.sentences import diagnosis, text
from realranks.doctor.words import at_line, blocked_in, lines_of, steps
from realranks.outcome.facts import NO_FACTS
from realranks.outcome.outcome import Diagnosis, Ending, Kind, Outcome, RankError
from realranks.outcome.probe_notes import Failure, ProbeNotes

#: What a spawned process says that starts processes before it has come to what it was started for.
_AT_IMPORT = r"before the current process has finished its bootstrapping phase"

#: What DDP itself objects to: the step in which it does is lost.
_COMPLAINTS = (
    "unused_parameters",
    "parameter_ready_twice",
    "graph_changed",
    "several_backwards",
    "static_graph_no_sync",
)


def known_error(outcome: Outcome) -> Diagnosis | None:
    """Explain what the ranks raised, if torch's message is one of those in `meanings`."""
    if outcome.kind is not Kind.RAISES:
        return None
    raised = {rank: e for rank, e in outcome.errors.items() if outcome.endings[rank] is Ending.RAISED}
    raised = raised or dict(outcome.errors)
    for meaning in MEANINGS:
        hits = {rank: found for rank, error in raised.items() if (found := _fits(meaning, error))}
        if hits:
            return _explained(meaning, outcome, raised, hits)
    return swallowed_complaint(outcome)


def started_at_import(outcome: Outcome) -> Diagnosis | None:
    """Detect a script that starts processes when it is imported, which Python refuses in spawned processes."""
    written = " ".join("".join(outcome.stderr.values()).split())
    if outcome.kind is not Kind.RAISES or not re.search(_AT_IMPORT, written):
        return None
    error = next(iter(outcome.errors.values()), None)
    return diagnosis("spawn_at_import", outcome, (), (), at=at_line(error.where) if error else "")


def swallowed_error(outcome: Outcome) -> Diagnosis | None:
    """Detect a script that caught the error of a forward or backward pass and continued out of step with the others."""
    if outcome.kind not in (Kind.HANG, Kind.RAISES, Kind.DIED):
        return None
    first_failures = {rank: _caught(outcome, rank, probe) for rank, probe in notes_of(outcome).items()}
    swallowed = {rank: failure for rank, failure in first_failures.items() if failure is not None}
    if not swallowed or len(swallowed) == len(outcome.ranks):
        return None
    first = next(iter(swallowed.values()))
    memory = "memory" in first.message.lower() or first.type in ("MemoryError", "OutOfMemoryError")
    what = f"ran out of memory ({first.type})" if memory else f"got {first.type}"
    others = [rank for rank in outcome.ranks if rank not in swallowed]
    words = {"got": what, "call": first.what, "where": first.where, "others": others}
    return diagnosis("swallowed_error", outcome, swallowed, ranks=swallowed, **words)


def raised_on_its_way(outcome: Outcome) -> Diagnosis | None:
    """Detect ranks that wait in an `except` or a `finally` for others which have raised nothing."""
    blocked = blocked_in(outcome)
    caught = {rank: outcome.facts.get(rank, NO_FACTS).handled for rank in blocked}
    handled = {rank: each for rank, each in caught.items() if each and each.type not in NO_ERRORS}
    others = [rank for rank in outcome.ranks if rank not in handled]
    if not handled or not others:
        return None
    rank, error = next(iter(handled.items()))
    words = {"names": error.type, "where": error.where, "first": blocked[rank], "others": others}
    return diagnosis("rank_raised.on_its_way", outcome, handled, ranks=handled, **words)


def nothing_loaded(outcome: Outcome, notes: Notes) -> Diagnosis | None:
    """Detect a state dict whose names do not fit, which `strict=False` has kept from being an error."""
    for probe in notes.values():
        for found in probe.nothing_loaded:
            ranks = [rank for rank, each in notes.items() if found in each.nothing_loaded]
            whose, other = ("the model", "the state_dict")[:: 1 if found.of_model else -1]
            words = {"where": found.where, "prefix": found.prefix, "name": found.name}
            return diagnosis(
                "state_dict_names.silently", None, (), (), ranks=ranks, whose=whose, other=other, **words
            )
    return None


def _caught(outcome: Outcome, rank: int, probe: ProbeNotes) -> Failure | None:
    """Return the first error that this rank's script caught; None if it caught none but the one that ended it."""
    if not probe.failures or "closed by peer" in probe.failures[0].message.lower():
        return None
    error = outcome.errors.get(rank)
    only = len(probe.failures) == 1
    return None if only and error is not None and probe.failures[0].type == error.type else probe.failures[0]


def swallowed_complaint(outcome: Outcome) -> Diagnosis | None:
    """Detect that the script caught DDP's refusal to continue: those steps are missing, or a later one fails."""
    notes = notes_of(outcome)
    # The last one of a rank that has raised is what ended it.
    ended = {rank for rank, each in outcome.endings.items() if each is Ending.RAISED}
    noted = {rank: probe.failures[: -1 if rank in ended else None] for rank, probe in notes.items()}
    caught = {rank: failures for rank, failures in noted.items() if failures}
    for meaning in MEANINGS:
        if meaning.kind not in _COMPLAINTS:
            continue
        errors = {
            rank: _as_error(failure)
            for rank, failures in caught.items()
            for failure in failures[:1]
            if re.search(meaning.pattern, failure.message)
        }
        if not errors:
            continue
        hits = {rank: fitting for rank, error in errors.items() if (fitting := _fits(meaning, error))}
        found = _explained(meaning, outcome, errors, hits)
        often = steps(max(len(failures) for failures in caught.values()), "time")
        where = next(iter(errors.values())).where
        lines = {rank: _steps_and_errors(notes[rank], len(failures)) for rank, failures in noted.items()}
        return replace(
            found,
            summary=f"{found.summary} The script caught the error at {where} ({often}) and went on without them.",
            evidence=lines_of(lines, found.culprits),
        )
    return None


def _steps_and_errors(probe: ProbeNotes, errors: int) -> str:
    counts = probe.counts
    return (
        f"{steps(counts.forwards, 'forward pass')}, {steps(errors, 'error')} caught, "
        f"{steps(counts.steps, 'optimizer step')}"
    )


def _as_error(failure: Failure) -> RankError:
    return RankError(failure.type, (failure.type,), failure.message, "", "", failure.where, None)


def _fits(meaning: Meaning, error: RankError) -> re.Match[str] | None:
    if meaning.type_:
        return re.fullmatch(meaning.type_, error.type)
    return re.search(meaning.pattern, error.message)


def _explained(
    meaning: Meaning, outcome: Outcome, raised: Mapping[int, RankError], hits: Mapping[int, re.Match[str]]
) -> Diagnosis:
    first = min(hits)
    filled = meaning.fill(outcome, first, hits[first])
    name, closer_words = closer(meaning, outcome, first, hits[first])
    culprits: Iterable[int] = () if meaning.everyone or len(hits) == len(outcome.ranks) else hits
    if meaning.kind == "collective_timed_out":
        culprits = filled.get("late", [rank for rank in outcome.ranks if rank not in hits])
    where = raised[first].where or "an unknown line"
    words = {"ranks": hits, "where": where, "others": _others(outcome, hits), **filled, **closer_words}
    return diagnosis(name, outcome, culprits, **words)


def _others(outcome: Outcome, hits: Iterable[int]) -> str:
    waiting = {rank: w for rank, w in blocked_in(outcome).items() if rank not in set(hits)}
    if not waiting:
        return ""
    first = next(iter(waiting.values()))
    return text(", and {waiting} {waiting:waits} for it in {first}", waiting=waiting, first=first)
