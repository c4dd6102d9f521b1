"""A network, and shared memory, that only one gang is in: namespaces of its own, without root, where Linux allows it.

In it ranks reach each other by the loopback interface, as always. There is no other interface: no machine can be
reached, nor a port of this one. Shared memory is small, and goes with the ranks. All other files are as they are.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import functools
import os
import socket
import struct

from realranks.ranks.process import libc

_KINDS = {"user": 0x10000000, "net": 0x40000000, "mnt": 0x00020000}
_SET_FLAGS, _UP = 0x8914, 1
_NO_SETUID, _NO_DEVICES = 2, 4
_CAPABILITIES_VERSION = 0x20080522
_SHARED_MEMORY = b"mode=1777,size=256m"


@functools.cache
def allowed() -> bool:
    """Return whether the system lets this process make such a place; a forked child tries it."""
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            enter_new()
            os._exit(0)
        os._exit(1)
    return os.waitpid(child, 0)[1] == 0


def enter_new() -> None:
    """Move this process, which has one thread, to a new place of this kind.

    Raises:
        OSError: the system does not allow it.
    """
    user, group = os.getuid(), os.getgid()
    _check(libc().unshare(sum(_KINDS.values())))
    for name, text in (
        ("setgroups", "deny"),
        ("gid_map", f"{group} {group} 1"),
        ("uid_map", f"{user} {user} 1"),
    ):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
            file.write(text)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, _SET_FLAGS, struct.pack("16sh22x", b"lo", _UP))
    _check(libc().mount(b"tmpfs", b"/dev/shm", b"tmpfs", _NO_SETUID | _NO_DEVICES, _SHARED_MEMORY))


def enter(process: int) -> None:
    """Move this process, which has one thread, to the place that another one has made, to the root folder.

    Raises:
        OSError: that process has gone.
    """
    with contextlib.ExitStack() as stack:
        places = [stack.enter_context(open(f"/proc/{process}/ns/{kind}", "rb")) for kind in _KINDS]
        for place, kind in zip(places, _KINDS.values(), strict=True):
            _check(libc().setns(place.fileno(), kind))
    # Who enters has all rights over that network; a rank needs none of them.
    _check(libc().capset(struct.pack("Ii", _CAPABILITIES_VERSION, 0), bytes(24)))


def _check(result: int) -> None:
    if result:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
