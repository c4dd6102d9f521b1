"""A suite that `torchrun -m pytest` has started on each rank: a test that hangs gets a verdict, and is the last to run.

One plugin object for the session, which `plugin` registers. The ranks meet after the collection and after each test;
the watcher (`scripts.watcher`) sees which of them never come.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
from collections.abc import Generator
from typing import NoReturn

import pytest

from realranks.ranks.kernel.job import lost_a_peer
from realranks.scripts.observe_tests import WatchedTests

#: What ends a session; no rank waits for the others then.
_ENDS = (KeyboardInterrupt, SystemExit, pytest.exit.Exception)
_NO_FAILURES = (pytest.skip.Exception, pytest.xfail.Exception)


class WatchedSession:
    """The hooks of a session that is watched on this rank."""

    def __init__(self, rank: int, world_size: int) -> None:
        self._place = rank, world_size
        self._watched: WatchedTests | None = None
        self._error: BaseException | None = None
        self._met: pytest.Item | None = None
        self._hung = ""

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Be watched from now on; go on unwatched where that does not work."""
        capture = session.config.pluginmanager.getplugin("capturemanager")
        # What the watcher writes to standard error is meant for the terminal.
        with capture.global_and_fixture_disabled() if capture is not None else contextlib.nullcontext():
            try:
                self._watched = WatchedTests(*self._place)
            except (OSError, ImportError) as error:
                print(f"--ranks-doctor: these ranks are not watched: {error}", file=sys.stderr)
                return
        self._watched.begin()
        atexit.register(self._exit_if_freed, session)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Meet when all ranks have collected their tests."""
        if self._watched is not None:
            text = self._watched.meet(collected="\n".join(item.nodeid for item in session.items))
            if text:
                self._hung = "the collection of tests"
                pytest.exit(text, returncode=pytest.ExitCode.TESTS_FAILED)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, object, object]:
        """End with the verdict if a fixture hangs."""
        __tracebackhide__ = True
        self._error = None
        return (yield from self._part(item))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        """End with the verdict if the test itself hangs."""
        __tracebackhide__ = True
        return (yield from self._part(item))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, object, object]:
        """Meet when the test and its fixtures are over."""
        __tracebackhide__ = True
        try:
            result = yield from self._part(item)
        except _ENDS:
            raise
        except BaseException:
            self._meet(item)
            raise
        self._meet(item)
        return result

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_sessionfinish(self) -> Generator[None, object, object]:
        """Keep the reports: with `-x`, fixtures of the session are torn down here, where an error would end pytest."""
        try:
            return (yield)
        except Exception as error:
            if not self._hung:
                raise
            print(
                f"\n{type(error).__name__}: {error}\nThis comes of the hang of {self._hung}.", file=sys.stderr
            )
            return None

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self) -> None:
        """Stay until all ranks have written their reports: torchrun ends the others when one ends with an error."""
        if self._watched is not None:
            sys.stdout.flush()
            self._watched.leave()

    def _exit_if_freed(self, session: pytest.Session) -> None:
        """Leave out the destructors of a group whose connections were cut: gloo's may never end."""
        if self._hung:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(session.exitstatus)

    def _part(self, item: pytest.Item) -> Generator[None, object, object]:
        """Run a part of a test; an error by which a rank was freed becomes the verdict."""
        __tracebackhide__ = True
        try:
            return (yield)
        except _NO_FAILURES:
            raise
        except BaseException as error:
            self._error = self._error or error
            freed = self._watched is not None and self._watched.freed.is_set()
            if freed or lost_a_peer(str(error)):
                self._meet(item)
                if self._hung:
                    _fail(f"{type(error).__name__}: {error}\nThis comes of the hang of {self._hung}.")
            raise

    def _meet(self, item: pytest.Item) -> None:
        """Wait until all ranks are through with this test; raise the verdict if they hang."""
        __tracebackhide__ = True
        if self._watched is None or item is self._met:
            return
        self._met = item
        text = self._watched.meet(self._error)
        if not text:
            return
        self._hung = self._hung or item.nodeid
        # The processes are out of step, and the connections between them are cut.
        for later in item.session.items:
            later.add_marker(pytest.mark.skip(f"not run: {self._hung} hung, which broke the process group"))
        _fail(text)


def _fail(text: str) -> NoReturn:
    raise pytest.fail.Exception(text, pytrace=False) from None
