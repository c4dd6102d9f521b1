"""What the course sees of real ranks: fingerprints, comparisons, buckets, timelines."""

import json
import re
from pathlib import Path

import pytest

from realranks.outcome.outcome import RankVariableError
from realranks.watch import CompareError, compare
from realranks.watch.shares import Relation
from tests.support.ranks_and_kernels import ROOT

MODEL = """
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, RandomSampler
from realranks.watch import buckets, compare, fingerprint

def net(*extra):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), *extra, nn.ReLU(), nn.Linear(16, 4))

def step(model, optimizer=None):
    model(torch.randn(6, 8)).square().sum().backward()
    if optimizer:
        optimizer.step()
        optimizer.zero_grad()
"""


@pytest.fixture(scope="module")
def ranks(shared_ranks):
    out = shared_ranks(MODEL)
    assert out.ok, out
    return shared_ranks


def run(ranks, source):
    out = ranks(source)
    assert out.ok, out
    return out


# -- compare ------------------------------------------------------------------------------------------------------


def test_a_model_in_training_is_equal_on_all_ranks(ranks):
    out = run(
        ranks,
        """
ddp = DDP(net())
optimizer = torch.optim.Adam(ddp.parameters(), lr=0.01)
torch.manual_seed(rank)
for _ in range(3):
    step(ddp, optimizer)
step(ddp)
found = compare(model=ddp, optimizer=optimizer)
""",
    )
    assert all(found.equal for found in out["found"].values())
    assert len({repr(found) for found in out["found"].values()}) == 1
    found = compare(out, "ddp", "optimizer")
    assert found.equal, found
    assert list(found.parts) == [
        "ddp parameters",
        "ddp buffers",
        "ddp gradients",
        "optimizer state",
        "optimizer options",
    ]
    assert "equal (4 tensors)" in repr(found)
    assert "equal (12 tensors)" in repr(found)  # exp_avg, exp_avg_sq, step of four parameters
    assert {name for part in ("ddp parameters",) for name in out["found"][0].parts} >= {"model parameters"}


def test_weights_changed_on_one_rank(ranks):
    out = run(
        ranks,
        """
ddp = DDP(net())
if rank == 2:
    with torch.no_grad():
        ddp.module[2].weight[1, 3] += 0.5
found = compare(ddp)
""",
    )
    for found in out["found"].values():
        (difference,) = found.differences
        assert (difference.part, difference.name, difference.odd) == ("parameters", "2.weight", (2,))
        assert 0 < difference.at_least <= 0.5 + 1e-6
    assert compare(out, "ddp").differences[0].majority == (0, 1, 3)


def test_buffers_that_drift(ranks):
    out = run(
        ranks,
        """
ddp = DDP(net(nn.BatchNorm1d(16)), broadcast_buffers=False)
torch.manual_seed(rank)
for _ in range(2):
    step(ddp)
found = compare(ddp)
""",
    )
    found = out["found"][0]
    assert found.parts["parameters"].equal
    assert found.parts["gradients"].equal
    assert {d.name for d in found.parts["buffers"].differences} == {"1.running_mean", "1.running_var"}
    assert all(d.at_least > 0 for d in found.differences)
    assert "num_batches_tracked" not in repr(found)


def test_the_optimizers_state_and_options(ranks):
    out = run(
        ranks,
        """
ddp = DDP(net())
optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1 if rank else 0.2, momentum=0.9)
step(ddp, optimizer)
if rank == 3:
    optimizer.state[ddp.module[0].bias]["momentum_buffer"].mul_(2)
""",
    )
    found = compare(out, "ddp", "optimizer")
    assert not found.parts["ddp parameters"].equal  # they have taken steps of different lengths
    (lr,) = found.parts["optimizer options"].differences
    assert (lr.name, lr.odd) == ("lr", (0,))
    assert "0.2 on rank 0" in str(lr)
    (momentum,) = found.parts["optimizer state"].differences
    assert (momentum.name, momentum.odd) == ("1.momentum_buffer", (3,))


def test_state_that_one_rank_has_not_got(ranks):
    out = run(
        ranks,
        """
plain = net()
optimizer = torch.optim.Adam(plain.parameters())
step(plain, optimizer if rank else None)
""",
    )
    found = compare(out, "plain", "optimizer")
    state = found.parts["optimizer state"].differences
    assert len(state) == 12
    assert "missing on rank 0" in str(state[0])
    gradients = found.parts["plain gradients"].differences
    assert "no gradient on ranks 1-3" in str(gradients[0])


def test_samplers(ranks):
    out = run(
        ranks,
        """
data = list(range(10))
even = DistributedSampler(list(range(12)))
padded = DistributedSampler(data, shuffle=False)
seeded = DistributedSampler(list(range(100)), seed=rank)
same = DataLoader(data, batch_size=3)
""",
    )
    assert compare(out, "even").parts["even sampler"].shares.relation is Relation.DISJOINT
    padded = compare(out, "padded").parts["padded sampler"].shares
    assert padded.relation is Relation.OVERLAPPING
    assert padded.shared == (0, 1)
    assert padded.only_padding
    seeded = compare(out, "seeded").parts["seeded sampler"].shares
    assert seeded.relation is Relation.OVERLAPPING
    assert seeded.missing > 0
    assert not seeded.only_padding
    assert compare(out, "same").equal


def test_looking_at_a_sampler_changes_nothing(ranks):
    out = run(
        ranks,
        """
import random
own = torch.Generator().manual_seed(5)
samplers = [RandomSampler(range(20)), RandomSampler(range(20), generator=own)]
before = fingerprint(["rng", own])
seen = [fingerprint(sampler) for sampler in samplers for _ in range(2)]
unchanged = before == fingerprint(["rng", own]) and seen[0] == seen[1] and seen[2] == seen[3]
as_drawn = seen[2]["parts"]["sampler"]["entries"]["indices"]["indices"] == list(samplers[1])
""",
    )
    assert all(out["unchanged"].values())
    assert all(out["as_drawn"].values())


def test_random_generators(ranks):
    out = run(ranks, "torch.manual_seed(7)\nimport random\nrandom.seed(7)\nsame = compare('rng')")
    assert out["same"][0].parts["rng"].count >= 2
    names = {difference.name for difference in out["same"][0].differences}
    assert not names & {"torch", "python"}
    out = run(
        ranks,
        "if rank == 1:\n    _ = torch.rand(1)\nown = torch.Generator().manual_seed(rank)\n"
        "found, owns = compare(rng='rng'), compare(own=own)",
    )
    difference = next(d for d in out["found"][0].differences if d.name == "torch")
    assert difference.odd == (1,)
    assert not out["owns"][0].equal


def test_a_variable_that_only_some_ranks_have(ranks):
    out = run(ranks, "if rank < 2:\n    weights = torch.ones(3)")
    found = compare(out, "weights")
    assert not found.equal
    assert "missing on ranks 2 and 3" in repr(found)
    with pytest.raises(RankVariableError, match="nothing_like_it"):
        compare(out, "nothing_like_it")


def test_what_has_no_fingerprint_is_refused_on_every_rank(ranks):
    out = ranks("compare(thing=object() if rank == 1 else torch.ones(1))")
    assert set(out.errors) == {0, 1, 2, 3}
    assert all("rank 1: TypeError" in error.message for error in out.errors.values())
    out = run(ranks, "thing = object()")
    with pytest.raises(CompareError, match="fingerprint"):
        compare(out, "thing")


def test_every_sort_of_tensor_has_a_fingerprint(ranks):
    out = run(
        ranks,
        """
import json
tensors = {
    "bfloat16": torch.ones(3, dtype=torch.bfloat16), "half": torch.ones(3).half(), "empty": torch.empty(0),
    "scalar": torch.tensor(3), "bool": torch.tensor([True, False]), "columns": torch.arange(12.).reshape(3, 4).t(),
    "expanded": torch.ones(1).expand(5), "meta": torch.empty(2, 2, device="meta"), "complex": torch.ones(2) * 1j,
    "sparse": torch.eye(3).to_sparse(), "csr": torch.eye(3).to_sparse_csr(),
    "float8": torch.ones(4).to(torch.float8_e4m3fn),
    "odd": torch.tensor([1., float("nan"), float("inf"), -float("inf")]), "long": torch.arange(100),
}
found = fingerprint(tensors)["parts"]["values"]["entries"]
text = json.dumps(found, allow_nan=False)
same = fingerprint(torch.arange(12.).reshape(3, 4).t().contiguous())["parts"]["value"]["entries"][""]
""",
    )
    found = out["found"][0]
    assert found["odd"]["nan"] == 1
    assert found["odd"]["inf"] == 2
    assert found["odd"]["samples"] == [1.0, "nan", "inf", "-inf"]
    assert len(found["long"]["samples"]) == 32
    assert (found["long"]["samples"][0], found["long"]["samples"][-1]) == (0, 99)
    assert found["columns"]["crc"] == out["same"][0]["crc"]  # how it lies in memory does not matter
    assert "crc" not in found["meta"]
    assert found["sparse"]["layout"] == "sparse_coo"
    assert found["bfloat16"]["dtype"] == "bfloat16"
    assert json.loads(out["text"][0]) == found


def test_wrappers_and_ties_in_names(ranks):
    out = run(
        ranks,
        """
class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = DDP(net())
        self.b = nn.Linear(4, 4)
        self.c = nn.Linear(4, 4)
        self.c.weight = self.b.weight

pair = Pair()
parts = fingerprint(pair)["parts"]
""",
    )
    parameters = out["parts"][0]["parameters"]["entries"]
    assert set(parameters) == {
        *("a.0.weight", "a.0.bias", "a.2.weight", "a.2.bias"),
        *("b.weight", "b.bias", "c.weight", "c.bias"),
    }
    assert parameters["c.weight"] == {"kind": "tied", "to": "b.weight"}
    assert compare(out, "pair").equal


# -- buckets ------------------------------------------------------------------------------------------------------

RECORD = """
seen = []

def record(names, bucket):
    seen.append([names[parameter] for parameter in bucket.parameters()])
    return dist.all_reduce(bucket.buffer(), async_op=True).get_future().then(lambda f: f.value()[0])

def watched(**options):
    torch.manual_seed(0)
    unused = options.pop("unused", False)
    model = nn.Sequential(nn.Linear(8, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 4))
    if unused:
        model.register_parameter("never_used", nn.Parameter(torch.zeros(3)))
    ddp = DDP(model, **options)
    ddp.register_comm_hook({p: name for name, p in model.named_parameters()}, record)
    seen.clear()
    told, reduced = [], []
    for _ in range(4):
        told.append(buckets(ddp))  # before the forward, which may rebuild
        step(ddp)
        reduced.append([list(names) for names in seen])
        seen.clear()
    return told, reduced, buckets(ddp)
"""


@pytest.mark.parametrize(
    "options",
    [
        "",
        "bucket_cap_mb=0.1",
        "find_unused_parameters=True",
        "find_unused_parameters=True, unused=True, bucket_cap_mb=0.1",
        "static_graph=True",
        "static_graph=True, bucket_cap_mb=0.1",
        "gradient_as_bucket_view=True, bucket_cap_mb=0.1",
    ],
)
def test_buckets_are_those_that_a_hook_is_given(ranks, options):
    out = run(ranks, f"{RECORD}\ntold, reduced, last = watched({options})")
    for rank in range(4):
        told, reduced, last = out["told"][rank], out["reduced"][rank], out["last"][rank]
        first = [list(bucket.parameters) for bucket in told[0].now]
        assert first == reduced[0]
        assert [list(bucket.parameters) for bucket in last.now] == reduced[3] == reduced[2]
        assert [list(bucket.parameters) for bucket in last.built] == first
        if "find_unused" in options:
            assert last.rebuilt is None
            assert not last.rebuilds
            assert reduced[1] == reduced[0]
        else:
            assert last.rebuilt is not None
        if "0.1" in options:
            assert len(last.now) > 1
        assert "never_used" not in last.ready
        assert set(last.ready) == {name for names in reduced[3] for name in names} - {"never_used"}
        assert last.ready[0] in ("4.bias", "4.weight")
        assert last.ready[-1] in ("0.bias", "0.weight")


def test_the_flight_recorder_saw_buckets_of_these_sizes(ranks):
    run(ranks, "ddp = DDP(net(), bucket_cap_mb=0.0002)\nfor _ in range(3):\n    step(ddp)")
    out = run(ranks, "step(ddp)\nnow = buckets(ddp).now")
    for rank, now in out["now"].items():
        assert len(now) > 1
        recorded = [c for c in out.collectives[rank] if "all_reduce" in c.op or "allreduce" in c.op]
        assert [c.sizes[0][0] * 4 for c in recorded] == [bucket.bytes for bucket in now]


def test_buckets_before_any_step_and_of_something_else(ranks):
    out = run(ranks, "found = buckets(DDP(net()))")
    assert "no backward yet" in repr(out["found"][0])
    out = ranks("buckets(net())")
    assert "not a Sequential" in out.errors[0].message


# -- timeline -----------------------------------------------------------------------------------------------------


def traced(ranks, source):
    out = ranks(source, trace=True)
    assert out.ok, out
    return out.timeline


@pytest.mark.parametrize(
    "source",
    [
        "if rank == 1: time.sleep(0.6)\nstep(ddp)",
        "if rank == 1: time.sleep(0.6)\ndist.all_reduce(torch.ones(10))",
        "if rank == 1: time.sleep(0.6)\ndist.barrier()",
        "if rank == 1: time.sleep(0.6)\ndist.all_reduce(torch.ones(10), async_op=True).wait()",
        "if rank == 1: time.sleep(0.6)\nstep(batchnormed)",
    ],
    ids=["backward", "all_reduce", "barrier", "wait", "buffers in forward"],
)
def test_everybody_waits_for_a_straggler(ranks, source):
    run(
        ranks,
        "ddp, batchnormed = DDP(net()), DDP(net(nn.BatchNorm1d(16)))\n"
        "for model in (ddp, batchnormed):\n    for _ in range(3):\n        step(model)\ndist.barrier()",
    )
    timeline = traced(ranks, source)
    for rank in (0, 2, 3):
        assert timeline.waiting(rank) >= 0.45, timeline.summary()
    assert timeline.waiting(1) < 0.24, timeline.summary()


def test_what_is_under_way_in_the_background_is_no_waiting(ranks):
    timeline = traced(
        ranks,
        "if rank == 1: time.sleep(0.6)\n"
        "work = dist.all_reduce(torch.ones(10), async_op=True)\n"
        "if rank != 1: time.sleep(0.9)\n"
        "work.wait()",
    )
    for rank in (0, 2, 3):
        assert timeline.seconds(rank, "communication") > 0.45, timeline.summary()
        assert timeline.waiting(rank) < 0.225, timeline.summary()


def test_each_buckets_all_reduce_is_a_span(ranks):
    run(
        ranks,
        "models = [DDP(net(), bucket_cap_mb=0.0002), DDP(net(), bucket_cap_mb=0.0002, find_unused_parameters=True),"
        " DDP(net(), bucket_cap_mb=0.0002, static_graph=True)]\n"
        "for model in models:\n    for _ in range(3):\n        step(model)",
    )
    for number in range(3):
        counts = run(ranks, f"count = len(buckets(models[{number}]).now)")["count"]
        timeline = traced(ranks, f"for _ in range(2):\n    step(models[{number}])")
        for rank, count in counts.items():
            assert count > 1
            numbers = [span.bucket for span in timeline.buckets(rank)]
            # gloo's threads may begin two of one step in either order; a step's buckets never mix with the next one's.
            assert [sorted(numbers[:count]), sorted(numbers[count:])] == [[*range(count)], [*range(count)]]
            assert all(span.duration > 0 for span in timeline.buckets(rank))


def test_the_first_backward_of_a_static_graph_has_its_bucket_too(ranks):
    run(ranks, "ddp = DDP(net(), static_graph=True)")
    timeline = traced(ranks, "step(ddp)")
    assert all([span.bucket for span in timeline.buckets(rank)] == [0] for rank in timeline.ranks)


def test_a_collective_that_ends_after_the_code_is_in_the_trace(ranks):
    timeline = traced(
        ranks, "if rank == 1: time.sleep(0.1)\nwork = dist.all_reduce(torch.ones(10), async_op=True)"
    )
    for rank in timeline.ranks:
        names = [span.name for span in timeline.spans if span.rank == rank]
        assert "gloo:all_reduce" in names, names
    run(ranks, "work.wait()")


def test_a_trace_leaves_torch_as_it_was(ranks):
    source = (
        "from torch._C._distributed_c10d import Reducer, Work\n"
        "state = [vars(Work)['wait'], vars(Reducer)['_rebuild_buckets'], torch.autograd._engine_run_backward,\n"
        "         torch.futures.Future.wait, dist._broadcast_coalesced]\n"
    )
    run(ranks, source + "before = state")
    traced(ranks, "ddp = DDP(net())\nstep(ddp)")
    out = run(ranks, source + "same = all(a is b for a, b in zip(before, state))\nstep(ddp)")
    assert all(out["same"].values())


def test_a_bare_wait_that_never_ends_is_proved_under_a_trace_too(ranks):
    out = ranks(
        "work = dist.all_reduce(torch.ones(1), async_op=True) if rank else None\nif rank: work.wait()",
        trace=True,
        timeout=30,
    )
    assert out.kind == "hang"
    assert out.proved
    assert set(out.waiting) == {1, 2, 3}


# -- the page -----------------------------------------------------------------------------------------------------


def examples() -> list[str]:
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    return re.findall(r"```python\n(.*?)```", page, re.DOTALL)


def test_the_examples_of_the_page_run(kernel, tmp_path: Path):
    cells = examples()
    assert len(cells) > 5
    kernel.run(f"import os\nos.chdir({str(tmp_path)!r})")
    for cell in cells:
        shown = kernel.run(cell, timeout=120)
        assert shown.status == "ok", f"{cell}\n{shown.text}"
        for line in re.findall(r"^# -> (.*)$", cell, re.MULTILINE):
            assert line in shown.text, f"{cell}\n{shown.text}"
