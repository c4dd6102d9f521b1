"""What NCCL counts of a run's collectives, asked of its RAS service: on since NCCL 2.24, in JSON since 2.28.7.

Written after NVIDIA's documentation and source (src/ras/client_support.cc), and tested with a server that speaks like
it; it was never seen on a GPU. Older versions answer in text, which is not read.
"""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Collection, Mapping
from typing import Any

_ADDRESS = "localhost:28028"
_SECONDS = 5.0
#: No longer answer is read.
_MOST_BYTES = 1 << 26
_NO_COLLECTIVES = ("Send", "Recv", "SendRecv")


def counts(environment: Mapping[str, str], pids: Collection[int]) -> dict[int, dict[str, int]]:
    """By process of this machine, how many collectives it has launched in each communicator; empty where not told.

    Args:
        environment: of one of the processes: the service is where NCCL_RAS_ADDR says.
    """
    found: dict[int, dict[str, int]] = {}
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        for communicator in _ask(environment.get("NCCL_RAS_ADDR", _ADDRESS))["communicators"]:
            name = str(communicator["hash"])
            entries = communicator["ranks"]
            numbers = [entry["pid"] for entry in entries]
            for entry in entries:
                pid = entry["pid"]
                # Another machine may have a process of this number.
                if pid in pids and numbers.count(pid) == 1:
                    told = entry["collective_counts"]
                    launched = sum(int(told[one]) for one in told if one not in _NO_COLLECTIVES)
                    found.setdefault(pid, {})[f"{name}/nccl"] = launched
    return found


def _ask(address: str) -> Mapping[str, Any]:
    told = answer(address)
    return dict(json.loads(told[told.index(b"{") :]))


def answer(address: str = _ADDRESS) -> bytes:
    """What the service says of all communicators, as it says it.

    Raises:
        OSError: nobody listens there.
    """
    host, _, port = address.rpartition(":")
    told = b""
    with socket.create_connection((host.strip("[]"), int(port)), timeout=_SECONDS) as wire:
        wire.sendall(b"CLIENT PROTOCOL 2\nTIMEOUT 3\nSET FORMAT json\nVERBOSE STATUS\n")
        while len(told) < _MOST_BYTES and (more := wire.recv(1 << 16)):
            told += more
    return told
