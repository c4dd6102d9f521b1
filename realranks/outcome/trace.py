"""One event of a rank's profiler trace (`--trace`) as it travels to the kernel, made by `ranks.inside.tracing`."""

from __future__ import annotations

from typing import NotRequired, TypedDict

#: The range around everything traced; its thread is the rank's main thread.
TRACED = "course: traced"
#: The range of one `backward()`.
BACKWARD = "course: backward"
#: The range of a call that returns when a collective is done.
WAIT = "course: wait"
#: The range of a call of DDP's that issues collectives, waits for them and does other things besides.
SYNCHRONIZE = "course: synchronize"
RANGES = frozenset({TRACED, BACKWARD, WAIT, SYNCHRONIZE})
#: How the names of communication events begin.
COMMUNICATION = ("gloo:", "nccl:", "c10d::")


class TraceEvent(TypedDict):
    """Something that a thread of a rank did; times are nanoseconds of the machine's clock.

    Attributes:
        dtypes: of a collective's tensors. issued_ns: when an all-reduce was issued, if that is known.
    """

    name: str
    start_ns: int
    duration_ns: int
    thread: int
    dtypes: NotRequired[list[str]]
    issued_ns: NotRequired[int]
