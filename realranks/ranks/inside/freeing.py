"""Wake a rank that is blocked in a collective, from its control thread.

Used inside a rank. Two traps are handled here:

* A gloo group cannot be aborted from another thread. What wakes a blocked collective is shutting down the group's
  *connected* TCP sockets; its listening socket must be left alone (gloo aborts the process when that one fails).
* NCCL's communicators are aborted, all of them in one go. One that is only being made, in a first collective that some
  ranks have not joined, cannot be aborted: the cut of the store ends the wait, or the rank is killed.
"""

from __future__ import annotations

import contextlib
import gc
import os
import socket
import stat
import threading

from realranks.ranks.inside.groups import backends_of, names, uses_cuda

#: How long freeing waits for NCCL's abort: less than the kernel waits for an answer (`stop_ranks.patience`).
ABORT_SECONDS = 1.0


def free_blocked(store_port: int | None) -> int:
    """Wake every collective this rank is blocked in; returns how many connections were shut down.

    The blocked call raises RuntimeError at once, on this rank and on its peers. Safe to call from another thread.
    The connection to the store at `store_port` is spared; with None it is cut as well, which ends a wait for a key. A
    new process group makes a new one.
    """
    if uses_cuda():
        # It may take as long as the group's timeout. The thread that answers the kernel must not be lost to it; a rank
        # that is not free in time is killed.
        aborting = threading.Thread(target=abort_nccl, name="course-aborting", daemon=True)
        aborting.start()
        aborting.join(ABORT_SECONDS)
    learners = {sock.fileno() for sock in gc.get_objects() if issubclass(type(sock), socket.socket)}
    shut = 0
    for entry in os.listdir("/proc/self/fd" if os.path.isdir("/proc/self/fd") else "/dev/fd"):
        fd = int(entry)
        if fd not in learners and _is_socket(fd):
            shut += _shut_down_connection(fd, store_port)
    return shut


def abort_nccl() -> int:
    """Abort the NCCL communicators of all groups of this rank; returns of how many groups.

    Done as torch's `_abort_process_group` does it: the newest groups first, and all in one NCCL group call, because
    communicators that are aborted one by one can wait for each other. Unlike there the groups stay known: a rebuilt
    group needs the wrappers of the old one. The collectives end on the GPUs without an error, and what they were to
    write is garbage.
    """
    aborted = 0
    with contextlib.suppress(Exception):
        newest_first = sorted(names(), key=lambda named: named[1], reverse=True)
        backends = [one for group, _ in newest_first for one in backends_of(group) if one.name() == "nccl"]
        if not backends:
            return 0
        opener = backends[-1]
        opener._group_start()
        try:
            for backend in backends:
                with contextlib.suppress(Exception):  # one that is broken must not keep the others
                    backend.abort()
                    aborted += 1
        finally:
            opener._group_end()
    return aborted


def _is_socket(fd: int) -> bool:
    try:
        return stat.S_ISSOCK(os.fstat(fd).st_mode)
    except OSError:
        return False


def _shut_down_connection(fd: int, store_port: int | None) -> int:
    try:
        copy = os.dup(fd)
    except OSError:
        return 0  # its owner has closed it meanwhile
    with socket.socket(fileno=copy) as sock:
        if sock.family not in (socket.AF_INET, socket.AF_INET6) or sock.type != socket.SOCK_STREAM:
            return 0
        try:
            if sock.getpeername()[1] == store_port:
                return 0
            sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            return 0  # the listening socket: shutting it down would abort the process
        return 1
