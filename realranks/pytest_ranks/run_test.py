"""One test on a gang: what is sent to the ranks, which gang takes it, and what pytest is told of the outcome."""

from __future__ import annotations

import functools
import inspect
import math
import os
import sys
from collections.abc import Mapping
from dataclasses import replace

import cloudpickle
import pytest
from _pytest.assertion.rewrite import AssertionRewritingHook

from realranks.doctor import with_diagnosis
from realranks.outcome.fold import fold, rank_label, table
from realranks.outcome.outcome import Diagnosis, Ending, Kind, Outcome
from realranks.outcome.places import is_learners
from realranks.outcome.report import as_text, sections
from realranks.outcome.steady import steady_log
from realranks.pytest_ranks.inside import Source, run_test
from realranks.ranks.kernel.backend import BackendError
from realranks.ranks.kernel.gang import Gang, GangError, LaunchError, State
from realranks.ranks.kernel.job import Job
from realranks.ranks.kernel.launcher import warm_up
from realranks.ranks.messages import Call
from realranks.ranks.observed.script_run import run_script_once
from realranks.ranks.server.preload import preload_also
from realranks.scripts.examine import most_relevant_outcome, passthrough
from realranks.scripts.launching import starts_its_ranks

#: What a test may raise that is not a failure, by the name of its class, and what pytest raises for it.
_NO_FAILURES = {"Skipped": pytest.skip.Exception, "XFailed": pytest.xfail.Exception}
#: pytest writes the name of the test into its environment, in which ranks are otherwise started.
_CHANGES = "PYTEST_CURRENT_TEST"
#: So many ranks may wait for the next test of their number.
_MAX_RANKS = 16


_starts_its_ranks = functools.cache(starts_its_ranks)


class Gangs:
    """The gangs of one run of pytest: one for each number of ranks, as long as tests leave them as they were."""

    def __init__(self) -> None:
        """Start to load torch in the background; gangs are started when tests need them."""
        preload_also("realranks.pytest_ranks.rewriting")
        warm_up()
        self._place: object = None
        self._gangs: dict[int, Gang] = {}

    def test(self, item: pytest.Function, size: int, timeout: float) -> None:
        """Run a test on so many ranks. Returns where it has passed on all of them.

        Raises:
            pytest.fail.Exception: it has not, with the report; or it cannot be run, with the reason.
            pytest.skip.Exception, pytest.xfail.Exception: ranks have raised that, and nothing is wrong.
            KeyboardInterrupt: Ctrl-C was pressed.
        """
        try:
            payload = _payload(item)
            outcome = self._run(item, size, payload, timeout)
        except (_NotSentError, BackendError, GangError, LaunchError) as error:
            pytest.fail(str(error), pytrace=False)
        # pytest captures them, or not, as it does with what a test prints.
        for stream, written in ((sys.stdout, outcome.stdout), (sys.stderr, outcome.stderr)):
            if text := table(fold({rank: steady_log(text) for rank, text in written.items()})):
                print(text, file=stream)
        if diagnosis := _judge(outcome):
            item.warn(pytest.PytestWarning(diagnosis.summary))

    def _run(self, item: pytest.Function, size: int, payload: bytes, timeout: float) -> Outcome:
        """Run the test and return its diagnosed outcome; keep the gang for the next test if nothing in it changed."""
        environment = {name: value for name, value in os.environ.items() if name != _CHANGES}
        place = (item.module.__name__, os.getcwd(), environment, tuple(sys.path))
        if place != self._place:
            self.close()
            self._place = place
        gang, kept = self._take(size), False
        try:
            outcome = with_diagnosis(replace(gang.call(payload, timeout=timeout, repair=False), what="test"))
            kept = outcome.ok and outcome.diagnosis is None and all(outcome.values.values())
        finally:
            if kept:
                self._gangs[size] = gang
            else:
                gang.stop(gently=False)
        while sum(self._gangs) > max(_MAX_RANKS, size):
            self._gangs.pop(next(iter(self._gangs))).stop()  # the one that was used longest ago
        return outcome

    def _take(self, size: int) -> Gang:
        """Take an idle gang of this size, or start one if there is none or a rank of it was killed."""
        gang = self._gangs.pop(size, None)
        if gang is not None:
            gang.refresh()
            if gang.state is State.IDLE:
                return gang
            gang.stop(gently=False)
        return Gang(size, backend="gloo")

    def watch(self, item: pytest.Function) -> bool:
        """Run a test that starts its ranks itself, in a process of its own, and watch them; False for other tests.

        Raises:
            As `test` does.
        """
        if not _starts_its_ranks(str(item.path)):
            return False
        try:
            job = Job(Call(_payload(item)), timeout=math.inf, repair=False)
            run = run_script_once(job, (passthrough(sys.stdout), passthrough(sys.stderr)))
        except _NotSentError as error:
            item.warn(pytest.PytestWarning(f"Not watched. {error}"))
            return False
        except (BackendError, GangError, LaunchError) as error:
            pytest.fail(str(error), pytrace=False)
        # A test may want its ranks to fail. A rank that is freed from a deadlock may end well, and the test with it.
        hung = any(each.kind is Kind.HANG for each in run.sets)
        _judge(run.script if run.script.ok and not hung else most_relevant_outcome(run))
        return True

    def close(self) -> None:
        """End all ranks, and wait for their end."""
        gangs = list(self._gangs.values())
        self._gangs.clear()
        for gang in gangs:
            gang.stop()
        for gang in gangs:
            gang.reap()


def _sources(test_module: str) -> dict[str, Source]:
    """Collect the modules that pytest itself has loaded: test modules, conftest files, and their packages.

    Ranks load them from the same files. An import by name would not find all of them (`--import-mode=importlib`), and
    failed assertions would not be explained.
    """
    modules = dict(sys.modules)
    names = {test_module}
    for name, module in modules.items():
        loader = getattr(getattr(module, "__spec__", None), "loader", None)
        if isinstance(loader, AssertionRewritingHook) and is_learners(
            getattr(module, "__file__", None) or "<"
        ):
            names.add(name)
    names |= {name.rsplit(".", n)[0] for name in names for n in range(1, name.count(".") + 1)}
    return {
        name: Source(getattr(modules[name], "__file__", None), _folders(modules[name]))
        for name in names & modules.keys()
    }


def _folders(module: object) -> tuple[str, ...] | None:
    folders = getattr(module, "__path__", None)
    return tuple(folders) if folders is not None else None


class _NotSentError(Exception):
    """A test cannot be sent to other processes; the message says why."""


def _payload(item: pytest.Function) -> bytes:
    """Serialise the test, with the values of its fixtures and parameters, for a `Call`.

    Raises:
        _NotSentError: something cannot be pickled, or belongs to pytest's process; the message names it.
    """
    arguments = {name: item.funcargs[name] for name in item._fixtureinfo.argnames}
    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    for name, value in arguments.items():
        if name not in parameters and _is_pytests(value):
            why = "belongs to the process in which pytest runs, and means nothing on ranks"
        elif (error := _pickling_error(value)) is not None:
            why = f"cannot be sent to the ranks: it is a {type(value).__name__} ({error})"
        else:
            continue
        raise _NotSentError(f"The fixture `{name}` {why}. Make what the ranks need in the test itself.")
    if (error := _pickling_error(item.obj)) is not None:
        raise _NotSentError(f"The test cannot be sent to the ranks ({error}).")
    verbosity = item.config.get_verbosity(pytest.Config.VERBOSITY_ASSERTIONS)
    test = cloudpickle.dumps((item.obj, arguments))
    return bytes(cloudpickle.dumps((run_test, (_sources(item.module.__name__), verbosity, test), ())))


def _is_pytests(value: object) -> bool:
    """Recognise `monkeypatch`, `request`, `capsys`, `record_property` and the like."""
    owner = value if inspect.isfunction(value) else type(value)
    return (owner.__module__ or "").startswith("_pytest.")


def _pickling_error(value: object) -> str | None:
    try:
        cloudpickle.dumps(value)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def _judge(outcome: Outcome) -> Diagnosis | None:
    """Raise what pytest is to know of the outcome. A test that has passed may leave something worth knowing."""
    if outcome.interrupted:
        raise KeyboardInterrupt
    if outcome.ok and (outcome.diagnosis is None or outcome.diagnosis.warning):
        return outcome.diagnosis
    types = {error.type for error in outcome.errors.values()}
    others_finished = set(outcome.endings.values()) <= {Ending.FINISHED, Ending.RAISED}
    if others_finished and len(types) == 1 and types <= _NO_FAILURES.keys():
        reasons = {rank: error.message for rank, error in outcome.errors.items()}
        raise _NO_FAILURES[types.pop()](_by_rank(reasons, len(outcome.ranks)))
    parts = [part for part in sections(outcome) if part.role in ("verdict", "error")]
    pytest.fail(as_text(parts), pytrace=False)


def _by_rank(reasons: Mapping[int, str], ranks: int) -> str:
    """Give one reason if all ranks have the same, else each with its ranks."""
    folded = fold(reasons)
    if len(folded) == 1 and len(folded[0].ranks) == ranks:
        return folded[0].text
    return "; ".join(f"{rank_label(part.ranks)}: {part.text}" for part in folded)
