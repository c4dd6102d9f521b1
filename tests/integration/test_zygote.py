"""Kernels that get their forkserver from a zygote: warm, their own in every way, and never a condition."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from realranks.ranks.kernel import launcher
from tests.support.ranks_and_kernels import is_gone, until

ROOT = Path(__file__).parents[2]
ASK = """
import sys, psutil
from realranks.ranks.kernel.launcher import warm_up
from realranks.ranks.kernel.gang import Gang
launcher = warm_up()
gang = Gang(2, backend="gloo")
gang.wait_ready()
print(psutil.Process(launcher.pid).ppid(), launcher.pid, *(link.pid for link in gang.links), flush=True)
sys.stdin.readline()
"""


class Owner:
    """A process that has a zygote, as JupyterLab has."""

    def __init__(self, folder: Path = ROOT) -> None:
        self.folder = folder
        held = (
            "from realranks.ranks.server.zygote import *\nstart_zygote()\n"
            "print(os.environ[VARIABLE], flush=True)\ninput()"
        )
        environment = {name: value for name, value in os.environ.items() if name != "DDP_COURSE_ZYGOTE"}
        self.process = subprocess.Popen(
            [sys.executable, "-c", "import os\n" + held],
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.environment = {**environment, "DDP_COURSE_ZYGOTE": self.process.stdout.readline().strip()}
        self.address = self.environment["DDP_COURSE_ZYGOTE"]
        (self.zygote,) = until(lambda: list(self._zygotes()))

    def _zygotes(self) -> Iterator[psutil.Process]:
        """What the zygote has forked has its command line, too, and another name."""
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.name() == "ddp-zygote" and self.address in process.cmdline():
                    yield process

    def kernel(self, **environment: str) -> "Asked":
        return Asked(self.folder, {**self.environment, **environment})


class Asked:
    """A process that starts ranks, as a kernel does."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", ASK],
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        line = self.process.stdout.readline()
        self.parent, self.server, *self.ranks = map(int, line.split())

    def end(self) -> None:
        self.process.communicate("\n", timeout=60)


@pytest.fixture(scope="module")
def owner() -> Iterator[Owner]:
    mine = Owner()
    yield mine
    with contextlib.suppress(ProcessLookupError):
        mine.process.kill()
    mine.process.communicate()


def test_a_kernel_gets_its_forkserver_from_the_zygote(owner):
    one = owner.kernel()
    assert one.parent == owner.zygote.pid
    assert psutil.Process(one.server).name() == f"ranks-{one.process.pid}"
    one.end()
    until(lambda: all(is_gone(pid) for pid in [one.server, *one.ranks]))
    assert owner.zygote.is_running()


def test_ranks_end_with_their_kernel_however_that_ends(owner):
    one, other = owner.kernel(), owner.kernel()
    one.process.kill()
    until(lambda: all(is_gone(pid) for pid in [one.server, *one.ranks]))
    assert not any(is_gone(pid) for pid in [other.server, *other.ranks])
    os.kill(other.server, signal.SIGKILL)
    until(lambda: all(is_gone(pid) for pid in other.ranks))
    other.end()
    one.process.communicate()


def test_a_kernel_that_has_imported_torch_itself_is_served_too(owner):
    """Where DDP is imported, torch writes the folder of its compiler's cache into the environment."""
    one = owner.kernel(TORCHINDUCTOR_CACHE_DIR="/tmp/torchinductor_somebody")
    assert one.parent == owner.zygote.pid
    one.end()


@pytest.mark.parametrize(
    "other",
    [
        {"TORCH_SHOW_CPP_STACKTRACES": "1"},
        {"DDP_COURSE_ZYGOTE": "/nowhere/socket"},
        {"DDP_COURSE_ZYGOTE": ""},
    ],
    ids=["another environment for torch", "a zygote that is no more", "none wanted"],
)
def test_a_kernel_that_gets_none_starts_its_own(owner, other):
    one = owner.kernel(**other)
    assert one.parent == one.process.pid
    one.end()


def test_a_zygote_that_does_not_answer_is_not_waited_for_for_ever(monkeypatch):
    """It may have been stopped, or be swapped out: the kernel then starts its own forkserver."""
    monkeypatch.setattr(launcher, "ZYGOTE_SECONDS", 0.3)
    before = children_that_serve()
    with tempfile.TemporaryDirectory(dir="/tmp") as folder, socket.socket(socket.AF_UNIX) as silent:
        silent.bind(f"{folder}/socket")
        silent.listen(1)
        monkeypatch.setenv("DDP_COURSE_ZYGOTE", f"{folder}/socket")
        mine = launcher.Launcher("forkserver")
        try:
            assert not mine.has_ended()
            assert children_that_serve() == before
            until(lambda: not mine.has_ended() and children_that_serve() > before)
        finally:
            mine.close()
        assert children_that_serve() == before


def children_that_serve() -> set[int]:
    """The forkservers that this process has started itself."""
    return {
        child.pid
        for child in psutil.Process().children()
        if child.status() != psutil.STATUS_ZOMBIE and "realranks.ranks.server" in child.cmdline()
    }


def test_a_changed_course_is_loaded_anew_and_the_zygote_ends_with_its_owner(tmp_path):
    """Somebody who works on the course gets what is in the files."""
    shutil.copytree(ROOT / "realranks", tmp_path / "realranks", ignore=shutil.ignore_patterns("__pycache__"))
    owner = Owner(tmp_path)
    one = owner.kernel()
    assert one.parent == owner.zygote.pid
    file = tmp_path / "realranks" / "ranks" / "inside" / "tracebacks.py"
    file.write_text(file.read_text() + "\n# changed\n")
    other = owner.kernel()
    assert other.parent == other.process.pid
    other.end()
    owner.process.kill()
    owner.process.communicate()
    until(lambda: is_gone(owner.zygote.pid) and not os.path.exists(owner.address))
    assert not any(is_gone(pid) for pid in [one.server, *one.ranks])
    one.end()
    until(lambda: all(is_gone(pid) for pid in [one.server, *one.ranks]))
