"""The place of the learner's copy."""

from __future__ import annotations

import os
from pathlib import Path

from course_lib.learner.course import is_checkout

VARIABLE = "DDP_COURSE_LEARNER"
#: Below a checkout; git ignores it.
NAME = "learner"


def learner_folder(course: Path) -> Path:
    """Return this user's copy of the course in the folder `course`; it need not exist yet.

    DDP_COURSE_LEARNER, where it is set; `learner/` in a checkout that belongs to this user; otherwise (a read-only
    checkout, somebody else's, an installed package) `ddp-course` in the user's home folder.
    """
    chosen = os.environ.get(VARIABLE)
    if chosen:
        return Path(chosen).expanduser().absolute()
    if is_checkout(course) and _is_ours(course):
        return course / NAME
    at_home = Path.home() / "ddp-course"
    # Many people clone the course to this very place, and may run another one.
    return at_home / NAME if is_checkout(at_home) else at_home


def _is_ours(course: Path) -> bool:
    """Return whether this user may have a copy there: the owner may; a group's write permission is not enough."""
    inside = course / NAME
    where = inside if inside.exists() else course
    if not os.access(where, os.W_OK | os.X_OK):
        return False
    # A group that shares a checkout would share one copy. In a container everybody is root, and a home folder is lost.
    me = os.geteuid() if hasattr(os, "geteuid") else 0
    return me in (0, where.stat().st_uid)
