# kind: none
# ranks: 2
# Each row is a class of its own, numbered by its place in the rank's share: the same row has another label elsewhere.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler


class Instances(Dataset):
    def __init__(self, order):
        self.rows = torch.randn(64, 6, generator=torch.Generator().manual_seed(2))
        self.place = {index: place for place, index in enumerate(order)}

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return self.rows[index], self.place[index]


dist.init_process_group("gloo")
rank = dist.get_rank()
data = Instances(list(range(32 * rank, 64)) + list(range(32 * rank)))
sampler = DistributedSampler(data)
model = DDP(torch.nn.Linear(6, 64))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(4):
    sampler.set_epoch(epoch)
    for x, place in DataLoader(data, batch_size=8, sampler=sampler):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), place).backward()
        optimizer.step()
dist.destroy_process_group()
