"""The messages between a kernel and a host: one frozen dataclass per kind (see `ranks.messages`).

An answer has the number of its question (`messages.number_of`); those about a store have the store's.

A rank is known by a number that no other rank of the same kernel ever has, so that what comes late from a gang that is
gone belongs to nobody. What the kernel and a rank say to each other passes through a host unread.
"""

from __future__ import annotations

import enum
import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, NamedTuple

from realranks import own_code
from realranks.ranks.messages import Body
from realranks.ranks.starting import GpuReport, RankConfig

#: Before this line a host's standard output may carry what a login prints; its messages follow.
GREETING = b"\nddp-course host 1\n"
#: Seconds between two pings of the kernel.
PING_SECONDS = 1.0
#: A host that has not heard of its kernel for so long ends its ranks and itself.
KERNEL_SECONDS = 60.0


def code_digests() -> Mapping[str, str]:
    """Compute a short digest of each of our packages: kernel and hosts must have the same."""
    return {package: _digest(folder) for package, folder in own_code.folders().items()}


def _digest(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        digest.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes())
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
        code: `code_digests` there. version: of what is installed there. free_mb: memory that is free.
        mb_per_rank: what a rank is reckoned to need. gpus: what trying them has found.
        visible: CUDA_VISIBLE_DEVICES there.
    """

    kind: ClassVar[str] = "host_ready"
    pid: int
    network: str
    addresses: tuple[Address, ...]
    code: Mapping[str, str]
    version: str
    torch: str
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


class Stream(enum.IntEnum):
    """A stream of bytes that comes from a rank."""

    WIRE = 0  # its messages to the kernel
    STDOUT = 1
    STDERR = 2
    STACK = 3  # a dump of its stack


class Chunk(NamedTuple):
    """Bytes from one rank: which stream, and where they are in the frame. Equal parts of a frame are sent once."""

    key: int
    stream: Stream
    start: int
    size: int


@dataclass(frozen=True)
class RankOutput(Body):
    """Messages and output of this host's ranks, and which of them have closed their wire."""

    kind: ClassVar[str] = "rank_output"
    parts: tuple[Chunk, ...]
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
    port: int


@dataclass(frozen=True)
class Pong(Body):
    """The answer to `Ping`, with the host's own time."""

    kind: ClassVar[str] = "pong"
    time_ns: int


@dataclass(frozen=True)
class ProcessStatus(Body):
    """The answer to `AskProcess`: the processor seconds that it has used, and whether a signal has stopped it."""

    kind: ClassVar[str] = "process_status"
    seconds: float = 0.0
    stopped: bool = False


@dataclass(frozen=True)
class ProbePortOpen(Body):
    """For the trial of addresses: this port of every address is open."""

    kind: ClassVar[str] = "probe_port_open"
    port: int


@dataclass(frozen=True)
class AddressesProbed(Body):
    """The result of the trial, by address: empty, or the reason why it failed."""

    kind: ClassVar[str] = "addresses_probed"
    found: Mapping[str, str]


# -- from a kernel to its hosts ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ping(Body):
    """Is the host there?"""

    kind: ClassVar[str] = "ping"


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
class Forward(Body):
    """Bytes for the wires of these ranks."""

    kind: ClassVar[str] = "forward"
    keys: tuple[int, ...]
    content: bytes = b""


class Action(enum.StrEnum):
    """An action of a host on a rank, as in `GangLink`; `CLOSE` closes the rank's wire, or ends a store."""

    SIGNAL = "signal"
    INTERRUPT = "interrupt"
    KILL = "kill"
    DISMISS = "dismiss"
    CLOSE = "close"


@dataclass(frozen=True)
class RankCommand(Body):
    """Apply an action to a rank or store; `number` is the signal to send."""

    kind: ClassVar[str] = "rank_command"
    key: int
    action: Action
    number: int = 0


@dataclass(frozen=True)
class AskProcess(Body):
    """A question about this rank's process; the answer is `ProcessStatus`."""

    kind: ClassVar[str] = "ask_process"
    key: int


@dataclass(frozen=True)
class OpenProbePort(Body):
    """Open a port for the trial of addresses; who connects is told the `word`. `ProbePortOpen` answers."""

    kind: ClassVar[str] = "open_probe_port"
    word: str


@dataclass(frozen=True)
class ProbeAddresses(Body):
    """Connect to these addresses at these ports, which should send their words: `AddressesProbed` answers."""

    kind: ClassVar[str] = "probe_addresses"
    targets: tuple[tuple[str, int, str], ...]
    seconds: float


@dataclass(frozen=True)
class EndProbe(Body):
    """Close the port of the trial."""

    kind: ClassVar[str] = "end_probe"


def network_name() -> str:
    """Identify the network this process is in: the boot of the system, and the network namespace."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return f"{file.read().strip()} {os.readlink('/proc/self/ns/net')}"
    except OSError:
        return os.uname().nodename
