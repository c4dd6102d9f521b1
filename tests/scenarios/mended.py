"""The mended twin of a fault: what is left of it when the doctor's advice is taken.

It stands in the fault's own file, as a variant `mended` (`course_lib.grading.known_answers` has the marks):
`#~ mended -2 |pass` takes the place of the two lines above it.
"""

from pathlib import Path

from course_lib.grading.known_answers import read


def mended(path: Path) -> str | None:
    """The script without its fault; None where nothing is marked."""
    _, variants = read(path.read_text(encoding="utf-8").splitlines())
    return "\n".join([*variants["mended"].lines, ""]) if "mended" in variants else None
