"""The zygote of any Jupyter server: it comes when needed, is replaced when killed, and goes with the servers."""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.servers import LESSON, OTHER, Place, Server
from tests.support.ranks_and_kernels import ROOT, is_gone, until, until_gone

WHO = """
import os, psutil, course_lib
from realranks.ranks.kernel.launcher import warm_up
print(os.getpid(), psutil.Process(warm_up().pid).ppid(), warm_up().pid)
"""


@pytest.fixture
def place() -> Iterator[Place]:
    with tempfile.TemporaryDirectory(prefix="ddp-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        mine = Place(Path(folder))
        yield mine
        mine.close()


def test_the_servers_of_a_user_share_a_zygote_that_comes_when_needed_is_replaced_and_goes_with_them(place):
    servers = [Server(place, "one"), Server(place, "two")]
    kernels = []
    try:
        kernels.append(servers[0].open(OTHER))
        kernels[0].run("pass")
        assert place.zygotes() == []

        kernels.append(servers[0].open(LESSON))
        (zygote,) = until(place.zygotes)  # before any cell has run
        assert oct(place.sockets()[0].parent.stat().st_mode)[-3:] == "700"
        kernels.append(servers[1].open(LESSON))
        asked = [kernel.run("%load_ext course_lib" + WHO) for kernel in kernels[1:]]
        # VS Code's own kernels, or nbclient's: no server has started them.
        alone = [sys.executable, "-c", WHO]
        asked.append(subprocess.check_output(alone, env=place.environment, cwd=ROOT, text=True))
        assert [int(line.split()[1]) for line in asked] == [zygote] * 3
        assert place.zygotes() == [zygote]

        os.kill(zygote, signal.SIGKILL)
        until(lambda: is_gone(zygote))
        ended = [int(line.split()[2]) for line in asked[:2]]
        assert not any(is_gone(server) for server in ended)
        # A notebook that does not mention the course, in which it is loaded all the same.
        kernels[0].run("import course_lib\nfrom realranks.ranks.kernel.launcher import warm_up\nwarm_up()")
        (replaced,) = until(place.zygotes)
        assert len(place.sockets()) == 1

        servers[0].kill()  # the only one with a kernel that has asked for this zygote
        until(lambda: is_gone(replaced) and not place.sockets())
        servers[1].kill()
        until_gone(int(pid) for line in asked for pid in line.split()[::2])
    finally:
        for kernel in kernels:
            kernel.close()
