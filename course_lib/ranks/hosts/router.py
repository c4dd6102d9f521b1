"""The process of a kernel that lets hosts in which dial it, and passes on what they say.

It alone has ZMQ's context and threads: nothing is forked from it. The kernel gets a socket for each host, as from a
command that reaches one. When the kernel ends, in whatever way, this ends, and tells the hosts first.

A host has to have the key of the join file (CURVE). Who joins says a number that it has drawn: its epoch. With it, and
with no other, it may come back when its connection was cut. Once all hosts have come, nobody else may join.
"""

from __future__ import annotations

import contextlib
import json
import re
import secrets
import signal
import socket
import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import zmq
from zmq.utils import z85
from zmq.utils.monitor import parse_monitor_message

from course_lib.ranks.hosts.join_file import NO_CURVE, JoinFile
from course_lib.ranks.hosts.resumed import (
    HEARTBEAT_MS,
    HELLO,
    LOST_MS,
    REFUSED,
    WELCOME,
    ResumedWire,
    frame,
    read_frame,
)
from course_lib.ranks.hosts.wire import HostFailed, course_digest
from course_lib.ranks.messages import Body, encode_message
from course_lib.ranks.protocol import send_with_fds
from course_lib.versions import version

_DOMAIN = "ddp-course"
_LINGER_MS = 500
_LAST_SECONDS = 2.0
_HANDSHAKE_MS = 10_000
_MOST_BYTES = 1 << 20


@dataclass(frozen=True)
class Bound(Body):
    """The port is open and the join file written: the first that this process says."""

    kind: ClassVar[str] = "bound"
    port: int
    expires: float


@dataclass(frozen=True)
class HostCame(Body):
    """A host has joined; with it comes the socket to it."""

    kind: ClassVar[str] = "host_came"
    name: str


@dataclass(frozen=True)
class AskRefused(Body):
    """The kernel asks who was refused: `RefusedSoFar`."""

    kind: ClassVar[str] = "ask_refused"


@dataclass(frozen=True)
class RefusedSoFar(Body):
    """How often who was refused, by the reason."""

    kind: ClassVar[str] = "refused_so_far"
    times: Mapping[str, int] = field(default_factory=dict)


class Router:
    """Lets so many hosts in and passes on what they say."""

    def __init__(self, control: socket.socket, number: int, address: str, seconds: float, path: Path) -> None:
        """Open a port, and write the join file.

        Raises:
            OSError: there is no such address here, or the file cannot be written.
        """
        self._control = control
        self._number = number
        self._expires = time.time() + seconds
        self._came: list[str] = []
        self._wires: dict[bytes, ResumedWire] = {}
        self._refused: Counter[str] = Counter()
        self._seen: Counter[int] = Counter()
        self._context = zmq.Context()
        public, secret = zmq.curve_keypair()
        clients_public, clients_secret = zmq.curve_keypair()
        self._client = z85.decode(clients_public)
        self._zap = self._context.socket(zmq.REP)
        self._zap.bind("inproc://zeromq.zap.01")
        self._router = router = self._context.socket(zmq.ROUTER)
        router.curve_server, router.curve_secretkey = True, secret
        router.zap_domain = _DOMAIN.encode()
        router.router_handover = True
        router.handshake_ivl, router.maxmsgsize, router.linger = _HANDSHAKE_MS, _MOST_BYTES, _LINGER_MS
        router.heartbeat_ivl, router.heartbeat_timeout = HEARTBEAT_MS, LOST_MS
        # What is under way is bounded by the window of each wire.
        router.sndhwm = router.rcvhwm = 0
        self._monitor = router.get_monitor_socket()
        port = router.bind_to_random_port(f"tcp://{address}")
        self._path = path
        self._file = JoinFile(
            address=address,
            port=port,
            server_key=public.decode(),
            public_key=clients_public.decode(),
            secret_key=clients_secret.decode(),
            expires=self._expires,
            digest=course_digest(),
            course=version("ddp-course"),
        )
        self._file.write(path)
        self._say(Bound(port, self._expires))

    def serve(self) -> None:
        """Do this until the kernel lets go, or is gone, and the hosts have been told so."""
        poller = zmq.Poller()
        for always in (self._router, self._zap, self._monitor, self._control):
            poller.register(always, zmq.POLLIN)
        last: float | None = None
        while last is None or (self._wires and time.monotonic() < last):
            locals_ = {wire.local.fileno(): wire for wire in self._wires.values()}
            for wire in locals_.values():
                poller.register(wire.local, wire.events)
            for ready, events in poller.poll(None if last is None else 100):
                if ready is self._router:
                    self._receive()
                elif ready is self._zap:
                    self._check_key()
                elif ready is self._monitor:
                    self._count_connections()
                elif ready == self._control.fileno():
                    if not self._answer():
                        poller.unregister(self._control)
                        last = time.monotonic() + _LAST_SECONDS
                elif ready in locals_:
                    locals_[ready].serve(events)
            for epoch in [epoch for epoch, wire in self._wires.items() if wire.done]:
                wire = self._wires.pop(epoch)
                poller.register(wire.local, 0)
                wire.local.close()

    def close(self) -> None:
        """Close the port and remove the join file; returns when what was to be sent is on its way."""
        self._file.remove(self._path)
        self._context.destroy(_LINGER_MS)

    # -- the kernel ---------------------------------------------------------------------------------------------

    def _say(self, body: Body) -> None:
        with contextlib.suppress(OSError):
            self._control.sendall(encode_message(body).encode())

    def _answer(self) -> bool:
        """The kernel asks, or is gone."""
        try:
            asked = self._control.recv(1 << 16)
        except OSError:
            asked = b""
        if asked:
            self._count_connections()
            known = self._seen[zmq.EVENT_HANDSHAKE_SUCCEEDED] + self._seen[zmq.EVENT_HANDSHAKE_FAILED_AUTH]
            strangers = max(0, self._seen[zmq.EVENT_ACCEPTED] - known)
            without = {"who does not speak as a host with a join file": strangers} if strangers else {}
            self._say(RefusedSoFar({**without, **self._refused}))
        return bool(asked)

    def _count_connections(self) -> None:
        with contextlib.suppress(zmq.Again):
            while True:
                self._seen[parse_monitor_message(self._monitor.recv_multipart(zmq.NOBLOCK))["event"]] += 1

    # -- hosts --------------------------------------------------------------------------------------------------

    def _check_key(self) -> None:
        """ZMQ asks (RFC 27, ZAP) whether who speaks CURVE may connect."""
        asked = self._zap.recv_multipart()
        head, mechanism, credentials = asked[:2], asked[5:6], asked[6:7]
        right = mechanism == [b"CURVE"] and secrets.compare_digest(b"".join(credentials), self._client)
        if not right:
            self._refused["a host with another key"] += 1
        answer = (b"200", b"OK", b"host", b"") if right else (b"400", b"another key", b"", b"")
        self._zap.send_multipart([*head, *answer])

    def _receive(self) -> None:
        while True:
            try:
                frames = self._router.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            if len(frames) != 3:
                continue
            epoch, head, content = frames
            kind, number, acknowledged = read_frame(head)
            wire = self._wires.get(epoch)
            if kind == HELLO:
                self._hello(epoch, acknowledged, content)
            elif wire is not None:
                wire.hear(kind, number, acknowledged, content)

    def _hello(self, epoch: bytes, acknowledged: int, content: bytes) -> None:
        wire = self._wires.get(epoch)
        if wire is None:
            try:
                name, digest = map(str, json.loads(content))
            except (ValueError, TypeError, RecursionError):
                return
            refused = self._why_not(digest)
            if refused:
                self._refused[f"a host: {refused}"] += 1
                self._router.send_multipart([epoch, frame(REFUSED), refused.encode()])
                return
            wire = self._let_in(epoch, name)
        self._router.send_multipart([epoch, frame(WELCOME, wire.came), b""])
        wire.resume(acknowledged)

    def _why_not(self, digest: str) -> str:
        if len(self._came) == self._number:
            return "all hosts of these ranks have come; it may join the next, which %ranks listen opens"
        if time.time() > self._expires:
            return "the join file has expired"
        return "" if digest == course_digest() else "it has other course files"

    def _let_in(self, epoch: bytes, name: str) -> ResumedWire:
        name = re.sub(r"[^A-Za-z0-9_.-]|^[.-]", "_", name[:100]) or "host"
        names = [name, *(f"{name}-{number}" for number in range(2, self._number + 2))]
        self._came.append(next(one for one in names if one not in self._came))
        ours, kernels = socket.socketpair()
        with kernels, contextlib.suppress(OSError):
            send_with_fds(self._control, encode_message(HostCame(self._came[-1])), [kernels.fileno()])
        wire = self._wires[epoch] = ResumedWire(
            ours, lambda head, content: self._router.send_multipart([epoch, head, content])
        )
        return wire


def main() -> int:
    """Be this process for the kernel at the other end of standard input; returns the exit code."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    number, address, seconds, path = sys.argv[1:]
    control = socket.socket(fileno=0)
    try:
        if not zmq.has("curve"):
            raise OSError(NO_CURVE)
        router = Router(control, int(number), address, float(seconds), Path(path))
    except (OSError, zmq.ZMQError) as error:
        control.sendall(encode_message(HostFailed(str(error))).encode())
        return 1
    try:
        router.serve()
    finally:
        router.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
