"""Progress: what is remembered, and that nothing that is wrong with the file stops anybody from learning."""

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from course_lib.grading.progress import FILE_NAME, Progress, TaskProgress
from course_lib.grading.progress_files import export_progress, import_progress
from course_lib.notebook.course_map import lessons, next_task, text_map
from course_lib.tasks import UnknownTaskError, all_tasks, find_task
from realranks.own_files import data_folder

ROOT = Path(__file__).resolve().parents[3]
TASK = "samplers.evaluate"


@pytest.fixture
def progress(tmp_path):
    return Progress(tmp_path / "new" / "folder")


def test_nothing_is_known_at_first(progress):
    assert progress.all() == {}
    assert progress.of(TASK) == TaskProgress()
    assert progress.take_notices() == []


def test_attempts_hints_and_the_first_pass_are_remembered(progress):
    progress.attempt(TASK, "wrong", ("padding_counted",), 0.5)
    progress.hint(TASK)
    progress.hint(TASK)
    assert not progress.of(TASK).passed
    progress.attempt(TASK, "pass")
    first = progress.of(TASK).passed_at
    progress.attempt(TASK, "wrong")
    progress.attempt(TASK, "pass")

    again = Progress(progress.path.parent).of(TASK)
    assert again == TaskProgress(attempts=4, hints=2, passed_at=first, gave_up=False, named=0)
    assert first
    assert first.endswith("+00:00")


def test_of_the_script_that_grows_the_map_says_how_many_faults_the_last_report_named(progress):
    for named in (("local_rank", "uneven", "summed"), ("uneven", "summed")):
        progress.attempt("checkpoints.script", "wrong", named)
    said = text_map(lessons(), progress.all())
    assert "○ checkpoints.script" in said
    assert "2 faults seen" in said
    progress.attempt("checkpoints.script", "pass")
    assert "faults seen" not in text_map(lessons(), progress.all())


def test_of_a_prediction_the_first_time_counts_and_the_map_says_how_many_were_right(progress):
    for name, right in (("00.skips", False), ("00.skips", True), ("00.dies", True), ("13.culprit", True)):
        progress.prediction(name, right)
    assert progress.predictions() == {"00.skips": False, "00.dies": True, "13.culprit": True}
    assert progress.all() == {}
    said = text_map(lessons(None, progress.predictions()), progress.all())
    assert "tasks, 1 of 2 predictions right)" in said
    assert said.count("predictions") == 2
    assert "predictions" not in text_map(lessons(), progress.all())


def test_giving_up_is_remembered_per_task(progress):
    progress.give_up(TASK)
    assert progress.of(TASK).gave_up
    assert not progress.of("samplers.make_loader").gave_up


def test_the_map_begins_with_the_lesson_to_go_on_with(progress):
    assert text_map(lessons(), progress.all()).startswith("Start: lesson 00, Your first ranks")
    progress.attempt("samplers.evaluate", "wrong")
    assert text_map(lessons(), progress.all()).startswith("Go on: lesson 00, Your first ranks")
    for task in all_tasks():
        if task.lesson < "03":
            progress.attempt(task.name, "pass")
    assert text_map(lessons(), progress.all()).startswith("Go on: lesson 03, Samplers")
    for task in all_tasks():
        progress.attempt(task.name, "pass")
    assert text_map(lessons(), progress.all()).startswith("You have passed every task.")


def test_a_task_that_the_course_no_longer_has_is_kept_and_changes_nothing_else(progress, tmp_path):
    gone = "unused.train"
    progress.attempt(gone, "pass")
    (lesson,) = (each for each in lessons() if each.stem == "08_unused")
    assert gone not in text_map((lesson,), progress.all())
    assert next_task((lesson,), progress.all()) == lesson.tasks[0]
    export_progress(progress, tmp_path / "events.json")
    elsewhere = Progress(tmp_path / "elsewhere")
    assert import_progress(elsewhere, tmp_path / "events.json") == 1
    assert elsewhere.of(gone).passed
    with pytest.raises(UnknownTaskError, match=r"Tasks of that lesson: .*unused\.choose"):
        find_task(gone)


def test_a_task_that_has_moved_to_another_lesson_keeps_what_was_done_in_it(progress, tmp_path):
    old, new = "scale.bytes_held", "sharding.bytes_held"
    progress.hint(old)
    progress.attempt(old, "pass")
    progress.attempt(new, "wrong")
    export_progress(progress, tmp_path / "events.json")
    elsewhere = Progress(tmp_path / "elsewhere")
    import_progress(elsewhere, tmp_path / "events.json")
    for log in (progress, elsewhere):
        assert old not in log.all()
        assert (log.of(new).passed, log.of(new).attempts, log.of(new).hints) == (True, 2, 1)
    assert find_task(old) is find_task(new)
    (lesson,) = (each for each in lessons() if each.stem == find_task(new).lesson)
    assert f"✓ {new}" in " ".join(text_map((lesson,), progress.all()).split())


def test_many_kernels_write_at_once(tmp_path):
    write = (
        "from course_lib.grading.progress import Progress\n"
        "p = Progress()\n"
        "for _ in range(25): p.attempt('samplers.evaluate', 'wrong')\n"
        "assert not p.notices, p.notices"
    )
    environment = {**os.environ, "DDP_COURSE_HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    writers = [subprocess.Popen([sys.executable, "-c", write], env=environment) for _ in range(4)]
    assert [writer.wait(60) for writer in writers] == [0] * 4
    assert Progress(tmp_path).of(TASK).attempts == 100


@pytest.mark.parametrize(
    "content",
    [
        b"this is no database at all, but long enough to look like a file " * 40,
        b"SQLite format 3\0" + b"\xff" * 5000,
    ],
    ids=["text", "broken"],
)
def test_a_damaged_file_is_put_aside_and_kept(tmp_path, content):
    (tmp_path / FILE_NAME).write_bytes(content)
    progress = Progress(tmp_path)
    progress.attempt(TASK, "pass")
    assert progress.of(TASK).passed
    (notice,) = progress.take_notices()
    assert "damaged" in notice
    assert "progress.damaged-1.sqlite" in notice
    assert (tmp_path / "progress.damaged-1.sqlite").read_bytes() == content
    assert progress.take_notices() == [], "said once"
    assert Progress(tmp_path).of(TASK).passed, "the new file is used from then on"


def test_a_second_damaged_file_does_not_replace_the_first(tmp_path):
    for number in (1, 2):
        (tmp_path / FILE_NAME).write_bytes(b"x" * 4000)
        Progress(tmp_path).hint(TASK)
        assert (tmp_path / f"progress.damaged-{number}.sqlite").exists()


def test_a_file_of_a_newer_version_is_put_aside(tmp_path):
    with sqlite3.connect(tmp_path / FILE_NAME) as log:
        log.execute("PRAGMA user_version = 99")
        log.execute("CREATE TABLE events (everything_else)")
    log.close()
    progress = Progress(tmp_path)
    progress.hint(TASK)
    assert progress.of(TASK).hints == 1
    assert "newer version" in progress.take_notices()[0]
    assert (tmp_path / "progress.newer-1.sqlite").exists()


def test_a_database_of_another_program_is_put_aside(tmp_path):
    with sqlite3.connect(tmp_path / FILE_NAME) as log:
        log.execute("CREATE TABLE events (something)")
    log.close()
    progress = Progress(tmp_path)
    progress.hint(TASK)
    assert progress.of(TASK).hints == 1
    assert "damaged" in progress.take_notices()[0]


def test_where_nothing_can_be_written_the_kernel_remembers(tmp_path):
    (tmp_path / "a file").write_text("")
    progress = Progress(tmp_path / "a file" / "folder")
    progress.attempt(TASK, "pass")
    assert progress.of(TASK).passed
    (notice,) = progress.take_notices()
    assert "cannot be saved" in notice


def test_a_full_disk_is_not_fatal(tmp_path, monkeypatch):
    progress = Progress(tmp_path)
    progress.hint(TASK)
    connect = sqlite3.connect

    class Full(sqlite3.Connection):
        def execute(self, statement, *parameters):
            if statement.startswith("INSERT"):
                raise sqlite3.OperationalError("database or disk is full")
            return super().execute(statement, *parameters)

    monkeypatch.setattr(
        sqlite3,
        "connect",
        lambda path, **options: (
            connect(path, factory=Full, **options) if str(path) != ":memory:" else connect(path, **options)
        ),
    )
    progress.attempt(TASK, "pass")
    assert progress.of(TASK).passed
    assert "disk is full" in progress.take_notices()[0]


def test_a_locked_file_is_waited_for_and_then_done_without(tmp_path, monkeypatch):
    progress = Progress(tmp_path)
    progress.hint(TASK)
    monkeypatch.setattr("course_lib.grading.progress._BUSY_SECONDS", 0.1)
    other = sqlite3.connect(progress.path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    progress.attempt(TASK, "pass")
    other.execute("ROLLBACK")
    other.close()
    assert progress.of(TASK).passed
    assert "cannot be saved" in progress.take_notices()[0]


def test_the_folder_can_be_chosen(monkeypatch, tmp_path):
    monkeypatch.setenv("DDP_COURSE_HOME", str(tmp_path))
    assert data_folder() == tmp_path
    monkeypatch.delenv("DDP_COURSE_HOME")
    assert data_folder().name == "ddp-course"
