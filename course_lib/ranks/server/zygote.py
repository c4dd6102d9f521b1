"""A process with torch loaded that forks a forkserver for each kernel that asks: they all start warm.

Loading torch takes a kernel's first ranks some seconds. Where there is a zygote, every kernel that is started, or
restarted, has its forkserver at once, and all share torch's memory. A forkserver from a zygote is the kernel's own in
every other way; where there is no zygote, or it does not fit, the kernel starts one itself (`launcher`). This is the
side of those who want a zygote, or something from it; the process itself is `zygote_process`. There are two kinds:

* the *shared* zygote of a user, which all kernels find by its place (`zygote_folder`). A Jupyter server starts it when
  a notebook of the course is opened (`notebook/server_extension`), and so does any kernel of such a server that finds
  none. It ends when all servers that had a use for it have ended, or when nobody has needed it for a while;
* one's own (`start_zygote`), for what a single process starts: a test run, the build of the notebooks.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path

from course_lib.ranks.codec import encode
from course_lib.ranks.process import lives
from course_lib.ranks.server.compatibility import (
    Request,
    compatibility_of,
    server_environment,
    working_folder,
)
from course_lib.ranks.server.zygote_folder import address_of, connected, locked, private_folder, remove_dead

#: The variable with the address of one's own zygote, in the environment of those who may ask. Empty: none is wanted.
VARIABLE = "DDP_COURSE_ZYGOTE"
#: The variable that names the Jupyter server (`ranks.process.identity`) to what it starts.
SERVER = "DDP_COURSE_SERVER"
#: Seconds after which a shared zygote that nobody has needed ends; opening a notebook starts the next one.
_IDLE_SECONDS = 900.0
_IDLE = "DDP_COURSE_ZYGOTE_IDLE"
_WAITING = 64


def start_zygote() -> int:
    """Start a zygote for everything that this process starts, named in the environment from now on.

    Where DDP_COURSE_ZYGOTE is set, nothing is started: it names one, or, being empty, says that none is wanted.

    Returns:
        A file descriptor: the zygote ends when the last copy of it is closed, at the latest with this process.
    """
    owner, ours = os.pipe()
    if VARIABLE in os.environ:  # there is one, or (empty) none is wanted
        os.close(owner)
        return ours
    folder = tempfile.mkdtemp(prefix="ddp-course-zygote-")
    address = os.path.join(folder, "socket")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen(_WAITING)
        _start(listener, ["owned", str(owner), folder], server_environment(), [owner])
    os.close(owner)
    os.environ[VARIABLE] = address
    return ours


def start_shared_zygote() -> bool:
    """Make sure that this user has a shared zygote that fits this process; returns whether there is one.

    One is started only for a Jupyter server that lives: it tells the zygote how long it is needed.
    """
    environment = server_environment()
    server = environment.get(SERVER, "")
    folder = private_folder()
    if folder is None or environment.pop(VARIABLE, None) is not None or not lives(server):
        return False
    address = address_of(folder, compatibility_of(environment))
    try:
        with locked(folder):
            remove_dead(folder)
            if address.exists():
                return True
            with socket.socket(socket.AF_UNIX) as listener:
                listener.bind(str(address))
                listener.listen(_WAITING)
                idle = environment.get(_IDLE, str(_IDLE_SECONDS))
                process = _start(listener, ["shared", str(address), server, idle], environment)
    except OSError:
        return False
    threading.Thread(target=process.wait, name="zygote-started", daemon=True).start()
    return True


def _start(
    listener: socket.socket,
    arguments: list[str],
    environment: Mapping[str, str],
    fds: list[int] | None = None,
) -> subprocess.Popen[bytes]:
    module = "course_lib.ranks.server.zygote_process"
    return subprocess.Popen(
        [sys.executable, "-P", "-m", module, str(listener.fileno()), *arguments],
        pass_fds=[listener.fileno(), *(fds or [])],
        env=environment,
        cwd=os.sep,  # it outlives what the folder of a lesson is used for
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C in the terminal is not meant for it
    )


def ask_zygote(sock: socket.socket, log: int, environment: Mapping[str, str]) -> bool:
    """Ask the zygote, if there is one, for a forkserver that talks on `sock`; does not wait for it.

    The zygote refuses by closing its copy of `sock`.
    """
    own = os.environ.get(VARIABLE)
    if own == "":
        return False
    request = Request(
        compatibility=compatibility_of(environment),
        env=dict(environment),
        cwd=working_folder(),
        pid=os.getpid(),
        server=os.environ.get(SERVER, ""),
    )
    if own:
        return _sent(own, request, sock, log)
    folder = private_folder()
    if folder is None:
        return False
    address = address_of(folder, request.compatibility)
    if _sent(address, request, sock, log):
        return True
    return start_shared_zygote() and _sent(address, request, sock, log)


def _sent(address: Path | str, request: Request, sock: socket.socket, log: int) -> bool:
    wire = connected(address)
    if wire is None:
        return False
    with wire:
        try:
            data = json.dumps(encode(request)).encode() + b"\n"
            sent = socket.send_fds(wire, [data], [sock.fileno(), log])
            # The zygote closes the wire when it has all: even to send nothing would fail then.
            if sent < len(data):
                wire.sendall(data[sent:])
        except OSError:
            return False
    return True
