"""A host that dials in: it connects to the kernel of a join file, and then is a host as any other.

This process has the connection; the host itself (`agent`) is its child, because ranks are forked there and ZMQ has
threads.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import secrets
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import zmq
from zmq.utils.monitor import parse_monitor_message

from course_lib.ranks.hosts.host import GONE_SECONDS, HostError
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

FIRST_SECONDS = 60.0
_LAST_SECONDS = 2.0
_AGAIN_MS = 100
_CONNECT_MS = 1000
#: What torchrun sets for a rank. A host is not a rank, and its ranks get their own.
_TORCHRUN = ("TORCHELASTIC_", "ROLE_", "GROUP_WORLD_SIZE")


class Dialled:
    """The connection to the kernel, and the host process."""

    def __init__(self, file: JoinFile) -> None:
        self._file = file
        self._where = f"the notebook at {file.address}:{file.port}"
        self._agent: subprocess.Popen[bytes] | None = None
        self._context = zmq.Context()
        self._dealer = dealer = self._context.socket(zmq.DEALER)
        # The host's epoch: another process has another one. ZMQ keeps names that begin with 0 for itself.
        dealer.routing_id = b"h" + secrets.token_bytes(16)
        dealer.curve_serverkey = file.server_key.encode()
        dealer.curve_publickey, dealer.curve_secretkey = file.public_key.encode(), file.secret_key.encode()
        dealer.reconnect_ivl, dealer.connect_timeout, dealer.linger = _AGAIN_MS, _CONNECT_MS, 0
        dealer.heartbeat_ivl, dealer.heartbeat_timeout = HEARTBEAT_MS, LOST_MS
        dealer.sndhwm = dealer.rcvhwm = 0
        self._monitor = dealer.get_monitor_socket()
        self._problem = "nothing listens there"
        #: Until when the kernel has to be heard; None while it is connected.
        self._until: float | None = time.monotonic() + FIRST_SECONDS
        mine, self._agents = socket.socketpair()
        self._wire = ResumedWire(mine, lambda head, content: dealer.send_multipart([head, content]))
        dealer.connect(f"tcp://{file.address}:{file.port}")

    def serve(self) -> int:
        """Hold ranks until the kernel ends, or the host; returns the exit code.

        Raises:
            HostError: the kernel does not let it in, or has not been heard for too long.
        """
        poller = zmq.Poller()
        for always in (self._dealer, self._monitor):
            poller.register(always, zmq.POLLIN)
        while not self._wire.delivered:
            left = None if self._until is None else self._until - time.monotonic()
            if left is not None and left <= 0:
                raise HostError(self._not_heard())
            poller.register(self._wire.local, self._wire.events)
            for ready, events in poller.poll(None if left is None else int(left * 1000) + 1):
                if ready is self._monitor:
                    self._note(parse_monitor_message(self._monitor.recv_multipart())["event"])
                elif ready is self._dealer:
                    self._receive()
                else:
                    self._wire.serve(events)
                    if self._wire.ended and self._until is None:
                        self._until = time.monotonic() + _LAST_SECONDS
        assert self._agent is not None
        return self._agent.wait()

    def close(self) -> None:
        """End the host process and its ranks, if they are there."""
        self._wire.local.close()
        self._agents.close()
        if self._agent is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._agent.wait(5.0)
            self._agent.kill()
        self._context.destroy(linger=500)

    def end(self) -> None:
        """End the host process; the kernel is told."""
        if self._agent is None:
            raise SystemExit(1)
        self._agent.terminate()

    def _not_heard(self) -> str:
        if self._agent is None:
            return f"{self._where} has not let this host in within {FIRST_SECONDS:.0f} s: {self._problem}."
        if self._wire.ended:
            return "this host has ended."
        return f"{self._where} has not been heard for {GONE_SECONDS:.0f} s."

    def _note(self, event: int) -> None:
        match event:
            case zmq.EVENT_HANDSHAKE_SUCCEEDED:
                who = json.dumps([platform.node(), self._file.digest]).encode()
                self._dealer.send_multipart([frame(HELLO, self._wire.came), who])
            case zmq.EVENT_HANDSHAKE_FAILED_AUTH:
                raise HostError("the notebook refuses the key of this join file.")
            case zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL:
                self._problem = "what listens there does not know this join file"
            case zmq.EVENT_DISCONNECTED if self._until is None:
                self._until = time.monotonic() + GONE_SECONDS

    def _receive(self) -> None:
        while True:
            try:
                head, content = self._dealer.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            kind, number, acknowledged = read_frame(head)
            if kind == REFUSED:
                raise HostError(
                    f"the notebook does not let this host in: {content.decode(errors='replace')}."
                )
            if kind == WELCOME:
                done = "connected again to" if self._agent else "joined"
                print(f"ddp-course host: {done} {self._where}", file=sys.stderr, flush=True)
                if self._agent is None:
                    self._start_agent()
                self._until = None
                self._wire.resume(acknowledged)
            else:
                self._wire.hear(kind, number, acknowledged, content)

    def _start_agent(self) -> None:
        environment = {name: value for name, value in os.environ.items() if not name.startswith(_TORCHRUN)}
        self._agent = subprocess.Popen(
            [sys.executable, "-m", "course_lib.ranks.hosts"],
            stdin=self._agents.fileno(),
            stdout=self._agents.fileno(),
            env=environment,
        )
        self._agents.close()


def dial(path: Path) -> int:
    """Be a host for the kernel of this join file; returns the exit code."""
    try:
        if not zmq.has("curve"):
            raise HostError(NO_CURVE)
        dialled = Dialled(JoinFile.read(path))
    except HostError as error:
        print(f"ddp-course host: {error}", file=sys.stderr)
        return 1
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: dialled.end())
    try:
        return dialled.serve()
    except HostError as error:
        print(f"ddp-course host: {error}", file=sys.stderr)
        return 1
    finally:
        dialled.close()
