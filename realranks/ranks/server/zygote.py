"""A process with torch loaded that forks a forkserver for each kernel that asks: they all start warm.

Loading torch takes a kernel's first ranks some seconds. Where there is a zygote, every kernel that is started, or
restarted, has its forkserver at once, and all share torch's memory. A forkserver from a zygote is the kernel's own in
every other way; where there is no zygote, or it does not fit, the kernel starts one itself (`launcher`). This is the
side of those who want a zygote, or something from it; the process itself is `zygote_process`.

All kernels of a user find the same zygote by its place (`private_sockets`). A Jupyter server starts it when a notebook
of the course is opened (`notebook/server_extension`), and so does any kernel of such a server that finds none. It ends
when all servers that had a use for it have ended, or when it was not needed for a while. A test run and the build of
the notebooks start one for themselves (`start_zygote`), which only what they start finds.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import platform
import secrets
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

from realranks.ranks.codec import encode
from realranks.ranks.private_sockets import connected, locked, private_folder, reachable, remove_dead
from realranks.ranks.process import identity, lives
from realranks.ranks.protocol import Message, send_with_fds
from realranks.ranks.server.compatibility import (
    Compatibility,
    Request,
    compatibility_of,
    server_environment,
    working_folder,
)

#: The variable with the address of one's own zygote, in the environment of those who may ask. Empty: none is wanted.
VARIABLE = "DDP_COURSE_ZYGOTE"
#: The variable that names the Jupyter server (`ranks.process.identity`) to what it starts. A kernel without a
#: server starts no zygote: nothing would say how long it is needed.
SERVER = "DDP_COURSE_SERVER"
#: Seconds after which a shared zygote ends that was not needed; opening a notebook starts the next one.
_IDLE_SECONDS = 900.0
_IDLE = "DDP_COURSE_ZYGOTE_IDLE"
_WAITING = 64


def start_zygote() -> None:
    """Start a zygote for everything that this process starts, named in the environment from now on.

    It ends with this process. Where DDP_COURSE_ZYGOTE is set, nothing is started: it names one, or, being empty, says
    that none is wanted.
    """
    folder = private_folder()
    if folder is None or VARIABLE in os.environ:
        return
    address = folder / f"{secrets.token_hex(8)}.socket"
    if _start(address, identity(os.getpid()), str(math.inf), server_environment()):
        os.environ[VARIABLE] = str(address)


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
    return _start(address, server, environment.get(_IDLE, str(_IDLE_SECONDS)), environment)


def address_of(folder: Path, compatibility: Compatibility) -> Path:
    """Return the socket of the zygote with this code; containers that share the folder have their own."""
    text = json.dumps([encode(compatibility), platform.node()], sort_keys=True)
    return folder / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.socket"


def _start(address: Path, owner: str, idle: str, environment: Mapping[str, str]) -> bool:
    """Start a zygote unless there is one at this address; returns whether there is one then."""
    try:
        with locked(address.parent):
            remove_dead(address.parent)
            if address.exists():
                return True
            with socket.socket(socket.AF_UNIX) as listener:
                with reachable(address) as short:
                    listener.bind(short)
                listener.listen(_WAITING)
                fd = listener.fileno()
                module = "realranks.ranks.server.zygote_process"
                process = subprocess.Popen(
                    [sys.executable, "-P", "-m", module, str(fd), str(address), owner, idle],
                    pass_fds=[fd],
                    env=environment,
                    cwd=os.sep,  # it outlives what the folder of a lesson is used for
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,  # Ctrl-C in the terminal is not meant for it
                )
    except OSError:
        return False
    threading.Thread(target=process.wait, name="zygote-started", daemon=True).start()
    return True


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
            send_with_fds(wire, Message("request", encode(request)), [sock.fileno(), log])
        except OSError:
            return False
    return True
