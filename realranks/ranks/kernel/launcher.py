"""The kernel's side of the forkserver: start it early, ask it for ranks, hear how they ended.

One launcher a kernel and start method. It is started in the background (`warm_up`) and waited for only when the first
rank is needed.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping

import psutil

from realranks import own_code
from realranks.ranks.messages import decode_message, encode_message
from realranks.ranks.protocol import Decoder, Message, send_with_fds
from realranks.ranks.server.compatibility import server_environment, working_folder
from realranks.ranks.server.zygote import ask_zygote
from realranks.ranks.starting import (
    Exited,
    Failed,
    GpusConfig,
    Kill,
    RankConfig,
    ServerReady,
    Start,
    Started,
    StoreConfig,
)

#: A zygote that is still loading torch takes its time; one that says nothing for so long is stopped, or worse.
ZYGOTE_SECONDS = 60.0
METHODS = ("forkserver", "spawn")


class LaunchError(RuntimeError):
    """Ranks cannot be started; the message says why."""


def default_method() -> str:
    """Return `forkserver` if the system can fork, else `spawn`; DDP_COURSE_START_METHOD overrides."""
    method = os.environ.get("DDP_COURSE_START_METHOD", "")
    if method:
        if method not in METHODS:
            raise LaunchError(f"DDP_COURSE_START_METHOD is {method!r}; it can be {' or '.join(METHODS)}.")
        return method
    return "forkserver" if hasattr(os, "fork") else "spawn"


class Launcher:
    """Starts processes through one forkserver process and collects their exit codes."""

    def __init__(self, method: str) -> None:
        if sys.platform == "win32":
            raise LaunchError(
                "The course starts its ranks on Linux and macOS; on Windows, use it inside WSL 2."
            )
        self.method = method
        self.exits: dict[int, int] = {}
        self.pids: dict[int, int] = {}
        self.failures: dict[int, str] = {}
        self.ready: ServerReady | None = None
        self.gone = False
        self._token = 0
        self._decoder = Decoder()
        self._lock = threading.RLock()
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the server
        self._process: subprocess.Popen[bytes] | None = None
        self._begin(ask=method == "forkserver")
        os.register_at_fork(after_in_child=self._forget)

    def _begin(self, ask: bool) -> None:
        environment = server_environment()
        self.gone = False
        self.sock, theirs = socket.socketpair()
        with theirs:
            self._asked = ask and ask_zygote(theirs, self._log.fileno(), environment)
            self._asked_until = time.monotonic() + ZYGOTE_SECONDS
            if not self._asked:
                self._process = self._own_server(theirs, environment)
        self.sock.setblocking(False)

    def _own_server(self, theirs: socket.socket, environment: dict[str, str]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [
                sys.executable,
                "-P",
                "-m",
                "realranks.ranks.server",
                str(theirs.fileno()),
                self.method,
            ],
            pass_fds=[theirs.fileno()],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            # A terminal's Ctrl-C and Jupyter's interrupt go to the kernel's process group, never to ranks.
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        """The server's process id; waits for the server if need be."""
        return self.wait_ready().pid

    def has_ended(self) -> bool:
        """Check whether the server has ended; if a zygote never provided one, start it here instead."""
        with self._lock:
            self.pump()
            given_up = self.gone or time.monotonic() > self._asked_until
            if self._asked and self.ready is None and given_up:
                self.sock.close()
                self._begin(ask=False)
        return self.gone or (self._process is not None and self._process.poll() is not None)

    def _forget(self) -> None:
        # A child that the kernel forks must not hold the wire open: the server would not see the kernel die.
        with contextlib.suppress(OSError):
            self.sock.close()
        self.gone, self._asked = True, False

    def fileno(self) -> int:
        """Return the socket's descriptor, for selectors."""
        return self.sock.fileno()

    def wait_ready(self) -> ServerReady:
        """Block until the server has torch loaded.

        Raises:
            LaunchError: the server ended instead; the message holds what it printed.
        """
        while self.ready is None:
            if self.has_ended():
                self.pump()
                if self.ready is not None:
                    break
                raise LaunchError(f"The process that starts ranks ended: {self.stderr_tail()}")
            select.select([self.sock], [], [], 1.0)
            self.pump()
        return self.ready

    @property
    def torch_version(self) -> str:
        """The version of torch that ranks will have; waits for the server if need be."""
        return self.wait_ready().torch

    def stderr_tail(self) -> str:
        """Return the last lines that the server printed, for error messages."""
        with contextlib.suppress(OSError, ValueError):
            self._log.seek(0)
            text = self._log.read().decode(errors="replace").strip()
            return "\n".join(text.splitlines()[-5:]) or "it printed nothing"
        return "it printed nothing"

    def start(
        self, config: RankConfig | StoreConfig | GpusConfig, environment: Mapping[str, str], fds: list[int]
    ) -> int:
        """Ask for a process; returns a token under which `pids` or `failures` will have the answer."""
        self.wait_ready()
        with self._lock:
            self._token += 1
            token = self._token
            wanted = Start(
                token=token,
                cwd=working_folder(),
                # Last, where it is not there yet: a checkout has folders with names such as `tests` and `tools`.
                path=tuple(dict.fromkeys((*map(str, sys.path), *own_code.search_path()))),
                fds=len(fds),
                env=dict(environment),
                rank=config if isinstance(config, RankConfig) else None,
                store=config if isinstance(config, StoreConfig) else None,
                gpus=config if isinstance(config, GpusConfig) else None,
            )
            try:
                self.sock.setblocking(True)
                send_with_fds(self.sock, encode_message(wanted), fds)
            except OSError as error:
                self.gone = True
                raise LaunchError(f"The process that starts ranks is gone: {self.stderr_tail()}") from error
            finally:
                with contextlib.suppress(OSError):
                    self.sock.setblocking(False)
        return token

    def kill(self, pid: int, after: float = 0.0) -> None:
        """Kill a rank and what it started, unless it has ended by itself `after` seconds from now."""
        with contextlib.suppress(OSError), self._lock:
            try:
                self.sock.setblocking(True)
                self.sock.sendall(encode_message(Kill(pid, after)).encode())
            finally:
                self.sock.setblocking(False)

    def pump(self) -> None:
        """Take in what the server has said; never blocks."""
        with self._lock:
            while not self.gone:
                try:
                    chunk = self.sock.recv(1 << 16)
                except (BlockingIOError, InterruptedError):
                    return
                except OSError:
                    chunk = b""
                if not chunk:
                    self.gone = True
                    return
                for message in self._decoder.feed(chunk):
                    self._heard(message)

    def _heard(self, message: Message) -> None:
        match message.kind:
            case ServerReady.kind:
                self.ready = decode_message(ServerReady, message)
            case Started.kind:
                started = decode_message(Started, message)
                self.pids[started.token] = started.pid
                self.exits.pop(started.pid, None)  # the system uses numbers again
            case Failed.kind:
                failed = decode_message(Failed, message)
                self.failures[failed.token] = failed.reason
            case Exited.kind:
                exited = decode_message(Exited, message)
                self.exits[exited.pid] = exited.code

    def kill_server(self) -> None:
        """Kill a server that starts no ranks any more (a learner's code may have stopped it); a new one follows."""
        if self.ready is not None:
            with contextlib.suppress(OSError):
                os.kill(self.ready.pid, signal.SIGKILL)
        self.gone = True

    def close(self) -> None:
        """End the server and with it every rank."""
        self.gone, self._asked = True, False
        with contextlib.suppress(OSError):
            self.sock.close()
        if self._process is not None:
            try:
                self._process.wait(5)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        elif self.ready is not None:
            _end(self.ready.pid)
        self._log.close()


def _end(pid: int) -> None:
    """Wait for the end of a server that is no child of this process."""
    with contextlib.suppress(psutil.Error):
        process = psutil.Process(pid)
        try:
            process.wait(5)
        except psutil.TimeoutExpired:
            process.kill()


_launchers: dict[str, Launcher] = {}
_launchers_lock = threading.Lock()


def warm_up(method: str | None = None) -> Launcher:
    """Return the kernel's launcher, starting one if there is none or the old one died; do not wait for torch."""
    method = method or default_method()
    with _launchers_lock:
        launcher = _launchers.get(method)
        if launcher is not None and launcher.has_ended():
            launcher.close()
            launcher = None
        if launcher is None:
            launcher = _launchers[method] = Launcher(method)
        return launcher


def warm_up_early() -> None:
    """Start the kernel's launcher, before there is anybody to tell that it cannot be: `warm_up` tells it again."""
    with contextlib.suppress(LaunchError):
        warm_up()


def close_all() -> None:
    """End every launcher of this process."""
    while _launchers:
        _launchers.popitem()[1].close()


def close_for_good() -> None:
    """End every launcher, for a process that is about to end itself: a thread that wants another one then waits."""
    _launchers_lock.acquire()
    close_all()
