"""A rank's second thread: it answers the kernel while the main thread computes, or is blocked in a collective.

The wait inside gloo releases the GIL, so this thread can say where the main thread is and free it. It runs no code of
the learner. When the kernel's end of the wire closes, it ends the process.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import queue
import signal
import sys
import threading
import time
from dataclasses import asdict
from typing import Any

from course_lib.ranks.cell import current_stack
from course_lib.ranks.protocol import BlockingChannel, Message
from course_lib.ranks.waits import ends_by_itself, waiting_in

#: Asks the C level for the Python stack, also of a thread that never gives up the GIL.
STACK_SIGNAL = (
    getattr(signal, "SIGRTMIN", signal.SIGUSR2) + 5 if hasattr(signal, "SIGRTMIN") else signal.SIGUSR2
)

#: What Linux tells of this process's threads.
TASKS = "/proc/self/task"


def answer_kernel(
    channel: BlockingChannel, jobs: queue.SimpleQueue[Message | None], main_thread: int, store_port: int
) -> None:
    """Read messages until the kernel is gone: jobs go to the main thread, questions are answered here."""
    dismissed = False
    while True:
        message = channel.receive()
        if message is None and dismissed:
            return  # the main thread is closing the learner's files
        if message is None:
            leave(0)
        elif message.kind in ("look", "free"):
            try:
                reply = answer(message, main_thread, store_port)
            except Exception:
                # The learner's code may have replaced anything; a question without an answer is a silent rank.
                continue
            try:
                channel.send(reply)
            except OSError:
                leave(0)
        elif message.kind == "stop":
            dismissed = True
            jobs.put(None)
            # A main thread that does not come back (an endless loop) must not keep the process.
            threading.Thread(target=_leave_soon, daemon=True).start()
        else:
            jobs.put(message)


def answer(question: Message, main_thread: int, store_port: int) -> Message:
    """What to say to a `look` (where the main thread is) or a `free` (wake it from its collective)."""
    if question.kind == "look":
        detail = bool(question.data.get("detail"))
        brief = bool(question.data.get("brief"))
        return Message("seen", {"id": question.data["id"], **look(main_thread, detail, brief)})
    from course_lib.ranks import group

    count = group.free_blocked(None if question.data.get("store") else store_port)
    return Message("freed", {"id": question.data["id"], "connections": count})


def _leave_soon() -> None:
    time.sleep(1.0)
    leave(0)


def leave(code: int) -> None:
    """End the process at once, skipping every destructor: gloo's may abort or hang."""
    with contextlib.suppress(BaseException):
        os.write(2, b"")
    os._exit(code)


def look(main_thread: int, detail: bool = False, brief: bool = False) -> dict[str, Any]:
    """Where the main thread is, what this rank has used of its core, and which collectives it has issued.

    With `detail` also which line and stage of DDP issued them, and the rank's `facts`. A `brief` look leaves the
    collectives out: reading the flight recorder takes tens of milliseconds, which a rank that trains needs itself.
    """
    from course_lib.ranks import facts, flight, group

    stack = current_stack(main_thread)
    seen: dict[str, Any] = {
        "stack": [asdict(frame) for frame in stack],
        "waiting_in": waiting_in(stack, main_thread),
        # All threads but this one: gloo's own thread moves the data of a collective that is under way.
        "cpu_seconds": time.process_time() - time.thread_time(),
        "asleep": is_asleep(os.getpid()) and not workers_awake(),
        "ends_by_itself": False,
        "other_threads": _other_threads(main_thread),
        "sequence": {},
        "members": {},
        "records": [],
        "brief": brief,
    }
    with contextlib.suppress(Exception):
        seen["sequence"] = group.sequence_numbers()
        seen["members"] = group.group_members()
        if not brief:
            seen["records"] = flight.recorded_collectives(group.RENDEZVOUS.since_ns, stacks=detail)
        under_way = {record["group"] for record in seen["records"] if not record["done"]}
        if seen["waiting_in"] is not None:
            seen["ends_by_itself"] = ends_by_itself(main_thread, group.groups_named(under_way))
    if detail:
        with contextlib.suppress(Exception):
            seen["facts"] = facts.facts_of(main_thread)
    return seen


def is_asleep(thread: int, tasks: str = TASKS) -> bool:
    """True when this thread (by its native id) waits; False when it runs, or would if a core were to spare for it."""
    return _state(thread, tasks) in ("S", None)


def _state(thread: int, tasks: str) -> str | None:
    """The kernel's letter for what a thread does (proc(5)), or None where that cannot be told."""
    try:
        with open(f"{tasks}/{thread}/stat", encoding="utf-8", errors="replace") as stat:
            return stat.read().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return None


def workers_awake(tasks: str = TASKS) -> bool:
    """True when a thread of torch's that carries out what was issued runs, or would if a core were to spare for it.

    A worker of gloo's that gets no core has used nothing since the last look, and is about to end a collective. The
    threads of gloo's connections are no sign of anything: they wake a hundred times a second.
    """
    with contextlib.suppress(OSError):
        return any(
            _is_worker(one, tasks) and _state(int(one), tasks) in ("R", "D") for one in os.listdir(tasks)
        )
    return False


def _is_worker(thread: str, tasks: str) -> bool:
    """True for those that torch names `pt_...`: gloo's workers, the threads of autograd."""
    try:
        with open(f"{tasks}/{thread}/comm", encoding="utf-8", errors="replace") as name:
            return name.read().startswith("pt_")
    except OSError:
        return False


def _other_threads(main_thread: int) -> int:
    """Threads of the learner's that could still do something; those that wait in an idle pool cannot."""
    named = {thread.ident: thread for thread in threading.enumerate()}
    count = 0
    for ident, frame in sys._current_frames().items():
        thread = named.get(ident)
        idle = frame.f_code.co_name == "_worker" and frame.f_code.co_filename.endswith("futures/thread.py")
        if ident not in (main_thread, threading.get_ident()) and not idle and not _is_ours(thread):
            count += 1
    return count


def _is_ours(thread: threading.Thread | None) -> bool:
    """True for threads that never issue a collective: the course's, tqdm's monitor, those of queues and loaders."""
    if thread is None:
        return False
    if type(thread).__name__ == "TMonitor" or thread.name.startswith(("course-", "QueueFeederThread")):
        return True
    return "pin_memory" in thread.name


def stack_on_signal(fd: int) -> None:
    """Let `STACK_SIGNAL` write the main thread's Python stack to `fd`, whatever the thread is doing."""
    faulthandler.register(STACK_SIGNAL, file=fd, all_threads=False, chain=False)
    # A crash in C++ (gloo aborts a rank that receives what it does not expect) says there where it happened.
    faulthandler.enable(file=fd, all_threads=True)
