"""The public API on one page: docs/api.md, made of docstrings, signatures and the options of magics and commands.

Nothing is said here that is not said in the code: a function, an option or an attribute that is renamed changes the
page. The commands of ``ddp-course`` are handed in, because this room may not import the one above it.
"""

import enum
import inspect
import math
import re
from argparse import Action, ArgumentParser
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

import course_lib
from course_lib import draw, faults, watch
from course_lib.notebook.board import BoardMagics
from course_lib.notebook.machine import MachineReport, machine
from course_lib.notebook.magics import RankMagics
from course_lib.notebook.predict import Prediction
from course_lib.notebook.task_magics import TaskMagics
from course_lib.outcome import outcome

from .pages import is_up_to_date, write_page

PAGE = Path("docs/api.md")

_HEAD = """\
# Public API

What a learner or an instructor imports or types. Everything else in `course_lib` is internal and may change.

This page is written by `ddp-course notebooks` from docstrings and options (`course_lib/build/api.py`).
"""
_SECTIONS = {"Args:", "Attributes:", "Returns:", "Raises:"}
_ENTRY = re.compile(r"^(\w+(?:, \w+)*): (.+)$", re.DOTALL)
_STARS: dict[object, str] = {
    inspect.Parameter.VAR_POSITIONAL: "*",
    inspect.Parameter.VAR_KEYWORD: "**",
}
_WIDTH = 100


@dataclass(frozen=True)
class Documented:
    """A function or class with its place on the page.

    Attributes:
        what: the function or class.
        members: for a class, the properties and methods that are public; its attributes are in its docstring.
        called: how it is reached, where that is not its name.
    """

    what: Callable[..., object]
    members: tuple[str, ...] = ()
    called: str = ""


@dataclass(frozen=True)
class Chapter:
    """A heading, what stands below it, and the functions and classes."""

    title: str
    text: str
    entries: tuple[Documented, ...]


def chapters() -> list[Chapter]:
    """Return what is imported, in the order of the page."""
    outcome_members = ("values", "__getitem__", "collectives", "timeline", "ok")
    return [
        Chapter(
            "In the kernel and in scripts",
            "`%load_ext course_lib` also defines `run`, `predict` and `machine` in the notebook. Elsewhere: "
            "`from course_lib import run, run_quietly, predict, machine, device, observe, faults`.",
            (
                Documented(course_lib.run),
                Documented(course_lib.run_quietly),
                Documented(course_lib.predict),
                Documented(Prediction, ("choose",)),
                Documented(machine),
                Documented(MachineReport),
                Documented(course_lib.device),
                Documented(course_lib.observe),
            ),
        ),
        Chapter(
            "Faults",
            inspect.cleandoc(faults.__doc__ or ""),
            tuple(Documented(each) for each in (faults.delay, faults.kill, faults.exit_with, faults.fail)),
        ),
        Chapter(
            "What came back",
            "`run` returns an `Outcome`, and `%%ranks --as out` binds one to a name.",
            (
                Documented(outcome.Outcome, outcome_members),
                Documented(outcome.Diagnosis),
                Documented(outcome.RankError),
                Documented(outcome.Collective, ("where",)),
                Documented(outcome.Waiting),
            ),
        ),
        Chapter(
            "Looking at ranks",
            "`from course_lib.watch import compare, buckets, snapshot`; [watch.md](watch.md) shows them at work.",
            (
                Documented(watch.compare),
                Documented(watch.Comparison, ("equal", "differences", "headline")),
                Documented(watch.Difference, ("majority", "odd", "at_least")),
                Documented(watch.buckets),
                Documented(watch.Buckets, ("now", "plot")),
                Documented(watch.Bucket, ("bytes",)),
                Documented(watch.snapshot),
                Documented(watch.Snapshot),
                Documented(watch.RankSnapshot),
                Documented(
                    watch.Timeline,
                    ("ranks", "seconds", "waiting", "buckets", "summary", "plot", "save"),
                    called="out.timeline",
                ),
                Documented(watch.Span),
            ),
        ),
        Chapter(
            "Drawing",
            "`from course_lib.draw import Drawing, Frame, Stepper`; CONTRIBUTING.md says how to add a drawing.",
            (
                Documented(draw.Drawing, ("svg", "save")),
                Documented(draw.Frame),
                Documented(draw.Stepper, ("alt", "html", "strip", "save")),
                Documented(draw.Replay, ("html", "save"), called="out.replay()"),
            ),
        ),
    ]


def api_page(commands: TyperGroup) -> str:
    """Return the text of docs/api.md; ``commands`` is the command ``ddp-course`` with those below it."""
    parts = [_HEAD, *_magics()]
    for chapter in chapters():
        parts += [f"## {chapter.title}", chapter.text, *(entry_text(entry) for entry in chapter.entries)]
    parts += ["## Commands", *_commands(commands, "ddp-course")]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def write_api_page(root: Path, commands: TyperGroup) -> None:
    """Write docs/api.md; a course without docs gets none."""
    write_page(root / PAGE, api_page(commands))


def check_api_page(root: Path, commands: TyperGroup) -> list[str]:
    """Return one line for each thing wrong: a docstring that describes what is not there, an old page."""
    problems = [
        problem
        for chapter in chapters()
        for entry in chapter.entries
        for problem in docstring_problems(entry.what)
    ]
    if not is_up_to_date(root / PAGE, api_page(commands)):
        problems.append(f"{PAGE}: is not what the docstrings give")
    return problems


def docstring_problems(what: Callable[..., object]) -> Iterator[str]:
    """What is wrong with the lists in a docstring: unknown names, and a second entry in the line of another."""
    known = _names_of(what)
    for section, lines in _parts(inspect.getdoc(what) or ""):
        if section not in ("Args:", "Attributes:"):
            continue
        for names, text in _entries(lines):
            for name in sorted(set(names) - known):
                yield f"{what.__qualname__}: there is no {name!r} to be described"
            for name in sorted(known):
                if re.search(rf"[.;,] {name}: ", text):
                    yield f"{what.__qualname__}: {name!r} is described in the line of {names[0]!r}"


def _names_of(what: Callable[..., object]) -> set[str]:
    if inspect.isclass(what):
        return {name for name in (*getattr(what, "__dataclass_fields__", ()), *vars(what)) if name[:1] != "_"}
    return set(inspect.signature(what).parameters)


def _magics() -> Iterator[str]:
    yield "## Magics"
    yield "`%load_ext course_lib` gives a notebook these."
    magics: list[tuple[str, Callable[..., object]]] = [
        ("`%%ranks` and `%ranks`", RankMagics.ranks),
        ("`%%task`", TaskMagics.task),
        ("`%hint`", TaskMagics.hint),
        ("`%solution`", TaskMagics.solution),
        ("`%progress`", TaskMagics.progress),
        ("`%board`", BoardMagics.board),
    ]
    for name, magic in magics:
        yield f"### {name}"
        parser: ArgumentParser = vars(magic)["parser"]
        yield (parser.description or "").strip()
        yield "\n".join(_option(action) for action in parser._actions if action.dest != "help")


def _option(action: Action) -> str:
    name = ", ".join(action.option_strings) or action.dest
    value = f" {action.dest.upper()}" if action.option_strings and action.nargs is None else ""
    return f"- `{name}{value}`: {action.help}"


def entry_text(entry: Documented) -> str:
    """Return one function or class as it stands on the page."""
    what = entry.what
    parts = [f"### `{entry.called or what.__qualname__}`"]
    if not inspect.isclass(what):
        parts.append(f"```python\n{_signature(what)}\n```")
    parts.append(_text(inspect.getdoc(what) or ""))
    if inspect.isclass(what) and entry.members:
        parts.append("\n".join(_member(what, name) for name in entry.members))
    return "\n\n".join(parts)


def _member(cls: type, name: str) -> str:
    found = inspect.getattr_static(cls, name)
    if isinstance(found, property | cached_property):
        said = f".{name}"
        doc = (found.fget if isinstance(found, property) else found.func).__doc__
    elif name == "__getitem__":
        said, doc = "[name]", found.__doc__
    else:
        said, doc = f".{_signature(found)}", found.__doc__
    text = _text(inspect.cleandoc(doc or "")).replace("\n", "\n  ")
    return f"- `{said}`: {text}"


def _signature(function: Callable[..., object]) -> str:
    """A call as it is written, one parameter per line where it is long."""
    parameters: list[str] = []
    starred = False
    for each in inspect.signature(function).parameters.values():
        if each.kind is each.KEYWORD_ONLY and not starred:
            parameters.append("*")
        starred = starred or each.kind in (each.KEYWORD_ONLY, each.VAR_POSITIONAL)
        if each.name != "self":
            parameters.append(_parameter(each))
    line = f"{function.__name__}({', '.join(parameters)})"
    if len(line) <= _WIDTH:
        return line
    return f"{function.__name__}(\n" + "".join(f"    {each},\n" for each in parameters) + ")"


def _parameter(parameter: inspect.Parameter) -> str:
    stars = _STARS.get(parameter.kind, "")
    kind = "" if parameter.annotation in (parameter.empty, "Any") else f": {parameter.annotation}"
    if parameter.default is parameter.empty:
        return f"{stars}{parameter.name}{kind}"
    return f"{stars}{parameter.name}{kind} = {_default(parameter.default)}"


def _default(value: object) -> str:
    return f"{type(value).__module__}.{value.name}" if isinstance(value, enum.Enum) else repr(value)


def _text(doc: str) -> str:
    """A docstring in Markdown: its lists as lists, everything else as it is."""
    written = []
    for section, lines in _parts(doc):
        if section in ("", "Returns:"):
            head = "**Returns:** " if section else ""
            written.append(head + inspect.cleandoc("\n".join(lines)))
            continue
        items = [f"- `{'`, `'.join(names)}`: {' '.join(text.split())}" for names, text in _entries(lines)]
        written.append("\n".join([f"**{section}**", "", *items]))
    return "\n\n".join(part for part in written if part)


def _parts(doc: str) -> list[tuple[str, list[str]]]:
    """The sections of a docstring with their lines; text before and between them is a section without a name."""
    parts: list[tuple[str, list[str]]] = [("", [])]
    for line in doc.splitlines():
        if line in _SECTIONS:
            parts.append((line, []))
        elif line and line[0] != " " and parts[-1][0]:
            parts.append(("", [line]))
        else:
            parts[-1][1].append(line)
    return parts


def _entries(lines: Sequence[str]) -> Iterator[tuple[list[str], str]]:
    """`name: text` and `name, name: text`, with what follows indented further."""
    body = inspect.cleandoc("\n".join(lines))
    for item in re.split(r"\n(?=\S)", body):
        if found := _ENTRY.match(item):
            yield found[1].split(", "), found[2]


def _commands(command: TyperGroup | TyperCommand, path: str) -> Iterator[str]:
    parameters = [each for each in command.params if isinstance(each, TyperOption | TyperArgument)]
    words = " ".join(_word(each) for each in parameters if isinstance(each, TyperArgument))
    yield f"### `{path}{f' {words}' if words else ''}`"
    yield " ".join((command.help or "").split())
    helped = [f"- `{_word(each)}`: {_help(each)}" for each in parameters if each.help]
    if helped:
        yield "\n".join(helped)
    for name, below in command.commands.items() if isinstance(command, TyperGroup) else ():
        if isinstance(below, TyperGroup | TyperCommand):
            yield from _commands(below, f"{path} {name}")


def _word(parameter: TyperOption | TyperArgument) -> str:
    name = parameter.metavar or (parameter.name or "").upper()
    if isinstance(parameter, TyperOption):
        return f"{', '.join(parameter.opts)}{'' if parameter.is_flag else f' {name}'}"
    if parameter.required or name.startswith("["):
        return name
    return f"[{name}]{'...' if parameter.nargs == -1 else ''}"


def _help(parameter: TyperOption | TyperArgument) -> str:
    default = parameter.default
    known = isinstance(parameter, TyperOption) and not parameter.is_flag and default not in (None, math.inf)
    return f"{parameter.help}{f' Default: {default}.' if known else ''}"
