"""The bytes this process has sent over its TCP connections, as counted by the operating system.

Where gloo connects the ranks, that is what its collectives really send: payload, and a few bytes of headers of gloo's.
"""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import struct
import sys

# Where `tcpi_bytes_sent` and `tcpi_bytes_retrans` are in Linux' `struct tcp_info` (linux/tcp.h, since Linux 4.19).
_SENT = struct.Struct("<200xQQ")


def bytes_sent() -> int | None:
    """Count the bytes that this process has sent so far; use the difference around what is to be measured.

    None if the system does not report it (Linux does).
    """
    if not sys.platform.startswith("linux"):
        return None
    counted = [count for count in map(_sent_on, os.listdir("/proc/self/fd")) if count is not None]
    return sum(counted) if counted else None


def _sent_on(name: str) -> int | None:
    """Count the bytes sent on this descriptor, without retransmissions; None if it is not a TCP connection."""
    with contextlib.suppress(OSError):  # closed meanwhile, or no connection
        if not stat.S_ISSOCK(os.fstat(int(name)).st_mode):
            return None
        with socket.socket(fileno=os.dup(int(name))) as connection:
            if connection.family not in (socket.AF_INET, socket.AF_INET6):
                return None
            info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
            if len(info) >= _SENT.size:
                sent, again = _SENT.unpack_from(info)
                return int(sent) - int(again)
    return None
