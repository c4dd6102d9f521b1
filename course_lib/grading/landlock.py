"""What an answer may touch, where the kernel can hold it to that: Landlock, in Linux from 5.13 on, without root.

It reads what Python and torch read, and writes into its own folder and shared memory. No other file can be opened, no
process outside can be traced, and from Linux 6.12 on none can be signalled. It holds for the thread that calls
`restrict` and for all threads and processes that this one starts, for good; not for threads that run already, such as
the backend's own.

The constants are those of `linux/landlock.h`.
"""

from __future__ import annotations

import contextlib
import os
import struct
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from course_lib.grading.system_calls import call
from realranks import own_code

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same on every processor
_VERSION, _PATH_BENEATH = 1, 1
_EXECUTE, _WRITE, _READ, _LIST, _TRUNCATE, _DEVICE = 1 << 0, 1 << 1, 1 << 2, 1 << 3, 1 << 14, 1 << 15
_OF_A_FILE = _EXECUTE | _WRITE | _READ | _TRUNCATE | _DEVICE
#: How many of these rights the kernel knows, by Landlock's version.
_KNOWN = {1: 13, 2: 14, 3: 15, 4: 15}
_SCOPES = 0b11  # abstract sockets and signals, from version 6 on
_SYSTEM = ("/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin", "/etc", "/opt", "/proc", "/sys", "/nix")


def version() -> int:
    """Return the version of the kernel's Landlock; 0 where there is none, or it is switched off."""
    if sys.platform != "linux":
        return 0
    return max(0, call(_CREATE_RULESET, None, 0, _VERSION))


def restrict(folder: Path, hidden: Iterable[Path]) -> bool:
    """Confine this thread, and whatever it starts, to its folder and to what Python reads.

    It must have given up new privileges.

    Args:
        folder: where it may do anything.
        hidden: folders that it may not read, also where Python's own are around them.

    Returns:
        whether the kernel holds it to that.
    """
    known = version()
    if not known:
        return False
    rights = (1 << _KNOWN.get(known, 16)) - 1
    attributes = struct.pack("QQQ", rights, 0, _SCOPES)[: 24 if known >= 6 else 8]
    rules = call(_CREATE_RULESET, attributes, len(attributes), 0)
    if rules < 0:
        return False
    try:
        shared = rights & ~_EXECUTE
        allowed = [
            (folder, rights),
            (Path("/dev/shm"), shared),
            (Path("/dev"), _READ | _WRITE | _LIST | _DEVICE),
        ]
        secrets = {path.resolve() for path in hidden}
        around = {folder for path in secrets for folder in path.parents}
        for root in _of_python():
            # A folder around a secret cannot be listed. Imports find modules there all the same: they know what is in a
            # folder from which something has been loaded.
            allowed += [(path, _READ | _LIST | _EXECUTE) for path in _without(root, secrets, around)]
        for path, access in allowed:
            _allow(rules, path, access & rights)
        return call(_RESTRICT_SELF, rules, 0) == 0
    finally:
        os.close(rules)


def _of_python() -> list[Path]:
    """Return the folders from which Python, torch and the course load what they need, and the system's."""
    ours = set(own_code.folders().values())
    checkouts = {
        package.parent for package in ours
    }  # on sys.path where not installed; the rest is not for answers
    found = {Path(path).resolve() for path in (*_SYSTEM, *sys.path, sys.prefix, sys.base_prefix) if path}
    return sorted(ours | {path for path in found if path not in checkouts and path.exists()})


def _without(path: Path, secrets: set[Path], around: set[Path]) -> Iterator[Path]:
    """Yield what covers the folder except for what is secret; `around`: the folders that hold a secret."""
    if path in secrets:
        return
    if path not in around:
        yield path
        return
    for inside in path.iterdir():
        yield from _without(inside, secrets, around)


def _allow(rules: int, path: Path, access: int) -> None:
    with contextlib.suppress(OSError):  # a file that has gone needs no permission
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
        try:
            if not path.is_dir():
                access &= _OF_A_FILE
            call(_ADD_RULE, rules, _PATH_BENEATH, struct.pack("=Qi", access, place), 0)
        finally:
            os.close(place)
