"""The notebooks and their sources."""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from course_lib.syllabus import all_lessons

#: The folder of the lessons' folders, below the checkout's.
LESSONS = Path("course_lib/lessons")
NOTEBOOK_FOLDERS = ("notebooks", "exercises", "solutions")


class BuildError(Exception):
    """A notebook cannot be built or found; the message names it and, where there is one, the cell."""


class UnknownNotebookError(BuildError):
    """No source has this name."""


class Edition(Enum):
    """An edition: what it makes of the marked regions of a source."""

    LESSON = "lesson"
    EXERCISE = "exercise"
    SOLUTION = "solution"


@dataclass(frozen=True)
class Target:
    """One notebook to be made: the source it comes from, where it goes and as which edition."""

    source: Path
    notebook: Path
    edition: Edition

    @property
    def file(self) -> str:
        """The source as people say it: `samplers/lesson.py`."""
        return f"{self.source.parent.name}/{self.source.name}"

    @property
    def name(self) -> str:
        """Folder and name as people say them: `exercises/03_samplers`."""
        return f"{self.notebook.parent.name}/{self.notebook.stem}"

    def is_called(self, name: str) -> bool:
        """Return whether `name` means this notebook: '03', 'samplers', 'exercises/03_samplers.ipynb' or its source."""
        wanted = name.removeprefix("./").removesuffix(".ipynb")
        stem = self.notebook.stem
        is_source = self.source.as_posix().endswith(f"/{name}")
        return (
            is_source
            or wanted in (self.name, stem, stem[3:])
            or (wanted.isdigit() and stem.startswith(f"{wanted}_"))
        )


def find_targets(root: Path, names: Sequence[str] = ()) -> list[Target]:
    """Return the notebooks to be made below `root`, all of them or those that `names` mean.

    Raises BuildError for a name that means none.
    """
    targets = [
        *_targets(root, "lesson.py", ("notebooks", Edition.LESSON)),
        *(
            Target(source, root / "notebooks" / f"{source.stem}.ipynb", Edition.LESSON)
            for source in sorted((root / LESSONS).glob("[a-z]*.py"))
        ),
        *_targets(root, "exercises.py", ("solutions", Edition.SOLUTION), ("exercises", Edition.EXERCISE)),
    ]
    for name in names:
        if not any(target.is_called(name) for target in targets):
            near = difflib.get_close_matches(
                name, [target.notebook.stem for target in targets], n=1, cutoff=0.5
            )
            hint = (
                f"did you mean {near[0]}?"
                if near
                else "say 03, 03_samplers or exercises/03_samplers, for example."
            )
            raise UnknownNotebookError(f"no source for a notebook called {name!r}; {hint}")
    return [t for t in targets if not names or any(t.is_called(name) for name in names)]


def _targets(root: Path, file: str, *editions: tuple[str, Edition]) -> list[Target]:
    return [
        Target(lesson.folder / file, root / goes_to / f"{lesson.name}.ipynb", edition)
        for lesson in all_lessons(root / LESSONS)
        if (lesson.folder / file).is_file()
        for goes_to, edition in editions
    ]
