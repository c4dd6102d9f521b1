"""JUDGE: run an answer in fresh, confined ranks, say what was observed, and keep the results.

`grade(task, source)` is the only way in, for notebooks, the command line and CI alike. An answer goes through the
files in this order: `grade` -> `attempt` (gangs, trials; `harness` and `confine` are its part inside the ranks, `watch`
its guard outside) -> `judge` (data to verdict) -> `report` (verdict to text). `progress` remembers. The verdict is made
from data in the grader's own process, where the answer never runs. May import `tasks` and below, never the notebook.
"""

from course_lib.grading.grade import grade
from course_lib.grading.verdict import CheckResult, CheckState, Verdict, VerdictKind

__all__ = ["CheckResult", "CheckState", "Verdict", "VerdictKind", "grade"]
