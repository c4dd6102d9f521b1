"""Who installs the course as a package has its lessons, too."""

import os
import re
import shlex
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from course_lib.learner.course import given_files
from tests.support.workflows import released

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """The wheel that the release workflow builds, unpacked."""
    (wheel,) = released(tmp_path_factory).glob("dist/ddp-course/*.whl")
    folder = tmp_path_factory.mktemp("wheel") / "installed"
    zipfile.ZipFile(wheel).extractall(folder)
    return folder


def python(installed: Path, home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run Python with the installed course, far from any checkout."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("DDP_COURSE")}
    return subprocess.run(
        [sys.executable, *words],
        cwd=home,
        env=clean | {"HOME": str(home), "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_an_installed_course_makes_the_learner_s_copy_at_home(installed, tmp_path):
    make = (
        "from course_lib.cli.lab import up_to_date_copy; from course_lib.cli.root import course_root\n"
        "from course_lib.grading.task_sources import task_cell; from course_lib.tasks import all_tasks\n"
        "print(up_to_date_copy(course_root()))\n"
        "print([task.name for task in all_tasks() for solved in (True, False) if not task_cell(task, solved=solved)])"
    )
    done = python(installed, tmp_path, "-c", make)
    assert done.returncode == 0, done.stderr
    copy = tmp_path / "ddp-course"
    assert done.stdout == f"{copy}\n[]\n", "solutions and scripts are there, too"
    assert {name: (copy / name).read_bytes() for name in given_files(ROOT)} == given_files(ROOT)


@pytest.mark.parametrize(
    "words", [("notebooks", "--check"), ("notebooks",), ("slides", "03"), ("selfcheck",)]
)
def test_commands_that_work_on_the_course_itself_refuse_what_is_installed(installed, tmp_path, words):
    before = sorted(installed.rglob("*.py"))
    done = python(installed, tmp_path, "-m", "course_lib.cli", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "This command works on the course itself: it needs a checkout (git clone), and in it "
        "pip install -e '.[test]'\n"
    )
    assert sorted(installed.rglob("*.py")) == before


def test_what_builds_the_course_is_not_installed(installed):
    """The tools, and what only they need: templates of slides, sources of lessons, answers of the catalogue."""
    assert {path.name for path in installed.iterdir() if "-" not in path.name} == {"course_lib", "realranks"}
    assert not {path.name for path in installed.rglob("*")} & {
        "reveal",
        "slides.html",
        "claims.toml",
        "tools",
    }


def test_lab_without_jupyterlab_makes_the_copy_and_says_what_is_missing(installed, tmp_path):
    lab = "import sys; sys.modules['jupyterlab'] = None; from course_lib.cli import main; main()"
    done = python(installed, tmp_path, "-c", lab, "lab")
    assert done.returncode == 2
    (asked,) = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
        "optional-dependencies"
    ]["lab"]
    assert done.stderr.endswith(
        f"JupyterLab is missing: {shlex.quote(sys.executable)} -m pip install '{asked}'\n"
    )
    assert (tmp_path / "ddp-course/notebooks/index.ipynb").is_file()


def test_the_page_of_the_package_index_leads_nowhere_on_this_machine_or_in_the_repository():
    """Its readers have no checkout: a relative link or picture would be dead."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    page = (ROOT / project["readme"]).read_text(encoding="utf-8")
    assert re.findall(r"\]\((?!https://)", page) == []
    assert "src=" not in page
