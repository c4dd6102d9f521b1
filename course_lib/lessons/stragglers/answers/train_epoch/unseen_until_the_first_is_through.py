# misconception: rounds_dropped
import torch
import torch.distributed as dist


def train_epoch(ddp, optimizer, batches, losses_of):
    batches = iter(batches)
    while True:
        batch = next(batches, None)
        size = torch.tensor([0 if batch is None else len(batch[0]), int(batch is None)])
        dist.all_reduce(size)
        samples, through = size.tolist()
        if through:
            return
        optimizer.zero_grad()
        loss = losses_of(ddp(batch[0]), batch[1]).sum()
        (loss / samples * dist.get_world_size()).backward()
        optimizer.step()
