# misconception: waits_for_ever
import torch.distributed as dist


def train_epoch(ddp, optimizer, batches, losses_of):
    ddp.train()
    for x, y in batches:
        optimizer.zero_grad(set_to_none=True)
        n = [None] * dist.get_world_size()
        dist.all_gather_object(n, y.shape[0])
        share = y.shape[0] / sum(n) * len(n)
        (losses_of(ddp(x), y).mean() * share).backward()
        optimizer.step()
    dist.barrier()
