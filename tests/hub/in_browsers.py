"""Learners of a hub in a real browser: each signs in on the hub's page, opens lesson 00 in JupyterLab, runs a deadlock.

One browser, and a context for each learner, which is what a browser of their own would be: cookies, cache and storage
are not shared. All do each thing at the same moment.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from playwright.async_api import Locator, Page, async_playwright, expect

CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
#: Six servers and six JupyterLabs that load at once, on two cores.
SECONDS = 150.0
#: What the first deciding cell of the lesson contains; what its question has as the right answer.
DECIDES, RIGHT = "if dist.get_rank() != 2", "the other three wait for ever"


class Learner:
    """One learner in front of a browser."""

    def __init__(self, name: str, hub: str, page: Page) -> None:
        self.name, self.page, self._hub = name, page, hub
        self._panel = page.locator(".jp-NotebookPanel:not(.lm-mod-hidden)")
        self._decides = self._panel.locator(".jp-CodeCell", has_text=DECIDES).first

    async def sign_in(self, lesson: str) -> None:
        """From the link that an instructor hands out to the lesson with an idle kernel."""
        await self.page.goto(f"{self._hub}/hub/user-redirect/lab/tree/{lesson}")
        await self.page.locator("#username_input").fill(self.name)
        await self.page.locator("#password_input").fill("none")
        await self.page.locator("#login_submit").click()
        await expect(self._panel.get_by_role("heading", name="00 · Your first ranks")).to_be_visible()
        await expect(self._panel.get_by_text("Python 3 (ipykernel)").first).to_be_visible()
        await expect(self._panel.locator('[data-status="idle"]').first).to_be_attached()

    async def read(self) -> None:
        """Run all cells above the deadlock, and predict."""
        await self._decides.scroll_into_view_if_needed()
        await self._decides.locator(".jp-InputArea-prompt").click()
        await self.page.get_by_role("menubar").get_by_text("Run", exact=True).click()
        await self.page.get_by_text("Run All Above Selected Cell", exact=True).click()
        await self._panel.get_by_label(RIGHT).first.check()
        await expect(self._panel.get_by_text(f"Your prediction: {RIGHT}").first).to_be_visible()

    async def run_deadlock(self) -> None:
        """Shift+Enter, until the report is there and the kernel is free again."""
        await self._decides.locator(".jp-InputArea-prompt").click()
        await self.page.keyboard.press("Escape")
        await self.page.keyboard.press("Shift+Enter")
        report = self._output()
        await expect(report).to_contain_text(f"You predicted “{RIGHT}”, and so it is.")
        await expect(report).to_contain_text("rank 2")
        await expect(self._panel.locator('[data-status="idle"]').first).to_be_attached()

    async def report(self) -> str:
        """What the learner sees below the cell."""
        return await self._output().inner_text()

    def _output(self) -> Locator:
        return self._decides.locator(".jp-Cell-outputArea")


def hold(hub: str, names: Sequence[str], lesson: str, meanwhile: Callable[[], None]) -> None:
    """Have them all do it; `meanwhile` is called while all of it is open."""
    asyncio.run(_hold(hub, names, lesson, meanwhile))


async def _hold(hub: str, names: Sequence[str], lesson: str, meanwhile: Callable[[], None]) -> None:
    path = next(filter(None, map(shutil.which, CHROMIUM_NAMES)), None)
    if path is None:
        raise RuntimeError(
            f"needs a browser (looked for {', '.join(CHROMIUM_NAMES)}); --only api goes without"
        )
    expect.set_options(timeout=SECONDS * 1000)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=path, args=["--no-sandbox", "--disable-gpu"]
        )
        pages = [
            await _page(await browser.new_context(viewport={"width": 1280, "height": 900})) for _ in names
        ]
        learners = [Learner(name, hub, page) for name, page in zip(names, pages, strict=True)]
        try:
            await _all("have signed in and opened a lesson", [each.sign_in(lesson) for each in learners])
            await _all("have run what is above, and predicted", [each.read() for each in learners])
            await _all("have run a deadlock and seen its report", [each.run_deadlock() for each in learners])
        except BaseException:
            await _shoot(learners, "failed")
            raise
        reports = {await each.report() for each in learners}
        print(f"their reports differ in {len(reports) - 1} of {len(learners)}; the first:")
        print(*(f"    {line}" for line in min(reports).splitlines() if line.strip()), sep="\n")
        await _shoot(learners[:1], "deadlock")
        await asyncio.to_thread(meanwhile)
        await browser.close()


async def _page(context: object) -> Page:
    from playwright.async_api import BrowserContext

    assert isinstance(context, BrowserContext)
    context.set_default_timeout(SECONDS * 1000)
    return await context.new_page()


async def _all(what: str, does: Sequence[Awaitable[None]]) -> None:
    began = time.monotonic()

    async def timed(one: Awaitable[None]) -> float:
        await one
        return time.monotonic() - began

    seconds = sorted(await asyncio.gather(*map(timed, does)))
    print(f"{len(seconds)} learners {what}: {seconds[0]:.1f} to {seconds[-1]:.1f} s", flush=True)


async def _shoot(learners: Sequence[Learner], what: str) -> None:
    """Screenshots go to DDP_COURSE_SCREENSHOTS, as those of tests/browser do."""
    if folder := os.environ.get("DDP_COURSE_SCREENSHOTS"):
        for each in learners:
            await each.page.screenshot(path=Path(folder) / f"hub_{what}_{each.name}.png")
