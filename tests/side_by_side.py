"""A pytest plugin for runs with several workers (pytest-xdist): what must stay on one of them, in its order.

Tests of a file share gangs and kernels, and the cells of a notebook their kernel: a file goes to one worker as a whole.
Scenarios have nothing in common with each other, so those are dealt out one by one.
"""

from typing import Any

import pytest

_ONE_BY_ONE = "tests/scenarios/"


def pytest_configure(config: pytest.Config) -> None:
    if config.pluginmanager.hasplugin("dsession"):
        config.pluginmanager.register(_Dealer())


class _Dealer:
    @pytest.hookimpl
    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Any) -> Any:
        from xdist.scheduler import LoadScopeScheduling

        class ByFile(LoadScopeScheduling):
            def _split_scope(self, nodeid: str) -> str:
                return nodeid if nodeid.startswith(_ONE_BY_ONE) else nodeid.partition("::")[0]

        return ByFile(config, log)
