"""Marks for an instructor: what an answer uses that no task asks for, read from its source."""

import pytest

from course_lib.grading.known_answers import catalogue
from course_lib.grading.worth_reading import worth_reading
from course_lib.syllabus import LESSONS


@pytest.mark.parametrize(
    ("source", "marks"),
    [
        ("from course_lib.lessons.alternation.tasks.orders import ending", ("course_lib.lessons, line 1",)),
        ("from course_lib.tasks import find_task", ("course_lib.tasks, line 1",)),
        ("from course_lib import grading", ("course_lib.grading, line 1",)),
        ("from realranks import cells", ("realranks.cells, line 1",)),
        ("import torch\nimport realranks.ranks.kernel.gang as g", ("realranks.ranks, line 2",)),
        ("import importlib\nimportlib.import_module('course_' + 'lib')", ("import_module, line 2",)),
        ("import sys\nsys.modules['course_lib.tasks.task']", ("course_lib.tasks, line 2",)),
        ("import sys\nsys._getframe(2)", ("sys._getframe, line 2",)),
        ("import sys\ngetattr(sys, '_getframe')", ("sys._getframe, line 2",)),
        ("import inspect", ("inspect, line 1",)),
        ("from ctypes import c_int", ("ctypes, line 1",)),
        ("import gc\nfor one in gc.get_objects(): one", ("gc.get_objects, line 2",)),
        ("from gc import get_referrers", ("gc.get_referrers, line 1",)),
        ("try:\n    x\nexcept E as e:\n    e.__traceback__.tb_frame", ("frames, line 4",)),
        ("exec('x = 1')\nexec('y = 1')", ("exec, line 1",)),
    ],
)
def test_what_looks_beyond_the_task_is_marked_with_its_line(source, marks):
    assert worth_reading(source) == marks


@pytest.mark.parametrize(
    "source",
    [
        "import gc\ngc.collect()",
        "from course_lib.watch import buckets",
        "from realranks.watch import buckets",
        "model.eval()",
        "# from course_lib.tasks import find_task",
        "def f(:",
        "\0",
        "x = " + "(" * 5000,
        "'a string about inspecting gc and frames'",
    ],
)
def test_everything_else_is_not(source):
    assert worth_reading(source) == ()


def test_no_right_answer_of_the_catalogue_is_marked():
    marked = {one.name: worth_reading(one.source) for one in catalogue(LESSONS) if one.right}
    assert not {name: marks for name, marks in marked.items() if marks}
