"""The plugin itself: the mark `ranks`, one test item for each number of ranks, and when the engine is loaded.

pytest imports this file in every run, also of people who have no marked test: it must stay this light.
"""

from __future__ import annotations

import inspect
import os
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from realranks.pytest_ranks.run_test import Gangs

_MARK = "ranks"
#: The parameter that holds the number of ranks of an item. No test can ask for it: its name is not an identifier.
_NUMBER = "number of ranks"
_OPTION = "--ranks-doctor"
#: The name of the plugin that watches a session which torchrun has started.
_SESSION = "realranks-torchrun"
_GANGS = pytest.StashKey["Gangs"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--ranks-doctor`."""
    parser.getgroup("ranks").addoption(
        _OPTION,
        action="store_true",
        help="explain a hang: of a suite that torchrun has started on each rank, or else of ranks that tests start "
        "themselves (torch.multiprocessing)",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Say what the mark means (`pytest --markers`)."""
    config.addinivalue_line(
        "markers",
        "ranks(n, ..., timeout=300.0): run the test on n real ranks with a gloo process group, once for each number. "
        "A deadlock fails the test within about a second, and says which rank waits where, and why.",
    )
    if config.getoption(_OPTION) and _started_by_torchrun(config):
        # Only here: who has no marked test and does not ask must not pay for the engine.
        from realranks.pytest_ranks.torchrun import WatchedSession

        place = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        config.pluginmanager.register(WatchedSession(*place), _SESSION)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make one item for each number of ranks."""
    marker = metafunc.definition.get_closest_marker(_MARK)
    if marker is None:
        return
    numbers = marker.args
    if not numbers or not all(type(number) is int and number > 0 for number in numbers):
        pytest.fail(f"{_shown(marker)}: how many ranks? As in @pytest.mark.ranks(2, 4).", pytrace=False)
    timeout = marker.kwargs.get("timeout", 1.0)
    if marker.kwargs.keys() - {"timeout"} or not isinstance(timeout, int | float) or not timeout > 0:
        pytest.fail(f"{_shown(marker)}: its only option is timeout=SECONDS.", pytrace=False)
    ids = [f"{number} rank{'s' if number > 1 else ''}" for number in numbers]
    metafunc.fixturenames.append(_NUMBER)
    metafunc.parametrize(_NUMBER, numbers, ids=ids)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Let the engine load torch while the tests before the first marked one run."""
    if not session.config.option.collectonly and any(map(_ranks_of, session.items)):
        _gangs(session.config)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Refuse what would otherwise run without any ranks, and pass."""
    marker = item.get_closest_marker(_MARK)
    if marker is None:
        return
    if not _ranks_of(item):
        pytest.fail(
            f"{_shown(marker)} works on functions and on methods of plain classes: not on a TestCase, not on a single "
            "parameter, and not when it is added after the test was collected.",
            pytrace=False,
        )
    if inspect.iscoroutinefunction(getattr(item, "obj", None)):
        pytest.fail(f"{_shown(marker)} does not work on an async function.", pytrace=False)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a marked test on its ranks, not in this process; with `--ranks-doctor`, watch one that starts its own."""
    size = _ranks_of(pyfuncitem)
    if not size:
        config = pyfuncitem.config
        apart = config.getoption(_OPTION) and not config.pluginmanager.hasplugin(_SESSION)
        return True if apart and _gangs(config).watch(pyfuncitem) else None
    marker = pyfuncitem.get_closest_marker(_MARK)
    assert marker is not None
    _gangs(pyfuncitem.config).test(pyfuncitem, size, marker.kwargs.get("timeout", 300.0))
    return True


def pytest_unconfigure(config: pytest.Config) -> None:
    """End all ranks."""
    gangs = config.stash.get(_GANGS, None)
    if gangs is not None:
        gangs.close()


def _started_by_torchrun(config: pytest.Config) -> bool:
    """Check for a session that is one of several ranks on this machine; says so if they are on several machines."""
    names = ("TORCHELASTIC_RUN_ID", "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")
    alone = config.option.collectonly or hasattr(config, "workerinput") or os.environ.get("WORLD_SIZE") == "1"
    if alone or not all(map(os.environ.get, names)):
        return False
    here = os.environ["LOCAL_WORLD_SIZE"] == os.environ["WORLD_SIZE"]
    if not here and os.environ["RANK"] == "0":
        print(f"{_OPTION}: ranks on several machines are not watched.", file=sys.stderr)
    return here


def _ranks_of(item: pytest.Item) -> int:
    """Return the number of ranks on which an item runs; 0 for tests that are not marked."""
    callspec = getattr(item, "callspec", None)
    return callspec.params.get(_NUMBER, 0) if callspec is not None else 0


def _gangs(config: pytest.Config) -> Gangs:
    if _GANGS not in config.stash:
        # Only here: who has no marked test must not pay for the engine.
        from realranks.pytest_ranks.run_test import Gangs

        config.stash[_GANGS] = Gangs()
    return config.stash[_GANGS]


def _shown(marker: pytest.Mark) -> str:
    given = [*map(repr, marker.args), *(f"{name}={value!r}" for name, value in marker.kwargs.items())]
    return f"@pytest.mark.ranks({', '.join(given)})"
