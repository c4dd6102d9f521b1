"""How the source of a cell is compiled, shown and blamed."""

import threading
import warnings

import pytest

from realranks.outcome.places import Frame, is_learners, package_of, place_name
from realranks.outcome.syntax import compile_cell, compile_if_clean, from_bytes, remember_cell
from realranks.ranks.inside.tracebacks import current_stack, report_exception, shown


def run(source, space=None, first_line=2):
    space = {} if space is None else space
    compiled = compile_cell(source, "In [3]", first_line)
    remember_cell(source, "In [3]", first_line)
    exec(compiled.statements, space)
    return eval(compiled.value, space) if compiled.value is not None else None


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("1 + 1", 2),
        ("x = 5\nx", 5),
        ("x = 5", None),
        ("5;", None),
        ("5 ; # quiet", None),
        ("5  # ends with ;", 5),
        ("';'", ";"),
        ("for i in range(3): pass\ni", 2),
        ("", None),
        ("(1,\n 2)", (1, 2)),
        ("def f():\n    return 1\nf()", 1),
        ("lambda: 1;", None),
        ("'''a\n;'''", "a\n;"),
    ],
)
def test_the_last_expression_is_the_value(source, value):
    assert run(source) == value


def test_annotations_are_values_and_no_future_import_leaks_in():
    assert run("class A:\n    x: int\nA.__annotations__['x'] is int") is True


def test_a_future_import_of_the_cell_itself_counts():
    assert run("from __future__ import annotations\nclass A:\n    x: int\nA.__annotations__['x']") == "int"


def failing(source):
    try:
        run(source)
    except BaseException as error:
        return report_exception(error)
    raise AssertionError("it did not fail")


def test_lines_are_numbered_as_in_the_notebook_cell():
    report = failing("x = 1\n\n1 / 0")
    assert report.where == "In [3], line 4"
    assert report.line == 4
    assert report.traceback.endswith("  In [3], line 4\n    1 / 0\nZeroDivisionError: division by zero")


def test_functions_are_named_and_the_courses_frames_are_not():
    report = failing("def f():\n    raise KeyError('k')\nf()")
    assert "In [3], line 3, in f" in report.traceback
    assert "realranks" not in report.traceback
    assert "LookupError" in report.bases


def test_a_deep_recursion_is_short():
    assert len(failing("def f(n): return f(n + 1)\nf(0)").traceback.splitlines()) < 12


def test_what_happened_in_a_library_is_one_line():
    report = failing("import json\njson.loads('{')")
    assert "more in Python, last: " in report.traceback
    assert report.where == "In [3], line 3"


@pytest.mark.parametrize("message", ["x" * 1_000_000, "line\n" * 300_000])
def test_a_long_message_is_shortened(message):
    report = failing(f"raise ValueError({message!r})")
    assert len(report.message) < 20_000
    assert len(report.traceback) < 50_000


def test_a_syntax_error_has_the_notebooks_line():
    with pytest.raises(SyntaxError) as caught:
        compile_cell("x = 1\ny = = 2", "In [3]", 2)
    assert caught.value.lineno == 3


def test_a_value_is_shown_as_in_a_notebook():
    assert shown("text") == "'text'"
    assert shown({"b": 1, "a": 2}) == "{'b': 1, 'a': 2}"
    assert shown(list(range(60))).count("\n") > 0
    assert "(1,000,002 characters)" in shown("x" * 1_000_000)


def test_a_repr_that_raises_is_named():
    class Odd:
        def __repr__(self):
            raise RuntimeError

    assert shown(Odd()) == "<Odd whose repr raises RuntimeError>"


@pytest.mark.parametrize(
    ("file", "learners", "name"),
    [
        ("<rank cell In [3]>", True, "In [3]"),
        ("/home/me/train.py", True, "train.py"),
        ("<string>", False, "<string>"),
        (threading.__file__, False, "threading.py"),
        ("/x/lib/python3/site-packages/torch/nn/a.py", False, "a.py"),
    ],
)
def test_the_learners_files_are_told_from_the_others(file, learners, name):
    assert is_learners(file) is learners
    assert place_name(file) == name


def test_packages_are_known_by_their_folder():
    assert package_of("/x/lib/python3/site-packages/torch/nn/a.py") == "torch"
    assert package_of(threading.__file__) == "Python"


def test_the_stack_of_another_thread_ends_where_it_waits():
    there, go = threading.Event(), threading.Event()

    def waits():
        there.set()
        go.wait()

    thread = threading.Thread(target=waits)
    thread.start()
    there.wait()
    stack = current_stack(thread.ident)
    go.set()
    thread.join()
    assert "waits" in [frame.function for frame in stack]


def test_an_odd_escape_warns_but_compiles():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert run(r"'\d'") == "\\d"


def test_compiled_code_travels_to_another_process():
    space = {}
    cell = from_bytes(compile_if_clean("x = 5\n\nx + 1", "In [3]", 2))
    exec(cell.statements, space)
    assert eval(cell.value, space) == 6
    assert cell.value.co_filename == "<rank cell In [3]>"
    assert {line for _, _, line in cell.value.co_lines()} >= {4}


@pytest.mark.parametrize(
    "source",
    [r"'\d'", "x = = 2", "return 1", "x = '\0'", "(" * 500 + ")" * 500, "1 is 1", "'\ud800'; x = ("],
)
def test_a_cell_of_which_python_has_something_to_say_is_compiled_where_it_is_said(source):
    assert compile_if_clean(source, "In [3]", 2) == b""


def test_a_warning_is_not_lost_because_it_was_given_before():
    for _ in range(2):
        assert compile_if_clean("1 is 1", "In [3]", 2) == b""


def test_numbered_cells_are_told_apart_without_showing_their_numbers():
    older = Frame("<rank cell number 1>", 3, "f", "")
    remember_cell("x = 1", "number 1", 2)
    assert older.where() == "line 3 of this cell"
    remember_cell("y = 1", "number 2", 2)
    assert older.where() == "line 3 of an earlier cell"


def test_a_function_of_a_plain_cell_is_not_named_by_a_temporary_file():
    assert Frame("/tmp/ipykernel_123/4567.py", 3, "f", "").where() == "line 3 of a notebook cell"
