"""Exercises that are watched: which one is current, and when it is graded again. Only stubs: no ranks here."""

import os

import pytest

from course_lib.grading.progress import Progress
from course_lib.grading.verdict import VerdictKind
from course_lib.grading.watched import Watched
from tests.support.submissions import STUB, TASK, notebook, task_cell, write

OTHER_STUB = "# YOUR CODE HERE\n# not yet\n"
SECOND = "samplers.evaluate"
SCRIPT = "first_ranks.train"


@pytest.fixture(autouse=True)
def _home(tmp_path, monkeypatch):
    monkeypatch.setenv("DDP_COURSE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


def watched(*files, complain=pytest.fail, **more):
    return Watched(files, Progress(), complain, **more)


def two(first=STUB, second=STUB):
    return notebook(task_cell(first), task_cell(second, SECOND))


def test_the_first_exercise_that_has_not_been_passed_is_current(tmp_path):
    path = write(tmp_path / "a.ipynb", two())
    Progress().attempt(TASK, "pass")
    found = watched(path)
    assert found.look()
    assert (found.current.cell.task, found.current.place) == (SECOND, "a.ipynb, cell 2")
    assert found.passed() == {TASK}
    assert found.grade().kind is VerdictKind.NOT_ATTEMPTED
    assert not found.go_on(), "no other one is open"


def test_an_exercise_that_is_saved_becomes_the_current_one(tmp_path):
    path = write(tmp_path / "a.ipynb", two())
    found = watched(path)
    assert found.look()
    assert not found.look(), "nothing happened"
    write(path, two() + " ")
    assert not found.look(), "saved, but the same"
    write(path, two(second=OTHER_STUB))
    assert found.look()
    assert found.current.cell.task == SECOND
    write(path, two(OTHER_STUB, STUB))
    assert found.look()
    assert found.current.cell.task == SECOND, "both were saved: one stays with the current one"


def test_a_file_that_is_gone_or_half_written_keeps_its_exercises_until_it_can_be_read(tmp_path):
    path = write(tmp_path / "a.ipynb", two())
    said = []
    found = watched(path, complain=said.append)
    found.look()
    path.unlink()
    assert not found.look()
    write(path, '{"half')
    assert not found.look()
    assert said == ["a.ipynb is not a notebook (no JSON)."]
    assert found.current.cell.task == TASK
    write(path, two(OTHER_STUB))
    assert found.look()
    assert found.current.cell.source.strip() == OTHER_STUB.strip()


def test_cells_that_come_and_go_do_not_make_another_one_current(tmp_path):
    path = write(tmp_path / "a.ipynb", two())
    found = watched(path)
    found.look()
    found.go_on()
    write(path, notebook(task_cell(STUB, SECOND)))
    assert not found.look()
    assert (found.current.cell.task, found.current.place) == (SECOND, "a.ipynb, cell 1")
    write(path, notebook(task_cell(STUB)))
    assert found.look(), "the current one is gone"
    assert found.current.cell.task == TASK


def test_the_script_that_a_cell_means_is_watched_and_named(tmp_path):
    script = write(tmp_path / "first_ranks/train.py", "print(1)\n")
    path = write(tmp_path / "00.ipynb", notebook(task_cell("# the script beside this notebook", SCRIPT)))
    found = watched(path)
    assert found.look()
    assert found.current.place == "first_ranks/train.py"
    assert not found.look()
    write(script, "print(22)\n")
    assert found.look()
    assert found.current.cell.source == "print(22)\n"


@pytest.mark.parametrize("how", ["another size", "another file"])
def test_a_change_within_one_tick_of_the_clock_is_seen(tmp_path, how):
    path = write(tmp_path / "a.ipynb", notebook(task_cell(STUB)))
    new = notebook(task_cell(STUB + "# more\n" if how == "another size" else STUB.replace("YOUR", "MORE")))
    found = watched(path)
    found.look()
    before = path.stat()
    if how == "another size":
        path.write_text(new)
    else:
        write(tmp_path / "a.tmp", new).replace(path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_mtime_ns == before.st_mtime_ns
    assert found.look()


def test_hints_are_counted_and_attempts_only_where_that_is_wanted(tmp_path):
    path = write(tmp_path / "a.ipynb", notebook(task_cell("def f(:")))
    for record in (False, True):
        found = watched(path, record=record)
        found.look()
        assert found.grade().kind is VerdictKind.ERROR
        assert Progress().of(TASK).attempts == record
    assert found.hint().title.startswith("Hint 1 of ")
    assert Progress().of(TASK).hints == 1
