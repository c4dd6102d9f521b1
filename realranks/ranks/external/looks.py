"""Looks at ranks from outside: what each rank would say of itself, as far as py-spy and Linux can tell it."""

from __future__ import annotations

import contextlib
import hashlib
import linecache
import re
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from realranks.outcome.outcome import Collective, DDPStage, PauseKind
from realranks.outcome.places import Frame, Spot, is_learners
from realranks.ranks.external import calls, gloo, processes, pyspy, sockets
from realranks.ranks.external.pyspy import SeenFrame, SeenThread
from realranks.ranks.external.ras import counts
from realranks.ranks.inside import traffic
from realranks.ranks.inside.blocking_calls import waiting_in
from realranks.ranks.inside.flight_recorder import IssuingFrame, origin_of
from realranks.ranks.inside.pauses import LOCKS
from realranks.ranks.status import NO_RANK, ExternalLook, RankStatus

_AT_ONCE = 8
#: Threads that never issue a collective, by their names; and those of pools and queues with nothing to do, by a file.
_SERVANTS = re.compile(
    r"QueueFeederThread|pin_memory|tqdm|TMonitor|pydevd|wandb|tensorboard|EventLogger|pt_", re.IGNORECASE
)
_IDLE = ("concurrent/futures/thread.py", "multiprocessing/pool.py", "logging/handlers.py", "tqdm/_monitor.py")
#: A call of torch.distributed that is no collective: nothing of it is recorded by torch either.
_NO_COLLECTIVE = {*calls.MESSAGES, "send", "recv", "get", "monitored_barrier", "init_process_group", "new_group",
                  "DistributedDataParallel()", "value", "result", "synchronize"}  # fmt: skip


@dataclass(frozen=True)
class _Seen:
    """One process: its threads, or why they could not be read."""

    threads: tuple[SeenThread, ...]
    channel: str
    problem: str = ""
    not_allowed: bool = False


def look(
    found: Iterable[processes.Process], world: int, *, first: bool, ras: bool = False
) -> dict[int, RankStatus]:
    """Observe what each of these processes is doing now, by its number.

    Args:
        world: how many ranks there are.
        first: before py-spy has read a process, Linux still tells how long it has slept.
        ras: ask NCCL's RAS service, too; its threads are the ranks' own, and being asked has crashed some.

    Raises:
        pyspy.NotAllowedError, pyspy.NoPySpyError: none of them can be read.
    """
    living = [each for each in found if each.letter != "Z"]
    asleep = {each.pid: processes.asleep_for(each.pid) if first else None for each in living}
    connections = sockets.connections()
    owners = {number: each.pid for each in living for number in _sockets(each.pid)}
    ranks = {each.pid for each in living if each.rank is not None}
    helpers = {
        each.pid: [child for child in traffic.children(_tasks(each.pid)) if child.pid not in ranks]
        for each in living
    }
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        seen = dict(zip((e.pid for e in living), pool.map(_read, (e.pid for e in living)), strict=True))
        workers = dict(zip(helpers, pool.map(_workers, helpers.values()), strict=True))
    refused = [each.problem for each in seen.values() if each.not_allowed]
    if refused and len(refused) == len(living):
        raise pyspy.NotAllowedError(refused[0])
    statuses = {
        each.pid: _status(
            each,
            seen[each.pid],
            world,
            connections,
            owners,
            asleep[each.pid],
            helpers[each.pid],
            workers[each.pid],
        )
        for each in living
    }
    asked = next((e for e in living if statuses[e.pid].uses_gpus or "NCCL_RAS_ADDR" in e.environment), None)
    launched = counts(asked.environment, statuses.keys()) if ras and asked is not None else {}
    return {
        pid: replace(status, outside=replace(status.outside, launched=launched[pid]))
        if pid in launched and status.outside is not None
        else status
        for pid, status in statuses.items()
    }


def _sockets(pid: int) -> set[int]:
    with contextlib.suppress(OSError):
        return sockets.sockets_of(pid)
    return set()


def _tasks(pid: int) -> str:
    return f"/proc/{pid}/task"


def _read(pid: int) -> _Seen:
    channel = processes.wait_channel(pid)
    try:
        return _Seen(tuple(pyspy.threads_of(pid)), channel)
    except pyspy.NoPySpyError:
        raise
    except pyspy.UnreadableError as error:
        return _Seen((), channel, str(error), isinstance(error, pyspy.NotAllowedError))


def _workers(helpers: Sequence[traffic.Child]) -> tuple[tuple[str, ...], float | None]:
    """Locate a rank's processes that run code of the learner's, and return how long they sleep there."""
    found, longest = [], None
    for pid in (helper.pid for helper in helpers):
        channel = processes.wait_channel(pid)
        with contextlib.suppress(pyspy.UnreadableError):
            main = _main(pyspy.threads_of(pid), pid)
            # A forked process has the stack of its parent, too.
            inside = next(
                (n for n, f in enumerate(main) if f.spot.function in ("_worker_loop", "_bootstrap")), 0
            )
            line = next((f for f in main[:inside] if is_learners(f.spot.file)), None)
            if line is not None:
                pause = calls.pause_of(main[:inside], channel)
                asleep = pause is not None and traffic.is_asleep(pid, _tasks(pid))
                if pause is not None and asleep and pause[1] is PauseKind.SLEEP:
                    longest = max(longest or 0.0, calls.ends_in(main) or 0.0)
                doing = f" in {pause[0]}" if pause is not None and asleep else ""
                found.append(f"its process {pid} is{doing} at {Frame(*line.spot, '').where()}")
    return tuple(found), longest


def _main(threads: Iterable[SeenThread], pid: int) -> tuple[SeenFrame, ...]:
    return next((each.frames for each in threads if each.number == pid), ())


def _stack(frames: Iterable[SeenFrame]) -> list[Frame]:
    """Build a stack like `tracebacks.current_stack`, the outermost frame first."""
    stack = [Frame(*f.spot, linecache.getline(f.spot.file, f.spot.line).strip()) for f in frames]
    return stack[::-1]


def _status(
    process: processes.Process,
    seen: _Seen,
    world: int,
    connections: Mapping[int, sockets.Connection] | None,
    owners: Mapping[int, int],
    asleep_for: float | None,
    helpers: Sequence[traffic.Child],
    workers: tuple[tuple[str, ...], float | None],
) -> RankStatus:
    tasks = _tasks(process.pid)
    awake, main = traffic.awake(tasks=tasks), _main(seen.threads, process.pid)
    asleep = traffic.is_asleep(process.pid, tasks)
    stack = _stack(main)
    waits_in = waiting_in(stack, None) or _bare_wait(process.pid, main, asleep)
    moved, in_flight, seen_through = _carried(process.pid, connections)
    numbers = {
        f"{frame.spot.file}:{frame.spot.function}:{name}": value
        for frame in main
        if is_learners(frame.spot.file)
        for name, value in calls.whole_numbers(frame).items()
    }
    pause = None if waits_in is not None or not asleep else calls.pause_of(main, seen.channel)
    group, same = gloo.waits_in(process.pid, connections or {}, owners) if waits_in is not None else ((), 0)
    outside = ExternalLook(
        process.pid,
        group=group,
        same=same,
        stopped=traffic.state_of(process.pid, tasks) in ("T", "t"),
        finished=not seen.problem and _is_over(main),
        asleep_for=asleep_for if asleep else None,
        numbers=numbers,
        variables=_digest(main),
        spins=bool(main) and not asleep and calls.spins(main[0]),
        ends_in=calls.ends_in(main) if pause is not None and pause[1] is PauseKind.SLEEP else workers[1],
        reads=asleep and waits_in is None and calls.reads(seen.channel),
        workers=workers[0],
        error=processes.last_error(process),
        problem=seen.problem,
        doubts=_doubts(main) if waits_in is not None else (),
    )
    gpus = processes.uses_gpus(process.pid)
    needed = calls.partners_of(main, waits_in, world) if waits_in is not None else None
    return RankStatus(
        rank=NO_RANK,
        stack=tuple(stack),
        waiting_in=waits_in,
        cpu_seconds=processes.core_seconds(process.pid) - awake.loop_seconds,
        sequence={},
        members={},
        records=(),
        asleep=asleep and not awake.others,
        loops={str(thread): turns for thread, turns in awake.loops.items()},
        moved=moved,
        in_flight=in_flight,
        threads=tuple(_others(seen.threads, process.pid)),
        children={child.pid: (child.name, child.cpu_seconds) for child in helpers},
        pause=pause,
        partners=needed,
        seen_through=seen_through and not gpus,
        uses_gpus=gpus,
        outside=outside,
    )


def collective_of(status: RankStatus) -> Collective | None:
    """Derive the collective that a rank waits in from its stack, without its number or sizes."""
    call, needed = status.waiting_in, status.partners
    if call is None or needed is None or needed.to is not None or needed.source is not None:
        return None
    if needed.call in _NO_COLLECTIVE:
        return None
    frames: list[IssuingFrame] = [
        {"filename": f.file, "name": f.function, "line": f.line} for f in reversed(status.stack)
    ]
    record = origin_of(frames, "0")
    line = next((f for f in reversed(status.stack) if is_learners(f.file)), None)
    stage, name = record["stage"], record["call"] or call
    op = {DDPStage.GRADIENTS: "all_reduce", DDPStage.NONE: name}.get(stage, "broadcast")
    return Collective(
        needed.group,
        0,
        op,
        (),
        (),
        False,
        stage=stage,
        call="" if stage else name,
        origin=line,
        frames=tuple(Spot(*frame) for frame in record["frames"]),
    )


def _bare_wait(pid: int, main: Sequence[SeenFrame], asleep: bool) -> str | None:
    """Recognise `work.wait()`, which has no frame of its own, by the learner's line or the C++ frames below it."""
    if not main or not is_learners(main[0].spot.file):
        return None
    call, sure = calls.waits_for_torch(main[0]), True
    if call is None and asleep:
        call, sure = calls.may_wait_for_torch(main[0]), False
    if call is None:
        return None
    if not sure:
        with contextlib.suppress(pyspy.UnreadableError):
            frames = _main(pyspy.threads_of(pid, native=True), pid)
            sure = any("c10d::" in frame.spot.function for frame in frames)
    return getattr(call.func, "attr", None) if sure else None


def _is_over(main: Sequence[SeenFrame]) -> bool:
    """Check for a main thread past the script: it runs no Python, or waits for other threads to end."""
    return not main or (
        main[-1].spot.function == "_shutdown" and calls.path_of(main[-1]).endswith("threading.py")
    )


def _carried(pid: int, connections: Mapping[int, sockets.Connection] | None) -> tuple[int, int, bool]:
    """Count the bytes a process's connections have carried and have in flight, without those to itself."""
    if connections is None or not sockets.same_network(pid):
        return 0, 0, False
    try:
        mine = [connections[number] for number in sockets.sockets_of(pid) if number in connections]
    except OSError:
        return 0, 0, False
    own = {each.mine for each in mine}
    others = [each for each in mine if each.theirs not in own]
    return sum(e.moved for e in others), sum(e.in_flight for e in others), True


def _others(threads: Iterable[SeenThread], pid: int) -> list[tuple[str, str]]:
    """List the learner's other threads that could still act, with what each sleeps in."""
    found = []
    for thread in threads:
        if thread.number == pid or not thread.frames or _SERVANTS.search(thread.name):
            continue
        files = [calls.path_of(frame) for frame in thread.frames]
        if not any(map(is_learners, files)) and (
            any(f.endswith(_IDLE) for f in files) or not _is_of_torch(files)
        ):
            continue
        if waiting_in(_stack(thread.frames), None) is not None:
            kind = "communication"
        else:
            channel = processes.wait_channel(pid, thread.number)
            pause = calls.pause_of(thread.frames, channel)
            of_lock = files[0].endswith(LOCKS) or (pause is not None and pause[1] is PauseKind.LOCK)
            kind = "lock" if of_lock else "other"
        found.append((thread.name or "a thread", kind))
    return found


def _is_of_torch(files: Iterable[str]) -> bool:
    return any("/torch/distributed/" in file and "/elastic/" not in file for file in files)


def _digest(main: Sequence[SeenFrame]) -> str:
    """Compute a digest of the innermost frames up to the learner's first; it changes with their lines and variables."""
    end = next((n for n, frame in enumerate(main, 1) if is_learners(frame.spot.file)), len(main))
    content = [(frame.spot, sorted(frame.values.items())) for frame in main[max(end - 1, 0) : end]]
    if not any(values for _, values in content):
        return ""  # a module's variables are not shown
    return hashlib.sha256(repr(content).encode()).hexdigest()[:16]


def _doubts(main: Sequence[SeenFrame]) -> tuple[str, ...]:
    """Doubt a wait that a timeout in the learner's files may end soon, if it is short or of unknown length."""
    if any(is_learners(frame.spot.file) and calls.sets_a_timeout(frame) for frame in main):
        return ("a timeout that the script sets may end the wait",)
    return ()
