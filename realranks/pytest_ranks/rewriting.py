"""pytest's assertions in a rank: modules load with their asserts rewritten, and what failed is explained as in pytest.

Loaded by the process that forks ranks. What pytest needs for this, a `Config` without plugins and files, is made once,
here. This file is the only one that knows how pytest does it (`_pytest/assertion`).
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import io
import os
import sys
from collections.abc import Mapping, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace
from unittest import mock

import pytest
from _pytest import assertion
from _pytest._io import TerminalWriter
from _pytest.config import get_config

from realranks.pytest_ranks.inside import Source


def _plain_config() -> pytest.Config:
    named_by_user = ("PYTEST_ADDOPTS", "PYTEST_PLUGINS")
    environment = {name: value for name, value in os.environ.items() if name not in named_by_user}
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    with mock.patch.dict(os.environ, environment, clear=True):
        config = get_config()
        config.parse(["--noconftest", "-c", os.devnull])
    # Where differences are coloured. What it writes to is no terminal: they are not.
    config.pluginmanager.register(SimpleNamespace(_tw=TerminalWriter(io.StringIO())), "terminalreporter")
    return config


_CONFIG = _plain_config()
_HOOK = assertion.install_importhook(_CONFIG)
sys.meta_path.remove(_HOOK)  # it would look for tests in whatever is imported


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the modules that pytest has loaded, in the files in which pytest has found them."""

    def __init__(self) -> None:
        self.sources: dict[str, Source] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        source = self.sources.get(fullname)
        if source is None:
            return None
        folders = list(source.folders) if source.folders is not None else None
        if source.file is not None:
            return importlib.util.spec_from_file_location(
                fullname, source.file, loader=_HOOK, submodule_search_locations=folders
            )
        spec = ModuleSpec(fullname, None, is_package=True)
        spec.submodule_search_locations = folders or []
        return spec


_FINDER = _Finder()


def load_from(sources: Mapping[str, Source]) -> None:
    """Have modules of these names loaded from these files, with their asserts rewritten."""
    _FINDER.sources.update(sources)
    if _FINDER not in sys.meta_path:
        sys.meta_path.insert(0, _FINDER)


def explain_assertions(verbosity: int) -> None:
    """Have failing asserts say from now on what differs, in as many words as pytest uses at this verbosity."""
    _CONFIG.option.verbose = verbosity


#: pytest's own wrapper around a test, which lasts as long as it is held.
_EXPLAINING = assertion.pytest_runtest_protocol(SimpleNamespace(config=_CONFIG, ihook=_CONFIG.hook))  # type: ignore[arg-type]
next(_EXPLAINING)
