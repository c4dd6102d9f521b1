"""The processes of this machine that are ranks, their runs, and what Linux reports of each: from /proc alone."""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from realranks.outcome.places import is_learners
from realranks.ranks.process import STAT_EXIT_CODE, stat_fields

#: By what launchers tell a process its rank and the number of ranks. Lightning's sets no RANK.
_VARIABLES = (
    ("RANK", "WORLD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
    ("LOCAL_RANK", "WORLD_SIZE"),
)
_PPID = 1
#: When it began, in ticks since the machine did.
_STARTED = 19
#: No more of a rank's log is read, from its end.
_MAX_BYTES = 1 << 16
_FRAME = re.compile(r'File "([^"]+)", line (\d+)')


@dataclass(frozen=True)
class Process:
    """A process that has torch loaded, or may be a rank that has ended and nobody has collected.

    Attributes:
        parent: its parent's number.
        letter: what it does (proc(5)): `S` sleeps, `R` runs, `T` stopped, `Z` ended and not collected.
        environment: what it was started with.
        rank, world_size: by its environment; None where that does not tell.
    """

    pid: int
    parent: int
    letter: str
    environment: Mapping[str, str]
    rank: int | None = None
    world_size: int | None = None

    @property
    def run(self) -> str:
        """A text that the processes of one run have in common."""
        variables = self.environment
        if self.rank is None:
            return f"processes that {self.parent} has started"
        run = variables.get("TORCHELASTIC_RUN_ID") or variables.get("SLURM_JOB_ID") or "run"
        return f"{run} at {variables.get('MASTER_ADDR', '')}:{variables.get('MASTER_PORT', '')}"

    @property
    def all_here(self) -> bool:
        """True if the launcher's environment says that all ranks are on this machine."""
        variables = self.environment
        return variables.get("LOCAL_WORLD_SIZE") == variables.get("WORLD_SIZE") is not None


def processes(pids: Iterable[int] = ()) -> list[Process]:
    """List this user's processes that may be ranks (for root, all users'), or the given ones.

    A process that another rank has started (a worker of a DataLoader) has its environment: it is left out. A process
    that started all ranks but rank 0 is rank 0 itself, as with Lightning's own launcher.
    """
    named = set(pids)
    found = {}
    for pid in sorted(named) or sorted(int(name) for name in os.listdir("/proc") if name.isdigit()):
        if pid != os.getpid():
            process = _process(pid, anyhow=bool(named))
            if process is not None:
                found[pid] = process
    ranks = {pid: each for pid, each in found.items() if not _is_helper(each, found)}
    for pid in {each.parent for each in ranks.values() if each.rank is not None} & ranks.keys():
        started = [each for each in ranks.values() if each.parent == pid and each.rank is not None]
        first, child = ranks[pid], started[0]
        if first.rank is None and {each.rank for each in started} == set(range(1, child.world_size or 0)):
            ranks[pid] = replace(first, environment=child.environment, rank=0, world_size=child.world_size)
    return list(ranks.values())


def _is_helper(process: Process, found: Mapping[int, Process]) -> bool:
    parent = found.get(process.parent)
    return (
        parent is not None
        and parent.rank is not None
        and (parent.rank, parent.run) == (process.rank, process.run)
    )


def _process(pid: int, anyhow: bool) -> Process | None:
    try:
        fields = stat_fields(_read(pid, "stat"))
        letter, parent = fields[0].decode(), int(fields[_PPID])
        if letter != "Z" and not anyhow and (not _is_ours(pid) or b"libtorch" not in _read(pid, "maps")):
            return None
        environment = {} if letter == "Z" else _environment(pid, anyhow)
    except (OSError, IndexError, ValueError):
        return None
    for rank, size in _VARIABLES:
        with contextlib.suppress(KeyError, ValueError):
            return Process(pid, parent, letter, environment, int(environment[rank]), int(environment[size]))
    return Process(pid, parent, letter, environment)


def _is_ours(pid: int) -> bool:
    return os.geteuid() in (0, os.stat(f"/proc/{pid}").st_uid)


def _read(pid: int, name: str) -> bytes:
    return Path(f"/proc/{pid}/{name}").read_bytes()


def _environment(pid: int, anyhow: bool) -> dict[str, str]:
    try:
        text = _read(pid, "environ")
    except PermissionError:
        if not anyhow:
            raise
        text = b""  # py-spy will not be allowed to read the process either, and says so
    entries = (entry.decode(errors="replace").partition("=") for entry in text.split(b"\0"))
    return {name: value for name, _, value in entries if name}


def is_launcher(pid: int) -> bool:
    """Check for a process of torchrun's, which has torch loaded and is not a rank."""
    with contextlib.suppress(OSError):
        return b"torchrun" in (words := _read(pid, "cmdline")) or b"torch.distributed.run" in words
    return False


def exit_code(pid: int) -> int | None:
    """Return how a zombie process ended; None if it is alive or gone."""
    with contextlib.suppress(OSError, IndexError, ValueError):
        fields = stat_fields(_read(pid, "stat"))
        if fields[0] == b"Z":
            status = int(fields[STAT_EXIT_CODE])
            return -(status & 0x7F) if status & 0x7F else status >> 8
    return None


def started_at(pid: int) -> float | None:
    """Return when a process began, in seconds since 1970, some hundredths early; None if it is gone."""
    with contextlib.suppress(OSError, IndexError, ValueError):
        began = int(stat_fields(_read(pid, "stat"))[_STARTED]) / os.sysconf("SC_CLK_TCK")
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - began
        return time.time() - age - 0.05
    return None


def wait_channel(pid: int, thread: int | None = None) -> str:
    """Return the Linux function in which a thread (by default the main one) sleeps, as `hrtimer_nanosleep`, or ''."""
    with contextlib.suppress(OSError):
        return _read(pid, f"task/{thread or pid}/wchan").decode(errors="replace")
    return ""


def asleep_for(pid: int) -> float | None:
    """Return for how many seconds the main thread has not run; None without CONFIG_SCHED_DEBUG."""
    with contextlib.suppress(OSError, StopIteration, ValueError):
        return max(_last_ran("self") - _last_ran(pid), 0.0)
    return None


def _last_ran(pid: int | str) -> float:
    """Read when the main thread last ran, in seconds of the scheduler's clock."""
    lines = Path(f"/proc/{pid}/sched").read_text(encoding="ascii", errors="replace").splitlines()
    return float(next(line for line in lines if line.startswith("se.exec_start")).rpartition(":")[2]) / 1000


def core_seconds(pid: int) -> float:
    """Return the CPU seconds that all threads of a process have used."""
    total = 0
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError, ValueError, IndexError):
                total += int(_read(pid, f"task/{thread}/schedstat").split()[0])
    return total / 1e9


def last_error(process: Process) -> str:
    """Read the exception that a rank left in its file for torchrun, or at the end of its log; '' if there is none."""
    return _error_in(*_error_files(process))


def error_of_sibling(process: Process, rank: int) -> str:
    """Read the exception of a rank whose process is gone, using the files of a rank of the same torchrun."""
    variables = process.environment
    try:
        own = int(variables["LOCAL_RANK"])
        local = own + rank - int(variables["RANK"])
        if not 0 <= local < int(variables["LOCAL_WORLD_SIZE"]):
            return ""
    except (KeyError, ValueError):
        return ""
    siblings = []
    for path in map(Path, _error_files(process)):
        # torchrun has a folder for each rank: attempt_0/3/stderr.log
        is_own = path.parent.name == str(own)
        siblings.append(str(path.parent.parent / str(local) / path.name) if is_own else "")
    return _error_in(*siblings)


def _error_files(process: Process) -> tuple[str, str]:
    """Return where a rank leaves an exception for torchrun (`@record`), and where its standard error goes."""
    recorded, log = process.environment.get("TORCHELASTIC_ERROR_FILE", ""), ""
    with contextlib.suppress(OSError):
        if recorded:  # `--log-dir=logs` makes it relative
            recorded = os.path.join(os.readlink(f"/proc/{process.pid}/cwd"), recorded)
        log = os.readlink(f"/proc/{process.pid}/fd/2")
    return recorded, log


def _error_in(recorded: str, log: str) -> str:
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        if recorded and os.path.getsize(recorded):
            message = json.loads(_end_of(recorded))["message"]
            text = str(message["message"] if isinstance(message, dict) else message)
            return f"it has left an error in {recorded}: {text[:200]}"
    with contextlib.suppress(OSError):
        if log.startswith("/") and os.path.isfile(log):
            lines = _end_of(log).splitlines()
            last = next((n for n in reversed(range(len(lines))) if _is_an_error(lines[n])), None)
            if last is not None:
                frames = (_FRAME.search(line) for line in reversed(lines[:last]))
                own = (found for found in frames if found and is_learners(found[1]))
                place = next((f" at {os.path.basename(f[1])}, line {f[2]}" for f in own), "")
                return f"the last error in {log}: {lines[last].strip()[:200]}{place}"
    return ""


def _end_of(path: str) -> str:
    with open(path, "rb") as file:
        file.seek(max(os.path.getsize(path) - _MAX_BYTES, 0))
        return file.read().decode(errors="replace")


def _is_an_error(line: str) -> bool:
    name, colon, _ = line.rpartition("]: ")[2].partition(": ")
    return (
        bool(colon)
        and name.replace(".", "").isidentifier()
        and name.endswith(("Error", "Exception", "Interrupt"))
    )


def uses_gpus(pid: int) -> bool:
    """Check whether a process has opened an NVIDIA GPU."""
    with contextlib.suppress(OSError):
        return b"/dev/nvidia" in _read(pid, "maps")
    return False
