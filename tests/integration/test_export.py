"""`ddp-course export`: what its scripts print under a real torchrun is what the ranks print in the notebook."""

import functools
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest

from course_lib.syllabus import all_lessons
from realranks.cells.as_script import RankCell, parts_of, rank_cells, script_of
from realranks.outcome.steady import steady
from tools.plan import find_targets
from tools.source import notebook_for

ROOT = Path(__file__).resolve().parents[2]
LESSONS = [lesson.name for lesson in all_lessons()][:-1]
#: Ranks that this test starts at most: a part that asks for more is not run.
MAX_RANKS = 4
#: What is drawn by chance, a name that says where a class was defined, who is faster: by lesson, the cells.
NOT_THE_SAME = {"07": {23}, "09": {2}, "14": {5}, "16": {11}}
QUICK = {"08_unused", "10_accumulation"}
_ROW = re.compile(r"^(?:ranks? ([\d,-]+)\s*)?\s*\| ?(.*)$")
_ERROR = re.compile(r"^\w+(Error|Exception)\b")


@functools.cache
def lesson(stem: str) -> tuple[nbformat.NotebookNode, nbformat.NotebookNode]:
    """The lesson as its source has it, and its saved notebook, which knows how each cell has run."""
    (target,) = (one for one in find_targets(ROOT, [stem]) if one.name == f"notebooks/{stem}")
    return notebook_for(target), nbformat.read(target.notebook, as_version=4)


def script(folder: Path, stem: str) -> Path:
    path = folder / f"{stem}.py"
    path.write_text(script_of(stem, *lesson(stem)), encoding="utf-8")
    return path


def torchrun(path: Path, logs: Path, *words: str) -> list[str]:
    return [
        *(sys.executable, "-m", "torch.distributed.run", *words),
        *("--log-dir", str(logs), "--redirects", "3", str(path)),
    ]


def environment(folder: Path) -> dict[str, str]:
    (folder / "checkpoints").mkdir(exist_ok=True)
    # As torchrun sets it where there are several ranks on a machine.
    here = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return {**os.environ, **here, "CHECKPOINTS": str(folder / "checkpoints")}


def printed(logs: Path) -> dict[int, list[str]]:
    """What each rank has printed; torchrun's folders are named by a machine's own numbers."""
    found = {}
    for file in sorted(logs.glob("*/attempt_0/*/stdout.log")):
        found[int(file.parent.name)] = [steady(line).rstrip() for line in file.read_text().splitlines()]
    return found


def blocks(said: str) -> Iterator[tuple[list[int], list[str]]]:
    """The rows of a saved output: the ranks, and their lines. What they wrote to stderr is left out."""
    ranks: list[int] = []
    lines: list[str] = []
    for line in said.partition("-- stderr --")[0].splitlines():
        row = _ROW.match(line)
        if row is None or row[1]:
            yield ranks, lines
            ranks, lines = [], []
        if row is not None and row[1]:
            spans = (part.partition("-") for part in row[1].split(","))
            ranks = [rank for first, _, last in spans for rank in range(int(first), int(last or first) + 1)]
        if row is not None:
            lines.append(row[2].rstrip())
    yield ranks, lines


def expected(cell: RankCell) -> Iterator[tuple[int, str]]:
    """What a rank prints, line by line; of an error its type."""
    for ranks, lines in blocks(cell.said or ""):
        raised = bool(lines) and re.fullmatch(r"  line \d+ of this cell", lines[0])
        if raised:
            kind = next(found[0] for line in lines if (found := _ERROR.match(line)))
            lines = [f"as the lesson says: {kind}"]
        for rank in ranks:
            yield from ((rank, line) for line in lines if line.strip())


def check_printed(stem: str, text: str, told: dict[int, list[str]]) -> int:
    """Everything that the saved notebook shows of the cells that were run has been printed; returns how many lines."""
    source, saved = lesson(stem)
    cells = [cell for cell in saved.cells if cell.cell_type == "code"]
    there = {int(number) for number in re.findall(r"^    begin_cell\((\d+)", text, re.MULTILINE)}
    run = [
        cell for part in parts_of(rank_cells(source, saved)) if part.ranks <= MAX_RANKS for cell in part.cells
    ]
    lines = 0
    for cell in run:
        tags = cells[cell.number - 1].metadata.get("tags", ())
        left_out = cell.number not in there or cell.number in NOT_THE_SAME.get(stem[:2], ())
        if left_out or {"nbval-ignore-output", "nbval-skip"} & set(tags):
            continue
        for rank, line in expected(cell):
            lines += 1
            assert any(
                here.startswith(line) if line.startswith("as the lesson") else here == line
                for here in told[rank]
            ), (cell.number, rank, line)
    return lines


@pytest.mark.parametrize(
    "stem", [pytest.param(stem, marks=() if stem in QUICK else pytest.mark.slow) for stem in LESSONS]
)
def test_a_lesson_s_script_prints_what_its_ranks_print(stem, tmp_path):
    path = script(tmp_path, stem)
    parts = parts_of(rank_cells(*lesson(stem)))
    size = max(part.ranks for part in parts if part.ranks <= MAX_RANKS)
    command = torchrun(path, tmp_path / "logs", "--standalone", f"--nproc-per-node={size}")
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        check=False,
        timeout=170,
    )
    told = printed(tmp_path / "logs")
    errors = [file.read_text()[-2000:] for file in tmp_path.glob("logs/*/attempt_0/*/stderr.log")]
    assert done.returncode == 0, "\n".join([done.stderr[-2000:], *errors])
    # Nearly all that lesson 12 runs, it launches itself.
    fewest = 1 if stem == "12_elastic" else 3
    assert check_printed(stem, path.read_text(), told) >= fewest


@pytest.mark.slow
def test_two_machines_with_an_agent_each_print_the_same(tmp_path):
    """The line in the script's own head, with a port that is free here."""
    path = script(tmp_path, "10_accumulation")
    line = next(line for line in path.read_text().splitlines() if "--nnodes=2" in line)
    assert "--nproc-per-node=1" in line
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = line.replace("=A:29400", f"=localhost:{port}").split()[1:-1]
    machines = [
        subprocess.Popen(
            torchrun(path, tmp_path / f"logs{number}", *words),
            cwd=tmp_path,
            env=environment(tmp_path),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(2)
    ]
    errors = [machine.communicate(timeout=170)[1] for machine in machines]
    assert [machine.returncode for machine in machines] == [0, 0], errors
    told = [printed(tmp_path / f"logs{number}")[0] for number in range(2)]
    first = 0 if any(line.startswith("== cell") for line in told[0]) else 1  # who comes first is rank 0
    assert check_printed("10_accumulation", path.read_text(), {0: told[first], 1: told[1 - first]}) > 2


def test_too_few_ranks_for_every_part_end_in_an_error_and_in_one_line_a_part(tmp_path):
    path = script(tmp_path, "00_first_ranks")
    command = torchrun(path, tmp_path / "logs", "--standalone", "--nproc-per-node=1")
    done = subprocess.run(
        command, cwd=tmp_path, env=environment(tmp_path), capture_output=True, check=False, timeout=100
    )
    assert done.returncode == 1
    assert printed(tmp_path / "logs")[0] == [
        "== part 1 is not run: it needs 4 ranks, and there are 1",
        "== part 2 is not run: it needs 4 ranks, and there are 1",
    ]


def test_without_torchrun_it_says_what_is_missing(tmp_path):
    path = script(tmp_path, "00_first_ranks")
    bare = {name: value for name, value in environment(tmp_path).items() if name != "RANK"}
    done = subprocess.run(
        [sys.executable, path], cwd=tmp_path, env=bare, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr.endswith("error: start it with torchrun\n")
