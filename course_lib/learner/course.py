"""The course's own folder, and the files that a learner is given from it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Any, TypedDict

_PACKAGE = Path(__file__).resolve().parents[1]
#: Where a wheel carries the lessons (see setup.py); a checkout has them beside the package.
INSTALLED = _PACKAGE / "course"
#: Files of a checkout that a learner gets, as patterns below its folder. No solutions: `%solution` shows those.
GIVEN = (
    "notebooks/*.ipynb",
    "exercises/*.ipynb",
    "exercises/**/*.py",
    "docs/cheatsheet.html",
    "docs/claims.md",
)
#: Without it there is no course: half a checkout, or a folder that happens to be called the same.
_FIRST = "notebooks/index.ipynb"
#: In a cell's metadata: what a claim's verdict is, and how long the cell took on the machine that built it.
_GIVES_AWAY = ("claims", "execution")
_ASKS = re.compile(r"^(?:\w+ = )?predict\(", re.MULTILINE)
_FIRST_SUMMARY, _SUMMARY = "After the run: what happened, and why", "Read on"


class Cell(TypedDict):
    """A cell of a notebook: of its parts, those that are read here."""

    cell_type: str
    metadata: dict[str, object]
    source: str | list[str]
    outputs: list[dict[str, Any]]


class CourseError(Exception):
    """A file of the course cannot be read; the message names it."""


def course_folder() -> Path | None:
    """Return the folder of the lessons that came with this code; None where there are none."""
    for folder in (_PACKAGE.parent, INSTALLED):
        if (folder / "notebooks").is_dir():
            return folder
    return None


def is_checkout(folder: Path) -> bool:
    """Return whether this is a working copy of the whole course, with its code, unlike an installed wheel."""
    return all((folder / name).exists() for name in ("notebooks", "course_lib", "pyproject.toml"))


def given_files(course: Path) -> dict[str, bytes]:
    """Return what a learner is given: contents by path below the copy's folder, notebooks without answers.

    Raises:
        CourseError: a file cannot be read.
    """
    files: dict[str, bytes] = {}
    for pattern in GIVEN:
        for path in sorted(course.glob(pattern)):
            name = path.relative_to(course).as_posix()
            if any(part.startswith((".", "__")) for part in Path(name).parts):
                continue  # checkpoints and caches
            try:
                content = path.read_bytes()
                files[name] = without_answers(content) if path.suffix == ".ipynb" else content
            except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
                raise CourseError(f"{name} of the course cannot be read ({error}).") from None
    if _FIRST not in files:
        raise CourseError(f"The course is not complete: there is no {_FIRST} in {course}.")
    return files


def paths_meant(name: str, files: Iterable[str]) -> list[str]:
    """Return the files that a user means: '06' and '06_alternation' are the lesson, 'exercises/06' its tasks.

    Also a path as it is, with or without the ending.
    """
    wanted = name.removeprefix("./").removesuffix(".ipynb")
    folder, _, stem = wanted.rpartition("/")
    number = f"{int(stem):02}_" if stem.isdecimal() else None
    return [
        path
        for path in files
        if path in (name.removeprefix("./"), wanted)
        or (
            (pure := PurePosixPath(path)).suffix == ".ipynb"
            and str(pure.parent) == (folder or "notebooks")
            and (pure.stem == stem or (number is not None and pure.stem.startswith(number)))
        )
    ]


def without_answers(notebook: bytes) -> bytes:
    """Return a notebook as if no cell had ever run, as nbformat writes it; explanations are folded.

    Raises:
        ValueError, LookupError, TypeError, AttributeError: it is not a notebook.
    """
    content = json.loads(notebook)
    for cell in content["cells"]:
        if cell["cell_type"] == "code":
            cell["outputs"] = []
            cell["execution_count"] = None
        for key in _GIVES_AWAY:
            cell["metadata"].pop(key, None)
    content["metadata"].pop("widgets", None)
    fold_explanations(content["cells"])
    return (json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()


def fold_explanations(cells: list[Cell]) -> list[Cell]:
    """Fold what is said of a run that decides a question, or opens the lesson: up to the next heading or question.

    Returns:
        the code cells of which the outputs would say the same.

    A lesson is opened by its first cell on ranks, where that stands above all sections. What stands right above a
    question is its introduction: a paragraph stays in sight. So does the last of several paragraphs above other code,
    if it ends with a colon. Code stays, too, unless it writes a figure's title.
    """
    answers: list[Cell] = []
    asked = ran = False
    opens, summary = True, _FIRST_SUMMARY
    for cell, below in zip(cells, [*cells[1:], None], strict=True):
        source = "".join(cell["source"])
        if cell["cell_type"] == "code":
            asks = _is_question(cell)
            starts = opens and source.startswith("%%ranks")
            if asked or starts:
                summary = _FIRST_SUMMARY
            ran = (ran or asked or starts) and not asks
            answers += [cell] if ran else []
            if ran and not asked and not starts and "plt." in source:
                cell["metadata"]["jupyter"] = {"source_hidden": True}
            opens, asked = opens and not (asks or starts), asks
        elif cell["cell_type"] == "markdown":
            # Only up to the next heading: all that is below a deciding cell would be half of a lesson.
            said, rest = _split_at_heading(source)
            if ran and below is not None and below["cell_type"] == "code" and not rest:
                said, rest = _split_introduction(said.strip(), alone=_is_question(below))
            if ran and said.strip():
                folded = f'<details class="ddp-explains"><summary>{summary}</summary>\n\n{said.strip()}\n\n</details>'
                summary = _SUMMARY
                cell["source"] = "\n\n".join(filter(None, (folded, rest))).splitlines(keepends=True)
            if rest.startswith("#"):
                ran = False
                opens = opens and not re.search("^## ", rest, re.MULTILINE)
    return answers


def _is_question(cell: Cell) -> bool:
    return cell["cell_type"] == "code" and _ASKS.search("".join(cell["source"])) is not None


def _split_introduction(text: str, *, alone: bool) -> tuple[str, str]:
    """Split off the last paragraph, which introduces the next cell; `alone`: even if it is the only one."""
    said, _, last = text.rpartition("\n\n")
    return (said, last) if alone or (said and last.endswith(":")) else (text, "")


def _split_at_heading(text: str) -> tuple[str, str]:
    """Split a Markdown text at its first heading."""
    lines, inside = text.splitlines(keepends=True), False
    for number, line in enumerate(lines):
        if line.startswith("```"):
            inside = not inside
        elif line.startswith("#") and not inside:
            return "".join(lines[:number]), "".join(lines[number:])
    return text, ""
