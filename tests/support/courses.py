"""Small courses and what learners do with their copies: real files, as JupyterLab leaves them."""

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

#: What changes a folder, as Python's audit events call it.
CHANGES = {"open", "os.rename", "os.remove", "os.link", "os.mkdir", "os.rmdir", "os.symlink", "os.truncate"}
NOBODY = 65534


def notebook(*sources: str, outputs: bool = True) -> dict:
    """A notebook of these cells, executed; one that begins with `#` is Markdown."""
    cells = []
    for number, source in enumerate(sources):
        cell = {"id": f"cell-{number}", "metadata": {}, "source": source.splitlines(keepends=True)}
        if source.startswith("#"):
            cells.append({"cell_type": "markdown", **cell})
            continue
        output = {"output_type": "stream", "name": "stdout", "text": ["the answer\n"]}
        cell["metadata"] = {"claims": {"5": "wrong"}, "tags": ["hide-input"]}
        cells.append(
            {"cell_type": "code", **cell, "execution_count": 1, "outputs": [output] if outputs else []}
        )
    return {
        "cells": cells,
        "metadata": {"kernelspec": {"name": "python3"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def write(path: Path, content: dict | str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")


def course(folder: Path, version: int = 1, lessons: tuple[str, ...] = ("03_samplers",)) -> Path:
    """A checkout of the course; each version says something else in every file, the index apart."""
    (folder / "course_lib").mkdir(parents=True, exist_ok=True)
    write(folder / "pyproject.toml", "")
    for kind in ("notebooks", "exercises"):
        for old in (folder / kind).glob("*.ipynb"):
            old.unlink()
        for name in lessons:
            write(folder / kind / f"{name}.ipynb", notebook(f"# {name}, {kind}", f"print({version})"))
    write(folder / "notebooks/index.ipynb", notebook("# The course", "%progress"))
    write(folder / "exercises/capstone/train.py", f"print({version})\n")
    write(folder / "docs/claims.md", f"claims, version {version}\n")
    return folder


def sources(path: Path) -> list[str]:
    return ["".join(cell["source"]) for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]]


def run_cells(path: Path, said: str = "42 from my run") -> None:
    """Open a notebook in JupyterLab, run all of it, save: outputs, numbers, metadata, and an empty cell at the end."""
    content = json.loads(path.read_text(encoding="utf-8"))
    for number, cell in enumerate(content["cells"]):
        if cell["cell_type"] == "code":
            cell["execution_count"] = number
            cell["outputs"] = [{"output_type": "stream", "name": "stdout", "text": said}]
    content["cells"].append(
        {
            "cell_type": "code",
            "id": "new",
            "metadata": {},
            "source": "",
            "outputs": [],
            "execution_count": None,
        }
    )
    content["metadata"]["language_info"] = {"name": "python", "version": "3.12.9"}
    write(path, content)


def edit(path: Path, remark: str = "my own remark") -> None:
    """Write something into a notebook, or into a script."""
    if path.suffix != ".ipynb":
        path.write_text(path.read_text(encoding="utf-8") + f"# {remark}\n", encoding="utf-8")
        return
    content = json.loads(path.read_text(encoding="utf-8"))
    content["cells"].insert(1, {"cell_type": "markdown", "id": "mine", "metadata": {}, "source": remark})
    write(path, content)


def everything(folder: Path) -> dict[str, bytes]:
    """All files below a folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def in_child(work: Callable[[], object], prepare: Callable[[], object] = lambda: None) -> int:
    """Run something in a process of its own: 0, or 3 for an exception, or minus the signal that ended it."""
    pid = os.fork()
    if pid == 0:
        code = 3
        try:
            prepare()
            work()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def at_change(number: int, folder: Path, deed: Callable[[], object]) -> Callable[[], None]:
    """Prepares a child: before it changes the folder for the `number`-th time, this is done."""

    def prepare() -> None:
        seen = 0

        def hook(event: str, arguments: tuple) -> None:
            nonlocal seen
            if event not in CHANGES or not any(str(each).startswith(str(folder)) for each in arguments[:2]):
                return
            if event == "open" and not set(str(arguments[1])) & set("wax+"):
                return
            seen += 1
            if seen == number:
                deed()

        sys.addaudithook(hook)

    return prepare


def killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def as_somebody_else() -> None:
    """Root may write everywhere: a child of root goes on as a user who may not."""
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
