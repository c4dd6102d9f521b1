"""Lesson 13: who stands where and who has called what, after a hang; processes of torchrun, looked at from outside.

What is shown of the course's own ranks is in every `Outcome`: their stacks, and torch's flight recorder.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import io
import os
import pickle
import re
import shlex
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from course_lib.lab.explorer import Explorer, in_turn, to_find
from course_lib.lessons.debugging.tasks.mean_of_all import Memory
from realranks.cells.run import run_quietly
from realranks.draw import Box, Drawing, Text
from realranks.draw.drawing import Shape
from realranks.outcome.outcome import Collective, Ending, Outcome, exit_text
from realranks.outcome.places import is_learners

if TYPE_CHECKING:
    import logging
    from importlib.machinery import ModuleSpec

    from torch import Tensor
    from torch.distributed import ProcessGroup

#: The process group that every job has.
_DEFAULT = "0"
_SHOWN, _LEFT, _TOP, _ROW, _WIDE = 6, 66, 26, 44, 108

# -- where each rank is -------------------------------------------------------------------------------------------


def stands_in(outcome: Outcome, rank: int) -> str:
    """Return where a rank was when the run ended, innermost first: `all_reduce < descend (line 14)`.

    For a rank that does not wait: how its part has ended.
    """
    if rank in outcome.exits:
        return f"the process has ended: {exit_text(outcome.exits[rank])}"
    if rank in outcome.waiting:
        waiting = outcome.waiting[rank]
        frames = [
            frame for frame in waiting.stack if is_learners(frame.file) and frame.function != "<module>"
        ]
        inner = [waiting.call] if waiting.call else []
        return " < ".join([*inner, *(f"{frame.function} (line {frame.line})" for frame in reversed(frames))])
    if rank in outcome.errors:
        error = outcome.errors[rank]
        known = re.search("Timed out waiting|Connection (?:closed|reset) by peer", error.message)
        # Which end of a connection notices first that it is gone, and how, differs from run to run.
        said = known[0].replace("reset", "closed") if known else error.message.partition("\n")[0]
        return f"{error.type}: {said} ..." if known else f"{error.type}: {said}".rstrip(": ")
    return "it has finished" if outcome.endings[rank] is Ending.FINISHED else str(outcome.endings[rank])


def black_box(outcome: Outcome) -> str:
    """Report where each rank was in the end, how often it has called a collective, and the last of its calls."""
    groups = _groups(outcome)
    lines = []
    for rank in outcome.ranks:
        calls = outcome.collectives.get(rank, ())
        lines.append(f"rank {rank}  {stands_in(outcome, rank)}")
        if calls:
            last = f"{calls[-1]}, number {_numbers(calls)[-1]}"
            where = f" of {groups[calls[-1].group]}" if len(groups) > 1 else ""
            more = "s" if len(calls) > 1 else ""
            lines.append(f"        {len(calls)} collective{more}, the last one: {last}{where}")
    return "\n".join(lines)


def _groups(outcome: Outcome) -> dict[str, str]:
    """Name the groups in which this run has made calls."""
    used = sorted({call.group for calls in outcome.collectives.values() for call in calls}, key=_by_number)
    others = [name for name in used if name != _DEFAULT]
    words = {name: f"group {chr(ord('A') + place)}" for place, name in enumerate(others)}
    return {name: words.get(name, "the default group") for name in used}


def _by_number(name: str) -> tuple[int, str]:
    return (int(name), name) if name.isdigit() else (sys.maxsize, name)


def _numbers(calls: Sequence[Collective]) -> list[int]:
    """Return the place of each call among this rank's calls in its group, from 1."""
    count: Counter[str] = Counter()
    numbers = []
    for call in calls:
        count[call.group] += 1
        numbers.append(count[call.group])
    return numbers


# -- columns ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Record:
    """The calls of each rank in one group: the k-th calls of all ranks are a column."""

    calls: Mapping[int, tuple[Collective, ...]]

    @classmethod
    def of(cls, outcome: Outcome, group: str = _DEFAULT) -> Record:
        """Make the record of a run that is over."""
        return cls(
            {
                rank: tuple(call for call in outcome.collectives.get(rank, ()) if call.group == group)
                for rank in outcome.ranks
            }
        )

    @property
    def length(self) -> int:
        """The number of columns."""
        return max(map(len, self.calls.values()), default=0)

    def column(self, number: int) -> dict[int, str]:
        """Return, by rank, the call with this number (from 1): operation and shapes; "" where there is none."""
        return {
            rank: str(calls[number - 1]) if number <= len(calls) else "" for rank, calls in self.calls.items()
        }

    @property
    def parting(self) -> int | None:
        """The first column in which not all ranks have called the same; None where there is none."""
        numbers = range(1, self.length + 1)
        return next((number for number in numbers if len({*self.column(number).values()}) > 1), None)

    def apart(self, number: int) -> list[int]:
        """Return the ranks whose call in this column is not that of the majority; all ranks, if there is none."""
        column = self.column(number)
        (most, count), *_ = Counter(column.values()).most_common(1)
        if 2 * count <= len(column):
            return [*column]
        return [rank for rank, call in column.items() if call != most]

    def in_words(self, number: int) -> str:
        """Describe a column, and from which lines its calls come."""
        ways: dict[str, list[int]] = {}
        for rank, calls in self.calls.items():
            call = calls[number - 1] if number <= len(calls) else None
            said = f"{call}, from {call.where or 'torch'}" if call else "no call with this number"
            ways.setdefault(said, []).append(rank)
        return "; ".join(f"{_ranks(ranks)}: {said}" for said, ranks in ways.items())


def _ranks(ranks: Sequence[int]) -> str:
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))}"


def draw_record(record: Record, chosen: int | None = None) -> Drawing:
    """Draw a row for each rank, a column for each call: at most six of them, around the `chosen` one.

    Left out, it is the first column that differs, and the title names it.
    """
    parting = record.parting
    focus = chosen or parting or record.length
    first = max(1, min(focus - _SHOWN + 2, record.length - _SHOWN + 1))
    numbers = range(first, min(record.length, first + _SHOWN - 1) + 1)
    shapes: list[Shape] = [
        Text(_LEFT - 10, _TOP + place * _ROW + 24, f"rank {rank}", 13, "end")
        for place, rank in enumerate(record.calls)
    ]
    for place, number in enumerate(numbers):
        x, column = _LEFT + place * _WIDE, record.column(number)
        deviating = record.apart(number) if len({*column.values()}) > 1 else []
        for row, (rank, call) in enumerate(column.items()):
            look = "" if not call else "communication" if rank in deviating else "forward"
            op = call.partition("(")[0]
            shapes.append(
                Box(x, _TOP + row * _ROW, _WIDE - 8, 34, look, op, call or "no call", dashed=not call)
            )
        shapes.append(Text(x + _WIDE / 2 - 4, _TOP - 8, f"{number}", 13, "middle", number == focus))
        if number == focus:
            height = len(record.calls) * _ROW + 2
            shapes.append(Box(x - 5, _TOP - 6, _WIDE + 2, height, edge=2))
    bottom = _TOP + len(record.calls) * _ROW
    shapes.append(Text(_LEFT, bottom + 16, "number of the call in its group", 12, faint=True))
    if chosen is not None:
        same = len({*record.column(chosen).values()}) == 1
        title = f"Number {chosen}: {'the same on all ranks' if same else 'not the same on all ranks'}"
    elif parting is None:
        title = "All ranks have made the same calls"
    else:
        title = f"Number {parting} is the first column that differs: {_ranks(record.apart(parting))}"
    said = ". ".join(f"Number {number}: {record.in_words(number)}" for number in numbers)
    return Drawing(_LEFT + _SHOWN * _WIDE + 8, bottom + 26, tuple(shapes), said, title)


class RecordExplorer(Explorer):
    """Step through the columns of a record; with other targets the learner's own `descend` makes another one."""

    controls = "the number of the column; the targets of the three ranks"

    def __init__(self, outcome: Outcome, targets: Sequence[float]) -> None:
        import ipywidgets as widgets

        self.record = Record.of(outcome)
        self.static = draw_record(self.record)
        self.column = widgets.IntSlider(
            value=1, min=1, max=max(1, self.record.length), description="column", continuous_update=True
        )
        self.targets = [
            widgets.BoundedFloatText(
                value=target, min=0, max=9, step=0.5, description=f"target {rank}", layout={"width": "11em"}
            )
            for rank, target in enumerate(targets)
        ]
        self.picture, self.said = widgets.HTML(), widgets.HTML()
        self.column.observe(lambda _: self._show(), names="value")
        for control in self.targets:
            control.observe(lambda _: self._run(), names="value")
        goals = to_find(
            "the first column that differs, stepping forwards, then backwards from the end; three different targets "
            "with which nobody waits for ever; and targets with which rank 2 is the one that parts."
        )
        whole = [goals, self.column, self.picture, self.said, widgets.HBox(self.targets)]
        self.whole = widgets.VBox(whole)
        self._show()

    @in_turn
    def _show(self) -> None:
        number = self.column.value
        self.picture.value = draw_record(self.record, number).svg()
        self.said.value = f"Number {number}: {self.record.in_words(number)}."

    @in_turn
    def _run(self) -> None:
        self.said.value = "running on three ranks ..."
        outcome = run_quietly(descend, [control.value for control in self.targets], ranks=3)
        self.record = Record.of(outcome)
        self.column.max = max(1, self.record.length)
        self.column.value = 1
        self._show()
        self.said.value += f" The run: {outcome.kind.value}."


def explore_record(outcome: Outcome, targets: Sequence[float]) -> RecordExplorer:
    """Return the controls and the picture, to be the last line of a cell.

    Args:
        outcome: the run whose record is shown first.
        targets: the targets of its three ranks.
    """
    return RecordExplorer(outcome, targets)


def descend(targets: Sequence[float]) -> None:
    """Run the script that the lesson's learner has written, with this rank's target, on every rank."""
    sys.path.insert(0, os.getcwd())
    importlib.import_module("scratch.descend").descend(targets[int(os.environ["RANK"])])


# -- processes of torchrun, from outside --------------------------------------------------------------------------


@dataclass(frozen=True)
class Look:
    """Observations of one process that does not answer.

    Attributes:
        last_words: the last line of its log.
        faulthandler, py_spy: its stack, each as that tool has written it; "" where py-spy is missing or not allowed.
    """

    last_words: str
    faulthandler: str
    py_spy: str

    @property
    def stack(self) -> str:
        """The call it waits in, and the functions of the script, innermost first."""
        return _in_words(re.findall(r'File "(.+)", line (\d+) in (\w+)', self.faulthandler))

    @property
    def stack_by_py_spy(self) -> str:
        """That stack by py-spy; "" without it."""
        found = re.findall(r"^ +(\S+) \((\S+):(\d+)\)", self.py_spy, re.MULTILINE)
        return _in_words([(file, line, name) for name, file, line in found])


def _in_words(stack: Sequence[tuple[str, str, str]]) -> str:
    """Describe frames of (file, line, function); py-spy shortens the files of packages to `torch/...`."""
    torchs = [name for file, _, name in stack if file.endswith("distributed_c10d.py")]
    own = [
        f"{name} (line {line})"
        for file, line, name in stack
        if is_learners(file) and not file.startswith("torch/") and name.isidentifier()
    ]
    return " < ".join([*torchs[-1:], *own])


def look_at(line: str, ranks: int = 3) -> list[Look]:
    """Do what this torchrun command does, wait until no rank moves any more, look at each, and end the job.

    Args:
        line: with `--redirects=3` and `--log-dir=...`, so that each rank has logs of its own; its script has registered
            SIGUSR1 with faulthandler before it prints anything.
        ranks: how many there are.
    """
    outcome = run_quietly(_look_at, line, ranks, ranks=1, init=False, timeout=120)
    if not outcome.ok:
        raise RuntimeError(outcome.errors[0].message if outcome.errors else repr(outcome))
    return cast("list[Look]", outcome.values[0])


def _look_at(line: str, count: int) -> list[Look]:
    """Inspect torchrun and its workers, which run below a rank that ends with the notebook."""
    import shutil

    import psutil

    words = shlex.split(line)
    folder = Path(next(word.partition("=")[2] for word in words if word.startswith("--log-dir=")))
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TORCHELASTIC_")}
    with open(folder / "torchrun.log", "w") as log:
        command = [sys.executable, "-m", "torch.distributed.run", *words[1:]]
        job = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
    try:
        logs = _Logs(folder)
        while not all(logs.read(rank, "stdout") for rank in range(count)):
            if job.poll() is not None:
                raise RuntimeError((folder / "torchrun.log").read_text())
            time.sleep(0.05)
        workers = {int(child.environ()["RANK"]): child.pid for child in psutil.Process(job.pid).children()}
        looks: list[Look] = []
        while (new := [_look(workers[rank], rank, logs) for rank in range(count)]) != looks:
            looks = new  # twice the same, a second apart: stuck, or very slow
            time.sleep(1)
        return looks
    finally:
        with contextlib.suppress(psutil.NoSuchProcess):
            for process in psutil.Process(job.pid).children(recursive=True):
                process.kill()
        job.kill()
        job.wait()


@dataclass(frozen=True)
class _Logs:
    folder: Path

    def read(self, rank: int, stream: str) -> str:
        """Return what a rank has written so far."""
        found = [*self.folder.glob(f"*/attempt_0/{rank}/{stream}.log")]
        return found[0].read_text() if found else ""


def _look(pid: int, rank: int, logs: _Logs) -> Look:
    before = len(logs.read(rank, "stderr"))
    os.kill(pid, signal.SIGUSR1)
    while "<module>" not in (dump := logs.read(rank, "stderr")[before:]):
        time.sleep(0.01)
    tool = Path(sys.executable).with_name("py-spy")
    by_py_spy = ""
    if tool.exists():
        done = subprocess.run([tool, "dump", "--pid", str(pid)], capture_output=True, text=True)
        text = re.sub(r"\x1b\[[\d;]*m", "", done.stdout)  # its colours
        by_py_spy = "".join(text.partition("Thread ")[1:])  # without the process's number and its command
    return Look(logs.read(rank, "stdout").splitlines()[-1], dump, by_py_spy)


# -- fates, and ways to disagree ----------------------------------------------------------------------------------

#: What becomes of rank 1.
FATES: dict[str, Callable[[], object]] = {
    "is killed": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "ends, exit code 0": lambda: os._exit(0),
    "is busy elsewhere": lambda: time.sleep(1.5),
    "is stopped": lambda: os.kill(os.getpid(), signal.SIGSTOP),
}


def lose_rank_1(fate: str) -> str | None:
    """Let rank 1 meet this fate while rank 0 waits for it in an all_reduce, for half a second; on two ranks.

    Returns:
        What rank 0's error says.
    """
    from datetime import timedelta

    import torch
    import torch.distributed as dist

    if os.environ["RANK"] == "1":
        dist.barrier()  # connected: none of what follows is a slow start
        FATES[fate]()
        return None
    try:
        dist.barrier()  # a rank that dies right behind it may take its last bytes with it
        dist.all_reduce(torch.ones(1), async_op=True).wait(timedelta(seconds=0.5))
    except RuntimeError as error:
        return "Timed out" if "timed out" in str(error) else "Connection lost"
    return "no error"


#: Ways to disagree; the first one ends the process, where nothing checks it.
DISAGREEMENTS = (
    "8 numbers meet 108",
    "all_reduce meets all_gather",
    "float meets int",
    "rank 1 stays away",
    "root 0 meets root 1",
    "SUM meets MAX",
    "a, b meets b, a",
)


def disagree(level: str, ways: Sequence[str]) -> list[str]:
    """Let two ranks disagree in one way after the other, each in a group with a timeout of 0.6 seconds.

    Args:
        level: of TORCH_DISTRIBUTED_DEBUG.

    Returns:
        For each way what this rank gets: `named` (an error that says what differs), `timeout` or `no error`.
    """
    from datetime import timedelta

    import torch
    import torch.distributed as dist

    found = []
    dist.set_debug_level(getattr(dist.DebugLevel, level))
    for way in ways:
        dist.barrier()
        group = cast("ProcessGroup", dist.new_group(backend="gloo", timeout=timedelta(seconds=0.6)))
        try:
            _call(way, group, torch.full((8,), dist.get_rank() + 1.0), second=dist.get_rank() == 1)
            found.append("no error")
        except RuntimeError as error:
            named = "Detected mismatch" in str(error) or "failed to pass" in str(error)
            found.append("named" if named else "timeout")
    return found


def _call(way: str, group: ProcessGroup, x: Tensor, *, second: bool) -> None:
    """Play one rank's side of a disagreement; `second` is the rank that does something else."""
    import torch.distributed as dist

    if way == "root 0 meets root 1":
        dist.broadcast(x, int(second), group)
    elif way == "a, b meets b, a":
        for y in (x, 9 * x) if second else (9 * x, x):
            dist.all_reduce(y, group=group)
    elif second and way == "all_reduce meets all_gather":
        dist.all_gather([x.clone(), x.clone()], x, group)
    elif second and way == "SUM meets MAX":
        dist.all_reduce(x, dist.ReduceOp.MAX, group)
    elif not (second and way == "rank 1 stays away"):
        other = {"8 numbers meet 108": x.repeat(14)[:108], "float meets int": x.int()}
        dist.all_reduce(other.get(way, x) if second else x, group=group)


def table_of_disagreements() -> str:
    """Return a table of what rank 0 gets for each of `DISAGREEMENTS`, without a check and with `DETAIL`."""
    from concurrent.futures import ThreadPoolExecutor

    first, *others = DISAGREEMENTS
    runs = (("OFF", [first]), ("OFF", others), ("DETAIL", list(DISAGREEMENTS)))
    with ThreadPoolExecutor() as pool:
        crash, off, detail = pool.map(lambda run: run_quietly(disagree, *run, ranks=2), runs)
    left = ["crash in C++" if crash.exits else crash.values[0][0], *off.values[0]]
    rows = zip(("", *DISAGREEMENTS), ("OFF", *left), ("DETAIL", *detail.values[0]), strict=True)
    return "\n".join(f"{way:28} {without:13} {checked}" for way, without, checked in rows)


# -- a mystery's files, and what torch brings ---------------------------------------------------------------------


def read(file: str) -> Tensor:
    """Return one batch of this rank's disk.

    Raises:
        OSError: the file cannot be read.
    """
    import torch

    if (os.environ["RANK"], file) == ("1", "B"):
        raise OSError("the disk is asleep")
    return torch.tensor([[ord(file) / 100]])


def small_machine() -> tuple[list[str], Callable[[str], Tensor]]:
    """Return this rank's files, and a function that reads one; there is memory for two files at a time."""
    files = {0: "AB", 1: "CDEF", 2: "GH"}[int(os.environ["RANK"])]
    return [*files], Memory(2, {file: [float(ord(file))] for file in files}).read


def analysed(dumps: Sequence[bytes], order: Sequence[int] = (0, 1, 2)) -> list[str]:
    """Return what torch's analyser says of the ranks' dumps, if the folder lists their files in this order."""
    report = io.StringIO()
    with contextlib.redirect_stderr(report):
        from torch.distributed.flight_recorder.components.builder import build_db
        from torch.distributed.flight_recorder.components.config_manager import JobConfig
        from torch.distributed.flight_recorder.components.fr_logger import FlightRecorderLogger
    cast("logging.StreamHandler[io.StringIO]", FlightRecorderLogger().logger.handlers[0]).setStream(report)
    found: dict[Any, Any] = {number: {"rank": number, **pickle.loads(dumps[number])} for number in order}
    try:
        build_db(found, JobConfig().parse_args([]), found[0]["version"])
    except KeyError as error:
        return [f"KeyError: {error}"]
    return sorted(re.findall(r"Culprit rank \d+.*?, Expected .*? does not match .*?'\w+'", report.getvalue()))


def mended(dump: bytes) -> bytes:
    """Add the name of the default group to a dump, of which gloo notes only the members."""
    content = pickle.loads(dump)
    content["pg_config"][_DEFAULT] = content["pg_config"].pop("")
    return pickle.dumps(content)


def renamed_variables() -> dict[str, str]:
    """Return old names of NCCL's variables, and their names in the headers that come with torch."""
    origin = cast("ModuleSpec", importlib.util.find_spec("torch")).origin
    headers = Path(str(origin)).parent / "include/torch/csrc/distributed/c10d"
    text = "".join(
        Path(headers, f"{name}.hpp").read_text() for name in ("ProcessGroupNCCL", "FlightRecorder")
    )
    listed = re.findall(r"\{\s*(\"[^}]*\")\s*\}", text)
    names = [re.findall(r'"(TORCH_\w+|NCCL_\w+)"', found) for found in listed]
    current = {old: first for first, *older in names for old in older}
    some = ("ASYNC_ERROR_HANDLING", "BLOCKING_WAIT", "DESYNC_DEBUG")
    return {old: current[old] for old in (*(f"NCCL_{name}" for name in some), "TORCH_NCCL_TRACE_BUFFER_SIZE")}


# -- what predictions ask -----------------------------------------------------------------------------------------


def parts(rank: int) -> Callable[[Outcome], bool]:
    """Predict that this rank's call alone differs where the ranks' lists of calls first differ."""

    def decides(outcome: Outcome) -> bool:
        record = Record.of(outcome)
        return record.parting is not None and record.apart(record.parting) == [rank]

    return decides


def all_wait_in(call: str) -> Callable[[Outcome], bool]:
    """Predict that all ranks wait, each of them in this communication call."""
    return lambda outcome: (
        len(outcome.waiting) == outcome.world_size
        and {waiting.call for waiting in outcome.waiting.values()} == {call}
    )


def all_stand_in(function: str) -> Callable[[Outcome], bool]:
    """Predict that all ranks wait, each of them in this function of the cell, the innermost one."""
    return lambda outcome: set(_innermost(outcome)) == {function}


def one_stands_elsewhere(outcome: Outcome) -> bool:
    """Return whether all ranks wait, one of them in another function or at another line than the others."""
    places = [stands_in(outcome, rank) for rank in outcome.waiting]
    return len(places) == outcome.world_size and len(set(places)) > 1


def _innermost(outcome: Outcome) -> Iterator[str]:
    for rank in outcome.ranks:
        stack = outcome.waiting[rank].stack if rank in outcome.waiting else ()
        yield next((frame.function for frame in reversed(stack) if is_learners(frame.file)), "")


def left_out(file: str, *ranks: int) -> Callable[[Outcome], bool]:
    """Predict that this is the first file that not all ranks have printed, and that these ranks have not."""

    def decides(outcome: Outcome) -> bool:
        done = {
            rank: {line.split()[0] for line in text.splitlines()} for rank, text in outcome.stdout.items()
        }
        some = {one for files in done.values() for one in files}
        first = min((one for one in some if not all(one in files for files in done.values())), default="")
        return first == file and tuple(rank for rank in sorted(done) if file not in done[rank]) == ranks

    return decides


def ends_within(low: float, high: float) -> Callable[[Outcome], bool]:
    """Predict that the cell ends well, after at least `low` seconds and before `high`."""
    return lambda outcome: outcome.ok and low <= outcome.seconds < high
