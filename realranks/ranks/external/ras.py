"""NCCL's counts of a run's collectives, from its RAS service: on since NCCL 2.24, in JSON since 2.28.7.

Written after NVIDIA's documentation and source (src/ras/client_support.cc), and tested with a server that speaks like
it; it was never seen on a GPU. Older versions answer in text, which is not read. A thread of the
ranks answers, which has crashed some of them (NVIDIA/nccl#2346, #1762): it is asked on demand only.
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
_MAX_BYTES = 1 << 26
_NO_COLLECTIVES = ("Send", "Recv", "SendRecv")


def counts(environment: Mapping[str, str], pids: Collection[int]) -> dict[int, dict[str, int]]:
    """Ask how many collectives each process of this machine has launched in each communicator; empty if unanswered.

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
                    by_kind = entry["collective_counts"]
                    launched = sum(int(by_kind[one]) for one in by_kind if one not in _NO_COLLECTIVES)
                    found.setdefault(pid, {})[f"{name}/nccl"] = launched
    return found


def _ask(address: str) -> Mapping[str, Any]:
    text = answer(address)
    return dict(json.loads(text[text.index(b"{") :]))


def answer(address: str = _ADDRESS) -> bytes:
    """Ask the service for all communicators, and return its raw answer.

    Raises:
        OSError: nobody listens there.
    """
    host, _, port = address.rpartition(":")
    text = b""
    with socket.create_connection((host.strip("[]"), int(port)), timeout=_SECONDS) as wire:
        wire.sendall(b"CLIENT PROTOCOL 2\nTIMEOUT 3\nSET FORMAT json\nVERBOSE STATUS\n")
        while len(text) < _MAX_BYTES and (more := wire.recv(1 << 16)):
            text += more
    return text
