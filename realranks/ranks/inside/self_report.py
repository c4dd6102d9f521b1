"""A rank's report on itself beyond its stack: DDP models, arguments of its process group, memory.

Gathered inside a rank, and only when something has gone wrong; the main thread may be blocked meanwhile. Nothing of
the learner's is called: only attributes are read.
"""

from __future__ import annotations

import contextlib
import gc
import os
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any

from realranks.outcome.facts import Facts, Handled, InitArguments, StoreAddress, ThreadPlace
from realranks.outcome.places import Frame, is_learners
from realranks.outcome.probe_notes import Counts, ProbeNotes
from realranks.outcome.wrapped import WrappedModel
from realranks.ranks.inside import groups
from realranks.ranks.inside.idle import idles
from realranks.ranks.inside.wrapped import wrapped_model

if TYPE_CHECKING:
    from torch.nn.parallel import DistributedDataParallel

_MAX_MODELS = 16
#: Gives what is noted of a watched job, while there is one (see `watch.probe`); the newest counts.
NOTED: list[Callable[[], ProbeNotes]] = []
#: What other rooms count that goes up while a script gets on: steps of optimizers, batches.
PROGRESS: list[Callable[[], int]] = []


def facts_of(main_thread: int) -> Facts:
    """Collect the rank's facts wherever the main thread is."""
    frame = sys._current_frames().get(main_thread)
    frames = []
    while frame is not None:
        frames.append(frame)
        frame = frame.f_back
    current: Any = sys._current_exceptions().get(main_thread)
    error = current[1] if isinstance(current, tuple) else current  # a tuple before Python 3.12
    return replace(_facts(_init_arguments(frames), at_rest=False), handled=_handled(error))


def facts_at(traceback: TracebackType | None) -> Facts:
    """Collect the facts of a rank on which an exception was raised, before its frames are released."""
    frames = []
    while traceback is not None:
        frames.append(traceback.tb_frame)
        traceback = traceback.tb_next
    return _facts(_init_arguments(frames), at_rest=True)


def _facts(init: InitArguments | None, at_rest: bool) -> Facts:
    models: tuple[WrappedModel, ...] = ()
    members: dict[str, tuple[int, ...]] = {}
    issued: dict[str, int] = {}
    left: tuple[str, ...] = ()
    groups_made = None
    threads: tuple[ThreadPlace, ...] = ()
    with contextlib.suppress(Exception):
        models = tuple(wrapped_model(wrapper, at_rest) for wrapper in ddp_wrappers()[:_MAX_MODELS])
    with contextlib.suppress(Exception):
        members = {name: tuple(ranks) for name, ranks in groups.group_members().items()}
        issued = groups.sequence_numbers()
        groups_made = groups.world().group_count
        left = groups.left()
    with contextlib.suppress(Exception):
        threads = tuple(_threads_that_keep_it())
    master = StoreAddress(os.environ.get("MASTER_ADDR", ""), os.environ.get("MASTER_PORT", ""))
    return Facts(
        models=models,
        groups=members,
        issued=issued,
        left=left,
        groups_made=groups_made,
        memory_bytes=_resident_bytes(),
        threads=threads,
        agent_store=_agent_has_the_store(init, master),
        master=master,
        init=init,
        probe=_notes(),
    )


def _agent_has_the_store(init: InitArguments | None, master: StoreAddress) -> bool:
    """Check whether the launcher has made the store, by the environment; since torch 2.14 only at its address."""
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE", "") != str(True):
        return False
    torch, method = sys.modules.get("torch"), init.init_method if init is not None else None
    if torch is None or torch.__version__ < (2, 14) or method is None or not method.startswith("tcp://"):
        return True
    return method.partition("?")[0] == f"tcp://{master.host}:{master.port}"


def _handled(error: BaseException | None) -> Handled | None:
    """Describe an exception that is being handled while the rank waits, if a line of the learner's has raised it."""
    found, traceback = None, error.__traceback__ if error is not None else None
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if is_learners(code.co_filename):
            place = Frame(code.co_filename, traceback.tb_lineno, code.co_name, "").where()
            found = Handled(type(error).__name__, place)
        traceback = traceback.tb_next
    return found


def _notes() -> ProbeNotes | None:
    """Return the probe's notes, if there is a probe; if it fails, a note of that."""
    try:
        return NOTED[-1]() if NOTED else None
    except Exception as error:
        return ProbeNotes(Counts(), unseen={"the probe's notes": f"{type(error).__name__}: {error}"})


def _threads_that_keep_it() -> list[ThreadPlace]:
    """List the learner's threads that keep this process from ending: name, and current line."""
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
        found.append(ThreadPlace(thread.name, place))
    return found


def _resident_bytes() -> int:
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024


def ddp_wrappers() -> list[DistributedDataParallel]:
    """List the DDP wrappers alive on this rank, subclasses included, oldest first."""
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


def _init_arguments(frames: Sequence[FrameType]) -> InitArguments | None:
    """Read the arguments of `init_process_group` on the stack, or the store's address of an `init_rpc`."""
    for frame in frames:
        code, given = frame.f_code, frame.f_locals
        if code.co_name == "_tcp_rendezvous_handler" and code.co_filename.endswith("rendezvous.py"):
            url = str(given.get("url"))
            if not any(each.f_code.co_name == "init_process_group" for each in frames):
                return InitArguments(None, None, init_method=url.partition("?")[0])
        if code.co_name == "init_process_group" and code.co_filename.endswith("distributed_c10d.py"):
            backend, method, timeout = (given.get(name) for name in ("backend", "init_method", "timeout"))
            return InitArguments(
                rank=_number_or(given.get("rank"), "RANK"),
                world_size=_number_or(given.get("world_size"), "WORLD_SIZE"),
                backend=None if backend is None else str(backend),
                init_method=None if method is None else str(method),
                timeout=timeout.total_seconds() if isinstance(timeout, timedelta) else None,
            )
    return None


def _number_or(given: object, variable: str) -> int | None:
    """Resolve a rank or world size as torch does: -1 or None is read from the environment."""
    if given in (-1, None):
        return int(os.environ[variable]) if variable in os.environ else None
    return given if isinstance(given, int) else None
