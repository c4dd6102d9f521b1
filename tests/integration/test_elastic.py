"""The scripts of lesson 12, launched as a learner types it: `torchrun`, from a folder in which they lie."""

import ast
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from course_lib import run_quietly
from course_lib.lessons.elastic.lab import events, job, losses, machines, second_life, steps_again, steps_in
from course_lib.lessons.process_groups.lab import free_port
from tests.support.ranks_and_kernels import ROOT, is_gone, until, until_gone

pytestmark = pytest.mark.slow
SOURCE = (ROOT / "course_lib/lessons/elastic/lesson.py").read_text()
SECONDS = 150


def commands() -> dict[str, list[str]]:
    """All lines with torchrun in the lesson, by their script; what a cell fills in stands in braces."""
    found: dict[str, list[str]] = {}
    cells = re.findall(r"^# \w+ = !(.*)$", SOURCE, re.MULTILINE)
    nodes = [*ast.walk(ast.parse(SOURCE))]
    parts = {part for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            cells.append(
                "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
            )
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in parts:
            cells.append(node.value)
    for line in cells:
        if match := re.search(r"torchrun --.* (?:\S*/)?(\w+\.py)\b", line):
            found.setdefault(match[1], []).append(line)
    return {script: sorted({*lines}, key=len) for script, lines in found.items()}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With the scripts that the lesson writes."""
    (tmp_path / "scratch" / "elastic").mkdir(parents=True)
    for name, text in re.findall(
        r"^# %%writefile (scratch/elastic/\w+\.py)\n(.*?)(?=^# %% ?|\Z)", SOURCE, re.MULTILINE | re.DOTALL
    ):
        (tmp_path / name).write_text(text)
    return tmp_path


class Terminal:
    """A shell, into which is typed what the lesson shows."""

    def __init__(self, folder: Path) -> None:
        self.screen = folder / f"screen {time.monotonic_ns()}"
        known = {name: value for name, value in os.environ.items() if not name.startswith("TORCHELASTIC")}
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        self.shell = subprocess.Popen(
            ["bash"],
            cwd=folder,
            env={**known, "PATH": path, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
            text=True,
            stdin=subprocess.PIPE,
            stdout=self.screen.open("w"),
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def type(self, line: str) -> None:
        assert self.shell.stdin is not None
        self.shell.stdin.write(line + "\n")
        self.shell.stdin.flush()

    def ended(self) -> tuple[int, str]:
        """The exit code of what has been typed last, and all that the terminal shows."""
        self.type("wait $!; exit $?")
        try:
            return self.shell.wait(SECONDS), self.screen.read_text()
        except subprocess.TimeoutExpired as error:
            os.killpg(self.shell.pid, signal.SIGTERM)
            raise AssertionError(self.screen.read_text()) from error


def test_every_line_of_the_lesson_is_typed_here():
    """A new line needs a test of its own."""
    assert {script: len(lines) for script, lines in commands().items()} == {
        "train.py": 2,
        "elastic.py": 2,
        "asked.py": 2,
        "leave.py": 1,
        "meet.py": 1,
        "raises.py": 1,
    }


def typed(folder: Path, line: str) -> tuple[int, str]:
    """The exit code of one line, and what it prints."""
    terminal = Terminal(folder)
    terminal.type(f"{line} &")
    return terminal.ended()


def answers(port: int) -> bool:
    """Whether somebody serves a store there."""
    with socket.socket() as client:
        return client.connect_ex(("localhost", port)) == 0


def test_by_default_the_job_ends_and_with_restarts_it_begins_with_step_0(folder):
    plain, restarted = commands()["train.py"]
    code, said = typed(folder, plain)
    assert (code, steps_in(said.splitlines())) == (1, [*range(7)])
    code, said = typed(folder, restarted)
    assert (code, steps_in(said.splitlines())) == (0, [*range(7), *range(10)]), said


@pytest.mark.parametrize("served", [False, True])
def test_three_kills_in_two_terminals_lose_the_steps_since_a_checkpoint_and_no_bit(folder, served):
    """The store is in the first agent, or is served by a third process, on a port that is free here."""
    here, port = folder / "scratch" / "elastic", free_port()
    serve, prepare, line = (
        re.search(rf"^#  +({begin}.*)$", SOURCE, re.MULTILINE)[1].replace("29400", str(port))
        for begin in ("python -c", "rm -f", "TORCH_DISABLE")
    )
    terminals = [Terminal(here) for _ in range(3 if served else 2)]
    if served:
        head = terminals.pop()
        head.type(f"{serve} &")
        until(lambda: answers(port), SECONDS)
    terminals[0].type(prepare)
    for terminal in terminals:
        terminal.type(f"{line} &")
    try:
        ends = [terminal.ended() for terminal in terminals]
    finally:
        if served:
            head.type("kill $!")
            head.ended()
    assert [code for code, _ in ends] == [0, 0], ends
    assert steps_again(str(here)) == [2, 3, 2]
    assert line.replace(str(port), "29400") == commands()["elastic.py"][0], "the cells type the same"
    calm = job(str(here))
    run_quietly(machines, calm, commands()["elastic.py"][0], 2, ranks=1, init=False, timeout=80)
    assert losses(calm) == losses(str(here))


@pytest.mark.parametrize(("options", "equal"), [("", False), (", find_unused_parameters=True", True)])
def test_three_workers_lose_a_bit_because_a_new_wrapper_orders_its_buckets_anew(folder, options, equal):
    """With this option it never does, and three workers add in the same order after a restart."""
    script = folder / "scratch" / "elastic" / "elastic.py"
    script.write_text(
        script.read_text().replace("DistributedDataParallel(net)", f"DistributedDataParallel(net{options})")
    )
    line = "TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 torchrun --standalone --nproc-per-node=3 --max-restarts=1 elastic.py"
    jobs = [job(str(script.parent)), job(str(script.parent), "kill machine 0 at 7")]
    for one in jobs:
        run_quietly(machines, one, line, ranks=1, init=False, timeout=80)
    calm, killed = map(losses, jobs)
    assert calm == pytest.approx(killed, rel=1e-5)
    assert (calm == killed) is equal


@pytest.mark.parametrize("nodes", ["1:2", "2"])
def test_a_machine_that_is_asked_to_leave_costs_no_step_and_the_other_does_not_take_the_job_for_done(
    folder, nodes
):
    """It goes on alone, or with the machine that comes back."""
    here, port = folder / "scratch" / "elastic", free_port()
    prepare, line, ask = re.findall(r"^#     (.*(?:hold 4|leave\.py &).*)$", SOURCE, re.MULTILINE)
    line = line.replace("--nnodes=1:2", f"--nnodes={nodes}").replace("29400", str(port))

    def machine(*lines: str) -> Terminal:
        terminal = Terminal(here)
        for one in (*lines, line):
            terminal.type(one)
        return terminal

    stays = machine(prepare)
    until(lambda: answers(port), SECONDS)  # the store is in the agent that comes first
    leaves = machine()
    until(lambda: any(one["step"] == 8 for one in events(str(here), "step")), SECONDS)
    leaves.type(ask)
    assert leaves.ended()[0] == 1
    back = machine() if nodes == "2" else None
    code, said = stays.ended()
    assert code == 0, said
    assert back is None or back.ended()[0] == 0
    left = [one["step"] for one in events(str(here), "left", rank=None)]
    assert left[:4] == [10] * 4
    ready = events(str(here), "ready")[-1]
    assert (ready["step"], ready["world"]) == (10, 4 if back else 2)
    assert [one["step"] for one in events(str(here), "step")] == [*range(200)]


def test_growing_costs_no_step_where_workers_save_when_they_are_asked(folder):
    grown = job(str(folder / "scratch" / "elastic"), "machine 1 after checkpoint.pt")
    line = commands()["leave.py"][0].replace("last_call_timeout=5", "last_call_timeout=1")
    ended = run_quietly(machines, grown, line, 2, ranks=1, init=False, timeout=85)
    assert ended.values[0]["codes"] == [0, 0]
    assert {one["world"] for one in events(grown, "step")} == {2, 4}
    assert [one["step"] for one in events(grown, "step")] == [*range(200)]


@pytest.mark.parametrize(
    ("name", "options", "code", "got", "live_on"),
    [
        ("TERM", "", 1, {"SIGTERM": 2}, False),
        ("USR1", "", 128 + 10, {}, True),
        ("USR1", "--signals-to-handle=SIGTERM,SIGUSR1", 1, {"SIGUSR1": 2}, False),
    ],
)
def test_which_signals_workers_get(folder, name, options, code, got, live_on):
    here = folder / "scratch" / "elastic"
    terminal = Terminal(here)
    terminal.type(f"{commands()['asked.py'][1].format(options)} &")
    until(lambda: len(events(str(here), "ready", rank=None)) == 2, SECONDS)
    workers = [one["pid"] for one in events(str(here), "ready", rank=None)]
    terminal.type(f"kill -{name} $!")
    try:
        assert terminal.ended()[0] == code
        assert Counter(one["signal"] for one in events(str(here), "got", rank=None)) == got
        assert [is_gone(pid) for pid in workers] == [not live_on] * 2
    finally:
        for pid in workers:
            if not is_gone(pid):
                os.kill(pid, 9)
        until_gone(workers)


def test_without_the_variable_the_store_holds_addresses_of_the_dead(folder):
    """What the variable is for: rank 0 looks into its store before any of the new workers has written there."""
    here = folder / "scratch" / "elastic"
    typed(here, commands()["meet.py"][0])
    assert events(str(here), "look")[0]["addresses"] == ["0", "1"]
    assert second_life(str(here))


@pytest.mark.parametrize(("option", "named"), [("plain", False), ("record", True)])
def test_the_summary_names_the_error_of_a_function_that_is_recorded(folder, option, named):
    _, said = typed(folder, commands()["raises.py"][0].format(option))
    assert ("sample 17" in said[said.rindex("FAILED") :]) is named
