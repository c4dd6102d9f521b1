"""A copy of the course and the Jupyter servers that open it, started as a learner starts them.

Owns processes and folders. Nothing of the user's own set-up takes part: home, configuration, settings, runtime
files and progress lie in a temporary folder; the port is the system's choice.
"""

import contextlib
import json
import os
import re
import secrets
import shutil
import socket
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import matplotlib
import nbformat
import psutil

from course_lib.learner.update import put_back

CHECKOUT = Path(__file__).resolve().parents[2]
FOLDERS = ("notebooks", "exercises", "solutions", "docs", "course_lib", "realranks")
START_SECONDS = 60.0
LIGHT, DARK = "JupyterLab Light", "JupyterLab Dark"


class Course:
    """A copy of the course's folder, so that what is saved while testing never reaches the checkout.

    `ddp-course lab` opens the learner's copy in it, Notebook 7 the folder itself: a notebook is written into both.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.learner = root / "learner"
        for name in FOLDERS:
            if (CHECKOUT / name).is_dir():
                leave = shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints")
                shutil.copytree(CHECKOUT / name, root / name, ignore=leave)
        shutil.copy(CHECKOUT / "pyproject.toml", root)

    def fresh(self, path: str, *, counts: bool = True) -> nbformat.NotebookNode:
        """Put a notebook back as it is in the checkout and return it.

        Without `counts` its cells look not yet run, `[ ]:`, so that a new number says that a cell has ended.
        """
        notebook = nbformat.read(CHECKOUT / path, as_version=4)
        if not counts:
            for cell in notebook.cells:
                if cell.cell_type == "code":
                    cell.execution_count = None
        self._put(notebook, path)
        return notebook

    def given(self, path: str) -> nbformat.NotebookNode:
        """Put a notebook of the learner's copy back as the course gives it, and return it."""
        put_back(self.learner, self.root, [path])
        return nbformat.read(self.learner / path, as_version=4)

    def write(self, path: str, *sources: str) -> nbformat.NotebookNode:
        """A notebook of these code cells."""
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in sources])
        notebook.metadata["kernelspec"] = {
            "name": "python3",
            "display_name": "Python 3",
            "language": "python",
        }
        self._put(notebook, path)
        return notebook

    def _put(self, notebook: nbformat.NotebookNode, path: str) -> None:
        for folder in (self.root, self.learner):
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            nbformat.write(notebook, folder / path)


@dataclass
class Server:
    """A Jupyter server that answers."""

    process: subprocess.Popen[bytes]
    #: Where the learner's browser is sent, without the token.
    opens: str
    token: str
    base: str = field(init=False)
    theme: str = LIGHT

    def __post_init__(self) -> None:
        self.base = re.match(r"https?://[^/]+", self.opens)[0]  # type: ignore[index]

    def url(self, path: str) -> str:
        return f"{self.base}/{path}{'&' if '?' in path else '?'}token={self.token}"

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """Ask the server's REST interface."""
        request = urllib.request.Request(
            f"{self.base}/{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"token {self.token}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    def set_theme(self, name: str) -> None:
        """As the learner does in Settings > Theme, before JupyterLab is opened, or between two notebooks."""
        self.theme = name
        path = f"lab/api/settings/{quote('@jupyterlab/apputils-extension:themes', safe='@')}"
        self.call("PUT", path, {"raw": json.dumps({"theme": name})})

    def end_kernels(self) -> None:
        """End all kernels, and so their ranks."""
        for session in self.call("GET", "api/sessions"):
            self.call("DELETE", f"api/sessions/{session['id']}")

    def sessions(self) -> list[dict[str, Any]]:
        """What the server says of its notebooks' kernels."""
        return self.call("GET", "api/sessions")

    def has_idle_kernel(self, path: str) -> bool:
        """True when the notebook has a kernel that is idle and has a browser connected."""
        return any(
            session["kernel"]["execution_state"] == "idle" and session["kernel"]["connections"] > 0
            for session in self.sessions()
            if session["path"] == path
        )

    def kernel_process(self) -> psutil.Process:
        """The one kernel that runs."""
        found = []
        for child in psutil.Process(self.process.pid).children():
            with contextlib.suppress(
                psutil.NoSuchProcess
            ):  # it has ended meanwhile: the kernel of the test before
                if "ipykernel_launcher" in " ".join(child.cmdline()):
                    found.append(child)
        (one,) = found
        return one


def environment(home: Path) -> dict[str, str]:
    """The environment of somebody who has just come to this machine."""
    home.mkdir(parents=True, exist_ok=True)
    clean = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("JUPYTER", "XDG_", "IPYTHON", "PYTEST_", "DDP_COURSE", "KERNEL_"))
    }
    return clean | {
        "HOME": str(home),
        "XDG_CACHE_HOME": str(home / "cache"),
        "XDG_CONFIG_HOME": str(home / "config"),
        "XDG_DATA_HOME": str(home / "data"),
        "JUPYTER_CONFIG_DIR": str(home / "jupyter"),
        "JUPYTER_DATA_DIR": str(home / "jupyter-data"),
        "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
        "IPYTHONDIR": str(home / "ipython"),
        # Made at installation (see the Makefile); without it the first figure comes with a warning.
        "MPLCONFIGDIR": matplotlib.get_cachedir(),
    }


@contextlib.contextmanager
def serving(command: list[str], course: Course, home: Path) -> Iterator[Server]:
    """Start a Jupyter server on the course, and end it with all that it has started."""
    token = secrets.token_hex(16)
    log = home / f"{Path(command[0]).name}-{len(list(home.glob('*.log')))}.log" if home.exists() else None
    variables = environment(home)
    log = log or home / "server.log"
    options = ["--no-browser", "--port=0", f"--IdentityProvider.token={token}"]
    with log.open("wb") as sink:
        process = subprocess.Popen(
            [*command, *options],
            cwd=course.root,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
        )
    try:
        yield Server(process, _address(process, log), token)
    finally:
        _end(process)


def course_lab(course: Course, home: Path) -> contextlib.AbstractContextManager[Server]:
    """What `make lab ARGS=--no-browser` starts; its page tells scripts of its commands, as `window.jupyterapp`."""
    command = [
        str(Path(sys.executable).with_name("ddp-course")),
        "lab",
        "--LabApp.expose_app_in_browser=True",
    ]
    return serving(command, course, home)


def notebook_7(course: Course, home: Path) -> contextlib.AbstractContextManager[Server]:
    """`jupyter notebook`, as somebody may open the course who does not know of `make lab`."""
    root = ["--allow-root"] if os.geteuid() == 0 else []
    return serving([sys.executable, "-m", "notebook", *root], course, home)


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    """The address that the server prints for the learner's browser."""
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until:
        if process.poll() is not None:
            break
        if found := re.search(
            r"(http://(?:localhost|127\.0\.0\.1):\d+/\S*)\?token=", log.read_text(errors="replace")
        ):
            # It prints its address before it takes connections.
            with contextlib.suppress(ConnectionRefusedError), _connected(found[1]):
                return found[1]
        time.sleep(0.05)
    raise RuntimeError(f"The Jupyter server did not start:\n{log.read_text(errors='replace')[-3000:]}")


def _connected(address: str) -> socket.socket:
    """A connection to the server at this address.

    Raises:
        ConnectionRefusedError: nobody listens there.
    """
    there = urllib.parse.urlsplit(address)
    assert there.hostname is not None
    assert there.port is not None
    return socket.create_connection((there.hostname, there.port), timeout=START_SECONDS)


def _end(process: subprocess.Popen[bytes]) -> None:
    """SIGTERM, which ends kernels in order; then whatever is left."""
    try:
        family = psutil.Process(process.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        family = []
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    _gone, left = psutil.wait_procs(family, timeout=5)
    for survivor in left:
        with contextlib.suppress(psutil.NoSuchProcess):
            survivor.kill()
