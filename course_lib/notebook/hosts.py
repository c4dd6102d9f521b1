"""`%ranks hosts` and `%ranks listen`: which machines the ranks are started on."""

from __future__ import annotations

import argparse
import ipaddress
import shlex
from collections.abc import Callable
from pathlib import Path

from course_lib.notebook.refused import Refused
from course_lib.notebook.session import SESSION
from course_lib.own_files import data_folder
from course_lib.ranks.hosts.host import HostError
from course_lib.ranks.hosts.joining import Joining
from course_lib.ranks.hosts.spread import Hosts, by_host
from course_lib.ranks.kernel.gang import Gang

#: Said once, where it begins to hold.
_OPEN_TO_ALL = (
    "What ranks say to each other passes between the machines as it is: torch's store and gloo neither encrypt nor "
    "authenticate it. Use a network that you trust."
)


#: What starts hosts that dial in.
_STARTERS = """\
Waiting for {number} host{s} at {address}:{port}, for 24 hours. Whoever can read {path} can join: keep it to yourself.
Start the hosts in one of these ways; %ranks hosts waits for them and takes them, %ranks listen off lets them go.

# Slurm, with the file on a home folder that the nodes share: sbatch FILE
#!/bin/bash
#SBATCH --job-name=ddp-course --nodes={number} --ntasks-per-node=1 --time=01:00:00
srun --ntasks-per-node=1 ddp-course host --join {quoted}

# torchrun, on each machine (or with the options by which you start it on all)
torchrun --nproc-per-node=1 -m course_lib.host --join {quoted}

# Kubernetes: kubectl create secret generic ddp-course-join --from-file=join.json={quoted}
# then kubectl apply -f FILE, with an image that has the course
apiVersion: batch/v1
kind: Job
metadata: {{name: ddp-course}}
spec:
  completions: {number}
  parallelism: {number}
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: host
        image: IMAGE
        command: [ddp-course, host]
        env: [{{name: DDP_COURSE_JOIN, value: /ddp-course/join.json}}]
        volumeMounts: [{{name: join, mountPath: /ddp-course, readOnly: true}}]
      volumes:
      - name: join
        secret: {{secretName: ddp-course-join, defaultMode: 0400}}"""
_ONLY_HERE = (
    "Only this machine can reach this address: %ranks listen {number} --address A takes another, "
    "or the network interface that has it."
)


def listen(options: argparse.Namespace) -> str:
    """Do what `%ranks listen ...` asks for; returns what is to be shown.

    Raises:
        Refused: it cannot be done, in one clear line.
    """
    words: list[str] = options.names
    if words == ["off"]:
        SESSION.listen(None)
        return "No host is waited for."
    if len(words) > 1 or not all(word.isdecimal() for word in words):
        raise Refused("%ranks listen N waits for N hosts that dial in, as in %ranks listen 2.")
    if not words:
        return waiting(SESSION.joining)
    path = Path(options.join).expanduser().absolute() if options.join else data_folder() / "join.json"
    try:
        joining = Joining(int(words[0]), path, options.address or "127.0.0.1", public=options.open)
    except HostError as error:
        raise Refused(str(error)) from None
    SESSION.listen(joining)
    return starters(joining)


def starters(joining: Joining) -> str:
    """What starts the hosts that are waited for: a text for each way."""
    text = _STARTERS.format(
        number=joining.number,
        s="s" if joining.number != 1 else "",
        address=joining.address,
        port=joining.bound.port,
        path=joining.path,
        quoted=shlex.quote(str(joining.path)),
    )
    here = ipaddress.ip_address(joining.address).is_loopback
    return "\n\n".join([text, _ONLY_HERE.format(number=joining.number)] if here else [text])


def waiting(joining: Joining | None) -> str:
    """Which hosts have come that dial in, and who was refused."""
    if joining is None:
        return "No host is waited for. %ranks listen 2 waits for two."
    refused = [f"refused: {reason} ({times})" for reason, times in joining.refused().items()]
    came = (
        f"{len(joining.came)} of {joining.number} hosts have come: {', '.join(joining.names) or 'none yet'}"
    )
    return "\n".join([came, *refused])


def command(options: argparse.Namespace, say: Callable[[str], None]) -> str:
    """Do what `%ranks hosts ...` asks for; returns what is to be shown at the end, and says what happens meanwhile.

    Raises:
        Refused: it cannot be done, in one clear line.
    """
    names: list[str] = options.names
    if names == ["off"]:
        SESSION.listen(None)
        SESSION.use(None)
        return "Ranks are started on this machine again."
    joining = SESSION.joining
    if not names and joining is None:
        return shown(SESSION.hosts)
    try:
        if names or joining is None:
            hosts = Hosts(names, options.via, public=options.open)
        else:
            hosts = _dialled(joining, say, options.open)
    except HostError as error:
        raise Refused(str(error)) from None
    SESSION.use(hosts)
    return "\n".join([shown(hosts), _OPEN_TO_ALL])


def _dialled(joining: Joining, say: Callable[[str], None], public: bool) -> Hosts:
    """The hosts that dial in, when all have come; the stop button ends the waiting, and they go on to be waited for."""
    say(waiting(joining))
    while not joining.complete:
        joining.wait_for_another()
        say(waiting(joining))
    SESSION.joining = None  # it belongs to the hosts now
    return Hosts(joining.names, public=public or joining.public, joined=joining)


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
