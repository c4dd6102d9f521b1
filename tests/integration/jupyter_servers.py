"""Real Jupyter servers, as anybody starts them: not by `ddp-course lab`."""

import json
import os
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from queue import Empty
from typing import Any

import nbformat
import psutil
from jupyter_client.blocking.client import BlockingKernelClient

from tests.integration.ranks_and_kernels import ROOT, until

LESSON, OTHER = "lesson.ipynb", "other.ipynb"


class Place:
    """A user's machine: where the servers of one user keep their files, with two notebooks, one of the course."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # The address of a socket must be short.
        self.temporary = Path(tempfile.mkdtemp(prefix="ddp-", dir="/tmp"))
        for name, source in ((LESSON, "%load_ext course_lib"), (OTHER, "1 + 1")):
            notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)])
            nbformat.write(notebook, folder / name)
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("DDP_COURSE_ZYGOTE")},
            "PYTHONPATH": str(ROOT),
            "TMPDIR": str(self.temporary),
            # Where the course is installed, this file is in the environment's own etc/jupyter.
            "JUPYTER_CONFIG_PATH": str(ROOT / "course_lib" / "notebook"),
            "JUPYTER_CONFIG_DIR": str(folder / "config"),
            "IPYTHONDIR": str(folder / "ipython"),
            "DDP_COURSE_HOME": str(folder / "progress"),
        }

    def sockets(self) -> list[Path]:
        """The sockets of this user's zygotes."""
        return list(self.temporary.glob("ddp-course-*/*.socket"))

    def zygotes(self) -> list[int]:
        """The processes of this user that are zygotes, not what they have forked."""
        found = []
        for process in psutil.process_iter():
            try:
                if process.name() == "ddp-zygote" and process.environ().get("TMPDIR") == str(self.temporary):
                    found.append(process.pid)
            except psutil.Error:
                continue
        return found


class Server:
    """A plain `jupyter server`."""

    def __init__(self, place: Place, name: str, environment: Mapping[str, str] | None = None) -> None:
        self.runtime = place.folder / f"runtime-{name}"
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "jupyter_server", "--allow-root", "--port=0", "--no-browser"),
                f"--ServerApp.root_dir={place.folder}",
            ],
            env={**place.environment, "JUPYTER_RUNTIME_DIR": str(self.runtime), **(environment or {})},
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
        """What its REST API answers."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.info['port']}/{where}",
            data=json.dumps(data).encode() if data else None,
            headers={"Authorization": f"token {self.info['token']}"},
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)

    def open(self, notebook: str) -> "ServedKernel":
        """Open a notebook, as JupyterLab does."""
        session = self.ask(
            "api/sessions", path=notebook, name=notebook, type="notebook", kernel={"name": "python3"}
        )
        return ServedKernel(self.runtime / f"kernel-{session['kernel']['id']}.json")

    def kill(self) -> None:
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
        self.client = BlockingKernelClient(
            connection_file=str(until(lambda: connection.exists() and connection))
        )
        self.client.load_connection_file()
        # Without the heartbeat: on a busy machine it takes a kernel that is slow for one that has died.
        self.client.start_channels(hb=False)
        until(self._hears, 60.0)

    def _hears(self) -> bool:
        """Whether the kernel answers, and what it publishes arrives."""
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
        assert reply["content"]["status"] == "ok", reply["content"]
        return "".join(printed)

    def close(self) -> None:
        self.client.stop_channels()
