"""What a rank's main thread does with its time, sampled from a thread of its own.

A sample counts as waiting when the main thread stands in a communication call (or in a backward pass) and sleeps; while
it computes it runs. In all other samples its line of the learner's code is noted. Used inside a rank.
"""

from __future__ import annotations

import itertools
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from realranks.outcome.places import Frame, is_learners
from realranks.outcome.probe_notes import Counts, Span, WaitingShare
from realranks.ranks.inside.blocking_calls import waiting_in
from realranks.ranks.inside.traffic import is_asleep, traffic
from realranks.watch.guard import Unseen, guarded

#: A short run is sampled closely, a long one ten times a second: waking costs the rank a switch of threads each time.
_CLOSE_SAMPLES, _CLOSE_SECONDS, _SECONDS = 50, 0.02, 0.1
#: The shortest span, and how many are kept: of more, two become one, and the next ones are twice as long.
_SPAN_SECONDS, _MAX_SPANS = 1.0, 60
_LOADER = os.path.join("torch", "utils", "data", "dataloader.py")


class WaitingClock:
    """A context manager around the learner's code, entered on its thread; `to_record()` has the figures so far."""

    def __init__(self, unseen: Unseen, counts: Counts) -> None:
        self._counts = counts
        self._main = threading.get_ident()
        self._native = threading.get_native_id()
        self._ended = threading.Event()
        self._thread = threading.Thread(
            target=guarded(self, unseen, "waiting times").sample, name="course-waiting", daemon=True
        )
        self._watched = self._waiting = 0.0
        self._spans: list[Span] = []
        self._shortest = _SPAN_SECONDS
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
        """Return what was seen so far."""
        seconds = self._seconds or (time.monotonic() - self._started if self._started else 0.0)
        if not self._watched:
            return WaitingShare(seconds)
        spans, lines = self._spans.copy(), self._lines.copy()
        (file, line), often = max(lines.items(), key=lambda each: each[1], default=(("", 0), 0))
        where = Frame(file, line, "", "").where() if file and spans else ""
        of = 100 * sum(span.seconds for span in spans) or 1
        return WaitingShare(seconds, self._waiting / self._watched, spans, where, min(1.0, often / of))

    def sample(self) -> None:
        """Look again and again until the block is left; what the thread does."""
        span, looked = self._begin(), time.monotonic()
        for taken in itertools.count():
            if self._ended.wait(_CLOSE_SECONDS if taken < _CLOSE_SAMPLES else _SECONDS):
                return
            # What it really was: on a busy machine this thread, too, waits for a core.
            now = time.monotonic()
            period, looked = now - looked, now
            self._watched += period
            span.seconds += period
            stack, sleeps = self._stack(), is_asleep(self._native)
            span.awake += period * (not sleeps)
            if sleeps and waiting_in(stack, self._main) is not None:
                self._waiting += period
                span.waiting += period
            else:
                if any(each.file.endswith(_LOADER) for each in stack):
                    span.loading += period
                else:
                    span.asleep += period * sleeps
                if (
                    at := next((each for each in reversed(stack) if is_learners(each.file)), None)
                ) is not None:
                    self._lines[at.file, at.line] += round(100 * period)
            if span.seconds >= self._shortest and self._counts.steps > span.steps:
                following = self._begin()
                if span.steps:
                    self._keep(span.ended(following))
                else:
                    self._lines.clear()  # what comes before the first step is a start, and no training
                span = following

    def _begin(self) -> _UnderWay:
        used = (
            time.clock_gettime(time.pthread_getcpuclockid(self._main))
            if sys.platform.startswith("linux")
            else 0.0
        )
        return _UnderWay(self._counts.steps, used, traffic().moved)

    def _stack(self) -> list[Frame]:
        """Return the main thread's frames, outermost first; cheap: no source lines are read for a sample."""
        frame = sys._current_frames().get(self._main)
        stack: list[Frame] = []
        while frame is not None:
            code = frame.f_code
            stack.append(Frame(code.co_filename, frame.f_lineno, code.co_name, ""))
            frame = frame.f_back
        return stack[::-1]

    def _keep(self, span: Span) -> None:
        self._spans.append(span)
        if len(self._spans) == _MAX_SPANS:
            self._spans = in_pairs(self._spans)
            self._shortest *= 2


def in_pairs(spans: Sequence[Span]) -> list[Span]:
    """Join each span with the one behind it."""
    pairs = zip(spans[::2], spans[1::2], strict=True)
    joined: list[list[Any]] = [[sum(parts) for parts in zip(*pair, strict=True)] for pair in pairs]
    return [Span(*parts) for parts in joined]


@dataclass
class _UnderWay:
    """A span that has begun: after how many steps, seconds of a core and bytes; the rest is counted within it."""

    steps: int
    used: float
    moved: int
    seconds: float = 0.0
    waiting: float = 0.0
    loading: float = 0.0
    asleep: float = 0.0
    awake: float = 0.0

    def ended(self, following: _UnderWay) -> Span:
        return Span(
            self.seconds,
            following.steps - self.steps,
            self.waiting,
            self.loading,
            self.asleep,
            starved=max(0.0, self.awake - (following.used - self.used)),
            moved=max(0, following.moved - self.moved),  # a connection that was closed takes its bytes along
        )
