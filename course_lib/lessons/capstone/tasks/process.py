"""One process of the learner's script: forked by torchrun's agent, with spies and faults installed, then the script.

The script is loaded as the `__main__` of this process, with its own command line, as `torchrun` would run it.
"""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from pathlib import Path

from course_lib.lessons.capstone.tasks.cases import Placed
from course_lib.lessons.capstone.tasks.harm import Harm
from course_lib.lessons.capstone.tasks.notes import Notes, read_checkpoint
from course_lib.lessons.capstone.tasks.spies import Spies
from course_lib.tasks.launching import ScriptEnded, become_a_process, exit_code, leave, line_in, run_as_main
from realranks.scripts.observe import observe


def run_script(case: Placed, script: str, folder: str) -> None:
    """Run the script in a process of the agent; return if it ends well, else end the process."""
    become_a_process()
    rank, attempt = int(os.environ["RANK"]), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    if case.get("machines", 1) > 1:
        on_each = int(os.environ["WORLD_SIZE"]) // case["machines"]
        os.environ.update(
            LOCAL_RANK=str(rank % on_each),
            GROUP_RANK=str(rank // on_each),
            GROUP_WORLD_SIZE=str(case["machines"]),
        )
    notes = Notes(Path(folder) / "notes", rank, attempt)
    if attempt and rank == 0:
        notes.put("found", **read_checkpoint(Path(case["checkpoint"])))
    code = _run(case, script, folder, notes)
    notes.put("ended", code=code)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    leave(code)


def _run(case: Placed, script: str, folder: str, notes: Notes) -> int:
    harm = Harm(case, notes)
    harm.install()
    Spies(notes, case, harm.before_pass).install()
    try:
        with _watch(case, folder):
            run_as_main(script, case["arguments"])
            notes.put("finished")
    except (ScriptEnded, SystemExit) as ended:
        return exit_code(ended)
    except BaseException as error:
        notes.put("raised", type=type(error).__name__, message=str(error)[:500], line=line_in(script, error))
        traceback.print_exc()
        return 1
    return 0


def _watch(case: Placed, folder: str) -> contextlib.AbstractContextManager[None]:
    """Let the doctor watch, where the case wants it."""
    if not case.get("doctor"):
        return contextlib.nullcontext()
    return observe(Path(folder) / "diagnosis.txt", waiting=False)
