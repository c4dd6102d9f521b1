"""Run lessons with their ranks on two machines, and tell which cells show something else than on one.

`python -m tests.support.lessons_on_hosts 00 06` runs the saved notebooks with `%ranks hosts` in a first cell of their
own, on two network namespaces that share no files of a lesson's, and compares all outputs as the test suite does.
`--text` shows what differs.
"""

from __future__ import annotations

import argparse
import re
import shlex
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell

from tests.support import networks
from tests.support.ranks_and_kernels import ROOT

#: As `%ranks hosts` does it; the lesson's own first cell loads the extension, and what that prints is compared.
_BEFORE = """
from realranks.cells.session import SESSION
from realranks.ranks.hosts.spread import Hosts

SESSION.use(Hosts({0}, {1!r}))
"""
_AFTER = "assert SESSION.gang is None or {{link.host_name for link in SESSION.gang.links}} <= {0}"
_ANSI = re.compile(r"\x1b\[[0-9;]*m|#x1B\[[0-9;]*m")


@dataclass(frozen=True)
class Differs:
    """A cell that shows something else on several machines: its lesson, its number there, its source and how."""

    lesson: str
    cell: int
    source: str
    text: str


def lesson_on(lesson: str, names: Sequence[str], via: str) -> tuple[int, list[Differs]]:
    """Run a lesson with its ranks on these hosts: the number of its cells, and those that differ."""
    (saved,) = (ROOT / "notebooks").glob(f"{lesson}_*.ipynb")
    notebook = nbformat.read(saved, as_version=4)
    for place, source in (
        (0, _BEFORE.format(list(names), via)),
        (len(notebook.cells) + 1, _AFTER.format(set(names))),
    ):
        cell = new_code_cell(source, metadata={"tags": ["nbval-ignore-output"]}, execution_count=1)
        notebook.cells.insert(place, cell)
    cells = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    with tempfile.TemporaryDirectory(prefix="ddp-course-lesson-") as folder:
        copy = Path(folder) / saved.name
        nbformat.write(notebook, copy)
        told = Path(folder) / "told.xml"
        plugins = ["-p", "tests.nbval_share", "-p", "no:cacheprovider"]
        settings = ["-c", str(ROOT / "pyproject.toml"), "--nbval", "-q", f"--junitxml={told}"]
        ran = subprocess.run(
            [sys.executable, "-m", "pytest", *settings, *plugins, str(copy)],
            cwd=ROOT,
            capture_output=True,
            text=True,
        )
        if not told.exists():
            raise AssertionError(ran.stdout + ran.stderr)
        return len(cells) - 2, list(_differing(lesson, cells, ElementTree.parse(told)))


def lessons_on_two_machines(lessons: Sequence[str]) -> Iterator[tuple[str, int, list[Differs]]]:
    """Run these lessons on two machines; gives each, the number of its cells, and those that differ."""
    with networks.two_machines() as machines, tempfile.TemporaryDirectory() as folder:
        names = Path(folder) / "nsswitch.conf"
        names.write_text("hosts: files\n")
        reach = ["ip", "netns", "exec", "{}", "sh", "-c", _own_files(), str(names)]
        via = shlex.join([*reach, sys.executable, "-m", "realranks.ranks.hosts"])
        for lesson in lessons:
            yield lesson, *lesson_on(lesson, machines.names, via)


def _own_files() -> str:
    """The shell's lines that give a machine a /tmp and a home of its own, and no name server.

    (torch prints a warning where one does not answer.) The course and its Python stay, also where they lie below /tmp.
    """
    kept = [place for place in {str(ROOT), sys.prefix, sys.base_prefix} if Path(place).is_relative_to("/tmp")]
    lines = ['mount --bind "$0" /etc/nsswitch.conf', "mount -t tmpfs none /mnt"]
    for number, place in enumerate(kept):
        lines.append(f"mkdir /mnt/{number} && mount --bind {shlex.quote(place)} /mnt/{number}")
    lines.append("mount -t tmpfs none /tmp")
    for number, place in enumerate(kept):
        lines.append(f"mkdir -p {shlex.quote(place)} && mount --bind /mnt/{number} {shlex.quote(place)}")
    return " && ".join([*lines, 'mkdir /tmp/home && cd /tmp/home && export HOME=$PWD && exec "$@"'])


def _differing(lesson: str, cells: Sequence[str], told: ElementTree.ElementTree) -> Iterator[Differs]:
    for case in told.iter("testcase"):
        for failure in [*case.iter("failure"), *case.iter("error")]:
            number = int(re.findall(r"\d+", case.get("name", ""))[-1])
            yield Differs(lesson, number, cells[number], _ANSI.sub("", failure.text or ""))


def main() -> int:
    """Print which cells of the lessons differ; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("lessons", nargs="+", help="their numbers, such as 00")
    parser.add_argument("--text", action="store_true", help="show what differs, too")
    asked = parser.parse_args()
    found: list[Differs] = []
    for lesson, cells, differ in lessons_on_two_machines(asked.lessons):
        print(f"{lesson}: {len(differ)} of {cells} cells differ", flush=True)
        found += differ
        for one in differ:
            print(f"  cell {one.cell}: {one.source.splitlines()[0]}", flush=True)
            if asked.text:
                print("\n".join(f"      {line}" for line in one.text.splitlines()), flush=True)
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
