"""When the kernel dies, in whatever way, everything it has started is gone within two seconds."""

import os
import signal

import pytest

from tests.integration.ranks_and_kernels import is_gone, until

IMPORTS = "import os, time, subprocess, torch, torch.distributed as dist\nrank = dist.get_rank()\n"
BUSY = {
    "computing": "while True: pass",
    "in C, holding the GIL": "sum(iter(int, 1))",
    "waiting in a collective": "time.sleep(1000 if rank else 0)\ndist.barrier()",
    "with grandchildren": "subprocess.Popen(['sleep', '1000'])\nos.fork()\ntime.sleep(1000)",
    "with a process in a session of its own": (
        "subprocess.Popen(['sleep', '1000'], start_new_session=True)\ntime.sleep(1000)"
    ),
    "stopped": "os.kill(os.getpid(), 19)",
}


@pytest.mark.parametrize("name", BUSY)
def test_nothing_is_left_when_the_kernel_is_killed_while_ranks_are(new_kernel, tmp_path, name):
    one = new_kernel()
    one.run(f"%%ranks 2\n{IMPORTS}")
    one.start(f"%%ranks\nopen(os.path.join({str(tmp_path)!r}, f'here{{rank}}'), 'w').close()\n{BUSY[name]}")
    until(lambda: len(list(tmp_path.glob("here*"))) == 2)
    if "process" in name or "grandchildren" in name:
        until(lambda: len(one.processes()) >= 6)
    processes = one.processes()
    assert len(processes) >= 4, "the forkserver, the store and two ranks"
    one.kill()
    until(lambda: all(is_gone(pid) for pid in processes), 2)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_when_an_idle_kernel_is_ended(new_kernel, number):
    one = new_kernel()
    one.run("%%ranks 2\n1")
    processes = one.processes()
    os.kill(one.pid, number)
    until(lambda: all(is_gone(pid) for pid in processes), 5)


def test_nothing_is_left_after_a_proper_shutdown(new_kernel):
    one = new_kernel()
    one.run("%%ranks 2\n1")
    processes = one.processes()
    one.client.stop_channels()
    one.manager.shutdown_kernel()
    until(lambda: all(is_gone(pid) for pid in processes), 5)


def test_nothing_is_left_when_the_kernel_dies_while_torch_is_loading(new_kernel):
    one = new_kernel()
    processes = one.processes()
    assert processes
    one.kill()
    until(lambda: all(is_gone(pid) for pid in processes), 10)


def test_a_child_the_kernel_has_forked_does_not_keep_the_ranks_alive(new_kernel):
    one = new_kernel()
    one.run("%%ranks 2\n1")
    ranks = one.ranks()
    child = int(one.run("import os, time\npid = os.fork()\nif pid == 0:\n    time.sleep(1000)\npid").value)
    one.kill()
    until(lambda: all(is_gone(pid) for pid in ranks), 2)
    os.kill(child, signal.SIGKILL)
