"""A course of a few lines in a temporary folder, for tests of the notebook build."""

from pathlib import Path

from course_lib.syllabus import all_lessons
from tools.plan import LESSONS, Target, find_targets


def make(root: Path) -> Path:
    (root / LESSONS).mkdir(parents=True)
    (root / "notebooks").mkdir()
    return root


def write(course: Path, name: str, text: str) -> None:
    """Write the source of ``notebooks/NAME`` or ``solutions/NAME``."""
    folder, stem = name.split("/")
    number, _, topic = stem.partition("_")
    if not number.isdecimal():
        (course / LESSONS / f"{stem}.py").write_text(text, encoding="utf-8")
        return
    lesson = course / LESSONS / topic
    lesson.mkdir(exist_ok=True)
    (lesson / "lesson.toml").write_text(
        f'number = {int(number)}\ntitle = "{topic}"\nquestion = "Why?"\nafter = "00"\nminutes = 5\n'
    )
    source = "lesson.py" if folder == "notebooks" else "exercises.py"
    (lesson / source).write_text(text, encoding="utf-8")
    all_lessons.cache_clear()


def only(course: Path, name: str) -> Target:
    """The one notebook that this name means."""
    (target,) = find_targets(course, [name])
    return target
