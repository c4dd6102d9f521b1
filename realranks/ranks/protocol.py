"""Framing between the kernel and a rank: JSON header plus opaque bytes, over a socket.

Owns the wire format and nothing else. The header is JSON, so that reading what a rank sends never runs code from
that rank; values travel as bytes that are unpickled only when they are asked for (`Outcome.values`).
"""

from __future__ import annotations

import abc
import json
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

# Held here: the learner's code shares the rank's process, and may replace json's functions.
_write = json.JSONEncoder(separators=(",", ":")).encode
_read = json.JSONDecoder().raw_decode

_HEADER = struct.Struct("!II")
_READ_SIZE = 1 << 16
MAX_HEADER_BYTES = 64 << 20
MAX_BLOB_BYTES = 1 << 30


class ProtocolError(Exception):
    """The bytes on the wire are no message: the peer is not (or no longer) a rank of this course."""


@dataclass(frozen=True)
class Message:
    """One message: `kind` says what it is, `data` is JSON-able, `blob` are opaque bytes.

    What a kind's `data` has in it is said by a dataclass of its own: see `messages` and `starting`.
    """

    kind: str
    data: dict[str, object] = field(default_factory=dict)
    blob: bytes = b""

    def encode(self) -> bytes:
        """Encode the message as bytes, ready to be written to a socket."""
        header = _write({"kind": self.kind, "data": self.data}).encode("ascii")
        return _HEADER.pack(len(header), len(self.blob)) + header + self.blob


def send_with_fds(sock: socket.socket, message: Message, fds: Sequence[int]) -> None:
    """Write the whole message, with these descriptors; raises OSError when the peer is gone."""
    data = message.encode()
    sent = socket.send_fds(sock, [data], fds)
    # The peer may close the wire when it has all: even to send nothing would fail then.
    if sent < len(data):
        sock.sendall(data[sent:])


class Decoder:
    """Turns a stream of bytes into messages, keeping what is incomplete for the next call."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, chunk: bytes) -> Iterator[Message]:
        """Yield every message that is complete once `chunk` has arrived.

        Raises:
            ProtocolError: the bytes cannot be a message.
        """
        self._buffer += chunk
        while len(self._buffer) >= _HEADER.size:
            header_size, blob_size = _HEADER.unpack_from(self._buffer)
            if header_size > MAX_HEADER_BYTES or blob_size > MAX_BLOB_BYTES:
                raise ProtocolError(f"message of {header_size} + {blob_size} bytes announced")
            end = _HEADER.size + header_size + blob_size
            if len(self._buffer) < end:
                return
            header = bytes(self._buffer[_HEADER.size : _HEADER.size + header_size])
            blob = bytes(self._buffer[_HEADER.size + header_size : end])
            del self._buffer[:end]
            try:
                fields, length = _read(header.decode("ascii"))
                kind, data = fields["kind"], fields["data"]
            except (ValueError, KeyError, TypeError, RecursionError) as error:
                raise ProtocolError(f"no message: {header[:80]!r}") from error
            if not isinstance(kind, str) or not isinstance(data, dict) or length != header_size:
                raise ProtocolError(f"no message: {header[:80]!r}")
            yield Message(kind, data, blob)


class BlockingChannel:
    """A rank's end of the wire: blocking reads on one thread, writes from any thread."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._decoder = Decoder()
        self._ready: list[Message] = []
        self._lock = threading.Lock()

    def send(self, message: Message) -> None:
        """Write the whole message; raises OSError when the kernel is gone."""
        data = message.encode()
        with self._lock:
            self.sock.sendall(data)

    def receive(self) -> Message | None:
        """Return the next message, or None when the kernel closed its end."""
        while not self._ready:
            try:
                chunk = self.sock.recv(_READ_SIZE)
            except InterruptedError:
                continue
            except OSError:
                return None
            if not chunk:
                return None
            self._ready.extend(self._decoder.feed(chunk))
        return self._ready.pop(0)

    def buffered(self) -> BufferedChannel:
        """Continue the same wire without blocking; what has already arrived comes first."""
        channel = BufferedChannel(self.sock)
        channel.take_over(self._decoder, self._ready)
        return channel


class Channel(abc.ABC):
    """The kernel's end of the wire to one rank, however its bytes travel; never blocks."""

    def __init__(self) -> None:
        self.closed = False
        #: Told when the channel begins or ends to want to write, and when it closes (see `Wires`).
        self.on_change: Callable[[], None] = lambda: None
        self._decoder = Decoder()
        self._early: list[Message] = []

    def take_over(self, decoder: Decoder, early: list[Message]) -> None:
        """Go on where a blocking channel has stopped reading."""
        self._decoder, self._early = decoder, list(early)

    def send(self, message: Message) -> None:
        """Queue the message and write as much as the rank takes now."""
        self.send_encoded(message.encode())

    @abc.abstractmethod
    def send_encoded(self, message: bytes) -> None:
        """Send a message that has already been encoded, once for many ranks."""

    @abc.abstractmethod
    def chunks(self) -> Iterator[bytes]:
        """Yield the bytes that have arrived; set `closed` at the end of the stream."""

    def receive(self) -> list[Message]:
        """Return all messages that have arrived; set `closed` if the rank is gone or sends something malformed."""
        messages, self._early = self._early, []
        for chunk in self.chunks():
            try:
                messages.extend(self._decoder.feed(chunk))
            except ProtocolError:
                self.closed = True
        if self.closed:
            self.on_change()
        return messages

    def mark_closed(self) -> None:
        """Close a channel on which something other than the course's messages arrived."""
        self.closed = True
        self.on_change()

    def close(self) -> None:
        """Close it; the rank sees the end of the stream and leaves."""
        self.mark_closed()


class BufferedChannel(Channel):
    """A channel over a socket that never blocks, even if a stopped rank reads nothing."""

    def __init__(self, sock: socket.socket) -> None:
        super().__init__()
        self.sock = sock
        self._outgoing = bytearray()
        self._announced = False
        sock.setblocking(False)

    def fileno(self) -> int:
        """Return the socket's file descriptor, for selectors."""
        return self.sock.fileno()

    @property
    def wants_write(self) -> bool:
        """True while bytes wait for the rank to read."""
        return bool(self._outgoing) and not self.closed

    def send_encoded(self, message: bytes) -> None:
        """Queue a message that has been encoded and write as much as the rank takes now."""
        self._outgoing += message
        self.flush()

    def flush(self) -> None:
        """Write what fits into the socket without blocking."""
        while self._outgoing and not self.closed:
            try:
                written = self.sock.send(memoryview(self._outgoing)[: 1 << 20])
            except (BlockingIOError, InterruptedError):
                break
            except OSError:
                self.closed = True
                break
            del self._outgoing[:written]
        if self.closed or self.wants_write != self._announced:
            self._announced = self.wants_write
            self.on_change()

    def chunks(self) -> Iterator[bytes]:
        """Yield the bytes that have arrived; set `closed` at the end of the stream."""
        while not self.closed:
            try:
                chunk = self.sock.recv(_READ_SIZE)
            except (BlockingIOError, InterruptedError):
                return
            except OSError:
                chunk = b""
            if chunk:
                yield chunk
            else:
                self.closed = True

    def close(self) -> None:
        """Close the socket; the rank sees the end of the stream and leaves."""
        super().close()
        self.sock.close()
