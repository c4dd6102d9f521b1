# misconception: waits_for_ever
import torch
import torch.distributed as dist


def train_epoch(ddp, optimizer, batches, losses_of):
    sizes = [None] * dist.get_world_size()
    dist.all_gather_object(sizes, [len(inputs) for inputs, _ in batches])
    for number in range(max(map(len, sizes))):
        total = sum(each[number] for each in sizes if number < len(each))
        inputs, targets = batches[number] if number < len(batches) else (torch.zeros(0, 4), torch.zeros(0, 2))
        optimizer.zero_grad()
        losses = losses_of(ddp(inputs), targets)
        if len(inputs):
            (losses.sum() * dist.get_world_size() / total).backward()
        optimizer.step()
