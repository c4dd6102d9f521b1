"""A pytest plugin: which tests `make test` runs, what each group of tests costs, and what could not be run.

Without `--tier`, everything named on the command line runs. `--tier first` is `make test`: what tells a newcomer in
minutes that the course works, and an author that a change broke nothing. `--tier rest` is what `make test-all` adds.
CONTRIBUTING.md says what each group proves.
"""

from __future__ import annotations

import zlib
from collections import Counter, defaultdict
from typing import Any

import pytest

#: Live tests that `make test` runs whole, by file: what a learner meets first, and what cannot be recorded.
LIVE = {
    f"tests/integration/test_{name}.py"
    for name in (
        "bad_input",
        "cells",
        "deadlocks",
        "errors",
        "grading_isolation",
        "interrupts",
        "kernel",
        "kernel_dies",
        "predict",
        "processes",
        "run",
        "verdicts",
        "watch",
    )
}
#: Of each other door one test, or a few that share what they start.
ONE_OF = (
    "tests/integration/test_attach.py::test_a_hung_run_is_explained[skipped]",
    "tests/integration/test_board.py::test_a_kernel_joins_votes_and_leaves",
    "tests/integration/test_elastic.py::test_by_default_the_job_ends",
    "tests/integration/test_export.py::test_a_lesson_s_script_prints_what_its_ranks_print[08_unused]",
    "tests/integration/test_grading_magics.py",
    "tests/integration/test_hosts.py::test_a_deadlock_across_hosts_is_proved",
    "tests/integration/test_hosts.py::test_a_cell_runs_on_the_ranks_of_both",
    "tests/integration/test_hosts.py::test_names_and_commands_that_are_none",
    "tests/integration/test_own_launch.py::test_a_rank_that_is_killed_is_to_blame",
    "tests/integration/test_pytest_ranks.py::test_a_failure_is_explained",
    "tests/integration/test_pytest_ranks.py::test_a_test_that_passes_on_all_ranks",
    "tests/integration/test_watched_cells.py",
)
#: Of these, one in ten: always the same ones.
_TENTH = (
    "tests/answers/test_answers.py::test_an_answer_",
    "tests/integration/test_grading_isolation.py::test_a_nasty_answer_",
    "tests/integration/test_grading_isolation.py::test_an_answer_cannot_touch_",
    "tests/integration/test_grading_isolation.py::test_an_answer_reaches_no_network",
    "tests/scenarios/test_scenarios.py::test_the_doctor_",
)
_ALL_OF = ("tests/unit/", "tests/records/", "notebooks/", "exercises/", "solutions/")

#: What a test was not run for, and how that gets here (Debian's names).
_INSTALL = {
    "browser": "apt-get install chromium",
    "sshd": "apt-get install openssh-server",
    "slurm": "apt-get install slurmd slurmctld munge",
    "setpriv": "apt-get install util-linux",
    "unshare": "apt-get install util-linux iproute2",
}
_GROUPS = {
    "tests/unit": "unit",
    "tests/records": "records",
    "notebooks": "cells",
    "exercises": "cells",
    "solutions": "cells",
    "tests/integration": "integration",
    "tests/answers": "answers",
    "tests/scenarios": "scenarios",
    "tests/browser": "browser",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of `make test`, `make test-all` and `make records`."""
    group = parser.getgroup("course")
    group.addoption(
        "--tier", choices=("first", "rest"), help="the tests of make test, or those that make test-all adds"
    )
    group.addoption(
        "--record", action="store_true", help="keep what live runs give as records (make records)"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Report from the process that prints the summary."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Costs(config), "costs")


def in_first_tier(nodeid: str) -> bool:
    """Whether `make test` runs this test."""
    if nodeid.startswith(_TENTH):
        return zlib.crc32(nodeid.encode()) % 10 == 0
    return nodeid.startswith((*_ALL_OF, *ONE_OF)) or nodeid.partition("::")[0] in LIVE


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is not of the tier."""
    tier = config.getoption("--tier")
    if tier is None:
        return
    kept = [item for item in items if in_first_tier(item.nodeid) == (tier == "first")]
    config.hook.pytest_deselected(items=[item for item in items if item not in set(kept)])
    items[:] = kept


class Costs:
    """Adds up seconds by group of tests, and names at the end what was not run, with the line that installs it."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.tests: Counter[str] = Counter()
        self.reasons: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Comes from all workers."""
        group = next(
            (name for folder, name in _GROUPS.items() if report.nodeid.startswith(f"{folder}/")), "other"
        )
        self.seconds[group] += report.duration
        self.tests[group] += report.when == "call" or report.outcome == "skipped"
        if report.skipped and isinstance(report.longrepr, tuple) and not hasattr(report, "wasxfail"):
            reason = report.longrepr[2].removeprefix("Skipped: ")
            # nbval gives no reason.
            self.reasons["a cell with the tag nbval-skip" if reason == "Skipped" else reason] += 1

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print the table, what was not run, and what was proved."""
        if self.tests.total() > 1:
            terminalreporter.section("seconds of workers by group (CONTRIBUTING.md says what each proves)")
            for group, seconds in sorted(self.seconds.items(), key=lambda each: -each[1]):
                terminalreporter.write_line(f"{group:<12} {self.tests[group]:5} tests  {seconds:7.0f} s")
        if self.reasons:
            terminalreporter.section("not run here")
            for reason, count in self.reasons.most_common():
                word = next((each for each in _INSTALL if each in reason.lower()), None)
                hint = f"   ->  {_INSTALL[word]}" if word else ""
                terminalreporter.write_line(f"{count:4} tests: {reason}{hint}")
