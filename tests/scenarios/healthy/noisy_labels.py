# kind: none
# ranks: 2
# Rows are the same on all ranks, each drawn with a random crop and a label that is wrong now and then.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler


class Noisy(Dataset):
    def __init__(self):
        generator = torch.Generator().manual_seed(0)
        self.rows = torch.randn(80, 8, generator=generator)
        self.labels = torch.randint(4, (80,), generator=generator)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        first = int(torch.randint(3, ()))
        label = self.labels[index] if torch.rand(()) < 0.8 else torch.randint(4, ())
        return self.rows[index, first : first + 6], label


dist.init_process_group("gloo")
torch.manual_seed(100 + dist.get_rank())
data = Noisy()
sampler = DistributedSampler(data)
model = DDP(torch.nn.Linear(6, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(6):
    sampler.set_epoch(epoch)
    for x, label in DataLoader(data, batch_size=8, sampler=sampler):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), label).backward()
        optimizer.step()
dist.destroy_process_group()
