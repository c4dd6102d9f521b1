"""Expectations - `ok`, `raises`, `raises:KeyError`, `raises:0`, `died:2`, `hang`, `slow` - and whether they are met."""

from __future__ import annotations

from dataclasses import dataclass

from realranks.outcome.fold import rank_list
from realranks.outcome.outcome import Ending, Kind, Outcome

#: Beside the kinds of outcome: ranks that a time limit has ended at work. Nothing shows that they hang.
_SLOW = "slow"


class ExpectationError(ValueError):
    """The text is no expectation; the message says what would be one."""


@dataclass(frozen=True)
class Expectation:
    """The expected end of a run.

    Attributes:
        kind: the outcome's kind. ranks: exactly these ranks raise, die or wait (None: any).
        error: name of the exception's class or of one of its bases (None: any).
        slow: with the kind `hang`, whether the time limit has ended ranks that were at work, or a hang.
    """

    kind: Kind
    ranks: frozenset[int] | None = None
    error: str | None = None
    slow: bool = False

    @classmethod
    def parse(cls, text: str) -> Expectation:
        """Read an expectation.

        Raises:
            ExpectationError: with the forms that are understood.
        """
        head, colon, detail = text.strip().partition(":")
        try:
            slow = head.strip() == _SLOW
            kind = Kind.HANG if slow else Kind(head.strip())
        except ValueError:
            raise ExpectationError(
                f"No expectation {text!r}: use ok, raises, died, hang or slow, and if you like "
                "raises:RuntimeError, raises:0, died:2 or hang:0,1."
            ) from None
        detail = detail.strip()
        if not colon or not detail:
            return cls(kind, slow=slow)
        parts = [part.strip() for part in detail.split(",")]
        if kind is not Kind.OK and all(part.isdigit() for part in parts):
            return cls(kind, frozenset(int(part) for part in parts), slow=slow)
        if kind is Kind.RAISES and detail.isidentifier():
            return cls(kind, error=detail)
        raise ExpectationError(f"No expectation {text!r}: after {head.strip()}: comes " + _what_follows(kind))

    def met_by(self, outcome: Outcome) -> bool:
        """Check whether the outcome is the expected one."""
        if outcome.interrupted and self.error != "KeyboardInterrupt":
            return False
        if outcome.kind is not self.kind or outcome.was_slow != self.slow:
            return False
        if self.ranks is not None and self.ranks != ranks_that(outcome):
            return False
        if self.error is not None:
            raised = [e for rank, e in outcome.errors.items() if outcome.endings[rank] is Ending.RAISED]
            return any(self.error in error.bases for error in raised)
        return True

    def __str__(self) -> str:
        kind = _SLOW if self.slow else str(self.kind)
        if self.ranks is not None:
            return f"{kind}:{','.join(map(str, sorted(self.ranks)))}"
        return f"{kind}:{self.error}" if self.error else kind


def _what_follows(kind: Kind) -> str:
    return {
        Kind.OK: "nothing.",
        Kind.RAISES: "an exception's name or ranks, as in raises:ValueError or raises:0,2.",
        Kind.DIED: "ranks, as in died:2.",
        Kind.HANG: "the ranks left waiting, as in hang:0,1.",
    }[kind]


def ranks_that(outcome: Outcome) -> frozenset[int]:
    """Return the ranks the outcome's kind is about: those that raised by themselves, died, or were left waiting."""
    if outcome.kind is Kind.DIED:
        return frozenset(outcome.exits)
    if outcome.kind is Kind.RAISES:
        return frozenset(rank for rank in outcome.errors if outcome.endings[rank] is Ending.RAISED)
    if outcome.kind is Kind.HANG:
        return frozenset(outcome.waiting)
    return frozenset(outcome.ranks)


def in_words(outcome: Outcome) -> str:
    """Describe in a few words what happened: `rank 0 raises ValueError`."""
    ranks = sorted(ranks_that(outcome))
    one = len(ranks) == 1
    if outcome.kind is Kind.OK:
        return "every rank finishes"
    if outcome.kind is Kind.RAISES:
        names = sorted({outcome.errors[rank].type for rank in ranks if rank in outcome.errors})
        return f"{rank_list(ranks)} {'raises' if one else 'raise'} {' / '.join(names)}"
    if outcome.kind is Kind.DIED:
        return f"{rank_list(ranks)} {'dies' if one else 'die'}"
    if outcome.was_slow:
        return f"{rank_list(ranks)} {'has' if one else 'have'} not finished in time"
    return f"{rank_list(ranks)} {'waits' if one else 'wait'} for ever"
