"""`ddp-course board`: the class board on the instructor's machine, until Ctrl-C."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ipaddress
import signal
import socket
from pathlib import Path
from typing import Annotated

import typer

from course_lib.board.app import Board, Serving, serve
from course_lib.board.course import BoardCourse, BoardLesson, BoardTask, questions_in
from course_lib.board.store import FILE_NAME, Store, StoreError
from course_lib.cli.root import course_root
from course_lib.notebook.course_map import lessons
from realranks.own_files import data_folder

LOOPBACK = "127.0.0.1"


def board(
    host: Annotated[
        str,
        typer.Option(
            "--host",
            help="The address to listen on: 0.0.0.0 lets other machines in. Left out: this machine only.",
        ),
    ] = LOOPBACK,
    port: Annotated[
        int | None,
        typer.Option(
            "--port", min=0, max=65535, help="Left out: that of the last time, at first a free one."
        ),
    ] = None,
    address: Annotated[
        str,
        typer.Option("--address", help="What learners type, where it is not what this machine calls itself."),
    ] = "",
    file: Annotated[
        Path | None,
        typer.Option("--file", help="The file of this class. Left out: one in your data folder."),
    ] = None,
    new_code: Annotated[
        bool,
        typer.Option("--new-code", help="Nobody joins with the old code any more; who has joined stays."),
    ] = False,
    also: Annotated[
        list[Path] | None,
        typer.Option(
            "--also", help="A notebook of your own with predict(...) questions; may be given several times."
        ),
    ] = None,
    most: Annotated[int, typer.Option("--most", min=1, help="So many learners may join.")] = 500,
) -> None:
    """Show your class live: who has passed what, who is stuck since when, what the room predicts.

    Prints the line that learners type, and the page that you open. Everything is kept in one file: stopped and
    started again, the board resumes where it was, with the same code and key.
    """
    root = course_root()
    try:
        store = Store(file or data_folder() / FILE_NAME)
        store.code(new=new_code)
        course = course_of(root, also or [])
        asyncio.run(_serve(store, course, host, port, address, most))
    except StoreError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from None
    except KeyboardInterrupt:
        pass


def course_of(root: Path, also: list[Path]) -> BoardCourse:
    """Describe the course in this folder for the board."""
    shown = tuple(
        BoardLesson(
            lesson.stem,
            lesson.title,
            tuple(
                BoardTask(
                    task.name,
                    task.title,
                    {each.id: (each.sentence, each.taught) for each in task.misconceptions},
                )
                for task in lesson.tasks
            ),
        )
        for lesson in lessons(root / "notebooks")
    )
    files = [*sorted((root / "notebooks").glob("*.ipynb")), *also]
    asked = {question.id: question for path in reversed(files) for question in reversed(questions_in(path))}
    return BoardCourse(shown, tuple(reversed(asked.values())))


async def _serve(
    store: Store, course: BoardCourse, host: str, port: int | None, address: str, most: int
) -> None:
    before = store.setting("port")
    wanted = port if port is not None else int(before or 0)
    try:
        serving = serve(Board(store, course, most), host, wanted)
    except OSError as error:
        typer.echo(f"The board cannot listen on {host}, port {wanted}: {error.strerror or error}.", err=True)
        if port is None and before and error.errno == errno.EADDRINUSE:
            typer.echo(
                "Learners know this port. Is another board running? --port 0 takes a free one: learners then "
                "have to join again.",
                err=True,
            )
        raise typer.Exit(2) from None
    store.set("port", str(serving.port))
    _tell(serving, host, address)
    ended = asyncio.Event()
    with contextlib.suppress(NotImplementedError):  # Windows: Ctrl-C raises KeyboardInterrupt
        for each in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(each, ended.set)
    await ended.wait()
    await serving.stop()
    typer.echo("The board is closed. Everything is kept; what learners do meanwhile waits on their machines.")


def _tell(serving: Serving, host: str, address: str) -> None:
    """Print what the instructor has to know."""
    board, port = serving.board, serving.port
    own = host if host not in ("0.0.0.0", "::") else _own_address()
    there = address or f"http://{f'[{own}]' if ':' in own else own}:{port}"
    typer.echo(f"Learners type:   %board {there} {board.code}")
    if _is_loopback(host):
        typer.echo(f"You open:        http://{own}:{port}/#key={board.key}")
        typer.echo(
            "Only this machine reaches the board. For a class, start it with --host 0.0.0.0, "
            "or put a web server with TLS in front of it."
        )
    else:
        here = LOOPBACK if host in ("0.0.0.0", "::") else own
        typer.echo(f"You open:        http://{here}:{port}/#key={board.key}")
        typer.echo(f"... a telephone: {there}/#key={board.key}")
        typer.echo(
            f"With --host {host}, every machine that reaches this one can ask the board. Joining needs the code, "
            "viewing needs the key. The connection is not encrypted: on a network that you do not trust, names, "
            "verdicts, and the key of a page opened from another machine can be read. Put a web server with TLS "
            "in front of it there."
        )
    typer.echo(
        "Who has the address with the key sees all names: open it before you share your screen. Ctrl-C ends."
    )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _own_address() -> str:
    """Return the address under which this machine reaches others; nothing is sent for it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return socket.gethostname()
        return str(probe.getsockname()[0])
