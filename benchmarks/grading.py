"""Grading the course's own solutions: by the grader, and by one `torchrun` for each task and number of ranks.

Both run the same calls of the same answers and hold the results against the same oracle. What only the grader does -
limits, watching for deadlocks, a folder and processes of the answer's own - is in its time, and not in torchrun's.
"""

from __future__ import annotations

import json
import random
import tempfile
import time
from pathlib import Path

from benchmarks import workloads
from benchmarks.gangs import Failed, make
from course_lib.grading.attempt import Attempt, End
from course_lib.grading.grader import grade
from course_lib.grading.judge import judge
from course_lib.grading.task_sources import task_cell
from course_lib.tasks import Task, all_tasks
from course_lib.tasks.task import Trial
from realranks.ranks.kernel.launcher import warm_up


def solutions() -> dict[Task, str]:
    """Collect the course's own answer to every task, and start what the grader needs, as a notebook does.

    Answers that are scripts are left out: the grader, too, has them started by torchrun.
    """
    warm_up().wait_ready()
    cells = {task: task_cell(task, solved=True) for task in all_tasks() if not task.script}
    return {task: source for task, source in cells.items() if source is not None}


def seconds_by_grader(task: Task, source: str) -> float:
    """Time the grading on all world sizes, up to the text the learner reads."""
    before = time.perf_counter()
    verdict = grade(task, source)
    text = repr(verdict)
    seconds = time.perf_counter() - before
    if not verdict.passed:
        raise Failed(text)
    return seconds


def seconds_by_torchrun(task: Task, source: str) -> float:
    """Time the same trials with `torchrun`, one start after the other; judging is not counted."""
    trials: list[Trial] = []
    seconds = 0.0
    for world_size in task.world_sizes:
        cases = list(task.cases(world_size, random.Random(f"0/{world_size}")))
        with tempfile.TemporaryDirectory() as folder:
            ranks = make("torchrun", world_size)
            try:
                seconds += ranks.start()
                before = time.perf_counter()
                ranks.run(workloads.trials(task.name, source, json.dumps(cases), folder))
                seconds += time.perf_counter() - before
            finally:
                ranks.stop()
            said = {
                rank: json.loads(Path(folder, str(rank)).read_text(encoding="utf-8"))
                for rank in range(world_size)
            }
        trials += [
            Trial(
                world_size,
                case,
                said[0]["oracle"][number],
                {rank: said[rank]["seen"][number] for rank in said},
            )
            for number, case in enumerate(cases)
        ]
    verdict = judge(task, Attempt(tuple(trials), ("",) * len(trials), End.COMPLETE), seed=0)
    if not verdict.passed:
        raise Failed(repr(verdict))
    return seconds
