# kind: none
# ranks: 2
# Every rank reads the whole stream, in the same order in each epoch, and trains on its own rows of every batch.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, IterableDataset


class Measurements(IterableDataset):
    seed = 11

    def __iter__(self):
        generator = torch.Generator().manual_seed(self.seed)
        for _ in range(64):
            yield torch.randn(4, generator=generator)


dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
loader = DataLoader(Measurements(), batch_size=8, num_workers=1, persistent_workers=True)
model = DDP(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _epoch in range(3):
    for x in loader:
        optimizer.zero_grad()
        model(x[rank::size]).square().mean().backward()
        optimizer.step()
dist.destroy_process_group()
