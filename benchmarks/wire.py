"""JSON lines over a local socket by which the benchmark tells the ranks of a script to run something.

Scripts run to their end; without this a step inside one could not be measured from outside as a cell can.
"""

from __future__ import annotations

import json
import selectors
import socket
import time
from typing import Any

ADDRESS = "DDP_BENCHMARK_SOCKET"


class Line:
    """One connection."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self._file = connection.makefile("rw", encoding="utf-8")

    def send(self, **data: Any) -> None:
        """Write a message."""
        self._file.write(json.dumps(data) + "\n")
        self._file.flush()

    def receive(self) -> dict[str, Any]:
        """Return the next message.

        Raises:
            ConnectionError: the other side is gone.
        """
        line = self._file.readline()
        if not line:
            raise ConnectionError("the other side is gone")
        message: dict[str, Any] = json.loads(line)
        return message


def connect(address: str) -> Line:
    """Connect from the ranks' side."""
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(address)
    return Line(connection)


class Desk:
    """The benchmark's side: takes calls, and collects one answer from each line."""

    def __init__(self, address: str) -> None:
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(address)
        self._listener.listen(64)
        self.address = address

    def expect_call(self, seconds: float) -> Line:
        """Wait for the next process that connects.

        Raises:
            TimeoutError: nobody does.
        """
        self._listener.settimeout(seconds)
        connection, _ = self._listener.accept()
        connection.settimeout(None)
        return Line(connection)

    def close(self) -> None:
        """Take no more calls."""
        self._listener.close()


def collect(lines: list[Line], seconds: float) -> list[dict[str, Any]] | None:
    """Read one message from each line; None if one of them does not come in time.

    Raises:
        ConnectionError: a rank is gone.
    """
    deadline = time.monotonic() + seconds
    answers: dict[Line, dict[str, Any]] = {}
    with selectors.DefaultSelector() as selector:
        for line in lines:
            selector.register(line.connection, selectors.EVENT_READ, line)
        while len(answers) < len(lines):
            ready = selector.select(max(0.0, deadline - time.monotonic()))
            if not ready:
                return None
            for key, _ in ready:
                answers[key.data] = key.data.receive()
                selector.unregister(key.fileobj)
    return [answers[line] for line in lines]
