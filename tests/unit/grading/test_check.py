"""`ddp-course check` and `progress`: words, exit codes, and what is checked again. Only stubs: no ranks here."""

import io
import json
import re
import sqlite3
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from course_lib.cli.app import application
from course_lib.grading.check import CheckError, files_of
from course_lib.grading.progress import FILE_NAME, Progress
from course_lib.grading.terminal import shown
from course_lib.grading.verdict import CheckResult, CheckState, Verdict, VerdictKind
from course_lib.learner.course import given_files
from course_lib.tasks import all_tasks, find_task
from tests.support.submissions import STUB, TASK, notebook, task_cell, write

CHECKOUT = Path(__file__).parents[3]
BROKEN = "def f(:\n"


@pytest.fixture(autouse=True)
def _home(tmp_path, monkeypatch):
    monkeypatch.setenv("DDP_COURSE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


def ddp_course(*words, **options):
    return CliRunner().invoke(application(), list(map(str, words)), **options)


def test_nothing_to_check_is_usage(tmp_path):
    for path, said in (
        (tmp_path / "nowhere.ipynb", "no file"),
        (tmp_path, "no notebook"),
        (write(tmp_path / "a.txt", ""), "neither"),
    ):
        done = ddp_course("check", path)
        assert done.exit_code == 2
        assert said in done.stderr


def test_the_exercises_are_checked_when_nothing_is_named(tmp_path):
    (tmp_path / "course_lib").mkdir()
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "notebooks").mkdir()
    write(tmp_path / "exercises" / "03.ipynb", notebook(task_cell(STUB)))
    done = ddp_course("check")
    assert done.exit_code == 1, "not attempted is not passed"
    assert f"{TASK}: not attempted  (exercises/03.ipynb, cell 1)" in done.stdout


def test_a_new_copy_names_no_fault_of_the_scripts_that_are_to_be_repaired(tmp_path):
    for name, content in given_files(CHECKOUT).items():
        if name.startswith("exercises/") and any(
            word in name for word in ("first_ranks", "script", "capstone")
        ):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_bytes(content)
    given = ("capstone/train.py", "script/train.py")
    done = ddp_course("check", tmp_path / "exercises", *(tmp_path / "exercises" / path for path in given))
    assert done.exit_code == 1
    assert done.stdout.count(": not attempted  (") == 4
    scripts = [task for task in all_tasks() if task.script]
    for task in scripts:
        assert f"{task.script} is as it was handed out." in done.stdout
        sentences = [item.sentence for item in (*task.misconceptions, *task.checks)]
        assert not any(sentence in done.stdout for sentence in sentences)
    assert all(Progress().of(task.name).attempts == 0 for task in scripts)


def test_what_is_wrong_with_an_answer_is_said_with_its_line(tmp_path):
    path = write(tmp_path / "mine.py", f"import os\n\n# %%task {TASK}\n{BROKEN}")
    done = ddp_course("check", path)
    assert done.exit_code == 1
    assert f"{TASK}: error  (mine.py, line 3)" in done.stdout
    assert "your answer, line 4" in done.stdout
    assert "def f(:" in done.stdout


def test_attempts_are_remembered_unless_they_are_not_to_be(tmp_path):
    path = write(tmp_path / "a.ipynb", notebook(task_cell(BROKEN)))
    ddp_course("check", path, "--no-record")
    assert Progress().of(TASK).attempts == 0
    ddp_course("check", path)
    assert Progress().of(TASK).attempts == 1


def test_files_are_those_of_a_folder_or_themselves(tmp_path):
    a = write(tmp_path / "f" / "a.ipynb", "")
    b = write(tmp_path / "b.py", "")
    write(tmp_path / "f" / "c.txt", "")
    assert files_of([tmp_path / "f", b]) == [a, b]
    with pytest.raises(CheckError):
        files_of([tmp_path / "f" / "c.txt"])


def test_hints_come_one_by_one_and_count_as_in_a_notebook(tmp_path):
    hints = find_task(TASK).hints
    for number, hint in enumerate(hints, start=1):
        done = ddp_course("check", "--hint", TASK)
        assert f"Hint {number} of {len(hints)}" in done.stdout
        assert hint in done.stdout
    assert f"All {len(hints)} hints" in ddp_course("check", "--hint", TASK).stdout
    assert Progress().of(TASK).hints == len(hints)
    assert ddp_course("check", "--hint", "nowhere").exit_code == 2


def test_the_report_says_how_to_get_a_hint_in_a_terminal(tmp_path):
    done = ddp_course("check", write(tmp_path / "a.ipynb", notebook(task_cell(BROKEN))))
    assert f"ddp-course check --hint {TASK}" in done.stdout
    assert "%hint" not in done.stdout


def test_the_report_says_how_to_get_the_same_cases_in_a_script():
    check = CheckResult("It is right.", CheckState.FAILED, "rank 0 returned 3; it is 6")
    verdict = Verdict(
        TASK, VerdictKind.WRONG, "1 check does not hold.", (check,), details=("a line",), seed=5
    )
    screen = Console(record=True, width=200, file=io.StringIO())
    screen.print(shown(verdict, "a.py, line 3"))
    assert f"%%task {TASK} --seed 5 (in a script: # %%task {TASK} --seed 5)" in screen.export_text()


# -- progress -------------------------------------------------------------------------------------------------------


def some_progress():
    log = Progress()
    log.hint(TASK)
    log.attempt(TASK, "wrong", ("epoch_ignored",), 1.0)
    log.attempt(TASK, "pass", seconds=1.0)
    log.attempt("samplers.evaluate", "wrong")
    return log


def test_progress_shows_the_map_attempts_hints_and_time():
    some_progress()
    done = ddp_course("progress")
    assert done.exit_code == 0
    assert re.search(rf"✓ {TASK} +passed", done.stdout)
    assert re.search(rf"{TASK}: 2 attempts, 1 hint, passed after \d s", done.stdout)
    following = next(task.name for task in all_tasks() if task.name != TASK)
    assert f"Next: {following}" in done.stdout
    assert done.stdout == ddp_course("progress", "show").stdout


def test_progress_of_one_lesson():
    some_progress()
    done = ddp_course("progress", "03")
    assert f"{TASK}: 2 attempts" in done.stdout
    assert "1 of 5 tasks passed" in done.stdout
    assert ddp_course("progress", "99").exit_code == 2
    assert "No such command 'sho'" in ddp_course("progress", "sho").output


def test_progress_is_carried_to_another_machine(tmp_path, monkeypatch):
    before = some_progress()
    monkeypatch.setenv("JUPYTERHUB_USER", "ada")
    assert ddp_course("progress", "export", "mine.json").exit_code == 0
    assert json.loads(Path("mine.json").read_text(encoding="utf-8"))["learner"] == "ada"
    monkeypatch.setenv("DDP_COURSE_HOME", str(tmp_path / "other"))
    Progress().hint("samplers.evaluate")
    assert "4 new events added" in ddp_course("progress", "import", "mine.json").stdout
    assert "0 new events added" in ddp_course("progress", "import", "mine.json").stdout
    there = Progress()
    assert there.of(TASK) == before.of(TASK)
    assert there.of(TASK).began_at == before.of(TASK).began_at
    assert there.of("samplers.evaluate").hints == 1


def test_an_export_writes_over_earlier_exports_only(tmp_path):
    some_progress()
    mine = tmp_path / "my_exercise.ipynb"
    mine.write_text('{"cells": []}', encoding="utf-8")
    done = ddp_course("progress", "export", str(mine))
    assert done.exit_code == 2
    assert "was not written by this command" in done.output
    assert mine.read_text(encoding="utf-8") == '{"cells": []}'
    assert ddp_course("progress", "export", "--force", str(mine)).exit_code == 0
    assert ddp_course("progress", "export", str(mine)).exit_code == 0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda text: text[:-20], "not JSON"),
        (lambda _: "[]", "no exported progress"),
        (lambda text: text.replace('progress": 1', 'progress": 2'), "another version"),
        (lambda text: text.replace('"wrong"', "3"), "event 2 is none"),
        (lambda text: text.replace('"kind": "hint"', '"kind": "other"'), "event 1 is none"),
        (lambda text: text.replace("+00:00", ""), "event 1 is none"),
        (lambda text: text.replace('"seconds": 1.0', '"seconds": NaN'), "event 2 is none"),
    ],
)
def test_a_damaged_export_changes_nothing(tmp_path, monkeypatch, change, said):
    some_progress()
    ddp_course("progress", "export", "mine.json")
    path = tmp_path / "mine.json"
    path.write_text(change(path.read_text()))
    monkeypatch.setenv("DDP_COURSE_HOME", str(tmp_path / "other"))
    done = ddp_course("progress", "import", "mine.json")
    assert done.exit_code == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert Progress().all() == {}


def test_what_cannot_be_read_or_written_is_one_clear_line(tmp_path):
    for words in (("import", "nowhere.json"), ("export", "no/folder/mine.json")):
        done = ddp_course("progress", *words)
        assert done.exit_code == 2
        assert "No such file" in done.stderr


def test_beginning_anew_keeps_the_old_progress_beside_it(tmp_path):
    some_progress()
    assert ddp_course("progress", "reset", input="n\n").exit_code == 1
    assert Progress().of(TASK).passed
    done = ddp_course("progress", "reset", "--yes")
    assert done.exit_code == 0
    assert "progress.old-1.sqlite" in done.stderr
    assert Progress().all() == {}
    (tmp_path / "home" / "progress.old-1.sqlite").rename(tmp_path / "home" / FILE_NAME)
    assert Progress().of(TASK).passed
    assert "no progress" not in ddp_course("progress", "reset", "--yes").stdout
    assert "There was no progress" in ddp_course("progress", "reset", "--yes").stdout


def test_damage_further_inside_is_found_and_put_aside(tmp_path):
    log = some_progress()
    for _ in range(300):
        log.hint("samplers.evaluate")
    with sqlite3.connect(log.path) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    content = bytearray(log.path.read_bytes())
    page = int.from_bytes(content[16:18], "big")
    assert len(content) > 4 * page
    content[3 * page : 4 * page] = b"\xff" * page
    log.path.write_bytes(content)
    done = ddp_course("progress")
    assert done.exit_code == 0
    assert "damaged" in done.stderr
    assert "progress.damaged-1.sqlite" in done.stderr
    assert json.dumps(str(log.path.parent)) not in done.stdout


def test_nothing_is_imported_where_nothing_can_be_kept(tmp_path, monkeypatch):
    some_progress()
    ddp_course("progress", "export", "mine.json")
    monkeypatch.setenv("DDP_COURSE_HOME", str(write(tmp_path / "a file", "") / "inside"))
    done = ddp_course("progress", "import", "mine.json")
    assert done.exit_code == 2
    assert "Nothing was imported." in done.stderr
    assert "added" not in done.stdout
