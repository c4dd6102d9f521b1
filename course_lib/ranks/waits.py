"""Which communication call a stack stands in, and whether that wait ends by itself.

Used inside a rank, by the thread that answers the kernel. A wait with a short timeout of its own is no deadlock:
torch's own error is about to come, and it may be what the learner wants to see.
"""

from __future__ import annotations

import ast
import linecache
import os
import sys
from collections import deque
from datetime import timedelta
from types import FrameType, ModuleType
from typing import Any

from course_lib.ranks import tracing
from course_lib.ranks.cell import Frame, is_learners

#: Calls without a Python frame of their own, by the name in the learner's line: methods of Work, Future and Store.
_WAITING_CALLS = frozenset({"wait", "synchronize", "value", "get", "result"})
#: A wait that gives up sooner than this is left to do so.
_SOON = timedelta(seconds=60)


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
        # Checkpoints are written to disks, which do not need another rank. An elastic agent sleeps and looks after
        # its workers: what it waits for is no rank of ours.
        alone = "/distributed/checkpoint/" in path or "/distributed/elastic/" in path
        return None if leaf.function == "wrapper" or alone else leaf.function
    return None


def _ddp_stage(function: str) -> str:
    if function in ("__init__", "_ddp_init_helper"):
        return "DistributedDataParallel()"
    if (
        "buffer" in function
        or "broadcast_coalesced" in function
        or function in ("_pre_forward", "forward", "_run_ddp_forward", "_post_forward")
    ):
        return "forward"
    return function


def _sync_stage(stack: list[Frame]) -> str:
    for frame in reversed(stack):
        if frame.file.replace(os.sep, "/").endswith("torch/nn/parallel/distributed.py"):
            return _ddp_stage(frame.function)
    return "broadcast"


def _bare_wait(thread_id: int) -> str | None:
    """`work.wait()` has no Python frame: read the call from the learner's line itself."""
    frame = _innermost(thread_id)
    call = _call_under_way(frame) if frame is not None else None
    return call.func.attr if call is not None and isinstance(call.func, ast.Attribute) else None


def _innermost(thread_id: int) -> FrameType | None:
    """The innermost frame of a thread, without those that a trace puts around the calls that wait."""
    frame = sys._current_frames().get(thread_id)
    while frame is not None and frame.f_code.co_filename == tracing.__file__:
        frame = frame.f_back
    return frame


def _call_under_way(frame: FrameType) -> ast.Call | None:
    """The call of a waiting method that the frame's current instruction makes, as its source has it."""
    if frame.f_lasti < 0:
        return None
    positions = list(frame.f_code.co_positions())
    first, last, start, end = positions[min(frame.f_lasti // 2, len(positions) - 1)]
    if first is None or first != last or start is None or end is None:
        return None
    line = linecache.getline(frame.f_code.co_filename, first).encode()
    try:
        call = ast.parse(line[start:end].decode(errors="replace").strip(), mode="eval").body
    except SyntaxError:
        return None
    if (
        isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr in _WAITING_CALLS
    ):
        return call if _is_torchs(call.func.value, frame) else None
    return None


def _is_torchs(receiver: ast.expr, frame: FrameType) -> bool:
    """True when the object whose method is called comes from torch: `os.wait()` waits for no rank."""
    thing = _object(receiver, frame)
    if thing is None:
        # `dist.batch_isend_irecv(...)[0]`, `works.pop()`: go by what stands at the beginning.
        thing = _object(_beginning(receiver), frame)
        if isinstance(thing, list | tuple | dict | deque):
            return True
    home = thing.__name__ if isinstance(thing, ModuleType) else type(thing).__module__
    return home.split(".")[0] == "torch"


def _beginning(node: ast.expr) -> ast.expr:
    while True:
        match node:
            case ast.Attribute(value=inner) | ast.Subscript(value=inner) | ast.Call(func=inner):
                node = inner
            case _:
                return node


def _object(node: ast.expr, frame: FrameType) -> Any:
    """The object a simple expression stands for, found without running any code of the learner's; else None."""
    match node:
        case ast.Name(id=name):
            return frame.f_locals.get(name, frame.f_globals.get(name))
        case ast.Constant(value=value):
            return value
        case ast.Attribute(value=base, attr=name):
            return getattr(_object(base, frame), "__dict__", {}).get(name)
        case ast.Subscript(value=base, slice=index):
            container, key = _object(base, frame), _object(index, frame)
            if type(container) in (list, tuple, dict) and type(key) in (int, str):
                try:
                    return container[key]
                except LookupError:
                    return None
    return None


def ends_by_itself(thread_id: int, groups: Any) -> bool:
    """True when the wait of this thread has a timeout of at most a minute.

    Args:
        groups: the process groups of this rank that have a collective under way.
    """
    frame = _innermost(thread_id)
    if frame is None:
        return False
    call = _call_under_way(frame) if is_learners(frame.f_code.co_filename) else None
    if call is not None:
        given = [*call.args, *(keyword.value for keyword in call.keywords)]
        return any(_is_soon(argument, frame) for argument in given) or _any_soon(groups)
    asked = list(groups)
    while frame is not None:
        path = frame.f_code.co_filename.replace(os.sep, "/")
        if path.endswith(("distributed/distributed_c10d.py", "distributed/rendezvous.py")):
            timeout = frame.f_locals.get("timeout")
            if isinstance(timeout, timedelta) and timeout <= _SOON:
                return True
            if "group" in frame.f_locals:
                asked.append(frame.f_locals["group"])
        frame = frame.f_back
    return _any_soon(asked)


def _is_soon(argument: ast.expr, frame: FrameType) -> bool:
    if isinstance(argument, ast.Name):
        value = frame.f_locals.get(argument.id, frame.f_globals.get(argument.id))
        return isinstance(value, timedelta) and value <= _SOON
    return "timedelta" in ast.unparse(argument)


def _any_soon(groups: Any) -> bool:
    import torch
    import torch.distributed as dist

    for group in groups:
        asked: Any = group if group is not None else dist.group.WORLD
        try:
            if asked._get_backend(torch.device("cpu")).options._timeout <= _SOON:
                return True
        except (AttributeError, RuntimeError, TypeError):
            continue
    return False
