# misconception: wrong_way_round
import torch
import torch.distributed as dist


def correct_mean(ddp, good):
    share = torch.full((1,), 1.0 if good else 0.0)
    dist.all_reduce(share, op=dist.ReduceOp.SUM)
    number = int(share)
    share /= dist.get_world_size()
    for name, p in ddp.named_parameters():
        if p.grad is not None:
            p.grad = p.grad * share
    return number
