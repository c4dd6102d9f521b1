# misconception: own_norm
import torch
import torch.distributed as dist


def clip_global_norm(shared, own, max_norm):
    grads = [p.grad for p in list(shared) + list(own) if p.grad is not None]
    norm = torch.stack([g.norm() for g in grads]).norm()
    if not torch.isfinite(norm):
        return float(norm)
    if norm > max_norm:
        for g in grads:
            g.mul_(max_norm / norm)
    return float(norm)
