"""Building and checking the course: from sources to notebooks, one way, executed, and checked.

    course_lib/lessons/topic/lesson.py     ->  notebooks/NN_topic.ipynb   a lesson
    course_lib/lessons/topic/exercises.py  ->  solutions/NN_topic.ipynb   every task solved
                                           ->  exercises/NN_topic.ipynb   the same with holes to fill in

Files: `plan` (which notebook comes from which source), `source` (text to cells), `execute` (run them on a real kernel),
`check` (does a saved notebook still match), `minutes` (how long reading takes), `claims` (which cell shows which claim:
docs/claims.md), `cheatsheet` (the rules of thumb: docs/cheatsheet.html), `instructor` (plans and what to say:
docs/instructor.md, docs/instructor-lessons.md; from `sections`, `asked` and the tasks), `slides/` (lessons as
slides), `answers` and `selfcheck` (does the catalogue of answers prove the tasks), `commands/` (those of `ddp-course`
that need all this), `repository` (its address, wherever it is repeated), `release` (what a tag publishes).

This room is in the checkout and not in the wheel: the course runs without it.

Promises: no text or code is ever read back from a notebook, so an edit made there is lost and `check` says
so first; `--prose` keeps the outputs where only text has changed. Building twice gives the same cells, ids
and metadata, and as the lessons' output is stable, the same file.

Sources are jupytext *percent* scripts and valid Python: **magics are written as comments** (`# %%ranks 4`,
`# %load_ext course_lib`) and jupytext uncomments them. That way ruff formats and lints the code under a
magic like any other code, editors complete it, and a review reads Python. What a magic binds (`--as out`)
ruff cannot see; pyproject.toml turns off just those rules for these files. A comment cannot begin
with `# %name` or `# !` there: it would become a magic.

How a hole for the learner is marked in `exercises.py`: `course_lib/grading/task_sources.py`, which reads single
cells of it for `%solution`. Cells tagged `only-solution` or `only-exercise` appear in one of the two.
"""
