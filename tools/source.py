"""From a source to the cells of a notebook, not yet executed. Pure: nothing is run or written."""

import hashlib
from collections import Counter
from collections.abc import Callable

import jupytext
import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_raw_cell

from course_lib.grading.task_sources import BEGIN, PLACEHOLDER, open_holes
from tools.plan import BuildError, Edition, Target

# The kernel reports its exact Python version here; a lesson is not to change because a patch release did.
NOTEBOOK_METADATA = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {
        "codemirror_mode": {"name": "ipython", "version": 3},
        "file_extension": ".py",
        "mimetype": "text/x-python",
        "name": "python",
        "nbconvert_exporter": "python",
        "pygments_lexer": "ipython3",
    },
}
_JUPYTEXT_OWN = {"lines_to_next_cell", "lines_to_end_of_cell_marker", "cell_marker", "title", "cell_depth"}
_EDITION_TAG = {"only-solution": Edition.SOLUTION, "only-exercise": Edition.EXERCISE}
# nbval lets a cell with this tag pass whether it raises or not: `--expect raises` says which, and is checked.
_FORBIDDEN = {"raises-exception", "nbval-raises-exception"}


def notebook_for(target: Target) -> nbformat.NotebookNode:
    """Return the notebook that the target's source describes, without outputs.

    Raises BuildError naming the cell for unbalanced solution markers, an empty code cell or a forbidden
    tag, and for an exercise without a hole.
    """
    new_cell: dict[str, Callable[..., nbformat.NotebookNode]] = {
        "code": new_code_cell,
        "markdown": new_markdown_cell,
        "raw": new_raw_cell,
    }
    text = target.source.read_text(encoding="utf-8")
    parsed = jupytext.reads(text, fmt={"extension": ".py", "format_name": "percent", "comment_magics": True})
    cells: list[nbformat.NotebookNode] = []
    for number, cell in enumerate(parsed.cells, start=1):
        metadata = nbformat.NotebookNode(
            {key: value for key, value in cell.metadata.items() if key not in _JUPYTEXT_OWN}
        )
        if not _belongs(metadata, target.edition):
            continue
        try:
            source = _source_of(cell, metadata, target.edition)
        except ValueError as error:
            raise BuildError(f"{target.source.name}, cell {number}: {error}") from None
        cells.append(new_cell[cell.cell_type](source=source, metadata=metadata))
    if target.edition is Edition.EXERCISE and not any(PLACEHOLDER in cell.source for cell in cells):
        raise BuildError(f"{target.source.name}: an exercise with nothing to fill in ({BEGIN} is nowhere)")
    _number(target.name, cells)
    notebook: nbformat.NotebookNode = new_notebook(cells=cells, metadata=NOTEBOOK_METADATA)
    return notebook


def _source_of(cell: nbformat.NotebookNode, metadata: nbformat.NotebookNode, edition: Edition) -> str:
    source = str(cell.source)
    if cell.cell_type != "code":
        return source
    if not source.strip():
        raise ValueError("a code cell without code is never run")
    if forbidden := _FORBIDDEN & set(metadata.get("tags", ())):
        raise ValueError(f"tag {forbidden.pop()!r} passes also when nothing raises; use --expect")
    if edition is Edition.LESSON:
        if BEGIN in source:
            raise ValueError(f"{BEGIN} belongs into solutions/sources")
        return source
    return open_holes(source, solved=edition is Edition.SOLUTION)


def _belongs(metadata: nbformat.NotebookNode, edition: Edition) -> bool:
    """Whether the cell is in this edition; takes the tags that decide it out of the metadata."""
    tags = metadata.pop("tags", [])
    editions = {_EDITION_TAG[tag] for tag in tags if tag in _EDITION_TAG}
    if others := [tag for tag in tags if tag not in _EDITION_TAG]:
        metadata["tags"] = others
    return not editions or edition in editions


def _number(name: str, cells: list[nbformat.NotebookNode]) -> None:
    """Give each cell an id from its content (and its turn among equals), so that a rebuild changes no id."""
    seen: Counter[str] = Counter()
    for cell in cells:
        content = f"{name}\n{cell.cell_type}\n{cell.source}"
        cell.id = hashlib.sha256(f"{content}\n{seen[content]}".encode()).hexdigest()[:12]
        seen[content] += 1
