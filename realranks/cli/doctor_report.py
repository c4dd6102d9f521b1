"""The doctor's report in a terminal: the same words as the plain text, in columns that fit its width.

Where the output goes to a file or a pipe it stays plain text, one line a rank, for other programs to read.
"""

from __future__ import annotations

import re

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

#: `ranks 0,1  waiting in barrier() at train.py, line 3  ◀ odd one out`
_WHO_WHAT = re.compile(r"(ranks? [\d,-]+) {2,}(.*?)(?:  (◀ .*))?")
_HEADS = ("Diagnosis: ", "Worth knowing: ")


def show(report: str, console: Console | None = None) -> None:
    """Print a report of `scripts.examine.verdict_text`."""
    console = console or Console(highlight=False)
    if console.is_terminal:
        console.print(fitted(report))
    else:
        console.file.write(report + "\n")


def fitted(report: str) -> RenderableType:
    """Format the report for rich: what happened in bold, the ranks in a table."""
    parts: list[RenderableType] = []
    ranks: Table | None = None
    for line in report.split("\n"):
        found = _WHO_WHAT.fullmatch(line.strip())
        if found is None:
            ranks = None
            parts.append(_sentence(line))
            continue
        if ranks is None:
            ranks = Table.grid(padding=(0, 2, 0, 0))
            ranks.add_column(no_wrap=True)
            ranks.add_column(overflow="fold")
            parts.append(Padding(ranks, (0, 0, 0, 2)))
        who, what, mark = found.groups()
        text = Text(what)
        if mark:
            text.append(f"  {mark}", "bold")
        ranks.add_row(Text(who, "bold" if mark else ""), text)
    return Group(*parts)


def _sentence(line: str) -> RenderableType:
    if line.startswith(_HEADS):
        return Text(line, "bold")
    indent = len(line) - len(line.lstrip())
    return Padding(Text(line.strip()), (0, 0, 0, indent))
