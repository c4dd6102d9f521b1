"""The kernel's side of hosts that dial in: the process that lets them in, and who has come."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import re
import select
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from course_lib.ranks.hosts import trial
from course_lib.ranks.hosts.host import HostError
from course_lib.ranks.hosts.router import AskRefused, Bound, HostCame, RefusedSoFar
from course_lib.ranks.hosts.wire import HostFailed
from course_lib.ranks.messages import decode_message, encode_message
from course_lib.ranks.protocol import Decoder, Message
from course_lib.ranks.server.compatibility import server_environment

#: How long a join file is good for.
JOIN_SECONDS = 24 * 3600.0
_ANSWER_SECONDS = 20.0
_MOST_HOSTS = 1024


def address_of(name: str) -> str:
    """The address of this machine that a network interface has, or that this is.

    Raises:
        HostError: this machine has none such.
    """
    known = trial.addresses()
    for one in known:
        if name in (one.address, one.interface):
            return one.address
    shown = ", ".join(f"{one.address} ({one.interface})" for one in known)
    raise HostError(f"--address {name}: this machine has {shown}.")


class Joining:
    """Waits for hosts that dial in.

    Attributes:
        number: of hosts that may come.
        address: where they are waited for.
        bound: the port there, 0 until it is open, and when the join file expires.
        path: of the join file.
        public: ranks may listen on an address that is not private.
        came: those that have come, and the socket to each.
    """

    def __init__(
        self,
        number: int,
        path: Path,
        address: str = "127.0.0.1",
        *,
        seconds: float = JOIN_SECONDS,
        public: bool = False,
    ) -> None:
        """Open a port and write the join file.

        Args:
            number: of hosts. path: of the join file. address: of this machine, or one of its network interfaces.
            seconds: how long the join file is good for. public: the address may be one of the public internet.

        Raises:
            HostError: one clear line why this cannot be.
        """
        if not 1 <= number <= _MOST_HOSTS:
            raise HostError(f"The number of hosts is 1 to {_MOST_HOSTS}, not {number}.")
        self.number = number
        self.address = address_of(address)
        if ipaddress.ip_address(self.address).is_global and not public:
            raise HostError(f"{self.address} is an address of the public internet. --open allows it.")
        self.path, self.public = path, public
        self.came: dict[str, socket.socket] = {}
        self._refused: Mapping[str, int] | None = None
        self._failed = ""
        self._decoder = Decoder()
        self._sockets: list[int] = []
        self.bound = Bound(0, 0.0)
        self._control, theirs = socket.socketpair()
        os.register_at_fork(after_in_child=self._forget)
        arguments = map(str, (number, self.address, seconds, path))
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "course_lib.ranks.hosts.router", *arguments],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                start_new_session=True,
                env=server_environment(),
            )
        try:
            self.wait(lambda: self.bound.port, _ANSWER_SECONDS)
            if not self.bound.port:
                raise HostError(self._failed or "The process that lets hosts in does not start.")
        except BaseException:
            self.close()
            raise

    def _forget(self) -> None:
        # A child that the kernel forks must not keep the process that lets hosts in from seeing the kernel end.
        for one in (self._control, *self.came.values()):
            with contextlib.suppress(OSError):
                one.close()

    @property
    def complete(self) -> bool:
        """True when all hosts have come."""
        return len(self.came) == self.number

    @property
    def names(self) -> list[str]:
        """Those that have come, in the order in which ranks are dealt to them: node2 before node10."""

        def order(name: str) -> list[tuple[int, str]]:
            return [
                (int(part or 0), "") if part.isdecimal() else (0, part) for part in re.split(r"(\d+)", name)
            ]

        return sorted(self.came, key=order)

    def wait(self, enough: Callable[[], object], seconds: float) -> None:
        """Take in what is said until there is enough of it, at most so long; returns at once when it ends."""
        deadline = time.monotonic() + seconds
        while not enough() and not self._failed:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._control], [], [], left)[0]:
                return
            self._read()

    def wait_for_another(self) -> None:
        """Wait for the next host.

        Raises:
            HostError: none comes any more.
        """
        before = len(self.came)
        self.wait(lambda: len(self.came) > before, max(0.0, self.bound.expires - time.time()))
        if len(self.came) == before:
            raise HostError(
                self._failed or f"{self.path} has expired, and {before} of {self.number} hosts have come."
            )

    def refused(self) -> Mapping[str, int]:
        """How often who was refused, by the reason."""
        self._refused = None
        with contextlib.suppress(OSError):
            self._control.sendall(encode_message(AskRefused()).encode())
        self.wait(lambda: self._refused is not None, _ANSWER_SECONDS)
        return self._refused or {}

    def _read(self) -> None:
        try:
            said, sockets, _, _ = socket.recv_fds(self._control, 1 << 16, 16)
        except OSError:
            said, sockets = b"", []
        for each in sockets:
            os.set_inheritable(each, False)
        self._sockets += sockets
        for message in self._decoder.feed(said):
            self._heard(message)
        if not said:
            self._failed = self._failed or "The process that lets hosts in has ended."

    def _heard(self, message: Message) -> None:
        match message.kind:
            case Bound.kind:
                self.bound = decode_message(Bound, message)
            case HostCame.kind:
                self.came[decode_message(HostCame, message).name] = socket.socket(fileno=self._sockets.pop(0))
            case RefusedSoFar.kind:
                self._refused = decode_message(RefusedSoFar, message).times
            case HostFailed.kind:
                self._failed = decode_message(HostFailed, message).reason

    def close(self) -> None:
        """Close the port, and end the hosts that have come."""
        self._forget()
        try:
            self._process.wait(5.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
