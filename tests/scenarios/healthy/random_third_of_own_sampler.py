# kind: none
# ranks: 2
# A sampler of the script's own gives each rank a third of the rows by chance, none of them twice, in each short epoch.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Sampler, TensorDataset


class ShortEpoch(Sampler):
    def __init__(self, rows, number):
        self.rows, self.number = rows, number

    def __iter__(self):
        return iter(torch.randperm(self.rows)[: self.number].tolist())

    def __len__(self):
        return self.number


dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
data = TensorDataset(torch.linspace(-1, 1, 1200).reshape(300, 4))
loader = DataLoader(data, batch_size=10, sampler=ShortEpoch(len(data), 100))
model = DDP(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _epoch in range(2):
    for (x,) in loader:
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
dist.destroy_process_group()
