"""A button below a verdict for the task's next hint: the same as `%hint`, without a cell for it."""

from __future__ import annotations

import contextlib

from course_lib.grading.hints import next_hint
from course_lib.grading.progress import Progress
from course_lib.notebook.task_panel import html_hint
from course_lib.tasks import Task
from realranks.cells.show import is_attended, widget_view
from realranks.outcome.html import note


def offer_hint(task: Task, progress: Progress) -> None:
    """Show the button, where somebody can press it; the hints come below it."""
    if not is_attended() or not task.hints:
        return
    with contextlib.suppress(ImportError):
        import ipywidgets as widgets
        from IPython.display import display

        button = widgets.Button(layout=widgets.Layout(width="auto"))
        hints = widgets.VBox()

        def label() -> None:
            known, total = progress.of(task.name).hints, len(task.hints)
            button.description = f"Hint {known + 1} of {total}" if known < total else f"All {total} hints"

        def give(_: object) -> None:
            given = next_hint(task, progress)
            notices = "".join(map(note, progress.take_notices()))
            shown = widgets.HTML(html_hint(given.title, list(given.hints), given.rest) + notices)
            all_again = len(given.hints) > 1
            hints.children = (shown,) if all_again else (*hints.children, shown)
            label()

        label()
        button.on_click(give)
        view = widget_view(widgets.VBox([button, hints]))
        display({"text/plain": "", **view}, raw=True)
