"""Which notebook comes from which source."""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

NOTEBOOK_FOLDERS = ("notebooks", "exercises", "solutions")


class BuildError(Exception):
    """A notebook cannot be built or found; the message names it and, where there is one, the cell."""


class UnknownNotebookError(BuildError):
    """No source has this name."""


class Edition(Enum):
    """What becomes of the marked regions of a source."""

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
    def name(self) -> str:
        """Folder and name as people say them: `exercises/03_samplers`."""
        return f"{self.notebook.parent.name}/{self.notebook.stem}"

    def is_called(self, name: str) -> bool:
        """Whether `name` means this notebook: '03', '03_samplers' or 'exercises/03_samplers.ipynb'."""
        wanted = name.removeprefix("./").removesuffix(".ipynb").removesuffix(".py").replace("/sources/", "/")
        stem = self.notebook.stem
        return wanted in (self.name, stem) or (wanted.isdigit() and stem.startswith(f"{wanted}_"))


def find_targets(root: Path, names: Sequence[str] = ()) -> list[Target]:
    """Return the notebooks to be made below `root`, all of them or those that `names` mean.

    Raises BuildError for a name that means none.
    """
    targets = [
        *_targets(root, "notebooks", ("notebooks", Edition.LESSON)),
        *_targets(root, "solutions", ("solutions", Edition.SOLUTION), ("exercises", Edition.EXERCISE)),
    ]
    for name in names:
        if not any(target.is_called(name) for target in targets):
            near = difflib.get_close_matches(
                name, [target.source.stem for target in targets], n=1, cutoff=0.5
            )
            hint = (
                f"did you mean {near[0]}?"
                if near
                else "say 03, 03_samplers or exercises/03_samplers, for example."
            )
            raise UnknownNotebookError(f"no source for a notebook called {name!r}; {hint}")
    return [t for t in targets if not names or any(t.is_called(name) for name in names)]


def _targets(root: Path, folder: str, *editions: tuple[str, Edition]) -> list[Target]:
    return [
        Target(source, root / goes_to / f"{source.stem}.ipynb", edition)
        for source in sorted((root / folder / "sources").glob("*.py"))
        for goes_to, edition in editions
    ]
