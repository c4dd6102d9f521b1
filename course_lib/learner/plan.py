"""The plan for an update of a learner's copy. Pure: it gets what there is, and nothing is read or written."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import count
from pathlib import PurePosixPath

from course_lib.learner.ledger import Entry, Ledger
from course_lib.learner.written import Writing, writing


class Act(StrEnum):
    """An action at one path of the copy."""

    PUT = "put"  # nothing was there
    REPLACE = "replace"  # what was there is the course's, and not changed
    BESIDE = "beside"  # the new version of a file that the learner has changed
    REMOVE = "remove"  # the course has it no longer, and the learner has not changed it


@dataclass(frozen=True)
class Found:
    """A file of the copy.

    Attributes:
        writing: what is written in it; None for what is not a plain file or cannot be read.
        stamp: another one after every change of the file.
    """

    writing: Writing | None
    stamp: tuple[int, ...] = ()

    @property
    def digest(self) -> str | None:
        """Of what is written in it."""
        return self.writing.digest if self.writing is not None else None

    @property
    def ran(self) -> bool:
        """Whether it holds outputs."""
        return self.writing is not None and self.writing.ran


@dataclass(frozen=True)
class Step:
    """One file to be written or removed.

    Attributes:
        content: what is to be there; empty for REMOVE.
        found: what is there now.
        keep: put what is there into `kept/`: it holds outputs.
        new_of: the learner's own file, of a new version that is or was beside it.
        entries: what the ledger says once this is done.
    """

    act: Act
    path: str
    content: bytes = b""
    found: Found | None = None
    keep: bool = False
    entries: Mapping[str, Entry] = field(default_factory=dict)
    new_of: str = ""


@dataclass(frozen=True)
class Plan:
    """The steps of an update.

    Attributes:
        ledger: to be written before the first step.
        left: files that the course has no longer and the learner has changed: they stay.
    """

    steps: tuple[Step, ...]
    ledger: Ledger
    left: tuple[str, ...] = ()


Look = Callable[[str], Found | None]


def plan_update(fresh: Mapping[str, bytes], ledger: Ledger, look: Look) -> Plan:
    """Plan how to bring `fresh`, which is all that the course gives, into the copy that `look` sees."""
    known = dict(ledger)
    steps: list[Step] = []
    needed: set[str] = set()  # files beside others that are still the news of them
    for path, content in fresh.items():
        new, found, entry = writing(path, content).digest, look(path), known.get(path, Entry())
        here = dataclasses.replace(entry.giving(new), has=new)
        if found is None:
            steps.append(Step(Act.PUT, path, content, entries={path: here}))
        elif found.digest == new:
            known[path] = here
        elif found.digest in entry.given:
            steps.append(Step(Act.REPLACE, path, content, found, found.ran, {path: here}))
        elif new != entry.has:
            # Not merged: what a merge makes of a notebook is hard to read, and can be wrong.
            step = _beside(path, content, new, known, look)
            needed.add(step.path)
            offered = dataclasses.replace(entry, offered=new)
            if step.found is not None and step.found.digest == new:  # it is there
                known |= {path: offered, **step.entries}
            elif new != entry.offered:  # else the learner was offered it, and has put it away
                steps.append(dataclasses.replace(step, entries={path: offered, **step.entries}))
    left = [*_no_longer_given(fresh, known, look, needed, steps)]
    for step in steps:  # what an interrupted update leaves must be known
        if step.path in step.entries:
            given = known.get(step.path, Entry()).giving(step.entries[step.path].has)
            known[step.path] = dataclasses.replace(given, new_of=step.new_of)
    return Plan(tuple(steps), known, tuple(left))


def beside_name(path: str, number: int) -> str:
    """Return the name of a new version beside the learner's own file: `03_samplers.new.ipynb`."""
    pure = PurePosixPath(path)
    return str(pure.with_name(f"{pure.stem}.new{'' if number == 1 else f'-{number}'}{pure.suffix}"))


def _beside(path: str, content: bytes, new: str, known: Ledger, look: Look) -> Step:
    """Return the step that puts the new version beside the learner's file, where it may already be."""
    for number in count(1):
        beside = beside_name(path, number)
        found, entry = look(beside), known.get(beside, Entry(new_of=path))
        here = {beside: dataclasses.replace(entry.giving(new), has=new, new_of=path)}
        if found is None:
            return Step(Act.BESIDE, beside, content, entries=here, new_of=path)
        if found.digest == new or (entry.new_of == path and found.digest in entry.given):
            return Step(Act.BESIDE, beside, content, found, found.ran, here, path)
    raise AssertionError("count() ends")


def _no_longer_given(
    fresh: Mapping[str, bytes], known: Ledger, look: Look, needed: set[str], steps: list[Step]
) -> Iterator[str]:
    """Remove what is no longer needed from copy and ledger; yield lessons of which the learner keeps files."""
    for path, entry in list(known.items()):
        if path in needed or path in fresh:
            continue
        found = look(path)
        if found is not None and found.digest in entry.given:
            steps.append(Step(Act.REMOVE, path, found=found, keep=found.ran, new_of=entry.new_of))
            continue
        del known[path]
        if found is not None and not entry.new_of:
            yield path
