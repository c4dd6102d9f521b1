"""Grade one answer: the same in a notebook, on the command line and in CI."""

from __future__ import annotations

import dataclasses
import hashlib
import time

from course_lib.grading.attempt import Tell, attempt
from course_lib.grading.judge import judge, judge_source
from course_lib.grading.likeness import names_like
from course_lib.grading.process_limits import NothingLeft, folder_of_its_own
from course_lib.grading.verdict import Verdict
from course_lib.tasks import Task, find_task


def grade(
    task: Task | str,
    source: str,
    *,
    first_line: int = 1,
    seed: int | None = None,
    seeds: int = 1,
    tell: Tell | None = None,
    even_untouched: bool = False,
) -> Verdict:
    """Run an answer in fresh ranks and judge what it did there.

    Args:
        task: a task or its name. source: the answer, as written in its cell (without the magic line).
        first_line: the number of its first line where the learner sees it (2 in a cell that begins with a magic).
        seed: what the cases are drawn from. By default it comes from the source: the same answer is always tried on
            the same cases, every other answer on other ones.
        seeds: from how many seeds cases are drawn: from `seed` and those that follow it. All are tried in the same
            ranks, and the verdict is on all of them together.
        tell: called after each trial (a call of the answer on all ranks), and after each known mistake that an answer
            is compared with, with what is counted, the number of those done, and of all.
        even_untouched: also run a script that is as it was handed out, with its faults.

    Returns:
        The verdict. Whatever the answer does, this returns within the task's time limit and a few seconds; nothing
        the answer started is left behind.

    Raises:
        UnknownTaskError: no such task. GangError, LaunchError: this machine cannot start the ranks.
        KeyboardInterrupt: the stop button was pressed; the ranks are gone.
    """
    if isinstance(task, str):
        task = find_task(task)
    if seed is None:
        seed = seed_of(task.name, source)
    verdict = judge_source(task, source, first_line, seed, even_untouched=even_untouched)
    if verdict is not None:
        return verdict
    started = time.monotonic()
    with (
        folder_of_its_own() as folder,
        NothingLeft(),
    ):
        drawn_from = range(seed, seed + seeds)
        ran = attempt(task, source, first_line, drawn_from, folder, tell)
        verdict = judge(task, ran, seed)
    if not verdict.passed and not verdict.misconceptions and (like := names_like(task, ran, tell)):
        verdict = judge(task, dataclasses.replace(ran, like=like), seed)
    return dataclasses.replace(verdict, seconds=time.monotonic() - started)


def seed_of(name: str, source: str) -> int:
    """Return a seed that belongs to this answer."""
    lines = "\n".join(line.rstrip() for line in source.strip().splitlines())
    return (
        int.from_bytes(hashlib.sha256(f"{name}\n{lines}".encode(errors="replace")).digest()[:3], "big")
        % 1_000_000
    )
