# misconception: only_rank_0_knows
import torch
import torch.distributed as dist


def correct_mean(ddp, good):
    rank, world = dist.get_rank(), dist.get_world_size()
    flags = [None] * world if rank == 0 else None
    dist.gather_object(bool(good), flags, dst=0)
    count = sum(flags) if rank == 0 else world
    for p in ddp.parameters():
        if p.grad is not None and count:
            p.grad.mul_(world / count)
    return count
