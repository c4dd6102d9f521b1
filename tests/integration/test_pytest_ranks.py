"""The pytest plugin: anybody's tests on real ranks, in a pytest of their own."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.support.ranks_and_kernels import until, until_gone


@dataclass(frozen=True)
class Case:
    """One test of a run: `passed`, `failure`, `error` or `skipped`, what is said of it, and what was captured."""

    ending: str
    text: str = ""
    output: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class Run:
    """A run of pytest that has ended."""

    code: int
    printed: str
    cases: dict[str, Case] = field(default_factory=dict)


def command(*options: str) -> list[str]:
    return [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:nbval", *options]


def environment(**more: str) -> dict[str, str]:
    """That of a person who runs pytest: nothing of the pytest that runs this file."""
    own = ("PYTEST_", "DDP_COURSE_LIVE")
    return {**{name: value for name, value in os.environ.items() if not name.startswith(own)}, **more}


def run_pytest(folder: Path, *options: str, **more: str) -> Run:
    report = folder / "report.xml"
    told = command(f"--junitxml={report}", "-o", "junit_logging=all", *options)
    ended = subprocess.run(
        told, cwd=folder, env=environment(**more), capture_output=True, text=True, timeout=150
    )
    return Run(ended.returncode, ended.stdout + ended.stderr, cases_of(report))


def cases_of(report: Path) -> dict[str, Case]:
    cases = {}
    for element in ET.parse(report).iter("testcase"):
        output = "\n".join(part.text or "" for part in element if part.tag.startswith("system-"))
        ends = [part for part in element if part.tag in ("failure", "error", "skipped")]
        text = "\n".join(part.text or part.get("message", "") for part in ends)
        ending = ends[0].tag if ends else "passed"
        cases[element.get("name", "")] = Case(ending, text, output, float(element.get("time", "0")))
    return cases


def write(folder: Path, source: str, name: str = "test_it.py") -> None:
    (folder / name).write_text(
        "import os, time, pytest, torch, torch.distributed as dist\n" + textwrap.dedent(source)
    )


CONFTEST = """
import threading

class Weights:
    def __init__(self, values):
        self.values = values

def check_sum(value, wanted):
    assert value == wanted

@pytest.fixture
def weights():
    return Weights([1, 2])

@pytest.fixture
def lock():
    return threading.Lock()
"""

SUITE = """
from dataclasses import dataclass
from unittest import TestCase

from conftest import Weights, check_sum

pytestmark = pytest.mark.ranks(2)
DRAWN = os.environ["NOTES"]

def note(name, value):
    with open(os.path.join(DRAWN, f"{name}-{dist.get_rank()}"), "w") as file:
        file.write(str(value))

@dataclass
class Told:
    rank: int

@pytest.mark.ranks(2, 4)
@pytest.mark.parametrize("factor", [1, 10])
def test_sums(factor, tmp_path):
    value = torch.ones(1) * factor
    dist.all_reduce(value)
    assert value.item() == factor * dist.get_world_size()
    (tmp_path / str(dist.get_rank())).touch()
    dist.barrier()
    assert len(list(tmp_path.iterdir())) == dist.get_world_size()

def test_pid(): note("pid", os.getpid())
def test_pid_again(): note("again", os.getpid())

@pytest.mark.ranks(4)
def test_one_asserts():
    wanted = {"mean": 1.5, "steps": 3}
    assert {"mean": 1.5, "steps": dist.get_rank()} == wanted or dist.get_rank() != 2

def test_all_assert():
    check_sum([1, 2, 3], [1, 2, 4])

def test_pid_after_a_failure(): note("after", os.getpid())

@pytest.mark.ranks(4)
def test_one_raises():
    if dist.get_rank() == 1:
        raise ValueError("no more batches")
    dist.all_reduce(torch.ones(1))

def test_different_collectives():
    if dist.get_rank() == 0:
        dist.broadcast(torch.ones(2), 0)
    else:
        dist.all_reduce(torch.ones(2))
    dist.barrier()

@pytest.mark.ranks(4)
def test_one_leaves():
    if dist.get_rank() != 3:
        dist.all_reduce(torch.ones(1))

def test_one_is_killed():
    if dist.get_rank() == 1:
        os.kill(os.getpid(), 9)
    dist.barrier()

def test_skips():
    pytest.skip("no GPU here")

def test_one_skips():
    if dist.get_rank() == 1:
        pytest.skip("an odd rank")

def test_one_skips_and_the_other_waits():
    if dist.get_rank() == 1:
        pytest.skip("an odd rank")
    dist.barrier()

def test_expects_to_fail():
    pytest.xfail("known")

@pytest.mark.xfail(reason="known")
def test_is_marked_to_fail():
    dist.barrier() if dist.get_rank() else None

def test_prints():
    print("the same")
    print("rank", dist.get_rank())

def test_prints_the_same():
    print("the same")

def test_takes_a_fixture(weights):
    assert isinstance(weights, Weights)

def test_takes_a_lock(lock): pass
def test_takes_monkeypatch(monkeypatch): pass
def test_takes_the_request(request): pass

@pytest.mark.parametrize(("wanted", "raised"), [(pytest.approx(0.3), pytest.raises(ValueError))])
def test_takes_what_pytest_makes(wanted, raised):
    assert 0.1 + 0.2 == wanted
    with raised:
        raise ValueError

class TestInAClass:
    def setup_method(self):
        self.value = 3

    def test_has_its_attributes(self):
        assert self.value == 3

def test_sends_objects_of_its_own():
    told = [None, None]
    dist.all_gather_object(told, Told(dist.get_rank()))
    assert told == [Told(0), Told(1)]

def test_destroys_the_group(): dist.destroy_process_group()
def test_finds_a_group(): assert dist.is_initialized()
def test_goes_elsewhere(tmp_path): os.chdir(tmp_path)
def test_is_at_home(): assert os.path.exists("test_it.py")

def test_seeds():
    torch.manual_seed(0)

def test_draws_different_numbers():
    drawn = [torch.rand(1), torch.rand(1)]
    dist.all_gather(drawn, drawn[dist.get_rank()].clone())
    assert drawn[0] != drawn[1]

def test_draws_the_same(): note("first", torch.rand(1).item())
def test_draws_the_same_again(): note("second", torch.rand(1).item())

def test_leaves_a_collective_open():
    if dist.get_rank() == 1:
        dist.all_reduce(torch.ones(1), async_op=True)

def test_meets_nothing_of_it(): dist.all_reduce(torch.ones(1))

@pytest.mark.ranks(2, timeout=1.5)
def test_sleeps():
    time.sleep(60)

def test_ends_in_an_exit():
    raise SystemExit(3)

def test_starts_a_debugger(): breakpoint()

async def test_is_async(): pass

class TestOfUnittest(TestCase):
    def test_method(self): pass
"""


@pytest.fixture(scope="module")
def notes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("notes")


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory, notes: Path) -> Run:
    folder = tmp_path_factory.mktemp("suite")
    write(folder, CONFTEST, "conftest.py")
    write(folder, SUITE)
    return run_pytest(folder, NOTES=str(notes))


def noted(notes: Path, name: str) -> list[str]:
    return [(notes / f"{name}-{rank}").read_text() for rank in range(2)]


PASSES = [
    *(f"test_sums[{n} ranks-{factor}]" for n in (2, 4) for factor in (1, 10)),
    "test_pid[2 ranks]",
    "test_takes_a_fixture[2 ranks]",
    "test_has_its_attributes[2 ranks]",
    "test_sends_objects_of_its_own[2 ranks]",
    "test_destroys_the_group[2 ranks]",
    "test_finds_a_group[2 ranks]",
    "test_goes_elsewhere[2 ranks]",
    "test_is_at_home[2 ranks]",
    "test_draws_different_numbers[2 ranks]",
    "test_leaves_a_collective_open[2 ranks]",
    "test_meets_nothing_of_it[2 ranks]",
    "test_takes_what_pytest_makes[2 ranks-wanted0-raised0]",
]


@pytest.mark.parametrize("name", PASSES)
def test_a_test_that_passes_on_all_ranks_passes(suite, name):
    assert suite.cases[name].ending == "passed", suite.cases[name].text


def test_the_exit_code_says_that_tests_have_failed(suite):
    assert suite.code == 1
    assert "INTERNALERROR" not in suite.printed


def test_an_assertion_on_one_rank_is_shown_as_pytest_shows_it(suite):
    case = suite.cases["test_one_asserts[4 ranks]"]
    assert case.ending == "failure"
    assert "Rank 2 raised AssertionError" in case.text
    assert "rank 2 |   test_it.py, line" in case.text
    assert "{'steps': 2} != {'steps': 3}" in case.text


def test_the_same_assertion_of_all_ranks_is_shown_once(suite):
    text = suite.cases["test_all_assert[2 ranks]"].text
    assert text.count("ranks 0,1 |") == text.count("At index 2 diff: 3 != 4") > 0
    assert "in check_sum" in text  # a helper of conftest.py


EXPLAINED = {
    "test_one_raises[4 ranks]": "Rank 1 raised ValueError, and ranks 0, 2 and 3 wait for it in all_reduce()",
    "test_different_collectives[2 ranks]": "wait for each other in different collectives: rank 0 in broadcast()",
    "test_one_leaves[4 ranks]": "for rank 3, which has left the test without joining.",
    "test_one_is_killed[2 ranks]": "Rank 1 died (killed by SIGKILL)",
    "test_one_skips_and_the_other_waits[2 ranks]": "Rank 1 raised Skipped, and rank 0 waits for it in barrier()",
    "test_sleeps[2 ranks]": "time.sleep() at test_it.py, line",
    "test_ends_in_an_exit[2 ranks]": "SystemExit: 3",
    "test_starts_a_debugger[2 ranks]": "no debugger works on a rank",
    "test_takes_a_lock[2 ranks]": "The fixture `lock` cannot be sent to the ranks: it is a lock",
    "test_takes_monkeypatch[2 ranks]": "The fixture `monkeypatch` belongs to the process in which pytest runs",
    "test_takes_the_request[2 ranks]": "The fixture `request` belongs to the process in which pytest runs",
}


@pytest.mark.parametrize("name", EXPLAINED)
def test_a_failure_is_explained(suite, name):
    case = suite.cases[name]
    assert case.ending == "failure"
    assert EXPLAINED[name] in case.text


def test_the_line_of_who_raised_and_of_who_waits_is_named(suite):
    lines = SUITE.splitlines()
    text = suite.cases["test_one_raises[4 ranks]"].text
    raising = lines.index('        raise ValueError("no more batches")') + 2
    assert f"rank 1       raised ValueError at test_it.py, line {raising}" in text
    assert f"ranks 0,2,3  waiting in all_reduce() at test_it.py, line {raising + 1}" in text


def test_a_deadlock_ends_within_seconds(suite):
    # A second on an idle machine; here, other tests run beside it.
    assert suite.cases["test_one_leaves[4 ranks]"].seconds < 15


def test_a_skip_on_all_ranks_is_a_skip_and_on_one_says_which(suite):
    skips = suite.cases["test_skips[2 ranks]"], suite.cases["test_one_skips[2 ranks]"]
    assert [case.ending for case in skips] == ["skipped", "skipped"]
    assert "no GPU here" in skips[0].text
    assert "rank 0" not in skips[0].text
    assert "rank 1: an odd rank" in skips[1].text


def test_an_expected_failure_is_one(suite):
    for name in ("test_expects_to_fail[2 ranks]", "test_is_marked_to_fail[2 ranks]"):
        assert suite.cases[name].ending == "skipped"
        assert "known" in suite.cases[name].text
    assert "2 xfailed" in suite.printed


def test_what_ranks_print_is_captured_by_rank(suite):
    printed = suite.cases["test_prints[2 ranks]"].output
    assert "rank 0 | the same\n       | rank 0\nrank 1 | the same\n       | rank 1" in printed
    assert "ranks 0,1 | the same" in suite.cases["test_prints_the_same[2 ranks]"].output


def test_ranks_stay_for_the_next_test_unless_one_fails(suite, notes):
    assert noted(notes, "pid") == noted(notes, "again")
    assert not set(noted(notes, "after")) & set(noted(notes, "pid"))


def test_a_test_draws_the_same_numbers_whatever_ran_before_it(suite, notes):
    assert noted(notes, "first") == noted(notes, "second")


def test_an_open_collective_is_a_warning(suite):
    assert "PytestWarning: Every rank has ended the test, but rank 1 has issued all_reduce()" in suite.printed


def test_what_would_run_without_ranks_is_refused(suite):
    method = suite.cases["test_method"]
    assert method.ending == "error"
    assert "@pytest.mark.ranks(2) works on functions and on methods of plain classes" in method.text
    assert "does not work on an async function" in suite.cases["test_is_async[2 ranks]"].text


def test_no_rank_is_left_over(suite, notes):
    until_gone([int(pid) for name in ("pid", "again", "after") for pid in noted(notes, name)], 5)


@pytest.mark.parametrize(
    ("mark", "why"),
    [
        ("ranks()", "how many ranks? As in @pytest.mark.ranks(2, 4)."),
        ("ranks('2')", "how many ranks?"),
        ("ranks(0)", "how many ranks?"),
        ("ranks(2, backend='nccl')", "its only option is timeout=SECONDS."),
        ("ranks(2, timeout=0)", "its only option is timeout=SECONDS."),
    ],
)
def test_a_mark_that_says_nothing_is_refused_before_any_test_runs(tmp_path, mark, why):
    write(tmp_path, f"@pytest.mark.{mark}\ndef test_it(): pass")
    run = run_pytest(tmp_path)
    assert run.code == 2
    assert f"@pytest.mark.{mark.replace(chr(34), chr(39))}: {why}" in run.printed


def test_more_ranks_than_there_may_be_fail_the_test(tmp_path):
    write(tmp_path, "@pytest.mark.ranks(4)\ndef test_it(): pass")
    run = run_pytest(tmp_path, DDP_COURSE_MAX_RANKS="2")
    assert "4 ranks are more than this machine is set up for: 2 at most" in run.cases["test_it[4 ranks]"].text


def test_options_of_pytest_do_what_they_do(tmp_path):
    write(
        tmp_path,
        """
        @pytest.mark.ranks(1, 2)
        def test_a(): assert dist.get_world_size() == 1
        @pytest.mark.ranks(2)
        def test_b(): assert [1] == [2]
        """,
    )
    stopped = run_pytest(tmp_path, "-x", "--maxfail=1")
    assert list(stopped.cases) == ["test_a[1 rank]", "test_a[2 ranks]"]
    chosen = run_pytest(tmp_path, "-k", "test_a and not 2", "-s")
    assert list(chosen.cases) == ["test_a[1 rank]"]
    assert chosen.code == 0
    assert list(run_pytest(tmp_path, "test_it.py::test_b[2 ranks]", "-vv").cases) == ["test_b[2 ranks]"]
    assert "test_a[2 ranks]" in run_pytest(tmp_path, "--collect-only", "-q").printed


def test_workers_of_xdist_have_gangs_of_their_own(tmp_path):
    write(
        tmp_path,
        """
        @pytest.mark.ranks(2, 3)
        @pytest.mark.parametrize("n", range(4))
        def test_it(n):
            value = torch.ones(1)
            dist.all_reduce(value)
            if n == 3:
                dist.barrier() if dist.get_rank() else None
            assert value == dist.get_world_size()
        """,
    )
    run = run_pytest(tmp_path, "-n", "2")
    failed = sorted(name for name, case in run.cases.items() if case.ending != "passed")
    assert failed == ["test_it[2 ranks-3]", "test_it[3 ranks-3]"]
    assert all("has left the test without joining" in run.cases[name].text for name in failed)


@pytest.mark.parametrize("mode", ["prepend", "append", "importlib"])
def test_tests_in_packages_are_found_on_ranks(tmp_path, mode):
    for package in ("tests", "tests/deep"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").touch()
    write(tmp_path, CONFTEST, "tests/conftest.py")
    write(tmp_path, "WANTED = [1, 2]", "tests/deep/common.py")
    write(
        tmp_path,
        """
        from ..conftest import Weights
        from .common import WANTED

        @pytest.mark.ranks(2)
        def test_it(weights):
            told = [None, None]
            dist.all_gather_object(told, weights)
            assert [each.values for each in told] == [WANTED, WANTED]
            assert isinstance(told[0], Weights)
            assert WANTED == [1, 2, 3], "to be seen"
        """,
        "tests/deep/test_it.py",
    )
    text = run_pytest(tmp_path, f"--import-mode={mode}").cases["test_it[2 ranks]"].text
    assert "to be seen" in text
    assert "Right contains one more item: 3" in text


def test_without_a_marked_test_nothing_of_the_engine_is_loaded(tmp_path):
    (tmp_path / "test_it.py").write_text(
        "import sys\n"
        "def test_it():\n"
        "    names = {name for name in sys.modules if name.startswith(('course_lib', 'realranks'))}\n"
        "    assert names == {'realranks', 'realranks.pytest_ranks', 'realranks.pytest_ranks.plugin'}\n"
        "    assert not sys.modules.keys() & {'torch', 'numpy', 'cloudpickle', 'psutil'}\n"
    )
    run = run_pytest(tmp_path)
    assert run.code == 0, run.printed


WAITS = """
@pytest.mark.ranks(2)
def test_it(tmp_path):
    with open(f"pid-{dist.get_rank()}.part", "w") as file:
        file.write(str(os.getpid()))
    os.rename(file.name, f"pid-{dist.get_rank()}")
    time.sleep(100)
"""


def pids(folder: Path) -> list[int]:
    """The ranks of WAITS, once they wait."""
    files = [folder / f"pid-{rank}" for rank in range(2)]
    until(lambda: all(file.exists() for file in files), 60)
    return [int(file.read_text()) for file in files]


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_ranks_end_with_pytest_however_it_ends(tmp_path, end):
    write(tmp_path, WAITS)
    with subprocess.Popen(
        command(), cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, text=True
    ) as process:
        ranks = pids(tmp_path)
        process.send_signal(end)
        until_gone(ranks, 5)
        printed, _ = process.communicate(timeout=30)
    if end is signal.SIGINT:
        assert process.returncode == pytest.ExitCode.INTERRUPTED
        assert "KeyboardInterrupt" in printed


def test_a_time_limit_of_pytest_timeout_ends_the_test_and_its_ranks(tmp_path):
    write(tmp_path, f"{WAITS}\n@pytest.mark.ranks(2)\ndef test_next(): dist.barrier()")
    run = run_pytest(tmp_path, "--timeout=10", "--timeout-method=signal")
    assert "Timeout" in run.cases["test_it[2 ranks]"].text
    assert run.cases["test_next[2 ranks]"].ending == "passed"
    until_gone(pids(tmp_path), 5)


def test_what_a_fixture_sets_in_the_environment_is_there_on_ranks(tmp_path):
    write(
        tmp_path,
        """
        @pytest.fixture(params=["a", "b"], autouse=True)
        def setting(request, monkeypatch, tmp_path):
            monkeypatch.setenv("SETTING", request.param)
            monkeypatch.chdir(tmp_path)
            return request.param

        @pytest.mark.ranks(2)
        def test_it(setting, tmp_path):
            assert os.environ["SETTING"] == setting
            assert os.getcwd() == str(tmp_path)
        """,
    )
    run = run_pytest(tmp_path)
    assert run.code == 0, run.printed


SPAWNS = """
import torch.multiprocessing as mp

def work(rank, world_size, mode):
    os.environ["MASTER_ADDR"] = "localhost"
    os.environ["MASTER_PORT"] = os.environ["FIXED_PORT"]
    dist.init_process_group("gloo", rank=rank, world_size=world_size)
    if mode == "hang" and rank == 1:
        return
    assert mode != "raise" or rank == 0, "only rank 0"
    dist.all_reduce(torch.ones(1))
    dist.barrier()
    dist.destroy_process_group()

@pytest.mark.parametrize("mode", MODES)
def test_spawn(mode):
    mp.spawn(work, args=(2, mode), nprocs=2, join=True)

def test_wants_it_to_fail():
    with pytest.raises(mp.ProcessRaisedException, match="only rank 0"):
        mp.spawn(work, args=(2, "raise"), nprocs=2, join=True)

def test_needs_more():
    pytest.skip("needs two machines")

def test_patches(monkeypatch):
    monkeypatch.setattr(os, "sep", "/")
"""


@pytest.fixture
def free_port() -> str:
    """Below those that the system gives to anybody who asks for one: it is free for the whole test."""
    for port in range(20000 + os.getpid() % 8000, 30000):
        with socket.socket() as listener, contextlib.suppress(OSError):
            listener.bind(("127.0.0.1", port))
            return str(port)
    raise OSError("no port is free")


def test_tests_that_spawn_their_ranks_run_as_before(tmp_path, free_port):
    write(tmp_path, SPAWNS.replace("MODES", "['ok', 'raise']"))
    run = run_pytest(tmp_path, FIXED_PORT=free_port)
    endings = {name: case.ending for name, case in run.cases.items()}
    assert endings.pop("test_spawn[raise]") == "failure"
    assert "ProcessRaisedException" in run.cases["test_spawn[raise]"].text
    assert endings.pop("test_needs_more") == "skipped"
    assert set(endings.values()) == {"passed"}


def test_the_doctor_explains_a_hang_of_tests_that_spawn_their_ranks(tmp_path, free_port):
    write(tmp_path, SPAWNS.replace("MODES", "['ok', 'hang', 'raise']"))
    began = time.monotonic()
    run = run_pytest(tmp_path, "--ranks-doctor", FIXED_PORT=free_port)
    assert time.monotonic() - began < 120
    endings = {name: case.ending for name, case in run.cases.items()}
    assert endings.pop("test_spawn[hang]") == endings.pop("test_spawn[raise]") == "failure"
    assert endings.pop("test_needs_more") == "skipped"
    assert set(endings.values()) == {"passed"}
    hang, raised = (run.cases[f"test_spawn[{mode}]"].text for mode in ("hang", "raise"))
    assert "Only rank 0 comes to all_reduce() (1 float32) at test_it.py, line 12" in hang
    assert "below `if mode == 'hang' and rank == 1: return`." in hang
    assert "Rank 1 raised AssertionError" in raised
    assert "Not watched. The fixture `monkeypatch` belongs to" in run.printed


def test_marks_of_the_plugin_are_known(tmp_path: Path, capsys: Callable[[], object]):
    write(tmp_path, "@pytest.mark.ranks(2)\ndef test_it(): pass")
    assert run_pytest(tmp_path, "--strict-markers", "--collect-only").code == 0
