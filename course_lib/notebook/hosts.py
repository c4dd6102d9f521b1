"""`%ranks hosts`: which machines the ranks are started on."""

from __future__ import annotations

import argparse

from course_lib.notebook.refused import Refused
from course_lib.notebook.session import SESSION
from course_lib.ranks.hosts.host import HostError
from course_lib.ranks.hosts.spread import Hosts, by_host
from course_lib.ranks.kernel.gang import Gang

#: Said once, where it begins to hold.
_OPEN_TO_ALL = (
    "What ranks say to each other passes between the machines as it is: torch's store and gloo neither encrypt nor "
    "authenticate it. Use a network that you trust."
)


def command(options: argparse.Namespace) -> str:
    """Do what `%ranks hosts ...` asks for; returns what is to be shown.

    Raises:
        Refused: it cannot be done, in one clear line.
    """
    names: list[str] = options.names
    if names == ["off"]:
        SESSION.use(None)
        return "Ranks are started on this machine again."
    if not names:
        return shown(SESSION.hosts)
    try:
        hosts = Hosts(names, options.via, public=options.open)
    except HostError as error:
        raise Refused(str(error)) from None
    SESSION.use(hosts)
    return "\n".join([shown(hosts), _OPEN_TO_ALL])


def shown(hosts: Hosts | None) -> str:
    """The machines, one line each."""
    if hosts is None:
        return "Ranks are started on this machine. %ranks hosts NAME ... takes others, which ssh reaches."
    lines = []
    for host in hosts.hosts:
        ready = host.ready
        if host.gone or ready is None:
            lines.append(f"host {host.name}: gone: {host.gone}")
            continue
        place = hosts.places[host.name]
        lines.append(
            f"host {host.name}: {ready.cores} core{'s' if ready.cores != 1 else ''}, {ready.free_mb / 1000:.1f} GB "
            f"free, torch {ready.torch}; reached by {place.address} ({place.interface})"
        )
    return "\n".join(lines)


def ranks_of(text: str, gang: Gang | None) -> tuple[int, ...] | None:
    """The ranks that `--only b:*` or `b:0,1` means: of host b, counted there; None where it names no host.

    Raises:
        Refused: there is no such host, or no such rank on it.
    """
    name, colon, numbers = text.rpartition(":")
    if not colon:
        return None
    here = by_host(gang.links if gang is not None else ()).get(name)
    if here is None:
        raise Refused(f"--only {text}: no rank is on a host {name!r}.")
    if numbers == "*":
        return tuple(here)
    wanted = [part.strip() for part in numbers.split(",")]
    if not all(part.isdecimal() and int(part) < len(here) for part in wanted):
        raise Refused(
            f"--only {text}: {name} has the ranks 0 to {len(here) - 1} of its own, and * means all of them."
        )
    return tuple(sorted({here[int(part)] for part in wanted}))
