"""The front page's cell and the ways to break it, each with what real ranks say of it while the site is built."""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import escape
from pathlib import Path

import nbformat

from tools.execute import execute
from tools.site.lessons import fenced, output_html

_CALL = "dist.all_reduce(x)"
CELL = f"""\
%%ranks 4
import torch
import torch.distributed as dist
rank = dist.get_rank()
x = torch.ones(2)
{_CALL}
x"""
#: By what a visitor chooses: what stands in the place of the call.
CHOICES = {
    "Nothing": _CALL,
    "Rank 2 skips it": f"if rank != 2:\n    {_CALL}",
    "Rank 1 brings another shape": f"if rank == 1:\n    x = torch.ones(3)\n{_CALL}",
    "Rank 3 raises an error first": f'if rank == 3:\n    raise ValueError("no data")\n{_CALL}',
    "Rank 0 calls a barrier first": f"if rank == 0:\n    dist.barrier()\n{_CALL}",
}


def run_choices(course: Path) -> dict[str, nbformat.NotebookNode]:
    """Run the cell on four real ranks in each way.

    Returns:
        the executed cells, by choice.

    Raises:
        BuildError: there are no ranks, or the sound cell fails.
    """
    cells = [
        nbformat.v4.new_code_cell(
            CELL.replace(_CALL, code), metadata={"tags": ["raises-exception"] if code != _CALL else []}
        )
        for code in CHOICES.values()
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("%load_ext course_lib"), *cells])
    execute(notebook, "the front page", course)
    return dict(zip(CHOICES, notebook.cells[1:], strict=True))


def front_cell(course: Path, lessons: Mapping[str, str]) -> str:
    """Return the choices with each cell and what ranks say of it, as Markdown; site.css shows the chosen one.

    Args:
        lessons: addresses of lessons' pages, by number.
    """
    cells = run_choices(course)
    choices = "\n".join(
        f'<label><input type="radio" name="break"{"" if number else " checked"}> {escape(choice)}</label>'
        for number, choice in enumerate(cells)
    )
    sources = "\n\n".join(f"<div>\n\n{_source(cell.source)}\n\n</div>" for cell in cells.values())
    outputs = "".join(
        f'<div class="output">{"".join(map(output_html, cell.outputs))}</div>' for cell in cells.values()
    )
    outputs = re.sub(r"lesson (\d\d)", lambda found: f'<a href="{lessons[found[1]]}">{found[0]}</a>', outputs)
    # A live region is announced for what comes into it: one around all verdicts, instead of each its own.
    outputs = outputs.replace(' role="status"', "")
    return (
        f'<fieldset class="break"><legend>Break this cell: what goes wrong?</legend>\n{choices}\n</fieldset>\n\n'
        f'<div class="broken">\n\n{sources}\n\n</div>\n\n'
        + fenced(f'<div class="broken" aria-live="polite">{outputs}</div>')
    )


def _source(source: str) -> str:
    sound = CELL.splitlines()
    changed = [str(number) for number, line in enumerate(source.splitlines(), 1) if line not in sound]
    marked = f":emphasize-lines: {','.join(changed)}\n" if changed else ""
    return f"```{{code-block}} python\n:linenos:\n{marked}\n{source}\n```"
