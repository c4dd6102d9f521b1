# misconception: norms_added
import torch
import torch.distributed as dist


def clip_global_norm(shared, own, max_norm):
    def norm_of(params):
        squares = [p.grad.pow(2).sum() for p in params if p.grad is not None]
        return torch.stack(squares).sum().sqrt() if squares else torch.tensor(0.0)

    others = [None] * dist.get_world_size()
    dist.all_gather_object(others, norm_of(own).item())
    norm = norm_of(shared).item() + sum(others)
    if torch.isfinite(torch.tensor(norm)) and norm > max_norm:
        for p in (*shared, *own):
            if p.grad is not None:
                p.grad.mul_(max_norm / norm)
    return norm
