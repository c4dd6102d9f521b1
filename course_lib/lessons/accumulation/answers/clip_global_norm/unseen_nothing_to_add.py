# misconception: somebody_missing
import torch
import torch.distributed as dist


def clip_global_norm(shared, own, max_norm):
    grads = [p.grad for p in own if p.grad is not None]
    square = sum((g.square().sum() for g in grads), torch.tensor(0.0))
    if grads:
        dist.all_reduce(square)
    everything = [p.grad for p in shared if p.grad is not None] + grads
    norm = (square + sum(p.grad.square().sum() for p in shared if p.grad is not None)).sqrt().item()
    if norm > max_norm and norm < float("inf"):
        for g in everything:
            g.mul_(max_norm / norm)
    return norm
