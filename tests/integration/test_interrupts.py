"""The stop button at every moment: the kernel answers, the ranks are free, and what was in them is kept."""

import random
import time

import psutil
import pytest

from tests.support.ranks_and_kernels import is_gone, until

IMPORTS = "import os, time, torch, torch.distributed as dist\nrank = dist.get_rank()\n"
MARK = "open(os.path.join({folder!r}, str(rank)), 'w').close()\n"
DDP = (
    "from torch.nn.parallel import DistributedDataParallel as DDP\n"
    "model = DDP(torch.nn.Linear(2, 1))\n"
    "loss = model(torch.ones(1, 2)).sum()\n"
)


@pytest.fixture(autouse=True)
def _gang(kernel):
    shown = kernel.run(f"%%ranks 4\n{IMPORTS}kept = 7")
    assert shown.status == "ok", shown.text


def stop_it(kernel, folder, source, presses=1, magic="%%ranks"):
    """Run the cell, press stop when every rank is in it, and return what the cell shows."""
    message = kernel.start(f"{magic}\n{MARK.format(folder=str(folder))}{source}")
    until(lambda: len(list(folder.iterdir())) == 4)
    for _ in range(presses):
        kernel.press_stop()
    return kernel.finish(message, timeout=40)


#: Just before the cell begins, the press meets IPython (KeyboardInterrupt) or ipykernel (which only logs it).
ANY_STOP = ("Interrupted", "KeyboardInterrupt", "")

ENDLESS = {
    "a loop in Python": "while True: pass",
    "a sleep": "time.sleep(1000)",
    "a loop of prints": "while True: print('x' * 100)",
    "one rank sleeps and the others wait": "time.sleep(1000 if rank == 0 else 0)\ndist.barrier()",
    "endless collectives": "while True: dist.all_reduce(torch.ones(1000))",
    "endless training": (
        DDP
        + "while True:\n    loss = model(torch.ones(1, 2)).sum()\n    loss.backward()\n    model.zero_grad()"
    ),
    "a backward that waits for a sleeping rank": (
        DDP + "time.sleep(1000 if rank == 1 else 0)\nloss.backward()"
    ),
    "a subprocess": "os.system('sleep 1000')",
}


@pytest.mark.parametrize("name", ENDLESS)
def test_stop_ends_it_and_keeps_the_state(kernel, tmp_path, name):
    shown = stop_it(kernel, tmp_path, ENDLESS[name])
    assert shown.status == "error"
    assert shown.ename == "Interrupted", shown.text
    assert "You pressed stop" in shown.text
    after = kernel.run("%%ranks --as out\nx = torch.ones(1)\ndist.all_reduce(x)\nkept, x.item()")
    assert after.status == "ok", after.text
    assert kernel.run("out.values[0]").value == "(7, 4.0)"


def test_a_deadlock_stopped_by_hand_is_the_same_as_one_proved(kernel, tmp_path):
    shown = stop_it(kernel, tmp_path, "if rank: dist.barrier()")
    assert shown.status == "error"
    assert kernel.run("%%ranks\nkept\ndist.barrier()").status == "ok"


def test_pressing_twice_quickly_is_pressing_once(kernel, tmp_path):
    shown = stop_it(kernel, tmp_path, "time.sleep(1000 if rank else 0)\ndist.barrier()", presses=2)
    assert shown.ename == "Interrupted", shown.text
    assert kernel.run("%%ranks\nkept\ndist.barrier()").status == "ok"


def test_pressing_five_times_leaves_a_kernel_that_answers(kernel, tmp_path):
    stop_it(kernel, tmp_path, "time.sleep(1000)", presses=5)
    assert kernel.run("%%ranks 4\n1").status == "ok"


def test_code_that_cannot_be_stopped_costs_the_gang_and_says_so(kernel, tmp_path):
    shown = stop_it(kernel, tmp_path, "if rank == 2: sum(iter(int, 1))\ntime.sleep(1000)")
    assert "rank 2 could not be freed and was ended" in shown.text
    after = kernel.run(f"%%ranks\n{IMPORTS}dist.barrier()")
    assert after.status == "ok"
    assert "all ranks are new" in after.text


def test_stop_when_nothing_runs_changes_nothing(kernel):
    kernel.press_stop()
    assert kernel.run("1 + 1").value == "2"
    assert kernel.run("%%ranks\nkept").status == "ok"


def test_stop_while_the_gang_starts(kernel):
    for _ in range(3):
        message = kernel.start("%%ranks 8 --fresh\n1")
        until(lambda: len(kernel.processes()) > 6)
        kernel.press_stop()
        shown = kernel.finish(message)
        assert shown.ename in ANY_STOP, shown.text
    assert kernel.run("%%ranks 4 --fresh\n1").status == "ok"


def test_stop_while_torch_is_loading(new_kernel):
    one = new_kernel(DDP_COURSE_ZYGOTE="")
    message = one.start("print('on')\nget_ipython().run_cell_magic('ranks', '2', '1')")
    one.wait_for("stream", message)
    one.press_stop()
    one.finish(message)
    assert one.run("%%ranks 2\n'fine'").status == "ok"


def test_stop_during_run(kernel, tmp_path):
    kernel.run(
        "def f():\n    import torch.distributed as dist, time, os\n"
        f"    open(os.path.join({str(tmp_path)!r}, str(dist.get_rank())), 'w').close()\n    time.sleep(1000)"
    )
    before = set(kernel.processes())
    message = kernel.start("run(f, ranks=4, timeout=100)")
    until(lambda: len(list(tmp_path.iterdir())) == 4)
    kernel.press_stop()
    assert kernel.finish(message).ename == "Interrupted"
    until(lambda: all(is_gone(pid) for pid in set(kernel.processes()) - before))


def test_stop_while_a_variable_is_fetched_from_a_stopped_rank(kernel):
    kernel.run("%%ranks --as out\nx = rank")
    victim = kernel.ranks()[1]
    psutil.Process(victim).suspend()
    message = kernel.start("print('on')\nout['x']")
    kernel.wait_for("stream", message)
    kernel.press_stop()
    assert kernel.finish(message, timeout=20).status == "error"
    psutil.Process(victim).resume()
    assert kernel.run("%%ranks\nkept").status == "ok"


@pytest.mark.slow
def test_stop_at_forty_random_moments_of_training(kernel):
    train = (
        f"%%ranks 4\n{IMPORTS}{DDP}"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "for _ in range(100_000):\n"
        "    optimizer.zero_grad()\n    model(torch.randn(8, 2)).sum().backward()\n    optimizer.step()\n"
        "    dist.all_reduce(torch.ones(10_000))"
    )
    moments = random.Random(7)
    for _ in range(40):
        message = kernel.start(train)
        kernel.wait_for("execute_input", message)
        time.sleep(
            moments.choice([0, 0.02, 0.05, 0.1, 0.2, 0.4])
        )  # no wait for anything: the moment is drawn
        kernel.press_stop()
        shown = kernel.finish(message)
        assert shown.ename in ANY_STOP, shown.text
        after = kernel.run(f"%%ranks 4\n{IMPORTS}x = torch.ones(1)\ndist.all_reduce(x)\nx.item()")
        assert "ranks 0-3 | 4.0" in after.text, after.text
