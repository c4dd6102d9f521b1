"""JUDGE: run an answer in fresh, confined ranks, say what was observed, and keep the results.

`grade(task, source)` is the only way in, for notebooks, the command line and CI alike. An answer goes through the
files in this order: `grader` -> `attempt` (trials on `gangs`; `harness` and `confine` are its part inside the ranks,
`process_limits` their guard outside) -> `judge` (data to a `verdict`) -> `verdict_text` (its words; `terminal` draws
it). `progress` remembers. The verdict is made from data in the grader's own process, where the answer never runs.
`cells` finds answers in files, `check` grades them there, `classroom` grades a class, `selfcheck` the tasks themselves.
May import `tasks` and below, never the notebook.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from course_lib.ranks.server.preload import preload_also

if TYPE_CHECKING:
    from course_lib.grading.grader import grade
    from course_lib.grading.verdict import CheckResult, CheckState, Verdict, VerdictKind

__all__ = ["HARNESS", "CheckResult", "CheckState", "Verdict", "VerdictKind", "grade"]

#: What runs around an answer inside each rank; forkservers that start from now on have it loaded.
HARNESS = f"{__name__}.harness"
preload_also(HARNESS)


def __getattr__(name: str) -> object:
    # Ranks import this package for `harness` alone: everything else would cost each of them a tenth of a second.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from course_lib.grading import grader, verdict

    return getattr(grader, name) if name == "grade" else getattr(verdict, name)
