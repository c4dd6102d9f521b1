"""The process that starts ranks, reports how they end, and takes them with it when the kernel is gone.

Run as `python -m course_lib.ranks.server.forkserver FD METHOD`; FD is a socket to the kernel. With METHOD `forkserver`
it has torch loaded (see `preload`) and forks ranks; with `spawn` it starts a fresh interpreter for each. Promises:

* when the kernel's end of the socket closes - for whatever reason, SIGKILL included - every rank and everything the
  ranks started is killed at once (it is their "subreaper": orphans become its children, where the system has that);
* when this process is killed, the ranks die with it (parent-death signal, and end of file on their sockets);
* it never runs a thread, and never asks CUDA for anything (not even how many GPUs there are), so forking is safe.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from course_lib.ranks.process import die_with_parent, prctl, run_and_exit, take_turns
from course_lib.ranks.protocol import Decoder, Message
from course_lib.ranks.server import huge_pages, preload
from course_lib.ranks.server.orphans import children, orphans_of_the_dead

_PR_SET_CHILD_SUBREAPER = 36
_DONE = object()
#: Seconds without a request after which there is leisure.
_QUIET = 0.02
#: Who has started so many processes will start more: what makes each of them cheaper no longer waits for leisure.
_MANY = 40
#: Programs that a rank's process has started to clean up when it has ended (Python's for shared memory, and torch's):
#: they see its end by themselves. Were they killed with it, what it has left in /dev/shm would stay there for good.
_JANITORS = (b"multiprocessing.resource_tracker", b"torch_shm_manager")
_JANITOR_SECONDS = 5.0


class Forkserver:
    """Starts processes on request; the state is only which of its children live."""

    def __init__(self, sock: socket.socket, method: str) -> None:
        self.sock = sock
        self.method = method
        #: What is done, step by step, while the kernel wants nothing.
        self.leisure: Iterator[None] | None = None
        self.started = 0
        self.living: dict[int, tuple[bytes, bytes]] = {}  # pid -> (MASTER_PORT, RANK)
        self._decoder = Decoder()
        self._fds: list[int] = []
        self._due: dict[int, float] = {}
        self._janitors: dict[int, float] = {}  # pid -> when it is killed if it is still there
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_write, False)
        os.set_blocking(self._wake_read, False)

    def kernel_is_there(self) -> bool:
        """False once the kernel's end of the socket is closed."""
        readable, _, _ = select.select([self.sock], [], [], 0)
        if not readable:
            return True
        try:
            return bool(self.sock.recv(1, socket.MSG_PEEK))
        except OSError:
            return False

    def serve(self) -> None:
        """Answer the kernel until it is gone, then kill what is left."""
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        try:
            self._loop()
        finally:
            self.kill_everything()

    def _loop(self) -> None:
        while True:
            wanted: list[Any] = [self.sock, self._wake_read]
            due = self._kill_those_due()
            readable, _, _ = select.select(wanted, [], [], due if self.leisure is None else _QUIET)
            has_time = not readable or self.started >= _MANY
            if self.leisure is not None and has_time and next(self.leisure, _DONE) is _DONE:
                self.leisure = None
            if self._wake_read in readable:
                with contextlib.suppress(BlockingIOError):
                    os.read(self._wake_read, 4096)
            # Always reap: a child may end between two signals.
            self._reap()
            if self.sock in readable:
                try:
                    chunk, fds, _, _ = socket.recv_fds(self.sock, 1 << 16, 16)
                except InterruptedError:
                    continue
                except OSError:
                    return
                if not chunk:
                    return
                for fd in fds:
                    os.set_inheritable(fd, False)
                self._fds.extend(fds)
                for message in self._decoder.feed(chunk):
                    self._handle(message)

    def _send(self, kind: str, **data: Any) -> None:
        with contextlib.suppress(OSError):
            self.sock.sendall(Message(kind, data).encode())

    def _handle(self, message: Message) -> None:
        if message.kind == "start":
            wanted = message.data["fds"]
            fds, self._fds = self._fds[:wanted], self._fds[wanted:]
            if wanted > 3:
                message.data["config"]["extra_fd"] = fds[3]
            try:
                pid = self._start(message.data, fds)
            except OSError as error:
                self._send("failed", token=message.data["token"], reason=str(error))
            else:
                self.started += 1
                environment = message.data["env"]
                self.living[pid] = (
                    os.fsencode(environment.get("MASTER_PORT", "")),
                    os.fsencode(environment.get("RANK", "")),
                )
                self._send("started", token=message.data["token"], pid=pid)
            finally:
                for fd in fds:
                    os.close(fd)
        elif message.kind == "kill":
            self._due[message.data["pid"]] = time.monotonic() + message.data["after"]

    def _kill_those_due(self) -> float | None:
        """Kill the ranks whose time is up; returns the seconds until the next is due."""
        self._due = {pid: due for pid, due in self._due.items() if pid in self.living}
        now = time.monotonic()
        for pid in [pid for pid, due in self._due.items() if due <= now]:
            del self._due[pid]
            self._kill_group(pid)
        for pid in [pid for pid, due in self._janitors.items() if due <= now]:
            del self._janitors[pid]
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        coming = [*self._due.values(), *self._janitors.values()]
        return max(0.0, min(coming) - now) if coming else None

    def _start(self, spec: dict[str, Any], fds: list[int]) -> int:
        if self.method == "spawn":
            return self._spawn(spec, fds)

        def role() -> int:
            self._become(spec, fds)
            return run_role(spec, fds[0])

        pid = os.fork()
        if pid == 0:
            run_and_exit(role)
        # Set on both sides: whoever comes first, the group exists before anybody kills it.
        with contextlib.suppress(OSError):
            os.setpgid(pid, pid)
        return pid

    def _become(self, spec: dict[str, Any], fds: list[int]) -> None:
        """Turn a freshly forked child into a clean process of its own."""
        server = os.getppid()
        die_with_parent()
        with contextlib.suppress(OSError):
            os.setpgid(0, 0)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self.sock.close()
        os.close(self._wake_read)
        os.close(self._wake_write)
        for fd in self._fds:  # what the kernel sent for the next ranks
            os.close(fd)
        connect_streams(fds)
        os.environ.clear()
        os.environ.update(spec["env"])
        enter_place(spec)
        if os.getppid() != server:
            os._exit(1)

    def _spawn(self, spec: dict[str, Any], fds: list[int]) -> int:
        import json

        place = {"cwd": spec["cwd"], "path": spec["path"], "role": spec["role"], "config": spec["config"]}
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "course_lib.ranks.server.forkserver",
                "role",
                str(fds[0]),
                json.dumps(place),
            ],
            env={**spec["env"], "PYTHONPATH": os.pathsep.join(p for p in spec["path"] if p)},
            pass_fds=[fds[0], *fds[3:]],
            stdin=subprocess.DEVNULL,
            stdout=fds[1],
            stderr=fds[2],
            process_group=0,
        )
        # The reaping is ours: keep Popen from waiting for the child as well.
        process.returncode = 0
        return process.pid

    def _reap(self) -> None:
        ended = False
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                break
            ended = True
            self._janitors.pop(pid, None)
            if pid in self.living:
                del self.living[pid]
                # What the rank started (data loader workers, forks) ends with it.
                self._kill_group(pid)
                code = os.waitstatus_to_exitcode(status)
                self._send("exited", pid=pid, code=code)
        # So does what left its process group; killing that may bring up more, of which SIGCHLD tells.
        if ended:
            orphans = orphans_of_the_dead(self.living.keys(), set(self.living.values()))
            self._spare(orphans)
            for orphan in orphans - self._janitors.keys():
                with contextlib.suppress(OSError):
                    os.kill(orphan, signal.SIGKILL)

    def _kill_group(self, pid: int) -> None:
        self._spare(_children_of(pid) | (children() - self.living.keys()))
        if any(_group_of(janitor) == pid for janitor in self._janitors):
            for member in _members_of(pid) - self._janitors.keys():
                with contextlib.suppress(OSError):
                    os.kill(member, signal.SIGKILL)
        else:
            with contextlib.suppress(OSError):
                os.killpg(pid, signal.SIGKILL)
        if pid in self.living:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)

    def _spare(self, processes: Iterable[int]) -> None:
        """Give the janitors among these processes a moment for their work."""
        for pid in processes:
            if pid not in self._janitors and _is_janitor(pid):
                self._janitors[pid] = time.monotonic() + _JANITOR_SECONDS

    def kill_everything(self) -> None:
        """Kill all ranks and all they started, also what left their process groups."""
        for pid in list(self.living):
            self._kill_group(pid)
        try:
            import psutil
        except ImportError:
            return
        for attempt in range(20):
            left = psutil.Process().children(recursive=True)
            left = [child for child in left if child.status() != psutil.STATUS_ZOMBIE]
            if not left:
                return
            for child in left:
                if attempt < 2 and child.pid in self._janitors:
                    continue
                with contextlib.suppress(psutil.Error):
                    child.kill()
            psutil.wait_procs(left, timeout=0.2)


def _is_janitor(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as command:
            line = command.read(4096)
    except OSError:
        return False
    return any(name in line for name in _JANITORS)


def _children_of(pid: int) -> set[int]:
    """The direct children of a process, whichever of its threads has started them (Linux)."""
    found: set[int] = set()
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{thread}/children", "rb") as listed:
                found |= {int(child) for child in listed.read().split()}
    return found


def _group_of(pid: int) -> int:
    try:
        return os.getpgid(pid)
    except OSError:
        return 0


def _members_of(group: int) -> set[int]:
    """The processes of a group."""
    return {int(name) for name in os.listdir("/proc") if name.isdigit() and _group_of(int(name)) == group}


def describe_machine(method: str) -> dict[str, Any]:
    """The start method and torch's version. GPUs are none of this process's business: see `try_gpus`."""
    from importlib.metadata import version

    torch = sys.modules.get("torch")
    return {"method": method, "torch": torch.__version__ if torch is not None else version("torch")}


def connect_streams(fds: list[int]) -> None:
    """Make the given files standard output and error; standard input is empty."""
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(fds[1], 1)
    os.dup2(fds[2], 2)
    for fd in (null, fds[1], fds[2]):
        os.close(fd)


def enter_place(spec: dict[str, Any]) -> None:
    """Take over the kernel's working folder and module search path."""
    with contextlib.suppress(OSError):
        os.chdir(spec["cwd"])
    sys.path[:] = spec["path"]


def run_role(spec: dict[str, Any], fd: int) -> int:
    """Be what was asked for - a rank, the host of the gang's store, who tries GPUs - and return the exit code."""
    with contextlib.suppress(OSError):
        # Numbers drawn from numpy's global generator differ between real processes; forked ones would share them.
        numpy = sys.modules.get("numpy")
        if numpy is not None:
            numpy.random.seed()
    role: Callable[[int, dict[str, Any]], int]
    if spec["role"] == "store":
        from course_lib.ranks.server.store import host_store as role
    elif spec["role"] == "gpus":
        from course_lib.ranks.server.try_gpus import report_gpus as role
    else:
        take_turns()
        from course_lib.ranks.inside.worker import run_rank as role
    return role(fd, spec["config"])


def _spawned(fd: int, place: dict[str, Any]) -> int:
    die_with_parent()
    enter_place(place)
    for name, value in preload.ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    return run_role(place, fd)


def serve(sock: socket.socket, method: str, *, loaded: bool = False) -> int:
    """Be the forkserver of the kernel at the other end of the socket, until that is gone; returns the exit code.

    Args:
        loaded: this process was forked from one that had loaded torch, and shares its memory.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    prctl(_PR_SET_CHILD_SUBREAPER, 1)
    server = Forkserver(sock, method)
    if method == "forkserver":
        preload.preload(server.kernel_is_there)
        if not loaded:
            server.leisure = huge_pages.collapsing()
    server._send("ready", pid=os.getpid(), **describe_machine(method))
    server.serve()
    return 0


def main(arguments: list[str]) -> int:
    """Entry point of the process; see the module's docstring."""
    if arguments[0] == "role":
        import json

        # The module runs as __main__ here, which belongs to the learner in a rank: hand over to the real one.
        from course_lib.ranks.server import forkserver

        return forkserver._spawned(int(arguments[1]), json.loads(arguments[2]))
    from course_lib.ranks.server import forkserver

    return forkserver.serve(socket.socket(fileno=int(arguments[0])), arguments[1])


if __name__ == "__main__":
    run_and_exit(lambda: main(sys.argv[1:]))
