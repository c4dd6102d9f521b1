"""The learner's line that is being executed, told inside a rank."""

from __future__ import annotations

import sys

from realranks.outcome.places import Frame, is_learners


def learners_line() -> str:
    """Return the innermost line of the learner's code on the stack, such as `train.py, line 12`."""
    frame = sys._getframe(1)
    while frame is not None:
        if is_learners(frame.f_code.co_filename):
            return Frame(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name, "").where()
        frame = frame.f_back  # type: ignore[assignment]
    return ""
