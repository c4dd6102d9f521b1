"""The course's part in a Jupyter server: when the first notebook of the course is opened, torch is loaded for all.

Every Jupyter server loads this (JupyterLab, Notebook, JupyterHub's single-user server, Binder): the package installs
`jupyter_server_config.d/ddp_course.json`. It runs inside the server, so it loads next to nothing, and until a kernel
starts it does nothing: it listens to the server's own events. For a kernel whose notebook mentions the course, the
user's shared zygote is started (`ranks/server/zygote`), while the kernel itself is still starting. Kernels that have no
such notebook here (a new one, not saved yet; VS Code's, whose files are on another machine) do it themselves when the
course is loaded in them: the server has left its name in their environment.
"""

from __future__ import annotations

import asyncio
import inspect
import os
from typing import TYPE_CHECKING

from course_lib.grading import HARNESS
from realranks.ranks.process import identity
from realranks.ranks.server.preload import preload_also
from realranks.ranks.server.zygote import SERVER, start_shared_zygote

if TYPE_CHECKING:
    from jupyter_server.serverapp import ServerApp

#: The event that a Jupyter server emits when one of its kernels has been started, restarted, stopped.
#: The one for files that are read would load torch for whoever browses: to list a folder emits it for each file.
_KERNEL_ACTIONS = "https://events.jupyter.org/jupyter_server/kernel_actions/v1"
#: The session with the notebook's path is written down some milliseconds after its kernel has started.
_LOOK_AFTER = (0.05, 0.2, 1.0)
_MENTION = "course_lib"


def _load_jupyter_server_extension(app: ServerApp) -> None:
    """Set up the extension; the server calls this when it starts."""
    if os.name != "posix" or app.event_logger is None:
        return  # on Windows, the course runs in WSL 2
    os.environ[SERVER] = identity(os.getpid())

    async def heard(logger: object, schema_id: str, data: dict[str, object]) -> None:
        # The server gives these by their names; a listener that does not take them keeps every kernel from starting.
        if data.get("action") in ("start", "restart") and data.get("status") == "success":
            await kernel_started(app, str(data.get("kernel_id", "")))

    app.event_logger.add_listener(schema_id=_KERNEL_ACTIONS, listener=heard)


async def kernel_started(app: ServerApp, kernel: str) -> None:
    """Start the shared zygote if the notebook of this kernel is one of the course."""
    for seconds in _LOOK_AFTER:
        await asyncio.sleep(seconds)
        path = await _notebook_of(app, kernel)
        if path is not None:
            break
    else:
        return
    if await _mentions_course(app, path):
        await asyncio.to_thread(_start)


async def _notebook_of(app: ServerApp, kernel: str) -> str | None:
    """Return the path of the notebook that this kernel belongs to, as the server names it."""
    for session in await app.session_manager.list_sessions():
        if session["kernel"]["id"] == kernel and session["type"] == "notebook":
            return str(session["path"])
    return None


async def _mentions_course(app: ServerApp, path: str) -> bool:
    from tornado.web import HTTPError

    try:
        model = app.contents_manager.get(path, type="notebook")  # type: ignore[no-untyped-call]
        if inspect.isawaitable(model):
            model = await model
    except HTTPError:
        return False  # not there, or not readable: the kernel itself will ask
    cells = model["content"]["cells"]
    return any(_MENTION in str(cell.get("source", "")) for cell in cells)


def _start() -> None:
    preload_also(HARNESS)
    start_shared_zygote()
