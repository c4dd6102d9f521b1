"""The traffic on other processes' TCP connections, queried from Linux by netlink (sock_diag(7)), as `ss -ti` does.

Nothing of the processes is touched. Only connections of this network namespace are told.
"""

from __future__ import annotations

import os
import re
import socket
import struct
from dataclasses import dataclass

_SOCK_DIAG_BY_FAMILY = 20
_REQUEST, _DUMP = 1, 0x300
_DONE, _ERROR = 3, 2
_INFO = 2
_ESTABLISHED = 1 << 1
#: `tcpi_bytes_acked` and `tcpi_bytes_received` in Linux' `struct tcp_info`, as `inside/traffic.py` reads them.
_BYTES = struct.Struct("<120xQQ")
#: `struct inet_diag_msg` up to the addresses, and behind the socket's id.
_ID, _REST = struct.Struct(">4xHH16s16s"), struct.Struct("<12xIIIII")
_REST_AT = 40
_MESSAGE_BYTES = 72


@dataclass(frozen=True)
class Connection:
    """One end of an established connection: addresses with ports, bytes carried, bytes that one side has not taken."""

    mine: tuple[bytes, int]
    theirs: tuple[bytes, int]
    moved: int
    in_flight: int


def connections() -> dict[int, Connection] | None:
    """List the established TCP connections of this network namespace, by socket number; None if unavailable."""
    found: dict[int, Connection] = {}
    try:
        for family in (socket.AF_INET, socket.AF_INET6):
            found.update(_of_family(family))
    except (OSError, AttributeError, struct.error):
        return None
    return found


def _of_family(family: int) -> dict[int, Connection]:
    found: dict[int, Connection] = {}
    request = struct.pack("<BBBBI48x", family, socket.IPPROTO_TCP, 1 << (_INFO - 1), 0, _ESTABLISHED)
    header = struct.pack("<IHHII", 16 + len(request), _SOCK_DIAG_BY_FAMILY, _REQUEST | _DUMP, 1, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, 4) as wire:
        wire.settimeout(2.0)
        wire.send(header + request)
        while True:
            data = wire.recv(1 << 20)
            while len(data) >= 16:
                size, kind = struct.unpack_from("<IH", data)
                if kind == _DONE:
                    return found
                if kind == _ERROR or size < 16:
                    raise OSError("netlink")
                _read(data[16:size], found)
                data = data[(size + 3) & ~3 :]


def _read(message: bytes, found: dict[int, Connection]) -> None:
    if len(message) < _MESSAGE_BYTES:
        return
    own, other, mine, theirs = _ID.unpack_from(message)
    _, unread, unsent, _, inode = _REST.unpack_from(message, _REST_AT)
    moved, rest = 0, message[_MESSAGE_BYTES:]
    while len(rest) >= 4:
        size, kind = struct.unpack_from("<HH", rest)
        if kind == _INFO and size >= 4 + _BYTES.size:
            moved = sum(_BYTES.unpack_from(rest, 4))
        rest = rest[max((size + 3) & ~3, 4) :]
    found[inode] = Connection((mine, own), (theirs, other), moved, unread + unsent)


def sockets_of(pid: int) -> set[int]:
    """Return the numbers of a process's sockets.

    Raises:
        OSError: the system does not tell this user.
    """
    found = set()
    folder = f"/proc/{pid}/fd"
    for name in os.listdir(folder):
        try:
            match = re.fullmatch(r"socket:\[(\d+)\]", os.readlink(f"{folder}/{name}"))
        except OSError:
            continue  # closed meanwhile
        if match is not None:
            found.add(int(match[1]))
    return found


def same_network(pid: int) -> bool:
    """Check whether a process is in this network namespace, so that `connections` includes its own."""
    try:
        return os.readlink(f"/proc/{pid}/ns/net") == os.readlink("/proc/self/ns/net")
    except OSError:
        return False
