"""Carries the lessons in wheels, for who installs the course without a checkout. All else is in pyproject.toml."""

from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

#: What the course needs of its checkout once it is installed, beside its code: what learners are given, and solutions.
LESSONS = (
    "notebooks/*.ipynb",
    "exercises/*.ipynb",
    "exercises/**/*.py",
    "solutions/sources/*.py",
    "solutions/*/*.py",
    "docs/cheatsheet.html",
    "docs/claims.md",
)


class WithLessons(build_py):
    """Also copies the lessons into the package, as course_lib/course."""

    def run(self) -> None:
        """Build the package; an editable one finds the lessons in its checkout."""
        super().run()
        if self.editable_mode:
            return
        root = Path(__file__).parent
        for pattern in LESSONS:
            for path in sorted(root.glob(pattern)):
                target = Path(self.build_lib, "course_lib", "course", path.relative_to(root))
                self.mkpath(str(target.parent))
                self.copy_file(str(path), str(target))


setup(cmdclass={"build_py": WithLessons})
