"""torch.compile makes the same graphs of a script that is watched, and says nothing of the probe."""

from realranks.ranks.kernel.gang import Gang
from realranks.watch.watching import watching

SCRIPT = """
import torch
import torch.distributed as dist
from torch import nn
from torch._dynamo.testing import CompileCounterWithBackend
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 1)

    def forward(self, x):
        return self.b(torch.relu(self.a(x)))


def in_place(backend):
    net = Net()
    net.compile(backend=backend, fullgraph=True)
    return DDP(net)


WAYS = {
    "around": lambda backend: torch.compile(DDP(Net()), backend=backend),
    "inside": lambda backend: DDP(torch.compile(Net(), backend=backend, fullgraph=True)),
    "in place": in_place,
}
for name, way in WAYS.items():
    counted = CompileCounterWithBackend("aot_eager")
    torch.manual_seed(0)
    model = way(counted)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for step in range(3):
        optimizer.zero_grad()
        loss = model(torch.ones(2, 8)).sum()
        loss.backward()
        optimizer.step()
    print(f"{name}: {counted.frame_count} graphs, {counted.op_count} operations, {loss.item():.4f}")
"""


def test_the_probe_is_no_part_of_a_compiled_script(tmp_path):
    script = tmp_path / "compiled.py"
    script.write_text(SCRIPT)
    seen = []
    for around in (None, (f"{watching.__module__}:{watching.__name__}", {})):
        gang = Gang(2, init=False)
        try:
            seen.append(gang.run_script(str(script), (), timeout=300, around=around, repair=False).settled())
        finally:
            gang.stop()
    alone, watched = seen
    assert alone.ok
    assert watched.ok
    assert watched.stdout == alone.stdout
    assert "around: 1 graphs, 3 operations" in watched.stdout[0]
    assert [facts.probe.unseen for facts in watched.facts.values()] == [{}, {}]
    for word in ("Dynamo does not know", "realranks"):
        assert word not in "".join(watched.stderr.values())
