"""While a script says nothing, the doctor says on a terminal what it waits for, and in a log file nothing."""

import os
import pty
import re
import subprocess
import sys

import pytest

from tests.support.ranks_and_kernels import ROOT

SCRIPT = """
import sys
import torch.distributed as dist
dist.init_process_group("gloo")
if dist.get_rank() == 0:
    sys.stdout.write("half a line")
    sys.stdout.flush()
    open("here").read()
    print(", and its end")
dist.barrier()
"""


@pytest.fixture
def doctor(tmp_path):
    """Start the doctor on the script with this as its standard error."""
    (tmp_path / "train.py").write_text(SCRIPT, encoding="utf-8")
    os.mkfifo(tmp_path / "here")

    def start(stderr: int, *options: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "realranks.cli", "doctor", *options, "train.py"],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )

    return start


def test_on_a_terminal_it_says_what_it_waits_for_and_leaves_none_of_it(doctor, tmp_path):
    screen, its_end = pty.openpty()
    started = doctor(its_end, "--quiet")
    os.close(its_end)
    seen = ""
    while not re.search(r"\rrunning train\.py on ranks 0 and 1 … \(\d+ s\)", seen):
        seen += os.read(screen, 4096).decode()
    (tmp_path / "here").write_text("")
    out, _ = started.communicate()
    assert started.returncode == 0
    assert out.startswith("No fault found on ranks 0 and 1")
    assert "running" not in out
    while not re.search(r"\r +\r$", seen):
        seen += os.read(screen, 4096).decode()
    os.close(screen)


@pytest.mark.parametrize("options", [(), ("--json",)], ids=["log", "json"])
def test_in_a_log_file_there_is_nothing_of_it(doctor, tmp_path, options):
    """With `--json` not on a terminal either: a program reads."""
    screen, its_end = pty.openpty() if options else os.pipe()
    started = doctor(its_end, *options)
    os.close(its_end)
    (tmp_path / "here").write_text("")  # opens when rank 0 reads: the doctor has waited for its start
    out, _ = started.communicate()
    assert started.returncode == 0
    with open(screen, "rb", buffering=0) as file:
        said = _all_of(file.fileno())
    assert "running" not in said + out
    assert "starting" not in said + out
    assert "[rank 0] half a line, and its end" in (said if options else out)


def _all_of(screen: int) -> str:
    parts = []
    while True:
        try:
            part = os.read(screen, 4096)
        except OSError:  # how a terminal ends whose other end is closed
            part = b""
        if not part:
            return b"".join(parts).decode()
        parts.append(part)
