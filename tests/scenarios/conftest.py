"""The summary behind a run of the scenarios."""

import time

import pytest

from realranks.outcome.outcome import Diagnosis
from realranks.ranks.kernel import follow_job
from tests.scenarios import tally
from tests.support.holes import holes


@pytest.fixture
def proof_delay(monkeypatch):
    """A list that gets, when a deadlock is proved, the seconds since the last thing that happened on any rank."""
    delays = []
    end = follow_job.end

    def noting(gang, run, why, **options):
        if why == "deadlock":
            now = time.time_ns()
            issued = [r.time_ns for status in run.details.values() for r in status.records]
            ended = [done.ended_ns for done in run.done.values() if done.ended_ns]
            delays.append((now - max([run.started_ns, *issued, *ended])) / 1e9)
        end(gang, run, why, **options)

    monkeypatch.setattr(follow_job, "end", noting)
    return delays


@pytest.fixture(autouse=True)
def whole_sentences(monkeypatch):
    """Whatever the doctor says meanwhile has no hole where a word was to be filled in."""
    said, made = [], Diagnosis.__init__

    def noting(self, *arguments, **fields):
        made(self, *arguments, **fields)
        said.append(self)

    monkeypatch.setattr(Diagnosis, "__init__", noting)
    yield
    assert [hole for each in said for hole in holes(each)] == []


def pytest_runtest_logreport(report):
    """Comes to the process that prints the summary, also from workers of pytest-xdist."""
    for name, value in report.user_properties if report.when == "call" else ():
        if name == "said":
            tally.SAID[report.nodeid] = tuple(value)
        elif name == "delay":
            tally.DELAYS[report.nodeid] = value


def pytest_terminal_summary(terminalreporter):
    if not tally.SAID:
        return
    terminalreporter.section("the doctor on the scenarios: expected, and how often it said what")
    for line in [*tally.confusion(tally.SAID.values()), tally.delays(tally.DELAYS.values())]:
        if line:
            terminalreporter.write_line(line)
