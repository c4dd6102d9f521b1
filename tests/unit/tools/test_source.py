"""The cells of a notebook are what its source says: magics, tags, ids, holes and answers."""

import re
from pathlib import Path

import pytest

from course_lib.grading.task_sources import open_holes, task_cell
from course_lib.syllabus import all_lessons
from course_lib.tasks import all_tasks
from tests.support.tiny_course import make, only, write
from tools.plan import BuildError, find_targets
from tools.source import notebook_for

ROOT = Path(__file__).resolve().parents[3]
LESSON = """\
# %% [markdown]
# # Tiny
#
# One idea.

# %%
# %load_ext json_nowhere
# !true
x = 20

# %% tags=["nbval-ignore-output"]
# %%ranks 4 --only 0,2
import os


def f():
    return os.getpid()


f()
"""

TASKS = """\
# %% [markdown]
# # Tasks

# %%
# a task
def mine(n, rank, world_size):
    \"\"\"Which samples?\"\"\"
    ### BEGIN SOLUTION
    return list(range(rank, n, world_size))
    ### END SOLUTION


# %% [markdown] tags=["only-solution"]
# Why this is right.

# %% tags=["only-exercise", "keep"]
print("try it")

# %%
### BEGIN SOLUTION
### STUB: batch = ...
### STUB: if batch is ...:
### STUB:     print("not yet")
batch = 8
### END SOLUTION
batch
"""


@pytest.fixture
def course(tmp_path: Path) -> Path:
    return make(tmp_path)


def test_magics_are_comments_in_the_source_and_magics_in_the_notebook(course):
    write(course, "notebooks/00_tiny", LESSON)
    title, first, second = notebook_for(only(course, "00_tiny")).cells
    assert title.source == "# Tiny\n\nOne idea."
    assert first.source == "%load_ext json_nowhere\n!true\nx = 20"
    assert second.source.startswith("%%ranks 4 --only 0,2\nimport os\n")
    assert second.source.endswith("\n\nf()")


def test_tags_reach_the_notebook_and_nothing_of_jupytext_does(course):
    write(course, "notebooks/00_tiny", LESSON)
    notebook = notebook_for(only(course, "00_tiny"))
    assert [dict(cell.metadata) for cell in notebook.cells] == [{}, {}, {"tags": ["nbval-ignore-output"]}]
    assert set(notebook.metadata) == {"kernelspec", "language_info"}
    assert "version" not in notebook.metadata.language_info


def test_ids_stay_the_same_but_differ_between_cells_and_notebooks(course):
    write(course, "notebooks/00_tiny", LESSON + "\n# %%\nx = 1\n\n# %%\nx = 1\n")
    write(course, "notebooks/01_twin", LESSON)
    first, again, twin = (notebook_for(only(course, name)) for name in ("00", "00", "01"))
    ids = [cell.id for cell in first.cells]
    assert ids == [cell.id for cell in again.cells]
    assert len(set(ids)) == len(ids)
    assert not set(ids) & {cell.id for cell in twin.cells}


def test_an_inserted_cell_leaves_the_ids_of_the_others(course):
    write(course, "notebooks/00_tiny", LESSON)
    before = {cell.id for cell in notebook_for(only(course, "00")).cells}
    write(course, "notebooks/00_tiny", "# %%\nnew = True\n\n" + LESSON)
    assert before < {cell.id for cell in notebook_for(only(course, "00")).cells}


def test_an_exercise_has_holes_where_the_solution_has_answers(course):
    write(course, "solutions/03_tasks", TASKS)
    exercise, solution = (notebook_for(only(course, f"{e}/03_tasks")) for e in ("exercises", "solutions"))
    _, hole, extra, stub = (cell.source for cell in exercise.cells)
    assert hole.endswith('    """Which samples?"""\n    # YOUR CODE HERE\n    raise NotImplementedError')
    assert extra == 'print("try it")'
    assert exercise.cells[2].metadata == {"tags": ["keep"]}
    assert stub == '# YOUR CODE HERE\nbatch = ...\nif batch is ...:\n    print("not yet")\nbatch'
    _, answer, why, plain = (cell.source for cell in solution.cells)
    assert answer.endswith("    return list(range(rank, n, world_size))")
    assert why == "Why this is right."
    assert plain == "batch = 8\nbatch"


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("### BEGIN SOLUTION\nx = 1", "without ### END"),
        ("x = 1\n### END SOLUTION", "without ### BEGIN"),
        ("### BEGIN SOLUTION\n### BEGIN SOLUTION\n### END SOLUTION", "inside a solution"),
        ("### STUB: x = ...", "outside a solution"),
    ],
)
@pytest.mark.parametrize("solved", [False, True])
def test_markers_that_do_not_pair_are_refused(source, said, solved):
    with pytest.raises(ValueError, match=said):
        open_holes(source, solved=solved)


@pytest.mark.parametrize(("folder", "solved"), [("exercises", False), ("solutions", True)])
def test_a_task_s_cell_is_read_from_its_source_as_it_is_in_the_notebook(folder, solved):
    cells = {
        cell.source
        for target in find_targets(ROOT)
        if target.notebook.parent.name == folder
        for cell in notebook_for(target).cells
    }
    of_cells = [task for task in all_tasks() if not task.script]
    read = {task: f"%%task {task.name}\n{task_cell(task, solved=solved)}" for task in of_cells}
    assert [task.name for task, source in read.items() if source not in cells] == []


@pytest.mark.parametrize(
    ("name", "cell", "said"),
    [
        ("solutions/03_x", "# %%\n### BEGIN SOLUTION\nx = 1\n", "x/exercises.py, cell 1: .*without"),
        ("solutions/03_x", "# %%\nx = 1\n", "nothing to fill in"),
        ("notebooks/03_x", "# %%\nx = 1\n### BEGIN SOLUTION\n", "belongs into exercises.py"),
        ("notebooks/03_x", '# %%\nx = 1\n\n# %% tags=["raises-exception"]\n1 / 0\n', "cell 2: .*--expect"),
        ("notebooks/03_x", "# %%\n\n# %%\nx = 1\n", "cell 1: .*never run"),
    ],
)
def test_a_bad_source_is_refused_by_name_and_cell(course, name, cell, said):
    write(course, name, cell)
    target = find_targets(course)[-1]
    with pytest.raises(BuildError, match=said):
        notebook_for(target)


def test_names_mean_what_people_write(course):
    write(course, "notebooks/03_samplers", LESSON)
    write(course, "solutions/03_samplers", TASKS)
    write(course, "notebooks/index", LESSON)

    def named(*names: str) -> list[str]:
        return [target.name for target in find_targets(course, names)]

    three = ["notebooks/03_samplers", "solutions/03_samplers", "exercises/03_samplers"]
    assert named("03") == named("03_samplers") == three
    assert named("exercises/03_samplers.ipynb") == ["exercises/03_samplers"]
    assert named("course_lib/lessons/index.py") == ["notebooks/index"]
    assert len(named()) == 4
    with pytest.raises(BuildError, match=r"'04'; say 03, 03_samplers or exercises/03_samplers"):
        named("04")


TAKEN = """\
# %% [markdown]
# # 03 · A lesson
#
# Above.

# %% [markdown] tags=["two-hours-1"]
# Taken.

# %% [markdown]
# Below.

# %% tags=["two-hours-1", "hide-input"] claims={"5": "wrong"}
x = 1

# %% tags=["two-hours-2"]
y = 2
"""


def taking(course, mark):
    write(course, "notebooks/03_topic", TAKEN)
    write(course, "notebooks/two_hours", f'# %% [markdown]\n# # Two hours\n\n# %% from="{mark}"\n')
    return notebook_for(only(course, "two_hours")).cells


def test_a_notebook_takes_cells_of_lessons_and_the_lessons_stay_as_they_were(course):
    text, code = taking(course, "03 two-hours-1")
    assert (text.source, code.source) == ("# Two hours\n\nTaken.", "x = 1")
    assert code.metadata == {"tags": ["hide-input"]}
    text, *codes = notebook_for(only(course, "03")).cells
    assert text.source == "# 03 · A lesson\n\nAbove.\n\nTaken.\n\nBelow."
    assert [code.metadata for code in codes] == [{"tags": ["hide-input"], "claims": {"5": "wrong"}}, {}]


@pytest.mark.parametrize("mark", ["03 two-hours-3", "04 two-hours-1", "03 hide-input"])
def test_cells_that_no_lesson_has_are_not_taken(course, mark):
    with pytest.raises(BuildError, match="has no cell with the tag"):
        taking(course, mark)


def test_every_cell_that_is_marked_for_two_hours_is_in_them_once():
    sources = Path(__file__).parents[3] / "course_lib/lessons"
    marked = {
        f"{lesson.number:02} {tag}"
        for lesson in all_lessons()
        for tag in re.findall(r'"(two-hours-\d)"', (lesson.folder / "lesson.py").read_text())
    }
    assert sorted(re.findall('from="(.*)"', (sources / "two_hours.py").read_text())) == sorted(marked)
