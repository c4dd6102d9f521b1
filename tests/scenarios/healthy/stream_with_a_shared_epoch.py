# kind: none
# ranks: 2
# Workers that stay alive read the epoch from shared memory; another number of the stream is kept by the script alone.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, IterableDataset


class Clicks(IterableDataset):
    def __init__(self):
        self.now = torch.zeros(1, dtype=torch.long).share_memory_()
        self.epochs_begun = 0
        self.rank, self.ranks = dist.get_rank(), dist.get_world_size()

    def begin(self, epoch):
        self.now[0] = epoch
        self.epochs_begun += 1

    def __iter__(self):
        generator = torch.Generator().manual_seed(int(self.now))
        for number in torch.randperm(80, generator=generator)[self.rank :: self.ranks].tolist():
            yield torch.tensor([number, number % 7, 1.0]) / 80


dist.init_process_group("gloo")
torch.manual_seed(0)
data = Clicks()
loader = DataLoader(data, batch_size=8, num_workers=1, persistent_workers=True)
model = DDP(torch.nn.Linear(3, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):
    data.begin(epoch)
    for x in loader:
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
dist.destroy_process_group()
