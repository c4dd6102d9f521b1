"""Two machines in a test: network namespaces joined by a cable (a veth pair), which can be pulled and put back.

With `ssh_servers` each of them is reached by an sshd of its own, through that cable: nothing of this system's own ssh
is read or written.
"""

from __future__ import annotations

import itertools
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from realranks.ranks.process import die_with_parent

_numbers = itertools.count()
#: The address of a network card that no machine has.
_NOBODY = "02:00:00:00:00:01"
_SSHD = "/usr/sbin/sshd"


def why_not() -> str:
    """Why namespaces cannot be made here; empty where they can."""
    if shutil.which("ip") is None:
        return "needs the program ip (iproute2)"
    tried = subprocess.run(["unshare", "--net", "true"], capture_output=True, text=True)
    return "" if tried.returncode == 0 else "needs the right to make network namespaces"


@dataclass(frozen=True)
class Machines:
    """Two namespaces: their names, which are those of the hosts, and their addresses."""

    names: tuple[str, str]
    addresses: tuple[str, str]

    @property
    def via(self) -> str:
        """For `%ranks hosts --via`: the command that starts a host in one of them."""
        return shlex.join(["ip", "netns", "exec", "{}", sys.executable, "-m", "realranks.ranks.hosts"])

    def pull(self) -> None:
        """Pull the cable out: both machines see that at once."""
        _ip("-n", self.names[1], "link", "set", "cable", "down")

    def lose_all(self) -> None:
        """Have everything lost on its way, as if a switch between the machines had died: neither of them sees that."""
        for name, other in zip(self.names, reversed(self.addresses), strict=True):
            _ip("-n", name, "neigh", "replace", other, "lladdr", _NOBODY, "dev", "cable", "nud", "permanent")

    def put_back(self) -> None:
        """Mend the network, in whatever way it was cut."""
        _ip("-n", self.names[1], "link", "set", "cable", "up")
        for name, other in zip(self.names, reversed(self.addresses), strict=True):
            with suppress(subprocess.CalledProcessError):  # it was not cut in this way
                _ip("-n", name, "neigh", "delete", other, "dev", "cable")

    def processes(self, name: str) -> set[int]:
        """What runs on one of them."""
        said = subprocess.run(["ip", "netns", "pids", name], check=True, capture_output=True, text=True)
        return set(map(int, said.stdout.split()))


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@contextmanager
def two_machines() -> Iterator[Machines]:
    """Two namespaces joined by a cable."""
    number = next(_numbers)
    names = tuple(f"{letter}{os.getpid()}-{number}" for letter in "ab")
    addresses = ("10.83.0.1", "10.83.0.2")
    try:
        for name in names:
            _ip("netns", "add", name)
            _ip("-n", name, "link", "set", "lo", "up")
        _ip(
            "-n", names[0], "link", "add", "cable", "type", "veth", "peer", "name", "cable", "netns", names[1]
        )
        for name, address in zip(names, addresses, strict=True):
            _ip("-n", name, "address", "add", f"{address}/24", "dev", "cable")
            _ip("-n", name, "link", "set", "cable", "up")
        yield Machines((names[0], names[1]), addresses)
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "delete", name], capture_output=True)


def end_all(machines: Machines) -> None:
    """End everything that runs on the machines."""
    for name in machines.names:
        for pid in machines.processes(name):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def why_no_ssh() -> str:
    """Why the machines cannot be reached by ssh; empty where they can."""
    missing = [name for name in (_SSHD, "ssh", "ssh-keygen") if shutil.which(name) is None]
    return why_not() or (f"needs {', '.join(missing)} (openssh)" if missing else "")


class SshServers:
    """An sshd on each of two machines, with keys and settings in a folder of the test's own."""

    def __init__(self, machines: Machines, folder: Path) -> None:
        self.machines = machines
        self.folder = folder
        self.servers: dict[str, subprocess.Popen[bytes]] = {}
        for key in ("host", "mine", "other"):
            command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / key)]
            subprocess.run(command, check=True)
        known = (folder / "host.pub").read_text()
        (folder / "known").write_text("".join(f"{address} {known}" for address in machines.addresses))
        (folder / "settings").write_text(
            "".join(
                f"Host {name}\n  HostName {address}\n"
                for name, address in zip(machines.names, machines.addresses, strict=True)
            )
            + f"Host *\n  IdentitiesOnly yes\n  BatchMode yes\n  UserKnownHostsFile {folder / 'known'}\n"
        )
        for name in machines.names:
            self.start(name)

    def start(self, name: str) -> None:
        """Start the sshd of a machine, and wait until it listens."""
        address = self.machines.addresses[self.machines.names.index(name)]
        settings = {
            "ListenAddress": address,
            "HostKey": self.folder / "host",
            "AuthorizedKeysFile": self.folder / "mine.pub",
            "PidFile": "none",
            "PasswordAuthentication": "no",
            "KbdInteractiveAuthentication": "no",
            "PermitRootLogin": "yes",
            "StrictModes": "no",
            "UsePAM": "no",
        }
        options = [word for key, value in settings.items() for word in ("-o", f"{key}={value}")]
        # sshd insists on /run/sshd. `ip netns exec` has given the command mounts of its own.
        before = 'mount -t tmpfs none /run && mkdir -m 755 /run/sshd && exec "$@"'
        command = ["ip", "netns", "exec", name, "sh", "-c", before, "sh", _SSHD, "-D", "-e", "-f", os.devnull]
        with (self.folder / "log").open("ab") as log:
            self.servers[name] = subprocess.Popen(
                [*command, *options], stderr=log, start_new_session=True, preexec_fn=die_with_parent
            )
        listens = ["ip", "netns", "exec", name, "bash", "-c", f": < /dev/tcp/{address}/22"]
        deadline = time.monotonic() + 20
        while subprocess.run(listens, capture_output=True).returncode:
            if self.servers[name].poll() is not None or time.monotonic() > deadline:
                raise AssertionError((self.folder / "log").read_text())

    def via(self, key: str = "mine") -> str:
        """For `%ranks hosts --via`: ssh, from the first of the two machines."""
        ssh = ["ssh", "-F", str(self.folder / "settings"), "-i", str(self.folder / key), "{}"]
        host = [shlex.quote(sys.executable), "-m", "realranks.ranks.hosts"]  # for the shell over there
        return shlex.join(["ip", "netns", "exec", self.machines.names[0], *ssh, *host])

    def processes(self) -> set[int]:
        """What runs on the two machines beside their servers."""
        servers = {server.pid for server in self.servers.values()}
        return set().union(*map(self.machines.processes, self.machines.names)) - servers

    def crash(self, name: str) -> None:
        """End everything that runs on a machine; who it spoke with does not learn that."""
        self.machines.lose_all()
        for pid in self.machines.processes(name):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.servers[name].wait()
        # Its system forgets their connections, as in a start.
        subprocess.run(["ss", "-N", name, "-K", "state", "all"], capture_output=True)

    def stop(self, name: str) -> None:
        """End the sshd of a machine; who is connected stays so."""
        self.servers[name].terminate()
        self.servers[name].wait()


@contextmanager
def ssh_servers(machines: Machines, folder: Path) -> Iterator[SshServers]:
    """An sshd on each of the machines."""
    servers = SshServers(machines, folder)
    try:
        yield servers
    finally:
        end_all(machines)
        for server in servers.servers.values():
            server.wait()
