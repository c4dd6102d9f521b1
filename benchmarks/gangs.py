"""One class for each way to have ranks. All of them: `start` until every rank has its process group, `run`, `stop`."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from benchmarks import processes
from benchmarks.driven import GROUP
from benchmarks.results import COURSE
from benchmarks.wire import ADDRESS, Desk, Line, collect

ROOT = Path(__file__).resolve().parents[1]
PATIENCE = 120.0


class Failed(RuntimeError):
    """A contender could not do the work at all."""


class Ranks(Protocol):
    """Ranks that can be told what to run next."""

    def start(self) -> float:
        """Start the ranks; return the seconds until every rank's process group is up."""

    def run(self, source: str, bound: float = PATIENCE) -> bool:
        """Run the source on every rank; False when it has not ended on all of them within the bound."""

    def pids(self) -> list[int]:
        """Return the pids of the ranks."""

    def everybody(self) -> list[int]:
        """Return the pids of the ranks and of whatever keeps them: forkserver, launcher, controller, nannies."""

    def stop(self) -> None:
        """End them all."""


class CourseRanks:
    """The course's own: a gang of the (warm) forkserver."""

    def __init__(self, world_size: int) -> None:
        from realranks.ranks.kernel.launcher import warm_up

        self.world_size = world_size
        self._launcher = warm_up()
        self._launcher.wait_ready()
        self.gang: Any = None
        self.outcome: Any = None

    def start(self) -> float:
        from realranks.ranks.kernel.gang import Gang

        before = time.perf_counter()
        self.gang = Gang(self.world_size)
        self.gang.wait_ready()
        return time.perf_counter() - before

    def run(self, source: str, bound: float = PATIENCE) -> bool:
        """Run the source as a cell, up to the text the learner reads; a deadlock ends it too."""
        from realranks.doctor import with_diagnosis

        self.outcome = with_diagnosis(self.gang.run_cell(source, timeout=bound))
        repr(self.outcome)
        if self.outcome.kind not in ("ok", "hang"):
            raise Failed(repr(self.outcome))
        return True

    def printed(self) -> list[str]:
        return list(self.outcome.stdout.values())

    def entered(self) -> list[float]:
        """Return when each rank that joined a deadlock began to wait."""
        return list(self.outcome["entered"].values())

    def verdict(self) -> str:
        """Summarise the last run's diagnosis in a few words."""
        if self.outcome.kind != "hang" or not self.outcome.proved:
            raise Failed(f"no deadlock was found:\n{self.outcome!r}")
        who = [seen for seen in self.outcome.waiting.values() if seen.missing == (2,) and seen.where]
        return "proved; names ranks, collective and line; state kept" if who else "proved"

    def pids(self) -> list[int]:
        return [link.pid for link in self.gang.links]

    def everybody(self) -> list[int]:
        """Return the pids of the forkserver, the store and the ranks."""
        return processes.family(self._launcher.pid)

    def stop(self) -> None:
        """End the gang, keep the forkserver."""
        if self.gang is not None:
            self.gang.stop()
            self.gang.reap()


@dataclass(frozen=True)
class _Launch:
    """A launcher's arguments to Python (`{n}` is the number of ranks), and how its ranks start their group."""

    arguments: str
    group: str


_LAUNCHERS = {
    "spawn": _Launch("-m benchmarks.starter spawn {n}", "file"),
    "notebook_launcher": _Launch("-m benchmarks.starter notebook_launcher {n}", "accelerate"),
    "torchrun": _Launch(
        "-m torch.distributed.run --standalone --nproc-per-node={n} -m benchmarks.driven", "env://"
    ),
    # `accelerate launch --cpu --num_processes 4` starts a single process (accelerate 1.15); this starts four.
    "accelerate launch": _Launch(
        "-m accelerate.commands.launch --multi_gpu --num_machines=1 --mixed_precision=no --dynamo_backend=no "
        "--num_processes={n} --main_process_port=0 -m benchmarks.driven",
        "accelerate",
    ),
}


class ScriptRanks:
    """Ranks of a launcher that runs a script (or a function) to its end."""

    def __init__(self, name: str, world_size: int) -> None:
        self.name = name
        self.world_size = world_size
        self._stack = contextlib.ExitStack()
        self._lines: list[Line] = []
        self._pids: list[int] = []

    def start(self) -> float:
        """Start the ranks, timed from the command line or, with torch loaded, from the call to the group."""
        folder = self._stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
        desk = Desk(os.path.join(folder, "desk"))
        self._stack.callback(desk.close)
        log = self._stack.enter_context(open(os.path.join(folder, "log"), "w+b"))  # noqa: SIM115
        self._stack.enter_context(processes.gone_afterwards())
        launch = _LAUNCHERS[self.name]
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "OMP_NUM_THREADS": "1",
            "GLOO_SOCKET_IFNAME": "lo",
            ADDRESS: desk.address,
            # A file as rendezvous has no start race, which is the best spawn can have.
            GROUP: f"file://{folder}/group" if launch.group == "file" else launch.group,
        }
        command = [sys.executable, *launch.arguments.format(n=self.world_size).split()]
        before = time.perf_counter()
        self._process = subprocess.Popen(
            command, env=environment, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
        try:
            if "benchmarks.starter" in command:
                starter = desk.expect_call(PATIENCE)
                starter.receive()
                before = time.perf_counter()
                starter.send(go=True)
                self._starter = starter  # kept: a closed line would end it
            self._lines = [desk.expect_call(PATIENCE) for _ in range(self.world_size)]
            hello = collect(self._lines, PATIENCE)
        except OSError as error:
            log.seek(0)
            raise Failed(f"{self.name}: {error}: {log.read()[-1500:].decode(errors='replace')}") from None
        seconds = time.perf_counter() - before
        if hello is None:
            raise Failed(f"{self.name}: the process group is not up after {PATIENCE:.0f} s")
        self._pids = [message["pid"] for message in hello]
        return seconds

    def run(self, source: str, bound: float = PATIENCE) -> bool:
        """Tell every rank, wait for all."""
        for line in self._lines:
            line.send(source=source)
        answers = collect(self._lines, bound)
        if answers is None:
            return False
        for answer in answers:
            if answer["error"]:
                raise Failed(f"{self.name}: {answer['error']}")
        return True

    def pids(self) -> list[int]:
        return self._pids

    def everybody(self) -> list[int]:
        """Return the pids of the launcher and of all processes below it."""
        return processes.family(self._process.pid)

    def stop(self) -> None:
        """Kill them: some would wait for stuck ranks for ever."""
        self._stack.close()
        if hasattr(self, "_process"):
            self._process.wait()


_ENGINES_START_GROUP = """\
import torch
import torch.distributed as dist
dist.init_process_group('gloo', init_method='file://{folder}/group', rank=rank, world_size={n})
"""


class EngineRanks:
    """ipyparallel's engines with a process group, driven as `%%px` drives them."""

    def __init__(self, world_size: int) -> None:
        self.world_size = world_size
        self._stack = contextlib.ExitStack()
        self._view: Any = None
        self._result: Any = None

    def start(self) -> float:
        """Start a cluster, import torch in its engines, and create a process group."""
        import ipyparallel

        folder = self._stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
        self._stack.enter_context(processes.gone_afterwards())
        os.environ.update(IPYTHONDIR=folder, OMP_NUM_THREADS="1", GLOO_SOCKET_IFNAME="lo")
        self._others = set(processes.family(os.getpid()))
        before = time.perf_counter()
        self._cluster = ipyparallel.Cluster(
            n=self.world_size, cluster_id="", log_level=40, shutdown_atexit=False
        )
        with contextlib.redirect_stdout(sys.stderr):
            self._client = self._cluster.start_and_connect_sync(activate=False)
        self._view = self._client[:]
        self._view.scatter("rank", range(self.world_size), flatten=True, block=True)
        self.run(_ENGINES_START_GROUP.format(folder=folder, n=self.world_size))
        return time.perf_counter() - before

    def run(self, source: str, bound: float = PATIENCE) -> bool:
        """Execute on every engine and wait for the answers and for what was printed."""
        import ipyparallel

        self._result = self._view.execute(source, silent=False, block=False)
        try:
            self._result.get(timeout=bound)
        except (TimeoutError, ipyparallel.TimeoutError):
            return False
        self._result.wait_for_output()
        return True

    def printed(self) -> list[str]:
        return list(self._result.stdout)

    def pids(self) -> list[int]:
        return list(self._view.apply_sync(os.getpid))

    def everybody(self) -> list[int]:
        """Return the pids of engines, nannies, controller and schedulers."""
        return [pid for pid in processes.family(os.getpid()) if pid not in self._others]

    def stop(self) -> None:
        """Close the client and kill the rest: a stuck engine would not stop by itself."""
        with contextlib.suppress(Exception):
            self._client.close()
        self._stack.close()
        os.environ.pop("IPYTHONDIR", None)


def make(name: str, world_size: int) -> CourseRanks | ScriptRanks | EngineRanks:
    """Create the contender of that name."""
    if name == COURSE:
        return CourseRanks(world_size)
    if name == "ipyparallel":
        return EngineRanks(world_size)
    return ScriptRanks(name, world_size)


_NEEDS = {"notebook_launcher": "accelerate", "accelerate launch": "accelerate", "ipyparallel": "ipyparallel"}
CONTENDERS = (COURSE, "spawn", "notebook_launcher", "accelerate launch", "torchrun", "ipyparallel")


def installed(names: tuple[str, ...] = CONTENDERS) -> list[str]:
    """List the contenders whose package is installed."""
    return [
        name for name in names if name not in _NEEDS or importlib.util.find_spec(_NEEDS[name]) is not None
    ]
