"""What CI makes of tests that failed: run once more, alone."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests import once_more

ROOT = Path(__file__).resolve().parents[2]
REPORT = """<testsuites><testsuite>
  <testcase classname="tests.unit.test_links" name="test_fine"/>
  <testcase classname="tests.unit.test_links" name="test_x[a.b c]"><failure message="no"/></testcase>
  <testcase classname="notebooks.03_samplers.ipynb" name="Cell 4"><failure/></testcase>
  <testcase classname="notebooks.03_samplers.ipynb" name="Cell 5"><failure/></testcase>
  <testcase classname="tests.unit.test_links" name="test_setup"><error/></testcase>
  <testcase classname="" name="tests.unit.test_house"><error message="collection failure"/></testcase>
  <testcase classname="tests.unit.test_links" name="test_left_out"><skipped/></testcase>
</testsuite></testsuites>"""


def test_failures_are_handed_to_pytest_as_it_knows_them_and_a_notebook_as_a_whole(tmp_path):
    report = tmp_path / "first.xml"
    report.write_text(REPORT, encoding="utf-8")
    assert once_more.failed_in(report) == [
        "tests/unit/test_links.py::test_x[a.b c]",
        "notebooks/03_samplers.ipynb",
        "tests/unit/test_links.py::test_setup",
        "tests/unit/test_house.py",
    ]


@pytest.mark.parametrize(
    ("unstable", "broken", "code", "last"),
    [
        (["a"], [], 0, "passed: 1 unstable, 0 failed twice"),
        (["a", "b", "c"], [], 0, "passed: 3 unstable, 0 failed twice"),
        (["a", "b", "c", "d"], [], 1, "FAILED: 4 unstable, 0 failed twice"),
        (["a"], ["b"], 1, "FAILED: 1 unstable, 1 failed twice"),
        ([], [], 1, "FAILED: the first run says that something failed, and its report names nothing"),
    ],
)
def test_three_unstable_tests_pass_and_are_named(unstable, broken, code, last):
    exit_code, lines = once_more.verdict(unstable, broken)
    assert (exit_code, lines[-1]) == (code, last)
    assert [line.split()[1].rstrip(":") for line in lines if line.startswith("UNSTABLE")] == unstable


def test_each_is_run_once_and_sorted_by_how_it_went():
    asked = []

    def run(address):
        asked.append(address)
        return address != "b"

    assert once_more.once_more(["a", "b", "c"], run) == (["a", "c"], ["b"])
    assert asked == ["a", "b", "c"]


def test_a_report_that_is_missing_or_torn_is_a_failure(tmp_path, capsys):
    assert once_more.main([str(tmp_path / "none.xml")]) == 1
    torn = tmp_path / "torn.xml"
    torn.write_text("<testsuites><testcase", encoding="utf-8")
    assert once_more.main([str(torn)]) == 1
    good = tmp_path / "good.xml"
    good.write_text("<testsuites/>", encoding="utf-8")
    assert once_more.main([str(good), str(torn)]) == 1
    assert capsys.readouterr().out.count("FAILED") == 3


@pytest.mark.parametrize("code", [0, 1])
def test_the_whole_way_with_a_real_run_of_pytest(tmp_path, code):
    """A test of the house that passes stands for one that has recovered, a wrong address for one that has not."""
    report = tmp_path / "first.xml"
    name = "test_the_code_is_formatted" if code == 0 else "test_that_is_not_there"
    report.write_text(
        f'<testsuite><testcase classname="tests.unit.test_house" name="{name}"><failure/></testcase></testsuite>',
        encoding="utf-8",
    )
    done = subprocess.run(
        [sys.executable, "-m", "tests.once_more", str(report)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    assert ("UNSTABLE  tests/unit/test_house.py::test_the_code_is_formatted" in done.stdout) is (code == 0)
