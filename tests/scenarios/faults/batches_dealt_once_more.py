# kind: split_twice
# culprits: -
# ranks: 2
# A trainer's loader takes each rank's batches out of all, and the sampler has given the rank its share before.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import BatchSampler, DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


class ShareOfBatches(BatchSampler):
    def __init__(self, batch_sampler):
        self.batch_sampler = batch_sampler
        self.batch_size, self.drop_last = batch_sampler.batch_size, batch_sampler.drop_last

    def __iter__(self):
        for number, batch in enumerate(self.batch_sampler):
            if number % dist.get_world_size() == dist.get_rank():
                yield batch

    def __len__(self):
        return len(self.batch_sampler) // dist.get_world_size()


dist.init_process_group("gloo")
torch.manual_seed(0)
data = TensorDataset(torch.randn(128, 4))
sampler = DistributedSampler(data)
#~ mended -1 |sampler = torch.utils.data.SequentialSampler(data)
loader = DataLoader(data, batch_sampler=ShareOfBatches(BatchSampler(sampler, 4, drop_last=False)))
model = DDP(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(2):
    sampler.set_epoch(epoch)
#~ mended -1 |    pass
    for (x,) in loader:
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
dist.destroy_process_group()
