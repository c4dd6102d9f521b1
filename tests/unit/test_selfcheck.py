"""The course keeps its own promises, as far as reading shows; and broken promises are found.

That notebooks match their sources is checked in test_house, answers are run in tests/answers.
"""

import shutil
from pathlib import Path

import pytest

from course_lib.cli.selfcheck import problems_on_paper, stray_files, taught_nowhere
from course_lib.grading.selfcheck import EXPLAINS, catalogue, empty_words, problems_with_task, seeds_for
from course_lib.grading.statement import is_quoted, sentences_in
from course_lib.grading.verdict import CheckResult, CheckState, Verdict, VerdictKind
from course_lib.tasks import find_task
from course_lib.tasks.task import Misconception
from tests.made_up.submissions import write

ROOT = Path(__file__).resolve().parents[2]


def test_the_course_is_complete_on_paper():
    assert problems_on_paper(ROOT) == []


def test_stray_files_are_found(tmp_path):
    for name in (
        "notebooks/03_samplers.ipynb",
        "notebooks/sources/03_samplers.py",
        "notebooks/.ipynb_checkpoints/03-checkpoint.ipynb",
        "solutions/sources/03_samplers.py",
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
        "samplers.evaluate: solutions/sources/03_samplers.py has no cell for it",
    ):
        assert problem in said


def test_a_course_is_broken_in_one_place_and_that_is_said(tmp_path):
    """A lesson without its heading, a source that cannot be built."""
    for part in ("notebooks/sources", "solutions/sources", "tests/answers"):
        shutil.copytree(ROOT / part, tmp_path / part)
    lesson, cells = (
        tmp_path / folder / "sources" / "03_samplers.py" for folder in ("notebooks", "solutions")
    )
    heading = "## A seed of one's own"
    write(lesson, lesson.read_text(encoding="utf-8").replace(heading, "## Another"))
    write(cells, cells.read_text(encoding="utf-8") + "\n# %%\n")
    said = [line for line in problems_on_paper(tmp_path) if line.startswith("samplers.")]
    assert any(
        "is taught nowhere: no lesson has the heading of" in line and heading[3:] in line for line in said
    )
    assert "samplers.evaluate: its cell cannot be read: 03_samplers.py" in "\n".join(said)
    assert all("taught nowhere" in line or "cannot be read" in line for line in said)


def test_a_misconception_that_points_to_a_heading_about_something_else_is_found(tmp_path):
    write(
        tmp_path / "notebooks/sources/03_samplers.py",
        "# ## A seed of one's own\n#\n# Cooking with gas.\n# ## Next\n# lose\n",
    )

    class Pointing(type(find_task("samplers.shard_indices"))):
        misconceptions = (Misconception("no_padding", "You lose samples.", "lesson 03, A seed of one's own"),)

    (problem,) = taught_nowhere(Pointing(), tmp_path)
    assert "has hardly a word in common" in problem
    write(tmp_path / "notebooks/sources/03_samplers.py", "# ## A seed of one's own\n#\n# Samples are lost.\n")
    assert taught_nowhere(Pointing(), tmp_path) == []


@pytest.mark.parametrize(
    ("observed", "empty"),
    [
        ("the gradient of first.weight is [0.0000, …] on rank 0, the mean [0.0000, …]", True),
        ("w of rank 0 is [0.1770, …] after 3 steps; one process alone has [0.1770, …]", True),
        ("with k=3, rank 0 returned 6; it is 6", True),
        ("on 2 ranks, what came back is no observation of this task", True),
        ("with k=3, rank 0 returned 3; it is 6", False),
        ("the gradient of first.weight is 0.5 (element 3) on rank 0, the mean 0.25", False),
    ],
)
def test_evidence_that_shows_nothing_is_found(observed, empty):
    check = CheckResult("It is right.", CheckState.FAILED, observed)
    verdict = Verdict("samplers.evaluate", VerdictKind.WRONG, "1 check does not hold.", (check,))
    assert bool(list(empty_words(verdict))) == empty


def test_only_where_rounding_may_decide_all_seeds_are_worth_their_time():
    assert seeds_for(find_task("wrappers.Together"), 200) == 200
    assert seeds_for(find_task("samplers.shard_indices"), 200) == 30
    assert seeds_for(find_task("samplers.shard_indices"), 3) == 3
    assert seeds_for(find_task("capstone.train"), 200) == 1


STATEMENT = """## 1. A heading. It demands nothing.

Return the mean of `a.b` over all ranks, on every rank. (One may
wait.) Ranks are many, e.g. four.

- the sum stays a float;
- it is `None`. Or not.

```python
# This is code. It says nothing.
```

| a table | is given |
"""


@pytest.fixture
def answers(tmp_path):
    """Writes a wrong answer for the task, and what explains.txt says; gives what is wrong with the statement."""

    def problems(quotations=(), explains=(), statement=STATEMENT):
        folder = tmp_path / "samplers" / "evaluate"
        breaks = "".join(f"# breaks: {quotation}\n" for quotation in quotations)
        write(folder / "wrong_a.py", f"# misconception: none\n{breaks}")
        write(folder / EXPLAINS, "\n".join(explains))
        task = find_task("samplers.evaluate")
        without = problems_with_task(task, catalogue(tmp_path))
        return [
            line.removeprefix("samplers.evaluate: ")
            for line in problems_with_task(task, catalogue(tmp_path), statement)
            if line not in without
        ]

    return problems


def test_sentences_are_told_from_headings_code_and_tables():
    assert sentences_in(STATEMENT) == (
        "Return the mean of `a.b` over all ranks, on every rank.",
        "(One may wait.)",
        "Ranks are many, e.g. four.",
        "the sum stays a float;",
        "it is `None`.",
        "Or not.",
    )


def test_a_statement_is_fine_when_each_sentence_is_either_broken_or_explained(answers):
    quotations = ("Return the mean of `a.b`", "the sum stays a float;", "it is `None`.", "Or not.")
    explains = ("(One   may wait.)", "", "Ranks are many, e.g. four.")
    assert answers(quotations, explains) == []


def test_a_sentence_that_nobody_breaks_or_explains_is_found(answers):
    (problem,) = answers(("Return the mean",), (), "Return the mean. Ranks are many.")
    assert problem.startswith("no wrong answer breaks")
    assert problem.endswith("'Ranks are many.'")


def test_what_is_quoted_or_explained_and_no_longer_said_is_found(answers):
    (quoted, explained) = answers(
        ("Return the mean.", "the sum of all"), ("Ranks are few.",), "Return the mean."
    )
    assert quoted == "samplers/evaluate/wrong_a breaks what is said nowhere: 'the sum of all'"
    assert explained == "explains.txt lists what the statement does not say: 'Ranks are few.'"


def test_a_part_of_a_sentence_does_not_explain_it(answers):
    said = answers(("Return the mean.",), ("Ranks are",), "Return the mean. Ranks are many.")
    assert len(said) == 2
    assert "'Ranks are many.'" in said[0]
    assert "explains.txt lists what the statement does not say" in said[1]


def test_a_sentence_that_is_broken_and_explained_is_found(answers):
    (problem,) = answers(("Return the mean",), ("Return the mean now.",), "Return the mean now.")
    assert problem == (
        "samplers/evaluate/wrong_a breaks a sentence that explains.txt lists: 'Return the mean now.'"
    )


@pytest.mark.parametrize(
    ("quotation", "enough"),
    [
        ("Return the mean", True),
        ("on every\trank", True),
        ("Return the", False),
        ("in place", True),  # a whole clause
        ("every rank", False),
        ("n every rank", False),  # begins in the middle of a word
        ("Return the mean, on every rank: in place.", True),
    ],
)
def test_a_quotation_is_long_enough_or_a_whole_clause(quotation, enough):
    assert is_quoted(quotation, "Return the mean, on every rank: in place.") == enough


def test_what_a_check_says_need_not_stand_in_the_statement(answers):
    (sentence, *_) = [check.sentence for check in find_task("samplers.evaluate").checks]
    assert answers((sentence, "Return the mean."), (), "Return the mean.") == []


def test_a_sentence_of_the_statement_without_an_answer_is_found_in_any_course(tmp_path):
    """Above the cell, in its docstring; and a course without sources has no statement that could be checked."""
    for part in ("solutions/sources", "tests/answers"):
        shutil.copytree(ROOT / part, tmp_path / part)
    source = tmp_path / "solutions/sources/03_samplers.py"
    text = source.read_text(encoding="utf-8")
    text = text.replace("# Return the accuracy of", "# Stand on your head. Return the accuracy of")
    source.write_text(text.replace('"""The share of samples', '"""Stand on one leg. The share of samples'))
    (above, inside) = (line for line in problems_on_paper(tmp_path) if "'Stand on " in line)
    assert above.startswith("samplers.evaluate: no wrong answer breaks")
    assert above.endswith("'Stand on your head.'")
    assert inside.endswith("'Stand on one leg.'")
    source.unlink()
    said = "\n".join(line for line in problems_on_paper(tmp_path) if line.startswith("samplers.evaluate"))
    assert "has no cell for it" in said
    assert "this sentence of the statement" not in said
    assert "said nowhere" not in said
