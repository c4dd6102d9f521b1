"""What pyproject.toml cannot say: how the lessons come into a wheel, and data files into an editable install.

Without its data file, no Jupyter server would load the course's extension. An editable install (`pip install -e .`, as
`make` does it) leaves data files out: setuptools asks its distribution for `has_data`, which there is not
(`editable_wheel.py`, as of setuptools 84).
"""

from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

#: What the course needs of its checkout once it is installed, beside its code: what learners are given, and solutions.
LESSONS = (
    "notebooks/*.ipynb",
    "exercises/*.ipynb",
    "exercises/**/*.py",
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


class WithDataFiles(Distribution):
    """Says that there are data files, by the name that editable installs ask for."""

    def has_data(self) -> bool:
        """Whether there are data files to install."""
        return bool(self.data_files)


setup(distclass=WithDataFiles, cmdclass={"build_py": WithLessons})
