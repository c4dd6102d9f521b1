"""What the forkserver has loaded is what a training step needs: ranks import nothing of it again."""

TRAIN = """
import sys
before = set(sys.modules)
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler
data = TensorDataset(torch.randn(16, 4), torch.randint(0, 2, (16,)))
loader = DataLoader(data, batch_size=2, sampler=DistributedSampler(data))
model = DDP(torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.ReLU(), torch.nn.Linear(8, 2)))
optimizer = torch.optim.{optimizer}(model.parameters(), lr=0.1)
for inputs, targets in loader:
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(inputs), targets).backward()
    optimizer.step()
dist.barrier()
sorted(name for name in set(sys.modules) - before if name.split('.')[0] in ('torch', 'numpy', 'sympy'))
"""


def test_a_first_training_step_imports_nothing_of_torch(ranks):
    ranks.gang.stop()
    from tests.support.ranks_and_kernels import Ranks

    for optimizer in ("SGD", "Adam"):
        new = Ranks(2)
        outcome = new(TRAIN.replace("{optimizer}", optimizer))
        new.gang.stop()
        assert outcome.values == {0: [], 1: []}, str(outcome)


def test_a_traced_step_imports_nothing_of_torch():
    from tests.support.ranks_and_kernels import Ranks

    new = Ranks(2)
    outcome = new(TRAIN.replace("{optimizer}", "SGD"), trace=True)
    new.gang.stop()
    assert outcome.values == {0: [], 1: []}, str(outcome)


def test_what_a_first_step_does_not_need_is_loaded_once_the_forkserver_has_time():
    from tests.support.ranks_and_kernels import Ranks, until

    def found() -> bool:
        new = Ranks(1)
        outcome = new("import sys\n'torch.distributed.optim' in sys.modules")
        new.gang.stop()
        return outcome.values == {0: True}

    assert until(found)
