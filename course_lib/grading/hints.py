"""The hints of a task, one after the other: the same in a notebook and in a terminal, and counted in either."""

from __future__ import annotations

from dataclasses import dataclass

from course_lib.grading.progress import Progress
from course_lib.tasks import Task


@dataclass(frozen=True)
class HintGiven:
    """A hint as the learner reads it: a title, the hint (all of them once there are no more), and what is left."""

    title: str
    hints: tuple[str, ...]
    rest: str

    def __str__(self) -> str:
        return "\n".join([self.title, *(f"  {hint}" for hint in self.hints), f"  {self.rest}"])


def next_hint(task: Task, progress: Progress) -> HintGiven:
    """Return the hint after those that the learner has seen; it is counted in `progress`."""
    known, total = progress.of(task.name).hints, len(task.hints)
    if known >= total:
        return HintGiven(
            f"All {total} hints for {task.name}",
            task.hints,
            f"There are no more. To see a solution: %solution {task.name}",
        )
    progress.hint(task.name)
    left = total - known - 1
    return HintGiven(
        f"Hint {known + 1} of {total} for {task.name}",
        (task.hints[known],),
        f"{left} more, when you need it." if left else "That was the last one.",
    )
