"""Real ranks and real kernels for the tests, and a way to wait for things that is not a sleep."""

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty
from typing import Any

import psutil
from jupyter_client.kernelspec import KernelSpec

from realranks.doctor import with_diagnosis
from realranks.outcome.outcome import Outcome
from realranks.ranks.kernel.gang import Gang
from tests.support.kernels import Manager

ROOT = Path(__file__).resolve().parents[2]


def until(condition: Callable[[], Any], seconds: float = 60.0) -> Any:
    """Wait until the condition holds and return its value; fails when it does not within `seconds`."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"did not come true within {seconds} s")
        time.sleep(0.01)


def is_gone(pid: int) -> bool:
    """True for a process that has ended, whether or not somebody has reaped it."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.Error:
        return True


def until_gone(pids: Iterable[int], seconds: float = 60.0) -> None:
    """Wait until these processes have ended; fails with what is left of them, and in which call of the system's."""
    left = list(pids)
    try:
        until(lambda: all(is_gone(pid) for pid in left), seconds)
    except AssertionError as error:
        raise AssertionError(f"{error}: {[_told(pid) for pid in left if not is_gone(pid)]}") from None


def _told(pid: int) -> str:
    try:
        process = psutil.Process(pid)
        call = Path(f"/proc/{pid}/wchan").read_text()
        return f"{pid} {process.name()} of {process.ppid()}, {process.status()} in {call or 'none'}"
    except (OSError, psutil.Error) as error:
        return f"{pid}: {error}"


class Ranks:
    """Gangs of one test: `ranks(source)` runs a cell on the current one."""

    def __init__(self, size: int = 4, **options: Any) -> None:
        self.gang = Gang(size, **options)
        self.gang.wait_ready()

    def __call__(self, source: str, **options: Any) -> Outcome:
        options.setdefault("timeout", 60.0)
        return with_diagnosis(self.gang.run_cell(source, label="In [1]", first_line=2, **options))

    def pids(self) -> list[int]:
        found = [link.pid for link in self.gang.links]
        assert all(found)
        return [pid for pid in found if pid is not None]


@dataclass
class Shown:
    """What a cell of the kernel has shown."""

    status: str = ""
    stdout: str = ""
    stderr: str = ""
    displays: list[dict[str, Any]] = field(default_factory=list)
    updates: list[str] = field(default_factory=list)
    error: str = ""
    ename: str = ""
    value: str = ""
    _places: dict[str, int] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """Everything a reader of the output area sees, as text."""
        shown = [str(bundle.get("text/plain", "")) for bundle in self.displays]
        return "\n".join([self.stdout, *shown, self.value, self.error])

    def take(self, message: dict[str, Any]) -> None:
        content = message["content"]
        match message["msg_type"]:
            case "stream":
                setattr(self, content["name"], getattr(self, content["name"]) + content["text"])
            case "display_data":
                place = content.get("transient", {}).get("display_id")
                if place:
                    self._places[place] = len(self.displays)
                self.displays.append(content["data"])
            case "update_display_data":
                place = content["transient"]["display_id"]
                self.updates.append(str(content["data"].get("text/html", "")))
                if place not in self._places:  # its beginning was taken by `wait_for`
                    self._places[place] = len(self.displays)
                    self.displays.append({})
                self.displays[self._places[place]] = content["data"]
            case "execute_result":
                self.value = str(content["data"].get("text/plain", ""))
            case "error":
                self.ename = content["ename"]
                self.error = "\n".join(content["traceback"])


class Kernel:
    """A real kernel, driven as JupyterLab drives it."""

    def __init__(
        self, folder: Path, within: Sequence[str] = (), *, extension: str = "course_lib", **environment: str
    ) -> None:
        """Start one and load this extension; `within` is put before its command, and becomes it by `exec`."""
        self.manager = Manager()
        self.manager._kernel_spec = KernelSpec(
            argv=[*within, sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
            display_name="test",
            language="python",
        )
        self.manager.start_kernel(
            cwd=str(folder),
            env={
                **os.environ,
                "PYTHONPATH": str(ROOT),
                "IPYTHONDIR": str(folder / "ipython"),
                "DDP_COURSE_HOME": str(folder / "progress"),
                **environment,
            },
        )
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=60)
        assert self.run(f"%load_ext {extension}").status == "ok"

    @property
    def pid(self) -> int:
        provisioner: Any = self.manager.provisioner  # of the kind that starts a process here
        return int(provisioner.process.pid)

    def run(self, source: str, timeout: float = 60.0) -> Shown:
        """Run a cell and wait for its end."""
        return self.finish(self.start(source), timeout)

    def start(self, source: str) -> str:
        """Run a cell; returns at once."""
        return str(self.client.execute(source, allow_stdin=False))

    def wait_for(self, kind: str, message_id: str, timeout: float = 60.0) -> dict[str, Any]:
        """Wait for the next message of this kind that the cell causes, and drop what comes before it."""
        deadline = time.monotonic() + timeout
        while True:
            message = self.client.get_iopub_msg(timeout=max(0.01, deadline - time.monotonic()))
            if message["parent_header"].get("msg_id") == message_id and message["msg_type"] == kind:
                return dict(message)

    def finish(self, message_id: str, timeout: float = 60.0) -> Shown:
        """Wait for the end of a cell. (The reply is not waited for: an interrupt may cost ipykernel that.)"""
        shown = Shown()
        deadline = time.monotonic() + timeout
        while True:
            try:
                message = self.client.get_iopub_msg(timeout=max(0.01, deadline - time.monotonic()))
            except Empty:
                raise AssertionError(f"the kernel did not answer within {timeout} s: {shown.text}") from None
            if message["parent_header"].get("msg_id") != message_id:
                continue
            shown.take(message)
            if message["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
                break
        shown.status = "error" if shown.ename else "ok"
        return shown

    def press_stop(self) -> None:
        """The stop button of JupyterLab."""
        self.manager.interrupt_kernel()

    def processes(self) -> list[int]:
        """The kernel's descendants: the process that starts ranks, the ranks and what they started."""
        found = psutil.Process(self.pid).children(recursive=True)
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.name() == f"ranks-{self.pid}" and process not in found:
                    found += [process, *process.children(recursive=True)]
        return [process.pid for process in dict.fromkeys(found)]

    def ranks(self) -> list[int]:
        """Process ids of the current gang's ranks."""
        self.run("from realranks.cells.session import SESSION as _s")
        source = "[link.pid for link in _s.gang.links] if _s.gang else []"
        return [int(pid) for pid in self.run(source).value.strip("[]").split(",") if pid.strip()]

    def kill(self) -> None:
        """SIGKILL, as the system's out-of-memory killer would."""
        os.kill(self.pid, signal.SIGKILL)

    def close(self) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)
