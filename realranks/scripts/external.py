"""A run that somebody else has started, and that hangs: two looks at its ranks from outside, and what they say.

Nothing of the course is in the ranks, and nothing is changed in them. The looks of one machine are judged at once
(`attached`), or kept in a file (`save`), and judged with those of other machines (`read_saved`, `outcome_of`).
"""

from __future__ import annotations

import itertools
import socket
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from realranks.doctor import dumps
from realranks.doctor.diagnose import with_diagnosis
from realranks.doctor.words import positions, rank_list, verb
from realranks.outcome.facts import Facts
from realranks.outcome.fold import span
from realranks.outcome.outcome import (
    EXIT_UNKNOWN,
    Collective,
    Diagnosis,
    Ending,
    Kind,
    Outcome,
    RankState,
    Waiting,
)
from realranks.outcome.partners import Partners
from realranks.ranks import nccl_counts
from realranks.ranks.external import calls, processes
from realranks.ranks.external.calls import DEFAULT_GROUP
from realranks.ranks.external.debug_server import dumps_of_server
from realranks.ranks.external.dumps import Dump, dumps_of
from realranks.ranks.external.looks import collective_of, look
from realranks.ranks.kernel import deadlock
from realranks.ranks.status import ExternalLook, RankStatus
from realranks.scripts.machines import NotesError, read_marked, write_marked
from realranks.versions import own
from realranks.watch.majority import groups_of, odd_ones

_MARK = "what ddp-course has seen of the ranks of one machine from outside"
_PATTERN = "outside-*.json"
#: Seconds between the two looks; how long ranks have waited when a rank that is slow is worth an alarm; how long they
#: have waited when a standstill is, and when a rank is that only looks whether something has come. A standstill outside
#: of torch's calls is one when all have slept as long as that.
BETWEEN, _LONG, _PROBABLE, _POLLING = 2.0, 60.0, 5.0, 10.0
#: Parts of the names of variables that are another number on each rank.
_OWN = ("rank", "seed", "device", "pid", "size", "port", "time", "worker", "index", "idx")


@dataclass(frozen=True)
class Snapshot:
    """Two looks at the ranks of one run on one machine: what a file holds.

    Attributes:
        course: its version. run: what the ranks of the run have in common. host: the machine. written_ns: by its clock.
        all_here: the launcher has said that there is no other machine.
        before, now: what the ranks did, by rank.
        ended: exit codes of ranks whose processes are still listed.
        errors: what ranks without a process have left behind of an exception.
        dumps: files of torch's flight recorder, by rank; also of ranks of other machines, in a folder that they share.
    """

    course: str
    run: str
    host: str
    written_ns: int
    world_size: int
    all_here: bool
    before: Mapping[int, RankStatus]
    now: Mapping[int, RankStatus]
    ended: Mapping[int, int] = field(default_factory=dict)
    errors: Mapping[int, str] = field(default_factory=dict)
    dumps: Mapping[int, Dump] = field(default_factory=dict)


@dataclass(frozen=True)
class Finding:
    """The conclusion from the looks.

    Attributes:
        outcome: with the diagnosis; None while the ranks get on.
        firm: whether that is worth an alarm; else a rank may just be slow.
        kind: proved, probable or unknown, in words.
        recorded: what files of the flight recorder say, where there is no diagnosis; else that holds it.
    """

    outcome: Outcome | None
    firm: bool = False
    kind: str = ""
    recorded: tuple[str, ...] = ()


def snapshots(pids: Collection[int] = (), *, seconds: float = BETWEEN, ras: bool = False) -> list[Snapshot]:
    """Look twice at the ranks of this machine, run by run.

    Args:
        pids: the processes that are ranks; else all of this user's that are.
        ras: also ask NCCL's RAS service, which is part of the ranks.

    Raises:
        pyspy.UnreadableError: none can be read.
    """
    found = processes.processes(pids)
    before, started = look(found, _world(found), first=True, ras=ras), time.monotonic()
    if not before:
        return []
    time.sleep(max(seconds - (time.monotonic() - started), 0))
    now = look([each for each in found if each.pid in before], _world(found), first=False, ras=ras)
    now = {pid: replace(status, outside=_asleep_since(status, before[pid])) for pid, status in now.items()}
    found_by_run = []
    for run, members in itertools.groupby(sorted(found, key=lambda each: each.run), lambda each: each.run):
        ranks = _ranks(list(members), now)
        if ranks:
            found_by_run.append(_snapshot(run, ranks, found, before, now))
    return found_by_run


def _world(found: Iterable[processes.Process]) -> int:
    return max((each.world_size or 0 for each in found), default=0)


def _asleep_since(status: RankStatus, before: RankStatus) -> ExternalLook | None:
    """Keep how long the rank had slept at the first look: reading it then may have woken it."""
    assert status.outside is not None
    earlier = before.outside
    assert earlier is not None
    look = status.outside if status.outside.group or not status.same_place(before) else earlier
    return replace(status.outside, asleep_for=earlier.asleep_for, group=look.group, same=look.same)


def _ranks(
    members: Sequence[processes.Process], now: Mapping[int, RankStatus]
) -> dict[int, processes.Process]:
    """Assign processes to ranks: by their launcher's environment, else by a variable of theirs."""
    ranks: dict[int, processes.Process] = {}
    for process in members:
        status = now.get(process.pid)
        if status is None or processes.is_launcher(process.pid):
            continue
        if any("/torch/utils/data/_utils/" in frame.file for frame in status.stack):
            continue  # a worker of a DataLoader, which may have outlived its rank
        rank = process.rank if process.rank is not None else _named_rank(status)
        if rank is not None and rank not in ranks:
            ranks[rank] = process
    return ranks


def _named_rank(status: RankStatus) -> int | None:
    """Return the rank that a script's own process keeps in a variable; spawn passes it as `i`."""
    numbers = status.outside.numbers if status.outside is not None else {}
    for word in ("rank", "global_rank", "local_rank"):
        for name, value in numbers.items():
            if name.rpartition(":")[2] == word:
                return value
    return None


def _snapshot(
    run: str,
    ranks: Mapping[int, processes.Process],
    found: Sequence[processes.Process],
    before: Mapping[int, RankStatus],
    now: Mapping[int, RankStatus],
) -> Snapshot:
    launched = [each for each in ranks.values() if each.rank is not None]
    named = [
        v
        for s in now.values()
        if s.outside
        for n, v in s.outside.numbers.items()
        if n.endswith(":world_size")
    ]
    world = max([len(ranks), max(ranks) + 1, _world(launched), *([] if launched else named)])
    by_rank = [
        {rank: look[p.pid].of_rank(rank) for rank, p in sorted(ranks.items())} for look in (before, now)
    ]
    absent = [rank for rank in range(world) if rank not in ranks]
    parents = {each.parent for each in ranks.values()}
    zombies = [each.pid for each in found if each.letter == "Z" and each.parent in parents]
    ended = {}
    if len(zombies) == len(absent):  # else it is not known which of them is which
        ended = {
            r: code
            for r, pid in zip(absent, zombies, strict=True)
            if (code := processes.exit_code(pid)) is not None
        }
    return Snapshot(
        own()[1],
        run,
        socket.gethostname(),
        time.time_ns(),
        world,
        not launched or all(each.all_here for each in launched),
        _in_world(by_rank[0], world),
        _in_world(by_rank[1], world),
        ended,
        _left_errors(absent, ranks.values()),
        dumps_of(ranks[min(ranks)], range(world)) or dumps_of_server([each.pid for each in ranks.values()]),
    )


def _left_errors(absent: Iterable[int], living: Iterable[processes.Process]) -> dict[int, str]:
    """Read the errors of ranks without a process here, using the files of the living ones."""
    found = {}
    for rank in absent:
        error = next(filter(None, (processes.error_of_sibling(each, rank) for each in living)), "")
        if error:
            found[rank] = error
    return found


def _in_world(statuses: Mapping[int, RankStatus], world: int) -> dict[int, RankStatus]:
    """Fill in the partners of ranks that wait in the default group: all of these ranks."""
    by_pid = {status.outside.pid: rank for rank, status in statuses.items() if status.outside is not None}
    return {
        rank: replace(status, partners=_in_group(status, status.partners, by_pid, world))
        if status.partners is not None
        else status
        for rank, status in statuses.items()
    }


def _in_group(status: RankStatus, needed: Partners, by_pid: Mapping[int, int], world: int) -> Partners:
    """Fill in the members of the group: those its connections show, else those of the default group."""
    seen = status.outside
    if needed.to is not None or needed.source is not None:
        return needed
    if seen is not None and seen.group and by_pid.keys() >= set(seen.group):
        members = tuple(sorted(by_pid[pid] for pid in seen.group))
        whole = len(members) == world and not seen.same
        name = DEFAULT_GROUP if whole else f"{span(members)}{f' ({seen.same + 1})' if seen.same else ''}"
        return replace(needed, group=name, members=members)
    return replace(needed, members=tuple(range(world))) if needed.members else needed


# -- kept in files, and read again -----------------------------------------------------------------------------------


def save(snapshot: Snapshot, folder: Path, *, values: bool = False) -> Path:
    """Write a machine's file into a folder, which is made: over an older one of this run, beside that of another.

    Args:
        values: keep the text of lines, the values of variables and the errors that ranks have left, too.
    """
    if not values:
        pairs = {
            rank: _without_values(snapshot.before[rank], status) for rank, status in snapshot.now.items()
        }
        before, now = ({rank: pair[n] for rank, pair in pairs.items()} for n in (0, 1))
        files = {rank: dump.without_source() for rank, dump in snapshot.dumps.items()}
        snapshot = replace(snapshot, before=before, now=now, errors={}, dumps=files)
    folder.mkdir(parents=True, exist_ok=True)
    name = f"outside-{snapshot.host}-{min(snapshot.now)}-{max(snapshot.now)}"
    paths = (folder / f"{name}{f'-{n}' if n > 1 else ''}.json" for n in itertools.count(1))
    path = next(path for path in paths if not path.exists() or _run_of(path) == snapshot.run)
    write_marked(path, snapshot, _MARK)
    return path


def _run_of(path: Path) -> str:
    try:
        return read_marked(path, Snapshot, _MARK, "doctor --attach --save").run
    except NotesError:
        return ""


def _without_values(before: RankStatus, now: RankStatus) -> tuple[RankStatus, RankStatus]:
    """Remove the script's text from two looks; of variables, keep only whether they changed."""
    assert before.outside is not None
    assert now.outside is not None
    changed = before.outside.variables != now.outside.variables

    def bare(status: RankStatus, variables: str) -> RankStatus:
        assert status.outside is not None
        outside = replace(
            status.outside, numbers={}, error="", variables=variables if status.outside.variables else ""
        )
        return replace(status, stack=tuple(replace(f, source="") for f in status.stack), outside=outside)

    return bare(before, "first"), bare(now, "second" if changed else "first")


def holds_saved(folder: Path) -> bool:
    """Check whether a folder has files of `save`."""
    return any(folder.glob(_PATTERN))


def read_saved(folder: Path) -> list[Snapshot]:
    """Read the files of all machines.

    Raises:
        NotesError: one is damaged; the message names it.
    """
    read: list[Snapshot] = []
    for path in sorted(folder.glob(_PATTERN)):
        one = read_marked(path, Snapshot, _MARK, "doctor --attach --save")
        if (
            not one.now
            or one.now.keys() != one.before.keys()
            or not all(0 <= r < one.world_size for r in one.now)
        ):
            raise NotesError(f"{path} is damaged: its ranks are {sorted(one.now)}, of {one.world_size}.")
        if any(status.outside is None for status in (*one.now.values(), *one.before.values())):
            raise NotesError(f"{path} is damaged: a rank in it was not looked at from outside.")
        read.append(one)
    return read


def by_run(snapshots: Iterable[Snapshot]) -> list[list[Snapshot]]:
    """Return the snapshots of each run.

    Raises:
        NotesError: two of a run hold the same rank; the message names their machines.
    """
    runs: list[list[Snapshot]] = []
    for one in snapshots:
        exact_first = sorted(runs, key=lambda run: run[0].run != one.run)
        run = next((run for run in exact_first if all(_of_one_run(one, other) for other in run)), None)
        if run is None:
            runs.append(run := [])
        for other in run:
            for rank in one.now.keys() & other.now.keys():
                raise NotesError(f"The file of {one.host} holds rank {rank}, as that of {other.host} does.")
        run.append(one)
    return runs


def _of_one_run(one: Snapshot, other: Snapshot) -> bool:
    """Check that both are of one run; two machines may use different names for the address of rank 0."""
    same = one.run.rpartition(" at ")[0] == other.run.rpartition(" at ")[0]
    return one.world_size == other.world_size and same and (one.run == other.run or one.host != other.host)


# -- judged ----------------------------------------------------------------------------------------------------------


def assess_snapshots(snapshots: Sequence[Snapshot]) -> Finding:
    """Conclude from the looks at the ranks of one run what they are in."""
    before = {rank: status for one in snapshots for rank, status in one.before.items()}
    now = {rank: status for one in snapshots for rank, status in one.now.items()}
    world = snapshots[0].world_size
    seen = {rank: status.outside for rank, status in now.items() if status.outside is not None}
    ended = {rank: code for one in snapshots for rank, code in one.ended.items()}
    absent = [rank for rank in range(world) if rank not in now]
    gone = {rank: ended.get(rank, EXIT_UNKNOWN) for rank in absent if any(one.all_here for one in snapshots)}
    unseen = [rank for rank in absent if rank not in gone]
    over = [rank for rank in now if seen[rank].finished]
    stopped = frozenset(rank for rank in now if seen[rank].stopped and rank not in over)
    running = frozenset(now) - set(over)
    still = [r for r in running if now[r].same_place(before[r]) and now[r].still_since(before[r])]
    blocked = [rank for rank in still if now[rank].waiting_in is not None and rank not in stopped]
    busy = [rank for rank in sorted(running) if rank not in blocked and rank not in stopped]
    seconds = min((seen[rank].asleep_for or 0.0 for rank in blocked), default=0.0) + BETWEEN
    launched = {rank: each.launched for rank, each in seen.items() if each.launched}
    unequal = bool(nccl_counts.apart(launched)) and all(
        _launched(before[rank]) == launched[rank] for rank in launched
    )
    recorded = dumps.lines({rank: dump for one in snapshots for rank, dump in one.dumps.items()})
    idle = [rank for rank in busy if _never_ends(before[rank], now[rank], seconds)]
    all_still = bool(busy) and len(still) == len(running) == len(busy)
    if all_still and all(_long_asleep(now[rank]) for rank in busy):
        idle = busy  # outside of torch's calls, too, ranks do not get on that all stand still
    if not (blocked or stopped or unequal or all_still) and (not busy or len(idle) < len(busy)):
        return Finding(None, recorded=tuple(recorded))
    records = {rank: collective_of(now[rank]) for rank in blocked}
    waiting = {
        rank: _waiting(rank, now, records, stopped, [*gone, *over, *busy, *stopped])
        for rank in sorted(running)
    }
    doubts = None
    if not unequal:  # NCCL's numbers say more than where the ranks stand
        doubts = _doubts(before, now, running, stopped, waiting, unseen, len(snapshots))
    proved = doubts == [] and not stopped
    slow = bool(busy) and doubts is None
    if unequal:
        for rank in running:
            if now[rank].waiting_in is None and now[rank].same_place(before[rank]):
                waiting[rank] = replace(waiting[rank], state=RankState.GPU)
    firm = idle == busy if all_still else not slow or seconds >= _LONG or bool(idle)
    # A rank in a communication call that is not still is on its way: soon more is known.
    firm = firm and not any(now[rank].waiting_in is not None and not seen[rank].problem for rank in busy)
    firm = firm and (proved or bool(stopped) or slow or not blocked or seconds >= _PROBABLE)
    firm = firm or unequal
    outcome = Outcome(
        kind=Kind.HANG,
        world_size=world,
        ranks=tuple(sorted({*now, *gone})),
        stdout={},
        stderr={},
        shown={},
        errors={},
        exits=gone,
        endings=dict.fromkeys(gone, Ending.DIED) | dict.fromkeys(over, Ending.FINISHED),
        waiting=waiting,
        pictures={},
        proved=proved,
        doubts=tuple(doubts or ()) if firm else (),  # what is no alarm is not called probable
        timed_out=not proved and not doubts and not stopped,
        what="script",
        hosts={rank: one.host for one in snapshots for rank in one.now} if len(snapshots) > 1 else {},
        facts={rank: Facts(issued=counts) for rank, counts in launched.items()} if unequal else {},
        from_outside=True,
    )
    outcome = with_diagnosis(outcome)
    kind = "proved" if proved else "probable" if (doubts and firm) or unequal else "unknown"
    errors = {rank: text for one in snapshots for rank, text in one.errors.items() if rank in absent}
    diagnosis = _with_evidence(outcome, now, busy, unseen, kind, errors, recorded)
    return Finding(replace(outcome, diagnosis=diagnosis), firm, kind)


def _waiting(
    rank: int,
    now: Mapping[int, RankStatus],
    records: Mapping[int, Collective | None],
    stopped: Collection[int],
    away: Collection[int],
) -> Waiting:
    """Describe what a rank does, and for whom it waits.

    Args:
        records: of the ranks that are blocked, the collectives they wait in, as far as that is known.
        away: ranks that are in no communication call.
    """
    status = now[rank]
    assert status.outside is not None
    state = (
        RankState.STOPPED
        if rank in stopped
        else RankState.BLOCKED
        if rank in records
        else RankState.COMPUTING
    )
    if state is RankState.COMPUTING and status.asleep:
        state = RankState.ASLEEP
    if status.outside.problem:
        state = RankState.SILENT
    found = deadlock.describe(status, now, state)
    seconds = status.outside.asleep_for
    found = replace(found, seconds=None if seconds is None else seconds + BETWEEN)
    record = records.get(rank)
    if record is None:
        return replace(found, call=found.call if state is RankState.BLOCKED else None)
    needed = (
        status.partners.members if status.partners is not None and status.partners.members else tuple(now)
    )
    others = [each for each in away if each != rank and each in (*needed, *(set(away) - set(now)))]
    for other in records.keys() & set(needed):
        theirs = records[other]
        if other != rank and (theirs is None or theirs.group != record.group):
            others.append(other)
    return replace(found, collective=record, missing=tuple(sorted(others)))


def _doubts(
    before: Mapping[int, RankStatus],
    now: Mapping[int, RankStatus],
    running: frozenset[int],
    stopped: frozenset[int],
    waiting: Mapping[int, Waiting],
    unseen: Collection[int],
    machines: int,
) -> list[str] | None:
    """List why what was seen is no proof, a clause each; None if something moves, or a rank is likely to go on."""
    found = deadlock.judge(before, now, running, stopped)
    if found is None or found.may_resume:
        return None
    doubts = list(found.doubts)
    doubts += sorted(
        {why for rank in running if (seen := now[rank].outside) is not None for why in seen.doubts}
    )
    if unseen:
        doubts.append(f"{rank_list(unseen)} {verb(unseen, 'was', 'were')} not looked at")
    keys = [rank for rank in running if now[rank].waiting_in is not None and now[rank].partners is None]
    if keys:
        doubts.append(
            f"another process might set the key that {rank_list(keys)} {verb(keys, 'waits', 'wait')} for"
        )
    if machines > 1:
        doubts.append("the machines were not looked at together")
    if any(status.uses_gpus for status in now.values()):
        doubts.append("what GPUs do is not seen from outside")
    if len(running) > 1 and not any(wait.missing for wait in waiting.values()):
        places = {
            (wait.collective.op, wait.collective.frames) if wait.collective else rank
            for rank, wait in waiting.items()
        }
        if len(places) == 1:
            doubts.append("what the ranks bring to this collective is not seen from outside")
    return doubts


def _launched(status: RankStatus) -> Mapping[str, int]:
    return status.outside.launched if status.outside is not None else {}


def _never_ends(before: RankStatus, now: RankStatus, waited: float) -> bool:
    """Check whether a rank outside communication calls is doing something that hardly ends by itself.

    It waits for somebody to type, sleeps for a minute or more, runs in a loop that calls nothing, or polls for
    something that has not come while the others have waited for this many seconds.
    """
    seen, earlier = now.outside, before.outside
    assert seen is not None
    assert earlier is not None
    if now.waiting_in is not None or seen.problem or seen.finished or not now.same_place(before):
        return False
    if seen.reads or (seen.ends_in or 0) >= _LONG:
        return True
    if seen.spins:
        return True
    comes_round = seen.ends_in is not None and seen.ends_in < BETWEEN
    return comes_round and waited >= _POLLING and bool(seen.variables) and seen.variables == earlier.variables


def _long_asleep(now: RankStatus) -> bool:
    """Check whether a rank has slept for long, and in nothing that is known to end soon."""
    seen = now.outside
    assert seen is not None
    ends_soon = seen.ends_in is not None and seen.ends_in < _LONG
    return (seen.asleep_for or 0.0) >= _POLLING and not ends_soon and not seen.problem


def _with_evidence(
    outcome: Outcome,
    now: Mapping[int, RankStatus],
    busy: Collection[int],
    unseen: Collection[int],
    kind: str,
    errors: Mapping[int, str],
    recorded: Iterable[str],
) -> Diagnosis:
    """Add to the diagnosis what else was seen: workers, errors, ranks at another step of a loop."""
    found = outcome.diagnosis
    assert found is not None
    apart = _apart(now)
    odd = next(filter(None, map(odd_ones, apart.values())), ())
    if odd and not found.culprits:
        where = positions(outcome)
        if found.evidence[: len(where)] == where:
            evidence = (*positions(outcome, odd), *found.evidence[len(where) :])
            found = replace(found, culprits=odd, evidence=evidence)
    lines = [f"rank {rank}: {text}" for rank in busy for text in now[rank].outside.workers]  # type: ignore[union-attr]
    lines += [f"rank {rank}: {text}" for rank, text in errors.items()]
    for rank, status in now.items():
        assert status.outside is not None
        lines += [f"rank {rank}: {text}" for text in (status.outside.error, status.outside.problem) if text]
    lines += [*itertools.starmap(_said_apart, apart.items()), *_called(now), *_groups(now), *recorded]
    if unseen:
        lines.append(
            f"{rank_list(unseen)} {verb(unseen, 'was', 'were')} not looked at: no process of theirs is here"
        )
    if kind == "proved":
        lines.append(
            f"Proved: two looks {BETWEEN:.0f} s apart, nothing has moved, and none of the ranks can go on."
        )
    elif kind == "unknown":
        lines.append("Not proved, and not known: a rank may still go on.")
    return replace(found, evidence=(*found.evidence, *lines))


def _called(now: Mapping[int, RankStatus]) -> list[str]:
    """Describe ranks that wait inside a library: `rank 0 is in accelerate's gather(), called at train.py, line 30`."""
    found: dict[str, list[int]] = {}
    for rank, status in now.items():
        entered = calls.entered(status.stack) if status.waiting_in is not None else ""
        if entered:
            found.setdefault(entered, []).append(rank)
    return [f"{rank_list(ranks)} {verb(ranks, 'is', 'are')} in {what}" for what, ranks in found.items()]


def _groups(now: Mapping[int, RankStatus]) -> list[str]:
    """Describe who waits in which group, if there are several."""
    found: dict[tuple[str, tuple[int, ...]], list[int]] = {}
    for rank, status in now.items():
        if status.partners is not None and status.partners.members and collective_of(status) is not None:
            found.setdefault((status.partners.group, status.partners.members), []).append(rank)
    if len(found) < 2:
        return []
    return [
        f"{rank_list(ranks)} {verb(ranks, 'waits', 'wait')} in a group of {rank_list(members)}"
        for (_, members), ranks in found.items()
    ]


def _apart(now: Mapping[int, RankStatus]) -> dict[str, dict[int, int]]:
    """Return the loop counters in which ranks differ, by name and by rank."""
    known = {
        rank: status.outside.numbers
        for rank, status in now.items()
        if status.outside and status.outside.numbers
    }
    shared = set.intersection(*map(set, known.values())) if len(known) > 1 else set()
    found = {}
    for name in sorted(shared):
        word = name.rpartition(":")[2]
        values = {rank: numbers[name] for rank, numbers in known.items()}
        if 1 < len(set(values.values())) <= 3 and not any(part in word.lower() for part in _OWN):
            found[word] = values
    return dict(itertools.islice(found.items(), 3))


def _said_apart(word: str, values: Mapping[int, int]) -> str:
    """Format as `step is 3 on rank 1, and 4 on ranks 0,2`."""
    ranks = sorted((values[who[0]], who) for who in groups_of(values))
    return f"{word} is " + ", and ".join(f"{value} on {rank_list(who)}" for value, who in ranks)
