"""PLAY: what several lessons import, for figures, explorables and predictions; a lesson's own is in its folder.

Until lessons had folders, all of it was here: notebooks that learners have changed, and keep, still import it so.
"""

import importlib
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

from course_lib.syllabus import all_lessons


class _Moved(MetaPathFinder, Loader):
    """Finds `course_lib.lab.samplers` as `course_lib.lessons.samplers.lab`, `course_lib.lab.moments` in its lesson."""

    def find_spec(self, fullname: str, _path: object = None, _target: object = None) -> ModuleSpec | None:
        package, _, name = fullname.rpartition(".")
        place = _place_of(name) if package == __name__ else None
        return ModuleSpec(fullname, self, origin=place) if place else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = importlib.import_module(spec.origin or "")
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:  # import has just put that of the old name there
            module.__spec__ = module.__spec__.loader_state


def _place_of(name: str) -> str | None:
    for lesson in all_lessons():
        own = "lab" if name == lesson.topic else name
        if (lesson.folder / f"{own}.py").is_file() and own not in ("lesson", "exercises"):
            return f"course_lib.lessons.{lesson.topic}.{own}"
    return None


sys.meta_path.append(_Moved())
