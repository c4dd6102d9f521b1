"""What is not run is said once, at the end, with what installs it; on CI a missing browser is a failure."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import browser_required

ROOT = Path(__file__).resolve().parents[2]


def run(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    (folder / "conftest.py").write_text("from tests.conftest import *\n", encoding="utf-8")
    (folder / "pytest.ini").write_text(
        "[pytest]\nmarkers = gpu(count=1)\naddopts = -p tests.tiers\n", encoding="utf-8"
    )
    outside = {key: value for key, value in os.environ.items() if key != "CI"}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:nbval"],
        cwd=folder,
        env=outside | {"PYTHONPATH": str(ROOT), "PYTEST_ADDOPTS": ""} | environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def no_browser(tmp_path):
    tests = "".join(f"def test_{n}(chromium_path):\n    pass\n\n\n" for n in range(2))
    (tmp_path / "test_page.py").write_text(tests, encoding="utf-8")
    return tmp_path


def test_without_a_browser_it_is_said_once_how_many_tests_were_not_run_and_what_installs_it(no_browser):
    done = run(no_browser, PATH=str(no_browser))
    (line,) = (line for line in done.stdout.splitlines() if "no browser found" in line)
    assert line.startswith("   2 tests: no browser found (looked for chromium,")
    assert line.endswith("->  apt-get install chromium")
    assert done.returncode == 0


@pytest.mark.parametrize("rule", [{"CI": "true"}, {"DDP_COURSE_REQUIRE_BROWSER": "1"}], ids=str)
def test_on_ci_a_missing_browser_is_a_failure(no_browser, rule):
    done = run(no_browser, PATH=str(no_browser), **rule)
    assert done.returncode == 1
    assert "no browser found" in done.stdout
    assert browser_required(rule)


def test_that_gpus_are_missing_is_told(tmp_path):
    (tmp_path / "test_nccl.py").write_text(
        "import pytest\n\n@pytest.mark.gpu(1000)\ndef test_thousand_gpus():\n    assert False\n",
        encoding="utf-8",
    )
    done = run(tmp_path)
    assert "   1 tests: needs 1000 CUDA device(s)" in done.stdout
    assert done.returncode == 0
