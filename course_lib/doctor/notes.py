"""What the probe of each rank has told (`watch.probe`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from course_lib.outcome.outcome import Outcome

Notes = Mapping[int, Mapping[str, Any]]


def notes_of(outcome: Outcome) -> dict[int, Mapping[str, Any]]:
    """The notes by rank; a run that was not watched has none."""
    found = {
        rank: facts.get("extras", {}).get("probe")
        for rank, facts in outcome.facts.items()
        if facts.get("extras", {}).get("probe")
    }
    return dict(sorted(found.items()))
