# misconception: infinite
import torch
import torch.distributed as dist


def clip_global_norm(shared, own, max_norm):
    square = torch.tensor(0.0)
    for p in own:
        if p.grad is not None:
            square += p.grad.norm() ** 2
    dist.all_reduce(square)
    for p in shared:
        if p.grad is not None:
            square += p.grad.norm() ** 2
    norm = square.sqrt()
    factor = (max_norm / norm).clamp(max=1.0)
    for p in [*shared, *own]:
        if p.grad is not None:
            p.grad.mul_(factor)
    return norm.item()
