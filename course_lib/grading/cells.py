"""Find the task cells in a learner's file: a notebook of any format, or a script with `# %%task name` lines.

Runs nothing of what it reads, and never raises for what a file holds or is: what cannot be read becomes a problem, one
line each. nbformat is imported here when the first notebook is read, because that takes more than a second.
"""

from __future__ import annotations

import ast
import json
import os
import re
import stat
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from course_lib.learner.course import course_folder
from course_lib.tasks import Task, UnknownTaskError, find_task
from realranks.outcome.syntax import parsed

if TYPE_CHECKING:
    from nbformat import NotebookNode

#: Larger files, and larger cells, are nothing that a learner has written.
MAX_BYTES, MAX_SOURCE = 256 << 20, 1 << 20
SUFFIXES = (".ipynb", ".py")

_MAGIC = re.compile(r"%%task(?:[ \t]+(?P<name>[^\s#]\S*))?(?P<rest>.*)")
_SEED = re.compile(r"--seed[= ]\s*(\d+)")
_SCRIPT_CELL = re.compile(r"#[ \t]*%%(?P<magic>\S*)")


@dataclass(frozen=True)
class TaskCell:
    """An answer as it is in a file.

    Attributes:
        task: the task's name. source: the cell without its magic line.
        first_line: the number of the source's first line, counted in the cell (notebook) or in the file (script).
        place: `cell 4` or `line 12`. seed: what the learner wants the cases to be drawn from, if anything.
        script: the file beside the notebook that a cell without code means; None where the answer is in the cell.
    """

    task: str
    source: str
    first_line: int
    place: str
    seed: int | None = None
    script: Path | None = None


@dataclass(frozen=True)
class Reading:
    """The contents of a file: its task cells in order, and its problems.

    Attributes:
        unreadable: what it holds is not known; not the same as a file in which nothing is answered.
    """

    cells: tuple[TaskCell, ...] = ()
    problems: tuple[str, ...] = ()
    unreadable: bool = False


def complaint(file: str, problem: str) -> str:
    """Return a problem of `Reading` as a sentence that begins with the file's name."""
    separator = ", " if problem.startswith(("cell ", "line ")) else " "
    return f"{file}{separator}{problem}" + ("" if problem.endswith((".", "?")) else ".")


def shown_path(file: Path) -> str:
    """Return a file's path relative to the current folder, where it is below it; else the whole path."""
    near = os.path.relpath(file)
    return near if not near.startswith(os.pardir) else str(file)


def answer_in_file(task: Task, folder: Path) -> TaskCell | None:
    """Return the answer to a task whose answer is a whole script below this folder; None where it is not.

    The line that names the task is the file's first one, and may be missing.
    """
    path = folder / task.script
    if not task.script or not path.is_file():
        return None
    for cell in read_cells(path).cells:
        if cell.task == task.name:
            return cell
    try:
        return TaskCell(task.name, _text(path), 1, "line 1")
    except _Unreadable:
        return None


def handed_out(task: Task) -> str | None:
    """Return the script that learners are given to repair; None for other tasks, or without the course's folder."""
    course = course_folder()
    found = answer_in_file(task, course / "exercises") if task.script and course is not None else None
    return found.source if found is not None else None


def is_untouched(task: Task, source: str) -> bool:
    """Return whether no code of a script has been changed; comments and empty lines are not an answer."""
    given = handed_out(task)
    return given is not None and ast.dump(parsed(given)) == ast.dump(parsed(source))


def has_code(source: str) -> bool:
    """Return whether there is more than comments and empty lines."""
    return any(line.strip() and not line.lstrip().startswith("#") for line in source.splitlines())


class _Unreadable(Exception):
    """The file cannot be read; the message is a clause that begins with a verb."""


def read_cells(path: Path) -> Reading:
    """Read the task cells of a notebook (`.ipynb`) or script (`.py`)."""
    try:
        text = _text(path)
        found = list(_script_cells(text) if path.suffix == ".py" else _notebook_cells(text))
    except _Unreadable as error:
        return Reading(problems=(str(error),), unreadable=True)
    cells: list[TaskCell] = []
    problems: list[str] = []
    for place, first_line, source in found:
        try:
            cells.append(_task_cell(path, place, first_line, source))
        except (_NoTaskError, UnknownTaskError) as error:
            problems.append(f"{place}: {error}")
    if not found:
        problems.append("has no task cells")
    return Reading(tuple(cells), tuple(problems))


class _NoTaskError(Exception):
    """A cell is not an answer to a task; the message says why."""


def _task_cell(path: Path, place: str, first_line: int, source: str) -> TaskCell:
    """Return the answer in a cell; where a notebook's cell has no code, the one in the task's file."""
    if not source.startswith("%%task"):
        raise _NoTaskError("%%task is not in its first line")
    if len(source) > MAX_SOURCE:
        raise _NoTaskError(f"is too large ({len(source) >> 20} MB of source)")
    magic, _, rest = source.partition("\n")
    match = _MAGIC.fullmatch(magic.rstrip())
    if match is None or match["name"] is None:
        raise _NoTaskError(f"{magic.strip()[:60]!r} names no task")
    task = find_task(match["name"])
    seed = _SEED.search(match["rest"])
    cell = TaskCell(task.name, rest, first_line, place, int(seed[1]) if seed else None)
    in_file = answer_in_file(task, path.parent) if path.suffix == ".ipynb" and not has_code(rest) else None
    if in_file is None:
        return cell
    script = path.parent / task.script
    return replace(cell, source=in_file.source, first_line=in_file.first_line, script=script)


def is_task_script(path: Path) -> bool:
    """Return whether a script holds task cells; the grader ignores other scripts."""
    try:
        return any(True for _ in _script_cells(_text(path)))
    except _Unreadable:
        return True  # let it be named


def _text(path: Path) -> str:
    try:
        found = path.stat()
        if stat.S_ISDIR(found.st_mode):
            raise _Unreadable("is a folder, not a file")
        if not stat.S_ISREG(found.st_mode):
            raise _Unreadable("is no regular file")
        if found.st_size > MAX_BYTES:
            raise _Unreadable(f"is too large ({found.st_size >> 20} MB)")
        raw = path.read_bytes()
    except OSError as error:
        raise _Unreadable(f"cannot be read ({error.strerror or type(error).__name__})") from None
    if not raw.strip():
        raise _Unreadable("is empty")
    # Editors on Windows write a byte order mark, and some of them UTF-16.
    encoding = "utf-16" if raw[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        return raw.decode(encoding).replace("\r\n", "\n")
    except UnicodeDecodeError:
        raise _Unreadable("is not UTF-8 text") from None


def _script_cells(text: str) -> Iterator[tuple[str, int, str]]:
    """Yield cells of a percent script that begin with `# %%task`; a `# %%` of any kind ends them."""
    lines = text.split("\n")
    starts = [(number, match) for number, line in enumerate(lines) if (match := _SCRIPT_CELL.match(line))]
    ends = [*(number for number, _ in starts[1:]), len(lines)]
    for (number, match), end in zip(starts, ends, strict=False):
        if match["magic"] == "task":
            body = "\n".join(lines[number + 1 : end]).rstrip("\n") + "\n"
            magic = lines[number].lstrip("# \t")
            yield f"line {number + 1}", number + 2, f"{magic}\n{body}"


def _notebook_cells(text: str) -> Iterator[tuple[str, int, str]]:
    for number, source in enumerate(_code_of(_notebook(text)), start=1):
        if "%%task" not in source:
            continue
        source = source.replace("\r\n", "\n")
        lines = source.split("\n")
        blank = next(index for index, line in enumerate(lines) if line.strip())
        called = _cell_magic(source) if "%%task" in lines[blank] else None
        if called is not None and called[0] == "task":
            _, line, body = called
            yield f"cell {number}", blank + 2, f"%%task {line}\n{body}"
        elif any(line.lstrip().startswith("%%task") for line in lines):
            yield f"cell {number}", 1, source


def _cell_magic(source: str) -> tuple[str, str, str] | None:
    """Return the magic's name, its line and its body, as IPython reads a cell; None without a magic.

    IPython passes over empty lines above a magic, takes away an indentation that all lines have, and prompts that were
    copied along.
    """
    from IPython.core.inputtransformer2 import TransformerManager

    try:
        tree = parsed(TransformerManager().transform_cell(source))
        match tree.body:
            case [ast.Expr(ast.Call(ast.Attribute(attr="run_cell_magic"), [*arguments]))]:
                name, line, body = (ast.literal_eval(argument) for argument in arguments)
                return str(name), str(line), str(body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        pass
    return None


def _code_of(notebook: NotebookNode) -> Iterator[str]:
    """Yield the source of each cell; '' for cells without code."""
    for cell in notebook.get("cells", ()):
        source = cell.get("source", "") if isinstance(cell, dict) else ""
        is_code = isinstance(cell, dict) and cell.get("cell_type") == "code"
        yield source if is_code and isinstance(source, str) else ""


def _notebook(text: str) -> NotebookNode:
    """Read the notebook in today's format, without its outputs, which may be large or broken."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        raise _Unreadable("is not a notebook (no JSON)") from None
    if not isinstance(data, dict) or "nbformat" not in data:
        raise _Unreadable("is not a notebook (JSON of something else)")
    if not isinstance(data["nbformat"], int):
        found = repr(data["nbformat"])[:40]
        raise _Unreadable(f"is a damaged notebook (its nbformat is {found}, not a number)")
    sheets = data["worksheets"] if isinstance(data.get("worksheets"), list) else []
    data.setdefault("metadata", {})
    for sheet in (data, *sheets):
        if isinstance(sheet, dict) and isinstance(sheet.get("cells"), list):
            sheet["cells"] = [_without_outputs(cell) for cell in sheet["cells"]]
    import nbformat

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a missing cell id changes no answer
            notebook: NotebookNode = nbformat.reads(json.dumps(data), as_version=4)
            return notebook
    except Exception as error:  # a notebook can be wrong in more ways than nbformat has exceptions for
        why = " ".join(str(error).split())[:120]
        raise _Unreadable(f"is a damaged notebook ({type(error).__name__}: {why})") from None


def _without_outputs(cell: object) -> dict[str, object]:
    """Return the cell; an empty one for what is not a cell, so that the others keep their numbers."""
    if not isinstance(cell, dict) or not isinstance(cell.get("cell_type"), str):
        return {"cell_type": "raw", "metadata": {}, "source": ""}
    return {"metadata": {}, **cell, **({"outputs": []} if cell["cell_type"] == "code" else {})}


def notebooks_below(folder: Path) -> list[Path]:
    """Return the notebooks in a folder itself, in order."""
    return sorted(path for path in folder.glob("*.ipynb") if os.path.isfile(path))
