"""One rank's report on itself at one moment, by which the kernel judges a deadlock (`kernel/deadlock.py`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from realranks.outcome.facts import Facts
from realranks.outcome.outcome import Collective, PauseKind
from realranks.outcome.partners import Partners
from realranks.outcome.places import Frame, is_learners

#: A blocked rank uses next to nothing; more than this between two statuses means that it computes or moves data.
_CPU_SECONDS = 0.005
#: A thread of gloo's connections that wants a core must have had one as often as this between two statuses: then it has
#: seen that there is nothing to do.
_TURNS = 2
#: A rank does not say which one it is: the kernel knows on whose wire its status came.
NO_RANK = -1
#: How many collectives it tells of, the newest.
MAX_RECORDS = 400


@dataclass(frozen=True)
class GpuQueue:
    """One rank's progress in a group whose collectives NCCL carries (see `inside/nccl_recorder.py`).

    Attributes:
        issued: how many collectives the rank has issued. enqueued: the number of what was put on its GPU's stream last,
            a collective or a send or receive, which are numbered on their own. completed: of what is done there; -1 for
            none.
    """

    issued: int
    enqueued: int
    completed: int


@dataclass(frozen=True)
class ExternalLook:
    """Observations of a rank from outside, without its cooperation (`ranks/external`).

    Attributes:
        pid: its process. stopped: by a signal. finished: its main thread runs no Python any more.
        asleep_for: seconds for which its main thread had not run; None where the system does not tell.
        numbers: whole numbers among the local variables of the learner's frames, by `file:function:name`.
        variables: changes when a local variable of the innermost frames does; empty where none are seen.
        spins: it is in a loop that calls nothing.
        ends_in: seconds after which the `time.sleep` that it is in ends; None where it is in none, or not known.
        reads: it waits for somebody to type, or to write into its standard input.
        workers: the processes that it has started and that run Python: where each is, in words.
        error: what it has left behind of an exception.
        problem: why its stack could not be read.
        doubts: why its wait may end, a clause each.
        group: the processes of the group of gloo's in which it has a collective under way; empty where not known.
        same: how many older groups of this process have the same members.
        launched: by communicator of NCCL's, how many collectives it has launched (`ranks/external/ras.py`).
    """

    pid: int
    stopped: bool = False
    finished: bool = False
    asleep_for: float | None = None
    numbers: Mapping[str, int] = field(default_factory=dict)
    variables: str = ""
    spins: bool = False
    ends_in: float | None = None
    reads: bool = False
    workers: tuple[str, ...] = ()
    error: str = ""
    problem: str = ""
    doubts: tuple[str, ...] = ()
    group: tuple[int, ...] = ()
    same: int = 0
    launched: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class RankStatus:
    """One rank's report on itself at one moment (see `control_thread.get_status`).

    Attributes:
        rank: `NO_RANK` until the kernel has filled it in (`of_rank`).
        stack: the frames of its main thread, outermost first.
        waiting_in: the communication call in which that is, if it is in one.
        cpu_seconds: used by all threads but gloo's and the one that answers.
        sequence: how many operations it has issued on each of its groups.
        members: the global ranks of each of its groups.
        records: what it has issued (torch's flight recorder).
        asleep: neither the main thread nor another one wants a core, apart from those in `loops`.
        ends_by_itself: the wait has a short timeout.
        facts: what else it says of itself, where it was asked for details.
        loops: gloo's threads: how often each has had a core, and whether it wants one now.
        moved: bytes sent and received on its connections so far.
        in_flight: bytes on its connections that have not been read yet.
        unconfirmed: bytes that it has sent to other machines and that have not arrived there, as far as is known.
        threads: the learner's other threads, and what each sleeps in (`lock`, `communication`, `sleep`, `other`).
        children: its child processes, by pid: name, seconds of a core.
        pause: what the main thread sleeps in that is no communication, and what kind of thing that is; for `gpu` it
            waits for its GPU, asleep or not.
        partners: whom its communication call needs (see `inside/partners.py`).
        progress: grows while a script makes progress.
        brief: without `records`, which cost the rank tens of milliseconds.
        seen_through: whether the system tells of what this rank sends and receives. Elsewhere, and between GPUs,
            `moved` says nothing.
        uses_gpus: whether it may wait in a collective of which there is no record here, because it is NCCL's.
        queues: by group, how far its GPU has got with what NCCL was given; empty where that is not known.
        outside: what else is known of it where it was looked at from outside.
    """

    rank: int
    stack: tuple[Frame, ...]
    waiting_in: str | None
    cpu_seconds: float
    sequence: Mapping[str, int]
    members: Mapping[str, tuple[int, ...]]
    records: tuple[Collective, ...]
    asleep: bool = True
    ends_by_itself: bool = False
    facts: Facts | None = None
    brief: bool = False
    loops: Mapping[str, tuple[int, bool]] = field(default_factory=dict)
    moved: int = 0
    in_flight: int = 0
    unconfirmed: int = 0
    threads: tuple[tuple[str, str], ...] = ()
    children: Mapping[int, tuple[str, float]] = field(default_factory=dict)
    pause: tuple[str, PauseKind] | None = None
    partners: Partners | None = None
    progress: int = 0
    seen_through: bool = True
    uses_gpus: bool = False
    queues: Mapping[str, GpuQueue] = field(default_factory=dict)
    outside: ExternalLook | None = None

    def of_rank(self, rank: int) -> RankStatus:
        """Return the status with its rank filled in."""
        return replace(self, rank=rank)

    def issued(self, group: str) -> int:
        """Return how many collectives of `group` this rank has issued."""
        return max((record.seq for record in self.records if record.group == group), default=0)

    def learners_line(self) -> tuple[str, str]:
        """Return where in the learner's code the rank is, and the text of that line."""
        for frame in reversed(self.stack):
            if is_learners(frame.file):
                return frame.where(), frame.source
        return "", ""

    @property
    def waits_for_gpu(self) -> bool:
        """True in a call that waits for the rank's GPU, asleep or not: CUDA may spin meanwhile."""
        return self.pause is not None and self.pause[1] == PauseKind.GPU

    def same_place(self, other: RankStatus) -> bool:
        """Check that the rank's own code has not moved since the earlier status `other`."""
        return (
            self.stack == other.stack
            and (self.brief or other.brief or self.records == other.records)
            and self.sequence == other.sequence
        )

    def still_since(self, other: RankStatus) -> bool:
        """Check that nothing of this rank has run, wants to run, or has data to receive since the earlier status."""
        return (
            self.asleep
            and other.asleep
            and abs(self.cpu_seconds - other.cpu_seconds) < _CPU_SECONDS
            and self.in_flight == other.in_flight
            and self.moved == other.moved
            # Bytes may lie in a connection for ever, when no call has asked for them; gloo's threads must have had the
            # time to take them.
            and all(
                turns - other.loops.get(thread, (turns, wants))[0] >= _TURNS
                for thread, (turns, wants) in self.loops.items()
                if wants or self.in_flight
            )
            and self.children.keys() == other.children.keys()
            and all(
                abs(seconds - other.children[pid][1]) < _CPU_SECONDS
                for pid, (_, seconds) in self.children.items()
            )
        )
