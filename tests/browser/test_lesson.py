"""A learner's way from the index through lesson 00."""

import pytest
from playwright.sync_api import expect

from course_lib.questions import question_named
from tests.browser.conftest import OPEN
from tests.browser.notebook_page import Notebook, reads
from tests.browser.servers import DARK, LIGHT
from tests.unit.test_columns import COLUMNS

pytestmark = pytest.mark.browser

INDEX = "notebooks/index.ipynb"
LESSON = "notebooks/00_first_ranks.ipynb"
#: What the deciding cells of two questions contain.
HANG, DIED = "if dist.get_rank() != 2", "os._exit(1)"


def index_of(cells, text: str) -> int:
    """The first code cell that contains this."""
    return next(i for i, cell in enumerate(cells) if cell.cell_type == "code" and text in cell.source)


def test_make_lab_opens_the_index_and_its_link_opens_lesson_00(lab, course, page, shots):
    index, lesson = course.given(INDEX), course.given(LESSON)
    page.goto(f"{lab.opens}?token={lab.token}")  # the address that `make lab` prints and opens
    notebook = Notebook(page, shots, lab).ready(INDEX, len(index.cells))
    expect(notebook.panel.get_by_role("heading", name="DDP by experiment")).to_be_visible()
    notebook.shoot("index")
    notebook.panel.get_by_role("link", name="Your first ranks").click()
    notebook.ready(LESSON, len(lesson.cells))
    expect(notebook.panel.get_by_role("heading", name="00 · Your first ranks")).to_be_visible()
    assert page.url.endswith(LESSON)
    # The learner's copy: the answers are not there yet, and tasks and the cheat sheet are where the links lead.
    for index in range(len(lesson.cells)):
        notebook.cell(index).scroll_into_view_if_needed()
    expect(notebook.panel.locator(".jp-OutputArea-output")).to_have_count(0)
    explanation = notebook.cell(index_of(lesson.cells, "predict(") + 2).locator("details")
    expect(explanation.locator("p").first).to_be_hidden()
    explanation.locator("summary").click()
    expect(explanation.locator("p").first).to_be_visible()
    explanation.locator("summary").click()
    notebook.shoot("copy_without_outputs", at=index_of(lesson.cells, "predict(") + 1)


def test_at_1024_pixels_the_widest_line_of_code_fits_beside_a_scroll_bar(lab, course, page, shots):
    path, bar = "notebooks/width.ipynb", 15  # headless, Chromium draws no scroll bars
    course.write(path, "#" * COLUMNS, "#" * (COLUMNS + 30))  # fonts differ a little
    page.set_viewport_size({"width": 1024 - bar, "height": 768})
    page.goto(f"{lab.opens}?token={lab.token}")
    page.wait_for_function("'jupyterapp' in window")
    page.evaluate("jupyterapp.restored.then(() => null)")
    # The index comes to the front when it has been read.
    expect(page.locator(".jp-NotebookPanel .jp-Cell").first).to_be_visible()
    page.evaluate(OPEN, path)
    notebook = Notebook(page, shots, lab).ready(path, 2)
    assert page.evaluate("jupyterapp.shell.leftCollapsed"), "the file browser is open"
    fits, too_wide = (notebook.cell(index).locator(".cm-scroller") for index in range(2))
    # An editor is measured some time after it is there.
    page.wait_for_function("code => code.scrollWidth > code.clientWidth", arg=too_wide.element_handle())
    assert fits.evaluate("code => code.scrollWidth - code.clientWidth") == 0


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["Light", "Dark"])
def test_a_lesson_just_cloned_shows_its_saved_outputs(theme, open_notebook, lab, course):
    """Nothing was run yet, and Jupyter does not trust the notebook: no scripts, no style sheets, no widgets."""
    lab.set_theme(theme)
    notebook = open_notebook(LESSON, counts=True)
    cells = course.fresh(LESSON).cells
    for index, cell in enumerate(cells):
        if cell.cell_type == "code":
            notebook.cell(index).scroll_into_view_if_needed()
            expect(notebook.output(index).locator(".jp-OutputArea-output")).to_have_count(len(cell.outputs))
    expect(notebook.panel.get_by_text("Error displaying widget")).to_have_count(0)
    assert notebook.too_wide() == []
    name = theme.rpartition(" ")[2]
    notebook.shoot(f"saved_top_{name}", at=1)
    hang = index_of(cells, HANG)
    verdict = notebook.output(hang).locator(".ddp-box").first
    expect(verdict).to_have_css("border-left-width", "4px")
    expect(verdict).not_to_have_css("background-color", "rgba(0, 0, 0, 0)")
    notebook.shoot(f"saved_hang_{name}", at=hang + 1)
    notebook.shoot(f"saved_died_{name}", at=index_of(cells, DIED) + 1)


def test_lesson_00_runs_to_its_end_by_keyboard(open_notebook, course):
    notebook = open_notebook(LESSON)
    cells = course.fresh(LESSON, counts=False).cells
    hang = index_of(cells, HANG)
    died = index_of(cells, DIED)
    plot = index_of(cells, "draw_collectives(out)")
    shown = {
        index_of(
            cells, "dist.all_reduce(x)"
        ): r"rank 0\s+I am rank 0 and brought 0\.0.*rank 3\s.*Now I have 6\.0",
        hang: r"Ranks 0, 1 and 3 wait in all_reduce\(\) .* for rank 2",
        index_of(cells, "1 / 0"): r"Rank 1 raised.*ZeroDivisionError: division by zero",
        died: r"Rank 3 died",
        index_of(cells, "--stop-after"): r"You pressed stop; ranks 0-3 left the cell",
        index_of(cells, "everyones"): r"ranks 0-3\s+True",
        index_of(cells, "!torchrun --standalone --nproc-per-node=4"): r"4 processes, accuracy 0\.\d\d",
    }
    passed_over = []
    notebook.select(0)
    for index, cell in enumerate(cells):
        folded = cell.metadata.get("jupyter", {}).get("source_hidden")
        if cell.cell_type != "code" or folded:  # without a prompt that would say when it has ended
            notebook.page.keyboard.press("Shift+Enter")
            continue
        if "!torchrun" in cell.source and "nbval-skip" not in cell.metadata.get("tags", ()):
            # Two processes that load torch, and their launcher: nbval runs this cell and compares what it prints.
            notebook.page.keyboard.press("ArrowDown")
            passed_over.append(index)
            continue
        output = notebook.run_next(index)
        expect(notebook.errors(index)).to_have_count(0)
        if "predict(" in cell.source:
            output.get_by_role("radio").first.click()
        if pattern := shown.get(index):
            reads(output, pattern)
    assert len(passed_over) == 2
    image = notebook.output(plot).locator("img")
    expect(image).to_be_visible()
    assert image.evaluate("image => image.naturalWidth") > 400
    assert notebook.too_wide() == []
    notebook.shoot("run_top", at=1)
    for name, index in {"machine": 3, "hang": hang, "raised": hang + 7, "died": died, "plot": plot}.items():
        notebook.shoot(f"run_{name}", at=index + 1)


def test_in_the_learner_s_copy_an_explanation_opens_when_its_run_is_over(open_notebook, course):
    """Not before it, not when the run was refused, and once: who closes it finds it closed."""
    notebook = open_notebook(LESSON, given=True)
    cells = course.given(LESSON).cells
    first, hang = index_of(cells, "%%ranks 4"), index_of(cells, HANG)
    opening, decided = (notebook.cell(index + 1).locator("details") for index in (first, hang))
    notebook.run(index_of(cells, "%load_ext"))
    expect(opening).not_to_have_attribute("open", "")
    notebook.run(first)
    expect(opening).to_have_attribute("open", "")
    opening.locator("summary").click()
    notebook.run(hang - 1)
    expect(notebook.run_next(hang)).to_contain_text("You have not predicted yet")
    expect(decided).not_to_have_attribute("open", "")
    notebook.run(hang)
    expect(decided).to_have_attribute("open", "")
    expect(opening).not_to_have_attribute("open", "")
    notebook.shoot("explanation_open", at=hang + 1)


def test_a_prediction_is_clicked_or_chosen_by_keyboard_and_the_run_decides(open_notebook, course):
    notebook = open_notebook(LESSON)
    cells = course.fresh(LESSON, counts=False).cells
    keyboard = notebook.page.keyboard
    for index in (index_of(cells, "%load_ext"), index_of(cells, "%%ranks 4")):
        notebook.run(index)

    # By mouse, and right. The deciding cell is still the active one.
    ask = index_of(cells, "00.skips")
    question = notebook.run(ask)
    question.get_by_role("radio", name="the other three wait for ever").click()
    expect(question).to_contain_text("Your prediction: the other three wait for ever")
    notebook.shoot("prediction_chosen", at=ask + 1)
    reveal = notebook.run_next(ask + 1)
    expect(reveal).to_contain_text("✓ You predicted “the other three wait for ever”")
    expect(question.get_by_role("radio").first).to_be_disabled()
    notebook.shoot("prediction_right", at=ask + 1)

    # By keyboard. Tab goes from answer to answer; the arrow keys are JupyterLab's.
    ask = index_of(cells, "00.divides")
    first, *_, last = (option.says for option in question_named("00.divides", {}).options)
    question = notebook.run(ask)
    question.get_by_role("radio").first.focus()
    keyboard.press("Space")
    expect(question).to_contain_text(f"Your prediction: {first}")
    for _ in range(question.get_by_role("radio").count() - 1):
        keyboard.press("Tab")
    keyboard.press("Space")
    expect(question).to_contain_text(f"Your prediction: {last}")
    reveal = notebook.run(ask + 1)
    expect(reveal).to_contain_text(f"You predicted “{last}”")
    notebook.shoot("prediction_wrong", at=ask + 1)

    # Changed and run again: it is still the cell that has decided, and no other question is decided by it.
    notebook.type_into(ask + 1, "%%ranks --predicted\nprint('something else')")
    again = notebook.run(ask + 1)
    reads(again, r"ranks 0-3\s+something else")
    expect(notebook.errors(ask + 1)).to_have_count(0)
    expect(again).not_to_contain_text("The run says")
