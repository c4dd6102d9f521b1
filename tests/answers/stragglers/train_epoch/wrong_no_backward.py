# misconception: waits_for_ever
# breaks: The ranks have different numbers of batches
import torch
import torch.distributed as dist


def train_epoch(ddp, optimizer, batches, losses_of):
    rounds = torch.tensor(len(batches))
    dist.all_reduce(rounds, op=dist.ReduceOp.MAX)
    for number in range(int(rounds)):
        inputs, targets = batches[number] if number < len(batches) else (torch.zeros(0, 4), torch.zeros(0, 2))
        count = torch.tensor(float(len(inputs)))
        dist.all_reduce(count)
        optimizer.zero_grad()
        losses = losses_of(ddp(inputs), targets)
        if len(inputs):
            (losses.sum() * dist.get_world_size() / count).backward()
            optimizer.step()
