"""Scripts that start their ranks themselves, seen from inside: the processes they start attach to the doctor.

Runs in the script's processes. `starting` surrounds the script in the one process that runs it. It replaces one
function, `BaseProcess.start`, through which `multiprocessing` and `torch.multiprocessing` start processes. A process
object gets an attribute that stands in for its method `_bootstrap`, the first thing that runs in the new process:
`fork` hands it on in memory, `spawn` and `forkserver` pickle it with the object. There it opens two wires to the
doctor. The process joins the ranks when it calls `init_process_group`, which says its rank and their number; one that
never does is a helper of the script's and is left alone.

What a script writes, raises and returns is not touched: no frame of the course is in its tracebacks.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import multiprocessing
import os
import socket
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing import process as processes
from multiprocessing import util
from types import FrameType
from typing import Any
from urllib.parse import parse_qsl, urlparse

from realranks.outcome.places import is_learners
from realranks.own_code import is_ours
from realranks.ranks.inside import worker
from realranks.ranks.inside.on_terminate import report_on_terminate
from realranks.ranks.inside.process_group import RENDEZVOUS
from realranks.ranks.messages import (
    Around,
    Attached,
    Body,
    Joined,
    ProcessEnded,
    ProcessStarted,
    encode_message,
)
from realranks.ranks.observed.left_behind import Tables, left_behind, tables
from realranks.ranks.observed.rank_side import Watched
from realranks.ranks.private_sockets import reachable
from realranks.ranks.protocol import BlockingChannel

#: How long a process whose part is over stays for the verdict. What others need it for is proved in a second; but the
#: script may wait for its end, and must not wait for ever.
_HOLD_SECONDS = 30.0
#: The first of multiprocessing's finalizers: it runs while the exception that ends the process is still known.
_FIRST = 1 << 30
_TORCHS_WRAPPER = "torch/multiprocessing/spawn.py"


@dataclass(frozen=True)
class DoctorAddress:
    """The way a process finds the doctor.

    Attributes:
        address: of the doctor's socket. around: what surrounds a rank's part from the moment it joins (see `Job`).
    """

    address: str
    around: Around | None


@contextlib.contextmanager
def starting(address: str, around: Around | None, environment: dict[str, str | None]) -> Iterator[None]:
    """Attach processes that are started within this block to the doctor, and wait for them at its end.

    Args:
        address, around: see `DoctorAddress`. environment: variables as the script would find them without the doctor.
    """
    os.environ.update({name: value for name, value in environment.items() if value is not None})
    for name in [name for name, value in environment.items() if value is None]:
        os.environ.pop(name, None)
    RENDEZVOUS.uninstall()  # it is for ranks that the course starts, and would be forked into the script's
    channel = worker.CURRENT.channel if worker.CURRENT is not None else None
    _Starts(DoctorAddress(address, around), channel).install()
    try:
        yield
    except BaseException as error:
        _print_as_python_does(error)
        raise
    finally:
        _wait_for_children()


def _print_as_python_does(error: BaseException) -> None:
    """Print the error that ended a script as Python does, without the course's frames."""
    if isinstance(error, SystemExit):
        if error.code is not None and not isinstance(error.code, int):
            print(error.code, file=sys.stderr)
        return
    if isinstance(error, KeyboardInterrupt):
        return  # the doctor has ended it
    below = error.__traceback__
    while below is not None and is_ours(below.tb_frame.f_code.co_filename):
        below = below.tb_next
    with contextlib.suppress(Exception):
        traceback.print_exception(type(error), error, below)


def _wait_for_children() -> None:
    """Do what Python does at the end of a process: terminate daemons, wait for other children."""
    for child in multiprocessing.active_children():
        if child.daemon:
            child.terminate()
    for child in multiprocessing.active_children():
        child.join()


class _Starts:
    """In a process that starts others: each of them is sent on its way."""

    def __init__(self, way: DoctorAddress, channel: BlockingChannel | None) -> None:
        self.way, self.channel = way, channel
        self.count = 0
        self.pid = os.getpid()
        self._ended: set[int] = set()

    def install(self) -> None:
        """Replace `Process.start` from now on."""
        real = processes.BaseProcess.start
        if isinstance(vars(real).get("course"), _Starts):
            real = real.__wrapped__  # type: ignore[attr-defined]  # forked from a process in which this was done

        @functools.wraps(real)
        def start(process: Any) -> None:
            self.start(process, real)

        start.course = self  # type: ignore[attr-defined]
        processes.BaseProcess.start = start  # type: ignore[method-assign,assignment]

    def start(self, process: Any, really_start: Callable[[Any], None]) -> None:
        """Start the process, as Python does; what may become a rank attaches first."""
        if os.getpid() != self.pid or not _is_candidate_rank(process):
            really_start(process)
            return
        forks = getattr(process, "_start_method", None) == "fork"
        known = {} if forks else tables()
        # On the object: a spawned process has a class of its own. A `sitecustomize` would hide the user's, and every
        # program that the script starts would load it.
        vars(process)["_bootstrap"] = BootstrapHook(process, self.way, self.count, known)
        try:
            really_start(process)
        finally:
            vars(process).pop("_bootstrap", None)
        self.count += 1
        self._tell(ProcessStarted(process.pid))
        # Every question how the process has ended comes through here: `join`, `exitcode`, `is_alive`.
        popen = process._popen
        popen.poll = functools.partial(self._poll, process.pid, popen.poll)

    def _poll(self, pid: int, really_poll: Callable[..., int | None], *arguments: Any) -> int | None:
        code = really_poll(*arguments)
        if code is not None and pid not in self._ended:
            self._ended.add(pid)
            self._tell(ProcessEnded(pid, code))
        return code

    def _tell(self, body: Body) -> None:
        with contextlib.suppress(OSError):
            if self.channel is not None:
                self.channel.send(encode_message(body))


def _is_candidate_rank(process: Any) -> bool:
    """Check whether a process runs the learner's code, or a function that `torch.multiprocessing` was given."""
    target = process._target
    while isinstance(target, functools.partial):
        target = target.func
    if target is None:
        file = getattr(sys.modules.get(type(process).__module__), "__file__", None)
    else:
        target = getattr(target, "__func__", target)
        code = getattr(target, "__code__", None) or getattr(type(target).__call__, "__code__", None)
        file = code.co_filename if code is not None else None
    return file is not None and (is_learners(file) or file.endswith(_TORCHS_WRAPPER))


CURRENT: BootstrapHook | None = None


class BootstrapHook:
    """Stands in for a process's `_bootstrap`: opens its wires to the doctor, then leaves the process to Python."""

    def __init__(self, process: Any, way: DoctorAddress, order: int, known: Tables) -> None:
        self.process, self.way, self.order, self.known = process, way, order, known
        self.joined = False
        self.pid = 0
        self.error: BaseException | None = None

    def __call__(self, parent_sentinel: Any = None) -> int:
        """Run the new process from beginning to end, and return its exit code."""
        vars(self.process).pop("_bootstrap", None)
        with contextlib.suppress(Exception):
            self._attach()
        vars(self.process)["run"] = functools.partial(self._run, self.process.run)
        code: int = self.process._bootstrap(parent_sentinel)
        if self.joined:
            # What spawn would do next, the interpreter's shutdown, ends some gloo processes by chance in an abort.
            with contextlib.suppress(BaseException):
                atexit._run_exitfuncs()
            util._flush_std_streams()  # type: ignore[attr-defined]
            os._exit(code)
        return code

    def _run(self, really_run: Callable[[], None]) -> None:
        """Run the process's part; an error is kept, because since Python 3.13 it is over when finalizers are called."""
        try:
            really_run()
        except SystemExit as error:
            self.error = error
            raise
        except BaseException as error:
            self.error = error
            # As Python prints it, without this frame.
            print(f"Process {self.process.name}:", file=sys.stderr)
            traceback.print_exception(type(error), error, error.__traceback__ and error.__traceback__.tb_next)
            sys.exit(1)

    def _attach(self) -> None:
        global CURRENT
        forked = worker.CURRENT is not None
        worker.CURRENT, CURRENT = None, self
        self.pid = os.getpid()
        self._around = contextlib.ExitStack()
        self.watched = Watched(
            lambda: _connected(self.way.address),
            lambda wire, now: Attached(wire, self.pid, self.order, self._index(), forked, now),
        )
        self.watched.begin(inherited_dumps=forked)
        _Starts(self.way, self.watched.channel).install()
        self._finish_first()
        # A forked process forgets all finalizers first, and then calls this; a spawned one does neither.
        util.register_after_fork(self, BootstrapHook._finish_first)
        self._hear_of_groups()

    def _index(self) -> int | None:
        """Return the process's index in `torch.multiprocessing.spawn`; None for others."""
        target = self.process._target
        code = getattr(target, "__code__", None)
        if code is None or not code.co_filename.endswith(_TORCHS_WRAPPER):
            return None
        return int(self.process._args[1])

    # -- joining -------------------------------------------------------------------------------------------------

    def _hear_of_groups(self) -> None:
        """Have `init_process_group` say so before it waits for another rank.

        Scripts import that function by name, so it is too late to replace it. What it calls first is looked up when it
        runs.
        """
        from torch.distributed import distributed_c10d

        really_check = distributed_c10d._check_valid_timeout

        @functools.wraps(really_check)
        def check(timeout: Any) -> None:
            really_check(timeout)
            caller = sys._getframe(1)
            if caller.f_code.co_name == "init_process_group" and not self.joined:
                self.joined = True
                with contextlib.suppress(Exception):
                    self._join(caller)

        distributed_c10d._check_valid_timeout = check

    def _join(self, init: FrameType) -> None:
        rank, world_size = _rank_and_size_of(init)
        self.watched.channel.send(encode_message(Joined(rank, world_size)))
        self._around.enter_context(report_on_terminate(self.watched.channel))
        self._around.enter_context(worker.around(self.way.around))

    # -- the end -------------------------------------------------------------------------------------------------

    def _finish_first(self) -> None:
        if os.getpid() != self.pid:
            return  # forked from this process
        util.Finalize(None, self._left, exitpriority=_FIRST)

    def _left(self) -> None:
        """Report how this process ended, and stay until the judgement of others no longer needs this rank."""
        error = _cause(self.error) if self.error is not None else None
        with contextlib.suppress(Exception):
            if error is None:
                self._around.close()
            else:
                self._around.__exit__(type(error), error, error.__traceback__)
        lacking = None
        with contextlib.suppress(Exception):
            lacking = left_behind(self.known, error) if error is not None else None
        self.watched.left(error, lacking)
        if self.joined or self._index() is not None:
            self.watched.verdict.wait(_HOLD_SECONDS)


def _connected(address: str) -> socket.socket:
    wire = socket.socket(socket.AF_UNIX)
    with reachable(address) as short:
        wire.connect(short)
    return wire


def _rank_and_size_of(init: FrameType) -> tuple[int, int]:
    """Determine the rank and world size that `init_process_group` was passed, found in a URL, or will read."""
    arguments = init.f_locals
    url = arguments.get("init_method")
    query = dict(parse_qsl(urlparse(url).query)) if isinstance(url, str) else {}
    found = []
    for name, variable in (("rank", "RANK"), ("world_size", "WORLD_SIZE")):
        given = arguments.get(name)
        later = query.get(name) or os.environ.get(variable) or -1
        found.append(int(later) if given in (-1, None) else int(given))
    return found[0], found[1]


def _cause(error: BaseException | None) -> BaseException | None:
    """Return the exception that ended the process; None if the process did not fail."""
    if not isinstance(error, SystemExit):
        return error
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    if last is not None and last.tb_frame.f_code.co_filename.endswith(_TORCHS_WRAPPER):
        return error.__context__ or error  # torch has written it down, and exits with 1
    return None if error.code in (None, 0) else error
