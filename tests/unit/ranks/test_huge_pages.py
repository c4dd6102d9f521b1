"""Collapsing changes how memory is kept, and nothing of what is in it."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.linux import kernel

ROOT = Path(__file__).parents[3]
ASK = """
import os
from realranks.ranks.server.huge_pages import collapsing

def kept(name):
    with open("/proc/self/smaps_rollup") as told:
        return next(int(line.split()[1]) for line in told if line.startswith(name + ":"))

data = bytearray(os.urandom(1 << 20) * 16)
copy = bytes(data)
before = kept("Rss")
steps = sum(1 for _ in collapsing())
child = os.fork()
if not child:
    data[5 << 20] ^= 1
    os._exit(data == copy)
assert os.waitpid(child, 0)[1] == 0
assert data == copy
print(steps, kept("AnonHugePages"), kept("Rss") - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="Linux only")
def test_memory_is_kept_in_large_pages_with_what_was_in_it():
    told = subprocess.run(
        [sys.executable, "-c", ASK], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    steps, large, more = map(int, told)
    assert steps >= 7
    if kernel() >= (6, 1):
        assert large >= 14 << 10
    assert more < 8 << 10
