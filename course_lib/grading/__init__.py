"""JUDGE: run an answer in fresh, confined ranks, say what was observed, and keep the results.

`grader.grade(task, source)` is the only way in, for notebooks, the command line and CI alike. An answer goes through
the files in this order: `grader` -> `attempt` (trials on `gangs`; `harness` and `confine` are its part inside the
ranks, `process_limits` their guard outside) -> `judge` (data to `verdict`, which has its text; `terminal` draws it).
`progress` remembers. The verdict is made from data in the grader's own process, where the answer never runs. `cells`
finds answers in files, `check` grades them there, `classroom` grades a class, `selfcheck` the tasks themselves. May
import `tasks` and below, never the notebook. This package itself imports none of its files: a rank loads it for
`harness` alone.
"""

from __future__ import annotations

from realranks.ranks.server.preload import preload_also

#: What runs around an answer inside each rank; forkservers that start from now on have it loaded.
HARNESS = f"{__name__}.loaded_early"
preload_also(HARNESS)
