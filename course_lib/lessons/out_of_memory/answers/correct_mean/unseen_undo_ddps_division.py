# misconception: summed
import torch
import torch.distributed as dist


def correct_mean(ddp, good):
    votes = [None] * dist.get_world_size()
    dist.all_gather_object(votes, good)
    grads = [p.grad for p in ddp.parameters() if p.grad is not None]
    torch._foreach_mul_(grads, len(votes))
    return votes.count(True)
