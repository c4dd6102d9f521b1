"""The displayable state of a run that is under way."""

from __future__ import annotations

from dataclasses import dataclass

from realranks.outcome.outcome import Outcome


@dataclass(frozen=True)
class Progress:
    """A moment of a running job: what each rank has written so far, and which ranks are done.

    Attributes:
        still: what the run would come to if it were ended now, when nothing has moved for some seconds (else None);
            its `doubts` say why that does not prove a deadlock.
        silence: which machines have not been heard for some seconds, in a sentence.
    """

    seconds: float
    stdout: dict[int, str]
    stderr: dict[int, str]
    done: frozenset[int]
    running: frozenset[int]
    still: Outcome | None = None
    still_seconds: float = 0.0
    silence: str = ""
