"""The messages between a kernel and its forkserver about processes: one frozen dataclass per kind.

How they become bytes is `messages`, which also has what a rank says once it has started.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from realranks.ranks.messages import Body


@dataclass(frozen=True)
class RankConfig:
    """The configuration that a rank receives when it is started.

    Attributes:
        init: make the process group at once.
        backend: as `init_process_group` takes it.
        store_port: where the gang's store listens.
        gpu: the number of the rank's GPU, if it has one.
        eager: the process group is to connect that at once.
        limits: resource limits, by the name in the `resource` module.
        extra_fd: where a dump of the main thread's stack goes; the server fills it in.
    """

    rank: int
    init: bool
    backend: str
    store_port: int
    gpu: int | None = None
    eager: bool = False
    limits: Mapping[str, int] = field(default_factory=dict)
    extra_fd: int = -1


@dataclass(frozen=True)
class StoreConfig:
    """The configuration of a gang's store: its address, and the socket, which the server fills in.

    Attributes:
        isolated: give the gang a network of its own, where the system allows it (`isolation`).
    """

    port: int
    address: str = "127.0.0.1"
    extra_fd: int = -1
    isolated: bool = False


@dataclass(frozen=True)
class GpusConfig:
    """The configuration of the process that tries the GPUs: how long one may take to answer."""

    seconds: float


@dataclass(frozen=True)
class Gpu:
    """One GPU as CUDA numbers them for a process: what was found when it was tried.

    Attributes:
        problem: why it cannot be used, in CUDA's words; empty when it can.
        free_mb: memory that was free then.
    """

    index: int
    problem: str = ""
    name: str = ""
    free_mb: int = 0
    total_mb: int = 0


@dataclass(frozen=True)
class GpuReport:
    """The report of the process that tries the GPUs.

    Attributes:
        gpus: every GPU that CUDA counts.
        counted: how many there are said to be where CUDA itself does not start.
        problem: why CUDA does not start at all.
        built: whether this torch is built for GPUs.
        nccl: whether it has NCCL.
    """

    gpus: tuple[Gpu, ...] = ()
    counted: int = 0
    problem: str = ""
    built: bool = True
    nccl: bool = False


# -- from the kernel to the server ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Start(Body):
    """Start a rank, a store, or the process that tries the GPUs: one of them is given. `Started` or `Failed` answers.

    Attributes:
        token: by which the answer is known.
        env, cwd, path: environment, working folder and `sys.path` of the process.
        fds: how many descriptors come with this message: its wire, standard output and error, and perhaps one more.
    """

    kind: ClassVar[str] = "start"
    token: int
    cwd: str
    path: tuple[str, ...]
    fds: int
    env: Mapping[str, str] = field(default_factory=dict)
    rank: RankConfig | None = None
    store: StoreConfig | None = None
    gpus: GpusConfig | None = None


@dataclass(frozen=True)
class Kill(Body):
    """Kill a process and what it started, unless it has ended by itself `after` seconds from now."""

    kind: ClassVar[str] = "kill"
    pid: int
    after: float = 0.0


# -- from the server to the kernel ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class ServerReady(Body):
    """The server has loaded what ranks need; `method` is how it starts them, `torch` the version that they have."""

    kind: ClassVar[str] = "ready"
    pid: int
    method: str
    torch: str


@dataclass(frozen=True)
class Started(Body):
    """A process has been started."""

    kind: ClassVar[str] = "started"
    token: int
    pid: int


@dataclass(frozen=True)
class Failed(Body):
    """A process could not be started."""

    kind: ClassVar[str] = "failed"
    token: int
    reason: str


@dataclass(frozen=True)
class Exited(Body):
    """A process has ended; a negative code is the number of a signal."""

    kind: ClassVar[str] = "exited"
    pid: int
    code: int
