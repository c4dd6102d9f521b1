"""One launch of the script. What its processes need is loaded with this module, once and not in each of them."""

from __future__ import annotations

from pathlib import Path

from course_lib.lessons.capstone.tasks.cases import Placed
from course_lib.lessons.capstone.tasks.process import run_script
from course_lib.tasks.launching import Ended
from course_lib.tasks.launching import launch as launch_processes


def launch(case: Placed, script: str, folder: Path, seconds: float) -> Ended:
    """Run the script on `case["ranks"]` processes.

    Args:
        folder: for notes and the doctor's report. seconds: after these, all processes are killed.

    Returns:
        How it ended.
    """
    (folder / "notes").mkdir(parents=True, exist_ok=True)
    return launch_processes(
        run_script,
        case,
        script,
        str(folder),
        ranks=case["ranks"],
        folder=folder,
        seconds=seconds,
        restarts=case.get("restarts", 0),
    )
