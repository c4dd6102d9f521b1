"""The probe's name, as passed to ranks that are to be watched: the kernel, which asks for it, need not load it."""

from __future__ import annotations

#: `watching.watching`, which only ranks import.
_WATCHING = "realranks.watch.watching:watching"


def as_around(every: int = 50, waiting: bool = True) -> tuple[str, dict[str, int | bool]]:
    """Name `watching(...)` as a job of a gang does (see `ranks.kernel.job.Job`).

    Args:
        every: steps of an optimizer between two looks at the weights. waiting: also measure where ranks wait.
    """
    return _WATCHING, {"every": every, "waiting": waiting}
