"""What a rank can say of itself beyond where it is: its DDP models, how it asked for its process group, its memory.

Gathered inside a rank, and only when something has gone wrong; the main thread may be blocked meanwhile. Nothing of
the learner's is called: only attributes are read.
"""

from __future__ import annotations

import contextlib
import gc
import os
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from types import FrameType, TracebackType
from typing import Any

from course_lib.outcome.places import Frame, is_learners
from course_lib.ranks.inside.idle import idles

_MOST_MODELS, _MOST_PARAMETERS = 16, 400
#: What other rooms add to a rank's facts: a name, and a function that gives JSON-able data (see `watch.probe`).
EXTRAS: dict[str, Callable[[], Any]] = {}
#: What other rooms count that goes up while a script gets on: steps of optimizers, batches.
PROGRESS: list[Callable[[], int]] = []
_INIT_NAMES = ("rank", "world_size", "backend", "init_method", "timeout")


def facts_of(main_thread: int) -> dict[str, Any]:
    """All that can be said while the main thread is wherever it is."""
    frame = sys._current_frames().get(main_thread)
    frames = []
    while frame is not None:
        frames.append(frame)
        frame = frame.f_back
    return {**_common(), "init": _init_arguments(frames)}


def facts_at(traceback: TracebackType | None) -> dict[str, Any]:
    """The same for a rank on which an exception was raised, told before its frames are given up."""
    frames = []
    while traceback is not None:
        frames.append(traceback.tb_frame)
        traceback = traceback.tb_next
    return {**_common(), "init": _init_arguments(frames)}


def _common() -> dict[str, Any]:
    found: dict[str, Any] = {"models": [], "groups": {}, "memory_bytes": _resident_bytes(), "extras": {}}
    with contextlib.suppress(Exception):
        found["models"] = [_model(wrapper) for wrapper in ddp_wrappers()[:_MOST_MODELS]]
    with contextlib.suppress(Exception):
        from course_lib.ranks.inside.process_group import group_members, sequence_numbers

        found["groups"] = group_members()
        found["issued"] = sequence_numbers()
        found["groups_made"] = sys.modules["torch.distributed.distributed_c10d"]._world.group_count
    for name, tell in EXTRAS.items():
        with contextlib.suppress(Exception):
            found["extras"][name] = tell()
    with contextlib.suppress(Exception):
        found["threads"] = _threads_that_keep_it()
    found["agent_store"] = os.environ.get("TORCHELASTIC_USE_AGENT_STORE", "") == str(True)
    found["master"] = [os.environ.get("MASTER_ADDR", ""), os.environ.get("MASTER_PORT", "")]
    return found


def _threads_that_keep_it() -> list[list[str]]:
    """The learner's threads without which this process could end: name, and the line at which each is now."""
    frames = sys._current_frames()
    found = []
    for thread in threading.enumerate():
        if thread.daemon or thread is threading.main_thread() or thread.name.startswith("course-"):
            continue
        frame = frames.get(thread.ident or 0)
        if frame is None or idles(frame):
            continue
        while frame is not None and not is_learners(frame.f_code.co_filename):
            frame = frame.f_back
        place = ""
        if frame is not None:
            place = Frame(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name, "").where()
        found.append([thread.name, place])
    return found


def groups_told(facts: Mapping[str, Any]) -> dict[str, list[int]]:
    """The members of each group that a rank has told of in its facts, also of groups that are gone."""
    return {**facts.get("extras", {}).get("probe", {}).get("groups", {}), **facts.get("groups", {})}


def _resident_bytes() -> int:
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024


def ddp_wrappers() -> list[Any]:
    """The DDP wrappers alive on this rank, of subclasses too, oldest first."""
    module = sys.modules.get("torch.nn.parallel.distributed")
    if module is None:
        return []
    kinds = {module.DistributedDataParallel}
    new = list(kinds)
    while new:
        new = [kind for parent in new for kind in parent.__subclasses__() if kind not in kinds]
        kinds.update(new)
    # Asked of the type: an object may answer isinstance() with code of its own.
    return [thing for thing in gc.get_objects() if type(thing) in kinds and "reducer" in vars(thing)]


def _model(wrapper: Any) -> dict[str, Any]:
    names = {id(parameter): name for name, parameter in wrapper.module.named_parameters()}
    managed = list(wrapper._module_parameters)
    wrapped = {id(parameter) for parameter in managed}
    return {
        "type": type(wrapper.module).__name__,
        "parameters": [
            [names.get(id(parameter), "?"), list(parameter.shape)] for parameter in managed[:_MOST_PARAMETERS]
        ],
        "number": len(managed),
        "without_gradient": [names.get(id(p), "?") for p in managed if p.grad is None][:_MOST_PARAMETERS],
        "added": [name for key, name in names.items() if key not in wrapped][:_MOST_PARAMETERS],
        "buffers": sum(1 for _ in wrapper.module.buffers()),
        "syncs_buffers": bool(wrapper.forward_sync_buffers),
        "find_unused_parameters": bool(wrapper.find_unused_parameters),
        "static_graph": bool(wrapper.static_graph),
        "no_sync": not wrapper.require_backward_grad_sync,
    }


def _init_arguments(frames: Iterable[FrameType]) -> dict[str, Any] | None:
    """What `init_process_group` was called with, where it is on the stack."""
    for frame in frames:
        code = frame.f_code
        if code.co_name == "init_process_group" and code.co_filename.endswith("distributed_c10d.py"):
            told = {name: _told(frame.f_locals.get(name)) for name in _INIT_NAMES}
            # torch fills these in from the environment only later: -1 means that nobody gave them.
            for name, variable in (("rank", "RANK"), ("world_size", "WORLD_SIZE")):
                if told[name] in (-1, None):
                    told[name] = int(os.environ.get(variable, "-1"))
            return told
    return None


def _told(value: Any) -> Any:
    if value is None or isinstance(value, int | str):
        return value
    return value.total_seconds() if hasattr(value, "total_seconds") else str(value)
