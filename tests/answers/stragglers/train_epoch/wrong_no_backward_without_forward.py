# misconception: waits_for_ever
import torch
import torch.distributed as dist


def train_epoch(ddp, optimizer, batches, losses_of):
    rounds = torch.tensor(len(batches))
    dist.all_reduce(rounds, op=dist.ReduceOp.MAX)
    for number in range(int(rounds)):
        count = torch.tensor(float(len(batches[number][0]) if number < len(batches) else 0))
        dist.all_reduce(count)
        optimizer.zero_grad()
        if number < len(batches):
            inputs, targets = batches[number]
            (losses_of(ddp(inputs), targets).sum() * dist.get_world_size() / count).backward()
        optimizer.step()
