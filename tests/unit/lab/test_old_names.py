"""Notebooks that learners have changed, and keep, import what lessons need by the names that it had before."""

import importlib
import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("old", "new"),
    [("samplers", "samplers.lab"), ("moments", "synchronised.moments"), ("heads", "unused.heads")],
)
def test_a_module_is_found_by_its_old_name_and_stays_what_it_is(old, new):
    found = importlib.import_module(f"course_lib.lab.{old}")
    assert found is importlib.import_module(f"course_lib.lessons.{new}")
    assert (found.__name__, found.__spec__.name) == (f"course_lib.lessons.{new}",) * 2


@pytest.mark.parametrize("name", ["nowhere", "lesson", "exercises"])
def test_nothing_else_is_found(name):
    with pytest.raises(ModuleNotFoundError, match=f"course_lib.lab.{name}"):
        importlib.import_module(f"course_lib.lab.{name}")


def test_it_is_found_first_of_all():
    program = "import course_lib.lab.first_ranks as moved; print(moved.__name__)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "course_lib.lessons.first_ranks.lab\n"
