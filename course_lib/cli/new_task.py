"""`ddp-course new-task lesson.name`: a small working task to begin with, in all the places where a task has a part."""

from __future__ import annotations

import keyword
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import jinja2
import typer

from course_lib.cli.root import ANSWERS, checkout_root
from course_lib.cli.words import words_in
from course_lib.tasks import all_tasks


class NewTaskError(Exception):
    """The task cannot be made; the message is one line."""


@dataclass(frozen=True)
class Plan:
    """Everything that is to be written. `files` are new; `appended` goes to the end of a file that may be there."""

    files: dict[Path, str]
    appended: dict[Path, str]


def new_task(
    name: Annotated[str, typer.Argument(help="The task's name: lesson.function, as in samplers.evaluate.")],
    lesson: Annotated[
        str | None,
        typer.Option("--lesson", help="The lesson it belongs to, as in 07_buckets, where that is not clear."),
    ] = None,
) -> None:
    """Begin a new task: a small working one, with its cell and a catalogue of answers, to be changed into yours.

    Nothing that is there is overwritten. Exit code 2: the task cannot be made, or this is no checkout of the course.
    """
    root = checkout_root()
    try:
        plan = planned(root, name, lesson)
        written = carry_out(plan)
    except NewTaskError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from None
    for path in written:
        typer.echo(f"  {path.relative_to(root)}")
    typer.echo(
        f"Next: change them; then  ddp-course selfcheck {name}  and  make notebooks.  See docs/tasks.md."
    )


def planned(root: Path, name: str, lesson: str | None = None) -> Plan:
    """What `new-task` writes.

    Raises:
        NewTaskError: no good name, no such lesson, or a task of that name is there.
    """
    group, _, function = name.partition(".")
    if not all(
        part.isidentifier() and part.islower() and not keyword.iskeyword(part) for part in (group, function)
    ):
        raise NewTaskError(
            f"{name!r} is not the name of a task: it is lesson.function, in small letters, as samplers.evaluate."
        )
    lesson = lesson or _lesson_of(root, group)
    if not re.fullmatch(r"\d\d_\w+", lesson):
        raise NewTaskError(f"{lesson!r} is no lesson: it is two digits and a name, as 03_samplers.")
    package = root / "course_lib" / "tasks" / group
    source = root / "solutions" / "sources" / f"{lesson}.py"
    there = source.read_text(encoding="utf-8") if source.is_file() else ""
    if re.search(rf"^# %%task {re.escape(name)}\b", there, re.MULTILINE):
        raise NewTaskError(f"{source.relative_to(root)} has a cell for {name} already.")
    words = {
        "name": name,
        "function": function,
        "class_name": "".join(part.capitalize() for part in function.split("_")),
        "lesson": lesson,
        "title": lesson[3:].replace("_", " ").capitalize(),
        "place": len(re.findall(r"^# %%task ", there, re.MULTILINE)) + 1,
        "taught": f"lesson {lesson[:2]}, {_heading(root, lesson)}",
    }
    files = {package / f"{function}.py": _filled("task.py.jinja", words)}
    if not (package / "__init__.py").exists():
        files[package / "__init__.py"] = f'"""Tasks of lesson {lesson[:2]}."""\n'
    for template in sorted((_templates() / "answers").glob("*.jinja")):
        path = root / ANSWERS / group / function / template.stem
        files[path] = _filled(f"answers/{template.name}", words)
    begin = "" if there else _filled("source.py.jinja", words)
    return Plan(files, {source: begin + _filled("cell.py.jinja", words)})


def carry_out(plan: Plan) -> list[Path]:
    """Write it all, or nothing.

    Raises:
        NewTaskError: one of the files is there already, or cannot be written.
    """
    for path in plan.files:
        if path.exists():
            raise NewTaskError(f"{path} is there already: nothing was written.")
    try:
        for path, text in plan.files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
        for path, text in plan.appended.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("a", encoding="utf-8") as file:
                file.write(text)
    except OSError as error:
        raise NewTaskError(f"{error.filename} cannot be written: {error.strerror}.") from None
    return [*plan.files, *plan.appended]


def _lesson_of(root: Path, group: str) -> str:
    known = {task.lesson for task in all_tasks() if task.name.startswith(f"{group}.")}
    known |= {path.stem for path in (root / "notebooks" / "sources").glob(f"[0-9][0-9]_{group}.py")}
    if len(known) != 1:
        raise NewTaskError(f"Which lesson do tasks called {group}.* belong to? Say so: --lesson 07_{group}")
    return known.pop()


def _heading(root: Path, lesson: str) -> str:
    """The section that has most in common with the template's misconceptions; a placeholder where there is none."""
    source = root / "notebooks" / "sources" / f"{lesson}.py"
    text = source.read_text(encoding="utf-8") if source.is_file() else ""
    wanted = words_in((_templates() / "task.py.jinja").read_text(encoding="utf-8"))
    sections = re.split(r"^# ## ", text, flags=re.MULTILINE)[1:]
    if not sections:
        return "the section that explains it"
    nearest = max(sections, key=lambda section: len(wanted & words_in(section)))
    return nearest.partition("\n")[0].strip().replace('"', "'")


def _templates() -> Path:
    return Path(__file__).parent / "templates"


def _filled(template: str, words: dict[str, object]) -> str:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_templates()),
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
    )
    return environment.get_template(template).render(words)
