"""`%ranks hosts`: which machines the ranks are started on."""

from __future__ import annotations

import argparse

from realranks.cells.refused import UsageError
from realranks.cells.session import SESSION
from realranks.ranks.hosts.host import HostError
from realranks.ranks.hosts.spread import Hosts, by_host
from realranks.ranks.kernel.gang import Gang

#: Said once, where it begins to hold.
_OPEN_TO_ALL = (
    "What ranks say to each other passes between the machines as it is: torch's store and gloo neither encrypt nor "
    "authenticate it. Use a network that you trust."
)


def command(options: argparse.Namespace) -> str:
    """Do what `%ranks hosts ...` asks for; returns what is to be shown.

    Raises:
        UsageError: it cannot be done, in one clear line.
    """
    names: list[str] = options.names
    if not names:
        return shown(SESSION.hosts)
    if names == ["off"]:
        SESSION.use(None)
        return "Ranks are started on this machine again."
    try:
        hosts = Hosts(names, options.via, public=options.open)
    except HostError as error:
        raise UsageError(str(error)) from None
    SESSION.use(hosts)
    return "\n".join([shown(hosts), _OPEN_TO_ALL])


def shown(hosts: Hosts | None) -> str:
    """Describe the machines, one line each."""
    if hosts is None:
        return "Ranks are started on this machine. %ranks hosts NAME ... takes others, which ssh reaches."
    lines = []
    for host in hosts.hosts:
        ready = host.ready
        if host.lost_reason or ready is None:
            lines.append(f"host {host.name}: gone: {host.lost_reason}")
            continue
        place = hosts.places[host.name]
        lines.append(
            f"host {host.name}: {ready.cores} core{'s' if ready.cores != 1 else ''}, {ready.free_mb / 1000:.1f} GB "
            f"free, torch {ready.torch}; reached by {place.address} ({place.interface})"
        )
    return "\n".join(lines)


def ranks_of(text: str, gang: Gang | None) -> tuple[int, ...] | None:
    """Return the ranks on host b that `--only b:*` or `b:0,1` names, counted there; None if it names no host.

    Raises:
        UsageError: there is no such host, or no such rank on it.
    """
    name, colon, numbers = text.rpartition(":")
    if not colon:
        return None
    here = by_host(gang.links if gang is not None else ()).get(name)
    if here is None:
        raise UsageError(f"--only {text}: no rank is on a host {name!r}.")
    if numbers == "*":
        return tuple(here)
    wanted = [part.strip() for part in numbers.split(",")]
    if not all(part.isdecimal() and int(part) < len(here) for part in wanted):
        raise UsageError(
            f"--only {text}: {name} has the ranks 0 to {len(here) - 1} of its own, and * means all of them."
        )
    return tuple(sorted({here[int(part)] for part in wanted}))
