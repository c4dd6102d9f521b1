"""Reading a source: the cells of a notebook, not yet executed. Pure: nothing is run or written."""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import jupytext
import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_raw_cell

from course_lib.grading.task_sources import BEGIN, PLACEHOLDER, open_holes
from course_lib.syllabus import all_lessons
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
# Tags of cells that another notebook takes, where it says `from="06 two-hours-3"`, begin so.
_TAKEN = "two-hours-"
# nbval lets a cell with this tag pass whether it raises or not: `--expect raises` says which, and is checked.
_FORBIDDEN = {"raises-exception", "nbval-raises-exception"}


def notebook_for(target: Target) -> nbformat.NotebookNode:
    """Return the notebook that the target's source describes, without outputs.

    Raises BuildError naming the cell for unbalanced solution markers, an empty code cell or a forbidden
    tag, for an exercise without a hole, and where cells of a lesson are to be taken and it has none.
    """
    new_cell: dict[str, Callable[..., nbformat.NotebookNode]] = {
        "code": new_code_cell,
        "markdown": new_markdown_cell,
        "raw": new_raw_cell,
    }
    cells: list[nbformat.NotebookNode] = []
    for number, cell in enumerate(_cells_of(target), start=1):
        metadata = nbformat.NotebookNode(
            {key: value for key, value in cell.metadata.items() if key not in _JUPYTEXT_OWN}
        )
        if not _belongs(metadata, target.edition):
            continue
        try:
            source = _source_of(cell, metadata, target.edition)
        except ValueError as error:
            raise BuildError(f"{target.file}, cell {number}: {error}") from None
        if (
            target.edition is Edition.LESSON
            and cells
            and not metadata
            and {cell.cell_type, cells[-1].cell_type} == {"markdown"}
        ):
            cells[-1].source += f"\n\n{source}"  # cut where another notebook takes a part of it
            continue
        cells.append(new_cell[cell.cell_type](source=source, metadata=metadata))
    if target.edition is Edition.EXERCISE and not any(PLACEHOLDER in cell.source for cell in cells):
        raise BuildError(f"{target.file}: an exercise with nothing to fill in ({BEGIN} is nowhere)")
    _number(target.name, cells)
    notebook: nbformat.NotebookNode = new_notebook(cells=cells, metadata=NOTEBOOK_METADATA)
    return notebook


def _cells_of(target: Target) -> Iterator[nbformat.NotebookNode]:
    """Yield the cells of a source; in place of one that says `from`, those of a lesson that have its tag."""
    for cell in _read(target.source):
        if (wanted := cell.metadata.get("from")) is None:
            yield cell
            continue
        number, _, tag = wanted.partition(" ")
        lessons = [each for each in all_lessons(target.source.parent) if each.name[:2] == number]
        taken = [
            each
            for lesson in lessons
            for each in _read(lesson.folder / "lesson.py")
            if tag in each.metadata.get("tags", ())
        ]
        if not (taken and tag.startswith(_TAKEN)):
            raise BuildError(f"{target.file}: lesson {number} has no cell with the tag {tag!r}")
        for each in taken:
            each.metadata.pop("claims", None)  # shown once, in its lesson
        yield from taken


def _read(source: Path) -> list[nbformat.NotebookNode]:
    fmt = {"extension": ".py", "format_name": "percent", "comment_magics": True}
    cells: list[nbformat.NotebookNode] = jupytext.reads(source.read_text(encoding="utf-8"), fmt=fmt).cells
    return cells


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
            raise ValueError(f"{BEGIN} belongs into exercises.py")
        return source
    return open_holes(source, solved=edition is Edition.SOLUTION)


def _belongs(metadata: nbformat.NotebookNode, edition: Edition) -> bool:
    """Return whether the cell is in this edition; take the tags that decide it out of the metadata."""
    tags = metadata.pop("tags", [])
    editions = {_EDITION_TAG[tag] for tag in tags if tag in _EDITION_TAG}
    if others := [tag for tag in tags if tag not in _EDITION_TAG and not tag.startswith(_TAKEN)]:
        metadata["tags"] = others
    return not editions or edition in editions


def _number(name: str, cells: list[nbformat.NotebookNode]) -> None:
    """Give each cell an id from its content (and its turn among equals), so that a rebuild changes no id."""
    seen: Counter[str] = Counter()
    for cell in cells:
        content = f"{name}\n{cell.cell_type}\n{cell.source}"
        cell.id = hashlib.sha256(f"{content}\n{seen[content]}".encode()).hexdigest()[:12]
        seen[content] += 1
