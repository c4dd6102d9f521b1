"""A process with torch loaded that forks a forkserver for each kernel that asks: they all start warm.

Loading torch takes a kernel's first ranks some seconds. `ddp-course lab` starts a zygote beside JupyterLab (and the
tests one beside pytest): every kernel that is started, or restarted, then has its forkserver at once, and all share
torch's memory. A forkserver from a zygote is the kernel's own in every other way; where there is no zygote, or it does
not fit, the kernel starts one itself (`launcher`). Promises:

* it ends when its owner ends, for whatever reason; the forkservers it made end with their kernels;
* only this user reaches it: its socket lies in a folder of its own that nobody else may enter;
* what it forks is what the kernel would have started: it refuses other interpreters, another course, a course whose
  files have changed since it loaded them, and an environment in which torch would have been loaded differently.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from course_lib.ranks.codec import decode, encode
from course_lib.ranks.process import name_process, run_and_exit

#: The variable with the address in the environment of those who may ask.
VARIABLE = "DDP_COURSE_ZYGOTE"
_COURSE = Path(__file__).resolve().parents[2]
_READ_WHEN_LOADED = (
    "TORCH",
    "PYTORCH",
    "OMP_",
    "MKL_",
    "KMP_",
    "GLOO_",
    "NCCL_",
    "CUDA_",
    "LD_",
    "PYTHONHASHSEED",
)
#: torch writes it itself when DDP or its compiler is imported: who has imported torch may still ask.
_WRITTEN_BY_TORCH = frozenset({"TORCHINDUCTOR_CACHE_DIR"})
_REQUEST_SECONDS = 1.0


@dataclass(frozen=True)
class _Fitting:
    """What must be the same in the zygote and in who asks."""

    python: tuple[str, ...]
    course: tuple[str, ...]
    loaded_with: Mapping[str, str]


@dataclass(frozen=True)
class _Request:
    """A kernel wants a forkserver in its environment and working folder."""

    fitting: _Fitting
    env: Mapping[str, str]
    cwd: str
    pid: int


def start_zygote() -> int:
    """Start a zygote for everything that this process starts, named in the environment from now on.

    Where DDP_COURSE_ZYGOTE is set, nothing is started: it names one, or, being empty, says that none is wanted.

    Returns:
        A file descriptor: the zygote ends when the last copy of it is closed, at the latest with this process.
    """
    owner, ours = os.pipe()
    if VARIABLE in os.environ:  # there is one, or (empty) none is wanted
        os.close(owner)
        return ours
    folder = tempfile.mkdtemp(prefix="ddp-course-zygote-")
    address = os.path.join(folder, "socket")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen(64)
        subprocess.Popen(
            [
                sys.executable,
                "-P",
                "-m",
                "course_lib.ranks.server.zygote",
                str(listener.fileno()),
                str(owner),
                folder,
            ],
            pass_fds=[listener.fileno(), owner],
            env=server_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C in the terminal is not meant for it
        )
    os.close(owner)
    os.environ[VARIABLE] = address
    return ours


def server_environment() -> dict[str, str]:
    """The environment of a process that forks: it finds this course, and macOS lets it fork."""
    paths = (str(_COURSE.parent), os.environ.get("PYTHONPATH", ""))
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "OBJC_DISABLE_INITIALIZE_FORK_SAFETY": "YES",
    }


def ask_zygote(sock: socket.socket, log: int, environment: Mapping[str, str]) -> bool:
    """Ask the zygote, if there is one, for a forkserver that talks on `sock`; does not wait for it.

    The zygote refuses by closing its copy of `sock`.
    """
    address = os.environ.get(VARIABLE)
    if not address:
        return False
    request = _Request(_fitting(environment), dict(environment), working_folder(), os.getpid())
    try:
        with socket.socket(socket.AF_UNIX) as wire:
            wire.settimeout(_REQUEST_SECONDS)
            wire.connect(address)
            data = json.dumps(encode(request)).encode() + b"\n"
            sent = socket.send_fds(wire, [data], [sock.fileno(), log])
            wire.sendall(data[sent:])
    except OSError:
        return False
    return True


def working_folder() -> str:
    """The working folder, or the root where somebody has removed it."""
    try:
        return os.getcwd()
    except OSError:
        return os.sep


def _fitting(environment: Mapping[str, str]) -> _Fitting:
    return _Fitting(
        python=(sys.prefix, sys.version),
        course=(str(_COURSE), *map(str, _newest_files())),
        loaded_with={
            key: environment[key]
            for key in sorted(environment)
            if key.startswith(_READ_WHEN_LOADED) and key not in _WRITTEN_BY_TORCH
        },
    )


def _newest_files() -> tuple[int, int]:
    """How many files the course has, and when the youngest was written (ns)."""
    times = [path.stat().st_mtime_ns for path in _COURSE.rglob("*.py")]
    return len(times), max(times)


class _Zygote:
    def __init__(self, listener: socket.socket, owner: int) -> None:
        self.listener = listener
        self.owner = owner
        self.fitting = _fitting(os.environ)

    def owner_is_there(self) -> bool:
        return not select.select([self.owner], [], [], 0)[0]

    def serve(self) -> None:
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the system reaps what it forks
        while True:
            wanted: list[socket.socket | int] = [self.listener, self.owner]
            readable, _, _ = select.select(wanted, [], [])
            if self.owner in readable:
                return
            with contextlib.suppress(OSError, ValueError, KeyError):
                self._answer()

    def _answer(self) -> None:
        wire, _ = self.listener.accept()
        with wire:
            wire.settimeout(_REQUEST_SECONDS)
            data, fds, _, _ = socket.recv_fds(wire, 1 << 16, 2)
            try:
                while data and not data.endswith(b"\n"):
                    data += wire.recv(1 << 16)
                request = decode(_Request, json.loads(data))
                if len(fds) == 2 and request.fitting == self.fitting and not os.fork():
                    self._become(request, wire, *fds)
            finally:
                for fd in fds:
                    os.close(fd)

    def _become(self, request: _Request, wire: socket.socket, sock: int, log: int) -> NoReturn:
        """In a forked child: be the forkserver of the kernel at the other end of `sock`."""
        from course_lib.ranks.server import forkserver

        def serve() -> int:
            os.setsid()
            name_process(f"ranks-{request.pid}")
            wire.close()
            self.listener.close()
            os.close(self.owner)
            null = os.open(os.devnull, os.O_RDONLY)
            for fd, stream in ((null, 0), (log, 1), (log, 2)):
                os.dup2(fd, stream)
            os.close(null)
            os.close(log)
            os.environ.clear()
            os.environ.update(request.env)
            with contextlib.suppress(OSError):
                os.chdir(request.cwd)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # the server reaps its ranks itself
            return forkserver.serve(socket.socket(fileno=sock), "forkserver", loaded=True)

        run_and_exit(serve)


def main(arguments: list[str]) -> None:
    """Entry point of the process: the listening socket's descriptor, the owner's, the folder to be removed."""
    from course_lib.ranks.server import huge_pages, preload

    listener, owner, folder = socket.socket(fileno=int(arguments[0])), int(arguments[1]), arguments[2]
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    zygote = _Zygote(listener, owner)
    try:
        preload.preload(zygote.owner_is_there)
        for _ in huge_pages.collapsing():
            pass
        zygote.serve()
    finally:
        listener.close()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(sys.argv[1:])
    os._exit(0)  # never through the interpreter's shutdown, see forkserver
