"""The end of a cell on a rank that uses CUDA: has its GPU finished what the cell gave it?

CUDA's calls return at once, and so do NCCL's collectives: without this, a cell that leaves its GPU waiting for another
rank ends well, and the next cell that needs a result is blamed. The wait is short, and can be seen and interrupted,
which no call of CUDA's allows that returns when the GPU has finished.

First the main thread asks for the current stream, and sleeps, in turns: a collective is on that stream, or it waits for
one. What is left then is on other streams: the learner's, or NCCL's, where a collective with `async_op=True` is that
the code has not waited for. CUDA does not list them; it only waits for all of them, and does so in a thread of its own.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable

#: How long a cell waits for what it has left on its GPU. Work that takes longer goes on, and the cell says so.
#: To wait for NCCL's watchdog instead takes up to a tenth of a second per cell.
FENCE_SECONDS = 3.0
#: What a rank is in meanwhile, for reports.
AT_END = "the check at the end of the cell"
#: How long it sleeps between two queries of the event: at first, and at most.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.0002, 0.01
_waiting = False


class _DeviceSync:
    """Waits for all streams once, in a thread of its own: as long as the GPU waits for another rank, it may be."""

    def __init__(self, synchronize: Callable[[], None]) -> None:
        self._synchronize = synchronize
        self.ended = threading.Event()
        self.error: Exception | None = None
        threading.Thread(target=self._wait, name="course-gpu-fence", daemon=True).start()

    def _wait(self) -> None:
        try:
            self._synchronize()
        except Exception as error:
            self.error = error
        self.ended.set()


#: The wait that has not ended yet; no second thread is started beside it.
_open_sync: _DeviceSync | None = None


def finished_on_gpu() -> bool:
    """Wait for a moment; False when the GPU has not finished then. Asks nothing where CUDA is not in use.

    Raises:
        RuntimeError: CUDA reports an error of what the cell has done; it would else surface in a later cell.
    """
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized() or torch.cuda.is_current_stream_capturing():
        return True
    event = torch.cuda.Event()
    event.record()
    gpu = torch.cuda.current_device()  # of this thread; a new one begins with the first
    return finished(event.query, lambda: torch.cuda.synchronize(gpu))


def finished(query: Callable[[], bool], synchronize: Callable[[], None]) -> bool:
    """Wait until `query` says yes and then until `synchronize` returns, for `FENCE_SECONDS` at most in all.

    Raises:
        Exception: what one of them has raised.
    """
    global _waiting
    deadline = time.monotonic() + FENCE_SECONDS
    _waiting = True
    try:
        return _wait_for_event(query, deadline) and _wait_for_device(synchronize, deadline)
    finally:
        _waiting = False


def _wait_for_event(query: Callable[[], bool], deadline: float) -> bool:
    pause = _FIRST_PAUSE
    while not query():
        if time.monotonic() > deadline:
            return False
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)
    return True


def _wait_for_device(synchronize: Callable[[], None], deadline: float) -> bool:
    global _open_sync
    if _open_sync is not None and not _has_ended(_open_sync, deadline):
        return False
    # The end of an earlier wait says nothing of what the GPU was given since.
    _open_sync = _DeviceSync(synchronize)
    return _has_ended(_open_sync, deadline)


def _has_ended(sync: _DeviceSync, deadline: float) -> bool:
    global _open_sync
    if not sync.ended.wait(max(0.0, deadline - time.monotonic())):
        return False
    _open_sync = None
    if sync.error is not None:
        raise sync.error
    return True


def is_waiting() -> bool:
    """Check whether the main thread waits here; called by the thread that answers the kernel."""
    return _waiting
