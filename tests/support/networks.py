"""Two machines in a test: network namespaces joined by a cable (a veth pair), which can be pulled and put back."""

from __future__ import annotations

import itertools
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

_numbers = itertools.count()


def why_not() -> str:
    """Why namespaces cannot be made here; empty where they can."""
    if shutil.which("ip") is None:
        return "needs the program ip (iproute2)"
    tried = subprocess.run(["unshare", "--net", "true"], capture_output=True, text=True)
    return "" if tried.returncode == 0 else "needs the right to make network namespaces"


@dataclass(frozen=True)
class Machines:
    """Two namespaces: their names, which are those of the hosts, and their addresses."""

    names: tuple[str, str]
    addresses: tuple[str, str]

    @property
    def via(self) -> str:
        """For `%ranks hosts --via`: the command that starts a host in one of them."""
        return shlex.join(["ip", "netns", "exec", "{}", sys.executable, "-m", "course_lib.ranks.hosts"])

    def pull(self) -> None:
        """Pull the cable out."""
        _ip("-n", self.names[1], "link", "set", "cable", "down")

    def put_back(self) -> None:
        """Put it in again."""
        _ip("-n", self.names[1], "link", "set", "cable", "up")


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@contextmanager
def two_machines() -> Iterator[Machines]:
    """Two namespaces joined by a cable."""
    number = next(_numbers)
    names = tuple(f"{letter}{os.getpid()}-{number}" for letter in "ab")
    addresses = ("10.83.0.1", "10.83.0.2")
    try:
        for name in names:
            _ip("netns", "add", name)
            _ip("-n", name, "link", "set", "lo", "up")
        _ip(
            "-n", names[0], "link", "add", "cable", "type", "veth", "peer", "name", "cable", "netns", names[1]
        )
        for name, address in zip(names, addresses, strict=True):
            _ip("-n", name, "address", "add", f"{address}/24", "dev", "cable")
            _ip("-n", name, "link", "set", "cable", "up")
        yield Machines((names[0], names[1]), addresses)
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "delete", name], capture_output=True)
