"""The words of `ddp-course` that are about tasks: one small module each, registered by `course_lib.cli`.

A module here turns words into one call of the room that does the work, prints what came back and picks the exit code.
Like `cli` it imports everything heavy inside the command, and nothing in the course imports it.
"""

from __future__ import annotations

import typer


def register(app: typer.Typer) -> None:
    """Add the commands of this package to the application."""
    from course_lib.commands import check, grade, new_task, progress, selfcheck

    app.command("check")(check.check)
    app.command("grade")(grade.grade)
    app.add_typer(progress.app, name="progress")
    app.command("selfcheck")(selfcheck.selfcheck)
    app.command("new-task")(new_task.new_task)
