# misconception: mean_of_means
import torch
import torch.distributed as dist


def train_epoch(ddp, optimizer, batches, losses_of):
    counts = [None for _ in range(dist.get_world_size())]
    dist.all_gather_object(counts, len(batches))
    for step in range(max(counts)):
        present = sum(count > step for count in counts)
        optimizer.zero_grad()
        if step < len(batches):
            inputs, targets = batches[step]
            loss = losses_of(ddp(inputs), targets).mean()
        else:
            loss = sum(p.sum() for p in ddp.module.parameters()) * 0 + ddp(torch.zeros(1, 4)).sum() * 0
        (loss * dist.get_world_size() / present).backward()
        optimizer.step()
