"""Functions and classes at the top of a lesson's or a solution's source, word for word, for tests that run them."""

import ast
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.support.ranks_and_kernels import ROOT


def definitions(source: str, names: Iterable[str], **given: Any) -> dict[str, Any]:
    """Run the definitions of these names, and the imports, of a source.

    Args:
        source: a path below the repository's root.
        given: other names that they use.
    """
    path, wanted = Path(ROOT, source), {*names}
    tree = ast.parse(path.read_text(encoding="utf-8"))
    body = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    defined = [
        node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name in wanted
    ]
    assert {node.name for node in defined} == wanted
    found = {"__name__": path.stem, **given}
    exec(compile(ast.Module(body=[*body, *defined], type_ignores=[]), str(path), "exec"), found)
    return found


def is_module(path: Path) -> bool:
    """Whether a file of the course is a module: not the source of a notebook, nor an answer."""
    return not re.search(
        r"course_lib/lessons/(\w+/(lesson|exercises|answers/.*)|index|glossary|two_hours)\.py$",
        path.as_posix(),
    )
