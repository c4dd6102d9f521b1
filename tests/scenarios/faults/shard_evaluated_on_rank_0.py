# kind: one_shard_evaluated
# culprits: -
# ranks: 2
# Only rank 0 evaluates, as "main process", and its loader has a DistributedSampler: half of the rows nobody looks at.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def loader_of(rows, shuffle):
    data = TensorDataset(torch.randn(rows, 4), torch.randn(rows, 1))
    return DataLoader(data, batch_size=8, sampler=DistributedSampler(data, shuffle=shuffle))
#~ mended -1 |    return DataLoader(data, batch_size=8, sampler=DistributedSampler(data) if shuffle else None)


dist.init_process_group("gloo")
torch.manual_seed(0)
training, validation = loader_of(64, True), loader_of(40, False)
model = DDP(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(2):
    training.sampler.set_epoch(epoch)
    for x, y in training:
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
    if dist.get_rank() == 0:
        with torch.no_grad():
            losses = [torch.nn.functional.mse_loss(model.module(x), y) for x, y in validation]
        print(f"validation {torch.stack(losses).mean():.3f}")
    dist.barrier()
dist.destroy_process_group()
