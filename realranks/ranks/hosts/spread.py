"""A gang on several machines: which rank is where, how the machines reach each other, how the ranks are started."""

from __future__ import annotations

import contextlib
import ipaddress
import secrets
import select
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from realranks.ranks.hosts.host import SILENT_SECONDS, Host, HostError
from realranks.ranks.hosts.link import RemoteLink, next_key
from realranks.ranks.hosts.wire import (
    PING_SECONDS,
    Action,
    Address,
    AddressesProbed,
    EndProbe,
    HostReady,
    OpenProbePort,
    ProbeAddresses,
    ProbePortOpen,
    RankCommand,
    StartStore,
    StoreListens,
    code_digests,
)
from realranks.ranks.kernel.backend import BackendChoice, choose_backend
from realranks.ranks.kernel.gpus import Gpus
from realranks.ranks.kernel.links import GangLink, Wires
from realranks.ranks.kernel.local_start import MAX_RANKS, GangError, Start
from realranks.ranks.starting import RankConfig

_READY_SECONDS = 60.0
_TRIAL_SECONDS = 2.0
_STORE_SECONDS = 30.0


@dataclass(frozen=True)
class Reached:
    """The result of one host's attempt to reach an address of another.

    Attributes:
        problem: what was in the way; empty where it was reached.
    """

    who: str
    whom: str
    address: Address
    problem: str


class Hosts:
    """The machines that hold ranks for this kernel, in the order in which ranks are split_ranks to them.

    Attributes:
        table: every trial of an address. places: the address of each host by which all others reach it.
    """

    def __init__(self, names: Sequence[str], via: str | None = None, *, public: bool = False) -> None:
        """Start a host process on each machine, and find out how they reach each other.

        Args:
            names: of the machines. via: the command that reaches one, see `host.command_for`.
            public: ranks may listen on an address that is not private.

        Raises:
            HostError: one clear line about the first host that cannot be used.
        """
        twice = [name for number, name in enumerate(names) if name in names[:number]]
        if twice:
            raise HostError(f"{twice[0]} is named twice.")
        self.lock = threading.RLock()
        self.hosts: list[Host] = []
        self.table: tuple[Reached, ...] = ()
        self.places: dict[str, Address] = {}
        self._ended = threading.Event()
        try:
            for name in names:
                self.hosts.append(Host(name, via))
            for host in self.hosts:
                self._check_course(host)
            self._find_places(public)
        except BaseException:
            self.close()
            raise
        threading.Thread(target=self._ping, name="course-hosts", daemon=True).start()

    @staticmethod
    def _check_course(host: Host) -> None:
        ready = host.wait(lambda: host.ready, _READY_SECONDS)
        if ready is None:
            why = host.lost_reason or f"no host process within {_READY_SECONDS:.0f} s: {host.stderr_tail()}"
            raise HostError(f"{host.name}: {why}.")
        for package, digest in code_digests().items():
            there = ready.code.get(
                package, digest
            )  # what it has not loaded is looked for when a rank needs it
            if there != digest:
                raise HostError(
                    f"{host.name} has other files of {package} ({ready.version}, {there}) than this notebook "
                    f"({digest}): install the same there."
                )

    def _find_places(self, public: bool) -> None:
        answers = {host.name: _ready_of(host) for host in self.hosts}
        words = {name: secrets.token_hex(8) for name in answers}
        for host in self.hosts:
            host.say(OpenProbePort(words[host.name]))
        ports = {host.name: host.answer(ProbePortOpen, _READY_SECONDS).port for host in self.hosts}
        one_network = len({ready.network for ready in answers.values()}) == 1
        tried = {
            name: [one for one in ready.addresses if one.address.startswith("127.") == one_network]
            for name, ready in answers.items()
        }
        for host in self.hosts:
            targets = [
                (one.address, ports[name], words[name])
                for name, addresses in tried.items()
                if name != host.name
                for one in addresses
            ]
            host.say(ProbeAddresses(tuple(targets), _TRIAL_SECONDS))
        found: list[Reached] = []
        for host in self.hosts:
            results = host.answer(AddressesProbed, _READY_SECONDS).found
            found += [
                Reached(host.name, name, one, results[one.address])
                for name, addresses in tried.items()
                if name != host.name
                for one in addresses
                if one.address in results
            ]
        self.table = tuple(found)
        for host in self.hosts:
            host.say(EndProbe())
            self.places[host.name] = self._place_of(host.name, tried[host.name], public)

    def _place_of(self, name: str, addresses: Sequence[Address], public: bool) -> Address:
        """Return the first address at which all other hosts reach this one."""
        others = {one.who for one in self.table if one.whom == name}
        good = [
            address
            for address in addresses
            if all(not one.problem for one in self.table if one.whom == name and one.address == address)
        ]
        if others and not good:
            raise HostError(f"{name} cannot be reached by {', '.join(sorted(others))}:\n{self.shown()}")
        place = (good or [one for one in addresses if one.address.startswith("127.")] or list(addresses))[0]
        if ipaddress.ip_address(place.address).is_global and not public:
            raise HostError(
                f"{name}: {place.address} is a public address, and what ranks send is neither encrypted nor "
                "authenticated. --open allows it."
            )
        return place

    def shown(self) -> str:
        """Format the probed addresses as a table, one line each."""
        lines = [
            f"  {one.who} -> {one.whom}  {one.address.address} ({one.address.interface})  {one.problem or 'reached'}"
            for one in self.table
        ]
        return "\n".join(lines)

    # -- while they are there -----------------------------------------------------------------------------------

    def _ping(self) -> None:
        while not self._ended.wait(PING_SECONDS):
            for host in self.hosts:
                host.ping()
            # While no gang is driven, somebody has to read; who drives one reads itself, and holds the lock.
            if self.lock.acquire(blocking=False):
                try:
                    for host in self.hosts:
                        host.read()
                        host.check()
                finally:
                    self.lock.release()

    @property
    def alive(self) -> list[Host]:
        """Those that are not gone."""
        return [host for host in self.hosts if not host.lost_reason]

    def silence_notice(self) -> str:
        """Name the hosts that have been silent for some seconds, in sentences; '' if none is."""
        silent = [host for host in self.hosts if host.silent_seconds() > SILENT_SECONDS]
        return " ".join(
            f"Host {host.name} has not been heard for {host.silent_seconds():.0f} s." for host in silent
        )

    def close(self) -> None:
        """End all hosts, and with them their ranks."""
        self._ended.set()
        for host in self.hosts:
            host.close()


def _ready_of(host: Host) -> HostReady:
    assert host.ready is not None, "checked before"
    return host.ready


def split_ranks(world_size: int, hosts: Sequence[Host]) -> list[tuple[Host, int]]:
    """Split the ranks as evenly as possible, the first hosts getting one more; leave out hosts without a rank."""
    each, more = divmod(world_size, len(hosts))
    numbers = [each + (place < more) for place in range(len(hosts))]
    return [(host, number) for host, number in zip(hosts, numbers, strict=True) if number]


def check_memory(world_size: int, hosts: Sequence[Host]) -> None:
    """Refuse ranks that the hosts' memory cannot hold.

    Raises:
        GangError: with the host where they do not fit.
    """
    if not hosts:
        raise GangError(
            "No host is there any more: %ranks hosts names others, %ranks hosts off takes this machine."
        )
    if world_size < 1:
        raise GangError(f"At least 1 rank is needed, not {world_size}.")
    for host, number in split_ranks(world_size, hosts):
        ready = _ready_of(host)
        if number * ready.mb_per_rank > ready.free_mb or number > MAX_RANKS:
            raise GangError(
                f"{number} of {world_size} ranks are too many for {host.name}: it has {ready.free_mb / 1000:.1f} GB "
                f"free, enough for {min(MAX_RANKS, ready.free_mb // ready.mb_per_rank)}."
            )


def _backends(shares: Iterable[tuple[Host, int]], requested: str) -> dict[str, BackendChoice]:
    """Choose the backend of each host; its name is the same on all of them."""
    shares = list(shares)

    def choices(wanted: str) -> dict[str, BackendChoice]:
        return {
            host.name: choose_backend(
                number, wanted, Gpus.from_report(_ready_of(host).gpus, _ready_of(host).visible)
            )
            for host, number in shares
        }

    found = choices(requested)
    same = len({(choice.name, choice.device) for choice in found.values()}) == 1
    return found if same else choices("gloo")


class HostsStart(Start):
    """Starts the ranks of a gang on several machines."""

    def __init__(self, hosts: Hosts, world_size: int, requested: str) -> None:
        """Deal the ranks to the hosts that are there.

        Raises:
            GangError, BackendError: why there can be no such ranks.
        """
        check_memory(world_size, hosts.alive)
        self._request = hosts, world_size, requested
        self.hosts = hosts
        self.lock = hosts.lock
        self.shares = split_ranks(world_size, hosts.alive)
        self.backends = _backends(self.shares, requested)
        first = self.backends[self.shares[0][0].name]
        where = ", ".join(f"{number} on {host.name}" for host, number in self.shares)
        self.backend = replace(first, reason=f"{where}; {first.reason}")
        self._store = next_key()

    def for_new_gang(self) -> HostsStart:
        """Prepare to start a gang that replaces this one, on the hosts that are alive by then."""
        return HostsStart(*self._request)

    def begin(self, wires: Wires, init: bool) -> Iterator[GangLink]:
        """Ask for the gang's store, then for rank after rank, and have its wires listen to them; waits for none."""
        with self.lock:
            try:
                address, port = self._start_store()
            except HostError as error:
                raise GangError(str(error)) from None
            rank = 0
            for place, (host, number) in enumerate(self.shares):
                choice = self.backends[host.name]
                for local in range(number):
                    config = RankConfig(
                        rank=rank,
                        init=init,
                        backend=self.backend.init_argument,
                        store_port=port,
                        gpu=choice.gpu_of(local),
                        eager=choice.eager,
                    )
                    environment = {
                        **choice.environment_of(rank),
                        "RANK": str(rank),
                        "LOCAL_RANK": str(local),
                        "GROUP_RANK": str(place),
                        "WORLD_SIZE": str(wires.world_size),
                        "LOCAL_WORLD_SIZE": str(number),
                        "MASTER_ADDR": address,
                        "MASTER_PORT": str(port),
                    }
                    interface = self.hosts.places[host.name].interface
                    yield RemoteLink(host, config, interface, environment)
                    rank += 1
                wires.watch_channel(host.channel, host.read)

    def _start_store(self) -> tuple[str, int]:
        host = self.shares[0][0]
        address = self.hosts.places[host.name].address
        host.say(StartStore(self._store, address), self._store)

        def listens() -> StoreListens | None:
            if self._store in host.failures:
                raise HostError(f"{host.name}: no store: {host.failures[self._store]}")
            return host.take(StoreListens, self._store)

        found = host.wait(listens, _STORE_SECONDS)
        if found is None:
            raise HostError(f"{host.name}: {host.lost_reason or 'its store does not start'}.")
        return address, found.port

    def poll(self, wires: Wires) -> None:
        """Send what waits to be passed on, and notice who is gone."""
        for host, _ in self.shares:
            host.flush()
            host.check()

    def lost_message(self) -> str:
        """Return the message for a host that died together with its ranks, or ''."""
        gone = [host for host, _ in self.shares if host.lost_reason]
        if not gone:
            return ""
        left = " ".join(host.name for host in self.hosts.alive)
        ways = (
            f"The other ranks keep their variables: --only {self.hosts.alive[0].name}:* reaches those there. The next "
            f"cell with a number of ranks starts new ones on {left}."
            if left
            else ""
        )
        return " ".join([*(f"Host {host.name} is gone: {host.lost_reason}." for host in gone), ways]).strip()

    def why(self, link: GangLink) -> str:
        """Return why a rank could not be started, if its host has reported that."""
        assert isinstance(link, RemoteLink)
        return link.host.failures.get(link.key, "") or link.host.lost_reason

    def cancel(self) -> None:
        """Do nothing: the host processes stay for the next gang."""

    def silence_notice(self) -> str:
        """Name the hosts that have been silent for some seconds."""
        return self.hosts.silence_notice()

    def wait(self, seconds: float) -> bool:
        """Wait for news of ranks that end, at most so long; False where there can be none."""
        there = [host for host, _ in self.shares if not host.lost_reason]
        if not there:
            return False
        with contextlib.suppress(OSError, ValueError):
            select.select([host.channel for host in there], [], [], seconds)
        for host in there:
            host.read()
        return True

    def close(self) -> None:
        """End the gang's store, and listen to the hosts no more."""
        for host, _ in self.shares:
            host.channel.on_change = lambda: None
        self.shares[0][0].say(RankCommand(self._store, Action.CLOSE))


def by_host(links: Sequence[GangLink]) -> Mapping[str, list[int]]:
    """Group the ranks by host, in their order."""
    found: dict[str, list[int]] = {}
    for link in links:
        if isinstance(link, RemoteLink):
            found.setdefault(link.host.name, []).append(link.rank)
    return found
