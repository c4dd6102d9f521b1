"""What a kernel and a host say to each other: one frozen dataclass per kind of message (see `ranks.messages`).

A rank is known by a number that no other rank of the same kernel ever has, so that what comes late from a gang that is
gone belongs to nobody. What the kernel and a rank say to each other passes through a host unread.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

from course_lib.ranks.messages import Body
from course_lib.ranks.server.compatibility import COURSE
from course_lib.ranks.starting import GpuReport, RankConfig

#: Before this line a host's standard output may carry what a login prints; its messages follow.
GREETING = b"\nddp-course host 1\n"
#: Seconds between two pings of the kernel.
PING_SECONDS = 1.0
#: A host that has not heard of its kernel for so long ends its ranks and itself.
KERNEL_SECONDS = 60.0


def course_digest() -> str:
    """The course's code as a few letters: kernel and hosts must have the same."""
    digest = hashlib.sha256()
    for path in sorted(COURSE.rglob("*.py")):
        digest.update(path.relative_to(COURSE).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:12]


class Address(NamedTuple):
    """An address of a machine, and the network interface that has it."""

    address: str
    interface: str


# -- from a host to its kernel ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class HostReady(Body):
    """The host has torch loaded.

    Attributes:
        network: which network it is in, as its system names it; hosts in the same one reach each other by loopback.
        digest: of the course's code. free_mb: memory that is free. mb_per_rank: what a rank is reckoned to need.
        gpus: what trying them has found. visible: CUDA_VISIBLE_DEVICES there.
    """

    kind: ClassVar[str] = "host_ready"
    pid: int
    name: str
    network: str
    addresses: tuple[Address, ...]
    digest: str
    course: str
    torch: str
    python: str
    cores: int
    free_mb: int
    mb_per_rank: int
    gpus: GpuReport
    visible: str | None = None


@dataclass(frozen=True)
class HostFailed(Body):
    """The host, or something that it was asked for, has failed; `key` says for which rank or store."""

    kind: ClassVar[str] = "host_failed"
    reason: str
    key: int = 0


class Part(NamedTuple):
    """Bytes from one rank: which stream, and where they are in the frame. Equal parts of a frame are sent once."""

    key: int
    stream: int
    start: int
    size: int


#: The streams of a rank: its wire to the kernel, standard output, standard error, a dump of its stack.
WIRE, STDOUT, STDERR, STACK = range(4)


@dataclass(frozen=True)
class Came(Body):
    """What ranks of this host have said and written, and which of them have closed their wire."""

    kind: ClassVar[str] = "came"
    parts: tuple[Part, ...]
    closed: tuple[int, ...] = ()
    content: bytes = b""


@dataclass(frozen=True)
class RankStarted(Body):
    """A rank's process is there."""

    kind: ClassVar[str] = "rank_started"
    key: int
    pid: int


@dataclass(frozen=True)
class RankEnded(Body):
    """A rank's process has ended; a negative code is the number of a signal."""

    kind: ClassVar[str] = "rank_ended"
    key: int
    code: int


@dataclass(frozen=True)
class StoreListens(Body):
    """A gang's store listens on this port."""

    kind: ClassVar[str] = "store_listens"
    key: int
    port: int


@dataclass(frozen=True)
class Pong(Body):
    """The answer to `Ping`, with the host's own time."""

    kind: ClassVar[str] = "pong"
    number: int
    time_ns: int


@dataclass(frozen=True)
class Processes(Body):
    """The answer to `AskProcesses`: by rank the processor seconds it has used, and which are stopped by a signal."""

    kind: ClassVar[str] = "processes"
    number: int
    seconds: Mapping[int, float] = field(default_factory=dict)
    stopped: tuple[int, ...] = ()


@dataclass(frozen=True)
class Listening(Body):
    """For the trial of addresses: this port of every address is open."""

    kind: ClassVar[str] = "listening"
    port: int


@dataclass(frozen=True)
class Tried(Body):
    """What came of the trial: by address, empty or what was in the way."""

    kind: ClassVar[str] = "tried"
    found: Mapping[str, str]


# -- from a kernel to its hosts ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ping(Body):
    """Is the host there?"""

    kind: ClassVar[str] = "ping"
    number: int


@dataclass(frozen=True)
class StartStore(Body):
    """Start the store of a gang on this address: `StoreListens` or `HostFailed`."""

    kind: ClassVar[str] = "start_store"
    key: int
    address: str


@dataclass(frozen=True)
class StartRank(Body):
    """Start a rank: `RankStarted` or `HostFailed`.

    Attributes:
        environment: beside the host's own. interface: by which ranks reach each other.
    """

    kind: ClassVar[str] = "start_rank"
    key: int
    config: RankConfig
    interface: str
    environment: Mapping[str, str]


@dataclass(frozen=True)
class Pass(Body):
    """Bytes for the wires of these ranks."""

    kind: ClassVar[str] = "pass"
    keys: tuple[int, ...]
    content: bytes = b""


@dataclass(frozen=True)
class Do(Body):
    """Something is to be done to a rank or store: `signal` (with a number), `interrupt`, `kill`, `dismiss`, `close`."""

    kind: ClassVar[str] = "do"
    key: int
    what: str
    number: int = 0


@dataclass(frozen=True)
class AskProcesses(Body):
    """How are these ranks' processes? `Processes` answers."""

    kind: ClassVar[str] = "ask_processes"
    number: int
    keys: tuple[int, ...]


@dataclass(frozen=True)
class Listen(Body):
    """Open a port for the trial of addresses; who connects is told the `word`. `Listening` answers."""

    kind: ClassVar[str] = "listen"
    word: str


@dataclass(frozen=True)
class Try(Body):
    """Try to reach these addresses at these ports, where each is to say its word: `Tried` answers."""

    kind: ClassVar[str] = "try"
    targets: tuple[tuple[str, int, str], ...]
    seconds: float


@dataclass(frozen=True)
class EndTrial(Body):
    """Close the port of the trial."""

    kind: ClassVar[str] = "end_trial"


def network_name() -> str:
    """Which network this process is in: of which start of which system, and in which network namespace."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return f"{file.read().strip()} {os.readlink('/proc/self/ns/net')}"
    except OSError:
        return os.uname().nodename
