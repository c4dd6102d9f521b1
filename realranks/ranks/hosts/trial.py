"""By which addresses machines reach each other: each listens for a moment, and tries the addresses of the others.

An address may be another machine's, too (every machine with docker has 172.17.0.1): who answers has to say a word that
only the right one knows.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import psutil

from realranks.ranks.hosts.wire import Address, AddressesProbed, ProbeAddresses, ProbePortOpen

_MAX_AT_ONCE = 64


def addresses() -> tuple[Address, ...]:
    """List the IPv4 addresses at which another machine might reach this one, then the loopback address."""
    found = [
        Address(one.address, interface)
        for interface, those in psutil.net_if_addrs().items()
        for one in those
        if one.family == socket.AF_INET
    ]
    return tuple(sorted(found, key=lambda one: one.address.startswith("127.")))


class Listener:
    """A port of all addresses, open for the time of a trial."""

    def __init__(self, word: str) -> None:
        self._word = word.encode()
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._socket.bind(("", 0))
        self._socket.listen(1024)
        self.listening = ProbePortOpen(self._socket.getsockname()[1])
        threading.Thread(target=self._answer, name="course-trial", daemon=True).start()

    def _answer(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                caller, _ = self._socket.accept()
                with contextlib.suppress(OSError), caller:
                    caller.sendall(self._word)

    def close(self) -> None:
        """Close the port."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


def tried(wanted: ProbeAddresses) -> AddressesProbed:
    """ProbeAddresses all targets at once; empty is what was in the way where one could be reached."""
    with ThreadPoolExecutor(_MAX_AT_ONCE) as pool:
        results = pool.map(
            lambda target: _try(target[0], target[1], target[2], wanted.seconds), wanted.targets
        )
        return AddressesProbed(
            {target[0]: result for target, result in zip(wanted.targets, results, strict=True)}
        )


def _try(address: str, port: int, word: str, seconds: float) -> str:
    try:
        with socket.create_connection((address, port), timeout=seconds) as wire:
            said = b""
            while len(said) < len(word) and (chunk := wire.recv(len(word) - len(said))):
                said += chunk
    except TimeoutError:
        return "no answer"
    except OSError as error:
        return (error.strerror or str(error)).lower()
    return "" if said == word.encode() else "another machine answers there"
