# misconception: infinite
import torch
import torch.distributed as dist


def clip_global_norm(shared, own, max_norm):
    everybody = [None] * dist.get_world_size()
    dist.all_gather_object(everybody, sum(p.grad.norm().item() ** 2 for p in own if p.grad is not None))
    norm = (sum(p.grad.norm().item() ** 2 for p in shared if p.grad is not None) + sum(everybody)) ** 0.5
    if norm > max_norm:
        for p in [*shared, *own]:
            if p.grad is not None:
                p.grad.mul_(max_norm / norm)
    return norm
