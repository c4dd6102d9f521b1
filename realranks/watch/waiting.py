"""The share of time a rank's main thread waits for other ranks, sampled from a thread of its own.

A sample counts as waiting when the main thread stands in a communication call (or in a backward pass) and sleeps; while
it computes it runs. In all other samples its line of the learner's code is noted. Used inside a rank.
"""

from __future__ import annotations

import itertools
import sys
import threading
import time
from collections import Counter
from types import TracebackType

from realranks.outcome.places import Frame, is_learners
from realranks.outcome.probe_notes import WaitingShare
from realranks.ranks.inside.blocking_calls import waiting_in
from realranks.ranks.inside.traffic import is_asleep
from realranks.watch.guard import Unseen, guarded

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
        self._watched = self._waiting = self._asleep = 0.0
        self._lines: Counter[tuple[str, int]] = Counter()  # hundredths of seconds, waiting apart
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
        """Return the share of time spent waiting so far."""
        seconds = self._seconds or (time.monotonic() - self._started if self._started else 0.0)
        if not self._watched:
            return WaitingShare(seconds)
        lines = self._lines.copy()
        (file, line), often = max(lines.items(), key=lambda each: each[1], default=(("", 0), 0))
        return WaitingShare(
            seconds,
            self._waiting / self._watched,
            self._asleep / self._watched,
            Frame(file, line, "", "").where() if file else "",
            often / 100 / self._watched,
        )

    def sample(self) -> None:
        """Look again and again until the block is left; what the thread does."""
        for taken in itertools.count():
            period = _CLOSE_SECONDS if taken < _CLOSE_SAMPLES else _SECONDS
            if self._ended.wait(period):
                return
            self._watched += period
            frame = sys._current_frames().get(self._main)
            asleep = is_asleep(self._native)
            # Cheap: no source lines are read for a sample.
            stack: list[Frame] = []
            while frame is not None:
                code = frame.f_code
                stack.append(Frame(code.co_filename, frame.f_lineno, code.co_name, ""))
                frame = frame.f_back
            if asleep and waiting_in(stack[::-1], self._main) is not None:
                self._waiting += period
                continue
            self._asleep += period * asleep
            if (at := next((each for each in stack if is_learners(each.file)), None)) is not None:
                self._lines[at.file, at.line] += round(100 * period)
