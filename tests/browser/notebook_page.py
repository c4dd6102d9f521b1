"""What a learner sees and does in an open notebook: cells, outputs, keys, the toolbar.

The same in JupyterLab and in Notebook 7. Everything waits for what it needs to see, and never for a time to pass.
"""

import re
import time
from pathlib import Path

from playwright.sync_api import Locator, Page, expect

from tests.browser.servers import Server

#: A cell has ended when it has a number; `[*]` while it runs, `[ ]` before.
NUMBER = re.compile(r"^\[(\d+)\]:?$")
#: Long enough for a slow machine: a good run waits for none of it.
SECONDS = 1000.0
CELL_TIMEOUT = 60 * SECONDS


def reads(output: Locator, pattern: str) -> None:
    """Wait until the text, as it is seen, contains this; `.` means new lines, too."""
    expect(output).to_have_text(re.compile(pattern, re.DOTALL), use_inner_text=True)


class Notebook:
    """The notebook in front of the learner."""

    def __init__(self, page: Page, shots: Path, server: Server) -> None:
        self.page = page
        self._server = server
        self._shots = shots
        self.panel = page.locator(".jp-NotebookPanel:not(.lm-mod-hidden)")
        self.cells = self.panel.locator(".jp-Notebook .jp-Cell")

    # Coming in.

    def ready(self, path: str, cells: int) -> "Notebook":
        """Wait until all cells of this notebook are there and its kernel is idle.

        The kernel's indicator alone will not do: it says idle also before there is a kernel, and JupyterLab forgets a
        Shift+Enter that comes so early. Nor will the page's address: after a reload it may be the folder's.
        """
        expect(self.cells).to_have_count(cells)
        expect(self.panel.get_by_text("Python 3 (ipykernel)").first).to_be_visible()
        until = time.monotonic() + CELL_TIMEOUT / SECONDS
        while not self._server.has_idle_kernel(path):
            assert time.monotonic() < until, f"no idle kernel for {path}: {self._server.sessions()}"
            self.page.wait_for_timeout(50)
        expect(self.panel.locator('[data-status="idle"]').first).to_be_attached()
        return self

    # Cells.

    def cell(self, index: int) -> Locator:
        return self.cells.nth(index)

    def output(self, index: int) -> Locator:
        return self.cell(index).locator(".jp-Cell-outputArea")

    def errors(self, index: int) -> Locator:
        """What stands in the cell's output as an error: a traceback, or stderr of the kernel."""
        return self.cell(index).locator(
            '[data-mime-type="application/vnd.jupyter.error"], [data-mime-type="application/vnd.jupyter.stderr"]'
        )

    def number(self, index: int) -> int | None:
        """The number of a cell that has ended."""
        found = NUMBER.match(self._prompt(index).inner_text().strip())
        return int(found[1]) if found else None

    def _prompt(self, index: int) -> Locator:
        return self.cell(index).locator(".jp-InputArea-prompt")

    # Doing.

    def select(self, index: int) -> None:
        """Make a cell the active one, in command mode: click beside its content."""
        prompt = self._prompt(index)
        prompt.scroll_into_view_if_needed()
        prompt.click()
        self.page.keyboard.press("Escape")
        expect(self.cell(index)).to_have_class(re.compile(r"\bjp-mod-active\b"))

    def start(self, index: int) -> None:
        """Shift+Enter in this cell, and wait until it runs."""
        self.select(index)
        self.page.keyboard.press("Shift+Enter")
        expect(self._prompt(index)).to_have_text(re.compile(r"\[\*\]"), timeout=CELL_TIMEOUT)

    def run(self, index: int) -> Locator:
        """Shift+Enter in this cell, wait for its end, return its output."""
        self.select(index)
        return self.run_next(index)

    def run_next(self, index: int) -> Locator:
        """Shift+Enter where the learner is (which is the cell `index`), wait for its end, return its output."""
        before = self.number(index)
        self.page.keyboard.press("Shift+Enter")
        return self.ended(index, before)

    def ended(self, index: int, before: int | None = None) -> Locator:
        """Wait until the cell has a number (another than `before`) and return its output."""
        # `expect` asks but once a second after a while, which adds up over a lesson; asked at every frame, as this
        # function would by itself, the browser draws the whole time.
        self.page.wait_for_function(
            r"""([prompt, before]) => {
                const found = /^\[(\d+)\]/.exec(prompt.textContent.trim());
                return found !== null && found[1] !== before;
            }""",
            arg=[self._prompt(index).element_handle(), str(before)],
            timeout=CELL_TIMEOUT,
            polling=50,
        )
        return self.output(index)

    def type_into(self, index: int, source: str) -> None:
        """Replace the cell's source by what the learner types."""
        self.cell(index).locator(".cm-content").click()
        self.page.keyboard.press("Control+A")
        # Pasted, not typed: the editor would indent and close brackets by itself.
        self.page.keyboard.insert_text(source)
        self.page.keyboard.press("Escape")

    def press_stop(self) -> None:
        """The toolbar's stop button."""
        self.panel.locator('[data-jp-item-name="interrupt"]').click()

    # Looking.

    def shoot(self, name: str, *, at: int | None = None) -> Path:
        """A screenshot of the window, with the cell `at` in view."""
        if at is not None:
            self.cell(at).scroll_into_view_if_needed()
        # Cells out of sight are drawn when they come into it: two frames later they have been.
        self.page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        path = self._shots / f"{name}.png"
        self.page.screenshot(path=path, animations="disabled")
        return path

    def too_wide(self) -> list[str]:
        """The outputs that have to be scrolled sideways, each with how far."""
        return self.panel.evaluate(
            """panel => {
                const bad = [];
                panel.querySelectorAll('.jp-Cell').forEach((cell, number) => {
                    const parts = cell.querySelectorAll(
                        '.jp-Cell-outputArea, .jp-OutputArea-output, .jp-OutputArea-output pre, ' +
                        '.jp-OutputArea-output div, .jp-RenderedHTMLCommon, .jp-RenderedHTMLCommon table');
                    for (const part of parts) {
                        if (part.clientWidth && part.scrollWidth > part.clientWidth + 1) {
                            bad.push(`cell ${number}: <${part.tagName} class="${part.className}"> ` +
                                     `${part.scrollWidth} > ${part.clientWidth}`);
                            break;
                        }
                    }
                });
                const page = document.scrollingElement;
                if (page.scrollWidth > page.clientWidth + 1) bad.push('the page itself');
                const notebook = panel.querySelector('.jp-WindowedPanel-outer') || panel;
                if (notebook.scrollWidth > notebook.clientWidth + 1) bad.push('the notebook itself');
                return bad;
            }"""
        )
