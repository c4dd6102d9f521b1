"""torch's private names are where the course looks for them, and all that it uses are listed."""

import ast
import functools
import importlib
import inspect
from collections import defaultdict
from pathlib import Path

import pytest
import torch

from realranks.ranks.torch_internals import INTERNALS
from tests.support.lesson_code import is_module

PACKAGES = [Path(__file__).parents[2] / name for name in ("course_lib", "realranks")]
#: Private names of Python, of libraries other than torch, and of protocols: `_repr_html_`.
NOT_TORCHS = {
    "_actions": "argparse",
    "_args": "multiprocessing.Process",
    "_bootstrap": "multiprocessing.Process",
    "_popen": "multiprocessing.Process",
    "_target": "multiprocessing.Process",
    "_flush_std_streams": "multiprocessing.util",
    "_run_exitfuncs": "atexit",
    "_current_exceptions": "sys",
    "_current_frames": "sys",
    "_getframe": "sys",
    "_exit": "os",
    "_fixtureinfo": "pytest",
    "_io": "pytest",
    "_pytest": "pytest",
    "_pylab_helpers": "matplotlib",
    "_repr_mimebundle_": "IPython",
    "_typeshed": "type checkers",
    "_ZSt13set_terminatePFvvE": "libstdc++",
}


def resolved(name: str):
    """The object of a dotted name: modules are imported, the rest are attributes."""
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            module = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        return functools.reduce(getattr, parts[cut:], module)
    raise ModuleNotFoundError(name)


@pytest.mark.parametrize("internal", INTERNALS, ids=lambda internal: internal.name)
def test_torch_has_it_where_the_course_looks(internal):
    if internal.cuda and not torch.backends.cuda.is_built():
        pytest.skip(f"needs the CUDA build of torch: {internal.name}")
    owner, _, name = internal.name.rpartition(".")
    if internal.held_by == "self":
        source = ast.parse(inspect.getsource(inspect.getmodule(resolved(owner))))
        assert any(
            isinstance(node, ast.Attribute) and node.attr == name and isinstance(node.ctx, ast.Store)
            for node in ast.walk(source)
        ), f"no method of {owner} sets {name}: the course needs it for {internal.use}"
        return
    if internal.optional and not hasattr(resolved(owner), name):
        return
    found = resolved(internal.name)
    if internal.stack:
        code = inspect.unwrap(found).__code__
        assert code.co_name == name, f"a stack says {code.co_name}: the course knows {internal.use} by {name}"


def private_names() -> dict[str, set[str]]:
    """Private names that are used in the course and defined nowhere in it, and the files that use them."""
    trees = {
        path: ast.parse(path.read_text(encoding="utf-8"))
        for folder in PACKAGES
        for path in filter(is_module, folder.rglob("*.py"))
    }
    own = set()
    for tree in trees.values():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                own.add(node.name)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                own.add(node.id)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                own.add(node.attr)
    used = defaultdict(set)
    for path, tree in trees.items():
        for node in ast.walk(tree):
            names = set()
            if isinstance(node, ast.Attribute):
                names = {node.attr} - own
            elif isinstance(node, ast.ImportFrom) and not (node.module or "").startswith(
                ("course_lib", "realranks")
            ):
                names = {*(node.module or "").split("."), *(alias.name for alias in node.names)}
            for name in names:
                if name.startswith("_") and not name.startswith("__"):
                    used[name].add(path.name)
    return used


def test_every_private_name_that_the_course_uses_is_listed():
    listed = {part for internal in INTERNALS for part in internal.name.split(".")} | NOT_TORCHS.keys()
    unlisted = {name: files for name, files in private_names().items() if name not in listed}
    assert unlisted == {}, "add it to realranks/ranks/torch_internals.py, or do without it"


def test_every_name_listed_is_used():
    text = "\n".join(
        path.read_text(encoding="utf-8")
        for folder in PACKAGES
        for path in filter(is_module, folder.rglob("*.py"))
        if "internals" not in path.stem
    )
    assert [internal.name for internal in INTERNALS if internal.name.rpartition(".")[2] not in text] == []
