"""The process that starts ranks, reports how they end, and takes them with it when the kernel is gone.

Run as `python -m realranks.ranks.server FD METHOD`; FD is a socket to the kernel. With METHOD `forkserver`
it has torch loaded (see `preload`) and forks ranks; with `spawn` it starts a fresh interpreter for each. Promises:

* when the kernel's end of the socket closes - for whatever reason, SIGKILL included - every rank and everything the
  ranks started is killed at once (it is their "subreaper": orphans become its children, where the system has that);
* when this process is killed, the ranks die with it (parent-death signal, and end of file on their sockets);
* it never runs a thread, and never asks CUDA for anything (not even how many GPUs there are), so forking is safe.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import resource
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from realranks.ranks.codec import decode, encode
from realranks.ranks.inside.worker import run_rank
from realranks.ranks.messages import Body, decode_message, encode_message
from realranks.ranks.process import die_with_parent, inherit_orphans, run_and_exit, take_turns
from realranks.ranks.protocol import Decoder, Message
from realranks.ranks.server import huge_pages, isolation, preload
from realranks.ranks.server.orphans import children, orphans_of_the_dead
from realranks.ranks.server.store import host_store, listen_on
from realranks.ranks.server.try_gpus import report_gpus
from realranks.ranks.starting import Exited, Failed, Kill, ServerReady, Start, Started, StoreConfig

_DONE = object()
_PATHS = "PYTHONPATH"
#: Seconds without a request after which there is time for idle work.
_QUIET = 0.02
#: Who has started so many processes will start more: what makes each cheaper no longer waits for an idle moment.
_MANY = 40
#: What the store of an isolated gang may use of memory: ranks can put into it what they like.
_STORE_BYTES = 2 << 30
#: Programs that a rank's process has started to clean up when it has ended (Python's for shared memory, and torch's):
#: they see its end, clean up and end by themselves. Were they killed with it, what it has left in /dev/shm would stay.
_CLEANUP_HELPERS = (b"multiprocessing.resource_tracker", b"torch_shm_manager")


class Forkserver:
    """Starts processes on request; the state is only which of its children live."""

    def __init__(self, sock: socket.socket, method: str) -> None:
        self.sock = sock
        self.method = method
        #: What is done, step by step, while the kernel wants nothing.
        self.idle_work: Iterator[None] | None = None
        self.started = 0
        self.living: dict[int, tuple[bytes, bytes]] = {}  # pid -> (MASTER_PORT, RANK)
        self._isolated: dict[int, int] = {}  # MASTER_PORT -> pid of the store of an isolated gang
        self._decoder = Decoder()
        self._fds: list[int] = []
        self._due: dict[int, float] = {}
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_write, False)
        os.set_blocking(self._wake_read, False)

    def kernel_is_there(self) -> bool:
        """Check that the kernel's end of the socket is still open."""
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
            wanted: list[socket.socket | int] = [self.sock, self._wake_read]
            due = self._kill_those_due()
            readable, _, _ = select.select(wanted, [], [], due if self.idle_work is None else _QUIET)
            has_time = not readable or self.started >= _MANY
            if self.idle_work is not None and has_time and next(self.idle_work, _DONE) is _DONE:
                self.idle_work = None
            if self._wake_read in readable:
                with contextlib.suppress(BlockingIOError):
                    os.read(self._wake_read, 4096)
            # Always reap: a child may end between two signals.
            self._reap()
            if self.sock in readable and not self._receive():
                return

    def _receive(self) -> bool:
        """Do what the kernel has sent; False when it has closed its end."""
        try:
            chunk, fds, _, _ = socket.recv_fds(self.sock, 1 << 16, 16)
        except InterruptedError:
            return True
        except OSError:
            return False
        if not chunk:
            return False
        for fd in fds:
            os.set_inheritable(fd, False)
        self._fds.extend(fds)
        for message in self._decoder.feed(chunk):
            self._handle(message)
        return True

    def say(self, body: Body) -> None:
        """Tell the kernel, if it is still there."""
        with contextlib.suppress(OSError):
            self.sock.sendall(encode_message(body).encode())

    def _handle(self, message: Message) -> None:
        if message.kind == Start.kind:
            wanted = decode_message(Start, message)
            fds, self._fds = self._fds[: wanted.fds], self._fds[wanted.fds :]
            try:
                pid = self._start(_with_extra(wanted, fds), fds)
            except OSError as error:
                self.say(Failed(wanted.token, str(error)))
            else:
                self.started += 1
                self.living[pid] = (
                    os.fsencode(wanted.env.get("MASTER_PORT", "")),
                    os.fsencode(wanted.env.get("RANK", "")),
                )
                self.say(Started(wanted.token, pid))
            finally:
                for fd in fds:
                    os.close(fd)
        elif message.kind == Kill.kind:
            kill = decode_message(Kill, message)
            self._due[kill.pid] = time.monotonic() + kill.after

    def _kill_those_due(self) -> float | None:
        """Kill the ranks whose time is up; returns the seconds until the next is due."""
        self._due = {pid: due for pid, due in self._due.items() if pid in self.living}
        now = time.monotonic()
        for pid in [pid for pid, due in self._due.items() if due <= now]:
            del self._due[pid]
            self._kill_group(pid)
        return max(0.0, min(self._due.values()) - now) if self._due else None

    def _start(self, wanted: Start, fds: list[int]) -> int:
        if self.method == "spawn":
            return self._spawn(wanted, fds)

        if wanted.store is not None and wanted.store.isolated and isolation.allowed():
            return self._start_isolated_store(wanted.store, wanted, fds)
        store = self._isolated.get(wanted.rank.store_port) if wanted.rank is not None else None

        def role() -> int:
            self._become(wanted, fds)
            if store is not None:
                isolation.enter(store)
                enter_place(wanted)
            return run_role(wanted, fds[0])

        return self._fork(role)

    def _start_isolated_store(self, store: StoreConfig, wanted: Start, fds: list[int]) -> int:
        made, make = os.pipe()

        def role() -> int:
            self._become(wanted, fds)
            isolation.enter_new()
            resource.setrlimit(resource.RLIMIT_DATA, (_STORE_BYTES, _STORE_BYTES))
            # The listener that has come keeps other gangs from this port, by which we tell them apart.
            listener = listen_on(store.address, store.port)
            os.write(make, b".")
            return host_store(fds[0], replace(store, extra_fd=listener.detach()))

        with open(made, "rb", 0) as answer:
            try:
                pid = self._fork(role)
            finally:
                os.close(make)
            if answer.read(1):  # its ranks can follow now
                self._isolated[store.port] = pid
        return pid

    def _fork(self, role: Callable[[], int]) -> int:
        pid = os.fork()
        if pid == 0:
            run_and_exit(role)
        # Set on both sides: whichever comes first, the group exists before it can be killed.
        with contextlib.suppress(OSError):
            os.setpgid(pid, pid)
        return pid

    def _become(self, wanted: Start, fds: list[int]) -> None:
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
        connect_streams(fds[1], fds[2])
        os.environ.clear()
        os.environ.update(wanted.env)
        enter_place(wanted)
        if os.getppid() != server:
            os._exit(1)

    def _spawn(self, wanted: Start, fds: list[int]) -> int:
        # What this interpreter needs to find the course is nothing for programs that the rank starts.
        paths = {name: value for name, value in wanted.env.items() if name == _PATHS}
        request = json.dumps(encode(replace(wanted, env=paths)))
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "realranks.ranks.server",
                "role",
                str(fds[0]),
                request,
            ],
            env={**wanted.env, _PATHS: os.pathsep.join(p for p in wanted.path if p)},
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
            if pid in self.living:
                del self.living[pid]
                self._isolated = {port: maker for port, maker in self._isolated.items() if maker != pid}
                # What the rank started (data loader workers, forks) ends with it.
                self._kill_group(pid)
                code = os.waitstatus_to_exitcode(status)
                self.say(Exited(pid, code))
        # So does what left its process group; killing that may bring up more, of which SIGCHLD tells.
        if ended:
            _kill(orphans_of_the_dead(self.living.keys(), set(self.living.values())))

    def _kill_group(self, pid: int) -> None:
        inherited = children() - self.living.keys()
        if any(
            _group_of(child) == pid and _is_cleanup_helper(child) for child in _children_of(pid) | inherited
        ):
            _kill(int(name) for name in os.listdir("/proc") if name.isdigit() and _group_of(int(name)) == pid)
        else:
            with contextlib.suppress(OSError):
                os.killpg(pid, signal.SIGKILL)
        if pid in self.living:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)

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
                if attempt < 2 and _is_cleanup_helper(child.pid):
                    continue
                with contextlib.suppress(psutil.Error):
                    child.kill()
            psutil.wait_procs(left, timeout=0.2)


def _is_cleanup_helper(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as command:
            line = command.read(4096)
    except OSError:
        return False
    return any(name in line for name in _CLEANUP_HELPERS)


def _kill(processes: Iterable[int]) -> None:
    """Kill these, except cleanup helpers."""
    for pid in processes:
        if not _is_cleanup_helper(pid):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)


def _children_of(pid: int) -> set[int]:
    """List the direct children of a process, whichever of its threads started them (Linux)."""
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


def _with_extra(wanted: Start, fds: list[int]) -> Start:
    """Pass on a fourth descriptor, which the process knows by its number."""
    if len(fds) < 4:
        return wanted
    rank = replace(wanted.rank, extra_fd=fds[3]) if wanted.rank is not None else None
    store = replace(wanted.store, extra_fd=fds[3]) if wanted.store is not None else None
    return replace(wanted, rank=rank, store=store)


def torch_version() -> str:
    """Return torch's version. This process leaves GPUs alone: see `try_gpus`."""
    from importlib.metadata import version

    torch = sys.modules.get("torch")
    return str(torch.__version__) if torch is not None else version("torch")


def connect_streams(out: int, err: int) -> None:
    """Make the given files standard output and error; standard input is empty."""
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(out, 1)
    os.dup2(err, 2)
    for fd in {null, out, err}:
        os.close(fd)


def enter_place(wanted: Start) -> None:
    """Take over the kernel's working folder and module search path."""
    with contextlib.suppress(OSError):
        os.chdir(wanted.cwd)
    sys.path[:] = wanted.path


def run_role(wanted: Start, fd: int) -> int:
    """Be what was asked for - a rank, the host of the gang's store, who tries GPUs - and return the exit code."""
    if wanted.store is not None:
        return host_store(fd, wanted.store)
    if wanted.gpus is not None:
        return report_gpus(fd, wanted.gpus)
    if wanted.rank is not None:
        take_turns()
        return run_rank(fd, wanted.rank)
    return 1


def _spawned(fd: int, wanted: Start) -> int:
    die_with_parent()
    enter_place(wanted)
    os.environ.pop(_PATHS, None)
    os.environ.update(wanted.env)
    for name, value in preload.ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    return run_role(wanted, fd)


def serve(sock: socket.socket, method: str, *, loaded: bool = False) -> int:
    """Be the forkserver of the kernel at the other end of the socket, until that is gone; returns the exit code.

    Args:
        loaded: this process was forked from one that had loaded torch, and shares its memory.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    inherit_orphans()
    server = Forkserver(sock, method)
    if method == "forkserver":
        preload.preload(server.kernel_is_there)
        if not loaded:
            server.idle_work = itertools.chain(preload.preload_rest(), huge_pages.collapsing())
    server.say(ServerReady(os.getpid(), method, torch_version()))
    server.serve()
    return 0


def main(arguments: list[str]) -> int:
    """Run the process; see the module's docstring."""
    if arguments[0] == "role":
        return _spawned(int(arguments[1]), decode(Start, json.loads(arguments[2])))
    return serve(socket.socket(fileno=int(arguments[0])), arguments[1])
