"""A pytest plugin for nbval runs: how many cells were *not* compared, and a clean slate for each notebook.

nbval passes a cell without looking at its output when it carries a tag or comment that says so, or was
never run. A lesson could rot behind such cells, so the run prints their share for each folder and fails
above ``LIMIT``.
"""

import base64
import re
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbval.kernel
import pytest

from tests.support.kernels import Manager

LIMIT = 0.15
DRAWING = r"data:image/svg\+xml;base64,([\w+/=]*)"
FIGURE = r'<img alt="([^"]*)" [^>]*src="data:image/png;base64,[\w+/=]*">'
#: Labels of what is measured, and so another time in every run; a title says what is computed instead.
_TIMES = re.compile(
    r"^(milli)?seconds( since .*)?$|, [\d.]+ ms$|^measured|, measured|\(ms\)|milliseconds for"
)
_COMPUTED = re.compile(r"\(computed\)|^Computed")
#: What is left of a difference that should be 0, or nearly.
_ROUNDING = re.compile(r"\b[\d.]+e-\d+")


def pytest_configure(config: pytest.Config) -> None:
    if getattr(config.option, "nbval", False):
        nbval.kernel.KernelManager = Manager
        config.pluginmanager.register(NbvalShare(config), "nbval-share")


class NbvalShare:
    """Counts the cells of the run and gives each notebook's kernel folders of its own."""

    def __init__(self, config: pytest.Config) -> None:
        self.root = config.rootpath
        self.cells: Counter[str] = Counter()
        self.skipped_over: Counter[str] = Counter()
        self.notebook: Path | None = None
        self.scratch: tempfile.TemporaryDirectory[str] | None = None
        self.environment = pytest.MonkeyPatch()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        for item in session.items:
            if is_cell(item):
                folder = item.path.parent
                name = folder.relative_to(self.root) if folder.is_relative_to(self.root) else folder
                self.cells[str(name)] += 1
                self.skipped_over[str(name)] += not is_compared(item)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Before a notebook's first cell (nbval starts the kernel then): the environment the build ran it in.

        A learner's own progress and start-up files would show in the output, and what one notebook recorded
        in the next.
        """
        if is_cell(item) and item.path != self.notebook:
            from tools.execute import kernel_environment

            self._restore()
            self.notebook = item.path
            item.parent.sanitize_patterns |= PICTURES  # type: ignore[union-attr]
            self.scratch = tempfile.TemporaryDirectory(prefix="ddp-course-nbval-", ignore_cleanup_errors=True)
            for name, value in kernel_environment(Path(self.scratch.name)).items():
                self.environment.setenv(name, value)

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_teardown(self, item: pytest.Item, nextitem: pytest.Item | None) -> None:
        if is_cell(item) and (nextitem is None or nextitem.path != item.path):
            self._restore()

    def _restore(self) -> None:
        self.environment.undo()
        if self.scratch is not None:
            self.scratch.cleanup()
        self.scratch = self.notebook = None

    @property
    def over_limit(self) -> bool:
        return self.skipped_over.total() > LIMIT * self.cells.total()

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """With pytest-xdist every worker has collected all cells, and this process none: one of them tells."""
        told_by_worker = getattr(node, "workeroutput", {}).get("nbval_share")
        if told_by_worker:
            self.cells, self.skipped_over = map(Counter, told_by_worker)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput["nbval_share"] = [dict(self.cells), dict(self.skipped_over)]
            return
        if self.over_limit and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if self.cells:
            terminalreporter.section("notebook outputs")
            for line in self.lines():
                terminalreporter.write_line(line, red=self.over_limit)

    def lines(self) -> Iterator[str]:
        if len(self.cells) > 1:
            for folder, cells in sorted(self.cells.items()):
                yield f"  {folder}: {told(cells, self.skipped_over[folder])}"
        yield f"nbval: {told(self.cells.total(), self.skipped_over.total())}"
        if self.over_limit:
            yield f"FAILED: more than {LIMIT * 100:.0f} % are not compared; search for nbval's tags"


def _drawn(found: re.Match[str]) -> str:
    """Return what is compared of a drawing: all of it, where it shows no times."""
    drawing = base64.b64decode(found[1]).decode()
    labels = re.findall(r"(?<=>)[^<>]+(?=<)", drawing.rpartition("</style>")[2])
    measured = not _COMPUTED.search(labels[0]) and any(map(_TIMES.search, labels))
    return "a timeline" if measured else drawing


def _plotted(found: re.Match[str]) -> str:
    """Return what is compared of a figure: its words, which name its values."""
    return "a figure" if _TIMES.search(found[1]) else _ROUNDING.sub("0", found[1])


#: By what a picture looks like in an output, what is compared of it.
PICTURES = {DRAWING: _drawn, FIGURE: _plotted}


def told(cells: int, not_compared: int) -> str:
    return f"{cells} code cells, {not_compared} not compared ({not_compared / cells:.1%})".replace("%", " %")


def is_cell(item: pytest.Item) -> bool:
    return type(item).__name__ == "IPyNbCell"


def is_compared(item: Any) -> bool:
    """Whether nbval compares this cell's output; read from nbval's own verdict on tags and comments."""
    return bool(item.options["check"]) and not item.options["skip"] and item.cell.execution_count is not None
