"""The notebook for machines with GPUs ends well on one without, and its report says so of every step."""

import re
from pathlib import Path

import nbformat
from nbclient import NotebookClient

from tools.gpu_day.steps import STEPS

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOK = ROOT / "deploy/kaggle/kaggle_gpus.ipynb"


def test_without_a_gpu_the_notebook_ends_with_a_report_that_says_so_of_every_step(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setenv("OUT", str(tmp_path / "gpu-day"))
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    (get,) = [cell for cell in notebook.cells if "get-the-course" in cell.metadata.get("tags", [])]
    get.source = f"import sys\n%cd {ROOT}"  # the course is here already
    NotebookClient(notebook, timeout=120).execute()
    *parts, report = [
        "".join(output.get("text", "") for output in cell.outputs).replace("\r\n", "\n")
        for cell in notebook.cells
        if cell.cell_type == "code" and cell is not get
    ]
    said = re.findall(r"^(\w+) +\d (\w+) +\d+\.\d s  no GPU", "".join(parts), re.MULTILINE)
    assert sorted(said) == sorted(("CANNOT", step.name) for step in STEPS)
    assert re.findall(r"^CANNOT (\w+) +\d+\.\d s  no GPU", report, re.MULTILINE) == [s.name for s in STEPS]
    assert f"0 PASS, 0 FAIL, {len(STEPS)} CANNOT, 0 not run" in report
    assert re.search(r"^torch +\d.*, NCCL not used: no GPU$", report, re.MULTILINE)
    assert (tmp_path / "gpu-day/report.txt").read_text(encoding="utf-8").strip() == report.strip()


def test_the_notebook_is_kept_without_outputs():
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells)
