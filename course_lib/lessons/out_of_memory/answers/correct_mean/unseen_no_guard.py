# misconception: nobody_good
import torch
import torch.distributed as dist


def correct_mean(ddp, good):
    n = torch.tensor(float(good))
    dist.all_reduce(n)
    for group in [list(ddp.parameters())]:
        for p in group:
            if p.grad is None:
                continue
            p.grad.div_(n / dist.get_world_size())
    return int(n.item())
