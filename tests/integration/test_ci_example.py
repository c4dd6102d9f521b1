"""Workflows do what they are for: the one that others may copy fails what does not hold, that of the site builds it."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
import yaml
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook

from tests.support.kernels import Manager
from tests.support.ranks_and_kernels import ROOT
from tests.support.workflows import ADDRESS, execute, jobs_of

WORKFLOW = yaml.safe_load((ROOT / "deploy/github-actions/notebooks.yml").read_text(encoding="utf-8"))
JOB = WORKFLOW["jobs"]["notebooks"]
CELLS = [
    "%load_ext course_lib",
    """\
%%ranks 2
import torch
import torch.distributed as dist

total = torch.ones(1)
dist.all_reduce(total)
print(total.item())""",
    """\
%%ranks --expect hang
if dist.get_rank() == 0:
    dist.barrier()""",
    "import time\nimport matplotlib.pyplot as plt\nlines = plt.plot([0, time.time()])",
]


@pytest.mark.parametrize("holds", [True, False])
def test_a_notebook_of_somebody_else_is_checked_by_the_workflow(tmp_path: Path, monkeypatch, holds):
    for name, value in JOB["env"].items():
        monkeypatch.setenv(name, value)
    notebook = new_notebook(cells=[new_code_cell(text) for text in CELLS])
    (tmp_path / "notebooks").mkdir()
    NotebookClient(notebook, timeout=60, kernel_name="python3", kernel_manager_class=Manager).execute()
    if not holds:
        notebook.cells[1].source = CELLS[1].replace("torch.ones(1)", "torch.zeros(1)")
        notebook.cells[2].source = CELLS[2].replace("dist.get_rank() == 0", "True")
    nbformat.write(notebook, tmp_path / "notebooks/theirs.ipynb")
    here = str(Path(sys.executable).parent)
    done = subprocess.run(
        ["sh", "-e", "-c", JOB["steps"][-1]["run"]],
        cwd=tmp_path,
        env={**os.environ, "PATH": os.pathsep.join([here, os.environ["PATH"]])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ("4 passed" if holds else "2 failed, 2 passed") in done.stdout, done.stdout + done.stderr


def test_the_site_s_workflow_builds_a_site_with_links_into_the_repository_that_runs_it(tmp_path):
    (step,) = [
        step for step in jobs_of(ROOT / ".github/workflows/site.yml")["build"]["steps"] if "run" in step
    ]
    would = execute({"run": f"{step['run']} -n -o .venv/.ready"}, ROOT, TORCH_INDEX="")
    words = shlex.split(would.stdout)
    assert words[:2] == [".venv/bin/ddp-course", "site"], would.stderr
    # What the explorables give is recorded by tests/browser/test_site.py.
    site = [sys.executable, "-m", "course_lib.cli", *words[1:], "--stills", "--out", str(tmp_path / "site")]
    subprocess.run(site, cwd=ROOT, check=True)
    assert f"{ADDRESS}/blob/main/" in (tmp_path / "site/docs/hub.html").read_text(encoding="utf-8")
