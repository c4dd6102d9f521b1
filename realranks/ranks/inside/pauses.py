"""Sleep of the main thread that waits for no other rank: a lock, a child process, `time.sleep`.

Read from the frames of the sleeping thread; used inside a rank.
"""

from __future__ import annotations

import ast
import linecache
import os
from dataclasses import dataclass
from types import BuiltinFunctionType, FrameType

from realranks.outcome.outcome import PauseKind
from realranks.outcome.places import is_learners
from realranks.outcome.syntax import parsed
from realranks.own_code import is_ours
from realranks.ranks.inside.calls import call_under_way, innermost, object_of


@dataclass(frozen=True)
class Pause:
    """A main thread's sleep that waits for no other rank.

    Attributes:
        call: as the learner wrote it: `time.sleep()`, `with lock`.
    """

    call: str
    kind: PauseKind


#: Files of Python's own whose innermost frame waits for a lock, and for a process.
LOCKS = ("threading.py", "queue.py", "multiprocessing/synchronize.py", "multiprocessing/queues.py")
_LOCK_MODULES = ("_thread", "threading", "multiprocessing.synchronize", "_multiprocessing")
CHILDREN = (
    "subprocess.py",
    "multiprocessing/popen_fork.py",
    "multiprocessing/process.py",
    "multiprocessing/pool.py",
)


#: A wait that gives up sooner than this, in seconds, is left to do so.
_SOON = 60.0


def pause(thread_id: int) -> Pause | None:
    """Return what this sleeping thread sleeps in; None if the learner's line does not show it."""
    leaf = innermost(thread_id)
    frame = leaf
    while frame is not None and not is_learners(frame.f_code.co_filename):
        frame = frame.f_back
    if frame is None or leaf is None:
        return None
    call = call_under_way(frame)
    if call is None:
        return _held_by_with(frame) if frame is leaf else None
    name = ast.unparse(call.func)
    path = leaf.f_code.co_filename.replace(os.sep, "/")
    thing = object_of(call.func, frame)
    if isinstance(thing, BuiltinFunctionType) and thing.__name__ == "sleep" and frame is leaf:
        kind = PauseKind.SLEEP
    elif path.endswith(CHILDREN) or name in ("os.system", "os.wait", "os.waitpid"):
        kind = PauseKind.CHILD
    elif path.endswith(LOCKS) and not _has_a_timeout(leaf):
        kind = PauseKind.LOCK
    elif frame is leaf and isinstance(call.func, ast.Attribute) and not call.args and not call.keywords:
        held = object_of(call.func.value, frame)
        kind = (
            PauseKind.LOCK
            if call.func.attr == "acquire" and type(held).__module__ == "_thread"
            else PauseKind.OTHER
        )
    elif name.endswith(("flock", "lockf")):
        kind = PauseKind.LOCK
    else:
        kind = PauseKind.OTHER
    return Pause(f"{name}()", kind)


def sleeps_unseen(thread_id: int) -> Pause | None:
    """Recognise `time.sleep` in the course's own code, which no stack shows: a lesson's backward hook, say."""
    leaf = innermost(thread_id)
    if leaf is None or not is_ours(leaf.f_code.co_filename):
        return None
    call = call_under_way(leaf)
    thing = object_of(call.func, leaf) if call is not None else None
    is_sleep = isinstance(thing, BuiltinFunctionType) and thing.__name__ == "sleep"
    return Pause("time.sleep()", PauseKind.SLEEP) if is_sleep else None


def _held_by_with(frame: FrameType) -> Pause | None:
    """Recognise `with lock:` at the frame's line, for a lock whose waiting has no frame of its own."""
    line = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
    if not line.startswith("with "):
        return None
    try:
        statement = parsed(f"{line.partition('#')[0].strip().rstrip(':')}: pass").body[0]
    except SyntaxError:
        return None
    for item in statement.items if isinstance(statement, ast.With) else ():
        if type(object_of(item.context_expr, frame)).__module__ in _LOCK_MODULES:
            return Pause(f"with {ast.unparse(item.context_expr)}", PauseKind.LOCK)
    return None


def sleeps_in(thread_id: int) -> PauseKind:
    """Classify what another thread of this process sleeps in: `lock`, `sleep` (which ends by itself) or `other`."""
    leaf = innermost(thread_id)
    if leaf is None:
        return PauseKind.OTHER
    if leaf.f_code.co_filename.replace(os.sep, "/").endswith(LOCKS):
        return PauseKind.SLEEP if _has_a_timeout(leaf) else PauseKind.LOCK
    found = pause(thread_id)
    return found.kind if found is not None else PauseKind.OTHER


def _has_a_timeout(leaf: FrameType) -> bool:
    """Check whether this wait for a lock, or the one around it, times out within a minute."""
    frame: FrameType | None = leaf
    while frame is not None and frame.f_code.co_filename.replace(os.sep, "/").endswith(LOCKS):
        timeout = frame.f_locals.get("timeout", frame.f_locals.get("interval"))
        if isinstance(timeout, int | float) and 0 <= timeout <= _SOON:
            return True
        frame = frame.f_back
    return False
