"""Threads that have nothing to do: those with which Python serves pools and logs."""

from __future__ import annotations

import os
from types import FrameType

from realranks.outcome.places import is_learners

#: Threads of Python's own that serve a pool: file, function, and the variable that is empty while nothing is pending.
_SERVANTS = (
    ("concurrent/futures/thread.py", "_worker", ""),
    ("concurrent/futures/process.py", "run", "self.pending_work_items"),
    ("multiprocessing/pool.py", "_handle_workers", "cache"),
    ("multiprocessing/pool.py", "_handle_tasks", ""),
    ("multiprocessing/pool.py", "_handle_results", "cache"),
    ("logging/handlers.py", "_monitor", ""),
)


def idles(innermost: FrameType) -> bool:
    """Recognise an idle thread of a pool or a log: it runs none of the learner's code by itself."""
    frame: FrameType | None = innermost
    while frame is not None:
        path = frame.f_code.co_filename.replace(os.sep, "/")
        if is_learners(frame.f_code.co_filename):
            return False
        for file, function, pending in _SERVANTS:
            if path.endswith(file) and frame.f_code.co_name == function:
                owner, _, name = pending.rpartition(".")
                work = frame.f_locals.get(owner or name)
                work = vars(work).get(name) if owner and work is not None else work
                return not pending or not work
        frame = frame.f_back
    return False
