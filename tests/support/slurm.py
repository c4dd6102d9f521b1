"""A Slurm of two nodes on this machine, in two network namespaces: its daemons end with the test."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support import networks

_PROGRAMS = "slurmctld", "slurmd", "sbatch", "sinfo", "munged"
_NODES = "m0", "m1"
_CONFIGURATION = """
ClusterName=course
SlurmctldHost=m0({first})
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
JobAcctGatherType=jobacct_gather/none
KillWait=5
NodeName=m0 NodeAddr={first} CPUs={cores} State=UNKNOWN
NodeName=m1 NodeAddr={second} CPUs={cores} State=UNKNOWN
PartitionName=all Nodes=m0,m1 Default=YES MaxTime=INFINITE State=UP
"""


def why_not() -> str:
    """Why there can be no Slurm here; empty where there can."""
    missing = [name for name in _PROGRAMS if shutil.which(name) is None]
    if missing:
        return f"needs Slurm ({', '.join(missing)})"
    return networks.why_not() or ("" if os.geteuid() == 0 else "needs root")


@dataclass(frozen=True)
class Slurm:
    """Two nodes, `m0` and `m1`."""

    folder: Path
    machines: networks.Machines

    def command(self, node: int, *words: str) -> list[str]:
        """What runs these words on a node: in its network, under its name."""
        script = 'hostname "$0"; mount --bind "$1" /etc/hosts; shift; exec "$@"'
        return [
            *("nsenter", f"--net=/run/netns/{self.machines.names[node]}", "unshare", "--uts", "--mount"),
            *("sh", "-c", script, _NODES[node], str(self.folder / "hosts"), *words),
        ]

    def run(self, *words: str, **options: object) -> str:
        """Run a command on the first node; returns what it prints."""
        done = subprocess.run(
            self.command(0, *words),
            env=self.environment,
            capture_output=True,
            text=True,
            check=True,
            **options,
        )
        return done.stdout

    @property
    def environment(self) -> dict[str, str]:
        return os.environ | {"SLURM_CONF": str(self.folder / "slurm.conf")}

    def idle(self) -> int:
        """How many nodes are idle."""
        try:
            return self.run("sinfo", "--noheader", "--Node", "--format=%t", timeout=10).split().count("idle")
        except subprocess.SubprocessError:
            return 0


@contextmanager
def two_nodes(folder: Path, seconds: float = 30) -> Iterator[Slurm | None]:
    """Start the daemons; None where no two nodes are idle after so many seconds."""
    for name in ("state", "spool-m0", "spool-m1", "munge"):
        (folder / name).mkdir()
    daemons: list[subprocess.Popen[bytes]] = []
    with networks.two_machines() as machines:
        slurm = Slurm(folder, machines)
        first, second = machines.addresses
        (folder / "hosts").write_text(f"127.0.0.1 localhost\n{first} m0\n{second} m1\n")
        (folder / "slurm.conf").write_text(
            _CONFIGURATION.format(folder=folder, first=first, second=second, cores=os.cpu_count())
        )
        key = folder / "munge/key"
        key.write_bytes(os.urandom(64))
        key.chmod(0o600)
        files = [f"--{name}-file={folder}/munge/{name}" for name in ("key", "pid", "log", "seed")]
        munged = ["munged", "--foreground", "--force", f"--socket={folder}/munge/socket", *files]
        lines = [
            munged,
            slurm.command(0, "slurmctld", "-D", "-i"),
            slurm.command(0, "slurmd", "-D", "-N", "m0"),
            slurm.command(1, "slurmd", "-D", "-N", "m1"),
        ]
        try:
            for line in lines:
                with (folder / "daemons.log").open("a") as log:
                    daemons.append(
                        subprocess.Popen(line, env=slurm.environment, stdout=log, stderr=log, cwd=folder)
                    )
            until = time.monotonic() + seconds
            while slurm.idle() < len(_NODES) and time.monotonic() < until:
                time.sleep(0.2)
            yield slurm if slurm.idle() == len(_NODES) else None
        finally:
            for daemon in reversed(daemons):
                daemon.terminate()
            for daemon in daemons:
                try:
                    daemon.wait(10)
                except subprocess.TimeoutExpired:
                    daemon.kill()
                    daemon.wait()
