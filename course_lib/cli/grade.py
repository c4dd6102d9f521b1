"""`ddp-course grade`: grade what a class has handed in."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from course_lib.grading.cells import SUFFIXES
from course_lib.grading.classroom import gradebook
from course_lib.grading.classroom.batch import ClassReport, Learner, grade_class
from course_lib.grading.classroom.gradebook import JSON_MARK
from course_lib.grading.classroom.layout import Layout
from course_lib.grading.classroom.pages import MARK, SIGNS, write_pages
from course_lib.grading.classroom.results import FILE_NAME, Results, ResultsError
from course_lib.grading.classroom.submissions import NoSubmissionsError, read_submissions
from course_lib.grading.plain_text import one_line
from course_lib.grading.terminal import console
from course_lib.tasks import Task, UnknownTaskError, all_tasks, find_task
from realranks.cli.progress_display import progress_bar
from realranks.own_files import NotOurFileError, check_ours, remember
from realranks.versions import versions_line

#: A terminal has room for the words of so many tasks beside each other.
MAX_COLUMNS = 6


def grade(
    submissions: Annotated[
        Path, typer.Argument(help="A folder with one sub-folder, or one notebook, for each learner.")
    ],
    jobs: Annotated[
        int | None,
        typer.Option("--jobs", "-j", min=1, help="Answers graded at the same time; by default one a core."),
    ] = None,
    csv: Annotated[Path | None, typer.Option("--csv", help="Write a table to this file.")] = None,
    csv_layout: Annotated[
        Layout,
        typer.Option(
            "--csv-layout", help="long: a row an answer; gradebook: a row a learner (Canvas); nbgrader."
        ),
    ] = Layout.LONG,
    json: Annotated[Path | None, typer.Option("--json", help="Write everything to this file.")] = None,
    html: Annotated[
        Path | None,
        typer.Option("--html", help="Write an overview and a page for each learner to this folder."),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Write also over files that this command did not write.")
    ] = False,
    lesson: Annotated[
        list[str] | None,
        typer.Option(
            "--lesson",
            metavar="LESSON",
            help="Grade the tasks of this lesson only, such as 03; may be repeated.",
        ),
    ] = None,
    task: Annotated[
        list[str] | None,
        typer.Option(
            "--task", metavar="TASK", help="Grade this task only, such as samplers.evaluate; may be repeated."
        ),
    ] = None,
    results: Annotated[
        Path | None,
        typer.Option(
            "--results",
            help="Where verdicts are kept from run to run. By default ddp-course-results.jsonl in SUBMISSIONS.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Grade a folder of learners, in parallel. Run again, only what is new or changed is graded.

    Exit code 0: everything could be read and graded. 1: something could not; it is named. 2: nothing to grade.
    """
    assigned = _assigned(lesson or [], task or [])
    kept = results if results is not None else submissions / FILE_NAME
    try:
        _check_outputs(submissions, csv, json, html, force)
        handed_in = read_submissions(
            submissions, [path for path in (kept, csv, json, html) if path is not None]
        )
        if not handed_in.submissions:
            typer.echo(f"There are no submissions in {submissions}.", err=True)
            raise typer.Exit(2)
        with Results(kept) as store:
            if store.damaged:
                typer.echo(f"{store.damaged} damaged line(s) in {kept}: graded again.", err=True)
            with progress_bar("grading") as tell:
                report = grade_class(handed_in, store, jobs or _cores(), tell, assigned)
            if report.graded:
                typer.echo(f"{report.graded} of {report.graded} answers graded", err=True)
        _write(report, csv, csv_layout, json, html)
    except (NoSubmissionsError, NotOurFileError, ResultsError) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from None
    except OSError as error:
        typer.echo(f"{error.filename} cannot be written: {error.strerror}.", err=True)
        raise typer.Exit(2) from None
    except KeyboardInterrupt:
        typer.echo("Stopped. What has been graded is kept: run the command again to go on.", err=True)
        raise typer.Exit(130) from None
    _print(report)
    raise typer.Exit(0 if report.flawless else 1)


def _assigned(lessons: list[str], names: list[str]) -> tuple[Task, ...] | None:
    """Return the named tasks in the course's order; None if none is named. Exits if a name is wrong."""
    try:
        meant = {find_task(name).name for name in names}
    except UnknownTaskError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from None
    for said in lessons:
        number = f"{int(said):02}_" if said.isdecimal() else said
        found = {
            task.name
            for task in all_tasks()
            if task.lesson in (said, said.removesuffix(".ipynb")) or task.lesson.startswith(number)
        }
        if not found:
            typer.echo(
                f"There is no lesson {said!r} with tasks; say 03 or 03_samplers, for example.", err=True
            )
            raise typer.Exit(2)
        meant |= found
    return tuple(task for task in all_tasks() if task.name in meant) or None


def _check_outputs(
    submissions: Path, csv: Path | None, json: Path | None, html: Path | None, force: bool
) -> None:
    """Refuse, before anything is graded, to write over what this command did not write.

    Raises:
        NotOurFileError: one line. What was handed in is never written over, `force` or not.
    """
    page = html / "index.html" if html is not None else None
    for path, mark in ((csv, ""), (json, JSON_MARK), (page, MARK)):
        if path is None:
            continue
        if path.suffix in SUFFIXES and path.resolve().is_relative_to(submissions.resolve()):
            raise NotOurFileError(
                f"{path} would be taken for something that was handed in: name another file."
            )
        if not force:
            check_ours(path, mark)
    if html is None or page is None or not html.exists():
        return
    if not html.is_dir():
        raise NotOurFileError(f"{html} is a file: --html names a folder.")
    if not force and not page.exists() and any(html.iterdir()):
        raise NotOurFileError(
            f"{html} holds something else than a report: name a new folder, or say --force."
        )


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _write(
    report: ClassReport, csv: Path | None, layout: Layout, json: Path | None, html: Path | None
) -> None:
    for path, text in ((csv, gradebook.as_csv(report, layout)), (json, gradebook.as_json(report))):
        if path is not None:
            path.write_text(text, encoding="utf-8", errors="backslashreplace", newline="")
            remember(path)
    if html is not None:
        typer.echo(f"Written: {write_pages(report, html)}", err=True)


def _print(report: ClassReport) -> None:
    screen = console()
    screen.print(_table(report))
    if len(report.tasks) > MAX_COLUMNS:
        screen.print(
            "A sign for each task, in the course's order: "
            + ", ".join(f"{s} {name}" for name, s in SIGNS.items())
        )
    if any(learner.problems for learner in report.learners):
        screen.print("(!) Something is wrong with this learner's files: see below.")
    if any(entry.worth_reading for learner in report.learners for entry in learner.entries.values()):
        screen.print("(read) This answer is worth reading: see below.")
    for common in report.commonest()[:5]:
        screen.print(f"{len(common.learners)} x {common.task}: {common.misconception.sentence}")
    for same in report.unnamed()[:5]:
        who = ", ".join(same.learners)
        screen.print(
            one_line(
                f"{len(same.learners)} x {same.task}, no known mistake; not met: {same.broken[0]} ({who})"
            )
        )
    for learner in report.learners:
        for remark in _remarks(learner):
            screen.print(one_line(f"{learner.name}: {remark}"))
    for note in report.notes:
        screen.print(one_line(note))
    screen.print(versions_line(), style="dim")


def _table(report: ClassReport) -> Table:
    """Build the table: a column for each task or, for many tasks, one per lesson with a sign for each of its tasks."""
    if len(report.tasks) > MAX_COLUMNS:
        return _signs(report)
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("learner")
    for task in report.tasks:
        table.add_column(task.name)
    table.add_column("passed", justify="right")
    for learner in report.learners:
        entries = [learner.entry(task) for task in report.tasks]
        states = (f"{entry.state} (read)" if entry.worth_reading else entry.state for entry in entries)
        name = one_line(learner.name) + (" (!)" if learner.problems else "")
        table.add_row(name, *states, f"{learner.score} of {report.max_score}")
    return table


def _signs(report: ClassReport) -> Table:
    lessons = dict.fromkeys(task.lesson for task in report.tasks)
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
    table.add_column("learner")
    for lesson in lessons:
        table.add_column(lesson[:2])
    table.add_column("passed", justify="right", no_wrap=True)
    for learner in report.learners:
        cells = (
            "".join(SIGNS[learner.entry(task).state] for task in report.tasks if task.lesson == lesson)
            for lesson in lessons
        )
        read = " (read)" if any(entry.worth_reading for entry in learner.entries.values()) else ""
        name = one_line(learner.name) + (" (!)" if learner.problems else "") + read
        table.add_row(name, *cells, f"{learner.score} of {report.max_score}")
    return table


def _remarks(learner: Learner) -> Iterator[str]:
    """Yield remarks about a learner to print beside the table."""
    yield from learner.problems
    for name, entry in learner.entries.items():
        if entry.problem:
            yield f"{name}: {entry.problem}"
        if entry.worth_reading:
            yield f"{name}: worth reading ({entry.place}): {'; '.join(entry.worth_reading)}"
