"""One server, one browser, and one JupyterLab, which stays open; screenshots go to DDP_COURSE_SCREENSHOTS.

To load JupyterLab keeps a core busy for six seconds, longer than most tests do. So `open_notebook` opens its notebook
in a page that is already there, and that is closed only when a test fails. `page` is a new tab.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.browser.notebook_page import Notebook
from tests.browser.servers import LIGHT, Course, Server, course_lab

CHROMIUM_OPTIONS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
FAILED = pytest.StashKey[bool]()
WINDOW = {"width": 1280, "height": 900}
#: JupyterLab is ready; the learner may have chosen another theme.
STARTED = """async theme => {
    await jupyterapp.restored;
    await jupyterapp.commands.execute('apputils:change-theme', { theme });
}"""
#: Documents are opened as a click in the file browser opens them.
OPEN = "path => jupyterapp.commands.execute('docmanager:open', { path }).then(() => null)"
#: Nothing is saved, and nobody is asked whether it should be.
CLOSE_ALL = "() => { for (const each of [...jupyterapp.shell.widgets('main')]) each.dispose(); }"
# Playwright's five seconds are short when JupyterLab loads on a machine that is busy with other things.
expect.set_options(timeout=60_000)


@pytest.fixture(scope="session")
def shots(tmp_path_factory) -> Path:
    """Where screenshots are written."""
    folder = os.environ.get("DDP_COURSE_SCREENSHOTS")
    path = Path(folder) if folder else tmp_path_factory.mktemp("screenshots")
    path.mkdir(parents=True, exist_ok=True)
    return path


@pytest.fixture(scope="session")
def course(tmp_path_factory) -> Course:
    return Course(tmp_path_factory.mktemp("course"))


@pytest.fixture(scope="session")
def home(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="session")
def lab_server(chromium_path, course, home) -> Iterator[Server]:
    with course_lab(course, home) as server:
        yield server


@pytest.fixture
def lab(lab_server) -> Iterator[Server]:
    """JupyterLab, light, with no kernel left over from another test."""
    yield lab_server
    lab_server.end_kernels()
    lab_server.set_theme(LIGHT)


@pytest.fixture(scope="session")
def browser(chromium_path) -> Iterator[Browser]:
    """Chromium with a profile of its own, which Playwright makes and removes."""
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=chromium_path, args=list(CHROMIUM_OPTIONS))
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def learner(browser) -> Iterator[BrowserContext]:
    """One learner's browser: what JupyterLab has loaded once is in its cache."""
    context = browser.new_context(viewport=WINDOW)
    yield context
    context.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item):
    """Tell the page fixture whether its test has failed."""
    report = yield
    if report.when == "call":
        item.stash[FAILED] = report.failed
    return report


@pytest.fixture
def page(learner, request, shots) -> Iterator[Page]:
    """A new tab; what it shows when the test fails is kept."""
    page = learner.new_page()
    yield page
    if request.node.stash.get(FAILED, False):
        page.screenshot(path=shots / f"failed_{request.node.name}.png")
    page.close()


@pytest.fixture(scope="session")
def kept_open() -> list[Page]:
    """The page in which JupyterLab is open, if there is one."""
    return []


@pytest.fixture
def lab_page(lab, learner, kept_open, request, shots) -> Iterator[Page]:
    """JupyterLab, with no document open."""
    if kept_open:
        page = kept_open.pop()
        page.bring_to_front()
    else:
        page = learner.new_page()
        page.goto(lab.url("lab/workspaces/tests?reset"))
        page.wait_for_function("'jupyterapp' in window")
    yield page
    if request.node.stash.get(FAILED, True):
        page.screenshot(path=shots / f"failed_{request.node.name}.png")
        page.close()
    else:
        page.evaluate(CLOSE_ALL)
        kept_open.append(page)


@pytest.fixture
def open_notebook(lab, course, lab_page, shots) -> Callable[..., Notebook]:
    """Open a notebook in JupyterLab: as it is in the checkout, as learners get it, or with these cells."""

    def open_it(path: str, *sources: str, counts: bool = False, given: bool = False) -> Notebook:
        content = course.write(path, *sources) if sources else course.fresh(path, counts=counts)
        if given:
            content = course.given(path)
        lab_page.evaluate(STARTED, lab.theme)
        expect(lab_page.locator("body")).to_have_attribute("data-jp-theme-name", lab.theme)
        lab_page.evaluate(OPEN, path)
        return Notebook(lab_page, shots, lab).ready(path, len(content.cells))

    return open_it
