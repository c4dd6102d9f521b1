"""Who installs the course as a package has its lessons, too."""

import os
import subprocess
import sys
from pathlib import Path

from course_lib.learner.course import given_files

ROOT = Path(__file__).resolve().parents[2]


def test_an_installed_course_makes_the_learner_s_copy_at_home(tmp_path):
    """What a wheel holds is what `build_py` lays out; running that leaves nothing in the checkout."""
    build = [sys.executable, "setup.py", "-q", "egg_info", "--egg-base", tmp_path, "build_py", "--build-lib"]
    subprocess.run([*build, tmp_path / "installed"], cwd=ROOT, check=True, capture_output=True)
    make = (
        "from course_lib.cli.lab import up_to_date_copy; from course_lib.cli.root import course_root\n"
        "from course_lib.build.task_sources import task_cell; from course_lib.tasks import all_tasks\n"
        "print(up_to_date_copy(course_root()))\n"
        "from course_lib.build.sections import read_lesson; from course_lib.build.slides import deck_page, make_deck\n"
        "print(len(deck_page(make_deck(read_lesson(course_root() / 'notebooks/16_capstone.ipynb')))) > 100_000)\n"
        "print([task.name for task in all_tasks() for solved in (True, False) if not task_cell(task, solved=solved)])"
    )
    clean = {name: value for name, value in os.environ.items() if not name.startswith("DDP_COURSE")}
    done = subprocess.run(
        [sys.executable, "-c", make],
        cwd=tmp_path,
        env=clean | {"HOME": str(tmp_path), "PYTHONPATH": str(tmp_path / "installed")},
        capture_output=True,
        text=True,
        check=True,
    )
    copy = tmp_path / "ddp-course"
    assert done.stdout == f"{copy}\nTrue\n[]\n", "solutions, scripts and what slides need are there, too"
    assert {name: (copy / name).read_bytes() for name in given_files(ROOT)} == given_files(ROOT)
