# kind: uneven_batches
# culprits: 0
# ranks: 2
# Streams of unequal length: the rank whose stream ends first goes on to the barrier behind the loop.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, IterableDataset


class Stream(IterableDataset):
    def __init__(self, length):
        self.length = length

    def __iter__(self):
        yield from torch.randn(self.length, 4)


dist.init_process_group("gloo")
loader = DataLoader(Stream(21 + 10 * dist.get_rank()), batch_size=5)
model = DDP(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    for batch in loader:
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()
    dist.barrier()
