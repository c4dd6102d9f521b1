"""How a job went on one rank, in its own words: the last message about the job.

The rank makes a `Done` and sends it as a message; the kernel, or whoever watches a rank that `torchrun` has started,
makes the same object of that message again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from course_lib.outcome.outcome import RankError
from course_lib.outcome.trace import TraceEvent
from course_lib.ranks.protocol import Message

DONE = "done"


@dataclass(frozen=True)
class Done:
    """How a job went on one rank.

    Attributes:
        error: the exception that ended it. shown: the value as text.
        value: the pickled value; empty where it stayed on the rank, and then `not_sent` says why. has_value: False
            where it is None.
        facts: what the rank says of itself (`inside/self_report.py`), if it raised or was watched.
        records: the collectives it issued, if it was watched (`inside/flight_recorder.py`).
        trace: the events of its timeline, if it was traced.
        never_struck: faults meant for this job whose moment never came, one sentence each.
        sequence: by process group, the number of the last collective issued on it.
        started_ns, ended_ns: when the learner's code began and ended; 0 where it was interrupted outside of it.
    """

    error: RankError | None = None
    shown: str | None = None
    value: bytes = b""
    not_sent: dict[str, str] | None = None
    has_value: bool = False
    facts: Mapping[str, Any] = field(default_factory=dict)
    records: tuple[Mapping[str, Any], ...] | None = None
    trace: tuple[TraceEvent, ...] = ()
    never_struck: tuple[str, ...] = ()
    sequence: dict[str, int] = field(default_factory=dict)
    started_ns: int = 0
    ended_ns: int = 0

    def message(self, job: int) -> Message:
        """What travels: the job's number, and all that is not as it is by default."""
        told = {
            name: value for name, value in vars(self).items() if name != "value" and value != _PLAIN[name]
        }
        if self.error is not None:
            told["error"] = dataclasses.asdict(self.error)
        return Message(DONE, {"id": job, **told}, self.value)

    @classmethod
    def of(cls, message: Message) -> Done:
        """The same again; whoever sent something else gets a KeyError, TypeError, ValueError or AttributeError."""
        data = {name: value for name, value in message.data.items() if name != "id"}
        if data.get("error") is not None:
            data["error"] = RankError.from_report(data["error"])
        data |= {name: tuple(data[name]) for name in ("records", "trace", "never_struck") if name in data}
        return cls(**data, value=message.blob)


_PLAIN = vars(Done())
