"""Ctrl-C and the stop button, as an event instead of an exception at a random line.

While ranks run, SIGINT must not raise in the middle of reading a message. Inside `deferred()` it only wakes the loop
that drives the ranks, which then decides. A second press is counted too: it means "now".
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator


class StopRequests:
    """Counts presses of the stop button; its descriptor becomes readable with each."""

    def __init__(self) -> None:
        self.count = 0
        self._acknowledged = 0
        self._read, self._write = os.pipe()
        os.set_blocking(self._write, False)
        os.set_blocking(self._read, False)

    def fileno(self) -> int:
        """Return the descriptor that is readable until a press is taken."""
        return self._read

    def press(self, *_: object) -> None:
        """Count a press; also usable as a signal handler."""
        self.count += 1
        with contextlib.suppress(OSError):
            os.write(self._write, b"!")

    @property
    def pressed(self) -> bool:
        """True when there was a press that has not been acknowledged."""
        return self.count > self._acknowledged

    def acknowledge(self) -> None:
        """Take on the stop requests received so far; the caller stops the job."""
        self._acknowledged = self.count

    def take(self) -> int:
        """Return the presses so far, and make the descriptor quiet until the next one."""
        with contextlib.suppress(OSError):
            os.read(self._read, 4096)
        return self.count

    def close(self) -> None:
        """Give the descriptors back."""
        os.close(self._read)
        os.close(self._write)


class _Current(threading.local):
    """The counter in use, thread by thread: two threads may each run ranks of their own."""

    requests: StopRequests | None = None


_current = _Current()


@contextlib.contextmanager
def deferred() -> Iterator[StopRequests]:
    """Count SIGINT instead of raising it within this block; nested blocks share one counter.

    The code that holds the counter decides what a press means; one that was not acknowledged is raised at the end.
    """
    if _current.requests is not None:
        yield _current.requests
        return
    requests = StopRequests()
    in_main_thread = threading.current_thread() is threading.main_thread()
    previous: object = None
    try:
        _current.requests = requests
        if in_main_thread:
            previous = signal.signal(signal.SIGINT, requests.press)
        yield requests
    finally:
        _current.requests = None
        if in_main_thread:
            signal.signal(signal.SIGINT, previous or signal.default_int_handler)  # type: ignore[arg-type]
        requests.close()
    if requests.pressed:
        raise KeyboardInterrupt


def press_after(seconds: float) -> threading.Timer:
    """Press the real stop button (SIGINT to this process) in `seconds`; for lessons that must run by themselves."""
    timer = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT))
    timer.daemon = True
    timer.start()
    return timer
