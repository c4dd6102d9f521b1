"""Lesson 13: what a container's small /dev/shm does, on a small one in a mount namespace."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.ranks_and_kernels import ROOT

SOURCE = (ROOT / "course_lib/lessons/debugging/lesson.py").read_text(encoding="utf-8")
TRAIN = """
import torch
from torch.utils.data import DataLoader

for batch in DataLoader(torch.zeros(32, 1024, 1024), batch_size=16, num_workers=1):
    print("a batch of", batch.nbytes >> 20, "MB")
"""


def said(command, folder):
    done = subprocess.run(
        command,
        shell=True,
        cwd=folder,
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        text=True,
        capture_output=True,
        check=False,
        timeout=120,
    )
    return done.stdout + done.stderr


def test_a_data_loader_needs_more_shared_memory_than_a_container_has(tmp_path):
    (line,) = re.findall(r"^# +(unshare .*)$", SOURCE, re.MULTILINE)
    probe = line.replace("python train.py", "true")
    if (
        not shutil.which("unshare")
        or subprocess.run(probe, shell=True, capture_output=True, check=False).returncode
    ):
        pytest.skip("this system lets nobody mount a /dev/shm of his own")
    (tmp_path / "train.py").write_text(TRAIN)
    small = said(line, tmp_path)
    assert "unable to allocate shared memory(shm)" in small
    assert "a batch" not in small
    assert said(line.replace("size=64m", "size=512m"), tmp_path).count("a batch of 64 MB") == 2
