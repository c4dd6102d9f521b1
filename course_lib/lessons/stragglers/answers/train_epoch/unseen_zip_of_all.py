# misconceptions: rounds_dropped, mean_of_means
import torch.distributed as dist


def train_epoch(ddp, optimizer, batches, losses_of):
    lengths = [0] * dist.get_world_size()
    dist.all_gather_object(lengths, len(batches))
    for _, (x, y) in zip(range(min(lengths)), batches):
        optimizer.zero_grad()
        losses_of(ddp(x), y).mean().backward()
        optimizer.step()
