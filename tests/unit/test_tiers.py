"""`make test` and what `make test-all` adds are together all tests, and each test that `make test` names is there."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests import tiers

ROOT = Path(__file__).resolve().parents[2]


def collected(*options):
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return [line for line in done.stdout.splitlines() if "::" in line]


@pytest.fixture(scope="module")
def integration():
    return collected("tests/integration")


def test_every_place_that_the_first_tier_names_is_there(integration):
    for place in (*tiers.LIVE, *tiers.ONE_OF):
        assert any(test.startswith(place) for test in integration), place


def test_a_tier_leaves_out_what_is_of_the_other(integration):
    file = "tests/integration/test_attach.py"
    mine = [test for test in integration if test.startswith(file)]
    assert collected(file, "--tier", "first") == [test for test in mine if tiers.in_first_tier(test)]
    assert collected(file, "--tier", "rest") == [test for test in mine if not tiers.in_first_tier(test)]
