"""A class on a real JupyterHub: ``make test-hub``. Not a part of ``make test``: it needs JupyterHub and npm's proxy.

Six learners sign in, each opens a lesson in a server of their own, and all run a deadlock at the same moment: once over
the hub's API, which tells how long cells take and what memory, and once in a real browser (`in_browsers`). Each time,
then, nobody does anything, the idle servers are culled, the hub is stopped, and no process may be left.

Learners are users of one account (JupyterHub's `SimpleLocalProcessSpawner`, its `DummyAuthenticator`), each with a home
folder and a folder for temporary files of their own: so no zygote is shared, as between accounts.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import websocket

from tests.hub import in_browsers

ROOT = Path(__file__).resolve().parents[2]
LESSON = "ddp-course/notebooks/00_first_ranks.ipynb"
START, RUN, CULL, LEAVE = 300.0, 240.0, 300.0, 15.0  # seconds; generous: six servers start at once
IDLE = 90

HANG = """\
%%ranks 4 --expect hang
import torch.distributed as dist
if dist.get_rank() != 2:
    dist.barrier()"""
AFTER = """\
%%ranks
import torch
one = torch.ones(1)
dist.all_reduce(one)
print("all", int(one))"""

CONFIG = """\
import os, subprocess, sys
c = get_config()
root = {root!r}
c.JupyterHub.bind_url = "http://127.0.0.1:{port}"
c.JupyterHub.hub_port = {hub_port}
c.ConfigurableHTTPProxy.api_url = "http://127.0.0.1:{proxy_port}"
c.JupyterHub.db_url = f"sqlite:///{{root}}/hub.sqlite"
c.JupyterHub.cookie_secret_file = f"{{root}}/cookie"
c.ConfigurableHTTPProxy.pid_file = f"{{root}}/proxy.pid"
c.JupyterHub.last_activity_interval = 5
c.JupyterHub.cleanup_servers = True
c.JupyterHub.authenticator_class = "dummy"
c.Authenticator.allow_all = True
c.JupyterHub.spawner_class = "simple"
c.SimpleLocalProcessSpawner.home_dir_template = root + "/home/{{username}}"
c.Spawner.cmd = [sys.executable, "-m", "jupyterhub.singleuser", "--allow-root"]
c.Spawner.http_timeout = c.Spawner.start_timeout = 300
c.Spawner.env_keep = ["PATH", "PYTHONPATH", "JUPYTER_PATH", "JUPYTERLAB_DIR", "JUPYTER_CONFIG_PATH",
                        "DDP_COURSE_HUB_TRY", "LANG"]


def prepare(spawner):
    home = f"{{root}}/home/{{spawner.user.name}}"
    os.makedirs(f"{{home}}/tmp", exist_ok=True)
    spawner.environment = {{
        "TMPDIR": f"{{home}}/tmp", "DDP_COURSE_HOME": f"{{home}}/data", "DDP_COURSE_LEARNER": f"{{home}}/ddp-course",
        "DDP_COURSE_MAX_RANKS": "8", "JUPYTERHUB_ACTIVITY_INTERVAL": "5",
    }}
    copy = [sys.executable, "-m", "course_lib.cli", "lab", "--only-copy"]
    subprocess.run(copy, check=True, cwd={course!r}, env=os.environ | spawner.environment)


c.Spawner.pre_spawn_hook = prepare
cull = [sys.executable, "-m", "jupyterhub_idle_culler", "--timeout={idle}", "--cull-every=5"]
c.JupyterHub.services = [{{"name": "try", "api_token": {token!r}}}, {{"name": "cull", "command": cull}}]
c.JupyterHub.load_roles = [
    {{"name": "try", "services": ["try"], "scopes": ["admin:users", "admin:servers", "tokens", "access:servers"]}},
    {{"name": "cull", "services": ["cull"],
      "scopes": ["list:users", "read:users:activity", "read:servers", "delete:servers"]}},
]
"""


@dataclass(frozen=True)
class Learner:
    """One learner who has signed in, with the kernel of the open lesson."""

    name: str
    token: str
    kernel: str


#: How a class is held: given the hub, the learners' names, and the mark of their processes.
Way = Callable[["Api", list[str], str], None]


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--learners", type=int, default=6)
    parser.add_argument(
        "--hub", type=Path, default=ROOT / ".venv-hub", help="the environment with JupyterHub"
    )
    parser.add_argument("--only", choices=("api", "browser"), help="one of the two")
    arguments = parser.parse_args()
    ways = {"api": over_api, "browser": in_browser}
    left = 0
    for name, way in ways.items():
        if arguments.only in (None, name):
            print(f"--- {name}", flush=True)
            left += try_hub(arguments.hub, arguments.learners, way)
    return 1 if left else 0


def try_hub(hub: Path, count: int, way: Way) -> int:
    """Hold a class on a hub; returns how many processes were left."""
    mark = secrets.token_hex(8)
    with tempfile.TemporaryDirectory(prefix="ddp-hub-", ignore_cleanup_errors=True) as folder:
        try:
            with (Path(folder) / "hub.log").open("wb") as log:
                hold_class(Path(folder), hub, mark, count, log, way)
        except BaseException:
            print(
                "\n".join((Path(folder) / "hub.log").read_text(errors="replace").splitlines()[-30:]),
                file=sys.stderr,
            )
            raise
        finally:
            wait(lambda: None if marked(mark) else True, LEAVE, fail=False)
            left = [(process, " ".join(process.cmdline())[:100]) for process in marked(mark)]
            for process, _ in left:
                process.kill()
    print(
        f"processes left {LEAVE:.0f} s after the hub's end: {len(left)}",
        *(words for _, words in left),
        sep="\n  ",
    )
    return len(left)


def hold_class(root: Path, hub: Path, mark: str, count: int, log: Any, way: Way) -> None:
    port, hub_port, proxy_port = free_ports(3)
    token = secrets.token_hex(16)
    config = CONFIG.format(
        root=str(root),
        port=port,
        hub_port=hub_port,
        proxy_port=proxy_port,
        token=token,
        idle=IDLE,
        course=str(ROOT),
    )
    (root / "config.py").write_text(config, encoding="utf-8")
    environment = {
        "PATH": os.pathsep.join([str(hub / "bin"), str(hub / "node_modules/.bin"), os.environ["PATH"]]),
        "PYTHONPATH": str(ROOT),
        # What the course's environment has: JupyterLab with its extensions, and the extension of the course.
        "JUPYTER_PATH": str(Path(sys.prefix) / "share/jupyter"),
        "JUPYTERLAB_DIR": str(Path(sys.prefix) / "share/jupyter/lab"),
        "JUPYTER_CONFIG_PATH": os.pathsep.join(
            [str(ROOT / "course_lib/notebook"), str(Path(sys.prefix) / "etc/jupyter")]
        ),
        "DDP_COURSE_HUB_TRY": mark,
        "HOME": str(root),
        "LANG": "C.UTF-8",
    }
    command = [str(hub / "bin/python"), "-m", "jupyterhub", "-f", str(root / "config.py")]
    process = subprocess.Popen(command, cwd=root, env=environment, stdout=log, stderr=subprocess.STDOUT)
    try:
        api = Api(f"http://127.0.0.1:{port}", token)
        wait(lambda: api.get("/hub/api/") or True, START)
        names = [f"learner{number}" for number in range(1, count + 1)]
        way(api, names, mark)
        began = time.monotonic()
        wait(lambda: not servers(api) or None, CULL)
        print(f"idle for {IDLE} s: all servers were culled within {time.monotonic() - began:.0f} s")
        left = [each for each in marked(mark) if "ipykernel" in " ".join(each.cmdline())]
        if left:
            raise RuntimeError(f"{len(left)} kernels have outlived their servers")
    finally:
        process.terminate()
        process.wait(60)


def over_api(api: Api, names: list[str], mark: str) -> None:
    """The class as programs see it: how long each cell takes."""
    count = len(names)
    with ThreadPoolExecutor(count) as together:
        began = time.monotonic()
        learners = list(together.map(lambda name: sign_in(api, name), names))
        print(f"{count} learners have signed in and opened a lesson: {time.monotonic() - began:.1f} s")
        for what, code, wanted in (
            ("%load_ext course_lib", "%load_ext course_lib\n", ""),
            ("a deadlock in all at once (new ranks in it)", HANG, "rank 2"),
            ("a deadlock in all at once, again", HANG, "rank 2"),
            ("an all_reduce after it", AFTER, "all 4"),
        ):
            runs = list(together.map(lambda learner, code=code: timed(api, learner, code), learners))
            wrong = [text[-2000:] for _, status, text in runs if status != "ok" or wanted not in text]
            if wrong:
                raise RuntimeError(f"{what}: {wrong[0]}")
            seconds = sorted(second for second, _, _ in runs)
            print(f"{what}: {seconds[0]:.1f} to {seconds[-1]:.1f} s")
    tell_memory(count, mark)


def in_browser(api: Api, names: list[str], mark: str) -> None:
    """The class as learners see it."""
    in_browsers.hold(api.address, names, LESSON, lambda: tell_memory(len(names), mark))


def tell_memory(count: int, mark: str) -> None:
    print(f"memory (PSS) for all: {memory(mark):.0f} MB, per learner {memory(mark) / count:.0f} MB")


class Api:
    """The hub's API, and the servers behind its proxy."""

    def __init__(self, address: str, token: str) -> None:
        self.address, self.token = address, token

    def get(self, path: str, token: str = "") -> Any:
        return self.ask("GET", path, None, token)

    def ask(self, method: str, path: str, body: object = None, token: str = "") -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"token {token or self.token}", "Content-Type": "application/json"}
        request = urllib.request.Request(self.address + path, data=data, method=method, headers=headers)
        with urllib.request.urlopen(request, timeout=300) as answer:
            text = answer.read()
        return json.loads(text) if text else None


def sign_in(api: Api, name: str) -> Learner:
    api.ask("POST", f"/hub/api/users/{name}", {})
    token = api.ask("POST", f"/hub/api/users/{name}/tokens", {})["token"]
    api.ask("POST", f"/hub/api/users/{name}/server", {}, token)
    wait(lambda: api.get(f"/hub/api/users/{name}", token)["server"], START)
    lesson = api.get(f"/user/{name}/api/contents/{LESSON}", token)
    if not lesson["content"]["cells"]:
        raise RuntimeError(f"the lesson of {name} is empty")
    session = {"path": LESSON, "name": "lesson", "type": "notebook", "kernel": {"name": "python3"}}
    kernel = api.ask("POST", f"/user/{name}/api/sessions", session, token)["kernel"]["id"]
    return Learner(name, token, kernel)


def timed(api: Api, learner: Learner, code: str) -> tuple[float, str, str]:
    """Run a cell as a notebook does: the seconds until its end, its status, and all text that came."""
    address = api.address.replace("http", "ws", 1)
    channels = f"{address}/user/{learner.name}/api/kernels/{learner.kernel}/channels"
    wire = websocket.create_connection(
        channels, header=[f"Authorization: token {learner.token}"], timeout=RUN
    )
    header = {
        "msg_id": secrets.token_hex(8),
        "msg_type": "execute_request",
        "session": "s",
        "username": "",
        "version": "5.3",
    }
    content = {
        "code": code,
        "silent": False,
        "store_history": True,
        "allow_stdin": False,
        "stop_on_error": True,
    }
    message = {"header": header, "parent_header": {}, "metadata": {}, "content": content, "channel": "shell"}
    began, status, text = time.monotonic(), "", []
    wire.send(json.dumps(message))
    idle = False
    while not (status and idle):
        came = json.loads(wire.recv())
        if came["parent_header"].get("msg_id") != header["msg_id"]:
            continue
        content = came["content"]
        if came["msg_type"] == "execute_reply":
            status = content["status"]
        idle = idle or content.get("execution_state") == "idle"
        text += [
            content.get("text", ""),
            str(content.get("data", {}).get("text/plain", "")),
            content.get("evalue", ""),
        ]
    wire.close()
    return time.monotonic() - began, status, "".join(text)


def servers(api: Api) -> list[str]:
    return [user["name"] for user in api.get("/hub/api/users") if user.get("server") or user.get("pending")]


def marked(mark: str) -> list[psutil.Process]:
    """The processes that the hub has started, directly or not."""
    found = []
    for process in psutil.process_iter():
        try:
            if (
                process.environ().get("DDP_COURSE_HUB_TRY") == mark
                and process.status() != psutil.STATUS_ZOMBIE
            ):
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found


def memory(mark: str) -> float:
    """What the learners' processes have for themselves, and their part of what they share; megabytes."""
    total = 0
    for process in marked(mark):
        try:
            words = " ".join(process.cmdline())
            if (
                "-m jupyterhub -f" not in words
                and "configurable-http-proxy" not in words
                and "culler" not in words
            ):
                total += process.memory_full_info().pss
        except psutil.NoSuchProcess:
            continue
    return total / 1e6


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def wait(asked: Callable[[], Any], seconds: float, *, fail: bool = True) -> Any:
    """Ask until there is an answer."""
    until, problem = time.monotonic() + seconds, None
    while time.monotonic() < until:
        try:
            if (answer := asked()) is not None:
                return answer
        except (OSError, urllib.error.URLError) as error:
            problem = error
        time.sleep(0.5)
    if fail:
        raise TimeoutError(f"no answer in {seconds:.0f} s ({problem})")
    return None


if __name__ == "__main__":
    sys.exit(main())
