"""Lesson 16: two machines for agents of torchrun, what each agent says, and what is left over.

A machine is a network namespace with an address of its own, and a wire between the two. Where the system allows none,
both are this machine: then what needs a wire of its own cannot be run.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from course_lib.draw import Arrow, Box, Drawing, Text
from course_lib.draw.drawing import Shape, text_width
from course_lib.lab.process_groups import forked, free_port
from course_lib.outcome.outcome import Outcome

NAMES = ("a", "b")
_WIRE = "eth0"
_ADDRESSES = ("10.77.0.1", "10.77.0.2")
#: A namespace lives as long as a process in it; this one ends when its input closes, so with the kernel.
_HOLDER = "ip link set lo up && echo up && exec cat"
_ROOT_CAUSE = re.compile(r"^Root Cause .*?(?=^=====)", re.MULTILINE | re.DOTALL)
_MOVING = re.compile(r"^ +(?:time|host) +:.*\n", re.MULTILINE)


@dataclass(frozen=True)
class Machines:
    """Two machines, `a` and `b`.

    Attributes:
        addresses: by which each is reached from the other.
        holders: the processes in whose namespaces they are; none where both machines are this one.
        folder: has a link to each namespace, by the machine's name.
    """

    addresses: tuple[str, str]
    holders: tuple[int, ...] = ()
    folder: str = ""
    _kept: tuple[object, ...] = field(default=(), repr=False)

    def __str__(self) -> str:
        if self.holders:
            return f"two network namespaces, joined by {_WIRE}"
        return "one machine under two names: no network namespaces can be made here"

    @property
    def via(self) -> str:
        """The command that runs another one on the machine whose name stands for `{}`."""
        if not self.holders:
            return "env MACHINE={}"
        return f"nsenter --net={self.folder}/{{}}"

    def __reduce__(self) -> tuple[type[Machines], tuple[object, ...]]:
        return Machines, (self.addresses, self.holders, self.folder)  # ranks hold no processes

    def enter(self, number: int) -> None:
        """Make this process a process of that machine.

        Raises:
            OSError: the system does not allow it.
        """
        if self.holders:
            libc = ctypes.CDLL(None, use_errno=True)
            for kind in ("user", "net"):
                there, here = (f"/proc/{who}/ns/{kind}" for who in (self.holders[number], "self"))
                if os.readlink(there) == os.readlink(here):
                    continue
                with open(there, "rb") as namespace:
                    if libc.setns(namespace.fileno(), 0):
                        raise OSError(ctypes.get_errno(), f"cannot enter machine {NAMES[number]}")

    def torchrun(self, *lines: str) -> str:
        """Runs on a rank, which plays a machine: do what its line does, and return what was written there.

        Args:
            lines: one for each machine, or one for both. `{node}` is the machine's number, `{head}` the address of
                the first; variables may stand in front, as in a shell.
        """
        number = int(os.environ["RANK"])
        words = shlex.split(lines[number % len(lines)].format(node=number, head=self.addresses[0]))
        program = next(place for place, word in enumerate(words) if "=" not in word)
        variables = dict(word.split("=", 1) for word in words[:program])

        def before() -> None:
            self.enter(number)
            os.environ.pop("GLOO_SOCKET_IFNAME", None)
            os.environ.update(variables)

        code, log = forked("torch.distributed.run", words[program + 1 :], before)
        return f"{log}\nexit code {code}"

    def pull_cable(self, *, back: bool = False) -> None:
        """Take the wire down, or put it `back`. Only where there is one."""
        if self.holders:
            _in(self.holders[0], f"ip link set {_WIRE} {'up' if back else 'down'}")


def two_machines() -> Machines:
    """Two machines, which are gone when this process is."""
    found: list[subprocess.Popen[str]] = []
    try:
        for number in range(2):
            found.append(_holder(_pid(found[0]) if number else None))
        first, second = map(_pid, found)
        _in(first, f"ip link add {_WIRE} type veth peer name {_WIRE} netns {second}")
        for pid, address in zip((first, second), _ADDRESSES, strict=True):
            _in(pid, f"ip addr add {address}/24 dev {_WIRE} && ip link set {_WIRE} up")
    except (OSError, subprocess.SubprocessError):
        for process in found:
            process.kill()
        return Machines(("127.0.0.1", "127.0.0.1"))
    folder = tempfile.TemporaryDirectory(prefix="ddp-course-machines-")
    for name, pid in zip(NAMES, (first, second), strict=True):
        Path(folder.name, name).symlink_to(f"/proc/{pid}/ns/net")
    return Machines(_ADDRESSES, (first, second), folder.name, (*found, folder))


def _holder(beside: int | None) -> subprocess.Popen[str]:
    """A process in a network namespace of its own, in the user namespace of another one, if that is named."""
    if beside is None:
        way = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user", "--net"]
    else:
        way = [*_way_into(beside), "unshare", "--net"]
    process = subprocess.Popen(
        [*way, "sh", "-c", _HOLDER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    if process.stdout.readline() != "up\n":
        process.kill()
        raise OSError("no network namespace")
    return process


def _pid(process: subprocess.Popen[str]) -> int:
    return process.pid


def _way_into(pid: int) -> list[str]:
    own = os.readlink(f"/proc/{pid}/ns/user") == os.readlink("/proc/self/ns/user")
    return ["nsenter", f"--net=/proc/{pid}/ns/net"] if own else [
        *("nsenter", "--preserve-credentials", f"--user=/proc/{pid}/ns/user", f"--net=/proc/{pid}/ns/net")
    ]


def _in(pid: int, command: str) -> None:
    subprocess.run([*_way_into(pid), "sh", "-c", command], check=True, capture_output=True)
