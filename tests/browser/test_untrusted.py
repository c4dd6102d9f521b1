"""A notebook that somebody else has run, not trusted by JupyterLab: outputs are readable, pictures have words.

JupyterLab takes scripts, `<svg>` and forms out of such outputs. What is left must say what the output says.
"""

import nbformat
import pytest
from playwright.sync_api import expect

from tests.browser.servers import CHECKOUT

pytestmark = pytest.mark.browser

TRUSTED = """() => [...jupyterapp.shell.widgets('main')].flatMap(
    panel => (panel.content.widgets || []).filter(cell => cell.model.type === 'code' && cell.model.trusted)).length"""
#: All that has come loose: outputs that show nothing, pictures that are not drawn, or that nothing describes (axe's
#: rules image-alt and svg-img-alt), controls that do nothing.
PROBLEMS = """async cell => {
    const problems = [];
    for (const image of cell.querySelectorAll('.jp-OutputArea-output img')) {
        await image.decode().catch(() => null);
        if (!image.naturalWidth) problems.push('not drawn: ' + image.src.slice(0, 60));
        if (!image.alt.trim()) problems.push('no alternative text: ' + image.src.slice(0, 60));
    }
    for (const drawn of cell.querySelectorAll('.jp-OutputArea-output svg'))
        if (!drawn.closest('[aria-hidden=true]') && !drawn.closest('[role=img]') && !drawn.closest('button'))
            problems.push('an svg without words');
    for (const output of cell.querySelectorAll('.jp-OutputArea-output')) {
        const seen = output.innerText.trim() || output.querySelector('img');
        if (!seen) problems.push('shows nothing: ' + output.outerHTML.slice(0, 200));
        for (const control of output.querySelectorAll('button, input, select'))
            if (control.checkVisibility()) problems.push('it does nothing: ' + control.outerHTML.slice(0, 200));
    }
    return problems;
}"""


@pytest.mark.parametrize("lesson", ["00_first_ranks", "04_buckets", "15_scale"])
def test_outputs_of_a_notebook_that_is_not_trusted_are_readable(open_notebook, lesson):
    path = f"notebooks/{lesson}.ipynb"
    notebook = open_notebook(path)
    assert notebook.page.evaluate(TRUSTED) == 0
    pictures, problems = 0, []
    for index, cell in enumerate(nbformat.read(CHECKOUT / path, as_version=4).cells):
        if not cell.get("outputs"):
            continue
        notebook.cell(index).scroll_into_view_if_needed()
        expect(notebook.output(index).locator(".jp-OutputArea-output").first).to_be_attached()
        pictures += notebook.output(index).locator("img").count()
        problems += [f"cell {index}: {problem}" for problem in notebook.cell(index).evaluate(PROBLEMS)]
    assert problems == []
    saved = (CHECKOUT / path).read_text(encoding="utf-8")
    assert pictures >= saved.count("<img alt=") > 0
