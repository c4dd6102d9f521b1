"""How a gang's ranks come into being: `Start` says what a gang needs to know of that, `LocalStart` does it here.

`course_lib.ranks.hosts.spread` does it on several machines.
"""

from __future__ import annotations

import abc
import os
import select
import socket
from collections.abc import Mapping

import psutil

from course_lib.ranks.kernel.backend import (
    MB_PER_RANK,
    NCCL_SETTINGS_OF_OUR_GROUP,
    BackendChoice,
    choose_backend,
    may_share,
)
from course_lib.ranks.kernel.gpus import find_gpus
from course_lib.ranks.kernel.launcher import Launcher, default_method, warm_up
from course_lib.ranks.kernel.rank_handle import GangLink, RankLink
from course_lib.ranks.kernel.ready_gang import ReadyGang, State
from course_lib.ranks.server.store import listen_on
from course_lib.ranks.starting import RankConfig, StoreConfig

MAX_RANKS = 256
#: The variable by which the administrator of a shared machine allows fewer.
MAX_RANKS_VARIABLE = "DDP_COURSE_MAX_RANKS"


class GangError(RuntimeError):
    """The gang cannot do what was asked; the message is one clear line.

    `state` is the gang's, where that is the reason: who shows the error knows how a gang is started there.
    """

    def __init__(self, message: str, state: State | None = None) -> None:
        super().__init__(message)
        self.state = state


def check_size(world_size: int, method: str | None = None) -> None:
    """Refuse gangs that cannot exist, that are not allowed here, or that the machine's memory cannot hold.

    Raises:
        GangError: with the number of ranks that would fit.
    """
    if isinstance(world_size, bool) or not isinstance(world_size, int):
        raise GangError(f"The number of ranks is a whole number, not {world_size!r}.")
    if world_size < 1:
        raise GangError(f"At least 1 rank is needed, not {world_size}.")
    allowed = os.environ.get(MAX_RANKS_VARIABLE, "").strip()
    if allowed.isdecimal() and 0 < int(allowed) < world_size:
        raise GangError(
            f"{world_size} ranks are more than this machine is set up for: {allowed} at most ({MAX_RANKS_VARIABLE})."
        )
    available = psutil.virtual_memory().available
    mb_per_rank = MB_PER_RANK[method or default_method()]
    fits = max(1, int(available / (mb_per_rank * 1e6)))
    if world_size > fits:
        raise GangError(
            f"{world_size} ranks need about {world_size * mb_per_rank / 1000:.1f} GB of memory; "
            f"this machine has {available / 1e9:.1f} GB free, enough for {min(fits, MAX_RANKS)} ranks."
        )
    if world_size > MAX_RANKS:
        raise GangError(
            f"{world_size} ranks are more than the course starts on one machine: {MAX_RANKS} at most."
        )


def validate_request(
    world_size: int,
    backend: str = "auto",
    method: str | None = None,
    environment: Mapping[str, str] | None = None,
) -> BackendChoice:
    """The backend a gang would use, if it can exist at all; starts no gang.

    Args:
        environment: of the ranks, as far as it differs from this process's.

    Raises:
        GangError, BackendError, LaunchError: why it cannot.
    """
    check_size(world_size, method)
    launcher = warm_up(method)
    launcher.wait_ready()
    theirs = {**os.environ, **(environment or {})}
    return choose_backend(world_size, backend, find_gpus(launcher, theirs), may_share(theirs))


class Start(abc.ABC):
    """How the ranks of one gang are started, and what is known of who starts them.

    Attributes:
        backend: that of the ranks' process group, and why.
    """

    backend: BackendChoice

    @abc.abstractmethod
    def begin(self, gang: ReadyGang) -> None:
        """Ask for the gang's store and ranks, and have the gang listen to them; returns at once."""

    @abc.abstractmethod
    def take_in(self, gang: ReadyGang) -> None:
        """Take in what has been said of ranks that started or ended, as far as the gang's selector does not tell."""

    @abc.abstractmethod
    def lost(self) -> str:
        """What is to be said where those who start ranks are gone, and ranks with them; else empty."""

    @abc.abstractmethod
    def why(self, link: GangLink) -> str:
        """Why a rank could not be started, as far as who was to start it has said."""

    def silence(self) -> str:
        """Which machines have not been heard for some seconds, in a sentence; empty where all are."""
        return ""

    @abc.abstractmethod
    def give_up(self) -> None:
        """Ranks that were asked for have not come in time."""

    @abc.abstractmethod
    def wait(self, gang: ReadyGang, seconds: float) -> bool:
        """Wait for news of ranks that end, at most so long; False where there can be none."""

    @abc.abstractmethod
    def close(self) -> None:
        """End the gang's store."""

    @abc.abstractmethod
    def another(self) -> Start:
        """The same for a gang that takes this one's place."""


def rank_settings(init: bool, interface: str) -> dict[str, str]:
    """Variables that every rank of a gang is given.

    Args:
        init: the process group is the course's.
        interface: that of the network by which ranks reach each other.
    """
    return {
        **(NCCL_SETTINGS_OF_OUR_GROUP if init else {}),
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "TORCH_FR_BUFFER_SIZE": "2000",
        "GLOO_SOCKET_IFNAME": interface,
        "NCCL_SOCKET_IFNAME": interface,
        # The store listens before any rank starts, as torchrun's agent arranges it.
        "TORCHELASTIC_USE_AGENT_STORE": "True",
    }


def start_store(launcher: Launcher, address: str) -> tuple[int, socket.socket]:
    """Start a gang's store: the port of this address on which it listens, and the wire whose closing ends it."""
    listener = listen_on(address)
    port = int(listener.getsockname()[1])
    wire, theirs = socket.socketpair()
    null = os.open(os.devnull, os.O_WRONLY)
    try:
        fds = [theirs.fileno(), null, null, listener.fileno()]
        launcher.start(StoreConfig(port, address), os.environ, fds)
    finally:
        os.close(null)
        theirs.close()
        listener.close()
    return port, wire


#: The interface of a machine with itself: nothing listens on anything else.
LOOPBACK = "lo0" if os.uname().sysname == "Darwin" else "lo"


class LocalStart(Start):
    """Ranks on this machine: children of the kernel's forkserver, with a store that listens on loopback only."""

    def __init__(
        self,
        world_size: int,
        backend: str,
        method: str | None,
        environment: Mapping[str, str],
        limits: Mapping[str, int],
    ) -> None:
        """See `Gang`.

        Raises:
            GangError, BackendError, LaunchError: why there can be no such ranks.
        """
        self.backend = validate_request(world_size, backend, method, environment)
        self._request = (world_size, backend, method, environment, limits)
        self.environment, self.limits = environment, limits
        self.launcher = warm_up(method)
        self._store_wire: socket.socket | None = None

    def another(self) -> LocalStart:
        """The same for a gang that takes this one's place."""
        return LocalStart(*self._request)

    def begin(self, gang: ReadyGang) -> None:
        """Ask for the gang's store and ranks, and have the gang listen to them; returns at once."""
        port, self._store_wire = start_store(self.launcher, "127.0.0.1")
        for rank in range(gang.world_size):
            config = RankConfig(
                rank=rank,
                init=gang.init,
                backend=self.backend.init_argument,
                store_port=port,
                gpu=self.backend.gpu_of(rank),
                eager=self.backend.eager,
                epoch=gang.epoch,
                limits=self.limits,
            )
            gang.links.append(RankLink(rank, self.launcher, config, self._environment_of(gang, rank, port)))
        gang.watch(self.launcher.fileno(), self.launcher.pump)
        for link in gang.links:
            gang.watch_link(link)

    def _environment_of(self, gang: ReadyGang, rank: int, port: int) -> dict[str, str]:
        return {
            **rank_settings(gang.init, LOOPBACK),
            **self.environment,
            **self.backend.environment_of(rank),
            "RANK": str(rank),
            "LOCAL_RANK": str(rank),
            "GROUP_RANK": "0",
            "WORLD_SIZE": str(gang.world_size),
            "LOCAL_WORLD_SIZE": str(gang.world_size),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
        }

    def take_in(self, gang: ReadyGang) -> None:
        """Take in what has been said of ranks that started or ended, as far as the gang's selector does not tell."""
        if self.launcher.gone:
            gang.forget(self.launcher.fileno())

    def lost(self) -> str:
        """What is to be said where the process that starts ranks is gone, and the ranks with it; else empty."""
        if not self.launcher.gone:
            return ""
        return "The process that starts ranks was killed, and the ranks with it: their variables are lost."

    def why(self, link: GangLink) -> str:
        """Why a rank could not be started, as far as the launcher has said."""
        return self.launcher.failures.get(link.token, "")

    def give_up(self) -> None:
        """Ranks that were asked for have not come in time."""
        self.launcher.give_up()

    def wait(self, gang: ReadyGang, seconds: float) -> bool:
        """Wait for news of ranks that end, at most so long; False where there can be none."""
        if self.launcher.gone:
            return False  # killed, and its ranks with it
        select.select([self.launcher], [], [], seconds)
        self.launcher.pump()
        return True

    def close(self) -> None:
        """End the gang's store."""
        if self._store_wire is not None:
            self._store_wire.close()
