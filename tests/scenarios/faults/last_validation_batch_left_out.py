# kind: skipped_collective
# culprits: 1
# ranks: 2
# Predictions are gathered batch by batch; a batch that is not full is left out, and only rank 1 has one.
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

BATCH = 8


def gathered(tensor):
    if tensor is None:
        return tensor
    parts = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, tensor)
    return torch.cat(parts)


@torch.no_grad()
def evaluate(model, batches):
    right, seen = [], []
    for inputs, targets in batches:
        if len(inputs) < BATCH:
            continue
#~ mended -2 |        if len(inputs) < BATCH:
#~ |            inputs, targets = (torch.cat([each] * BATCH)[:BATCH] for each in (inputs, targets))
        right.append(gathered((model.module(inputs) > 0) == targets))
        seen.append(gathered(targets))
    return torch.cat(right).float().mean(), torch.cat(seen).float().mean()


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
x = torch.randn(64, 4)
data = TensorDataset(x, x.sum(1, keepdim=True) > 0)
train = DataLoader(data, batch_size=BATCH, sampler=DistributedSampler(data))
valid = DataLoader(TensorDataset(*data[rank * 24 : rank * 24 + (24, 22)[rank]]), batch_size=BATCH)
model = DDP(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):
    train.sampler.set_epoch(epoch)
    for inputs, targets in train:
        optimizer.zero_grad()
        torch.nn.functional.binary_cross_entropy_with_logits(model(inputs), targets.float()).backward()
        optimizer.step()
    print("right {:.2f}, of {:.2f} positive".format(*evaluate(model, valid)))
dist.destroy_process_group()
