"""What the probe of each rank has noted (`outcome.probe_notes`)."""

from __future__ import annotations

from collections.abc import Mapping

from course_lib.outcome.outcome import Outcome
from course_lib.outcome.probe_notes import ProbeNotes

Notes = Mapping[int, ProbeNotes]


def notes_of(outcome: Outcome) -> dict[int, ProbeNotes]:
    """The notes by rank; a run that was not watched has none."""
    return {rank: facts.probe for rank, facts in sorted(outcome.facts.items()) if facts.probe is not None}
