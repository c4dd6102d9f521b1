"""The learner's line that is being executed, told inside a rank."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from realranks.outcome.places import Frame, Spot, is_learners


def learners_line() -> str:
    """Return the innermost line of the learner's code on the stack, such as `train.py, line 12`."""
    return next((Frame(*spot, "").where() for spot in learners_path()), "")


def learners_path() -> Iterator[Spot]:
    """Yield the lines of the learner's code on the stack, the innermost first."""
    frame = sys._getframe(1)
    while frame is not None:
        if is_learners(frame.f_code.co_filename):
            yield Spot(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)
        frame = frame.f_back  # type: ignore[assignment]
