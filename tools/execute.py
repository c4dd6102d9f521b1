"""Run a notebook on a real kernel and save it, with whatever differs from run to run taken out."""

import os
import re
import sys
import tempfile
from pathlib import Path

import nbformat
from ipykernel.kernelspec import RESOURCES, get_kernel_dict
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellControlSignal, DeadKernelError
from traitlets import default

from realranks.ranks.inside.seeds import SEED_VARIABLE
from tools.plan import BuildError, Target
from tools.source import notebook_for

CELL_TIMEOUT = 120  # seconds; a whole lesson is meant to take 15
_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"


def build_notebook(target: Target) -> nbformat.NotebookNode:
    """Build one notebook: read its source, execute every cell, save it with its outputs, and return it.

    The file is written at once and only after every cell has run. Raises BuildError with the cell's number,
    first line and traceback when one fails.
    """
    notebook = notebook_for(target)
    target.notebook.parent.mkdir(parents=True, exist_ok=True)
    execute(notebook, target.name, target.notebook.parent)  # where nbval and JupyterLab run it
    for cell in notebook.cells:
        _strip(cell)
    notebook.metadata = notebook_for(target).metadata  # the kernel has added its own
    _save(notebook, target.notebook)
    return notebook


def keep_outputs(target: Target) -> nbformat.NotebookNode:
    """Build one notebook in which only text has changed: the saved outputs stay, and no cell runs.

    Raises BuildError where there is no saved notebook, or its code is not what the source says.
    """
    notebook = notebook_for(target)
    if not target.notebook.is_file():
        raise BuildError(f"{target.name}: has never been built, so it has no outputs to keep.")
    saved = nbformat.read(target.notebook, as_version=4)
    ran = [cell for cell in saved.cells if cell.cell_type == "code"]
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    if [cell.source for cell in code] != [cell.source for cell in ran]:
        raise BuildError(f"{target.name}: code has changed, too. Build it without --prose.")
    for cell, before in zip(code, ran, strict=True):
        cell.outputs, cell.execution_count = before.outputs, before.execution_count
    _save(notebook, target.notebook)
    return notebook


def kernel_environment(scratch: Path) -> dict[str, str]:
    """Return what a kernel's environment needs on top where output is saved or compared.

    Neither the maintainer's IPython start-up files, nor their progress in the course, nor the width of their
    terminal may show in a lesson; and `!torchrun` is the one of this environment, activated or not.
    """
    return {
        "COLUMNS": "80",
        "DDP_COURSE_HOME": str(scratch / "course"),
        SEED_VARIABLE: "20261",  # and what ranks draw without a seed is the same in every run
        "DDP_COURSE_LIVE": "0",  # what a cell leaves behind must not depend on how long it took
        "DDP_COURSE_STRICT": "1",  # a solution that does not pass stops the build
        "IPYTHONDIR": str(scratch / "ipython"),
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]),
    }


class _ThisInterpreterSpecs(KernelSpecManager):
    """Answers every name with the interpreter we run on, whatever 'python3' a home folder has installed."""

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
        return KernelSpec(resource_dir=str(RESOURCES), **get_kernel_dict())


class _ThisInterpreter(AsyncKernelManager):
    @default("kernel_spec_manager")
    def _our_specs(self) -> KernelSpecManager:
        return _ThisInterpreterSpecs(parent=self)


def execute(notebook: nbformat.NotebookNode, name: str, folder: Path) -> None:
    """Run every cell in a kernel of its own; the notebook then holds their outputs.

    Args:
        name: what a failure calls the notebook.
        folder: where the kernel runs.

    Raises:
        BuildError: a cell failed that is not tagged `raises-exception`.
    """
    running = {"index": 0}

    def note(cell: nbformat.NotebookNode, cell_index: int) -> None:
        running["index"] = cell_index

    client = NotebookClient(
        notebook,
        kernel_name="python3",
        kernel_manager_class=_ThisInterpreter,
        resources={"metadata": {"path": str(folder)}},
        timeout=CELL_TIMEOUT,
        coalesce_streams=True,
        record_timing=False,
        store_widget_state=False,
        on_cell_start=note,
    )
    with tempfile.TemporaryDirectory(prefix="ddp-course-build-", ignore_cleanup_errors=True) as scratch:
        # What the kernel says beside its messages (as nbval does, out of the way) is passed on only if a cell failed.
        aside = Path(scratch) / "stderr"
        try:
            with aside.open("wb") as stderr:
                client.execute(env=os.environ | kernel_environment(Path(scratch)), stderr=stderr)
        except (CellControlSignal, DeadKernelError) as error:
            said = aside.read_text(encoding="utf-8", errors="replace").splitlines()[-20:]
            raise BuildError("\n".join([_failure(name, notebook, running["index"], error), *said])) from None


def _failure(name: str, notebook: nbformat.NotebookNode, index: int, error: Exception) -> str:
    source = notebook.cells[index].source
    why = getattr(error, "traceback", None) or str(error) or type(error).__name__
    return (
        f"{name}, cell {index + 1} of {len(notebook.cells)} failed:\n"
        f"    {source.splitlines()[0]}\n"
        f"{_ANSI.sub('', why).rstrip()}"
    )


def _strip(cell: nbformat.NotebookNode) -> None:
    """Take out what only the live kernel could use: widget views (their models are gone) and timings."""
    cell.metadata.pop("execution", None)
    if cell.cell_type != "code":
        return
    for output in cell.outputs:
        output.pop("transient", None)
        output.get("data", {}).pop(_WIDGET_VIEW, None)
    cell.outputs = [output for output in cell.outputs if _shows_something(output)]


def _shows_something(output: nbformat.NotebookNode) -> bool:
    return "data" not in output or bool(output["data"])


def _save(notebook: nbformat.NotebookNode, path: Path) -> None:
    nbformat.validate(notebook)
    unfinished = path.with_suffix(".ipynb.part")
    unfinished.write_text(nbformat.writes(notebook).rstrip("\n") + "\n", encoding="utf-8", newline="\n")
    os.replace(unfinished, path)
