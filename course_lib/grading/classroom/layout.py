"""The layouts of a CSV file of results; apart, so that a command line can name them without loading the grader."""

from __future__ import annotations

import enum


class Layout(enum.StrEnum):
    """One row a learner and task; one row a learner (Canvas); one row a learner and lesson (as nbgrader exports)."""

    LONG = "long"
    GRADEBOOK = "gradebook"
    NBGRADER = "nbgrader"
