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
import threading
import time
from dataclasses import asdict
from typing import Any

from course_lib.ranks.cell import Frame, current_stack, is_learners
from course_lib.ranks.protocol import BlockingChannel, Message

#: Asks the C level for the Python stack, also of a thread that never gives up the GIL.
STACK_SIGNAL = (
    getattr(signal, "SIGRTMIN", signal.SIGUSR2) + 5 if hasattr(signal, "SIGRTMIN") else signal.SIGUSR2
)

#: Calls without a Python frame of their own, by the name in the learner's line: methods of Work, Future and Store.
_WAITING_CALLS = frozenset({"wait", "synchronize", "value", "get", "result"})


def answer_kernel(
    channel: BlockingChannel, jobs: queue.SimpleQueue[Message | None], main_thread: int, store_port: int
) -> None:
    """Read messages until the kernel is gone: jobs go to the main thread, questions are answered here."""
    while True:
        message = channel.receive()
        if message is None:
            leave(0)
        elif message.kind == "look":
            channel.send(Message("seen", {"id": message.data["id"], **look(main_thread)}))
        elif message.kind == "free":
            from course_lib.ranks import group

            count = group.free_blocked(store_port)
            channel.send(Message("freed", {"id": message.data["id"], "connections": count}))
        elif message.kind == "stop":
            jobs.put(None)
            # A main thread that does not come back (an endless loop) must not keep the process.
            threading.Thread(target=_leave_soon, daemon=True).start()
        else:
            jobs.put(message)


def _leave_soon() -> None:
    time.sleep(1.0)
    leave(0)


def leave(code: int) -> None:
    """End the process at once, skipping every destructor: gloo's may abort or hang."""
    with contextlib.suppress(BaseException):
        os.write(2, b"")
    os._exit(code)


def look(main_thread: int) -> dict[str, Any]:
    """Where the main thread is, what it has used of its core, and which collectives this rank has issued."""
    from course_lib.ranks import group

    stack = current_stack(main_thread)
    seen: dict[str, Any] = {
        "stack": [asdict(frame) for frame in stack],
        "waiting_in": waiting_in(stack, main_thread),
        "cpu_seconds": _cpu_seconds(main_thread),
        "other_threads": sum(
            1 for thread in threading.enumerate() if thread.ident != main_thread and not _is_ours(thread)
        ),
        "sequence": {},
        "members": {},
        "records": [],
    }
    with contextlib.suppress(Exception):
        seen["sequence"] = group.sequence_numbers()
        seen["members"] = group.group_members()
        seen["records"] = group.recorded_collectives()[-200:]
    return seen


def _is_ours(thread: threading.Thread) -> bool:
    """True for threads that never issue a collective: the course's, tqdm's monitor, those of queues and loaders."""
    if thread is threading.current_thread() or type(thread).__name__ == "TMonitor":
        return True
    return thread.name.startswith(("course-", "QueueFeederThread")) or "pin_memory" in thread.name


def _cpu_seconds(thread_id: int) -> float:
    try:
        return time.clock_gettime(time.pthread_getcpuclockid(thread_id))
    except (AttributeError, OSError):
        return time.process_time()


def waiting_in(stack: list[Frame], thread_id: int) -> str | None:
    """The name of the communication call the innermost frames are in, or None when they are in none.

    Only tells that the call is on the stack; whether it makes progress is told by comparing two looks.
    """
    if not stack:
        return None
    leaf = stack[-1]
    if is_learners(leaf.file):
        return _bare_wait(thread_id)
    path = leaf.file.replace(os.sep, "/")
    if path.endswith("torch/autograd/graph.py") and leaf.function == "_engine_run_backward":
        return "backward"
    if "/torch/nn/parallel/distributed.py" in path:
        return _ddp_stage(leaf.function)
    if path.endswith("torch/distributed/utils.py") and leaf.function in (
        "_sync_module_states",
        "_sync_params_and_buffers",
        "_verify_param_shape_across_processes",
    ):
        return "DistributedDataParallel()" if leaf.function.startswith("_verify") else _sync_stage(stack)
    if "/torch/distributed/" in path:
        for frame in stack:
            name = frame.file.replace(os.sep, "/")
            if name.endswith(("distributed/distributed_c10d.py", "distributed/rendezvous.py")):
                return None if frame.function.startswith(("get_", "is_", "_get", "_rank")) else frame.function
        # `wrapper` is torch's own decorator around every collective: the call is just beginning or ending.
        return None if leaf.function == "wrapper" else leaf.function
    return None


def _ddp_stage(function: str) -> str:
    if function in ("__init__", "_ddp_init_helper"):
        return "DistributedDataParallel()"
    if "buffer" in function or function in ("_pre_forward", "forward", "_run_ddp_forward", "_post_forward"):
        return "forward"
    return function


def _sync_stage(stack: list[Frame]) -> str:
    for frame in reversed(stack):
        if frame.file.replace(os.sep, "/").endswith("torch/nn/parallel/distributed.py"):
            return _ddp_stage(frame.function)
    return "broadcast"


def _bare_wait(thread_id: int) -> str | None:
    """`work.wait()` has no Python frame: read the call from the learner's line itself."""
    import linecache
    import sys

    frame = sys._current_frames().get(thread_id)
    if frame is None or frame.f_lasti < 0:
        return None
    positions = list(frame.f_code.co_positions())
    first, last, start, end = positions[min(frame.f_lasti // 2, len(positions) - 1)]
    if first is None or first != last or start is None or end is None:
        return None
    line = linecache.getline(frame.f_code.co_filename, first).encode()
    expression = line[start:end].decode(errors="replace")
    name = expression.partition("(")[0].rpartition(".")[2].strip() if "(" in expression else ""
    return f"{name}" if name in _WAITING_CALLS else None


def stack_on_signal(fd: int) -> None:
    """Let `STACK_SIGNAL` write the main thread's Python stack to `fd`, whatever the thread is doing."""
    faulthandler.register(STACK_SIGNAL, file=fd, all_threads=False, chain=False)
