"""Lines of pages and lessons, typed as they stand there into a bash with processes and a network of its own.

Which line is typed where, and what it must say, is in tests/support/shell_lines.toml.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from realranks.ranks.process import die_with_parent
from tests.support import shell_lines
from tests.support.ranks_and_kernels import ROOT

TABLE = shell_lines.TABLE["run"]
BIN = Path(sys.executable).parent
ALONE = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
NETWORK = "ip link set lo up; ip addr add 10.0.0.1/8 dev lo"
#: Without torch, which costs each rank seconds to load; under the doctor it is loaded. A line is one write: ranks share
#: the pipe.
TRAIN = """\
import argparse, os, sys

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=1)
for _ in range(parser.parse_args().epochs):
    if "torch" in sys.modules:
        import torch.distributed as dist
        dist.init_process_group("gloo")
        dist.barrier()
        dist.destroy_process_group()
    print(f"rank {os.environ.get('RANK', 0)} of {os.environ.get('WORLD_SIZE', 1)}", flush=True)
"""
TEST = """\
import torch, torch.distributed as dist

def test_left_out():
    dist.init_process_group("gloo")
    if dist.get_rank() == 0:
        dist.all_reduce(torch.ones(1))
"""
HANGS = """\
import torch, torch.distributed as dist

dist.init_process_group("gloo")
def train():
    dist.barrier()
    print("step 1", flush=True)
    if dist.get_rank() == 1:
        dist.barrier()
    dist.all_reduce(torch.ones(1))
train()
"""
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        sys.platform != "linux"
        or subprocess.run([*ALONE, "--net", "true"], capture_output=True).returncode != 0,
        reason="needs the right to make namespaces",
    ),
]


class Terminal:
    """A bash in a folder. What it starts ends with it and sees no process outside; with `network`, no other machine."""

    def __init__(self, folder: Path, home: Path, network: bool = True, **variables: str) -> None:
        clean = {
            name: value for name, value in os.environ.items() if not name.startswith(("DDP_COURSE", "PIP_"))
        }
        self._bash = subprocess.Popen(
            [*ALONE, *(["--net"] if network else []), "bash"],
            cwd=folder,
            env=clean
            | {"HOME": str(home), "DDP_COURSE_HOME": f"{home}/data", "PYTHONPATH": str(ROOT)}
            | {"PATH": f"{BIN}{os.pathsep}{clean['PATH']}", "COLUMNS": "200"}
            | variables,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            preexec_fn=die_with_parent,
        )
        if network:
            self.typed(NETWORK)

    def typed(self, line: str, until: str = "", seconds: float = 150) -> tuple[int, str]:
        """Type a line, and y where it asks; return its exit code and what it has said.

        Args:
            until: the line does not end by itself, and is ended when it has said this.
        """
        assert self._bash.stdin is not None
        assert self._bash.stdout is not None
        if until:
            line = f"{line} &"
        end = "the line has ended:"
        self._bash.stdin.write(f"{{ {line}\n}} <<< y\n" + (f"echo {end} $?\n" if not until else ""))
        self._bash.stdin.flush()
        watchdog = threading.Timer(seconds, self._bash.kill)
        watchdog.start()
        said = ""
        try:
            for each in self._bash.stdout:
                before, mark, code = each.partition(end)
                said += before
                if mark:
                    return int(code), said
                if until and re.search(until, said):
                    self.typed("kill %1")
                    return 0, said
        finally:
            watchdog.cancel()
        raise AssertionError(f"{line} has not ended within {seconds} s: {said}")

    def close(self) -> None:
        """End all."""
        self._bash.kill()
        self._bash.communicate()


@pytest.fixture(scope="module")
def checkout(tmp_path_factory) -> Path:
    """What a fresh clone has, with an environment."""
    folder = tmp_path_factory.mktemp("lines") / "ddp-course"
    listed = ["git", "ls-files", "-coz", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0")
    for name in names:
        if name and (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    (folder / ".venv").symlink_to(sys.prefix)
    return folder


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def terminal(checkout: Path, home: Path, tmp_path_factory) -> Iterator[Callable[[str], Terminal]]:
    """The terminal of each folder of the table."""
    opened: dict[str, Terminal] = {}

    def open_one(place: str) -> Terminal:
        if place not in opened:
            opened[place] = globals()[f"open_{place}"](checkout, home, tmp_path_factory.mktemp(place))
        return opened[place]

    yield open_one
    for each in opened.values():
        each.close()


def open_checkout(checkout: Path, home: Path, _: Path) -> Terminal:
    return Terminal(checkout, home, PYTHONPATH=str(checkout))


def open_copy(checkout: Path, home: Path, _: Path) -> Terminal:
    at = Terminal(checkout, home)
    at.typed("ddp-course lab --only-copy && cd learner")
    at.typed("mkdir -p submissions/ada submissions/grace")
    at.typed(
        "for to in my.ipynb submissions/{ada,grace}/04.ipynb; do cp exercises/04_buckets.ipynb $to; done"
    )
    at.typed("cp exercises/capstone/train.py other.py")
    return at


def open_scripts(_: Path, home: Path, folder: Path) -> Terminal:
    (folder / "train.py").write_text(TRAIN, encoding="utf-8")
    (folder / "tests").mkdir()
    (folder / "tests/test_it.py").write_text(TEST, encoding="utf-8")
    return Terminal(folder, home)


open_together = open_scripts


def open_lessons(checkout: Path, home: Path, _: Path) -> Terminal:
    for lesson in sorted((checkout / "course_lib/lessons").glob("*/lesson.py")):
        for name, text in written_by(lesson):
            (checkout / "notebooks" / name).parent.mkdir(parents=True, exist_ok=True)
            (checkout / "notebooks" / name).write_text(text, encoding="utf-8")
    return Terminal(checkout / "notebooks", home)


def written_by(lesson: Path) -> Iterator[tuple[str, str]]:
    """The files that a lesson's cells write."""
    for cell in re.split(r"^# %%(?: .*)?\n", lesson.read_text(encoding="utf-8"), flags=re.MULTILINE):
        if found := re.match(r"# %%writefile (scratch/\S+)\n", cell):
            yield found[1], cell[found.end() :]


def open_jobs(checkout: Path, home: Path, folder: Path) -> Terminal:
    (folder / "other/scratch").mkdir(parents=True)
    (folder / "train.py").write_text(HANGS, encoding="utf-8")
    for name, text in written_by(checkout / "course_lib/lessons/debugging/lesson.py"):
        (folder / "other" / name).write_text(text, encoding="utf-8")
    at = Terminal(folder, home)
    mine = "--nnodes=1 --nproc-per-node=2 --rdzv-backend=c10d --rdzv-endpoint=127.0.0.1:29500 --rdzv-id=job-7 train.py"
    other = (
        "--nproc-per-node=3 --rdzv-backend=c10d --rdzv-endpoint=localhost:0 --rdzv-id=job-13 "
        "--redirects=3 --log-dir=scratch/logs scratch/job.py"
    )
    at.typed(f"torchrun {mine} &> console &\n(cd other && exec torchrun {other} &> console) &")
    at.typed(
        "until [ $(grep -rl 'step 1' console other/scratch/logs | wc -l) = 4 ]; do sleep 0.2; done; sleep 1"
    )
    return at


def open_beside(checkout: Path, home: Path, _: Path) -> Terminal:
    ask_index()
    at = Terminal(checkout, home, network=False)
    at.typed("unset PYTHONPATH")
    return at


def open_pip(checkout: Path, home: Path, _: Path) -> Terminal:
    ask_index()
    at = Terminal(checkout, home, network=False, PIP_DRY_RUN="1", PIP_NO_BUILD_ISOLATION="0")
    at.typed("git init -q . && git add . && git -c user.name=a -c user.email=a@b commit -qm all")
    return at


def ask_index() -> None:
    """Skip where pip reaches no package index."""
    asked = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--no-deps", "py-spy"]
    if subprocess.run(asked, capture_output=True).returncode != 0:
        pytest.skip("no package index can be reached")


def replaced(line: str, place: str, checkout: Path) -> str:
    """The line with what a reader puts for its placeholders."""
    values = {
        "NAME": "samplers.shard_indices",
        "ADDRESS": "10.0.0.1" if place == "scripts" else f"file://localhost{checkout}",
        "4711,4712": "$(pgrep -d, -f 'python.* -u train.py')",
    }
    for word, value in values.items():
        line = re.sub(rf"(?<![\w$]){re.escape(word)}\b", lambda _, value=value: value, line)
    return line


LINES = [(place, line) for place, lines in TABLE.items() if place != "together" for line in lines]


@pytest.mark.parametrize(("place", "line"), LINES)
def test_a_line_works_as_it_stands(terminal, checkout, place, line):
    code, endless, says = re.fullmatch(r"(?:(\d): )?(& )?(.*)", TABLE[place][line]).groups()
    typed = replaced(line, place, checkout)
    ended, said = terminal(place).typed(typed, until=says if endless else "")
    assert ended == int(code or 0), said
    assert re.search(says, said), said


def test_the_line_of_each_machine_finds_the_other_one(terminal):
    both = TABLE["together"]
    code, said = terminal("together").typed(" &\n".join(both) + "\nfirst=$?; wait; (exit $first)")
    assert code == 0, said
    assert all(re.search(says, said) for says in both.values()), said


def test_ranks_of_another_job_live_on(terminal):
    """Behind the lines that have ended job-7."""
    at = terminal("jobs")
    assert at.typed("sleep 2; pgrep -fc ' -u train.py'")[1] == "0\n"
    assert at.typed("pgrep -fc ' -u scratch/job.py'")[1] == "3\n"


def test_what_looks_at_a_run_is_installed_beside_it_and_brings_no_torch(terminal):
    at = terminal("beside")
    code, said = at.typed("cd / && realranks attach")
    assert (code, "No rank runs here" in said) == (2, True), said
    assert at.typed("~/ddp-doctor/bin/python -c 'import torch'")[0] == 1
    assert at.typed("command -v py-spy")[1].endswith("/ddp-doctor/bin/py-spy\n")
