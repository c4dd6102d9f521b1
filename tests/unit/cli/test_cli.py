"""The words of ``ddp-course``: what they start, what they print and with which code they exit."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from course_lib.cli.app import COMMANDS, application, command_line
from course_lib.cli.check import exercises
from course_lib.cli.lab import lab_process, layouts_folder, up_to_date_copy
from course_lib.cli.root import course_root
from course_lib.learner.place import learner_folder
from course_lib.notebook.course_map import newer_versions
from tests.support.courses import course as small_course
from tests.support.courses import edit, run_cells
from tests.support.tiny_course import make, write

ROOT = Path(__file__).parents[3]
NEW = "exercises/03_samplers.new.ipynb"
SOURCE = "# %%\nprint(6 * 7)\n"


@pytest.fixture
def course(tmp_path, monkeypatch):
    (tmp_path / "pyproject.toml").touch()
    write(make(tmp_path), "notebooks/00_tiny", SOURCE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(autouse=True)
def _no_folders_of_who_runs_the_tests(tmp_path, monkeypatch):
    monkeypatch.delenv("DDP_COURSE_LEARNER", raising=False)
    monkeypatch.setenv("DDP_COURSE_HOME", str(tmp_path / "data"))


def ddp_course(*words: str):
    return CliRunner().invoke(application(), words)


def test_lab_opens_the_index_and_passes_its_arguments_on(course):
    command, environment = lab_process(course, ["--no-browser", "--port", "9000"])
    assert command[:3] == [sys.executable, "-m", "jupyterlab"]
    assert f"--ServerApp.root_dir={course}" in command
    assert "--LabApp.default_url=/lab/tree/notebooks/index.ipynb" in command
    assert f"--LabApp.workspaces_dir={layouts_folder()}" in command
    assert command[-3:] == ["--no-browser", "--port", "9000"]
    assert environment["PATH"].startswith(str(Path(sys.executable).parent))
    assert "DDP_COURSE_LEARNER" not in environment


def test_a_terminal_in_jupyterlab_finds_a_copy_that_was_named_relative_to_another_folder(course, monkeypatch):
    monkeypatch.setenv("DDP_COURSE_LEARNER", "mine")
    _, environment = lab_process(learner_folder(course), [])
    assert environment["DDP_COURSE_LEARNER"] == str(course / "mine")


def test_lab_starts_with_the_course_s_own_defaults(course, monkeypatch):
    monkeypatch.setenv("JUPYTER_CONFIG_PATH", "/somebody/elses")
    _, environment = lab_process(course, [])
    ours, others = environment["JUPYTER_CONFIG_PATH"].split(os.pathsep)
    assert (Path(ours) / "labconfig/default_setting_overrides.json").is_file()
    assert others == "/somebody/elses"


def test_the_first_layout_has_the_file_browser_closed_and_a_learner_s_own_stays():
    (layout,) = layouts_folder().iterdir()
    first = json.loads(layout.read_text(encoding="utf-8"))
    assert first["data"]["layout-restorer:data"]["left"]["collapsed"] is True
    layout.write_text("{}", encoding="utf-8")
    (layout,) = layouts_folder().iterdir()
    assert layout.read_text(encoding="utf-8") == "{}"


def test_where_no_layout_can_be_kept_jupyterlab_has_its_own(course, tmp_path):
    (tmp_path / "data").write_text("a file where the folder should be", encoding="utf-8")
    assert lab_process(course, [])


def test_lab_keeps_a_copy_for_the_learner_and_says_what_it_has_done(tmp_path, capsys):
    given = small_course(tmp_path / "course")
    assert up_to_date_copy(given) == given / "learner"
    assert (
        capsys.readouterr().err
        == f"Your copy of the course is in {given / 'learner'}. Change in it what you like.\n"
    )
    up_to_date_copy(given)
    assert capsys.readouterr().err == ""
    edit(given / "learner/notebooks/03_samplers.ipynb")
    run_cells(given / "learner/exercises/03_samplers.ipynb")
    small_course(given, 2, ("03_samplers", "04_buckets"))
    up_to_date_copy(given)
    said = capsys.readouterr().err
    assert "The course has changed; brought up to date: " in said
    assert "New in your copy: notebooks/04_buckets.ipynb, exercises/04_buckets.ipynb." in said
    assert "notebooks/03_samplers.ipynb: you have changed it, so it stays. The new version is " in said
    assert "Kept with their outputs: kept/exercises/03_samplers." in said


def test_a_hub_has_the_copy_made_and_opens_it_itself(tmp_path, monkeypatch):
    given = small_course(tmp_path / "course")
    monkeypatch.chdir(given)
    assert ddp_course("lab", "--only-copy").exit_code == 0
    assert (given / "learner/notebooks/index.ipynb").is_file()


def test_a_lesson_is_exported_from_the_copy_or_as_shipped_and_never_over_somebody_s_file(
    tmp_path, monkeypatch
):
    copy = tmp_path / "copy/notebooks/06_alternation.ipynb"
    copy.parent.mkdir(parents=True)
    text = (ROOT / "notebooks/06_alternation.ipynb").read_text(encoding="utf-8")
    copy.write_text(text.replace("share", "mine"), encoding="utf-8")
    monkeypatch.setenv("DDP_COURSE_LEARNER", str(tmp_path / "copy"))
    monkeypatch.chdir(ROOT)
    assert "\n    mine = (1.0, 3.0)" in ddp_course("export", "06", "-o", "-").output
    assert "\n    share = (1.0, 3.0)" in ddp_course("export", "06", "--shipped", "-o", "-").output
    target = tmp_path / "06.py"
    for _ in range(2):  # its own file may be written again
        assert ddp_course("export", "06_alternation", "-o", str(target)).exit_code == 0
    target.write_text("my own\n", encoding="utf-8")
    done = ddp_course("export", "06", "-o", str(target))
    assert done.exit_code == 1
    assert target.read_text(encoding="utf-8") == "my own\n"
    assert ddp_course("export", "06", "-o", str(target), "--force").exit_code == 0


def test_what_cannot_be_exported_is_refused_in_one_line(tmp_path):
    broken = tmp_path / "broken.ipynb"
    broken.write_text("{", encoding="utf-8")
    for name, why in (
        ("77", "There is no lesson '77'"),
        ("18", "has no cells on ranks"),
        (str(broken), "is no notebook that can be read"),
    ):
        done = ddp_course("export", name, "-o", str(tmp_path / "out.py"))
        assert done.exit_code == 2
        assert why in done.output
        assert done.output.count("\n") == 1
    assert not (tmp_path / "out.py").exists()


def test_slides_are_written_for_the_lessons_that_are_named_and_never_over_somebody_s_file(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(ROOT / "docs")
    for _ in range(2):
        done = ddp_course("slides", "18", "notebooks/18_capstone.ipynb", "--out", str(tmp_path / "talk"))
        assert done.exit_code == 0
        assert done.output.count(" slides, ") == 1
    written = tmp_path / "talk/18_capstone.html"
    assert [path.name for path in written.parent.iterdir()] == [written.name]
    written.write_text("<p>my own", encoding="utf-8")
    done = ddp_course("slides", "18", "--out", str(tmp_path / "talk"))
    assert done.exit_code == 1
    assert written.read_text(encoding="utf-8") == "<p>my own"


def test_slides_of_no_lesson_are_refused_with_the_nearest_name(tmp_path):
    done = ddp_course("slides", "06_alternatoin", "--out", str(tmp_path))
    assert (done.exit_code, done.output) == (
        2,
        "There is no lesson '06_alternatoin'; did you mean 06_alternation?\n",
    )


def test_lab_opens_a_copy_that_cannot_be_updated_and_refuses_where_there_is_none(
    tmp_path, capsys, monkeypatch
):
    given = small_course(tmp_path / "course")
    monkeypatch.setenv("DDP_COURSE_LEARNER", str(tmp_path / "file/copy"))
    (tmp_path / "file").write_text("no folder", encoding="utf-8")
    with pytest.raises(typer.Exit):
        up_to_date_copy(given)
    assert "There is no copy of the course to open: " in capsys.readouterr().err
    monkeypatch.setenv("DDP_COURSE_LEARNER", str(tmp_path / "copy"))
    up_to_date_copy(given)
    capsys.readouterr()
    (given / "notebooks/03_samplers.ipynb").write_text("{", encoding="utf-8")
    assert up_to_date_copy(given) == tmp_path / "copy"
    assert capsys.readouterr().err.startswith("Your copy of the course stays as it is: notebooks/03_samplers")


def test_reset_puts_a_lesson_back_and_says_where_the_old_one_is(tmp_path, monkeypatch):
    given = small_course(tmp_path / "course")
    monkeypatch.chdir(given)
    assert ddp_course("reset", "03").exit_code == 2, "there is no copy yet"
    up_to_date_copy(given)
    edit(given / "learner/notebooks/03_samplers.ipynb")
    monkeypatch.chdir(given / "learner/notebooks")  # a terminal in JupyterLab
    done = ddp_course("reset", "03")
    assert done.exit_code == 0
    assert (
        "notebooks/03_samplers.ipynb is as the course gives it. Your old one is kept/notebooks/03_samplers."
        in done.output
    )
    assert "Your exercises stay as they are: ddp-course reset exercises/03_samplers" in done.output
    assert "already is as the course gives it" in ddp_course("reset", "3").output
    wrong = ddp_course("reset", "03_sampler")
    assert (wrong.exit_code, "did you mean 03_samplers?" in wrong.output) == (2, True)


def test_check_and_progress_look_into_the_copy(tmp_path, monkeypatch):
    given = small_course(tmp_path / "course")
    monkeypatch.chdir(given)
    assert exercises() == (given / "exercises", set())
    up_to_date_copy(given)
    edit(given / "learner/exercises/03_samplers.ipynb")
    small_course(given, 2)
    up_to_date_copy(given)
    beside = given / "learner" / NEW
    assert exercises() == (given / "learner/exercises", {beside})
    said = f"You have changed exercises/03_samplers.ipynb; the course's newer version is {NEW}."
    assert newer_versions(given / "learner/notebooks") == [said]
    assert said in ddp_course("progress").output
    edit(beside)
    assert exercises() == (given / "learner/exercises", set()), "begun: it is checked"


@pytest.mark.skipif(os.name != "posix", reason="one process only where processes can be replaced")
def test_lab_understands_jupyterlab_s_own_options(course):
    """A real start, as far as JupyterLab's version: options it does not know would stop it."""
    small_course(course)
    done = subprocess.run(
        [sys.executable, "-m", "course_lib.cli", "lab", "--version"],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("4.")


def test_the_course_is_found_from_any_folder_in_it(course, monkeypatch):
    monkeypatch.chdir(course / "notebooks")
    assert course_root() == course


def test_notebooks_are_built_then_found_to_match(course):
    stale = ddp_course("notebooks", "--check")
    assert (stale.exit_code, "notebooks/00_tiny: not built yet" in stale.output) == (1, True)
    built = ddp_course("notebooks", "00")
    assert built.exit_code == 0, built.output
    assert built.output.startswith("notebooks/00_tiny ")
    assert "1 code cells" in built.output
    assert ddp_course("notebooks", "--check").exit_code == 0


def test_a_name_that_means_no_notebook_is_one_line(course):
    done = ddp_course("notebooks", "07_nowhere")
    assert done.exit_code == 2
    assert done.output == (
        "no source for a notebook called '07_nowhere'; say 03, 03_samplers or exercises/03_samplers, for example.\n"
    )
    assert "did you mean 00_tiny?" in ddp_course("notebooks", "00_tinny").output
    assert ddp_course("notebooks", "99", "--check").exit_code == 2


def test_the_version_line_says_what_a_bug_report_needs(course):
    done = ddp_course("--version")
    assert done.exit_code == 0
    for word in ("ddp-course 0.", "torch 2.", "Python 3.", "core", "GB"):
        assert word in done.output
    assert done.output.count("\n") == 1


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_is_listed_with_the_first_line_of_its_help(name):
    first_line = " ".join((command_line().commands[name].help or "").partition("\n\n")[0].split())
    assert first_line == COMMANDS[name][1]


def test_the_command_answers_from_a_terminal_without_loading_what_is_heavy():
    code = (
        "import sys; from course_lib.cli.app import application; application()\n"
        "print([name for name in ('torch', 'jupytext', 'nbclient', 'matplotlib') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_course_in_a_kernel_never_loads_typer():
    code = "import sys, course_lib; print('typer' in sys.modules, 'course_lib.cli' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False False\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["."], "is a folder: name the training script in it"),
        (["nowhere.py"], "There is no file nowhere.py"),
        (["lesson.ipynb"], "is a notebook: the doctor runs scripts. In the notebook, `%%ranks --watch`"),
        (["wrong.py"], "SyntaxError: "),
        (["zeros.py"], "wrong"),
        (["--timeout", "-3", "right.py"], "must be a positive number of seconds"),
        (["--timeout", "nan", "right.py"], "must be a positive number of seconds"),
    ],
)
def test_the_doctor_refuses_what_cannot_be_run(course, words, said):
    (course / "lesson.ipynb").write_text("{}", encoding="utf-8")
    (course / "wrong.py").write_text("def f(:\n", encoding="utf-8")
    (course / "zeros.py").write_bytes(b"x = 1\0")
    (course / "right.py").write_text("", encoding="utf-8")
    done = ddp_course("doctor", *words)
    assert done.exit_code == 2
    assert said in done.output or words == ["zeros.py"]
    assert "Diagnosis" not in done.output
