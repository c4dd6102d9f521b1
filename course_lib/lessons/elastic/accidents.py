"""Lesson 12: what its scripts note of themselves, and the accidents that the notebook has ordered.

Imported by the lesson's scripts, also under a plain `torchrun`: it loads nothing. The log and the orders are files in
the folder in which the script runs.
"""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

#: The number of the machine where a rank plays several; in a terminal it is the number of the agent.
MACHINE = "MACHINE"
LOG = "log"


def note(event: str, **what: object) -> None:
    """Add a line to the log: the event, when it was, and which process of which rank on which machine tells it."""
    what |= {"event": event, "time": time.time(), "pid": os.getpid(), "machine": _machine()}
    what |= {"rank": int(os.environ.get("RANK", -1)), "world": int(os.environ.get("WORLD_SIZE", 0))}
    with open(LOG, "a", encoding="utf-8") as file:
        file.write(json.dumps(what) + "\n")


def accident(step: int) -> None:
    """Kill this process, or its whole machine, before this step, once, if a file in the folder orders it.

    The first worker of a machine obeys orders such as `kill machine 1 at 7` and `unplug machine 1 at 7`; all obey
    `hold 2 ranks at 7`, for as long as the file is there.
    """
    while Path(f"hold {os.environ['WORLD_SIZE']} ranks at {step}").exists():
        time.sleep(0.01)
    for what, whom in (("kill", os.getpid()), ("unplug", -os.getpgid(0))):
        order = Path(f"{what} machine {_machine()} at {step}")
        if os.environ["LOCAL_RANK"] == "0" and order.exists():
            order.unlink()
            note(what, step=step)
            os.kill(whom, signal.SIGKILL) if whom > 0 else os.killpg(-whom, signal.SIGKILL)
    time.sleep(0.02)  # computing


def _machine() -> int:
    return int(os.environ.get(MACHINE, os.environ.get("GROUP_RANK", 0)))
