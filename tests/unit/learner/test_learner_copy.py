"""A learner's copy of the course: made, brought up to date and put back, and nothing of the learner's is ever lost."""

import errno
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from itertools import count
from pathlib import Path

import pytest

from course_lib.grading.progress import Progress
from course_lib.learner.course import CourseError, given_files, paths_meant
from course_lib.learner.ledger import copy_around, ledger_file, read_ledger
from course_lib.learner.news import news
from course_lib.learner.place import learner_folder
from course_lib.learner.plan import Act
from course_lib.learner.update import CopyError, put_back, update
from course_lib.learner.written import writing
from course_lib.notebook.course_map import lessons, text_map
from course_lib.tasks import all_tasks
from tests.support.courses import (
    NOBODY,
    as_somebody_else,
    at_change,
    course,
    edit,
    everything,
    in_child,
    killed,
    notebook,
    run_cells,
    sources,
    write,
)

ROOT = Path(__file__).resolve().parents[3]
LESSON, EXERCISE, SCRIPT = (
    "notebooks/03_samplers.ipynb",
    "exercises/03_samplers.ipynb",
    "exercises/capstone/train.py",
)
NEW = "notebooks/03_samplers.new.ipynb"


@pytest.fixture
def tmp_path():
    """In memory, where the system has such a folder: an update waits for the disk after each file."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        yield Path(folder)


@pytest.fixture
def given(tmp_path) -> Path:
    return course(tmp_path / "course")


@pytest.fixture
def copy(given, tmp_path) -> Path:
    update(tmp_path / "copy", given)
    return tmp_path / "copy"


def newer(given: Path, version: int = 2, *lessons: str) -> Path:
    return course(given, version, lessons or ("03_samplers",))


def kept(copy: Path) -> list[str]:
    return [path for path in everything(copy) if path.startswith("kept/")]


# A new copy.


def test_a_new_copy_holds_the_course_without_outputs(given, tmp_path):
    done = update(tmp_path / "copy", given)
    assert done.new
    assert {change.path for change in done.changes} == {
        *("notebooks/index.ipynb", LESSON, EXERCISE, SCRIPT, "docs/claims.md")
    }
    lesson = json.loads((tmp_path / "copy" / LESSON).read_text(encoding="utf-8"))
    code = lesson["cells"][1]
    assert (code["outputs"], code["execution_count"]) == ([], None)
    assert code["metadata"] == {"tags": ["hide-input"]}, "a claim's verdict is an answer, too"
    assert sources(tmp_path / "copy" / LESSON) == sources(given / LESSON)


def test_the_copy_can_be_written_where_the_course_cannot(given, tmp_path):
    for path in given.rglob("*"):
        path.chmod(0o555 if path.is_dir() else 0o444)
    update(tmp_path / "copy", given)
    assert all(path.stat().st_mode & 0o200 for path in (tmp_path / "copy").rglob("*"))


def test_an_update_without_news_changes_nothing(given, copy):
    run_cells(copy / LESSON)
    edit(copy / EXERCISE)
    before = everything(copy)
    done = update(copy, given)
    assert (done.new, done.changes, done.left) == (False, (), ())
    assert everything(copy) == before


# What counts as changed.


def test_running_a_notebook_is_not_changing_it_and_a_word_is(copy):
    before = writing(LESSON, (copy / LESSON).read_bytes())
    run_cells(copy / LESSON)
    after = writing(LESSON, (copy / LESSON).read_bytes())
    assert (before.digest, before.ran, after.ran) == (after.digest, False, True)
    edit(copy / LESSON)
    assert writing(LESSON, (copy / LESSON).read_bytes()).digest != before.digest


@pytest.mark.parametrize("content", ["", "{", "[]", '{"cells": 3}', '{"cells": [{}]}', "\ufeff{}", "null"])
def test_what_is_no_notebook_is_somebody_s_writing(given, copy, content):
    (copy / LESSON).write_text(content, encoding="utf-8")
    update(copy, newer(given))
    assert (copy / LESSON).read_text(encoding="utf-8") == content
    assert sources(copy / NEW)[1] == "print(2)"


# Later versions.


def test_what_was_not_changed_is_replaced_and_outputs_are_kept(given, copy):
    run_cells(copy / LESSON)
    done = update(copy, newer(given))
    assert sources(copy / LESSON)[1] == "print(2)"
    assert sources(copy / EXERCISE)[1] == "print(2)"
    assert (copy / SCRIPT).read_text() == "print(2)\n"
    (old,) = kept(copy)
    assert old.startswith("kept/notebooks/03_samplers.2")
    assert "42 from my run" in (copy / old).read_text()
    assert {change.act for change in done.changes} == {Act.REPLACE}
    assert [change.kept for change in done.changes if change.kept] == [old]


def test_what_was_changed_stays_and_the_new_version_lies_beside_it(given, copy):
    for path in (LESSON, SCRIPT):
        edit(copy / path)
    before = everything(copy)
    update(copy, newer(given))
    after = everything(copy)
    assert (after[LESSON], after[SCRIPT]) == (before[LESSON], before[SCRIPT])
    assert sources(copy / NEW)[1] == "print(2)"
    assert after["exercises/capstone/train.new.py"] == b"print(2)\n"
    assert news(copy) == {LESSON: NEW, SCRIPT: "exercises/capstone/train.new.py"}
    assert update(copy, given).changes == ()


def test_a_still_newer_version_takes_the_place_beside(given, copy):
    edit(copy / LESSON)
    update(copy, newer(given))
    update(copy, newer(given, 3))
    assert sources(copy / NEW)[1] == "print(3)"
    assert not kept(copy)


def test_a_new_version_in_which_the_learner_has_begun_to_work_is_theirs(given, copy):
    edit(copy / LESSON)
    update(copy, newer(given))
    edit(copy / NEW, "my second remark")
    update(copy, newer(given, 3))
    assert "my second remark" in sources(copy / NEW)
    assert sources(copy / "notebooks/03_samplers.new-2.ipynb")[1] == "print(3)"


def test_a_new_version_that_was_put_away_does_not_come_back_until_there_is_a_newer_one(given, copy):
    edit(copy / LESSON)
    update(copy, newer(given))
    (copy / NEW).unlink()
    assert update(copy, given).changes == ()
    assert not (copy / NEW).exists()
    update(copy, newer(given, 3))
    assert sources(copy / NEW)[1] == "print(3)"


def test_who_takes_over_the_new_version_has_no_second_one(given, copy):
    edit(copy / LESSON)
    update(copy, newer(given))
    shutil.copy(copy / NEW, copy / LESSON)
    update(copy, given)
    assert not (copy / NEW).exists()
    update(copy, newer(given, 3))
    assert sources(copy / LESSON)[1] == "print(3)"


def test_a_notebook_that_the_learner_has_renamed_stays_and_the_lesson_comes_again(given, copy):
    edit(copy / LESSON)
    (copy / LESSON).rename(copy / "notebooks/my samplers.ipynb")
    mine = (copy / "notebooks/my samplers.ipynb").read_bytes()
    update(copy, newer(given))
    assert (copy / "notebooks/my samplers.ipynb").read_bytes() == mine
    assert sources(copy / LESSON)[1] == "print(2)"


def test_a_lesson_that_the_course_has_renamed_goes_unless_it_was_changed(given, copy):
    edit(copy / EXERCISE)
    mine = (copy / EXERCISE).read_bytes()
    done = update(copy, newer(given, 2, "03_dealing_out"))
    assert not (copy / LESSON).exists()
    assert (copy / EXERCISE).read_bytes() == mine
    assert done.left == (EXERCISE,)
    assert (copy / "notebooks/03_dealing_out.ipynb").is_file()
    assert update(copy, given).left == (), "said once"


def test_a_renamed_lesson_with_outputs_is_kept(given, copy):
    run_cells(copy / LESSON)
    update(copy, newer(given, 2, "03_dealing_out"))
    assert "42 from my run" in (copy / kept(copy)[0]).read_text()


@pytest.mark.parametrize("kind", ["file", "link", "folder"])
def test_what_the_learner_has_where_a_new_lesson_comes_stays(given, copy, tmp_path, kind):
    place, mine = copy / "notebooks/04_buckets.ipynb", tmp_path / "mine.ipynb"
    write(mine, notebook("# mine"))
    if kind == "file":
        shutil.copy(mine, place)
    elif kind == "link":
        place.symlink_to(mine)
    else:
        shutil.copytree(mine.parent / "course" / "docs", place)
    update(copy, newer(given, 2, "04_buckets"))
    if kind == "folder":
        assert (place / "claims.md").is_file()
    else:
        assert (place.is_symlink(), sources(place)) == (kind == "link", ["# mine"])
    assert sources(copy / "notebooks/04_buckets.new.ipynb")[1] == "print(2)"


@pytest.mark.parametrize(
    "damage", ["deleted", "{", '{"format": 2, "files": {}}', '{"format": 1, "files": {"a": 3}}']
)
def test_without_its_ledger_an_update_takes_everything_for_the_learner_s(given, copy, damage):
    run_cells(copy / LESSON)
    ledger_file(copy).unlink()
    if damage != "deleted":
        ledger_file(copy).write_text(damage, encoding="utf-8")
    before = everything(copy)
    update(copy, newer(given))
    after = everything(copy)
    assert {path: after[path] for path in before if path.endswith((".ipynb", ".py"))} == {
        path: content for path, content in before.items() if path.endswith((".ipynb", ".py"))
    }
    assert sources(copy / NEW)[1] == "print(2)"


def test_half_a_course_takes_nothing_away(given, copy):
    before = everything(copy)
    (given / "notebooks/index.ipynb").unlink()
    with pytest.raises(CourseError, match="not complete"):
        update(copy, given)
    write(given / "notebooks/index.ipynb", "<<<<<<< HEAD")
    with pytest.raises(CourseError, match=r"index\.ipynb of the course cannot be read"):
        update(copy, given)
    assert everything(copy) == before


def test_the_course_itself_is_never_taken_for_a_copy(given):
    for folder in (given, course(given.parent / "another checkout")):
        before = everything(folder)
        with pytest.raises(CopyError, match="checkout of the course itself"):
            update(folder, given)
        assert everything(folder) == before


def test_a_notebook_that_is_saved_during_an_update_is_not_replaced(given, copy, monkeypatch):
    """The learner has JupyterLab open, which saves at the worst moment: after the update has looked."""
    from course_lib.learner import update as module

    def saving_meanwhile(copy, plan, ledger):
        edit(copy / LESSON, "saved at the last moment")
        return carry_out(copy, plan, ledger)

    carry_out = module._carry_out
    newer(given)
    monkeypatch.setattr(module, "_carry_out", saving_meanwhile)
    update(copy, given)
    assert "saved at the last moment" in sources(copy / LESSON)
    monkeypatch.undo()
    update(copy, given)
    assert "saved at the last moment" in sources(copy / LESSON)
    assert sources(copy / NEW)[1] == "print(2)"


# An update that does not get to its end.


def lessons_of_all_kinds(folder: Path) -> tuple[Path, Path]:
    """A course that has a new version of everything, and a copy in which a learner has done all that one can do."""
    first = ("01_ran", "02_changed", "03_renamed", "05_gone_ran", "06_gone_changed")  # exercises: not touched
    given, copy = course(folder / "course", 1, first), folder / "copy"
    update(copy, given)
    for name in ("01_ran", "05_gone_ran"):
        run_cells(copy / f"notebooks/{name}.ipynb", f"42 from {name}")
    for name in ("02_changed", "06_gone_changed"):
        edit(copy / f"notebooks/{name}.ipynb", f"my remark on {name}")
    edit(copy / SCRIPT, "my remark on the script")
    edit(copy / "notebooks/03_renamed.ipynb", "my remark on what I renamed")
    (copy / "notebooks/03_renamed.ipynb").rename(copy / "notebooks/mine.ipynb")
    course(given, 2, ("01_ran", "02_changed", "03_renamed", "07_new"))
    return given, copy


#: Words of the learner's, and outputs of their runs: where each is, or has to be kept.
TREASURES = (
    *(f"42 from {name}" for name in ("01_ran", "05_gone_ran")),
    *(f"my remark on {name}" for name in ("02_changed", "06_gone_changed", "the script", "what I renamed")),
)


def losses(copy: Path) -> list[str]:
    texts = [
        path.read_text(encoding="utf-8")
        for path in copy.rglob("*")
        if path.is_file() and not path.name.startswith(".")
    ]
    return [treasure for treasure in TREASURES if not any(treasure in text for text in texts)]


def damaged(copy: Path) -> list[str]:
    bad = []
    for path in copy.rglob("*.ipynb"):
        try:
            json.loads(path.read_text(encoding="utf-8"))
        except ValueError:
            bad.append(path.name)
    return bad


def settled(copy: Path) -> dict[str, bytes]:
    """The copy without what is kept: of that, there may be one more after an interruption."""
    return {path: text for path, text in everything(copy).items() if not path.startswith("kept/")}


HAPPENED: list[bool] = []


def no_space() -> None:
    HAPPENED.append(True)
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("deed", [killed, no_space], ids=["killed", "the disk is full"])
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_an_update_interrupted_at_any_step_loses_nothing_and_the_next_one_completes_it(tmp_path, deed):
    given, before = lessons_of_all_kinds(tmp_path)
    copy = tmp_path / "at work"
    shutil.copytree(before, copy)
    update(copy, given)
    wanted = settled(copy)
    interrupted = 0
    for number in count(1):
        shutil.rmtree(copy)
        shutil.copytree(before, copy)
        # What cannot be tidied up is no error: then the child says so itself.
        ended = in_child(
            lambda: (update(copy, given), HAPPENED and os._exit(4)), at_change(number, copy, deed)
        )
        if ended == 0:
            break
        assert (losses(copy), damaged(copy)) == ([], []), f"interrupted before change {number}"
        interrupted += 1
        update(copy, given)
        assert settled(copy) == wanted, f"interrupted before change {number}"
        assert losses(copy) == []
    assert interrupted > 30, "every file that is written, moved or removed is a step"


@pytest.mark.parametrize("most", [0, 100, 700, 4_000])
@pytest.mark.parametrize("way", ["error", "killed"])
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_write_that_ends_in_the_middle_of_a_file_loses_nothing(tmp_path, most, way):
    """The system itself cuts the file off: with an error, as when a disk is full, or with a signal that kills."""

    def limited() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL if way == "killed" else signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))

    given, copy = lessons_of_all_kinds(tmp_path)
    write(given / "notebooks/08_large.ipynb", notebook("# Large", *("x" * 100 for _ in range(100))))
    ended = in_child(lambda: update(copy, given), limited)
    assert ended == (-signal.SIGXFSZ if way == "killed" else 3)
    assert (losses(copy), damaged(copy)) == ([], [])
    update(copy, given)
    assert (losses(copy), damaged(copy)) == ([], [])
    assert not [path for path in everything(copy) if path.endswith("-part")]


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_first_start_interrupted_at_any_step_is_completed_by_the_next_one(given, tmp_path):
    copy = tmp_path / "copy"
    update(copy, given)
    wanted = everything(copy)
    for number in count(1):
        shutil.rmtree(copy)
        if in_child(lambda: update(copy, given), at_change(number, copy, killed)) == 0:
            break
        update(copy, given)
        assert everything(copy) == wanted
    assert number > 10


def test_two_updates_at_once_take_turns(given, tmp_path):
    command = "import sys; from pathlib import Path; from course_lib.learner.update import update\n"
    command += "print(update(Path(sys.argv[1]), Path(sys.argv[2])).new)"
    both = [
        subprocess.Popen(
            [sys.executable, "-c", command, tmp_path / "copy", given],
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    assert sorted(each.communicate(timeout=60)[0] for each in both) == ["False\n", "True\n"]


# Where the copy is; folders that cannot be written; several learners.


@pytest.fixture
def open_folder():
    """A folder that every user of the machine can look into."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def test_the_copy_is_in_the_checkout_at_home_or_where_the_variable_says(given, tmp_path, monkeypatch):
    home = tmp_path / "home"
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("DDP_COURSE_LEARNER", raising=False)
    assert learner_folder(given) == given / "learner"
    installed = tmp_path / "site-packages/course_lib/course"
    (installed / "notebooks").mkdir(parents=True)
    assert learner_folder(installed) == home / "ddp-course"
    course(home / "ddp-course")  # the place where people clone the course to
    assert learner_folder(installed) == home / "ddp-course/learner"
    monkeypatch.setenv("DDP_COURSE_LEARNER", "~/work")
    assert learner_folder(given) == home / "work"


@pytest.mark.parametrize("kind", ["read-only", "somebody else's, open to all"])
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_course_that_is_not_the_learner_s_to_write_in_has_their_copy_at_home(open_folder, kind):
    if os.geteuid() != 0 and kind != "read-only":
        pytest.skip("needs root, to be two users")
    given, home = course(open_folder / "course"), open_folder / "home"
    home.mkdir()
    for path in (given, *given.rglob("*")):
        path.chmod((0o555 if path.is_dir() else 0o444) if kind == "read-only" else 0o777)
    if os.geteuid() == 0:
        os.chown(home, NOBODY, NOBODY)
    before = everything(given)

    def make() -> None:
        os.environ |= {"HOME": str(home)}
        os.environ.pop("DDP_COURSE_LEARNER", None)
        as_somebody_else()
        update(learner_folder(given), given)
        run_cells(learner_folder(given) / LESSON)

    try:
        assert in_child(make) == 0
    finally:
        for path in (given, *given.rglob("*")):
            path.chmod(0o755)
    assert "42 from my run" in (home / "ddp-course" / LESSON).read_text()
    assert everything(given) == before


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_copy_that_cannot_be_written_stays_as_it_is_and_says_so(open_folder):
    given, copy = course(open_folder / "course"), open_folder / "copy"
    update(copy, given)
    course(given, 2)
    before = everything(copy)
    for path in (copy, *copy.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)

    def refused() -> None:
        as_somebody_else()
        with pytest.raises(CopyError, match=r"copy cannot be written \(Permission denied\)"):
            update(copy, given)

    try:
        assert in_child(refused) == 0
    finally:
        for path in (copy, *copy.rglob("*")):
            path.chmod(0o755)
    assert everything(copy) == before


# One lesson put back.


def test_a_lesson_is_put_back_and_the_old_one_is_kept(given, copy):
    edit(copy / LESSON)
    update(copy, newer(given))
    (change,) = put_back(copy, given, [LESSON])
    assert sources(copy / LESSON)[1] == "print(2)"
    assert "my own remark" in (copy / change.kept).read_text()
    assert not (copy / NEW).exists(), "it is in its place now"
    assert news(copy) == {}
    assert put_back(copy, given, [LESSON]) == ()
    run_cells(copy / LESSON)
    (change,) = put_back(copy, given, [LESSON])
    assert "42 from my run" in (copy / change.kept).read_text()
    assert len(kept(copy)) == 2
    update(copy, newer(given, 3))
    assert sources(copy / LESSON)[1] == "print(3)"


@pytest.mark.parametrize("kind", ["missing", "link", "folder"])
def test_whatever_is_in_a_lesson_s_place_is_kept_when_it_is_put_back(given, copy, tmp_path, kind):
    place = copy / LESSON
    place.unlink()
    if kind == "link":
        write(tmp_path / "mine.ipynb", notebook("# mine"))
        place.symlink_to(tmp_path / "mine.ipynb")
    elif kind == "folder":
        write(place / "mine.txt", "mine")
    (change,) = put_back(copy, given, [LESSON])
    assert sources(place)[1] == "print(1)"
    if kind == "link":
        assert (copy / change.kept).resolve() == tmp_path / "mine.ipynb"
    if kind == "folder":
        assert (copy / change.kept / "mine.txt").read_text() == "mine"


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_putting_back_interrupted_at_any_step_loses_nothing(given, copy, tmp_path):
    edit(copy / LESSON)
    at_work = tmp_path / "at work"
    for number in count(1):
        shutil.rmtree(at_work, ignore_errors=True)
        shutil.copytree(copy, at_work)
        if in_child(lambda: put_back(at_work, given, [LESSON]), at_change(number, at_work, killed)) == 0:
            break
        texts = b"".join(everything(at_work).values())
        assert b"my own remark" in texts
        put_back(at_work, given, [LESSON])
        assert sources(at_work / LESSON)[1] == "print(1)"
        assert b"my own remark" in b"".join(everything(at_work).values())
    assert number > 4


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("06", ["notebooks/06_alternation.ipynb"]),
        ("6", ["notebooks/06_alternation.ipynb"]),
        ("06_alternation", ["notebooks/06_alternation.ipynb"]),
        ("notebooks/06_alternation.ipynb", ["notebooks/06_alternation.ipynb"]),
        ("exercises/06", ["exercises/06_alternation.ipynb"]),
        ("./exercises/06_alternation", ["exercises/06_alternation.ipynb"]),
        ("exercises/capstone/train.py", ["exercises/capstone/train.py"]),
        ("index", ["notebooks/index.ipynb"]),
        ("66", []),
        ("alternation", []),
        ("train.py", []),
        ("", []),
    ],
)
def test_what_a_name_means(name, meant):
    assert paths_meant(name, given_files(ROOT)) == meant


# Around the copy.


def test_progress_survives_updates_and_lessons_that_are_put_back(given, copy, tmp_path):
    log = Progress(tmp_path / "data")
    log.attempt("samplers.shard_indices", "pass")
    edit(copy / EXERCISE)
    update(copy, newer(given))
    put_back(copy, given, [EXERCISE])
    shutil.rmtree(copy)
    update(copy, given)
    assert Progress(tmp_path / "data").of("samplers.shard_indices").passed


@pytest.mark.parametrize("number", ["16", "17"])
def test_a_lesson_that_gets_another_number_takes_along_what_was_done_in_it(tmp_path, number):
    """The capstone was lesson 16, then 17."""
    (task,) = (task for task in all_tasks() if task.name == "capstone.train")
    old, new = (course(tmp_path / name, 1, (name,)) for name in (f"{number}_capstone", task.lesson))
    log, copy = Progress(tmp_path / "data"), tmp_path / "copy"
    update(copy, old)
    edit(copy / f"exercises/{old.name}.ipynb")
    (copy / SCRIPT).write_text("print('mine')")
    log.hint(task.name)
    log.attempt(task.name, "pass")
    update(copy, new)
    assert (copy / SCRIPT).read_text() == "print('mine')"
    assert (copy / f"exercises/{old.name}.ipynb").is_file(), "the learner's own notes"
    assert (copy / f"exercises/{new.name}.ipynb").is_file()
    progress = Progress(tmp_path / "data").all()
    assert progress[task.name].passed
    (lesson,) = (lesson for lesson in lessons(new / "notebooks") if lesson.stem == task.lesson)
    assert f"✓ {task.name}" in " ".join(text_map((lesson,), progress).split())


def test_a_folder_knows_the_copy_it_is_in(copy, tmp_path):
    assert copy_around(copy / "notebooks") == copy
    assert copy_around(tmp_path) is None


def test_the_ledger_remembers_what_was_given(copy):
    entry = read_ledger(copy)[LESSON]
    assert entry.given == (entry.has,) == (writing(LESSON, (copy / LESSON).read_bytes()).digest,)
