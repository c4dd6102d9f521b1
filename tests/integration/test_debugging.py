"""Lesson 13: real processes of torchrun looked at, four fates, ways to disagree, and its explorable on real ranks."""

from pathlib import Path

import psutil
import pytest

from course_lib.lessons.debugging.lab import (
    FATES,
    RecordExplorer,
    look_at,
    lose_rank_1,
    small_machine,
    table_of_disagreements,
)
from realranks.cells.run import run_quietly

ROOT = Path(__file__).resolve().parents[2]


def lessons_file(name: str) -> str:
    """A script as the lesson's cell writes it."""
    cells = (ROOT / "course_lib/lessons/debugging/lesson.py").read_text(encoding="utf-8").split("\n# %%")
    cell = next(cell for cell in cells if cell.startswith(f"writefile scratch/{name}\n"))
    return cell.partition("\n")[2]


@pytest.fixture
def job(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("scratch").mkdir()
    for name in ("descend.py", "job.py"):
        Path("scratch", name).write_text(lessons_file(name))


LINE = "torchrun --standalone --nproc-per-node=3 --redirects=3 --log-dir=scratch/logs scratch/job.py"


def test_a_job_of_torchrun_is_looked_at_and_ended(job):
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    looks = look_at(LINE)
    functions = [[part.split(" (")[0] for part in look.stack.split(" < ")] for look in looks]
    waits = ["all_reduce", "descend"]
    assert functions == [waits, ["all_gather_object", "best_of_all", "descend"], waits]
    assert all(look.stack_by_py_spy in ("", look.stack) for look in looks)
    assert [look.last_words.partition(":")[0] for look in looks] == ["step 1"] * 3
    left = {child.pid for child in psutil.Process().children(recursive=True)} - before
    commands = [each.info["cmdline"] or [] for each in psutil.process_iter(["cmdline"]) if each.pid in left]
    assert [command for command in commands if "scratch/job.py" in command] == []


def test_a_job_that_fails_at_once_is_told_and_not_waited_for(job):
    Path("scratch/job.py").write_text("raise ValueError('no such file')")
    with pytest.raises(RuntimeError, match="ChildFailedError"):
        look_at(LINE)


def test_columns_are_stepped_through_and_other_targets_run_on_real_ranks(job):
    patient = run_quietly(descend_as_in_the_lesson, ranks=3)
    explorer = RecordExplorer(patient, [5.0, 2.0, 5.0])
    assert "Number 1: ranks 0, 1, 2: all_reduce(1)" in explorer.said.value
    explorer.column.value = 3
    assert "rank 1: all_gather(1)" in explorer.said.value
    explorer.targets[1].value = 5.0
    assert explorer.said.value.endswith("The run: ok.")
    assert explorer.column.value == 1
    explorer.targets[2].value = 2.0
    assert explorer.said.value.endswith("The run: hang.")
    assert explorer.record.apart(explorer.record.parting) == [2]
    explorer.column.value = explorer.record.parting
    assert "not the same on all ranks" in explorer.picture.value


def descend_as_in_the_lesson() -> None:
    """Runs on three ranks."""
    from course_lib.lessons.debugging.lab import descend

    descend([5.0, 2.0, 5.0])


def test_only_the_end_of_a_process_is_noticed_at_once():
    found = [run_quietly(lose_rank_1, fate, ranks=2).values[0] for fate in FATES]
    assert found == ["Connection lost", "Connection lost", "Timed out", "Timed out"]


def test_what_detail_finds_and_what_not():
    rows = [line[28:].split() for line in table_of_disagreements().splitlines()[1:]]
    assert [row[-1] for row in rows] == ["named"] * 4 + ["timeout", "error", "error"]


def read_all_files() -> int:
    """Runs on a rank: all files at once."""
    files, read = small_machine()
    return len([read(file) for file in files])


def test_a_rank_with_more_files_than_its_memory_holds_is_killed():
    assert run_quietly(read_all_files, ranks=3).exits == {1: -9}


def read_one_by_one() -> int:
    """Runs on a rank: no two files at a time."""
    files, read = small_machine()
    return sum(len(read(file)) for file in files)


def test_one_file_at_a_time_fits():
    assert run_quietly(read_one_by_one, ranks=3).values == {0: 2, 1: 4, 2: 2}
