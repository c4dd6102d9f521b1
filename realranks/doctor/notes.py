"""The notes of each rank's probe (`outcome.probe_notes`)."""

from __future__ import annotations

from collections.abc import Mapping

from realranks.outcome.outcome import Outcome
from realranks.outcome.probe_notes import ProbeNotes

Notes = Mapping[int, ProbeNotes]


def notes_of(outcome: Outcome) -> dict[int, ProbeNotes]:
    """Return the probes' notes by rank; empty if the run was not watched."""
    return {rank: facts.probe for rank, facts in sorted(outcome.facts.items()) if facts.probe is not None}
