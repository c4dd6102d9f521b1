"""System calls that an answer may not make, where the kernel can refuse them: a seccomp filter, in Linux, without root.

Refused is what reaches into other processes or the machine, and what no answer needs: tracing, the limits, priorities
and cores of another process, keys, namespaces, mounts, the clock. The filter holds for all threads, also for those
that run already, and for whatever they start, for good.

The numbers are those of `linux/seccomp.h`, `linux/filter.h` and the processors' tables of system calls.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys
from collections.abc import Sequence

from realranks.ranks.process import libc

_SET_MODE_FILTER, _ALL_THREADS = 1, 1
_LOAD, _IF_EQUAL, _IF_AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000 | errno.EPERM
_NUMBER, _PROCESSOR, _ARGUMENTS = 0, 4, 16
#: Of another ABI of the same processor (x32), with numbers of its own.
_OTHER_ABI = 0x40000000

#: By machine: its name in the kernel, and the number of the call that sets the filter. Other calls' numbers stand in
#: the same order.
_MACHINES = {"x86_64": (0xC000003E, 317), "aarch64": (0xC00000B7, 277)}
_REFUSED = {
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "pidfd_getfd": (438, 438),
    "process_madvise": (440, 440),
    "process_mrelease": (448, 448),
    "kcmp": (312, 272),
    "perf_event_open": (298, 241),
    "bpf": (321, 280),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "unshare": (272, 97),
    "setns": (308, 268),
    "mount": (165, 40),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "adjtimex": (159, 171),
    "clock_adjtime": (305, 266),
}
#: Those that take the number of a process, in which argument; 0 is the caller itself.
_OF_A_PROCESS = {
    "prlimit64": ((302, 261), 0),
    "sched_setaffinity": ((203, 122), 0),
    "sched_setscheduler": ((144, 119), 0),
    "sched_setparam": ((142, 118), 0),
    "sched_setattr": ((314, 274), 0),
    "setpriority": ((141, 140), 1),
    "ioprio_set": ((251, 30), 1),
}


def restrict() -> bool:
    """Refuse these calls to this process, which has given up new privileges; returns whether the kernel does."""
    machine = platform.machine()
    if sys.platform != "linux" or machine not in _MACHINES:
        return False
    filter_ = b"".join(struct.pack("=HBBI", *one) for one in _program(machine, os.getpid()))
    kept = ctypes.create_string_buffer(filter_, len(filter_))
    program = struct.pack("HxxxxxxP", len(filter_) // 8, ctypes.addressof(kept))
    return call(_MACHINES[machine][1], _SET_MODE_FILTER, _ALL_THREADS, program) == 0


def _program(machine: str, own: int) -> Sequence[tuple[int, int, int, int]]:
    """Return the filter's steps: what is done, how many steps to jump if so and if not, with which number."""
    column = list(_MACHINES).index(machine)
    steps = [
        (_LOAD, 0, 0, _PROCESSOR),
        (_IF_EQUAL, 1, 0, _MACHINES[machine][0]),
        (_RETURN, 0, 0, _REFUSE),
        (_LOAD, 0, 0, _NUMBER),
        (_IF_AT_LEAST, 0, 1, _OTHER_ABI),
        (_RETURN, 0, 0, _REFUSE),
    ]
    for numbers in _REFUSED.values():
        steps += [(_IF_EQUAL, 0, 1, numbers[column]), (_RETURN, 0, 0, _REFUSE)]
    for numbers, argument in _OF_A_PROCESS.values():
        steps += [
            (_IF_EQUAL, 0, 5, numbers[column]),
            (_LOAD, 0, 0, _ARGUMENTS + 8 * argument),
            (_IF_EQUAL, 2, 0, 0),
            (_IF_EQUAL, 1, 0, own),
            (_RETURN, 0, 0, _REFUSE),
            (_RETURN, 0, 0, _ALLOW),
        ]
    return [*steps, (_RETURN, 0, 0, _ALLOW)]


def call(number: int, *arguments: int | bytes | None) -> int:
    """Call the system: numbers are passed on as longs, bytes by their address."""
    words = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    return int(libc().syscall(ctypes.c_long(number), *words))
