"""From what is written by hand to the notebooks that are read: one way, executed, and checked.

    notebooks/sources/NN_topic.py  ->  notebooks/NN_topic.ipynb   a lesson
    solutions/sources/NN_topic.py  ->  solutions/NN_topic.ipynb   every task solved
                                   ->  exercises/NN_topic.ipynb   the same with holes to fill in

Rooms: ``plan`` (which notebook comes from which source), ``source`` (text to cells), ``execute`` (run them
on a real kernel), ``check`` (does a saved notebook still match), ``minutes`` (how long reading takes), ``promised``
(where that is written), ``claims`` (which cell shows which claim: docs/claims.md), ``cheatsheet`` (the rules of thumb:
docs/cheatsheet.html), ``instructor`` (plans and what to say:
docs/instructor.md, docs/instructor-lessons.md; from ``sections``, ``asked`` and the tasks), ``slides/``
(lessons as slides). Of the course, only ``instructor`` and ``slides`` import anything: tasks.

Promises: no text or code is ever read back from a notebook, so an edit made there is lost and ``check`` says
so first; ``--prose`` keeps the outputs where only text has changed. Building twice gives the same cells, ids
and metadata, and as the lessons' output is stable, the same file.

Sources are jupytext *percent* scripts and valid Python: **magics are written as comments** (``# %%ranks 4``,
``# %load_ext course_lib``) and jupytext uncomments them. That way ruff formats and lints the code under a
magic like any other code, editors complete it, and a review reads Python. What a magic binds (``--as out``)
ruff cannot see; pyproject.toml turns off just those rules for ``**/sources/*.py``. A comment cannot begin
with ``# %name`` or ``# !`` there: it would become a magic.

In a code cell of ``solutions/sources`` a hole is marked so::

    def mine(n, rank, world_size):
        ### BEGIN SOLUTION
        ### STUB: indices = ...  # which samples are this rank's?
        ### STUB: return indices
        return list(range(rank, n, world_size))
        ### END SOLUTION

The solution loses the markers and stub lines. The exercise gets ``# YOUR CODE HERE`` and then the stub
lines, or ``raise NotImplementedError`` where there are none, indented like the BEGIN line; what stands
after ``STUB:`` and one blank keeps its further indentation. Cells tagged ``only-solution`` or
``only-exercise`` appear in one of the two.
"""
