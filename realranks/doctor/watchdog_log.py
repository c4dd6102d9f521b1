"""The verdict from what NCCL's watchdog has printed: which rank did not come, by the log alone.

The formats are those of `ProcessGroupNCCL.cpp` from torch 2.0 on, as its source and logs in public issues have them;
read, not run: they need GPUs.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from realranks.doctor.sentences import diagnosis
from realranks.doctor.words import at_line, lines_of, rank_list
from realranks.outcome.fold import Folded, fold
from realranks.outcome.outcome import Collective, Ending, Kind, Outcome, RankError, Waiting
from realranks.outcome.places import Frame, is_learners

_PROCESS = re.compile(r"\[rank(\d+)\]:")
_WHO = r"\[(?:PG (?:ID \S+ PG GUID )?([^\s(\]]+) ?(?:\((\S+)\))? )?Rank (\d+)\]"
_TIMED_OUT = re.compile(
    rf"{_WHO}\s+Watchdog caught collective operation timeout: "
    r"WorkNCCL\(SeqNum=(\d+), OpType=(\w+)(?:, NumelIn=(\d+))?"
)
_STATUS = re.compile(
    rf"{_WHO}.*?(?:\bat (?:NCCL )?work(?: sequence id)?: (\d+)|dump signal).*?"
    r"last enqueued (?:NCCL )?work: (-?\d+), last completed (?:NCCL )?work: (-?\d+)",
    re.IGNORECASE,
)
_STACK = "Stack trace of the failed collective:"
_FRAME = re.compile(r"#\d+ (\S+) from (.+):(\d+)\s*$")
_PYTHON_FRAME = re.compile(r'\[rank(\d+)\]:\s+File "(.+)", line (\d+), in (\S+)')
_ERROR = re.compile(r"\[rank(\d+)\]: ((?:\w+\.)*\w*(?:Error|Exception|Interrupt))(?:: (.*))?$")
_EXIT_OF, _EXIT = re.compile(r"^\s*rank\s+: (\d+) "), re.compile(r"^\s*exitcode\s+: (-?\d+)")
_WORLD = re.compile(r"global_world_sizes=\[(\d+)")
#: What a rank raises because another has gone.
_CONSEQUENCES = ("DistBackendError", "DistNetworkError", "DistStoreError", "ChildFailedError")
#: The watchdog ends its process by SIGABRT, torchrun the others by SIGTERM.
_BY_OTHERS = (-6, -15)
_OPS = {
    "ALLREDUCE": "all_reduce",
    "_ALLREDUCE_SPARSE": "all_reduce",
    "ALLGATHER": "all_gather",
    "_ALLGATHER_BASE": "all_gather_into_tensor",
    "_REDUCE_SCATTER_BASE": "reduce_scatter_tensor",
    "ALLTOALL_BASE": "all_to_all_single",
    "ALLTOALL": "all_to_all",
}
#: Whose inputs have the same number of elements on all ranks.
_ALIKE = {
    "all_reduce",
    "all_gather",
    "all_gather_into_tensor",
    "reduce_scatter_tensor",
    "broadcast",
    "reduce",
}
#: Which a rank may be through with while others are in it.
_ROOTED = {"broadcast", "reduce", "scatter", "gather", "send"}


class NoWatchdogError(Exception):
    """The log has no line of NCCL's watchdog about a collective that has timed out."""


@dataclass
class _Member:
    """What the log tells of a rank in one group.

    Attributes:
        timed_out: the collectives that did not end, by their number. issued, completed: the number of the last one,
            -1 for none; None where the log does not say.
    """

    timed_out: dict[int, Collective] = field(default_factory=dict)
    issued: int | None = None
    completed: int | None = None


def verdict(lines: Iterable[str]) -> Outcome:
    """Judge a run by the lines of its log, of one file or several.

    Returns:
        The outcome of the run with its diagnosis: a hang, of which only the log tells.

    Raises:
        NoWatchdogError: no collective is said to have timed out.
    """
    log = _Log()
    for line in lines:
        log.read(line.rstrip("\n"))
    waited = {
        name: group for name, group in log.groups.items() if any(each.timed_out for each in group.values())
    }
    if not waited:
        raise NoWatchdogError
    # The one in which somebody is missing has kept the others waiting; else the one that is told of first.
    name = next((name for name, group in waited.items() if _behind(group)), next(iter(waited)))
    return _judge(log, name, waited[name])


class _Log:
    """Reads a log line by line."""

    def __init__(self) -> None:
        self.groups: dict[str, dict[int, _Member]] = {}
        self.errors: dict[int, RankError] = {}
        self.exits: dict[int, int] = {}
        self.world_size = 0
        #: Timeouts whose group is told by the next line of that process.
        self._open: dict[int, list[Collective]] = {}
        self._stack_of: int | None = None
        #: By rank, the script's line: of the collective that timed out, and of the frames of a traceback.
        self.issued_at: dict[int, Frame] = {}
        self._raised_at: dict[int, Frame] = {}
        self._exit_of = -1

    def read(self, line: str) -> None:
        process = _PROCESS.search(line)
        if (frame := _FRAME.search(line)) and self._stack_of is not None:
            function, file, number = frame.groups()
            if is_learners(file):
                self.issued_at.setdefault(self._stack_of, Frame(file, int(number), function, ""))
            return
        if found := _TIMED_OUT.search(line):
            group, _, rank, number, op, size = found.groups()
            rank = int(process[1]) if process else int(rank)
            name = _OPS.get(op, op.lower().lstrip("_"))
            sizes = ((int(size),),) if size else ()
            self._timed_out(rank, group, Collective(group or "", int(number), name, sizes, (), False))
        elif found := _STATUS.search(line):
            group, _, rank, at, issued, completed = found.groups()
            self._status(
                int(process[1]) if process else int(rank), group or "0", at, int(issued), int(completed)
            )
        elif _STACK in line and process:
            self._stack_of = int(process[1])
        elif found := _PYTHON_FRAME.search(line):
            rank, file, number, function = found.groups()
            if is_learners(file):
                self._raised_at[int(rank)] = Frame(file, int(number), function, "")
        elif found := _ERROR.search(line):
            self._raised(int(found[1]), found[2].rpartition(".")[2], found[3] or "")
        elif found := _WORLD.search(line):
            self.world_size = int(found[1])
        elif found := _EXIT_OF.search(line):
            self._exit_of = int(found[1])
        elif found := _EXIT.search(line):
            self.exits[self._exit_of] = int(found[1])

    def _timed_out(self, rank: int, group: str | None, work: Collective) -> None:
        if group is None:
            if any(
                work.seq in members[rank].timed_out for members in self.groups.values() if rank in members
            ):
                return  # told once more, when the process ends
            self._open.setdefault(rank, []).append(work)
            # Older versions never name the group: then it is the only one.
            group = "0"
        self._member(group, rank).timed_out[work.seq] = work

    def _status(self, rank: int, group: str, at: str | None, issued: int, completed: int) -> None:
        member = self._member(group, rank)
        member.issued, member.completed = issued, completed
        for work in self._open.pop(rank, []) if at is not None else []:
            if group != "0":
                self.groups["0"][rank].timed_out.pop(work.seq, None)
            member.timed_out[work.seq] = work

    def _raised(self, rank: int, name: str, message: str) -> None:
        if name not in _CONSEQUENCES and "NCCL" not in message and rank not in self.errors:
            where = self._raised_at.get(rank)
            text = f"{name}: {message}".removesuffix(": ")
            place = (where.where(), where.line) if where is not None else ("", None)
            self.errors[rank] = RankError(name, (name,), message, text, text, *place)

    def _member(self, group: str, rank: int) -> _Member:
        return self.groups.setdefault(group, {}).setdefault(rank, _Member())


def _first(member: _Member) -> Collective:
    return member.timed_out[min(member.timed_out)]


def _number(group: Mapping[int, _Member]) -> int:
    return max(_first(each).seq for each in group.values() if each.timed_out)


def _behind(group: Mapping[int, _Member]) -> list[int]:
    """Return the ranks that have not issued the collective in which others wait."""
    number = _number(group)
    return sorted(rank for rank, each in group.items() if each.issued is not None and each.issued < number)


def _judge(log: _Log, name: str, group: Mapping[int, _Member]) -> Outcome:
    waits = {
        rank: replace(_first(each), origin=log.issued_at.get(rank))
        for rank, each in sorted(group.items())
        if each.timed_out
    }
    behind, number = _behind(group), _number(group)
    here = {rank: work for rank, work in waits.items() if work.seq == number}
    raised = {rank: error for rank, error in log.errors.items() if rank not in waits}
    killed = {r: c for r, c in log.exits.items() if r not in waits and c < 0 and c not in _BY_OTHERS}
    known = {*waits, *group, *log.errors, *killed}
    size = max([log.world_size, *(rank + 1 for rank in known)])
    unseen = sorted({*range(size)} - known) if name == "0" else []
    sides = _sides(here)
    where = next((work.where for work in here.values() if work.origin is not None), "")
    words: dict[str, object] = {
        "number": f"{number:,}",
        "group": "the default group" if name == "0" else f"group {name}",
        "what": f"{_text(next(iter(here.values())))}{at_line(where)}",
        "having": list(here),
        "others": list(waits),
    }
    culprits: list[int] = []
    if raised:
        culprits, kind = sorted(raised), "rank_raised.in_log"
        first = raised[culprits[0]]
        words |= {"ranks": culprits, "names": f"{first}{at_line(first.where)}", "only": ""}
    elif killed:
        culprits, kind = sorted(killed), "rank_killed.in_log"
        words |= {"ranks": culprits, "how": f"by signal {-killed[culprits[0]]}"}
    elif len(sides) > 1:
        ops = {work.op for work in here.values()}
        kind = "different_sizes.in_log" if len(ops) == 1 else "different_collectives.in_log"
        words["sides"] = ", and ".join(f"{side.text} on {rank_list(side.ranks)}" for side in sides)
        rest = min((list(side.ranks) for side in sides), key=len)
        culprits = rest if len(rest) * 2 < len(here) else []
    elif behind:
        few = len(here) < len(behind)
        culprits, kind = (
            (list(here), "extra_collective.in_log") if few else (behind, "skipped_collective.in_log")
        )
        words |= {"without": behind, "last": _last(group, behind)}
    elif unseen:
        culprits, kind = unseen, "nccl_timeout.not_in_log"
        words["without"] = unseen
    elif len(here) < len(waits):
        rooted = {work.op for work in waits.values()} <= _ROOTED
        kind = "nccl_timeout.root_in_log" if rooted else "nccl_timeout.apart_in_log"
        early = {rank: work for rank, work in waits.items() if rank not in here}
        words |= {"without": list(early), "last": f"number {next(iter(early.values())).seq:,}"}
    else:
        kind = "nccl_timeout.all_in_log" if len(known) > 1 else "nccl_timeout.alone_in_log"
    texts = {rank: _position(log, group.get(rank), waits.get(rank), rank) for rank in sorted(known)}
    texts |= dict.fromkeys(unseen, "nothing in this log")
    found = diagnosis(kind, None, culprits, lines_of(dict(sorted(texts.items())), culprits), **words)
    endings = dict.fromkeys(sorted(known), Ending.ENDED)
    endings |= dict.fromkeys(raised, Ending.RAISED) | dict.fromkeys(killed, Ending.DIED)
    blocked = {
        rank: Waiting(rank, work.op, work.where, "", work, tuple(behind)) for rank, work in waits.items()
    }
    return Outcome(
        Kind.HANG,
        size,
        tuple(sorted(known)),
        {},
        {},
        {},
        raised,
        killed,
        endings,
        blocked,
        {},
        diagnosis=found,
        from_outside=True,
        what="log",
    )


def _sides(works: Mapping[int, Collective]) -> list[Folded]:
    """Group the ranks by what they have brought to one collective; by the operation alone where sizes may differ."""
    ops = {work.op for work in works.values()}
    return fold({rank: _text(work) if ops <= _ALIKE else f"{work.op}()" for rank, work in works.items()})


def _text(work: Collective) -> str:
    if not work.sizes:
        return f"{work.op}()"
    elements = work.sizes[0][0]
    barrier = " (or barrier())" if work.op == "all_reduce" and elements == 1 else ""
    return f"{work.op}() of {elements:,} element{'s' * (elements != 1)}{barrier}"


def _last(group: Mapping[int, _Member], ranks: Iterable[int]) -> str:
    """Return the number of the last collective that these ranks have issued, of which most were at."""
    (number, _), *_ = Counter(group[rank].issued for rank in ranks).most_common()
    return "none" if number in (None, -1, 0) else f"number {number:,}"


def _position(log: _Log, member: _Member | None, work: Collective | None, rank: int) -> str:
    if member is not None and work is not None:
        issued = f"; has issued up to number {member.issued:,}" if member.issued is not None else ""
        return f"waiting in number {work.seq:,}, {_text(work)}{at_line(work.where)}{issued}"
    if rank in log.errors:
        return f"raised {log.errors[rank]}{at_line(log.errors[rank].where)}"
    if member is None:
        return f"ended by signal {-log.exits[rank]}"
    if member.issued in (None, -1, 0):
        return "has issued no collective of this group"
    over = " and waits for none of them" if member.issued == member.completed else ""
    return f"has issued up to number {member.issued:,}{over}"
