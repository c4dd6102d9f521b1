"""While a cell runs: what is seen, how it is stopped, and what a reload does."""

import pytest
from playwright.sync_api import expect

from tests.browser.notebook_page import reads

pytestmark = pytest.mark.browser

SCRATCH = "notebooks/scratch.ipynb"
START = """%load_ext course_lib"""
SETUP = """%%ranks 4
import time, torch
import torch.distributed as dist
kept = [dist.get_rank()]"""
AFTER = """%%ranks
x = torch.ones(1)
dist.all_reduce(x)
x.item(), len(kept)"""


def test_the_stop_button_gives_the_kernel_back(open_notebook):
    asleep = "%%ranks\ntime.sleep(3600)"
    blocked = "%%ranks\nif dist.get_rank() == 0:\n    time.sleep(3600)\ndist.barrier()"
    notebook = open_notebook(SCRATCH, START, SETUP, asleep, AFTER, blocked, AFTER)
    notebook.run(0)
    notebook.run(1)
    doing = {
        2: r"ranks 0-3\s+asleep in time\.sleep\(\) at .*time\.sleep\(3600\)",
        4: r"rank 0\s+asleep in time\.sleep\(\) at .*time\.sleep\(3600\)\s+ranks 1-3\s+waiting in barrier\(\)",
    }
    for index, what in doing.items():
        notebook.start(index)
        expect(notebook.output(index)).to_contain_text("0 of 4 ranks have finished")
        notebook.press_stop()
        output = notebook.ended(index)
        reads(output, r"You pressed stop; ranks 0-3 left the cell, they keep their variables\.\s+" + what)
        reads(notebook.errors(index), r"^KeyboardInterrupt: the cell was stopped\.\s*$")
        notebook.shoot(f"stopped_{index}", at=index)
        reads(notebook.run(index + 1), r"^ranks 0-3\s+\(4\.0, 1\)\s*$")


def test_what_ranks_print_is_seen_while_the_cell_runs(open_notebook, course):
    gate = course.root / "gate"
    gate.unlink(missing_ok=True)
    wait = f"""%%ranks
import os, sys
from tqdm import tqdm
rank = dist.get_rank()
print("first line of", rank)
for step in tqdm(range(4), desc="epochs", ncols=60, mininterval=0, disable=rank != 0):
    if rank != 0 or step < 2:
        continue
    while not os.path.exists({str(gate)!r}):
        time.sleep(0.02)
print("last line of", rank)"""
    notebook = open_notebook(SCRATCH, START, SETUP, wait)
    notebook.run(0)
    notebook.run(1)
    notebook.start(2)
    output = notebook.output(2)
    reads(
        output,
        r"rank 0\s+first line of 0.*rank 3\s+first line of 3\s+last line of 3.*50%.*3 of 4 ranks have finished",
    )
    notebook.shoot("while_running", at=2)
    gate.touch()
    notebook.ended(2)
    reads(output, r"last line of 0.*last line of 3.*100%")
    expect(output).not_to_contain_text("ranks have finished")


def test_a_reload_while_a_cell_runs_keeps_kernel_and_ranks(open_notebook, course, lab):
    gate = course.root / "reloaded"
    gate.unlink(missing_ok=True)
    wait = f"""%%ranks
import os
while not os.path.exists({str(gate)!r}):
    time.sleep(0.02)
kept.append("after")"""
    notebook = open_notebook(SCRATCH, START, SETUP, wait, AFTER)
    notebook.run(0)
    notebook.run(1)
    kernel = lab.kernel_process().pid
    notebook.start(2)
    expect(notebook.output(2)).to_contain_text("ranks have finished")

    def accept(dialog):
        dialog.accept()

    notebook.page.on("dialog", accept)
    notebook.page.reload()
    expect(notebook.cells).to_have_count(4)
    notebook.page.remove_listener("dialog", accept)  # the page stays open for other tests
    gate.touch()
    notebook.ready(SCRATCH, 4)
    assert lab.kernel_process().pid == kernel
    # What ran behind the reload has run, and the ranks answer.
    reads(notebook.run(3), r"^\s*ranks 0-3\s*\(4\.0, 2\)\s*$")
    expect(notebook.run(2)).not_to_contain_text("Error")
    reads(notebook.run(3), r"^\s*ranks 0-3\s*\(4\.0, 3\)\s*$")


def test_a_shell_command_says_that_it_runs_and_leaves_no_gap_when_it_is_over(open_notebook, course):
    gate = course.root / "shell_gate"
    gate.unlink(missing_ok=True)
    wait = f"log = !until [ -e {gate} ]; do sleep 0.02; done; echo over"
    notebook = open_notebook(SCRATCH, START, wait, "log")
    notebook.run(0)
    notebook.start(1)
    output = notebook.output(1)
    reads(output, r"^\s*running until … \(\d+ s\)\s*$")
    notebook.shoot("shell_command", at=1)
    gate.touch()
    notebook.ended(1)
    expect(output).to_have_text("")
    expect(output.locator(".jp-OutputArea-child")).to_be_hidden()
    reads(notebook.run(2), "over")
