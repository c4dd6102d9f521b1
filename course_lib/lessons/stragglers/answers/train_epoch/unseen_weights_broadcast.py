# misconception: optimizer_left_behind
import torch
import torch.distributed as dist


def train_epoch(ddp, optimizer, batches, losses_of):
    table = [None] * dist.get_world_size()
    dist.all_gather_object(table, [y.shape[0] for _, y in batches])
    longest = max(table, key=len)
    source = [i for i, row in enumerate(table) if len(row) == len(longest)][-1]
    parameters = list(ddp.module.parameters())
    for i in range(len(longest)):
        total = sum(row[i] for row in table if i < len(row))
        for p in parameters:
            p.grad = torch.zeros_like(p)
        if i < len(batches):
            x, y = batches[i]
            (losses_of(ddp.module(x), y).sum() / total).backward()
        for p in parameters:
            dist.all_reduce(p.grad)
        if i < len(batches):
            optimizer.step()
    for p in parameters:
        dist.broadcast(p.data, source)
