"""A course of a few lines in a temporary folder, for tests of the notebook build."""

from pathlib import Path

from tools.plan import Target, find_targets


def make(root: Path) -> Path:
    for folder in ("notebooks/sources", "solutions/sources"):
        (root / folder).mkdir(parents=True)
    return root


def write(course: Path, name: str, text: str) -> None:
    """Write the source of ``notebooks/NAME`` or ``solutions/NAME``."""
    folder, stem = name.split("/")
    (course / folder / "sources" / f"{stem}.py").write_text(text, encoding="utf-8")


def only(course: Path, name: str) -> Target:
    """The one notebook that this name means."""
    (target,) = find_targets(course, [name])
    return target
