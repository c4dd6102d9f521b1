# misconception: shared_counted_by_all
import torch
import torch.distributed as dist


def clip_global_norm(shared, own, max_norm):
    params = [p for p in [*shared, *own] if p.grad is not None]
    total = torch.zeros(1, dtype=torch.float64)
    for p in params:
        total += p.grad.double().pow(2).sum()
    dist.all_reduce(total)
    norm = float(total) ** 0.5
    if norm > max_norm and norm < float("inf"):
        for p in params:
            p.grad.mul_(max_norm / norm)
    return norm
