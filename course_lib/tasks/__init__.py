"""ASK: the graded tasks, one file a lesson, each task one class.

To add a task, write a `Task` class in the file of its lesson (or a new file here): nothing else has to be registered.
`task` holds what a task is made of, `catalogue` finds them by name, `toys` the small data sets and models that answers
are run on. May import `doctor`, `watch` and `ranks`; importing it imports no torch (that happens inside ranks).
"""

from course_lib.tasks.catalogue import UnknownTaskError, all_tasks, find_task
from course_lib.tasks.task import Check, Miss, Misconception, Task, Trial, check

__all__ = [
    "Check",
    "Miss",
    "Misconception",
    "Task",
    "Trial",
    "UnknownTaskError",
    "all_tasks",
    "check",
    "find_task",
]
