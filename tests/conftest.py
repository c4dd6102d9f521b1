"""What tests may need from the machine, and what is said when the machine has not got it."""

import functools
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.records.judged import Recorder

CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """A test marked ``gpu`` or ``gpu(2)`` runs where there are that many GPUs; ``-ra`` names it elsewhere."""
    if marker := item.get_closest_marker("gpu"):
        wanted = marker.args[0] if marker.args else marker.kwargs.get("count", 1)
        if (found := cuda_devices()) < wanted:
            pytest.skip(f"needs {wanted} CUDA device(s), found {found}")


@pytest.fixture
def recorder(pytestconfig: pytest.Config) -> "Recorder":
    """Compares a live run with its record, or keeps it anew (`make records`)."""
    from tests.records.judged import Recorder

    return Recorder(pytestconfig)


@functools.cache
def cuda_devices() -> int:
    """Ask torch in a process of its own: pytest's stays light, and a CUDA context would not survive forks."""
    ask = "import torch; print(torch.cuda.device_count())"
    answer = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
    return int(answer.stdout)


@pytest.fixture(scope="session")
def chromium_path() -> str:
    """The browser to drive. Where there is none: a skip that says so, but a failure on CI."""
    for name in CHROMIUM_NAMES:
        if path := shutil.which(name):
            return path
    missing = f"no browser found (looked for {', '.join(CHROMIUM_NAMES)})"
    if browser_required(os.environ):
        pytest.fail(f"{missing}, and CI or DDP_COURSE_REQUIRE_BROWSER asks for one")
    pytest.skip(missing)


def browser_required(environment: os._Environ[str] | dict[str, str]) -> bool:
    return environment.get("CI") == "true" or environment.get("DDP_COURSE_REQUIRE_BROWSER") == "1"
