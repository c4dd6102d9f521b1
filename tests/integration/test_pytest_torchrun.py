"""`torchrun -m pytest --ranks-doctor`: a suite of anybody's, on ranks that a plain torchrun has started."""

import os
import subprocess
import sys
import tempfile
import textwrap
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
#: Each rank writes a report of its own, and all tests share one group, as most suites have it.
CONFTEST = """
import os
import pytest, torch.distributed as dist

def pytest_configure(config):
    config.option.xmlpath = f"report-{os.environ['RANK']}.xml"

@pytest.fixture(scope="session", autouse=True)
def group():
    dist.init_process_group("gloo")
    yield
    dist.barrier()
    dist.destroy_process_group()

@pytest.fixture
def in_step():
    yield
    dist.barrier()
"""


@dataclass(frozen=True)
class Part:
    """An entry of a report: `passed`, `failure`, `error` (of a fixture) or `skipped`, and what is said of it."""

    ending: str
    text: str = ""


@dataclass(frozen=True)
class Suite:
    """A run of torchrun that has ended: by rank and by test, what pytest has reported."""

    code: int
    printed: str
    ranks: list[dict[str, list[Part]]]

    def endings(self, rank: int) -> dict[str, list[str]]:
        return {name: [part.ending for part in parts] for name, parts in self.ranks[rank].items()}

    def text(self, rank: int, name: str) -> str:
        return "\n".join(part.text for part in self.ranks[rank][name])


def parts_of(report: Path) -> dict[str, list[Part]]:
    parts: dict[str, list[Part]] = {}
    for case in ET.parse(report).iter("testcase") if report.is_file() else ():
        found = [each for each in case if each.tag in ("failure", "error", "skipped")]
        told = [Part(each.tag, each.text or each.get("message", "")) for each in found]
        parts.setdefault(case.get("name", ""), []).extend(told or [Part("passed")])
    return parts


@pytest.fixture
def torchrun(tmp_path, monkeypatch):
    """Run a suite; the folder for what ranks leave has a short name, for there are sockets in it."""

    def run(source: str, *options: str, ranks: int = 2) -> Suite:
        (tmp_path / "conftest.py").write_text(CONFTEST, encoding="utf-8")
        head = "import os, signal, pytest, torch, torch.distributed as dist\n"
        (tmp_path / "test_it.py").write_text(head + textwrap.dedent(source), encoding="utf-8")
        own = ("PYTEST_", "DDP_COURSE_LIVE")
        environment = {name: value for name, value in os.environ.items() if not name.startswith(own)}
        launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
        done = subprocess.run(
            [*launch, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:nbval", *options],
            cwd=tmp_path,
            env={**environment, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            check=False,
            timeout=200,
        )
        reports = [parts_of(tmp_path / f"report-{rank}.xml") for rank in range(ranks)]
        return Suite(done.returncode, done.stdout + done.stderr, reports)

    with tempfile.TemporaryDirectory(prefix="ddp") as folder:
        monkeypatch.setenv("TMPDIR", folder)
        yield run


def test_the_test_that_hangs_is_named_and_those_after_it_are_not_run(torchrun):
    source = """
    def test_sound():
        dist.all_reduce(torch.ones(1))

    def test_left_out(in_step):
        if dist.get_rank() != 1:
            dist.all_reduce(torch.ones(1))

    def test_next():
        dist.all_reduce(torch.ones(1))

    def test_last(): pass
    """
    suite = torchrun(source, "--ranks-doctor")
    assert suite.code == 1
    assert suite.endings(0) == {
        "test_sound": ["passed"],
        "test_left_out": ["failure", "error"],
        "test_next": ["skipped"],
        "test_last": ["skipped", "error"],  # the barrier with which the group is torn down
    }
    # Rank 1 hung in a fixture, which pytest calls an error.
    assert suite.endings(1) == {**suite.endings(0), "test_left_out": ["error"]}
    for rank in range(2):
        text = suite.text(rank, "test_left_out")
        assert "Only rank 0 comes to all_reduce() (1 float32) at test_it.py, line 8" in text
        assert "rank 1 is in barrier() at conftest.py, line 18" in text
        assert "not run: test_it.py::test_left_out hung" in suite.text(rank, "test_next")
        assert "This comes of the hang of test_it.py::test_left_out." in suite.text(rank, "test_last")
    assert "INTERNALERROR" not in suite.printed


FAILS = """
def test_fails({fixtures}):
    assert dist.get_rank() != 1
    dist.all_reduce(torch.ones(1))

def test_next(): pass
"""


def test_a_failure_on_one_rank_for_which_the_others_wait_is_named(torchrun):
    suite = torchrun(FAILS.format(fixtures=""), "--ranks-doctor", ranks=3)
    assert suite.endings(0)["test_fails"] == suite.endings(2)["test_fails"] == ["failure"]
    assert suite.endings(1)["test_fails"] == ["failure", "error"]
    assert "assert 1 != 1" in suite.text(1, "test_fails")
    for rank in range(3):
        text = suite.text(rank, "test_fails")
        assert "Rank 1 raised AssertionError, and ranks 0 and 2 wait for it in all_reduce()" in text
        assert suite.endings(rank)["test_next"][0] == "skipped"


def test_a_failure_is_named_also_where_its_rank_waits_in_a_fixture(torchrun):
    suite = torchrun(FAILS.format(fixtures="in_step"), "--ranks-doctor")
    for rank in range(2):
        text = suite.text(rank, "test_fails")
        assert "rank 0 in all_reduce() (1 float32) at test_it.py, line 5, rank 1 in barrier()" in text
        assert "before that, rank 1 had raised AssertionError at test_it.py, line 4" in text


def test_a_suite_that_hangs_nowhere_ends_as_without_the_plugin(torchrun):
    source = """
    RANK = int(os.environ["RANK"])

    @pytest.mark.parametrize("n", [1, 2])
    def test_sums(n, in_step):
        total = torch.full((2,), float(n))
        dist.all_reduce(total)
        assert total.tolist() == [2 * n, 2 * n]

    def test_fails_everywhere():
        dist.barrier()
        assert RANK == 2

    def test_fails_on_one(in_step):
        assert RANK == 1

    @pytest.mark.skipif(RANK == 1, reason="needs rank 0")
    def test_of_one_rank(): pass

    def test_skips_inside():
        dist.barrier()
        pytest.skip("enough seen")

    @pytest.mark.xfail(reason="known", strict=True)
    def test_known():
        assert not dist.is_initialized()

    @pytest.fixture
    def broken():
        dist.barrier()
        raise ValueError("no such file")

    def test_with_a_broken_fixture(broken): pass

    def test_expects_an_error():
        with pytest.raises(RuntimeError):
            raise RuntimeError("Connection closed by peer")

    def test_last():
        dist.all_reduce(torch.ones(1))
    """
    suites = [torchrun(source, *options) for options in ((), ("--ranks-doctor",))]
    # Without it, torchrun may end a rank that has not written its report yet when the other one ends with 1.
    plain, watched = suites
    whole = [rank for rank in range(2) if plain.ranks[rank]]
    assert whole
    for rank in whole:
        assert plain.ranks[rank] == watched.ranks[rank]
    assert all(watched.ranks)
    assert plain.code == watched.code == 1
    assert watched.endings(0)["test_last"] == ["passed"]


def test_a_suite_that_passes_ends_with_0(torchrun):
    suite = torchrun("def test_it(in_step): pass", "--ranks-doctor")
    assert suite.code == 0, suite.printed
    assert [suite.endings(rank) for rank in range(2)] == [{"test_it": ["passed"]}] * 2


def test_a_rank_that_is_killed_is_told_with_the_test(torchrun):
    source = """
    def test_before(): pass

    def test_kills():
        if dist.get_rank() == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        dist.all_reduce(torch.ones(1))
    """
    suite = torchrun(source, "--ranks-doctor")
    assert suite.code == 1
    assert "test_it.py::test_kills\nRank 1 died (killed by SIGKILL)" in suite.printed


def test_ranks_with_tests_of_their_own_are_let_alone(torchrun):
    source = """
    if os.environ["RANK"] == "0":
        def test_a_on_rank_0(): pass

    def test_b():
        dist.all_reduce(torch.ones(1))
    """
    suite = torchrun(source, "--ranks-doctor")
    assert suite.code == 0, suite.printed
    assert "The ranks have collected different tests: they are not watched." in suite.printed


def test_a_rank_that_stops_at_its_first_failure_is_missed(torchrun):
    source = """
    def test_fails_on_one():
        assert dist.get_rank() == 0

    def test_meets():
        dist.all_reduce(torch.ones(1))
    """
    suite = torchrun(source, "--ranks-doctor", "-x")
    # Rank 1 tears the group down at once, rank 0 would have gone on.
    assert suite.endings(0) == {"test_fails_on_one": ["error"]}
    assert suite.endings(1) == {"test_fails_on_one": ["failure", "error"]}
    for rank in range(2):
        text = suite.text(rank, "test_fails_on_one")
        assert "Rank 1 waits in barrier() at conftest.py, line 12 for rank 0, which has left the test" in text
        assert "before that, rank 1 had raised AssertionError at test_it.py, line 4" in text


def test_a_hang_while_tests_are_collected_is_told(torchrun):
    source = """
    if os.environ["RANK"] == "0":
        dist.init_process_group("gloo")

    def test_it(): pass
    """
    suite = torchrun(source, "--ranks-doctor")
    assert suite.code != 0
    assert "rank 0  waiting in init_process_group() at test_it.py, line 4" in suite.printed


def test_a_time_limit_that_strikes_while_a_rank_waits_for_another_leaves_them_in_step(torchrun):
    source = """
    def strike(*_):
        open("struck", "w").close()
        raise TimeoutError("too long")

    def test_is_over_first_on_rank_0():
        if dist.get_rank() == 0:
            signal.signal(signal.SIGALRM, strike)
            signal.setitimer(signal.ITIMER_REAL, 3)
        while dist.get_rank() == 1 and not os.path.exists("struck"):
            pass

    def test_meets():
        dist.all_reduce(torch.ones(1))
    """
    suite = torchrun(source, "--ranks-doctor")
    assert suite.endings(0) == {"test_is_over_first_on_rank_0": ["error"], "test_meets": ["passed"]}
    assert "TimeoutError: too long" in suite.text(0, "test_is_over_first_on_rank_0")
    assert suite.endings(1) == {"test_is_over_first_on_rank_0": ["passed"], "test_meets": ["passed"]}
