# misconception: missing_gradient
import torch
import torch.distributed as dist


def disagreeing(model):
    vectors = {
        name: (p.grad if p.grad is not None else torch.zeros_like(p)).reshape(-1).tolist()
        for name, p in model.module.named_parameters()
    }
    gathered = [None] * dist.get_world_size()
    dist.all_gather_object(gathered, vectors)
    return [n for n in vectors if any(repr(g[n]) != repr(gathered[0][n]) for g in gathered)]
