"""The end of a cell on a rank that uses CUDA: has its GPU finished what the cell gave it?

CUDA's calls return at once, and so do NCCL's collectives: without this, a cell that leaves its GPU waiting for another
rank ends well, and the next cell that needs a result is blamed. The wait is short, and can be seen and interrupted: the
main thread asks and sleeps in turns, while a call of CUDA's would keep it until the GPU has finished.

Only the current stream of the current GPU is asked: a collective is on it, or it waits for one, unless the learner's
code has put it on a stream of its own, or has issued it with `async_op=True` and not waited for it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

#: How long a cell waits for what it has left on its GPU. Work that takes longer goes on, and the cell says so.
FENCE_SECONDS = 3.0
#: What a rank is in meanwhile, for reports.
AT_END = "the check at the end of the cell"
#: How long it sleeps between two questions: at first, and at most.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.0002, 0.01
_waiting = False


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
    return finished(event.query)


def finished(query: Callable[[], bool]) -> bool:
    """Ask until the answer is True, for `FENCE_SECONDS` at most."""
    global _waiting
    deadline, pause = time.monotonic() + FENCE_SECONDS, _FIRST_PAUSE
    try:
        while not query():
            if time.monotonic() > deadline:
                return False
            _waiting = True
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
        return True
    finally:
        _waiting = False


def is_waiting() -> bool:
    """True while the main thread waits here; asked by the thread that answers the kernel."""
    return _waiting
