"""Exceptions by which a cell fails on purpose, each shown as its message alone, without a traceback."""

from __future__ import annotations

from realranks.outcome.outcome import Outcome


class UsageError(Exception):
    """The learner asked for something that cannot be done; shown as one clear line, and the cell fails."""

    def _render_traceback_(self) -> list[str]:
        return [str(self)]


class UnexpectedOutcome(Exception):
    """A run did not end as it was expected to; everything known has been shown above."""

    def __init__(self, message: str, outcome: Outcome) -> None:
        super().__init__(message)
        self.outcome = outcome

    def _render_traceback_(self) -> list[str]:
        return [f"UnexpectedOutcome: {self}"]


class Interrupted(KeyboardInterrupt):
    """The stop button was pressed while ranks were running."""

    def _render_traceback_(self) -> list[str]:
        return ["KeyboardInterrupt: the cell was stopped."]
