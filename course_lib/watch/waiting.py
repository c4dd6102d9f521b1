"""How long a rank's main thread waits for other ranks: sampled from a thread of its own.

A sample counts as waiting when the main thread stands in a communication call (or in a backward pass) and sleeps; while
it computes it runs. Used inside a rank.
"""

from __future__ import annotations

import itertools
import sys
import threading
import time
from types import TracebackType

from course_lib.outcome.places import Frame
from course_lib.outcome.probe_notes import WaitingShare
from course_lib.ranks.inside.blocking_calls import waiting_in
from course_lib.ranks.inside.traffic import is_asleep
from course_lib.watch.guard import Unseen, guarded

#: A short run is sampled closely, a long one ten times a second: waking costs the rank a switch of threads each time.
_CLOSE_SAMPLES, _CLOSE_SECONDS, _SECONDS = 50, 0.02, 0.1


class WaitingClock:
    """A context manager around the learner's code, entered on its thread; `to_record()` has the figures so far."""

    def __init__(self, unseen: Unseen) -> None:
        self._main = threading.get_ident()
        self._native = threading.get_native_id()
        self._ended = threading.Event()
        self._thread = threading.Thread(
            target=guarded(self, unseen, "waiting times").sample, name="course-waiting", daemon=True
        )
        self._watched = self._waiting = 0.0
        self._started = self._seconds = 0.0

    def __enter__(self) -> WaitingClock:
        self._started = time.monotonic()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._seconds = time.monotonic() - self._started
        self._ended.set()

    def to_record(self) -> WaitingShare:
        """`seconds` that were watched and the `share` of them in which the rank waited for others."""
        seconds = self._seconds or (time.monotonic() - self._started if self._started else 0.0)
        return WaitingShare(seconds, self._waiting / self._watched if self._watched else 0.0)

    def sample(self) -> None:
        """Look again and again until the block is left; what the thread does."""
        for taken in itertools.count():
            period = _CLOSE_SECONDS if taken < _CLOSE_SAMPLES else _SECONDS
            if self._ended.wait(period):
                return
            self._watched += period
            frame = sys._current_frames().get(self._main)
            if frame is None or not is_asleep(self._native):
                continue
            # Cheap: no source lines are read for a sample.
            stack: list[Frame] = []
            while frame is not None:
                code = frame.f_code
                stack.append(Frame(code.co_filename, frame.f_lineno, code.co_name, ""))
                frame = frame.f_back
            stack.reverse()
            if waiting_in(stack, self._main) is not None:
                self._waiting += period
