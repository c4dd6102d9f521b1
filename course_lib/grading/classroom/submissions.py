"""Submissions: a folder with one sub-folder, or one notebook, for each learner. Pure reading; nothing is run.

Whatever a learner's files are - not JSON, links in circles, a folder called `03.ipynb` - becomes a problem of that
learner, one line each.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from course_lib.grading.cells import SUFFIXES, TaskCell, complaint, is_task_script, read_cells
from course_lib.tasks import Task, all_tasks

#: More files than this in one learner's folder are no submission.
MAX_FILES = 500
#: Folders that no learner made by hand; among them what a Mac puts into every archive.
_PASSED_OVER = {"__MACOSX", "__pycache__", "node_modules", "venv"}
#: What the name of the course's new version has more than that of the learner's own file (`learner.plan.beside_name`).
_NEWS = re.compile(r"\.new(-\d+)?(?=\.\w+$)")
#: Files beside the submissions that the course itself, or an instructor's spreadsheet, writes.
_REPORTS = (".csv", ".json", ".jsonl", ".html")


@dataclass(frozen=True)
class Answer:
    """One learner's answer to one task; `place` says where it stands: `03_samplers.ipynb, cell 4`."""

    task: str
    source: str
    first_line: int
    place: str


@dataclass(frozen=True)
class Submission:
    """All that one learner handed in: the answers, by task, and what is wrong with the files.

    Attributes:
        unreadable: the files whose contents are not known.
    """

    learner: str
    answers: tuple[Answer, ...] = ()
    problems: tuple[str, ...] = ()
    unreadable: tuple[str, ...] = ()


@dataclass(frozen=True)
class HandedIn:
    """The whole folder: submissions in the order of their names, and what belongs to no learner."""

    submissions: tuple[Submission, ...]
    notes: tuple[str, ...] = ()


def may_answer(file: str, task: Task) -> bool:
    """Return whether a file whose contents are not known may hold an answer to a task.

    Who keeps the course's name for a file answers in it what the course asks there; other files may hold anything.
    """
    path = Path(file)
    lesson = next((task.lesson for task in all_tasks() if path.name.startswith(task.lesson)), None)
    script = next((task.name for task in all_tasks() if task.script and path.match(task.script)), None)
    return script == task.name if script else lesson in (None, task.lesson)


class NoSubmissionsError(Exception):
    """The folder is none, or cannot be read; the message is one line."""


def read_submissions(folder: Path, ignore: Collection[Path] = ()) -> HandedIn:
    """Read everything below a folder; `ignore` are files and folders that the reports go to.

    Raises:
        NoSubmissionsError: there is no such folder.
    """
    ignored = {os.path.abspath(path) for path in ignore}
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError as error:
        raise NoSubmissionsError(_no_folder(folder, error)) from None
    files: dict[str, list[_Found]] = {}
    notes = []
    for entry in entries:
        path = Path(entry.path)
        if entry.name.startswith(".") or os.path.abspath(path) in ignored:
            continue
        why = _describe_misfit(path)
        if why:
            notes.append(f"{entry.name} is {why}: passed over.")
        elif path.suffix in SUFFIXES:
            files.setdefault(path.stem, []).append(_Found(path, entry.name))
        elif os.path.isdir(path):
            files.setdefault(entry.name, []).extend(_inside(path))
        elif _leads_nowhere(path):
            files.setdefault(entry.name, []).append(_Found(path, entry.name, "is a link that leads nowhere"))
    return HandedIn(tuple(_submission(learner, files[learner]) for learner in sorted(files)), tuple(notes))


def _no_folder(folder: Path, error: OSError) -> str:
    if folder.is_file():
        return (
            f"{folder} is a file: name a folder with a sub-folder, or a notebook, for each learner. To check one file: "
            f"ddp-course check {folder}"
        )
    return f"{folder} cannot be read: {error.strerror}."


def _describe_misfit(path: Path) -> str:
    """Describe a file that is not a submission but may be meant as one; '' for others."""
    if path.name in _PASSED_OVER and os.path.isdir(path):
        return "a folder that no learner made"
    if path.suffix == ".py" and path.is_file() and not is_task_script(path):
        return "a script without task cells"
    known = path.suffix in (*SUFFIXES, *_REPORTS) or os.path.isdir(path) or _leads_nowhere(path)
    return "" if known else "neither a notebook nor a folder"


def _leads_nowhere(path: Path) -> bool:
    return path.is_symlink() and not path.exists()


@dataclass(frozen=True)
class _Found:
    """A file to be read, as it is called in reports; or why it is not read."""

    path: Path
    name: str
    problem: str = ""


def _inside(folder: Path) -> Iterator[_Found]:
    """Yield notebooks and task scripts of one learner's folder, without following links out of it."""
    home = os.path.realpath(folder)
    trouble: list[_Found] = []

    def unreadable(error: OSError) -> None:
        where = os.path.relpath(error.filename, folder)
        name = folder.name if where == os.curdir else where
        trouble.append(_Found(folder, name, f"cannot be read ({error.strerror})"))

    count = 0
    for place, folders, names in os.walk(folder, onerror=unreadable):
        here = Path(place)
        for name in sorted(folders):
            shown = os.path.relpath(here / name, folder)
            if os.path.islink(here / name):
                yield _Found(here / name, shown, "is a link to a folder: not followed")
            elif name.endswith(".ipynb"):
                yield _Found(here / name, shown, "is a folder, not a notebook")
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in _PASSED_OVER)
        for name in sorted(names):
            path = here / name
            if (
                path.suffix not in SUFFIXES
                or name.startswith(".")
                or _NEWS.sub("", name) in {*names} - {name}
            ):
                continue
            count += 1
            shown = os.path.relpath(path, folder)
            if count > MAX_FILES:
                yield _Found(path, folder.name, f"holds more than {MAX_FILES} notebooks and scripts")
                yield from trouble
                return
            yield _Found(path, shown, _link_problem(path, home))
    yield from trouble


def _link_problem(path: Path, home: str) -> str:
    if not path.is_symlink():
        return ""
    try:
        target = os.path.realpath(path, strict=True)
    except OSError:
        return "is a link that leads nowhere"
    inside = os.path.commonpath([home, target]) == home
    return "" if inside else "is a link that leads out of the learner's folder: not read"


def _submission(learner: str, found: list[_Found]) -> Submission:
    answers: dict[str, list[Answer]] = {}
    problems: list[str] = []
    unreadable: list[str] = []
    read = 0
    cells: list[tuple[_Found, TaskCell]] = []
    for item in found:
        if item.problem:
            problems.append(f"{item.name} {item.problem}.")
            unreadable.append(item.name)
            continue
        if item.path.suffix == ".py" and not is_task_script(item.path):
            continue
        read += 1
        reading = read_cells(item.path)
        problems += [complaint(item.name, problem) for problem in reading.problems]
        unreadable += [item.name] if reading.unreadable else []
        cells += [(item, cell) for cell in reading.cells]
    refused = {item.path for item in found if item.problem}
    in_scripts = {(item.path, cell.task) for item, cell in cells}
    for item, cell in cells:
        if cell.script and (
            (cell.script, cell.task) in in_scripts or refused & {cell.script, *cell.script.parents}
        ):
            continue  # it means a file that is read itself, or must not be
        place = f"{item.name}, {cell.place}"
        answers.setdefault(cell.task, []).append(Answer(cell.task, cell.source, cell.first_line, place))
    if not read and not problems:
        problems.append("There is no notebook here.")
    for task, several in answers.items():
        if len(several) > 1:
            places = "; ".join(answer.place for answer in several)
            problems.append(f"{task} is answered {len(several)} times ({places}): the last one counts.")
    counting = tuple(several[-1] for several in answers.values())
    return Submission(learner, counting, tuple(problems), tuple(unreadable))
