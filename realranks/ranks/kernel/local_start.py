"""Starting a gang's ranks: `Start` is the interface that a gang uses, `LocalStart` starts them on this machine.

`realranks.ranks.hosts.spread` does it on several machines.
"""

from __future__ import annotations

import abc
import os
import select
import socket
import threading
from collections.abc import Iterator, Mapping

import psutil

from realranks.ranks.kernel.backend import (
    MB_PER_RANK,
    NCCL_SETTINGS_OF_OUR_GROUP,
    BackendChoice,
    choose_backend,
    may_share,
)
from realranks.ranks.kernel.gpus import find_gpus
from realranks.ranks.kernel.launcher import Launcher, default_method, warm_up
from realranks.ranks.kernel.links import GangLink, RankLink, Wires
from realranks.ranks.server.store import listen_on
from realranks.ranks.starting import RankConfig, StoreConfig

MAX_RANKS = 256
#: The variable by which the administrator of a shared machine allows fewer.
MAX_RANKS_VARIABLE = "DDP_COURSE_MAX_RANKS"


class GangError(RuntimeError):
    """The gang cannot do what was asked; the message is one clear line."""


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
    """Choose the backend a gang would use, and check that it can exist; starts no gang.

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
    """The start of one gang's ranks, and the state of what starts them.

    Attributes:
        backend: that of the ranks' process group, and why.
        lock: held while its ranks are driven.
    """

    backend: BackendChoice
    lock: threading.RLock

    @abc.abstractmethod
    def begin(self, wires: Wires, init: bool) -> Iterator[GangLink]:
        """Ask for the gang's store, then for rank after rank, and have its wires listen to them; waits for none.

        Args:
            wires: the gang. init: whether the ranks start the process group.
        """

    @abc.abstractmethod
    def poll(self, wires: Wires) -> None:
        """Take in what has been said of ranks that started or ended, as far as the gang's selector does not tell."""

    @abc.abstractmethod
    def lost_message(self) -> str:
        """Return the message for a starter that died together with its ranks, or ''."""

    @abc.abstractmethod
    def why(self, link: GangLink) -> str:
        """Return why a rank could not be started, if its starter has reported that."""

    def silence_notice(self) -> str:
        """Name the machines that have been silent for some seconds, in sentences; '' if none is."""
        return ""

    @abc.abstractmethod
    def cancel(self) -> None:
        """End what starts ranks, if it is hung: requested ranks have not come in time."""

    @abc.abstractmethod
    def wait(self, seconds: float) -> bool:
        """Wait for news of ranks that end, at most so long; False where there can be none."""

    @abc.abstractmethod
    def close(self) -> None:
        """End the gang's store."""

    @abc.abstractmethod
    def for_new_gang(self) -> Start:
        """Prepare to start a gang that replaces this one, with the same settings."""


def rank_settings(init: bool, interface: str) -> dict[str, str]:
    """Return the variables that every rank of a gang is given.

    Args:
        init: the process group is the course's.
        interface: that of the network by which ranks reach each other.
    """
    return {
        **(NCCL_SETTINGS_OF_OUR_GROUP if init else {}),
        **os.environ,
        "OMP_NUM_THREADS": "1",
        # Kernels and CIs set FORCE_COLOR; since Python 3.13 tracebacks would have colours, and would not be recognised.
        "PYTHON_COLORS": "0",
        "TORCH_FR_BUFFER_SIZE": "2000",
        "GLOO_SOCKET_IFNAME": interface,
        "NCCL_SOCKET_IFNAME": interface,
        # The store listens before any rank starts, as torchrun's agent arranges it.
        "TORCHELASTIC_USE_AGENT_STORE": "True",
    }


def start_store(launcher: Launcher, address: str, *, isolated: bool = False) -> tuple[int, socket.socket]:
    """Start a gang's store: the port of this address on which it listens, and the wire whose closing ends it.

    Args:
        isolated: in a network of the gang's own.
    """
    listener = listen_on(address)
    port = int(listener.getsockname()[1])
    wire, theirs = socket.socketpair()
    null = os.open(os.devnull, os.O_WRONLY)
    try:
        fds = [theirs.fileno(), null, null, listener.fileno()]
        launcher.start(StoreConfig(port, address, isolated=isolated), os.environ, fds)
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
        isolated: bool = False,
    ) -> None:
        """Choose the backend and start to load torch; the parameters are those of `Gang`.

        Raises:
            GangError, BackendError, LaunchError: why there can be no such ranks.
        """
        self.backend = validate_request(world_size, backend, method, environment)
        self._request = (world_size, backend, method, environment, limits, isolated)
        self.environment, self.limits, self.isolated = environment, limits, isolated
        self.launcher = warm_up(method)
        self.lock = threading.RLock()
        self._store_wire: socket.socket | None = None

    def for_new_gang(self) -> LocalStart:
        """Prepare to start a gang that replaces this one, with the same settings."""
        return LocalStart(*self._request)

    def begin(self, wires: Wires, init: bool) -> Iterator[GangLink]:
        """Ask for the gang's store, then for rank after rank, and have its wires listen to them; waits for none."""
        port, self._store_wire = start_store(self.launcher, "127.0.0.1", isolated=self.isolated)
        wires.watch(self.launcher.fileno(), self.launcher.pump)
        for rank in range(wires.world_size):
            config = RankConfig(
                rank=rank,
                init=init,
                backend=self.backend.init_argument,
                store_port=port,
                gpu=self.backend.gpu_of(rank),
                eager=self.backend.eager,
                limits=self.limits,
            )
            environment = {
                **rank_settings(init, LOOPBACK),
                **self.environment,
                **self.backend.environment_of(rank),
                "RANK": str(rank),
                "LOCAL_RANK": str(rank),
                "GROUP_RANK": "0",
                "WORLD_SIZE": str(wires.world_size),
                "LOCAL_WORLD_SIZE": str(wires.world_size),
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(port),
            }
            link = RankLink(rank, self.launcher, config, environment)
            yield link
            wires.watch_link(link)

    def poll(self, wires: Wires) -> None:
        """Take in what has been said of ranks that started or ended, as far as the gang's selector does not tell."""
        if self.launcher.gone:
            wires.forget(self.launcher.fileno())

    def lost_message(self) -> str:
        """Return the message for a forkserver that died together with its ranks, or ''."""
        if not self.launcher.gone:
            return ""
        return "The process that starts ranks was killed, and the ranks with it: their variables are lost."

    def why(self, link: GangLink) -> str:
        """Return why a rank could not be started, if the launcher has reported that."""
        return self.launcher.failures.get(link.token, "")

    def cancel(self) -> None:
        """End what starts ranks, if it is hung: requested ranks have not come in time."""
        self.launcher.kill_server()

    def wait(self, seconds: float) -> bool:
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
