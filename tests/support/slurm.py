"""A Slurm of a test's own on two machines: a controller on the first, a node on each, in a folder of the test's."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from realranks.ranks.process import die_with_parent
from tests.support import networks

_PROGRAMS = ("slurmctld", "slurmd", "srun", "salloc", "sinfo", "munged")
_SETTINGS = """
ClusterName=course
SlurmctldHost={first}({address})
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/controller.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/controller.log
SlurmdLogFile={folder}/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
JobAcctGatherType=jobacct_gather/none
KillWait=5
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
#: A machine has its name, and knows those of both. (`ip netns exec` would hide the cgroups, which slurmd wants to see.)
_BEFORE = 'hostname "$1" && mount --bind "$2" /etc/hosts && shift 2 && exec "$@"'


def why_not() -> str:
    """Why there can be no Slurm here; empty where there can."""
    missing = [name for name in _PROGRAMS if shutil.which(name) is None]
    return networks.why_not() or (f"needs {', '.join(missing)} (slurm-wlm)" if missing else "")


class Slurm:
    """A Slurm with two nodes, which have the names of the machines."""

    def __init__(self, machines: networks.Machines, folder: Path) -> None:
        self.machines = machines
        self.folder = folder
        self.environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}
        self.services: list[subprocess.Popen[bytes]] = []
        nodes = list(zip(machines.names, machines.addresses, strict=True))
        settings = _SETTINGS.format(first=nodes[0][0], address=nodes[0][1], folder=folder)
        settings += "".join(
            f"NodeName={name} NodeAddr={address} CPUs=2 State=UNKNOWN\n" for name, address in nodes
        )
        (folder / "slurm.conf").write_text(settings)
        (folder / "hosts").write_text(
            "127.0.0.1 localhost\n" + "".join(f"{address} {name}\n" for name, address in nodes)
        )
        for name in ("state", *(f"spool-{name}" for name in machines.names)):
            (folder / name).mkdir()
        (folder / "munge.key").write_bytes(secrets.token_bytes(128))
        (folder / "munge.key").chmod(0o600)

    def on(self, machine: str, *command: str) -> list[str]:
        """The command on one of the machines."""
        hosts = str(self.folder / "hosts")
        within = ["nsenter", f"--net=/run/netns/{machine}", "unshare", "-u", "-m"]
        return [*within, "sh", "-c", _BEFORE, "sh", machine, hosts, *command]

    def serve(self) -> None:
        """Start all of it, and wait until both nodes are idle."""
        first = self.machines.names[0]
        options = [f"--{name}-file={self.folder}/munge.{name}" for name in ("key", "pid", "log", "seed")]
        options.append(f"--socket={self.folder}/munge")
        self._start(["munged", "--foreground", "--force", *options])
        self._until(lambda: (self.folder / "munge").exists())
        self._start(self.on(first, "slurmctld", "-D", "-i"))
        for name in self.machines.names:
            self._start(self.on(name, "slurmd", "-D", "-N", name))
        self._until(lambda: self.ask("sinfo", "--noheader", "--format=%T %D").strip() == "idle 2")

    def ask(self, *command: str) -> str:
        """What a command says on the first machine."""
        ran = subprocess.run(
            self.on(self.machines.names[0], *command),
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=60,
        )
        return ran.stdout + ran.stderr

    def _start(self, command: Sequence[str]) -> None:
        with (self.folder / "services.log").open("ab") as log:
            self.services.append(
                subprocess.Popen(
                    command,
                    env=self.environment,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                    preexec_fn=die_with_parent,
                )
            )

    def _until(self, there: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 60
        while not there():
            if time.monotonic() > deadline:
                raise AssertionError("\n".join(file.read_text() for file in self.folder.glob("*.log")))
            time.sleep(0.1)


@contextmanager
def slurm(machines: networks.Machines) -> Iterator[Slurm]:
    """A Slurm on these machines. Its folder is none of pytest's: their names are too long for sockets of Slurm's."""
    with tempfile.TemporaryDirectory(prefix="slurm-") as folder:
        mine = Slurm(machines, Path(folder))
        try:
            mine.serve()
            yield mine
        finally:
            networks.end_all(machines)
            for service in mine.services:
                service.kill()
                service.wait()
