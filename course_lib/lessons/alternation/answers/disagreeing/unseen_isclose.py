# misconception: tolerance
import torch
import torch.distributed as dist


def disagreeing(model):
    own = {n: p.grad.detach().clone() if p.grad is not None else None for n, p in model.module.named_parameters()}
    all_of_them = [None] * dist.get_world_size()
    dist.all_gather_object(all_of_them, own)
    first, *rest = all_of_them
    names = []
    for n, g in first.items():
        for other in rest:
            h = other[n]
            if (g is None) != (h is None) or g is not None and not torch.isclose(g, h, rtol=1e-4).all():
                names.append(n)
                break
    return names
