"""The catalogue of answers: files `<topic>/answers/<task>/right_*.py`, and wrong ones that a task must tell from them.

A wrong answer is a *variant* of a right one, written in the right one's file where the mistake is made:

        total = torch.tensor(value)
        dist.all_reduce(total)
    #~ local -1
        return total.item() / dist.get_world_size()
    #~ summed -1 |    return total.item()

    #~ local: misconception: not_reduced
    #~ local: breaks: Every rank returns the mean over all ranks.
    #~ summed: misconception: summed

`-1` counts the lines above that are replaced by what stands behind `|`, or left out where there is none; further lines
follow as `#~ |...`. `misconception:` names what the verdict must name (several with commas; `none` where no idea with a
name is behind the mistake), `breaks:` a check that must not hold, word for word. A wrong answer that has little in
common with any right one is a file of its own, `wrong_*.py`, with such lines at its head: `# misconception: summed`.

An answer whose mistake no check can name gets the names of the wrong ones that do the same (see `likeness`). Answers
`unseen_*.py` are wrong, too, written by somebody who had not seen the others. They are never compared with: they
show that a mistake in another style gets its name or none, and never another one.
"""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from course_lib.syllabus import LESSONS
from course_lib.tasks import UnknownTaskError, find_task

# Not in a TOML file beside the right answer: each replaced line would stand twice, and be changed twice. Not in files
# of their own, unless they are unlike any right answer: what is equal hides the mistake.
_CHANGE = re.compile(r"#~ (?P<variant>\w+) -(?P<gone>\d+)(?: \|(?P<text>.*))?")
_MORE = re.compile(r"#~ \|(?P<text>.*)")
_SAID = re.compile(r"#~ (?P<variant>\w+): (?P<said>misconceptions?|breaks): (?P<text>\S.*)")
_HEAD = re.compile(r"# (?P<said>misconceptions?|breaks): (?P<text>\S.*)")


class CatalogueError(ValueError):
    """A file of the catalogue cannot be read; the message names the line."""


@dataclass(frozen=True)
class Specimen:
    """An answer that is known to be right, or to be wrong in a known way.

    Attributes:
        path: the file in which it stands. name: `samplers/evaluate/wrong_padding`. task: the task's name.
        source: the answer. right: whether it is. unseen: it is never compared with.
        misconceptions: what its verdict must name, `declared` whether that is said at all.
        breaks: the checks that it breaks.
    """

    path: Path
    name: str
    task: str
    source: str
    right: bool
    misconceptions: tuple[str, ...] = ()
    declared: bool = False
    breaks: tuple[str, ...] = ()

    @property
    def unseen(self) -> bool:
        """Whether it only tests what others are recognised by."""
        return self.path.stem.startswith("unseen_")


@functools.cache
def known_answers(task: str) -> tuple[Specimen, ...]:
    """Return the answers to a task."""
    topic, _, function = task.partition(".")
    return catalogue(LESSONS, f"{topic}/answers/{function}")


def catalogue(folder: Path, below: str = "*/answers/*") -> tuple[Specimen, ...]:
    """Return every answer below a folder, in order; `problems_with_catalogue` names what cannot be read."""
    found: list[Specimen] = []
    for path in sorted(folder.glob(f"{below}/*.py")):
        with contextlib.suppress(CatalogueError):
            found += _specimens(path, folder)
    return tuple(found)


def problems_with_catalogue(folder: Path) -> list[str]:
    """Return what in the folder belongs to no task, is neither right nor wrong, or cannot be read. Runs nothing."""
    problems = []
    names: set[str] = set()
    for path in sorted(item for item in folder.glob("*/answers/**/*") if item.is_file()):
        shown = path.relative_to(folder).as_posix()
        if "__pycache__" in path.parts:
            continue
        if not re.fullmatch(r"[^/]+/answers/[^/]+/(right|unseen|wrong)_\w+\.py", shown):
            problems.append(
                f"{shown}: not an answer; answers are TOPIC/answers/TASK/right_*.py, wrong_*.py and unseen_*.py"
            )
            continue
        try:
            find_task(".".join(path.relative_to(folder).parts[:3:2]))
            found = [specimen.name for specimen in _specimens(path, folder)]
        except (UnknownTaskError, CatalogueError) as error:
            problems.append(f"{shown}: {error}")
            continue
        problems += [f"{shown}: there is another {name}" for name in found if name in names]
        names.update(found)
    return problems


def _specimens(path: Path, folder: Path) -> Iterator[Specimen]:
    topic, _, task, _ = path.relative_to(folder).parts
    place, task = f"{topic}/{task}", f"{topic}.{task}"
    lines = path.read_text(encoding="utf-8").split("\n")
    if path.stem.startswith("right_"):
        right, variants = read(lines)
        yield Specimen(path, f"{place}/{path.stem}", task, "\n".join(right), True)
        for name, variant in variants.items():
            yield _wrong(path, f"{place}/wrong_{name}", task, variant.lines, variant.said)
    else:
        heads = [match for match in map(_HEAD.fullmatch, lines) if match]
        yield _wrong(path, f"{place}/{path.stem}", task, lines, [(m["said"], m["text"]) for m in heads])


def _wrong(
    path: Path, name: str, task: str, lines: Sequence[str], said: Sequence[tuple[str, str]]
) -> Specimen:
    named = [text.rstrip() for what, text in said if what != "breaks"]
    ids = tuple(id_ for text in named if text != "none" for id_ in text.split(", "))
    breaks = tuple(text for what, text in said if what == "breaks")
    return Specimen(path, name, task, "\n".join(lines), False, ids, len(named) == 1, breaks)


@dataclass
class _Variant:
    """The parts of a variant while its file is read."""

    changes: list[tuple[int, int, list[str]]] = field(default_factory=list)
    said: list[tuple[str, str]] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)


def read(lines: Sequence[str]) -> tuple[list[str], dict[str, _Variant]]:
    """Return the right answer in the lines of a file, and its variants by name.

    Raises:
        CatalogueError: a mark that is none, changes of lines that are not there, a variant without a change.
    """
    right: list[str] = []
    variants: dict[str, _Variant] = {}
    last: list[str] | None = None
    for number, line in enumerate(lines, start=1):
        if change := _CHANGE.fullmatch(line):
            last = [] if change["text"] is None else [change["text"]]
            variant = variants.setdefault(change["variant"], _Variant())
            begin = len(right) - int(change["gone"])
            if begin < (variant.changes[-1][1] if variant.changes else 0):
                raise CatalogueError(f"line {number} replaces more lines than there are above it")
            variant.changes.append((begin, len(right), last))
        elif (more := _MORE.fullmatch(line)) and last is not None:
            last.append(more["text"])
        elif said := _SAID.fullmatch(line):
            variants.setdefault(said["variant"], _Variant()).said.append((said["said"], said["text"]))
        elif line.startswith("#~"):
            raise CatalogueError(f"line {number} is no mark of a variant: {line}")
        else:
            right.append(line)
            last = None
    for name, variant in variants.items():
        if not variant.changes:
            raise CatalogueError(f"the variant {name} changes nothing")
        variant.lines = list(right)
        for begin, end, new in reversed(variant.changes):
            variant.lines[begin:end] = new
    return right, variants
