"""Start a script under torchrun's own agent, from a process that has torch loaded already.

What `torchrun` does is `elastic_launch` with a program to start; here the same agent forks this process instead, so
that no process has to import torch. Rendezvous, store, environment, restarts and the end of all when one fails are
torch's.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from course_lib.ranks.host_names import ask_no_name_server
from course_lib.tasks.capstone.cases import Placed
from course_lib.tasks.capstone.process import run_script

_NEEDED = (
    "course_lib.data",
    "course_lib.scripts.observe",
    "course_lib.tasks.capstone.harm",
    "course_lib.tasks.capstone.spies",
    "course_lib.watch.probe",
)


@dataclass(frozen=True)
class Ended:
    """Whether all processes ended well, and whether they were killed because the time was up."""

    ok: bool
    late: bool


def launch(case: Placed, script: str, folder: Path, seconds: float) -> Ended:
    """Run the script on `case["ranks"]` processes.

    Args:
        folder: for notes and the doctor's report. seconds: after these, all processes are killed.

    Returns:
        How it ended.
    """
    from torch.distributed.elastic.multiprocessing.api import DefaultLogsSpecs
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    # Imported once here, not in every process.
    for name in _NEEDED:
        importlib.import_module(name)
    (folder / "notes").mkdir(parents=True, exist_ok=True)
    ask_no_name_server()  # nor do the processes that are forked from here
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=case["ranks"],
        run_id=f"capstone-{os.getpid()}",
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        local_addr="localhost",
        max_restarts=case.get("restarts", 0),
        monitor_interval=0.05,
        start_method="fork",
        shutdown_timeout=1,
        logs_specs=DefaultLogsSpecs(log_dir=str(folder / "logs")),
    )
    # Restarted processes must not read the addresses of those before them. Without restarts they share the agent's
    # store, which listens before any of them starts.
    os.environ["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = str(int(case.get("restarts", 0) > 0))
    with _quiet(), _killed_after(seconds) as late:
        try:
            elastic_launch(config, run_script)(case, script, str(folder))
        except Exception:  # a process that failed, or whatever the script has done to its agent
            return Ended(ok=False, late=late.is_set())
    return Ended(ok=True, late=late.is_set())


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """The agent logs each failed process with a traceback of its own: the judges tell it better."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    # Its rendezvous asks for the whole stack, sources included, to name itself in a log that goes nowhere: half a
    # second of computing for each launch.
    rendezvous: Any = importlib.import_module("torch.distributed.elastic.rendezvous.dynamic_rendezvous")
    name, rendezvous.get_method_name = rendezvous.get_method_name, lambda depth=2: "rendezvous"
    try:
        yield
    finally:
        rendezvous.get_method_name = name
        logging.disable(before)


@contextlib.contextmanager
def _killed_after(seconds: float) -> Iterator[threading.Event]:
    """A way out of a hang: when the time is up, every process below this one is killed."""
    import psutil

    late = threading.Event()

    def kill() -> None:
        late.set()
        for process in psutil.Process().children(recursive=True):
            with contextlib.suppress(psutil.Error):
                process.send_signal(signal.SIGKILL)

    timer = threading.Timer(seconds, kill)
    timer.daemon = True
    timer.start()
    try:
        yield late
    finally:
        timer.cancel()
