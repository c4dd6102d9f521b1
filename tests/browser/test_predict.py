"""A learner predicts: after a click, one Shift+Enter decides; who has not chosen is asked once."""

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

CELLS = (
    "%load_ext course_lib",
    "%%ranks 4\nimport torch\nimport torch.distributed as dist",
    "p = predict('00.skips')",
    "%%ranks --predicted\nif dist.get_rank() != 2:\n    dist.all_reduce(torch.ones(1))",
)
ASKS, DECIDES = 2, 3
REFUSED = "You have not predicted yet"


def begun(open_notebook, name):
    """The notebook with its question asked."""
    notebook = open_notebook(f"notebooks/{name}.ipynb", *CELLS)
    for index in range(ASKS + 1):
        notebook.run(index)
    return notebook, notebook.output(ASKS)


def test_after_a_click_the_next_shift_enter_decides_and_a_wrong_choice_is_told_why(open_notebook):
    notebook, question = begun(open_notebook, "clicked")
    asked = notebook.number(ASKS)
    question.get_by_role("radio", name="the other three wait for ever").click()
    question.get_by_text("rank 2 raises an error", exact=True).click()
    expect(question).to_contain_text("Your prediction: rank 2 raises an error")
    reveal = notebook.run_next(DECIDES)
    expect(reveal).to_contain_text("✗ You predicted “rank 2 raises an error”. The run says")
    expect(reveal).to_contain_text("no rank sees another one's program")
    assert notebook.number(ASKS) == asked, "it was not asked again"
    expect(question.get_by_role("radio").first).to_be_disabled()
    notebook.shoot("prediction_replied", at=DECIDES)


def test_by_keyboard_a_question_that_is_asked_again_keeps_the_choice(open_notebook):
    """Tab makes the question's cell the active one: the first Shift+Enter asks again, the second decides."""
    notebook, question = begun(open_notebook, "typed")
    question.get_by_role("radio").first.focus()
    notebook.page.keyboard.press("Tab")
    notebook.page.keyboard.press("Space")
    expect(question).to_contain_text("Your prediction: ")
    notebook.run_next(ASKS)
    expect(question.get_by_role("radio").nth(1)).to_be_checked()
    reveal = notebook.run_next(DECIDES)
    expect(reveal).to_contain_text("You predicted")


def test_who_has_not_chosen_is_asked_once(open_notebook):
    notebook, _ = begun(open_notebook, "asked")
    refused = notebook.run_next(DECIDES)
    expect(refused).to_contain_text(REFUSED)
    notebook.shoot("prediction_asked_for", at=DECIDES)
    reveal = notebook.run(DECIDES)
    expect(reveal).to_contain_text("(No prediction was made.)")
    expect(reveal).not_to_contain_text(REFUSED)


def test_all_cells_at_once_are_not_stopped_by_a_question(open_notebook):
    notebook = open_notebook("notebooks/all.ipynb", *CELLS, "'the end'")
    notebook.page.get_by_role("menubar").get_by_text("Run", exact=True).click()
    notebook.page.get_by_text("Run All Cells", exact=True).click()
    expect(notebook.ended(DECIDES + 1)).to_contain_text("the end")
    expect(notebook.output(DECIDES)).to_contain_text("(No prediction was made.)")
