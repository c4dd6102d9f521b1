"""The probe's name, as passed to ranks that are to be watched: the kernel, which asks for it, need not load it."""

from __future__ import annotations

#: `watching.watching`, which only ranks import.
_WATCHING = "realranks.watch.watching:watching"


_FIRST_STEP = "realranks.watch.first_step:first_step"
#: What the first step of one rank alone leaves in its folder: the comparison, or why there is none.
COMPARISON = "comparison.json"


def as_around(every: int = 50, waiting: bool = True) -> tuple[str, dict[str, int | bool]]:
    """Name `watching(...)` as a job of a gang does (see `ranks.kernel.job.Job`).

    Args:
        every: steps of an optimizer between two looks at the weights. waiting: also measure where ranks wait.
    """
    return _WATCHING, {"every": every, "waiting": waiting}


def as_first_step(folder: str, ranks: int = 0) -> tuple[str, dict[str, str | int]]:
    """Name `first_step(...)`, which ends the script at its first optimizer step, in the same way.

    Args:
        folder: of what is kept of it. ranks: how many have left their files there; 0 while they do.
    """
    return _FIRST_STEP, {"folder": folder, "ranks": ranks}
