# misconception: summed
import torch
import torch.distributed as dist


def train_epoch(ddp, optimizer, batches, losses_of):
    most = torch.tensor(float(len(batches)))
    dist.all_reduce(most, op=dist.ReduceOp.MAX)
    queue = list(batches)
    for _ in range(int(most.item())):
        optimizer.zero_grad()
        inputs, targets = queue.pop(0) if queue else (torch.empty(0, 4), torch.empty(0, 2))
        losses = losses_of(ddp(inputs), targets)
        losses.sum().backward()
        optimizer.step()
