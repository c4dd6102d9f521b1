"""The course from a terminal: ``ddp-course lab | notebooks | ...``.

Owns the words and exit codes, nothing else: a command turns its arguments into one call of the room that
does the work and prints what came back. Everything heavy is imported inside the command, so that
``ddp-course --help`` answers at once; nothing in the course imports this file, so ``import course_lib``
never pays for typer.
"""

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from course_lib.commands import register
from course_lib.grading import HARNESS
from course_lib.ranks.server.preload import preload_also
from course_lib.ranks.server.zygote import start_zygote

INDEX = "notebooks/index.ipynb"


def main() -> None:
    """Run the command line; the console script ``ddp-course`` starts here."""
    _app()()


def _app() -> typer.Typer:
    """Return the application. Every command is registered here and nowhere else."""
    from course_lib.doctor import command as doctor_command

    app = typer.Typer(
        name="ddp-course",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )
    app.callback()(_course)
    app.command("lab", context_settings={"allow_extra_args": True, "ignore_unknown_options": True})(_lab)
    app.command("notebooks")(_notebooks)
    register(app)  # check, grade, progress, selfcheck, new-task
    app.command("doctor", context_settings=doctor_command.CONTEXT)(doctor_command.doctor)
    return app


def command_line() -> Any:
    """Return ``ddp-course`` as a command with those below it, for the page of the public API."""
    return typer.main.get_command(_app())


def _say_version(wanted: bool) -> None:
    if wanted:
        from course_lib.versions import versions_line

        typer.echo(versions_line())
        raise typer.Exit(0)


def _course(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            help="Say which course, torch and machine this is.",
            callback=_say_version,
            is_eager=True,
        ),
    ] = False,
) -> None:
    """Learn PyTorch DistributedDataParallel by experiment on real ranks."""


def course_root() -> Path:
    """Return the folder of the course: the nearest above the current folder, else where this code lies.

    Exits with one line where neither holds the lessons.
    """
    for folder in (Path.cwd(), *Path.cwd().parents, Path(__file__).resolve().parent.parent):
        if (folder / "notebooks").is_dir() and (folder / "course_lib").is_dir():
            return folder
    typer.echo(
        "The lessons are not here: change into the folder of the course (the one with notebooks/).", err=True
    )
    raise typer.Exit(2)


def lab_process(root: Path, arguments: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Return the command and the environment with which ``ddp-course lab`` becomes JupyterLab."""
    command = [
        *(sys.executable, "-m", "jupyterlab"),
        f"--ServerApp.root_dir={root}",
        f"--LabApp.default_url=/lab/tree/{INDEX}",
    ]
    # In containers the learner is root and JupyterLab refuses to start without being told so.
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        command.append("--allow-root")
    configuration = [str(Path(__file__).parent / "notebook"), os.environ.get("JUPYTER_CONFIG_PATH", "")]
    environment = os.environ | {
        # Finds notebook/labconfig: no question about news at the first start, no look-up of updates.
        "JUPYTER_CONFIG_PATH": os.pathsep.join(filter(None, configuration)),
        # `!torchrun` and `!python` in a lesson are the environment's own, also where it is not activated.
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]),
    }
    return [*command, *arguments], environment


def _lab(context: typer.Context) -> None:
    """Open JupyterLab at the index; further arguments go to JupyterLab (--no-browser, --port 9000 ...)."""
    if os.name == "posix":
        preload_also(HARNESS)
        os.set_inheritable(start_zygote(), True)  # held by JupyterLab from now on
    command, environment = lab_process(course_root(), context.args)
    if os.name == "posix":
        os.execve(command[0], command, environment)  # one process: Ctrl-C and kill reach JupyterLab itself
    raise typer.Exit(subprocess.run(command, env=environment, check=False).returncode)


def _notebooks(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="For example 03, 03_samplers or exercises/03_samplers; else all."),
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Build nothing, say what does not match.")] = False,
) -> None:
    """Build the notebooks from their sources and execute them, or check that the saved ones match."""
    from course_lib.notebook import build

    root = course_root()
    try:
        if check:
            problems = build.check_notebooks(root, names or ())
            if not names:
                problems += build.check_claims(root) + build.check_cheat_sheet(root)
                problems += build.check_api_page(root, command_line())
            for problem in problems:
                typer.echo(problem, err=True)
            if problems:
                typer.echo(
                    "Notebooks are written in their sources; 'make notebooks' rebuilds them.", err=True
                )
                raise typer.Exit(1)
            return
        preload_also(HARNESS)
        start_zygote()
        for target in build.find_targets(root, names or ()):
            began = time.monotonic()
            built = build.build_notebook(target)
            cells = sum(cell.cell_type == "code" for cell in built.cells)
            typer.echo(f"{target.name:40} {cells:3} code cells {time.monotonic() - began:6.1f} s")
        build.write_claims_page(root)
        build.write_cheat_sheet(root)
        build.write_api_page(root, command_line())
        for problem in build.check_claims(root) + build.check_cheat_sheet(root):
            typer.echo(problem, err=True)
    except build.UnknownNotebookError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from None
    except build.BuildError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None


if __name__ == "__main__":
    main()
