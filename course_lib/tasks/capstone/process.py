"""One process of the learner's script: forked by torchrun's agent, with spies and faults installed, then the script.

The script is loaded as the `__main__` of this process, with its own command line, as `torchrun` would run it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import sys
import traceback
import types
from pathlib import Path

from course_lib.tasks.capstone.cases import Placed
from course_lib.tasks.capstone.notes import Notes, read_checkpoint


class _Ended(BaseException):
    """The script called os._exit."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


def run_script(case: Placed, script: str, folder: str) -> None:
    """What the agent calls in each process. Returns when the script ends well; else the process ends."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)  # the agent's own handlers are nothing for its children
    _let_go_of_the_agents_wires()
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
    if code:
        os._exit(code)


def _let_go_of_the_agents_wires() -> None:
    """Sockets that came with the fork are the agent's: whoever frees this process must not shut those down.

    The numbers stay taken, because objects of the agent live on in this process and would close them.
    """
    with open(os.devnull, "rb") as nothing:
        for name in os.listdir("/proc/self/fd") if os.path.isdir("/proc/self/fd") else map(str, range(256)):
            with contextlib.suppress(OSError):
                if int(name) > 2 and stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                    os.dup2(nothing.fileno(), int(name))


def _run(case: Placed, script: str, folder: str, notes: Notes) -> int:
    from course_lib.ranks.inside import process_group, worker
    from course_lib.tasks.capstone.harm import Harm
    from course_lib.tasks.capstone.spies import Spies

    # This process was forked from a rank of the course, and is none: torchrun's own rendezvous, no wire to a kernel.
    worker.CURRENT = None
    process_group.rendezvous._rendezvous_handlers["env"] = process_group.RENDEZVOUS._original
    harm = Harm(case, notes)
    harm.install()
    Spies(notes, Path(case["data"]), harm.before_pass).install()
    leave = os._exit

    def ending(code: int) -> None:
        if os.getpid() == process:
            raise _Ended(code)
        leave(code)

    process = os.getpid()
    os._exit = ending  # type: ignore[assignment]
    main = types.ModuleType("__main__")
    main.__file__ = script
    sys.modules["__main__"] = main
    sys.argv = [script, *case["arguments"]]
    sys.path.insert(0, str(Path(script).parent))
    with contextlib.ExitStack() as stack:
        stack.callback(setattr, os, "_exit", leave)
        try:
            with _watched(case, folder):
                source = Path(script).read_text(encoding="utf-8")
                try:
                    exec(compile(source, script, "exec"), main.__dict__)
                except _Ended as ended:
                    if ended.code:
                        raise
                notes.put("finished")
        except _Ended as ended:
            return ended.code
        except SystemExit as error:
            return error.code if isinstance(error.code, int) else int(error.code is not None)
        except BaseException as error:
            notes.put(
                "raised", type=type(error).__name__, message=str(error)[:500], line=_line(error, script)
            )
            traceback.print_exc()
            return 1
    return 0


def _watched(case: Placed, folder: str) -> contextlib.AbstractContextManager[None]:
    """The doctor's eyes, where the case wants them."""
    if not case.get("doctor"):
        return contextlib.nullcontext()
    from course_lib.scripts.observe import observe

    return observe(Path(folder) / "diagnosis.txt", waiting=False)


def _line(error: BaseException, script: str) -> int:
    """The last line of the script itself in the traceback."""
    lines = [
        frame.lineno or 0 for frame in traceback.extract_tb(error.__traceback__) if frame.filename == script
    ]
    return lines[-1] if lines else 0
