"""A pytest plugin for runs with several workers (pytest-xdist): what must stay on one of them, in its order.

Tests of a file share gangs and kernels, and the cells of a notebook their kernel: a file goes to one worker as a whole.
Scenarios, answers, and tests that start processes of their own have nothing in common with each other: those are dealt
out one by one. All that needs a browser
goes to one worker: there is one JupyterLab, and one browser that has loaded it. What takes longest comes first, so that
in the end no worker waits for another. A test marked ``alone`` takes all cores for many seconds (64 ranks that connect
each with each): it waits until the others have ended what they are at, and they wait for it, since a promise of two
seconds cannot be held beside it. All kernels of a run share what torch costs to load: the run has
a zygote (realranks/ranks/server/zygote.py), as `make lab` has one.
"""

import contextlib
import fcntl
import gc
import os
import shutil
import tempfile
import zlib
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from course_lib.grading import HARNESS
from realranks.ranks.server.preload import preload_also
from realranks.ranks.server.zygote import start_zygote

_ONE_BY_ONE = (
    "tests/scenarios/",
    "tests/answers/",
    "tests/integration/test_attach.py",
    "tests/integration/test_export.py",
    "tests/integration/test_recipes.py",
)
_LONG_ANSWERS = ("[capstone", "[checkpoints/script")
#: What goes to one worker. Lesson 12 and two hours, which are made of cells of lessons, both begin by removing the
#: scripts of the last time from the same folder.
_TOGETHER = (("tests/browser/",), ("notebooks/12_elastic", "notebooks/two_hours"))
_LONGEST_FIRST = (
    "tests/browser/",
    "tests/integration/",
    "notebooks/",
    "tests/unit/",
    "solutions/",
    "exercises/",
)


def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput"):
        config.pluginmanager.register(Turns(Path(config.workerinput["turns"])))
        return
    # torch asks the name server what 127.0.0.1 is called whenever a process that torchrun has started connects. One
    # packet in a hundred that is lost on the way costs a second then, instead of five.
    os.environ.setdefault("RES_OPTIONS", "timeout:1 attempts:3")
    if not config.option.collectonly:
        preload_also(HARNESS)
        start_zygote()
    if getattr(config.option, "dist", "no") != "no":
        turns = tempfile.mkdtemp(prefix="ddp-course-turns-")
        config.add_cleanup(lambda: shutil.rmtree(turns, ignore_errors=True))
        config.pluginmanager.register(_Dealer(turns))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):
        items.sort(key=_turn)


def pytest_collection_finish(session: pytest.Session) -> None:
    """What has been collected stays to the end: looking for garbage in it again and again takes a tenth of the time."""
    gc.collect()
    gc.freeze()


def _turn(item: pytest.Item) -> tuple[int, int]:
    """When this test's turn is: who must be alone comes first, before there is anybody to wait for.

    Those not listed, which are dealt out one by one, come last.

    They come in an order of no meaning, always the same: tests that mostly wait (a script is launched, a deadlock is
    watched) stand side by side in their folders, and all workers would wait at the same time. A whole script
    takes up to half a minute: it is in the first half, because in the end nobody would have anything to do beside it.
    """
    if item.get_closest_marker("alone"):
        return -1, 0
    last = len(_LONGEST_FIRST)
    turn = next((i for i, folder in enumerate(_LONGEST_FIRST) if item.nodeid.startswith(folder)), last)
    if turn < last:
        return turn, 0
    mixed = zlib.crc32(item.nodeid.encode())
    return turn, mixed // 2 if any(each in item.nodeid for each in _LONG_ANSWERS) else mixed


class Turns:
    """A worker's part in who may run: all of them at once, or one alone.

    Args:
        folder: the same for all workers of a run.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Around all of a test, so that its time limit begins after the wait."""
        with self.taken(alone=item.get_closest_marker("alone") is not None):
            return (yield)

    @contextlib.contextmanager
    def taken(self, *, alone: bool) -> Iterator[None]:
        """Wait for a turn and hold it. Nobody overtakes one who waits to be alone: all go through the gate."""
        with (self.folder / "gate").open("w") as gate, (self.folder / "floor").open("w") as floor:
            fcntl.flock(gate, fcntl.LOCK_EX)
            fcntl.flock(floor, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
            fcntl.flock(gate, fcntl.LOCK_UN)
            yield


class _Dealer:
    def __init__(self, turns: str) -> None:
        self.turns = turns

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        node.workerinput["turns"] = self.turns

    @pytest.hookimpl
    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Any) -> Any:
        from xdist.scheduler import LoadScopeScheduling

        class ByFile(LoadScopeScheduling):
            def _split_scope(self, nodeid: str) -> str:
                if nodeid.startswith(_ONE_BY_ONE):
                    return nodeid
                together = (group[0] for group in _TOGETHER if nodeid.startswith(group))
                return next(together, nodeid.partition("::")[0])

        config.option.loadscopereorder = False  # the order is that of _LONGEST_FIRST
        return ByFile(config, log)
