"""Lesson 16: two machines for agents of torchrun, what each agent says, and what is left over.

A machine is a network namespace with an address of its own, and a wire between the two. Where the system allows none,
both are this machine: then what needs a wire of its own cannot be run.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path

from course_lib.lab.explorer import Explorer, to_find
from course_lib.lessons.process_groups.lab import forked, free_port
from realranks.cells.run import run_quietly
from realranks.draw import Arrow, Box, Drawing, Text
from realranks.draw.drawing import Shape, text_width
from realranks.draw.stepper import wrapped
from realranks.outcome.outcome import Outcome

NAMES = ("a", "b")
_WIRE = "eth0"
#: The variable that says to hosts in which networks the wire is the course's own.
_NETWORKS = "DDP_COURSE_NETWORKS"
_ADDRESSES = ("10.77.0.1", "10.77.0.2")
#: A namespace lives as long as a process in it; this one ends when its input closes, so with the kernel.
_HOLDER = "ip link set lo up && echo up && exec cat"
_ROOT_CAUSE = re.compile(r"^Root Cause .*?(?=^=====)", re.MULTILINE | re.DOTALL)
_MOVING = re.compile(r"^ +(?:time|host) +:.*\n", re.MULTILINE)


@dataclass(frozen=True)
class Machines:
    """Two machines, `a` and `b`.

    Attributes:
        addresses: by which each is reached from the other.
        holders: the processes in whose namespaces they are; none where both machines are this one.
        folder: has a link to each namespace, by the machine's name.
        port: where agents meet if both machines are this one, instead of at torch's own.
    """

    addresses: tuple[str, str]
    holders: tuple[int, ...] = ()
    folder: str = ""
    port: int = 0
    _kept: tuple[object, ...] = field(default=(), repr=False)

    def __str__(self) -> str:
        if self.holders:
            return f"two network namespaces, joined by {_WIRE}"
        return "one machine under two names: no network namespaces can be made here"

    @property
    def wire(self) -> str:
        """The name of the interface by which they reach each other."""
        return _WIRE if self.holders else "lo"

    @property
    def via(self) -> str:
        """The command for `%ranks hosts --via` that starts a host on the machine whose name replaces `{}`."""
        way = ["env", "MACHINE={}"]
        if self.holders:
            first = f"/proc/{self.holders[0]}/ns/net"
            way = [each.replace(first, f"{self.folder}/{{}}") for each in _way_into(self.holders[0])]
            way = ["env", f"{_NETWORKS}={','.join(_network(str(pid)) for pid in self.holders)}", *way]
        return shlex.join([*way, sys.executable, "-m", "realranks.ranks.hosts"])

    def __reduce__(self) -> tuple[type[Machines], tuple[object, ...]]:
        return Machines, (self.addresses, self.holders, self.folder, self.port)  # ranks hold no processes

    def enter(self, number: int) -> None:
        """Make this process a process of that machine.

        Raises:
            OSError: the system does not allow it.
        """
        if self.holders:
            libc = ctypes.CDLL(None, use_errno=True)
            for kind in ("user", "net"):
                theirs, own = (f"/proc/{who}/ns/{kind}" for who in (self.holders[number], "self"))
                if os.readlink(theirs) == os.readlink(own):
                    continue
                with open(theirs, "rb") as namespace:
                    if libc.setns(namespace.fileno(), 0):
                        raise OSError(ctypes.get_errno(), f"cannot enter machine {NAMES[number]}")

    def torchrun(self, commands: str) -> str:
        """Run a command line on the machine that this rank plays, and return its output.

        Args:
            commands: a line for each machine, as it is typed there. Where both are this one, their addresses, wire
                and default ports are replaced.
        """
        number = int(os.environ["RANK"])
        line = commands.strip().splitlines()[number]
        if not self.holders:
            line = line.replace(
                f"--rdzv-endpoint={_ADDRESSES[0]} ", f"--rdzv-endpoint=127.0.0.1:{self.port} "
            )
            line = line.replace(_ADDRESSES[0], "127.0.0.1").replace(f"={_WIRE} ", "=lo ")
        words = shlex.split(line)
        program = words.index("torchrun")

        def before() -> None:
            self.enter(number)
            os.environ.pop("GLOO_SOCKET_IFNAME", None)
            os.environ.update(dict(word.split("=", 1) for word in words[:program]))
            if self.port:
                os.environ["PET_MASTER_PORT"] = str(self.port)  # the default of --master-port

        code, log = forked("torch.distributed.run", words[program + 1 :], before)
        return f"{log}\nexit code {code}"


def pull_cable(seconds: float) -> None:
    """Pull the cable of a host on one of two machines, and plug it in after so many seconds; runs on a rank.

    It returns at once, and does nothing where the machines have no wire.
    """
    if _network("self") in os.environ.get(_NETWORKS, "").split(","):
        script = f"ip link set {_WIRE} down; sleep {seconds}; ip link set {_WIRE} up"
        subprocess.Popen(["sh", "-c", script], start_new_session=True)


def two_machines() -> Machines:
    """Make two machines, which are gone when this process is."""
    found: list[subprocess.Popen[str]] = []
    try:
        for number in range(2):
            found.append(_holder(found[0].pid if number else None))
        first, second = (process.pid for process in found)
        _in(first, f"ip link add {_WIRE} type veth peer name {_WIRE} netns {second}")
        for pid, address in zip((first, second), _ADDRESSES, strict=True):
            _in(pid, f"ip addr add {address}/24 dev {_WIRE} && ip link set {_WIRE} up")
    except (OSError, subprocess.SubprocessError):
        for process in found:
            process.kill()
        return Machines(("127.0.0.1", "127.0.0.1"), port=free_port())
    folder = tempfile.TemporaryDirectory(prefix="two-machines-")
    for name, pid in zip(NAMES, (first, second), strict=True):
        Path(folder.name, name).symlink_to(f"/proc/{pid}/ns/net")
    return Machines(_ADDRESSES, (first, second), folder.name, _kept=(*found, folder))


def _holder(beside: int | None) -> subprocess.Popen[str]:
    """Start a process in a new network namespace, in the user namespace of `beside` if it is given."""
    if beside is None:
        way = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user", "--net"]
    else:
        way = [*_way_into(beside), "unshare", "--net"]
    process = subprocess.Popen(
        [*way, "sh", "-c", _HOLDER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    if process.stdout.readline() != "up\n":
        process.kill()
        raise OSError("no network namespace")
    return process


def _network(process: str) -> str:
    """Return the number of a process's network namespace."""
    return os.readlink(f"/proc/{process}/ns/net").strip("net:[]")


def _way_into(pid: int) -> list[str]:
    own = os.readlink(f"/proc/{pid}/ns/user") == os.readlink("/proc/self/ns/user")
    return (
        ["nsenter", f"--net=/proc/{pid}/ns/net"]
        if own
        else [
            *("nsenter", "--preserve-credentials", f"--user=/proc/{pid}/ns/user", f"--net=/proc/{pid}/ns/net")
        ]
    )


def _in(pid: int, command: str) -> None:
    subprocess.run([*_way_into(pid), "sh", "-c", command], check=True, capture_output=True)


# --- what an agent has said ------------------------------------------------------------------------------------------


def ending(log: str) -> str:
    """Return the end of an agent's log: its root cause, without times, hosts and process numbers."""
    found = _ROOT_CAUSE.search(log)
    if not found:
        return last_words(log)
    said = re.sub(r" \(pid: \d+\)( $)?", "", _MOVING.sub("", found[0]), flags=re.MULTILINE)
    said = re.sub(r"(error_file: )(?!<).*(/attempt_0/.*)", r"\1...\2", said)
    said = re.sub(
        r'File "/.*/torch/.*/([^"/]+)", line \d+', r'File "\1", line …', said
    )  # others in other releases
    return re.sub(r'File "/.*/([^"/]+)"', r'File "\1"', said).rstrip("-\n ")


def last_words(log: str) -> str:
    """Return the last exception in a log, with the inner one to which it refers; "" where there is none."""
    said = re.findall(
        r"^(?:\[rank\d+\]: )?(?:torch[\w.]*\.)?(\w*(?:Error|Exception)\b.*)$", log, re.MULTILINE
    )
    said = [re.sub(r" (?:Connection was likely closed|This is typically).*", "", each) for each in said]
    if said and "See inner exception" in said[-1]:
        return f"{said[-1]} {said[-2]}"
    return said[-1] if said else ""


def words_of_rank(log: str) -> str:
    """Return the last exception above the agent's own report, without addresses; "" where no rank has failed."""
    above, failed, _ = log.partition("failed (exitcode")
    return re.sub(r" \[[\d.]+\]:\d+.*", "", re.sub(r"\[/\S+\] ", "", last_words(above))) if failed else ""


def _blamed(log: str) -> int | None:
    found = (
        re.search(r"^ +rank +: (\d+)", cause[0], re.MULTILINE) if (cause := _ROOT_CAUSE.search(log)) else None
    )
    return int(found[1]) if found else None


def first_log_blames(rank: int | None) -> Callable[[Outcome], bool]:
    """Predict which rank, if any, the log of machine a names as the root cause."""
    return lambda outcome: _blamed(outcome.values[0]) == rank


def _ended_well(log: str) -> bool:
    return log.endswith("exit code 0")


def both_start(outcome: Outcome) -> bool:
    """Return whether both agents start their ranks, and all ends well."""
    return all(map(_ended_well, outcome.values.values()))


def second_is_refused(outcome: Outcome) -> bool:
    """Return whether machine a's ranks run without those of machine b, which fails."""
    return _ended_well(outcome.values[0]) and not _ended_well(outcome.values[1])


def second_says(words: str) -> Callable[[Outcome], bool]:
    """Predict that machine a's agent ends well, and that of machine b fails with these words."""
    return lambda outcome: second_is_refused(outcome) and words in last_words(outcome.values[1])


# --- two agents, and how they fail to meet ---------------------------------------------------------------------------

#: Seconds that agents wait for each other in what follows; torch's own are in the lesson.
PATIENCE = 4
_LINES = {
    "static": "torchrun --nnodes=2 --node-rank=NUMBER --master-addr=10.77.0.1 --master-port=PORT "
    f"--rdzv-conf=timeout={PATIENCE} who.py",
    "c10d": "torchrun --nnodes=2 --rdzv-backend=c10d --rdzv-endpoint=10.77.0.1:PORT --rdzv-id=ID "
    f"--rdzv-conf=is_host=HOST,join_timeout={PATIENCE},read_timeout={PATIENCE} who.py",
}
#: What machine b does differently: replacements in its line, and seconds by which it is late.
MEETINGS: dict[str, tuple[dict[str, str], float]] = {
    "as it should be": ({}, 0),
    "another port": ({"PORT": "OTHER"}, 0),
    "an address that nobody has": ({"10.77.0.1": "10.77.0.9"}, 0),
    "127.0.0.1 as the address": ({"10.77.0.1": "127.0.0.1"}, 0),
    "six seconds late": ({}, 6),
    "another --rdzv-id": ({"ID": "job-8"}, 0),
}


@dataclass(frozen=True)
class Meeting:
    """A meeting of two agents, or their failure: for each, seconds and last words."""

    name: str
    backend: str
    seconds: tuple[float, ...]
    words: tuple[str, ...]


def meet(machines: Machines, name: str, backend: str) -> Meeting:
    """Start an agent on each machine; machine b does what `name` says."""
    changes, late = MEETINGS[name]
    values = {"PORT": str(free_port()), "OTHER": str(free_port()), "ID": "job-7"}
    commands = "\n".join(
        _filled(_LINES[backend], {**change, "NUMBER": str(number), "HOST": str(number == 0)})
        for number, change in enumerate((values, changes))
    )
    commands = _filled(commands, values)
    outcome = run_quietly(_time_line, machines, commands, late, ranks=2, init=False, timeout=60)
    took, logs = zip(*(outcome.values[rank] for rank in range(2)), strict=True)
    words = tuple("both ranks run" if _ended_well(log) else last_words(log) for log in logs)
    return Meeting(name, backend, took, words)


def _filled(line: str, values: Mapping[str, str]) -> str:
    for old, new in values.items():
        line = re.sub(rf"\b{old}\b", new, line)
    return line


def _time_line(machines: Machines, commands: str, late: float) -> tuple[float, str]:
    """Run the line of the machine that this rank plays; return the seconds and the output."""
    if os.environ["RANK"] == "1":
        time.sleep(late)  # this is what is tried
    began = time.monotonic()
    Path("who.py").touch()
    log = machines.torchrun(commands)
    return time.monotonic() - began, log


def draw_meeting(meeting: Meeting) -> Drawing:
    """Draw a bar for each agent: how long it took, and its last words below."""
    scale = 520 / max(12.0, *meeting.seconds)
    shapes: list[Shape] = []
    y = 10.0
    for name, took, words in zip(NAMES, meeting.seconds, meeting.words, strict=True):
        look = "good" if words == "both ranks run" else "bad"
        shapes += [
            Text(84, y + 19, f"machine {name}", 13, "end", bold=True),
            Box(94, y, took * scale, 28, look),
            Text(102 + took * scale, y + 19, f"{took:.0f} s"),
        ]
        for line in wrapped(words, 640):
            y += 20
            shapes.append(Text(94, y + 26, line, 12))
        y += 56
    alt = "; ".join(f"machine {name}: {words}" for name, words in zip(NAMES, meeting.words, strict=True))
    return Drawing(760, y, tuple(shapes), alt, f"{meeting.backend}, {meeting.name}")


class MeetingExplorer(Explorer):
    """Choose what machine b does, and let two real agents try to meet."""

    controls = "what machine b does, and the kind of rendezvous"

    def __init__(self, machines: Machines) -> None:
        import ipywidgets as widgets

        self._machines = machines
        names = [name for name in MEETINGS if machines.holders or "address" not in name]
        self.name = widgets.Dropdown(options=names, description="machine b:")
        self.backend = widgets.ToggleButtons(options=["static", "c10d"], description="rendezvous:")
        self.button = widgets.Button(description="Start both agents", button_style="primary")
        self.button.on_click(lambda _: self.start())
        self.picture = widgets.HTML()
        goals = to_find(
            "two mistakes with which machine a says the same, and two with which machine b says the same; and the one "
            "which only one kind of rendezvous notices. Each start takes 2 to 13 seconds."
        )
        self.whole = widgets.VBox([goals, widgets.HBox([self.name, self.backend, self.button]), self.picture])
        self.static = self.start()

    def start(self) -> Drawing:
        """Start the agents, and show how they met."""
        self.button.disabled = True
        try:
            drawing = draw_meeting(meet(self._machines, self.name.value, self.backend.value))
        finally:
            self.button.disabled = False
        self.picture.value = drawing.svg()
        return drawing


def explore_meetings(machines: Machines) -> MeetingExplorer:
    """Return the controls and the picture, to be the last line of a cell."""
    return MeetingExplorer(machines)


# --- who is left over ------------------------------------------------------------------------------------------------

#: Each of the two workers waits for the other, in a group of its own. The file says so when the wait has lasted a
#: second: a signal that comes before the call of C++ would be heard.
_WORKER = """
import os, sys, threading
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
groups = dist.new_group(), dist.new_group()
for group in groups:
    dist.all_reduce(torch.ones(1), group=group)
local = os.environ["LOCAL_RANK"]
threading.Timer(1, open, (os.path.join(sys.argv[1], local), "w")).start()
dist.all_reduce(torch.ones(1), group=groups[int(local)])
"""
#: The signal that torchrun gets, and how many seconds the workers have to end: SIGTERM ends them at once, but the
#: machine may be busy; torchrun itself would kill them after 30.
_ENDS = {"Ctrl-C": (signal.SIGINT, 3.0), "kill": (signal.SIGTERM, 25.0)}


def left_over() -> dict[str, list[int]]:
    """Return which of torchrun's two hung workers live on, by the signal that it got; clean up."""
    return {name: _left_after(*end) for name, end in _ENDS.items()}


def _left_after(end: signal.Signals, seconds: float) -> list[int]:
    import multiprocessing

    import psutil

    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "work.py")
        script.write_text(_WORKER)
        line = ["--standalone", "--nproc-per-node=2", str(script), folder]
        started = multiprocessing.get_context("fork").Process(
            target=_be_torchrun, args=(line, f"{folder}/log")
        )
        started.start()
        agent = psutil.Process(started.pid)
        workers: dict[int, psutil.Process] = {}
        try:
            while started.is_alive() and not all(Path(folder, str(local)).exists() for local in range(2)):
                time.sleep(0.02)
            workers = {int(each.environ()["LOCAL_RANK"]): each for each in agent.children()}
            agent.send_signal(end)
            _, alive = psutil.wait_procs([*workers.values()], timeout=seconds)
            return sorted(local for local, each in workers.items() if each in alive)
        finally:
            for each in (agent, *workers.values()):
                with contextlib.suppress(psutil.Error):
                    each.kill()


def _be_torchrun(arguments: Sequence[str], log: str) -> None:
    """Run `torchrun` in the main thread of this process, the only one that can catch signals."""
    os.environ.pop("TORCHELASTIC_USE_AGENT_STORE", None)
    for descriptor in (1, 2):
        os.dup2(os.open(log, os.O_CREAT | os.O_WRONLY | os.O_APPEND), descriptor)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    importlib.import_module("torch.distributed.run").main(arguments)


def left_after(*names: str) -> Callable[[Outcome], bool]:
    """Predict the signals to the agent that both workers survive; the others end both."""
    survived = {name: [0, 1] if name in names else [] for name in _ENDS}
    return lambda outcome: outcome.ok and outcome.values[0] == survived


# --- drawing ---------------------------------------------------------------------------------------------------------


def draw_cluster() -> Drawing:
    """Draw two machines: who starts whom, who learns what from whom, and where it is written."""
    shapes: list[Shape] = []
    for number, name in enumerate(NAMES):
        x = 8.0 + 392 * number
        shapes += [
            Box(x, 4, 352, 236, edge=1.5),
            Text(x + 12, 26, f"machine {name}", 13, bold=True),
            Box(x + 12, 42, 150, 48, "even"),
            Text(x + 87, 62, "the agent: torchrun", 12, "middle", colour="#000"),
            Text(x + 87, 80, f"--node-rank={number}", 11, "middle", mono=True, colour="#000"),
            Box(x + 230, 42, 110, 48, edge=1.5),
            Text(x + 285, 71, f"the log of {name}", 12, "middle"),
            Arrow(x + 162, 66, x + 227, 66, 1.5),
        ]
        shapes += [
            Box(x + 98, 156, 156, 52, f"rank {number}"),
            Box(x + 104, 162, 144, 40, "plain", edge=0),
            Text(x + 176, 180, f"rank {number}: train.py", 12, "middle", bold=True),
            Text(x + 176, 196, "LOCAL_RANK 0", 11, "middle", mono=True),
            Arrow(x + 130, 156, x + 92, 93, 1.5, dashed=True),
            Arrow(x + 222, 156, x + 272, 93, 1, faint=True),
        ]
    shapes += [
        Arrow(380, 182, 265, 182, 2.5),
        Arrow(380, 182, 495, 182, 2.5),
        Text(380, 172, "eth0", 11, "middle", mono=True),
    ]
    x = 8.0
    for width, dashed, faint, text in (
        (1.5, True, False, "exit code, error file"),
        (1.0, False, True, "what it prints"),
        (2.5, False, False, "collectives"),
    ):
        shapes += [Arrow(x, 258, x + 30, 258, width, dashed, faint=faint), Text(x + 38, 262, text)]
        x += 66 + text_width(text)
    alt = (
        "Two machines, a and b. On each an agent, torchrun, which has started one rank: 0 on a, 1 on b. A rank's exit "
        "code and error file go to the agent of its own machine. What rank and agent print goes to the log of their "
        "machine. Only collectives pass the wire between the machines."
    )
    return Drawing(760, 272, tuple(shapes), alt, "Two machines, two agents, two logs")


def file_text(name: str) -> str:
    """Return one of the course's files for a cluster: `train.sbatch` or `job.yaml`."""
    return (resources.files("course_lib.data") / "cluster" / name).read_text(encoding="utf-8")
