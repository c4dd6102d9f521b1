"""Ranks start and meet again though the name server is silent, and ask it nothing: it has nothing to do with them."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from realranks.ranks import host_names

ROOT = Path(__file__).resolve().parents[2]
#: Run in a network of its own, whose name server counts the questions and answers none.
ALONE = """
import fcntl, socket, struct, subprocess, sys

with socket.socket() as any_socket:  # "lo" up: SIOCSIFFLAGS, IFF_UP | IFF_RUNNING
    fcntl.ioctl(any_socket, 0x8914, struct.pack("16sH14x", b"lo", 0x1 | 0x40))
subprocess.run(["mount", "--bind", sys.argv[1], "/etc/resolv.conf"], check=True)
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("127.0.0.1", 53))
server.setblocking(False)

def questions():
    count = 0
    while True:
        try:
            server.recv(512)
        except BlockingIOError:
            return count
        count += 1

from realranks.ranks.host_names import without_name_server
from tests.support.ranks_and_kernels import Ranks

def look_up():
    try:
        socket.getnameinfo(("::ffff:127.0.0.1", 80, 0, 0), socket.NI_NUMERICSERV)
    except socket.gaierror:
        pass

with without_name_server():
    look_up()
within = questions()
look_up()
assert questions(), "after it, names are looked up as this machine is set"
ranks = Ranks(2)
outcome = ranks('''
import torch, torch.distributed as dist
dist.destroy_process_group()
dist.init_process_group("gloo")
x = torch.ones(1)
dist.all_reduce(x)
x.item()
''')
ranks.gang.stop()
print(within, questions(), outcome.values)
"""


@pytest.mark.skipif(sys.platform != "linux" or not shutil.which("unshare"), reason="needs unshare (Linux)")
def test_ranks_ask_no_name_server(tmp_path):
    namespaces = ["unshare", "--map-root-user", "--mount", "--net"]
    if subprocess.run([*namespaces, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this user may not make a network of its own")
    settings = tmp_path / "resolv.conf"
    settings.write_text("nameserver 127.0.0.1\noptions timeout:1 attempts:1\n", encoding="ascii")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("DDP_COURSE_")}
    done = subprocess.run(
        [*namespaces, sys.executable, "-c", ALONE, settings],
        cwd=ROOT,
        env={**environment, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.stdout == "0 0 {0: 2.0, 1: 2.0}\n", done.stderr


@pytest.mark.parametrize(
    ("host", "local"),
    [("127.0.0.1", True), ("::1", True), ("localhost", True), ("node-7", False), ("", False)],
)
def test_what_needs_a_name_server_may_ask_it(host, local):
    assert host_names.is_local(host) == local
