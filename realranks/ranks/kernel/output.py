"""A rank's output: read without blocking, kept within bounds, shown as a terminal would leave it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable

from realranks.outcome.steady import carry_out_returns

HEAD_BYTES = 96 * 1024
TAIL_BYTES = 32 * 1024
_READ_SIZE = 1 << 20
_MAX_READS = 16
#: No pipe holds more, so what follows was written later.
_PIPE_BYTES = 1 << 20


class Output:
    """The bytes of one stream of one rank since `clear()`; the middle of very long output is dropped and counted."""

    def __init__(self) -> None:
        self.dropped = 0
        self.tee: Callable[[bytes], None] | None = None  # is given all bytes as they come
        self._head = bytearray()
        self._tail = bytearray()

    def drain(self) -> None:
        """Read what the rank wrote before its `JobReply`; output from another machine has already arrived."""

    def close(self) -> None:
        """Give back what it holds of the system's."""

    def keep(self, chunk: bytes) -> None:
        """Add what the rank has written."""
        if self.tee is not None:
            self.tee(chunk)
        room = HEAD_BYTES - len(self._head)
        if room > 0:
            self._head += chunk[:room]
            chunk = chunk[room:]
        if chunk:
            self._tail += chunk
            excess = len(self._tail) - TAIL_BYTES
            if excess > TAIL_BYTES:
                del self._tail[:excess]
                self.dropped += excess

    @property
    def size(self) -> int:
        """Bytes received, kept or not."""
        return len(self._head) + len(self._tail) + self.dropped

    def clear(self) -> None:
        """Forget what was read: a new cell begins."""
        self._head.clear()
        self._tail.clear()
        self.dropped = 0

    def text(self) -> str:
        """Return the output as text, after applying carriage returns and backspaces."""
        if not self._head:
            return ""
        text = bytes(self._head).decode("utf-8", "replace")
        if self.dropped:
            text += f"\n… {self.dropped / 1e6:,.1f} MB not shown …\n"
        text += bytes(self._tail).decode("utf-8", "replace")
        return carry_out_returns(text)


class OutputBuffer(Output):
    """Output that is read from a pipe."""

    def __init__(self, fd: int) -> None:
        super().__init__()
        self.fd = fd
        os.set_blocking(fd, False)

    def fileno(self) -> int:
        """Return the pipe's descriptor, for selectors."""
        return self.fd

    def close(self) -> None:
        """Give the descriptor back."""
        with contextlib.suppress(OSError):
            os.close(self.fd)

    def read(self) -> bool:
        """Take what is there (not for ever, if the rank never stops writing); False at the end of the stream."""
        for _ in range(_MAX_READS):
            try:
                chunk = os.read(self.fd, _READ_SIZE)
            except (BlockingIOError, InterruptedError):
                return True
            except OSError:
                return False
            if not chunk:
                return False
            self.keep(chunk)
            if len(chunk) < 4096:
                return True
        return True

    def drain(self) -> None:
        """Read until the pipe is empty: what was written before the rank sent its `JobReply` is in it."""
        left = _PIPE_BYTES
        while left > 0:
            try:
                chunk = os.read(self.fd, left)
            except OSError:
                return
            if not chunk:
                return
            self.keep(chunk)
            left -= len(chunk)
