"""The endings allowed by `--predicted`; a package whose questions a run decides registers itself here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from realranks.cells.refused import UsageError
from realranks.outcome.outcome import Outcome

NO_QUESTION = "--predicted: no question is open. Run the cell with predict(...) first, and choose an answer."


class Foreseen(Protocol):
    """The endings of a run that the open question allows."""

    def met_by(self, outcome: Outcome) -> bool:
        """Check whether the run ended as one of the answers says."""

    def decide(self, outcome: Outcome) -> None:
        """Take this outcome as the answer; called once the outcome has been shown."""


#: Given what is run, and the id of its cell where that is known, returns what the open question foresees of it.
Keeper = Callable[[str, str | None], Foreseen]
_KEEPERS: list[Keeper] = []


def register(keeper: Keeper) -> None:
    """Ask this one from now on."""
    _KEEPERS[:] = [keeper]


def foreseen(text: str, cell_id: str | None = None) -> Foreseen:
    """Ask the keeper of questions what the run of this text, in this cell, may end with.

    Raises:
        UsageError: no question is open.
    """
    if not _KEEPERS:
        raise UsageError(NO_QUESTION)
    return _KEEPERS[0](text, cell_id)
