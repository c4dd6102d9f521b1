"""`ddp-course lab`: JupyterLab on the learner's copy of the course, at its index, with the course's settings."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from course_lib.cli.root import course_root
from course_lib.learner.course import CourseError
from course_lib.learner.place import VARIABLE, learner_folder
from course_lib.learner.plan import Act
from course_lib.learner.update import CopyError, Updated, update
from realranks.own_files import data_folder, write_whole

CONTEXT = {"allow_extra_args": True, "ignore_unknown_options": True}
INDEX = "notebooks/index.ipynb"
#: JupyterLab's name for the file with its default layout (four digits of the word's SHA-256 are in it), and a layout
#: with the file browser closed: open, it leaves room for 74 columns of code in a window of 1024 pixels, closed for 104.
_LAYOUT = "default-37a8.jupyterlab-workspace"
_CLOSED = {"layout-restorer:data": {"left": {"collapsed": True, "visible": True}}}


def lab_process(folder: Path, arguments: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Return the command and the environment with which ``ddp-course lab`` becomes JupyterLab."""
    command = [
        *(sys.executable, "-m", "jupyterlab"),
        f"--ServerApp.root_dir={folder}",
        f"--LabApp.default_url=/lab/tree/{INDEX}",
        f"--LabApp.workspaces_dir={layouts_folder()}",
    ]
    # Without a terminal of its own (a service, nohup, a hub), the server would open its terminals as login shells, in
    # which /etc/profile sets PATH anew: `ddp-course`, `torchrun` and `python` would be others, or not found.
    shell = os.environ.get("SHELL") or shutil.which("sh")
    if shell and not sys.stdout.isatty():
        command.append(f"--ServerApp.terminado_settings={{'shell_command': [{shell!r}]}}")
    # In containers the learner is root and JupyterLab refuses to start without being told so.
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        command.append("--allow-root")
    configuration = [str(Path(__file__).parents[1] / "notebook"), os.environ.get("JUPYTER_CONFIG_PATH", "")]
    environment = os.environ | {
        # Finds notebook/labconfig: no question about news at the first start, no look-up of updates, and what is
        # pressed reaches the kernel in the order in which it was pressed. Finds notebook/jupyter_server_config.d,
        # also where the course runs from its folder without being installed.
        "JUPYTER_CONFIG_PATH": os.pathsep.join(filter(None, configuration)),
        # `!torchrun` and `!python` in a lesson are the environment's own, also where it is not activated.
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]),
    }
    if VARIABLE in environment:  # a terminal in JupyterLab has another current folder
        environment[VARIABLE] = str(folder)
    return [*command, *arguments], environment


def layouts_folder() -> Path:
    """Return the folder in which JupyterLab keeps the course's layouts; the first has the file browser closed.

    Links lead through the course, so nobody needs the file browser. Who opens it finds it open at the next start.
    """
    folder = data_folder() / "layouts"
    layout = folder / _LAYOUT
    with contextlib.suppress(OSError):  # JupyterLab then begins with a layout of its own
        folder.mkdir(parents=True, exist_ok=True)
        if not layout.exists():
            write_whole(layout, json.dumps({"data": _CLOSED, "metadata": {"id": "default"}}))
    return folder


def lab(
    context: typer.Context,
    only_copy: Annotated[
        bool,
        typer.Option(
            "--only-copy", help="Make or update the copy and open nothing: where a server opens JupyterLab."
        ),
    ] = False,
) -> None:
    """Open your copy of the course in JupyterLab; further arguments go to JupyterLab (--no-browser, --port 9000 ...).

    The copy holds lessons and exercises without outputs. It is made at the first start, in learner/ or ~/ddp-course, or
    where DDP_COURSE_LEARNER says. A newer version of the course comes into it at the next start, beside what you have
    changed.
    """
    folder = up_to_date_copy(course_root())
    if only_copy:
        return
    if importlib.util.find_spec("jupyterlab") is None:
        typer.echo(
            f"Your copy of the course is in {folder}. To open it here, JupyterLab is missing: "
            f"{shlex.quote(sys.executable)} -m pip install 'jupyterlab>=4,<5'",
            err=True,
        )
        raise typer.Exit(2)
    command, environment = lab_process(folder, context.args)
    # The server looks for a new terminal's folder in its own current one first, and a checkout has one of that name.
    os.chdir(folder)
    if os.name == "posix":
        os.execve(command[0], command, environment)  # one process: Ctrl-C and kill reach JupyterLab itself
    raise typer.Exit(subprocess.run(command, env=environment, check=False).returncode)


def up_to_date_copy(course: Path) -> Path:
    """Bring the learner's copy up to date with the course, and print what has changed in it.

    A copy that cannot be brought up to date is opened as it is. Exits if there is no copy and none can be made.
    """
    folder = learner_folder(course)
    try:
        for line in update_lines(folder, update(folder, course)):
            typer.echo(line, err=True)
    except (CopyError, CourseError) as error:
        if not (folder / INDEX).is_file():
            typer.echo(f"There is no copy of the course to open: {error}", err=True)
            typer.echo(f"{VARIABLE}=FOLDER chooses another folder for it.", err=True)
            raise typer.Exit(1) from None
        typer.echo(f"Your copy of the course stays as it is: {error}", err=True)
    return folder


def update_lines(folder: Path, done: Updated) -> Iterator[str]:
    """Yield what a learner should know about an update, one line each."""
    if done.new:
        yield f"Your copy of the course is in {folder}. Change in it what you like."
    of_course = [change for change in done.changes if change.act is Act.REPLACE]
    if of_course:
        yield f"The course has changed; brought up to date: {_listed([change.path for change in of_course])}."
    if not done.new and (put := [change.path for change in done.changes if change.act is Act.PUT]):
        yield f"New in your copy: {_listed(put)}."
    for change in done.changes:
        if change.act is Act.BESIDE:
            yield f"{change.new_of}: you have changed it, so it stays. The new version is {change.path}."
    gone = [change for change in done.changes if change.act is Act.REMOVE and not change.new_of]
    if removed := [change.path for change in gone]:
        yield f"No longer in the course, and removed from your copy: {_listed(removed)}."
    for path in done.left:
        yield f"{path}: no longer in the course. You have changed it, so it stays."
    if kept := [change for change in done.changes if change.kept]:
        yield f"Kept with their outputs: {_listed([change.kept for change in kept])}."


def _listed(paths: Sequence[str]) -> str:
    """List these files, or give their number if there are many."""
    return ", ".join(paths) if len(paths) <= 6 else f"{len(paths)} files"
