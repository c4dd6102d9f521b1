"""ASK: what graded tasks are made of. Each is a class in a file of its own, in the `tasks/` of its lesson's folder.

To add a task, put a file with a `Task` class there: nothing else has to be registered.
`task` holds what a task is made of, `compared` the base of those whose observations are compared with an oracle,
`catalogue` finds them by name, `toys` has the small data sets and models that answers are run on, and reads what they
give. May import `doctor`, `watch` and `ranks`; importing it imports no torch (that happens inside ranks).
"""

from course_lib.tasks.catalogue import UnknownTaskError, all_tasks, find_task
from course_lib.tasks.task import Check, Miss, Task, Trial, check
from course_lib.tasks.words import Misconception

__all__ = [
    "Check",
    "Misconception",
    "Miss",
    "Task",
    "Trial",
    "UnknownTaskError",
    "all_tasks",
    "check",
    "find_task",
]
