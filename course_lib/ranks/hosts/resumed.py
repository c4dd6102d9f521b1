"""A wire that outlives its connections: numbered pieces in both directions, sent again where they were lost.

ZMQ connects again by itself, and says nothing of what was under way when a connection was lost. So each side keeps
what the other has not acknowledged. A host that has a new connection says which piece it has got last, the kernel's
side does the same, and both send again what follows. What comes twice, or too early, is dropped by its number.
"""

from __future__ import annotations

import contextlib
import socket
import struct
from collections import deque
from collections.abc import Callable

import zmq

#: Bytes in a piece at most, and how many pieces may be without an acknowledgement.
_PIECE, WINDOW = 1 << 16, 64
#: Kind, number of the piece, number of the last piece that has come.
_HEAD = struct.Struct("!cQQ")
#: What a frame is: a host asks to be let in, or to go on; it may; it may not, and why; a piece; an acknowledgement.
HELLO, WELCOME, REFUSED, PIECE, ACKNOWLEDGED = b"H", b"W", b"R", b"P", b"A"
#: Milliseconds between two heartbeats of a connection, and without one until it counts as lost.
HEARTBEAT_MS, LOST_MS = 1000, 3000


def frame(kind: bytes, acknowledged: int = 0, number: int = 0) -> bytes:
    """The head of a frame."""
    return _HEAD.pack(kind, number, acknowledged)


def read_frame(head: bytes) -> tuple[bytes, int, int]:
    """Kind, number and acknowledgement of a frame; the kind is empty where it is none."""
    return _HEAD.unpack(head) if len(head) == _HEAD.size else (b"", 0, 0)


class ResumedWire:
    """One end: what a local socket says goes out in pieces, and what comes in is written to it.

    Attributes:
        local: the socket; an empty piece stands for the end of what it says.
        came: number of the last piece that has come.
    """

    def __init__(self, local: socket.socket, send: Callable[[bytes, bytes], object]) -> None:
        """`send` takes the head of a frame and its content; it never blocks, and what it sends may be lost."""
        local.setblocking(False)
        self.local = local
        self.came = 0
        self._send = send
        self._kept: deque[bytes] = deque()
        self._sent = 0
        self._written = self._confirmed = 0
        self._unwritten = bytearray()
        self._all_said = self._all_heard = False

    @property
    def done(self) -> bool:
        """True when both directions have ended."""
        return self._all_said and self._all_heard and not self._unwritten

    @property
    def ended(self) -> bool:
        """True when the local socket has ended."""
        return self._all_said

    @property
    def delivered(self) -> bool:
        """True when the local socket has ended, and the other side has everything that it has said."""
        return self._all_said and not self._kept

    @property
    def events(self) -> int:
        """What to wait for on the local socket, for a `zmq.Poller`."""
        reads = not self._all_said and len(self._kept) < WINDOW
        return (zmq.POLLIN if reads else 0) | (zmq.POLLOUT if self._unwritten else 0)

    def serve(self, events: int) -> None:
        """Do what the local socket is ready for."""
        if self._unwritten:
            self._write()
        if events & ~zmq.POLLOUT and self.events & zmq.POLLIN:
            self._read()

    def _read(self) -> None:
        try:
            piece = self.local.recv(_PIECE)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            piece = b""
        self._all_said = not piece
        self._kept.append(piece)
        self._sent += 1
        self._send_piece(self._sent, piece)

    def _send_piece(self, number: int, piece: bytes) -> None:
        self._confirmed = self._written
        self._send(frame(PIECE, self._written, number), piece)

    def acknowledge(self, number: int) -> None:
        """The other side has all pieces up to this one."""
        while self._kept and self._sent - len(self._kept) < number:
            self._kept.popleft()

    def resume(self, acknowledged: int) -> None:
        """There is a new connection, and the other side has all pieces up to this one: send those that follow."""
        self.acknowledge(acknowledged)
        first = self._sent - len(self._kept) + 1
        for number, piece in enumerate(self._kept, first):
            self._send_piece(number, piece)

    def hear(self, kind: bytes, number: int, acknowledged: int, content: bytes) -> None:
        """The other side says a piece, or acknowledges some; frames of other kinds are not for the wire."""
        if kind in (PIECE, ACKNOWLEDGED):
            self.acknowledge(acknowledged)
        if kind == PIECE:
            self.take(number, content)

    def take(self, number: int, piece: bytes) -> None:
        """A piece has come; one that came before, or that comes before its turn, is dropped."""
        if number != self.came + 1 or self._all_heard:
            return
        self.came = number
        self._all_heard = not piece
        self._unwritten += piece
        self._write()

    def _write(self) -> None:
        while self._unwritten:
            try:
                written = self.local.send(memoryview(self._unwritten)[: 1 << 20])
            except (BlockingIOError, InterruptedError):
                return
            except OSError:
                written = len(self._unwritten)  # nobody is there who could read it
            del self._unwritten[:written]
        if self._all_heard:
            with contextlib.suppress(OSError):
                self.local.shutdown(socket.SHUT_WR)
        self._written = self.came
        # Not each piece: what is kept without need costs memory only. Not before it is written, which slows the sender.
        if self._written - self._confirmed >= WINDOW // 4 or self._all_heard:
            self._confirmed = self._written
            self._send(frame(ACKNOWLEDGED, self._written), b"")
