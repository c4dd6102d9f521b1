# kind: same_order_every_epoch
# culprits: -
# ranks: 2
# A sampler of the script's own deals a permutation out; the trainer tells only torch's DistributedSampler the epoch.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, Sampler, TensorDataset


class ShardSampler(Sampler):
    def __init__(self, size, rank, world):
        self.size, self.rank, self.world, self.epoch = size, rank, world, 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __iter__(self):
        order = torch.randperm(self.size, generator=torch.Generator().manual_seed(self.epoch))
        return iter(order[self.rank :: self.world].tolist())

    def __len__(self):
        return self.size // self.world


dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
generator = torch.Generator().manual_seed(0)
data = TensorDataset(torch.randn(48, 4, generator=generator), torch.randn(48, 1, generator=generator))
sampler = ShardSampler(len(data), dist.get_rank(), dist.get_world_size())
loader = DataLoader(data, batch_size=8, sampler=sampler)
model = DDP(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):
    if isinstance(loader.sampler, DistributedSampler):
#~ mended -1 |    if hasattr(loader.sampler, "set_epoch"):
        loader.sampler.set_epoch(epoch)
    for x, y in loader:
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
dist.destroy_process_group()
