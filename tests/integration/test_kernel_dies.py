"""When the kernel dies, in whatever way, everything it has started is gone within two seconds."""

import os
import signal

from tests.support.ranks_and_kernels import until, until_gone

IMPORTS = "import os, signal, subprocess, time, torch, torch.distributed as dist\nrank = dist.get_rank()\n"
#: What each rank is doing when the kernel is killed.
BUSY = """
open(os.path.join(FOLDER, f'here{rank}'), 'w').close()
if rank == 0:
    while True: pass
if rank == 1:
    sum(iter(int, 1))  # holds the GIL
if rank == 2:
    dist.barrier()
if rank == 3:
    subprocess.Popen(['sleep', '1000'])
    subprocess.Popen(['sleep', '1000'], start_new_session=True)
    os.fork()
    time.sleep(1000)
if rank == 4:
    os.kill(os.getpid(), signal.SIGSTOP)
"""


def test_nothing_is_left_when_the_kernel_is_killed_while_ranks_are_busy_in_every_way(new_kernel, tmp_path):
    one = new_kernel()
    one.run(f"%%ranks 5\n{IMPORTS}")
    one.start(f"%%ranks\n{BUSY.replace('FOLDER', repr(str(tmp_path)))}")
    until(lambda: len(list(tmp_path.glob("here*"))) == 5)
    until(lambda: len(one.processes()) == 10)
    processes = one.processes()
    one.kill()
    until_gone(processes, 2)


def test_nothing_is_left_when_an_idle_kernel_is_asked_to_end(new_kernel):
    one = new_kernel()
    one.run("%%ranks 2\n1")
    processes = one.processes()
    os.kill(one.pid, signal.SIGTERM)
    until_gone(processes, 5)


def test_nothing_is_left_after_a_proper_shutdown(new_kernel):
    one = new_kernel()
    one.run("%%ranks 2\n1")
    processes = one.processes()
    one.client.stop_channels()
    one.manager.shutdown_kernel()
    until_gone(processes, 5)


def test_nothing_is_left_when_the_kernel_dies_while_torch_is_loading(new_kernel):
    one = new_kernel(DDP_COURSE_ZYGOTE="")
    processes = one.processes()
    assert processes
    one.kill()
    until_gone(processes, 60)


def test_a_child_the_kernel_has_forked_does_not_keep_the_ranks_alive(new_kernel):
    one = new_kernel()
    one.run("%%ranks 2\n1")
    ranks = one.ranks()
    child = int(one.run("import os, time\npid = os.fork()\nif pid == 0:\n    time.sleep(1000)\npid").value)
    one.kill()
    until_gone(ranks, 2)
    os.kill(child, signal.SIGKILL)
