"""Start processes under torchrun's own agent, from a process that has torch loaded already: for tasks whose answer is a
whole script.

What `torchrun` does is `elastic_launch` with a program to start; here the same agent forks this process instead, so
that no process has to import torch. Rendezvous, store, environment, restarts and the end of all when one fails are
torch's.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import json
import logging
import os
import signal
import stat
import sys
import threading
import traceback
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ParamSpec

from realranks.ranks.host_names import ask_no_name_server
from realranks.ranks.inside import worker
from realranks.ranks.inside.freeing import free_blocked
from realranks.ranks.inside.process_group import RENDEZVOUS
from realranks.ranks.inside.seeds import seed_rank

_P = ParamSpec("_P")

#: Set when the agent asks this process to end while it is ending anyway.
_END_REQUESTED = threading.Event()
#: Groups that a script has destroyed while a DDP model held them.
_KEPT: list[object] = []


@dataclass(frozen=True)
class Ended:
    """The end of all processes: whether it was a good one, and whether they were killed because the time was up."""

    ok: bool
    late: bool


class ScriptEnded(BaseException):
    """The script called os._exit."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


def launch(
    process: Callable[..., None],
    *arguments: object,
    ranks: int,
    folder: Path,
    seconds: float,
    restarts: int = 0,
) -> Ended:
    """Call `process(*arguments)` in so many processes; each begins with `become_a_process` and ends with `leave`.

    Args:
        folder: for what the processes print. seconds: after these, all processes are killed.

    Returns:
        How it ended.
    """
    from torch.distributed.elastic.multiprocessing.api import DefaultLogsSpecs
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    ask_no_name_server()  # nor do the processes that are forked from here
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=ranks,
        run_id=f"course-{os.getpid()}",
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        local_addr="localhost",
        max_restarts=restarts,
        monitor_interval=0.05,
        start_method="fork",
        shutdown_timeout=2,
        logs_specs=DefaultLogsSpecs(log_dir=str(folder / "logs")),
    )
    # Restarted processes must not read the addresses of those before them. Without restarts they share the agent's
    # store, which listens before any of them starts.
    os.environ["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = str(int(restarts > 0))
    with _quiet(), _kill_after(seconds) as late:
        try:
            elastic_launch(config, process)(*arguments)
        except Exception:  # a process that failed, or whatever the script has done to its agent
            return Ended(ok=False, late=late.is_set())
    return Ended(ok=True, late=late.is_set())


def end_those_that_have_returned() -> None:
    """Let an agent end workers at once that have run their script to its end.

    A process that `torchrun` has started is gone when its script is over. One that is forked waits until the agent has
    read what all have returned; an agent that has been asked to end reads nothing.
    """
    from torch.distributed.elastic.multiprocessing.api import MultiprocessContext

    close = MultiprocessContext._close

    @functools.wraps(close)
    def closing(context: MultiprocessContext, *arguments: Any, **options: Any) -> None:
        context._worker_finished_event.set()
        close(context, *arguments, **options)

    MultiprocessContext._close = closing  # type: ignore[method-assign, assignment]


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silence the agent's log: its traceback for each failed process says less than the checks."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    # Its rendezvous asks for the whole stack, sources included, to name itself in a log that goes nowhere: half a
    # second of computing for each launch.
    rendezvous: Any = importlib.import_module("torch.distributed.elastic.rendezvous.dynamic_rendezvous")
    name, rendezvous.get_method_name = rendezvous.get_method_name, lambda depth=2: "rendezvous"
    try:
        yield
    finally:
        rendezvous.get_method_name = name
        logging.disable(before)


@contextlib.contextmanager
def _kill_after(seconds: float) -> Iterator[threading.Event]:
    """Kill every process below this one when the time is up, as a way out of a hang."""
    import psutil

    late = threading.Event()

    def kill() -> None:
        late.set()
        for process in psutil.Process().children(recursive=True):
            with contextlib.suppress(psutil.Error):
                process.send_signal(signal.SIGKILL)

    timer = threading.Timer(seconds, kill)
    timer.daemon = True
    timer.start()
    try:
        yield late
    finally:
        timer.cancel()


def become_a_process() -> None:
    """Turn a process that the agent forked from a rank of the course into one that `torchrun` has started."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)  # the agent's own handlers are nothing for its children
    _close_inherited_sockets()
    # It is not a rank of the course any more: torchrun's own rendezvous, no wire to a kernel.
    worker.CURRENT = None
    RENDEZVOUS.uninstall()
    seed_rank(int(os.environ["RANK"]))
    _outlive_agent()


def _outlive_agent() -> None:
    """Let a process that has destroyed its process group end by itself, even if the agent ends all for one.

    Destroying the group closes its connections. Whoever waits for this process in a collective fails by that, and the
    agent would end this one, too: before or after it has noted what it did, by chance.

    By chance, too, a DDP model that is the last to hold its group hangs when it goes (lesson 02): such groups are kept.
    """
    import torch.distributed as dist
    from torch.distributed import distributed_c10d as c10d
    from torch.nn.parallel import DistributedDataParallel

    def staying(original: Callable[_P, None]) -> Callable[_P, None]:
        @functools.wraps(original)
        def destroy_process_group(*arguments: _P.args, **options: _P.kwargs) -> None:
            wrappers = (one for one in gc.get_objects() if issubclass(type(one), DistributedDataParallel))
            _KEPT.extend(wrapper.process_group for wrapper in wrappers)
            if {*arguments, *options.values()} <= {None, dist.group.WORLD}:  # all groups
                with contextlib.suppress(ValueError):  # only the main thread may
                    signal.signal(signal.SIGTERM, lambda *_: _END_REQUESTED.set())
            original(*arguments, **options)

        return destroy_process_group

    dist.destroy_process_group = c10d.destroy_process_group = staying(dist.destroy_process_group)


def leave(code: int) -> None:
    """End this process; everything is noted, so it may be killed from here on.

    Args:
        code: its exit code. With 0 it returns, because the agent waits for what its processes return. Until all have
            done so, the process lives on; its connections end here, as those of a process of `torchrun` would.
    """
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if code or _END_REQUESTED.is_set():
        os._exit(code)
    free_blocked(store_port=None)


def _close_inherited_sockets() -> None:
    """Close inherited sockets of the agent: who frees this process must not shut those down.

    The numbers stay taken, because objects of the agent live on in this process and would close them.
    """
    with open(os.devnull, "rb") as nothing:
        for name in os.listdir("/proc/self/fd") if os.path.isdir("/proc/self/fd") else map(str, range(256)):
            with contextlib.suppress(OSError):
                if int(name) > 2 and stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                    os.dup2(nothing.fileno(), int(name))


def exit_code(ended: ScriptEnded | SystemExit) -> int:
    """Return the exit code of a process that ends like this: a text, or any other object, makes 1."""
    return ended.code if isinstance(ended.code, int) else int(ended.code is not None)


def line_in(script: str, error: BaseException) -> int:
    """Return the last line of the script itself in an error's traceback; 0 where it has none."""
    lines = [
        frame.lineno or 0 for frame in traceback.extract_tb(error.__traceback__) if frame.filename == script
    ]
    return lines[-1] if lines else 0


def run_as_main(script: str, arguments: Sequence[str]) -> None:
    """Run a script as the `__main__` of this process, with its own command line, as `torchrun` would.

    Raises:
        ScriptEnded: it called os._exit with another code than 0; whatever else the script raises.
    """
    leave, process = os._exit, os.getpid()

    def ending(code: int) -> None:
        if os.getpid() == process:
            raise ScriptEnded(code)
        leave(code)

    os._exit = ending  # type: ignore[assignment]
    main = types.ModuleType("__main__")
    main.__file__ = script
    sys.modules["__main__"] = main
    sys.argv = [script, *arguments]
    sys.path.insert(0, str(Path(script).parent))
    try:
        exec(compile(Path(script).read_text(encoding="utf-8"), script, "exec"), main.__dict__)
    except ScriptEnded as ended:
        if ended.code:
            raise
    finally:
        os._exit = leave


def write_whole(path: Path, content: object) -> None:
    """Write JSON that is there as a whole or not at all: the agent may kill the process that writes it."""
    written = path.with_suffix(".part")
    written.write_text(json.dumps(content))
    os.replace(written, path)
