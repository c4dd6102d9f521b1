"""A learner solves a task in the exercises."""

import pytest
from playwright.sync_api import expect

from tests.browser.notebook_page import reads
from tests.browser.servers import DARK

pytestmark = pytest.mark.browser

EXERCISES = "exercises/03_samplers.ipynb"
STUB = "# YOUR CODE HERE"
WRONG = """\
    generator = torch.Generator().manual_seed(seed + epoch)
    order = torch.randperm(n, generator=generator).tolist()
    if drop_last:
        order = order[: n // world_size * world_size]
    return order[rank::world_size]
"""
RIGHT = """\
    generator = torch.Generator().manual_seed(seed + epoch)
    order = torch.randperm(n, generator=generator).tolist()
    if drop_last:
        return order[: n - n % world_size][rank::world_size]
    while len(order) % world_size:
        order += order[: world_size - len(order) % world_size]
    return order[rank::world_size]
"""


def answered(cell, body: str) -> str:
    """The exercise's cell with the hole filled in."""
    return cell.source[: cell.source.index("    " + STUB)] + body.rstrip()


def test_a_task_is_answered_wrong_then_right(open_notebook, course):
    notebook = open_notebook(EXERCISES)
    assert notebook.too_wide() == []
    cells = course.fresh(EXERCISES, counts=False).cells
    task = next(i for i, cell in enumerate(cells) if cell.source.startswith("%%task samplers.shard_indices"))
    progress = next(i for i, cell in enumerate(cells) if cell.source.startswith("%progress"))
    notebook.run(1)

    reads(notebook.run(task), r"samplers.shard_indices: not attempted")
    notebook.shoot("task_not_attempted", at=task)
    reads(notebook.run(progress), r"0 of 5 tasks passed")

    notebook.type_into(task, answered(cells[task], WRONG))
    wrong = notebook.run(task)
    reads(
        wrong,
        r"samplers.shard_indices: wrong.*looks like: The ranks get different numbers of samples.*again: lesson 03",
    )
    expect(notebook.errors(task)).to_have_count(0)
    button = wrong.get_by_role("button", name="Hint 1 of ")
    button.click()
    reads(wrong, r"Hint 1 of \d for samplers.shard_indices")
    expect(wrong.get_by_role("button", name="Hint 2 of ")).to_be_visible()
    notebook.shoot("task_wrong", at=task)
    assert notebook.too_wide() == []

    notebook.type_into(task, answered(cells[task], RIGHT))
    right = notebook.run(task)
    reads(right, r"samplers.shard_indices: pass")
    expect(right).not_to_contain_text("What this looks like")
    expect(right.get_by_role("button")).to_have_count(0)
    notebook.shoot("task_right", at=task)
    reads(
        notebook.run(progress),
        r"samplers.shard_indices\s+✓ passed.*1 of 5 tasks passed. Next: samplers.make_loader",
    )
    notebook.shoot("progress", at=progress)
    assert notebook.too_wide() == []


def test_a_link_in_a_verdict_opens_the_lesson(open_notebook, course):
    notebook = open_notebook(EXERCISES)
    cells = course.fresh(EXERCISES, counts=False).cells
    task = next(i for i, cell in enumerate(cells) if cell.source.startswith("%%task samplers.shard_indices"))
    notebook.run(1)
    notebook.type_into(task, answered(cells[task], WRONG))
    notebook.run(task).get_by_role("link", name="lesson 03").click()
    expect(notebook.panel.get_by_role("heading", name="Samplers: who gets which sample")).to_be_visible()


def test_exercises_just_cloned_are_readable_in_the_dark(open_notebook, lab):
    lab.set_theme(DARK)
    notebook = open_notebook(EXERCISES, counts=True)
    expect(notebook.panel.get_by_text("not attempted").first).to_be_visible()
    assert notebook.too_wide() == []
    notebook.shoot("saved_exercises_Dark", at=3)
