"""A saved notebook as a page of Markdown. What a run has answered is behind a click, as in the learner's copy."""

from __future__ import annotations

import re
from collections.abc import Collection
from html import escape
from typing import Any

from course_lib.learner.course import Cell, fold_explanations
from tools.site.explorables import alive

_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_SHOW = "What the run says"


def page_of(notebook: dict[str, Any], top: str = "", recorded: Collection[str] | None = None) -> str:
    """Return the notebook as Markdown for MyST.

    Args:
        notebook: as `json.load` reads it; its cells are changed.
        top: Markdown that comes after the first cell.
        recorded: see `explorables.alive`.
    """
    cells: list[Cell] = notebook["cells"]
    answers = [id(cell) for cell in fold_explanations(cells)]
    pages = [
        "".join(cell["source"])
        if cell["cell_type"] == "markdown"
        else _code(cell, recorded, folded=id(cell) in answers)
        for cell in cells
    ]
    return "\n\n".join(filter(None, [pages[0], top, *pages[1:]])) + "\n"


def _code(cell: Cell, recorded: Collection[str] | None, *, folded: bool) -> str:
    source = "".join(cell["source"])
    hidden = cell["metadata"].get("jupyter") == {"source_hidden": True}
    code = f"``````ipython3\n{source}\n``````"
    played = "".join(alive(source, output, recorded) for output in cell["outputs"])
    shown = played or "\n".join(map(output_html, cell["outputs"]))
    if not shown.strip():
        return "" if hidden else code
    out = fenced(f'<div class="output">{shown}</div>')
    if hidden:
        return _details(_SHOW, f"{code}\n\n{out}")
    return f"{code}\n\n{_details(_SHOW, out) if folded and not played else out}"


def output_html(output: dict[str, Any]) -> str:
    """Return the HTML of one output: the lessons have text, HTML and the images of matplotlib."""
    data = {
        kind: "".join(value) for kind, value in output.get("data", {}).items() if kind != "application/json"
    }
    if output["output_type"] == "stream":
        return f"<pre>{_printed(''.join(output['text']))}</pre>"
    if output["output_type"] == "error":
        return f"<pre>{_printed(chr(10).join(output['traceback']))}</pre>"
    if "text/html" in data:
        return data["text/html"]
    if "image/png" in data:
        alt = (
            output["metadata"].get("image/png", {}).get("alt")
            or output["metadata"].get("alt")
            or data["text/plain"]
        )
        return f'<img alt="{escape(alt)}" src="data:image/png;base64,{data["image/png"].strip()}">'
    return f"<pre>{escape(data['text/plain'])}</pre>"


def fenced(html: str) -> str:
    """Fence HTML off from Markdown: the fence is longer than any in it."""
    ticks = "`" * max(7, 1 + max(map(len, re.findall("`+", html)), default=0))
    return f"{ticks}{{raw}} html\n{html}\n{ticks}"


def _details(summary: str, inside: str) -> str:
    return f"<details><summary>{summary}</summary>\n\n{inside}\n\n</details>"


def _printed(text: str) -> str:
    return escape(_ANSI.sub("", text))
