# misconception: weights_compared
# breaks: Every rank returns the names of the parameters whose gradients differ between ranks.
# breaks: whose gradient is not the same on all ranks
import torch
import torch.distributed as dist


def disagreeing(model):
    names = []
    for name, p in model.module.named_parameters():
        others = [torch.empty_like(p) for _ in range(dist.get_world_size())]
        dist.all_gather(others, p.detach())
        if not all(torch.equal(p, other) for other in others):
            names.append(name)
    return names
