"""The communication call a stack is in, and whether that wait ends by itself.

Used inside a rank, by the thread that answers the kernel. A wait with a short timeout of its own is no deadlock:
torch's own error is about to come, and it may be what the learner wants to see.
"""

from __future__ import annotations

import ast
import os
import sys
from collections import deque
from collections.abc import Sequence
from datetime import timedelta
from types import BuiltinMethodType, FrameType, MethodType, ModuleType
from typing import Any

from realranks.outcome.places import Frame, is_learners
from realranks.ranks.inside.calls import call_under_way, innermost, named, number_of, object_of

#: Calls without a Python frame of their own, by the name in the learner's line: methods of Work, Future and Store.
WAITING_CALLS = frozenset({"wait", "synchronize", "value", "get", "result"})
#: Methods of a CUDA tensor that wait until its GPU has computed it, and with that for the collectives before.
_GPU_CALLS = frozenset({"item", "cpu", "tolist", "nonzero"})
#: A wait that gives up sooner than this is left to do so.
_SOON = timedelta(seconds=60)


def waiting_in(stack: Sequence[Frame], thread_id: int | None) -> str | None:
    """Name the communication call that the innermost frames are in, or return None.

    The call is on the stack; only a comparison of two looks shows whether it makes progress.

    Args:
        thread_id: whose stack it is; None for a thread of another process, of which no objects can be looked at.
    """
    if not stack:
        return None
    leaf = stack[-1]
    if is_learners(leaf.file):
        return _bare_wait(thread_id) if thread_id is not None else None
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
    if path.endswith("torch/_ops.py"):
        functional = (
            _is_in_wait_tensor(stack) if thread_id is None else _waits_for_a_functional_collective(thread_id)
        )
        return "wait_tensor" if functional else None
    if "/torch/distributed/" in path:
        for frame in stack:
            name = frame.file.replace(os.sep, "/")
            if frame.function == "init_rpc" and name.endswith("distributed/rpc/__init__.py"):
                return frame.function
            if name.endswith(("distributed/distributed_c10d.py", "distributed/rendezvous.py")):
                return None if frame.function.startswith(("get_", "is_", "_get", "_rank")) else frame.function
        # `wrapper` is torch's own decorator around every collective: the call is just beginning or ending.
        # Checkpoints are written to disks, which do not need another rank. An elastic agent sleeps and looks after
        # its workers: what it waits for is not a rank of ours.
        alone = "/distributed/checkpoint/" in path or "/distributed/elastic/" in path
        # A comprehension, as `[handle.wait() for handle in handles]`, is of the function around it.
        named = next((frame.function for frame in reversed(stack) if not frame.function.startswith("<")), "")
        return None if leaf.function == "wrapper" or alone else named
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


def _sync_stage(stack: Sequence[Frame]) -> str:
    for frame in reversed(stack):
        if frame.file.replace(os.sep, "/").endswith("torch/nn/parallel/distributed.py"):
            return _ddp_stage(frame.function)
    return "broadcast"


def _is_in_wait_tensor(stack: Sequence[Frame]) -> bool:
    """Recognise the wait for a functional collective by the function that calls the operator."""
    below = ("torch/_ops.py", "torch/_library/autograd.py")
    caller = next((f for f in reversed(stack) if not f.file.replace(os.sep, "/").endswith(below)), stack[0])
    return caller.function == "wait_tensor" and caller.file.endswith("_functional_collectives.py")


def _waits_for_a_functional_collective(thread_id: int) -> bool:
    """Recognise the wait for a functional collective (DTensor, tensor parallel): a torch operator like any other."""
    frame = innermost(thread_id)
    while frame is not None and frame.f_code.co_filename.replace(os.sep, "/").endswith("torch/_ops.py"):
        operator = frame.f_locals.get("self")
        name = getattr(operator, "_name", None) or getattr(operator, "_qualified_op_name", None)
        if name == "_c10d_functional::wait_tensor":
            return True
        frame = frame.f_back
    return False


def waits_for_gpu(stack: list[Frame], thread_id: int) -> str | None:
    """Return the call in which a thread may be waiting for its GPU; None if there is none, or CUDA is not used.

    A collective on CUDA tensors returns as soon as it is on the GPU's stream. A rank that waits for another one then
    waits here, far from the collective, and so does one that only waits for its own GPU's work: they look alike.
    """
    torch = sys.modules.get("torch")
    if not stack or torch is None or not torch.cuda.is_initialized():
        return None
    path, function = stack[-1].file.replace(os.sep, "/"), stack[-1].function
    if path.endswith(("torch/cuda/__init__.py", "torch/cuda/streams.py")):
        return "synchronize()" if function == "synchronize" else None
    if path.endswith("torch/_tensor_str.py"):
        return "print()"
    frame = innermost(thread_id)
    call = call_under_way(frame) if frame is not None else None
    if frame is None or call is None or not isinstance(call.func, ast.Attribute):
        return None
    if call.func.attr not in _GPU_CALLS or not (is_learners(stack[-1].file) or "/torch/" in path):
        return None
    thing = object_of(call.func.value, frame)
    # Of torch's own types only: a property of the learner's would be the learner's code.
    on_cpu = type(thing) in (torch.Tensor, torch.nn.Parameter) and not getattr(thing, "is_cuda", False)
    return None if on_cpu or not _is_torchs(call.func.value, frame) else f"{call.func.attr}()"


def _bare_wait(thread_id: int) -> str | None:
    """Read `work.wait()`, which has no Python frame, from the learner's line itself."""
    frame = innermost(thread_id)
    call = waiting_call(frame) if frame is not None else None
    if call is None:
        return None
    return call.func.attr if isinstance(call.func, ast.Attribute) else "wait"


def waiting_call(frame: FrameType) -> ast.Call | None:
    """Return the call of torch's waiting method that the frame is in: `work.wait()`, or `finish()` if it was stored."""
    call = call_under_way(frame)
    if call is None:
        return None
    if isinstance(call.func, ast.Attribute):
        return call if call.func.attr in WAITING_CALLS and _is_torchs(call.func.value, frame) else None
    method = object_of(call.func, frame)
    if not isinstance(method, BuiltinMethodType | MethodType) or method.__name__ not in WAITING_CALLS:
        return None
    return call if _comes_from_torch(method.__self__) else None


def _is_torchs(receiver: ast.expr, frame: FrameType) -> bool:
    """Check that the receiver of the method comes from torch: `os.wait()` waits for no rank."""
    thing = object_of(receiver, frame)
    if thing is None:
        # `dist.batch_isend_irecv(...)[0]`, `works.pop()`: go by what is at the beginning.
        thing = object_of(_beginning(receiver), frame)
        if isinstance(thing, list | tuple | dict | deque):
            return True
    return _comes_from_torch(thing)


def _comes_from_torch(thing: Any) -> bool:
    home = thing.__name__ if isinstance(thing, ModuleType) else type(thing).__module__
    return str(home).split(".")[0] == "torch"


def _beginning(node: ast.expr) -> ast.expr:
    while True:
        match node:
            case ast.Attribute(value=inner) | ast.Subscript(value=inner) | ast.Call(func=inner):
                node = inner
            case _:
                return node


def ends_by_itself(thread_id: int, groups: Any) -> bool:
    """Check whether this thread's wait has a timeout of at most a minute.

    Args:
        groups: the process groups of this rank that have a collective under way.
    """
    frame = innermost(thread_id)
    if frame is None:
        return False
    call = waiting_call(frame) if is_learners(frame.f_code.co_filename) else None
    if call is not None:
        given = [*call.args, *(keyword.value for keyword in call.keywords)]
        if any(is_soon(argument, frame) for argument in given) or _any_soon(groups):
            return True
        # A store has a timeout of its own, for waits that are given none.
        store = object_of(call.func.value, frame) if isinstance(call.func, ast.Attribute) else None
        own = getattr(store, "timeout", None) if store is not None and _comes_from_torch(store) else None
        return not any(map(_is_a_timeout, given)) and isinstance(own, timedelta) and own <= _SOON
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


def is_soon(argument: ast.expr, frame: FrameType) -> bool:
    """Check for a timeout of at most a minute, or one whose length cannot be known without running code."""
    value = object_of(argument, frame)
    if isinstance(value, timedelta):
        return value <= _SOON
    if isinstance(argument, ast.Call) and named(argument.func) == "timedelta":
        try:
            given = {str(k.arg): number_of(k.value, frame) for k in argument.keywords}
            return timedelta(*(number_of(a, frame) for a in argument.args), **given) <= _SOON
        except (TypeError, ValueError, OverflowError):
            return True
    return _is_a_timeout(argument)


def _is_a_timeout(argument: ast.expr) -> bool:
    """Check for what reads like a timeout: `timedelta(...)`, `cfg.timeout`."""
    text = ast.unparse(argument).lower()
    return "timedelta" in text or "timeout" in text


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
