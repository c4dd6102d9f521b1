"""The three kinds of verdict on real ranks: proved, probable and unknown; and who is named for what."""

import os
import signal
import socket
import subprocess
import sys
from importlib.metadata import version

import pytest

from realranks.doctor.diagnose import while_it_runs, with_diagnosis
from realranks.outcome.outcome import EXIT_CUT_OFF, Kind
from realranks.ranks.kernel import follow_job, job
from realranks.ranks.kernel.gang import Gang

AT_MOST = 10.0

WRONG_ROOTS = {
    "broadcast": "dist.broadcast(torch.ones(2), src=rank)",
    "broadcast on one rank": "dist.broadcast(torch.ones(2), src=0 if rank != 3 else 3)",
    "reduce": "dist.reduce(torch.ones(100_000), dst=rank)",
    "scatter": (
        "src = 0 if rank != 1 else 1\n"
        "dist.scatter(torch.ones(1), [torch.ones(1)] * 4 if rank == src else None, src=src)"
    ),
    "gather": (
        "dst = 0 if rank < 2 else 3\n"
        "dist.gather(torch.ones(1), [torch.ones(1) for _ in range(4)] if rank == dst else None, dst=dst)"
    ),
}


@pytest.mark.parametrize("name", WRONG_ROOTS)
def test_ranks_that_disagree_about_the_root_are_a_deadlock(shared_ranks, name):
    outcome = shared_ranks(WRONG_ROOTS[name])
    assert outcome.proved
    assert outcome.seconds < AT_MOST
    assert outcome.diagnosis.kind == "different_roots"
    assert "for the root" in outcome.diagnosis.summary


def test_a_functional_collective_that_one_rank_skips_is_proved_and_named(shared_ranks):
    outcome = shared_ranks(
        "import torch.distributed._functional_collectives as fc\n"
        "if rank:\n    print(fc.all_reduce(torch.ones(2), 'sum', dist.group.WORLD).sum().item())"
    )
    assert outcome.proved
    assert (outcome.diagnosis.kind, outcome.diagnosis.culprits) == ("rank_left", (0,))
    assert "all_reduce() (a functional collective)" in outcome.diagnosis.summary


def test_a_dtensor_that_one_rank_does_not_gather(ranks):
    outcome = ranks(
        "from torch.distributed.tensor import distribute_tensor, Shard, init_device_mesh\n"
        "whole = distribute_tensor(torch.arange(8.), init_device_mesh('cpu', (4,)), [Shard(0)])\n"
        "if rank != 1:\n    whole.full_tensor()"
    )
    assert outcome.proved
    assert outcome.diagnosis.culprits == (1,)


def test_the_rank_that_skips_a_forward_is_named_and_not_the_one_that_still_waits(shared_ranks):
    outcome = shared_ranks(
        "from torch.nn.parallel import DistributedDataParallel as DDP\n"
        "model = DDP(torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4)))\n"
        "if rank != 2:\n    model(torch.ones(2, 4))"
    )
    assert outcome.proved
    assert outcome.diagnosis.culprits == (2,)


def test_large_messages_between_pairs_are_no_deadlock_while_they_move(shared_ranks):
    outcome = shared_ranks(
        "t = torch.ones(10_000_000)\n"
        "for _ in range(4):\n"
        "    if rank % 2 == 0:\n        dist.send(t, rank + 1)\n    else:\n        dist.recv(t, rank - 1)"
    )
    assert outcome.kind is Kind.OK, str(outcome)


@pytest.mark.parametrize(
    "wait",
    [
        "class cfg:\n    timeout = timedelta(seconds=2)\nwait = lambda: store.wait(['k'], cfg.timeout)",
        "store.set_timeout(timedelta(seconds=2))\nwait = lambda: store.get('k')",
    ],
)
def test_a_wait_for_a_key_that_gives_up_by_itself_is_left_alone(shared_ranks, wait):
    outcome = shared_ranks(
        "from datetime import timedelta\n"
        "store = dist.TCPStore('127.0.0.1', int(os.environ['MASTER_PORT']), is_master=False)\n"
        f"{wait}\n"
        "if rank == 0:\n    try:\n        wait()\n    except dist.DistStoreError:\n        print('as planned')"
    )
    assert outcome.kind is Kind.OK, str(outcome)
    assert outcome.stdout[0] == "as planned\n"


def test_a_key_that_a_child_process_sets_is_waited_for(shared_ranks):
    outcome = shared_ranks(
        "import subprocess\n"
        "code = '''import os, time, torch.distributed as dist\ntime.sleep(1)\n"
        "dist.TCPStore('127.0.0.1', int(os.environ['MASTER_PORT']), is_master=False).set('kk', '1')'''\n"
        "store = dist.TCPStore('127.0.0.1', int(os.environ['MASTER_PORT']), is_master=False)\n"
        "child = subprocess.Popen([sys.executable, '-c', code]) if rank == 0 else None\n"
        "store.get('kk')"
    )
    assert outcome.kind is Kind.OK, str(outcome)
    assert set(outcome.values.values()) == {b"1"}


STEPS = {
    "one bucket": ("DDP(net())", "ddp(x).sum().backward()"),
    "searched for unused ones": ("DDP(net(), find_unused_parameters=True)", "ddp(x).sum().backward()"),
    "static": ("DDP(net(), static_graph=True)", "ddp(x).sum().backward()"),
    "several buckets": ("DDP(net(), bucket_cap_mb=0.01)", "ddp(x).sum().backward()"),
    "buffers": ("DDP(net(torch.nn.BatchNorm1d(99)))", "ddp(x).sum().backward()"),
    "accumulated": (
        "DDP(net())",
        "with ddp.no_sync():\n        ddp(x).sum().backward()\n    ddp(x).sum().backward()",
    ),
    "two models": ("DDP(net()); other = DDP(torch.nn.Linear(99, 1))", "other(ddp(x)).sum().backward()"),
    "in turn": (
        "DDP(net()); other = DDP(torch.nn.Linear(99, 1))",
        "other(ddp(x).detach()).sum().backward()\n    ddp(x).sum().backward()",
    ),
}


@pytest.mark.parametrize("watch", [False, True])
@pytest.mark.parametrize("name", STEPS)
def test_training_steps_are_counted_by_passes_whatever_a_pass_sends(ranks, name, watch):
    wrapped, step = STEPS[name]
    outcome = ranks(
        "from torch.nn.parallel import DistributedDataParallel as DDP\n"
        "def net(*more):\n    return torch.nn.Sequential(torch.nn.Linear(99, 99), *more, torch.nn.Linear(99, 99))\n"
        f"x, ddp = torch.ones(2, 99), {wrapped}\nfor number in range(5 + (rank > 0)):\n    {step}",
        **({"around": ("realranks.watch.watching:watching", {})} if watch else {}),
    )
    assert outcome.diagnosis.kind == "uneven_batches"
    assert "after 5 training steps, and ranks 1-3 wait in training step 6 in" in outcome.diagnosis.summary


UNEVEN = """
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
dist.init_process_group("gloo")
model = DDP(torch.nn.Linear(4, 4))
for number in range(4 + dist.get_rank()):
    model(torch.ones(2, 4)).sum().backward()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="ranks are kept from a core by their affinity")
def test_what_ranks_have_done_is_told_also_where_they_hardly_get_a_core(tmp_path):
    """Reading their first stacks takes a second of a core; here it takes several, and they are waited for."""
    script = tmp_path / "uneven.py"
    script.write_text(UNEVEN)
    gang = Gang(2, init=False, method="spawn")
    busy = []
    try:
        gang.wait_ready()
        core = min(os.sched_getaffinity(0))
        pin = f"import os; os.sched_setaffinity(0, [{core}])\nwhile True: pass"
        busy += [subprocess.Popen([sys.executable, "-c", pin]) for _ in range(4)]
        for link in gang.links:
            for thread in os.listdir(f"/proc/{link.pid}/task"):
                os.sched_setaffinity(int(thread), [core])
        found = with_diagnosis(
            gang.run_script(str(script), (), timeout=300, repair=False).settled()
        ).diagnosis
    finally:
        for each in busy:
            each.kill()
            each.wait()
        gang.stop()
    assert found.kind == "uneven_batches"
    assert "Rank 0 has finished after 4 training steps, and rank 1 waits in training step 5" in found.summary


LEFT_GROUP = """
def step(group):
    if rank != 2:
        try:
            dist.all_reduce(torch.ones(1), group=group)
        except RuntimeError:
            pass
    dist.all_reduce(torch.ones(1), group=dist.new_group())
"""


@pytest.mark.parametrize("kept", [False, True])
def test_what_is_open_in_a_group_that_nobody_has_any_more_is_met_by_nothing(ranks, kept):
    made = "dist.new_group(timeout=__import__('datetime').timedelta(seconds=1))"
    outcome = ranks(LEFT_GROUP + (f"kept = {made}\nstep(kept)" if kept else f"step({made})"))
    assert outcome.kind is Kind.OK
    assert (outcome.diagnosis is not None and outcome.diagnosis.kind == "unequal_collectives") is kept


SKIPPED = "if rank != 1:\n    w = dist.all_reduce(torch.ones(4), async_op=True)"


def test_a_collective_left_out_is_named_and_not_the_innocent_one_that_meets_it(shared_ranks):
    outcome = shared_ranks(f"{SKIPPED}\ndist.all_reduce(torch.ones(2))")
    assert outcome.proved
    assert (outcome.diagnosis.kind, outcome.diagnosis.culprits) == ("skipped_collective", (1,))
    assert "Rank 1 has not issued all_reduce() (4 float32) at In [1], line 3" in outcome.diagnosis.summary


def test_a_collective_left_open_is_told_by_the_cell_that_leaves_it(ranks):
    outcome = ranks(SKIPPED)
    assert outcome.kind is Kind.OK
    assert (outcome.diagnosis.kind, outcome.diagnosis.culprits) == ("unequal_collectives", ())
    assert outcome.diagnosis.warning
    assert "at In [1], line 3, and rank 1 has not" in outcome.diagnosis.summary
    later = ranks("dist.all_reduce(torch.ones(2))")
    assert later.proved
    assert (later.diagnosis.kind, later.diagnosis.culprits) == ("skipped_collective", (1,))


FINE_TUNING = (
    "from torch.nn.parallel import DistributedDataParallel as DDP\n"
    "net = torch.nn.ModuleDict(dict(body=torch.nn.Linear(2, 3), head=torch.nn.Linear(3, 9)))\n"
    "net.forward = lambda x: net['head'](net['body'](x))\n"
    "ddp = DDP(net)\n{}\n"
    "for _ in range(2):\n    ddp(torch.ones(1, 2)).sum().backward()"
)


@pytest.mark.parametrize(
    ("change", "kind", "words"),
    [
        (
            "net['head'] = torch.nn.Linear(3, 2)",
            "parameters_replaced",
            "one of shape 9x3 and one of shape 9 are no",
        ),
        ("net['body'].requires_grad_(False)", "parameters_frozen", "body.weight and body.bias were frozen"),
        ("net.forward = lambda x: net['body'](x)", "unused_parameters", "head.weight and head.bias"),
    ],
)
def test_what_ddp_waits_for_in_vain_is_told_apart_though_nobody_watched(ranks, change, kind, words):
    outcome = ranks(FINE_TUNING.format(change))
    assert outcome.diagnosis.kind == kind
    assert words in outcome.diagnosis.summary


def test_messages_from_rank_to_rank_leave_nothing_open(shared_ranks):
    outcome = shared_ranks(
        "if rank == 0:\n    dist.send(torch.ones(1), 1)\nif rank == 1:\n    dist.recv(torch.ones(1), 0)\n"
        "dist.monitored_barrier()"
    )
    assert outcome.kind is Kind.OK
    assert outcome.diagnosis is None


def test_a_rank_alone_in_a_collective_that_the_others_have_left_with_an_error(ranks):
    ranks(
        "from datetime import timedelta\n"
        "if rank == 0:\n    try:\n        dist.irecv(torch.empty(1), src=1).wait(timedelta(milliseconds=300))\n"
        "    except RuntimeError:\n        pass"
    )
    outcome = ranks("dist.all_reduce(torch.ones(1))")
    assert outcome.kind is Kind.RAISES
    assert outcome.seconds < AT_MOST
    assert outcome.diagnosis.kind == "group_broken_before"
    assert outcome.diagnosis.culprits == (0,)
    assert ranks("x = torch.ones(1)\ndist.all_reduce(x)\nx.item()").values[0] == 4.0


@pytest.mark.parametrize(
    "helpers",
    [
        "import multiprocessing\npool = multiprocessing.get_context('fork').Pool(1)\npool.map(abs, [-1])",
        "from concurrent.futures import ProcessPoolExecutor as Pool\npool = Pool(1)\npool.submit(abs, -1).result()",
        "import logging.handlers, queue\nlog = logging.handlers.QueueListener(queue.Queue())\nlog.start()",
    ],
)
def test_helpers_that_are_idle_do_not_stand_in_the_way_of_a_proof(ranks, helpers):
    ranks(helpers)
    outcome = ranks("if rank != 2:\n    dist.barrier()")
    assert outcome.proved, str(outcome)
    assert outcome.diagnosis.culprits == (2,)


@pytest.fixture
def soon(monkeypatch):
    """Standing still is worth saying after a moment."""
    monkeypatch.setattr(job, "PROBABLE_SECONDS", 0.5)


def shown_while_running(ranks, source, **options):
    """The outcome, and what was said while it ran."""
    told = []

    def watch(progress):
        if progress.still is not None:
            told.append(while_it_runs(progress.still))

    return ranks(source, on_progress=watch, **options), told


def test_a_thread_of_the_learners_makes_a_deadlock_probable_and_nothing_is_ended_for_it(ranks, soon):
    ranks(
        "import threading\nthreading.Thread(target=threading.Event().wait, name='mine', daemon=True).start()"
    )
    outcome, told = shown_while_running(ranks, "if rank != 2:\n    dist.barrier()", timeout=4.0)
    assert (outcome.kind, outcome.proved, outcome.timed_out) == (Kind.HANG, False, True)
    assert outcome.seconds >= 4.0
    assert (outcome.diagnosis.kind, outcome.diagnosis.culprits) == ("rank_left", (2,))
    assert outcome.diagnosis.summary.startswith("Probably a deadlock: Ranks 0, 1 and 3 wait in barrier()")
    assert "thread 'mine' of ranks 0-3 lives and might still act" in str(outcome)
    assert told, "it was said while the cell ran"
    assert told[-1].summary == outcome.diagnosis.summary


def test_a_probable_deadlock_keeps_its_explanation_when_the_stop_button_ends_it(ranks, soon):
    ranks(
        "import threading\nthreading.Thread(target=threading.Event().wait, name='mine', daemon=True).start()"
    )
    told = []

    def press_stop_when_told(progress):
        if progress.still is not None and not told:
            told.append(while_it_runs(progress.still))
            os.kill(os.getpid(), signal.SIGINT)

    outcome = ranks("if rank == 0:\n    dist.broadcast(torch.ones(2), 1)", on_progress=press_stop_when_told)
    assert outcome.interrupted
    said = outcome.diagnosis
    assert (said.kind, said.culprits) == ("rank_only_collective", (0,)), str(outcome)
    assert said.summary.startswith("You pressed stop; ")
    assert told[0].summary.startswith("Probably a deadlock: Only rank 0 comes to broadcast()")
    assert "Probably a deadlock: Only rank 0 comes to broadcast()" in said.summary


def test_a_lock_that_nobody_releases_is_probably_why_the_others_wait(ranks, soon):
    outcome, _ = shown_while_running(
        ranks,
        "import threading\nlock = threading.Lock()\nlock.acquire()\nif rank == 0:\n    lock.acquire()\ndist.barrier()",
        timeout=4.0,
    )
    assert not outcome.proved
    assert (outcome.diagnosis.kind, outcome.diagnosis.culprits) == ("stuck_outside", (0,))
    assert "Rank 0 sleeps in lock.acquire() at In [1], line 6" in outcome.diagnosis.summary


def test_who_only_sleeps_is_not_even_probably_stuck(ranks, soon):
    outcome, told = shown_while_running(
        ranks, "time.sleep(60 if rank == 1 else 0)\ndist.barrier()", timeout=4.0
    )
    assert outcome.diagnosis.kind == "straggler"
    assert "rank 1 was still in time.sleep()" in outcome.diagnosis.summary
    assert {found.kind for found in told} == {"standing_still"}


def test_sends_and_receives_that_do_not_meet_are_told_apart(shared_ranks):
    outcome = shared_ranks(
        "if rank == 0:\n    dist.recv(torch.ones(1), src=2)\n"
        "if rank == 2:\n    dist.send(torch.ones(20_000_000), dst=1)"
    )
    assert outcome.proved
    assert outcome.diagnosis.culprits == (1,)
    assert "rank 2 waits in send() at In [1], line 5 for rank 1" in outcome.diagnosis.summary


def test_who_is_not_in_the_monitored_barrier_is_named(shared_ranks):
    outcome = shared_ranks("if rank != 2:\n    dist.monitored_barrier()")
    assert outcome.proved
    assert outcome.diagnosis.culprits == (2,)


def test_a_store_that_no_rank_makes(ranks, monkeypatch):
    monkeypatch.setattr(follow_job, "_CONNECT_SECONDS", 1.0)
    outcome = ranks(
        "os.environ.update(MASTER_ADDR='127.0.0.1', MASTER_PORT='9')\n"
        "dist.destroy_process_group()\n"
        "dist.init_process_group('gloo', init_method='tcp://127.0.0.1:9', rank=rank, world_size=4)"
    )
    assert outcome.diagnosis.kind == "init_nobody_listens"
    assert "TORCHELASTIC_USE_AGENT_STORE" in outcome.diagnosis.summary


def test_a_store_for_rpc_that_no_rank_makes(ranks, monkeypatch):
    monkeypatch.setattr(follow_job, "_CONNECT_SECONDS", 1.0)
    outcome = ranks(
        "import torch.distributed.rpc as rpc\n"
        "os.environ.update(MASTER_ADDR='127.0.0.1', MASTER_PORT='9')\n"
        "at = rpc.TensorPipeRpcBackendOptions(init_method='tcp://127.0.0.1:9')\n"
        "rpc.init_rpc(f'worker{rank}', rank=rank, world_size=4, rpc_backend_options=at)"
    )
    assert outcome.diagnosis.kind == "init_nobody_listens", str(outcome)
    assert "All ranks wait in init_rpc at In [1], line 5" in outcome.diagnosis.summary
    assert "TORCHELASTIC_USE_AGENT_STORE" in outcome.diagnosis.summary


def test_a_store_at_another_address_than_the_launcher_s_is_rank_0_s_since_torch_2_14(ranks, monkeypatch):
    monkeypatch.setattr(follow_job, "_CONNECT_SECONDS", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    outcome = ranks(  # an address of documentation (RFC 5737), where nobody is
        "dist.destroy_process_group()\n"
        f"dist.init_process_group('gloo', init_method='tcp://192.0.2.1:{port}', rank=rank, world_size=4)"
    )
    since = tuple(map(int, version("torch").split(".")[:2])) >= (2, 14)
    assert outcome.diagnosis.kind == ("init_incomplete" if since else "init_nobody_listens")


def test_a_rank_that_could_not_be_freed_costs_the_variables_and_the_cell_says_so(ranks):
    outcome = ranks("if rank == 0:\n    dist.recv(torch.ones(1))")
    assert outcome.proved
    assert any("Rank 0 could not be freed" in note and "lost" in note for note in outcome.notes)


CUT = {
    "wrote to every descriptor": (
        "import contextlib\n    for fd in range(3, 200):\n        with contextlib.suppress(OSError):\n"
        "            os.write(fd, b'x' * 99)"
    ),
    "closed its wire": "from realranks.ranks.inside import worker\n    worker.CURRENT.channel.sock.shutdown(2)",
}


@pytest.mark.parametrize("name", CUT)
def test_a_rank_that_has_cut_its_own_wire_is_not_said_to_be_out_of_memory(ranks, name):
    outcome = ranks(f"if rank == 1:\n    {CUT[name]}\ntime.sleep(30 if rank == 1 else 0)")
    assert outcome.kind is Kind.DIED
    assert outcome.exits[1] == EXIT_CUT_OFF
    assert outcome.diagnosis.kind == "rank_crashed"
    assert "out-of-memory" not in str(outcome)
