"""The course keeps its own promises, as far as reading shows; and broken promises are found.

That notebooks match their sources is checked in test_house, answers are run in tests/answers.
"""

import re
import shutil
from pathlib import Path

import pytest

from course_lib.grading.known_answers import CatalogueError, catalogue, problems_with_catalogue, read
from course_lib.grading.verdict import CheckResult, CheckState, Verdict, VerdictKind
from course_lib.tasks import find_task
from course_lib.tasks.words import Misconception
from tests.support.submissions import write
from tests.support.tiny_course import make
from tests.support.tiny_course import write as write_lesson
from tools.commands.selfcheck import problems_on_paper, stray_files, taught_nowhere
from tools.plan import LESSONS
from tools.selfcheck import empty_words, seeds_for

ROOT = Path(__file__).resolve().parents[3]


def test_the_course_is_complete_on_paper():
    assert problems_on_paper(ROOT) == []


def test_stray_files_are_found(tmp_path):
    for name in (
        "notebooks/03_samplers.ipynb",
        "notebooks/.ipynb_checkpoints/03-checkpoint.ipynb",
        "exercises/03_samplers.ipynb",
    ):
        write(tmp_path / name, "")
    assert stray_files(tmp_path) == []
    for name in (
        "notebooks/Untitled.txt",
        "exercises/sources/a.py",
        "solutions/sources/notes.md",
        "notebooks/x/a.ipynb",
    ):
        write(tmp_path / name, "")
    assert stray_files(tmp_path) == [
        "notebooks/Untitled.txt: a stray file",
        "notebooks/x/a.ipynb: a stray file",
        "exercises/sources/a.py: a stray file",
        "solutions/sources/notes.md: a stray file",
    ]


def test_a_course_without_cells_and_answers_has_problems(tmp_path):
    """Every task is named: no answers, no lesson, no cell."""
    said = "\n".join(problems_on_paper(tmp_path))
    for problem in (
        "samplers.evaluate: 0 right answers; there must be 2 or more",
        "samplers.evaluate: 0 wrong answers; there must be 3 or more",
        "samplers.evaluate: no wrong answer shows the misconception mean_of_means",
        "samplers.evaluate: there is no lesson 03_samplers",
        "samplers.evaluate: course_lib/lessons/samplers/exercises.py has no cell for it",
    ):
        assert problem in said


def test_a_course_is_broken_in_one_place_and_that_is_said(tmp_path):
    """A lesson without its heading, a source that cannot be built."""
    shutil.copytree(ROOT / LESSONS, tmp_path / LESSONS)
    lesson, cells = (tmp_path / LESSONS / "samplers" / name for name in ("lesson.py", "exercises.py"))
    heading = "## A seed of one's own"
    write(lesson, lesson.read_text(encoding="utf-8").replace(heading, "## Another"))
    write(cells, cells.read_text(encoding="utf-8").replace("### END SOLUTION", ""))
    said = [line for line in problems_on_paper(tmp_path) if line.startswith("samplers.")]
    assert any(
        "is taught nowhere: no lesson has the heading of" in line and heading[3:] in line for line in said
    )
    assert "samplers.evaluate: its cell cannot be read: ### BEGIN SOLUTION without" in "\n".join(said)
    assert all("taught nowhere" in line or "cannot be read" in line for line in said)


def test_a_misconception_that_points_to_a_heading_about_something_else_is_found(tmp_path):
    write_lesson(
        make(tmp_path),
        "notebooks/03_samplers",
        "# ## A seed of one's own\n#\n# Cooking with gas.\n# ## Next\n# lose\n",
    )

    class Pointing(type(find_task("samplers.shard_indices"))):
        misconceptions = (Misconception("no_padding", "You lose samples.", "lesson 03, A seed of one's own"),)

    (problem,) = taught_nowhere(Pointing(), tmp_path)
    assert "has hardly a word in common" in problem
    write(
        tmp_path / "course_lib/lessons/samplers/lesson.py",
        "# ## A seed of one's own\n#\n# Samples are lost.\n",
    )
    assert taught_nowhere(Pointing(), tmp_path) == []


@pytest.mark.parametrize(
    ("observed", "empty"),
    [
        ("the gradient of first.weight is [0.0000, …] on rank 0, the mean [0.0000, …]", True),
        ("w of rank 0 is [0.1770, …] after 3 steps; one process alone has [0.1770, …]", True),
        ("with k=3, rank 0 returned 6; it is 6", True),
        ("on 2 ranks, what came back is not a valid observation", True),
        ("with k=3, rank 0 returned 3; it is 6", False),
        ("the gradient of first.weight is 0.5 (element 3) on rank 0, the mean 0.25", False),
    ],
)
def test_evidence_that_shows_nothing_is_found(observed, empty):
    check = CheckResult("It is right.", CheckState.FAILED, observed)
    verdict = Verdict("samplers.evaluate", VerdictKind.WRONG, "1 check does not hold.", (check,))
    assert bool(list(empty_words(verdict))) == empty


def test_a_sentence_with_a_hole_is_found():
    said = "Rank 1 waits in backward() at{} for rank 0."
    for place, hole in ((" ", True), (" line 3", False)):
        verdict = Verdict("samplers.evaluate", VerdictKind.DEADLOCK, said.format(place))
        assert bool(list(empty_words(verdict))) == hole


def test_only_where_rounding_may_decide_all_seeds_are_worth_their_time():
    assert seeds_for(find_task("wrappers.Together"), 200) == 200
    assert seeds_for(find_task("samplers.shard_indices"), 200) == 30
    assert seeds_for(find_task("samplers.shard_indices"), 3) == 3
    assert seeds_for(find_task("capstone.train"), 200) == 1


IN_PLACE = """def f(x):
    y = x + 1
#~ minus -1 |    y = x - 1
    z = 2 * y
#~ single -1
    print(z)
#~ single -0 |    z = y
#~ |    print(y)
    return z
#~ minus -3 |    return y

#~ minus: misconceptions: first, second
#~ minus: breaks: It is right.
#~ single: misconception: none
"""


def test_variants_stand_where_the_mistake_is_made(tmp_path):
    path = tmp_path / "samplers/answers/evaluate/right_one.py"
    write(path, IN_PLACE)
    right, minus, single = catalogue(tmp_path)
    assert (right.name, right.right, right.path) == ("samplers/evaluate/right_one", True, path)
    assert right.source.rstrip().endswith("y = x + 1\n    z = 2 * y\n    print(z)\n    return z")
    assert (minus.name, minus.task, minus.right) == (
        "samplers/evaluate/wrong_minus",
        "samplers.evaluate",
        False,
    )
    assert minus.source.rstrip() == "def f(x):\n    y = x - 1\n    return y"
    assert (minus.misconceptions, minus.breaks) == (("first", "second"), ("It is right.",))
    assert (single.misconceptions, single.declared, single.breaks) == ((), True, ())
    assert single.source.rstrip().endswith("y = x + 1\n    print(z)\n    z = y\n    print(y)\n    return z")


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        (["x = 1", "#~ a 1 |x = 2"], "line 2 is no mark of a variant: #~ a 1 |x = 2"),
        (["#~ |x = 2"], "line 1 is no mark of a variant"),
        (["x = 1", "#~ a -2"], "line 2 replaces more lines than there are above it"),
        (["x = 1", "y = 1", "#~ a -1", "z = 1", "#~ a -2"], "line 5 replaces more lines"),
        (["x = 1", "#~ a: misconception: none"], "the variant a changes nothing"),
    ],
)
def test_what_is_no_variant_is_named_with_its_line(tmp_path, lines, problem):
    with pytest.raises(CatalogueError, match=re.escape(problem)):
        read(lines)
    write(tmp_path / "samplers/answers/evaluate/right_one.py", "\n".join(lines))
    (said,) = problems_with_catalogue(tmp_path)
    assert said.startswith(f"samplers/answers/evaluate/right_one.py: {problem}")


def test_a_file_that_cannot_be_read_is_a_problem_of_the_course_and_not_its_end(tmp_path):
    write(tmp_path / "course_lib/lessons/samplers/answers/evaluate/right_one.py", "x = 1\n#~ a 1 |x = 2")
    said = problems_on_paper(tmp_path)
    assert "samplers/answers/evaluate/right_one.py: line 2 is no mark of a variant: #~ a 1 |x = 2" in said


def test_two_answers_of_one_name_are_found(tmp_path):
    write(tmp_path / "samplers/answers/evaluate/right_one.py", IN_PLACE)
    write(tmp_path / "samplers/answers/evaluate/wrong_minus.py", "# misconception: none\n")
    (said,) = problems_with_catalogue(tmp_path)
    assert said == "samplers/answers/evaluate/wrong_minus.py: there is another samplers/evaluate/wrong_minus"
