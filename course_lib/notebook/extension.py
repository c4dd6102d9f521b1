"""Loading the course by `%load_ext course_lib`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from course_lib.notebook import board, task_magics
from course_lib.notebook.links import linked
from course_lib.notebook.predict import predict
from realranks.cells import extension as engine
from realranks.cells import show
from realranks.versions import version

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

#: Before this release DDP and torch.distributed lack what some cells show (docs/platforms.md).
_CHECKED = (2, 13)


def load(shell: InteractiveShell) -> None:
    """Load the engine, register the magics of the course, bring `predict` into the notebook, start loading torch."""
    engine.load(shell)
    show.rewrite_html(linked)
    board.register(shell)
    task_magics.register(shell)
    shell.push({"predict": predict}, interactive=False)
    if show.is_attended():
        from IPython.display import display

        script = Path(__file__).with_name("explanations.js").read_text(encoding="utf-8")
        display({"text/plain": "", "text/html": f"<script>{script}</script>"}, raw=True)
    here = version("torch")
    if show.is_attended() and here[0].isdigit() and tuple(map(int, here.split(".")[:2])) < _CHECKED:
        print(
            f"This is torch {here}. The lessons were checked with 2.13: a few cells of lessons 06, 07, 09, 13 and "
            "of the capstone show what is new in it, and end with an error here."
        )
    engine.load_torch()
