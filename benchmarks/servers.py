"""Real Jupyter servers as anybody starts them, not by `ddp-course lab`, and notebooks that are opened on them."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from queue import Empty
from typing import Any

import nbformat
import psutil
from jupyter_client.blocking.client import BlockingKernelClient

from benchmarks.gangs import ROOT, Failed
from realranks.ranks.server.zygote import SERVER, VARIABLE

LESSON, OTHER = "lesson.ipynb", "other.ipynb"
#: What the system calls a shared zygote; what it has forked has other names.
ZYGOTE = "ddp-zygote"


def until(found: Callable[[], Any], seconds: float = 60.0) -> Any:
    """Wait until this finds something, and return it.

    Raises:
        Failed: it did not within that time.
    """
    deadline = time.monotonic() + seconds
    while not (value := found()):
        if time.monotonic() > deadline:
            raise Failed(f"did not come within {seconds:.0f} s")
        time.sleep(0.02)
    return value


class Place:
    """A user's machine: where the servers of one user keep their files, with two notebooks, one of the course.

    Args:
        folder: for all of it; its path must be short, because the address of a socket must be.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.temporary = folder / "tmp"
        self.temporary.mkdir()
        self.notebook(LESSON, "%load_ext course_lib")
        self.notebook(OTHER, "1 + 1")
        inherited = {name: value for name, value in os.environ.items() if name not in (SERVER, VARIABLE)}
        self.environment = {
            **inherited,
            "PYTHONPATH": str(ROOT),
            "TMPDIR": str(self.temporary),
            # Where the course is installed, this file is in the environment's own etc/jupyter.
            "JUPYTER_CONFIG_PATH": str(ROOT / "course_lib" / "notebook"),
            "JUPYTER_CONFIG_DIR": str(folder / "config"),
            "IPYTHONDIR": str(folder / "ipython"),
            "DDP_COURSE_HOME": str(folder / "progress"),
        }

    def notebook(self, name: str, source: str) -> str:
        """Write a notebook of one cell; returns its name."""
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)])
        nbformat.write(notebook, self.folder / name)
        return name

    def processes(self) -> list[psutil.Process]:
        """List all processes that run here."""
        return [process for process in psutil.process_iter() if self._is_here(process)]

    def _is_here(self, process: psutil.Process) -> bool:
        try:
            if process.status() == psutil.STATUS_ZOMBIE:
                return False
            return bool(process.environ().get("TMPDIR") == str(self.temporary))
        except (psutil.Error, OSError):
            return False

    def close(self) -> None:
        """End everything that still runs here."""
        while left := self.processes():
            for process in left:
                with contextlib.suppress(psutil.Error):
                    process.kill()
            psutil.wait_procs(left, timeout=1.0)

    def sockets(self) -> list[Path]:
        """List the sockets of this user's zygotes."""
        return list(self.temporary.glob("ddp-course-*/*.socket"))

    def zygotes(self) -> list[int]:
        """Return the pids of this user's zygotes, without the processes they have forked."""
        found = []
        for process in self.processes():
            with contextlib.suppress(psutil.Error):
                if process.name() == ZYGOTE:
                    found.append(process.pid)
        return found


class Server:
    """A plain `jupyter server`."""

    def __init__(self, place: Place, name: str) -> None:
        self.runtime = place.folder / f"runtime-{name}"
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "jupyter_server", "--allow-root", "--port=0", "--no-browser"),
                f"--ServerApp.root_dir={place.folder}",
            ],
            env={**place.environment, "JUPYTER_RUNTIME_DIR": str(self.runtime)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        (file,) = until(lambda: list(self.runtime.glob("jpserver-*.json")), 60.0)
        self.info = until(lambda: _read(file))
        until(lambda: self._answers("api/status"), 60.0)

    def _answers(self, where: str) -> bool:
        try:
            return bool(self.ask(where))
        except OSError:
            return False

    def ask(self, where: str, **data: object) -> Any:
        """Send a request to the server's REST API, and return its answer."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.info['port']}/{where}",
            data=json.dumps(data).encode() if data else None,
            headers={"Authorization": f"token {self.info['token']}"},
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)

    def open(self, notebook: str) -> ServedKernel:
        """Open a notebook, as JupyterLab does; one that is open already has its kernel."""
        session = self.ask(
            "api/sessions", path=notebook, name=notebook, type="notebook", kernel={"name": "python3"}
        )
        return ServedKernel(self.runtime / f"kernel-{session['kernel']['id']}.json")

    def kill(self) -> None:
        """Kill the server with SIGKILL, so that nothing is tidied up."""
        self.process.kill()
        self.process.wait()


def _read(file: Path) -> Any:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except ValueError:
        return None


class ServedKernel:
    """A kernel of a server."""

    def __init__(self, connection: Path) -> None:
        self.client: Any = BlockingKernelClient(
            connection_file=str(until(lambda: connection.exists() and connection))
        )
        self.client.load_connection_file()
        # Without the heartbeat: on a busy machine it takes a kernel that is slow for one that has died.
        self.client.start_channels(hb=False)
        until(self._hears, 60.0)

    def _hears(self) -> bool:
        """Check that the kernel answers and that its output arrives."""
        try:
            self.client.kernel_info(reply=True, timeout=30)
            self.client.get_iopub_msg(timeout=1)
        except (Empty, TimeoutError):
            return False
        return True

    def run(self, source: str) -> str:
        """Run a cell that has to work; returns what it printed."""
        printed: list[str] = []

        def hear(message: Mapping[str, Any]) -> None:
            if message["msg_type"] == "stream":
                printed.append(message["content"]["text"])

        hook: Callable[[Mapping[str, Any]], None] = hear
        reply = self.client.execute_interactive(source, output_hook=hook, timeout=120)
        if reply["content"]["status"] != "ok":
            raise Failed(str(reply["content"]))
        return "".join(printed)

    def close(self) -> None:
        """Listen no more."""
        self.client.stop_channels()
