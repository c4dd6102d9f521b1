"""A deadlock is proved, explained and over in about a second; what only takes long is left alone."""

import pytest

from realranks.outcome.outcome import Kind

#: The contract says about a second; a busy machine gets ten times that.
AT_MOST = 10.0

DDP = (
    "from torch.nn.parallel import DistributedDataParallel as DDP\n"
    "model = DDP(torch.nn.Linear(2, 1))\nloss = model(torch.ones(1, 2)).sum()\n"
)

POOL = "from concurrent.futures import ThreadPoolExecutor\np = ThreadPoolExecutor(2)\nlist(p.map(abs, range(4)))\n"

#: What the ranks do, who then waits, the kind of the diagnosis, and who did otherwise.
DEADLOCKS = {
    "one rank skips an all_reduce": ("if rank != 2:\n    dist.all_reduce(one)", {0, 1, 3}, "rank_left", (2,)),
    "one rank alone is in a barrier": (
        "if rank == 0:\n    dist.barrier()",
        {0},
        "rank_only_collective",
        (0,),
    ),
    "different collectives": (
        "if rank == 3:\n    dist.broadcast(one, 0)\nelse:\n    dist.all_reduce(one)",
        {0, 1, 2, 3},
        "different_collectives",
        (3,),
    ),
    "one collective more on some ranks": (
        "for _ in range(3 if rank else 2):\n    dist.all_reduce(one)",
        {1, 2, 3},
        "rank_left",
        (0,),
    ),
    "a backward on some ranks": (
        DDP + "if rank != 1:\n    loss.backward()",
        {0, 2, 3},
        "missing_backward",
        (1,),
    ),
    "a DDP constructor on some ranks": (
        "if rank:\n    " + DDP.replace("\n", "\n    "),
        {1, 2, 3},
        "ddp_on_some_ranks",
        (0,),
    ),
    "recv without send": ("if rank == 0:\n    dist.recv(one, 1)", {0}, "nobody_answers", (1,)),
    "irecv and wait without send": (
        "if rank == 0:\n    work = dist.irecv(one, 1)\n    work.wait()",
        {0},
        "nobody_answers",
        (1,),
    ),
    "a wait at the end of a longer expression": (
        "if rank == 0:\n    dist.batch_isend_irecv([dist.P2POp(dist.irecv, one, 1)])[0].wait()",
        {0},
        "nobody_answers",
        (),
    ),
    "a wait on an element of a list": (
        "works = [dist.irecv(one, 1)] if rank == 0 else []\nwhile works:\n    works.pop().wait()",
        {0},
        "nobody_answers",
        (),
    ),
    "an async collective that one rank never issues": (
        "if rank != 1:\n    work = dist.all_reduce(one, async_op=True)\n    work.wait()",
        {0, 2, 3},
        "rank_left",
        (1,),
    ),
    "everyone receives first": ("dist.recv(one, (rank + 1) % 4)", {0, 1, 2, 3}, "waiting_in_a_circle", ()),
    "a circle over groups of two": (
        "g = [dist.new_group([i, (i + 1) % 4]) for i in range(4)]\ndist.barrier(g[rank])\ndist.barrier(g[rank - 1])",
        {0, 1, 2, 3},
        "waiting_in_a_circle",
        (),
    ),
    "two groups in different order": (
        "g = [dist.new_group([0, 1]) for _ in 'ab']\nif rank < 2:\n    [dist.barrier(g[i]) for i in (rank, 1 - rank)]",
        {0, 1},
        "different_groups",
        (),
    ),
    "a key that nobody sets": (
        "if rank == 0:\n    dist.distributed_c10d._get_default_store().wait(['never'])",
        {0},
        "nobody_answers",
        (),
    ),
    "a new_group on some ranks": (
        "if rank < 2:\n    dist.new_group([0, 1, 2])",
        {0, 1},
        "new_group_on_some_ranks",
        (2, 3),
    ),
    "objects gathered on some ranks": (
        "if rank:\n    dist.all_gather_object([None] * 4, rank)",
        {1, 2, 3},
        "rank_left",
        (0,),
    ),
    "an idle pool of threads beside it": (
        POOL + "if rank:\n    dist.barrier()",
        {1, 2, 3},
        "rank_left",
        (0,),
    ),
    "a call from a lambda in a comprehension": (
        "f = lambda: [dist.barrier() for _ in range(2 if rank else 1)]\nf()",
        {1, 2, 3},
        "rank_left",
        (0,),
    ),
}


@pytest.mark.parametrize("name", DEADLOCKS)
def test_a_deadlock_is_proved_when(shared_ranks, name):
    source, waiters, kind, culprits = DEADLOCKS[name]
    shared_ranks("one = torch.ones(1)")
    outcome = shared_ranks(source)
    assert outcome.kind is Kind.HANG, str(outcome)
    assert outcome.proved
    assert outcome.seconds < AT_MOST
    assert set(outcome.waiting) == waiters
    assert (outcome.diagnosis.kind, outcome.diagnosis.culprits) == (kind, culprits)
    assert all(waiting.where.startswith("In [1], line") for waiting in outcome.waiting.values())
    assert shared_ranks("x = torch.ones(1)\ndist.all_reduce(x)\nx.item()").values[0] == 4.0, "usable at once"


def test_the_verdict_names_ranks_collective_and_line(shared_ranks):
    text = str(shared_ranks("x = torch.ones(2)\nif rank != 2:\n    dist.all_reduce(x)"))
    assert (
        "Ranks 0, 1 and 3 wait in all_reduce() at In [1], line 4 for rank 2, which has left the cell" in text
    )
    assert "rank 2" in text
    assert "dist.all_reduce(x)" in text


def test_ranks_outside_the_cell_are_named_as_such(shared_ranks):
    outcome = shared_ranks("dist.barrier()", only=(0, 1))
    assert outcome.kind is Kind.HANG
    assert "for ranks 2 and 3, which do not run this cell" in outcome.diagnosis.summary


def test_different_sizes_end_in_words_whatever_gloo_does(ranks):
    outcome = ranks("dist.all_reduce(torch.ones(1000 if rank else 500))")
    assert outcome.kind in (Kind.HANG, Kind.DIED, Kind.RAISES)
    assert outcome.diagnosis is not None
    assert outcome.seconds < 2 * AT_MOST


STRAGGLERS = {
    "a rank sleeps": "time.sleep(1.5 if rank == 1 else 0)\ndist.barrier()",
    "a rank computes": "t = time.time()\nwhile rank == 1 and time.time() - t < 1.5:\n    pass\ndist.barrier()",
    "a rank waits for its data": "rank == 1 and os.system('sleep 1.5')\ndist.barrier()",
    "a thread brings the collective later": (
        "import threading\nlate = threading.Timer(1.5, dist.barrier)\nlate.start() if rank == 1 else dist.barrier()"
    ),
    "a rank waits for a child": (
        "pid = os.fork() if rank == 1 else None\nif pid == 0:\n    time.sleep(1.5)\n    os._exit(0)\n"
        "if pid:\n    os.wait()"
    ),
    "a rank reads from a pipe": "rank == 1 and os.popen('sleep 1.5; echo').read()\ndist.barrier()",
    "work goes on while an async collective waits": (
        "work = None if rank == 1 else dist.all_reduce(torch.ones(1), async_op=True)\ntime.sleep(1.0)\n"
        "work = work or dist.all_reduce(torch.ones(1), async_op=True)\nwork.wait();"
    ),
    "many async collectives are under way": (
        "x = torch.ones(2_000_000)\nworks = [dist.all_reduce(x, async_op=True) for _ in range(20)]\n"
        "for work in works:\n    work.wait()"
    ),
    "a large tensor travels from rank to rank": (
        "big = torch.ones(100_000_000) if rank < 2 else None\n"
        "for _ in range(2):\n    rank == 0 and dist.send(big, 1)\n    rank == 1 and dist.recv(big, 0)\ndel big"
    ),
    "a backward without DDP takes long": (
        "net = torch.nn.Sequential(*[torch.nn.Linear(800, 800) for _ in range(8)])\n"
        "for _ in range(3):\n    net(torch.ones(200, 800)).sum().backward()"
    ),
}


@pytest.mark.parametrize("name", STRAGGLERS)
def test_it_is_no_deadlock_when(shared_ranks, name):
    outcome = shared_ranks(STRAGGLERS[name])
    assert outcome.kind is Kind.OK, str(outcome)


def test_a_wait_with_a_timeout_of_its_own_ends_in_torchs_own_error(ranks):
    outcome = ranks(
        "from datetime import timedelta\nif rank != 2:\n    dist.monitored_barrier(timeout=timedelta(seconds=1))"
    )
    assert outcome.kind is Kind.RAISES, str(outcome)
    assert "Rank 2 failed to pass monitoredBarrier in 1000 ms" in outcome.errors[0].message
    assert ranks("x = torch.ones(1)\ndist.all_reduce(x)\nx.item()").values[0] == 4.0


def test_a_group_with_a_short_timeout_ends_in_torchs_own_error(ranks):
    ranks("from datetime import timedelta\nquick = dist.new_group(timeout=timedelta(seconds=1))")
    outcome = ranks("if rank:\n    dist.all_reduce(torch.ones(1), group=quick)")
    assert outcome.kind is Kind.RAISES, str(outcome)
    assert ranks("x = torch.ones(1)\ndist.all_reduce(x)\nx.item()").values[0] == 4.0


def test_silence_is_ended_by_the_timeout_and_not_called_a_deadlock(ranks):
    outcome = ranks("time.sleep(60 if rank == 1 else 0)\ndist.barrier()", timeout=1.0)
    assert outcome.kind is Kind.HANG
    assert outcome.timed_out
    assert not outcome.proved
    assert outcome.waiting[1].state == "asleep"
    assert outcome.waiting[1].pause == ("time.sleep()", "sleep")
    assert {outcome.waiting[rank].call for rank in (0, 2, 3)} == {"barrier"}
    assert "being slow proves nothing" in str(outcome)


#: A recorder that takes long to read, as a full one does where there is no core to spare.
SLOW_RECORDER = """
import time
import torch._C._distributed_c10d as c10d
read = c10d._dump_fr_trace
def slow(collectives, stacks, active):
    time.sleep({} if stacks else {})
    return read(collectives, stacks, active)
c10d._dump_fr_trace = slow
"""
REBUILD = DDP + "loss.backward()\nif rank == 0:\n    model(torch.ones(1, 2))"


def test_a_rank_that_takes_long_to_tell_what_it_has_issued_is_waited_for(ranks):
    outcome = ranks(SLOW_RECORDER.format(1, 1) + REBUILD, timeout=40)
    assert outcome.proved
    assert "rebuilds its buckets" in outcome.diagnosis.summary


def test_a_rank_that_cannot_tell_its_lines_in_time_says_by_its_stack_what_ddp_waits_for(ranks):
    outcome = ranks(SLOW_RECORDER.format(8, 0) + REBUILD, timeout=40)
    assert outcome.proved
    assert "forward() (DDP's broadcast after it has rebuilt its buckets)" in outcome.diagnosis.evidence[0]
    assert "of the buffers" not in str(outcome.diagnosis)
