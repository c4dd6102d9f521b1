"""The zygote itself: `python -m realranks.ranks.server.zygote_process FD ADDRESS OWNER IDLE`, FD being its socket.

Promises:

* it ends when no process has a use for it any more, for any reason; the forkservers it made end with their kernels;
* only this user reaches it: its socket lies in a folder of its own that no other user may enter;
* what it forks is what the kernel would have started: it refuses other interpreters, another course, a course whose
  files have changed since it loaded them, and an environment in which torch would have been loaded differently.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import select
import signal
import socket
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

from realranks.ranks.codec import MalformedError, decode
from realranks.ranks.private_sockets import locked, other_end
from realranks.ranks.process import lives, name_process, run_and_exit
from realranks.ranks.protocol import Decoder, ProtocolError
from realranks.ranks.server import forkserver, huge_pages, preload
from realranks.ranks.server.compatibility import Request, compatibility_of, namespaces_of
from realranks.ranks.server.orphans import children

_REQUEST_SECONDS = 1.0
#: Between two checks of whether a process still needs the zygote. A connection to each server would tell at once, but
#: each server would have to renew it for every new zygote.
_CHECK_SECONDS = 2.0


class Lifetime:
    """A zygote lives as long as one of the processes that had a use for it, unless it is not needed for a while."""

    def __init__(self, address: Path, owner: str, idle: float) -> None:
        self.address = address
        self.file = self._file()
        self.owners = {owner}
        self.idle = idle
        self.needed = math.inf  # while it loads, no process can say so

    def _file(self) -> tuple[int, int]:
        with contextlib.suppress(OSError):
            found = self.address.stat()
            return found.st_ino, found.st_ctime_ns
        return 0, 0

    def over(self) -> bool:
        """Check whether no process needs it any more; once its socket is removed, none can find it."""
        self.owners = {owner for owner in self.owners if lives(owner)}
        if not self.owners or self._file() != self.file:
            return True
        if children():
            self.needed_now()
        return time.monotonic() - self.needed > self.idle

    def needed_now(self, owner: str = "") -> None:
        """Record that it is in use, and by whose Jupyter server, which may need it again."""
        self.needed = time.monotonic()
        if owner:
            self.owners.add(owner)

    def close_address(self) -> None:
        """Remove the socket, so that no process finds it from now on."""
        with contextlib.suppress(OSError), locked(self.address.parent):
            if self._file() == self.file:
                self.address.unlink()


class _Zygote:
    def __init__(self, listener: socket.socket, life: Lifetime) -> None:
        self.listener = listener
        self.life = life
        self.compatibility = compatibility_of(os.environ)

    def serve(self) -> None:
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the system reaps what it forks
        self.life.needed_now()
        while not self.life.over():
            if select.select([self.listener], [], [], _CHECK_SECONDS)[0]:
                with contextlib.suppress(OSError):
                    self._answer()

    def end(self) -> None:
        """Be found by no process any more; one that has found it before still gets an answer."""
        self.life.close_address()
        self.listener.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                self._answer()

    def _answer(self) -> None:
        wire, _ = self.listener.accept()
        with wire, contextlib.suppress(OSError, ProtocolError, MalformedError):
            wire.settimeout(_REQUEST_SECONDS)
            chunk, fds, _, _ = socket.recv_fds(wire, 1 << 16, 2)
            decoder = Decoder()
            try:
                while (message := next(decoder.feed(chunk), None)) is None and chunk:
                    chunk = wire.recv(1 << 16)
                request = decode(Request, message.data) if message is not None else None
                if request and len(fds) == 2 and self._fits(request, wire):
                    self.life.needed_now(request.server)
                    if not os.fork():
                        self._become(request, wire, *fds)
            finally:
                for fd in fds:
                    os.close(fd)

    def _fits(self, request: Request, wire: socket.socket) -> bool:
        """Check that it asks for what this process can be; where it is, is asked of the system (`isolation`)."""
        asks = namespaces_of(other_end(wire)[0])
        return replace(request.compatibility, namespaces=asks).fits(self.compatibility)

    def _become(self, request: Request, wire: socket.socket, sock: int, log: int) -> NoReturn:
        """Become, in a forked child, the forkserver of the kernel at the other end of `sock`."""

        def serve() -> int:
            os.setsid()
            name_process(f"ranks-{request.pid}")
            wire.close()
            self.listener.close()
            forkserver.connect_streams(log, log)
            os.environ.clear()
            os.environ.update(request.env)
            with contextlib.suppress(OSError):
                os.chdir(request.cwd)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # the server reaps its ranks itself
            return forkserver.serve(socket.socket(fileno=sock), "forkserver", loaded=True)

        run_and_exit(serve)


def main(fd: str, address: str, owner: str, idle: str) -> None:
    """Run the process on the listening socket's descriptor; the other arguments are those of `Lifetime`."""
    listener = socket.socket(fileno=int(fd))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if os.fork():  # an orphan: what starts it, server or kernel, may end before it, or after
        os._exit(0)
    name_process("ddp-zygote")
    life = Lifetime(Path(address), owner, float(idle))
    zygote = _Zygote(listener, life)
    try:
        preload.preload(lambda: not life.over())
        for _ in itertools.chain(preload.preload_rest(), huge_pages.collapsing()):
            pass
        zygote.serve()
    finally:
        zygote.end()


if __name__ == "__main__":
    main(*sys.argv[1:])
    os._exit(0)  # never through the interpreter's shutdown, see forkserver
