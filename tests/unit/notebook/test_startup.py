"""What a kernel says of the course's magics before `%load_ext course_lib`."""

import os
import subprocess
import sys

import pytest


@pytest.mark.parametrize("cell", ["%%ranks 2\n1", "%ranks", "%%task samplers.shard_indices\n1"])
def test_a_new_kernel_says_which_cell_comes_first(cell, tmp_path):
    """The environment brings the file, as `pip install` has put it there."""
    done = subprocess.run(
        [sys.executable, "-m", "IPython", "--no-banner", "--colors=NoColor", "-c", cell],
        env={**os.environ, "IPYTHONDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "UsageError: This kernel is new and knows nothing yet." in done.stdout + done.stderr
    assert "%load_ext course_lib" in done.stdout + done.stderr
