"""`%%task`, `%hint`, `%solution` and `%progress`: running a task's cell is checking it."""

from __future__ import annotations

import os
from pathlib import Path

from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import Magics, cell_magic, line_magic, magics_class
from IPython.core.magic_arguments import argument, magic_arguments

from course_lib.grading.cells import answer_in_file, has_code
from course_lib.grading.grader import grade
from course_lib.grading.hints import next_hint
from course_lib.grading.progress import Progress
from course_lib.grading.task_sources import task_cell
from course_lib.grading.verdict import VerdictKind, text_report
from course_lib.notebook.board import tell_verdict
from course_lib.notebook.course_map import lessons, newer_versions, text_map
from course_lib.notebook.hint_button import offer_hint
from course_lib.notebook.task_panel import html_hint, html_map, html_solution, html_verdict
from course_lib.tasks import Task, UnknownTaskError, find_task
from realranks.cells.judge import refusing
from realranks.cells.options import options_of
from realranks.cells.refused import UsageError
from realranks.cells.show import Trials, show_html

STRICT = "DDP_COURSE_STRICT"


class TaskNotPassed(Exception):
    """An answer did not pass where it has to: when the course's own solutions are built."""

    def _render_traceback_(self) -> list[str]:
        return [f"TaskNotPassed: {self}"]


@magics_class
class TaskMagics(Magics):
    """The magics for graded tasks; state is only which task was run last."""

    def __init__(self, shell: InteractiveShell) -> None:
        super().__init__(shell)
        self.last: Task | None = None
        self.progress_log = Progress()

    @magic_arguments()
    @argument("name", nargs="?", help="the task, as in samplers.evaluate")
    @argument("--seed", help="draw the cases from this number; left out: from the answer's own text")
    @argument(
        "--suspect", default="", help="of a script: a word of it that you suspect; the report is about it"
    )
    @cell_magic
    def task(self, line: str, cell: str) -> None:
        """Check this cell as the answer to a task: `%%task lesson.name`.

        The answer runs in fresh ranks: it sees nothing of the other cells, and they see nothing of it. A wrong
        answer does not fail the cell; the report says what was seen.
        """
        options = options_of(self.task, line, "%%task")
        task = self._find(options.name, "%%task")
        first_line = 2
        if task.script:
            cell, first_line = _script(task, cell)
        trials = Trials()
        with refusing():
            verdict = grade(task, cell, first_line=first_line, seed=_number(options.seed), tell=trials.tell)
        self.last = task
        self.progress_log.record(verdict)
        tell_verdict(verdict)
        trials.finish(text_report(verdict, options.suspect), html_verdict(verdict, options.suspect))
        if not verdict.passed:
            offer_hint(task, self.progress_log)
        self._tell_notices()
        good = (VerdictKind.PASS, VerdictKind.NOT_ATTEMPTED)
        if os.environ.get(STRICT) == "1" and verdict.kind not in good:
            raise TaskNotPassed(f"{task.name}: {verdict.kind} ({STRICT}=1)")

    @magic_arguments()
    @argument("name", nargs="?", help="the task; left out: the one that was checked last")
    @line_magic
    def hint(self, line: str) -> None:
        """Show the next hint for a task: `%hint lesson.name`."""
        task = self._find(options_of(self.hint, line, "%hint").name, "%hint")
        given = next_hint(task, self.progress_log)
        show_html(str(given), html_hint(given.title, list(given.hints), given.rest))
        self._tell_notices()

    @magic_arguments()
    @argument("name", nargs="?", help="the task; left out: the one that was checked last")
    @argument("--give-up", action="store_true", help="show it though no answer of yours has passed")
    @line_magic
    def solution(self, line: str) -> None:
        """Show a solution, once you have passed (`%solution lesson.name`) or want to give up."""
        options = options_of(self.solution, line, "%solution")
        task = self._find(options.name, "%solution")
        progress = self.progress_log.of(task.name)
        if not (progress.passed or progress.gave_up or options.give_up):
            raise UsageError(
                f"The solution of {task.name} opens once your answer has passed. "
                f"To see it before: %solution {task.name} --give-up"
            )
        if not progress.passed and not progress.gave_up:
            self.progress_log.give_up(task.name)
        source = task_cell(task, solved=True)
        if source is None:
            raise UsageError("The solution is not here: its lesson has no cell for it.")
        note = "One of several good ways: answers are judged by what they do."
        show_html(f"A solution of {task.name}\n\n{source}\n\n{note}", html_solution(task, source, note))
        self._tell_notices()

    @magic_arguments()
    @argument("lesson", nargs="?", default="", help="one lesson, as in 03")
    @line_magic
    def progress(self, line: str) -> None:
        """Show the course map, how far you are and what is next: `%progress`."""
        wanted = options_of(self.progress, line, "%progress").lesson
        shown = tuple(
            lesson
            for lesson in lessons(None, self.progress_log.predictions())
            if lesson.stem.startswith(wanted)
        )
        if not shown:
            raise UsageError(f"There is no lesson {wanted!r}; %progress shows all of them.")
        progress = self.progress_log.all()
        newer = newer_versions(Path.cwd())
        show_html("\n".join([text_map(shown, progress), *newer]), html_map(shown, progress, newer))
        self._tell_notices()

    def _find(self, name: str | None, magic: str) -> Task:
        if not name:
            if self.last is not None and magic != "%%task":
                return self.last
            raise UsageError(f"{magic} needs the name of a task, as in {magic} samplers.shard_indices")
        try:
            return find_task(name)
        except UnknownTaskError as error:
            raise UsageError(str(error)) from None

    def _tell_notices(self) -> None:
        for notice in self.progress_log.take_notices():
            print(notice)


def _script(task: Task, cell: str) -> tuple[str, int]:
    """Return the task's script and its first line: the cell's code, or else the file beside the notebook."""
    if has_code(cell):
        return cell, 2
    found = answer_in_file(task, Path.cwd())
    if found is None:
        raise UsageError(f"There is no file {task.script} beside this notebook.")
    return found.source, found.first_line


def _number(text: str | None) -> int | None:
    if text is None:
        return None
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"%%task --seed takes a whole number, not {text!r}.") from None


def register(shell: InteractiveShell) -> None:
    """Give an IPython shell the magics of this module."""
    shell.register_magics(TaskMagics(shell))
