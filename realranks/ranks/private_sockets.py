"""Sockets by which processes of one user find each other: they lie in a folder that no other user may enter.

The folder lies with the system's temporary files, on a local disk: home folders may be shared by several machines, and
their paths may be longer than the address of a socket. Who starts or ends a process that listens there (a zygote, the
watcher of `observe`) holds the folder's lock meanwhile.
"""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path

_CONNECT_SECONDS = 1.0
#: The address of a socket has so many bytes at most, on Linux 107.
_LONGEST = 100


def private_folder() -> Path | None:
    """Return the folder, creating it if need be; None if that fails or the folder is not this user's alone."""
    folder = Path(tempfile.gettempdir()) / f"ddp-course-{os.getuid()}"
    try:
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        found = folder.lstat()  # not stat: a link that another user has put there leads anywhere
    except OSError:
        return None
    ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
    return folder if ours and not stat.S_IMODE(found.st_mode) & 0o077 else None


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the folder's lock; the system releases it, too, when this process ends."""
    import fcntl  # here: a Jupyter server on Windows, where there is none, loads this file

    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


@contextlib.contextmanager
def reachable(address: Path | str) -> Iterator[str]:
    """Give a socket's address as it can be bound or connected to, also where its path is too long (on Linux)."""
    folder, name = os.path.split(address)
    if len(os.fsencode(address)) <= _LONGEST:
        yield str(address)
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{descriptor}/{name}"
    finally:
        os.close(descriptor)


def connected(address: Path | str) -> socket.socket | None:
    """Connect to the process of this user that listens there; None if there is none."""
    wire = socket.socket(socket.AF_UNIX)
    wire.settimeout(_CONNECT_SECONDS)
    try:
        with reachable(address) as short:
            wire.connect(short)
        if other_end(wire)[1] == os.getuid():
            return wire
    except OSError:
        pass
    wire.close()
    return None


def other_end(wire: socket.socket) -> tuple[int, int]:
    """Return the process at the other end, and its user.

    Where the system does not report it: this process, and reliance on the folder's permissions.
    """
    if not hasattr(socket, "SO_PEERCRED"):
        return os.getpid(), os.getuid()
    process, user, _ = struct.unpack("3i", wire.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return process, user


def remove_dead(folder: Path) -> None:
    """Remove the sockets of processes that were killed. Only for who holds the lock."""
    for address in folder.glob("*.socket"):
        with socket.socket(socket.AF_UNIX) as wire, contextlib.suppress(OSError):
            wire.settimeout(_CONNECT_SECONDS)
            try:
                with reachable(address) as short:
                    wire.connect(short)
            except ConnectionRefusedError:  # and nothing else: it may be too busy to answer now
                address.unlink()
