"""The zygote itself: `python -m course_lib.ranks.server.zygote_process FD owned|shared ...`, FD being its socket.

Promises:

* it ends when nobody has a use for it any more, for whatever reason; the forkservers it made end with their kernels;
* only this user reaches it: its socket lies in a folder of its own that nobody else may enter;
* what it forks is what the kernel would have started: it refuses other interpreters, another course, a course whose
  files have changed since it loaded them, and an environment in which torch would have been loaded differently.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import select
import shutil
import signal
import socket
import sys
import time
from pathlib import Path
from typing import NoReturn, Protocol

from course_lib.ranks.codec import decode
from course_lib.ranks.process import lives, name_process, run_and_exit
from course_lib.ranks.server import forkserver, huge_pages, preload
from course_lib.ranks.server.compatibility import Request, compatibility_of
from course_lib.ranks.server.orphans import children
from course_lib.ranks.server.zygote_folder import locked

_REQUEST_SECONDS = 1.0


class _Life(Protocol):
    """For whom the zygote lives."""

    #: Descriptors that become readable when this may have changed.
    fds: tuple[int, ...]
    #: Seconds after which it may have changed without any of them telling; None: never.
    look: float | None

    def over(self) -> bool:
        """Whether nobody needs the zygote any more."""

    def loaded(self) -> None:
        """From now on the zygote answers."""

    def asked(self, request: Request) -> None:
        """Somebody has asked."""

    def close_address(self) -> None:
        """From now on nobody finds the zygote."""


class _Owned:
    """It lives as long as one process, which holds the other end of a pipe."""

    look: float | None = None

    def __init__(self, owner: int, folder: str) -> None:
        self.fds: tuple[int, ...] = (owner,)
        self.folder = folder

    def over(self) -> bool:
        return bool(select.select(self.fds, [], [], 0)[0])

    def loaded(self) -> None:
        """That is nothing to an owner."""

    def asked(self, request: Request) -> None:
        """Whoever asks is a descendant of the owner, or does not matter."""

    def close_address(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


class Shared:
    """It lives as long as one of the Jupyter servers that had a use for it, unless nobody needs it for a while."""

    fds: tuple[int, ...] = ()
    look: float | None = 2.0

    def __init__(self, address: Path, server: str, idle: float) -> None:
        self.address = address
        self.file = self._file()
        self.servers = {server}
        self.idle = idle
        self.needed = math.inf  # while it loads, nobody can say so

    def _file(self) -> tuple[int, int]:
        with contextlib.suppress(OSError):
            found = self.address.stat()
            return found.st_ino, found.st_ctime_ns
        return 0, 0

    def over(self) -> bool:
        """See `_Life`; where somebody has removed the socket, nobody finds it."""
        self.servers = {server for server in self.servers if lives(server)}
        if not self.servers or self._file() != self.file:
            return True
        if children():
            self.needed = time.monotonic()
        return time.monotonic() - self.needed > self.idle

    def loaded(self) -> None:
        """See `_Life`."""
        self.needed = time.monotonic()

    def asked(self, request: Request) -> None:
        """See `_Life`; the server of who asks may need the zygote again."""
        self.needed = time.monotonic()
        if request.server:
            self.servers.add(request.server)

    def close_address(self) -> None:
        """See `_Life`."""
        with contextlib.suppress(OSError), locked(self.address.parent):
            if self._file() == self.file:
                self.address.unlink()


class _Zygote:
    def __init__(self, listener: socket.socket, life: _Life) -> None:
        self.listener = listener
        self.life = life
        self.compatibility = compatibility_of(os.environ)

    def serve(self) -> None:
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the system reaps what it forks
        self.life.loaded()
        while not self.life.over():
            wanted: list[socket.socket | int] = [self.listener, *self.life.fds]
            readable, _, _ = select.select(wanted, [], [], self.life.look)
            if self.listener in readable:
                with contextlib.suppress(OSError):
                    self._answer()

    def end(self) -> None:
        """Go where nobody finds it; who has found it before still gets an answer."""
        self.life.close_address()
        self.listener.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                self._answer()

    def _answer(self) -> None:
        wire, _ = self.listener.accept()
        with wire, contextlib.suppress(OSError, ValueError, KeyError):
            wire.settimeout(_REQUEST_SECONDS)
            data, fds, _, _ = socket.recv_fds(wire, 1 << 16, 2)
            try:
                while data and not data.endswith(b"\n"):
                    data += wire.recv(1 << 16)
                request = decode(Request, json.loads(data))
                if len(fds) == 2 and request.compatibility == self.compatibility:
                    self.life.asked(request)
                    if not os.fork():
                        self._become(request, wire, *fds)
            finally:
                for fd in fds:
                    os.close(fd)

    def _become(self, request: Request, wire: socket.socket, sock: int, log: int) -> NoReturn:
        """In a forked child: be the forkserver of the kernel at the other end of `sock`."""

        def serve() -> int:
            os.setsid()
            name_process(f"ranks-{request.pid}")
            wire.close()
            self.listener.close()
            for fd in self.life.fds:
                os.close(fd)
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
    """Entry point of the process: the listening socket's descriptor, and for whom it lives."""
    listener = socket.socket(fileno=int(arguments[0]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    life: _Life
    if arguments[1] == "owned":
        life = _Owned(int(arguments[2]), arguments[3])
    else:
        if os.fork():  # nobody's child: whoever starts it, server or kernel, may end before it, or after
            os._exit(0)
        name_process("ddp-zygote")
        life = Shared(Path(arguments[2]), arguments[3], float(arguments[4]))
    zygote = _Zygote(listener, life)
    try:
        preload.preload(lambda: not life.over())
        for _ in huge_pages.collapsing():
            pass
        zygote.serve()
    finally:
        zygote.end()


if __name__ == "__main__":
    main(sys.argv[1:])
    os._exit(0)  # never through the interpreter's shutdown, see forkserver
