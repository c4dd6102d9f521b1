"""The contenders as a learner meets them: cells of a real Jupyter kernel."""

from __future__ import annotations

import contextlib
import os
import queue
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import KernelManager

from benchmarks import processes, workloads
from benchmarks.gangs import ROOT, Failed
from benchmarks.results import COURSE


@dataclass(frozen=True)
class Cells:
    """Four cells: imports, the first run of 4 ranks, one that gets stuck, and what is tried after the stop button.

    `keeps_ranks` says that the last one runs on ranks that are there already, instead of starting new ones.
    """

    imports: str
    first: str
    stuck: str
    afterwards: str
    keeps_ranks: bool = False


@dataclass(frozen=True)
class Reply:
    """The end of a cell's run, with the text it showed."""

    ok: bool
    text: str


class Kernel:
    """A fresh kernel, gone with all it started at the end of the `with` block."""

    def __enter__(self) -> Kernel:
        self._stack = contextlib.ExitStack()
        self.folder = self._stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
        self._stack.enter_context(processes.gone_afterwards())
        self._manager = KernelManager()
        # This interpreter, whatever the kernel called python3 in somebody's home folder is.
        self._manager._kernel_spec = KernelSpec(
            argv=[sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
            display_name="benchmark",
            language="python",
        )
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "IPYTHONDIR": self.folder,
            "OMP_NUM_THREADS": "1",
            "GLOO_SOCKET_IFNAME": "lo",
        }
        self._manager.start_kernel(
            env=environment, cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self._stack.callback(self._manager.shutdown_kernel, now=True)
        self._client: Any = self._manager.blocking_client()
        self._client.start_channels()
        self._stack.callback(self._client.stop_channels)
        self._client.wait_for_ready(timeout=60)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def send(self, cell: str) -> str:
        """Run a cell; returns at once."""
        request: str = self._client.execute(cell, allow_stdin=False)
        return request

    def reply(self, request: str, bound: float) -> Reply | None:
        """Return how the cell ended, or None if it has not within the bound."""
        deadline = time.monotonic() + bound
        text = ""
        while True:
            try:
                message = self._client.get_iopub_msg(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                return None
            if message["parent_header"].get("msg_id") != request:
                continue
            content = message["content"]
            if message["msg_type"] == "stream":
                text += content["text"]
            elif message["msg_type"] in ("execute_result", "display_data", "update_display_data"):
                text += content["data"].get("text/plain", "") + "\n"
            elif message["msg_type"] == "error":
                text += "\n".join(content["traceback"])
            elif message["msg_type"] == "status" and content["execution_state"] == "idle":
                break
        while True:
            answer = self._client.get_shell_msg(timeout=10)
            if answer["parent_header"].get("msg_id") == request:
                return Reply(answer["content"]["status"] == "ok", text)

    def run(self, cell: str, bound: float = 120.0) -> Reply:
        """Run a cell that has to work.

        Raises:
            Failed: it did not.
        """
        reply = self.reply(self.send(cell), bound)
        if reply is None or not reply.ok:
            raise Failed(reply.text[-1500:] if reply else f"no answer within {bound:.0f} s")
        return reply

    def press_stop(self) -> None:
        """Interrupt the kernel, as the stop button does."""
        self._manager.interrupt_kernel()


def cells_of(name: str, folder: str) -> Cells:
    """Build the cells of a contender; `folder` is where ranks leave their marks and scripts are kept."""
    first = workloads.ROUND_TRIP + workloads.STATE
    stuck = workloads.stuck(folder)
    return {
        COURSE: _course,
        "spawn": _spawn,
        "notebook_launcher": _notebook_launcher,
        "torchrun": _torchrun,
        "ipyparallel": _ipyparallel,
    }[name](first, stuck, Path(folder))


IN_NOTEBOOKS = (COURSE, "spawn", "notebook_launcher", "torchrun", "ipyparallel")


def _course(first: str, stuck: str, folder: Path) -> Cells:
    return Cells(
        "%load_ext course_lib",
        f"%%ranks 4\n{first}",
        f"%%ranks\n{stuck}",
        f"%%ranks\n{workloads.AFTERWARDS}",
        keeps_ranks=True,
    )


def _spawn(first: str, stuck: str, folder: Path) -> Cells:
    def cell(source: str, meeting_point: str) -> str:
        where = f"file://{folder / meeting_point}"
        return f"torch.multiprocessing.spawn(jobs.as_rank, args=(4, {where!r}, {source!r}), nprocs=4)"

    return Cells(
        "import torch\nfrom benchmarks import jobs", cell(first, "a"), cell(stuck, "b"), cell(first, "c")
    )


def _notebook_launcher(first: str, stuck: str, folder: Path) -> Cells:
    def cell(source: str) -> str:
        return f"notebook_launcher(jobs.as_launched, ({source!r},), num_processes=4, use_port=free_port())"

    imports = (
        "from accelerate import notebook_launcher\n"
        "from benchmarks import jobs\n"
        "from benchmarks.starter import free_port"
    )
    return Cells(imports, cell(first), cell(stuck), cell(first))


def _torchrun(first: str, stuck: str, folder: Path) -> Cells:
    def cell(source: str, name: str) -> str:
        script = folder / name
        script.write_text(
            "import torch.distributed as dist\ndist.init_process_group('gloo')\n"
            f"{source}\ndist.destroy_process_group()\n",
            encoding="utf-8",
        )
        return f"!{sys.executable} -m torch.distributed.run --standalone --nproc-per-node=4 {script}"

    return Cells("import sys", cell(first, "first.py"), cell(stuck, "stuck.py"), cell(first, "first.py"))


def _ipyparallel(first: str, stuck: str, folder: Path) -> Cells:
    group = (
        "import torch, torch.distributed as dist\n"
        f"dist.init_process_group('gloo', init_method='file://{folder}/group', rank=rank, world_size=4)"
    )
    start = (
        "cluster = ipyparallel.Cluster(n=4, cluster_id='', log_level=40)\n"
        "client = cluster.start_and_connect_sync(activate=True)\n"
        "client[:].scatter('rank', range(4), flatten=True, block=True)\n"
        f"client[:].execute({group!r}, block=True)\n"
        f"get_ipython().run_cell_magic('px', '', {first!r})"
    )
    return Cells(
        "import ipyparallel", start, f"%%px\n{stuck}", f"%%px\n{workloads.AFTERWARDS}", keeps_ranks=True
    )
