"""One report for a job on several machines: what each machine's watcher writes down, and what all of it says.

Machines share nothing but a folder, in which each has one file of its own; nothing listens, and files that were copied
into one folder afterwards do as well. A file holds how each rank of the machine has ended, and the machine's last looks
at those that have not.

A deadlock needs two looks at every rank, and none of the second ones may begin before all of the first ones are over
(`ranks/kernel/deadlock.py`). Clocks of machines differ, so each look says which looks of the others its watcher had
read before: that is an order without clocks. Where the folder is not shared there is none, and a hang stays unproved.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import socket
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from realranks.doctor.diagnose import with_diagnosis
from realranks.outcome.outcome import Outcome
from realranks.own_files import write_whole
from realranks.ranks.codec import MalformedError, decode, encode
from realranks.ranks.kernel import deadlock
from realranks.ranks.kernel.job import PROBABLE_SECONDS, Job, Run, collect, conclude, failed_ranks
from realranks.ranks.kernel.links import Link, Wires
from realranks.ranks.kernel.output import OutputBuffer
from realranks.ranks.messages import JobReply, Script, TerminateReport, encode_message
from realranks.ranks.observed.meeting import ONLY_JOB, excuse, nothing_written
from realranks.ranks.protocol import BufferedChannel
from realranks.ranks.status import RankStatus
from realranks.versions import own

_T = TypeVar("_T")
#: By its first line the course knows such a file.
_MARK = "what ddp-course has seen of the ranks of one machine"
_PATTERN = "ranks-*.json"
#: A machine's name for the others: the number of its first rank.
Machine = int
#: How many looks a file holds. A machine that is slow to read the others' files still finds one that all have seen.
_LOOKS = 4
_DUMP = 1 << 15


class NotesError(Exception):
    """The files of a folder are not those of one job; the message names the file."""


@dataclass(frozen=True)
class Look:
    """The reports of a machine's ranks at one moment.

    Attributes:
        number: counts the machine's looks, from 1.
        seen: the newest look of each other machine that had been read before the ranks were asked.
    """

    number: int
    seen: Mapping[Machine, int]
    statuses: Mapping[int, RankStatus]


@dataclass(frozen=True)
class RankNotes:
    """The progress of one rank.

    Attributes:
        said: how its part has gone, in its own words. words: what it said when C++ ended it.
        exit_code: None while its process lives. crash: what Python wrote when the process crashed.
    """

    rank: int
    started_ns: int
    said: JobReply | None = None
    words: RankStatus | None = None
    exit_code: int | None = None
    crash: str = ""

    @property
    def over(self) -> bool:
        """True if nothing more will come of it."""
        return self.said is not None or self.exit_code is not None


@dataclass(frozen=True)
class Notes:
    """The file of one machine.

    Attributes:
        course: the version of the course. run: which job, by what its launcher has set. attempt: from 0.
        host: the machine's name. written_ns: by its clock.
        still_for: seconds between the first look since its ranks moved last and this one.
    """

    course: str
    run: str
    attempt: int
    script: str
    world_size: int
    host: str
    written_ns: int
    ranks: tuple[RankNotes, ...]
    looks: tuple[Look, ...] = ()
    still_for: float = 0.0

    @property
    def machine(self) -> Machine:
        """The number of its first rank."""
        return self.ranks[0].rank

    @property
    def over(self) -> bool:
        """True if nothing more will come of any of its ranks."""
        return all(rank.over for rank in self.ranks)


# -- written by the watcher of a machine ----------------------------------------------------------------------------


@dataclass
class Notebook:
    """A machine's file, as its watcher keeps it.

    Raises, when it is made:
        NotesError: somebody else's file has its name, or that of an earlier job of which this one cannot be told.
    """

    folder: Path
    run: str
    attempt: int
    script: str
    world_size: int
    links: Sequence[Link]
    looks: tuple[Look, ...] = ()
    asked: int = 0
    still_since: float = 0.0

    def __post_init__(self) -> None:
        first, last = self.links[0].rank, self.links[-1].rank
        self.path = self.folder / f"ranks-{first}-{last}.json"
        if self.path.exists():
            notes = _read(self.path)
            if (notes.run, notes.attempt) == (self.run, self.attempt):
                raise NotesError(f"{self.path} is of an earlier job: name a folder of its own for each.")
        self._words: dict[int, RankStatus] = {}

    def others(self) -> list[Notes]:
        """Read what the other machines of this job have written so far."""
        found = []
        for path in self.folder.glob(_PATTERN):
            with contextlib.suppress(NotesError):
                notes = _read(path)
                if path != self.path and (notes.run, notes.attempt) == (self.run, self.attempt):
                    found.append(notes)
        return found

    def all(self) -> list[Notes]:
        """Read what all machines of this job have written so far, ordered by their ranks.

        Raises:
            NotesError: some have not written yet.
        """
        return _complete([_read(self.path), *self.others()], self.folder)

    def look(self, wires: Wires, seconds: float) -> None:
        """Ask the ranks, and keep what they say."""
        seen = {notes.machine: notes.looks[-1].number for notes in self.others() if notes.looks}
        self.asked += 1
        if not self.looks:
            self.still_since = time.monotonic()
        look = Look(self.asked, seen, wires.get_statuses(seconds, detail=True))
        self.looks = (*self.looks[1 - _LOOKS :], look)

    @property
    def still(self) -> bool:
        """True if no thread of a rank has moved, or wanted to, between the last two looks."""
        if len(self.looks) < 2:
            return False
        before, now = (look.statuses for look in self.looks[-2:])
        return all(rank in before and status.still_since(before[rank]) for rank, status in now.items())

    def forget_looks(self) -> None:
        """Discard the looks from before the ranks moved."""
        self.looks = ()

    def write(self, run: Run) -> Notes:
        """Put the file in its place, all at once."""
        for link in self.links:
            words = link.take(TerminateReport, 0)
            if words is not None:
                self._words[link.rank] = words.status.of_rank(link.rank)
        ranks = tuple(
            RankNotes(
                link.rank,
                getattr(link, "started_ns", 0),
                run.done.get(link.rank),
                self._words.get(link.rank),
                link.exit_code,
                link.stack_dump.text()[-_DUMP:],
            )
            for link in self.links
        )
        notes = Notes(
            own()[1],
            self.run,
            self.attempt,
            self.script,
            self.world_size,
            socket.gethostname(),
            time.time_ns(),
            ranks,
            self.looks,
            time.monotonic() - self.still_since if self.looks else 0.0,
        )
        write_marked(self.path, notes, _MARK)
        return notes


@dataclass(frozen=True)
class _Verdict:
    """A job has been judged: `hang`, and its ranks are to be freed; or it is over."""

    run: str
    attempt: int
    hang: bool


_VERDICT = "verdict.json"


def tell_verdict(book: Notebook, *, hang: bool) -> None:
    """Let the watchers of the other machines know that the job has been judged."""
    write_whole(book.folder / _VERDICT, json.dumps(encode(_Verdict(book.run, book.attempt, hang))))


def verdict_on(book: Notebook) -> bool | None:
    """Return whether the job was judged to hang; None if it has not been judged yet."""
    with contextlib.suppress(OSError, ValueError):
        verdict = decode(_Verdict, json.loads((book.folder / _VERDICT).read_text(encoding="utf-8")))
        if (verdict.run, verdict.attempt) == (book.run, book.attempt):
            return verdict.hang
    return None


# -- read ------------------------------------------------------------------------------------------------------------


def read_marked(path: Path, kind: type[_T], mark: str, who: str) -> _T:
    """Read a record from a file that the course has written.

    Args:
        mark: what its first line says. who: who writes such files.

    Raises:
        NotesError: it cannot be read, is somebody else's, another version's, or damaged.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(data, dict) or data.pop("this is", None) != mark:
            raise NotesError(f"{path} was not written by {who}.")
        if data.get("course") != own()[1]:
            raise NotesError(f"{path} was written by another version of the course ({data.get('course')}).")
        return decode(kind, data)
    except OSError as error:
        raise NotesError(f"{path} cannot be read: {error.strerror}.") from None
    except (ValueError, RecursionError) as error:
        why = error if isinstance(error, MalformedError) else "it is no JSON"
        raise NotesError(f"{path} is damaged: {why}.") from None


def write_marked(path: Path, record: object, mark: str) -> None:
    """Put such a file in its place, all at once."""
    write_whole(path, json.dumps({"this is": mark, **encode(record)}))


def _read(path: Path) -> Notes:
    notes = read_marked(path, Notes, _MARK, "observe()")
    ranks = [rank.rank for rank in notes.ranks]
    if not ranks or ranks != sorted(set(ranks)) or not 0 <= ranks[0] <= ranks[-1] < notes.world_size:
        raise NotesError(f"{path} is damaged: its ranks are {ranks}, of {notes.world_size}.")
    return notes


def read_folder(folder: Path) -> list[Notes]:
    """Read the files of all machines of a job, ordered by their ranks.

    Raises:
        NotesError: one cannot be read, is of another job than the others, or a machine's is not there.
    """
    found = {path: _read(path) for path in sorted(folder.glob(_PATTERN))}
    if not found:
        raise NotesError(f"{folder} holds no file of observe(): {_PATTERN}.")
    first, *others = found.items()
    for path, notes in others:
        if (notes.run, notes.world_size, notes.attempt) != (
            first[1].run,
            first[1].world_size,
            first[1].attempt,
        ):
            raise NotesError(f"{path} is of another job, or another attempt, than {first[0].name}.")
    return _complete(found.values(), folder)


def _complete(found: Iterable[Notes], folder: Path) -> list[Notes]:
    machines = sorted(found, key=lambda notes: notes.machine)
    ranks = [rank.rank for notes in machines for rank in notes.ranks]
    missing = sorted(set(range(machines[0].world_size)) - set(ranks))
    if missing:
        raise NotesError(f"{folder} holds no file with rank {missing[0]}: copy that of its machine, too.")
    if len(ranks) != len(set(ranks)):
        raise NotesError(f"{folder} holds two files with the same rank.")
    return machines


# -- judged ----------------------------------------------------------------------------------------------------------


class _NotedRank(Link):
    """A rank of which there is only what its machine's watcher has written down."""

    def __init__(self, notes: RankNotes) -> None:
        mine, theirs = socket.socketpair()
        theirs.close()
        super().__init__(
            notes.rank, BufferedChannel(mine), [nothing_written(), nothing_written(), _written(notes.crash)]
        )
        self._exit_code = notes.exit_code
        self.inbox = [encode_message(TerminateReport(notes.words))] if notes.words is not None else []

    @property
    def pid(self) -> int | None:
        """None: the process is on another machine."""
        return None

    @property
    def exit_code(self) -> int | None:
        """The exit code."""
        return self._exit_code

    def read(self) -> None:
        """Do nothing: no more output comes."""

    def kill(self) -> None:
        """Do nothing: the rank is on another machine."""


def _written(text: str) -> OutputBuffer:
    read, write = os.pipe()
    os.write(write, text.encode()[:_DUMP])
    os.close(write)
    buffer = OutputBuffer(read)
    buffer.drain()
    return buffer


class _Noted(Wires):
    """All ranks of a job, from the files of its machines."""

    def __init__(self, machines: Iterable[Notes]) -> None:
        super().__init__()
        self.links = [_NotedRank(rank) for notes in machines for rank in notes.ranks]
        self.world_size = len(self.links)

    def get_statuses(self, *_: object, **__: object) -> dict[int, RankStatus]:
        """Return nothing: the ranks can no longer be asked."""
        return {}


def outcome_of(machines: Sequence[Notes]) -> Outcome | None:
    """Return the diagnosed outcome of a job, ended or hanging; None while its ranks make progress."""
    wires = _Noted(machines)
    try:
        started = min(rank.started_ns for notes in machines for rank in notes.ranks)
        run = Run(Job(Script(""), repair=False), ONLY_JOB, list(wires.links), started_ns=started)
        for notes in machines:
            if notes.looks:
                run.details.update(notes.looks[-1].statuses)
            run.done.update({one.rank: one.said for one in notes.ranks if one.said is not None})
        excuse(wires.links, run)
        collect(run)
        if not run.running():
            outcome = conclude(wires, run)
            if outcome.ok:
                records = {rank: status.records for rank, status in sorted(run.details.items())}
                outcome = dataclasses.replace(outcome, recorded=records)
            return with_diagnosis(outcome)
        return _standing_still(machines, wires, run)
    finally:
        for link in wires.links:
            link.close()


def _standing_still(machines: Sequence[Notes], wires: Wires, run: Run) -> Outcome | None:
    looks = _two_looks(machines)
    if looks is None:
        return None
    before, now, ordered = looks
    running = frozenset(link.rank for link in run.running())
    found = deadlock.judge(before, now, running, failed=failed_ranks(run))
    if found is None or found.may_resume:
        return None
    doubts = list(found.doubts)
    if not ordered:
        doubts.append("the machines' looks at their ranks are in no known order")
    if doubts and any(notes.still_for < PROBABLE_SECONDS for notes in machines if not notes.over):
        return None
    run.waiting, run.doubts = dict(found.waiting), tuple(doubts)
    run.proved, run.timed_out = not doubts, bool(doubts)
    for rank in running:  # as if they had been freed
        run.stopped_at[rank], run.done[rank] = "deadlock", JobReply()
    return with_diagnosis(conclude(wires, run))


def _two_looks(
    machines: Sequence[Notes],
) -> tuple[dict[int, RankStatus], dict[int, RankStatus], bool] | None:
    """Return an earlier and a later status of every rank, and whether all earlier ones precede all later ones.

    None if a machine has not looked twice since its ranks moved last. A machine that has finished needs one look, or
    two where a thread of its ranks was busy at the first.
    """
    if any(len(notes.looks) < 2 and not notes.over for notes in machines):
        return None
    before: dict[int, RankStatus] = {}
    now: dict[int, RankStatus] = {}
    ordered = True
    for notes in machines:
        last = notes.looks[-1:]
        earlier = notes.looks[:-1] or last
        read_by_all = [
            look
            for look in earlier
            if all(
                other.looks[-1].seen.get(notes.machine, 0) >= look.number
                for other in machines
                if other is not notes and not other.over
            )
        ]
        ordered = ordered and (notes.over or bool(read_by_all))
        for look in (read_by_all or earlier)[-1:]:
            before.update(look.statuses)
        for look in last:
            now.update(look.statuses)
    return before, now, ordered
